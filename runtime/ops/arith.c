/* Sums, products, differences, quotients, and choices by a mask, all with broadcasting by
 * NumPy's rule.
 *
 * add and sub keep nothing; mul both inputs; div its divisor, and where the divisor has a
 * gradient the quotient, or the dividend where that is smaller; where keeps the mask. */
#include "kernels/dispatch.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <string.h>

static bool is_plain(const sw_launch *l)
{
    bool flat = true;
    for (int i = 0; i < l->n_in; i++)
        flat &= swi_same_shape(&l->in[i].type.shape, &l->out[0].type.shape) &&
                swi_is_contiguous(&l->in[i]);
    return flat;
}

sw_strided swi_broadcast_strided(const sw_launch *l, int a, int b)
{
    const sw_shape *s = &l->out[0].type.shape;
    sw_strided strided = {.rank = s->rank};
    memcpy(strided.dim, s->dim, sizeof s->dim);
    memcpy(strided.y, l->out[0].stride, sizeof l->out[0].stride);
    swi_broadcast_strides(&l->in[a], s, strided.a);
    swi_broadcast_strides(&l->in[b], s, strided.b);
    return strided;
}

int64_t swi_broadcast_index(int64_t i, const sw_shape *to, const sw_shape *from)
{
    int64_t index = 0, step = 1;
    for (int k = 1; k <= to->rank; k++) {
        const int64_t at = i % to->dim[to->rank - k];
        i /= to->dim[to->rank - k];
        if (k <= from->rank) {
            index += from->dim[from->rank - k] != 1 ? at * step : 0;
            step *= from->dim[from->rank - k];
        }
    }
    return index;
}

static double operand_at(const sw_reference *r, int k, int64_t i)
{
    return r->in[k][swi_broadcast_index(i, &r->out_type[0].shape, &r->in_type[k].shape)];
}

/* ---- their gradients --------------------------------------------------------------------- */

static void add_rule(sw_ctx *ctx, const sw_rule *r)
{
    for (int i = 0; i < 2; i++) {
        const sw_shape s = swi_shape_of(ctx, r->in[i]);
        if (r->wanted[i])
            r->din[i] = swi_sum_to(ctx, r->dout[0], &s);
    }
}

static void mul_rule(sw_ctx *ctx, const sw_rule *r)
{
    for (int i = 0; i < 2; i++) {
        const sw_shape s = swi_shape_of(ctx, r->in[i]);
        if (r->wanted[i])
            r->din[i] = swi_sum_to(ctx, sw_mul(ctx, r->dout[0], r->in[1 - i]), &s);
    }
}

static void sub_rule(sw_ctx *ctx, const sw_rule *r)
{
    const sw_shape a = swi_shape_of(ctx, r->in[0]), b = swi_shape_of(ctx, r->in[1]);
    if (r->wanted[0])
        r->din[0] = swi_sum_to(ctx, r->dout[0], &a);
    if (r->wanted[1])
        r->din[1] = sw_scale_by(ctx, swi_sum_to(ctx, r->dout[0], &b), -1.0f);
}

/* da = dy / b, db = -(dy / b) y. */
static void div_rule(sw_ctx *ctx, const sw_rule *r)
{
    const sw_shape a = swi_shape_of(ctx, r->in[0]), b = swi_shape_of(ctx, r->in[1]);
    const sw_shape y = swi_shape_of(ctx, r->out[0]);
    const sw_value share = sw_div(ctx, r->dout[0], r->in[1]);
    if (r->wanted[0])
        r->din[0] = swi_sum_to(ctx, share, &a);
    if (!r->wanted[1])
        return;
    const sw_value quotient =
        swi_same_shape(&a, &y) ? r->out[0] : sw_div(ctx, r->in[0], r->in[1]);
    r->din[1] = sw_scale_by(ctx, swi_sum_to(ctx, sw_mul(ctx, share, quotient), &b), -1.0f);
}

/* ---- add, mul, sub, div: one operation for each element, as where none are counted --------
 */

static sw_status binary_infer(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    SW_TRY(swi_want_f32(op, in, n_in));
    out[0] = in[0];
    return swi_broadcast(op, &in[0].shape, &in[1].shape, &out[0].shape);
}

#define PAIR(label, a, b, fill_b) CASE(label, IN(a, b), .fill = {SW_FILL_NORMAL, fill_b})

