/* Functions of one number and their gradients (kernels/unary.def, kernels/scalar.h), and those
 * that keep codes of one or two bits for each element (the layout of kernels/pointwise.h). */
#include "kernels/attrs.h"
#include "kernels/cuda/unary_values.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/group.h"

static float number_of(const sw_launch *l)
{
    return l->attrs != nullptr ? sw_cuda_attrs<swi_number_attrs>(l)->value : 0.0f;
}

/* ---- codes ------------------------------------------------------------------------------- */

template <int W, class F>
static __device__ __forceinline__ unsigned coded_at(const sw_cuda_numbers &y,
                                                    const sw_cuda_numbers &x, int64_t i, F f)
{
    float v[W];
    unsigned codes = 0;
    sw_cuda_load(v, x, i);
    for (int k = 0; k < W; k++) {
        codes |= f.code(v[k]) << (int)F::bits * k;
        v[k] = f.value(v[k]);
    }
    sw_cuda_store(y, i, v);
    return codes;
}

/* A thread makes one byte of codes, and the elements that it is about. */
template <class F>
__global__ void coded_kernel(sw_cuda_numbers y, uint8_t *codes, sw_cuda_numbers x, int64_t n,
                             int wide, F f)
{
    constexpr int per = 8 / (int)F::bits;
    for (int64_t at = sw_cuda_thread(); at < (n + per - 1) / per; at += sw_cuda_threads()) {
        const int64_t from = at * per;
        const int here = n - from < per ? (int)(n - from) : per;
        unsigned byte = 0;
        if (wide && here == per)
            for (int k = 0; k < per; k += 4)
                byte |= coded_at<4>(y, x, from + k, f) << (int)F::bits * k;
        else
            for (int k = 0; k < here; k++)
                byte |= coded_at<1>(y, x, from + k, f) << (int)F::bits * k;
        if (codes != nullptr)
            codes[at] = (uint8_t)byte;
    }
}

template <class F>
__global__ void coded_dx_kernel(sw_cuda_numbers dx, sw_cuda_numbers dy, const uint8_t *codes,
                                int64_t n, int add, F f)
{
    constexpr int per = 8 / (int)F::bits;
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        const unsigned code = codes[i / per] >> F::bits * (i % per) & ((1u << F::bits) - 1u);
        float g[1], was[1];
        sw_cuda_load(g, dy, i);
        g[0] = f.slope(g[0], code);
        if (add) {
            sw_cuda_load(was, dx, i);
            g[0] = was[0] + g[0];
        }
        sw_cuda_store(dx, i, g);
    }
}

template <class F>
static sw_status coded_run(const char *op, const sw_launch *l, const sw_cuda_queue *queue, F f)
{
    const int64_t n = sw_cuda_elements(&l->in[0].type);
    const auto coded = coded_kernel<F>;
    uint8_t *codes = l->n_out > 1 ? static_cast<uint8_t *>(l->out[1].ptr) : nullptr;
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(coded, n, SW_CUDA_THREADS * 8 / F::bits, queue, l->out[0], codes,
                       l->in[0], n,
                       sw_cuda_aligned(l->in[0].ptr) && sw_cuda_aligned(l->out[0].ptr), f);
    return sw_cuda_launched(op);
}

/* in: codes, dy */
template <class F>
static sw_status coded_dx_run(const char *op, const sw_launch *l, const sw_cuda_queue *queue,
                              F f)
{
    const int64_t n = sw_cuda_elements(&l->out[0].type);
    const auto coded_dx = coded_dx_kernel<F>;
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(coded_dx, n, SW_CUDA_THREADS, queue, l->out[0], l->in[1],
                       static_cast<const uint8_t *>(l->in[0].ptr), n, sw_cuda_adds(l, 0), f);
    return sw_cuda_launched(op);
}

/* ---- curves ------------------------------------------------------------------------------ */

/* Values of x without codes, and gradients of what is saved, x, and dy: also both in one
 * launch, for a value that is recomputed. */
