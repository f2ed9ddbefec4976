/* The room of a budget: how high a step arena may be in it, and the least budget that a program
 * fits.
 *
 * A budget is one number, and here it is taken apart: slots of its loaders, the models of the
 * call, what the exec itself has, and others. Slots count once, whoever plans: those that are
 * there, or what the caller says where that is more, for a loader that is still to come. An
 * amount that is said to be enough is enough as long as no one else reserves meanwhile, and one
 * byte less is refused. */
#include "alloc/base/message.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include <stdio.h>

static size_t plus(size_t a, size_t b)
{
    return b < SIZE_MAX - a ? a + b : SIZE_MAX;
}

static size_t less(size_t a, size_t b)
{
    return a > b ? a - b : 0; /* others may give back while we look */
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t swi_data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    return exec->backend->data_bytes(exec, args, trace);
}

/* A model may lie in another budget, or in none. */
static bool pays_for(const sw_exec *exec, const sw_model *model)
{
    return model->arena == NULL || sw_arena_budget(model->arena) == exec->target.budget;
}

/* All but the arena. */
static swi_need beside_arena(const sw_exec *exec, const sw_run_args *args,
                             const swi_trace *trace)
{
    swi_need n = {.data = swi_data_bytes(exec, args, trace)};
    size_t taken = sw_arena_height(exec->arena);
    taken += exec->backend->data_height(exec);
    for (int i = 0; i < args->n_models; i++) {
        const sw_model *m = args->models[i];
        if (!pays_for(exec, m))
            continue;
        n.models = plus(n.models, m->bytes);
        if (m->arena != NULL)
            taken += sw_arena_height(m->arena);
    }
    n.others = less(sw_budget_used(exec->target.budget), taken);
    n.bytes = plus(plus(n.others, n.models), n.data);
    return n;
}

size_t swi_arena_limit(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    if (exec->arena_limit != 0)
        return exec->arena_limit;
    if (exec->target.budget == NULL || args->immediate)
        return SIZE_MAX;
    return less(sw_budget_limit(exec->target.budget), beside_arena(exec, args, trace).bytes);
}

swi_need swi_need_of(const sw_exec *exec, const sw_run_args *args, const swi_program *p)
{
    const size_t arena = args->immediate ? p->info.immediate_bytes : p->height;
    swi_need n = {.models = p->model_bytes,
                  .data = swi_data_bytes(exec, args, &p->trace),
                  .arena = arena};
    if (exec->target.budget == NULL) {
        n.data = n.data != 0 ? n.data : p->slot_bytes;
        n.bytes = plus(plus(n.models, n.data), arena);
        return n;
    }
    n = beside_arena(exec, args, &p->trace);
    n.arena = larger(arena, sw_arena_height(exec->arena)); /* it never shrinks */
    n.bytes = plus(n.bytes, n.arena);
    return n;
}

/* ", the budget is B, U of them taken, ..." */
static void say_limit(const sw_exec *exec, char *to, size_t bytes)
{
    char card[240];
    int n = 0;
    if (exec->target.budget != NULL)
        n = sw_message(to, bytes, ", the budget is %zu", sw_budget_limit(exec->target.budget));
    if (sw_budget_used(exec->target.budget) > 0)
        n += sw_message(to + n, bytes - (size_t)n, ", %zu of them taken",
                        sw_budget_used(exec->target.budget));
    sw_message(to + n, bytes - (size_t)n, "%s",
               swi_device_free_text(exec->target.device, card, sizeof card));
}

sw_status swi_does_not_fit(const sw_exec *exec, const sw_run_args *args, const swi_program *p,
                           sw_status status)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    swi_plan_info(p, swi_data_bytes(exec, args, &p->trace), &info);
    const swi_need need = swi_need_of(exec, args, p);
    char limit[320] = "", cause[160] = "", others[64] = "", again[160] = "";
    if (exec->target.budget == NULL) /* it was no budget: who refused says why */
        sw_message(cause, sizeof cause, "%.150s: ", sw_last_error());
    say_limit(exec, limit, sizeof limit);
    if (need.others > 0)
        sw_message(others, sizeof others, ", others in the budget %zu", need.others);
    if (info.n_repeats > 0 && !args->immediate)
        sw_message(again, sizeof again,
                   " although %u ops would run again in backward (%zu bytes without that)",
                   info.n_repeats, plus(less(need.bytes, need.arena), info.plain_arena_bytes));
    return sw_error_set(status, __FILE__, __LINE__,
                        "%sdoes not fit: %zu bytes are needed (model %zu, arena %zu, data "
                        "%zu%s)%s%s; the peak is at %s, held by %s",
                        cause, need.bytes, need.models, need.arena, need.data, others, again,
                        limit, info.peak_op, info.holders);
}
