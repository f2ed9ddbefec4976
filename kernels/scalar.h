/* Scalar formulas of pointwise ops, in what C and CUDA share. Own exp, log, tanh: the same bits
 * from every compiler and C library. No fused multiply-add is asked for, so instruction sets
 * agree too. Straight-line code: compilers vectorise loops over these.
 *
 * exp and log reduce their argument as S. Moshier's Cephes (expf.c, logf.c) does; log has its
 * coefficients. The others were fitted by minimax and rounded one after the other. Results and
 * inputs below 2^-126 are zero in a run. Errors against float64 over every float are in
 * kernels/README.md (stepwell bench accuracy); a test holds them. */
#pragma once

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

/* e^r - 1 for |r| <= 0.3472; fitted to 2^-28 of e^r. */
SW_INLINE float sw_exp_less_1(float r)
{
    float p = 1.3818921288e-3f;
    p = p * r + 8.3687007427e-3f;
    p = p * r + 4.1668288410e-2f;
    p = p * r + 1.6666521132e-1f;
    p = p * r + 4.9999994040e-1f;
    return p * (r * r) + r;
}

/* n where x = n log 2 + r, |r| <= 0.3472; *power is 2^(n + up). n + up must lie in -127 .. 128,
 * the exponents of 0 and infinity. */
SW_INLINE float sw_exp_whole(float x, float up, float *power)
{
    /* 1.5 * 2^23: rounds to an integer in the low bits; there an exponent begins. */
    const float magic = 12583039.0f + up;
    const float t = x * 1.44269504088896341f + magic;
    *power = sw_float_of(sw_bits_of(t) << 23);
    return t - magic;
}

/* e^r - 1 of that r; log 2 in two parts, n times the first is exact. */
#define SW_LOG2_HIGH 0.693359375f
#define SW_LOG2_LOW -2.12194440e-4f
SW_INLINE float sw_exp_rest(float x, float n)
{
    return sw_exp_less_1((x - n * SW_LOG2_HIGH) - n * SW_LOG2_LOW);
}

/* e^x; x is clamped to [-88, 88.37]: 0 for what is below. NaN stays NaN. */
SW_INLINE float sw_expf(float x)
{
    float power;
    x = x > 88.37f ? 88.37f : x;
    x = x < -88.0f ? -88.0f : x;
    const float n = sw_exp_whole(x, 0.0f, &power);
    return (1.0f + sw_exp_rest(x, n)) * power;
}

/* 2^64 e^x for -132 <= x <= 0: what is multiplied by it before SW_EXP_DOWN may be a normal
 * number where e^x is none. */
#define SW_EXP_DOWN 5.42101086242752217e-20f /* 2^-64 */
SW_INLINE float sw_exp_up(float x)
{
    float power;
    const float n = sw_exp_whole(x, 64.0f, &power);
    return (1.0f + sw_exp_rest(x, n)) * power;
}

/* Natural logarithm of x >= 0; -inf for what is no normal number. */
SW_INLINE float sw_logf(float x)
{
    const uint32_t u = sw_bits_of(x);
    /* Mantissa in [sqrt(1/2), sqrt(2)). The difference is that of the bits as int32: below
     * 2^31 for every x. */
    const int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23;
    const float n = (float)e;
    const float m = sw_float_of(u - ((uint32_t)e << 23)) - 1.0f;
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
    return x < 1.17549435e-38f ? -sw_float_of(0x7f800000u) : r;
}

/* log(1 + e) for e in [0, 1]: the series of 2 artanh(s / 2), s = 2 e / (2 + e). */
SW_INLINE float sw_log1pf(float e)
{
    const float s = e / (1.0f + 0.5f * e), z = s * s;
    float p = 5.4701015230e-4f;
    p = p * z + 2.1877354011e-3f;
    p = p * z + 1.2506699190e-2f;
    p = p * z + 8.3333022892e-2f;
    return p * z * s + s;
}

