/* Optimizers, clipping and accumulation against plain C in double precision. */
#include "tests/runtime/nets.h"

SW_TESTS("optimizers")

#define N 21 /* elements of the parameter: a vector and a tail */
#define STEPS 5

/* One parameter w; loss = sum(w * input): the gradient is the input, whatever w is. */
typedef struct {
    sw_model *model;
    sw_param w, other;
    sw_optimizer *opt;
    sw_knob max;
    bool clip;
} linear_loss;

static void linear_step(sw_ctx *c, void *user)
{
    linear_loss *l = user;
    const sw_value wx = sw_sum(c, sw_mul(c, sw_use(c, l->w), sw_input(c, 0)), 0);
    const sw_value vx = sw_sum(c, sw_mul(c, sw_use(c, l->other), sw_input(c, 1)), 0);
    sw_backward(c, sw_add(c, wx, vx), &l->opt, 1);
    if (l->clip)
        sw_clip_norm(c, l->opt, l->max);
    sw_update(c, l->opt);
}

static void start(linear_loss *l, const sw_optimizer_opts *opts)
{
    memset(l, 0, sizeof *l);
    l->model = made_model("m");
    l->w = sw_param_new(l->model, "w", SW_F32, SW_SHAPE(3, 7), "normal:1");
    l->other = sw_param_new(l->model, "other", SW_F32, SW_SHAPE(2), "normal:1");
    l->max = sw_knob_new(l->model, "max", 1.5f);
    OK(sw_optimizer_create(&l->opt, l->model, opts));
}

static void gradient_of_step(float *g, float *h, int step)
{
    for (int i = 0; i < N; i++)
        g[i] = sinf((float)(i * 3 + step * 7)) * (i % 5 == 0 ? 4.0f : 0.3f);
    h[0] = 0.5f + (float)step;
    h[1] = -2.0f;
}

/* Torch's formulas, one element at a time. */
typedef struct {
    double w, m, v, mean;
} element;

static double given_or(const sw_optimizer_opts *o, float given, double otherwise)
{
    return o->as_given != 0 || given != 0.0f ? (double)given : otherwise;
}

static void plain_rmsprop(element *e, double g, const sw_optimizer_opts *o)
{
    const double a = given_or(o, o->alpha, 0.99), eps = given_or(o, o->epsilon, 1e-8);
    g += (double)o->weight_decay * e->w;
    e->v = a * e->v + (1.0 - a) * g * g;
    e->mean = a * e->mean + (1.0 - a) * g;
    const double square = o->centered ? e->v - e->mean * e->mean : e->v;
    e->m = (double)o->momentum * e->m + g / (sqrt(square) + eps);
    e->w -= (double)o->lr * e->m;
}

static void plain_adagrad(element *e, double g, const sw_optimizer_opts *o, int t)
{
    g += (double)o->weight_decay * e->w;
    e->v = (t == 1 ? (double)o->initial_accumulator : e->v) + g * g;
    e->w -= (double)o->lr * g / (sqrt(e->v) + given_or(o, o->epsilon, 1e-10));
}

static void plain_lion(element *e, double g, const sw_optimizer_opts *o)
{
    const double b1 = given_or(o, o->beta1, 0.9), b2 = given_or(o, o->beta2, 0.99);
    const double c = b1 * e->m + (1.0 - b1) * g;
    e->w -= (double)o->lr * ((c > 0) - (c < 0) + (double)o->weight_decay * e->w);
    e->m = b2 * e->m + (1.0 - b2) * g;
}

