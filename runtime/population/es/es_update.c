/* The program that updates by an estimate: es_internal.h. No gradient of a large parameter
 * exists as a whole: its update is released and takes the estimate some rows at a time. */
#include "kernels/noise.h"
#include "runtime/autograd/autograd.h"
#include "runtime/base/structs.h"
#include "runtime/exec/run_internal.h"
#include "runtime/ops/tile.h"
#include "runtime/population/es/es_internal.h"
#include "runtime/transport/ranks.h"
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
    a.ranks = swi_target_of(ctx->exec)->ranks;
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
    SW_TRY(ctx->status);
    SW_TRY(swi_apply(ctx, SW_OP_es_gradient, in, n, &a, NULL, 0, NULL, &g));
    const swi_storage *st = &ctx->trace.storages[ctx->trace.values[theta].storage];
    return swi_note_gradient(ctx, st->segment, e, g, s->finite_check, st->name);
}

/* The rate of the logarithms of sigmas; 0 given: by the number of elements of all
 * parameters. */
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
    SW_TRY(ctx->status);
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

static sw_status update(sw_ctx *ctx, const sw_es *es)
{
    const bool snes = es->mode.sigmas != NULL;
    const sw_value weights = sw_input(ctx, 0);
    const sw_value squares = snes ? sw_input(ctx, 1) : (sw_value){0, 0};
    SW_TRY(ctx->status);
    estimate s = {es, weights.id - 1, snes ? squares.id - 1 : SWI_NONE, SWI_NONE};
    SW_TRY(look_at_weights(ctx, &s));
    /* The estimates are to this program what backward is to others. */
    const sw_model *model = s.es->mode.model;
    char before[SWI_MAX_SCOPE];
    sw_noise_spec spec;
    ctx->phase_now = SW_BACKWARD;
    ctx->in_backward = true;
    for (uint32_t e = 1; e < model->n_entries && ctx->status == SW_OK; e++) {
        if (!noise_of(&s.es->mode, e, &spec))
            continue;
        swi_enter_layer(ctx, model, model->entries[e].name, before);
        (void)swi_stick(ctx, estimate_one(ctx, &s, e, &spec));
        swi_leave_layer(ctx, before);
    }
    ctx->in_backward = false;
    if (ctx->status == SW_OK && ctx->n_grads == 0)
        SW_FAIL(SW_INVALID, "sw_es_step: no parameter of model '%s' has noise", model->name);
    SW_TRY(ctx->status);
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

/* From the fitness of a generation: figures, then the shaped fitness u of each evaluation, then
 * the weight of each direction: the sum of s u over its repeats, by 1 / (sigma n) (stepwell.h).
 * Sums go in float64 in the order of the evaluations. */

/* ---- figures
 * --------------------------------------------------------------------------------- */

/* ---- order
 * ----------------------------------------------------------------------------------- */

/* By fitness, lowest first; equal ones by number, so that there is one order. */
static bool is_before(const float *f, uint32_t a, uint32_t b)
{
    return f[a] < f[b] || (f[a] == f[b] && a < b);
}

static void sift(uint32_t *order, size_t i, size_t n, const float *f)
{
    const uint32_t moved = order[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && is_before(f, order[child], order[child + 1]);
        if (!is_before(f, moved, order[child]))
            break;
        order[i] = order[child];
        i = child;
    }
    order[i] = moved;
}

/* Heapsort: in place, and never slow. */
static void sort(uint32_t *order, size_t n, const float *f)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift(order, i, n, f);
    for (size_t last = n; last-- > 1;) {
        const uint32_t top = order[0];
        order[0] = order[last];
        order[last] = top;
        sift(order, 0, last, f);
    }
}

/* ---- shaping
 * --------------------------------------------------------------------------------- */

/* value(i, n) for the evaluation of rank i, 0 the lowest; equal ones have the mean of
 * theirs. */
static void by_rank(sw_es *es, double (*value)(const sw_es *es, size_t rank, size_t n))
{
    const size_t n = swi_es_evaluations(es);
    sort(es->order, n, es->fitness);
    for (size_t from = 0, to; from < n; from = to) {
        double sum = 0.0;
        const float f = es->fitness[es->order[from]];
        for (to = from; to < n && es->fitness[es->order[to]] == f; to++)
            sum += value(es, to, n);
        const float mean = (float)(sum / (double)(to - from));
        for (size_t i = from; i < to; i++)
            es->fitness[es->order[i]] = mean;
    }
}

static double centred(const sw_es *es, size_t rank, size_t n)
{
    (void)es;
    return n > 1 ? (double)rank / (double)(n - 1) - 0.5 : 0.0;
}

/* Utilities of Wierstra et al. 2014, the best first, before they are made to add up to 1. */
static double utility(const sw_es *es, size_t rank, size_t n)
{
    const double best_first = (double)(es->maximise ? n - rank : rank + 1);
    return fmax(0.0, log((double)n / 2.0 + 1.0) - log(best_first));
}

