/* Kernels, kinds of pools, activations. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_KERNEL 15 /* the largest of a max pool */

static bool is_pool(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_MAX_POOL || v->kind == SW_VERTEX_AVG_POOL;
}

bool swi_can_kernel(const sw_genome *g, uint32_t v)
{
    const swi_vertex *x = &g->vertices[v];
    return (x->kind == SW_VERTEX_CONV2D || is_pool(x)) && (x->shield & SW_SHIELD_KERNEL) == 0;
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

/* Odd windows are padded, so that images keep their size. */
sw_status swi_change_kernel(swi_child *c, const sw_mutation *m, uint32_t v,
                            swi_change_note *note)
{
    sw_genome *g = c->genome;
    swi_vertex *x = &g->vertices[v];
    const int32_t had = x->kernel, kernel = draw_kernel(c, m, x);
    if (kernel == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': no other kernel can be", x->name);
    memcpy(note->vertex, x->name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: kernel %d to %d", x->name, had, kernel);
    note->exact = !is_pool(x) && kernel > had;
    x->kernel = kernel;
    if (kernel % 2 != 0)
        return SW_OK;
    SW_TRY(swi_genome_infer(g, NULL));
    return swi_positions_follow(g, c->before, UINT32_MAX, 0);
}

/* ---- pools ------------------------------------------------------------------------------- */

static int other_pool(sw_vertex_kind kind)
{
    switch (kind) {
    case SW_VERTEX_MAX_POOL:
        return SW_VERTEX_AVG_POOL;
    case SW_VERTEX_AVG_POOL:
        return SW_VERTEX_MAX_POOL;
    case SW_VERTEX_GLOBAL_MAX_POOL:
        return SW_VERTEX_GLOBAL_AVG_POOL;
    case SW_VERTEX_GLOBAL_AVG_POOL:
        return SW_VERTEX_GLOBAL_MAX_POOL;
    default:
        return -1;
    }
}

bool swi_can_pool(const sw_genome *g, uint32_t v)
{
    return other_pool(g->vertices[v].kind) >= 0 &&
           (g->vertices[v].shield & SW_SHIELD_KERNEL) == 0;
}

sw_status swi_change_pool(swi_child *c, const sw_mutation *m, uint32_t v, swi_change_note *note)
{
    swi_vertex *x = &c->genome->vertices[v];
    const sw_vertex_kind had = x->kind;
    (void)m;
    x->kind = (sw_vertex_kind)other_pool(had);
    memcpy(note->vertex, x->name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: %s to %s", x->name, sw_vertex_kind_name(had),
             sw_vertex_kind_name(x->kind));
    return SW_OK;
}

/* ---- activations ------------------------------------------------------------------------- */

bool swi_can_activation(const sw_genome *g, uint32_t v)
{
    return g->vertices[v].kind == SW_VERTEX_ACTIVATION &&
           (g->vertices[v].shield & SW_SHIELD_ACTIVATION) == 0;
}

sw_status swi_change_activation(swi_child *c, const sw_mutation *m, uint32_t v,
                                swi_change_note *note)
{
    const sw_search_space *space;
    swi_vertex *x = &c->genome->vertices[v];
    const char *had = swi_activation_name(x->activation);
    (void)m;
    SW_TRY(swi_child_space(c, &space));
    const swi_space_training *t = swi_space_training_of(space);
    uint32_t n = 0;
    for (int i = 0; i < t->n_activations; i++)
        n += strcmp(t->activations[i], had) != 0;
    if (n == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': the space has no other activation", x->name);
    uint32_t which = swi_draw_below(&c->draws, n);
    for (int i = 0; i < t->n_activations; i++)
        if (strcmp(t->activations[i], had) != 0 && which-- == 0)
            x->activation = swi_activation_find(t->activations[i]);
    memcpy(note->vertex, x->name, sizeof note->vertex);
    snprintf(note->text, sizeof note->text, "%s: %s to %s", x->name, had,
             swi_activation_name(x->activation));
    return SW_OK;
}
