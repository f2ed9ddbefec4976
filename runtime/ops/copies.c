/* Ops that move bytes: copy, fill, layouts. */
#include "kernels/dispatch.h"
#include "kernels/halves.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <string.h>

TYPE(copy_infer, in[0])

static sw_status copy_forward(const sw_launch *l)
{
    const sw_buffer *x = &l->in[0];
    const int64_t n = sw_type_elements(&x->type);
    if (swi_is_contiguous(x) || x->type.layout == SW_N16) {
        if (swi_adds(l, 0))
            sw_pointwise(l->isa)->scale(swi_out(l, 0), x->ptr, n, 1.0f, true, l->par);
        else if (n > 0)
            memcpy(l->out[0].ptr, x->ptr, sw_type_bytes(&x->type));
        return SW_OK;
    }
    sw_strided strided = {.rank = x->type.shape.rank};
    memcpy(strided.dim, x->type.shape.dim, sizeof x->type.shape.dim);
    memcpy(strided.a, x->stride, sizeof x->stride);
    memcpy(strided.y, l->out[0].stride, sizeof x->stride);
    if (swi_adds(l, 0))
        sw_strided_scale(swi_out(l, 0), x->ptr, 1.0f, true, &strided);
    else
        sw_strided_copy(l->out[0].ptr, x->ptr, sw_dtype_bytes(x->type.dtype), &strided);
    return SW_OK;
}

RULE(copy_rule, r->dout[0])

sw_status swi_copy_reference(const sw_reference *r)
{
    memcpy(r->out[0], r->in[0], (size_t)swi_elements(&r->in_type[0].shape) * sizeof(double));
    return SW_OK;
}

static const sw_op_case copy_cases[] = {
    CASE("matrix", IN(F32(5, 7))),
    CASE("image", IN(F32(3, 2, 4, 5))),
};

OP(copy, 1, 0, 1, .rebuild = 1, .infer = copy_infer, .layout = swi_layout_keep, .strided_in = 1,
   .forward = copy_forward, .rule = copy_rule, .operations = swi_count_none,
   CHECKS(swi_copy_reference, copy_cases));

/* ---- cast: float32 and bf16 -------------------------------------------------------------- */

TYPE(cast_infer, (sw_type){((const swi_cast_attrs *)attrs)->dtype, in[0].layout, in[0].shape})

static sw_status cast_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[0].type);
    if (l->in[0].type.dtype == l->out[0].type.dtype)
        return copy_forward(l);
    if (l->in[0].type.dtype == SW_BF16)
        sw_pointwise(l->isa)->widen(swi_out(l, 0), l->in[0].ptr, n, l->par);
    else
        sw_pointwise(l->isa)->round(l->out[0].ptr, swi_in(l, 0), n, l->par);
    return SW_OK;
}

RULE(cast_rule, swi_cast(ctx, r->dout[0], swi_value_at(ctx, r->in[0])->type.dtype))

static const swi_cast_attrs cast_attrs = {SW_F32};
static const sw_op_case cast_cases[] = {CASE("as it is", IN(F32(5, 7)), AT(cast_attrs))};

OP(cast, 1, 0, 1, ATTRS(swi_cast_attrs), .rebuild = 1, .infer = cast_infer,
   .layout = swi_layout_keep, .forward = cast_forward, .rule = cast_rule,
   .operations = swi_count_none, CHECKS(swi_copy_reference, cast_cases));

/* ---- assign_rows: in {state (batch, rows, width), x (batch, n, width), at}; out {state} --
 * In place it writes the rows alone. */

