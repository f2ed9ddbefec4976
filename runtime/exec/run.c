/* sw_run, sw_plan, and the loop over a program's ops.
 *
 * The loop states each storage's birth and death to the arena, whose watch counts what lives:
 * that is what a run without a witness reports as measured by "arena". Clocks are read where
 * the phase changes. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/sys.h"
#include "runtime/autograd/autograd.h"
#include "runtime/base/structs.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include "runtime/transport/ranks.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static sw_status run_immediate(sw_exec *exec, const sw_run_args *args, bool *updated);

/* ---- metrics and figures of the last runs ------------------------------------------------ */

/* Room for n metrics in all of them, so that later runs take no memory. */
static sw_status swi_history_reserve(swi_history *history, uint32_t n)
{
    SW_ASSERT((history->metrics == NULL) == (history->cap == 0));
    if (n <= history->cap)
        return SW_OK;
    swi_history_metric *metrics;
    const size_t row = n * sizeof *history->metrics;
    SW_TRY(sw_heap_alloc(&metrics, SW_HEAP_PROGRAMS, SWI_HISTORY * row));
    for (int i = 0; i < SWI_HISTORY; i++) {
        swi_history_run *run = &history->run[i];
        SW_ASSERT(run->n <= history->cap);
        if (run->n > 0)
            memcpy(metrics + (size_t)i * n, run->metrics, run->n * sizeof *metrics);
        run->metrics = metrics + (size_t)i * n;
    }
    sw_heap_free(history->metrics, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * history->cap * sizeof *history->metrics);
    history->metrics = metrics;
    history->cap = n;
    return SW_OK;
}

/* A run begins: nothing of it is there yet. */
static swi_history_run *swi_history_begin(swi_history *history)
{
    swi_history_run *run = &history->run[history->n++ % SWI_HISTORY];
    SW_ASSERT(history->n > 0); /* runs are counted from 1, and never back */
    run->there = run->waits = false;
    run->n = 0;
    memset(&run->info, 0, sizeof run->info);
    run->info.size = sizeof run->info;
    return run;
}

/* The names of a trace's metrics; swi_history_reserve was asked before. */
static void swi_history_name(swi_history_run *run, const swi_trace *t)
{
    run->n = t->n_metrics;
    SW_ASSERT(run->n == 0 || run->metrics != NULL);
    for (uint32_t i = 0; i < t->n_metrics; i++)
        memcpy(run->metrics[i].name, t->metrics[i].name, sizeof run->metrics[i].name);
}

swi_history_run *swi_history_at(swi_history *history, int ago)
{
    if (ago < 0 || ago >= SWI_HISTORY || (uint64_t)ago >= history->n)
        return NULL;
    return &history->run[(history->n - 1 - (uint64_t)ago) % SWI_HISTORY];
}

const double *swi_history_metric_of(const swi_history_run *run, const char *name)
{
    for (uint32_t i = 0; run != NULL && i < run->n; i++)
        if (strcmp(run->metrics[i].name, name) == 0)
            return &run->metrics[i].value;
    return NULL;
}

/* ---- look -------------------------------------------------------------------------------- */

/* Plans that are looked at once and not kept. */

static sw_status look_in(sw_exec *exec, const sw_run_args *args, sw_plan_info *out)
{
    swi_program *p;
    SW_TRY(swi_exec_trace(exec, args));
    SW_TRY(swi_program_create(&p, &exec->ctx, SIZE_MAX));
    *out = p->info;
    swi_program_free(p);
    return SW_OK;
}

/* Scratch is planned for as many threads as the exec is said to have; that it runs with others
 * is nothing to a plan that never runs. */
sw_status swi_exec_look(sw_exec *exec, const sw_run_args *args, int threads, sw_plan_info *out)
{
    const int own = exec->target.threads;
    exec->target.threads = threads;
    const sw_status status = look_in(exec, args, out);
    exec->target.threads = own;
    if (!exec->checks) /* those trace before each run */
        swi_ctx_free(&exec->ctx);
    return status;
}

/* ---- arguments --------------------------------------------------------------------------- */

