/* Crossover: two genomes exchange segments of similar position, and what they train with. */
#include "alloc/base/error.h"
#include "runtime/base/structs.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One segment in the place of another, between two adapters: layers that make of what is in
 * front what the segment read, and of what it gives what those after read. Adapters fit by
 * their sizes; then those are tied to what they read, sizes are aligned, and the adapters are
 * passed by. */

/* The vertex whose neurons vertex i gives; UINT32_MAX: they are of several, or of none. */
static uint32_t maker(const sw_genome *g, uint32_t i)
{
    while (!swi_vertex_is_sized(&g->vertices[i]) && swi_vertex_is_invariant(&g->vertices[i]))
        i = g->vertices[i].in[0];
    return swi_vertex_is_sized(&g->vertices[i]) ? i : UINT32_MAX;
}

sw_status swi_insert_adapter(sw_genome *g, uint32_t at, uint32_t x, const sw_genome *from,
                             uint32_t like, uint8_t parent)
{
    const uint32_t was = maker(from, like);
    swi_vertex v =
        swi_vertex_of(g->vertices[x].height > 0 ? SW_VERTEX_CONV2D : SW_VERTEX_LINEAR);
    swi_genome_fresh_name(g, v.name);
    v.size = v.channels = from->vertices[like].channels;
    v.height = g->vertices[x].height;
    v.width = g->vertices[x].width;
    v.in[0] = x;
    v.n_in = 1;
    if (was != UINT32_MAX) {
        v.parent = parent;
        v.was = was;
        v.rows = from->vertices[was].rows;
        v.n_rows = from->vertices[was].n_rows;
    }
    return swi_genome_insert(g, at, &v);
}

/* Copies of the segment's vertices stand after `at`; the first ones read `at`. */
static sw_status put_in(sw_genome *g, const sw_genome *from, const swi_segment *s, uint32_t at)
{
    uint32_t list[SWI_SEGMENT_MOST];
    swi_segment_vertices(from, s, list);
    for (uint32_t i = 0; i < s->n; i++) {
        swi_vertex v = from->vertices[list[i]];
        v.parent = 1;
        v.was = list[i];
        for (uint32_t k = 0; k < v.n_in; k++) {
            uint32_t j = 0;
            while (j < i && list[j] != from->vertices[list[i]].in[k])
                j++;
            v.in[k] = j < i ? at + 1 + j : at;
        }
        if (swi_genome_find(g, v.name) != UINT32_MAX)
            swi_genome_fresh_name(g, v.name);
        SW_TRY(swi_genome_insert(g, at + 1 + i, &v));
    }
    return SW_OK;
}

/* Segment `in` of `from`, each vertex of which is itself in parent 1, takes the place of
 * segment `out` of the child's genome, each of which is itself in parent 0. SW_UNSUPPORTED or
 * SW_INVALID where that cannot be: the genome is then neither as it was nor valid. */
static sw_status segment_exchange(swi_child *c, const sw_genome *from, const swi_segment *in,
                                  const swi_segment *out)
{
    sw_genome *g = c->genome;
    const uint32_t first = out->entry + 1, exit = first + in->n;
    /* An adapter that reads the entry takes the place of the segment, which is removed: it is
     * vertex `last` then. */
    uint32_t list[SWI_SEGMENT_MOST];
    swi_segment_vertices(g, out, list);
    SW_TRY(swi_insert_adapter(g, out->exit + 1, out->exit, g, out->exit, 0));
    swi_genome_redirect(g, out->exit, out->exit + 1);
    g->vertices[out->exit + 1].in[0] = out->entry;
    for (uint32_t i = out->n; i-- > 0;)
        swi_genome_remove(g, list[i]);
    const uint32_t last = out->exit + 1 - out->n + 1 + in->n;
    SW_TRY(swi_insert_adapter(g, first, out->entry, from, in->entry, 1));
    SW_TRY(put_in(g, from, in, first));
    g->vertices[last].in[0] = exit;
    SW_TRY(swi_genome_infer(g, NULL));
    const swi_tie ties[2] = {{.a = out->entry, .b = first}, {.a = exit, .b = last}};
    SW_TRY(swi_child_align(c, NULL, 0, ties, 2, NULL));
    SW_TRY(swi_pass_over(g, last, exit));
    return swi_pass_over(g, first, out->entry);
}

#define TRIES 16
#define STREAM 0x63726f7373u /* of draws */
#define DEVIATION 0.1

