/* Convolution and the gradient of its input, as products without a matrix of patches: the rows
 * of a tile are channels of the result, its columns positions (image, row, column) of it, and
 * the terms of the sum (channel, tap). The position of a column is worked out once, and what a
 * term adds to it once for all columns: a table in shared memory holds the terms of a slice.
 *
 * The gradient of x is the same job with the weights read backwards; kernels/taps.h says how a
 * stride is undone. Each phase has tiles of its own, and only the terms that it meets.
 *
 * Kernels of one position are products of planes: four positions are read at once. Sums run
 * over channels, then taps, from the bias on, whatever the tile. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/planes.h"
#include "kernels/cuda/tile.h"
#include "kernels/taps.h"

struct conv_job {
    float *y;
    const float *x, *w, *bias;
    int64_t x_image, y_image, w_group; /* elements */
    int batch, groups, in_c, out_c;    /* channels of a group */
    int in_h, in_w, out_h, out_w;      /* of x and y */
    int kernel_h, kernel_w, stride, dilation, up, pad_y, pad_x;
    int w_out, w_in, w_row, w_tap; /* steps of w: channel of y, channel of x, ky, kx */
    sw_tap_step step;
    int add, wide; /* y in fours */
    unsigned tiles_m, tiles_n;
};

/* Blocks that keep a large card busy; tests give fewer. */
#ifndef SW_CUDA_CONV_TILES
#define SW_CUDA_CONV_TILES 256
#endif

typedef sw_cuda_tile<16, 128, 8, 4, 4, 6> tile_16;
typedef sw_cuda_tile<32, 128, 8, 4, 8, 4> tile_32;
typedef sw_cuda_tile<64, 128, 8, 8, 8, 3> tile_64;
typedef sw_cuda_tile<128, 128, 8, 8, 8, 2> tile_128;

/* One phase of one axis: its n positions of y are origin + i * up. Position i meets weights
 * first + t
 * * step.weight, t < taps, at positions at + i * stride + t * step.position of x. */
struct phase {
    int origin, n, taps, first, at;
};
static __device__ __forceinline__ phase phase_of(const conv_job &j, int origin, int pad,
                                                 int kernel, int size)
{
    int64_t first, at;
    const int64_t taps =
        sw_taps_at(origin - pad, j.up, j.dilation, j.step, kernel, &first, &at);
    return phase{origin, size > origin ? (size - origin + j.up - 1) / j.up : 0, (int)taps,
                 (int)first, (int)at};
}

/* The part that a block works on; in shared memory, since little of it is in constant use. */
struct spot {
    int row, group, depth; /* the first channel of y; terms */
    int64_t first, end;    /* columns */
    int64_t image;         /* of the first one */
    uint32_t in_plane;
    phase v, h;
    sw_cuda_divisor plane, width, taps, tap_row;
};

template <class T> static __device__ __forceinline__ spot conv_spot_of(const conv_job &j)
{
    unsigned b = blockIdx.x;
    spot s;
    s.row = (int)(b % j.tiles_m) * T::ROWS;
    b /= j.tiles_m;
    s.first = (int64_t)(b % j.tiles_n) * T::COLS;
    b /= j.tiles_n;
    s.group = (int)(b % (unsigned)j.groups);
    b /= (unsigned)j.groups;
    s.v = phase_of(j, (int)b / j.up, j.pad_y, j.kernel_h, j.out_h);
    s.h = phase_of(j, (int)b % j.up, j.pad_x, j.kernel_w, j.out_w);
    s.end = (int64_t)j.batch * s.v.n * s.h.n;
    s.depth = j.in_c * s.v.taps * s.h.taps;
    s.plane = sw_cuda_divisor_of((int64_t)s.v.n * s.h.n);
    s.width = sw_cuda_divisor_of(s.h.n);
    s.taps = sw_cuda_divisor_of(s.v.taps * s.h.taps);
    s.tap_row = sw_cuda_divisor_of(s.h.taps);
    s.image = s.first < s.end ? s.first / s.plane.by : 0;
    s.in_plane = (uint32_t)(s.first - s.image * s.plane.by);
    return s;
}

/* Place `first` + q of the columns. */
struct column {
    int64_t image;
    int y, x; /* in the phase */
};
static __device__ __forceinline__ column conv_column_of(const spot &s, int q)
{
    uint32_t r = s.in_plane + (uint32_t)q;
    column c = {s.image + sw_cuda_split(s.plane, &r), 0, 0};
    c.y = (int)sw_cuda_split(s.width, &r);
    c.x = (int)r;
    return c;
}

