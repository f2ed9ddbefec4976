/* Pointwise ops and losses as functions of x, for the test of bits and for the comparison with
 * PyTorch. Input 0: t, a tensor in 0.1..1; input 1: a mask; input 2: labels of rows of
 * POINT_CLASSES. x is drawn from low..high. */
#ifndef SW_POINTWISE_LIST_H
#define SW_POINTWISE_LIST_H

#include <runtime/stepwell.h>

enum { POINT_CLASSES = 10, POINT_IGNORED = 3 };

#define UNARY(name)                                                                            \
    static sw_value point_##name(sw_ctx *c, sw_value x)                                        \
    {                                                                                          \
        return sw_##name(c, x);                                                                \
    }
UNARY(gelu)
UNARY(gelu_tanh)
UNARY(mish)
UNARY(softplus)
UNARY(hard_swish)
UNARY(selu)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(abs)
#undef UNARY

static sw_value point_elu(sw_ctx *c, sw_value x)
{
    return sw_elu(c, x, 0.75f);
}
static sw_value point_clamp(sw_ctx *c, sw_value x)
{
    return sw_clamp(c, x, -0.5f, 0.75f);
}
static sw_value point_pow2(sw_ctx *c, sw_value x)
{
    return sw_pow(c, x, 2.0f);
}
static sw_value point_pow3(sw_ctx *c, sw_value x)
{
    return sw_pow(c, x, 3.0f);
}
static sw_value point_pow5(sw_ctx *c, sw_value x)
{
    return sw_pow(c, x, 5.0f);
}
static sw_value point_pow_root(sw_ctx *c, sw_value x)
{
    return sw_pow(c, x, 0.375f);
}
static sw_value point_pow_below(sw_ctx *c, sw_value x)
{
    return sw_pow(c, x, -2.5f);
}
static sw_value point_sub(sw_ctx *c, sw_value x)
{
    return sw_sub(c, sw_input(c, 0), x);
}
static sw_value point_div(sw_ctx *c, sw_value x)
{
    return sw_div(c, x, sw_input(c, 0));
}
static sw_value point_divisor(sw_ctx *c, sw_value x)
{
    return sw_div(c, sw_input(c, 0), x);
}
static sw_value point_where(sw_ctx *c, sw_value x)
{
    return sw_where(c, sw_input(c, 1), x, sw_input(c, 0));
}
static sw_value point_huber(sw_ctx *c, sw_value x)
{
    return sw_huber(c, x, sw_input(c, 0), 0.75f);
}
static sw_value point_l1(sw_ctx *c, sw_value x)
{
    return sw_l1(c, x, sw_input(c, 0));
}
static sw_value point_rows(sw_ctx *c, sw_value x)
{
    return sw_reshape(c, x, SW_SHAPE(-1, POINT_CLASSES));
}
static sw_value point_kl_div(sw_ctx *c, sw_value x)
{
    return sw_kl_div(c, point_rows(c, x), point_rows(c, sw_input(c, 0)));
}
static sw_value point_ce(sw_ctx *c, sw_value x)
{
    return sw_softmax_ce(c, point_rows(c, x), sw_input(c, 2));
}
static sw_value point_ce_smooth(sw_ctx *c, sw_value x)
{
    return sw_softmax_ce_with(c, point_rows(c, x), sw_input(c, 2), 0.1f, -100);
}
static sw_value point_ce_ignore(sw_ctx *c, sw_value x)
{
    return sw_softmax_ce_with(c, point_rows(c, x), sw_input(c, 2), 0.0f, POINT_IGNORED);
}
static sw_value point_ce_both(sw_ctx *c, sw_value x)
{
    return sw_softmax_ce_with(c, point_rows(c, x), sw_input(c, 2), 0.25f, POINT_IGNORED);
}

static const struct {
    const char *name;
    sw_value (*run)(sw_ctx *ctx, sw_value x);
    float low, high;
    int is_loss;
} point_list[] = {
    {"gelu", point_gelu, -7.0f, 7.0f, 0},
    {"gelu_tanh", point_gelu_tanh, -7.0f, 7.0f, 0},
    {"mish", point_mish, -20.0f, 20.0f, 0},
    {"softplus", point_softplus, -15.0f, 15.0f, 0},
    {"hard_swish", point_hard_swish, -5.0f, 5.0f, 0},
    {"elu", point_elu, -5.0f, 5.0f, 0},
    {"selu", point_selu, -5.0f, 5.0f, 0},
    {"exp", point_exp, -10.0f, 10.0f, 0},
    {"log", point_log, 0.001f, 10.0f, 0},
    {"sqrt", point_sqrt, 0.001f, 10.0f, 0},
    {"rsqrt", point_rsqrt, 0.01f, 10.0f, 0},
    {"pow2", point_pow2, -3.0f, 3.0f, 0},
    {"pow3", point_pow3, -3.0f, 3.0f, 0},
    {"pow5", point_pow5, -3.0f, 3.0f, 0},
    {"pow_root", point_pow_root, 0.01f, 30.0f, 0},
    {"pow_below", point_pow_below, 0.5f, 30.0f, 0},
    {"abs", point_abs, -2.0f, 2.0f, 0},
    {"clamp", point_clamp, -2.0f, 2.0f, 0},
    {"sub", point_sub, -2.0f, 2.0f, 0},
    {"div", point_div, -2.0f, 2.0f, 0},
    {"divisor", point_divisor, 0.2f, 3.0f, 0},
    {"where", point_where, -2.0f, 2.0f, 0},
    {"huber", point_huber, -2.0f, 2.0f, 1},
    {"l1", point_l1, -2.0f, 2.0f, 1},
    {"kl_div", point_kl_div, -4.0f, -0.1f, 1},
    {"ce", point_ce, -4.0f, 4.0f, 1},
    {"ce_smooth", point_ce_smooth, -4.0f, 4.0f, 1},
    {"ce_ignore", point_ce_ignore, -4.0f, 4.0f, 1},
    {"ce_both", point_ce_both, -4.0f, 4.0f, 1},
};
#define POINT_COUNT (sizeof point_list / sizeof *point_list)

#endif
