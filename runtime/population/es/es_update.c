/* The program that updates by an estimate: es_internal.h. No gradient of a large parameter
 * exists as a whole: its update is released and takes the estimate some rows at a time. */
#include "alloc/base/error.h"
#include "kernels/noise.h"
#include "runtime/autograd/autograd.h"
#include "runtime/ops/ops.h"
#include "runtime/population/es/es_internal.h"
#include <math.h>
#include <string.h>

/* Shared by the parameters of one update. */
typedef struct {
    const sw_es *es;
    uint32_t weights, squares; /* values; squares: snes, else SWI_NONE */
    uint32_t finite_check;     /* on both; SWI_NONE: no one asks */
} estimate;

/* The noise of an entry; false: it has none, and stays as it is. */
static bool noise_of(const swi_noise_mode *mode, uint32_t e, sw_noise_spec *out)
{
    const swi_entry *entry = &mode->model->entries[e];
    if (!swi_is_perturbed(mode, entry))
        return false;
    swi_noise_spec_of(out, mode, entry);
    return out->rows != 0;
}

static uint32_t sigmas_of(sw_ctx *ctx, const swi_noise_mode *mode, uint32_t e)
{
    return swi_model_value(ctx, mode->model, mode->sigmas[e]);
}

/* Weights that are not finite spoil every gradient: the update is skipped as for a loss. */
static sw_status look_at_weights(sw_ctx *ctx, estimate *s)
{
    s->finite_check = SWI_NONE;
    if (!swi_looks(s->es->owner))
        return SW_OK;
    ctx->phase_now = SW_LOSS;
    SW_TRY(swi_append_finite(ctx, s->weights, SWI_LOSS, SWI_NONE, SWI_NONE, SWI_STAYS,
                             &s->finite_check));
    if (s->squares != SWI_NONE) {
        swi_set_role(ctx, ctx->trace.values[s->finite_check].storage, SWI_ROLE_TEMPORARY);
        SW_TRY(swi_append_finite(ctx, s->squares, SWI_LOSS, s->finite_check, SWI_NONE,
                                 SWI_STAYS, &s->finite_check));
    }
    swi_set_role(ctx, ctx->trace.values[s->finite_check].storage, SWI_ROLE_TEMPORARY);
    return SW_OK;
}

/* Append the estimate for entry e, and note it as the parameter's gradient. */
static sw_status estimate_one(sw_ctx *ctx, const estimate *s, uint32_t e,
                              const sw_noise_spec *spec)
{
    const swi_noise_mode *mode = &s->es->mode;
    const bool bits = spec->kind == SW_NOISE_BITS_OF_LOGITS;
    const bool drops = spec->kind == SW_NOISE_DROPOUT;
    const uint32_t theta = swi_model_value(ctx, mode->model, e);
    uint32_t in[4] = {s->weights}, g = SWI_NONE;
    int n = 1;
    swi_es_gradient_attrs a;
    memset(&a, 0, sizeof a);
    a.rows.all = spec->rows;
    a.spec = *spec;
    a.l1 = s->es->l1;
    a.l2 = s->es->l2;
    a.has_sigmas = mode->sigmas != NULL;
    swi_set_shape(&a.shape, &mode->model->entries[e].shape);
    a.antithetic = bits && mode->antithetic && mode->repeats > 1;
    if (bits && a.has_sigmas)
        SW_FAIL(SW_UNSUPPORTED,
                "sw_es_step: '%s' has bits, and snes has a sigma of each element",
                mode->model->entries[e].name);
    if (drops || bits || a.l1 != 0.0f || a.l2 != 0.0f)
        in[n++] = theta;
    if (drops || bits)
        in[n++] = swi_knob_value(ctx, (sw_knob){mode->model, mode->sigma});
    if (bits) { /* of all logits, before any update of them */
        SW_TRY(swi_apply(ctx, SW_OP_logit_scale, &theta, 1, NULL, NULL, 0, NULL, &in[n]));
        n++;
    }
    if (a.has_sigmas)
        in[n++] = sigmas_of(ctx, mode, e);
    if (ctx->status != SW_OK)
        return ctx->status;
    SW_TRY(swi_apply(ctx, SW_OP_es_gradient, in, n, &a, NULL, 0, NULL, &g));
    const swi_storage *st = &ctx->trace.storages[ctx->trace.values[theta].storage];
    return swi_note_gradient(ctx, st->segment, e, g, s->finite_check, st->name);
}

