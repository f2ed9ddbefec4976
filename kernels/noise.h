/* The noise of evolution strategies, by counter: an element of a perturbation is a function of
 * (seed, generation, parameter, direction, element), so none is stored and any part of it can
 * be recomputed anywhere. Philox (rng.h): key = seed, changed by SW_NOISE_DOMAIN so that noise
 * shares no counter with random ops; counter = (block of numbers, stream of the parameter and
 * part, generation, direction).
 *
 * A parameter is seen as a matrix (rows, cols): a weight (out, in) of a linear layer, (out, in
 * / groups x taps) of a convolution, (vocabulary, width) of an embedding, (1, n) where it is a
 * vector. E(row, col) is the element of direction d; each has mean 0 and variance 1:
 *
 *   IID        N(0, 1), its own for each direction
 *   LOW_RANK   1/sqrt(rank) sum over k of A_k(row) B_k(col), factors N(0, 1)
 *   PERMUTED   S(pr(row), pc(col)), one S for all directions; pr, pc permutations of rows and
 * of channels (col / taps), as `sides` says. Only the first keep_rows and keep_cols positions
 * of S are there; others are 0, and what is there is scaled by sqrt(rows channels / (keep_rows
 * keep_cols)) SIGN_FLIP  fr(row) S(row, col) fc(channel), signs of each direction, as `sides`
 * says SPARSE     as PERMUTED on both sides, but S is the direction's own DROPOUT    W(row,
 * col) e(row): the weight itself times one of two numbers, sigma where the row is kept and -1 /
 * sigma where it is dropped, with probability sigma^2 / (1 + sigma^2)
 *
 * The parameter gets sigma E added, or -sigma E for the second half of the repeats
 * (sw_noise_sign). This header is plain code for C and CUDA: the definition that every faster
 * kernel has to agree with. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/bijection.h"
#include <stdbool.h>

#define SW_NOISE_DOMAIN 0x6e6f6973u /* "nois" */
#define SW_NOISE_SHARED UINT32_MAX  /* the direction of what all directions share */

typedef enum {
    SW_NOISE_LOW_RANK,
    SW_NOISE_IID,
    SW_NOISE_PERMUTED,
    SW_NOISE_SIGN_FLIP,
    SW_NOISE_SPARSE,
    SW_NOISE_DROPOUT,
    SW_NOISE_KINDS,
    SW_NOISE_BITS_OF_LOGITS = SW_NOISE_KINDS /* of layers of bits alone: kernels/binary.h */
} sw_noise_kind;
enum { SW_NOISE_IN = 1, SW_NOISE_OUT = 2 }; /* sides: cols, rows */

/* Is there noise at all. */
SW_INLINE int swi_has_noise(const swi_noise_attrs *a)
{
    return a->weight.rows != 0 || a->bias.rows != 0;
}
/* Units of the weight are dropped: what it makes is multiplied, before the bias is added. */
SW_INLINE int swi_noise_drops(const swi_noise_attrs *a)
{
    return a->weight.rows != 0 && a->weight.kind == SW_NOISE_DROPOUT;
}

/* NORMAL: 4 numbers of a block; RADEMACHER: -1 or 1, 128 of a block; BITS: (bits that are set
 * in 16 - 8) / 2, 8 of a block. All have mean 0 and variance 1. */
typedef enum {
    SW_NOISE_NORMAL,
    SW_NOISE_RADEMACHER,
    SW_NOISE_BITS,
    SW_NOISE_DISTRIBUTIONS
} sw_noise_distribution;

/* Which numbers of a parameter: each part has a stream of its own. */
typedef enum {
    SW_NOISE_ELEMENTS, /* of E or S, by row x cols + col (SPARSE, PERMUTED: of positions) */
    SW_NOISE_ROWS,     /* A, signs, permutation and dropout of rows; A by k x rows + row */
    SW_NOISE_COLS      /* B, signs and permutation of channels; B by k x cols + col */
} sw_noise_part;

/* The key of the noise: seed and generation; direction. */
typedef struct {
    uint64_t seed;
    uint32_t generation, direction;
} sw_noise_at;

