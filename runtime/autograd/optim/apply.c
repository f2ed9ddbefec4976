/* Optimizers in a step function: what sw_accumulate, sw_clip_norm and sw_update append. */
#include "runtime/model/model_label.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include <stdio.h>
#include <string.h>

swi_param_grad *swi_pending(sw_ctx *ctx, const sw_optimizer *o, uint32_t entry)
{
    swi_param_grad *g = NULL;
    for (int m = 0; m < ctx->args->n_models && g == NULL; m++)
        if (ctx->args->models[m] == o->model)
            g = swi_gradient_noted(ctx, SWI_SEG_MODEL + (uint32_t)m, entry);
    return g;
}

static bool has_pending(sw_ctx *ctx, const sw_optimizer *o)
{
    for (uint32_t e = 1; e < o->model->n_entries; e++)
        if (o->model->entries[e].optimizer == o->index && swi_pending(ctx, o, e) != NULL)
            return true;
    return false;
}

static void drop_pending(sw_ctx *ctx, const sw_optimizer *o)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ctx->n_grads; i++) {
        const sw_model *model = ctx->args->models[ctx->grads[i].model - SWI_SEG_MODEL];
        if (model == o->model && model->entries[ctx->grads[i].entry].optimizer == o->index)
            continue;
        ctx->grad_at[ctx->grads[i].model - SWI_SEG_MODEL][ctx->grads[i].entry] = kept;
        ctx->grads[kept++] = ctx->grads[i];
    }
    ctx->n_grads = kept;
}

/* Every op of an optimizer touches what outlives the run: from the first on, a failure of the
 * run leaves the model changed. */
sw_status swi_append_update(sw_ctx *ctx, uint8_t release, uint32_t op, const uint32_t *in,
                            int n_in, const void *attrs, const uint32_t *into, int n_into)
{
    sw_type types[8];
    uint32_t outs[8];
    for (int i = 0; i < n_into; i++)
        types[i] = ctx->trace.values[into[i]].type;
    const swi_append_args args = {.op = op,
                                  .grad = -1,
                                  .in = in,
                                  .n_in = n_in,
                                  .attrs = attrs,
                                  .out_types = types,
                                  .into = into,
                                  .n_out = n_into,
                                  .update = true,
                                  .release = release};
    return swi_append(ctx, &args, outs);
}

uint8_t swi_first_release(const sw_optimizer *o)
{
    uint8_t release = SWI_STAYS;
    for (uint32_t g = 0; g < o->n_groups; g++)
        if (o->release[g] == SWI_RELEASED || release == SWI_STAYS)
            release = o->release[g];
    return release;
}

uint32_t swi_flag_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
{
    return o->keep ? swi_model_element(ctx, o->model, o->flags, o->model->entries[e].kept_flag)
                   : SWI_NONE;
}

/* The kept gradients are used: each begins anew with its next contribution. */
static sw_status clear_flags(sw_ctx *ctx, const sw_optimizer *o)
{
    const uint32_t flags = swi_model_value(ctx, o->model, o->flags);
    if (ctx->status != SW_OK)
        return ctx->status;
    swi_fill_attrs attrs;
    swi_set_fill(&attrs, &ctx->trace.values[flags].type, 0.0f);
    return swi_append_update(ctx, swi_first_release(o), SW_OP_fill, NULL, 0, &attrs, &flags, 1);
}

/* Has this optimizer a released update, which cannot be had together with `call`? */
static sw_status refuse_released(const sw_optimizer *o, const char *call)
{
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const swi_entry *entry = &o->model->entries[e];
        if (entry->role == SWI_ROLE_PARAMETER && entry->optimizer == o->index &&
            !entry->frozen && o->release[entry->group] == SWI_RELEASED)
            SW_FAIL(SW_INVALID,
                    "%s needs all gradients at once, but '%s' is updated by release, which "
                    "ends its gradient before the others are there: use update after, or do "
                    "without %s",
                    call, entry->name, call);
    }
    return SW_OK;
}

