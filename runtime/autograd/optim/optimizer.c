/* Optimizers: their options, and what they declare in the model. */
#include "alloc/base/assert.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const swi_optimizer_kind *const kinds[] = {
#define SW_OPTIMIZER(kind, states, operations) &swi_##kind,
#define SW_OPTIMIZER_LIKE(kind) &swi_##kind,
#define SW_OPTIMIZER_WHOLE(kind) &swi_##kind,
#include "kernels/optimizers.def"
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

const char *sw_optimizer_kind(size_t i)
{
    return i < N_KINDS ? kinds[i]->name : NULL;
}

static sw_status find_kind(const char *name, const swi_optimizer_kind **out)
{
    char known[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (name != NULL && strcmp(kinds[i]->name, name) == 0) {
            *out = kinds[i];
            return SW_OK;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i == 0             ? ""
                                 : i + 1 == N_KINDS ? " and "
                                                    : ", ",
                                 kinds[i]->name);
    }
    SW_FAIL(SW_INVALID, "the optimizer must be one of %s (got '%s')", known,
            name != NULL ? name : "");
}

void swi_kinds_that_have(uint32_t has, char *to, size_t bytes)
{
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < N_KINDS && used < bytes; i++)
        if ((kinds[i]->has & has) != 0)
            used += (size_t)snprintf(to + used, bytes - used, "%s%s's", used > 0 ? ", " : "",
                                     kinds[i]->name);
}

/* ---- creation ---------------------------------------------------------------------------- */

/* The state tensors of one parameter. */
static sw_status make_states(sw_optimizer *o, const sw_optimizer_opts *opts, uint32_t index)
{
    sw_model *model = o->model;
    const sw_shape shape = model->entries[index].shape;
    swi_state states[SWI_MAX_STATE] = {{NULL, shape, 0}, {NULL, shape, 0}, {NULL, shape, 0}};
    const int n = o->kind->states != NULL ? o->kind->states(opts, &shape, states) : 0;
    SW_ASSERT(n <= SWI_MAX_STATE);
    for (int k = 0; k < n; k++) {
        char name[128], init[64];
        SW_ASSERT(states[k].suffix != NULL && model->entries[index].state[k] == SWI_NONE);
        snprintf(name, sizeof name, "%s.%s", model->entries[index].name, states[k].suffix);
        swi_init_constant(init, sizeof init, (double)states[k].begin);
        const uint32_t entry =
            swi_model_entry(model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32, states[k].shape,
                            states[k].begin != 0.0f ? init : "zeros");
        if (entry == 0)
            return model->declared;
        model->entries[index].state[k] = entry;
    }
    return SW_OK;
}

/* Declare what this optimizer keeps for one parameter. */
static sw_status own(sw_optimizer *o, const sw_optimizer_opts *opts, uint32_t index,
                     uint32_t group)
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
    SW_TRY(make_states(o, opts, index));
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
            SW_TRY(own(o, opts, opts->groups[g].params[i].index, (uint32_t)g));
        }
    for (size_t i = 0; opts->n_groups == 0 && i < opts->n_params; i++) {
        if (opts->params[i].model != model)
            return swi_declare_fail(
                model, SW_INVALID, "model %s: an optimizer was given another model's parameter",
                model->name);
        SW_TRY(own(o, opts, opts->params[i].index, 0));
    }
    const uint32_t n = model->n_entries;
    for (uint32_t i = 1; opts->n_groups == 0 && opts->n_params == 0 && i < n; i++)
        if (model->entries[i].role == SWI_ROLE_PARAMETER &&
            model->entries[i].optimizer == SWI_NONE)
            SW_TRY(own(o, opts, i, 0));
    return SW_OK;
}

/* Numbers of the optimizer as a whole (f64): what counts its steps, and what was skipped. */
static sw_status make_numbers(sw_optimizer *o, const char *what, int64_t n, uint32_t *out)
{
    char name[48];
    snprintf(name, sizeof name, "optimizer%u.%s", o->index, what);
    *out = swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F64, SW_SHAPE(n), NULL);
    return *out != 0 ? SW_OK : o->model->declared;
}

