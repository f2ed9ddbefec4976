/* Members: what they compute is what models compute that are trained alone, also with numbers
 * of their own: momenta, betas, decays and dropout that differ and change. */
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "runtime/population/members_internal.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("members")

enum { N = 23, IN = 12, HIDDEN = 20, OUT = 5, ROWS = 16, STEPS = 8, NUMBERS = 5 };

/* ---- a net with dropout, batch norm, a state and a knob of its own ----------------------- */

typedef struct {
    sw_model *model;
    int64_t hidden;
    sw_linear f1, f2;
    sw_batch_norm2d norm;
    sw_param seen;
    sw_knob factor;
    sw_optimizer *opt;
    bool knobs;                       /* numbers of its own: */
    sw_knob dropout, number[NUMBERS]; /* of them UINT32_MAX: not there */
    int calls;
} tiny;

static const char *const names[NUMBERS] = {"lr", "weight_decay", "momentum", "beta1", "beta2"};

static void tiny_step(sw_ctx *ctx, void *user)
{
    tiny *t = user;
    t->calls++;
    const int64_t rows = sw_dim(ctx, sw_input(ctx, 0), 0);
    sw_value x = sw_apply_linear(ctx, t->f1, sw_input(ctx, 0));
    x = sw_reshape(ctx, x, SW_SHAPE(rows, t->hidden, 1, 1));
    x = sw_flatten(ctx, sw_tanh(ctx, sw_apply_batch_norm2d(ctx, t->norm, x)));
    x = t->knobs ? sw_dropout_knob(ctx, x, t->dropout) : sw_dropout(ctx, x, 0.25f);
    x = sw_apply_linear(ctx, t->f2, x);
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, sw_input(ctx, 1)));
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    const sw_value now = sw_reshape(ctx, sw_detach(ctx, loss), SW_SHAPE(1));
    sw_assign(ctx, t->seen, sw_add(ctx, sw_use(ctx, t->seen), now));
    sw_backward(ctx, sw_scale(ctx, loss, t->factor), &t->opt, 1);
    sw_update(ctx, t->opt);
}

/* "adam 8bit": with states in 8 bits, and weights that are large enough for them, one with rows
 * of blocks and a part of a block. */
static sw_status tiny_fill(tiny *t, const char *with, bool knobs)
{
    char kind[16];
    const bool in8 = strchr(with, '8') != NULL;
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(with, " "), with);
    t->hidden = in8 ? 900 : HIDDEN;
    SW_TRY(sw_model_create(&t->model, "tiny"));
    t->f1 = sw_linear_new(t->model, "f1", IN, t->hidden);
    t->norm = sw_batch_norm2d_new(t->model, "norm", t->hidden);
    t->f2 = sw_linear_new(t->model, "f2", t->hidden, OUT);
    t->seen = sw_state_new(t->model, "seen", SW_F32, SW_SHAPE(1));
    t->factor = sw_knob_new(t->model, "factor", 1.0f);
    t->knobs = knobs;
    if (knobs)
        t->dropout = sw_knob_new(t->model, "dropout", 0.25f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = kind, .lr = 0.02f, .max_skipped = 2, .knobs = knobs,
                .state_bits = in8 ? 8 : 32);
    SW_TRY(sw_optimizer_create(&t->opt, t->model, &opts));
    for (int i = 0; knobs && i < NUMBERS; i++)
        t->number[i] = sw_optimizer_knob(t->opt, 0, names[i]);
    return SW_OK;
}

static tiny *tiny_new(const char *kind, bool knobs)
{
    tiny *t = sw_block(sizeof *t);
    OK(tiny_fill(t, kind, knobs));
    AFTER(sw_model_destroy, t->model);
    return t;
}

/* Of member k in a step: number i, and the rate of dropout. */
static float number_at(int k, uint64_t step, int i)
{
    const float x = (float)((k * 5 + (int)step * 3 + i * 7) % 13) / 14.0f;
    return i == 0 ? 0.05f * x : i == 1 ? 0.1f * x : x;
}
static float rate_at(int k, uint64_t step)
{
    return k == 0 ? 0.0f : (float)((k + (int)step) % 5) / 4.0f;
}

static float numbers[N][ROWS * IN];
static unsigned char labels[N][ROWS];
static sw_array arrays[N][2];

static void make_data(int64_t rows)
{
    sw_dice dice = {7};
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < ROWS * IN; i++)
            numbers[k][i] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
        for (int i = 0; i < ROWS; i++)
            labels[k][i] = (unsigned char)sw_dice_below(&dice, OUT);
        arrays[k][0] = (sw_array){SW_F32, SW_SHAPE(rows, IN), numbers[k]};
        arrays[k][1] = (sw_array){SW_U8, SW_SHAPE(rows), labels[k]};
    }
}