enum { OPTIMIZER = 1, RATE = 2, BATCH = 4 };

typedef struct {
    const sw_genome *of[2];
    sw_genome *lineage[2]; /* copies of them, of which each vertex is its own parent */
    swi_segments segments[2];
    swi_parent_utility utility[2];
    sw_crossover_opts opts;
    swi_draws draws;
} crossing;

/* ---- children ---------------------------------------------------------------------------- */

/* A copy of parent `which`, which is its parent 0. */
static sw_status begin_child(const crossing *x, int which, sw_genome **out)
{
    SW_TRY(sw_genome_copy(out, x->lineage[which]));
    (*out)->n_parents = 2;
    (*out)->parents[0] = swi_genome_hash(x->of[which]);
    (*out)->parents[1] = swi_genome_hash(x->of[!which]);
    return SW_OK;
}

/* *made NULL: it cannot be. */
static sw_status make_child(const crossing *x, int which, const swi_segment *const pair[2],
                            sw_genome **made)
{
    swi_child c = {.parents = {x->utility[which], x->utility[!which]}};
    *made = NULL;
    SW_TRY(begin_child(x, which, &c.genome));
    sw_status status = segment_exchange(&c, x->lineage[!which], pair[!which], pair[which]);
    if (status == SW_OK)
        status = swi_genome_check(c.genome, NULL);
    if (status != SW_OK)
        swi_genome_free(c.genome);
    else
        *made = c.genome;
    swi_child_end(&c);
    return status == SW_UNSUPPORTED || status == SW_INVALID ? SW_OK : status;
}