SW_INLINE float sw_sigmoidf(float x)
{
    const float e = sw_expf(-sw_absf(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/* e^x - 1 for x <= 88, -1 below -88. With e^x = (1 + q) 2^n: 2^n q + (2^n - 1). */
SW_INLINE float sw_expm1f(float x)
{
    float power;
    x = x > 88.0f ? 88.0f : x;
    x = x < -88.0f ? -88.0f : x;
    const float n = sw_exp_whole(x, 0.0f, &power);
    return power * sw_exp_rest(x, n) + (power - 1.0f);
}

/* a = |x|, e = e^-2a: (1 - e) / (1 + e), above 1 as 1 - 2 e / (1 + e), so that what slopes make
 * of 1 - tanh^2 keeps its digits; with the sign of x. */
SW_INLINE float sw_tanhf(float x)
{
    float power;
    const float a = sw_absf(x), z = a > 44.0f ? -88.0f : -2.0f * a;
    const float n = sw_exp_whole(z, 0.0f, &power), more = power * sw_exp_rest(z, n);
    const float e = more + power, less = more + (power - 1.0f); /* e - 1 */
    const float r = (a > 1.0f ? 2.0f * e : -less) / (1.0f + e);
    const float t = a > 1.0f ? 1.0f - r : r;
    return sw_float_of((sw_bits_of(x) & 0x80000000u) | (sw_bits_of(t) & 0x7fffffffu));
}

/* sin and cos of x and so many quarter turns, |x| <= pi/4. */
SW_INLINE void sw_sincos_quarter(float x, uint32_t quarter, float *sine, float *cosine)
{
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

/* sin and cos of 2 pi u, 0 <= u < 1. */
SW_INLINE void sw_sincos_turn(float u, float *sine, float *cosine)
{
    const float magic = 12582912.0f;
    const float t = u * 4.0f + magic, q = t - magic; /* nearest quarter turn */
    /* exact difference; |x| <= pi/4 */
    sw_sincos_quarter((u * 4.0f - q) * 1.57079632679489662f, sw_bits_of(t) & 3u, sine, cosine);
}

/* sin and cos of a, |a| <= 2^31. Quarter turns are taken away in float64: with 22 bits of pi/2,
 * whose product with their number is exact, and with the rest of it. */
SW_INLINE void sw_sincosf(float a, float *sine, float *cosine)
{
    const double magic = 6755399441055744.0;
    const double q = ((double)a * 0.6366197723675814 + magic) - magic; /* nearest */
    const double x = ((double)a - q * 1.570796012878418) - q * 3.139164786504813e-07;
    sw_sincos_quarter((float)x, (uint32_t)(int32_t)q & 3u, sine, cosine);
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
SW_INLINE float sw_between(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}
/* x / (1 + e) or x e / (1 + e), e = e^-|x|. */
SW_INLINE float sw_swish_value(float x)
{
    const float c = x < -128.0f ? -128.0f : x, b = sw_absf(c), a = b > 128.0f ? 128.0f : b;
    const float up = sw_exp_up(-a), e = up * SW_EXP_DOWN;
    return (x >= 0.0f ? x : c * up * SW_EXP_DOWN) / (1.0f + e);
}
/* d/dx x s(x) = s (1 + x (1 - s)), from the input, as one quotient. */
SW_INLINE float sw_swish_slope(float x)
{
    const float c = sw_between(x, -128.0f, 128.0f);
    const float up = sw_exp_up(-sw_absf(c)), e = up * SW_EXP_DOWN, k = 1.0f + c;
    const float n = c >= 0.0f ? 1.0f + e * k : (k + e) * up * SW_EXP_DOWN;
    return n / (1.0f + e * (2.0f + e));
}

/* ---- the normal distribution, gelu and its relatives ------------------------------------- */

/* Of the normal distribution, for 0 <= a <= 14: what lies above a is bell / d, 2^64 of bell
 * e^(-a^2 / 2); d goes from 2 to sqrt(2 pi) a. p / q was fitted to 2^-25 of d by minimax over 0
 * <= a <= 14.2. The part that the square rounds off is put back. */
typedef struct {
    float bell, d;
} sw_normal_tail;
SW_INLINE sw_normal_tail sw_normal_above(float a)
{
    sw_normal_tail t;
    float power;
    const float z = a * a;
    const float high = sw_float_of(sw_bits_of(a) & 0xfffff000u); /* its square is exact */
    const float lost = (high * high - z) + (a - high) * (a + high);
    const float y = -0.5f * z, n = sw_exp_whole(y, 64.0f, &power);
    const float r = (y - n * SW_LOG2_HIGH) - (n * SW_LOG2_LOW + 0.5f * lost);
    t.bell = (1.0f + sw_exp_less_1(r)) * power;
    float p = 1.9181309268e-2f;
    p = p * a + 1.5670022368e-1f;
    p = p * a + 5.5763643980e-1f;
    p = p * a + 9.1085773706e-1f;
    float q = 9.5919240266e-3f;
    q = q * a + 9.0314693749e-2f;
    q = q * a + 3.9310243726e-1f;
    q = q * a + 9.1217046976e-1f;
    q = q * a + 1.0f;
    t.d = 2.0f + a * (2.50662827463100050f - p / q);
    return t;
}
/* x P(X < x) */
SW_INLINE float sw_gelu_value(float x)
{
    const float c = x < -14.0f ? -14.0f : x, b = sw_absf(c), a = b > 14.0f ? 14.0f : b;
    const sw_normal_tail t = sw_normal_above(a);
    const float above = t.bell / t.d;
    return x >= 0.0f ? c * (1.0f - above * SW_EXP_DOWN) : c * above * SW_EXP_DOWN;
}
/* P(X < x) + x density(x); by P(X > a) - a density(a) of a = |x|. */
SW_INLINE float sw_gelu_slope(float x)
{
    const float b = sw_absf(x), a = b > 14.0f ? 14.0f : b;
    const sw_normal_tail t = sw_normal_above(a);
    const float n = 1.0f - 0.398942280401432678f * a * t.d;
    const float below = n * t.bell / t.d * SW_EXP_DOWN;
    return x < 0.0f ? below : 1.0f - below;
}

/* 2^64 e^-v, v = 2 sqrt(2 / pi) (a + 0.044715 a^3), for 0 <= a <= 11. v / 0.0713548... is
 * a (a^2 + 22.36386): made in two parts of 12 and 24 bits, since v may be 90 and its error is
 * that of the result. */
SW_INLINE float sw_gelu_tanh_up(float a)
{
    const uint32_t half = 0xfffff000u; /* products of two such numbers are exact */
    const float high = sw_float_of(sw_bits_of(a) & half), low = a - high, z = high * high;
    const float sum = sw_float_of(sw_bits_of(z + 22.36376953125f) & half);
    const float rest = (22.36376953125f - sum) + z + (low * (a + high) + 9.0470986386e-5f);
    const float v = high * sum, v_low = low * sum + a * rest;
    /* n log 2 in the same unit. */
    const float magic = 12583039.0f + 64.0f;
    const float t = v * -0.1029432395800235f + magic;
    const float n = t - magic;
    const float r = (v + n * 9.7138671875f) + (n * 2.2384052370e-4f + v_low);
    const float q = sw_exp_less_1(-7.135481627260025e-2f * r);
    return (1.0f + q) * sw_float_of(sw_bits_of(t) << 23);
}
/* x (1 + tanh(v / 2)) / 2 = x s(v): x / (1 + e) or x e / (1 + e), e = e^-v(|x|). */
SW_INLINE float sw_gelu_tanh_value(float x)
{
    const float c = x < -11.0f ? -11.0f : x, b = sw_absf(c), a = b > 11.0f ? 11.0f : b;
    const float up = sw_gelu_tanh_up(a), e = up * SW_EXP_DOWN;
    return (x >= 0.0f ? x : c * up * SW_EXP_DOWN) / (1.0f + e);
}
/* s + x s (1 - s) v', as one quotient. */
SW_INLINE float sw_gelu_tanh_slope(float x)
{
    const float c = sw_between(x, -11.0f, 11.0f);
    const float up = sw_gelu_tanh_up(sw_absf(c)), e = up * SW_EXP_DOWN, d = 1.0f + e;
    const float g = c * (1.59576912160573071f + 0.214064448817802707f * (c * c));
    const float n = c >= 0.0f ? d + g * e : (d + g) * up * SW_EXP_DOWN;
    return n / (1.0f + e * (2.0f + e));
}

/* x tanh(log(1 + e^x)) as a quotient of polynomials in e^-|x|: nothing cancels. */
SW_INLINE float sw_mish_value(float x)
{
    const float c = x < -128.0f ? -128.0f : x, b = sw_absf(c), a = b > 128.0f ? 128.0f : b;
    const float up = sw_exp_up(-a), e = up * SW_EXP_DOWN, twice = e + e;
    const float above = 1.0f + twice, below = 2.0f + e;
    const float n = x >= 0.0f ? x * above : c * up * below * SW_EXP_DOWN;
    const float d = x >= 0.0f ? above + twice * e : e * below + 2.0f;
    return n / d;
}
/* 4 (1 + x) + e (6 + 4 x) + 4 e^2 + e^3, e = e^x, times e and by (2 + e (2 + e))^2; above 0
 * with e = e^-x. */
SW_INLINE float sw_mish_slope(float x)
{
    const float c = sw_between(x, -128.0f, 128.0f);
    const float up = sw_exp_up(-sw_absf(c)), e = up * SW_EXP_DOWN;
    const float k = 4.0f + 4.0f * c, l = 6.0f + 4.0f * c;
    const float above = 1.0f + e * (4.0f + e * (l + e * k));
    const float below = (k + e * (l + e * (4.0f + e))) * up * SW_EXP_DOWN;
    const float d_above = 1.0f + e * (4.0f + e * (8.0f + e * (8.0f + 4.0f * e)));
    const float d_below = 4.0f + e * (8.0f + e * (8.0f + e * (4.0f + e)));
    return (c >= 0.0f ? above : below) / (c >= 0.0f ? d_above : d_below);
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
    return x * (sw_between(x + 3.0f, 0.0f, 6.0f) * 0.166666666666666667f);
}
SW_INLINE float sw_hard_swish_slope(float x)
{
    const float s = x * 0.333333333333333333f + 0.5f;
    return x <= -3.0f ? 0.0f : x < 3.0f ? s : 1.0f;
}

/* alpha e^x for x < 0: a normal number where e^x may be none. Half of the scale is taken from
 * alpha first, so that a large one does not overflow. */
SW_INLINE float sw_exp_times(float alpha, float x)
{
    const float half = 2.328306436538696e-10f; /* 2^-32 */
    return alpha * half * sw_exp_up(sw_between(x, -132.0f, 0.0f)) * half;
}
SW_INLINE float sw_elu_value(float x, float alpha)
{
    return x > 0.0f ? x : alpha * sw_expm1f(x);
}
SW_INLINE float sw_elu_slope(float x, float alpha)
{
    return x <= 0.0f ? sw_exp_times(alpha, x) : 1.0f;
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
    return x <= 0.0f ? sw_exp_times(SW_SELU_ALPHA, x) : SW_SELU_SCALE;
}

/* ---- exp, log and powers over the whole range -------------------------------------------- */

/* inf above 88.7228355; 0 below -87.68, and in a run where e^x is no normal number. */
SW_INLINE float sw_exp_value(float x)
{
    float power;
    const float up = x > 88.0f ? -1.0f : 0.0f; /* 2^128 has no exponent */
    x = x > 89.0f ? 89.0f : x;
    x = x < -88.0f ? -88.0f : x;
    const float n = sw_exp_whole(x, up, &power);
    return (1.0f + sw_exp_rest(x, n)) * power * (x > 88.0f ? 2.0f : 1.0f);
}

/* NaN below 0, inf at inf; -inf at 0 and at what is no normal number. */
SW_INLINE float sw_log_value(float x)
{
    const float inf = sw_float_of(0x7f800000u);
    const float r = x == inf ? inf : sw_logf(x);
    return x > -1.17549435e-38f ? r : sw_float_of(0x7fc00000u);
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
/* a where the mask is set, else b. Both are read, as above. */
SW_INLINE float sw_chosen(uint8_t mask, float a, float b)
{
    const uint32_t set = -(uint32_t)(mask != 0);
    return sw_float_of((sw_bits_of(a) & set) | (sw_bits_of(b) & ~set));
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

/* The value of an element that dropout drops: x * 0 without its sign, so that no NaN or
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
