/* Sums and maxima along axes.
 *
 * Maximum over axes and its gradient: results are done sixteen at a time, or, where the reduced
 * positions are neighbours, each in sixteen lanes. The winner depends on order and not on
 * rounding.
 *
 * Cumulative sums along an axis: lines go sixteen at a time, side by side, or four where they
 * are rows: each is one chain of additions in float64, from the end it begins at. Sums of
 * columns, row after row: each column is one chain of additions. Rows of a table by their ids;
 * the gradient is cut by columns: a part walks through all ids and adds its columns, so that
 * each element is summed in the order of ids.
 *
 * So neither threads nor the cut show in the bits. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/vec.h"

enum {
    CHAINS = 4,      /* rows at once: an addition waits for the one before in its row alone */
    TOGETHER = 4,    /* rows of a sum of columns */
    STRIP = 4,       /* vectors whose sums stay in registers */
    WORTH = 1 << 16, /* numbers that are worth a second thread */
    NEAR = 1 << 16,  /* numbers that lie in a near cache: they may be read in any order */
    TABLE_COLS = 64  /* columns of a part where rows of a table meet */
};

/* ---- maximum over axes ------------------------------------------------------------------- */

typedef struct {
    float *y; /* or dx */
    const float *x;
    unsigned char *index;
    const unsigned char *won;
    sw_max_spec s;
    int64_t per_part, total;
} max_job;

/* Join axes that one step walks through. */
static int join(int64_t *dim, int64_t *step, int n)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (dim[i] == 1 && n > 1)
            continue;
        if (m > 0 && step[m - 1] == dim[i] * step[i]) {
            dim[m - 1] *= dim[i];
            step[m - 1] = step[i];
            continue;
        }
        dim[m] = dim[i];
        step[m++] = step[i];
    }
    if (m == 0) {
        dim[0] = 1;
        step[0] = 0;
        m = 1;
    }
    return m;
}

/* Where a position lies. */
static int64_t offset_of(int64_t position, const int64_t *dim, const int64_t *step, int n)
{
    int64_t at = 0;
    for (int i = n - 1; i > 0; i--) {
        at += position % dim[i] * step[i];
        position /= dim[i];
    }
    return at + position * step[0];
}

/* Four bytes are a whole number as the machine has it. */
static void put_index(unsigned char *index, int bytes, int64_t i, uint32_t position)
{
    if (bytes == 4) {
        memcpy(index + 4 * i, &position, 4);
        return;
    }
    for (int k = 0; k < bytes; k++)
        index[i * bytes + k] = (unsigned char)(position >> (8 * k));
}

static uint32_t get_index(const unsigned char *index, int bytes, int64_t i)
{
    uint32_t position = 0;
    if (bytes == 4)
        memcpy(&position, index + 4 * i, 4);
    for (int k = 0; bytes < 4 && k < bytes; k++)
        position |= (uint32_t)index[i * bytes + k] << (8 * k);
    return position;
}

/* n neighbours. */
static float row_max(const float *x, int64_t n, uint32_t *position)
{
    float best = x[0];
    int64_t i = 1;
    *position = 0;
    if (n >= 2 * LANES) {
        float lane[LANES];
        uint32_t at[LANES];
        for (uint32_t k = 0; k < LANES; k++) {
            lane[k] = x[k];
            at[k] = k;
        }
        for (i = LANES; i + LANES <= n; i += LANES)
            for (uint32_t k = 0; k < LANES; k++) {
                const float v = x[i + k], b = lane[k];
                const bool w = (v > b) | ((v != v) & (b == b));
                lane[k] = w ? v : b;
                at[k] = w ? (uint32_t)i + k : at[k];
            }
        best = lane[0];
        *position = at[0];
        for (int k = 1; k < LANES; k++) {
            const bool equal = lane[k] == best || (lane[k] != lane[k] && best != best);
            if (sw_wins(lane[k], best) || (equal && at[k] < *position)) {
                best = lane[k];
                *position = at[k];
            }
        }
    }
    for (; i < n; i++)
        if (sw_wins(x[i], best)) {
            best = x[i];
            *position = (uint32_t)i;
        }
    return best;
}

