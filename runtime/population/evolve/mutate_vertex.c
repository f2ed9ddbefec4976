/* Vertices that are put in between others, and that go. */
#include "runtime/population/evolve/mutate.h"
#include <stdio.h>
#include <string.h>

/* ---- does it compute what it reads? ------------------------------------------------------ */

/* Over what passes everything on in evaluation. */
static const swi_vertex *behind_dropout(const sw_genome *g, const swi_vertex *v)
{
    while (v->kind == SW_VERTEX_DROPOUT)
        v = &g->vertices[v->in[0]];
    return v;
}

static bool is_identity_layer(const sw_genome *g, const swi_vertex *v)
{
    return v->identity && v->parent == SWI_NO_PARENT && v->stride == 1 &&
           (v->groups == 1 || swi_vertex_is_depthwise(v)) &&
           v->channels == swi_vertex_reads(g, v);
}

static bool is_identity(const sw_genome *g, const swi_vertex *v)
{
    switch (v->kind) {
    case SW_VERTEX_DROPOUT:
        return true;
    case SW_VERTEX_ACTIVATION: {
        const swi_vertex *x = behind_dropout(g, &g->vertices[v->in[0]]);
        return swi_activation_is_idempotent(v->activation) && x->kind == SW_VERTEX_ACTIVATION &&
               x->activation == v->activation;
    }
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
        return v->kernel == 1 && v->stride == 1;
    case SW_VERTEX_LINEAR:
    case SW_VERTEX_CONV2D:
        return is_identity_layer(g, v);
    default:
        return false;
    }
}

/* ---- one more ---------------------------------------------------------------------------- */

bool swi_can_add_vertex(const sw_genome *g, uint32_t v)
{
    return v > 0 && v + 1 < g->n && swi_outputs_free(g, v);
}

static bool are_identity(const sw_genome *g, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        if (!is_identity(g, &g->vertices[i]))
            return false;
    return true;
}

/* Three times in four it begins as the identity, so that what was learnt is not disturbed;
 * joins, pools and norms, which cannot, are among the others. Not after the input, whose size
 * is given: a layer there would have its size. */
sw_status swi_add_vertex(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
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
    memcpy(note->vertex, one->name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: %s%s after %s", one->name,
             sw_vertex_kind_name(one->kind), more, behind->name);
    note->exact = are_identity(c->genome, first, n);
    return SW_OK;
}

/* ---- one less ---------------------------------------------------------------------------- */

/* A vertex that makes a vector of an image has to stay. */
bool swi_can_remove_vertex(const sw_genome *g, uint32_t v)
{
    const swi_vertex *x = &g->vertices[v];
    return v > 0 && v + 1 < g->n && (x->shield & SW_SHIELD_REMOVE) == 0 &&
           (x->height == 0) == (g->vertices[x->in[0]].height == 0) && swi_inputs_free(g, v) &&
           swi_outputs_free(g, v);
}

/* Of an add or a concat one input goes on, and what made the others goes too. */
sw_status swi_remove_vertex(swi_child *c, const sw_mutation *m, uint32_t v,
                            swi_change_note *note)
{
    const swi_vertex *x = &c->genome->vertices[v];
    const uint32_t n = c->genome->n;
    const sw_vertex_kind kind = x->kind;
    (void)m;
    memcpy(note->vertex, x->name, sizeof note->vertex);
    note->exact = is_identity(c->genome, x);
    const uint32_t k = swi_draw_below(&c->draws, x->n_in);
    if (kind == SW_VERTEX_CONCAT)
        SW_TRY(swi_bypass_concat(c, v, k));
    else
        SW_TRY(swi_bypass(c, v, x->in[k]));
    char more[48] = "";
    if (n - c->genome->n > 1)
        snprintf(more, sizeof more, ", and %u that it needed", n - c->genome->n - 1);
    snprintf(note->text, sizeof note->text, "%s: %s removed%s", note->vertex,
             sw_vertex_kind_name(kind), more);
    return SW_OK;
}
