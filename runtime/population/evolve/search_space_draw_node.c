/* Draws of nodes: vertices are put at the end of a genome. Its shapes are known all the while,
 * since conditions and ties ask for them. A node that does not fit ends the draw. */
#include "alloc/base/size.h"
#include "runtime/population/evolve/search_space_internal.h"
#include <stdio.h>

#define MOST_STEPS 20000 /* nodes of one draw: parts that use parts are short to write */

/* ---- numbers ----------------------------------------------------------------------------- */

static double draw_number(const sw_search_space *s, const swi_drawn *x, swi_draws *d)
{
    if (x->n > 0)
        return s->choices[x->first + swi_draw_below(d, x->n)];
    if (x->high <= x->low)
        return x->low;
    if (x->step == 0)
        return swi_draw_range(d, x->low, x->high);
    const uint32_t n = (uint32_t)((x->high - x->low) / x->step) + 1;
    return x->low + x->step * swi_draw_below(d, n);
}

int64_t swi_space_draw_whole(const sw_search_space *s, const swi_drawn *x, swi_draws *d)
{
    return (int64_t)draw_number(s, x, d);
}

static int draw_activation(const sw_search_space *s, uint32_t bits, swi_draws *d)
{
    const swi_space_training *t = &s->training;
    if (bits == 0)
        return swi_activation_find(
            t->activations[swi_draw_below(d, (uint32_t)t->n_activations)]);
    uint32_t skip = swi_draw_below(d, (uint32_t)__builtin_popcount(bits));
    for (; skip > 0; skip--)
        bits &= bits - 1;
    return __builtin_ctz(bits);
}

/* ---- vertices ---------------------------------------------------------------------------- */

sw_status swi_space_put(swi_drawing *d, swi_vertex *v, uint32_t *at)
{
    sw_genome *g = d->genome;
    if (v->n_in == 0) {
        v->in[0] = *at;
        v->n_in = 1;
    }
    snprintf(v->name, sizeof v->name, "v%u", g->n); /* all have such names */
    SW_TRY(swi_genome_insert(g, g->n, v));
    *at = g->n - 1;
    return swi_genome_infer_from(g, *at, NULL);
}

/* Groups are the most that divide the inputs and what was drawn; the size is the next multiple.
 */
static void draw_groups(swi_drawing *d, const swi_space_node *n, swi_vertex *v, int64_t inputs)
{
    if (n->groups.low == SWI_SPACE_DEPTHWISE) {
        v->groups = 0;
        return;
    }
    const int64_t groups = swi_space_draw_whole(d->space, &n->groups, d->draws);
    v->groups = (int32_t)sw_size_gcd((uint64_t)groups, (uint64_t)inputs);
    const int64_t rest = v->size % v->groups;
    v->size += rest > 0 ? v->groups - rest : 0;
}

static sw_status draw_vertex(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    const sw_search_space *s = d->space;
    swi_vertex v = swi_vertex_of(n->vertex);
    const bool classes = n->size.low == SWI_SPACE_CLASSES;
    v.shield = n->shield;
    if (n->vertex == SW_VERTEX_CONV2D || n->vertex == SW_VERTEX_LINEAR)
        v.size = classes ? d->classes : swi_space_draw_whole(s, &n->size, d->draws);
    if (swi_vertex_has_window(&v)) {
        v.kernel = (int32_t)swi_space_draw_whole(s, &n->kernel, d->draws);
        v.stride = (int32_t)swi_space_draw_whole(s, &n->stride, d->draws);
    }
    if (n->vertex == SW_VERTEX_CONV2D) {
        v.dilation = (int32_t)swi_space_draw_whole(s, &n->dilation, d->draws);
        draw_groups(d, n, &v, d->genome->vertices[*at].channels);
    }
    if (n->vertex == SW_VERTEX_ACTIVATION)
        v.activation = draw_activation(s, n->activations, d->draws);
    if (n->vertex == SW_VERTEX_DROPOUT)
        v.rate = (float)draw_number(s, &n->rate, d->draws);
    if (swi_vertex_is_sized(&v) || n->vertex == SW_VERTEX_FLATTEN)
        d->ended = classes;
    return swi_space_put(d, &v, at);
}

/* ---- nodes that have nodes --------------------------------------------------------------- */

static sw_status draw_chain(swi_drawing *d, uint32_t child, uint32_t *at)
{
    for (; child != 0; child = d->space->nodes[child].next)
        SW_TRY(swi_space_draw_node(d, child, at));
    return SW_OK;
}

static sw_status draw_repeat(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    const int64_t times = swi_space_draw_whole(d->space, &n->times, d->draws);
    for (int64_t i = 0; i < times; i++)
        SW_TRY(swi_space_draw_node(d, n->first, at));
    return SW_OK;
}

static sw_status draw_fork(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    swi_vertex join = swi_vertex_of(SW_VERTEX_CONCAT);
    const int64_t paths =
        n->many ? swi_space_draw_whole(d->space, &n->times, d->draws) : n->n_children;
    uint32_t child = n->first;
    for (int64_t i = 0; i < paths; i++) {
        uint32_t path = *at;
        SW_TRY(swi_space_draw_node(d, child, &path));
        join.in[join.n_in++] = path;
        child = n->many ? child : d->space->nodes[child].next;
    }
    d->ended = false; /* by its paths */
    if (paths > 1)
        return swi_space_put(d, &join, at);
    *at = join.in[0];
    return SW_OK;
}