SW_INLINE uint64_t sw_noise_seed(uint64_t seed)
{
    return seed ^ (uint64_t)SW_NOISE_DOMAIN << 32;
}
SW_INLINE uint32_t sw_noise_stream(uint32_t stream, sw_noise_part part)
{
    return stream + (uint32_t)part * 0x9e3779b9u;
}
/* Numbers of a counter: 2 to the power of so many. */
SW_INLINE int sw_noise_power(int32_t distribution)
{
    return distribution == SW_NOISE_NORMAL ? 2 : distribution == SW_NOISE_BITS ? 3 : 7;
}

/* The generation that a part is drawn in: with a window the factor B stays that long. */
SW_INLINE uint32_t sw_noise_generation(const sw_noise_spec *s, sw_noise_part part,
                                       uint32_t generation)
{
    return part == SW_NOISE_COLS && s->window > 1 ? generation / s->window : generation;
}

SW_INLINE void sw_noise_words(uint32_t out[4], const sw_noise_spec *s, sw_noise_part part,
                              const sw_noise_at *at, uint32_t block)
{
    sw_rng_words(out, sw_noise_seed(at->seed), block, sw_noise_stream(s->stream, part),
                 sw_noise_generation(s, part, at->generation), at->direction);
}

/* -2 log(1 + t) / t for t in [sqrt(1/2) - 1, sqrt(2) - 1], within 2.9e-6; sin and cos of half
 * pi x as polynomials in x^2, |x| <= 1/2, within 1.2e-6 and 2.8e-8 (all minimax, by mpmath). */
#define SW_NOISE_LOG_6 -0.2331561229f
#define SW_NOISE_LOG_5 0.3714768027f
#define SW_NOISE_LOG_4 -0.4105088724f
#define SW_NOISE_LOG_3 0.4984067253f
#define SW_NOISE_LOG_2 -0.6662712657f
#define SW_NOISE_LOG_1 1.000017548f
#define SW_NOISE_LOG_0 -2.000002055f
#define SW_NOISE_LOG_N -1.652591659e-7f /* -2 log 2 / 2^23 */
#define SW_NOISE_SIN_2 0.0779537937f
#define SW_NOISE_SIN_1 -0.6458015288f
#define SW_NOISE_SIN_0 1.57079407f
#define SW_NOISE_COS_3 -0.02040815839f
#define SW_NOISE_COS_2 0.2535985713f
#define SW_NOISE_COS_1 -1.233697007f
#define SW_NOISE_COS_0 0.9999999723f

/* sqrt(-2 log u), u = (word + 1/2) / 2^32, which is at most 6.77. The mantissa of u goes to
 * [sqrt(1/2), sqrt(2)), so that what is left of u = 1 is 0. */
SW_INLINE float sw_noise_radius(uint32_t word)
{
    const float u = (float)word * 0x1p-32f + 0x1p-33f;
    const uint32_t bits = sw_bits_of(u), e = (bits - 0x3f3504f3u) & 0xff800000u;
    const float t = sw_float_of(bits - e) - 1.0f;
    float p = SW_NOISE_LOG_6;
    p = p * t + SW_NOISE_LOG_5;
    p = p * t + SW_NOISE_LOG_4;
    p = p * t + SW_NOISE_LOG_3;
    p = p * t + SW_NOISE_LOG_2;
    p = p * t + SW_NOISE_LOG_1;
    p = p * t + SW_NOISE_LOG_0;
    return sqrtf(p * t + (float)(int32_t)e * SW_NOISE_LOG_N);
}

/* The four normal numbers of a block, by Box and Muller: of two words the first is the radius.
 * The second is an angle in a quarter of a turn, whether its sine and cosine are exchanged, and
 * the cosine's sign. Products and sums round one by one: every device has the same bits. */
SW_INLINE void sw_noise_normal4(float out[4], const uint32_t words[4])
{
    for (int i = 0; i < 4; i += 2) {
        const uint32_t angle = words[i + 1];
        const float r = sw_noise_radius(words[i]);
        const float x = (float)(int32_t)(angle << 2) * 0x1p-32f, z = x * x;
        float s = SW_NOISE_SIN_2, c = SW_NOISE_COS_3;
        s = s * z + SW_NOISE_SIN_1;
        s = (s * z + SW_NOISE_SIN_0) * x;
        c = c * z + SW_NOISE_COS_2;
        c = c * z + SW_NOISE_COS_1;
        c = c * z + SW_NOISE_COS_0;
        c = sw_float_of(sw_bits_of(c) ^ (angle & 0x80000000u));
        out[i] = r * ((angle & 0x40000000u) != 0 ? s : c);
        out[i + 1] = r * ((angle & 0x40000000u) != 0 ? c : s);
    }
}

