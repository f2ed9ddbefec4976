/* The networks of bench device: models of the table at the sizes that are compared. */
#include "tools/bench/device.h"

static const bench_net_case cases[] = {
    {.name = "mlp4096",
     .about = "8 linear layers of 4096, swish, SGD",
     .model = "swishnet",
     .optimizer = "sgd",
     .batch = 512,
     .layers = 8,
     .width = 4096},
    {.name = "mlp256",
     .about = "8 linear layers of 256, swish, Adam: bound by launches",
     .model = "swishnet",
     .optimizer = "adam",
     .batch = 64,
     .layers = 8,
     .width = 256},
    {.name = "lenet5",
     .about = "LeNet5, images of 28 x 28 bytes, Adam",
     .model = "lenet5",
     .optimizer = "adam",
     .batch = 128,
     .classes = 10,
     .channels = 1,
     .side = 28},
    {.name = "mbconv128",
     .about = "EfficientNet-B0, images of 224 x 224 bytes, SGD with momentum",
     .model = "mbconv",
     .optimizer = "sgd",
     .momentum = 0.9f,
     .batch = 128,
     .classes = 1000,
     .channels = 3,
     .side = 224},
    {.name = "mbconv16",
     .about = "the same, a batch that is bound by launches",
     .model = "mbconv",
     .optimizer = "sgd",
     .momentum = 0.9f,
     .batch = 16,
     .classes = 1000,
     .channels = 3,
     .side = 224},
    {.name = "gpt124m",
     .about = "GPT-2 of 124 million parameters, context 1024, AdamW",
     .model = "gpt",
     .optimizer = "adamw",
     .batch = 8,
     .layers = 12,
     .width = 768,
     .heads = 12,
     .context = 1024,
     .classes = 50257},
};

const bench_net_case *bench_device_case_at(int i)
{
    return i >= 0 && i < (int)(sizeof cases / sizeof *cases) ? &cases[i] : NULL;
}

/* Steps that are waited for give the device's times; then all of them at once, the host never
 * waiting, what a step costs in a loop. */
static sw_status measure(const bench_device_opts *o, bench_net *s, cli_times *times,
                         bench_device_figures *out)
{
    const int64_t steps = o->steps;
    for (int64_t i = 0; i < o->warmup && !cli_interrupted(); i++)
        SW_TRY(bench_net_step(s));
    for (int64_t i = 0; i < steps && !cli_interrupted(); i++) {
        sw_run_info info = {.size = sizeof info};
        uint64_t ns = 0;
        SW_TRY(bench_net_step(s));
        SW_TRY(sw_last_run(s->exec, &info));
        for (int k = 0; k < SW_PHASES; k++)
            ns += info.phase[k].ns;
        cli_times_add(times, ns);
        out->peak_bytes = info.peak_bytes;
    }
    const uint64_t start = cli_clock_ns();
    int64_t done = 0;
    for (; done < steps && !cli_interrupted(); done++)
        SW_TRY(bench_net_step(s));
    SW_TRY(sw_metric_get(s->exec, "loss", &out->loss)); /* waits for the last */
    out->free_ns = done > 0 ? (cli_clock_ns() - start) / (uint64_t)done : 0;
    out->step = cli_times_summary(times);
    sw_device_info card = {.size = sizeof card}; /* 0 for the CPU */
    SW_TRY(sw_exec_device(s->exec, &card));
    if (card.open_bytes > card.free_bytes)
        out->taken_bytes = card.open_bytes - card.free_bytes;
    const sw_run_args args = bench_net_args(s);
    out->plan.size = sizeof out->plan;
    return sw_plan(s->exec, &args, &out->plan);
}

sw_status bench_device_net(const bench_net_case *which, const bench_device_opts *opts,
                           bench_device_figures *out)
{
    bench_net net = {0};
    cli_times times = {0};
    const int64_t batch = which->batch / opts->share > 0 ? which->batch / opts->share : 1;
    const sw_exec_opts exec = {.size = sizeof exec,
                               .device = opts->device,
                               .threads = (int)opts->threads,
                               .tf32 = opts->tf32,
                               .no_graphs = opts->no_graphs};
    *out = (bench_device_figures){.of = which, .batch = batch};
    sw_status status = cli_times_init(&times, (uint64_t)opts->steps);
    if (status == SW_OK)
        status = bench_net_make(&net, which, batch, &exec);
    if (status == SW_OK)
        status = measure(opts, &net, &times, out);
    bench_net_destroy(&net);
    cli_times_free(&times);
    return status;
}
