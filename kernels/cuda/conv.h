/* Shared by the files of the convolution: the geometry of a launch, and who does what. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/reduce.h"

struct sw_cuda_conv {
    int batch, groups;
    int in_c, out_c; /* of a group */
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride, pad, dilation;
};

/* From the types of x (or dx), w (or dw) and y (or dy). */
static inline sw_cuda_conv sw_cuda_conv_of(const sw_type *x, const sw_type *w, const sw_type *y,
                                           const void *attrs)
{
    const swi_conv_attrs *a = static_cast<const swi_conv_attrs *>(attrs);
    const int64_t *in = x->shape.dim, *kernel = w->shape.dim, *out = y->shape.dim;
    sw_cuda_conv c = {};
    c.batch = (int)in[0];
    c.groups = a->groups;
    c.in_c = (int)kernel[1];
    c.out_c = (int)(kernel[0] / a->groups);
    c.in_h = (int)in[2], c.in_w = (int)in[3];
    c.out_h = (int)out[2], c.out_w = (int)out[3];
    c.kernel_h = (int)kernel[2], c.kernel_w = (int)kernel[3];
    c.stride = a->stride, c.pad = a->pad, c.dilation = a->dilation;
    return c;
}

static inline int64_t sw_cuda_conv_in(const sw_cuda_conv &c) /* elements of an image */
{
    return (int64_t)c.groups * c.in_c * c.in_h * c.in_w;
}
static inline int64_t sw_cuda_conv_out(const sw_cuda_conv &c)
{
    return (int64_t)c.groups * c.out_c * c.out_h * c.out_w;
}

/* A kernel of one position without stride and padding: planes are rows. */
static inline sw_cuda_conv sw_cuda_conv_flat(const sw_cuda_conv &c)
{
    sw_cuda_conv flat = c;
    if (c.kernel_h == 1 && c.kernel_w == 1 && c.stride == 1 && c.pad == 0) {
        flat.in_w = flat.out_w = c.in_h * c.in_w;
        flat.in_h = flat.out_h = flat.dilation = 1;
    }
    return flat;
}
/* Places that are in no image, in a sum with what else they are the sum of. */
#define SW_CUDA_OUTSIDE (-(1 << 30) - (1 << 22))

static __device__ __forceinline__ bool sw_cuda_inside(int from, int by, int n)
{
    return (uint32_t)from + (uint32_t)by < (uint32_t)n;
}

/* Places of x that a convolution reaches, those outside of the image included, count in 32
 * bits. */
static inline sw_status sw_cuda_conv_reach(const sw_cuda_conv &c)
{
    const int64_t most = (int64_t)1 << 30;
    const int64_t h = (int64_t)(c.kernel_h - 1) * c.dilation + c.pad;
    const int64_t w = (int64_t)(c.kernel_w - 1) * c.dilation + c.pad;
    const int64_t high = c.in_h + 2 * h, wide = c.in_w + 2 * w;
    const int64_t channels = c.in_c > c.out_c ? c.in_c : c.out_c;
    if (high > most || wide > most || high * wide > most / (channels < 1 ? 1 : channels))
        return sw_cuda_its_host.fail(SW_UNSUPPORTED, __FILE__, __LINE__,
                                     "conv2d: %lld channels of %lld x %lld padded pixels must "
                                     "have at most %lld elements on this device",
                                     (long long)channels, (long long)high, (long long)wide,
                                     (long long)most);
    return SW_OK;
}

/* One block for each tile. */
static inline sw_status sw_cuda_conv_tiles(int64_t tiles)
{
    if (tiles > INT32_MAX)
        return sw_cuda_its_host.fail(SW_UNSUPPORTED, __FILE__, __LINE__,
                                     "conv2d: a launch must have at most %d tiles (got %lld)",
                                     INT32_MAX, (long long)tiles);
    return SW_OK;
}

/* Kernels that transposed convolutions launch. */
extern "C" {
sw_cuda_kernel sw_cuda_conv2d_forward, sw_cuda_conv2d_grad0, sw_cuda_conv2d_grad1,
    sw_cuda_conv2d_grad3;
sw_cuda_scratch_size sw_cuda_conv2d_y_scratch, sw_cuda_conv2d_dx_scratch,
    sw_cuda_conv2d_dw_scratch, sw_cuda_conv2d_db_scratch;
}

/* Blocks that keep a large card busy, and positions that are worth a part of their own in sums
 * for the weights; tests give fewer. */
#ifndef SW_CUDA_DW_TILES
#define SW_CUDA_DW_TILES 512
#endif
#ifndef SW_CUDA_DW_POSITIONS
#define SW_CUDA_DW_POSITIONS 512
#endif

bool sw_cuda_depthwise_is(const sw_cuda_conv &c);
sw_status sw_cuda_depthwise(float *y, const float *x, const float *w, const float *bias,
                            const sw_cuda_conv &c, int add, const sw_cuda_queue *queue);
sw_status sw_cuda_depthwise_dx(float *dx, const float *dy, const float *w,
                               const sw_cuda_conv &c, int add, const sw_cuda_queue *queue);
/* Parts of the sums for its weights, by sizes alone; 0: it has no such kernel. */
unsigned sw_cuda_depthwise_parts(const sw_cuda_conv &c);
/* Into so many arrays of weights, one after the other; `sum` of them by the last block of a
 * channel where a queue has tickets for all channels: then *summed. */
sw_status sw_cuda_depthwise_dw(float *dw, const float *x, const float *dy,
                               const sw_cuda_conv &c, unsigned parts, int add,
                               const sw_cuda_column_sum &sum, bool *summed,
                               const sw_cuda_queue *queue);
