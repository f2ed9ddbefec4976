/* Counting sort digit by digit, lowest first; digits that all keys share are left out. */
#include "tools/place/place_sort.h"
#include <string.h>

#define DIGIT 11
#define DIGITS ((64 + DIGIT - 1) / DIGIT)
#define VALUES (1u << DIGIT)

static uint32_t digit_of(uint64_t key, int digit)
{
    return (uint32_t)(key >> (digit * DIGIT)) & (VALUES - 1);
}

static void pass(uint32_t *to, const uint32_t *from, const uint64_t *key, size_t n, int digit)
{
    size_t start[VALUES] = {0};
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        start[digit_of(key[i], digit)]++;
    for (uint32_t v = 0; v < VALUES; v++) {
        const size_t count = start[v];
        start[v] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[start[digit_of(key[from[i]], digit)]++] = from[i];
}

void place_sort(uint32_t *order, uint32_t *scratch, const uint64_t *key, size_t n)
{
    uint64_t differ = 0; /* bits in which some key is not like the first */
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
        differ |= key[i] ^ key[0];
    }
    uint32_t *from = order, *to = scratch;
    for (int digit = 0; digit < DIGITS; digit++) {
        if (digit_of(differ, digit) == 0)
            continue;
        pass(to, from, key, n, digit);
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order)
        memcpy(order, from, n * sizeof *order);
}
