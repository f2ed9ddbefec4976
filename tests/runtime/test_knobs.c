/* Numbers that are not finite, and negative rates, wherever they come in: the weights never
 * become NaN by them. */
#include "tests/runtime/nets.h"

SW_TESTS("knobs")

static const float no_numbers[] = {NAN, INFINITY, -INFINITY};

SW_TEST("a rate that cannot be is refused by name until it is set again")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    sw_run_args a = net_args(n, &b);
    OK(sw_run(exec, &a));
    const void *before = net_copy_bytes(n->model);
    const sw_knob rate = sw_optimizer_lr(n->opt, 0);
    const float good = sw_knob_get(rate);
    const float bad[] = {NAN, INFINITY, -INFINITY, -0.5f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int immediate = 0; immediate < 2; immediate++) {
            a.immediate = immediate;
            sw_knob_set(rate, bad[i]);
            CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "learning rate"));
            CU_ASSERT_EQUAL(sw_knob_get(rate), good);
            REFUSED(sw_run(exec, &a), SW_INVALID, "the learning rate of optimizer 0 (");
            REFUSED(sw_run(exec, &a), SW_INVALID, "group 0 must be finite and at least 0");
            CU_ASSERT(net_same_bytes(n->model, before));
            sw_knob_set(rate, good);
            sw_knob_set(rate, good);
        }
    OK(sw_run(exec, &a));
}

SW_TEST("other knobs may be negative and must be finite")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args a = net_args(n, &b);
    OK(sw_run(exec, &a));
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        sw_knob_set(n->factor, no_numbers[i]);
        REFUSED(sw_run(exec, &a), SW_INVALID, "knob '");
        sw_knob_set(n->factor, -1.0f);
        OK(sw_run(exec, &a));
    }
    /* Each knob for itself. */
    sw_knob_set(n->factor, NAN);
    sw_knob_set(sw_optimizer_lr(n->opt, 0), NAN);
    sw_knob_set(n->factor, 1.0f);
    REFUSED(sw_run(exec, &a), SW_INVALID, "learning rate");
    sw_knob_set(sw_optimizer_lr(n->opt, 0), 0.0f);
    OK(sw_run(exec, &a));
}

SW_TEST("the bound of a norm is not negative")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args a = net_args(n, &b);
    n->clip = true;
    sw_knob_set(n->max_norm, -1.0f); /* not known yet what it is for */
    REFUSED(sw_run(exec, &a), SW_INVALID, "the bound of a norm");
    sw_knob_set(n->max_norm, 1.0f);
    OK(sw_run(exec, &a));
    sw_knob_set(n->max_norm, -1.0f);
    REFUSED(sw_run(exec, &a), SW_INVALID, "must be finite and at least 0 (got -1)");
    sw_knob_set(n->max_norm, 0.5f);
    OK(sw_run(exec, &a));
}

SW_TEST("a copy brings knobs that can be")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL), *m = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args a = net_args(n, &b), c = net_args(m, &b);
    OK(sw_run(exec, &a));
    OK(sw_run(exec, &c));
    sw_knob_set(n->factor, NAN);
    OK(sw_model_copy(m->model, n->model));
    OK(sw_run(exec, &c));
    OK(sw_model_copy(n->model, m->model));
    OK(sw_run(exec, &a));
}

SW_TEST("knobs are declared with finite values")
{
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        sw_model *m;
        size_t bytes;
        OK(sw_model_create(&m, "knobs"));
        CU_ASSERT_EQUAL(sw_knob_new(m, "factor", no_numbers[i]).index, UINT32_MAX);
        REFUSED(sw_model_bytes(m, &bytes), SW_INVALID, "knob 'factor' must be finite");
        sw_model_destroy(m);
    }
}

/* Every number of an optimizer's options, by its place in the struct. */
SW_TEST("optimizers take no number that cannot be")
{
    static const struct {
        const char *kind, *name;
        size_t at;
    } numbers[] = {
        {"sgd", "lr", offsetof(sw_optimizer_opts, lr)},
        {"sgd", "weight_decay", offsetof(sw_optimizer_opts, weight_decay)},
        {"sgd", "momentum", offsetof(sw_optimizer_opts, momentum)},
        {"adam", "beta1", offsetof(sw_optimizer_opts, beta1)},
        {"adam", "beta2", offsetof(sw_optimizer_opts, beta2)},
        {"adam", "epsilon", offsetof(sw_optimizer_opts, epsilon)},
        {"rmsprop", "alpha", offsetof(sw_optimizer_opts, alpha)},
        {"adagrad", "initial_accumulator", offsetof(sw_optimizer_opts, initial_accumulator)},
        {"adafactor", "beta2_decay", offsetof(sw_optimizer_opts, beta2_decay)},
        {"adafactor", "clip_threshold", offsetof(sw_optimizer_opts, clip_threshold)},
        {"adafactor", "least_scale", offsetof(sw_optimizer_opts, least_scale)},
    };
    const float bad[] = {NAN, INFINITY, -INFINITY, -1.0f};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            sw_model *m;
            sw_optimizer *o = NULL;
            sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = numbers[i].kind);
            memcpy((char *)&opts + numbers[i].at, &bad[k], sizeof(float));
            OK(sw_model_create(&m, "options"));
            (void)sw_linear_new(m, "l", 2, 2);
            REFUSED(sw_optimizer_create(&o, m, &opts), SW_INVALID, numbers[i].name);
            sw_model_destroy(m);
        }
}

