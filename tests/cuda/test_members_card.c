/* Members on the card that is not there (fake/): what they compute is what models compute that
 * are trained alone on it, however many there are, and wherever their ranges lie. */
#include "alloc/base/sys.h"
#include "runtime/exec/queue_internal.h"
#include "runtime/model/model.h"
#include "runtime/population/members_internal.h"
#include "tests/cuda/fake_card.h"
#include "tests/population/small_net.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("members on a card")

enum { N = 7, HIDDEN = 10, ROWS = 8, SAMPLES = 20, STEPS = 5 };
enum { MEMBER_POOL_HEAD = 64 }; /* of a packed member, before its range */

typedef struct {
    const char *device;
    sw_budget *budget;
    sw_exec *exec;
    small *shape;
    sw_members *all;
    sw_member member[N];
} member_pool;

/* ---- groups of small members ------------------------------------------------------------- */

static sw_exec *member_pool_exec(const char *device, sw_budget *budget, bool graphs)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .device = device, .budget = budget,
                             .no_graphs = !graphs && device != NULL));
}

static void end_budget(void *budget)
{
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    sw_budget_destroy(budget);
}

/* device NULL: the CPU. All end when the test ends, or before the next card. */
static sw_budget *member_pool_budget(size_t bytes)
{
    sw_budget *budget = NULL;
    OK(sw_budget_create(&budget, bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(budget);
    sw_after(end_budget, budget);
    return budget;
}

static uint64_t member_pool_seed(int k)
{
    return (uint64_t)(k % 5) + 1;
}

static float member_pool_factor(int k)
{
    return k % 2 == 0 ? 1.0f : 0.5f;
}

/* Seed and knob of member k. */
static member_pool member_pool_on(const char *device, sw_budget *budget, bool graphs)
{
    member_pool g = {.device = device, .budget = budget, .shape = small_new(HIDDEN)};
    g.exec = member_pool_exec(device, budget, graphs);
    g.all = small_group(g.exec, g.shape, NULL);
    for (int k = 0; k < N; k++) {
        OK(sw_member_new(&g.member[k], g.all, member_pool_seed(k)));
        OK(sw_member_knob_set(g.member[k], g.shape->factor, member_pool_factor(k)));
    }
    return g;
}

static sw_members_args member_pool_args(const sw_member *members, size_t n, const sw_feed *feed)
{
    return SW_OPTS(sw_members_args, .members = members, .n = n, .feed = feed, .mode = SW_TRAIN,
                   .own_steps = 1, .steps = STEPS);
}

/* SAMPLES in batches of ROWS, the last one smaller; STEPS of training with it. */
static const sw_feed *member_pool_feed(void)
{
    return small_feed(small_data(SAMPLES), ROWS, 0);
}

/* ---- bytes ------------------------------------------------------------------------------- */

static unsigned char *member_pool_packed(sw_member member)
{
    const size_t bytes = sw_members_packed_bytes(member.of);
    unsigned char *to = sw_block(bytes);
    OK(sw_member_pack(member, to, bytes));
    return to;
}

/* The bytes of a member, until the test ends; have two the same but for seed and progress? */
static bool member_pool_same(sw_member a, sw_member b)
{
    unsigned char *x = member_pool_packed(a), *y = member_pool_packed(b);
    return memcmp(x + MEMBER_POOL_HEAD, y + MEMBER_POOL_HEAD, a.of->stride) == 0;
}

/* The largest difference of two parameters. */
static double far(sw_member a, sw_param of_a, sw_member b, sw_param of_b, size_t n)
{
    float x[HIDDEN * SMALL_WIDTH], y[HIDDEN * SMALL_WIDTH];
    double most = 0.0;
    OK(sw_member_read(a, of_a, x, n * sizeof *x));
    OK(sw_member_read(b, of_b, y, n * sizeof *y));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
    return most;
}

/* ---- a model that is trained alone ------------------------------------------------------- */

typedef struct {
    unsigned char *bytes; /* all but the knobs */
    double loss;
} trained;

static trained alone(const char *device, int k, const sw_dataset *data, const sw_array *own)
{
    sw_exec *exec =
        net_exec(&SW_OPTS(sw_exec_opts, .device = device, .seed = member_pool_seed(k)));
    small *t = small_new(HIDDEN);
    sw_loader *loader = NULL;
    trained out = {.loss = (double)NAN};
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = ROWS, .seed = member_pool_seed(k), .shuffle = 1,
                .keyed = 1, .inline_fill = 1);
    OK(sw_model_ready(t->model, exec, member_pool_seed(k)));
    OK(sw_loader_create(&loader, data, &opts));
    OK(sw_loader_epoch(loader, 0));
    sw_knob_set(t->factor, member_pool_factor(k));
    for (uint64_t step = 0, epoch = 0; step < STEPS; step++) {
        const sw_array *in = own;
        int n = 2;
        if (own == NULL) {
            OK(sw_loader_next(loader, &in, &n));
            if (n == 0) {
                OK(sw_loader_epoch(loader, ++epoch));
                OK(sw_loader_next(loader, &in, &n));
            }
        }
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = small_step, .user = t, .models = &t->model,
                                 .n_models = 1, .inputs = in, .n_inputs = n, .mode = SW_TRAIN,
                                 .step = step)));
        OK(sw_metric_get(exec, "loss", &out.loss));
    }
    out.bytes = sw_block(t->model->bytes);
    OK(swi_model_read(t->model, out.bytes, 0, t->model->bytes));
    sw_loader_destroy(loader);
    return out;
}

