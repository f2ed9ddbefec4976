/* Shared by the files of `stepwell plan`. */
#pragma once

#include "tools/plan/plan_search.h"
#include "tools/job/result.h"

/* The options that --over names. */
typedef enum { PLAN_BATCH, PLAN_CONTEXT, PLAN_LAYERS, PLAN_WIDTH, PLAN_LORA } plan_over;
extern const char *const plan_over_words[];

typedef struct {
    job_opts job;
    size_t fit_bytes; /* --fit; 0: not asked for */
    const char *overhead, *over_word;
    bool curve;
    double most_more; /* --overhead, per cent; without it 0, with --curve infinite */
    plan_over over;
    const char *svg; /* --svg; NULL: not asked for */
    bool json, quiet, summary, sample, explain;
    const char *update;  /* --update as it was given */
    const char *methods; /* --method */
    job_method method[3];
    int n_methods;
    bool halves[2]; /* --precision, in its order */
    int n_precisions;
    int64_t population, slice; /* es: evaluations of a generation and of a run; 0: not given */
    int64_t ranks, shards;     /* ranks 1: one process; shards 0: one for each */
} plan_opts;

#define PLAN_NEXT 3 /* larger batches that are shown beside the answer */

typedef struct {
    plan_found found;
    struct {
        int64_t batch;
        size_t total_bytes;
    } next[PLAN_NEXT];
    int n_next;
    int64_t images; /* of the training data; a larger batch is planned as if there were more */
    bool capped; /* found.batch is the most that --batch takes: no larger one was looked at */
    struct {
        int64_t batch; /* a larger one that was planned under a budget of the size; 0: none */
        size_t total_bytes;
        double more; /* per cent of the operations of a step, weighed by their time */
    } budget;
    uint64_t ns;
} plan_fit;

/* The largest batch whose total_bytes fits, and no word about it; found.batch is 0 where none
 * does. job_load and opts come first, job_close last. */
SW_MUST_USE sw_status plan_fit_search(job *j, size_t fit_bytes, plan_found *found);
/* Search the largest batch whose total_bytes fits --fit, and leave the job planned for it.
 * CLI_NO_FIT with a message when none does. job_load and opts come first, job_close last. */
int plan_fit_find(const plan_opts *opts, job *j, plan_fit *out);
/* Members of the open object; a text. */
void plan_fit_put(sw_json *json, const plan_opts *opts, const plan_fit *fit);
void plan_fit_print(const plan_opts *opts, const plan_fit *fit);

/* A job of these options beside another, whose data it has; nothing of it is made. */
job plan_beside(const job *from, const job_opts *opts, int64_t batch);
/* job_plan under the budget of the options: *fits, or how much it needs stands in the plan. */
SW_MUST_USE sw_status plan_program(job *j, job_which which, bool *fits);

/* One value of what is varied, planned under a budget. */
typedef struct {
    int64_t value;
    bool fits, refused; /* refused: the model or the data have no such value */
    size_t total_bytes; /* of the program that speaks for the job, or what it needs; in the end,
                           of the answer's job */
    size_t model_bytes, data_bytes;
    size_t least_bytes;      /* no plan that runs nothing again has less; 0: not asked */
    double more, least_more; /* time that the budget adds, per cent; no plan adds less */
    double ns;               /* predicted for a sample, of --over context for an id */
} plan_point;

#define PLAN_POINTS 192
#define PLAN_CURVE 12

typedef struct {
    const job *from; /* its options and data; nothing of it is planned */
    plan_over over;
    size_t fit_bytes;
    double most_more;    /* per cent; HUGE_VAL: whatever it costs */
    int64_t unit, most;  /* values are multiples of it: at most so many */
    bool plain, reload;  /* no op runs again; each value has data of its own */
    bool quick;          /* the answer need not be the largest: effort is bounded */
    job_opts options[2]; /* of two jobs: the best, and the one that is looked at */
    job job[2];
    bool own[2]; /* data */
    int64_t value[2];
    int at;                         /* the best */
    plan_point points[PLAN_POINTS]; /* by value */
    int n, planned, turn;
    uint64_t effort, ns;
    char why[400];         /* the last value was refused */
    plan_point best, next; /* next.value 0: it is the most of all */
    plan_point curve[PLAN_CURVE];
    int n_curve;
} plan_trade;

/* --overhead, --curve and --over: whether any is given, and what goes with them. */
bool plan_trades(const plan_opts *opts);
int plan_trade_check(plan_opts *opts);
/* Search the largest value; the job of the answer, job[at], stays planned. CLI_GO, or a status
 * with a message. `from` is loaded. Closed by the caller in any case. */
int plan_trade_find(const plan_opts *opts, job *from, plan_trade *out);
void plan_trade_close(plan_trade *trade);
void plan_trade_put(sw_json *json, const plan_trade *trade);
void plan_trade_print(const plan_trade *trade);
/* job_open; one that is refused for its budget gets a message of what would fit,
 * where a search is quick. */
int plan_trade_open(job *j);

/* With es: what batches are multiples of; the strategy whose runs have such a batch, in
 * pairs. */
int64_t plan_es_unit(const plan_opts *opts);
sw_es_opts plan_es_opts(const plan_opts *opts, int64_t batch);

/* The peak of a process of the plan: the total, and the code, stacks and heap of this one now.
 * 0 where the system does not say. */
size_t plan_process_bytes(const sw_plan_info *plan);

/* Plan `stepwell sample` of the folder that --model names; the exit status. */
int plan_sample(plan_opts *opts, const cli_command *command);

/* --explain-peak of a planned job: what lives at its peak, and what makes it less; into the
 * open object, or as text (json NULL). CLI_GO or an exit status. */
int plan_peak_tell(const plan_opts *opts, job *j, sw_json *json);

/* Draw the program that speaks for a planned job into the file of --svg, or the curve. CLI_GO
 * or an exit status. */
int plan_svg_write(job *j, const char *path);
int plan_svg_curve(const plan_trade *trade, const char *path);
