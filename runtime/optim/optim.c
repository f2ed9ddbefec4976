/* Optimizers: their options, and what they declare in the model. */
#include "runtime/optim/optim.h"
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

static bool is_factor(float x)
{
    return isfinite(x) && x >= 0.0f;
}

static sw_status check_groups(const sw_optimizer_opts *o)
{
    if (o->n_groups > 16)
        SW_FAIL(SW_INVALID, "optimizer %s: %zu groups, at most 16", o->kind, o->n_groups);
    if ((o->n_groups > 0 && o->groups == NULL) || (o->n_params > 0 && o->params == NULL))
        SW_FAIL(SW_INVALID, "optimizer %s: parameters are counted, and none are given",
                o->kind);
    if (o->n_groups > 0 && o->n_params > 0)
        SW_FAIL(SW_INVALID, "optimizer %s: params and groups exclude each other", o->kind);
    for (size_t g = 0; g < o->n_groups; g++) {
        const sw_param_group *group = &o->groups[g];
        if (!is_factor(group->lr) || !is_factor(group->weight_decay))
            SW_FAIL(SW_INVALID,
                    "optimizer %s: group %zu: a rate or factor is negative or not a number",
                    o->kind, g);
        if (group->n_params > 0 && group->params == NULL)
            SW_FAIL(SW_INVALID, "optimizer %s: group %zu has no parameters", o->kind, g);
        for (size_t i = 0; i < sizeof group->reserved / sizeof *group->reserved; i++)
            if (group->reserved[i] != 0)
                SW_FAIL(SW_INVALID, "optimizer %s: group %zu: reserved words must be zero",
                        o->kind, g);
    }
    return SW_OK;
}

static sw_status check_numbers(const sw_optimizer_opts *o, const swi_optimizer_kind *kind)
{
    const float numbers[] = {o->lr,    o->weight_decay, o->momentum,
                             o->beta1, o->beta2,        o->epsilon};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_factor(numbers[i]))
            SW_FAIL(SW_INVALID, "optimizer %s: a rate or factor is negative or not a number",
                    o->kind);
    if (o->beta1 >= 1.0f || o->beta2 >= 1.0f || o->momentum >= 1.0f)
        SW_FAIL(SW_INVALID, "optimizer %s: beta and momentum must be below 1", o->kind);
    if (kind->ticks && (o->momentum != 0.0f || o->nesterov))
        SW_FAIL(SW_INVALID, "optimizer %s: momentum and nesterov are sgd's; it has beta1",
                o->kind);
    if (!kind->ticks &&
        (o->beta1 != 0.0f || o->beta2 != 0.0f || o->epsilon != 0.0f || o->as_given))
        SW_FAIL(SW_INVALID,
                "optimizer %s: beta1, beta2, epsilon and as_given are adam's and adamw's",
                o->kind);
    if (o->nesterov && o->momentum == 0.0f)
        SW_FAIL(SW_INVALID, "optimizer %s: nesterov wants a momentum", o->kind);
    return check_groups(o);
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
        model->entries[index].kept_flag = o->n_kept++;
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
        o->lr_knob[g] = swi_model_knob(o->model, "", lr);
        if (o->lr_knob[g] == UINT32_MAX)
            return o->model->declared;
    }
    return SW_OK;
}

static sw_status make_tick(sw_optimizer *o)
{
    char name[48];
    o->tick = SWI_NONE;
    if (!o->kind->ticks)
        return SW_OK;
    snprintf(name, sizeof name, "optimizer%u.powers", o->index);
    o->tick =
        swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F64, SW_SHAPE(2), NULL);
    return o->tick != 0 ? SW_OK : o->model->declared;
}

/* One flag per kept gradient, side by side: parameters come and go with the loss of a run. */
static sw_status make_flags(sw_optimizer *o)
{
    char name[48];
    o->flags = SWI_NONE;
    if (o->n_kept == 0)
        return SW_OK;
    snprintf(name, sizeof name, "optimizer%u.kept", o->index);
    o->flags = swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32,
                               SW_SHAPE(o->n_kept), NULL);
    return o->flags != 0 ? SW_OK : o->model->declared;
}

static float or_default(float given, float otherwise, bool as_given)
{
    return given != 0.0f || as_given ? given : otherwise;
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
    SW_TRY(check_numbers(&opts, kind));
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
    o->beta1 = or_default(opts.beta1, 0.9f, opts.as_given != 0);
    o->beta2 = or_default(opts.beta2, 0.999f, opts.as_given != 0);
    o->epsilon = or_default(opts.epsilon, 1e-8f, opts.as_given != 0);
    o->keep = opts.keep_gradients != 0;
    o->release = opts.release != 0;
    model->optimizers[model->n_optimizers++] = o; /* the model's from here on, whatever fails */
    SW_TRY(make_knobs(o, &opts));
    SW_TRY(make_tick(o));
    SW_TRY(own_all(o, &opts));
    SW_TRY(make_flags(o));
    *out = o;
    return SW_OK;
}

sw_knob sw_optimizer_lr(sw_optimizer *o, int group)
{
    if (o == NULL || group < 0 || (uint32_t)group >= o->n_groups)
        return (sw_knob){o != NULL ? o->model : NULL, UINT32_MAX};
    return (sw_knob){o->model, o->lr_knob[group]};
}
