/* Dense kernels: matrix products, of bf16 too, convolution, pooling, layouts. float32.
 *
 * Bits depend on shapes and the instruction set only, never on the number of threads: each
 * element of a result is summed in one fixed order, and what is summed over images is cut into
 * chunks by shape. Scratch is the caller's: as many bytes as the size function says, aligned to
 * 64, contents undefined; every launch writes all of it. `accumulate` adds to the output
 * instead of overwriting it. */
#pragma once

#include "kernels/par.h"
#include "kernels/stored.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An element is one chain of multiply-adds over k, first to last, from zero or from c; so the
 * bits stay where the columns of A and the rows of B are cut and one product after the other is
 * added to c. The kernel works through k in steps of this: cuts at multiples of it cost least.
 */
#define SW_GEMM_BLOCK 256

/* In an order of bf16 (kernels/par.h), operands of float32 are rounded to bf16 as they are
 * read. Sums stay in float32 between pieces of k, which may be cut at multiples of 32; then +
 * bias; then a result of bf16 is rounded, once (kernels/halves.h). */
typedef struct {
    float *c;      /* row-major (m, n) */
    int64_t c_row; /* its rows are so far apart; 0: contiguous */
    const float *a;
    int64_t a_row, a_col; /* A(i, j) = a[i * a_row + j * a_col] */
    const float *b;
    int64_t b_row, b_col; /* B(i, j) = b[i * b_row + j * b_col] */
    const float *bias;    /* added to each row; NULL: none */
    bool bias_down;  /* is added to each column (in float32 first), has a number for each row */
    int64_t m, n, k; /* k == 0 gives bias or zeros */
    bool accumulate; /* begins with c instead of zero */
    sw_bf16_order order;
    bool a_half, b_half,
        c_half; /* bf16, its pointer cast from uint16_t *; in SW_ORDER_NONE only b, which then
                   gives the bits of its numbers as float32 */
    bool pack_rows;          /* in float32 A is packed as on processors where that pays
                                (sw_cpu_packs_rows): the same bits; for tests */
    const sw_stored *stored; /* B in 8 or 4 bits, in the place of b, in every order: the bits of
                                its numbers. b_row or b_col is 1; NULL: none */
} sw_gemm;

/* ---- images ------------------------------------------------------------------------------ */

/* (batch, c, h, w), either plain or in blocks (ceil(batch/16), c, h, w, 16): sixteen images in
 * the lanes. All results but sums over images have the same bits in both. */

typedef struct {
    int64_t batch; /* images; blocks = ceil(batch / 16) */
    int64_t in_c, in_h, in_w;
    int64_t out_c, out_h, out_w;
    int64_t kernel_h, kernel_w, stride, pad; /* pooling: out_c == in_c */
    bool plain; /* x, y, dx, dy are plain (batch, c, h, w) instead of blocks */
    /* Convolution alone; 0 counts as 1. Channels of x and y fall into `groups` of equal size
     * that do not meet; taps are `dilation` positions apart. */
    int64_t groups, dilation;
    /* Convolutions of one position without stride alone, which then sum as products do, in
     * sw_gemm's order; pointers are cast from uint16_t *. A piece of the gradient of w is of
     * one image or block, or of images where each has one position, and is padded for itself.
     */
    sw_bf16_order order;
    /* There, and where sw_conv_takes_halves(): of dx as of x, of dy as of y. dw, db and bias
     * are float32. */
    bool x_half, y_half, w_half;
} sw_conv;

/* May x and y, or dx and dy, of a depthwise convolution be bf16? In blocks, where images are as
 * wide as in nets and half a kernel is the padding; w, bias and conv_dw are of float32. */
static inline bool sw_conv_takes_halves(const sw_conv *s)
{
    const bool whole = s->out_w == 2 || s->out_w == 4 || (s->out_w > 0 && s->out_w % 8 == 0);
    return whole && !s->plain && s->groups == s->in_c && s->groups == s->out_c &&
           (s->kernel_w == 3 || s->kernel_w == 5) && s->kernel_h == s->kernel_w &&
           s->pad == s->kernel_w / 2 && s->dilation <= 1 && s->stride <= 2 &&
           s->in_w == s->out_w * s->stride;
}

/* y = x * s, with one s for each image and channel: (batch, channels, positions) and (batch,
 * channels), either plain or both in blocks. dx = dy s may stand in the place of dy or of x; ds
 * is the sum of dy x over the positions, whose order differs between the layouts. An output
 * that is NULL is not computed. half: all are numbers of bf16; sums are of float32. */
typedef struct {
    void *y, *dx, *ds;
    const void *x, *s, *dy;
    int64_t batch, channels, positions;
    bool half, plain, add_y, add_dx, add_ds;
} sw_scale_args;

/* Images of in_h x in_w as images of out_h x out_w, by the nearest position or linearly along
 * both axes (kernels/resample.h). Sizes are at least 1. */
