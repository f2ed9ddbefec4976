/* Losses and accuracy: scalars by sums in one order, and their gradients. dy is read on the
 * device. A label out of range makes the loss NaN: a kernel cannot refuse it. */
#include "kernels/attrs.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/ids.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/scalar.h"
#include <string.h>

/* ---- terms, and the best of a row -------------------------------------------------------- */

/* x, t: an element and its target; p: the loss's number. */
#define TERM(name, value)                                                                      \
    struct name##_term {                                                                       \
        static __device__ double of(float x, float t, [[maybe_unused]] float p)                \
        {                                                                                      \
            return value;                                                                      \
        }                                                                                      \
    };
TERM(mse, (double)(x - t) * (double)(x - t))
TERM(bce, (double)sw_bce_value(x, t))
TERM(huber, (double)sw_huber_value(x, t, p))
TERM(l1, (double)sw_absf(x - t))
TERM(kl_div, (double)sw_kl_value(x, t))

/* A position and its number; the larger number wins, a NaN above all, the first of equals. */
struct sw_cuda_best {
    float x;
    int at;
};
static __device__ __forceinline__ sw_cuda_best sw_cuda_better(sw_cuda_best a, sw_cuda_best b)
{
    const bool equal = b.x == a.x || (b.x != b.x && a.x != a.x);
    return sw_wins(b.x, a.x) || (equal && b.at < a.at) ? b : a;
}

/* Its position, for all lanes of a warp; they begin with the first element. */
static __device__ __forceinline__ int sw_cuda_best_of_row(const float *x, int64_t cols)
{
    sw_cuda_best v = {x[0], 0};
    for (int64_t c = threadIdx.x % 32; c < cols; c += 32)
        v = sw_cuda_better(v, sw_cuda_best{x[c], (int)c});
    for (int by = 16; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v.x, by);
        const int at = __shfl_xor_sync(0xffffffffu, v.at, by);
        v = sw_cuda_better(v, sw_cuda_best{other, at});
    }
    return v.at;
}

static float number_of(const sw_launch *l)
{
    return sw_cuda_attrs<swi_number_attrs>(l)->value;
}

/* ---- losses of pairs --------------------------------------------------------------------- */

/* The sum of the terms by `share`. t NULL: the target is p. */
template <class TERM> struct elementwise_sum {
    enum { N = 1 };
    const float *x, *t;
    float *y;
    float p;
    double share;
    __device__ void term(int64_t r, int64_t, double (&v)[N]) const
    {
        v[0] = TERM::of(x[r], t != nullptr ? t[r] : p, p);
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        *y = (float)(sum[0] / share);
    }
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_loss_scratch)
{
    return sw_cuda_reduce_bytes(sw_cuda_elements(&info->in[0]), 1, 1, false);
}

template <class TERM>
static sw_status elementwise_run(const char *op, const sw_launch *l, float p, double share,
                                 const sw_cuda_queue *queue)
{
    const elementwise_sum<TERM> f = {sw_cuda_in(l, 0), l->n_in > 1 ? sw_cuda_in(l, 1) : nullptr,
                                     sw_cuda_out(l, 0), p, share};
    return sw_cuda_reduce<false>(op, f, sw_cuda_elements(&l->in[0].type), 1, l->scratch, queue);
}

/* Elements; for the divergence the rows of a batch. */
static double elements_of(const sw_launch *l)
{
    return (double)sw_cuda_elements(&l->in[0].type);
}
static double rows_in(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    return s->rank > 0 ? (double)s->dim[0] : 1.0;
}

/* ---- gradients of pairs ------------------------------------------------------------------ */

/* The factor of all elements: `by` dy / share, rounded as on the CPU. */
struct share_of_dy {
    const float *dy;
    double by, share;
    __device__ float factor(void) const
    {
        return (float)(by * (double)*dy / share);
    }
};

#define SLOPE(name, value)                                                                     \
    struct name##_slope {                                                                      \
        share_of_dy s;                                                                         \
        float p;                                                                               \
        __device__ float operator()(float x, [[maybe_unused]] float t) const                   \
        {                                                                                      \
            return value;                                                                      \
        }                                                                                      \
    };
