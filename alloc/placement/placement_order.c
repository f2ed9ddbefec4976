/* See placement_order.h. Merging from pairs upwards; what is in order already is not merged, so
 * that the traces of programs, whose buffers come by birth, take few steps. */
#include "alloc/placement/placement_order.h"
#include "alloc/base/assert.h"
#include <string.h>

static size_t asked(const sw_placement_item *item, size_t divisor)
{
    return item->align > 1 && divisor % item->align != 0 ? item->align : 0;
}

static bool goes_before(const sw_placement_item *a, const sw_placement_item *b, size_t divisor)
{
    if (a->lower != b->lower)
        return a->lower < b->lower;
    if (a->upper != b->upper)
        return a->upper < b->upper;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    return asked(a, divisor) < asked(b, divisor);
}

bool swi_placement_is_ordered(const sw_placement_item *items, size_t n, size_t divisor)
{
    for (size_t i = 1; i < n; i++)
        if (goes_before(&items[i], &items[i - 1], divisor))
            return false;
    return true;
}

/* The runs [start, mid) and [mid, end) of `from` become one in `to`. */
static void merge(const sw_placement_item *items, size_t divisor, const uint32_t *from,
                  uint32_t *to, size_t start, size_t mid, size_t end)
{
    size_t a = start, b = mid, k = start;
    if (mid < end && goes_before(&items[from[mid]], &items[from[mid - 1]], divisor))
        while (a < mid && b < end)
            to[k++] =
                goes_before(&items[from[b]], &items[from[a]], divisor) ? from[b++] : from[a++];
    memcpy(to + k, from + a, (mid - a) * sizeof *to);
    memcpy(to + k + (mid - a), from + b, (end - b) * sizeof *to);
}

void swi_placement_order(const sw_placement_item *items, size_t n, size_t divisor,
                         uint32_t *order, uint32_t *scratch)
{
    uint32_t *from = order, *to = scratch;
    SW_ASSERT(n < UINT32_MAX);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            const size_t mid = start + width < n ? start + width : n;
            merge(items, divisor, from, to, start, mid, mid + width < n ? mid + width : n);
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order)
        memcpy(order, from, n * sizeof *order);
}
