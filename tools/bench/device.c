/* bench device: whole steps of networks on a device, and what its card can do at most. */
#include "runtime/device/device.h"
#include "runtime/ops/ops.h"
#include "tools/bench/subjects.h"
#include <string.h>

typedef struct {
    const char *device, *only; /* one case; NULL: all */
    int64_t steps, warmup;
    int64_t share;         /* batches are a share of what the cases say: 1 is all */
    int64_t raw_bytes;     /* of what is copied */
    int64_t raw_side;      /* of the matrices */
    const char *precision; /* of networks */
    bool tf32, no_graphs, graphs;
} asked_for;
static asked_for o;

/* ---- the card ---------------------------------------------------------------------------- */

/* The most that it can do, by kernels that run alone: a copy, a product of matrices, and swish,
 * whose forward reads and writes a tensor and whose backward reads two and writes one. */
typedef struct {
    swi_device *device;
    sw_cuda_queue queue;
    sw_cuda_event *begin, *end;
    void *block[4]; /* x, y, the product's factors; scratch */
    size_t scratch_bytes;
    bool has_queue;
} card;

typedef struct {
    const char *kernel;
    uint32_t op;
    int grad;
    sw_buffer in[2], out[1];
    int n_in;
    double bytes, operations; /* that it moves (read and written), or does */
    int64_t live_bytes;
} work;

static sw_buffer buffer_of(void *at, int64_t rows, int64_t cols)
{
    sw_buffer b = {.ptr = at, .type = {SW_F32, SW_PLAIN, SW_SHAPE(rows, cols)}};
    b.stride[0] = cols;
    b.stride[1] = 1;
    return b;
}

static sw_status entry_of(const work *w, const sw_cuda_entry **out)
{
    *out = swi_device_entry(w->op, w->grad);
    if (*out == NULL)
        SW_FAIL(SW_UNSUPPORTED, "the module has no kernel %d of op %u", w->grad, w->op);
    return SW_OK;
}

/* Room for the work's scratch, in place of what was there. */
static sw_status make_scratch(card *c, const work *w, const sw_cuda_entry *entry)
{
    sw_type in[2], out[1] = {w->out[0].type};
    for (int i = 0; i < w->n_in; i++)
        in[i] = w->in[i].type;
    const sw_kernel_info info = {
        .in = in, .out = out, .n_in = w->n_in, .n_out = 1, .threads = 1};
    if (c->block[3] != NULL)
        c->device->api->free(c->device->card, c->block[3]);
    c->block[3] = NULL;
    c->scratch_bytes =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(&info, &c->queue) : 0;
    return c->scratch_bytes > 0
               ? c->device->api->alloc(c->device->card, &c->block[3], c->scratch_bytes)
               : SW_OK;
}

static sw_status measure_work(card *c, const work *w, cli_summary *out)
{
    const sw_cuda_api *api = c->device->api;
    const sw_cuda_entry *entry;
    cli_times times;
    SW_TRY(entry_of(w, &entry));
    SW_TRY(make_scratch(c, w, entry));
    SW_TRY(cli_times_init(&times, (uint64_t)o.steps));
    const sw_launch launch =
        SW_INIT(.size = sizeof launch, .in = w->in, .n_in = w->n_in, .out = w->out, .n_out = 1,
                .scratch = c->block[3], .scratch_bytes = c->scratch_bytes);
    sw_status status = SW_OK;
    for (int64_t i = -o.warmup; i < o.steps && status == SW_OK && !cli_interrupted(); i++) {
        uint64_t ns = 0;
        status = api->record(c->begin, &c->queue);
        if (status == SW_OK)
            status = entry->kernel(&launch, &c->queue);
        if (status == SW_OK)
            status = api->record(c->end, &c->queue);
        if (status == SW_OK)
            status = api->wait(c->end);
        if (status == SW_OK)
            status = api->between(c->begin, c->end, &ns);
        if (i >= 0)
            cli_times_add(&times, ns);
    }
    *out = cli_times_summary(&times);
    cli_times_free(&times);
    return swi_device_faulted(c->device, status);
}

