/* Optimizers in a step function: what sw_accumulate, sw_clip_norm and sw_update append. */
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const sw_type finite_check_type = {SW_F64, SW_PLAIN, {0, {0}}};
static sw_status note_losses(sw_ctx *ctx, const sw_optimizer *o);
static sw_status append_finite_checks(sw_ctx *ctx, const sw_optimizer *o, uint32_t *own,
                                      swi_finite_checks *out);
static sw_status count_update(sw_ctx *ctx, const sw_optimizer *o, const swi_finite_checks *v);

/* ---- gradient hook ----------------------------------------------------------------------- */

/* Gradient hooks: a function of the program's own between a gradient and its update.
 *
 * The ops of a hook run when the update does. They move with a released update, right after the
 * last contribution to the gradient, so that no gradient lives longer for them. */

static swi_gradient_hook *hook_of(sw_ctx *ctx, const sw_model *model)
{
    for (int m = 0; m < ctx->args->n_models; m++)
        if (ctx->args->models[m] == model)
            return &ctx->hooks[m];
    return NULL;
}

static sw_status set_hook(sw_ctx *ctx, const sw_model *model, sw_gradient_fn *fn, void *user)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_gradient_hook"));
    swi_gradient_hook *hook = hook_of(ctx, model);
    if (hook == NULL)
        SW_FAIL(SW_INVALID, "sw_gradient_hook: model %s is not among the models of the run",
                model->name);
    *hook = (swi_gradient_hook){.model = fn != NULL ? model : NULL, .fn = fn, .user = user};
    return SW_OK;
}

void sw_gradient_hook(sw_ctx *ctx, sw_model *model, sw_gradient_fn *fn, void *user)
{
    if (swi_ctx_works(ctx))
        (void)swi_stick(ctx, set_hook(ctx, model, fn, user));
}

/* The value that a hook returned takes the place of the gradient, if it can be one. */
static sw_status take(sw_ctx *ctx, const swi_entry *entry, sw_value made, uint32_t *gradient)
{
    const swi_value *v = swi_value_at(ctx, made);
    if (v == NULL)
        return ctx->status;
    if (v->type.dtype != SW_F32 || !swi_same_shape(&v->type.shape, &entry->shape))
        SW_FAIL(SW_INVALID,
                "gradient hook: what it returns for '%s' must be f32 %s (got %s %s)",
                entry->name, SWI_SHAPE(&entry->shape), sw_dtype_name(v->type.dtype),
                SWI_SHAPE(&v->type.shape));
    made = swi_layout(ctx, made, SW_PLAIN);
    if (ctx->status == SW_OK)
        *gradient = swi_contiguous(ctx, made.id - 1);
    return ctx->status;
}

/* ---- shards ------------------------------------------------------------------------------ */

static void set_shards(swi_shard_attrs *a, const swi_target *t)
{
    memset(a, 0, sizeof *a); /* compared byte for byte */
    a->ranks = t->ranks;
    a->here = t->shards_here;
    a->shards = t->shards;
}

static sw_status check_shards(const swi_target *t, const sw_optimizer *o)
{
    if (o->shards != t->shards_here)
        SW_FAIL(SW_INVALID,
                "model %s: its optimizer is for %d shards of a step in each process, and the "
                "exec has %d: set sw_optimizer_opts.shards to %d",
                o->model->name, o->shards, t->shards_here, t->shards_here);
    if (t->shards > 1 && o->keep)
        SW_FAIL(SW_UNSUPPORTED,
                "model %s: an optimizer with keep_gradients has no steps of several shards",
                o->model->name);
    return SW_OK;
}

static swi_param_grad *swi_pending(sw_ctx *ctx, const sw_optimizer *o, uint32_t entry)
{
    swi_param_grad *g = NULL;
    for (int m = 0; m < ctx->args->n_models && g == NULL; m++)
        if (ctx->args->models[m] == o->model)
            g = swi_gradient_noted(ctx, SWI_SEG_MODEL + (uint32_t)m, entry);
    return g;
}

