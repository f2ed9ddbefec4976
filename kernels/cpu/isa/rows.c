/* Softmax and its relatives over rows. A row is summed in sixteen lanes, then lane by lane. */
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"
#include <math.h>
#include <string.h>

#define LANES 16

typedef struct {
    float *y;
    const float *x, *b;
    const int32_t *i32;
    const uint8_t *u8;
    int64_t rows, cols, rows_per_part;
    float factor;
    bool accumulate;
} job;

/* Rows of a part: some 16,384 elements. */
static void split(const sw_par *par, void (*body)(void *, int), job *j)
{
    j->rows_per_part = j->cols >= 16384 ? 1 : 16384 / (j->cols > 0 ? j->cols : 1);
    par->run(par, body, j, (int)((j->rows + j->rows_per_part - 1) / j->rows_per_part));
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

static float larger(float m, float x)
{
    return x > m || x != x ? x : m;
}

/* NaN where there is one. By lanes: one after the other would wait for each comparison. */
static float max_of(const float *x, int64_t n)
{
    float lane[LANES], m = x[0];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = m;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = larger(lane[k], x[i + k]);
    for (; i < n; i++)
        m = larger(m, x[i]);
    for (int k = 0; k < LANES; k++)
        m = larger(m, lane[k]);
    return m;
}

/* Sum of exp(x - m), and the exponentials in y when it is given. */
static float sum_exp(float *y, const float *x, int64_t n, float m)
{
    float lane[LANES] = {0}, e[LANES];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++)
            e[k] = sw_expf(x[i + k] - m);
        for (int k = 0; k < LANES; k++)
            lane[k] += e[k];
        if (y != NULL)
            memcpy(y + i, e, sizeof e);
    }
    float pad[LANES];
    for (int k = 0; k < LANES; k++)
        pad[k] = i + k < n ? x[i + k] - m : -88.0f;
    for (int k = 0; k < LANES; k++)
        e[k] = sw_expf(pad[k]);
    for (int k = 0; i + k < n; k++) {
        lane[k] += e[k];
        if (y != NULL)
            y[i + k] = e[k];
    }
    float sum = 0;
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

void SW_ISA_FN(swi_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                            const sw_par *par)
{
    job j = {.y = y, .x = x, .rows = rows, .cols = cols};
    if (cols > 0)
        split(par, softmax_part, &j);
}

static void softmax_dx_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *dy = j->x + r * j->cols, *y = j->b + r * j->cols;
        float *dx = j->y + r * j->cols;
        float lane[LANES] = {0}, dot = 0;
        int64_t c = 0;
        for (; c + LANES <= j->cols; c += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] += dy[c + k] * y[c + k];
        for (int k = 0; c + k < j->cols; k++)
            lane[k] += dy[c + k] * y[c + k];
        for (int k = 0; k < LANES; k++)
            dot += lane[k];
        for (c = 0; c < j->cols; c++) {
            const float g = y[c] * (dy[c] - dot);
            dx[c] = j->accumulate ? dx[c] + g : g;
        }
    }
}

void SW_ISA_FN(swi_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                               int64_t cols, bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .x = dy, .b = y, .rows = rows, .cols = cols, .accumulate = accumulate};
    if (cols > 0)
        split(par, softmax_dx_part, &j);
}

/* y may be x: what is summed was read before. */
static void log_softmax_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *y = j->y + r * j->cols;
        const float m = max_of(x, j->cols);
        const float lse = sw_row_lse(m, sum_exp(NULL, x, j->cols, m));
        for (int64_t c = 0; c < j->cols; c++)
            y[c] = x[c] - lse;
    }
}

void SW_ISA_FN(swi_log_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                                const sw_par *par)
{
    job j = {.y = y, .x = x, .rows = rows, .cols = cols};
    if (cols > 0)
        split(par, log_softmax_part, &j);
}

static void log_softmax_dx_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *dy = j->x + r * j->cols, *y = j->b + r * j->cols;
        float *dx = j->y + r * j->cols;
        float lane[LANES] = {0}, sum = 0;
        int64_t c = 0;
        for (; c + LANES <= j->cols; c += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] += dy[c + k];
        for (int k = 0; c + k < j->cols; k++)
            lane[k] += dy[c + k];
        for (int k = 0; k < LANES; k++)
            sum += lane[k];
        for (c = 0; c < j->cols; c++) {
            const float g = dy[c] - sw_expf(y[c]) * sum;
            dx[c] = j->accumulate ? dx[c] + g : g;
        }
    }
}

void SW_ISA_FN(swi_log_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                                   int64_t cols, bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .x = dy, .b = y, .rows = rows, .cols = cols, .accumulate = accumulate};
    if (cols > 0)
        split(par, log_softmax_dx_part, &j);
}

static void lse_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t first = first_row(j, part);
    if (j->cols <= SWI_NARROW) {
        SW_ISA_FN(swi_narrow_lse)
        (j->y + first, j->x + first * j->cols, end_row(j, part) - first, j->cols);
        return;
    }
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        const float m = max_of(x, j->cols);
        j->y[r] = sw_row_lse(m, sum_exp(NULL, x, j->cols, m));
    }
}

void SW_ISA_FN(swi_lse)(float *lse, const float *x, int64_t rows, int64_t cols,
                        const sw_par *par)
{
    job j = {.y = lse, .x = x, .rows = rows, .cols = cols};
    if (cols > 0)
        split(par, lse_part, &j);
}

static void narrow_ce_dx_part(const job *j, int part)
{
    const int64_t first = first_row(j, part), at = first * j->cols;
    SW_ISA_FN(swi_narrow_ce_dx)
    (j->y + at, j->x + at, j->b + first, j->i32 != NULL ? j->i32 + first : NULL,
     j->u8 != NULL ? j->u8 + first : NULL, end_row(j, part) - first, j->cols, j->factor,
     j->accumulate);
}

static void softmax_ce_dx_part(void *arg, int part)
{
    const job *j = arg;
    if (j->cols <= SWI_NARROW) {
        narrow_ce_dx_part(j, part);
        return;
    }
    for (int64_t r = first_row(j, part); r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *dx = j->y + r * j->cols;
        const float lse = j->b[r];
        const int64_t label = j->u8 != NULL ? (int64_t)j->u8[r] : (int64_t)j->i32[r];
        if (j->accumulate) {
            for (int64_t c = 0; c < j->cols; c++)
                dx[c] += (sw_expf(x[c] - lse) - (c == label ? 1.0f : 0.0f)) * j->factor;
        } else {
            for (int64_t c = 0; c < j->cols; c++)
                dx[c] = (sw_expf(x[c] - lse) - (c == label ? 1.0f : 0.0f)) * j->factor;
        }
    }
}

void SW_ISA_FN(swi_softmax_ce_dx)(float *dx, const float *x, const float *lse,
                                  const int32_t *labels_i32, const uint8_t *labels_u8,
                                  int64_t rows, int64_t cols, float factor, bool accumulate,
                                  const sw_par *par)
{
    job j = {.y = dx,
             .x = x,
             .b = lse,
             .i32 = labels_i32,
             .u8 = labels_u8,
             .rows = rows,
             .cols = cols,
             .factor = factor,
             .accumulate = accumulate};
    split(par, softmax_ce_dx_part, &j);
}
