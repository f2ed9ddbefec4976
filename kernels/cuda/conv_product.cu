/* Convolutions by a library, where a queue has it.
 *
 * Kernels of one position are a product of matrices for each image and group, by the library
 * for products (runtime/device/cuda/blas.c). Its tiles lie in one image, so it leaves small
 * planes to others, and products with a bias, one number for each row. The gradient of weights
 * would be a sum of products. The rest goes to conv.cu and conv_weights.cu: their tiles go on
 * from image to image. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/gemm.h"

#define LEAST_POSITIONS 32 /* of a plane */

bool sw_cuda_conv_is_product(const sw_cuda_conv &c, const sw_cuda_queue *queue)
{
    return queue->blas != nullptr && c.kernel_h == 1 && c.kernel_w == 1 && c.stride == 1 &&
           c.pad == 0 && c.in_h * c.in_w >= LEAST_POSITIONS;
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
