/* A queue's memory and streams. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/exec/queue.h"
#include "runtime/exec/queue_internal.h"
#include <string.h>

/* Results of a run on a device: metrics and counts of skipped updates, gathered there in one
 * block, which is copied to a ring of pinned blocks and read when it is asked for. */

swi_run_readback *swi_queue_readback_of(const sw_exec *exec, const swi_history_run *run)
{
    SW_ASSERT(run >= exec->history.run && run < exec->history.run + SWI_HISTORY);
    return &exec->queue->readback[run - exec->history.run];
}

/* ---- what it is -------------------------------------------------------------------------- */

static void readback_free(swi_readback *l)
{
    if (l == NULL)
        return;
    sw_heap_free(l->copies, SW_HEAP_PROGRAMS, l->cap * sizeof *l->copies);
    sw_heap_free(l->watched, SW_HEAP_PROGRAMS, l->cap_watched * sizeof *l->watched);
    sw_heap_free(l, SW_HEAP_PROGRAMS, sizeof *l);
}

static sw_status add_copy(swi_readback *l, const swi_gathered *copy)
{
    SW_TRY(sw_heap_reserve(&l->copies, SW_HEAP_PROGRAMS, &l->cap, l->n + 1));
    l->copies[l->n++] = *copy;
    return SW_OK;
}

/* Does the trace write the optimizer's counts? Each model says whether it reports them: those
 * of one program need not agree. */
static bool is_watched(const swi_trace *t, int model, const sw_optimizer *o)
{
    for (uint32_t s = 0; o->counts != SWI_NONE && s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_MODEL + (uint32_t)model &&
            t->storages[s].entry == o->counts && t->storages[s].version > 0)
            return true;
    return false;
}

enum { BEFORE_BYTES = sizeof(double), COUNTS_BYTES = SWI_SKIPPED_N * sizeof(double) };

/* The total before, and all counts after it. */
static sw_status add_counts(swi_readback *l, int model, const sw_optimizer *o, size_t at)
{
    const size_t offset = o->model->entries[o->counts].offset;
    const swi_gathered before =
        SW_INIT(.segment = SWI_SEG_MODEL + (uint32_t)model, .bytes = BEFORE_BYTES,
                .offset = offset + SWI_SKIPPED_ALL * sizeof(double), .to = at, .before = true);
    const swi_gathered behind = {.segment = SWI_SEG_MODEL + (uint32_t)model,
                                 .bytes = COUNTS_BYTES,
                                 .offset = offset,
                                 .to = at + BEFORE_BYTES};
    SW_TRY(add_copy(l, &before));
    SW_TRY(add_copy(l, &behind));
    SW_TRY(sw_heap_reserve(&l->watched, SW_HEAP_PROGRAMS, &l->cap_watched, l->n_watched + 1));
    l->watched[l->n_watched++] =
        (swi_watched){.slot = (uint32_t)model, .optimizer = o->index, .at = (uint32_t)at};
    return SW_OK;
}

/* l NULL: count alone. */
static sw_status lay(const sw_run_args *args, const swi_trace *t, size_t *bytes,
                     swi_readback *l)
{
    const uint32_t metric = (uint32_t)sw_dtype_bytes(SW_F32); /* swi_queue_await reads them */
    size_t at = (size_t)t->n_metrics * metric;
    for (uint32_t i = 0; l != NULL && i < t->n_metrics; i++) {
        const swi_value *v = &t->values[t->metrics[i].value];
        const swi_gathered copy = {.segment = SWI_SEG_STEP,
                                   .bytes = metric,
                                   .offset = t->storages[v->storage].offset + v->offset,
                                   .to = (size_t)i * metric};
        SW_TRY(add_copy(l, &copy));
    }
    at = (at + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            const sw_optimizer *o = args->models[m]->optimizers[i];
            if (!is_watched(t, m, o))
                continue;
            SW_TRY(l != NULL ? add_counts(l, m, o, at) : SW_OK);
            at += BEFORE_BYTES + COUNTS_BYTES;
        }
    *bytes = sw_size_round(at);
    return SW_OK;
}

