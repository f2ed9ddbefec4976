/* Sizes: all chosen vertices at once. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool swi_can_size(const sw_genome *g, uint32_t v)
{
    return v + 1 < g->n && swi_vertex_is_sized(&g->vertices[v]) &&
           (g->vertices[v].shield & SW_SHIELD_SIZE) == 0;
}

int64_t swi_size_by(const swi_child *c, int64_t size, double share)
{
    const int64_t by = (int64_t)ceil(fabs(share) * (double)size - 1e-9);
    if (share < 0)
        return size - by;
    const int64_t most = size > c->opts->max_size ? size : c->opts->max_size;
    return by > most - size ? most : size + by;
}

bool swi_growth_is_exact(const sw_genome *now, const sw_genome *before)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const swi_vertex *v = &now->vertices[i], *w = &before->vertices[i];
        if (v->parent == SWI_NO_PARENT && swi_vertex_has_parameters(v) &&
            (v->channels != w->channels ||
             swi_vertex_reads(now, v) != swi_vertex_reads(before, w)))
            return false;
    }
    return true;
}

/* Those that would fall below 1 are left alone. */
static sw_status draw_wishes(swi_child *c, const sw_mutation *m, uint32_t n, uint32_t *wishes)
{
    double low, high;
    void *block = c->wishes;
    swi_mutation_range(m, &low, &high);
    *wishes = 0;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &c->wishes_cap, n, sizeof *c->wishes));
    c->wishes = block;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = swi_genome_find(c->genome, c->names[i]);
        const int64_t size = c->genome->vertices[v].size;
        const int64_t to = swi_size_by(c, size, swi_draw_range(&c->draws, low, high));
        if (to >= 1 && to != size)
            c->wishes[(*wishes)++] = (swi_wish){.vertex = v, .size = to};
    }
    return SW_OK;
}

static void record(swi_child *c, bool exact)
{
    for (uint32_t i = 0; i < c->genome->n; i++) {
        const swi_vertex *v = &c->genome->vertices[i], *was = &c->before->vertices[i];
        swi_change_note note = {.exact = exact};
        if (!swi_vertex_is_sized(v) || v->size == was->size)
            continue;
        memcpy(note.vertex, v->name, sizeof note.vertex);
        snprintf(note.text, sizeof note.text, "%s: %lld to %lld outputs", v->name,
                 (long long)was->size, (long long)v->size);
        swi_child_record(c, SW_MUTATE_SIZE, &note);
    }
}

sw_status swi_change_sizes(swi_child *c, const sw_mutation *m, uint32_t n)
{
    uint32_t wishes;
    bool stays;
    swi_align_info info = {0};
    SW_TRY(draw_wishes(c, m, n, &wishes));
    if (wishes == 0)
        return SW_OK;
    SW_TRY(swi_child_begin(c));
    const sw_status status = swi_child_align(c, c->wishes, wishes, NULL, 0, &info);
    if (status == SW_OK && info.added + info.dropped == 0)
        return SW_OK; /* nothing moved: there is nothing to ask about */
    SW_TRY(swi_child_accept(c, status, &stays));
    if (stays)
        record(c, info.dropped == 0 && swi_growth_is_exact(c->genome, c->before));
    return SW_OK;
}
