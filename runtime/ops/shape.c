/* concat, sums over axes and their adjoint expand. */
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

/* ---- concat ------------------------------------------------------------------------------ */

#define MAX_PARTS 32

static sw_status concat_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const int64_t axis = ((const swi_concat_attrs *)attrs)->axis;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    if (axis < 0 || axis >= in[0].shape.rank)
        SW_FAIL(SW_INVALID, "concat: axis %lld must be one of a tensor of rank %d",
                (long long)axis, in[0].shape.rank);
    out[0] = in[0];
    for (int i = 1; i < n_in; i++) {
        sw_shape a = in[i].shape, b = in[0].shape;
        if (a.rank == b.rank)
            a.dim[axis] = b.dim[axis] = 0;
        if (!swi_same_shape(&a, &b) || in[i].dtype != in[0].dtype)
            SW_FAIL(SW_INVALID,
                    "concat: input %d must be like input 0 but for axis %lld (got %s and %s)",
                    i, (long long)axis, swi_shape_text(&in[i].shape, s),
                    swi_shape_text(&in[0].shape, t));
        if (__builtin_add_overflow(out[0].shape.dim[axis], in[i].shape.dim[axis],
                                   &out[0].shape.dim[axis]))
            SW_FAIL(SW_INVALID, "concat: axis %lld overflows", (long long)axis);
    }
    return SW_OK;
}

static sw_status concat_forward(const sw_launch *l)
{
    const int64_t axis = ((const swi_concat_attrs *)l->attrs)->axis;
    const sw_buffer *y = &l->out[0];
    const size_t element = sw_dtype_bytes(y->type.dtype);
    unsigned char *to = y->ptr;
    for (int i = 0; i < l->n_in; i++) {
        const sw_buffer *x = &l->in[i];
        sw_strided strided = {.rank = x->type.shape.rank};
        memcpy(strided.dim, x->type.shape.dim, sizeof x->type.shape.dim);
        memcpy(strided.a, x->stride, sizeof x->stride);
        memcpy(strided.y, y->stride, sizeof y->stride);
        sw_strided_copy(to, x->ptr, element, &strided);
        to += (size_t)(x->type.shape.dim[axis] * y->stride[axis]) * element;
    }
    return SW_OK;
}

static void concat_rule(sw_ctx *ctx, const sw_rule *r)
{
    const int axis = (int)((const swi_concat_attrs *)r->attrs)->axis;
    int64_t from = 0;
    for (int i = 0; i < r->n_in; i++) {
        const int64_t n = sw_dim(ctx, r->in[i], axis);
        if (r->wanted[i])
            r->din[i] = sw_slice(ctx, r->dout[0], axis, from, n);
        from += n;
    }
}

static sw_status concat_reference(const sw_reference *r)
{
    const int64_t axis = ((const swi_concat_attrs *)r->attrs)->axis;
    const sw_shape *s = &r->out_type[0].shape;
    int64_t before = 1, after = 1, from = 0;
    for (int i = 0; i < axis; i++)
        before *= s->dim[i];
    for (int i = (int)axis + 1; i < s->rank; i++)
        after *= s->dim[i];
    for (int p = 0; p < r->n_in; p++) {
        const int64_t n = r->in_type[p].shape.dim[axis];
        for (int64_t i = 0; i < before; i++)
            for (int64_t k = 0; k < n * after; k++)
                r->out[0][(i * s->dim[axis] + from) * after + k] = r->in[p][i * n * after + k];
        from += n;
    }
    return SW_OK;
}

static const swi_concat_attrs concat_attrs[] = {{0}, {1}};
static const sw_op_case concat_cases[] = {
    CASE("rows", IN(F32(3, 4), F32(2, 4)), AT(concat_attrs[0])),
    CASE("cols", IN(F32(3, 4), F32(3, 1), F32(3, 5)), AT(concat_attrs[1])),
    CASE("channels", IN(F32(2, 1, 3, 3), F32(2, 2, 3, 3)), AT(concat_attrs[1])),
};