/* Bytes of what leaves such a trace, and the list of it where `out` is not NULL. */
static sw_status readback_of(const sw_run_args *args, const swi_trace *trace, size_t *bytes,
                             swi_readback **out)
{
    if (out == NULL)
        return lay(args, trace, bytes, NULL);
    swi_readback *l;
    SW_TRY(sw_heap_alloc(&l, SW_HEAP_PROGRAMS, sizeof(swi_readback)));
    const sw_status status = lay(args, trace, &l->bytes, l);
    if (status != SW_OK) {
        readback_free(l);
        return status;
    }
    *bytes = l->bytes;
    *out = l;
    return SW_OK;
}

/* ---- on its way -------------------------------------------------------------------------- */

sw_status swi_queue_gather(const swi_queue *q, const swi_readback *l,
                           unsigned char *const *base, bool before)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const swi_gathered *c = &l->copies[i];
        SW_ASSERT(c->segment < SWI_SEG_COUNT && base[c->segment] != NULL);
        SW_ASSERT(c->to + c->bytes <= l->bytes && l->bytes <= q->block_bytes);
        if (c->before == before)
            SW_TRY(swi_queue_fault(q, q->api->copy(&q->compute, swi_queue_block(q) + c->to,
                                                   base[c->segment] + c->offset, c->bytes,
                                                   SW_CUDA_ON_DEVICE)));
    }
    return SW_OK;
}

sw_status swi_queue_read_back(sw_exec *exec, const sw_run_args *args, swi_history_run *run,
                              const swi_frame *f)
{
    swi_queue *q = exec->queue;
    swi_run_readback *readback = swi_queue_readback_of(exec, run);
    const swi_readback *l = f->readback;
    sw_status status = SW_OK;
    if (l->n > 0)
        status = q->api->copy(&q->compute, readback->pinned, swi_queue_block(q), l->bytes,
                              SW_CUDA_TO_HOST);
    if (status == SW_OK)
        status = q->api->record(readback->end, &q->compute);
    SW_TRY(swi_queue_fault(q, status));
    /* The counts are those of the models of this run. */
    SW_ASSERT(l->n_watched == 0 || readback->watched != NULL);
    for (uint32_t i = 0; i < l->n_watched; i++) {
        const sw_model *model = args->models[l->watched[i].slot];
        readback->watched[i] = l->watched[i];
        readback->watched[i].model = model->uid;
        readback->watched[i].most = model->optimizers[l->watched[i].optimizer]->max_skipped;
    }
    readback->n_watched = l->n_watched;
    readback->judged = l->n_watched == 0;
    run->waits = true;
    return SW_OK;
}

/* ---- read -------------------------------------------------------------------------------- */

static sw_status read_times(const swi_queue *q, const swi_run_readback *readback,
                            sw_run_info *info)
{
    SW_TRY(q->api->between(readback->begin, readback->end, &info->ns));
    const swi_phase_events *b = readback->phase_events;
    for (int i = 0; i < SW_PHASES; i++)
        info->phase[i].ns = 0;
    if (b == NULL || b->run != readback->run || b->n == 0)
        return SW_OK;
    SW_TRY(q->api->between(readback->begin, b->at[0].event, &info->phase[SW_DATA].ns));
    for (uint32_t i = 0; i + 1 < b->n; i++) {
        uint64_t ns = 0;
        SW_TRY(q->api->between(b->at[i].event, b->at[i + 1].event, &ns));
        info->phase[b->at[i].phase].ns += ns;
    }
    return SW_OK;
}

static sw_status queue_wait(const swi_queue *q, sw_cuda_event *event)
{
    SW_ASSERT(q->device != NULL && event != NULL);
    bool done = false;
    sw_status status = q->api->done(event, &done);
    if (status == SW_OK && !done)
        status = q->api->wait(event);
    return swi_queue_fault(q, status);
}

sw_status swi_queue_await(sw_exec *exec, swi_history_run *run)
{
    swi_queue *q = exec->queue;
    const swi_run_readback *readback = swi_queue_readback_of(exec, run);
    SW_TRY(swi_device_fault(q->device));
    SW_TRY(queue_wait(q, readback->end));
    for (uint32_t i = 0; i < run->n; i++) {
        float x;
        memcpy(&x, readback->pinned + i * sizeof x, sizeof x);
        run->metrics[i].value = (double)x;
    }
    SW_TRY(swi_queue_fault(q, read_times(q, readback, &run->info)));
    run->waits = false;
    return SW_OK;
}

