/* Between the files that write the profile. All but swi_prof_writes and swi_prof_record
 * want the lock. */
#ifndef SW_PROF_INTERNAL_H
#define SW_PROF_INTERNAL_H

#include "alloc/base/fork.h"
#include "alloc/base/handle.h"
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "profiler/record/prof_heap.h"
#include <pthread.h>

#define SWI_PROF_BUFFER ((size_t)64 << 10) /* about eighty step records */

struct sw_profile {
    sw_handle handle;
    uint32_t forks; /* sw_fork_number of the process that made it */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_rwlock_t files;   /* who syncs `file` and `before` reads; who changes them writes.
                                 Taken   after `lock` alone, and kept by who syncs without it */
    sw_thread *writer_thread; /* writes what waits; NULL without a file */
    bool sleeping, end;       /* the writer_thread: has no deadline; is to go */
    uint64_t waiting;         /* clock of the oldest record that is not in the file; 0: none */
    sw_file *file;   /* NULL: nothing is written; locked, so that one process writes it */
    sw_file *before; /* of a file in parts: the part before, locked too */
    sw_file *statm;  /* NULL: the system has none */
    sw_json json;
    sw_status status;                /* the first error; later records are dropped */
    char message[512];               /* as long as messages can be */
    uint64_t start, recorded, asked; /* clock of each; asked 0: never */
    uint64_t steps, evaluations;     /* train records, micro-batches counted once; others */
    size_t predicted_peak_bytes, measured_peak_bytes;
    char end_status[16], end_error[512]; /* "": done, no error */
    uint32_t n_execs;
    uint32_t n_shapes; /* records of shapes */
    uint32_t event_room;
    uint64_t every;
    sw_prof_step last; /* the step that was only counted last, if nothing was written since */
    double last_loss;
    bool last_waits;
    sw_prof_heap heap;
    bool heap_recorded; /* there is a "heap" record */
    /* Of a file in parts. */
    size_t max_bytes; /* 0: it is in one */
    uint64_t part;    /* from 0 */
    size_t file_bytes;
    char *names; /* of the file, of the part before, of the next one: each names_bytes long */
    size_t names_bytes;
    bool keeps, keeping; /* what is formatted is kept: now */
    char *kept;          /* the header, left open, and the plans */
    uint32_t cap_kept;
    size_t kept_bytes, header_bytes, plan_from;
    bool plan_optional; /* the plan that is being kept is a trace */
    uint32_t most_ops;  /* of a plan: their clocks are in a step's record */
    char buffer[SWI_PROF_BUFFER];
};

static inline bool swi_prof_writes(const sw_profile *p)
{
    return (p->file != NULL || p->keeps) && p->status == SW_OK;
}

/* The first error stays. */
sw_status swi_prof_stick(sw_profile *profile, sw_status status);
/* The lines that wait go to the file. */
void swi_prof_flush(sw_profile *profile);
/* Straight to the file. */
sw_status swi_prof_write(sw_profile *profile, const char *bytes, size_t n);
/* Before a record of at most `bytes`: begins another part where this one has no room. */
void swi_prof_reserve(sw_profile *profile, size_t bytes);
/* After a record. */
void swi_prof_done(sw_profile *profile, uint64_t now);
/* A record of that type with the members that `put` writes, where there is a file. Takes the
 * lock itself. */
void swi_prof_record(sw_profile *profile, const char *type,
                     void (*put)(sw_json *json, const void *x), const void *x);
/* The lines of a step's events; step_bytes: of its own record, which stands in the same part of
 * the file, if one has room for both. */
void swi_prof_events(sw_profile *profile, const sw_prof_step *step, size_t step_bytes);
/* Before whatever follows the last step for good. */
void swi_prof_write_last(sw_profile *profile);
void swi_prof_put_phases(sw_json *json, const sw_prof_phase *phase, bool clocked);
/* The members of a "heap" record. */
void swi_prof_heap_put_report(sw_json *json);
/* The program or trace that a record is about; an exec but the first. */
void swi_prof_put_program(sw_json *json, uint32_t exec, uint32_t program, uint32_t trace);

/* ---- parts (prof_parts.c) ---------------------------------------------------------------- */

/* Bytes that a part must have room for besides header, plans and the clocks of a plan's ops. */
#define SWI_PROF_LINE_BYTES SWI_PROF_BUFFER
/* At most, of an event and of a step's members that are not lists. */
#define SWI_PROF_EVENT_BYTES ((size_t)40)
#define SWI_PROF_STEP_BYTES ((size_t)4096)
#define SWI_PROF_CLOCK_BYTES ((size_t)21)
/* Bytes that a step leaves free for the records of the heap and the end: the last part has
 * steps. */
#define SWI_PROF_CLOSING_BYTES (2 * SWI_PROF_STEP_BYTES)

/* Names and checks, before anything is opened. */
SW_MUST_USE sw_status swi_prof_parts_begin(sw_profile *profile, const sw_prof_header *header);
void swi_prof_parts_free(sw_profile *profile);
/* The file was taken: take the part before it, which a run before has left, and empty the file.
 */
SW_MUST_USE sw_status swi_prof_parts_take(sw_profile *profile);
/* Keep what is formatted from here on. */
void swi_prof_keep(sw_profile *profile);
/* A drain: more of it. */
sw_status swi_prof_keep_more(sw_profile *profile, const char *bytes, size_t n);
/* The header was kept, all but its end. */
void swi_prof_keep_header(sw_profile *profile);
/* Write it to the file that was opened. */
void swi_prof_first_part(sw_profile *profile);
/* A plan was kept: write it. One that has no room in any part is an error; a trace is let go.
 */
bool swi_prof_keep_plan(sw_profile *profile);
/* Bytes of a part that are not header and plans. */
size_t swi_prof_part_bytes(const sw_profile *profile);

#endif
