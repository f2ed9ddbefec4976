/* Scalar formulas of pointwise ops, in what C and CUDA share. Own exp, log, tanh: the same bits
 * from every compiler and C library. No fused multiply-add is asked for, so instruction sets
 * agree too. Straight-line code: compilers vectorise loops over these.
 *
 * exp and log follow S. Moshier's Cephes (expf.c, logf.c): reduction and minimax coefficients.
 * Errors against float64 are tested: exp and log 2 ulp, tanh and sigmoid 4 ulp. */
#ifndef SW_SCALAR_H
#define SW_SCALAR_H

#include <stdint.h>
#include <string.h>

static inline uint32_t sw_bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float sw_float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float sw_absf(float x)
{
    return sw_float_of(sw_bits_of(x) & 0x7fffffffu);
}

/* e^x; x is clamped to [-87.3, 88.37], where the result is a normal number. NaN stays NaN. */
static inline float sw_expf(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: rounds to an integer in the low bits */
    x = x > 88.37f ? 88.37f : x;
    x = x < -87.3f ? -87.3f : x;
    const float t = x * 1.44269504088896341f + magic;
    const float n = t - magic;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const uint32_t i = sw_bits_of(t) - sw_bits_of(magic);
    return p * sw_float_of((i + 127u) << 23);
}

/* Natural logarithm of a normal x > 0; -inf for 0. */
static inline float sw_logf(float x)
{
    const uint32_t u = sw_bits_of(x);
    /* Mantissa in [sqrt(1/2), sqrt(2)). */
    const uint32_t e = (u - 0x3f3504f3u) >> 23;
    const float n = (float)((int32_t)(e << 24) >> 24);
    const float m = sw_float_of(u - (e << 23)) - 1.0f;
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z;
    p = p + n * -2.12194440e-4f - 0.5f * z;
    const float r = m + p + n * 0.693359375f;
    return x == 0.0f ? -sw_float_of(0x7f800000u) : r;
}

/* log(1 + e) for e in [0, 1]. */
static inline float sw_log1pf(float e)
{
    const float u = 1.0f + e;
    return sw_logf(u) + (e - (u - 1.0f)) / u;
}

static inline float sw_sigmoidf(float x)
{
    const float e = sw_expf(-sw_absf(x));
    const float s = 1.0f / (1.0f + e);
    return x >= 0.0f ? s : e * s;
}

/* Below 0.625 Cephes' polynomial, above 1 - 2/(e^2x + 1). */
static inline float sw_tanhf(float x)
{
    const float a = sw_absf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * x + x;
    const float big = 1.0f - 2.0f / (sw_expf(2.0f * a) + 1.0f);
    const float large = x < 0.0f ? -big : big;
    return a < 0.625f ? small : large;
}

/* sin and cos of 2 pi u, 0 <= u < 1. */
static inline void sw_sincos_turn(float u, float *sine, float *cosine)
{
    const float magic = 12582912.0f;
    const float t = u * 4.0f + magic, q = t - magic; /* nearest quarter turn */
    const uint32_t quarter = sw_bits_of(t) & 3u;
    const float x = (u * 4.0f - q) * 1.57079632679489662f; /* exact difference; |x| <= pi/4 */
    const float z = x * x;
    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * x + x;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * (z * z) - 0.5f * z + 1.0f;
    const float a = (quarter & 1u) != 0 ? c : s, b = (quarter & 1u) != 0 ? s : c;
    *sine = (quarter & 2u) != 0 ? -a : a;
    *cosine = ((quarter + 1u) & 2u) != 0 ? -b : b;
}

/* ---- activations: values, and slopes from what the op keeps ------------------------------ */

static inline float sw_relu_value(float x)
{
    return x > 0.0f ? x : 0.0f;
}
/* dy where the output y is above 0, else 0: not dy * 0. By bits, so that dy is read whatever y
 * is: what a kernel touches must not depend on the numbers. */
static inline float sw_relu_slope(float dy, float y)
{
    return sw_float_of(sw_bits_of(dy) & -(uint32_t)(y > 0.0f));
}
static inline float sw_swish_value(float x)
{
    return x * sw_sigmoidf(x);
}
/* d/dx x s(x) = s (1 + x (1 - s)), from the input. */
static inline float sw_swish_slope(float x)
{
    const float s = sw_sigmoidf(x);
    return s * (1.0f + x * (1.0f - s));
}

#endif