static void plain_update(element *e, double g, const sw_optimizer_opts *o, int t)
{
    const double lr = (double)o->lr, decay = (double)o->weight_decay, mu = (double)o->momentum;
    if (strcmp(o->kind, "rmsprop") == 0) {
        plain_rmsprop(e, g, o);
        return;
    }
    if (strcmp(o->kind, "adagrad") == 0) {
        plain_adagrad(e, g, o, t);
        return;
    }
    if (strcmp(o->kind, "lion") == 0) {
        plain_lion(e, g, o);
        return;
    }
    if (strcmp(o->kind, "sgd") == 0) {
        g += decay * e->w;
        if (mu != 0.0) {
            e->m = t == 1 ? g : mu * e->m + g;
            g = o->nesterov ? g + mu * e->m : e->m;
        }
        e->w -= lr * g;
        return;
    }
    const double b1 = given_or(o, o->beta1, 0.9), b2 = given_or(o, o->beta2, 0.999);
    const double eps = given_or(o, o->epsilon, 1e-8);
    if (strcmp(o->kind, "adamw") == 0)
        e->w -= lr * decay * e->w;
    else
        g += decay * e->w;
    e->m = b1 * e->m + (1.0 - b1) * g;
    e->v = b2 * e->v + (1.0 - b2) * g * g;
    e->w -= lr * (e->m / (1.0 - pow(b1, t))) / (sqrt(e->v / (1.0 - pow(b2, t))) + eps);
}

static void compare(const sw_optimizer_opts *opts, bool clip)
{
    sw_exec *exec = net_exec(NULL);
    linear_loss l;
    float w[N], g[N], h[2];
    element e[N];
    start(&l, opts);
    l.clip = clip;
    OK(sw_model_ready(l.model, exec, 8));
    OK(sw_param_read(l.w, w, sizeof w));
    for (int i = 0; i < N; i++)
        e[i] = (element){.w = (double)w[i]};
    sw_array in[] = {{SW_F32, SW_SHAPE(3, 7), g}, {SW_F32, SW_SHAPE(2), h}};
    for (int t = 1; t <= STEPS; t++) {
        gradient_of_step(g, h, t);
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = linear_step, .user = &l, .models = &l.model,
                                 .n_models = 1, .inputs = in, .n_inputs = 2)));
        double norm = (double)h[0] * (double)h[0] + (double)h[1] * (double)h[1];
        for (int i = 0; i < N; i++)
            norm += (double)g[i] * (double)g[i];
        const double scale = clip ? fmin(1.0, 1.5 / (sqrt(norm) + 1e-6)) : 1.0;
        OK(sw_param_read(l.w, w, sizeof w));
        for (int i = 0; i < N; i++) {
            plain_update(&e[i], (double)g[i] * scale, opts, t);
            SW_CHECK(fabs((double)w[i] - e[i].w) < 2e-6 * (1.0 + fabs(e[i].w)),
                     "%s, momentum %g, nesterov %d, decay %g, clip %d, step %d, element %d: "
                     "%.8g, not %.8g",
                     opts->kind, (double)opts->momentum, opts->nesterov,
                     (double)opts->weight_decay, clip, t, i, (double)w[i], e[i].w);
        }
    }
}