/* The counts of an optimizer, now: whatever runs is waited for. */
static sw_status read_counts(const swi_queue *q, const sw_optimizer *o, double *counts)
{
    const sw_model *m = o->model;
    memset(counts, 0, COUNTS_BYTES);
    return o->counts == SWI_NONE
               ? SW_OK
               : swi_device_read(q->device, counts, m->base + m->entries[o->counts].offset,
                                 COUNTS_BYTES);
}

sw_status swi_queue_begin_immediate(sw_exec *exec, const sw_run_args *args)
{
    swi_queue *q = exec->queue;
    double counts[SWI_SKIPPED_N];
    SW_TRY(swi_queue_prepare(exec, args, NULL));
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            SW_TRY(read_counts(q, args->models[m]->optimizers[i], counts));
            args->models[m]->optimizers[i]->skipped_before = counts[SWI_SKIPPED_ALL];
        }
    SW_TRY(swi_queue_begin(exec, args));
    q->eager.n = 0;
    q->phase_events = exec->no_phases ? NULL : &q->eager;
    return SW_OK;
}

sw_status swi_queue_end_immediate(sw_exec *exec)
{
    swi_queue *q = exec->queue;
    swi_history_run *run = swi_history_at(&exec->history, 0);
    swi_run_readback *readback = swi_queue_readback_of(exec, run);
    readback->phase_events = q->phase_events;
    if (readback->phase_events != NULL)
        readback->phase_events->run = readback->run;
    SW_TRY(swi_queue_record_phase(q, -1));
    q->phase_events = NULL;
    SW_TRY(swi_queue_fault(q, q->api->record(readback->end, &q->compute)));
    SW_TRY(queue_wait(q, readback->end));
    return swi_queue_fault(q, read_times(q, readback, &exec->info));
}

/* All outputs of a run have their places, so that asking for one moves no other. */
sw_status swi_queue_output(sw_exec *exec, const swi_trace *t, uint32_t output,
                           const void **data)
{
    swi_queue *q = exec->queue;
    size_t at = 0, bytes = 0, sum = 0;
    for (uint32_t i = 0; i < t->n_outputs; i++) {
        const size_t own = sw_type_bytes(&t->values[t->outputs[i].value].type);
        at = i == output ? sum : at;
        bytes = i == output ? own : bytes;
        sum += sw_size_round(own);
    }
    if (sum > q->outputs_bytes) {
        void *outputs;
        SW_TRY(sw_heap_alloc(&outputs, SW_HEAP_RECORDS, sum));
        sw_heap_free(q->outputs, SW_HEAP_RECORDS, q->outputs_bytes);
        q->outputs = outputs;
        q->outputs_bytes = sum;
    }
    unsigned char *to = q->outputs != NULL ? (unsigned char *)q->outputs + at : NULL;
    SW_TRY(bytes > 0 ? swi_device_read(q->device, to, *data, bytes) : SW_OK);
    *data = to;
    return SW_OK;
}

/* ---- skipped updates --------------------------------------------------------------------- */

static sw_status tell(swi_queue *q, const sw_run_args *args)
{
    for (uint32_t k = 0; k < q->n_pending_reports; k++)
        for (int m = 0; m < args->n_models; m++) {
            const swi_pending_report pending_reports = q->pending_reports[k];
            if (args->models[m]->uid != pending_reports.model)
                continue;
            q->pending_reports[k] = q->pending_reports[--q->n_pending_reports];
            return swi_skipped_judge(args->models[m]->optimizers[pending_reports.optimizer],
                                     pending_reports.counts,
                                     pending_reports.counts[SWI_SKIPPED_ALL] - 1.0, NULL);
        }
    return SW_OK;
}

