/* One vector type per instruction set. The files of this folder are written in these names and
 * compiled once for each SW_ISA_ID: 2 is AVX-512, 1 AVX2 with FMA, 0 four lanes of compiler
 * vectors, for SSE2 and for other processors.
 *
 * Every operation is exact or rounds once per lane, so compilers cannot disagree. vfma of the
 * base set is a product and then a sum; the other two round once. Sums across lanes have one
 * fixed order. Loads and stores need no alignment. */
#pragma once

#include "kernels/cpu/isa/isa.h"
#include "kernels/par.h"
#include <string.h>

/* Constants reach register blocks by inlining, and sums stay in registers only when the loops
 * over them are unrolled early. Under a sanitizer every access brings a test: the same code is
 * left rolled up there, or compiling it would take minutes. */
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer) ||         \
    __has_feature(thread_sanitizer)
#define SW_VEC_ROLLED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SW_VEC_ROLLED
#endif

#ifdef SW_VEC_ROLLED
#define SW_VEC_FN static inline __attribute__((unused))
#define SW_UNROLL
#else
#define SW_VEC_FN static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define SW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SW_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

#if SW_ISA_ID >= 1
#include <immintrin.h>
#endif

/* ---- AVX-512 ----------------------------------------------------------------------------- */
#if SW_ISA_ID == 2

#define VW 16
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm; /* one truth value per lane */

SW_VEC_FN vf vset1(float x)
{
    return _mm512_set1_ps(x);
}
SW_VEC_FN vf vfma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* The first n lanes (0 < n <= VW); the others are zero, and not touched by the store. */
SW_VEC_FN vf vload_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (16 - n)), p);
}
SW_VEC_FN void vstore_n(float *p, vf v, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (16 - n)), v);
}
/* Where a maximum that stood at `best` gives way to x: greater, or a NaN, the last of several.
 */
SW_VEC_FN vm vwins(vf x, vf best)
{
    return _mm512_cmp_ps_mask(x, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}
SW_VEC_FN vf vselect(vm m, vf yes, vf no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}
SW_VEC_FN vi viselect(vm m, vi yes, vi no)
{
    return _mm512_mask_blend_epi32(m, no, yes);
}
SW_VEC_FN vi viset1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
SW_VEC_FN vm vieq(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}
SW_VEC_FN vi viload_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
SW_VEC_FN void vistore_u8(uint8_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(v));
}
/* The eight numbers whose codes of 4 bits a lane has, the upper half of each byte first. */
SW_VEC_FN void vlookup(vf to[8], vf codes, const float of[16])
{
    SW_UNROLL
    for (int u = 0; u < 8; u++)
        to[u] = _mm512_permutexvar_ps(
            _mm512_srli_epi32(_mm512_castps_si512(codes), u / 2 * 8 + (u % 2 == 0 ? 4 : 0)),
            _mm512_loadu_ps(of));
}
/* Bit `bit` of each lane, lane 0 lowest; and lanes from such bits. */
SW_VEC_FN uint32_t vibits(vi v, int bit)
{
    return _mm512_test_epi32_mask(v, _mm512_set1_epi32(1 << bit));
}
SW_VEC_FN vm vfrombits(uint32_t bits)
{
    return (__mmask16)bits;
}

/* ---- AVX2 -------------------------------------------------------------------------------- */
#elif SW_ISA_ID == 1

#define VW 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

