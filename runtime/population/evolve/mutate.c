/* Children of genomes: the mutations of a list, one after the other. */
#include "alloc/base/error.h"
#include "runtime/base/structs.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the n words other than `had`, drawn; -1: there is none. */
static int draw_other(swi_child *c, const char *const *words, int n, const char *had)
{
    uint32_t others = 0;
    for (int i = 0; i < n; i++)
        others += strcmp(words[i], had) != 0;
    uint32_t which = others > 0 ? swi_draw_below(&c->draws, others) : 0;
    for (int i = 0; i < n && others > 0; i++)
        if (strcmp(words[i], had) != 0 && which-- == 0)
            return i;
    return -1;
}

/* Edges: what reads more than it did, and what reads less. */

static bool reads(const swi_vertex *v, uint32_t x)
{
    for (uint32_t k = 0; k < v->n_in; k++)
        if (v->in[k] == x)
            return true;
    return false;
}

static uint32_t edges_from(const sw_genome *g, uint32_t x)
{
    uint32_t n = 0;
    for (uint32_t i = x + 1; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            n += g->vertices[i].in[k] == x;
    return n;
}

/* ---- one more ---------------------------------------------------------------------------- */

static bool can_add_edge(const sw_genome *g, uint32_t v)
{
    return v + 1 < g->n && (g->vertices[v].shield & SW_SHIELD_OUTPUTS) == 0;
}

/* The join goes before vertex `to`, where it reads y = in[k], or is `to` itself. */
typedef struct {
    uint32_t from, to, k;
    bool extend;
} edge;

static bool same_place(const sw_genome *g, uint32_t a, uint32_t b)
{
    const swi_vertex *x = &g->vertices[a], *y = &g->vertices[b];
    return x->height == y->height && x->width == y->width;
}

/* x + y for who reads y; the input's size is given, so that nothing is added to it. */
static bool can_add(const sw_genome *g, edge e)
{
    const swi_vertex *to = &g->vertices[e.to], *y = &g->vertices[to->in[e.k]];
    if (e.from == 0 || to->in[e.k] == 0)
        return false;
    if (e.extend)
        return to->kind == SW_VERTEX_ADD && to->n_in < SWI_MAX_INPUTS && !reads(to, e.from);
    return to->kind != SW_VERTEX_ADD && !(y->kind == SW_VERTEX_ADD && reads(y, e.from));
}

/* x beside y for a layer that can have more columns: those of x begin with 0. A concat that it
 * alone reads has more parts then. */
static bool can_join(const sw_genome *g, edge e)
{
    const swi_vertex *to = &g->vertices[e.to], *y = &g->vertices[to->in[e.k]];
    const bool has = y->kind == SW_VERTEX_CONCAT && edges_from(g, to->in[e.k]) == 1 &&
                     e.from < to->in[e.k] && (y->shield & SW_SHIELD_INPUTS) == 0 &&
                     y->n_in < SWI_MAX_INPUTS;
    return swi_vertex_is_sized(to) && (to->kind == SW_VERTEX_LINEAR || to->groups == 1) &&
           e.extend == has && !(y->kind == SW_VERTEX_CONCAT && reads(y, e.from));
}

static bool is_possible(const sw_genome *g, edge e, bool add)
{
    const swi_vertex *to = &g->vertices[e.to];
    const uint32_t y = to->in[e.k];
    if ((to->shield & SW_SHIELD_INPUTS) != 0 ||
        (g->vertices[y].shield & SW_SHIELD_OUTPUTS) != 0 || y == e.from ||
        !same_place(g, e.from, y))
        return false;
    return add ? can_add(g, e) : can_join(g, e);
}

/* Number `which` of the possible ones; how many there are. */
static uint32_t list_edges(const sw_genome *g, uint32_t from, bool add, uint32_t which,
                           edge *out)
{
    uint32_t n = 0;
    for (uint32_t to = from + 1; to < g->n; to++)
        for (uint32_t k = 0; k < g->vertices[to].n_in; k++)
            for (int extend = 0; extend < 2; extend++) {
                const edge e = {from, to, k, extend != 0};
                if (add && extend != 0 && k > 0) /* an add has one way to be extended */
                    continue;
                if (is_possible(g, e, add) && n++ == which)
                    *out = e;
            }
    return n;
}

static bool draw_edge(swi_child *c, uint32_t from, bool add, edge *out)
{
    const uint32_t n = list_edges(c->genome, from, add, UINT32_MAX, out);
    if (n > 0)
        (void)list_edges(c->genome, from, add, swi_draw_below(&c->draws, n), out);
    return n > 0;
}

static sw_status add_edge(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
{
    edge e = {0};
    bool add = swi_draw_happens(&c->draws, 0.5);
    (void)m;
    if (!draw_edge(c, v, add, &e)) {
        add = !add;
        if (!draw_edge(c, v, add, &e))
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s': no later vertex can read it too",
                    c->genome->vertices[v].name);
    }
    sw_genome *g = c->genome;
    swi_vertex join = swi_vertex_of(add ? SW_VERTEX_ADD : SW_VERTEX_CONCAT);
    const uint32_t y = g->vertices[e.to].in[e.k], extended = add ? e.to : y;
    char name[SWI_VERTEX_NAME], to[SWI_VERTEX_NAME];
    memcpy(name, g->vertices[v].name, sizeof name);
    memcpy(to, g->vertices[e.to].name, sizeof to);
    if (e.extend) {
        SW_TRY(swi_edit_rewire(c, extended, g->vertices[extended].n_in, e.from, note));
    } else {
        swi_genome_fresh_name(g, join.name);
        join.in[0] = y;
        join.in[1] = e.from;
        join.n_in = 2;
        SW_TRY(swi_edit_add(c, &join, e.to, e.to, e.k, note));
    }
    swi_edit_note(note, name, "%s what %s reads", add ? "added to" : "beside", to);
    note->exact = !add;
    return SW_OK;
}

/* ---- one less ---------------------------------------------------------------------------- */

/* Input k of a join can go: someone else reads it, and where one input is left, the join
 * too. */
static bool can_cut(const sw_genome *g, uint32_t v, uint32_t k)
{
    const swi_vertex *join = &g->vertices[v], *x = &g->vertices[join->in[k]];
    return (x->shield & SW_SHIELD_OUTPUTS) == 0 && edges_from(g, join->in[k]) > 1;
}

static bool can_collapse(const sw_genome *g, uint32_t v)
{
    return v + 1 < g->n && (g->vertices[v].shield & SW_SHIELD_REMOVE) == 0 &&
           swi_inputs_free(g, v) && swi_outputs_free(g, v);
}

static bool can_remove_edge(const sw_genome *g, uint32_t v)
{
    const swi_vertex *join = &g->vertices[v];
    if ((join->kind != SW_VERTEX_ADD && join->kind != SW_VERTEX_CONCAT) ||
        (join->shield & SW_SHIELD_INPUTS) != 0 || (join->n_in == 2 && !can_collapse(g, v)))
        return false;
    for (uint32_t k = 0; k < join->n_in; k++)
        if (can_cut(g, v, k))
            return true;
    return false;
}

static sw_status remove_edge(swi_child *c, const sw_mutation *m, uint32_t v,
                             swi_change_note *note)
{
    (void)m;
    uint32_t can[SWI_MAX_INPUTS], n = 0;
    for (uint32_t k = 0; k < c->genome->vertices[v].n_in; k++)
        if (can_cut(c->genome, v, k))
            can[n++] = k;
    return swi_edit_rewire(c, v, can[swi_draw_below(&c->draws, n)], UINT32_MAX, note);
}

/* Kernels, kinds of pools, activations. */

#define MOST_KERNEL 15 /* the largest of a max pool */

static bool can_kernel(const sw_genome *g, uint32_t v)
{
    const swi_vertex *x = &g->vertices[v];
    return (x->kind == SW_VERTEX_CONV2D || x->kind == SW_VERTEX_MAX_POOL ||
            x->kind == SW_VERTEX_AVG_POOL) &&
           (x->shield & SW_SHIELD_KERNEL) == 0;
}

/* A larger window sees something of the image: an odd one reaches at most one over its smaller
 * side, an even one, which is not padded, lies within. */
static bool is_useful(const swi_vertex *v, const swi_vertex *x, int64_t kernel)
{
    const int64_t side = x->height < x->width ? x->height : x->width;
    const int64_t dilation = v->kind == SW_VERTEX_CONV2D ? v->dilation : 1;
    const int64_t reach = (kernel - 1) * dilation + (kernel % 2 == 0);
    return kernel >= 1 && (kernel < v->kernel || (kernel <= MOST_KERNEL && reach <= side));
}

/* Another kernel from low to high further; 0: there is none. */
static int32_t draw_kernel(swi_child *c, const sw_mutation *m, const swi_vertex *v)
{
    double low, high;
    int32_t can[2 * MOST_KERNEL + 2];
    uint32_t n = 0;
    swi_mutation_range(m, &low, &high);
    const swi_vertex *x = &c->genome->vertices[v->in[0]];
    for (int32_t k = v->kernel % 2 == 0 ? 2 : 1; k <= 2 * MOST_KERNEL; k += 2)
        if (k != v->kernel && k - v->kernel >= low && k - v->kernel <= high &&
            is_useful(v, x, k))
            can[n++] = k;
    return n > 0 ? can[swi_draw_below(&c->draws, n)] : 0;
}

static sw_status change_kernel(swi_child *c, const sw_mutation *m, uint32_t v,
                               swi_change_note *note)
{
    const swi_vertex *x = &c->genome->vertices[v];
    const int32_t kernel = draw_kernel(c, m, x);
    if (kernel == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': no other kernel can be", x->name);
    return swi_edit_number(c, v, "kernel", kernel, note);
}

/* ---- pools ------------------------------------------------------------------------------- */

static bool can_pool(const sw_genome *g, uint32_t v)
{
    return swi_other_pool(g->vertices[v].kind) != SW_VERTEX_INPUT &&
           (g->vertices[v].shield & SW_SHIELD_KERNEL) == 0;
}

static sw_status change_pool(swi_child *c, const sw_mutation *m, uint32_t v,
                             swi_change_note *note)
{
    const sw_vertex_kind other = swi_other_pool(c->genome->vertices[v].kind);
    (void)m;
    return swi_edit_word(c, v, "kind", sw_vertex_kind_name(other), note);
}

/* ---- activations ------------------------------------------------------------------------- */

static bool can_activation(const sw_genome *g, uint32_t v)
{
    return g->vertices[v].kind == SW_VERTEX_ACTIVATION &&
           (g->vertices[v].shield & SW_SHIELD_ACTIVATION) == 0;
}

static sw_status change_activation(swi_child *c, const sw_mutation *m, uint32_t v,
                                   swi_change_note *note)
{
    const sw_search_space *space;
    const swi_vertex *x = &c->genome->vertices[v];
    (void)m;
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = &space->training;
    const int i =
        draw_other(c, t->activations, t->n_activations, swi_activation_name(x->activation));
    if (i < 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': the space has no other activation", x->name);
    return swi_edit_word(c, v, "activation", t->activations[i], note);
}

/* Sizes: all chosen vertices at once. */

bool swi_can_size(const sw_genome *g, uint32_t v)
{
    return v + 1 < g->n && swi_vertex_is_sized(&g->vertices[v]) &&
           (g->vertices[v].shield & SW_SHIELD_SIZE) == 0;
}

int64_t swi_size_by(const swi_child *c, int64_t size, double share)
{
    const int64_t by = (int64_t)ceil(fabs(share) * (double)size - 1e-9);
    if (share < 0)
        return size - by;
    const int64_t most = size > c->opts->max_size ? size : c->opts->max_size;
    return by > most - size ? most : size + by;
}

bool swi_growth_is_exact(const sw_genome *now, const sw_genome *before)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const swi_vertex *v = &now->vertices[i], *w = &before->vertices[i];
        if (v->parent == SWI_NO_PARENT && swi_vertex_has_parameters(v) &&
            (v->channels != w->channels ||
             swi_vertex_reads(now, v) != swi_vertex_reads(before, w)))
            return false;
    }
    return true;
}

/* Those that would fall below 1 are left alone. */
static sw_status draw_wishes(swi_child *c, const sw_mutation *m, uint32_t n, uint32_t *wishes)
{
    double low, high;
    swi_mutation_range(m, &low, &high);
    *wishes = 0;
    SW_TRY(sw_heap_reserve(&c->wishes, SW_HEAP_RECORDS, &c->wishes_cap, n));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = swi_genome_find(c->genome, c->names[i]);
        const int64_t size = c->genome->vertices[v].size;
        const int64_t to = swi_size_by(c, size, swi_draw_range(&c->draws, low, high));
        if (to >= 1 && to != size)
            c->wishes[(*wishes)++] = (swi_wish){.vertex = v, .size = to};
    }
    return SW_OK;
}

