/* PB2's model (Parker-Holder, Nguyen and Roberts, "Provably efficient online hyperparameter
 * optimization with population-based bandits", NeurIPS 2020).
 *
 * The model learns y, the change of the score by time from one turn of a member to the next, as
 * a function of the time t at which it began, counted in intervals, and of z: the score it
 * began with and the values it had, each as a share of its range. y is a Gaussian process with
 * mean 0 and the time-varying covariance of the paper's equation 6
 *
 *     k((t, z), (t', z')) = exp(-|z - z'|^2 / (2 l^2)) (1 - epsilon)^(|t - t'| / 2)
 *
 * and noise s^2. y is standardised, and cut at 2 deviations. l, epsilon and s^2 are those of a
 * grid under which the last 100 outcomes are most likely:
 *
 *     log p(y) = -1/2 |w|^2 - sum of log L_ii - constant,   L L^T = K + s^2 I,  L w = y.
 *
 * All is float64, by sums in one fixed order: the same bits on every machine. */
#include "runtime/population/pb2_internal.h"
#include "alloc/base/size.h"
#include <math.h>
#include <string.h>

#define FIT_POINTS 100u

/* ---- making ------------------------------------------------------------------------------ */

static size_t lay_out(swi_pb2 *g, uint32_t h, char *base)
{
    size_t at = 0;
    const size_t rows = SWI_PB2_ROWS, number = sizeof(double);
    (void)sw_size_part(&at, sizeof *g);
#define TAKE(to, n)                                                                            \
    do {                                                                                       \
        const size_t from = sw_size_part(&at, (n)*number);                                     \
        if (base != NULL)                                                                      \
            g->to = (double *)(void *)(base + from);                                           \
    } while (0)
    TAKE(z, (rows + 1) * (h + 1));
    TAKE(t, rows + 1);
    TAKE(y, SWI_POINTS);
    TAKE(w, SWI_POINTS);
    TAKE(factor, rows * rows);
    TAKE(v, rows);
    TAKE(unit, 2 * (size_t)h);
#undef TAKE
    return at;
}

