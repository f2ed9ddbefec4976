/* Updates of one parameter tensor: elementwise ones, kernels/optim_step.h; Adafactor,
 * kernels/optim.h; and the largest number. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/optim_step.h"
#include <math.h>
#include <string.h>

typedef struct {
    const sw_optim_rule *rule;
    float *p;
    const float *g;
    float *const *state;
    int64_t n;
    float gscale;
} update_job;

typedef void element_step(float *p, float *s, float g, const sw_optim_numbers *n);
typedef void elements_step(const sw_optim_numbers *n, float *p, const float *g,
                           float *const *state, int64_t count);

/* Inlined with the number of states and the step as constants, so that the loop is vectorised.
 */
static inline __attribute__((always_inline)) void
update_elements(const sw_optim_numbers *numbers, float *restrict p, const float *restrict g,
                float *const *state, int64_t count, int states, element_step *step)
{
    float *restrict s0 = states > 0 ? state[0] : NULL;
    float *restrict s1 = states > 1 ? state[1] : NULL;
    float *restrict s2 = states > 2 ? state[2] : NULL;
    const sw_optim_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float s[SW_OPTIM_STATES] = {states > 0 ? s0[i] : 0.0f, states > 1 ? s1[i] : 0.0f,
                                    states > 2 ? s2[i] : 0.0f};
        step(&p[i], s, g[i], &n);
        if (states > 0)
            s0[i] = s[0];
        if (states > 1)
            s1[i] = s[1];
        if (states > 2)
            s2[i] = s[2];
    }
}

