/* Shared by the files of `stepwell es`: evolution strategies on data, or on an environment.
 *
 * A generation is `directions` directions with `repeats` evaluations each, run slice by slice;
 * a run's batch is (repeats, directions of the slice, samples). From the fitness of all
 * evaluations the library makes the estimate of a gradient, which an optimizer takes. */
#pragma once

#include "alloc/base/sys.h"
#include "kernels/bijection.h"
#include "tools/es/cart_pole.h"
#include "tools/job/outputs.h"
#include "tools/job/job_ranks.h"
#include "tools/job/result.h"
#include "tools/job/saves.h"

/* A field for each option of es_options.def, as it was given. */
typedef struct {
    job_opts job;
#define ES_OPTION(type, field, ...) type field;
#include "tools/es/es_options.def"
} es_opts;
enum {
    ES_OPTIONS_MAX = JOB_OPTIONS_MAX
#define ES_ROW(field, ...) +1
#include "tools/es/es_options.def"
};

/* Without noise, over the test part: loss and what was right, or the steps of episodes. */
typedef struct {
    bool there;
    double loss, score; /* score: a share of 1 that is right, or mean steps; NAN: neither */
    int64_t rows;
} es_test;

typedef struct {
    es_opts opts;
    const cli_option *options; /* that `opts` were read by */
    int n_options;
    char command[512]; /* as typed, for profile and checkpoints */
    job job;
    bool on_environment;
    uint64_t generations; /* in all */
    int64_t slice;        /* directions of a run */
    int64_t rows;         /* of a run: evaluations x samples */
    int64_t sets;         /* of samples that a direction has: its antithetic pairs */
    sw_profile *profile;
    sw_checkpoint *checkpoint;
    job_metrics metrics;
    uint64_t before_test; /* bytes of metrics before the last test's row */
    uint64_t saved_bytes; /* of the metrics that a run which goes on keeps */

    /* A batch, its fields one after the other; poles and fitness of an environment's run. */
    unsigned char *slot;
    size_t slot_bytes;
    sw_array inputs[4];
    int n_inputs;
    cart_pole *poles;
    float *fitness;
    sw_bijection order; /* of the samples in epoch order_of */
    uint64_t order_of;
    bool ordered;

    /* Of several processes; NULL: there is one. Slice s is evaluated by rank s mod N; what all
     * ranks found in a generation, mine first. */
    swi_ranks *ranks;
    float *found;
    size_t found_bytes;
    bool stopped;  /* a rank was interrupted: all end after this generation */
    uint64_t runs; /* of slices, here */

    /* Where it is. */
    uint64_t generation;
    sw_es_info last; /* of the last generation */
    es_test test;    /* of the last test; its generation */
    uint64_t tested; /* after generation */
    bool reached;    /* --target */
    uint64_t evaluations, not_finite;

    /* Measurements. */
    result_runs measured[JOB_PROGRAMS];
    sw_plan_info update;   /* of the program that updates */
    size_t inference_peak; /* of the same batch without noise, planned; 0: not known */
    size_t noise_bytes;    /* of the plan of a run: noise that outlives its op, and model */
    size_t scratch_bytes;  /* of the op of noise that has the most */
    uint64_t wall_ns, evaluate_ns, update_ns, test_ns;
    uint64_t update_waited_ns; /* of update_ns, for other ranks */
    uint64_t resumed;          /* generation that the run went on after; 0: it began */
    uint64_t saved;            /* checkpoints of this process */
    job_due due;
} es_run;

/* Once the data are there: generations, and their bounds. */
int64_t es_directions(const es_opts *o);
const char *es_noise(const es_opts *o); /* its kind */

SW_MUST_USE sw_status es_batch_open(es_run *r);
void es_batch_close(es_run *r);
/* Set the rows of the inputs. */
void es_batch_rows(es_run *r, int64_t rows);

/* The job of an environment: what its net reads and gives, in the place of data. */
void es_episodes_describe(es_run *r);

int es_files_check(const es_opts *o);    /* options alone: CLI_GO or CLI_USAGE */
int es_files_writable(const es_opts *o); /* CLI_GO or CLI_FAILED */
SW_MUST_USE sw_status es_metrics_open(es_run *r);
SW_MUST_USE sw_status es_profile_open(es_run *r);

/* Before the first generation: CLI_GO or an exit status. */
int es_resume(es_run *r);
SW_MUST_USE sw_status es_loop(es_run *r);
/* Join the other ranks, before anything is read: those but rank 0 write no file and say nothing
 * but errors. CLI_GO or an exit status. */
int es_ranks_open(es_run *r);
/* All have the same options and data, and then the state of rank 0. */
int es_ranks_agree(es_run *r);
/* Of so many ranks: what each of them gathers of a generation, the fitness of its slices; all
 * bytes for exchanges, the transport's buffer and the fitness of all. */
size_t es_fitness_bytes(const sw_es *es, int ranks);
size_t es_ranks_bytes(const sw_es *es, int ranks);
/* Once more, after the last generation. */
SW_MUST_USE sw_status es_save_last(es_run *r);

/* The parts of a run's plan that are noise, and that update; before the first. */
SW_MUST_USE sw_status es_look_at_plan(es_run *r);
/* The most that any program needs, with the fitness of a generation. */
size_t es_total_bytes(const es_run *r);
/* The result on standard output, as text or JSON. Returns the exit status. */
int es_print(es_run *r, int status);
