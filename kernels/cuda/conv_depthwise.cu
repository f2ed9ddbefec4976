/* Depthwise convolution: each channel is a group of its own, so a product would have one row. A
 * thread has a few positions of y below each other and reads what they share of x once;
 * neighbours in a row are neighbouring threads. Square kernels of 3, 5 and 7 positions with a
 * stride of 1 or 2 have their loops written out; others have one position for each thread.
 *
 * The gradient of x with stride 1 is the same with the weights read backwards; with other
 * strides each position of dx gathers from the positions of dy that met it. The gradient of the
 * weights: a block has a part of the positions of one channel, and its threads the sums of all
 * weights. */
#include "kernels/cuda/conv.h"

struct depthwise {
    float *y;
    const float *x, *w, *bias;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride, pad_y, pad_x, dilation, add;
    int w_row, w_tap; /* steps of w */
    sw_cuda_planes planes;
    sw_cuda_divisor row, by_channels, by_stride;
};

/* Places below each other that a thread has. */
template <int K> static constexpr int rows_of = K > 0 ? 4 : 1;

/* One count of a plane. */
struct work {
    int64_t plane; /* of all images */
    int channel, y, x;
};
template <int R>
static __device__ __forceinline__ work work_of(const depthwise &d, int64_t first, uint32_t i)
{
    work at;
    const uint32_t plane = sw_cuda_split(d.planes.each, &i);
    const uint32_t channels = d.by_channels.by;
    uint32_t channel = (uint32_t)(first % channels) + plane;
    sw_cuda_split(d.by_channels, &channel);
    at.plane = first + plane;
    at.channel = (int)channel;
    at.y = (int)sw_cuda_split(d.row, &i) * R;
    at.x = (int)i;
    return at;
}

/* A column of n positions of a plane from (y, x) on, zeros outside. */
template <int N>
static __device__ __forceinline__ void column_of(float (&v)[N], const float *plane, int y,
                                                 int x, int h, int w)
{
    const bool here = x >= 0 && x < w;
    SW_UNROLL
    for (int r = 0; r < N; r++)
        v[r] = here && y + r >= 0 && y + r < h ? plane[(y + r) * w + x] : 0.0f;
}

/* K: the kernel's side and S: its stride; 0: any. */
template <int K, int S> __global__ void depthwise_kernel(depthwise d)
{
    constexpr int R = rows_of<K>, ROWS = K > 0 ? (R - 1) * S + K : 1;
    const int64_t first = sw_cuda_chunk_first(d.planes);
    const uint32_t n = sw_cuda_chunk_counts(d.planes), step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const work at = work_of<R>(d, first, i);
        const float *x = d.x + at.plane * d.in_h * d.in_w;
        const float *w = d.w + (int64_t)at.channel * d.kernel_h * d.kernel_w;
        float *y = d.y + at.plane * d.out_h * d.out_w;
        float sum[R], v[ROWS];
        SW_UNROLL
        for (int o = 0; o < R; o++)
            sum[o] = d.bias != nullptr ? d.bias[at.channel] : 0.0f;
        const int iy = at.y * (K > 0 ? S : d.stride) - d.pad_y;
        const int ix = at.x * (K > 0 ? S : d.stride) - d.pad_x;
        if (K > 0) {
            SW_UNROLL
            for (int kx = 0; kx < K; kx++) {
                column_of(v, x, iy, ix + kx, d.in_h, d.in_w);
                SW_UNROLL
                for (int ky = 0; ky < K; ky++) {
                    const float weight = w[ky * d.w_row + kx * d.w_tap];
                    SW_UNROLL
                    for (int o = 0; o < R; o++)
                        sum[o] = fmaf(weight, v[(o * S + ky) % ROWS], sum[o]);
                }
            }
        } else {
            for (int ky = 0; ky < d.kernel_h; ky++)
                for (int kx = 0; kx < d.kernel_w; kx++) {
                    column_of(v, x, iy + ky * d.dilation, ix + kx * d.dilation, d.in_h, d.in_w);
                    sum[0] = fmaf(w[ky * d.w_row + kx * d.w_tap], v[0], sum[0]);
                }
        }
        SW_UNROLL
        for (int o = 0; o < R; o++) {
            float *to = y + (at.y + o) * d.out_w + at.x;
            if (at.y + o < d.out_h)
                *to = d.add ? *to + sum[o] : sum[o];
        }
    }
}

