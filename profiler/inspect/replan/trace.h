/* One device's part of a PyTorch memory snapshot as flat arrays, the state before it, the
 * lifetimes of its allocations and their roles. */
#pragma once

#include "alloc/placement/placement.h"
#include "profiler/inspect/replan/caching.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/inspect/timeline.h"
#include <string.h>

typedef enum {
    TRACE_ALLOC,
    TRACE_FREE_REQUESTED,
    TRACE_FREE_COMPLETED,
    TRACE_SEGMENT_ALLOC,
    TRACE_SEGMENT_FREE,
    TRACE_SEGMENT_MAP,
    TRACE_SEGMENT_UNMAP,
    TRACE_OOM
} trace_action;

static inline bool trace_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

#define TRACE_NO_POOL UINT64_MAX /* the event does not say its pool */
#define TRACE_NONE UINT32_MAX

typedef struct {
    uint64_t address; /* OOM: bytes that the device had free */
    uint64_t bytes;   /* as they were requested; of segments, as they were taken */
    uint64_t stream, pool;
    uint32_t us;     /* after the first event, at most 71 minutes; UINT32_MAX: later */
    uint32_t number; /* in the file's list */
    uint32_t stack;  /* index */
    uint8_t action;
    const char *note, *role; /* that the file says of the allocation; NULL: nothing */
} trace_event;

/* The address comes first here and in segments. */
typedef struct {
    uint64_t address, bytes, requested;
    uint32_t stack;
    bool active, pending;    /* pending: freed, and waited for */
    bool kept;               /* `bytes` is all that it took: it stands in the snapshot, or a
                                request of the trace lies where it ends */
    uint32_t freed;          /* index of the event that freed it; TRACE_NONE */
    const char *note, *role; /* as of an event */
} trace_block;

typedef struct {
    uint64_t address, bytes, stream, pool;
    uint32_t first, n; /* of the blocks, by address */
    bool small, expandable;
} trace_segment;

/* The state before a trace: the end of the snapshot with the trace undone. */

typedef struct {
    trace_segment *segments; /* by address, without blocks */
    uint32_t n_segments, cap_segments;
    trace_block *blocks; /* that were live, by address; `bytes` may be less than they took where
                            they are not `kept`: rests that were too small to split */
    uint32_t n_blocks, cap_blocks;
    uint64_t reserved;  /* of the segments */
    uint64_t requested; /* of the blocks */
    char why[160];      /* why the segments are not known; "": they are */
} trace_start;

typedef struct {
    const char *path;
    int64_t device;
    bool cuda;          /* of a device's allocator; else of PyTorch's profiler: no segments */
    bool said_settings; /* else the defaults stand in `settings` */
    caching_settings settings;
    trace_event *events;
    uint32_t n_events;
    trace_segment *segments;
    uint32_t n_segments;
    trace_block *blocks;
    uint32_t n_blocks;
    snapshot_frames *stacks; /* who asked, each once; the first one: no frames */
    uint32_t n_stacks;
    sw_timeline *texts;
    trace_start start;
    uint32_t cap_events, cap_segments, cap_blocks, cap_stacks;
} snapshot_trace;

/* It changes what lives: an allocation, or the end of one. */
bool trace_moves(const trace_event *e);
/* Devices that have segments or events, as bits of numbers below SNAPSHOT_DEVICES. */
SW_MUST_USE sw_status snapshot_trace_devices(const snapshot_file *f,
                                             uint64_t out[SNAPSHOT_DEVICES / 64]);
/* The trace of a device, with the state before it; the file may be closed then. Segment events
 * that do not say their pool have that of the segment in the snapshot. SW_FORMAT names the
 * event, segment or block. Free it too after a failure. */
SW_MUST_USE sw_status snapshot_trace_read(snapshot_trace *t, const snapshot_file *f,
                                          int64_t device);
void snapshot_trace_free(snapshot_trace *t);
/* Of n blocks or segments of `size`, by address: how many begin at or below an address. */
uint32_t trace_below(const void *of, uint32_t n, size_t size, uint64_t address);

/* The most that was reserved up to event `to`, and the index of the event that made it so,
 * or TRACE_NONE where it was so before the trace; what is reserved then, where `now` is not
 * NULL. */
uint64_t trace_start_most(const snapshot_trace *t, uint32_t to, uint32_t *where, uint64_t *now);

