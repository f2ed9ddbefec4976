/* Recomputation as a pass over a trace: between the trace and the pure problem. */
#pragma once

#include "runtime/plan/program_internal.h"
#include "runtime/plan/recompute/recompute.h"

/* The problem of a trace whose nodes run in `order` (views left out), before lifetimes are
 * known: those of a copy of it. */
typedef struct {
    swi_rc_problem p;
    uint32_t *backward_of; /* as swi_rc_chain expects it */
    void *block;
    size_t bytes;
} swi_rc_trace_problem;
SW_MUST_USE sw_status swi_rc_problem_of(swi_rc_trace_problem *out, const swi_trace *trace,
                                        const uint32_t *order, uint32_t n_ops, bool inplace);
void swi_rc_problem_free(swi_rc_trace_problem *problem);

/* The rebuild pass, on a trace that has no lifetimes yet; the order grows by what runs again.
 * *without: the sum that lives at the peak without it; it never makes that larger. Of no use
 * where swi_may_rebuild says so. */
SW_MUST_USE sw_status swi_rebuild(swi_trace *trace, swi_order *order, bool inplace,
                                  size_t *without);
bool swi_may_rebuild(const swi_trace *trace);

/* Ops that go through their rows in parts: the numbers of parts to choose from, ascending, and
 * what the ops take with each. */
typedef struct {
    int64_t parts, rows; /* rows at a time in the largest; 0: all */
    uint64_t cost;       /* more than the first choice has */
} swi_rc_parts_choice;
typedef struct {
    swi_rc_parts_choice *choices;
    uint32_t n, n_ops;
    uint32_t *ops;   /* in parts: into the problem */
    size_t *scratch; /* by choice and op */
    size_t *during;  /* room for the problem's */
    size_t bytes;
} swi_rc_parts;
/* From `fewest` to `most` parts. `trace` has all rows at once, and `most` parts in the end.
 * Freed by the caller also on failure. */
SW_MUST_USE sw_status swi_rc_parts_of(swi_rc_parts *out, swi_trace *trace,
                                      const swi_order *order, const sw_exec *exec,
                                      int64_t fewest, int64_t most);
void swi_rc_parts_free(swi_rc_parts *parts);
/* The first choice with which the schedule's peak is at most `limit`. The problem has the bytes
 * of the last choice, with which it is. */
SW_MUST_USE sw_status swi_rc_parts_fitting(const swi_rc_parts *parts,
                                           const swi_rc_problem *problem,
                                           const swi_rc_schedule *schedule, size_t limit,
                                           uint32_t *choice);

/* Replace p's trace and the order by the cheapest that was found with an arena of at most
 * p->limit bytes, laid out, and fill the figures of p->info that say what was done. `base`: the
 * trace, not laid out, with all updates released and all rows at once; `plain`: its order.
 * `fewest` and `most`: parts that ops may go through their rows in. Repeats that cost less than
 * `from` are not looked at. Where nothing fits, p becomes the lowest that was found, which says
 * what would; or stays, if nothing is lower. */
SW_MUST_USE sw_status swi_recompute(swi_program *p, const swi_trace *base,
                                    const swi_order *plain, const sw_exec *exec, int64_t fewest,
                                    int64_t most, uint64_t from, bool closely,
                                    swi_order *order);
