/* Options of an evolution: checked, defaults set, lists copied. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <string.h>

enum { MOST_MEMBERS = 4096, DEFAULT_VALIDATION = 2000 };

sw_status swi_opts_check(const sw_evolution_opts *o, const char *call)
{
    if (o->population > MOST_MEMBERS)
        SW_FAIL(SW_INVALID, "%s: population must be at most %d (got %u)", call, MOST_MEMBERS,
                o->population);
    if (isnan(o->mutate) || o->mutate > 1 || isnan(o->crossover) || o->crossover > 1)
        SW_FAIL(SW_INVALID,
                "%s: mutate (got %g) and crossover (got %g) must be probabilities, or below 0",
                call, o->mutate, o->crossover);
    if (o->dir != NULL && (o->dir[0] == '\0' || strlen(o->dir) > SWI_EVOLUTION_PATH - 100))
        SW_FAIL(SW_INVALID, "%s: dir must have 1 to %d bytes", call, SWI_EVOLUTION_PATH - 100);
    if ((o->first == NULL) != (o->n_first == 0) ||
        (o->mutations == NULL) != (o->n_mutations == 0) ||
        (o->selections == NULL) != (o->n_selections == 0) ||
        (o->fitness == NULL) != (o->n_fitness == 0))
        SW_FAIL(SW_INVALID, "%s: each list must be given together with its number", call);
    return SW_OK;
}

void swi_opts_defaults(sw_evolution_opts *o)
{
    if (o->population == 0)
        o->population = 20;
    if (o->samples == 0)
        o->samples = 12800;
    o->mutate = o->mutate == 0 ? 0.8 : o->mutate < 0 ? 0 : o->mutate;
    o->crossover = o->crossover == 0 ? 0.3 : o->crossover < 0 ? 0 : o->crossover;
    if (o->patience == 0)
        o->patience = 5;
}

/* Samples and a label each; the same shapes of both. */
static sw_status check_data(sw_evolution *e, const char *call)
{
    sw_dataset_info t = SW_OPTS(sw_dataset_info), v = SW_OPTS(sw_dataset_info);
    SW_TRY(sw_handle_check(e->opts.train, SW_HANDLE_DATASET, call));
    SW_TRY(sw_handle_check(e->opts.validation, SW_HANDLE_DATASET, call));
    sw_dataset_describe(e->opts.train, &t);
    sw_dataset_describe(e->opts.validation, &v);
    const sw_shape *x = &t.field[0].shape, *y = &v.field[0].shape;
    bool same = t.n_fields == v.n_fields && t.n_classes == v.n_classes && x->rank == y->rank &&
                t.field[0].dtype == v.field[0].dtype;
    for (int d = 0; same && d < x->rank; d++)
        same = x->dim[d] == y->dim[d];
    if (!same)
        SW_FAIL(SW_INVALID, "%s: train and validation must have the same fields and classes",
                call);
    if (t.n_fields != 2 || t.n_classes < 2 || (x->rank != 1 && x->rank != 3) ||
        t.field[1].shape.rank != 0)
        SW_FAIL(SW_INVALID,
                "%s: samples must be vectors or images of channels, height and width, with one "
                "label of at least two classes each",
                call);
    e->task = SW_OPTS(sw_task, .channels = x->dim[0], .height = x->rank == 3 ? x->dim[1] : 0,
                      .width = x->rank == 3 ? x->dim[2] : 0, .classes = t.n_classes);
    e->n_train = t.n;
    if (e->opts.validation_samples > (uint64_t)v.n)
        SW_FAIL(SW_INVALID, "%s: validation_samples must be at most %lld (got %llu)", call,
                (long long)v.n, (unsigned long long)e->opts.validation_samples);
    if (e->opts.validation_samples == 0)
        e->opts.validation_samples =
            (uint64_t)(v.n < DEFAULT_VALIDATION ? v.n : DEFAULT_VALIDATION);
    return SW_OK;
}

