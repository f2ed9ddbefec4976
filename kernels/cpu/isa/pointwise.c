/* Pointwise kernels: loops that the compiler vectorises for the instruction set of this copy,
 * and losses of pairs. |x| and bounds keep codes of one or two bits for each element: parts
 * begin at multiples of eight elements, so no two write one byte. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/vec.h"
#include "kernels/rng.h"
#include "kernels/scalar.h"
#include <math.h>

typedef struct {
    float *y;
    const float *a, *b;
    const uint8_t *m; /* a mask, or codes of what is saved */
    uint8_t *codes;   /* the same, to be written; NULL: no one reads them */
    double *sums;     /* one for each part */
    int64_t n;
    float p, q;
    int kind;
    bool accumulate;
} job;

static void split(const sw_par *par, void (*body)(void *, int), job *j)
{
    par->run(par, body, j, part_count(j->n));
}

/* A part of a job: its elements are [from, to), its operands have these names. */
#define UNPACK                                                                                 \
    const job *j = arg;                                                                        \
    const int64_t from = (int64_t)part * PART, to = part_end(j->n, part);                      \
    float *y = j->y;                                                                           \
    const float *a = j->a, *b = j->b;                                                          \
    const uint8_t *m = j->m;                                                                   \
    const float p = j->p, q = j->q;                                                            \
    (void)y, (void)a, (void)b, (void)m, (void)p, (void)q

/* Restrict is only for loops whose output is never one of the inputs; in-place ones leave it
 * off and are vectorised after an overlap check. */
#define FOR_EACH_ELEMENT(expr)                                                                 \
    do {                                                                                       \
        if (j->accumulate)                                                                     \
            for (int64_t i = from; i < to; i++)                                                \
                y[i] = y[i] + (expr);                                                          \
        else                                                                                   \
            for (int64_t i = from; i < to; i++)                                                \
                y[i] = (expr);                                                                 \
    } while (0)

#define ELEMENTS(name, expr)                                                                   \
    static void name##_part(void *arg, int part)                                               \
    {                                                                                          \
        UNPACK;                                                                                \
        FOR_EACH_ELEMENT(expr);                                                                \
    }
