/* Alignment from end to end; what changes is prepared beside the genome, which then takes it
 * over or stays as it is. */
#include "runtime/population/evolve/align.h"
#include <math.h>
#include <string.h>

static sw_status align_cells(swi_alignment *al);

/* Outputs of vertices as slots of their sources, and which slots are one unit.
 *
 * Edges, between a slot and the next one, are classes too: whether two slots of one unit are
 * one run of a flattened channel (a new unit comes after the run), or two (a new unit comes
 * after each), must be the same wherever slots are tied. Where it is not, the unit is rigid.
 */

static bool vertex_is_source(const swi_vertex *v)
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

static sw_status find_parts(swi_alignment *al)
{
    const sw_genome *g = al->genome;
    uint64_t total = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        swi_aligned *at = &al->vertices[i];
        if (!at->concerned)
            continue;
        at->n_parts = vertex_is_source(v) ? 1 : al->vertices[v->in[0]].n_parts;
        for (uint32_t k = 1; v->kind == SW_VERTEX_CONCAT && k < v->n_in; k++)
            at->n_parts += al->vertices[v->in[k]].n_parts;
        at->first_part = (uint32_t)total;
        total += at->n_parts;
    }
    if (total > UINT32_MAX)
        SW_FAIL(SW_UNSUPPORTED, "sizes: concats have %llu parts in all; they must have fewer",
                (unsigned long long)total);
    SW_TRY(SWI_TAKE(&al->scratch, al->parts, total));
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        if (!al->vertices[i].concerned)
            continue;
        swi_part *to = al->parts + al->vertices[i].first_part;
        if (vertex_is_source(v))
            *to = (swi_part){i, 1};
        const uint32_t n_in = vertex_is_source(v)           ? 0
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

static uint64_t aligned_length(const swi_alignment *al, uint32_t vertex)
{
    const swi_aligned *v = &al->vertices[vertex];
    uint64_t n = 0;
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        n += (uint64_t)al->vertices[al->parts[p].source].n_slots * al->parts[p].each;
    return n;
}

static swi_cursor cursor_of(const swi_alignment *al, uint32_t vertex)
{
    const swi_aligned *v = &al->vertices[vertex];
    const swi_part *part = al->parts + v->first_part;
    return (swi_cursor){al, part, part + v->n_parts, al->vertices[part->source].first_slot, 0};
}

/* To the next element. *between: SWI_EDGE_GLUED inside a channel, SWI_EDGE_SEAM between parts,
 * 0: the edge of *slot. False: there is none. */
static bool cursor_next(swi_cursor *c, uint32_t *slot, uint8_t *between)
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
    swi_cursor x = cursor_of(al, a), y = cursor_of(al, b);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t p, q;
        uint8_t between_x, between_y;
        cursor_next(&x, &p, &between_x);
        cursor_next(&y, &q, &between_y);
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
static void align_unite(swi_alignment *al)
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
                aligned_length(al, g->vertices[i].in[0]));
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

static sw_status align_take_slots(swi_alignment *al, uint32_t n)
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
        if (al->vertices[i].concerned && vertex_is_source(&g->vertices[i])) {
            al->vertices[i].first_slot = (uint32_t)n;
            al->vertices[i].n_slots = (uint32_t)g->vertices[i].channels;
            n += (uint64_t)g->vertices[i].channels;
        }
    if (n > SWI_ALIGN_SLOTS)
        SW_FAIL(SW_UNSUPPORTED,
                "sizes: vertices that lie together have %llu outputs in all; "
                "they must have at most %d",
                (unsigned long long)n, SWI_ALIGN_SLOTS);
    SW_TRY(align_take_slots(al, (uint32_t)n));
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < al->vertices[i].n_slots; k++)
            al->real[al->vertices[i].first_slot + k] = (int32_t)k;
    return SW_OK;
}

