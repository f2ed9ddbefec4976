/* The module's functions as its table offers them, and what they say of CUDA's errors. */
#include "runtime/device/cuda/host.h"
#include <stdarg.h>
#include <stdio.h>

static const sw_cuda_api functions = {
    .open = swi_cuda_open,
    .close = swi_cuda_close,
    .info = swi_cuda_info,
    .use = swi_cuda_use,
    .sync = swi_cuda_sync,
    .reserve = swi_cuda_reserve,
    .map = swi_cuda_map,
    .release = swi_cuda_release,
    .alloc = swi_cuda_alloc,
    .free = swi_cuda_free,
    .host_alloc = swi_cuda_host_alloc,
    .host_free = swi_cuda_host_free,
    .queue_create = swi_cuda_queue_create,
    .queue_destroy = swi_cuda_queue_destroy,
    .queue_sync = swi_cuda_queue_sync,
    .copy = swi_cuda_copy,
    .fill = swi_cuda_fill,
    .event_create = swi_cuda_event_create,
    .event_destroy = swi_cuda_event_destroy,
    .record = swi_cuda_record,
    .after = swi_cuda_after,
    .done = swi_cuda_done,
    .wait = swi_cuda_wait,
    .between = swi_cuda_between,
    .capture_begin = swi_cuda_capture_begin,
    .capture_end = swi_cuda_capture_end,
    .graph_launch = swi_cuda_graph_launch,
    .graph_nodes = swi_cuda_graph_nodes,
    .graph_destroy = swi_cuda_graph_destroy,
};

const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host)
{
    return sw_cuda_module_make(host, &functions);
}

static sw_status fail(cudaError_t error, const char *function, const char *format, va_list list)
{
    char asked[200];
    vsnprintf(asked, sizeof asked, format, list);
    (void)cudaGetLastError();
    const char *open = *asked != '\0' ? " (" : "", *close = *asked != '\0' ? ")" : "";
    SWI_CUDA_REFUSE(error == cudaErrorMemoryAllocation ? SW_NOMEM : SW_DEVICE,
                    "%s%s%s%s: %s (%s, %d)", function, open, asked, close,
                    cudaGetErrorString(error), cudaGetErrorName(error), (int)error);
}

sw_status swi_cuda_fail(cudaError_t error, const char *function, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const sw_status status = fail(error, function, format, list);
    va_end(list);
    return status;
}

sw_status swi_cuda_fail_driver(CUresult error, const char *function, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const sw_status status = fail((cudaError_t)error, function, format, list);
    va_end(list);
    return status;
}
