/* All entries of the module and what they say of their scratch, for the table and for entries
 * that launch others. */
#ifndef SW_CUDA_ENTRIES_H
#define SW_CUDA_ENTRIES_H

#include "kernels/cuda/table.h"

extern "C" {
#define SW_CUDA_KERNEL(op, which, function, scratch, exact) sw_cuda_kernel function;
#define SW_CUDA_SCRATCH(function) sw_cuda_scratch_size function;
#include "kernels/cuda/scratch.def"
#undef SW_CUDA_SCRATCH
#include "kernels/cuda/table.def"
#undef SW_CUDA_KERNEL
}

#endif