SW_TEST("schedules give rates alone")
{
    const float bad[] = {NAN, INFINITY, -INFINITY, -1.0f};
    float rate = 7.0f;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        sw_schedule s =
            SW_OPTS(sw_schedule, .kind = "cosine", .base = bad[k], .total_steps = 9);
        REFUSED(sw_schedule_at(&s, 0, &rate), SW_INVALID, "base and floor must be finite");
        s.base = 1.0f;
        s.floor = bad[k];
        REFUSED(sw_schedule_at(&s, 0, &rate), SW_INVALID, "base and floor must be finite");
        s = SW_OPTS(sw_schedule, .kind = "exponential", .base = 1, .gamma = bad[k]);
        REFUSED(sw_schedule_at(&s, 0, &rate), SW_INVALID, "gamma");
    }
    const sw_schedule grows =
        SW_OPTS(sw_schedule, .kind = "exponential", .base = 1, .gamma = 2);
    REFUSED(sw_schedule_at(&grows, 128, &rate), SW_INVALID, "the rate of step 128 is larger");
    CU_ASSERT_EQUAL(rate, 7.0f);
    OK(sw_schedule_at(&grows, 127, &rate));
}

static void dropout_step(sw_ctx *ctx, void *user)
{
    (void)sw_dropout(ctx, sw_rand(ctx, "x", SW_SHAPE(4)), *(const float *)user);
}

SW_TEST("dropout takes shares alone")
{
    sw_exec *exec = net_exec(NULL);
    float bad[] = {NAN, INFINITY, -INFINITY, -0.1f, 1.1f};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        sw_run_args a = SW_OPTS(sw_run_args, .fn = dropout_step, .user = &bad[k]);
        REFUSED(sw_run(exec, &a), SW_INVALID, "dropout: p must be ");
        a.mode = SW_EVAL;
        REFUSED(sw_run(exec, &a), SW_INVALID, "dropout: p must be ");
    }
}

/* ---- what is said of skipped updates ----------------------------------------------------- */

static sw_status run_until_refused(sw_exec *exec, const sw_run_args *a)
{
    for (int i = 0; i < 20; i++) {
        const sw_status status = sw_run(exec, a);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

SW_TEST("the advice after skipped updates fits the case")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    batch b = net_batch(false, 0, 8);
    const sw_run_args a = net_args(n, &b);
    float pixels[8 * NET_PIXELS];
    memcpy(pixels, b.in[0].data, sizeof pixels);
    pixels[11] = NAN;
    const void *const good = b.in[0].data;
    OK(sw_run(exec, &a));
    b.in[0].data = pixels;
    REFUSED(run_until_refused(exec, &a), SW_INVALID, "input 0 is not finite itself");
    b.in[0].data = good;
    OK(sw_run(exec, &a));
    const float nan = NAN, back = 0.0f;
    float weight[NET_PIXELS * 64];
    const sw_param w = sw_param_at(n->model, 0);
    const sw_shape shape = sw_param_shape(w);
    const size_t bytes = (size_t)(shape.dim[0] * shape.dim[1]) * sizeof(float);
    CU_ASSERT_FATAL(bytes <= sizeof weight);
    OK(sw_param_read(w, weight, bytes));
    weight[3] = nan;
    OK(sw_param_write(w, weight, bytes));
    REFUSED(run_until_refused(exec, &a), SW_INVALID, "is not finite itself: load, copy");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), sw_param_name(w)));
    weight[3] = back;
    OK(sw_param_write(w, weight, bytes));
    OK(sw_run(exec, &a));
    const sw_param last = sw_param_at(n->model, 2);
    const sw_shape rows = sw_param_shape(last);
    const size_t n_last = (size_t)(rows.dim[0] * rows.dim[1]);
    CU_ASSERT_FATAL(n_last <= sizeof weight / sizeof *weight);
    for (size_t i = 0; i < n_last; i++)
        weight[i] = 3e38f; /* finite, and their sums are not */
    OK(sw_param_write(last, weight, n_last * sizeof(float)));
    REFUSED(run_until_refused(exec, &a), SW_INVALID, "a smaller rate");
}
