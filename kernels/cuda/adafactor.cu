/* Adafactor: kernels/optim.h. The means of the squares of rows and of columns, the mean of each
 * matrix's rows, the sizes of parameter and update, the update: nothing is kept for each
 * element. A tensor that is not factored begins with the sizes, which make its second moment on
 * the way. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/planes.h"
#include "kernels/cuda/updates.h"
#include "kernels/optim_step.h"

struct factors {
    float *p, *row, *col; /* col NULL: row is the second moment of each element */
    const float *g;
    float *mean, *step; /* in scratch: of each matrix; the step and what is left of p */
    int64_t n, rows, cols;
    sw_cuda_divisor by_cols, by_rows;
    sw_cuda_update_inputs in;
    sw_adafactor_rule rule; /* but for what is read on the device */
    __device__ float share(void) const
    {
        return (float)in.corrections[0];
    }
    __device__ float least(void) const
    {
        return rule.epsilon * rule.epsilon;
    }
    /* The positions of W second moments, and what they are multiplied with. */
    __device__ float *moments(int64_t position, float *times) const
    {
        uint32_t c = (uint32_t)position;
        *times = 1.0f;
        if (col == nullptr)
            return row + position;
        const uint32_t r = sw_cuda_split(by_cols, &c), matrix = sw_cuda_divide(by_rows, r);
        *times = row[r] / mean[matrix];
        return col + (int64_t)matrix * cols + c;
    }
    /* g / sqrt(v) of W elements. */
    template <int W> __device__ void updates(float (&u)[W], int64_t position) const
    {
        float v[W], times;
        const float s = in.gradient_scale();
        sw_cuda_load(v, moments(position, &times));
        sw_cuda_load(u, g + position);
        for (int k = 0; k < W; k++)
            u[k] = sw_adafactor_update(u[k] * s, times * v[k], least());
    }
};

/* Of each row: the mean of the squares. */
struct row_squares {
    enum { N = 1 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float g[W];
        const float s = f.in.gradient_scale();
        sw_cuda_load(g, f.g + at);
        for (int k = 0; k < W; k++)
            sum[0] += (double)((g[k] * s) * (g[k] * s));
    }
    __device__ void put(int64_t r, const double (&sum)[N]) const
    {
        if (!f.in.off())
            f.row[r] = sw_adafactor_mix(f.row[r], (float)(sum[0] / (double)f.cols), f.share());
    }
};

/* Of each column; short ones are summed by one thread. */
#define SHORT_COLUMN 32
struct column_squares {
    enum { N = 1 };
    factors f;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        const int64_t matrix = c / f.cols;
        const float g = f.g[c + (matrix * (f.rows - 1) + r) * f.cols] * f.in.gradient_scale();
        v[0] = (double)(g * g);
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        if (!f.in.off())
            f.col[c] = sw_adafactor_mix(f.col[c], (float)(sum[0] / (double)f.rows), f.share());
    }
    __device__ void entry(int64_t c) const
    {
        double sum[N] = {}, v[N];
        for (int64_t r = 0; r < f.rows; r++) {
            term(r, c, v);
            sum[0] += v[0];
        }
        put(c, sum);
    }
};

/* Of each matrix: the mean of its rows. */
struct matrix_means {
    enum { N = 1 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float v[W];
        sw_cuda_load(v, f.row + at);
        for (int k = 0; k < W; k++)
            sum[0] += (double)v[k];
    }
    __device__ void put(int64_t matrix, const double (&sum)[N]) const
    {
        const double mean = sum[0] / (double)f.rows, least = (double)f.rule.epsilon;
        f.mean[matrix] = (float)(mean > least ? mean : least);
    }
};

/* Of all: the squares of the parameter and of the update. */
struct sizes {
    enum { N = 2 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float p[W], u[W];
        if (f.in.off())
            return;
        if (f.col == nullptr)
            mix<W>(at);
        sw_cuda_load(p, f.p + at);
        f.updates(u, at);
        for (int k = 0; k < W; k++) {
            sum[0] += (double)(p[k] * p[k]);
            sum[1] += (double)(u[k] * u[k]);
        }
    }
    template <int W> __device__ void mix(int64_t at) const
    {
        float g[W], v[W];
        const float s = f.in.gradient_scale(), share = f.share();
        sw_cuda_load(g, f.g + at);
        sw_cuda_load(v, f.row + at);
        for (int k = 0; k < W; k++)
            v[k] = sw_adafactor_mix(v[k], (g[k] * s) * (g[k] * s), share);
        sw_cuda_store(f.row + at, v);
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        const double n = (double)f.n * (double)f.rows * (double)f.cols;
        sw_adafactor_rule rule = f.rule;
        rule.lr = f.in.lr[0];
        if (f.in.reads != 0)
            rule.weight_decay = f.in.lr[1];
        rule.most = f.in.corrections[1];
        f.step[0] = sw_adafactor_step(&rule, sqrt(sum[0] / n), sqrt(sum[1] / n));
        f.step[1] = 1.0f - rule.lr * rule.weight_decay;
    }
};

