/* One number of each evaluation of a batch (runtime/ops/es_gradient.c): losses, and sums and
 * maxima of all that an evaluation has. A block has an evaluation, so that all of them are one
 * launch without scratch; sums are in float64. Ops are found by name: another one is refused. A
 * label out of range makes the loss NaN. */
#include "kernels/attrs.h"
#include "kernels/cuda/ids.h"
#include "kernels/cuda/loss_terms.h"
#include <string.h>

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

/* ---- elements ---------------------------------------------------------------------------- */

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

/* ---- rows with a label ------------------------------------------------------------------- */

/* The loss of a row, for all lanes of its warp. */
static __device__ double row_loss(const each_parts &p, int64_t row, int64_t label)
{
    const float *x = p.x + row * p.cols;
    float most = -INFINITY, sum = 0.0f;
    double all = 0.0;
    for (int64_t c = threadIdx.x % 32; c < p.cols; c += 32) {
        most = sw_cuda_largest::of(most, x[c]);
        all += (double)x[c];
    }
    most = sw_cuda_warp_reduce<sw_cuda_largest>(most);
    all = sw_cuda_warp_reduce<sw_cuda_plus>(all);
    for (int64_t c = threadIdx.x % 32; c < p.cols; c += 32)
        sum += sw_expf(x[c] - most);
    sum = sw_cuda_warp_reduce<sw_cuda_plus>(sum);
    const double s = (double)p.ce.smoothing, even = s > 0.0 ? s / (double)p.cols * all : 0.0;
    if (label < 0 || label >= p.cols)
        return (double)sw_float_of(0x7fc00000u);
    return (double)sw_row_lse(most, sum) - (1.0 - s) * (double)x[label] - even;
}

/* The mean over rows that count. */
struct cross_entropy_of {
    static __device__ double of(const each_parts &p, int64_t e, double *room)
    {
        double sum = 0.0, counted = 0.0;
        FOR_ROWS(r, p)
        {
            const int64_t row = e * p.n + r, label = p.label.at(row);
            if (p.ce.has_ignore != 0 && label == p.ce.ignore)
                continue;
            const double loss = row_loss(p, row, label);
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
        return mean_run<sw_cuda_mse_term>(p, n, 0.0f, queue);
    if (is(a, "bce"))
        return mean_run<sw_cuda_bce_term>(p, n, number, queue);
    if (is(a, "bce_with"))
        return mean_run<sw_cuda_bce_term>(p, n, 0.0f, queue);
    if (is(a, "huber"))
        return mean_run<sw_cuda_huber_term>(p, n, number, queue);
    if (is(a, "l1"))
        return mean_run<sw_cuda_l1_term>(p, n, 0.0f, queue);
    if (is(a, "kl_div"))
        return mean_run<sw_cuda_kl_div_term>(p, (double)rows, 0.0f, queue);
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
                             : each_run<cross_entropy_of>(p, true, queue);
}
