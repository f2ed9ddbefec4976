/* Adam and AdamW: first and second moments, and one step counter per optimizer. */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

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

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
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
                                           .states = states}
ADAM(adam);
ADAM(adamw);
