/* New vertices out of a space, between a vertex and those that read it. They are drawn into a
 * genome of their own with that vertex as its input, and moved when they fit. */
#include "runtime/population/evolve/search_space_internal.h"

#define ATTEMPTS 12

/* ---- what begins as the identity --------------------------------------------------------- */

/* The vertex that decides the numbers of vertex i, past new layers that begin as the identity.
 * A layer that was trained since is not new any more. */
static const swi_vertex *origin(const sw_genome *g, uint32_t i)
{
    const swi_vertex *v = &g->vertices[i];
    while (g->n_parents > 0 && v->parent == SWI_NO_PARENT && swi_vertex_is_identity(v) &&
           (v->kind == SW_VERTEX_LINEAR || v->stride == 1) &&
           v->channels == g->vertices[v->in[0]].channels)
        v = &g->vertices[v->in[0]];
    return v;
}

/* Can it be the identity? Convolutions and linear layers by their weights, an activation where
 * it was applied already. */
static bool can_be_identity(const swi_vertex *v, const swi_vertex *behind)
{
    if (v->kind == SW_VERTEX_CONV2D)
        return v->stride == 1;
    if (v->kind == SW_VERTEX_ACTIVATION)
        return swi_activation_is_idempotent(v->activation) &&
               behind->kind == SW_VERTEX_ACTIVATION && behind->activation == v->activation;
    return v->kind == SW_VERTEX_LINEAR;
}

/* Leave of a chain what can be the identity. Joins and what changes the shape cannot, so that
 * nothing is left of these: *at is then 0. */
static sw_status keep_identities(sw_genome *part, const swi_vertex *behind, uint32_t *at)
{
    const int64_t channels = part->vertices[0].channels;
    bool chain = *at + 1 == part->n;
    for (uint32_t i = 1; i < part->n; i++)
        chain = chain && part->vertices[i].n_in == 1 && part->vertices[i].in[0] == i - 1;
    *at = 0;
    if (!chain)
        return SW_OK;
    for (uint32_t i = 1; i < part->n;) {
        swi_vertex *v = &part->vertices[i];
        if (!can_be_identity(v, behind)) {
            swi_genome_redirect(part, i, i - 1);
            swi_genome_remove(part, i);
            continue;
        }
        v->identity = v->kind != SW_VERTEX_ACTIVATION;
        v->size = swi_vertex_is_sized(v) ? channels : 0;
        if (v->kind == SW_VERTEX_CONV2D && v->groups > 0 && channels % v->groups != 0)
            v->groups = 1;
        i++;
    }
    *at = part->n - 1;
    return swi_genome_infer_from(part, 1, NULL);
}

/* ---- drawing and moving ------------------------------------------------------------------ */

static bool is_new(const sw_genome *part, uint32_t at)
{
    bool read[SWI_MAX_VERTICES] = {false};
    for (uint32_t i = 1; i < part->n; i++)
        for (uint32_t k = 0; k < part->vertices[i].n_in; k++)
            read[part->vertices[i].in[k]] = true;
    for (uint32_t i = 0; i < part->n; i++)
        if (i != at && !read[i])
            return false;
    return at > 0 && at + 1 == part->n;
}

/* SW_INVALID: it does not fit. */
static sw_status draw_part(swi_drawing *d, const swi_vertex *behind, const swi_vertex *from,
                           bool identity, uint32_t node)
{
    sw_genome *part = d->genome;
    uint32_t at = 0;
    SW_TRY(swi_genome_infer(part, NULL));
    SW_TRY(swi_space_draw_node(d, node, &at));
    if (identity)
        SW_TRY(keep_identities(part, from, &at));
    if (!is_new(part, at))
        SW_FAIL(SW_INVALID, "nothing was drawn after '%s'", behind->name);
    const swi_vertex *last = &part->vertices[at];
    if (last->height != behind->height || last->width != behind->width)
        SW_FAIL(SW_INVALID, "what was drawn after '%s' changes height or width", behind->name);
    return swi_space_tie(part, at, 1, behind->channels);
}

/* Vertex k of `part` becomes vertex `after` + k. */
static sw_status move_part(sw_genome *g, uint32_t behind, sw_genome *part)
{
    const uint32_t n = part->n - 1;
    uint32_t k = 1;
    sw_status status = SW_OK;
    if (g->n + n > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "a genome must have at most %d vertices", SWI_MAX_VERTICES);
    for (; k <= n && status == SW_OK; k++) {
        swi_vertex v = part->vertices[k];
        for (uint32_t i = 0; i < v.n_in; i++)
            v.in[i] += behind;
        swi_genome_fresh_name(g, v.name);
        status = swi_genome_insert(g, behind + k, &v);
        k -= status != SW_OK;
    }
    if (status != SW_OK) {
        while (--k > 0)
            swi_genome_remove(g, behind + k);
        return status;
    }
    for (uint32_t i = behind + n + 1; i < g->n; i++)
        for (uint32_t j = 0; j < g->vertices[i].n_in; j++)
            if (g->vertices[i].in[j] == behind)
                g->vertices[i].in[j] = behind + n;
    return SW_OK;
}

static sw_status try_once(const sw_search_space *space, sw_genome *g, uint32_t behind,
                          bool identity, swi_draws *draws, uint32_t *n)
{
    const swi_vertex *v = &g->vertices[behind];
    const sw_task task =
        SW_OPTS(sw_task, .channels = v->channels, .height = v->height, .width = v->width);
    swi_drawing d = {.space = space,
                     .draws = draws,
                     .classes = g->vertices[g->n - 1].channels,
                     .beside = g->n - 1};
    SW_TRY(swi_genome_new(&d.genome, &task));
    sw_status status = draw_part(&d, v, origin(g, behind), identity, space->insert);
    if (status == SW_OK) {
        *n = d.genome->n - 1;
        status = move_part(g, behind, d.genome);
    }
    swi_genome_free(d.genome);
    return status;
}

sw_status swi_space_insert(const sw_search_space *space, sw_genome *g, uint32_t behind,
                           bool identity, swi_draws *draws, uint32_t *first, uint32_t *n)
{
    uint32_t put = 0;
    sw_status status = SW_INVALID;
    if (space->insert == 0)
        SW_FAIL(SW_UNSUPPORTED, "%s has no \"insert\"", space->path);
    if (swi_vertex_readers(g, behind, NULL, 0) == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': no vertex reads it", g->vertices[behind].name);
    for (int i = 0; i < ATTEMPTS && status == SW_INVALID; i++)
        status = try_once(space, g, behind, identity, draws, &put);
    if (status == SW_INVALID)
        SW_FAIL(SW_UNSUPPORTED, "nothing of %s fits after vertex '%s'", space->path,
                g->vertices[behind].name);
    SW_TRY(status);
    SW_TRY(swi_genome_infer_from(g, behind, NULL));
    *first = behind + 1;
    *n = put;
    return SW_OK;
}