/* Term k: what it adds to a position of x, as elements, rows and columns, and its weight. */
static __device__ __forceinline__ int4 term_of(const conv_job &j, const spot &s, int k)
{
    uint32_t t = (uint32_t)k;
    if (k >= s.depth)
        return make_int4(0, SW_CUDA_OUTSIDE, 0, 0);
    const int c = (int)sw_cuda_split(s.taps, &t);
    const int ty = (int)sw_cuda_split(s.tap_row, &t), tx = (int)t;
    const int y = ty * (int)j.step.position, x = tx * (int)j.step.position;
    return make_int4((c * j.in_h + y) * j.in_w + x, y, x,
                     c * j.w_in + (s.v.first + ty * (int)j.step.weight) * j.w_row +
                         (s.h.first + tx * (int)j.step.weight) * j.w_tap);
}

/* ---- slices ------------------------------------------------------------------------------ */

/* Where a thread reads x: a column, or four of them. */
struct source {
    const float *at; /* its position for the first tap, maybe outside */
    int y, x;
};
template <class T, bool WIDE>
static __device__ __forceinline__ source source_of(const conv_job &j, const spot &s)
{
    const int q = WIDE ? (int)threadIdx.x % (T::COLS / 4) * 4 : (int)threadIdx.x % T::COLS;
    source from = {j.x, SW_CUDA_OUTSIDE, 0};
    if (s.first + q < s.end) {
        const column c = conv_column_of(s, q);
        from.y = s.v.at + c.y * j.stride;
        from.x = s.h.at + c.x * j.stride;
        from.at += c.image * j.x_image + (int64_t)s.group * j.in_c * j.in_h * j.in_w +
                   from.y * j.in_w + from.x;
    }
    return from;
}

template <class T> struct slice {
    static constexpr int A = T::DEEP * T::ROWS / T::THREADS, B = T::DEEP * T::COLS / T::THREADS;
    float a[A], b[B];
};

/* Slice i from memory to registers; `terms` is its table. Zeros outside. */
template <class T, bool WIDE>
static __device__ __forceinline__ void conv_fetch(slice<T> &to, const conv_job &j,
                                                  const spot &s, const source &from,
                                                  const int4 *terms, int i)
{
    const int k = (int)threadIdx.x % T::DEEP, row = s.row + (int)threadIdx.x / T::DEEP;
    const bool there = i * T::DEEP + k < s.depth;
    const float *w = j.w + s.group * j.w_group + terms[k].w;
    SW_UNROLL
    for (int r = 0; r < slice<T>::A; r++) {
        const int m = row + r * (T::THREADS / T::DEEP);
        to.a[r] = there && m < j.out_c ? w[(int64_t)m * j.w_out] : 0.0f;
    }
    constexpr int W = WIDE ? 4 : 1, STEP = T::THREADS * W / T::COLS;
    const int first = (int)threadIdx.x / (T::COLS / W);
    SW_UNROLL
    for (int r = 0; r < slice<T>::B / W; r++) {
        const int4 term = terms[first + r * STEP];
        float v[W] = {};
        if (sw_cuda_inside(from.y, term.y, j.in_h) &&
            (WIDE || sw_cuda_inside(from.x, term.z, j.in_w)))
            sw_cuda_load(v, from.at + term.x);
        SW_UNROLL
        for (int q = 0; q < W; q++)
            to.b[r * W + q] = v[q];
    }
}

/* From registers to shared memory. */
template <class T, bool WIDE>
static __device__ __forceinline__ void conv_store_slice(const slice<T> &from, float *a,
                                                        float *b)
{
    const int k = (int)threadIdx.x % T::DEEP, m = (int)threadIdx.x / T::DEEP;
    SW_UNROLL
    for (int r = 0; r < slice<T>::A; r++)
        a[k * T::A_LINE + m + r * (T::THREADS / T::DEEP)] = from.a[r];
    constexpr int W = WIDE ? 4 : 1, STEP = T::THREADS * W / T::COLS;
    const int first = (int)threadIdx.x / (T::COLS / W);
    const int q = (int)threadIdx.x % (T::COLS / W) * W;
    SW_UNROLL
    for (int r = 0; r < slice<T>::B / W; r++) {
        float v[W];
        SW_UNROLL
        for (int c = 0; c < W; c++)
            v[c] = from.b[r * W + c];
        sw_cuda_store<SW_CUDA_ASSIGN>(b + (first + r * STEP) * T::B_LINE + q, v);
    }
}

/* ---- results ----------------------------------------------------------------------------- */

/* W neighbouring positions of y. */
template <int W> static __device__ __forceinline__ void put(float *y, const float *sum, int add)
{
    float v[W], old[W] = {};
    if (add)
        sw_cuda_load(old, y);
    SW_UNROLL
    for (int i = 0; i < W; i++)
        v[i] = add ? old[i] + sum[i] : sum[i];
    sw_cuda_store(y, v);
}

