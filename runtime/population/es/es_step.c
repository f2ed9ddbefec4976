/* The end of a generation: weights of its directions, and the program that updates by them. */
#include "runtime/base/structs.h"
#include "runtime/population/es/es_internal.h"
#include <math.h>

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
    SW_FAIL(
        SW_INVALID,
        "sw_es_step: %zu of %zu evaluations have no fitness yet, the first is repeat %zu of "
        "direction %zu",
        n - es->told, n, first / es->mode.directions, first % es->mode.directions);
}

/* Figures and weights, once: a run that fails can be tried again. */
static sw_status weigh(sw_es *es, const sw_exec *exec, float sigma)
{
    const void *const kept[] = {exec, es->mode.model};
    sw_call call = {.name = "sw_es_step",
                    .callback = "`shape`",
                    .uses = SW_CALL_ONE(es),
                    .keeps = {{kept, 2}}};
    SW_TRY(check_told(es));
    swi_es_look(es, &es->info);
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    const sw_status status = sw_call_end(&call, swi_es_weigh(es, sigma));
    if (status != SW_OK)
        swi_es_forget(es);
    es->weighed = status == SW_OK;
    return status;
}

sw_status sw_es_step(sw_es *es, sw_exec *exec, sw_es_info *out)
{
    sw_model *model;
    sw_array inputs[2];
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_step"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_es_step"));
    if (out != NULL)
        SW_TRY(swi_struct_check(SWI_STRUCT_sw_es_info, out->size, "sw_es_step"));
    const float sigma = sw_knob_get((sw_knob){es->mode.model, es->mode.sigma});
    if (!(sigma > 0.0f))
        SW_FAIL(SW_INVALID, "sw_es_step: sigma must be above 0 (got %g)", (double)sigma);
    if (es->mode.generation >= UINT32_MAX)
        SW_FAIL(SW_INVALID, "sw_es_step: there are no generations after %u", UINT32_MAX);
    if (!es->weighed)
        SW_TRY(weigh(es, exec, sigma));
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