/* ---- weights
 * --------------------------------------------------------------------------------- */

static float sign_of(const sw_es *es, uint32_t repeat)
{
    const swi_noise_attrs a = {
        .repeats = es->mode.repeats, .directions = 1, .antithetic = es->mode.antithetic};
    return sw_noise_sign(&a, repeat);
}

/* weights[d] = factor x the sum of s u over the repeats of d; signs false: of u. */
static void fold(const sw_es *es, float *weights, double factor, bool signs)
{
    for (uint32_t d = 0; d < es->mode.directions; d++) {
        double sum = 0.0;
        for (uint32_t r = 0; r < es->mode.repeats; r++)
            sum += (double)es->fitness[(size_t)r * es->mode.directions + d] *
                   (signs ? (double)sign_of(es, r) : 1.0);
        weights[d] = (float)(sum * factor);
    }
}

/* The deviation of the fitness of the directions in order[from..to-1]. */
static double deviation_of(const sw_es *es, size_t from, size_t to)
{
    const double n = (double)(to - from) * (double)es->mode.repeats;
    double mean = 0.0, squares = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = from; i < to; i++)
            for (uint32_t r = 0; r < es->mode.repeats; r++) {
                const double f =
                    (double)es->fitness[(size_t)r * es->mode.directions + es->order[i]];
                if (pass == 0)
                    mean += f / n;
                else
                    squares += (f - mean) * (f - mean);
            }
    return sqrt(squares / n);
}

/* Augmented random search (Mania et al. 2018): the best directions, by their deviation. */
static void weigh_ars(sw_es *es, double sigma)
{
    const uint32_t n = es->mode.directions;
    for (uint32_t d = 0; d < n; d++) {
        /* The best evaluation of each direction, to be ranked. */
        float best = es->fitness[d];
        for (uint32_t r = 1; r < es->mode.repeats; r++) {
            const float f = es->fitness[(size_t)r * es->mode.directions + d];
            best = es->maximise ? fmaxf(best, f) : fminf(best, f);
        }
        es->weights[d] = best;
    }
    sort(es->order, n, es->weights);
    const size_t from = es->maximise ? n - es->top : 0, to = from + es->top;
    const double deviation = deviation_of(es, from, to);
    const double factor = (es->maximise ? -1.0 : 1.0) /
                          (sigma * deviation * (double)es->top * (double)es->mode.repeats);
    fold(es, es->weights, deviation > 0.0 ? factor : 0.0, true);
    for (size_t i = 0; i < n; i++)
        if (i < from || i >= to)
            es->weights[es->order[i]] = 0.0f;
}