/* ---- groups ------------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    tiny *shape;
    sw_members *all;
    sw_member member[N];
} group;

static group *group_new(int threads, const char *kind, sw_budget *budget, bool knobs)
{
    group *g = sw_block(sizeof *g);
    g->exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .budget = budget));
    g->shape = tiny_new(kind, knobs);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = g->shape->model, .fn = tiny_step, .user = g->shape);
    OK(sw_members_create(&g->all, g->exec, &opts));
    AFTER(sw_members_destroy, g->all);
    for (int k = 0; k < N; k++)
        OK(sw_member_new(&g->member[k], g->all, (uint64_t)(k % 7) + 1));
    return g;
}

#define ARGS_OF(g_, own_, mode_, step_)                                                        \
    SW_OPTS(sw_members_args, .members = (g_)->member, .n = N, .inputs = arrays[0],             \
            .n_inputs = 2, .own_inputs = own_, .mode = mode_, .step = step_)

/* A model that is trained alone on the data of member k; its metrics in the last step. */
static tiny *alone(int k, bool own, const char *kind, bool knobs, double *loss)
{
    tiny *t = tiny_new(kind, knobs);
    const uint64_t seed = (uint64_t)(k % 7) + 1;
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = seed));
    OK(sw_model_ready(t->model, exec, seed));
    sw_knob_set(t->factor, k % 2 == 0 ? 1.0f : 0.5f);
    for (uint64_t step = 0; step < STEPS; step++) {
        if (knobs)
            sw_knob_set(t->dropout, rate_at(k, step));
        for (int i = 0; knobs && i < NUMBERS; i++)
            if (t->number[i].index != UINT32_MAX)
                sw_knob_set(t->number[i], number_at(k, step, i));
        const sw_run_args args = SW_OPTS(
            sw_run_args, .fn = tiny_step, .user = t, .models = &t->model, .n_models = 1,
            .inputs = arrays[own ? k : 0], .n_inputs = 2, .mode = SW_TRAIN, .step = step);
        OK(sw_run(exec, &args));
        OK(sw_metric_get(exec, "loss", loss));
    }
    CU_ASSERT_EQUAL(t->calls, 1);
    return t;
}

/* Has the member the bytes of the model? The model has the member's afterwards. */
static bool is_model(sw_member member, const tiny *t)
{
    void *bytes = net_copy_bytes(t->model);
    return sw_member_to_model(t->model, member) == SW_OK && net_same_bytes(t->model, bytes);
}

static void compare(int threads, bool own, const char *kind, bool knobs)
{
    const size_t mark = sw_after_mark();
    make_data(ROWS);
    group *g = group_new(threads, kind, NULL, knobs);
    double loss[N], its;
    uint64_t calls = 0;
    for (int k = 0; k < N; k++)
        OK(sw_member_knob_set(g->member[k], g->shape->factor, k % 2 == 0 ? 1.0f : 0.5f));
    for (uint64_t step = 0; step < STEPS; step++) {
        for (int k = 0; knobs && k < N; k++) {
            OK(sw_member_knob_set(g->member[k], g->shape->dropout, rate_at(k, step)));
            for (int i = 0; i < NUMBERS; i++)
                if (g->shape->number[i].index != UINT32_MAX)
                    OK(sw_member_knob_set(g->member[k], g->shape->number[i],
                                          number_at(k, step, i)));
        }
        OK(sw_members_run(g->all, &ARGS_OF(g, own, SW_TRAIN, step)));
        calls = step == 1 ? sw_mem_calls() : calls;
    }
    SW_CHECK(sw_mem_calls() == calls, "%s: a change took memory", kind);
    SW_CHECK(g->shape->calls == 1, "%s: traced %d times", kind, g->shape->calls);
    OK(sw_members_metric(g->all, "loss", loss, N));
    for (int k = 0; k < N; k++) {
        const size_t before = sw_after_mark();
        const tiny *t = alone(k, own, kind, knobs, &its);
        SW_CHECK(memcmp(&its, &loss[k], sizeof its) == 0, "%s, %d threads: loss of member %d",
                 kind, threads, k);
        SW_CHECK(is_model(g->member[k], t), "%s, %d threads: bytes of member %d", kind, threads,
                 k);
        sw_after_since(before);
    }
    sw_after_since(mark);
}

