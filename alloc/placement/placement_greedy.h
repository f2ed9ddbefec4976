/* Greedy placement, for some thousand buffers: it is quadratic. */
#ifndef SW_PLACEMENT_GREEDY_H
#define SW_PLACEMENT_GREEDY_H

#include "alloc/placement/placement.h"

/* Place n items that sw_placement_solve has checked. Stops early when the lower bound is
 * reached or opts->stop says so after an order (opts may be NULL; nothing else of it counts);
 * `out` has height, lower_bound (which is what is proved), n_orders and OPTIMAL or FITS.
 * SW_NOMEM when scratch could not be had: offsets are then as before. */
SW_MUST_USE sw_status sw_placement_greedy(sw_placement_item *items, size_t n,
                                          const sw_placement_opts *opts,
                                          sw_placement_result *out);

#endif
