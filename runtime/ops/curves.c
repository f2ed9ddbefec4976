/* Functions of one number, element by element.
 *
 * relu and leaky relu keep their output where others keep it anyway, and where nobody does
 * one bit for each element. tanh and sigmoid keep their output, shared with the
 * consumer. swish, gelu, mish, softplus, hard_swish, elu, selu, log and pow keep their input
 * and rebuild what they need in backward; exp, sqrt and rsqrt keep their output too. abs and
 * clamp keep neither: two bits and one bit per element say what the gradient is. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

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

/* ---- curves ------------------------------------------------------------------------------ */

/* Lanes of padding hold any finite numbers, and zeros in gradients: what is finite for those,
 * and 0 for a gradient of 0, works in blocks. Others take images in plain order. */
#define ANYWHERE swi_layout_keep
#define PLAIN_ONLY NULL

/* exp and its like of the formulas in kernels/scalar.h, counted there. */
enum {
    GELU = SWI_EXP + 36,
    GELU_SLOPE = SWI_EXP + 38,
    GELU_TANH = SWI_EXP + 24,
    GELU_TANH_SLOPE = SWI_EXP + 34,
    MISH = SWI_EXP + 16,
    MISH_SLOPE = SWI_EXP + 36,
    SOFTPLUS = 4 + SWI_EXP + SWI_LOG1P,
    EXPM1 = SWI_EXP + 1,
    POW = 67
};

static uint64_t curve_count(const sw_kernel_info *info, uint64_t each)
{
    return swi_count_each(&info->out[0], each);
}

/* COST, SLOPE_COST: operations of the value, and of dy times the slope; `p` is the attribute.
 * BITS: 1 where an extra has a bit for each element, set where the input is above 0,
 * of relu also where it is NaN. */
