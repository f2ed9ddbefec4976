/* Scalar formulas of pointwise ops, in what C and CUDA share. Own exp, log, tanh: the same bits
 * from every compiler and C library. No fused multiply-add is asked for, so instruction sets
 * agree too. Straight-line code: compilers vectorise loops over these.
 *
 * exp and log follow S. Moshier's Cephes (expf.c, logf.c): reduction and minimax coefficients.
 * Errors against float64 are tested: exp and log 2 ulp, tanh and sigmoid 4 ulp. */
#ifndef SW_SCALAR_H
#define SW_SCALAR_H

#include "kernels/inline.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

SW_INLINE uint32_t sw_bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SW_INLINE float sw_float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

SW_INLINE float sw_absf(float x)
{
    return sw_float_of(sw_bits_of(x) & 0x7fffffffu);
}

/* e^x; x is clamped to [-87.3, 88.37], where the result is a normal number. NaN stays NaN. */
SW_INLINE float sw_expf(float x)
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
SW_INLINE float sw_logf(float x)
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
SW_INLINE float sw_log1pf(float e)
{
    const float u = 1.0f + e;
    return sw_logf(u) + (e - (u - 1.0f)) / u;
}

SW_INLINE float sw_sigmoidf(float x)
{
    const float e = sw_expf(-sw_absf(x));
    const float s = 1.0f / (1.0f + e);
    return x >= 0.0f ? s : e * s;
}

/* Below 0.625 Cephes' polynomial, above 1 - 2/(e^2x + 1). */
SW_INLINE float sw_tanhf(float x)
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
SW_INLINE void sw_sincos_turn(float u, float *sine, float *cosine)
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

SW_INLINE float sw_relu_value(float x)
{
    return x <= 0.0f ? 0.0f : x; /* a NaN stays */
}
/* dy where the output y is above 0 or NaN, else 0: not dy * 0. By bits, so that dy is read
 * whatever y is: what a kernel touches must not depend on the numbers. */
SW_INLINE float sw_relu_slope(float dy, float y)
{
    return sw_float_of(sw_bits_of(dy) & -(uint32_t) !(y <= 0.0f));
}
SW_INLINE float sw_swish_value(float x)
{
    return x * sw_sigmoidf(x);
}
/* d/dx x s(x) = s (1 + x (1 - s)), from the input. */
SW_INLINE float sw_swish_slope(float x)
{
    const float s = sw_sigmoidf(x);
    return s * (1.0f + x * (1.0f - s));
}

/* ---- the normal distribution, gelu and its relatives ------------------------------------- */

