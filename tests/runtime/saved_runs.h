/* A run that has everything that a checkpoint keeps, for the tests of checkpoints. */
#ifndef SW_TESTS_SAVED_RUNS_H
#define SW_TESTS_SAVED_RUNS_H

#include "tests/runtime/nets.h"

/* A model of linear layers with batch norm, dropout, a state that counts runs, a knob, and a
 * kept gradient in steps of two micro-batches; and a loader that shuffles. */
typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_linear f1, f2;
    sw_batch_norm2d norm;
    sw_param seen;
    sw_knob factor;
    sw_optimizer *opt;
    sw_dataset *set;
    sw_loader *loader;
    uint64_t step;
    uint32_t micro; /* run of the step that is next */
    bool immediate, begun;
} saved_run;

typedef struct {
    const char *name; /* of the model; NULL: "saved" */
    const char *kind; /* of the optimizer; NULL: adam */
    uint64_t state_bits;
    sw_exec_opts exec;
    uint64_t seed;         /* of the first parameters; 0: 7 */
    int64_t width;         /* of the hidden layer; 0: 24 */
    int64_t samples, rows; /* 0: 100, 16 */
    uint64_t shuffle_seed, data_seed;
    bool immediate;
} saved_opts;

/* All of it ends when the test ends. */
saved_run *saved_run_new(const saved_opts *opts);
/* All but its struct ends now, after its checkpoint. */
void saved_run_end(saved_run *run);
/* n steps more, over the ends of epochs. */
void saved_run_steps(saved_run *run, int n);
/* One micro-batch more. */
void saved_run_micro(saved_run *run);
/* The same, where it may fail. */
sw_status saved_run_try(saved_run *run);
/* A checkpoint of the run, loader included. `more` NULL: defaults; path may be NULL. Ends when
 * the test ends, before the run. */
sw_checkpoint *saved_run_checkpoint(saved_run *run, const char *path,
                                    const sw_checkpoint_opts *more);
/* Find the newest and load it. */
void saved_run_resume(saved_run *run, sw_checkpoint *checkpoint, const char *path);
/* It ends now. */
void saved_checkpoint_end(sw_checkpoint *checkpoint);
bool saved_run_same(const saved_run *a, const saved_run *b);

#endif
