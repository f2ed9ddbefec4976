/* Orders for qsort, and a sort by keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The function `name`: two of `type`, x and y, by `first`, and by `then` where that is 0. */
#define SW_ORDER(name, type, first, then)                                                      \
    static int name(const void *a, const void *b)                                              \
    {                                                                                          \
        const type *x = a, *y = b;                                                             \
        const int by = (first);                                                                \
        return by != 0 ? by : (then);                                                          \
    }

/* By a member: the smallest first, the largest first. */
#define SW_RISES(member) ((x->member > y->member) - (x->member < y->member))
#define SW_FALLS(member) (-SW_RISES(member))

/* Numbers, the smallest first. */
static inline int sw_order_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Let order[0..n) be 0, 1, ... */
static inline void sw_order_numbers(uint32_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
}

/* Sort `order`, which has numbers below n, by rising key[order[i]], stable, in linear time. A
 * key has 64 bits: those of a double of at least 0 are ordered as it is. `scratch` has n
 * entries and comes back with anything; n < 2^32. Once `stop` (NULL: none) says so, it leaves
 * any order. */
void sw_order_by_keys(uint32_t *order, uint32_t *scratch, const void *key, size_t n,
                      bool (*stop)(void *context), void *context);
