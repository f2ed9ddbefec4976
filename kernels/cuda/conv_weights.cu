/* The gradients of a convolution's weights and bias. dw is a product whose rows are channels of
 * dy, whose columns are (channel of x, tap), and whose sum goes over all positions (image, row,
 * column) of dy. Few results with long sums: the positions are cut into parts, whose number
 * follows from the sizes; they lie in scratch and are added in order. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tile.h"

#define MOST_PARTS 256
/* Places, fewer than which are divided in 32 bits; tests give fewer. */
#ifndef SW_CUDA_DB_POSITIONS
#define SW_CUDA_DB_POSITIONS INT32_MAX
#endif

struct dw_job {
    sw_cuda_conv c;
    float *to; /* dw, or parts of all weights */
    const float *x, *dy;
    int64_t x_image, y_image, positions, each,
        weights; /* positions of all images, and of a part */
    int cols, add;
    unsigned tiles_m, tiles_n, parts;
    sw_cuda_divisor plane, width, taps, tap_row;
};

typedef sw_cuda_tile<16, 64, 16, 4, 4, 10> dw_16;
typedef sw_cuda_tile<64, 64, 16, 4, 8, 4> dw_64;
typedef sw_cuda_tile<128, 128, 8, 8, 8, 2> dw_128;

/* Column n: what it adds to a position of x under the first tap: elements, rows, columns. */
static __device__ __forceinline__ int4 column_of(const dw_job &j, int n)
{
    uint32_t t = (uint32_t)n;
    if (n >= j.cols)
        return make_int4(0, SW_CUDA_OUTSIDE, 0, 0);
    const int c = (int)sw_cuda_split(j.taps, &t);
    const int ky = (int)sw_cuda_split(j.tap_row, &t), kx = (int)t;
    const int y = ky * j.c.dilation - j.c.pad, x = kx * j.c.dilation - j.c.pad;
    return make_int4((c * j.c.in_h + y) * j.c.in_w + x, y, x, 0);
}

/* The part that a block works on: rows and columns of the tile, positions [from, end). */
struct dw_spot {
    int row, col, group;
    int64_t part, from, end;
};
template <class T> static __device__ __forceinline__ dw_spot spot_of(const dw_job &j)
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
static __device__ __forceinline__ void fetch(dw_slice<T> &to, const dw_job &j, const dw_spot &s,
                                             const dw_position &p, const int4 *columns)
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
static __device__ __forceinline__ void store_slice(const dw_slice<T> &from, float *a, float *b)
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
    float *const a = reinterpret_cast<float *>(shared), *const b = a + 2 * T::A_ROOM;
    const dw_spot s = spot_of<T>(j);
    const int slices = (int)((s.end - s.from + T::DEEP - 1) / T::DEEP);
    float sum[T::DOWN][T::ACROSS] = {};
    dw_slice<T> held;
    for (int n = (int)threadIdx.x; n < T::COLS; n += T::THREADS)
        columns[n] = column_of(j, s.col + n);
    dw_position p = position_of<T>(j, s);
    __syncthreads();
    fetch<T>(held, j, s, p, columns);
    store_slice<T>(held, a, b);
    __syncthreads();
    for (int i = 0; i < slices; i++) {
        const int now = i % 2, next = 1 - now;
        if (i + 1 < slices) {
            p.left -= T::DEEP;
            p.at += T::DEEP;
            locate(&p, j, s);
            fetch<T>(held, j, s, p, columns);
        }
        T::multiply(sum, a + now * T::A_ROOM, b + now * T::B_ROOM);
        if (i + 1 < slices)
            store_slice<T>(held, a + next * T::A_ROOM, b + next * T::B_ROOM);
        __syncthreads();
    }
    SW_UNROLL
    for (int r = 0; r < T::DOWN; r++) {
        const int m = s.row + T::row_of(r);
        SW_UNROLL
        for (int q = 0; q < T::ACROSS; q++) {
            const int n = s.col + T::col_of(q);
            float *to =
                j.to + s.part * j.weights + ((int64_t)s.group * j.c.out_c + m) * j.cols + n;
            if (m < j.c.out_c && n < j.cols)
                *to = j.add ? *to + sum[r][q] : sum[r][q];
        }
    }
}

