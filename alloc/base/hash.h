/* Hashes. FNV-1a of few bytes: after others, or after the number that a sum begins with. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SW_FNV32 2166136261u
#define SW_FNV64 0xcbf29ce484222325u

static inline uint32_t sw_fnv32(uint32_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 16777619u;
    return sum;
}

static inline uint64_t sw_fnv64(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

/* A word after others. */
static inline uint64_t sw_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}
