/* Streams: queues of work, and when it runs. Events: marks in them. Copies and fills: a copy
 * with pinned memory is work of its stream; one with other host memory waits for the stream, as
 * in CUDA. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

static cudaStream_t streams; /* without the default one */
static cudaEvent_t events;
static struct CUstream_st legacy = {.tail = &legacy.head};
static int steps; /* pieces of work that run now, one inside of another */

/* ---- work and marks ---------------------------------------------------------------------- */

swi_work *swi_work_new(swi_work_kind kind, size_t body_bytes)
{
    const size_t head = (sizeof(swi_work) + 15) / 16 * 16;
    swi_work *work = swi_fake_reserve(head + body_bytes);
    work->kind = kind;
    work->refs = 1;
    work->cost_ns = 1000;
    work->body = (unsigned char *)work + head;
    return work;
}

static void mark_free(swi_mark *mark);
static void event_free(cudaEvent_t event);

void swi_work_free(swi_work *work)
{
    if (--work->refs > 0)
        return;
    if (work->mark != NULL)
        mark_free(work->mark);
    if (work->event != NULL)
        event_free(work->event);
    if (work->graph != NULL)
        swi_graph_free(work->graph);
    free(work);
}

static swi_mark *mark_new(cudaStream_t stream)
{
    swi_mark *mark = swi_fake_reserve(sizeof *mark);
    mark->refs = 1;
    mark->stream = stream;
    return mark;
}

static void mark_free(swi_mark *mark)
{
    if (--mark->refs == 0)
        free(mark);
}

static void reach(swi_mark *mark)
{
    mark->done = true;
    mark->time_ns = swi_fake.clock_ns;
    mark->stream = NULL;
}

/* ---- events as they are kept ------------------------------------------------------------- */

static void event_free(cudaEvent_t event)
{
    if (--event->refs > 0)
        return;
    cudaEvent_t *at = &events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    if (event->mark != NULL)
        mark_free(event->mark);
    free(event->last.at);
    free(event);
}

static void event_mark(cudaEvent_t event, swi_mark *mark)
{
    if (event->mark != NULL)
        mark_free(event->mark);
    event->mark = mark;
}

void swi_event_forget(const swi_capture *capture)
{
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        if (e->where == capture)
            e->where = NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static bool blocked(const struct CUstream_st *s)
{
    return s->busy || s->head == NULL ||
           (s->head->kind == SWI_WAIT && s->head->mark != NULL && !s->head->mark->done);
}

static cudaStream_t any_stream(void)
{
    size_t n = 0;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        n += !blocked(s);
    size_t k = n > 0 && swi_fake.seed > 1 ? swi_fake_draw(n) : 0;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (!blocked(s) && k-- == 0)
            return s;
    return NULL;
}

/* The stream that must run next so that `want` goes on; NULL: none helps. */
static cudaStream_t who_helps(cudaStream_t want)
{
    if (want == NULL || (swi_fake.seed > 1 && swi_fake_draw(2) == 0))
        return any_stream();
    for (int hops = 0; hops < 64 && blocked(want); hops++) {
        if (want->busy || want->head == NULL || want->head->mark->stream == NULL)
            return any_stream();
        want = want->head->mark->stream;
    }
    return blocked(want) ? NULL : want;
}

/* Waits for an event as it is when it gets there. */
static cudaError_t wait_now(cudaEvent_t event);

cudaError_t swi_work_run(swi_work *work)
{
    cudaError_t error = cudaSuccess;
    swi_fake.clock_ns += work->cost_ns;
    swi_fake.counts.kernels_run += work->kind == SWI_KERNEL;
    swi_fake.counts.matmuls_run += work->kind == SWI_MATMUL;
    if (work->kind == SWI_GRAPH) {
        error = swi_graph_run(work->graph);
    } else if (work->event != NULL) {
        if (work->kind == SWI_WAIT)
            return wait_now(work->event);
        swi_mark *mark = mark_new(NULL);
        reach(mark);
        event_mark(work->event, mark);
    } else if (work->kind == SWI_RECORD) {
        reach(work->mark);
    } else if (work->run != NULL) {
        error = work->run(work);
        if (error == cudaSuccess)
            error = swi_fake_work_fault();
    }
    return error;
}

/* The first of the stream runs; all that is left goes where the card breaks. */
static void step(cudaStream_t s)
{
    swi_work *work = s->head;
    s->busy = true;
    steps++;
    const cudaError_t error = swi_work_run(work);
    steps--;
    s->busy = false;
    s->head = work->next;
    if (s->head == NULL)
        s->tail = &s->head;
    swi_work_free(work);
    if (error != cudaSuccess)
        swi_fake_break(error);
}

static void throw_away(cudaStream_t s)
{
    while (s->head != NULL) {
        swi_work *work = s->head;
        s->head = work->next;
        if (work->mark != NULL)
            reach(work->mark);
        swi_work_free(work);
    }
    s->tail = &s->head;
}

static void stream_free(cudaStream_t s)
{
    cudaStream_t *at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s->last.at);
    free(s);
}

