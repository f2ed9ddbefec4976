/* Dropout by a knob: what sw_dropout drops with that rate, and other rates without a new
 * plan. */
#include "alloc/base/mem.h"
#include "tests/ops/axes_bench.h"

SW_TESTS("dropout knob")

enum { IMAGES = 19, CHANNELS = 3, SIDE = 7, ALL = IMAGES * CHANNELS * SIDE * SIDE };

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param p;
    sw_knob rate;
    sw_optimizer *opt;
    bool by_knob;
    float constant;
    int calls;
} net;

static sw_value drop(sw_ctx *c, const net *n, sw_value x)
{
    return n->by_knob ? sw_dropout_knob(c, x, n->rate) : sw_dropout(c, x, n->constant);
}

/* Twice in one scope and once in another, of images and of rows. */
static void step(sw_ctx *c, void *user)
{
    net *n = user;
    n->calls++;
    const sw_value x = sw_use(c, n->p);
    sw_value a = drop(c, n, x);
    sw_value b = drop(c, n, sw_reshape(c, sw_tanh(c, x), SW_SHAPE(IMAGES, -1)));
    sw_scope_begin(c, "inner");
    const sw_value d = drop(c, n, sw_max_pool(c, a, 2));
    sw_scope_end(c);
    sw_output(c, "a", a);
    sw_output(c, "b", b);
    sw_output(c, "d", d);
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    a = sw_mul(c, sw_reshape(c, a, SW_SHAPE(IMAGES, -1)), b);
    const sw_value loss = sw_add(c, sw_sum(c, a, 0), sw_sum(c, sw_mul(c, d, d), 0));
    sw_backward(c, loss, &n->opt, 1);
    sw_update(c, n->opt);
}

static void close_net(void *net_)
{
    net *n = net_;
    sw_model_destroy(n->model);
    sw_exec_destroy(n->exec);
    *n = (net){0};
}

static void open_net(net *n, int threads, bool by_knob)
{
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    *n = (net){.by_knob = by_knob};
    OK(sw_exec_create(&n->exec, &SW_OPTS(sw_exec_opts, .threads = threads, .seed = 5)));
    OK(sw_model_create(&n->model, "net"));
    n->p =
        sw_param_new(n->model, "p", SW_F32, SW_SHAPE(IMAGES, CHANNELS, SIDE, SIDE), "normal:1");
    n->rate = sw_knob_new(n->model, "rate", 0.5f);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    OK(sw_model_ready(n->model, n->exec, 9));
}

static sw_status run(net *n, sw_mode mode, uint64_t at, bool immediate)
{
    return sw_run(n->exec,
                  &SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model,
                           .n_models = 1, .mode = mode, .step = at, .immediate = immediate));
}

/* The output; its elements must be n. */
static const float *output(const net *of, const char *name, int64_t n)
{
    sw_array a = {.data = NULL};
    CU_ASSERT_EQUAL_FATAL(sw_output_get(of->exec, name, &a), SW_OK);
    CU_ASSERT_EQUAL_FATAL(swi_elements(&a.shape), n);
    return a.data;
}

static void same_output(const net *a, const net *b, const char *name, float rate)
{
    const int64_t n = name[0] == 'd' ? IMAGES * CHANNELS * (SIDE / 2) * (SIDE / 2) : ALL;
    SW_CHECK(memcmp(output(a, name, n), output(b, name, n), (size_t)n * sizeof(float)) == 0,
             "output %s, rate %g", name, (double)rate);
}

SW_TEST("a knob drops what a constant drops")
{
    static const float rates[] = {0x1p-20f, 0.1f, 0.25f, 0.5f, 0.9f, 0.99999994f, 1.0f};
    static float at[2][ALL];
    for (int i = 0; i < N(rates); i++)
        for (int way = 0; way < 4; way++) {
            static net a, b;
            open_net(&a, 1, false);
            open_net(&b, way % 2 == 0 ? 1 : 3, true);
            a.constant = rates[i];
            sw_knob_set(b.rate, rates[i]);
            for (uint64_t k = 0; k < 3; k++) {
                OK(run(&a, SW_TRAIN, k, false));
                OK(run(&b, SW_TRAIN, k, way > 1));
                same_output(&a, &b, "a", rates[i]);
                same_output(&a, &b, "b", rates[i]);
                same_output(&a, &b, "d", rates[i]);
            }
            OK(sw_param_read(a.p, at[0], sizeof at[0]));
            OK(sw_param_read(b.p, at[1], sizeof at[1]));
            SW_CHECK(memcmp(at[0], at[1], sizeof at[0]) == 0, "rate %g, way %d: gradients",
                     (double)rates[i], way);
            close_net(&a);
            close_net(&b);
        }
}

