/* Between the files of `stepwell train`: its options, its state, its result. */
#ifndef STEPWELL_TRAIN_H
#define STEPWELL_TRAIN_H

#include "profiler/process.h"
#include "tools/job.h"
#include "tools/shares.h"

typedef struct {
    job_opts job;
    const char *profile, *save, *load;
    bool witness, process, json, quiet;
} train_opts;

/* What was observed of one program. */
typedef struct {
    uint64_t runs;
    sw_phase_info phase[SW_PHASES]; /* the highest peak of all runs, the end of the last */
    size_t peak_bytes, bump_bytes;
    sw_witness_info witness; /* size 0: none */
    share_list shares;       /* of the first run, where the result shows them */
} train_measured;

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
    uint64_t diverged;               /* the step since which the loss is not finite; 0: it is */
    uint64_t start_ns, wall_ns;
    double last_loss, epoch_loss, test_loss;
    int64_t test_right;
    bool evaluated;
} train;

/* Options: CLI_GO or an exit status. Sets opts, command and the batch. */
int train_parse(train *t, int argc, char **argv);
/* CLI_GO, or CLI_USAGE when a file that is written is another that is written or read. */
int train_check_files(const train_opts *opts);
/* The same for `path`, which is written as `option` says, against the four files of --data,
 * compressed or not. NULL is fine. */
int train_check_data(const char *option, const char *path, const char *data);
/* CLI_GO, or CLI_FAILED when parameters cannot be saved there. NULL is fine. */
int train_check_save(const char *path);
/* CLI_FAILED, with a message, when a witness disagrees with the plan. */
int train_check_witness(const train *t);
/* With --process: read the process into t->process and the profile, or say why it could not be.
 */
void train_read_process(train *t);
void train_free_process(train *t);
/* "0.1234", "nan", "inf" */
cli_text train_loss(double loss);
/* The result on standard output, as text or JSON. */
int train_print(train *t, int status);

#endif
