/* Sums, products, differences and quotients of two tensors with broadcasting, choices by a
 * mask, scaling, conversion of bytes, SwiGLU; copies and layouts. */
#include "kernels/attrs.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/strided_index.h"
#include "kernels/scalar.h"

/* ---- one or two operands of any strides, and a mask ---------------------------------------
 */

/* y = f(a, b, set) (or y += ...); mask NULL: none, all are set. */
template <int W, int INPUTS, class F>
__global__ void strided_kernel(sw_cuda_numbers y, sw_cuda_numbers a, sw_cuda_numbers b,
                               const uint8_t *mask, sw_cuda_strided strided, int add, F f)
{
    for (int64_t i = sw_cuda_thread(); i < strided.n; i += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(strided, i);
        float v[W], w[W] = {};
        sw_cuda_strided_load(v, a, strided, SW_CUDA_STRIDED_A, p.at[SW_CUDA_STRIDED_A]);
        if (INPUTS > 1)
            sw_cuda_strided_load(w, b, strided, SW_CUDA_STRIDED_B, p.at[SW_CUDA_STRIDED_B]);
        for (int k = 0; k < W; k++) {
            const int64_t at = p.at[SW_CUDA_STRIDED_M] + k * strided.inside[SW_CUDA_STRIDED_M];
            v[k] = f(v[k], w[k], INPUTS == 1 || mask == nullptr || mask[at] != 0);
        }
        if (add)
            sw_cuda_load(w, y, p.at[SW_CUDA_STRIDED_Y]);
        for (int k = 0; k < W && add; k++)
            v[k] = w[k] + v[k];
        sw_cuda_store(y, p.at[SW_CUDA_STRIDED_Y], v);
    }
}

template <int INPUTS, class F>
static sw_status strided_run(const char *op, F f, sw_cuda_numbers y, sw_cuda_numbers a,
                             sw_cuda_numbers b, const void *mask, sw_cuda_strided strided,
                             int add, const sw_cuda_queue *queue)
{
    if (strided.n == 0)
        return SW_OK;
    const auto kernel = sw_cuda_strided_fours(&strided, {y.p, a.p, b.p, mask})
                            ? strided_kernel<4, INPUTS, F>
                            : strided_kernel<1, INPUTS, F>;
    SW_CUDA_LAUNCH_FOR(kernel, strided.n, SW_CUDA_THREADS, queue, y, a, b,
                       static_cast<const uint8_t *>(mask), strided, add, f);
    return sw_cuda_launched(op);
}

/* The plain case is a loop over elements. */
template <class F> struct without_mask {
    F f;
    __device__ float operator()(float a, float b) const
    {
        return f(a, b, true);
    }
};

static bool follows(const sw_buffer *b, const sw_shape *s)
{
    int64_t step = 1;
    if (b->type.shape.rank != s->rank)
        return false;
    for (int i = s->rank - 1; i >= 0; i--) {
        if (b->type.shape.dim[i] != s->dim[i] || b->stride[i] != step)
            return false;
        step *= s->dim[i];
    }
    return true;
}

/* Operands `a` and a + 1 of the launch; a mask before them where a is 1. */
template <class F>
static sw_status binary_run(const char *op, const sw_launch *l, int a,
                            const sw_cuda_queue *queue)
{
    const sw_shape *s = &l->out[0].type.shape;
    const sw_buffer *x = &l->in[a], *z = &l->in[a + 1], *m = a > 0 ? &l->in[0] : nullptr;
    if (m == nullptr && (x->type.layout == SW_N16 || (follows(x, s) && follows(z, s))))
        return sw_cuda_elementwise_run<2>(op, without_mask<F>{}, l->out[0], l->in[0], l->in[1],
                                          sw_cuda_elements(&l->out[0].type), sw_cuda_adds(l, 0),
                                          queue);
    sw_cuda_strided strided = sw_cuda_strided_begin();
    for (int i = 0; i < s->rank; i++)
        sw_cuda_strided_axis(&strided, s->dim[i], l->out[0].stride[i],
                             sw_cuda_broadcast_step(x, s, i), sw_cuda_broadcast_step(z, s, i),
                             m != nullptr ? sw_cuda_broadcast_step(m, s, i) : 0);
    sw_cuda_strided_join(&strided);
    return strided_run<2>(op, F{}, l->out[0], *x, *z, m != nullptr ? m->ptr : nullptr, strided,
                          sw_cuda_adds(l, 0), queue);
}