/* A pending gradient of a parameter that this optimizer updates; NULL: there is none. */
static swi_param_grad *own_pending(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
{
    const swi_entry *entry = &o->model->entries[e];
    return entry->optimizer == o->index && !entry->frozen ? swi_pending(ctx, o, e) : NULL;
}

/* The mean of entry e's gradient over all shards. */
static sw_status mean_over_shards(sw_ctx *ctx, const sw_optimizer *o, uint32_t e,
                                  uint32_t *gradient)
{
    uint32_t in[2] = {*gradient};
    swi_shard_attrs a;
    set_shards(&a, swi_target_of(ctx->exec));
    if (o->shards > 1)
        in[1] = swi_model_value(ctx, o->model, o->model->entries[e].partial);
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_shard_mean, in, 1 + (o->shards > 1), &a, NULL, 0, NULL,
                     gradient);
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

/* In the place of sw_accumulate's work for a step of several shards here. */
static sw_status keep_partial_sums(sw_ctx *ctx, const sw_optimizer *o)
{
    swi_shard_attrs a;
    set_shards(&a, swi_target_of(ctx->exec));
    SW_TRY(note_losses(ctx, o));
    for (uint32_t e = o->model->n_entries; e-- > 1;) {
        const swi_param_grad *g = own_pending(ctx, o, e);
        if (g == NULL)
            continue;
        const uint32_t sums = swi_model_value(ctx, o->model, o->model->entries[e].partial);
        const uint32_t in[] = {sums, g->value};
        SW_TRY(ctx->status);
        SW_TRY(swi_append_update(ctx, SWI_RELEASED, SW_OP_partial_sum, in, 2, &a, &sums, 1));
    }
    drop_pending(ctx, o);
    return ctx->status;
}

static uint8_t release_of(const sw_optimizer *o, uint8_t wanted, uint8_t other)
{
    uint8_t release = other;
    for (uint32_t g = 0; g < o->n_groups; g++)
        if (o->release[g] == wanted || release == other)
            release = o->release[g];
    return release;
}
/* When what serves all updates of an optimizer runs: as early as one of them asks for. */
#define FIRST_RELEASE(o) release_of(o, SWI_RELEASED, SWI_STAYS)
/* When what needs all gradients of an optimizer runs: as late as one of them asks for. */
#define LAST_RELEASE(o) release_of(o, SWI_STAYS, SWI_RELEASED)

/* The check on the losses of this run becomes that of all shards of the step. */
static sw_status check_of_shards(sw_ctx *ctx, const sw_optimizer *o, uint32_t *losses)
{
    const swi_target *t = swi_target_of(ctx->exec);
    const uint8_t release = FIRST_RELEASE(o);
    swi_shard_attrs a;
    set_shards(&a, t);
    if (*losses == SWI_NONE)
        return SW_OK;
    if (o->shards > 1) {
        const uint32_t both[] = {swi_model_element(ctx, o->model, o->counts, SWI_SKIPPED_NEXT),
                                 *losses};
        SW_TRY(ctx->status);
        SW_TRY(swi_append_any(ctx, both, 2, release, losses));
    }
    if (t->shards == t->shards_here)
        return SW_OK;
    const uint32_t own = *losses;
    const swi_append_args args =
        SW_INIT(.op = SW_OP_agreed_verdict, .grad = -1, .in = &own, .n_in = 1, .attrs = &a,
                .out_types = &finite_check_type, .n_out = 1, .release = release);
    return swi_append(ctx, &args, losses);
}

static bool has_pending(sw_ctx *ctx, const sw_optimizer *o)
{
    for (uint32_t e = 1; e < o->model->n_entries; e++)
        if (o->model->entries[e].optimizer == o->index && swi_pending(ctx, o, e) != NULL)
            return true;
    return false;
}

/* Pending gradients become means over shards and go to the hook of the optimizer's model, each
 * once. */
static sw_status hook_gradients(sw_ctx *ctx, const sw_optimizer *o)
{
    const swi_target *t = swi_target_of(ctx->exec);
    const swi_gradient_hook *hook = hook_of(ctx, o->model);
    const bool hooks = hook != NULL && hook->fn != NULL;
    SW_TRY(check_shards(t, o));
    if (hooks && o->keep)
        SW_FAIL(SW_UNSUPPORTED,
                "sw_gradient_hook: model %s has an optimizer that keeps gradients: without "
                "keep_gradients it can have a hook",
                o->model->name);
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const swi_entry *entry = &o->model->entries[e];
        const swi_param_grad *g = own_pending(ctx, o, e);
        const bool sums = g != NULL && t->shards > 1 && !g->summed;
        const bool gives = g != NULL && hooks && !g->hooked;
        if (!sums && !gives)
            continue;
        char before[SWI_MAX_SCOPE];
        uint32_t made = g->value;
        sw_status status = SW_OK;
        ctx->release = o->release[entry->group];
        swi_enter_layer(ctx, o->model, entry->name, before);
        if (sums)
            status = mean_over_shards(ctx, o, e, &made);
        if (status == SW_OK && gives) {
            const sw_value given =
                hook->fn(ctx, (sw_param){o->model, e}, swi_handle(ctx, made), hook->user);
            status = ctx->status == SW_OK ? take(ctx, entry, given, &made) : ctx->status;
        }
        swi_leave_layer(ctx, before);
        ctx->release = SWI_STAYS;
        SW_TRY(status);
        swi_param_grad *pending = swi_pending(ctx, o, e); /* the array may have moved */
        pending->value = made;
        pending->summed |= sums;
        pending->hooked |= gives;
    }
    return SW_OK;
}

