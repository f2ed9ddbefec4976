/* Shared by `train` and `plan`: the options of a training job, its exec, model and programs. */
#pragma once

#include "runtime/data/loader.h"
#include "runtime/device/snapshot.h"
#include "runtime/transport/ranks.h"
#include "tools/cli/cli.h"
#include "tools/job/machine.h"
#include "tools/models/models.h"

#define JOB_BATCH_MAX (1 << 24) /* the most that --batch takes */

/* How parameters are changed. MEZO: by the differences of two runs forward, so that programs of
 * training are those of inference; ES: by the fitness of runs under noise. Both keep nothing
 * for a backward part. NONE: not at all; there are no programs of training, no optimizer, and
 * slots for `test` alone. */
typedef enum { JOB_BACKPROP, JOB_MEZO, JOB_ES, JOB_NONE } job_method;

#define JOB_MEZO_RATE                                                                          \
    1e-4 /* where none is given: lenet5 got better at 1e-4 to 1e-3, and was lost at 3e-3 */

/* As the command line says it: a field for each option of job_options.def, as it was given, and
 * what is made of them. */
typedef struct {
#define JOB_OPTION(type, field, ...) type field;
#include "tools/job/job_options.def"
    const tool_model *kind; /* what `model` names */
    tool_settings settings;
    sw_exec_opts exec; /* its switches; the rest comes from the other fields */
    /* Of train alone. */
    const char *schedule, *nvtx; /* nvtx: one of job_nvtx_words; NULL: the phases */
    const char *save_type;       /* one of job_save_types; NULL: the first */
    int64_t epochs, steps, warmup, lr_every;
    double lr_gamma, lr_floor;
    /* No options. */
    job_method method;
    bool release;    /* `update` is "release" */
    bool order_auto; /* `bf16_order` is this processor's, and not asked for */
    bool shares;     /* runs note what each role and layer holds */
    bool knobs;      /* the optimizer's numbers and the dropout of mlp and lenet5 are knobs */
    const char
        *params;     /* parameters to begin with, whose note says how pixels become numbers */
    int64_t parts;   /* shards or ranks of a step, which take the place of micro-batches; 0 */
    bool unlabelled; /* predict: the data may be without labels; `params` say what they are */
} job_opts;

/* Append the options to `table` (room for JOB_OPTIONS_MAX) after its first n; returns the new
 * n. */
enum {
    JOB_OPTIONS_MAX = TOOL_SETTINGS
#define JOB_ROW(field, ...) +1
#include "tools/job/job_options.def"
};
int job_options(job_opts *opts, cli_option *table, int n, bool one_batch);
/* Another help for the option that fills `to`. */
typedef struct {
    const void *to;
    const char *help;
} job_help;
/* Of these options, for one batch, those of `names`, with blanks in between; `but`: all others.
 * Returns how many. */
int job_options_but(job_opts *opts, cli_option *table, const char *names, bool but,
                    const job_help *help, int n_help);
extern const char *const job_nvtx_words[], *const job_save_types[];
#define JOB_SAVE_TYPE_HELP                                                                     \
    "what saved parameters are: f32, or bf16: half the bytes, each number rounded once; "      \
    "whatever reads parameters reads both"
/* --threads where it is not given and all processors are taken. */
int64_t job_all_threads(void);
/* Does the job run on a device, and not on the CPU? */
bool job_on_device(const job_opts *opts);
/* Whether a launcher starts this process with others, which would train the same run and write
 * the same files. CLI_GO or CLI_USAGE. */
int job_check_ranks(const job_opts *opts);
/* Of an element of optimizer state, by --state. */
uint64_t job_state_bits(const job_opts *opts);
/* --precision and --bf16-order, which are as the file of parameters notes where they are not
 * given (NULL: no file): into opts->exec, and "auto" becomes an order. CLI_GO or a status. */