SW_VEC_FN vf vset1(float x)
{
    return _mm256_set1_ps(x);
}
SW_VEC_FN vf vfma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
SW_VEC_FN __m256i vfirst(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SW_VEC_FN vf vload_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, vfirst(n));
}
SW_VEC_FN void vstore_n(float *p, vf v, int n)
{
    _mm256_maskstore_ps(p, vfirst(n), v);
}
SW_VEC_FN vm vwins(vf x, vf best)
{
    return _mm256_or_ps(_mm256_cmp_ps(x, best, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
SW_VEC_FN vf vselect(vm m, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, m);
}
SW_VEC_FN vi viselect(vm m, vi yes, vi no)
{
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m));
}
SW_VEC_FN vi viset1(int32_t x)
{
    return _mm256_set1_epi32(x);
}
SW_VEC_FN vm vieq(vi a, vi b)
{
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
}
SW_VEC_FN vi viload_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
SW_VEC_FN void vistore_u8(uint8_t *p, vi v)
{
    const __m128i w =
        _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(w, w));
}
/* Byte by byte: four codes, of four lanes each, become those bytes of their numbers. */
SW_VEC_FN void vlookup(vf to[8], vf codes, const float of[16])
{
    const __m128i gather = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i turn = _mm256_broadcastsi128_si256(gather), low = _mm256_set1_epi8(15);
    const vi x = _mm256_shuffle_epi8(_mm256_castps_si256(codes), turn);
    __m128i t[4];
    SW_UNROLL
    for (int i = 0; i < 4; i++)
        t[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(of + 4 * i)),
                                gather);
    const __m128i a = _mm_unpacklo_epi32(t[0], t[1]), b = _mm_unpacklo_epi32(t[2], t[3]);
    const __m128i c = _mm_unpackhi_epi32(t[0], t[1]), d = _mm_unpackhi_epi32(t[2], t[3]);
    const vi byte[4] = {_mm256_broadcastsi128_si256(_mm_unpacklo_epi64(a, b)),
                        _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(a, b)),
                        _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(c, d)),
                        _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(c, d))};
    SW_UNROLL
    for (int u = 0; u < 2; u++) {
        const vi code = _mm256_and_si256(u == 0 ? _mm256_srli_epi32(x, 4) : x, low);
        vi p[4];
        SW_UNROLL
        for (int i = 0; i < 4; i++)
            p[i] = _mm256_shuffle_epi8(byte[i], code);
        const vi r = _mm256_unpacklo_epi8(p[0], p[1]), s = _mm256_unpackhi_epi8(p[0], p[1]);
        const vi v = _mm256_unpacklo_epi8(p[2], p[3]), w = _mm256_unpackhi_epi8(p[2], p[3]);
        to[u] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(r, v));
        to[2 + u] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(r, v));
        to[4 + u] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(s, w));
        to[6 + u] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(s, w));
    }
}
SW_VEC_FN uint32_t vibits(vi v, int bit)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(v, 31 - bit)));
}
SW_VEC_FN vm vfrombits(uint32_t bits)
{
    const vi lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane));
}

/* ---- base -------------------------------------------------------------------------------- */
#else

#define VW 4
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm; /* 0 or -1 */

SW_VEC_FN vf vset1(float x)
{
    return (vf){x, x, x, x};
}
SW_VEC_FN vf vfma(vf a, vf b, vf c)
{
    return a * b + c;
}
SW_VEC_FN vf vload_n(const float *p, int n)
{
    return (vf){p[0], n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f};
}
SW_VEC_FN void vstore_n(float *p, vf v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
SW_VEC_FN vm vwins(vf x, vf best)
{
    return (x > best) | (x != x);
}
SW_VEC_FN vi viselect(vm m, vi yes, vi no)
{
    return (m & yes) | (~m & no);
}
SW_VEC_FN vf vselect(vm m, vf yes, vf no)
{
    return (vf)viselect(m, (vi)yes, (vi)no);
}
SW_VEC_FN vi viset1(int32_t x)
{
    return (vi){x, x, x, x};
}
SW_VEC_FN vm vieq(vi a, vi b)
{
    return a == b;
}
SW_VEC_FN vi viload_u8(const uint8_t *p)
{
    return (vi){p[0], p[1], p[2], p[3]};
}
SW_VEC_FN void vistore_u8(uint8_t *p, vi v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)v[i];
}
SW_VEC_FN void vlookup(vf to[8], vf codes, const float of[16])
{
    for (int u = 0; u < 8; u++) {
        const vi x = (vi)codes >> (u / 2 * 8 + (u % 2 == 0 ? 4 : 0)) & 15;
        to[u] = (vf){of[x[0]], of[x[1]], of[x[2]], of[x[3]]};
    }
}
SW_VEC_FN uint32_t vibits(vi v, int bit)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= ((uint32_t)v[i] >> bit & 1u) << i;
    return bits;
}
SW_VEC_FN vm vfrombits(uint32_t bits)
{
    const vi lane = {1, 2, 4, 8};
    return (viset1((int32_t)bits) & lane) == lane;
}