SLOPE(difference, (x - t) * s.factor())
SLOPE(bce, (sw_sigmoidf(x) - p) * s.factor())
SLOPE(bce_with, (sw_sigmoidf(x) - t) * s.factor())
SLOPE(times, s.factor() * x)
SLOPE(huber, s.factor() * sw_between(x - t, -p, p))
SLOPE(l1, s.factor() * sw_signf(x - t))
SLOPE(kl_div, s.factor() * sw_kl_slope(x, t))

/* in: INPUTS tensors, dy; swap: the second tensor is the first of the difference. */
template <int INPUTS, class SLOPE>
static sw_status slope_run(const char *op, const sw_launch *l, double by, double share, float p,
                           int swap, const sw_cuda_queue *queue)
{
    const SLOPE f = {{sw_cuda_in(l, INPUTS), by, share}, p};
    const float *b = INPUTS > 1 ? sw_cuda_in(l, !swap) : nullptr;
    return sw_cuda_elementwise_run<INPUTS>(op, f, sw_cuda_out(l, 0), sw_cuda_in(l, swap), b,
                                           sw_cuda_elements(&l->in[0].type), sw_cuda_adds(l, 0),
                                           queue);
}

#define LOSS(op, term, p, share) elementwise_run<term>(#op, l, p, share, queue)
#define SLOPES(op, inputs, slope, by, share, p, swap)                                          \
    slope_run<inputs, slope>(#op, l, by, share, p, swap, queue)

SW_CUDA_ENTRY_OF(mse, forward, sw_cuda_loss_scratch, 0,
                 LOSS(mse, mse_term, 0.0f, elements_of(l)))
SW_CUDA_ENTRY_OF(mse, grad0, NULL, 1,
                 SLOPES(mse, 2, difference_slope, 2.0, elements_of(l), 0.0f, 0))
SW_CUDA_ENTRY_OF(mse, grad1, NULL, 1,
                 SLOPES(mse, 2, difference_slope, 2.0, elements_of(l), 0.0f, 1))
SW_CUDA_ENTRY_OF(bce, forward, sw_cuda_loss_scratch, 0,
                 LOSS(bce, bce_term, number_of(l), elements_of(l)))
SW_CUDA_ENTRY_OF(bce, grad0, NULL, 1,
                 SLOPES(bce, 1, bce_slope, 1.0, elements_of(l), number_of(l), 0))
SW_CUDA_ENTRY_OF(bce_with, forward, sw_cuda_loss_scratch, 0,
                 LOSS(bce_with, bce_term, 0.0f, elements_of(l)))
SW_CUDA_ENTRY_OF(bce_with, grad0, NULL, 1,
                 SLOPES(bce_with, 2, bce_with_slope, 1.0, elements_of(l), 0.0f, 0))
SW_CUDA_ENTRY_OF(bce_with, grad1, NULL, 1,
                 SLOPES(bce_with, 1, times_slope, -1.0, elements_of(l), 0.0f, 0))
SW_CUDA_ENTRY_OF(huber, forward, sw_cuda_loss_scratch, 0,
                 LOSS(huber, huber_term, number_of(l), elements_of(l)))
SW_CUDA_ENTRY_OF(huber, grad0, NULL, 1,
                 SLOPES(huber, 2, huber_slope, 1.0, elements_of(l), number_of(l), 0))
SW_CUDA_ENTRY_OF(huber, grad1, NULL, 1,
                 SLOPES(huber, 2, huber_slope, 1.0, elements_of(l), number_of(l), 1))
SW_CUDA_ENTRY_OF(l1, forward, sw_cuda_loss_scratch, 0, LOSS(l1, l1_term, 0.0f, elements_of(l)))
SW_CUDA_ENTRY_OF(l1, grad0, NULL, 1, SLOPES(l1, 2, l1_slope, 1.0, elements_of(l), 0.0f, 0))
SW_CUDA_ENTRY_OF(l1, grad1, NULL, 1, SLOPES(l1, 2, l1_slope, 1.0, elements_of(l), 0.0f, 1))
SW_CUDA_ENTRY_OF(kl_div, forward, sw_cuda_loss_scratch, 0,
                 LOSS(kl_div, kl_div_term, 0.0f, rows_in(l)))
SW_CUDA_ENTRY_OF(kl_div, grad0, NULL, 1,
                 SLOPES(kl_div, 1, times_slope, -1.0, rows_in(l), 0.0f, 0))
SW_CUDA_ENTRY_OF(kl_div, grad1, NULL, 1,
                 SLOPES(kl_div, 2, kl_div_slope, 1.0, rows_in(l), 0.0f, 0))

/* ---- rows with a label ------------------------------------------------------------------- */

/* The loss of a row that is read once, for all its threads, and the logarithm of the sum of its
 * exponentials. */
template <class ROWS>
static __device__ double row_loss(const float *x, int64_t label, int64_t cols, double smoothing,
                                  float *partials, double *wide_room, float *lse)
{
    sw_cuda_exponentials row = SW_CUDA_NO_EXPONENTIALS;
    double all = 0.0;
    sw_cuda_walk<ROWS, 4>(x, cols, [&](auto groups, int64_t c) {
        float v[groups.N][groups.W];
        sw_cuda_load_groups<ROWS>(v, x + c);
        row.add(v);
        for (int k = 0; k < groups.N * groups.W && smoothing > 0.0; k++)
            all += (double)v[k / groups.W][k % groups.W];
    });
    row.template join<ROWS>(partials);
    if (smoothing > 0.0)
        all = smoothing / (double)cols * ROWS::template reduce<sw_cuda_plus>(all, wide_room);
    *lse = sw_row_lse(row.most, row.sum);
    if (label < 0 || label >= cols)
        return (double)sw_float_of(0x7fc00000u);
    return (double)*lse - (1.0 - smoothing) * (double)x[label] - all;
}

template <class ROWS> __global__ void cross_entropy_kernel(sw_cuda_ce e)
{
    SW_SHARED(float, partials, 32);
    SW_SHARED(double, wide_room, 32);
    for (int64_t r = ROWS::first(); r < e.rows; r += ROWS::step()) {
        const int64_t label = e.label.at(r);
        float lse;
        const double loss = row_loss<ROWS>(e.x + r * e.step, label, e.cols, (double)e.smoothing,
                                           partials, wide_room, &lse);
        if (ROWS::lane() != 0)
            continue;
        e.row_loss[r] = e.ignored(label) ? 0.0 : loss;
        if (e.lse_out != nullptr)
            e.lse_out[r] = lse;
    }
}

/* Of the rows: their losses, and how many count; the mean, or the count alone. */
struct row_mean {
    enum { N = 2 };
    sw_cuda_ce e;
    float *y;
    double *counted;
    __device__ void term(int64_t r, int64_t, double (&v)[N]) const
    {
        v[0] = y != nullptr ? e.row_loss[r] : 0.0;
        v[1] = e.ignored(e.label.at(r)) ? 0.0 : 1.0;
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        if (y != nullptr)
            *y = sum[1] > 0.0 ? (float)(sum[0] / sum[1]) : 0.0f;
        if (counted != nullptr)
            *counted = sum[1];
    }
};

template <class ROWS> __global__ void cross_entropy_dx_kernel(sw_cuda_ce e)
{
    const float n = (float)(e.counted != nullptr ? *e.counted : (double)e.rows);
    const float factor = n > 0.0f ? (e.dy != nullptr ? *e.dy : 1.0f) / n : 0.0f;
    const float on = 1.0f - e.smoothing, off = e.smoothing / (float)e.cols;
    for (int64_t r = ROWS::first(); r < e.rows; r += ROWS::step()) {
        const int64_t label = e.label.at(r), at = r * e.step;
        const bool ignored = e.ignored(label);
        const float lse = e.lse[r];
        sw_cuda_walk<ROWS, 2>(e.x + at, e.cols, [&](auto groups, int64_t c) {
            constexpr int W = decltype(groups)::W;
            float v[groups.N][W], old[groups.N][W];
            sw_cuda_load_groups<ROWS>(v, e.x + at + c);
            if (e.add)
                sw_cuda_load_groups<ROWS>(old, e.dx + at + c);
            for (int i = 0; i < groups.N; i++, c += ROWS::G * W) {
                const int hit = label >= c && label < c + W ? (int)(label - c) : -1;
                for (int k = 0; k < W; k++) {
                    v[i][k] = (sw_expf(v[i][k] - lse) - off - (k == hit ? on : 0.0f)) * factor;
                    v[i][k] = ignored ? 0.0f : v[i][k];
                }
                for (int k = 0; k < W && e.add; k++)
                    v[i][k] = old[i][k] + v[i][k];
                sw_cuda_store(e.dx + at + c, v[i]);
            }
        });
        for (int64_t c = e.cols + ROWS::lane(); c < e.step; c += ROWS::G)
            e.dx[at + c] = 0.0f;
    }
}

void sw_cuda_ce_rows(const sw_cuda_ce &e, const sw_cuda_queue *queue)
{
    const bool is_long = e.cols > SW_CUDA_LONG_ROW;
    const auto kernel = is_long ? cross_entropy_kernel<sw_cuda_rows<SW_CUDA_THREADS, 4>>
                                : cross_entropy_kernel<sw_cuda_rows<32, 4>>;
    SW_CUDA_LAUNCH_FOR(kernel, e.rows, is_long ? 1 : SW_CUDA_THREADS / 32, queue, e);
}

/* Rows of x and dx begin at addresses of one kind, or none is read in fours. */
void sw_cuda_ce_dx(const sw_cuda_ce &e, const sw_cuda_queue *queue)
{
    SW_CUDA_LAUNCH_ROWS_BY(
        cross_entropy_dx_kernel, e.rows, e.cols,
        (reinterpret_cast<uintptr_t>(e.x) - reinterpret_cast<uintptr_t>(e.dx)) % 16 == 0, queue,
        e);
}

sw_status sw_cuda_ce_mean(const char *op, const sw_cuda_ce &e, float *y, double *counted,
                          void *scratch, const sw_cuda_queue *queue)
{
    return sw_cuda_reduce<false>(op, row_mean{e, y, counted}, e.rows, 1, scratch, queue);
}

size_t sw_cuda_ce_mean_bytes(int64_t rows)
{
    return sw_cuda_reduce_bytes(rows, 1, row_mean::N, false);
}

static sw_cuda_ce loss_cross_entropy_of(const sw_launch *l)
{
    const swi_ce_attrs *a = sw_cuda_attrs<swi_ce_attrs>(l);
    const sw_shape *s = &l->in[0].type.shape;
    sw_cuda_ce e = {};
    e.x = sw_cuda_in(l, 0);
    e.label = sw_cuda_ids_in(l, 1);
    e.rows = s->dim[0];
    e.cols = e.step = s->dim[1];
    e.smoothing = a->smoothing;
    e.has_ignore = a->has_ignore;
    e.ignore = a->ignore;
    return e;
}

/* Losses of the rows, then what their sum wants; backward the count before that. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_softmax_ce_scratch)
{
    const int64_t rows = info->in[0].shape.dim[0];
    return (size_t)rows * sizeof(double) + sw_cuda_ce_mean_bytes(rows);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_softmax_ce_dx_scratch)
{
    return sizeof(double) + sw_cuda_ce_mean_bytes(info->in[0].shape.dim[0]);
}

SW_CUDA_ENTRY(softmax_ce, forward, sw_cuda_softmax_ce_scratch, 0)
{
    sw_cuda_ce e = loss_cross_entropy_of(l);
    e.lse_out = l->n_out > 1 ? sw_cuda_out(l, 1) : nullptr;
    e.row_loss = static_cast<double *>(l->scratch);
    sw_cuda_ce_rows(e, queue);
    return sw_cuda_ce_mean("softmax_ce", e, sw_cuda_out(l, 0), nullptr, e.row_loss + e.rows,
                           queue);
}

/* in: logits, labels, lse, dy */
SW_CUDA_ENTRY(softmax_ce, grad0, sw_cuda_softmax_ce_dx_scratch, 1)
{
    sw_cuda_ce e = loss_cross_entropy_of(l);
    double *counted = static_cast<double *>(l->scratch);
    e.lse = sw_cuda_in(l, 2);
    e.dy = sw_cuda_in(l, 3);
    e.dx = sw_cuda_out(l, 0);
    e.add = sw_cuda_adds(l, 0);
    if (e.has_ignore != 0) {
        SW_TRY(sw_cuda_ce_mean("softmax_ce", e, nullptr, counted, counted + 1, queue));
        e.counted = counted;
    }
    sw_cuda_ce_dx(e, queue);
    return sw_cuda_launched("softmax_ce");
}

/* ---- accuracy ---------------------------------------------------------------------------- */

/* A warp for each row. */
__global__ void hits_kernel(double *hits, const float *x, sw_cuda_ids label, int64_t rows,
                            int64_t cols)
{
    const int lane = (int)threadIdx.x % 32;
    for (int64_t r = sw_cuda_thread() / 32; r < rows; r += sw_cuda_threads() / 32) {
        const int at = sw_cuda_best_of_row(x + r * cols, cols);
        if (lane == 0)
            hits[r] = at == label.at(r) ? 1.0 : 0.0;
    }
}

struct hit_share {
    enum { N = 1 };
    const double *hits;
    float *y;
    double rows;
    __device__ void term(int64_t r, int64_t, double (&v)[N]) const
    {
        v[0] = hits[r];
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        *y = (float)(sum[0] / rows);
    }
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_accuracy_scratch)
{
    const int64_t rows = info->in[0].shape.dim[0];
    return (size_t)rows * sizeof(double) + sw_cuda_reduce_bytes(rows, 1, hit_share::N, false);
}

SW_CUDA_ENTRY(accuracy, forward, sw_cuda_accuracy_scratch, 1)
{
    const sw_shape *s = &l->in[0].type.shape;
    double *hits = static_cast<double *>(l->scratch);
    SW_CUDA_LAUNCH_FOR(hits_kernel, s->dim[0], SW_CUDA_THREADS / 32, queue, hits,
                       sw_cuda_in(l, 0), sw_cuda_ids_in(l, 1), s->dim[0], s->dim[1]);
    return sw_cuda_reduce<false>("accuracy",
                                 hit_share{hits, sw_cuda_out(l, 0), (double)s->dim[0]},
                                 s->dim[0], 1, hits + s->dim[0], queue);
}

/* ---- each evaluation --------------------------------------------------------------------- */

/* One number of each evaluation of a batch (runtime/ops/es_gradient.c): losses, and sums and
 * maxima of all that an evaluation has. A block has an evaluation, so that all of them are one
 * launch without scratch; sums are in float64. Ops are found by name: another one is refused. A
 * label out of range makes the loss NaN. */

/* y (evaluations) of `n` elements, or rows, each. */
struct each_parts {
    const float *x, *t; /* t NULL: there is none */
    float *y;
    int64_t evaluations, n, cols;
    double share; /* elementwise: what the sum is divided by */
    float number;
    sw_cuda_ids label;
    swi_ce_attrs ce;
    int add;
};

static __device__ __forceinline__ void put(const each_parts &p, int64_t e, double v)
{
    if (threadIdx.x == 0)
        p.y[e] = p.add ? p.y[e] + (float)v : (float)v;
}

/* A row has a warp. */
#define FOR_ROWS(r, p) for (int64_t r = threadIdx.x / 32; r < (p).n; r += blockDim.x / 32)

template <class TERM> struct mean_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        double sum = 0.0;
        for (int64_t i = e * p.n + threadIdx.x; i < (e + 1) * p.n; i += blockDim.x)
            sum += TERM::of(p.x[i], p.t != nullptr ? p.t[i] : p.number, p.number);
        return sw_cuda_block_reduce<sw_cuda_plus>(sum, room) / p.share;
    }
};

