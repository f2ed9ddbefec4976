/* Numbers of noise by the vector, with the bits of sw_noise_number. A vector of Philox has one
 * block in each 64 bits, whose lower half counts: then a product of two 32-bit numbers is one
 * instruction. Four vectors go side by side, because each of the ten rounds waits for the one
 * before it. The words of two blocks meet in the lanes of one register so that radius and
 * angle are vectors of their own, and an unpacking within 128 bits puts numbers in order. */
#include "kernels/cpu/isa/noise_internal.h"

enum { SETS = 4 };
typedef int32_t v32 __attribute__((vector_size(4 * VW)));

#if SW_ISA_ID == 2
typedef __m512i vw;
enum { BLOCKS = 8 };
SW_VEC_FN vw wset1(uint64_t x)
{
    return _mm512_set1_epi64((long long)x);
}
SW_VEC_FN vw wcount(uint32_t first)
{
    return _mm512_add_epi64(wset1(first), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
}
SW_VEC_FN vw wmul(vw a, vw b)
{
    return _mm512_mul_epu32(a, b);
}
/* The upper half of a, in the lower; xor of three. */
SW_VEC_FN vw wmix(vw a, vw b, uint64_t key)
{
    return _mm512_ternarylogic_epi64(_mm512_shuffle_epi32(a, _MM_PERM_DDBB), b, wset1(key),
                                     0x96);
}
/* The lower halves of a, and those of b in the places of the upper. */
SW_VEC_FN vi wmerge(vw a, vw b)
{
    return _mm512_mask_shuffle_epi32(a, 0xaaaa, b, _MM_PERM_CCAA);
}
SW_VEC_FN void wstore(uint32_t *to, vi even, vi odd)
{
    _mm512_storeu_si512(to, _mm512_unpacklo_epi32(even, odd));
    _mm512_storeu_si512(to + VW, _mm512_unpackhi_epi32(even, odd));
}
SW_VEC_FN void wstore_f(float *to, vf even, vf odd)
{
    vstore(to, _mm512_unpacklo_ps(even, odd));
    vstore(to + VW, _mm512_unpackhi_ps(even, odd));
}
SW_VEC_FN vf wfloat(vi a) /* of unsigned words, rounded once */
{
    return _mm512_cvtepu32_ps(a);
}
SW_VEC_FN vf wfloat_signed(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
SW_VEC_FN vf wsqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
SW_VEC_FN vf wflip(vf a, vi sign) /* a, negative where bit 31 of sign is set */
{
    return (vf)_mm512_ternarylogic_epi32((vi)a, sign, viset1((int32_t)0x80000000), 0x78);
}
SW_VEC_FN vm wswaps(vi a) /* bit 30 */
{
    return _mm512_test_epi32_mask(a, viset1(0x40000000));
}
#elif SW_ISA_ID == 1
typedef __m256i vw;
enum { BLOCKS = 4 };
SW_VEC_FN vw wset1(uint64_t x)
{
    return _mm256_set1_epi64x((long long)x);
}
SW_VEC_FN vw wcount(uint32_t first)
{
    return _mm256_add_epi64(wset1(first), _mm256_setr_epi64x(0, 2, 1, 3));
}
SW_VEC_FN vw wmul(vw a, vw b)
{
    return _mm256_mul_epu32(a, b);
}
SW_VEC_FN vw wmix(vw a, vw b, uint64_t key)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_shuffle_epi32(a, 0xf5), b), wset1(key));
}
SW_VEC_FN vi wmerge(vw a, vw b)
{
    return _mm256_blend_epi32(a, _mm256_shuffle_epi32(b, 0xa0), 0xaa);
}
SW_VEC_FN void wstore(uint32_t *to, vi even, vi odd)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_unpacklo_epi32(even, odd));
    _mm256_storeu_si256((__m256i *)(void *)(to + VW), _mm256_unpackhi_epi32(even, odd));
}
SW_VEC_FN void wstore_f(float *to, vf even, vf odd)
{
    vstore(to, _mm256_unpacklo_ps(even, odd));
    vstore(to + VW, _mm256_unpackhi_ps(even, odd));
}
SW_VEC_FN vf wfloat(vi a) /* both halves are exact, their sum rounds once */
{
    const vf high = _mm256_cvtepi32_ps(_mm256_srli_epi32(a, 16));
    const vf low = _mm256_cvtepi32_ps(_mm256_and_si256(a, viset1(0xffff)));
    return vadd(vmul(high, vset1(65536.0f)), low);
}
SW_VEC_FN vf wfloat_signed(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
SW_VEC_FN vf wsqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
SW_VEC_FN vf wflip(vf a, vi sign)
{
    return (vf)_mm256_xor_si256((vi)a, (sign & viset1((int32_t)0x80000000)));
}
SW_VEC_FN vm wswaps(vi a) /* a blend looks at bit 31 */
{
    return (vf)_mm256_slli_epi32(a, 1);
}
#else
enum { BLOCKS = 8 };
#endif

enum { NUMBERS = 4 * BLOCKS }; /* of a set */

#if SW_ISA_ID >= 1
/* The words of counters c: words 0 and 2 of each, words 1 and 3. */
SW_VEC_FN void rounds(vi even[SETS], vi odd[SETS], vw c[SETS][4], const swi_noise_source *from,
                      int sets)
{
    const vw m0 = wset1(0xd2511f53u), m1 = wset1(0xcd9e8d57u);
    SW_UNROLL
    for (int round = 0; round < 10; round++) {
        vw a[SETS], b[SETS];
        SW_UNROLL
        for (int s = 0; s < sets; s++) {
            a[s] = wmul(m0, c[s][0]);
            b[s] = wmul(m1, c[s][2]);
        }
        SW_UNROLL
        for (int s = 0; s < sets; s++) {
            c[s][0] = wmix(b[s], c[s][1], from->key[2 * round]);
            c[s][2] = wmix(a[s], c[s][3], from->key[2 * round + 1]);
            c[s][1] = b[s];
            c[s][3] = a[s];
        }
    }
    SW_UNROLL
    for (int s = 0; s < sets; s++) {
        even[s] = wmerge(c[s][0], c[s][2]);
        odd[s] = wmerge(c[s][1], c[s][3]);
    }
}

/* Those of `sets` sets of blocks from `first` on. */
SW_VEC_FN void philox(vi even[SETS], vi odd[SETS], const swi_noise_source *from, uint32_t first,
                      int sets)
{
    vw c[SETS][4];
    SW_UNROLL
    for (int s = 0; s < sets; s++) {
        c[s][0] = wcount(first) + wset1((uint64_t)s * BLOCKS);
        SW_UNROLL
        for (int i = 0; i < 3; i++)
            c[s][i + 1] = wset1(from->counter[i]);
    }
    rounds(even, odd, c, from, sets);
}

/* p = p x + k of every set: a product, then a sum, as sw_noise_normal4 has them. */
SW_VEC_FN void horner(vf p[SETS], const vf x[SETS], float k, int sets)
{
    SW_UNROLL
    for (int s = 0; s < sets; s++)
        p[s] = vadd(vmul(p[s], x[s]), vset1(k));
}

/* The number under the root of sw_noise_radius, for each set. */
SW_VEC_FN void squares(vf r[SETS], const vi word[SETS], int sets)
{
    vf t[SETS], n[SETS];
    SW_UNROLL
    for (int s = 0; s < sets; s++)
        t[s] = vadd(vmul(wfloat(word[s]), vset1(0x1p-32f)), vset1(0x1p-33f));
    SW_UNROLL
    for (int s = 0; s < sets; s++) {
        const vi bits = (vi)t[s];
        const vi e = ((vi)((v32)bits - (v32)viset1(0x3f3504f3)) & viset1((int32_t)0xff800000));
        t[s] = vadd((vf)(vi)((v32)bits - (v32)e), vset1(-1.0f));
        n[s] = vmul(wfloat_signed(e), vset1(SW_NOISE_LOG_N));
        r[s] = vset1(SW_NOISE_LOG_6);
    }
    horner(r, t, SW_NOISE_LOG_5, sets);
    horner(r, t, SW_NOISE_LOG_4, sets);
    horner(r, t, SW_NOISE_LOG_3, sets);
    horner(r, t, SW_NOISE_LOG_2, sets);
    horner(r, t, SW_NOISE_LOG_1, sets);
    horner(r, t, SW_NOISE_LOG_0, sets);
    SW_UNROLL
    for (int s = 0; s < sets; s++)
        r[s] = vadd(vmul(r[s], t[s]), n[s]);
}

SW_VEC_FN void normals(float *to, const swi_noise_source *from, uint32_t first, int sets)
{
    vi even[SETS], odd[SETS];
    vf r[SETS], x[SETS], z[SETS], sine[SETS], cosine[SETS];
    philox(even, odd, from, first, sets);
    squares(r, even, sets);
    SW_UNROLL
    for (int s = 0; s < sets; s++) {
        r[s] = wsqrt(r[s]);
        x[s] = vmul(wfloat_signed((vi)((v32)odd[s] << 2)), vset1(0x1p-32f));
        z[s] = vmul(x[s], x[s]);
        sine[s] = vset1(SW_NOISE_SIN_2);
        cosine[s] = vset1(SW_NOISE_COS_3);
    }
    horner(cosine, z, SW_NOISE_COS_2, sets);
    horner(sine, z, SW_NOISE_SIN_1, sets);
    horner(cosine, z, SW_NOISE_COS_1, sets);
    horner(sine, z, SW_NOISE_SIN_0, sets);
    horner(cosine, z, SW_NOISE_COS_0, sets);
    SW_UNROLL
    for (int s = 0; s < sets; s++) {
        const vf a = wflip(cosine[s], odd[s]), b = vmul(sine[s], x[s]);
        const vm swap = wswaps(odd[s]);
        wstore_f(to + s * NUMBERS, vmul(r[s], vselect(swap, b, a)),
                 vmul(r[s], vselect(swap, a, b)));
    }
}

static void words_of_set(uint32_t *to, const swi_noise_source *from, uint32_t first)
{
    vi even[SETS], odd[SETS];
    philox(even, odd, from, first, 1);
    wstore(to, even[0], odd[0]);
}

static void words_of_sets(uint32_t *to, const swi_noise_source *from, uint32_t first)
{
    vi even[SETS], odd[SETS];
    philox(even, odd, from, first, SETS);
    SW_UNROLL
    for (int s = 0; s < SETS; s++)
        wstore(to + s * NUMBERS, even[s], odd[s]);
}

/* One block of each of the directions [first, first + SETS * BLOCKS). */
static void words_of_directions(uint32_t *to, const swi_noise_source *from, uint32_t block,
                                uint32_t first)
{
    vi even[SETS], odd[SETS];
    vw c[SETS][4];
    SW_UNROLL
    for (int s = 0; s < SETS; s++) {
        c[s][0] = wset1(block);
        c[s][1] = wset1(from->counter[0]);
        c[s][2] = wset1(from->counter[1]);
        c[s][3] = wcount(first) + wset1((uint64_t)s * BLOCKS);
    }
    rounds(even, odd, c, from, SETS);
    SW_UNROLL
    for (int s = 0; s < SETS; s++)
        wstore(to + s * NUMBERS, even[s], odd[s]);
}

static void normals_of_set(float *to, const swi_noise_source *from, uint32_t first)
{
    normals(to, from, first, 1);
}

static void normals_of_sets(float *to, const swi_noise_source *from, uint32_t first)
{
    normals(to, from, first, SETS);
}

#else /* one block after the other */

static void words_of_set(uint32_t *to, const swi_noise_source *from, uint32_t first)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t *w = to + 4 * i;
        w[0] = first + i;
        memcpy(w + 1, from->counter, sizeof from->counter);
        sw_philox(w, (uint32_t)from->key[0], (uint32_t)from->key[1]);
    }
}

