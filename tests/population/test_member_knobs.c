/* Members with numbers of their own: momenta, betas, decays and dropout that differ and change,
 * each as in a model that is trained alone. */
#include "alloc/base/mem.h"
#include "tests/runtime/nets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 9, IN = 12, HIDDEN = 20, OUT = 5, ROWS = 16, STEPS = 8, NUMBERS = 5 };

typedef struct {
    sw_model *model;
    sw_linear f1, f2;
    sw_knob dropout, number[NUMBERS]; /* of them UINT32_MAX: not there */
    sw_optimizer *opt;
    int calls;
} tiny;

static const char *const names[NUMBERS] = {"lr", "weight_decay", "momentum", "beta1", "beta2"};

static void tiny_step(sw_ctx *ctx, void *user)
{
    tiny *t = user;
    t->calls++;
    sw_value x = sw_tanh(ctx, sw_apply_linear(ctx, t->f1, sw_input(ctx, 0)));
    x = sw_apply_linear(ctx, t->f2, sw_dropout_knob(ctx, x, t->dropout));
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    sw_backward(ctx, loss, &t->opt, 1);
    sw_update(ctx, t->opt);
}

static void end_tiny(void *tiny_net)
{
    sw_model_destroy(((tiny *)tiny_net)->model);
    free(tiny_net);
}

static tiny *tiny_new(const char *kind)
{
    tiny *t = calloc(1, sizeof *t);
    sw_after(end_tiny, t);
    OK(sw_model_create(&t->model, "tiny"));
    t->f1 = sw_linear_new(t->model, "f1", IN, HIDDEN);
    t->f2 = sw_linear_new(t->model, "f2", HIDDEN, OUT);
    t->dropout = sw_knob_new(t->model, "dropout", 0.25f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = kind, .lr = 0.02f, .knobs = 1);
    OK(sw_optimizer_create(&t->opt, t->model, &opts));
    for (int i = 0; i < NUMBERS; i++)
        t->number[i] = sw_optimizer_knob(t->opt, 0, names[i]);
    return t;
}

/* Of member k in a step: number i, and the rate of dropout. */
static float number_at(int k, int step, int i)
{
    const float x = (float)((k * 5 + step * 3 + i * 7) % 13) / 14.0f;
    return i == 0 ? 0.05f * x : i == 1 ? 0.1f * x : x;
}
static float rate_at(int k, int step)
{
    return k == 0 ? 0.0f : (float)((k + step) % 5) / 4.0f;
}

/* ---- data -------------------------------------------------------------------------------- */

static float numbers[ROWS * IN];
static unsigned char labels[ROWS];
static const sw_array arrays[] = {{SW_F32, {2, {ROWS, IN}}, numbers},
                                  {SW_U8, {1, {ROWS}}, labels}};

static void make_data(void)
{
    sw_dice dice = {7};
    for (int i = 0; i < ROWS * IN; i++)
        numbers[i] = (float)sw_dice_below(&dice, 2000) / 1000.0f - 1.0f;
    for (int i = 0; i < ROWS; i++)
        labels[i] = (unsigned char)sw_dice_below(&dice, OUT);
}

/* ---- groups ------------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    tiny *shape;
    sw_members *all;
    sw_member member[N];
} group;

static void end_group(void *g)
{
    sw_members_destroy(((group *)g)->all);
    free(g);
}

static group *group_new(int threads, const char *kind)
{
    group *g = calloc(1, sizeof *g);
    const sw_exec_opts exec = SW_OPTS(sw_exec_opts, .threads = threads);
    make_data();
    g->exec = net_exec(&exec);
    g->shape = tiny_new(kind);
    sw_after(end_group, g);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = g->shape->model, .fn = tiny_step, .user = g->shape);
    OK(sw_members_create(&g->all, g->exec, &opts));
    for (int k = 0; k < N; k++)
        OK(sw_member_new(&g->member[k], g->all, (uint64_t)k + 1));
    return g;
}

static sw_members_args args_of(const group *g, sw_mode mode, int step)
{
    return SW_OPTS(sw_members_args, .members = g->member, .n = N, .inputs = arrays,
                   .n_inputs = 2, .mode = mode, .step = (uint64_t)step);
}

static void turn(const group *g, int k, int step)
{
    OK(sw_member_knob_set(g->member[k], g->shape->dropout, rate_at(k, step)));
    for (int i = 0; i < NUMBERS; i++)
        if (g->shape->number[i].index != UINT32_MAX)
            OK(sw_member_knob_set(g->member[k], g->shape->number[i], number_at(k, step, i)));
}

/* ---- the same as alone ------------------------------------------------------------------- */