/* Of all elements, times `share`. */
struct sum_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        double sum = 0.0;
        for (int64_t i = e * p.n + threadIdx.x; i < (e + 1) * p.n; i += blockDim.x)
            sum += (double)p.x[i];
        return sw_cuda_block_reduce<sw_cuda_plus>(sum, room) * p.share;
    }
};

struct max_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        float most = -INFINITY;
        for (int64_t i = e * p.n + threadIdx.x; i < (e + 1) * p.n; i += blockDim.x)
            most = sw_cuda_largest::of(most, p.x[i]);
        return (double)sw_cuda_block_reduce<sw_cuda_largest>(
            most, static_cast<float *>(static_cast<void *>(room)));
    }
};

/* The mean over rows that count. */
struct each_cross_entropy_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        double sum = 0.0, counted = 0.0;
        FOR_ROWS(r, p)
        {
            const int64_t row = e * p.n + r, label = p.label.at(row);
            if (p.ce.has_ignore != 0 && label == p.ce.ignore)
                continue;
            float lse;
            const double loss =
                row_loss<sw_cuda_rows<32, 4>>(p.x + row * p.cols, label, p.cols,
                                              (double)p.ce.smoothing, nullptr, nullptr, &lse);
            sum += threadIdx.x % 32 == 0 ? loss : 0.0;
            counted += threadIdx.x % 32 == 0 ? 1.0 : 0.0;
        }
        sum = sw_cuda_block_reduce<sw_cuda_plus>(sum, room);
        counted = sw_cuda_block_reduce<sw_cuda_plus>(counted, room);
        return counted > 0.0 ? sum / counted : 0.0;
    }
};

