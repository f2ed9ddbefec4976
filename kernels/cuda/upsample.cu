/* Images of another size, and the gradient. Forward, a thread has one output; backward, one
 * position of dx, which gathers from the rows and columns of dy that it went into, in their
 * order: nothing is added to from two threads, and the bits are the CPU's. Positions are worked
 * out in whole numbers, as kernels/resample.h says. */
#include "kernels/attrs.h"
#include "kernels/cuda/image.h"
#include "kernels/resample.h"

/* One axis of the images. */
struct axis {
    int in, out;
    bool small; /* no part is 2^31 or more */
    sw_cuda_divisor whole, first;
};
struct upsample {
    const float *from;
    float *to;
    axis v, h;
    int add;
    sw_cuda_planes planes;
    sw_cuda_divisor row; /* columns of what threads have */
};

static __device__ __forceinline__ int divide(int64_t part, const sw_cuda_divisor &by,
                                             bool small)
{
    return small ? (int)sw_cuda_divide(by, (uint32_t)part) : (int)(part / by.by);
}

/* ---- forward ----------------------------------------------------------------------------- */

/* Where position i lies: between two positions, which count 1 - w and w. */
struct source {
    int at, next;
    float w;
};
template <bool LINEAR> static __device__ __forceinline__ source source_of(const axis &a, int i)
{
    const int64_t part = sw_resample_part(i, a.in, a.out, LINEAR);
    source s;
    s.at = divide(part, a.whole, a.small);
    s.next = s.at + 1 < a.in ? s.at + 1 : s.at;
    s.w = LINEAR ? sw_resample_weight(part, s.at, a.out) : 0.0f;
    return s;
}

template <bool LINEAR> __global__ void upsample_kernel(upsample u)
{
    const int64_t first = sw_cuda_chunk_first(u.planes);
    const uint32_t n = sw_cuda_chunk_counts(u.planes);
    float *y = u.to + first * u.v.out * u.h.out;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        uint32_t at = i;
        const int64_t plane = first + sw_cuda_split(u.planes.each, &at);
        const int oy = (int)sw_cuda_split(u.row, &at);
        const source v = source_of<LINEAR>(u.v, oy), h = source_of<LINEAR>(u.h, (int)at);
        const float *a = u.from + (plane * u.v.in + v.at) * u.h.in;
        const float *b = u.from + (plane * u.v.in + v.next) * u.h.in;
        if (LINEAR) {
            const float left = (1.0f - v.w) * a[h.at] + v.w * b[h.at];
            const float right = (1.0f - v.w) * a[h.next] + v.w * b[h.next];
            y[i] = (1.0f - h.w) * left + h.w * right;
        } else {
            y[i] = a[h.at];
        }
    }
}

/* ---- gradient ---------------------------------------------------------------------------- */

/* The positions [from, end) that position p went into, those below `own` as the neighbour of
 * the one before it. */
struct reach {
    int p, from, own, end;
};
static __device__ __forceinline__ int first_of(const axis &a, int p, int linear)
{
    if (p <= 0 || p >= a.in)
        return p <= 0 ? 0 : a.out;
    return divide(sw_resample_first_part(p, a.in, a.out, linear), a.first, a.small);
}
template <bool LINEAR> static __device__ __forceinline__ reach reach_of(const axis &a, int p)
{
    const int own = first_of(a, p, LINEAR);
    return reach{p, LINEAR && p > 0 ? first_of(a, p - 1, LINEAR) : own, own,
                 first_of(a, p + 1, LINEAR)};
}

/* The share that position i gives the one that reaches it. */
template <bool LINEAR>
static __device__ __forceinline__ float share_of(const axis &a, const reach &r, int i)
{
    if (!LINEAR)
        return 1.0f;
    const bool own = i >= r.own;
    const float w =
        sw_resample_weight(sw_resample_part(i, a.in, a.out, 1), own ? r.p : r.p - 1, a.out);
    return !own ? w : r.p == a.in - 1 ? (1.0f - w) + w : 1.0f - w;
}

template <bool LINEAR> __global__ void upsample_dx_kernel(upsample u)
{
    const int64_t first = sw_cuda_chunk_first(u.planes);
    const uint32_t n = sw_cuda_chunk_counts(u.planes);
    float *dx = u.to + first * u.v.in * u.h.in;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        uint32_t at = i;
        const int64_t plane = first + sw_cuda_split(u.planes.each, &at);
        const int y = (int)sw_cuda_split(u.row, &at);
        const reach v = reach_of<LINEAR>(u.v, y), h = reach_of<LINEAR>(u.h, (int)at);
        const float *dy = u.from + plane * u.v.out * u.h.out;
        float sum = 0.0f;
        for (int ox = h.from; ox < h.end; ox++) {
            float column = 0.0f;
            for (int oy = v.from; oy < v.end; oy++) {
                const float d = share_of<LINEAR>(u.v, v, oy) * dy[oy * u.h.out + ox];
                column = oy == v.from ? d : column + d;
            }
            sum += share_of<LINEAR>(u.h, h, ox) * column;
        }
        dx[i] = u.add ? dx[i] + sum : sum;
    }
}

/* ---- entries ----------------------------------------------------------------------------- */

static axis axis_of(int64_t in, int64_t out, int linear)
{
    const int64_t most = in > out ? in : out;
    axis a = {};
    a.in = (int)in, a.out = (int)out;
    a.small = (2 * most + 1) * most + 2 * in < (int64_t)INT32_MAX;
    a.whole = sw_cuda_divisor_of(sw_resample_whole(out, linear));
    a.first = sw_cuda_divisor_of(sw_resample_first_whole(in, linear));
    return a;
}

/* x and y: the types of the image and of the resized one; threads have `has`. */
static upsample upsample_of(const sw_launch *l, const sw_type *x, const sw_type *y,
                            const sw_type *has)
{
    const swi_upsample_attrs *a = sw_cuda_attrs<swi_upsample_attrs>(l);
    const int64_t *in = x->shape.dim, *out = y->shape.dim, *dim = has->shape.dim;
    const int linear = a->mode != 0;
    upsample u = {};
    u.from = sw_cuda_in(l, 0);
    u.to = sw_cuda_out(l, 0);
    u.v = axis_of(in[2], out[2], linear);
    u.h = axis_of(in[3], out[3], linear);
    u.add = sw_cuda_adds(l, 0);
    u.planes = sw_cuda_planes_of(dim[0] * dim[1], dim[2] * dim[3]);
    u.row = sw_cuda_divisor_of(dim[3]);
    return u;
}

static bool is_linear(const sw_launch *l)
{
    return sw_cuda_attrs<swi_upsample_attrs>(l)->mode != 0;
}

SW_CUDA_ENTRY(upsample, forward, NULL, 1)
{
    SW_TRY(sw_cuda_images("upsample", l));
    const upsample u = upsample_of(l, &l->in[0].type, &l->out[0].type, &l->out[0].type);
    const auto kernel = is_linear(l) ? upsample_kernel<true> : upsample_kernel<false>;
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(u.planes), SW_CUDA_THREADS, 0, queue, u);
    return sw_cuda_launched("upsample");
}

/* in: dy */
SW_CUDA_ENTRY(upsample, grad0, NULL, 1)
{
    SW_TRY(sw_cuda_images("upsample", l));
    const upsample u = upsample_of(l, &l->out[0].type, &l->in[0].type, &l->out[0].type);
    const auto kernel = is_linear(l) ? upsample_dx_kernel<true> : upsample_dx_kernel<false>;
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(u.planes), SW_CUDA_THREADS, 0, queue, u);
    return sw_cuda_launched("upsample");
}