/* Both, or none. */
static sw_status make_children(const crossing *x, const swi_segment *const pair[2],
                               sw_genome *children[2])
{
    SW_TRY(make_child(x, 0, pair, &children[0]));
    const sw_status status = children[0] != NULL ? make_child(x, 1, pair, &children[1]) : SW_OK;
    if (children[1] == NULL) {
        swi_genome_free(children[0]);
        children[0] = NULL;
    }
    return status;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static bool same_place(const swi_vertex *a, const swi_vertex *b)
{
    return a->height == b->height && a->width == b->width;
}

static bool match(const crossing *x, const swi_segment *a, const swi_segment *b)
{
    const swi_vertex *u = x->of[0]->vertices, *v = x->of[1]->vertices;
    return fabs(a->from - b->from) <= x->opts.deviation &&
           fabs(a->to - b->to) <= x->opts.deviation && same_place(&u[a->entry], &v[b->entry]) &&
           same_place(&u[a->exit], &v[b->exit]);
}

/* One of a, and one of those of b that match it. */
static bool draw_pair(crossing *x, const swi_segment *pair[2])
{
    const swi_segments *a = &x->segments[0], *b = &x->segments[1];
    uint32_t n = 0;
    pair[0] = &a->list[swi_draw_below(&x->draws, a->n)];
    for (uint32_t i = 0; i < b->n; i++)
        n += match(x, pair[0], &b->list[i]);
    if (n == 0)
        return false;
    uint32_t which = swi_draw_below(&x->draws, n), i = 0;
    while (!match(x, pair[0], &b->list[i]) || which-- > 0)
        i++;
    pair[1] = &b->list[i];
    return true;
}

static sw_status cross_vertices(crossing *x, sw_genome *children[2])
{
    for (int which = 0; which < 2; which++)
        SW_TRY(swi_segments_of(&x->segments[which], x->of[which]));
    if (x->segments[0].n == 0 || x->segments[1].n == 0)
        return SW_OK;
    for (int i = 0; i < TRIES && children[0] == NULL; i++) {
        const swi_segment *pair[2];
        if (draw_pair(x, pair))
            SW_TRY(make_children(x, pair, children));
    }
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

#define SWAP(type, a, b)                                                                       \
    do {                                                                                       \
        const type swapped = a;                                                                \
        a = b;                                                                                 \
        b = swapped;                                                                           \
    } while (0)

static void swap_training(sw_genome *a, sw_genome *b, unsigned what)
{
    if ((what & OPTIMIZER) != 0) {
        char name[sizeof a->optimizer];
        memcpy(name, a->optimizer, sizeof name);
        memcpy(a->optimizer, b->optimizer, sizeof name);
        memcpy(b->optimizer, name, sizeof name);
        SWAP(float, a->momentum, b->momentum);
        SWAP(float, a->weight_decay, b->weight_decay);
        SWAP(float, a->clip, b->clip);
        SWAP(float, a->clip_norm, b->clip_norm);
        SWAP(sw_update_time, a->update, b->update);
    }
    if ((what & RATE) != 0)
        SWAP(float, a->lr, b->lr);
    if ((what & BATCH) != 0)
        SWAP(int64_t, a->batch, b->batch);
}

/* Vertices that say when they are updated may not go with the other's clip_norm: then each
 * keeps its own. */
static void cross_training(crossing *x, sw_genome *children[2])
{
    const double p[] = {x->opts.optimizer, x->opts.rate, x->opts.batch};
    for (int i = 0; i < 3; i++) {
        if (!swi_draw_happens(&x->draws, p[i]))
            continue;
        swap_training(children[0], children[1], 1u << i);
        if (swi_genome_check(children[0], NULL) != SW_OK ||
            swi_genome_check(children[1], NULL) != SW_OK)
            swap_training(children[0], children[1], 1u << i);
    }
}

/* ---- the call ---------------------------------------------------------------------------- */

static sw_status cross(crossing *x, sw_genome *children[2])
{
    for (int which = 0; which < 2; which++) {
        SW_TRY(sw_genome_copy(&x->lineage[which], x->of[which]));
        SW_TRY(swi_genome_begin_lineage(x->lineage[which]));
    }
    if (swi_draw_happens(&x->draws, x->opts.vertices))
        SW_TRY(cross_vertices(x, children));
    for (int which = 0; which < 2; which++)
        if (children[which] == NULL)
            SW_TRY(begin_child(x, which, &children[which]));
    cross_training(x, children);
    return SW_OK;
}

static sw_status check_share(double p, const char *name, const char *call)
{
    if (!(p >= 0 && p <= 1))
        SW_FAIL(SW_INVALID, "%s: %s must be 0 to 1 (got %g)", call, name, p);
    return SW_OK;
}

static sw_status check_task(const sw_genome *a, const sw_genome *b, const char *call)
{
    const swi_vertex *x = &a->vertices[0], *y = &b->vertices[0];
    const int64_t m = a->vertices[a->n - 1].channels, n = b->vertices[b->n - 1].channels;
    if (x->channels != y->channels || !same_place(x, y) || m != n)
        SW_FAIL(SW_INVALID,
                "%s: both genomes must be of one task (got %lld x %lld x %lld to %lld "
                "classes, and %lld x %lld x %lld to %lld)",
                call, (long long)x->channels, (long long)x->height, (long long)x->width,
                (long long)m, (long long)y->channels, (long long)y->height, (long long)y->width,
                (long long)n);
    return SW_OK;
}

static void give(sw_genome **out, sw_genome *child, sw_status status)
{
    if (status == SW_OK && out != NULL)
        *out = child;
    else
        swi_genome_free(child);
}

sw_status sw_genome_crossover(sw_genome **out_a, sw_genome **out_b, const sw_genome *a,
                              const sw_genome *b, const sw_crossover_opts *given)
{
    sw_genome *children[2] = {NULL, NULL};
    crossing x = {.of = {a, b}};
    SW_TRY(sw_handle_check(a, SW_HANDLE_GENOME, __func__));
    SW_TRY(sw_handle_check(b, SW_HANDLE_GENOME, __func__));
    if (out_a == NULL && out_b == NULL)
        SW_FAIL(SW_INVALID, "%s: out_a and out_b must not both be NULL", __func__);
    sw_crossover_opts *o = &x.opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_crossover_opts, o, given, __func__));
    SW_TRY(check_share(o->vertices, "vertices", __func__));
    SW_TRY(check_share(o->optimizer, "optimizer", __func__));
    SW_TRY(check_share(o->rate, "rate", __func__));
    SW_TRY(check_share(o->batch, "batch", __func__));
    SW_TRY(check_share(o->deviation, "deviation", __func__));
    SW_TRY(swi_utility_check(x.of[0], o->utilities_a, o->n_utilities_a, __func__));
    SW_TRY(swi_utility_check(x.of[1], o->utilities_b, o->n_utilities_b, __func__));
    if (o->vertices == 0 && o->optimizer == 0 && o->rate == 0 && o->batch == 0) {
        o->vertices = 0.5;
        o->optimizer = o->rate = o->batch = 0.25;
    }
    o->deviation = o->deviation != 0 ? o->deviation : DEVIATION;
    x.utility[0] = (swi_parent_utility){o->utilities_a, o->n_utilities_a};
    x.utility[1] = (swi_parent_utility){o->utilities_b, o->n_utilities_b};

    SW_TRY(check_task(a, b, __func__));
    x.draws = swi_draws_of(x.opts.seed, STREAM);
    const sw_status status = cross(&x, children);
    for (int which = 0; which < 2; which++) {
        swi_genome_free(x.lineage[which]);
        swi_segments_end(&x.segments[which]);
    }
    give(out_a, children[0], status);
    give(out_b, children[1], status);
    return status;
}

