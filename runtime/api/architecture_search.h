/* Search of architectures: mutation, crossover, selection, and whole evolutions.
 *
 *     sw_evolution_opts opts = SW_OPTS(sw_evolution_opts, .train = dataset, .trainings = 20);
 *     opts.validation = dataset;
 *     SW_TRY(sw_evolution_create(&evolution, exec, &opts));
 *     sw_evolve_progress progress = SW_OPTS(sw_evolve_progress);
 *     SW_TRY(sw_evolution_advance(evolution, &progress));
 */

/* ---- mutation and crossover -------------------------------------------------------------- */

typedef enum {
    SW_MUTATE_SIZE,          /* outputs of a vertex: by a share of low to high of them */
    SW_MUTATE_ADD_VERTEX,    /* after it: a draw from the space, three times in four one that
                                begins as the identity; not after the input */
    SW_MUTATE_REMOVE_VERTEX, /* what reads it reads what it read, of a join one of them; what
                                no vertex reads then goes too */
    SW_MUTATE_ADD_EDGE,      /* from it to a later one, by an add or a concat in between */
    SW_MUTATE_REMOVE_EDGE,   /* of an add or a concat, from what others read too */
    SW_MUTATE_KERNEL,        /* by low to high, in steps of two; filters stay aligned */
    SW_MUTATE_ACTIVATION,
    SW_MUTATE_POOL,           /* max to average and back */
    SW_MUTATE_RATE,           /* of learning: times 1 + a share of low to high; 1e-6 to 1 */
    SW_MUTATE_OPTIMIZER,      /* another kind, the rate stays */
    SW_MUTATE_OPTIMIZER_PART, /* weight decay, momentum or clip: there, or gone */
    SW_MUTATE_BATCH,          /* times 1 + a share of low to high, in multiples of 8 */
    SW_MUTATE_GROW, /* all sizes by the largest share up to high that sw_mutate_opts.fits: found
                       by bisection */
    SW_MUTATE_CUSTOM /* what `fn` edits */
} sw_mutation_kind;
#define SW_MUTATION_KINDS 14
SW_API const char *sw_mutation_kind_name(sw_mutation_kind kind); /* NULL past the end */

/* By which vertices are preferred: with the utility u of a vertex (the mean of its neurons), m
 * the largest and a the mean of all that the mutation could change, the probability is
 * p^((2 m^s - u^s) / (2 m^s - a^s)), s = 1/2, for HIGH, and p^(1 / that), s = 2, for LOW. p for
 * vertices without utilities. */
typedef enum { SW_WEIGH_NOTHING, SW_WEIGH_HIGH, SW_WEIGH_LOW } sw_weigh;

typedef int sw_vertex_filter(const sw_genome *genome, uint32_t vertex, void *user);
/* A mutation of one's own: edit the genome (sw_genome_add_vertex and so on). For equal children
 * it must be a function of genome and seed. The bounds and utilities of the sw_mutate_opts hold
 * in its edits. SW_OK: they stay if the result fits, and inherit. SW_UNSUPPORTED or SW_INVALID:
 * they are undone, and mutation goes on. Any other status: sw_genome_mutate fails with it. */
typedef sw_status sw_edit_fn(sw_genome *genome, uint64_t seed, void *user);
/* One of a list, applied in its order. */
typedef struct {
    sw_mutation_kind kind;
    sw_weigh weigh;
    double probability; /* of each vertex that it could change; of the genome for those of
                           optimizer and batch, for GROW and for CUSTOM */
    double low, high;   /* both 0: -0.2 and 0.2 of sizes, -2 and 2 of kernels, -0.15 and 0.15 of
                           rates, -0.5 and 0.5 of batches, 0 and 1 of GROW. Others have none */
    const sw_search_space *space; /* ADD_VERTEX: its "insert" part; NULL: that of the opts */
    uint32_t min_vertices;        /* not where the genome has fewer */
    uint64_t max_parameters;      /* not where it has more; 0: no bound */
    sw_vertex_filter *filter;     /* 0: not this vertex; NULL: all */
    void *user;                   /* of filter, and of fn */
    sw_edit_fn *fn;               /* CUSTOM, and no other kind */
    uint64_t reserved[1];         /* must be zero */
} sw_mutation;

/* A change that was made; `text` says it: "conv3: 16 to 19 outputs". Of CUSTOM it says each
 * edit, as far as there is room: "custom: conv3: 16 to 19 outputs; lr 0.01 to 0.02". */
typedef struct {
    size_t size;
    sw_mutation_kind kind;
    const char *vertex; /* NULL: of optimizer or batch, or CUSTOM */
    const char *text;
    int exact; /* 1: the net computes what it did, up to 1e-6 */
} sw_mutation_record;
typedef void sw_mutation_fn(const sw_mutation_record *record, void *user);