static void check_alone(const member_pool *g, const sw_dataset *data, const sw_array *own,
                        const double *loss, const char *what)
{
    for (int k = 0; k < N; k++) {
        trained t = alone(g->device, k, data, own != NULL ? own + 2 * k : NULL);
        unsigned char *bytes = member_pool_packed(g->member[k]);
        SW_CHECK(memcmp(&t.loss, &loss[k], sizeof t.loss) == 0, "%s: loss of %d: %g and %g",
                 what, k, t.loss, loss[k]);
        SW_CHECK(memcmp(bytes + MEMBER_POOL_HEAD, t.bytes, g->all->model_bytes) == 0,
                 "%s: bytes of member %d", what, k);
    }
}

/* ---- what they compute ------------------------------------------------------------------- */

/* Feeds with a smaller last batch, knobs and seeds that differ, eager and late streams, with
 * and without graphs. */
SW_TEST("a member is a model that is trained alone")
{
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, ROWS, 0);
    for (int way = 0; way < 4; way++) {
        double loss[N], mean[N];
        sw_fake_card_new(&(sw_fake_card){.cannot_map = way == 3}, (uint64_t)way);
        member_pool g = member_pool_on("cuda", NULL, way != 2);
        sw_members_args args = member_pool_args(g.member, N, feed);
        args.steps = 2;
        OK(sw_members_run(g.all, &args));
        args.steps = STEPS - 2;
        OK(sw_members_run(g.all, &args));
        OK(sw_members_metric(g.all, "loss", loss, N));
        OK(sw_members_mean(g.all, "loss", mean, N));
        CU_ASSERT(mean[0] > 0.0 && mean[0] != loss[0]);
        check_alone(&g, data, NULL, loss, "feed");
    }
}

SW_TEST("own inputs are those of each member")
{
    static float numbers[N][2][ROWS * SMALL_WIDTH];
    sw_array own[N * 2];
    sw_dice dice = {3};
    double loss[N];
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < ROWS * SMALL_WIDTH; j++)
                numbers[k][i][j] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
            own[2 * k + i] = (sw_array){SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), numbers[k][i]};
        }
    sw_fake_card_new(NULL, 1);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_members_args args = SW_OPTS(sw_members_args, .members = g.member, .n = N, .inputs = own,
                                   .n_inputs = 2, .own_inputs = 1, .mode = SW_TRAIN);
    for (args.step = 0; args.step < STEPS; args.step++)
        OK(sw_members_run(g.all, &args));
    OK(sw_members_metric(g.all, "loss", loss, N));
    check_alone(&g, small_data(SAMPLES), own, loss, "own inputs");
}

