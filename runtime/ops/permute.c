/* Axes in another order: permute, transpose; pieces along an axis: split. Views: ops that take
 * strides read them in place, for others the trace makes a counted copy. */
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const swi_permute_attrs *a = attrs;
    const sw_shape *s = &in[0].shape;
    uint32_t seen = 0;
    if (a->n != s->rank)
        SW_FAIL(SW_INVALID, "permute: %d axes for a tensor of rank %d", a->n, s->rank);
    out[0] = in[0];
    for (int i = 0; i < s->rank; i++) {
        const int axis = a->axis[i];
        if (axis < 0 || axis >= s->rank)
            SW_FAIL(SW_INVALID, "permute: axis %d of a tensor of rank %d", axis, s->rank);
        if ((seen >> axis & 1u) != 0)
            SW_FAIL(SW_INVALID, "permute: axis %d is named twice", axis);
        seen |= 1u << axis;
        out[0].shape.dim[i] = s->dim[axis];
    }
    return SW_OK;
}

static sw_status view(const sw_buffer *in, const void *attrs, const sw_type *out,
                      int64_t *strides, int64_t *offset)
{
    const swi_permute_attrs *a = attrs;
    for (int i = 0; i < out->shape.rank; i++)
        strides[i] = in->stride[a->axis[i]];
    *offset = 0;
    return SW_OK;
}

static void rule(sw_ctx *ctx, const sw_rule *r)
{
    const swi_permute_attrs *a = r->attrs;
    swi_permute_attrs back = {.n = a->n};
    for (int i = 0; i < a->n; i++)
        back.axis[a->axis[i]] = i;
    r->din[0] = sw_op_apply(ctx, SW_OP_permute, r->dout, 1, &back);
}

static sw_status reference(const sw_reference *r)
{
    const swi_permute_attrs *a = r->attrs;
    const sw_shape *x = &r->in_type[0].shape, *y = &r->out_type[0].shape;
    for (int64_t i = 0; i < swi_elements(y); i++) {
        int64_t place[SW_MAX_RANK] = {0}, rest = i, from = 0;
        for (int k = y->rank - 1; k >= 0; k--) {
            place[a->axis[k]] = rest % y->dim[k];
            rest /= y->dim[k];
        }
        for (int k = 0; k < x->rank; k++)
            from = from * x->dim[k] + place[k];
        r->out[0][i] = r->in[0][from];
    }
    return SW_OK;
}

static const swi_permute_attrs case_attrs[] = {
    {2, {1, 0}}, {4, {0, 2, 1, 3}}, {3, {2, 0, 1}}, {4, {3, 1, 0, 2}}, {0, {0}}};
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(5, 7)), AT(case_attrs[0])),
    CASE("heads", IN(F32(2, 5, 3, 4)), AT(case_attrs[1])),
    CASE("turned", IN(F32(2, 3, 5)), AT(case_attrs[2])),
    CASE("image", IN(F32(17, 3, 2, 3)), AT(case_attrs[3])),
    CASE("scalar", IN(SCALAR), AT(case_attrs[4])),
    CASE("one element", IN(F32(1, 1)), AT(case_attrs[0])),
};

OP(permute, 1, 0, 1, ATTRS(swi_permute_attrs), .infer = infer, .view = view, .rule = rule,
   CHECKS(reference, cases));

sw_value sw_permute(sw_ctx *ctx, sw_value x, const int *axes, int n)
{
    swi_permute_attrs a = {.n = n};
    const int rank = sw_rank(ctx, x);
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    if (axes == NULL && n > 0) {
        sw_fail(ctx, SW_INVALID, "permute: the axes must not be NULL");
        return (sw_value){0, 0};
    }
    for (int i = 0; i < n && i < SW_MAX_RANK; i++)
        a.axis[i] = axes[i] < 0 ? axes[i] + rank : axes[i];
    return sw_op_apply(ctx, SW_OP_permute, &x, 1, &a);
}

sw_value sw_transpose(sw_ctx *ctx, sw_value x, int axis_a, int axis_b)
{
    swi_permute_attrs a = {.n = sw_rank(ctx, x)};
    const int i = axis_a < 0 ? axis_a + a.n : axis_a, k = axis_b < 0 ? axis_b + a.n : axis_b;
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    if (i < 0 || i >= a.n || k < 0 || k >= a.n) {
        char text[96];
        snprintf(text, sizeof text, "transpose: axes %d and %d of a tensor of rank %d", axis_a,
                 axis_b, (int)a.n);
        sw_fail(ctx, SW_INVALID, text);
        return (sw_value){0, 0};
    }
    for (int m = 0; m < a.n; m++)
        a.axis[m] = m == i ? k : m == k ? i : m;
    return sw_op_apply(ctx, SW_OP_permute, &x, 1, &a);
}

int sw_split(sw_ctx *ctx, sw_value x, int64_t size, int axis, sw_value *parts, int max_parts)
{
    const int rank = sw_rank(ctx, x), i = axis < 0 ? axis + rank : axis;
    char text[128];
    if (sw_ctx_status(ctx) != SW_OK)
        return 0;
    const int64_t whole = i >= 0 && i < rank ? sw_dim(ctx, x, i) : 0;
    if (i < 0 || i >= rank || size < 1 || (whole + size - 1) / size > max_parts) {
        snprintf(text, sizeof text,
                 "split: axis %d of rank %d in pieces of %lld, room for %d pieces", axis, rank,
                 (long long)size, max_parts);
        sw_fail(ctx, SW_INVALID, text);
        return 0;
    }
    if (parts == NULL && whole > 0) {
        sw_fail(ctx, SW_INVALID, "split: the parts must not be NULL");
        return 0;
    }
    int n = 0;
    for (int64_t from = 0; from < whole; from += size)
        parts[n++] = sw_slice(ctx, x, i, from, whole - from < size ? whole - from : size);
    return sw_ctx_status(ctx) == SW_OK ? n : 0;
}
