/* The kernels of noise of this instruction set. */
#include "kernels/cpu/isa/noise_internal.h"

#define sw_noise_kernels_table SW_ISA_FN(sw_noise_kernels_table)
extern const sw_noise_kernels sw_noise_kernels_table;

const sw_noise_kernels sw_noise_kernels_table = {
    .fill = swi_noise_fill,
    .linear_bytes = swi_noise_linear_bytes,
    .linear = swi_noise_linear,
    .conv = swi_noise_conv,
    .affine = swi_noise_affine,
    .embedding = swi_noise_embedding,
    .elements = swi_noise_matrix,
    .gradient_bytes = swi_noise_gradient_bytes,
    .gradient = swi_noise_gradient,
    .step = swi_noise_step,
};
