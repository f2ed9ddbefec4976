/* Copies to the device before a run: counters, inputs, knobs. */
#include "alloc/base/size.h"
#include "alloc/base/assert.h"
#include "runtime/exec/queue_internal.h"
#include <string.h>

/* Queues do not know of each other: what one has left to do on a model, the other waits for. */
static sw_status take_models(swi_queue *q, const sw_run_args *args)
{
    bool elsewhere = false;
    for (int m = 0; m < args->n_models; m++)
        elsewhere |= args->models[m]->queue != 0 && args->models[m]->queue != q->number;
    if (elsewhere)
        SW_TRY(swi_queue_fault(q, q->api->sync(q->device->card)));
    for (int m = 0; m < args->n_models; m++)
        args->models[m]->queue = q->number;
    return SW_OK;
}

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
    unsigned char *staging = swi_queue_staging(q, k);
    slot->used = true;
    SW_TRY(q->api->copy(&q->copying, staging, slot->pinned, bytes, SW_CUDA_TO_DEVICE));
    SW_TRY(q->api->record(slot->there, &q->copying));
    SW_TRY(q->api->after(&q->compute, slot->there));
    SW_TRY(q->api->record(readback->begin, &q->compute));
    SW_TRY(q->api->copy(&q->compute, swi_queue_inputs(q), staging, bytes, SW_CUDA_ON_DEVICE));
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
    SW_TRY(take_models(q, args));
    if (slot->used)
        SW_TRY(swi_queue_wait(q, slot->taken));
    readback->run = exec->history.n;
    readback->phase_events = NULL;
    readback->n_watched = 0;
    readback->judged = true;
    return swi_queue_fault(q, send(q, slot, k, args, readback));
}

unsigned char *swi_queue_input(const swi_queue *q, int i)
{
    return swi_queue_inputs(q) + q->input_at[i];
}