/* Of the n vertices in c->names: one change, settled and recorded. */
static sw_status change_sizes(swi_child *c, const sw_mutation *m, uint32_t n)
{
    uint32_t wishes;
    bool stays;
    swi_align_info info = {0};
    SW_TRY(draw_wishes(c, m, n, &wishes));
    if (wishes == 0)
        return SW_OK;
    SW_TRY(swi_child_begin(c));
    const sw_status status = swi_child_align(c, c->wishes, wishes, NULL, 0, &info);
    if (status == SW_OK && info.added + info.dropped == 0)
        return SW_OK; /* nothing moved: there is nothing to ask about */
    SW_TRY(swi_child_accept(c, status, &stays));
    if (stays) {
        const bool exact = info.dropped == 0 && swi_growth_is_exact(c->genome, c->before);
        for (uint32_t i = 0; i < c->genome->n; i++) {
            const swi_vertex *v = &c->genome->vertices[i], *was = &c->before->vertices[i];
            swi_change_note note = {.exact = exact};
            if (!swi_vertex_is_sized(v) || v->size == was->size)
                continue;
            swi_edit_note(&note, v->name, "%lld to %lld outputs", (long long)was->size,
                          (long long)v->size);
            swi_child_record(c, SW_MUTATE_SIZE, &note);
        }
    }
    return SW_OK;
}

