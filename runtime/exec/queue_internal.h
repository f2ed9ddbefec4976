/* Between the files of runtime/exec/queue*.c. */
#pragma once

#include "runtime/exec/queue.h"
#include "runtime/exec/run_internal.h"

#define SWI_SLOTS 2

/* A place on the way of inputs: counters, then the inputs; after them, on the host alone,
 * knobs. */
typedef struct {
    unsigned char *pinned;
    sw_cuda_event *there; /* it is on the device, in staging */
    sw_cuda_event *taken; /* no one reads either side any more */
    bool used;
} swi_slot;

/* Clocks where phases begin; the last ends the last phase. */
typedef struct {
    sw_cuda_event *event;
    int phase;
} swi_phase_event;
typedef struct {
    swi_phase_event *at;
    uint32_t n, cap; /* recorded, or captured; there are */
    uint64_t run;    /* that has recorded them last */
} swi_phase_events;

/* Counts of an optimizer in a run's block: the total before the run, then all of them. */
typedef struct {
    uint64_t model; /* its uid, of a run: a program may be that of several models */
    uint32_t slot;  /* of the model in the run's arguments */
    uint32_t optimizer;
    uint32_t at;
    int most; /* as the optimizer's max_skipped; below 0: no one asks for a report */
} swi_watched;

/* Reports of a model's skipped updates that wait for the next run with it. */
#define SWI_PENDING_REPORTS 64
typedef struct {
    uint64_t model; /* its uid */
    uint32_t optimizer;
    double counts[SWI_SKIPPED_N];
} swi_pending_report;

/* The metrics and counts that a program's runs give back. */
typedef struct {
    uint32_t segment, bytes;
    size_t offset, to;
    bool before; /* as it was before the first op */
} swi_gathered;
struct swi_readback {
    swi_gathered *copies;
    uint32_t n, cap;
    swi_watched *watched;
    uint32_t n_watched, cap_watched;
    size_t bytes;
};

/* A run of the ring, on the device: that of swi_history_run with the same index. */
typedef struct {
    unsigned char *pinned; /* the block */
    sw_cuda_event *begin, *end;
    uint64_t run;
    swi_phase_events *phase_events; /* NULL: no clocks, or gone */
    swi_watched *watched;
    uint32_t n_watched;
    bool judged; /* its counts have been looked at */
} swi_run_readback;

/* A program captured at the addresses of one binding. */
typedef struct {
    const swi_program *program;
    unsigned char *base[SWI_SEG_COUNT + 1]; /* the last: where the block is gathered */
    uint64_t seed;                          /* of the exec: launches have it */
    sw_cuda_graph *graph;
    swi_phase_events phase_events;
    uint64_t used;
} swi_binding;

struct swi_queue {
    swi_device *device;
    const sw_cuda_api *api;
    sw_cuda_queue compute, copying;
    sw_cuda_group group; /* of compute */
    uint64_t number;     /* unique in the process */
    bool sync_ops, no_graphs;
    sw_arena *data; /* on the device: tickets, place, staging of each slot, block */
    size_t slot_bytes, knob_bytes, block_bytes;
    void *pinned; /* both slots, then SWI_HISTORY blocks */
    size_t pinned_bytes;
    size_t input_at[SWI_MAX_INPUTS]; /* in a slot */
    swi_slot slots[SWI_SLOTS];
    uint64_t begun;
    swi_run_readback readback[SWI_HISTORY];
    swi_watched *watched; /* of the ring, cap_watched each */
    uint32_t cap_watched;
    swi_pending_report pending_reports[SWI_PENDING_REPORTS];
    uint32_t n_pending_reports;
    swi_phase_events eager;         /* of runs op by op */
    swi_phase_events *phase_events; /* of what is launched now; NULL: no clocks */
    swi_binding **bindings;
    uint32_t n_bindings, cap_bindings, next_binding;
    uint32_t most_graphs;    /* the least recently used goes */
    size_t most_graph_bytes; /* of all graphs on the card; one of each queue may have more */
    uint64_t clock;
    void *outputs; /* copies in host memory */
    size_t outputs_bytes;
};

/* Keep a fault; in a mode where an earlier launch may be the cause, say so. */
sw_status swi_queue_fault(const swi_queue *queue, sw_status status);
/* Calls that follow on this thread are about the queue's card. */
sw_status swi_queue_use(const swi_queue *queue);
/* Models that another queue worked on are waited for, inputs and knobs go their way. */
sw_status swi_queue_begin(sw_exec *exec, const sw_run_args *args);
/* Wait for all that was launched. */
sw_status swi_queue_sync(swi_queue *queue);
/* Wait until the device has reached the event; polls before it waits. */
unsigned char *swi_queue_block(const swi_queue *queue);
swi_run_readback *swi_queue_readback_of(const sw_exec *exec, const swi_history_run *run);

/* Gather what is so `before` or after the ops. */
sw_status swi_queue_gather(const swi_queue *queue, const swi_readback *readback,
                           unsigned char *const *base, bool before);
/* The block goes to the ring. */
sw_status swi_queue_read_back(sw_exec *exec, const sw_run_args *args, swi_history_run *run,
                              const swi_frame *frame);

/* Record an event where a phase begins (-1: the last ends). */
sw_status swi_queue_record_phase(swi_queue *queue, int phase);
void swi_phase_events_free(const swi_queue *queue, swi_phase_events *phase_events);