/* Up to sixteen results whose positions begin at x + from[k]; near: from[k] = from[0] + k. */
static void lanes_max(float *best, uint32_t *position, const float *x, const int64_t *from,
                      int n, bool near, const sw_max_spec *s)
{
    const int last = s->n_reduced - 1;
    const int64_t inner = s->reduced[last], step = s->reduced_step[last];
    float v[LANES];
    for (int k = 0; k < LANES; k++) {
        v[k] = best[k] = k < n ? x[from[k]] : 0.0f;
        position[k] = 0;
    }
    for (int64_t outer = 0; outer < s->n; outer += inner) {
        const float *row = x + offset_of(outer, s->reduced, s->reduced_step, s->n_reduced);
        for (int64_t r = 0; r < inner; r++, row += step) {
            if (near && n == LANES)
                for (int k = 0; k < LANES; k++)
                    v[k] = row[from[0] + k];
            else
                for (int k = 0; k < n; k++)
                    v[k] = row[from[k]];
            for (int k = 0; k < LANES; k++) {
                const bool w = (v[k] > best[k]) | ((v[k] != v[k]) & (best[k] == best[k]));
                best[k] = w ? v[k] : best[k];
                position[k] = w ? (uint32_t)(outer + r) : position[k];
            }
        }
    }
}

static void max_part(void *arg, int part)
{
    const max_job *j = arg;
    const sw_max_spec *s = &j->s;
    const bool rows = s->n_reduced == 1 && (s->reduced_step[0] == 1 || s->n == 1);
    const int64_t first = part * j->per_part;
    const int64_t end = least(first + j->per_part, s->outputs);
    for (int64_t o = first; o < end; o += LANES) {
        const int n = end - o < LANES ? (int)(end - o) : LANES;
        int64_t from[LANES];
        float best[LANES];
        uint32_t position[LANES];
        bool near = true;
        for (int k = 0; k < n; k++) {
            from[k] = offset_of(o + k, s->kept, s->kept_step, s->n_kept);
            near &= from[k] == from[0] + k;
        }
        for (int k = 0; rows && k < n; k++)
            best[k] = row_max(j->x + from[k], s->n, &position[k]);
        if (!rows)
            lanes_max(best, position, j->x, from, n, near, s);
        if (j->y != NULL)
            memcpy(j->y + o, best, (size_t)n * sizeof *best);
        for (int k = 0; k < n && j->index != NULL; k++)
            put_index(j->index, s->index_bytes, o + k, position[k]);
    }
}

static void start(max_job *j)
{
    sw_max_spec *s = &j->s;
    s->n_kept = join(s->kept, s->kept_step, s->n_kept);
    s->n_reduced = join(s->reduced, s->reduced_step, s->n_reduced);
    j->per_part = s->n >= PART / LANES ? LANES : PART / s->n / LANES * LANES;
}

static int parts_of(const max_job *j, int64_t n)
{
    return (int)((n + j->per_part - 1) / j->per_part);
}

void SW_KERNEL(axes, max_axes)(float *y, void *index, const float *x, const sw_max_spec *s,
                               const sw_par *par)
{
    max_job j = {.y = y, .x = x, .index = index, .s = *s};
    if (s->outputs < 1)
        return;
    start(&j);
    par->run(par, max_part, &j, parts_of(&j, s->outputs));
}

static void zero_part(void *arg, int part)
{
    const max_job *j = arg;
    const int64_t first = part * (int64_t)PART, left = j->total - first;
    memset(j->y + first, 0, (size_t)(left < PART ? left : PART) * sizeof *j->y);
}