SW_TEST("it is near a member of the CPU")
{
    const sw_feed *feed = member_pool_feed();
    double loss[2][N];
    sw_fake_card_new(NULL, 2);
    member_pool g[2] = {member_pool_on("cuda", NULL, true), member_pool_on(NULL, NULL, true)};
    for (int i = 0; i < 2; i++) {
        const sw_members_args args = member_pool_args(g[i].member, N, feed);
        OK(sw_members_run(g[i].all, &args));
        OK(sw_members_metric(g[i].all, "loss", loss[i], N));
    }
    for (int k = 0; k < N; k++) {
        SW_CHECK(fabs(loss[0][k] - loss[1][k]) < 1e-5, "%d: %.9g, on the CPU %.9g", k,
                 loss[0][k], loss[1][k]);
        CU_ASSERT(far(g[0].member[k], g[0].shape->f1.weight, g[1].member[k],
                      g[1].shape->f1.weight, HIDDEN * SMALL_WIDTH) < 1e-4);
    }
}

/* Two shapes in one call have the bits that they have in calls of their own. */
SW_TEST("groups run together")
{
    const sw_feed *feed = member_pool_feed();
    unsigned char *bytes[2][3] = {{NULL}};
    for (int way = 0; way < 2; way++) {
        sw_fake_card_new(NULL, (uint64_t)way);
        sw_exec *exec = member_pool_exec("cuda", NULL, true);
        sw_members *all[2] = {small_group(exec, small_new(HIDDEN), NULL),
                              small_group(exec, small_new(HIDDEN + 7), NULL)};
        sw_member member[2][3];
        sw_members_args args[2];
        for (int i = 0; i < 2; i++) {
            small_members(member[i], 3, all[i], 4);
            args[i] = member_pool_args(member[i], 3, feed);
            args[i].steps = (uint32_t)(3 + 2 * i);
            if (way == 1)
                OK(sw_members_run(all[i], &args[i]));
        }
        if (way == 0)
            OK(sw_members_run_all(all, args, 2));
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++) {
                unsigned char *now = member_pool_packed(member[i][k]);
                if (way == 0)
                    bytes[i][k] = now;
                CU_ASSERT(memcmp(now, bytes[i][k], sw_members_packed_bytes(all[i])) == 0);
            }
    }
}

SW_TEST("evaluation changes no member")
{
    double loss[N], again[N];
    sw_fake_card_new(NULL, 1);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_members_args args = member_pool_args(g.member, N, member_pool_feed());
    unsigned char *before = member_pool_packed(g.member[3]);
    args.mode = SW_EVAL;
    args.own_steps = 0;
    args.steps = 3;
    OK(sw_members_run(g.all, &args));
    OK(sw_members_mean(g.all, "loss", loss, N));
    OK(sw_members_run(g.all, &args));
    OK(sw_members_mean(g.all, "loss", again, N));
    unsigned char *after = member_pool_packed(g.member[3]);
    CU_ASSERT(memcmp(before, after, sw_members_packed_bytes(g.all)) == 0);
    CU_ASSERT(memcmp(loss, again, sizeof loss) == 0 && loss[0] != loss[1] && loss[0] > 0.0);
}

/* ---- many members ------------------------------------------------------------------------ */

static swi_queue *queue_of(const sw_members *m)
{
    return m->lanes->planner->queue;
}

/* The same bits with a place for three graphs, and never more of them. */
SW_TEST("there can be more members than graphs")
{
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, ROWS, 0);
    double loss[N];
    sw_fake_card_new(NULL, 1);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_members_args args = member_pool_args(g.member, N, feed);
    queue_of(g.all)->most_graphs = 3;
    args.steps = 1;
    for (int i = 0; i < STEPS; i++) {
        OK(sw_members_run(g.all, &args));
        CU_ASSERT(queue_of(g.all)->n_bindings <= 3);
    }
    OK(sw_members_metric(g.all, "loss", loss, N));
    check_alone(&g, data, NULL, loss, "few graphs");
}

