/* Between the files of mutations and crossover. */
#pragma once

#include "runtime/population/evolve/align.h"
#include "runtime/population/evolve/search_space.h"

/* Of the neurons of the parents' vertices with parameters. */
typedef struct {
    const sw_neuron_utility *list;
    size_t n;
} swi_parent_utility;

/* Of the neurons of a genome that descends from them. */
typedef struct {
    sw_neuron_utility *list; /* n, by position */
    float *values;
    uint32_t n, cap, values_cap;
} swi_utilities;

/* Neurons of the parents have what they had there, new ones next to nothing. */
SW_MUST_USE sw_status swi_utilities_of(swi_utilities *u, const sw_genome *genome,
                                       const swi_parent_utility parents[2]);
SW_MUST_USE sw_status swi_utility_check(const sw_genome *genome, const sw_neuron_utility *list,
                                        size_t n, const char *call);

/* The result of a mutation. */
typedef struct {
    char vertex[SWI_VERTEX_NAME]; /* "": of optimizer or batch, or of all */
    char text[160];
    bool exact;
} swi_change_note;

typedef struct swi_child {
    sw_genome *genome; /* with lineage; valid between two changes */
    sw_genome *before; /* the change that is being made, or was made last; else NULL */
    const sw_mutate_opts *opts;
    const sw_search_space *space; /* swi_child_space */
    sw_search_space *own_space;
    swi_draws draws;
    swi_parent_utility parents[2];
    swi_utilities utilities;
    swi_wish *wishes;
    char (*names)[SWI_VERTEX_NAME];
    uint32_t wishes_cap, names_cap;
    bool asked;            /* what it fits was asked of the genome as it is */
    swi_change_note *note; /* of a callback that edits: its edits are added to it */
} swi_child;

/* Free what the child took besides the genome. */
void swi_child_end(swi_child *c);
SW_MUST_USE sw_status swi_child_space(swi_child *c, const sw_search_space **out);
/* A change begins: the genome may be edited. */
SW_MUST_USE sw_status swi_child_begin(swi_child *c);
/* The edit returned `status`. Where it is not possible (SW_UNSUPPORTED, or the result is not
 * valid), or the result does not fit, the genome is again as it was. Other failures are
 * returned. */
SW_MUST_USE sw_status swi_child_accept(swi_child *c, sw_status status, bool *stays);
/* Ask sw_mutate_opts.fits. */
SW_MUST_USE sw_status swi_child_fits(swi_child *c, const sw_genome *genome, bool *fits);
SW_MUST_USE sw_status swi_child_align(swi_child *c, const swi_wish *wishes, size_t n_wishes,
                                      const swi_tie *ties, size_t n_ties, swi_align_info *info);
/* An edit of the callback was made. */
void swi_child_note(swi_child *c, const swi_change_note *edit);
void swi_child_record(swi_child *c, sw_mutation_kind kind, const swi_change_note *note);

typedef sw_status swi_mutate_fn(swi_child *c, const sw_mutation *m, uint32_t vertex,
                                swi_change_note *note);
void swi_mutation_range(const sw_mutation *m, double *low, double *high);

/* p of a vertex with utility u, where m is the largest and a the mean. */
double swi_weighed(double p, sw_weigh weigh, double u, double m, double a);

/* Edits of c->genome, which was c->before; the bounds of c->opts hold. Each notes what it did.
 * On failure (SW_UNSUPPORTED, SW_INVALID: it cannot be) the genome is neither as it was nor
 * valid, and after success for swi_genome_check. Shields hold. UINT32_MAX as a vertex: of the
 * genome. */

/* Put v, which is of no parent, in position `at`, after what it reads. Who reads its first
 * input and follows reads v instead: `reader` alone (as numbered now; UINT32_MAX: all), its
 * input k alone (UINT32_MAX: all). */