static sw_status accumulate(sw_ctx *ctx, const sw_optimizer *o)
{
    SW_TRY(refuse_released(o, "sw_accumulate"));
    if (!o->keep)
        SW_FAIL(SW_INVALID,
                "sw_accumulate: the optimizer does not keep gradients: set keep_gradients");
    if (!has_pending(ctx, o))
        SW_FAIL(SW_INVALID,
                "sw_accumulate: sw_backward has made no gradient for this optimizer");
    SW_TRY(swi_note_losses(ctx, o));
    /* Backwards by first use: the order in which the gradients become complete. Each is added
     * right then, whatever the optimizer asks for its updates, since nothing else waits for it
     * but its own bytes. */
    for (uint32_t i = ctx->n_grads; i-- > 0 && ctx->status == SW_OK;) {
        const swi_param_grad g = ctx->grads[i];
        const uint32_t e = g.entry;
        if (ctx->args->models[g.model - SWI_SEG_MODEL] != o->model ||
            o->model->entries[e].optimizer != o->index)
            continue;
        const uint32_t flag = swi_flag_of(ctx, o, e);
        const uint32_t kept = swi_model_value(ctx, o->model, o->model->entries[e].kept);
        if (ctx->status != SW_OK)
            return ctx->status;
        const uint32_t in[] = {kept, g.value, flag}, into[] = {kept, flag};
        SW_TRY(
            swi_append_update(ctx, SWI_RELEASED, SW_OP_accumulate_into, in, 3, NULL, into, 2));
    }
    drop_pending(ctx, o);
    return ctx->status;
}

/* Ops that optimizers append belong to the step, wherever the step function does it. */
static void append_in_step(sw_ctx *ctx, const sw_optimizer *o, const char *call,
                           sw_status (*append)(sw_ctx *ctx, const sw_optimizer *o))
{
    if (!swi_ctx_works(ctx) || ctx->noise != NULL)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    sw_status status = sw_handle_check(o, SW_HANDLE_OPTIMIZER, call);
    if (status == SW_OK)
        status = append(ctx, o);
    (void)swi_stick(ctx, status);
    ctx->phase_now = phase;
}

void sw_accumulate(sw_ctx *ctx, sw_optimizer *optimizer)
{
    append_in_step(ctx, optimizer, "sw_accumulate", accumulate);
}

uint32_t swi_gradient_for(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
{
    const swi_entry *entry = &o->model->entries[e];
    if (entry->role != SWI_ROLE_PARAMETER || entry->optimizer != o->index || entry->frozen)
        return SWI_NONE;
    if (o->keep)
        return swi_model_value(ctx, o->model, entry->kept);
    const swi_param_grad *g = swi_pending(ctx, o, e);
    return g != NULL ? g->value : SWI_NONE;
}

/* Where the scale waits for the update; NULL: this optimizer cannot be clipped. */
static uint32_t *clip_scale_of(sw_ctx *ctx, const sw_optimizer *o)
{
    for (int m = 0; m < ctx->args->n_models && o->index < 8; m++)
        if (ctx->args->models[m] == o->model)
            return &ctx->clip_scale[m][o->index];
    return NULL;
}

static sw_status clip(sw_ctx *ctx, const sw_optimizer *o, sw_knob max)
{
    SW_TRY(refuse_released(o, "sw_clip_norm"));
    SW_TRY(swi_knob_use(max, SWI_KNOB_NORM));
    SW_TRY(swi_hook_gradients(ctx, o));
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    const sw_type f64 = {SW_F64, SW_PLAIN, {0, {0}}};
    uint32_t sum = SWI_NONE;
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t g = swi_gradient_for(ctx, o, e);
        if (ctx->status != SW_OK)
            return ctx->status;
        if (g == SWI_NONE)
            continue;
        const uint32_t in[] = {g, swi_flag_of(ctx, o, e)};
        if (ctx->status != SW_OK)
            return ctx->status;
        const swi_append_args args = {.op = SW_OP_sumsq,
                                      .grad = -1,
                                      .in = in,
                                      .n_in = o->keep ? 2 : 1,
                                      .out_types = &f64,
                                      .into = sum != SWI_NONE ? &sum : NULL,
                                      .n_out = 1,
                                      .accumulate = sum != SWI_NONE};
        SW_TRY(swi_append(ctx, &args, &sum));
    }
    if (sum == SWI_NONE)
        SW_FAIL(SW_INVALID,
                "sw_clip_norm: there is no gradient to clip: call sw_backward first");
    const uint32_t in[] = {sum, swi_knob_value(ctx, max)};
    if (ctx->status != SW_OK)
        return ctx->status;
    return swi_apply(ctx, SW_OP_clip_scale, in, 2, NULL, NULL, 0, NULL, clip_scale_of(ctx, o));
}

