/* bench costs: the time that the plan estimates for each op beside what the clock says, for
 * LeNet5 and for one step over a few large tensors. The rates of runtime/graph/op_cost.c come
 * from this table. */
#include "runtime/exec/exec.h"
#include "tools/bench/bench.h"
#include <string.h>

enum { ROWS = 512, WIDTH = 1024 };

typedef struct {
    int64_t runs, batch;
    bool json, quiet;
} costs_opts;

/* Products of 512 x 1024 x 1024, activations of 2 MiB, losses. */
typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_linear wide;
    sw_param x;
    sw_optimizer *sgd;
    unsigned char labels[ROWS];
    sw_array input;
} large_net;

static void large_step(sw_ctx *c, void *user)
{
    large_net *n = user;
    sw_value x = sw_apply_linear(c, n->wide, sw_use(c, n->x));
    x = sw_apply_linear(c, n->wide, sw_tanh(c, sw_swish(c, x)));
    x = sw_relu(c, sw_sigmoid(c, x));
    x = sw_mul(c, x, sw_add(c, x, sw_leaky_relu(c, x, 0.1f)));
    x = sw_add(c, sw_softmax(c, x), sw_randn(c, "noise", SW_SHAPE(ROWS, WIDTH)));
    x = sw_mul(c, x, sw_rand(c, "mask", SW_SHAPE(ROWS, WIDTH)));
    const sw_value parts[] = {x, sw_use(c, n->x)};
    x = sw_concat(c, parts, 2, 0);
    sw_value loss = sw_mse(c, x, sw_scale_by(c, x, 0.5f));
    loss = sw_add(c, loss, sw_bce(c, x, 0.5f));
    loss = sw_add(c, loss, sw_mean(c, sw_sum(c, x, SW_AXIS(0)), SW_ALL_AXES));
    loss = sw_add(c, loss, sw_softmax_ce(c, sw_slice(c, x, 0, 0, ROWS), sw_input(c, 0)));
    sw_backward(c, loss, &n->sgd, 1);
    sw_update(c, n->sgd);
}

static sw_status large_open(large_net *n, const sw_exec_opts *exec)
{
    SW_TRY(sw_exec_create(&n->exec, exec));
    SW_TRY(sw_model_create(&n->model, "large"));
    n->wide = sw_linear_new(n->model, "wide", WIDTH, WIDTH);
    n->x = sw_param_new(n->model, "x", SW_F32, SW_SHAPE(ROWS, WIDTH), "normal:1");
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .lr = 1e-6f};
    SW_TRY(sw_optimizer_create(&n->sgd, n->model, &sgd));
    SW_TRY(sw_model_ready(n->model, n->exec, 1));
    n->input = (sw_array){SW_U8, SW_SHAPE(ROWS), n->labels};
    return SW_OK;
}

static sw_status large_run(large_net *n)
{
    const sw_run_args args = {.size = sizeof args,
                              .fn = large_step,
                              .user = n,
                              .models = &n->model,
                              .n_models = 1,
                              .inputs = &n->input,
                              .n_inputs = 1};
    return sw_run(n->exec, &args);
}

static void large_close(large_net *n)
{
    sw_model_destroy(n->model);
    sw_exec_destroy(n->exec);
}

/* ---- the table --------------------------------------------------------------------------- */

enum { MAX_OPS = 256 };
typedef struct {
    uint64_t ns[MAX_OPS]; /* least of all runs */
    uint32_t n;
} op_times;

/* Of the exec's last run. */
static void note_times(op_times *t, const sw_exec *exec, bool first)
{
    t->n = exec->last->n_ops < MAX_OPS ? exec->last->n_ops : MAX_OPS;
    for (uint32_t i = 0; i < t->n; i++)
        if (first || exec->op_ns[i] < t->ns[i])
            t->ns[i] = exec->op_ns[i];
}