/* Column q of the tile: channel m = 0 of the group. */
static __device__ __forceinline__ float *result_of(const conv_job &j, const spot &s, int q)
{
    const column c = conv_column_of(s, q);
    const int y = s.v.origin + c.y * j.up, x = s.h.origin + c.x * j.up;
    return j.y + c.image * j.y_image + (int64_t)s.group * j.out_c * j.out_h * j.out_w +
           y * j.out_w + x;
}

template <class T>
static __device__ __forceinline__ void finish(const conv_job &j, const spot &s,
                                              const float (&sum)[T::DOWN][T::ACROSS])
{
    const int plane = j.out_h * j.out_w;
    SW_UNROLL
    for (int q = 0; q < T::ACROSS; q++) {
        const int col = T::col_of(q);
        if ((j.wide && q % 4 != 0) || s.first + col >= s.end)
            continue;
        float *y = result_of(j, s, col);
        SW_UNROLL
        for (int r = 0; r < T::DOWN; r++) {
            const int m = s.row + T::row_of(r);
            if (m >= j.out_c)
                continue;
            if (j.wide && q % 4 == 0)
                put<4>(y + m * plane, &sum[r][q / 4 * 4], j.add);
            else
                put<1>(y + m * plane, &sum[r][q], j.add);
        }
    }
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT) conv_kernel(conv_job j)
{
    SW_SHARED(float4, shared, T::ROOM / 4);
    SW_SHARED(int4, table, 2 * T::DEEP);
    SW_SHARED(spot, here, 1);
    float *const a = reinterpret_cast<float *>(shared), *const b = a + 2 * T::A_ROOM;
    const spot &s = here[0];
    const int k = (int)threadIdx.x;
    if (k == 0)
        here[0] = conv_spot_of<T>(j);
    __syncthreads();
    if (s.first >= s.end)
        return;
    const source from = source_of<T, WIDE>(j, s);
    const int slices = (s.depth + T::DEEP - 1) / T::DEEP;
    slice<T> held;
    float sum[T::DOWN][T::ACROSS];
    SW_UNROLL
    for (int r = 0; r < T::DOWN; r++) {
        const int m = s.row + T::row_of(r);
        const bool has = j.bias != nullptr && m < j.out_c;
        const float bias = has ? j.bias[s.group * j.out_c + m] : 0.0f;
        SW_UNROLL
        for (int q = 0; q < T::ACROSS; q++)
            sum[r][q] = bias;
    }
    if (k < 2 * T::DEEP)
        table[k] = term_of(j, s, k);
    __syncthreads();
    conv_fetch<T, WIDE>(held, j, s, from, table, 0);
    conv_store_slice<T, WIDE>(held, a, b);
    __syncthreads();
    for (int i = 0; i < slices; i++) {
        const int now = i % 2, next = 1 - now;
        if (i + 1 < slices)
            conv_fetch<T, WIDE>(held, j, s, from, table + next * T::DEEP, i + 1);
        T::multiply(sum, a + now * T::A_ROOM, b + now * T::B_ROOM);
        if (i + 1 < slices)
            conv_store_slice<T, WIDE>(held, a + next * T::A_ROOM, b + next * T::B_ROOM);
        if (k < T::DEEP)
            table[now * T::DEEP + k] = term_of(j, s, (i + 2) * T::DEEP + k);
        __syncthreads();
    }
    finish<T>(j, s, sum);
}

/* ---- launches ---------------------------------------------------------------------------- */

template <class T>
static sw_status conv_launch(conv_job *j, bool wide, const sw_cuda_queue *queue)
{
    const int64_t h = (j->out_h + j->up - 1) / j->up, w = (j->out_w + j->up - 1) / j->up;
    const int64_t m = (j->out_c + T::ROWS - 1) / T::ROWS;
    const int64_t n = (j->batch * h * w + T::COLS - 1) / T::COLS;
    const int64_t blocks = m * n * j->groups * j->up * j->up;
    SW_TRY(sw_cuda_conv_tiles(blocks));
    j->tiles_m = (unsigned)m, j->tiles_n = (unsigned)n;
    const auto kernel = wide ? conv_kernel<T, true> : conv_kernel<T, false>;
    SW_CUDA_LAUNCH(kernel, (unsigned)blocks, T::THREADS, 0, queue, *j);
    return sw_cuda_launched("conv2d");
}

