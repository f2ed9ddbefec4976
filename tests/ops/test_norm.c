/* Normalisation beyond the checks of its descriptors: running statistics, what is kept, numbers
 * far from 0, the same bits for any number of threads, refusals. */
#include "runtime/ops/ops.h"
#include "tests/support/made.h"

SW_TESTS("norm")

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *opt;
    sw_param x; /* the input, where it is a parameter */
    sw_batch_norm2d batch;
    sw_layer_norm layer;
    sw_rms_norm rms;
    sw_group_norm group;
    int uses; /* of the batch norm in a step */
    sw_value (*make)(sw_ctx *c, void *user);
} bench;

static void close_bench(void *arg)
{
    bench *b = arg;
    sw_model_destroy(b->model);
    sw_exec_destroy(b->exec);
    b->model = NULL;
    b->exec = NULL;
}

static void open_bench(bench *b, int threads)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .threads = threads);
    memset(b, 0, sizeof *b);
    b->uses = 1;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&b->exec, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&b->model, "norm"), SW_OK);
    sw_after(close_bench, b);
}

static void ready(bench *b, const char *kind)
{
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = kind, .lr = 0.01f);
    OK(sw_optimizer_create(&b->opt, b->model, &opts));
    OK(sw_model_ready(b->model, b->exec, 3));
}

static sw_run_args args_of(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                           sw_mode mode)
{
    return SW_OPTS(sw_run_args, .fn = fn, .user = b, .models = &b->model, .n_models = 1,
                   .inputs = inputs, .n_inputs = n_inputs, .mode = mode,
                   .variant = (uint64_t)b->uses);
}

/* ---- running statistics ------------------------------------------------------------------ */

enum { BATCH = 17, CHANNELS = 3, INNER = 20 };

static void fill(float *x, int n, uint64_t seed, float at, float by)
{
    sw_dice dice = {seed};
    for (int i = 0; i < n; i++)
        x[i] = at + by * ((float)sw_dice_below(&dice, 2001) / 1000.0f - 1.0f);
}

static void batch_step(sw_ctx *c, void *user)
{
    const bench *b = user;
    sw_value y = {0, 0};
    for (int i = 0; i < b->uses; i++)
        y = sw_apply_batch_norm2d(c, b->batch, sw_input(c, 0));
    sw_output(c, "y", y);
}

/* One update of a channel's running mean and variance, in double. */
static void running_rule(const float *x, int c, double *mean, double *var)
{
    const int count = BATCH * INNER;
    double sum = 0, square = 0;
    for (int i = 0; i < BATCH; i++)
        for (int k = 0; k < INNER; k++)
            sum += (double)x[(i * CHANNELS + c) * INNER + k];
    for (int i = 0; i < BATCH; i++)
        for (int k = 0; k < INNER; k++)
            square += pow((double)x[(i * CHANNELS + c) * INNER + k] - sum / count, 2);
    *mean = 0.9 * *mean + 0.1 * sum / count;
    *var = 0.9 * *var + 0.1 * square / (count - 1);
}

static void read_running(bench *b, float *mean, float *var)
{
    OK(sw_param_read(b->batch.running_mean, mean, CHANNELS * sizeof *mean));
    OK(sw_param_read(b->batch.running_var, var, CHANNELS * sizeof *var));
}

static void check_running(bench *b, const double *mean, const double *var)
{
    float m[CHANNELS], v[CHANNELS];
    read_running(b, m, v);
    for (int c = 0; c < CHANNELS; c++) {
        SW_CHECK(fabs((double)m[c] - mean[c]) < 1e-6 * (1.0 + fabs(mean[c])), "%g, not %g",
                 (double)m[c], mean[c]);
        SW_CHECK(fabs((double)v[c] - var[c]) < 1e-6 * (1.0 + var[c]), "%g, not %g",
                 (double)v[c], var[c]);
    }
}

