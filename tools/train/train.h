/* Between the files of `stepwell train`: its options, its state, its result. */
#pragma once

#include "alloc/base/sys.h"
#include "profiler/inspect/tfevents.h"
#include "profiler/record/process.h"
#include "tools/job/job_ranks.h"
#include "tools/job/outputs.h"
#include "tools/job/saves.h"
#include "tools/job/result.h"
#include "tools/train/train_find.h"

/* Options of gradients, and those that need more of a trainer of zeroth order than it keeps. */
#define TRAIN_NOT_ZEROTH                                                                       \
    "--optimizer --momentum --state --clip --max-skipped --update --keep-gradients "           \
    "--accumulate "                                                                            \
    "--members --checkpoint --resume"

/* A field for each option of train_options.def, as it was given. */
typedef struct train_opts {
    job_opts job;
#define TRAIN_OPTION(type, field, ...) type field;
#include "tools/train/train_options.def"
} train_opts;
enum {
    TRAIN_OPTIONS_MAX = JOB_OPTIONS_MAX
#define TRAIN_ROW(field, ...) +1
#include "tools/train/train_options.def"
};

/* A step whose runs have begun. */
typedef struct {
    bool there; /* and what it came to is not told yet */
    uint64_t step, epoch, start_ns;
    result_score score;  /* of the runs that were read */
    int64_t rows, taken; /* of all its micro-batches; of those that began */
    job_which which;     /* the last program that ran */
    result_bytes bytes;  /* of its runs */
    double rate;
    bool warm; /* no program ran for the first time */
} train_step;

/* A run whose figures were not read. On a device they are read when the next run has begun, so
 * that the device never waits for us. */
typedef struct {
    bool there, first; /* first: of its program */
    job_which which;
    uint32_t micro; /* of its step */
    int64_t rows, weight;
    result_score *score;
    train_step *step; /* NULL: a validation's */
} train_flight;

/* Where the loop is after a step. */
typedef struct {
    uint64_t step, epoch, epochs;
    uint64_t epoch_steps; /* of documents their tokens that count */
    uint64_t diverged, validations, best_step;
    uint64_t metrics_bytes;
    uint64_t
        rows_lost; /* the step of the first row that could not be written; 0: none is missing */
    int64_t batches_taken, waited;
    int64_t epoch_right, epoch_rows;
    bool has_metrics, evaluated, stopped;
    bool best_lost; /* the best parameters are in no file */
    bool averaged;  /* the averages of the epoch are reported */
    double last_loss, epoch_loss, epoch_sum, mark;
    result_score test, best;
} train_progress;

/* A line of --metrics: of a step, of a validation, or the averages over the steps of an
 * epoch. */
typedef enum { TRAIN_LINE_STEP, TRAIN_LINE_VALIDATION, TRAIN_LINE_EPOCH } train_line;
typedef struct {
    train_line kind;
    uint64_t step, epoch;
    result_score score;
    double rate;               /* of a step; others have none */
    uint64_t ns;               /* 0: it has no time of its own */
    const result_bytes *bytes; /* of a step; NULL: not known */
} train_row;

/* Checkpoints of a run. */
typedef struct {
    train_progress taken; /* with what was taken, and is not written yet */
    bool waits;           /* for its step to be reported */
    bool running;         /* a save may be on its way */
    bool lost;            /* the last save of the run failed */
    bool told_trouble;    /* the last save failed, and it was said */
    bool say;             /* that the save on its way is in its file */
    job_due due;
    sw_checkpoint_info ended; /* all saves of the run, once it is over */
    uint64_t resumed_step;    /* the run went on from there; 0: it began */
    char resumed_from[512];
} train_saving;

typedef struct {
    train_opts opts;
    const cli_option *options; /* that `opts` were read by */
    int n_options;
    char command[512]; /* as typed, for the profile's header */
    job job;
    sw_profile *profile;
    sw_process *process; /* NULL: it was not asked for, or could not be read */
    sw_loader *train_loader, *test_loader;
    result_runs measured[JOB_PROGRAMS];
    cli_times times;    /* of warm steps of the main program, loader included */
    train_progress now; /* where it is, with all that was reported */
    bool inside;        /* of an epoch that was begun */
    uint64_t total_steps, lr_every;
    train_find *find;      /* of --find-lr; NULL: it trains */
    sw_zo *zo;             /* of --method mezo and lozo; NULL: backprop, or --replay */
    uint64_t record_bytes; /* of --record, once it is written; 0: it is not */
    uint64_t warm_runs, allocations; /* runs that neither traced nor were immediate; theirs */
    uint64_t skipped;                /* updates whose gradients were not finite */
    uint64_t start_ns, wall_ns;
    int64_t batches;     /* of an epoch, micro-batches each */
    train_step steps[2]; /* step k is at k % 2 */
    train_flight flight; /* the last run, on a device */
    /* Of several processes: all are past what must be alike; one was interrupted, and all know;
     * what each said of a step, mine first. */
    bool agreed, interrupted;
    unsigned char *found;
    size_t found_bytes;
    bool alike;       /* it failed, and the others in the same way */
    int told;         /* steps that were reported */
    uint64_t told_ns; /* when the last step was reported */
    train_saving saving;
    job_metrics metrics; /* one that was given up stays at its last whole row */
    sw_tfevents events;  /* the record that is made for it, where it is TensorBoard's */
    bool metrics_lost;   /* a row could not be written in this run: it is given up */
    bool best_told;      /* the last save of the best parameters failed, and it was said */
    int trouble;         /* CLI_DONE, or how a file that could not be written fails the run */
} train;

