/* The worth of a candidate, and which vertices a mutation prefers. */
#include "alloc/base/mem.h"
#include "runtime/base/common.h"
#include "runtime/population/evolve/draws.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <string.h>

/* Fitness: what a member's numbers are worth. */

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

sw_status swi_fitness_read(swi_fitness_plan *out, const sw_fitness *terms, size_t n,
                           const char *call)
{
    /* Accuracy is a whole number of answers: of equals the one with the smaller loss. */
    static const sw_fitness usual[] = {{.kind = SW_FITNESS_ACCURACY},
                                       {.kind = SW_FITNESS_LOSS, .factor = 1e-6}};
    swi_fitness_plan plan = {.n = n > 0 ? n : 2};
    terms = n > 0 ? terms : usual;
    if (terms == NULL || n > SWI_MAX_TERMS)
        SW_FAIL(SW_INVALID, "%s: fitness must have at most %d terms (got %zu)", call,
                SWI_MAX_TERMS, n);
    for (size_t i = 0; i < plan.n; i++) {
        sw_fitness *t = &plan.terms[i];
        *t = terms[i];
        if (sw_fitness_kind_name(t->kind) == NULL)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: the kind %d is none", call, i, (int)t->kind);
        if (t->reserved[0] != 0 || t->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: reserved must be zero", call, i);
        if (t->objective != 0 || t->average != 0)
            SW_FAIL(SW_UNSUPPORTED, "%s: fitness %zu: %s is no longer used: must be 0", call, i,
                    t->objective != 0 ? "objective" : "average");
        if (!isfinite(t->factor))
            SW_FAIL(SW_INVALID, "%s: fitness %zu: factor must be finite (got %g)", call, i,
                    t->factor);
        if ((t->kind == SW_FITNESS_CUSTOM) != (t->fn != NULL))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: fn must be given for custom, and for no other", call, i);
        if (!(t->drop >= 0 && t->drop < 1) ||
            (t->drop > 0 && t->kind != SW_FITNESS_TRAIN_ACCURACY))
            SW_FAIL(SW_INVALID,
                    "%s: fitness %zu: drop must be 0 to below 1 (got %g), and is of "
                    "train_accuracy alone",
                    call, i, t->drop);
        if (t->factor == 0)
            t->factor = 1;
        if (t->kind != SW_FITNESS_TRAIN_ACCURACY)
            continue;
        const double drop = t->drop > 0 ? t->drop : 0.5;
        if (plan.drop > 0 && plan.drop != drop)
            SW_FAIL(SW_INVALID, "%s: fitness %zu: drop must be that of the others, %g (got %g)",
                    call, i, plan.drop, drop);
        plan.drop = drop;
    }
    if (plan.drop == 0)
        plan.drop = 0.5;
    *out = plan;
    return SW_OK;
}

/* ---- of a candidate ---------------------------------------------------------------------- */

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

double swi_fitness_of(const swi_fitness_plan *p, const sw_candidate *c, uint32_t *which)
{
    double sum = 0;
    *which = UINT32_MAX;
    for (uint32_t i = 0; i < p->n; i++) {
        const sw_fitness *t = &p->terms[i];
        const double x = number_of(t, c);
        sum += (t->map != NULL ? t->map(x, t->user) : x) * t->factor;
        if (!isfinite(x) || !isfinite(sum)) {
            *which = i;
            return (double)NAN;
        }
    }
    return sum;
}

/* Utility of neurons, moved along with them: by the lineage of the vertices they are in. */

#define NEW_UTILITY 0x1p-23f /* next to nothing: any neuron that was of use is kept first */

static float clean(float x)
{
    return isfinite(x) && x > 0 ? x : 0;
}

/* Lists are in the order of vertices as a rule: the search goes on where the last one ended. */
static const sw_neuron_utility *find(const swi_parent_utility *parent, uint32_t vertex,
                                     size_t *from)
{
    for (size_t i = 0; i < parent->n; i++) {
        const size_t at = (*from + i) % parent->n;
        if (parent->list[at].vertex == vertex) {
            *from = at + 1;
            return &parent->list[at];
        }
    }
    return NULL;
}

sw_status swi_utilities_of(swi_utilities *u, const sw_genome *g,
                           const swi_parent_utility parents[2])
{
    size_t from[2] = {0}, at = 0;
    u->n = 0;
    if (parents[0].n + parents[1].n == 0)
        return SW_OK;
    size_t values = 0;
    for (uint32_t i = 0; i < g->n; i++)
        values += swi_vertex_has_parameters(&g->vertices[i]) ? g->vertices[i].channels : 0;
    SW_TRY(sw_heap_reserve(&u->list, SW_HEAP_RECORDS, &u->cap, g->n, sizeof *u->list));
    if (values > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "utilities of %zu neurons are too many", values);
    SW_TRY(sw_heap_reserve(&u->values, SW_HEAP_RECORDS, &u->values_cap, (uint32_t)values,
                           sizeof *u->values));

    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        const bool fresh = v->parent > 1;
        if (!swi_vertex_has_parameters(v))
            continue;
        const sw_neuron_utility *was =
            fresh ? NULL : find(&parents[v->parent], v->was, &from[v->parent]);
        if (was == NULL && !(fresh && swi_vertex_is_sized(v)))
            continue;
        /* Of a vertex with rows; `was` NULL: all of it is new. */
        float *to = u->values + at;
        for (int64_t j = 0; j < v->channels; j++) {
            const int32_t row = was != NULL && v->rows != NULL ? v->rows[j] : SWI_NEW;
            to[j] = row >= 0 && row < was->n ? clean(was->values[row]) : NEW_UTILITY;
        }
        u->list[u->n++] =
            (sw_neuron_utility){.vertex = i, .n = v->channels, .values = u->values + at};
        at += (size_t)v->channels;
    }
    return SW_OK;
}

