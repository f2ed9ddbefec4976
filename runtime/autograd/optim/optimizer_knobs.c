/* The knobs of an optimizer: of each group its rate, and where the options ask for it the
 * numbers after it. */
#include "runtime/autograd/optim/optimizer_internal.h"
#include <string.h>

/* In the order in which they lie one after the other; `reads` and `has`: which kinds have it.
 */
static const struct {
    const char *name, *what;
    int32_t reads;
    uint32_t has; /* 0: every kind */
    swi_knob_kind use;
} numbers[] = {
    {"lr", "learning rate", 0, 0, SWI_KNOB_RATE},
    {"weight_decay", "weight decay", SWI_READS_DECAY, 0, SWI_KNOB_DECAY},
    {"momentum", "momentum", SWI_READS_MOMENTUM, SWI_HAS_MOMENTUM, SWI_KNOB_FACTOR},
    {"beta1", "beta1", SWI_READS_BETAS, SWI_HAS_BETAS, SWI_KNOB_FACTOR},
    {"beta2", "beta2", SWI_READS_BETAS, SWI_HAS_BETAS, SWI_KNOB_FACTOR},
};
enum { LR, DECAY, MOMENTUM, BETA1, BETA2, N_NUMBERS };

static bool is_knob(int number, int32_t reads)
{
    return number == LR || (numbers[number].reads & reads) != 0;
}

uint32_t swi_knobs_read(int32_t reads)
{
    uint32_t n = 0;
    for (int i = 0; i < N_NUMBERS; i++)
        n += is_knob(i, reads);
    return n;
}

int32_t swi_reads_of(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind)
{
    int32_t reads = 0;
    for (int i = DECAY; i < N_NUMBERS && opts->knobs != 0; i++)
        if (numbers[i].has == 0 || (numbers[i].has & kind->has) != 0)
            reads |= numbers[i].reads;
    return reads;
}

/* The knobs of group g, one after the other. */
static sw_status make_knobs(sw_optimizer *o, uint32_t g, float lr)
{
    const float begin[N_NUMBERS] = {lr, o->weight_decay[g], o->attrs.momentum, o->attrs.beta1,
                                    o->attrs.beta2};
    for (int i = 0; i < N_NUMBERS; i++) {
        if (!is_knob(i, o->attrs.reads))
            continue;
        const uint32_t at = swi_model_knob(o->model, "", begin[i]);
        if (at == UINT32_MAX)
            return o->model->declared;
        if (i == LR)
            o->lr_knob[g] = at;
        swi_knob *knob = &o->model->knobs[at];
        knob->use = (uint8_t)numbers[i].use;
        knob->what = numbers[i].what;
        knob->optimizer = o->index;
        knob->group = g;
    }
    return SW_OK;
}

sw_status swi_make_groups(sw_optimizer *o, const sw_optimizer_opts *opts)
{
    o->n_groups = opts->n_groups > 0 ? (uint32_t)opts->n_groups : 1;
    for (uint32_t g = 0; g < o->n_groups; g++) {
        float lr =
            opts->n_groups > 0 && opts->groups[g].lr != 0.0f ? opts->groups[g].lr : opts->lr;
        if (lr == 0.0f)
            lr = o->kind->lr;
        o->weight_decay[g] =
            opts->n_groups > 0 ? opts->groups[g].weight_decay : opts->weight_decay;
        o->release[g] = swi_release_of(opts, g);
        SW_TRY(make_knobs(o, g, lr));
    }
    return SW_OK;
}

static sw_knob find(sw_optimizer *o, int group, const char *name, const char *call)
{
    if (sw_handle_check(o, SW_HANDLE_OPTIMIZER, call) != SW_OK)
        return (sw_knob){NULL, UINT32_MAX};
    if (group < 0 || (uint32_t)group >= o->n_groups || name == NULL)
        return (sw_knob){o->model, UINT32_MAX};
    uint32_t at = o->lr_knob[group];
    for (int i = 0; i < N_NUMBERS; i++) {
        if (!is_knob(i, o->attrs.reads))
            continue;
        if (strcmp(numbers[i].name, name) == 0)
            return (sw_knob){o->model, at};
        at++;
    }
    return (sw_knob){o->model, UINT32_MAX};
}

sw_knob sw_optimizer_lr(sw_optimizer *o, int group)
{
    return find(o, group, "lr", "sw_optimizer_lr");
}

sw_knob sw_optimizer_knob(sw_optimizer *o, int group, const char *name)
{
    return find(o, group, name, "sw_optimizer_knob");
}
