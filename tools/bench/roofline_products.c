/* The products of a step: their shapes from the trace, their times alone, here and in a
 * library. */
#include "tools/bench/roofline.h"
#include "kernels/tile_launch.h"

/* ---- shapes ------------------------------------------------------------------------------ */

static int64_t elements(const sw_type *t)
{
    return sw_type_elements(t);
}

static bench_of_layer which_of(const swi_node *node)
{
    if (node->grad < 0)
        return BENCH_FORWARD;
    return swi_op(node->op)->grads[node->grad].makes[0] == 0 ? BENCH_INPUT : BENCH_WEIGHT;
}

/* in: x, w; or w, dy; or x, dy. A node with one operand sums up a bias. */
static int linear(const swi_node *node, const sw_kernel_info *info, bench_product *p)
{
    const bench_of_layer which = which_of(node);
    if (node->n_in < 2)
        return 0;
    const sw_type *x = which == BENCH_INPUT ? &info->out[0] : &info->in[0],
                  *w = which == BENCH_FORWARD ? &info->in[1]
                       : which == BENCH_INPUT ? &info->in[0]
                                              : &info->out[0];
    const int64_t n = w->shape.dim[0], k = w->shape.dim[1];
    p[0] = bench_product_of_layer(which, elements(x) / k, n, k);
    return 1;
}

static int linear_loss(const swi_node *node, const sw_kernel_info *info, bench_product *p)
{
    if (node->grad >= 0)
        return 0; /* forward makes the gradients */
    const int64_t n = info->in[1].shape.dim[0], k = info->in[1].shape.dim[1],
                  m = elements(&info->in[0]) / k;
    int found = 0;
    p[found++] = bench_product_of_layer(BENCH_FORWARD, m, n, k);
    for (uint32_t out = 1; out <= 2; out++) /* after the loss: dx, dw */
        if (!swi_is_null(node, out))
            p[found++] = bench_product_of_layer(out == 1 ? BENCH_INPUT : BENCH_WEIGHT, m, n, k);
    return found;
}

static int tiles(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                 bench_product *p)
{
    const swi_tile_attrs *a = swi_node_attrs(trace, node);
    if (swi_op_traits_of(a->make_op)->axes != SWI_AXES_LINEAR)
        return 0;
    const int64_t n = info->out[0].shape.dim[0], k = info->out[0].shape.dim[1];
    p[0] = bench_product_of_layer(BENCH_WEIGHT, elements(&info->in[0]) / k, n, k);
    return 1;
}

/* Products of whole matrices: strips change no shape that counts. */
static int strips(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                  bench_product *p)
{
    const swi_strips_attrs *a = swi_node_attrs(trace, node);
    const bool updates = a->kind == SWI_STRIPS_UPDATE;
    if (!updates && a->kind != SWI_STRIPS_PRODUCT)
        return 0;
    const sw_type *w = updates ? &info->out[1] : &info->in[1];
    const int64_t m = info->in[0].shape.dim[0], n = w->shape.dim[0], k = w->shape.dim[1];
    p[0] = bench_product_of_layer(updates ? BENCH_INPUT : BENCH_FORWARD, m, n, k);
    if (updates)
        p[1] = bench_product_of_layer(BENCH_WEIGHT, m, n, k);
    return updates ? 2 : 1;
}

static int64_t dim_from_end(const sw_type *t, int back)
{
    return t->shape.dim[t->shape.rank - 1 - back];
}

/* y = a b, da = dy b^T, db = a^T dy; as many as the larger operand has in front. in: a, b; or
 * b, dy; or a, dy. */
static int matmul(const swi_node *node, const sw_kernel_info *info, bench_product *p)
{
    const sw_type *first = &info->in[0], *second = &info->in[1];
    const bench_of_layer which = which_of(node);
    const sw_type *y = which == BENCH_FORWARD ? &info->out[0] : second;
    const int64_t m = dim_from_end(y, 1), n = dim_from_end(y, 0),
                  k = dim_from_end(first, which == BENCH_INPUT ? 1 : 0);
    if (which == BENCH_FORWARD)
        p[0] = (bench_product){.m = m, .n = n, .k = k};
    else if (which == BENCH_INPUT)
        p[0] = (bench_product){.m = m, .n = k, .k = n, .turn_b = true};
    else
        p[0] = (bench_product){.m = k, .n = n, .k = m, .turn_a = true};
    p[0].count = elements(y) / (m * n);
    return 1;
}