/* Tiles as low as the channels; large ones where they are full and there are enough. */
static sw_status run(conv_job *j, const sw_cuda_queue *queue)
{
    const int64_t positions = (int64_t)j->out_h * j->out_w, columns = j->batch * positions;
    const int m = j->out_c;
    const bool flat = j->in_h == 1 && j->kernel_h * j->kernel_w == 1 && j->stride == 1 &&
                      j->up == 1 && j->pad_y == 0 && j->out_h == 1;
    const bool fours = flat && positions % 4 == 0;
    j->step = sw_tap_steps(j->up, j->dilation);
    j->wide = positions % 4 == 0 && j->up == 1 && sw_cuda_aligned(j->y);
    if (columns == 0 || m == 0)
        return SW_OK;
    const bool wide = fours && sw_cuda_aligned(j->x);
    const int64_t large = (int64_t)(m + 127) / 128 * ((columns + 127) / 128) * j->groups;
    if (m <= tile_16::ROWS)
        return conv_launch<tile_16>(j, wide, queue);
    if (m <= tile_32::ROWS)
        return conv_launch<tile_32>(j, wide, queue);
    if ((m + 63) / 64 % 2 == 0 && large >= SW_CUDA_CONV_TILES)
        return conv_launch<tile_128>(j, wide, queue);
    return conv_launch<tile_64>(j, wide, queue);
}

/* ---- as products by a library ------------------------------------------------------------ */

#define LEAST_POSITIONS 32 /* of a plane */

/* Kernels of one position are a product of matrices for each image and group. The library's
 * tiles (runtime/device/cuda/blas.c) lie in one image, so it leaves small planes to the kernel
 * above, and products with a bias, one number for each row. */
static bool is_product(const sw_cuda_conv &c, bool bias, const sw_cuda_queue *queue)
{
    return !bias && queue->blas != nullptr && c.kernel_h == 1 && c.kernel_w == 1 &&
           c.stride == 1 && c.pad == 0 && c.in_h * c.in_w >= LEAST_POSITIONS;
}

/* Results of all images and groups: steps of w and of the images that it is multiplied with. */
static sw_cuda_product over_images(sw_cuda_product g, const sw_cuda_conv &c, int64_t channels)
{
    const int64_t plane = (int64_t)c.in_h * c.in_w;
    g.p.n_results = 2;
    g.p.result[0] = c.batch, g.p.result[1] = c.groups;
    g.p.result_a[1] = (int64_t)c.out_c * c.in_c;
    g.p.result_b[0] = c.groups * channels * plane, g.p.result_b[1] = channels * plane;
    return g;
}
static sw_cuda_product product_of(const sw_cuda_conv &c, bool backward)
{
    const int64_t plane = (int64_t)c.in_h * c.in_w;
    return backward
               ? over_images(sw_cuda_product_of(c.in_c, plane, c.out_c, 1, c.in_c, plane, 1), c,
                             c.out_c)
               : over_images(sw_cuda_product_of(c.out_c, plane, c.in_c, c.in_c, 1, plane, 1), c,
                             c.in_c);
}

static sw_status product(const conv_job &j, const sw_cuda_conv &c, bool backward,
                         const sw_launch *l, const sw_cuda_queue *queue)
{
    sw_cuda_product g = product_of(c, backward);
    g.p.c = j.y, g.p.a = j.w, g.p.b = j.x;
    g.p.accumulate = j.add != 0;
    return sw_cuda_product_run("conv2d", &g, l->scratch, l->scratch_bytes, queue);
}

/* Room for a library, where one makes it. */
static size_t scratch(const sw_kernel_info *info, bool back, const sw_cuda_queue *queue)
{
    const sw_type *x = back ? info->out : info->in, *y = back ? info->in + 1 : info->out;
    const sw_cuda_conv c =
        sw_cuda_conv_flat(sw_cuda_conv_of(x, info->in + !back, y, info->attrs));
    if (sw_cuda_depthwise_is(c) || !is_product(c, !back && info->n_in > 2, queue))
        return 0;
    sw_cuda_product g = product_of(c, back);
    g.p.accumulate = (info->accumulate & 1u) != 0;
    return sw_cuda_product_bytes(&g, queue);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_y_scratch)
{
    return scratch(info, false, queue);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_dx_scratch)
{
    return scratch(info, true, queue);
}

/* ---- entries ----------------------------------------------------------------------------- */