#define CURVE_KERNELS(id, KIND, ATTRS, BITS, VALUE, COST, SLOPE_COST)                          \
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
            sw_point(l->isa)->above(KIND, codes_of(l), swi_in(l, 0), n, l->par);               \
        sw_point(l->isa)->curve(KIND, swi_out(l, 0), swi_in(l, 0), n,                          \
                                number_of(ATTRS ? l->attrs : NULL), l->par);                   \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_dx(const sw_launch *l)                                               \
    {                                                                                          \
        sw_point(l->isa)->curve_dx(                                                            \
            KIND, swi_out(l, 0), swi_in(l, 1), swi_in(l, 0), sw_type_elements(&l->in[0].type), \
            number_of(ATTRS ? l->attrs : NULL), swi_adds(l, 0), l->par);                       \
        return SW_OK;                                                                          \
    }                                                                                          \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        const float p = number_of(ATTRS ? info->attrs : NULL);                                 \
        (void)p;                                                                               \
        return curve_count(info, COST);                                                        \
    }                                                                                          \
    static uint64_t id##_dx_operations(const sw_kernel_info *info)                             \
    {                                                                                          \
        const float p = number_of(ATTRS ? info->attrs : NULL);                                 \
        (void)p;                                                                               \
        return curve_count(info, SLOPE_COST);                                                  \
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

/* From what is saved, and dy; the gradient may take the place of either. */
#define CURVE_GRAD(id, SAVED)                                                                  \
    .n_makes = 1, .makes = {0}, .n_operands = 2, .operands = {SAVED, SW_DOUT(0)},              \
    .inplace = 3, .kernel = id##_dx, .operations = id##_dx_operations

#define CURVE_OP(id, ATTRS, BITS, LAYOUT)                                                      \
    const sw_op_desc sw_op_##id = {.size = sizeof(sw_op_desc),                                 \
                                   .rebuild = 1,                                               \
                                   .name = #id,                                                \
                                   .n_in = 1,                                                  \
                                   .n_out = 1,                                                 \
                                   .n_extra = BITS,                                            \
                                   .attrs_bytes = ATTRS ? sizeof(swi_number_attrs) : 0,        \
                                   .infer = id##_infer,                                        \
                                   .layout = LAYOUT,                                           \
                                   .inplace = 1,                                               \
                                   .forward = id##_forward,                                    \
                                   .grads = id##_grads,                                        \
                                   .n_grads = SWI_COUNT(id##_grads),                           \
                                   .reference = id##_reference,                                \
                                   .cases = id##_cases,                                        \
                                   .n_cases = SWI_COUNT(id##_cases),                           \
                                   .operations = id##_operations}

#define CURVE(id, KIND, ATTRS, SAVED, LAYOUT, VALUE, COST, SLOPE_COST)                         \
    CURVE_KERNELS(id, KIND, ATTRS, 0, VALUE, COST, SLOPE_COST)                                 \
    static const sw_grad_desc id##_grads[] = {{CURVE_GRAD(id, SAVED)}};                        \
    CURVE_OP(id, ATTRS, 0, LAYOUT)

#define SHAPE(label, type_, fill_, attrs_)                                                     \
    {                                                                                          \
        .name = label, .n_in = 1, .in = {type_}, .fill = {fill_}, .attrs = attrs_              \
    }
#define BLOCKS                                                                                 \
    {                                                                                          \
        SW_F32, SW_N16,                                                                        \
        {                                                                                      \
            4,                                                                                 \
            {                                                                                  \
                3, 2, 3, 4                                                                     \
            }                                                                                  \
        }                                                                                      \
    }
#define MATRIX SWI_F32(5, 37)
#define IMAGE SWI_F32(3, 2, 3, 4)
#define ONE SWI_F32(1)

/* SW_FILL_DISTINCT covers both sides of every bend up to 4.6, and has no number at one. */
#define ACTIVATION_CASES(id, attrs)                                                            \
    static const sw_op_case id##_cases[] = {                                                   \
        SHAPE("matrix", MATRIX, SW_FILL_DISTINCT, attrs),                                      \
        SHAPE("image", IMAGE, SW_FILL_NORMAL, attrs),                                          \
        SHAPE("blocks", BLOCKS, SW_FILL_NORMAL, attrs),                                        \
        SHAPE("one", ONE, SW_FILL_NORMAL, attrs),                                              \
    }

ACTIVATION_CASES(tanh, NULL);
ACTIVATION_CASES(sigmoid, NULL);
ACTIVATION_CASES(swish, NULL);
ACTIVATION_CASES(gelu, NULL);
ACTIVATION_CASES(gelu_tanh, NULL);
ACTIVATION_CASES(mish, NULL);
ACTIVATION_CASES(softplus, NULL);
ACTIVATION_CASES(hard_swish, NULL);
ACTIVATION_CASES(selu, NULL);
static const swi_number_attrs elu_attrs = {0.75f};
ACTIVATION_CASES(elu, &elu_attrs);

#define POSITIVE_CASES(id)                                                                     \
    static const sw_op_case id##_cases[] = {                                                   \
        SHAPE("matrix", MATRIX, SW_FILL_UNIT, NULL),                                           \
        SHAPE("image", IMAGE, SW_FILL_UNIT, NULL),                                             \
        SHAPE("one", ONE, SW_FILL_UNIT, NULL),                                                 \
    }
static const sw_op_case exp_cases[] = {
    SHAPE("matrix", MATRIX, SW_FILL_DISTINCT, NULL),
    SHAPE("image", IMAGE, SW_FILL_NORMAL, NULL),
    SHAPE("one", ONE, SW_FILL_NORMAL, NULL),
};
POSITIVE_CASES(log);
POSITIVE_CASES(sqrt);
POSITIVE_CASES(rsqrt);
static const swi_number_attrs pow_attrs[] = {{2.0f}, {3.0f}, {-2.0f}, {0.3f}, {-1.5f}, {0.0f}};
static const sw_op_case pow_cases[] = {
    SHAPE("square", MATRIX, SW_FILL_DISTINCT, &pow_attrs[0]),
    SHAPE("cube", IMAGE, SW_FILL_DISTINCT, &pow_attrs[1]),
    SHAPE("whole, below 0", MATRIX, SW_FILL_AWAY, &pow_attrs[2]),
    SHAPE("a root", MATRIX, SW_FILL_UNIT, &pow_attrs[3]),
    SHAPE("below 0", ONE, SW_FILL_UNIT, &pow_attrs[4]),
    SHAPE("0", SWI_F32(3, 5), SW_FILL_AWAY, &pow_attrs[5]),
};

CURVE(tanh, SW_TANH, 0, SW_OUT(0), ANYWHERE, tanh(x), SWI_TANH, 4);
CURVE(sigmoid, SW_SIGMOID, 0, SW_OUT(0), ANYWHERE, sigmoid_double(x), SWI_SIGMOID, 3);
CURVE(swish, SW_SWISH, 0, SW_IN(0), ANYWHERE, x *sigmoid_double(x), SWI_SWISH,
      SWI_SWISH_SLOPE + 1);
CURVE(gelu, SW_GELU, 0, SW_IN(0), ANYWHERE, gelu_double(x), GELU, GELU_SLOPE);
CURVE(gelu_tanh, SW_GELU_TANH, 0, SW_IN(0), ANYWHERE, gelu_tanh_double(x), GELU_TANH,
      GELU_TANH_SLOPE + 1);
CURVE(mish, SW_MISH, 0, SW_IN(0), ANYWHERE, x *tanh(softplus_double(x)), MISH, MISH_SLOPE + 1);
CURVE(softplus, SW_SOFTPLUS, 0, SW_IN(0), ANYWHERE, softplus_double(x), SOFTPLUS,
      SWI_SIGMOID + 1);
CURVE(hard_swish, SW_HARD_SWISH, 0, SW_IN(0), ANYWHERE, x *fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0,
      5, 5);
CURVE(elu, SW_ELU, 1, SW_IN(0), ANYWHERE, x > 0 ? x : p * expm1(x), EXPM1 + 2, SWI_EXP + 5);
CURVE(selu, SW_SELU, 0, SW_IN(0), ANYWHERE, selu_double(x), EXPM1 + 3, SWI_EXP + 5);
CURVE(exp, SW_EXP, 0, SW_OUT(0), PLAIN_ONLY, exp(x), SWI_EXP + 4, 1);
CURVE(log, SW_LOG, 0, SW_IN(0), PLAIN_ONLY, log(x), SWI_LOG + 2, 1);
CURVE(sqrt, SW_SQRT, 0, SW_OUT(0), PLAIN_ONLY, sqrt(x), 1, 2);
CURVE(rsqrt, SW_RSQRT, 0, SW_OUT(0), PLAIN_ONLY, 1.0 / sqrt(x), 2, 4);
CURVE(pow, SW_POW, 1, SW_IN(0), PLAIN_ONLY, pow(x, p),
      p == 2.0f   ? 1
      : p == 3.0f ? 2
                  : POW,
      p == 2.0f || p == 0.0f ? 2
      : p == 3.0f            ? 3
                             : POW + 2);

/* ---- relu, leaky relu -------------------------------------------------------------------- */

/* SW_FILL_AWAY: the bend is at 0. */
static const sw_op_case relu_cases[] = {
    SHAPE("matrix", MATRIX, SW_FILL_AWAY, NULL),
    SHAPE("image", IMAGE, SW_FILL_AWAY, NULL),
    SHAPE("blocks", BLOCKS, SW_FILL_AWAY, NULL),
    SHAPE("one", ONE, SW_FILL_AWAY, NULL),
};
/* By what is kept: the output, or bits. */
#define BENT(id, ATTRS, APPLIES, DX)                                                           \
    static const sw_grad_desc id##_grads[] = {                                                 \
        {CURVE_GRAD(id, SW_OUT(0)), .applies = APPLIES},                                       \
        {.n_makes = 1,                                                                         \
         .makes = {0},                                                                         \
         .n_operands = 2,                                                                      \
         .operands = {SW_OUT(1), SW_DOUT(0)},                                                  \
         .inplace = 2,                                                                         \
         .kernel = DX,                                                                         \
         .operations = bits_dx_operations},                                                    \
    };                                                                                         \
    CURVE_OP(id, ATTRS, 1, ANYWHERE)

