/* Differences, quotients, choices by a mask; |x| and bounds, which keep codes of one or two
 * bits for each element. Parts begin at multiples of eight elements: no two write one byte. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/cpu/isa/vec.h"
#include "kernels/scalar.h"

BODY(sub_part) FOR_EACH_ELEMENT(a[i] - b[i]);
END BODY(div_part) FOR_EACH_ELEMENT(a[i] / b[i]);
END BODY(where_part) const uint8_t *m = j->m;
FOR_EACH_ELEMENT(sw_chosen(m[i], a[i], b[i]));
END

/* Codes first: y may be a. */
BODY(abs_part) for (int64_t i = from; i < to && j->codes != NULL; i += 4)
{
    unsigned byte = 0;
    for (int k = 0; k < 4 && i + k < to; k++)
        byte |= sw_sign_code(a[i + k]) << 2 * k;
    j->codes[i / 4] = (uint8_t)byte;
}
FOR_EACH_ELEMENT(sw_absf(a[i]));
END

    BODY(abs_dx_part) const uint8_t *m = j->m;
FOR_EACH_ELEMENT(sw_signed_by(a[i], (unsigned)m[i / 4] >> 2 * (i % 4) & 3u));
END

/* A bit for each element, by whether it holds of a[i + k]. */
#define BITS(holds)                                                                            \
    for (int64_t i = from; i < to && j->codes != NULL; i += 8) {                               \
        unsigned byte = 0;                                                                     \
        for (int k = 0; k < 8 && i + k < to; k++)                                              \
            byte |= (unsigned)(holds) << k;                                                    \
        j->codes[i / 8] = (uint8_t)byte;                                                       \
    }

    /* Bits of one vector's elements that are above 0, or NaN where `nan`; the first lowest. */
    SW_VEC_FN uint32_t
    above_bits(const float *a, int nan)
{
#if SW_ISA_ID == 2
    return nan ? _mm512_cmp_ps_mask(vload(a), vzero(), _CMP_NLE_UQ)
               : _mm512_cmp_ps_mask(vload(a), vzero(), _CMP_GT_OQ);
#elif SW_ISA_ID == 1
    return (uint32_t)_mm256_movemask_ps(nan ? _mm256_cmp_ps(vload(a), vzero(), _CMP_NLE_UQ)
                                            : _mm256_cmp_ps(vload(a), vzero(), _CMP_GT_OQ));
#else
    return vibits((vi)(nan ? ~(vload(a) <= vzero()) : vload(a) > vzero()), 0);
#endif
}

/* Codes of 16 elements. */
SW_VEC_FN uint32_t codes_16(const uint8_t *m)
{
    return (uint32_t)m[0] | (uint32_t)m[1] << 8;
}

SW_VEC_FN void above_codes(const job *j, int part, int nan)
{
    const int64_t to = part_end(j->n, part);
    int64_t i = j->codes != NULL ? (int64_t)part * PART : to;
    for (; i + 16 <= to; i += 16) {
        uint32_t bits = 0;
        for (int k = 0; k < 16; k += VW)
            bits |= above_bits(j->a + i + k, nan) << k;
        j->codes[i / 8] = (uint8_t)bits;
        j->codes[i / 8 + 1] = (uint8_t)(bits >> 8);
    }
    for (; i < to; i += 8) {
        unsigned byte = 0;
        for (int k = 0; k < 8 && i + k < to; k++)
            byte |= (unsigned)(nan ? !(j->a[i + k] <= 0.0f) : j->a[i + k] > 0.0f) << k;
        j->codes[i / 8] = (uint8_t)byte;
    }
}

static void above_part(void *arg, int part)
{
    const job *j = arg;
    if (j->kind == SW_UNARY_relu)
        above_codes(j, part, 1);
    else
        above_codes(j, part, 0);
}

BODY(above_dx_part) const uint8_t *m = j->m;
FOR_EACH_ELEMENT((m[i / 8] >> i % 8 & 1) != 0 ? a[i] : p * a[i]);
END

    BODY(clamp_part) BITS(a[i + k] >= p && a[i + k] <= q)
        FOR_EACH_ELEMENT(sw_between(a[i], p, q));
END

    static void
    clamp_dx_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t to = part_end(j->n, part);
    int64_t i = (int64_t)part * PART;
    for (; i + 16 <= to; i += 16) {
        const uint32_t bits = codes_16(j->m + i / 8);
        for (int k = 0; k < 16; k += VW) {
            float *y = j->y + i + k;
            const vf r = vselect(vfrombits(bits >> k), vload(j->a + i + k), vzero());
            vstore(y, j->accumulate ? vadd(vload(y), r) : r);
        }
    }
    for (; i < to; i++) {
        const float r = sw_where_set(j->a[i], (unsigned)j->m[i / 8] >> i % 8 & 1u);
        j->y[i] = j->accumulate ? j->y[i] + r : r;
    }
}

void SW_KERNEL(pointwise, sub)(float *y, const float *a, const float *b, int64_t n,
                               bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, sub_part, &j);
}

void SW_KERNEL(pointwise, div)(float *y, const float *a, const float *b, int64_t n,
                               bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .n = n, .accumulate = accumulate};
    split(par, div_part, &j);
}

void SW_KERNEL(pointwise, where)(float *y, const uint8_t *mask, const float *a, const float *b,
                                 int64_t n, bool accumulate, const sw_par *par)
{
    job j = {.y = y, .a = a, .b = b, .m = mask, .n = n, .accumulate = accumulate};
    split(par, where_part, &j);
}

void SW_KERNEL(pointwise, abs)(float *y, uint8_t *codes, const float *x, int64_t n,
                               const sw_par *par)
{
    job j = {.y = y, .a = x, .codes = codes, .n = n};
    split(par, abs_part, &j);
}

void SW_KERNEL(pointwise, abs_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                                  bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate};
    split(par, abs_dx_part, &j);
}

void SW_KERNEL(pointwise, clamp)(float *y, uint8_t *codes, const float *x, float low,
                                 float high, int64_t n, const sw_par *par)
{
    job j = {.y = y, .a = x, .codes = codes, .n = n, .p = low, .q = high};
    split(par, clamp_part, &j);
}

void SW_KERNEL(pointwise, clamp_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                                    bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate};
    split(par, clamp_dx_part, &j);
}

void SW_KERNEL(pointwise, above)(sw_unary kind, uint8_t *codes, const float *x, int64_t n,
                                 const sw_par *par)
{
    job j = {.a = x, .codes = codes, .n = n, .kind = (int)kind};
    split(par, above_part, &j);
}

void SW_KERNEL(pointwise, above_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                                    float slope, bool accumulate, const sw_par *par)
{
    job j = {.y = dx, .a = dy, .m = codes, .n = n, .p = slope, .accumulate = accumulate};
    split(par, above_dx_part, &j);
}