void swi_utilities_end(swi_utilities *u)
{
    sw_heap_free(u->list, SW_HEAP_RECORDS, u->cap * sizeof *u->list);
    sw_heap_free(u->values, SW_HEAP_RECORDS, u->values_cap * sizeof *u->values);
    *u = (swi_utilities){0};
}

sw_status swi_utility_check(const sw_genome *g, const sw_neuron_utility *list, size_t n,
                            const char *call)
{
    if (n > 0 && list == NULL)
        SW_FAIL(SW_INVALID, "%s: utilities must not be NULL where there are %zu", call, n);
    for (size_t i = 0; i < n; i++) {
        const sw_neuron_utility *u = &list[i];
        if (u->vertex >= g->n)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: the vertex must be below %u, the number of "
                    "vertices (got %u)",
                    call, i, g->n, u->vertex);
        const swi_vertex *v = &g->vertices[u->vertex];
        if (!swi_vertex_has_parameters(v))
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: it must be of a vertex with parameters (got %s '%s')",
                    call, i, sw_vertex_kind_name(v->kind), v->name);
        if (u->n != v->channels || u->values == NULL)
            SW_FAIL(SW_INVALID,
                    "%s: utility %zu: vertex '%s' has %lld neurons, and there must be a value "
                    "for each (got %lld%s)",
                    call, i, v->name, (long long)v->channels, (long long)u->n,
                    u->values == NULL ? ", and NULL" : "");
        if (u->reserved[0] != 0 || u->reserved[1] != 0)
            SW_FAIL(SW_INVALID, "%s: utility %zu: reserved must be zero", call, i);
    }
    return SW_OK;
}

/* Which vertices a mutation changes: those that it can, each by its probability. */

bool swi_outputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_OUTPUTS) != 0)
        return false;
    for (uint32_t i = v + 1; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (g->vertices[i].in[k] == v && (g->vertices[i].shield & SW_SHIELD_INPUTS) != 0)
                return false;
    return true;
}

bool swi_inputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_INPUTS) != 0)
        return false;
    for (uint32_t k = 0; k < g->vertices[v].n_in; k++)
        if ((g->vertices[g->vertices[v].in[k]].shield & SW_SHIELD_OUTPUTS) != 0)
            return false;
    return true;
}

/* ---- probabilities ----------------------------------------------------------------------- */

double swi_weighed(double p, sw_weigh weigh_choose, double u, double m, double a)
{
    if (weigh_choose == SW_WEIGH_NOTHING || !(m > 0))
        return p;
    if (weigh_choose == SW_WEIGH_HIGH)
        return pow(p, (2 * sqrt(m) - sqrt(u)) / (2 * sqrt(m) - sqrt(a)));
    u /= m; /* shares of m: its square may be out of range */
    a /= m;
    return pow(p, (2 - a * a) / (2 - u * u));
}

static double mean_of(const sw_neuron_utility *u)
{
    double sum = 0;
    for (int64_t i = 0; i < u->n; i++)
        sum += (double)u->values[i];
    return u->n > 0 ? sum / (double)u->n : 0;
}

typedef struct {
    double most, mean; /* of the vertices that it can change and that have a utility */
} weights;

static weights weigh_choose(const swi_child *c, const bool *can)
{
    weights w = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->utilities.n; i++)
        if (can[c->utilities.list[i].vertex]) {
            const double mean = mean_of(&c->utilities.list[i]);
            w.most = fmax(w.most, mean);
            w.mean += mean;
            n++;
        }
    w.mean /= n > 0 ? n : 1;
    return w;
}

sw_status swi_mutation_choose(swi_child *c, const sw_mutation *m, uint32_t *n)
{
    bool can[SWI_MAX_VERTICES];
    *n = 0;
    for (uint32_t v = 0; v < c->genome->n; v++) {
        const swi_mutation_rule *rule = swi_mutation_rule_of(m->kind);
        can[v] = rule->can(c->genome, v) &&
                 (m->filter == NULL || m->filter(c->genome, v, m->user) != 0);
    }
    c->utilities.n = 0;
    if (m->weigh != SW_WEIGH_NOTHING)
        SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const weights w = weigh_choose(c, can);
    const sw_neuron_utility *u = c->utilities.list;
    for (uint32_t v = 0, i = 0; v < c->genome->n; v++) {
        const bool has = i < c->utilities.n && u[i].vertex == v;
        const double mean = has ? mean_of(&u[i]) : 0;
        i += has;
        if (!can[v])
            continue;
        const double p =
            has ? swi_weighed(m->probability, m->weigh, mean, w.most, w.mean) : m->probability;
        if (swi_draw_happens(&c->draws, p)) {
            SW_TRY(sw_heap_reserve(&c->names, SW_HEAP_RECORDS, &c->names_cap, *n + 1,
                                   sizeof *c->names));
            memcpy(c->names[(*n)++], c->genome->vertices[v].name, sizeof *c->names);
        }
    }
    return SW_OK;
}
