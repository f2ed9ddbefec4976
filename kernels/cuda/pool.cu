/* Max and average pooling. Forward, a thread has one output; backward, one position of dx,
 * which gathers from the windows that it lies in, in their order: nothing is added to from two
 * threads, and the bits are the CPU's. Only a mean over whole planes has another order of sums:
 * a warp or a block for each. kernels/dense.h says what max pooling keeps. */
#include "kernels/attrs.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/rows.h"
#include "kernels/dense.h"
#include "kernels/resample.h"

struct pool {
    const float *x, *dy;
    float *y, *dx;
    uint8_t *index;
    const uint8_t *won;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride, pad, add;
    int64_t index_bytes; /* of a plane */
    sw_cuda_planes planes;
    sw_cuda_divisor row, by_stride; /* columns of what threads have */
};

/* The first position of a window and what of it lies in the image: rows [y0, y1), columns [x0,
 * x1) of the window. PAIR: windows of 2 x 2 side by side. */
struct window {
    int at, y0, y1, x0, x1;
};
template <bool PAIR>
static __device__ __forceinline__ window window_at(const pool &p, int oy, int ox)
{
    const int y = PAIR ? 2 * oy : oy * p.stride - p.pad;
    const int x = PAIR ? 2 * ox : ox * p.stride - p.pad;
    window w = {y * p.in_w + x, 0, 2, 0, 2};
    if (!PAIR) {
        w.y0 = y < 0 ? -y : 0;
        w.x0 = x < 0 ? -x : 0;
        w.y1 = p.in_h - y < p.kernel_h ? p.in_h - y : p.kernel_h;
        w.x1 = p.in_w - x < p.kernel_w ? p.in_w - x : p.kernel_w;
    }
    return w;
}

/* ---- max --------------------------------------------------------------------------------- */

/* An empty window is -inf and no position (255) wins; the first of equals wins, and the last
 * NaN before all numbers. */
struct winner {
    float value;
    int position;
};
template <bool PAIR>
static __device__ __forceinline__ winner winner_of(const pool &p, const float *x,
                                                   const window &w)
{
    winner best = {-INFINITY, 255};
    const int width = PAIR ? 2 : p.kernel_w;
    for (int ky = w.y0; ky < w.y1; ky++)
        for (int kx = w.x0; kx < w.x1; kx++) {
            const float v = x[w.at + ky * p.in_w + kx];
            const bool wins = v > best.value || v != v;
            if (wins || best.position == 255)
                best = winner{v, ky * width + kx};
        }
    return best;
}

/* Two bits of four neighbours make a byte, so the counts of a plane are rounded up to fours,
 * and warps stay together. */
template <bool PACKED, bool PAIR> __global__ void max_kernel(pool p)
{
    const int64_t first = sw_cuda_chunk_first(p.planes);
    const uint32_t n = sw_cuda_chunk_counts(p.planes);
    const uint32_t positions = (uint32_t)p.out_h * (uint32_t)p.out_w;
    const float *x = p.x + first * p.in_h * p.in_w;
    float *y = p.y + first * positions;
    for (uint32_t from = blockIdx.x * blockDim.x; from < n; from += gridDim.x * blockDim.x) {
        uint32_t at = from + threadIdx.x, bits = 0;
        const bool counts = at < n;
        const int64_t plane = sw_cuda_split(p.planes.each, &at);
        const bool here = counts && at < positions;
        uint8_t *index = nullptr;
        if (p.index != nullptr)
            index = p.index + (first + plane) * p.index_bytes;
        if (here) {
            uint32_t ox = at;
            const int oy = (int)sw_cuda_split(p.row, &ox);
            const winner best = winner_of<PAIR>(p, x + plane * p.in_h * p.in_w,
                                                window_at<PAIR>(p, oy, (int)ox));
            y[plane * positions + at] = best.value;
            if (!PACKED && index != nullptr)
                index[at] = (uint8_t)best.position;
            bits = (uint32_t)(best.position & 3) << at % 4 * 2;
        }
        if (PACKED && index != nullptr) {
            bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
            if (here && at % 4 == 0)
                index[at / 4] = (uint8_t)bits;
        }
    }
}

/* ---- gradients --------------------------------------------------------------------------- */

/* The gradient that window `out` gives its position k; false: none. */
template <bool PACKED> struct max_gives {
    static __device__ __forceinline__ bool of(const pool &p, int64_t plane, int out, int k,
                                              float *d)
    {
        const uint8_t *won = p.won + plane * p.index_bytes;
        const int position = PACKED ? won[out / 4] >> out % 4 * 2 & 3 : won[out];
        if (position != k)
            return false;
        *d = p.dy[plane * p.out_h * p.out_w + out];
        return true;
    }
};
struct avg_gives {
    static __device__ __forceinline__ bool of(const pool &p, int64_t plane, int out, int,
                                              float *d)
    {
        *d = p.dy[plane * p.out_h * p.out_w + out] / (float)(p.kernel_h * p.kernel_w);
        return true;
    }
};

