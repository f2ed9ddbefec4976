/* y (batch, out) = x (batch, in) w^T + b; w (out, in), b (out) optional.
 *
 * Keeps x for dw and w for dx: dx = dy w, dw = dy^T x, db = column sums of dy. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *x = &in[0].shape, *w = &in[1].shape;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("linear", in, n_in));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1])
        SW_FAIL(SW_INVALID,
                "linear: input and weight must be (batch, in) and (out, in) (got %s and %s)",
                swi_shape_text(x, s), swi_shape_text(w, t));
    if (n_in > 2 && (in[2].shape.rank != 1 || in[2].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "linear: the bias must be (out) (got %s for the weight %s)",
                swi_shape_text(&in[2].shape, s), swi_shape_text(w, t));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], w->dim[0]}}};
    return SW_OK;
}

/* (rows, cols) times `depth` multiply-adds. */
static uint64_t product(int64_t rows, int64_t cols, int64_t depth)
{
    return swi_count_mul(swi_count_mul((uint64_t)rows, (uint64_t)cols),
                         swi_count_mul(2, (uint64_t)depth));
}

static uint64_t forward_operations(const sw_kernel_info *info)
{
    const sw_shape *x = &info->in[0].shape, *w = &info->in[1].shape;
    return swi_count_add(product(x->dim[0], w->dim[0], x->dim[1]),
                         info->n_in > 2 ? swi_count_per_element(&info->out[0], 1) : 0);
}

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_shape *x = &info->in[0].shape, *w = &info->in[1].shape;
    return sw_dense(info->isa)->gemm_bytes(x->dim[0], w->dim[0], x->dim[1], false);
}

/* Operand a (m, k) by operand b (k, n), with these steps of rows and columns. */
static sw_status multiply(const sw_launch *l, sw_gemm g, int a, int b, const float *bias)
{
    g.c = swi_out(l, 0);
    g.a = swi_in(l, a);
    g.b = swi_in(l, b);
    g.bias = bias;
    g.accumulate = swi_adds(l, 0);
    sw_dense(l->isa)->gemm(&g, l->scratch, l->par);
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *w = l->in[1].type.shape.dim;
    const sw_gemm g = {
        .a_row = x[1], .a_col = 1, .b_row = 1, .b_col = w[1], .m = x[0], .n = w[0], .k = x[1]};
    return multiply(l, g, 0, 1, l->n_in > 2 ? swi_in(l, 2) : NULL);
}

/* in: w (out, in), dy (batch, out). w may be a range of columns of a larger matrix. */
static size_t dx_bytes(const sw_kernel_info *info)
{
    const sw_shape *w = &info->in[0].shape, *dy = &info->in[1].shape;
    return sw_dense(info->isa)->gemm_bytes(dy->dim[0], w->dim[1], w->dim[0], false);
}

static uint64_t dx_operations(const sw_kernel_info *info)
{
    const sw_shape *w = &info->in[0].shape, *dy = &info->in[1].shape;
    return product(dy->dim[0], w->dim[1], w->dim[0]);
}

static sw_status dx_kernel(const sw_launch *l)
{
    const int64_t *w = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    const sw_gemm g = {.a_row = dy[1],
                       .a_col = 1,
                       .b_row = l->in[0].stride[0],
                       .b_col = 1,
                       .m = dy[0],
                       .n = w[1],
                       .k = w[0]};
    return multiply(l, g, 1, 0, NULL);
}

/* in: x (batch, in), dy (batch, out). dy may be a range of columns of a larger matrix: what is
 * made is then that range of rows of dw. */
static size_t dw_bytes(const sw_kernel_info *info)
{
    const sw_shape *x = &info->in[0].shape, *dy = &info->in[1].shape;
    return sw_dense(info->isa)->gemm_bytes(dy->dim[1], x->dim[1], x->dim[0], true);
}

static uint64_t dw_operations(const sw_kernel_info *info)
{
    const sw_shape *x = &info->in[0].shape, *dy = &info->in[1].shape;
    return product(dy->dim[1], x->dim[1], x->dim[0]);
}

static sw_status dw_kernel(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    const sw_gemm g = {.a_row = 1,
                       .a_col = l->in[1].stride[0],
                       .b_row = x[1],
                       .b_col = 1,
                       .m = dy[1],
                       .n = x[1],
                       .k = x[0]};
    return multiply(l, g, 1, 0, NULL);
}

/* in: dy */
static sw_status db_kernel(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_dense(l->isa)->column_sums(swi_out(l, 0), swi_in(l, 0), s->dim[0], s->dim[1], s->dim[1],
                                  swi_adds(l, 0), l->par);
    return SW_OK;
}

COUNT(db_operations, swi_count_per_element(&info->in[0], 1))

static sw_status reference(const sw_reference *r)
{
    const int64_t m = r->in_type[0].shape.dim[0], k = r->in_type[0].shape.dim[1];
    const int64_t n = r->in_type[1].shape.dim[0];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = r->n_in > 2 ? r->in[2][j] : 0.0;
            for (int64_t p = 0; p < k; p++)
                sum += r->in[0][i * k + p] * r->in[1][j * k + p];
            r->out[0][i * n + j] = sum;
        }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), dx_kernel, dx_operations,
         .scratch_bytes = dx_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dw_kernel, dw_operations,
         .scratch_bytes = dw_bytes),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), db_kernel, db_operations),
};

static const sw_op_case cases[] = {
    CASE("bias", IN(F32(5, 7), F32(9, 7), F32(9))),
    CASE("no bias", IN(F32(1, 3), F32(2, 3))),
    CASE("wide", IN(F32(33, 70), F32(130, 70), F32(130))),
};

OP(linear, 2, 3, 1, .infer = infer, .scratch_bytes = forward_bytes, .forward = forward,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_linear_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias)
{
    const sw_value in[] = {x, weight, bias};
    return sw_op_apply(ctx, SW_OP_linear, in, bias.id != 0 ? 3 : 2, NULL);
}