sw_status swi_read_args(sw_run_args *to, const sw_run_args *from, bool with_data,
                        const char *call)
{
    SW_TRY(swi_given(from != NULL, "the run arguments", call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_run_args, to, from, call));
    if (to->fn == NULL)
        SW_FAIL(SW_INVALID, "the step function must not be NULL");
    if (to->n_models < 0 || to->n_models > SWI_MAX_MODELS || to->n_inputs < 0 ||
        to->n_inputs > SWI_MAX_INPUTS)
        SW_FAIL(SW_INVALID, "a run must have at most %d models and %d inputs (got %d and %d)",
                SWI_MAX_MODELS, SWI_MAX_INPUTS, to->n_models, to->n_inputs);
    if ((to->n_models > 0 && to->models == NULL) || (to->n_inputs > 0 && to->inputs == NULL))
        SW_FAIL(SW_INVALID, "models or inputs are NULL");
    for (int i = 0; i < to->n_models; i++) {
        if (!sw_handle_lives(to->models[i], SW_HANDLE_MODEL))
            SW_FAIL(SW_INVALID, "%s: model %d %s", call, i,
                    to->models[i] == NULL ? "is NULL" : "was destroyed, or is not a model");
        for (int k = 0; k < i; k++)
            if (to->models[k] == to->models[i])
                SW_FAIL(SW_INVALID, "model %s is listed twice", to->models[i]->name);
    }
    if (to->mode != SW_TRAIN && to->mode != SW_EVAL)
        SW_FAIL(SW_INVALID, "the mode must be SW_TRAIN or SW_EVAL (got %d)", (int)to->mode);
    if (to->es != NULL) {
        /* The generation is the step, and the first direction of the slice the run. */
        SW_TRY(sw_handle_look(to->es, SW_HANDLE_ES, call));
        const swi_noise_mode *mode = swi_noise_mode_of(to->es);
        bool there = false;
        for (int m = 0; m < to->n_models; m++)
            there |= to->models[m] == mode->model;
        if (!there)
            SW_FAIL(SW_INVALID,
                    "%s: the models of the run must have '%s' among them, whose parameters "
                    "have noise",
                    call, mode->model->name);
        if (to->es_slice != SWI_ES_UPDATE && to->es_slice >= swi_noise_slices(mode))
            SW_FAIL(SW_INVALID,
                    "%s: es_slice must be below %u, the slices of a generation (got %llu)",
                    call, swi_noise_slices(mode), (unsigned long long)to->es_slice);
        const float sigma = sw_knob_get((sw_knob){mode->model, mode->sigma});
        if (!(sigma > 0.0f))
            SW_FAIL(SW_INVALID, "%s: sigma of the noise must be above 0 (got %g)", call,
                    (double)sigma);
        to->step = mode->generation;
        if (to->es_slice != SWI_ES_UPDATE)
            to->run = (uint32_t)to->es_slice * mode->slice;
    }
    if (to->step > UINT32_MAX)
        SW_FAIL(SW_INVALID,
                "step must be at most %u, so that each step draws its own random numbers (got "
                "%llu)",
                UINT32_MAX, (unsigned long long)to->step);
    for (int j = 0; j < to->n_inputs; j++) {
        const sw_array *in = &to->inputs[j];
        const sw_type type = {in->dtype, SW_PLAIN, in->shape};
        if ((unsigned)in->dtype > SW_U16 || in->shape.rank < 0 ||
            in->shape.rank > SW_MAX_RANK || sw_type_elements(&type) < 0)
            SW_FAIL(SW_INVALID, "input %d must have a known type and a valid shape", j);
        if (with_data && in->data == NULL && sw_type_elements(&type) > 0)
            SW_FAIL(SW_INVALID, "input %d has no data", j);
    }
    return SW_OK;
}

sw_status swi_make_ready(sw_exec *exec, const sw_run_args *a)
{
    for (int i = 0; i < a->n_models; i++) {
        if (a->models[i]->damaged)
            SW_FAIL(SW_STALE,
                    "model %s: a run failed after an update; restore it by sw_model_copy, "
                    "sw_model_load or sw_model_ready first",
                    a->models[i]->name);
        SW_TRY(swi_knobs_check(a->models[i]));
        SW_TRY(swi_model_is_here(a->models[i], exec));
        if (a->models[i]->ready)
            continue;
        SW_TRY(swi_model_ready(a->models[i], exec, exec->seed));
        swi_note_set("model %s: sw_model_ready was not called: its first values are by the "
                     "exec's seed, %llu",
                     a->models[i]->name, (unsigned long long)exec->seed);
    }
    return SW_OK;
}

/* ---- launching --------------------------------------------------------------------------- */

static inline sw_launch *resolve(sw_exec *exec, swi_frame *f, uint32_t i,
                                 const sw_run_args *args, unsigned char *const *base,
                                 const swi_bind *binds)
{
    sw_launch *l = swi_frame_resolve(f, i, base, binds);
    l->par = swi_pool_par(exec->pool);
    l->isa = exec->target.isa;
    l->order = exec->target.way;
    l->seed = swi_run_seed(exec, args);
    l->step = (uint32_t)args->step;
    l->run = args->run;
    return l;
}

static inline sw_status launch(sw_exec *exec, swi_frame *f, uint32_t i, const sw_run_args *args,
                               unsigned char *const *base, const swi_bind *binds)
{
    (void)resolve(exec, f, i, args, base, binds);
    return exec->backend->launch(exec, f, i);
}

static swi_fused_op fused_op(sw_exec *exec, swi_frame *f, uint32_t i, const sw_run_args *args,
                             unsigned char *const *base, const swi_bind *binds)
{
    const swi_program *p = f->program;
    return (swi_fused_op){resolve(exec, f, i, args, base, binds), swi_node_of(p, i)->kernel};
}

/* Op i of a run, with the one that it runs together with. Where kernels are looked at one by
 * one, each runs by itself. */
static sw_status launch_next(sw_exec *exec, swi_frame *f, uint32_t i, const sw_run_args *args,
                             unsigned char *const *base, const swi_bind *binds)
{
    const swi_run_op *op = &f->program->ops[i];
    if (exec->guard != NULL || (op->together == 0 && op->ran == 0))
        return launch(exec, f, i, args, base, binds);
    if (op->together == 0)
        return SW_OK;
    const swi_fused_op first = fused_op(exec, f, i, args, base, binds);
    const swi_fused_op then = fused_op(exec, f, i + op->apart, args, base, binds);
    return swi_fused_kernels[op->together](&first, &then);
}

sw_status swi_blame(const swi_program *p, uint32_t i, sw_status status)
{
    return swi_node_failed(&p->trace, swi_node_of(p, i), status);
}