/* The windows [from, end) of one axis that position v lies in. */
static __device__ __forceinline__ int windows_from(const pool &p, int v, int kernel)
{
    const int past = v + p.pad - kernel + p.stride;
    return past <= 0 ? 0 : (int)sw_cuda_divide(p.by_stride, (uint32_t)past);
}
static __device__ __forceinline__ int windows_end(const pool &p, int v, int n)
{
    const int end = (int)sw_cuda_divide(p.by_stride, (uint32_t)(v + p.pad)) + 1;
    return end < n ? end : n;
}

template <class GIVES> __global__ void dx_kernel(pool p)
{
    const int64_t first = sw_cuda_chunk_first(p.planes);
    const uint32_t n = sw_cuda_chunk_counts(p.planes);
    float *dx = p.dx + first * p.in_h * p.in_w;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        uint32_t at = i;
        const int64_t plane = first + sw_cuda_split(p.planes.each, &at);
        const int y = (int)sw_cuda_split(p.row, &at), x = (int)at;
        const int y1 = windows_end(p, y, p.out_h), x1 = windows_end(p, x, p.out_w);
        float sum = p.add ? dx[i] : 0.0f, d;
        for (int oy = windows_from(p, y, p.kernel_h); oy < y1; oy++)
            for (int ox = windows_from(p, x, p.kernel_w); ox < x1; ox++) {
                const int k =
                    (y + p.pad - oy * p.stride) * p.kernel_w + x + p.pad - ox * p.stride;
                if (GIVES::of(p, plane, oy * p.out_w + ox, k, &d))
                    sum += d;
            }
        dx[i] = sum;
    }
}

/* ---- average ----------------------------------------------------------------------------- */

template <bool PAIR> __global__ void avg_kernel(pool p)
{
    const int64_t first = sw_cuda_chunk_first(p.planes);
    const uint32_t n = sw_cuda_chunk_counts(p.planes);
    const float count = PAIR ? 4.0f : (float)(p.kernel_h * p.kernel_w);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        uint32_t at = i;
        const int64_t plane = first + sw_cuda_split(p.planes.each, &at);
        const int oy = (int)sw_cuda_split(p.row, &at);
        const window w = window_at<PAIR>(p, oy, (int)at);
        const float *x = p.x + plane * p.in_h * p.in_w + w.at;
        float sum = 0.0f;
        for (int ky = w.y0; ky < w.y1; ky++)
            for (int kx = w.x0; kx < w.x1; kx++)
                sum += x[ky * p.in_w + kx];
        p.y[first * p.out_h * p.out_w + i] = sum / count;
    }
}

/* The window is the plane. */
template <class ROWS>
__global__ void mean_kernel(float *y, const float *x, int64_t rows, int64_t cols)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < rows; r += ROWS::step()) {
        float v[ROWS::W];
        double sum = 0.0;
        SW_CUDA_COLUMNS(c, cols)
        {
            sw_cuda_load(v, x + r * cols + c);
            for (int k = 0; k < ROWS::W; k++)
                sum += (double)v[k];
        }
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        if (ROWS::lane() == 0)
            y[r] = (float)(sum / (double)cols);
    }
}

/* ---- entries ----------------------------------------------------------------------------- */

static bool packs(const pool &p)
{
    return p.kernel_h * p.kernel_w <= 4;
}

/* x and y: the types of the image and of what pooling makes of it. */
static pool pool_of(const sw_launch *l, const sw_type *x, const sw_type *y)
{
    const swi_pool_attrs *a = sw_cuda_attrs<swi_pool_attrs>(l);
    const int64_t *in = x->shape.dim, *out = y->shape.dim;
    pool p = {};
    p.in_h = (int)in[2], p.in_w = (int)in[3], p.out_h = (int)out[2], p.out_w = (int)out[3];
    p.kernel_h = a->kernel_h, p.kernel_w = a->kernel_w, p.stride = a->stride, p.pad = a->pad;
    p.index_bytes = packs(p) ? (out[2] * out[3] + 3) / 4 : out[2] * out[3];
    p.by_stride = sw_cuda_divisor_of(a->stride);
    return p;
}

/* Windows of 2 x 2 side by side, none of which leaves the image. */
static bool is_pair(const pool &p)
{
    return p.kernel_h == 2 && p.kernel_w == 2 && p.stride == 2 && p.pad == 0;
}

