/* Elements of a result in row-major order, and their positions in operands of any strides. Axes
 * that follow each other in all operands are taken together beforehand, so most launches have
 * one or two. The host finds the factors that a position is computed with: no division. */
#pragma once

#include "kernels/cuda/device.h"

enum {
    SW_CUDA_STRIDED_Y,
    SW_CUDA_STRIDED_A,
    SW_CUDA_STRIDED_B,
    SW_CUDA_STRIDED_M,
    SW_CUDA_STRIDED_OPERANDS
};

struct sw_cuda_axis {
    sw_cuda_long_divisor dim;
    int64_t step[SW_CUDA_STRIDED_OPERANDS];
};
struct sw_cuda_strided {
    int rank;
    uint32_t wide;                  /* of fours: bit o, operand o is read in one access */
    int64_t n;                      /* elements, or fours */
    sw_cuda_axis axis[SW_MAX_RANK]; /* joined: the last one comes first */
    int64_t inside[SW_CUDA_STRIDED_OPERANDS]; /* the step inside of a four */
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
    strided->n *= dim;
    strided->axis[strided->rank++] = sw_cuda_axis{{dim, 0, 0}, {y, a, b, m}};
}

static inline void sw_cuda_strided_join(sw_cuda_strided *strided)
{
    const sw_cuda_strided all = *strided;
    int rank = 0;
    for (int i = all.rank - 1; i >= 0; i--) {
        sw_cuda_axis *last = &strided->axis[rank > 0 ? rank - 1 : 0];
        bool joins = rank > 0;
        for (int k = 0; k < SW_CUDA_STRIDED_OPERANDS && joins; k++)
            joins = all.axis[i].step[k] == last->step[k] * last->dim.by;
        if (joins)
            last->dim.by *= all.axis[i].dim.by;
        else if (all.axis[i].dim.by != 1)
            strided->axis[rank++] = all.axis[i];
    }
    strided->rank = rank;
    for (int i = 0; i < rank && strided->n > 0; i++)
        strided->axis[i].dim = sw_cuda_long_divisor_of(strided->axis[i].dim.by);
}

/* Groups of `n` elements in the place of the last axis's elements; its steps are the caller's.
 */
static inline void sw_cuda_strided_group(sw_cuda_strided *strided, int64_t n)
{
    sw_cuda_axis *last = &strided->axis[0];
    strided->n /= n;
    last->dim = sw_cuda_long_divisor_of(last->dim.by / n);
    if (last->dim.by > 1)
        return;
    strided->rank--;
    for (int i = 0; i < strided->rank; i++)
        strided->axis[i] = strided->axis[i + 1];
}

/* Fours along the last axis, where it has whole ones and y takes them in one access. `at`: the
 * operands; of bf16 and bytes the same is asked. */
static inline bool sw_cuda_strided_fours(sw_cuda_strided *strided,
                                         const void *const (&at)[SW_CUDA_STRIDED_OPERANDS])
{
    sw_cuda_axis *last = &strided->axis[0];
    strided->wide = 0;
    for (int k = 0; k < SW_CUDA_STRIDED_OPERANDS; k++) {
        bool wide = last->step[k] == 1 && sw_cuda_aligned(at[k]);
        for (int i = 1; i < strided->rank; i++)
            wide = wide && strided->axis[i].step[k] % 4 == 0;
        strided->inside[k] = last->step[k];
        strided->wide |= (uint32_t)wide << k;
    }
    if (strided->rank == 0 || last->dim.by % 4 != 0 ||
        (strided->wide >> SW_CUDA_STRIDED_Y & 1u) == 0)
        return false;
    for (int64_t &step : last->step)
        step *= 4;
    sw_cuda_strided_group(strided, 4);
    return true;
}

/* Stride of axis i of shape `to` in a buffer that is broadcast to it: 0 where it repeats. */
static inline int64_t sw_cuda_broadcast_step(const sw_buffer *from, const sw_shape *to, int i)
{
    const int k = i - (to->rank - from->type.shape.rank);
    return k < 0 || (from->type.shape.dim[k] == 1 && to->dim[i] != 1) ? 0 : from->stride[k];
}

/* Numbers of operand o from its place on: one, or four. */
template <int W>
static __device__ __forceinline__ void
sw_cuda_strided_load(float (&v)[W], const sw_cuda_numbers &x, const sw_cuda_strided &strided,
                     int o, int64_t at)
{
    const bool at_once = W == 1 || (strided.wide >> o & 1u) != 0;
    float one[1];
    if (at_once)
        sw_cuda_load(v, x, at);
    for (int k = 0; k < W && !at_once; k++) {
        if (k == 0 || strided.inside[o] != 0)
            sw_cuda_load(one, x, at + k * strided.inside[o]);
        v[k] = one[0];
    }
}

/* Places of element i, or of the first of four. */
struct sw_cuda_offsets {
    int64_t at[SW_CUDA_STRIDED_OPERANDS];
};
static __device__ __forceinline__ sw_cuda_offsets
sw_cuda_strided_offsets(const sw_cuda_strided &strided, int64_t i)
{
    sw_cuda_offsets p = {};
    SW_UNROLL
    for (int k = 0; k < SW_MAX_RANK && k < strided.rank; k++) {
        const sw_cuda_axis &axis = strided.axis[k];
        int64_t rest = 0, at = i;
        if (k + 1 < strided.rank) { /* as sw_cuda_divide: no axis has length 1 */
            rest = (int64_t)(__umul64hi((uint64_t)i, axis.dim.times) >> axis.dim.shift);
            at = i - rest * axis.dim.by;
        }
        for (int o = 0; o < SW_CUDA_STRIDED_OPERANDS; o++)
            p.at[o] += at * axis.step[o];
        i = rest;
    }
    return p;
}
