/* Kernels over rows: softmax, norms, cumulative sums, and their gradients. */
#include "kernels/attrs.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/scalar.h"

/* ---- softmax ----------------------------------------------------------------------------- */

/* And its logarithm. y may be x, dx may be y or dy: a thread writes the elements that it alone
 * reads. */
struct soft {
    float *y;
    const float *x, *dy; /* softmax_backward: x is y, y is dx */
    int64_t rows, cols;
    int log, add;
};

template <class ROWS> __global__ void softmax_kernel(soft s)
{
    SW_SHARED(float, partials, 32);
    for (int64_t r = ROWS::first(); r < s.rows; r += ROWS::step()) {
        const float *x = s.x + r * s.cols;
        float *y = s.y + r * s.cols;
        sw_cuda_exponentials row = SW_CUDA_NO_EXPONENTIALS;
        sw_cuda_walk<ROWS, 4>(x, s.cols, [&](auto groups, int64_t c) {
            float v[groups.N][groups.W];
            sw_cuda_load_groups<ROWS>(v, x + c);
            row.add(v);
        });
        row.template join<ROWS>(partials);
        const float inverse = 1.0f / row.sum, lse = sw_row_lse(row.most, row.sum);
        SW_CUDA_COLUMNS(c, s.cols)
        {
            float v[ROWS::W];
            sw_cuda_load(v, x + c);
            for (int k = 0; k < ROWS::W; k++)
                v[k] = s.log ? v[k] - lse : sw_expf(v[k] - row.most) * inverse;
            sw_cuda_store(y + c, v);
        }
    }
}

/* y (dy - sum(dy y)); of the logarithm dy - e^y sum(dy). */
template <class ROWS> __global__ void softmax_dx_kernel(soft s)
{
    SW_SHARED(float, partials, 32);
    for (int64_t r = ROWS::first(); r < s.rows; r += ROWS::step()) {
        const float *y = s.x + r * s.cols, *dy = s.dy + r * s.cols;
        float *dx = s.y + r * s.cols;
        float a[ROWS::W], g[ROWS::W], old[ROWS::W] = {}, sum = 0.0f;
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(a, y + c);
            sw_cuda_load(g, dy + c);
            for (int k = 0; k < ROWS::W; k++)
                sum += s.log ? g[k] : g[k] * a[k];
        }
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        SW_CUDA_COLUMNS(c, s.cols)
        {
            sw_cuda_load(a, y + c);
            sw_cuda_load(g, dy + c);
            if (s.add)
                sw_cuda_load(old, dx + c);
            for (int k = 0; k < ROWS::W; k++) {
                const float d = s.log ? g[k] - sw_expf(a[k]) * sum : a[k] * (g[k] - sum);
                g[k] = s.add ? old[k] + d : d;
            }
            sw_cuda_store(dx + c, g);
        }
    }
}

static soft soft_of(const sw_launch *l, int log)
{
    const sw_shape *x = &l->in[0].type.shape;
    soft s = {};
    s.y = sw_cuda_out(l, 0);
    s.x = sw_cuda_in(l, 0);
    s.cols = x->dim[x->rank - 1];
    s.rows = sw_cuda_elements(&l->in[0].type) / s.cols;
    s.log = log;
    s.add = sw_cuda_adds(l, 0);
    return s;
}

