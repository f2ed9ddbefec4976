/* Philox streams. Compiled once, for the base instruction set: the same bits everywhere. */
#include "kernels/rng.h"

uint32_t sw_rng_stream(const char *name)
{
    uint32_t hash = 0x811c9dc5u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x01000193u;
    return hash;
}

static void draw(void (*four)(float *, const uint32_t *), float *to, int64_t first, int64_t n,
                 uint64_t seed, uint32_t stream, uint32_t step, uint32_t run)
{
    uint32_t words[4];
    float out[4];
    for (int64_t i = first; i < first + n;) {
        sw_rng_words(words, seed, (uint32_t)(i / 4), stream, step, run);
        four(out, words);
        for (int64_t k = i % 4; k < 4 && i < first + n; k++, i++)
            to[i - first] = out[k];
    }
}

void sw_rng_normal(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                   uint32_t step, uint32_t run)
{
    draw(sw_rng_normal4, to, first, n, seed, stream, step, run);
}

void sw_rng_uniform(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                    uint32_t step, uint32_t run)
{
    draw(sw_rng_uniform4, to, first, n, seed, stream, step, run);
}

/* Word i chooses where i goes: a 64-bit product maps it to 0..i with a bias below 2^-32 * n. */
void sw_rng_shuffle(uint32_t *to, uint32_t n, uint64_t seed, uint64_t epoch)
{
    const uint32_t stream = sw_rng_stream("shuffle");
    uint32_t words[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < n; i++)
        to[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        if (i % 4 == 3 || i == n - 1)
            sw_rng_words(words, seed, i / 4, stream, (uint32_t)epoch, (uint32_t)(epoch >> 32));
        const uint32_t j = (uint32_t)(((uint64_t)words[i % 4] * (i + 1)) >> 32);
        const uint32_t swap = to[i];
        to[i] = to[j];
        to[j] = swap;
    }
}
