/* concat, sums over axes and their adjoint expand. */
#include "alloc/base/size.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <string.h>

#define MAX_PARTS 32

static sw_status concat_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const int64_t axis = ((const swi_concat_attrs *)attrs)->axis;
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
                    i, (long long)axis, SWI_SHAPE(&in[i].shape), SWI_SHAPE(&in[0].shape));
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
    if (x == NULL)
        return SWI_REFUSE(ctx, "concat: the values must not be NULL");
    const swi_concat_attrs a = {axis < 0 && n > 0 ? axis + sw_rank(ctx, x[0]) : axis};
    return sw_op_apply(ctx, SW_OP_concat, x, n, &a);
}

sw_value sw_stack(sw_ctx *ctx, const sw_value *x, int n, int axis)
{
    sw_value parts[MAX_PARTS];
    if (x == NULL)
        return SWI_REFUSE(ctx, "stack: the values must not be NULL");
    if (n < 1 || n > MAX_PARTS)
        return SWI_REFUSE(ctx, "stack: the values must be 1 to %d (got %d)", MAX_PARTS, n);
    const sw_shape s = swi_shape_of(ctx, x[0]);
    const int at = axis < 0 ? axis + s.rank + 1 : axis;
    if (sw_ctx_status(ctx) == SW_OK && (at < 0 || at > s.rank || s.rank >= SW_MAX_RANK))
        SWI_STICK(ctx, SW_INVALID, "stack: axis %d must be a new one of a tensor of rank %d",
                  axis, s.rank);
    for (int i = 0; i < n && sw_ctx_status(ctx) == SW_OK; i++) {
        sw_shape part = swi_shape_of(ctx, x[i]);
        if (sw_ctx_status(ctx) == SW_OK && !swi_same_shape(&part, &s))
            SWI_STICK(ctx, SW_INVALID,
                      "stack: the shapes must be equal (value 0 is %s, value %d is %s)",
                      SWI_SHAPE(&s), i, SWI_SHAPE(&part));
        part.rank = s.rank + 1;
        for (int d = s.rank; d >= 0; d--)
            part.dim[d] = d < at ? s.dim[d] : d == at ? 1 : s.dim[d - 1];
        parts[i] = sw_reshape(ctx, x[i], part);
    }
    return sw_concat(ctx, parts, n, at);
}

/* ---- sum over axes ----------------------------------------------------------------------- */

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
        if (!swi_is_axis(a, i))
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
        reduced[i] = swi_is_axis(a, i);
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
        if (swi_is_axis(a, i))
            kept.dim[i] = 1;
    const sw_value dy = sw_reshape(ctx, r->dout[0], kept);
    r->din[0] = sw_op_apply(ctx, SW_OP_expand, &dy, 1, &e);
}

/* The index of element i without the axes that are summed over. */
static int64_t index_without(const swi_sum_attrs *a, const sw_shape *shape, int64_t i)
{
    int64_t index = 0, step = 1;
    for (int k = shape->rank - 1; k >= 0; k--) {
        if (!swi_is_axis(a, k)) {
            index += i % shape->dim[k] * step;
            step *= shape->dim[k];
        }
        i /= shape->dim[k];
    }
    return index;
}

