/* What lives in one arena, phase by phase: a listener of the arena's events that reads the
 * clock where the phase changes. This is what a run without a witness reports as measured by
 * "arena". Belongs to the thread that uses the arena. */
#ifndef SW_WATCH_H
#define SW_WATCH_H

#include "alloc/observer.h"
#include "profiler/record.h"

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
    sw_record_log *log; /* receives what is stated, and edges; NULL: nobody wants it */
} sw_watch;

/* Give this to the arena; the watch must outlive it. */
sw_observer sw_watch_observer(sw_watch *watch);

/* A run begins: its data phase holds `base_bytes` before the first op. */
void sw_watch_begin(sw_watch *watch, size_t base_bytes);
/* The phase of what follows. A phase may come back: its peak is the largest, its end the last.
 */
void sw_watch_phase(sw_watch *watch, int phase);
void sw_watch_end(sw_watch *watch);

#endif
