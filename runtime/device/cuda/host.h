/* Shared by the files of runtime/device/cuda: the module's half on the host, in C. It calls
 * CUDA and says what failed; it keeps no policy.
 *
 * The CUDA runtime is linked in; the driver is asked for by name (load.c), so that the module
 * can be opened where there is none. */
#ifndef SW_CUDA_HOST_H
#define SW_CUDA_HOST_H

#include "kernels/cuda/api.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

/* Functions of the driver, as of which version. Those of CUDA 12.4 load kernels; a driver may
 * lack them. */
#define SWI_CUDA_DRIVER(X)                                                                     \
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
#define SWI_CUDA_LOADER(X)                                                                     \
    X(cuFuncGetModule, 12000)                                                                  \
    X(cuModuleGetFunctionCount, 12040)                                                         \
    X(cuModuleEnumerateFunctions, 12040)                                                       \
    X(cuFuncLoad, 12040)
#else
#define SWI_CUDA_LOADER(X)
#endif

typedef struct {
#define SWI_CUDA_POINTER(name, version) __typeof__(name) *name;
    SWI_CUDA_DRIVER(SWI_CUDA_POINTER)
    SWI_CUDA_LOADER(SWI_CUDA_POINTER)
#undef SWI_CUDA_POINTER
} swi_cuda_driver;

/* A reserved range; memory lies in [0, mapped) of it. */
typedef struct swi_cuda_range {
    struct swi_cuda_range *next;
    void *base;
    size_t bytes, mapped;
} swi_cuda_range;

struct sw_cuda_device {
    int ordinal;
    CUdevice handle;
    sw_cuda_info info; /* free_bytes: when it was opened */
    swi_cuda_driver driver;
    pthread_mutex_t ranges_lock;
    swi_cuda_range *ranges;
    /* Held from the begin of a capture to its end, and while the card is waited for: a card
     * with a stream under capture must not be. Knows its thread. */
    pthread_mutex_t capture_lock;
};

extern sw_cuda_host sw_cuda_its_host; /* module.cu */

/* The status of a call that failed: SW_NOMEM for memory, SW_DEVICE for all else. The message is
 * the function, what it was asked for, and the error. Takes the error back, so that it is not
 * found again after the next launch. */
sw_status swi_cuda_fail(cudaError_t error, const char *function, const char *format, ...)
    SW_PRINTF(3, 4);
/* The driver's numbers are the runtime's. */
sw_status swi_cuda_fail_driver(CUresult error, const char *function, const char *format, ...)
    SW_PRINTF(3, 4);
#define SWI_CUDA_REFUSE(status, ...)                                                           \
    return sw_cuda_its_host.fail((status), __FILE__, __LINE__, __VA_ARGS__)

/* open.c */
sw_status swi_cuda_open(sw_cuda_device **out, int ordinal);
void swi_cuda_close(sw_cuda_device *device);
sw_status swi_cuda_info(sw_cuda_device *device, sw_cuda_info *out);
sw_status swi_cuda_use(sw_cuda_device *device);
sw_status swi_cuda_sync(sw_cuda_device *device);
/* Both for cleaning up: what was said of a failure before stays. */
void swi_cuda_use_quietly(sw_cuda_device *device);
void swi_cuda_sync_quietly(sw_cuda_device *device);

/* load.c: the table of the driver; every kernel of the module on the card, info.loaded. */
sw_status swi_cuda_find_driver(swi_cuda_driver *out);
sw_status swi_cuda_load_kernels(sw_cuda_device *device);

/* memory.c */
sw_status swi_cuda_find_mapping(sw_cuda_device *device);
sw_status swi_cuda_reserve(sw_cuda_device *device, void **base, size_t bytes);
sw_status swi_cuda_map(sw_cuda_device *device, void *base, size_t from, size_t to);
void swi_cuda_release(sw_cuda_device *device, void *base, size_t bytes);
sw_status swi_cuda_alloc(sw_cuda_device *device, void **out, size_t bytes);
void swi_cuda_free(sw_cuda_device *device, void *block);
sw_status swi_cuda_host_alloc(sw_cuda_device *device, void **out, size_t bytes);
void swi_cuda_host_free(sw_cuda_device *device, void *block);

