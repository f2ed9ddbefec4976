/* The table of the CUDA module: what libstepwell-cuda.so offers, and what it is given. C and
 * C++ read it.
 *
 * An entry is the forward kernel of an op or one of its gradient kernels (its position in
 * sw_op_desc.grads), with the operands, attributes and accumulate bits that the CPU's kernel
 * has; pointers are the device's. It only launches: no allocation, no copy to the host, no
 * waiting, so all entries may be captured. Values that it reads on the host (types, attributes,
 * seed) are fixed with the program; numbers that change between runs are read on the device,
 * steps and runs from the queue's counters. */
#pragma once

#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SW_CUDA_ABI 6u

/* Counters that change from run to run of a program: in device memory. */
typedef struct {
    uint32_t step, run;
} sw_cuda_counters;

#define SW_CUDA_TF32 1u /* matrix products and convolutions may round factors to TF32 */

/* Launches of one entry that follow one another and go out as one, by a table of their operands
 * that is a parameter of the kernel. The entry is called for each, and launches nothing before
 * the last one, or where the table is full. No launch of a group may read or write what another
 * one writes, and none has scratch. */
#define SW_CUDA_TICKETS 4096 /* of a queue */
#define SW_CUDA_GROUP_BYTES 4032
typedef struct {
    uint32_t left; /* launches of the group after this one; 0 too where there is no group */
    uint32_t rows; /* that wait in the table */
    uint64_t table[SW_CUDA_GROUP_BYTES / sizeof(uint64_t)]; /* the entry's own */
} sw_cuda_group;

/* The queue that entries launch on. */
typedef struct {
    void *stream;                     /* cudaStream_t */
    const sw_cuda_counters *counters; /* on the device; NULL in a queue that only copies */
    void *blas;                       /* the module's own; NULL: its own kernels only */
    uint32_t flags;                   /* SW_CUDA_TF32 */
    void *device;                     /* the module's own */
    uint32_t *stated;                 /* not NULL: a launch is counted there, not made */
    sw_cuda_group *group;             /* NULL: each launch goes out by itself */
    uint32_t *tickets;                /* zeros on the device, by which the last of several
                                         blocks knows that it is; NULL: there are none */
} sw_cuda_queue;

/* Is what would be launched only counted? Entries ask for each kernel and library call, so that
 * a program states its launches when its plan is made: by sizes, attributes and how addresses
 * are aligned. */
static inline int sw_cuda_states(const sw_cuda_queue *queue)
{
    if (queue->stated == NULL)
        return 0;
    ++*queue->stated;
    return 1;
}

typedef sw_status sw_cuda_kernel(const sw_launch *launch, const sw_cuda_queue *queue);

/* Called once, when a plan is made; the same queue (its libraries and flags) launches later. */
typedef size_t sw_cuda_scratch_size(const sw_kernel_info *info, const sw_cuda_queue *queue);

typedef struct {
    const char *op;
    int which; /* SW_CUDA_FORWARD, or the position of the gradient kernel */
    sw_cuda_kernel *kernel;
    sw_cuda_scratch_size *scratch_bytes; /* NULL: none */
    int exact;  /* 1: the bits of the CPU's kernel; 2: and it takes numbers of bf16; 3: takes
                   these, with bits of its own */
    int groups; /* of its launches: one of these, divided by SW_CUDA_GROUPS */
} sw_cuda_entry;
/* Beside `exact` in the list of entries. */
#define SW_CUDA_GROUPS 4      /* launches of the op wait for each other */
#define SW_CUDA_MAGNITUDES 8  /* the same of all these ops: they have one kind of table */
#define SW_CUDA_NEIGHBOURS 12 /* none waits; the op's gradient goes up to its value */
#define SW_CUDA_FORWARD (-1)

/* Two forward ops in one launch: `first`, and `then` of its result in the same position. The
 * second has one operand, and nothing is read of its launch but its attributes. */
typedef struct {
    const char *first, *then;
    /* Called when a plan is made, with the same queue as later launches: whether that is less
     * work for operands like these, and has the bits of the two ops one after the other. */
    int (*joins)(const sw_kernel_info *first, const sw_cuda_queue *queue);
    sw_status (*kernel)(const sw_launch *first, const void *then_attrs,
                        const sw_cuda_queue *queue);
} sw_cuda_fusion;

typedef struct sw_cuda_api sw_cuda_api; /* kernels/cuda/api.h */

/* Functions that the module needs of its host. */
typedef struct {
    uint32_t abi;
    uint32_t size; /* of this struct */
    sw_status (*fail)(sw_status status, const char *file, int line, const char *format, ...)
        SW_PRINTF(4, 5);
    /* Host memory for the module's records, counted with the library's; zeroed. */
    sw_status (*alloc)(void **out, size_t bytes);
    void (*free)(void *block, size_t bytes);
} sw_cuda_host;

typedef struct {
    uint32_t abi;
    uint32_t size;       /* of this struct */
    uint32_t entry_size; /* of one entry */
    uint32_t n_entries;
    const sw_cuda_entry *entries;
    uint32_t api_size; /* of *api */
    const sw_cuda_api *api;
    uint32_t fusion_size; /* of one pair */
    uint32_t n_fusions;
    const sw_cuda_fusion *fusions;
} sw_cuda_module;

/* The one name that the module exports. NULL where `host` is of another ABI or size. Calls no
 * CUDA function. */
SW_API const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host);
typedef const sw_cuda_module *sw_cuda_module_opener(const sw_cuda_host *host);
/* The same of the kernels, with these functions (module.cu). */
const sw_cuda_module *sw_cuda_module_make(const sw_cuda_host *host, const sw_cuda_api *api);

#ifdef __cplusplus
}
#endif