/* Ties of the options: two vertices get outputs that are one. Where one has more, the other
 * gets slots for new units, which are wherever its last unit is; the solver decides how many of
 * them there will be. Where that cannot make them equally long, what is more must go. */

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
    SW_TRY(align_take_slots(al, (uint32_t)(al->n_slots + by)));
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
    align_unite(al);
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
    const uint64_t more = aligned_length(al, b) - aligned_length(al, a);
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
    swi_cursor c = cursor_of(al, vertex);
    uint32_t slot;
    uint8_t between;
    bool more = true;
    for (uint64_t i = 0; more; i++) {
        more = cursor_next(&c, &slot, &between);
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
    if (aligned_length(al, a) == aligned_length(al, b))
        return SW_OK;
    go_back(al, &before, vertices);
    cut_off(al, b, aligned_length(al, a));
    return SW_OK;
}

/* *unequal: they were not equally long. */
static sw_status tie_outputs(swi_alignment *al, size_t k, bool *unequal)
{
    const uint32_t a = al->opts->ties[k].a, b = al->opts->ties[k].b;
    const uint64_t length_a = aligned_length(al, a), length_b = aligned_length(al, b);
    *unequal = length_a != length_b;
    if (*unequal)
        SW_TRY(length_a < length_b ? tie_unequal(al, a, b) : tie_unequal(al, b, a));
    const uint64_t now_a = aligned_length(al, a), now_b = aligned_length(al, b);
    al->tied[k] = now_a < now_b ? now_a : now_b;
    if (al->n_tied == k)
        al->n_tied++;
    align_unite(al);
    return SW_OK;
}

#define BYTES(n) ((size_t)(n) * sizeof(int32_t))

/* ---- lineage of one vertex --------------------------------------------------------------- */

/* Of no vertex before: of none now. */
static sw_status compose(int32_t **out, const int32_t *old, const int32_t *map, size_t n)
{
    *out = NULL;
    if (old == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, BYTES(n)));
    for (size_t i = 0; i < n; i++)
        (*out)[i] = map[i] < 0 ? SWI_NEW : old[map[i]];
    return SW_OK;
}

static sw_status move(int32_t **numbers, uint32_t *had, const int32_t *map, size_t n)
{
    int32_t *now;
    SW_TRY(compose(&now, *numbers, map, n));
    sw_heap_free(*numbers, SW_HEAP_RECORDS, BYTES(*had));
    *numbers = now;
    *had = now != NULL ? (uint32_t)n : 0;
    return SW_OK;
}

sw_status swi_vertex_move_cols(swi_vertex *v, const int32_t *map, size_t n)
{
    return move(&v->cols, &v->n_cols, map, n);
}

sw_status swi_vertex_move_rows(swi_vertex *v, const int32_t *map, size_t n)
{
    return move(&v->rows, &v->n_rows, map, n);
}

/* ---- all that changes, beside the genome ------------------------------------------------- */

typedef struct {
    int64_t size, channels, height, width;
    int32_t *rows, *cols;
    uint32_t n_rows, n_cols;
} fresh;

/* Where each of a vertex's new outputs comes from. */
static sw_status map_of(swi_alignment *al, uint32_t vertex, int32_t **out, uint32_t *n)
{
    const swi_aligned *v = &al->vertices[vertex];
    uint64_t length = 0;
    int64_t before = 0; /* outputs of the parts in front, as they were */
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++)
        length += (uint64_t)al->vertices[al->parts[p].source].n_map * al->parts[p].each;
    if (length > SWI_MAX_UNITS)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': it would have %llu outputs; at most %d can be",
                al->genome->vertices[vertex].name, (unsigned long long)length, SWI_MAX_UNITS);
    SW_TRY(SWI_TAKE(&al->scratch, *out, length));
    *n = 0;
    for (uint32_t p = v->first_part; p < v->first_part + v->n_parts; p++) {
        const uint32_t each = al->parts[p].each;
        const swi_aligned *source = &al->vertices[al->parts[p].source];
        for (uint32_t i = 0; i < source->n_map; i++)
            for (uint32_t k = 0; k < each; k++)
                (*out)[(*n)++] = source->map[i] < 0
                                     ? SWI_NEW
                                     : (int32_t)(before + (int64_t)source->map[i] * each + k);
        before += al->genome->vertices[al->parts[p].source].channels * each;
    }
    return SW_OK;
}