SW_TEST("training moves running statistics by the rule")
{
    static float x[BATCH * CHANNELS * INNER];
    static bench b;
    double mean[CHANNELS] = {0, 0, 0}, var[CHANNELS] = {1, 1, 1};
    const sw_array in = {SW_F32, SW_SHAPE(BATCH, CHANNELS, 4, 5), x};
    open_bench(&b, 2);
    b.batch = sw_batch_norm2d_new(b.model, "norm", CHANNELS);
    ready(&b, "sgd");
    for (int step = 0; step < 3; step++) {
        b.uses = step == 2 ? 2 : 1; /* a layer that is used twice counts twice */
        fill(x, BATCH * CHANNELS * INNER, 5 + (uint64_t)step, 3.0f, 2.0f);
        const sw_run_args args = args_of(&b, batch_step, &in, 1, SW_TRAIN);
        OK(sw_run(b.exec, &args));
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i < b.uses; i++)
                running_rule(x, c, &mean[c], &var[c]);
        check_running(&b, mean, var);
    }
}

SW_TEST("evaluation uses them and leaves them")
{
    static float x[BATCH * CHANNELS * INNER];
    static const float mean[] = {1, -2, 3}, var[] = {4, 0.25f, 1}, weight[] = {1, 2, -1},
                       bias[] = {0, 1, 2};
    static bench b;
    float m[CHANNELS], v[CHANNELS];
    const sw_array in = {SW_F32, SW_SHAPE(BATCH, CHANNELS, 4, 5), x};
    sw_array y = {.data = NULL};
    open_bench(&b, 1);
    b.batch = sw_batch_norm2d_new(b.model, "norm", CHANNELS);
    ready(&b, "sgd");
    OK(sw_param_write(b.batch.running_mean, mean, sizeof mean));
    OK(sw_param_write(b.batch.running_var, var, sizeof var));
    OK(sw_param_write(b.batch.weight, weight, sizeof weight));
    OK(sw_param_write(b.batch.bias, bias, sizeof bias));
    fill(x, BATCH * CHANNELS * INNER, 9, 0.0f, 2.0f);
    const sw_run_args args = args_of(&b, batch_step, &in, 1, SW_EVAL);
    OK(sw_run(b.exec, &args));
    OK(sw_output_get(b.exec, "y", &y));
    for (int i = 0; i < BATCH * CHANNELS * INNER; i++) {
        const int c = i / INNER % CHANNELS;
        const double wanted =
            ((double)x[i] - (double)mean[c]) / sqrt((double)var[c] + 1e-5) * (double)weight[c] +
            (double)bias[c];
        SW_CHECK(fabs((double)((const float *)y.data)[i] - wanted) < 1e-5, "%d: %g, not %g", i,
                 (double)((const float *)y.data)[i], wanted);
    }
    read_running(&b, m, v);
    CU_ASSERT(memcmp(m, mean, sizeof m) == 0 && memcmp(v, var, sizeof v) == 0);
}

/* ---- what is kept ------------------------------------------------------------------------ */

static void kept_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value y = b->make(c, b);
    sw_backward(c, sw_mean(c, sw_mul(c, y, sw_input(c, 0)), 0), &b->opt, 1);
    sw_update(c, b->opt);
}

/* In bytes of the step: a parameter would be kept anyway. */
static sw_value input_of(sw_ctx *c, const bench *b)
{
    return sw_scale_by(c, sw_use(c, b->x), 2.0f);
}

#define NORMALISES(name, ...)                                                                  \
    static sw_value name(sw_ctx *c, void *user)                                                \
    {                                                                                          \
        bench *b = user;                                                                       \
        return __VA_ARGS__;                                                                    \
    }
NORMALISES(by_layer,
           sw_apply_layer_norm(c, b->layer, sw_reshape(c, input_of(c, b), SW_SHAPE(240, 49))))
NORMALISES(by_rms,
           sw_apply_rms_norm(c, b->rms, sw_reshape(c, input_of(c, b), SW_SHAPE(240, 49))))
NORMALISES(by_group, sw_apply_group_norm(c, b->group, input_of(c, b)))
NORMALISES(by_batch, sw_apply_batch_norm2d(c, b->batch, input_of(c, b)))

