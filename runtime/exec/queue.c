/* A queue's memory and streams. */
#include "runtime/exec/queue.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/exec/queue_internal.h"
#include <stdio.h>
#include <string.h>

enum {
    COUNTERS_BYTES = SW_ALIGN, /* before the inputs */
    MOST_GRAPHS = 256          /* members of a population have one each */
};

static uint64_t numbers;

/* ---- faults and waiting ------------------------------------------------------------------ */

sw_status swi_queue_fault(const swi_queue *q, sw_status status)
{
    SW_ASSERT(q->device != NULL && q->api == q->device->api);
    if (status != SW_DEVICE)
        return status;
    if (!q->sync_ops && swi_device_fault(q->device) == SW_OK) {
        char text[400];
        snprintf(text, sizeof text, "%s", sw_last_error());
        status = sw_error_set(status, __FILE__, __LINE__,
                              "%s (an op launched before it may be the cause: sync_ops, "
                              "--sync-ops, names it)",
                              text);
    }
    return swi_device_faulted(q->device, status);
}

sw_status swi_queue_use(const swi_queue *q)
{
    return swi_queue_fault(q, q->api->use(q->device->card));
}

sw_status swi_queue_sync(swi_queue *q)
{
    SW_TRY(swi_queue_fault(q, q->api->queue_sync(q->device->card, &q->copying)));
    return swi_queue_fault(q, q->api->queue_sync(q->device->card, &q->compute));
}

sw_status swi_queue_wait(const swi_queue *q, sw_cuda_event *event)
{
    SW_ASSERT(q->device != NULL && event != NULL);
    bool done = false;
    sw_status status = q->api->done(event, &done);
    if (status == SW_OK && !done)
        status = q->api->wait(event);
    return swi_queue_fault(q, status);
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status make_events(swi_queue *q)
{
    sw_cuda_device *card = q->device->card;
    for (int i = 0; i < SWI_SLOTS; i++) {
        SW_TRY(q->api->event_create(card, &q->slots[i].there, false));
        SW_TRY(q->api->event_create(card, &q->slots[i].taken, false));
    }
    for (int i = 0; i < SWI_HISTORY; i++) {
        SW_TRY(q->api->event_create(card, &q->readback[i].begin, true));
        SW_TRY(q->api->event_create(card, &q->readback[i].end, true));
    }
    return SW_OK;
}

static sw_status make_arena(swi_queue *q, sw_budget *budget)
{
    sw_store *store;
    SW_TRY(sw_store_device_create(&store, q->device->info.total_bytes, &q->device->memory));
    const sw_arena_opts opts = {
        .label = "inputs", .use = SW_ARENA_DATA, .store = store, .budget = budget};
    const sw_status status = sw_arena_create(&q->data, &opts);
    if (status != SW_OK)
        sw_store_destroy(store);
    return status;
}

static sw_status make(swi_queue *q, const swi_queue_opts *o)
{
    sw_cuda_device *card = q->device->card;
    const uint32_t flags = o->tf32 ? SW_CUDA_TF32 : 0;
    SW_TRY(q->api->queue_create(card, &q->compute, true, flags));
    SW_TRY(q->api->queue_create(card, &q->copying, false, 0));
    SW_TRY(make_events(q));
    return make_arena(q, o->budget);
}

sw_status swi_queue_create(swi_queue **out, swi_device *device, const swi_queue_opts *opts)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(swi_queue)));
    swi_queue *q = block;
    q->device = device;
    SW_ASSERT(device != NULL && device->api != NULL);
    q->api = device->api;
    q->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    q->sync_ops = opts->sync_ops;
    q->no_graphs = opts->no_graphs;
    q->most_graphs = MOST_GRAPHS;
    const sw_status status = make(q, opts);
    if (status != SW_OK) {
        swi_queue_destroy(q);
        return status;
    }
    *out = q;
    return SW_OK;
}

static void end_event(const swi_queue *q, sw_cuda_event *event)
{
    if (event != NULL)
        q->api->event_destroy(event);
}

