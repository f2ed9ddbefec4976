/* Functions of one number and their slopes: activations, exp, log, roots and powers. */
#include "kernels/cpu/isa/each.h"
#include "kernels/cpu/isa/point_internal.h"
#include "kernels/scalar.h"
#include <math.h>

#define P p

#define X a[i]
#define SW_CURVE(KIND, id, value, slope)                                                       \
    case SW_##KIND:                                                                            \
        EACH(value);                                                                           \
        break;
BODY(curve_part)
switch ((sw_curve)j->kind) {
#include "kernels/curves.def"
case SW_POW: /* constants, so that loops are of products */
    if (p == 2.0f)
        EACH(sw_pow_value(X, 2.0f));
    else if (p == 3.0f)
        EACH(sw_pow_value(X, 3.0f));
    else
        EACH(sw_pow_value(X, p));
    break;
case SW_CURVE_COUNT:
    break;
}
END
#undef SW_CURVE
#undef X

#define DY a[i]
#define S b[i]
#define SW_CURVE(KIND, id, value, slope)                                                       \
    case SW_##KIND:                                                                            \
        EACH(slope);                                                                           \
        break;
    BODY(curve_dx_part) switch ((sw_curve)j->kind)
{
#include "kernels/curves.def"
case SW_POW:
    if (p == 2.0f)
        EACH(sw_pow_slope(DY, S, 2.0f));
    else if (p == 3.0f)
        EACH(sw_pow_slope(DY, S, 3.0f));
    else if (p == 0.0f)
        EACH(sw_pow_slope(DY, S, 0.0f));
    else
        EACH(sw_pow_slope(DY, S, p));
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
