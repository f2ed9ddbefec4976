/* Shares: the bytes of a step by role and by layer, as planned and as the arena's births and
 * deaths have them.
 *
 * A run only notes its births and deaths; what they come to is worked out when somebody asks.
 */
#include "alloc/base/size.h"
#include "profiler/record/prof_heap.h"
#include "runtime/base/structs.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include "runtime/plan/program_internal.h"
#include <stdio.h>
#include <string.h>

static sw_status add_line(swi_breakdown *x, const char *name)
{
    SW_TRY(sw_heap_reserve(&x->lines, SW_HEAP_PROGRAMS, &x->cap, x->n + 1));
    swi_breakdown_line *line = &x->lines[x->n++];
    memset(line, 0, sizeof *line);
    snprintf(line->name, sizeof line->name, "%s", name);
    return SW_OK;
}

sw_status swi_breakdown_empty(swi_breakdown *x)
{
    x->n = 0;
    x->found = SWI_ROLE_COUNT;
    x->live = x->peak = 0;
    for (int role = 0; role < SWI_ROLE_COUNT; role++)
        SW_TRY(add_line(x, swi_role_name((swi_role)role)));
    return add_line(x, "");
}

static bool is_line(swi_breakdown *x, uint32_t i, const char *layer)
{
    if (i < SWI_ROLE_COUNT || i >= x->n || strcmp(x->lines[i].name, layer) != 0)
        return false;
    x->found = i;
    return true;
}

/* Forward comes by the layers in their order and backward against it: the next one asked for is
 * looked for on both sides of the last. */
sw_status swi_breakdown_layer(swi_breakdown *x, const char *layer, uint32_t *line)
{
    const uint32_t from = x->found;
    for (uint32_t d = 0; d < x->n; d++)
        if (is_line(x, from + d, layer) || (d <= from && is_line(x, from - d, layer))) {
            *line = x->found;
            return SW_OK;
        }
    SW_TRY(add_line(x, layer));
    *line = x->found = x->n - 1;
    return SW_OK;
}

sw_status swi_breakdown_base(swi_breakdown *x, swi_role role, const char *layer, size_t bytes)
{
    uint32_t line;
    SW_TRY(swi_breakdown_layer(x, layer, &line));
    x->lines[role].base += bytes;
    x->lines[line].base += bytes;
    return SW_OK;
}

void swi_breakdown_begin(swi_breakdown *x)
{
    x->live = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        swi_breakdown_line *line = &x->lines[i];
        line->live = line->at_peak = line->peak = line->base;
        if (i < SWI_ROLE_COUNT)
            x->live += line->base;
    }
    x->peak = x->live;
}

static void grow(swi_breakdown_line *line, size_t bytes)
{
    line->live += bytes;
    line->peak = line->live > line->peak ? line->live : line->peak;
}

sw_status swi_breakdown_born(swi_breakdown *x, swi_role role, const char *layer, size_t bytes)
{
    uint32_t line;
    SW_TRY(swi_breakdown_layer(x, layer, &line));
    grow(&x->lines[role], bytes);
    grow(&x->lines[line], bytes);
    x->live += bytes;
    return SW_OK;
}

sw_status swi_breakdown_died(swi_breakdown *x, swi_role role, const char *layer, size_t bytes)
{
    uint32_t line;
    SW_TRY(swi_breakdown_layer(x, layer, &line));
    x->lines[role].live -= bytes;
    x->lines[line].live -= bytes;
    x->live -= bytes;
    return SW_OK;
}

void swi_breakdown_mark(swi_breakdown *x)
{
    if (x->live <= x->peak)
        return;
    x->peak = x->live;
    for (uint32_t i = 0; i < x->n; i++)
        x->lines[i].at_peak = x->lines[i].live;
}

static sw_status copy_base(swi_breakdown *to, const swi_breakdown *from)
{
    SW_TRY(swi_breakdown_empty(to));
    for (uint32_t i = SWI_ROLE_COUNT + 1; i < from->n; i++)
        SW_TRY(add_line(to, from->lines[i].name));
    for (uint32_t i = 0; i < from->n; i++)
        to->lines[i].base = from->lines[i].base;
    swi_breakdown_begin(to);
    return SW_OK;
}

