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
#ifndef SW_ALIGN_H
#define SW_ALIGN_H

#include "runtime/population/evolve/genome.h"

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

#endif
