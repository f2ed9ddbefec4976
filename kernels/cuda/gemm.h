/* Matrix products of the module: by cuBLASLt where the queue has it and the shape suits it,
 * else by the kernels of gemm.cu. C and C++ read it.
 *
 * Own kernels: float32 sums, each in an order that shapes and strides alone decide; no TF32.
 * The order is not that of the CPU, and is another one where other rows or columns stand
 * beside: tiles, and the parts into which a long sum is cut, follow from the whole product. */
#pragma once

#include "kernels/axes.h"
#include "kernels/cuda/table.h"
#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The op on finished results, in place: the value of a unary function (unary_values.h). */
typedef enum { SW_CUDA_AS_IT_IS, SW_CUDA_RELU, SW_CUDA_LEAKY_RELU } sw_cuda_then;

typedef struct {
    sw_products p;     /* with pointers of the device */
    int64_t c_row;     /* rows of the one result are so far apart; 0: contiguous */
    const float *bias; /* (n), added to each row of all results; NULL: none */
    sw_cuda_then then; /* for own kernels alone */
    bool halves;  /* both factors are bf16, their pointers cast from uint16_t *: by a library
                     alone, SW_UNSUPPORTED without */
    bool half_c;  /* the result too, without a bias and without accumulation */
    float number; /* of the unary function */
} sw_cuda_product;

/* C (m, n) = A B: fill in pointers, `accumulate` and bias, and result and sum axes. */
static inline sw_cuda_product sw_cuda_product_of(int64_t m, int64_t n, int64_t k, int64_t a_row,
                                                 int64_t a_col, int64_t b_row, int64_t b_col)
{
    sw_cuda_product g;
    memset(&g, 0, sizeof g);
    g.p.m = m, g.p.n = n, g.p.k = k;
    g.p.a_row = a_row, g.p.a_col = a_col, g.p.b_row = b_row, g.p.b_col = b_col;
    return g;
}

/* Scratch of such a product, aligned to 64. Of pointers it is asked whether there is a bias;
 * other strides of a launch make do with what these want. SIZE_MAX: factors of bf16, and no
 * library that takes them. */
size_t sw_cuda_product_bytes(const sw_cuda_product *g, const sw_cuda_queue *queue);
/* Does no library of the queue take it, whatever comes after it? Own kernels then make it, for
 * any addresses: an answer for all launches of a plan. */
bool sw_cuda_product_is_own(const sw_cuda_product *g, const sw_cuda_queue *queue);
/* k == 0 gives bias or zeros. A product with something after it is never the library's. */
sw_status sw_cuda_product_run(const char *op, const sw_cuda_product *g, void *scratch,
                              size_t bytes, const sw_cuda_queue *queue);

/* The first members of a queue's `blas`: products by a library, which kernels know by these
 * two. Both get products whose axes are joined. */
typedef struct {
    /* Workspace that such a product needs; SIZE_MAX where the library does not do it. Called
     * when a plan is made, and what it finds is what run() then launches. */
    size_t (*bytes)(const sw_cuda_queue *queue, const sw_cuda_product *g);
    /* SW_UNSUPPORTED, without a message, where the library does not do it: nothing is launched
     * then. */
    sw_status (*run)(const sw_cuda_queue *queue, const sw_cuda_product *g, void *scratch,
                     size_t bytes);
} sw_cuda_blas;

#ifdef __cplusplus
}
#endif