static void end_of_streams(void)
{
    cudaStream_t next;
    for (cudaStream_t s = streams; s != NULL && steps == 0; s = next) {
        next = s->next;
        if (swi_fake.broken != cudaSuccess)
            throw_away(s);
        if (s->gone && s->head == NULL)
            stream_free(s);
    }
}

/* Until the mark is reached, or the stream is empty, or (both NULL) all streams are. */
static void run_until(const swi_mark *mark, cudaStream_t stream)
{
    bool open = false; /* from the first work that may touch memory to the last */
    while (swi_fake.broken == cudaSuccess) {
        if (mark != NULL ? mark->done : stream != NULL && stream->head == NULL)
            break;
        cudaStream_t want = mark != NULL ? mark->stream : stream;
        cudaStream_t s = who_helps(want);
        if (s == NULL && (mark != NULL || stream != NULL || swi_stream_pending(NULL, 0))) {
            if (any_stream() == NULL) {
                swi_fake_violation("streams wait for each other, or for what no one records");
                swi_fake_break(cudaErrorLaunchTimeout);
            }
            continue;
        }
        if (s == NULL)
            break;
        const bool touches = s->head->kind != SWI_RECORD && s->head->kind != SWI_WAIT;
        if (touches && !open)
            swi_fake_open_memory();
        open = open || touches;
        step(s);
    }
    if (open)
        swi_fake_close_memory();
    end_of_streams();
}

static cudaError_t wait_now(cudaEvent_t event)
{
    swi_mark *mark = event->mark;
    if (mark == NULL || mark->done)
        return cudaSuccess;
    mark->refs++;
    run_until(mark, NULL);
    mark_free(mark);
    return cudaSuccess;
}

void swi_stream_drain(void)
{
    run_until(NULL, NULL);
}

/* A little, here and there. */
static void progress(cudaStream_t want)
{
    if (swi_fake.seed == 0)
        return;
    uint64_t n = swi_fake.seed > 1 ? swi_fake_draw(3) : 1;
    cudaStream_t s = n > 0 ? who_helps(want) : NULL;
    if (s == NULL)
        return end_of_streams();
    swi_fake_open_memory();
    for (; n > 0 && s != NULL; n--) {
        step(s);
        s = n > 1 ? who_helps(want) : NULL;
    }
    swi_fake_close_memory();
    end_of_streams();
}

bool swi_stream_pending(const void *host, size_t bytes)
{
    const unsigned char *at = host;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        for (const swi_work *w = s->head; w != NULL; w = w->next) {
            const unsigned char *its = w->host;
            if (host == NULL || (its != NULL && its < at + bytes && at < its + w->host_bytes))
                return true;
        }
    return false;
}

