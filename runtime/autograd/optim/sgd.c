/* SGD, plain and with momentum (Nesterov's too). */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    attrs->rule = !swi_keeps_momentum(opts) ? SW_OPTIM_sgd
                  : opts->nesterov          ? SW_OPTIM_nesterov
                                            : SW_OPTIM_momentum;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)shape;
    out[0].suffix = "momentum";
    return swi_keeps_momentum(opts);
}

const swi_optimizer_kind swi_sgd = {.name = "sgd",
                                    .op = SW_OP_sgd_update,
                                    .has = SWI_HAS_MOMENTUM | SWI_HAS_NESTEROV,
                                    .lr = 0.01f,
                                    .set_attrs = set_attrs,
                                    .states = states};