/* Empty `to`, then the base alone: what models and inputs hold in every phase. */
static sw_status breakdown_of_args(swi_breakdown *to, const sw_run_args *args)
{
    SW_TRY(swi_breakdown_empty(to));
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 1; i < args->models[m]->n_entries; i++) {
            const swi_entry *e = &args->models[m]->entries[i];
            char layer[SWI_SHOWN_BYTES];
            swi_entry_layer(args, args->models[m], e->name, layer);
            SW_TRY(swi_breakdown_base(to, e->role, layer, sw_size_round(e->bytes)));
        }
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_type type = {args->inputs[i].dtype, SW_PLAIN, args->inputs[i].shape};
        SW_TRY(swi_breakdown_base(to, SWI_ROLE_INPUT, "", sw_size_round(sw_type_bytes(&type))));
    }
    swi_breakdown_begin(to);
    return SW_OK;
}

/* ---- by the plan ------------------------------------------------------------------------- */

static sw_status follow_plan(swi_breakdown *to, const swi_program *p)
{
    const swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_run_op *op = &p->ops[i];
        for (uint32_t k = 0; k < op->n_births; k++) {
            const swi_storage *x = &t->storages[p->births[op->births + k]];
            SW_TRY(swi_breakdown_born(to, x->role, swi_string(t, x->layer), x->rounded));
        }
        swi_breakdown_mark(to);
        for (uint32_t k = 0; k < op->n_deaths; k++) {
            const swi_storage *x = &t->storages[p->deaths[op->deaths + k]];
            SW_TRY(swi_breakdown_died(to, x->role, swi_string(t, x->layer), x->rounded));
        }
    }
    return SW_OK;
}

sw_status swi_program_breakdown(swi_frame *f, const sw_run_args *args)
{
    if (f->breakdown.n > 0)
        return SW_OK;
    sw_status status = breakdown_of_args(&f->breakdown, args);
    if (status == SW_OK)
        status = follow_plan(&f->breakdown, f->program);
    if (status != SW_OK)
        swi_breakdown_free(&f->breakdown);
    return status;
}

/* Immediate mode gives nothing back: all that the trace made lives at its end. */
static sw_status trace_shares(swi_breakdown *to, const swi_trace *t, const sw_run_args *args)
{
    SW_TRY(breakdown_of_args(to, args));
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        if (x->segment == SWI_SEG_STEP)
            SW_TRY(swi_breakdown_born(to, (swi_role)x->traced, swi_string(t, x->layer),
                                      x->rounded));
    }
    swi_breakdown_mark(to);
    return SW_OK;
}

static sw_status bump_breakdown(swi_breakdown *to, const swi_program *p,
                                const sw_run_args *args)
{
    swi_trace room = {0};
    const swi_trace *t = NULL;
    sw_status status = swi_program_traced(p, &room, &t);
    if (status == SW_OK)
        status = trace_shares(to, t, args);
    swi_trace_free(&room);
    return status;
}

/* ---- by the arena's events --------------------------------------------------------------- */

static sw_status reserve_notes(sw_exec *exec, uint32_t n)
{
    sw_watch *w = &exec->watch;
    return sw_heap_reserve(&w->notes, SW_HEAP_PROGRAMS, &w->cap_notes, n);
}

static sw_status prepare(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    if (!exec->shares)
        return SW_OK;
    if (f == NULL)
        return breakdown_of_args(&exec->immediate_breakdown, args);
    SW_TRY(swi_program_breakdown(f, args));
    return reserve_notes(exec, 2 * f->program->n_births);
}

static sw_status push(sw_ctx *ctx, uint32_t storage, uint32_t node)
{
    sw_exec *exec = ctx->exec;
    (void)storage;
    (void)node;
    if (!exec->shares)
        return SW_OK;
    return reserve_notes(exec, exec->watch.n_notes + 1);
}

static sw_status follow_notes(swi_breakdown *to, const sw_watch *w, const swi_trace *t)
{
    for (uint32_t i = 0; i < w->n_notes; i++) {
        const sw_watch_note *note = &w->notes[i];
        const swi_storage *x = &t->storages[note->id];
        const char *layer = swi_string(t, x->layer);
        if (note->died)
            SW_TRY(swi_breakdown_died(to, x->role, layer, note->bytes));
        else
            SW_TRY(swi_breakdown_born(to, x->role, layer, note->bytes));
        swi_breakdown_mark(to);
    }
    return SW_OK;
}

const swi_observer swi_breakdown_observer = {
    .name = "breakdown", .prepare = prepare, .push = push};

/* ---- public ------------------------------------------------------------------------------ */

void swi_breakdown_show(const swi_breakdown *x, sw_share_visitor *visitor, void *to)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const swi_breakdown_line *line = &x->lines[i];
        const sw_share share = SW_OPTS(
            sw_share, .kind = i < SWI_ROLE_COUNT ? SW_SHARE_ROLE : SW_SHARE_LAYER,
            .name = line->name, .at_peak_bytes = line->at_peak, .peak_bytes = line->peak);
        if (line->peak > 0)
            visitor(to, &share);
    }
}

