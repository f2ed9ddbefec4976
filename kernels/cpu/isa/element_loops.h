/* Parts of tensors and sums in lanes, for loops that the compiler vectorises. Parts are runs of
 * PART elements, so that bits cannot depend on threads; short tensors are one part. */
#pragma once

#include <stdint.h>

#define PART 16384
#define LANES 16

static inline int64_t part_end(int64_t n, int part)
{
    const int64_t end = ((int64_t)part + 1) * PART;
    return end < n ? end : n;
}

static inline int part_count(int64_t n)
{
    return (int)((n + PART - 1) / PART);
}

/* sum = the float32 terms of elements i + k from i to n, in sixteen lanes of `type`, then lane
 * by lane. Terms of a group first, so that they are computed side by side. */
#define SUM_LANES(type, sum, i, n, term)                                                       \
    do {                                                                                       \
        type lane_[LANES] = {0};                                                               \
        float term_[LANES];                                                                    \
        for (; (i) + LANES <= (n); (i) += LANES) {                                             \
            for (int k = 0; k < LANES; k++)                                                    \
                term_[k] = (term);                                                             \
            for (int k = 0; k < LANES; k++)                                                    \
                lane_[k] += (type)term_[k];                                                    \
        }                                                                                      \
        for (int k = 0; (i) + k < (n); k++)                                                    \
            lane_[k] += (type)(term);                                                          \
        (sum) = 0;                                                                             \
        for (int k = 0; k < LANES; k++)                                                        \
            (sum) += lane_[k];                                                                 \
    } while (0)