static sw_status open_card(card *c)
{
    SW_TRY(swi_device_open(&c->device, o.device));
    const sw_cuda_api *api = c->device->api;
    sw_cuda_device *its = c->device->card;
    SW_TRY(api->queue_create(its, &c->queue, true, o.tf32 ? SW_CUDA_TF32 : 0));
    c->has_queue = true;
    SW_TRY(api->event_create(its, &c->begin, true));
    SW_TRY(api->event_create(its, &c->end, true));
    const size_t square = (size_t)o.raw_side * (size_t)o.raw_side * sizeof(float);
    const size_t bytes = (size_t)o.raw_bytes;
    const size_t most = bytes > square ? bytes : square;
    for (int i = 0; i < 3; i++)
        SW_TRY(api->alloc(its, &c->block[i], i < 2 ? most : square + sizeof(sw_cuda_counters)));
    /* Random numbers: products of constants are faster. The counters are those of step 0. */
    SW_TRY(api->fill(&c->queue, c->block[2], 0, sizeof(sw_cuda_counters)));
    c->queue.counters = c->block[2];
    for (int i = 0; i < 2; i++) {
        const sw_buffer random = buffer_of(c->block[i], 1, (int64_t)(most / sizeof(float)));
        const work draws = {.op = SW_OP_rand, .grad = -1};
        const sw_cuda_entry *entry;
        const sw_launch l = SW_INIT(.size = sizeof l, .out = &random, .n_out = 1, .seed = 1,
                                    .stream = (uint32_t)i);
        SW_TRY(entry_of(&draws, &entry));
        SW_TRY(swi_device_faulted(c->device, entry->kernel(&l, &c->queue)));
    }
    return SW_OK;
}

/* clang-format off */
#define KERNEL_ROW(X, t) \
    X(t, WORD, kernel, "card", 16) \
    X(t, TIMES, time, "", 0) \
    X(t, REAL, gigabytes_per_second, "GB/s", 0) \
    X(t, REAL, teraflops, "TFLOP/s", 0) \
    X(t, BYTES, live_bytes, NULL, 0) \
    X(t, COUNT, cublaslt, NULL, 0) /* as of networks */
/* clang-format on */

static sw_status measure_kernels(bench *b, card *c)
{
    BENCH_ROW(row, fields, KERNEL_ROW);
    const int64_t elements = o.raw_bytes / (int64_t)sizeof(float), side = o.raw_side,
                  tensor = elements * (int64_t)sizeof(float),
                  square = side * side * (int64_t)sizeof(float);
    const sw_buffer x = buffer_of(c->block[0], 1, elements),
                    y = buffer_of(c->block[1], 1, elements),
                    m[3] = {buffer_of(c->block[0], side, side),
                            buffer_of(c->block[1], side, side),
                            buffer_of(c->block[2], side, side)};
    const double moved = (double)tensor,
                 flops = 2.0 * (double)side * (double)side * (double)side;
    const work works[] = {
        {"copy", SW_OP_copy, -1, {x}, {y}, 1, 2 * moved, 0, 2 * tensor},
        {"product", SW_OP_matmul, -1, {m[0], m[1]}, {m[2]}, 2, 0, flops, 3 * square},
        {"swish", SW_OP_swish, -1, {x}, {y}, 1, 2 * moved, 0, 2 * tensor},
        {"swish_backward", SW_OP_swish, 0, {x, y}, {y}, 2, 3 * moved, 0, 2 * tensor}};
    for (size_t i = 0; i < sizeof works / sizeof *works && !cli_interrupted(); i++) {
        row r = {.kernel = works[i].kernel,
                 .live_bytes = works[i].live_bytes,
                 .cublaslt = c->device->info.blas};
        SW_TRY(measure_work(c, &works[i], &r.time));
        const double ns = (double)r.time.median;
        r.gigabytes_per_second = ns > 0.0 ? works[i].bytes / ns : 0.0;
        r.teraflops = ns > 0.0 ? works[i].operations / ns / 1e3 : 0.0;
        bench_rows(b, "card", fields, &r, 1);
    }
    return SW_OK;
}

