/* Vectors of which only some lanes count: rows of plain images begin and end anywhere. Lanes
 * that do not count are neither read nor changed. */
#pragma once

#include "kernels/cpu/isa/vec.h"

/* Lanes lo <= i < hi, for lo <= VW and 0 <= hi <= VW; none where hi <= lo. */
SW_VEC_FN vm vrange(int64_t lo, int64_t hi)
{
#if SW_ISA_ID == 2
    return (__mmask16)(((1u << hi) - 1u) & ~((1u << lo) - 1u));
#elif SW_ISA_ID == 1
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)lo), i),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32((int)hi), i)));
#else
    const vi i = {0, 1, 2, 3};
    return (i >= viset1((int32_t)lo)) & (i < viset1((int32_t)hi));
#endif
}

/* Zero in the other lanes. */
SW_VEC_FN vf vload_where(vm m, const float *p)
{
#if SW_ISA_ID == 2
    return _mm512_maskz_loadu_ps(m, p);
#elif SW_ISA_ID == 1
    return _mm256_maskload_ps(p, _mm256_castps_si256(m));
#else
    vf v = vzero();
    for (int i = 0; i < VW; i++)
        if (m[i] != 0)
            v[i] = p[i];
    return v;
#endif
}

/* Two rows in the halves of one vector: the first n lanes of each, n <= VW / 2. Only where one
 * instruction can fill a half. */
#if SW_ISA_ID == 2
#define SW_VEC_HALVES 1
SW_VEC_FN vf vload_halves(const float *lower, const float *upper, int n)
{
    const uint32_t m = 0xffu >> (8 - n);
    const vf v = _mm512_maskz_loadu_ps((__mmask16)m, lower);
    return _mm512_mask_loadu_ps(v, (__mmask16)(m << 8), upper - 8);
}
SW_VEC_FN void vstore_halves(float *lower, float *upper, vf v, int n)
{
    const uint32_t m = 0xffu >> (8 - n);
    _mm512_mask_storeu_ps(lower, (__mmask16)m, v);
    _mm512_mask_storeu_ps(upper - 8, (__mmask16)(m << 8), v);
}
#else
#define SW_VEC_HALVES 0
#endif

/* Which positions of two vectors have the lanes lo <= i < hi of every second position. */
typedef struct {
    vm lower, upper;
} swi_even;

SW_VEC_FN swi_even veven(int64_t lo, int64_t hi)
{
    const int64_t first = 2 * lo, end = lo < hi ? 2 * hi - 1 : first;
    return (swi_even){vrange(first < VW ? first : VW, end < VW ? end : VW),
                      vrange(first > VW ? first - VW : 0, end > VW ? end - VW : 0)};
}

/* Lane i is p[2 * i] for the lanes that e was made of, else zero. */
SW_VEC_FN vf vload_even(swi_even e, const float *p)
{
    const vf a = vload_where(e.lower, p), b = vload_where(e.upper, p + VW);
#if SW_ISA_ID == 2
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, even, b);
#elif SW_ISA_ID == 1
    const __m256 mixed = _mm256_shuffle_ps(a, b, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
#else
    return (vf){a[0], a[2], b[0], b[2]};
#endif
}

/* Lane i is p[i * step] for lo <= i < hi, else zero. */
SW_VEC_FN vf vload_step(const float *p, int64_t step, int64_t lo, int64_t hi)
{
    if (step == 1)
        return vload_where(vrange(lo, hi), p);
    if (step == 2)
        return vload_even(veven(lo, hi), p);
#if SW_ISA_ID == 2
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mask_i32gather_ps(vzero(), vrange(lo, hi),
                                    _mm512_mullo_epi32(i, _mm512_set1_epi32((int)step)), p, 4);
#else
    float lane[VW] = {0};
    for (int64_t i = lo; i < hi; i++)
        lane[i] = p[i * step];
    return vload(lane);
#endif
}

/* a * b + c for a `b` that is zero in the other lanes: they keep c, whatever a is. (A c of -0
 * may become +0.) */
SW_VEC_FN vf vfma_where(vm m, vf a, vf b, vf c)
{
#if SW_ISA_ID == 2
    return _mm512_mask3_fmadd_ps(a, b, c, m);
#elif SW_ISA_ID == 1
    return vfma(_mm256_and_ps(a, m), b, c);
#else
    return vfma((vf)((vi)a & m), b, c);
#endif
}

/* The lanes [lo, hi) of a vector that count. */
typedef struct {
    vm mask;
    int64_t lo, hi;
} swi_lanes;

/* Of n lanes those that lie in a row of `size` positions: lane i is at ix + i * stride. */
SW_VEC_FN swi_lanes swi_lanes_inside(int64_t ix, int64_t stride, int64_t size, int n)
{
    const int64_t room = size - ix;
    int64_t lo = ix >= 0 ? 0 : stride == 1 ? -ix : (stride - 1 - ix) / stride;
    int64_t hi = room <= 0 ? 0 : stride == 1 ? room : (room + stride - 1) / stride;
    hi = hi < n ? hi : n;
    lo = lo < hi ? lo : hi;
    return (swi_lanes){vrange(lo, hi), lo, hi};
}
