/* Where a trace repeats: the steps of a training, found by what is asked for. */
#ifndef STEPWELL_TRACE_PERIOD_H
#define STEPWELL_TRACE_PERIOD_H

#include "profiler/inspect/replan/trace_lives.h"

typedef struct {
    uint32_t steps;    /* whole ones that are alike, at least 3; 0: none were found */
    uint32_t requests; /* of a step: allocations that begin in it */
    uint32_t first;    /* position where the first of them begins */
    uint32_t from,
        to; /* positions of one of them, half-open; it begins where the least lives */
} trace_period;

/* The longest run of requests (bytes, stream, pool, how long they live) that repeats, of those
 * that end at the trace's end, or that stop up to 15/16 of the trace in front of it; of a run's
 * periods the shortest. Linear. */
SW_MUST_USE sw_status trace_period_find(trace_period *p, const snapshot_trace *t,
                                        const trace_lives *l);

#endif
