/* Values that a step function reads from models: parameters, states and knobs, at the version
 * of their place in the program; and assignment to states. */
#include "runtime/model/model_label.h"
#include "runtime/base/common.h"
#include "runtime/graph/trace_internal.h"
#include <stdio.h>
#include <string.h>

static int model_index(sw_ctx *ctx, const sw_model *model)
{
    for (int i = 0; i < ctx->args->n_models; i++)
        if (ctx->args->models[i] == model)
            return i;
    (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                      "model %s must be among the models of this run",
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
    char shown[SWI_SHOWN_BYTES];
    const uint32_t name = swi_trace_string(
        &ctx->trace, swi_entry_shown(ctx->args, model, e->name, shown), &status);
    if (swi_stick(ctx, status) != SW_OK)
        return SWI_NONE;
    swi_storage *storage = &ctx->trace.storages[s];
    storage->segment = SWI_SEG_MODEL + (uint32_t)m;
    storage->offset = e->offset;
    storage->entry = entry;
    storage->name = name;
    return s;
}

/* An op that wrote one element of an entry has left the value of that element there. */
static bool is_whole(const swi_value *v, const swi_entry *e)
{
    return v->type.shape.rank == e->shape.rank;
}

uint32_t swi_model_value(sw_ctx *ctx, sw_model *model, uint32_t entry)
{
    if (ctx->status != SW_OK)
        return SWI_NONE;
    const int m = model_index(ctx, model);
    if (m < 0)
        return SWI_NONE;
    if (entry == 0 || entry >= model->n_entries) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "the parameter must be one of model %s", model->name));
        return SWI_NONE;
    }
    uint32_t *known = &ctx->model_values[m][entry];
    const swi_entry *e = &model->entries[entry];
    if (*known != SWI_NONE && is_whole(&ctx->trace.values[*known], e))
        return *known;
    const sw_type type = {e->dtype, SW_PLAIN, e->shape};
    *known = swi_new_value(ctx, &type,
                           *known != SWI_NONE ? ctx->trace.values[*known].storage
                                              : model_storage(ctx, m, model, entry));
    return *known;
}

/* A tensor of this shape from element `index` of an entry on. */
static uint32_t value_in(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index,
                         sw_shape shape)
{
    const uint32_t block = swi_model_value(ctx, model, entry);
    if (block == SWI_NONE)
        return SWI_NONE;
    const sw_dtype dtype = model->entries[entry].dtype;
    const sw_type type = {dtype, SW_PLAIN, shape};
    const uint32_t v = swi_new_value(ctx, &type, ctx->trace.values[block].storage);
    if (v != SWI_NONE)
        ctx->trace.values[v].offset = index * sw_dtype_bytes(dtype);
    return v;
}

uint32_t swi_model_element(sw_ctx *ctx, sw_model *model, uint32_t entry, uint32_t index)
{
    return value_in(ctx, model, entry, index, (sw_shape){0, {0}});
}

uint32_t swi_knob_value(sw_ctx *ctx, sw_knob knob)
{
    return swi_knob_values(ctx, knob, 1);
}

uint32_t swi_knob_values(sw_ctx *ctx, sw_knob first, uint32_t n)
{
    if (!swi_ctx_works(ctx))
        return SWI_NONE;
    if (!sw_handle_lives(first.model, SW_HANDLE_MODEL) || first.index >= first.model->n_knobs ||
        n > first.model->n_knobs - first.index) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "the knob must be one of this model"));
        return SWI_NONE;
    }
    return value_in(ctx, first.model, first.model->knob_entry, first.index,
                    n == 1 ? (sw_shape){0, {0}} : SW_SHAPE(n));
}

sw_value sw_use(sw_ctx *ctx, sw_param param)
{
    if (!swi_ctx_works(ctx))
        return (sw_value){0, 0};
    if (swi_entry_of(param) == NULL)
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "the parameter must be one of this model"));
    return ctx->status != SW_OK
               ? (sw_value){0, 0}
               : swi_handle(ctx, swi_model_value(ctx, param.model, param.index));
}