/* ---- apply ------------------------------------------------------------------------------- */

/* Every op of an optimizer touches what outlives the run: from the first on, a failure of the
 * run leaves the model changed. */
sw_status swi_append_update(sw_ctx *ctx, uint8_t release, uint32_t op, const uint32_t *in,
                            int n_in, const void *attrs, const uint32_t *into, int n_into)
{
    sw_type types[8];
    uint32_t outs[8];
    for (int i = 0; i < n_into; i++)
        types[i] = ctx->trace.values[into[i]].type;
    const swi_append_args args = SW_INIT(.op = op, .grad = -1, .in = in, .n_in = n_in,
                                         .attrs = attrs, .out_types = types, .into = into,
                                         .n_out = n_into, .update = true, .release = release);
    return swi_append(ctx, &args, outs);
}

/* The flag of entry e's kept gradient; SWI_NONE: nothing is kept. */
static uint32_t flag_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
{
    return o->keep ? swi_model_element(ctx, o->model, o->flags, o->model->entries[e].kept_flag)
                   : SWI_NONE;
}

/* The kept gradients are used: each begins anew with its next contribution. */
static sw_status clear_flags(sw_ctx *ctx, const sw_optimizer *o)
{
    const uint32_t flags = swi_model_value(ctx, o->model, o->flags);
    SW_TRY(ctx->status);
    swi_fill_attrs attrs;
    swi_set_fill(&attrs, &ctx->trace.values[flags].type, 0.0f);
    return swi_append_update(ctx, FIRST_RELEASE(o), SW_OP_fill, NULL, 0, &attrs, &flags, 1);
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
    SW_TRY(check_shards(swi_target_of(ctx->exec), o));
    if (o->shards > 1 && has_pending(ctx, o))
        return keep_partial_sums(ctx, o);
    if (swi_target_of(ctx->exec)->shards > 1 && o->shards == 1)
        SW_FAIL(SW_INVALID,
                "sw_accumulate: each rank runs one shard of a step: sw_update alone ends it");
    SW_TRY(refuse_released(o, "sw_accumulate"));
    if (!o->keep)
        SW_FAIL(SW_INVALID,
                "sw_accumulate: the optimizer does not keep gradients: set keep_gradients");
    if (!has_pending(ctx, o))
        SW_FAIL(SW_INVALID,
                "sw_accumulate: sw_backward has made no gradient for this optimizer");
    SW_TRY(note_losses(ctx, o));
    /* Backwards by first use: the order in which the gradients become complete. Each is added
     * right then, whatever the optimizer asks for its updates, since nothing else waits for it
     * but its own bytes. */
    for (uint32_t i = ctx->n_grads; i-- > 0 && ctx->status == SW_OK;) {
        const swi_param_grad g = ctx->grads[i];
        const uint32_t e = g.entry;
        if (ctx->args->models[g.model - SWI_SEG_MODEL] != o->model ||
            o->model->entries[e].optimizer != o->index)
            continue;
        const uint32_t flag = flag_of(ctx, o, e);
        const uint32_t kept = swi_model_value(ctx, o->model, o->model->entries[e].kept);
        SW_TRY(ctx->status);
        const uint32_t in[] = {kept, g.value, flag}, into[] = {kept, flag};
        SW_TRY(
            swi_append_update(ctx, SWI_RELEASED, SW_OP_accumulate_into, in, 3, NULL, into, 2));
    }
    drop_pending(ctx, o);
    return ctx->status;
}

