/* The values that a net takes over from the nets of its genome's parents, by the lineage of its
 * neurons. All that can fail is done before the first byte is written. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/base/common.h"
#include "runtime/population/evolve/mutate.h"
#include "runtime/population/evolve/net.h"
#include "runtime/population/resize_internal.h"
#include <float.h>
#include <string.h>

/* Neighbours that stay neighbours: n positions from `to` on were those from `from` on;
 * SWI_NEW: none. */
typedef struct {
    int32_t to, from, n;
} swi_neighbours;

/* Write elements first to first + n - 1 of a tensor, which begin at `to`. */
typedef void swi_write_fn(void *context, float *to, int64_t first, int64_t n);

/* A tensor (rows, columns of a group, ky, kx) that takes over what descends from another
 * one. Row r was row map_rows[r] there. Its groups of rows read groups of inputs: column c
 * of group j is input j * cols + c, which was input map_cols[that]; where that was not read
 * by the group of the row's origin there is nothing to take over. Taps keep their distance
 * from the middle. */
typedef struct {
    float *to;
    const float *from;
    const int32_t *map_rows, *map_cols; /* map_cols NULL: one column, the same in both */
    int64_t rows, rows_from, cols, cols_from;
    int64_t groups, groups_from;
    int64_t ky, kx, ky_from, kx_from;
    float fill;              /* of columns and taps that are new in a row that is not */
    swi_write_fn *write_new; /* rows that are new */
    void *context;
    int32_t *pick;        /* room for cols */
    swi_neighbours *runs; /* room for rows + cols */
} swi_carry;

/* Who inherits. */
typedef struct {
    const sw_net *to;
    unsigned char *bytes;
    const sw_net *parent[2];      /* NULL: there is none */
    const unsigned char *from[2]; /* their bytes */
    uint64_t seed;
    void *block; /* room for the moves of every vertex */
    size_t block_bytes;
    int32_t *pick;
    swi_neighbours *runs;
} swi_heir;

static sw_status heir_check(const swi_heir *h);

/* How what is new in a net begins. */

/* Initialisers were checked when they were declared. */
static void write_first(const swi_heir *h, const swi_entry *e, float *to, int64_t first,
                        int64_t n)
{
    const sw_status status =
        swi_init_values(to, first, n, &e->shape, e->init, h->seed, e->name);
    SW_ASSERT(status == SW_OK);
    (void)status;
}

/* An entry's place, which is all to be written; what pads it is zero, as in a model that is
 * made ready. */
static float *place(const swi_heir *h, const swi_entry *e)
{
    memset(h->bytes + e->offset + e->bytes, 0, sw_size_round(e->bytes) - e->bytes);
    return (float *)(void *)(h->bytes + e->offset);
}

static int64_t entry_elements(const swi_entry *e)
{
    return (int64_t)(e->bytes / sw_dtype_bytes(e->dtype));
}

/* First values of elements first to first + n - 1, by the initialiser. */
static void begin_entry(const swi_heir *h, const swi_entry *e)
{
    float *to = place(h, e);
    if (e->dtype != SW_F32 || strcmp(e->init, "zeros") == 0)
        memset(to, 0, e->bytes);
    else
        write_first(h, e, to, 0, entry_elements(e));
}

/* Elements that moved: where each element of what vertices give was before an edit, from the
 * vertex that lost its elements to those that read them by their columns. */

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
    *m = (moved){.n = (uint32_t)n};
    if (n > SWI_MAX_UNITS)
        SW_FAIL(SW_UNSUPPORTED, "%lld elements are more than a vertex may have", (long long)n);
    SW_TRY(sw_heap_alloc(&m->map, SW_HEAP_RECORDS, (size_t)n * sizeof *m->map));
    m->own = true;
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

/* The parts that it had, in their order, then new ones. One that is new had its first part,
 * which its readers read. */
