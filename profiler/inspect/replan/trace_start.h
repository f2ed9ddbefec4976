/* The state before a trace: the end of the snapshot with the trace undone. */
#ifndef STEPWELL_TRACE_START_H
#define STEPWELL_TRACE_START_H

#include "profiler/inspect/replan/snapshot_trace.h"

typedef struct {
    trace_segment *segments; /* by address, without blocks */
    uint32_t n_segments, cap_segments;
    trace_block *blocks; /* that were live, by address; `bytes` may be less than they took where
                            they are not `kept`: rests that were too small to split */
    uint32_t n_blocks, cap_blocks;
    uint64_t reserved;  /* of the segments */
    uint64_t requested; /* of the blocks */
    char why[160];      /* why the segments are not known; "": they are */
} trace_start;

/* Also gives segment events that do not say their pool that of the segment in the snapshot.
 * Free it too after a failure. */
SW_MUST_USE sw_status trace_start_find(trace_start *s, snapshot_trace *t);
/* The most that was reserved up to event `to`, and the index of the event that made it so, or
 * TRACE_NONE where it was so before the trace; what is reserved then, where `now` is not NULL.
 */
uint64_t trace_start_most(const trace_start *s, const snapshot_trace *t, uint32_t to,
                          uint32_t *where, uint64_t *now);
void trace_start_free(trace_start *s);

#endif