SW_TEST("a rate of 0 keeps, and evaluation is plain")
{
    static float x[ALL];
    static net n;
    open_net(&n, 2, true);
    sw_after(close_net, &n);
    sw_knob_set(n.rate, 0.0f);
    OK(sw_param_read(n.p, x, sizeof x));
    OK(run(&n, SW_TRAIN, 0, false));
    CU_ASSERT_EQUAL(memcmp(x, output(&n, "a", ALL), sizeof x), 0);
    sw_knob_set(n.rate, 0.75f);
    OK(sw_param_read(n.p, x, sizeof x));
    OK(run(&n, SW_EVAL, 0, false));
    CU_ASSERT_EQUAL(memcmp(x, output(&n, "a", ALL), sizeof x), 0);
}

SW_TEST("rates change without a trace")
{
    static float x[ALL];
    static net n;
    uint64_t calls = 0;
    open_net(&n, 2, true);
    sw_after(close_net, &n);
    for (int k = 0; k < 20; k++) {
        const float rate = (float)(k % 11) / 10.0f;
        int wrong = 0, dropped = 0;
        OK(sw_param_read(n.p, x, sizeof x));
        sw_knob_set(n.rate, rate);
        OK(run(&n, SW_TRAIN, (uint64_t)k, false));
        const float *y = output(&n, "a", ALL);
        for (int i = 0; i < ALL; i++) {
            const double kept = (double)x[i] / (1.0 - (double)rate);
            dropped += y[i] == 0.0f;
            wrong += y[i] != 0.0f && fabs((double)y[i] - kept) > 1e-5 * fabs(kept);
        }
        SW_CHECK(wrong == 0, "step %d: %d are neither dropped nor scaled", k, wrong);
        SW_CHECK(fabs(dropped - (double)rate * ALL) <=
                     6.0 * sqrt((double)(rate * (1.0f - rate)) * ALL),
                 "step %d: %d of %d dropped at %g", k, dropped, ALL, (double)rate);
        calls = k == 1 ? sw_mem_calls() : calls;
    }
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT_EQUAL(n.calls, 1);
}

static void refused(net *n, const char *words)
{
    for (int immediate = 0; immediate < 2; immediate++) {
        CU_ASSERT_EQUAL(run(n, SW_TRAIN, 0, immediate != 0), SW_INVALID);
        SW_CHECK(strstr(sw_last_error(), words) != NULL, "'%s' is not in '%s'", words,
                 sw_last_error());
    }
}

SW_TEST("what is no rate is refused by name")
{
    static const float bad[] = {-0.1f, 1.0000001f, NAN, INFINITY};
    static const char words[] = "knob 'rate', the rate of dropout, must be 0 to 1 (got ";
    for (int i = 0; i < N(bad); i++) {
        static net n;
        open_net(&n, 1, true);
        sw_knob_set(n.rate, bad[i]); /* what it is for is not known yet */
        refused(&n, words);
        sw_knob_set(n.rate, 0.5f);
        OK(run(&n, SW_TRAIN, 0, false));
        sw_knob_set(n.rate, bad[i]);
        refused(&n, words);
        CU_ASSERT_EQUAL(run(&n, SW_EVAL, 0, false), SW_INVALID);
        sw_knob_set(n.rate, 1.0f);
        OK(run(&n, SW_TRAIN, 0, false));
        close_net(&n);
    }
    static net n;
    open_net(&n, 1, true);
    n.rate = sw_optimizer_lr(n.opt, 0);
    refused(&n, "the learning rate of optimizer 0 (sgd), group 0 may be above 1 and cannot be "
                "the rate of dropout");
    n.rate = (sw_knob){n.model, 99};
    refused(&n, "the knob must be one of this model");
    close_net(&n);
}
