/* `stepwell pbt`: a population of models that train side by side, and learn from each other how
 * to train. On top of the library's members, feeds, packing and decisions; here is what a
 * command adds: which hyper-parameter is what, shapes by batch and width, who lies in the
 * budget, files. */
#pragma once

#include "alloc/base/sys.h"
#include "tools/cli/svg.h"
#include "tools/job/job_ranks.h"
#include "tools/job/outputs.h"
#include "tools/job/saves.h"

#define POP_HYPERS 64

typedef struct {
    job_opts job;
#define POP_OPTION(type, field, ...) type field;
#include "tools/population/pop_options.def"
    const char *hyper[POP_HYPERS]; /* NAME=RANGE, as given */
    int n_hypers;
    double factor[2];
} pop_opts;

enum {
    POP_OPTIONS_MAX = JOB_OPTIONS_MAX
#define POP_OPTION(type, field, ...) +1
#include "tools/population/pop_options.def"
};

typedef enum { POP_KNOB, POP_BATCH, POP_WIDTH } pop_hyper_kind;
typedef struct {
    pop_hyper_kind kind;
    char name[48];
    int layer; /* POP_WIDTH: of the hidden layers, from 0; -1: all */
} pop_hyper;

/* The values that decide a shape. */
typedef struct {
    int64_t batch;
    cli_list hidden; /* n 0: the model has none */
} pop_config;

/* The samples that members learn from, those that give them their scores, and those that are
 * for the best one alone, at the end. Under `train --members` the last two are the same. */
typedef enum { POP_TRAIN, POP_VALIDATION, POP_TEST, POP_PARTS } pop_part;

/* Models of one config: one program for each batch, whatever their number. */
typedef struct {
    pop_config config;
    tool_net net;
    sw_members *group;
    sw_feed *feed[POP_PARTS];
    size_t member_bytes, arena_bytes, batch_bytes;
    bool listed; /* in the result */
} pop_shape;

/* ---- members ----------------------------------------------------------------------------- */

/* A state that lies outside of the budget: bytes, or a place in the file of --pause-to. */
typedef struct {
    void *bytes;
    size_t n;
    uint64_t offset; /* in the file */
    int shape;       /* that it is of */
    bool there;
    bool away; /* with another rank, which has its bytes */
} pop_state;

/* The file of --pause-to: it has no name, so nothing is left of it whatever ends the process.
 * Where the system has no such files its name goes as soon as it is open. */
typedef struct {
    sw_file *write, *read; /* one or two; NULL: states are in memory */
    uint64_t end;
    pop_state *free; /* places that were given back, with their sizes */
    uint32_t n_free, cap_free;
} pop_pause_file;

typedef struct {
    double loss, accuracy; /* of all validation samples */
    double train_loss;     /* mean over the last steps before the turn */
    double score;          /* NaN: none */
    uint64_t step;
} pop_score;

typedef struct {
    int shape;
    uint64_t seed;
    sw_member member; /* .of NULL: it waits, and `waiting` is its state */
    pop_state waiting, kept;
    bool ended, failed;
    bool stays;      /* in the budget, by the present packing */
    bool diverged;   /* too many updates in a row were skipped since its last turn */
    bool resized;    /* `waiting` is of another shape, and is fitted when it comes in */
    int copied;      /* before this turn: number of the donor plus 1; 0: of none */
    uint64_t steps;  /* made */
    uint64_t target; /* of this turn */
    pop_score score;
    double mark, best_loss; /* of its turns: what the next must be better than; the lowest */
    int64_t waited;         /* turns in a row without a better one */
    char why[200];          /* it failed */
} pop_member;

/* Turns of a member for the picture: `n` rows of doubles (POP_ROW_...). */
typedef struct {
    double *rows;
    uint32_t n, cap;
    uint32_t apart; /* every so manieth turn is kept, and the last one */
    uint64_t turns; /* that it has had */
} pop_history;
enum {
    POP_ROW_STEP,
    POP_ROW_SCORE, /* NaN: none */
    POP_ROW_DONOR, /* that it copied after the turn; -1: none */
    POP_ROW_DONOR_STEP,
    POP_ROW_DONOR_SCORE,
    POP_ROW_VALUES /* of the steps up to here, in the order of the space */
};

/* Bytes that memory is predicted to take and takes. */
typedef struct {
    sw_packing packing; /* of the present turn */
    sw_packing most_of; /* of the turn that takes the most */
    size_t predicted_peak, measured_peak;
    int64_t n_configs, n_refused; /* that the space can reach; of them those that do not fit */
    pop_config largest, first_refused;
    size_t largest_bytes, first_refused_bytes;
    size_t arena, batch, member; /* the largest of all shapes there can be */
    size_t most;                 /* a shape that takes more, alone, does not fit */
    size_t staging;              /* beside the packing: where a width changes both are there */
    size_t arena_limit;          /* of plans; 0: none */
    int threads;
    size_t paused_peak; /* bytes outside of the budget */
    size_t paused;
    int refused_knob; /* 0, or the exit status that said which knob there is not */
} pop_memory;