/* The result; or, `back`, the gradient of x. */
static sw_status convolve(const sw_launch *l, bool back, const sw_cuda_queue *queue)
{
    SW_TRY(sw_cuda_images("conv2d", l));
    const sw_buffer *x = back ? l->out : l->in, *y = back ? l->in + 1 : l->out;
    const sw_cuda_conv c =
        sw_cuda_conv_flat(sw_cuda_conv_of(&x->type, &l->in[!back].type, &y->type, l->attrs));
    const int taps = c.kernel_h * c.kernel_w;
    SW_TRY(sw_cuda_conv_reach(c));
    conv_job j = {};
    j.y = sw_cuda_out(l, 0);
    j.x = sw_cuda_in(l, back);
    j.w = sw_cuda_in(l, !back);
    j.bias = !back && l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr;
    j.add = sw_cuda_adds(l, 0);
    if (sw_cuda_depthwise_is(c))
        return back ? sw_cuda_depthwise_dx(j.y, j.x, j.w, c, j.add, queue)
                    : sw_cuda_depthwise(j.y, j.x, j.w, j.bias, c, j.add, queue);
    if (is_product(c, j.bias != nullptr, queue))
        return product(j, c, back, l, queue);
    j.batch = c.batch, j.groups = c.groups, j.in_c = c.in_c, j.out_c = c.out_c;
    j.in_h = c.in_h, j.in_w = c.in_w, j.out_h = c.out_h, j.out_w = c.out_w;
    j.kernel_h = c.kernel_h, j.kernel_w = c.kernel_w;
    j.stride = c.stride, j.dilation = c.dilation, j.up = 1, j.pad_y = j.pad_x = c.pad;
    j.w_group = (int64_t)c.out_c * c.in_c * taps;
    j.w_out = c.in_c * taps, j.w_in = taps, j.w_row = c.kernel_w, j.w_tap = 1;
    j.x_image = sw_cuda_conv_in(c), j.y_image = sw_cuda_conv_out(c);
    if (back) {
        j.w += taps - 1;
        j.in_c = c.out_c, j.out_c = c.in_c;
        j.in_h = c.out_h, j.in_w = c.out_w, j.out_h = c.in_h, j.out_w = c.in_w;
        j.stride = 1, j.up = c.stride;
        j.pad_y = (c.kernel_h - 1) * c.dilation - c.pad;
        j.pad_x = (c.kernel_w - 1) * c.dilation - c.pad;
        j.w_out = taps, j.w_in = c.in_c * taps, j.w_row = -c.kernel_w, j.w_tap = -1;
        j.x_image = sw_cuda_conv_out(c), j.y_image = sw_cuda_conv_in(c);
    }
    return run(&j, queue);
}

/* in: x, w, [bias]; or w, dy */
SW_CUDA_ENTRY_OF(conv2d, forward, sw_cuda_conv2d_y_scratch, 0, convolve(l, false, queue))
SW_CUDA_ENTRY_OF(conv2d, grad0, sw_cuda_conv2d_dx_scratch, 0, convolve(l, true, queue))

/* ---- gradients of weights and bias ------------------------------------------------------- */

/* The gradients of a convolution's weights and bias. dw is a product whose rows are channels of
 * dy, whose columns are (channel of x, tap), and whose sum goes over all positions (image, row,
 * column) of dy. Few results with long sums: the positions are cut into parts, whose number
 * follows from the sizes; they lie in scratch and are added in order. The blocks of the first
 * columns add up the rows too, from the slices that they have in shared memory: that is db,
 * which comes after the weights of its part. */

#define MOST_PARTS 256

struct dw_job {
    sw_cuda_conv c;
    float *to; /* dw, or parts of all weights, each with db after them */
    const float *x, *dy;
    int64_t x_image, y_image, positions, each; /* positions of all images, and of a part */
    int64_t step;                              /* of the parts */
    int cols, add, add_db;
    unsigned tiles_m, tiles_n;
    sw_cuda_divisor plane, width, taps, tap_row;
    float *db; /* of the first part; NULL: not here */
};

typedef sw_cuda_tile<16, 64, 16, 4, 4, 10> dw_16;
typedef sw_cuda_tile<64, 64, 16, 4, 8, 4> dw_64;
typedef sw_cuda_tile<128, 128, 8, 8, 8, 2> dw_128;

/* Column n: what it adds to a position of x under the first tap: elements, rows, columns; and
 * whether the block adds up the row of that number. */
static __device__ __forceinline__ int4 dw_column_of(const dw_job &j, int n, int adds_up)
{
    uint32_t t = (uint32_t)n;
    if (n >= j.cols)
        return make_int4(0, SW_CUDA_OUTSIDE, 0, adds_up);
    const int c = (int)sw_cuda_split(j.taps, &t);
    const int ky = (int)sw_cuda_split(j.tap_row, &t), kx = (int)t;
    const int y = ky * j.c.dilation - j.c.pad, x = kx * j.c.dilation - j.c.pad;
    return make_int4((c * j.c.in_h + y) * j.c.in_w + x, y, x, adds_up);
}

/* The part that a block works on: rows and columns of the tile, positions [from, end). */
struct dw_spot {
    int row, col, group;
    int64_t part, from, end;
};
template <class T> static __device__ __forceinline__ dw_spot dw_spot_of(const dw_job &j)
{
    unsigned b = blockIdx.x;
    dw_spot s;
    s.row = (int)(b % j.tiles_m) * T::ROWS;
    b /= j.tiles_m;
    s.col = (int)(b % j.tiles_n) * T::COLS;
    b /= j.tiles_n;
    s.group = (int)(b % (unsigned)j.c.groups);
    s.part = b / (unsigned)j.c.groups;
    s.from = s.part * j.each;
    s.end = s.from + j.each < j.positions ? s.from + j.each : j.positions;
    return s;
}

