/* Queues: a stream, what kernels need besides, copies and fills on it. */
#include "runtime/device/cuda/host.h"

static cudaStream_t stream_of(const sw_cuda_queue *queue)
{
    return (cudaStream_t)queue->stream;
}

static void end_libraries(sw_cuda_queue *queue)
{
    (void)queue;
#ifdef SW_CUDA_BLAS
    sw_cuda_blas_destroy(queue->blas);
#endif
}

static sw_status make_libraries(sw_cuda_queue *queue)
{
    sw_status status = SW_OK;
    (void)queue;
#ifdef SW_CUDA_BLAS
    status = sw_cuda_blas_create(&queue->blas);
#endif
    if (status != SW_OK)
        end_libraries(queue);
    return status;
}

sw_status swi_cuda_queue_create(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                                uint32_t flags)
{
    cudaStream_t stream;
    SW_TRY(swi_cuda_use(device));
    /* Work of the program on the default stream is no reason to wait. */
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaStreamCreateWithFlags", "cuda:%d", device->ordinal);
    sw_cuda_queue queue = {.stream = stream, .flags = flags, .device = device};
    const sw_status status = compute ? make_libraries(&queue) : SW_OK;
    if (status != SW_OK) {
        (void)cudaStreamDestroy(stream);
        return status;
    }
    *out = queue;
    return SW_OK;
}

void swi_cuda_queue_destroy(sw_cuda_device *device, sw_cuda_queue *queue)
{
    if (queue->stream == NULL)
        return;
    swi_cuda_use_quietly(device);
    end_libraries(queue);
    (void)cudaStreamDestroy(stream_of(queue));
    (void)cudaGetLastError();
    *queue = (sw_cuda_queue){0};
}

sw_status swi_cuda_queue_sync(sw_cuda_device *device, const sw_cuda_queue *queue)
{
    SW_TRY(swi_cuda_use(device));
    const cudaError_t error = cudaStreamSynchronize(stream_of(queue));
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaStreamSynchronize", "cuda:%d", device->ordinal);
}

sw_status swi_cuda_copy(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                        sw_cuda_way way)
{
    static const enum cudaMemcpyKind kinds[] = {[SW_CUDA_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [SW_CUDA_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [SW_CUDA_ON_DEVICE] = cudaMemcpyDeviceToDevice};
    static const char *const ways[] = {"to the device", "to the host", "on the device"};
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kinds[way], stream_of(queue));
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaMemcpyAsync", "%zu bytes %s", bytes, ways[way]);
}

sw_status swi_cuda_fill(const sw_cuda_queue *queue, void *to, int byte, size_t bytes)
{
    const cudaError_t error = cudaMemsetAsync(to, byte, bytes, stream_of(queue));
    return error == cudaSuccess ? SW_OK
                                : swi_cuda_fail(error, "cudaMemsetAsync", "%zu bytes", bytes);
}

sw_status swi_cuda_is_capturing(const sw_cuda_queue *queue, bool *out)
{
    enum cudaStreamCaptureStatus status;
    const cudaError_t error = cudaStreamIsCapturing(stream_of(queue), &status);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaStreamIsCapturing", "%s", "");
    *out = status != cudaStreamCaptureStatusNone;
    return SW_OK;
}
