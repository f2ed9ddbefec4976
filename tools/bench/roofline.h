/* bench speed --ops: which products an op consists of, and what they take alone. */
#ifndef STEPWELL_BENCH_ROOFLINE_H
#define STEPWELL_BENCH_ROOFLINE_H

#include "runtime/base/op_traits.h"
#include "runtime/exec/exec.h"
#include "tools/bench/library.h"

/* `count` products c (m, n) = a (m, k) b (k, n) of one shape; turned: as a weight's gradient
 * has a, and as a layer has its weights for b. */
typedef struct {
    int64_t m, n, k, count;
    bool turn_a, turn_b, adds;
} roofline_product;
enum { ROOFLINE_PRODUCTS = 3 };

/* The products of a node of linear layers, losses behind them, matmul, convolutions of one
 * position and updates in tiles, uncut; how many there are. Attention and other convolutions
 * multiply too, but not so that a library could. */
int roofline_products_of(const swi_trace *trace, const swi_node *node,
                         roofline_product products[ROOFLINE_PRODUCTS]);

typedef struct {
    const bench_library *library;
    sw_isa isa;
    const sw_par *par;
} roofline_sides;
/* The least time of all of them: here, and in the library. */
SW_MUST_USE sw_status roofline_products_time(const roofline_sides *sides,
                                             const roofline_product *p, uint64_t *here_ns,
                                             uint64_t *library_ns);

#endif
