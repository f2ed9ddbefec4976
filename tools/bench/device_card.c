/* The most that the card can do, by kernels that run alone: a copy, a product of matrices, and
 * swish, whose forward reads and writes a tensor and whose backward reads two and writes
 * one. */
#include "runtime/device/device.h"
#include "runtime/ops/ops.h"
#include "tools/bench/device.h"
#include <string.h>

typedef struct {
    swi_device *device;
    sw_cuda_queue queue;
    sw_cuda_event *begin, *end;
    void *block[4]; /* x, y, the product's factors; scratch */
    size_t scratch_bytes;
    bool has_queue;
} card;

typedef struct {
    uint32_t op;
    int grad;
    sw_buffer in[2], out[1];
    int n_in;
    const void *attrs;
} work;

static sw_buffer buffer_of(void *at, int64_t rows, int64_t cols)
{
    sw_buffer b = {.ptr = at, .type = {SW_F32, SW_PLAIN, SW_SHAPE(rows, cols)}};
    b.stride[0] = cols;
    b.stride[1] = 1;
    return b;
}

static sw_status entry_of(const card *c, const work *w, const sw_cuda_entry **out)
{
    *out = swi_device_entry(c->device, w->op, w->grad);
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
        .in = in, .out = out, .n_in = w->n_in, .n_out = 1, .attrs = w->attrs, .threads = 1};
    if (c->block[3] != NULL)
        c->device->api->free(c->device->card, c->block[3]);
    c->block[3] = NULL;
    c->scratch_bytes =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(&info, &c->queue) : 0;
    return c->scratch_bytes > 0
               ? c->device->api->alloc(c->device->card, &c->block[3], c->scratch_bytes)
               : SW_OK;
}

static sw_status measure(card *c, const work *w, const bench_device_opts *o, cli_summary *out)
{
    const sw_cuda_api *api = c->device->api;
    const sw_cuda_entry *entry;
    cli_times times;
    SW_TRY(entry_of(c, w, &entry));
    SW_TRY(make_scratch(c, w, entry));
    SW_TRY(cli_times_init(&times, (uint64_t)o->steps));
    const sw_launch launch = {.size = sizeof launch,
                              .in = w->in,
                              .n_in = w->n_in,
                              .out = w->out,
                              .n_out = 1,
                              .scratch = c->block[3],
                              .scratch_bytes = c->scratch_bytes,
                              .attrs = w->attrs};
    sw_status status = SW_OK;
    for (int64_t i = -o->warmup; i < o->steps && status == SW_OK && !cli_interrupted(); i++) {
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

static sw_status open_card(card *c, const bench_device_opts *o)
{
    SW_TRY(swi_device_open(&c->device, o->device));
    const sw_cuda_api *api = c->device->api;
    sw_cuda_device *its = c->device->card;
    SW_TRY(api->queue_create(its, &c->queue, true, o->tf32 ? SW_CUDA_TF32 : 0));
    c->has_queue = true;
    SW_TRY(api->event_create(its, &c->begin, true));
    SW_TRY(api->event_create(its, &c->end, true));
    const size_t square = (size_t)o->raw_side * (size_t)o->raw_side * sizeof(float);
    const size_t bytes = (size_t)o->raw_bytes;
    const size_t most = bytes > square ? bytes : square;
    for (int i = 0; i < 3; i++) {
        const size_t own = i < 2 ? most : square;
        SW_TRY(api->alloc(its, &c->block[i], own));
        SW_TRY(api->fill(&c->queue, c->block[i], 0x3f, own)); /* 0.747 in every element */
    }
    return SW_OK;
}

static void close_card(card *c)
{
    if (c->device == NULL)
        return;
    const sw_cuda_api *api = c->device->api;
    for (int i = 0; i < 4; i++)
        if (c->block[i] != NULL)
            api->free(c->device->card, c->block[i]);
    if (c->end != NULL)
        api->event_destroy(c->end);
    if (c->begin != NULL)
        api->event_destroy(c->begin);
    if (c->has_queue)
        api->queue_destroy(c->device->card, &c->queue);
    swi_device_close(c->device);
}

static sw_status measure_all(card *c, const bench_device_opts *o, bench_device_raw *out, int *n)
{
    const int64_t elements = o->raw_bytes / (int64_t)sizeof(float), side = o->raw_side;
    const sw_buffer x = buffer_of(c->block[0], 1, elements),
                    y = buffer_of(c->block[1], 1, elements);
    const double tensor = (double)elements * sizeof(float);
    const work works[BENCH_DEVICE_RAW] = {
        {.op = SW_OP_copy, .grad = -1, .in = {x}, .n_in = 1, .out = {y}},
        {.op = SW_OP_matmul,
         .grad = -1,
         .in = {buffer_of(c->block[0], side, side), buffer_of(c->block[1], side, side)},
         .n_in = 2,
         .out = {buffer_of(c->block[2], side, side)}},
        {.op = SW_OP_swish, .grad = -1, .in = {x}, .n_in = 1, .out = {y}},
        {.op = SW_OP_swish, .grad = 0, .in = {x, y}, .n_in = 2, .out = {y}}};
    const bench_device_raw raw[BENCH_DEVICE_RAW] = {
        {.name = "copy",
         .about = "a tensor into another",
         .bytes = 2 * tensor,
         .live_bytes = (size_t)(2 * tensor)},
        {.name = "product",
         .about = "square matrices, by cuBLAS where it is built in",
         .operations = 2.0 * (double)side * (double)side * (double)side,
         .live_bytes = 3 * (size_t)(side * side) * sizeof(float)},
        {.name = "swish",
         .about = "forward",
         .bytes = 2 * tensor,
         .live_bytes = (size_t)(2 * tensor)},
        {.name = "swish_backward",
         .about = "in place of the gradient that came",
         .bytes = 3 * tensor,
         .live_bytes = (size_t)(2 * tensor)}};
    for (*n = 0; *n < BENCH_DEVICE_RAW && !cli_interrupted(); ++*n) {
        out[*n] = raw[*n];
        SW_TRY(measure(c, &works[*n], o, &out[*n].time));
    }
    return SW_OK;
}

sw_status bench_device_card(const bench_device_opts *opts, bench_device_raw *out, int *n)
{
    card c = {0};
    sw_status status = open_card(&c, opts);
    if (status == SW_OK)
        status = measure_all(&c, opts, out, n);
    close_card(&c);
    return status;
}
