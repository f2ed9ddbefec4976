/* Ops that go strip by strip: what in_strips tells the pass that makes it, and costs. */
#ifndef SW_STRIP_H
#define SW_STRIP_H

#include "runtime/ops/tile.h"

/* A function of one number that keeps its input, and has no result but one of its type. */
bool swi_strips_function(uint32_t op);

/* The ops that may read the function's result a strip at a time, as their operand 0. */
typedef enum {
    SWI_READS_NOT,
    SWI_READS_PRODUCT, /* (rows, in), weight, [bias] */
    SWI_READS_LOSS,    /* x, target */
    SWI_READS_LOSS_DX, /* x, target, d loss */
    SWI_READS_TILES,   /* a tile_update, whose gradient has its columns */
    SWI_READS_BOUND    /* the bound of that one's check; operand 1 is its other factor */
} swi_strips_reader;
swi_strips_reader swi_strips_reads(uint32_t op, int32_t grad, const void *attrs);

/* Does this kernel make dx from {weight, dy}, whose columns are those of the weight? */
bool swi_strips_makes_dx(uint32_t op, int32_t grad);

/* The strip of a matrix for this kind; 0: it is too small. */
int64_t swi_strips_size(swi_strips_kind kind, const sw_shape *matrix);

/* Operations of its products, and of all else. */
void swi_strips_operations(const sw_kernel_info *info, uint64_t *products, uint64_t *others);

size_t swi_strips_bytes(const swi_strips_attrs *a, const sw_type *matrix); /* of a strip */

/* Of UPDATE's operands those of tile_update from its check on begin here; without the bound, an
 * f64, where it is found inside. */
enum { SWI_STRIPS_TILE = 2 };

/* losses.c: a sum that goes on from `sum`; 2 dy / n. */
double swi_mse_sum(double sum, const float *x, const float *target, int64_t n);
float swi_mse_slope(float dy, int64_t n);

#endif