static sw_status softmax_forward(const char *op, const sw_launch *l, int log,
                                 const sw_cuda_queue *queue)
{
    const soft s = soft_of(l, log);
    if (s.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(softmax_kernel, s.rows, s.cols,
                        sw_cuda_aligned(s.x) && sw_cuda_aligned(s.y), queue, s);
    return sw_cuda_launched(op);
}

/* in: y, dy */
static sw_status softmax_backward(const char *op, const sw_launch *l, int log,
                                  const sw_cuda_queue *queue)
{
    soft s = soft_of(l, log);
    s.dy = sw_cuda_in(l, 1);
    if (s.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(softmax_dx_kernel, s.rows, s.cols,
                        sw_cuda_aligned(s.x) && sw_cuda_aligned(s.y) && sw_cuda_aligned(s.dy),
                        queue, s);
    return sw_cuda_launched(op);
}

SW_CUDA_ENTRY_OF(softmax, forward, NULL, 0, softmax_forward("softmax", l, 0, queue))
SW_CUDA_ENTRY_OF(softmax, grad0, NULL, 0, softmax_backward("softmax", l, 0, queue))
SW_CUDA_ENTRY_OF(log_softmax, forward, NULL, 0, softmax_forward("log_softmax", l, 1, queue))
SW_CUDA_ENTRY_OF(log_softmax, grad0, NULL, 0, softmax_backward("log_softmax", l, 1, queue))

/* ---- layer norm, RMS norm ---------------------------------------------------------------- */

/* kernels/norm.h has the formulas. */

struct row_norm {
    const float *x, *dy, *weight, *bias; /* weight and bias NULL: 1 and 0 */
    const float *mean, *rstd;            /* mean NULL: 0 */
    float *y, *mean_out, *rstd_out, *dx, *dw, *db;
    int64_t rows, cols;
    float epsilon;
    int centred, add_dx, add_dw, add_db;
};

/* W of an operand's columns; `fill` where it is not given. */
template <int W>
static __device__ __forceinline__ void take(float (&v)[W], const float *p, int64_t c,
                                            float fill)
{
    for (int k = 0; k < W; k++)
        v[k] = fill;
    if (p != nullptr)
        sw_cuda_load(v, p + c);
}

/* Two passes: the mean, then the variance about it, corrected for what rounding left there. */
template <class ROWS> __global__ void norm_kernel(row_norm n)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < n.rows; r += ROWS::step()) {
        const float *x = n.x + r * n.cols;
        const double cols = (double)n.cols;
        float v[ROWS::W], w[ROWS::W], b[ROWS::W], mean = 0.0f;
        double s1 = 0.0, s2 = 0.0;
        if (n.centred) {
            SW_CUDA_COLUMNS(c, n.cols)
            {
                sw_cuda_load(v, x + c);
                for (int k = 0; k < ROWS::W; k++)
                    s1 += (double)v[k];
            }
            mean = (float)(ROWS::template reduce<sw_cuda_plus>(s1, partials) / cols);
            s1 = 0.0;
        }
        SW_CUDA_COLUMNS(c, n.cols)
        {
            sw_cuda_load(v, x + c);
            for (int k = 0; k < ROWS::W; k++) {
                const double d = (double)(v[k] - mean);
                s1 += n.centred ? d : 0.0;
                s2 += d * d;
            }
        }
        s1 = ROWS::template reduce<sw_cuda_plus>(s1, partials);
        s2 = ROWS::template reduce<sw_cuda_plus>(s2, partials);
        const float rstd = (float)sw_rstd(sw_variance(s1, s2, cols), n.epsilon);
        mean = (float)((double)mean + s1 / cols);
        SW_CUDA_COLUMNS(c, n.cols)
        {
            sw_cuda_load(v, x + c);
            take(w, n.weight, c, 1.0f);
            take(b, n.bias, c, 0.0f);
            for (int k = 0; k < ROWS::W; k++)
                v[k] = (v[k] - mean) * rstd * w[k] + b[k];
            sw_cuda_store(n.y + r * n.cols + c, v);
        }
        if (ROWS::lane() == 0 && n.mean_out != nullptr)
            n.mean_out[r] = mean;
        if (ROWS::lane() == 0 && n.rstd_out != nullptr)
            n.rstd_out[r] = rstd;
    }
}

/* dx = rstd (g - mean(g) - d mean(g d) rstd^2), g = dy weight, d = x - mean; without the first
 * mean where the rows are not centred. */
