/* Differences, quotients, choices by a mask; |x| and bounds, which keep codes of one or two
 * bits for each element. Parts begin at multiples of eight elements: no two write one byte. */
#include "kernels/cpu/isa/each.h"
#include "kernels/cpu/isa/point_internal.h"
#include "kernels/scalar.h"

BODY(sub_part) EACH(a[i] - b[i]);
END BODY(div_part) EACH(a[i] / b[i]);
END BODY(where_part) const uint8_t *m = j->m;
EACH(m[i] != 0 ? a[i] : b[i]);
END

    static unsigned
    sign_code(float x)
{
    return (unsigned)(x > 0.0f) | (unsigned)(x < 0.0f) << 1;
}

/* By bits, as sw_relu_slope: dy is read whatever the code is. */
static float signed_by(float dy, unsigned code)
{
    const uint32_t any = -(uint32_t)(code != 0), minus = (uint32_t)(code >> 1) << 31;
    return sw_float_of((sw_bits_of(dy) & any) ^ (minus & any));
}

static float where_set(float dy, unsigned bit)
{
    return sw_float_of(sw_bits_of(dy) & -(uint32_t)bit);
}

/* Codes first: y may be a. */
BODY(abs_part)
for (int64_t i = from; i < to && j->codes != NULL; i += 4) {
    unsigned byte = 0;
    for (int k = 0; k < 4 && i + k < to; k++)
        byte |= sign_code(a[i + k]) << 2 * k;
    j->codes[i / 4] = (uint8_t)byte;
}
EACH(sw_absf(a[i]));
END

    BODY(abs_dx_part) const uint8_t *m = j->m;
EACH(signed_by(a[i], (unsigned)m[i / 4] >> 2 * (i % 4) & 3u));
END

/* A bit for each element, by whether it holds of a[i + k]. */
#define BITS(holds)                                                                            \
    for (int64_t i = from; i < to && j->codes != NULL; i += 8) {                               \
        unsigned byte = 0;                                                                     \
        for (int k = 0; k < 8 && i + k < to; k++)                                              \
            byte |= (unsigned)(holds) << k;                                                    \
        j->codes[i / 8] = (uint8_t)byte;                                                       \
    }

    BODY(above_part) BITS(a[i + k] > 0.0f) END

    BODY(above_dx_part) const uint8_t *m = j->m;
EACH((m[i / 8] >> i % 8 & 1) != 0 ? a[i] : p * a[i]);
END

    BODY(clamp_part) BITS(a[i + k] >= p && a[i + k] <= q) EACH(sw_between(a[i], p, q));
END

    BODY(clamp_dx_part) const uint8_t *m = j->m;
EACH(where_set(a[i], (unsigned)m[i / 8] >> i % 8 & 1u));
END

    void
    SW_ISA_FN(swi_sub)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                       const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, sub_part, &j);
}

void SW_ISA_FN(swi_div)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                        const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, div_part, &j);
}

void SW_ISA_FN(swi_where)(float *y, const uint8_t *mask, const float *a, const float *b,
                          int64_t n, bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .m = mask, .n = n, .accumulate = accumulate};
    split(par, where_part, &j);
}

void SW_ISA_FN(swi_abs)(float *y, uint8_t *codes, const float *x, int64_t n, const sw_par *par)
{
    job j = {.y = y, .a = x, .codes = codes, .n = n};
    split(par, abs_part, &j);
}

void SW_ISA_FN(swi_abs_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                           bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate};
    split(par, abs_dx_part, &j);
}

void SW_ISA_FN(swi_clamp)(float *y, uint8_t *codes, const float *x, float low, float high,
                          int64_t n, const sw_par *par)
{
    job j = {.y = y, .a = x, .codes = codes, .n = n, .p = low, .q = high};
    split(par, clamp_part, &j);
}

void SW_ISA_FN(swi_clamp_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                             bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate};
    split(par, clamp_dx_part, &j);
}

void SW_ISA_FN(swi_above)(uint8_t *codes, const float *x, int64_t n, const sw_par *par)
{
    job j = {.a = x, .codes = codes, .n = n};
    split(par, above_part, &j);
}

void SW_ISA_FN(swi_above_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                             float slope, bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .p = slope, .accumulate = accumulate};
    split(par, above_dx_part, &j);
}
