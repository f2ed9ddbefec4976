/* Which candidate of a search is trained next, and how far: ask, train, tell.
 *
 * A training goes through rungs of 1, eta, eta^2, ... units, the last of which is a whole
 * training. A candidate that is among the best 1 / eta of those that reached its rung goes on
 * (ASHA, Li et al. 2020); otherwise a new one begins, as a draw or as a child. When the units
 * are used up but for those of the looks, the best few that were trained to the end are trained
 * once more, from scratch and with another seed, and the best mean is the answer.
 *
 * Up to `workers` candidates are in training at one time; of the first draws and of the looks,
 * on whose scores no other of them depends, SWI_SEARCH_WIDE at least. Who ends first follows
 * from planned operations and not from clocks: so a search is a function of its options, its
 * seed and the scores, for any number of threads. */
#pragma once

#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_SEARCH_RUNGS 6
#define SWI_SEARCH_NONE UINT32_MAX
#define SWI_SEARCH_WIDE 4

typedef struct {
    sw_search_kind kind;
    uint32_t rungs, eta;                 /* 1 to SWI_SEARCH_RUNGS; 2 to 16 */
    uint32_t start, parents, population; /* start: with rungs a third of all units at most */
    double fresh;                        /* probability that a new one is drawn after all */
    uint32_t looks;                      /* second looks */
    uint32_t workers;
    uint64_t trainings; /* whole ones that all of it may take, looks too */
    uint64_t seed;
    uint32_t (*parent)(void *user, uint64_t seed); /* in the place of `kind`; NULL: none */
    void *parent_user;
} swi_search_opts;

typedef enum {
    SWI_JOB_NONE,  /* tell first; or, with nothing in training, the search has ended */
    SWI_JOB_DRAW,  /* a new candidate `id` */
    SWI_JOB_CHILD, /* the same, of candidate `of` */
    SWI_JOB_GO_ON, /* `id` goes on from the rung before */
    SWI_JOB_LOOK   /* a new candidate `id` with the genome of `of` and another seed */
} swi_job_what;
typedef struct {
    swi_job_what what;
    uint32_t id, of; /* of: SWI_SEARCH_NONE where there is none */
    uint32_t rung;   /* that it is trained to */
    uint64_t units;  /* of this training */
} swi_job;

/* Candidates are numbered as they begin. */
typedef struct {
    uint32_t of;
    int32_t rung; /* that it has reached; -1: none */
    bool look, running, invalid;
    bool stays;                     /* its state is lost: it does not go on */
    double score[SWI_SEARCH_RUNGS]; /* at each rung that it has reached */
    double sum;                     /* of scores at the last rung, its looks' too */
    uint32_t n;                     /* of these */
    double ends;                    /* planned operations since the search began */
} swi_try;

typedef struct {
    swi_search_opts opts;
    swi_try *tries;
    uint32_t n, cap, running;
    uint32_t *order, cap_order; /* room for as many as there are tries */
    uint64_t left;              /* units, without those of the looks */
    uint32_t looks;             /* that were not asked for */
    double now;                 /* planned operations */
} swi_search;

/* SW_INVALID names the option. */
SW_MUST_USE sw_status swi_search_begin(swi_search *search, const swi_search_opts *opts,
                                       const char *call);
void swi_search_end(swi_search *search);
/* The next job, which runs from now on; swi_search_plan must follow. */
SW_MUST_USE sw_status swi_search_ask(swi_search *search, swi_job *job);
/* Operations that a unit of the job takes. */
void swi_search_plan(swi_search *search, const swi_job *job, double operations);
/* Of those in training, the one that ends next; SWI_SEARCH_NONE: there is none. */
uint32_t swi_search_next(const swi_search *search);
/* One has ended: the next one, or where others train, any. NaN: it is invalid, and is never
 * better than another. */
void swi_search_tell(swi_search *search, uint32_t id, double score);
/* The best that there is: by the mean of its looks, else by the score at the highest rung. */
uint32_t swi_search_answer(const swi_search *search);