template <class ROWS> __global__ void norm_dx_kernel(row_norm n)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < n.rows; r += ROWS::step()) {
        const float *x = n.x + r * n.cols, *dy = n.dy + r * n.cols;
        float *dx = n.dx + r * n.cols;
        const float mean = n.mean != nullptr ? n.mean[r] : 0.0f, rstd = n.rstd[r];
        float v[ROWS::W], g[ROWS::W], w[ROWS::W], old[ROWS::W] = {};
        double s1 = 0.0, s2 = 0.0;
        SW_CUDA_COLUMNS(c, n.cols)
        {
            sw_cuda_load(v, x + c);
            sw_cuda_load(g, dy + c);
            take(w, n.weight, c, 1.0f);
            for (int k = 0; k < ROWS::W; k++) {
                s1 += (double)(g[k] * w[k]);
                s2 += (double)(g[k] * w[k] * (v[k] - mean));
            }
        }
        s1 = ROWS::template reduce<sw_cuda_plus>(s1, partials);
        s2 = ROWS::template reduce<sw_cuda_plus>(s2, partials);
        const float k1 = n.mean != nullptr ? (float)(s1 / (double)n.cols) : 0.0f;
        const float k2 = (float)(s2 * (double)rstd * (double)rstd / (double)n.cols);
        SW_CUDA_COLUMNS(c, n.cols)
        {
            sw_cuda_load(v, x + c);
            sw_cuda_load(g, dy + c);
            take(w, n.weight, c, 1.0f);
            if (n.add_dx)
                sw_cuda_load(old, dx + c);
            for (int k = 0; k < ROWS::W; k++) {
                const float d = rstd * (g[k] * w[k] - k1 - (v[k] - mean) * k2);
                g[k] = n.add_dx ? old[k] + d : d;
            }
            sw_cuda_store(dx + c, g);
        }
    }
}

/* Sums over rows: of dy, and of dy (x - mean) rstd. */
struct norm_columns {
    enum { N = 2 };
    row_norm n;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        const float g = n.dy[r * n.cols + c];
        v[0] = (double)g;
        v[1] = 0.0;
        if (n.dw != nullptr) {
            const float mean = n.mean != nullptr ? n.mean[r] : 0.0f;
            v[1] = (double)(g * ((n.x[r * n.cols + c] - mean) * n.rstd[r]));
        }
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        if (n.db != nullptr)
            n.db[c] = (n.add_db ? n.db[c] : 0.0f) + (float)sum[0];
        if (n.dw != nullptr)
            n.dw[c] = (n.add_dw ? n.dw[c] : 0.0f) + (float)sum[1];
    }
};

static row_norm norm_of(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    row_norm n = {};
    n.cols = s->dim[s->rank - 1];
    n.rows = sw_cuda_elements(&l->in[0].type) / n.cols;
    n.epsilon = sw_cuda_attrs<swi_norm_attrs>(l)->epsilon;
    n.x = sw_cuda_in(l, 0);
    return n;
}

static float *extra(const sw_launch *l, int i)
{
    return l->n_out > i ? sw_cuda_out(l, i) : nullptr;
}

static bool aligned(const row_norm &n)
{
    return sw_cuda_aligned(n.x) && sw_cuda_aligned(n.dy) && sw_cuda_aligned(n.weight) &&
           sw_cuda_aligned(n.bias) && sw_cuda_aligned(n.y) && sw_cuda_aligned(n.dx);
}

