/* Sums and maxima over axes, where a maximum is, and its gradient; the sum of squares that
 * clipping wants. */
#include "kernels/attrs.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/strided_index.h"
#include "kernels/scalar.h"

/* Axes of the shape, those that are reduced or those that are kept, with these strides in A. */
static inline sw_cuda_strided sw_cuda_axes(const sw_shape *s, const int64_t *stride,
                                           uint32_t reduced, bool wanted)
{
    sw_cuda_strided strided = sw_cuda_strided_begin();
    for (int i = 0; i < s->rank; i++)
        if (((reduced >> i & 1u) != 0) == wanted)
            sw_cuda_strided_axis(&strided, s->dim[i], 0, stride != nullptr ? stride[i] : 0, 0,
                                 0);
    if (stride != nullptr)
        sw_cuda_strided_join(&strided);
    return strided;
}

/* Threads lie along the results where those are neighbours in memory, since the last axis is
 * kept, and where there is little to reduce. Decided by the shape, as scratch is. */
static inline bool sw_cuda_axes_along(const sw_shape *s, uint32_t reduced)
{
    int last = s->rank - 1;
    if (sw_cuda_axes(s, nullptr, reduced, true).n < 64)
        return true;
    while (last > 0 && s->dim[last] == 1)
        last--;
    return last >= 0 && (reduced >> last & 1u) == 0;
}

/* Of one result for each place of the kept axes. */
static size_t scratch_of(const sw_kernel_info *info, int each)
{
    const uint32_t axes = sw_cuda_attrs<swi_sum_attrs>(info)->axes;
    const sw_shape *s = &info->in[0].shape;
    return sw_cuda_reduce_bytes(sw_cuda_axes(s, nullptr, axes, true).n,
                                sw_cuda_axes(s, nullptr, axes, false).n, each,
                                sw_cuda_axes_along(s, axes));
}

/* ---- sums -------------------------------------------------------------------------------- */

/* Places of the kept axes stand in A, of the summed ones in B. */
struct axes_sum {
    enum { N = 1 };
    const float *x;
    float *y;
    sw_cuda_strided kept, summed;
    double scale;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        v[0] = (double)x[sw_cuda_strided_offsets(kept, c).at[SW_CUDA_STRIDED_A] +
                         sw_cuda_strided_offsets(summed, r).at[SW_CUDA_STRIDED_A]];
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        const float v = (float)(sum[0] * scale);
        y[c] = add ? y[c] + v : v;
    }
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_sum_scratch)
{
    return scratch_of(info, axes_sum::N);
}

SW_CUDA_ENTRY(sum, forward, sw_cuda_sum_scratch, 0)
{
    const swi_sum_attrs *a = sw_cuda_attrs<swi_sum_attrs>(l);
    const sw_buffer *x = &l->in[0];
    const sw_shape *s = &x->type.shape;
    axes_sum f = {};
    f.x = sw_cuda_in(l, 0);
    f.y = sw_cuda_out(l, 0);
    f.kept = sw_cuda_axes(s, x->stride, a->axes, false);
    f.summed = sw_cuda_axes(s, x->stride, a->axes, true);
    f.scale = a->scale;
    f.add = sw_cuda_adds(l, 0);
    const auto reduce = sw_cuda_axes_along(s, a->axes) ? sw_cuda_reduce<true, axes_sum>
                                                       : sw_cuda_reduce<false, axes_sum>;
    return reduce("sum", f, f.summed.n, f.kept.n, l->scratch, queue);
}

/* in: x, [flag]: of nothing where the flag is 0 */
struct squares {
    enum { N = 1 };
    const float *x, *flag;
    double *y;
    int add;
    __device__ void term(int64_t r, int64_t, double (&v)[N]) const
    {
        v[0] = flag != nullptr && *flag == 0.0f ? 0.0 : (double)x[r] * (double)x[r];
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        *y = add ? *y + sum[0] : sum[0];
    }
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_sumsq_scratch)
{
    return sw_cuda_reduce_bytes(sw_cuda_elements(&info->in[0]), 1, squares::N, false);
}

SW_CUDA_ENTRY(sumsq, forward, sw_cuda_sumsq_scratch, 0)
{
    const squares f = {sw_cuda_in(l, 0), l->n_in > 1 ? sw_cuda_in(l, 1) : nullptr,
                       static_cast<double *>(l->out[0].ptr), sw_cuda_adds(l, 0)};
    return sw_cuda_reduce<false>("sumsq", f, sw_cuda_elements(&l->in[0].type), 1, l->scratch,
                                 queue);
}

/* ---- maxima ------------------------------------------------------------------------------ */

/* A number and its position are one key, the larger the better, so that the order of
 * comparisons does not matter: the first of equals wins, and a NaN before all numbers. */

