/* The module's half on the host, in C: cards, memory, queues, events and graphs as its table
 * offers them (kernels/cuda/api.h). It calls CUDA and says what failed; it keeps no policy.
 *
 * The CUDA runtime is linked in; the driver is asked for by name, so that the module can be
 * opened where there is none. */
#include "alloc/base/mem.h"
#include "runtime/device/cuda/host.h"
#include <cuda.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions of the driver, as of which version. Those of CUDA 12.4 load kernels; a driver may
 * lack them. */
#define DRIVER(X)                                                                              \
    X(cuDeviceGet, 12000)                                                                      \
    X(cuDeviceGetName, 12000)                                                                  \
    X(cuDeviceGetAttribute, 12000)                                                             \
    X(cuMemGetAllocationGranularity, 12000)                                                    \
    X(cuMemAddressReserve, 12000)                                                              \
    X(cuMemAddressFree, 12000)                                                                 \
    X(cuMemCreate, 12000)                                                                      \
    X(cuMemRelease, 12000)                                                                     \
    X(cuMemMap, 12000)                                                                         \
    X(cuMemUnmap, 12000)                                                                       \
    X(cuMemSetAccess, 12000)
#if defined(SW_CUDA_UNITS) && CUDA_VERSION >= 12040
#define LOADER(X)                                                                              \
    X(cuFuncGetModule, 12000)                                                                  \
    X(cuModuleGetFunctionCount, 12040)                                                         \
    X(cuModuleEnumerateFunctions, 12040)                                                       \
    X(cuFuncLoad, 12040)
#else
#define LOADER(X)
#endif

typedef struct {
#define POINTER(name, version) __typeof__(name) *name;
    DRIVER(POINTER)
    LOADER(POINTER)
#undef POINTER
} driver_table;

/* A reserved range; memory lies in [0, mapped) of it. */
typedef struct reserved {
    struct reserved *next;
    void *base;
    size_t bytes, mapped;
} reserved;

struct sw_cuda_device {
    int ordinal;
    CUdevice handle;
    sw_cuda_info info; /* free_bytes: when it was opened */
    driver_table driver;
    pthread_mutex_t ranges_lock;
    reserved *ranges;
    /* Held from the begin of a capture to its end, and while the card is waited for: a card
     * with a stream under capture must not be. Knows its thread. */
    pthread_mutex_t capture_lock;
};

#define REFUSE(status, ...)                                                                    \
    return sw_cuda_its_host.fail((status), __FILE__, __LINE__, __VA_ARGS__)

/* The status of a call that failed: SW_NOMEM for memory, SW_DEVICE for all else. The message is
 * the function, what it was asked for, and the error, whose number is the same in the runtime
 * and the driver. Takes the error back, so that it is not found again after the next launch. */
SW_PRINTF(3, 4)
static sw_status fail(int number, const char *function, const char *format, ...)
{
    const cudaError_t error = (cudaError_t)number;
    char asked[200];
    va_list list;
    va_start(list, format);
    vsnprintf(asked, sizeof asked, format, list);
    va_end(list);
    (void)cudaGetLastError();
    const char *open = *asked != '\0' ? " (" : "", *close = *asked != '\0' ? ")" : "";
    REFUSE(error == cudaErrorMemoryAllocation ? SW_NOMEM : SW_DEVICE, "%s%s%s%s: %s (%s, %d)",
           function, open, asked, close, cudaGetErrorString(error), cudaGetErrorName(error),
           number);
}

/* Call it; where it fails the caller returns the status. */
#define CALL_AS(name, call, ...)                                                               \
    do {                                                                                       \
        const int error_of_call = (int)(call);                                                 \
        if (error_of_call != 0)                                                                \
            return fail(error_of_call, name, __VA_ARGS__);                                     \
    } while (0)
#define CALL(function, arguments, ...) CALL_AS(#function, function arguments, __VA_ARGS__)

/* ---- the driver and its kernels ---------------------------------------------------------- */

