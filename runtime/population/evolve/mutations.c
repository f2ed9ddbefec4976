/* The list of mutations: what each is called, what it is drawn for, what does it. */
#include "runtime/population/evolve/mutate.h"
#include <math.h>

static const swi_mutation_rule rules[SW_MUTATION_KINDS] = {
    /* clang-format off */
    [SW_MUTATE_SIZE]           = {"size", SWI_JOINT, -0.2, 0.2, -1, swi_can_size, NULL},
    [SW_MUTATE_ADD_VERTEX]     = {"add_vertex", SWI_EACH, 0, 0, 0, swi_can_add_vertex, swi_add_vertex},
    [SW_MUTATE_REMOVE_VERTEX]  = {"remove_vertex", SWI_EACH, 0, 0, 0, swi_can_remove_vertex, swi_remove_vertex},
    [SW_MUTATE_ADD_EDGE]       = {"add_edge", SWI_EACH, 0, 0, 0, swi_can_add_edge, swi_add_edge},
    [SW_MUTATE_REMOVE_EDGE]    = {"remove_edge", SWI_EACH, 0, 0, 0, swi_can_remove_edge, swi_remove_edge},
    [SW_MUTATE_KERNEL]         = {"kernel", SWI_EACH, -2, 2, -1000, swi_can_kernel, swi_change_kernel},
    [SW_MUTATE_ACTIVATION]     = {"activation", SWI_EACH, 0, 0, 0, swi_can_activation, swi_change_activation},
    [SW_MUTATE_POOL]           = {"pool", SWI_EACH, 0, 0, 0, swi_can_pool, swi_change_pool},
    [SW_MUTATE_RATE]           = {"rate", SWI_WHOLE, -0.15, 0.15, -1, NULL, swi_change_rate},
    [SW_MUTATE_OPTIMIZER]      = {"optimizer", SWI_WHOLE, 0, 0, 0, NULL, swi_change_optimizer},
    [SW_MUTATE_OPTIMIZER_PART] = {"optimizer_part", SWI_WHOLE, 0, 0, 0, NULL, swi_change_optimizer_part},
    [SW_MUTATE_BATCH]          = {"batch", SWI_WHOLE, -0.5, 0.5, -1, NULL, swi_change_batch},
    [SW_MUTATE_GROW]           = {"grow", SWI_WHOLE, 0, 1, -0x1p-52, NULL, swi_grow},
    /* clang-format on */
};

const char *sw_mutation_kind_name(sw_mutation_kind kind)
{
    return (unsigned)kind < SW_MUTATION_KINDS ? rules[kind].name : NULL;
}

const swi_mutation_rule *swi_mutation_rule_of(sw_mutation_kind kind)
{
    return &rules[kind];
}

void swi_mutation_range(const sw_mutation *m, double *low, double *high)
{
    const bool given = m->low != 0 || m->high != 0;
    *low = given ? m->low : rules[m->kind].low;
    *high = given ? m->high : rules[m->kind].high;
}

/* NaiveGAflux's list for images (AutoFlux), with higher probabilities for smaller genomes: of
 * 12 vertices, some 4 of them sized, 3 with kernels, 3 activations, 1 pool and 1 add, it makes
 * about 1.5 changes: sizes 0.4 (by two lines, so that what is of little use shrinks twice as
 * often as it grows), vertices 0.35, edges 0.15, kernels, activations and pools 0.2, training
 * 0.35, growth 0.02. Above 2e8 parameters nothing grows any more. */