static sw_status prepare_rows(swi_alignment *al, uint32_t i, fresh *to)
{
    const swi_vertex *v = &al->genome->vertices[i];
    int32_t *map;
    uint32_t n;
    if (!al->vertices[i].changed || !swi_vertex_has_parameters(v))
        return SW_OK;
    SW_TRY(map_of(al, i, &map, &n));
    SW_TRY(compose(&to->rows, v->rows, map, n));
    to->n_rows = to->rows != NULL ? n : 0;
    to->size = swi_vertex_is_sized(v) ? n : v->size;
    return SW_OK;
}

static sw_status prepare_cols(swi_alignment *al, uint32_t i, fresh *to)
{
    const swi_vertex *v = &al->genome->vertices[i];
    int32_t *map;
    uint32_t n;
    if (!swi_vertex_is_sized(v) || v->cols == NULL || !al->vertices[v->in[0]].changed)
        return SW_OK;
    SW_TRY(map_of(al, v->in[0], &map, &n));
    SW_TRY(compose(&to->cols, v->cols, map, n));
    to->n_cols = n;
    return SW_OK;
}

/* Parts that are not prepared stay, so that a second exchange undoes the first one. */
static void exchange(swi_vertex *v, fresh *with)
{
    const fresh old = {v->size, v->channels, v->height, v->width,
                       v->rows, v->cols,     v->n_rows, v->n_cols};
    v->size = with->size;
    v->channels = with->channels;
    v->height = with->height;
    v->width = with->width;
    if (with->rows != NULL) {
        v->rows = with->rows;
        v->n_rows = with->n_rows;
        with->rows = old.rows;
        with->n_rows = old.n_rows;
    }
    if (with->cols != NULL) {
        v->cols = with->cols;
        v->n_cols = with->n_cols;
        with->cols = old.cols;
        with->n_cols = old.n_cols;
    }
    with->size = old.size;
    with->channels = old.channels;
    with->height = old.height;
    with->width = old.width;
}

static void count(const swi_alignment *al, swi_align_info *info)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_aligned *v = &al->vertices[i];
        int64_t stay = 0;
        for (uint32_t k = 0; k < v->n_map; k++)
            stay += v->map[k] >= 0;
        info->added += v->n_map - stay;
        info->dropped += v->n_slots > 0 ? al->genome->vertices[i].channels - stay : 0;
    }
}

static sw_status prepare(swi_alignment *al, fresh *all)
{
    for (uint32_t i = 0; i < al->genome->n; i++) {
        const swi_vertex *v = &al->genome->vertices[i];
        all[i] = (fresh){v->size, v->channels, v->height, v->width, NULL, NULL, 0, 0};
    }
    for (uint32_t i = 0; i < al->genome->n; i++) {
        SW_TRY(prepare_rows(al, i, &all[i]));
        SW_TRY(prepare_cols(al, i, &all[i]));
    }
    return SW_OK;
}

static sw_status apply(swi_alignment *al, swi_align_info *info)
{
    sw_genome *g = al->genome;
    fresh *all = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, all, g->n));
    sw_status status = prepare(al, all);
    if (status == SW_OK) {
        count(al, info);
        for (uint32_t i = 0; i < g->n; i++)
            exchange(&g->vertices[i], &all[i]);
        status = swi_genome_infer(g, NULL);
        for (uint32_t i = 0; i < g->n && status != SW_OK; i++)
            exchange(&g->vertices[i], &all[i]);
        status = status == SW_INVALID ? SW_UNSUPPORTED : status;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        sw_heap_free(all[i].rows, SW_HEAP_RECORDS, BYTES(all[i].n_rows));
        sw_heap_free(all[i].cols, SW_HEAP_RECORDS, BYTES(all[i].n_cols));
    }
    return status;
}

