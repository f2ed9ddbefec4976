/* Weights updated tile by tile: what the pass and the op that it makes share. */
#ifndef SW_TILE_UPDATE_H
#define SW_TILE_UPDATE_H

#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"

/* A gradient kernel that makes any range of rows of its result, contiguous, when it is given
 * that range along an axis of an operand, strides as they were. Each element is a sum of
 * products of the two operands, one for each step of axis 0. */
typedef struct {
    uint32_t op;
    int grad;
    uint32_t operand;
    int axis;
} swi_row_range;
const swi_row_range *swi_rows_of(uint32_t op, int grad); /* NULL: it does not */

/* Operations of the two parts of a tile_update. */
void swi_tile_operations(const sw_kernel_info *info, uint64_t *make, uint64_t *update);
/* Workspace of one: a tile of the gradient and what the kernel needs for it. */
size_t swi_tile_bytes(const sw_kernel_info *info);

/* The pass, behind the release pass: where a gradient is read by nothing but an update that
 * goes element by element, and the kernel can make it in rows, one node takes the place of
 * both, and no more than a tile of the gradient exists. The same bits: a row does not depend on
 * others. Small gradients stay whole. */
SW_MUST_USE sw_status swi_pass_tiles(swi_trace *t, swi_order *order, const sw_exec *exec);

#endif
