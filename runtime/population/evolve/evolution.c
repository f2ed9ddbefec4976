/* An evolution: made and ended, its options, and what drives it from one call to the next. */
#include "runtime/population/evolve/evolution.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/base/owner.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum { MOST_MEMBERS = 4096, DEFAULT_VALIDATION = 2000 };

/* ---- options ----------------------------------------------------------------------------- */

static sw_status check_numbers(const sw_evolution_opts *o, const char *call)
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

static void set_defaults(sw_evolution_opts *o)
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
    sw_dataset_info t = {.size = sizeof t}, v = {.size = sizeof v};
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
    e->task = (sw_task){.size = sizeof e->task,
                        .channels = x->dim[0],
                        .height = x->rank == 3 ? x->dim[1] : 0,
                        .width = x->rank == 3 ? x->dim[2] : 0,
                        .classes = t.n_classes};
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

/* What they refuse, they refuse now. */
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
        sw_genome_info is = {.size = sizeof is};
        SW_TRY(sw_handle_check(first[i], SW_HANDLE_GENOME, "sw_evolution_create"));
        SW_TRY(sw_genome_copy(&list[i], first[i]));
        SW_TRY(sw_genome_look(list[i], &is));
        if (is.channels != e->task.channels || is.height != e->task.height ||
            is.width != e->task.width || is.classes != e->task.classes)
            SW_FAIL(SW_INVALID,
                    "sw_evolution_create: genome %s is of another task than the "
                    "data set's",
                    list[i]->name);
    }
    return SW_OK;
}

/* Lists of the caller's, one by one: what was kept before a failure is freed by end(). */
static sw_status keep_lists(sw_evolution *e, const sw_evolution_opts *given, const char *call)
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

static void free_lists(sw_evolution *e)
{
    const sw_evolution_opts *o = &e->opts;
    for (size_t i = 0; i < o->n_first && o->first != NULL; i++)
        sw_genome_destroy((sw_genome *)(uintptr_t)o->first[i]);
    sw_heap_free((void *)(uintptr_t)o->first, SW_HEAP_RECORDS, o->n_first * sizeof *o->first);
    sw_heap_free((void *)(uintptr_t)o->mutations, SW_HEAP_RECORDS,
                 o->n_mutations * sizeof *o->mutations);
    sw_heap_free((void *)(uintptr_t)o->selections, SW_HEAP_RECORDS,
                 o->n_selections * sizeof *o->selections);
    if (o->dir != NULL)
        sw_heap_free((void *)(uintptr_t)o->dir, SW_HEAP_RECORDS, strlen(o->dir) + 1);
}

/* ---- made and ended ---------------------------------------------------------------------- */

static sw_status array(void *to, size_t n, size_t bytes)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, n * bytes));
    memcpy(to, &block, sizeof block);
    return SW_OK;
}

static sw_status make_arrays(sw_evolution *e)
{
    const size_t n = e->opts.population;
    SW_TRY(array(&e->members, n, sizeof *e->members));
    SW_TRY(array(&e->children, n, sizeof *e->children));
    SW_TRY(array(&e->wave, n, sizeof *e->wave));
    SW_TRY(array(&e->waved, n, sizeof *e->waved));
    SW_TRY(array(&e->call_groups, n, sizeof *e->call_groups));
    SW_TRY(array(&e->call_args, n, sizeof *e->call_args));
    SW_TRY(array(&e->call_of, n, sizeof *e->call_of));
    SW_TRY(array(&e->making.chosen, n, sizeof *e->making.chosen));
    SW_TRY(array(&e->making.kept, n, sizeof *e->making.kept));
    for (size_t i = 0; i < n; i++) {
        swi_one_begin(&e->members[i]);
        swi_one_begin(&e->children[i]);
    }
    swi_one_begin(&e->best);
    return SW_OK;
}

static void free_arrays(sw_evolution *e)
{
    const size_t n = e->opts.population;
    for (size_t i = 0; i < n && e->members != NULL; i++)
        swi_one_free(e, &e->members[i]);
    for (size_t i = 0; i < n && e->children != NULL; i++)
        swi_one_free(e, &e->children[i]);
    swi_one_free(e, &e->best);
    sw_heap_free(e->members, SW_HEAP_RECORDS, n * sizeof *e->members);
    sw_heap_free(e->children, SW_HEAP_RECORDS, n * sizeof *e->children);
    sw_heap_free(e->wave, SW_HEAP_RECORDS, n * sizeof *e->wave);
    sw_heap_free(e->waved, SW_HEAP_RECORDS, n * sizeof *e->waved);
    sw_heap_free(e->call_groups, SW_HEAP_RECORDS, n * sizeof *e->call_groups);
    sw_heap_free(e->call_args, SW_HEAP_RECORDS, n * sizeof *e->call_args);
    sw_heap_free(e->call_of, SW_HEAP_RECORDS, n * sizeof *e->call_of);
    sw_heap_free(e->making.chosen, SW_HEAP_RECORDS, n * sizeof *e->making.chosen);
    sw_heap_free(e->making.kept, SW_HEAP_RECORDS, n * sizeof *e->making.kept);
    sw_heap_free(e->old, SW_HEAP_RECORDS, e->cap_old * sizeof *e->old);
}

static sw_status make(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, &e->net_opts, given->net, call));
    e->net_opts.utility = 1;
    e->opts.net = &e->net_opts;
    set_defaults(&e->opts);
    SW_TRY(keep_lists(e, given, call));
    e->space = e->opts.space;
    if (e->space == NULL) {
        SW_TRY(sw_search_space_default(&e->own_space, &e->task));
        e->space = e->own_space;
    }
    SW_TRY(sw_handle_check(e->space, SW_HANDLE_SEARCH_SPACE, call));
    e->budget = swi_target_of(e->exec)->budget;
    sw_budget_share(e->budget);
    e->others = sw_budget_used(e->budget);
    e->lanes = swi_target_of(e->exec)->threads;
    e->next_id = 1;
    SW_TRY(make_arrays(e));
    return swi_evolution_populate(e);
}