/* The rate of the logarithms of sigmas; 0 given: by the number of elements of all parameters.
 */
static float rate_of(const sw_es *es)
{
    const sw_model *model = es->mode.model;
    sw_noise_spec spec;
    double n = 0.0;
    if (es->sigma_lr != 0.0f)
        return es->sigma_lr;
    for (uint32_t e = 1; e < model->n_entries; e++)
        if (noise_of(&es->mode, e, &spec))
            n += (double)swi_elements(&model->entries[e].shape);
    return (float)((3.0 + log(n)) / (5.0 * sqrt(n)));
}

static sw_status update_sigmas(sw_ctx *ctx, const estimate *s, uint32_t e,
                               const sw_noise_spec *spec, uint32_t rate)
{
    const uint32_t sigmas = sigmas_of(ctx, &s->es->mode, e);
    const uint32_t in[] = {sigmas, s->squares, rate, s->finite_check};
    swi_snes_attrs a;
    memset(&a, 0, sizeof a);
    a.spec = *spec;
    a.has_finite_check = s->finite_check != SWI_NONE;
    if (ctx->status != SW_OK)
        return ctx->status;
    return swi_append_update(ctx, SWI_STAYS, SW_OP_snes_update, in, 3 + a.has_finite_check, &a,
                             &sigmas, 1);
}

/* Of all parameters, once all gradients and their updates have read them. */
static sw_status update_all_sigmas(sw_ctx *ctx, const estimate *s)
{
    const sw_model *model = s->es->mode.model;
    const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};
    char before[SWI_MAX_SCOPE];
    sw_noise_spec spec;
    swi_fill_attrs fill;
    uint32_t rate = SWI_NONE;
    ctx->phase_now = SW_STEP;
    swi_set_fill(&fill, &scalar, rate_of(s->es));
    SW_TRY(swi_apply(ctx, SW_OP_fill, NULL, 0, &fill, NULL, 0, NULL, &rate));
    for (uint32_t e = 1; e < model->n_entries && ctx->status == SW_OK; e++) {
        if (!noise_of(&s->es->mode, e, &spec))
            continue;
        swi_enter_layer(ctx, model, model->entries[e].name, before);
        (void)swi_stick(ctx, update_sigmas(ctx, s, e, &spec, rate));
        swi_leave_layer(ctx, before);
    }
    return ctx->status;
}

/* The estimates are to this program what backward is to others. */
static sw_status estimate_all(sw_ctx *ctx, const estimate *s)
{
    const sw_model *model = s->es->mode.model;
    char before[SWI_MAX_SCOPE];
    sw_noise_spec spec;
    ctx->phase_now = SW_BACKWARD;
    ctx->in_backward = true;
    for (uint32_t e = 1; e < model->n_entries && ctx->status == SW_OK; e++) {
        if (!noise_of(&s->es->mode, e, &spec))
            continue;
        swi_enter_layer(ctx, model, model->entries[e].name, before);
        (void)swi_stick(ctx, estimate_one(ctx, s, e, &spec));
        swi_leave_layer(ctx, before);
    }
    ctx->in_backward = false;
    if (ctx->status == SW_OK && ctx->n_grads == 0)
        SW_FAIL(SW_INVALID, "sw_es_step: no parameter of model '%s' has noise", model->name);
    return ctx->status;
}

static sw_status update(sw_ctx *ctx, const sw_es *es)
{
    const bool snes = es->mode.sigmas != NULL;
    const sw_value weights = sw_input(ctx, 0);
    const sw_value squares = snes ? sw_input(ctx, 1) : (sw_value){0, 0};
    if (ctx->status != SW_OK)
        return ctx->status;
    estimate s = {es, weights.id - 1, snes ? squares.id - 1 : SWI_NONE, SWI_NONE};
    SW_TRY(look_at_weights(ctx, &s));
    SW_TRY(estimate_all(ctx, &s));
    swi_update_released(ctx, es->owner);
    return ctx->status == SW_OK && snes ? update_all_sigmas(ctx, &s) : ctx->status;
}

void swi_es_update(sw_ctx *ctx, void *user)
{
    if (!swi_ctx_works(ctx))
        return;
    const int phase = ctx->phase_now;
    (void)swi_stick(ctx, update(ctx, user));
    ctx->phase_now = phase;
}