/* Utility of the neurons of a vertex with parameters; vertices without any: 1 for each. A value
 * below 0, or not finite, counts as 0. */
typedef struct {
    uint32_t vertex;
    int64_t n; /* its channels */
    const float *values;
    uint64_t reserved[2]; /* must be zero */
} sw_neuron_utility;

/* May this genome be? 1: yes; 0: no; below 0: it failed, sw_last_error() says why, and the call
 * returns the status of which this is the negative. */
typedef int sw_genome_fits(const sw_genome *genome, void *user);

typedef struct {
    size_t size;
    const sw_mutation *mutations; /* n_mutations; none: sw_mutations_default */
    size_t n_mutations;
    uint64_t seed;
    const sw_search_space *space;       /* NULL: the default one */
    const sw_neuron_utility *utilities; /* n_utilities */
    size_t n_utilities;
    sw_genome_fits *fits; /* a hard constraint: a mutation with a result that does not fit is
                             undone; NULL: all do */
    void *fits_user;
    sw_mutation_fn *record; /* NULL: none */
    void *record_user;
    uint32_t max_vertices; /* 0: 1024 */
    int64_t max_size;      /* of a vertex; 0: 4096 */
} sw_mutate_opts;
/* The mutations that a run has by itself. */
SW_API const sw_mutation *sw_mutations_default(size_t *n);
/* A child of a genome: a function of its arguments alone. It may be equal to the parent. */
SW_MUST_USE SW_API sw_status sw_genome_mutate(sw_genome **out, const sw_genome *parent,
                                              const sw_mutate_opts *opts);

typedef struct {
    size_t size;
    uint64_t seed;
    double vertices, optimizer, rate, batch; /* probability that each is exchanged; all 0: 0.5,
                                                0.25, 0.25 and 0.25 */
    double deviation; /* of the position of the segments, as a share of the depth; 0: 0.1 */
    const sw_neuron_utility *utilities_a, *utilities_b;
    size_t n_utilities_a, n_utilities_b;
} sw_crossover_opts;
/* Two children of two genomes of one task, with segments of similar position exchanged and
 * sizes aligned. Either `out` may be NULL. Where no segment fits they are copies. */
SW_MUST_USE SW_API sw_status sw_genome_crossover(sw_genome **out_a, sw_genome **out_b,
                                                 const sw_genome *a, const sw_genome *b,
                                                 const sw_crossover_opts *opts);

/* ---- evolution: a search of architectures ------------------------------------------------ */

typedef enum {
    SW_FITNESS_ACCURACY,       /* on the validation part */
    SW_FITNESS_TRAIN_ACCURACY, /* of a rung's training steps, the first `drop` of them
                                  left out */
    SW_FITNESS_LOSS,           /* on the validation part, negated */
    SW_FITNESS_TIME,           /* ns of training a sample, negated: differs from run to run */
    SW_FITNESS_PARAMETERS,     /* these three negated too: smaller is fitter */
    SW_FITNESS_PEAK_BYTES,     /* as predicted; costs no run */
    SW_FITNESS_OPERATIONS,     /* of a training sample */
    SW_FITNESS_CUSTOM          /* what `fn` says */
} sw_fitness_kind;
#define SW_FITNESS_KINDS 8
SW_API const char *sw_fitness_kind_name(sw_fitness_kind kind); /* NULL past the end */

/* A candidate as callbacks see it. */
typedef struct {
    size_t size;
    uint64_t id, parents[2]; /* ids of the run, from 1; 0: none. Of a second look parents[0] is
                                whom it looks at */
    uint64_t born;           /* trainings that had ended when it began */
    uint64_t steps;          /* that it has been trained */
    const sw_genome *genome;
    const sw_price *price;
    size_t measured_bytes; /* most that lived in its training steps, model and batch too; 0: not
                              yet */
    double fitness;        /* at the rung that it has reached; NaN: none */
    double loss, accuracy, train_accuracy; /* the same */
    uint64_t ns_per_sample;
    uint32_t rank; /* 0 */
    int invalid;   /* 1: its numbers became NaN or infinite, or it failed */
    const char *why;
    int rung;       /* that it has reached, from 0; -1: none */
    int look;       /* 1: a second look */
    int training;   /* 1: it is in training */
    uint32_t looks; /* trainings to the end that `mean` is the mean of: its own, and those of
                       its looks */
    double mean;    /* of their fitness; NaN: none */
    double error;   /* standard error of `accuracy`: sqrt(a (1 - a) / validation samples) */
} sw_candidate;
typedef double sw_fitness_fn(const sw_candidate *candidate, void *user);
/* A term; the fitness is the sum of the terms. */
typedef struct {
    sw_fitness_kind kind;
    int objective;                       /* 0 */
    double factor;                       /* 0: 1 */
    double average;                      /* 0 */
    double drop;                         /* TRAIN_ACCURACY; 0: 0.5 */
    double (*map)(double x, void *user); /* of the term, before its factor; NULL: none */
    sw_fitness_fn *fn;
    void *user;
    uint64_t reserved[2]; /* must be zero */
} sw_fitness;

