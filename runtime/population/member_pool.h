/* Shared by the groups of members of an exec.
 *
 * Lanes: a step arena, a place for a batch and the threads of one member; on a device the
 * stream of an exec of its own. Groups that ask for as many threads share them, and the exec
 * that traces and plans for them, so that memory grows with threads and not with shapes.
 * Ranges: one arena for the members of all shapes. A range that is given back is used again by
 * its own group. All that live are moved together where the arena cannot grow, so that members
 * fit where their sum does; where a quarter of it would be holes; and under a budget before the
 * arena grows, which is then never higher than the members that lived at one time. */
#pragma once

#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"

typedef struct {
    sw_arena *steps;   /* as high as the highest plan that ran in it; NULL on a device */
    sw_arena *batches; /* one batch, in host memory */
    sw_pool *pool;     /* NULL: that of the exec, or none */
    const sw_par *par; /* of a member's kernels */
    size_t failed;     /* first item of the run that failed here; SIZE_MAX: none */
    char why[300];
} swi_lane;

typedef struct swi_lanes {
    struct swi_lanes *next; /* of the same exec */
    sw_exec *exec;          /* the exec of the threads */
    sw_exec *planner; /* as many threads as a member has; on a device members run in it, on
                         the CPU nothing runs in its arena */
    int threads;      /* of a member */
    int users;        /* groups */
    int n;
    int active; /* that runs use */
    swi_lane *lane;
    const sw_profile *profile; /* that the planner's programs were written to last; its number
                                  there. Compared, not followed */
    uint32_t profile_generation, profile_number;
} swi_lanes;

typedef struct swi_member_pool {
    sw_exec *exec;
    swi_lanes *lanes;   /* by threads of a member */
    sw_members *groups; /* all that live */
    sw_arena *ranges;
    size_t top;          /* where the last range ends */
    size_t live, n_live; /* bytes of ranges that are in use, and how many */
    int users;
} swi_member_pool;

/* Join the member_pool of an exec, which is made where there is none; leave it. */
sw_status swi_member_pool_join(sw_members *members, sw_exec *exec);
void swi_member_pool_leave(sw_members *members);
/* An arena on the exec's device, under its budget. */
sw_status swi_member_pool_arena(sw_arena **out, const sw_exec *exec, const char *label,
                                sw_arena_use use);
/* A range of so many bytes, a multiple of SW_ALIGN: *offset in the member_pool's arena. */
sw_status swi_member_pool_range(swi_member_pool *member_pool, size_t bytes, size_t *offset);

/* Those for members of so many threads, made where they are not there yet. */
sw_status swi_lanes_take(swi_lanes **out, swi_member_pool *member_pool, int threads);
void swi_lanes_give(swi_member_pool *member_pool,
                    swi_lanes *lanes); /* NULL is fine; the last group ends them */
/* How many lanes runs use from now on, at least 1; more than there are: all. Results do not
 * depend on it. */
void swi_lanes_use(swi_member_pool *member_pool, int lanes);
/* So much in every lane that is used; on a device the batch alone. */
sw_status swi_lanes_grow(swi_lanes *lanes, size_t steps_bytes, size_t batch_bytes);
/* On the host, between two runs: empty from now on. */
sw_status swi_lanes_empty(swi_lanes *lanes);
/* Bytes that all lanes have: in their step arenas, for their batches, and both. */
size_t swi_lanes_step_bytes(const swi_member_pool *member_pool);
size_t swi_lanes_batch_bytes(const swi_member_pool *member_pool);
size_t swi_lanes_bytes(const swi_member_pool *member_pool);
