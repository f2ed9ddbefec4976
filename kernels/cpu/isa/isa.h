/* The names of this copy's kernels: files of this folder are compiled once for each instruction
 * set. A kernel has the type that its member of the family's table has, and each list below is
 * the table's members: SW_KERNEL(family, member) is the function. */
#pragma once

#include "kernels/dispatch.h"

#if SW_ISA_ID == 2
#define SW_ISA_FN(name) name##_avx512
#elif SW_ISA_ID == 1
#define SW_ISA_FN(name) name##_avx2
#else
#define SW_ISA_FN(name) name##_base
#endif

#define SW_KERNEL(family, member) SW_ISA_FN(swi_##family##_##member)

/* clang-format off */
#define SW_DENSE_LIST(K, F) \
    K(F, gemm_bytes) K(F, gemm) K(F, column_sums) K(F, conv_bytes) K(F, conv) \
    K(F, conv_dx_bytes) K(F, conv_dx) K(F, conv_dw_bytes) K(F, conv_dw) K(F, max_pool) \
    K(F, max_pool_dx) K(F, avg_pool) K(F, avg_pool_dx) K(F, resample_bytes) K(F, resample) \
    K(F, resample_dx) K(F, channel_scale) K(F, channel_scale_grad) K(F, to_n16) K(F, from_n16)
#define SW_NORM_LIST(K, F) \
    K(F, rows) K(F, rows_dx) K(F, rows_dw) K(F, group) K(F, group_dx) K(F, group_dw) \
    K(F, batch) K(F, batch_grad) K(F, fixed) K(F, fixed_dx)
#define SW_POINTWISE_LIST(K, F) \
    K(F, add) K(F, mul) K(F, widen) K(F, round) K(F, scale) K(F, from_u8) K(F, from_i32) K(F, softmax) \
    K(F, softmax_dx) K(F, log_softmax) K(F, log_softmax_dx) K(F, swiglu) K(F, swiglu_grad) \
    K(F, lstm_cell) K(F, lstm_cell_grad) K(F, gru_cell) K(F, gru_cell_grad) K(F, lse) \
    K(F, softmax_ce_dx) K(F, softmax_ce) K(F, smooth_ce_dx) K(F, row_sums) K(F, bce) \
    K(F, bce_dx) K(F, difference) K(F, unary) K(F, unary_dx) K(F, abs) K(F, abs_dx) \
    K(F, clamp) K(F, clamp_dx) K(F, above) K(F, above_dx) K(F, sub) K(F, div) K(F, where) \
    K(F, elementwise_loss) K(F, elementwise_loss_dx) K(F, update) K(F, update8) \
    K(F, adafactor) K(F, largest)
#define SW_AXES_LIST(K, F) \
    K(F, dropout) K(F, take_rows) K(F, add_rows) K(F, max_axes) K(F, max_axes_dx) K(F, cumsum) \
    K(F, products) K(F, rotary) K(F, attention_bytes) K(F, attention) K(F, attention_grad_bytes) \
    K(F, attention_grad)
#define SW_NOISE_LIST(K, F) \
    K(F, fill) K(F, linear_bytes) K(F, linear) K(F, conv) K(F, affine) K(F, embedding) \
    K(F, elements) K(F, gradient_bytes) K(F, gradient) K(F, step)
#define SW_BINARY_LIST(K, F) \
    K(F, pack) K(F, max_pool) K(F, row_sums) K(F, layer_bytes) K(F, layer) K(F, stored_bytes) \
    K(F, draw) K(F, gradient_bytes) K(F, gradient) K(F, member)
/* clang-format on */

#define SWI_DECLARE(family, member)                                                            \
    extern __typeof__(*((sw_##family##_kernels *)0)->member) SW_KERNEL(family, member);
SW_DENSE_LIST(SWI_DECLARE, dense)
SW_NORM_LIST(SWI_DECLARE, norm)
SW_POINTWISE_LIST(SWI_DECLARE, pointwise)
SW_AXES_LIST(SWI_DECLARE, axes)
SW_NOISE_LIST(SWI_DECLARE, noise)
SW_BINARY_LIST(SWI_DECLARE, binary)
#undef SWI_DECLARE