/* The gradient that an update of entry e uses; SWI_NONE: none came. */
static uint32_t gradient_for(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
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
    if (o->index >= 8)
        SW_FAIL(SW_INVALID, "at most 8 optimizers of a model can be clipped");
    SW_TRY(refuse_released(o, "sw_clip_norm"));
    SW_TRY(swi_knob_use(max, SWI_KNOB_NORM));
    SW_TRY(hook_gradients(ctx, o));
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    const sw_type f64 = {SW_F64, SW_PLAIN, {0, {0}}};
    uint32_t sum = SWI_NONE;
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t g = gradient_for(ctx, o, e);
        SW_TRY(ctx->status);
        if (g == SWI_NONE)
            continue;
        const uint32_t in[] = {g, flag_of(ctx, o, e)};
        SW_TRY(ctx->status);
        const swi_append_args args =
            SW_INIT(.op = SW_OP_sumsq, .grad = -1, .in = in, .n_in = o->keep ? 2 : 1,
                    .out_types = &f64, .into = sum != SWI_NONE ? &sum : NULL, .n_out = 1,
                    .accumulate = sum != SWI_NONE);
        SW_TRY(swi_append(ctx, &args, &sum));
    }
    if (sum == SWI_NONE)
        SW_FAIL(SW_INVALID,
                "sw_clip_norm: there is no gradient to clip: call sw_backward first");
    const uint32_t in[] = {sum, swi_knob_value(ctx, max)};
    SW_TRY(ctx->status);
    return swi_apply(ctx, SW_OP_clip_scale, in, 2, NULL, NULL, 0, NULL, clip_scale_of(ctx, o));
}

/* Ops that optimizers append belong to the step, wherever the step function does it: those of
 * `append`, or those that clip by `max`. */
static void append_in_step(sw_ctx *ctx, const sw_optimizer *o, const char *call,
                           sw_status (*append)(sw_ctx *ctx, const sw_optimizer *o),
                           const sw_knob *max)
{
    if (!swi_ctx_works(ctx) || ctx->noise != NULL)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    sw_status status = sw_handle_check(o, SW_HANDLE_OPTIMIZER, call);
    if (status == SW_OK)
        status = max != NULL ? clip(ctx, o, *max) : append(ctx, o);
    (void)swi_stick(ctx, status);
    ctx->phase_now = phase;
}

void sw_accumulate(sw_ctx *ctx, sw_optimizer *optimizer)
{
    append_in_step(ctx, optimizer, "sw_accumulate", accumulate, NULL);
}

