/* Steps along noise: theta is moved by z, which is made in pieces and used up at once. Numbers
 * of one column's factor are made once for all rows of a part. */
#include "kernels/cpu/isa/noise_internal.h"

enum { PART = 16384 /* elements of a thread */, PIECE = 1024, FACTORS = 4096 };

typedef struct {
    float *theta;
    const swi_move_attrs *a;
    sw_noise_at at;
    const float *numbers;
    int64_t rows; /* of a part, LOW_RANK */
} step_job;

/* ---- what is done with z ------------------------------------------------------------------
 */

static void by_noise(float *theta, const float *z, int64_t n, float by)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(theta + i, vadd(vload(theta + i), vmul(vset1(by), vload(z + i))));
    for (; i < n; i++)
        theta[i] += by * z[i];
}

static void descend(float *theta, const float *z, int64_t n, const float *x, bool decays)
{
    const float c = x[SWI_MOVE_C], lr = x[SWI_MOVE_LR], wd = x[SWI_MOVE_WD];
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        const vf t = vload(theta + i);
        vf slope = vmul(vset1(c), vload(z + i));
        if (decays)
            slope = vadd(slope, vmul(vset1(wd), t));
        vstore(theta + i, vadd(t, vmul(vset1(-lr), slope)));
    }
    for (; i < n; i++)
        theta[i] -= lr * (decays ? c * z[i] + wd * theta[i] : c * z[i]);
}

static void use(const step_job *j, float *theta, const float *z, int64_t n)
{
    const float by = j->numbers[SWI_MOVE_A];
    by_noise(theta, z, n, by);
    if (j->a->move == SWI_MOVE_ALL) {
        by_noise(theta, z, n, -2.0f * by);
        by_noise(theta, z, n, by);
    }
    if (j->a->move != SWI_MOVE_BY_NOISE)
        descend(theta, z, n, j->numbers, j->a->decays != 0);
}

/* ---- z ----------------------------------------------------------------------------------- */

static void iid_part(void *arg, int part)
{
    const step_job *j = arg;
    const sw_noise_spec *s = &j->a->noise;
    const int64_t all = s->rows * s->cols, from = (int64_t)part * PART;
    const int64_t end = from + PART < all ? from + PART : all;
    float z[PIECE];
    for (int64_t i = from; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;
        swi_noise_fill(z, i, n, s, SW_NOISE_ELEMENTS, &j->at);
        use(j, j->theta + i, z, n);
    }
}

/* z = a b + z, rounded once: what vectors of the base set do not do. */
static void add_product(float *z, float a, const float *b, int64_t n)
{
    int64_t i = 0;
#if SW_ISA_ID >= 1
    for (; i + VW <= n; i += VW)
        vstore(z + i, vfma(vset1(a), vload(b + i), vload(z + i)));
#endif
    for (; i < n; i++)
        z[i] = fmaf(a, b[i], z[i]);
}

/* Columns of which the factors of all ranks lie in FACTORS numbers. */
static int64_t low_rank_columns(const sw_noise_spec *s)
{
    const int64_t most = FACTORS / s->rank;
    return most < PIECE ? most : PIECE;
}

static void low_rank_row(const step_job *j, int64_t row, int64_t col, int64_t n, const float *b)
{
    const sw_noise_spec *s = &j->a->noise;
    const float scale = sw_noise_scale(s);
    float z[PIECE];
    memset(z, 0, (size_t)n * sizeof *z);
    for (int32_t k = 0; k < s->rank; k++)
        add_product(z, sw_noise_number(s, SW_NOISE_ROWS, &j->at, k * s->rows + row), b + k * n,
                    n);
    for (int64_t i = 0; i < n; i++)
        z[i] *= scale;
    use(j, j->theta + row * s->cols + col, z, n);
}

static void low_rank_part(void *arg, int part)
{
    const step_job *j = arg;
    const sw_noise_spec *s = &j->a->noise;
    const int64_t first = (int64_t)part * j->rows, most = low_rank_columns(s);
    const int64_t last = first + j->rows < s->rows ? first + j->rows : s->rows;
    float b[FACTORS];
    for (int64_t c = 0; c < s->cols; c += most) {
        const int64_t n = s->cols - c < most ? s->cols - c : most;
        for (int32_t k = 0; k < s->rank; k++)
            swi_noise_fill(b + k * n, k * s->cols + c, n, s, SW_NOISE_COLS, &j->at);
        for (int64_t r = first; r < last; r++)
            low_rank_row(j, r, c, n, b);
    }
}

void swi_noise_step(float *theta, const swi_move_attrs *a, const sw_noise_at *at,
                    const float *numbers, const sw_par *par)
{
    const sw_noise_spec *s = &a->noise;
    step_job j = {theta, a, *at, numbers, 1};
    if (s->kind != SW_NOISE_LOW_RANK) {
        par->run(par, iid_part, &j, (int)((s->rows * s->cols + PART - 1) / PART));
        return;
    }
    j.rows = s->cols > 0 && s->cols < PART ? PART / s->cols : 1;
    par->run(par, low_rank_part, &j, (int)((s->rows + j.rows - 1) / j.rows));
}
