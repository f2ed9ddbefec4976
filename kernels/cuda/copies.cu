/* Moves of bytes: copies of any strides, constants, repetition, parts put together, gradients
 * of slices, layouts. */
#include "kernels/attrs.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/strided_index.h"

/* ---- copies ------------------------------------------------------------------------------ */

/* Elements are words of their size. */
template <class T> __global__ void copy_kernel(T *y, const T *x, sw_cuda_strided strided)
{
    for (int64_t i = sw_cuda_thread(); i < strided.n; i += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(strided, i);
        y[p.at[SW_CUDA_STRIDED_Y]] = x[p.at[SW_CUDA_STRIDED_A]];
    }
}

/* y = x factor (or y += ...). */
__global__ void scaled_copy(float *y, const float *x, sw_cuda_strided strided, float factor,
                            int add)
{
    for (int64_t i = sw_cuda_thread(); i < strided.n; i += sw_cuda_threads()) {
        const sw_cuda_offsets p = sw_cuda_strided_offsets(strided, i);
        const float v = x[p.at[SW_CUDA_STRIDED_A]] * factor;
        float *to = y + p.at[SW_CUDA_STRIDED_Y];
        *to = add ? *to + v : v;
    }
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

static sw_status copy_run(const char *op, void *y, const void *x, sw_dtype dtype,
                          const sw_cuda_strided &strided, const sw_cuda_queue *queue)
{
    if (strided.n == 0)
        return SW_OK;
    switch (dtype) {
    case SW_U8:
        copy_words<uint8_t>(y, x, strided, queue);
        break;
    case SW_BF16:
    case SW_U16:
        copy_words<uint16_t>(y, x, strided, queue);
        break;
    case SW_F64:
        copy_words<uint64_t>(y, x, strided, queue);
        break;
    default:
        copy_words<uint32_t>(y, x, strided, queue);
        break;
    }
    return sw_cuda_launched(op);
}

static sw_status scaled_run(const char *op, float *y, const float *x,
                            const sw_cuda_strided &strided, float factor, int add,
                            const sw_cuda_queue *queue)
{
    if (strided.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(scaled_copy, strided.n, SW_CUDA_THREADS, queue, y, x, strided, factor,
                       add);
    return sw_cuda_launched(op);
}

struct itself {
    __device__ float operator()(float a, float) const
    {
        return a;
    }
};

SW_CUDA_ENTRY(copy, forward, NULL, 1)
{
    const sw_buffer *x = &l->in[0];
    const sw_cuda_strided strided = over(&x->type.shape, l->out[0].stride, x->stride);
    const bool flat =
        x->type.layout == SW_N16 ||
        (strided.rank <= 1 && (strided.rank == 0 || strided.step[SW_CUDA_STRIDED_A][0] == 1));
    if (x->type.dtype == SW_F32 && flat)
        return sw_cuda_elementwise_run<1>("copy", itself{}, sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                                          nullptr, sw_cuda_elements(&x->type),
                                          sw_cuda_adds(l, 0), queue);
    if (sw_cuda_adds(l, 0))
        return scaled_run("copy", sw_cuda_out(l, 0), sw_cuda_in(l, 0), strided, 1.0f, 1, queue);
    return copy_run("copy", l->out[0].ptr, x->ptr, x->type.dtype, strided, queue);
}

/* ---- constants --------------------------------------------------------------------------- */

struct constant {
    float value;
    __device__ float operator()(float, float) const
    {
        return value;
    }
};

SW_CUDA_ENTRY(fill, forward, NULL, 1)
{
    const float value = sw_cuda_attrs<swi_fill_attrs>(l)->value;
    return sw_cuda_elementwise_run<0>("fill", constant{value}, sw_cuda_out(l, 0), nullptr,
                                      nullptr, sw_cuda_elements(&l->out[0].type), 0, queue);
}

/* ---- repetition, parts ------------------------------------------------------------------- */

SW_CUDA_ENTRY(expand, forward, NULL, 1)
{
    const swi_sum_attrs *a = sw_cuda_attrs<swi_sum_attrs>(l);
    int64_t from[SW_MAX_RANK];
    for (int i = 0; i < a->shape.rank; i++)
        from[i] = (a->axes >> i & 1u) != 0 ? 0 : l->in[0].stride[i];
    return scaled_run("expand", sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                      over(&a->shape, l->out[0].stride, from), (float)a->scale,
                      sw_cuda_adds(l, 0), queue);
}

static size_t bytes_of(sw_dtype dtype)
{
    return dtype == SW_F64                       ? 8
           : dtype == SW_BF16 || dtype == SW_U16 ? 2
           : dtype == SW_U8                      ? 1
                                                 : 4;
}

SW_CUDA_ENTRY(concat, forward, NULL, 1)
{
    const int64_t axis = sw_cuda_attrs<swi_concat_attrs>(l)->axis;
    const sw_buffer *y = &l->out[0];
    unsigned char *to = static_cast<unsigned char *>(y->ptr);
    for (int i = 0; i < l->n_in; i++) {
        const sw_buffer *x = &l->in[i];
        SW_TRY(copy_run("concat", to, x->ptr, x->type.dtype,
                        over(&x->type.shape, y->stride, x->stride), queue));
        to += (size_t)(x->type.shape.dim[axis] * y->stride[axis]) * bytes_of(x->type.dtype);
    }
    return SW_OK;
}

/* dy where the slice lies, and zeros elsewhere. */
SW_CUDA_ENTRY(slice_grad, forward, NULL, 1)
{
    const swi_slice_grad_attrs *a = sw_cuda_attrs<swi_slice_grad_attrs>(l);
    const sw_buffer *dy = &l->in[0], *dx = &l->out[0];
    const int64_t *strides = dx->stride;
    if (!sw_cuda_adds(l, 0))
        SW_TRY(sw_cuda_elementwise_run<0>("slice_grad", constant{0.0f}, sw_cuda_out(l, 0),
                                          nullptr, nullptr, sw_cuda_elements(&dx->type), 0,
                                          queue));
    return scaled_run("slice_grad", sw_cuda_out(l, 0) + a->slice.from * strides[a->slice.axis],
                      sw_cuda_in(l, 0), over(&dy->type.shape, strides, dy->stride), 1.0f,
                      sw_cuda_adds(l, 0), queue);
}

/* ---- layouts ----------------------------------------------------------------------------- */

/* Between plain images (batch, inner) and blocks (ceil(batch / 16), inner, 16), whose lanes
 * past the batch become zero. i counts elements of what is written. */
__global__ void layout_kernel(float *y, const float *x, int64_t batch, int64_t inner, int64_t n,
                              int to_blocks, int add)
{
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        const int64_t image = to_blocks ? i / 16 / inner * 16 + i % 16 : i / inner;
        const int64_t position = to_blocks ? i / 16 % inner : i % inner;
        float v = 0.0f;
        if (image < batch)
            v = x[to_blocks ? image * inner + position
                            : (image / 16 * inner + position) * 16 + image % 16];
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
                       sw_cuda_in(l, 0), s->dim[0], s->dim[1] * s->dim[2] * s->dim[3], n,
                       to_blocks, sw_cuda_adds(l, 0));
    return sw_cuda_launched(op);
}

SW_CUDA_ENTRY_OF(to_n16, forward, NULL, 1, layout_run("to_n16", l, 1, queue))
SW_CUDA_ENTRY_OF(from_n16, forward, NULL, 1, layout_run("from_n16", l, 0, queue))
