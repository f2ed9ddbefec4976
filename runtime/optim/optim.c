/* Optimizers: creation (state declared in the model), and what sw_accumulate, sw_clip_norm and
 * sw_update append. */
#include "runtime/optim/optim.h"
#include "runtime/ops/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const swi_optimizer_kind *const kinds[] = {&swi_sgd, &swi_adam, &swi_adamw};

static const swi_optimizer_kind *find_kind(const sw_optimizer_opts *opts)
{
    const char *name = opts->kind != NULL ? opts->kind : "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i] == &swi_sgd && opts->momentum != 0.0f ? &swi_sgd_momentum
                                                                  : kinds[i];
    return NULL;
}

/* ---- creation ---------------------------------------------------------------------------- */

static sw_status check_numbers(const sw_optimizer_opts *o)
{
    const float numbers[] = {o->lr,    o->weight_decay, o->momentum,
                             o->beta1, o->beta2,        o->epsilon};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i]) || numbers[i] < 0.0f)
            SW_FAIL(SW_INVALID, "optimizer %s: a rate or factor is negative or not a number",
                    o->kind);
    if (o->beta1 >= 1.0f || o->beta2 >= 1.0f || o->momentum >= 1.0f)
        SW_FAIL(SW_INVALID, "optimizer %s: beta and momentum must be below 1", o->kind);
    if (o->nesterov && o->momentum == 0.0f)
        SW_FAIL(SW_INVALID, "optimizer %s: nesterov wants a momentum", o->kind);
    if (o->n_groups > 16)
        SW_FAIL(SW_INVALID, "optimizer %s: %zu groups, at most 16", o->kind, o->n_groups);
    return SW_OK;
}

/* Declare what this optimizer keeps for one parameter. */
static sw_status own(sw_optimizer *o, uint32_t index, uint32_t group)
{
    sw_model *model = o->model;
    if (index == 0 || index >= model->n_entries ||
        model->entries[index].role != SWI_ROLE_PARAMETER)
        return swi_declare_fail(model, SW_INVALID,
                                "model %s: an optimizer was given no parameter", model->name);
    if (model->entries[index].optimizer != SWI_NONE)
        return swi_declare_fail(model, SW_INVALID, "parameter '%s' has two optimizers",
                                model->entries[index].name);
    char name[128];
    for (int k = 0; k < 2 && o->kind->state[k] != NULL; k++) {
        const swi_entry *e = &model->entries[index];
        snprintf(name, sizeof name, "%s.%s", e->name, o->kind->state[k]);
        const uint32_t entry =
            swi_model_entry(model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32, e->shape, "zeros");
        if (entry == 0)
            return model->declared;
        model->entries[index].state[k] = entry;
    }
    if (o->keep) {
        const swi_entry *e = &model->entries[index];
        snprintf(name, sizeof name, "%s.grad", e->name);
        const uint32_t entry =
            swi_model_entry(model, name, SWI_ROLE_GRADIENT, SW_F32, e->shape, "zeros");
        if (entry == 0)
            return model->declared;
        model->entries[index].kept = entry;
    }
    model->entries[index].optimizer = o->index;
    model->entries[index].group = group;
    return SW_OK;
}

static sw_status own_all(sw_optimizer *o, const sw_optimizer_opts *opts)
{
    sw_model *model = o->model;
    for (size_t g = 0; g < opts->n_groups; g++)
        for (size_t i = 0; i < opts->groups[g].n_params; i++) {
            if (opts->groups[g].params[i].model != model)
                return swi_declare_fail(
                    model, SW_INVALID,
                    "model %s: an optimizer was given another model's parameter", model->name);
            SW_TRY(own(o, opts->groups[g].params[i].index, (uint32_t)g));
        }
    for (size_t i = 0; opts->n_groups == 0 && i < opts->n_params; i++) {
        if (opts->params[i].model != model)
            return swi_declare_fail(
                model, SW_INVALID, "model %s: an optimizer was given another model's parameter",
                model->name);
        SW_TRY(own(o, opts->params[i].index, 0));
    }
    const uint32_t n = model->n_entries;
    for (uint32_t i = 1; opts->n_groups == 0 && opts->n_params == 0 && i < n; i++)
        if (model->entries[i].role == SWI_ROLE_PARAMETER &&
            model->entries[i].optimizer == SWI_NONE)
            SW_TRY(own(o, i, 0));
    return SW_OK;
}

