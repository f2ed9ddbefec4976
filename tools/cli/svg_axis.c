/* Where values lie on an axis, and round numbers on it. Logarithms and powers come from libm:
 * places are rounded to hundredths of a pixel, and decide nothing. */
#include "tools/cli/svg.h"
#include <math.h>

svg_axis svg_axis_of(double low, double high, bool log, int from, int length)
{
    const double middle = low;
    if (!(high > low)) {
        low = log ? middle / 2.0 : middle - (middle != 0.0 ? fabs(middle) / 2.0 : 0.5);
        high = log ? middle * 2.0 : middle + (middle != 0.0 ? fabs(middle) / 2.0 : 0.5);
    }
    return (svg_axis){.low = low, .high = high, .log = log, .from = from, .length = length};
}

long long svg_at(const svg_axis *a, double value)
{
    const double v = value < a->low ? a->low : value > a->high ? a->high : value;
    const double share = a->log ? log(v / a->low) / log(a->high / a->low)
                                : v / (a->high - a->low) - a->low / (a->high - a->low);
    return 100LL * a->from + llround(100.0 * a->length * share);
}

/* 1, 2 or 5 times a power of ten, at least `step`; *decimals: those that it has. */
static double round_step(double step, int *decimals)
{
    int power = (int)floor(log10(step));
    double unit = pow(10.0, power), times = 1.0;
    while (times * unit < step * (1.0 - 1e-9) && times < 10.0)
        times = times < 2.0 ? 2.0 : times < 5.0 ? 5.0 : 10.0;
    if (times >= 10.0)
        power++;
    *decimals = power < 0 ? -power : 0;
    return times * unit;
}

static int linear_ticks(const svg_axis *a, int about, svg_tick *out)
{
    int n = 0, decimals;
    double step = round_step((a->high - a->low) / about, &decimals);
    if (a->whole && step < 1.0) {
        step = 1.0;
        decimals = 0;
    }
    const double first = ceil(a->low / step - 1e-9), last = floor(a->high / step + 1e-9);
    for (double i = first; i <= last && n < SVG_TICKS; i++, n++) {
        out[n].value = i == 0.0 ? 0.0 : i * step;
        if (fabs(out[n].value) >= 1e7 || decimals > 6)
            snprintf(out[n].text, sizeof out[n].text, "%.6g", out[n].value);
        else
            snprintf(out[n].text, sizeof out[n].text, "%.*f", decimals, out[n].value);
    }
    return n;
}

/* Powers of ten, every k-th where there are many; 1, 2 and 5 of each where there are few. */
static int log_ticks(const svg_axis *a, int about, svg_tick *out)
{
    static const double few[] = {1.0, 2.0, 5.0};
    const int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    const double decades = log10(a->high / a->low);
    const int apart = (int)(decades / about) + 1, times = decades * 3.0 <= about + 1 ? 3 : 1;
    int n = 0;
    for (int power = first; power <= last; power++)
        for (int i = 0; i < times && n < SVG_TICKS; i++) {
            const double v = few[i] * pow(10.0, power);
            if (power % apart != 0 || v < a->low * (1.0 - 1e-9) || v > a->high * (1.0 + 1e-9))
                continue;
            out[n].value = v;
            snprintf(out[n].text, sizeof out[n].text, "%.6g", v);
            n++;
        }
    return n;
}

int svg_ticks(const svg_axis *a, int about, svg_tick *out)
{
    const int n = a->log ? log_ticks(a, about, out) : 0;
    return n >= 2 ? n : linear_ticks(a, about, out);
}
