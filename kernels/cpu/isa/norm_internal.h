/* Sixteen lanes, whatever the width of a vector: sums and maps over runs of floats, of which
 * element i lies in lane i % 16. */
#pragma once

#include "kernels/cpu/isa/vec.h"
#include "kernels/halves.h"
#include "kernels/norm.h"
#include "kernels/scalar.h"

#define LANES 16
#define NV (LANES / VW)
#define RUN (32 * LANES) /* elements that are summed in float32 */
/* Runs whose sums go side by side: one would wait for each of its additions. */
#define SIDE (VW >= 8 ? 4 : 2)

typedef struct {
    vf v[NV];
} swi_16;

SW_VEC_FN swi_16 l_set1(float x)
{
    swi_16 r;
    SW_UNROLL for (int i = 0; i < NV; i++) r.v[i] = vset1(x);
    return r;
}
SW_VEC_FN swi_16 l_load(const float *p)
{
    swi_16 r;
    SW_UNROLL for (int i = 0; i < NV; i++) r.v[i] = vload(p + i * VW);
    return r;
}
SW_VEC_FN void l_store(float *p, swi_16 a)
{
    SW_UNROLL for (int i = 0; i < NV; i++) vstore(p + i * VW, a.v[i]);
}
SW_VEC_FN swi_16 l_add(swi_16 a, swi_16 b)
{
    SW_UNROLL for (int i = 0; i < NV; i++) a.v[i] = a.v[i] + b.v[i];
    return a;
}
SW_VEC_FN swi_16 l_sub(swi_16 a, swi_16 b)
{
    SW_UNROLL for (int i = 0; i < NV; i++) a.v[i] = a.v[i] - b.v[i];
    return a;
}
SW_VEC_FN swi_16 l_mul(swi_16 a, swi_16 b)
{
    SW_UNROLL for (int i = 0; i < NV; i++) a.v[i] = a.v[i] * b.v[i];
    return a;
}
/* Number i of float32 or bf16; `half` is a constant of each loop. */
SW_VEC_FN float l_one(const void *p, int64_t i, bool half)
{
    return half ? sw_bf16_widen(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}
/* The first n from number i on, `rest` in the other lanes. */
SW_VEC_FN swi_16 l_take_as(const void *p, int64_t i, int64_t n, swi_16 rest, bool half)
{
    const void *at = (const char *)p + i * (half ? 2 : 4);
    if (n >= LANES && !half)
        return l_load(at);
    if (n >= LANES) {
        SW_UNROLL for (int v = 0; v < NV; v++) rest.v[v] =
            vload_half((const uint16_t *)at + v * VW);
        return rest;
    }
    float lane[LANES];
    l_store(lane, rest);
    for (int64_t k = 0; k < n; k++)
        lane[k] = l_one(at, k, half);
    return l_load(lane);
}
SW_VEC_FN swi_16 l_take(const float *p, int64_t n, swi_16 rest)
{
    return l_take_as(p, 0, n, rest, false);
}
SW_VEC_FN void l_put_as(void *p, int64_t i, int64_t n, swi_16 a, bool half)
{
    float lane[LANES];
    if (half) {
        SW_UNROLL for (int v = 0; v < NV; v++)
            vstore_half_upto((uint16_t *)p + i + v * VW, a.v[v], n - v * VW);
    } else if (n >= LANES) {
        l_store((float *)p + i, a);
    } else {
        l_store(lane, a);
        for (int64_t k = 0; k < n; k++)
            ((float *)p)[i + k] = lane[k];
    }
}
/* The lanes in float64: vectors of half as many. */
typedef double vd __attribute__((vector_size(VW * 4)));
typedef struct {
    vd v[2 * NV];
} swi_16d;

SW_VEC_FN swi_16d d_load(const double *p)
{
    swi_16d r;
    memcpy(&r, p, sizeof r);
    return r;
}
SW_VEC_FN void d_store(double *p, swi_16d a)
{
    memcpy(p, &a, sizeof a);
}
SW_VEC_FN swi_16d d_add(swi_16d a, swi_16d b)
{
    SW_UNROLL for (int i = 0; i < 2 * NV; i++) a.v[i] = a.v[i] + b.v[i];
    return a;
}
/* The lower and the upper half of a vector. */
SW_VEC_FN vd v_low(vf a)
{
#if SW_ISA_ID == 2
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
#elif SW_ISA_ID == 1
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
#else
    return (vd){(double)a[0], (double)a[1]};
#endif
}
SW_VEC_FN vd v_high(vf a)
{
#if SW_ISA_ID == 2
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
#elif SW_ISA_ID == 1
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
#else
    return (vd){(double)a[2], (double)a[3]};
#endif
}
SW_VEC_FN swi_16d l_wide(swi_16 a)
{
    swi_16d r;
    SW_UNROLL
    for (int i = 0; i < NV; i++) {
        r.v[2 * i] = v_low(a.v[i]);
        r.v[2 * i + 1] = v_high(a.v[i]);
    }
    return r;
}

SW_VEC_FN void l_flush(double *to, swi_16 a)
{
    d_store(to, d_add(d_load(to), l_wide(a)));
}

SW_VEC_FN double swi_lanes_sum(const double *s, int lanes)
{
    double sum = 0;
    for (int k = 0; k < lanes; k++)
        sum += s[k];
    return sum;
}

SW_VEC_FN int64_t swi_run_end(int64_t i, int64_t n)
{
    return i + RUN < n ? i + RUN : n;
}

/* The terms a and b of one element: x alone; d and d d for d = x - mean; g and g (x - mean) for
 * g = dy * w, w NULL: `one` instead. */
typedef enum { SWI_X, SWI_SQUARES, SWI_SLOPES } swi_terms;
typedef struct {
    const void *x, *dy;
    const float *w;
    swi_16 mean, one;
    bool half; /* x and dy are of bf16 */
} swi_operands;

/* a and b += the terms of elements from i on, of which n are left. */
SW_VEC_FN void swi_add_terms(swi_16 *a, swi_16 *b, const swi_operands *o, swi_terms kind,
                             int64_t i, int64_t n)
{
    const swi_16 zero = l_set1(0.0f);
    if (kind == SWI_X) {
        *a = l_add(*a, l_take_as(o->x, i, n, zero, o->half));
    } else if (kind == SWI_SQUARES) {
        const swi_16 d = l_sub(l_take_as(o->x, i, n, o->mean, o->half), o->mean);
        *a = l_add(*a, d);
        *b = l_add(*b, l_mul(d, d));
    } else {
        const swi_16 scale = o->w != NULL ? l_take(o->w + i, n, zero) : o->one;
        const swi_16 g = l_mul(l_take_as(o->dy, i, n, zero, o->half), scale);
        *a = l_add(*a, g);
        if (o->x != NULL)
            *b = l_add(*b, l_mul(g, l_sub(l_take_as(o->x, i, n, o->mean, o->half), o->mean)));
    }
}

/* sum += each of n, in their order */
SW_VEC_FN void swi_add_wide(swi_16d *sum, const swi_16 *parts, int n)
{
    SW_UNROLL
    for (int k = 0; k < n; k++)
        *sum = d_add(*sum, l_wide(parts[k]));
}

/* s1 += a, s2 += b of n elements; one that is NULL is left out. */
SW_VEC_FN void swi_sums(double *s1, double *s2, const swi_operands *o, swi_terms kind,
                        int64_t n)
{
    const swi_16 zero = l_set1(0.0f);
    swi_16d sum1 = {0}, sum2 = {0};
    if (s1 != NULL)
        sum1 = d_load(s1);
    if (s2 != NULL)
        sum2 = d_load(s2);
    int64_t from = 0;
    for (; from + SIDE * RUN <= n; from += SIDE * RUN) {
        swi_16 a[SIDE], b[SIDE];
        SW_UNROLL for (int k = 0; k < SIDE; k++) a[k] = b[k] = zero;
        for (int64_t i = from; i < from + RUN; i += LANES)
            SW_UNROLL
        for (int k = 0; k < SIDE; k++)
            swi_add_terms(&a[k], &b[k], o, kind, k * RUN + i, LANES);
        if (s1 != NULL)
            swi_add_wide(&sum1, a, SIDE);
        if (s2 != NULL)
            swi_add_wide(&sum2, b, SIDE);
    }
    for (; from < n; from += RUN) {
        const int64_t end = swi_run_end(from, n);
        swi_16 a = zero, b = zero;
        int64_t i = from;
        for (; i + LANES <= end; i += LANES)
            swi_add_terms(&a, &b, o, kind, i, LANES);
        if (i < end)
            swi_add_terms(&a, &b, o, kind, i, end - i);
        if (s1 != NULL)
            sum1 = d_add(sum1, l_wide(a));
        if (s2 != NULL)
            sum2 = d_add(sum2, l_wide(b));
    }
    if (s1 != NULL)
        d_store(s1, sum1);
    if (s2 != NULL)
        d_store(s2, sum2);
}

/* s += x */
SW_VEC_FN void swi_sum(double *s, const void *x, int64_t n, bool half)
{
    const swi_operands o = {.x = x, .half = half};
    swi_sums(s, NULL, &o, SWI_X, n);
}

/* s1 += d, s2 += d d for d = x - mean; s1 may be NULL. */
SW_VEC_FN void swi_sum_square(double *s1, double *s2, const void *x, int64_t n, swi_16 mean,
                              bool half)
{
    const swi_operands o = {.x = x, .mean = mean, .half = half};
    swi_sums(s1, s2, &o, SWI_SQUARES, n);
}

/* s1 += g, s2 += g (x - mean) for g = dy * w; w NULL: `one` instead. s1 and x may be NULL:
 * that sum is left out. */
SW_VEC_FN void swi_sum_slope(double *s1, double *s2, const void *dy, const void *x,
                             const float *w, swi_16 one, int64_t n, swi_16 mean, bool half)
{
    const swi_operands o = {x, dy, w, mean, one, half};
    if (x != NULL) /* a constant in each: AVX2 is 1.6 times as slow with a choice of s2 */
        swi_sums(s1, s2, &o, SWI_SLOPES, n);
    else
        swi_sums(s1, NULL, &o, SWI_SLOPES, n);
}

/* Sums of squares that float32 cannot hold, of finite numbers or not. */
SW_VEC_FN bool swi_is_beyond(double square)
{
    return !(square <= 1.7e308);
}

/* The same two sums in float64 throughout, for numbers whose squares float32 cannot hold: about
 * 0 the first, s2 NULL; about the means of the lanes both. */
SW_VEC_FN void swi_sum_wide(double *s1, double *s2, const void *x, int64_t n, const float *mean,
                            bool half)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)l_one(x, i, half) - (double)mean[i % LANES];
        s1[i % LANES] += d;
        if (s2 != NULL)
            s2[i % LANES] += d * d;
    }
}

