/* Softmax, its relatives and cross-entropy over rows. A row is summed in sixteen lanes, then
 * lane by lane.
 *
 * Rows of at most NARROW numbers would leave most lanes of a vector empty. Their cross-entropy
 * turns as many rows as a vector has lanes, so that a row is a lane; the gradient goes through
 * sixteen rows as through one line. Sums have the same order: from the first number to the
 * last. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/scalar.h"
#include <string.h>

#define NV (LANES / VW)

enum {
    CHAINS = 4,       /* maxima side by side */
    RUN = 16 * LANES, /* exponentials at a time */
    NARROW = 16,      /* numbers of a narrow row, at most */
    ROWS = 16         /* narrow rows that are one line */
};

typedef struct {
    float *y, *lse, *at_label;
    double *sums;
    const float *x, *b;
    const sw_ids *labels;
    int64_t rows, cols, rows_per_part;
    const sw_ce_rule *rule;
    float factor;
    bool accumulate;
} job;

/* Rows of a part: some 16,384 elements. */
static void split(const sw_par *par, void (*body)(void *, int), job *j)
{
    j->rows_per_part = j->cols >= 16384 ? 1 : 16384 / (j->cols > 0 ? j->cols : 1);
    par->run(par, body, j, (int)((j->rows + j->rows_per_part - 1) / j->rows_per_part));
}

/* The kernel that runs name_part over the parts of a job, where there is anything to do. */
#define KERNEL(name, any, parameters, ...)                                                     \
    void SW_KERNEL(pointwise, name) parameters                                                 \
    {                                                                                          \
        job j = {__VA_ARGS__};                                                                 \
        if (any)                                                                               \
            split(par, name##_part, &j);                                                       \
    }

static int64_t first_row(const job *j, int part)
{
    return part * j->rows_per_part;
}

static int64_t end_row(const job *j, int part)
{
    const int64_t end = (part + 1) * j->rows_per_part;
    return end < j->rows ? end : j->rows;
}

/* NaN where there is one. Several maxima side by side: one alone would wait for each
 * comparison. */
static float max_of(const float *x, int64_t n)
{
    vf best[CHAINS];
    float lane[VW];
    int64_t i = 0;
    SW_UNROLL for (int c = 0; c < CHAINS; c++) best[c] = vset1(x[0]);
    for (; i + CHAINS * VW <= n; i += CHAINS * VW)
        SW_UNROLL for (int c = 0; c < CHAINS; c++) best[c] =
            vlarger(best[c], vload(x + i + c * VW));
    for (; i < n; i += VW) {
        const vm left = vrange(0, n - i < VW ? n - i : VW);
        best[0] = vlarger(best[0], vselect(left, vload_where(left, x + i), best[0]));
    }
    SW_UNROLL for (int c = 1; c < CHAINS; c++) best[0] = vlarger(best[0], best[c]);
    vstore(lane, best[0]);
    float m = lane[0];
    for (int k = 1; k < VW; k++)
        m = lane[k] > m || lane[k] != lane[k] ? lane[k] : m;
    return m;
}

/* lanes += e, element i to lane i % LANES. */
SW_VEC_FN void add_lanes(vf *lanes, const float *e, int64_t n)
{
    for (int64_t k = 0; k < n; k += LANES)
        SW_UNROLL for (int v = 0; v < NV; v++) lanes[v] = vadd(lanes[v], vload(e + k + v * VW));
}

/* e = exp(x - m) of n elements, zeros up to whole LANES. Elements after n are computed like the
 * others: no row ends in single elements. */
static void end_exp(float *e, const float *x, int64_t n, float m)
{
    const int64_t whole = (n + LANES - 1) / LANES * LANES;
    for (int64_t k = 0; k < whole; k++)
        e[k] = k < n ? x[k] - m : -88.0f;
    for (int64_t k = 0; k < whole; k++)
        e[k] = sw_expf(e[k]);
    for (int64_t k = n; k < whole; k++)
        e[k] = 0.0f;
}

/* Sum of exp(x - m), and the exponentials in y when it is given. */
static float sum_exp(float *y, const float *x, int64_t n, float m)
{
    float e[RUN], lane[LANES], sum = 0;
    vf lanes[NV];
    int64_t i = 0;
    SW_UNROLL for (int v = 0; v < NV; v++) lanes[v] = vzero();
    for (; i + RUN <= n; i += RUN) {
        for (int k = 0; k < RUN; k++)
            e[k] = sw_expf(x[i + k] - m);
        add_lanes(lanes, e, RUN);
        if (y != NULL)
            memcpy(y + i, e, sizeof e);
    }
    if (i < n) {
        end_exp(e, x + i, n - i, m);
        add_lanes(lanes, e, n - i);
        if (y != NULL)
            memcpy(y + i, e, (size_t)(n - i) * sizeof *e);
    }
    SW_UNROLL for (int v = 0; v < NV; v++) vstore(lane + v * VW, lanes[v]);
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static void softmax_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *y = j->y + r * j->cols;
        const float inverse = 1.0f / sum_exp(y, x, j->cols, max_of(x, j->cols));
        for (int64_t c = 0; c < j->cols; c++)
            y[c] *= inverse;
    }
}

