/* Events. */
#include "internal.h"
#include <stdlib.h>

static cudaEvent_t events;

void swi_event_free(cudaEvent_t event)
{
    if (--event->refs > 0)
        return;
    cudaEvent_t *at = &events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    if (event->mark != NULL)
        swi_mark_free(event->mark);
    free(event->last.at);
    free(event);
}

void swi_event_mark(cudaEvent_t event, swi_mark *mark)
{
    if (event->mark != NULL)
        swi_mark_free(event->mark);
    event->mark = mark;
}

void swi_event_live(sw_fake_live *out)
{
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        out->events += !e->gone;
}

void swi_event_reset(void)
{
    while (events != NULL) {
        events->refs = 1;
        swi_event_free(events);
    }
}

void swi_event_forget(const swi_capture *capture)
{
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        if (e->where == capture)
            e->where = NULL;
}

static cudaError_t known(cudaEvent_t event)
{
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        if (e == event && !e->gone)
            return cudaSuccess;
    swi_fake_violation("an event that is not there");
    return cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudaEventCreateWithFlags);
    if (error == cudaSuccess) {
        cudaEvent_t e = swi_fake_reserve(sizeof *e);
        e->flags = flags;
        e->refs = 1;
        e->next = events;
        events = e;
        *event = e;
    }
    return swi_fake_leave(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudaEventDestroy);
    const cudaError_t there = known(event);
    if (there == cudaSuccess) {
        event->gone = true;
        swi_event_free(event);
    }
    return swi_fake_leave(error != cudaSuccess ? error : there);
}

/* A node of a graph that records or waits for the event as it is when the graph runs. */
static cudaError_t put_external(cudaStream_t stream, swi_work_kind kind, cudaEvent_t event)
{
    swi_work *work = swi_work_new(kind, 0);
    work->event = event;
    event->refs++;
    return swi_capture_put(stream, work);
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    cudaError_t error = known(event);
    if (error == cudaSuccess)
        error = swi_stream_of(&stream);
    if (error != cudaSuccess)
        return error;
    swi_fake.counts.records++;
    if (stream->capture != NULL && (flags & cudaEventRecordExternal) != 0)
        return put_external(stream, SWI_RECORD, event);
    if (stream->capture != NULL) {
        swi_capture_record(stream, event);
        return cudaSuccess;
    }
    event->captured = false;
    event->where = NULL;
    swi_work *work = swi_work_new(SWI_RECORD, 0);
    work->cost_ns = 0;
    work->mark = swi_mark_new(stream);
    work->mark->refs++;
    swi_event_mark(event, work->mark);
    return swi_stream_put(stream, work);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaEventRecord);
    if (error == cudaSuccess)
        error = record(event, stream, 0);
    return swi_fake_leave(error);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaEventRecordWithFlags);
    if (error == cudaSuccess)
        error = record(event, stream, flags);
    return swi_fake_leave(error);
}

static cudaError_t wait_event(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = known(event);
    if (error == cudaSuccess)
        error = swi_stream_of(&stream);
    if (error != cudaSuccess)
        return error;
    swi_fake.counts.waits++;
    if (stream->capture != NULL && (flags & cudaEventWaitExternal) != 0)
        return put_external(stream, SWI_WAIT, event);
    if (stream->capture != NULL || event->where != NULL)
        return swi_capture_wait(stream, event);
    if (event->captured)
        return cudaErrorCapturedEvent;
    if (event->mark == NULL || event->mark->done)
        return cudaSuccess;
    swi_work *work = swi_work_new(SWI_WAIT, 0);
    work->cost_ns = 0;
    work->mark = event->mark;
    work->mark->refs++;
    return swi_stream_put(stream, work);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaStreamWaitEvent);
    if (error == cudaSuccess)
        error = wait_event(stream, event, flags);
    return swi_fake_leave(error);
}

/* An event that the host may look at. */
static cudaError_t outside(cudaEvent_t event)
{
    const cudaError_t error = known(event);
    if (error != cudaSuccess || !event->captured)
        return error;
    return event->where != NULL ? swi_capture_ends(event->where, cudaErrorCapturedEvent)
                                : cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaEventQuery);
    if (error == cudaSuccess)
        error = outside(event);
    if (error == cudaSuccess) {
        swi_fake.counts.queries++;
        if (event->mark != NULL && !event->mark->done)
            swi_stream_progress(event->mark->stream);
        error = swi_fake.broken;
        if (error == cudaSuccess && event->mark != NULL && !event->mark->done)
            error = cudaErrorNotReady;
    }
    return swi_fake_leave(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaEventSynchronize);
    if (error == cudaSuccess)
        error = outside(event);
    if (error == cudaSuccess)
        error = swi_stream_wait(event->mark);
    return swi_fake_leave(error);
}

static cudaError_t between(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = outside(start);
    if (error == cudaSuccess)
        error = outside(end);
    if (error != cudaSuccess)
        return error;
    if (((start->flags | end->flags) & cudaEventDisableTiming) != 0 || start->mark == NULL ||
        end->mark == NULL)
        return cudaErrorInvalidResourceHandle;
    if (!start->mark->done || !end->mark->done)
        return cudaErrorNotReady;
    *ms = (float)(((double)end->mark->time_ns - (double)start->mark->time_ns) / 1e6);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaEventElapsedTime);
    if (error == cudaSuccess)
        error = between(ms, start, end);
    return swi_fake_leave(error);
}