bool swi_stream_pending_here(void)
{
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        for (const swi_work *w = s->head; w != NULL; w = w->next)
            if (pthread_equal(w->by, pthread_self()))
                return true;
    return false;
}

cudaError_t swi_stream_put(cudaStream_t stream, swi_work *work)
{
    if (stream->capture != NULL)
        return swi_capture_put(stream, work);
    work->by = pthread_self();
    *stream->tail = work;
    stream->tail = &work->next;
    if (stream == &legacy) {
        /* After all that waits for the default stream, and these after it. */
        swi_fake_open_memory();
        for (cudaStream_t s = streams; s != NULL; s = s->next)
            if ((s->flags & cudaStreamNonBlocking) == 0)
                run_until(NULL, s);
        while (legacy.head != NULL && swi_fake.broken == cudaSuccess)
            step(&legacy);
        swi_fake_close_memory();
        throw_away(&legacy);
    } else if (swi_fake.seed == 0) {
        run_until(NULL, stream);
    } else if (swi_fake.seed > 1 && swi_fake_draw(8) == 0) {
        progress(NULL);
    }
    return cudaSuccess;
}

void swi_stream_live(sw_fake_live *out)
{
    for (cudaStream_t s = streams; s != NULL; s = s->next) {
        out->streams += !s->gone;
        for (const swi_work *w = s->head; w != NULL; w = w->next)
            out->pending++;
    }
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        out->events += !e->gone;
}

void swi_stream_reset(void)
{
    while (streams != NULL) {
        throw_away(streams);
        stream_free(streams);
    }
    while (events != NULL) {
        events->refs = 1;
        event_free(events);
    }
}

bool swi_stream_default(const struct CUstream_st *stream)
{
    return stream == &legacy;
}

void swi_stream_forget(const swi_capture *capture)
{
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (s->capture == capture)
            s->capture = NULL;
}

/* ---- calls ------------------------------------------------------------------------------- */

cudaError_t swi_stream_of(cudaStream_t *stream)
{
    if (*stream == NULL || *stream == cudaStreamLegacy) {
        swi_fake.counts.legacy++;
        *stream = &legacy;
        legacy.card = swi_fake_current();
        return swi_capture_blocks_default() ? cudaErrorStreamCaptureImplicit : cudaSuccess;
    }
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (s == *stream && !s->gone)
            return cudaSuccess;
    swi_fake_violation("a stream that is not there");
    return cudaErrorInvalidResourceHandle;
}

SWI_FUNCTION(cudaError_t, cudaStreamCreateWithFlags,
             (cudaStream_t * pStream, unsigned int flags), (pStream, flags))
{
    cudaStream_t s = swi_fake_reserve(sizeof *s);
    s->tail = &s->head;
    s->flags = flags;
    s->card = swi_fake_current();
    s->next = streams;
    streams = s;
    *pStream = s;
    return cudaSuccess;
}

/* Work that is still in the stream runs. */
SWI_END_FUNCTION(cudaStreamDestroy, (cudaStream_t stream), (stream))
{
    SWI_TRY(swi_stream_of(&stream));
    if (stream != &legacy) {
        stream->gone = true;
        end_of_streams();
    }
    return cudaSuccess;
}

/* The error of work that failed comes from the call that waited for it. */
static cudaError_t wait_for(const swi_mark *mark, cudaStream_t stream)
{
    swi_fake.counts.syncs++;
    run_until(mark, stream);
    return swi_fake.broken;
}

SWI_FUNCTION(cudaError_t, cudaStreamSynchronize, (cudaStream_t stream), (stream))
{
    SWI_TRY(swi_stream_of(&stream));
    if (stream->capture != NULL)
        return swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported);
    return wait_for(NULL, stream);
}

SWI_FUNCTION(cudaError_t, cudaDeviceSynchronize, (void), ())
{
    if (swi_fake.capturing > 0)
        return swi_capture_fails(NULL, cudaErrorStreamCaptureUnsupported);
    return wait_for(NULL, NULL);
}