/* x has 20 images of 12 channels of 49 places. */
static const struct {
    sw_value (*make)(sw_ctx *c, void *user);
    int64_t floats; /* that are kept, besides x */
    sw_shape y;
} kinds[] = {{by_layer, 2 * 240, {2, {240, 49}}},
             {by_rms, 240, {2, {240, 49}}},
             {by_group, 2 * 20 * 3, {4, {20, 12, 7, 7}}},
             {by_batch, 2 * 12, {4, {20, 12, 7, 7}}}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void all_layers(bench *b, int kind)
{
    b->make = kinds[kind].make;
    b->x = sw_param_new(b->model, "x", SW_F32, SW_SHAPE(20, 12, 7, 7), "normal:1");
    b->layer = sw_layer_norm_new(b->model, "layer", 49);
    b->rms = sw_rms_norm_new(b->model, "rms", 49);
    b->group = sw_group_norm_new(b->model, "group", 3, 12);
    b->batch = sw_batch_norm2d_new(b->model, "batch", 12);
    ready(b, "sgd");
}

static void add_saved(void *to, const sw_plan_storage *s)
{
    if (!s->input && s->alias == UINT32_MAX && strcmp(s->role, "saved") == 0)
        *(size_t *)to += s->bytes;
}

SW_TEST("input and statistics are kept, nothing else")
{
    for (int i = 0; i < KINDS; i++) {
        static bench b[KINDS];
        size_t kept = 0;
        open_bench(&b[i], 1);
        all_layers(&b[i], i);
        const sw_array in = {SW_F32, kinds[i].y, NULL}; /* the product keeps it, and y is not */
        const sw_run_args args = args_of(&b[i], kept_step, &in, 1, SW_TRAIN);
        OK(sw_plan_visit(b[i].exec, &args,
                         &SW_OPTS(sw_plan_visitor, .to = &kept, .storage = add_saved)));
        SW_CHECK(kept == sizeof(float) * (size_t)(20 * 12 * 49 + kinds[i].floats),
                 "%d: %zu bytes are kept, must be %d floats besides x", i, kept,
                 (int)kinds[i].floats);
    }
}

/* ---- instruction sets -------------------------------------------------------------------- */

/* x after a step in which its gradient comes through the op. */
static bool step_with(const char *isa, int kind, float *to, size_t bytes)
{
    static float factors[20 * 12 * 49];
    static bench b;
    const sw_array in = {SW_F32, kinds[kind].y, factors};
    open_bench(&b, 1);
    sw_exec_destroy(b.exec);
    b.exec = NULL;
    if (sw_exec_create(&b.exec, &SW_OPTS(sw_exec_opts, .isa = isa)) != SW_OK)
        return false; /* this machine does not have it */
    all_layers(&b, kind);
    fill(factors, 20 * 12 * 49, 31, 0.0f, 100.0f);
    const sw_run_args args = args_of(&b, kept_step, &in, 1, SW_TRAIN);
    OK(sw_run(b.exec, &args));
    OK(sw_param_read(b.x, to, bytes));
    close_bench(&b);
    return true;
}

SW_TEST("instruction sets do not change bits")
{
    static float best[20 * 12 * 49], other[20 * 12 * 49];
    for (int i = 0; i < KINDS; i++) {
        CU_ASSERT(step_with(NULL, i, best, sizeof best));
        CU_ASSERT(step_with("base", i, other, sizeof other));
        SW_CHECK(memcmp(best, other, sizeof best) == 0, "%d: base differs", i);
        if (step_with("avx2", i, other, sizeof other))
            SW_CHECK(memcmp(best, other, sizeof best) == 0, "%d: avx2 differs", i);
    }
}

/* ---- numbers far from 0 ------------------------------------------------------------------ */

static void far_step(sw_ctx *c, void *user)
{
    const bench *b = user;
    const sw_value none = {0, 0}, x = sw_input(c, 0);
    sw_output(c, "layer", sw_layer_norm_op(c, x, none, none, 0.0f));
    sw_output(c, "batch",
              sw_batch_norm_op(c, sw_reshape(c, x, SW_SHAPE(1, 2, 50, 60)), none, none,
                               b->batch.running_mean, b->batch.running_var, 1.0f, 0.0f));
}

/* The mean is 10,000 times as large as the deviation: a variance from E[x x] - E[x]^2 in
 * float32 would be noise. */
SW_TEST("a large mean costs nothing")
{
    enum { COLS = 3000 };
    static float x[2 * COLS];
    static bench b;
    const sw_array in = {SW_F32, SW_SHAPE(2, COLS), x};
    open_bench(&b, 1);
    b.batch = sw_batch_norm2d_new(b.model, "norm", 2);
    ready(&b, "sgd");
    fill(x, 2 * COLS, 21, 8192.0f, 1.0f);
    const sw_run_args args = args_of(&b, far_step, &in, 1, SW_TRAIN);
    OK(sw_run(b.exec, &args));
    for (int which = 0; which < 2; which++) {
        sw_array y = {.data = NULL};
        OK(sw_output_get(b.exec, which == 0 ? "layer" : "batch", &y));
        for (int r = 0; r < 2; r++) {
            double sum = 0, square = 0;
            for (int i = 0; i < COLS; i++) {
                const double v = (double)((const float *)y.data)[r * COLS + i];
                sum += v / COLS;
                square += v * v / COLS;
            }
            /* The float32 mean itself is off by at most half its last place. */
            SW_CHECK(fabs(sum) < 1.1 * 0x1p-11 / 0.57, "mean %g", sum);
            SW_CHECK(fabs(square - sum * sum - 1.0) < 1e-5, "variance %g", square - sum * sum);
        }
    }
}

/* The variance of equal numbers is exactly 0, and they are their mean. */
SW_TEST("equal numbers give zero")
{
    static float x[2 * 3000];
    static bench b;
    sw_array y = {.data = NULL};
    const sw_array in = {SW_F32, SW_SHAPE(1, 2, 50, 60), x};
    open_bench(&b, 1);
    b.batch = sw_batch_norm2d_new(b.model, "norm", 2);
    b.batch.weight = b.batch.bias = (sw_param){NULL, 0};
    ready(&b, "sgd");
    for (int i = 0; i < 2 * 3000; i++)
        x[i] = 0.1f;
    const sw_run_args args = args_of(&b, batch_step, &in, 1, SW_TRAIN);
    OK(sw_run(b.exec, &args));
    OK(sw_output_get(b.exec, "y", &y));
    for (int i = 0; i < 2 * 3000; i++)
        CU_ASSERT_EQUAL(((const float *)y.data)[i], 0.0f);
}

/* ---- threads ----------------------------------------------------------------------------- */

typedef struct {
    sw_conv2d conv[2];
    sw_linear fc[2];
    bench b;
} net;

static void net_step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value x = sw_apply_conv2d(c, n->conv[0], sw_input(c, 0));
    x = sw_swish(c, sw_apply_batch_norm2d(c, n->b.batch, x));
    x = sw_swish(c, sw_apply_group_norm(c, n->b.group, sw_apply_conv2d(c, n->conv[1], x)));
    x = sw_apply_linear(c, n->fc[0], sw_flatten(c, sw_avg_pool(c, x, 4)));
    x = sw_tanh(c, sw_apply_layer_norm(c, n->b.layer, x));
    x = sw_apply_linear(c, n->fc[1], sw_apply_rms_norm(c, n->b.rms, x));
    sw_backward(c, sw_mean(c, sw_mul(c, x, x), 0), &n->b.opt, 1);
    sw_update(c, n->b.opt);
}

