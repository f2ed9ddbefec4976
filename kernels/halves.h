/* Numbers of 16 bits: bf16, the upper half of a float32, and IEEE's f16. The one place that
 * rounds to bf16, for C and CUDA. */
#pragma once

#include "kernels/inline.h"
#include "kernels/scalar.h"

/* To the nearest, ties to even, as VCVTNEPS2BF16 does: what is below 2^-126 becomes zero with
 * its sign, a NaN 0x7fc0 with its sign, and what is at least half a step above the largest
 * number infinity. */
SW_INLINE uint16_t sw_bf16_round(float x)
{
    const uint32_t bits = sw_bits_of(x), size = bits & 0x7fffffffu, sign = bits & 0x80000000u;
    uint32_t rounded = size + 0x7fffu + (size >> 16 & 1);
    if (size > 0x7f800000u)
        rounded = 0x7fc00000u;
    else if (size < 0x00800000u)
        rounded = 0;
    return (uint16_t)((sign | rounded) >> 16);
}

/* Exact, as the next. */
SW_INLINE float sw_bf16_widen(uint16_t x)
{
    return sw_float_of((uint32_t)x << 16);
}

SW_INLINE float sw_f16_widen(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000u) << 16, size = x & 0x7fffu;
    if (size >= 0x7c00u) /* infinity, and NaN with its bits */
        return sw_float_of(sign | 0x7f800000u | (size & 0x3ffu) << 13);
    if (size < 0x0400u) { /* denormals are steps of 2^-24 */
        const float x24 = (float)size * 0x1p-24f;
        return sign != 0 ? -x24 : x24;
    }
    return sw_float_of(sign | ((size << 13) + 0x38000000u));
}
