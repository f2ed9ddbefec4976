/* The observer that tells an NVTX tool names. It returns at once where no tool is attached
 * (exec->watch.nvtx is NULL).
 *
 * Names of ops, tensors and layers for NVTX: those of a program once, when it runs first; those
 * of immediate mode node by node, from the same list of known names. */
#include "alloc/base/size.h"
#include "profiler/record/nvtx.h"
#include "runtime/observe/observe.h"
#include <string.h>

static sw_status attach(sw_exec *exec, const sw_exec_opts *o)
{
    const sw_nvtx_level level = o->nvtx;
#define ROLE_NAME(id, name) name,
    static const char *const roles[] = {SWI_ROLES(ROLE_NAME)};
#undef ROLE_NAME
    if ((unsigned)level > SW_NVTX_OFF)
        SW_FAIL(SW_INVALID, "the NVTX level must be SW_NVTX_PHASES to SW_NVTX_OFF (got %d)",
                (int)level);
    if (level == SW_NVTX_OFF || exec->no_phases)
        return SW_OK;
    const sw_nvtx_opts opts = {.layers = level != SW_NVTX_PHASES,
                               .ops = level == SW_NVTX_OPS,
                               .base = sw_arena_base(exec->arena),
                               .bytes = sw_arena_store(exec->arena)->reserved_bytes,
                               .roles = roles,
                               .n_roles = SWI_ROLE_COUNT};
    return sw_nvtx_run_create(&exec->watch.nvtx, &opts);
}

static void release(sw_exec *exec)
{
    sw_nvtx_table_free(&exec->immediate_names);
    sw_nvtx_run_destroy(exec->watch.nvtx);
    exec->watch.nvtx = NULL;
}

/* ---- tables ------------------------------------------------------------------------------ */

/* "block1/conv1" is two scopes. */
static sw_status add_scopes(sw_nvtx_run *run, sw_nvtx_table *t, const char *layer)
{
    char path[SWI_MAX_SCOPE];
    memccpy(path, layer, '\0', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    for (char *at = path, *next; at != NULL && *at != '\0'; at = next) {
        next = strchr(at, '/');
        if (next != NULL)
            *next++ = '\0';
        SW_TRY(sw_heap_reserve(&t->scopes, SW_HEAP_PROFILE, &t->cap_scopes, t->n_scopes + 1));
        SW_TRY(sw_nvtx_run_name(run, at, false, &t->scopes[t->n_scopes]));
        t->n_scopes++;
    }
    return SW_OK;
}

/* The op after the last; ops of one layer that follow each other share its scopes. */
static sw_status add_op(sw_nvtx_run *run, sw_nvtx_table *t, const swi_trace *trace,
                        const swi_node *node, bool same_layer)
{
    SW_TRY(sw_heap_reserve(&t->ops, SW_HEAP_PROFILE, &t->cap_ops, t->n_ops + 1));
    sw_nvtx_op *op = &t->ops[t->n_ops];
    char name[320];
    if (same_layer)
        *op = t->ops[t->n_ops - 1];
    else {
        op->scope = t->n_scopes;
        SW_TRY(add_scopes(run, t, swi_string(trace, node->layer)));
        op->n_scopes = t->n_scopes - op->scope;
    }
    SW_TRY(
        sw_nvtx_run_name(run, swi_node_name(trace, node, name, sizeof name), false, &op->name));
    t->n_ops++;
    return SW_OK;
}

/* node: that makes it, or NULL. */
static sw_status add_tensor(sw_nvtx_run *run, sw_nvtx_table *t, const swi_trace *trace,
                            uint32_t storage, const swi_node *node)
{
    const swi_storage *s = &trace->storages[storage];
    if (storage >= t->n_tensors) {
        SW_TRY(sw_heap_reserve(&t->tensors, SW_HEAP_PROFILE, &t->cap_tensors, storage + 1));
        t->n_tensors = storage + 1;
    }
    t->tensors[storage] = (sw_nvtx_tensor){.bytes = s->bytes, .role = s->role};
    if (!sw_nvtx_run_has_heap(run))
        return SW_OK;
    char name[320];
    return sw_nvtx_run_name(run, swi_made_name(trace, storage, node, name, sizeof name), true,
                            &t->tensors[storage].name);
}

static sw_status name_program(sw_nvtx_run *run, swi_frame *f)
{
    const swi_program *p = f->program;
    const swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_run_op *op = &p->ops[i];
        SW_TRY(add_op(run, &f->names, t, &t->nodes[op->node],
                      i > 0 && p->op_layer[i] == p->op_layer[i - 1]));
        for (uint32_t k = 0; k < op->n_births; k++)
            SW_TRY(add_tensor(run, &f->names, t, p->births[op->births + k], NULL));
    }
    return SW_OK;
}

