/* Dummy: steps of one size along the sign of the gradient, with the sum of the gradients as a
 * state that nothing reads. */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_dummy_sign;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts, (void)shape;
    out[0].suffix = "sum";
    return 1;
}

const swi_optimizer_kind swi_dummy_sign = {.name = "dummy_sign",
                                           .op = SW_OP_dummy_sign_update,
                                           .lr = 0.002f,
                                           .set_attrs = set_attrs,
                                           .states = states};
