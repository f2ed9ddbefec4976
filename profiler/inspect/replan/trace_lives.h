/* The allocations of a trace with their lifetimes, and how high arenas are that hold them.
 *
 * Positions: 0 is before the trace, event i is i + 1. An allocation lives until its memory
 * can be used again, which is after the last use that other streams make of it. Allocations of
 * different streams or pools have arenas of their own: one stream may not write what another
 * still reads. */
#ifndef STEPWELL_TRACE_LIVES_H
#define STEPWELL_TRACE_LIVES_H

#include "alloc/placement/placement.h"
#include "profiler/inspect/replan/trace_start.h"

typedef struct {
    uint64_t bytes, address;
    uint64_t offset;      /* in its arena, of the latest plan that has it */
    uint64_t step_offset; /* in the plan of the steady step; UINT64_MAX: it is not in it */
    uint32_t born, dead;  /* positions, half-open */
    uint32_t stack, arena;
    const char *note, *role; /* of the file; the role is that of a rule where it says none */
    uint8_t rule;            /* trace_rule */
} trace_life;

typedef struct {
    uint64_t stream, pool;
    uint64_t height, step_height; /* of the latest plan, and of the steady step's */
} trace_arena;

typedef struct {
    trace_life *all; /* in order of birth; those from before the trace first */
    uint32_t n, cap;
    uint32_t n_before;
    uint32_t n_positions;
    trace_arena *arenas;
    uint32_t n_arenas, cap_arenas;
    uint64_t align;
} trace_lives;

/* Lives of a trace whose events know their pools, as far as can be known. A free and an
 * allocation at one address, one after the other in a profile of a CPU, are a write in place:
 * one life. Free them too after a failure. */
SW_MUST_USE sw_status trace_lives_find(trace_lives *l, const snapshot_trace *t,
                                       const trace_start *start);
void trace_lives_free(trace_lives *l);
/* One life more; positions grow to its death. */
SW_MUST_USE sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool,
                                      trace_life life);

/* Bytes that live after each position, n_positions + 1 of them; give it back by the second. */
SW_MUST_USE sw_status trace_lives_curve(const trace_lives *l, uint64_t **out);
void trace_lives_curve_free(const trace_lives *l, uint64_t *curve);

/* A choice of them: lives that meet the positions from..to, cut to them, but for those of
 * `left_role` that `left_out` (a stack; TRACE_NONE: none) asked for. */
typedef struct {
    uint32_t from, to, left_out;
    const char *left_role;
    bool merged; /* all streams share an arena; private pools never do */
} lives_choice;

typedef struct {
    uint32_t n;
    uint64_t bound;    /* the sum over the arenas of the most that lives at one time there */
    uint64_t height;   /* of the plan: the sum over the arenas */
    uint64_t proved;   /* no plan is lower */
    uint32_t position; /* where the most lives at one time, all arenas together */
    uint64_t most;     /* that much; at most `bound`. No allocator needs less, also one that
                          gives one stream the memory of another */
} lives_height;

/* The bound alone; `height` and `proved` are 0. */
SW_MUST_USE sw_status trace_lives_bound(const trace_lives *l, const lives_choice *of,
                                        lives_height *out);
/* A plan, with the offsets of those that it has. Stops early, with a plan that is whole, where
 * stop(context) says so. */
SW_MUST_USE sw_status trace_lives_place(trace_lives *l, const lives_choice *of,
                                        bool (*stop)(void *context), void *context,
                                        lives_height *out);

#endif
