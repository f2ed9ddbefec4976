/* Between the files of `stepwell train`: its options, its state, its result. */
#ifndef STEPWELL_TRAIN_H
#define STEPWELL_TRAIN_H

#include "alloc/base/sys.h"
#include "profiler/record/process.h"
#include "tools/job/job.h"
#include "tools/job/breakdown_put.h"

/* A field for each option of train_options.def, as it was given. */
typedef struct {
    job_opts job;
#define TRAIN_OPTION(type, field, ...) type field;
#include "tools/train/train_options.def"
} train_opts;
enum {
    TRAIN_OPTIONS_MAX = JOB_OPTIONS_MAX + 2 /* that are not built */
#define TRAIN_ROW(field, ...) +1
#include "tools/train/train_options.def"
};

/* What was observed of one program. */
typedef struct {
    uint64_t runs;
    sw_phase_info phase[SW_PHASES]; /* the highest peak of all runs, the end of the last */
    size_t peak_bytes, bump_bytes;
    sw_witness_info witness; /* size 0: none */
    share_list shares;       /* of the first run, where the result shows them */
} train_measured;

/* Over some samples. */
typedef struct {
    double loss;         /* mean */
    int64_t right, rows; /* right is 0 where there are no classes */
} train_score;

/* A step whose runs have begun. */
typedef struct {
    bool there; /* and what it came to is not told yet */
    uint64_t step, epoch, start_ns;
    train_score score;   /* of the runs that were read */
    int64_t rows, taken; /* of all its micro-batches; of those that began */
    job_which which;     /* the last program that ran */
    double rate;
    bool warm; /* no program ran for the first time */
} train_step;

/* A run whose figures were not read. On a device they are read when the next run has begun, so
 * that the device never waits for us. */
typedef struct {
    bool there, first; /* first: of its program */
    job_which which;
    int64_t rows;
    train_score *score;
    train_step *step; /* NULL: a validation's */
} train_flight;

/* A line of --metrics. */
typedef struct {
    bool validation;
    uint64_t step, epoch;
    train_score score;
    double rate; /* of a step; validations have none */
    uint64_t ns; /* 0: it has no time of its own */
} train_row;

typedef struct {
    train_opts opts;
    char command[512]; /* as typed, for the profile's header */
    job job;
    sw_profile *profile;
    sw_process *process; /* NULL: it was not asked for, or could not be read */
    sw_loader *train_loader, *test_loader;
    train_measured measured[JOB_PROGRAMS];
    cli_times times; /* of warm steps of the main program, loader included */
    uint64_t total_steps, lr_every, step, epochs;
    uint64_t warm_runs, allocations; /* runs that neither traced nor were immediate; theirs */
    uint64_t skipped;                /* updates whose gradients were not finite */
    uint64_t diverged;               /* the step since which the loss is not finite; 0: it is */
    uint64_t start_ns, wall_ns;
    int64_t batches, batches_taken; /* of an epoch, micro-batches each; of the present one */
    train_step steps[2];            /* step k is at k % 2 */
    train_flight flight;            /* the last run, on a device */
    uint64_t told_ns;               /* when the last step was told */
    double last_loss, epoch_loss, epoch_sum;
    uint64_t epoch_steps;            /* told */
    train_score test;                /* of the last validation */
    bool evaluated;                  /* it was of the parameters as they are */
    uint64_t validations, best_step; /* best_step 0: none had a finite loss */
    train_score best;
    double mark;      /* the loss that the next validation must improve on by --min-delta */
    int64_t waited;   /* validations since one did */
    bool stopped;     /* by --patience */
    sw_file *metrics; /* NULL: not asked for */
    uint64_t metrics_bytes; /* of whole rows, and the head */
    bool metrics_lost;      /* a row could not be written: it is given up */
    bool metrics_named;     /* for who syncs: its folder was synced */
    int trouble; /* CLI_DONE, or how a file that could not be written fails the run */
} train;

/* Options: CLI_GO or an exit status. Sets opts, command and the batch. */
int train_parse(train *t, int argc, char **argv);
/* CLI_GO, or CLI_USAGE when a file that is written is another that is written or read. */
int train_check_files(const train_opts *opts);
/* The same for `path`, which is written as `option` says, against the files of --data and
 * --test-data, compressed or not. NULL is fine. */
int train_check_data(const char *option, const char *path, const job_opts *opts);
/* CLI_GO, or CLI_FAILED when a file that is to be written cannot be. */
int train_check_writable(const train_opts *opts);
/* Whether what is trained has classes, and so an accuracy. */
bool train_has_classes(const train *t);
/* All epochs, as far as they go. */
SW_MUST_USE sw_status train_all(train *t);

/* --metrics: CLI_GO, or CLI_USAGE for a name that says no format; NULL is fine. */
int train_metrics_check(const char *path);
/* Nothing where it was not asked for. */
SW_MUST_USE sw_status train_metrics_open(train *t);
/* The same for a run that goes on from a checkpoint: what the file has behind `bytes` is cut
 * off, and rows go on there. A file that is not there is begun, with a note. SW_FORMAT, and the
 * file is as it was, where it is shorter, where no row ends at `bytes`, or where it is no
 * regular file. */
SW_MUST_USE sw_status train_metrics_go_on(train *t, uint64_t bytes);
/* Where the file is open, and how much of it the rows that were told until now take. One that
 * was given up stays at its last whole row. For the thread of the loop. */
void train_metrics_position(const train *t, bool *there, uint64_t *bytes);
/* Sync the rows. Another thread may call it while the loop writes, but one at a time, and it
 * must have returned before train_metrics_close: who closes waits for the save that goes on. */
SW_MUST_USE sw_status train_metrics_sync(train *t);
void train_metrics_row(train *t, const train_row *row);
void train_metrics_close(train *t);

/* In front of a profile of a run that goes on from step `step`: the regular file at `path`, a
 * profile of the run before, is renamed to PATH.before-STEP, or to PATH.before-STEP.2 and so on
 * where that is taken. `kept` receives the new name, "" where nothing was renamed; SW_INVALID
 * where it has no room. SW_BUSY: another process writes it. PATH.1 stays. */
SW_MUST_USE sw_status train_keep_profile(const char *path, uint64_t step, char *kept,
                                         size_t bytes);

/* CLI_FAILED, with a message, when a witness disagrees with the plan. */
int train_check_witness(const train *t);
/* The profile of --profile, without an exec. */
SW_MUST_USE sw_status train_create_profile(train *t);
/* After a refusal for memory before the first step; see train_refused.c. */
void train_record_refusal(train *t);
/* With --process: read the process into t->process and the profile, or say why it could not be.
 */
void train_read_process(train *t);
void train_free_process(train *t);
/* "0.1234", "nan", "inf" */
cli_text train_loss(double loss);
/* The result on standard output, as text or JSON. */
int train_print(train *t, int status);

#endif
