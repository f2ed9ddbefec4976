/* An evolution: made and ended, and what drives it from one call to the next. */
#include "runtime/population/evolve/evolution.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/base/owner.h"
#include "runtime/population/evolve/search_space.h"
#include <limits.h>
#include <math.h>
#include <string.h>

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
    for (int i = 0; i < 2; i++)
        SW_TRY(array(&e->states[i].all, n + 2, sizeof *e->states[i].all));
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
    for (int i = 0; i < 2; i++)
        sw_heap_free(e->states[i].all, SW_HEAP_RECORDS, (n + 2) * sizeof *e->states[i].all);
}

static sw_status make(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, &e->net_opts, given->net, call));
    e->net_opts.utility = 1;
    e->opts.net = &e->net_opts;
    swi_opts_defaults(&e->opts);
    SW_TRY(swi_opts_keep(e, given, call));
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
    swi_search_space_free(e->own_space);
    swi_opts_free(e);
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
    SW_TRY(swi_opts_check(&opts, call));
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
    if (sw_handle_ends(e, SW_HANDLE_EVOLUTION, call))
        end(e);
}

/* ---- going on ---------------------------------------------------------------------------- */

/* First weights, and the files of generation 0. */
static sw_status start(sw_evolution *e)
{
    if (e->opts.dir != NULL)
        SW_TRY(swi_states_open(e));
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
    e->drop_old |= !e->resumed; /* another run's */
    if (e->opts.dir != NULL && !e->resumed)
        SW_TRY(swi_generation_write(e));
    else if (e->opts.dir != NULL)
        swi_states_sweep(e); /* what a process left that was ended */
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

SW_FRAME_OWN static sw_status go_on(sw_evolution *e, sw_evolve_what *what)
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
        p.all += one->assigned * (uint64_t)one->genome->batch;
        p.done += (done ? one->assigned : one->made) * (uint64_t)one->genome->batch;
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
    const void *const kept[] = {e->exec, e->space};
    sw_call of = {
        .name = call, .uses = SW_CALL_ONE(e), .keeps = {{kept, 2}, SW_CALL_ONE(e->shown)}};
    SW_TRY(sw_call_begin(&of, SW_FRAME));
    const sw_status status = sw_call_end(&of, go_on(e, &what));
    if (status != SW_OK) {
        e->broken = true;
        return status;
    }
    tell(e, what, out);
    return SW_OK;
}