static void words_of_directions(uint32_t *to, const swi_noise_source *from, uint32_t block,
                                uint32_t first)
{
    for (uint32_t i = 0; i < SETS * BLOCKS; i++) {
        uint32_t *w = to + 4 * i;
        w[0] = block;
        w[1] = from->counter[0];
        w[2] = from->counter[1];
        w[3] = first + i;
        sw_philox(w, (uint32_t)from->key[0], (uint32_t)from->key[1]);
    }
}

static void words_of_sets(uint32_t *to, const swi_noise_source *from, uint32_t first)
{
    for (int s = 0; s < SETS; s++)
        words_of_set(to + s * NUMBERS, from, first + (uint32_t)(s * BLOCKS));
}

static void normals_of_set(float *to, const swi_noise_source *from, uint32_t first)
{
    uint32_t words[NUMBERS];
    words_of_set(words, from, first);
    for (int i = 0; i < NUMBERS; i += 4)
        sw_noise_normal4(to + i, words + i);
}

static void normals_of_sets(float *to, const swi_noise_source *from, uint32_t first)
{
    for (int s = 0; s < SETS; s++)
        normals_of_set(to + s * NUMBERS, from, first + (uint32_t)(s * BLOCKS));
}

#endif

void swi_noise_source_of(swi_noise_source *from, const sw_noise_spec *spec, sw_noise_part part,
                         const sw_noise_at *at)
{
    const uint64_t seed = sw_noise_seed(at->seed);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        from->key[2 * round] = k0;
        from->key[2 * round + 1] = k1;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    from->counter[0] = sw_noise_stream(spec->stream, part);
    from->counter[1] = sw_noise_generation(spec, part, at->generation);
    from->counter[2] = at->direction;
    from->distribution = spec->distribution;
}