/* Threads over planes of h x w, in fours where `fours`. */
static void over(pool *p, const sw_type *t, bool fours)
{
    const int64_t *dim = t->shape.dim, each = dim[2] * dim[3];
    p->planes = sw_cuda_planes_of(dim[0] * dim[1], fours ? (each + 3) / 4 * 4 : each);
    p->row = sw_cuda_divisor_of(dim[3] < 1 ? 1 : dim[3]);
}

SW_CUDA_ENTRY(max_pool2d, forward, NULL, 1)
{
    SW_TRY(sw_cuda_images("max_pool2d", l));
    pool p = pool_of(l, &l->in[0].type, &l->out[0].type);
    p.x = sw_cuda_in(l, 0);
    p.y = sw_cuda_out(l, 0);
    p.index = l->n_out > 1 ? static_cast<uint8_t *>(l->out[1].ptr) : nullptr;
    over(&p, &l->out[0].type, packs(p));
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    const auto kernel = !packs(p)    ? max_kernel<false, false>
                        : is_pair(p) ? max_kernel<true, true>
                                     : max_kernel<true, false>;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(p.planes), SW_CUDA_THREADS, 0, queue, p);
    return sw_cuda_launched("max_pool2d");
}

/* Of `dy`, an input of the launch. */
static pool dx_of(const sw_launch *l, int dy)
{
    pool p = pool_of(l, &l->out[0].type, &l->in[dy].type);
    p.dy = sw_cuda_in(l, dy);
    p.dx = sw_cuda_out(l, 0);
    p.add = sw_cuda_adds(l, 0);
    over(&p, &l->out[0].type, false);
    return p;
}

/* in: index, dy */
SW_CUDA_ENTRY(max_pool2d, grad0, NULL, 1)
{
    SW_TRY(sw_cuda_images("max_pool2d", l));
    pool p = dx_of(l, 1);
    p.won = static_cast<const uint8_t *>(l->in[0].ptr);
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    const auto kernel = packs(p) ? dx_kernel<max_gives<true>> : dx_kernel<max_gives<false>>;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(p.planes), SW_CUDA_THREADS, 0, queue, p);
    return sw_cuda_launched("max_pool2d");
}

SW_CUDA_ENTRY(avg_pool2d, forward, NULL, 0)
{
    SW_TRY(sw_cuda_images("avg_pool2d", l));
    pool p = pool_of(l, &l->in[0].type, &l->out[0].type);
    p.x = sw_cuda_in(l, 0);
    p.y = sw_cuda_out(l, 0);
    over(&p, &l->out[0].type, false);
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    if (p.kernel_h == p.in_h && p.kernel_w == p.in_w && p.pad == 0) {
        const int64_t rows = p.planes.n, cols = (int64_t)p.in_h * p.in_w;
        SW_CUDA_LAUNCH_ROWS(mean_kernel, rows, cols, sw_cuda_aligned(p.x), queue, p.y, p.x,
                            rows, cols);
    } else {
        const auto kernel = is_pair(p) ? avg_kernel<true> : avg_kernel<false>;
        SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(p.planes), SW_CUDA_THREADS, 0, queue, p);
    }
    return sw_cuda_launched("avg_pool2d");
}

/* in: dy */
SW_CUDA_ENTRY(avg_pool2d, grad0, NULL, 1)
{
    SW_TRY(sw_cuda_images("avg_pool2d", l));
    const pool p = dx_of(l, 0);
    const auto kernel = dx_kernel<avg_gives>;
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(p.planes), SW_CUDA_THREADS, 0, queue, p);
    return sw_cuda_launched("avg_pool2d");
}

/* Images of another size, and the gradient. Forward, a thread has one output; backward, one
 * position of dx, which gathers from the rows and columns of dy that it went into, in their
 * order: nothing is added to from two threads, and the bits are the CPU's. Positions are worked
 * out in whole numbers, as kernels/resample.h says. */

/* One axis of the images. */
struct axis {
    int in, out;
    sw_cuda_long_divisor whole, first;
};
struct upsample {
    const float *from;
    float *to;
    axis v, h;
    int add;
    sw_cuda_planes planes;
    sw_cuda_divisor row; /* columns of what threads have */
};

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
    s.at = (int)sw_cuda_divide(a.whole, part);
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
    return (int)sw_cuda_divide(a.first, sw_resample_first_part(p, a.in, a.out, linear));
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
    return axis{(int)in, (int)out, sw_cuda_long_divisor_of(sw_resample_whole(out, linear)),
                sw_cuda_long_divisor_of(sw_resample_first_whole(in, linear))};
}

