/* Operands of a product as its register blocks read them (gemm_pack.c), in cells of 32 bits: a
 * float32; a bf16 number widened to one; or, for an instruction of bf16, a pair of numbers of
 * k, the first in the lower half.
 *
 * Cells are in the order of k; in an order of bf16 by FMA in that in which they are summed:
 * each two k swapped (pair), the even of each 32 k and then the odd ones (tile). At the
 * end of k missing numbers are zero. */
#pragma once

#include "kernels/cpu/isa/block_shapes.h"
#include "kernels/cpu/isa/dense_internal.h"

#define NR (PANEL * VW)

enum {
    TILE = 32, /* numbers of k at whose multiples an order of bf16 may be cut */
    ROWS = 6,  /* of a register block */
    AHEAD = 4, /* rows of B that are asked for before they are copied between products, */
    FAR = 64   /* and where they are copied one after the other */
};

/* Rows [i, end) and columns [j, j_end) of C, and columns [k, k_end) of A. */
typedef struct {
    int64_t i, end, k, k_end, j, j_end;
} range;

/* A part of B: columns [j, j + width) of rows [k, k + depth). Panels are [deep][w], w a
 * multiple of VW, NR for all but the last; panel p begins at p * NR * deep. */
typedef struct {
    int64_t j, width, k, depth;
    int64_t deep; /* cells, with the zeros at the end */
    int64_t raw;  /* the first columns, those of whole panels, are packed by the first rows */
} piece;

/* Numbers of k in a cell. */
static inline int64_t swi_cell(sw_bf16_order order)
{
    return order > SW_ORDER_TILE ? 2 : 1;
}

/* Cells of `depth` numbers of k, with the zeros at the end. */
static inline int64_t swi_deep(sw_bf16_order order, int64_t depth)
{
    const bool tile = order == SW_ORDER_TILE || order == SW_ORDER_TILE_AMX;
    const int64_t unit = tile ? TILE : order != SW_ORDER_NONE ? 2 : 1;
    return (depth + unit - 1) / unit * (unit / swi_cell(order));
}

static inline int64_t swi_panel_width(const piece *x, int64_t p)
{
    return least(NR, (x->width - p + VW - 1) / VW * VW);
}

#define swi_pack_piece SW_ISA_FN(swi_pack_piece)
#define swi_pack_rows SW_ISA_FN(swi_pack_rows)

void swi_pack_piece(float *to, const sw_gemm *g, const piece *x);
/* Rows of A. Strips [deep][rows] of the register blocks of r, the one at row i beginning at
 * (i - r->i) * deep; for AMX rows [deep]. */
void swi_pack_rows(float *to, const sw_gemm *g, const range *r);
