/* Sizes of what was drawn, made equal to what it is added to or put in between. */
#include "runtime/population/evolve/search_space_internal.h"

typedef struct {
    sw_genome *genome;
    uint32_t first;
    int64_t asked[SWI_MAX_VERTICES]; /* 0: not yet */
} tying;

static sw_status tie(tying *t, uint32_t v, int64_t channels);

static sw_status differ(const swi_vertex *v, int64_t channels)
{
    SW_FAIL(SW_INVALID, "%lld channels are needed here, and '%s' has %lld", (long long)channels,
            v->name, (long long)v->channels);
}

/* Parts of a concat share the channels; the first ones get what is left over. */
static sw_status tie_parts(tying *t, const swi_vertex *v, int64_t channels)
{
    const int64_t n = v->n_in;
    if (channels < n)
        SW_FAIL(SW_INVALID, "%lld channels are too few for %lld paths", (long long)channels,
                (long long)n);
    for (int64_t k = 0; k < n; k++)
        SW_TRY(tie(t, v->in[k], channels / n + (k < channels % n)));
    return SW_OK;
}

static sw_status tie(tying *t, uint32_t i, int64_t channels)
{
    swi_vertex *v = &t->genome->vertices[i];
    if (i < t->first || v->kind == SW_VERTEX_FLATTEN)
        return v->channels == channels ? SW_OK : differ(v, channels);
    if (t->asked[i] != 0)
        return t->asked[i] == channels ? SW_OK : differ(v, channels);
    t->asked[i] = channels;
    if (swi_vertex_is_sized(v)) {
        if (v->kind == SW_VERTEX_CONV2D && channels % v->groups != 0)
            SW_FAIL(SW_INVALID, "%lld channels are needed here, and '%s' has %d groups",
                    (long long)channels, v->name, v->groups);
        v->size = channels;
        return SW_OK;
    }
    if (v->kind == SW_VERTEX_CONCAT)
        return tie_parts(t, v, channels);
    for (uint32_t k = 0; k < v->n_in; k++)
        SW_TRY(tie(t, v->in[k], channels));
    return SW_OK;
}

sw_status swi_space_tie(sw_genome *g, uint32_t v, uint32_t first, int64_t channels)
{
    tying t = {.genome = g, .first = first};
    SW_TRY(tie(&t, v, channels));
    SW_TRY(swi_genome_infer_from(g, first, NULL));
    return g->vertices[v].channels == channels ? SW_OK : differ(&g->vertices[v], channels);
}