#if CUDART_VERSION >= 12050
#define FINDER "cudaGetDriverEntryPointByVersion"
#else
#define FINDER "cudaGetDriverEntryPoint"
#endif

static cudaError_t find(const char *name, unsigned version, void **out)
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    *out = NULL;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, out, version, cudaEnableDefault, &result);
#else
    (void)version; /* that of the runtime, which is what its headers declare */
    const cudaError_t error = cudaGetDriverEntryPoint(name, out, cudaEnableDefault, &result);
#endif
    if (result != cudaDriverEntryPointSuccess)
        *out = NULL;
    return error;
}

static sw_status find_driver(driver_table *out)
{
    void *found;
#define FIND(name, version)                                                                    \
    CALL_AS(FINDER, find(#name, version, &found), "%s", #name);                                \
    memcpy(&out->name, &found, sizeof found);
    DRIVER(FIND)
    LOADER(FIND)
#undef FIND
    return SW_OK;
}

/* CUDA loads a kernel at its first launch, unless the process was started with
 * CUDA_MODULE_LOADING=EAGER; that is the program's environment and not a library's to set.
 * Loading takes memory and may wait for the card. So each unit of kernels/cuda has one kernel
 * of known name (device.h) that does nothing: it leads to the unit's module, and that to all
 * others in it. */
#if defined(SW_CUDA_UNITS) && CUDA_VERSION >= 12040

/* The list of units, as SW_CUDA_UNITS(X) gives it, and the kernels that device.h makes for
 * them. */
#define DECLARE(unit) void sw_cuda_anchor_##unit(void);
SW_CUDA_UNITS(DECLARE)
#undef DECLARE

/* *loaded becomes false where the driver does not bring them: they come when launched. */
static sw_status load_module(const driver_table *d, CUmodule module, bool *loaded)
{
    unsigned n = 0;
    void *block;
    CUresult error = d->cuModuleGetFunctionCount(&n, module);
    if (error == CUDA_SUCCESS && n > 0) {
        SW_TRY(sw_cuda_its_host.alloc(&block, n * sizeof(CUfunction)));
        CUfunction *functions = block;
        error = d->cuModuleEnumerateFunctions(functions, n, module);
        for (unsigned i = 0; i < n && error == CUDA_SUCCESS; i++)
            error = d->cuFuncLoad(functions[i]);
        sw_cuda_its_host.free(block, n * sizeof(CUfunction));
    }
    if (error == CUDA_ERROR_OUT_OF_MEMORY)
        return fail((int)error, "cuFuncLoad", "%u kernels", n);
    *loaded = *loaded && error == CUDA_SUCCESS;
    return SW_OK;
}

/* Code that the card cannot run is found here. */
static sw_status load_unit(const driver_table *d, void (*anchor)(void), const char *unit,
                           bool *loaded)
{
    cudaFunction_t function;
    CUmodule module;
    CALL(cudaGetFuncBySymbol, (&function, (const void *)(uintptr_t)anchor), "%s", unit);
    if (*loaded && d->cuFuncGetModule(&module, function) == CUDA_SUCCESS)
        return load_module(d, module, loaded);
    *loaded = false;
    return SW_OK;
}

static sw_status load_kernels(sw_cuda_device *device)
{
    const driver_table *d = &device->driver;
    bool loaded = d->cuFuncGetModule != NULL && d->cuModuleGetFunctionCount != NULL &&
                  d->cuModuleEnumerateFunctions != NULL && d->cuFuncLoad != NULL;
#define LOAD(unit) SW_TRY(load_unit(d, sw_cuda_anchor_##unit, #unit, &loaded));
    SW_CUDA_UNITS(LOAD)
#undef LOAD
    device->info.loaded = loaded;
    return SW_OK;
}

#else

static sw_status load_kernels(sw_cuda_device *device)
{
    device->info.loaded = false;
    return SW_OK;
}

#endif

/* ---- the card of a thread ---------------------------------------------------------------- */

static sw_status card_use(sw_cuda_device *device)
{
    CALL(cudaSetDevice, (device->ordinal), "cuda:%d", device->ordinal);
    return SW_OK;
}

/* This and the next are for cleaning up: what was said of a failure before stays. */
static void use_quietly(sw_cuda_device *device)
{
    (void)cudaSetDevice(device->ordinal);
    (void)cudaGetLastError();
}

static sw_status card_sync(sw_cuda_device *device)
{
    SW_TRY(card_use(device));
    if (pthread_mutex_lock(&device->capture_lock) != 0)
        REFUSE(SW_INVALID, "cuda:%d cannot be waited for while this thread captures",
               device->ordinal);
    const cudaError_t error = cudaDeviceSynchronize();
    pthread_mutex_unlock(&device->capture_lock);
    return error == cudaSuccess
               ? SW_OK
               : fail((int)error, "cudaDeviceSynchronize", "cuda:%d", device->ordinal);
}

/* ---- ranges ------------------------------------------------------------------------------ */

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static CUmemAllocationProp memory_of(const sw_cuda_device *device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
}

/* Memory at an address that has none. The handle is let go: what is mapped keeps the memory. */
static sw_status map_at(sw_cuda_device *device, CUdeviceptr at, size_t bytes)
{
    const driver_table *d = &device->driver;
    const CUmemAllocationProp prop = memory_of(device);
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    const char *call = "cuMemCreate";
    CUresult result = d->cuMemCreate(&handle, bytes, &prop, 0);
    if (result == CUDA_SUCCESS) {
        call = "cuMemMap";
        result = d->cuMemMap(at, bytes, 0, handle, 0);
        const CUresult released = d->cuMemRelease(handle);
        if (result == CUDA_SUCCESS) {
            call = released == CUDA_SUCCESS ? "cuMemSetAccess" : "cuMemRelease";
            result =
                released == CUDA_SUCCESS ? d->cuMemSetAccess(at, bytes, &access, 1) : released;
            if (result != CUDA_SUCCESS)
                (void)d->cuMemUnmap(at, bytes);
        }
    }
    if (result == CUDA_SUCCESS)
        return SW_OK;
    size_t left = 0, total = 0;
    (void)cudaMemGetInfo(&left, &total);
    return fail((int)result, call, "%zu bytes, %zu of %zu are free", bytes, left, total);
}

/* Addresses, memory there, and all back. */
static sw_status try_mapping(sw_cuda_device *device, size_t *granularity)
{
    const driver_table *d = &device->driver;
    const CUmemAllocationProp prop = memory_of(device);
    CUdeviceptr at = 0;
    CALL_AS(
        "cuMemGetAllocationGranularity",
        d->cuMemGetAllocationGranularity(granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuda:%d", device->ordinal);
    CALL_AS("cuMemAddressReserve", d->cuMemAddressReserve(&at, *granularity, 0, 0, 0),
            "%zu bytes", *granularity);
    const sw_status status = map_at(device, at, *granularity);
    if (status == SW_OK)
        (void)d->cuMemUnmap(at, *granularity);
    (void)d->cuMemAddressFree(at, *granularity);
    (void)cudaGetLastError();
    return status;
}

/* A driver, or a sandbox around it, may say that it maps and then refuse: memory is in plain
 * blocks there. A card that broke says so in the next call. */
static sw_status find_mapping(sw_cuda_device *device)
{
    const driver_table *d = &device->driver;
    int can = 0;
    size_t granularity = 0;
    if (d->cuMemAddressReserve == NULL || d->cuMemCreate == NULL || d->cuMemMap == NULL ||
        d->cuMemSetAccess == NULL || d->cuMemUnmap == NULL || d->cuMemRelease == NULL ||
        d->cuMemAddressFree == NULL || d->cuMemGetAllocationGranularity == NULL)
        return SW_OK;
    CALL_AS("cuDeviceGetAttribute",
            d->cuDeviceGetAttribute(
                &can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device->handle),
            "cuda:%d", device->ordinal);
    if (can == 0)
        return SW_OK;
    const sw_status status = try_mapping(device, &granularity);
    device->info.can_map = status == SW_OK;
    device->info.granularity = status == SW_OK ? granularity : 0;
    return status == SW_NOMEM ? status : SW_OK;
}

static sw_status range_reserve(sw_cuda_device *device, void **base, size_t bytes)
{
    void *block;
    CUdeviceptr at = 0;
    if (!device->info.can_map || bytes == 0 || bytes % device->info.granularity != 0)
        REFUSE(SW_INVALID, "cuda:%d: a range of %zu bytes; it maps by %zu", device->ordinal,
               bytes, device->info.granularity);
    SW_TRY(card_use(device));
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(reserved)));
    const CUresult result = device->driver.cuMemAddressReserve(&at, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        sw_cuda_its_host.free(block, sizeof(reserved));
        return fail((int)result, "cuMemAddressReserve", "%zu bytes", bytes);
    }
    reserved *range = block;
    *range = (reserved){.base = (void *)(uintptr_t)at, .bytes = bytes};
    pthread_mutex_lock(&device->ranges_lock);
    range->next = device->ranges;
    device->ranges = range;
    pthread_mutex_unlock(&device->ranges_lock);
    *base = range->base;
    return SW_OK;
}

static reserved *range_at(sw_cuda_device *device, const void *base)
{
    pthread_mutex_lock(&device->ranges_lock);
    reserved *range = device->ranges;
    while (range != NULL && range->base != base)
        range = range->next;
    pthread_mutex_unlock(&device->ranges_lock);
    return range;
}

static sw_status range_map(sw_cuda_device *device, void *base, size_t from, size_t to)
{
    reserved *range = range_at(device, base);
    if (range == NULL || from != range->mapped || to <= from || to > range->bytes ||
        to % device->info.granularity != 0)
        REFUSE(SW_INVALID, "cuda:%d: memory for %zu to %zu of a range of %zu with %zu",
               device->ordinal, from, to, range != NULL ? range->bytes : 0,
               range != NULL ? range->mapped : 0);
    SW_TRY(card_use(device));
    SW_TRY(map_at(device, address(base) + from, to - from));
    range->mapped = to;
    return SW_OK;
}

static void range_release(sw_cuda_device *device, void *base, size_t bytes)
{
    use_quietly(device);
    const bool free = pthread_mutex_lock(&device->capture_lock) == 0;
    if (free) {
        (void)cudaDeviceSynchronize();
        pthread_mutex_unlock(&device->capture_lock);
    }
    (void)cudaGetLastError();
    pthread_mutex_lock(&device->ranges_lock);
    reserved **at = &device->ranges;
    while (*at != NULL && (*at)->base != base)
        at = &(*at)->next;
    reserved *range = *at;
    if (range != NULL)
        *at = range->next;
    pthread_mutex_unlock(&device->ranges_lock);
    if (range == NULL)
        return;
    if (range->mapped > 0)
        (void)device->driver.cuMemUnmap(address(base), range->mapped);
    (void)device->driver.cuMemAddressFree(address(base), bytes);
    sw_cuda_its_host.free(range, sizeof *range);
}

/* ---- blocks ------------------------------------------------------------------------------ */

static sw_status block_alloc(sw_cuda_device *device, void **out, size_t bytes)
{
    void *block;
    size_t left = 0, total = 0;
    SW_TRY(card_use(device));
    const cudaError_t error = cudaMalloc(&block, bytes);
    if (error != cudaSuccess) {
        (void)cudaMemGetInfo(&left, &total);
        return fail((int)error, "cudaMalloc", "%zu bytes, %zu of %zu are free", bytes, left,
                    total);
    }
    *out = block;
    return SW_OK;
}

static void block_free(sw_cuda_device *device, void *block)
{
    if (block == NULL)
        return;
    use_quietly(device);
    (void)cudaFree(block);
    (void)cudaGetLastError();
}

static sw_status pinned_alloc(sw_cuda_device *device, void **out, size_t bytes)
{
    void *block;
    SW_TRY(card_use(device));
    CALL(cudaHostAlloc, (&block, bytes, cudaHostAllocPortable), "%zu bytes", bytes);
    *out = block;
    return SW_OK;
}

static void pinned_free(sw_cuda_device *device, void *block)
{
    if (block == NULL)
        return;
    use_quietly(device);
    (void)cudaFreeHost(block);
    (void)cudaGetLastError();
}

/* ---- queues: a stream, what kernels need besides, copies and fills ----------------------- */

static cudaStream_t stream_of(const sw_cuda_queue *queue)
{
    return (cudaStream_t)queue->stream;
}

static sw_status queue_create(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                              uint32_t flags)
{
    cudaStream_t stream;
    SW_TRY(card_use(device));
    /* Work of the program on the default stream is no reason to wait. */
    CALL(cudaStreamCreateWithFlags, (&stream, cudaStreamNonBlocking), "cuda:%d",
         device->ordinal);
    sw_cuda_queue queue = {.stream = stream, .flags = flags, .device = device};
#ifdef SW_CUDA_BLAS
    const sw_status status = compute ? sw_cuda_blas_create(&queue.blas) : SW_OK;
    if (status != SW_OK) {
        (void)cudaStreamDestroy(stream);
        return status;
    }
#else
    (void)compute;
#endif
    *out = queue;
    return SW_OK;
}

static void queue_destroy(sw_cuda_device *device, sw_cuda_queue *queue)
{
    if (queue->stream == NULL)
        return;
    use_quietly(device);
#ifdef SW_CUDA_BLAS
    sw_cuda_blas_destroy(queue->blas);
#endif
    (void)cudaStreamDestroy(stream_of(queue));
    (void)cudaGetLastError();
    *queue = (sw_cuda_queue){0};
}

static sw_status queue_sync(sw_cuda_device *device, const sw_cuda_queue *queue)
{
    SW_TRY(card_use(device));
    CALL(cudaStreamSynchronize, (stream_of(queue)), "cuda:%d", device->ordinal);
    return SW_OK;
}

static sw_status queue_copy(const sw_cuda_queue *queue, void *to, const void *from,
                            size_t bytes, sw_cuda_way way)
{
    static const enum cudaMemcpyKind kinds[] = {[SW_CUDA_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [SW_CUDA_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [SW_CUDA_ON_DEVICE] = cudaMemcpyDeviceToDevice};
    static const char *const ways[] = {"to the device", "to the host", "on the device"};
    CALL(cudaMemcpyAsync, (to, from, bytes, kinds[way], stream_of(queue)), "%zu bytes %s",
         bytes, ways[way]);
    return SW_OK;
}

static sw_status queue_fill(const sw_cuda_queue *queue, void *to, int byte, size_t bytes)
{
    CALL(cudaMemsetAsync, (to, byte, bytes, stream_of(queue)), "%zu bytes", bytes);
    return SW_OK;
}

static sw_status is_capturing(const sw_cuda_queue *queue, bool *out)
{
    enum cudaStreamCaptureStatus status;
    CALL(cudaStreamIsCapturing, (stream_of(queue), &status), "%s", "");
    *out = status != cudaStreamCaptureStatusNone;
    return SW_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

/* Where a queue has got to, and when. Under capture they become nodes that record, or wait for,
 * the event itself at each replay, not edges inside the graph. */
struct sw_cuda_event {
    cudaEvent_t event;
    int ordinal;
};

static sw_status event_create(sw_cuda_device *device, sw_cuda_event **out, bool clock)
{
    void *block;
    SW_TRY(card_use(device));
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_event)));
    sw_cuda_event *event = block;
    event->ordinal = device->ordinal;
    const cudaError_t error =
        cudaEventCreateWithFlags(&event->event, clock ? 0 : cudaEventDisableTiming);
    if (error != cudaSuccess) {
        sw_cuda_its_host.free(block, sizeof *event);
        return fail((int)error, "cudaEventCreateWithFlags", "cuda:%d", device->ordinal);
    }
    *out = event;
    return SW_OK;
}

static void event_destroy(sw_cuda_event *event)
{
    if (event == NULL)
        return;
    (void)cudaEventDestroy(event->event);
    (void)cudaGetLastError();
    sw_cuda_its_host.free(event, sizeof *event);
}

static sw_status event_record(sw_cuda_event *event, const sw_cuda_queue *queue)
{
    bool capturing = false;
    SW_TRY(is_capturing(queue, &capturing));
    CALL(cudaEventRecordWithFlags,
         (event->event, (cudaStream_t)queue->stream, capturing ? cudaEventRecordExternal : 0),
         "cuda:%d", event->ordinal);
    return SW_OK;
}

static sw_status event_after(const sw_cuda_queue *queue, sw_cuda_event *event)
{
    bool capturing = false;
    SW_TRY(is_capturing(queue, &capturing));
    CALL(cudaStreamWaitEvent,
         ((cudaStream_t)queue->stream, event->event, capturing ? cudaEventWaitExternal : 0),
         "cuda:%d", event->ordinal);
    return SW_OK;
}

static sw_status event_done(sw_cuda_event *event, bool *done)
{
    const cudaError_t error = cudaEventQuery(event->event);
    if (error != cudaSuccess && error != cudaErrorNotReady)
        return fail((int)error, "cudaEventQuery", "cuda:%d", event->ordinal);
    if (error != cudaSuccess)
        (void)cudaGetLastError(); /* "not ready" would be found after the next launch */
    *done = error == cudaSuccess;
    return SW_OK;
}

static sw_status event_wait(sw_cuda_event *event)
{
    CALL(cudaEventSynchronize, (event->event), "cuda:%d", event->ordinal);
    return SW_OK;
}

static sw_status event_between(sw_cuda_event *from, sw_cuda_event *to, uint64_t *ns)
{
    float ms;
    CALL(cudaEventElapsedTime, (&ms, from->event, to->event), "cuda:%d", from->ordinal);
    *ns = ms > 0.0f ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    return SW_OK;
}

/* ---- captures and graphs ----------------------------------------------------------------- */

struct sw_cuda_graph {
    cudaGraphExec_t exec;
    size_t nodes, bytes;
};

static pthread_mutex_t *lock_of(const sw_cuda_queue *queue)
{
    return &((sw_cuda_device *)queue->device)->capture_lock;
}

static sw_status capture_begin(const sw_cuda_queue *queue)
{
    if (pthread_mutex_lock(lock_of(queue)) != 0)
        REFUSE(SW_INVALID, "this thread captures already");
    const cudaError_t error =
        cudaStreamBeginCapture(stream_of(queue), cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess)
        return SW_OK;
    pthread_mutex_unlock(lock_of(queue));
    return fail((int)error, "cudaStreamBeginCapture", "%s", "");
}

/* An executable graph, with what its first launch would do first done. The driver says nothing
 * of its memory but that there is less. */
static sw_status make(cudaGraph_t graph, const sw_cuda_queue *queue, sw_cuda_graph *out)
{
    size_t nodes = 0, before = 0, left = 0, total;
    CALL(cudaGraphGetNodes, (graph, NULL, &nodes), "%s", "");
    CALL(cudaMemGetInfo, (&before, &total), "%s", "");
    CALL(cudaGraphInstantiate, (&out->exec, graph, 0), "%zu nodes", nodes);
    const char *call = "cudaGraphUpload";
    cudaError_t error = cudaGraphUpload(out->exec, stream_of(queue));
    if (error == cudaSuccess) {
        call = "cudaMemGetInfo";
        error = cudaMemGetInfo(&left, &total);
    }
    if (error != cudaSuccess) {
        (void)cudaGraphExecDestroy(out->exec);
        return fail((int)error, call, "%zu nodes", nodes);
    }
    out->nodes = nodes;
    out->bytes = before > left ? before - left : 0;
    return SW_OK;
}

static sw_status capture_end(const sw_cuda_queue *queue, sw_cuda_graph **out)
{
    cudaGraph_t graph = NULL;
    void *block;
    const cudaError_t error = cudaStreamEndCapture(stream_of(queue), &graph);
    if (pthread_mutex_unlock(lock_of(queue)) != 0 && error == cudaSuccess) {
        (void)cudaGraphDestroy(graph);
        REFUSE(SW_INVALID, "another thread began this capture");
    }
    if (error != cudaSuccess && out == NULL) { /* thrown away, whatever became of it */
        (void)cudaGetLastError();
        return SW_OK;
    }
    if (error != cudaSuccess)
        return fail((int)error, "cudaStreamEndCapture", "%s", "");
    sw_status status = SW_OK;
    if (out != NULL) {
        status = sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_graph));
        if (status == SW_OK) {
            status = make(graph, queue, block);
            if (status == SW_OK)
                *out = block;
            else
                sw_cuda_its_host.free(block, sizeof(sw_cuda_graph));
        }
    }
    (void)cudaGraphDestroy(graph);
    return status;
}