/* Segments of genomes that can be exchanged: one vertex in front that they read, one of them
 * that is read.
 *
 * For each last vertex the segment grows towards the input: while its vertices read more than
 * one vertex outside, the latest of these must be of it, since no earlier one can be before
 *  all paths. It ends where one of its vertices is read from outside. */

#define CLOSED (SW_SHIELD_CROSSOVER | SW_SHIELD_REMOVE)

typedef struct {
    uint32_t edges[SWI_MAX_VERTICES]; /* to readers */
    uint32_t into[SWI_MAX_VERTICES];  /* of these, to the segment */
    uint32_t depth[SWI_MAX_VERTICES]; /* the longest path from the input */
} walk;

/* How many vertices outside more it reads. */
static uint32_t enter(walk *w, const swi_vertex *v)
{
    uint32_t more = 0;
    for (uint32_t k = 0; k < v->n_in; k++)
        more += w->into[v->in[k]]++ == 0;
    return more;
}

/* The edges from the entry into the segment may go. `into` tells the segment's vertices: those
 * after the entry that are read by it, and the exit. */
static bool entry_is_free(const walk *w, const sw_genome *g, uint32_t entry, uint32_t exit)
{
    if ((g->vertices[entry].shield & SW_SHIELD_OUTPUTS) != 0)
        return false;
    for (uint32_t i = entry + 1; i <= exit; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if ((w->into[i] > 0 || i == exit) && g->vertices[i].in[k] == entry &&
                (g->vertices[i].shield & SW_SHIELD_INPUTS) != 0)
                return false;
    return true;
}

static sw_status add(swi_segments *s, const walk *w, const sw_genome *g, uint32_t entry,
                     uint32_t exit, uint32_t n)
{
    const double depth = w->depth[g->n - 1];
    if (!entry_is_free(w, g, entry, exit))
        return SW_OK;
    SW_TRY(sw_heap_reserve(&s->list, SW_HEAP_RECORDS, &s->cap, s->n + 1));
    s->list[s->n++] =
        (swi_segment)SW_INIT(.entry = entry, .exit = exit, .n = n,
                             .from = w->depth[entry] / depth, .to = w->depth[exit] / depth);
    return SW_OK;
}

sw_status swi_segments_of(swi_segments *s, const sw_genome *g)
{
    walk w;
    s->n = 0;
    memset(w.edges, 0, g->n * sizeof *w.edges);
    memset(w.into, 0, g->n * sizeof *w.into);
    memset(w.depth, 0, g->n * sizeof *w.depth);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++) {
            const uint32_t x = g->vertices[i].in[k];
            w.edges[x]++;
            if (w.depth[i] < w.depth[x] + 1)
                w.depth[i] = w.depth[x] + 1;
        }
    for (uint32_t exit = 1; exit + 1 < g->n; exit++)
        if ((g->vertices[exit].shield & CLOSED) == 0 && swi_outputs_free(g, exit)) {
            uint32_t n = 1, open = enter(&w, &g->vertices[exit]), j = exit;
            while (open > 0 && j-- > 0) {
                const swi_vertex *v = &g->vertices[j];
                if (w.into[j] == 0)
                    continue;
                if (open == 1)
                    SW_TRY(add(s, &w, g, j, exit, n));
                if (j == 0 || (v->shield & CLOSED) != 0 || w.into[j] != w.edges[j] ||
                    n == SWI_SEGMENT_MOST)
                    break;
                n++;
                open += enter(&w, v) - 1;
            }
            memset(w.into, 0, exit * sizeof *w.into);
        }
    return SW_OK;
}

void swi_segments_end(swi_segments *s)
{
    sw_heap_free(s->list, SW_HEAP_RECORDS, s->cap * sizeof *s->list);
    *s = (swi_segments){0};
}

