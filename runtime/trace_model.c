/* What a step function reads from models: parameters, states and knobs as values, at the
 * version of their place in the program; and assignment to states. */
#include "runtime/ops/ops.h"
#include "runtime/runtime_internal.h"
#include <string.h>

static int model_index(sw_ctx *ctx, const sw_model *model)
{
    for (int i = 0; i < ctx->args->n_models; i++)
        if (ctx->args->models[i] == model)
            return i;
    (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                      "model %s is used but not among the models of this run",
                                      model != NULL ? model->name : "(none)"));
    return -1;
}

/* The storage of one entry of a model; segments make it the same for every member of a shape.
 */
static uint32_t model_storage(sw_ctx *ctx, int m, sw_model *model, uint32_t entry)
{
    const swi_entry *e = &model->entries[entry];
    const uint32_t s = swi_new_storage(ctx, e->bytes, e->role);
    if (s == SWI_NONE)
        return s;
    sw_status status = SW_OK;
    const uint32_t name = swi_trace_string(&ctx->trace, e->name, &status);
    if (swi_stick(ctx, status) != SW_OK)
        return SWI_NONE;
    swi_storage *storage = &ctx->trace.storages[s];
    storage->segment = SWI_SEG_MODEL + (uint32_t)m;
    storage->offset = e->offset;
    storage->entry = entry;
    storage->name = name;
    return s;
}

uint32_t swi_model_value(sw_ctx *ctx, sw_model *model, uint32_t entry)
{
    if (ctx->status != SW_OK)
        return SWI_NONE;
    const int m = model_index(ctx, model);
    if (m < 0)
        return SWI_NONE;
    if (entry == 0 || entry >= model->n_entries) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "model %s has no such parameter", model->name));
        return SWI_NONE;
    }
    uint32_t *known = &ctx->model_values[m][entry];
    if (*known != SWI_NONE)
        return *known;
    const swi_entry *e = &model->entries[entry];
    const sw_type type = {e->dtype, SW_PLAIN, e->shape};
    *known = swi_new_value(ctx, &type, model_storage(ctx, m, model, entry));
    return *known;
}

uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob)
{
    if (ctx->status != SW_OK)
        return SWI_NONE;
    if (knob.model == NULL || knob.index >= knob.model->n_knobs) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__, "no such knob"));
        return SWI_NONE;
    }
    const uint32_t block = swi_model_value(ctx, knob.model, knob.model->knob_entry);
    if (block == SWI_NONE)
        return SWI_NONE;
    const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};
    const uint32_t v = swi_new_value(ctx, &scalar, ctx->trace.values[block].storage);
    if (v != SWI_NONE)
        ctx->trace.values[v].offset = knob.index * sizeof(float);
    return v;
}

sw_value sw_use(sw_ctx *ctx, sw_param param)
{
    if (ctx->status == SW_OK && param.model == NULL)
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__, "no such parameter"));
    return ctx->status != SW_OK
               ? (sw_value){0, 0}
               : swi_handle(ctx, swi_model_value(ctx, param.model, param.index));
}

void sw_assign(sw_ctx *ctx, sw_param state, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    const uint32_t target =
        swi_handle(ctx, swi_model_value(ctx, state.model, state.index)).id - 1;
    if (ctx->status != SW_OK)
        return;
    v = &ctx->trace.values[x.id - 1];
    const swi_value *t = &ctx->trace.values[target];
    const swi_entry *e = &state.model->entries[state.index];
    if (e->role != SWI_ROLE_STATE && e->role != SWI_ROLE_BUFFER) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_assign: '%s' is a %s; only states and buffers are "
                                     "assigned",
                                     e->name, swi_role_name(e->role)));
        return;
    }
    if (v->type.dtype != t->type.dtype || v->type.shape.rank != t->type.shape.rank ||
        memcmp(v->type.shape.dim, t->type.shape.dim,
               (size_t)v->type.shape.rank * sizeof v->type.shape.dim[0]) != 0) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_assign: '%s' has another shape or type", e->name));
        return;
    }
    const uint32_t in = swi_layout(ctx, x, SW_PLAIN).id - 1;
    if (ctx->status == SW_OK)
        (void)swi_apply(ctx, SW_OP_copy, &in, 1, NULL, &target, 0, NULL, NULL);
}