/* Two steps to the bit, one to the mask, one on dy. */
static uint64_t bits_dx_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->out[0], 4);
}

/* in: bits, dy */
static sw_status set_dx(const sw_launch *l)
{
    sw_point(l->isa)->clamp_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                               sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
    return SW_OK;
}

static sw_status leaky_relu_bits_dx(const sw_launch *l)
{
    sw_point(l->isa)->above_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                               sw_type_elements(&l->out[0].type), number_of(l->attrs),
                               swi_adds(l, 0), l->par);
    return SW_OK;
}

/* Only then the output is above 0 where the input is. */
static int rises(const void *attrs)
{
    return number_of(attrs) > 0.0f;
}

static const swi_number_attrs leaky_relu_attrs[] = {{0.1f}, {-0.25f}, {0.0f}};
static const sw_op_case leaky_relu_cases[] = {
    SHAPE("matrix", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("image", IMAGE, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("blocks", BLOCKS, SW_FILL_AWAY, &leaky_relu_attrs[0]),
    SHAPE("falling", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[1]),
    SHAPE("flat", MATRIX, SW_FILL_AWAY, &leaky_relu_attrs[2]),
};
CURVE_KERNELS(relu, SW_RELU, 0, 1, x <= 0 ? 0.0 : x, 1, 2)
BENT(relu, 0, NULL, set_dx);
CURVE_KERNELS(leaky_relu, SW_LEAKY_RELU, 1, 1, x > 0 ? x : p * x, 2, 2)
BENT(leaky_relu, 1, rises, leaky_relu_bits_dx);

#define PUBLIC(id)                                                                             \
    sw_value sw_##id(sw_ctx *ctx, sw_value x)                                                  \
    {                                                                                          \
        return sw_op_apply(ctx, SW_OP_##id, &x, 1, NULL);                                      \
    }
PUBLIC(relu)
PUBLIC(tanh)
PUBLIC(sigmoid)
PUBLIC(swish)
PUBLIC(gelu)
PUBLIC(gelu_tanh)
PUBLIC(mish)
PUBLIC(softplus)
PUBLIC(hard_swish)
PUBLIC(selu)
PUBLIC(exp)
PUBLIC(log)
PUBLIC(sqrt)
PUBLIC(rsqrt)
PUBLIC(abs)

sw_value sw_leaky_relu(sw_ctx *ctx, sw_value x, float slope)
{
    const swi_number_attrs a = {slope};
    return sw_op_apply(ctx, SW_OP_leaky_relu, &x, 1, &a);
}

sw_value sw_elu(sw_ctx *ctx, sw_value x, float alpha)
{
    const swi_number_attrs a = {alpha};
    return sw_op_apply(ctx, SW_OP_elu, &x, 1, &a);
}

sw_value sw_pow(sw_ctx *ctx, sw_value x, float exponent)
{
    const swi_number_attrs a = {exponent};
    return sw_op_apply(ctx, SW_OP_pow, &x, 1, &a);
}

/* ---- abs, clamp -------------------------------------------------------------------------- */

static sw_status abs_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    return coded_infer("abs", in, n_in, 4, out);
}

static sw_status abs_forward(const sw_launch *l)
{
    sw_point(l->isa)->abs(swi_out(l, 0), codes_of(l), swi_in(l, 0),
                          sw_type_elements(&l->in[0].type), l->par);
    return SW_OK;
}

/* in: codes, dy */
static sw_status abs_dx(const sw_launch *l)
{
    sw_point(l->isa)->abs_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                             sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* The value; two comparisons, two steps that put them in their place. */
static uint64_t abs_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->in[0], 6);
}

/* Two steps to the code, three to the masks, two on dy. */
static uint64_t abs_dx_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->out[0], 7);
}