/* Learning rate, optimizer and batch. The net computes what it did. */

static sw_status change_rate(swi_child *c, const sw_mutation *m, uint32_t v,
                             swi_change_note *note)
{
    double low, high;
    const float had = c->genome->lr;
    swi_mutation_range(m, &low, &high);
    const double lr = (double)had * (1 + swi_draw_range(&c->draws, low, high));
    const float to = (float)fmin(fmax(lr, 1e-6), 1);
    if (to == had)
        SW_FAIL(SW_UNSUPPORTED, "the learning rate stays %g", (double)had);
    return swi_edit_number(c, v, "lr", (double)to, note);
}

/* ---- optimizer --------------------------------------------------------------------------- */

/* The rate stays, and the momentum where the kind has one. */
static sw_status change_optimizer(swi_child *c, const sw_mutation *m, uint32_t v,
                                  swi_change_note *note)
{
    const sw_search_space *space;
    const sw_genome *g = c->genome;
    (void)m;
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = &space->training;
    const int i = draw_other(c, t->optimizers, t->n_optimizers, g->optimizer);
    if (i < 0)
        SW_FAIL(SW_UNSUPPORTED, "the space has no other optimizer than %s", g->optimizer);
    return swi_edit_word(c, v, "optimizer", t->optimizers[i], note);
}

