/* The memory of a program in parts: its values in groups, by role, layer, maker or one by one,
 * and what each group has at the peak of the program, at its own peak, and while its ops run.
 * Groups of two programs pair up by their names. */
#ifndef STEPWELL_REPORT_PARTS_H
#define STEPWELL_REPORT_PARTS_H

#include "profiler/inspect/timeline.h"
#include <stdbool.h>

#define REPORT_NO_LAYER "(no layer)" /* what the values of no layer are called */

typedef enum {
    PARTS_TREE,  /* layers, with the scopes around them: a scope has all that is in it */
    PARTS_LAYER, /* layers, each by itself */
    PARTS_ROLE,
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
    uint64_t at_peak, n_at_peak, kind[PARTS_KINDS];
    uint64_t own_peak;        /* the most that lives of it at one time */
    uint32_t own_op;          /* while this op runs, first */
    uint64_t n_ops, run_peak; /* of a tree: its ops, and the most that lives in all while one of
                                 them runs */
    uint64_t live;            /* while it is made */
    uint32_t again;           /* values of that name */
} parts_group;

typedef struct {
    parts_group *at;
    uint32_t n, cap;
    uint32_t *slots, n_slots; /* open addressing by path; index + 1 */
} parts;

/* Every value is in one group; the root is there for all. Strings and what is needed on the way
 * belong to the timeline. Owner: the caller, by parts_free, also after a failure. `parts`
 * begins as zeros. */
SW_MUST_USE sw_status parts_make(parts *out, sw_timeline *t, const sw_tl_program *p,
                                 parts_by by);
void parts_free(parts *parts);
const parts_group *parts_find(const parts *parts, const char *path); /* NULL: none */
/* Largest at the peak first, those of a scope after it; *n indices without the root.
 */
SW_MUST_USE sw_status parts_order(const parts *parts, sw_timeline *t, uint32_t *out,
                                  uint32_t *n);

/* The groups of that name in two programs; NULL: it has none. */
typedef struct {
    const char *name;
    const parts_group *group[2];
    int64_t bytes[2]; /* at the peak */
} parts_match;

/* All pairs, largest difference first; `apart` is what the two peaks have beyond their values,
 * in a pair of its own where it is not zero. They belong to the timeline, and live no longer
 * than the parts. */
SW_MUST_USE sw_status parts_matches(parts_match **out, size_t *n, sw_timeline *t,
                                    const parts *a, const parts *b, const int64_t *apart);

#endif
