/* Convolutions by libraries, where a queue has them.
 *
 * Kernels of one position are a product of matrices for each image and group, by the library
 * for products (runtime/device/cuda/blas.c). Its tiles lie in one image, so it leaves small
 * planes to others, and products with a bias, one number for each row. The gradient of weights
 * would be a sum of products.
 *
 * All else but depthwise is asked of the library for convolutions (runtime/device/cuda/dnn.c).
 * Where both could do it the product is taken: the same sum, without positions to be worked
 * out; but for groups, whose products the first library leaves to own kernels. The rest goes to
 * conv.cu and conv_weights.cu: their tiles go on from image to image. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/gemm.h"

#define LEAST_POSITIONS 32 /* of a plane */

/* ---- by a library for convolutions ------------------------------------------------------- */

sw_cuda_conv_sizes sw_cuda_conv_sizes_of(sw_cuda_conv_result result, const sw_type *x,
                                         const sw_type *w, const sw_type *y, bool bias,
                                         const void *attrs)
{
    const swi_conv_attrs *a = static_cast<const swi_conv_attrs *>(attrs);
    const int64_t *in = x->shape.dim, *kernel = w->shape.dim, *out = y->shape.dim;
    sw_cuda_conv_sizes s;
    s.result = result;
    s.bias = bias;
    s.batch = in[0];
    s.in_c = in[1], s.in_h = in[2], s.in_w = in[3];
    s.out_c = out[1], s.out_h = out[2], s.out_w = out[3];
    s.kernel_h = kernel[2], s.kernel_w = kernel[3];
    s.groups = a->groups, s.stride = a->stride, s.pad = a->pad, s.dilation = a->dilation;
    return s;
}

static const sw_cuda_dnn *dnn_of(const sw_cuda_queue *queue)
{
    return static_cast<const sw_cuda_dnn *>(queue->dnn);
}

size_t sw_cuda_conv_library_bytes(const sw_cuda_conv_sizes &sizes, const sw_cuda_queue *queue)
{
    return dnn_of(queue) != nullptr ? dnn_of(queue)->bytes(queue, &sizes) : SIZE_MAX;
}

sw_status sw_cuda_conv_library(const sw_cuda_conv_sizes &sizes, const sw_launch *l,
                               const sw_cuda_queue *queue)
{
    if (dnn_of(queue) == nullptr)
        return SW_UNSUPPORTED;
    const sw_cuda_conv_operands at = {{sw_cuda_in(l, 0), sw_cuda_in(l, 1)},
                                      sizes.bias != 0 ? sw_cuda_in(l, 2) : nullptr,
                                      sw_cuda_out(l, 0),
                                      sw_cuda_adds(l, 0)};
    return dnn_of(queue)->run(queue, &sizes, &at, l->scratch, l->scratch_bytes);
}

/* ---- as products ------------------------------------------------------------------------- */

bool sw_cuda_conv_is_product(const sw_cuda_conv &c, const sw_cuda_queue *queue)
{
    return queue->blas != nullptr && c.kernel_h == 1 && c.kernel_w == 1 && c.stride == 1 &&
           c.pad == 0 && c.in_h * c.in_w >= LEAST_POSITIONS &&
           (c.groups == 1 || queue->dnn == nullptr);
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

size_t sw_cuda_conv_product_bytes(const sw_cuda_conv &c, bool backward, bool add,
                                  const sw_cuda_queue *queue)
{
    sw_cuda_product g = product_of(c, backward);
    g.p.accumulate = add;
    return sw_cuda_product_bytes(&g, queue);
}

sw_status sw_cuda_conv_product(float *to, const float *from, const float *w,
                               const sw_cuda_conv &c, bool backward, bool add,
                               const sw_launch *l, const sw_cuda_queue *queue)
{
    sw_cuda_product g = product_of(c, backward);
    g.p.c = to, g.p.a = w, g.p.b = from;
    g.p.accumulate = add;
    return sw_cuda_product_run("conv2d", &g, l->scratch, l->scratch_bytes, queue);
}