int job_precision(job_opts *opts, const char *params);
#define JOB_PRECISION_KEY "precision" /* of the parameters' note: "bf16 pair"; none for f32 */
#define JOB_PRECISION_TAKEN "f32 or bf16 (default as the file says, else f32)"
/* The size of --memory-budget auto, with a note; anything else stays. CLI_GO or a status. */
int job_take_budget(job_opts *opts);
/* The checks that the parser cannot do: an option against another, and defaults that depend on
 * another. CLI_GO or an exit status. */
int job_check(job_opts *opts);

/* The part of this that is about data in files. */
int job_file_check(const job_opts *opts);
/* Are the data images that --threads decode, whatever the device? */
bool job_decodes(const job_opts *opts);
/* Refuse a --data without a reader, `known` lists them; and a folder that is another reader's:
 * CLI_GO where it is not. */
int job_refuse_source(const char *source, const char *known);
int job_check_folder(const char *source);
/* A file of parameters must not be named as another program's format. NULL is fine. */
int job_check_params_name(const char *option, const char *path);
/* The words of --augment. */
int job_augment_check(const job_opts *opts);
tool_augment job_augment(const job_opts *opts);
/* A folder that an option names (NULL is fine): can it be written, or be made? A whole model
 * goes beside neither its `base` (else NULL) nor an adapter. Make it, with *made, and let an
 * empty one that was made go. CLI_GO or an exit status. */
#define JOB_FOLDER_BYTES 4096 /* of a path in it */
int job_folder_check(const char *option, const char *path, const char *base);
int job_folder_make(const char *option, const char *path, bool *made);
void job_folder_leave(const char *path, bool made);
/* The names that --data takes, for its help. */
const char *job_file_help(void);
/* Into `path` the i-th of the files that the data may be read from; false past the last. */
bool job_file_name(const job_opts *opts, int i, char *path, size_t bytes);

/* The programs of a job; a job of 128 samples at batch 128 has no last partial batch, and only
 * one with --accumulate has micro-batches that update nothing. */
typedef enum {
    JOB_TRAIN,
    JOB_TRAIN_LAST,
    JOB_MICRO,
    JOB_EVAL,
    JOB_EVAL_LAST,
    JOB_PROGRAMS
} job_which;

typedef struct {
    const char *name; /* "train", "train_last", "accumulate", "eval", "eval_last" */
    int64_t batch;    /* 0: there is no such program */
    sw_mode mode;
    sw_plan_info plan;
    sw_array inputs[4]; /* shapes; no data */
} job_program;

/* The samples: how many, and how one looks. */
typedef struct {
    sw_dataset *set;
    sw_dataset_info info;
    int64_t n;
} job_data;

/* How pixels become numbers, as text: "none", "0.1307,0.3081", "M1/M2/M3,S1/S2/S3"; "" where
 * the data have no pixels. */
#define JOB_NORMAL_BYTES 200
typedef struct {
    tool_pixels pixels;
    char text[JOB_NORMAL_BYTES];
    const char *from; /* who says so, for people */
} job_normal;

/* The notes of a file of parameters on the data that it was trained on. */
#define JOB_NOTE_BYTES 256
#define JOB_NOTED_NAMES 128
typedef struct {
    bool known;         /* samples with classes or values; else nothing of them */
    bool sequences;     /* of ids: `sample`, `ids` and `vocabulary` alone */
    int64_t ids;        /* that the data have */
    int64_t vocabulary; /* that the model knows, as many or more */
    bool standardised, named;
    sw_array sample, target; /* fields 0 and 1: types and shapes */
    int64_t n_classes;
    char text[JOB_NOTE_BYTES];
    const char *name[JOB_NOTED_NAMES]; /* in `text`, where `named` */
} job_trained;