/* SIGN: of C, between the operands; LAYOUT: of descriptors; FILL_B: operand b of the cases. */
#define BINARY(id, SIGN, LAYOUT, FILL_B)                                                       \
    static sw_status id##_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)  \
    {                                                                                          \
        (void)attrs;                                                                           \
        return binary_infer(#id, in, n_in, out);                                               \
    }                                                                                          \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        if (l->in[0].type.layout == SW_N16 || is_plain(l)) {                                   \
            sw_pointwise(l->isa)->id(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1),                \
                                     sw_type_elements(&l->out[0].type), swi_adds(l, 0),        \
                                     l->par);                                                  \
            return SW_OK;                                                                      \
        }                                                                                      \
        const sw_strided strided = swi_broadcast_strided(l, 0, 1);                             \
        sw_strided_##id(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1), swi_adds(l, 0), &strided);  \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++)                      \
            r->out[0][i] = operand_at(r, 0, i) SIGN operand_at(r, 1, i);                       \
        return SW_OK;                                                                          \
    }                                                                                          \
    static const sw_op_case id##_cases[] = {                                                   \
        PAIR("same", F32(3, 19), F32(3, 19), FILL_B),                                          \
        PAIR("row", F32(4, 5), F32(5), FILL_B),                                                \
        PAIR("column", F32(4, 1), F32(4, 5), FILL_B),                                          \
        PAIR("both repeat", F32(4, 1, 3), F32(2, 1), FILL_B),                                  \
        PAIR("scalar", SCALAR, F32(2, 3), FILL_B),                                             \
        PAIR("one", F32(1), F32(1), FILL_B),                                                   \
        PAIR("image", F32(2, 3, 2, 2), F32(2, 3, 2, 2), FILL_B),                               \
        PAIR("blocks", N16(2, 3, 2, 2), N16(2, 3, 2, 2), FILL_B),                              \
        PAIR("channels of an image", F32(2, 3, 2, 2), F32(3, 1, 1), FILL_B),                   \
    };                                                                                         \
    OP(id, 2, 0, 1, .rebuild = 1, .infer = id##_infer, .layout = LAYOUT, .strided_in = 3,      \
       .inplace = 3, .forward = id##_forward, .rule = id##_rule,                               \
       CHECKS(id##_reference, id##_cases))

BINARY(add, +, swi_layout_keep, SW_FILL_NORMAL);
BINARY(mul, *, swi_layout_keep, SW_FILL_NORMAL);
BINARY(sub, -, swi_layout_keep, SW_FILL_NORMAL);
BINARY(div, /, NULL, SW_FILL_AWAY); /* 0 / 0 in lanes of padding: plain order only */

/* ---- where ------------------------------------------------------------------------------- */

static sw_status where_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    sw_shape values;
    if (in[0].dtype != SW_U8)
        SW_FAIL(SW_INVALID, "where: the mask must be u8 (got %s)", sw_dtype_name(in[0].dtype));
    SW_TRY(swi_want_f32("where", in + 1, n_in - 1));
    out[0] = in[1];
    SW_TRY(swi_broadcast("where", &in[1].shape, &in[2].shape, &values));
    return swi_broadcast("where", &in[0].shape, &values, &out[0].shape);
}

static sw_status where_forward(const sw_launch *l)
{
    swi_touch(l, 1);
    swi_touch(l, 2);
    if (is_plain(l)) {
        sw_pointwise(l->isa)->where(swi_out(l, 0), l->in[0].ptr, swi_in(l, 1), swi_in(l, 2),
                                    sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
        return SW_OK;
    }
    int64_t mask[SW_STRIDED_MAX] = {0};
    const sw_strided strided = swi_broadcast_strided(l, 1, 2);
    swi_broadcast_strides(&l->in[0], &l->out[0].type.shape, mask);
    sw_strided_where(swi_out(l, 0), l->in[0].ptr, mask, swi_in(l, 1), swi_in(l, 2),
                     swi_adds(l, 0), &strided);
    return SW_OK;
}

static void where_rule(sw_ctx *ctx, const sw_rule *r)
{
    const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};
    swi_fill_attrs zero_attrs;
    swi_set_fill(&zero_attrs, &scalar, 0.0f);
    const sw_value zero = sw_op_apply(ctx, SW_OP_fill, NULL, 0, &zero_attrs);
    for (int i = 1; i < 3; i++) {
        const sw_shape s = swi_shape_of(ctx, r->in[i]);
        if (!r->wanted[i])
            continue;
        const sw_value part = i == 1 ? sw_where(ctx, r->in[0], r->dout[0], zero)
                                     : sw_where(ctx, r->in[0], zero, r->dout[0]);
        r->din[i] = swi_sum_to(ctx, part, &s);
    }
}

static sw_status where_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++)
        r->out[0][i] = operand_at(r, operand_at(r, 0, i) != 0.0 ? 1 : 2, i);
    return SW_OK;
}

#define MASK_FIRST .fill = {SW_FILL_LABELS}, .limit = 2
static const sw_op_case where_cases[] = {
    CASE("same", IN(U8(3, 19), F32(3, 19), F32(3, 19)), MASK_FIRST),
    CASE("a mask for rows, a scalar", IN(U8(4, 1), F32(4, 5), SCALAR), MASK_FIRST),
    CASE("all repeat", IN(U8(2, 3), F32(4, 1, 3), F32(2, 1)), MASK_FIRST),
    CASE("one", IN(U8(1), F32(1), F32(1)), MASK_FIRST),
    CASE("image", IN(U8(2, 1, 2, 2), N16(2, 3, 2, 2), N16(2, 3, 2, 2)), MASK_FIRST),
};

OP(where, 3, 0, 1, .rebuild = 1, .infer = where_infer, .strided_in = 7, .inplace = 6,
   .forward = where_forward, .rule = where_rule, CHECKS(where_reference, where_cases));
