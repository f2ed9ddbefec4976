/* Edges: what reads more than it did, and what reads less. */
#include "runtime/population/evolve/mutate.h"
#include <stdio.h>
#include <string.h>

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

bool swi_can_add_edge(const sw_genome *g, uint32_t v)
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

static sw_status insert_join(swi_child *c, edge e, sw_vertex_kind kind)
{
    sw_genome *g = c->genome;
    swi_vertex join = swi_vertex_of(kind);
    if (g->n >= c->opts->max_vertices)
        SW_FAIL(SW_UNSUPPORTED, "the genome has %u vertices, and more must not be", g->n);
    swi_genome_fresh_name(g, join.name);
    join.in[0] = g->vertices[e.to].in[e.k];
    join.in[1] = e.from;
    join.n_in = 2;
    SW_TRY(swi_genome_insert(g, e.to, &join));
    g->vertices[e.to + 1].in[e.k] = e.to;
    return SW_OK;
}

static void extend(swi_vertex *join, uint32_t from)
{
    join->in[join->n_in++] = from;
}

static sw_status join_by_add(swi_child *c, edge e)
{
    sw_genome *g = c->genome;
    const swi_tie tie = {.a = g->vertices[e.to].in[e.k], .b = e.from};
    SW_TRY(swi_child_align(c, NULL, 0, &tie, 1, NULL));
    if (!e.extend)
        return insert_join(c, e, SW_VERTEX_ADD);
    extend(&g->vertices[e.to], e.from);
    return SW_OK;
}

/* The layer's columns of what it read are in front, the new ones after them. */
static sw_status join_by_concat(swi_child *c, edge e)
{
    sw_genome *g = c->genome;
    void *block;
    const int64_t had = swi_vertex_reads(g, &g->vertices[e.to]);
    const int64_t n = had + g->vertices[e.from].channels;
    if (n > SWI_MAX_UNITS)
        SW_FAIL(SW_UNSUPPORTED, "%lld inputs are more than a vertex may have", (long long)n);
    if (e.extend)
        extend(&g->vertices[g->vertices[e.to].in[e.k]], e.from);
    else
        SW_TRY(insert_join(c, e, SW_VERTEX_CONCAT));
    swi_vertex *to = &g->vertices[e.to + !e.extend];
    if (to->cols == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof(int32_t)));
    int32_t *map = block;
    for (int64_t i = 0; i < n; i++)
        map[i] = i < had ? (int32_t)i : SWI_NEW;
    const sw_status status = swi_vertex_move_cols(to, map, (size_t)n);
    sw_heap_free(block, SW_HEAP_RECORDS, (size_t)n * sizeof(int32_t));
    return status;
}

sw_status swi_add_edge(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
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
    memcpy(note->vertex, c->genome->vertices[v].name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: %s what %s reads", note->vertex,
             add ? "added to" : "beside", c->genome->vertices[e.to].name);
    note->exact = !add;
    return add ? join_by_add(c, e) : join_by_concat(c, e);
}

/* ---- one less ---------------------------------------------------------------------------- */

/* Input k of a join can go: someone else reads it, and where one input is left, the join too.
 */
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

bool swi_can_remove_edge(const sw_genome *g, uint32_t v)
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

static uint32_t draw_cut(swi_child *c, uint32_t v)
{
    uint32_t can[SWI_MAX_INPUTS], n = 0;
    for (uint32_t k = 0; k < c->genome->vertices[v].n_in; k++)
        if (can_cut(c->genome, v, k))
            can[n++] = k;
    return can[swi_draw_below(&c->draws, n)];
}

sw_status swi_remove_edge(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
{
    sw_genome *g = c->genome;
    swi_vertex *join = &g->vertices[v];
    const uint32_t k = draw_cut(c, v);
    (void)m;
    memcpy(note->vertex, join->name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: reads %s no more", join->name,
             g->vertices[join->in[k]].name);
    memmove(join->in + k, join->in + k + 1, (join->n_in - k - 1) * sizeof *join->in);
    join->n_in--;
    if (join->kind == SW_VERTEX_CONCAT)
        SW_TRY(swi_positions_follow(g, c->before, v, 1u << k));
    if (join->n_in > 1)
        return SW_OK;
    const uint32_t x = join->in[0];
    return swi_pass_over(g, v, x);
}