/* Whether position v of dx met a position of dy under tap k of one axis, and which one. */
template <int S>
static __device__ __forceinline__ bool meets(const depthwise &d, int v, int k, int n,
                                             int *position)
{
    const int t = v - k * (S > 0 ? 1 : d.dilation);
    if (t < 0)
        return false;
    *position = S > 0 ? t / S : (int)sw_cuda_divide(d.by_stride, (uint32_t)t);
    return *position * (S > 0 ? S : d.stride) == t && *position < n;
}

/* x is dy, y is dx; pads are those of the convolution. */
template <int K, int S> __global__ void depthwise_dx_kernel(depthwise d)
{
    const int64_t first = sw_cuda_chunk_first(d.planes);
    const uint32_t n = sw_cuda_chunk_counts(d.planes), step = gridDim.x * blockDim.x;
    const int kernel_h = K > 0 ? K : d.kernel_h, kernel_w = K > 0 ? K : d.kernel_w;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const work at = work_of<1>(d, first, i);
        const float *dy = d.x + at.plane * d.in_h * d.in_w;
        const float *w = d.w + (int64_t)at.channel * kernel_h * kernel_w;
        float *dx = d.y + at.plane * d.out_h * d.out_w + at.y * d.out_w + at.x;
        float sum = 0.0f;
        int oy, ox;
        SW_UNROLL
        for (int ky = 0; ky < kernel_h; ky++) {
            if (!meets<S>(d, at.y + d.pad_y, ky, d.in_h, &oy))
                continue;
            SW_UNROLL
            for (int kx = 0; kx < kernel_w; kx++)
                if (meets<S>(d, at.x + d.pad_x, kx, d.in_w, &ox))
                    sum = fmaf(w[ky * kernel_w + kx], dy[oy * d.in_w + ox], sum);
        }
        *dx = d.add ? *dx + sum : sum;
    }
}

/* ---- weights ----------------------------------------------------------------------------- */

struct depthwise_dw {
    float *dw; /* or parts of it, one after the other */
    const float *x, *dy;
    int channels, in_h, in_w, out_h, out_w, pad, add;
    int64_t counts, each; /* of all images, and of a part */
    sw_cuda_divisor plane, row;
    unsigned parts;
    uint32_t *tickets; /* of channels; NULL: parts stay parts */
    sw_cuda_column_sum sum;
};

/* N sums of each lane become N sums of the warp, by halves: a lane gives away one half of what
 * it has for the other half of its partner's. Lane l is left with sums l * N / 32 on. */
template <int N, int BY = 16, int ROOM>
static __device__ __forceinline__ void meet(float (&v)[ROOM], int lane)
{
    constexpr int HALF = N / 2;
    const bool high = (lane & BY) != 0;
    if (HALF == 0)
        v[0] += __shfl_xor_sync(0xffffffffu, v[0], BY);
    SW_UNROLL
    for (int k = 0; k < HALF; k++) {
        const float give = high ? v[k] : v[k + HALF], keep = high ? v[k + HALF] : v[k];
        v[k] = keep + __shfl_xor_sync(0xffffffffu, give, BY);
    }
    if constexpr (BY > 1)
        meet<(N + 1) / 2, BY / 2>(v, lane);
}