/* ---- runs -------------------------------------------------------------------------------- */

static void find_base(sw_exec *exec, const sw_run_args *args)
{
    memset(exec->nvtx_base, 0, sizeof exec->nvtx_base);
    for (int m = 0; m < args->n_models; m++)
        for (int role = 0; role < SWI_ROLE_COUNT; role++)
            exec->nvtx_base[role] += args->models[m]->role_bytes[role];
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_type type = {args->inputs[i].dtype, SW_PLAIN, args->inputs[i].shape};
        exec->nvtx_base[SWI_ROLE_INPUT] += sw_size_round(sw_type_bytes(&type));
    }
}

static sw_status prepare(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    sw_nvtx_run *run = exec->watch.nvtx;
    if (run == NULL)
        return SW_OK;
    sw_nvtx_table *names = f != NULL ? &f->names : &exec->immediate_names;
    if (f == NULL)
        names->n_ops = names->n_tensors = names->n_scopes = 0;
    else if (names->n_ops < f->program->n_ops) {
        const sw_status status = name_program(run, f);
        if (status != SW_OK) {
            sw_nvtx_table_free(names);
            return status;
        }
    }
    find_base(exec, args);
    sw_nvtx_run_prepare(run, names, exec->nvtx_base, args->mode == SW_TRAIN);
    return SW_OK;
}

static sw_status push(sw_ctx *ctx, uint32_t storage, uint32_t node)
{
    sw_nvtx_run *run = ctx->exec->watch.nvtx;
    if (run == NULL)
        return SW_OK;
    return add_tensor(run, &ctx->exec->immediate_names, &ctx->trace, storage,
                      &ctx->trace.nodes[node]);
}

static sw_status begin_op(sw_ctx *ctx, uint32_t node)
{
    sw_nvtx_run *run = ctx->exec->watch.nvtx;
    sw_nvtx_table *names = &ctx->exec->immediate_names;
    if (run == NULL)
        return SW_OK;
    names->n_ops = names->n_scopes = 0; /* the table has this one alone */
    return add_op(run, names, &ctx->trace, &ctx->trace.nodes[node], false);
}

static void role_changes(sw_ctx *ctx, uint32_t storage, uint32_t role)
{
    sw_nvtx_run *run = ctx->exec->watch.nvtx;
    sw_nvtx_table *names = &ctx->exec->immediate_names;
    const swi_storage *s = &ctx->trace.storages[storage];
    if (run == NULL || !ctx->immediate || storage >= ctx->done_storages ||
        s->segment != SWI_SEG_STEP)
        return;
    sw_nvtx_run_recast(run, s->role, (swi_role)role, s->rounded);
    names->tensors[storage].role = (swi_role)role;
}

static void name_model(sw_exec *exec, sw_model *model)
{
    if (!sw_nvtx_run_has_heap(exec->watch.nvtx) || model->nvtx_heap != NULL)
        return;
    char name[SW_NVTX_MEMORY_NAME + 1];
    model->nvtx_heap =
        sw_nvtx_heap(sw_nvtx_memory_name(model->name, name), model->base, model->bytes);
    for (uint32_t i = 1; model->nvtx_heap != NULL && i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        /* On a device whole models are copied, with what lies between their entries. */
        const size_t bytes =
            model->device->backend->host_memory ? e->bytes : sw_size_round(e->bytes);
        if (bytes > 0)
            sw_nvtx_region(model->nvtx_heap, sw_nvtx_memory_name(e->name, name),
                           model->base + e->offset, bytes);
    }
}

const swi_observer swi_nvtx_observer =
    SW_INIT(.name = "NVTX", .attach = attach, .release = release, .model = name_model,
            .prepare = prepare, .push = push, .op = begin_op, .role = role_changes);
