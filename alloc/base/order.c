/* See order.h. Counting sort digit by digit, lowest first; digits that all keys share are left
 * out. */
#include "alloc/base/order.h"
#include <string.h>

#define DIGIT 11
#define VALUES (1u << DIGIT)

static uint64_t bits_of(const void *key, size_t i)
{
    uint64_t bits;
    memcpy(&bits, (const char *)key + i * sizeof bits, sizeof bits);
    return bits;
}

void sw_order_by_keys(uint32_t *order, uint32_t *scratch, const void *key, size_t n,
                      bool (*stop)(void *context), void *context)
{
    uint32_t *from = order, *to = scratch;
    uint64_t differ = 0; /* bits in which some key is not like the first */
    for (size_t i = 0; i < n; i++)
        differ |= bits_of(key, i) ^ bits_of(key, 0);
    for (int shift = 0; shift < 64 && (stop == NULL || !stop(context)); shift += DIGIT) {
        uint32_t start[VALUES + 1] = {0};
        if ((differ >> shift & (VALUES - 1)) == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            start[(bits_of(key, i) >> shift & (VALUES - 1)) + 1]++;
        for (uint32_t v = 1; v < VALUES; v++)
            start[v] += start[v - 1];
        for (size_t i = 0; i < n; i++)
            to[start[bits_of(key, from[i]) >> shift & (VALUES - 1)]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order)
        memcpy(order, from, n * sizeof *order);
}