/* Weight decay, clip or momentum: there, or gone. */
static sw_status change_optimizer_part(swi_child *c, const sw_mutation *m, uint32_t v,
                                       swi_change_note *note)
{
    const sw_genome *g = c->genome;
    const uint32_t part = swi_draw_below(&c->draws, swi_has_momentum(g->optimizer) ? 3 : 2);
    (void)m;
    if (part == 0)
        return swi_edit_number(c, v, "weight_decay", g->weight_decay != 0 ? 0 : 1e-4, note);
    if (part == 1)
        return swi_edit_number(c, v, "clip", g->clip != 0 ? 0 : 1, note);
    return swi_edit_number(c, v, "momentum", g->momentum != 0 ? 0 : 0.9, note);
}

/* ---- batch ------------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* By a share of the list's length, at least one on. */
static int64_t step_list(const swi_space_training *t, int64_t batch, double share)
{
    int at = 0;
    for (int i = 1; i < t->n_batches; i++)
        if (llabs(t->batches[i] - batch) < llabs(t->batches[at] - batch))
            at = i;
    int by = (int)lround(share * t->n_batches);
    by = by != 0 ? by : share < 0 ? -1 : 1;
    return t->batches[clamp(at + by, 0, t->n_batches - 1)];
}

/* A multiple of 8 that is at least one further; below 8 any number. */
static int64_t step_range(const swi_space_training *t, int64_t batch, double share)
{
    const double to = fmin((double)batch * (1 + share), 1e9);
    const int64_t unit = batch < 8 && to < 8 ? 1 : 8;
    int64_t units = (int64_t)lround(to / (double)unit);
    if (units * unit == batch)
        units += share < 0 ? -1 : 1;
    const int64_t low = t->batch_low > 0 ? t->batch_low : 1;
    const int64_t high = t->batch_high > 0 ? t->batch_high : INT32_MAX;
    const int64_t first = (low + unit - 1) / unit, last = high / unit;
    if (first > last) /* the range has no multiple */
        return clamp(units * unit, low, high);
    return unit * clamp(units, first, last);
}

static sw_status change_batch(swi_child *c, const sw_mutation *m, uint32_t v,
                              swi_change_note *note)
{
    double low, high;
    const sw_search_space *space;
    const int64_t had = c->genome->batch;
    swi_mutation_range(m, &low, &high);
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = &space->training;
    const double share = swi_draw_range(&c->draws, low, high);
    const int64_t to = t->n_batches > 0 ? step_list(t, had, share) : step_range(t, had, share);
    if (to == had)
        SW_FAIL(SW_UNSUPPORTED, "the batch stays %lld", (long long)had);
    return swi_edit_number(c, v, "batch", (double)to, note);
}