#define LARGE 200000000u
static const sw_mutation list[] = {
    {.kind = SW_MUTATE_SIZE, .probability = 0.05, .max_parameters = LARGE},
    {.kind = SW_MUTATE_SIZE,
     .probability = 0.05,
     .weigh = SW_WEIGH_LOW,
     .low = -0.2,
     .high = -0x1p-20},
    {.kind = SW_MUTATE_ADD_VERTEX, .probability = 0.02, .max_parameters = LARGE},
    {.kind = SW_MUTATE_REMOVE_VERTEX,
     .probability = 0.02,
     .weigh = SW_WEIGH_LOW,
     .min_vertices = 6},
    {.kind = SW_MUTATE_ADD_EDGE, .probability = 0.01, .max_parameters = LARGE},
    {.kind = SW_MUTATE_REMOVE_EDGE, .probability = 0.05},
    {.kind = SW_MUTATE_KERNEL, .probability = 0.02, .max_parameters = LARGE},
    {.kind = SW_MUTATE_ACTIVATION, .probability = 0.02},
    {.kind = SW_MUTATE_POOL, .probability = 0.1},
    {.kind = SW_MUTATE_GROW, .probability = 0.02, .max_parameters = LARGE},
    {.kind = SW_MUTATE_RATE, .probability = 0.15},
    {.kind = SW_MUTATE_OPTIMIZER, .probability = 0.05},
    {.kind = SW_MUTATE_OPTIMIZER_PART, .probability = 0.05},
    {.kind = SW_MUTATE_BATCH, .probability = 0.1},
};

const sw_mutation *sw_mutations_default(size_t *n)
{
    if (n != NULL)
        *n = sizeof list / sizeof *list;
    return list;
}

/* ---- checks ------------------------------------------------------------------------------ */

static sw_status check_range(const sw_mutation *m, size_t i, const char *call)
{
    const swi_mutation_rule *rule = &rules[m->kind];
    if (m->low == 0 && m->high == 0)
        return SW_OK;
    if (rule->low == 0 && rule->high == 0)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): it has no range, low and high must be 0",
                call, i, rule->name);
    if (!isfinite(m->low) || !isfinite(m->high) || m->low > m->high || fabs(m->high) > 1e6 ||
        !(m->low > rule->least))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): low must be above %.3g and not above high, which is at "
                "most 1e6 (got %g and %g)",
                call, i, rule->name, rule->least, m->low, m->high);
    const double first = ceil(m->low / 2), last = floor(m->high / 2);
    if (m->kind == SW_MUTATE_KERNEL && (first > last || (first == 0 && last == 0)))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): there must be a step of two, other than 0, from low to "
                "high (got %g and %g)",
                call, i, rule->name, m->low, m->high);
    return SW_OK;
}

static sw_status check_one(const sw_mutation *m, size_t i, const char *call)
{
    if ((unsigned)m->kind >= SW_MUTATION_KINDS)
        SW_FAIL(SW_INVALID, "%s: mutation %zu: kind %d is none", call, i, (int)m->kind);
    const char *name = rules[m->kind].name;
    if ((unsigned)m->weigh > SW_WEIGH_LOW)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): weigh %d is none", call, i, name,
                (int)m->weigh);
    if (!(m->probability >= 0 && m->probability <= 1))
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): the probability must be 0 to 1 (got %g)",
                call, i, name, m->probability);
    if (rules[m->kind].scope == SWI_WHOLE && (m->weigh != SW_WEIGH_NOTHING || m->filter))
        SW_FAIL(SW_INVALID,
                "%s: mutation %zu (%s): it is of the genome: weigh and filter, which are of "
                "vertices, must be 0 and NULL",
                call, i, name);
    if (m->space != NULL)
        SW_TRY(sw_handle_check(m->space, SW_HANDLE_SEARCH_SPACE, call));
    if (m->reserved[0] != 0 || m->reserved[1] != 0)
        SW_FAIL(SW_INVALID, "%s: mutation %zu (%s): reserved must be zero", call, i, name);
    return check_range(m, i, call);
}

sw_status swi_mutations_check(const sw_mutation *given, size_t n, const char *call)
{
    if (given == NULL && n > 0)
        SW_FAIL(SW_INVALID, "%s: mutations must not be NULL where there are %zu", call, n);
    for (size_t i = 0; i < n; i++)
        SW_TRY(check_one(&given[i], i, call));
    return SW_OK;
}