SW_INLINE float sw_between(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* Share of the normal distribution below x, (1 + erf(x / sqrt 2)) / 2, for |x| <= 13; *bell is
 * e^(-x^2 / 2). The upper tail is bell t P(t), t = 1 / (1 + a / 4), P fitted to 1e-8 relative
 * by minimax over 0 <= a <= 13.5. What the square rounds off is put back, so the relative error
 * stays below 8 ulp down to the end of the lower tail. */
SW_INLINE float sw_normal_below(float x, float *bell)
{
    const float a = sw_absf(x), z = a * a;
    const float high = sw_float_of(sw_bits_of(a) & 0xfffff000u); /* its square is exact */
    const float lost = (high * high - z) + (a - high) * (a + high);
    const float e = sw_expf(-0.5f * z);
    const float t = 1.0f / (1.0f + 0.25f * a);
    float p = 1.6235537943e-2f;
    p = p * t - 6.0863275509e-2f;
    p = p * t + 4.6955337617e-2f;
    p = p * t + 3.4946559512e-2f;
    p = p * t + 7.0600224661e-3f;
    p = p * t + 8.9837796151e-2f;
    p = p * t + 7.0840641309e-2f;
    p = p * t + 9.5778797578e-2f;
    p = p * t + 9.9458823701e-2f;
    p = p * t + 9.9749763064e-2f;
    *bell = e - e * (0.5f * lost);
    const float tail = *bell * t * p;
    return x < 0.0f ? tail : 1.0f - tail;
}
SW_INLINE float sw_gelu_value(float x)
{
    float bell;
    return x * sw_normal_below(sw_between(x, -13.0f, 13.0f), &bell);
}
SW_INLINE float sw_gelu_slope(float x)
{
    float bell;
    const float c = sw_between(x, -13.0f, 13.0f);
    const float below = sw_normal_below(c, &bell);
    return below + c * bell * 0.398942280401432678f;
}

/* x (1 + tanh u) / 2 = x s(2u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
SW_INLINE float sw_gelu_tanh_value(float x)
{
    const float z = x * x;
    return x * sw_sigmoidf(x * (1.59576912160573071f + 7.13548162726009022e-2f * z));
}
/* Both s and 1 - s as quotients: nothing cancels. */
SW_INLINE float sw_gelu_tanh_slope(float x)
{
    const float c = sw_between(x, -40.0f, 40.0f), z = c * c;
    const float v = c * (1.59576912160573071f + 7.13548162726009022e-2f * z);
    const float e = sw_expf(-sw_absf(v)), large = 1.0f / (1.0f + e), small = e * large;
    const float s = v >= 0.0f ? large : small, rest = v >= 0.0f ? small : large;
    return s + c * s * rest * (1.59576912160573071f + 0.214064448817802707f * z);
}

/* x tanh(log(1 + e^x)) as a quotient of polynomials in e^-|x|: nothing cancels. */
SW_INLINE float sw_mish_value(float x)
{
    const float e = sw_expf(-sw_absf(x)), twice = e + e, q = e * e;
    const float n = x >= 0.0f ? 1.0f + twice : q + twice;
    const float d = n + (x >= 0.0f ? q + q : 2.0f);
    return x * (n / d);
}
SW_INLINE float sw_mish_slope(float x)
{
    const float e = sw_expf(-sw_absf(x)), twice = e + e, q = e * e;
    const float n = x >= 0.0f ? 1.0f + twice : q + twice;
    const float d = n + (x >= 0.0f ? q + q : 2.0f);
    return n / d + x * (4.0f * (x >= 0.0f ? q : e) * (1.0f + e) / (d * d));
}

/* log(1 + e^x); its slope is the sigmoid. */
SW_INLINE float sw_softplus_value(float x)
{
    return sw_relu_value(x) + sw_log1pf(sw_expf(-sw_absf(x)));
}

/* x min(max(x + 3, 0), 6) / 6; the slope is 0 at -3, and 1 at 3 and of a NaN, as PyTorch has
 * it. */
SW_INLINE float sw_hard_swish_value(float x)
{
    return x * sw_between(x + 3.0f, 0.0f, 6.0f) * 0.166666666666666667f;
}
SW_INLINE float sw_hard_swish_slope(float x)
{
    const float s = x * 0.333333333333333333f + 0.5f;
    return x <= -3.0f ? 0.0f : x < 3.0f ? s : 1.0f;
}

/* e^x - 1: Taylor below 0.5. 4 ulp. */
SW_INLINE float sw_expm1f(float x)
{
    const float big = sw_expf(x) - 1.0f;
    float p = 2.48015873015873016e-5f;
    p = p * x + 1.98412698412698413e-4f;
    p = p * x + 1.38888888888888889e-3f;
    p = p * x + 8.33333333333333333e-3f;
    p = p * x + 4.16666666666666667e-2f;
    p = p * x + 1.66666666666666667e-1f;
    p = p * x + 0.5f;
    p = p * x + 1.0f;
    return sw_absf(x) < 0.5f ? p * x : big;
}
SW_INLINE float sw_elu_value(float x, float alpha)
{
    return x > 0.0f ? x : alpha * sw_expm1f(x);
}
SW_INLINE float sw_elu_slope(float x, float alpha)
{
    return x > 0.0f ? 1.0f : alpha * sw_expf(x);
}

/* Klambauer et al. 2017: with these numbers mean 0 and variance 1 are a fixed point. */
#define SW_SELU_SCALE 1.05070098735548049f
#define SW_SELU_ALPHA 1.75809934084737685f /* alpha times scale */
SW_INLINE float sw_selu_value(float x)
{
    return x > 0.0f ? SW_SELU_SCALE * x : SW_SELU_ALPHA * sw_expm1f(x);
}
SW_INLINE float sw_selu_slope(float x)
{
    return x > 0.0f ? SW_SELU_SCALE : SW_SELU_ALPHA * sw_expf(x);
}

/* ---- exp, log and powers over the whole range -------------------------------------------- */

/* inf above 88.73; 0 below -87.3, where e^x is no normal number. */
SW_INLINE float sw_exp_value(float x)
{
    const float r =
        sw_expf(x > 88.0f ? x - 1.0f : x) * (x > 88.0f ? 2.71828182845904524f : 1.0f);
    return x < -87.3f ? 0.0f : r;
}

/* NaN below 0, -inf at 0, inf at inf. */
SW_INLINE float sw_log_value(float x)
{
    const float inf = sw_float_of(0x7f800000u);
    const float r = x == inf ? inf : sw_logf(x);
    return x >= 0.0f ? r : sw_float_of(0x7fc00000u);
}

SW_INLINE double sw_double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* x^p, in float64 inside: the logarithm is the series of 2 artanh(s), s = (m - 1) / (m + 1),
 * the power of two Taylor's; 1 ulp. A negative x has powers of whole p only, but for -inf and
 * -0, which have those of inf and 0: as C's pow, where x^0 is 1 of a NaN too. */
SW_INLINE float sw_powf(float x, double p)
{
    const double a = (double)sw_absf(x), inf = (double)sw_float_of(0x7f800000u);
    const double t = p > -16777216.0 && p < 16777216.0 ? p : 0.0; /* larger ones are even */
    const int32_t whole = (int32_t)t;
    const uint32_t is_whole = (uint32_t)((double)whole == t);
    const uint32_t sign = (uint32_t)whole << 31 & sw_bits_of(x) & -is_whole;
    uint64_t u;
    memcpy(&u, &a, sizeof u);
    /* Mantissa in [sqrt(1/2), sqrt(2)). */
    const uint64_t e = (u - 0x3fe6a09e667f3bcdu) >> 52;
    const double m = sw_double_of(u - (e << 52));
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double l = 1.0 / 15.0;
    l = l * z + 1.0 / 13.0;
    l = l * z + 1.0 / 11.0;
    l = l * z + 1.0 / 9.0;
    l = l * z + 1.0 / 7.0;
    l = l * z + 1.0 / 5.0;
    l = l * z + 1.0 / 3.0;
    l = l * z + 1.0;
    const double log2 = l * s * 2.88539008177792681472 + (double)((int32_t)(e << 20) >> 20);
    double y = log2 * p;
    y = y > 130.0 ? 130.0 : y < -160.0 ? -160.0 : y;
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    const double k = y + magic, n = k - magic;
    const double r = (y - n) * 0.693147180559945309417;
    double v = 1.0 / 362880.0;
    v = v * r + 1.0 / 40320.0;
    v = v * r + 1.0 / 5040.0;
    v = v * r + 1.0 / 720.0;
    v = v * r + 1.0 / 120.0;
    v = v * r + 1.0 / 24.0;
    v = v * r + 1.0 / 6.0;
    v = v * r + 0.5;
    v = v * r + 1.0;
    v = v * r + 1.0;
    uint64_t bits;
    memcpy(&bits, &k, sizeof bits);
    v = v * sw_double_of((bits + 1023u) << 52);
    v = v >= 3.4028235677973366e38 ? inf : v;
    v = a == 0.0 ? (p > 0.0 ? 0.0 : p < 0.0 ? inf : 1.0) : v;
    v = a == inf ? (p > 0.0 ? inf : p < 0.0 ? 0.0 : 1.0) : v;
    v = x < 0.0f && a != inf && is_whole == 0 ? (double)sw_float_of(0x7fc00000u) : v;
    v = p == 0.0 ? 1.0 : x == x ? v : (double)x;
    return sw_float_of(sw_bits_of((float)v) ^ sign);
}

/* The usual exponents by products. */
SW_INLINE float sw_pow_value(float x, float p)
{
    return p == 2.0f ? x * x : p == 3.0f ? x * x * x : sw_powf(x, (double)p);
}
/* dy p x^(p - 1) */
SW_INLINE float sw_pow_slope(float dy, float x, float p)
{
    return p == 2.0f   ? dy * (2.0f * x)
           : p == 3.0f ? dy * (3.0f * x * x)
           : p == 0.0f ? dy * (0.0f * x)
                       : dy * (p * sw_powf(x, (double)p - 1.0));
}

/* ---- codes of a few bits: what gradients keep of an input -------------------------------- */

/* 0 for zero and NaN, 1 above, 2 below. */
SW_INLINE unsigned sw_sign_code(float x)
{
    return (unsigned)(x > 0.0f) | (unsigned)(x < 0.0f) << 1;
}
/* dy, dy * 0 or -dy: NaN for 0 where dy is no finite number. */
SW_INLINE float sw_signed_by(float dy, unsigned code)
{
    const float zero = dy - dy, by = sw_float_of(sw_bits_of(dy) ^ (uint32_t)(code >> 1) << 31);
    return code != 0 ? by : zero;
}
SW_INLINE float sw_where_set(float dy, unsigned bit)
{
    return sw_float_of(sw_bits_of(dy) & -(uint32_t)bit);
}

/* ---- normalisation ----------------------------------------------------------------------- */

/* The variance of `count` numbers from the sums of d and d d, d what is left of them without
 * any one number. */
SW_INLINE double sw_variance(double s1, double s2, double count)
{
    const double v = (s2 - s1 * s1 / count) / count;
    return v < 0.0 ? 0.0 : v;
}

SW_INLINE double sw_rstd(double variance, float epsilon)
{
    return 1.0 / sqrt(variance + (double)epsilon);
}

/* The next value of a running statistic, `share` of it from the batch. */
SW_INLINE float sw_running(float old, double fresh, double share)
{
    return (float)((1.0 - share) * (double)old + share * fresh);
}

/* ---- losses: what one element adds --------------------------------------------------------
 */

/* (x - t)^2 / 2, or p (|x - t| - p / 2) where |x - t| > p. */
SW_INLINE float sw_huber_value(float x, float t, float p)
{
    const float d = x - t, a = sw_absf(d);
    return a > p ? p * (a - 0.5f * p) : 0.5f * (d * d);
}

/* t (log t - x), and its slope in t; 0 where t is 0. */
SW_INLINE float sw_kl_value(float x, float t)
{
    const float v = t * (sw_log_value(t) - x);
    return t == 0.0f ? 0.0f : v;
}

SW_INLINE float sw_kl_slope(float x, float t)
{
    const float v = sw_log_value(t) + 1.0f - x;
    return t == 0.0f ? 0.0f : v;
}

SW_INLINE float sw_signf(float d)
{
    return d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
}

/* Binary cross-entropy of a logit x against t. */
SW_INLINE float sw_bce_value(float x, float t)
{
    const float inf = sw_float_of(0x7f800000u);
    const float line = x == inf ? x * (1.0f - t) : sw_relu_value(x) - x * t;
    return line + sw_log1pf(sw_expf(-sw_absf(x)));
}

/* log sum exp(x) of a row from its maximum and the sum of exp(x - most): NaN where that is one.
 */
SW_INLINE float sw_row_lse(float most, float sum)
{
    return sum == sum ? most + sw_logf(sum) : sum;
}

/* What dropout leaves of an element that is dropped: x * 0 without its sign, so that no NaN or
 * infinity disappears. */
SW_INLINE float sw_dropped(float x)
{
    return x - x;
}

/* Whether x takes the place of the best before it, the first of equals and of NaNs. */
SW_INLINE int sw_wins(float x, float best)
{
    return x > best || (x != x && best == best);
}

#endif