sw_status swi_pb2_create(sw_pbt *p)
{
    void *block;
    uint32_t dims = 1;
    for (uint32_t k = 0; k < p->h; k++)
        dims += p->space->hypers[k].is.kind != SW_CHOICE;
    if (dims == 1)
        SW_FAIL(SW_INVALID, "sw_pbt_create: PB2 must have a hyper-parameter that is no choice");
    const size_t bytes = lay_out(NULL, p->h, NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    p->pb2 = block;
    (void)lay_out(p->pb2, p->h, block);
    p->pb2->bytes = bytes;
    p->pb2->dims = dims;
    return SW_OK;
}

void swi_pb2_destroy(sw_pbt *p)
{
    if (p->pb2 != NULL)
        sw_heap_free(p->pb2, SW_HEAP_RECORDS, p->pb2->bytes);
    p->pb2 = NULL;
}

void swi_pb2_changed(sw_pbt *p)
{
    if (p->pb2 != NULL)
        p->pb2->fitted = false;
}

void swi_pb2_saw(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    if (p->pb2 == NULL)
        return;
    const double y = (m->seen - m->base_seen) / (m->time - m->base_time);
    if (m->time > m->base_time && isfinite(y) && isfinite(m->base_seen)) {
        double *row = p->points + p->s.points_at * (3 + (size_t)p->h);
        row[0] = m->base_time;
        row[1] = m->base_seen;
        row[2] = y;
        memcpy(row + 3, swi_pbt_values(p, member), p->h * sizeof *row);
        p->s.points_at = (p->s.points_at + 1) % SWI_POINTS;
        p->s.n_points += p->s.n_points < SWI_POINTS;
        p->pb2->fitted = false;
    }
    m->base_time = m->time;
    m->base_seen = m->seen;
}

/* ---- rows -------------------------------------------------------------------------------- */

double swi_pb2_share(const sw_hyper *h, double x)
{
    if (h->low == h->high)
        return 0;
    if (h->kind != SW_LOG_UNIFORM)
        return (x / 2 - h->low / 2) / (h->high / 2 - h->low / 2); /* no overflow */
    const double low = swi_log(h->low);
    return (swi_log(x) - low) / (swi_log(h->high) - low);
}

void swi_pb2_row(sw_pbt *p, uint32_t at, double time, double seen, const double *values)
{
    swi_pb2 *g = p->pb2;
    double *z = g->z + (size_t)at * g->dims;
    const double share = g->range > 0 ? (seen - g->low) / g->range : 0;
    g->t[at] = time / p->opts.interval;
    *z++ = share < 0 ? 0 : share > 1 ? 1 : share;
    for (uint32_t k = 0; k < p->h; k++)
        if (p->space->hypers[k].is.kind != SW_CHOICE)
            *z++ = swi_pb2_share(&p->space->hypers[k].is, values[k]);
}

/* The points from the oldest on, the range of the scores before, and y with mean 0 and
 * deviation 1. */
static void take_points(sw_pbt *p)
{
    swi_pb2 *g = p->pb2;
    const size_t stride = 3 + (size_t)p->h, n = p->s.n_points;
    const size_t first = (p->s.points_at + SWI_POINTS - n) % SWI_POINTS;
    double high = 0, sum = 0, squares = 0;
    g->n = (uint32_t)n;
    g->low = 0;
    for (size_t i = 0; i < n; i++) {
        const double *row = p->points + (first + i) % SWI_POINTS * stride;
        g->low = i == 0 || row[1] < g->low ? row[1] : g->low;
        high = i == 0 || row[1] > high ? row[1] : high;
        sum += row[2];
    }
    g->range = high - g->low;
    for (size_t i = 0; i < n; i++) {
        const double *row = p->points + (first + i) % SWI_POINTS * stride;
        swi_pb2_row(p, (uint32_t)i, row[0], row[1], row + 3);
        g->y[i] = row[2] - sum / (double)n;
        squares += g->y[i] * g->y[i];
    }
    const double deviation = n > 0 ? sqrt(squares / (double)n) : 0;
    for (size_t i = 0; i < n; i++) {
        const double y = deviation > 0 ? g->y[i] / deviation : 0;
        g->y[i] = y < -2 ? -2 : y > 2 ? 2 : y;
    }
}

/* ---- the factor -------------------------------------------------------------------------- */

static double kernel(const swi_pb2 *g, uint32_t a, uint32_t b)
{
    const double *x = g->z + (size_t)a * g->dims, *y = g->z + (size_t)b * g->dims;
    double square = 0;
    for (uint32_t k = 0; k < g->dims; k++)
        square += (x[k] - y[k]) * (x[k] - y[k]);
    return swi_exp(fabs(g->t[a] - g->t[b]) * g->forget - square / (2 * g->length * g->length));
}

/* In four sums, so that additions need not wait for each other. */
static double dot(const double *a, const double *b, uint32_t n)
{
    double s[4] = {0, 0, 0, 0};
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        s[0] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static double *factor_row(const swi_pb2 *g, uint32_t i)
{
    return g->factor + (size_t)i * SWI_PB2_ROWS;
}

/* out_j = (k(at, j) - out . L_j) / L_jj for the rows from..to-1 of the factor: L out = k. The
 * returned sum is |out|^2. */
static double solve(const swi_pb2 *g, uint32_t from, uint32_t to, uint32_t at, double *out)
{
    for (uint32_t j = from; j < to; j++) {
        const double *row = factor_row(g, j);
        out[j - from] = (kernel(g, at, j) - dot(out, row, j - from)) / row[j - from];
    }
    return dot(out, out, to - from);
}

/* Cholesky, one row (Golub and Van Loan, "Matrix computations", section 4.2). Less than the
 * noise of a point that is there twice comes from rounding, and becomes that noise. */
void swi_pb2_append(swi_pb2 *g, uint32_t from, uint32_t at)
{
    double *row = factor_row(g, at);
    const double rest = 1 + g->noise - solve(g, from, at, at, row);
    row[at - from] = sqrt(rest > 1e-9 ? rest : 1e-9);
}

/* The rows from..n-1 with their outcomes; log p but for the constant. */
static double factorise(swi_pb2 *g, uint32_t from)
{
    double squares = 0, logs = 0;
    for (uint32_t i = from; i < g->n; i++) {
        swi_pb2_append(g, from, i);
        const double *row = factor_row(g, i);
        const double w = (g->y[i] - dot(row, g->w, i - from)) / row[i - from];
        g->w[i - from] = w;
        squares += w * w;
        logs += swi_log(row[i - from]);
    }
    return -squares / 2 - logs;
}

void swi_pb2_fit(sw_pbt *p)
{
    static const double lengths[] = {0.4, 0.1, 0.2, 0.7, 1.0};
    static const double epsilons[] = {0.1, 0.01, 0.3};
    static const double noises[] = {0.1, 0.01, 0.5};
    swi_pb2 *g = p->pb2;
    double best = -(double)INFINITY, of[3] = {lengths[0], epsilons[0], noises[0]};
    if (g->fitted)
        return;
    take_points(p);
    const uint32_t from = g->n > FIT_POINTS ? g->n - FIT_POINTS : 0;
    for (int a = 0; a < 5 * 3 * 3; a++) {
        const double grid[3] = {lengths[a / 9], epsilons[a / 3 % 3], noises[a % 3]};
        g->length = grid[0];
        g->forget = swi_log(1 - grid[1]) / 2;
        g->noise = grid[2];
        const double likely = factorise(g, from);
        if (likely <= best)
            continue;
        best = likely;
        memcpy(of, grid, sizeof of);
    }
    g->length = of[0];
    g->forget = swi_log(1 - of[1]) / 2;
    g->noise = of[2];
    (void)factorise(g, 0);
    g->fitted = true;
}

/* mean = v . w over the outcomes, variance = 1 - |v|^2 over all rows, with L v = k(at, rows).
 * Rows without an outcome lower the variance alone: as the paper's members that are not back
 * yet. */
void swi_pb2_predict(swi_pb2 *g, uint32_t rows, uint32_t at, double *mean, double *variance)
{
    const double rest = 1 - solve(g, 0, rows, at, g->v);
    *variance = rest > 0 ? rest : 0;
    *mean = dot(g->v, g->w, g->n);
}