sw_status swi_program_execute(sw_exec *exec, swi_frame *f, const sw_run_args *args,
                              unsigned char *const *base, const swi_bind *binds,
                              const swi_hooks *hooks, bool *updated)
{
    const swi_program *p = f->program;
    const uint32_t fp = swi_fp_enter();
    sw_status status = SW_OK;
    swi_guard *const guard = exec->guard;
    exec->guard = NULL; /* who watches sees the kernels where they are bound */
    for (uint32_t i = 0; i < p->n_ops && status == SW_OK; i++) {
        if (hooks->before != NULL)
            status = hooks->before(hooks->context, i);
        if (status == SW_OK) {
            if (updated != NULL)
                *updated |= p->ops[i].is_update;
            status = hooks->together ? launch_next(exec, f, i, args, base, binds)
                                     : launch(exec, f, i, args, base, binds);
            if (status != SW_OK)
                status = swi_blame(p, i, status);
        }
        if (status == SW_OK && hooks->after != NULL)
            status = hooks->after(hooks->context, i);
    }
    exec->guard = guard;
    swi_fp_leave(fp);
    return status;
}

void swi_bases(const sw_exec *exec, const sw_run_args *args, unsigned char **base)
{
    SW_ASSERT(args->n_inputs <= SWI_MAX_INPUTS && args->n_models <= SWI_MAX_MODELS);
    memset(base, 0, (SWI_SEG_COUNT + 1) * sizeof *base);
    base[SWI_SEG_STEP] = sw_arena_base(exec->arena);
    for (int i = 0; i < args->n_inputs; i++)
        base[SWI_SEG_INPUT + i] = exec->backend->bind(exec, args, i);
    for (int i = 0; i < args->n_models; i++)
        base[SWI_SEG_MODEL + i] = args->models[i]->base;
}

/* ---- the planned run --------------------------------------------------------------------- */

/* The watch's figures become the run's. */
static void read_watch(sw_exec *exec)
{
    for (int i = 0; i < SW_PHASES; i++) {
        const sw_prof_phase *seen = &exec->watch.phases[i];
        exec->info.phase[i] = (sw_phase_info){seen->peak_bytes, seen->end_bytes, seen->ns};
    }
}

static sw_status state_births(sw_exec *exec, const swi_program *p, const swi_run_op *op)
{
    for (uint32_t k = 0; k < op->n_births; k++) {
        const uint32_t s = p->births[op->births + k];
        const swi_storage *st = &p->trace.storages[s];
        SW_ASSERT(s < p->trace.n_storages && st->offset + st->bytes <= p->height);
        SW_TRY(sw_arena_place(exec->arena, st->offset, st->bytes, s));
    }
    return SW_OK;
}

static sw_status reserve_op_clocks(sw_exec *exec, uint32_t n)
{
    return sw_heap_reserve(&exec->op_ns, SW_HEAP_PROGRAMS, &exec->cap_op_ns, n);
}

/* The loop with nothing counted and no clock read. */
static sw_status run_bare(sw_exec *exec, swi_frame *f, const sw_run_args *args,
                          unsigned char *const *base, bool *updated)
{
    const swi_program *p = f->program;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        *updated |= p->ops[i].is_update;
        const sw_status status = launch_next(exec, f, i, args, base, p->binds);
        if (status != SW_OK)
            return swi_blame(p, i, status);
        SW_TRY(swi_ranks_alive(exec->target.ranks));
    }
    return SW_OK;
}

/* A run of 200 us is worth the call that wakes a worker, which takes 10. */
#define WORTH_WAKING ((uint64_t)200000 * SWI_COST_PER_NS)

static sw_status run_ops(sw_exec *exec, swi_frame *f, const sw_run_args *args, bool *updated)
{
    const swi_program *p = f->program;
    unsigned char *base[SWI_SEG_COUNT + 1];
    SW_ASSERT(exec->busy != 0 && sw_arena_height(exec->arena) >= p->height);
    swi_bases(exec, args, base);
    if (p->info.cost >= WORTH_WAKING)
        swi_pool_wake(exec->pool);
    sw_record_log *const log = exec->watch.log;
    const uint32_t fp = swi_fp_enter();
    sw_status status = SW_OK;
    if (exec->no_phases) {
        status = run_bare(exec, f, args, base, updated);
        swi_fp_leave(fp);
        return status;
    }
    sw_watch_begin(&exec->watch, p->model_bytes + p->slot_bytes);
    for (uint32_t i = 0; i < p->n_ops && status == SW_OK; i++) {
        const swi_run_op *op = &p->ops[i];
        sw_watch_phase(&exec->watch, (int)op->phase);
        const uint64_t before = exec->op_clocks || log != NULL ? sw_clock_ns() : 0;
        if (log != NULL)
            sw_record_edge(log, SW_RECORD_OP, i, before);
        status = state_births(exec, p, op);
        if (status != SW_OK)
            break;
        if (log != NULL) {
            /* The arena knows nothing of them: no byte comes or goes. */
            for (uint32_t k = 0; k < op->n_reuses; k++) {
                const uint32_t s = p->births[op->births + op->n_births + k];
                const swi_storage *st = &p->trace.storages[s];
                sw_record_range(log, SW_RECORD_REUSE, st->offset, st->rounded, s);
            }
        }
        sw_watch_op(&exec->watch, i);
        *updated |= op->is_update;
        status = launch_next(exec, f, i, args, base, p->binds);
        if (status != SW_OK) {
            status = swi_blame(p, i, status);
            break;
        }
        for (uint32_t k = 0; k < op->n_deaths; k++) {
            const uint32_t s = p->deaths[op->deaths + k];
            const swi_storage *st = &p->trace.storages[s];
            sw_arena_release(exec->arena, st->offset, st->bytes, s);
        }
        sw_watch_op_end(&exec->watch);
        if (exec->op_clocks)
            exec->op_ns[i] = sw_clock_ns() - before;
        status = swi_ranks_alive(exec->target.ranks);
    }
    sw_watch_end(&exec->watch);
    read_watch(exec);
    swi_fp_leave(fp);
    return status;
}

