/* Where a trace repeats: the steps of a training, found by what is asked for. */
#ifndef STEPWELL_TRACE_PERIOD_H
#define STEPWELL_TRACE_PERIOD_H

#include "profiler/inspect/replan/trace_roles.h"

typedef struct {
    uint32_t steps;    /* whole ones; 0: none were found */
    bool passes;       /* they are forward and backward: frames show no optimizer */
    bool by_frames;    /* else by requests that repeat: at least 3, and alike */
    uint32_t requests; /* of a step: allocations that begin in it */
    uint32_t first;    /* position where the first of them begins */
    uint32_t from,
        to; /* positions of one of them, half-open; it begins where the least lives */
} trace_period;

/* Steps that frames show; where they say nothing, the longest run of requests (bytes, stream,
 * pool, how long they live) that repeats, of those that end at the trace's end, or that stop up
 * to 15/16 of the trace in front of it; of a run's periods the shortest. A step leaves what it
 * found, and has what comes behind it of the trace's peak: what repeats without that is a
 * layer. Linear. */
SW_MUST_USE sw_status trace_period_find(trace_period *p, const snapshot_trace *t,
                                        const trace_lives *l, const trace_roles *roles);

#endif
