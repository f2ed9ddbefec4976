/* Gradient hooks: a function of the program's own between a gradient and its update.
 *
 * The ops of a hook run when the update does. They move with a released update, right after the
 * last contribution to the gradient, so that no gradient lives longer for them. */
#include "runtime/autograd/optim/optimizer_internal.h"

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
    char a[SWI_SHAPE_TEXT], b[SWI_SHAPE_TEXT];
    const swi_value *v = swi_value_at(ctx, made);
    if (v == NULL)
        return ctx->status;
    if (v->type.dtype != SW_F32 || !swi_same_shape(&v->type.shape, &entry->shape))
        SW_FAIL(SW_INVALID,
                "gradient hook: what it returns for '%s' must be f32 %s (got %s %s)",
                entry->name, swi_shape_text(&entry->shape, a), sw_dtype_name(v->type.dtype),
                swi_shape_text(&v->type.shape, b));
    made = swi_layout(ctx, made, SW_PLAIN);
    if (ctx->status == SW_OK)
        *gradient = swi_contiguous(ctx, made.id - 1);
    return ctx->status;
}

static sw_status hook_one(sw_ctx *ctx, const sw_optimizer *o, const swi_gradient_hook *hook,
                          uint32_t e)
{
    char before[SWI_MAX_SCOPE];
    const swi_entry *entry = &o->model->entries[e];
    const uint32_t gradient = swi_pending(ctx, o, e)->value;
    uint32_t made = gradient;
    ctx->release = o->release[entry->group];
    swi_enter_layer(ctx, o->model, entry->name, before);
    const sw_value given =
        hook->fn(ctx, (sw_param){o->model, e}, swi_handle(ctx, gradient), hook->user);
    const sw_status status =
        ctx->status == SW_OK ? take(ctx, entry, given, &made) : ctx->status;
    swi_leave_layer(ctx, before);
    ctx->release = SWI_STAYS;
    SW_TRY(status);
    swi_param_grad *pending = swi_pending(ctx, o, e); /* the array may have moved */
    pending->value = made;
    pending->hooked = true;
    return SW_OK;
}

sw_status swi_hook_gradients(sw_ctx *ctx, const sw_optimizer *o)
{
    const swi_gradient_hook *hook = hook_of(ctx, o->model);
    if (hook == NULL || hook->fn == NULL)
        return SW_OK;
    if (o->keep)
        SW_FAIL(SW_UNSUPPORTED,
                "sw_gradient_hook: model %s has an optimizer that keeps gradients: without "
                "keep_gradients it can have a hook",
                o->model->name);
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const swi_param_grad *g =
            o->model->entries[e].optimizer == o->index ? swi_pending(ctx, o, e) : NULL;
        if (g != NULL && !g->hooked && !o->model->entries[e].frozen)
            SW_TRY(hook_one(ctx, o, hook, e));
    }
    return SW_OK;
}
