/* Kernels of perturbed layers: what kernels/noise.h defines, made in tiles where it is used.
 * float32.
 *
 * Numbers have the bits of sw_noise_number in every instruction set. Sums go in one fixed order
 * by shape and instruction set: no bit depends on threads, on which directions are in a launch
 * or on their order. Scratch is the caller's: as many bytes as the size function says, aligned
 * to 64, contents undefined. */
#ifndef SW_NOISE_KERNELS_H
#define SW_NOISE_KERNELS_H

#include "kernels/axes.h"
#include "kernels/dense.h"
#include "kernels/noise.h"

/* What perturbs a layer in one launch: y += sign sigma E_d x for the rows of direction `first`
 * + d, d < a->directions, in place; y has the plain result. With `a->bias.rows` above 0 the
 * noise of the bias is added too. DROPOUT reads the parameter: weight (rows, cols). */
typedef struct {
    const swi_noise_attrs *a;
    uint64_t seed;
    uint32_t generation, first;
    float sigma;
    const float *weight, *bias; /* DROPOUT; else NULL is fine */
} sw_noise_layer;

/* The estimate: to = (or +=) the sum over d < n of weights[d] E(first + d), for rows
 * [first_row, first_row + n_rows) of the parameter. to: (n_rows, spec->cols), contiguous. The
 * sum of an element goes over the directions in order, however rows are cut. A cut costs the
 * factors of the columns again: rows by the hundred are best. */
typedef struct {
    const sw_noise_spec *spec;
    uint64_t seed;
    uint32_t generation, first;
    int64_t n;
    const float *weights;
    float *to;
    const float *parameter; /* DROPOUT: the same rows of the parameter; else NULL is fine */
    float sigma;            /* DROPOUT */
    int64_t first_row, n_rows;
    bool accumulate;
} sw_noise_sum;

/* theta += factor E in place, for rows [first_row, first_row + n_rows); theta points to the
 * first of them. */
typedef struct {
    const sw_noise_spec *spec;
    sw_noise_at at;
    float factor;
    float sigma; /* DROPOUT */
    float *theta;
    int64_t first_row, n_rows;
} sw_noise_shift;

typedef struct {
    /* to[i] = sw_noise_number(spec, part, at, first + i), i < n. */
    void (*fill)(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                 sw_noise_part part, const sw_noise_at *at);

    /* y (batch, weight.rows), x (batch, weight.cols); batch: a multiple of repeats x
     * directions. */
    size_t (*linear_bytes)(const swi_noise_attrs *a, int64_t batch, int threads);
    void (*linear)(float *y, const float *x, int64_t batch, const sw_noise_layer *l,
                   void *scratch, const sw_par *par);
    /* y and x are the images of s: s->batch of them. */
    size_t (*conv_bytes)(const swi_noise_attrs *a, const sw_conv *s, int threads);
    void (*conv)(float *y, const float *x, const sw_conv *s, const sw_noise_layer *l,
                 void *scratch, const sw_par *par);
    /* y (ids, weight.cols) += the noise of rows of a table. */
    void (*embedding)(float *y, const sw_ids *ids, const sw_noise_layer *l, const sw_par *par);
    /* y (batch, channels, inner) += sign sigma (E_w(channel) x + E_b(channel)), with noise of
     * vectors: l->a->weight (a factor) and l->a->bias, of either of which rows 0 says that
     * there is none; then x, or bias, is not looked at. blocks: sixteen of the batch in the
     * lanes. x may be y's input, not y. */
    void (*affine)(float *y, const float *x, int64_t batch, int64_t channels, int64_t inner,
                   bool blocks, const sw_noise_layer *l, const sw_par *par);
    void (*move)(const sw_noise_shift *m, const sw_par *par);

    size_t (*gradient_bytes)(const sw_noise_spec *spec, int64_t n_rows, int threads);
    void (*gradient)(const sw_noise_sum *g, void *scratch, const sw_par *par);
} sw_noise_kernels;

#endif