/* work.c */
sw_status swi_cuda_queue_create(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                                uint32_t flags);
void swi_cuda_queue_destroy(sw_cuda_device *device, sw_cuda_queue *queue);
sw_status swi_cuda_queue_sync(sw_cuda_device *device, const sw_cuda_queue *queue);
sw_status swi_cuda_copy(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                        sw_cuda_way way);
sw_status swi_cuda_fill(const sw_cuda_queue *queue, void *to, int byte, size_t bytes);
/* Is what follows on the queue noted instead of run? */
sw_status swi_cuda_is_capturing(const sw_cuda_queue *queue, bool *out);

/* event.c */
sw_status swi_cuda_event_create(sw_cuda_device *device, sw_cuda_event **out, bool clock);
void swi_cuda_event_destroy(sw_cuda_event *event);
sw_status swi_cuda_record(sw_cuda_event *event, const sw_cuda_queue *queue);
sw_status swi_cuda_after(const sw_cuda_queue *queue, sw_cuda_event *event);
sw_status swi_cuda_done(sw_cuda_event *event, bool *done);
sw_status swi_cuda_wait(sw_cuda_event *event);
sw_status swi_cuda_between(sw_cuda_event *from, sw_cuda_event *to, uint64_t *ns);

/* graph.c */
sw_status swi_cuda_capture_begin(const sw_cuda_queue *queue);
sw_status swi_cuda_capture_end(const sw_cuda_queue *queue, sw_cuda_graph **out);
sw_status swi_cuda_graph_launch(sw_cuda_graph *graph, const sw_cuda_queue *queue);
size_t swi_cuda_graph_nodes(const sw_cuda_graph *graph);
void swi_cuda_graph_destroy(sw_cuda_graph *graph);

/* library.c: the workspace of a library, which lies in the scratch of its launch, 64 bytes
 * aligned, and the operands that it is given. */
#define SWI_CUDA_MOST_WORKSPACE ((size_t)32 << 20)
#define SWI_CUDA_ALIGN_OPERANDS 16                   /* what algorithms are chosen for */
size_t swi_cuda_workspace_scratch(size_t workspace); /* of scratch, so that it fits */
/* Where it begins, and what is left for it after that. */
void *swi_cuda_workspace_in(void *scratch, size_t bytes, size_t *capacity);
bool swi_cuda_is_aligned(const void *operand);

/* Answers of a library, asked for once and kept. A record begins with its shape, which has no
 * holes. Adding moves records. */
typedef struct {
    unsigned char *at;
    size_t record_bytes, shape_bytes;
    int n, cap;
    bool full; /* there was no memory: nothing is added any more, so that answers stay */
} swi_cuda_shapes;
void *swi_cuda_shapes_at(const swi_cuda_shapes *table, int i);
void *swi_cuda_shapes_known(const swi_cuda_shapes *table, const void *shape); /* or NULL */
/* Zeros after the shape; NULL: the table is full. */
void *swi_cuda_shapes_add(swi_cuda_shapes *table, const void *shape);
void swi_cuda_shapes_free(swi_cuda_shapes *table);

/* blas.c, where it is built (option `cublas`; else queues have none and gemm.cu makes all
 * products): what a queue's `blas` is, on the device that is the calling thread's. It belongs
 * to one thread at a time. Version: 10000 * major + 100 * minor + patch, of the library that is
 * loaded. */
#ifdef SW_CUDA_BLAS
sw_status sw_cuda_blas_create(void **out);
void sw_cuda_blas_destroy(void *blas); /* NULL is fine */
int sw_cuda_blas_version(void);
#endif

#endif
