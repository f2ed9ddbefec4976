/* Adafactor: Shazeer and Stern 2018, without a first moment. The second moment of a matrix is
 * kept as that of its rows and of its columns. */
#include "runtime/autograd/optim/optimizer_internal.h"

static float or_default(float given, float otherwise, const sw_optimizer_opts *opts)
{
    return given != 0.0f || opts->as_given ? given : otherwise;
}

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    attrs->beta1 = or_default(opts->beta2_decay, 0.8f, opts); /* as its tick has it */
    attrs->least = or_default(opts->least_scale, 1e-3f, opts);
    attrs->threshold = opts->clip_threshold != 0.0f ? opts->clip_threshold : 1.0f;
    attrs->fixed = opts->fixed_rate != 0;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts;
    out[0].suffix = "v";
    if (shape->rank < 2)
        return 1;
    out[0].suffix = "rows";
    out[1].suffix = "cols";
    for (int k = 0; k < 2; k++)
        out[k].shape.rank = shape->rank - 1;
    out[1].shape.dim[shape->rank - 2] = shape->dim[shape->rank - 1];
    return 2;
}

const swi_optimizer_kind swi_adafactor =
    SW_INIT(.name = "adafactor", .op = SW_OP_adafactor_update, .tick = SW_OP_steps_tick,
            .has = SWI_HAS_EPSILON | SWI_HAS_SCALES, .lr = 0.01f, .epsilon = 0x1p-23f,
            .set_attrs = set_attrs, .states = states);

/* ---- adagrad ----------------------------------------------------------------------------- */

/* Adagrad: Duchi et al. 2011, as PyTorch has it; a rate that falls is sw_schedule's. */

static void set_attrs_adagrad(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_adagrad;
}

static int states_adagrad(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)shape;
    out[0].suffix = "sum";
    out[0].begin = opts->initial_accumulator;
    return 1;
}

const swi_optimizer_kind swi_adagrad =
    SW_INIT(.name = "adagrad", .op = SW_OP_adagrad_update,
            .has = SWI_HAS_EPSILON | SWI_HAS_ACCUMULATOR, .lr = 0.01f, .epsilon = 1e-10f,
            .set_attrs = set_attrs_adagrad, .states = states_adagrad);

/* ---- adam -------------------------------------------------------------------------------- */

/* Adam and AdamW: first and second moments, and one step counter per optimizer. */

static void adam(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_adam;
}

static void adamw(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    adam(opts, attrs);
    attrs->decoupled = 1;
}

static int states_adam(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts, (void)shape;
    out[0].suffix = "m";
    out[1].suffix = "v";
    return 2;
}

#define ADAM(kind)                                                                             \
    const swi_optimizer_kind swi_##kind = {.name = #kind,                                      \
                                           .op = SW_OP_adam_update,                            \
                                           .tick = SW_OP_adam_tick,                            \
                                           .has = SWI_HAS_BETAS | SWI_HAS_EPSILON,             \
                                           .lr = 0.001f,                                       \
                                           .beta1 = 0.9f,                                      \
                                           .beta2 = 0.999f,                                    \
                                           .epsilon = 1e-8f,                                   \
                                           .set_attrs = kind,                                  \
                                           .states = states_adam}
ADAM(adam);
ADAM(adamw);

/* ---- lion -------------------------------------------------------------------------------- */

/* Lion: Chen et al. 2023. One state, and steps of one size. */

static void set_attrs_lion(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_lion;
    attrs->decoupled = 1;
}

static int states_lion(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts, (void)shape;
    out[0].suffix = "m";
    return 1;
}

const swi_optimizer_kind swi_lion =
    SW_INIT(.name = "lion", .op = SW_OP_lion_update, .has = SWI_HAS_BETAS, .lr = 1e-4f,
            .beta1 = 0.9f, .beta2 = 0.99f, .set_attrs = set_attrs_lion, .states = states_lion);

/* ---- rmsprop ----------------------------------------------------------------------------- */

/* RMSprop, as PyTorch has it: the mean of squares, less the square of the mean where it is
 * centered; with a momentum, of the steps. */

static void set_attrs_rmsprop(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    const bool has_momentum = swi_keeps_momentum(opts);
    if (opts->centered)
        attrs->rule =
            has_momentum ? SW_OPTIM_rmsprop_centered_momentum : SW_OPTIM_rmsprop_centered;
    else
        attrs->rule = has_momentum ? SW_OPTIM_rmsprop_momentum : SW_OPTIM_rmsprop;
    attrs->beta2 = opts->alpha != 0.0f || opts->as_given ? opts->alpha : 0.99f;
}

static int states_rmsprop(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    int n = 0;
    (void)shape;
    out[n++].suffix = "v";
    if (swi_keeps_momentum(opts))
        out[n++].suffix = "momentum";
    if (opts->centered)
        out[n++].suffix = "mean";
    return n;
}

const swi_optimizer_kind swi_rmsprop =
    SW_INIT(.name = "rmsprop", .op = SW_OP_rmsprop_update,
            .has = SWI_HAS_MOMENTUM | SWI_HAS_EPSILON | SWI_HAS_ALPHA | SWI_HAS_CENTERED,
            .lr = 0.01f, .epsilon = 1e-8f, .set_attrs = set_attrs_rmsprop,
            .states = states_rmsprop);

/* ---- sgd --------------------------------------------------------------------------------- */

/* SGD, plain and with momentum (Nesterov's too). */

static void set_attrs_sgd(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    attrs->rule = !swi_keeps_momentum(opts) ? SW_OPTIM_sgd
                  : opts->nesterov          ? SW_OPTIM_nesterov
                                            : SW_OPTIM_momentum;
}

static int states_sgd(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)shape;
    out[0].suffix = "momentum";
    return swi_keeps_momentum(opts);
}

const swi_optimizer_kind swi_sgd =
    SW_INIT(.name = "sgd", .op = SW_OP_sgd_update, .has = SWI_HAS_MOMENTUM | SWI_HAS_NESTEROV,
            .lr = 0.01f, .set_attrs = set_attrs_sgd, .states = states_sgd);
