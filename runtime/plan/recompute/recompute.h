/* Recomputation: which ops of the forward part run again in backward, so that fewer bytes are
 * kept.
 *
 * A problem is the program without its kernels: ops in run order, and items - the storages that
 * can be recomputed, since one op alone writes each and may run again with the same result.
 * Everything else that lives in the step arena is fixed: bytes that are there whatever is
 * chosen.
 *
 * A schedule is the order in which ops run, as op indices. The first occurrence of an op is its
 * run in the program; these stand in ascending order and all are there. Every later occurrence
 * is a repeat, and costs. A read takes what the last run of the item's maker left; an item's
 * bytes are held from a run of its maker to the last read before the next run. So a schedule
 * says all: what is kept, what is recomputed, and what a step then peaks at.
 *
 * Pure: no trace, no time, no randomness; equal problems give equal schedules. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct {
    size_t bytes;   /* rounded as the arena counts; > 0 */
    uint32_t maker; /* the op that writes it */
} swi_rc_item;

typedef struct {
    uint32_t reads, n_reads; /* into problem->reads: items, each once */
    uint32_t makes, n_makes; /* into problem->makes: items, each once; of 0 in fixed ops */
    uint64_t cost;           /* of one run; at most 2^40 */
    size_t scratch;   /* bytes that a repeat takes while it runs; a first run's are fixed */
    uint32_t until;   /* may be repeated before op t only where t <= until: after that, what it
                         reads has been overwritten. 0: never, as for all ops that make no item */
    uint32_t inplace; /* bit k: its first item, or where it makes none its fixed result, may lie
                         where read k lay, when that is the last read of it; sizes are equal
                         then */
} swi_rc_op;

typedef struct {
    const swi_rc_op *ops;
    uint32_t n_ops;
    const swi_rc_item *items;
    uint32_t n_items;
    const uint32_t *reads, *makes;
    const size_t *during;  /* n_ops: fixed bytes that live while op t runs for the first time */
    const size_t *between; /* n_ops: fixed bytes that live on both sides of the border before t:
                              what repeats before op t find */
} swi_rc_problem;

typedef struct {
    uint32_t *steps; /* heap, SW_HEAP_PROGRAMS */
    uint32_t n_steps, cap_steps;
    size_t peak;        /* largest sum of what lives at one step: items, fixed bytes, scratch */
    uint32_t peak_step; /* the first of these steps */
    uint64_t cost;      /* of the repeats */
    uint32_t repeats;
} swi_rc_schedule;

/* Follow a schedule: peak, cost and repeats from its steps alone. SW_INVALID names the step
 * that cannot be: an item that is not there, a repeat that may not be, a first run out of
 * order. */
SW_MUST_USE sw_status swi_rc_follow(const swi_rc_problem *problem, swi_rc_schedule *schedule);
SW_MUST_USE sw_status swi_rc_append(swi_rc_schedule *schedule, uint32_t op);
SW_MUST_USE sw_status swi_rc_copy(swi_rc_schedule *to, const swi_rc_schedule *from);
void swi_rc_free(swi_rc_schedule *schedule); /* leaves it empty */

/* The cheapest schedule with a peak of at most `capacity`, and of the cheapest ones one of
 * least peak, by best-first search over (op reached, items held). It takes at most *nodes
 * states, and leaves there how many it did not take. *found: the schedule is there, and none is
 * cheaper; its peak is the least if there are nodes left. Otherwise *least is still a proved
 * bound of the cost: no schedule under the capacity costs less (UINT64_MAX: there is none).
 * `out` is empty or a schedule, which goes. At most SWI_RC_EXACT_ITEMS items; SW_UNSUPPORTED
 * for more. */
#define SWI_RC_EXACT_ITEMS 64u
SW_MUST_USE sw_status swi_rc_exact(const swi_rc_problem *problem, size_t capacity,
                                   uint64_t *nodes, swi_rc_schedule *out, bool *found,
                                   uint64_t *least);

/* No schedule with a peak of at most `capacity` costs less than this; UINT64_MAX: there is
 * none, whatever is repeated. Any number of items. */
SW_MUST_USE sw_status swi_rc_bound(const swi_rc_problem *problem, size_t capacity,
                                   uint64_t *least);

/* The same for capacities so small that at most one item can be held over some ops: 0 where
 * there are none, or too many items. With `out` (empty; NULL: not asked for) the schedule that
 * the bound is the cost of, if nothing else stood against it: empty where there is none, and
 * SW_INVALID where it cannot be; its peak may be above the capacity. */
#define SWI_RC_SINGLE_ITEMS 512u
SW_MUST_USE sw_status swi_rc_single(const swi_rc_problem *problem, size_t capacity,
                                    uint64_t *least, swi_rc_schedule *out);

/* Schedules for falling peaks, whatever the capacity: found by dynamic programming over the
 * program as a chain (each border between two forward ops may be a checkpoint), then made
 * better one by one. Sorted by cost, each with a smaller peak than those before it; the first
 * repeats nothing. backward_of[t]: the forward op whose gradient op t makes; t itself where op
 * t runs in backward or after it and belongs to none; UINT32_MAX for forward ops. */
typedef struct {
    swi_rc_schedule *schedules; /* heap */
    uint32_t n, cap;
} swi_rc_family;
SW_MUST_USE sw_status swi_rc_chain(const swi_rc_problem *problem, const uint32_t *backward_of,
                                   swi_rc_family *out);
/* Cheaper schedules where the costs of two neighbours are far apart, at the same peaks or
 * lower ones: items that are held and not used are dropped and recomputed. They do not
 * depend on the capacity. */
SW_MUST_USE sw_status swi_rc_drop(const swi_rc_problem *problem, swi_rc_family *family);
void swi_rc_family_free(swi_rc_family *family);
