/* The axes of a tensor that are reduced, and those that are kept. */
#ifndef SW_CUDA_AXES_H
#define SW_CUDA_AXES_H

#include "kernels/cuda/nd.h"

/* Axes of the shape, reduced or kept, with these strides in A. */
static inline sw_cuda_nd sw_cuda_axes(const sw_shape *s, const int64_t *stride,
                                      uint32_t reduced, bool wanted)
{
    sw_cuda_nd nd = sw_cuda_nd_begin();
    for (int i = 0; i < s->rank; i++)
        if (((reduced >> i & 1u) != 0) == wanted)
            sw_cuda_nd_axis(&nd, s->dim[i], 0, stride != nullptr ? stride[i] : 0, 0, 0);
    if (stride != nullptr)
        sw_cuda_nd_join(&nd);
    return nd;
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