static sw_status sum_reference(const sw_reference *r)
{
    const swi_sum_attrs *a = r->attrs;
    const sw_shape *x = &r->in_type[0].shape;
    memset(r->out[0], 0, (size_t)swi_elements(&r->out_type[0].shape) * sizeof(double));
    for (int64_t i = 0; i < swi_elements(x); i++)
        r->out[0][index_without(a, x, i)] += r->in[0][i] * a->scale;
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
    if (mean && n == 0)
        return SWI_REFUSE(ctx, "mean: the input must have elements");
    return sw_op_apply(ctx, SW_OP_sum, &x, 1,
                       &(swi_sum_attrs){.axes = axes, .scale = mean ? 1.0 / n : 1.0});
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
        if (swi_is_axis(a, i))
            s.dim[i] = 1;
    if (!swi_same_shape(&s, &in[0].shape)) {
        SW_FAIL(SW_INVALID, "expand: %s cannot be expanded to %s", SWI_SHAPE(&in[0].shape),
                SWI_SHAPE(&a->shape));
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
        strided.a[i] = swi_is_axis(a, i) ? 0 : l->in[0].stride[i];
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
    for (int64_t i = 0; i < swi_elements(&a->shape); i++)
        r->out[0][i] = r->in[0][index_without(a, &a->shape, i)] * a->scale;
    return SW_OK;
}

static const swi_sum_attrs expand_attrs = {.axes = 5, .scale = 0.5, .shape = {3, {4, 3, 2}}};
static const sw_op_case expand_cases[] = {
    CASE("two axes", IN(F32(1, 3, 1)), AT(expand_attrs)),
};

OP(expand, 1, 0, 1, ATTRS(swi_sum_attrs), .rebuild = 1, .infer = expand_infer, .strided_in = 1,
   .forward = expand_forward, .rule = expand_rule, CHECKS(expand_reference, expand_cases));

/* ==== view ================================================================================ */

/* Views: reshape, slice, detach. No bytes of their own. slice's gradient puts dy into zeros. */

/* ---- reshape ----------------------------------------------------------------------------- */

static sw_status reshape_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    sw_shape s = ((const swi_reshape_attrs *)attrs)->shape;
    const int64_t n = swi_elements(&in[0].shape);
    int64_t known = 1;
    int open = -1;
    if (s.rank < 0 || s.rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "reshape: the rank must be 0 to %d (got %d)", SW_MAX_RANK, s.rank);
    for (int i = 0; i < s.rank; i++) {
        if (s.dim[i] == -1 && open < 0) {
            open = i;
        } else if (s.dim[i] < 0 || __builtin_mul_overflow(known, s.dim[i], &known)) {
            SW_FAIL(SW_INVALID, "reshape: %s cannot be %s", SWI_SHAPE(&in[0].shape),
                    SWI_SHAPE(&s));
        }
    }
    if (open >= 0 && known > 0 && n % known == 0) {
        s.dim[open] = n / known;
        known = n;
    }
    /* A product of 0 hides dims with strides that would overflow. */
    if (known != n || (open >= 0 && s.dim[open] < 0) ||
        !sw_size_elements(s.dim, s.rank, &known))
        SW_FAIL(SW_INVALID, "reshape: %s has %lld elements and cannot be %s",
                SWI_SHAPE(&in[0].shape), (long long)n, SWI_SHAPE(&s));
    out[0] = in[0];
    out[0].shape = s;
    return SW_OK;
}

static sw_status reshape_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                              int64_t *strides, int64_t *offset)
{
    (void)attrs;
    *offset = 0;
    if (!swi_is_contiguous(in) && swi_elements(&out->shape) > 0) {
        /* Strided input: runs of its axes and of the result's that hold the same elements,
         * where each run of the input is one walk. Axes of length 1 may be anywhere. */
        const sw_shape *from = &in->type.shape;
        int i = 0, k = 0;
        while (i < from->rank || k < out->shape.rank) {
            int i_end = i, k_end = k;
            int64_t n_from = i < from->rank ? from->dim[i_end++] : 1;
            int64_t n_to = k < out->shape.rank ? out->shape.dim[k_end++] : 1;
            while (n_from != n_to) {
                if (n_from < n_to)
                    n_from *= from->dim[i_end++];
                else
                    n_to *= out->shape.dim[k_end++];
            }
            int64_t step = 1, walked = 0; /* the next axis outwards has this stride; 0: any */
            for (int m = i_end - 1; m >= i; m--) {
                if (from->dim[m] == 1)
                    continue;
                if (walked != 0 && in->stride[m] != walked)
                    return SW_UNSUPPORTED;
                if (walked == 0)
                    step = in->stride[m];
                walked = in->stride[m] * from->dim[m];
            }
            for (int m = k_end - 1; m >= k; m--) {
                strides[m] = step;
                step *= out->shape.dim[m];
            }
            i = i_end;
            k = k_end;
        }
        return SW_OK;
    }
    int64_t step = 1;
    for (int i = out->shape.rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= out->shape.dim[i];
    }
    return SW_OK;
}