static void end(sw_evolution *e)
{
    sw_file_drop(e->history);
    free_arrays(e);
    swi_evolution_use_lanes(e, INT_MAX); /* where others have members there */
    swi_feeds_free(e);
    sw_search_space_destroy(e->own_space);
    free_lists(e);
    sw_budget_leave(e->budget);
    sw_handle_give(e, SW_HANDLE_EVOLUTION, sizeof *e);
}

sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec, const sw_evolution_opts *given)
{
    static const char call[] = "sw_evolution_create";
    sw_evolution_opts opts;
    void *block;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_evolution_opts, &opts, given, call));
    SW_TRY(check_numbers(&opts, call));
    if (!swi_target_of(exec)->device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "%s: architectures evolve on the CPU; give an exec of it",
                call);
    SW_TRY(sw_handle_take(&block, SW_HANDLE_EVOLUTION, sizeof(sw_evolution)));
    sw_evolution *e = block;
    e->exec = exec;
    e->opts = opts;
    e->opts.first = NULL; /* the caller's lists: ours take their place one by one */
    e->opts.mutations = NULL;
    e->opts.selections = NULL;
    e->opts.fitness = NULL;
    e->opts.dir = NULL;
    const sw_status status = make(e, &opts, call);
    if (status != SW_OK) {
        end(e);
        return status;
    }
    *out = e;
    return SW_OK;
}

void sw_evolution_destroy(sw_evolution *e)
{
    static const char call[] = "sw_evolution_destroy";
    if (sw_handle_ends(e, SW_HANDLE_EVOLUTION, call) && swi_may_destroy(call, SWI_FRAME))
        end(e);
}

/* ---- going on ---------------------------------------------------------------------------- */

/* First weights, and the files of generation 0. */
static sw_status start(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        void *scratch = NULL;
        unsigned char *to = NULL;
        const size_t bytes = one->need.member;
        if (one->rest.there) /* it goes on */
            continue;
        if (e->opts.dir != NULL)
            SW_TRY(swi_charged_take(e, &scratch, bytes, &e->scratch_bytes));
        sw_status status = swi_rest_begin(e, one, scratch, &to);
        if (status == SW_OK)
            status = swi_net_begin(one->net, to, swi_member_seed(e, one->id));
        if (status == SW_OK)
            status = swi_rest_end(e, one, to, 0);
        swi_charged_give(e, scratch, bytes, &e->scratch_bytes);
        SW_TRY(status);
    }
    if (e->opts.dir != NULL)
        SW_TRY(swi_evolution_log_begin(e));
    if (e->opts.dir != NULL && !e->resumed)
        SW_TRY(swi_generation_write(e));
    e->phase = SWI_PHASE_TRAIN;
    return swi_evolution_place(e);
}

static sw_status train(sw_evolution *e, sw_evolve_what *what)
{
    bool ended;
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_evolution_run(e, &ended));
    if (!ended)
        return SW_OK;
    SW_TRY(swi_evolution_judge(e));
    e->phase = SWI_PHASE_EVALUATED;
    *what = SW_EVOLVE_EVALUATED;
    return SW_OK;
}

static sw_status breed(sw_evolution *e, sw_evolve_what *what)
{
    bool ended;
    if (e->phase == SWI_PHASE_EVALUATED)
        SW_TRY(swi_evolution_breed_begin(e));
    e->phase = SWI_PHASE_BREED;
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_evolution_breed(e, &ended));
    if (!ended)
        return SW_OK;
    e->phase = SWI_PHASE_TRAIN;
    *what = SW_EVOLVE_GENERATION;
    return SW_OK;
}

static sw_status go_on(sw_evolution *e, sw_evolve_what *what)
{
    *what = SW_EVOLVE_STOPPED;
    if (e->opts.stop != NULL && e->opts.stop(e->opts.stop_user) != 0)
        return SW_OK;
    if (e->phase == SWI_PHASE_NEW)
        SW_TRY(start(e));
    if (e->phase == SWI_PHASE_TRAIN)
        return train(e, what);
    return breed(e, what);
}

static void tell(const sw_evolution *e, sw_evolve_what what, sw_evolve_progress *out)
{
    sw_evolve_progress p = {.size = out->size,
                            .what = what,
                            .generation = e->generation,
                            .steps = e->steps,
                            .longest_gap_ns = e->longest_gap,
                            .mutants = e->mutants,
                            .refused = e->refused};
    for (uint32_t i = 0; i < e->opts.population; i++) {
        const swi_one *one = &e->members[i];
        const bool done = one->ended || one->invalid;
        p.all += one->todo * (uint64_t)one->genome->batch;
        p.done += (done ? one->todo : one->made) * (uint64_t)one->genome->batch;
    }
    if (e->phase == SWI_PHASE_BREED) /* what is done already is of the next one */
        p.done = p.all;
    swi_struct_write(SWI_STRUCT_sw_evolve_progress, out, &p);
}

sw_status sw_evolution_advance(sw_evolution *e, sw_evolve_progress *out)
{
    static const char call[] = "sw_evolution_advance";
    sw_evolve_what what;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolve_progress, out->size, call));
    if (e->broken)
        SW_FAIL(SW_STALE,
                "%s: an earlier call failed: destroy it, and go on with sw_evolution_resume",
                call);
    const sw_status status = go_on(e, &what);
    if (status != SW_OK) {
        e->broken = true;
        return status;
    }
    tell(e, what, out);
    return SW_OK;
}
