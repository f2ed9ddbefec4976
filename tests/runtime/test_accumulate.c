/* Gradient accumulation: what a large batch gives, within rounding, in the memory of a small
 * one and the kept gradients. */
#include "tests/runtime/nets.h"

SW_TESTS("accumulate")

#define IN 37
#define HIDDEN 53
#define OUT 11
#define MICRO 24
#define N 4 /* micro-batches */
#define ALL (N * MICRO)

typedef struct {
    sw_model *model;
    sw_linear f1, f2, f3;
    sw_optimizer *opt;
    sw_knob share, max; /* of the loss: 1 / N with micro-batches */
    bool update, accumulate;
} mean_net;

static float x[ALL][IN];
static uint8_t y[ALL];

/* A mean over the batch: each micro-batch counts as its share of the whole. */
static void mean_step(sw_ctx *c, void *user)
{
    mean_net *n = user;
    sw_value v = sw_tanh(c, sw_apply_linear(c, n->f1, sw_input(c, 0)));
    v = sw_swish(c, sw_apply_linear(c, n->f2, v));
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->f3, v), sw_input(c, 1));
    const sw_value shared = sw_scale(c, loss, n->share);
    sw_metric(c, "loss", shared);
    sw_backward(c, shared, &n->opt, 1);
    if (n->accumulate)
        sw_accumulate(c, n->opt);
    if (!n->update)
        return;
    sw_clip_norm(c, n->opt, n->max);
    sw_update(c, n->opt);
}

static void start(mean_net *n, sw_exec *exec, const char *kind, bool keep)
{
    memset(n, 0, sizeof *n);
    n->model = made_model("net");
    n->f1 = sw_linear_new(n->model, "f1", IN, HIDDEN);
    n->f2 = sw_linear_new(n->model, "f2", HIDDEN, HIDDEN);
    n->f3 = sw_linear_new(n->model, "f3", HIDDEN, OUT);
    n->share = sw_knob_new(n->model, "share", keep ? 1.0f / N : 1.0f);
    n->max = sw_knob_new(n->model, "max", 0.5f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = kind, .lr = 0.02f, .keep_gradients = keep);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    OK(sw_model_ready(n->model, exec, 6));
}

static sw_run_args args_of(mean_net *n, sw_array *in, int from, int rows)
{
    in[0] = (sw_array){SW_F32, SW_SHAPE(rows, IN), x[from]};
    in[1] = (sw_array){SW_U8, SW_SHAPE(rows), y + from};
    return SW_OPTS(sw_run_args, .fn = mean_step, .user = n, .models = &n->model, .n_models = 1,
                   .inputs = in, .n_inputs = 2,
                   .variant = (uint64_t)n->update | (uint64_t)n->accumulate << 1);
}

static void fill_data(void)
{
    for (int i = 0; i < ALL; i++) {
        y[i] = (uint8_t)(i * 7 % OUT);
        for (int k = 0; k < IN; k++)
            x[i][k] = sinf((float)(i * 13 + k * 5)) + (k % OUT == y[i] ? 1.0f : 0.0f);
    }
}

/* The last micro-batch updates in the same run as it accumulates. */
static void step_small(sw_exec *exec, mean_net *n, double *loss)
{
    *loss = 0;
    for (int i = 0; i < N; i++) {
        sw_array in[2];
        n->update = i + 1 == N;
        n->accumulate = !n->update;
        sw_run_args args = args_of(n, in, i * MICRO, MICRO);
        args.run = (uint32_t)i;
        OK(sw_run(exec, &args));
        *loss += net_metric(exec, "loss");
    }
}

SW_TEST("micro-batches are one large batch")
{
    fill_data();
    for (size_t k = 0; sw_optimizer_kind(k) != NULL; k++) {
        const char *kind = sw_optimizer_kind(k);
        if (strcmp(kind, "lion") == 0) /* the sign of a sum: rounding may turn it */
            continue;
        sw_exec *exec = net_exec(NULL);
        mean_net large, small;
        start(&large, exec, kind, false);
        start(&small, exec, kind, true);
        for (int step = 0; step < 5; step++) {
            static float a[HIDDEN * HIDDEN], b[HIDDEN * HIDDEN];
            double loss;
            sw_array in[2];
            large.update = true;
            const sw_run_args args = args_of(&large, in, 0, ALL);
            OK(sw_run(exec, &args));
            const double whole = net_metric(exec, "loss");
            step_small(exec, &small, &loss);
            CU_ASSERT_DOUBLE_EQUAL(loss, whole, 1e-4);
            OK(sw_param_read(large.f2.weight, a, sizeof a));
            OK(sw_param_read(small.f2.weight, b, sizeof b));
            double off = 0, size = 0;
            for (int i = 0; i < HIDDEN * HIDDEN; i++) {
                off += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
                size += (double)a[i] * (double)a[i];
            }
            SW_CHECK(sqrt(off / size) < 1e-4, "%s, step %d: off by %g", kind, step,
                     sqrt(off / size));
        }
    }
}

/* The plan of a micro-batch is that of a small batch: no byte of its arena is larger than
 * without accumulation, and the model is larger by the gradients and their flags. */
SW_TEST("memory is that of a small batch")
{
    fill_data();
    sw_exec *exec = net_exec(NULL);
    mean_net plain, kept;
    sw_array in[2];
    sw_plan_info large = SW_OPTS(sw_plan_info), small = SW_OPTS(sw_plan_info), micro = small,
                 last = small;
    start(&plain, exec, "sgd", false);
    start(&kept, exec, "sgd", true);
    plain.update = true;
    sw_run_args args = args_of(&plain, in, 0, ALL);
    OK(sw_plan(exec, &args, &large));
    args = args_of(&plain, in, 0, MICRO);
    OK(sw_plan(exec, &args, &small));
    kept.accumulate = true;
    args = args_of(&kept, in, 0, MICRO);
    OK(sw_plan(exec, &args, &micro));
    kept.update = true;
    kept.accumulate = false;
    args = args_of(&kept, in, 0, MICRO);
    OK(sw_plan(exec, &args, &last));
    CU_ASSERT_EQUAL(micro.model_bytes,
                    small.model_bytes + kept.model->role_bytes[SWI_ROLE_GRADIENT] + 64);
    CU_ASSERT(micro.arena_bytes <= small.arena_bytes);
    SW_CHECK(last.arena_bytes <= small.arena_bytes + 64, "%zu, %zu", last.arena_bytes,
             small.arena_bytes);
    CU_ASSERT_EQUAL(micro.slot_bytes, small.slot_bytes);
    CU_ASSERT(small.arena_bytes < large.arena_bytes);
    CU_ASSERT(micro.peak_bytes - micro.model_bytes < large.peak_bytes - large.model_bytes);
    /* And so it is when it runs. */
    double loss;
    sw_run_info info = SW_OPTS(sw_run_info);
    for (int step = 0; step < 2; step++)
        step_small(exec, &kept, &loss);
    OK(sw_last_run(exec, &info));
    CU_ASSERT_EQUAL(info.peak_bytes, last.peak_bytes);
    CU_ASSERT_EQUAL(info.allocations, 0);
}