SW_TEST("members are models that are trained alone")
{
    compare(1, false, "adam", false);
    compare(2, true, "adam", false);
    compare(3, true, "sgd", false);
    compare(5, false, "adafactor", false);
    compare(2, true, "adamw 8bit", false);
}

SW_TEST("members with numbers of their own are models too")
{
    static const char *const kinds[] = {"sgd", "adam", "adamw", "rmsprop", "lion", "adafactor"};
    for (int i = 0; i < 6; i++)
        compare(i < 3 ? i + 1 : 2, false, kinds[i], true);
    compare(2, false, "lion 8bit", true);
}

/* A copy has the codes and scales of what it copies, and goes on as that does. */
SW_TEST("states in 8 bits are copied as they are")
{
    make_data(ROWS);
    group *g = group_new(2, "adam 8bit", NULL, false);
    sw_members_args args = ARGS_OF(g, false, SW_TRAIN, 0);
    for (; args.step < 3; args.step++)
        OK(sw_members_run(g->all, &args));
    const size_t bytes = sw_members_bytes(g->all);
    unsigned char *was = sw_block(bytes);
    const sw_model *shape = g->shape->model;
    const swi_entry *weight = &shape->entries[g->shape->f2.weight.index];
    const swi_entry *m = &shape->entries[weight->state[0]];
    CU_ASSERT_FATAL(m->dtype == SW_U8 && m->bytes == OUT * 900);
    CU_ASSERT_FATAL(m[1].dtype == SW_F32 && m[1].bytes == OUT * 4 * sizeof(float));
    memcpy(was, swi_member_base(g->all, g->member[2].index), bytes);
    CU_ASSERT(memcmp(was, swi_member_base(g->all, g->member[5].index), bytes) != 0);
    OK(sw_member_copy(g->member[5], g->member[2]));
    const unsigned char *is = swi_member_base(g->all, g->member[5].index);
    CU_ASSERT(memcmp(is + m->offset, was + m->offset, m->bytes) == 0);
    CU_ASSERT(memcmp(is + m[1].offset, was + m[1].offset, m[1].bytes) == 0);
    CU_ASSERT(memcmp(is, was, bytes) == 0);
}

/* ---- what a group can do ----------------------------------------------------------------- */

SW_TEST("steps bring no allocation")
{
    make_data(ROWS);
    group *g = group_new(2, "adam", NULL, false);
    sw_members_args args = ARGS_OF(g, true, SW_TRAIN, 0);
    for (int i = 0; i < 2; i++)
        OK(sw_members_run(g->all, &args));
    const uint64_t calls = sw_mem_calls();
    for (args.step = 1; args.step < 50; args.step++)
        OK(sw_members_run(g->all, &args));
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
}

SW_TEST("evaluation changes no member")
{
    make_data(ROWS);
    group *g = group_new(2, "adam", NULL, false);
    float before[OUT], after[OUT];
    double loss[N];
    OK(sw_member_read(g->member[3], g->shape->f2.bias, before, sizeof before));
    OK(sw_members_run(g->all, &ARGS_OF(g, true, SW_EVAL, 0)));
    OK(sw_members_metric(g->all, "loss", loss, N));
    OK(sw_member_read(g->member[3], g->shape->f2.bias, after, sizeof after));
    CU_ASSERT(memcmp(before, after, sizeof before) == 0);
    CU_ASSERT(loss[0] != loss[1] && loss[0] > 0.0 && loss[N - 1] > 0.0);
    REFUSED(sw_members_metric(g->all, "none", loss, N), SW_INVALID, "no metric 'none'");
    REFUSED(sw_members_metric(g->all, "loss", loss, N - 1), SW_INVALID, "23 members");
}

SW_TEST("members come and go")
{
    make_data(ROWS);
    group *g = group_new(2, "adam", NULL, false);
    const sw_members_args args = ARGS_OF(g, true, SW_TRAIN, 0);
    OK(sw_members_run(g->all, &args));
    const sw_member gone = g->member[4];
    float a[OUT], b[OUT];
    OK(sw_member_copy(g->member[5], g->member[2]));
    OK(sw_member_read(g->member[5], g->shape->f2.bias, a, sizeof a));
    OK(sw_member_read(g->member[2], g->shape->f2.bias, b, sizeof b));
    CU_ASSERT(memcmp(a, b, sizeof a) == 0);
    sw_member_end(gone);
    CU_ASSERT_EQUAL(sw_members_count(g->all), N - 1);
    REFUSED(sw_member_read(gone, g->shape->f2.bias, a, sizeof a), SW_INVALID, "was ended");
    REFUSED(sw_members_run(g->all, &args), SW_INVALID, "was ended");
    OK(sw_member_new(&g->member[4], g->all, 99));
    CU_ASSERT(g->member[4].index == gone.index && g->member[4].generation != gone.generation);
    REFUSED(sw_member_read(gone, g->shape->f2.bias, a, sizeof a), SW_INVALID, "was ended");
    g->member[6] = g->member[7];
    REFUSED(sw_members_run(g->all, &args), SW_INVALID, "member 7 is named twice");
}

