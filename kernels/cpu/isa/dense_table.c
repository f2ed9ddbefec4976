/* The dense kernels of this instruction set. */
#include "kernels/cpu/isa/dense_internal.h"

#define sw_dense_kernels_table SW_ISA_FN(sw_dense_kernels_table)
extern const sw_dense_kernels sw_dense_kernels_table;

const sw_dense_kernels sw_dense_kernels_table = {
    .gemm_bytes = swi_gemm_bytes,
    .gemm = swi_gemm,
    .conv = swi_conv,
    .conv_dx_bytes = swi_conv_dx_bytes,
    .conv_dx = swi_conv_dx,
    .conv_dw_bytes = swi_conv_dw_bytes,
    .conv_dw = swi_conv_dw,
    .max_pool = swi_max_pool,
    .max_pool_dx = swi_max_pool_dx,
    .avg_pool = swi_avg_pool,
    .avg_pool_dx = swi_avg_pool_dx,
    .to_n16 = swi_to_n16,
    .from_n16 = swi_from_n16,
};