static sw_status abs_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        r->out[0][i] = fabs(r->in[0][i]);
    return SW_OK;
}

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
    sw_point(l->isa)->clamp(swi_out(l, 0), codes_of(l), swi_in(l, 0), a->low, a->high,
                            sw_type_elements(&l->in[0].type), l->par);
    return SW_OK;
}

/* Two comparisons for the value, two for the bit; it is put in its place. */
static uint64_t clamp_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->in[0], 6);
}

static sw_status clamp_reference(const sw_reference *r)
{
    const swi_range_attrs *a = r->attrs;
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        r->out[0][i] = fmin(fmax(r->in[0][i], (double)a->low), (double)a->high);
    return SW_OK;
}

#define CODED(id, ATTRS, DX, DX_OPERATIONS)                                                    \
    static const sw_grad_desc id##_grads[] = {{.n_makes = 1,                                   \
                                               .makes = {0},                                   \
                                               .n_operands = 2,                                \
                                               .operands = {SW_OUT(1), SW_DOUT(0)},            \
                                               .inplace = 2,                                   \
                                               .kernel = DX,                                   \
                                               .operations = DX_OPERATIONS}};                  \
    const sw_op_desc sw_op_##id = {.size = sizeof(sw_op_desc),                                 \
                                   .rebuild = 1,                                               \
                                   .name = #id,                                                \
                                   .n_in = 1,                                                  \
                                   .n_out = 1,                                                 \
                                   .n_extra = 1,                                               \
                                   .attrs_bytes = ATTRS,                                       \
                                   .infer = id##_infer,                                        \
                                   .layout = swi_layout_keep,                                  \
                                   .inplace = 1,                                               \
                                   .forward = id##_forward,                                    \
                                   .grads = id##_grads,                                        \
                                   .n_grads = 1,                                               \
                                   .reference = id##_reference,                                \
                                   .cases = id##_cases,                                        \
                                   .n_cases = SWI_COUNT(id##_cases),                           \
                                   .operations = id##_operations}

static const swi_range_attrs clamp_attrs = {-0.5f, 0.9f};
ACTIVATION_CASES(abs, NULL);
ACTIVATION_CASES(clamp, &clamp_attrs);
CODED(abs, 0, abs_dx, abs_dx_operations);
CODED(clamp, sizeof(swi_range_attrs), set_dx, bits_dx_operations);

sw_value sw_clamp(sw_ctx *ctx, sw_value x, float low, float high)
{
    const swi_range_attrs a = {low, high};
    return sw_op_apply(ctx, SW_OP_clamp, &x, 1, &a);
}