static sw_status plan_breakdown(sw_exec *exec, const sw_run_args *args,
                                sw_share_visitor *visitor, void *to)
{
    swi_frame *f;
    bool fresh;
    SW_TRY(swi_exec_program(exec, args, &f, &fresh));
    if (!args->immediate) {
        SW_TRY(swi_program_breakdown(f, args));
        swi_breakdown_show(&f->breakdown, visitor, to);
        return SW_OK;
    }
    swi_breakdown bump = {0};
    const sw_status status = bump_breakdown(&bump, f->program, args);
    if (status == SW_OK)
        swi_breakdown_show(&bump, visitor, to);
    swi_breakdown_free(&bump);
    return status;
}

sw_status sw_plan_shares(sw_exec *exec, const sw_run_args *given, sw_share_visitor *visitor,
                         void *to)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_plan_shares"));
    SW_TRY(swi_given(visitor != NULL, "visitor", "sw_plan_shares"));
    SW_TRY(swi_read_args(&args, given, false, "sw_plan_shares"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = plan_breakdown(exec, &args, visitor, to);
    swi_leave(exec, &args);
    return status;
}

static sw_status last_breakdown(const sw_exec *exec, sw_share_visitor *visitor, void *to)
{
    const bool immediate = exec->last_immediate;
    if (!exec->shares)
        SW_FAIL(SW_INVALID, "sw_last_shares: the exec was made without shares");
    if (!immediate && exec->last == NULL)
        SW_FAIL(SW_INVALID, "sw_last_shares: nothing has run yet, or the last run failed");
    if (!immediate && exec->info.replayed) { /* no one looked: as planned */
        swi_breakdown_show(&exec->last_frame->breakdown, visitor, to);
        return SW_OK;
    }
    swi_breakdown seen = {0};
    sw_status status =
        copy_base(&seen, immediate ? &exec->immediate_breakdown : &exec->last_frame->breakdown);
    if (status == SW_OK)
        status = follow_notes(&seen, &exec->watch,
                              immediate ? &exec->immediate_trace : &exec->last->trace);
    if (status == SW_OK)
        swi_breakdown_show(&seen, visitor, to);
    swi_breakdown_free(&seen);
    return status;
}

static sw_status witness_breakdown(const sw_exec *exec, sw_share_visitor *visitor, void *to)
{
    if (exec->witness_breakdown.n == 0)
        SW_FAIL(SW_INVALID, "sw_witness_shares: no access witness has been at work yet");
    swi_breakdown_show(&exec->witness_breakdown, visitor, to);
    return SW_OK;
}

/* Of an exec alone: as a run without models. */
static sw_status of_exec(sw_exec *exec, sw_share_visitor *visitor, void *to, const char *what,
                         sw_status (*of)(const sw_exec *, sw_share_visitor *, void *))
{
    const sw_run_args none = SW_OPTS(sw_run_args);
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, what));
    SW_TRY(swi_given(visitor != NULL, "visitor", what));
    SW_TRY(swi_enter(exec, &none, SW_FRAME));
    const sw_status status = of(exec, visitor, to);
    swi_leave(exec, &none);
    return status;
}

sw_status sw_last_shares(sw_exec *exec, sw_share_visitor *visitor, void *to)
{
    return of_exec(exec, visitor, to, "sw_last_shares", last_breakdown);
}

sw_status sw_witness_shares(sw_exec *exec, sw_share_visitor *visitor, void *to)
{
    return of_exec(exec, visitor, to, "sw_witness_shares", witness_breakdown);
}

/* ---- denied ------------------------------------------------------------------------------ */

/* The profile's record of a request that was denied, made before the caller learns of it: what
 * was requested, what there was, and who holds the rest. It takes no memory: there may be none.
 *
 * A program's holders are those of its peak, whether it was refused by its plan or when it was
 * to run; in immediate mode they are all that was made before. */

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
    if (d->n_holders < SW_DENIED_HOLDERS || x->rounded > d->holder[d->n_holders - 1].bytes)
        (void)swi_storage_name(t, s, name, sizeof name);
    sw_denied_add(d, swi_role_name(x->role), swi_string(t, x->layer), name, x->rounded);
}

static bool is_input(const swi_storage *x)
{
    return x->segment >= SWI_SEG_INPUT && x->segment < SWI_SEG_MODEL;
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
    const swi_trace *t = &p->trace;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (is_input(&t->storages[s]) ||
            (swi_takes_part(t, s) && t->storages[s].birth <= p->peak_op &&
             t->storages[s].death >= p->peak_op))
            add_storage(d, t, s);
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