typedef struct {
    pop_opts opts;
    const cli_option *options; /* of the command, that its options were read by */
    int n_options;
    char command[512];
    job job;             /* data, normalisation; its exec and budget are the population's */
    job_data validation; /* a part of what was loaded for training, or enough of that part */
    int64_t drawn;       /* samples of the whole part */
    const job_data *part[POP_PARTS]; /* of `job`, or `validation` */
    sw_space *space;
    pop_hyper hyper[POP_HYPERS];
    int64_t largest_batch; /* that can be explored; 0: none is */
    int n_hypers;
    sw_pbt *pbt;
    bool classes, minimize, by_loss; /* classes: there are accuracies */
    double steps_to_do;
    pop_shape **shapes; /* their addresses stay: a net is the user of its step function */
    int n_shapes, cap_shapes;
    pop_member *members;
    int n_members;
    pop_memory memory;
    uint64_t turn, exploits, refused, member_steps;
    uint64_t start_ns, wall_ns, exploit_ns, train_ns, score_ns, test_ns;
    bool tested;
    pop_score test; /* of the best member, at the end */
    job_metrics metrics;
    pop_history *history; /* of each member; NULL: not kept */
    sw_checkpoint *checkpoint;
    job_due due;
    bool resumed;
    bool saves;                                        /* there is a --checkpoint */
    enum { POP_NO_PARAMS, POP_BEST, POP_EACH } params; /* whose --save-params writes */
    /* Of several processes; NULL: there is one. */
    swi_ranks *ranks;
    unsigned char *said; /* of a turn, mine before that of all */
    size_t said_bytes;
    bool agreed, stopped, save_now;   /* stopped: one was interrupted; all know the last two */
    uint64_t own_steps, steps_before; /* of this process; of those before it */
    uint64_t piece;                   /* steps of the next piece of a call */
    int *turn_room;                   /* for members of a turn, twice */
    bool made_logs, made_pauses;      /* the folders of --log-dir and --pause-to */
    /* Of `train --members` alone. */
    bool independent; /* nothing is copied */
    bool scheduled;   /* the rate follows `schedule` */
    sw_schedule schedule;
    int64_t validate_every, patience;
    double min_delta, best_loss;
    const char *best_path; /* --save-best */
    cli_times times;       /* of one step of all */
    pop_pause_file pause;
    sw_profile *profile; /* NULL: none */
    pop_config *told;    /* n_told configs whose shapes are in it, by their numbers there */
    uint32_t n_told, cap_told;
    void *scratch; /* a packed member */
    size_t scratch_bytes;
    /* Scratch for calls of the library, n_members each. */
    sw_member *list;
    int *order;
    double *values;
    size_t *sizes;
    sw_status *ended; /* and as many again */
} pop;

extern const char *const pop_metric_words[];
extern const char *const pop_exploit_words[];
extern const char *const pop_explore_words[];
extern const char *const pop_too_large_words[];

/* Whether the optimizer has every knob. CLI_GO, or CLI_USAGE with a line that names it. */
int pop_knobs_check(const pop *p, const pop_shape *shape);
/* The config that values ask for. */
pop_config pop_config_of(const pop *p, const double *values);
/* Does the space have anything that is no knob? */
bool pop_changes_config(const pop *p);
/* Put the knobs of values into a member that is resident. */
SW_MUST_USE sw_status pop_set_knobs(pop *p, int member, const double *values);
SW_MUST_USE sw_status pop_set_rate(pop *p, int member, float rate);
SW_MUST_USE sw_status pop_values(const pop *p, int member, double *values);

/* The shape of a config, declared and planned in the exec of the job, found where it is
 * there. */
SW_MUST_USE sw_status pop_shape_of(pop *p, const pop_config *config, int *out);
/* Shapes without members and kept states give back what they have. */
void pop_shapes_sweep(pop *p);
void pop_shape_free(pop_shape *shape);
sw_members_args pop_args(const pop_shape *shape, pop_part part);
bool pop_same_config(const pop_config *a, const pop_config *b);
/* "batch 128, hidden 64,24" */
cli_text pop_config_text(const pop_config *config);

/* Members in and out of the budget. */
SW_MUST_USE sw_status pop_bring(pop *p, int member); /* in */
SW_MUST_USE sw_status pop_pause(pop *p, int member); /* out */
SW_MUST_USE sw_status pop_keep(pop *p, int member);  /* a copy for who may copy it */
void pop_drop(pop *p, int member);
/* The donor's state, kept or (synch) present, becomes the target's; widths that differ are
 * fitted when the target comes in. */
SW_MUST_USE sw_status pop_copy(pop *p, int target, int donor);
/* A copy of a state that is in either place; the bytes are those of sw_member_pack. */
SW_MUST_USE sw_status pop_state_read(pop *p, const pop_state *state, void *to);
SW_MUST_USE sw_status pop_state_put(pop *p, pop_state *state, const void *bytes, size_t n,
                                    int shape);
void pop_state_free(pop *p, pop_state *state);
/* The same bytes of a member, wherever it is; `to` has room for pop_state_bytes. */
size_t pop_state_bytes(const pop *p, int member);
SW_MUST_USE sw_status pop_state_of(pop *p, int member, void *to);
SW_MUST_USE sw_status pop_pause_open(pop *p);
void pop_pause_close(pop *p);

