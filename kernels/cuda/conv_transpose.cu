/* Transposed convolution by the entries of the convolution from its result to its operand: its
 * result is their dx, after a bias that is written first; dx is their result, dw their dw with
 * both images changed over. Attributes begin with those of the convolution. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/planes.h"

/* The bias of each channel. */
struct bias_of {
    float *y;
    const float *bias;
    int add;
    template <int W> __device__ void at(int64_t position, int64_t c) const
    {
        float v[W] = {};
        if (add)
            sw_cuda_load(v, y + position);
        for (int k = 0; k < W; k++)
            v[k] += bias[c];
        sw_cuda_store(y + position, v);
    }
};

/* A launch of the convolution's entry: two operands, and the result of this one. */
static sw_launch launch_of(const sw_launch *l, const sw_buffer *in, uint32_t accumulate)
{
    sw_launch c = *l;
    c.in = in;
    c.n_in = 2;
    c.n_out = 1;
    c.accumulate = accumulate;
    return c;
}

static sw_kernel_info info_of(const sw_kernel_info *info, const sw_type *in,
                              uint32_t accumulate)
{
    sw_kernel_info c = *info;
    c.in = in;
    c.n_in = 2;
    c.n_out = 1;
    c.accumulate = accumulate;
    return c;
}

/* in: x, w, [bias] */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_y_scratch)
{
    const sw_type in[] = {info->in[1], info->in[0]};
    const sw_kernel_info c = info_of(info, in, info->n_in > 2 ? 1u : info->accumulate & 1u);
    return sw_cuda_conv2d_dx_scratch(&c, queue);
}

SW_CUDA_ENTRY(conv_transpose2d, forward, sw_cuda_conv_transpose2d_y_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    const sw_buffer in[] = {l->in[1], l->in[0]};
    const sw_launch c = launch_of(l, in, l->n_in > 2 ? 1u : l->accumulate & 1u);
    const int64_t *dim = l->out[0].type.shape.dim;
    const bias_of f = {sw_cuda_out(l, 0), l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr,
                       sw_cuda_adds(l, 0)};
    if (f.bias != nullptr)
        SW_TRY(sw_cuda_planes_run("conv_transpose2d", f,
                                  sw_cuda_planes_of(dim[0], dim[1], dim[2] * dim[3]),
                                  sw_cuda_aligned(f.y), queue));
    return sw_cuda_conv2d_grad0(&c, queue);
}

/* in: w, dy; out: dx */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_dx_scratch)
{
    const sw_type in[] = {info->in[1], info->in[0]};
    const sw_kernel_info c = info_of(info, in, info->accumulate & 1u);
    return sw_cuda_conv2d_y_scratch(&c, queue);
}

SW_CUDA_ENTRY(conv_transpose2d, grad0, sw_cuda_conv_transpose2d_dx_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    const sw_buffer in[] = {l->in[1], l->in[0]};
    const sw_launch c = launch_of(l, in, l->accumulate & 1u);
    return sw_cuda_conv2d_forward(&c, queue);
}

/* in: x, dy; out: dw */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_dw_scratch)
{
    const sw_type in[] = {info->in[1], info->in[0]};
    const sw_kernel_info c = info_of(info, in, info->accumulate & 1u);
    return sw_cuda_conv2d_dw_scratch(&c, queue);
}

SW_CUDA_ENTRY(conv_transpose2d, grad1, sw_cuda_conv_transpose2d_dw_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    const sw_buffer in[] = {l->in[1], l->in[0]};
    const sw_launch c = launch_of(l, in, l->accumulate & 1u);
    return sw_cuda_conv2d_grad1(&c, queue);
}

/* in: dy; out: db */
SW_CUDA_ENTRY(conv_transpose2d, grad2, sw_cuda_conv2d_db_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    return sw_cuda_conv2d_grad3(l, queue);
}