/* Member 3 has a label past the last class, member 9 a NaN in its input. The others train. */
SW_TEST("a member that fails fails alone")
{
    make_data(ROWS);
    group *g = group_new(2, "adam", NULL, false);
    sw_status ended[N];
    double loss[N];
    labels[3][2] = OUT;
    numbers[9][5] = NAN;
    for (uint64_t step = 0; step < 2; step++) {
        const sw_members_args args = ARGS_OF(g, true, SW_TRAIN, step);
        OK(sw_members_run(g->all, &args));
        CU_ASSERT(strstr(sw_last_note(), "member 3") != NULL);
        OK(sw_members_status(g->all, ended, N));
        for (int k = 0; k < N; k++)
            CU_ASSERT_EQUAL(ended[k] == SW_OK, k != 3 && !(k == 9 && step == 1));
        OK(sw_members_metric(g->all, "loss", loss, N));
        CU_ASSERT(isnan(loss[3]) && isnan(loss[9]) && !isnan(loss[4]));
    }
    labels[3][2] = 0; /* it had not been updated: it goes on */
    OK(sw_members_run(g->all, &ARGS_OF(g, true, SW_TRAIN, 2)));
    OK(sw_members_status(g->all, ended, N));
    CU_ASSERT(ended[3] == SW_OK);
}

/* ---- memory ------------------------------------------------------------------------------ */

SW_TEST("a budget counts every member")
{
    sw_budget *budget;
    make_data(ROWS);
    OK(sw_budget_create(&budget, (size_t)1 << 20));
    group *g = group_new(2, "adam", budget, false);
    const size_t bytes = sw_members_bytes(g->all);
    CU_ASSERT_EQUAL(sw_budget_used(budget), N * bytes);
    const sw_members_args args = ARGS_OF(g, false, SW_TRAIN, 0);
    OK(sw_members_run(g->all, &args));
    const size_t arenas = sw_budget_used(budget) - N * bytes;
    CU_ASSERT(arenas > 0 && arenas % 2 == 0);
    sw_status status = SW_OK;
    size_t n = N;
    sw_member more;
    while ((status = sw_member_new(&more, g->all, 1)) == SW_OK)
        n++;
    CU_ASSERT(status == SW_NOMEM && strstr(sw_last_error(), "members") != NULL);
    CU_ASSERT_EQUAL(n, (((size_t)1 << 20) - arenas) / bytes);
    CU_ASSERT_EQUAL(sw_members_count(g->all), n);
    sw_member_end(g->member[0]);
    OK(sw_member_new(&g->member[0], g->all, 1));
    OK(sw_members_run(g->all, &args));
    AFTER(sw_budget_destroy, budget);
}

static sw_status whole_life(void *unused)
{
    sw_exec *exec = NULL;
    tiny t = {NULL};
    sw_members *all = NULL;
    sw_member one;
    double loss;
    sw_status status = sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = 2));
    if (status == SW_OK)
        status = tiny_fill(&t, "adam", false);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = t.model, .fn = tiny_step, .user = &t);
    if (status == SW_OK)
        status = sw_members_create(&all, exec, &opts);
    if (status == SW_OK)
        status = sw_member_new(&one, all, 1);
    const sw_members_args args = SW_OPTS(sw_members_args, .members = &one, .n = 1,
                                         .inputs = arrays[0], .n_inputs = 2, .mode = SW_TRAIN);
    if (status == SW_OK)
        status = sw_members_run(all, &args);
    if (status == SW_OK)
        status = sw_members_metric(all, "loss", &loss, 1);
    sw_members_destroy(all);
    sw_model_destroy(t.model);
    sw_exec_destroy(exec);
    return status;
}

SW_TEST("every allocation can fail")
{
    make_data(ROWS);
    OK(whole_life(NULL));
    /* Addresses that cannot be had are asked for again, fewer: such a call may fail once. */
    sw_sites sites = {SW_FAULT_MEMORY};
    while (sw_sites_next(&sites))
        (void)SW_AT_SITE(&sites, whole_life(NULL));
    CU_ASSERT(sites.failed > 100 && sites.k - sites.failed < 20);
}