/* Who has member k: its state, its steps and its score. */
static inline int pop_owner(const pop *p, int k)
{
    return k % swi_ranks_size(p->ranks);
}
static inline bool pop_is_mine(const pop *p, int k)
{
    return pop_owner(p, k) == swi_ranks_rank(p->ranks);
}
/* An interrupt that all know of. */
static inline bool pop_stopped(const pop *p)
{
    return p->ranks != NULL ? p->stopped : cli_interrupted();
}
/* pop_ranks.c. Join the others. CLI_GO or an exit status. */
int pop_ranks_open(pop *p);
/* All have the same options (that decide), data and plans; then what rank 0 knows of files. */
SW_MUST_USE sw_status pop_ranks_agree(pop *p, const job_identity *options);
/* Steps and scores of all members of a turn, to all. */
SW_MUST_USE sw_status pop_ranks_turn(pop *p, const int *turn, int n);
/* Of the exchange: the transport's buffer, and a turn's steps and scores. */
size_t pop_ranks_bytes(const pop *p);
/* --memory-budget without these; 0: there is none. */
size_t pop_budget(const pop *p);
/* Room for a packed member in p->scratch. */
SW_MUST_USE sw_status pop_scratch(pop *p, size_t n);

/* pop_pack.c */
/* Look at every shape that the space can reach, decide lanes and plans, and make the exec of
 * the run. CLI_GO or an exit status. */
int pop_open(pop *p);
/* Bytes of the lanes with no one resident: no explore needs more. */
size_t pop_least(const pop *p);
/* Bytes that the present turn takes at most; 0: no member has it here. */
size_t pop_predicted(const pop *p);
/* Who stays in this turn. */
SW_MUST_USE sw_status pop_arrange(pop *p);
/* Bytes of the budget as the library counts them, noted in memory.measured_peak. */
SW_MUST_USE sw_status pop_measure(pop *p);
/* Bytes of a member of a config, and of its step with its batch. */
SW_MUST_USE sw_status pop_config_bytes(pop *p, const pop_config *config, size_t *member,
                                       size_t *lane);
/* Whether a config fits; where it does not and --too-large says so, the batch is halved. */
SW_MUST_USE sw_status pop_fit(pop *p, pop_config *config, bool *changed, bool *fits);

/* The explore function of the decisions: what does not fit is changed before it is logged. */
sw_status pop_explored(int member, const double *donors, double *values, int n, void *user);
/* pop_turn.c: all turns; interrupted: SW_OK, and cli_interrupted(). */
SW_MUST_USE sw_status pop_run(pop *p);
/* The test part judges the best member, once all turns are over; nothing follows from it. */
SW_MUST_USE sw_status pop_test_best(pop *p);

SW_MUST_USE sw_status pop_save_open(pop *p);
int pop_resume(pop *p); /* CLI_GO or an exit status */
SW_MUST_USE sw_status pop_save_due(pop *p);
SW_MUST_USE sw_status pop_save_now(pop *p);

/* The files that are to be written. CLI_GO or an exit status. */
int pop_files_check(const pop *p);

/* pop_files.c: --metrics and --save-params. */
SW_MUST_USE sw_status pop_metrics_open(pop *p);
SW_MUST_USE sw_status pop_metrics_row(pop *p, int member);
SW_MUST_USE sw_status pop_save_params(pop *p);
/* Of one member; %d in the path is its number. */
SW_MUST_USE sw_status pop_save_member(pop *p, int member, const char *path);

/* --profile. Each turn has a record of each member as it was when it reported,
 * and one of what all of it takes. Closing returns the exit status. */
SW_MUST_USE sw_status pop_profile_open(pop *p);
SW_MUST_USE sw_status pop_profile_turn(pop *p);
int pop_profile_close(pop *p, int status);

/* History: what members did in their turns. All but _open do nothing where it is not kept. */
SW_MUST_USE sw_status pop_history_open(pop *p);
void pop_history_clear(pop *p);
void pop_history_close(pop *p);
/* A member has been tested. */
SW_MUST_USE sw_status pop_history_turn(pop *p, int member);
/* After its last turn it copied a donor, as that was then. */
void pop_history_copied(pop *p, int member, int donor, double step, double score);
const double *pop_history_row(const pop *p, int member, uint32_t i);

/* --plot. */
SW_MUST_USE sw_status pop_plot_save(pop *p);

/* pop_result.c */
/* "validation accuracy"; "loss" where the test part gives the scores. */
const char *pop_metric_name(const pop *p);
/* One line without its end: what memory was predicted to take and took. */
int pop_best(const pop *p); /* by score; -1: none has one */
int pop_print(pop *p, int status);

/* cmd_pbt.c: from the options to the exit status. */
int pop_go(pop *p);
/* Steps, schedule and turns, once the data are there. */
int pop_train_plan(pop *p);
/* --prove: what pop_open found. Returns the exit status. */
int pop_say_proof(const pop *p);

/* --replay, and what --without was worth. */
int pop_replay(pop *p);
