/* Between the files of members. */
#pragma once

#include "alloc/base/handle.h"
#include "runtime/base/structs.h"
#include "runtime/data/feed.h"
#include "runtime/population/member_pool.h"

#define SWI_NO_RANGE SIZE_MAX

typedef struct {
    uint64_t seed;
    uint64_t steps, batches; /* its progress */
    uint64_t used;           /* number of the run that it was named in last */
    uint64_t ns;             /* that its last run took, all its steps; 0 on a device */
    size_t offset;           /* of its range in the member_pool's arena; SWI_NO_RANGE: none */
    uint32_t generation;     /* odd: there is a member */
    uint32_t next_free;
    bool taken;         /* its range is in use */
    bool damaged;       /* it failed after an update */
    bool knobs_changed; /* on a device: since they were uploaded */
} swi_slot_record;

/* A program of the planner's, and on the CPU a frame of it in each lane. */
typedef struct {
    swi_frame *planned; /* held */
    swi_frame **frame;
} swi_group_program;

/* A run of the group, as it was read and made ready. */
typedef struct {
    sw_members_args args;
    sw_run_args of_one;                /* of a run of the shape */
    sw_array batch[2][SWI_MAX_FIELDS]; /* with a feed: a full batch, and the last of an epoch */
    uint32_t program[2];               /* for each; without a feed the first */
    int64_t full_rows;                 /* of the first */
    size_t first;                      /* item of member 0 among all of the run */
    bool going_on;
} swi_group_run;

struct sw_members {
    sw_handle handle;
    sw_exec *exec; /* the caller's: its threads, its turn */
    swi_member_pool *member_pool;
    sw_members *next; /* of the member_pool */
    swi_lanes *lanes;
    sw_model *shape;
    sw_members_opts opts;
    size_t stride, model_bytes; /* of a member; of its part that is the shape's */
    swi_slot_record *slots;
    uint32_t n_slots, cap_slots, first_free, n_members;
    float *first_knobs; /* as the shape had them when the members were made */
    uint32_t n_first_knobs;
    float *knob_copies; /* on a device: the knobs of all slots */
    uint32_t cap_knob_copies;
    swi_knob *knobs; /* on a device, n_first_knobs: of the member that is launched */
    swi_group_program *programs;
    uint32_t n_programs, cap_programs;
    swi_group_run run;
    swi_data_need data_need; /* on a device: of all that sw_members_look was asked */
    /* Of the last run. */
    const swi_trace *last; /* its metrics; NULL with a callback */
    float *metrics;        /* n_members of the run, then the next metric */
    double *sums;          /* of all steps, in the same order */
    uint32_t *made;        /* steps that the sums are of */
    sw_status *ended;
    uint32_t cap_metrics, cap_sums, cap_made, cap_ended;
    size_t n_last;
    uint64_t n_runs;
    bool goes_on; /* the next run is more of the last one */
};

static inline unsigned char *swi_member_base(const sw_members *m, uint32_t index)
{
    SW_ASSERT(index < m->n_slots && m->slots[index].offset != SWI_NO_RANGE);
    return (unsigned char *)sw_arena_base(m->member_pool->ranges) + m->slots[index].offset;
}

/* On the CPU: the next run is of the same members in the same order, and adds to the means of
 * the last one, so that a long run can be made in pieces with the same bits. Members that
 * failed make no more of it. */
void swi_members_go_on(sw_members *members);
/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_members_free(sw_members *members);
/* Do they lie in host memory? Else swi_member_base is an address of the device. */
bool swi_members_on_host(const sw_members *members);
/* The shape with a member's range, for the functions that work with models. */
sw_model swi_member_stand_in(const sw_members *members, uint32_t index);
/* Room for the knobs of one slot more. */
sw_status swi_member_knob_room(sw_members *members);
/* A member's knobs, which host code may read; NULL: the shape has none. */
float *swi_member_knobs(const sw_members *members, uint32_t index);
/* The whole range, from and to host memory, and from one member to another. A device that fails
 * leaves the member that was written to damaged. */
sw_status swi_member_take(const sw_members *members, uint32_t index, void *to);
sw_status swi_member_put(sw_members *members, uint32_t index, const void *from);
/* SW_INVALID: not a member, or ended. */
sw_status swi_member_look(sw_member member, const char *call);
/* The same for what a callback of the group must not do: SW_BUSY there. */
sw_status swi_member_check(sw_member member, const char *call);
/* A slot for a member, with a range; give it back. */
sw_status swi_slot_take(sw_members *members, uint32_t *out);
void swi_slot_give(sw_members *members, uint32_t index);
/* A member without first values: the caller writes its whole range. */
sw_status swi_member_claim(sw_member *out, sw_members *members, uint64_t seed);

/* All are of the group, each at most once, and at least one. */
sw_status swi_members_check_list(sw_members *members, const sw_member *list, size_t n,
                                 const char *call);
/* Read the arguments into members->run, find the programs and take the memory for a run. */
sw_status swi_members_prepare(sw_members *members, const sw_members_args *given,
                              const char *call);
/* The arguments of a run of the shape: with a feed a full batch (0), or the last one (1). */
sw_run_args swi_members_of_one(const sw_members *members, int batch);
/* How many metrics a run leaves, and the name of one. */
uint32_t swi_members_n_metrics(const sw_members *members);
/* SW_INVALID where a knob of it is what it cannot be: it was set before a step function said
 * what the knob is for. */
sw_status swi_member_knobs_check(const sw_members *members, uint32_t index);