void sw_clip_norm(sw_ctx *ctx, sw_optimizer *optimizer, sw_knob max)
{
    if (!swi_ctx_works(ctx) || ctx->noise != NULL)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    sw_status status = sw_handle_check(optimizer, SW_HANDLE_OPTIMIZER, "sw_clip_norm");
    if (status == SW_OK && optimizer->index >= 8)
        status = sw_error_set(SW_INVALID, __FILE__, __LINE__,
                              "at most 8 optimizers of a model can be clipped");
    else if (status == SW_OK)
        status = clip(ctx, optimizer, max);
    (void)swi_stick(ctx, status);
    ctx->phase_now = phase;
}

static uint32_t take_clip_scale(sw_ctx *ctx, const sw_optimizer *o)
{
    uint32_t *pending_scale = clip_scale_of(ctx, o);
    const uint32_t scale = pending_scale != NULL ? *pending_scale : SWI_NONE;
    if (pending_scale != NULL)
        *pending_scale = SWI_NONE;
    return scale;
}

/* The rate of group g, and after it the numbers that are knobs. */
static uint32_t rate_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t g)
{
    return swi_knob_values(ctx, (sw_knob){o->model, o->lr_knob[g]},
                           swi_knobs_read(o->attrs.reads));
}

/* The corrections of this update of group g (0: of all), a tensor of this run; its step is
 * counted. */
static sw_status tick(sw_ctx *ctx, const sw_optimizer *o, uint32_t g,
                      const swi_finite_checks *v, uint32_t *out)
{
    const int32_t reads = (o->attrs.reads & SWI_READS_BETAS) != 0 ? o->attrs.reads : 0;
    const uint8_t release = swi_first_release(o);
    const uint32_t finite_check = release == SWI_RELEASED ? v->losses : v->all;
    const uint32_t powers = swi_model_value(ctx, o->model, o->tick[g]);
    uint32_t in[4] = {powers}, outs[2];
    int n = 1;
    if (o->keep)
        in[n++] = swi_model_value(ctx, o->model, o->flags);
    if (reads != 0)
        in[n++] = rate_of(ctx, o, g);
    if (finite_check != SWI_NONE)
        in[n++] = finite_check;
    if (ctx->status != SW_OK)
        return ctx->status;
    const sw_type pair = ctx->trace.values[powers].type;
    const sw_type types[] = {pair, pair};
    const uint32_t into[] = {SWI_NONE, powers};
    const swi_tick_attrs attrs = {.beta1 = o->attrs.beta1,
                                  .beta2 = o->attrs.beta2,
                                  .has_flags = o->keep,
                                  .reads = (int16_t)reads,
                                  .has_finite_check = finite_check != SWI_NONE};
    const swi_append_args args = {.op = o->kind->tick,
                                  .grad = -1,
                                  .in = in,
                                  .n_in = n,
                                  .attrs = &attrs,
                                  .out_types = types,
                                  .into = into,
                                  .n_out = 2,
                                  .update = true,
                                  .release = release};
    SW_TRY(swi_append(ctx, &args, outs));
    *out = outs[0];
    return SW_OK;
}

/* Is there a parameter that an update of kept gradients could ever change? */
static bool has_kept(const sw_optimizer *o)
{
    for (uint32_t e = 1; e < o->model->n_entries; e++)
        if (o->model->entries[e].optimizer == o->index && !o->model->entries[e].frozen &&
            o->model->entries[e].role == SWI_ROLE_PARAMETER)
            return true;
    return false;
}

/* Shared by the updates of one sw_update; SWI_NONE: there is none. */
typedef struct {
    uint32_t scale, corrections[SWI_MAX_GROUPS];
    swi_finite_checks finite_checks;
} shared;

