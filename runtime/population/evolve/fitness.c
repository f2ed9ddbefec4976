/* Fitness: what a member's numbers are worth. */
#include "runtime/population/evolve/fitness.h"
#include "alloc/base/mem.h"
#include <math.h>
#include <stdlib.h>

static const char *const names[SW_FITNESS_KINDS] = {[SW_FITNESS_ACCURACY] = "accuracy",
                                                    [SW_FITNESS_TRAIN_ACCURACY] =
                                                        "train_accuracy",
                                                    [SW_FITNESS_LOSS] = "loss",
                                                    [SW_FITNESS_TIME] = "time",
                                                    [SW_FITNESS_PARAMETERS] = "parameters",
                                                    [SW_FITNESS_PEAK_BYTES] = "peak_bytes",
                                                    [SW_FITNESS_OPERATIONS] = "operations",
                                                    [SW_FITNESS_CUSTOM] = "custom"};

const char *sw_fitness_kind_name(sw_fitness_kind kind)
{
    return (unsigned)kind < SW_FITNESS_KINDS ? names[kind] : NULL;
}

/* ---- the default ------------------------------------------------------------------------- */

static double two_digits(double x, void *user)
{
    (void)user;
    return rint(x * 100) / 100;
}

/* Parameters are negated: smaller is fitter. Of equal accuracy, at most a thousandth. */
static double smallness(double x, void *user)
{
    (void)user;
    return fmin(0.001, x < 0 ? -1 / x : 0.001);
}

static const sw_fitness default_terms[] = {
    {.kind = SW_FITNESS_ACCURACY, .map = two_digits},
    {.kind = SW_FITNESS_PARAMETERS, .map = smallness},
};

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status check_term(const sw_fitness *t, size_t i, const char *call)
{
    if (sw_fitness_kind_name(t->kind) == NULL)
        SW_FAIL(SW_INVALID, "%s: fitness %zu: the kind %d is none", call, i, (int)t->kind);
    if (t->reserved[0] != 0 || t->reserved[1] != 0)
        SW_FAIL(SW_INVALID, "%s: fitness %zu: reserved must be zero", call, i);
    if (t->objective < 0 || t->objective >= SWI_MAX_OBJECTIVES)
        SW_FAIL(SW_INVALID, "%s: fitness %zu: objective must be 0 to %d (got %d)", call, i,
                SWI_MAX_OBJECTIVES - 1, t->objective);
    if (!isfinite(t->factor) || !(t->average >= 0 && t->average < 1))
        SW_FAIL(SW_INVALID,
                "%s: fitness %zu: factor must be finite (got %g), and average 0 to below 1 "
                "(got %g)",
                call, i, t->factor, t->average);
    if ((t->kind == SW_FITNESS_CUSTOM) != (t->fn != NULL))
        SW_FAIL(SW_INVALID, "%s: fitness %zu: fn must be given for custom, and for no other",
                call, i);
    if (!(t->drop >= 0 && t->drop < 1) || (t->drop > 0 && t->kind != SW_FITNESS_TRAIN_ACCURACY))
        SW_FAIL(SW_INVALID,
                "%s: fitness %zu: drop must be 0 to below 1 (got %g), and is of train_accuracy "
                "alone",
                call, i, t->drop);
    return SW_OK;
}

/* Each objective up to the last has a term; there is one drop. */
static sw_status check_all(swi_fitness_plan *p, const char *call)
{
    bool there[SWI_MAX_OBJECTIVES] = {false};
    p->drop = 0;
    for (size_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        there[t->objective] = true;
        if ((size_t)t->objective >= p->n_objectives)
            p->n_objectives = (size_t)t->objective + 1;
        if (t->kind != SW_FITNESS_TRAIN_ACCURACY)
            continue;
        const double drop = t->drop > 0 ? t->drop : 0.5;
        if (p->drop > 0 && p->drop != drop)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: drop must be that of the others, %g (got %g)",
                    call, i, p->drop, drop);
        p->drop = drop;
    }
    if (p->drop == 0)
        p->drop = 0.5;
    for (size_t k = 0; k < p->n_objectives; k++)
        if (!there[k])
            SW_FAIL(SW_INVALID, "%s: objective %zu has no fitness, and objective %zu has one",
                    call, k, p->n_objectives - 1);
    return SW_OK;
}

sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call)
{
    swi_fitness_plan plan = {.n = n, .rounded = n == 0};
    if (n == 0) {
        terms = default_terms;
        plan.n = sizeof default_terms / sizeof *default_terms;
    }
    if (terms == NULL || n > SWI_MAX_TERMS)
        SW_FAIL(SW_INVALID, "%s: fitness must have at most %d terms (got %zu)", call,
                SWI_MAX_TERMS, n);
    for (size_t i = 0; i < plan.n; i++) {
        plan.terms[i] = terms[i];
        SW_TRY(check_term(&plan.terms[i], i, call));
        if (plan.terms[i].factor == 0)
            plan.terms[i].factor = 1;
    }
    SW_TRY(check_all(&plan, call));
    *out = plan;
    return SW_OK;
}

/* ---- of a member ------------------------------------------------------------------------- */

void swi_fitness_begin(swi_fitness_averages *averages)
{
    for (size_t i = 0; i < SWI_MAX_TERMS; i++)
        averages->of[i] = NAN;
}

static double number_of(const sw_fitness *t, const sw_candidate *c)
{
    switch (t->kind) {
    case SW_FITNESS_ACCURACY:
        return c->accuracy;
    case SW_FITNESS_TRAIN_ACCURACY:
        return c->train_accuracy;
    case SW_FITNESS_LOSS:
        return -c->loss;
    case SW_FITNESS_TIME:
        return -(double)c->ns_per_sample;
    case SW_FITNESS_PARAMETERS:
        return -(double)c->price->parameters;
    case SW_FITNESS_PEAK_BYTES:
        return -(double)c->price->peak_bytes;
    case SW_FITNESS_OPERATIONS:
        return -c->price->operations_per_sample;
    case SW_FITNESS_CUSTOM:
        return t->fn(c, t->user);
    }
    return NAN;
}

bool swi_fitness_of(const swi_fitness_plan *p, const sw_candidate *c,
                    swi_fitness_averages *averages, double objectives[SWI_MAX_OBJECTIVES],
                    uint32_t *which)
{
    swi_fitness_averages fresh = *averages;
    double sum[SWI_MAX_OBJECTIVES] = {0};
    for (size_t k = 0; k < SWI_MAX_OBJECTIVES; k++)
        objectives[k] = NAN;
    *which = UINT32_MAX;
    if (c->invalid)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        double x = number_of(t, c);
        if (t->average > 0 && !isnan(fresh.of[i]))
            x = (1 - t->average) * x + t->average * fresh.of[i];
        fresh.of[i] = x;
        const double mapped = (t->map != NULL ? t->map(x, t->user) : x) * t->factor;
        sum[t->objective] += mapped;
        if (!isfinite(x) || !isfinite(mapped) || !isfinite(sum[t->objective])) {
            *which = i;
            return false;
        }
    }
    *averages = fresh;
    for (size_t k = 0; k < p->n_objectives; k++)
        objectives[k] = sum[k];
    return true;
}

/* ---- of all of them ---------------------------------------------------------------------- */

typedef struct {
    uint32_t rank, index;
    double crowding;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->crowding != y->crowding)
        return x->crowding > y->crowding ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Objectives without the columns that are not used; then rank, crowding, and places by them. */
static sw_status order(const swi_fitness_plan *p, const double *objectives, size_t n,
                       double *out, uint32_t *ranks, double *packed, double *crowding,
                       place *places)
{
    const size_t m = p->n_objectives;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            packed[i * m + k] = objectives[i * SWI_MAX_OBJECTIVES + k];
    SW_TRY(sw_pareto(packed, n, m, ranks, crowding));
    for (size_t i = 0; i < n; i++)
        places[i] = (place){ranks[i], (uint32_t)i, crowding[i]};
    qsort(places, n, sizeof *places, by_place);
    for (size_t i = 0; i < n; i++)
        out[places[i].index] = (double)(n - 1 - i);
    for (size_t i = 0; i < n; i++)
        if (isnan(packed[i * m]))
            out[i] = NAN;
    for (size_t i = 0; i < n && m == 1; i++)
        out[i] = packed[i];
    return SW_OK;
}

sw_status swi_fitness_order(const swi_fitness_plan *p, const double *objectives, size_t n,
                            double *out, uint32_t *ranks)
{
    const size_t bytes = n * ((p->n_objectives + 1) * sizeof(double) + sizeof(place));
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    double *packed = block, *crowding = packed + n * p->n_objectives;
    const sw_status status =
        order(p, objectives, n, out, ranks, packed, crowding, (place *)(void *)(crowding + n));
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}