static sw_status follow_concat(follow *f, uint32_t i)
{
    const swi_vertex *v = &f->now->vertices[i], *old = before(f, v);
    const uint32_t n_old = old != NULL ? old->n_in : 1;
    int64_t n = 0, from = 0;
    bool any = i == f->cut || v->n_in > n_old;
    for (uint32_t k = 0; k < v->n_in; k++) {
        any = any || f->of[v->in[k]].map != NULL;
        n += count(f, v->in[k]);
    }
    if (!any)
        return SW_OK;
    SW_TRY(make(&f->of[i], n));
    int32_t *out = f->of[i].map, *const end = out + n;
    for (uint32_t k = 0, was = 0; was < n_old; was++) {
        const int64_t had = old != NULL ? f->was->vertices[old->in[was]].channels : 0;
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
    while (out < end)
        *out++ = SWI_NEW;
    return SW_OK;
}

/* ---- the others -------------------------------------------------------------------------- */

static sw_status follow_vertex(follow *f, uint32_t i)
{
    swi_vertex *v = &f->now->vertices[i];
    if (swi_vertex_is_sized(v)) {
        const moved *m = &f->of[v->in[0]];
        if (m->map == NULL)
            return SW_OK;
        if (v->kind == SW_VERTEX_CONV2D && v->groups != 1)
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s': its groups would read other channels",
                    v->name);
        return v->cols != NULL ? swi_vertex_move_cols(v, m->map, m->n) : SW_OK;
    }
    switch (v->kind) {
    case SW_VERTEX_INPUT:
        return SW_OK;
    case SW_VERTEX_FLATTEN:
        return follow_flatten(f, i);
    case SW_VERTEX_ADD: {
        for (uint32_t k = 1; k < v->n_in; k++)
            if (!same(&f->of[v->in[0]], &f->of[v->in[k]]))
                SW_FAIL(SW_UNSUPPORTED, "vertex '%s' adds elements of which some would move",
                        v->name);
        f->of[i] = f->of[v->in[0]];
        f->of[i].own = false;
        return SW_OK;
    }
    case SW_VERTEX_CONCAT:
        return follow_concat(f, i);
    default:
        f->of[i] = f->of[v->in[0]];
        f->of[i].own = false;
        if (f->of[i].map == NULL || v->rows == NULL)
            return SW_OK;
        return swi_vertex_move_rows(v, f->of[i].map, f->of[i].n);
    }
}

sw_status swi_positions_follow(sw_genome *now, const sw_genome *was, uint32_t cut,
                               uint32_t gone)
{
    const size_t bytes = now->n * sizeof(moved);
    follow f = {.now = now, .was = was, .cut = cut, .gone = gone};
    SW_TRY(sw_heap_alloc(&f.of, SW_HEAP_RECORDS, bytes));
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < now->n && status == SW_OK; i++)
        status = follow_vertex(&f, i);
    if (status == SW_OK && f.of[now->n - 1].map != NULL)
        status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__, "the logits would move");
    for (uint32_t i = 0; i < now->n; i++)
        if (f.of[i].own)
            sw_heap_free(f.of[i].map, SW_HEAP_RECORDS, f.of[i].n * sizeof *f.of[i].map);
    sw_heap_free(f.of, SW_HEAP_RECORDS, bytes);
    return status;
}

/* One tensor of a descendant. Maps of rows and columns are made runs of neighbours first, so
 * that what lies side by side in both goes by one copy: whole rows at a time where nothing but
 * rows came and went. */

#define AHEAD 2048  /* floats: the best of 256 to 2048 for states beyond the cache */
#define SHORT_RUN 8 /* columns: below that on the average a loop is faster than copies */

static size_t bytes_of(int64_t n)
{
    return (size_t)n * sw_dtype_bytes(SW_F32);
}

/* Runs of a map; how many. */
static int64_t find_runs(const int32_t *map, int64_t n, swi_neighbours *out)
{
    int64_t runs = 0;
    for (int64_t i = 0; i < n; i++) {
        if (runs > 0) {
            swi_neighbours *last = &out[runs - 1];
            const int32_t next = last->from == SWI_NEW ? SWI_NEW : last->from + last->n;
            if (map[i] == next) {
                last->n++;
                continue;
            }
        }
        out[runs++] = (swi_neighbours){(int32_t)i, map[i], 1};
    }
    return runs;
}

