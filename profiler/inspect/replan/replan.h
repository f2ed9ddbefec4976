/* The bytes that a PyTorch run would need, from its own memory snapshot: what its caching
 * allocator reserved, why that is more than what was asked for, and how low a plan is. */
#pragma once

#include "profiler/inspect/replan/trace.h"
#include "profiler/inspect/report/report.h"

/* The allocator's bytes at one moment. reserved is the sum of requested and of all below it but
 * pending. Free memory that could not serve the latest request counts where it is barred first:
 * by the pool, by the stream, by the class of sizes; before the first request nothing is
 * barred. */
typedef struct {
    uint64_t reserved;
    uint64_t requested;
    uint64_t pending;       /* of requested: freed, and waited for by other streams */
    uint64_t rounding;      /* requests were rounded up */
    uint64_t unsplit;       /* rests of blocks that were too small to become free blocks */
    uint64_t unsure;        /* at most so much of the free memory is such rests too, of blocks
                               from before the trace */
    uint64_t split;         /* free blocks of segments that are in use */
    uint64_t cached;        /* free segments */
    uint64_t other_pools;   /* free memory of private pools */
    uint64_t other_streams; /* free memory of other streams */
    uint64_t other_sizes;   /* free memory for requests up to 1 MiB, or above */
} replay_census;

typedef struct {
    uint32_t event; /* index; the moment is after it */
    bool known;     /* out: the census is */
    replay_census census;
    uint64_t *lost_of; /* by stack: bytes of rounding and of rests, n_stacks of them; NULL */
} replay_moment;

typedef struct {
    uint32_t n_checked; /* requests that lie where the rules put them */
    uint32_t from;      /* index of the first event that does not follow; TRACE_NONE: all do */
    char why[240];
} replay_proof;

/* Moments come by event; of a trace without events they are its end. Ends at the first event
 * that does not follow. Requests that do not say their pool get that of the block that they
 * took. */
SW_MUST_USE sw_status replay_run(snapshot_trace *t, replay_moment *moments, uint32_t n,
                                 replay_proof *out);

/* The bytes that a PyTorch run would need, from its own memory snapshot: what its caching
 * allocator reserved, why that is more than what was asked for, the least that any allocator
 * needs, and how low a plan is that knows all lifetimes. One device at a time. */

/* Where a trace repeats: the steps of a training. */
typedef struct {
    uint32_t steps;    /* whole ones; 0: none were found */
    bool passes;       /* they are forward and backward: frames show no optimizer */
    bool by_frames;    /* else by requests that repeat: at least 3, and alike */
    uint32_t requests; /* of a step: allocations that begin in it */
    uint32_t first;    /* position where the first of them begins */
    uint32_t from,
        to; /* positions of one of them, half-open; it begins where the least lives */
} trace_period;

/* ---- changes ----------------------------------------------------------------------------- */

/* Bytes that PyTorch's allocator would reserve with expandable_segments, on a device that is
 * never full and with a cache that is never emptied: simulated, with nothing to compare it
 * with. */
SW_MUST_USE sw_status expandable_reserved(const snapshot_trace *t, const trace_lives *l,
                                          uint64_t *out);

/* Changes to a program that would help, tried on its trace. Each figure is a peak less another
 * one that was computed, never a sum of what looks superfluous. */
#define REPLAN_HELPS 5 /* lines */

typedef enum {
    HELP_ZERO_GRAD,
    HELP_ATTENTION,
    HELP_SOFTMAX,
    HELP_ACTIVATION,
    HELP_NORM,
    HELP_LOSS,
    HELP_FOREACH,
    HELP_EXPANDABLE,
    REPLAN_CHANGES
} replan_change;
typedef struct {
    const char *name, *text; /* "zero_grad"; what to do, as a sentence */
} replan_change_words;
extern const replan_change_words replan_changes[REPLAN_CHANGES];

typedef struct {
    replan_change change;
    uint64_t bytes; /* that the peak is lower: of requests; with expandable segments of what is
                       reserved */
    uint64_t held;  /* of the tensors that go, or live shorter */
    uint32_t n;     /* of those */
    uint32_t stack; /* of the first of them; TRACE_NONE: none */
} replan_help;