SWI_FUNCTION(cudaError_t, cudaStreamQuery, (cudaStream_t stream), (stream))
{
    SWI_TRY(swi_stream_of(&stream));
    if (stream->capture != NULL)
        return swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported);
    swi_fake.counts.queries++;
    progress(stream);
    return swi_fake.broken != cudaSuccess ? swi_fake.broken
           : stream->head != NULL         ? cudaErrorNotReady
                                          : cudaSuccess;
}

/* ---- events ------------------------------------------------------------------------------ */

static cudaError_t known(cudaEvent_t event)
{
    for (cudaEvent_t e = events; e != NULL; e = e->next)
        if (e == event && !e->gone)
            return cudaSuccess;
    swi_fake_violation("an event that is not there");
    return cudaErrorInvalidResourceHandle;
}

SWI_FUNCTION(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
             (event, flags))
{
    cudaEvent_t e = swi_fake_reserve(sizeof *e);
    e->flags = flags;
    e->refs = 1;
    e->next = events;
    events = e;
    *event = e;
    return cudaSuccess;
}

SWI_END_FUNCTION(cudaEventDestroy, (cudaEvent_t event), (event))
{
    SWI_TRY(known(event));
    event->gone = true;
    event_free(event);
    return cudaSuccess;
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
    SWI_TRY(known(event));
    SWI_TRY(swi_stream_of(&stream));
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
    work->mark = mark_new(stream);
    work->mark->refs++;
    event_mark(event, work->mark);
    return swi_stream_put(stream, work);
}

SWI_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), record(event, stream, 0))

SWI_CALL(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
         record(event, stream, flags))

SWI_FUNCTION(cudaError_t, cudaStreamWaitEvent,
             (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
             (stream, event, flags))
{
    SWI_TRY(known(event));
    SWI_TRY(swi_stream_of(&stream));
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
            progress(event->mark->stream);
        error = swi_fake.broken;
        if (error == cudaSuccess && event->mark != NULL && !event->mark->done)
            error = cudaErrorNotReady;
    }
    return swi_fake_leave(error);
}

SWI_FUNCTION(cudaError_t, cudaEventSynchronize, (cudaEvent_t event), (event))
{
    SWI_TRY(outside(event));
    return event->mark == NULL || event->mark->done ? swi_fake.broken
                                                    : wait_for(event->mark, NULL);
}

SWI_FUNCTION(cudaError_t, cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
             (ms, start, end))
{
    SWI_TRY(outside(start));
    SWI_TRY(outside(end));
    if (((start->flags | end->flags) & cudaEventDisableTiming) != 0 || start->mark == NULL ||
        end->mark == NULL)
        return cudaErrorInvalidResourceHandle;
    if (!start->mark->done || !end->mark->done)
        return cudaErrorNotReady;
    *ms = (float)(((double)end->mark->time_ns - (double)start->mark->time_ns) / 1e6);
    return cudaSuccess;
}

/* ---- copies and fills -------------------------------------------------------------------- */

typedef struct {
    void *to;
    const void *from;
    size_t bytes;
    int byte;
} move;

static cudaError_t run_copy(swi_work *work)
{
    const move *m = work->body;
    memmove(m->to, m->from, m->bytes);
    return cudaSuccess;
}

static cudaError_t run_fill(swi_work *work)
{
    const move *m = work->body;
    memset(m->to, m->byte, m->bytes);
    return cudaSuccess;
}

static cudaError_t good_device(const void *at, size_t bytes)
{
    if (swi_fake_there(at, bytes))
        return cudaSuccess;
    if (swi_fake_in_window(at))
        swi_fake_violation("a copy or fill of %zu bytes outside of the memory of the card",
                           bytes);
    return cudaErrorInvalidValue;
}

