/* Which units stay, and for each source where its new outputs come from. */
#include "runtime/population/evolve/align_internal.h"

/* ---- utility ----------------------------------------------------------------------------- */

/* By unit: the sum over all its neurons. */
static sw_status add_utilities(swi_alignment *al, double *utility)
{
    const float **values = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, values, al->genome->n));
    for (size_t k = 0; k < al->opts->n_utilities; k++)
        values[al->opts->utilities[k].vertex] = al->opts->utilities[k].values;
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        for (uint32_t s = v->first_slot; s < v->first_slot + v->n_slots; s++)
            if (al->real[s] != SWI_NEW)
                utility[al->unit[s]] +=
                    values[i] != NULL ? (double)values[i][al->real[s]] : 1.0;
    }
    return SW_OK;
}

/* ---- who stays --------------------------------------------------------------------------- */

typedef struct {
    double utility;
    uint32_t unit, place;
} choice;

static bool is_better(const choice *a, const choice *b)
{
    return a->utility > b->utility || (a->utility == b->utility && a->place < b->place);
}

/* A heap, the best one at its root, but for element i, which goes down to its place. */
static void sink(choice *heap, uint32_t n, uint32_t i)
{
    const choice x = heap[i];
    for (uint32_t k = 2 * i + 1; k < n; i = k, k = 2 * i + 1) {
        k += k + 1 < n && is_better(&heap[k + 1], &heap[k]);
        if (!is_better(&heap[k], &x))
            break;
        heap[i] = heap[k];
    }
    heap[i] = x;
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
    for (uint32_t i = cell->n / 2; i-- > 0;)
        sink(room, cell->n, i);
    for (uint32_t n = cell->n; n > cell->n - (uint32_t)cell->size; n--) {
        stays[room[0].unit] = true;
        room[0] = room[n - 1];
        sink(room, n - 1, 0);
    }
}

/* ---- where outputs come from ------------------------------------------------------------- */

/* How many units come after this one. */
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
    SW_TRY(add_utilities(al, utility));
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