/* A slot that is taken again, another seed, and a range that has moved are other bindings. */
SW_TEST("members come and go")
{
    const sw_feed *feed = member_pool_feed();
    sw_member extra;
    sw_fake_card_new(NULL, 2);
    member_pool g = member_pool_on("cuda", member_pool_budget((size_t)1 << 20), true),
                plain = member_pool_on("cuda", NULL, false);
    member_pool *both[2] = {&g, &plain};
    sw_members *wide = small_group(g.exec, small_new(HIDDEN * 4), NULL);
    for (int i = 0; i < 2; i++) {
        member_pool *its = both[i];
        sw_members_args args = member_pool_args(its->member, N, feed);
        OK(sw_members_run(its->all, &args));
        sw_member_end(its->member[1]);
        OK(sw_member_new(&its->member[1], its->all, 50)); /* in the same range */
        OK(sw_member_seed_set(its->member[2], 60));
        OK(sw_members_run(its->all, &args));
    }
    for (int k = 0; k < N; k++)
        SW_CHECK(member_pool_same(g.member[k], plain.member[k]), "taken again: member %d", k);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            sw_member_end(both[i]->member[k]);
    const size_t before = g.member[4].of->slots[g.member[4].index].offset;
    for (int k = 0; k < 2; k++)
        OK(sw_member_new(&extra, wide, 3));
    CU_ASSERT(g.member[4].of->slots[g.member[4].index].offset != before);
    for (int i = 0; i < 2; i++) {
        const sw_members_args args = member_pool_args(both[i]->member + 4, N - 4, feed);
        OK(sw_members_run(both[i]->all, &args));
    }
    for (int k = 4; k < N; k++)
        SW_CHECK(member_pool_same(g.member[k], plain.member[k]), "moved: member %d", k);
}

/* A hole before a range that is longer: twice as long (pieces on the card), and hundreds
 * of times (by host memory). */
SW_TEST("long ranges close short holes")
{
    static const int64_t before[] = {300, 1}, behind[] = {700, 3000};
    for (int i = 0; i < 2; i++) {
        sw_member hole, member, more;
        sw_fake_card_new(NULL, 1);
        sw_exec *exec = member_pool_exec("cuda", member_pool_budget((size_t)64 << 20), true);
        sw_members *first = small_group(exec, small_new(before[i]), NULL);
        sw_members *second = small_group(exec, small_new(behind[i]), NULL);
        OK(sw_member_new(&hole, first, 1));
        OK(sw_member_new(&member, second, 2));
        unsigned char *was = member_pool_packed(member);
        CU_ASSERT(second->slots[0].offset > 0 && second->slots[0].offset < second->stride);
        CU_ASSERT_EQUAL(second->slots[0].offset < second->stride / 64, i == 1);
        sw_member_end(hole);
        OK(sw_member_new(&more, second, 3)); /* a hole is closed before the arena grows */
        CU_ASSERT_EQUAL(second->slots[0].offset, 0);
        unsigned char *is = member_pool_packed(member);
        CU_ASSERT(memcmp(was, is, sw_members_packed_bytes(second)) == 0);
    }
}

/* ---- copies, packs, models, widths ------------------------------------------------------- */

/* Members on a card: copies, packs, models, widths, wherever they go. */

SW_TEST("copies are exact wherever they go")
{
    const sw_feed *feed = member_pool_feed();
    float knob = 0.0f;
    uint64_t steps = 0;
    sw_fake_card_new(NULL, 3);
    member_pool g = member_pool_on("cuda", NULL, true), cpu = member_pool_on(NULL, NULL, true);
    sw_members_args args = member_pool_args(g.member, 2, feed);
    OK(sw_members_run(g.all, &args));
    OK(sw_member_knob_set(g.member[0], g.shape->factor, 0.75f)); /* it is not uploaded yet */
    OK(sw_member_copy(g.member[1], g.member[0]));
    OK(sw_member_knob_get(g.member[1], g.shape->factor, &knob));
    CU_ASSERT(knob == 0.75f && member_pool_same(g.member[0], g.member[1]));
    OK(sw_member_progress(g.member[1], &steps, NULL));
    CU_ASSERT_EQUAL(steps, STEPS);
    /* To the CPU and back. */
    OK(sw_member_copy(cpu.member[2], g.member[0]));
    CU_ASSERT(member_pool_same(cpu.member[2], g.member[0]));
    OK(sw_member_copy(g.member[4], cpu.member[2]));
    OK(sw_member_knob_get(g.member[4], g.shape->factor, &knob));
    CU_ASSERT(knob == 0.75f && member_pool_same(g.member[4], g.member[0]));
    unsigned char *bytes = member_pool_packed(g.member[0]);
    OK(sw_member_unpack(g.member[5], bytes, sw_members_packed_bytes(g.all)));
    OK(sw_member_unpack(cpu.member[5], bytes, sw_members_packed_bytes(g.all)));
    CU_ASSERT(member_pool_same(g.member[5], g.member[0]));
    CU_ASSERT(member_pool_same(cpu.member[5], g.member[0]));
    OK(sw_member_knob_get(g.member[5], g.shape->factor, &knob));
    CU_ASSERT_EQUAL(knob, 0.75f);
    /* They go on alike: the unpacked one has the seed too. */
    args.members = &g.member[0];
    args.n = 1;
    OK(sw_members_run(g.all, &args));
    args.members = &g.member[5];
    OK(sw_members_run(g.all, &args));
    CU_ASSERT(member_pool_same(g.member[5], g.member[0]));
    CU_ASSERT(!member_pool_same(g.member[1], g.member[0]));
}

