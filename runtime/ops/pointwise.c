/* Functions of one number, element by element.
 *
 * relu and leaky relu keep their output where others keep it anyway, and where no one does
 * one bit for each element. tanh and sigmoid keep their output, shared with the
 * consumer. swish, gelu, mish, softplus, hard_swish, elu, selu, log and pow keep their input
 * and rebuild what they need in backward; exp, sqrt and rsqrt keep their output too. abs and
 * clamp keep neither: two bits and one bit per element say what the gradient is. */
#include "kernels/dispatch.h"
#include "kernels/strided.h"
#include "runtime/ops/ops.h"
#include <math.h>
#include <string.h>

static float number_of(const void *attrs)
{
    return attrs != NULL ? ((const swi_number_attrs *)attrs)->value : 0.0f;
}

/* ---- double precision -------------------------------------------------------------------- */

static double sigmoid_double(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double gelu_double(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double gelu_tanh_double(double x)
{
    return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double softplus_double(double x)
{
    return (x > 0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static double selu_double(double x)
{
    const double scale = 1.0507009873554804934, alpha = 1.6732632423543772848;
    return scale * (x > 0 ? x : alpha * expm1(x));
}

/* ---- codes of a few bits ----------------------------------------------------------------- */

/* Codes of all elements in memory, lanes of padding included. */
static sw_status coded_infer(const char *op, const sw_type *in, int n_in, int per_byte,
                             sw_type *out)
{
    SW_TRY(swi_infer_same(op, in, n_in, out));
    const int64_t n = sw_type_elements(&in[0]);
    out[1] = (sw_type){SW_U8, SW_PLAIN, {1, {(n + per_byte - 1) / per_byte}}};
    return SW_OK;
}

static uint8_t *codes_of(const sw_launch *l)
{
    return l->n_out > 1 ? (uint8_t *)l->out[1].ptr : NULL;
}

/* ---- unary functions * ------------------------------------------------------------------- */

/* The meaning of the words in a line of unary.def. */
#define HAS_ONE 0
#define HAS_NUMBER 1
#define ATTRS_ONE NULL
#define ATTRS_NUMBER &case_number
#define KEEPS_IN SW_IN(0)
#define KEEPS_OUT SW_OUT(0)
#define LAYOUT_BLOCKS swi_layout_keep
#define LAYOUT_PLAIN NULL
/* SW_FILL_DISTINCT covers both sides of every bend up to 4.6, and has no number at one. */
#define FIRST_ANY SW_FILL_DISTINCT
#define OTHERS_ANY SW_FILL_NORMAL
#define FIRST_AWAY SW_FILL_AWAY
#define OTHERS_AWAY SW_FILL_AWAY
#define FIRST_POSITIVE SW_FILL_UNIT
#define OTHERS_POSITIVE SW_FILL_UNIT

/* BITS: 1 where an extra has a bit for each element, set where the input is above 0,
 * of relu also where it is NaN. */
#define UNARY_KERNELS(id, ATTRS, BITS, VALUE)                                                  \
    static sw_status id##_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)  \
    {                                                                                          \
        if (ATTRS && !isfinite(number_of(attrs)))                                              \
            SW_FAIL(SW_INVALID, #id ": its number is not finite");                             \
        return BITS ? coded_infer(#id, in, n_in, 8, out) : swi_infer_same(#id, in, n_in, out); \
    }                                                                                          \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        const int64_t n = sw_type_elements(&l->in[0].type);                                    \
        if (codes_of(l) != NULL) /* first: y may lie where x does */                           \
            sw_pointwise(l->isa)->above(SW_UNARY_##id, codes_of(l), swi_in(l, 0), n, l->par);  \
        sw_pointwise(l->isa)->unary(SW_UNARY_##id, swi_out(l, 0), swi_in(l, 0), n,             \
                                    number_of(ATTRS ? l->attrs : NULL),                        \
                                    swi_is_half(&l->in[0]), l->par);                           \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_dx(const sw_launch *l)                                               \
    {                                                                                          \
        sw_pointwise(l->isa)->unary_dx(SW_UNARY_##id, swi_out(l, 0), swi_in(l, 1),             \
                                       swi_in(l, 0), sw_type_elements(&l->in[0].type),         \
                                       number_of(ATTRS ? l->attrs : NULL), swi_adds(l, 0),     \
                                       swi_is_half(&l->in[0]), l->par);                        \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        const double p = (double)number_of(ATTRS ? r->attrs : NULL);                           \
        (void)p;                                                                               \
        for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {                     \
            const double x = r->in[0][i];                                                      \
            r->out[0][i] = (VALUE);                                                            \
        }                                                                                      \
        return SW_OK;                                                                          \
    }

#define CURVE_COUNTS(id, COST, SLOPE_COST)                                                     \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        return swi_count_per_element(&info->out[0], COST);                                     \
    }                                                                                          \
    static uint64_t id##_dx_operations(const sw_kernel_info *info)                             \
    {                                                                                          \
        return swi_count_per_element(&info->out[0], SLOPE_COST);                               \
    }

/* From what is saved, and dy; the gradient may take the place of either. */
#define UNARY_GRAD(id, SAVED)                                                                  \
    .n_makes = 1, .makes = {0}, .n_operands = 2, .operands = {SAVED, SW_DOUT(0)},              \
    .inplace = 3, .kernel = id##_dx, .operations = id##_dx_operations

#define UNARY_OP(id, ATTRS, BITS, LAYOUT)                                                      \
    OP(id, 1, 0, 1, .attrs_bytes = ATTRS ? sizeof(swi_number_attrs) : 0, .rebuild = 1,         \
       .n_extra = BITS, .infer = id##_infer, .layout = LAYOUT, .inplace = 1,                   \
       .forward = id##_forward, .operations = id##_operations, GRADS(id##_grads),              \
       CHECKS(id##_reference, id##_cases))

#define SHAPE(label, type_, fill_, attrs_)                                                     \
    CASE(label, IN(type_), .fill = {fill_}, .attrs = attrs_)
#define IN_BLOCKS                                                                              \
    {                                                                                          \
        SW_F32, SW_N16,                                                                        \
        {                                                                                      \
            4,                                                                                 \
            {                                                                                  \
                3, 2, 3, 4                                                                     \
            }                                                                                  \
        }                                                                                      \
    }
#define MATRIX F32(5, 37)
#define IMAGE F32(3, 2, 3, 4)
#define SINGLE F32(1)

static const swi_number_attrs case_number = {0.75f}; /* of the cases of ops that have one */

#define CASES_BLOCKS(id, attrs, draws)                                                         \
    static const sw_op_case id##_cases[] = {                                                   \
        SHAPE("matrix", MATRIX, FIRST_##draws, attrs),                                         \
        SHAPE("image", IMAGE, OTHERS_##draws, attrs),                                          \
        SHAPE("blocks", IN_BLOCKS, OTHERS_##draws, attrs),                                     \
        SHAPE("one", SINGLE, OTHERS_##draws, attrs),                                           \
    }
#define CASES_PLAIN(id, attrs, draws)                                                          \
    static const sw_op_case id##_cases[] = {                                                   \
        SHAPE("matrix", MATRIX, FIRST_##draws, attrs),                                         \
        SHAPE("image", IMAGE, OTHERS_##draws, attrs),                                          \
        SHAPE("one", SINGLE, OTHERS_##draws, attrs),                                           \
    }

/* The powers: products where the number says so. */
static const swi_number_attrs pow_attrs[] = {{2.0f}, {3.0f}, {-2.0f}, {0.3f}, {-1.5f}, {0.0f}};
static const sw_op_case pow_cases[] = {
    SHAPE("square", MATRIX, SW_FILL_DISTINCT, &pow_attrs[0]),
    SHAPE("cube", IMAGE, SW_FILL_DISTINCT, &pow_attrs[1]),
    SHAPE("whole, below 0", MATRIX, SW_FILL_AWAY, &pow_attrs[2]),
    SHAPE("a root", MATRIX, SW_FILL_UNIT, &pow_attrs[3]),
    SHAPE("below 0", SINGLE, SW_FILL_UNIT, &pow_attrs[4]),
    SHAPE("0", F32(3, 5), SW_FILL_AWAY, &pow_attrs[5]),
};

static uint64_t power_count(const sw_kernel_info *info, int square, int cube, int other)
{
    const float p = number_of(info->attrs);
    return swi_count_per_element(&info->out[0], (uint64_t)(p == 2.0f   ? square
                                                           : p == 3.0f ? cube
                                                                       : other));
}

/* ---- relu, leaky relu -------------------------------------------------------------------- */

/* SW_FILL_AWAY: the bend is at 0. */
static const sw_op_case relu_cases[] = {
    SHAPE("matrix", MATRIX, SW_FILL_AWAY, NULL),
    SHAPE("image", IMAGE, SW_FILL_AWAY, NULL),
    SHAPE("blocks", IN_BLOCKS, SW_FILL_AWAY, NULL),
    SHAPE("one", SINGLE, SW_FILL_AWAY, NULL),
};
static const swi_number_attrs leaky_relu_attrs[] = {{0.1f}, {-0.25f}, {0.0f}};
static const sw_op_case leaky_relu_cases[] = {
    SHAPE("matrix", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("image", IMAGE, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("blocks", IN_BLOCKS, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("falling", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[1]),
    SHAPE("flat", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[2]),
};

/* Two steps to the bit, one to the mask, one on dy. */
COUNT(bits_dx_operations, swi_count_per_element(&info->out[0], 4))

/* in: bits, dy */
DOES(set_dx,
     sw_pointwise(l->isa)->clamp_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                    sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par))

DOES(leaky_relu_bits_dx,
     sw_pointwise(l->isa)->above_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                    sw_type_elements(&l->out[0].type), number_of(l->attrs),
                                    swi_adds(l, 0), l->par))

/* Only then the output is above 0 where the input is. */
static int rises(const void *attrs)
{
    return number_of(attrs) > 0.0f;
}

/* Of what is in the output, and of bits. */
#define RISES_relu NULL
#define RISES_leaky_relu rises
#define BITS_DX_relu set_dx
#define BITS_DX_leaky_relu leaky_relu_bits_dx

/* ---- the descriptors --------------------------------------------------------------------- */

#define SW_UNARY(id, call, keeps, layout, draws, cost, slope_cost, value, gradient, reference) \
    CASES_##layout(id, ATTRS_##call, draws);                                                   \
    UNARY_KERNELS(id, HAS_##call, 0, reference)                                                \
    CURVE_COUNTS(id, cost, slope_cost)                                                         \
    static const sw_grad_desc id##_grads[] = {{UNARY_GRAD(id, KEEPS_##keeps)}};                \
    UNARY_OP(id, HAS_##call, 0, LAYOUT_##layout);

#define SW_POWER(id, call, keeps, layout, draws, cost, slope_cost, value, gradient, reference) \
    UNARY_KERNELS(id, HAS_##call, 0, reference)                                                \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        return power_count(info, 1, 2, cost);                                                  \
    }                                                                                          \
    static uint64_t id##_dx_operations(const sw_kernel_info *info)                             \
    {                                                                                          \
        return power_count(info, 2, 3, number_of(info->attrs) == 0.0f ? 2 : slope_cost);       \
    }                                                                                          \
    static const sw_grad_desc id##_grads[] = {{UNARY_GRAD(id, KEEPS_##keeps)}};                \
    UNARY_OP(id, HAS_##call, 0, LAYOUT_##layout);

/* By what is kept: the output, or bits. */
#define SW_BENT(id, call, keeps, layout, draws, cost, slope_cost, value, gradient, reference)  \
    UNARY_KERNELS(id, HAS_##call, 1, reference)                                                \
    CURVE_COUNTS(id, cost, slope_cost)                                                         \
    static const sw_grad_desc id##_grads[] = {                                                 \
        {UNARY_GRAD(id, KEEPS_##keeps), .applies = RISES_##id},                                \
        GRAD(MAKES(0), FROM(SW_OUT(1), SW_DOUT(0)), BITS_DX_##id, bits_dx_operations,          \
             .inplace = 2),                                                                    \
    };                                                                                         \
    UNARY_OP(id, HAS_##call, 1, LAYOUT_##layout);

#include "kernels/unary.def"

INFER(abs_infer, coded_infer("abs", in, n_in, 4, out))

DOES(abs_forward, sw_pointwise(l->isa)->abs(swi_out(l, 0), codes_of(l), swi_in(l, 0),
                                            sw_type_elements(&l->in[0].type), l->par))

/* in: codes, dy */
DOES(abs_dx,
     sw_pointwise(l->isa)->abs_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                  sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par))

/* The value; two comparisons, two steps that put them in their place. */
COUNT(abs_operations, swi_count_per_element(&info->in[0], 6))

/* Two steps to the code, three to the masks, two on dy. */
COUNT(abs_dx_operations, swi_count_per_element(&info->out[0], 7))

BY_ELEMENT(abs_reference, fabs(r->in[0][i]))

static sw_status clamp_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_range_attrs *a = attrs;
    if (!(a->low <= a->high))
        SW_FAIL(SW_INVALID, "clamp: low must be at most high (got %g and %g)", (double)a->low,
                (double)a->high);
    return coded_infer("clamp", in, n_in, 8, out);
}

static sw_status clamp_forward(const sw_launch *l)
{
    const swi_range_attrs *a = l->attrs;
    sw_pointwise(l->isa)->clamp(swi_out(l, 0), codes_of(l), swi_in(l, 0), a->low, a->high,
                                sw_type_elements(&l->in[0].type), l->par);
    return SW_OK;
}

/* Two comparisons for the value, two for the bit; it is put in its place. */
COUNT(clamp_operations, swi_count_per_element(&info->in[0], 6))

static sw_status clamp_reference(const sw_reference *r)
{
    const swi_range_attrs *a = r->attrs;
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        r->out[0][i] = isnan(r->in[0][i])
                           ? r->in[0][i]
                           : fmin(fmax(r->in[0][i], (double)a->low), (double)a->high);
    return SW_OK;
}

#define CODED(id, ATTRS, DX, DX_OPERATIONS)                                                    \
    static const sw_grad_desc id##_grads[] = {                                                 \
        GRAD(MAKES(0), FROM(SW_OUT(1), SW_DOUT(0)), DX, DX_OPERATIONS, .inplace = 2)};         \
    OP(id, 1, 0, 1, .attrs_bytes = ATTRS, .rebuild = 1, .n_extra = 1, .infer = id##_infer,     \
       .layout = swi_layout_keep, .inplace = 1, .forward = id##_forward,                       \
       .operations = id##_operations, GRADS(id##_grads), CHECKS(id##_reference, id##_cases))

static const swi_range_attrs clamp_attrs = {-0.5f, 0.9f};
CASES_BLOCKS(abs, NULL, ANY);
CASES_BLOCKS(clamp, &clamp_attrs, ANY);
CODED(abs, 0, abs_dx, abs_dx_operations);
CODED(clamp, sizeof(swi_range_attrs), set_dx, bits_dx_operations);

sw_value sw_clamp(sw_ctx *ctx, sw_value x, float low, float high)
{
    return sw_op_apply(ctx, SW_OP_clamp, &x, 1, &(swi_range_attrs){low, high});
}

/* ==== pointwise =========================================================================== */

/* Scaling and conversions: nothing is kept, unless a factor has a gradient. */

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

DOES(scale_forward,
     sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), sw_type_elements(&l->in[0].type),
                                 *swi_in(l, 1), swi_adds(l, 0), l->par))

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

BY_ELEMENT(scale_reference, r->in[0][i] * r->in[1][0])

static const sw_op_case scale_cases[] = {
    CASE("matrix", IN(F32(3, 7), SCALAR)),
    CASE("image", IN(F32(2, 2, 3, 3), SCALAR)),
};

OP(scale, 2, 0, 1, .rebuild = 1, .infer = scale_infer, .layout = swi_layout_first,
   .image_in = 1, .inplace = 1, .forward = scale_forward, .rule = scale_rule,
   CHECKS(scale_reference, scale_cases));

INFER(scale_by_infer, swi_infer_same("scale_by", in, n_in, out))

DOES(scale_by_forward,
     sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), sw_type_elements(&l->in[0].type),
                                 number_of(l->attrs), swi_adds(l, 0), l->par))

RULE(scale_by_rule, sw_scale_by(ctx, r->dout[0], number_of(r->attrs)))

BY_ELEMENT(scale_by_reference, r->in[0][i] * (double)number_of(r->attrs))

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
    if (scale == NULL || shift == NULL)
        return SWI_REFUSE(ctx, "sw_to_f32_channels: scale and shift must not be NULL");
    for (int i = 0; i < n && i < SW_MAX_CHANNELS; i++) {
        a.scale[i] = scale[i];
        a.shift[i] = shift[i];
    }
    return sw_op_apply(ctx, SW_OP_to_f32, &x, 1, &a);
}

/* ==== arith =============================================================================== */

/* Sums, products, differences, quotients, and choices by a mask, all with broadcasting by
 * NumPy's rule.
 *
 * add and sub keep nothing; mul both inputs; div its divisor, and where the divisor has a
 * gradient the quotient, or the dividend where that is smaller; where keeps the mask. */

static bool is_plain(const sw_launch *l)
{
    bool flat = true;
    for (int i = 0; i < l->n_in; i++)
        flat &= swi_same_shape(&l->in[i].type.shape, &l->out[0].type.shape) &&
                swi_is_contiguous(&l->in[i]);
    return flat;
}

/* The result and inputs a and b of a kernel as operands of kernels/strided.h. */
static sw_strided broadcast_strided(const sw_launch *l, int a, int b)
{
    const sw_shape *s = &l->out[0].type.shape;
    sw_strided strided = {.rank = s->rank};
    memcpy(strided.dim, s->dim, sizeof s->dim);
    memcpy(strided.y, l->out[0].stride, sizeof l->out[0].stride);
    swi_broadcast_strides(&l->in[a], s, strided.a);
    swi_broadcast_strides(&l->in[b], s, strided.b);
    return strided;
}

/* Element of a tensor of shape `from` under element i of shape `to`. */
static int64_t broadcast_index(int64_t i, const sw_shape *to, const sw_shape *from)
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
    return r->in[k][broadcast_index(i, &r->out_type[0].shape, &r->in_type[k].shape)];
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

/* ---- add, mul, sub, div: one operation for each element, as where none are counted ------- */

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
        const sw_strided strided = broadcast_strided(l, 0, 1);                                 \
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
    const sw_strided strided = broadcast_strided(l, 1, 2);
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

BY_ELEMENT(where_reference, operand_at(r, operand_at(r, 0, i) != 0.0 ? 1 : 2, i))

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

/* ==== swiglu ============================================================================== */

/* y = swish(a) b, element by element (Shazeer 2020). With one input it has a and b side by side
 * in its last axis. Keeps the inputs; swish and its slope are recomputed in backward. */

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *a = &in[0].shape;
    SW_TRY(swi_infer_same("swiglu", in, n_in, out));
    if (n_in > 1 && !swi_same_shape(a, &in[1].shape))
        SW_FAIL(SW_INVALID, "swiglu: both inputs must have one shape (got %s and %s)",
                SWI_SHAPE(a), SWI_SHAPE(&in[1].shape));
    if (n_in > 1)
        return SW_OK;
    if (a->rank < 1 || a->dim[a->rank - 1] % 2 != 0)
        SW_FAIL(SW_INVALID, "swiglu: the last axis must have two halves (got %s)",
                SWI_SHAPE(a));
    out[0].shape.dim[a->rank - 1] /= 2;
    return SW_OK;
}

/* a and b in the first n operands; elements of either as rows. */
static sw_glu operands(const sw_launch *l, int n)
{
    const sw_shape *s = &l->in[0].type.shape;
    const int64_t all = swi_elements(s) / (n == 1 ? 2 : 1);
    const int64_t cols = n == 1 ? s->dim[s->rank - 1] / 2 : all;
    return (sw_glu)SW_INIT(.a = swi_in(l, 0), .b = n == 1 ? swi_in(l, 0) + cols : swi_in(l, 1),
                           .rows = cols > 0 ? all / cols : 0, .cols = cols,
                           .step = n == 1 ? 2 * cols : cols);
}

static sw_status forward(const sw_launch *l)
{
    sw_glu g = operands(l, l->n_in);
    g.y = swi_out(l, 0);
    sw_pointwise(l->isa)->swiglu(&g, l->par);
    return SW_OK;
}

COUNT(operations, swi_count_per_element(&info->out[0], SWI_SWISH + 1))

/* in: a, b, dy (both, da), or the one tensor and dy (its gradient has both); a, dy (db) */
static sw_status gradient(const sw_launch *l, bool da, bool db)
{
    const bool one = da && l->n_in == 2;
    sw_glu g = operands(l, one ? 1 : 2);
    g.dy = swi_in(l, l->n_in - 1);
    g.da = da ? swi_out(l, 0) : NULL;
    g.db = one ? swi_out(l, 0) + g.cols : db ? swi_out(l, da) : NULL;
    g.add_a = swi_adds(l, 0);
    g.add_b = swi_adds(l, da && db);
    sw_pointwise(l->isa)->swiglu_grad(&g, l->par);
    return SW_OK;
}

KERNEL(both_kernel, gradient(l, true, true))
KERNEL(da_kernel, gradient(l, true, false))
KERNEL(db_kernel, gradient(l, false, true))

/* dy b times the slope of swish, as swish counts it; dy times swish. */
enum { DA = SWI_SWISH_SLOPE + 2, DB = SWI_SWISH + 1 };

COUNT(both_operations, swi_count_per_element(&info->out[0], DA + DB))

static uint64_t da_operations(const sw_kernel_info *info)
{
    if (info->n_in == 2)
        return swi_count_per_element(&info->in[1], DA + DB);
    return swi_count_per_element(&info->out[0], DA);
}

COUNT(db_operations, swi_count_per_element(&info->out[0], DB))

static sw_status reference(const sw_reference *r)
{
    const sw_shape *s = &r->out_type[0].shape;
    const int64_t cols = r->n_in == 1 ? s->dim[s->rank - 1] : 1;
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t at = r->n_in == 1 ? i + i / cols * cols : i;
        const double a = r->in[0][at], b = r->n_in == 1 ? r->in[0][at + cols] : r->in[1][at];
        r->out[0][i] = a / (1.0 + exp(-a)) * b;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0, 1), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), both_kernel, both_operations,
         .inplace = 7),
    GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), da_kernel, da_operations,
         .inplace = 1),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), db_kernel, db_operations)};
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(3, 19), F32(3, 19))),
    CASE("several parts", IN(F32(5, 7001), F32(5, 7001))),
    CASE("halves", IN(F32(2, 5, 2 * 67))),
    CASE("halves of long rows", IN(F32(3, 2 * 9001))),
    CASE("one element", IN(SCALAR, SCALAR)),
};

OP(swiglu, 1, 2, 1, .infer = infer, .inplace = 3, .rebuild = 1, .forward = forward,
   .operations = operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_swiglu(sw_ctx *ctx, sw_value a, sw_value b)
{
    const sw_value in[] = {a, b};
    const sw_value whole = swi_whole_of(ctx, in, 2);
    if (whole.id != 0)
        return sw_op_apply(ctx, SW_OP_swiglu, &whole, 1, NULL);
    return sw_op_apply(ctx, SW_OP_swiglu, in, 2, NULL);
}
