/* Which positions of an axis of `in` positions make each of the `out` positions of a resized
 * one, in what C and CUDA share. Whole numbers are exact: a position is never off by one
 * through rounding.
 *
 * Nearest: position i is position floor(i in / out). Linear: position i lies at
 * max((i + 1/2) in / out - 1/2, 0), between its neighbours `at` and at + 1 (at the end twice
 * the last), which count 1 - w and w: half-pixel centres, PyTorch's align_corners = False.
 *
 * Every fraction here is a part and a whole, which the caller divides: devices have their own
 * way. Sizes are at most SW_RESAMPLE_MOST, so that no product overflows and weights are rounded
 * once. */
#pragma once

#include "kernels/inline.h"
#include <stdint.h>

#define SW_RESAMPLE_MOST (1 << 22)

/* floor(part / whole) is `at` of position i. */
SW_INLINE int64_t sw_resample_whole(int64_t out, int linear)
{
    return linear ? 2 * out : out;
}
SW_INLINE int64_t sw_resample_part(int64_t i, int64_t in, int64_t out, int linear)
{
    const int64_t part = (2 * i + 1) * in - out;
    return !linear ? i * in : part > 0 ? part : 0;
}

/* w of a position with this part, linear. */
SW_INLINE float sw_resample_weight(int64_t part, int64_t at, int64_t out)
{
    return (float)(part - at * 2 * out) / (float)(2 * out);
}

/* floor(part / whole) is the first position whose `at` is p or more, for p in 1 .. in - 1. */
SW_INLINE int64_t sw_resample_first_whole(int64_t in, int linear)
{
    return linear ? 2 * in : in;
}
SW_INLINE int64_t sw_resample_first_part(int64_t p, int64_t in, int64_t out, int linear)
{
    const int64_t part = linear ? (2 * p + 1) * out - in : p * out;
    return part > 0 ? part + sw_resample_first_whole(in, linear) - 1 : 0;
}

/* The same for all p: those below 1 have position 0, those past the last the end. */
SW_INLINE int64_t sw_resample_first(int64_t p, int64_t in, int64_t out, int linear)
{
    if (p <= 0 || p >= in)
        return p <= 0 ? 0 : out;
    return sw_resample_first_part(p, in, out, linear) / sw_resample_first_whole(in, linear);
}
