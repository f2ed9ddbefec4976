/* Tensors of planes, (outer, planes, inner): plane c is its positions in all of outer. Sums
 * over each plane, and loops over all elements with what belongs to their plane. The position
 * of an element is followed by steps, without divisions. Four elements at a time where planes
 * begin at addresses that allow it.
 *
 * A struct F of sums has
 *
 *   N                              how many sums each plane has
 *   add<W>(at, c, double (&)[N])   adds the W elements at position `at`, which are of plane c
 *   put(c, const double (&)[N])    what becomes of the sums of c
 *
 * and one of elements at<W>(position, c). */
#pragma once

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

struct sw_cuda_plane_shape {
    int64_t outer, n, inner; /* n planes */
};

/* Of an image (batch, channels, ...): channels, or groups of each image, or both. */
static inline sw_cuda_plane_shape sw_cuda_planes_of(int64_t outer, int64_t n, int64_t inner)
{
    if (inner < 1) /* no elements, but sums of them */
        return sw_cuda_plane_shape{0, n, 1};
    return sw_cuda_plane_shape{outer, n, inner};
}

/* ---- sums -------------------------------------------------------------------------------- */

/* Neighbours in memory are of different planes. */
static inline bool sw_cuda_planes_along(const sw_cuda_plane_shape &p)
{
    return p.inner == 1 && p.outer > 1;
}
static inline unsigned sw_cuda_planes_parts(const sw_cuda_plane_shape &p)
{
    return sw_cuda_reduce_parts(p.outer * p.inner, sw_cuda_planes_along(p));
}
/* Scratch for n sums of each plane: none where a block has a whole plane. */
static inline size_t sw_cuda_planes_bytes(const sw_cuda_plane_shape &p, int n)
{
    const bool along = sw_cuda_planes_along(p);
    if (!along && sw_cuda_planes_parts(p) == 1)
        return 0;
    return sw_cuda_reduce_bytes(p.outer * p.inner, p.n, n, along);
}

/* A thread's way through a plane, in places of memory and accesses of one run of it. */
struct sw_cuda_planes_way {
    int64_t step, hop; /* of each access; and where it leaves its run */
    int positions;     /* of a run, that one step is */
};

/* A grid of (planes, parts); one part is put at once. */
template <class ROWS, class F>
__global__ void __launch_bounds__(SW_CUDA_THREADS, 4)
    sw_cuda_planes_sum(double *parts, sw_cuda_plane_shape p, sw_cuda_planes_way way,
                       uint32_t *tickets, F f)
{
    SW_SHARED(double, partials, 32);
    const int64_t inner = p.inner / ROWS::W;
    const sw_cuda_part part = sw_cuda_part_of(p.outer * inner);
    const int64_t first = part.from + ROWS::lane(), run = first / inner;
    const int64_t first_k = first - run * inner;
    for (int64_t c = ROWS::first(); c < p.n; c += ROWS::step()) {
        double sum[F::N] = {};
        int64_t k = first_k, position = (run * p.n + c) * p.inner + k * ROWS::W;
        for (int64_t at = first; at < part.end; at += ROWS::G) {
            f.template add<ROWS::W>(position, c, sum);
            position += way.step;
            k += way.positions;
            if (k >= inner) {
                k -= inner;
                position += way.hop;
            }
        }
        for (int n = 0; n < F::N; n++) {
            sum[n] = ROWS::template reduce<sw_cuda_plus>(sum[n], partials);
            if (ROWS::lane() == 0 && gridDim.y > 1)
                parts[(blockIdx.y * p.n + c) * F::N + n] = sum[n];
        }
        if (ROWS::lane() == 0 && gridDim.y == 1)
            f.put(c, sum);
    }
    if (ROWS::G == SW_CUDA_THREADS) /* a block has whole planes */
        sw_cuda_reduce_finish(parts, p.n, 1, tickets, f);
}

/* Threads along the planes: reduce.h. */
template <class F> struct sw_cuda_planes_beside {
    enum { N = F::N };
    F f;
    int64_t n;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        for (int k = 0; k < N; k++)
            v[k] = 0.0;
        f.template add<1>(r * n + c, c, v);
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        f.put(c, sum);
    }
};