/* A model of the card and one of the host; knobs on their way go with the bytes. */
SW_TEST("a member and a model take each other over")
{
    float knob = 0.0f, x[SMALL_WIDTH], y[SMALL_WIDTH];
    for (int on_card = 0; on_card < 2; on_card++) {
        sw_fake_card_new(NULL, 1);
        member_pool g = member_pool_on("cuda", NULL, true);
        sw_exec *host = member_pool_exec(NULL, NULL, true);
        small *t = small_new(HIDDEN);
        sw_members_args args = member_pool_args(g.member, 1, member_pool_feed());
        OK(sw_model_ready(t->model, on_card != 0 ? g.exec : host, 77));
        sw_knob_set(t->factor, 0.25f);
        OK(sw_member_from_model(g.member[0], t->model));
        OK(sw_member_knob_get(g.member[0], g.shape->factor, &knob));
        OK(sw_member_read(g.member[0], g.shape->f2.bias, x, sizeof x));
        OK(sw_param_read(t->f2.bias, y, sizeof y));
        CU_ASSERT(knob == 0.25f && memcmp(x, y, sizeof x) == 0);
        OK(sw_members_run(g.all, &args));
        OK(sw_member_knob_set(g.member[0], g.shape->factor, 2.0f));
        OK(sw_member_to_model(t->model, g.member[0]));
        CU_ASSERT_EQUAL(sw_knob_get(t->factor), 2.0f);
        OK(sw_member_from_model(g.member[1], t->model));
        CU_ASSERT(member_pool_same(g.member[0], g.member[1]));
        sw_member_end(g.member[1]);
    }
}

SW_TEST("what is written is read")
{
    float x[SMALL_WIDTH] = {1, 2, 3, 4, 5, 6}, y[SMALL_WIDTH];
    sw_fake_card_new(NULL, 1);
    member_pool g = member_pool_on("cuda", NULL, true);
    OK(sw_member_write(g.member[2], g.shape->f2.bias, x, sizeof x));
    OK(sw_member_read(g.member[2], g.shape->f2.bias, y, sizeof y));
    CU_ASSERT(memcmp(x, y, sizeof x) == 0);
    OK(sw_member_read(g.member[3], g.shape->f2.bias, y, sizeof y));
    CU_ASSERT(memcmp(x, y, sizeof x) != 0);
    REFUSED(sw_member_knob_set(g.member[0], g.shape->factor, NAN), SW_INVALID, "cannot be");
}

/* The same bits as on the CPU, where the bytes were the same. */
SW_TEST("a member is resized as on the CPU")
{
    const sw_array in[2] = {{SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), NULL},
                            {SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), NULL}};
    const sw_members_args args =
        SW_OPTS(sw_members_args, .inputs = in, .n_inputs = 2, .mode = SW_TRAIN);
    const sw_resize_opts opts = SW_OPTS(sw_resize_opts, .seed = 5);
    sw_members *wide[2];
    sw_member grown[2];
    sw_fake_card_new(NULL, 1);
    member_pool g[2] = {member_pool_on("cuda", NULL, true), member_pool_on(NULL, NULL, true)};
    const sw_members_args some = member_pool_args(g[0].member, 1, member_pool_feed());
    OK(sw_members_run(g[0].all, &some));
    OK(sw_member_copy(g[1].member[0], g[0].member[0]));
    for (int i = 0; i < 2; i++) {
        wide[i] = small_group(g[i].exec, small_new(HIDDEN + 6), NULL);
        OK(sw_member_new(&grown[i], wide[i], 9));
        OK(sw_member_resize(grown[i], g[i].member[0], &args, &opts));
    }
    CU_ASSERT(member_pool_same(grown[0], grown[1]));
}

