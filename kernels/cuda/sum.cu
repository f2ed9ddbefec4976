/* Sums over axes; the sum of squares that clipping wants. */
#include "kernels/attrs.h"
#include "kernels/cuda/axes_shape.h"
#include "kernels/cuda/reduce.h"

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
    const uint32_t summed = sw_cuda_attrs<swi_sum_attrs>(info)->axes;
    const sw_shape *s = &info->in[0].shape;
    return sw_cuda_reduce_bytes(sw_cuda_axes(s, nullptr, summed, true).n,
                                sw_cuda_axes(s, nullptr, summed, false).n, axes_sum::N,
                                sw_cuda_axes_along(s, summed));
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
    return sw_cuda_reduce("sum", f, f.summed.n, f.kept.n, sw_cuda_axes_along(s, a->axes),
                          l->scratch, queue);
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
    return sw_cuda_reduce("sumsq", f, sw_cuda_elements(&l->in[0].type), 1, false, l->scratch,
                          queue);
}
