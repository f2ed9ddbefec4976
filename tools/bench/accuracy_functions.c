/* Functions of one number in float64, the promise of each row of the table, and the sweep:
 * blocks of arguments through the kernels of every instruction set, then float64. At the ends
 * of the range the functions are the limits: 0 where x e^x goes to 0. */
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include "tools/bench/accuracy.h"
#include <float.h>
#include <math.h>
#include <string.h>

const char *const accuracy_ranges[ACCURACY_RANGES] = {"below -10", "-10 .. -1", "-1 .. 0",
                                                      "0 .. 1",    "1 .. 10",   "above 10"};

static double logistic(double x)
{
    const double e = exp(-fabs(x));
    return x >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
static double below(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}
/* Beyond these nothing is left of e^-|x|, of the bell, and of e^-v. */
static double held(double x, double most)
{
    return x < -most ? -most : x > most ? most : x;
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double swish_slope_at(double x)
{
    return logistic(x) * (1.0 + x * logistic(-x));
}
static double gelu_slope_at(double x)
{
    return below(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}
#define STEEP 1.5957691216057307117 /* 2 sqrt(2 / pi) */
static double gelu_tanh_slope_at(double x)
{
    const double v = STEEP * (x + 0.044715 * x * x * x);
    return logistic(v) + x * logistic(v) * logistic(-v) * STEEP * (1.0 + 0.134145 * x * x);
}
static double mish_slope_at(double x)
{
    const double w = tanh(softplus(x));
    return w + x * (1.0 - w) * (1.0 + w) * logistic(x);
}
#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

/* x is the argument, p the op's number. */
#define IS(name, expression)                                                                   \
    static double name(double x, double p)                                                     \
    {                                                                                          \
        (void)p;                                                                               \
        return expression;                                                                     \
    }

/* clang-format off */
IS(relu_value, x > 0 ? x : 0.0)
IS(relu_slope, x > 0 ? 1.0 : 0.0)
IS(leaky_relu_value, x > 0 ? x : p * x)
IS(leaky_relu_slope, x > 0 ? 1.0 : p)
IS(tanh_value, tanh(x))
IS(tanh_slope, (1.0 - x) * (1.0 + x))
IS(sigmoid_value, logistic(x))
IS(sigmoid_slope, x * (1.0 - x))
IS(swish_value, x < -200 ? 0.0 : x * logistic(x))
IS(swish_slope, swish_slope_at(held(x, 200)))
IS(gelu_value, x < -30 ? 0.0 : x * below(x))
IS(gelu_slope, gelu_slope_at(held(x, 30)))
IS(gelu_tanh_value, x < -30 ? 0.0 : x * logistic(STEEP * (x + 0.044715 * x * x * x)))
IS(gelu_tanh_slope, gelu_tanh_slope_at(held(x, 30)))
IS(mish_value, x < -200 ? 0.0 : x * tanh(softplus(x)))
IS(mish_slope, mish_slope_at(held(x, 200)))
IS(softplus_value, softplus(x))
IS(softplus_slope, logistic(x))
IS(hard_swish_value, x < -3 ? 0.0 : x * (x > 3 ? 1.0 : (x + 3.0) / 6.0))
IS(hard_swish_slope, x < -3 ? 0.0 : x > 3 ? 1.0 : x / 3.0 + 0.5)
IS(elu_value, x > 0 ? x : p * expm1(x))
IS(elu_slope, x > 0 ? 1.0 : p * exp(x))
IS(selu_value, SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x)))
IS(selu_slope, SELU_SCALE * (x > 0 ? 1.0 : SELU_ALPHA * exp(x)))
IS(exp_value, exp(x))
IS(exp_slope, x)
IS(log_value, log(x))
IS(log_slope, 1.0 / x)
IS(sqrt_value, sqrt(x))
IS(sqrt_slope, 0.5 / x)
IS(rsqrt_value, 1.0 / sqrt(x))
IS(rsqrt_slope, -0.5 * x * x * x)
IS(pow_value, pow(x, p))
IS(pow_slope, p * pow(x, p - 1.0))

IS(abs_value, fabs(x))
IS(abs_slope, x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0)
#define CLAMP_MOST 0.75
IS(clamp_value, x < p ? p : x > CLAMP_MOST ? CLAMP_MOST : x)
IS(clamp_slope, x >= p && x <= CLAMP_MOST ? 1.0 : 0.0)

#define VALUE(id, p, bound_)                                                            \
    {.name = #id, .kind = SW_UNARY_##id, .param = p, .exact = id##_value, .bound = bound_, .note = "", .exact_nan = true}
#define WHY(id, bound_, text)                                                                 \
    {.name = #id, .kind = SW_UNARY_##id, .exact = id##_value, .bound = bound_, .note = text, .exact_nan = true}
#define BENT(id, p, bound_) /* what is NaN there is another test's */ \
    {.name = #id, .kind = SW_UNARY_##id, .param = p, .exact = id##_value, .bound = bound_, .note = ""}
#define SLOPE(id, p, bound_)                                                            \
    {.name = #id, .kind = SW_UNARY_##id, .param = p, .slope = true, .exact = id##_slope, .bound = bound_, .note = ""}
/* The op keeps its output, which lies in low .. high; or nothing else may be handed to it. */
#define WITHIN(id, bound_, low_, high_)                                                 \
    {.name = #id, .kind = SW_UNARY_##id, .slope = true, .exact = id##_slope, .bound = bound_, .low = low_, .high = high_, .note = ""}
#define CROSSES(id, bound_, from_, to_, floor_, text)                                   \
    {.name = #id, .kind = SW_UNARY_##id, .slope = true, .exact = id##_slope, .bound = bound_, .from = from_, .to = to_, .floor = floor_, .note = text}
/* With codes of each element; the slopes are of the input. */
#define CODES(name_, id, by_, p, most_)                                                  \
    {.name = name_, .by = by_, .param = p, .most = most_, .exact = id##_value, .note = "", .exact_nan = true}, \
    {.name = name_, .by = by_, .param = p, .most = most_, .slope = true, .exact = id##_slope, .note = ""}
#define BITS(name_, id, p)                                                               \
    {.name = name_, .by = ACCURACY_BITS, .kind = SW_UNARY_##id, .param = p, .slope = true, .exact = id##_slope, .note = ""}
#define POWER(text, p, value_bound, slope_bound, low_, high_, floor_, why)                     \
    {.name = text, .kind = SW_UNARY_pow, .param = p, .exact = pow_value, .bound = value_bound, .low = low_, .high = high_, .note = "", .exact_nan = true}, \
    {.name = text, .kind = SW_UNARY_pow, .param = p, .slope = true, .exact = pow_slope, .bound = slope_bound, .low = low_, .high = high_, .from = -HUGE_VALF, .to = HUGE_VALF, .floor = floor_, .note = why}

const accuracy_row accuracy_rows[] = {
    BENT(relu, 0, 0),
    WITHIN(relu, 0, 0.0f, HUGE_VALF),
    BENT(leaky_relu, 0.1f, 1),
    SLOPE(leaky_relu, 0.1f, 1),
    BITS("relu by bits", relu, 0),
    BITS("leaky_relu by bits", leaky_relu, 0.125f),
    CODES("abs", abs, ACCURACY_ABS, 0, 0),
    CODES("clamp", clamp, ACCURACY_CLAMP, -0.5f, (float)CLAMP_MOST),
    VALUE(tanh, 0, 4),
    WITHIN(tanh, 4, -1.0f, 1.0f),
    VALUE(sigmoid, 0, 4),
    WITHIN(sigmoid, 4, 0.0f, 1.0f),
    VALUE(swish, 0, 4),
    CROSSES(swish, 5, -2.5f, -0.75f, 0.0625f, "crosses 0 at -1.278: -2.5 .. -0.75 in ulp of 1/16; outside of it terms of both signs are added"),
    WHY(gelu, 5, "e^(-x^2 / 2) times a quotient of polynomials, seven roundings"),
    CROSSES(gelu, 5, -2.0f, -0.25f, 0.125f, "crosses 0 at -0.752: -2 .. -0.25 in ulp of 1/8; outside of it terms of both signs are added"),
    VALUE(gelu_tanh, 0, 4),
    CROSSES(gelu_tanh, 7, -2.0f, -0.25f, 0.125f, "crosses 0 at -0.753: -2 .. -0.25 in ulp of 1/8; outside of it x v' is a sum of four rounded terms"),
    WHY(mish, 5, "a quotient of polynomials in e^x, six roundings"),
    CROSSES(mish, 6, -2.5f, -0.5f, 0.0625f, "crosses 0 at -1.192: -2.5 .. -0.5 in ulp of 1/16; outside of it terms of both signs are added"),
    VALUE(softplus, 0, 4),
    SLOPE(softplus, 0, 4),
    BENT(hard_swish, 0, 4),
    CROSSES(hard_swish, 4, -2.0f, -1.0f, 0.25f, "crosses 0 at -1.5: -2 .. -1 in ulp of 1/4"),
    VALUE(elu, 0.75f, 4),
    SLOPE(elu, 0.75f, 4),
    VALUE(selu, 0, 4),
    SLOPE(selu, 0, 4),
    VALUE(exp, 0, 4),
    WITHIN(exp, 0, 0.0f, HUGE_VALF),
    VALUE(log, 0, 4),
    WITHIN(log, 1, 0.0f, HUGE_VALF),
    VALUE(sqrt, 0, 1),
    WITHIN(sqrt, 1, 0.0f, HUGE_VALF),
    VALUE(rsqrt, 0, 4),
    WITHIN(rsqrt, 4, 0.0f, HUGE_VALF),
    POWER("pow 2", 2, 1, 1, 0.0f, 0.0f, 0.0f, ""),
    POWER("pow 3", 3, 4, 4, 0.0f, 0.0f, 0.0f, ""),
    POWER("pow 2.5", 2.5f, 1, 4, 0.0f, HUGE_VALF, 0x1p-102f, "p times a power that is 0 below 2^-126: in ulp of max(\\|y\\|, 2^-102)"),
    POWER("pow -2", -2, 1, 4, 0.0f, 0.0f, 0x1p-102f, "p times a power that is 0 below 2^-126: in ulp of max(\\|y\\|, 2^-102)"),
};
/* clang-format on */
const int n_accuracy_rows = (int)(sizeof accuracy_rows / sizeof *accuracy_rows);

/* ---- the sweep --------------------------------------------------------------------------- */

enum { BLOCK = 4096, PARTS = 256 };
#define LEAST 0x1p-126 /* the least normal number */

uint64_t accuracy_count(uint64_t step)
{
    return ((uint64_t)1 << 32) / step + (((uint64_t)1 << 32) % step != 0);
}

void accuracy_begin(accuracy_result *result)
{
    *result = (accuracy_result){0};
    for (int i = 0; i < ACCURACY_RANGES; i++)
        result->worst[i] = -1.0;
}

static double ulp_of(double size)
{
    uint64_t u;
    memcpy(&u, &size, sizeof u);
    u = (u & 0x7ff0000000000000u) - ((uint64_t)23 << 52);
    memcpy(&size, &u, sizeof size);
    return size;
}

double accuracy_error(const accuracy_row *row, float x, float y, double r)
{
    const double over = 0x1p128, size = fabs(r);
    double got = (double)y;
    if (isnan(r) || isnan(y))
        return isnan(r) && isnan(y) ? 0.0 : HUGE_VAL;
    if (isinf(y)) { /* right from 2^128 on; below by so much as is missing there */
        if ((y > 0) == (r > 0) && size >= over)
            return 0.0;
        got = y > 0 ? over : -over;
    }
    double floor =
        row->floor > 0.0f && x >= row->from && x <= row->to ? (double)row->floor : LEAST;
    floor = size > floor ? size : floor;
    if (fabs(got) < LEAST)
        return size > LEAST ? (size - LEAST) / ulp_of(floor) : 0.0;
    return fabs(got - r) / ulp_of(floor < over ? floor : 0x1p127);
}

typedef struct {
    const accuracy_row *row;
    uint64_t step, from, to;
    accuracy_result *parts;
} job;

/* A kernel takes its elements on this thread. */
static void alone(const sw_par *par, void (*body)(void *, int), void *arg, int n_parts)
{
    (void)par;
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}

/* Two bits for each element at most. */
static void apply_codes(const accuracy_row *row, const sw_pointwise_kernels *k, float *y,
                        const float *x, const float *ones, int n, const sw_par *par)
{
    uint8_t codes[BLOCK / 4];
    if (row->by == ACCURACY_ABS)
        k->abs(y, codes, x, n, par);
    else if (row->by == ACCURACY_CLAMP)
        k->clamp(y, codes, x, row->param, row->most, n, par);
    else
        k->above(row->kind, codes, x, n, par);
    if (!row->slope)
        return;
    if (row->by == ACCURACY_ABS)
        k->abs_dx(y, ones, codes, n, false, par);
    else if (row->by == ACCURACY_BITS && row->kind == SW_UNARY_leaky_relu)
        k->above_dx(y, ones, codes, n, row->param, false, par);
    else
        k->clamp_dx(y, ones, codes, n, false, par);
}

static void apply(const accuracy_row *row, sw_isa isa, float *y, const float *x,
                  const float *ones, int n)
{
    const sw_par par = {.n_threads = 1, .run = alone};
    if (row->by != ACCURACY_UNARY)
        apply_codes(row, sw_pointwise(isa), y, x, ones, n, &par);
    else if (row->slope)
        sw_pointwise(isa)->unary_dx(row->kind, y, ones, x, n, row->param, false, false, &par);
    else
        sw_pointwise(isa)->unary(row->kind, y, x, n, row->param, false, &par);
}

static void judge(const accuracy_row *row, float x, float y, accuracy_result *result)
{
    if (isnan(x)) {
        if (row->exact_nan && !isnan(y))
            result->worst[5] = HUGE_VAL;
        return;
    }
    if (row->low < row->high && !(x >= row->low && x <= row->high))
        return;
    /* Bends, and -inf through a piece that is flat: what is right there is PyTorch's word. */
    if (row->by == ACCURACY_UNARY && row->kind == SW_UNARY_hard_swish &&
        (row->slope ? fabsf(x) == 3.0f : isinf(x)))
        return;
    const int range = x < -10.0f  ? 0
                      : x < -1.0f ? 1
                      : x < 0.0f  ? 2
                      : x < 1.0f  ? 3
                      : x < 10.0f ? 4
                                  : 5;
    const double p = (double)row->param,
                 v = fabs((double)x) < LEAST ? 0.0 * (double)x : (double)x;
    const double r = row->exact(v, p);
    result->arguments++;
    /* A result that is rounded right is at most half an ulp off: most are, and cost no more. */
    if (result->worst[range] >= 0.5 && (float)r == y && fabs(r) >= LEAST &&
        fabs(r) < (double)FLT_MAX)
        return;
    const double error = accuracy_error(row, x, y, r);
    if (!(error <= result->worst[range])) {
        result->worst[range] = error;
        result->at[range] = x;
    }
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void sweep_part(void *arg, int part)
{
    const job *j = arg;
    const uint64_t n = j->to - j->from;
    uint64_t at = j->from + n * (uint64_t)part / PARTS;
    const uint64_t end = j->from + n * ((uint64_t)part + 1) / PARTS;
    const uint32_t word = swi_fp_enter();
    while (at < end) {
        const int here = end - at < BLOCK ? (int)(end - at) : BLOCK;
        /* One block: the best instruction set is judged, the others are compared with it. */
        float x[BLOCK], y[BLOCK], other[BLOCK], ones[BLOCK];
        for (int i = 0; i < here; i++) {
            const uint32_t bits = (uint32_t)((at + (uint64_t)i) * j->step);
            memcpy(&x[i], &bits, sizeof bits);
            ones[i] = 1.0f;
        }
        const sw_isa best = sw_cpu_isa();
        apply(j->row, best, y, x, ones, here);
        for (int i = 0; i < here; i++)
            judge(j->row, x[i], y[i], &j->parts[part]);
        for (int isa = 0; isa < (int)best; isa++) {
            apply(j->row, (sw_isa)isa, other, x, ones, here);
            for (int i = 0; i < here; i++)
                j->parts[part].apart += !same(y[i], other[i]);
        }
        at += (uint64_t)here;
    }
    swi_fp_leave(word);
}

static void add(accuracy_result *to, const accuracy_result *part)
{
    for (int i = 0; i < ACCURACY_RANGES; i++)
        if (part->worst[i] > to->worst[i]) {
            to->worst[i] = part->worst[i];
            to->at[i] = part->at[i];
        }
    to->arguments += part->arguments;
    to->apart += part->apart;
}

void accuracy_sweep(const accuracy_row *row, uint64_t step, uint64_t from, uint64_t to,
                    const sw_par *par, accuracy_result *result)
{
    accuracy_result parts[PARTS];
    job j = {row, step, from, to, parts};
    for (int i = 0; i < PARTS; i++)
        accuracy_begin(&parts[i]);
    if (par != NULL)
        par->run(par, sweep_part, &j, PARTS);
    else
        for (int i = 0; i < PARTS; i++)
            sweep_part(&j, i);
    for (int i = 0; i < PARTS; i++)
        add(result, &parts[i]);
}
