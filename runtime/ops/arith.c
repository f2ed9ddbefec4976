/* Differences, quotients, and choices by a mask, all with broadcasting by NumPy's rule.
 *
 * sub keeps nothing; div its divisor, and where the divisor has a gradient the quotient, or the
 * dividend where that is smaller; where keeps the mask. */
#include "kernels/dispatch.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"

static bool is_plain(const sw_launch *l)
{
    bool flat = true;
    for (int i = 0; i < l->n_in; i++)
        flat &= swi_same_shape(&l->in[i].type.shape, &l->out[0].type.shape) &&
                swi_is_contiguous(&l->in[i]);
    return flat;
}

static double operand_at(const sw_reference *r, int k, int64_t i)
{
    return r->in[k][swi_broadcast_index(i, &r->out_type[0].shape, &r->in_type[k].shape)];
}

/* ---- sub, div ---------------------------------------------------------------------------- */

#define BINARY(id, SIGN, IN_BLOCKS)                                                            \
    static sw_status id##_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)  \
    {                                                                                          \
        (void)attrs;                                                                           \
        SW_TRY(swi_want_f32(#id, in, n_in));                                                   \
        out[0] = in[0];                                                                        \
        return swi_broadcast(#id, &in[0].shape, &in[1].shape, &out[0].shape);                  \
    }                                                                                          \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        if ((IN_BLOCKS && l->in[0].type.layout == SW_N16) || is_plain(l)) {                    \
            sw_point(l->isa)->id(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1),                    \
                                 sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);   \
            return SW_OK;                                                                      \
        }                                                                                      \
        const sw_nd nd = swi_broadcast_nd(l, 0, 1);                                            \
        sw_nd_##id(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1), swi_adds(l, 0), &nd);            \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++)                      \
            r->out[0][i] = operand_at(r, 0, i) SIGN operand_at(r, 1, i);                       \
        return SW_OK;                                                                          \
    }

BINARY(sub, -, true)
BINARY(div, /, false) /* 0 / 0 in lanes of padding: plain order only */

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

#define BINARY_CASES(id, fill_b)                                                               \
    static const sw_op_case id##_cases[] = {                                                   \
        {.name = "same",                                                                       \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(3, 19), SWI_F32(3, 19)},                                               \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "row",                                                                        \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(4, 5), SWI_F32(5)},                                                    \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "column",                                                                     \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(4, 1), SWI_F32(4, 5)},                                                 \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "both repeat",                                                                \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(4, 1, 3), SWI_F32(2, 1)},                                              \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "scalar",                                                                     \
         .n_in = 2,                                                                            \
         .in = {SWI_F32_SCALAR, SWI_F32(2, 3)},                                                \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "one",                                                                        \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(1), SWI_F32(1)},                                                       \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "image",                                                                      \
         .n_in = 2,                                                                            \
         .in = {{SW_F32, SW_N16, {4, {2, 3, 2, 2}}}, {SW_F32, SW_N16, {4, {2, 3, 2, 2}}}},     \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
        {.name = "channels of an image",                                                       \
         .n_in = 2,                                                                            \
         .in = {SWI_F32(2, 3, 2, 2), SWI_F32(3, 1, 1)},                                        \
         .fill = {SW_FILL_NORMAL, fill_b}},                                                    \
    };                                                                                         \
    const sw_op_desc sw_op_##id
BINARY_CASES(sub, SW_FILL_NORMAL) = {.size = sizeof(sw_op_desc),
                                     .rebuild = 1,
                                     .name = "sub",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .infer = sub_infer,
                                     .layout = swi_layout_keep,
                                     .strided_in = 3,
                                     .inplace = 3,
                                     .forward = sub_forward,
                                     .rule = sub_rule,
                                     .reference = sub_reference,
                                     .cases = sub_cases,
                                     .n_cases = SWI_COUNT(sub_cases)};
BINARY_CASES(div, SW_FILL_AWAY) = {.size = sizeof(sw_op_desc),
                                   .rebuild = 1,
                                   .name = "div",
                                   .n_in = 2,
                                   .n_out = 1,
                                   .infer = div_infer,
                                   .strided_in = 3,
                                   .inplace = 3,
                                   .forward = div_forward,
                                   .rule = div_rule,
                                   .reference = div_reference,
                                   .cases = div_cases,
                                   .n_cases = SWI_COUNT(div_cases)};

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
    if (is_plain(l)) {
        sw_point(l->isa)->where(swi_out(l, 0), l->in[0].ptr, swi_in(l, 1), swi_in(l, 2),
                                sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
        return SW_OK;
    }
    int64_t mask[SW_ND_MAX] = {0};
    const sw_nd nd = swi_broadcast_nd(l, 1, 2);
    swi_broadcast_strides(&l->in[0], &l->out[0].type.shape, mask);
    sw_nd_where(swi_out(l, 0), l->in[0].ptr, mask, swi_in(l, 1), swi_in(l, 2), swi_adds(l, 0),
                &nd);
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
    {.name = "same",
     .n_in = 3,
     .in = {SWI_U8(3, 19), SWI_F32(3, 19), SWI_F32(3, 19)},
     MASK_FIRST},
    {.name = "a mask for rows, a scalar",
     .n_in = 3,
     .in = {SWI_U8(4, 1), SWI_F32(4, 5), SWI_F32_SCALAR},
     MASK_FIRST},
    {.name = "all repeat",
     .n_in = 3,
     .in = {SWI_U8(2, 3), SWI_F32(4, 1, 3), SWI_F32(2, 1)},
     MASK_FIRST},
    {.name = "one", .n_in = 3, .in = {SWI_U8(1), SWI_F32(1), SWI_F32(1)}, MASK_FIRST},
    {.name = "image",
     .n_in = 3,
     .in = {SWI_U8(2, 1, 2, 2),
            {SW_F32, SW_N16, {4, {2, 3, 2, 2}}},
            {SW_F32, SW_N16, {4, {2, 3, 2, 2}}}},
     MASK_FIRST},
};

const sw_op_desc sw_op_where = {.size = sizeof(sw_op_desc),
                                .rebuild = 1,
                                .name = "where",
                                .n_in = 3,
                                .n_out = 1,
                                .infer = where_infer,
                                .strided_in = 7,
                                .inplace = 6,
                                .forward = where_forward,
                                .rule = where_rule,
                                .reference = where_reference,
                                .cases = where_cases,
                                .n_cases = SWI_COUNT(where_cases)};
