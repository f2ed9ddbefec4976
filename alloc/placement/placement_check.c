/* The independent checker of placements: every pair, no sorting, nothing shared with the
 * solver. */
#include "alloc/placement/placement.h"

sw_status sw_placement_check(const sw_placement_item *items, size_t n, size_t height)
{
    for (size_t i = 0; i < n; i++) {
        const sw_placement_item *a = &items[i];
        if (a->offset > height || a->bytes > height - a->offset)
            SW_FAIL(SW_INVALID, "placement: buffer %zu ends at %zu, above the height %zu", i,
                    a->offset + a->bytes, height);
        if (a->align > 1 && a->offset % a->align != 0)
            SW_FAIL(SW_INVALID,
                    "placement: buffer %zu is at %zu, which is not a multiple of %zu", i,
                    a->offset, a->align);
        for (size_t j = i + 1; j < n; j++) {
            const sw_placement_item *b = &items[j];
            const int together = a->lower < b->upper && b->lower < a->upper;
            const int apart =
                a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
            if (together && !apart)
                SW_FAIL(SW_INVALID,
                        "placement: buffers %zu and %zu live together and overlap at %zu", i, j,
                        a->offset > b->offset ? a->offset : b->offset);
        }
    }
    return SW_OK;
}