struct hits_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        double sum = 0.0;
        FOR_ROWS(r, p)
        {
            const int64_t row = e * p.n + r;
            const int at = sw_cuda_best_of_row(p.x + row * p.cols, p.cols);
            sum += threadIdx.x % 32 == 0 && at == p.label.at(row) ? 1.0 : 0.0;
        }
        return sw_cuda_block_reduce<sw_cuda_plus>(sum, room) / (double)p.n;
    }
};

/* ---- entry ------------------------------------------------------------------------------- */

template <class F> __global__ void each_kernel(each_parts p)
{
    SW_SHARED(double, room, 32);
    for (int64_t e = blockIdx.x; e < p.evaluations; e += gridDim.x)
        put(p, e, F::of(p, e, room));
}

/* rows: a warp has a row, else a thread an element. */
template <class F>
static sw_status each_run(const each_parts &p, bool rows, const sw_cuda_queue *queue)
{
    const auto kernel = each_kernel<F>;
    const int64_t warps = rows ? p.n : (p.n + 31) / 32, most = SW_CUDA_THREADS / 32;
    const unsigned threads = 32u * (unsigned)(warps < 1 ? 1 : warps > most ? most : warps);
    if (p.evaluations == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_blocks(p.evaluations, 1), threads, 0, queue, p);
    return sw_cuda_launched("each");
}