static sw_status assign_rows_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const sw_shape *s = &in[0].shape, *x = &in[1].shape;
    (void)n_in, (void)attrs;
    SW_TRY(swi_want_f32("assign_rows", in, 2));
    if (s->rank != 3 || x->rank != 3 || s->dim[0] != x->dim[0] || s->dim[2] != x->dim[2] ||
        x->dim[1] > s->dim[1])
        SW_FAIL(SW_INVALID,
                "assign_rows: the state must be (batch, rows, width), and x (batch, n, width) "
                "with n at most rows (got %s and %s)",
                SWI_SHAPE(s), SWI_SHAPE(x));
    if (in[2].dtype != SW_I32 || sw_type_elements(&in[2]) != 1)
        SW_FAIL(SW_INVALID, "assign_rows: at must be one i32 number (got %s %s)",
                sw_dtype_name(in[2].dtype), SWI_SHAPE(&in[2].shape));
    out[0] = in[0];
    return SW_OK;
}

static sw_status assign_rows_forward(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t n = l->in[1].type.shape.dim[1], width = s->dim[2], rows = s->dim[1];
    const int64_t at = *(const int32_t *)l->in[2].ptr;
    swi_touch(l, 0);
    if (at < 0 || at > rows - n)
        SW_FAIL(
            SW_INVALID,
            "assign_rows: at must be 0 to %lld, the %lld rows less the %lld of x (got %lld)",
            (long long)(rows - n), (long long)rows, (long long)n, (long long)at);
    if (l->out[0].ptr != l->in[0].ptr)
        memcpy(l->out[0].ptr, l->in[0].ptr, sw_type_bytes(&l->in[0].type));
    for (int64_t b = 0; b < s->dim[0] && n * width > 0; b++)
        memmove(swi_out(l, 0) + (b * rows + at) * width, swi_in(l, 1) + b * n * width,
                (size_t)(n * width) * sw_dtype_bytes(SW_F32));
    return SW_OK;
}

static sw_status assign_rows_reference(const sw_reference *r)
{
    const sw_shape *s = &r->in_type[0].shape;
    const int64_t n = r->in_type[1].shape.dim[1], width = s->dim[2], at = (int64_t)r->in[2][0];
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t row = i / width % s->dim[1], batch = i / width / s->dim[1];
        r->out[0][i] = row >= at && row < at + n
                           ? r->in[1][(batch * n + row - at) * width + i % width]
                           : r->in[0][i];
    }
    return SW_OK;
}

#define PLACES(most) FILL(NORMAL, NORMAL, LABELS), .limit = most
static const sw_op_case assign_rows_cases[] = {
    CASE("a row", IN(F32(1, 7, 5), F32(1, 1, 5), I32(1)), PLACES(7)),
    CASE("rows of a batch", IN(F32(3, 9, 4), F32(3, 4, 4), I32(1)), PLACES(6)),
    CASE("all", IN(F32(2, 3, 8), F32(2, 3, 8), I32(1)), PLACES(1)),
};

OP(assign_rows, 3, 3, 1, .infer = assign_rows_infer, .inplace = 1,
   .forward = assign_rows_forward, .no_gradient = 1, .operations = swi_count_none,
   CHECKS(assign_rows_reference, assign_rows_cases));

/* ---- fill: a constant, padding lanes included -------------------------------------------- */

TYPE(fill_infer, ((const swi_fill_attrs *)attrs)->type)

static sw_status fill_forward(const sw_launch *l)
{
    const swi_fill_attrs *a = l->attrs;
    const int64_t n = sw_type_elements(&l->out[0].type);
    float *y = swi_out(l, 0);
    uint16_t *half = l->out[0].ptr;
    if (l->out[0].type.dtype == SW_BF16)
        for (int64_t i = 0; i < n; i++)
            half[i] = sw_bf16_round(a->value);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = a->value;
    return SW_OK;
}

BY_ELEMENT(fill_reference, (double)((const swi_fill_attrs *)r->attrs)->value)

static const swi_fill_attrs fill_attrs = {F32(3, 5), 1.5f};
static const sw_op_case fill_cases[] = {CASE("matrix", AT(fill_attrs))};

OP(fill, 0, 0, 1, ATTRS(swi_fill_attrs), .rebuild = 1, .infer = fill_infer,
   .forward = fill_forward, .no_gradient = 1, .operations = swi_count_none,
   CHECKS(fill_reference, fill_cases));

