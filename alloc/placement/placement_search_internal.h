/* The data of a search: one file makes it from the buffers, another searches. */
#ifndef SW_PLACEMENT_SEARCH_INTERNAL_H
#define SW_PLACEMENT_SEARCH_INTERNAL_H

#include "alloc/placement/placement_search.h"
#include <stdatomic.h>

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

/* The state of a search. Changes are on the trail, and their sections wait to be looked at. */
void swi_search_soil(swi_search *s, uint32_t section);
void swi_search_place(swi_search *s, uint32_t i);
void swi_search_raise_bound(swi_search *s, uint32_t i, uint64_t to);
void swi_search_take_back(swi_search *s, size_t mark);
/* Draw the conclusions from the bounds; false: there is no placement. */
bool swi_search_propagate(swi_search *s);

#endif