struct curve {
    sw_cuda_numbers y, x, dy; /* dy.p NULL: a value */
    int64_t n;
    int add, wide;
    template <class X> __device__ sw_cuda_elementwise<X> of(X to, X a, X b) const
    {
        return sw_cuda_elementwise<X>{to, a, b, n, add, wide};
    }
};
struct curve_number {
    float P;
};

template <int ROWS, class VALUE, class SLOPE>
__global__ void __launch_bounds__(SW_CUDA_THREADS, 4)
    curves_kernel(sw_cuda_table<curve_number, curve, ROWS> t)
{
    const sw_cuda_place at = sw_cuda_place_in(t);
    const curve c = t.row[at.row];
    const VALUE value = {t.all.P};
    const SLOPE slope = {t.all.P};
    const bool halves = c.y.half || c.x.half || c.dy.half;
    if (c.dy.p == nullptr && halves)
        sw_cuda_elementwise_all<1>(c.of(c.y, c.x, c.x), value, at.thread, at.threads);
    else if (c.dy.p == nullptr)
        sw_cuda_elementwise_all<1>(c.of<sw_cuda_floats>({c.y.p}, {c.x.p}, {c.x.p}), value,
                                   at.thread, at.threads);
    else if (halves)
        sw_cuda_elementwise_all<2>(c.of(c.y, c.dy, c.x), slope, at.thread, at.threads);
    else
        sw_cuda_elementwise_all<2>(c.of<sw_cuda_floats>({c.y.p}, {c.dy.p}, {c.x.p}), slope,
                                   at.thread, at.threads);
}

/* One alone has a kernel of its own. */
template <class VALUE, class SLOPE> struct curves_launch {
    static void launch(const sw_cuda_table<curve_number, curve, 1> &t, unsigned,
                       const sw_cuda_queue *queue)
    {
        const curve &c = t.row[0];
        if (c.dy.p == nullptr)
            sw_cuda_elementwise_launch<1>(VALUE{t.all.P}, c.y, c.x, nullptr, c.n, c.add, queue);
        else
            sw_cuda_elementwise_launch<2>(SLOPE{t.all.P}, c.y, c.dy, c.x, c.n, c.add, queue);
    }
    template <int ROWS>
    static void launch(const sw_cuda_table<curve_number, curve, ROWS> &t, unsigned blocks,
                       const sw_cuda_queue *queue)
    {
        const auto kernel = curves_kernel<ROWS, VALUE, SLOPE>;
        SW_CUDA_LAUNCH(kernel, blocks, SW_CUDA_THREADS, 0, queue, t);
    }
};

template <class VALUE, class SLOPE>
static sw_status curve_run(const char *op, const sw_launch *l, bool slope,
                           const sw_cuda_queue *queue)
{
    curve c;
    memset(static_cast<void *>(&c), 0, sizeof c);
    c.y = l->out[0];
    c.x = l->in[0];
    c.dy = slope ? sw_cuda_numbers(l->in[1]) : sw_cuda_numbers(nullptr);
    c.n = sw_cuda_elements(&l->out[0].type);
    c.add = slope ? sw_cuda_adds(l, 0) : 0;
    c.wide = sw_cuda_aligned(c.y.p) && sw_cuda_aligned(c.x.p) && sw_cuda_aligned(c.dy.p);
    const unsigned blocks = c.n > 0 ? sw_cuda_blocks(c.n, 4 * SW_CUDA_THREADS) : 0;
    return sw_cuda_group_add<curves_launch<VALUE, SLOPE>>(op, curve_number{number_of(l)}, c,
                                                          blocks, queue);
}

#define CURVE_RUNS(id, gradient)                                                               \
    struct id##_slope {                                                                        \
        float P;                                                                               \
        __device__ float operator()(float DY, float S) const                                   \
        {                                                                                      \
            (void)P;                                                                           \
            return gradient;                                                                   \
        }                                                                                      \
    };                                                                                         \
    static sw_status id##_run(const sw_launch *l, bool slope, const sw_cuda_queue *queue)      \
    {                                                                                          \
        return curve_run<id##_value, id##_slope>(#id, l, slope, queue);                        \
    }
