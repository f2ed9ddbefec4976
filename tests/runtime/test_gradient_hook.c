/* Gradient hooks, and the utility of neurons, which goes the same way. */
#include "runtime/ops/ops.h"
#include "tests/runtime/nets.h"

SW_TESTS("hooks")

typedef struct {
    net *n;
    sw_gradient_fn *fn;
    float factor;
    int calls;
    int wrong; /* 1: another shape */
    uint64_t seen;
} hooked;

static sw_value scaled(sw_ctx *ctx, sw_param param, sw_value g, void *user)
{
    hooked *h = user;
    h->calls++;
    h->seen |= (uint64_t)1 << param.index;
    if (h->wrong)
        return sw_sum(ctx, g, 0);
    return h->factor == 1.0f ? g : sw_scale_by(ctx, g, h->factor);
}

static void step(sw_ctx *ctx, void *user)
{
    hooked *h = user;
    sw_gradient_hook(ctx, h->n->model, h->fn, h);
    net_step(ctx, h->n);
}

static sw_run_args args_of(hooked *h, const batch *b)
{
    sw_run_args args = net_args(h->n, b);
    args.fn = step;
    args.user = h;
    return args;
}

static void train(sw_exec *exec, hooked *h, const batch *b, int immediate)
{
    for (uint64_t i = 0; i < 3; i++) {
        sw_run_args args = args_of(h, b);
        args.immediate = immediate;
        args.step = i;
        OK(sw_run(exec, &args));
    }
}

static net *net_with(bool image, float lr, sw_update_time update)
{
    return net_new(image,
                   &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = lr, .update = (int)update));
}

static const sw_update_time times[] = {SW_UPDATE_AFTER, SW_UPDATE_RELEASE};

/* Half a gradient at a rate is a gradient at half the rate, bit for bit: planned, immediate,
 * updated after backward and in it. */
SW_TEST("a hook is between a gradient and its update")
{
    for (int image = 0; image < 2; image++)
        for (int t = 0; t < 2; t++)
            for (int immediate = 0; immediate < 2; immediate++) {
                sw_exec *exec = net_exec(NULL);
                const batch b = net_batch(image, 0, NET_BATCH);
                hooked half = {
                    .n = net_with(image, 0.5f, times[t]), .fn = scaled, .factor = 0.5f};
                hooked none = {.n = net_with(image, 0.25f, times[t])};
                hooked same = {
                    .n = net_with(image, 0.25f, times[t]), .fn = scaled, .factor = 1.0f};
                OK(sw_model_ready(half.n->model, exec, 5));
                OK(sw_model_ready(none.n->model, exec, 5));
                OK(sw_model_ready(same.n->model, exec, 5));
                train(exec, &half, &b, immediate);
                train(exec, &none, &b, immediate);
                train(exec, &same, &b, immediate);
                for (size_t i = 0; i < sw_param_count(none.n->model); i++) {
                    const sw_param p = sw_param_at(none.n->model, i);
                    const size_t bytes = swi_entry_of(p)->bytes;
                    static float x[3][1 << 16];
                    OK(sw_param_read(p, x[0], bytes));
                    OK(sw_param_read(sw_param_at(half.n->model, i), x[1], bytes));
                    OK(sw_param_read(sw_param_at(same.n->model, i), x[2], bytes));
                    CU_ASSERT(memcmp(x[0], x[1], bytes) == 0);
                    CU_ASSERT(memcmp(x[0], x[2], bytes) == 0);
                    CU_ASSERT((half.seen >> p.index & 1) == 1);
                }
                CU_ASSERT_EQUAL(half.calls % (int)sw_param_count(none.n->model), 0);
            }
}

static size_t arena_of(sw_exec *exec, hooked *h, const batch *b)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    const sw_run_args args = args_of(h, b);
    OK(sw_plan(exec, &args, &info));
    return info.arena_bytes;
}

/* A released update stays released: with a hook a plan needs at most one gradient more, far
 * less than with updates after backward. */
SW_TEST("released updates stay released")
{
    sw_exec *exec = net_exec(NULL);
    const batch b = net_batch(false, 0, 2);
    hooked after = {.n = net_with(false, 0.1f, SW_UPDATE_AFTER), .fn = scaled, .factor = 2.0f};
    hooked plain = {.n = net_with(false, 0.1f, SW_UPDATE_RELEASE)};
    hooked hook = {.n = net_with(false, 0.1f, SW_UPDATE_RELEASE), .fn = scaled, .factor = 2.0f};
    const size_t with_after = arena_of(exec, &after, &b), without = arena_of(exec, &plain, &b);
    const size_t with_hook = arena_of(exec, &hook, &b);
    CU_ASSERT(with_hook <= with_after);
    /* scale_by works in place: not even that. */
    CU_ASSERT(with_hook <= without + 64);
    CU_ASSERT(without < with_after);
}

