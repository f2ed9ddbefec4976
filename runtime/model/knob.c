/* Knobs that a run must not read: sw_knob_set returns nothing, so what it refuses is kept, and
 * every run of the model says so until the knob is set to something that can be. The value that
 * runs read stays the one before. */
#include "runtime/model/model.h"
#include <math.h>
#include <stdio.h>

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