/* The kernel that runs name_part over the parts of a job. */
#define KERNEL(name, parameters, ...)                                                          \
    void SW_KERNEL(pointwise, name) parameters                                                 \
    {                                                                                          \
        job j = {__VA_ARGS__};                                                                 \
        split(par, name##_part, &j);                                                           \
    }

/* ---- arithmetic -------------------------------------------------------------------------- */

#define OF_TWO(name, expr)                                                                     \
    ELEMENTS(name, expr)                                                                       \
    KERNEL(name,                                                                               \
           (float *y, const float *a, const float *b, int64_t n, bool accumulate,              \
            const sw_par *par),                                                                \
           .y = y, .a = a, .b = b, .n = n, .accumulate = accumulate)
OF_TWO(add, a[i] + b[i])
OF_TWO(sub, a[i] - b[i])
OF_TWO(mul, a[i] * b[i])
OF_TWO(div, a[i] / b[i])

ELEMENTS(scale, a[i] * p)
ELEMENTS(difference, (a[i] - b[i]) * p)
ELEMENTS(where, sw_chosen(m[i], a[i], b[i]))

KERNEL(scale,
       (float *y, const float *x, int64_t n, float factor, bool accumulate, const sw_par *par),
       .y = y, .a = x, .n = n, .p = factor, .accumulate = accumulate)

KERNEL(difference,
       (float *dx, const float *a, const float *b, int64_t n, float factor, bool accumulate,
        const sw_par *par),
       .y = dx, .a = a, .b = b, .n = n, .p = factor, .accumulate = accumulate)

KERNEL(where,
       (float *y, const uint8_t *mask, const float *a, const float *b, int64_t n,
        bool accumulate, const sw_par *par),
       .y = y, .a = a, .b = b, .m = mask, .n = n, .accumulate = accumulate)

#define CONVERSION(name, type)                                                                 \
    typedef struct {                                                                           \
        float *y;                                                                              \
        const type *x;                                                                         \
        int64_t n;                                                                             \
        float scale, shift;                                                                    \
    } name##_job;                                                                              \
    static void name##_part(void *arg, int part)                                               \
    {                                                                                          \
        const name##_job *j = arg;                                                             \
        const type *x = j->x;                                                                  \
        for (int64_t i = (int64_t)part * PART; i < part_end(j->n, part); i++)                  \
            j->y[i] = (float)x[i] * j->scale + j->shift;                                       \
    }                                                                                          \
    void SW_KERNEL(pointwise, name)(float *y, const type *x, int64_t n, float factor,          \
                                    float shift, const sw_par *par)                            \
    {                                                                                          \
        name##_job j = {y, x, n, factor, shift};                                               \
        par->run(par, name##_part, &j, part_count(n));                                         \
    }
CONVERSION(from_u8, uint8_t)
CONVERSION(from_i32, int32_t)

/* ---- numbers of 16 bits ------------------------------------------------------------------ */

typedef struct {
    float *floats;
    uint16_t *halves;
    int64_t n;
} halves_job;

static void widen_part(void *arg, int part)
{
    const halves_job *j = arg;
    const int64_t to = part_end(j->n, part);
    int64_t i = (int64_t)part * PART;
    float *restrict y = j->floats;
    const uint16_t *restrict x = j->halves;
    for (; i + VW <= to; i += VW)
        vstore(y + i, vload_half(x + i));
    if (i < to)
        vstore_upto(y + i, vload_half_upto(x + i, to - i), to - i);
}

static void round_part(void *arg, int part)
{
    const halves_job *j = arg;
    const int64_t to = part_end(j->n, part);
    int64_t i = (int64_t)part * PART;
    uint16_t *restrict y = j->halves;
    const float *restrict x = j->floats;
    for (; i + 2 * VW <= to; i += 2 * VW)
        vstore_halves_of(y + i, vload(x + i), vload(x + i + VW));
    for (; i < to; i += VW)
        vstore_half_upto(y + i, vload_upto(x + i, to - i), to - i);
}

void SW_KERNEL(pointwise, widen)(float *y, const uint16_t *x, int64_t n, const sw_par *par)
{
    halves_job j = {y, (uint16_t *)(uintptr_t)x, n};
    par->run(par, widen_part, &j, part_count(n));
}

void SW_KERNEL(pointwise, round)(uint16_t *y, const float *x, int64_t n, const sw_par *par)
{
    halves_job j = {(float *)(uintptr_t)x, y, n};
    par->run(par, round_part, &j, part_count(n));
}

/* ---- codes: |x|, bounds, what is above 0 ------------------------------------------------- */

/* A code of `width` bits for each element a[i + k], the first of a byte lowest. */
#define CODES(width, code)                                                                     \
    for (int64_t i = from; i < to && j->codes != NULL; i += 8 / (width)) {                     \
        unsigned byte = 0;                                                                     \
        for (int k = 0; k < 8 / (width) && i + k < to; k++)                                    \
            byte |= (unsigned)(code) << (width)*k;                                             \
        j->codes[i * (width) / 8] = (uint8_t)byte;                                             \
    }

/* Codes first: y may be a. */
static void abs_part(void *arg, int part)
{
    UNPACK;
    CODES(2, sw_sign_code(a[i + k]))
    FOR_EACH_ELEMENT(sw_absf(a[i]));
}

static void clamp_part(void *arg, int part)
{
    UNPACK;
    CODES(1, a[i + k] >= p && a[i + k] <= q)
    FOR_EACH_ELEMENT(sw_between(a[i], p, q));
}

ELEMENTS(abs_dx, sw_signed_by(a[i], (unsigned)m[i / 4] >> 2 * (i % 4) & 3u))
ELEMENTS(above_dx, (m[i / 8] >> i % 8 & 1) != 0 ? a[i] : p * a[i])

/* Bits of one vector's elements that are above 0, or NaN where `nan`; the first lowest. */
SW_VEC_FN uint32_t above_bits(const float *a, int nan)
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

static void clamp_dx_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t to = part_end(j->n, part);
    int64_t i = (int64_t)part * PART;
    for (; i + 16 <= to; i += 16) {
        const uint32_t bits = (uint32_t)j->m[i / 8] | (uint32_t)j->m[i / 8 + 1] << 8;
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

KERNEL(abs, (float *y, uint8_t *codes, const float *x, int64_t n, const sw_par *par), .y = y,
       .a = x, .codes = codes, .n = n)

KERNEL(abs_dx,
       (float *dx, const float *dy, const uint8_t *codes, int64_t n, bool accumulate,
        const sw_par *par),
       .y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate)

KERNEL(clamp,
       (float *y, uint8_t *codes, const float *x, float low, float high, int64_t n,
        const sw_par *par),
       .y = y, .a = x, .codes = codes, .n = n, .p = low, .q = high)

KERNEL(clamp_dx,
       (float *dx, const float *dy, const uint8_t *codes, int64_t n, bool accumulate,
        const sw_par *par),
       .y = dx, .a = dy, .m = codes, .n = n, .accumulate = accumulate)

KERNEL(above, (sw_unary kind, uint8_t *codes, const float *x, int64_t n, const sw_par *par),
       .a = x, .codes = codes, .n = n, .kind = (int)kind)

KERNEL(above_dx,
       (float *dx, const float *dy, const uint8_t *codes, int64_t n, float slope,
        bool accumulate, const sw_par *par),
       .y = dx, .a = dy, .m = codes, .n = n, .p = slope, .accumulate = accumulate)

/* ---- functions of one number and their slopes -------------------------------------------- */

/* Activations, exp, log, roots and powers. */
#define P p

/* The powers are constants, so that loops are of products. */
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
static void unary_part(void *arg, int part)
{
    UNPACK;
    switch ((sw_unary)j->kind) {
#include "kernels/unary.def"
    case SW_UNARY_COUNT:
        break;
    }
}
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
static void unary_dx_part(void *arg, int part)
{
    UNPACK;
    switch ((sw_unary)j->kind) {
#include "kernels/unary.def"
    case SW_UNARY_COUNT:
        break;
    }
}

/* The same of numbers of bf16: a few at a time are float32, in the nearest cache. */
static void halves_part(void *arg, int part)
{
    enum { FEW = 512 };
    UNPACK;
    float few[3][FEW];
    for (int64_t i = from, n; i < to; i += n) {
        n = to - i < FEW ? to - i : FEW;
        const float *of[] = {a, b, j->accumulate ? y : NULL};
        for (int k = 0; k < 3; k++)
            if (of[k] != NULL)
                widen_part(&(halves_job){few[k], (uint16_t *)(uintptr_t)of[k] + i, n}, 0);
        job some = *j;
        some.a = few[0], some.b = few[1], some.y = few[2], some.n = n;
        (b != NULL ? unary_dx_part : unary_part)(&some, 0);
        round_part(&(halves_job){few[2], (uint16_t *)(void *)y + i, n}, 0);
    }
}

void SW_KERNEL(pointwise, unary)(sw_unary kind, void *y, const void *x, int64_t n, float param,
                                 bool half, const sw_par *par)
{
    job j = {.y = y, .a = x, .n = n, .p = param, .kind = (int)kind};
    split(par, half ? halves_part : unary_part, &j);
}

void SW_KERNEL(pointwise, unary_dx)(sw_unary kind, void *dx, const void *dy, const void *saved,
                                    int64_t n, float param, bool accumulate, bool half,
                                    const sw_par *par)
{
    job j = {.y = dx, .a = dy, .b = saved, .n = n, .p = param, .kind = (int)kind};
    j.accumulate = accumulate;
    split(par, half ? halves_part : unary_dx_part, &j);
}

/* ---- losses ------------------------------------------------------------------------------ */

static void bce_dx_part(void *arg, int part)
{
    UNPACK;
    if (b != NULL)
        FOR_EACH_ELEMENT((sw_sigmoidf(a[i]) - b[i]) * p);
    else
        FOR_EACH_ELEMENT((sw_sigmoidf(a[i]) - q) * p);
}

KERNEL(bce_dx,
       (float *dx, const float *x, const float *t, float constant, int64_t n, float factor,
        bool accumulate, const sw_par *par),
       .y = dx, .a = x, .b = t, .n = n, .p = factor, .q = constant, .accumulate = accumulate)

double SW_KERNEL(pointwise, bce)(const float *x, const float *t, float constant, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const float target = t != NULL ? t[i] : constant;
        sum += (double)sw_bce_value(x[i], target);
    }
    return n > 0 ? sum / (double)n : 0.0;
}

/* Sums in sixteen float64 lanes for each part, then part by part in order. */
static void elementwise_loss_part(void *arg, int part)
{
    UNPACK;
    double sum = 0;
    int64_t i = from;
    switch ((sw_elementwise_loss)j->kind) {
    case SW_HUBER:
        SUM_LANES(double, sum, i, to, sw_huber_value(a[i + k], b[i + k], p));
        break;
    case SW_L1:
        SUM_LANES(double, sum, i, to, sw_absf(a[i + k] - b[i + k]));
        break;
    case SW_KL:
        SUM_LANES(double, sum, i, to, sw_kl_value(a[i + k], b[i + k]));
        break;
    case SW_ELEMENTWISE_LOSS_COUNT:
        break;
    }
    j->sums[part] = sum;
}

/* a = x, b = t, p: of the kind, q: the factor. */
static void elementwise_loss_dx_part(void *arg, int part)
{
    UNPACK;
    switch ((sw_elementwise_loss)j->kind) {
    case SW_HUBER:
        FOR_EACH_ELEMENT(q * sw_between(a[i] - b[i], -p, p));
        break;
    case SW_L1:
        FOR_EACH_ELEMENT(q * sw_signf(a[i] - b[i]));
        break;
    case SW_KL:
        FOR_EACH_ELEMENT(q * sw_kl_slope(a[i], b[i]));
        break;
    case SW_ELEMENTWISE_LOSS_COUNT:
        break;
    }
}

double SW_KERNEL(pointwise, elementwise_loss)(sw_elementwise_loss kind, const float *x,
                                              const float *t, int64_t n, float p, double *sums,
                                              const sw_par *par)
{
    job j = {.a = x, .b = t, .n = n, .p = p, .kind = (int)kind, .sums = sums};
    split(par, elementwise_loss_part, &j);
    double sum = 0;
    for (int part = 0; part < part_count(n); part++)
        sum += sums[part];
    return sum;
}

KERNEL(elementwise_loss_dx,
       (sw_elementwise_loss kind, float *dx, const float *x, const float *t, int64_t n, float p,
        float factor, bool accumulate, const sw_par *par),
       .y = dx, .a = x, .b = t, .n = n, .p = p, .q = factor, .kind = (int)kind,
       .accumulate = accumulate)

/* ---- dropout ----------------------------------------------------------------------------- */

/* By counter: forward and backward are the same launch, and no mask exists. Philox runs on
 * sixteen counters side by side, 64 elements at a time. */
#define ROW 256 /* elements of one image that are drawn at once, where images are in lanes */

typedef struct {
    float *y;
    const float *x;
    const sw_drop *d;
    int64_t rows; /* of an image in blocks */
    uint32_t below;
    float scale;
    bool accumulate;
} drop_job;

/* One round of sw_philox for sixteen counters. */
static void round16(uint32_t c[4][LANES], uint32_t k0, uint32_t k1)
{
    uint32_t high_a[LANES], high_b[LANES];
    for (int l = 0; l < LANES; l++)
        high_a[l] = (uint32_t)(((uint64_t)0xd2511f53u * c[0][l]) >> 32);
    for (int l = 0; l < LANES; l++)
        high_b[l] = (uint32_t)(((uint64_t)0xcd9e8d57u * c[2][l]) >> 32);
    for (int l = 0; l < LANES; l++) {
        const uint32_t low_a = 0xd2511f53u * c[0][l], low_b = 0xcd9e8d57u * c[2][l];
        c[0][l] = high_b[l] ^ c[1][l] ^ k0;
        c[2][l] = high_a[l] ^ c[3][l] ^ k1;
        c[1][l] = low_b;
        c[3][l] = low_a;
    }
}

/* The words of counters block .. block + 15, four for each. */
static void draw_words(uint32_t to[4 * LANES], const sw_drop *d, uint32_t block)
{
    uint32_t c[4][LANES], k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    for (uint32_t l = 0; l < LANES; l++) {
        c[0][l] = block + l;
        c[1][l] = d->stream;
        c[2][l] = d->step;
        c[3][l] = d->run;
    }
    for (int round = 0; round < 10; round++) {
        round16(c, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    for (int l = 0; l < LANES; l++)
        for (int w = 0; w < 4; w++)
            to[4 * l + w] = c[w][l];
}

/* Multiplies each of n <= 64 elements by the scale, or drops it. */
static void apply_words(const drop_job *j, int64_t at, const uint32_t *words, int64_t n)
{
    float *y = j->y + at;
    const float *x = j->x + at;
    const uint32_t below = j->below;
    const float scale = j->scale;
    if (j->accumulate)
        for (int64_t i = 0; i < n; i++) {
            const float kept = x[i] * scale, gone = sw_dropped(x[i]);
            y[i] += words[i] >> 8 < below ? gone : kept;
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const float kept = x[i] * scale, gone = sw_dropped(x[i]);
            y[i] = words[i] >> 8 < below ? gone : kept;
        }
}

static void drop_part(void *arg, int part)
{
    const drop_job *j = arg;
    const int64_t end = part_end(j->d->inner, part);
    uint32_t words[4 * LANES];
    for (int64_t i = part * (int64_t)PART; i < end; i += 4 * LANES) {
        draw_words(words, j->d, (uint32_t)((j->d->first + i) / 4));
        apply_words(j, i, words, end - i < 4 * LANES ? end - i : 4 * LANES);
    }
}

/* ROW elements of each of the sixteen images of a block. */
static void drop_blocks_part(void *arg, int part)
{
    const drop_job *j = arg;
    const sw_drop *d = j->d;
    const int64_t block = part / j->rows, first = part % j->rows * ROW;
    const int64_t n = d->inner - first < ROW ? d->inner - first : ROW;
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t image = block * LANES + lane;
        const int64_t element = d->first + image * d->inner + first;
        const bool empty = image >= d->batch;
        uint32_t words[ROW + 8 * LANES];
        for (int64_t k = 0; k < n + element % 4 && !empty; k += 4 * LANES)
            draw_words(words + k, d, (uint32_t)((element + k) / 4));
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (block * d->inner + first + i) * LANES + lane;
            const bool dropped = words[element % 4 + i] >> 8 < j->below;
            const float x = j->x[at];
            const float r = empty ? 0.0f : dropped ? sw_dropped(x) : x * j->scale;
            j->y[at] = j->accumulate ? j->y[at] + r : r;
        }
    }
}

void SW_KERNEL(axes, dropout)(float *y, const float *x, const sw_drop *d, bool accumulate,
                              const sw_par *par)
{
    drop_job j = {.y = y, .x = x, .d = d, .accumulate = accumulate};
    j.below = sw_drop_below(d->p);
    j.scale = sw_drop_scale(d->p);
    if (!d->blocks) {
        par->run(par, drop_part, &j, part_count(d->inner));
        return;
    }
    j.rows = (d->inner + ROW - 1) / ROW;
    par->run(par, drop_blocks_part, &j, (int)((d->batch + LANES - 1) / LANES * j.rows));
}
