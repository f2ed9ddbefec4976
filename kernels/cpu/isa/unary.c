/* Functions of one number and their slopes: activations, exp, log, roots and powers. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"
#include <math.h>

#define P p

/* The powers: constants, so that loops are of products. */
#define X a[i]
#define SW_UNARY(op, call, keeps, layout, draws, cost, slope_cost, value, gradient, reference) \
    case SW_UNARY_##op:                                                                        \
        FOR_EACH_ELEMENT(value);                                                               \
        break;
#define SW_POWER(op, ...)                                                                      \
    case SW_UNARY_##op:                                                                        \
        if (p == 2.0f)                                                                         \
            FOR_EACH_ELEMENT(sw_pow_value(X, 2.0f));                                           \
        else if (p == 3.0f)                                                                    \
            FOR_EACH_ELEMENT(sw_pow_value(X, 3.0f));                                           \
        else                                                                                   \
            FOR_EACH_ELEMENT(sw_pow_value(X, p));                                              \
        break;
BODY(unary_part)
switch ((sw_unary)j->kind) {
#include "kernels/unary.def"
case SW_UNARY_COUNT:
    break;
}
END
#undef X

#define DY a[i]
#define S b[i]
#define SW_UNARY(op, call, keeps, layout, draws, cost, slope_cost, value, gradient, reference) \
    case SW_UNARY_##op:                                                                        \
        FOR_EACH_ELEMENT(gradient);                                                            \
        break;
#define SW_POWER(op, ...)                                                                      \
    case SW_UNARY_##op:                                                                        \
        if (p == 2.0f)                                                                         \
            FOR_EACH_ELEMENT(sw_pow_slope(DY, S, 2.0f));                                       \
        else if (p == 3.0f)                                                                    \
            FOR_EACH_ELEMENT(sw_pow_slope(DY, S, 3.0f));                                       \
        else if (p == 0.0f)                                                                    \
            FOR_EACH_ELEMENT(sw_pow_slope(DY, S, 0.0f));                                       \
        else                                                                                   \
            FOR_EACH_ELEMENT(sw_pow_slope(DY, S, p));                                          \
        break;
    BODY(unary_dx_part) switch ((sw_unary)j->kind)
{
#include "kernels/unary.def"
case SW_UNARY_COUNT:
    break;
}
END

    void
    SW_KERNEL(pointwise, unary)(sw_unary kind, float *y, const float *x, int64_t n, float param,
                                const sw_par *par)
{
    job j = {.y = y, .a = x, .n = n, .p = param, .kind = (int)kind};
    split(par, unary_part, &j);
}

void SW_KERNEL(pointwise, unary_dx)(sw_unary kind, float *dx, const float *dy,
                                    const float *saved, int64_t n, float param, bool accumulate,
                                    const sw_par *par)
{
    job j = {.y = dx,
             .a = dy,
             .b = saved,
             .n = n,
             .p = param,
             .kind = (int)kind,
             .accumulate = accumulate};
    split(par, unary_dx_part, &j);
}