/* One of four, without an address: a device has no registers by index. */
SW_INLINE uint32_t sw_noise_word(const uint32_t words[4], uint32_t i)
{
    const uint32_t low = (i & 1u) != 0 ? words[1] : words[0];
    const uint32_t high = (i & 1u) != 0 ? words[3] : words[2];
    return (i & 2u) != 0 ? high : low;
}

/* Number i of a part. */
SW_INLINE float sw_noise_number(const sw_noise_spec *s, sw_noise_part part,
                                const sw_noise_at *at, int64_t i)
{
    uint32_t words[4];
    float four[4];
    const int power = sw_noise_power(s->distribution);
    const uint32_t within = (uint32_t)i & ((1u << power) - 1u);
    sw_noise_words(words, s, part, at, (uint32_t)(i >> power));
    if (s->distribution == SW_NOISE_RADEMACHER)
        return (sw_noise_word(words, within / 32) >> within % 32 & 1u) != 0 ? 1.0f : -1.0f;
    if (s->distribution == SW_NOISE_BITS) {
        uint32_t bits = sw_noise_word(words, within / 2) >> within % 2 * 16 & 0xffffu, n = 0;
        for (; bits != 0; bits &= bits - 1)
            n++;
        return ((float)n - 8.0f) * 0.5f;
    }
    sw_noise_normal4(four, words);
    const float low = (within & 1u) != 0 ? four[1] : four[0];
    const float high = (within & 1u) != 0 ? four[3] : four[2];
    return (within & 2u) != 0 ? high : low;
}

/* Sign i of a part: one bit, as Rademacher numbers. */
SW_INLINE float sw_noise_flip(const sw_noise_spec *s, sw_noise_part part, const sw_noise_at *at,
                              int64_t i)
{
    sw_noise_spec flips = *s;
    flips.distribution = SW_NOISE_RADEMACHER;
    return sw_noise_number(&flips, part, at, i);
}

SW_INLINE int64_t sw_noise_channels(const sw_noise_spec *s)
{
    return s->cols / s->taps;
}

/* The parts of a direction that are not made element by element. */
typedef struct {
    sw_noise_at at;
    sw_bijection rows, cols; /* PERMUTED, SPARSE */
    float scale;
    float sigma; /* DROPOUT */
    uint32_t drop_below;
} sw_noise_direction;

/* The permutation of a part: position of i, below n. */
SW_INLINE void sw_noise_bijection(sw_bijection *b, const sw_noise_spec *s, sw_noise_part part,
                                  const sw_noise_at *at, int64_t n)
{
    sw_bijection_make(b, (uint32_t)n, sw_noise_seed(at->seed), sw_noise_stream(s->stream, part),
                      (uint64_t)at->direction << 32 |
                          sw_noise_generation(s, part, at->generation));
}

SW_INLINE float sw_noise_scale(const sw_noise_spec *s)
{
    if (s->kind == SW_NOISE_LOW_RANK)
        return 1.0f / sqrtf((float)s->rank);
    if (s->kind == SW_NOISE_PERMUTED || s->kind == SW_NOISE_SPARSE)
        return (float)sqrt((double)s->rows * (double)sw_noise_channels(s) /
                           ((double)s->keep_rows * (double)s->keep_cols));
    return 1.0f;
}

