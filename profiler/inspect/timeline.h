/* A recorded run as data: who lived where from when to when, in which op, phase, layer and
 * step.
 *
 * A program is one plan, or one trace of immediate mode: its ops in run order, and its values
 * with the ops they are born and die at. A run is one pass over a program. The arena's own log,
 * event by event (`log`), stands beside it where it was recorded; elsewhere a run is what its
 * program says. Runs of other tools have one program whose positions are their events.
 *
 * Everything is owned by the timeline and lives until sw_timeline_free; strings are clean of
 * control characters, valid UTF-8, never NULL. */
#pragma once

#include "alloc/base/base.h"
#include "profiler/record/prof.h"

#define SW_TL_NONE UINT32_MAX
#define SW_TL_AFTER UINT64_MAX

typedef struct {
    const char *name;  /* with its layer: "conv1/conv2d" */
    const char *layer; /* "", or scopes from the outside: "block1/conv1" */
    uint8_t phase;     /* 0 to 4 */
} sw_tl_op;

typedef struct {
    uint64_t key;    /* exec << 32 | number */
    bool immediate;  /* a trace; nothing was predicted */
    const char *run; /* "train", "eval" */
    int64_t batch;   /* -1: none */
    uint64_t model_bytes, arena_bytes, data_bytes, total_bytes, lower_bound_bytes;
    bool has_parts; /* it says what of the peak is rounding up, slots and empty lanes: */
    uint64_t model_padding_bytes, slot_bytes, padding_bytes, lanes_bytes;
    uint64_t program_host_bytes;         /* 0: not said */
    sw_prof_phase phase[SW_PROF_PHASES]; /* predicted; ns is 0 */
    uint64_t peak_bytes;                 /* 0: sw_timeline_finish finds it and peak_op */
    uint32_t peak_op;                    /* index of the op that runs at the peak */
    sw_tl_op *ops;
    uint32_t n_ops;
    sw_tensor *values; /* model, then inputs, then by birth; else as they were given */
    uint32_t n_values, n_model, n_input;
    const uint32_t *by_death, *by_id; /* indices, made by sw_timeline_finish */
    bool ran, measured;               /* the file has a run of it; one that was measured */
    uint64_t measured_bytes;          /* the highest of those */
} sw_tl_program;

/* How exact times are. */
typedef enum {
    SW_TL_UNTIMED, /* no clock: a microsecond for each op */
    SW_TL_PHASES,  /* phases were clocked, ops share them evenly */
    SW_TL_OPS      /* every op was clocked */
} sw_tl_clock;

/* A training step in the trace of another tool. */
typedef struct {
    uint32_t from, to;                                  /* positions, half-open */
    uint64_t first, last;                               /* events, in the file's list */
    uint64_t peak[SW_PROF_PHASES], end[SW_PROF_PHASES]; /* live bytes; 0: no such phase */
} sw_tl_step;

/* The arena's log, as profiler/record/record.h has it. */
struct sw_record;

typedef struct {
    uint32_t program; /* index */
    uint64_t step;    /* from 1 */
    uint64_t micro;
    bool has_loss;
    double loss;
    uint64_t at_ns, ns; /* begin, since the profile began (SW_TL_AFTER: after the one before) */
    sw_tl_clock clock;
    sw_prof_phase phase[SW_PROF_PHASES]; /* measured */
    uint64_t peak_bytes;
    const uint64_t *op_ns; /* n_ops of its program, with SW_TL_OPS; else NULL */
    const struct sw_record *log;
    size_t n_log; /* 0: not recorded */
    uint64_t dropped;
} sw_tl_run;

typedef struct sw_timeline {
    const char *tool; /* "stepwell", "pytorch" */
    const char *path, *model, *device, *data, *created, *command;
    const char *normalise; /* of the pixels of images; "": not said */
    const char *scores;    /* of members: "validation accuracy"; "": not said */
    const char *ended;     /* "done", "interrupted", "failed"; "": the file has no end */
    const char *why;       /* of a failure, or "" */
    const char *damaged;   /* what ended the reading, with file and line; NULL: nothing */
    int64_t batch;         /* -1: none */
    bool no_seed;          /* the program gave none */
    uint64_t seed;
    bool ran, measured;      /* a record of a run; the peak of one is known, */
    uint64_t measured_bytes; /* and this is the highest, with a record in the file or not */
    sw_tl_program *programs;
    uint32_t n_programs;
    sw_tl_run *runs;
    size_t n_runs;
    const sw_tl_step *steps; /* of a trace; with `passes` forward and backward alone */
    uint32_t n_steps;
    bool passes;
    uint64_t skipped_runs; /* in the file, but not requested or over the limit */
    void *blocks;          /* what owns it all */
} sw_timeline;

