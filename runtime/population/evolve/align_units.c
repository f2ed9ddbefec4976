/* Outputs of vertices as slots of their sources, and which slots are one unit.
 *
 * Edges, between a slot and the next one, are classes too: whether two slots of one unit are
 * one run of a flattened channel (a new unit comes after the run), or two (a new unit comes
 * after each), must be the same wherever slots are tied. Where it is not, the unit is rigid.
 */
#include "runtime/population/evolve/align_internal.h"
#include <string.h>

bool swi_vertex_is_source(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_INPUT || swi_vertex_is_sized(v);
}

/* ---- classes ----------------------------------------------------------------------------- */

uint32_t swi_class_find(uint32_t *classes, uint32_t i)
{
    while (classes[i] != i)
        i = classes[i] = classes[classes[i]];
    return i;
}

void swi_class_join(uint32_t *classes, uint32_t a, uint32_t b)
{
    a = swi_class_find(classes, a);
    b = swi_class_find(classes, b);
    classes[a > b ? a : b] = a < b ? a : b;
}

/* ---- which vertices, and what their outputs are ------------------------------------------ */

static sw_status find_concerned(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    uint32_t *group = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, group, g->n));
    for (uint32_t i = 0; i < g->n; i++)
        group[i] = i;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (!swi_vertex_is_source(&g->vertices[i]))
                swi_class_join(group, i, g->vertices[i].in[k]);
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        al->vertices[swi_class_find(group, al->opts->wishes[k].vertex)].concerned = true;
    for (size_t k = 0; k < al->opts->n_ties; k++) {
        al->vertices[swi_class_find(group, al->opts->ties[k].a)].concerned = true;
        al->vertices[swi_class_find(group, al->opts->ties[k].b)].concerned = true;
    }
    for (uint32_t i = 0; i < g->n; i++)
        al->vertices[i].concerned = al->vertices[swi_class_find(group, i)].concerned;
    return SW_OK;
}

static sw_status take_parts(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    uint64_t total = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        swi_aligned *at = &al->vertices[i];
        if (!at->concerned)
            continue;
        at->n_parts = swi_vertex_is_source(v) ? 1 : al->vertices[v->in[0]].n_parts;
        for (uint32_t k = 1; v->kind == SW_VERTEX_CONCAT && k < v->n_in; k++)
            at->n_parts += al->vertices[v->in[k]].n_parts;
        at->first_part = (uint32_t)total;
        total += at->n_parts;
    }
    if (total > UINT32_MAX)
        SW_FAIL(SW_UNSUPPORTED, "sizes: concats have %llu parts in all; they must have fewer",
                (unsigned long long)total);
    return SWI_TAKE(&al->scratch, al->parts, total);
}

static sw_status find_parts(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    SW_TRY(take_parts(al));
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (!al->vertices[i].concerned)
            continue;
        swi_part *to = al->parts + al->vertices[i].first_part;
        if (swi_vertex_is_source(v))
            *to = (swi_part){i, 1};
        const uint32_t n_in = swi_vertex_is_source(v)       ? 0
                              : v->kind == SW_VERTEX_CONCAT ? v->n_in
                                                            : 1;
        for (uint32_t k = 0; k < n_in; k++) {
            const swi_aligned *from = &al->vertices[v->in[k]];
            for (uint32_t p = 0; p < from->n_parts; p++, to++) {
                const swi_vertex *x = &g->vertices[v->in[k]];
                *to = al->parts[from->first_part + p];
                if (v->kind == SW_VERTEX_FLATTEN)
                    to->each *= (uint32_t)(x->height * x->width);
            }
        }
    }
    return SW_OK;
}

/* ---- elements ---------------------------------------------------------------------------- */

uint64_t swi_aligned_length(const swi_alignment *al, uint32_t vertex)
{
    const swi_aligned *v = &al->vertices[vertex];
    uint64_t n = 0;
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        n += (uint64_t)al->vertices[al->parts[p].source].n_slots * al->parts[p].each;
    return n;
}

swi_cursor swi_cursor_of(const swi_alignment *al, uint32_t vertex)
{
    const swi_aligned *v = &al->vertices[vertex];
    const swi_part *part = al->parts + v->first_part;
    return (swi_cursor){al, part, part + v->n_parts, al->vertices[part->source].first_slot, 0};
}

