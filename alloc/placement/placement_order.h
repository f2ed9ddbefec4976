/* The canonical order of buffers: who lists the same buffers in another order gets the same
 * placement. */
#ifndef SW_PLACEMENT_ORDER_H
#define SW_PLACEMENT_ORDER_H

#include "alloc/placement/placement.h"

/* Whether the items stand in canonical order: by start, end, size (large first), alignment.
 * Items that are equal in all of these are the same to every method. `divisor` is one of all
 * sizes; alignments that divide it ask for nothing and are all alike. */
bool swi_placement_is_ordered(const sw_placement_item *items, size_t n, size_t divisor);

/* Let order[k] be the item that is the k-th; equal items keep their order. `scratch` has n
 * entries too. n < 2^32. */
void swi_placement_order(const sw_placement_item *items, size_t n, size_t divisor,
                         uint32_t *order, uint32_t *scratch);

#endif
