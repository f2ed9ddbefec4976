/* Placement of many buffers: near n log n for a run, at most some 150 bytes of memory per
 * buffer. */
#ifndef SW_PLACEMENT_LARGE_H
#define SW_PLACEMENT_LARGE_H

#include "alloc/placement/placement.h"

/* Place n items, which sw_placement_solve has checked, low; `lower_bound` is a proved bound of
 * the height (0: the largest sum of sizes that live at one time, which is found here). Ends at
 * the bound, under opts->capacity, when opts->nodes placements were made (but the first run is
 * always finished), or when opts->stop says so: what the first run has not placed then goes
 * on top by a sweep, so that every item has an offset. opts may be NULL.
 *
 * out   height, lower_bound, proved, n_orders (runs), nodes (placements), method and
 * end. Equal input gives equal output, on every machine. SW_NOMEM when scratch could not be
 * had: items and *out are then untouched. */
SW_MUST_USE sw_status sw_placement_large(sw_placement_item *items, size_t n, size_t lower_bound,
                                         const sw_placement_opts *opts,
                                         sw_placement_result *out);

#endif