void swi_noise_words(uint32_t *to, int64_t first, int64_t n, const swi_noise_source *from)
{
    for (; n > BLOCKS; n -= SETS * BLOCKS, first += SETS * BLOCKS, to += SETS * NUMBERS) {
        if (n < SETS * BLOCKS)
            break;
        words_of_sets(to, from, (uint32_t)first);
    }
    for (; n > 0; n -= BLOCKS, first += BLOCKS, to += NUMBERS)
        words_of_set(to, from, (uint32_t)first);
}

void swi_noise_words_of(uint32_t *to, int64_t words, uint32_t first, int64_t n,
                        const swi_noise_source *from)
{
    uint32_t block[SETS * NUMBERS];
    for (int64_t d = 0; d < n; d += SETS * BLOCKS)
        for (int64_t w = 0; w < words; w += 4) {
            words_of_directions(block, from, (uint32_t)(w / 4), first + (uint32_t)d);
            for (int64_t i = 0; i < SETS * BLOCKS && d + i < n; i++)
                memcpy(to + (d + i) * words + w, block + 4 * i,
                       (size_t)(words - w < 4 ? words - w : 4) * sizeof *to);
        }
}

/* Numbers [first, first + n), first a multiple of four. */
static void draw_normals(float *to, int64_t first, int64_t n, const swi_noise_source *from)
{
    float rest[NUMBERS];
    for (; n >= SETS * NUMBERS; n -= SETS * NUMBERS, first += SETS * NUMBERS) {
        normals_of_sets(to, from, (uint32_t)(first / 4));
        to += SETS * NUMBERS;
    }
    for (; n >= NUMBERS; n -= NUMBERS, first += NUMBERS, to += NUMBERS)
        normals_of_set(to, from, (uint32_t)(first / 4));
    if (n > 0) {
        normals_of_set(rest, from, (uint32_t)(first / 4));
        memcpy(to, rest, (size_t)n * sizeof *to);
    }
}