/* The counters of its steps: of the optimizer, or of each group. */
static sw_status make_powers(sw_optimizer *o, uint32_t g)
{
    char what[24] = "powers";
    if (g > 0)
        snprintf(what, sizeof what, "powers%u", g);
    return make_numbers(o, what, 2, &o->tick[g]);
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

static swi_update_attrs attrs_of(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind)
{
    const bool as_given = opts->as_given != 0;
    swi_update_attrs attrs;
    memset(&attrs, 0, sizeof attrs); /* compared byte for byte */
    attrs.momentum = opts->momentum;
    attrs.beta1 = or_default(opts->beta1, kind->beta1, as_given);
    attrs.beta2 = or_default(opts->beta2, kind->beta2, as_given);
    attrs.epsilon = or_default(opts->epsilon, kind->epsilon, as_given);
    attrs.reads = swi_reads_of(opts, kind);
    if (kind->set_attrs != NULL)
        kind->set_attrs(opts, &attrs);
    return attrs;
}

static sw_status take_slot(sw_model *model, sw_optimizer **out)
{
    void *list = model->optimizers;
    SW_TRY(sw_heap_reserve(&list, SW_HEAP_RECORDS, &model->cap_optimizers,
                           model->n_optimizers + 1, sizeof *model->optimizers));
    model->optimizers = list;
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_OPTIMIZER, sizeof(sw_optimizer)));
    sw_optimizer *o = block;
    o->model = model;
    o->index = model->n_optimizers;
    o->counts = SWI_NONE;
    for (int g = 0; g < SWI_MAX_GROUPS; g++)
        o->tick[g] = SWI_NONE;
    SW_ASSERT(model->n_optimizers < model->cap_optimizers);
    model->optimizers[model->n_optimizers++] = o; /* the model's from here on, whatever fails */
    *out = o;
    return SW_OK;
}

static sw_status declare(sw_optimizer *o, const sw_optimizer_opts *opts)
{
    SW_TRY(swi_make_groups(o, opts));
    for (uint32_t g = 0; g < swi_ticks(o); g++)
        SW_TRY(make_powers(o, g));
    if (o->max_skipped != 0)
        SW_TRY(make_numbers(o, "skipped", SWI_SKIPPED_N, &o->counts));
    SW_TRY(own_all(o, opts));
    return make_flags(o);
}

static sw_status check_owns(const sw_model *model, const sw_optimizer_opts *opts)
{
    size_t given = opts->n_groups == 0 ? opts->n_params : 0, all = 0, others = 0;
    for (size_t g = 0; g < opts->n_groups; g++)
        given += opts->groups[g].n_params;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        all += model->entries[i].role == SWI_ROLE_PARAMETER;
        others += model->entries[i].role == SWI_ROLE_PARAMETER &&
                  model->entries[i].optimizer != SWI_NONE;
    }
    if (given > 0 || (opts->n_groups == 0 && others < all))
        return SW_OK;
    SW_FAIL(SW_INVALID,
            "model %s: the optimizer would own none of its %zu parameters, of which others own "
            "%zu: %s",
            model->name, all, others,
            all == 0              ? "declare them first"
            : opts->n_groups != 0 ? "its groups name none"
                                  : "give each optimizer its own, by params or groups");
}

sw_status sw_optimizer_create(sw_optimizer **out, sw_model *model,
                              const sw_optimizer_opts *given)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_optimizer_create"));
    if (out == NULL || given == NULL)
        SW_FAIL(SW_INVALID, "sw_optimizer_create: out and opts must not be NULL");
    sw_optimizer_opts opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_optimizer_opts, &opts, given, "sw_optimizer_create"));
    const swi_optimizer_kind *kind = NULL;
    SW_TRY(find_kind(opts.kind, &kind));
    SW_TRY(swi_check_optimizer(&opts, kind));
    if (model->declared != SW_OK)
        SW_FAIL(model->declared, "%s", model->declared_message);
    if (model->fixed)
        SW_FAIL(SW_INVALID, "model %s: an optimizer was created after the layout was fixed",
                model->name);
    SW_TRY(check_owns(model, &opts));
    SW_TRY(swi_check_release(&opts, model));
    sw_optimizer *o;
    SW_TRY(take_slot(model, &o));
    SW_ASSERT(swi_op_traits_of(kind->op)->duty == SWI_DUTY_UPDATE ||
              swi_op_traits_of(kind->op)->duty == SWI_DUTY_UPDATE_WHOLE);
    o->kind = kind;
    o->attrs = attrs_of(&opts, kind);
    o->keep = opts.keep_gradients != 0;
    o->max_skipped = opts.no_check ? 0 : opts.max_skipped == 0 ? 10 : opts.max_skipped;
    SW_TRY(declare(o, &opts));
    *out = o;
    return SW_OK;
}