static sw_status graph_launch(sw_cuda_graph *graph, const sw_cuda_queue *queue)
{
    CALL(cudaGraphLaunch, (graph->exec, stream_of(queue)), "%zu nodes", graph->nodes);
    return SW_OK;
}

static size_t graph_nodes(const sw_cuda_graph *graph)
{
    return graph->nodes;
}

static size_t graph_bytes(const sw_cuda_graph *graph)
{
    return graph->bytes;
}

static void graph_destroy(sw_cuda_graph *graph)
{
    if (graph == NULL)
        return;
    (void)cudaGraphExecDestroy(graph->exec);
    (void)cudaGetLastError();
    sw_cuda_its_host.free(graph, sizeof *graph);
}

/* ---- what is there, what is required, and one line where they differ --------------------- */

static sw_status check_driver(int *driver, int *runtime)
{
    *driver = 0;
    cudaError_t error = cudaDriverGetVersion(driver);
    if (error != cudaSuccess && error != cudaErrorInsufficientDriver)
        return fail((int)error, "cudaDriverGetVersion", "%s", "");
    CALL(cudaRuntimeGetVersion, (runtime), "%s", "");
    (void)cudaGetLastError();
    if (*driver == 0)
        REFUSE(SW_DEVICE, "this machine has no NVIDIA driver: one for CUDA %d is needed",
               *runtime / 1000);
    return SW_OK;
}