void sw_clip_norm(sw_ctx *ctx, sw_optimizer *optimizer, sw_knob max)
{
    append_in_step(ctx, optimizer, "sw_clip_norm", NULL, &max);
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
    const uint8_t release = FIRST_RELEASE(o);
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
    SW_TRY(ctx->status);
    const sw_type pair = ctx->trace.values[powers].type;
    const sw_type types[] = {pair, pair};
    const uint32_t into[] = {SWI_NONE, powers};
    const swi_tick_attrs attrs =
        SW_INIT(.beta1 = o->attrs.beta1, .beta2 = o->attrs.beta2, .has_flags = o->keep,
                .reads = (int16_t)reads, .has_finite_check = finite_check != SWI_NONE);
    const swi_append_args args = SW_INIT(.op = o->kind->tick, .grad = -1, .in = in, .n_in = n,
                                         .attrs = &attrs, .out_types = types, .into = into,
                                         .n_out = 2, .update = true, .release = release);
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
    const uint32_t more[] = {corrections, with->scale, flag_of(ctx, o, e),
                             release == SWI_RELEASED ? ctx->finite_checks[e]
                                                     : with->finite_checks.all};
    int32_t *const has[] = {&attrs.has_corrections, &attrs.has_scale, &attrs.has_flag,
                            &attrs.has_finite_check};
    SW_TRY(ctx->status);
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

static sw_status update(sw_ctx *ctx, const sw_optimizer *o)
{
    SW_TRY(hook_gradients(ctx, o));
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    if (o->keep && !has_kept(o))
        SW_FAIL(SW_INVALID, "sw_update: this optimizer has no parameter that is not frozen");
    if (!o->keep && !has_pending(ctx, o))
        SW_FAIL(SW_INVALID, "sw_update: sw_backward has made no gradient for this optimizer");
    shared with = {.scale = take_clip_scale(ctx, o), .corrections = {SWI_NONE}};
    SW_TRY(sw_heap_reserve(&ctx->finite_checks, SW_HEAP_PROGRAMS, &ctx->cap_finite_checks,
                           o->model->n_entries));

    SW_TRY(append_finite_checks(ctx, o, ctx->finite_checks, &with.finite_checks));
    for (uint32_t g = 0; g < swi_ticks(o); g++)
        SW_TRY(tick(ctx, o, g, &with.finite_checks, &with.corrections[g]));
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t grad = gradient_for(ctx, o, e);
        SW_TRY(ctx->status);
        if (grad == SWI_NONE)
            continue; /* frozen, or the loss does not depend on it: it stays as it is */

        /* Reports list an update under the layer of its parameter. */
        char before[SWI_MAX_SCOPE];
        swi_enter_layer(ctx, o->model, o->model->entries[e].name, before);
        const sw_status status = append_one(ctx, o, e, grad, &with);
        swi_leave_layer(ctx, before);
        SW_TRY(status);
    }
    SW_TRY(count_update(ctx, o, &with.finite_checks));
    drop_pending(ctx, o);
    return o->keep ? clear_flags(ctx, o) : SW_OK;
}

void sw_update(sw_ctx *ctx, sw_optimizer *optimizer)
{
    append_in_step(ctx, optimizer, "sw_update", update, NULL);
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
    append_in_step(ctx, optimizer, "sw_update", update_released, NULL);
}

/* Losses and gradients that are not finite: the ops that look, before the updates that
 * would use them, and what is made of it after a run.
 *
 * A gradient is read for that; or, where it is the product of smaller tensors, these are: what
 * they cannot make infinite need not be looked at.
 *
 * One finite check (ops.h) on each loss; one on each gradient, which passes on that of its
 * loss; and one for all of an optimizer. An update that is released reads its own gradient's,
 * so that it waits for no other; the rest read the one for all. Where a plan is made smaller by
 * releasing them too, swi_pass_own_finite_checks gives them their own. */

bool swi_looks(const sw_optimizer *o)
{
    return o->max_skipped != 0;
}

/* ---- while tracing ----------------------------------------------------------------------- */