static void max_dx_part(void *arg, int part)
{
    const max_job *j = arg;
    const sw_max_spec *s = &j->s;
    const int64_t first = part * j->per_part;
    const int64_t end = least(first + j->per_part, s->outputs);
    for (int64_t o = first; o < end; o++) {
        const int64_t position = get_index(j->won, s->index_bytes, o);
        const int64_t at = offset_of(o, s->kept, s->kept_step, s->n_kept) +
                           offset_of(position, s->reduced, s->reduced_step, s->n_reduced);
        j->y[at] += j->x[o];
    }
}

void SW_KERNEL(axes, max_axes_dx)(float *dx, const float *dy, const void *index,
                                  const sw_max_spec *s, bool accumulate, const sw_par *par)
{
    max_job j = {.y = dx, .x = dy, .won = index, .s = *s, .total = s->outputs * s->n};
    if (s->outputs < 1)
        return;
    start(&j);
    j.per_part = PART;
    if (!accumulate)
        par->run(par, zero_part, &j, (int)((j.total + PART - 1) / PART));
    par->run(par, max_dx_part, &j, parts_of(&j, s->outputs));
}

/* ---- cumulative sums --------------------------------------------------------------------- */

typedef struct {
    float *y;
    const float *x;
    sw_lines s;
    bool accumulate;
    int64_t per_part; /* lines */
} cumsum_job;

/* n lines anywhere. y may be x: what is read is read first. */
static void lanes_sum(const cumsum_job *j, const int64_t *from, int n)
{
    const sw_lines *s = &j->s;
    const int64_t step = s->reverse ? -s->inner : s->inner;
    int64_t at = s->reverse ? (s->n - 1) * s->inner : 0;
    double sum[LANES] = {0};
    for (int64_t i = 0; i < s->n; i++, at += step)
        for (int k = 0; k < n; k++) {
            float *y = j->y + from[k] + at;
            sum[k] += (double)j->x[from[k] + at];
            *y = j->accumulate ? *y + (float)sum[k] : (float)sum[k];
        }
}

/* Sixteen neighbours. */
static inline void near_sum(const cumsum_job *j, int64_t from, bool add)
{
    const int64_t step = j->s.reverse ? -j->s.inner : j->s.inner;
    const int64_t first = from + (j->s.reverse ? (j->s.n - 1) * j->s.inner : 0);
    const float *x = j->x + first;
    float *y = j->y + first;
    double sum[LANES] = {0};
    for (int64_t i = 0; i < j->s.n; i++, x += step, y += step) {
        float v[LANES];
        for (int k = 0; k < LANES; k++)
            sum[k] += (double)x[k];
        for (int k = 0; k < LANES; k++)
            v[k] = add ? y[k] + (float)sum[k] : (float)sum[k];
        memcpy(y, v, sizeof v);
    }
}

/* CHAINS rows, or one, from line l on; both are constants. */
static inline void rows_sum(const cumsum_job *j, int64_t l, int rows, bool add)
{
    const int64_t n = j->s.n, step = j->s.reverse ? -1 : 1;
    const float *x = j->x + l * n + (j->s.reverse ? n - 1 : 0);
    float *y = j->y + (x - j->x);
    double sum[CHAINS] = {0};
    for (int64_t i = 0; i < n; i++, x += step, y += step) {
        SW_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] += (double)x[r * n];
        SW_UNROLL
        for (int r = 0; r < rows; r++)
            y[r * n] = add ? y[r * n] + (float)sum[r] : (float)sum[r];
    }
}

static void line_rows(const cumsum_job *j, int64_t l, int64_t end)
{
    for (; end - l >= CHAINS; l += CHAINS) {
        if (j->accumulate)
            rows_sum(j, l, CHAINS, true);
        else
            rows_sum(j, l, CHAINS, false);
    }
    for (; l < end; l++)
        rows_sum(j, l, 1, j->accumulate);
}

