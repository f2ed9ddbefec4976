/* The placement solver: an offset for each buffer, so that buffers which live at the same time
 * do not overlap and the height is small. Pure: no time, no randomness, equal input gives equal
 * output. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

/* Offsets and what alignments add to them stay in range below this, whatever the order. */
#define SW_PLACEMENT_ALIGNED_MOST (SIZE_MAX / 4)

typedef struct {
    uint32_t lower, upper; /* lifetime, half-open: lower < upper */
    size_t bytes;          /* > 0 */
    size_t offset;         /* out; a multiple of `align`, and of what divides all sizes and
                              alignments */
    size_t align;          /* any number; 0 and 1: none */
} sw_placement_item;

/* How a solve ended. */
typedef enum {
    SW_PLACEMENT_OPTIMAL, /* the height is proved to be the least */
    SW_PLACEMENT_FITS,    /* under the capacity, or as low as was found */
    SW_PLACEMENT_NO_FIT,  /* proved: there is no placement under the capacity */
    SW_PLACEMENT_GAVE_UP  /* none was found under the capacity, and that is no proof */
} sw_placement_end;

typedef struct {
    size_t capacity; /* find any placement that ends below it; 0: as low as possible */
    uint64_t nodes;  /* search nodes at most; 0: what a plan may take */
    uint64_t seed;   /* of the orders that are tried; equal seeds give equal results */
    bool (*stop)(void *context); /* asked every few milliseconds, by each thread; true: end with
                                    the lowest that was found, or quickly with any. NULL */
    void *context;
    unsigned threads; /* of the search, the calling one included; 0 and 1: that alone. The
                         answer does not depend on it */
} sw_placement_opts;

typedef struct {
    size_t height;      /* highest end of any buffer */
    size_t lower_bound; /* largest sum of sizes live at one time, whatever the alignments */
    int n_orders;       /* greedy orders tried */
    size_t proved;      /* no placement is lower: at least lower_bound */
    sw_placement_end end;
    const char *method; /* what found it: "greedy", ... */
    uint64_t nodes;     /* search nodes taken */
    bool hurried;       /* it was stopped before a first placement was whole: the rest was put
                           on top of it by what is quickest */
} sw_placement_result;

/* Solve by the whole portfolio, under the options; items keep their order, and the same items
 * in another order have the same offsets. SW_INVALID names an empty lifetime or a zero size by
 * index, SW_NOMEM when scratch could not be had or a sum overflows (of sizes; where any
 * alignment is above 1, of all sizes and alignments past SW_PLACEMENT_ALIGNED_MOST); offsets
 * are then unspecified. For NO_FIT and GAVE_UP the offsets are those of the lowest placement
 * that was found. */
SW_MUST_USE sw_status sw_placement_solve(sw_placement_item *items, size_t n,
                                         const sw_placement_opts *opts,
                                         sw_placement_result *out);

/* How a solve ended, by height, what is proved, and the capacity (0: none). */
sw_placement_end sw_placement_end_of(const sw_placement_result *result, size_t capacity);

/* Check a solution with code that shares nothing with the solver (quadratic, plain): every pair
 * that overlaps in time is apart in space, each is aligned, and `height` covers all. SW_INVALID
 * names the pair or the buffer. */
SW_MUST_USE sw_status sw_placement_check(const sw_placement_item *items, size_t n,
                                         size_t height);