template <int K, int S> __global__ void depthwise_dw_kernel(depthwise_dw d)
{
    constexpr int R = rows_of<K>, ROWS = (R - 1) * S + K, WARPS = SW_CUDA_THREADS / 32;
    constexpr int N = K * K > 32 ? 64 : K * K > 16 ? 32 : 16;
    SW_SHARED(float, partials, K *K *WARPS);
    const int channel = (int)(blockIdx.x % (unsigned)d.channels);
    const int64_t part = blockIdx.x / (unsigned)d.channels, from = part * d.each;
    const int64_t end = from + d.each < d.counts ? from + d.each : d.counts;
    const int64_t image = from < end ? from / d.plane.by : 0;
    const uint32_t first = (uint32_t)(from - image * d.plane.by);
    const uint32_t n = from < end ? (uint32_t)(end - from) : 0;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float sum[N] = {};
    for (uint32_t i = threadIdx.x; i < n; i += SW_CUDA_THREADS) {
        uint32_t at = first + i;
        const int64_t plane = (image + sw_cuda_split(d.plane, &at)) * d.channels + channel;
        const int oy = (int)sw_cuda_split(d.row, &at) * R, ox = (int)at;
        const float *x = d.x + plane * d.in_h * d.in_w;
        float dy[R], v[ROWS];
        column_of(dy, d.dy + plane * d.out_h * d.out_w, oy, ox, d.out_h, d.out_w);
        SW_UNROLL
        for (int kx = 0; kx < K; kx++) {
            column_of(v, x, oy * S - d.pad, ox * S - d.pad + kx, d.in_h, d.in_w);
            SW_UNROLL
            for (int ky = 0; ky < K; ky++) {
                SW_UNROLL
                for (int o = 0; o < R; o++)
                    sum[ky * K + kx] = fmaf(dy[o], v[o * S + ky], sum[ky * K + kx]);
            }
        }
    }
    meet<N>(sum, lane);
    SW_UNROLL
    for (int k = 0; k < (N + 31) / 32; k++) {
        const int which = lane * N / 32 + k;
        if (which < K * K && (N >= 32 || lane % (32 / N) == 0))
            partials[which * WARPS + warp] = sum[k];
    }
    __syncthreads();
    const int k = (int)threadIdx.x;
    if (k < K * K) {
        float all = partials[k * WARPS];
        for (int i = 1; i < WARPS; i++)
            all += partials[k * WARPS + i];
        float *to = d.dw + (part * d.channels + channel) * (K * K) + k;
        *to = d.add ? *to + all : all;
    }
    if (d.tickets != nullptr && sw_cuda_is_last(d.tickets + channel, d.parts) && k < K * K)
        sw_cuda_reduce_alone(d.parts, (int64_t)channel * (K * K) + k, d.sum);
}

/* ---- launches ---------------------------------------------------------------------------- */

bool sw_cuda_depthwise_is(const sw_cuda_conv &c)
{
    return c.in_c == 1 && c.out_c == 1;
}

/* The side of a kernel whose loops are written out; 0: another one. */
static int side_of(const sw_cuda_conv &c)
{
    const int k = c.kernel_h;
    const bool known = k == 3 || k == 5 || (k == 7 && c.stride == 1);
    return known && c.kernel_w == k && c.stride <= 2 && c.dilation == 1 ? k : 0;
}

static int64_t counts_of(int rows, int h, int w)
{
    return (int64_t)(h + rows - 1) / rows * w;
}

static sw_status launch(void (*kernel)(depthwise), depthwise *d, const sw_cuda_conv &c,
                        int rows, const sw_cuda_queue *queue)
{
    const int64_t planes = (int64_t)c.batch * c.groups;
    d->planes = sw_cuda_planes_of(planes, counts_of(rows, d->out_h, d->out_w));
    d->row = sw_cuda_divisor_of(d->out_w);
    d->by_channels = sw_cuda_divisor_of(c.groups);
    d->by_stride = sw_cuda_divisor_of(c.stride);
    if (planes == 0 || d->out_h * d->out_w == 0)
        return SW_OK;
    SW_CUDA_LAUNCH(kernel, sw_cuda_planes_grid(d->planes), SW_CUDA_THREADS, 0, queue, *d);
    return sw_cuda_launched("conv2d");
}

static depthwise depthwise_of(const sw_cuda_conv &c)
{
    depthwise d = {};
    d.kernel_h = c.kernel_h, d.kernel_w = c.kernel_w;
    d.stride = c.stride, d.dilation = c.dilation;
    d.pad_y = d.pad_x = c.pad;
    d.w_row = c.kernel_w, d.w_tap = 1;
    return d;
}

sw_status sw_cuda_depthwise(float *y, const float *x, const float *w, const float *bias,
                            const sw_cuda_conv &c, int add, const sw_cuda_queue *queue)
{
    depthwise d = depthwise_of(c);
    const int side = side_of(c);
    const bool one = c.stride == 1;
    d.y = y, d.x = x, d.w = w, d.bias = bias, d.add = add;
    d.in_h = c.in_h, d.in_w = c.in_w, d.out_h = c.out_h, d.out_w = c.out_w;
    const auto kernel = side == 3   ? (one ? depthwise_kernel<3, 1> : depthwise_kernel<3, 2>)
                        : side == 5 ? (one ? depthwise_kernel<5, 1> : depthwise_kernel<5, 2>)
                        : side == 7 ? depthwise_kernel<7, 1>
                                    : depthwise_kernel<0, 0>;
    return launch(kernel, &d, c, side > 0 ? rows_of<3> : rows_of<0>, queue);
}