SW_MUST_USE sw_status swi_edit_add(swi_child *c, swi_vertex *v, uint32_t at, uint32_t reader,
                                   uint32_t k, swi_change_note *note);
SW_MUST_USE sw_status swi_edit_remove(swi_child *c, uint32_t v, uint32_t k,
                                      swi_change_note *note);
SW_MUST_USE sw_status swi_edit_rewire(swi_child *c, uint32_t v, uint32_t k, uint32_t y,
                                      swi_change_note *note);
SW_MUST_USE sw_status swi_edit_number(swi_child *c, uint32_t v, const char *name, double value,
                                      swi_change_note *note);
SW_MUST_USE sw_status swi_edit_word(swi_child *c, uint32_t v, const char *name,
                                    const char *word, swi_change_note *note);
/* "VERTEX: text", or the text alone where it is of all. */
void swi_edit_note(swi_change_note *note, const char *vertex, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It computes what it reads, in evaluation. */
bool swi_is_identity(const sw_genome *g, const swi_vertex *v);
/* The other kind of a pool; SW_VERTEX_INPUT for what is not a pool. */
sw_vertex_kind swi_other_pool(sw_vertex_kind kind);
bool swi_has_momentum(const char *optimizer);
/* A layer that reads x and has the outputs of vertex `like` of `from`, whose utility they have
 * too; of the image of x. */
SW_MUST_USE sw_status swi_insert_adapter(sw_genome *g, uint32_t at, uint32_t x,
                                         const sw_genome *from, uint32_t like, uint8_t parent);

bool swi_can_size(const sw_genome *g, uint32_t v);
swi_mutate_fn swi_grow;

/* size * (1 + share), at least one further; within 1 and what the options allow. */
int64_t swi_size_by(const swi_child *c, int64_t size, double share);
/* Neither its own nor its readers' shields speak against other readers. */
bool swi_outputs_free(const sw_genome *g, uint32_t v);
/* The same of what it reads. */
bool swi_inputs_free(const sw_genome *g, uint32_t v);
/* No vertex that begins by its initialiser, or as the identity, has another shape than in
 * `before`, which has the same vertices: what grew computes what it did. */
bool swi_growth_is_exact(const sw_genome *now, const sw_genome *before);

/* Who reads v reads x, which it reads; what no vertex reads then goes, and adds that would add
 * x alone. Sizes and images are equal. */
SW_MUST_USE sw_status swi_pass_over(sw_genome *g, uint32_t v, uint32_t x);

/* After an edit that moved elements, not units: of images that are flattened and have another
 * height or width, or of concat `cut` of `now` (UINT32_MAX: none), which lost its inputs `gone`
 * (a bit each, by their numbers there). Whoever reads them reads what it did by its columns;
 * elements that were not there are new. `was` is the genome before the edit; heights and
 * widths of `now` are inferred. SW_UNSUPPORTED where a vertex cannot read them otherwise. */
SW_MUST_USE sw_status swi_positions_follow(sw_genome *now, const sw_genome *was, uint32_t cut,
                                           uint32_t gone);

/* Vertices between `entry`, which is not of them, and `exit`, which is: all that they read is
 * of them or the entry, and no other vertex reads any of them but the exit. */
typedef struct {
    uint32_t entry, exit, n;
    double from, to; /* where these two lie: 0 is the input, 1 the last vertex */
} swi_segment;
typedef struct {
    swi_segment *list;
    uint32_t n, cap;
} swi_segments;

#define SWI_SEGMENT_MOST 64 /* vertices */
/* All that shields allow to be exchanged, of at most SWI_SEGMENT_MOST vertices. */
SW_MUST_USE sw_status swi_segments_of(swi_segments *s, const sw_genome *g);
void swi_segments_end(swi_segments *s);
/* Its vertices in order; `out` has room for SWI_SEGMENT_MOST. */
void swi_segment_vertices(const sw_genome *g, const swi_segment *s, uint32_t *out);