static void one_run_is(hooked *h, sw_status wanted, const char *part)
{
    sw_exec *exec = net_exec(NULL);
    const batch b = net_batch(false, 0, 4);
    OK(sw_model_ready(h->n->model, exec, 1));
    const sw_run_args args = args_of(h, &b);
    REFUSED(sw_run(exec, &args), wanted, part);
}

SW_TEST("what cannot be is refused")
{
    hooked shape = {.n = net_with(false, 0.1f, SW_UPDATE_RELEASE), .fn = scaled, .wrong = 1};
    one_run_is(&shape, SW_INVALID, "gradient hook: what it returns for");
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    hooked kept = {.n = net_new(false, &opts), .fn = scaled, .factor = 1.0f};
    one_run_is(&kept, SW_UNSUPPORTED, "keep_gradients");
    sw_gradient_hook(NULL, NULL, NULL, NULL);
    CU_ASSERT(strlen(sw_last_error()) > 0);
}

/* Clipping looks at what the hook made: a gradient that is 0 everywhere has the norm 0. */
SW_TEST("clipping sees what a hook made")
{
    sw_exec *exec = net_exec(NULL);
    const batch b = net_batch(false, 0, 8);
    hooked h = {.n = net_with(false, 0.5f, SW_UPDATE_AFTER), .fn = scaled, .factor = 1024.0f};
    hooked plain = {.n = net_with(false, 0.5f, SW_UPDATE_AFTER)};
    h.n->clip = plain.n->clip = true;
    sw_knob_set(h.n->max_norm, 0.0009765625f);
    sw_knob_set(plain.n->max_norm, 0.0009765625f);
    OK(sw_model_ready(h.n->model, exec, 3));
    OK(sw_model_ready(plain.n->model, exec, 3));
    train(exec, &h, &b, 0);
    train(exec, &plain, &b, 0);
    double most = 0;
    for (size_t i = 0; i < sw_param_count(h.n->model); i++) {
        const sw_param p = sw_param_at(h.n->model, i), q = sw_param_at(plain.n->model, i);
        const size_t bytes = swi_entry_of(p)->bytes;
        static float x[2][1 << 16];
        OK(sw_param_read(p, x[0], bytes));
        OK(sw_param_read(q, x[1], bytes));
        for (size_t k = 0; k < bytes / 4; k++)
            most = fmax(most, fabs((double)x[0][k] - (double)x[1][k]));
    }
    CU_ASSERT(most < 1e-6); /* both moved along the same direction, by the bound */
}

/* ---- utility ----------------------------------------------------------------------------- */

typedef struct {
    sw_model *model;
    sw_conv2d c1, c2;
    sw_linear f;
    sw_param u1, u2, uf;
    sw_optimizer *opt;
    int64_t batch;
    bool on;
} useful;

/* c1 is read in blocks of images, c2 too; logits are a matrix. Outputs have what the utilities
 * are of. */
static void useful_step(sw_ctx *ctx, void *user)
{
    useful *n = user;
    const sw_value pixels = sw_reshape(ctx, sw_input(ctx, 0), SW_SHAPE(n->batch, 1, 14, 14));
    const sw_value x1 = sw_apply_conv2d(ctx, n->c1, pixels);
    const sw_value h1 = n->on ? swi_neuron_utility(ctx, x1, n->u1, 0.25f) : x1;
    const sw_value x2 = sw_apply_conv2d(ctx, n->c2, sw_relu(ctx, h1));
    const sw_value h2 = n->on ? swi_neuron_utility(ctx, x2, n->u2, 0.25f) : x2;
    const sw_value y = sw_apply_linear(ctx, n->f, sw_flatten(ctx, h2));
    const sw_value hy = n->on ? swi_neuron_utility(ctx, y, n->uf, 0.25f) : y;
    const sw_value loss = sw_softmax_ce(ctx, hy, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_output(ctx, "x2", x2);
    sw_output(ctx, "y", y);
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
}

static useful *useful_new(int64_t rows, bool on, sw_update_time update)
{
    static useful nets[8];
    static int next;
    useful *n = &nets[next++ % 8];
    n->model = made_model("useful");
    n->batch = rows;
    n->on = on;
    n->c1 = sw_conv2d_new(n->model, "c1", 1, 5, 3);
    n->c2 = sw_conv2d_new(n->model, "c2", 5, 3, 5);
    n->f = sw_linear_new(n->model, "f", 3 * 8 * 8, NET_CLASSES);
    n->u1 = sw_state_new(n->model, "c1.utility", SW_F32, SW_SHAPE(5));
    n->u2 = sw_state_new(n->model, "c2.utility", SW_F32, SW_SHAPE(3));
    n->uf = sw_state_new(n->model, "f.utility", SW_F32, SW_SHAPE(NET_CLASSES));
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.05f, .update = (int)update);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    return n;
}