sw_status swi_queue_skipped_in(const sw_exec *exec, const swi_history_run *run,
                               const sw_model *model)
{
    swi_run_readback *readback = swi_queue_readback_of(exec, run);
    SW_ASSERT(run->there && !run->waits);
    readback->judged = true;
    for (uint32_t i = 0; i < readback->n_watched; i++) {
        const swi_watched *w = &readback->watched[i];
        double before, counts[SWI_SKIPPED_N];
        if (w->most <= 0)
            continue;
        memcpy(&before, readback->pinned + w->at, sizeof before);
        memcpy(counts, readback->pinned + w->at + BEFORE_BYTES, sizeof counts);
        SW_TRY(swi_skipped_judge(model->optimizers[w->optimizer], counts, before, NULL));
    }
    return SW_OK;
}

static sw_status skipped_immediate(sw_exec *exec, const sw_run_args *args)
{
    double counts[SWI_SKIPPED_N];
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            const sw_optimizer *o = args->models[m]->optimizers[i];
            SW_TRY(read_counts(exec->queue, o, counts));
            SW_TRY(swi_skipped_judge(o, counts, o->skipped_before, NULL));
        }
    return SW_OK;
}

sw_status swi_queue_skipped(sw_exec *exec, const sw_run_args *args)
{
    swi_queue *q = exec->queue;
    if (args->immediate)
        return skipped_immediate(exec, args);
    for (int ago = SWI_HISTORY - 1; ago >= 0; ago--) {
        swi_history_run *run = swi_history_at(&exec->history, ago);
        if (run == NULL || !run->there)
            continue;
        if (run->waits) {
            bool done = ago == SWI_HISTORY - 1;
            if (!done)
                SW_TRY(swi_queue_fault(
                    q, q->api->done(swi_queue_readback_of(exec, run)->end, &done)));
            if (!done)
                break;
            SW_TRY(swi_queue_await(exec, run));
        }
        swi_run_readback *readback = swi_queue_readback_of(exec, run);
        if (readback->judged)
            continue;
        readback->judged = true;
        /* Too many in a row are noted, and reported to the caller who runs the model:
         * members take turns, and the one that ran three runs ago need not be there. The
         * oldest gives way. */
        for (uint32_t i = 0; i < readback->n_watched; i++) {
            const swi_watched *w = &readback->watched[i];
            swi_pending_report pending_reports = {.model = w->model, .optimizer = w->optimizer};
            double before;
            if (w->most <= 0)
                continue;
            memcpy(&before, readback->pinned + w->at, sizeof before);
            memcpy(pending_reports.counts, readback->pinned + w->at + BEFORE_BYTES,
                   sizeof pending_reports.counts);
            if (pending_reports.counts[SWI_SKIPPED_ALL] <= before ||
                pending_reports.counts[SWI_SKIPPED_NOW] < (double)w->most)
                continue;
            uint32_t k = 0;
            while (k < q->n_pending_reports &&
                   (q->pending_reports[k].model != w->model ||
                    q->pending_reports[k].optimizer != w->optimizer))
                k++;
            if (k == SWI_PENDING_REPORTS) {
                memmove(q->pending_reports, q->pending_reports + 1,
                        (SWI_PENDING_REPORTS - 1) * sizeof *q->pending_reports);
                q->n_pending_reports = k = SWI_PENDING_REPORTS - 1;
            }
            q->n_pending_reports += k == q->n_pending_reports;
            q->pending_reports[k] = pending_reports;
        }
    }
    return tell(q, args);
}

enum {
    COUNTERS_BYTES = SW_ALIGN, /* before the inputs */
    MOST_GRAPHS = 256,         /* members of a population have one each */
    GRAPHS_SHARE = 32          /* of the card's memory graphs have at most one in so many */
};

static uint64_t numbers;

/* ---- faults and waiting ------------------------------------------------------------------ */

