/* The table of the CUDA module: what libstepwell-cuda.so offers, and what it is given. C and
 * C++ read it.
 *
 * An entry is the forward kernel of an op or one of its gradient kernels (its place in
 * sw_op_desc.grads), with the operands, attributes and accumulate bits that the CPU's kernel
 * has; pointers are the device's. It only launches: no allocation, no copy to the host, no
 * waiting, so all entries may be captured. What it reads on the host (types, attributes) is
 * fixed with the program; numbers that change between runs are read on the device. */
#ifndef SW_CUDA_TABLE_H
#define SW_CUDA_TABLE_H

#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SW_CUDA_ABI 1u

/* stream: a cudaStream_t. */
typedef sw_status sw_cuda_kernel(const sw_launch *launch, void *stream);

typedef size_t sw_cuda_scratch_size(const sw_kernel_info *info);

typedef struct {
    const char *op;
    int which; /* SW_CUDA_FORWARD, or the place of the gradient kernel */
    sw_cuda_kernel *kernel;
    sw_cuda_scratch_size *scratch_bytes; /* NULL: none */
    int exact;                           /* 1: the bits of the CPU's kernel */
} sw_cuda_entry;
#define SW_CUDA_FORWARD (-1)

/* What the module needs of its host. */
typedef struct {
    uint32_t abi;
    uint32_t size; /* of this struct */
    sw_status (*fail)(sw_status status, const char *file, int line, const char *format, ...)
        SW_PRINTF(4, 5);
} sw_cuda_host;

typedef struct {
    uint32_t abi;
    uint32_t size;       /* of this struct */
    uint32_t entry_size; /* of one entry */
    uint32_t n_entries;
    const sw_cuda_entry *entries;
} sw_cuda_module;

/* The one name that the module exports. NULL where `host` is of another ABI or size. */
SW_API const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host);
typedef const sw_cuda_module *sw_cuda_module_opener(const sw_cuda_host *host);

#ifdef __cplusplus
}
#endif
#endif
