/* Adafactor: kernels/optim.h. Four passes over the gradient, none of which keeps what it
 * computes for each element: rows and the parameter's size; columns; the size of the update;
 * the update. Sums are float64, in lanes, then part by part in order. A tensor that is not
 * factored is rows of one matrix with a second moment for each element. */
#include "kernels/cpu/adafactor.h"
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/optim_step.h"

#define LANES 16
#define COLS 256 /* of one part of the pass over columns */

typedef struct {
    const sw_adafactor_rule *r;
    sw_adafactor_operands x;
    int64_t parts, each; /* parts, and rows of one */
    int64_t group;       /* matrices of a part of the pass over columns */
    double *sizes;       /* of each part: the sum of squares of p */
    double *updates;     /* ... and of the update */
    double *means;       /* of each matrix: the mean of its row states */
    float step, keep;    /* of the last pass */
} job;

/* a b for each element, in lanes. */
static inline double sum_of_squares(const float *x, int64_t n, float s)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)((x[i + k] * s) * (x[i + k] * s));
    for (int k = 0; i + k < n; k++)
        lane[k] += (double)((x[i + k] * s) * (x[i + k] * s));
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static inline int64_t last_row(const job *j, int part)
{
    const int64_t end = ((int64_t)part + 1) * j->each, rows = j->x.n * j->x.rows;
    return end < rows ? end : rows;
}

static void rows_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t cols = j->x.cols;
    const float share = (float)j->r->fresh, s = j->x.gscale;
    double size = 0;
    for (int64_t r = (int64_t)part * j->each; r < last_row(j, part); r++) {
        const float *restrict g = j->x.g + r * cols;
        size += sum_of_squares(j->x.p + r * cols, cols, 1.0f);
        if (j->x.col != NULL) {
            const double mean = sum_of_squares(g, cols, s) / (double)cols;
            j->x.row[r] = sw_adafactor_mix(j->x.row[r], (float)mean, share);
            continue;
        }
        float *restrict v = j->x.row + r * cols;
        for (int64_t c = 0; c < cols; c++)
            v[c] = sw_adafactor_mix(v[c], (g[c] * s) * (g[c] * s), share);
    }
    j->sizes[part] = size;
}

/* The columns from `from` on of one matrix, and its mean with the first of them. */
static void columns(const job *j, int64_t matrix, int64_t from)
{
    const int64_t rows = j->x.rows, cols = j->x.cols;
    const int64_t n = cols - from < COLS ? cols - from : COLS;
    const float share = (float)j->r->fresh, s = j->x.gscale;
    double sums[COLS] = {0};
    for (int64_t r = 0; r < rows; r++) {
        const float *g = j->x.g + (matrix * rows + r) * cols + from;
        for (int64_t c = 0; c < n; c++)
            sums[c] += (double)((g[c] * s) * (g[c] * s));
    }
    float *col = j->x.col + matrix * cols + from;
    for (int64_t c = 0; c < n; c++)
        col[c] = sw_adafactor_mix(col[c], (float)(sums[c] / (double)rows), share);
    if (from > 0)
        return;
    double mean = 0;
    for (int64_t r = 0; r < rows; r++)
        mean += (double)j->x.row[matrix * rows + r];
    mean /= (double)rows;
    j->means[matrix] = mean > (double)j->r->epsilon ? mean : (double)j->r->epsilon;
}

static void columns_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t chunks = (j->x.cols + COLS - 1) / COLS;
    const int64_t from = part / chunks * j->group, chunk = part % chunks;
    for (int64_t m = from; m < from + j->group && m < j->x.n; m++)
        columns(j, m, chunk * COLS);
}

/* The update of the elements of row r, before the step: g / sqrt(v). */
#define UPDATE_OF_ROW                                                                          \
    const int64_t cols = j->x.cols;                                                            \
    const bool factored = j->x.col != NULL;                                                    \
    const int64_t matrix = r / j->x.rows;                                                      \
    const float *restrict g = j->x.g + r * cols;                                               \
    const float *restrict v = factored ? j->x.col + matrix * cols : j->x.row + r * cols;       \
    const float a = factored ? (float)((double)j->x.row[r] / j->means[matrix]) : 1.0f;         \
    const float s = j->x.gscale, least = j->r->epsilon * j->r->epsilon

static double update_size(const job *j, int64_t r)
{
    UPDATE_OF_ROW;
    double lane[LANES] = {0}, sum = 0;
    float u[LANES];
    int64_t c = 0;
    for (; c + LANES <= cols; c += LANES) {
        for (int k = 0; k < LANES; k++)
            u[k] = sw_adafactor_update(g[c + k] * s, a * v[c + k], least);
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)(u[k] * u[k]);
    }
    for (int k = 0; c + k < cols; k++) {
        u[k] = sw_adafactor_update(g[c + k] * s, a * v[c + k], least);
        lane[k] += (double)(u[k] * u[k]);
    }
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static void sizes_part(void *arg, int part)
{
    const job *j = arg;
    double size = 0;
    for (int64_t r = (int64_t)part * j->each; r < last_row(j, part); r++)
        size += update_size(j, r);
    j->updates[part] = size;
}

static void update_row(const job *j, int64_t r)
{
    UPDATE_OF_ROW;
    float *restrict p = j->x.p + r * cols;
    const float step = j->step, keep = j->keep;
    for (int64_t c = 0; c < cols; c++)
        p[c] = p[c] * keep - step * sw_adafactor_update(g[c] * s, a * v[c], least);
}

static void update_part(void *arg, int part)
{
    const job *j = arg;
    for (int64_t r = (int64_t)part * j->each; r < last_row(j, part); r++)
        update_row(j, r);
}

static double root_mean_square(const double *sums, int64_t parts, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < parts; i++)
        sum += sums[i];
    return sqrt(sum / (double)n);
}

void SW_KERNEL(pointwise, adafactor)(const sw_adafactor_rule *rule,
                                     const sw_adafactor_operands *x, double *scratch,
                                     const sw_par *par)
{
    const int64_t n = x->n * x->rows * x->cols;
    job j = {.r = rule, .x = *x, .each = swi_adafactor_rows(x->cols)};
    j.parts = swi_adafactor_parts(x->n, x->rows, x->cols);
    j.sizes = scratch;
    j.updates = scratch + j.parts;
    j.means = scratch + 2 * j.parts;
    par->run(par, rows_part, &j, (int)j.parts);
    if (x->col != NULL) {
        const int64_t size = x->rows * x->cols;
        j.group = size < SWI_ADAFACTOR_PART ? SWI_ADAFACTOR_PART / size : 1;
        par->run(par, columns_part, &j,
                 (int)((x->n + j.group - 1) / j.group * ((x->cols + COLS - 1) / COLS)));
    }
    par->run(par, sizes_part, &j, (int)j.parts);
    j.step = sw_adafactor_step(rule, root_mean_square(j.sizes, j.parts, n),
                               root_mean_square(j.updates, j.parts, n));
    j.keep = 1.0f - rule->lr * rule->weight_decay;
    par->run(par, update_part, &j, (int)j.parts);
}
