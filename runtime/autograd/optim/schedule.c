/* Learning-rate schedules: pure functions of the step. Each has a warm-up in front; what it is
 * from there on depends on the steps after the warm-up alone. */
#include "runtime/base/structs.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PI 3.14159265358979323846

static double at_least(double rate, double least)
{
    return rate > least ? rate : least;
}

/* From `from` at t = 0 to `to` at t = 1 by half a wave of the cosine. */
static double by_wave(double from, double to, double t)
{
    return to + (from - to) * 0.5 * (1.0 + cos(PI * t));
}

/* The share of the steps between warm-up and end that have been made, at most 1. */
static double share(const sw_schedule *s, uint64_t step)
{
    const double t = (double)step / (double)(s->total_steps - s->warmup_steps);
    return t > 1.0 ? 1.0 : t;
}

static double constant(const sw_schedule *s, uint64_t step)
{
    (void)step;
    return (double)s->base;
}

static double by_steps(const sw_schedule *s, uint64_t step)
{
    return at_least((double)s->base * pow((double)s->gamma, (double)(step / s->every)),
                    (double)s->floor);
}

/* Loshchilov and Hutter 2017: floor + (base - floor) (1 + cos(pi t)) / 2. */
static double cosine(const sw_schedule *s, uint64_t step)
{
    return by_wave((double)s->base, (double)s->floor, share(s, step));
}

static double linear(const sw_schedule *s, uint64_t step)
{
    return (double)s->base + ((double)s->floor - (double)s->base) * share(s, step);
}

static double exponential(const sw_schedule *s, uint64_t step)
{
    const double every = s->every > 0 ? (double)s->every : 1.0;
    return at_least((double)s->base * pow((double)s->gamma, (double)step / every),
                    (double)s->floor);
}

/* Smith and Topin 2018, as PyTorch has it: its warm-up is a wave too, see sw_schedule_at. */
#define ONE_CYCLE_BEGIN (1.0 / 25)
#define ONE_CYCLE_END (1.0 / 250000)
static double one_cycle(const sw_schedule *s, uint64_t step)
{
    const double end = s->floor > 0.0f ? (double)s->floor : (double)s->base * ONE_CYCLE_END;
    return by_wave((double)s->base, end, share(s, step));
}

enum { WANTS_TOTAL = 1, WANTS_GAMMA = 2, WANTS_EVERY = 4, RISES_BY_WAVE = 8 };
static const struct {
    const char *name;
    unsigned wants;
    double (*rate)(const sw_schedule *s, uint64_t step); /* steps after the warm-up */
} kinds[] = {
    {"constant", 0, constant},
    {"step", WANTS_GAMMA | WANTS_EVERY, by_steps},
    {"cosine", WANTS_TOTAL, cosine},
    {"linear", WANTS_TOTAL, linear},
    {"exponential", WANTS_GAMMA, exponential},
    {"one_cycle", WANTS_TOTAL | RISES_BY_WAVE, one_cycle},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

const char *sw_schedule_kind(size_t i)
{
    return i < N_KINDS ? kinds[i].name : NULL;
}

static bool is_rate(float x)
{
    return isfinite(x) && x >= 0.0f;
}

static sw_status check(const sw_schedule *s, unsigned wants)
{
    if ((wants & WANTS_EVERY) != 0 && s->every == 0)
        SW_FAIL(SW_INVALID, "schedule %s: `every` must be at least 1 step", s->kind);
    if ((wants & WANTS_GAMMA) != 0 && (!(s->gamma > 0.0f) || !isfinite(s->gamma)))
        SW_FAIL(SW_INVALID, "schedule %s: `gamma` must be finite and above 0 (got %g)", s->kind,
                (double)s->gamma);
    if ((wants & WANTS_TOTAL) != 0 && s->total_steps <= s->warmup_steps)
        SW_FAIL(SW_INVALID,
                "schedule %s: steps must be more than the warm-up (got %llu and %llu)", s->kind,
                (unsigned long long)s->total_steps, (unsigned long long)s->warmup_steps);
    return SW_OK;
}

sw_status sw_schedule_at(const sw_schedule *given, uint64_t step, float *out)
{
    if (given == NULL || out == NULL)
        SW_FAIL(SW_INVALID, "sw_schedule_at: schedule and out must not be NULL");
    sw_schedule s;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_schedule, &s, given, "sw_schedule_at"));
    if (s.kind == NULL)
        SW_FAIL(SW_INVALID, "sw_schedule_at: kind must not be NULL");
    if (!is_rate(s.base) || !is_rate(s.floor))
        SW_FAIL(SW_INVALID,
                "sw_schedule_at: base and floor must be finite and at least 0 (got %g and %g)",
                (double)s.base, (double)s.floor);
    size_t k = 0;
    while (k < N_KINDS && strcmp(kinds[k].name, s.kind) != 0)
        k++;
    if (k == N_KINDS)
        SW_FAIL(SW_INVALID,
                "the schedule must be constant, step, cosine, linear, exponential or one_cycle "
                "(got '%s')",
                s.kind);
    SW_TRY(check(&s, kinds[k].wants));
    float rate;
    if (step >= s.warmup_steps)
        rate = (float)kinds[k].rate(&s, step - s.warmup_steps);
    else if ((kinds[k].wants & RISES_BY_WAVE) != 0)
        rate = (float)by_wave((double)s.base * ONE_CYCLE_BEGIN, (double)s.base,
                              (double)step / (double)s.warmup_steps);
    else
        rate = (float)((double)s.base * (double)(step + 1) / (double)s.warmup_steps);
    if (!isfinite(rate))
        SW_FAIL(SW_INVALID, "schedule %s: the rate of step %llu is larger than a float can be",
                s.kind, (unsigned long long)step);
    *out = rate;
    return SW_OK;
}