static const sw_optimizer_opts all_opts[] = {
    {.size = sizeof *all_opts, .kind = "sgd", .lr = 0.1f},
    {.size = sizeof *all_opts, .kind = "sgd", .lr = 0.1f, .weight_decay = 0.05f},
    {.size = sizeof *all_opts, .kind = "sgd", .lr = 0.1f, .momentum = 0.9f},
    SW_INIT(.size = sizeof *all_opts, .kind = "sgd", .lr = 0.1f, .momentum = 0.9f,
            .weight_decay = 0.05f),
    SW_INIT(.size = sizeof *all_opts, .kind = "sgd", .lr = 0.1f, .momentum = 0.8f,
            .nesterov = 1, .weight_decay = 0.05f),
    {.size = sizeof *all_opts, .kind = "adam", .lr = 0.01f},
    SW_INIT(.size = sizeof *all_opts, .kind = "adam", .lr = 0.01f, .weight_decay = 0.1f,
            .beta1 = 0.5f, .beta2 = 0.9f, .epsilon = 1e-4f),
    {.size = sizeof *all_opts, .kind = "adamw", .lr = 0.01f, .weight_decay = 0.1f},
    {.size = sizeof *all_opts, /* beta1 is 0: no first moment */
     .kind = "adam",
     .lr = 0.01f,
     .beta2 = 0.9f,
     .epsilon = 1e-6f,
     .as_given = 1},
    {.size = sizeof *all_opts, .kind = "rmsprop", .lr = 0.01f},
    SW_INIT(.size = sizeof *all_opts, .kind = "rmsprop", .lr = 0.01f, .momentum = 0.7f,
            .weight_decay = 0.1f, .alpha = 0.8f, .epsilon = 1e-3f),
    {.size = sizeof *all_opts, .kind = "rmsprop", .lr = 0.01f, .centered = 1, .epsilon = 1e-2f},
    SW_INIT(.size = sizeof *all_opts, .kind = "rmsprop", .lr = 0.01f, .centered = 1,
            .momentum = 0.9f, .alpha = 0.5f, .epsilon = 1e-2f),
    {.size = sizeof *all_opts, .kind = "adagrad", .lr = 0.1f},
    SW_INIT(.size = sizeof *all_opts, .kind = "adagrad", .lr = 0.1f, .weight_decay = 0.1f,
            .initial_accumulator = 0.25f, .epsilon = 1e-3f),
    {.size = sizeof *all_opts, .kind = "lion", .lr = 0.01f},
    SW_INIT(.size = sizeof *all_opts, .kind = "lion", .lr = 0.01f, .weight_decay = 0.3f,
            .beta1 = 0.5f, .beta2 = 0.75f),
};

SW_TEST("updates are those of plain C, clipped and not")
{
    for (size_t i = 0; i < sizeof all_opts / sizeof *all_opts; i++) {
        compare(&all_opts[i], false);
        compare(&all_opts[i], true);
    }
}

SW_TEST("rates have defaults by kind")
{
    linear_loss l;
    sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    start(&l, &opts);
    CU_ASSERT_EQUAL(sw_knob_get(sw_optimizer_lr(l.opt, 0)), 0.01f);
    opts.kind = "adamw";
    start(&l, &opts);
    CU_ASSERT_EQUAL(sw_knob_get(sw_optimizer_lr(l.opt, 0)), 0.001f);
}

/* Two groups: the second has its own rate and decays. */
SW_TEST("groups have their own rate and decay")
{
    sw_exec *exec = net_exec(NULL);
    linear_loss l;
    float w[N], g[N], h[2], v[2], now[2], after[N];
    memset(&l, 0, sizeof l);
    l.model = made_model("m");
    l.w = sw_param_new(l.model, "w", SW_F32, SW_SHAPE(3, 7), "normal:1");
    l.other = sw_param_new(l.model, "other", SW_F32, SW_SHAPE(2), "normal:1");
    const sw_param_group groups[] = {
        {.params = &l.w, .n_params = 1},
        {.params = &l.other, .n_params = 1, .lr = 0.25f, .weight_decay = 0.5f}};
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.125f,
                                           .groups = groups, .n_groups = 2);
    OK(sw_optimizer_create(&l.opt, l.model, &opts));
    OK(sw_model_ready(l.model, exec, 8));
    OK(sw_param_read(l.w, w, sizeof w));
    OK(sw_param_read(l.other, v, sizeof v));
    gradient_of_step(g, h, 1);
    const sw_array in[] = {{SW_F32, SW_SHAPE(3, 7), g}, {SW_F32, SW_SHAPE(2), h}};
    OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = linear_step, .user = &l, .models = &l.model,
                             .n_models = 1, .inputs = in, .n_inputs = 2)));
    OK(sw_param_read(l.w, after, sizeof after));
    OK(sw_param_read(l.other, now, sizeof now));
    for (int i = 0; i < N; i++)
        CU_ASSERT_DOUBLE_EQUAL(after[i], w[i] - 0.125f * g[i], 1e-6);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_DOUBLE_EQUAL(now[i], v[i] - 0.25f * (h[i] + 0.5f * v[i]), 1e-6);
    CU_ASSERT_EQUAL(sw_knob_get(sw_optimizer_lr(l.opt, 0)), 0.125f);
    CU_ASSERT_EQUAL(sw_knob_get(sw_optimizer_lr(l.opt, 1)), 0.25f);
}