/* Weights of the directions (and of squares) from the fitness, which is used up. */
static sw_status es_weigh(sw_es *es, float sigma)
{
    const size_t n = swi_es_evaluations(es);
    if (es->shape == NULL && es->shaping == SWI_SHAPE_ARS) {
        weigh_ars(es, (double)sigma);
        return SW_OK;
    }
    if (es->shape != NULL)
        SW_TRY(es->shape(es->fitness, n, es->shape_user));
    else if (es->shaping == SWI_SHAPE_RANKS)
        by_rank(es, centred);
    else if (es->shaping == SWI_SHAPE_STANDARDISED) {
        double mean = 0.0, squares = 0.0;
        for (size_t i = 0; i < n; i++)
            mean += (double)es->fitness[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            squares += ((double)es->fitness[i] - mean) * ((double)es->fitness[i] - mean);
        const double deviation = sqrt(squares / (double)n);
        for (size_t i = 0; i < n; i++)
            es->fitness[i] =
                deviation > 0.0 ? (float)(((double)es->fitness[i] - mean) / deviation) : 0.0f;
    } else if (es->shaping == SWI_SHAPE_SNES) {
        /* Separable natural evolution strategies (Schaul et al. 2011): utilities add up to
         * 1, less their mean. The step of the mean is sigma times the sum of u s E, against
         * the gradient's sign. */
        double sum = 0.0;
        by_rank(es, utility);
        for (size_t i = 0; i < n; i++)
            sum += (double)es->fitness[i];
        for (size_t i = 0; i < n; i++)
            es->fitness[i] = (float)((double)es->fitness[i] / sum - 1.0 / (double)n);
    }
    if (es->shaping == SWI_SHAPE_SNES) {
        fold(es, es->weights, -((double)sigma), true);
        fold(es, (float *)(void *)es->order, 1.0, false);
    } else
        fold(es, es->weights, (es->maximise ? -1.0 : 1.0) / ((double)sigma * (double)n), true);
    return SW_OK;
}

/* The end of a generation: weights of its directions, and the program that updates by them. */

/* The arguments of the update; inputs and model are the caller's. */
static sw_run_args update_args(const sw_es *es, sw_model **model, sw_array *inputs)
{
    const sw_shape shape = {1, {es->mode.directions}};
    *model = es->mode.model;
    inputs[0] = (sw_array){SW_F32, shape, es->weights};
    inputs[1] = (sw_array){SW_F32, shape, es->order};
    return SW_OPTS(sw_run_args, .fn = swi_es_update, .user = (void *)(uintptr_t)es,
                   .models = model, .n_models = 1, .inputs = inputs,
                   .n_inputs = es->shaping == SWI_SHAPE_SNES ? 2 : 1, .mode = SW_TRAIN,
                   .es = es, .es_slice = SWI_ES_UPDATE);
}

static sw_status check_told(const sw_es *es)
{
    const size_t n = swi_es_evaluations(es);
    if (es->told == n)
        return SW_OK;
    size_t first = 0;
    while (es->order != NULL && first < n && es->order[first] != 0)
        first++;
    SW_FAIL(SW_INVALID,
            "sw_es_step: %zu of %zu evaluations have no fitness yet, the first is repeat %zu "
            "of direction %zu",
            n - es->told, n, first / es->mode.directions, first % es->mode.directions);
}

sw_status sw_es_step(sw_es *es, sw_exec *exec, sw_es_info *out)
{
    sw_model *model;
    sw_array inputs[2];
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_step"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_es_step"));
    if (out != NULL)
        SW_TRY(swi_struct_check(SWI_STRUCT_sw_es_info, out, "sw_es_step"));
    const float sigma = sw_knob_get((sw_knob){es->mode.model, es->mode.sigma});
    if (!(sigma > 0.0f))
        SW_FAIL(SW_INVALID, "sw_es_step: sigma must be above 0 (got %g)", (double)sigma);
    if (es->mode.generation >= UINT32_MAX)
        SW_FAIL(SW_INVALID, "sw_es_step: there are no generations after %u", UINT32_MAX);
    if (!es->weighed) {
        /* Figures and weights, once: a run that fails can be tried again. */
        const void *const kept[] = {exec, es->mode.model};
        sw_call call = SW_INIT(.name = "sw_es_step", .callback = "`shape`",
                               .uses = SW_CALL_ONE(es), .keeps = {{kept, 2}});
        SW_TRY(check_told(es));
        /* Figures of the fitness that is known; NaN and infinities become the worst. */
        const size_t n = swi_es_evaluations(es);
        float low = INFINITY, high = -INFINITY;
        double sum = 0.0, squares = 0.0;
        es->info = SW_OPTS(sw_es_info, .generation = es->mode.generation, .evaluations = n);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(es->fitness[i])) {
                es->info.not_finite++;
                continue;
            }
            low = fminf(low, es->fitness[i]);
            high = fmaxf(high, es->fitness[i]);
            sum += (double)es->fitness[i];
        }
        const bool any = es->info.not_finite < n;
        const float worst = !any ? 0.0f : es->maximise ? low : high;
        es->info.worst = (double)worst;
        es->info.best = !any ? 0.0 : (double)(es->maximise ? high : low);
        es->info.mean = any ? sum / (double)(n - es->info.not_finite) : 0.0;
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(es->fitness[i])) {
                es->fitness[i] = worst;
                continue;
            }
            const double d = (double)es->fitness[i] - es->info.mean;
            squares += d * d;
        }
        es->info.deviation = any ? sqrt(squares / (double)(n - es->info.not_finite)) : 0.0;
        SW_TRY(sw_call_begin(&call, SW_FRAME));
        const sw_status status = sw_call_end(&call, es_weigh(es, sigma));
        if (status != SW_OK)
            swi_es_forget(es);
        es->weighed = status == SW_OK;
        SW_TRY(status);
        SW_TRY(swi_ranks_alive(swi_target_of(exec)->ranks));
    }
    const sw_run_args args = update_args(es, &model, inputs);
    SW_TRY(sw_run(exec, &args));
    es->mode.generation++;
    if (out != NULL)
        swi_struct_write(SWI_STRUCT_sw_es_info, out, &es->info);
    swi_es_forget(es);
    return SW_OK;
}

sw_status sw_es_plan(sw_es *es, sw_exec *exec, sw_plan_info *out)
{
    sw_model *model;
    sw_array inputs[2];
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_plan"));
    const sw_run_args args = update_args(es, &model, inputs);
    return sw_plan(exec, &args, out);
}

/* ---- what ranks send --------------------------------------------------------------------- */

sw_status swi_es_estimate_sent(sw_es *es, sw_exec *exec, int ranks, uint64_t *out)
{
    sw_model *model;
    sw_array inputs[2];
    const sw_run_args args = update_args(es, &model, inputs);
    return swi_run_sent(exec, &args, ranks, out);
}