#define SW_RULE(rule, kind, states, operations)                                                \
    static void rule##_elements(const sw_optim_numbers *n, float *p, const float *g,           \
                                float *const *state, int64_t count)                            \
    {                                                                                          \
        update_elements(n, p, g, state, count, states, sw_##rule##_step);                      \
    }
#define SW_OPTIMIZER(kind, states, operations) SW_RULE(kind, kind, states, operations)
#include "kernels/optimizers.def"

static const struct {
    elements_step *step;
    int states;
} rules[] = {
#define SW_RULE(rule, kind, states, operations) {rule##_elements, states},
#define SW_OPTIMIZER(kind, states, operations) {kind##_elements, states},
#include "kernels/optimizers.def"
};

static void update_part(void *arg, int part)
{
    const update_job *j = arg;
    const int64_t from = (int64_t)part * PART;
    const sw_optim_numbers n = sw_optim_numbers_of(j->rule, j->gscale);
    float *state[SW_OPTIM_STATES] = {NULL};
    for (int k = 0; k < rules[j->rule->kind].states; k++)
        state[k] = j->state[k] + from;
    rules[j->rule->kind].step(&n, j->p + from, j->g + from, state, part_end(j->n, part) - from);
}

void SW_KERNEL(pointwise, update)(const sw_optim_rule *rule, float *p, const float *g,
                                  float *const *state, int64_t n, float gscale,
                                  const sw_par *par)
{
    update_job j = {rule, p, g, state, n, gscale};
    par->run(par, update_part, &j, part_count(n));
}

/* ---- states in 8 bits -------------------------------------------------------------------- */

typedef struct {
    const sw_optim_rule *rule;
    float *p;
    const float *g;
    const sw_state8 *state;
    int64_t cols, row_blocks; /* of a row */
    int64_t blocks, each;     /* of all; of a part */
    float gscale;
} update8_job;

/* A block is float32 on the stack while it is updated. */
static void update8_part(void *arg, int part)
{
    const update8_job *j = arg;
    const int states = rules[j->rule->kind].states, signs = sw_optim_state8(j->rule->kind);
    const sw_optim_numbers numbers = sw_optim_numbers_of(j->rule, j->gscale);
    const int64_t from = part * j->each;
    const int64_t to = from + j->each < j->blocks ? from + j->each : j->blocks;
    float s[SW_OPTIM_STATES][SW_STATE8_BLOCK];
    float *const state[SW_OPTIM_STATES] = {s[0], s[1], s[2]};
    for (int64_t b = from; b < to; b++) {
        const int64_t col = b % j->row_blocks * SW_STATE8_BLOCK;
        const int64_t left = j->cols - col, n = left < SW_STATE8_BLOCK ? left : SW_STATE8_BLOCK;
        const int64_t at = b / j->row_blocks * j->cols + col;
        for (int k = 0; k < states; k++) {
            const float *restrict value = sw_state8_code_of(signs >> k & 1)->value;
            const uint8_t *restrict codes = j->state[k].codes + at;
            const float scale = j->state[k].scales[b];
            float *restrict to32 = s[k];
            for (int64_t i = 0; i < n; i++)
                to32[i] = value[codes[i]] * scale;
        }
        rules[j->rule->kind].step(&numbers, j->p + at, j->g + at, state, n);
        for (int k = 0; k < states; k++) {
            const sw_state8 *to8 = &j->state[k];
            if (signs >> k & 1)
                sw_state8_encode(s[k], n, to8->codes + at, &to8->scales[b], true);
            else
                sw_state8_encode(s[k], n, to8->codes + at, &to8->scales[b], false);
        }
    }
}

void SW_KERNEL(pointwise, update8)(const sw_optim_rule *rule, float *p, const float *g,
                                   const sw_state8 *state, int64_t rows, int64_t cols,
                                   float gscale, const sw_par *par)
{
    const int64_t block = cols < SW_STATE8_BLOCK ? cols : SW_STATE8_BLOCK;
    const int64_t row_blocks = sw_state8_blocks(cols);
    update8_job j = {rule,         p,     g, state, cols, row_blocks, rows * row_blocks,
                     PART / block, gscale};
    par->run(par, update8_part, &j, (int)((j.blocks + j.each - 1) / j.each));
}

/* ---- the largest ------------------------------------------------------------------------- */

#define LARGEST_PART (4 * PART) /* only read: fewer hand-overs for as many bytes */

typedef struct {
    const void *x;
    bool half; /* of bf16 */
    int64_t n;
    int32_t bits; /* of the largest so far: maxima may come in any order */
} largest_job;

/* Without their signs floats are in the order of their bits, NaN after infinity. */
static void largest_part(void *arg, int part)
{
    largest_job *j = arg;
    const int64_t from = (int64_t)part * LARGEST_PART;
    const int64_t to = from + LARGEST_PART < j->n ? from + LARGEST_PART : j->n;
    const float *x = j->x;
    const uint16_t *halves = j->x;
    int32_t most = 0;
    for (int64_t i = from; i < to && j->half; i++) {
        const int32_t bits = (halves[i] & 0x7fff) << 16;
        most = bits > most ? bits : most;
    }
    for (int64_t i = from; i < to && !j->half; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    int32_t seen = __atomic_load_n(&j->bits, __ATOMIC_RELAXED);
    while (most > seen && !__atomic_compare_exchange_n(&j->bits, &seen, most, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

float SW_KERNEL(pointwise, largest)(const void *x, bool half, int64_t n, const sw_par *par)
{
    largest_job j = {x, half, n, 0};
    float most;
    par->run(par, largest_part, &j, (int)((n + LARGEST_PART - 1) / LARGEST_PART));
    memcpy(&most, &j.bits, sizeof most);
    return most;
}

/* ---- adafactor --------------------------------------------------------------------------- */

/* Four passes over the gradient, none of which keeps what it computes for each element: rows
 * and the parameter's size; columns; the size of the update; the update. Sums are float64, in
 * lanes, then part by part in order. A tensor that is not factored is rows of one matrix with a
 * second moment for each element. */
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
} adafactor_job;

static inline double sum_of_squares(const float *x, int64_t n, float s)
{
    double sum;
    int64_t i = 0;
    SUM_LANES(double, sum, i, n, (x[i + k] * s) * (x[i + k] * s));
    return sum;
}

static inline int64_t last_row(const adafactor_job *j, int part)
{
    const int64_t end = ((int64_t)part + 1) * j->each, rows = j->x.n * j->x.rows;
    return end < rows ? end : rows;
}

static void rows_part(void *arg, int part)
{
    const adafactor_job *j = arg;
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
static void columns(const adafactor_job *j, int64_t matrix, int64_t from)
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
    const adafactor_job *j = arg;
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

static inline float square(float x)
{
    return x * x;
}

static void sizes_part(void *arg, int part)
{
    const adafactor_job *j = arg;
    double size = 0, sum;
    for (int64_t r = (int64_t)part * j->each; r < last_row(j, part); r++) {
        UPDATE_OF_ROW;
        int64_t c = 0;
        SUM_LANES(double, sum, c, cols,
                  square(sw_adafactor_update(g[c + k] * s, a * v[c + k], least)));
        size += sum;
    }
    j->updates[part] = size;
}

static void adafactor_part(void *arg, int part)
{
    const adafactor_job *j = arg;
    const float step = j->step, keep = j->keep;
    for (int64_t r = (int64_t)part * j->each; r < last_row(j, part); r++) {
        UPDATE_OF_ROW;
        float *restrict p = j->x.p + r * cols;
        for (int64_t c = 0; c < cols; c++)
            p[c] = p[c] * keep - step * sw_adafactor_update(g[c] * s, a * v[c], least);
    }
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
    adafactor_job j = {.r = rule, .x = *x, .each = sw_adafactor_rows(x->cols)};
    j.parts = sw_adafactor_parts(x->n, x->rows, x->cols);
    j.sizes = scratch;
    j.updates = scratch + j.parts;
    j.means = scratch + 2 * j.parts;
    par->run(par, rows_part, &j, (int)j.parts);
    if (x->col != NULL) {
        const int64_t size = x->rows * x->cols;
        j.group = size < SW_ADAFACTOR_PART ? SW_ADAFACTOR_PART / size : 1;
        par->run(par, columns_part, &j,
                 (int)((x->n + j.group - 1) / j.group * ((x->cols + COLS - 1) / COLS)));
    }
    par->run(par, sizes_part, &j, (int)j.parts);
    j.step = sw_adafactor_step(rule, root_mean_square(j.sizes, j.parts, n),
                               root_mean_square(j.updates, j.parts, n));
    j.keep = 1.0f - rule->lr * rule->weight_decay;
    par->run(par, adafactor_part, &j, (int)j.parts);
}