/* ---- accumulation ------------------------------------------------------------------------ */

static void micro(sw_ctx *c, void *user)
{
    net *n = user;
    const sw_value y =
        sw_apply_linear(c, n->f2, sw_tanh(c, sw_apply_linear(c, n->f1, sw_input(c, 0))));
    sw_backward(c, sw_scale(c, sw_softmax_ce(c, y, sw_input(c, 1)), n->factor), &n->opt, 1);
    sw_accumulate(c, n->opt);
}
static void apply(sw_ctx *c, void *user)
{
    net *n = user;
    if (n->clip)
        sw_clip_norm(c, n->opt, n->max_norm);
    sw_update(c, n->opt);
}

SW_TEST("accumulated micro-batches are one large batch")
{
    const sw_optimizer_opts keep =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f, .keep_gradients = 1);
    for (int clip = 0; clip < 2; clip++) {
        sw_exec *exec = net_exec(NULL);
        net *a = net_new(false, &keep), *b = net_new(false, &keep);
        a->clip = b->clip = clip != 0;
        OK(sw_model_ready(a->model, exec, 4));
        OK(sw_model_ready(b->model, exec, 4));
        const batch whole = net_batch(false, 0, 32),
                    half[] = {net_batch(false, 0, 16), net_batch(false, 16, 16)};
        static float g[24 * NET_PIXELS], sum[24 * NET_PIXELS];
        for (int step = 0; step < 3; step++) {
            sw_knob_set(a->factor, 1.0f);
            sw_run_args args = net_args(a, &whole);
            args.fn = micro;
            OK(sw_run(exec, &args)); /* gradients alone: kept */
            OK(sw_param_gradient(a->f1.weight, g, sizeof g));
            args = net_args(a, &whole);
            args.fn = apply;
            args.n_inputs = 0;
            OK(sw_run(exec, &args));

            sw_knob_set(b->factor, 0.5f);
            for (int k = 0; k < 2; k++) {
                args = net_args(b, &half[k]);
                args.fn = micro;
                args.run = (uint32_t)k;
                OK(sw_run(exec, &args));
            }
            OK(sw_param_gradient(b->f1.weight, sum, sizeof sum));
            double off = 0.0, size = 0.0;
            for (int i = 0; i < 24 * NET_PIXELS; i++) {
                off = fmax(off, fabs((double)g[i] - (double)sum[i]));
                size = fmax(size, fabs((double)g[i]));
            }
            SW_CHECK(off < 2e-6 * size * (double)(1 + 50 * step), "step %d: off by %g of %g",
                     step, off, size);
            args = net_args(b, &whole);
            args.fn = apply;
            args.n_inputs = 0;
            OK(sw_run(exec, &args));
        }
        OK(sw_param_read(a->f1.weight, g, sizeof g));
        OK(sw_param_read(b->f1.weight, sum, sizeof sum));
        for (int i = 0; i < 24 * NET_PIXELS; i++)
            SW_CHECK(fabsf(g[i] - sum[i]) < 2e-4f, "%g and %g", (double)g[i], (double)sum[i]);
    }
}

/* Kept gradients are the last run's alone when each run updates: cleared by the update. */
SW_TEST("an update clears kept gradients, which stay readable")
{
    sw_exec *exec = net_exec(NULL);
    linear_loss l;
    float g[N], h[2], kept[N];
    start(&l, &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f, .keep_gradients = 1));
    const sw_array in[] = {{SW_F32, SW_SHAPE(3, 7), g}, {SW_F32, SW_SHAPE(2), h}};
    for (int t = 0; t < 3; t++) {
        gradient_of_step(g, h, t);
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = linear_step, .user = &l, .models = &l.model,
                                 .n_models = 1, .inputs = in, .n_inputs = 2)));
        OK(sw_param_gradient(l.w, kept, sizeof kept));
        CU_ASSERT_EQUAL(memcmp(kept, g, sizeof g), 0);
    }
    REFUSED(sw_param_gradient(l.w, kept, sizeof kept - 4), SW_INVALID, "bytes");
}

