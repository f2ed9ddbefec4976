/* One tensor of a descendant. Maps of rows and columns are made runs of neighbours first, so
 * that what lies side by side in both goes by one copy: whole rows at a time where nothing but
 * rows came and went. */
#include "alloc/base/assert.h"
#include "runtime/population/evolve/inherit.h"
#include <string.h>

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

/* Columns one by one, of one tap each, without a branch: what is new reads column 0 first. */
static void gather(const columns *c, float *to, const float *from)
{
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
        gather(c, to, from);
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

void swi_carry_tensor(const swi_carry *m)
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
