/* Layer norm and RMS norm over rows, and the table of the family. */
#include "kernels/cpu/isa/norm_internal.h"

/* Rows of a part: some 16,384 elements. Columns of a part, for sums over rows. */
#define PART 16384
#define TILE 64
#define TILE_16 (TILE / LANES)
#define ROWS 32 /* rows that are summed in float32 */

typedef struct {
    const sw_norm_args *n;
    int64_t rows_per_part;
    bool centred;
} row_job;

static void run_rows(const sw_norm_args *n, void (*body)(void *, int), row_job *j,
                     const sw_par *par)
{
    j->n = n;
    j->rows_per_part = n->channels >= PART ? 1 : PART / (n->channels > 0 ? n->channels : 1);
    const int64_t parts = (n->batch + j->rows_per_part - 1) / j->rows_per_part;
    vparts(par, body, j, (int)parts, 1);
}

static int64_t part_end(const row_job *j, int part)
{
    const int64_t end = (part + 1) * j->rows_per_part;
    return end < j->n->batch ? end : j->n->batch;
}

/* Mean, and the sums of d and d d about it. */
typedef struct {
    float mean;
    double sum, square;
} row_moments;

/* wide: where squares are beyond float32. */
static row_moments moments_of(const float *x, int64_t cols, bool centred, bool wide)
{
    double s1[LANES] = {0}, s2[LANES] = {0};
    float about[LANES] = {0};
    row_moments m = {0};
    if (centred && wide)
        swi_sum_wide(s1, NULL, x, cols, about, false);
    else if (centred)
        swi_sum(s1, x, cols, false);
    m.mean = (float)(swi_lanes_sum(s1, LANES) / (double)cols);
    for (int k = 0; k < LANES; k++) {
        about[k] = m.mean;
        s1[k] = 0;
    }
    if (wide)
        swi_sum_wide(s1, s2, x, cols, about, false);
    else
        swi_sum_square(centred ? s1 : NULL, s2, x, cols, l_set1(m.mean), false);
    m.sum = centred ? swi_lanes_sum(s1, LANES) : 0.0;
    m.square = swi_lanes_sum(s2, LANES);
    return m;
}

static void rows_row(const sw_norm_args *n, int64_t r, bool centred)
{
    const int64_t cols = n->channels;
    const float *x = (const float *)n->x + r * cols;
    row_moments m = moments_of(x, cols, centred, false);
    if (swi_is_beyond(m.square))
        m = moments_of(x, cols, centred, true);
    const double var = sw_variance(m.sum, m.square, (double)cols);
    const float rstd = (float)sw_rstd(var, n->epsilon);
    const float mean = (float)((double)m.mean + m.sum / (double)cols);
    swi_put_y((float *)n->y + r * cols, x, n->weight, n->bias, l_set1(1.0f), l_set1(0.0f), cols,
              l_set1(mean), l_set1(rstd), false);
    if (n->mean_out != NULL)
        n->mean_out[r] = mean;
    if (n->rstd_out != NULL)
        n->rstd_out[r] = rstd;
}

static void rows_part(void *arg, int part)
{
    const row_job *j = arg;
    for (int64_t r = part * j->rows_per_part; r < part_end(j, part); r++)
        rows_row(j->n, r, j->centred);
}

void SW_KERNEL(norm, rows)(const sw_norm_args *n, bool centred, const sw_par *par)
{
    row_job j = {.centred = centred};
    run_rows(n, rows_part, &j, par);
}

static void rows_dx_part(void *arg, int part)
{
    const row_job *j = arg;
    const sw_norm_args *n = j->n;
    const int64_t cols = n->channels;
    const swi_16 one = l_set1(1.0f);
    for (int64_t r = part * j->rows_per_part; r < part_end(j, part); r++) {
        const float *x = (const float *)n->x + r * cols;
        const float *dy = (const float *)n->dy + r * cols;
        const swi_16 mean = l_set1(n->mean != NULL ? n->mean[r] : 0.0f);
        const double rstd = (double)n->rstd[r];
        double s1[LANES] = {0}, s2[LANES] = {0}, k1 = 0;
        swi_sum_slope(n->mean != NULL ? s1 : NULL, s2, dy, x, n->weight, one, cols, mean,
                      false);
        if (n->mean != NULL)
            k1 = swi_lanes_sum(s1, LANES) / (double)cols;
        const double k2 = swi_lanes_sum(s2, LANES) * rstd * rstd / (double)cols;
        swi_put_dx((float *)n->dx + r * cols, dy, x, n->weight, one, cols, mean,
                   l_set1(n->rstd[r]), l_set1((float)k1), l_set1((float)k2), n->add_dx, false);
    }
}

void SW_KERNEL(norm, rows_dx)(const sw_norm_args *n, const sw_par *par)
{
    row_job j = {.centred = n->mean != NULL};
    run_rows(n, rows_dx_part, &j, par);
}

/* Sums over rows of `width` columns from column c: w1 of dy, w2 of dy (x - mean) rstd. */
static void sum_columns(const sw_norm_args *n, int64_t c, int64_t width, double *w1, double *w2)
{
    const swi_16 zero = l_set1(0.0f);
    for (int64_t from = 0; from < n->batch; from += ROWS) {
        const int64_t end = from + ROWS < n->batch ? from + ROWS : n->batch;
        swi_16 a[TILE_16], b[TILE_16];
        SW_UNROLL for (int q = 0; q < TILE_16; q++) a[q] = b[q] = zero;
        for (int64_t r = from; r < end; r++) {
            const int64_t at = r * n->channels + c;
            const float *dy = (const float *)n->dy + at;
            const float *x = n->x != NULL ? (const float *)n->x + at : NULL;
            const swi_16 mean = l_set1(n->mean != NULL ? n->mean[r] : 0.0f);
            const swi_16 rstd = l_set1(x != NULL ? n->rstd[r] : 0.0f);
            SW_UNROLL for (int q = 0; q < TILE_16; q++)
            {
                const int64_t left = width - q * LANES;
                if (left <= 0)
                    continue;
                const swi_16 g = l_take(dy + q * LANES, left, zero);
                a[q] = l_add(a[q], g);
                if (x == NULL)
                    continue;
                const swi_16 d = l_sub(l_take(x + q * LANES, left, mean), mean);
                b[q] = l_add(b[q], l_mul(g, l_mul(d, rstd)));
            }
        }
        for (int q = 0; q < TILE_16; q++) {
            l_flush(w1 + q * LANES, a[q]);
            l_flush(w2 + q * LANES, b[q]);
        }
    }
}

static void rows_dw_part(void *arg, int part)
{
    const sw_norm_args *n = ((const row_job *)arg)->n;
    const int64_t c = (int64_t)part * TILE;
    const int64_t width = n->channels - c < TILE ? n->channels - c : TILE;
    double w1[TILE] = {0}, w2[TILE] = {0};
    sum_columns(n, c, width, w1, w2);
    for (int64_t k = 0; k < width; k++) {
        if (n->db != NULL)
            n->db[c + k] = (n->add_db ? n->db[c + k] : 0.0f) + (float)w1[k];
        if (n->dw != NULL)
            n->dw[c + k] = (n->add_dw ? n->dw[c + k] : 0.0f) + (float)w2[k];
    }
}

void SW_KERNEL(norm, rows_dw)(const sw_norm_args *n, const sw_par *par)
{
    row_job j = {.n = n};
    vparts(par, rows_dw_part, &j, (int)((n->channels + TILE - 1) / TILE),
           n->batch * n->channels > PART);
}
