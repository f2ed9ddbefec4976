/* One object of each kind, made when it is needed, and the call that a callback makes. */
#ifndef SW_TESTS_FIXTURE_H
#define SW_TESTS_FIXTURE_H

#include "runtime/stepwell.h"
#include <stdbool.h>

typedef struct fixture fixture;

/* A function that takes objects: which, which of them as not const, whether it destroys. */
typedef struct {
    const char *name;
    uint32_t of, changes;
    int ends;
    int (*call)(fixture *f); /* its status; -1: it has none */
} row;

/* A call with a parameter that is NULL, or a handle or struct of zeros. */
typedef struct {
    const char *name, *parameter;
    uint32_t of;
    int allowed;
    int (*call)(fixture *f); /* its status; -1: it has none */
} null_row;

struct fixture {
    sw_budget *budget;
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_ctx *ctx; /* in step functions */
    sw_profile *profile;
    sw_dataset *dataset;
    sw_loader *loader;
    sw_checkpoint *checkpoint;
    sw_members *members;
    sw_feed *feed;
    sw_space *space;
    sw_pbt *pbt;
    sw_es *es;
    sw_zo *zo;
    sw_ranks *ranks; /* NULL: the process is alone */
    sw_genome *genome;
    sw_search_space *search_space;
    sw_net *net;
    sw_evolution *evolution;
    sw_linear layer;
    sw_param param, shape_param;
    sw_knob knob, shape_knob;
    sw_member member;
    sw_value value;
    sw_model *shape; /* of members */
    sw_dataset *train;
    sw_array array, inputs[2];
    sw_run_args run_args;
    sw_members_args members_args;
    size_t bytes; /* of the parameter */
    char folder[200], path[256];
    float x[16], label[8];
    int threads;      /* of the exec */
    const char *type; /* of the callback that calls */
    const row *row;   /* what the callback calls, once; NULL: it only answers */
    int answer;       /* of callbacks with a status */
    bool called;
    int status;     /* of that call */
    bool failed;    /* it recorded a failure */
    char text[512]; /* that */
};

/* In a callback. */
sw_status fixture_call(fixture *f);
/* Make what `of` names (bits of the table), and what that needs. */
bool fixture_make(fixture *f, uint32_t of);
void fixture_end(fixture *f);
/* 64 KiB of zeros, except the first word: `size`. */
void *room(size_t size);
/* Nothing was written after the first words of the rooms that were last asked for. */
bool rooms_are_empty(void);

/* A callback of the library, and a call that has it called. */
typedef struct {
    const char *name, *type; /* as in the table of types */
    uint32_t needs;
    uint32_t uses, keeps; /* while it runs: only looked at; not destroyed */
    bool closed;          /* nothing but budgets and data sets is destroyed */
    bool answers;         /* with a status that the call passes on */
    int (*run)(fixture *f);
} scene;
extern const scene scenes[];
extern const size_t n_scenes;

#endif
