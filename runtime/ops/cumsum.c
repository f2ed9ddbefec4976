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

static sw_status forward(const sw_launch *l)
{
    return sum(l, false);
}

/* in: dy */
static sw_status dx_kernel(const sw_launch *l)
{
    return sum(l, true);
}

static uint64_t operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->out[0], 1);
}

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

static const sw_grad_desc grads[] = {{.n_makes = 1,
                                      .makes = {0},
                                      .n_operands = 1,
                                      .operands = {SW_DOUT(0)},
                                      .inplace = 1,
                                      .kernel = dx_kernel,
                                      .operations = operations}};

static const swi_line_attrs attrs[] = {{0}, {1}, {2}};
static const sw_op_case cases[] = {
    {.name = "cols", .n_in = 1, .in = {SWI_F32(4, 7)}, .attrs = &attrs[1]},
    {.name = "rows", .n_in = 1, .in = {SWI_F32(5, 37)}, .attrs = &attrs[0]},
    {.name = "middle", .n_in = 1, .in = {SWI_F32(3, 6, 21)}, .attrs = &attrs[1]},
    {.name = "many lines", .n_in = 1, .in = {SWI_F32(70, 50)}, .attrs = &attrs[1]},
    {.name = "image", .n_in = 1, .in = {SWI_F32(17, 2, 5, 3)}, .attrs = &attrs[2]},
    {.name = "long line", .n_in = 1, .in = {SWI_F32(3000)}, .attrs = &attrs[0]},
    {.name = "one element", .n_in = 1, .in = {SWI_F32(1)}, .attrs = &attrs[0]},
};

const sw_op_desc sw_op_cumsum = {.size = sizeof(sw_op_desc),
                                 .name = "cumsum",
                                 .n_in = 1,
                                 .n_out = 1,
                                 .attrs_bytes = sizeof(swi_line_attrs),
                                 .infer = infer,
                                 .inplace = 1,
                                 .rebuild = 1,
                                 .forward = forward,
                                 .grads = grads,
                                 .n_grads = SWI_COUNT(grads),
                                 .reference = reference,
                                 .cases = cases,
                                 .n_cases = SWI_COUNT(cases),
                                 .operations = operations};

sw_value sw_cumsum(sw_ctx *ctx, sw_value x, int axis)
{
    const swi_line_attrs a = {axis < 0 ? axis + sw_rank(ctx, x) : axis};
    return sw_op_apply(ctx, SW_OP_cumsum, &x, 1, &a);
}
