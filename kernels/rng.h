/* Random numbers by counter: Philox 4x32 with 10 rounds (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). key = seed; counter = (element / 4, stream, step,
 * run). Nothing is stored, and any element can be drawn alone. */
#pragma once

#include "kernels/scalar.h"

SW_INLINE void sw_philox(uint32_t counter[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * counter[0];
        const uint64_t b = (uint64_t)0xcd9e8d57u * counter[2];
        const uint32_t c0 = (uint32_t)(b >> 32) ^ counter[1] ^ k0;
        const uint32_t c2 = (uint32_t)(a >> 32) ^ counter[3] ^ k1;
        counter[1] = (uint32_t)b;
        counter[3] = (uint32_t)a;
        counter[0] = c0;
        counter[2] = c2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* The four words of a counter. */
SW_INLINE void sw_rng_words(uint32_t out[4], uint64_t seed, uint32_t block, uint32_t stream,
                            uint32_t step, uint32_t run)
{
    out[0] = block;
    out[1] = stream;
    out[2] = step;
    out[3] = run;
    sw_philox(out, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* 24 bits of a word, in [0, 1). */
SW_INLINE float sw_rng_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* The four numbers of a counter: uniform; normal, by Box and Muller. */
SW_INLINE void sw_rng_uniform4(float out[4], const uint32_t words[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = sw_rng_unit(words[i]);
}
SW_INLINE void sw_rng_normal4(float out[4], const uint32_t words[4])
{
    for (int i = 0; i < 4; i += 2) {
        float s, c;
        const float u = 1.0f - sw_rng_unit(words[i]); /* (0, 1] */
        const float r = sqrtf(-2.0f * sw_logf(u));
        sw_sincos_turn(sw_rng_unit(words[i + 1]), &s, &c);
        out[i] = r * c;
        out[i + 1] = r * s;
    }
}

/* Dropout with probability p: a word whose upper 24 bits are below the bound drops its element,
 * others are multiplied with the scale. */
SW_INLINE uint32_t sw_drop_below(float p)
{
    const float share = p > 0.0f ? p < 1.0f ? p : 1.0f : 0.0f; /* 0 for what is no number */
    const double bound = (double)share * 0x1p24;               /* exact */
    const uint32_t below = (uint32_t)bound;
    return below + ((double)below < bound);
}
SW_INLINE float sw_drop_scale(float p)
{
    return p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
}

/* A stream's number from its name (FNV-1a). */
uint32_t sw_rng_stream(const char *name);
/* Elements first..first+n-1 of a stream: N(0, 1); uniform in [0, 1). */
void sw_rng_normal(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                   uint32_t step, uint32_t run);
void sw_rng_uniform(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                    uint32_t step, uint32_t run);
/* to[0..n-1] = a permutation of 0..n-1 (Fisher and Yates), from `seed` and `epoch`. */
void sw_rng_shuffle(uint32_t *to, uint32_t n, uint64_t seed, uint64_t epoch);