/* Cards of the machine, as far as CUDA_VISIBLE_DEVICES lets the process see them. */
static sw_status check_count(int ordinal, int driver, int runtime)
{
    int n = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        REFUSE(SW_DEVICE,
               "the NVIDIA driver is too old: it is for CUDA %d.%d, the module was built "
               "with %d.%d; update the driver, or build with an older toolkit",
               driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error != cudaSuccess && error != cudaErrorNoDevice)
        return fail((int)error, "cudaGetDeviceCount", "%s", "");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (error == cudaErrorNoDevice || ordinal < 0 || ordinal >= n)
        REFUSE(SW_DEVICE, "there is no device cuda:%d: %d %s found%s%s%s", ordinal,
               error == cudaSuccess ? n : 0, n == 1 ? "was" : "were",
               error == cudaSuccess && n > 0 ? ", the first is cuda:0" : "",
               visible != NULL ? ", CUDA_VISIBLE_DEVICES is " : "",
               visible != NULL ? visible : "");
    return SW_OK;
}

static sw_status read_info(sw_cuda_device *device)
{
    sw_cuda_info *info = &device->info;
    const driver_table *d = &device->driver;
    CALL_AS("cuDeviceGet", d->cuDeviceGet(&device->handle, device->ordinal), "cuda:%d",
            device->ordinal);
    CALL_AS("cuDeviceGetName",
            d->cuDeviceGetName(info->name, (int)sizeof info->name, device->handle), "cuda:%d",
            device->ordinal);
    info->name[sizeof info->name - 1] = '\0';
#ifdef SW_CUDA_BLAS
    info->blas = sw_cuda_blas_version();
#endif
    return find_mapping(device);
}

