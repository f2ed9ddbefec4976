/* Events: where a queue has got to, and when. Under capture they become nodes that record, or
 * wait for, the event itself at each replay, not edges inside the graph. */
#include "runtime/device/cuda/host.h"

struct sw_cuda_event {
    cudaEvent_t event;
    int ordinal;
};

sw_status swi_cuda_event_create(sw_cuda_device *device, sw_cuda_event **out, bool clock)
{
    void *block;
    SW_TRY(swi_cuda_use(device));
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_event)));
    sw_cuda_event *event = block;
    event->ordinal = device->ordinal;
    const cudaError_t error =
        cudaEventCreateWithFlags(&event->event, clock ? 0 : cudaEventDisableTiming);
    if (error != cudaSuccess) {
        sw_cuda_its_host.free(block, sizeof *event);
        return swi_cuda_fail(error, "cudaEventCreateWithFlags", "cuda:%d", device->ordinal);
    }
    *out = event;
    return SW_OK;
}

void swi_cuda_event_destroy(sw_cuda_event *event)
{
    if (event == NULL)
        return;
    (void)cudaEventDestroy(event->event);
    (void)cudaGetLastError();
    sw_cuda_its_host.free(event, sizeof *event);
}

sw_status swi_cuda_record(sw_cuda_event *event, const sw_cuda_queue *queue)
{
    bool capturing;
    SW_TRY(swi_cuda_is_capturing(queue, &capturing));
    const cudaError_t error = cudaEventRecordWithFlags(
        event->event, (cudaStream_t)queue->stream, capturing ? cudaEventRecordExternal : 0);
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaEventRecordWithFlags", "cuda:%d", event->ordinal);
}

sw_status swi_cuda_after(const sw_cuda_queue *queue, sw_cuda_event *event)
{
    bool capturing;
    SW_TRY(swi_cuda_is_capturing(queue, &capturing));
    const cudaError_t error = cudaStreamWaitEvent((cudaStream_t)queue->stream, event->event,
                                                  capturing ? cudaEventWaitExternal : 0);
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaStreamWaitEvent", "cuda:%d", event->ordinal);
}

sw_status swi_cuda_done(sw_cuda_event *event, bool *done)
{
    const cudaError_t error = cudaEventQuery(event->event);
    if (error != cudaSuccess && error != cudaErrorNotReady)
        return swi_cuda_fail(error, "cudaEventQuery", "cuda:%d", event->ordinal);
    if (error != cudaSuccess)
        (void)cudaGetLastError(); /* "not ready" would be found after the next launch */
    *done = error == cudaSuccess;
    return SW_OK;
}

sw_status swi_cuda_wait(sw_cuda_event *event)
{
    const cudaError_t error = cudaEventSynchronize(event->event);
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaEventSynchronize", "cuda:%d", event->ordinal);
}

sw_status swi_cuda_between(sw_cuda_event *from, sw_cuda_event *to, uint64_t *ns)
{
    float ms;
    const cudaError_t error = cudaEventElapsedTime(&ms, from->event, to->event);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaEventElapsedTime", "cuda:%d", from->ordinal);
    *ns = ms > 0.0f ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    return SW_OK;
}