struct axes_max {
    enum { N = 1 };
    const float *x;
    float *y;             /* NULL: not written */
    unsigned char *index; /* NULL: not written */
    int bytes;            /* of one position, lowest first */
    sw_cuda_strided kept, reduced;
    __device__ int64_t position(int64_t r, int64_t c) const
    {
        return sw_cuda_strided_offsets(kept, c).at[SW_CUDA_STRIDED_A] +
               sw_cuda_strided_offsets(reduced, r).at[SW_CUDA_STRIDED_A];
    }
    __device__ void term(int64_t r, int64_t c, uint64_t (&v)[N]) const
    {
        const float number = x[position(r, c)];
        const uint32_t bits = number == 0.0f ? 0u : sw_bits_of(number);
        const uint32_t order = number != number   ? 0xffffffffu
                               : bits >> 31 != 0u ? ~bits
                                                  : bits | 0x80000000u;
        v[0] = (uint64_t)order << 32 | (uint32_t) ~(uint32_t)r;
    }
    __device__ void put(int64_t c, const uint64_t (&key)[N]) const
    {
        const uint32_t at = ~(uint32_t)key[0];
        if (y != nullptr)
            y[c] = x[position((int64_t)at, c)];
        for (int k = 0; k < bytes && index != nullptr; k++)
            index[c * bytes + k] = (unsigned char)(at >> (8 * k));
    }
};

struct larger_key {
    static __device__ __forceinline__ uint64_t of(uint64_t a, uint64_t b)
    {
        return b > a ? b : a;
    }
    template <class T> static __device__ __forceinline__ T none(void)
    {
        return T(0);
    }
};
template <> struct sw_cuda_reduction<axes_max> {
    typedef uint64_t T;
    typedef larger_key OP;
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_max_scratch)
{
    return scratch_of(info, axes_max::N);
}

static sw_status reduce(const char *op, axes_max f, const sw_launch *l,
                        const sw_cuda_queue *queue)
{
    const uint32_t axes = sw_cuda_attrs<swi_sum_attrs>(l)->axes;
    const sw_buffer *x = &l->in[0];
    const sw_shape *s = &x->type.shape;
    f.x = sw_cuda_in(l, 0);
    f.kept = sw_cuda_axes(s, x->stride, axes, false);
    f.reduced = sw_cuda_axes(s, x->stride, axes, true);
    const auto sums = sw_cuda_axes_along(s, axes) ? sw_cuda_reduce<true, axes_max>
                                                  : sw_cuda_reduce<false, axes_max>;
    return sums(op, f, f.reduced.n, f.kept.n, l->scratch, queue);
}

/* out: y, [index (results, bytes)] */
SW_CUDA_ENTRY(max, forward, sw_cuda_max_scratch, 1)
{
    axes_max f = {};
    f.y = sw_cuda_out(l, 0);
    if (l->n_out > 1) {
        f.index = static_cast<unsigned char *>(l->out[1].ptr);
        f.bytes = (int)l->out[1].type.shape.dim[1];
    }
    return reduce("max", f, l, queue);
}

/* out: index, I32, whose bytes are those of max */
SW_CUDA_ENTRY(argmax, forward, sw_cuda_max_scratch, 1)
{
    axes_max f = {};
    f.index = static_cast<unsigned char *>(l->out[0].ptr);
    f.bytes = 4;
    return reduce("argmax", f, l, queue);
}

/* ---- gradient: in {index, dy} ------------------------------------------------------------ */

struct nothing {
    __device__ float operator()(float, float) const
    {
        return 0.0f;
    }
};

__global__ void max_dx_kernel(float *dx, const float *dy, const unsigned char *index, int bytes,
                              sw_cuda_strided kept, sw_cuda_strided reduced)
{
    for (int64_t c = sw_cuda_thread(); c < kept.n; c += sw_cuda_threads()) {
        int64_t at = 0;
        for (int k = 0; k < bytes; k++)
            at |= (int64_t)index[c * bytes + k] << (8 * k);
        dx[sw_cuda_strided_offsets(kept, c).at[SW_CUDA_STRIDED_A] +
           sw_cuda_strided_offsets(reduced, at).at[SW_CUDA_STRIDED_A]] += dy[c];
    }
}

SW_CUDA_ENTRY(max, grad0, NULL, 1)
{
    const uint32_t axes = sw_cuda_attrs<swi_sum_attrs>(l)->axes;
    const sw_buffer *dx = &l->out[0];
    const sw_shape *s = &dx->type.shape;
    const sw_cuda_strided kept = sw_cuda_axes(s, dx->stride, axes, false);
    if (!sw_cuda_adds(l, 0))
        SW_TRY(sw_cuda_elementwise_run<0>("max", nothing{}, sw_cuda_out(l, 0), nullptr, nullptr,
                                          sw_cuda_elements(&dx->type), 0, queue));
    if (kept.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(max_dx_kernel, kept.n, SW_CUDA_THREADS, queue, sw_cuda_out(l, 0),
                       sw_cuda_in(l, 1), static_cast<const unsigned char *>(l->in[0].ptr),
                       (int)l->in[0].type.shape.dim[1], kept,
                       sw_cuda_axes(s, dx->stride, axes, true));
    return sw_cuda_launched("max");
}
