/* Results of a run on a device: metrics and counts of skipped updates, gathered there in one
 * block, which is copied to a ring of pinned blocks and read when it is asked for. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/exec/queue_internal.h"
#include <string.h>

swi_run_readback *swi_queue_readback_of(const sw_exec *exec, const swi_history_run *run)
{
    SW_ASSERT(run >= exec->history.run && run < exec->history.run + SWI_HISTORY);
    return &exec->queue->readback[run - exec->history.run];
}

/* ---- what it is -------------------------------------------------------------------------- */

void swi_readback_free(swi_readback *l)
{
    if (l == NULL)
        return;
    sw_heap_free(l->copies, SW_HEAP_PROGRAMS, l->cap * sizeof *l->copies);
    sw_heap_free(l->watched, SW_HEAP_PROGRAMS, l->cap_watched * sizeof *l->watched);
    sw_heap_free(l, SW_HEAP_PROGRAMS, sizeof *l);
}

static sw_status add_copy(swi_readback *l, const swi_gathered *copy)
{
    void *p = l->copies;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &l->cap, l->n + 1, sizeof *l->copies));
    l->copies = p;
    l->copies[l->n++] = *copy;
    return SW_OK;
}

static sw_status add_watched(swi_readback *l, int model, const sw_optimizer *o, size_t at)
{
    void *p = l->watched;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &l->cap_watched, l->n_watched + 1,
                           sizeof *l->watched));
    l->watched = p;
    l->watched[l->n_watched++] =
        (swi_watched){.slot = (uint32_t)model, .optimizer = o->index, .at = (uint32_t)at};
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
    const swi_gathered before = {.segment = SWI_SEG_MODEL + (uint32_t)model,
                                 .bytes = BEFORE_BYTES,
                                 .offset = offset + SWI_SKIPPED_ALL * sizeof(double),
                                 .to = at,
                                 .before = true};
    const swi_gathered behind = {.segment = SWI_SEG_MODEL + (uint32_t)model,
                                 .bytes = COUNTS_BYTES,
                                 .offset = offset,
                                 .to = at + BEFORE_BYTES};
    SW_TRY(add_copy(l, &before));
    SW_TRY(add_copy(l, &behind));
    return add_watched(l, model, o, at);
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

sw_status swi_readback_of(const sw_run_args *args, const swi_trace *trace, size_t *bytes,
                          swi_readback **out)
{
    if (out == NULL)
        return lay(args, trace, bytes, NULL);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_readback)));
    swi_readback *l = block;
    const sw_status status = lay(args, trace, &l->bytes, l);
    if (status != SW_OK) {
        swi_readback_free(l);
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

/* The counts are those of the models of this run. */
static void watch(swi_run_readback *readback, const swi_readback *l, const sw_run_args *args)
{
    SW_ASSERT(l->n_watched == 0 || readback->watched != NULL);
    for (uint32_t i = 0; i < l->n_watched; i++) {
        const sw_model *model = args->models[l->watched[i].slot];
        readback->watched[i] = l->watched[i];
        readback->watched[i].model = model->uid;
        readback->watched[i].most = model->optimizers[l->watched[i].optimizer]->max_skipped;
    }
    readback->n_watched = l->n_watched;
    readback->judged = l->n_watched == 0;
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
    watch(readback, l, args);
    run->waits = true;
    return SW_OK;
}

/* ---- read -------------------------------------------------------------------------------- */

static sw_status read_phases(const swi_queue *q, const swi_run_readback *readback,
                             sw_run_info *info)
{
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

static sw_status read_times(const swi_queue *q, const swi_run_readback *readback,
                            sw_run_info *info)
{
    SW_TRY(q->api->between(readback->begin, readback->end, &info->ns));
    return read_phases(q, readback, info);
}

sw_status swi_queue_await(sw_exec *exec, swi_history_run *run)
{
    swi_queue *q = exec->queue;
    const swi_run_readback *readback = swi_queue_readback_of(exec, run);
    SW_TRY(swi_device_fault(q->device));
    SW_TRY(swi_queue_wait(q, readback->end));
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
    SW_TRY(swi_queue_wait(q, readback->end));
    return swi_queue_fault(q, read_times(q, readback, &exec->info));
}

/* ---- outputs ----------------------------------------------------------------------------- */

/* All outputs of a run have their places, so that asking for one moves no other. */
sw_status swi_queue_output(swi_queue *q, const swi_trace *t, uint32_t output, const void **data)
{
    size_t at = 0, bytes = 0, sum = 0;
    for (uint32_t i = 0; i < t->n_outputs; i++) {
        const size_t own = sw_type_bytes(&t->values[t->outputs[i].value].type);
        at = i == output ? sum : at;
        bytes = i == output ? own : bytes;
        sum += sw_size_round(own);
    }
    if (sum > q->outputs_bytes) {
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sum));
        sw_heap_free(q->outputs, SW_HEAP_RECORDS, q->outputs_bytes);
        q->outputs = block;
        q->outputs_bytes = sum;
    }
    unsigned char *to = q->outputs != NULL ? (unsigned char *)q->outputs + at : NULL;
    SW_TRY(bytes > 0 ? swi_device_read(q->device, to, *data, bytes) : SW_OK);
    *data = to;
    return SW_OK;
}

/* ---- skipped updates --------------------------------------------------------------------- */

/* Too many in a row are noted, and reported to the caller who runs the model: members take
 * turns, and the one that ran three runs ago need not be there. The oldest gives way. */
static void judge(swi_queue *q, const swi_run_readback *readback)
{
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
        while (k < q->n_pending_reports && (q->pending_reports[k].model != w->model ||
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

sw_status swi_queue_skipped_immediate(sw_exec *exec, const sw_run_args *args)
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
        judge(q, readback);
    }
    return tell(q, args);
}
