/* Between the files of members. */
#ifndef SW_MEMBERS_INTERNAL_H
#define SW_MEMBERS_INTERNAL_H

#include "alloc/base/handle.h"
#include "runtime/base/structs.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"

typedef struct {
    uint64_t seed;
    uint32_t generation; /* odd: there is a member */
    uint32_t next_free;
    bool damaged;  /* it failed behind an update */
    uint64_t used; /* number of the run that it was named in last */
} swi_slot_record;

/* A thread's own: its arena, and a frame of each program that it runs. */
typedef struct {
    sw_arena *arena;
    swi_frame **frames; /* by the program's position in `programs` */
    uint32_t cap_frames;
    size_t failed; /* first member of the run that failed here; SIZE_MAX: none */
    char why[300];
} swi_lane;

struct sw_members {
    sw_handle handle;
    sw_exec *exec;    /* the caller's: its threads, its turn */
    sw_exec *planner; /* one thread; traces and plans */
    sw_model *shape;
    sw_step_fn *fn;
    void *user;
    size_t stride;   /* bytes of a member */
    sw_arena *arena; /* of all of them */
    swi_slot_record *slots;
    uint32_t n_slots, cap_slots, first_free, n_members;
    float *first_knobs; /* as the shape had them when the members were made */
    uint32_t n_first_knobs;
    const swi_program **programs;
    uint32_t n_programs, cap_programs;
    swi_lane *lanes;
    int n_lanes;
    /* Of the last run. */
    const swi_program *last;
    float *metrics; /* n_members of the run, then the next metric */
    sw_status *ended;
    uint32_t cap_metrics, cap_ended;
    size_t n_last;
    uint64_t n_runs;
};

unsigned char *swi_member_base(const sw_members *members, uint32_t index);
/* SW_INVALID: it is none, or was ended. */
sw_status swi_member_check(sw_member member, const char *call);
/* SW_INVALID where a knob of it is what it cannot be: it was set before a step function said
 * what the knob is for. */
sw_status swi_member_knobs_check(const sw_members *members, uint32_t index);
/* Take exec and shape for a call; give them back. */
sw_status swi_members_enter(sw_members *members, const sw_run_args *args, const void *frame);
void swi_members_leave(sw_members *members, const sw_run_args *args);

#endif
