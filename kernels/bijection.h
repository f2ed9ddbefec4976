/* A permutation of 0..n-1 of which nothing is stored: a Feistel network over the least power of
 * two that holds n, whose round keys come from Philox; what falls past n goes through it once
 * more ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
 * 2002). The halves differ by at most one bit, so that fewer than two walks are made on
 * average. */
#pragma once

#include "kernels/rng.h"

/* Halves of few bits mix slowly: over 200,000 keys, 8 rounds make the 720 orders of 6 samples
 * differ by 39 % (root mean square), and 32 rounds by what chance does. */
#define SW_BIJECTION_ROUNDS 8
#define SW_BIJECTION_ROUNDS_SMALL 32
#define SW_BIJECTION_SMALL_BITS 7

typedef struct {
    uint32_t n;         /* 1 to 2^32 - 1 */
    uint32_t high, low; /* bits of the halves; high <= low */
    uint32_t rounds;
    uint32_t key[SW_BIJECTION_ROUNDS_SMALL];
} sw_bijection;

/* Multiply and xorshift, so that every bit of the half and of the key reaches every bit. */
SW_INLINE uint32_t sw_bijection_mix(uint32_t half, uint32_t key)
{
    uint32_t x = (half ^ key) * 0x9e3779b1u;
    x = (x ^ (x >> 15)) * 0x85ebca77u;
    x = (x ^ (x >> 13)) * 0xc2b2ae3du;
    return x ^ (x >> 16);
}

/* That of (seed, stream, number), made where it lies. */
SW_INLINE void sw_bijection_make(sw_bijection *b, uint32_t n, uint64_t seed, uint32_t stream,
                                 uint64_t number)
{
    uint32_t bits = 0;
    while (bits < 32 && (uint64_t)1 << bits < n)
        bits++;
    b->n = n;
    b->high = bits / 2;
    b->low = bits - b->high;
    b->rounds =
        bits <= SW_BIJECTION_SMALL_BITS ? SW_BIJECTION_ROUNDS_SMALL : SW_BIJECTION_ROUNDS;
    for (uint32_t i = 0; i < b->rounds; i += 4)
        sw_rng_words(&b->key[i], seed, 1 + i / 4, stream, (uint32_t)number,
                     (uint32_t)(number >> 32));
}
SW_INLINE sw_bijection sw_bijection_of(uint32_t n, uint64_t seed, uint32_t stream,
                                       uint64_t number)
{
    sw_bijection b;
    sw_bijection_make(&b, n, seed, stream, number);
    return b;
}

/* Where i goes; i below n. */
SW_INLINE uint32_t sw_bijection_at(const sw_bijection *b, uint32_t i)
{
    const uint32_t low_mask = ((uint32_t)1 << b->low) - 1;
    const uint32_t high_mask = ((uint32_t)1 << b->high) - 1;
    if (b->low == 0)
        return 0;
    do {
        uint32_t low = i & low_mask, high = i >> b->low;
        for (uint32_t r = 0; r < b->rounds; r += 2) {
            high ^= sw_bijection_mix(low, b->key[r]) & high_mask;
            low ^= sw_bijection_mix(high, b->key[r + 1]) & low_mask;
        }
        i = high << b->low | low;
    } while (i >= b->n);
    return i;
}
