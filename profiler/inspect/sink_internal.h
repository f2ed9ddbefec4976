/* Shared by sinks: bytes by role as they go by, and the tree of what lives. */
#ifndef SW_SINK_INTERNAL_H
#define SW_SINK_INTERNAL_H

#include "profiler/inspect/sink.h"

/* ---- bytes by role ----------------------------------------------------------------------- */

#define SWI_ROLES 32

/* Counters that a walk moves. Births of one instant are one change, deaths are another, so that
 * no peak is lost and no value is written twice: ask before each event, write when it says so.
 */
typedef struct {
    const char *name[SWI_ROLES]; /* sorted; past the room: "others", the last */
    uint64_t bytes[SWI_ROLES];
    uint32_t n, changed; /* bit i: since it was written */
    uint64_t live;       /* their sum */
    uint64_t ns;         /* of what is pending */
    int pending;         /* 1: growth, -1: deaths, 0: none */
} swi_roles;

void swi_roles_init(swi_roles *r, const sw_timeline *t);
/* Whether what is pending must be written before `e`, which has the walk's next event. */
bool swi_roles_due(const swi_roles *r, const sw_tl_event *e);
void swi_roles_written(swi_roles *r);
/* Takes an event of any kind. */
void swi_roles_take(swi_roles *r, const sw_tl_event *e);

/* "step", "phase", "layer" or "op", for the begin of a slice. */
const char *swi_slice_category(sw_tl_kind kind);

/* ---- trees ------------------------------------------------------------------------------- */

/* A tree whose nodes are found by parent, kind and text. Node 0 is the root. */
typedef struct {
    char *text; /* a copy of `n` bytes, a zero after it */
    uint32_t n, kind, parent;
    uint64_t bytes, padding; /* of all below */
} swi_frame;

typedef struct {
    swi_frame *nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t *slots; /* open addressing: a node's index or zero */
    uint32_t cap_slots;
    char **blocks; /* of text */
    uint32_t n_blocks, cap_blocks;
    size_t used; /* of the last block */
} swi_stacks;

enum { SWI_SCOPE, SWI_ROLE, SWI_TENSOR };

void swi_stacks_free(swi_stacks *tree);
/* Of a zeroed tree: what lives while op `position` runs. Scopes, then role, then tensor;
 * tensors of one name in one place are one. */
SW_MUST_USE sw_status swi_stacks_live(swi_stacks *tree, const sw_tl_program *p,
                                      uint32_t position);

/* The program that holds the peak; without one there is nothing to show (SW_FORMAT). */
SW_MUST_USE sw_status swi_peak_program(const sw_timeline *t, const sw_tl_program **out);

#endif
