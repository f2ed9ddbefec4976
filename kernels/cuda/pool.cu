/* Max and average pooling. Forward, a thread has one output; backward, one position of dx,
 * which gathers from the windows that it lies in, in their order: nothing is added to from two
 * threads, and the bits are the CPU's. Only a mean over whole planes has another order of sums:
 * a warp or a block for each. kernels/dense.h says what max pooling keeps. */
#include "kernels/attrs.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/rows.h"
#include "kernels/dense.h"

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
