/* The quickest complete placement, in linear time, for when there is no time left: over time,
 * each buffer takes a block that a dead one of about its size has left, or new room on top. */
#ifndef SW_PLACEMENT_SWEEP_H
#define SW_PLACEMENT_SWEEP_H

#include "alloc/placement/placement.h"

typedef struct {
    const sw_placement_item *items;
    const uint32_t *lo, *hi; /* of each buffer: it lives over the sections [lo, hi) */
    uint32_t n, n_sections;
    uint32_t *first_birth, *first_death; /* scratch, one per section */
    uint32_t *next_birth, *next_death;   /* scratch, one per buffer */
    uint32_t *next_free;
    size_t *block; /* scratch, one per buffer: where its block begins */
} swi_sweep;

/* Place the buffers with offset SIZE_MAX above all that have another. Returns the height. */
size_t swi_placement_sweep(const swi_sweep *s, size_t *offset);

#endif
