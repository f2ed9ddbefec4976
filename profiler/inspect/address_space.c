/* Ranges set one after another. */
#include "profiler/inspect/address_space.h"
#include "alloc/base/mem.h"
#include <stdlib.h>

sw_status address_space_add(address_space *s, uint64_t from, uint64_t bytes)
{
    /* Blocks of one range come by the million: what the latest one covers says nothing new. */
    if (bytes == 0 || (s->n > 0 && from >= s->ranges[s->n - 1].from &&
                       from + bytes <= s->ranges[s->n - 1].to))
        return SW_OK;
    SW_TRY(sw_heap_reserve(&s->ranges, SW_HEAP_PROFILE, &s->cap, s->n + 1, sizeof *s->ranges));
    s->ranges[s->n++] = (address_range){from, from + bytes, 0};
    return SW_OK;
}

static int by_begin(const void *a, const void *b)
{
    const address_range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

void address_space_close_up(address_space *s)
{
    uint32_t n = 0;
    uint64_t offset = 0;
    if (s->n > 0)
        qsort(s->ranges, s->n, sizeof *s->ranges, by_begin);
    for (uint32_t i = 0; i < s->n; i++) {
        const address_range r = s->ranges[i];
        if (n > 0 && r.from <= s->ranges[n - 1].to) {
            if (r.to > s->ranges[n - 1].to)
                s->ranges[n - 1].to = r.to;
        } else {
            s->ranges[n++] = r;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        s->ranges[i].offset = offset;
        offset += s->ranges[i].to - s->ranges[i].from;
    }
    s->n = n;
}

uint64_t address_space_offset(const address_space *s, uint64_t address)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->ranges[middle].to <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == s->n || address < s->ranges[low].from)
        return s->n > 0 ? s->ranges[s->n - 1].offset + s->ranges[s->n - 1].to -
                              s->ranges[s->n - 1].from
                        : 0;
    return s->ranges[low].offset + (address - s->ranges[low].from);
}

void address_space_free(address_space *s)
{
    sw_heap_free(s->ranges, SW_HEAP_PROFILE, s->cap * sizeof *s->ranges);
    *s = (address_space){0};
}
