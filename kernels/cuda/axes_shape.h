/* The axes of a tensor that are reduced, and those that are kept. */
#ifndef SW_CUDA_AXES_SHAPE_H
#define SW_CUDA_AXES_SHAPE_H

#include "kernels/cuda/strided_index.h"

/* Axes of the shape, reduced or kept, with these strides in A. */
static inline sw_cuda_strided sw_cuda_axes(const sw_shape *s, const int64_t *stride,
                                           uint32_t reduced, bool wanted)
{
    sw_cuda_strided strided = sw_cuda_strided_begin();
    for (int i = 0; i < s->rank; i++)
        if (((reduced >> i & 1u) != 0) == wanted)
            sw_cuda_strided_axis(&strided, s->dim[i], 0, stride != nullptr ? stride[i] : 0, 0,
                                 0);
    if (stride != nullptr)
        sw_cuda_strided_join(&strided);
    return strided;
}

/* Threads lie along the results where those are neighbours in memory, since the last axis is
 * kept, and where there is little to reduce. Decided by the shape, as scratch is. */
static inline bool sw_cuda_axes_along(const sw_shape *s, uint32_t reduced)
{
    int last = s->rank - 1;
    if (sw_cuda_axes(s, nullptr, reduced, true).n < 64)
        return true;
    while (last > 0 && s->dim[last] == 1)
        last--;
    return last >= 0 && (reduced >> last & 1u) == 0;
}

#endif