static sw_status make_knobs(sw_optimizer *o, const sw_optimizer_opts *opts)
{
    o->n_groups = opts->n_groups > 0 ? (uint32_t)opts->n_groups : 1;
    for (uint32_t g = 0; g < o->n_groups; g++) {
        float lr =
            opts->n_groups > 0 && opts->groups[g].lr != 0.0f ? opts->groups[g].lr : opts->lr;
        if (lr == 0.0f)
            lr = o->kind->lr;
        o->weight_decay[g] =
            opts->n_groups > 0 ? opts->groups[g].weight_decay : opts->weight_decay;
        char name[48];
        snprintf(name, sizeof name, "optimizer%u.lr%u", o->index, g);
        const sw_knob knob = sw_knob_new(o->model, name, lr);
        if (knob.index == UINT32_MAX)
            return o->model->declared;
        o->lr_knob[g] = knob.index;
    }
    return SW_OK;
}

static sw_status make_scalars(sw_optimizer *o)
{
    char name[48];
    o->tick = o->flag = SWI_NONE;
    if (o->kind->ticks) {
        snprintf(name, sizeof name, "optimizer%u.powers", o->index);
        o->tick = swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F64, SW_SHAPE(2),
                                  NULL);
        if (o->tick == 0)
            return o->model->declared;
    }
    if (o->keep) {
        snprintf(name, sizeof name, "optimizer%u.kept", o->index);
        o->flag =
            swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32, SW_SCALAR, NULL);
        if (o->flag == 0)
            return o->model->declared;
    }
    return SW_OK;
}

sw_status sw_optimizer_create(sw_optimizer **out, sw_model *model,
                              const sw_optimizer_opts *given)
{
    if (out == NULL || model == NULL || given == NULL || given->size == 0)
        SW_FAIL(SW_INVALID,
                "sw_optimizer_create: a model and options with their size are wanted");
    sw_optimizer_opts opts = {0};
    memcpy(&opts, given, given->size < sizeof opts ? given->size : sizeof opts);
    const swi_optimizer_kind *kind = find_kind(&opts);
    if (kind == NULL)
        SW_FAIL(SW_INVALID, "unknown optimizer '%s': sgd, adam and adamw are known",
                opts.kind != NULL ? opts.kind : "");
    SW_TRY(check_numbers(&opts));
    if (model->declared != SW_OK)
        SW_FAIL(model->declared, "%s", model->declared_message);
    if (model->fixed)
        SW_FAIL(SW_INVALID, "model %s: an optimizer was created after the layout was fixed",
                model->name);
    if (opts.release && opts.keep_gradients)
        SW_FAIL(SW_INVALID,
                "optimizer %s: release and keep_gradients exclude each other: a released "
                "gradient does not outlive its update",
                opts.kind);
    if (model->n_optimizers == model->cap_optimizers) {
        void *p = model->optimizers;
        const size_t cap = model->cap_optimizers == 0 ? 4 : 2 * model->cap_optimizers;
        SW_TRY(sw_heap_resize(&p, SW_HEAP_RECORDS, model->cap_optimizers * sizeof(void *),
                              cap * sizeof(void *)));
        model->optimizers = p;
        model->cap_optimizers = (uint32_t)cap;
    }
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_optimizer)));
    sw_optimizer *o = block;
    o->model = model;
    o->index = model->n_optimizers;
    o->kind = kind;
    o->momentum = opts.momentum;
    o->nesterov = opts.nesterov != 0;
    o->beta1 = opts.beta1 != 0.0f ? opts.beta1 : 0.9f;
    o->beta2 = opts.beta2 != 0.0f ? opts.beta2 : 0.999f;
    o->epsilon = opts.epsilon != 0.0f ? opts.epsilon : 1e-8f;
    o->keep = opts.keep_gradients != 0;
    o->release = opts.release != 0;
    model->optimizers[model->n_optimizers++] = o; /* the model's from here on, whatever fails */
    SW_TRY(make_knobs(o, &opts));
    SW_TRY(make_scalars(o));
    SW_TRY(own_all(o, &opts));
    *out = o;
    return SW_OK;
}

sw_knob sw_optimizer_lr(sw_optimizer *o, int group)
{
    if (o == NULL || group < 0 || (uint32_t)group >= o->n_groups)
        return (sw_knob){o != NULL ? o->model : NULL, UINT32_MAX};
    return (sw_knob){o->model, o->lr_knob[group]};
}

/* ---- in a step function ------------------------------------------------------------------ */

static swi_param_grad *pending(sw_ctx *ctx, const sw_optimizer *o, uint32_t entry)
{
    for (uint32_t i = 0; i < ctx->n_grads; i++)
        if (ctx->args->models[ctx->grads[i].model - SWI_SEG_MODEL] == o->model &&
            ctx->grads[i].entry == entry)
            return &ctx->grads[i];
    return NULL;
}

