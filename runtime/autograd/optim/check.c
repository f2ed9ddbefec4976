/* Are an optimizer's options such that it can do what they say? */
#include "runtime/autograd/optim/optimizer_internal.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define ANY_KIND UINT32_MAX

/* The numbers of the options, and which kinds have them. */
static const struct {
    const char *name;
    size_t offset;
    uint32_t has;
    bool is_float, below_one;
} numbers[] = {
#define REAL(field, has, below_one)                                                            \
    {                                                                                          \
#field, offsetof(sw_optimizer_opts, field), has, true, below_one                       \
    }
#define FLAG(field, has)                                                                       \
    {                                                                                          \
#field, offsetof(sw_optimizer_opts, field), has, false, false                          \
    }
    REAL(lr, ANY_KIND, false),
    REAL(weight_decay, ANY_KIND, false),
    REAL(momentum, SWI_HAS_MOMENTUM, true),
    FLAG(nesterov, SWI_HAS_NESTEROV),
    REAL(beta1, SWI_HAS_BETAS, true),
    REAL(beta2, SWI_HAS_BETAS, true),
    REAL(epsilon, SWI_HAS_EPSILON, false),
    FLAG(as_given, SWI_HAS_BETAS | SWI_HAS_EPSILON | SWI_HAS_ALPHA | SWI_HAS_SCALES),
    REAL(alpha, SWI_HAS_ALPHA, true),
    FLAG(centered, SWI_HAS_CENTERED),
    REAL(initial_accumulator, SWI_HAS_ACCUMULATOR, false),
    REAL(beta2_decay, SWI_HAS_SCALES, false),
    REAL(clip_threshold, SWI_HAS_SCALES, false),
    REAL(least_scale, SWI_HAS_SCALES, false),
    FLAG(fixed_rate, SWI_HAS_SCALES),
};

static bool is_factor(float x)
{
    return isfinite(x) && x >= 0.0f;
}

static sw_status check_numbers(const sw_optimizer_opts *o, const swi_optimizer_kind *kind)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *at = (const char *)o + numbers[i].offset;
        float x = 0.0f;
        int flag = 0;
        if (numbers[i].is_float)
            memcpy(&x, at, sizeof x);
        else
            memcpy(&flag, at, sizeof flag);
        if (!is_factor(x))
            SW_FAIL(SW_INVALID, "optimizer %s: %s must be finite and at least 0 (got %g)",
                    o->kind, numbers[i].name, (double)x);
        if (numbers[i].below_one && x >= 1.0f)
            SW_FAIL(SW_INVALID, "optimizer %s: %s must be below 1", o->kind, numbers[i].name);
        if ((x != 0.0f || flag != 0) && numbers[i].has != ANY_KIND &&
            (numbers[i].has & kind->has) == 0) {
            char owners[160];
            swi_kinds_that_have(numbers[i].has, owners, sizeof owners);
            SW_FAIL(SW_INVALID, "optimizer %s: it has no %s, which is %s", o->kind,
                    numbers[i].name, owners);
        }
    }
    if (o->nesterov && o->momentum == 0.0f && o->knobs == 0)
        SW_FAIL(SW_INVALID, "optimizer %s: nesterov needs a momentum above 0", o->kind);
    if (o->knobs > 1)
        SW_FAIL(SW_INVALID, "optimizer %s: knobs must be 0 or 1 (got %llu)", o->kind,
                (unsigned long long)o->knobs);
    if (o->max_skipped < -1)
        SW_FAIL(SW_INVALID,
                "optimizer %s: max_skipped must be -1 (any number), 0 (the default, 10) or "
                "more (got %d)",
                o->kind, o->max_skipped);
    if (o->no_check && o->max_skipped != 0)
        SW_FAIL(SW_INVALID,
                "optimizer %s: max_skipped and no_check exclude each other: what is not "
                "checked is not skipped",
                o->kind);
    return SW_OK;
}

