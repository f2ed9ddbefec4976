/* Between the files that write the profile. All but swi_prof_writes and swi_prof_record
 * want the lock. */
#pragma once

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
    sw_thread *writer_thread; /* writes what waits; NULL without a file */
    bool sleeping, end;       /* the writer_thread: has no deadline; is to go */
    uint64_t waiting;         /* clock of the oldest record that is not in the file; 0: none */
    sw_file *file;  /* NULL: nothing is written; locked, so that one process writes it */
    sw_file *statm; /* NULL: the system has none */
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
    char buffer[SWI_PROF_BUFFER];
};

static inline bool swi_prof_writes(const sw_profile *p)
{
    return p->file != NULL && p->status == SW_OK;
}

/* A record of that type with the members that `put` writes, where there is a file. Takes the
 * lock itself. */
void swi_prof_record(sw_profile *profile, const char *type,
                     void (*put)(sw_json *json, const void *x), const void *x);