/* Update entry e by `grad`: operands in the order of swi_update_attrs. */
static sw_status append_one(sw_ctx *ctx, const sw_optimizer *o, uint32_t e, uint32_t grad,
                            const shared *with)
{
    const swi_entry *entry = &o->model->entries[e];
    const uint8_t release = o->release[entry->group];
    swi_update_attrs attrs = o->attrs;
    uint32_t in[3 + SWI_MAX_STATE + 4] = {swi_model_value(ctx, o->model, e), grad,
                                          rate_of(ctx, o, entry->group)};
    uint32_t into[1 + SWI_MAX_STATE] = {in[0]};
    int n = 3;
    for (; attrs.n_state < SWI_MAX_STATE && entry->state[attrs.n_state] != SWI_NONE;
         attrs.n_state++)
        into[1 + attrs.n_state] = in[n++] =
            swi_model_value(ctx, o->model, entry->state[attrs.n_state]);
    const uint32_t corrections = with->corrections[swi_ticks(o) > 1 ? entry->group : 0];
    const uint32_t more[] = {corrections, with->scale, swi_flag_of(ctx, o, e),
                             release == SWI_RELEASED ? ctx->finite_checks[e]
                                                     : with->finite_checks.all};
    int32_t *const has[] = {&attrs.has_corrections, &attrs.has_scale, &attrs.has_flag,
                            &attrs.has_finite_check};
    if (ctx->status != SW_OK)
        return ctx->status;
    for (int k = 0; k < 4; k++) {
        *has[k] = more[k] != SWI_NONE;
        if (*has[k])
            in[n++] = more[k];
    }
    attrs.weight_decay = o->weight_decay[entry->group];
    return swi_append_update(ctx, release, o->kind->op, in, n, &attrs, into, 1 + attrs.n_state);
}

void swi_enter_layer(sw_ctx *ctx, const sw_model *model, const char *name, char *before)
{
    char shown[SWI_SHOWN_BYTES];
    memcpy(before, ctx->scope, sizeof ctx->scope);
    snprintf(ctx->scope, sizeof ctx->scope, "%s",
             swi_entry_shown(ctx->args, model, name, shown));
    char *dot = strrchr(ctx->scope, '.');
    if (dot != NULL)
        *dot = '\0';
    swi_path_of(ctx->scope);
}

void swi_leave_layer(sw_ctx *ctx, const char *before)
{
    memcpy(ctx->scope, before, sizeof ctx->scope);
}

/* Reports list an update under the layer of its parameter. */
static sw_status update_one(sw_ctx *ctx, const sw_optimizer *o, uint32_t e, uint32_t grad,
                            const shared *with)
{
    char before[SWI_MAX_SCOPE];
    swi_enter_layer(ctx, o->model, o->model->entries[e].name, before);
    const sw_status status = append_one(ctx, o, e, grad, with);
    swi_leave_layer(ctx, before);
    return status;
}

static sw_status reserve_finite_checks(sw_ctx *ctx, const sw_optimizer *o)
{
    void *p = ctx->finite_checks;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &ctx->cap_finite_checks, o->model->n_entries,
                           sizeof *ctx->finite_checks));
    ctx->finite_checks = p;
    return SW_OK;
}

static sw_status update(sw_ctx *ctx, const sw_optimizer *o)
{
    SW_TRY(swi_hook_gradients(ctx, o));
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    if (o->keep && !has_kept(o))
        SW_FAIL(SW_INVALID, "sw_update: this optimizer has no parameter that is not frozen");
    if (!o->keep && !has_pending(ctx, o))
        SW_FAIL(SW_INVALID, "sw_update: sw_backward has made no gradient for this optimizer");
    shared with = {.scale = take_clip_scale(ctx, o), .corrections = {SWI_NONE}};
    SW_TRY(reserve_finite_checks(ctx, o));
    SW_TRY(swi_append_finite_checks(ctx, o, ctx->finite_checks, &with.finite_checks));
    for (uint32_t g = 0; g < swi_ticks(o); g++)
        SW_TRY(tick(ctx, o, g, &with.finite_checks, &with.corrections[g]));
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t grad = swi_gradient_for(ctx, o, e);
        if (ctx->status != SW_OK)
            return ctx->status;
        if (grad == SWI_NONE)
            continue; /* frozen, or the loss does not depend on it: it stays as it is */
        SW_TRY(update_one(ctx, o, e, grad, &with));
    }
    SW_TRY(swi_count_update(ctx, o, &with.finite_checks));
    drop_pending(ctx, o);
    return o->keep ? clear_flags(ctx, o) : SW_OK;
}

void sw_update(sw_ctx *ctx, sw_optimizer *optimizer)
{
    append_in_step(ctx, optimizer, "sw_update", update);
}

static sw_status update_released(sw_ctx *ctx, const sw_optimizer *o)
{
    sw_optimizer released = *o; /* the same but for the times of its updates */
    for (uint32_t g = 0; g < o->n_groups && !o->keep; g++)
        if (o->release[g] == SWI_RELEASABLE)
            released.release[g] = SWI_RELEASED;
    return update(ctx, &released);
}

void swi_update_released(sw_ctx *ctx, sw_optimizer *optimizer)
{
    append_in_step(ctx, optimizer, "sw_update", update_released);
}
