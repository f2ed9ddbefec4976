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

/* A launch of the convolution's entry, or what is asked for it: two operands, changed over, and
 * the result of this one. */
template <class JOB, class OPERAND>
static JOB over_of(const JOB *l, OPERAND (&in)[2], uint32_t accumulate)
{
    JOB c = *l;
    in[0] = l->in[1];
    in[1] = l->in[0];
    c.in = in;
    c.n_in = 2;
    c.n_out = 1;
    c.accumulate = accumulate & 1u;
    return c;
}
static size_t scratch_of(sw_cuda_scratch_size *its, const sw_kernel_info *info,
                         uint32_t accumulate, const sw_cuda_queue *queue)
{
    sw_type in[2];
    const sw_kernel_info c = over_of(info, in, accumulate);
    return its(&c, queue);
}
static sw_status launch(sw_cuda_kernel *its, const sw_launch *l, uint32_t accumulate,
                        const sw_cuda_queue *queue)
{
    sw_buffer in[2];
    const sw_launch c = over_of(l, in, accumulate);
    return its(&c, queue);
}

/* in: x, w, [bias] */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_y_scratch)
{
    return scratch_of(sw_cuda_conv2d_dx_scratch, info, info->n_in > 2 ? 1u : info->accumulate,
                      queue);
}

SW_CUDA_ENTRY(conv_transpose2d, forward, sw_cuda_conv_transpose2d_y_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    const int64_t *dim = l->out[0].type.shape.dim;
    const bias_of f = {sw_cuda_out(l, 0), l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr,
                       sw_cuda_adds(l, 0)};
    if (f.bias != nullptr)
        SW_TRY(sw_cuda_planes_run("conv_transpose2d", f,
                                  sw_cuda_planes_of(dim[0], dim[1], dim[2] * dim[3]),
                                  sw_cuda_aligned(f.y), queue));
    return launch(sw_cuda_conv2d_grad0, l, l->n_in > 2 ? 1u : l->accumulate, queue);
}

/* in: w, dy; out: dx */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_dx_scratch)
{
    return scratch_of(sw_cuda_conv2d_y_scratch, info, info->accumulate, queue);
}

SW_CUDA_ENTRY(conv_transpose2d, grad0, sw_cuda_conv_transpose2d_dx_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    return launch(sw_cuda_conv2d_forward, l, l->accumulate, queue);
}

/* in: x, dy; out: dw */
SW_CUDA_SCRATCH_SIZE(sw_cuda_conv_transpose2d_dw_scratch)
{
    return scratch_of(sw_cuda_conv2d_dw_scratch, info, info->accumulate, queue);
}

SW_CUDA_ENTRY(conv_transpose2d, grad1, sw_cuda_conv_transpose2d_dw_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    return launch(sw_cuda_conv2d_grad1, l, l->accumulate, queue);
}

/* in: dy; out: db */
SW_CUDA_ENTRY(conv_transpose2d, grad2, sw_cuda_conv2d_db_scratch, 0)
{
    SW_TRY(sw_cuda_images("conv_transpose2d", l));
    return sw_cuda_conv2d_grad3(l, queue);
}