static sw_status measure_card(bench *b)
{
    card c = {0};
    sw_status status = open_card(&c);
    if (status == SW_OK)
        status = measure_kernels(b, &c);
    if (c.device != NULL) {
        const sw_cuda_api *api = c.device->api;
        for (int i = 0; i < 4; i++)
            if (c.block[i] != NULL)
                api->free(c.device->card, c.block[i]);
        if (c.end != NULL)
            api->event_destroy(c.end);
        if (c.begin != NULL)
            api->event_destroy(c.begin);
        if (c.has_queue)
            api->queue_destroy(c.device->card, &c.queue);
        swi_device_close(c.device);
    }
    return status;
}

/* ---- networks ---------------------------------------------------------------------------- */

/* clang-format off */
#define NETWORK_ROW(X, t) \
    X(t, WORD, network, "step", 16) \
    X(t, COUNT, batch, "batch", 6) \
    X(t, NS, first_step_ns, "first", 0) /* time of the clock of the first step: trace and plan too */ \
    X(t, TIMES, step, "", 0) /* device time: from the first phase's begin to the last one's end */ \
    X(t, NS, in_a_loop_ns, "in a loop", 0) /* time of the clock for one of all steps, none waited for */ \
    X(t, BYTES, peak_bytes, "peak", 0) /* most that lived at one time, as the run says */ \
    X(t, BYTES, model_bytes, NULL, 0) \
    X(t, BYTES, arena_bytes, NULL, 0) \
    X(t, BYTES, data_bytes, NULL, 0) \
    X(t, BYTES, total_bytes, NULL, 0) \
    X(t, COUNT, launches, "launches", 8) \
    X(t, BYTES, card_bytes, "card", 0) /* by which the card's free memory is less than when it was opened */ \
    X(t, COUNT, cublaslt, NULL, 0) /* its version, as the library says; 0: built without */ \
    X(t, REAL, loss, NULL, 0) /* of the last step */
/* clang-format on */
BENCH_ROW(row, fields, NETWORK_ROW);

/* Steps that are waited for give the device's times; then all of them at once, the host never
 * waiting, what a step costs in a loop. */
