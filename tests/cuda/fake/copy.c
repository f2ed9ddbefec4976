/* Copies and fills. A copy with pinned memory is work of its stream; one with other host memory
 * waits for the stream, as in CUDA. */
#include "internal.h"
#include <string.h>

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

static void count(enum cudaMemcpyKind kind)
{
    swi_fake.counts.to_device += kind == cudaMemcpyHostToDevice;
    swi_fake.counts.to_host += kind == cudaMemcpyDeviceToHost;
    swi_fake.counts.on_device += kind == cudaMemcpyDeviceToDevice;
}

static cudaError_t put(cudaStream_t stream, const move *m, enum cudaMemcpyKind kind)
{
    cudaError_t error = swi_stream_of(&stream);
    if (error != cudaSuccess || m->bytes == 0)
        return error;
    error = check(m, kind);
    if (error != cudaSuccess)
        return error;
    count(kind);
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
    return swi_stream_empty(stream);
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

static cudaError_t fill(void *at, int value, size_t bytes, cudaStream_t stream)
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
    swi_fake.counts.fills++;
    return swi_stream_put(stream, work);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count_, cudaStream_t stream)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaMemsetAsync);
    if (error == cudaSuccess)
        error = fill(devPtr, value, count_, stream);
    return swi_fake_leave(error);
}