/* ---- parts ------------------------------------------------------------------------------- */

/* By sizes alone, as scratch is. */
struct dw_plan {
    int rows, tile; /* of a tile: both */
    int64_t tiles_m, tiles_n, positions;
    unsigned parts;
    bool direct; /* depthwise, without tiles */
};
static dw_plan plan_of(const sw_cuda_conv &c)
{
    const int64_t cols = (int64_t)c.in_c * c.kernel_h * c.kernel_w;
    const bool large = c.out_c > 64 && cols > 64;
    dw_plan p = {
        c.out_c <= dw_16::ROWS ? 16 : large ? 128 : 64, large ? 128 : 64, 0, 0, 0, 1, false};
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
    return p;
}

/* in: x, dy; out: dw, [db] */
static sw_cuda_conv geometry(const sw_type *x, const sw_type *dy, const sw_type *dw,
                             const void *attrs)
{
    return sw_cuda_conv_flat(sw_cuda_conv_of(x, dw, dy, attrs));
}

static size_t parts_bytes(const sw_cuda_conv &c, const dw_plan &p)
{
    const size_t bytes = p.parts * (size_t)sw_cuda_conv_weights(c) * sizeof(float);
    return p.parts > 1 ? (bytes + 63) / 64 * 64 : 0;
}

/* Parts, and what their sum wants. */
static size_t own_bytes(const sw_cuda_conv &c, const dw_plan &p)
{
    const int64_t all = sw_cuda_conv_weights(c);
    return p.parts > 1 ? parts_bytes(c, p) +
                             sw_cuda_reduce_bytes(p.parts, all, sw_cuda_column_sum::N, true)
                       : 0;
}

/* Of all sums over dy for each channel. */
static int64_t bias_positions(const sw_type *dy)
{
    return dy->shape.dim[0] * dy->shape.dim[2] * dy->shape.dim[3];
}

/* The bias comes after the weights, in the place of what is done with then. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_dw_scratch)
{
    const sw_type *x = &info->in[0], *y = &info->in[1], *w = &info->out[0];
    const sw_cuda_conv c = geometry(x, y, w, info->attrs);
    const size_t db = info->n_out > 1
                          ? sw_cuda_reduce_bytes(bias_positions(y), y->shape.dim[1], 1, false)
                          : 0;
    const size_t dw = own_bytes(c, plan_of(c));
    return dw > db ? dw : db;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_conv2d_db_scratch)
{
    return sw_cuda_reduce_bytes(bias_positions(&info->in[0]), info->in[0].shape.dim[1], 1,
                                false);
}

/* ---- bias -------------------------------------------------------------------------------- */

/* Place r of all images, channel c. */
struct db_sum {
    enum { N = 1 };
    const float *dy;
    float *db;
    int64_t positions, image; /* elements of an image */
    sw_cuda_divisor plane;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        uint32_t at = (uint32_t)r;
        int64_t n = 0;
        if (positions < SW_CUDA_DB_POSITIONS) {
            n = sw_cuda_split(plane, &at);
        } else {
            n = r / plane.by;
            at = (uint32_t)(r - n * plane.by);
        }
        v[0] = (double)dy[n * image + c * plane.by + at];
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        db[c] = add ? db[c] + (float)sum[0] : (float)sum[0];
    }
};

static sw_status bias(const sw_launch *l, int dy, int db, void *scratch,
                      const sw_cuda_queue *queue)
{
    const int64_t *dim = l->in[dy].type.shape.dim;
    db_sum f = {};
    f.dy = sw_cuda_in(l, dy);
    f.db = sw_cuda_out(l, db);
    f.add = sw_cuda_adds(l, db);
    f.positions = bias_positions(&l->in[dy].type);
    f.image = dim[1] * dim[2] * dim[3];
    f.plane = sw_cuda_divisor_of(dim[2] * dim[3]);
    return sw_cuda_reduce("conv2d", f, f.positions, dim[1], false, scratch, queue);
}