void swi_segment_vertices(const sw_genome *g, const swi_segment *s, uint32_t *out)
{
    uint32_t n = s->n;
    out[--n] = s->exit;
    for (uint32_t i = s->exit; i-- > s->entry + 1 && n > 0;) {
        bool is = false; /* read by one of it */
        for (uint32_t j = n; j < s->n && !is; j++)
            for (uint32_t k = 0; k < g->vertices[out[j]].n_in && !is; k++)
                is = g->vertices[out[j]].in[k] == i;
        if (is)
            out[--n] = i;
    }
}

/* A child while it is made: each change stays as a whole, or leaves no trace. */

/* Of a search for sizes: some 2 ms. Mutations of drawn genomes of 22 vertices end by
 * themselves; one crossing in ten does not (without a bound one in a hundred takes 58 ms), and
 * has the best sizes that were found by then. */
#define MOST_NODES 4000

void swi_child_end(swi_child *c)
{
    swi_genome_free(c->before);
    swi_search_space_free(c->own_space);
    sw_heap_free(c->utilities.list, SW_HEAP_RECORDS,
                 c->utilities.cap * sizeof *c->utilities.list);
    sw_heap_free(c->utilities.values, SW_HEAP_RECORDS,
                 c->utilities.values_cap * sizeof *c->utilities.values);
    sw_heap_free(c->wishes, SW_HEAP_RECORDS, c->wishes_cap * sizeof *c->wishes);
    sw_heap_free(c->names, SW_HEAP_RECORDS, c->names_cap * sizeof *c->names);
}

/* The default one is read when it is needed first. */
sw_status swi_child_space(swi_child *c, const sw_search_space **out)
{
    const swi_vertex *input = &c->genome->vertices[0];
    if (c->space == NULL) {
        const sw_task task = SW_OPTS(sw_task, .channels = input->channels,
                                     .height = input->height, .width = input->width,
                                     .classes = c->genome->vertices[c->genome->n - 1].channels);
        SW_TRY(sw_search_space_default(&c->own_space, &task));
        c->space = c->own_space;
    }
    *out = c->space;
    return SW_OK;
}

sw_status swi_child_begin(swi_child *c)
{
    swi_genome_free(c->before);
    c->before = NULL;
    c->asked = false;
    return sw_genome_copy(&c->before, c->genome);
}

sw_status swi_child_fits(swi_child *c, const sw_genome *genome, bool *fits)
{
    *fits = true;
    if (c->opts == NULL || c->opts->fits == NULL)
        return SW_OK;
    const uint64_t errors = sw_error_count();
    const int answer = c->opts->fits(genome, c->opts->fits_user);
    *fits = answer > 0;
    if (answer >= 0)
        return SW_OK;
    const sw_status status = answer >= -(int)SW_STOPPED ? (sw_status)-answer : SW_INVALID;
    if (sw_error_count() == errors)
        SW_FAIL(status, "sw_mutate_opts.fits failed (%d) and recorded no reason", answer);
    return status;
}

static void undo(swi_child *c)
{
    swi_genome_free(c->genome);
    c->genome = c->before;
    c->before = NULL;
}

sw_status swi_child_accept(swi_child *c, sw_status status, bool *stays)
{
    *stays = false;
    if (status == SW_OK)
        status = swi_genome_check(c->genome, NULL);
    if (status != SW_OK) {
        undo(c);
        return status == SW_UNSUPPORTED || status == SW_INVALID ? SW_OK : status;
    }
    *stays = c->asked;
    if (!c->asked)
        status = swi_child_fits(c, c->genome, stays);
    if (status != SW_OK || !*stays)
        undo(c);
    return status;
}

sw_status swi_child_align(swi_child *c, const swi_wish *wishes, size_t n_wishes,
                          const swi_tie *ties, size_t n_ties, swi_align_info *info)
{
    swi_align_info own;
    SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const swi_align_opts opts =
        SW_INIT(.wishes = wishes, .n_wishes = n_wishes, .ties = ties, .n_ties = n_ties,
                .relax = true, .max_size = c->opts != NULL ? c->opts->max_size : 0,
                .utilities = c->utilities.list, .n_utilities = c->utilities.n,
                .max_nodes = MOST_NODES);
    return swi_align(c->genome, &opts, info != NULL ? info : &own);
}

