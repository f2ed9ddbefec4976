/* Weights updated tile by tile: what the op tells the pass that makes it, and costs. */
#ifndef SW_TILE_H
#define SW_TILE_H

#include "runtime/ops/ops.h"

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

#endif
