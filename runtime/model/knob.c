/* Knobs that a run must not read: sw_knob_set returns nothing, so what it refuses is kept, and
 * every run of the model says so until the knob is set to something that can be. The value that
 * runs read stays the one before. */
#include "kernels/noise.h"
#include "runtime/model/model.h"
#include "runtime/model/noise_mode.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- knob -------------------------------------------------------------------------------- */

/* Its use, after its name; the values that it can have. */
static const struct {
    const char *use, *range;
} kinds[] = {
    [SWI_KNOB_NUMBER] = {"", "finite"},
    [SWI_KNOB_RATE] = {", a learning rate,", "finite and at least 0"},
    [SWI_KNOB_NORM] = {", the bound of a norm,", "finite and at least 0"},
    [SWI_KNOB_DECAY] = {", a weight decay,", "finite and at least 0"},
    [SWI_KNOB_FACTOR] = {", a momentum or beta,", "at least 0 and below 1"},
    [SWI_KNOB_SHARE] = {", the rate of dropout,", "0 to 1"},
};

bool swi_knob_can_be(const swi_knob *knob, float value)
{
    switch ((swi_knob_kind)knob->use) {
    case SWI_KNOB_RATE:
    case SWI_KNOB_NORM:
    case SWI_KNOB_DECAY:
        return isfinite(value) && value >= 0.0f;
    case SWI_KNOB_FACTOR:
        return value >= 0.0f && value < 1.0f;
    case SWI_KNOB_SHARE:
        return value >= 0.0f && value <= 1.0f;
    case SWI_KNOB_NUMBER:
        break;
    }
    return isfinite(value);
}

const char *swi_knob_range(const swi_knob *knob)
{
    return kinds[knob->use].range;
}

void swi_knob_name(const sw_model *model, uint32_t index, char *to, size_t bytes)
{
    const swi_knob *knob = &model->knobs[index];
    if (knob->what == NULL)
        snprintf(to, bytes, "knob '%s'", knob->name);
    else
        snprintf(to, bytes, "the %s of optimizer %u (%s), group %u", knob->what,
                 knob->optimizer, model->optimizers[knob->optimizer]->kind->name, knob->group);
}

static sw_status say(const sw_model *model, uint32_t index, float value)
{
    char name[SWI_KNOB_NAME];
    const swi_knob *knob = &model->knobs[index];
    swi_knob_name(model, index, name, sizeof name);
    SW_FAIL(SW_INVALID, "model %s: %s%s must be %s (got %g); set it again (sw_knob_set)",
            model->name, name, knob->what == NULL ? kinds[knob->use].use : "",
            kinds[knob->use].range, (double)value);
}

void swi_knob_refuse(sw_model *model, uint32_t index, float value)
{
    swi_knob *knob = &model->knobs[index];
    model->n_refused += !knob->is_refused;
    knob->is_refused = true;
    knob->refused = value;
    (void)say(model, index, value);
}

void swi_knob_accept(sw_model *model, uint32_t index)
{
    model->n_refused -= model->knobs[index].is_refused;
    model->knobs[index].is_refused = false;
}

sw_status swi_knobs_check(const sw_model *model)
{
    for (uint32_t i = 0; model->n_refused > 0 && i < model->n_knobs; i++)
        if (model->knobs[i].is_refused)
            return say(model, i, model->knobs[i].refused);
    return SW_OK;
}

sw_status swi_knob_use(sw_knob knob, swi_knob_kind use)
{
    if (knob.model == NULL || knob.index >= knob.model->n_knobs)
        SW_FAIL(SW_INVALID, "the knob must be one of this model");
    swi_knob *k = &knob.model->knobs[knob.index];
    if (k->use == SWI_KNOB_NUMBER)
        k->use = (uint8_t)use;
    if (use == SWI_KNOB_SHARE && k->use != SWI_KNOB_SHARE && k->use != SWI_KNOB_FACTOR) {
        char name[SWI_KNOB_NAME];
        swi_knob_name(knob.model, knob.index, name, sizeof name);
        SW_FAIL(SW_INVALID, "model %s: %s%s may be above 1 and cannot be the rate of dropout",
                knob.model->name, name, k->what == NULL ? kinds[k->use].use : "");
    }
    return swi_knob_can_be(k, k->value) ? SW_OK : say(knob.model, knob.index, k->value);
}

/* ---- noise mode -------------------------------------------------------------------------- */

/* The noise of parameters: noise_mode.h. */

bool swi_is_perturbed(const swi_noise_mode *mode, const swi_entry *entry)
{
    return entry->role == SWI_ROLE_PARAMETER && !entry->frozen &&
           entry->optimizer == mode->optimizer;
}

uint32_t swi_noise_stream(const char *name)
{
    char full[SWI_MAX_NAME + 32];
    snprintf(full, sizeof full, "es/%s", name);
    return sw_rng_stream(full);
}

static int64_t part_of(int64_t n, float share)
{
    const int64_t part = share > 0.0f ? (int64_t)((double)n * (double)share + 0.5) : n;
    return part < 1 ? 1 : part > n ? n : part;
}

void swi_noise_spec(sw_noise_spec *out, const sw_noise_spec *like, float in_share,
                    float out_share, const sw_shape *shape, uint32_t stream)
{
    memset(out, 0, sizeof *out);
    out->distribution = like->distribution;
    out->stream = stream;
    out->taps = 1;
    if (shape->rank < 2 || shape->rank == 3) {
        out->kind = SW_NOISE_IID;
        out->cols = swi_elements(shape);
        out->rows = like->kind == SW_NOISE_DROPOUT ? 0 : 1;
        return;
    }
    out->kind = like->kind;
    out->sides = like->sides;
    out->rank = like->rank;
    out->window = like->window;
    out->rows = shape->dim[0];
    for (int i = 2; i < shape->rank; i++)
        out->taps *= (int32_t)shape->dim[i];
    out->cols = shape->dim[1] * out->taps;
    out->keep_rows = part_of(shape->dim[0], out_share);
    out->keep_cols = part_of(shape->dim[1], in_share);
}

void swi_noise_spec_of(sw_noise_spec *out, const swi_noise_mode *mode, const swi_entry *entry)
{
    const uint32_t stream = swi_noise_stream(entry->name);
    if (entry->logits && entry->shape.rank >= 2 && swi_elements(&entry->shape) > 0) {
        /* Of logits (out, in, ...): a matrix, each channel with the positions after it. */
        memset(out, 0, sizeof *out);
        out->kind = SW_NOISE_BITS_OF_LOGITS;
        out->stream = stream;
        out->rows = entry->shape.dim[0];
        out->taps = 1;
        for (int i = 2; i < entry->shape.rank; i++)
            out->taps *= (int32_t)entry->shape.dim[i];
        out->cols = swi_elements(&entry->shape) / entry->shape.dim[0];
    } else
        swi_noise_spec(out, &mode->like, mode->in_share, mode->out_share, &entry->shape,
                       stream);
}