void swi_child_note(swi_child *c, const swi_change_note *edit)
{
    swi_change_note *all = c->note;
    const size_t n = strlen(all->text);
    snprintf(all->text + n, sizeof all->text - n, "%s%s",
             strchr(all->text, ':') == NULL ? ": " : "; ", edit->text);
    all->exact = all->exact && edit->exact;
}

void swi_child_record(swi_child *c, sw_mutation_kind kind, const swi_change_note *note)
{
    const sw_mutation_record record =
        SW_OPTS(sw_mutation_record, .kind = kind,
                .vertex = note->vertex[0] != '\0' ? note->vertex : NULL, .text = note->text,
                .exact = note->exact);
    if (c->opts != NULL && c->opts->record != NULL)
        c->opts->record(&record, c->opts->record_user);
}

/* Utility of neurons, moved along with them: by the lineage of the vertices they are in. */

#define NEW_UTILITY 0x1p-23f /* next to nothing: any neuron that was of use is kept first */

static float useful(float x)
{
    return isfinite(x) && x > 0 ? x : 0;
}

/* Lists are in the order of vertices as a rule: the search goes on where the last one ended. */
static const sw_neuron_utility *utility_of(const swi_parent_utility *parent, uint32_t vertex,
                                           size_t *from)
{
    for (size_t i = 0; i < parent->n; i++) {
        const size_t at = (*from + i) % parent->n;
        if (parent->list[at].vertex == vertex) {
            *from = at + 1;
            return &parent->list[at];
        }
    }
    return NULL;
}

sw_status swi_utilities_of(swi_utilities *u, const sw_genome *g,
                           const swi_parent_utility parents[2])
{
    size_t from[2] = {0}, at = 0;
    u->n = 0;
    if (parents[0].n + parents[1].n == 0)
        return SW_OK;
    size_t values = 0;
    for (uint32_t i = 0; i < g->n; i++)
        values += swi_vertex_has_parameters(&g->vertices[i]) ? g->vertices[i].channels : 0;
    SW_TRY(sw_heap_reserve(&u->list, SW_HEAP_RECORDS, &u->cap, g->n));
    if (values > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "utilities of %zu neurons are too many", values);
    SW_TRY(sw_heap_reserve(&u->values, SW_HEAP_RECORDS, &u->values_cap, (uint32_t)values));

    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        const bool fresh = v->parent > 1;
        if (!swi_vertex_has_parameters(v))
            continue;
        const sw_neuron_utility *was =
            fresh ? NULL : utility_of(&parents[v->parent], v->was, &from[v->parent]);
        if (was == NULL && !(fresh && swi_vertex_is_sized(v)))
            continue;
        /* Of a vertex with rows; `was` NULL: all of it is new. */
        float *to = u->values + at;
        for (int64_t j = 0; j < v->channels; j++) {
            const int32_t row = was != NULL && v->rows != NULL ? v->rows[j] : SWI_NEW;
            to[j] = row >= 0 && row < was->n ? useful(was->values[row]) : NEW_UTILITY;
        }
        u->list[u->n++] =
            (sw_neuron_utility){.vertex = i, .n = v->channels, .values = u->values + at};
        at += (size_t)v->channels;
    }
    return SW_OK;
}

sw_status swi_utility_check(const sw_genome *g, const sw_neuron_utility *list, size_t n,
                            const char *call)
{
    if (n > 0 && list == NULL)
        SW_FAIL(SW_INVALID, "%s: utilities must not be NULL where there are %zu", call, n);
    for (size_t i = 0; i < n; i++) {
        const sw_neuron_utility *u = &list[i];
        if (u->vertex >= g->n)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: the vertex must be below %u, the number of "
                    "vertices (got %u)",
                    call, i, g->n, u->vertex);
        const swi_vertex *v = &g->vertices[u->vertex];
        if (!swi_vertex_has_parameters(v))
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: it must be of a vertex with parameters (got %s '%s')",
                    call, i, sw_vertex_kind_name(v->kind), v->name);
        if (u->n != v->channels || u->values == NULL)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: vertex '%s' has %lld neurons, and there must be a value "
                    "for each (got %lld%s)",
                    call, i, v->name, (long long)v->channels, (long long)u->n,
                    u->values == NULL ? ", and NULL" : "");
        if (u->reserved[0] != 0 || u->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: utility %zu: reserved must be zero", call, i);
    }
    return SW_OK;
}
