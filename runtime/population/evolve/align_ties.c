/* Ties of the options: two vertices get outputs that are one. Where one has more, the other
 * gets slots for new units, which are wherever its last unit is; the solver decides how many of
 * them there will be. Where that cannot make them equally long, what is more must go. */
#include "runtime/population/evolve/align_internal.h"
#include <string.h>

/* The end of a vertex's outputs: a run of one unit. Elements that a new unit after it adds to
 * the vertex; 0: there can be none. */
static uint64_t end_of(const swi_alignment *al, uint32_t vertex, uint32_t *unit)
{
    const swi_aligned *v = &al->vertices[vertex];
    const swi_part *part = &al->parts[v->first_part + v->n_parts - 1];
    const swi_aligned *source = &al->vertices[part->source];
    const uint32_t last = source->first_slot + source->n_slots - 1;
    uint32_t n = 1;
    *unit = al->unit[last];
    while (n < source->n_slots && (al->edge_flags[al->edge[last - n]] & SWI_EDGE_GLUED) != 0)
        n++;
    return (al->unit_flags[*unit] & SWI_UNIT_RIGID) != 0 ? 0 : (uint64_t)n * part->each;
}

/* After slot s a run of `unit` ends. */
static bool ends_run(const swi_alignment *al, const swi_aligned *v, uint32_t s, uint32_t unit)
{
    return al->unit[s] == unit && (s + 1 == v->first_slot + v->n_slots ||
                                   (al->edge_flags[al->edge[s]] & SWI_EDGE_GLUED) == 0);
}

static uint64_t slots_of_unit(const swi_alignment *al, uint32_t unit)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < al->n_slots; s++)
        n += al->unit[s] == unit;
    return n;
}

/* `n` new units after this one, wherever it is. */
static sw_status add_units(swi_alignment *al, uint32_t unit, uint64_t n)
{
    const swi_alignment old = *al;
    const uint64_t by = slots_of_unit(al, unit) * n;
    if (by > SWI_ALIGN_SLOTS - al->n_slots)
        SW_FAIL(SW_UNSUPPORTED, "sizes: a tie takes %llu new outputs; it must take fewer",
                (unsigned long long)by);
    SW_TRY(swi_align_take_slots(al, (uint32_t)(al->n_slots + by)));
    uint32_t to = 0;
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned v = al->vertices[i];
        const uint32_t first = to;
        uint32_t run = 0;
        for (uint32_t s = v.first_slot; s < v.first_slot + v.n_slots; s++) {
            al->real[to] = old.real[s];
            al->slot_flags[to++] = old.slot_flags[s];
            run = old.unit[s] == unit ? run + 1 : 0;
            if (!ends_run(&old, &v, s, unit))
                continue;
            for (uint64_t k = 0; k < run * n; k++)
                al->real[to++] = SWI_NEW;
            run = 0;
        }
        al->vertices[i].first_slot = first;
        al->vertices[i].n_slots = to - first;
    }
    swi_align_unite(al);
    return SW_OK;
}

/* Numbers of new units with which both are equally long, the least ones; false: there are none.
 * The second is the longer one. */
static bool count_new(uint64_t short_by, uint64_t step_a, uint64_t step_b, uint64_t *new_a,
                      uint64_t *new_b)
{
    if (step_a == 0)
        return false;
    *new_a = (short_by + step_a - 1) / step_a;
    for (uint64_t tries = 0; tries <= step_b; tries++, ++*new_a) {
        const uint64_t over = *new_a * step_a - short_by;
        *new_b = step_b > 0 ? over / step_b : 0;
        if (*new_b * step_b == over)
            return true;
    }
    return false;
}

/* Slots for new units after the shorter one, where that makes both equally long. */
static sw_status lengthen(swi_alignment *al, uint32_t a, uint32_t b)
{
    uint32_t unit_a, unit_b;
    uint64_t new_a, new_b;
    const uint64_t more = swi_aligned_length(al, b) - swi_aligned_length(al, a);
    const uint64_t step_a = end_of(al, a, &unit_a), step_b = end_of(al, b, &unit_b);
    if (unit_a == unit_b || !count_new(more, step_a, step_b, &new_a, &new_b))
        return SW_OK;
    SW_TRY(add_units(al, unit_a, new_a));
    if (new_b == 0)
        return SW_OK;
    (void)end_of(al, b, &unit_b); /* slots have other numbers now */
    return add_units(al, unit_b, new_b);
}

static void cut_off(swi_alignment *al, uint32_t vertex, uint64_t length)
{
    swi_cursor c = swi_cursor_of(al, vertex);
    uint32_t slot;
    uint8_t between;
    bool more = true;
    for (uint64_t i = 0; more; i++) {
        more = swi_cursor_next(&c, &slot, &between);
        if (i >= length)
            al->slot_flags[slot] |= SWI_UNIT_GONE;
    }
}

/* Slots are as in `before`; memory that was taken since then stays. */
static void go_back(swi_alignment *al, const swi_alignment *before, const swi_aligned *vertices)
{
    const swi_scratch scratch = al->scratch;
    *al = *before;
    al->scratch = scratch;
    memcpy(al->vertices, vertices, al->genome->n * sizeof *vertices);
}

static sw_status tie_unequal(swi_alignment *al, uint32_t a, uint32_t b)
{
    const swi_alignment before = *al;
    swi_aligned *vertices = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, vertices, al->genome->n));
    memcpy(vertices, al->vertices, al->genome->n * sizeof *vertices);
    SW_TRY(lengthen(al, a, b));
    if (swi_aligned_length(al, a) == swi_aligned_length(al, b))
        return SW_OK;
    go_back(al, &before, vertices);
    cut_off(al, b, swi_aligned_length(al, a));
    return SW_OK;
}

/* *unequal: they were not equally long. */
static sw_status tie(swi_alignment *al, size_t k, bool *unequal)
{
    const uint32_t a = al->opts->ties[k].a, b = al->opts->ties[k].b;
    const uint64_t length_a = swi_aligned_length(al, a), length_b = swi_aligned_length(al, b);
    *unequal = length_a != length_b;
    if (*unequal)
        SW_TRY(length_a < length_b ? tie_unequal(al, a, b) : tie_unequal(al, b, a));
    const uint64_t now_a = swi_aligned_length(al, a), now_b = swi_aligned_length(al, b);
    al->tied[k] = now_a < now_b ? now_a : now_b;
    if (al->n_tied == k)
        al->n_tied++;
    swi_align_unite(al);
    return SW_OK;
}

/* New units of a later tie may come to one vertex of an earlier one: then that is made equal
 * again. Units that are unequal in the end are cut. */
sw_status swi_align_ties(swi_alignment *al)
{
    const size_t n = al->opts->n_ties;
    bool unequal;
    SW_TRY(SWI_TAKE(&al->scratch, al->tied, n));
    for (size_t k = 0; k < n; k++)
        SW_TRY(tie(al, k, &unequal));
    bool any = n > 1;
    for (size_t round = 0; round < n && any; round++) {
        any = false;
        for (size_t k = 0; k < n; k++) {
            SW_TRY(tie(al, k, &unequal));
            any = any || unequal;
        }
    }
    for (size_t k = 0; k < n && any; k++) {
        const uint32_t a = al->opts->ties[k].a, b = al->opts->ties[k].b;
        const uint64_t length_a = swi_aligned_length(al, a),
                       length_b = swi_aligned_length(al, b);
        if (length_a != length_b)
            cut_off(al, length_a < length_b ? b : a, length_a < length_b ? length_a : length_b);
    }
    return SW_OK;
}