/* aligned: all operands begin at good addresses. */
template <class F>
static sw_status sw_cuda_planes_reduce(const char *op, F f, const sw_cuda_plane_shape &p,
                                       bool aligned, void *scratch, const sw_cuda_queue *queue)
{
    const int64_t positions = p.outer * p.inner;
    const bool wide = aligned && p.inner % 4 == 0;
    const unsigned parts = sw_cuda_planes_parts(p);
    const int each = positions <= 16 ? 1 : positions <= SW_CUDA_LONG_ROW ? 32 : SW_CUDA_THREADS;
    if (p.n == 0)
        return SW_OK;
    if (sw_cuda_planes_along(p))
        return sw_cuda_reduce<true>(op, sw_cuda_planes_beside<F>{f, p.n}, p.outer, p.n, scratch,
                                    queue);
    const auto sum = each == 1 ? (wide ? sw_cuda_planes_sum<sw_cuda_rows<1, 4>, F>
                                       : sw_cuda_planes_sum<sw_cuda_rows<1, 1>, F>)
                     : each == 32
                         ? (wide ? sw_cuda_planes_sum<sw_cuda_rows<32, 4>, F>
                                 : sw_cuda_planes_sum<sw_cuda_rows<32, 1>, F>)
                         : (wide ? sw_cuda_planes_sum<sw_cuda_rows<SW_CUDA_THREADS, 4>, F>
                                 : sw_cuda_planes_sum<sw_cuda_rows<SW_CUDA_THREADS, 1>, F>);
    const int width = wide ? 4 : 1;
    const int64_t inner = p.inner / width;
    const sw_cuda_planes_way way = {each / inner * p.n * p.inner + each % inner * width,
                                    (p.n - 1) * p.inner, (int)(each % inner)};
    const unsigned blocks = sw_cuda_blocks(p.n, SW_CUDA_THREADS / each);
    uint32_t *tickets =
        each == SW_CUDA_THREADS ? sw_cuda_reduce_tickets(blocks, parts, queue) : nullptr;
    SW_CUDA_LAUNCH(sum, dim3(blocks, parts), SW_CUDA_THREADS, 0, queue,
                   static_cast<double *>(scratch), p, way, tickets, f);
    sw_cuda_reduce_end(f, parts, p.n, scratch, tickets, queue);
    return sw_cuda_launched(op);
}

/* ---- elements ---------------------------------------------------------------------------- */

/* One step of a thread, in planes and positions of a plane. */
struct sw_cuda_planes_step {
    int64_t planes, positions;
};

template <int W, class F>
__global__ void sw_cuda_planes_elementwise(sw_cuda_plane_shape p, sw_cuda_planes_step step, F f)
{
    const int64_t inner = p.inner / W, n = p.outer * p.n * inner;
    const int64_t plane = sw_cuda_thread() / inner;
    int64_t k = sw_cuda_thread() - plane * inner, c = plane % p.n;
    for (int64_t at = sw_cuda_thread(); at < n; at += sw_cuda_threads()) {
        f.template at<W>(at * W, c);
        c += step.planes;
        k += step.positions;
        if (k >= inner) {
            k -= inner;
            c++;
        }
        if (c >= p.n)
            c -= p.n;
    }
}

template <class F>
static sw_status sw_cuda_planes_run(const char *op, F f, const sw_cuda_plane_shape &p,
                                    bool aligned, const sw_cuda_queue *queue)
{
    const bool wide = aligned && p.inner % 4 == 0;
    const int64_t n = p.outer * p.n * p.inner, inner = wide ? p.inner / 4 : p.inner;
    const unsigned blocks = sw_cuda_blocks(n, 4 * SW_CUDA_THREADS);
    const int64_t threads = (int64_t)blocks * SW_CUDA_THREADS;
    const auto each =
        wide ? sw_cuda_planes_elementwise<4, F> : sw_cuda_planes_elementwise<1, F>;
    if (n == 0)
        return SW_OK;
    const sw_cuda_planes_step step = {threads / inner % p.n, threads % inner};
    SW_CUDA_LAUNCH(each, blocks, SW_CUDA_THREADS, 0, queue, p, step, f);
    return sw_cuda_launched(op);
}