/* ---- what is refused --------------------------------------------------------------------- */

SW_TEST("bad options are refused")
{
    static const struct {
        sw_optimizer_opts opts;
        const char *part;
    } bad[] = {
        {SW_OPTS(sw_optimizer_opts, .kind = "sgdd"), "'sgdd'"},
        {SW_OPTS(sw_optimizer_opts), "the optimizer must be one of"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = -1.0f),
         "must be finite and at least 0"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adam", .beta1 = 1.0f), "below 1"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = NAN),
         "must be finite and at least 0"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .nesterov = 1), "momentum"},
        {{.size = 0, .kind = "sgd"}, "size"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adam", .momentum = 0.9f), "sgd's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adamw", .nesterov = 1), "sgd's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .beta1 = 0.5f), "adam's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .as_given = 1), "adam's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "lion", .epsilon = 1e-8f), "adagrad's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adagrad", .alpha = 0.9f), "rmsprop's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "rmsprop", .alpha = 1.0f), "below 1"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .centered = 1), "rmsprop's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adam", .initial_accumulator = 1.0f), "adagrad's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adam", .fixed_rate = 1), "adafactor's"},
        {SW_OPTS(sw_optimizer_opts, .kind = "adafactor", .clip_threshold = -1.0f),
         "clip_threshold must be finite and at least 0"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .max_skipped = -2), "max_skipped"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .max_skipped = 2, .no_check = 1),
         "no_check"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .update = 3), "unknown update 3"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .release = 1, .update = SW_UPDATE_AFTER),
         "exclude each other"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .n_groups = 1), "params must not be NULL"},
        {SW_OPTS(sw_optimizer_opts, .kind = "sgd", .n_params = 1), "params must not be NULL"},
    };
    sw_model *model = made_model("m");
    const sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(2), "ones");
    sw_optimizer *o = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(sw_optimizer_create(&o, model, &bad[i].opts), SW_INVALID, bad[i].part);
    CU_ASSERT_PTR_NULL(o);
    const sw_optimizer_opts twice =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .params = &w, .n_params = 1);
    OK(sw_optimizer_create(&o, model, &twice));
    REFUSED(sw_optimizer_create(&o, model, &twice), SW_INVALID, "'w' has two optimizers");
    sw_exec *exec = net_exec(NULL);
    REFUSED(sw_model_ready(model, exec, 1), SW_INVALID,
            "'w' has two optimizers"); /* it is kept */
}

SW_TEST("bad groups are refused")
{
    sw_model *model = made_model("m");
    const sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(2), "ones");
    const struct {
        sw_param_group group;
        const char *part;
    } bad[] = {
        {{.params = &w, .n_params = 1, .lr = NAN}, "group 0: lr and weight_decay must"},
        {{.params = &w, .n_params = 1, .lr = -1.0f}, "group 0: lr and weight_decay must"},
        {{.params = &w, .n_params = 1, .weight_decay = -1.0f},
         "group 0: lr and weight_decay must"},
        {{.params = &w, .n_params = 1, .weight_decay = INFINITY},
         "group 0: lr and weight_decay must"},
        {{.n_params = 1}, "group 0 has no parameters"},
        {{.params = &w, .n_params = 1, .reserved_word = 1}, "reserved"},
        {{.params = &w, .n_params = 1, .reserved = {1}}, "reserved"},
        {{.params = &w, .n_params = 1, .update = 3}, "unknown update 3"},
        {{.params = &w, .n_params = 1, .update = -1}, "unknown update -1"},
    };
    sw_optimizer *o = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_optimizer_opts opts =
            SW_OPTS(sw_optimizer_opts, .kind = "sgd", .groups = &bad[i].group, .n_groups = 1);
        REFUSED(sw_optimizer_create(&o, model, &opts), SW_INVALID, bad[i].part);
    }
    const sw_param_group good = {.params = &w, .n_params = 1};
    const sw_optimizer_opts both = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .params = &w,
                                           .n_params = 1, .groups = &good, .n_groups = 1);
    REFUSED(sw_optimizer_create(&o, model, &both), SW_INVALID, "exclude each other");
    CU_ASSERT_PTR_NULL(o);
    CU_ASSERT_EQUAL(model->n_optimizers, 0); /* and the model is as it was */
    CU_ASSERT_EQUAL(model->declared, SW_OK);
}