typedef struct {
    const job_opts *opts;
    int64_t batch;      /* as it was asked for; job_batch says what runs */
    int64_t limited[2]; /* batches of the training and the test part that --data-limit counts;
                           0: none, or not known */
    bool quiet;         /* no progress while files are read */
    int keep_programs;  /* how many plans the exec remembers; 0: as many as it does by itself */
    job_data train, test;
    job_trained trained; /* with opts->unlabelled */
    job_normal normal;
    machine machine;  /* of job_check_machine */
    swi_ranks *ranks; /* that share the shards of each step; NULL: there is one process */
    int shards, shards_here; /* of a step, whose batch is shards x batch, and of each rank; 0:
                                a step is a batch */
    bool transport_taken;    /* of the budget */
    size_t transport_bytes;  /* of exchanges, beside the plans */
    int on_host; /* processes of this run on this machine, which have it together; 0: 1 */
    sw_budget *budget;
    sw_exec *exec;
    bool saves;                /* train: with checkpoints, made from `saving` */
    sw_checkpoint_opts saving; /* models are filled in */
    sw_checkpoint *checkpoint;
    swi_snapshot *copy;      /* plan: what its copy takes of the budget */
    size_t checkpoint_bytes; /* of the copy; 0: none */
    sw_step_fn *fn; /* in the place of tool_net_step; its user is the net. NULL: that */
    tool_net net;
    sw_es_opts es_opts; /* of JOB_ES: what job_make makes `es` from */
    sw_es *es;          /* of programs of training */
    job_program program[JOB_PROGRAMS];
    size_t data_bytes; /* of the loader for training, as testing reads the data set in place;
                          with JOB_ES and JOB_NONE of one batch, which all programs share */
} job;

/* ", bf16 in pair order, products by VDPBF16PS": after the device; "" for f32. The job has its
 * exec. */
const char *job_precision_words(const job *j);

/* Load the data sets. With `shapes_only` synthetic data are not made, and of files as much is
 * read as tells how many samples there are and how one looks (IDX files whole). Exit status or
 * CLI_GO; the error is printed. */
int job_load(job *j, bool shapes_only);
/* How much a batch counts in a mean over several: its rows, or of documents the tokens that
 * count. */
int64_t job_weight(const job *j, const sw_array *inputs);
/* CLI_USAGE where the data are documents, of which `who` has no scores. */
int job_refuse_documents(const job *j, const char *who);
/* Of documents, what was read and how it was packed, in lines for people; nothing of others. */
void job_tell_documents(const job *j, FILE *to);
/* A data set in two parts, drawn once and for all: --seed changes a run, not its data. */
SW_MUST_USE sw_status job_split(const sw_dataset *from, int64_t n_second, job_data *first,
                                job_data *second);
/* The training samples in two parts: *validation has --validation-share of them, and each has
 * one at least. The job's own data stay. CLI_GO or an exit status. */
int job_validation(const job *j, double share, job_data *train, job_data *validation);
int job_validation_check(double share);
/* The part of it that reads files: one part of --data, or both with the first where they lie in
 * one file. */
SW_MUST_USE sw_status job_file_load(job *j, bool test, bool shapes_only);
/* Do both parts go together? */
SW_MUST_USE sw_status job_file_agree(const job *j);
/* How pixels become numbers, in job_data.c: the option's words; what --normalise, the file of
 * parameters or the training images say. With `shapes_only` these are not looked at, since no
 * plan depends on them. CLI_GO or an exit status. */
#define JOB_NORMAL_KEY "normalise" /* of the parameters' note */
int job_normal_check(const job_opts *opts);
/* Note beside the model's parameters what they are trained on, and how pixels become
 * numbers. */
SW_MUST_USE sw_status job_note(const job *j, sw_model *model);
/* Not known where the file is not there or has no such notes; SW_FORMAT where it is damaged. */
SW_MUST_USE sw_status job_trained_read(job_trained *trained, const char *params);
/* Give --context and --vocabulary what opts->params says, where they are not given. CLI_GO or
 * an exit status. */
int job_take_sequences(job_opts *opts);
/* The training data have no labels: they become `test`, and `train` is what the parameters were
 * trained on, without samples. CLI_GO or an exit status. */
int job_unlabelled(job *j);
/* A step's batch in shards, of which each of so many ranks has its part; asked 0: one for each
 * rank. Before the exec is made. CLI_GO or CLI_USAGE. */
int job_set_shards(job *j, int64_t batch, int64_t asked, int ranks);
/* Batches of a step: 1 where it has no shards. */
static inline int64_t job_batches(const job *j)
{
    return j->shards > 0 ? j->shards : 1;
}
/* Bytes that each rank sends in a step, of gradients with their checks, and of scores: losses,
 * what was right, how far it is. The job is planned. */