/* The largest first, those alone that are worth a 256th of the peak. `reserved`, and
 * `expandable`, what would be with expandable segments: 0 where not known. */
SW_MUST_USE sw_status replan_help_find(replan_help out[REPLAN_HELPS], uint32_t *n,
                                       const snapshot_trace *t, const trace_lives *l,
                                       uint64_t reserved, uint64_t expandable);

/* ---- all of it --------------------------------------------------------------------------- */

#define REPLAN_HOLDERS 5

/* Bytes that one stack holds of one role where the most lives, and the rest without them. */
typedef struct {
    uint32_t stack;
    const char *role;
    uint64_t bytes;       /* at the peak */
    uint32_t n;           /* allocations, there */
    lives_height without; /* the bounds alone */
} replan_holder;

/* Bytes that blocks took above the requests of one stack, at the peak of reserved bytes. */
typedef struct {
    uint32_t stack;
    uint64_t bytes; /* rounding and rests */
} replan_loser;

/* A rule's verdict on the bytes that live at the peak. */
typedef struct {
    const char *role;
    uint64_t bytes;
    uint32_t n;
    uint8_t rule;
} replan_role;
#define REPLAN_ROLES 32

typedef struct {
    bool there;
    uint32_t event;                        /* index */
    uint64_t asked;                        /* rounded, as the allocator asked */
    uint64_t device_free;                  /* that the device still had */
    uint64_t reserved;                     /* then */
    uint64_t requested;                    /* live then */
    replay_moment moment;                  /* what was lost then, where it is known */
    lives_height with;                     /* a plan of all up to there and the request */
    bool fits;                             /* such a plan is at most reserved + device_free */
    replan_holder holders[REPLAN_HOLDERS]; /* of what lived then, without `without` */
    uint32_t n_holders;
} replan_oom;

typedef struct {
    snapshot_trace trace;
    trace_lives lives;
    replay_proof proof;        /* of a device's trace */
    bool replayed;             /* it is of a device, with segments */
    uint64_t reserved;         /* the most; of a CPU the span of all addresses */
    uint32_t reserved_event;   /* index of the request that made it grow to that, or TRACE_NONE:
                                  it was so before the trace */
    replay_moment at_reserved; /* after that */
    lives_height whole;        /* of the whole trace */
    trace_period period;
    bool steady;               /* one of several steps was planned: */
    lives_height step;         /* of it: from what lives before it to what lives after */
    uint64_t step_kept;        /* what lives all the step */
    uint64_t step_reserved;    /* the most that was reserved up to its end */
    uint64_t before_requested; /* the most that lived before it: steps like it, and what
                                  the warm-up took on top */
    bool streams;              /* there is more than one stream: `merged` is filled */
    lives_height merged;       /* the plan with one arena for all streams */
    uint64_t expandable; /* that would be reserved with expandable segments; 0: unknown, the
                            run had them, or most was reserved before the trace */
    replan_help help[REPLAN_HELPS]; /* what would help, the most first */
    uint32_t n_help;
    replan_role at_peak[REPLAN_ROLES]; /* the largest first */
    uint32_t n_roles;
    replan_holder holders[REPLAN_HOLDERS]; /* the largest first */
    uint32_t n_holders;
    replan_loser losers[REPLAN_HOLDERS]; /* the same; none where the causes are not known */
    uint32_t n_losers;
    replan_oom oom; /* the last one of the trace */
} replan;

/* Of a trace that snapshot_trace_read made, which is the replan's from then on, also after a
 * failure: free it then too. `stop` is asked now and then, as a plan's is; NULL: never.
 * SW_UNSUPPORTED is a trace without events. */
SW_MUST_USE sw_status replan_make(replan *r, snapshot_trace *trace, bool (*stop)(void *context),
                                  void *context);
void replan_free(replan *r);

/* Who asked, in words: "aten::addmm in net.py:12 forward"; valid until the next call. */
const char *replan_who(const snapshot_trace *t, uint32_t stack);
void replan_print_text(const replan *r, const report_style *style);
/* The members of an open object. */
void replan_put_json(sw_json *j, const replan *r);
/* The plan of the whole trace and of the steady step: arenas, and for each allocation its
 * number among the allocations of the trace, event, arena, offset, bytes and lifetime. */
void replan_put_offsets(sw_json *j, const replan *r);