static tiny *alone(int k, const char *kind)
{
    tiny *t = tiny_new(kind);
    const uint64_t seed = (uint64_t)k + 1;
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = seed));
    OK(sw_model_ready(t->model, exec, seed));
    for (int step = 0; step < STEPS; step++) {
        sw_knob_set(t->dropout, rate_at(k, step));
        for (int i = 0; i < NUMBERS; i++)
            if (t->number[i].index != UINT32_MAX)
                sw_knob_set(t->number[i], number_at(k, step, i));
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = tiny_step, .user = t, .models = &t->model, .n_models = 1,
                    .inputs = arrays, .n_inputs = 2, .mode = SW_TRAIN, .step = (uint64_t)step);
        OK(sw_run(exec, &args));
    }
    CU_ASSERT_EQUAL(t->calls, 1);
    return t;
}

static void compare(int threads, const char *kind)
{
    group *g = group_new(threads, kind);
    uint64_t calls = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < N; k++)
            turn(g, k, step);
        const sw_members_args args = args_of(g, SW_TRAIN, step);
        OK(sw_members_run(g->all, &args));
        calls = step == 1 ? sw_mem_calls() : calls;
    }
    SW_CHECK(sw_mem_calls() == calls, "%s: a change took memory", kind);
    SW_CHECK(g->shape->calls == 1, "%s: traced %d times", kind, g->shape->calls);
    for (int k = 0; k < N; k++) {
        const tiny *t = alone(k, kind);
        void *bytes = net_copy_bytes(t->model);
        OK(sw_member_to_model(t->model, g->member[k]));
        SW_CHECK(net_same_bytes(t->model, bytes), "%s, %d threads: member %d", kind, threads,
                 k);
    }
}

static void members_of_sgd(void)
{
    compare(1, "sgd");
}
static void members_of_adam(void)
{
    compare(2, "adam");
}
static void members_of_adamw(void)
{
    compare(3, "adamw");
}
static void members_of_rmsprop(void)
{
    compare(2, "rmsprop");
}
static void members_of_lion(void)
{
    compare(2, "lion");
}
static void members_of_adafactor(void)
{
    compare(2, "adafactor");
}

/* ---- what is refused --------------------------------------------------------------------- */

static void what_cannot_be_names_the_knob(void)
{
    group *g = group_new(2, "adam");
    float now = 0.0f;
    const sw_members_args args = args_of(g, SW_TRAIN, 0);
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
static void a_value_from_before_is_looked_at(void)
{
    group *g = group_new(2, "sgd");
    sw_status ended[N];
    OK(sw_member_knob_set(g->member[4], g->shape->dropout, -3.0f));
    const sw_members_args args = args_of(g, SW_TRAIN, 0);
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

static const sw_test tests[] = {
    {"members of sgd are models of sgd", members_of_sgd, false},
    {"members of adam are models of adam", members_of_adam, false},
    {"members of adamw are models of adamw", members_of_adamw, false},
    {"members of rmsprop are models of rmsprop", members_of_rmsprop, false},
    {"members of lion are models of lion", members_of_lion, false},
    {"members of adafactor are models of adafactor", members_of_adafactor, false},
    {"what cannot be names the knob", what_cannot_be_names_the_knob, false},
    {"a value from before is looked at", a_value_from_before_is_looked_at, false},
};
SW_SUITE("member knobs", tests)