static sw_status read_memory(sw_cuda_info *info)
{
    size_t left, total;
    CALL(cudaMemGetInfo, (&left, &total), "%s", "");
    info->free_bytes = left;
    info->total_bytes = total;
    return SW_OK;
}

static sw_status open_card(sw_cuda_device *device)
{
    sw_cuda_info *info = &device->info;
    SW_TRY(check_driver(&info->driver, &info->runtime));
    SW_TRY(check_count(device->ordinal, info->driver, info->runtime));
    CALL(cudaDeviceGetAttribute,
         (&info->major, cudaDevAttrComputeCapabilityMajor, device->ordinal), "cuda:%d",
         device->ordinal);
    CALL(cudaDeviceGetAttribute,
         (&info->minor, cudaDevAttrComputeCapabilityMinor, device->ordinal), "cuda:%d",
         device->ordinal);
    if (info->major * 10 + info->minor < 75)
        REFUSE(SW_DEVICE, "cuda:%d has compute capability %d.%d: 7.5 and up are supported",
               device->ordinal, info->major, info->minor);

    SW_TRY(card_use(device));
    SW_TRY(find_driver(&device->driver));
    SW_TRY(read_info(device));
    SW_TRY(load_kernels(device));
    SW_TRY(card_sync(device));
    SW_TRY(read_memory(info));
    info->open_bytes = info->free_bytes;
    return SW_OK;
}

