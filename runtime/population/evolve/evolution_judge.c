/* The worth of a generation: numbers, fitness, ranks, and the best so far. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void take_numbers(const sw_evolution *e, swi_one *one)
{
    const double n = (double)e->opts.validation_samples;
    const uint64_t samples = one->made * (uint64_t)one->genome->batch;
    one->loss = one->invalid ? (double)NAN : one->eval_loss / n;
    one->accuracy = one->invalid ? (double)NAN : one->eval_right / n;
    one->train_accuracy =
        one->counted > 0 ? one->accuracy_sum / (double)one->counted : (double)NAN;
    one->ns_per_sample = samples > 0 ? one->ns / samples : 0;
}

static void judge_one(sw_evolution *e, swi_one *one)
{
    uint32_t which;
    take_numbers(e, one);
    const sw_candidate view = swi_one_view(one);
    e->shown = view.genome;
    const bool valid =
        swi_fitness_of(&e->fitness, &view, &one->averages, one->objectives, &which);
    e->shown = NULL;
    one->fitness = valid ? one->objectives[0] : (double)NAN;
    if (valid || one->invalid)
        return;
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "fitness %u, %s, is no finite number", which,
                   sw_fitness_kind_name(e->fitness.terms[which].kind));
}

/* Selection rounds accuracy by default; the best is named by what it is. Who is better does not
 * depend on waves: of equals the first, and of one generation the one with the smaller id. */
static bool is_better(const sw_evolution *e, const swi_one *one, const swi_one *than)
{
    if (one->invalid || isnan(one->fitness))
        return false;
    if (than == NULL)
        return true;
    if (e->fitness.rounded && one->accuracy != than->accuracy)
        return one->accuracy > than->accuracy;
    if (one->fitness != than->fitness)
        return one->fitness > than->fitness;
    return (than != &e->best || than->rest.generation == e->generation) && one->id < than->id;
}

static sw_status become_best(sw_evolution *e, const swi_one *one)
{
    sw_genome *genome;
    swi_one *best = &e->best;
    SW_TRY(sw_genome_copy(&genome, one->genome));
    const sw_status status = swi_best_store(e, one);
    if (status != SW_OK) {
        swi_genome_free(genome);
        return status;
    }
    const swi_rest rest = best->rest;
    swi_genome_free(best->genome);
    *best = *one;
    best->genome = genome;
    best->net = NULL;
    best->group = NULL;
    best->member = (sw_member){.of = NULL};
    best->train = best->eval = NULL;
    best->ops = NULL;
    best->ops_bytes = best->ops_cap = 0;
    best->rest = rest;
    e->has_best = true;
    return SW_OK;
}

sw_status swi_evolution_judge_wave(sw_evolution *e)
{
    const swi_one *best = e->has_best ? &e->best : NULL;
    for (uint32_t k = 0; k < e->n_wave; k++) {
        swi_one *one = &e->members[e->wave[k]];
        judge_one(e, one);
        best = is_better(e, one, best) ? one : best;
    }
    return best != NULL && best != &e->best ? become_best(e, best) : SW_OK;
}

static void note_order(sw_evolution *e, const double *order, const uint32_t *ranks)
{
    for (uint32_t i = 0; i < e->opts.population; i++) {
        e->members[i].order = order[i];
        e->members[i].rank = ranks[i];
    }
}

sw_status swi_evolution_judge(sw_evolution *e)
{
    const size_t n = e->opts.population;
    const size_t bytes = n * ((SWI_MAX_OBJECTIVES + 1) * sizeof(double) + sizeof(uint32_t));
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    double *objectives = block, *order = objectives + n * SWI_MAX_OBJECTIVES;
    uint32_t *ranks = (uint32_t *)(void *)(order + n);
    for (size_t i = 0; i < n; i++)
        memcpy(objectives + i * SWI_MAX_OBJECTIVES, e->members[i].objectives,
               sizeof e->members[i].objectives);
    const sw_status status = swi_fitness_order(&e->fitness, objectives, n, order, ranks);
    if (status == SW_OK)
        note_order(e, order, ranks);
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status == SW_OK ? swi_evolution_log_write(e) : status;
}