bool swi_cursor_next(swi_cursor *c, uint32_t *slot, uint8_t *between)
{
    const swi_aligned *source = &c->al->vertices[c->part->source];
    *slot = c->slot;
    *between = SWI_EDGE_GLUED;
    if (++c->sub < c->part->each)
        return true;
    *between = 0;
    c->sub = 0;
    if (++c->slot < source->first_slot + source->n_slots)
        return true;
    *between = SWI_EDGE_SEAM;
    if (++c->part == c->end)
        return false;
    c->slot = c->al->vertices[c->part->source].first_slot;
    return true;
}

/* ---- what is one ------------------------------------------------------------------------- */

static void join_edges(swi_alignment *al, uint32_t a, uint32_t b)
{
    a = swi_class_find(al->edge, a);
    b = swi_class_find(al->edge, b);
    const uint8_t flags = al->edge_flags[a] | al->edge_flags[b];
    swi_class_join(al->edge, a, b);
    al->edge_flags[a < b ? a : b] = flags;
}

/* The first n elements of two vertices. */
static void tie(swi_alignment *al, uint32_t a, uint32_t b, uint64_t n)
{
    swi_cursor x = swi_cursor_of(al, a), y = swi_cursor_of(al, b);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t p, q;
        uint8_t between_x, between_y;
        swi_cursor_next(&x, &p, &between_x);
        swi_cursor_next(&y, &q, &between_y);
        swi_class_join(al->unit, p, q);
        if (i + 1 == n)
            break;
        if (between_x == 0 && between_y == 0)
            join_edges(al, p, q);
        else if (between_x == 0)
            al->edge_flags[swi_class_find(al->edge, p)] |= between_y;
        else if (between_y == 0)
            al->edge_flags[swi_class_find(al->edge, q)] |= between_x;
        else if (between_x != between_y)
            al->unit_flags[p] |= SWI_UNIT_RIGID;
    }
}

/* All ties of adds, and the first ones of the options. */
void swi_align_unite(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    memset(al->edge_flags, 0, al->n_slots);
    memcpy(al->unit_flags, al->slot_flags, al->n_slots);
    for (uint32_t s = 0; s < al->n_slots; s++)
        al->unit[s] = al->edge[s] = s;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 1; g->vertices[i].kind == SW_VERTEX_ADD &&
                             al->vertices[i].concerned && k < g->vertices[i].n_in;
             k++)
            tie(al, g->vertices[i].in[0], g->vertices[i].in[k],
                swi_aligned_length(al, g->vertices[i].in[0]));
    for (uint32_t k = 0; k < al->n_tied; k++)
        tie(al, al->opts->ties[k].a, al->opts->ties[k].b, al->tied[k]);
    for (uint32_t s = 0; s < al->n_slots; s++) {
        const uint8_t both = SWI_EDGE_GLUED | SWI_EDGE_SEAM;
        al->edge[s] = swi_class_find(al->edge, s);
        al->unit[s] = swi_class_find(al->unit, s);
        if ((al->edge_flags[al->edge[s]] & both) == both)
            al->unit_flags[s] |= SWI_UNIT_RIGID;
        al->unit_flags[al->unit[s]] |= al->unit_flags[s];
    }
}

sw_status swi_align_take_slots(swi_alignment *al, uint32_t n)
{
    al->n_slots = n;
    SW_TRY(SWI_TAKE(&al->scratch, al->real, n));
    SW_TRY(SWI_TAKE(&al->scratch, al->slot_flags, n));
    SW_TRY(SWI_TAKE(&al->scratch, al->unit, n));
    SW_TRY(SWI_TAKE(&al->scratch, al->edge, n));
    SW_TRY(SWI_TAKE(&al->scratch, al->unit_flags, n));
    return SWI_TAKE(&al->scratch, al->edge_flags, n);
}

static sw_status make_slots(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (al->vertices[i].concerned && swi_vertex_is_source(&g->vertices[i])) {
            al->vertices[i].first_slot = (uint32_t)n;
            al->vertices[i].n_slots = (uint32_t)g->vertices[i].channels;
            n += (uint64_t)g->vertices[i].channels;
        }
    if (n > SWI_ALIGN_SLOTS)
        SW_FAIL(SW_UNSUPPORTED,
                "sizes: vertices that lie together have %llu outputs in all; "
                "they must have at most %d",
                (unsigned long long)n, SWI_ALIGN_SLOTS);
    SW_TRY(swi_align_take_slots(al, (uint32_t)n));
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < al->vertices[i].n_slots; k++)
            al->real[al->vertices[i].first_slot + k] = (int32_t)k;
    return SW_OK;
}

sw_status swi_align_units(swi_alignment *al)
{
    SW_TRY(find_concerned(al));
    SW_TRY(find_parts(al));
    SW_TRY(make_slots(al));
    swi_align_unite(al);
    return swi_align_ties(al);
}
