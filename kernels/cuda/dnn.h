/* Convolutions by a library, as kernels know it: what a queue's `dnn` begins with. C and C++
 * read it. */
#ifndef SW_CUDA_DNN_H
#define SW_CUDA_DNN_H

#include "kernels/cuda/table.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { SW_CUDA_CONV_Y, SW_CUDA_CONV_DX, SW_CUDA_CONV_DW } sw_cuda_conv_result;

/* Sizes of plain images and weights. All of one type: no holes, so that bytes can be compared.
 */
typedef struct {
    int64_t result;                                       /* sw_cuda_conv_result */
    int64_t bias;                                         /* 1: y has one */
    int64_t batch, in_c, in_h, in_w, out_c, out_h, out_w; /* channels of all groups */
    int64_t groups, kernel_h, kernel_w, stride, pad, dilation;
} sw_cuda_conv_sizes;

/* Pointers of the device. */
typedef struct {
    const float *in[2]; /* x, w for y; w, dy for dx; x, dy for dw */
    const float *bias;
    float *out;
    int accumulate;
} sw_cuda_conv_operands;

typedef struct {
    /* Workspace that it needs; SIZE_MAX where the library does not do it. Called when a plan is
     * made, and what it finds is what run() then launches. */
    size_t (*bytes)(const sw_cuda_queue *queue, const sw_cuda_conv_sizes *sizes);
    /* SW_UNSUPPORTED, without a message, where the library does not do it: nothing is launched
     * then. */
    sw_status (*run)(const sw_cuda_queue *queue, const sw_cuda_conv_sizes *sizes,
                     const sw_cuda_conv_operands *at, void *scratch, size_t bytes);
} sw_cuda_dnn;

#ifdef __cplusplus
}
#endif
#endif
