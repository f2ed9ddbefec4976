/* The networks of bench device: models of the table at the sizes that are compared. */
#include "tools/bench/device.h"
#include <string.h>

static const bench_device_case cases[] = {
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
     .batch = 128,
     .classes = 1000,
     .channels = 3,
     .side = 224},
    {.name = "mbconv16",
     .about = "the same, a batch that is bound by launches",
     .model = "mbconv",
     .optimizer = "sgd",
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

const bench_device_case *bench_device_case_at(int i)
{
    return i >= 0 && i < (int)(sizeof cases / sizeof *cases) ? &cases[i] : NULL;
}

typedef struct {
    const bench_device_opts *opts;
    sw_exec *exec;
    tool_net net;
    sw_array inputs[2];
    uint64_t step;
} subject;

/* How one sample looks. */
static sw_dataset_info data_of(const bench_device_case *c)
{
    sw_dataset_info d = {
        .size = sizeof d, .n_classes = c->classes, .n_fields = 2, .name = "random numbers"};
    if (c->context > 0) {
        d.field[0] = d.field[1] = (sw_array){SW_I32, SW_SHAPE(c->context), NULL};
    } else if (c->side > 0) {
        d.field[0] = (sw_array){SW_U8, SW_SHAPE(c->channels, c->side, c->side), NULL};
        d.field[1] = (sw_array){c->classes > 256 ? SW_I32 : SW_U8, SW_SCALAR, NULL};
    } else {
        d.field[0] = d.field[1] = (sw_array){SW_F32, SW_SHAPE(c->width), NULL};
    }
    return d;
}

static sw_run_args args_of(subject *s)
{
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = tool_net_step,
                         .user = &s->net,
                         .models = &s->net.model,
                         .n_models = 1,
                         .inputs = s->inputs,
                         .n_inputs = 2,
                         .mode = SW_TRAIN,
                         .step = s->step};
}

static sw_status step(subject *s)
{
    const sw_run_args args = args_of(s);
    s->step++;
    return sw_run(s->exec, &args);
}

static sw_status make(subject *s, const bench_device_case *c, int64_t batch)
{
    const bench_device_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec,
                               .device = o->device,
                               .threads = (int)o->threads,
                               .tf32 = o->tf32,
                               .no_graphs = o->no_graphs};
    tool_net_opts net = {.model = tool_model_find(c->model),
                         .settings = TOOL_SETTINGS_NONE,
                         .data = data_of(c),
                         .optimizer = {.size = sizeof net.optimizer, .kind = c->optimizer}};
    const bool momentum = strcmp(c->model, "mbconv") == 0;
    net.optimizer.momentum = momentum ? 0.9f : 0.0f;
    net.settings.layers = c->layers;
    net.settings.width = c->width;
    net.settings.heads = c->heads;
    net.settings.context = c->context;
    if (tool_settings_complete(net.model, &net.settings) != CLI_GO)
        SW_FAIL(SW_INVALID, "%s: its settings are not those of %s", c->name, c->model);
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(tool_net_create(&s->net, &net));
    for (int i = 0; i < 2; i++)
        s->inputs[i] = bench_batch_of(&net.data.field[i], batch);
    return bench_batch_make(s->inputs, 2, c->classes > 0 ? c->classes : 1);
}

/* Steps that are waited for give the device's times; then all of them at once, the host never
 * waiting, what a step costs in a loop. */
static sw_status measure(subject *s, cli_times *times, bench_device_figures *out)
{
    const int64_t steps = s->opts->steps;
    for (int64_t i = 0; i < s->opts->warmup && !cli_interrupted(); i++)
        SW_TRY(step(s));
    for (int64_t i = 0; i < steps && !cli_interrupted(); i++) {
        sw_run_info info = {.size = sizeof info};
        uint64_t ns = 0;
        SW_TRY(step(s));
        SW_TRY(sw_last_run(s->exec, &info));
        for (int k = 0; k < SW_PHASES; k++)
            ns += info.phase[k].ns;
        cli_times_add(times, ns);
        out->peak_bytes = info.peak_bytes;
    }
    const uint64_t start = cli_clock_ns();
    int64_t done = 0;
    for (; done < steps && !cli_interrupted(); done++)
        SW_TRY(step(s));
    SW_TRY(sw_metric_get(s->exec, "loss", &out->loss)); /* waits for the last */
    out->free_ns = done > 0 ? (cli_clock_ns() - start) / (uint64_t)done : 0;
    out->step = cli_times_summary(times);
    sw_device_info card = {.size = sizeof card}; /* 0 for the CPU */
    SW_TRY(sw_exec_device(s->exec, &card));
    if (card.open_bytes > card.free_bytes)
        out->taken_bytes = card.open_bytes - card.free_bytes;
    const sw_run_args args = args_of(s);
    out->plan.size = sizeof out->plan;
    return sw_plan(s->exec, &args, &out->plan);
}

sw_status bench_device_net(const bench_device_case *which, const bench_device_opts *opts,
                           bench_device_figures *out)
{
    subject s = {.opts = opts};
    cli_times times = {0};
    const int64_t batch = which->batch / opts->share > 0 ? which->batch / opts->share : 1;
    *out = (bench_device_figures){.of = which, .batch = batch};
    sw_status status = cli_times_init(&times, (uint64_t)opts->steps);
    if (status == SW_OK)
        status = make(&s, which, batch);
    if (status == SW_OK)
        status = measure(&s, &times, out);
    tool_net_destroy(&s.net);
    sw_exec_destroy(s.exec);
    bench_batch_free(s.inputs, 2);
    cli_times_free(&times);
    return status;
}
