/* Greedy placement, for some thousand buffers: it is quadratic. */
#ifndef SW_PLACE_GREEDY_H
#define SW_PLACE_GREEDY_H

#include "alloc/placement/place.h"

/* Place n items that sw_place_solve has checked. Stops early when the lower bound is reached
 * or opts->stop says so behind an order (opts may be NULL; nothing else of it counts); `out`
 * has height, lower_bound (which is what is proved), n_orders and OPTIMAL or FITS. SW_NOMEM
 * when scratch could not be had: offsets are then as before. */
SW_MUST_USE sw_status sw_place_greedy(sw_place_item *items, size_t n, const sw_place_opts *opts,
                                      sw_place_result *out);

#endif