OP(concat, 1, MAX_PARTS, 1, ATTRS(swi_concat_attrs), .rebuild = 1, .infer = concat_infer,
   .strided_in = UINT32_MAX, .forward = concat_forward, .rule = concat_rule,
   .operations = swi_count_none, CHECKS(concat_reference, concat_cases));

sw_value sw_concat(sw_ctx *ctx, const sw_value *x, int n, int axis)
{
    if (x == NULL) {
        sw_fail(ctx, SW_INVALID, "concat: the values must not be NULL");
        return (sw_value){0, 0};
    }
    const swi_concat_attrs a = {axis < 0 && n > 0 ? axis + sw_rank(ctx, x[0]) : axis};
    return sw_op_apply(ctx, SW_OP_concat, x, n, &a);
}

sw_value sw_stack(sw_ctx *ctx, const sw_value *x, int n, int axis)
{
    sw_value parts[MAX_PARTS];
    char text[96] = "";
    if (x == NULL)
        snprintf(text, sizeof text, "stack: the values must not be NULL");
    else if (n < 1 || n > MAX_PARTS)
        snprintf(text, sizeof text, "stack: the values must be 1 to %d (got %d)", MAX_PARTS, n);
    if (text[0] != '\0') {
        sw_fail(ctx, SW_INVALID, text);
        return (sw_value){0, 0};
    }
    const sw_shape s = swi_shape_of(ctx, x[0]);
    const int at = axis < 0 ? axis + s.rank + 1 : axis;
    if (sw_ctx_status(ctx) == SW_OK && (at < 0 || at > s.rank || s.rank >= SW_MAX_RANK)) {
        snprintf(text, sizeof text, "stack: axis %d must be a new one of a tensor of rank %d",
                 axis, s.rank);
        sw_fail(ctx, SW_INVALID, text);
    }
    for (int i = 0; i < n && sw_ctx_status(ctx) == SW_OK; i++) {
        sw_shape part = swi_shape_of(ctx, x[i]);
        if (sw_ctx_status(ctx) == SW_OK && !swi_same_shape(&part, &s)) {
            char a[SWI_SHAPE_TEXT], b[SWI_SHAPE_TEXT];
            (void)swi_stick(ctx,
                            sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                         "stack: the shapes must be equal (value 0 is %s, "
                                         "value %d is %s)",
                                         swi_shape_text(&s, a), i, swi_shape_text(&part, b)));
        }
        part.rank = s.rank + 1;
        for (int d = s.rank; d >= 0; d--)
            part.dim[d] = d < at ? s.dim[d] : d == at ? 1 : s.dim[d - 1];
        parts[i] = sw_reshape(ctx, x[i], part);
    }
    return sw_concat(ctx, parts, n, at);
}

/* ---- sum over axes ----------------------------------------------------------------------- */

static bool is_axis(const swi_sum_attrs *a, int i)
{
    return (a->axes >> i & 1u) != 0;
}

static sw_status sum_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_sum_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    SW_TRY(swi_want_f32("sum", in, n_in));
    if (a->axes == 0 || a->axes >> x->rank != 0) {
        if (x->rank > 0 || a->axes != 0)
            SW_FAIL(SW_INVALID, "sum: the axes 0x%x must be those of a tensor of rank %d",
                    a->axes, x->rank);
    }
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    for (int i = 0; i < x->rank; i++)
        if (!is_axis(a, i))
            out[0].shape.dim[out[0].shape.rank++] = x->dim[i];
        else if (a->keep)
            out[0].shape.dim[out[0].shape.rank++] = 1;
    return SW_OK;
}

static sw_status sum_forward(const sw_launch *l)
{
    const swi_sum_attrs *a = l->attrs;
    const sw_buffer *x = &l->in[0], *y = &l->out[0];
    bool reduced[SW_STRIDED_MAX] = {false};
    sw_strided strided = {.rank = x->type.shape.rank};
    memcpy(strided.dim, x->type.shape.dim, sizeof x->type.shape.dim);
    memcpy(strided.a, x->stride, sizeof x->stride);
    for (int i = 0, k = 0; i < strided.rank; i++) {
        reduced[i] = is_axis(a, i);
        strided.y[i] = reduced[i] ? 0 : y->stride[k];
        k += !reduced[i] || a->keep;
    }
    sw_strided_sum(y->ptr, x->ptr, reduced, a->scale, swi_adds(l, 0), &strided);
    return SW_OK;
}