static void destroy(sw_cuda_device *device)
{
    pthread_mutex_destroy(&device->ranges_lock);
    pthread_mutex_destroy(&device->capture_lock);
    sw_cuda_its_host.free(device, sizeof *device);
}

static sw_status card_open(sw_cuda_device **out, int ordinal)
{
    void *block;
    pthread_mutexattr_t knowing;
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_device)));
    sw_cuda_device *device = block;
    device->ordinal = ordinal;
    pthread_mutex_init(&device->ranges_lock, NULL);
    pthread_mutexattr_init(&knowing);
    pthread_mutexattr_settype(&knowing, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&device->capture_lock, &knowing);
    pthread_mutexattr_destroy(&knowing);
    const sw_status status = open_card(device);
    return SW_GIVE(status, out, device, destroy);
}

/* The context stays: it is the process's, and others may use it. */
static void card_close(sw_cuda_device *device)
{
    if (device != NULL)
        destroy(device);
}

static sw_status card_info(sw_cuda_device *device, sw_cuda_info *out)
{
    sw_cuda_info info = device->info;
    SW_TRY(card_use(device));
    SW_TRY(read_memory(&info));
    *out = info;
    return SW_OK;
}

static const sw_cuda_api functions =
    SW_INIT(.open = card_open, .close = card_close, .info = card_info, .use = card_use,
            .sync = card_sync, .reserve = range_reserve, .map = range_map,
            .release = range_release, .alloc = block_alloc, .free = block_free,
            .host_alloc = pinned_alloc, .host_free = pinned_free, .queue_create = queue_create,
            .queue_destroy = queue_destroy, .queue_sync = queue_sync, .copy = queue_copy,
            .fill = queue_fill, .event_create = event_create, .event_destroy = event_destroy,
            .record = event_record, .after = event_after, .done = event_done,
            .wait = event_wait, .between = event_between, .capture_begin = capture_begin,
            .capture_end = capture_end, .graph_launch = graph_launch,
            .graph_nodes = graph_nodes, .graph_bytes = graph_bytes,
            .graph_destroy = graph_destroy);

const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host)
{
    return sw_cuda_module_make(host, &functions);
}