/* All memory that the run needs, on every side. */
static sw_status reserve_run(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    SW_TRY(swi_make_ready(exec, args));
    SW_TRY(sw_arena_grow(exec->arena, f->program->height, true));
    return exec->backend->room(exec, args, f);
}

/* A run may write into any of its models. */
static void not_drawn(const sw_run_args *args)
{
    for (int i = 0; i < args->n_models; i++)
        args->models[i]->drawn = false;
}

static sw_status run_planned(sw_exec *exec, const sw_run_args *args, bool *updated, bool *fresh)
{
    swi_frame *f;
    SW_TRY(swi_exec_program(exec, args, &f, fresh));
    const swi_program *p = f->program;
    exec->attempt = f;
    const sw_status fits = reserve_run(exec, args, f);
    if (fits != SW_OK)
        return fits == SW_NOMEM && (exec->target.budget != NULL ||
                                    !exec->target.device->backend->host_memory)
                   ? swi_does_not_fit(exec, args, p, fits)
                   : fits;
    *fresh |= !f->ran;
    SWI_TELL(plan, exec, args, f);
    SW_TRY(exec->op_clocks ? reserve_op_clocks(exec, p->n_ops) : SW_OK);
    SW_TRY(swi_history_reserve(&exec->history, p->trace.n_metrics));
    SWI_ASK(prepare, exec, args, f);
    sw_arena_reset(exec->arena);
    exec->reset_pending = true;
    swi_exec_set_last(exec, f);
    exec->last_immediate = false;
    swi_history_run *run = swi_history_at(&exec->history, 0);
    swi_history_name(run, &p->trace);
    not_drawn(args);
    SW_TRY(exec->backend->run(exec, f, args, run_ops, updated, fresh));
    f->ran = true;
    exec->info.arena_bytes = p->height;
    exec->info.model_bytes = p->model_bytes;
    return SW_OK;
}

/* The run's place in the history is asked for by its number: exec->history.n after the call. */
sw_status swi_run_frame(sw_exec *exec, swi_frame *f, const sw_run_args *args, bool *updated)
{
    bool fresh = false;
    swi_history_run *run = swi_history_begin(&exec->history);
    memset(&exec->info, 0, sizeof exec->info);
    exec->info.size = sizeof exec->info;
    SW_TRY(swi_device_fault(exec->target.device));
    SW_TRY(swi_history_reserve(&exec->history, f->program->trace.n_metrics));
    sw_arena_reset(exec->arena);
    swi_history_name(run, &f->program->trace);
    not_drawn(args);
    SW_TRY(exec->backend->run(exec, f, args, run_ops, updated, &fresh));
    run->info = exec->info;
    run->there = true;
    return SW_OK;
}

static const swi_trace *last_trace(const sw_exec *exec)
{
    if (exec->last_immediate)
        return &exec->immediate_trace;
    return exec->last != NULL ? &exec->last->trace : NULL;
}

static sw_status failed(const sw_run_args *args, sw_status status, bool updated)
{
    if (!updated)
        return status;
    for (int i = 0; i < args->n_models; i++)
        args->models[i]->damaged = true;
    SW_FAIL(status, "%s (after an update: the models of this run must be restored)",
            sw_last_error());
}

/* Reports a refusal and returns `status`; nothing for any other status. */
static sw_status denied(sw_exec *exec, const sw_run_args *args, bool running, sw_status status)
{
    char message[512];
    if (status != SW_NOMEM)
        return status;
    snprintf(message, sizeof message, "%s", sw_last_error());
    SWI_TELL(denied, exec, args, running);
    return sw_error_set(status, __FILE__, __LINE__, "%s", message);
}

/* Begin, run and count; what the run left is in the ring. */
static sw_status run(sw_exec *exec, const sw_run_args *args, uint64_t start)
{
    const uint64_t calls = sw_mem_calls();
    swi_history_run *history = swi_history_begin(&exec->history);
    bool updated = false, fresh = false;
    memset(&exec->info, 0, sizeof exec->info);
    exec->info.size = sizeof exec->info;
    SWI_TELL(begin, exec, args, start);
    exec->attempt = NULL;
    exec->push_refused = false;
    sw_status status = swi_device_fault(exec->target.device);
    swi_skipped_begin(args);
    if (status == SW_OK)
        status = args->immediate ? run_immediate(exec, args, &updated)
                                 : run_planned(exec, args, &updated, &fresh);
    if (exec->info.ns == 0) /* a card has its own clock */
        exec->info.ns = sw_clock_ns() - start;
    exec->info.allocations = sw_mem_calls() - calls;
    exec->info.warm = !fresh && !args->immediate;
    exec->info.peak_bytes = 0;
    for (int i = 0; i < SW_PHASES; i++)
        if (exec->info.phase[i].peak_bytes > exec->info.peak_bytes)
            exec->info.peak_bytes = exec->info.phase[i].peak_bytes;
    history->info = exec->info;
    history->there = status == SW_OK;
    if (status != SW_OK) {
        status = denied(exec, args, true, failed(args, status, updated));
        swi_exec_set_last(exec, NULL); /* nothing that is half done is handed out */
        exec->last_immediate = false;
    }
    /* Outputs stay readable until the next run; without them the arena is given back at
     * once. */
    SW_ASSERT((exec->last == NULL) == (exec->last_frame == NULL));
    const swi_trace *t = last_trace(exec);
    const bool outputs = t != NULL && t->n_outputs > 0;
    if (exec->reset_pending && !outputs) {
        sw_arena_reset(exec->arena);
        exec->reset_pending = false;
    }
    SWI_TELL(end, exec, args, status == SW_OK);
    return status == SW_OK ? exec->backend->skipped(exec, args) : status;
}

