/* Groups of the values of a program, and lines of two numbers. */
#pragma once

#include "profiler/inspect/report/report.h"
#include "profiler/inspect/timeline.h"

#define REPORT_NO_LAYER "(no layer)" /* what the values of no layer are called */

typedef enum {
    PARTS_TREE,  /* layers, with the scopes around them: a scope has all that is in it */
    PARTS_LAYER, /* layers, each by itself */
    PARTS_ROLE,
    PARTS_TYPE, /* of their elements */
    PARTS_OP,   /* that makes them */
    PARTS_VALUE /* each by itself */
} parts_by;

/* Roles in the words that people ask in. */
typedef enum {
    PARTS_PARAMETERS, /* and buffers, states, knobs: what the model holds but for the next */
    PARTS_OPTIMIZER,
    PARTS_GRADIENTS,
    PARTS_ACTIVATIONS, /* saved for the backward pass or not, outputs, metrics */
    PARTS_WORKSPACE,   /* and temporaries */
    PARTS_DATA,        /* inputs and what is made of them */
    PARTS_OTHER,       /* roles of other tools */
    PARTS_KINDS
} parts_kind;

/* Bytes are with padding. */
typedef struct {
    const char *path, *name; /* whole, and without the scopes around it */
    uint32_t parent;         /* index; of a tree: 0 is the root, which has everything */
    uint32_t depth;          /* of the root 0 */
    bool outer;              /* has groups within it */
    uint64_t n_values, bytes;
    bool in_place; /* by value: it takes the place of another */
    uint64_t at_peak, kind[PARTS_KINDS];
    uint64_t own_peak;  /* the most that lives of it at one time */
    const char *own_op; /* while this op runs, first; NULL: there are no ops */
    uint64_t n_ops;     /* of a tree */
    int64_t run_peak;   /* the most that lives in all while one of them runs; -1: none */
    double share;       /* of what lives at the peak */
    uint64_t live;      /* while it is made */
    uint32_t again;     /* values of that name */
} parts_group;

typedef struct {
    parts_group *at;
    uint32_t n, cap;
    uint32_t *slots, n_slots; /* open addressing by path; index + 1 */
} parts;

/* Every value is in one group; the root is there for all. All of it belongs to the timeline.
 * `parts` begins as zeros. */
SW_MUST_USE sw_status parts_make(parts *out, sw_timeline *t, const sw_tl_program *p,
                                 parts_by by);
const parts_group *parts_find(const parts *parts, const char *path); /* NULL: none */
/* The root, then the largest at the peak first, those of a scope after it: a copy of all. */
SW_MUST_USE sw_status parts_order(const parts *parts, sw_timeline *t, parts_group **out);

/* Two runs side by side, of two files or two steps of one: everything that is compared is a
 * line with two numbers. Those of roles, layers, makers and tensors add up to the difference of
 * the peaks, to the byte. */

typedef enum {
    COMPARE_PEAKS,
    COMPARE_ENDS,
    COMPARE_TOTALS,
    COMPARE_ROLES, /* from here to COMPARE_TENSORS: sums of the peak */
    COMPARE_LAYERS,
    COMPARE_OPS,
    COMPARE_TENSORS,
    COMPARE_HOST, /* of the process, for steps */
    COMPARE_TIMES,
    COMPARE_GROUPS
} compare_group;

typedef struct {
    compare_group of;
    const char *name;
    bool in[2];      /* A and B: it may be in one of them only */
    uint64_t x[2];   /* bytes, nanoseconds or calls; what is not in the values is signed */
    const char *why; /* of a tensor: "only in B", "other size", ...; NULL: nothing */
    bool unknown[2]; /* who recorded it cannot tell */
} compare_line;

/* One of the two. */
typedef struct {
    const report *r; /* not owned */
    const report_plan *plan;
    const report_step *step; /* NULL: the whole run */
    const char *by;          /* how it was measured; NULL: `phase` is as planned */
    sw_prof_phase phase[SW_PROF_PHASES];
    uint64_t peak;
    bool timed;
    uint64_t ns[SW_PROF_PHASES + 1];
    parts parts[COMPARE_GROUPS];
} compare_side;

typedef struct {
    compare_side side[2]; /* A and B */
    int newer;            /* changes of this side are reported: A of --diff, B of --steps */
    compare_line *lines;
    uint32_t n, cap;
    uint64_t grown[COMPARE_GROUPS], shrunk[COMPARE_GROUPS]; /* sums of the lines of one sign */
} comparison;

/* A side: the run by the program that holds its peak, or one step of it, which was found.
 * SW_FORMAT: there is no program. */
SW_MUST_USE sw_status compare_run(compare_side *s, report *r);
SW_MUST_USE sw_status compare_step(compare_side *s, const report *r, const report_step *step);
/* All lines. Both sides are there, and their timelines own it. */
SW_MUST_USE sw_status compare(comparison *c);
/* The newer side less the other: growth is above 0. */
int64_t compare_difference(const comparison *c, const compare_line *l);

/* The differences, for people and as a JSON object. `more`: NULL when there is none. */
void report_print_difference(const comparison *c, const report_style *style);
SW_MUST_USE sw_status report_difference_json(const comparison *c, const report_tail *more,
                                             const report_style *style);
