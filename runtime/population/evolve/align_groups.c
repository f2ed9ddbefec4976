/* Groups of convolutions stay equal, in what they read and in what they give. Cells that are
 * alone in their groups are one variable; else the sums of the groups are equal. */
#include "runtime/population/evolve/align_rows.h"

/* Which group the next element is in, `n` of those that are there being before it. New
 * ones belong to the group before them. */
static int64_t group_of(const swi_alignment *al, const swi_grouped *x, uint32_t slot,
                        int64_t *n)
{
    const int64_t per_group = al->genome->vertices[x->vertex].channels / x->groups;
    if (al->real[slot] == SWI_NEW)
        return (*n - 1) / per_group;
    return (*n)++ / per_group;
}

/* Each group is one cell by itself, with as many slots for each unit: one variable. */
static bool are_single(const swi_alignment *al, const swi_grouped *x, uint32_t *cells,
                       uint32_t *n)
{
    swi_cursor c = swi_cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = swi_cursor_next(&c, &slot, &between);
        const int64_t k = group_of(al, x, slot, &there);
        const uint32_t cell = al->cell[al->unit[slot]];
        if (n[k] > 0 && cells[k] != cell)
            return false;
        cells[k] = cell;
        n[k]++;
    }
    for (int k = 1; k < x->groups; k++)
        if (n[k] != n[0] || al->cells[cells[k]].n != al->cells[cells[0]].n)
            return false;
    return true;
}

void swi_groups_add(swi_rows *b, const swi_grouped *x, int k)
{
    const swi_alignment *al = b->al;
    swi_cursor c = swi_cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = swi_cursor_next(&c, &slot, &between);
        const int64_t group = group_of(al, x, slot, &there);
        if ((group == 0 || group == k) && swi_unit_begins_cell(al, al->unit[slot]))
            swi_rows_add_term(b, al->cells[al->cell[al->unit[slot]]].var, group == 0 ? -1 : 1);
    }
}

sw_status swi_groups_find(swi_alignment *al, swi_grouped **out, uint32_t *n)
{
    const sw_genome *g = al->genome;
    SW_TRY(SWI_TAKE(&al->scratch, *out, 2 * (size_t)g->n));
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (v->kind != SW_VERTEX_CONV2D || v->groups <= 1)
            continue;
        if (al->vertices[v->in[0]].concerned)
            (*out)[(*n)++] = (swi_grouped){v->in[0], v->groups};
        if (al->vertices[i].concerned)
            (*out)[(*n)++] = (swi_grouped){i, v->groups};
    }
    return SW_OK;
}

sw_status swi_groups_join(swi_alignment *al, uint32_t *var, swi_grouped *x, uint32_t *n)
{
    uint32_t *cells = NULL, *count = NULL, rest = 0;
    for (uint32_t i = 0; i < *n; i++) {
        SW_TRY(SWI_TAKE(&al->scratch, cells, x[i].groups));
        SW_TRY(SWI_TAKE(&al->scratch, count, x[i].groups));
        const bool single = are_single(al, &x[i], cells, count);
        for (int k = 1; single && k < x[i].groups; k++)
            swi_class_join(var, cells[0], cells[k]);
        if (!single)
            x[rest++] = x[i];
    }
    *n = rest;
    return SW_OK;
}