#define BINARY(id, expr)                                                                       \
    struct id##_of {                                                                           \
        __device__ float operator()(float a, float b, [[maybe_unused]] bool set) const         \
        {                                                                                      \
            return expr;                                                                       \
        }                                                                                      \
    };
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(where, set ? a : b)
SW_CUDA_ENTRY_OF(add, forward, NULL, 2, binary_run<add_of>("add", l, 0, queue))
SW_CUDA_ENTRY_OF(sub, forward, NULL, 2, binary_run<sub_of>("sub", l, 0, queue))
SW_CUDA_ENTRY_OF(mul, forward, NULL, 2, binary_run<mul_of>("mul", l, 0, queue))
SW_CUDA_ENTRY_OF(div, forward, NULL, 2, binary_run<div_of>("div", l, 0, queue))
SW_CUDA_ENTRY_OF(where, forward, NULL, 2, binary_run<where_of>("where", l, 1, queue))

struct times {
    const float *there; /* read by each thread: a knob changes between runs; NULL: `here` */
    float here;
    __device__ float operator()(float a, float) const
    {
        return a * (there != nullptr ? *there : here);
    }
};

SW_CUDA_ENTRY_OF(scale, forward, NULL, 2,
                 sw_cuda_elementwise_run<1>("scale", times{sw_cuda_in(l, 1), 0.0f}, l->out[0],
                                            l->in[0], nullptr, sw_cuda_elements(&l->in[0].type),
                                            sw_cuda_adds(l, 0), queue))

SW_CUDA_ENTRY(scale_by, forward, NULL, 2)
{
    const float by = sw_cuda_attrs<swi_number_attrs>(l)->value;
    return sw_cuda_elementwise_run<1>("scale_by", times{nullptr, by}, l->out[0], l->in[0],
                                      nullptr, sw_cuda_elements(&l->in[0].type),
                                      sw_cuda_adds(l, 0), queue);
}

/* ---- conversion -------------------------------------------------------------------------- */

/* A number for each channel. Registers have no index. */
struct by_channel {
    float x, y, z, w;
};
static __device__ __forceinline__ float number_of(const by_channel &x, int c)
{
    return c == 0 ? x.x : c == 1 ? x.y : c == 2 ? x.z : x.w;
}

/* y = x scale + shift, by channel: its number is the place in M. Bytes four at a time. */
template <int W, class T>
__global__ void convert_kernel(float *y, const T *x, sw_cuda_strided strided, by_channel scale,
                               by_channel shift)
{
    for (int64_t i = sw_cuda_thread(); i < strided.n; i += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(strided, i);
        const int c = (int)p.at[SW_CUDA_STRIDED_M];
        const T *from = x + p.at[SW_CUDA_STRIDED_A];
        float v[W];
        if (W == 4) {
            const uchar4 b = *reinterpret_cast<const uchar4 *>(from);
            v[0] = (float)b.x, v[1 % W] = (float)b.y;
            v[2 % W] = (float)b.z, v[3 % W] = (float)b.w;
        } else {
            v[0] = (float)*from;
        }
        for (int k = 0; k < W; k++)
            v[k] = v[k] * number_of(scale, c) + number_of(shift, c);
        sw_cuda_store(y + p.at[SW_CUDA_STRIDED_Y], v);
    }
}

static by_channel channels_of(const float (&x)[SW_MAX_CHANNELS])
{
    const by_channel all = {x[0], x[1], x[2], x[3]};
    return all;
}

template <int W, class T>
static sw_status convert_run(const sw_launch *l, const sw_cuda_strided &strided,
                             const sw_cuda_queue *queue)
{
    const swi_to_f32_attrs *a = sw_cuda_attrs<swi_to_f32_attrs>(l);
    const auto convert = convert_kernel<W, T>;
    SW_CUDA_LAUNCH_FOR(convert, strided.n, SW_CUDA_THREADS, queue, sw_cuda_out(l, 0),
                       static_cast<const T *>(l->in[0].ptr), strided, channels_of(a->scale),
                       channels_of(a->shift));
    return sw_cuda_launched("to_f32");
}

