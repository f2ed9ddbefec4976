/* The ctx of a trace, and immediate mode: the same step function, each node executed as it is
 * appended, every storage pushed on the step arena. No lifetimes and no in-place results: the
 * peak is the height of the bump. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "runtime/exec/run_internal.h"
#include "runtime/exec/backend.h"
#include <stdio.h>
#include <string.h>

static uint32_t generations;

static sw_status reserve_model_values(sw_ctx *ctx, const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++) {
        const uint32_t entries = args->models[m]->n_entries, n = 2 * entries;
        void *p = ctx->model_values[m];
        SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &ctx->model_cap[m], n, sizeof(uint32_t)));
        ctx->model_values[m] = p;
        memset(ctx->model_values[m], 0xff, n * sizeof(uint32_t));
        ctx->grad_at[m] = ctx->model_values[m] + entries;
    }
    return SW_OK;
}

/* Inputs are the first values and storages, one of each per input. */
static sw_status add_inputs(sw_ctx *ctx)
{
    for (int i = 0; i < ctx->args->n_inputs; i++) {
        const sw_type type = {ctx->args->inputs[i].dtype, SW_PLAIN, ctx->args->inputs[i].shape};
        const uint32_t s = swi_new_storage(ctx, sw_type_bytes(&type), SWI_ROLE_INPUT);
        if (s == SWI_NONE || swi_new_value(ctx, &type, s) == SWI_NONE)
            return ctx->status;
        ctx->trace.storages[s].segment = SWI_SEG_INPUT + (uint32_t)i;
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
    SW_TRY(reserve_model_values(ctx, args));
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
        SW_TRY(swi_observe_push(ctx, ctx->done_storages, (uint32_t)(node - t->nodes)));
        const sw_status pushed = sw_arena_push(ctx->exec->arena, &at, s->bytes, "immediate");
        ctx->exec->push_refused = pushed != SW_OK;
        SW_TRY(pushed);
        s->offset = (size_t)((unsigned char *)at - sw_arena_base(ctx->exec->arena));
        s->birth = ctx->done_ops;
    }
    return swi_observe_op(ctx, (uint32_t)(node - t->nodes));
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
        .step = (uint32_t)ctx->args->step, .run = ctx->args->run);
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

sw_status swi_run_immediate(sw_exec *exec, const sw_run_args *args, bool *updated)
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
    SW_TRY(swi_observe_prepare(exec, args, NULL));
    sw_watch_begin(&exec->watch, exec->info.model_bytes + slot);
    const uint32_t fp = exec->fp = swi_fp_enter();
    args->fn(ctx, args->user);
    (void)swi_write_states(ctx); /* an error stays in the ctx */
    swi_fp_leave(fp);
    sw_watch_end(&exec->watch);
    swi_read_watch(exec);
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