/* Where a thread is among the positions: one of each slice is its own. */
struct dw_position {
    const float *x, *dy; /* of the image and group; x at the position of the first tap */
    int64_t image, left; /* positions from it on that belong to the part */
    uint32_t at;         /* in the plane of dy */
    int y, x0;           /* in x */
};
static __device__ __forceinline__ void locate(dw_position *p, const dw_job &j, const dw_spot &s)
{
    p->image += sw_cuda_split(j.plane, &p->at);
    uint32_t x = p->at;
    p->y = (int)sw_cuda_split(j.width, &x) * j.c.stride;
    p->x0 = (int)x * j.c.stride;
    p->dy = j.dy + p->image * j.y_image + ((int64_t)s.group * j.c.out_c + s.row) * j.plane.by +
            p->at;
    p->x = j.x + p->image * j.x_image + (int64_t)s.group * j.c.in_c * j.c.in_h * j.c.in_w +
           p->y * j.c.in_w + p->x0;
}
template <class T>
static __device__ __forceinline__ dw_position position_of(const dw_job &j, const dw_spot &s)
{
    const int64_t first = s.from + (int)threadIdx.x % T::DEEP;
    dw_position p = {};
    p.left = s.end - first;
    p.image = p.left > 0 ? first / j.plane.by : 0;
    p.at = p.left > 0 ? (uint32_t)(first - p.image * j.plane.by) : 0;
    locate(&p, j, s);
    return p;
}

template <class T> struct dw_slice {
    static constexpr int STEP = T::THREADS / T::DEEP; /* lines that are read at once */
    static constexpr int A = T::ROWS / STEP, B = T::COLS / STEP;
    float a[A], b[B];
};

/* A thread's position of each line; zeros outside. */
template <class T>
static __device__ __forceinline__ void dw_fetch(dw_slice<T> &to, const dw_job &j,
                                                const dw_spot &s, const dw_position &p,
                                                const int4 *columns)
{
    const int line = (int)threadIdx.x / T::DEEP;
    SW_UNROLL
    for (int r = 0; r < dw_slice<T>::A; r++) {
        const int m = line + r * dw_slice<T>::STEP;
        const bool there = p.left > 0 && s.row + m < j.c.out_c;
        to.a[r] = there ? p.dy[m * (int64_t)j.plane.by] : 0.0f;
    }
    SW_UNROLL
    for (int r = 0; r < dw_slice<T>::B; r++) {
        const int4 column = columns[line + r * dw_slice<T>::STEP];
        const bool there = p.left > 0 && sw_cuda_inside(p.y, column.y, j.c.in_h) &&
                           sw_cuda_inside(p.x0, column.z, j.c.in_w);
        to.b[r] = there ? p.x[column.x] : 0.0f;
    }
}

template <class T>
static __device__ __forceinline__ void dw_store_slice(const dw_slice<T> &from, float *a,
                                                      float *b)
{
    const int k = (int)threadIdx.x % T::DEEP, line = (int)threadIdx.x / T::DEEP;
    SW_UNROLL
    for (int r = 0; r < dw_slice<T>::A; r++)
        a[k * T::A_LINE + line + r * dw_slice<T>::STEP] = from.a[r];
    SW_UNROLL
    for (int r = 0; r < dw_slice<T>::B; r++)
        b[k * T::B_LINE + line + r * dw_slice<T>::STEP] = from.b[r];
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT) dw_kernel(dw_job j)
{
    SW_SHARED(float4, shared, T::ROOM / 4);
    SW_SHARED(int4, columns, T::COLS);
    SW_SHARED(double, rows, T::ROWS); /* sums of dy */
    float *const a = reinterpret_cast<float *>(shared), *const b = a + 2 * T::A_ROOM;
    const dw_spot s = dw_spot_of<T>(j);
    const int slices = (int)((s.end - s.from + T::DEEP - 1) / T::DEEP);
    const int line = (int)threadIdx.x;
    float sum[T::DOWN][T::ACROSS] = {};
    dw_slice<T> held;
    static_assert(T::ROWS <= T::COLS && T::ROWS <= T::THREADS,
                  "a thread and a column for each row");
    for (int n = (int)threadIdx.x; n < T::COLS; n += T::THREADS)
        columns[n] = dw_column_of(j, s.col + n, j.db != nullptr && s.col == 0);
    if (line < T::ROWS)
        rows[line] = 0.0;
    dw_position p = position_of<T>(j, s);
    __syncthreads();
    dw_fetch<T>(held, j, s, p, columns);
    dw_store_slice<T>(held, a, b);
    __syncthreads();
    for (int i = 0; i < slices; i++) {
        const int now = i % 2, next = 1 - now;
        if (i + 1 < slices) {
            p.left -= T::DEEP;
            p.at += T::DEEP;
            locate(&p, j, s);
            dw_fetch<T>(held, j, s, p, columns);
        }
        T::multiply(sum, a + now * T::A_ROOM, b + now * T::B_ROOM);
        if (line < T::ROWS && columns[line].w != 0) {
            float slice = 0.0f;
            SW_UNROLL
            for (int k = 0; k < T::DEEP; k++)
                slice += a[now * T::A_ROOM + k * T::A_LINE + line];
            rows[line] += (double)slice;
        }
        if (i + 1 < slices)
            dw_store_slice<T>(held, a + next * T::A_ROOM, b + next * T::B_ROOM);
        __syncthreads();
    }
    SW_UNROLL
    for (int r = 0; r < T::DOWN; r++) {
        const int m = s.row + T::row_of(r);
        SW_UNROLL
        for (int q = 0; q < T::ACROSS; q++) {
            const int n = s.col + T::col_of(q);
            float *to =
                j.to + s.part * j.step + ((int64_t)s.group * j.c.out_c + m) * j.cols + n;
            if (m < j.c.out_c && n < j.cols)
                *to = j.add ? *to + sum[r][q] : sum[r][q];
        }
    }
    if (line < T::ROWS && columns[line].w != 0 && s.row + line < j.c.out_c)
        sw_cuda_set(j.db, s.part * j.step + (int64_t)s.group * j.c.out_c + s.row + line,
                    rows[line], j.add_db);
}