RULE(reshape_rule, sw_reshape(ctx, r->dout[0], swi_shape_of(ctx, r->in[0])))

static const swi_reshape_attrs reshape_attrs[] = {{{2, {6, 10}}}, {{3, {-1, 2, 2}}}};
static const sw_op_case reshape_cases[] = {
    CASE("matrix", IN(F32(3, 4, 5)), AT(reshape_attrs[0])),
    CASE("image, open dim", IN(F32(2, 3, 4, 2)), AT(reshape_attrs[1])),
};

OP(reshape, 1, 0, 1, ATTRS(swi_reshape_attrs), .infer = reshape_infer, .view = reshape_view,
   .rule = reshape_rule, CHECKS(swi_copy_reference, reshape_cases));

sw_value sw_reshape(sw_ctx *ctx, sw_value x, sw_shape shape)
{
    swi_reshape_attrs attrs;
    swi_set_shape(&attrs.shape, &shape);
    return sw_op_apply(ctx, SW_OP_reshape, &x, 1, &attrs);
}

sw_value sw_flatten(sw_ctx *ctx, sw_value x)
{
    const sw_shape s = swi_shape_of(ctx, x);
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    if (s.rank < 1)
        return SWI_REFUSE(ctx, "flatten: the input must have a batch axis");
    int64_t rest = 1;
    for (int i = 1; i < s.rank; i++)
        rest *= s.dim[i];
    return sw_reshape(ctx, x, (sw_shape){2, {s.dim[0], rest}});
}

/* ---- slice ------------------------------------------------------------------------------- */

static sw_status slice_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const swi_slice_attrs *a = attrs;
    const sw_shape *s = &in[0].shape;
    if (a->axis < 0 || a->axis >= s->rank)
        SW_FAIL(SW_INVALID, "slice: axis %lld must be one of a tensor of rank %d",
                (long long)a->axis, s->rank);
    if (a->from < 0 || a->n < 0 || a->from > s->dim[a->axis] ||
        a->n > s->dim[a->axis] - a->from)
        SW_FAIL(SW_INVALID,
                "slice: %lld elements from %lld on must lie in axis %lld, which has %lld",
                (long long)a->n, (long long)a->from, (long long)a->axis,
                (long long)s->dim[a->axis]);
    out[0] = in[0];
    out[0].shape.dim[a->axis] = a->n;
    return SW_OK;
}

static sw_status slice_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                            int64_t *strides, int64_t *offset)
{
    const swi_slice_attrs *a = attrs;
    for (int i = 0; i < out->shape.rank; i++)
        strides[i] = in->stride[i];
    *offset = a->from * in->stride[a->axis];
    return SW_OK;
}

/* Where a gradient of the whole has come before, dy is added to its part of that: pieces of one
 * tensor need no second tensor of its size. A gradient in bf16 gets one. */
static void slice_rule(sw_ctx *ctx, const sw_rule *r)
{
    const sw_shape whole = swi_shape_of(ctx, r->in[0]);
    swi_slice_grad_attrs a = {.slice = *(const swi_slice_attrs *)r->attrs};
    swi_set_shape(&a.whole, &whole);
    const swi_value *dout = swi_value_at(ctx, r->dout[0]);
    uint32_t *sum =
        dout != NULL && dout->type.dtype == SW_BF16 ? NULL : swi_gradient_so_far(ctx, r->in[0]);
    if (sum == NULL) {
        r->din[0] = sw_op_apply(ctx, SW_OP_slice_grad, r->dout, 1, &a);
        return;
    }
    const uint32_t dy = r->dout[0].id - 1;
    uint32_t made = SWI_NONE;
    if (swi_apply(ctx, SW_OP_slice_grad, &dy, 1, &a, sum, 1u, NULL, &made) == SW_OK)
        *sum = made;
}

