/* A trace, run through the caching allocator and held against it: how far every place follows
 * from the allocator's rules, and so every byte of what was reserved has a cause. */
#ifndef STEPWELL_TRACE_REPLAY_H
#define STEPWELL_TRACE_REPLAY_H

#include "profiler/inspect/replan/trace_start.h"

/* The allocator's bytes at one moment. reserved is the sum of requested and of all below it but
 * pending. Free memory that could not serve the latest request counts where it is barred first:
 * by the pool, by the stream, by the class of sizes; before the first request nothing is
 * barred. */
typedef struct {
    uint64_t reserved;
    uint64_t requested;
    uint64_t pending;       /* of requested: freed, and waited for by other streams */
    uint64_t rounding;      /* requests were rounded up */
    uint64_t unsplit;       /* rests of blocks that were too small to become free blocks */
    uint64_t unsure;        /* at most so much of the free memory is such rests too, of blocks
                               from before the trace */
    uint64_t split;         /* free blocks of segments that are in use */
    uint64_t cached;        /* free segments */
    uint64_t other_pools;   /* free memory of private pools */
    uint64_t other_streams; /* free memory of other streams */
    uint64_t other_sizes;   /* free memory for requests up to 1 MiB, or above */
} replay_census;

typedef struct {
    uint32_t event; /* index; the moment is after it */
    bool known;     /* out: the census is */
    replay_census census;
    uint64_t *lost_of; /* by stack: bytes of rounding and of rests, n_stacks of them; NULL */
} replay_moment;

typedef struct {
    uint32_t n_checked; /* requests that lie where the rules put them */
    uint32_t from;      /* index of the first event that does not follow; TRACE_NONE: all do */
    char why[240];
} replay_proof;

/* Moments come by event; of a trace without events they are its end. Ends at the first event
 * that does not follow. Requests that do not say their pool get that of the block that they
 * took. */
SW_MUST_USE sw_status replay_run(snapshot_trace *t, const trace_start *start,
                                 replay_moment *moments, uint32_t n, replay_proof *out);

#endif
