/* The products of a step: their shapes from the trace, their times alone, here and in a
 * library. */
#include "tools/bench/roofline.h"
#include "alloc/base/mem.h"
#include "kernels/dispatch.h"
#include "kernels/tile_launch.h"

/* ---- shapes ------------------------------------------------------------------------------ */

static int64_t elements(const sw_type *t)
{
    return sw_type_elements(t);
}

/* Of a layer x (m, k), w (n, k): y = x w^T, dx = dy w, dw = dy^T x. */
enum { VALUE = -1, OF_X, OF_W };

static roofline_product of_layer(int which, int64_t m, int64_t n, int64_t k)
{
    if (which == VALUE)
        return (roofline_product){m, n, k, 1, .turn_b = true};
    if (which == OF_X)
        return (roofline_product){.m = m, .n = k, .k = n, .count = 1};
    return (roofline_product){n, k, m, 1, .turn_a = true};
}

static int linear(const swi_node *node, const sw_kernel_info *info, const sw_op_desc *desc,
                  roofline_product *p)
{
    const sw_type *w = &info->in[1];
    int which = VALUE;
    if (node->grad >= 0) {
        if (node->n_in < 2)
            return 0; /* sums of a bias */
        which = desc->grads[node->grad].makes[0] == 0 ? OF_X : OF_W;
        w = which == OF_X ? &info->in[0] : &info->out[0];
    }
    const int64_t n = w->shape.dim[0], k = w->shape.dim[1];
    const sw_type *rows = which == OF_W   ? &info->in[0]
                          : which == OF_X ? &info->out[0]
                                          : &info->in[0];
    p[0] = of_layer(which, elements(rows) / k, n, k);
    return 1;
}

static int linear_loss(const swi_node *node, const sw_kernel_info *info, roofline_product *p)
{
    if (node->grad >= 0)
        return 0; /* forward makes the gradients */
    const int64_t n = info->in[1].shape.dim[0], k = info->in[1].shape.dim[1],
                  m = elements(&info->in[0]) / k;
    int found = 0;
    p[found++] = of_layer(VALUE, m, n, k);
    for (int which = OF_X; which <= OF_W; which++)
        if (!swi_is_null(node, (uint32_t)(1 + which)))
            p[found++] = of_layer(which, m, n, k);
    return found;
}

static int tiles(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                 roofline_product *p)
{
    const swi_tile_attrs *a = swi_node_attrs(trace, node);
    if (swi_op_traits_of(a->make_op)->axes != SWI_AXES_LINEAR)
        return 0;
    const int64_t n = info->out[0].shape.dim[0], k = info->out[0].shape.dim[1];
    p[0] = of_layer(OF_W, elements(&info->in[0]) / k, n, k);
    return 1;
}

static int64_t dim_from_end(const sw_type *t, int back)
{
    return t->shape.dim[t->shape.rank - 1 - back];
}

/* y = a b, da = dy b^T, db = a^T dy; as many as the larger operand has in front. */
static int matmul(const swi_node *node, const sw_kernel_info *info, const sw_op_desc *desc,
                  roofline_product *p)
{
    const sw_type *a = &info->in[0], *b = &info->in[1], *y = &info->out[0];
    const int which = node->grad < 0 ? VALUE : desc->grads[node->grad].makes[0];
    const sw_type *many = which == VALUE ? y : b; /* in: b or a, then dy */
    roofline_product *q = &p[0];
    if (which == VALUE)
        *q = (roofline_product){
            .m = dim_from_end(y, 1), .n = dim_from_end(y, 0), .k = dim_from_end(a, 0)};
    else if (which == 0)
        *q = (roofline_product){dim_from_end(b, 1), dim_from_end(a, 1), dim_from_end(b, 0), 1,
                                .turn_b = true};
    else
        *q = (roofline_product){dim_from_end(a, 0), dim_from_end(b, 0), dim_from_end(b, 1), 1,
                                .turn_a = true};
    q->count = elements(many) / (dim_from_end(many, 0) * dim_from_end(many, 1));
    return 1;
}

/* y (out, positions) = w (out, in) x (in, positions) of each image, or of sixteen in a block.
 */
