/* Between the files of the search loop.
 *
 * A candidate is a genome and what came of it. While it is in training it has a net and a group
 * of members with one member, whose range lies in the budget; between two trainings it rests:
 * the bytes of its range are in a file of the run's folder, or in a block that the budget pays
 * for. Its bytes are known, and accepted, before it is trained. */
#pragma once

#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "runtime/base/checksum.h"
#include "runtime/base/structs.h"
#include "runtime/population/evolve/genome.h"
#include "runtime/population/evolve/net.h"
#include "runtime/population/evolve/search.h"
#include "runtime/population/members_internal.h"
#include "runtime/transport/ranks.h"

#define SWI_MAX_TERMS 32

typedef struct {
    sw_fitness terms[SWI_MAX_TERMS];
    size_t n;
    double drop; /* share of a training's steps that TRAIN_ACCURACY leaves out */
} swi_fitness_plan;

/* Read terms; none: accuracy, and of equals the smaller loss. SW_INVALID names the term, and
 * SW_UNSUPPORTED what is no longer used. */
sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call);
/* The sum of the terms. NaN: one of them is no finite number, and *which is the first one. */
double swi_fitness_of(const swi_fitness_plan *plan, const sw_candidate *candidate,
                      uint32_t *which);

#define SWI_EVOLUTION_PATH 1024
#define SWI_WHY 200

/* Bytes that a candidate takes: of a lane, and as a member. */
typedef struct {
    size_t arena, batch, member;
} swi_candidate_need;

typedef struct {
    bool there;
    void *block;   /* without files; of need.member bytes */
    uint32_t rung; /* that it had reached */
    uint64_t sum;
} swi_rest;

/* The position of a candidate is that of its try in the search. */
typedef struct {
    uint64_t id; /* position + 1 */
    uint64_t born;
    swi_job_what how;
    uint32_t of;      /* whose child, or whose look: a position; SWI_SEARCH_NONE: a draw */
    uint32_t attempt; /* that was accepted */
    char *ops;        /* lines of what mutations did */
    uint32_t ops_bytes, ops_cap;
    sw_genome *genome;
    uint64_t hash;
    sw_price price;
    swi_candidate_need need;
    swi_rest rest;
    /* In training; NULL else. */
    sw_net *net;
    sw_members *group;
    sw_member member;
    const sw_feed *train, *eval;
    int owner;         /* over ranks, who trains it; else 0 */
    bool placed;       /* with its owner, its state is there */
    uint64_t eval_all; /* batches */
    /* Of this training: steps to make, and made, all from the start; train_accuracy is of those
     * from counted_from on. */
    uint64_t assigned, steps, counted_from;
    double accuracy_sum;
    uint64_t counted, eval_made;
    double eval_loss, eval_right;
    uint64_t ns, ns_samples;
    /* The results. */
    size_t measured;
    double fitness, loss, accuracy, train_accuracy;
    uint64_t ns_per_sample;
    bool training, invalid;
    char why[SWI_WHY];
} swi_one;

typedef struct {
    const sw_dataset *dataset;
    int64_t batch;
    sw_feed *feed;
} swi_kept_feed;

struct sw_evolution {
    sw_handle handle;
    sw_exec *exec;
    sw_evolution_opts opts; /* arrays are our own copies; what 0 stands for is set */
    sw_net_opts net_opts;
    swi_fitness_plan fitness;
    sw_search_space *own_space; /* NULL: the caller's */
    const sw_search_space *space;
    sw_task task;
    int64_t n_train;
    sw_budget *budget;
    size_t others; /* of the budget: taken before */
    swi_search search;
    swi_one **ones; /* n of them, each a block of its own */
    uint32_t n, cap;
    swi_candidate_need most; /* the largest of each, of all that were accepted */
    swi_kept_feed *feeds;
    uint32_t n_feeds, cap_feeds;
    uint64_t mutants, refused, told;
    bool begun, broken, ended;
    bool asked;             /* the program trains, and no call of advance does */
    const sw_genome *shown; /* to a fitness function */
    int threads;            /* of a candidate */
    int lanes;              /* that runs use: as many as fit */
    /* One call: at most swi_evolution_width of each. */
    sw_members **call_groups;
    sw_members_args *call_args;
    uint32_t *call_of, *in_training;
    uint32_t n_training, cursor;
    /* Charged. */
    size_t rest_bytes, scratch_bytes, peak_bytes;
    /* Clocks. */
    uint64_t last_end, longest_gap;
    /* Files. */
    sw_file *history;
    uint64_t history_bytes; /* that are whole */
    char *replayed;         /* NULL: none; a text whose lines stand for what was done */
    size_t replayed_bytes, replayed_at;
    char notes[2 * SWI_EVOLUTION_PATH];
    /* Over ranks; evolution_ranks.c. */
    swi_ranks *ranks;               /* NULL: there is one process */
    void *said;                     /* of all, after a turn */
    size_t said_bytes, ranks_bytes; /* ranks_bytes: of the budget, for exchanges */
    uint64_t turns, own_steps;
    size_t own_predicted, own_measured; /* of the largest that this rank has trained */
    int stop;                           /* what `stop` said, of all ranks */
};

/* ---- candidates -------------------------------------------------------------------------- */