/* Vertices that are put in between others, and that go. */

/* ---- one more ---------------------------------------------------------------------------- */

static bool can_add_vertex(const sw_genome *g, uint32_t v)
{
    return v > 0 && v + 1 < g->n && swi_outputs_free(g, v);
}

/* Three times in four it begins as the identity, so that what was learnt is not disturbed;
 * joins, pools and norms, which cannot, are among the others. Not after the input, whose size
 * is given: a layer there would have its size. */
static sw_status add_vertex(swi_child *c, const sw_mutation *m, uint32_t v,
                            swi_change_note *note)
{
    uint32_t first = 0, n = 0;
    const sw_search_space *space = m->space;
    if (space == NULL)
        SW_TRY(swi_child_space(c, &space));
    const bool identity = swi_draw_happens(&c->draws, 0.75);
    SW_TRY(swi_space_insert(space, c->genome, v, identity, &c->draws, &first, &n));
    if (c->genome->n > c->opts->max_vertices)
        SW_FAIL(SW_UNSUPPORTED, "the genome has %u vertices, and more than %u must not be",
                c->genome->n, c->opts->max_vertices);
    const swi_vertex *behind = &c->before->vertices[v], *one = &c->genome->vertices[first];
    char more[32] = "";
    if (n > 1)
        snprintf(more, sizeof more, " and %u more", n - 1);
    swi_edit_note(note, one->name, "%s%s after %s", sw_vertex_kind_name(one->kind), more,
                  behind->name);
    note->exact = true;
    for (uint32_t i = first; i < first + n; i++)
        note->exact = note->exact && swi_is_identity(c->genome, &c->genome->vertices[i]);
    return SW_OK;
}

/* ---- one less ---------------------------------------------------------------------------- */

/* A vertex that makes a vector of an image has to stay. */
static bool can_remove_vertex(const sw_genome *g, uint32_t v)
{
    const swi_vertex *x = &g->vertices[v];
    return v > 0 && v + 1 < g->n && (x->shield & SW_SHIELD_REMOVE) == 0 &&
           (x->height == 0) == (g->vertices[x->in[0]].height == 0) && swi_inputs_free(g, v) &&
           swi_outputs_free(g, v);
}

/* Of an add or a concat one input goes on, and what made the others goes too. */
static sw_status remove_vertex(swi_child *c, const sw_mutation *m, uint32_t v,
                               swi_change_note *note)
{
    (void)m;
    return swi_edit_remove(c, v, swi_draw_below(&c->draws, c->genome->vertices[v].n_in), note);
}

/* Edits of the caller's own. Where the genome is as it was, or the callback says SW_UNSUPPORTED
 * or SW_INVALID, nothing happened. */
static sw_status change_custom(swi_child *c, const sw_mutation *m, uint32_t v,
                               swi_change_note *note)
{
    const uint64_t seed = swi_draw_bits(&c->draws), said = sw_error_count();
    (void)v;
    swi_edit_note(note, "", "custom");
    note->exact = true;
    c->note = note;
    c->genome->editor = c;
    const sw_status status = m->fn(c->genome, seed, m->user);
    c->genome->editor = NULL;
    SW_TRY(sw_call_status(status, said, "sw_mutation.fn"));
    if (swi_genome_hash(c->genome) == swi_genome_hash(c->before))
        SW_FAIL(SW_UNSUPPORTED, "sw_mutation.fn changed nothing");
    return SW_OK;
}

/* The list of mutations: what each is called, what it is drawn for, what does it. */

typedef enum {
    EACH,  /* chosen vertices, each a change of its own */
    JOINT, /* chosen vertices, one change of all */
    WHOLE  /* of the genome */
} mutation_scope;
typedef struct {
    const char *name;
    mutation_scope scope;
    double low, high, least; /* where both are 0; low must be above `least` */
    bool (*can)(const sw_genome *genome, uint32_t vertex); /* WHOLE: NULL */
    swi_mutate_fn *apply; /* SW_OK: it changed something, as the note says. JOINT: NULL */
} mutation_rule;

