/* Optimizers: their options, and what they declare in the model. */
#include "alloc/base/assert.h"
#include "kernels/state8.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint8_t release_of(const sw_optimizer_opts *o, uint32_t g);
static sw_status check_release(const sw_optimizer_opts *o, const sw_model *model);

/* ---- schedule ---------------------------------------------------------------------------- */

/* Learning-rate schedules: pure functions of the step. Each has a warm-up in front; what it is
 * from there on depends on the steps after the warm-up alone. */

#define PI 3.14159265358979323846

static double at_least(double rate, double least)
{
    return rate > least ? rate : least;
}

/* From `from` at t = 0 to `to` at t = 1 by half a wave of the cosine. */
static double by_wave(double from, double to, double t)
{
    return to + (from - to) * 0.5 * (1.0 + cos(PI * t));
}

/* The share of the steps between warm-up and end that have been made, at most 1. */
static double share(const sw_schedule *s, uint64_t step)
{
    const double t = (double)step / (double)(s->total_steps - s->warmup_steps);
    return t > 1.0 ? 1.0 : t;
}

static double constant(const sw_schedule *s, uint64_t step)
{
    (void)step;
    return (double)s->base;
}

static double by_steps(const sw_schedule *s, uint64_t step)
{
    return at_least((double)s->base * pow((double)s->gamma, (double)(step / s->every)),
                    (double)s->floor);
}

/* Loshchilov and Hutter 2017: floor + (base - floor) (1 + cos(pi t)) / 2. */
static double cosine(const sw_schedule *s, uint64_t step)
{
    return by_wave((double)s->base, (double)s->floor, share(s, step));
}

static double linear(const sw_schedule *s, uint64_t step)
{
    return (double)s->base + ((double)s->floor - (double)s->base) * share(s, step);
}

static double exponential(const sw_schedule *s, uint64_t step)
{
    const double every = s->every > 0 ? (double)s->every : 1.0;
    return at_least((double)s->base * pow((double)s->gamma, (double)step / every),
                    (double)s->floor);
}

/* Smith and Topin 2018, as PyTorch has it: its warm-up is a wave too, see sw_schedule_at. */
#define ONE_CYCLE_BEGIN (1.0 / 25)
#define ONE_CYCLE_END (1.0 / 250000)
static double one_cycle(const sw_schedule *s, uint64_t step)
{
    const double end = s->floor > 0.0f ? (double)s->floor : (double)s->base * ONE_CYCLE_END;
    return by_wave((double)s->base, end, share(s, step));
}

enum { WANTS_TOTAL = 1, WANTS_GAMMA = 2, WANTS_EVERY = 4, RISES_BY_WAVE = 8 };
static const struct {
    const char *name;
    unsigned wants;
    double (*rate)(const sw_schedule *s, uint64_t step); /* steps after the warm-up */
} schedule_kinds[] = {
    {"constant", 0, constant},
    {"step", WANTS_GAMMA | WANTS_EVERY, by_steps},
    {"cosine", WANTS_TOTAL, cosine},
    {"linear", WANTS_TOTAL, linear},
    {"exponential", WANTS_GAMMA, exponential},
    {"one_cycle", WANTS_TOTAL | RISES_BY_WAVE, one_cycle},
};
#define N_SCHEDULES (sizeof schedule_kinds / sizeof *schedule_kinds)

const char *sw_schedule_kind(size_t i)
{
    return i < N_SCHEDULES ? schedule_kinds[i].name : NULL;
}

static bool is_at_least_0(float x)
{
    return isfinite(x) && x >= 0.0f;
}