/* Of the files of the options, as job_outputs_check and job_outputs_writable. */
int train_check_files(const train_opts *opts);
int train_check_writable(const train_opts *opts);
/* Whether tokens of documents count, and not rows. */
bool train_has_documents(const train *t);
/* With --members: all of it (tools/population/pop_turn.c). The exit status. */
int pop_train(const train *t);
/* All epochs, as far as they go. */
SW_MUST_USE sw_status train_all(train *t);
/* All that was begun is over, read and told. */
SW_MUST_USE sw_status train_catch_up(train *t);

/* Zeroth order: --method, --replay and what goes with them, before any default is taken.
 * CLI_GO, or CLI_USAGE. */
int train_zeroth_check(train_opts *opts);
/* The trainer, once the model is there. */
SW_MUST_USE sw_status train_zeroth_open(train *t);
/* --record, where it was asked for and a step was made. */
SW_MUST_USE sw_status train_zeroth_save(train *t);
/* --replay, in the place of train_all. */
SW_MUST_USE sw_status train_replay(train *t);

/* Several processes, and steps of several shards. Options alone: CLI_GO or CLI_USAGE. */
int train_ranks_check(const train_opts *opts);
/* Join the others: those but rank 0 read and write no file, and say nothing. CLI_GO or an exit
 * status. */
int train_ranks_open(train *t);
/* How pixels become numbers, as on rank 0. CLI_GO or an exit status. */
int train_ranks_normal(train *t);
/* Options and data must be alike; parameters and progress become those of rank 0. CLI_GO or an
 * exit status. */
int train_ranks_agree(train *t);
/* Note the score of a shard of the running step; then make that of the whole step. */
void train_ranks_keep(train *t, uint32_t shard, double loss, int64_t right);
SW_MUST_USE sw_status train_ranks_step(train *t, train_step *s);
/* Add to a validation what each rank had of its last batch; rows 0: it had none. */
SW_MUST_USE sw_status train_ranks_validate(train *t, const result_score *own, result_score *to);
job_rank train_ranks_own(const train *t);
/* Over ranks: has the run failed by too many skipped updates, which all of them skipped? */
bool train_ranks_skipped(const train *t);
/* Was this process, or another rank? */
bool train_interrupted(const train *t);
/* Scores are means over what they weigh. */
void result_score_add(result_score *to, double loss, int64_t right, int64_t rows,
                      int64_t weight);

/* --checkpoint and --resume. CLI_GO, or CLI_USAGE. */
int train_checkpoint_check(const train_opts *opts);
/* The options that job_open makes the checkpoint from. */
void train_checkpoint_opts(train *t);
/* The file of --resume that says how pixels become numbers, as that of --load-params does;
 * NULL: there is none yet. Valid until the next call. */
const char *train_resumed_params(const train_opts *opts);
/* All that decides about the bits of a run. */
void train_identify(const train *t, job_identity *to);
/* Once models and loaders are there: go on from the newest whole checkpoint. CLI_GO, or an exit
 * status. */
int train_resume(train *t);
/* After a step: take a checkpoint where one is due. */
SW_MUST_USE sw_status train_checkpoint_step(train *t);
/* A step was reported: the checkpoint that was taken after it can be written. */
SW_MUST_USE sw_status train_checkpoint_told(train *t, uint64_t step);
/* The last one of the run. Says what failed, and fails the run. */
void train_checkpoint_end(train *t);

/* --metrics. The record that begins a file of TensorBoard's, or one of a row, in t->events. */
void train_events_head(train *t);
void train_events_row(train *t, const train_row *row);
/* Nothing where it was not asked for. */
SW_MUST_USE sw_status train_metrics_open(train *t);
/* The same for a run that goes on from a checkpoint, at `bytes` of the file. */
SW_MUST_USE sw_status train_metrics_go_on(train *t, uint64_t bytes);
void train_metrics_row(train *t, const train_row *row);
void train_metrics_close(train *t);

/* CLI_FAILED, with a message, when a witness disagrees with the plan. */
/* With --process: read the process into t->process and the profile, or say why it could not
 * be. */
void train_read_process(train *t);
void train_free_process(train *t);
/* Of the steps of the epoch so far: the mean of their losses, and the samples that were right;
 * rows is 0 where it is not known how many were. */
result_score train_epoch_average(const train *t);
/* "0.1234", "nan", "inf" */
cli_text train_loss(double loss);
/* The result on standard output, as text or JSON. */
int train_print(train *t, int status);