/* Row-major walk over the slice. */
static sw_status slice_reference(const sw_reference *r)
{
    const swi_slice_attrs *a = r->attrs;
    const sw_shape *s = &r->in_type[0].shape;
    int64_t before = 1, after = 1;
    for (int i = 0; i < a->axis; i++)
        before *= s->dim[i];
    for (int i = (int)a->axis + 1; i < s->rank; i++)
        after *= s->dim[i];
    double *y = r->out[0];
    for (int64_t i = 0; i < before; i++)
        for (int64_t j = 0; j < a->n; j++)
            for (int64_t k = 0; k < after; k++)
                *y++ = r->in[0][(i * s->dim[a->axis] + a->from + j) * after + k];
    return SW_OK;
}

static const swi_slice_attrs slice_attrs[] = {{0, 1, 2}, {1, 2, 3}, {2, 0, 1}};
static const sw_op_case slice_cases[] = {
    CASE("rows", IN(F32(4, 6)), AT(slice_attrs[0])),
    CASE("cols", IN(F32(4, 6)), AT(slice_attrs[1])),
    CASE("image", IN(F32(2, 3, 4, 5)), AT(slice_attrs[2])),
};

OP(slice, 1, 0, 1, ATTRS(swi_slice_attrs), .infer = slice_infer, .view = slice_view,
   .rule = slice_rule, CHECKS(slice_reference, slice_cases));

sw_value sw_slice(sw_ctx *ctx, sw_value x, int axis, int64_t from, int64_t n)
{
    const swi_slice_attrs attrs = {axis < 0 ? axis + sw_rank(ctx, x) : axis, from, n};
    return sw_op_apply(ctx, SW_OP_slice, &x, 1, &attrs);
}

sw_value swi_whole_of(sw_ctx *ctx, const sw_value *pieces, int n)
{
    uint32_t whole = SWI_NONE;
    if (ctx == NULL)
        return (sw_value){0}; /* the op says so */
    const swi_trace *t = &ctx->trace;
    for (int i = 0; i < n; i++) {
        const swi_value *v = swi_value_at(ctx, pieces[i]);
        const swi_node *node = v != NULL && v->node != SWI_NONE ? &t->nodes[v->node] : NULL;
        if (node == NULL || node->op != SW_OP_slice)
            return (sw_value){0, 0};
        const swi_slice_attrs *a = (const void *)(t->attrs + node->attrs);
        const uint32_t from = t->operands[node->first];
        const sw_shape *s = &t->values[from].type.shape;
        if ((i > 0 && from != whole) || a->axis != s->rank - 1 || a->from != i * a->n ||
            a->n * n != s->dim[a->axis])
            return (sw_value){0, 0};
        whole = from;
    }
    return swi_handle(ctx, whole);
}

/* ---- slice_grad: dy inside zeros --------------------------------------------------------- */

static sw_status slice_grad_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_slice_grad_attrs *a = attrs;
    if (in[0].dtype != SW_BF16)
        SW_TRY(swi_want_f32("slice_grad", in, n_in));
    if (a->whole.rank < 0 || a->whole.rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "slice_grad: the rank must be 0 to SW_MAX_RANK (got %d)",
                a->whole.rank);
    out[0] = (sw_type){in[0].dtype, SW_PLAIN, a->whole};
    sw_type part;
    SW_TRY(slice_infer(out, 1, &a->slice, &part));
    if (!swi_same_shape(&part.shape, &in[0].shape))
        SW_FAIL(SW_INVALID, "slice_grad: the gradient has another shape than the slice");
    return SW_OK;
}