sw_value sw_full(sw_ctx *ctx, sw_shape shape, float value)
{
    const sw_type type = {SW_F32, SW_PLAIN, shape};
    swi_fill_attrs a;
    swi_set_fill(&a, &type, value);
    return sw_op_apply(ctx, SW_OP_fill, NULL, 0, &a);
}

/* ---- layouts ----------------------------------------------------------------------------- */

static int64_t inner_of(const sw_shape *s)
{
    return s->dim[1] * s->dim[2] * s->dim[3];
}

static sw_status to_n16_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("to_n16", in, n_in));
    if (in[0].shape.rank != 4)
        SW_FAIL(SW_INVALID, "to_n16: the input must be an image (batch, c, h, w)");
    out[0] = in[0];
    out[0].layout = SW_N16;
    return SW_OK;
}

static sw_status to_n16_forward(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_dense(l->isa)->to_n16(swi_out(l, 0), swi_in(l, 0), s->dim[0], inner_of(s),
                             swi_adds(l, 0), l->par);
    return SW_OK;
}

RULE(to_n16_rule, sw_op_apply(ctx, SW_OP_from_n16, r->dout, 1, NULL))

static const sw_op_case layout_cases[] = {
    CASE("one", IN(F32(1, 2, 3, 3))),
    CASE("tail", IN(F32(19, 3, 5, 4))),
};

OP(to_n16, 1, 0, 1, .rebuild = 1, .infer = to_n16_infer, .forward = to_n16_forward,
   .rule = to_n16_rule, .operations = swi_count_none, CHECKS(swi_copy_reference, layout_cases));

static sw_status from_n16_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("from_n16", in, n_in));
    if (in[0].layout != SW_N16)
        SW_FAIL(SW_INVALID,
                "from_n16: the input must be in blocks of sixteen (got a plain one)");
    out[0] = in[0];
    out[0].layout = SW_PLAIN;
    return SW_OK;
}

static sw_status from_n16_forward(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_dense(l->isa)->from_n16(swi_out(l, 0), swi_in(l, 0), s->dim[0], inner_of(s),
                               swi_adds(l, 0), l->par);
    return SW_OK;
}

RULE(from_n16_rule, sw_op_apply(ctx, SW_OP_to_n16, r->dout, 1, NULL))

/* Its input cannot be given from outside (inputs are plain): it is checked after every conv op
 * and by the other direction's gradient. */
OP(from_n16, 1, 0, 1, .rebuild = 1, .infer = from_n16_infer, .forward = from_n16_forward,
   .rule = from_n16_rule, .operations = swi_count_none, .reference = swi_copy_reference);

/* ==== calls =============================================================================== */

/* Public functions of ops that only apply them: their bodies, by the lines of ops.def. */

