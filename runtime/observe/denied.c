/* The profile's record of a request that was denied, made before the caller learns of it: what
 * was requested, what there was, and who holds the rest. It takes no memory: there may be none.
 *
 * A program's holders are those of its peak, whether it was refused by its plan or when it was
 * to run; in immediate mode they are all that was made before. */
#include "runtime/model/model_label.h"
#include "alloc/base/size.h"
#include "profiler/record/prof_heap.h"
#include "runtime/plan/program_internal.h"
#include "runtime/exec/run_internal.h"
#include "runtime/observe/observe.h"
#include "runtime/observe/breakdown.h"
#include <stdio.h>
#include <string.h>

static bool wants(const sw_prof_denied *d, size_t bytes)
{
    return d->n_holders < SW_DENIED_HOLDERS || bytes > d->holder[d->n_holders - 1].bytes;
}

static void add_models(sw_prof_denied *d, const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 1; i < args->models[m]->n_entries; i++) {
            const swi_entry *e = &args->models[m]->entries[i];
            char layer[SWI_SHOWN_BYTES], name[SWI_SHOWN_BYTES];
            swi_entry_layer(args, args->models[m], e->name, layer);
            swi_entry_shown(args, args->models[m], e->name, name);
            sw_denied_add(d, swi_role_name(e->role), layer, name, sw_size_round(e->bytes));
        }
}

/* Looking for a name is long: only those that will be shown have one. */
static void add_storage(sw_prof_denied *d, const swi_trace *t, uint32_t s)
{
    const swi_storage *x = &t->storages[s];
    char name[SW_DENIED_NAME] = "";
    if (wants(d, x->rounded))
        (void)swi_storage_name(t, s, name, sizeof name);
    sw_denied_add(d, swi_role_name(x->role), swi_string(t, x->layer), name, x->rounded);
}

static bool is_input(const swi_storage *x)
{
    return x->segment >= SWI_SEG_INPUT && x->segment < SWI_SEG_MODEL;
}

static void add_peak(sw_prof_denied *d, const swi_program *p)
{
    const swi_trace *t = &p->trace;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (is_input(&t->storages[s]) ||
            (swi_takes_part(t, s) && t->storages[s].birth <= p->peak_op &&
             t->storages[s].death >= p->peak_op))
            add_storage(d, t, s);
}

/* In immediate mode nothing dies: all that the trace makes. */
static void add_bump(sw_prof_denied *d, const swi_trace *t, uint32_t n)
{
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (is_input(&t->storages[s]) || (t->storages[s].segment == SWI_SEG_STEP && s < n))
            add_storage(d, t, s);
}

static void of_program(sw_prof_denied *d, const sw_exec *exec, const sw_run_args *args)
{
    const swi_program *p = exec->attempt->program;
    const swi_need need = swi_need_of(exec, args, p);
    d->program = p->id;
    d->label = "the step arena";
    d->arena_bytes = need.arena;
    d->request_bytes = args->immediate ? p->info.immediate_bytes : p->height;
    d->model_bytes = need.models;
    d->data_bytes = need.data;
    d->others_bytes = need.others;
    d->needed_bytes = need.bytes;
    if (args->immediate) {
        swi_trace capacity = {0};
        const swi_trace *t = NULL;
        /* Where there is no memory for it, what runs says nearly the same. */
        const bool known = swi_program_traced(p, &capacity, &t) == SW_OK;
        add_bump(d, known ? t : &p->trace, UINT32_MAX);
        swi_trace_free(&capacity);
        return;
    }
    d->op = exec->attempt->program->info.peak_op;
    d->phase = sw_phase_name(p->n_ops > 0 ? p->ops[p->peak_op].phase : SW_DATA);
    add_peak(d, p);
}

/* The ops are appended one by one: the last one is the refused one. */
static void of_immediate(sw_prof_denied *d, const sw_exec *exec, const sw_run_args *args,
                         char *name, size_t capacity, char *op, size_t op_capacity)
{
    const swi_trace *t = &exec->ctx.trace;
    add_bump(d, t, exec->ctx.done_storages);
    for (int m = 0; m < args->n_models; m++)
        d->model_bytes += args->models[m]->bytes;
    d->arena_bytes = sw_arena_live(exec->arena);
    if (t->n_nodes > 0) {
        const swi_node *node = &t->nodes[t->n_nodes - 1];
        d->op = swi_node_name(t, node, op, op_capacity);
        d->phase = sw_phase_name(node->phase);
    }
    if (!exec->push_refused || exec->ctx.done_storages >= t->n_storages)
        return;
    d->label = swi_storage_name(t, exec->ctx.done_storages, name, capacity);
    d->request_bytes = t->storages[exec->ctx.done_storages].rounded;
    d->arena_bytes += d->request_bytes;
}

static const char *limit_of(const sw_prof_denied *d)
{
    const size_t left = d->limit_bytes > d->used_bytes ? d->limit_bytes - d->used_bytes : 0;
    const bool budget =
        d->limit_bytes > 0 && (d->needed_bytes > d->limit_bytes || d->request_bytes > left);
    return budget ? "budget" : "memory";
}

/* limited_by: NULL where the budget, if any, tells. */
static void write_record(sw_exec *exec, const sw_run_args *args, uint64_t step,
                         const char *limited_by, size_t limit_bytes, const char *message)
{
    sw_prof_denied d = {.exec = exec->rec.number, .program = SW_PROF_NONE};
    char name[SW_DENIED_NAME], op[SW_DENIED_NAME];
    d.message = message;
    d.step = step;
    d.run = swi_run_name(args);
    d.batch = swi_run_batch(args);
    if (exec->target.budget != NULL) {
        d.limit_bytes = sw_budget_limit(exec->target.budget);
        d.used_bytes = sw_budget_used(exec->target.budget);
    }
    add_models(&d, args);
    if (exec->attempt != NULL)
        of_program(&d, exec, args);
    else if (step > 0 && args->immediate)
        of_immediate(&d, exec, args, name, sizeof name, op, sizeof op);
    if (limited_by != NULL) { /* all of it at once */
        d.limit_bytes = limit_bytes;
        d.label = "model, arena and data";
        d.request_bytes = d.needed_bytes;
    }
    d.limited_by = limited_by != NULL ? limited_by : limit_of(&d);
    sw_prof_denied_record(exec->rec.profile, &d);
}

void swi_profile_denied(sw_exec *exec, const sw_run_args *args, bool running)
{
    if (exec->rec.profile == NULL)
        return;
    char message[512];
    snprintf(message, sizeof message, "%s", sw_last_error());
    /* The plan that was refused says more than any summary of it. */
    if (exec->attempt != NULL && !args->immediate)
        swi_profile_plan(exec, args, exec->attempt);
    write_record(exec, args, running ? args->step + 1 : 0, NULL, 0, message);
}

void swi_profile_refused(sw_exec *exec, const sw_run_args *given, const char *limited_by,
                         size_t limit_bytes, const char *message)
{
    sw_run_args args;
    bool fresh;
    if (exec->rec.profile == NULL || swi_read_args(&args, given, false, "profile") != SW_OK ||
        swi_enter(exec, &args, SW_FRAME) != SW_OK)
        return;
    exec->attempt = NULL;
    if (swi_exec_program(exec, &args, &exec->attempt, &fresh) != SW_OK)
        exec->attempt = NULL;
    if (exec->attempt != NULL && !args.immediate)
        swi_profile_plan(exec, &args, exec->attempt);
    write_record(exec, &args, 0, limited_by, limit_bytes, message);
    swi_leave(exec, &args);
}