struct step_of_all {
    factors f;
    template <int W> __device__ void at(int64_t position, int64_t) const
    {
        float p[W], u[W];
        if (f.in.off())
            return;
        const float step = f.step[0], keep = f.step[1];
        sw_cuda_load(p, f.p + position);
        f.updates(u, position);
        for (int k = 0; k < W; k++)
            p[k] = p[k] * keep - step * u[k];
        sw_cuda_store(f.p + position, p);
    }
};

/* ---- operands ---------------------------------------------------------------------------- */

/* n matrices of the last two axes; a vector is one row. */
static void matrices_of(factors *f, const sw_shape *s)
{
    f->n = f->rows = f->cols = 1;
    for (int i = 0; i < s->rank; i++)
        *(i == s->rank - 1 ? &f->cols : i == s->rank - 2 ? &f->rows : &f->n) *= s->dim[i];
}
static sw_cuda_plane_shape all_of(const factors &f)
{
    return sw_cuda_planes_of(1, 1, f.n * f.rows * f.cols);
}
static sw_cuda_plane_shape rows_of(const factors &f)
{
    return sw_cuda_planes_of(1, f.n * f.rows, f.cols);
}
static sw_cuda_plane_shape matrices(const factors &f)
{
    return sw_cuda_planes_of(1, f.n, f.rows);
}

/* The step, the means, and the sums that are needed at one time. */
static size_t head_bytes(const factors &f)
{
    return ((size_t)f.n * sizeof(float) + 31) / 16 * 16;
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_adafactor_scratch)
{
    factors f = {};
    matrices_of(&f, &info->in[0].shape);
    const size_t each[] = {
        sw_cuda_planes_bytes(all_of(f), sizes::N),
        sw_cuda_planes_bytes(rows_of(f), row_squares::N),
        sw_cuda_planes_bytes(matrices(f), matrix_means::N),
        f.rows <= SHORT_COLUMN ? 0 : sw_cuda_reduce_bytes(f.rows, f.n * f.cols, 1, true)};
    size_t most = 0;
    for (size_t bytes : each)
        most = bytes > most ? bytes : most;
    return head_bytes(f) + most;
}

static factors factors_of(const sw_launch *l)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    factors f = {};
    matrices_of(&f, &l->in[0].type.shape);
    f.p = sw_cuda_out(l, 0);
    f.g = sw_cuda_in(l, 1);
    f.row = sw_cuda_out(l, 1);
    f.col = a->n_state > 1 ? sw_cuda_out(l, 2) : nullptr;
    f.step = static_cast<float *>(l->scratch);
    f.mean = f.step + 2;
    f.by_cols = sw_cuda_divisor_of(f.cols);
    f.by_rows = sw_cuda_divisor_of(f.rows);
    f.in = sw_cuda_update_inputs_of(l);
    f.rule.weight_decay = a->weight_decay;
    f.rule.epsilon = a->epsilon;
    f.rule.least = a->least;
    f.rule.threshold = a->threshold;
    f.rule.fixed = a->fixed != 0;
    return f;
}

/* Second moments of rows and columns. */
static sw_status moments_run(const char *op, const factors &f, void *parts,
                             const sw_cuda_queue *queue)
{
    SW_TRY(sw_cuda_planes_reduce(op, row_squares{f}, rows_of(f), sw_cuda_aligned(f.g), parts,
                                 queue));
    if (f.rows <= SHORT_COLUMN)
        SW_TRY(sw_cuda_planes_fill(op, column_squares{f}, f.n * f.cols, queue));
    else
        SW_TRY(sw_cuda_reduce(op, column_squares{f}, f.rows, f.n * f.cols, true, parts, queue));
    return sw_cuda_planes_reduce(op, matrix_means{f}, matrices(f), sw_cuda_aligned(f.row),
                                 parts, queue);
}

SW_CUDA_ENTRY(adafactor_update, forward, sw_cuda_adafactor_scratch, 0)
{
    static const char op[] = "adafactor_update";
    const int64_t n = sw_cuda_elements(&l->in[0].type);
    if (n == 0)
        return SW_OK;
    if (n > INT32_MAX)
        return sw_cuda_its_host.fail(
            SW_UNSUPPORTED, __FILE__, __LINE__,
            "%s: a parameter must have at most %d elements on this device (got %lld)", op,
            INT32_MAX, (long long)n);
    const factors f = factors_of(l);
    void *parts = static_cast<unsigned char *>(l->scratch) + head_bytes(f);
    const bool wide = f.cols % 4 == 0 && sw_cuda_aligned(f.p) && sw_cuda_aligned(f.g) &&
                      sw_cuda_aligned(f.col != nullptr ? f.col : f.row);
    if (f.col != nullptr)
        SW_TRY(moments_run(op, f, parts, queue));
    SW_TRY(sw_cuda_planes_reduce(op, sizes{f}, all_of(f), wide, parts, queue));
    return sw_cuda_planes_run(op, step_of_all{f}, all_of(f), wide, queue);
}
