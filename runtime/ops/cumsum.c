/* y = cumulative sums of x along an axis: y[i] = x[0] + ... + x[i], one after the other in
 * float64, rounded to float32 each. Keeps nothing: dx[i] = dy[n - 1] + ... + dy[i], the same
 * from the other end. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const int64_t axis = ((const swi_line_attrs *)attrs)->axis;
    SW_TRY(swi_infer_same("cumsum", in, n_in, out));
    if (axis < 0 || axis >= in[0].shape.rank)
        SW_FAIL(SW_INVALID, "cumsum: axis %lld must be one of a tensor of rank %d",
                (long long)axis, in[0].shape.rank);
    return SW_OK;
}

static sw_lines lines_of(const sw_shape *s, const void *attrs, bool reverse)
{
    const int axis = (int)((const swi_line_attrs *)attrs)->axis;
    sw_lines l = {.outer = 1, .n = s->dim[axis], .inner = 1, .reverse = reverse};
    for (int i = 0; i < axis; i++)
        l.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        l.inner *= s->dim[i];
    return l;
}

static sw_status sum(const sw_launch *l, bool reverse)
{
    const sw_lines s = lines_of(&l->out[0].type.shape, l->attrs, reverse);
    sw_axes(l->isa)->cumsum(swi_out(l, 0), swi_in(l, 0), &s, swi_adds(l, 0), l->par);
    return SW_OK;
}

KERNEL(forward, sum(l, false))

/* in: dy */
KERNEL(dx_kernel, sum(l, true))
COUNT(operations, swi_count_per_element(&info->out[0], 1))

/* Each sum anew. */
static sw_status reference(const sw_reference *r)
{
    const sw_shape *s = &r->in_type[0].shape;
    const sw_lines l = lines_of(s, r->attrs, false);
    for (int64_t i = 0; i < swi_elements(s); i++) {
        double total = 0;
        for (int64_t k = i - i / l.inner % l.n * l.inner; k <= i; k += l.inner)
            total += r->in[0][k];
        r->out[0][i] = total;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), dx_kernel, operations, .inplace = 1)};

static const swi_line_attrs attrs[] = {{0}, {1}, {2}};
static const sw_op_case cases[] = {
    CASE("cols", IN(F32(4, 7)), AT(attrs[1])),
    CASE("rows", IN(F32(5, 37)), AT(attrs[0])),
    CASE("middle", IN(F32(3, 6, 21)), AT(attrs[1])),
    CASE("many lines", IN(F32(70, 50)), AT(attrs[1])),
    CASE("image", IN(F32(17, 2, 5, 3)), AT(attrs[2])),
    CASE("long line", IN(F32(3000)), AT(attrs[0])),
    CASE("one element", IN(F32(1)), AT(attrs[0])),
};

OP(cumsum, 1, 0, 1, ATTRS(swi_line_attrs), .infer = infer, .inplace = 1, .rebuild = 1,
   .forward = forward, .operations = operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_cumsum(sw_ctx *ctx, sw_value x, int axis)
{
    const swi_line_attrs a = {axis < 0 ? axis + sw_rank(ctx, x) : axis};
    return sw_op_apply(ctx, SW_OP_cumsum, &x, 1, &a);
}
