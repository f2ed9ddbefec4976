/* Offsets of the placement solver: multiples of any number, not of powers of two alone. */
#pragma once

#include "alloc/placement/placement.h"
#include <stdatomic.h>

/* The least multiple of `align` (0 and 1: of one) from x on; the caller keeps x + align in
 * range. */
static inline uint64_t swi_align_up(uint64_t x, uint64_t align)
{
    if (align <= 1)
        return x;
    const uint64_t rest = x % align;
    return rest == 0 ? x : x + (align - rest);
}

/* Greedy placement, for some thousand buffers: it is quadratic. */

/* Place n items that sw_placement_solve has checked. Stops early when the lower bound is
 * reached or opts->stop says so after an order (opts may be NULL; nothing else of it counts);
 * `out` has height, lower_bound (which is what is proved), n_orders and OPTIMAL or FITS.
 * SW_NOMEM when scratch could not be had: offsets are then as before. */
SW_MUST_USE sw_status sw_placement_greedy(sw_placement_item *items, size_t n,
                                          const sw_placement_opts *opts,
                                          sw_placement_result *out);

/* Placement of many buffers: near n log n for a run, at most some 150 bytes of memory per
 * buffer. */

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

/* The canonical order of buffers: who lists the same buffers in another order gets the same
 * placement. */

/* Whether the items stand in canonical order: by start, end, size (large first), alignment.
 * Items that are equal in all of these are the same to every method. `divisor` is one of all
 * sizes; alignments that divide it ask for nothing and are all alike. */
bool swi_placement_is_ordered(const sw_placement_item *items, size_t n, size_t divisor);

/* Let order[k] be the item that is the k-th; equal items keep their order. `scratch` has n
 * entries too. n < 2^32. */
void swi_placement_order(const sw_placement_item *items, size_t n, size_t divisor,
                         uint32_t *order, uint32_t *scratch);

/* The pressure of each section, as a tree: the larger child, and what was added to all
 * below. */

typedef struct {
    size_t *node;   /* 2 * width; node[1] is the highest of all */
    uint32_t width; /* power of two */
} swi_pressure;

/* Sections after the n-th have none. */
void swi_pressure_fill(const swi_pressure *p, const size_t *load, uint32_t n);
/* Add to the sections [from, to). */
void swi_pressure_add(const swi_pressure *p, uint32_t from, uint32_t to, size_t bytes);
/* The leftmost section of the highest pressure in [from, to). */
uint32_t swi_pressure_most(const swi_pressure *p, uint32_t from, uint32_t to);

/* The quickest complete placement, in linear time, for when there is no time left: over time,
 * each buffer takes a block that a dead one of about its size has left, or new room on top. */

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

/* Exact placement under a capacity: finds offsets, or proves that there are none, or gives up
 * after a number of search nodes. For problems of up to some thousand buffers. Pure: equal
 * input gives equal output. */

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

/* ---- placement search internal ----------------------------------------------------------- */

/* The data of a search: one file makes it from the buffers, another searches. */

#define SWI_NONE UINT32_MAX
#define SWI_TABLE_BITS 15

typedef struct {
    uint32_t buffer;
    uint64_t old; /* its bound before, or SWI_IS_PLACED */
} swi_undo;
#define SWI_IS_PLACED UINT64_MAX

/* A decision and how far it is: the next of n choices; the one after the last is nothing. */
typedef struct {
    uint32_t from, to; /* the piece that it is in */
    uint32_t section, n, next;
    size_t mark;    /* of the trail before it */
    uint64_t state; /* of the piece */
    uint64_t until; /* nodes of the attempt at which what is left of it is skipped */
    bool skipped;   /* some of what it could lead to was: its end is no proof */
} swi_decision;

/* The orders in which buffers are tried in a corner. */
enum { SWI_AREA, SWI_AREA_BYTES, SWI_BYTES, SWI_AREA_SPAN, SWI_SPAN, SWI_ORDERS };

typedef struct {
    uint8_t order[SWI_ORDERS]; /* in turn */
    uint8_t n_orders;
    bool learns;      /* corners that have failed go first */
    bool strong;      /* bounds from parts of a section too */
    double noise;     /* of values, after a first round of all orders: 0.3 is 15 % either way */
    uint64_t restart; /* nodes of the shortest attempt for each 200 buffers */
    double share; /* of what is left to a decision, that is for the one after it; 1: complete */
} swi_strategy;

/* Shared by searches that run side by side. */
typedef struct {
    atomic_uint_least64_t best; /* fewest nodes of one that has ended */
    atomic_bool stopped;        /* the caller has asked to stop */
    atomic_uint next;           /* the first that no thread has taken yet */
    const sw_placement_opts *opts;
} swi_race;

typedef struct {
    const swi_strategy *how;
    swi_race *race;
    void *block; /* all that is of a size known ahead, but the lists */
    size_t block_bytes;
    uint32_t n, n_sections, n_list;
    /* of each buffer, in units: */
    uint64_t *bytes, *low, *offset; /* low: the bound while it is not placed */
    uint64_t *align;                /* of offset and low; 0: none */
    uint64_t *name;                 /* random words for hashes */
    uint32_t *first, *end;          /* sections [first, end) */
    uint32_t *twin;    /* the one before of the same sections and bytes; SWI_NONE */
    uint32_t *alike;   /* the next one of the same sections, in a ring */
    uint32_t *starter; /* buffers by their first section: those of k are at start_at[k] ... */
    bool *placed;
    /* of each section: */
    uint64_t *rest, *floor;   /* unplaced units; UINT64_MAX where nothing is left */
    uint32_t *list, *list_at; /* buffers that cover it: list[list_at[s]] ...,
                                 the n_left unplaced ones first */
    uint32_t *start_at;
    uint32_t *n_left, *failed, *queue;
    bool *dirty;
    uint32_t n_queue;
    uint32_t *gathered; /* scratch of tighten: unplaced buffers of a section */
    uint64_t *ends;     /* and their least ends */
    uint64_t *sums;     /* and of the first k the units */
    uint32_t *choice;   /* a stack: of each decision its choices */
    double *value;
    size_t n_choice, cap_choice;
    swi_undo *trail;
    size_t n_trail, cap_trail;
    uint64_t *table; /* hashes of states that hold no placement */
    swi_decision *stack;
    uint32_t depth, cap_stack;
    uint64_t roof, unit, noise;
    uint64_t nodes, limit; /* of this attempt */
    uint64_t total;        /* nodes of all attempts */
    uint64_t work;         /* of propagation, that is not yet in the nodes */
    uint32_t restarts;     /* attempts before this one */
    uint32_t asked;        /* counts up to the next look at the race */
    bool cut;              /* no more nodes: what is not found is not proved absent */
    sw_search_end outcome;
    sw_status status;
} swi_search;

/* A permutation of all words without a pattern. */
static inline uint64_t swi_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* A search of n buffers under the options' roof, with memory of its own; destroy is fine after
 * a failure and of zeros. */
SW_MUST_USE sw_status swi_search_create(swi_search *s, const sw_placement_item *items, size_t n,
                                        const sw_placement_opts *opts);
void swi_search_destroy(swi_search *s);

/* Search until there is an end, or `most` nodes are taken in all, or the race is over. */
void swi_search_run(swi_search *s, uint64_t most);

/* Whether the search need not go on: it can no longer win, or the caller has asked to stop. */
bool swi_race_is_over(const swi_search *s);
void swi_race_ended(const swi_search *s);
