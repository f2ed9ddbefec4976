/* Rotary positions: pairs of numbers of each head are turned by position times frequency. C and
 * C++ read it. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/par.h"
#include <stdbool.h>

#define SW_ROTARY_PAIRS 256 /* of a head, at most */

/* x (rows, heads, size) and positions (rows), all side by side; 2 * pairs is size. */
typedef struct {
    int64_t rows, heads, pairs;
    bool back; /* by the angle's negative */
    bool accumulate;
    float frequency[SW_ROTARY_PAIRS];
} sw_rotary_rows;

/* base^e for base >= 1 and e >= 0, within 1e-13 of it, with the same bits on every machine. */
static inline double sw_rotary_power(double base, double e)
{
    const double log_2 = 0.6931471805599453;
    double log = 0.0, power = 1.0;
    int twos = 0;
    for (; base > 1.4142135623730951; twos++)
        base *= 0.5;
    const double s = (base - 1.0) / (base + 1.0);
    for (int k = 27; k > 0; k -= 2) /* 2 artanh(s) */
        log = log * (s * s) + 2.0 / k;
    double x = e * (log * s + twos * log_2);
    const int whole = (int)(x / log_2 + 0.5);
    x -= whole * log_2;
    for (int k = 20; k > 0; k--)
        power = 1.0 + x / k * power;
    for (int i = 0; i < whole; i++)
        power *= 2.0;
    return power;
}

/* One frequency, float32 step by step as modeling_rope_utils.py of transformers has it; there
 * a / tensor is a times the reciprocal. */
static inline float sw_rotary_frequency(const swi_rotary_attrs *a, int64_t i, int64_t pairs)
{
    const double power = sw_rotary_power((double)a->theta, (double)((float)i / (float)pairs));
    const float plain = 1.0f / (float)power;
    const float context = (float)a->original_context;
    if (a->rule == 0)
        return plain;
    const float length = 1.0f / plain * 6.283185307179586f;
    if (length > context / a->low_freq_factor)
        return plain / a->factor;
    if (length < context / a->high_freq_factor)
        return plain;
    const float smooth = (1.0f / length * context - a->low_freq_factor) /
                         (a->high_freq_factor - a->low_freq_factor);
    return (1.0f - smooth) * plain / a->factor + smooth * plain;
}

static inline sw_rotary_rows sw_rotary_of(const swi_rotary_attrs *a, int64_t elements,
                                          int64_t width, bool back, bool accumulate)
{
    sw_rotary_rows r;
    r.rows = width > 0 ? elements / width : 0;
    r.heads = a->heads;
    r.pairs = width / a->heads / 2;
    r.back = back;
    r.accumulate = accumulate;
    for (int64_t i = 0; i < r.pairs; i++)
        r.frequency[i] = sw_rotary_frequency(a, i, r.pairs);
    return r;
}