/* ---- memory and budgets ------------------------------------------------------------------ */

/* Members on a card: what they take of its memory and of a budget, and what fails. */

enum { LAUNCH_FAILURE = 719 };

static size_t whole(size_t bytes, size_t of)
{
    return (bytes + of - 1) / of * of;
}

/* The bytes planned, taken, charged to the budget, and given by the card. */
SW_TEST("a budget counts what the card gives")
{
    const sw_feed *feed = member_pool_feed();
    sw_fake_live live;
    sw_plan_info info = SW_OPTS(sw_plan_info);
    sw_members_memory used = SW_OPTS(sw_members_memory);
    size_t lanes = 0;
    for (int plain = 0; plain < 2; plain++) {
        sw_fake_card_new(&(sw_fake_card){.cannot_map = plain != 0}, 1);
        sw_budget *budget = member_pool_budget((size_t)4 << 20);
        member_pool g = member_pool_on("cuda", budget, true);
        sw_members_args args = member_pool_args(g.member, N, feed);
        sw_members_args test = args;
        test.mode = SW_EVAL;
        OK(sw_members_look(g.all, &args, &info));
        const size_t steps = info.arena_bytes;
        OK(sw_members_look(g.all, &test, &info));
        CU_ASSERT_EQUAL(info.model_bytes, sw_members_bytes(g.all));
        CU_ASSERT_EQUAL(sw_budget_used(budget), N * info.model_bytes);
        OK(sw_members_plan(g.all, &args, NULL));
        OK(sw_members_plan(g.all, &test, &lanes));
        CU_ASSERT_EQUAL(lanes, steps + info.data_bytes);
        CU_ASSERT_EQUAL(sw_budget_used(budget), N * info.model_bytes + lanes);
        OK(sw_members_run(g.all, &args));
        OK(sw_members_run(g.all, &test));
        OK(sw_members_used(g.all, &used));
        CU_ASSERT(used.lanes == 1 && used.lane_bytes == lanes);
        CU_ASSERT_EQUAL(used.range_bytes, N * info.model_bytes);
        CU_ASSERT_EQUAL(sw_budget_used(budget), used.range_bytes + used.lane_bytes);
        sw_device_info d = SW_OPTS(sw_device_info);
        OK(sw_exec_device(g.exec, &d));
        sw_fake_card_api()->live(&live);
        const size_t given = d.model_bytes + d.arena_bytes + d.data_bytes;
        sw_note("%zu bytes, the card gave %zu (%zu live)", sw_budget_used(budget), given,
                live.device_bytes);
        const size_t step = plain != 0 ? sw_page_bytes() : SW_FAKE_GRANULARITY;
        CU_ASSERT_EQUAL(given, whole(used.range_bytes, step) + whole(steps, step) +
                                   whole(lanes - steps, step));
        CU_ASSERT_EQUAL(given, live.device_bytes);
    }
}

SW_TEST("a budget that is too small says so")
{
    const sw_feed *feed = member_pool_feed();
    sw_member more;
    sw_fake_card_new(NULL, 0);
    small *shape = small_new(HIDDEN);
    size_t bytes = 0;
    OK(sw_model_bytes(shape->model, &bytes));
    member_pool g = member_pool_on("cuda", member_pool_budget(N * bytes), true);
    sw_members_args args = member_pool_args(g.member, N, feed);
    REFUSED(sw_member_new(&more, g.all, 1), SW_NOMEM, "members");
    REFUSED(sw_members_run(g.all, &args), SW_NOMEM, "step");
    CU_ASSERT_EQUAL(sw_members_count(g.all), N);
    uint64_t made = 1;
    OK(sw_member_progress(g.member[0], &made, NULL));
    CU_ASSERT_EQUAL(made, 0);
}

