/* Alignment from end to end; what changes is prepared beside the genome, which then takes it
 * over or stays as it is. */
#include "runtime/population/evolve/align_internal.h"
#include <math.h>
#include <string.h>

#define BYTES(n) ((size_t)(n) * sizeof(int32_t))

/* ---- lineage of one vertex --------------------------------------------------------------- */

/* Of no vertex before: of none now. */
static sw_status compose(int32_t **out, const int32_t *old, const int32_t *map, size_t n)
{
    void *block;
    *out = NULL;
    if (old == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, BYTES(n)));
    *out = block;
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

/* ---- all -----------------------------------------------------------------------------------
 */

static sw_status check_vertex(const sw_genome *g, uint32_t vertex, const char *what, size_t k)
{
    if (vertex >= g->n)
        SW_FAIL(SW_INVALID, "%s %zu: its vertex must be below %u (got %u)", what, k, g->n,
                vertex);
    return SW_OK;
}

static sw_status check_utility(const sw_genome *g, const sw_neuron_utility *u)
{
    const swi_vertex *v = &g->vertices[u->vertex];
    if (u->values == NULL || u->n != v->channels)
        SW_FAIL(SW_INVALID,
                "utilities of vertex '%s': there must be one for each of its %lld outputs (got "
                "%lld)",
                v->name, (long long)v->channels, (long long)(u->values != NULL ? u->n : 0));
    for (int64_t i = 0; i < u->n; i++)
        if (!isfinite(u->values[i]))
            SW_FAIL(SW_INVALID,
                    "utilities of vertex '%s': each must be finite (output %lld "
                    "has %g)",
                    v->name, (long long)i, (double)u->values[i]);
    return SW_OK;
}

static sw_status check(const sw_genome *g, const swi_align_opts *opts)
{
    for (size_t k = 0; k < opts->n_wishes; k++)
        SW_TRY(check_vertex(g, opts->wishes[k].vertex, "wish", k));
    for (size_t k = 0; k < opts->n_ties; k++) {
        SW_TRY(check_vertex(g, opts->ties[k].a, "tie", k));
        SW_TRY(check_vertex(g, opts->ties[k].b, "tie", k));
    }
    for (size_t k = 0; k < opts->n_utilities; k++) {
        SW_TRY(check_vertex(g, opts->utilities[k].vertex, "utility", k));
        SW_TRY(check_utility(g, &opts->utilities[k]));
    }
    return SW_OK;
}

static sw_status align(swi_alignment *al, swi_align_info *info)
{
    SW_TRY(SWI_TAKE(&al->scratch, al->vertices, al->genome->n));
    SW_TRY(swi_align_units(al));
    SW_TRY(swi_align_cells(al));
    SW_TRY(swi_align_sizes(al, info));
    SW_TRY(swi_align_keep(al));
    return apply(al, info);
}

sw_status swi_align(sw_genome *genome, const swi_align_opts *opts, swi_align_info *info)
{
    swi_alignment al = {.genome = genome, .opts = opts};
    swi_align_info own = {.optimal = true};
    SW_TRY(check(genome, opts));
    const sw_status status = align(&al, &own);
    swi_scratch_end(&al.scratch);
    if (status == SW_OK && info != NULL)
        *info = own;
    return status;
}