static sw_status check(const sw_schedule *s, unsigned wants)
{
    if ((wants & WANTS_EVERY) != 0 && s->every == 0)
        SW_FAIL(SW_INVALID, "schedule %s: `every` must be at least 1 step", s->kind);
    if ((wants & WANTS_GAMMA) != 0 && (!(s->gamma > 0.0f) || !isfinite(s->gamma)))
        SW_FAIL(SW_INVALID, "schedule %s: `gamma` must be finite and above 0 (got %g)", s->kind,
                (double)s->gamma);
    if ((wants & WANTS_TOTAL) != 0 && s->total_steps <= s->warmup_steps)
        SW_FAIL(SW_INVALID,
                "schedule %s: steps must be more than the warm-up (got %llu and %llu)", s->kind,
                (unsigned long long)s->total_steps, (unsigned long long)s->warmup_steps);
    return SW_OK;
}

sw_status sw_schedule_at(const sw_schedule *given, uint64_t step, float *out)
{
    SW_TRY(swi_given(given != NULL && out != NULL, "schedule and out", "sw_schedule_at"));
    sw_schedule s;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_schedule, &s, given, "sw_schedule_at"));
    SW_TRY(swi_given(s.kind != NULL, "kind", "sw_schedule_at"));
    if (!is_at_least_0(s.base) || !is_at_least_0(s.floor))
        SW_FAIL(SW_INVALID,
                "sw_schedule_at: base and floor must be finite and at least 0 (got %g and %g)",
                (double)s.base, (double)s.floor);
    size_t k = 0;
    while (k < N_SCHEDULES && strcmp(schedule_kinds[k].name, s.kind) != 0)
        k++;
    if (k == N_SCHEDULES)
        SW_FAIL(SW_INVALID,
                "the schedule must be constant, step, cosine, linear, exponential or one_cycle "
                "(got '%s')",
                s.kind);
    SW_TRY(check(&s, schedule_kinds[k].wants));
    float rate;
    if (step >= s.warmup_steps)
        rate = (float)schedule_kinds[k].rate(&s, step - s.warmup_steps);
    else if ((schedule_kinds[k].wants & RISES_BY_WAVE) != 0)
        rate = (float)by_wave((double)s.base * ONE_CYCLE_BEGIN, (double)s.base,
                              (double)step / (double)s.warmup_steps);
    else
        rate = (float)((double)s.base * (double)(step + 1) / (double)s.warmup_steps);
    if (!isfinite(rate))
        SW_FAIL(SW_INVALID, "schedule %s: the rate of step %llu is larger than a float can be",
                s.kind, (unsigned long long)step);
    *out = rate;
    return SW_OK;
}

/* ---- optimizer knobs --------------------------------------------------------------------- */

/* The knobs of an optimizer: of each group its rate, and where the options ask for it the
 * numbers after it. */

/* In the order in which they lie one after the other; `reads` and `has`: which kinds have
 * it. */
static const struct {
    const char *name, *what;
    int32_t reads;
    uint32_t has; /* 0: every kind */
    swi_knob_kind use;
} knob_numbers[] = {
    {"lr", "learning rate", 0, 0, SWI_KNOB_RATE},
    {"weight_decay", "weight decay", SWI_READS_DECAY, 0, SWI_KNOB_DECAY},
    {"momentum", "momentum", SWI_READS_MOMENTUM, SWI_HAS_MOMENTUM, SWI_KNOB_FACTOR},
    {"beta1", "beta1", SWI_READS_BETAS, SWI_HAS_BETAS, SWI_KNOB_FACTOR},
    {"beta2", "beta2", SWI_READS_BETAS, SWI_HAS_BETAS, SWI_KNOB_FACTOR},
};
enum { LR, DECAY, MOMENTUM, BETA1, BETA2, N_NUMBERS };

static bool is_knob(int number, int32_t reads)
{
    return number == LR || (knob_numbers[number].reads & reads) != 0;
}

uint32_t swi_knobs_read(int32_t reads)
{
    uint32_t n = 0;
    for (int i = 0; i < N_NUMBERS; i++)
        n += is_knob(i, reads);
    return n;
}