#endif

/* ---- for all ----------------------------------------------------------------------------- */

SW_VEC_FN vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
SW_VEC_FN void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}
SW_VEC_FN vf vadd(vf a, vf b)
{
    return a + b;
}
SW_VEC_FN vf vmul(vf a, vf b)
{
    return a * b;
}
SW_VEC_FN vf vdiv(vf a, vf b)
{
    return a / b;
}

SW_VEC_FN int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

SW_VEC_FN vf vzero(void)
{
    return vset1(0.0f);
}

/* The first n lanes where n < VW, else all. */
SW_VEC_FN vf vload_upto(const float *p, int64_t n)
{
    return n >= VW ? vload(p) : vload_n(p, (int)n);
}
SW_VEC_FN void vstore_upto(float *p, vf v, int64_t n)
{
    if (n >= VW)
        vstore(p, v);
    else
        vstore_n(p, v, (int)n);
}

/* ---- bf16 -------------------------------------------------------------------------------- */

typedef uint32_t vu __attribute__((vector_size(4 * VW)));
typedef int32_t vs __attribute__((vector_size(4 * VW)));
typedef uint16_t vh __attribute__((vector_size(2 * VW)));

#if SW_ISA_ID == 2
/* Does the instruction round these? It keeps what a NaN carries. */
SW_VEC_FN bool vneps_rounds(vf x, vf y)
{
    return __builtin_cpu_supports("avx512bf16") && _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q) == 0;
}
#endif

/* Rounded to bf16, as sw_bf16_round() does. */
SW_VEC_FN vf vround_half(vf x)
{
#if SW_ISA_ID == 2
    if (vneps_rounds(x, x))
        return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16);
#endif
    const vu bits = (vu)x, size = bits & 0x7fffffffu;
    const vu number = (vu)((vs)size > 0x007fffff), nan = (vu)((vs)size > 0x7f800000);
    const vu rounded = size + 0x7fffu + (bits >> 16 & 1u);
    const vu whole = ((rounded & ~nan) | (nan & 0x7fc00000u)) & number;
    return (vf)((whole | (bits & 0x80000000u)) & 0xffff0000u);
}
SW_VEC_FN vf vload_half(const uint16_t *p)
{
    vh v;
    memcpy(&v, p, sizeof v);
#if SW_ISA_ID == 2 /* of which compilers make two */
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)v), 16);
#else
    return (vf)(__builtin_convertvector(v, vu) << 16);
#endif
}
SW_VEC_FN vf vload_half_upto(const uint16_t *p, int64_t n)
{
    if (n >= VW)
        return vload_half(p);
    uint16_t some[VW] = {0};
    for (int i = 0; i < n; i++)
        some[i] = p[i];
    return vload_half(some);
}
SW_VEC_FN void vstore_half_upto(uint16_t *p, vf x, int64_t n)
{
#if SW_ISA_ID == 2
    if (n >= VW && vneps_rounds(x, x)) {
        const __m256bh rounded = _mm512_cvtneps_pbh(x);
        memcpy(p, &rounded, sizeof rounded);
        return;
    }
#endif
    const vh v = __builtin_convertvector((vu)vround_half(x) >> 16, vh);
    if (n >= VW)
        memcpy(p, &v, sizeof v);
    else
        for (int i = 0; i < n; i++)
            p[i] = v[i];
}

