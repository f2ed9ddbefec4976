/* What a search works on: one file makes it from the buffers, another searches. */
#ifndef SW_PLACEMENT_SEARCH_INTERNAL_H
#define SW_PLACEMENT_SEARCH_INTERNAL_H

#include "alloc/placement/placement_search.h"

#define SWI_NONE UINT32_MAX
#define SWI_TABLE_BITS 15

typedef struct {
    uint32_t buffer;
    uint64_t old; /* its bound before, or SWI_IS_PLACED */
} swi_undo;
#define SWI_IS_PLACED UINT64_MAX

typedef struct {
    uint32_t n, n_sections, n_list;
    /* of each buffer, in units: */
    uint64_t *bytes, *low, *offset; /* low: the bound while it is not placed */
    uint64_t *align;                /* of offset and low; 0: none */
    uint64_t *name;                 /* random words for hashes */
    uint32_t *first, *end;          /* sections [first, end) */
    uint32_t *twin;     /* the one before of the same sections and bytes; SWI_NONE */
    uint32_t *lifetime; /* class of equal sections */
    bool *placed;
    /* of each section: */
    uint64_t *rest, *floor;   /* unplaced units; UINT64_MAX where nothing is left */
    uint32_t *list, *list_at; /* buffers that cover it: list[list_at[s]] ... */
    uint32_t *n_left, *failed, *queue;
    bool *dirty;
    uint32_t n_queue;
    uint32_t *gathered; /* scratch of tighten */
    uint32_t *choice;   /* a stack: of each decision its choices */
    double *value;
    size_t n_choice, cap_choice;
    swi_undo *trail;
    size_t n_trail, cap_trail;
    uint64_t *table; /* hashes of states that hold no placement */
    uint64_t roof, unit;
    uint64_t nodes, limit, noise;
    uint32_t order, depth;
    const sw_placement_opts *opts;
    bool cut; /* no more nodes: what is not found is not proved absent */
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

/* The sections of the buffers, and which each covers; n and lay_out are there. */
SW_MUST_USE sw_status swi_search_find_sections(swi_search *s, const sw_placement_item *items);
/* Give out parts of one block; with base NULL only count them. */
size_t swi_search_lay_out(swi_search *s, unsigned char *base);
/* Sizes, alignments and the roof in units. */
void swi_search_fill_buffers(swi_search *s, const sw_placement_item *items);
/* The lists of the sections, and who is like whom; s->list is there. */
void swi_search_fill_lists(swi_search *s);

#endif