static void free_memory(swi_queue *q)
{
    swi_device_unpin(q->device, q->pinned, q->pinned_bytes);
    sw_arena_destroy(q->data);
    sw_heap_free(q->watched, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * q->cap_watched * sizeof *q->watched);
    sw_heap_free(q->outputs, SW_HEAP_RECORDS, q->outputs_bytes);
    sw_heap_free(q->bindings, SW_HEAP_PROGRAMS, q->cap_bindings * sizeof *q->bindings);
}

void swi_queue_destroy(swi_queue *q)
{
    if (q == NULL)
        return;
    if (q->compute.stream != NULL && q->copying.stream != NULL)
        (void)swi_queue_sync(q); /* what a broken device says was said before */
    swi_queue_forget(q, NULL);
    swi_phase_events_free(q, &q->eager);
    for (int i = 0; i < SWI_SLOTS; i++) {
        end_event(q, q->slots[i].there);
        end_event(q, q->slots[i].taken);
    }
    for (int i = 0; i < SWI_HISTORY; i++) {
        end_event(q, q->readback[i].begin);
        end_event(q, q->readback[i].end);
    }
    free_memory(q);
    if (q->compute.stream != NULL)
        q->api->queue_destroy(q->device->card, &q->compute);
    if (q->copying.stream != NULL)
        q->api->queue_destroy(q->device->card, &q->copying);
    sw_heap_free(q, SW_HEAP_RECORDS, sizeof *q);
}

const sw_cuda_queue *swi_queue_compute(const swi_queue *q)
{
    return &q->compute;
}

uint64_t swi_queue_number(const swi_queue *q)
{
    return q->number;
}

/* ---- memory ------------------------------------------------------------------------------ */

unsigned char *swi_queue_inputs(const swi_queue *q)
{
    return sw_arena_base(q->data);
}

unsigned char *swi_queue_staging(const swi_queue *q, uint32_t slot)
{
    SW_ASSERT(slot < SWI_SLOTS && q->slot_bytes % SW_ALIGN == 0);
    return sw_arena_base(q->data) + (1 + slot) * q->slot_bytes;
}

unsigned char *swi_queue_block(const swi_queue *q)
{
    SW_ASSERT(q->slot_bytes % SW_ALIGN == 0);
    return sw_arena_base(q->data) + (1 + SWI_SLOTS) * q->slot_bytes;
}

size_t swi_queue_data_height(const swi_queue *q)
{
    return sw_arena_height(q->data);
}

size_t swi_queue_host_bytes(const swi_queue *q)
{
    return q->pinned_bytes;
}

/* The size of each kind of place that a run needs. */
typedef struct {
    size_t slot, knobs, block;
    uint32_t watched;
} wants;

/* Counters and inputs; a type with too many bytes was refused while tracing. */
static size_t slot_of(const sw_run_args *args)
{
    size_t sum = COUNTERS_BYTES;
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_type type = {args->inputs[i].dtype, SW_PLAIN, args->inputs[i].shape};
        sum += sw_size_round(sw_type_bytes(&type));
    }
    return sum;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t data_of(size_t slot, size_t block)
{
    size_t bytes = SIZE_MAX / SW_ALIGN * SW_ALIGN;
    size_t slots;
    if (sw_size_mul(slot, 1 + SWI_SLOTS, &slots) && sw_size_add(slots, block, &slots))
        bytes = slots;
    return bytes;
}

size_t swi_queue_data_bytes(const swi_queue *q, const sw_run_args *args, const swi_trace *trace)
{
    size_t block = 0;
    if (!args->immediate)
        (void)swi_readback_of(args, trace, &block, NULL); /* counts, and takes nothing */
    return data_of(larger(slot_of(args), q->slot_bytes), larger(block, q->block_bytes));
}

size_t swi_queue_data_need(const sw_run_args *args, const swi_trace *trace, swi_data_need *need)
{
    size_t block = 0;
    (void)swi_readback_of(args, trace, &block, NULL); /* counts, and takes nothing */
    need->inputs = larger(need->inputs, slot_of(args));
    need->results = larger(need->results, block);
    return data_of(need->inputs, need->results);
}