template <class TERM>
static sw_status mean_run(each_parts p, double share, float number, const sw_cuda_queue *queue)
{
    p.share = share;
    p.number = number;
    return each_run<mean_of<TERM>>(p, false, queue);
}

static bool is(const swi_each_attrs *a, const char *op)
{
    return strcmp(a->name, op) == 0;
}

static sw_status pairs_run(const each_parts &p, const swi_each_attrs *a, int64_t rows,
                           const sw_cuda_queue *queue)
{
    const double n = (double)p.n;
    float number;
    memcpy(&number, a->attrs, sizeof number);
    if (is(a, "mse"))
        return mean_run<mse_term>(p, n, 0.0f, queue);
    if (is(a, "bce"))
        return mean_run<bce_term>(p, n, number, queue);
    if (is(a, "bce_with"))
        return mean_run<bce_term>(p, n, 0.0f, queue);
    if (is(a, "huber"))
        return mean_run<huber_term>(p, n, number, queue);
    if (is(a, "l1"))
        return mean_run<l1_term>(p, n, 0.0f, queue);
    if (is(a, "kl_div"))
        return mean_run<kl_div_term>(p, (double)rows, 0.0f, queue);
    return sw_cuda_its_host.fail(SW_UNSUPPORTED, __FILE__, __LINE__,
                                 "each: this device has no kernel for %s of each evaluation",
                                 a->name);
}