/* All parameters and buffers after three steps. */
static size_t train_net(int threads, int64_t batch, float *to, size_t room)
{
    static net n;
    static float x[70 * 3 * 12 * 12];
    size_t used = 0;
    open_bench(&n.b, threads);
    n.conv[0] = sw_conv2d_new(n.b.model, "conv0", 3, 8, 1);
    n.b.batch = sw_batch_norm2d_new(n.b.model, "batch", 8);
    n.conv[1] = sw_conv2d_new(n.b.model, "conv1", 8, 12, 1);
    n.b.group = sw_group_norm_new(n.b.model, "group", 3, 12);
    n.fc[0] = sw_linear_new(n.b.model, "fc0", 108, 300);
    n.b.layer = sw_layer_norm_new(n.b.model, "layer", 300);
    n.b.rms = sw_rms_norm_new(n.b.model, "rms", 300);
    n.fc[1] = sw_linear_new(n.b.model, "fc1", 300, 5);
    ready(&n.b, "adam");
    fill(x, 70 * 3 * 12 * 12, 77, 0.2f, 1.0f);
    const sw_array in = {SW_F32, SW_SHAPE(batch, 3, 12, 12), x};
    sw_run_args args = args_of(&n.b, net_step, &in, 1, SW_TRAIN);
    args.user = &n;
    for (args.step = 0; args.step < 3; args.step++)
        OK(sw_run(n.b.exec, &args));
    for (size_t i = 0; i < sw_param_count(n.b.model); i++) {
        const sw_param p = sw_param_at(n.b.model, i);
        const sw_shape s = sw_param_shape(p);
        const size_t count = (size_t)swi_elements(&s);
        CU_ASSERT_FATAL(used + count <= room);
        OK(sw_param_read(p, to + used, count * sizeof *to));
        used += count;
    }
    close_bench(&n.b);
    return used;
}