SW_CUDA_ENTRY(to_f32, forward, NULL, 1)
{
    const swi_to_f32_attrs *a = sw_cuda_attrs<swi_to_f32_attrs>(l);
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t n = sw_cuda_elements(&l->in[0].type),
                  images = a->channels > 1 ? s->dim[0] : 1;
    const int64_t channels = a->channels > 1 ? a->channels : 1;
    if (n == 0)
        return SW_OK;
    const int64_t plane = n / images / channels;
    sw_cuda_strided strided = sw_cuda_strided_begin();
    sw_cuda_strided_axis(&strided, images, plane * channels, plane * channels, 0, 0);
    sw_cuda_strided_axis(&strided, channels, plane, plane, 0, 1);
    sw_cuda_strided_axis(&strided, plane, 1, 1, 0, 0);
    sw_cuda_strided_join(&strided);
    if (l->in[0].type.dtype != SW_U8)
        return convert_run<1, int32_t>(l, strided, queue);
    return sw_cuda_aligned(l->in[0].ptr) &&
                   sw_cuda_strided_fours(&strided, {l->out[0].ptr, nullptr, nullptr, nullptr})
               ? convert_run<4, uint8_t>(l, strided, queue)
               : convert_run<1, uint8_t>(l, strided, queue);
}

/* ---- y = swish(a) b ---------------------------------------------------------------------- */

/* Rows of a and b, and of their gradients, may be halves of rows, those of y and dy lie side by
 * side. Gradients that are NULL are not computed; they may be a, b or dy. */
struct glu {
    const float *a, *b, *dy;
    float *y, *da, *db;
    sw_cuda_strided at; /* y and dy in Y, the others in A */
    int64_t cols;
    int add_a, add_b;
};

template <int W> __device__ void glu_put(float *to, float (&v)[W], int add)
{
    float old[W];
    if (add)
        sw_cuda_load(old, to);
    for (int k = 0; k < W && add; k++)
        v[k] = old[k] + v[k];
    sw_cuda_store(to, v);
}

/* W elements at a time, which do not cross a row. */
template <int W> __global__ void glu_kernel(glu g)
{
    for (int64_t n = sw_cuda_thread(); n < g.at.n; n += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(g.at, n);
        const int64_t i = p.at[SW_CUDA_STRIDED_Y], at = p.at[SW_CUDA_STRIDED_A];
        float a[W], b[W] = {}, dy[W] = {}, v[W];
        sw_cuda_load(a, g.a + at);
        if (g.b != nullptr)
            sw_cuda_load(b, g.b + at);
        if (g.dy != nullptr)
            sw_cuda_load(dy, g.dy + i);
        if (g.y != nullptr) {
            for (int k = 0; k < W; k++)
                v[k] = sw_swish_value(a[k]) * b[k];
            sw_cuda_store(g.y + i, v);
        }
        if (g.da != nullptr) {
            for (int k = 0; k < W; k++)
                v[k] = dy[k] * b[k] * sw_swish_slope(a[k]);
            glu_put(g.da + at, v, g.add_a);
        }
        if (g.db != nullptr) {
            for (int k = 0; k < W; k++)
                v[k] = dy[k] * sw_swish_value(a[k]);
            glu_put(g.db + at, v, g.add_b);
        }
    }
}

/* a and b in the first operands: two, or halves of the last axis of one. */
static glu glu_of(const sw_launch *l, int inputs)
{
    const sw_shape *s = &l->in[0].type.shape;
    glu g = {};
    const int64_t all = sw_cuda_elements(&l->in[0].type);
    g.cols = inputs == 1 ? s->dim[s->rank - 1] / 2 : all;
    g.at = sw_cuda_strided_begin();
    sw_cuda_strided_axis(&g.at, inputs == 1 ? all / s->dim[s->rank - 1] : 1, g.cols, 2 * g.cols,
                         0, 0);
    sw_cuda_strided_axis(&g.at, g.cols, 1, 1, 0, 0);
    sw_cuda_strided_join(&g.at);
    g.a = sw_cuda_in(l, 0);
    g.b = inputs == 1 ? g.a + g.cols : sw_cuda_in(l, 1);
    return g;
}

