/* Softmax cross-entropy of a block of rows: what softmax_ce and linear_ce share (losses.cu). */
#pragma once

#include "kernels/cuda/ids.h"

/* Bytes of a chunk's logits, at most, where no one asks for other chunks: from sizes alone, so
 * that all ways to run it have the same bits. Tests give fewer. */
#ifndef SW_CUDA_CE_BYTES
#define SW_CUDA_CE_BYTES (256 << 20)
#endif

struct sw_cuda_ce {
    const float *x, *lse, *dy; /* dy NULL: 1 */
    float *lse_out, *dx;       /* lse_out NULL: no one keeps it; dx may be x */
    double *row_loss;          /* of each row */
    const double *counted;     /* rows that count; NULL: all */
    sw_cuda_ids label;
    int64_t rows, cols, step; /* rows of x and dx are `step` apart; dx is 0 past its columns */
    float smoothing;
    int has_ignore, add;
    int64_t ignore;
    __device__ bool ignored(int64_t label_) const
    {
        return has_ignore != 0 && label_ == ignore;
    }
};

/* lse_out and row_loss. A label out of range makes the loss NaN. */
void sw_cuda_ce_rows(const sw_cuda_ce &e, const sw_cuda_queue *queue);
/* The mean of the losses of the rows that count into y, their number into counted; NULL: not
 * written. */
sw_status sw_cuda_ce_mean(const char *op, const sw_cuda_ce &e, float *y, double *counted,
                          void *scratch, const sw_cuda_queue *queue);
size_t sw_cuda_ce_mean_bytes(int64_t rows);
/* dx (+)= (exp(x - lse) - smoothing / cols - [label] (1 - smoothing)) dy / counted, 0 where
 * ignored. */
void sw_cuda_ce_dx(const sw_cuda_ce &e, const sw_cuda_queue *queue);