static const mutation_rule rules[SW_MUTATION_KINDS] = {
    /* clang-format off */
    [SW_MUTATE_SIZE]           = {"size", JOINT, -0.2, 0.2, -1, swi_can_size, NULL},
    [SW_MUTATE_ADD_VERTEX]     = {"add_vertex", EACH, 0, 0, 0, can_add_vertex, add_vertex},
    [SW_MUTATE_REMOVE_VERTEX]  = {"remove_vertex", EACH, 0, 0, 0, can_remove_vertex, remove_vertex},
    [SW_MUTATE_ADD_EDGE]       = {"add_edge", EACH, 0, 0, 0, can_add_edge, add_edge},
    [SW_MUTATE_REMOVE_EDGE]    = {"remove_edge", EACH, 0, 0, 0, can_remove_edge, remove_edge},
    [SW_MUTATE_KERNEL]         = {"kernel", EACH, -2, 2, -1000, can_kernel, change_kernel},
    [SW_MUTATE_ACTIVATION]     = {"activation", EACH, 0, 0, 0, can_activation, change_activation},
    [SW_MUTATE_POOL]           = {"pool", EACH, 0, 0, 0, can_pool, change_pool},
    [SW_MUTATE_RATE]           = {"rate", WHOLE, -0.15, 0.15, -1, NULL, change_rate},
    [SW_MUTATE_OPTIMIZER]      = {"optimizer", WHOLE, 0, 0, 0, NULL, change_optimizer},
    [SW_MUTATE_OPTIMIZER_PART] = {"optimizer_part", WHOLE, 0, 0, 0, NULL, change_optimizer_part},
    [SW_MUTATE_BATCH]          = {"batch", WHOLE, -0.5, 0.5, -1, NULL, change_batch},
    [SW_MUTATE_GROW]           = {"grow", WHOLE, 0, 1, -0x1p-52, NULL, swi_grow},
    [SW_MUTATE_CUSTOM]         = {"custom", WHOLE, 0, 0, 0, NULL, change_custom},
    /* clang-format on */
};

const char *sw_mutation_kind_name(sw_mutation_kind kind)
{
    return (unsigned)kind < SW_MUTATION_KINDS ? rules[kind].name : NULL;
}

void swi_mutation_range(const sw_mutation *m, double *low, double *high)
{
    const bool given = m->low != 0 || m->high != 0;
    *low = given ? m->low : rules[m->kind].low;
    *high = given ? m->high : rules[m->kind].high;
}

/* NaiveGAflux's list for images (AutoFlux), with higher probabilities for smaller genomes: of
 * 12 vertices, some 4 of them sized, 3 with kernels, 3 activations, 1 pool and 1 add, it makes
 * about 1.5 changes: sizes 0.4 (by two lines, so that what is of little use shrinks twice as
 * often as it grows), vertices 0.35, edges 0.15, kernels, activations and pools 0.2, training
 * 0.35, growth 0.02. Above 2e8 parameters nothing grows any more. */
#define LARGE 200000000u
static const sw_mutation defaults[] = {
    {.kind = SW_MUTATE_SIZE, .probability = 0.05, .max_parameters = LARGE},
    SW_INIT(.kind = SW_MUTATE_SIZE, .probability = 0.05, .weigh = SW_WEIGH_LOW, .low = -0.2,
            .high = -0x1p-20),
    {.kind = SW_MUTATE_ADD_VERTEX, .probability = 0.02, .max_parameters = LARGE},
    SW_INIT(.kind = SW_MUTATE_REMOVE_VERTEX, .probability = 0.02, .weigh = SW_WEIGH_LOW,
            .min_vertices = 6),
    {.kind = SW_MUTATE_ADD_EDGE, .probability = 0.01, .max_parameters = LARGE},
    {.kind = SW_MUTATE_REMOVE_EDGE, .probability = 0.05},
    {.kind = SW_MUTATE_KERNEL, .probability = 0.02, .max_parameters = LARGE},
    {.kind = SW_MUTATE_ACTIVATION, .probability = 0.02},
    {.kind = SW_MUTATE_POOL, .probability = 0.1},
    {.kind = SW_MUTATE_GROW, .probability = 0.02, .max_parameters = LARGE},
    {.kind = SW_MUTATE_RATE, .probability = 0.15},
    {.kind = SW_MUTATE_OPTIMIZER, .probability = 0.05},
    {.kind = SW_MUTATE_OPTIMIZER_PART, .probability = 0.05},
    {.kind = SW_MUTATE_BATCH, .probability = 0.1},
};

const sw_mutation *sw_mutations_default(size_t *n)
{
    if (n != NULL)
        *n = sizeof defaults / sizeof *defaults;
    return defaults;
}

