/* What threads have for members: a lane is a step arena, a place for a batch and the threads of
 * one member. All groups of an exec that ask for as many threads share the lanes, and the exec
 * that traces and plans for them, so that memory grows with threads and not with shapes. */
#ifndef SW_LANES_H
#define SW_LANES_H

#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"

typedef struct {
    sw_arena *steps;   /* as high as the highest plan that ran in it */
    sw_arena *batches; /* one batch */
    sw_pool *pool;     /* NULL: that of the exec, or none */
    const sw_par *par; /* of a member's kernels */
    size_t failed;     /* first item of the run that failed here; SIZE_MAX: none */
    char why[300];
} swi_lane;

typedef struct swi_lanes {
    struct swi_lanes *next; /* of the same exec */
    sw_exec *exec;          /* whose threads they are */
    sw_exec *planner;       /* as many threads as a member has; nothing runs in its arena */
    int threads;            /* of a member */
    int users;              /* groups */
    int n;
    swi_lane *lane;
} swi_lanes;

/* Those of the exec for members of so many threads, made where they are not there yet. */
sw_status swi_lanes_take(swi_lanes **out, sw_exec *exec, int threads);
void swi_lanes_give(swi_lanes *lanes); /* NULL is fine; the last group ends them */
/* So much in every lane. */
sw_status swi_lanes_grow(swi_lanes *lanes, size_t steps_bytes, size_t batch_bytes);
/* Bytes that all lanes of the exec have. */
size_t swi_lanes_bytes(const sw_exec *exec);

#endif