/* From here on the state is `value`. */
static sw_status note_assignment(sw_ctx *ctx, sw_param state, uint32_t target, uint32_t value)
{
    const uint32_t m = (uint32_t)model_index(ctx, state.model);
    sw_status status = SW_OK;
    const uint32_t layer = swi_trace_string(&ctx->trace, ctx->scope, &status);
    SW_TRY(status);
    ctx->model_values[m][state.index] = value;
    for (uint32_t i = 0; i < ctx->n_assignments; i++)
        if (ctx->assignments[i].model == m && ctx->assignments[i].entry == state.index) {
            ctx->assignments[i].value = value;
            return SW_OK;
        }
    void *p = ctx->assignments;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &ctx->cap_assignments, ctx->n_assignments + 1,
                           sizeof *ctx->assignments));
    ctx->assignments = p;
    ctx->assignments[ctx->n_assignments++] =
        (swi_assignment){m, state.index, target, value, layer};
    return SW_OK;
}

/* A new version: later sw_use gets `x`. The bytes are written at the end of the run, so that a
 * backward pass that comes later reads the old version, and a run that fails before leaves it.
 */
void sw_assign(sw_ctx *ctx, sw_param state, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    if (swi_entry_of(state) == NULL) {
        (void)swi_stick(
            ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                              "sw_assign: the target must be a state or buffer of this model"));
        return;
    }
    const uint32_t target =
        swi_handle(ctx, swi_model_value(ctx, state.model, state.index)).id - 1;
    if (ctx->status != SW_OK)
        return;
    v = &ctx->trace.values[x.id - 1];
    const swi_value *t = &ctx->trace.values[target];
    const swi_entry *e = &state.model->entries[state.index];
    if ((e->role != SWI_ROLE_STATE && e->role != SWI_ROLE_BUFFER) || e->values != NULL) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_assign: '%s' is a %s; only states and buffers are "
                                     "assigned",
                                     e->name,
                                     e->values != NULL ? "constant" : swi_role_name(e->role)));
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
    uint32_t value = swi_layout(ctx, x, SW_PLAIN).id - 1;
    /* A value in a model may change before the state is written: keep it as it is now. */
    if (ctx->status == SW_OK &&
        ctx->trace.storages[ctx->trace.values[value].storage].segment >= SWI_SEG_MODEL)
        (void)swi_apply(ctx, SW_OP_copy, &value, 1, NULL, NULL, 0, NULL, &value);
    if (ctx->status == SW_OK)
        (void)swi_stick(ctx, note_assignment(ctx, state, target, value));
}

sw_status swi_write_states(sw_ctx *ctx)
{
    char scope[SWI_MAX_SCOPE];
    const int phase = ctx->phase_now, override = ctx->phase_override;
    memcpy(scope, ctx->scope, sizeof scope);
    ctx->phase_now = SW_STEP;
    ctx->phase_override = -1;
    for (uint32_t i = 0; i < ctx->n_assignments && ctx->status == SW_OK; i++) {
        const swi_assignment *a = &ctx->assignments[i];
        const sw_type type = ctx->trace.values[a->target].type;
        uint32_t out;
        snprintf(ctx->scope, sizeof ctx->scope, "%s", swi_string(&ctx->trace, a->layer));
        const swi_append_args args = {.op = SW_OP_copy,
                                      .grad = -1,
                                      .in = &a->value,
                                      .n_in = 1,
                                      .out_types = &type,
                                      .into = &a->target,
                                      .n_out = 1};
        (void)swi_append(ctx, &args, &out);
    }
    memcpy(ctx->scope, scope, sizeof scope);
    ctx->phase_now = phase;
    ctx->phase_override = override;
    return ctx->status;
}
