/* Which vertices a mutation changes: those that it can, each by its probability. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <string.h>

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

double swi_weighed(double p, sw_weigh weigh, double u, double m, double a)
{
    if (weigh == SW_WEIGH_NOTHING || !(m > 0))
        return p;
    if (weigh == SW_WEIGH_HIGH)
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

static bool is_possible(const swi_child *c, const sw_mutation *m, uint32_t v)
{
    const swi_mutation_rule *rule = swi_mutation_rule_of(m->kind);
    return rule->can(c->genome, v) &&
           (m->filter == NULL || m->filter(c->genome, v, m->user) != 0);
}

static weights weigh(const swi_child *c, const bool *can)
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

/* ---- the choice -------------------------------------------------------------------------- */

static sw_status keep_name(swi_child *c, uint32_t *n, uint32_t v)
{
    void *block = c->names;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &c->names_cap, *n + 1, sizeof *c->names));
    c->names = block;
    memcpy(c->names[(*n)++], c->genome->vertices[v].name, sizeof *c->names);
    return SW_OK;
}

sw_status swi_mutation_choose(swi_child *c, const sw_mutation *m, uint32_t *n)
{
    bool can[SWI_MAX_VERTICES];
    *n = 0;
    for (uint32_t v = 0; v < c->genome->n; v++)
        can[v] = is_possible(c, m, v);
    c->utilities.n = 0;
    if (m->weigh != SW_WEIGH_NOTHING)
        SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const weights w = weigh(c, can);
    const sw_neuron_utility *u = c->utilities.list;
    for (uint32_t v = 0, i = 0; v < c->genome->n; v++) {
        const bool has = i < c->utilities.n && u[i].vertex == v;
        const double mean = has ? mean_of(&u[i]) : 0;
        i += has;
        if (!can[v])
            continue;
        const double p =
            has ? swi_weighed(m->probability, m->weigh, mean, w.most, w.mean) : m->probability;
        if (swi_draw_happens(&c->draws, p))
            SW_TRY(keep_name(c, n, v));
    }
    return SW_OK;
}
