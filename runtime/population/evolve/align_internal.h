/* Between the files of alignment.
 *
 *   align_units.c  outputs of vertices as slots; which slots are one unit
 *   align_ties.c   slots for new units, where a tie takes them
 *   align_cells.c  units that go together: cells
 *   align_groups.c, align_rows.c   what their numbers must fulfil
 *   align_sizes.c  which of them are solved for
 *   align_solve.c, align_bound.c   the solver
 *   align_keep.c   which units stay, and for each vertex where its new outputs come from
 *   align.c        the genome takes them over */
#ifndef SW_ALIGN_INTERNAL_H
#define SW_ALIGN_INTERNAL_H

#include "runtime/population/evolve/align.h"

/* Zeroed memory that ends all at once. */
typedef struct swi_scratch_block swi_scratch_block;
typedef struct {
    swi_scratch_block *blocks;
} swi_scratch;
/* n zeroed elements; NULL: SW_NOMEM, which is recorded. */
void *swi_scratch_take(swi_scratch *scratch, size_t n, size_t element);
void swi_scratch_end(swi_scratch *scratch);
#define SWI_TAKE(scratch, array, n)                                                            \
    (((array) = swi_scratch_take(scratch, (size_t)(n), sizeof *(array))) != NULL ? SW_OK       \
                                                                                 : SW_NOMEM)

/* ---- numbers of units: the solver ---------------------------------------------------------
 */

typedef struct {
    uint32_t var;
    int32_t coef; /* below 0 only in rows that cost nothing */
} swi_term;

typedef struct {
    int64_t present, low, high;
} swi_var;

/* low <= sum of coef x var <= high. It costs what `kind` says. */
typedef enum {
    SWI_ROW_BOUND, /* nothing */
    SWI_ROW_SIZE,  /* |sum - at| / at counts for the sum and for the largest */
    SWI_ROW_WISH   /* 10^6 |sum - at| / before */
} swi_row_kind;
typedef struct {
    swi_row_kind kind;
    swi_term *terms; /* by var */
    uint32_t n_terms;
    int64_t low, high, at, before;
} swi_row;

typedef struct {
    const swi_var *vars;
    const swi_row *rows;
    uint32_t n_vars, n_rows;
    uint64_t max_nodes;
} swi_sizes;

typedef struct {
    bool found, optimal;
    double cost;
    uint64_t nodes;
} swi_solution;

/* The values of least cost, up to 1e-9 of it; of equals the first in the order of variables,
 * each from its present value outwards, smaller first. `values` is touched where one is found.
 */
sw_status swi_sizes_solve(swi_scratch *scratch, const swi_sizes *sizes, int64_t *values,
                          swi_solution *out);

/* ---- units and cells ----------------------------------------------------------------------
 */

/* All outputs of a source (a sized vertex, or the input), each of them `each` elements. */
typedef struct {
    uint32_t source, each;
} swi_part;

typedef struct {
    bool concerned;
    bool wished;                  /* sized: a wish decides it */
    uint32_t first_part, n_parts; /* what its outputs are */
    uint32_t first_slot, n_slots; /* of a source: its outputs, and those that may be new */
    uint32_t first_run, n_runs;   /* of a source */
    int32_t *map;                 /* of a source: of its outputs afterwards */
    uint32_t n_map;
    bool changed;
} swi_aligned;

/* Slots of one source in a row that are one unit, and would be so for every new unit. */
typedef struct {
    uint32_t unit, first, n;
} swi_run;

typedef struct {
    uint32_t first, n; /* its units: in `members` */
    uint32_t var;
    int64_t size; /* afterwards */
    uint8_t flags;
} swi_cell;

#define SWI_UNIT_RIGID 1u /* there can be no new ones after it */
#define SWI_UNIT_GONE 2u  /* it must go */
#define SWI_UNIT_FIXED 4u /* it must stay */
#define SWI_UNIT_SOLO 8u  /* like no other */
#define SWI_EDGE_GLUED 1u /* inside the elements of one channel */
#define SWI_EDGE_SEAM 2u  /* between two parts */
#define SWI_EDGE_CUT 4u   /* between two groups of a grouped convolution */

typedef struct {
    sw_genome *genome;
    const swi_align_opts *opts;
    swi_scratch scratch;
    swi_aligned *vertices;
    swi_part *parts;
    /* By slot. `unit` and `edge` (between a slot and the next one) are the first slot of the
     * class; flags are theirs, and of slots as far as they are not derived. */
    uint32_t n_slots;
    int32_t *real; /* which output it is; SWI_NEW: none yet */
    uint8_t *slot_flags;
    uint32_t *unit, *edge;
    uint8_t *unit_flags, *edge_flags;
    uint64_t *tied; /* by tie: so many elements are one */
    uint32_t n_tied;
    swi_run *runs;
    uint32_t n_runs;
    uint32_t *cell; /* by unit */
    uint32_t *members;
    swi_cell *cells;
    uint32_t n_cells, n_vars;
} swi_alignment;

/* Walks over the elements of a vertex's outputs. */
typedef struct {
    const swi_alignment *al;
    const swi_part *part, *end;
    uint32_t slot, sub;
} swi_cursor;
swi_cursor swi_cursor_of(const swi_alignment *al, uint32_t vertex);
/* To the next element. *between: SWI_EDGE_GLUED inside a channel, SWI_EDGE_SEAM between parts,
 * 0: the edge of *slot. False: there is none. */
bool swi_cursor_next(swi_cursor *c, uint32_t *slot, uint8_t *between);

bool swi_vertex_is_source(const swi_vertex *v);
uint32_t swi_class_find(uint32_t *classes, uint32_t i);
/* The second becomes one with the first; the lower number stands for both. */
void swi_class_join(uint32_t *classes, uint32_t a, uint32_t b);
uint64_t swi_aligned_length(const swi_alignment *al, uint32_t vertex);

#define SWI_ALIGN_SLOTS (1 << 22) /* the most */
/* From `slot_flags`, adds and the first n_tied ties on: what is one. */
void swi_align_unite(swi_alignment *al);
sw_status swi_align_take_slots(swi_alignment *al, uint32_t n);
sw_status swi_align_ties(swi_alignment *al);

sw_status swi_align_units(swi_alignment *al);
sw_status swi_align_cells(swi_alignment *al);
sw_status swi_align_sizes(swi_alignment *al, swi_align_info *info);
sw_status swi_align_keep(swi_alignment *al);

#endif