static sw_status glu_run(glu g, const sw_cuda_queue *queue)
{
    if (g.at.n == 0)
        return SW_OK;
    const bool wide = sw_cuda_aligned(g.a) && sw_cuda_aligned(g.b) && sw_cuda_aligned(g.dy) &&
                      sw_cuda_aligned(g.da) && sw_cuda_aligned(g.db) &&
                      sw_cuda_strided_fours(&g.at, {g.y, nullptr, nullptr, nullptr});
    const auto glu = wide ? glu_kernel<4> : glu_kernel<1>;
    SW_CUDA_LAUNCH_FOR(glu, g.at.n, SW_CUDA_THREADS, queue, g);
    return sw_cuda_launched("swiglu");
}

SW_CUDA_ENTRY(swiglu, forward, NULL, 1)
{
    glu g = glu_of(l, l->n_in);
    g.y = sw_cuda_out(l, 0);
    return glu_run(g, queue);
}

/* in: a, b, dy */
SW_CUDA_ENTRY(swiglu, grad0, NULL, 1)
{
    glu g = glu_of(l, 2);
    g.dy = sw_cuda_in(l, 2);
    g.da = sw_cuda_out(l, 0);
    g.db = sw_cuda_out(l, 1);
    g.add_a = sw_cuda_adds(l, 0);
    g.add_b = sw_cuda_adds(l, 1);
    return glu_run(g, queue);
}

/* in: a, b, dy; or the one tensor, whose gradient has both, and dy */
SW_CUDA_ENTRY(swiglu, grad1, NULL, 1)
{
    const int inputs = l->n_in - 1;
    glu g = glu_of(l, inputs);
    g.dy = sw_cuda_in(l, inputs);
    g.da = sw_cuda_out(l, 0);
    g.db = inputs == 1 ? g.da + g.cols : nullptr;
    g.add_a = g.add_b = sw_cuda_adds(l, 0);
    return glu_run(g, queue);
}

/* in: a, dy */
SW_CUDA_ENTRY(swiglu, grad2, NULL, 1)
{
    glu g = glu_of(l, 2);
    g.dy = sw_cuda_in(l, 1);
    g.b = nullptr;
    g.db = sw_cuda_out(l, 0);
    g.add_b = sw_cuda_adds(l, 0);
    return glu_run(g, queue);
}

/* Moves of bytes: copies of any strides, constants, repetition, parts put together, gradients
 * of slices, layouts. */

/* ---- copies ------------------------------------------------------------------------------ */

/* Elements are words of their size. */
template <class T> __global__ void copy_kernel(T *y, const T *x, sw_cuda_strided strided)
{
    for (int64_t i = sw_cuda_thread(); i < strided.n; i += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(strided, i);
        y[p.at[SW_CUDA_STRIDED_Y]] = x[p.at[SW_CUDA_STRIDED_A]];
    }
}

static size_t bytes_of(sw_dtype dtype)
{
    return dtype == SW_F64                       ? 8
           : dtype == SW_BF16 || dtype == SW_U16 ? 2
           : dtype == SW_U8                      ? 1
                                                 : 4;
}

/* All of x to the positions of `to` with the same shape. */
static sw_cuda_strided over(const sw_shape *s, const int64_t *to, const int64_t *from)
{
    sw_cuda_strided strided = sw_cuda_strided_begin();
    for (int i = 0; i < s->rank; i++)
        sw_cuda_strided_axis(&strided, s->dim[i], to[i], from[i], 0, 0);
    sw_cuda_strided_join(&strided);
    return strided;
}

template <class T>
static void copy_words(void *y, const void *x, const sw_cuda_strided &strided,
                       const sw_cuda_queue *queue)
{
    const auto copy = copy_kernel<T>;
    SW_CUDA_LAUNCH_FOR(copy, strided.n, SW_CUDA_THREADS, queue, static_cast<T *>(y),
                       static_cast<const T *>(x), strided);
}

