/* bench speed --ops: which products an op consists of, and what they take alone. */
#ifndef STEPWELL_BENCH_ROOFLINE_H
#define STEPWELL_BENCH_ROOFLINE_H

#include "runtime/base/op_traits.h"
#include "runtime/exec/exec.h"
#include "tools/bench/library.h"
#include "tools/bench/operands.h"

enum { ROOFLINE_PRODUCTS = 3 };

/* The products of a node of linear layers, losses after them, matmul, convolutions of one
 * position and updates in tiles, uncut; how many there are. Attention and other convolutions
 * multiply too, but not so that a library could. */
int roofline_products_of(const swi_trace *trace, const swi_node *node,
                         bench_product products[ROOFLINE_PRODUCTS]);

typedef struct {
    const bench_library *blas;
    sw_isa isa;
    const sw_par *par;
} roofline_sides;
/* The least time of all of them: here, and in the library. */
SW_MUST_USE sw_status roofline_products_time(const roofline_sides *sides,
                                             const bench_product *p, uint64_t *here_ns,
                                             uint64_t *blas_ns);

#endif
