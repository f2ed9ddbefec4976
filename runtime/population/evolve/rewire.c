/* Rewiring: a vertex is passed by, what no vertex reads goes, what is read twice is read once.
 */
#include "runtime/population/evolve/mutate.h"
#include <string.h>

/* ---- dead ends --------------------------------------------------------------------------- */

static sw_status remove_unread(sw_genome *g, uint32_t i)
{
    if (i == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': nothing would read the input",
                g->vertices[0].name);
    if ((g->vertices[i].shield & SW_SHIELD_REMOVE) != 0 || !swi_inputs_free(g, i))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s' would be read by none, and a shield keeps it",
                g->vertices[i].name);
    swi_genome_remove(g, i);
    return SW_OK;
}

/* From the back: what a dead end alone has read is one too. */
sw_status swi_prune(sw_genome *g)
{
    uint32_t reads[SWI_MAX_VERTICES]; /* edges to readers */
    memset(reads, 0, g->n * sizeof *reads);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            reads[g->vertices[i].in[k]]++;
    for (uint32_t i = g->n - 1; i-- > 0;) {
        if (reads[i] > 0)
            continue;
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            reads[g->vertices[i].in[k]]--;
        SW_TRY(remove_unread(g, i)); /* those in front keep their positions */
    }
    return SW_OK;
}

/* ---- adds -------------------------------------------------------------------------------- */

static bool drop_doubles(swi_vertex *v, uint32_t x)
{
    const uint32_t had = v->n_in;
    uint32_t n = 0;
    bool seen = false;
    for (uint32_t k = 0; k < had; k++) {
        if (v->in[k] != x || !seen)
            v->in[n++] = v->in[k];
        seen = seen || v->in[k] == x;
    }
    v->n_in = n;
    return n < had;
}

static sw_status read_once(sw_genome *g, uint32_t x)
{
    for (uint32_t i = x + 1; i < g->n; i++) {
        swi_vertex *v = &g->vertices[i];
        if (v->kind != SW_VERTEX_ADD || !drop_doubles(v, x) || v->n_in > 1)
            continue;
        if ((v->shield & SW_SHIELD_REMOVE) != 0 || i + 1 == g->n || !swi_inputs_free(g, i) ||
            !swi_outputs_free(g, i))
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s' would add nothing, and a shield keeps it",
                    v->name);
        swi_genome_redirect(g, i, x);
        swi_genome_remove(g, i);
        i--; /* later adds may read x twice now: they come */
    }
    return SW_OK;
}

/* ---- by -------------------------------------------------------------------------------- */

/* Invariant vertices give the units that they read, one by one. */
static sw_status align(swi_child *c, uint32_t v, uint32_t x)
{
    const swi_tie tie = {.a = x, .b = v};
    if (swi_vertex_is_invariant(&c->genome->vertices[v]))
        return SW_OK;
    return swi_child_align(c, NULL, 0, &tie, 1, NULL);
}

sw_status swi_pass_over(sw_genome *g, uint32_t v, uint32_t x)
{
    swi_genome_redirect(g, v, x);
    SW_TRY(read_once(g, x));
    return swi_prune(g); /* v too */
}

/* Images after v get another height and width, if they can. */
static sw_status redirect_moved(sw_genome *g, uint32_t v, uint32_t x)
{
    sw_genome *was;
    SW_TRY(sw_genome_copy(&was, g));
    sw_status status = swi_pass_over(g, v, x);
    if (status == SW_OK)
        status = swi_genome_infer(g, NULL);
    if (status == SW_OK)
        status = swi_positions_follow(g, was, UINT32_MAX, 0);
    swi_genome_free(was);
    return status;
}

sw_status swi_bypass(swi_child *c, uint32_t v, uint32_t x)
{
    const swi_vertex *from = &c->genome->vertices[v], *to = &c->genome->vertices[x];
    if ((from->height == 0) != (to->height == 0))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s' makes a vector of an image: it stays", from->name);
    const bool moved = from->height != to->height || from->width != to->width;
    SW_TRY(align(c, v, x));
    return moved ? redirect_moved(c->genome, v, x) : swi_pass_over(c->genome, v, x);
}

sw_status swi_bypass_concat(swi_child *c, uint32_t v, uint32_t k)
{
    swi_vertex *join = &c->genome->vertices[v];
    const uint32_t x = join->in[k], all = (1u << join->n_in) - 1;
    join->in[0] = x;
    join->n_in = 1;
    SW_TRY(swi_positions_follow(c->genome, c->before, v, all & ~(1u << k)));
    return swi_pass_over(c->genome, v, x);
}