static void put_op(sw_json *json, const char *name, const swi_trace *t, const swi_node *node,
                   uint64_t ns)
{
    sw_json_open(json, NULL, '{');
    sw_json_put_string(json, "op", name);
    sw_json_put_u64(json, "operations", swi_node_operations(t, node));
    sw_json_put_u64(json, "bytes", swi_node_bytes(t, node));
    sw_json_put_u64(json, "estimated_ns", swi_node_cost(t, node) / SWI_COST_PER_NS);
    sw_json_put_u64(json, "min_ns", ns);
    sw_json_end(json);
}

static void print_op(const char *name, const swi_trace *t, const swi_node *node, uint64_t ns)
{
    const uint64_t estimated = swi_node_cost(t, node) / SWI_COST_PER_NS;
    printf("%-32s %14s %12s %12s %12s %8.2f\n", name,
           cli_digits(swi_node_operations(t, node)).text,
           cli_digits(swi_node_bytes(t, node)).text, cli_ns(estimated).text, cli_ns(ns).text,
           (double)estimated / (double)(ns > 0 ? ns : 1));
}

static void report(sw_json *json, const char *net, const sw_exec *exec, const op_times *times)
{
    const swi_program *p = exec->last;
    if (json != NULL)
        sw_json_open(json, net, '[');
    else
        printf("\n%-32s %14s %12s %12s %12s %8s\n", net, "operations", "bytes", "estimated",
               "min", "ratio");
    for (uint32_t i = 0; i < times->n; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        char name[96];
        swi_node_name(&p->trace, node, name, sizeof name);
        if (json != NULL)
            put_op(json, name, &p->trace, node, times->ns[i]);
        else
            print_op(name, &p->trace, node, times->ns[i]);
    }
    if (json != NULL)
        sw_json_end(json);
}

static sw_status measure_lenet(const costs_opts *o, const sw_exec_opts *exec, sw_json *json)
{
    bench_lenet lenet = {0};
    op_times times = {.n = 0};
    sw_status status = bench_lenet_create(&lenet, o->batch, true, exec);
    for (int64_t i = 0; status == SW_OK && i < o->runs && (i == 0 || !cli_interrupted()); i++) {
        status = bench_lenet_step(&lenet);
        if (status == SW_OK)
            note_times(&times, lenet.exec, i == 0);
    }
    if (status == SW_OK)
        report(json, "lenet5", lenet.exec, &times);
    bench_lenet_destroy(&lenet);
    return status;
}

static sw_status measure_large(const costs_opts *o, const sw_exec_opts *exec, sw_json *json)
{
    static large_net large;
    op_times times = {.n = 0};
    memset(&large, 0, sizeof large);
    sw_status status = large_open(&large, exec);
    for (int64_t i = 0; status == SW_OK && i < o->runs && (i == 0 || !cli_interrupted()); i++) {
        status = large_run(&large);
        if (status == SW_OK)
            note_times(&times, large.exec, i == 0);
    }
    if (status == SW_OK)
        report(json, "large", large.exec, &times);
    large_close(&large);
    return status;
}

static int run(const costs_opts *o)
{
    const sw_exec_opts exec = {.size = sizeof exec, .threads = 1, .op_clocks = 1};
    sw_json json, *to = o->json ? &json : NULL;
    cli_catch_interrupt();
    if (to != NULL)
        result_json_begin(to);
    else if (!o->quiet)
        printf("time of each op, one thread: the plan's estimate and the least of %s runs\n",
               cli_digits((uint64_t)o->runs).text);
    sw_status status = measure_lenet(o, &exec, to);
    if (status == SW_OK)
        status = measure_large(o, &exec, to);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    return to != NULL ? result_json_end(to, code) : cli_finish(code);
}

int bench_costs(int argc, char **argv)
{
    costs_opts o = {0};
    const cli_option options[] = {
        {"--runs", "N", CLI_COUNT, &o.runs, "20", "times that each net runs", 1, 1 << 20, NULL},
        {"--batch", "N", CLI_COUNT, &o.batch, "128", "images per step of lenet5", 1, 1 << 16,
         NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {.name = "bench costs",
                                 .usage = "[options]",
                                 .about = "The plan's estimate of each op, beside the clock.",
                                 .options = options,
                                 .n_options = sizeof options / sizeof *options};
    const int status = cli_parse(&command, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
