/* Children of genomes: the mutations of a list, one after the other. */
#include "runtime/base/structs.h"
#include "runtime/population/evolve/mutate.h"

#define MOST_VERTICES 1024
#define MOST_SIZE 4096

static bool applies(const swi_child *c, const sw_mutation *m)
{
    return c->genome->n >= m->min_vertices &&
           (m->max_parameters == 0 || swi_genome_parameters(c->genome) <= m->max_parameters);
}

/* One change of vertex v, or of the whole. */
static sw_status change(swi_child *c, const sw_mutation *m, uint32_t v)
{
    swi_change_note note = {.exact = false};
    bool stays;
    SW_TRY(swi_child_begin(c));
    const sw_status status = swi_mutation_rule_of(m->kind)->apply(c, m, v, &note);
    SW_TRY(swi_child_accept(c, status, &stays));
    if (stays)
        swi_child_record(c, m->kind, &note);
    return SW_OK;
}

/* The vertices that were chosen, by their names: earlier changes may have moved or removed
 * them. */
static sw_status change_each(swi_child *c, const sw_mutation *m, uint32_t n)
{
    const swi_mutation_rule *rule = swi_mutation_rule_of(m->kind);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = swi_genome_find(c->genome, c->names[i]);
        if (v != UINT32_MAX && applies(c, m) && rule->can(c->genome, v))
            SW_TRY(change(c, m, v));
    }
    return SW_OK;
}

SW_FRAME_OWN static sw_status mutate_by(swi_child *c, const sw_mutation *m)
{
    uint32_t n;
    if (!applies(c, m))
        return SW_OK;
    switch (swi_mutation_rule_of(m->kind)->scope) {
    case SWI_EACH:
        SW_TRY(swi_mutation_choose(c, m, &n));
        return change_each(c, m, n);
    case SWI_JOINT:
        SW_TRY(swi_mutation_choose(c, m, &n));
        return n > 0 ? swi_change_sizes(c, m, n) : SW_OK;
    default:
        return swi_draw_happens(&c->draws, m->probability) ? change(c, m, UINT32_MAX) : SW_OK;
    }
}

/* *genome has lineage; changes are of it, or of what takes its place. */
static sw_status mutate(sw_genome **genome, const sw_genome *parent, const sw_mutate_opts *opts)
{
    size_t n = opts->n_mutations;
    const sw_mutation *list = n > 0 ? opts->mutations : sw_mutations_default(&n);
    sw_status status = SW_OK;
    swi_child c = {.genome = *genome,
                   .opts = opts,
                   .space = opts->space,
                   .parents = {{opts->utilities, opts->n_utilities}}};
    const void *const kept[] = {parent, opts->space};
    sw_call call = {.name = "sw_genome_mutate", .keeps = {SW_CALL_ONE(c.genome), {kept, 2}}};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    for (size_t i = 0; i < n && status == SW_OK; i++) {
        c.draws = swi_draws_of(opts->seed, i + 1); /* not moved by what others draw */
        status = mutate_by(&c, &list[i]);
    }
    status = sw_call_end(&call, status);
    *genome = c.genome;
    swi_child_end(&c);
    return status;
}

static sw_status read_opts(sw_mutate_opts *opts, const sw_mutate_opts *given,
                           const sw_genome *parent, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_mutate_opts, opts, given, call));
    SW_TRY(swi_mutations_check(opts->mutations, opts->n_mutations, call));
    SW_TRY(swi_utility_check(parent, opts->utilities, opts->n_utilities, call));
    if (opts->space != NULL)
        SW_TRY(sw_handle_check(opts->space, SW_HANDLE_SEARCH_SPACE, call));
    if (opts->max_vertices > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "%s: max_vertices must be at most %d (got %u)", call,
                SWI_MAX_VERTICES, opts->max_vertices);
    if (opts->max_size < 0 || opts->max_size > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID, "%s: max_size must be 0 to %d (got %lld)", call, SWI_MAX_UNITS,
                (long long)opts->max_size);
    opts->max_vertices = opts->max_vertices != 0 ? opts->max_vertices : MOST_VERTICES;
    opts->max_size = opts->max_size != 0 ? opts->max_size : MOST_SIZE;
    return SW_OK;
}

sw_status sw_genome_mutate(sw_genome **out, const sw_genome *parent,
                           const sw_mutate_opts *given)
{
    static const char call[] = "sw_genome_mutate";
    sw_mutate_opts opts;
    sw_genome *child;
    SW_TRY(sw_handle_check(parent, SW_HANDLE_GENOME, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(read_opts(&opts, given, parent, call));
    SW_TRY(sw_genome_copy(&child, parent));
    sw_status status = swi_genome_begin_lineage(child);
    if (status == SW_OK)
        status = mutate(&child, parent, &opts);
    if (status != SW_OK)
        swi_genome_free(child);
    else
        *out = child;
    return status;
}
