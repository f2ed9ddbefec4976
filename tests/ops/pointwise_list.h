/* Pointwise ops and losses as functions of x, for the test of bits and for the comparison with
 * PyTorch. Input 0: t, a tensor in 0.1..1; input 1: a mask; input 2: labels of rows of
 * POINT_CLASSES. x is drawn from low..high. */
#ifndef SW_POINTWISE_LIST_H
#define SW_POINTWISE_LIST_H

#include <runtime/stepwell.h>

enum { POINT_CLASSES = 10, POINT_IGNORED = 3 };

#define POINT_ROWS(x) sw_reshape(c, x, SW_SHAPE(-1, POINT_CLASSES))
/* ROW(name, lowest x, highest x, is it a loss, the value) */
#define POINT_LIST(ROW)                                                                        \
    ROW(gelu, -7.0f, 7.0f, 0, sw_gelu(c, x))                                                   \
    ROW(gelu_tanh, -7.0f, 7.0f, 0, sw_gelu_tanh(c, x))                                         \
    ROW(mish, -20.0f, 20.0f, 0, sw_mish(c, x))                                                 \
    ROW(softplus, -15.0f, 15.0f, 0, sw_softplus(c, x))                                         \
    ROW(hard_swish, -5.0f, 5.0f, 0, sw_hard_swish(c, x))                                       \
    ROW(elu, -5.0f, 5.0f, 0, sw_elu(c, x, 0.75f))                                              \
    ROW(selu, -5.0f, 5.0f, 0, sw_selu(c, x))                                                   \
    ROW(exp, -10.0f, 10.0f, 0, sw_exp(c, x))                                                   \
    ROW(log, 0.001f, 10.0f, 0, sw_log(c, x))                                                   \
    ROW(sqrt, 0.001f, 10.0f, 0, sw_sqrt(c, x))                                                 \
    ROW(rsqrt, 0.01f, 10.0f, 0, sw_rsqrt(c, x))                                                \
    ROW(pow2, -3.0f, 3.0f, 0, sw_pow(c, x, 2.0f))                                              \
    ROW(pow3, -3.0f, 3.0f, 0, sw_pow(c, x, 3.0f))                                              \
    ROW(pow5, -3.0f, 3.0f, 0, sw_pow(c, x, 5.0f))                                              \
    ROW(pow_root, 0.01f, 30.0f, 0, sw_pow(c, x, 0.375f))                                       \
    ROW(pow_below, 0.5f, 30.0f, 0, sw_pow(c, x, -2.5f))                                        \
    ROW(abs, -2.0f, 2.0f, 0, sw_abs(c, x))                                                     \
    ROW(clamp, -2.0f, 2.0f, 0, sw_clamp(c, x, -0.5f, 0.75f))                                   \
    ROW(sub, -2.0f, 2.0f, 0, sw_sub(c, sw_input(c, 0), x))                                     \
    ROW(div, -2.0f, 2.0f, 0, sw_div(c, x, sw_input(c, 0)))                                     \
    ROW(divisor, 0.2f, 3.0f, 0, sw_div(c, sw_input(c, 0), x))                                  \
    ROW(where, -2.0f, 2.0f, 0, sw_where(c, sw_input(c, 1), x, sw_input(c, 0)))                 \
    ROW(huber, -2.0f, 2.0f, 1, sw_huber(c, x, sw_input(c, 0), 0.75f))                          \
    ROW(l1, -2.0f, 2.0f, 1, sw_l1(c, x, sw_input(c, 0)))                                       \
    ROW(kl_div, -4.0f, -0.1f, 1, sw_kl_div(c, POINT_ROWS(x), POINT_ROWS(sw_input(c, 0))))      \
    ROW(ce, -4.0f, 4.0f, 1, sw_softmax_ce(c, POINT_ROWS(x), sw_input(c, 2)))                   \
    ROW(ce_smooth, -4.0f, 4.0f, 1,                                                             \
        sw_softmax_ce_with(c, POINT_ROWS(x), sw_input(c, 2), 0.1f, -100))                      \
    ROW(ce_ignore, -4.0f, 4.0f, 1,                                                             \
        sw_softmax_ce_with(c, POINT_ROWS(x), sw_input(c, 2), 0.0f, POINT_IGNORED))             \
    ROW(ce_both, -4.0f, 4.0f, 1,                                                               \
        sw_softmax_ce_with(c, POINT_ROWS(x), sw_input(c, 2), 0.25f, POINT_IGNORED))

#define POINT_RUN(name, low, high, is_loss, ...)                                               \
    static sw_value point_##name(sw_ctx *c, sw_value x)                                        \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
#define POINT_ROW(name, low, high, is_loss, ...) {#name, point_##name, low, high, is_loss},
POINT_LIST(POINT_RUN)

static const struct {
    const char *name;
    sw_value (*run)(sw_ctx *ctx, sw_value x);
    float low, high;
    int is_loss;
} point_list[] = {POINT_LIST(POINT_ROW)};
#define POINT_COUNT (sizeof point_list / sizeof *point_list)

#endif