sw_status swi_queue_reserve(swi_queue *q, size_t data_bytes)
{
    return sw_arena_grow(q->data, data_bytes, false);
}

/* Parts of the pinned block, and where inputs and counters are. */
static void divide(swi_queue *q)
{
    unsigned char *at = q->pinned;
    for (int i = 0; i < SWI_SLOTS; i++, at += q->slot_bytes + q->knob_bytes) {
        q->slots[i].pinned = at;
        q->slots[i].used = false;
    }
    for (int i = 0; i < SWI_HISTORY; i++, at += q->block_bytes)
        q->readback[i].pinned = at;
}

/* All or nothing: what is larger than before moves, so nothing may be on its way. */
static sw_status grow(sw_exec *exec, const wants *want)
{
    swi_queue *q = exec->queue;
    const wants to = {.slot = larger(want->slot, q->slot_bytes),
                      .knobs = larger(want->knobs, q->knob_bytes),
                      .block = larger(want->block, q->block_bytes)};
    for (int ago = SWI_HISTORY - 1; ago >= 0; ago--) {
        swi_history_run *run = swi_history_at(&exec->history, ago);
        if (run != NULL && run->waits)
            SW_TRY(swi_queue_await(exec, run));
    }
    SW_TRY(swi_queue_sync(q));
    const size_t bytes = SWI_SLOTS * (to.slot + to.knobs) + SWI_HISTORY * to.block;
    void *pinned;
    SW_TRY(swi_device_pin(q->device, &pinned, bytes));
    const sw_status status = sw_arena_grow(q->data, data_of(to.slot, to.block), true);
    if (status != SW_OK) {
        swi_device_unpin(q->device, pinned, bytes);
        return swi_queue_fault(q, status);
    }
    /* Counts of runs that are over may still have to be looked at. */
    for (int i = 0; i < SWI_HISTORY && q->pinned != NULL; i++)
        memcpy((unsigned char *)pinned + SWI_SLOTS * (to.slot + to.knobs) +
                   (size_t)i * to.block,
               q->readback[i].pinned, q->block_bytes);
    swi_device_unpin(q->device, q->pinned, q->pinned_bytes);
    q->pinned = pinned;
    q->pinned_bytes = bytes;
    q->slot_bytes = to.slot;
    q->knob_bytes = to.knobs;
    q->block_bytes = to.block;
    divide(q);
    return SW_OK;
}

static sw_status reserve_watched(swi_queue *q, uint32_t n)
{
    if (n <= q->cap_watched)
        return SW_OK;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, SWI_HISTORY * n * sizeof(swi_watched)));
    swi_watched *watched = block;
    for (int i = 0; i < SWI_HISTORY; i++) {
        if (q->readback[i].n_watched > 0)
            memcpy(watched + (size_t)i * n, q->readback[i].watched,
                   q->readback[i].n_watched * sizeof *watched);
        q->readback[i].watched = watched + (size_t)i * n;
    }
    sw_heap_free(q->watched, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * q->cap_watched * sizeof *q->watched);
    q->watched = watched;
    q->cap_watched = n;
    return SW_OK;
}

sw_status swi_queue_prepare(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    swi_queue *q = exec->queue;
    wants want = {.slot = slot_of(args)};
    for (int m = 0; m < args->n_models; m++)
        want.knobs +=
            sw_size_round(args->models[m]->n_knobs * sizeof args->models[m]->knobs->value);
    if (f != NULL && f->readback == NULL) {
        SW_TRY(swi_readback_of(args, &f->program->trace, &want.block, &f->readback));
        f->free_readback = swi_readback_free;
    }
    if (f != NULL) {
        want.block = f->readback->bytes;
        SW_TRY(reserve_watched(q, f->readback->n_watched));
    }
    if (q->pinned == NULL || want.slot > q->slot_bytes || want.knobs > q->knob_bytes ||
        want.block > q->block_bytes)
        SW_TRY(grow(exec, &want));
    q->compute.counters = (const sw_cuda_counters *)(const void *)swi_queue_inputs(q);
    return SW_OK;
}