SW_TEST("threads do not change bits")
{
    enum { ROOM = 40000 };
    static float one[ROOM], other[ROOM];
    for (int64_t batch = 50; batch <= 70; batch += 20) { /* plain; blocks, the last not full */
        const size_t n = train_net(1, batch, one, ROOM);
        CU_ASSERT(n > 30000);
        for (int threads = 4; threads > 1; threads--) {
            CU_ASSERT_EQUAL(train_net(threads, batch, other, ROOM), n);
            SW_CHECK(memcmp(one, other, n * sizeof *one) == 0, "%d images, %d threads",
                     (int)batch, threads);
        }
        for (size_t i = 0; i < n; i++)
            CU_ASSERT(isfinite((double)one[i]));
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

static int bad; /* which of the uses below */

static void bad_step(sw_ctx *c, void *user)
{
    const bench *b = user;
    const sw_value x = sw_input(c, 0), none = {0, 0}, w = sw_use(c, b->batch.weight);
    sw_layer_norm layer = {.weight = b->batch.weight, .epsilon = 1e-5f, .reserved = {0, 1}};
    sw_batch_norm2d batch = b->batch;
    sw_value y = {0, 0};
    if (bad == 0)
        y = sw_apply_batch_norm2d(c, batch,
                                  sw_slice(c, sw_reshape(c, x, SW_SHAPE(4, 3)), 0, 0, 1));
    if (bad == 1)
        y = sw_group_norm_op(c, x, none, none, 2, 1e-5f);
    if (bad == 2)
        y = sw_group_norm_op(c, x, none, w, 3, 1e-5f);
    if (bad == 3)
        y = sw_layer_norm_op(c, x, w, none, 1e-5f);
    if (bad == 4)
        y = sw_rms_norm_op(c, x, none, -1.0f);
    if (bad == 5) {
        batch.momentum = 1.5f;
        y = sw_apply_batch_norm2d(c, batch, x);
    }
    if (bad == 6)
        y = sw_apply_layer_norm(c, layer, x);
    if (bad == 7)
        y = sw_batch_norm_op(c, x, w, none, b->batch.weight, b->batch.running_var, 0.1f, 1e-5f);
    sw_output(c, "y", y);
}

SW_TEST("wrong uses are refused")
{
    static const char *const words[] = SW_INIT(
        "in each channel for a variance (got (1, 3)", "(got 3 channels and 2 groups)",
        "a bias needs a weight", "input 1 must be (",
        "epsilon must be finite and at least 0 (got -1)", "momentum must be 0 to 1 (got 1.5)",
        "reserved words must be zero", "only states and buffers");
    static bench b;
    const sw_array in = {SW_F32, SW_SHAPE(2, 3, 1, 2), NULL};
    open_bench(&b, 1);
    b.batch = sw_batch_norm2d_new(b.model, "norm", 3);
    ready(&b, "sgd");
    for (bad = 0; bad < (int)(sizeof words / sizeof *words); bad++) {
        sw_run_args args = args_of(&b, bad_step, &in, 1, SW_TRAIN);
        args.variant = (uint64_t)bad;
        const sw_status status = sw_plan(b.exec, &args, &SW_OPTS(sw_plan_info));
        SW_CHECK(status == SW_INVALID && strstr(sw_last_error(), words[bad]) != NULL,
                 "no '%s' of %d: %s", words[bad], bad, sw_last_error());
    }
}
