/* Knobs that a run must not read: sw_knob_set returns nothing, so what it refuses is kept, and
 * every run of the model says so until the knob is set to something that can be. The value that
 * runs read stays the one before. */
#include "runtime/model/model.h"
#include <math.h>
#include <stdio.h>

static const char *const uses[] = {
    [SWI_KNOB_NUMBER] = "",
    [SWI_KNOB_RATE] = ", a learning rate,",
    [SWI_KNOB_NORM] = ", the bound of a norm,",
};

bool swi_knob_can_be(const swi_knob *knob, float value)
{
    return isfinite(value) && (knob->use == SWI_KNOB_NUMBER || value >= 0.0f);
}

/* A rate has no name: it is group g's of its optimizer. */
static void name_of(const sw_model *model, uint32_t index, char *to, size_t bytes)
{
    snprintf(to, bytes, "knob '%s'", model->knobs[index].name);
    for (uint32_t i = 0; i < model->n_optimizers; i++)
        for (uint32_t g = 0; g < model->optimizers[i]->n_groups; g++)
            if (model->optimizers[i]->lr_knob[g] == index)
                snprintf(to, bytes, "the learning rate of optimizer %u (%s), group %u", i,
                         model->optimizers[i]->kind->name, g);
}

static sw_status say(const sw_model *model, uint32_t index, float value)
{
    char name[128];
    const swi_knob *knob = &model->knobs[index];
    name_of(model, index, name, sizeof name);
    SW_FAIL(SW_INVALID, "model %s: %s%s must be finite%s (got %g); set it again (sw_knob_set)",
            model->name, name, knob->name[0] != '\0' ? uses[knob->use] : "",
            knob->use == SWI_KNOB_NUMBER ? "" : " and at least 0", (double)value);
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
    return swi_knob_can_be(k, k->value) ? SW_OK : say(knob.model, knob.index, k->value);
}
