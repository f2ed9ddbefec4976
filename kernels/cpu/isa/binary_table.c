/* The kernels of bits of this instruction set. */
#include "kernels/cpu/isa/binary_internal.h"

#define sw_binary_kernels_table SW_ISA_FN(sw_binary_kernels_table)
extern const sw_binary_kernels sw_binary_kernels_table;

const sw_binary_kernels sw_binary_kernels_table = {
    .pack = swi_binary_pack,
    .max_pool = swi_binary_max_pool,
    .row_sums = swi_binary_row_sums,
    .layer_bytes = swi_binary_layer_bytes,
    .layer = swi_binary_layer,
    .stored_bytes = swi_binary_stored_bytes,
    .draw = swi_binary_draw,
    .gradient_bytes = swi_binary_gradient_bytes,
    .gradient = swi_binary_gradient,
    .member = swi_binary_member,
};