SW_TEST("steps bring no allocation")
{
    double loss[N];
    sw_fake_counts before, after;
    sw_fake_card_new(NULL, 0);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_members_args args = member_pool_args(g.member, N, member_pool_feed());
    args.steps = 3; /* an epoch: the program of its last batch, too */
    for (int i = 0; i < 2; i++)
        OK(sw_members_run(g.all, &args));
    const uint64_t calls = sw_mem_calls();
    sw_fake_card_api()->counts(&before);
    for (int i = 0; i < 10; i++) {
        OK(sw_members_run(g.all, &args));
        OK(sw_members_metric(g.all, "loss", loss, N));
        OK(sw_member_knob_set(g.member[i % N], g.shape->factor, 0.5f));
        OK(sw_member_copy(g.member[i % N], g.member[(i + 1) % N]));
    }
    sw_fake_card_api()->counts(&after);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT_EQUAL(after.captures, before.captures);
    CU_ASSERT_EQUAL(after.graph_launches - before.graph_launches, 10 * N * 3);
    CU_ASSERT_EQUAL(after.launches, before.launches);
    CU_ASSERT_EQUAL(after.pageable - before.pageable, 0);
}

/* ---- what fails -------------------------------------------------------------------------- */

/* A member whose input is not a number skips its updates, and fails alone. */
SW_TEST("a member that fails fails alone")
{
    static float numbers[N][ROWS * SMALL_WIDTH];
    sw_array own[N * 2];
    double loss[N];
    sw_status ended[N];
    for (int k = 0; k < N; k++)
        for (int i = 0; i < ROWS * SMALL_WIDTH; i++) {
            numbers[k][i] = (float)(i % 5) * 0.1f;
            own[2 * k] = own[2 * k + 1] =
                (sw_array){SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), numbers[k]};
        }
    numbers[3][7] = NAN;
    sw_fake_card_new(NULL, 1);
    member_pool g = {.shape = small_new(HIDDEN), .exec = member_pool_exec("cuda", NULL, true)};
    sw_model_destroy(g.shape->model);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.02f, .max_skipped = 2);
    OK(sw_model_create(&g.shape->model, "careful"));
    g.shape->f1 = sw_linear_new(g.shape->model, "f1", SMALL_WIDTH, HIDDEN);
    g.shape->f2 = sw_linear_new(g.shape->model, "f2", HIDDEN, SMALL_WIDTH);
    g.shape->seen = sw_state_new(g.shape->model, "seen", SW_F32, SW_SHAPE(1));
    g.shape->factor = sw_knob_new(g.shape->model, "factor", 1.0f);
    OK(sw_optimizer_create(&g.shape->opt, g.shape->model, &opts));
    g.all = small_group(g.exec, g.shape, NULL);
    small_members(g.member, N, g.all, 1);
    sw_members_args args = SW_OPTS(sw_members_args, .members = g.member, .n = N, .inputs = own,
                                   .n_inputs = 2, .own_inputs = 1, .mode = SW_TRAIN);
    for (args.step = 0; args.step < 3; args.step++) {
        OK(sw_members_run(g.all, &args));
        OK(sw_members_status(g.all, ended, N));
        for (int k = 0; k < N; k++)
            CU_ASSERT_EQUAL(ended[k], k == 3 && args.step > 0 ? SW_INVALID : SW_OK);
        OK(sw_members_metric(g.all, "loss", loss, N));
        CU_ASSERT(isnan(loss[3]) && !isnan(loss[2]) && !isnan(loss[4]));
    }
    CU_ASSERT(strstr(sw_last_note(), "member 3") != NULL);
    numbers[3][7] = 0.0f;
    OK(sw_member_copy(g.member[3], g.member[2]));
    OK(sw_members_run(g.all, &args));
    OK(sw_members_status(g.all, ended, N));
    CU_ASSERT_EQUAL(ended[3], SW_OK);
}

/* A fault ends the work on the card, as it does for models: that call and all later ones say
 * so. */
SW_TEST("a fault ends the work on the card")
{
    for (int way = 0; way < 3; way++) {
        double loss[N];
        sw_status ended[N];
        sw_fake_card_new(NULL, 1);
        member_pool g = member_pool_on("cuda", NULL, true);
        sw_members_args args = member_pool_args(g.member, N, member_pool_feed());
        OK(sw_members_run(g.all, &args));
        if (way == 0)
            sw_fake_card_api()->fail("cudaGraphLaunch", 3, LAUNCH_FAILURE);
        else
            sw_fake_card_api()->fail_work(way == 1 ? 11 : 200, LAUNCH_FAILURE);
        REFUSED(sw_members_run(g.all, &args), SW_DEVICE, "cuda");
        REFUSED(sw_members_run(g.all, &args), SW_DEVICE, "failed before");
        REFUSED(sw_members_metric(g.all, "loss", loss, N), SW_INVALID, "nothing has run yet");
        REFUSED(sw_members_status(g.all, ended, N), SW_INVALID, "nothing has run yet");
        REFUSED(sw_member_copy(g.member[0], g.member[5]), SW_DEVICE, "failed before");
        sw_fake_card_api()->fail(NULL, UINT64_MAX, -1);
        sw_fake_card_lost();
    }
}