/* An addition for each element, and the scale of each result. */
COUNT(sum_operations, swi_count_add(swi_count_per_element(&info->in[0], 1),
                                    swi_count_per_element(&info->out[0], 1)))

static void sum_rule(sw_ctx *ctx, const sw_rule *r)
{
    const swi_sum_attrs *a = r->attrs;
    const sw_shape whole = swi_shape_of(ctx, r->in[0]);
    swi_sum_attrs e = {.axes = a->axes, .scale = a->scale};
    swi_set_shape(&e.shape, &whole);
    /* dy as a column over the summed axes. */
    sw_shape kept = whole;
    for (int i = 0; i < kept.rank; i++)
        if (is_axis(a, i))
            kept.dim[i] = 1;
    const sw_value dy = sw_reshape(ctx, r->dout[0], kept);
    r->din[0] = sw_op_apply(ctx, SW_OP_expand, &dy, 1, &e);
}

static sw_status sum_reference(const sw_reference *r)
{
    const swi_sum_attrs *a = r->attrs;
    const sw_shape *x = &r->in_type[0].shape;
    memset(r->out[0], 0, (size_t)swi_elements(&r->out_type[0].shape) * sizeof(double));
    for (int64_t i = 0; i < swi_elements(x); i++) {
        int64_t index = 0, step = 1, rest = i;
        for (int k = x->rank - 1; k >= 0; k--) {
            if (!is_axis(a, k)) {
                index += rest % x->dim[k] * step;
                step *= x->dim[k];
            }
            rest /= x->dim[k];
        }
        r->out[0][index] += r->in[0][i] * a->scale;
    }
    return SW_OK;
}

static const swi_sum_attrs sum_attrs[] = {{.axes = 1, .scale = 1},
                                          {.axes = 2, .scale = 0.25},
                                          {.axes = 3, .scale = 1},
                                          {.axes = 5, .scale = 0.5, .keep = 1}};
static const sw_op_case sum_cases[] = {
    CASE("rows", IN(F32(5, 3)), AT(sum_attrs[0])),
    CASE("cols", IN(F32(5, 4)), AT(sum_attrs[1])),
    CASE("all", IN(F32(6, 7)), AT(sum_attrs[2])),
    CASE("kept", IN(F32(2, 3, 4)), AT(sum_attrs[3])),
};

OP(sum, 1, 0, 1, ATTRS(swi_sum_attrs), .infer = sum_infer, .strided_in = 1,
   .forward = sum_forward, .rule = sum_rule, .operations = sum_operations,
   CHECKS(sum_reference, sum_cases));

static sw_value sum_over(sw_ctx *ctx, sw_value x, uint32_t axes, bool mean)
{
    const sw_shape s = swi_shape_of(ctx, x);
    const uint32_t all = s.rank > 0 ? UINT32_MAX >> (32 - s.rank) : 0;
    double n = 1;
    if (axes == 0)
        axes = all;
    for (int i = 0; i < s.rank; i++)
        n *= (axes >> i & 1u) != 0 ? (double)s.dim[i] : 1.0;
    if (mean && n == 0) {
        sw_fail(ctx, SW_INVALID, "mean: the input must have elements");
        return (sw_value){0, 0};
    }
    const swi_sum_attrs a = {.axes = axes, .scale = mean ? 1.0 / n : 1.0};
    return sw_op_apply(ctx, SW_OP_sum, &x, 1, &a);
}

sw_value sw_sum(sw_ctx *ctx, sw_value x, uint32_t axes)
{
    return sum_over(ctx, x, axes, false);
}

sw_value sw_mean(sw_ctx *ctx, sw_value x, uint32_t axes)
{
    return sum_over(ctx, x, axes, true);
}