/* In words of up to 16 bytes: elements that lie side by side in both. */
static sw_status copy_run(const char *op, void *y, const void *x, size_t bytes,
                          sw_cuda_strided strided, const sw_cuda_queue *queue)
{
    const uintptr_t both = reinterpret_cast<uintptr_t>(y) | reinterpret_cast<uintptr_t>(x);
    const int64_t *first = strided.axis[0].step;
    int64_t all = strided.rank > 0 ? strided.axis[0].dim.by : 1, n = 1;
    if (strided.n == 0)
        return SW_OK;
    for (int i = 1; i < strided.rank; i++)
        all |=
            strided.axis[i].step[SW_CUDA_STRIDED_Y] | strided.axis[i].step[SW_CUDA_STRIDED_A];
    if (first[SW_CUDA_STRIDED_Y] == 1 && first[SW_CUDA_STRIDED_A] == 1)
        while (bytes < 16 && all % 2 == 0 && both % (2 * bytes) == 0)
            bytes *= 2, n *= 2, all /= 2;
    for (int i = 1; i < strided.rank; i++)
        for (int64_t &step : strided.axis[i].step)
            step /= n;
    if (n > 1)
        sw_cuda_strided_group(&strided, n);
    switch (bytes) {
    case 1:
        copy_words<uint8_t>(y, x, strided, queue);
        break;
    case 2:
        copy_words<uint16_t>(y, x, strided, queue);
        break;
    case 4:
        copy_words<uint32_t>(y, x, strided, queue);
        break;
    case 8:
        copy_words<uint64_t>(y, x, strided, queue);
        break;
    default:
        copy_words<float4>(y, x, strided, queue);
        break;
    }
    return sw_cuda_launched(op);
}

struct itself {
    __device__ float operator()(float a, float) const
    {
        return a;
    }
};
/* To bf16, and widened again. */
struct rounded {
    __device__ float operator()(float a, float) const
    {
        return sw_bf16_widen(sw_bf16_round(a));
    }
};

template <class F> struct of_one {
    F f;
    __device__ float operator()(float a, float, bool) const
    {
        return f(a, 0.0f);
    }
};
/* y = f(x) (or y += ...). */
template <class F>
static sw_status numbers_run(const char *op, F f, sw_cuda_numbers y, sw_cuda_numbers x,
                             const sw_cuda_strided &strided, int add,
                             const sw_cuda_queue *queue)
{
    const int64_t *step = strided.axis[0].step;
    if (strided.rank == 0 ||
        (strided.rank == 1 && step[SW_CUDA_STRIDED_Y] == 1 && step[SW_CUDA_STRIDED_A] == 1))
        return sw_cuda_elementwise_run<1>(op, f, y, x, nullptr, strided.n, add, queue);
    return strided_run<1>(op, of_one<F>{f}, y, x, nullptr, nullptr, strided, add, queue);
}

/* Of a group: contiguous floats, element by element. */
struct copied {
    float *y;
    const float *x;
    int64_t n;
};
template <int ROWS> __global__ void copies_kernel(sw_cuda_table<sw_cuda_none, copied, ROWS> t)
{
    const sw_cuda_place at = sw_cuda_place_in(t);
    const copied c = t.row[at.row];
    for (int64_t i = at.thread; i < c.n; i += at.threads)
        c.y[i] = c.x[i];
}
SW_CUDA_GROUP_KERNEL(copies_launch, copies_kernel);

static bool is_plain(const sw_buffer *b)
{
    int64_t step = 1;
    for (int i = b->type.shape.rank; i-- > 0; step *= b->type.shape.dim[i])
        if (b->type.shape.dim[i] != 1 && b->stride[i] != step)
            return false;
    return b->type.dtype == SW_F32;
}