/* It is refused where it is made, and the model is as before. */
SW_TEST("an optimizer that owns nothing is refused")
{
    const sw_optimizer_opts all = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    const sw_param_group empty = {.n_params = 0};
    const sw_optimizer_opts groups =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .groups = &empty, .n_groups = 1);
    sw_optimizer *first = NULL, *o = NULL;
    sw_model *model = made_model("m");
    REFUSED(sw_optimizer_create(&o, model, &all), SW_INVALID, "declare them first");
    const sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(2), "ones");
    REFUSED(sw_optimizer_create(&o, model, &groups), SW_INVALID, "its groups name none");
    OK(sw_optimizer_create(&first, model, &all));
    REFUSED(sw_optimizer_create(&o, model, &all), SW_INVALID,
            "model m: the optimizer would own none of its 1 parameters, of which others own 1: "
            "give each optimizer its own, by params or groups");
    CU_ASSERT_PTR_NULL(o);
    CU_ASSERT_EQUAL(model->n_optimizers, 1);
    CU_ASSERT_EQUAL(model->declared, SW_OK);
    (void)sw_param_new(model, "v", SW_F32, SW_SHAPE(2), "ones");
    OK(sw_optimizer_create(&o, model, &all)); /* it owns what no one does */
    (void)w;
}

/* ---- schedules ----------------------------------------------------------------------------
 */

/* Learning-rate schedules against their formulas. */
static float at(const sw_schedule *s, uint64_t step)
{
    float x = NAN;
    OK(sw_schedule_at(s, step, &x));
    return x;
}

SW_TEST("constant, step, cosine with warm-up")
{
    const sw_schedule constant = SW_OPTS(sw_schedule, .kind = "constant", .base = 0.3f);
    CU_ASSERT_EQUAL(at(&constant, 0), 0.3f);
    CU_ASSERT_EQUAL(at(&constant, 1u << 30), 0.3f);
    const sw_schedule steps = SW_OPTS(sw_schedule, .kind = "step", .base = 0.8f, .every = 10,
                                      .gamma = 0.5f, .floor = 0.15f);
    CU_ASSERT_EQUAL(at(&steps, 9), 0.8f);
    CU_ASSERT_EQUAL(at(&steps, 10), 0.4f);
    CU_ASSERT_EQUAL(at(&steps, 29), 0.2f);
    CU_ASSERT_EQUAL(at(&steps, 30), 0.15f);
    const sw_schedule cosine = SW_OPTS(sw_schedule, .kind = "cosine", .base = 1.0f,
                                       .warmup_steps = 4, .total_steps = 104, .floor = 0.1f);
    CU_ASSERT_EQUAL(at(&cosine, 0), 0.25f);
    CU_ASSERT_EQUAL(at(&cosine, 3), 1.0f);
    CU_ASSERT_EQUAL(at(&cosine, 4), 1.0f);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 54), 0.55, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 29), 0.1 + 0.9 * 0.5 * (1.0 + sqrt(0.5)), 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 104), 0.1, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&cosine, 1000), 0.1, 1e-7);
    float x = 7.0f;
    sw_schedule bad = cosine;
    bad.total_steps = 4;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "(got 4 and 4)");
    bad = steps;
    bad.every = 0;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "every");
    bad = steps;
    bad.gamma = 0.0f;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "gamma");
    bad.gamma = NAN;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "gamma");
    bad = steps;
    bad.size = 0;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "size");
    bad.size = offsetof(sw_schedule, gamma);
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "set it to sizeof(sw_schedule)");
    bad = steps;
    bad.kind = "polynomial";
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "'polynomial'");
    bad.kind = NULL;
    REFUSED(sw_schedule_at(&bad, 0, &x), SW_INVALID, "kind");
    CU_ASSERT_EQUAL(x, 7.0f); /* untouched on failure */
}

