/* Softmax cross-entropy of a block of rows: what softmax_ce and linear_ce share. */
#pragma once

#include "runtime/ops/ops.h"

/* Labels (rows) of U8 or I32 for logits (rows, classes), not empty. */
sw_status swi_labels_infer(const char *op, const sw_shape *logits, const sw_type *labels);
sw_status swi_ce_attrs_infer(const char *op, const swi_ce_attrs *a);
/* Each is a class, or the one that is ignored. a: NULL where none is. */
sw_status swi_check_labels(const char *op, const sw_buffer *labels, const swi_ce_attrs *a,
                           int64_t rows, int64_t cols);
/* Rows with a label that counts. */
int64_t swi_ce_counted(const sw_buffer *labels, const swi_ce_attrs *a, int64_t rows);

/* Rows [first, first + rows) of the labels' rows. */
typedef struct {
    const float *logits; /* (rows, cols) of these rows */
    const sw_buffer *labels;
    int64_t first, rows, cols;
    const swi_ce_attrs *attrs;
    sw_isa isa;
    const sw_par *par;
} swi_ce;

/* `before` and the losses of the rows, added one after the other. lse (rows) receives the
 * logarithm of each row's sum of exponentials; sums (rows) is scratch with smoothing. */
double swi_ce_add(const swi_ce *c, double before, float *lse, double *sums);
/* Both, the gradient in the place of the logits. at_label (rows) is scratch. */
double swi_ce_both(const swi_ce *c, double before, float *logits, float *lse, float *at_label,
                   double *sums, float factor);
/* Bytes of lse and sums for so many rows: sums first. */
size_t swi_ce_bytes(const swi_ce_attrs *a, int64_t rows);
/* lse in such scratch, after the sums; *sums NULL without smoothing. */
float *swi_ce_scratch(const swi_ce_attrs *a, int64_t rows, void *scratch, double **sums);

/* Counted operations: of the loss of logits of this type, and of an element of the gradient. */
uint64_t swi_ce_operations(const swi_ce_attrs *a, const sw_type *logits, const sw_type *labels);
uint64_t swi_ce_dx_per_element(const swi_ce_attrs *a);
/* The sum of the losses of rows in double, and how many count. */
double swi_ce_reference(const swi_ce_attrs *a, const double *logits, const double *labels,
                        int64_t rows, int64_t cols, double *counted);