/* ---- parts ------------------------------------------------------------------------------- */

/* By sizes alone, as scratch is. */
struct dw_plan {
    int rows, tile; /* of a tile: both */
    int64_t tiles_m, tiles_n, positions;
    int64_t weights, step; /* numbers of a part: db is among them where they are more */
    size_t bytes;          /* of all parts */
    unsigned parts;
    bool direct; /* depthwise, without tiles */
};
static dw_plan plan_of(const sw_cuda_conv &c, int n_out)
{
    const int64_t cols = (int64_t)c.in_c * c.kernel_h * c.kernel_w;
    const bool large = c.out_c > 64 && cols > 64;
    dw_plan p = {};
    p.rows = c.out_c <= dw_16::ROWS ? 16 : large ? 128 : 64;
    p.tile = large ? 128 : 64;
    p.tiles_m = (c.out_c + p.rows - 1) / p.rows;
    p.tiles_n = (cols + p.tile - 1) / p.tile;
    p.positions = (int64_t)c.batch * c.out_h * c.out_w;
    const int64_t tiles = p.tiles_m * p.tiles_n * c.groups;
    const int64_t wanted = tiles > 0 ? (SW_CUDA_DW_TILES + tiles - 1) / tiles : 1;
    const int64_t worth = p.positions / SW_CUDA_DW_POSITIONS;
    const int64_t parts = wanted < worth ? wanted : worth;
    p.parts = (unsigned)(parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts);
    p.direct = sw_cuda_depthwise_parts(c) > 0;
    if (p.direct)
        p.parts = sw_cuda_depthwise_parts(c);
    p.step = p.weights = c.groups * c.out_c * cols;
    if (n_out > 1 && !p.direct && p.weights > 0)
        p.step += (int64_t)c.groups * c.out_c;
    p.bytes = p.parts > 1 ? sw_cuda_round(p.parts * (size_t)p.step * sizeof(float)) : 0;
    return p;
}

/* dw and db from their parts. */
struct dw_sum : sw_cuda_column_sum {
    float *db;
    int64_t weights;
    int add_db;
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        if (c < weights)
            sw_cuda_column_sum::put(c, sum);
        else
            sw_cuda_set(db, c - weights, sum[0], add_db);
    }
};

/* The channels of dy. */
static sw_cuda_plane_shape planes_of(const sw_type *dy)
{
    const int64_t *dim = dy->shape.dim;
    return sw_cuda_planes_of(dim[0], dim[1], dim[2] * dim[3]);
}

/* A bias that is not among the parts comes after the weights, in the place of what is done with
 * then. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_dw_scratch)
{
    const sw_type *x = &info->in[0], *y = &info->in[1], *w = &info->out[0];
    const sw_cuda_conv c = sw_cuda_conv_flat(sw_cuda_conv_of(x, w, y, info->attrs));
    const dw_plan p = plan_of(c, info->n_out);
    const bool apart = info->n_out > 1 && p.step == p.weights;
    const size_t db = apart ? sw_cuda_planes_bytes(planes_of(y), 1) : 0;
    const size_t dw =
        p.parts > 1 ? p.bytes + sw_cuda_reduce_bytes(p.parts, p.step, dw_sum::N, true) : 0;
    return dw > db ? dw : db;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_db_scratch)
{
    return sw_cuda_planes_bytes(planes_of(&info->in[0]), 1);
}

/* ---- bias -------------------------------------------------------------------------------- */