/* A rate far along is a formula, not a walk: as many as would take hours to walk. */
SW_TEST("late steps cost no more")
{
    const sw_schedule steps = SW_OPTS(sw_schedule, .kind = "step", .base = 1.0f, .every = 1,
                                      .gamma = 0.9999999f, .floor = 0.125f);
    CU_ASSERT_DOUBLE_EQUAL(at(&steps, 5000000), pow((double)0.9999999f, 5e6), 1e-7);
    for (int i = 0; i < 1000; i++)
        CU_ASSERT_EQUAL(at(&steps, UINT64_MAX - (uint64_t)i), 0.125f);
}

/* Each kind has a warm-up in front and goes on after it as without. */
SW_TEST("every kind has a warm-up")
{
    size_t n = 0;
    for (const char *kind; (kind = sw_schedule_kind(n)) != NULL; n++) {
        sw_schedule plain = SW_OPTS(sw_schedule, .kind = kind, .base = 0.5f, .total_steps = 40,
                                    .every = 3, .gamma = 0.75f, .floor = 0.01f);
        sw_schedule warm = plain;
        warm.warmup_steps = 10;
        warm.total_steps = 50;
        float before = 0.0f;
        for (uint64_t step = 0; step < 10; step++) {
            const float rate = at(&warm, step);
            SW_CHECK(rate > before && rate <= 0.5f, "%s, step %d: %g after %g", kind, (int)step,
                     (double)rate, (double)before);
            before = rate;
        }
        CU_ASSERT_EQUAL(at(&warm, 10), 0.5f);
        for (uint64_t step = 0; step < 100; step++)
            CU_ASSERT_EQUAL(at(&warm, 10 + step), at(&plain, step));
    }
    CU_ASSERT_EQUAL(n, 6);
    CU_ASSERT_PTR_NULL(sw_schedule_kind(SIZE_MAX));
}

SW_TEST("lines, powers and cycles")
{
    sw_schedule s = SW_OPTS(sw_schedule, .kind = "linear", .base = 1.0f, .warmup_steps = 5,
                            .total_steps = 25, .floor = 0.2f);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 0), 0.2, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 10), 0.8, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 25), 0.2, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 900), 0.2, 1e-7);
    s = SW_OPTS(sw_schedule, .kind = "exponential", .base = 2.0f, .gamma = 0.9f);
    for (uint64_t step = 0; step < 9; step++)
        CU_ASSERT_DOUBLE_EQUAL(at(&s, step), 2.0 * pow((double)0.9f, (double)step), 1e-6);
    s.every = 4;
    s.floor = 1.7f;
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 2), 2.0 * sqrt((double)0.9f), 1e-6);
    CU_ASSERT_EQUAL(at(&s, 400), 1.7f);
    s = SW_OPTS(sw_schedule, .kind = "one_cycle", .base = 1.0f, .warmup_steps = 30,
                .total_steps = 100);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 0), 1.0 / 25, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 15), (1.0 + 1.0 / 25) / 2, 1e-6);
    CU_ASSERT_EQUAL(at(&s, 30), 1.0f);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 65), 0.5 * (1.0 + 1.0 / 250000), 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(at(&s, 100), 1.0 / 250000, 1e-9);
    s.floor = 0.125f;
    CU_ASSERT_EQUAL(at(&s, 200), 0.125f);
    s.total_steps = 30;
    float x = 7.0f;
    REFUSED(sw_schedule_at(&s, 0, &x), SW_INVALID,
            "one_cycle: steps must be more than the warm-up (got 30 and 30)");
    s.kind = "exponential";
    REFUSED(sw_schedule_at(&s, 0, &x), SW_INVALID, "exponential: `gamma`");
    CU_ASSERT_EQUAL(x, 7.0f);
}
