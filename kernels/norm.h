/* Normalisation: rows (layer norm, RMS norm), groups of channels of an image, channels of a
 * batch. float32.
 *
 *   y = (x - mean) / std * weight + bias,  std = sqrt(var + epsilon)
 *
 * Sums: sixteen lanes of at most 32 float32 terms each, then float64 in lane order, so a sum is
 * wrong by at most 2e-6 of the sum of its terms' sizes, usually by less than 2e-7. The variance
 * takes two passes, the second about the rounded mean and corrected for what rounding left
 * there (Chan, Golub, LeVeque 1983): its error does not grow with the mean. The lanes are fixed
 * by shape and layout: the same bits for every instruction set and number of threads. */
#pragma once

#include "kernels/par.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    /* Rows: x, y, dy, dx (batch, channels), weight, bias, dw, db (channels), mean, rstd
     * (batch). Images: (batch, channels, inner), or in blocks (ceil(batch/16), channels, inner,
     * 16) whose lanes past the batch hold anything finite in x and become zero in y and dx;
     * weight and its like (channels). Groups: mean, rstd (batch, groups). Batch: mean, rstd,
     * var (channels). */
    int64_t batch, channels, inner, groups;
    bool blocks;
    bool half; /* of a batch: x, y, dy and dx are numbers of bf16; sums are of float32 */
    float epsilon;
    const void *x, *dy;         /* float32, or as `half` says */
    const float *weight, *bias; /* NULL: 1 and 0 */
    const float *mean, *rstd;   /* rstd = 1 / std. Rows: mean NULL for RMS norm */
    const float *var;           /* instead of rstd */
    void *y, *dx;               /* as x */
    float *mean_out, *rstd_out; /* NULL: not written */
    double *stats_out;          /* (2, channels): mean, unbiased variance; NULL: not written */
    float *dw, *db;             /* NULL, and dx: not computed, where a function makes several */
    bool add_dx, add_dw, add_db; /* adds to the output instead of overwriting it */
    /* Batch: what else is done to channels [c, end), where they are: after y of them is made,
     * before dy of them is read. By any thread, each channel once; NULL: nothing. */
    void (*also)(const void *arg, int64_t c, int64_t end);
    const void *also_arg;
} sw_norm_args;

/* Reads and writes of each. y may be x; dx may be dy or x. */
typedef struct {
    /* y, mean_out, rstd_out from x, weight, bias; without `centred` the mean is 0. */
    void (*rows)(const sw_norm_args *n, bool centred, const sw_par *par);
    /* dx from dy, x, mean, rstd, weight. */
    void (*rows_dx)(const sw_norm_args *n, const sw_par *par);
    /* dw and db from dy, x, mean, rstd; db alone from dy. */
    void (*rows_dw)(const sw_norm_args *n, const sw_par *par);

    void (*group)(const sw_norm_args *n, const sw_par *par);
    void (*group_dx)(const sw_norm_args *n, const sw_par *par);
    void (*group_dw)(const sw_norm_args *n, const sw_par *par);

    /* Statistics of the batch: y, mean_out, rstd_out, stats_out from x, weight, bias. */
    void (*batch)(const sw_norm_args *n, const sw_par *par);
    /* dx, dw, db from dy, x, mean, rstd (or var), weight; db alone from dy. */
    void (*batch_grad)(const sw_norm_args *n, const sw_par *par);
    /* Given statistics: y from x, mean, var, weight, bias; dx from dy, var, weight. */
    void (*fixed)(const sw_norm_args *n, const sw_par *par);
    void (*fixed_dx)(const sw_norm_args *n, const sw_par *par);
} sw_norm_kernels;