static sw_status norm_forward(const char *op, const sw_launch *l, int centred,
                              const sw_cuda_queue *queue)
{
    row_norm n = norm_of(l);
    n.y = sw_cuda_out(l, 0);
    n.mean_out = centred ? extra(l, 1) : nullptr;
    n.rstd_out = extra(l, centred ? 2 : 1);
    n.weight = l->n_in > 1 ? sw_cuda_in(l, 1) : nullptr;
    n.bias = l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr;
    n.centred = centred;
    if (n.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(norm_kernel, n.rows, n.cols, aligned(n), queue, n);
    return sw_cuda_launched(op);
}

/* in: x, [mean], rstd, dy; the next one is `*next`. */
static row_norm saved(const sw_launch *l, int centred, int *next)
{
    row_norm n = norm_of(l);
    n.mean = centred ? sw_cuda_in(l, 1) : nullptr;
    n.rstd = sw_cuda_in(l, 1 + centred);
    n.dy = sw_cuda_in(l, 2 + centred);
    *next = 3 + centred;
    return n;
}

static sw_status norm_backward(const char *op, const sw_launch *l, int centred,
                               const sw_cuda_queue *queue)
{
    int next;
    row_norm n = saved(l, centred, &next);
    n.weight = l->n_in > next ? sw_cuda_in(l, next) : nullptr;
    n.dx = sw_cuda_out(l, 0);
    n.add_dx = sw_cuda_adds(l, 0);
    if (n.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(norm_dx_kernel, n.rows, n.cols, aligned(n), queue, n);
    return sw_cuda_launched(op);
}

/* Of dy alone, or of what is saved. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_norm_scratch)
{
    const sw_shape *s = &info->in[0].shape;
    const int64_t cols = s->dim[s->rank - 1];
    return sw_cuda_reduce_bytes(sw_cuda_elements(&info->in[0]) / cols, cols, norm_columns::N,
                                true);
}

static sw_status columns(const char *op, const sw_launch *l, const row_norm &n,
                         const sw_cuda_queue *queue)
{
    return sw_cuda_reduce<true>(op, norm_columns{n}, n.rows, n.cols, l->scratch, queue);
}

/* out: dweight, [dbias] */
static sw_status weights(const char *op, const sw_launch *l, int centred,
                         const sw_cuda_queue *queue)
{
    int next;
    row_norm n = saved(l, centred, &next);
    n.dw = sw_cuda_out(l, 0);
    n.add_dw = sw_cuda_adds(l, 0);
    if (l->n_out > 1) {
        n.db = sw_cuda_out(l, 1);
        n.add_db = sw_cuda_adds(l, 1);
    }
    return columns(op, l, n, queue);
}

SW_CUDA_ENTRY_OF(layer_norm, forward, NULL, 0, norm_forward("layer_norm", l, 1, queue))
SW_CUDA_ENTRY_OF(layer_norm, grad0, NULL, 0, norm_backward("layer_norm", l, 1, queue))
SW_CUDA_ENTRY_OF(layer_norm, grad1, sw_cuda_norm_scratch, 0, weights("layer_norm", l, 1, queue))
/* in: dy */
SW_CUDA_ENTRY(layer_norm, grad3, sw_cuda_norm_scratch, 0)
{
    row_norm n = norm_of(l);
    n.dy = sw_cuda_in(l, 0);
    n.db = sw_cuda_out(l, 0);
    n.add_db = sw_cuda_adds(l, 0);
    return columns("layer_norm", l, n, queue);
}
SW_CUDA_ENTRY_OF(rms_norm, forward, NULL, 0, norm_forward("rms_norm", l, 0, queue))
SW_CUDA_ENTRY_OF(rms_norm, grad0, NULL, 0, norm_backward("rms_norm", l, 0, queue))
SW_CUDA_ENTRY_OF(rms_norm, grad1, sw_cuda_norm_scratch, 0, weights("rms_norm", l, 0, queue))

SW_CUDA_ENTRY_BY(layer_norm, 2, sw_cuda_layer_norm_grad1, sw_cuda_norm_scratch, 0)

/* ---- cumulative sums --------------------------------------------------------------------- */

/* Cumulative sums along an axis, in float64. Where neighbours in memory are of different lines,
 * a thread has a line, as on the CPU. Where a line is a row, a warp has it, or a block where it
 * is long: as many elements at a time as there are threads, each of which gets the sum of what
 * is before it from the others. So sums are within rounding of the CPU's, and the same in each
 * run. */

struct cumsum {
    float *y;
    const float *x;
    int64_t outer, n, inner;
    int reverse, add;
    sw_cuda_long_divisor by_inner;
};

static __device__ __forceinline__ void put(const cumsum &s, int64_t at, double sum)
{
    s.y[at] = s.add ? s.y[at] + (float)sum : (float)sum;
}

__global__ void cumsum_lines_kernel(cumsum s)
{
    const int64_t lines = s.outer * s.inner, step = s.reverse ? -s.inner : s.inner;
    for (int64_t l = sw_cuda_thread(); l < lines; l += sw_cuda_threads()) {
        int64_t at = l;
        const int64_t outer = sw_cuda_split(s.by_inner, &at);
        at += (outer * s.n + (s.reverse ? s.n - 1 : 0)) * s.inner;
        double sum = 0.0;
        for (int64_t i = 0; i < s.n; i++, at += step) {
            sum += (double)s.x[at];
            put(s, at, sum);
        }
    }
}

/* The sum of v over the threads of a row up to this one, and in *all that of all. */
template <class ROWS>
static __device__ __forceinline__ double up_to_here(double v, double *partials, double *all)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int by = 1; by < 32; by *= 2) {
        const double below = __shfl_up_sync(0xffffffffu, v, by);
        v = lane >= by ? below + v : v;
    }
    if (ROWS::G == 32) {
        *all = __shfl_sync(0xffffffffu, v, 31);
        return v;
    }
    if (lane == 31)
        partials[warp] = v;
    __syncthreads();
    double before = 0.0, sum = 0.0;
    for (int w = 0; w < ROWS::G / 32; w++) {
        before = w == warp ? sum : before;
        sum += partials[w];
    }
    __syncthreads();
    *all = sum;
    return before + v;
}

