/* Scaling and conversions: nothing is kept, unless a factor has a gradient. */
#include "kernels/dispatch.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <math.h>
#include <string.h>

static float param_of(const void *attrs)
{
    return attrs != NULL ? ((const swi_number_attrs *)attrs)->value : 0.0f;
}

/* ---- scaling: by a scalar tensor (a knob), by a constant --------------------------------- */

static sw_status scale_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("scale", in, n_in));
    if (sw_type_elements(&in[1]) != 1)
        SW_FAIL(SW_INVALID, "scale: the factor must be a scalar");
    out[0] = in[0];
    return SW_OK;
}

static sw_status scale_forward(const sw_launch *l)
{
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), sw_type_elements(&l->in[0].type),
                                *swi_in(l, 1), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* A knob has no gradient; a factor that is a tensor does: dfactor = sum(dy x). */
static void scale_rule(sw_ctx *ctx, const sw_rule *r)
{
    if (r->wanted[0]) {
        const sw_value in[] = {r->dout[0], r->in[1]};
        r->din[0] = sw_op_apply(ctx, SW_OP_scale, in, 2, NULL);
    }
    if (r->wanted[1])
        r->din[1] = sw_reshape(ctx, sw_sum(ctx, sw_mul(ctx, r->dout[0], r->in[0]), SW_ALL_AXES),
                               swi_shape_of(ctx, r->in[1]));
}

static sw_status scale_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][0];
    return SW_OK;
}

static const sw_op_case scale_cases[] = {
    CASE("matrix", IN(F32(3, 7), SCALAR)),
    CASE("image", IN(F32(2, 2, 3, 3), SCALAR)),
};

OP(scale, 2, 0, 1, .rebuild = 1, .infer = scale_infer, .layout = swi_layout_first,
   .image_in = 1, .inplace = 1, .forward = scale_forward, .rule = scale_rule,
   CHECKS(scale_reference, scale_cases));

INFER(scale_by_infer, swi_infer_same("scale_by", in, n_in, out))

static sw_status scale_by_forward(const sw_launch *l)
{
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), sw_type_elements(&l->in[0].type),
                                param_of(l->attrs), swi_adds(l, 0), l->par);
    return SW_OK;
}

static void scale_by_rule(sw_ctx *ctx, const sw_rule *r)
{
    r->din[0] = sw_scale_by(ctx, r->dout[0], param_of(r->attrs));
}

static sw_status scale_by_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        r->out[0][i] = r->in[0][i] * (double)param_of(r->attrs);
    return SW_OK;
}

static const swi_number_attrs scale_by_attrs = {-1.75f};
static const sw_op_case scale_by_cases[] = {
    CASE("matrix", IN(F32(3, 7)), AT(scale_by_attrs)),
};

OP(scale_by, 1, 0, 1, ATTRS(swi_number_attrs), .rebuild = 1, .infer = scale_by_infer,
   .layout = swi_layout_keep, .inplace = 1, .forward = scale_by_forward, .rule = scale_by_rule,
   CHECKS(scale_by_reference, scale_by_cases));

sw_value sw_scale(sw_ctx *ctx, sw_value x, sw_knob factor)
{
    const uint32_t knob = swi_knob_value(ctx, factor);
    const sw_value in[2] = {x, swi_handle(ctx, knob)};
    return sw_op_apply(ctx, SW_OP_scale, in, 2, NULL);
}

/* ---- conversion -------------------------------------------------------------------------- */

static sw_status to_f32_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_to_f32_attrs *a = attrs;
    (void)n_in;
    if (in[0].dtype != SW_U8 && in[0].dtype != SW_I32)
        SW_FAIL(SW_INVALID, "to_f32: the input must be u8 or i32 (got %s%s)",
                sw_dtype_name(in[0].dtype),
                in[0].dtype == SW_F32 ? ", which needs no conversion" : ": give it as i32");
    if (a->channels < 1 || a->channels > SW_MAX_CHANNELS)
        SW_FAIL(SW_INVALID, "to_f32: channels must be 1 to %d (got %d)", SW_MAX_CHANNELS,
                (int)a->channels);
    if (a->channels > 1 && (in[0].shape.rank < 2 || in[0].shape.dim[1] != a->channels))
        SW_FAIL(SW_INVALID, "to_f32: axis 1 of the input must have %d channels (got %lld)",
                (int)a->channels, in[0].shape.rank < 2 ? 0 : (long long)in[0].shape.dim[1]);
    out[0] = in[0];
    out[0].dtype = SW_F32;
    return SW_OK;
}

