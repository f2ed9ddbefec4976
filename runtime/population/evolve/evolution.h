/* Fitness: a sum of terms for each objective. */
#ifndef SW_EVOLUTION_H
#define SW_EVOLUTION_H

#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "runtime/base/checksum.h"
#include "runtime/base/structs.h"
#include "runtime/population/evolve/draws.h"
#include "runtime/population/evolve/genome.h"
#include "runtime/population/evolve/net.h"
#include "runtime/population/members_internal.h"

#define SWI_MAX_TERMS 32
#define SWI_MAX_OBJECTIVES 8

typedef struct {
    sw_fitness terms[SWI_MAX_TERMS];
    size_t n, n_objectives;
    bool rounded; /* the default terms, which round accuracy */
    double drop;  /* share of a generation's steps that TRAIN_ACCURACY leaves out */
} swi_fitness_plan;

/* Averages over generations that a member has: one for each term; NaN: none yet. */
typedef struct {
    double of[SWI_MAX_TERMS];
} swi_fitness_averages;

/* Read terms; none: the default ones. SW_INVALID names the term. */
sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call);
/* Of a member that begins. */
void swi_fitness_begin(swi_fitness_averages *averages);
/* The objectives of a member with known numbers; its averages go on. False: one of them is NaN
 * or infinite, or the member was invalid before; *which is the first such term, UINT32_MAX
 * where it was invalid before, and the averages are as they were. */
bool swi_fitness_of(const swi_fitness_plan *plan, const sw_candidate *candidate,
                    swi_fitness_averages *averages, double objectives[SWI_MAX_OBJECTIVES],
                    uint32_t *which);
/* One number for each of n members, for sw_select: fitness itself with one objective; else how
 * many are after it by rank and crowding distance. objectives: (n, SWI_MAX_OBJECTIVES), NaN
 * where invalid; ranks receives Pareto ranks. */
sw_status swi_fitness_order(const swi_fitness_plan *plan, const double *objectives, size_t n,
                            double *out, uint32_t *ranks);

/* Between the files of the evolution loop.
 *
 * A candidate is a genome, a net of it, and a group of members with one member: its range when
 * it is resident, else the same bytes at rest, in a file of the run's folder or in a block that
 * the budget pays for. A generation goes through waves: the residents are trained and
 * evaluated, then those that rest, as many at a time as there are lanes. Between two
 * generations nothing runs, lanes are given back, and what children are made in takes their
 * place: so it is part of what is accepted. */

#define SWI_UTILITY_STEPS                                                                      \
    20 /* of a generation: the first and each so many after it are of variant 1 */
#define SWI_EVOLUTION_PATH 1024
#define SWI_WHY 200

/* Bytes that a candidate takes: of a lane, and as a member. */
typedef struct {
    size_t arena, batch, member;
} swi_candidate_need;

/* The limits by which a child is accepted: none depends on threads. */
typedef struct {
    swi_candidate_need most; /* the largest of each, of its generation and of the one before */
    size_t best;             /* without files: the state of the fittest so far */
    size_t room;             /* of the budget */
    size_t population;
    size_t files; /* 1: members rest in files */
} swi_limits;     /* sizes alone: a file has them as one list */

typedef enum { SWI_BORN_FIRST, SWI_BORN_DRAWN, SWI_BORN_CHILD } swi_birth_kind;

/* How a candidate was made. */
typedef struct {
    swi_birth_kind how;
    uint64_t generation;
    uint32_t index; /* of the opts' first; of the draw; of the child in its generation */
    uint32_t attempt;
    bool fresh; /* its parents were invalid: weights of its own */
    swi_limits limits;
} swi_birth;

typedef struct {
    bool there;
    void *block;         /* without files */
    uint64_t generation; /* of its file: at its begin the member was this */
    uint64_t bytes;
    uint64_t sum;
} swi_rest;

typedef struct {
    uint64_t id, parents[2];
    swi_birth birth;
    char *ops; /* lines of what mutations did */
    uint32_t ops_bytes, ops_cap;
    sw_genome *genome;
    sw_net *net;
    sw_members *group;
    sw_member member; /* {0}: at rest, or not begun */
    const sw_feed *train, *eval;
    int64_t eval_rows; /* of a batch */
    sw_price price;
    swi_candidate_need need;
    swi_rest rest;
    swi_fitness_averages averages;
    uint64_t steps; /* with its parents' */
    bool resident;  /* stays in the budget for the generation */
    bool kept;      /* goes on in the next one; it may be trained while children are made: */
    bool begun;     /* then its generation has begun already, */
    uint64_t pause_sum;
    uint64_t begin_steps; /* with so many steps after it */
    /* Of this generation. */
    uint64_t assigned, made, counted_from; /* steps; train_accuracy is of those from there on */
    double loss_sum, accuracy_sum;
    uint64_t counted, eval_made, eval_all; /* steps; batches */
    double eval_loss, eval_right;
    uint64_t ns;
    uint32_t slow;
    bool ended; /* trained no further */
    /* The results. */
    size_t measured;
    double fitness, order, objectives[SWI_MAX_OBJECTIVES];
    double loss, accuracy, train_accuracy;
    uint64_t ns_per_sample;
    uint32_t rank;
    bool invalid;
    char why[SWI_WHY];
} swi_one;

