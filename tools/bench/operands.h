/* Matrix products to be timed: their shapes, and operands of their own. */
#ifndef STEPWELL_BENCH_OPERANDS_H
#define STEPWELL_BENCH_OPERANDS_H

#include "kernels/dispatch.h"
#include "tools/bench/bench.h"

/* `count` products c (m, n) = a (m, k) b (k, n); turned: the rows of a lie along k, the rows of
 * b along n. */
typedef struct {
    int64_t m, n, k, count;
    bool turn_a, turn_b, adds;
} bench_product;

/* Those of a layer with x (m, k), w (n, k), y (m, n): y = x w^T, dx = dy w, dw = dy^T x. */
typedef enum { BENCH_FORWARD, BENCH_INPUT, BENCH_WEIGHT, BENCH_LAYER_PRODUCTS } bench_of_layer;
bench_product bench_product_of_layer(bench_of_layer which, int64_t m, int64_t n, int64_t k);

/* Random operands in -1..1, two results, and the kernel's scratch. */
typedef struct {
    void *block;
    size_t bytes;
    sw_gemm here, there; /* with a result each */
    void *scratch;
} bench_operands;
SW_MUST_USE sw_status bench_operands_take(bench_operands *o, const bench_product *p,
                                          sw_isa isa);
void bench_operands_give(bench_operands *o);

#endif
