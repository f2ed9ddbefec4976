/* Streams: queues of work, and when it runs. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

static cudaStream_t streams; /* without the default one */
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

void swi_work_free(swi_work *work)
{
    if (--work->refs > 0)
        return;
    if (work->mark != NULL)
        swi_mark_free(work->mark);
    if (work->event != NULL)
        swi_event_free(work->event);
    if (work->graph != NULL)
        swi_graph_free(work->graph);
    free(work);
}

swi_mark *swi_mark_new(cudaStream_t stream)
{
    swi_mark *mark = swi_fake_reserve(sizeof *mark);
    mark->refs = 1;
    mark->stream = stream;
    return mark;
}

void swi_mark_free(swi_mark *mark)
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
        swi_mark *mark = swi_mark_new(NULL);
        reach(mark);
        swi_event_mark(work->event, mark);
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
    swi_mark_free(mark);
    return cudaSuccess;
}

void swi_stream_drain(void)
{
    run_until(NULL, NULL);
}

/* A little, here and there. */
void swi_stream_progress(cudaStream_t want)
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

/* After all that waits for the default stream, and these after it. */
static void run_default(void)
{
    swi_fake_open_memory();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if ((s->flags & cudaStreamNonBlocking) == 0)
            run_until(NULL, s);
    while (legacy.head != NULL && swi_fake.broken == cudaSuccess)
        step(&legacy);
    swi_fake_close_memory();
    throw_away(&legacy);
}

cudaError_t swi_stream_put(cudaStream_t stream, swi_work *work)
{
    if (stream->capture != NULL)
        return swi_capture_put(stream, work);
    work->by = pthread_self();
    *stream->tail = work;
    stream->tail = &work->next;
    if (stream == &legacy) {
        run_default();
    } else if (swi_fake.seed == 0) {
        run_until(NULL, stream);
    } else if (swi_fake.seed > 1 && swi_fake_draw(8) == 0) {
        swi_stream_progress(NULL);
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
    swi_event_live(out);
}

void swi_stream_reset(void)
{
    while (streams != NULL) {
        throw_away(streams);
        stream_free(streams);
    }
    swi_event_reset();
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

static cudaStream_t create(unsigned flags)
{
    cudaStream_t s = swi_fake_reserve(sizeof *s);
    s->tail = &s->head;
    s->flags = flags;
    s->card = swi_fake_current();
    s->next = streams;
    streams = s;
    return s;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    const cudaError_t error = swi_fake_enter(SWI_FN_cudaStreamCreateWithFlags);
    if (error == cudaSuccess)
        *pStream = create(flags);
    return swi_fake_leave(error);
}

/* Work that is still in the stream runs. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaStreamDestroy);
    const cudaError_t known = swi_stream_of(&stream);
    if (known == cudaSuccess && stream != &legacy) {
        stream->gone = true;
        end_of_streams();
    }
    return swi_fake_leave(error != cudaSuccess ? error : known);
}

/* The error of work that failed comes from the call that waited for it. */
static cudaError_t wait_for(const swi_mark *mark, cudaStream_t stream)
{
    swi_fake.counts.syncs++;
    run_until(mark, stream);
    return swi_fake.broken;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaStreamSynchronize);
    if (error == cudaSuccess)
        error = swi_stream_of(&stream);
    if (error == cudaSuccess && stream->capture != NULL)
        error = swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = wait_for(NULL, stream);
    return swi_fake_leave(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaDeviceSynchronize);
    if (error == cudaSuccess && swi_fake.capturing > 0)
        error = swi_capture_fails(NULL, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = wait_for(NULL, NULL);
    return swi_fake_leave(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaStreamQuery);
    if (error == cudaSuccess)
        error = swi_stream_of(&stream);
    if (error == cudaSuccess && stream->capture != NULL)
        error = swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess) {
        swi_fake.counts.queries++;
        swi_stream_progress(stream);
        error = swi_fake.broken != cudaSuccess ? swi_fake.broken
                : stream->head != NULL         ? cudaErrorNotReady
                                               : cudaSuccess;
    }
    return swi_fake_leave(error);
}

/* ---- for events and copies --------------------------------------------------------------- */

cudaError_t swi_stream_wait(const swi_mark *mark)
{
    return mark == NULL || mark->done ? swi_fake.broken : wait_for(mark, NULL);
}

cudaError_t swi_stream_empty(cudaStream_t stream)
{
    run_until(NULL, stream);
    return swi_fake.broken;
}