sw_status swi_run_seeded(sw_exec *exec, const sw_run_args *given, uint64_t seed)
{
    sw_run_args args;
    SW_TRY(swi_read_args(&args, given, true, "a run"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const uint64_t own = exec->seed;
    exec->seed = seed;
    const sw_status status = run(exec, &args, sw_clock_ns());
    exec->seed = own;
    swi_leave(exec, &args);
    return status;
}

static sw_status prepare(sw_exec *exec, const sw_run_args *args, swi_look *look, void *context)
{
    swi_frame *f;
    bool fresh;
    SW_TRY(swi_device_fault(exec->target.device));
    if (args->immediate)
        return swi_make_ready(exec, args);
    SW_TRY(swi_exec_program(exec, args, &f, &fresh));
    exec->attempt = f;
    if (look != NULL)
        SW_TRY(look(context, f->program));
    SW_TRY(exec->op_clocks ? reserve_op_clocks(exec, f->program->n_ops) : SW_OK);
    SW_TRY(swi_history_reserve(&exec->history, f->program->trace.n_metrics));
    const sw_status fits = reserve_run(exec, args, f);
    return fits == SW_NOMEM ? swi_does_not_fit(exec, args, f->program, fits) : fits;
}

sw_status swi_run_prepare(sw_exec *exec, const sw_run_args *given, swi_look *look,
                          void *context, const char *call)
{
    sw_run_args args;
    SW_TRY(swi_read_args(&args, given, true, call));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    exec->attempt = NULL;
    const sw_status status = denied(exec, &args, false, prepare(exec, &args, look, context));
    swi_leave(exec, &args);
    return status;
}

sw_status sw_run(sw_exec *exec, const sw_run_args *given)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_run"));
    SW_TRY(swi_read_args(&args, given, true, "sw_run"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = run(exec, &args, sw_clock_ns());
    swi_leave(exec, &args);
    return status;
}

/* ---- planning ---------------------------------------------------------------------------- */

/* Charge the budget with models and arena, and on a device with what inputs take there. A
 * refusal leaves models as they were. */
static sw_status reserve(sw_exec *exec, const sw_run_args *args, size_t arena, size_t data)
{
    bool had[SWI_MAX_MODELS];
    sw_status status = SW_OK;
    for (int i = 0; i < args->n_models; i++)
        had[i] = args->models[i]->arena != NULL;
    for (int i = 0; status == SW_OK && i < args->n_models; i++)
        status = swi_model_reserve(args->models[i], exec);
    if (status == SW_OK)
        status = exec->backend->reserve(exec, data);
    if (status == SW_OK)
        status = sw_arena_grow(exec->arena, arena, false);
    for (int i = 0; status != SW_OK && i < args->n_models; i++)
        if (!had[i])
            swi_model_unreserve(args->models[i]);
    return status;
}

static sw_status plan(sw_exec *exec, const sw_run_args *args, sw_plan_info *out)
{
    swi_frame *f;
    bool fresh;
    SW_TRY(swi_exec_program(exec, args, &f, &fresh));
    const swi_program *p = f->program;
    exec->attempt = f;
    const size_t data = swi_data_bytes(exec, args, &p->trace);
    swi_plan_info(p, data, out);
    if (exec->target.budget == NULL)
        return SW_OK;
    if (swi_need_of(exec, args, p).bytes >
        sw_budget_limit(exec->target.budget)) /* slots to come, too */
        return swi_does_not_fit(exec, args, p, SW_NOMEM);
    const sw_status status =
        reserve(exec, args, args->immediate ? p->info.immediate_bytes : p->height, data);
    return status == SW_NOMEM ? swi_does_not_fit(exec, args, p, status) : status;
}

sw_status sw_plan(sw_exec *exec, const sw_run_args *given, sw_plan_info *out)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_plan"));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_plan_info, out, "sw_plan"));
    SW_TRY(swi_read_args(&args, given, false, "sw_plan"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    exec->attempt = NULL;
    const sw_status status = denied(exec, &args, false, plan(exec, &args, out));
    swi_leave(exec, &args);
    return status;
}

sw_status sw_output_get(sw_exec *exec, const char *name, sw_array *out)
{
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_output_get"));
    sw_call_unwound(SW_FRAME);
    if (exec->busy != 0)
        SW_FAIL(SW_BUSY, "sw_output_get: the exec is in use by %s",
                swi_owner_text(&exec->busy));
    SW_TRY(swi_given(name != NULL && out != NULL, "name and out", "sw_output_get"));
    const swi_trace *t = last_trace(exec);
    if (t == NULL)
        SW_FAIL(SW_INVALID, "sw_output_get: nothing has run yet, or the last run failed");
    for (uint32_t i = 0; i < t->n_outputs; i++) {
        if (strcmp(t->outputs[i].name, name) != 0)
            continue;
        if (!exec->reset_pending)
            SW_FAIL(SW_STALE, "output '%s' belongs to an earlier run", name);
        const swi_value *v = &t->values[t->outputs[i].value];
        const void *data =
            sw_arena_base(exec->arena) + t->storages[v->storage].offset + v->offset;
        SW_TRY(exec->backend->output(exec, t, i, &data));
        *out = (sw_array){v->type.dtype, v->type.shape, data};
        return SW_OK;
    }
    SW_FAIL(SW_INVALID, "the last run had no output '%s'", name);
}

/* ---- enter ------------------------------------------------------------------------------- */

/* The state of a call while it works with an exec: the exec and the models of the call. */

static sw_exec *exec_of(sw_call *call)
{
    return (sw_exec *)(void *)((char *)call - offsetof(sw_exec, call));
}

/* Do what sw_run would have done after the step function. */
static void unwound(sw_call *call)
{
    sw_exec *exec = exec_of(call);
    if (exec->ctx.open && exec->ctx.immediate)
        swi_fp_leave(exec->fp);
    for (int i = 0; i < exec->n_held; i++) {
        exec->held[i]->damaged |= exec->ctx.open && exec->ctx.updated;
        swi_owner_give(&exec->held[i]->busy);
    }
    exec->n_held = 0;
    exec->ctx.open = false;
    exec->ctx.generation = 0;
    swi_exec_set_last(exec, NULL); /* nothing that is half done is handed out */
    exec->last_immediate = false;
    (void)sw_call_end(&exec->call, SW_OK);
    swi_owner_give(&exec->busy);
}

static void refused(sw_call *call, sw_status status)
{
    sw_ctx *ctx = &exec_of(call)->ctx;
    if (ctx->open)
        (void)swi_stick(ctx, status);
}

static const sw_call_hooks enter_hooks = {unwound, refused};

void swi_leave(sw_exec *exec, const sw_run_args *a)
{
    (void)a;
    for (int i = 0; i < exec->n_held; i++)
        swi_owner_give(&exec->held[i]->busy);
    exec->n_held = 0;
    (void)sw_call_end(&exec->call, SW_OK);
    swi_owner_give(&exec->busy);
}

static sw_status take_models(sw_exec *exec, const sw_run_args *a)
{
    for (int i = 0; i < a->n_models; i++) {
        if (!swi_owner_take(&a->models[i]->busy))
            SW_FAIL(SW_BUSY, "model %s is in use by %s", a->models[i]->name,
                    swi_owner_text(&a->models[i]->busy));
        exec->held[exec->n_held++] = a->models[i];
    }
    for (int i = 0; i < a->n_models; i++)
        SW_TRY(swi_model_layout(a->models[i]));
    return SW_OK;
}

sw_status swi_enter(sw_exec *exec, const sw_run_args *a, const void *frame)
{
    sw_call_unwound(frame);
    /* A forked process has the memory of an exec that was made before, and none of its
     * threads. */
    if (exec->forks != sw_fork_number()) {
        const char *why = exec->target.threads > 1 ? "its threads are the parent's"
                          : !exec->target.device->backend->survives_fork
                              ? "its device is the parent's"
                          : exec->rec.profile != NULL ? "its profile is the parent's"
                          : exec->busy != 0           ? "a thread of the parent was using it"
                                                      : NULL;
        if (why != NULL)
            SW_FAIL(SW_BUSY,
                    "the exec was made before a fork, and %s: make an exec in the child, or "
                    "fork before the exec is made",
                    why);
    }
    if (exec->rec.profile != NULL &&
        !sw_handle_is(exec->rec.profile, SW_HANDLE_PROFILE, exec->rec.profile_generation))
        SW_FAIL(SW_INVALID, "the exec's profile was destroyed: destroy the exec first");
    if (!swi_owner_take(&exec->busy))
        SW_FAIL(SW_BUSY, "the exec is in use by %s", swi_owner_text(&exec->busy));
    exec->es = a->es;
    exec->call = (sw_call){
        .name = "a run", .uses = SW_CALL_ONE(exec->es), .closed = true, .hooks = &enter_hooks};
    sw_status status = sw_call_begin(&exec->call, frame);
    if (status != SW_OK) {
        swi_owner_give(&exec->busy);
        return status;
    }
    status = take_models(exec, a);
    if (status != SW_OK)
        swi_leave(exec, a);
    return status;
}

/* ---- immediate --------------------------------------------------------------------------- */

/* The ctx of a trace, and immediate mode: the same step function, each node executed as it is
 * appended, every storage pushed on the step arena. No lifetimes and no in-place results: the
 * peak is the height of the bump. */

static uint32_t generations;

/* Inputs are the first values and storages, one of each per input. */
static sw_status add_inputs(sw_ctx *ctx)
{
    for (int i = 0; i < ctx->args->n_inputs; i++) {
        const sw_type type = {ctx->args->inputs[i].dtype, SW_PLAIN, ctx->args->inputs[i].shape};
        const uint32_t s = swi_new_storage(ctx, sw_type_bytes(&type), SWI_ROLE_INPUT);
        if (s == SWI_NONE || swi_new_value(ctx, &type, s) == SWI_NONE)
            return ctx->status;
        ctx->trace.storages[s].segment = SWI_SEG_INPUT + (uint32_t)i;
        ctx->trace.storages[s].dtype = 1 + (uint8_t)type.dtype;
        char name[16];
        snprintf(name, sizeof name, "input%d", i);
        sw_status status = SW_OK;
        ctx->trace.storages[s].name = swi_trace_string(&ctx->trace, name, &status);
        SW_TRY(status);
    }
    return SW_OK;
}

static sw_status give_and_run(sw_ctx *ctx, uint32_t index);

sw_status swi_ctx_begin(sw_exec *exec, const sw_run_args *args, bool immediate)
{
    sw_ctx *ctx = &exec->ctx;
    if (exec->target.shards > 1 && (immediate || args->es != NULL))
        SW_FAIL(SW_UNSUPPORTED, "an exec with shards or ranks has no %s",
                immediate ? "immediate mode" : "runs of evolution strategies");
    if (exec->target.opts.compute == SW_BF16 && args->es != NULL)
        SW_FAIL(SW_UNSUPPORTED, "runs of evolution strategies compute in SW_F32 alone, which "
                                "their noise is made of");
    ctx->exec = exec;
    ctx->args = args;
    ctx->status = SW_OK;
    ctx->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
    ctx->noise = args->es != NULL && args->es_slice != SWI_ES_UPDATE
                     ? swi_noise_mode_of(args->es)
                     : NULL;
    ctx->noise_depth = 0;
    ctx->immediate = immediate;
    ctx->run_node = give_and_run;
    ctx->phase_override = ctx->phase_now = -1;
    ctx->in_backward = false;
    ctx->scope[0] = '\0';
    ctx->label_bytes = 0;
    ctx->n_scopes = 0;
    ctx->n_grads = ctx->n_assignments = 0;
    ctx->done_storages = ctx->done_ops = 0;
    ctx->updated = false;
    ctx->release = SWI_STAYS;
    memset(ctx->hooks, 0, sizeof ctx->hooks);
    memset(ctx->clip_scale, 0xff, sizeof ctx->clip_scale);
    SW_TRY(swi_trace_reset(&ctx->trace));
    for (int m = 0; m < args->n_models; m++) {
        const uint32_t entries = args->models[m]->n_entries, n = 2 * entries;
        SW_TRY(sw_heap_reserve(&ctx->model_values[m], SW_HEAP_PROGRAMS, &ctx->model_cap[m], n));
        memset(ctx->model_values[m], 0xff, n * sizeof(uint32_t));
        ctx->grad_at[m] = ctx->model_values[m] + entries;
    }

    SW_TRY(add_inputs(ctx));
    ctx->open = true;
    return SW_OK;
}

/* A step function that returns with open work is a mistake of the caller. */
sw_status swi_ctx_end(sw_ctx *ctx)
{
    if (ctx->status == SW_OK && ctx->n_scopes > 0)
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "the step function left scope '%s' open", ctx->scope));
    ctx->open = false;
    ctx->generation = 0; /* its handles are stale from here on */
    return ctx->status;
}

void swi_ctx_free(sw_ctx *ctx)
{
    for (int m = 0; m < SWI_MAX_MODELS; m++)
        sw_heap_free(ctx->model_values[m], SW_HEAP_PROGRAMS,
                     ctx->model_cap[m] * sizeof(uint32_t));
    sw_heap_free(ctx->grads, SW_HEAP_PROGRAMS, ctx->cap_grads * sizeof *ctx->grads);
    sw_heap_free(ctx->assignments, SW_HEAP_PROGRAMS,
                 ctx->cap_assignments * sizeof *ctx->assignments);
    sw_heap_free(ctx->value_grads, SW_HEAP_PROGRAMS, ctx->cap_value_grads * sizeof(uint32_t));
    sw_heap_free(ctx->finite_checks, SW_HEAP_PROGRAMS,
                 ctx->cap_finite_checks * sizeof(uint32_t));
    swi_trace_free(&ctx->trace);
    memset(ctx, 0, sizeof *ctx); /* it may begin again */
}

/* ---- immediate mode ---------------------------------------------------------------------- */

static unsigned char *segment_base(const sw_ctx *ctx, uint32_t segment)
{
    if (segment == SWI_SEG_STEP)
        return sw_arena_base(ctx->exec->arena);
    if (segment < SWI_SEG_MODEL)
        return ctx->exec->backend->bind(ctx->exec, ctx->args, (int)(segment - SWI_SEG_INPUT));
    return ctx->args->models[segment - SWI_SEG_MODEL]->base;
}

static void *address(const sw_ctx *ctx, uint32_t value)
{
    const swi_value *v = &ctx->trace.values[value];
    const swi_storage *s = &ctx->trace.storages[v->storage];
    SW_ASSERT(value < ctx->trace.n_values && v->storage < ctx->trace.n_storages);
    return segment_base(ctx, s->segment) + s->offset + v->offset;
}

static sw_status push_storages(sw_ctx *ctx, const swi_node *node)
{
    swi_trace *t = &ctx->trace;
    for (; ctx->done_storages < t->n_storages; ctx->done_storages++) {
        swi_storage *s = &t->storages[ctx->done_storages];
        if (s->segment != SWI_SEG_STEP)
            continue;
        void *at;
        ctx->exec->watch.push_id = ctx->done_storages;
        SWI_ASK(push, ctx, ctx->done_storages, (uint32_t)(node - t->nodes));
        const sw_status pushed = sw_arena_push(ctx->exec->arena, &at, s->bytes, "immediate");
        ctx->exec->push_refused = pushed != SW_OK;
        SW_TRY(pushed);
        s->offset = (size_t)((unsigned char *)at - sw_arena_base(ctx->exec->arena));
        s->birth = ctx->done_ops;
    }
    SWI_ASK(op, ctx, (uint32_t)(node - t->nodes));
    return SW_OK;
}

static sw_status give_and_run(sw_ctx *ctx, uint32_t index)
{
    const swi_trace *t = &ctx->trace;
    const swi_node *node = &t->nodes[index];
    SW_ASSERT(index < t->n_nodes && node->n_in + node->n_out <= SWI_MAX_OPERANDS);
    sw_buffer buffers[SWI_MAX_OPERANDS];
    sw_watch_phase(&ctx->exec->watch, (int)node->phase);
    if (ctx->exec->watch.log != NULL)
        sw_record_edge(ctx->exec->watch.log, SW_RECORD_OP, ctx->done_ops, sw_clock_ns());
    const sw_status room = push_storages(ctx, node);
    if (room != SW_OK)
        return swi_node_failed(t, node, room);
    sw_watch_op(&ctx->exec->watch, 0);
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        const uint32_t id = t->operands[node->first + i];
        buffers[i] = (sw_buffer){.ptr = address(ctx, id), .type = t->values[id].type};
        swi_value_strides(t, &t->values[id], buffers[i].stride);
        if (i >= node->n_in && swi_is_null(node, i - node->n_in))
            buffers[i].ptr = NULL;
    }
    const sw_launch launch = SW_OPTS(
        sw_launch, .in = buffers, .n_in = (int)node->n_in, .out = buffers + node->n_in,
        .n_out = (int)node->n_out,
        .scratch = node->scratch != SWI_NONE
                       ? sw_arena_base(ctx->exec->arena) + t->storages[node->scratch].offset
                       : NULL,
        .scratch_bytes = node->scratch != SWI_NONE ? t->storages[node->scratch].bytes : 0,
        .attrs = swi_node_attrs(t, node), .accumulate = node->accumulate,
        .par = swi_pool_par(ctx->exec->pool), .isa = ctx->exec->target.isa,
        .seed = swi_run_seed(ctx->exec, ctx->args), .stream = node->stream,
        .step = (uint32_t)ctx->args->step, .run = ctx->args->run, .op = node->op,
        .grad = node->grad, .order = ctx->exec->target.way);
    ctx->updated |= node->is_update || node->writes_model;
    const sw_status status = ctx->exec->backend->launch_node(ctx->exec, node, &launch);
    ctx->done_ops++;
    sw_watch_op_end(&ctx->exec->watch);
    if (status == SW_OK)
        return SW_OK;
    return swi_node_failed(t, node, status);
}

/* A scalar of the run, wherever it is. */
static sw_status read_scalar(const sw_ctx *ctx, uint32_t value, double *out)
{
    float x;
    SW_TRY(swi_device_read(ctx->exec->target.device, &x, address(ctx, value), sizeof x));
    *out = (double)x;
    return SW_OK;
}

sw_status sw_item(sw_ctx *ctx, sw_value scalar, double *out)
{
    const swi_value *v = swi_value_at(ctx, scalar);
    if (v == NULL)
        return sw_ctx_status(ctx);
    if (out == NULL)
        return swi_stick(
            ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__, "sw_item: out must not be NULL"));
    if (!ctx->immediate)
        return swi_stick(ctx, sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                           "sw_item: values exist in immediate mode only"));
    if (v->type.dtype != SW_F32 || sw_type_elements(&v->type) != 1)
        return swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                           "sw_item: the value must be an f32 scalar"));
    return swi_stick(ctx, read_scalar(ctx, scalar.id - 1, out));
}