/* ---- all --------------------------------------------------------------------------------- */

static sw_status check_vertex(const sw_genome *g, uint32_t vertex, const char *what, size_t k)
{
    if (vertex >= g->n)
        SW_FAIL(SW_INVALID, "%s %zu: its vertex must be below %u (got %u)", what, k, g->n,
                vertex);
    return SW_OK;
}

static sw_status align(swi_alignment *al, swi_align_info *info)
{
    SW_TRY(SWI_TAKE(&al->scratch, al->vertices, al->genome->n));
    const sw_genome *g = al->genome;
    uint32_t *group = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, group, g->n));
    for (uint32_t i = 0; i < g->n; i++)
        group[i] = i;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (!vertex_is_source(&g->vertices[i]))
                swi_class_join(group, i, g->vertices[i].in[k]);
    for (size_t k = 0; k < al->opts->n_wishes; k++)
        al->vertices[swi_class_find(group, al->opts->wishes[k].vertex)].concerned = true;
    for (size_t k = 0; k < al->opts->n_ties; k++) {
        al->vertices[swi_class_find(group, al->opts->ties[k].a)].concerned = true;
        al->vertices[swi_class_find(group, al->opts->ties[k].b)].concerned = true;
    }
    for (uint32_t i = 0; i < g->n; i++)
        al->vertices[i].concerned = al->vertices[swi_class_find(group, i)].concerned;

    SW_TRY(find_parts(al));
    SW_TRY(make_slots(al));
    align_unite(al);
    /* New units of a later tie may come to one vertex of an earlier one: then that is made
     * equal again. Units that are unequal in the end are cut. */
    const size_t n = al->opts->n_ties;
    bool unequal;
    SW_TRY(SWI_TAKE(&al->scratch, al->tied, n));
    for (size_t j = 0; j < n; j++)
        SW_TRY(tie_outputs(al, j, &unequal));
    bool any = n > 1;
    for (size_t round = 0; round < n && any; round++) {
        any = false;
        for (size_t j = 0; j < n; j++) {
            SW_TRY(tie_outputs(al, j, &unequal));
            any = any || unequal;
        }
    }
    for (size_t j = 0; j < n && any; j++) {
        const uint32_t a = al->opts->ties[j].a, b = al->opts->ties[j].b;
        const uint64_t length_a = aligned_length(al, a), length_b = aligned_length(al, b);
        if (length_a != length_b)
            cut_off(al, length_a < length_b ? b : a, length_a < length_b ? length_a : length_b);
    }

    SW_TRY(align_cells(al));
    SW_TRY(swi_align_sizes(al, info));
    SW_TRY(swi_align_keep(al));
    return apply(al, info);
}

sw_status swi_align(sw_genome *genome, const swi_align_opts *opts, swi_align_info *info)
{
    swi_alignment al = {.genome = genome, .opts = opts};
    swi_align_info own = {.optimal = true};
    for (size_t k = 0; k < opts->n_wishes; k++)
        SW_TRY(check_vertex(genome, opts->wishes[k].vertex, "wish", k));
    for (size_t k = 0; k < opts->n_ties; k++) {
        SW_TRY(check_vertex(genome, opts->ties[k].a, "tie", k));
        SW_TRY(check_vertex(genome, opts->ties[k].b, "tie", k));
    }
    for (size_t k = 0; k < opts->n_utilities; k++) {
        SW_TRY(check_vertex(genome, opts->utilities[k].vertex, "utility", k));
        const swi_vertex *v = &genome->vertices[opts->utilities[k].vertex];
        if (opts->utilities[k].values == NULL || opts->utilities[k].n != v->channels)
            SW_FAIL(SW_INVALID,
                    "utilities of vertex '%s': there must be one for each of its %lld outputs "
                    "(got %lld)",
                    v->name, (long long)v->channels,
                    (long long)(opts->utilities[k].values != NULL ? opts->utilities[k].n : 0));
        for (int64_t i = 0; i < opts->utilities[k].n; i++)
            if (!isfinite(opts->utilities[k].values[i]))
                SW_FAIL(SW_INVALID,
                        "utilities of vertex '%s': each must be finite (output %lld has %g)",
                        v->name, (long long)i, (double)opts->utilities[k].values[i]);
    }

    const sw_status status = align(&al, &own);
    swi_scratch_end(&al.scratch);
    if (status == SW_OK && info != NULL)
        *info = own;
    return status;
}