sw_value swi_sum_to(sw_ctx *ctx, sw_value g, const sw_shape *shape)
{
    const sw_shape s = swi_shape_of(ctx, g);
    if (sw_ctx_status(ctx) != SW_OK || swi_same_shape(&s, shape))
        return g;
    uint32_t axes = 0;
    for (int i = 1; i <= s.rank; i++)
        if (i > shape->rank || (shape->dim[shape->rank - i] == 1 && s.dim[s.rank - i] != 1))
            axes |= 1u << (s.rank - i);
    const swi_sum_attrs a = {.axes = axes, .scale = 1.0, .keep = 1};
    if (axes != 0)
        g = sw_op_apply(ctx, SW_OP_sum, &g, 1, &a);
    return sw_reshape(ctx, g, *shape);
}

/* ---- expand: repeat along axes of length 1 ----------------------------------------------- */

static sw_status expand_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_sum_attrs *a = attrs;
    SW_TRY(swi_want_f32("expand", in, n_in));
    if (a->shape.rank < 0 || a->shape.rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "expand: the rank must be 0 to SW_MAX_RANK (got %d)",
                a->shape.rank);
    sw_shape s = a->shape;
    for (int i = 0; i < s.rank; i++)
        if (is_axis(a, i))
            s.dim[i] = 1;
    if (!swi_same_shape(&s, &in[0].shape)) {
        char t[SWI_SHAPE_TEXT], u[SWI_SHAPE_TEXT];
        SW_FAIL(SW_INVALID, "expand: %s cannot be expanded to %s",
                swi_shape_text(&in[0].shape, t), swi_shape_text(&a->shape, u));
    }
    out[0] = (sw_type){SW_F32, SW_PLAIN, a->shape};
    return SW_OK;
}

static sw_status expand_forward(const sw_launch *l)
{
    const swi_sum_attrs *a = l->attrs;
    sw_strided strided = {.rank = a->shape.rank};
    memcpy(strided.dim, a->shape.dim, sizeof a->shape.dim);
    memcpy(strided.y, l->out[0].stride, sizeof l->out[0].stride);
    for (int i = 0; i < strided.rank; i++)
        strided.a[i] = is_axis(a, i) ? 0 : l->in[0].stride[i];
    sw_strided_scale(swi_out(l, 0), swi_in(l, 0), (float)a->scale, swi_adds(l, 0), &strided);
    return SW_OK;
}

static void expand_rule(sw_ctx *ctx, const sw_rule *r)
{
    const swi_sum_attrs *a = r->attrs;
    const swi_sum_attrs s = {.axes = a->axes, .scale = a->scale, .keep = 1};
    r->din[0] = a->axes != 0 ? sw_op_apply(ctx, SW_OP_sum, r->dout, 1, &s)
                             : sw_scale_by(ctx, r->dout[0], (float)a->scale);
}

static sw_status expand_reference(const sw_reference *r)
{
    const swi_sum_attrs *a = r->attrs;
    for (int64_t i = 0; i < swi_elements(&a->shape); i++) {
        int64_t index = 0, step = 1, rest = i;
        for (int k = a->shape.rank - 1; k >= 0; k--) {
            if (!is_axis(a, k)) {
                index += rest % a->shape.dim[k] * step;
                step *= a->shape.dim[k];
            }
            rest /= a->shape.dim[k];
        }
        r->out[0][i] = r->in[0][index] * a->scale;
    }
    return SW_OK;
}

static const swi_sum_attrs expand_attrs = {.axes = 5, .scale = 0.5, .shape = {3, {4, 3, 2}}};
static const sw_op_case expand_cases[] = {
    CASE("two axes", IN(F32(1, 3, 1)), AT(expand_attrs)),
};

OP(expand, 1, 0, 1, ATTRS(swi_sum_attrs), .rebuild = 1, .infer = expand_infer, .strided_in = 1,
   .forward = expand_forward, .rule = expand_rule, CHECKS(expand_reference, expand_cases));
