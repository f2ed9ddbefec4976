/* Between the files of alignment.
 *
 *   align.c        outputs of vertices as slots; which slots are one unit; slots for new units,
 *                  where a tie takes them; units that go together: cells, and what their
 *                  numbers must fulfil
 *   align_solve.c  which of them are solved for; the solver; which units stay, and for each
 *                  vertex where its new outputs come from; the genome takes them over */
#pragma once

#include "runtime/population/evolve/genome.h"

/* Sizes that fit together.
 *
 * These are equal: all inputs of an add, what an invariant vertex reads and gives, the parts of
 * a concat and the concat, channels of an image and groups of elements of its flattened vector.
 * Neurons that are tied by this are one unit; units that lie in the same vertices in the same
 * way, one after the other, are a cell. A vertex's outputs are a sequence of cells (a cell may
 * come more than once, and each unit of it may be several elements in a row, of a flattened
 * image), so every choice of cell sizes keeps everything equal. It remains to choose them: the
 * solver finds the best one, exactly, by branch and bound over cells.
 *
 * The objective is 0.1 times the sum plus 0.8 times the largest of |size - before| / before
 * over the sized vertices that nothing was wished of (NaiveNASlib's); of equals
 * (up to 1e-9 of it) the first in the order of cells, each from its present size outwards,
 * smaller first. Wishes hold exactly; where they cannot, and
 * `relax` is set, 10^6 times the sum of |size - wish| / before is added instead, and at least
 * one wish moves at least by one towards what was wished. */

typedef struct {
    uint32_t vertex; /* sized, or invariant: then what decides its size */
    int64_t size;
} swi_wish;

/* From now on output i of `a` and output i of `b` are one unit. Where one has more outputs, the
 * other gets new ones after its own, or these go. */
typedef struct {
    uint32_t a, b;
} swi_tie;

typedef struct {
    const swi_wish *wishes;
    size_t n_wishes;
    const swi_tie *ties;
    size_t n_ties;
    bool relax;
    int64_t max_size; /* of a sized vertex; 0: 4096. One that is above it may stay as it is */
    const sw_neuron_utility *utilities; /* by position in `genome`; of its outputs as they are.
                                           Finite; those of sized vertices count */
    size_t n_utilities;
    uint64_t max_nodes; /* of the search; 0: 1,000,000 */
} swi_align_opts;

typedef struct {
    int64_t added, dropped; /* outputs of sized vertices */
    uint64_t nodes;
    bool optimal; /* the search ended by itself, not by max_nodes */
} swi_align_info;

/* Give vertices other sizes: `size`, `rows` and `cols` of all that are concerned, and what
 * follows (swi_genome_infer). A cell that shrinks keeps the units with the most utility (the
 * sum over all their neurons; without any, those in front), in their order; one that grows gets
 * new ones after its own. Shielded sizes, the input and the last vertex stay; groups of a
 * grouped convolution stay equal. On failure the genome is as it was: SW_UNSUPPORTED where no
 * sizes do, by the vertex. The genome has lineage (swi_genome_begin_lineage). */
sw_status swi_align(sw_genome *genome, const swi_align_opts *opts, swi_align_info *info);

/* Its inputs changed: input i of vertex v is what input map[i] was, SWI_NEW: none. n: as many
 * as it reads now. */
sw_status swi_vertex_move_cols(swi_vertex *v, const int32_t *map, size_t n);
/* The same of outputs. */
sw_status swi_vertex_move_rows(swi_vertex *v, const int32_t *map, size_t n);

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

/* ---- numbers of units: the solver -------------------------------------------------------- */

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
 * each from its present value outwards, smaller first. `values` is touched where one is
 * found. */
sw_status swi_sizes_solve(swi_scratch *scratch, const swi_sizes *sizes, int64_t *values,
                          swi_solution *out);

/* ---- units and cells --------------------------------------------------------------------- */

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

uint32_t swi_class_find(uint32_t *classes, uint32_t i);
/* The second becomes one with the first; the lower number stands for both. */
void swi_class_join(uint32_t *classes, uint32_t a, uint32_t b);

#define SWI_ALIGN_SLOTS (1 << 22) /* the most */

sw_status swi_align_sizes(swi_alignment *al, swi_align_info *info);
sw_status swi_align_keep(swi_alignment *al);

/* Between the files that make rows: what numbers of units must fulfil. */

typedef struct {
    swi_alignment *al;
    swi_var *vars;
    swi_row *rows;
    uint32_t n_rows;
    /* Terms of the row that is being made. */
    swi_term *terms;
    uint32_t n_terms;
    uint32_t *place;  /* by variable: which term, from 1 on */
    uint32_t *joined; /* variables that hang together */
} swi_rows;

/* A vertex's channels in so many groups. */
typedef struct {
    uint32_t vertex;
    int groups;
} swi_grouped;

void swi_rows_add_term(swi_rows *b, uint32_t var, int64_t coef);
/* All outputs of a vertex. */
bool swi_unit_begins_cell(const swi_alignment *al, uint32_t unit);

/* The inputs and outputs of the grouped convolutions that are concerned. */
sw_status swi_groups_find(swi_alignment *al, swi_grouped **out, uint32_t *n);
/* Cells that are alone in their groups become one variable (`var`: classes of cells); the
 * others are left in `x`. */
sw_status swi_groups_join(swi_alignment *al, uint32_t *var, swi_grouped *x, uint32_t *n);
/* Terms of group k less the first one. */
void swi_groups_add(swi_rows *b, const swi_grouped *x, int k);