static sw_status check_one(const sw_mutation *m, size_t i, const char *call)
{
    if ((unsigned)m->kind >= SW_MUTATION_KINDS)
        SW_FAIL(SW_INVALID, "%s: mutation %zu: kind %d is none", call, i, (int)m->kind);
    const char *name = rules[m->kind].name;
    if ((unsigned)m->weigh > SW_WEIGH_LOW)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): weigh %d is none", call, i, name,
                (int)m->weigh);
    if (!(m->probability >= 0 && m->probability <= 1))
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): the probability must be 0 to 1 (got %g)",
                call, i, name, m->probability);
    if (rules[m->kind].scope == WHOLE && (m->weigh != SW_WEIGH_NOTHING || m->filter))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): it is of the genome: weigh and filter, which are of "
                "vertices, must be 0 and NULL",
                call, i, name);
    if (m->space != NULL)
        SW_TRY(sw_handle_check(m->space, SW_HANDLE_SEARCH_SPACE, call));
    if ((m->kind == SW_MUTATE_CUSTOM) != (m->fn != NULL))
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): fn must %s", call, i, name,
                m->fn != NULL ? "be NULL: it is of the kind custom" : "not be NULL");
    if (m->reserved[0] != 0)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): reserved must be zero", call, i, name);
    const mutation_rule *rule = &rules[m->kind];
    if (m->low == 0 && m->high == 0)
        return SW_OK;
    if (rule->low == 0 && rule->high == 0)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): it has no range, low and high must be 0",
                call, i, rule->name);
    if (!isfinite(m->low) || !isfinite(m->high) || m->low > m->high || fabs(m->high) > 1e6 ||
        !(m->low > rule->least))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): low must be above %.3g and not above high, which is at "
                "most 1e6 (got %g and %g)",
                call, i, rule->name, rule->least, m->low, m->high);
    const double first = ceil(m->low / 2), last = floor(m->high / 2);
    if (m->kind == SW_MUTATE_KERNEL && (first > last || (first == 0 && last == 0)))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): there must be a step of two, other than 0, from low to "
                "high (got %g and %g)",
                call, i, rule->name, m->low, m->high);
    return SW_OK;
}

/* ---- which vertices: those that it can change, each by its probability ------------------- */

double swi_weighed(double p, sw_weigh weigh_choose, double u, double m, double a)
{
    if (weigh_choose == SW_WEIGH_NOTHING || !(m > 0))
        return p;
    if (weigh_choose == SW_WEIGH_HIGH)
        return pow(p, (2 * sqrt(m) - sqrt(u)) / (2 * sqrt(m) - sqrt(a)));
    u /= m; /* shares of m: its square may be out of range */
    a /= m;
    return pow(p, (2 - a * a) / (2 - u * u));
}

static double mean_of(const sw_neuron_utility *u)
{
    double sum = 0;
    for (int64_t i = 0; i < u->n; i++)
        sum += (double)u->values[i];
    return u->n > 0 ? sum / (double)u->n : 0;
}

typedef struct {
    double most, mean; /* of the vertices that it can change and that have a utility */
} weights;

static weights weigh_choose(const swi_child *c, const bool *can)
{
    weights w = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->utilities.n; i++)
        if (can[c->utilities.list[i].vertex]) {
            const double mean = mean_of(&c->utilities.list[i]);
            w.most = fmax(w.most, mean);
            w.mean += mean;
            n++;
        }
    w.mean /= n > 0 ? n : 1;
    return w;
}

/* Their names in c->names, *n of them. */
static sw_status choose(swi_child *c, const sw_mutation *m, uint32_t *n)
{
    bool can[SWI_MAX_VERTICES];
    *n = 0;
    for (uint32_t v = 0; v < c->genome->n; v++) {
        can[v] = rules[m->kind].can(c->genome, v) &&
                 (m->filter == NULL || m->filter(c->genome, v, m->user) != 0);
    }
    c->utilities.n = 0;
    if (m->weigh != SW_WEIGH_NOTHING)
        SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const weights w = weigh_choose(c, can);
    const sw_neuron_utility *u = c->utilities.list;
    for (uint32_t v = 0, i = 0; v < c->genome->n; v++) {
        const bool has = i < c->utilities.n && u[i].vertex == v;
        const double mean = has ? mean_of(&u[i]) : 0;
        i += has;
        if (!can[v])
            continue;
        const double p =
            has ? swi_weighed(m->probability, m->weigh, mean, w.most, w.mean) : m->probability;
        if (swi_draw_happens(&c->draws, p)) {
            SW_TRY(sw_heap_reserve(&c->names, SW_HEAP_RECORDS, &c->names_cap, *n + 1));
            memcpy(c->names[(*n)++], c->genome->vertices[v].name, sizeof *c->names);
        }
    }
    return SW_OK;
}

