/* Between the files that find schedules by looking at a program as a chain.
 *
 * The forward ops that make items are gathered into nodes 1..n, in program order; the backward
 * ops into groups n..0, in the order in which they run: group k holds those that belong to node
 * k. Sets of items are bit sets of `words` words. */
#pragma once

#include "runtime/plan/recompute/recompute.h"

#define SWI_CHAIN_NODES 128u /* at most: the dynamic program is cubic in their number */

typedef struct {
    uint32_t from, to; /* its ops: into chain->makers, half-open */
    uint64_t cost;
    size_t run;     /* bytes that it takes while it runs, without its reads from before it */
    size_t first;   /* the same for its first run, with the fixed bytes of that */
    size_t saved;   /* of both, where `dies` ends in it: its first item lies there instead */
    uint32_t dies;  /* an item from before it, or UINT32_MAX */
    uint32_t start; /* first op of its group: where repeats for the group stand */
    size_t between; /* fixed bytes that these find */
} swi_chain_node;

typedef struct {
    const swi_rc_problem *p;
    uint32_t n, words;
    swi_chain_node *node; /* 0..n; node 0 makes nothing, its group is what reads no item */
    uint32_t *makers;     /* ops that make items */
    uint32_t *node_of;    /* by item */
    uint64_t *makes, *reads, *wanted; /* sets by node: made in it, read by it from before it,
                                         read by its group */
    uint32_t backward;                /* first op of group n */
    void *block;
    size_t bytes;
} swi_chain;

static inline uint64_t *swi_chain_set(const swi_chain *c, uint64_t *sets, uint32_t k)
{
    return sets + (size_t)k * c->words;
}
static inline bool swi_chain_has(const uint64_t *set, uint32_t item)
{
    return (set[item / 64] >> item % 64 & 1u) != 0;
}
static inline void swi_chain_put(uint64_t *set, uint32_t item)
{
    set[item / 64] |= (uint64_t)1 << item % 64;
}

/* Sort by cost and leave out what costs more and peaks no lower. */
void swi_rc_family_tidy(swi_rc_family *family);