/* Where a new candidate comes from, once `start` of them were drawn. */
typedef enum {
    SW_SEARCH_LOCAL,  /* a child of one of the best `parents` */
    SW_SEARCH_AGEING, /* a child of the best of `parents` that are drawn from the newest
                         `population` (Real et al. 2019) */
    SW_SEARCH_RANDOM  /* a draw */
} sw_search_kind;
#define SW_SEARCH_KINDS 3
SW_API const char *sw_search_kind_name(sw_search_kind kind); /* NULL past the end */

/* A selection of one's own: the position of the parent of the next candidate, or UINT32_MAX for
 * a draw. It must follow from its arguments, and what it calls on the evolution, alone. */
typedef uint32_t sw_parent_fn(sw_evolution *evolution, uint64_t seed, void *user);

typedef struct {
    size_t size;
    const sw_dataset *train, *validation; /* borrowed */
    const sw_search_space *space;         /* NULL: the default one; borrowed */
    const sw_genome *const *first;        /* the first candidates, n_first of them, copied */
    size_t n_first;
    uint32_t population;         /* AGEING: the newest so many have children; 0: 20 */
    uint64_t samples;            /* of a whole training; 0: 12,800 */
    uint64_t validation_samples; /* 0: all, at most 2,000 */
    uint64_t seed;
    const sw_net_opts *net;       /* NULL: all zero */
    const sw_mutation *mutations; /* n_mutations; none: the default ones */
    size_t n_mutations;
    double mutate, crossover; /* no longer used: 0 */
    const void *selections;   /* no longer used: NULL, and n_selections 0 */
    size_t n_selections;
    const sw_fitness *fitness; /* n_fitness; none: accuracy - loss / 10^6 */
    size_t n_fitness;
    size_t candidate_bytes;  /* hard limit of a candidate's peak_bytes; 0: the budget's alone */
    const char *dir;         /* of the run: history, states at rest, what it goes on from;
                                NULL: nothing is kept, and states rest in memory */
    int (*stop)(void *user); /* asked between batches; not 0: stop. NULL: never */
    void *stop_user;
    uint64_t generation_ns, step_ns; /* no longer used: 0 */
    uint32_t patience;               /* no longer used: 0 */
    double fresh; /* share of draws among later candidates; 0: 0.1; below 0: none */
    sw_search_kind search;
    uint32_t rungs;       /* 1 to 6; 0: 3 */
    uint32_t eta;         /* a rung has eta times the samples of the one before; 0: 3 */
    uint32_t start;       /* draws before the first child; 0: 16 */
    uint32_t parents;     /* 0: 2 of LOCAL, 5 of AGEING */
    uint32_t workers;     /* candidates in training at one time, but for the first draws and the
                             looks, which are 4 at least; 0: 1 */
    uint32_t trainings;   /* whole ones that all of it takes, looks too; 0: 20 */
    uint32_t looks;       /* second looks; 0: 4, at most a quarter of trainings; UINT32_MAX:
                             none */
    sw_parent_fn *parent; /* in the place of `search`; NULL: none */
    void *parent_user;
} sw_evolution_opts;

/* A search in the exec's memory and budget, on its threads: each candidate in training has
 * threads / workers of them, and as many are trained side by side as threads and budget have
 * room for; the same bits for every number. SW_UNSUPPORTED on a device.
 *
 * A candidate is trained with samples / eta^(rungs - 1) samples and evaluated; if it is among
 * the best 1 / eta of those that got so far, it is trained on to the next rung of eta times as
 * many (ASHA, Li et al. 2020). New candidates are draws, and then children. All are trained
 * from the start with the same samples in the same order, so what they reach can be compared.
 * In the end the best few are trained once more from scratch, with another seed and order; the
 * best mean of both is the answer. Up to `workers` are in training at one time, and who ends
 * first follows from planned operations and not from clocks.
 *
 * A candidate is accepted if its predicted peak, the largest of training and evaluation, is
 * within candidate_bytes, and the budget has room for a lane as large as the largest of all
 * beside `workers` members: none can be refused memory later. Where no mutant is accepted the
 * child is a copy of its parent.
 *
 * SW_NOMEM: not even the smallest of a hundred draws fits, with the least budget that would
 * do. */