SW_CUDA_ENTRY(each, forward, NULL, 0)
{
    const swi_each_attrs *a = sw_cuda_attrs<swi_each_attrs>(l);
    const sw_shape *s = &l->in[0].type.shape;
    each_parts p = {};
    SW_TRY(sw_cuda_all_plain("each", l));
    p.x = sw_cuda_in(l, 0);
    p.t = l->n_in > 1 ? sw_cuda_in(l, 1) : nullptr;
    p.y = sw_cuda_out(l, 0);
    p.add = sw_cuda_adds(l, 0);
    p.evaluations = a->evaluations;
    p.n = sw_cuda_elements(&l->in[0].type) / a->evaluations;
    if (is(a, "sum")) {
        swi_sum_attrs sum;
        memcpy(&sum, a->attrs, sizeof sum);
        p.share = sum.scale;
        return each_run<sum_of>(p, false, queue);
    }
    if (is(a, "max"))
        return each_run<max_of>(p, false, queue);
    const int64_t rows = s->dim[0] / a->evaluations;
    if (!is(a, "softmax_ce") && !is(a, "accuracy"))
        return pairs_run(p, a, rows, queue);
    p.label = sw_cuda_ids_in(l, 1);
    p.n = rows;
    p.cols = s->dim[1];
    memcpy(&p.ce, a->attrs, sizeof p.ce);
    return is(a, "accuracy") ? each_run<hits_of>(p, true, queue)
                             : each_run<each_cross_entropy_of>(p, true, queue);
}