SW_TEST("many members cost their ranges")
{
    const int64_t many = sw_tests_full() ? 100000 : 5000;
    group *g = group_new(1, "sgd", NULL, false);
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_RECORDS, &before);
    sw_member one = {NULL, 0, 0};
    for (int64_t i = 0; i < many; i++)
        OK(sw_member_new(&one, g->all, (uint64_t)i));
    sw_heap_read(SW_HEAP_RECORDS, &after);
    const double each = (double)(after.bytes - before.bytes) / (double)many;
    sw_note("%lld members, %.0f bytes of records each", (long long)many, each);
    CU_ASSERT(each < 2048.0);
}

SW_TEST("misuse is refused")
{
    make_data(ROWS);
    group *g = group_new(1, "adam", NULL, false);
    tiny *other = tiny_new("adam", false);
    sw_members *none;
    float x[OUT];
    sw_members_args args = ARGS_OF(g, true, SW_TRAIN, 0);
    const sw_members_opts no_step = SW_OPTS(sw_members_opts, .shape = other->model);
    REFUSED(sw_members_create(&none, g->exec, &no_step), SW_INVALID, "step function");
    REFUSED(sw_member_read(g->member[0], other->f2.bias, x, sizeof x), SW_INVALID, "the shape");
    REFUSED(sw_member_read(g->member[0], g->shape->f2.bias, x, 4), SW_INVALID, "20 bytes");
    REFUSED(sw_member_knob_set(g->member[0], g->shape->factor, NAN), SW_INVALID, "cannot be");
    REFUSED(sw_member_knob_set(g->member[0], other->factor, 1), SW_INVALID, "the shape");
    REFUSED(sw_members_status(g->all, NULL, N), SW_INVALID, "nothing has run yet");
    args.n = 0;
    REFUSED(sw_members_run(g->all, &args), SW_INVALID, "at least one member");
    args.n = N;
    arrays[5][0].shape.dim[0] = 3;
    REFUSED(sw_members_run(g->all, &args), SW_INVALID, "input 0 of member 5");
    sw_member_end((sw_member){NULL, 0, 0});
    sw_members_destroy(NULL);
}

SW_TEST("what cannot be names the knob")
{
    make_data(ROWS);
    group *g = group_new(2, "adam", NULL, true);
    float now = 0.0f;
    const sw_members_args args = ARGS_OF(g, false, SW_TRAIN, 0);
    OK(sw_members_run(g->all, &args));
    REFUSED(sw_member_knob_set(g->member[2], g->shape->number[3], 1.0f), SW_INVALID,
            "the beta1 of optimizer 0 (adam), group 0 cannot be 1: it must be at least 0 and "
            "below 1");
    REFUSED(sw_member_knob_set(g->member[2], g->shape->number[1], -1.0f), SW_INVALID,
            "the weight decay of optimizer 0 (adam), group 0 cannot be -1");
    REFUSED(sw_member_knob_set(g->member[2], g->shape->dropout, 1.5f), SW_INVALID,
            "knob 'dropout' cannot be 1.5: it must be 0 to 1");
    REFUSED(sw_member_knob_set(g->member[2], g->shape->dropout, NAN), SW_INVALID, "'dropout'");
    OK(sw_member_knob_get(g->member[2], g->shape->number[3], &now));
    CU_ASSERT_EQUAL(now, 0.9f);
    OK(sw_member_knob_set(g->member[2], g->shape->dropout, 1.0f));
    OK(sw_members_run(g->all, &args));
}

/* Before a step function has been traced nothing says what a knob of the program's is for. */
SW_TEST("a value from before is looked at")
{
    make_data(ROWS);
    group *g = group_new(2, "sgd", NULL, true);
    sw_status ended[N];
    OK(sw_member_knob_set(g->member[4], g->shape->dropout, -3.0f));
    const sw_members_args args = ARGS_OF(g, false, SW_TRAIN, 0);
    for (int i = 0; i < 2; i++) {
        OK(sw_members_run(g->all, &args));
        CU_ASSERT(strstr(sw_last_note(), "knob 'dropout'") != NULL);
        OK(sw_members_status(g->all, ended, N));
        for (int k = 0; k < N; k++)
            CU_ASSERT_EQUAL(ended[k], k == 4 ? SW_INVALID : SW_OK);
    }
    OK(sw_member_knob_set(g->member[4], g->shape->dropout, 0.5f));
    OK(sw_members_run(g->all, &args));
    OK(sw_members_status(g->all, ended, N));
    CU_ASSERT_EQUAL(ended[4], SW_OK);
}