/* ---- a row ------------------------------------------------------------------------------- */

/* The old place of each column of a row, for rows of one group that come from one group. */
typedef struct {
    const swi_carry *m;
    int64_t group, group_from; /* that `pick` is of; -1: none yet */
    const swi_neighbours *runs;
    int64_t n_runs;
    bool same_window;
    bool whole;   /* a row is a row of the parent */
    bool any_new; /* of the columns */
} columns;

static void pick_columns(columns *c, swi_neighbours *runs, int64_t group, int64_t group_from)
{
    const swi_carry *m = c->m;
    if (c->group == group && c->group_from == group_from)
        return;
    c->group = group;
    c->group_from = group_from;
    for (int64_t i = 0; i < m->cols; i++) {
        const int64_t was = m->map_cols != NULL ? m->map_cols[group * m->cols + i] : i;
        const int64_t in_group = was - group_from * m->cols_from;
        m->pick[i] = was != SWI_NEW && in_group >= 0 && in_group < m->cols_from
                         ? (int32_t)in_group
                         : SWI_NEW;
    }
    c->runs = runs;
    c->n_runs = find_runs(m->pick, m->cols, runs);
    c->any_new = false;
    for (int64_t k = 0; k < c->n_runs; k++)
        c->any_new |= runs[k].from == SWI_NEW;
    c->whole = c->same_window && m->cols == m->cols_from && c->n_runs == 1 && runs->from == 0;
}

