/* Questions to a space: positions, draws, and whether a value is within. */
#include "kernels/rng.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

int sw_space_count(const sw_space *s)
{
    return sw_handle_check(s, SW_HANDLE_SPACE, "sw_space_count") == SW_OK ? (int)s->n : 0;
}

int sw_space_find(const sw_space *s, const char *name)
{
    if (sw_handle_check(s, SW_HANDLE_SPACE, "sw_space_find") != SW_OK || name == NULL)
        return -1;
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->hypers[i].is.name, name) == 0)
            return (int)i;
    return -1;
}

static sw_status check_at(const sw_space *s, int i, const char *call)
{
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, call));
    if (i < 0 || (uint32_t)i >= s->n)
        SW_FAIL(SW_INVALID, "%s: the space has %u hyper-parameters (got %d)", call, s->n, i);
    return SW_OK;
}

sw_status sw_space_at(const sw_space *s, int i, sw_hyper *out)
{
    static const char call[] = "sw_space_at";
    SW_TRY(check_at(s, i, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_hyper, out->size, call));
    swi_struct_write(SWI_STRUCT_sw_hyper, out, &s->hypers[i].is);
    return SW_OK;
}

double swi_unit53(uint32_t high, uint32_t low)
{
    return ((double)(high >> 5) * 0x1p26 + (double)(low >> 6)) * 0x1p-53;
}

static double bounded(const sw_hyper *h, double x)
{
    return x < h->low ? h->low : x > h->high ? h->high : x;
}

double swi_hyper_pick(const sw_hyper *h, double u)
{
    switch (h->kind) {
    case SW_LOG_UNIFORM: {
        const double low = swi_log(h->low), high = swi_log(h->high);
        return bounded(h, swi_exp(low + u * (high - low)));
    }
    case SW_INTEGER:
        return bounded(h, h->low + floor(u * (h->high - h->low + 1)));
    case SW_CHOICE:
        return h->choices[(int)(u * h->n_choices)];
    default: /* high - low may be too large for a double */
        return bounded(h, h->low * (1 - u) + h->high * u);
    }
}

int swi_hyper_choice(const sw_hyper *h, double value)
{
    for (int i = 0; i < h->n_choices; i++)
        if (h->choices[i] == value)
            return i;
    return -1;
}

bool swi_hyper_has(const sw_hyper *h, double value)
{
    if (h->kind == SW_CHOICE)
        return swi_hyper_choice(h, value) >= 0;
    return value >= h->low && value <= h->high &&
           (h->kind != SW_INTEGER || value == floor(value));
}

sw_status sw_space_draw(const sw_space *s, int i, uint64_t seed, uint64_t draw, double *out)
{
    static const char call[] = "sw_space_draw";
    uint32_t w[4];
    SW_TRY(check_at(s, i, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    sw_rng_words(w, seed, (uint32_t)draw, sw_rng_stream("sw_space_draw"), (uint32_t)i,
                 (uint32_t)(draw >> 32));
    *out = swi_hyper_pick(&s->hypers[i].is, swi_unit53(w[0], w[1]));
    return SW_OK;
}

int sw_space_has(const sw_space *s, int i, double value)
{
    return check_at(s, i, "sw_space_has") == SW_OK && swi_hyper_has(&s->hypers[i].is, value);
}