/* The entries of all but those that have bits. */
#define SW_UNARY(id, call, keeps, layout, draws, cost, slope_cost, value_, gradient, ref)      \
    CURVE_RUNS(id, gradient)                                                                   \
    SW_CUDA_ENTRY_OF(id, forward, NULL, 2, id##_run(l, false, queue))                          \
    SW_CUDA_ENTRY_OF(id, grad0, NULL, 2, id##_run(l, true, queue))
#define SW_BENT(id, call, keeps, layout, draws, cost, slope_cost, value_, gradient, ref)       \
    CURVE_RUNS(id, gradient)
#include "kernels/unary.def"

/* ---- relu and leaky relu: a bit, or the output ------------------------------------------- */

struct bend {
    enum { bits = 1 };
    float low; /* slope below 0 */
};
struct relu_bits : bend {
    __device__ unsigned code(float x) const
    {
        return !(x <= 0.0f);
    }
    __device__ float value(float x) const
    {
        return sw_relu_value(x);
    }
    __device__ float slope(float dy, unsigned bit) const
    {
        return sw_where_set(dy, bit);
    }
};
struct leaky_relu_bits : bend {
    __device__ unsigned code(float x) const
    {
        return x > 0.0f;
    }
    __device__ float value(float x) const
    {
        return x > 0.0f ? x : low * x;
    }
    __device__ float slope(float dy, unsigned bit) const
    {
        return bit != 0 ? dy : low * dy;
    }
};

#define BENT(id)                                                                               \
    SW_CUDA_ENTRY_OF(id, forward, NULL, 2,                                                     \
                     l->n_out < 2 || l->out[1].ptr == nullptr                                  \
                         ? id##_run(l, false, queue)                                           \
                         : coded_run(#id, l, queue, id##_bits{{number_of(l)}}))                \
    SW_CUDA_ENTRY_OF(id, grad0, NULL, 2, id##_run(l, true, queue))                             \
    SW_CUDA_ENTRY_OF(id, grad1, NULL, 2, coded_dx_run(#id, l, queue, id##_bits{{number_of(l)}}))
BENT(relu)
BENT(leaky_relu)

/* ---- abs, clamp -------------------------------------------------------------------------- */

struct abs_codes {
    enum { bits = 2 };
    __device__ unsigned code(float x) const
    {
        return sw_sign_code(x);
    }
    __device__ float value(float x) const
    {
        return sw_absf(x);
    }
    __device__ float slope(float dy, unsigned code) const
    {
        return sw_signed_by(dy, code);
    }
};
struct clamp_codes {
    enum { bits = 1 };
    float low, high;
    __device__ unsigned code(float x) const
    {
        return x >= low && x <= high;
    }
    __device__ float value(float x) const
    {
        return sw_between(x, low, high);
    }
    __device__ float slope(float dy, unsigned bit) const
    {
        return sw_where_set(dy, bit);
    }
};
static clamp_codes clamp_of(const sw_launch *l)
{
    const swi_range_attrs *a = sw_cuda_attrs<swi_range_attrs>(l);
    return clamp_codes{a->low, a->high};
}

SW_CUDA_ENTRY_OF(abs, forward, NULL, 2, coded_run("abs", l, queue, abs_codes{}))
SW_CUDA_ENTRY_OF(abs, grad0, NULL, 2, coded_dx_run("abs", l, queue, abs_codes{}))
SW_CUDA_ENTRY_OF(clamp, forward, NULL, 2, coded_run("clamp", l, queue, clamp_of(l)))
SW_CUDA_ENTRY_OF(clamp, grad0, NULL, 2, coded_dx_run("clamp", l, queue, clamp_of(l)))
