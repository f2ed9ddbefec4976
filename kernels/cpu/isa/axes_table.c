/* The kernels over rows and axes of this instruction set. */
#include "kernels/cpu/isa/axes_internal.h"

#define sw_axes_kernels_table SW_ISA_FN(sw_axes_kernels_table)
extern const sw_axes_kernels sw_axes_kernels_table;

const sw_axes_kernels sw_axes_kernels_table = {
    .dropout = swi_dropout,
    .take_rows = swi_take_rows,
    .add_rows = swi_add_rows,
    .max_axes = swi_max_axes,
    .max_axes_dx = swi_max_axes_dx,
    .cumsum = swi_cumsum,
    .products = swi_products,
    .attention_bytes = swi_attention_bytes,
    .attention = swi_attention,
    .attention_grad_bytes = swi_attention_grad_bytes,
    .attention_grad = swi_attention_grad,
};
