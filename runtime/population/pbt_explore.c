/* Random numbers of decisions, and the values that follow an exploit. */
#include "kernels/rng.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

void swi_pbt_words(uint32_t out[4], const sw_pbt *p, uint32_t member, const char *purpose,
                   uint32_t which)
{
    const uint64_t draws = p->one[member].draws;
    sw_rng_words(out, p->opts.seed ^ (draws >> 32), which, sw_rng_stream(purpose), member,
                 (uint32_t)draws);
}

uint64_t swi_pbt_draw(const sw_pbt *p, uint32_t member, uint64_t n)
{
    uint32_t w[4];
    swi_pbt_words(w, p, member, "sw_pbt donor", 0);
    return (uint64_t)(swi_unit53(w[0], w[1]) * (double)n);
}

static double neighbour(const sw_hyper *h, int at, bool right)
{
    at += right ? 1 : -1;
    return h->choices[at < 0 ? 0 : at < h->n_choices ? at : h->n_choices - 1];
}

/* Whole numbers lose their fraction towards 0 and then keep the bounds. */
static double scaled(const sw_hyper *h, double x, double factor)
{
    x *= factor;
    if (h->kind == SW_INTEGER)
        x = trunc(x);
    return x < h->low ? h->low : x > h->high ? h->high : x;
}

static double perturb(const sw_pbt *p, const sw_hyper *h, double x, uint32_t member,
                      uint32_t which)
{
    uint32_t w[4], more[4];
    swi_pbt_words(w, p, member, "sw_pbt explore", which);
    swi_pbt_words(more, p, member, "sw_pbt resample", which);
    const int at = h->kind == SW_CHOICE ? swi_hyper_choice(h, x) : 0;
    const bool one = (w[2] & 1u) != 0;
    if (swi_unit53(w[0], w[1]) < p->opts.resample_probability || at < 0 ||
        (h->kind == SW_CHOICE && h->resample))
        return swi_hyper_pick(h, swi_unit53(more[0], more[1]));
    return h->kind == SW_CHOICE ? neighbour(h, at, one) : scaled(h, x, p->opts.factors[one]);
}

static sw_status call_custom(sw_pbt *p, uint32_t member, const double *from)
{
    sw_call call = {
        .name = "sw_pbt_next_event", .callback = "`custom`", .uses = SW_CALL_ONE(p)};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    SW_TRY(sw_call_end(&call,
                       p->opts.custom((int)member, from, p->fresh, (int)p->h, p->opts.user)));
    for (uint32_t k = 0; k < p->h; k++)
        if (!swi_hyper_has(&p->space->hypers[k].is, p->fresh[k]))
            SW_FAIL(SW_INVALID,
                    "the explore function gave member %u %.17g for '%s', which is outside of "
                    "what it may be",
                    member, p->fresh[k], p->space->hypers[k].is.name);
    return SW_OK;
}

sw_status swi_pbt_explore(sw_pbt *p, uint32_t member, uint32_t donor)
{
    const double *from = swi_pbt_values(p, donor);
    for (uint32_t k = 0; k < p->h; k++)
        p->fresh[k] = perturb(p, &p->space->hypers[k].is, from[k], member, k);
    return p->opts.custom != NULL ? call_custom(p, member, from) : SW_OK;
}
