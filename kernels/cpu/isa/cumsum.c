/* Cumulative sums along an axis. Lines go sixteen at a time, side by side, or four where they
 * are rows: each is one chain of additions in float64, from the end it begins at, so neither
 * threads nor the cut show in the bits. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"

#define LANES 16
#define ROWS 4     /* at once: an addition waits for the one before in its row alone */
#define PART 16384 /* elements of a part, about */

typedef struct {
    float *y;
    const float *x;
    sw_lines s;
    bool accumulate;
    int64_t per_part; /* lines */
} cumsum_job;

/* Where line number l begins. */
static int64_t line_at(const sw_lines *s, int64_t l)
{
    return l / s->inner * s->n * s->inner + l % s->inner;
}

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

/* ROWS rows, or one, from line l on; both are constants. */
static inline void rows_sum(const cumsum_job *j, int64_t l, int rows, bool add)
{
    const int64_t n = j->s.n, step = j->s.reverse ? -1 : 1;
    const float *x = j->x + l * n + (j->s.reverse ? n - 1 : 0);
    float *y = j->y + (x - j->x);
    double sum[ROWS] = {0};
    for (int64_t i = 0; i < n; i++, x += step, y += step) {
        SW_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] += (double)x[r * n];
        SW_UNROLL
        for (int r = 0; r < rows; r++)
            y[r * n] = add ? y[r * n] + (float)sum[r] : (float)sum[r];
    }
}

static void rows_part(const cumsum_job *j, int64_t l, int64_t end)
{
    for (; end - l >= ROWS; l += ROWS) {
        if (j->accumulate)
            rows_sum(j, l, ROWS, true);
        else
            rows_sum(j, l, ROWS, false);
    }
    for (; l < end; l++)
        rows_sum(j, l, 1, j->accumulate);
}

static void cumsum_part(void *arg, int part)
{
    const cumsum_job *j = arg;
    const int64_t first = part * j->per_part, all = j->s.outer * j->s.inner;
    const int64_t end = first + j->per_part < all ? first + j->per_part : all;
    if (j->s.inner == 1) {
        rows_part(j, first, end);
        return;
    }
    for (int64_t l = first; l < end; l += LANES) {
        const int n = end - l < LANES ? (int)(end - l) : LANES;
        int64_t from[LANES];
        for (int k = 0; k < n; k++)
            from[k] = line_at(&j->s, l + k);
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
