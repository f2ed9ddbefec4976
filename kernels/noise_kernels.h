/* Kernels of perturbed layers: what kernels/noise.h defines, made in tiles where it is used.
 * float32.
 *
 * Numbers have the bits of sw_noise_number in every instruction set. Sums go in one fixed order
 * by shape and instruction set: no bit depends on threads, on which directions are in a launch
 * or on their order. Scratch is the caller's: as many bytes as the size function says, aligned
 * to 64, contents undefined. */
#pragma once

#include "kernels/axes.h"
#include "kernels/dense.h"
#include "kernels/noise.h"

/* The noise of a layer in one launch: y += s sigma E_d x for the rows of direction `first` + d,
 * d < a->directions, with the sign s of each repeat. Noise of weight or bias is left out where
 * its rows are 0. Sigmas (NULL: 1) multiply each element of the noise. */
typedef struct {
    const swi_noise_attrs *a;
    uint64_t seed;
    uint32_t generation, first;
    float sigma;
    const float *weight_sigmas, *bias_sigmas;
} sw_noise_layer;

/* y (batch, middle, channels, inner) = or += x (g + s sigma e) + (b + s sigma f) by channel,
 * where a->weight has e and a->bias has f. blocks: sixteen of the batch in the lanes; lanes
 * past it get x. y may be x. */
typedef struct {
    float *y;
    const float *x, *gain, *shift; /* NULL: 1; 0 */
    int64_t batch, middle, channels, inner;
    bool blocks, accumulate;
} sw_noise_affine;

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

typedef struct {
    /* to[i] = sw_noise_number(spec, part, at, first + i), i < n. */
    void (*fill)(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                 sw_noise_part part, const sw_noise_at *at);

    /* y (batch, out), x (batch, in); batch: a multiple of repeats x directions. No DROPOUT. */
    size_t (*linear_bytes)(const swi_noise_attrs *a, int64_t batch, int threads);
    void (*linear)(float *y, const float *x, int64_t batch, int64_t out,
                   const sw_noise_layer *l, void *scratch, const sw_par *par);
    /* y and x are the images of s: s->batch of them. No DROPOUT; no scratch. */
    void (*conv)(float *y, const float *x, const sw_conv *s, const sw_noise_layer *l,
                 const sw_par *par);
    /* y (ids, cols) += noise of rows of a table, which DROPOUT reads. */
    void (*embedding)(float *y, const sw_ids *ids, const float *table, const sw_noise_layer *l,
                      const sw_par *par);
    void (*affine)(const sw_noise_affine *f, const sw_noise_layer *l, const sw_par *par);
    /* to[i] = sw_noise_element of element first + i of the matrix, i < n: by rows, so many rows
     * at a time are best. w: the parameter's same elements, for DROPOUT, which alone reads w
     * (NULL: zeros) and sigma. Runs on the calling thread. */
    void (*elements)(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                     const sw_noise_at *at, float sigma, const float *w);

    /* Scratch of n directions. */
    size_t (*gradient_bytes)(const sw_noise_spec *spec, int64_t n_rows, int64_t n);
    void (*gradient)(const sw_noise_sum *g, void *scratch, const sw_par *par);

    /* noise_move of a parameter, with iid or low-rank noise of normal numbers: theta (rows,
     * cols) in place, by numbers[SWI_MOVE_*]. Products and sums are rounded one by one and z
     * has the bits of sw_noise_element, in every instruction set. */
    void (*step)(float *theta, const swi_move_attrs *a, const sw_noise_at *at,
                 const float *numbers, const sw_par *par);
} sw_noise_kernels;