typedef struct {
    int64_t batch, channels, in_h, in_w, out_h, out_w;
    bool linear, plain;
} sw_resampling;

/* Max pooling keeps the position in the window that won, in two bits where windows have at most
 * four positions, else in one byte for each output, in its layout. Two bits of a plane of a
 * plain image stand four to a byte, the first lowest; of sixteen lanes of a block the low bits
 * stand in two bytes, lane 0 lowest, and the high bits in the two after them. */
static inline bool sw_pool_packs(const sw_conv *s)
{
    return s->kernel_h * s->kernel_w <= 4;
}

/* Its bytes for one channel of an image or block. */
static inline int64_t sw_pool_index_bytes(const sw_conv *s)
{
    const int64_t n = s->out_h * s->out_w;
    if (sw_pool_packs(s))
        return s->plain ? (n + 3) / 4 : 4 * n;
    return s->plain ? n : 16 * n;
}

typedef struct {
    /* Scratch of gemm in an order of bf16 (half), whichever; there is none in float32. Packed A
     * and the sums of a result of bf16 wait there: at most 2 MiB, and no more for a product
     * that is smaller in m, n or k. The launch does not write what it does not need; without
     * scratch (NULL) it has the same bits, slower where A is large. */
    size_t (*gemm_bytes)(int64_t m, int64_t n, int64_t k, bool half);
    void (*gemm)(const sw_gemm *g, void *scratch, const sw_par *par);
    /* y (cols) = sums over x (rows, cols), whose rows are `step` apart; row after row. */
    void (*column_sums)(float *y, const float *x, int64_t rows, int64_t cols, int64_t step,
                        bool accumulate, const sw_par *par);

    /* y = conv(x, w) + bias. w: (out_c, in_c / groups, kernel_h, kernel_w), bias (out_c) or
     * NULL. Kernels of one position without stride are products: in an order of bf16 scratch
     * then holds the packed weights (at most 2 MiB; NULL: they are packed for each 64
     * columns); else there is none. */
    size_t (*conv_bytes)(const sw_conv *s);
    void (*conv)(float *y, const float *x, const float *w, const float *bias, const sw_conv *s,
                 bool accumulate, void *scratch, const sw_par *par);
    /* dx = gradient of x from dy and w; with a bias (in_c; NULL: none) for each channel, as a
     * transposed convolution has it. Scratch holds w, packed as for conv, or turned round where
     * images are in blocks and it is no product. */
    size_t (*conv_dx_bytes)(const sw_conv *s);
    void (*conv_dx)(float *dx, const float *dy, const float *w, const float *bias,
                    const sw_conv *s, bool accumulate, void *scratch, const sw_par *par);
    /* dw (shape of w) and db (out_c; NULL: not computed) from x and dy; scratch holds one
     * partial sum of dw and db per chunk of images; none where they are plain, or a product.
     * Lanes of dy past the batch are zero. */
    size_t (*conv_dw_bytes)(const sw_conv *s);
    void (*conv_dw)(float *dw, float *db, const float *x, const float *dy, const sw_conv *s,
                    bool accumulate_dw, bool accumulate_db, void *scratch, const sw_par *par);

    /* Windows of kernel_h x kernel_w (product at most 255). Max: positions outside the image
     * never win; index (NULL: not written): the position in the window that won (ky * kernel_w
     * + kx), the first of equals, as sw_pool_packs() says. The last NaN wins over all numbers,
     * as in PyTorch. */
    void (*max_pool)(float *y, uint8_t *index, const float *x, const sw_conv *s,
                     const sw_par *par);
    void (*max_pool_dx)(float *dx, const float *dy, const uint8_t *index, const sw_conv *s,
                        bool accumulate, const sw_par *par);
    /* The mean over the whole window, positions outside counted as zeros. */
    void (*avg_pool)(float *y, const float *x, const sw_conv *s, const sw_par *par);
    void (*avg_pool_dx)(float *dx, const float *dy, const sw_conv *s, bool accumulate,
                        const sw_par *par);

    /* Scratch is where columns lie, and a row for each thread. gradient: of resample_dx. */
    size_t (*resample_bytes)(const sw_resampling *s, bool gradient, int threads);
    void (*resample)(float *y, const float *x, const sw_resampling *s, void *scratch,
                     const sw_par *par);
    void (*resample_dx)(float *dx, const float *dy, const sw_resampling *s, bool accumulate,
                        void *scratch, const sw_par *par);

    void (*channel_scale)(const sw_scale_args *a, const sw_par *par);
    void (*channel_scale_grad)(const sw_scale_args *a, const sw_par *par);

    /* Plain (batch, c, h, w) to and from blocks; inner = c * h * w. Lanes past the batch become
     * zero. */
    void (*to_n16)(float *y, const float *x, int64_t batch, int64_t inner, bool accumulate,
                   const sw_par *par);
    void (*from_n16)(float *y, const float *x, int64_t batch, int64_t inner, bool accumulate,
                     const sw_par *par);
} sw_dense_kernels;