static sw_status check_group(const sw_optimizer_opts *o, size_t g)
{
    const sw_param_group *group = &o->groups[g];
    if (!is_factor(group->lr) || !is_factor(group->weight_decay))
        SW_FAIL(SW_INVALID,
                "optimizer %s: group %zu: lr and weight_decay must be finite and at least 0 "
                "(got %g and %g)",
                o->kind, g, (double)group->lr, (double)group->weight_decay);
    if (group->n_params > 0 && group->params == NULL)
        SW_FAIL(SW_INVALID, "optimizer %s: group %zu has no parameters", o->kind, g);
    if (group->update < SW_UPDATE_DEFAULT || group->update > SW_UPDATE_RELEASE)
        SW_FAIL(SW_INVALID, "optimizer %s: group %zu: unknown update %d", o->kind, g,
                group->update);
    if (group->reserved_word != 0 || group->reserved[0] != 0)
        SW_FAIL(SW_INVALID, "optimizer %s: group %zu: reserved words must be zero", o->kind, g);
    return SW_OK;
}

sw_status swi_check_optimizer(const sw_optimizer_opts *o, const swi_optimizer_kind *kind)
{
    SW_TRY(check_numbers(o, kind));
    if (o->n_groups > SWI_MAX_GROUPS)
        SW_FAIL(SW_INVALID, "optimizer %s: must have at most %d groups (got %zu)", o->kind,
                SWI_MAX_GROUPS, o->n_groups);
    if ((o->n_groups > 0 && o->groups == NULL) || (o->n_params > 0 && o->params == NULL))
        SW_FAIL(SW_INVALID, "optimizer %s: params must not be NULL when n_params is above 0",
                o->kind);
    if (o->n_groups > 0 && o->n_params > 0)
        SW_FAIL(SW_INVALID, "optimizer %s: params and groups exclude each other", o->kind);
    for (size_t g = 0; g < o->n_groups; g++)
        SW_TRY(check_group(o, g));
    return SW_OK;
}

/* ---- when updates run -------------------------------------------------------------------- */

static int update_of(const sw_optimizer_opts *o, size_t g)
{
    if (g < o->n_groups && o->groups[g].update != SW_UPDATE_DEFAULT)
        return o->groups[g].update;
    if (o->update != SW_UPDATE_DEFAULT)
        return o->update;
    return o->release ? SW_UPDATE_RELEASE : SW_UPDATE_DEFAULT;
}

uint8_t swi_release_of(const sw_optimizer_opts *o, uint32_t g)
{
    const int update = update_of(o, g);
    return update == SW_UPDATE_RELEASE ? SWI_RELEASED
           : update == SW_UPDATE_AFTER ? SWI_STAYS
                                       : SWI_RELEASABLE;
}

/* The first parameter of group g, for messages. */
static const char *first_name(const sw_optimizer_opts *o, const sw_model *model, size_t g)
{
    const sw_param *params = o->n_groups > 0 ? o->groups[g].params : o->params;
    const size_t n = o->n_groups > 0 ? o->groups[g].n_params : o->n_params;
    if (n > 0)
        return sw_param_name(params[0]);
    for (uint32_t e = 1; o->n_groups == 0 && e < model->n_entries; e++)
        if (model->entries[e].role == SWI_ROLE_PARAMETER &&
            model->entries[e].optimizer == SWI_NONE)
            return model->entries[e].name;
    return "";
}

sw_status swi_check_release(const sw_optimizer_opts *o, const sw_model *model)
{
    const size_t n = o->n_groups > 0 ? o->n_groups : 1;
    size_t released = SIZE_MAX, other = SIZE_MAX, silent = SIZE_MAX;
    if (o->update < SW_UPDATE_DEFAULT || o->update > SW_UPDATE_RELEASE)
        SW_FAIL(SW_INVALID, "optimizer %s: unknown update %d", o->kind, o->update);
    if (o->release && o->update == SW_UPDATE_AFTER)
        SW_FAIL(SW_INVALID, "optimizer %s: release and update after exclude each other",
                o->kind);
    for (size_t g = n; g-- > 0;) {
        *(update_of(o, g) == SW_UPDATE_RELEASE ? &released : &other) = g;
        if (o->n_groups > 0 && o->groups[g].update == SW_UPDATE_DEFAULT)
            silent = g;
    }
    if (released != SIZE_MAX && o->keep_gradients)
        SW_FAIL(SW_INVALID,
                "optimizer %s: keep_gradients and release exclude each other: the gradient of "
                "'%s' is released and does not outlive its update",
                o->kind, first_name(o, model, released));
    if (released != SIZE_MAX && other != SIZE_MAX && silent != SIZE_MAX)
        SW_FAIL(SW_INVALID,
                "optimizer %s: group %zu ('%s') does not say when it is updated, and others "
                "are by release and after: where they differ, each group has its own `update`",
                o->kind, silent, first_name(o, model, silent));
    return SW_OK;
}
