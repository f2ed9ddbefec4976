/* Members on the card that is not there (fake/): what they compute is what models compute that
 * are trained alone on it, however many there are, and wherever their ranges lie. */
#include "runtime/exec/queue_internal.h"
#include "runtime/model/model.h"
#include "tests/cuda/members_card.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("members on a card")

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
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = small_step, .user = t, .models = &t->model,
                    .n_models = 1, .inputs = in, .n_inputs = n, .mode = SW_TRAIN, .step = step);
        OK(sw_run(exec, &args));
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