static sw_status draw_residual(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    sw_genome *g = d->genome;
    const uint32_t first = g->n, x = *at;
    swi_vertex add = swi_vertex_of(SW_VERTEX_ADD);
    uint32_t y = x;
    SW_TRY(swi_space_draw_node(d, n->first, &y));
    if (y == x) /* nothing was drawn */
        return SW_OK;
    const swi_vertex *from = &g->vertices[x], *to = &g->vertices[y];
    if (from->height != to->height || from->width != to->width)
        SW_FAIL(SW_INVALID,
                "a residual must keep height and width (got %lld x %lld of %lld x %lld)",
                (long long)to->height, (long long)to->width, (long long)from->height,
                (long long)from->width);
    SW_TRY(swi_space_tie(g, y, first, from->channels));
    d->ended = false;
    add.in[0] = x;
    add.in[1] = y;
    add.n_in = 2;
    return swi_space_put(d, &add, at);
}

static sw_status draw_choice(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    const swi_space_node *nodes = d->space->nodes;
    double sum = 0;
    for (uint32_t child = n->first; child != 0; child = nodes[child].next)
        sum += nodes[child].weight;
    double left = swi_draw_unit(d->draws) * sum;
    uint32_t child = n->first;
    while (nodes[child].next != 0 && left >= nodes[child].weight) {
        left -= nodes[child].weight;
        child = nodes[child].next;
    }
    return swi_space_draw_node(d, child, at);
}

static bool holds(const swi_drawing *d, const swi_space_node *n, uint32_t at)
{
    const swi_vertex *v = &d->genome->vertices[at];
    if (n->what == SWI_IF_IMAGE || n->what == SWI_IF_VECTOR)
        return (v->height > 0) == (n->what == SWI_IF_IMAGE);
    const int64_t x = n->what == SWI_IF_HEIGHT     ? v->height
                      : n->what == SWI_IF_WIDTH    ? v->width
                      : n->what == SWI_IF_CHANNELS ? v->channels
                                                   : (int64_t)d->genome->n + d->beside;
    return n->how == SWI_IF_LESS      ? x < n->than
           : n->how == SWI_IF_AT_MOST ? x <= n->than
           : n->how == SWI_IF_MORE    ? x > n->than
                                      : x >= n->than;
}

static sw_status draw_if(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    const bool yes = holds(d, n, *at);
    if (yes ? !n->has_then : !n->has_else)
        return SW_OK;
    return swi_space_draw_node(
        d, yes || !n->has_then ? n->first : d->space->nodes[n->first].next, at);
}

static sw_status draw_shielded(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    const uint32_t first = d->genome->n;
    SW_TRY(swi_space_draw_node(d, n->first, at));
    for (uint32_t i = first; i < d->genome->n; i++)
        d->genome->vertices[i].shield |= n->shield;
    return SW_OK;
}

static sw_status draw_kind(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    switch (n->kind) {
    case SWI_SPACE_NODE_VERTEX:
        return draw_vertex(d, n, at);
    case SWI_SPACE_NODE_CHAIN:
        return draw_chain(d, n->first, at);
    case SWI_SPACE_NODE_REPEAT:
        return draw_repeat(d, n, at);
    case SWI_SPACE_NODE_FORK:
        return draw_fork(d, n, at);
    case SWI_SPACE_NODE_RESIDUAL:
        return draw_residual(d, n, at);
    case SWI_SPACE_NODE_CHOICE:
        return draw_choice(d, n, at);
    case SWI_SPACE_NODE_IF:
        return draw_if(d, n, at);
    case SWI_SPACE_NODE_USE:
        return swi_space_draw_node(d, d->space->parts[n->part].node, at);
    default:
        return draw_shielded(d, n, at);
    }
}

/* A failure names the innermost node. */
sw_status swi_space_draw_node(swi_drawing *d, uint32_t node, uint32_t *at)
{
    const swi_space_node *n = &d->space->nodes[node];
    const bool leaf = n->kind == SWI_SPACE_NODE_VERTEX || n->kind == SWI_SPACE_NODE_RESIDUAL ||
                      n->kind == SWI_SPACE_NODE_FORK;
    if (d->steps++ >= MOST_STEPS)
        SW_FAIL(SW_INVALID, "%s: line %u: a draw visits more than %d nodes", d->space->path,
                n->line, MOST_STEPS);
    const sw_status status = draw_kind(d, n, at);
    const size_t path = d->space->path_bytes;
    if (status != SW_INVALID || !leaf ||
        strncmp(sw_last_error(), d->space->path, path < 100 ? path : 100) == 0)
        return status;
    char why[400];
    snprintf(why, sizeof why, "%s", sw_last_error());
    SW_FAIL(SW_INVALID, "%s: line %u: %s", d->space->path, n->line, why);
}
