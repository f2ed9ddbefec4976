/* The profile: records of a training run, written as JSON Lines (PROFILE.md has the format).
 *
 * Everything is formatted into a buffer taken once, so that a step record calls no heap. The
 * buffer is written when it is full, after a plan, and so early that no record waits longer
 * than 100 ms for the file: by the recording thread while steps go on, by a thread of the
 * profile's own where they do not. Several threads may record. A profile belongs to the process
 * that made it: a fork has the file, but not the thread.
 *
 * The first error of writing stays: later records are dropped, and flush and destroy return it.
 * Recording itself therefore never fails a step. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

#define SW_PROF_PHASES 5
#define SW_PROF_NONE UINT32_MAX
#define SW_PROF_FLUSH_NS 100000000u   /* no record waits longer */
#define SW_PROF_PROCESS_NS 100000000u /* the system is asked no more often */

#define SW_TENSOR_NONE UINT32_MAX

/* The start that an offset counts from. */
typedef enum { SW_SEGMENT_STEP, SW_SEGMENT_MODEL, SW_SEGMENT_INPUT, SW_SEGMENTS } sw_segment;

/* One storage. Bytes without padding. */
typedef struct {
    uint32_t id; /* its number in the program; events name it so */
    /* The tensor whose place it takes, which has the bytes and outlives it; or none. In a file
     * its id; in a timeline, after sw_timeline_finish, its index. */
    uint32_t alias;
    const char *name, *layer, *op, *role, *phase;
    sw_segment segment;
    uint64_t bytes, padding, offset; /* offset within its segment */
    uint32_t birth, death;           /* op positions, both included; n_ops: to the end */
    const char *dtype;               /* of its elements; NULL or "": not known, or bytes */
} sw_tensor;

/* "step", "model" or "input". */
const char *sw_segment_name(sw_segment segment);

/* ---- the profile ------------------------------------------------------------------------- */

typedef struct sw_profile sw_profile;

/* "data" to "step". */
const char *sw_prof_phase_name(int phase);

/* Strings may be NULL; all are written at once and not kept. */
typedef struct {
    const char *path; /* NULL: write no file, and start no thread */
    const char *model, *device, *data, *command, *version;
    const char *normalise; /* NULL or "": not said */
    int64_t batch;
    uint64_t seed;
    uint32_t event_room; /* of each exec's log; 0: no events are recorded */
    uint64_t every;      /* records of the first step and of each such one; 0: of all */
    uint64_t steps;      /* that the run will have; 0: not known */
    size_t budget_bytes; /* 0: none */
    uint64_t members;    /* of a population; 0: it is a run of one model */
    const char *scores;  /* of members: "validation accuracy"; NULL: not said */
} sw_prof_header;

SW_MUST_USE sw_status sw_prof_create(sw_profile **out, const sw_prof_header *header);
/* The number of an exec that begins to record: 0, 1, 2 and so on. Its program numbers are its
 * own. */
uint32_t sw_prof_join(sw_profile *profile);
/* As the header said, which execs heed; what clocks in the file count from. A profile without a
 * file wants no events. */
/* SW_BUSY in a process that was forked off the one that made it: file and thread are there. */
sw_status sw_prof_check_fork(const sw_profile *profile);
uint32_t sw_prof_event_capacity(const sw_profile *profile);
uint64_t sw_prof_every(const sw_profile *profile);
uint64_t sw_prof_start_ns(const sw_profile *profile);
SW_MUST_USE sw_status sw_prof_flush(sw_profile *profile);
/* Flush, and have the file synced. Any thread may call it while others record, and none of them
 * waits for it. A sync that failed fails no later record. */
SW_MUST_USE sw_status sw_prof_sync(sw_profile *profile);
/* The status in the end record of the run: "done" until this is called, "interrupted" or
 * "failed", and why (or NULL). Both are copied, `why` up to 511 bytes. */
void sw_prof_end_status(sw_profile *profile, const char *status, const char *why);
/* Writes the end record, closes, frees; the status says whether all records reached the file.
 * NULL is fine. */
SW_MUST_USE sw_status sw_prof_destroy(sw_profile *profile);

typedef struct {
    size_t peak_bytes, end_bytes;
    uint64_t ns;
} sw_prof_phase;

/* A planned program, or what a run in immediate mode turned out to do. `exec`, as sw_prof_join
 * gave it, and `program` name it together; traces are numbered for themselves. */
typedef struct {
    uint32_t exec;
    uint32_t program;
    bool trace;      /* of the bytes: model, arena and slot; no phases, no peak */
    const char *run; /* "train" or "eval" */
    int64_t batch;   /* of the first input; -1: it has none */
    size_t model_bytes, arena_bytes, data_bytes, slot_bytes, total_bytes, lower_bound_bytes;
    size_t program_host_bytes; /* of the heap, beside the total: the program's records */
    size_t padding_bytes;      /* of what the arena holds at the peak: rounded up to SW_ALIGN */
    size_t lanes_bytes;        /* of that too: lanes of blocks of images that hold none */
    size_t model_padding_bytes;
    size_t immediate_bytes, peak_bytes;
    uint32_t n_ops, peak_position;
    const char *peak_op;
    sw_prof_phase phase[SW_PROF_PHASES];
} sw_prof_plan;