static cudaError_t check(const move *m, enum cudaMemcpyKind kind)
{
    if (kind < cudaMemcpyHostToDevice || kind > cudaMemcpyDeviceToDevice)
        return cudaErrorInvalidMemcpyDirection; /* the others: of no use here */
    if ((kind == cudaMemcpyHostToDevice && swi_fake_in_window(m->from)) ||
        (kind == cudaMemcpyDeviceToHost && swi_fake_in_window(m->to)))
        return cudaErrorInvalidMemcpyDirection;
    cudaError_t error = cudaSuccess;
    if (kind != cudaMemcpyDeviceToHost)
        error = good_device(m->to, m->bytes);
    if (error == cudaSuccess && kind != cudaMemcpyHostToDevice)
        error = good_device(m->from, m->bytes);
    return error;
}

static cudaError_t put(cudaStream_t stream, const move *m, enum cudaMemcpyKind kind)
{
    cudaError_t error = swi_stream_of(&stream);
    if (error != cudaSuccess || m->bytes == 0)
        return error;
    error = check(m, kind);
    if (error != cudaSuccess)
        return error;
    swi_fake.counts.to_device += kind == cudaMemcpyHostToDevice;
    swi_fake.counts.to_host += kind == cudaMemcpyDeviceToHost;
    swi_fake.counts.on_device += kind == cudaMemcpyDeviceToDevice;
    void *host = kind == cudaMemcpyDeviceToHost ? m->to : (void *)(uintptr_t)m->from;
    const bool pageable = kind != cudaMemcpyDeviceToDevice && !swi_fake_pinned(host, m->bytes);
    swi_fake.counts.pageable += pageable;
    if (pageable && stream->capture != NULL)
        return swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported);
    /* Until it has run, what it writes is anything. */
    if (kind == cudaMemcpyDeviceToHost && !pageable && swi_fake.seed != 0 &&
        stream->capture == NULL && !swi_stream_pending(host, m->bytes))
        memset(host, 0xff, m->bytes);
    swi_work *work = swi_work_new(SWI_COPY, sizeof *m);
    memcpy(work->body, m, sizeof *m);
    work->run = run_copy;
    work->cost_ns = 500 + m->bytes / 32;
    if (kind != cudaMemcpyDeviceToDevice) {
        work->host = host;
        work->host_bytes = m->bytes;
    }
    error = swi_stream_put(stream, work);
    if (error != cudaSuccess || !pageable)
        return error;
    swi_fake.counts.syncs++;
    run_until(NULL, stream);
    return swi_fake.broken;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count_, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const move m = {dst, src, count_, 0};
    cudaError_t error = swi_fake_enter(SWI_FN_cudaMemcpyAsync);
    if (error == cudaSuccess)
        error = put(stream, &m, kind);
    return swi_fake_leave(error);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count_, enum cudaMemcpyKind kind)
{
    const move m = {dst, src, count_, 0};
    cudaError_t error = swi_fake_enter(SWI_FN_cudaMemcpy);
    if (error == cudaSuccess) {
        swi_fake.counts.syncs++;
        error = put(cudaStreamLegacy, &m, kind);
    }
    if (error == cudaSuccess)
        error = swi_fake.broken;
    return swi_fake_leave(error);
}

SWI_FUNCTION(cudaError_t, cudaMemsetAsync,
             (void *at, int value, size_t bytes, cudaStream_t stream),
             (at, value, bytes, stream))
{
    cudaError_t error = swi_stream_of(&stream);
    if (error == cudaSuccess && bytes > 0)
        error = good_device(at, bytes);
    if (error != cudaSuccess || bytes == 0)
        return error;
    const move m = {at, NULL, bytes, value};
    swi_work *work = swi_work_new(SWI_FILL, sizeof m);
    memcpy(work->body, &m, sizeof m);
    work->run = run_fill;
    work->cost_ns = 500 + bytes / 64;
    return swi_stream_put(stream, work);
}
