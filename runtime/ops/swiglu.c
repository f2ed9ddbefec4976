/* y = swish(a) b, element by element (Shazeer 2020). With one input it has a and b side by side
 * in its last axis. Keeps the inputs; swish and its slope are recomputed in backward. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *a = &in[0].shape;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_infer_same("swiglu", in, n_in, out));
    if (n_in > 1 && !swi_same_shape(a, &in[1].shape))
        SW_FAIL(SW_INVALID, "swiglu: both inputs must have one shape (got %s and %s)",
                swi_shape_text(a, s), swi_shape_text(&in[1].shape, t));
    if (n_in > 1)
        return SW_OK;
    if (a->rank < 1 || a->dim[a->rank - 1] % 2 != 0)
        SW_FAIL(SW_INVALID, "swiglu: the last axis must have two halves (got %s)",
                swi_shape_text(a, s));
    out[0].shape.dim[a->rank - 1] /= 2;
    return SW_OK;
}

/* a and b in the first n operands; elements of either as rows. */
static sw_glu operands(const sw_launch *l, int n)
{
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t all = swi_elements(s) / (n == 1 ? 2 : 1);
    const int64_t cols = n == 1 ? s->dim[s->rank - 1] / 2 : all;
    return (sw_glu){.a = swi_in(l, 0),
                    .b = n == 1 ? swi_in(l, 0) + cols : swi_in(l, 1),
                    .rows = cols > 0 ? all / cols : 0,
                    .cols = cols,
                    .step = n == 1 ? 2 * cols : cols};
}

static sw_status forward(const sw_launch *l)
{
    sw_glu g = operands(l, l->n_in);
    g.y = swi_out(l, 0);
    sw_pointwise(l->isa)->swiglu(&g, l->par);
    return SW_OK;
}

COUNT(operations, swi_count_per_element(&info->out[0], SWI_SWISH + 1))

/* in: a, b, dy (both, da), or the one tensor and dy (its gradient has both); a, dy (db) */
static sw_status gradient(const sw_launch *l, bool da, bool db)
{
    const bool one = da && l->n_in == 2;
    sw_glu g = operands(l, one ? 1 : 2);
    g.dy = swi_in(l, l->n_in - 1);
    g.da = da ? swi_out(l, 0) : NULL;
    g.db = one ? swi_out(l, 0) + g.cols : db ? swi_out(l, da) : NULL;
    g.add_a = swi_adds(l, 0);
    g.add_b = swi_adds(l, da && db);
    sw_pointwise(l->isa)->swiglu_grad(&g, l->par);
    return SW_OK;
}

KERNEL(both_kernel, gradient(l, true, true))
KERNEL(da_kernel, gradient(l, true, false))
KERNEL(db_kernel, gradient(l, false, true))

/* dy b times the slope of swish, as swish counts it; dy times swish. */
enum { DA = SWI_SWISH_SLOPE + 2, DB = SWI_SWISH + 1 };

COUNT(both_operations, swi_count_per_element(&info->out[0], DA + DB))

static uint64_t da_operations(const sw_kernel_info *info)
{
    if (info->n_in == 2)
        return swi_count_per_element(&info->in[1], DA + DB);
    return swi_count_per_element(&info->out[0], DA);
}

COUNT(db_operations, swi_count_per_element(&info->out[0], DB))

static sw_status reference(const sw_reference *r)
{
    const sw_shape *s = &r->out_type[0].shape;
    const int64_t cols = r->n_in == 1 ? s->dim[s->rank - 1] : 1;
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t at = r->n_in == 1 ? i + i / cols * cols : i;
        const double a = r->in[0][at], b = r->n_in == 1 ? r->in[0][at + cols] : r->in[1][at];
        r->out[0][i] = a / (1.0 + exp(-a)) * b;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0, 1), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), both_kernel, both_operations,
         .inplace = 7),
    GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), da_kernel, da_operations,
         .inplace = 1),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), db_kernel, db_operations)};
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(3, 19), F32(3, 19))),
    CASE("several parts", IN(F32(5, 7001), F32(5, 7001))),
    CASE("halves", IN(F32(2, 5, 2 * 67))),
    CASE("halves of long rows", IN(F32(3, 2 * 9001))),
    CASE("one element", IN(SCALAR, SCALAR)),
};

OP(swiglu, 1, 2, 1, .infer = infer, .inplace = 3, .rebuild = 1, .forward = forward,
   .operations = operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_swiglu(sw_ctx *ctx, sw_value a, sw_value b)
{
    const sw_value in[] = {a, b};
    const sw_value whole = swi_whole_of(ctx, in, 2);
    if (whole.id != 0)
        return sw_op_apply(ctx, SW_OP_swiglu, &whole, 1, NULL);
    return sw_op_apply(ctx, SW_OP_swiglu, in, 2, NULL);
}