/* Elements of one channel of one sample: all of them, where one pair is for all. */
static int64_t to_f32_plane(const swi_to_f32_attrs *a, const sw_shape *s)
{
    int64_t n = 1;
    for (int i = a->channels > 1 ? 2 : 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static void to_f32_planes(const sw_launch *l, int64_t plane, int64_t i, int64_t n,
                          const sw_par *par)
{
    const swi_to_f32_attrs *a = l->attrs;
    const int64_t at = i * plane;
    const float scale = a->scale[i % a->channels], shift = a->shift[i % a->channels];
    if (l->in[0].type.dtype == SW_U8)
        sw_pointwise(l->isa)->from_u8(swi_out(l, 0) + at, (const uint8_t *)l->in[0].ptr + at, n,
                                      scale, shift, par);
    else
        sw_pointwise(l->isa)->from_i32(swi_out(l, 0) + at, (const int32_t *)l->in[0].ptr + at,
                                       n, scale, shift, par);
}

#define TO_F32_PARTS 256

static void to_f32_part(void *arg, int part)
{
    const sw_launch *l = arg;
    const int64_t plane = to_f32_plane(l->attrs, &l->in[0].type.shape);
    const int64_t planes = sw_type_elements(&l->in[0].type) / plane;
    for (int64_t i = part; i < planes; i += TO_F32_PARTS)
        to_f32_planes(l, plane, i, plane, &sw_par_alone);
}

static sw_status to_f32_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[0].type);
    sw_launch launch = *l;
    if (((const swi_to_f32_attrs *)l->attrs)->channels == 1)
        to_f32_planes(l, 0, 0, n, l->par);
    else if (n > 0)
        l->par->run(l->par, to_f32_part, &launch, TO_F32_PARTS);
    return SW_OK;
}

/* x * scale + shift */
COUNT(to_f32_operations, swi_count_per_element(&info->out[0], 2))

static sw_status to_f32_reference(const sw_reference *r)
{
    const swi_to_f32_attrs *a = r->attrs;
    const int64_t plane = to_f32_plane(a, &r->in_type[0].shape);
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {
        const int64_t c = a->channels > 1 ? i / plane % a->channels : 0;
        r->out[0][i] = r->in[0][i] * (double)a->scale[c] + (double)a->shift[c];
    }
    return SW_OK;
}

static const swi_to_f32_attrs to_f32_attrs = {1, {0.25f}, {-1.5f}};
static const swi_to_f32_attrs to_f32_colours = {3, {0.25f, 0.5f, 0.125f}, {-1.5f, 0.0f, 3.0f}};
static const sw_op_case to_f32_cases[] = {
    CASE("bytes", IN(U8(3, 21)), FILL(BYTES), AT(to_f32_attrs)),
    CASE("integers", IN(I32(4, 5)), FILL(BYTES), AT(to_f32_attrs)),
    CASE("colours", IN(U8(5, 3, 4, 7)), FILL(BYTES), AT(to_f32_colours)),
    CASE("integers by channel", IN(I32(2, 3)), FILL(BYTES), AT(to_f32_colours)),
};

OP(to_f32, 1, 0, 1, ATTRS(swi_to_f32_attrs), .rebuild = 1, .infer = to_f32_infer,
   .forward = to_f32_forward, .no_gradient = 1, .operations = to_f32_operations,
   .phase = SW_DATA, .has_phase = 1, CHECKS(to_f32_reference, to_f32_cases));

sw_value sw_to_f32(sw_ctx *ctx, sw_value x, float scale, float shift)
{
    const swi_to_f32_attrs a = {1, {scale}, {shift}};
    return sw_op_apply(ctx, SW_OP_to_f32, &x, 1, &a);
}

sw_value sw_to_f32_channels(sw_ctx *ctx, sw_value x, const float *scale, const float *shift,
                            int n)
{
    swi_to_f32_attrs a = {n, {0}, {0}};
    if (scale == NULL || shift == NULL) {
        sw_fail(ctx, SW_INVALID, "sw_to_f32_channels: scale and shift must not be NULL");
        return (sw_value){0};
    }
    for (int i = 0; i < n && i < SW_MAX_CHANNELS; i++) {
        a.scale[i] = scale[i];
        a.shift[i] = shift[i];
    }
    return sw_op_apply(ctx, SW_OP_to_f32, &x, 1, &a);
}