sw_status swi_append_bound(sw_ctx *ctx, const uint32_t *factors, int64_t terms, int64_t worth)
{
    const swi_bound_attrs attrs = {terms, worth};
    uint32_t out;
    const swi_append_args args =
        SW_INIT(.op = SW_OP_product_bound, .grad = -1, .in = factors, .n_in = 2,
                .attrs = &attrs, .out_types = &finite_check_type, .n_out = 1);
    return swi_append(ctx, &args, &out);
}

/* The bound that stands before what alone has made a value; SWI_NONE: there is none. */
static uint32_t bound_on(const swi_trace *t, uint32_t value)
{
    const uint32_t maker = t->values[value].node;
    if (maker == SWI_NONE || maker == 0 || t->nodes[maker].accumulate != 0 ||
        t->nodes[maker - 1].op != SW_OP_product_bound || t->nodes[maker].n_out != 1)
        return SWI_NONE;
    const swi_node *bound = &t->nodes[maker - 1];
    return t->operands[bound->first + bound->n_in];
}

static bool reads_factors(const swi_trace *t, uint32_t bound)
{
    const swi_node *node = &t->nodes[t->values[bound].node];
    const uint32_t *in = t->operands + node->first;
    const sw_type factors[2] = {t->values[in[0]].type, t->values[in[1]].type};
    return swi_bound_reads(factors, (const void *)(t->attrs + node->attrs));
}

sw_status swi_append_finite(sw_ctx *ctx, uint32_t value, double code, uint32_t before,
                            uint32_t flag, uint8_t release, uint32_t *out)
{
    const uint32_t bound = bound_on(&ctx->trace, value);
    uint32_t in[4] = {value};
    int n = 1;
    if (before != SWI_NONE)
        in[n++] = before;
    if (flag != SWI_NONE)
        in[n++] = flag;
    if (bound != SWI_NONE)
        in[n++] = bound;
    swi_finite_attrs attrs;
    memset(&attrs, 0, sizeof attrs); /* compared byte for byte */
    attrs.code = code;
    attrs.has_before = before != SWI_NONE;
    attrs.has_flag = flag != SWI_NONE;
    attrs.has_bound = bound != SWI_NONE;
    attrs.is_bounded = attrs.has_bound && reads_factors(&ctx->trace, bound);
    const swi_append_args args =
        SW_INIT(.op = SW_OP_finite, .grad = -1, .in = in, .n_in = n, .attrs = &attrs,
                .out_types = &finite_check_type, .n_out = 1, .release = release);
    return swi_append(ctx, &args, out);
}

sw_status swi_append_any(sw_ctx *ctx, const uint32_t *finite_checks, uint32_t n,
                         uint8_t release, uint32_t *out)
{
    uint32_t in[SWI_FINITE_CHECKS];
    uint32_t n_in = 0;
    *out = n > 0 ? finite_checks[0] : SWI_NONE;
    for (uint32_t i = 0; i < n && n > 1; i++) {
        in[n_in++] = finite_checks[i];
        if (n_in < SWI_FINITE_CHECKS && i + 1 < n)
            continue;
        const swi_append_args args =
            SW_INIT(.op = SW_OP_any_verdict, .grad = -1, .in = in, .n_in = (int)n_in,
                    .out_types = &finite_check_type, .n_out = 1, .release = release);
        SW_TRY(swi_append(ctx, &args, out));
        in[0] = *out; /* and on with the next ones */
        n_in = 1;
    }
    return SW_OK;
}

/* The finite check on all losses that this optimizer's pending gradients come from. */
static sw_status losses_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t *out)
{
    *out = SWI_NONE;
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const swi_param_grad *g =
            o->model->entries[e].optimizer == o->index ? swi_pending(ctx, o, e) : NULL;
        if (g == NULL || g->finite_check == SWI_NONE || g->finite_check == *out)
            continue;
        const uint32_t both[] = {*out, g->finite_check};
        if (*out == SWI_NONE)
            *out = g->finite_check;
        else
            SW_TRY(swi_append_any(ctx, both, 2, FIRST_RELEASE(o), out));
    }
    return SW_OK;
}

