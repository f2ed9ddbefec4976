/* Softmax cross-entropy with label smoothing and a label that is ignored: sums of rows, and the
 * gradient. Rows in sixteen float64 lanes, then lane by lane. */
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"

#define LANES 16

typedef struct {
    double *sums;
    float *y;
    const float *x, *lse;
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

static int64_t end_row(const job *j, int part)
{
    const int64_t end = (part + 1) * j->rows_per_part;
    return end < j->rows ? end : j->rows;
}

static void row_sums_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = part * j->rows_per_part; r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        double lane[LANES] = {0}, sum = 0;
        int64_t c = 0;
        for (; c + LANES <= j->cols; c += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] += (double)x[c + k];
        for (int k = 0; c + k < j->cols; k++)
            lane[k] += (double)x[c + k];
        for (int k = 0; k < LANES; k++)
            sum += lane[k];
        j->sums[r] = sum;
    }
}

void SW_KERNEL(pointwise, row_sums)(double *sums, const float *x, int64_t rows, int64_t cols,
                                    const sw_par *par)
{
    job j = {.sums = sums, .x = x, .rows = rows, .cols = cols};
    split(par, row_sums_part, &j);
}

/* A row that is ignored is read as well, and gives zeros whatever it holds. */
static void smooth_ce_dx_part(void *arg, int part)
{
    const job *j = arg;
    const float on = 1.0f - j->rule->smoothing, off = j->rule->smoothing / (float)j->cols;
    const float factor = j->factor;
    for (int64_t r = part * j->rows_per_part; r < end_row(j, part); r++) {
        const float *x = j->x + r * j->cols;
        float *dx = j->y + r * j->cols;
        const float lse = j->lse[r];
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

void SW_KERNEL(pointwise, smooth_ce_dx)(float *dx, const float *x, const float *lse,
                                        const sw_ids *labels, int64_t rows, int64_t cols,
                                        const sw_ce_rule *rule, float factor, bool accumulate,
                                        const sw_par *par)
{
    job j = {.y = dx,
             .x = x,
             .lse = lse,
             .labels = labels,
             .rows = rows,
             .cols = cols,
             .rule = rule,
             .factor = factor,
             .accumulate = accumulate};
    split(par, smooth_ce_dx_part, &j);
}