#define CALL_ONE(op)                                                                           \
    sw_value sw_##op(sw_ctx *ctx, sw_value x)                                                  \
    {                                                                                          \
        return sw_op_apply(ctx, SW_OP_##op, &x, 1, NULL);                                      \
    }
#define CALL_NUMBER(op)                                                                        \
    sw_value sw_##op(sw_ctx *ctx, sw_value x, float number)                                    \
    {                                                                                          \
        const swi_number_attrs attrs = {number};                                               \
        return sw_op_apply(ctx, SW_OP_##op, &x, 1, &attrs);                                    \
    }
#define CALL_TWO(op)                                                                           \
    sw_value sw_##op(sw_ctx *ctx, sw_value a, sw_value b)                                      \
    {                                                                                          \
        const sw_value in[] = {a, b};                                                          \
        return sw_op_apply(ctx, SW_OP_##op, in, 2, NULL);                                      \
    }
#define CALL_THREE(op)                                                                         \
    sw_value sw_##op(sw_ctx *ctx, sw_value a, sw_value b, sw_value c)                          \
    {                                                                                          \
        const sw_value in[] = {a, b, c};                                                       \
        return sw_op_apply(ctx, SW_OP_##op, in, 3, NULL);                                      \
    }
#define CALL_OWN(op)
#define CALL_INSIDE(op)
#define CALL_OPTIMIZER(op)

#define SW_OP(op, call, ...) CALL_##call(op)
#include "runtime/ops.def"
#undef SW_OP

/* ==== neuron utility ====================================================================== */

/* The utility of neurons: a view of x. Its backward passes the gradient on as it is, and
 * averages |mean over positions of x dx| of each channel into a state of a model. A step
 * function that does not append it pays nothing; what it reads (x and its gradient) is there
 * when the rule runs, so updates may be released as ever.
 *
 * The sum of x dx over a plane is the gradient that channel_scale has for its scales. */

/* state.model NULL: none is averaged. */
typedef struct {
    sw_param state;
    float rate;
    uint32_t pad; /* 0 */
} utility_attrs;

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    if (in[0].dtype != SW_BF16)
        SW_TRY(swi_want_f32("neuron_utility", in, n_in));
    if (in[0].shape.rank != 2 && in[0].shape.rank != 4)
        SW_FAIL(SW_INVALID,
                "neuron_utility: the input must be (batch, channels) or (batch, channels, h, "
                "w) (got %s)",
                SWI_SHAPE(&in[0].shape));
    out[0] = in[0];
    return SW_OK;
}

/* Image by image and channel by channel: the sum of x dx over the positions. */
static sw_value sum_over_positions(sw_ctx *ctx, sw_value x, sw_value dx)
{
    enum { OF_THE_SCALES = 2 };
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return x;
    sw_type type = v->type;
    dx = swi_layout(ctx, dx, type.layout);
    if (type.shape.rank == 2)
        return sw_mul(ctx, x, dx);
    type.shape.dim[2] = type.shape.dim[3] = 1;
    if (ctx->status != SW_OK)
        return x;
    const uint32_t in[] = {dx.id - 1, x.id - 1};
    uint32_t sum = SWI_NONE;
    const swi_append_args args = SW_INIT(.op = SW_OP_channel_scale, .grad = OF_THE_SCALES,
                                         .in = in, .n_in = 2, .out_types = &type, .n_out = 1);
    return swi_stick(ctx, swi_append(ctx, &args, &sum)) == SW_OK ? swi_handle(ctx, sum) : x;
}

static void average(sw_ctx *ctx, const utility_attrs *a, sw_value x, sw_value dx)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL || dx.id == 0)
        return;
    const sw_shape shape = v->type.shape;
    const bool image = shape.rank == 4;
    const int64_t positions = image ? shape.dim[2] * shape.dim[3] : 1;
    const sw_value sum = sw_abs(ctx, sum_over_positions(ctx, x, dx));
    const sw_value now =
        sw_mean(ctx, sum, image ? SW_AXIS(0) | SW_AXIS(2) | SW_AXIS(3) : SW_AXIS(0));
    const sw_value part = sw_scale_by(ctx, now, a->rate / (float)positions);
    const sw_value before = sw_scale_by(ctx, sw_use(ctx, a->state), 1.0f - a->rate);
    sw_assign(ctx, a->state, sw_add(ctx, before, part));
}

static void rule(sw_ctx *ctx, const sw_rule *r)
{
    const utility_attrs *a = r->attrs;
    if (a->state.model != NULL)
        average(ctx, a, r->in[0], r->dout[0]);
    r->din[0] = r->dout[0];
}

static const utility_attrs of_no_state;
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(3, 4)), AT(of_no_state)),
    CASE("images", IN(F32(2, 3, 4, 5)), AT(of_no_state)),
};

OP(neuron_utility, 1, 0, 1, ATTRS(utility_attrs), .infer = infer, .layout = swi_layout_keep,
   .view = swi_view_all, .rule = rule, CHECKS(swi_copy_reference, cases));

sw_value swi_neuron_utility(sw_ctx *ctx, sw_value x, sw_param state, float rate)
{
    utility_attrs a;
    memset(&a, 0, sizeof a);
    a.state = state;
    a.rate = rate;
    return sw_op_apply(ctx, SW_OP_neuron_utility, &x, 1, &a);
}