/* y = (x - mean) rstd w + b; w, b NULL: `one` and `zero` instead. */
SW_VEC_FN void swi_put_y(void *y, const void *x, const float *w, const float *b, swi_16 one,
                         swi_16 zero, int64_t n, swi_16 mean, swi_16 rstd, bool half)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const swi_16 d = l_sub(l_take_as(x, i, n - i, mean, half), mean);
        const swi_16 scale = w != NULL ? l_take(w + i, n - i, one) : one;
        const swi_16 shift = b != NULL ? l_take(b + i, n - i, zero) : zero;
        l_put_as(y, i, n - i, l_add(l_mul(l_mul(d, rstd), scale), shift), half);
    }
}

/* dx = rstd (dy w - k1 - (x - mean) k2), added to what is there with `adds`. */
SW_VEC_FN void swi_put_dx(void *dx, const void *dy, const void *x, const float *w, swi_16 one,
                          int64_t n, swi_16 mean, swi_16 rstd, swi_16 k1, swi_16 k2, bool adds,
                          bool half)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const swi_16 scale = w != NULL ? l_take(w + i, n - i, one) : one;
        const swi_16 g = l_mul(l_take_as(dy, i, n - i, one, half), scale);
        const swi_16 d = l_sub(l_take_as(x, i, n - i, mean, half), mean);
        swi_16 r = l_mul(rstd, l_sub(l_sub(g, k1), l_mul(d, k2)));
        if (adds)
            r = l_add(l_take_as(dx, i, n - i, one, half), r);
        l_put_as(dx, i, n - i, r, half);
    }
}