static sw_status append_counting(sw_ctx *ctx, const sw_optimizer *o, uint32_t op,
                                 uint32_t finite_check, bool with_flags)
{
    const uint32_t counts = swi_model_value(ctx, o->model, o->counts);
    const uint32_t flags = with_flags ? swi_model_value(ctx, o->model, o->flags) : SWI_NONE;
    SW_TRY(ctx->status);
    const uint32_t in[] = {counts, finite_check, flags};
    const swi_count_attrs attrs = {with_flags};
    return swi_append_update(ctx, LAST_RELEASE(o), op, in, with_flags ? 3 : 2, &attrs, &counts,
                             1);
}

/* Note the losses of pending gradients for the next update, which is another run's. */
static sw_status note_losses(sw_ctx *ctx, const sw_optimizer *o)
{
    uint32_t losses;
    if (!swi_looks(o))
        return SW_OK;
    SW_TRY(losses_of(ctx, o, &losses));
    return losses == SWI_NONE ? SW_OK
                              : append_counting(ctx, o, SW_OP_note_verdict, losses, false);
}

/* Append finite checks on all gradients of the next update, own[e] that of entry e alone. */
static sw_status append_finite_checks(sw_ctx *ctx, const sw_optimizer *o, uint32_t *own,
                                      swi_finite_checks *out)
{
    uint32_t some[SWI_FINITE_CHECKS];
    uint32_t n = 0;
    *out = (swi_finite_checks){SWI_NONE, SWI_NONE};
    for (uint32_t e = 0; e < o->model->n_entries; e++)
        own[e] = SWI_NONE;
    if (!swi_looks(o))
        return SW_OK;
    if (o->keep)
        out->losses = swi_model_element(ctx, o->model, o->counts, SWI_SKIPPED_NEXT);
    else
        SW_TRY(losses_of(ctx, o, &out->losses));
    SW_TRY(check_of_shards(ctx, o, &out->losses));
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t g = gradient_for(ctx, o, e);
        const uint32_t flag = g != SWI_NONE ? flag_of(ctx, o, e) : SWI_NONE;
        SW_TRY(ctx->status);
        if (g == SWI_NONE)
            continue;
        SW_TRY(swi_append_finite(ctx, g, (double)e, out->losses, flag,
                                 o->release[o->model->entries[e].group], &own[e]));
        some[n++] = own[e];
        if (n < SWI_FINITE_CHECKS)
            continue;
        SW_TRY(swi_append_any(ctx, some, n, LAST_RELEASE(o), &some[0]));
        n = 1;
    }
    return swi_append_any(ctx, some, n, LAST_RELEASE(o), &out->all);
}

/* Count the update that has been appended. */
static sw_status count_update(sw_ctx *ctx, const sw_optimizer *o, const swi_finite_checks *v)
{
    return v->all == SWI_NONE ? SW_OK
                              : append_counting(ctx, o, SW_OP_count_skipped, v->all, o->keep);
}

/* ---- around a run ------------------------------------------------------------------------ */

static bool has_counts(const sw_optimizer *o)
{
    return o->counts != SWI_NONE && o->model->ready;
}

/* An optimizer's counts; NULL: it has none, or no memory yet, or they are a device's and come
 * with what a run leaves there. */
static const double *counts_of(const sw_optimizer *o)
{
    if (!has_counts(o) || !o->model->device->backend->host_memory)
        return NULL;
    return (const double *)(const void *)(o->model->base + o->model->entries[o->counts].offset);
}