#define JOB_SCORE_BYTES 16
SW_MUST_USE sw_status job_sent(job *j, uint64_t *gradients, uint64_t *scores);
/* Create budget, exec and model, and plan all programs, without tensor memory. Plans everything
 * or refuses. Needs opts, batch, train and test. */
int job_open(job *j);
/* The same in parts, to plan one batch after the other: job_begin makes budget, exec and model,
 * job_set_batch names the programs and their shapes, job_plan plans one of them (with batch >
 * 0). */
int job_begin(job *j);
SW_MUST_USE sw_status job_make(job *j); /* job_begin without a message */
void job_set_batch(job *j, int64_t batch);
SW_MUST_USE sw_status job_plan(job *j, job_which which);
/* Models with their first numbers: drawn from --seed, or read from the folder of --model. */
SW_MUST_USE sw_status job_ready(job *j);
/* Parameters as --save-type says, and cli_saved; of a job, or the folder that its model
 * writes. */
SW_MUST_USE sw_status job_save_params(const job_opts *opts, const sw_model *model,
                                      const char *path);
SW_MUST_USE sw_status job_save(const job *j, const char *path);
/* The bytes that a refused program needs. */
size_t job_needed_bytes(const job *j, const sw_plan_info *plan);
size_t job_field_bytes(const sw_array *field); /* of one sample */
/* The bytes of one more image's inputs, at least: a loader may have one slot. */
size_t job_image_bytes(const job *j);
/* Whether the machine has the memory that the plans and the data sets ask for, and with
 * `witness` what the witnesses take on top: without a limit the system would promise it, and
 * end the process when it is used. Fills j->machine. CLI_GO or an exit status. */
int job_check_machine(job *j, bool witness);
/* The options that the model is made from. */
tool_net_opts job_net_opts(const job *j);
/* Rows of a loader's slot: a batch, or all there are where that is less. */
int64_t job_slot_rows(const job_data *data, int64_t batch);
/* The same of the data that the job is about: the batch that runs. */
int64_t job_batch(const job *j);
/* Does the net learn classes, so that there is an accuracy? */
static inline bool job_has_classes(const job *j)
{
    return j->net.task == TOOL_CLASSIFY;
}
/* Arguments of one program's run. */
sw_run_args job_args(job *j, job_which which, const sw_array *inputs, uint64_t step);
/* Destroys exec, model and budget; the data stay. */
void job_close(job *j);
void job_unload(job *j);

/* Of that what lies in the memory that plans and budgets count: 0 on a device, where the copy
 * is in the host's. */
static inline size_t job_counted_checkpoint_bytes(const job *j)
{
    return job_on_device(j->opts) ? 0 : j->checkpoint_bytes;
}
/* The most that any program of the job needs. */
size_t job_total_bytes(const job *j);
/* The program that speaks for the job: that of a full batch where there is one, of training
 * where the job trains, with an update where one has a full batch. */
const job_program *job_main(const job *j);

/* By the names of the command line: those of the library, and "momentum" and "nesterov" for its
 * sgd with one. */

/* NULL-terminated, for an option's words. */
const char *const *tool_optimizer_words(void);
/* "sgd, momentum, ...": all of them; "sgd 0.1, ...": their rates without --lr. */
const char *tool_optimizer_rates(void);
/* Kind, momentum and nesterov. */
void tool_optimizer_set(sw_optimizer_opts *opts, const char *name, double momentum);

/* Numbers that a schedule reads besides rate, steps and warm-up. */
enum {
    TOOL_LR_CUTS = 1,
    TOOL_LR_FLOOR = 2,
    TOOL_LR_TOTAL = 4
}; /* every and gamma; floor; the steps in all */
const char *const *tool_schedule_words(void);
const char *tool_schedule_help(void);
unsigned tool_schedule_takes(const char *name);
/* "step or exponential": the schedules that take it. */
const char *tool_schedule_takers(unsigned what);
