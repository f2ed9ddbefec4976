/* Functions of one number, element by element.
 *
 * relu and leaky relu keep their output where others keep it anyway, and where no one does
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

/* ---- unary functions
 * ------------------------------------------------------------------------------ */

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
                                    number_of(ATTRS ? l->attrs : NULL), l->par);               \
        return SW_OK;                                                                          \
    }                                                                                          \
    static sw_status id##_dx(const sw_launch *l)                                               \
    {                                                                                          \
        sw_pointwise(l->isa)->unary_dx(SW_UNARY_##id, swi_out(l, 0), swi_in(l, 1),             \
                                       swi_in(l, 0), sw_type_elements(&l->in[0].type),         \
                                       number_of(ATTRS ? l->attrs : NULL), swi_adds(l, 0),     \
                                       l->par);                                                \
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
static sw_status set_dx(const sw_launch *l)
{
    sw_pointwise(l->isa)->clamp_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                   sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
    return SW_OK;
}

static sw_status leaky_relu_bits_dx(const sw_launch *l)
{
    sw_pointwise(l->isa)->above_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                   sw_type_elements(&l->out[0].type), number_of(l->attrs),
                                   swi_adds(l, 0), l->par);
    return SW_OK;
}

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

/* ---- abs, clamp -------------------------------------------------------------------------- */

INFER(abs_infer, coded_infer("abs", in, n_in, 4, out))

static sw_status abs_forward(const sw_launch *l)
{
    sw_pointwise(l->isa)->abs(swi_out(l, 0), codes_of(l), swi_in(l, 0),
                              sw_type_elements(&l->in[0].type), l->par);
    return SW_OK;
}

/* in: codes, dy */
static sw_status abs_dx(const sw_launch *l)
{
    sw_pointwise(l->isa)->abs_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr,
                                 sw_type_elements(&l->out[0].type), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* The value; two comparisons, two steps that put them in their place. */
COUNT(abs_operations, swi_count_per_element(&info->in[0], 6))

/* Two steps to the code, three to the masks, two on dy. */
COUNT(abs_dx_operations, swi_count_per_element(&info->out[0], 7))

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
    const swi_range_attrs a = {low, high};
    return sw_op_apply(ctx, SW_OP_clamp, &x, 1, &a);
}