SW_MUST_USE SW_API sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec,
                                                 const sw_evolution_opts *opts);
SW_API void sw_evolution_destroy(sw_evolution *evolution);

typedef enum {
    SW_EVOLVE_TRAINED,    /* a part of the training was made, or a candidate begins */
    SW_EVOLVE_EVALUATED,  /* `candidate` has reached a rung and has a fitness */
    SW_EVOLVE_GENERATION, /* no longer used */
    SW_EVOLVE_STOPPED,    /* `stop` said so; call it again to go on */
    SW_EVOLVE_ENDED       /* all trainings were made */
} sw_evolve_what;
typedef struct {
    size_t size;
    sw_evolve_what what;
    uint64_t generation;       /* trainings of a candidate to a rung that have ended */
    uint64_t done, all;        /* samples, of the whole search */
    uint64_t steps;            /* of all candidates since the run began */
    uint64_t longest_gap_ns;   /* between two batches, since the process began */
    uint64_t mutants, refused; /* that were priced; that did not fit */
    uint32_t candidate;        /* position; EVALUATED */
} sw_evolve_progress;
/* Continue up to the next event to report; some ten milliseconds, or a step. A candidate is
 * made in a call of its own. A failure leaves the history in `dir`, and an evolution that can
 * only be destroyed. */
SW_MUST_USE SW_API sw_status sw_evolution_advance(sw_evolution *evolution,
                                                  sw_evolve_progress *out);
/* A training that a program makes itself, where nets are trained elsewhere or are judged by a
 * game: of a net of `genome`, from the start or on from where it was, with `samples` in all. */
typedef struct {
    size_t size;
    uint32_t candidate; /* position; UINT32_MAX: none, tell first; with nothing to tell the
                           search has ended */
    int rung, look;     /* look: a second look: with another seed */
    uint64_t samples;
    const sw_genome *genome; /* these two are valid until the evolution ends */
    const sw_price *price;   /* price->peak_bytes: of a training step with the genome's batch */
} sw_evolution_job;
/* In the place of sw_evolution_advance, and not beside it: ask for a training, up to `workers`
 * at one time, and tell its fitness, in any order; a fitness that is no finite number makes the
 * candidate invalid. A search follows from its options and from all fitness so far, so it goes
 * on by telling the same again: SW_UNSUPPORTED with `dir`. SW_INVALID: the candidate is not in
 * training. */
SW_MUST_USE SW_API sw_status sw_evolution_ask(sw_evolution *evolution, sw_evolution_job *out);
SW_MUST_USE SW_API sw_status sw_evolution_tell(sw_evolution *evolution, uint32_t candidate,
                                               double fitness);
/* Candidates by position, in the order in which they began; what is shown of one is valid until
 * the next sw_evolution_advance. */
SW_API uint32_t sw_evolution_count(const sw_evolution *evolution);
SW_MUST_USE SW_API sw_status sw_evolution_member(sw_evolution *evolution, uint32_t i,
                                                 sw_candidate *out);
/* The answer so far: the best mean of a training to the end and its second look, else the
 * fittest at the highest rung. SW_INVALID before the first evaluation. */
SW_MUST_USE SW_API sw_status sw_evolution_best(sw_evolution *evolution, sw_candidate *out);
/* A net with a copy of that candidate's state, ready in the exec; position UINT32_MAX: the
 * best. The caller destroys it. SW_INVALID: its state is not kept, for it may neither go on nor
 * be the answer. */
SW_MUST_USE SW_API sw_status sw_net_copy(sw_net **out, sw_evolution *evolution, uint32_t i);
/* Bytes that the search has now, of the budget; the most so far; how many candidates are in
 * training, and how many have a state at rest. */
typedef struct {
    size_t size;
    size_t bytes, peak_bytes, lane_bytes, member_bytes;
    uint32_t resident, resting;
} sw_evolution_memory;
SW_MUST_USE SW_API sw_status sw_evolution_used(const sw_evolution *evolution,
                                               sw_evolution_memory *out);

/* With `dir` a line of DIR/history.jsonl says how each candidate was made, and another what it
 * reached at each rung; states of those that may go on are in DIR/members. Go on where the
 * history ends: the same bits as if the run had never stopped; what was in training begins its
 * rung again. Where the history is damaged, it ends before the damage; where a state is damaged
 * or missing, its candidate is trained again from the start. sw_last_note() names it. *found 0:
 * there is no history. SW_INVALID names the option that is another; SW_FORMAT and SW_IO the
 * file. Call it before the first sw_evolution_advance. */
SW_MUST_USE SW_API sw_status sw_evolution_resume(sw_evolution *evolution, int *found);