SW_CUDA_ENTRY(copy, forward, NULL, 2 | SW_CUDA_GROUPS)
{
    const sw_buffer *x = &l->in[0];
    const sw_cuda_strided strided = over(&x->type.shape, l->out[0].stride, x->stride);
    if (sw_cuda_in_group(queue)) {
        if (!sw_cuda_adds(l, 0) && is_plain(x) && is_plain(&l->out[0])) {
            const copied row = {sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                                sw_cuda_elements(&x->type)};
            return sw_cuda_group_add<copies_launch>(
                "copy", sw_cuda_none{}, row,
                row.n > 0 ? sw_cuda_blocks(row.n, 4 * SW_CUDA_THREADS) : 0, queue);
        }
        sw_cuda_group_flush(queue->group, queue);
    }
    if (x->type.layout == SW_N16)
        return sw_cuda_elementwise_run<1>("copy", itself{}, l->out[0], *x, nullptr,
                                          sw_cuda_elements(&x->type), sw_cuda_adds(l, 0),
                                          queue);
    if (x->type.dtype == SW_F32 || sw_cuda_adds(l, 0))
        return numbers_run("copy", itself{}, l->out[0], *x, strided, sw_cuda_adds(l, 0), queue);
    return copy_run("copy", l->out[0].ptr, x->ptr, bytes_of(x->type.dtype), strided, queue);
}

/* ---- cast -------------------------------------------------------------------------------- */

sw_status sw_cuda_cast(const char *op, sw_cuda_numbers y, sw_cuda_numbers x, int64_t n,
                       bool rounds, const sw_cuda_queue *queue)
{
    return rounds ? sw_cuda_elementwise_run<1>(op, rounded{}, y, x, nullptr, n, 0, queue)
                  : sw_cuda_elementwise_run<1>(op, itself{}, y, x, nullptr, n, 0, queue);
}

/* The runtime's pieces take it for any strides, and for copies; the attribute says what numbers
 * of one type are rounded to. */
SW_CUDA_ENTRY(cast, forward, NULL, 1)
{
    const sw_buffer *x = &l->in[0], *y = &l->out[0];
    const sw_cuda_strided strided = over(&x->type.shape, y->stride, x->stride);
    const bool same = x->type.dtype == y->type.dtype;
    if (same && x->type.dtype == SW_F32 && sw_cuda_attrs<swi_cast_attrs>(l)->dtype == SW_BF16)
        return numbers_run("cast", rounded{}, *y, *x, strided, 0, queue);
    return same ? sw_cuda_copy_forward(l, queue)
                : numbers_run("cast", itself{}, *y, *x, strided, 0, queue);
}

struct constant {
    float value;
    __device__ float operator()(float, float) const
    {
        return value;
    }
};

static sw_status fill_run(const char *op, const sw_buffer *y, float value,
                          const sw_cuda_queue *queue)
{
    return sw_cuda_elementwise_run<0>(op, constant{value}, *y, nullptr, nullptr,
                                      sw_cuda_elements(&y->type), 0, queue);
}

SW_CUDA_ENTRY_OF(fill, forward, NULL, 1,
                 fill_run("fill", &l->out[0], sw_cuda_attrs<swi_fill_attrs>(l)->value, queue))

/* ---- repetition, parts ------------------------------------------------------------------- */

SW_CUDA_ENTRY(expand, forward, NULL, 1)
{
    const swi_sum_attrs *a = sw_cuda_attrs<swi_sum_attrs>(l);
    int64_t from[SW_MAX_RANK];
    for (int i = 0; i < a->shape.rank; i++)
        from[i] = (a->axes >> i & 1u) != 0 ? 0 : l->in[0].stride[i];
    return numbers_run("expand", times{nullptr, (float)a->scale}, l->out[0], l->in[0],
                       over(&a->shape, l->out[0].stride, from), sw_cuda_adds(l, 0), queue);
}

/* How many parts from i on are alike and lie `step` bytes apart: the same one several times. */
static int alike_from(const sw_launch *l, int i, intptr_t *step)
{
    const sw_buffer *x = &l->in[i];
    const intptr_t first = reinterpret_cast<intptr_t>(x->ptr);
    const intptr_t size = (intptr_t)bytes_of(x->type.dtype);
    int n = 1;
    *step = i + 1 < l->n_in ? reinterpret_cast<intptr_t>(x[1].ptr) - first : 0;
    if (x->type.shape.rank == SW_MAX_RANK || *step % size != 0) /* an axis more */
        return 1;
    for (; i + n < l->n_in; n++) {
        bool alike = reinterpret_cast<intptr_t>(x[n].ptr) == first + n * *step;
        for (int k = 0; k < x->type.shape.rank; k++)
            alike = alike && x[n].type.shape.dim[k] == x->type.shape.dim[k] &&
                    x[n].stride[k] == x->stride[k];
        if (!alike)
            break;
    }
    return n;
}

