/* Genomes out of search spaces: body, head and what is missing, then how they are trained.
 * Where something does not fit, another draw begins from the next stream of the seed; after
 * ATTEMPTS of them the space has no genome for the task, as far as is known. */
#include "runtime/population/evolve/search_space_internal.h"
#include <math.h>
#include <stdio.h>

#define ATTEMPTS 100

static void draw_training(const sw_search_space *s, sw_genome *g, swi_draws *d)
{
    const swi_space_training *t = &s->training;
    snprintf(g->optimizer, sizeof g->optimizer, "%s",
             t->optimizers[swi_draw_below(d, (uint32_t)t->n_optimizers)]);
    const double u = swi_draw_unit(d);
    g->lr = (float)(t->lr_low < t->lr_high
                        ? exp(log(t->lr_low) + u * (log(t->lr_high) - log(t->lr_low)))
                        : t->lr_low);
    const swi_drawn range = {(double)t->batch_low, (double)t->batch_high, 1, 0, 0};
    g->batch = t->n_batches > 0 ? t->batches[swi_draw_below(d, (uint32_t)t->n_batches)]
                                : swi_space_draw_whole(s, &range, d);
}

/* A vector of the classes. Where the tree ended with the size "classes", only a pool may be
 * missing. */
static sw_status draw_end(swi_drawing *d, uint32_t *at)
{
    sw_genome *g = d->genome;
    swi_vertex pool = swi_vertex_of(SW_VERTEX_GLOBAL_AVG_POOL);
    swi_vertex last = swi_vertex_of(SW_VERTEX_LINEAR);
    last.size = d->classes;
    last.shield = SW_SHIELD_SIZE | SW_SHIELD_REMOVE | SW_SHIELD_OUTPUTS | SW_SHIELD_CROSSOVER;
    if (g->vertices[*at].height > 0)
        SW_TRY(swi_space_put(d, &pool, at));
    if (!d->ended)
        SW_TRY(swi_space_put(d, &last, at));
    if (swi_genome_find(g, "out") == UINT32_MAX)
        snprintf(g->vertices[*at].name, SWI_VERTEX_NAME, "out");
    return SW_OK;
}

static sw_status draw_all(swi_drawing *d)
{
    uint32_t at = 0, bad;
    SW_TRY(swi_space_draw_node(d, d->space->body, &at));
    if (d->space->head != 0)
        SW_TRY(swi_space_draw_node(d, d->space->head, &at));
    SW_TRY(draw_end(d, &at));
    draw_training(d->space, d->genome, d->draws);
    return swi_genome_check(d->genome, &bad);
}

static sw_status attempt(const sw_search_space *s, const sw_task *task, uint64_t seed,
                         uint64_t number, sw_genome **out)
{
    swi_draws draws = swi_draws_of(seed, number);
    swi_drawing d = {.space = s, .draws = &draws, .classes = task->classes};
    SW_TRY(swi_genome_new(&d.genome, task));
    sw_status status = swi_genome_infer(d.genome, NULL);
    if (status == SW_OK)
        status = draw_all(&d);
    if (status != SW_OK)
        swi_genome_free(d.genome);
    else
        *out = d.genome;
    return status;
}

static sw_status check_task(const sw_task *t, const char *call)
{
    const bool vector = t->height == 0 && t->width == 0;
    if (t->channels < 1 || t->channels > SWI_MAX_UNITS || t->classes < 1 ||
        t->classes > SWI_MAX_UNITS ||
        (!vector && (t->height < 1 || t->height > SWI_MAX_UNITS || t->width < 1 ||
                     t->width > SWI_MAX_UNITS)))
        SW_FAIL(SW_INVALID,
                "%s: a task must have channels, classes, height and width of 1 to %d; height "
                "and width may be 0 (got %lld, %lld, %lld and %lld)",
                call, SWI_MAX_UNITS, (long long)t->channels, (long long)t->classes,
                (long long)t->height, (long long)t->width);
    return SW_OK;
}

sw_status sw_genome_draw(sw_genome **out, const sw_search_space *s, const sw_task *given,
                         uint64_t seed)
{
    static const char call[] = "sw_genome_draw";
    sw_task task;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SEARCH_SPACE, call));
    if (out == NULL || given == NULL)
        SW_FAIL(SW_INVALID, "%s: task and out must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_task, &task, given, call));
    SW_TRY(check_task(&task, call));
    sw_status status = SW_INVALID;
    for (uint64_t number = 0; number < ATTEMPTS && status == SW_INVALID; number++)
        status = attempt(s, &task, seed, number, out);
    if (status != SW_INVALID)
        return status;
    char why[400];
    snprintf(why, sizeof why, "%s", sw_last_error());
    SW_FAIL(SW_INVALID, "%s: none of %d draws was a genome of the task; the last: %s", call,
            ATTEMPTS, why);
}
