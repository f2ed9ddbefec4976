/* Elements of a result in row-major order, and their positions in operands of any strides. Axes
 * that follow each other in all operands are taken together beforehand, so most launches have
 * one or two. */
#ifndef SW_CUDA_STRIDED_INDEX_H
#define SW_CUDA_STRIDED_INDEX_H

#include "kernels/cuda/device.h"

enum {
    SW_CUDA_STRIDED_Y,
    SW_CUDA_STRIDED_A,
    SW_CUDA_STRIDED_B,
    SW_CUDA_STRIDED_M,
    SW_CUDA_STRIDED_OPERANDS
};

struct sw_cuda_strided {
    int rank;
    int64_t n; /* elements */
    int64_t dim[SW_MAX_RANK];
    int64_t step[SW_CUDA_STRIDED_OPERANDS][SW_MAX_RANK];
};

/* An empty one; add its axes from the first to the last, then call sw_cuda_strided_join. */
static inline sw_cuda_strided sw_cuda_strided_begin(void)
{
    sw_cuda_strided strided = {};
    strided.n = 1;
    return strided;
}
static inline void sw_cuda_strided_axis(sw_cuda_strided *strided, int64_t dim, int64_t y,
                                        int64_t a, int64_t b, int64_t m)
{
    const int64_t step[SW_CUDA_STRIDED_OPERANDS] = {y, a, b, m};
    strided->n *= dim;
    strided->dim[strided->rank] = dim;
    for (int k = 0; k < SW_CUDA_STRIDED_OPERANDS; k++)
        strided->step[k][strided->rank] = step[k];
    strided->rank++;
}
static inline void sw_cuda_strided_join(sw_cuda_strided *strided)
{
    int rank = 0;
    for (int i = 0; i < strided->rank; i++) {
        if (strided->dim[i] == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; k < SW_CUDA_STRIDED_OPERANDS && joins; k++)
            joins = strided->step[k][rank - 1] == strided->step[k][i] * strided->dim[i];
        const int to = joins ? rank - 1 : rank++;
        strided->dim[to] = (joins ? strided->dim[to] : 1) * strided->dim[i];
        for (int k = 0; k < SW_CUDA_STRIDED_OPERANDS; k++)
            strided->step[k][to] = strided->step[k][i];
    }
    strided->rank = rank;
}

/* Stride of axis i of shape `to` in a buffer that is broadcast to it: 0 where it repeats. */
static inline int64_t sw_cuda_broadcast_step(const sw_buffer *from, const sw_shape *to, int i)
{
    const int k = i - (to->rank - from->type.shape.rank);
    return k < 0 || (from->type.shape.dim[k] == 1 && to->dim[i] != 1) ? 0 : from->stride[k];
}

/* Places of element i. */
struct sw_cuda_offsets {
    int64_t at[SW_CUDA_STRIDED_OPERANDS];
};
static __device__ __forceinline__ sw_cuda_offsets
sw_cuda_strided_offsets(const sw_cuda_strided &strided, int64_t i)
{
    sw_cuda_offsets p = {};
    for (int k = strided.rank - 1; k >= 0; k--) {
        const int64_t rest = i / strided.dim[k], at = i - rest * strided.dim[k];
        for (int o = 0; o < SW_CUDA_STRIDED_OPERANDS; o++)
            p.at[o] += at * strided.step[o][k];
        i = rest;
    }
    return p;
}

#endif
