/* The placement solver: an offset for each buffer, so that buffers which live at the same time
 * do not overlap and the height is small. Pure: no time, no randomness, equal input gives equal
 * output. */
#ifndef SW_PLACE_H
#define SW_PLACE_H

#include "alloc/base.h"

typedef struct {
    uint32_t lower, upper; /* lifetime, half-open: lower < upper */
    size_t bytes;          /* > 0; rounded up to `align` by the solver's caller */
    size_t offset;         /* out; multiple of SW_ALIGN when all sizes are */
} sw_place_item;

typedef struct {
    size_t height;      /* highest end of any buffer */
    size_t lower_bound; /* largest sum of sizes live at one time */
    int n_orders;       /* greedy orders tried */
} sw_place_result;

/* Solve; items keep their order. SW_INVALID names an empty lifetime or a zero size by index,
 * SW_NOMEM when scratch could not be allocated or a sum overflows. On failure offsets are
 * unspecified. Stops early when the lower bound is reached. */
SW_MUST_USE sw_status sw_place_solve(sw_place_item *items, size_t n, sw_place_result *out);

/* Check a solution with code that shares nothing with the solver (quadratic, plain): every pair
 * that overlaps in time is apart in space, and `height` covers all. SW_INVALID names the pair.
 */
SW_MUST_USE sw_status sw_place_check(const sw_place_item *items, size_t n, size_t height);

#endif