/* x and y: the types of the image and of the resized one; threads have the output. */
static upsample upsample_of(const sw_launch *l, const sw_type *x, const sw_type *y)
{
    const swi_upsample_attrs *a = sw_cuda_attrs<swi_upsample_attrs>(l);
    const int64_t *in = x->shape.dim, *out = y->shape.dim;
    const int64_t *dim = l->out[0].type.shape.dim;
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

static sw_status resize(const sw_launch *l, const sw_type *x, const sw_type *y,
                        void (*linear)(upsample), void (*nearest)(upsample),
                        const sw_cuda_queue *queue)
{
    SW_TRY(sw_cuda_images("upsample", l));
    const upsample u = upsample_of(l, x, y);
    const auto kernel = sw_cuda_attrs<swi_upsample_attrs>(l)->mode != 0 ? linear : nearest;
    if (sw_cuda_elements(&l->out[0].type) == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(u.planes), SW_CUDA_THREADS, 0, queue, u);
    return sw_cuda_launched("upsample");
}

SW_CUDA_ENTRY_OF(upsample, forward, NULL, 1,
                 resize(l, &l->in[0].type, &l->out[0].type, upsample_kernel<true>,
                        upsample_kernel<false>, queue))
/* in: dy */
SW_CUDA_ENTRY_OF(upsample, grad0, NULL, 1,
                 resize(l, &l->out[0].type, &l->in[0].type, upsample_dx_kernel<true>,
                        upsample_dx_kernel<false>, queue))

/* ---- a number for each plane ------------------------------------------------------------- */

/* Images times one number for each image and channel, and the gradients: planes are rows, with
 * a warp or a block each. */

struct scaling {
    float *y; /* or dx; NULL: not computed */
    float *ds;
    const float *x; /* what is scaled: x, or dy */
    const float *s, *other;
    int64_t rows, cols;
    int add_y, add_ds;
};

/* y = x s, and ds = the sum of x `other`. y may be x or `other`: each position is read before
 * it is written, by its own thread. */
template <class ROWS> __global__ void scale_kernel(scaling a)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < a.rows; r += ROWS::step()) {
        const float s = a.y != nullptr ? a.s[r] : 0.0f;
        float v[ROWS::W], w[ROWS::W], y[ROWS::W] = {};
        double sum = 0.0;
        SW_CUDA_COLUMNS(c, a.cols)
        {
            const int64_t at = r * a.cols + c;
            sw_cuda_load(v, a.x + at);
            if (a.ds != nullptr) {
                sw_cuda_load(w, a.other + at);
                for (int k = 0; k < ROWS::W; k++)
                    sum += (double)(v[k] * w[k]);
            }
            if (a.y == nullptr)
                continue;
            if (a.add_y)
                sw_cuda_load(y, a.y + at);
            for (int k = 0; k < ROWS::W; k++)
                y[k] = a.add_y ? y[k] + v[k] * s : v[k] * s;
            sw_cuda_store(a.y + at, y);
        }
        if (a.ds == nullptr)
            continue;
        sum = ROWS::template reduce<sw_cuda_plus>(sum, partials);
        if (ROWS::lane() == 0)
            a.ds[r] = (a.add_ds ? a.ds[r] : 0.0f) + (float)sum;
    }
}

/* x: in[0]; s and `other` by their positions, -1: none; outputs: y and ds likewise. */
static sw_status run(const sw_launch *l, const sw_cuda_queue *queue, int s, int other, int y,
                     int ds)
{
    const int64_t *dim = l->in[0].type.shape.dim;
    scaling a = {};
    SW_TRY(sw_cuda_images("channel_scale", l));
    a.rows = dim[0] * dim[1];
    a.cols = dim[2] * dim[3];
    a.x = sw_cuda_in(l, 0);
    if (y >= 0) {
        a.s = sw_cuda_in(l, s);
        a.y = sw_cuda_out(l, y);
        a.add_y = sw_cuda_adds(l, y);
    }
    if (ds >= 0) {
        a.other = sw_cuda_in(l, other);
        a.ds = sw_cuda_out(l, ds);
        a.add_ds = sw_cuda_adds(l, ds);
    }
    if (a.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_ROWS(
        scale_kernel, a.rows, a.cols,
        sw_cuda_aligned(a.x) && sw_cuda_aligned(a.y) && sw_cuda_aligned(a.other), queue, a);
    return sw_cuda_launched("channel_scale");
}

/* in: x, s */
SW_CUDA_ENTRY_OF(channel_scale, forward, NULL, 1, run(l, queue, 1, -1, 0, -1))
/* in: dy, x, s; out: dx, ds */
SW_CUDA_ENTRY_OF(channel_scale, grad0, NULL, 0, run(l, queue, 2, 1, 0, 1))
/* in: dy, s; out: dx */
SW_CUDA_ENTRY_OF(channel_scale, grad1, NULL, 1, run(l, queue, 1, -1, 0, -1))
/* in: dy, x; out: ds */
SW_CUDA_ENTRY_OF(channel_scale, grad2, NULL, 0, run(l, queue, -1, 1, -1, 0))
