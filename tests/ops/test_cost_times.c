/* Estimates of time beside what the clock says. */
#include "alloc/poison.h"
#include "runtime/runtime_internal.h"
#include "tests/support/suite.h"
#include <string.h>

#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())
#define BATCH 128
#define LONG (10000 * SWI_COST_PER_NS)

/* lenet5, and one step over a few large tensors: products of 512 x 1024 x 1024, activations of
 * 2 MiB, losses. */
typedef struct {
    sw_model *model;
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3, wide;
    sw_param x;
    sw_optimizer *opt;
} bench;

static void lenet5(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1 / 255.0f, 0), labels = sw_input(c, 1);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, b->conv1, x)), 2);
    x = sw_avg_pool(c, sw_relu(c, sw_apply_conv2d(c, b->conv2, x)), 2);
    x = sw_relu(c, sw_apply_linear(c, b->fc1, sw_flatten(c, x)));
    x = sw_tanh(c, sw_apply_linear(c, b->fc2, x));
    x = sw_apply_linear(c, b->fc3, x);
    sw_metric(c, "accuracy", sw_accuracy(c, x, labels));
    sw_backward(c, sw_softmax_ce(c, x, labels), &b->opt, 1);
    sw_update(c, b->opt);
}

static void large(sw_ctx *c, void *user)
{
    bench *b = user;
    sw_value x = sw_apply_linear(c, b->wide, sw_use(c, b->x));
    x = sw_swish(c, x);
    x = sw_apply_linear(c, b->wide, sw_tanh(c, x));
    x = sw_relu(c, sw_sigmoid(c, x));
    x = sw_mul(c, x, sw_add(c, x, sw_leaky_relu(c, x, 0.1f)));
    x = sw_add(c, sw_softmax(c, x), sw_randn(c, "noise", SW_SHAPE(512, 1024)));
    x = sw_mul(c, x, sw_rand(c, "mask", SW_SHAPE(512, 1024)));
    const sw_value parts[] = {x, sw_use(c, b->x)};
    x = sw_concat(c, parts, 2, 0);
    sw_value loss = sw_mse(c, x, sw_scale_by(c, x, 0.5f));
    loss = sw_add(c, loss, sw_bce(c, x, 0.5f));
    loss = sw_add(c, loss, sw_mean(c, sw_sum(c, x, 1), 0));
    loss = sw_add(c, loss, sw_softmax_ce(c, sw_slice(c, x, 0, 0, 512), sw_input(c, 0)));
    sw_backward(c, loss, &b->opt, 1);
    sw_update(c, b->opt);
}

static void drop(void *arg)
{
    bench *b = arg;
    sw_model_destroy(b->model);
    b->model = NULL;
}

static void drop_exec(void *arg)
{
    sw_exec_destroy(arg);
}

static sw_exec *exec_of(const sw_exec_opts *opts)
{
    sw_exec *exec = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, opts), SW_OK);
    sw_after(drop_exec, exec);
    return exec;
}

static void bench_new(bench *b, const char *kind, bool is_large)
{
    memset(b, 0, sizeof *b);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&b->model, "bench"), SW_OK);
    sw_after(drop, b);
    if (is_large) {
        b->wide = sw_linear_new(b->model, "wide", 1024, 1024);
        b->x = sw_param_new(b->model, "x", SW_F32, SW_SHAPE(512, 1024), "normal:1");
    } else {
        b->conv1 = sw_conv2d_new(b->model, "conv1", 1, 6, 5);
        b->conv2 = sw_conv2d_new(b->model, "conv2", 6, 16, 5);
        b->fc1 = sw_linear_new(b->model, "fc1", 256, 120);
        b->fc2 = sw_linear_new(b->model, "fc2", 120, 84);
        b->fc3 = sw_linear_new(b->model, "fc3", 84, 10);
    }
    const sw_optimizer_opts opts = {.size = sizeof opts, .kind = kind, .lr = 1e-6f};
    OK(sw_optimizer_create(&b->opt, b->model, &opts));
}

static sw_run_args args_of(bench *b, bool is_large, int64_t n)
{
    static uint8_t pixels[BATCH * 28 * 28], labels[512];
    static sw_array in[2];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7 % 251);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)(i % 10);
    in[0] = (sw_array){SW_U8, SW_SHAPE(n, 1, 28, 28), pixels};
    in[1] = (sw_array){SW_U8, SW_SHAPE(n), labels};
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = is_large ? large : lenet5,
                         .user = b,
                         .models = &b->model,
                         .n_models = 1,
                         .inputs = is_large ? in + 1 : in,
                         .n_inputs = is_large ? 1 : 2};
}

#define MAX_OPS 200
typedef struct {
    char name[96];
    uint64_t ns, operations, bytes, cost;
} timed;

static uint32_t measure(sw_exec *exec, const sw_run_args *args, int runs, timed *out)
{
    for (int r = 0; r < runs; r++) {
        OK(sw_run(exec, args));
        for (uint32_t i = 0; i < exec->last->n_ops && i < MAX_OPS; i++)
            if (r < 2 || exec->op_ns[i] < out[i].ns)
                out[i].ns = exec->op_ns[i];
    }
    const swi_program *p = exec->last;
    CU_ASSERT_FATAL(p->n_ops <= MAX_OPS);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        swi_node_name(&p->trace, node, out[i].name, sizeof out[i].name);
        out[i].operations = swi_node_operations(&p->trace, node);
        out[i].bytes = swi_node_bytes(&p->trace, node);
        out[i].cost = swi_node_cost(&p->trace, node);
    }
    return p->n_ops;
}

static void times(bench *b, const char *kind, bool is_large)
{
    static timed t[MAX_OPS];
    const sw_exec_opts opts = {.size = sizeof opts, .op_clocks = 1};
    sw_exec *exec = exec_of(&opts);
    bench_new(b, kind, is_large);
    const sw_run_args args = args_of(b, is_large, is_large ? 512 : BATCH);
    OK(sw_model_ready(b->model, exec, 1));
    const uint32_t n = measure(exec, &args, is_large ? 20 : 100, t);
    for (uint32_t i = 0; i < n; i++)
        sw_note("%-28s %12llu operations %9llu bytes: %9llu ns, estimated %9llu (%.2f)",
                t[i].name, (unsigned long long)t[i].operations, (unsigned long long)t[i].bytes,
                (unsigned long long)t[i].ns, (unsigned long long)t[i].cost / SWI_COST_PER_NS,
                (double)t[i].cost / SWI_COST_PER_NS / (double)t[i].ns);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (t[i].cost > 8 * t[k].cost && t[i].cost > LONG)
                SW_CHECK(t[i].ns > t[k].ns, "%s takes %llu ns, %s %llu", t[i].name,
                         (unsigned long long)t[i].ns, t[k].name, (unsigned long long)t[k].ns);
}

/* The table is for people: machines differ. Of what is long beside a cold cache, what is
 * estimated eight times as dear takes longer. */
static void estimates_order_measured_times(void)
{
    static bench b[2];
    if (SW_POISON)
        SW_SKIP("a sanitizer takes the time");
    if (exec_of(NULL)->isa != SW_ISA_AVX512)
        SW_SKIP("the rates are those of AVX-512");
    times(&b[0], "adam", false);
    times(&b[1], "sgd", true);
}

static const sw_test tests[] = {
    {"estimates order measured times", estimates_order_measured_times, true},
};
SW_SUITE("cost times", tests)
