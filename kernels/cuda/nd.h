/* Elements of a result in row-major order, and their places in operands of any strides. Axes
 * that follow each other in all operands are taken together beforehand, so most launches have
 * one or two. */
#ifndef SW_CUDA_ND_H
#define SW_CUDA_ND_H

#include "kernels/cuda/device.h"

enum { SW_CUDA_ND_Y, SW_CUDA_ND_A, SW_CUDA_ND_B, SW_CUDA_ND_M, SW_CUDA_ND_OPERANDS };

struct sw_cuda_nd {
    int rank;
    int64_t n; /* elements */
    int64_t dim[SW_MAX_RANK];
    int64_t step[SW_CUDA_ND_OPERANDS][SW_MAX_RANK];
};

/* An empty one; add its axes from the first to the last, then call sw_cuda_nd_join. */
static inline sw_cuda_nd sw_cuda_nd_begin(void)
{
    sw_cuda_nd nd = {};
    nd.n = 1;
    return nd;
}
static inline void sw_cuda_nd_axis(sw_cuda_nd *nd, int64_t dim, int64_t y, int64_t a, int64_t b,
                                   int64_t m)
{
    const int64_t step[SW_CUDA_ND_OPERANDS] = {y, a, b, m};
    nd->n *= dim;
    nd->dim[nd->rank] = dim;
    for (int k = 0; k < SW_CUDA_ND_OPERANDS; k++)
        nd->step[k][nd->rank] = step[k];
    nd->rank++;
}
static inline void sw_cuda_nd_join(sw_cuda_nd *nd)
{
    int rank = 0;
    for (int i = 0; i < nd->rank; i++) {
        if (nd->dim[i] == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; k < SW_CUDA_ND_OPERANDS && joins; k++)
            joins = nd->step[k][rank - 1] == nd->step[k][i] * nd->dim[i];
        const int to = joins ? rank - 1 : rank++;
        nd->dim[to] = (joins ? nd->dim[to] : 1) * nd->dim[i];
        for (int k = 0; k < SW_CUDA_ND_OPERANDS; k++)
            nd->step[k][to] = nd->step[k][i];
    }
    nd->rank = rank;
}

/* Stride of axis i of shape `to` in a buffer that is broadcast to it: 0 where it repeats. */
static inline int64_t sw_cuda_broadcast_step(const sw_buffer *from, const sw_shape *to, int i)
{
    const int k = i - (to->rank - from->type.shape.rank);
    return k < 0 || (from->type.shape.dim[k] == 1 && to->dim[i] != 1) ? 0 : from->stride[k];
}

/* Places of element i. */
struct sw_cuda_places {
    int64_t at[SW_CUDA_ND_OPERANDS];
};
static __device__ __forceinline__ sw_cuda_places sw_cuda_nd_places(const sw_cuda_nd &nd,
                                                                   int64_t i)
{
    sw_cuda_places p = {};
    for (int k = nd.rank - 1; k >= 0; k--) {
        const int64_t rest = i / nd.dim[k], at = i - rest * nd.dim[k];
        for (int o = 0; o < SW_CUDA_ND_OPERANDS; o++)
            p.at[o] += at * nd.step[o][k];
        i = rest;
    }
    return p;
}

#endif
