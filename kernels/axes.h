/* Kernels over rows and axes: dropout, rows of a table, maximum over axes, many products,
 * cumulative sums, rotary positions, attention. float32.
 *
 * Bits depend on shapes, strides and the instruction set only: sums go in one fixed order, and
 * a random number belongs to its element, whichever thread draws it. `accumulate` adds to the
 * output instead of overwriting it. */
#pragma once

#include "kernels/attention.h"
#include "kernels/ids.h"
#include "kernels/par.h"
#include "kernels/rotary.h"
#include "kernels/stored.h"

#define SW_AXES_MAX 9 /* a tensor's eight axes and one of length 1 */

/* Element i is dropped where number i of the uniform stream (rng.h) is below p, and multiplied
 * by 1 / (1 - p) where not. Elements count row-major over the plain tensor, in both layouts. */
typedef struct {
    float p; /* 0..1; at 1 all are dropped */
    uint64_t seed;
    uint32_t stream, step, run;
    int64_t batch, inner; /* images and elements of each; plain: 1 and all elements */
    bool blocks;          /* sixteen images in the lanes; lanes past the batch become zero */
    int64_t first;        /* number of the first element; plain: a multiple of 4 */
} sw_drop;

/* Maximum over axes of x: for each position of the kept axes over the positions of the reduced
 * ones, both row-major, the last axis fastest. Strides count elements. */
typedef struct {
    int n_kept, n_reduced; /* axes; the last of both may have length 1 */
    int64_t kept[SW_AXES_MAX], kept_step[SW_AXES_MAX];
    int64_t reduced[SW_AXES_MAX], reduced_step[SW_AXES_MAX];
    int64_t outputs, n; /* positions of the kept and of the reduced axes; n is 1 to 2^31 - 1 */
    int index_bytes; /* of the position that won: 1 or 2, lowest byte first, or 4, a number */
} sw_max_spec;

/* A tensor (outer, n, inner) as lines along its middle axis, outer * inner of them. */
typedef struct {
    int64_t outer, n, inner;
    bool reverse; /* from the last element of a line to the first */
} sw_lines;

/* c (results..., m, n) contiguous; result r is the sum over the summed positions s, in
 * row-major order, of A(r, s) B(r, s), an (m, k) by a (k, n) matrix. A(i, j) = a[i * a_row + j
 * * a_col] after r and s with their steps; a step of 0 repeats. */
typedef struct {
    float *c;
    const float *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    int64_t m, n, k;
    int n_results, n_sums; /* axes */
    int64_t result[SW_AXES_MAX], result_a[SW_AXES_MAX], result_b[SW_AXES_MAX];
    int64_t sum[SW_AXES_MAX], sum_a[SW_AXES_MAX], sum_b[SW_AXES_MAX];
    bool accumulate;
    /* As in sw_gemm. A summed position is a piece of k: it is padded for itself. */
    sw_bf16_order order;
    bool a_half, b_half, c_half;
} sw_products;

typedef struct {
    /* y may be x: each element is read before it is written. */
    void (*dropout)(float *y, const float *x, const sw_drop *d, bool accumulate,
                    const sw_par *par);

    /* y (ids, width): rows of table (rows, width). Ids are in 0..rows-1. half: the table is
     * bf16, its pointer cast from uint16_t *; y_half: and y is too. stored: the table in 8 or 4
     * bits, in its place; NULL: none. */
    void (*take_rows)(float *y, const float *table, const sw_ids *ids, int64_t width, bool half,
                      bool y_half, const sw_stored *stored, const sw_par *par);
    /* table (rows, width) = sums of the rows of dy that each id names, in the order of ids. */
    void (*add_rows)(float *table, const float *dy, const sw_ids *ids, int64_t rows,
                     int64_t width, bool accumulate, const sw_par *par);

    /* y (kept positions) and index (the position that won, the first of equals); NULL: not
     * written. The first NaN wins. */
    void (*max_axes)(float *y, void *index, const float *x, const sw_max_spec *s,
                     const sw_par *par);
    /* dx, n_dx elements of which the kept and reduced axes name each once, gets dy where its
     * position won and zeros elsewhere. */
    void (*max_axes_dx)(float *dx, const float *dy, const void *index, const sw_max_spec *s,
                        bool accumulate, const sw_par *par);

    /* An element of y is the sum of those of x in its line from the beginning up to it, one
     * after the other in float64. y may be x. */
    void (*cumsum)(float *y, const float *x, const sw_lines *s, bool accumulate,
                   const sw_par *par);

    /* One task per result where there are as many as threads, else per tile of each. */
    void (*products)(const sw_products *p, const sw_par *par);

    /* y may be x: each pair is read before it is written. */
    void (*rotary)(float *y, const float *x, const int32_t *positions, const sw_rotary_rows *r,
                   const sw_par *par);

    /* attention.h. lse NULL: not written. Scratch is each thread's tiles; backward with the dq
     * of one head. makes: bit 0 for dq, 1 for dk, 2 for dv. */
    size_t (*attention_bytes)(const sw_attention_shape *s, int threads);
    void (*attention)(float *y, float *lse, const sw_heads *q, const sw_heads *k,
                      const sw_heads *v, const sw_attention_shape *s, void *scratch,
                      const sw_par *par);
    size_t (*attention_grad_bytes)(const sw_attention_shape *s, unsigned makes, int threads);
    void (*attention_grad)(const sw_attention_grads *g, void *scratch, const sw_par *par);
} sw_axes_kernels;
