/* Shared by the files of `stepwell evolve`: architectures that are searched under a
 * memory budget, and what is written about it.
 *
 * The training part of the data is split: candidates are trained with one part, fitness is
 * measured with the other. The test part is for the best net alone, once the search is over. */
#pragma once

#include "alloc/base/sys.h"
#include "tools/cli/svg.h"
#include "tools/job/job.h"
#include "tools/job/job_ranks.h"
#include "tools/job/result.h"

/* A field for each option of evolve_options.def, as it was given. */
typedef struct {
    job_opts job;
#define EVOLVE_OPTION(type, field, ...) type field;
#include "tools/evolve/evolve_options.def"
} evolve_opts;
enum {
    EVOLVE_OPTIONS_MAX = JOB_OPTIONS_MAX
#define EVOLVE_OPTION(type, field, ...) +1
#include "tools/evolve/evolve_options.def"
};

enum {
    EVOLVE_FIRST = 256,            /* genomes of --first */
    EVOLVE_TERMS = 32,             /* of --fitness and --mutations, each */
    EVOLVE_PATH = JOB_FOLDER_BYTES /* a file of --out */
};
enum { EVOLVE_INTERRUPT = 1, EVOLVE_TIME = 2 }; /* why a search is to stop */
#define EVOLVE_BUDGET ((size_t)1 << 30)         /* without --memory-budget */

/* A candidate, as it is now. */
typedef struct {
    uint64_t id, of, steps, parameters, operations, ns_per_sample, vertices;
    uint64_t predicted_bytes, measured_bytes; /* measured 0: not run */
    uint64_t looks;
    double fitness, accuracy, error, loss, train_accuracy, mean;
    int64_t rung; /* -1: none */
    bool look, invalid;
    char why[120];
} evolve_candidate;

/* Sums over all of them. */
typedef struct {
    uint64_t n, trained, compared, differ, invalid;
} evolve_total;

/* Over the test part. */
typedef struct {
    bool there;
    int64_t right, rows;
} evolve_test;

typedef struct {
    evolve_opts opts;
    job job; /* its data; exec and model are not used */
    sw_task task;
    sw_dtype input;
    sw_net_opts net;
    job_data train, validation;
    sw_search_kind search;
    sw_search_space *space; /* of --space; NULL: the default one */
    sw_genome *first[EVOLVE_FIRST];
    size_t n_first;
    sw_fitness fitness[EVOLVE_TERMS];
    sw_mutation mutation[EVOLVE_TERMS];
    size_t n_fitness, n_mutation;
    bool plain; /* first[0] is the plain net */
    sw_budget *budget;
    sw_exec *exec;
    sw_evolution *evolution;
    sw_file *held;              /* DIR/run.lock */
    bool made;                  /* the folder */
    swi_ranks *ranks;           /* NULL: there is one process */
    job_rank own, *of;          /* figures of this one, and of each at the end */
    bool agreed, stopped;       /* ranks: all are past what must be alike; some are to end */
    uint64_t began_ns, ends_ns; /* ends_ns 0: no limit of time */

    /* Where it is. */
    sw_evolve_progress progress;
    evolve_candidate *all; /* n of them, as they were looked at last */
    size_t n, cap;
    size_t peak_bytes; /* that all together had of the budget, at most */
    bool resumed, timed_out;

    /* Results. */
    bool has_best;
    evolve_candidate best;
    sw_genome *genome; /* of the best */
    evolve_test test, retrained;
    uint64_t wall_ns;
} evolve;

/* DIR/name; the text is good until the fourth next call. */
const char *evolve_path(const evolve *e, const char *name);
/* Can the folder be written, or be made, and is there a run in it where one is to be gone on
 * from, and none where one begins? CLI_GO or an exit status. Makes nothing. */
int evolve_files_check(const evolve *e);
/* An empty folder that was made goes. */
void evolve_files_close(evolve *e);
evolve_total evolve_sums(const evolve *e);
/* best.json, best.safetensors, best.dot. */
SW_MUST_USE sw_status evolve_save_best(evolve *e);

/* The graph of a genome as DOT text, which Graphviz draws; a failure is in to->status too. */
SW_MUST_USE sw_status evolve_graph_put(const sw_genome *genome, svg *to);
/* The text as the file `path`. */
SW_MUST_USE sw_status evolve_graph_save(const sw_genome *genome, const char *path);

/* Space, first genomes, budget, exec, search: CLI_GO or an exit status. */
int evolve_open(evolve *e);
SW_MUST_USE sw_status evolve_loop(evolve *e);
/* The best of the members that there are. */
SW_MUST_USE sw_status evolve_find_best(evolve *e);
/* An exec in the budget of the run. */
SW_MUST_USE sw_status evolve_exec(evolve *e, sw_exec **out);
/* The search and its exec, so that their memory is free for others. */
void evolve_end_search(evolve *e);
void evolve_close(evolve *e);

/* The score of the best net on the test part; of --retrain, trained from scratch, again. */
SW_MUST_USE sw_status evolve_test_best(evolve *e, bool again);

/* ---- ranks ------------------------------------------------------------------------------- */

/* Options that a run over several processes does not have: CLI_GO or CLI_USAGE. */
int evolve_ranks_check(const evolve *e);
/* Join the others. CLI_GO or an exit status. */
int evolve_ranks_open(evolve *e);
/* The space and the first genomes of rank 0, to all. */
SW_MUST_USE sw_status evolve_ranks_share(evolve *e);
/* All have the same search, which they go through together from now on. CLI_GO or an exit
 * status. */
int evolve_ranks_agree(evolve *e);
/* After the search: why it has ended, on all. */
void evolve_ranks_ended(evolve *e);
/* The exit status of rank 0, and figures of all. */
SW_MUST_USE sw_status evolve_ranks_finish(evolve *e, int *status);
int evolve_ranks_close(evolve *e, int status);
static inline bool evolve_is_first(const evolve *e)
{
    return swi_ranks_rank(e->ranks) == 0;
}

/* The results of a run, as text or JSON. Returns the exit status. */
int evolve_print(evolve *e, int status);

SW_MUST_USE sw_status evolve_report_save(const evolve *e);
