/* Functions of one number and their slopes: activations, exp, log, roots and powers. */
#include "kernels/cpu/isa/each.h"
#include "kernels/cpu/isa/point_internal.h"
#include "kernels/scalar.h"
#include <math.h>

BODY(curve_part)
switch ((sw_curve)j->kind) {
case SW_RELU:
    EACH(sw_relu_value(a[i]));
    break;
case SW_LEAKY_RELU:
    EACH(a[i] > 0.0f ? a[i] : p * a[i]);
    break;
case SW_TANH:
    EACH(sw_tanhf(a[i]));
    break;
case SW_SIGMOID:
    EACH(sw_sigmoidf(a[i]));
    break;
case SW_SWISH:
    EACH(sw_swish_value(a[i]));
    break;
case SW_GELU:
    EACH(sw_gelu_value(a[i]));
    break;
case SW_GELU_TANH:
    EACH(sw_gelu_tanh_value(a[i]));
    break;
case SW_MISH:
    EACH(sw_mish_value(a[i]));
    break;
case SW_SOFTPLUS:
    EACH(sw_softplus_value(a[i]));
    break;
case SW_HARD_SWISH:
    EACH(sw_hard_swish_value(a[i]));
    break;
case SW_ELU:
    EACH(sw_elu_value(a[i], p));
    break;
case SW_SELU:
    EACH(sw_selu_value(a[i]));
    break;
case SW_EXP:
    EACH(sw_exp_value(a[i]));
    break;
case SW_LOG:
    EACH(sw_log_value(a[i]));
    break;
case SW_SQRT:
    EACH(sqrtf(a[i]));
    break;
case SW_RSQRT:
    EACH(1.0f / sqrtf(a[i]));
    break;
case SW_POW:
    if (p == 2.0f)
        EACH(a[i] * a[i]);
    else if (p == 3.0f)
        EACH(a[i] * a[i] * a[i]);
    else
        EACH(sw_powf(a[i], (double)p));
    break;
case SW_CURVE_COUNT:
    break;
}
END

/* a = dy, b = what is saved. */
BODY(curve_dx_part) switch ((sw_curve)j->kind)
{
case SW_RELU:
    EACH(sw_relu_slope(a[i], b[i]));
    break;
case SW_LEAKY_RELU:
    EACH(b[i] > 0.0f ? a[i] : p * a[i]);
    break;
case SW_TANH:
    EACH(a[i] * (1.0f - b[i] * b[i]));
    break;
case SW_SIGMOID:
    EACH(a[i] * (b[i] * (1.0f - b[i])));
    break;
case SW_SWISH:
    EACH(a[i] * sw_swish_slope(b[i]));
    break;
case SW_GELU:
    EACH(a[i] * sw_gelu_slope(b[i]));
    break;
case SW_GELU_TANH:
    EACH(a[i] * sw_gelu_tanh_slope(b[i]));
    break;
case SW_MISH:
    EACH(a[i] * sw_mish_slope(b[i]));
    break;
case SW_SOFTPLUS:
    EACH(a[i] * sw_sigmoidf(b[i]));
    break;
case SW_HARD_SWISH:
    EACH(a[i] * sw_hard_swish_slope(b[i]));
    break;
case SW_ELU:
    EACH(a[i] * sw_elu_slope(b[i], p));
    break;
case SW_SELU:
    EACH(a[i] * sw_selu_slope(b[i]));
    break;
case SW_EXP:
    EACH(a[i] * b[i]);
    break;
case SW_LOG:
    EACH(a[i] / b[i]);
    break;
case SW_SQRT:
    EACH(a[i] * (0.5f / b[i]));
    break;
case SW_RSQRT:
    EACH(a[i] * (-0.5f * b[i] * b[i] * b[i]));
    break;
case SW_POW:
    if (p == 2.0f)
        EACH(a[i] * (2.0f * b[i]));
    else if (p == 3.0f)
        EACH(a[i] * (3.0f * b[i] * b[i]));
    else if (p == 0.0f)
        EACH(a[i] * (0.0f * b[i]));
    else
        EACH(a[i] * (p * sw_powf(b[i], (double)p - 1.0)));
    break;
case SW_CURVE_COUNT:
    break;
}
END

    void
    SW_ISA_FN(swi_curve)(sw_curve kind, float *y, const float *x, int64_t n, float param,
                         const sw_par *par)
{
    job j = {.y = y, .a = x, .n = n, .p = param, .kind = (int)kind};
    split(par, curve_part, &j);
}

void SW_ISA_FN(swi_curve_dx)(sw_curve kind, float *dx, const float *dy, const float *saved,
                             int64_t n, float param, bool accumulate, const sw_par *par)
{
    job j = {.y = dx,
             .a = dy,
             .b = saved,
             .n = n,
             .p = param,
             .kind = (int)kind,
             .accumulate = accumulate};
    split(par, curve_dx_part, &j);
}