static sw_status measure_steps(bench_subject *s, cli_times *times, row *out)
{
    double loss;
    uint64_t start = cli_clock_ns();
    for (int64_t i = 0; i < o.warmup && !cli_interrupted(); i++) {
        SW_TRY(bench_subject_step(s));
        SW_TRY(sw_metric_get(s->exec, "loss", &loss)); /* waits for it */
        out->first_step_ns = i == 0 ? (int64_t)(cli_clock_ns() - start) : out->first_step_ns;
    }
    for (int64_t i = 0; i < o.steps && !cli_interrupted(); i++) {
        sw_run_info info = {.size = sizeof info};
        uint64_t ns = 0;
        SW_TRY(bench_subject_step(s));
        SW_TRY(sw_last_run(s->exec, &info));
        for (int k = 0; k < SW_PHASES; k++)
            ns += info.phase[k].ns;
        cli_times_add(times, ns);
        out->peak_bytes = (int64_t)info.peak_bytes;
    }
    start = cli_clock_ns();
    int64_t done = 0;
    for (; done < o.steps && !cli_interrupted(); done++)
        SW_TRY(bench_subject_step(s));
    SW_TRY(sw_metric_get(s->exec, "loss", &out->loss)); /* waits for the last */
    out->in_a_loop_ns = done > 0 ? (int64_t)(cli_clock_ns() - start) / done : 0;
    out->step = cli_times_summary(times);
    sw_device_info at = {.size = sizeof at}; /* 0 for the CPU */
    SW_TRY(sw_exec_device(s->exec, &at));
    out->cublaslt = at.blas;
    if (at.open_bytes > at.free_bytes)
        out->card_bytes = (int64_t)(at.open_bytes - at.free_bytes);
    const sw_run_args args = bench_subject_args(s);
    sw_plan_info plan = {.size = sizeof plan};
    SW_TRY(sw_plan(s->exec, &args, &plan));
    out->model_bytes = (int64_t)plan.model_bytes;
    out->arena_bytes = (int64_t)plan.arena_bytes;
    out->data_bytes = (int64_t)plan.data_bytes;
    out->total_bytes = (int64_t)plan.total_bytes;
    out->launches = plan.launches > 0 ? (int64_t)plan.launches : BENCH_NONE;
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static bool asked(const char *name)
{
    return o.only == NULL || strcmp(o.only, name) == 0;
}

static sw_status measure(bench *b)
{
    static const bench_field facts[] = {BENCH_OF(asked_for, WORD, device, "", 0),
                                        BENCH_OF(asked_for, WORD, precision, "", 0),
                                        BENCH_OF(asked_for, FLAG, tf32, "TF32", 0),
                                        BENCH_OF(asked_for, FLAG, graphs, "graphs", 0)};
    const bench_case *c;
    o.graphs = !o.no_graphs;
    bench_facts(b, facts, &o);
    if (asked("card") && strncmp(o.device, "cuda", 4) == 0)
        SW_TRY(measure_card(b));
    for (int i = 0; (c = bench_case_at(BENCH_OF_DEVICE, i)) != NULL && !cli_interrupted();
         i++) {
        if (!asked(c->name))
            continue;
        if (!b->quiet)
            cli_progress("%s", c->name);
        bench_subject subject = {0};
        cli_times times = {0};
        const int64_t batch = c->batch / o.share > 0 ? c->batch / o.share : 1;
        const sw_exec_opts exec =
            SW_INIT(.size = sizeof exec, .device = o.device, .threads = (int)b->threads,
                    .tf32 = o.tf32, .no_graphs = o.no_graphs,
                    .compute = strcmp(o.precision, "bf16") == 0 ? SW_BF16 : SW_F32);
        row r = {.network = c->name, .batch = batch, .card_bytes = BENCH_NONE};
        sw_status status = cli_times_init(&times, (uint64_t)o.steps);
        if (status == SW_OK)
            status = bench_subject_make(&subject, c, batch, &exec);
        if (status == SW_OK)
            status = measure_steps(&subject, &times, &r);
        if (status == SW_OK)
            bench_rows(b, "networks", fields, &r, 1);
        bench_subject_destroy(&subject);
        cli_times_free(&times);
        SW_TRY(status);
    }
    return SW_OK;
}

static const char *const cases[] = {"card",      "mlp4096",  "mlp256",  "lenet5",
                                    "mbconv128", "mbconv16", "gpt124m", NULL};
static const char *const types[] = {"f32", "bf16", NULL};
static const cli_option options[] = {
    BENCH_NAME("--device", &o.device, "cuda", "cuda, cuda:N or cpu", NULL),
    BENCH_NAME("--only", &o.only, NULL, "one of them (default: all)", cases),
    BENCH_NUMBER("--steps", &o.steps, "50", "steps of each, twice", 1, 1 << 20),
    BENCH_NUMBER("--warmup", &o.warmup, "5", "steps before them", 1, 1 << 20),
    BENCH_NUMBER("--share", &o.share, "1", "batches are an Nth of what they would be", 1,
                 1 << 20),
    BENCH_NUMBER("--copy-bytes", &o.raw_bytes, "1073741824",
                 "bytes of the tensors that card copies", 64, (int64_t)1 << 40),
    BENCH_NUMBER("--side", &o.raw_side, "8192", "of the matrices that card multiplies", 1,
                 1 << 17),
    BENCH_NAME("--precision", &o.precision, "f32", "of activations: f32 or bf16", types),
    {"--tf32", NULL, CLI_FLAG, &o.tf32, NULL, "products may round their factors to TF32"},
    BENCH_SWITCH("--no-graphs", &o.no_graphs, "launch each kernel by itself"),
};

const bench_command bench_device = {
    .name = "device",
    .line = "whole steps of six networks on a device, and what the card can",
    .about = "Whole steps of networks on a device, fixed batches from the host included, "
             "and kernels of the card by themselves (card).",
    BENCH_OPTIONS(options),
    .run = measure,
    .notes = "Times of steps are the device's, each step waited for; \"in a loop\" is what "
             "one costs where none is. tools/bench/device.py sets PyTorch beside them."};