/* ---- mutate ------------------------------------------------------------------------------ */

#define MOST_VERTICES 1024
#define MOST_SIZE 4096

static bool applies(const swi_child *c, const sw_mutation *m)
{
    return c->genome->n >= m->min_vertices &&
           (m->max_parameters == 0 || swi_genome_parameters(c->genome) <= m->max_parameters);
}

/* One change of vertex v, or of the whole. */
static sw_status change(swi_child *c, const sw_mutation *m, uint32_t v)
{
    swi_change_note note = {.exact = false};
    bool stays;
    SW_TRY(swi_child_begin(c));
    const sw_status status = rules[m->kind].apply(c, m, v, &note);
    SW_TRY(swi_child_accept(c, status, &stays));
    if (stays)
        swi_child_record(c, m->kind, &note);
    return SW_OK;
}

SW_FRAME_OWN static sw_status mutate_by(swi_child *c, const sw_mutation *m)
{
    uint32_t n;
    if (!applies(c, m))
        return SW_OK;
    switch (rules[m->kind].scope) {
    case EACH:
        SW_TRY(choose(c, m, &n));
        /* The vertices that were chosen, by their names: earlier changes may have moved or
         * removed them. */
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t v = swi_genome_find(c->genome, c->names[i]);
            if (v != UINT32_MAX && applies(c, m) && rules[m->kind].can(c->genome, v))
                SW_TRY(change(c, m, v));
        }
        return SW_OK;
    case JOINT:
        SW_TRY(choose(c, m, &n));
        return n > 0 ? change_sizes(c, m, n) : SW_OK;
    default:
        return swi_draw_happens(&c->draws, m->probability) ? change(c, m, UINT32_MAX) : SW_OK;
    }
}

/* *genome has lineage; changes are of it, or of what takes its place. */
static sw_status mutate(sw_genome **genome, const sw_genome *parent, const sw_mutate_opts *opts)
{
    size_t n = opts->n_mutations;
    const sw_mutation *list = n > 0 ? opts->mutations : sw_mutations_default(&n);
    sw_status status = SW_OK;
    swi_child c = SW_INIT(.genome = *genome, .opts = opts, .space = opts->space,
                          .parents = {{opts->utilities, opts->n_utilities}});
    const void *const kept[] = {parent, opts->space};
    sw_call call = {.name = "sw_genome_mutate", .keeps = {SW_CALL_ONE(c.genome), {kept, 2}}};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    for (size_t i = 0; i < n && status == SW_OK; i++) {
        c.draws = swi_draws_of(opts->seed, i + 1); /* not moved by what others draw */
        status = mutate_by(&c, &list[i]);
    }
    status = sw_call_end(&call, status);
    *genome = c.genome;
    swi_child_end(&c);
    return status;
}

sw_status sw_genome_mutate(sw_genome **out, const sw_genome *parent,
                           const sw_mutate_opts *given)
{
    sw_mutate_opts opts;
    sw_genome *child;
    SW_TRY(sw_handle_check(parent, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_mutate_opts, &opts, given, __func__));
    if (opts.mutations == NULL && opts.n_mutations > 0)
        SW_FAIL(SW_INVALID, "%s: mutations must not be NULL where there are %zu", __func__,
                opts.n_mutations);
    for (size_t i = 0; i < opts.n_mutations; i++)
        SW_TRY(check_one(&opts.mutations[i], i, __func__));

    SW_TRY(swi_utility_check(parent, opts.utilities, opts.n_utilities, __func__));
    if (opts.space != NULL)
        SW_TRY(sw_handle_check(opts.space, SW_HANDLE_SEARCH_SPACE, __func__));
    if (opts.max_vertices > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "%s: max_vertices must be at most %d (got %u)", __func__,
                SWI_MAX_VERTICES, opts.max_vertices);
    if (opts.max_size < 0 || opts.max_size > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID, "%s: max_size must be 0 to %d (got %lld)", __func__, SWI_MAX_UNITS,
                (long long)opts.max_size);
    opts.max_vertices = opts.max_vertices != 0 ? opts.max_vertices : MOST_VERTICES;
    opts.max_size = opts.max_size != 0 ? opts.max_size : MOST_SIZE;

    SW_TRY(sw_genome_copy(&child, parent));
    sw_status status = swi_genome_begin_lineage(child);
    if (status == SW_OK)
        status = mutate(&child, parent, &opts);
    return SW_GIVE(status, out, child, swi_genome_free);
}