/* y (out, positions) = w (out, in) x (in, positions) of each image, or of sixteen in a block.
 */
static int conv(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                bench_product *p)
{
    const swi_conv_attrs *a = swi_node_attrs(trace, node);
    const bench_of_layer which = which_of(node);
    const sw_type *x = which == BENCH_INPUT ? &info->out[0] : &info->in[0],
                  *w = which == BENCH_FORWARD ? &info->in[1]
                       : which == BENCH_INPUT ? &info->in[0]
                                              : &info->out[0];
    if (node->n_in < 2 || w->shape.rank != 4 || w->shape.dim[2] != 1 || w->shape.dim[3] != 1 ||
        a->stride != 1 || a->pad != 0 || a->groups > 1)
        return 0;
    const bool blocks = x->layout == SW_N16;
    const int64_t out = w->shape.dim[0], in = w->shape.dim[1],
                  images = blocks ? (x->shape.dim[0] + 15) / 16 : x->shape.dim[0],
                  size = x->shape.dim[2] * x->shape.dim[3] * (blocks ? 16 : 1);
    if (which == BENCH_FORWARD)
        p[0] = (bench_product){.m = out, .n = size, .k = in};
    else if (which == BENCH_INPUT)
        p[0] = (bench_product){.m = in, .n = size, .k = out, .turn_a = true};
    else
        p[0] = (bench_product){.m = out, .n = in, .k = size, .turn_b = true, .adds = true};
    p[0].count = images;
    return 1;
}

int roofline_products_of(const swi_trace *trace, const swi_node *node,
                         bench_product products[ROOFLINE_PRODUCTS])
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    const swi_op_traits *traits = swi_op_traits_of(node->op);
    swi_kernel_info(trace, node, types, &info);
    if (traits->duty == SWI_DUTY_TILED)
        return tiles(trace, node, &info, products);
    if (traits->duty == SWI_DUTY_STRIPS)
        return strips(trace, node, &info, products);
    switch (traits->axes) {
    case SWI_AXES_LINEAR:
        return linear(node, &info, products);
    case SWI_AXES_LINEAR_LOSS:
        return linear_loss(node, &info, products);
    case SWI_AXES_MATMUL:
        return matmul(node, &info, products);
    case SWI_AXES_CONV:
        return conv(trace, node, &info, products);
    default:
        return 0;
    }
}

/* ---- times ------------------------------------------------------------------------------- */

/* The least of some calls in a row, after one that wakes the threads. */
static uint64_t least(const roofline_sides *s, const bench_operands *o, bool library)
{
    enum { CALLS = 40, ENOUGH_NS = 30000000 };
    uint64_t found = UINT64_MAX, all = 0;
    for (int i = 0; i < CALLS && all < ENOUGH_NS; i++) {
        const uint64_t start = cli_clock_ns();
        if (library)
            bench_library_run(s->blas, &o->there);
        else
            sw_dense(s->isa)->gemm(&o->here, o->scratch, s->par);
        const uint64_t ns = cli_clock_ns() - start;
        found = ns < found ? ns : found;
        all += ns;
    }
    if (library)
        bench_library_rest();
    return found;
}

sw_status roofline_products_time(const roofline_sides *s, const bench_product *p,
                                 uint64_t *here_ns, uint64_t *blas_ns)
{
    enum { ROUNDS = 3 };
    bench_operands o;
    SW_TRY(bench_operands_take(&o, p, s->isa));
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const uint64_t ns = least(s, &o, i % 2 == 1);
        best[i % 2] = ns < best[i % 2] ? ns : best[i % 2];
    }
    *here_ns = best[0] * (uint64_t)p->count;
    *blas_ns = best[1] * (uint64_t)p->count;
    bench_operands_give(&o);
    return SW_OK;
}