SW_INLINE void sw_noise_prepare(sw_noise_direction *d, const sw_noise_spec *s,
                                const sw_noise_at *at, float sigma)
{
    const bool sparse = s->kind == SW_NOISE_SPARSE;
    d->at = *at;
    d->scale = sw_noise_scale(s);
    d->sigma = sigma;
    d->rows.n = d->cols.n = d->rows.rounds = d->cols.rounds = 0;
    if (sparse || (s->kind == SW_NOISE_PERMUTED && (s->sides & SW_NOISE_OUT) != 0))
        sw_noise_bijection(&d->rows, s, SW_NOISE_ROWS, at, s->rows);
    if (sparse || (s->kind == SW_NOISE_PERMUTED && (s->sides & SW_NOISE_IN) != 0))
        sw_noise_bijection(&d->cols, s, SW_NOISE_COLS, at, sw_noise_channels(s));
    const double s2 = (double)sigma * (double)sigma;
    const double share = s2 < 1e300 ? s2 / (1.0 + s2) : 0.0; /* 0 for what is no number */
    d->drop_below = (uint32_t)(share * 4294967295.0);
}

/* DROPOUT: what row `row` is multiplied by, less 1, over sigma: E = W times this. */
SW_INLINE float sw_noise_dropped(const sw_noise_spec *s, const sw_noise_direction *d,
                                 int64_t row)
{
    uint32_t words[4];
    sw_noise_words(words, s, SW_NOISE_ROWS, &d->at, (uint32_t)(row / 4));
    return sw_noise_word(words, (uint32_t)(row % 4)) < d->drop_below ? -1.0f / d->sigma
                                                                     : d->sigma;
}

/* E(row, col) of the direction; w: the parameter's element, for DROPOUT alone. */
SW_INLINE float sw_noise_element(const sw_noise_spec *s, const sw_noise_direction *d,
                                 int64_t row, int64_t col, float w)
{
    const sw_noise_at shared = {d->at.seed, d->at.generation, SW_NOISE_SHARED};
    const int64_t channel = col / s->taps, tap = col % s->taps;
    switch (s->kind) {
    case SW_NOISE_IID:
        return sw_noise_number(s, SW_NOISE_ELEMENTS, &d->at, row * s->cols + col);
    case SW_NOISE_LOW_RANK: {
        float sum = 0.0f;
        for (int32_t k = 0; k < s->rank; k++)
            sum = fmaf(sw_noise_number(s, SW_NOISE_ROWS, &d->at, k * s->rows + row),
                       sw_noise_number(s, SW_NOISE_COLS, &d->at, k * s->cols + col), sum);
        return sum * d->scale;
    }
    case SW_NOISE_PERMUTED:
    case SW_NOISE_SPARSE: {
        const int64_t r = d->rows.n != 0 ? sw_bijection_at(&d->rows, (uint32_t)row) : row;
        const int64_t c =
            d->cols.n != 0 ? sw_bijection_at(&d->cols, (uint32_t)channel) : channel;
        if (r >= s->keep_rows || c >= s->keep_cols)
            return 0.0f;
        const sw_noise_at whose = {d->at.seed, d->at.generation,
                                   s->kind == SW_NOISE_SPARSE ? d->at.direction
                                                              : SW_NOISE_SHARED};
        return d->scale * sw_noise_number(s, SW_NOISE_ELEMENTS, &whose,
                                          (r * s->keep_cols + c) * s->taps + tap);
    }
    case SW_NOISE_SIGN_FLIP: {
        float e = sw_noise_number(s, SW_NOISE_ELEMENTS, &shared, row * s->cols + col);
        if ((s->sides & SW_NOISE_OUT) != 0)
            e *= sw_noise_flip(s, SW_NOISE_ROWS, &d->at, row);
        if ((s->sides & SW_NOISE_IN) != 0)
            e *= sw_noise_flip(s, SW_NOISE_COLS, &d->at, channel);
        return e;
    }
    default:
        return w * sw_noise_dropped(s, d, row);
    }
}

/* ---- batches ------------------------------------------------------------------------------
 */

/* A batch is (repeats, directions, rows): evaluation e of it has repeat e / directions and
 * direction first + e % directions. With antithetic noise the repeats from (repeats + 1) / 2 on
 * have the negated noise, so that of an odd number the middle one is positive. */
SW_INLINE float sw_noise_sign_of_repeat(const swi_noise_attrs *a, int64_t repeat)
{
    return a->antithetic != 0 && repeat >= (a->repeats + 1) / 2 ? -1.0f : 1.0f;
}
SW_INLINE float sw_noise_sign(const swi_noise_attrs *a, int64_t evaluation)
{
    return sw_noise_sign_of_repeat(a, evaluation / a->directions);
}