KERNEL(softmax, cols > 0,
       (float *y, const float *x, int64_t rows, int64_t cols, const sw_par *par), .y = y,
       .x = x, .rows = rows, .cols = cols)

static void softmax_dx_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *dy = j->x + r * j->cols, *y = j->b + r * j->cols;
        float *dx = j->y + r * j->cols;
        float dot;
        int64_t c = 0;
        SUM_LANES(float, dot, c, j->cols, dy[c + k] * y[c + k]);
        for (c = 0; c < j->cols; c++) {
            const float g = y[c] * (dy[c] - dot);
            dx[c] = j->accumulate ? dx[c] + g : g;
        }
    }
}

KERNEL(softmax_dx, cols > 0,
       (float *dx, const float *dy, const float *y, int64_t rows, int64_t cols, bool accumulate,
        const sw_par *par),
       .y = dx, .x = dy, .b = y, .rows = rows, .cols = cols, .accumulate = accumulate)

static float row_lse(const float *x, int64_t cols)
{
    const float m = max_of(x, cols);
    return sw_row_lse(m, sum_exp(NULL, x, cols, m));
}

/* y may be x: what is summed was read before. */
static void log_softmax_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *y = j->y + r * j->cols;
        const float lse = row_lse(x, j->cols);
        for (int64_t c = 0; c < j->cols; c++)
            y[c] = x[c] - lse;
    }
}

KERNEL(log_softmax, cols > 0,
       (float *y, const float *x, int64_t rows, int64_t cols, const sw_par *par), .y = y,
       .x = x, .rows = rows, .cols = cols)

static void log_softmax_dx_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *dy = j->x + r * j->cols, *y = j->b + r * j->cols;
        float *dx = j->y + r * j->cols;
        float sum;
        int64_t c = 0;
        SUM_LANES(float, sum, c, j->cols, dy[c + k]);
        for (c = 0; c < j->cols; c++) {
            const float g = dy[c] - sw_expf(y[c]) * sum;
            dx[c] = j->accumulate ? dx[c] + g : g;
        }
    }
}

KERNEL(log_softmax_dx, cols > 0,
       (float *dx, const float *dy, const float *y, int64_t rows, int64_t cols, bool accumulate,
        const sw_par *par),
       .y = dx, .x = dy, .b = y, .rows = rows, .cols = cols, .accumulate = accumulate)

/* ---- cross-entropy ----------------------------------------------------------------------- */

