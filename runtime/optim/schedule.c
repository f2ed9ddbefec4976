/* Learning-rate schedules: pure functions of the step. */
#include "runtime/stepwell.h"
#include <math.h>
#include <string.h>

static sw_status by_steps(const sw_schedule *s, uint64_t step, float *out)
{
    if (s->every == 0 || !(s->gamma > 0.0f) || !isfinite(s->gamma))
        SW_FAIL(SW_INVALID,
                "schedule step: `every` must be at least 1 step and `gamma` above 0; they are "
                "%llu and %g",
                (unsigned long long)s->every, (double)s->gamma);
    const double rate = (double)s->base * pow((double)s->gamma, (double)(step / s->every));
    *out = (float)(rate > (double)s->floor ? rate : (double)s->floor);
    return SW_OK;
}

static sw_status by_cosine(const sw_schedule *s, uint64_t step, float *out)
{
    if (s->total_steps <= s->warmup_steps)
        SW_FAIL(SW_INVALID, "schedule cosine: %llu steps in all, %llu of warm-up",
                (unsigned long long)s->total_steps, (unsigned long long)s->warmup_steps);
    if (step < s->warmup_steps) {
        *out = (float)((double)s->base * (double)(step + 1) / (double)s->warmup_steps);
        return SW_OK;
    }
    /* Loshchilov and Hutter 2017: floor + (base - floor) (1 + cos(pi t)) / 2. */
    double t = (double)(step - s->warmup_steps) / (double)(s->total_steps - s->warmup_steps);
    t = t > 1.0 ? 1.0 : t;
    *out = (float)((double)s->floor + ((double)s->base - (double)s->floor) * 0.5 *
                                          (1.0 + cos(3.14159265358979323846 * t)));
    return SW_OK;
}

sw_status sw_schedule_at(const sw_schedule *given, uint64_t step, float *out)
{
    if (given == NULL || out == NULL || given->size == 0 || given->size > 4096)
        SW_FAIL(SW_INVALID, "sw_schedule_at: a schedule with its size is wanted");
    sw_schedule s = {0};
    memcpy(&s, given, given->size < sizeof s ? given->size : sizeof s);
    if (s.kind == NULL || !isfinite(s.base) || !isfinite(s.floor))
        SW_FAIL(SW_INVALID, "sw_schedule_at: a kind and a base rate are wanted");
    if (strcmp(s.kind, "constant") == 0) {
        *out = s.base;
        return SW_OK;
    }
    if (strcmp(s.kind, "step") == 0)
        return by_steps(&s, step, out);
    if (strcmp(s.kind, "cosine") == 0)
        return by_cosine(&s, step, out);
    SW_FAIL(SW_INVALID, "unknown schedule '%s': constant, step and cosine are known", s.kind);
}