/* Net, group, feeds and price of a genome that stands in `one`; no tensor memory. */
sw_status swi_one_open(sw_evolution *e, swi_one *one);
/* Ends member, group and net. */
void swi_one_close(swi_one *one);
void swi_one_begin(swi_one *one); /* all zero, numbers NaN */
void swi_one_free(sw_evolution *e, swi_one *one);
void swi_feeds_free(sw_evolution *e);
/* As the public struct shows it; valid as long as `one`. */
sw_candidate swi_one_view(const sw_evolution *e, const swi_one *one);
/* The seed of its first weights and random ops, and that of the order of its samples. */
uint64_t swi_one_seed(const sw_evolution *e, const swi_one *one);
uint64_t swi_one_order(const sw_evolution *e, const swi_one *one);
/* Do the first ones fit? SW_NOMEM says what they need. */
sw_status swi_evolution_try(sw_evolution *e, const char *call);
/* Make the genome of a new candidate, opened and priced: a draw, a child or a second look. */
sw_status swi_one_make(sw_evolution *e, swi_one *one);

/* ---- memory ------------------------------------------------------------------------------ */

swi_candidate_need swi_need_most(swi_candidate_need a, swi_candidate_need b);
/* The most that are in training at one time. */
uint32_t swi_evolution_width(const sw_evolution *e);
/* Bytes of the budget that one lane and all workers take at most; what there is. */
size_t swi_need_bytes(const sw_evolution *e, swi_candidate_need need);
size_t swi_evolution_room(const sw_evolution *e);
size_t swi_rest_room(const sw_evolution *e);
/* Memory that the budget pays for. */
sw_status swi_charged_take(sw_evolution *e, void **out, size_t bytes, size_t *count);
void swi_charged_give(sw_evolution *e, void *block, size_t bytes, size_t *count);

/* ---- training ---------------------------------------------------------------------------- */

/* Its steps up to the rung are assigned. */
void swi_one_assign(const sw_evolution *e, swi_one *one, const swi_job *job);
/* Bring those in training into memory, and make some steps of them. *ended: `next`, the one
 * that ends next, has a fitness now; SWI_SEARCH_NONE: not yet. */
sw_status swi_evolution_run(sw_evolution *e, uint32_t next, uint32_t *ended);

/* Of one that is over: fitness and other results. */
void swi_one_judge(sw_evolution *e, swi_one *one);

/* ---- ranks ------------------------------------------------------------------------------- */

/* Every rank has all of the search, and does the same with the same scores. A candidate is
 * trained by one of them. Rank 0 has the files. */

/* Before resume, by all ranks: options, data and memory are the same, or SW_INVALID names what
 * is not. The folder must be given. */
sw_status swi_evolution_join(sw_evolution *e, swi_ranks *ranks);
/* Of each rank: the transport's buffer, and what all say in a turn. 0: there is one. */
size_t swi_evolution_ranks_bytes(const swi_ranks *ranks);
static inline bool swi_has_files(const sw_evolution *e)
{
    return e->opts.dir != NULL && swi_ranks_rank(e->ranks) == 0;
}
static inline bool swi_is_mine(const sw_evolution *e, const swi_one *one)
{
    return one->owner == swi_ranks_rank(e->ranks);
}
/* Those in training that have no owner yet get one. */
void swi_ranks_deal(sw_evolution *e);
/* Each tells all how far it is. *over: candidate `next` has its results now, on every rank. */
sw_status swi_ranks_turn(sw_evolution *e, uint32_t next, bool *over);
/* SW_NOMEM, as it was said last, and what exchanges have of the budget. */
sw_status swi_ranks_no_room(const sw_evolution *e);
/* The status of rank 0 becomes that of all. */
sw_status swi_ranks_first(sw_evolution *e, sw_status status);
/* The state at rest of a candidate, from rank 0 into the range of its owner: others have none.
 * SW_FORMAT or SW_IO on all ranks: it is not there, or not whole. */
sw_status swi_ranks_fetch(sw_evolution *e, swi_one *one, unsigned char *range);
/* A text that rank 0 has, to all. NULL: none. */
sw_status swi_ranks_text(sw_evolution *e, char **text, size_t *bytes);

/* ---- files ------------------------------------------------------------------------------- */

#define SWI_HISTORY_FORMAT "stepwell search 1"
#define SWI_STATE_HEAD "{\"format\":\"stepwell state 3\"," /* a state begins with */
/* The bits of a run depend on these. */
enum { SWI_EVOLUTION_OPTIONS = 20 };
typedef struct {
    const char *name;
    uint64_t value;
} swi_option;
void swi_evolution_options(const sw_evolution *e, swi_option list[SWI_EVOLUTION_OPTIONS]);
/* Is a line, with its end, what was written? */
bool swi_line_is_whole(const char *line, size_t bytes);
/* The history is open, and what `sw_evolution_resume` found in it stands for what was done. */
sw_status swi_log_open(sw_evolution *e);
/* A candidate begins, or has reached its rung. */
sw_status swi_log_begin(sw_evolution *e, const swi_one *one);
sw_status swi_log_end(sw_evolution *e, const swi_one *one);
/* The same out of the history. *there false: it has no such line; it is cut here, and what
 * follows is done. */
sw_status swi_replay_begin(sw_evolution *e, swi_one *one, bool *there);
sw_status swi_replay_end(sw_evolution *e, swi_one *one, bool *there);
/* All that the history says, without training. */
sw_status swi_evolution_replay(sw_evolution *e);
/* Put the state of one in training to rest, read it, and drop it. */
sw_status swi_rest_put(sw_evolution *e, swi_one *one, uint32_t rung);
sw_status swi_rest_get(const sw_evolution *e, const swi_one *one, unsigned char *to);
void swi_rest_drop(sw_evolution *e, swi_one *one);
/* Damage that ends nothing: for sw_last_note. */
void swi_evolution_note(sw_evolution *e, const char *why);
