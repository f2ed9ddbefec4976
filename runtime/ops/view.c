/* Views: reshape, slice, detach. No bytes of their own. slice's gradient puts dy into zeros. */
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <string.h>

/* ---- reshape ----------------------------------------------------------------------------- */

static sw_status reshape_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    sw_shape s = ((const swi_reshape_attrs *)attrs)->shape;
    const int64_t n = swi_elements(&in[0].shape);
    char from[SWI_SHAPE_TEXT], to[SWI_SHAPE_TEXT];
    int64_t known = 1;
    int open = -1;
    if (s.rank < 0 || s.rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "reshape: the rank must be 0 to %d (got %d)", SW_MAX_RANK, s.rank);
    for (int i = 0; i < s.rank; i++) {
        if (s.dim[i] == -1 && open < 0) {
            open = i;
        } else if (s.dim[i] < 0 || __builtin_mul_overflow(known, s.dim[i], &known)) {
            SW_FAIL(SW_INVALID, "reshape: %s cannot be %s", swi_shape_text(&in[0].shape, from),
                    swi_shape_text(&s, to));
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
                swi_shape_text(&in[0].shape, from), (long long)n, swi_shape_text(&s, to));
    out[0] = in[0];
    out[0].shape = s;
    return SW_OK;
}

/* Strided input: runs of its axes and of the result's that hold the same elements, where each
 * run of the input is one walk. Axes of length 1 may be anywhere. */
static sw_status reshape_strides(const sw_buffer *in, const sw_shape *to, int64_t *strides)
{
    const sw_shape *from = &in->type.shape;
    int i = 0, k = 0;
    while (i < from->rank || k < to->rank) {
        int i_end = i, k_end = k;
        int64_t n_from = i < from->rank ? from->dim[i_end++] : 1;
        int64_t n_to = k < to->rank ? to->dim[k_end++] : 1;
        while (n_from != n_to) {
            if (n_from < n_to)
                n_from *= from->dim[i_end++];
            else
                n_to *= to->dim[k_end++];
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
            step *= to->dim[m];
        }
        i = i_end;
        k = k_end;
    }
    return SW_OK;
}

static sw_status reshape_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                              int64_t *strides, int64_t *offset)
{
    (void)attrs;
    *offset = 0;
    if (!swi_is_contiguous(in) && swi_elements(&out->shape) > 0)
        return reshape_strides(in, &out->shape, strides);
    int64_t step = 1;
    for (int i = out->shape.rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= out->shape.dim[i];
    }
    return SW_OK;
}

static void reshape_rule(sw_ctx *ctx, const sw_rule *r)
{
    r->din[0] = sw_reshape(ctx, r->dout[0], swi_shape_of(ctx, r->in[0]));
}

static sw_status same_reference(const sw_reference *r)
{
    memcpy(r->out[0], r->in[0], (size_t)swi_elements(&r->in_type[0].shape) * sizeof(double));
    return SW_OK;
}

static const swi_reshape_attrs reshape_attrs[] = {{{2, {6, 10}}}, {{3, {-1, 2, 2}}}};
static const sw_op_case reshape_cases[] = {
    CASE("matrix", IN(F32(3, 4, 5)), AT(reshape_attrs[0])),
    CASE("image, open dim", IN(F32(2, 3, 4, 2)), AT(reshape_attrs[1])),
};

OP(reshape, 1, 0, 1, ATTRS(swi_reshape_attrs), .infer = reshape_infer, .view = reshape_view,
   .rule = reshape_rule, CHECKS(same_reference, reshape_cases));

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
    if (s.rank < 1) {
        sw_fail(ctx, SW_INVALID, "flatten: the input must have a batch axis");
        return (sw_value){0, 0};
    }
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
 * tensor need no second tensor of its size. */
static void slice_rule(sw_ctx *ctx, const sw_rule *r)
{
    const sw_shape whole = swi_shape_of(ctx, r->in[0]);
    swi_slice_grad_attrs a = {.slice = *(const swi_slice_attrs *)r->attrs};
    swi_set_shape(&a.whole, &whole);
    uint32_t *sum = swi_gradient_so_far(ctx, r->in[0]);
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
    SW_TRY(swi_want_f32("slice_grad", in, n_in));
    if (a->whole.rank < 0 || a->whole.rank > SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "slice_grad: the rank must be 0 to SW_MAX_RANK (got %d)",
                a->whole.rank);
    out[0] = (sw_type){SW_F32, SW_PLAIN, a->whole};
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
    float *to = dx->ptr;
    sw_strided strided = {.rank = dy->type.shape.rank};
    if (!swi_adds(l, 0))
        memset(to, 0, sw_type_bytes(&dx->type));
    memcpy(strided.dim, dy->type.shape.dim, sizeof dy->type.shape.dim);
    memcpy(strided.a, dy->stride, sizeof dy->stride);
    memcpy(strided.y, dx->stride, sizeof dx->stride);
    sw_strided_scale(to + a->slice.from * dx->stride[a->slice.axis], dy->ptr, 1.0f,
                     swi_adds(l, 0), &strided);
    return SW_OK;
}

static void slice_grad_rule(sw_ctx *ctx, const sw_rule *r)
{
    const swi_slice_grad_attrs *a = r->attrs;
    r->din[0] = sw_op_apply(ctx, SW_OP_slice, r->dout, 1, &a->slice);
}

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

static sw_status detach_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

static sw_status detach_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                             int64_t *strides, int64_t *offset)
{
    (void)attrs;
    for (int i = 0; i < out->shape.rank; i++)
        strides[i] = in->stride[i];
    *offset = 0;
    return SW_OK;
}

static const sw_op_case detach_cases[] = {CASE("matrix", IN(F32(3, 4)))};

OP(detach, 1, 0, 1, .infer = detach_infer, .layout = swi_layout_keep, .view = detach_view,
   .no_gradient = 1, CHECKS(same_reference, detach_cases));