static void cumsum_part(void *arg, int part)
{
    const cumsum_job *j = arg;
    const int64_t first = part * j->per_part, all = j->s.outer * j->s.inner;
    const int64_t end = least(first + j->per_part, all);
    if (j->s.inner == 1) {
        line_rows(j, first, end);
        return;
    }
    for (int64_t l = first; l < end; l += LANES) {
        const int n = end - l < LANES ? (int)(end - l) : LANES;
        int64_t from[LANES];
        for (int k = 0; k < n; k++)
            from[k] = (l + k) / j->s.inner * j->s.n * j->s.inner + (l + k) % j->s.inner;
        if (n < LANES || from[n - 1] != from[0] + n - 1)
            lanes_sum(j, from, n);
        else if (j->accumulate)
            near_sum(j, from[0], true);
        else
            near_sum(j, from[0], false);
    }
}

void SW_KERNEL(axes, cumsum)(float *y, const float *x, const sw_lines *s, bool accumulate,
                             const sw_par *par)
{
    cumsum_job j = {.y = y, .x = x, .s = *s, .accumulate = accumulate};
    const int64_t lines = s->outer * s->inner;
    if (lines < 1 || s->n < 1)
        return;
    j.per_part = s->n >= PART / LANES ? LANES : PART / s->n / LANES * LANES;
    par->run(par, cumsum_part, &j, (int)((lines + j.per_part - 1) / j.per_part));
}

/* ---- sums of columns --------------------------------------------------------------------- */

typedef struct {
    float *y;
    const float *x;
    int64_t rows, cols, step;
    bool accumulate;
    int parts;
} sums_job;

/* Columns [j, j + n), n at most VW, of rows [i, i + rows). */
SW_VEC_FN void add_row_pieces(const sums_job *s, int64_t i, int rows, int64_t j, int n)
{
    const float *x = s->x + i * s->step + j;
    vf y = vzero();
    if (i > 0 || s->accumulate)
        y = vload_upto(s->y + j, n);
    SW_UNROLL
    for (int r = 0; r < rows; r++)
        y = vadd(y, vload_upto(x + r * s->step, n));
    vstore_upto(s->y + j, y, n);
}

/* Columns [j, j + (nv - 1) VW + last) of all rows. */
SW_VEC_FN void add_strip(const sums_job *s, int64_t j, int nv, int last)
{
    const float *x = s->x + j;
    vf y[STRIP];
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        y[v] = !s->accumulate ? vzero()
               : v < nv - 1   ? vload(s->y + j + v * VW)
                              : vload_n(s->y + j + v * VW, last);
    for (int64_t i = 0; i < s->rows; i++, x += s->step) {
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            y[v] = vadd(y[v], v < nv - 1 || last == VW ? vload(x + v * VW)
                                                       : vload_n(x + v * VW, last));
    }
    SW_UNROLL
    for (int v = 0; v < nv; v++)
        vstore_n(s->y + j + v * VW, y[v], v < nv - 1 ? VW : last);
}

static void strips(const sums_job *s, int64_t j, int64_t end)
{
    for (; end - j >= STRIP * VW; j += STRIP * VW)
        add_strip(s, j, STRIP, VW);
    for (; end - j >= 2 * VW; j += 2 * VW)
        add_strip(s, j, 2, VW);
    for (; j < end; j += VW)
        add_strip(s, j, 1, end - j < VW ? (int)(end - j) : VW);
}

static void sums_part(void *arg, int part)
{
    const sums_job *s = arg;
    const int64_t first = vpiece(s->cols, VW, part, s->parts);
    const int64_t end = vpiece(s->cols, VW, part + 1, s->parts);
    if (s->rows * s->step <= NEAR) {
        strips(s, first, end);
        return;
    }
    for (int64_t i = 0; i < s->rows;) {
        const int rows = s->rows - i >= TOGETHER ? TOGETHER : 1;
        for (int64_t j = first; j < end; j += VW) {
            const int n = end - j >= VW ? VW : (int)(end - j);
            if (rows == TOGETHER)
                add_row_pieces(s, i, TOGETHER, j, n);
            else
                add_row_pieces(s, i, 1, j, n);
        }
        i += rows;
    }
}