/* Which knob_numbers of updates are knobs by these options: bits of SWI_READS. */
static int32_t reads_of(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind)
{
    int32_t reads = 0;
    for (int i = DECAY; i < N_NUMBERS && opts->knobs != 0; i++)
        if (knob_numbers[i].has == 0 || (knob_numbers[i].has & kind->has) != 0)
            reads |= knob_numbers[i].reads;
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
        knob->use = (uint8_t)knob_numbers[i].use;
        knob->what = knob_numbers[i].what;
        knob->optimizer = o->index;
        knob->group = g;
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
        if (strcmp(knob_numbers[i].name, name) == 0)
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

/* ---- optimizer --------------------------------------------------------------------------- */

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

const swi_optimizer_kind *swi_find_optimizer(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static sw_status find_kind(const char *name, const swi_optimizer_kind **out)
{
    char known[160] = "";
    size_t used = 0;
    *out = name != NULL ? swi_find_optimizer(name) : NULL;
    if (*out != NULL)
        return SW_OK;
    for (size_t i = 0; i < N_KINDS; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i == 0             ? ""
                                 : i + 1 == N_KINDS ? " and "
                                                    : ", ",
                                 kinds[i]->name);
    SW_FAIL(SW_INVALID, "the optimizer must be one of %s (got '%s')", known,
            name != NULL ? name : "");
}

/* "'s, " after each kind that has one of these numbers, for messages. */
static void kinds_that_have(uint32_t has, char *to, size_t bytes)
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
    const bool in8 =
        o->state8 && swi_elements(&shape) >= SW_STATE8_LEAST && sw_state8_cols(&shape) > 1;
    swi_state states[SWI_MAX_STATE];
    for (int k = 0; k < SWI_MAX_STATE; k++)
        states[k] = (swi_state){NULL, shape, 0};
    const int n = o->kind->states != NULL ? o->kind->states(opts, &shape, states) : 0;
    SW_ASSERT(n << in8 <= SWI_MAX_STATE);
    for (int k = 0; k < n << in8; k++) {
        const swi_state *s = &states[k >> in8];
        const bool scales = in8 && k % 2 == 1; /* of the codes before them */
        char name[128], init[64];
        SW_ASSERT(s->suffix != NULL && model->entries[index].state[k] == SWI_NONE);
        snprintf(name, sizeof name, "%s.%s%s", model->entries[index].name, s->suffix,
                 scales ? ".scales" : "");
        swi_init_constant(init, sizeof init, (double)s->begin);
        const uint32_t entry = swi_model_entry(
            model, name, SWI_ROLE_OPTIMIZER_STATE, in8 && !scales ? SW_U8 : SW_F32,
            scales ? sw_state8_scales(&shape) : s->shape, s->begin != 0.0f ? init : "zeros");
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
        model->entries[index].role != SWI_ROLE_PARAMETER || model->entries[index].weights)
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
    if (o->shards > 1) {
        const int64_t n = swi_elements(&model->entries[index].shape);
        snprintf(name, sizeof name, "%s.partial", model->entries[index].name);
        const uint32_t entry =
            swi_model_entry(model, name, SWI_ROLE_GRADIENT, SW_F32,
                            SW_SHAPE(swi_partial_sums(o->shards), n), "zeros");
        if (entry == 0)
            return model->declared;
        model->entries[entry].brief = true;
        model->entries[index].partial = entry;
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
        if (model->entries[i].role == SWI_ROLE_PARAMETER && !model->entries[i].weights &&
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
    attrs.reads = reads_of(opts, kind);
    if (kind->set_attrs != NULL)
        kind->set_attrs(opts, &attrs);
    return attrs;
}

bool swi_optimizer_has_state8(const sw_optimizer_opts *opts)
{
    const swi_optimizer_kind *kind;
    return find_kind(opts->kind, &kind) == SW_OK &&
           swi_op_traits_of(kind->op)->duty == SWI_DUTY_UPDATE &&
           sw_optim_state8((sw_optim)attrs_of(opts, kind).rule) != 0;
}

static sw_status take_slot(sw_model *model, sw_optimizer **out)
{
    SW_TRY(sw_heap_reserve(&model->optimizers, SW_HEAP_RECORDS, &model->cap_optimizers,
                           model->n_optimizers + 1));
    sw_optimizer *o;
    SW_TRY(sw_handle_take(&o, SW_HANDLE_OPTIMIZER, sizeof(sw_optimizer)));
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
    /* Rates, decays, times of updates and knobs of all groups. */
    o->n_groups = opts->n_groups > 0 ? (uint32_t)opts->n_groups : 1;
    for (uint32_t g = 0; g < o->n_groups; g++) {
        float lr =
            opts->n_groups > 0 && opts->groups[g].lr != 0.0f ? opts->groups[g].lr : opts->lr;
        if (lr == 0.0f)
            lr = o->kind->lr;
        o->weight_decay[g] =
            opts->n_groups > 0 ? opts->groups[g].weight_decay : opts->weight_decay;
        o->release[g] = release_of(opts, g);
        SW_TRY(make_knobs(o, g, lr));
    }

    for (uint32_t g = 0; g < swi_ticks(o); g++) {
        /* The counters of its steps: of the optimizer, or of each group. */
        char what[24] = "powers";
        if (g > 0)
            snprintf(what, sizeof what, "powers%u", g);
        SW_TRY(make_numbers(o, what, 2, &o->tick[g]));
    }
    if (o->max_skipped != 0)
        SW_TRY(make_numbers(o, "skipped", SWI_SKIPPED_N, &o->counts));
    SW_TRY(own_all(o, opts));
    /* One flag per kept gradient, side by side: parameters come and go with the loss of a
     * run. */
    char name[48];
    o->flags = SWI_NONE;
    if (o->n_kept == 0)
        return SW_OK;
    snprintf(name, sizeof name, "optimizer%u.kept", o->index);
    o->flags = swi_model_entry(o->model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32,
                               SW_SHAPE(o->n_kept), NULL);
    return o->flags != 0 ? SW_OK : o->model->declared;
}

static sw_status check_owns(const sw_model *model, const sw_optimizer_opts *opts)
{
    size_t given = opts->n_groups == 0 ? opts->n_params : 0, all = 0, others = 0;
    for (size_t g = 0; g < opts->n_groups; g++)
        given += opts->groups[g].n_params;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        all += model->entries[i].role == SWI_ROLE_PARAMETER && !model->entries[i].weights;
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
    SW_TRY(swi_given(out != NULL && given != NULL, "out and opts", "sw_optimizer_create"));
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
    SW_TRY(check_release(&opts, model));
    const swi_update_attrs attrs = attrs_of(&opts, kind);
    if (opts.state_bits != 0 && opts.state_bits != 8 && opts.state_bits != 32)
        SW_FAIL(SW_INVALID, "optimizer %s: state_bits must be 0, 8 or 32 (got %llu)", opts.kind,
                (unsigned long long)opts.state_bits);
    if (opts.state_bits == 8 && !swi_optimizer_has_state8(&opts))
        SW_FAIL(SW_UNSUPPORTED,
                "optimizer %s: it has no state in 8 bits; sgd with a momentum, adam, adamw and "
                "lion have one",
                opts.kind);
    sw_optimizer *o;
    SW_TRY(take_slot(model, &o));
    SW_ASSERT(swi_op_traits_of(kind->op)->duty == SWI_DUTY_UPDATE ||
              swi_op_traits_of(kind->op)->duty == SWI_DUTY_UPDATE_WHOLE);
    o->kind = kind;
    o->attrs = attrs;
    o->keep = opts.keep_gradients != 0;
    o->state8 = opts.state_bits == 8;
    o->shards = opts.shards > 1 ? (int)opts.shards : 1;
    o->max_skipped = opts.no_check ? 0 : opts.max_skipped == 0 ? 10 : opts.max_skipped;
    SW_TRY(declare(o, &opts));
    *out = o;
    return SW_OK;
}

/* ---- check ------------------------------------------------------------------------------- */

/* Are an optimizer's options such that it can do what they say? */

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

sw_status swi_check_optimizer(const sw_optimizer_opts *o, const swi_optimizer_kind *kind)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *at = (const char *)o + numbers[i].offset;
        float x = 0.0f;
        int flag = 0;
        if (numbers[i].is_float)
            memcpy(&x, at, sizeof x);
        else
            memcpy(&flag, at, sizeof flag);
        if (!is_at_least_0(x))
            SW_FAIL(SW_INVALID, "optimizer %s: %s must be finite and at least 0 (got %g)",
                    o->kind, numbers[i].name, (double)x);
        if (numbers[i].below_one && x >= 1.0f)
            SW_FAIL(SW_INVALID, "optimizer %s: %s must be below 1", o->kind, numbers[i].name);
        if ((x != 0.0f || flag != 0) && numbers[i].has != ANY_KIND &&
            (numbers[i].has & kind->has) == 0) {
            char owners[160];
            kinds_that_have(numbers[i].has, owners, sizeof owners);
            SW_FAIL(SW_INVALID, "optimizer %s: it has no %s, which is %s", o->kind,
                    numbers[i].name, owners);
        }
    }
    if (o->nesterov && o->momentum == 0.0f && o->knobs == 0)
        SW_FAIL(SW_INVALID, "optimizer %s: nesterov needs a momentum above 0", o->kind);
    if (o->knobs > 1)
        SW_FAIL(SW_INVALID, "optimizer %s: knobs must be 0 or 1 (got %llu)", o->kind,
                (unsigned long long)o->knobs);
    if (o->shards > SWI_SHARDS_MOST)
        SW_FAIL(SW_INVALID, "optimizer %s: shards must be at most %d (got %llu)", o->kind,
                SWI_SHARDS_MOST, (unsigned long long)o->shards);
    if (o->shards > 1 && o->keep_gradients)
        SW_FAIL(SW_INVALID,
                "optimizer %s: shards and keep_gradients exclude each other: the gradients of "
                "shards are summed and not kept",
                o->kind);
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

    if (o->n_groups > SWI_MAX_GROUPS)
        SW_FAIL(SW_INVALID, "optimizer %s: must have at most %d groups (got %zu)", o->kind,
                SWI_MAX_GROUPS, o->n_groups);
    if ((o->n_groups > 0 && o->groups == NULL) || (o->n_params > 0 && o->params == NULL))
        SW_FAIL(SW_INVALID, "optimizer %s: params must not be NULL when n_params is above 0",
                o->kind);
    if (o->n_groups > 0 && o->n_params > 0)
        SW_FAIL(SW_INVALID, "optimizer %s: params and groups exclude each other", o->kind);
    for (size_t g = 0; g < o->n_groups; g++) {
        const sw_param_group *group = &o->groups[g];
        if (!is_at_least_0(group->lr) || !is_at_least_0(group->weight_decay))
            SW_FAIL(SW_INVALID,
                    "optimizer %s: group %zu: lr and weight_decay must be finite and at least "
                    "0 (got %g and %g)",
                    o->kind, g, (double)group->lr, (double)group->weight_decay);
        if (group->n_params > 0 && group->params == NULL)
            SW_FAIL(SW_INVALID, "optimizer %s: group %zu has no parameters", o->kind, g);
        if (group->update < SW_UPDATE_DEFAULT || group->update > SW_UPDATE_RELEASE)
            SW_FAIL(SW_INVALID, "optimizer %s: group %zu: unknown update %d", o->kind, g,
                    group->update);
        if (group->reserved_word != 0 || group->reserved[0] != 0)
            SW_FAIL(SW_INVALID, "optimizer %s: group %zu: reserved words must be zero", o->kind,
                    g);
    }
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

/* swi_release of group g; the options have been checked. */
static uint8_t release_of(const sw_optimizer_opts *o, uint32_t g)
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
        if (model->entries[e].role == SWI_ROLE_PARAMETER && !model->entries[e].weights &&
            model->entries[e].optimizer == SWI_NONE)
            return model->entries[e].name;
    return "";
}

/* Do the options say for each group when it is updated, and is that possible? */
static sw_status check_release(const sw_optimizer_opts *o, const sw_model *model)
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
