/* Which units stay, and for each source where its new outputs come from. */
#include "runtime/population/evolve/align_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- utility ----------------------------------------------------------------------------- */

static const float *values_of(const swi_alignment *al, uint32_t vertex)
{
    for (size_t k = 0; k < al->opts->n_utilities; k++)
        if (al->opts->utilities[k].vertex == vertex)
            return al->opts->utilities[k].values;
    return NULL;
}

/* By unit: the sum over all its neurons. */
static void add_utilities(const swi_alignment *al, double *utility)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        const float *values =
            v->n_slots > 0 && al->opts->n_utilities > 0 ? values_of(al, i) : NULL;
        for (uint32_t s = v->first_slot; s < v->first_slot + v->n_slots; s++)
            if (al->real[s] != SWI_NEW)
                utility[al->unit[s]] += values != NULL ? (double)values[al->real[s]] : 1.0;
    }
}

/* ---- who stays --------------------------------------------------------------------------- */

typedef struct {
    double utility;
    uint32_t unit, place;
} choice;

static int by_utility(const void *x, const void *y)
{
    const choice *a = x, *b = y;
    if (a->utility != b->utility)
        return a->utility > b->utility ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

static void choose(const swi_alignment *al, const swi_cell *cell, const double *utility,
                   choice *room, bool *stays)
{
    const uint32_t *units = al->members + cell->first;
    if (cell->size >= cell->n) {
        for (uint32_t i = 0; i < cell->n; i++)
            stays[units[i]] = true;
        return;
    }
    for (uint32_t i = 0; i < cell->n; i++)
        room[i] = (choice){utility[units[i]], units[i], i};
    qsort(room, cell->n, sizeof *room, by_utility);
    for (int64_t i = 0; i < cell->size; i++)
        stays[room[i].unit] = true;
}

/* ---- where outputs come from ------------------------------------------------------------- */

/* How many units come behind this one. */
static uint64_t new_behind(const swi_alignment *al, uint32_t unit)
{
    const swi_cell *cell = &al->cells[al->cell[unit]];
    if (cell->size <= cell->n || al->members[cell->first + cell->n - 1] != unit)
        return 0;
    return (uint64_t)cell->size - cell->n;
}

static sw_status map_source(swi_alignment *al, swi_aligned *v, const bool *stays)
{
    uint64_t n = 0;
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &al->runs[k];
        n += run->n * (stays[run->unit] + new_behind(al, run->unit));
    }
    SW_TRY(SWI_TAKE(&al->scratch, v->map, n));
    v->n_map = 0;
    for (uint32_t k = v->first_run; k < v->first_run + v->n_runs; k++) {
        const swi_run *run = &al->runs[k];
        for (uint32_t i = 0; stays[run->unit] && i < run->n; i++)
            v->map[v->n_map++] = al->real[run->first + i];
        for (uint64_t i = run->n * new_behind(al, run->unit); i > 0; i--)
            v->map[v->n_map++] = SWI_NEW;
    }
    return SW_OK;
}

static bool is_other(const swi_aligned *v, int64_t channels)
{
    if (v->n_map != channels)
        return true;
    for (uint32_t i = 0; i < v->n_map; i++)
        if (v->map[i] != (int32_t)i)
            return true;
    return false;
}

sw_status swi_align_keep(swi_alignment *al)
{
    double *utility = NULL;
    choice *room = NULL;
    bool *stays = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, utility, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, room, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, stays, al->n_slots));
    add_utilities(al, utility);
    for (uint32_t c = 0; c < al->n_cells; c++)
        choose(al, &al->cells[c], utility, room, stays);
    for (uint32_t i = 0; i < al->genome->n; i++) {
        swi_aligned *v = &al->vertices[i];
        if (v->n_slots == 0)
            continue;
        SW_TRY(map_source(al, v, stays));
        v->changed = is_other(v, al->genome->vertices[i].channels);
    }
    for (uint32_t i = 0; i < al->genome->n; i++)
        for (uint32_t p = 0; p < al->vertices[i].n_parts; p++)
            al->vertices[i].changed |=
                al->vertices[al->parts[al->vertices[i].first_part + p].source].changed;
    return SW_OK;
}
