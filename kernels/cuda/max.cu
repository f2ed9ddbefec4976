/* Maximum over axes, where it is, and its gradient. A number and its position are one key, the
 * larger the better, so that the order of comparisons does not matter: the first of equals
 * wins, and a NaN before all numbers. */
#include "kernels/attrs.h"
#include "kernels/cuda/axes_shape.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/reduce.h"
#include "kernels/scalar.h"

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
    const uint32_t axes = sw_cuda_attrs<swi_sum_attrs>(info)->axes;
    const sw_shape *s = &info->in[0].shape;
    return sw_cuda_reduce_bytes(sw_cuda_axes(s, nullptr, axes, true).n,
                                sw_cuda_axes(s, nullptr, axes, false).n, axes_max::N,
                                sw_cuda_axes_along(s, axes));
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
    return sw_cuda_reduce(op, f, f.reduced.n, f.kept.n, sw_cuda_axes_along(s, axes), l->scratch,
                          queue);
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