static bool has_pending(sw_ctx *ctx, const sw_optimizer *o)
{
    for (uint32_t e = 1; e < o->model->n_entries; e++)
        if (o->model->entries[e].optimizer == o->index && pending(ctx, o, e) != NULL)
            return true;
    return false;
}

static void drop_pending(sw_ctx *ctx, const sw_optimizer *o)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ctx->n_grads; i++) {
        const sw_model *model = ctx->args->models[ctx->grads[i].model - SWI_SEG_MODEL];
        if (model != o->model || model->entries[ctx->grads[i].entry].optimizer != o->index)
            ctx->grads[kept++] = ctx->grads[i];
    }
    ctx->n_grads = kept;
}

/* Every op of an optimizer touches what outlives the run: from the first on, a failure of the
 * run leaves the model changed. */
sw_status swi_append_update(sw_ctx *ctx, const sw_optimizer *o, uint32_t op, const uint32_t *in,
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
                                  .release = o->release};
    return swi_append(ctx, &args, outs);
}

/* Set the flag that says whether kept gradients hold something. */
static sw_status set_flag(sw_ctx *ctx, const sw_optimizer *o, float value)
{
    const uint32_t flag = swi_model_value(ctx, o->model, o->flag);
    if (ctx->status != SW_OK)
        return ctx->status;
    swi_fill_attrs attrs;
    swi_set_fill(&attrs, &ctx->trace.values[flag].type, value);
    return swi_append_update(ctx, o, SW_OP_fill, NULL, 0, &attrs, &flag, 1);
}

static sw_status accumulate(sw_ctx *ctx, const sw_optimizer *o)
{
    if (!o->keep)
        SW_FAIL(SW_INVALID,
                "sw_accumulate: the optimizer does not keep gradients: set keep_gradients");
    if (!has_pending(ctx, o))
        SW_FAIL(SW_INVALID,
                "sw_accumulate: sw_backward has made no gradient for this optimizer");
    const uint32_t flag = swi_model_value(ctx, o->model, o->flag);
    for (uint32_t e = 1; e < o->model->n_entries && ctx->status == SW_OK; e++) {
        const swi_param_grad *g =
            o->model->entries[e].optimizer == o->index ? pending(ctx, o, e) : NULL;
        if (g == NULL)
            continue;
        const uint32_t kept = swi_model_value(ctx, o->model, o->model->entries[e].kept);
        if (ctx->status != SW_OK)
            return ctx->status;
        const uint32_t in[] = {kept, g->value, flag};
        SW_TRY(swi_append_update(ctx, o, SW_OP_accumulate_into, in, 3, NULL, &kept, 1));
    }
    drop_pending(ctx, o);
    return set_flag(ctx, o, 1.0f);
}

void sw_accumulate(sw_ctx *ctx, sw_optimizer *optimizer)
{
    if (ctx->status != SW_OK)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    (void)swi_stick(ctx, optimizer == NULL ? sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                                          "no optimizer is named")
                                           : accumulate(ctx, optimizer));
    ctx->phase_now = phase;
}

/* The gradient that an update of entry e uses; SWI_NONE: none came. */
static uint32_t gradient_for(sw_ctx *ctx, const sw_optimizer *o, uint32_t e)
{
    const swi_entry *entry = &o->model->entries[e];
    if (entry->role != SWI_ROLE_PARAMETER || entry->optimizer != o->index || entry->frozen)
        return SWI_NONE;
    if (o->keep)
        return swi_model_value(ctx, o->model, entry->kept);
    const swi_param_grad *g = pending(ctx, o, e);
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
    if (o->release) {
        for (uint32_t e = 1; e < o->model->n_entries; e++)
            if (gradient_for(ctx, o, e) != SWI_NONE)
                SW_FAIL(
                    SW_INVALID,
                    "clipping by global norm needs all gradients at once, but release ends the "
                    "gradient of '%s' before the others are there: use one of the two",
                    o->model->entries[e].name);
    }
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    const sw_type f64 = {SW_F64, SW_PLAIN, {0, {0}}};
    uint32_t sum = SWI_NONE;
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t g = gradient_for(ctx, o, e);
        if (ctx->status != SW_OK)
            return ctx->status;
        if (g == SWI_NONE)
            continue;
        const swi_append_args args = {.op = SW_OP_sumsq,
                                      .grad = -1,
                                      .in = &g,
                                      .n_in = 1,
                                      .out_types = &f64,
                                      .into = sum != SWI_NONE ? &sum : NULL,
                                      .n_out = 1,
                                      .accumulate = sum != SWI_NONE};
        SW_TRY(swi_append(ctx, &args, &sum));
    }
    if (sum == SWI_NONE)
        SW_FAIL(SW_INVALID, "sw_clip_norm: there is no gradient to clip");
    const uint32_t in[] = {sum, swi_knob_value(ctx, max)};
    if (ctx->status != SW_OK)
        return ctx->status;
    return swi_apply(ctx, SW_OP_clip_scale, in, 2, NULL, NULL, 0, NULL, clip_scale_of(ctx, o));
}