static sw_status keep_metrics(sw_ctx *ctx)
{
    SW_TRY(swi_history_reserve(&ctx->exec->history, ctx->trace.n_metrics));
    swi_history_run *run = swi_history_at(&ctx->exec->history, 0);
    swi_history_name(run, &ctx->trace);
    for (uint32_t i = 0; i < ctx->trace.n_metrics; i++)
        SW_TRY(read_scalar(ctx, ctx->trace.metrics[i].value, &run->metrics[i].value));
    return SW_OK;
}

static sw_status run_immediate(sw_exec *exec, const sw_run_args *args, bool *updated)
{
    sw_ctx *ctx = &exec->ctx;
    SW_TRY(swi_ctx_begin(exec, args, true)); /* first: what is refused here is of this run */
    SW_TRY(swi_make_ready(exec, args));
    SW_TRY(exec->backend->begin_immediate(exec, args));
    sw_arena_reset(exec->arena);
    exec->reset_pending = true;
    exec->last_immediate = true;
    size_t slot = 0;
    for (int i = 0; i < args->n_models; i++)
        exec->info.model_bytes += args->models[i]->bytes;
    for (int i = 0; i < args->n_inputs; i++)
        slot += ctx->trace.storages[i].rounded;
    SWI_ASK(prepare, exec, args, NULL);
    not_drawn(args);
    sw_watch_begin(&exec->watch, exec->info.model_bytes + slot);
    const uint32_t fp = exec->fp = swi_fp_enter();
    args->fn(ctx, args->user);
    (void)swi_write_states(ctx); /* an error stays in the ctx */
    swi_fp_leave(fp);
    sw_watch_end(&exec->watch);
    read_watch(exec);
    *updated = ctx->updated;
    SW_TRY(swi_ctx_end(ctx));
    SW_TRY(exec->backend->end_immediate(exec));
    exec->info.bump_bytes = exec->info.arena_bytes = sw_arena_live(exec->arena);
    SW_TRY(keep_metrics(ctx));
    /* A later trace in this ctx must not take away the names of what left this run. */
    const swi_trace trace = ctx->trace;
    ctx->trace = exec->immediate_trace;
    exec->immediate_trace = trace;
    return SW_OK;
}
