/* Lion: Chen et al. 2023. One state, and steps of one size. */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_lion;
    attrs->decoupled = 1;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts, (void)shape;
    out[0].suffix = "m";
    return 1;
}

const swi_optimizer_kind swi_lion = {.name = "lion",
                                     .op = SW_OP_lion_update,
                                     .has = SWI_HAS_BETAS,
                                     .lr = 1e-4f,
                                     .beta1 = 0.9f,
                                     .beta2 = 0.99f,
                                     .set_attrs = set_attrs,
                                     .states = states};
