/* Weights updated tile by tile: what the op tells the pass that makes it, and costs. */
#pragma once

#include "kernels/tile_launch.h"
#include "runtime/ops/ops.h"

enum { SWI_TILE_UNIT = 24 /* rows: whole register blocks */ };

/* A kernel that makes any range of rows of its result, contiguous, when it is given that range
 * along an axis of an operand, strides as they were; or, operand SW_TILE_BY_ATTRS, in its
 * attributes (swi_rows_attrs), and operands of the result's shape by those rows. */
typedef struct {
    uint32_t op;
    int grad; /* -1: the forward kernel */
    int operand, axis;
    /* A bound of the elements of the result, by a look at the operands; not below any number
     * where one of them is not finite. And the operations of that look. */
    double (*bound)(const sw_launch *launch);
    uint64_t (*bound_operations)(const sw_kernel_info *info);
    /* Its tiles: of gradients from so many bytes on; rows of about `most` bytes, at least
     * `rows`. */
    size_t from, most;
    int64_t rows;
} swi_row_range;
const swi_row_range *swi_rows_of(uint32_t op, int grad); /* NULL: it does not */

/* es_gradient.c */
double swi_es_gradient_bound(const sw_launch *launch);
uint64_t swi_es_gradient_bound_operations(const sw_kernel_info *info);
/* Rows of so many that each rank makes (the last ones fewer, or none); all: nothing is sent. */
int64_t swi_es_gradient_share(int64_t rows, int ranks);

/* Operations of the two parts of a tile_update. */
void swi_tile_operations(const sw_kernel_info *info, uint64_t *make, uint64_t *update);
/* The two halves of a launch of one: the finite check (its verdict is the last output), and the
 * tiles. Parameter, state and result may be ranges of columns of larger matrices. */
sw_status swi_tile_judge(const sw_launch *launch);
sw_status swi_tile_apply(const sw_launch *launch);
/* Does the bound that the check is given say enough, so that no operand is looked at? */
bool swi_tile_is_bounded(const sw_launch *launch);
/* Workspace of one: a tile of the gradient and what the kernel needs for it. */
size_t swi_tile_bytes(const sw_kernel_info *info);

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

/* The strip of a matrix for this kind; 0: it is too small. state8: of columns whole blocks of a
 * state in 8 bits. */
int64_t swi_strips_size(swi_strips_kind kind, const sw_shape *matrix, bool state8);

/* Operations of its products, and of all else. */
void swi_strips_operations(const sw_kernel_info *info, uint64_t *products, uint64_t *others);

/* Of UPDATE's operands those of tile_update from its check on begin here; without the bound, an
 * f64, where it is found inside. */
enum { SWI_STRIPS_TILE = 2 };

/* Does this kernel go image by image of a batch, which all of its operands have but those of
 * *whole (bit i: operand i, outputs after inputs)? Those of its outputs are sums over images,
 * which may be made a part of SWI_IMAGES after the other. */
bool swi_images_member(uint32_t op, int32_t grad, uint32_t n_in, uint32_t *whole);

/* The type of one part of an operand of in_images with the whole batch. */
sw_type swi_images_part(const swi_images_attrs *attrs, const sw_type *whole, int64_t part);

/* losses.c: a sum that goes on from `sum`; 2 dy / n. */
double swi_mse_sum(double sum, const float *x, const float *target, int64_t n);
float swi_mse_slope(float dy, int64_t n);
