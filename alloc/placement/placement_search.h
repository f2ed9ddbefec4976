/* Exact placement under a capacity: finds offsets, or proves that there are none, or gives up
 * after a number of search nodes. For problems of up to some thousand buffers. Pure: equal
 * input gives equal output. */
#ifndef SW_PLACEMENT_SEARCH_H
#define SW_PLACEMENT_SEARCH_H

#include "alloc/placement/placement.h"

#define SW_SEARCH_MOST 2000 /* buffers */

typedef enum { SW_SEARCH_FOUND, SW_SEARCH_PROVED_NONE, SW_SEARCH_GAVE_UP } sw_search_end;

typedef struct {
    sw_search_end end;
    uint64_t nodes; /* taken */
    size_t proved;  /* with PROVED_NONE: no placement is lower than this, which is above the
                       capacity */
} sw_search_result;

/* opts->capacity is the roof and opts->nodes the limit, both above 0; n at most SW_SEARCH_MOST.
 * On SW_SEARCH_FOUND the items have their offsets, else they are as before. SW_NOMEM when
 * scratch could not be had. */
SW_MUST_USE sw_status sw_placement_search(sw_placement_item *items, size_t n,
                                          const sw_placement_opts *opts, sw_search_result *out);

#endif