/* Cells: pairs of bf16 numbers, the first in the lower half of a lane. vpair: x and y rounded,
 * lane by lane. vcells: the first n numbers at p rounded, then zeros. vdot: vfma by the second
 * numbers of a and b, then by the first; VDPBF16PS takes denormals for zero whatever MXCSR
 * says.
 */
#if SW_ISA_ID == 2
SW_VEC_FN __m512i vhalves(vf x, vf y) /* x before y */
{
    return _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(x)),
                              (__m256i)_mm512_cvtneps_pbh(y), 1);
}
SW_VEC_FN vf vpair(vf x, vf y)
{
    static const uint16_t woven[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                     21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                     11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (vf)_mm512_permutexvar_epi16(_mm512_loadu_si512(woven), vhalves(x, y));
}
SW_VEC_FN vf vcells(const float *p, int64_t n)
{
    const vf x = vload_upto(p, n), y = n > VW ? vload_upto(p + VW, n - VW) : vzero();
    return (vf)vhalves(x, y);
}
SW_VEC_FN vf vdot(vf a, vf b, vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}
#else
SW_VEC_FN vf vpair(vf x, vf y)
{
    return (vf)((vu)vround_half(x) >> 16 | (vu)vround_half(y));
}
SW_VEC_FN vf vcells(const float *p, int64_t n)
{
    uint16_t cells[2 * VW] = {0};
    for (int i = 0; i < 2 * VW && i < n; i += VW)
        vstore_half_upto(cells + i, vload_upto(p + i, n - i), VW);
    vf v;
    memcpy(&v, cells, sizeof v);
    return v;
}
SW_VEC_FN vf vdot(vf a, vf b, vf c)
{
    c = vfma((vf)((vu)a & 0xffff0000u), (vf)((vu)b & 0xffff0000u), c);
    return vfma((vf)((vu)a << 16), (vf)((vu)b << 16), c);
}
#endif

/* The first n numbers of float32 or bf16 from number i on, zero in the other lanes of what is
 * taken. `half` is a constant of each loop. */
SW_VEC_FN vf vtake(const void *p, int64_t i, int64_t n, bool half)
{
    return half ? vload_half_upto((const uint16_t *)p + i, n)
                : vload_upto((const float *)p + i, n);
}
SW_VEC_FN void vput(void *p, int64_t i, int64_t n, vf x, bool add, bool half)
{
    if (add)
        x = vadd(vtake(p, i, n, half), x);
    if (half)
        vstore_half_upto((uint16_t *)p + i, x, n);
    else
        vstore_upto((float *)p + i, x, n);
}
/* The VW numbers of x, then those of y. */
SW_VEC_FN void vstore_halves_of(uint16_t *p, vf x, vf y)
{
#if SW_ISA_ID == 2
    if (vneps_rounds(x, y)) {
        _mm512_storeu_si512(p, vhalves(x, y));
        return;
    }
#endif
    vstore_half_upto(p, x, VW);
    vstore_half_upto(p + VW, y, VW);
}

/* ------------------------------------------------------------------------------------------ */

/* The first n lanes, n a constant: masked stores of AVX2 are slow on some processors. */
SW_VEC_FN void vstore_few(float *p, vf v, int n)
{
#if SW_ISA_ID == 1
    __m128 some = _mm256_castps256_ps128(v);
    if (n == VW) {
        vstore(p, v);
        return;
    }
    if (n >= 4) {
        _mm_storeu_ps(p, some);
        some = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n % 4 >= 2)
        _mm_storel_pi((__m64 *)(void *)p, some);
    if (n % 4 == 3)
        some = _mm_movehl_ps(some, some);
    if (n % 2 == 1)
        _mm_store_ss(p + n % 4 / 2 * 2, some);
#else
    vstore_upto(p, v, n);
#endif
}

/* VW lanes of x and then y, from lane n on. */
SW_VEC_FN vf vshift(vf x, vf y, int n)
{
#if SW_ISA_ID == 2
    static const int32_t lane[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                   11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                   22, 23, 24, 25, 26, 27, 28, 29, 30};
    return (vf)_mm512_permutex2var_ps((__m512)x, _mm512_loadu_si512(lane + n), (__m512)y);
#else
    vf both[2] = {x, y}, v;
    memcpy(&v, (float *)both + n, sizeof v);
    return v;
#endif
}

/* The larger one, lane by lane, as vwins says. */
SW_VEC_FN vf vlarger(vf best, vf x)
{
    return vselect(vwins(x, best), x, best);
}

/* out[i] = the sum of the lanes of vector i. Within each four lanes (0+2)+(1+3); then the upper
 * half of what is left is added to the lower until four are one. */
SW_VEC_FN void vsum4(float out[4], vf a, vf b, vf c, vf d)
{
#if SW_ISA_ID == 2
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 s =
        _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m128 low = _mm_add_ps(_mm512_castps512_ps128(s), _mm512_extractf32x4_ps(s, 1));
    const __m128 high = _mm_add_ps(_mm512_extractf32x4_ps(s, 2), _mm512_extractf32x4_ps(s, 3));
    _mm_storeu_ps(out, _mm_add_ps(low, high));
#elif SW_ISA_ID == 1
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 h =
        _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
#else
    const vf s = (vf){a[0], b[0], c[0], d[0]} + (vf){a[2], b[2], c[2], d[2]};
    const vf t = (vf){a[1], b[1], c[1], d[1]} + (vf){a[3], b[3], c[3], d[3]};
    vstore(out, s + t);
#endif
}

/* Rows become columns; r has VW rows. */
SW_VEC_FN void vtranspose(vf *r)
{
#if SW_ISA_ID == 0
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            const float t = r[i][j];
            r[i][j] = r[j][i];
            r[j][i] = t;
        }
#elif SW_ISA_ID == 1
    vf t[8];
    for (int i = 0; i < 8; i += 4) { /* 4 x 4 within each half */
        const vf a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        const vf c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        const vf d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
#else
    vf t[16];
    for (int i = 0; i < 16; i += 4) { /* 4 x 4 within each quarter */
        const vf a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        const vf c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
        const vf d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) { /* 4 x 4 of quarters */
        const vf a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
        const vf b = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
        const vf c = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        const vf d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
#endif
}

/* ---- threads ----------------------------------------------------------------------------- */

/* Parts may run anywhere: what they write must not overlap. Little work stays on this thread.
 */
SW_VEC_FN void vparts(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                      int n_parts, int worth)
{
    if (par != 0 && par->n_threads > 1 && n_parts > 1 && worth) {
        par->run(par, body, arg, n_parts);
        return;
    }
    for (int part = 0; part < n_parts; part++)
        body(arg, part);
}

/* Piece `part` of `parts` equal pieces of [0, n) that begin at multiples of `unit`. */
SW_VEC_FN int64_t vpiece(int64_t n, int64_t unit, int part, int parts)
{
    const int64_t units = (n + unit - 1) / unit, at = units * part / parts * unit;
    return at < n ? at : n;
}

/* Many small parts, each thread some runs of them: to hand each out by itself would cost more
 * than some of them do. */
typedef struct {
    void (*body)(void *arg, int part);
    void *arg;
    int n_parts, runs;
} vruns_job;

static inline void vruns_part(void *arg, int run)
{
    const vruns_job *j = (const vruns_job *)arg;
    const int end = (int)vpiece(j->n_parts, 1, run + 1, j->runs);
    for (int part = (int)vpiece(j->n_parts, 1, run, j->runs); part < end; part++)
        j->body(j->arg, part);
}

SW_VEC_FN void vruns(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                     int n_parts, int worth)
{
    const int runs = par != 0 && worth ? 8 * par->n_threads : 1;
    vruns_job j = {body, arg, n_parts, runs < n_parts ? runs : n_parts};
    vparts(par, vruns_part, &j, j.runs, worth);
}