/* A state in DIR/members, by its name. */
typedef struct {
    uint64_t id, generation;
    int what;
} swi_state_file;
typedef struct {
    swi_state_file *all; /* population + 2, by name */
    uint32_t n;
} swi_states;

typedef struct {
    const sw_dataset *dataset;
    int64_t batch;
    sw_feed *feed;
    bool used;
} swi_kept_feed;

typedef enum { SWI_PHASE_NEW, SWI_PHASE_TRAIN, SWI_PHASE_EVALUATED, SWI_PHASE_BREED } swi_phase;

/* A next generation while it is made, a child in each call. */
typedef struct {
    uint32_t *chosen; /* positions of members: the parents of each child, or who goes on */
    int *kept;
    size_t n;
    uint32_t at; /* the next */
    bool alone;  /* the members of this generation are all at rest, to make room */
    swi_limits limits;
} swi_making;

struct sw_evolution {
    sw_handle handle;
    sw_exec *exec;
    sw_evolution_opts opts; /* arrays are our own copies */
    sw_net_opts net_opts;
    swi_fitness_plan fitness;
    sw_search_space *own_space; /* NULL: the caller's */
    const sw_search_space *space;
    sw_task task;
    int64_t n_train;
    sw_budget *budget;
    size_t others;               /* of the budget: taken before */
    swi_one *members, *children; /* opts.population of each */
    swi_one best;                /* genome, numbers, rest */
    bool has_best;
    swi_kept_feed *feeds;
    uint32_t n_feeds, cap_feeds;
    uint64_t generation, next_id, steps, mutants, refused;
    uint64_t early; /* of steps: those of a generation that is not there yet */
    swi_phase phase;
    bool resumed, broken;
    const sw_genome *shown; /* to a fitness function */
    /* The wave: positions of members. */
    uint32_t *wave, n_wave, cursor, n_waved;
    bool *waved;
    int lanes;                 /* that runs use: as many as fit */
    uint64_t wave_ns, trained; /* the generation of the samples */
    swi_making making;
    sw_members **call_groups;
    sw_members_args *call_args;
    uint32_t *call_of;
    /* Charged. */
    size_t rest_bytes, scratch_bytes, peak_bytes;
    /* Clocks. */
    uint64_t last_end, longest_gap;
    /* Files. */
    swi_states states[2]; /* that the generation's file needs; that the one before does */
    bool drop_old;        /* the file of the generation is damaged, or another run's */
    sw_file *history;
    uint64_t history_bytes;
};

/* Net, group, feeds and price of a genome that stands in `one`; no tensor memory. */
sw_status swi_one_open(sw_evolution *e, swi_one *one);
/* Ends member, group and net. */
void swi_one_close(swi_one *one);
/* All of it. */
void swi_one_free(sw_evolution *e, swi_one *one);
void swi_one_begin(swi_one *one);      /* all zero, numbers NaN */
void swi_feeds_sweep(sw_evolution *e); /* end those that no member has */
void swi_feeds_free(sw_evolution *e);
/* As the public struct shows it; valid as long as `one`. */
sw_candidate swi_one_view(const swi_one *one);
/* The seed of its random ops, and of first weights. */
uint64_t swi_member_seed(const sw_evolution *e, uint64_t id);

swi_candidate_need swi_need_most(swi_candidate_need a, swi_candidate_need b);
/* Does `need` fit beside what the limits say? */
bool swi_limits_fit(const swi_limits *limits, swi_candidate_need need);
size_t swi_limits_bytes(const swi_limits *limits, swi_candidate_need need);
/* Limits of a first population. */
swi_limits swi_limits_begin(const sw_evolution *e);
/* Memory that the budget pays for. */
sw_status swi_charged_take(sw_evolution *e, void **out, size_t bytes, size_t *count);
void swi_charged_give(sw_evolution *e, void *block, size_t bytes, size_t *count);
/* Who stays: `resident` of all members. */
sw_status swi_evolution_pack(sw_evolution *e);
/* Tell the lanes how many runs use. */
void swi_evolution_use_lanes(const sw_evolution *e, int lanes);
/* Lanes and ranges that are not used are given back, where there is a budget. */
sw_status swi_evolution_trim(sw_evolution *e);
void swi_evolution_note_peak(sw_evolution *e);

/* Where the bytes of a member that begins are to be written: a block that stays, or
 * `scratch`. */
sw_status swi_rest_begin(sw_evolution *e, swi_one *one, unsigned char *scratch,
                         unsigned char **out);
/* They are written: it rests from now on, as the member at the begin of that generation. */
sw_status swi_rest_end(sw_evolution *e, swi_one *one, const unsigned char *bytes,
                       uint64_t generation);