void swi_skipped_begin(const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            sw_optimizer *o = args->models[m]->optimizers[i];
            const double *counts = counts_of(o);
            o->skipped_before = counts != NULL ? counts[SWI_SKIPPED_ALL] : 0.0;
        }
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The first parameter or buffer of the run's models that is not finite itself. */
static const swi_entry *spoilt_entry(const sw_run_args *args, const sw_model **whose)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 1; i < args->models[m]->n_entries; i++) {
            const swi_entry *e = &args->models[m]->entries[i];
            const void *at = args->models[m]->base + e->offset;
            *whose = args->models[m];
            if ((e->role == SWI_ROLE_PARAMETER || e->role == SWI_ROLE_BUFFER) &&
                e->dtype == SW_F32 && !are_finite(at, e->bytes / sw_dtype_bytes(SW_F32)))
                return e;
        }
    return NULL;
}

static int spoilt_input(const sw_run_args *args)
{
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_array *in = &args->inputs[i];
        const sw_type type = {in->dtype, SW_PLAIN, in->shape};
        if (in->dtype == SW_F32 && !are_finite(in->data, (size_t)sw_type_elements(&type)))
            return i;
    }
    return -1;
}

static sw_status too_many(const sw_optimizer *o, const double *counts, const sw_run_args *args)
{
    char advice[256];
    const double who = counts[SWI_SKIPPED_WHO];
    const bool is_entry = who >= 1.0 && who < (double)o->model->n_entries;
    /* Say what may help: a smaller rate does not where the data or the model are not finite. */
    const size_t bytes = sizeof advice;
    const sw_model *whose = NULL;
    const swi_entry *e = args != NULL ? spoilt_entry(args, &whose) : NULL;
    const int input = args != NULL ? spoilt_input(args) : -1;
    if (e != NULL)
        snprintf(advice, bytes,
                 "'%s' of model %s is not finite itself: load, copy or make the model ready "
                 "again",
                 e->name, whose->name);
    else if (input >= 0)
        snprintf(advice, bytes, "input %d is not finite itself: look at the data", input);
    else
        snprintf(advice, bytes, "a smaller rate%s may help",
                 !is_entry
                     ? ", other data, or a look at logarithms, divisions and powers before "
                       "the loss"
                     : ", clipping or other data");
    SW_FAIL(
        SW_INVALID,
        "model %s: %.0f updates in a row were skipped (%.0f in all), the last because the "
        "%s%s%s is not finite; the model is as it was before them: %s (max_skipped, no_check)",
        o->model->name, counts[SWI_SKIPPED_NOW], counts[SWI_SKIPPED_ALL],
        is_entry ? "gradient of '" : "loss",
        is_entry ? o->model->entries[(uint32_t)who].name : "", is_entry ? "'" : "", advice);
}

sw_status swi_skipped_judge(const sw_optimizer *o, const double *counts, double before,
                            const sw_run_args *args)
{
    if (o->max_skipped > 0 && counts[SWI_SKIPPED_ALL] > before &&
        counts[SWI_SKIPPED_NOW] >= (double)o->max_skipped)
        return too_many(o, counts, args);
    return SW_OK;
}

sw_status swi_skipped_end(const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            const sw_optimizer *o = args->models[m]->optimizers[i];
            const double *counts = counts_of(o);
            if (counts != NULL)
                SW_TRY(swi_skipped_judge(o, counts, o->skipped_before, args));
        }
    return SW_OK;
}

sw_status sw_optimizer_skipped(const sw_optimizer *o, uint64_t *total, uint64_t *in_a_row)
{
    SW_TRY(sw_handle_check(o, SW_HANDLE_OPTIMIZER, "sw_optimizer_skipped"));
    double counts[SWI_SKIPPED_N] = {0};
    sw_status status = SW_OK;
    SW_TRY(swi_model_take(o->model));
    if (has_counts(o))
        status = swi_model_read(o->model, counts, o->model->entries[o->counts].offset,
                                sizeof counts);
    swi_model_give(o->model);
    SW_TRY(status);
    if (total != NULL)
        *total = (uint64_t)counts[SWI_SKIPPED_ALL];
    if (in_a_row != NULL)
        *in_a_row = (uint64_t)counts[SWI_SKIPPED_NOW];
    return SW_OK;
}
