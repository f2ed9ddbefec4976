/* The sweep: blocks of arguments through the kernels of every instruction set, then float64. */
#include "kernels/dispatch.h"
#include "runtime/exec/exec.h"
#include "tools/bench/accuracy.h"
#include <float.h>
#include <math.h>
#include <string.h>

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

static int range_of(float x)
{
    return x < -10.0f ? 0 : x < -1.0f ? 1 : x < 0.0f ? 2 : x < 1.0f ? 3 : x < 10.0f ? 4 : 5;
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
        sw_pointwise(isa)->unary_dx(row->kind, y, ones, x, n, row->param, false, &par);
    else
        sw_pointwise(isa)->unary(row->kind, y, x, n, row->param, &par);
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
    const int range = range_of(x);
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

/* One block: the best instruction set is judged, the others are compared with it. */
static void sweep_block(const job *j, uint64_t from, int n, accuracy_result *result)
{
    float x[BLOCK], y[BLOCK], other[BLOCK], ones[BLOCK];
    for (int i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)((from + (uint64_t)i) * j->step);
        memcpy(&x[i], &bits, sizeof bits);
        ones[i] = 1.0f;
    }
    const sw_isa best = sw_cpu_isa();
    apply(j->row, best, y, x, ones, n);
    for (int i = 0; i < n; i++)
        judge(j->row, x[i], y[i], result);
    for (int isa = 0; isa < (int)best; isa++) {
        apply(j->row, (sw_isa)isa, other, x, ones, n);
        for (int i = 0; i < n; i++)
            result->apart += !same(y[i], other[i]);
    }
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
        sweep_block(j, at, here, &j->parts[part]);
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