/* The folder of states. */
sw_status swi_states_open(const sw_evolution *e);
/* A generation's file needs these, the one before what the last call said. best NULL: none. */
void swi_states_note(sw_evolution *e, const swi_one *members, const swi_one *best);
/* Remove the states that neither of both needs. */
void swi_states_sweep(sw_evolution *e);
/* Put the state of a resident to rest; it stays resident. */
sw_status swi_one_store(sw_evolution *e, swi_one *one, uint64_t generation);
/* The bytes of a member: where they are, or read into `scratch`; of one that goes on those that
 * it had when the generation ended. */
sw_status swi_one_bytes(sw_evolution *e, const swi_one *one, unsigned char *scratch,
                        const unsigned char **out);
/* Put aside a member that has begun its generation: its range ends, swi_one_load goes on
 * there. */
sw_status swi_one_pause(sw_evolution *e, swi_one *one);
/* Both files of the best's state are whole, or one is written again from the other; `why` says
 * what was wrong with it then. */
sw_status swi_best_mend(const sw_evolution *e, unsigned char *scratch, char *why, size_t room);
sw_status swi_rest_read(const sw_evolution *e, const swi_one *one, unsigned char *to);

/* The generation begins: members are packed, residents loaded, the first wave is there. */
sw_status swi_evolution_place(sw_evolution *e);
/* Before the others of its generation: those that are resident and go on. */
sw_status swi_evolution_train_kept(sw_evolution *e);
/* One call of runs of them, if there is anything to train. */
sw_status swi_evolution_run_kept(sw_evolution *e);
/* One call of runs; *ended: all of the generation are evaluated. */
sw_status swi_evolution_run(sw_evolution *e, bool *ended);

/* A parent while children are made. */
typedef struct {
    const swi_one *one;         /* NULL: there is none */
    const unsigned char *bytes; /* of its range */
} swi_parent;

/* The result of crossover, before its mutation: a net with bytes of its own. */
typedef struct {
    sw_genome *genome;
    sw_net *net;
    void *bytes;
    size_t n;
    bool used; /* the child is a mutant of it */
} swi_cross;

typedef struct {
    sw_evolution *e;
    swi_one *child;
    swi_parent parent, mate;
    swi_cross cross;
    uint64_t seed; /* of the child */
} swi_brood;

/* May it be, beside what the limits say? Counted. */
bool swi_candidate_fits(sw_evolution *e, const swi_limits *limits, const swi_one *one);

/* Ranks of all, and history. */
sw_status swi_evolution_judge(sw_evolution *e);
/* Choose who goes on and who has children; the former are trained from now on. */
sw_status swi_evolution_breed_begin(sw_evolution *e);
/* One child; *ended: all are there, and the next generation too. */
sw_status swi_evolution_breed(sw_evolution *e, bool *ended);

/* ---- files ------------------------------------------------------------------------------- */

sw_status swi_generation_write(sw_evolution *e);
sw_status swi_evolution_log_begin(sw_evolution *e);
sw_status swi_evolution_log_write(sw_evolution *e);

/* Between the files of an evolution that write and read its folder. */

#define SWI_GENERATION_FORMAT "stepwell evolution 3"
#define SWI_STATE_HEAD "{\"format\":\"stepwell state 2\"," /* a state begins with */
enum { SWI_GENERATIONS_KEPT = 2 }; /* generation.json, generation.json.1 */
/* The text of such a file, which a zero follows, has this format and is what was written; else
 * SW_FORMAT. */
sw_status swi_generation_check(const char *text, size_t n, const char *path);

void swi_evolution_path(const sw_evolution *e, const char *name, char path[SWI_EVOLUTION_PATH]);

/* Numbers of a struct as fields of a JSON object: one table writes and reads them. A whole
 * number that is UINT64_MAX is null, as NaN is; sums are "0x" and 16 digits. */
typedef enum { SWI_DATUM_WHOLE, SWI_DATUM_HEX, SWI_DATUM_REAL, SWI_DATUM_YES } swi_datum_kind;
typedef struct {
    const char *name;
    swi_datum_kind kind;
    size_t at, bytes; /* in the struct; of a number: 1, 4 or 8 */
    uint32_t many;    /* of a list; 0: a number alone */
} swi_datum;
#define SWI_DATUM(name, kind, type, member)                                                    \
    {                                                                                          \
#name, SWI_DATUM_##kind, offsetof(type, member), sizeof(((type *)0)->member), 0        \
    }
#define SWI_DATA(name, kind, type, member)                                                     \
    {                                                                                          \
#name, SWI_DATUM_##kind, offsetof(type, member), sizeof(((type *)0)->member[0]),       \
            sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])                       \
    }
void swi_data_put(sw_json *j, const swi_datum *fields, size_t n, const void *from);

/* Of swi_datum_get, a sw_json_member: the table and where to read to. */
typedef struct {
    const swi_datum *fields;
    uint32_t n;
    void *to;
    sw_json_member *other; /* of a key that the table has not; NULL: passed over */
    void *context;         /* of `other` */
    uint32_t seen;         /* fields of the table */
} swi_data_in;
sw_status swi_datum_get(sw_json_in *in, const char *key, void *context);

#endif
