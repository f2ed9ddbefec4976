/* All entries of the module, its pairs, and what they say of their scratch, for the table and
 * for entries that launch others. */
#pragma once

#include "kernels/cuda/device.h"

extern "C" {
#define SW_CUDA_KERNEL(op, which, function, scratch, exact) sw_cuda_kernel function;
#define SW_CUDA_SCRATCH(function) sw_cuda_scratch_size function;
#include "kernels/cuda/table.def"
#undef SW_CUDA_KERNEL
#define SW_CUDA_FUSION(first, then, joins, function)                                           \
    int joins(const sw_kernel_info *info, const sw_cuda_queue *queue);                         \
    sw_status function(const sw_launch *launch, const void *then_attrs,                        \
                       const sw_cuda_queue *queue);
#include "kernels/cuda/fusions.def"
#undef SW_CUDA_FUSION
}

/* Rows of linear's dw (rows, cols) that are made at a time: all, or of SW_CUDA_DW_BYTES or a
 * little more. Tests give fewer. */
#ifndef SW_CUDA_DW_BYTES
#define SW_CUDA_DW_BYTES (64 << 20)
#endif
int64_t sw_cuda_dw_rows(int64_t rows, int64_t cols);

/* n numbers in the type of y; rounded to bf16 before that where `rounds`. y may be x. */
sw_status sw_cuda_cast(const char *op, sw_cuda_numbers y, sw_cuda_numbers x, int64_t n,
                       bool rounds, const sw_cuda_queue *queue);
