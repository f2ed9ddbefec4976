/* The files that a command writes: none may be another that it writes or reads, by whatever
 * name, whether they can be written is known before anything runs, and rows of metrics go on
 * where a checkpoint says. */
#pragma once

#include "alloc/base/sys.h"
#include "tools/job/job.h"

typedef enum {
    JOB_READ,   /* it is not written */
    JOB_BESIDE, /* written beside the old one, which it replaces */
    JOB_IN_PLACE,
    JOB_NO_PIPE, /* in place, and no pipe: one that is opened by others waits for a reader */
    JOB_LATER    /* in place, by who says then that it cannot be written */
} job_writing;

/* A file of the command line. */
typedef struct {
    const char *option, *path; /* path NULL: it was not given */
    job_writing how;
    bool params;    /* parameters may replace those that the run began with */
    bool no_stream; /* "-" is refused: standard output has the result */
} job_output;

/* CLI_GO, or CLI_USAGE when a file that is written is another of the n, one of --data and
 * --test-data, compressed or not (opts NULL: there are none), or one of a generation of
 * --checkpoint, of which `keep` stay, and --resume (NULL: not given). */
int job_outputs_check(const job_output *files, size_t n, const job_opts *opts,
                      const char *checkpoint, const char *resume, int64_t keep);
/* CLI_GO, or CLI_FAILED when a file that is to be written, or --checkpoint, cannot be. */
int job_outputs_writable(const job_output *files, size_t n, const char *checkpoint);

/* Before a profile of a run that goes on from step `step`: the regular file at `path`, a
 * profile of the run before, is renamed to PATH.before-STEP, or to PATH.before-STEP.2 and so on
 * where that is taken. `kept` receives the new name, "" where nothing was renamed; SW_INVALID
 * where it has no room. SW_BUSY: another process writes it. PATH.1 stays. */
SW_MUST_USE sw_status job_keep_profile(const char *path, uint64_t step, char *kept,
                                       size_t bytes);

/* End the profile of a command that ends with that status (NULL: it has none), which stands in
 * it: the status, or that of a profile that could not be written whole. */
int job_profile_close(sw_profile *profile, int status);

/* ---- --metrics --------------------------------------------------------------------------- */

/* Lines of CSV or JSON, or TensorBoard's events. Each is handed to the system at once, so that
 * neither Ctrl-C nor a killed process loses any. */
typedef struct {
    const char *path;
    sw_file *file;  /* NULL: not open */
    uint64_t bytes; /* of whole rows, and the head */
    bool named;     /* for who syncs: its folder was synced */
} job_metrics;

bool job_metrics_events(const char *path); /* TensorBoard's name */
/* CLI_GO, or CLI_USAGE for a name that says no format; NULL is fine. events: TensorBoard's is
 * one. */
int job_metrics_check(const char *path, bool events);
/* Nothing where path is NULL. `head` begins a file of CSV or events. go_on: the run goes on
 * where a checkpoint found m->bytes in the file: what it has after them is cut off, and rows go
 * on there. A shorter file goes on after its last whole row, with a note that rows are missing,
 * and a file that is not there begins, with a note. SW_FORMAT, and the file is as it was, where
 * it is another file or no regular one; SW_BUSY where another process writes it. */
SW_MUST_USE sw_status job_metrics_open(job_metrics *m, const char *path, const void *head,
                                       size_t head_bytes, bool go_on);
SW_MUST_USE sw_status job_metrics_put(job_metrics *m, const void *row, size_t n);

/* A value of a row. */
typedef struct {
    const char *key; /* in JSON; NULL: it has none there */
    enum {
        JOB_TEXT,
        JOB_COUNT,
        JOB_REAL,
        JOB_MS,
        JOB_GROUP /* JSON has all after it in an object of this name */
    } kind;
    bool known; /* else empty, and null in JSON */
    const char *text;
    uint64_t count;
    double real;
} job_cell;
/* A row of CSV or JSON. */
SW_MUST_USE sw_status job_metrics_row(job_metrics *m, const job_cell *cells, int n);
/* Sync the rows. Another thread may call it while rows are written, but one at a time, and it
 * must have returned before job_metrics_close. */
SW_MUST_USE sw_status job_metrics_sync(job_metrics *m);
SW_MUST_USE sw_status job_metrics_close(job_metrics *m);