/* The allocations of a trace with their lifetimes and roles.
 *
 * Positions: 0 is before the trace, event i is i + 1. An allocation lives until its memory
 * can be used again, which is after the last use that other streams make of it. Allocations of
 * different streams or pools have arenas of their own: one stream may not write what another
 * still reads. */

typedef struct {
    uint64_t bytes, address;
    uint64_t offset;      /* in its arena, of the latest plan that has it */
    uint64_t step_offset; /* in the plan of the steady step; UINT64_MAX: it is not in it */
    uint32_t born, dead;  /* positions, half-open */
    uint32_t stack, arena;
    const char *note, *role; /* of the file; the role is that of a rule where it says none */
    uint8_t rule;            /* trace_rule */
} trace_life;

typedef struct {
    uint64_t stream, pool;
    uint64_t height, step_height; /* of the latest plan, and of the steady step's */
} trace_arena;

/* The roles of the allocations of a PyTorch run, and where its training steps lie: rules over
 * frames and lifetimes. PyTorch records neither. */

/* Which rule decided; of each but the first two a role follows. */
typedef enum {
    RULE_NONE,
    RULE_FILE,
    RULE_PARAMETER,
    RULE_STATE,
    RULE_GRADIENT,
    RULE_SAVED,
    RULE_TEMPORARY,
    RULE_WORKSPACE,
    RULE_INPUT,
    RULE_OUTPUT,
    RULE_ACTIVATION,
    RULE_WEIGHTS,
    TRACE_RULES
} trace_rule;
/* "made in a backward pass and kept after it"; the guide has the rules at length. */
const char *trace_rule_text(trace_rule rule);

/* Numbers of phases. As kinds data and loss are forward, and 0 is not known. */
enum { RUN_DATA, RUN_FORWARD, RUN_LOSS, RUN_BACKWARD, RUN_UPDATE };

typedef struct {
    int8_t *phase;    /* by position; -1: not known */
    uint32_t *region; /* by position: a new one where the kind changes */
    uint8_t *kind;    /* by position: RUN_FORWARD, RUN_BACKWARD, RUN_UPDATE; 0 */
    uint32_t n_positions;
    bool known;    /* frames show phases: a backward pass, an update, or that there is none */
    bool backward; /* there is a backward pass */
    bool passes;   /* the steps are passes: no optimizer was seen */
    sw_tl_step *steps; /* they end where the optimizer does, passes where backward does */
    uint32_t n_steps, cap_steps;
} trace_roles;

typedef struct {
    trace_life *all; /* in order of birth; those from before the trace first */
    uint32_t n, cap;
    uint32_t n_before;
    uint32_t n_positions;
    trace_arena *arenas;
    uint32_t n_arenas, cap_arenas;
    uint64_t align;
    trace_roles roles;
} trace_lives;

/* Lives of a trace whose events know their pools, as far as can be known, with their roles. A
 * free and an allocation at one address, one after the other in a profile of a CPU, are a write
 * in place: one life. Free them too after a failure. */
SW_MUST_USE sw_status trace_lives_find(trace_lives *l, const snapshot_trace *t);
void trace_lives_free(trace_lives *l);
/* One life more; positions grow to its death. */
SW_MUST_USE sw_status trace_lives_add(trace_lives *l, uint64_t stream, uint64_t pool,
                                      trace_life life);

/* Bytes that live after each position, n_positions + 1 of them; give it back by the second. */
SW_MUST_USE sw_status trace_lives_curve(const trace_lives *l, uint64_t **out);
void trace_lives_curve_free(const trace_lives *l, uint64_t *curve);

/* A choice of them: lives that meet the positions from..to, cut to them, but for those of
 * `left_role` that `left_out` (a stack; TRACE_NONE: none) asked for. */
typedef struct {
    uint32_t from, to, left_out;
    const char *left_role;
    bool merged; /* all streams share an arena; private pools never do */
} lives_choice;

typedef struct {
    uint32_t n;
    uint64_t bound;    /* the sum over the arenas of the most that lives at one time there */
    uint64_t height;   /* of the plan: the sum over the arenas */
    uint64_t proved;   /* no plan is lower */
    uint32_t position; /* where the most lives at one time, all arenas together */
    uint64_t most;     /* that much; at most `bound`. No allocator needs less, also one that
                          gives one stream the memory of another */
} lives_height;