/* Of a width at which states have their type. */
static sw_status whole_life(void *feed, uint64_t state_bits)
{
    const int64_t width = state_bits == 8 ? 700 : 3;
    sw_exec *exec = NULL;
    sw_members *all = NULL;
    small t = {NULL};
    sw_member one[2];
    const sw_optimizer_opts adam =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .state_bits = state_bits);
    sw_status status = sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .device = "cuda"));
    if (status == SW_OK)
        status = sw_model_create(&t.model, "life");
    if (status == SW_OK) {
        t.f1 = sw_linear_new(t.model, "f1", SMALL_WIDTH, width);
        t.f2 = sw_linear_new(t.model, "f2", width, SMALL_WIDTH);
        t.seen = sw_state_new(t.model, "seen", SW_F32, SW_SHAPE(1));
        t.factor = sw_knob_new(t.model, "factor", 1.0f);
        status = sw_optimizer_create(&t.opt, t.model, &adam);
    }
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = t.model, .fn = small_step, .user = &t);
    if (status == SW_OK)
        status = sw_members_create(&all, exec, &opts);
    for (int k = 0; k < 2 && status == SW_OK; k++)
        status = sw_member_new(&one[k], all, 1);
    sw_members_args args = member_pool_args(one, 2, feed);
    args.steps = 2;
    sw_status ended[2] = {SW_OK, SW_OK};
    if (status == SW_OK)
        status = sw_members_run(all, &args);
    if (status == SW_OK)
        status = sw_members_status(all, ended, 2);
    sw_members_destroy(all);
    sw_model_destroy(t.model);
    sw_exec_destroy(exec);
    return status != SW_OK ? status : ended[0] != SW_OK ? ended[0] : ended[1];
}

SW_TEST("every allocation can fail, with states of both types")
{
    void *feed = (void *)(uintptr_t)member_pool_feed();
    for (uint64_t bits = 0; bits <= 8; bits += 8) {
        sw_fake_card_new(NULL, 0);
        OK(whole_life(feed, bits));
        uint64_t k = 0, failed = 0;
        for (bool hit = true; hit; k++) {
            const uint64_t blocks = sw_heap_blocks();
            sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
            const sw_status status = whole_life(feed, bits);
            hit = sw_fault_hits(SW_FAULT_MEMORY) > 0;
            sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
            failed += status == SW_NOMEM;
            SW_CHECK(status == SW_NOMEM || status == SW_OK, "call %llu: %s",
                     (unsigned long long)k, sw_last_error());
            SW_CHECK(sw_heap_blocks() == blocks, "call %llu leaves blocks",
                     (unsigned long long)k);
        }
        sw_note("%llu calls, of which %llu fail", (unsigned long long)k,
                (unsigned long long)failed);
        CU_ASSERT(failed > 100 && k - failed < 30);
    }
}

static sw_status a_callback(sw_member_view *view, void *user)
{
    view->score = 0.0;
    return SW_OK;
}

SW_TEST("what is of the CPU is refused")
{
    sw_members *none = NULL;
    sw_fake_card_new(NULL, 0);
    sw_exec *exec = member_pool_exec("cuda", NULL, true);
    const small *shape = small_new(HIDDEN);
    sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model,
                                   .callback = a_callback, .state_bytes = 8);
    REFUSED(sw_members_create(&none, exec, &opts), SW_UNSUPPORTED, "callbacks are of the CPU");
    opts = SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step, .threads = 2);
    REFUSED(sw_members_create(&none, exec, &opts), SW_UNSUPPORTED, "threads of a member");
    CU_ASSERT_PTR_NULL(none);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_checkpoint *checkpoint = NULL;
    OK(sw_checkpoint_create(&checkpoint, g.exec,
                            &SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("members"))));
    REFUSED(sw_checkpoint_members(checkpoint, g.all, g.member, N), SW_UNSUPPORTED,
            "sw_checkpoint_put");
    sw_checkpoint_destroy(checkpoint);
}