SW_CUDA_ENTRY(concat, forward, NULL, 1)
{
    const int axis = (int)sw_cuda_attrs<swi_concat_attrs>(l)->axis;
    const sw_buffer *y = &l->out[0];
    unsigned char *to = static_cast<unsigned char *>(y->ptr);
    intptr_t step;
    for (int i = 0, n; i < l->n_in; i += n) {
        const sw_buffer *x = &l->in[i];
        const size_t bytes = bytes_of(x->type.dtype);
        const int64_t *dim = x->type.shape.dim, part = dim[axis] * y->stride[axis];
        sw_cuda_strided strided = sw_cuda_strided_begin();
        n = alike_from(l, i, &step);
        for (int k = 0; k < x->type.shape.rank; k++) {
            if (k == axis && n > 1)
                sw_cuda_strided_axis(&strided, n, part, step / (intptr_t)bytes, 0, 0);
            sw_cuda_strided_axis(&strided, dim[k], y->stride[k], x->stride[k], 0, 0);
        }
        sw_cuda_strided_join(&strided);
        SW_TRY(copy_run("concat", to, x->ptr, bytes, strided, queue));
        to += (size_t)(n * part) * bytes;
    }
    return SW_OK;
}

/* dy where the slice lies, and zeros elsewhere. */
SW_CUDA_ENTRY(slice_grad, forward, NULL, 1)
{
    const swi_slice_grad_attrs *a = sw_cuda_attrs<swi_slice_grad_attrs>(l);
    const sw_buffer *dy = &l->in[0], *dx = &l->out[0];
    const int64_t *strides = dx->stride;
    const int64_t from = a->slice.from * strides[a->slice.axis];
    if (!sw_cuda_adds(l, 0))
        SW_TRY(fill_run("slice_grad", dx, 0.0f, queue));
    sw_buffer part = *dx;
    part.ptr = static_cast<unsigned char *>(dx->ptr) + (size_t)from * bytes_of(dx->type.dtype);
    return numbers_run("slice_grad", itself{}, part, *dy,
                       over(&dy->type.shape, strides, dy->stride), sw_cuda_adds(l, 0), queue);
}

/* ---- layouts ----------------------------------------------------------------------------- */

/* Between plain images (batch, inner) and blocks (ceil(batch / 16), inner, 16), whose lanes
 * past the batch become zero. i counts elements of what is written. */
__global__ void layout_kernel(float *y, const float *x, int64_t batch,
                              sw_cuda_long_divisor inner, int64_t n, int to_blocks, int add)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        int64_t position = to_blocks ? i / 16 : i, image = sw_cuda_split(inner, &position);
        float v = 0.0f;
        image = to_blocks ? image * 16 + i % 16 : image;
        if (image < batch)
            v = x[to_blocks ? image * inner.by + position
                            : (image / 16 * inner.by + position) * 16 + image % 16];
        y[i] = add && image < batch ? y[i] + v : v;
    }
}

static sw_status layout_run(const char *op, const sw_launch *l, int to_blocks,
                            const sw_cuda_queue *queue)
{
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t n = sw_cuda_elements(&l->out[0].type);
    if (n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(layout_kernel, n, SW_CUDA_THREADS, queue, sw_cuda_out(l, 0),
                       sw_cuda_in(l, 0), s->dim[0],
                       sw_cuda_long_divisor_of(s->dim[1] * s->dim[2] * s->dim[3]), n, to_blocks,
                       sw_cuda_adds(l, 0));
    return sw_cuda_launched(op);
}

SW_CUDA_ENTRY_OF(to_n16, forward, NULL, 1, layout_run("to_n16", l, 1, queue))
SW_CUDA_ENTRY_OF(from_n16, forward, NULL, 1, layout_run("from_n16", l, 0, queue))
