/* Maximum over axes and its gradient. Results are done sixteen at a time, or, where the reduced
 * positions are neighbours, each in sixteen lanes. The winner depends on order and not on
 * rounding: the bits are the same however it is cut. */
#include "kernels/cpu/isa/isa.h"
#include <string.h>

#define LANES 16
#define PART 16384 /* elements read by a part, about */

typedef struct {
    float *y; /* or dx */
    const float *x;
    unsigned char *index;
    const unsigned char *won;
    sw_max_spec s;
    int64_t per_part, total;
} max_job;

/* A later element takes the place. */
static inline bool wins(float v, float best)
{
    return v > best || (v != v && best == best);
}

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

/* ---- maximum ----------------------------------------------------------------------------- */

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
            if (wins(lane[k], best) || (equal && at[k] < *position)) {
                best = lane[k];
                *position = at[k];
            }
        }
    }
    for (; i < n; i++)
        if (wins(x[i], best)) {
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
    const int64_t end = first + j->per_part < s->outputs ? first + j->per_part : s->outputs;
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

/* ---- gradient ---------------------------------------------------------------------------- */

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
    const int64_t end = first + j->per_part < s->outputs ? first + j->per_part : s->outputs;
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