static int conv(const swi_trace *trace, const swi_node *node, const sw_kernel_info *info,
                const sw_op_desc *desc, roofline_product *p)
{
    const swi_conv_attrs *a = swi_node_attrs(trace, node);
    const int which = node->grad < 0 ? VALUE : desc->grads[node->grad].makes[0];
    const sw_type *w = which == VALUE  ? &info->in[1]
                       : which == OF_X ? &info->in[0]
                                       : &info->out[0],
                  *x = which == VALUE  ? &info->in[0]
                       : which == OF_X ? &info->out[0]
                                       : &info->in[0];
    if (node->n_in < 2 || w->shape.rank != 4 || w->shape.dim[2] != 1 || w->shape.dim[3] != 1 ||
        a->stride != 1 || a->pad != 0 || a->groups > 1)
        return 0;
    const bool blocks = x->layout == SW_N16;
    const int64_t out = w->shape.dim[0], in = w->shape.dim[1],
                  images = blocks ? (x->shape.dim[0] + 15) / 16 : x->shape.dim[0],
                  size = x->shape.dim[2] * x->shape.dim[3] * (blocks ? 16 : 1);
    if (which == VALUE)
        p[0] = (roofline_product){.m = out, .n = size, .k = in, .count = images};
    else if (which == OF_X)
        p[0] = (roofline_product){in, size, out, images, .turn_a = true};
    else
        p[0] = (roofline_product){out, in, size, images, .turn_b = true, .adds = true};
    return 1;
}

int roofline_products_of(const swi_trace *trace, const swi_node *node,
                         roofline_product products[ROOFLINE_PRODUCTS])
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    const swi_op_traits *traits = swi_op_traits_of(node->op);
    const sw_op_desc *desc = swi_op(node->op);
    swi_kernel_info(trace, node, types, &info);
    if (traits->duty == SWI_DUTY_TILED)
        return tiles(trace, node, &info, products);
    switch (traits->axes) {
    case SWI_AXES_LINEAR:
        return linear(node, &info, desc, products);
    case SWI_AXES_LINEAR_LOSS:
        return linear_loss(node, &info, products);
    case SWI_AXES_MATMUL:
        return matmul(node, &info, desc, products);
    case SWI_AXES_CONV:
        return conv(trace, node, &info, desc, products);
    default:
        return 0;
    }
}

/* ---- times ------------------------------------------------------------------------------- */

typedef struct {
    void *block;
    size_t bytes;
    sw_gemm g;
    void *scratch;
} operands;

static size_t rounded(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 4095) / 4096 * 4096;
}

static sw_status take(operands *o, const roofline_sides *s, const roofline_product *p)
{
    const size_t a = rounded(p->m * p->k), b = rounded(p->k * p->n), c = rounded(p->m * p->n);
    o->bytes = a + b + c + 4096 + sw_dense(s->isa)->gemm_bytes(p->m, p->n, p->k, p->turn_a);
    SW_TRY(sw_heap_alloc(&o->block, SW_HEAP_DATASETS, o->bytes));
    unsigned char *at = o->block;
    at += (4096 - (uintptr_t)at % 4096) % 4096;
    o->g = (sw_gemm){.a = (float *)(void *)at,
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
    o->scratch = at + a + b + c;
    float *x = (float *)(void *)at;
    for (size_t i = 0; i < (a + b) / sizeof *x; i++)
        x[i] = (float)(i % 17) / 16.0f - 0.5f;
    return SW_OK;
}

/* The least of some calls in a row, behind one that wakes the threads. */
static uint64_t least(const roofline_sides *s, const operands *o, bool library)
{
    enum { CALLS = 40, ENOUGH_NS = 30000000 };
    uint64_t found = UINT64_MAX, all = 0;
    for (int i = 0; i < CALLS && all < ENOUGH_NS; i++) {
        const uint64_t start = cli_clock_ns();
        if (library)
            bench_library_run(s->library, &o->g);
        else
            sw_dense(s->isa)->gemm(&o->g, o->scratch, s->par);
        const uint64_t ns = cli_clock_ns() - start;
        found = ns < found ? ns : found;
        all += ns;
    }
    if (library)
        bench_library_rest();
    return found;
}

sw_status roofline_products_time(const roofline_sides *s, const roofline_product *p,
                                 uint64_t *here_ns, uint64_t *library_ns)
{
    enum { ROUNDS = 3 };
    operands o;
    SW_TRY(take(&o, s, p));
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const uint64_t ns = least(s, &o, i % 2 == 1);
        best[i % 2] = ns < best[i % 2] ? ns : best[i % 2];
    }
    *here_ns = best[0] * (uint64_t)p->count;
    *library_ns = best[1] * (uint64_t)p->count;
    sw_heap_free(o.block, SW_HEAP_DATASETS, o.bytes);
    return SW_OK;
}
