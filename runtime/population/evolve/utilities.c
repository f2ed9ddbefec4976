/* Utility of neurons, moved along with them: by the lineage of the vertices they are in. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>

#define NEW_UTILITY 0x1p-23f /* next to nothing: any neuron that was of use is kept first */

static float clean(float x)
{
    return isfinite(x) && x > 0 ? x : 0;
}

/* Lists are in the order of vertices as a rule: the search goes on where the last one ended. */
static const sw_neuron_utility *find(const swi_parent_utility *parent, uint32_t vertex,
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

/* Of a vertex with rows; `was` NULL: all of it is new. */
static void fill(float *to, const swi_vertex *v, const sw_neuron_utility *was)
{
    for (int64_t i = 0; i < v->channels; i++) {
        const int32_t row = was != NULL && v->rows != NULL ? v->rows[i] : SWI_NEW;
        to[i] = row >= 0 && row < was->n ? clean(was->values[row]) : NEW_UTILITY;
    }
}

static sw_status reserve(swi_utilities *u, const sw_genome *g)
{
    size_t values = 0;
    for (uint32_t i = 0; i < g->n; i++)
        values += swi_vertex_has_parameters(&g->vertices[i]) ? g->vertices[i].channels : 0;
    void *block = u->list;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &u->cap, g->n, sizeof *u->list));
    u->list = block;
    block = u->values;
    if (values > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "utilities of %zu neurons are too many", values);
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &u->values_cap, (uint32_t)values,
                           sizeof *u->values));
    u->values = block;
    return SW_OK;
}

sw_status swi_utilities_of(swi_utilities *u, const sw_genome *g,
                           const swi_parent_utility parents[2])
{
    size_t from[2] = {0}, at = 0;
    u->n = 0;
    if (parents[0].n + parents[1].n == 0)
        return SW_OK;
    SW_TRY(reserve(u, g));
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        const bool fresh = v->parent > 1;
        if (!swi_vertex_has_parameters(v))
            continue;
        const sw_neuron_utility *was =
            fresh ? NULL : find(&parents[v->parent], v->was, &from[v->parent]);
        if (was == NULL && !(fresh && swi_vertex_is_sized(v)))
            continue;
        fill(u->values + at, v, was);
        u->list[u->n++] =
            (sw_neuron_utility){.vertex = i, .n = v->channels, .values = u->values + at};
        at += (size_t)v->channels;
    }
    return SW_OK;
}

void swi_utilities_end(swi_utilities *u)
{
    sw_heap_free(u->list, SW_HEAP_RECORDS, u->cap * sizeof *u->list);
    sw_heap_free(u->values, SW_HEAP_RECORDS, u->values_cap * sizeof *u->values);
    *u = (swi_utilities){0};
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
                    "%s: utility %zu: it must be of a vertex with parameters (got "
                    "%s '%s')",
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