SW_MUST_USE sw_status sw_timeline_new(sw_timeline **out);
void sw_timeline_free(sw_timeline *t); /* NULL is fine */
/* Room that lives as long as the timeline, zeroed; out: of a pointer of any type. */
SW_MUST_USE sw_status sw_timeline_alloc(sw_timeline *t, void *out, size_t n, size_t size);
/* The same for a list that grows to at least n elements; what it had is kept. */
SW_MUST_USE sw_status sw_timeline_reserve(sw_timeline *t, void *list, uint32_t *cap, uint32_t n,
                                          size_t size);
/* Kept once however often it comes; cleaned. NULL is "". */
SW_MUST_USE sw_status sw_timeline_string(sw_timeline *t, const char **out, const char *text);
/* A program or run more; the pointer is valid until the next one. */
SW_MUST_USE sw_status sw_timeline_add_program(sw_timeline *t, sw_tl_program **out);
SW_MUST_USE sw_status sw_timeline_add_run(sw_timeline *t, sw_tl_run **out);
/* After all was added: orders values, sets runs after one another in time, and checks that
 * aliases, lives, ops, addresses and logs are in range (SW_FORMAT). */
SW_MUST_USE sw_status sw_timeline_finish(sw_timeline *t);
/* The same for one program, for readers that look at it before they go on. */
SW_MUST_USE sw_status sw_timeline_finish_program(sw_timeline *t, sw_tl_program *p);

/* A model may name its layers without the scopes that they are called in: what it holds for
 * "up", and the update of it, move to "block/up", where that is the only scope of the name and
 * no op of the forward pass runs in an "up" without a scope. For a program whose ops and values
 * are there. */
SW_MUST_USE sw_status timeline_assign_layers(sw_timeline *t, sw_tl_program *program);

/* Ours; what other tools wrote has no steps and no process. */
bool sw_timeline_is_ours(const sw_timeline *t);
/* The peak of a program: as measured, else as predicted. */
uint64_t sw_timeline_height(const sw_tl_program *p);
/* The program that holds the peak of the run, whatever its mode: the highest of those that ran.
 * One without a run in the file ran in another part of it, or between the steps that are
 * recorded, where it is no higher than what was measured. Where none ran: of all. Of equal
 * ones: that which ran here, is predicted to be higher, trains, is the first. NULL: none. */
const sw_tl_program *sw_timeline_peak(const sw_timeline *t);
/* The index of the value with that number, or none. */
uint32_t sw_timeline_value(const sw_tl_program *p, uint32_t id);
/* Bytes (with padding) that live while op `position` runs, of those values that `of` takes
 * (NULL: all). The curve in one pass: out has n_ops places. */
void sw_timeline_curve(const sw_tl_program *p, bool (*of)(void *context, const sw_tensor *v),
                       void *context, uint64_t *out);

typedef enum {
    SW_TL_STEP_BEGIN,
    SW_TL_PHASE_BEGIN,
    SW_TL_LAYER_BEGIN, /* one for each scope; they nest */
    SW_TL_OP_BEGIN,
    SW_TL_ALLOC, /* a value that has bytes of its own */
    SW_TL_REUSE, /* a value takes the place of another, in place */
    SW_TL_FREE,
    SW_TL_OP_END,
    SW_TL_LAYER_END,
    SW_TL_PHASE_END,
    SW_TL_STEP_END
} sw_tl_kind;

typedef struct {
    sw_tl_kind kind;
    uint64_t ns; /* since the profile began; never goes back */
    const sw_tl_program *program;
    const sw_tl_run *run; /* NULL before the first run */
    uint32_t index;       /* phase, op or value (of its program); LAYER: SW_TL_NONE */
    const char *name;     /* of the step ("step 3"), phase, scope, op or value; for this call */
    uint64_t address;     /* ALLOC, REUSE, FREE: segment base plus offset */
    uint64_t bytes;       /* of it, with padding */
    uint64_t live;        /* bytes that live now, this event included */
} sw_tl_event;

/* Addresses are made: (segment + 1) << 40, so that files do not depend on the machine. A model
 * is alive from before the first run to the end, or to a run whose program has another
 * one; inputs from the step's begin to its end. Begin and end nest perfectly; an op's births
 * come after its begin, its deaths before its end; what lives at a step's end dies there
 * in the reverse order of birth. Stops at the first status that is not SW_OK and returns it. */
SW_MUST_USE sw_status sw_timeline_walk(const sw_timeline *t,
                                       sw_status (*take)(void *context, const sw_tl_event *e),
                                       void *context);
/* "activation" to "gradient": the roles of the values, sorted by name, at most `room`. */
uint32_t sw_timeline_roles(const sw_timeline *t, const char **out, uint32_t capacity);