sw_status sw_cuda_depthwise_dx(float *dx, const float *dy, const float *w,
                               const sw_cuda_conv &c, int add, const sw_cuda_queue *queue)
{
    depthwise d = depthwise_of(c);
    const int side = side_of(c);
    d.y = dx, d.x = dy, d.w = w, d.add = add;
    d.in_h = c.out_h, d.in_w = c.out_w, d.out_h = c.in_h, d.out_w = c.in_w;
    if (c.stride > 1) {
        const auto kernel = side == 3   ? depthwise_dx_kernel<3, 2>
                            : side == 5 ? depthwise_dx_kernel<5, 2>
                                        : depthwise_dx_kernel<0, 0>;
        return launch(kernel, &d, c, 1, queue);
    }
    d.pad_y = (c.kernel_h - 1) * c.dilation - c.pad;
    d.pad_x = (c.kernel_w - 1) * c.dilation - c.pad;
    d.w = w + c.kernel_h * c.kernel_w - 1;
    d.w_row = -c.kernel_w, d.w_tap = -1;
    const auto kernel = side == 3   ? depthwise_kernel<3, 1>
                        : side == 5 ? depthwise_kernel<5, 1>
                        : side == 7 ? depthwise_kernel<7, 1>
                                    : depthwise_kernel<0, 0>;
    return launch(kernel, &d, c, side > 0 ? rows_of<3> : rows_of<0>, queue);
}

unsigned sw_cuda_depthwise_parts(const sw_cuda_conv &c)
{
    if (!sw_cuda_depthwise_is(c) || side_of(c) == 0)
        return 0;
    const int64_t counts = c.batch * counts_of(rows_of<3>, c.out_h, c.out_w);
    const int64_t wanted = SW_CUDA_DW_TILES / c.groups + 1;
    const int64_t worth = counts / SW_CUDA_DW_POSITIONS, least = (counts >> 29) + 1;
    const int64_t parts = wanted < worth ? wanted : worth;
    return (unsigned)(parts > least ? parts : least);
}

sw_status sw_cuda_depthwise_dw(float *dw, const float *x, const float *dy,
                               const sw_cuda_conv &c, unsigned parts, int add,
                               const sw_cuda_column_sum &sum, bool *summed,
                               const sw_cuda_queue *queue)
{
    depthwise_dw d = {};
    const int side = side_of(c);
    const int64_t plane = counts_of(rows_of<3>, c.out_h, c.out_w);
    d.dw = dw, d.x = x, d.dy = dy;
    d.channels = c.groups;
    d.in_h = c.in_h, d.in_w = c.in_w, d.out_h = c.out_h, d.out_w = c.out_w;
    d.pad = c.pad, d.add = add;
    d.parts = parts, d.sum = sum;
    if (parts > 1 && sw_cuda_reduce_parts(parts, true) == 1)
        d.tickets = sw_cuda_reduce_tickets((unsigned)c.groups, parts, queue);
    *summed |= d.tickets != nullptr;
    d.counts = c.batch * plane;
    d.each = (d.counts + parts - 1) / parts;
    d.plane = sw_cuda_divisor_of(plane);
    d.row = sw_cuda_divisor_of(c.out_w);
    const bool one = c.stride == 1;
    const auto kernel =
        side == 3   ? (one ? depthwise_dw_kernel<3, 1> : depthwise_dw_kernel<3, 2>)
        : side == 5 ? (one ? depthwise_dw_kernel<5, 1> : depthwise_dw_kernel<5, 2>)
                    : depthwise_dw_kernel<7, 1>;
    SW_TRY(sw_cuda_conv_tiles((int64_t)parts * c.groups));
    SW_CUDA_LAUNCH(kernel, parts * (unsigned)c.groups, SW_CUDA_THREADS, 0, queue, d);
    return sw_cuda_launched("conv2d");
}