/* f.entry(c) for each c below n: numbers of planes that need no sums. */
template <class F> __global__ void sw_cuda_planes_table(int64_t n, F f)
{
    for (int64_t c = sw_cuda_thread(); c < n; c += sw_cuda_threads())
        f.entry(c);
}
template <class F>
static sw_status sw_cuda_planes_fill(const char *op, F f, int64_t n, const sw_cuda_queue *queue)
{
    const auto table = sw_cuda_planes_table<F>;
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(table, n, SW_CUDA_THREADS, queue, n, f);
    return sw_cuda_launched(op);
}

/* ---- what normalisation does with them --------------------------------------------------- */

/* Sums of d and d d, d what x is above its plane's first element: exact in float64, and that
 * one is within the spread of all, so the variance does not lose to the mean. */
struct sw_cuda_moments {
    enum { N = 2 };
    const float *x;
    int64_t inner;
    __device__ double origin(int64_t c) const
    {
        return (double)x[c * inner];
    }
    template <int W> __device__ void add(int64_t at, int64_t c, double (&sum)[N]) const
    {
        float v[W];
        const double from = origin(c);
        sw_cuda_load(v, x + at);
        for (int k = 0; k < W; k++) {
            const double d = (double)v[k] - from;
            sum[0] += d;
            sum[1] += d * d;
        }
    }
};

/* Sums of dy, and of dy (x - mean); x NULL: of dy alone. */
struct sw_cuda_slopes {
    enum { N = 2 };
    const float *dy, *x;
    template <int W> __device__ void add(int64_t at, float mean, double (&sum)[N]) const
    {
        float g[W], v[W], s1 = 0.0f, s2 = 0.0f;
        sw_cuda_load(g, dy + at);
        for (int k = 0; k < W; k++)
            s1 += g[k];
        sum[0] += (double)s1;
        if (x == nullptr)
            return;
        sw_cuda_load(v, x + at);
        for (int k = 0; k < W; k++)
            s2 += g[k] * (v[k] - mean);
        sum[1] += (double)s2;
    }
};

/* y = (x - mean) factor + bias, from a table of (mean, factor, bias, -). y may be x. */
struct sw_cuda_planes_y {
    float *y;
    const float *x;
    const float4 *table;
    template <int W> __device__ void at(int64_t position, int64_t c) const
    {
        float v[W];
        const float4 t = table[c];
        sw_cuda_load(v, x + position);
        for (int k = 0; k < W; k++)
            v[k] = (v[k] - t.x) * t.y + t.z;
        sw_cuda_store(y + position, v);
    }
};

/* dx = dy factor - (k1 + (x - mean) k2), from (mean, factor, k1, k2). dx may be x or dy. */
struct sw_cuda_planes_dx {
    float *dx;
    const float *dy, *x;
    const float4 *table;
    int add;
    template <int W> __device__ void at(int64_t position, int64_t c) const
    {
        float v[W], g[W], old[W] = {};
        const float4 t = table[c];
        sw_cuda_load(g, dy + position);
        sw_cuda_load(v, x + position);
        if (add)
            sw_cuda_load(old, dx + position);
        for (int k = 0; k < W; k++) {
            const float d = g[k] * t.y - (t.z + (v[k] - t.x) * t.w);
            g[k] = add ? old[k] + d : d;
        }
        sw_cuda_store(dx + position, g);
    }
};

static __device__ __forceinline__ float sw_cuda_or(const float *p, int64_t i, float otherwise)
{
    return p != nullptr ? p[i] : otherwise;
}
/* p = value, or +=; p NULL: nothing */
static __device__ __forceinline__ void sw_cuda_set(float *p, int64_t i, double value, int add)
{
    if (p != nullptr)
        p[i] = (add ? p[i] : 0.0f) + (float)value;
}