void sw_clip_norm(sw_ctx *ctx, sw_optimizer *optimizer, sw_knob max)
{
    if (ctx->status != SW_OK)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    sw_status status = SW_OK;
    if (optimizer == NULL)
        status = sw_error_set(SW_INVALID, __FILE__, __LINE__, "no optimizer is named");
    else if (optimizer->index >= 8)
        status = sw_error_set(SW_INVALID, __FILE__, __LINE__,
                              "at most 8 optimizers of a model can be clipped");
    else
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

/* The bias corrections of this update: {1 - beta1^t, 1 - beta2^t}, a tensor of this run. */
static sw_status tick(sw_ctx *ctx, const sw_optimizer *o, uint32_t *out)
{
    const uint32_t powers = swi_model_value(ctx, o->model, o->tick);
    if (ctx->status != SW_OK)
        return ctx->status;
    const sw_type pair = ctx->trace.values[powers].type;
    const sw_type types[] = {pair, pair};
    const uint32_t into[] = {SWI_NONE, powers};
    const sw_adam_tick_attrs attrs = {o->beta1, o->beta2};
    uint32_t outs[2];
    const swi_append_args args = {.op = SW_OP_adam_tick,
                                  .grad = -1,
                                  .in = &powers,
                                  .n_in = 1,
                                  .attrs = &attrs,
                                  .out_types = types,
                                  .into = into,
                                  .n_out = 2,
                                  .update = true,
                                  .release = o->release};
    SW_TRY(swi_append(ctx, &args, outs));
    *out = outs[0];
    return SW_OK;
}

static sw_status update(sw_ctx *ctx, const sw_optimizer *o)
{
    if (o->keep && has_pending(ctx, o))
        SW_TRY(accumulate(ctx, o));
    if (!o->keep && !has_pending(ctx, o))
        SW_FAIL(SW_INVALID, "sw_update: sw_backward has made no gradient for this optimizer");
    const uint32_t scale = take_clip_scale(ctx, o);
    uint32_t corrections = SWI_NONE;
    if (o->kind->ticks)
        SW_TRY(tick(ctx, o, &corrections));
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t grad = gradient_for(ctx, o, e);
        if (ctx->status != SW_OK)
            return ctx->status;
        if (grad == SWI_NONE)
            continue; /* frozen, or the loss does not depend on it: it stays as it is */
        const swi_entry *entry = &o->model->entries[e];
        const uint32_t param = swi_model_value(ctx, o->model, e);
        uint32_t state[2] = {SWI_NONE, SWI_NONE};
        for (int k = 0; k < 2 && entry->state[k] != SWI_NONE; k++)
            state[k] = swi_model_value(ctx, o->model, entry->state[k]);
        const uint32_t lr = swi_knob_value(ctx, (sw_knob){o->model, o->lr_knob[entry->group]});
        if (ctx->status != SW_OK)
            return ctx->status;
        /* Reports list an update under the layer of its parameter. */
        char scope[SWI_MAX_SCOPE];
        memcpy(scope, ctx->scope, sizeof scope);
        snprintf(ctx->scope, sizeof ctx->scope, "%s", entry->name);
        char *dot = strrchr(ctx->scope, '.');
        if (dot != NULL)
            *dot = '\0';
        const sw_status status = o->kind->update(ctx, o, param, grad, state, lr, corrections,
                                                 scale, o->weight_decay[entry->group]);
        memcpy(ctx->scope, scope, sizeof scope);
        SW_TRY(status);
    }
    drop_pending(ctx, o);
    return o->keep ? set_flag(ctx, o, 0.0f) : SW_OK;
}

void sw_update(sw_ctx *ctx, sw_optimizer *optimizer)
{
    if (ctx->status != SW_OK)
        return;
    const int phase = ctx->phase_now;
    ctx->phase_now = SW_STEP;
    (void)swi_stick(ctx, optimizer == NULL ? sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                                          "no optimizer is named")
                                           : update(ctx, optimizer));
    ctx->phase_now = phase;
}
