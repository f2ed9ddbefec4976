/* Segments of genomes that can be exchanged: one vertex in front that they read, one of them
 * that is read.
 *
 * For each last vertex the segment grows towards the input: while its vertices read more than
 * one vertex outside, the latest of these must be of it, since no earlier one can be before
 *  all paths. It ends where one of its vertices is read from outside. */
#include "runtime/population/evolve/mutate.h"
#include <string.h>

#define CLOSED (SW_SHIELD_CROSSOVER | SW_SHIELD_REMOVE)

typedef struct {
    uint32_t edges[SWI_MAX_VERTICES]; /* to readers */
    uint32_t into[SWI_MAX_VERTICES];  /* of these, to the segment */
    uint32_t depth[SWI_MAX_VERTICES]; /* the longest path from the input */
} walk;

static void begin(walk *w, const sw_genome *g)
{
    memset(w->edges, 0, g->n * sizeof *w->edges);
    memset(w->into, 0, g->n * sizeof *w->into);
    memset(w->depth, 0, g->n * sizeof *w->depth);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++) {
            const uint32_t x = g->vertices[i].in[k];
            w->edges[x]++;
            if (w->depth[i] < w->depth[x] + 1)
                w->depth[i] = w->depth[x] + 1;
        }
}

/* How many vertices outside more it reads. */
static uint32_t enter(walk *w, const swi_vertex *v)
{
    uint32_t more = 0;
    for (uint32_t k = 0; k < v->n_in; k++)
        more += w->into[v->in[k]]++ == 0;
    return more;
}

/* The edges from the entry into the segment may go. `into` tells the segment's vertices: those
 * after the entry that are read by it, and the exit. */
static bool entry_is_free(const walk *w, const sw_genome *g, uint32_t entry, uint32_t exit)
{
    if ((g->vertices[entry].shield & SW_SHIELD_OUTPUTS) != 0)
        return false;
    for (uint32_t i = entry + 1; i <= exit; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if ((w->into[i] > 0 || i == exit) && g->vertices[i].in[k] == entry &&
                (g->vertices[i].shield & SW_SHIELD_INPUTS) != 0)
                return false;
    return true;
}

static sw_status add(swi_segments *s, const walk *w, const sw_genome *g, uint32_t entry,
                     uint32_t exit, uint32_t n)
{
    const double depth = w->depth[g->n - 1];
    void *block = s->list;
    if (!entry_is_free(w, g, entry, exit))
        return SW_OK;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &s->cap, s->n + 1, sizeof *s->list));
    s->list = block;
    s->list[s->n++] = (swi_segment){.entry = entry,
                                    .exit = exit,
                                    .n = n,
                                    .from = w->depth[entry] / depth,
                                    .to = w->depth[exit] / depth};
    return SW_OK;
}

static sw_status segments_to(swi_segments *s, walk *w, const sw_genome *g, uint32_t exit)
{
    uint32_t n = 1, open = enter(w, &g->vertices[exit]), i = exit;
    while (open > 0 && i-- > 0) {
        const swi_vertex *v = &g->vertices[i];
        if (w->into[i] == 0)
            continue;
        if (open == 1)
            SW_TRY(add(s, w, g, i, exit, n));
        if (i == 0 || (v->shield & CLOSED) != 0 || w->into[i] != w->edges[i] ||
            n == SWI_SEGMENT_MOST)
            break;
        n++;
        open += enter(w, v) - 1;
    }
    memset(w->into, 0, exit * sizeof *w->into);
    return SW_OK;
}

sw_status swi_segments_of(swi_segments *s, const sw_genome *g)
{
    walk w;
    s->n = 0;
    begin(&w, g);
    for (uint32_t exit = 1; exit + 1 < g->n; exit++)
        if ((g->vertices[exit].shield & CLOSED) == 0 && swi_outputs_free(g, exit))
            SW_TRY(segments_to(s, &w, g, exit));
    return SW_OK;
}

void swi_segments_end(swi_segments *s)
{
    sw_heap_free(s->list, SW_HEAP_RECORDS, s->cap * sizeof *s->list);
    *s = (swi_segments){0};
}

void swi_segment_vertices(const sw_genome *g, const swi_segment *s, uint32_t *out)
{
    uint32_t n = s->n;
    out[--n] = s->exit;
    for (uint32_t i = s->exit; i-- > s->entry + 1 && n > 0;) {
        bool is = false; /* read by one of it */
        for (uint32_t j = n; j < s->n && !is; j++)
            for (uint32_t k = 0; k < g->vertices[out[j]].n_in && !is; k++)
                is = g->vertices[out[j]].in[k] == i;
        if (is)
            out[--n] = i;
    }
}
