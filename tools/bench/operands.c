/* Operands of one product, on pages of their own. */
#include "tools/bench/operands.h"
#include "alloc/base/mem.h"

bench_product bench_product_of_layer(bench_of_layer which, int64_t m, int64_t n, int64_t k)
{
    if (which == BENCH_FORWARD)
        return (bench_product){.m = m, .n = n, .k = k, .count = 1, .turn_b = true};
    if (which == BENCH_INPUT)
        return (bench_product){.m = m, .n = k, .k = n, .count = 1};
    return (bench_product){.m = n, .n = k, .k = m, .count = 1, .turn_a = true};
}

enum { PAGE = 4096 };

static size_t pages(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

sw_status bench_operands_take(bench_operands *o, const bench_product *p, sw_isa isa)
{
    const size_t a = pages(p->m * p->k), b = pages(p->k * p->n), c = pages(p->m * p->n);
    o->bytes = a + b + 2 * c + PAGE + sw_dense(isa)->gemm_bytes(p->m, p->n, p->k, p->turn_a);
    SW_TRY(sw_heap_alloc(&o->block, SW_HEAP_DATASETS, o->bytes));
    unsigned char *at = o->block;
    at += (PAGE - (uintptr_t)at % PAGE) % PAGE;
    float *x = (float *)(void *)at;
    o->here = (sw_gemm){.a = x,
                        .b = (float *)(void *)(at + a),
                        .c = (float *)(void *)(at + a + b),
                        .a_row = p->turn_a ? 1 : p->k,
                        .a_col = p->turn_a ? p->m : 1,
                        .b_row = p->turn_b ? 1 : p->n,
                        .b_col = p->turn_b ? p->k : 1,
                        .m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .accumulate = p->adds};
    o->there = o->here;
    o->there.c = (float *)(void *)(at + a + b + c);
    o->scratch = at + a + b + 2 * c;
    uint32_t state = 1;
    for (size_t i = 0; i < (a + b) / sizeof *x; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return SW_OK;
}

void bench_operands_give(bench_operands *o)
{
    sw_heap_free(o->block, SW_HEAP_DATASETS, o->bytes);
    *o = (bench_operands){0};
}
