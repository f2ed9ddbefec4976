/* Units that go together. A cell is a maximal row of units, one after the other in all sources
 * that they are in, with the same number of slots each. Whatever number of units it has, those
 * sources keep fitting: some units go everywhere, or new ones come after the last one
 * everywhere. */
#include "runtime/population/evolve/align_internal.h"

#define NONE UINT32_MAX

static bool is_glued(const swi_alignment *al, uint32_t s)
{
    return (al->edge_flags[al->edge[s]] & SWI_EDGE_GLUED) != 0;
}

/* ---- groups of convolutions: cells end where they do --------------------------------------
 */

/* A vertex's channels are cut in `groups`. New ones belong to the group before them. */
static void cut_groups(swi_alignment *al, uint32_t vertex, int groups)
{
    const int64_t per_group = al->genome->vertices[vertex].channels / groups;
    swi_cursor c = swi_cursor_of(al, vertex);
    uint32_t slot, before = 0;
    uint8_t between, between_before = SWI_EDGE_SEAM;
    int64_t n = 0;
    for (bool more = true; more; before = slot, between_before = between) {
        more = swi_cursor_next(&c, &slot, &between);
        if (al->real[slot] == SWI_NEW || n++ % per_group != 0 || between_before != 0)
            continue;
        if (is_glued(al, before))
            al->unit_flags[al->unit[before]] |= SWI_UNIT_RIGID;
        al->edge_flags[al->edge[before]] |= SWI_EDGE_CUT;
    }
}

static void cut_all_groups(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (v->kind != SW_VERTEX_CONV2D || v->groups <= 1)
            continue;
        if (al->vertices[i].concerned)
            cut_groups(al, i, v->groups);
        if (al->vertices[v->in[0]].concerned)
            cut_groups(al, v->in[0], v->groups);
    }
}

/* ---- runs -------------------------------------------------------------------------------- */

static void find_runs(swi_alignment *al)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        swi_aligned *v = &al->vertices[i];
        const uint32_t end = v->first_slot + v->n_slots;
        v->first_run = al->n_runs;
        for (uint32_t s = v->first_slot, first = s; s < end; s++) {
            const uint32_t unit = al->unit[s];
            if ((al->real[s] == SWI_NEW) != (al->real[first] == SWI_NEW))
                al->unit_flags[unit] |= SWI_UNIT_SOLO;
            if (s + 1 < end && is_glued(al, s))
                continue;
            al->runs[al->n_runs++] = (swi_run){unit, first, s + 1 - first};
            first = s + 1;
        }
        v->n_runs = al->n_runs - v->first_run;
    }
}

/* The one run may be followed by the other in one cell, as far as these two say. */
static bool is_alike(const swi_alignment *al, const swi_run *x, const swi_run *y)
{
    const uint8_t alone = SWI_UNIT_SOLO | SWI_UNIT_RIGID;
    const uint8_t flags = al->unit_flags[x->unit];
    return x->unit != y->unit && x->n == y->n && flags == al->unit_flags[y->unit] &&
           (flags & alone) == 0 &&
           (al->edge_flags[al->edge[x->first + x->n - 1]] & SWI_EDGE_CUT) == 0 &&
           (al->real[x->first] == SWI_NEW) == (al->real[y->first] == SWI_NEW);
}

/* After each unit, everywhere: the same one, which is after no other. */
static sw_status find_next(swi_alignment *al, uint32_t *next, bool *has_front)
{
    uint32_t *count = NULL;
    bool *seen = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, count, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, seen, al->n_slots));
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        for (uint32_t k = 0; k < v->n_runs; k++) {
            const swi_run *x = &al->runs[v->first_run + k];
            const bool follows = k + 1 < v->n_runs && is_alike(al, x, x + 1);
            const uint32_t behind = follows ? x[1].unit : NONE;
            next[x->unit] = !seen[x->unit] || next[x->unit] == behind ? behind : NONE;
            seen[x->unit] = true;
            count[x->unit]++;
        }
    }
    for (uint32_t u = 0; u < al->n_slots; u++) {
        if (!seen[u] || next[u] == NONE)
            next[u] = NONE;
        else if (count[next[u]] != count[u])
            next[u] = NONE;
        else
            has_front[next[u]] = true;
    }
    return SW_OK;
}

sw_status swi_align_cells(swi_alignment *al)
{
    uint32_t *next = NULL, n_members = 0;
    bool *has_front = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, al->runs, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->cell, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->members, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->cells, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, next, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, has_front, al->n_slots));
    cut_all_groups(al);
    find_runs(al);
    SW_TRY(find_next(al, next, has_front));
    for (uint32_t s = 0; s < al->n_slots; s++) {
        if (al->unit[s] != s || has_front[s])
            continue;
        swi_cell *cell = &al->cells[al->n_cells];
        cell->first = n_members;
        cell->flags = al->unit_flags[s];
        for (uint32_t u = s; u != NONE; u = next[u], cell->n++) {
            al->cell[u] = al->n_cells;
            al->members[n_members++] = u;
        }
        al->n_cells++;
    }
    return SW_OK;
}
