/* exp and log of double numbers, from operations that IEEE 754 rounds exactly: the same bits on
 * every machine. frexp and ldexp move the exponent alone. */
#include "runtime/population/pbt_internal.h"
#include <math.h>

/* log 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh s, s = (m - 1) / (m + 1), whose
 * series in s^2 <= 0.0295 has an error below 2^-56 after 11 terms. */
double swi_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = sum * square + 1.0 / k;
    const double log_m = 2 * s + 2 * s * square * sum;
    return e * LN2_HIGH + (e * LN2_LOW + log_m);
}

/* x = k log 2 + r with |r| <= 0.35; the Taylor series of exp r to the 14th power. */
double swi_exp(double x)
{
    static const double factor[] = {/* 1 / 14! ... 1 / 0! */
                                    1 / 87178291200.0,
                                    1 / 6227020800.0,
                                    1 / 479001600.0,
                                    1 / 39916800.0,
                                    1 / 3628800.0,
                                    1 / 362880.0,
                                    1 / 40320.0,
                                    1 / 5040.0,
                                    1 / 720.0,
                                    1 / 120.0,
                                    1 / 24.0,
                                    1 / 6.0,
                                    1 / 2.0,
                                    1,
                                    1};
    if (x > 709.78)
        return (double)INFINITY;
    if (!(x >= -745))
        return 0;
    const double k = floor(x * 0x1.71547652b82fep0 + 0.5);
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = factor[0];
    for (size_t i = 1; i < sizeof factor / sizeof *factor; i++)
        sum = sum * r + factor[i];
    return ldexp(sum, (int)k);
}