/* Of whole words: 32 numbers each. */
static void signs_of(float *to, const uint32_t *words, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 32; b += VW)
            vstore(to + 32 * i + b, vselect(vfrombits(words[i] >> b & ((1u << VW) - 1u)),
                                            vset1(1.0f), vset1(-1.0f)));
}

/* Two each: bits of the halves of a word, counted side by side. */
static void counts_of(float *to, const uint32_t *words, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = words[i];
        v -= v >> 1 & 0x55555555u;
        v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
        v = (v + (v >> 4)) & 0x0f0f0f0fu;
        v += v >> 8;
        to[2 * i] = ((float)(int32_t)(v & 0x1fu) - 8.0f) * 0.5f;
        to[2 * i + 1] = ((float)(int32_t)(v >> 16 & 0x1fu) - 8.0f) * 0.5f;
    }
}

/* Rademacher numbers and bits go through a buffer of SETS * NUMBERS words. */
static void draw_counted(float *to, int64_t first, int64_t n, const swi_noise_source *from)
{
    enum { WORDS = SETS * NUMBERS };
    uint32_t words[WORDS];
    float numbers[32 * WORDS];
    const bool signs = from->distribution == SW_NOISE_RADEMACHER;
    const int64_t per = signs ? 32 : 2; /* of a word */
    while (n > 0) {
        const int64_t block = first / (4 * per), skip = first - block * 4 * per;
        int64_t take = n + skip;
        take = take < per * WORDS ? take : per * WORDS;
        swi_noise_words(words, block,
                        (take + 4 * per - 1) / (4 * per) < WORDS / 4
                            ? (take + 4 * per - 1) / (4 * per)
                            : WORDS / 4,
                        from);
        (signs ? signs_of : counts_of)(numbers, words, (take + per - 1) / per);
        memcpy(to, numbers + skip, (size_t)(take - skip) * sizeof *to);
        to += take - skip;
        first += take - skip;
        n -= take - skip;
    }
}

void swi_noise_draw(float *to, int64_t first, int64_t n, const swi_noise_source *from)
{
    if (from->distribution != SW_NOISE_NORMAL) {
        draw_counted(to, first, n, from);
        return;
    }
    if (first % 4 != 0 && n > 0) { /* up to the next whole set */
        float head[NUMBERS];
        const int64_t skip = first % 4, take = n < NUMBERS - skip ? n : NUMBERS - skip;
        normals_of_set(head, from, (uint32_t)(first / 4));
        memcpy(to, head + skip, (size_t)take * sizeof *to);
        to += take;
        first += take;
        n -= take;
    }
    draw_normals(to, first, n, from);
}

void SW_KERNEL(noise, fill)(float *to, int64_t first, int64_t n, const sw_noise_spec *spec,
                            sw_noise_part part, const sw_noise_at *at)
{
    swi_noise_source from;
    swi_noise_source_of(&from, spec, part, at);
    swi_noise_draw(to, first, n, &from);
}