static void fill(float *to, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

static void move_runs(const columns *c, float *to, const float *from)
{
    const int64_t taps = c->m->ky * c->m->kx;
    for (int64_t k = 0; k < c->n_runs; k++) {
        const swi_neighbours *r = &c->runs[k];
        if (r->from == SWI_NEW)
            fill(to + r->to * taps, r->n * taps, c->m->fill);
        else
            memcpy(to + r->to * taps, from + r->from * taps, bytes_of(r->n * taps));
    }
}

/* The taps of one column, of another window: the middle stays the middle. */
static void move_window(const swi_carry *m, float *to, const float *from)
{
    const int64_t dy = (m->ky_from - m->ky) / 2, dx = (m->kx_from - m->kx) / 2;
    for (int64_t y = 0; y < m->ky; y++)
        for (int64_t x = 0; x < m->kx; x++) {
            const bool there =
                y + dy >= 0 && y + dy < m->ky_from && x + dx >= 0 && x + dx < m->kx_from;
            to[y * m->kx + x] = there ? from[(y + dy) * m->kx_from + x + dx] : m->fill;
        }
}

static void move_row(const columns *c, float *to, const float *from)
{
    const swi_carry *m = c->m;
    const int64_t taps = m->ky * m->kx, taps_from = m->ky_from * m->kx_from;
    if (c->same_window && taps == 1 && c->n_runs * SHORT_RUN > m->cols) {
        /* Columns one by one, of one tap each, without a branch: what is new reads column 0
         * first. */
        const int32_t *pick = c->m->pick;
        const int64_t n = c->m->cols;
        int64_t i = 0;
        for (; i + 16 <= n; i += 16) {
            __builtin_prefetch(from + (pick[i] & ~(pick[i] >> 31)) + AHEAD);
            __builtin_prefetch(to + i + AHEAD, 1);
            for (int k = 0; k < 16; k++)
                to[i + k] = from[pick[i + k] & ~(pick[i + k] >> 31)];
        }
        for (; i < n; i++)
            to[i] = from[pick[i] & ~(pick[i] >> 31)];
        for (int64_t k = 0; c->any_new && k < c->n_runs; k++)
            if (c->runs[k].from == SWI_NEW)
                fill(to + c->runs[k].to, c->runs[k].n, c->m->fill);
        return;
    }
    if (c->same_window) {
        move_runs(c, to, from);
        return;
    }
    for (int64_t i = 0; i < m->cols; i++)
        if (m->pick[i] == SWI_NEW)
            fill(to + i * taps, taps, m->fill);
        else
            move_window(m, to + i * taps, from + m->pick[i] * taps_from);
}

/* ---- all rows ---------------------------------------------------------------------------- */

/* Rows of one group that come from one group. */
static void move_rows(const columns *c, int64_t to, int64_t from, int64_t n)
{
    const swi_carry *m = c->m;
    const int64_t row = m->cols * m->ky * m->kx;
    const int64_t row_from = m->cols_from * m->ky_from * m->kx_from;
    if (c->whole) {
        memcpy(m->to + to * row, m->from + from * row_from, bytes_of(n * row));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        move_row(c, m->to + (to + i) * row, m->from + (from + i) * row_from);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* inherit_carry.c */
static void carry_tensor(const swi_carry *m)
{
    const int64_t row = m->cols * m->ky * m->kx;
    const int64_t of_group = m->rows / m->groups, of_group_from = m->rows_from / m->groups_from;
    columns c = {
        .m = m, .group = -1, .same_window = m->ky == m->ky_from && m->kx == m->kx_from};
    swi_neighbours *rows = m->runs, *room = m->runs + m->rows;
    const int64_t n_runs = find_runs(m->map_rows, m->rows, rows);
    SW_ASSERT(of_group * m->groups == m->rows);
    for (int64_t k = 0; k < n_runs; k++) {
        const swi_neighbours *r = &rows[k];
        if (r->from == SWI_NEW) {
            m->write_new(m->context, m->to + r->to * row, r->to * row, r->n * row);
            continue;
        }
        for (int64_t at = 0, n; at < r->n; at += n) {
            const int64_t to = r->to + at, from = r->from + at;
            n = least(r->n - at, of_group - to % of_group);
            n = least(n, of_group_from - from % of_group_from);
            pick_columns(&c, room, to / of_group, from / of_group_from);
            move_rows(&c, to, from, n);
        }
    }
}

/* The vertex that v was; NULL: it is of no parent. */
static const swi_vertex *origin(const swi_heir *h, const swi_vertex *v)
{
    if (v->parent == SWI_NO_PARENT || h->parent[0] == NULL)
        return NULL;
    return &h->parent[v->parent]->genome->vertices[v->was];
}

/* ---- one tensor -------------------------------------------------------------------------- */

/* Which axes it has of its vertex: its outputs, its inputs, or both with windows. */
typedef enum { OF_ROWS, OF_COLS, OF_BOTH } axes;

typedef struct {
    const swi_heir *h;
    const swi_entry *e;
} first_values;

static void write_new(void *context, float *to, int64_t first, int64_t n)
{
    const first_values *f = context;
    write_first(f->h, f->e, to, first, n);
}

static void write_utility(void *context, float *to, int64_t first, int64_t n)
{
    (void)context, (void)first;
    for (int64_t i = 0; i < n; i++)
        to[i] = FLT_EPSILON;
}

/* A vector, of outputs or of inputs. */
static swi_carry vector_of(const int32_t *map, int64_t n, int64_t n_from)
{
    return (swi_carry)SW_INIT(.map_rows = map, .rows = n, .rows_from = n_from, .cols = 1,
                              .cols_from = 1, .groups = 1, .groups_from = 1, .ky = 1, .kx = 1,
                              .ky_from = 1, .kx_from = 1);
}

static swi_carry both_of(const swi_heir *h, const swi_vertex *v, const swi_vertex *was)
{
    swi_carry m = vector_of(v->rows, v->channels, was->channels);
    if (swi_vertex_is_sized(v)) {
        m.groups = v->kind == SW_VERTEX_CONV2D ? v->groups : 1;
        m.groups_from = v->kind == SW_VERTEX_CONV2D ? was->groups : 1;
        m.map_cols = v->cols;
        m.cols = v->n_cols / m.groups;
        m.cols_from = swi_vertex_reads(h->parent[v->parent]->genome, was) / m.groups_from;
    }
    if (v->kind == SW_VERTEX_CONV2D) {
        m.ky = m.kx = v->kernel;
        m.ky_from = m.kx_from = was->kernel;
    }
    return m;
}

static swi_carry move_of(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                         axes which)
{
    if (which == OF_ROWS)
        return vector_of(v->rows, v->channels, was->channels);
    if (which == OF_BOTH)
        return both_of(h, v, was);
    return vector_of(v->cols, v->n_cols, swi_vertex_reads(h->parent[v->parent]->genome, was));
}

/* Entry `from` of the parent's model becomes `entry`; m has the axes. */
static void take_over(const swi_heir *h, const swi_vertex *v, const swi_entry *e, uint32_t from,
                      swi_carry *m)
{
    const swi_entry *origin = &h->parent[v->parent]->model->entries[from];
    first_values first = {h, e};
    m->to = place(h, e);
    m->from = (const float *)(const void *)(h->from[v->parent] + origin->offset);
    m->write_new = m->write_new != NULL ? m->write_new : write_new;
    m->context = &first;
    m->pick = h->pick;
    m->runs = h->runs;
    SW_ASSERT(m->rows * m->cols * m->ky * m->kx == entry_elements(e));
    SW_ASSERT(m->rows_from * m->cols_from * m->ky_from * m->kx_from == entry_elements(origin));
    carry_tensor(m);
}

/* ---- parameters and what optimizers keep for them ---------------------------------------- */

static const swi_entry *entry_of(const sw_net *net, sw_param param)
{
    return &net->model->entries[param.index];
}

/* The state of the parent's parameter that is the same of it: the names end alike. */
static uint32_t same_state(const sw_net *net, const swi_entry *p, const char *suffix)
{
    for (int k = 0; k < SWI_MAX_STATE && p->state[k] != SWI_NONE; k++)
        if (strcmp(net->model->entries[p->state[k]].name + strlen(p->name), suffix) == 0)
            return p->state[k];
    return SWI_NONE;
}

/* The element that carry_tensor takes. */
static int64_t origin_of(const void *context, int64_t i)
{
    const swi_carry *m = context;
    const int64_t x = i % m->kx + (m->kx_from - m->kx) / 2;
    const int64_t y = i / m->kx % m->ky + (m->ky_from - m->ky) / 2;
    const int64_t col = i / m->kx / m->ky % m->cols, row = i / m->kx / m->ky / m->cols;
    const int64_t group = row / (m->rows / m->groups), row_from = m->map_rows[row];
    const int64_t group_from = row_from / (m->rows_from / m->groups_from);
    const int64_t was = m->map_cols != NULL ? m->map_cols[group * m->cols + col] : col;
    const int64_t col_from = was - group_from * m->cols_from;
    if (row_from < 0 || was < 0 || col_from < 0 || col_from >= m->cols_from || x < 0 ||
        x >= m->kx_from || y < 0 || y >= m->ky_from)
        return -1;
    return ((row_from * m->cols_from + col_from) * m->ky_from + y) * m->kx_from + x;
}

static bool same_kind(const sw_net *a, const sw_net *b)
{
    return a->optimizer->kind == b->optimizer->kind;
}

/* Adafactor keeps the rows and columns of the last two axes: of a linear weight its outputs and
 * inputs, of a window its lines and columns. */
static swi_carry move_of_state(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                               const swi_entry *p, const swi_entry *state, axes which)
{
    const bool rows = strcmp(state->name + strlen(p->name), ".rows") == 0;
    if (state->shape.rank == p->shape.rank)
        return move_of(h, v, was, which);
    if (v->kind == SW_VERTEX_LINEAR)
        return move_of(h, v, was, rows ? OF_ROWS : OF_COLS);
    swi_carry m = both_of(h, v, was);
    *(rows ? &m.kx : &m.ky) = 1;
    *(rows ? &m.kx_from : &m.ky_from) = 1;
    return m;
}

static void inherit_states(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                           const swi_entry *p, const swi_entry *from, axes which)
{
    const swi_entry *entries = h->to->model->entries;
    for (int k = 0; k < SWI_MAX_STATE && p->state[k] != SWI_NONE; k++) {
        const swi_entry *e = &entries[p->state[k]];
        uint32_t its = SWI_NONE;
        if (was != NULL && same_kind(h->to, h->parent[v->parent]))
            its = same_state(h->parent[v->parent], from, e->name + strlen(p->name));
        if (e->dtype == SW_U8) /* and the scales of these codes */
            begin_entry(h, &entries[p->state[++k]]);
        if (its == SWI_NONE) {
            begin_entry(h, e);
            continue;
        }
        swi_carry m = move_of_state(h, v, was, p, e, which);
        const swi_entry *state = &h->parent[v->parent]->model->entries[its];
        if (e->dtype == SW_U8 || state->dtype == SW_U8) {
            (void)place(h, e);
            swi_state8_take(h->to->model, p, e->dtype == SW_U8 ? k - 1 : k, h->bytes, state,
                            h->from[v->parent], origin_of, &m);
            continue;
        }
        write_first(h, e, &m.fill, 0, 1);
        take_over(h, v, e, its, &m);
    }
}

static void inherit_param(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                          sw_param param, sw_param from, axes which)
{
    const swi_entry *p = entry_of(h->to, param);
    if (was == NULL) {
        begin_entry(h, p);
        inherit_states(h, v, NULL, p, NULL, which);
        return;
    }
    swi_carry m = move_of(h, v, was, which);
    take_over(h, v, p, from.index, &m);
    inherit_states(h, v, was, p, entry_of(h->parent[v->parent], from), which);
}

/* ---- vertices ---------------------------------------------------------------------------- */

static void inherit_utility(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                            sw_param utility, sw_param from)
{
    const swi_entry *e = entry_of(h->to, utility);
    if (was == NULL || from.index == 0) {
        /* A weight that gives what it reads; as much of it as there are inputs and outputs. */
        float *to = place(h, e);
        for (int64_t i = 0; i < entry_elements(e); i++)
            to[i] = FLT_EPSILON;
        return;
    }
    swi_carry m = move_of(h, v, was, OF_ROWS);
    m.write_new = write_utility;
    take_over(h, v, e, from.index, &m);
}

static void inherit_vertex(const swi_heir *h, uint32_t i)
{
    static const swi_net_layer none;
    const swi_vertex *v = &h->to->genome->vertices[i], *was = origin(h, v);
    const swi_net_layer *l = &h->to->layers[i];
    const swi_net_layer *from = was != NULL ? &h->parent[v->parent]->layers[v->was] : &none;
    if (!swi_vertex_has_parameters(v))
        return;
    const bool norm = v->kind == SW_VERTEX_BATCH_NORM;
    inherit_param(h, v, was, l->weight, from->weight, norm ? OF_ROWS : OF_BOTH);
    inherit_param(h, v, was, l->bias, from->bias, OF_ROWS);
    if (norm) {
        inherit_param(h, v, was, l->mean, from->mean, OF_ROWS);
        inherit_param(h, v, was, l->variance, from->variance, OF_ROWS);
    }
    if (l->utility.index != 0)
        inherit_utility(h, v, was, l->utility, from->utility);
    if (was == NULL && swi_vertex_is_identity(v)) {
        const swi_entry *bias = entry_of(h->to, l->bias);
        /* Ones where input c of a group is what output r of the group shall be, in the
         * middle tap. */
        const swi_entry *weight = entry_of(h->to, l->weight);
        float *to = place(h, weight);
        const int64_t groups = v->kind != SW_VERTEX_CONV2D ? 1
                               : v->groups == 0            ? v->channels
                                                           : v->groups;
        const int64_t cols = swi_vertex_reads(h->to->genome, v) / groups;
        const int64_t rows = v->channels / groups;
        const int64_t taps = v->kind == SW_VERTEX_CONV2D ? (int64_t)v->kernel * v->kernel : 1;
        memset(to, 0, weight->bytes);
        for (int64_t r = 0; r < v->channels; r++)
            if (r % rows < cols)
                to[(r * cols + r % rows) * taps + taps / 2] = 1;
        memset(place(h, bias), 0, bias->bytes);
    }
}

/* ---- numbers of the optimizer, knobs ----------------------------------------------------- */

/* The parent whose steps and skipped updates go on: the first that has a state of the same
 * kind, of which anything was taken over. NULL: none. */
static const sw_net *counted_by(const swi_heir *h, const unsigned char **bytes)
{
    const sw_genome *g = h->to->genome;
    for (uint8_t k = 0; k < 2 && h->parent[k] != NULL; k++) {
        bool takes = false;
        for (uint32_t i = 0; i < g->n; i++)
            takes |= swi_vertex_has_parameters(&g->vertices[i]) && g->vertices[i].parent == k;
        if (takes && same_kind(h->to, h->parent[k])) {
            *bytes = h->from[k];
            return h->parent[k];
        }
    }
    return NULL;
}

static void inherit_number(const swi_heir *h, uint32_t entry, const sw_net *net,
                           const unsigned char *bytes, uint32_t from)
{
    const swi_entry *e = &h->to->model->entries[entry];
    if (net == NULL || from == SWI_NONE) {
        begin_entry(h, e);
        return;
    }
    const swi_entry *its = &net->model->entries[from];
    SW_ASSERT(its->bytes == e->bytes);
    memcpy(place(h, e), bytes + its->offset, e->bytes);
}

static void write_knobs(const swi_heir *h)
{
    const sw_model *model = h->to->model;
    if (model->n_knobs == 0)
        return;
    float *to = place(h, &model->entries[model->knob_entry]);
    for (uint32_t i = 0; i < model->n_knobs; i++)
        to[i] = model->knobs[i].value;
}

/* ---- calls ------------------------------------------------------------------------------- */

static sw_status inherit(swi_heir *h)
{
    /* Room for the columns that were picked, and for the runs of rows and columns. */
    const sw_genome *g = h->to->genome;
    size_t rows = 1, cols = 1;
    for (uint32_t i = 0; i < g->n; i++) {
        rows = g->vertices[i].n_rows > rows ? g->vertices[i].n_rows : rows;
        cols = g->vertices[i].n_cols > cols ? g->vertices[i].n_cols : cols;
    }
    rows = cols > rows ? cols : rows; /* a vector of inputs has them as its rows */
    h->block_bytes = 0;
    const size_t pick = sw_size_part(&h->block_bytes, cols * sizeof *h->pick);
    const size_t runs = sw_size_part(&h->block_bytes, (rows + cols) * sizeof *h->runs);
    SW_TRY(sw_heap_alloc(&h->block, SW_HEAP_RECORDS, h->block_bytes));
    h->pick = (int32_t *)(void *)((char *)h->block + pick);
    h->runs = (swi_neighbours *)(void *)((char *)h->block + runs);
    for (uint32_t i = 0; i < g->n; i++)
        inherit_vertex(h, i);
    const unsigned char *bytes = NULL;
    const sw_net *net = counted_by(h, &bytes);
    const sw_optimizer *o = h->to->optimizer, *from = net != NULL ? net->optimizer : o;
    for (int k = 0; k < SWI_MAX_GROUPS; k++)
        if (o->tick[k] != SWI_NONE)
            inherit_number(h, o->tick[k], net, bytes, from->tick[k]);
    if (o->counts != SWI_NONE)
        inherit_number(h, o->counts, net, bytes, from->counts);
    write_knobs(h);
    sw_heap_free(h->block, SW_HEAP_RECORDS, h->block_bytes);
    return SW_OK;
}

sw_status swi_net_inherit(const sw_net *to, unsigned char *bytes, const sw_net *a,
                          const unsigned char *a_bytes, const sw_net *b,
                          const unsigned char *b_bytes, uint64_t seed)
{
    swi_heir h = {
        .to = to, .bytes = bytes, .parent = {a, b}, .from = {a_bytes, b_bytes}, .seed = seed};
    SW_TRY(heir_check(&h));
    return inherit(&h);
}

sw_status swi_net_begin(const sw_net *net, unsigned char *bytes, uint64_t seed)
{
    swi_heir h = {.to = net, .bytes = bytes, .seed = seed};
    return inherit(&h);
}

/* Before a net inherits: are these the nets of its genome's parents, and does its lineage fit
 * them? */

static sw_status check_map(const swi_vertex *v, const char *what, const int32_t *map,
                           uint32_t n, int64_t must_be, int64_t below)
{
    if (map == NULL || (int64_t)n != must_be)
        SW_FAIL(SW_INVALID, "vertex '%s': its %s must be %lld numbers (got %u)", v->name, what,
                (long long)must_be, map == NULL ? 0 : n);
    for (uint32_t i = 0; i < n; i++)
        if (map[i] < SWI_NEW || map[i] >= below)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': %s: number %u was %d, and its parent's vertex has %lld",
                    v->name, what, i, map[i], (long long)below);
    return SW_OK;
}

static sw_status check_vertex(const swi_heir *h, const swi_vertex *v)
{
    if (v->parent == SWI_NO_PARENT)
        return SW_OK;
    const sw_net *net = v->parent < 2 ? h->parent[v->parent] : NULL;
    if (net == NULL || v->was >= net->genome->n)
        SW_FAIL(SW_INVALID,
                "vertex '%s': it was vertex %u of parent %u, and there is no such vertex",
                v->name, v->was, v->parent);
    if (!swi_vertex_has_parameters(v))
        return SW_OK;
    const swi_vertex *was = &net->genome->vertices[v->was];
    if (was->kind != v->kind || swi_vertex_is_depthwise(was) != swi_vertex_is_depthwise(v))
        SW_FAIL(SW_INVALID, "vertex '%s': it was '%s', which is of another kind", v->name,
                was->name);
    SW_TRY(check_map(v, "rows", v->rows, v->n_rows, v->channels, was->channels));
    if (!swi_vertex_is_sized(v))
        return SW_OK;
    return check_map(v, "cols", v->cols, v->n_cols, swi_vertex_reads(h->to->genome, v),
                     swi_vertex_reads(net->genome, was));
}

static sw_status check_parent(const sw_net *to, int k, const sw_net *parent)
{
    const sw_genome *g = to->genome;
    const uint64_t hash = parent != NULL ? swi_genome_hash(parent->genome) : 0;
    if (hash == g->parents[k] && parent != NULL)
        return SW_OK;
    SW_FAIL(SW_INVALID,
            "model %s: %s must be a net of its genome's %s parent, whose hash is %016llx (got "
            "%016llx)",
            to->model->name, k == 0 ? "a" : "b", k == 0 ? "first" : "second",
            (unsigned long long)g->parents[k], (unsigned long long)hash);
}

/* Has it parents, are these their nets, and is the lineage of each vertex one of theirs? */
static sw_status heir_check(const swi_heir *h)
{
    const sw_genome *g = h->to->genome;
    if (g->n_parents == 0)
        SW_FAIL(SW_INVALID, "model %s: its genome must have parents to inherit from",
                h->to->model->name);
    if (g->n_parents == 1 && h->parent[1] != NULL)
        SW_FAIL(SW_INVALID, "model %s: b must be NULL, for its genome has one parent",
                h->to->model->name);
    for (uint32_t k = 0; k < g->n_parents; k++)
        SW_TRY(check_parent(h->to, (int)k, h->parent[k]));
    for (uint32_t i = 0; i < g->n; i++)
        SW_TRY(check_vertex(h, &g->vertices[i]));
    return SW_OK;
}
