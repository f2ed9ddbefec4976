/* Live bytes of one arena, phase by phase: a listener of the arena's events that reads the
 * clock where the phase changes. This is what a run without a witness reports as measured by
 * "arena". Belongs to the thread that uses the arena. */
#pragma once

#include "alloc/arena/observer.h"
#include "profiler/record/nvtx.h"
#include "profiler/record/record.h"

/* A range that was born, or died. */
typedef struct {
    size_t bytes;
    uint32_t id; /* of a pushed range: push_id as it was then */
    uint32_t died;
} sw_watch_note;

typedef struct {
    size_t base_bytes; /* live all the time: model and batch slot */
    size_t live, peak; /* bytes of the arena: now, and at most in this phase */
    int phase;         /* -1: outside a run */
    uint64_t since;    /* the phase began */
    sw_prof_phase phases[SW_PROF_PHASES]; /* of the last run */
    sw_watch_note *notes; /* the caller's room, NULL: none; what happened since the run began */
    uint32_t n_notes, cap_notes, push_id;
    sw_record_log *log; /* receives what is stated, and edges; NULL: no one wants it */
    sw_nvtx_run *nvtx;  /* told too; NULL: no tool is attached */
} sw_watch;

/* Give this to the arena; the watch must outlive it. */
sw_observer sw_watch_observer(sw_watch *watch);

/* A run begins: its data phase holds `base_bytes` before the first op. */
void sw_watch_begin(sw_watch *watch, size_t base_bytes);
/* The phase of what follows. A phase may come back: its peak is the largest, its end the
 * last. */
void sw_watch_phase(sw_watch *watch, int phase);
void sw_watch_end(sw_watch *watch);

/* For tools alone, around each op: its tensors are born; those that die are dead. */
static inline void sw_watch_op(sw_watch *watch, uint32_t op)
{
    if (watch->nvtx != NULL)
        sw_nvtx_run_op(watch->nvtx, op, watch->base_bytes + watch->live);
}
static inline void sw_watch_op_end(sw_watch *watch)
{
    if (watch->nvtx != NULL)
        sw_nvtx_run_op_end(watch->nvtx, watch->base_bytes + watch->live);
}