/* t[c * VW + r] = x[r * cols + c] of VW rows. */
SW_VEC_FN void turn(float *t, const float *x, int64_t cols)
{
    vf v[VW];
    for (int64_t c = 0; c < cols; c += VW) {
        const int n = cols - c < VW ? (int)(cols - c) : VW;
        SW_UNROLL
        for (int r = 0; r < VW; r++)
            v[r] = vload_n(x + r * cols + c, n);
        vtranspose(v);
        SW_UNROLL
        for (int r = 0; r < VW; r++)
            vstore(t + (c + r) * VW, v[r]);
    }
}

/* VW rows. */
static void lse_block(float *lse, const float *x, int64_t cols)
{
    _Alignas(64) float t[NARROW * VW] = {0}, m[VW], s[VW];
    turn(t, x, cols);
    vf most = vload(t), sum = vzero();
    for (int64_t c = 1; c < cols; c++) {
        const vf next = vload(t + c * VW);
        most = vlarger(most, next);
    }
    vstore(m, most);
    for (int64_t c = 0; c < cols; c++)
        for (int k = 0; k < VW; k++)
            t[c * VW + k] = sw_expf(t[c * VW + k] - m[k]);
    for (int64_t c = 0; c < cols; c++)
        sum = vadd(sum, vload(t + c * VW));
    vstore(s, sum);
    for (int k = 0; k < VW; k++)
        lse[k] = sw_row_lse(m[k], s[k]);
}

static void narrow_lse(float *lse, const float *x, int64_t rows, int64_t cols)
{
    int64_t r = 0;
    for (; r + VW <= rows; r += VW)
        lse_block(lse + r, x + r * cols, cols);
    if (r == rows)
        return;
    float rest[NARROW * VW] = {0}, of[VW];
    memcpy(rest, x + r * cols, (size_t)((rows - r) * cols) * sizeof *x);
    lse_block(of, rest, cols);
    memcpy(lse + r, of, (size_t)(rows - r) * sizeof *lse);
}

/* (e^(x - lse) - one) * factor in the place of x, n of them and what a vector has after. */
static void slopes(float *x, const float *lse, const float *one, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i += ROWS)
        for (int k = 0; k < ROWS; k++)
            x[i + k] = (sw_expf(x[i + k] - lse[i + k]) - one[i + k]) * factor;
}

static void narrow_ce_dx(float *dx, const float *x, const float *lse, const sw_ids *labels,
                         int64_t rows, int64_t cols, float factor, bool accumulate)
{
    for (int64_t first = 0; first < rows; first += ROWS) {
        const int64_t end = rows - first < ROWS ? rows - first : ROWS, n = end * cols;
        const float *from = x + first * cols;
        float *to = dx + first * cols;
        float d[ROWS * NARROW] = {0}, one[ROWS * NARROW] = {0},
                       of[ROWS * NARROW + NARROW] = {0};
        memcpy(d, from, (size_t)n * sizeof *d);
        for (int64_t r = 0; r < end; r++) {
            const int64_t label = sw_id_at(labels, first + r);
            for (int k = 0; k < NARROW; k++) /* what is too much is the next row's */
                of[r * cols + k] = lse[first + r];
            if (label >= 0 && label < cols)
                one[r * cols + label] = 1.0f;
        }
        slopes(d, of, one, n, factor);
        if (accumulate)
            for (int64_t i = 0; i < n; i++)
                to[i] += d[i];
        else
            memcpy(to, d, (size_t)n * sizeof *d);
    }
}

static void lse_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t first = first_row(j, part);
    if (j->cols <= NARROW) {
        narrow_lse(j->y + first, j->x + first * j->cols, end_row(j, part) - first, j->cols);
        return;
    }
    for (int64_t r = first; r < end_row(j, part); r++)
        j->y[r] = row_lse(j->x + r * j->cols, j->cols);
}

KERNEL(lse, cols > 0,
       (float *lse, const float *x, int64_t rows, int64_t cols, const sw_par *par), .y = lse,
       .x = x, .rows = rows, .cols = cols)

