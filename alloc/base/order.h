/* Orders for qsort. */
#pragma once

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
