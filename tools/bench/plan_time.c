/* bench plan: tracing and planning a step of LeNet5, from nothing each time; and --prove and
 * --budget, which are in files of their own. */
#include "tools/bench/bench.h"
#include <string.h>

typedef struct {
    bench_common common;
    int64_t runs;
    bool prove;
    int64_t largest, nodes; /* of --prove */
} plan_opts;

/* A fresh exec and model each time: nothing is remembered. */
static sw_status time_plan(const plan_opts *o, cli_times *times)
{
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts,
                                    .threads = (int)o->common.threads};
    tool_net_opts net_opts;
    SW_TRY(tool_net_digits(&net_opts, "lenet5"));
    const sw_array inputs[] = {{SW_U8, SW_SHAPE(o->common.batch, 1, 28, 28), NULL},
                               {SW_U8, SW_SHAPE(o->common.batch), NULL}};
    sw_exec *exec = NULL;
    tool_net net = {0};
    sw_plan_info info = {.size = sizeof info};
    sw_status status = sw_exec_create(&exec, &exec_opts);
    if (status == SW_OK)
        status = tool_net_create(&net, &net_opts);
    if (status == SW_OK) {
        const sw_run_args args = {.size = sizeof args,
                                  .fn = tool_net_step,
                                  .user = &net,
                                  .models = &net.model,
                                  .n_models = 1,
                                  .inputs = inputs,
                                  .n_inputs = 2,
                                  .mode = SW_TRAIN};
        const uint64_t start = cli_clock_ns();
        status = sw_plan(exec, &args, &info);
        cli_times_add(times, cli_clock_ns() - start);
        tool_net_destroy(&net);
    }
    sw_exec_destroy(exec);
    return status;
}

static int report(const plan_opts *o, cli_times *times)
{
    const cli_summary s = cli_times_summary(times);
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_i64(&json, "batch", o->common.batch);
        sw_json_put_i64(&json, "threads", o->common.threads);
        bench_put(&json, "plan", &s);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("lenet5, batch %lld, %lld thread%s, %s times\n\n", (long long)o->common.batch,
               (long long)o->common.threads, o->common.threads == 1 ? "" : "s",
               cli_digits(s.n).text);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    bench_print("plan", &s);
    return cli_finish(status);
}

static int run_plan(const plan_opts *o)
{
    cli_times times = {0};
    sw_status status = cli_times_init(&times, (uint64_t)o->runs);
    cli_catch_interrupt();
    for (int64_t i = 0; i < o->runs && status == SW_OK && !cli_interrupted(); i++)
        status = time_plan(o, &times);
    const int code = status == SW_OK ? report(o, &times) : cli_library_error(status, false);
    cli_times_free(&times);
    return code;
}

static int parse(plan_opts *o, int argc, char **argv)
{
    const cli_option options[] = {
        {"--steps", "N", CLI_COUNT, &o->runs, "100", "times", 1, 1 << 20, NULL},
        {"--batch", "N", CLI_COUNT, &o->common.batch, "128", "images per step", 1, 1 << 16,
         NULL},
        {"--threads", "N", CLI_COUNT, &o->common.threads, "2", "threads that compute", 1, 256,
         NULL},
        {"--json", NULL, CLI_FLAG, &o->common.json, NULL, "one JSON object on standard output",
         0, 0, NULL},
        {"--quiet", NULL, CLI_FLAG, &o->common.quiet, NULL, "no heading", 0, 0, NULL},
        {"--prove", NULL, CLI_FLAG, &o->prove, NULL,
         "no times: for every training program, whether its arena is at the lower bound", 0, 0,
         NULL},
        {"--largest", "N", CLI_COUNT, &o->largest, NULL,
         "with --prove: batches from 1 to this (default 1024)", 1, 1 << 16, NULL},
        {"--nodes", "N", CLI_COUNT, &o->nodes, NULL,
         "with --prove: of the longer search where a plan is above (default 1000000)", 1, 0,
         NULL},
    };
    const cli_command command = {
        .name = "bench plan",
        .usage = "[options]",
        .about =
            "Trace and plan a training step of LeNet5, from nothing each time; or prove how "
            "low the arenas of all training programs are.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .notes = "bench plan --budget [options] is bench budget."};
    return cli_parse(&command, argc, argv);
}

int bench_plan(int argc, char **argv)
{
    plan_opts o = {0};
    if (argc > 1 && strcmp(argv[1], "--budget") == 0)
        return bench_budget(argc - 1, argv + 1);
    const int status = parse(&o, argc, argv);
    if (status != CLI_GO)
        return status;
    if (!o.prove && (o.largest > 0 || o.nodes > 0))
        return cli_error(CLI_USAGE, "--largest and --nodes are for --prove");
    const bench_prove_opts prove = {.largest = o.largest > 0 ? o.largest : 1024,
                                    .threads = o.common.threads,
                                    .nodes = o.nodes > 0 ? o.nodes : 1000000,
                                    .json = o.common.json,
                                    .quiet = o.common.quiet};
    return o.prove ? bench_prove(&prove) : run_plan(&o);
}