void SW_KERNEL(dense, column_sums)(float *y, const float *x, int64_t rows, int64_t cols,
                                   int64_t step, bool accumulate, const sw_par *par)
{
    sums_job s = {y, x, rows, cols, step, accumulate, 1};
    const int64_t most = (cols + 4 * VW - 1) / (4 * VW);
    if (par != NULL && rows * cols >= WORTH)
        s.parts = (int)(most < 2 * par->n_threads ? most : 2 * par->n_threads);
    vparts(par, sums_part, &s, s.parts, s.parts > 1);
}

/* ---- rows of a table --------------------------------------------------------------------- */

typedef struct {
    float *y;
    const float *x;
    const sw_ids *ids;
    int64_t rows, width, per_part;
    int64_t cols; /* of a part */
    bool half, y_half;
    const sw_stored *stored;
} rows_job;

static void take_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->per_part;
    const int64_t end = least(first + j->per_part, j->ids->n);
    const size_t size = j->half ? sizeof(uint16_t) : sizeof(float);
    for (int64_t i = first; i < end; i++) {
        const char *row = (const char *)j->x + (size_t)(sw_id_at(j->ids, i) * j->width) * size;
        if (j->stored != NULL) {
            swi_stored_run(j->y + i * j->width, j->stored, sw_id_at(j->ids, i) * j->width,
                           j->width);
            continue;
        }
        char *y = (char *)j->y + (size_t)(i * j->width) * (j->y_half ? size : sizeof *j->y);
        if (j->half == j->y_half)
            memcpy(y, row, (size_t)j->width * size);
        for (int64_t c = 0; j->half != j->y_half && c < j->width; c += VW)
            vstore_upto((float *)(void *)y + c,
                        vload_half_upto((const uint16_t *)(const void *)row + c, j->width - c),
                        j->width - c);
    }
}

void SW_KERNEL(axes, take_rows)(float *y, const float *table, const sw_ids *ids, int64_t width,
                                bool half, bool y_half, const sw_stored *stored,
                                const sw_par *par)
{
    rows_job j = {.y = y, .x = table, .ids = ids, .width = width, .stored = stored};
    j.half = half, j.y_half = y_half;
    if (width < 1)
        return;
    j.per_part = (PART + width - 1) / width;
    par->run(par, take_part, &j, (int)((ids->n + j.per_part - 1) / j.per_part));
}

static void clear_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->per_part, left = j->rows - first;
    const int64_t n = left < j->per_part ? left : j->per_part;
    memset(j->y + first * j->width, 0, (size_t)(n * j->width) * sizeof *j->y);
}

static void add_part(void *arg, int part)
{
    const rows_job *j = arg;
    const int64_t first = part * j->cols, left = j->width - first;
    const int64_t n = left < j->cols ? left : j->cols;
    for (int64_t i = 0; i < j->ids->n; i++) {
        float *to = j->y + sw_id_at(j->ids, i) * j->width + first;
        const float *from = j->x + i * j->width + first;
        for (int64_t c = 0; c < n; c++)
            to[c] += from[c];
    }
}

void SW_KERNEL(axes, add_rows)(float *table, const float *dy, const sw_ids *ids, int64_t rows,
                               int64_t width, bool accumulate, const sw_par *par)
{
    rows_job j = {
        .y = table, .x = dy, .ids = ids, .rows = rows, .width = width, .cols = TABLE_COLS};
    if (width < 1)
        return;
    j.per_part = (PART + width - 1) / width;
    if (!accumulate)
        par->run(par, clear_part, &j, (int)((rows + j.per_part - 1) / j.per_part));
    if (par->n_threads == 1) /* whole rows are faster; each element has the same order */
        j.cols = width;
    par->run(par, add_part, &j, (int)((width + j.cols - 1) / j.cols));
}
