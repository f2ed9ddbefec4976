/* Before a net inherits: are these the nets of its genome's parents, and does its lineage fit
 * them? */
#include "runtime/population/evolve/inherit.h"

static sw_status check_map(const swi_vertex *v, const char *what, const int32_t *map,
                           uint32_t n, int64_t must_be, int64_t below)
{
    if (map == NULL || (int64_t)n != must_be)
        SW_FAIL(SW_INVALID, "vertex '%s': its %s must be %lld numbers (got %u)", v->name, what,
                (long long)must_be, map == NULL ? 0 : n);
    for (uint32_t i = 0; i < n; i++)
        if (map[i] < SWI_NEW || map[i] >= below)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': %s: number %u was %d, and its parent's vertex has %lld",
                    v->name, what, i, map[i], (long long)below);
    return SW_OK;
}

static sw_status check_vertex(const swi_heir *h, const swi_vertex *v)
{
    if (v->parent == SWI_NO_PARENT)
        return SW_OK;
    const sw_net *net = v->parent < 2 ? h->parent[v->parent] : NULL;
    if (net == NULL || v->was >= net->genome->n)
        SW_FAIL(SW_INVALID,
                "vertex '%s': it was vertex %u of parent %u, and there is no such vertex",
                v->name, v->was, v->parent);
    if (!swi_vertex_has_parameters(v))
        return SW_OK;
    const swi_vertex *was = &net->genome->vertices[v->was];
    if (was->kind != v->kind || swi_vertex_is_depthwise(was) != swi_vertex_is_depthwise(v))
        SW_FAIL(SW_INVALID, "vertex '%s': it was '%s', which is of another kind", v->name,
                was->name);
    SW_TRY(check_map(v, "rows", v->rows, v->n_rows, v->channels, was->channels));
    if (!swi_vertex_is_sized(v))
        return SW_OK;
    return check_map(v, "cols", v->cols, v->n_cols, swi_vertex_reads(h->to->genome, v),
                     swi_vertex_reads(net->genome, was));
}

static sw_status check_parent(const sw_net *to, int k, const sw_net *parent)
{
    const sw_genome *g = to->genome;
    const uint64_t hash = parent != NULL ? swi_genome_hash(parent->genome) : 0;
    if (hash == g->parents[k] && parent != NULL)
        return SW_OK;
    SW_FAIL(SW_INVALID,
            "model %s: %s must be a net of its genome's %s parent, whose hash is %016llx (got "
            "%016llx)",
            to->model->name, k == 0 ? "a" : "b", k == 0 ? "first" : "second",
            (unsigned long long)g->parents[k], (unsigned long long)hash);
}

sw_status swi_heir_check(const swi_heir *h)
{
    const sw_genome *g = h->to->genome;
    if (g->n_parents == 0)
        SW_FAIL(SW_INVALID, "model %s: its genome must have parents to inherit from",
                h->to->model->name);
    if (g->n_parents == 1 && h->parent[1] != NULL)
        SW_FAIL(SW_INVALID, "model %s: b must be NULL, for its genome has one parent",
                h->to->model->name);
    for (uint32_t k = 0; k < g->n_parents; k++)
        SW_TRY(check_parent(h->to, (int)k, h->parent[k]));
    for (uint32_t i = 0; i < g->n; i++)
        SW_TRY(check_vertex(h, &g->vertices[i]));
    return SW_OK;
}