struct db_sum {
    enum { N = 1 };
    float *db;
    const float *dy;
    int adds;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float v[W];
        sw_cuda_load(v, dy + at);
        for (int k = 0; k < W; k++)
            sum[0] += (double)v[k];
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        sw_cuda_set(db, c, sum[0], adds);
    }
};

static sw_status bias(const sw_launch *l, const sw_cuda_queue *queue)
{
    const int dy = l->n_in - 1, db = l->n_out - 1;
    const db_sum f = {sw_cuda_out(l, db), sw_cuda_in(l, dy), sw_cuda_adds(l, db)};
    return sw_cuda_planes_reduce("conv2d", f, planes_of(&l->in[dy].type), sw_cuda_aligned(f.dy),
                                 l->scratch, queue);
}

/* ---- entries ----------------------------------------------------------------------------- */

static sw_status dw_launch(dw_job &j, const dw_plan &p, const sw_cuda_queue *queue)
{
    const int64_t blocks = p.tiles_m * p.tiles_n * j.c.groups * p.parts;
    const unsigned threads = p.rows == 16   ? dw_16::THREADS
                             : p.rows == 64 ? dw_64::THREADS
                                            : dw_128::THREADS;
    const auto kernel = p.rows == 16   ? dw_kernel<dw_16>
                        : p.rows == 64 ? dw_kernel<dw_64>
                                       : dw_kernel<dw_128>;
    j.x_image = sw_cuda_conv_in(j.c), j.y_image = sw_cuda_conv_out(j.c);
    j.positions = p.positions;
    j.each = ((p.positions + p.parts - 1) / p.parts + 15) / 16 * 16;
    j.step = p.step;
    j.cols = j.c.in_c * j.c.kernel_h * j.c.kernel_w;
    j.tiles_m = (unsigned)p.tiles_m, j.tiles_n = (unsigned)p.tiles_n;
    j.plane = sw_cuda_divisor_of((int64_t)j.c.out_h * j.c.out_w);
    j.width = sw_cuda_divisor_of(j.c.out_w);
    j.taps = sw_cuda_divisor_of((int64_t)j.c.kernel_h * j.c.kernel_w);
    j.tap_row = sw_cuda_divisor_of(j.c.kernel_w);
    SW_TRY(sw_cuda_conv_tiles(blocks));
    SW_CUDA_LAUNCH(kernel, (unsigned)blocks, threads, 0, queue, j);
    return sw_cuda_launched("conv2d");
}

/* in: x, dy; out: dw, [db]. Parts lie in scratch, where there are several, and are added after
 * that, unless depthwise has done it. */
SW_CUDA_ENTRY(conv2d, grad1, sw_cuda_conv2d_dw_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv2d", l));
    const sw_type *x = &l->in[0].type, *y = &l->in[1].type, *w = &l->out[0].type;
    const sw_cuda_conv c = sw_cuda_conv_flat(sw_cuda_conv_of(x, w, y, l->attrs));
    const dw_plan p = plan_of(c, l->n_out);
    float *const parts = static_cast<float *>(l->scratch), *const dw = sw_cuda_out(l, 0);
    float *const db = l->n_out > 1 ? sw_cuda_out(l, 1) : nullptr;
    const dw_sum f = {
        {dw, parts, p.step, sw_cuda_adds(l, 0)}, db, p.weights, sw_cuda_adds(l, 1)};
    const bool many = p.parts > 1, apart = p.step == p.weights;
    bool summed = !many;
    dw_job j = {};
    j.c = c;
    j.to = many ? parts : dw;
    j.x = sw_cuda_in(l, 0), j.dy = sw_cuda_in(l, 1);
    j.add = many ? 0 : f.add;
    j.db = apart ? nullptr : many ? parts + p.weights : db;
    j.add_db = many ? 0 : f.add_db;
    SW_TRY(sw_cuda_conv_reach(c));
    if (p.direct)
        SW_TRY(sw_cuda_depthwise_dw(j.to, j.x, j.dy, c, p.parts, j.add, f, &summed, queue));
    else if (p.weights > 0)
        SW_TRY(dw_launch(j, p, queue));
    if (!summed)
        SW_TRY(sw_cuda_reduce<true>("conv2d", f, p.parts, p.step,
                                    static_cast<unsigned char *>(l->scratch) + p.bytes, queue));
    return db != nullptr && apart ? bias(l, queue) : SW_OK;
}

/* in: dy; out: db */
SW_CUDA_ENTRY(conv2d, grad3, sw_cuda_conv2d_db_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv2d", l));
    return bias(l, queue);
}

SW_CUDA_ENTRY_BY(conv2d, 2, sw_cuda_conv2d_grad1, sw_cuda_conv2d_dw_scratch, 0)
