/* RMSprop, as PyTorch has it: the mean of squares, less the square of the mean where it is
 * centered; with a momentum, of the steps. */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    const bool has_momentum = swi_keeps_momentum(opts);
    if (opts->centered)
        attrs->rule =
            has_momentum ? SW_OPTIM_rmsprop_centered_momentum : SW_OPTIM_rmsprop_centered;
    else
        attrs->rule = has_momentum ? SW_OPTIM_rmsprop_momentum : SW_OPTIM_rmsprop;
    attrs->beta2 = opts->alpha != 0.0f || opts->as_given ? opts->alpha : 0.99f;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
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

const swi_optimizer_kind swi_rmsprop = {.name = "rmsprop",
                                        .op = SW_OP_rmsprop_update,
                                        .has = SWI_HAS_MOMENTUM | SWI_HAS_EPSILON |
                                               SWI_HAS_ALPHA | SWI_HAS_CENTERED,
                                        .lr = 0.01f,
                                        .epsilon = 1e-8f,
                                        .set_attrs = set_attrs,
                                        .states = states};