/* ---- entries ----------------------------------------------------------------------------- */

template <class T> static sw_status launch(const dw_job &j, const sw_cuda_queue *queue)
{
    const int64_t blocks = (int64_t)j.tiles_m * j.tiles_n * j.c.groups * j.parts;
    const auto kernel = dw_kernel<T>;
    SW_TRY(sw_cuda_conv_tiles(blocks));
    SW_CUDA_LAUNCH(kernel, (unsigned)blocks, T::THREADS, 0, queue, j);
    return sw_cuda_launched("conv2d");
}

static sw_status weights(const sw_launch *l, const sw_cuda_conv &c, const dw_plan &plan,
                         void *scratch, const sw_cuda_queue *queue)
{
    dw_job j = {};
    j.c = c;
    j.x = sw_cuda_in(l, 0);
    j.dy = sw_cuda_in(l, 1);
    j.to = plan.parts > 1 ? static_cast<float *>(scratch) : sw_cuda_out(l, 0);
    j.add = plan.parts > 1 ? 0 : sw_cuda_adds(l, 0);
    if (plan.direct)
        return sw_cuda_depthwise_dw(j.to, j.x, j.dy, c, plan.parts, j.add, queue);
    j.x_image = sw_cuda_conv_in(c), j.y_image = sw_cuda_conv_out(c);
    j.positions = plan.positions;
    j.each = ((j.positions + plan.parts - 1) / plan.parts + 15) / 16 * 16;
    j.weights = sw_cuda_conv_weights(c);
    j.cols = c.in_c * c.kernel_h * c.kernel_w;
    j.tiles_m = (unsigned)plan.tiles_m, j.tiles_n = (unsigned)plan.tiles_n;
    j.parts = plan.parts;
    j.plane = sw_cuda_divisor_of((int64_t)c.out_h * c.out_w);
    j.width = sw_cuda_divisor_of(c.out_w);
    j.taps = sw_cuda_divisor_of((int64_t)c.kernel_h * c.kernel_w);
    j.tap_row = sw_cuda_divisor_of(c.kernel_w);
    if (plan.rows == 16)
        return launch<dw_16>(j, queue);
    return plan.rows == 64 ? launch<dw_64>(j, queue) : launch<dw_128>(j, queue);
}

static sw_status all_weights(const sw_launch *l, const sw_cuda_conv &c,
                             const sw_cuda_queue *queue)
{
    const int64_t all = sw_cuda_conv_weights(c);
    const dw_plan plan = plan_of(c);
    if (all > 0)
        SW_TRY(weights(l, c, plan, l->scratch, queue));
    if (plan.parts == 1)
        return SW_OK;
    const sw_cuda_column_sum f = {sw_cuda_out(l, 0), static_cast<const float *>(l->scratch),
                                  all, sw_cuda_adds(l, 0)};
    return sw_cuda_reduce("conv2d", f, plan.parts, all, true,
                          static_cast<unsigned char *>(l->scratch) + parts_bytes(c, plan),
                          queue);
}

SW_CUDA_ENTRY(conv2d, grad1, sw_cuda_conv2d_dw_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv2d", l));
    const sw_type *x = &l->in[0].type, *y = &l->in[1].type, *w = &l->out[0].type;
    const sw_cuda_conv c = geometry(x, y, w, l->attrs);
    SW_TRY(sw_cuda_conv_reach(c));
    SW_TRY(all_weights(l, c, queue));
    return l->n_out > 1 ? bias(l, 1, 1, l->scratch, queue) : SW_OK;
}

/* in: dy; out: db */
SW_CUDA_ENTRY(conv2d, grad3, sw_cuda_conv2d_db_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv2d", l));
    return bias(l, 0, 0, l->scratch, queue);
}

SW_CUDA_ENTRY_BY(conv2d, 2, sw_cuda_conv2d_grad1, sw_cuda_conv2d_dw_scratch, 0)
