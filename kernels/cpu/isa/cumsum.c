/* Cumulative sums along an axis. Lines go sixteen at a time, side by side: each is one chain of
 * additions in float64, from the end it begins at, so neither threads nor the cut show in the
 * bits. */
#include "kernels/cpu/isa/axes_internal.h"

#define LANES 16
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

/* n lines; near: they are neighbours. y may be x: what is read is read first. */
static void lanes_sum(const cumsum_job *j, const int64_t *from, int n, bool near)
{
    const sw_lines *s = &j->s;
    const int64_t step = s->reverse ? -s->inner : s->inner;
    int64_t at = s->reverse ? (s->n - 1) * s->inner : 0;
    double sum[LANES] = {0};
    for (int64_t i = 0; i < s->n; i++, at += step) {
        const float *x = j->x + at;
        float *y = j->y + at;
        if (near && n == LANES && !j->accumulate) {
            for (int k = 0; k < LANES; k++)
                sum[k] += (double)x[from[0] + k];
            for (int k = 0; k < LANES; k++)
                y[from[0] + k] = (float)sum[k];
            continue;
        }
        for (int k = 0; k < n; k++)
            sum[k] += (double)x[from[k]];
        for (int k = 0; k < n; k++)
            y[from[k]] = j->accumulate ? y[from[k]] + (float)sum[k] : (float)sum[k];
    }
}

static void cumsum_part(void *arg, int part)
{
    const cumsum_job *j = arg;
    const int64_t first = part * j->per_part, all = j->s.outer * j->s.inner;
    const int64_t end = first + j->per_part < all ? first + j->per_part : all;
    for (int64_t l = first; l < end; l += LANES) {
        const int n = end - l < LANES ? (int)(end - l) : LANES;
        int64_t from[LANES];
        for (int k = 0; k < n; k++)
            from[k] = line_at(&j->s, l + k);
        lanes_sum(j, from, n, from[n - 1] == from[0] + n - 1);
    }
}

void swi_cumsum(float *y, const float *x, const sw_lines *s, bool accumulate, const sw_par *par)
{
    cumsum_job j = {.y = y, .x = x, .s = *s, .accumulate = accumulate};
    const int64_t lines = s->outer * s->inner;
    if (lines < 1 || s->n < 1)
        return;
    j.per_part = s->n >= PART / LANES ? LANES : PART / s->n / LANES * LANES;
    par->run(par, cumsum_part, &j, (int)((lines + j.per_part - 1) / j.per_part));
}