static sw_status slice_grad_forward(const sw_launch *l)
{
    const swi_slice_grad_attrs *a = l->attrs;
    const sw_buffer *dy = &l->in[0], *dx = &l->out[0];
    const size_t element = sw_dtype_bytes(dx->type.dtype);
    const int64_t from = a->slice.from * dx->stride[a->slice.axis];
    sw_strided strided = {.rank = dy->type.shape.rank};
    if (!swi_adds(l, 0))
        memset(dx->ptr, 0, sw_type_bytes(&dx->type));
    memcpy(strided.dim, dy->type.shape.dim, sizeof dy->type.shape.dim);
    memcpy(strided.a, dy->stride, sizeof dy->stride);
    memcpy(strided.y, dx->stride, sizeof dx->stride);
    if (swi_adds(l, 0))
        sw_strided_scale(swi_out(l, 0) + from, dy->ptr, 1.0f, true, &strided);
    else
        sw_strided_copy((char *)dx->ptr + (size_t)from * element, dy->ptr, element, &strided);
    return SW_OK;
}

RULE(slice_grad_rule, sw_op_apply(ctx, SW_OP_slice, r->dout, 1,
                                  &((const swi_slice_grad_attrs *)r->attrs)->slice))

static sw_status slice_grad_reference(const sw_reference *r)
{
    const swi_slice_grad_attrs *a = r->attrs;
    const sw_shape *s = &a->whole;
    const double *dy = r->in[0];
    int64_t before = 1, after = 1;
    for (int i = 0; i < a->slice.axis; i++)
        before *= s->dim[i];
    for (int i = (int)a->slice.axis + 1; i < s->rank; i++)
        after *= s->dim[i];
    memset(r->out[0], 0, (size_t)swi_elements(s) * sizeof(double));
    for (int64_t i = 0; i < before; i++)
        for (int64_t j = 0; j < a->slice.n; j++)
            for (int64_t k = 0; k < after; k++)
                r->out[0][(i * s->dim[a->slice.axis] + a->slice.from + j) * after + k] = *dy++;
    return SW_OK;
}

static const swi_slice_grad_attrs slice_grad_case = {{1, 2, 3}, {2, {4, 6}}};
static const sw_op_case slice_grad_cases[] = {
    CASE("cols", IN(F32(4, 3)), AT(slice_grad_case)),
};

OP(slice_grad, 1, 0, 1, ATTRS(swi_slice_grad_attrs), .infer = slice_grad_infer, .strided_in = 1,
   .forward = slice_grad_forward, .rule = slice_grad_rule, .operations = swi_count_none,
   CHECKS(slice_grad_reference, slice_grad_cases));

/* ---- detach ------------------------------------------------------------------------------ */

TYPE(detach_infer, in[0])

static const sw_op_case detach_cases[] = {CASE("matrix", IN(F32(3, 4)))};

OP(detach, 1, 0, 1, .infer = detach_infer, .layout = swi_layout_keep, .view = swi_view_all,
   .no_gradient = 1, CHECKS(swi_copy_reference, detach_cases));

/* ==== permute ============================================================================= */

/* Axes in another order: permute, transpose; pieces along an axis: split. Views: ops that take
 * strides read them in place, for others the trace makes a counted copy. */

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
    if (axes == NULL && n > 0)
        return SWI_REFUSE(ctx, "permute: the axes must not be NULL");
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
    if (i < 0 || i >= a.n || k < 0 || k >= a.n)
        return SWI_REFUSE(ctx, "transpose: axes %d and %d of a tensor of rank %d", axis_a,
                          axis_b, (int)a.n);
    for (int m = 0; m < a.n; m++)
        a.axis[m] = m == i ? k : m == k ? i : m;
    return sw_op_apply(ctx, SW_OP_permute, &x, 1, &a);
}

int sw_split(sw_ctx *ctx, sw_value x, int64_t size, int axis, sw_value *parts, int max_parts)
{
    const int rank = sw_rank(ctx, x), i = axis < 0 ? axis + rank : axis;
    if (sw_ctx_status(ctx) != SW_OK)
        return 0;
    const int64_t whole = i >= 0 && i < rank ? sw_dim(ctx, x, i) : 0;
    if (i < 0 || i >= rank || size < 1 || (whole + size - 1) / size > max_parts) {
        SWI_STICK(ctx, SW_INVALID,
                  "split: axis %d of rank %d in pieces of %lld, room for %d pieces", axis, rank,
                  (long long)size, max_parts);
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