/* Units that go together. A cell is a maximal row of units, one after the other in all sources
 * that they are in, with the same number of slots each. Whatever number of units it has, those
 * sources keep fitting: some units go everywhere, or new ones come after the last one
 * everywhere. */

#define NONE UINT32_MAX

static bool is_glued(const swi_alignment *al, uint32_t s)
{
    return (al->edge_flags[al->edge[s]] & SWI_EDGE_GLUED) != 0;
}

/* A vertex's channels are cut in `groups`. New ones belong to the group before them. */
static void cut_groups(swi_alignment *al, uint32_t vertex, int groups)
{
    const int64_t per_group = al->genome->vertices[vertex].channels / groups;
    swi_cursor c = cursor_of(al, vertex);
    uint32_t slot, before = 0;
    uint8_t between, between_before = SWI_EDGE_SEAM;
    int64_t n = 0;
    for (bool more = true; more; before = slot, between_before = between) {
        more = cursor_next(&c, &slot, &between);
        if (al->real[slot] == SWI_NEW || n++ % per_group != 0 || between_before != 0)
            continue;
        if (is_glued(al, before))
            al->unit_flags[al->unit[before]] |= SWI_UNIT_RIGID;
        al->edge_flags[al->edge[before]] |= SWI_EDGE_CUT;
    }
}

/* ---- runs -------------------------------------------------------------------------------- */

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

static sw_status align_cells(swi_alignment *al)
{
    uint32_t *next = NULL, n_members = 0;
    bool *has_front = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, al->runs, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->cell, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->members, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, al->cells, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, next, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, has_front, al->n_slots));
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
    for (uint32_t j = 0; j < al->genome->n; j++) {
        swi_aligned *v = &al->vertices[j];
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
    /* After each unit, everywhere: the same one, which is after no other. */
    uint32_t *count = NULL;
    bool *seen = NULL;
    SW_TRY(SWI_TAKE(&al->scratch, count, al->n_slots));
    SW_TRY(SWI_TAKE(&al->scratch, seen, al->n_slots));
    for (uint32_t m = 0; m < al->genome->n; m++) {
        const swi_aligned *v = &al->vertices[m];
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

/* Groups of convolutions stay equal, in what they read and in what they give. Cells that are
 * alone in their groups are one variable; else the sums of the groups are equal. */

/* Which group the next element is in, `n` of those that are there being before it. New
 * ones belong to the group before them. */
static int64_t group_of(const swi_alignment *al, const swi_grouped *x, uint32_t slot,
                        int64_t *n)
{
    const int64_t per_group = al->genome->vertices[x->vertex].channels / x->groups;
    return al->real[slot] == SWI_NEW ? (*n - 1) / per_group : (*n)++ / per_group;
}

/* Each group is one cell by itself, with as many slots for each unit: one variable. */
static bool are_single(const swi_alignment *al, const swi_grouped *x, uint32_t *cells,
                       uint32_t *n)
{
    swi_cursor c = cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = cursor_next(&c, &slot, &between);
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
    swi_cursor c = cursor_of(al, x->vertex);
    uint32_t slot;
    uint8_t between;
    int64_t there = 0;
    for (bool more = true; more;) {
        more = cursor_next(&c, &slot, &between);
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