sw_status swi_queue_fault(const swi_queue *q, sw_status status)
{
    SW_ASSERT(q->device != NULL && q->api == q->device->api);
    if (status != SW_DEVICE)
        return status;
    if (!q->sync_ops && swi_device_fault(q->device) == SW_OK)
        status = sw_error_set(status, __FILE__, __LINE__,
                              "%s (an op launched before it may be the cause: sync_ops, "
                              "--sync-ops, names it)",
                              sw_last_error());
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

/* ---- making ------------------------------------------------------------------------------ */

static sw_status make(swi_queue *q, const swi_queue_opts *o)
{
    sw_cuda_device *card = q->device->card;
    const uint32_t flags = o->tf32 ? SW_CUDA_TF32 : 0;
    SW_TRY(q->api->queue_create(card, &q->compute, true, flags));
    q->compute.group = &q->group;
    SW_TRY(q->api->queue_create(card, &q->copying, false, 0));
    for (int i = 0; i < SWI_SLOTS; i++) {
        SW_TRY(q->api->event_create(card, &q->slots[i].there, false));
        SW_TRY(q->api->event_create(card, &q->slots[i].taken, false));
    }
    for (int i = 0; i < SWI_HISTORY; i++) {
        SW_TRY(q->api->event_create(card, &q->readback[i].begin, true));
        SW_TRY(q->api->event_create(card, &q->readback[i].end, true));
    }

    sw_budget *budget = o->budget;
    sw_store *store;
    SW_TRY(sw_store_device_create(&store, q->device->info.total_bytes, &q->device->memory));
    const sw_arena_opts opts = {
        .label = "inputs", .use = SW_ARENA_DATA, .store = store, .budget = budget};
    return sw_arena_create(&q->data, &opts);
}

sw_status swi_queue_create(swi_queue **out, swi_device *device, const swi_queue_opts *opts)
{
    swi_queue *q;
    SW_TRY(sw_heap_alloc(&q, SW_HEAP_RECORDS, sizeof(swi_queue)));
    q->device = device;
    SW_ASSERT(device != NULL && device->api != NULL);
    q->api = device->api;
    q->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    q->sync_ops = opts->sync_ops;
    q->no_graphs = opts->no_graphs;
    q->most_graphs = MOST_GRAPHS;
    q->most_graph_bytes = q->device->info.total_bytes / GRAPHS_SHARE;
    const sw_status status = make(q, opts);
    return SW_GIVE(status, out, q, swi_queue_destroy);
}

static void end_event(const swi_queue *q, sw_cuda_event *event)
{
    if (event != NULL)
        q->api->event_destroy(event);
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
    swi_device_unpin(q->device, q->pinned, q->pinned_bytes);
    sw_arena_destroy(q->data);
    sw_heap_free(q->watched, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * q->cap_watched * sizeof *q->watched);
    sw_heap_free(q->outputs, SW_HEAP_RECORDS, q->outputs_bytes);
    sw_heap_free(q->bindings, SW_HEAP_PROGRAMS, q->cap_bindings * sizeof *q->bindings);
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

/* Before all that may grow, so that no graph has their place where others are later. */
enum { TICKETS_BYTES = SW_CUDA_TICKETS * sizeof(uint32_t) };

static unsigned char *queue_inputs(const swi_queue *q)
{
    return (unsigned char *)sw_arena_base(q->data) + TICKETS_BYTES;
}

static unsigned char *queue_staging(const swi_queue *q, uint32_t slot)
{
    SW_ASSERT(slot < SWI_SLOTS && q->slot_bytes % SW_ALIGN == 0);
    return queue_inputs(q) + (1 + slot) * q->slot_bytes;
}

unsigned char *swi_queue_block(const swi_queue *q)
{
    SW_ASSERT(q->slot_bytes % SW_ALIGN == 0);
    return queue_inputs(q) + (1 + SWI_SLOTS) * q->slot_bytes;
}

size_t swi_queue_data_height(const sw_exec *exec)
{
    return sw_arena_height(exec->queue->data);
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

static size_t data_of(size_t slot, size_t block)
{
    size_t bytes = SIZE_MAX / SW_ALIGN * SW_ALIGN;
    size_t slots;
    if (sw_size_mul(slot, 1 + SWI_SLOTS, &slots) && sw_size_add(slots, block, &slots) &&
        sw_size_add(slots, TICKETS_BYTES, &slots))
        bytes = slots;
    return bytes;
}

size_t swi_queue_data_bytes(const sw_exec *exec, const sw_run_args *args,
                            const swi_trace *trace)
{
    const swi_queue *q = exec->queue;
    size_t block = 0;
    if (!args->immediate)
        (void)readback_of(args, trace, &block, NULL); /* counts, and takes nothing */
    return data_of(sw_size_larger(slot_of(args), q->slot_bytes),
                   sw_size_larger(block, q->block_bytes));
}

size_t swi_queue_data_need(const sw_run_args *args, const swi_trace *trace, swi_data_need *need)
{
    size_t block = 0;
    (void)readback_of(args, trace, &block, NULL); /* counts, and takes nothing */
    need->inputs = sw_size_larger(need->inputs, slot_of(args));
    need->results = sw_size_larger(need->results, block);
    return data_of(need->inputs, need->results);
}

sw_status swi_queue_reserve(sw_exec *exec, size_t data_bytes)
{
    return sw_arena_grow(exec->queue->data, data_bytes, false);
}

/* All or nothing: what is larger than before moves, so nothing may be on its way. */
static sw_status grow(sw_exec *exec, const wants *want)
{
    swi_queue *q = exec->queue;
    const wants to = {.slot = sw_size_larger(want->slot, q->slot_bytes),
                      .knobs = sw_size_larger(want->knobs, q->knob_bytes),
                      .block = sw_size_larger(want->block, q->block_bytes)};
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
    /* Parts of the pinned block, and where inputs and counters are. */
    unsigned char *at = q->pinned;
    for (int j = 0; j < SWI_SLOTS; j++, at += q->slot_bytes + q->knob_bytes) {
        q->slots[j].pinned = at;
        q->slots[j].used = false;
    }
    for (int j = 0; j < SWI_HISTORY; j++, at += q->block_bytes)
        q->readback[j].pinned = at;
    q->compute.tickets = (uint32_t *)sw_arena_base(q->data);
    SW_TRY(swi_queue_fault(q, q->api->fill(&q->compute, q->compute.tickets, 0, TICKETS_BYTES)));
    /* Its padding is copied to the host, too. */
    return swi_queue_fault(q, q->api->fill(&q->compute, swi_queue_block(q), 0, q->block_bytes));
}

sw_status swi_queue_prepare(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    swi_queue *q = exec->queue;
    wants want = {.slot = slot_of(args)};
    for (int m = 0; m < args->n_models; m++)
        want.knobs +=
            sw_size_round(args->models[m]->n_knobs * sizeof args->models[m]->knobs->value);
    if (f != NULL && f->readback == NULL) {
        SW_TRY(readback_of(args, &f->program->trace, &want.block, &f->readback));
        f->free_readback = readback_free;
    }
    if (f != NULL) {
        want.block = f->readback->bytes;
        if (!(f->readback->n_watched <= q->cap_watched)) {
            swi_watched *watched;
            SW_TRY(sw_heap_alloc(&watched, SW_HEAP_PROGRAMS,
                                 SWI_HISTORY * f->readback->n_watched * sizeof(swi_watched)));
            for (int i = 0; i < SWI_HISTORY; i++) {
                if (q->readback[i].n_watched > 0)
                    memcpy(watched + (size_t)i * f->readback->n_watched, q->readback[i].watched,
                           q->readback[i].n_watched * sizeof *watched);
                q->readback[i].watched = watched + (size_t)i * f->readback->n_watched;
            }
            sw_heap_free(q->watched, SW_HEAP_PROGRAMS,
                         SWI_HISTORY * q->cap_watched * sizeof *q->watched);
            q->watched = watched;
            q->cap_watched = f->readback->n_watched;
        }
    }
    if (q->pinned == NULL || want.slot > q->slot_bytes || want.knobs > q->knob_bytes ||
        want.block > q->block_bytes)
        SW_TRY(grow(exec, &want));
    q->compute.counters = (const sw_cuda_counters *)(const void *)queue_inputs(q);
    return SW_OK;
}

/* ---- queue inputs ------------------------------------------------------------------------ */

/* Copies to the device before a run: counters, inputs, knobs. */

/* Into the pinned side of a slot; the bytes of it that go to the device. */
static size_t fill(swi_queue *q, swi_slot *slot, const sw_run_args *args)
{
    const sw_cuda_counters counters = {(uint32_t)args->step, args->run};
    size_t at = sw_size_round(sizeof counters);
    memcpy(slot->pinned, &counters, sizeof counters);
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_type type = {args->inputs[i].dtype, SW_PLAIN, args->inputs[i].shape};
        const size_t bytes = sw_type_bytes(&type);
        q->input_at[i] = at;
        SW_ASSERT(at % SW_ALIGN == 0 && bytes <= q->slot_bytes && at <= q->slot_bytes - bytes);
        SW_ASSERT(bytes == 0 || args->inputs[i].data != NULL);
        if (bytes > 0)
            memcpy(slot->pinned + at, args->inputs[i].data, bytes);
        at += sw_size_round(bytes);
    }
    return at;
}

/* Models with knobs that were set since the device had them last. */
static sw_status put_knobs(swi_queue *q, swi_slot *slot, const sw_run_args *args)
{
    unsigned char *at = slot->pinned + q->slot_bytes;
    for (int m = 0; m < args->n_models; m++) {
        sw_model *model = args->models[m];
        const uint64_t version = model->knob_version;
        SW_ASSERT(model->queue == q->number && model->knob_uploaded <= version);
        const size_t bytes = model->n_knobs * sizeof model->knobs->value;
        if (model->knob_uploaded == version || bytes == 0)
            continue;
        for (uint32_t i = 0; i < model->n_knobs; i++)
            memcpy(at + i * sizeof model->knobs[i].value, &model->knobs[i].value,
                   sizeof model->knobs[i].value);
        SW_TRY(q->api->copy(&q->compute, model->base + model->entries[model->knob_entry].offset,
                            at, bytes, SW_CUDA_TO_DEVICE));
        model->knob_uploaded = version;
        at += sw_size_round(bytes);
    }
    return SW_OK;
}

static sw_status send(swi_queue *q, swi_slot *slot, uint32_t k, const sw_run_args *args,
                      swi_run_readback *readback)
{
    const size_t bytes = fill(q, slot, args);
    SW_ASSERT(bytes <= q->slot_bytes && k < SWI_SLOTS && slot == &q->slots[k]);
    unsigned char *staging = queue_staging(q, k);
    slot->used = true;
    SW_TRY(q->api->copy(&q->copying, staging, slot->pinned, bytes, SW_CUDA_TO_DEVICE));
    SW_TRY(q->api->record(slot->there, &q->copying));
    SW_TRY(q->api->after(&q->compute, slot->there));
    SW_TRY(q->api->record(readback->begin, &q->compute));
    SW_TRY(q->api->copy(&q->compute, queue_inputs(q), staging, bytes, SW_CUDA_ON_DEVICE));
    SW_TRY(put_knobs(q, slot, args));
    return q->api->record(slot->taken, &q->compute);
}

sw_status swi_queue_begin(sw_exec *exec, const sw_run_args *args)
{
    swi_queue *q = exec->queue;
    const uint32_t k = (uint32_t)(q->begun++ % SWI_SLOTS);
    swi_slot *slot = &q->slots[k];
    swi_history_run *run = swi_history_at(&exec->history, 0);
    swi_run_readback *readback = swi_queue_readback_of(exec, run);
    SW_ASSERT(run != NULL && readback != NULL && q->device == exec->target.device);
    SW_TRY(swi_queue_use(q));
    /* Queues do not know of each other: what one has left to do on a model, the other waits
     * for. */
    bool elsewhere = false;
    for (int m = 0; m < args->n_models; m++)
        elsewhere |= args->models[m]->queue != 0 && args->models[m]->queue != q->number;
    if (elsewhere)
        SW_TRY(swi_queue_fault(q, q->api->sync(q->device->card)));
    for (int m = 0; m < args->n_models; m++)
        args->models[m]->queue = q->number;

    if (slot->used)
        SW_TRY(queue_wait(q, slot->taken));
    readback->run = exec->history.n;
    readback->phase_events = NULL;
    readback->n_watched = 0;
    readback->judged = true;
    return swi_queue_fault(q, send(q, slot, k, args, readback));
}

unsigned char *swi_queue_bind(const sw_exec *exec, const sw_run_args *args, int input)
{
    SW_ASSERT(input >= 0 && input < args->n_inputs);
    (void)args;
    return queue_inputs(exec->queue) + exec->queue->input_at[input];
}