/* The label's element is made apart, so that the loop compares no positions. dx may be x. */
static void row_ce_dx(const job *j, float *dx, const float *x, float lse, int64_t label)
{
    const bool has = label >= 0 && label < j->cols;
    const float factor = j->factor, before = has && j->accumulate ? dx[label] : 0.0f;
    const float at_label = has ? (sw_expf(x[label] - lse) - 1.0f) * factor : 0.0f;
    if (j->accumulate) {
        for (int64_t c = 0; c < j->cols; c++)
            dx[c] += sw_expf(x[c] - lse) * factor;
    } else {
        for (int64_t c = 0; c < j->cols; c++)
            dx[c] = sw_expf(x[c] - lse) * factor;
    }
    if (has)
        dx[label] = j->accumulate ? before + at_label : at_label;
}

static void softmax_ce_dx_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t first = first_row(j, part), at = first * j->cols;
    if (j->cols <= NARROW) {
        const sw_ids labels = sw_ids_from(j->labels, first);
        narrow_ce_dx(j->y + at, j->x + at, j->b + first, &labels, end_row(j, part) - first,
                     j->cols, j->factor, j->accumulate);
        return;
    }
    for (int64_t r = first; r < end_row(j, part); r++)
        row_ce_dx(j, j->y + r * j->cols, j->x + r * j->cols, j->b[r], sw_id_at(j->labels, r));
}

KERNEL(softmax_ce_dx, true,
       (float *dx, const float *x, const float *lse, const sw_ids *labels, int64_t rows,
        int64_t cols, float factor, bool accumulate, const sw_par *par),
       .y = dx, .x = x, .b = lse, .labels = labels, .rows = rows, .cols = cols,
       .factor = factor, .accumulate = accumulate)

/* A row is read once for all that is made of it. */
static void softmax_ce_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        float *x = j->y + r * j->cols;
        const int64_t label = sw_id_at(j->labels, r);
        j->lse[r] = row_lse(x, j->cols);
        j->at_label[r] = x[label];
        row_ce_dx(j, x, x, j->lse[r], label);
    }
}

KERNEL(softmax_ce, true,
       (float *x, float *lse, float *at_label, const sw_ids *labels, int64_t rows, int64_t cols,
        float factor, const sw_par *par),
       .y = x, .lse = lse, .at_label = at_label, .labels = labels, .rows = rows, .cols = cols,
       .factor = factor)

/* ---- cross-entropy by a rule: labels smoothed, one that is ignored ----------------------- */

static void row_sums_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        int64_t c = 0;
        SUM_LANES(double, j->sums[r], c, j->cols, x[c + k]);
    }
}

KERNEL(row_sums, true,
       (double *sums, const float *x, int64_t rows, int64_t cols, const sw_par *par),
       .sums = sums, .x = x, .rows = rows, .cols = cols)

/* A row that is ignored is read as well, and gives zeros whatever it holds. */
static void smooth_ce_dx_part(void *arg, int part)
{
    const job *j = arg;
    const float on = 1.0f - j->rule->smoothing, off = j->rule->smoothing / (float)j->cols;
    const float factor = j->factor;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *dx = j->y + r * j->cols;
        const float lse = j->b[r];
        const int64_t label = sw_id_at(j->labels, r);
        const bool ignored = j->rule->has_ignore && label == j->rule->ignore;
        const uint32_t mask = ignored ? 0u : 0xffffffffu;
        for (int64_t c = 0; c < j->cols; c++) {
            const float g = (sw_expf(x[c] - lse) - off - (c == label ? on : 0.0f)) * factor;
            const float kept = sw_float_of(sw_bits_of(g) & mask);
            dx[c] = j->accumulate ? dx[c] + kept : kept;
        }
    }
}

KERNEL(smooth_ce_dx, true,
       (float *dx, const float *x, const float *lse, const sw_ids *labels, int64_t rows,
        int64_t cols, const sw_ce_rule *rule, float factor, bool accumulate, const sw_par *par),
       .y = dx, .x = x, .b = lse, .labels = labels, .rows = rows, .cols = cols, .rule = rule,
       .factor = factor, .accumulate = accumulate)
