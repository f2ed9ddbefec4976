/* The blocks of caching_allocator.c: chains, one for each segment, by address; free ones also
 * in a treap of their lane, by size and address; all in a table by their first address. */
#ifndef STEPWELL_CACHING_BLOCKS_H
#define STEPWELL_CACHING_BLOCKS_H

#include "profiler/inspect/replan/caching_allocator.h"

#define NONE UINT32_MAX

typedef struct {
    uint64_t address, bytes, requested, tag;
    uint32_t prev, next;   /* of the segment, by address */
    uint32_t left, right;  /* of the treap */
    uint32_t priority;     /* parents have more */
    uint32_t lane;         /* NONE: the slot is not used, and `next` is the next such */
    uint8_t state;         /* caching_state */
    bool expandable, kept; /* kept: in the treap */
} block;

typedef struct {
    caching_lane key;
    uint32_t root;
    uint32_t fresh; /* the segment that was given for the next request; NONE */
    uint32_t head;  /* of its expandable segment: the first block; NONE */
    uint32_t tail;  /* the addresses after it, which have no memory */
} lane;

struct caching_allocator {
    caching_settings settings;
    block *blocks;
    uint32_t n_blocks, cap_blocks, unused;
    lane *lanes;
    uint32_t n_lanes, cap_lanes;
    uint32_t *table; /* by address: block + 1, or 0 */
    uint32_t n_table, used_table;
    uint32_t place;  /* where the latest caching_place ended */
    uint64_t random; /* for priorities: no file can choose them */
};

/* Make room for two more, so that what cuts a block needs no memory in the middle. */
SW_MUST_USE sw_status blocks_reserve(caching_allocator *a);
/* The lane of that key, a new one where there is none yet. */
SW_MUST_USE sw_status blocks_lane(caching_allocator *a, caching_lane key, uint32_t *out);
/* The block that begins there, or NONE. */
uint32_t blocks_at(const caching_allocator *a, uint64_t address);
/* A block in no chain and no treap; blocks_reserve was called. */
uint32_t blocks_new(caching_allocator *a, uint32_t of, uint64_t address, uint64_t bytes,
                    caching_state state, bool expandable);
/* Out of everything. */
void blocks_drop(caching_allocator *a, uint32_t i);
/* Cut block i after its first `bytes`; the rest is a block of the same state. Neither is in a
 * treap, and i was in none. */
uint32_t blocks_cut(caching_allocator *a, uint32_t i, uint64_t bytes);
/* Make one block of i and its neighbours of the same state; it is the lowest of them. */
uint32_t blocks_merge(caching_allocator *a, uint32_t i);
/* It is free from now on, one with free neighbours, and can be found. */
void blocks_set_free(caching_allocator *a, uint32_t i);
/* Into the treap of its lane, and out of it, or of the place of a fresh segment. */
void blocks_keep(caching_allocator *a, uint32_t i);
void blocks_take_out(caching_allocator *a, uint32_t i);
/* The smallest of a treap that has so many bytes, of those the lowest; the next one after a
 * block of it. NONE: there is none. */
uint32_t blocks_least(const caching_allocator *a, uint32_t root, uint64_t bytes);
uint32_t blocks_next_larger(const caching_allocator *a, uint32_t i);

#endif