static sw_run_args useful_args(useful *n, const batch *b)
{
    return SW_OPTS(sw_run_args, .fn = useful_step, .user = n, .models = &n->model,
                   .n_models = 1, .inputs = b->in, .n_inputs = 2, .mode = SW_TRAIN);
}

/* The gradient of the logits, and of x2 by the weight of f, in float64. */
static void utilities_by_hand(const useful *n, const batch *b, const float *x2, const float *y,
                              const float *weight, double *u2, double *uf)
{
    const unsigned char *labels = b->in[1].data;
    memset(u2, 0, 3 * sizeof *u2);
    memset(uf, 0, NET_CLASSES * sizeof *uf);
    for (int64_t i = 0; i < n->batch; i++) {
        double p[NET_CLASSES], sum = 0, most = -1e300;
        const float *row = y + i * NET_CLASSES;
        for (int k = 0; k < NET_CLASSES; k++)
            most = fmax(most, (double)row[k]);
        for (int k = 0; k < NET_CLASSES; k++)
            sum += p[k] = exp((double)row[k] - most);
        for (int k = 0; k < NET_CLASSES; k++) {
            p[k] = (p[k] / sum - (labels[i] == k)) / (double)n->batch;
            uf[k] += fabs(p[k] * (double)row[k]) / (double)n->batch;
        }
        for (int c = 0; c < 3; c++) {
            double mean = 0;
            for (int at = 0; at < 64; at++) {
                double d = 0;
                for (int k = 0; k < NET_CLASSES; k++)
                    d += p[k] * (double)weight[k * 192 + c * 64 + at];
                mean += d * (double)x2[(i * 3 + c) * 64 + at] / 64;
            }
            u2[c] += fabs(mean) / (double)n->batch;
        }
    }
}

static void is_near(sw_param param, const double *now, double before_share, float *before,
                    int channels)
{
    float is[16];
    OK(sw_param_read(param, is, (size_t)channels * 4));
    for (int c = 0; c < channels; c++) {
        const double should = before_share * (double)before[c] + 0.25 * now[c];
        SW_CHECK(fabs((double)is[c] - should) <= 1e-5 * fabs(should) + 1e-12,
                 "channel %d: %g, not %g", c, (double)is[c], should);
        before[c] = is[c];
    }
}

/* Plain images (a batch of 4) and blocks of sixteen (a batch of 32), two runs: the average. */
SW_TEST("utilities are what their definition says")
{
    static const int64_t rows[] = {4, 32};
    for (int r = 0; r < 2; r++)
        for (int t = 0; t < 2; t++) {
            sw_exec *exec = net_exec(NULL);
            const batch b = net_batch(false, 0, (int)rows[r]);
            useful *n = useful_new(rows[r], true, times[t]);
            OK(sw_model_ready(n->model, exec, 7));
            float u2[3] = {0}, uf[NET_CLASSES] = {0};
            for (int k = 0; k < 2; k++) {
                static float weight[NET_CLASSES * 192];
                double now2[3], nowf[NET_CLASSES];
                sw_array x2, y;
                const sw_run_args args = useful_args(n, &b);
                OK(sw_param_read(n->f.weight, weight, sizeof weight));
                OK(sw_run(exec, &args));
                OK(sw_output_get(exec, "x2", &x2));
                OK(sw_output_get(exec, "y", &y));
                utilities_by_hand(n, &b, x2.data, y.data, weight, now2, nowf);
                is_near(n->u2, now2, 0.75, u2, 3);
                is_near(n->uf, nowf, 0.75, uf, NET_CLASSES);
            }
        }
}

/* It is an identity: parameters have the bits that they have without it. */
SW_TEST("utilities change no bit")
{
    sw_exec *exec = net_exec(NULL);
    const batch b = net_batch(false, 0, 32);
    useful *with = useful_new(32, true, SW_UPDATE_RELEASE);
    useful *without = useful_new(32, false, SW_UPDATE_RELEASE);
    OK(sw_model_ready(with->model, exec, 7));
    OK(sw_model_ready(without->model, exec, 7));
    const sw_run_args a = useful_args(with, &b), c = useful_args(without, &b);
    for (int k = 0; k < 3; k++) {
        OK(sw_run(exec, &a));
        OK(sw_run(exec, &c));
    }
    for (size_t i = 0; i < sw_param_count(with->model); i++) {
        static float x[2][4096];
        const sw_param p = sw_param_at(with->model, i);
        OK(sw_param_read(p, x[0], swi_entry_of(p)->bytes));
        OK(sw_param_read(sw_param_at(without->model, i), x[1], swi_entry_of(p)->bytes));
        CU_ASSERT(memcmp(x[0], x[1], swi_entry_of(p)->bytes) == 0);
    }
    float u[5], none[5];
    OK(sw_param_read(with->u1, u, sizeof u));
    OK(sw_param_read(without->u1, none, sizeof none));
    for (int i = 0; i < 5; i++)
        CU_ASSERT(u[i] > 0 && none[i] == 0);
}