template <class ROWS> __global__ void cumsum_rows_kernel(cumsum s)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < s.outer; r += ROWS::step()) {
        double carry = 0.0, all;
        for (int64_t from = 0; from < s.n; from += ROWS::G) {
            const int64_t i = from + ROWS::lane();
            const int64_t at = r * s.n + (s.reverse ? s.n - 1 - i : i);
            const double v = i < s.n ? (double)s.x[at] : 0.0;
            const double sum = carry + up_to_here<ROWS>(v, partials, &all);
            if (i < s.n)
                put(s, at, sum);
            carry += all;
        }
    }
}

static sw_status run(const sw_launch *l, int reverse, const sw_cuda_queue *queue)
{
    const sw_shape *shape = &l->out[0].type.shape;
    const int axis = (int)sw_cuda_attrs<swi_line_attrs>(l)->axis;
    cumsum s = {sw_cuda_out(l, 0), sw_cuda_in(l, 0),   1, shape->dim[axis], 1,
                reverse,           sw_cuda_adds(l, 0), {}};
    SW_TRY(sw_cuda_all_plain("cumsum", l));
    for (int i = 0; i < axis; i++)
        s.outer *= shape->dim[i];
    for (int i = axis + 1; i < shape->rank; i++)
        s.inner *= shape->dim[i];
    s.by_inner = sw_cuda_long_divisor_of(s.inner);
    if (s.outer * s.n * s.inner == 0)
        return SW_OK;
    if (s.inner > 1) {
        SW_CUDA_LAUNCH_FOR(cumsum_lines_kernel, s.outer * s.inner, SW_CUDA_THREADS, queue, s);
    } else {
        const bool is_long = s.n > SW_CUDA_LONG_ROW;
        const auto kernel = is_long ? cumsum_rows_kernel<sw_cuda_rows<SW_CUDA_THREADS, 1>>
                                    : cumsum_rows_kernel<sw_cuda_rows<32, 1>>;
        SW_CUDA_LAUNCH_FOR(kernel, s.outer, is_long ? 1 : SW_CUDA_THREADS / 32, queue, s);
    }
    return sw_cuda_launched("cumsum");
}

SW_CUDA_ENTRY_OF(cumsum, forward, NULL, 0, run(l, 0, queue))

/* in: dy */
SW_CUDA_ENTRY_OF(cumsum, grad0, NULL, 0, run(l, 1, queue))