/* *to: n elements of `from` in a block of our own. */
static sw_status keep(const void **to, const void *from, size_t bytes)
{
    void *block;
    *to = NULL;
    if (bytes == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    *to = memcpy(block, from, bytes);
    return SW_OK;
}

/* The best two go on, the others win tournaments of two. */
static sw_status default_selections(sw_evolution_opts *o)
{
    const uint32_t elite = o->population > 2 ? 2 : o->population - 1;
    sw_selection both[2] = {
        {.kind = SW_SELECT_ELITE, .n = elite, .keep = 1},
        {.kind = SW_SELECT_TOURNAMENT, .n = o->population - elite, .contestants = 2, .p = 1}};
    const void *block;
    const size_t from = elite == 0;
    SW_TRY(keep(&block, both + from, (2 - from) * sizeof *both));
    o->selections = block;
    o->n_selections = 2 - from;
    return SW_OK;
}

/* The last stage selects as many as there are. */
static sw_status check_selections(const sw_evolution_opts *o, const char *call)
{
    const size_t n = o->n_selections;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (o->selections[i].stage == o->selections[n - 1].stage)
            sum += o->selections[i].n;
    if (sum != o->population)
        SW_FAIL(SW_INVALID,
                "%s: the last stage of selection must select the population of %u (got %llu)",
                call, o->population, (unsigned long long)sum);
    return SW_OK;
}

/* Selections refuse now what they would refuse later. */
static sw_status try_selections(const sw_evolution_opts *o)
{
    const size_t n = o->population, bytes = n * (sizeof(double) + sizeof(uint32_t));
    size_t n_out;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    double *fitness = block;
    const sw_status status = sw_select(fitness, n, o->selections, o->n_selections, 0,
                                       (uint32_t *)(void *)(fitness + n), NULL, &n_out);
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status keep_first(sw_evolution *e, const sw_genome *const *first)
{
    sw_genome **list;
    void *block;
    if (e->opts.n_first == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, e->opts.n_first * sizeof *list));
    list = block;
    e->opts.first = (const sw_genome *const *)list;
    for (size_t i = 0; i < e->opts.n_first; i++) {
        sw_genome_info is = SW_OPTS(sw_genome_info);
        SW_TRY(sw_handle_check(first[i], SW_HANDLE_GENOME, "sw_evolution_create"));
        SW_TRY(sw_genome_copy(&list[i], first[i]));
        SW_TRY(sw_genome_describe(list[i], &is));
        if (is.channels != e->task.channels || is.height != e->task.height ||
            is.width != e->task.width || is.classes != e->task.classes)
            SW_FAIL(
                SW_INVALID,
                "sw_evolution_create: genome %zu of opts.first (%s) is for samples of %lld x "
                "%lld x %lld and %lld classes; the data set has %lld x %lld x %lld and %lld",
                (size_t)i, list[i]->name[0] != '\0' ? list[i]->name : "without a name",
                (long long)is.channels, (long long)is.height, (long long)is.width,
                (long long)is.classes, (long long)e->task.channels, (long long)e->task.height,
                (long long)e->task.width, (long long)e->task.classes);
    }
    return SW_OK;
}

/* Lists of the caller's, one by one: what was kept before a failure is freed by end(). */
sw_status swi_opts_keep(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    const void *block;
    sw_evolution_opts *o = &e->opts;
    SW_TRY(check_data(e, call));
    SW_TRY(swi_fitness_read(&e->fitness, given->fitness, given->n_fitness, call));
    SW_TRY(keep(&block, given->mutations, given->n_mutations * sizeof *given->mutations));
    o->mutations = block;
    SW_TRY(keep(&block, given->selections, given->n_selections * sizeof *given->selections));
    o->selections = block;
    if (given->n_selections == 0)
        SW_TRY(default_selections(o));
    SW_TRY(check_selections(o, call));
    SW_TRY(try_selections(o));
    SW_TRY(keep(&block, given->dir, given->dir != NULL ? strlen(given->dir) + 1 : 0));
    o->dir = block;
    return keep_first(e, given->first);
}

void swi_opts_free(sw_evolution *e)
{
    const sw_evolution_opts *o = &e->opts;
    for (size_t i = 0; i < o->n_first && o->first != NULL; i++)
        swi_genome_free((sw_genome *)(uintptr_t)o->first[i]);
    sw_heap_free((void *)(uintptr_t)o->first, SW_HEAP_RECORDS, o->n_first * sizeof *o->first);
    sw_heap_free((void *)(uintptr_t)o->mutations, SW_HEAP_RECORDS,
                 o->n_mutations * sizeof *o->mutations);
    sw_heap_free((void *)(uintptr_t)o->selections, SW_HEAP_RECORDS,
                 o->n_selections * sizeof *o->selections);
    if (o->dir != NULL)
        sw_heap_free((void *)(uintptr_t)o->dir, SW_HEAP_RECORDS, strlen(o->dir) + 1);
}