/* A plan record is begun, gets the names of its ops in run order and of its layers, the layer
 * (by the order of their names) and the phase (as a digit) of each op, then its values, and is
 * ended; no other record can come between. */
void sw_prof_plan_begin(sw_profile *profile, const sw_prof_plan *plan);
void sw_prof_plan_name(sw_profile *profile, const char *name);
void sw_prof_plan_layers(sw_profile *profile); /* after the last op */
/* After the last layer; n ops. */
void sw_prof_plan_values(sw_profile *profile, const uint32_t *op_layer, const char *op_phase,
                         uint32_t n);
void sw_prof_plan_value(sw_profile *profile, const sw_tensor *value);
/* False: nothing is written any more. */
bool sw_prof_plan_end(sw_profile *profile);

/* The event log of a run. */
struct sw_record;
typedef struct {
    const struct sw_record *log;
    size_t n;
    uint64_t dropped; /* what the log had no room for */
} sw_prof_log;

/* One measured run. */
typedef struct {
    uint32_t exec;
    uint32_t program; /* SW_PROF_NONE: none */
    uint32_t trace;   /* of a run without a program; SW_PROF_NONE: it is in no record */
    uint64_t step;    /* counted from 1 */
    uint32_t micro;   /* run of the step */
    uint64_t at_ns;   /* clock at its beginning */
    bool sampled_out; /* is counted and not written, unless it turns out to be the last */
    const char *run;  /* "train" or "eval" */
    const char *mode; /* "planned" or "immediate" */
    const char *measured_by;
    const double *loss; /* NULL: none */
    sw_prof_phase phase[SW_PROF_PHASES];
    size_t peak_bytes, arena_bytes, model_bytes;
    uint64_t allocations, ns;
    bool warm;
    const uint64_t *op_ns; /* n_ops of them, or NULL */
    uint32_t n_ops;
    const sw_prof_log *events; /* written before it; NULL: none */
} sw_prof_step;
void sw_prof_step_record(sw_profile *profile, const sw_prof_step *step);

/* One step under witnesses. */
typedef struct {
    uint32_t exec;
    uint32_t program;
    uint64_t step;
    sw_prof_phase phase[SW_PROF_PHASES];
    size_t peak_bytes;
    const char *measured_by;
    const char *const
        *names; /* n of them; verdict[i]: 1 agrees, 0 does not, -1 was not asked */
    const int *witness_results;
    int n;
    uint32_t faults;
    const char *first_fault;
    uint64_t ns;
} sw_prof_witness;
void sw_prof_witness_record(sw_profile *profile, const sw_prof_witness *witness);

/* A run over several processes: this one, when it begins, and what it did when it ends. Figures
 * are written at the end. */
typedef struct {
    bool ends;
    int rank, ranks;
    const char *host;
    uint64_t run; /* the same for all of them */
    uint64_t sent_bytes, waited_ns;
} sw_prof_rank;
void sw_prof_rank_record(sw_profile *profile, const sw_prof_rank *rank);

/* ---- populations ------------------------------------------------------------------------- */

/* Shared by members: after the plans of its programs. */
typedef struct {
    const char *name;
    size_t member_bytes;      /* of one, its padding included */
    size_t batch_bytes;       /* that a lane has for a batch of a feed; 0: no feed */
    uint32_t exec;            /* of the programs */
    const uint32_t *programs; /* n_programs of them */
    uint32_t n_programs;
} sw_prof_shape;
/* A shape record is begun, gets the tensors of a member's range as values of a plan, and is
 * ended by sw_prof_plan_end. The number of the shape: 0, 1, 2 and so on. */
uint32_t sw_prof_shape_begin(sw_profile *profile, const sw_prof_shape *shape);

/* A member as it is in a turn; a record of the turn follows after those of all members. Texts
 * and values are not kept. NaN is null. */
typedef struct {
    uint64_t turn;   /* from 1 */
    uint32_t member; /* from 0 */
    uint32_t shape;
    uint64_t step, seed;
    const char *place;  /* "resident": its range is in the budget; "waiting": outside of it;
                           "none": it has no state yet */
    size_t range_bytes; /* in the budget; 0: it is not resident */
    size_t waiting_bytes, kept_bytes; /* outside of it: its state; a copy for who may copy it */
    double score, loss, train_loss;
    int64_t donor;            /* whose copy it became before this turn; -1: it went on */
    const char *status;       /* "runs", "ended" or "failed" */
    const char *const *names; /* of n_values hyper-parameters */
    const double *values;
    uint32_t n_values;
} sw_prof_member;
void sw_prof_member_record(sw_profile *profile, const sw_prof_member *member);

/* Bytes of all of it at the end of a turn. */
typedef struct {
    uint64_t turn, step; /* step: the most that a member has made */
    uint32_t members, lanes;
    size_t step_bytes, batch_bytes; /* of all lanes */
    size_t range_bytes, live_bytes; /* ranges, with those that are free; of members alone */
    size_t predicted_bytes;         /* the most that planning allows for the turn */
    size_t outside_bytes;           /* states that wait or are kept */
} sw_prof_turn;
void sw_prof_turn_record(sw_profile *profile, const sw_prof_turn *turn);
