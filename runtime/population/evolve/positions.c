/* Elements that moved: where each element of what vertices give was before an edit, from the
 * vertex that lost its elements to those that read them by their columns. */
#include "runtime/population/evolve/mutate.h"
#include <string.h>

/* Element i was element map[i]; NULL: all are where they were. */
typedef struct {
    int32_t *map;
    uint32_t n;
    bool own;
} moved;

typedef struct {
    sw_genome *now;
    const sw_genome *was;
    moved *of; /* by vertex of `now` */
    uint32_t cut, gone;
} follow;

static sw_status make(moved *m, int64_t n)
{
    void *block;
    if (n > SWI_MAX_UNITS)
        SW_FAIL(SW_UNSUPPORTED, "%lld elements are more than a vertex may have", (long long)n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof *m->map));
    *m = (moved){.map = block, .n = (uint32_t)n, .own = true};
    return SW_OK;
}

static const swi_vertex *before(const follow *f, const swi_vertex *v)
{
    const uint32_t i = swi_genome_find(f->was, v->name);
    return i != UINT32_MAX ? &f->was->vertices[i] : NULL;
}

static int64_t count(const follow *f, uint32_t x)
{
    return f->of[x].map != NULL ? f->of[x].n : f->now->vertices[x].channels;
}

/* ---- flatten ----------------------------------------------------------------------------- */

/* Of n rows or columns, which of `had` row i was: where there are more now, each of those that
 * were there is one of them, evenly spaced. */
static int64_t line_was(int64_t i, int64_t n, int64_t had)
{
    if (n <= had)
        return i * had / n;
    const int64_t old = (i * had + n - 1) / n; /* the first that is at i or after */
    return old < had && old * n / had == i ? old : SWI_NEW;
}

static sw_status follow_flatten(follow *f, uint32_t i)
{
    const swi_vertex *v = &f->now->vertices[i], *old = before(f, v);
    const uint32_t x = v->in[0];
    const int64_t h = f->now->vertices[x].height, w = f->now->vertices[x].width;
    const int64_t h0 = old != NULL ? f->was->vertices[old->in[0]].height : h;
    const int64_t w0 = old != NULL ? f->was->vertices[old->in[0]].width : w;
    const moved *m = &f->of[x];
    const int64_t channels = count(f, x);
    if (m->map == NULL && h == h0 && w == w0)
        return SW_OK;
    SW_TRY(make(&f->of[i], channels * h * w));
    int32_t *out = f->of[i].map;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t z = 0; z < w; z++) {
                const int64_t c0 = m->map != NULL ? m->map[c] : c;
                const int64_t y0 = line_was(y, h, h0), z0 = line_was(z, w, w0);
                *out++ =
                    c0 < 0 || y0 < 0 || z0 < 0 ? SWI_NEW : (int32_t)((c0 * h0 + y0) * w0 + z0);
            }
    return SW_OK;
}

/* ---- joins ------------------------------------------------------------------------------- */

static bool same(const moved *a, const moved *b)
{
    return (a->map == NULL) == (b->map == NULL) &&
           (a->map == NULL ||
            (a->n == b->n && memcmp(a->map, b->map, a->n * sizeof *a->map) == 0));
}

static sw_status follow_add(follow *f, uint32_t i)
{
    const swi_vertex *v = &f->now->vertices[i];
    for (uint32_t k = 1; k < v->n_in; k++)
        if (!same(&f->of[v->in[0]], &f->of[v->in[k]]))
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s' adds elements of which some would move",
                    v->name);
    f->of[i] = f->of[v->in[0]];
    f->of[i].own = false;
    return SW_OK;
}

static sw_status follow_concat(follow *f, uint32_t i)
{
    const swi_vertex *v = &f->now->vertices[i], *old = before(f, v);
    int64_t n = 0, from = 0;
    bool any = i == f->cut;
    for (uint32_t k = 0; k < v->n_in; k++) {
        any = any || f->of[v->in[k]].map != NULL;
        n += count(f, v->in[k]);
    }
    if (!any)
        return SW_OK;
    if (old == NULL)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s' is new", v->name);
    SW_TRY(make(&f->of[i], n));
    int32_t *out = f->of[i].map;
    for (uint32_t k = 0, was = 0; was < old->n_in; was++) {
        const int64_t had = f->was->vertices[old->in[was]].channels;
        if (i != f->cut || (f->gone >> was & 1) == 0) {
            const moved *m = &f->of[v->in[k]];
            const int64_t part = count(f, v->in[k++]);
            for (int64_t j = 0; j < part; j++) {
                const int64_t at = m->map != NULL ? m->map[j] : j;
                *out++ = at < 0 ? SWI_NEW : (int32_t)(from + at);
            }
        }
        from += had;
    }
    return SW_OK;
}

/* ---- the others -------------------------------------------------------------------------- */

static sw_status follow_sized(follow *f, swi_vertex *v)
{
    const moved *m = &f->of[v->in[0]];
    if (m->map == NULL)
        return SW_OK;
    if (v->kind == SW_VERTEX_CONV2D && v->groups != 1)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': its groups would read other channels", v->name);
    return v->cols != NULL ? swi_vertex_move_cols(v, m->map, m->n) : SW_OK;
}

static sw_status follow_same(follow *f, uint32_t i)
{
    swi_vertex *v = &f->now->vertices[i];
    f->of[i] = f->of[v->in[0]];
    f->of[i].own = false;
    if (f->of[i].map == NULL || v->rows == NULL)
        return SW_OK;
    return swi_vertex_move_rows(v, f->of[i].map, f->of[i].n);
}

static sw_status follow_vertex(follow *f, uint32_t i)
{
    swi_vertex *v = &f->now->vertices[i];
    if (swi_vertex_is_sized(v))
        return follow_sized(f, v);
    switch (v->kind) {
    case SW_VERTEX_INPUT:
        return SW_OK;
    case SW_VERTEX_FLATTEN:
        return follow_flatten(f, i);
    case SW_VERTEX_ADD:
        return follow_add(f, i);
    case SW_VERTEX_CONCAT:
        return follow_concat(f, i);
    default:
        return follow_same(f, i);
    }
}

/* Logits stay what they are. */
static sw_status check_last(const follow *f)
{
    if (f->of[f->now->n - 1].map != NULL)
        SW_FAIL(SW_UNSUPPORTED, "the logits would move");
    return SW_OK;
}

sw_status swi_positions_follow(sw_genome *now, const sw_genome *was, uint32_t cut,
                               uint32_t gone)
{
    void *block;
    const size_t bytes = now->n * sizeof(moved);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    follow f = {.now = now, .was = was, .of = block, .cut = cut, .gone = gone};
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < now->n && status == SW_OK; i++)
        status = follow_vertex(&f, i);
    if (status == SW_OK)
        status = check_last(&f);
    for (uint32_t i = 0; i < now->n; i++)
        if (f.of[i].own)
            sw_heap_free(f.of[i].map, SW_HEAP_RECORDS, f.of[i].n * sizeof *f.of[i].map);
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}
