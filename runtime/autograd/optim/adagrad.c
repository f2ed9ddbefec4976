/* Adagrad: Duchi et al. 2011, as PyTorch has it; a rate that falls is sw_schedule's. */
#include "kernels/optim.h"
#include "runtime/autograd/optim/optimizer_internal.h"

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    (void)opts;
    attrs->rule = SW_OPTIM_adagrad;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)shape;
    out[0].suffix = "sum";
    out[0].begin = opts->initial_accumulator;
    return 1;
}

const swi_optimizer_kind swi_adagrad = {.name = "adagrad",
                                        .op = SW_OP_adagrad_update,
                                        .has = SWI_HAS_EPSILON | SWI_HAS_ACCUMULATOR,
                                        .lr = 0.01f,
                                        .epsilon = 1e-10f,
                                        .set_attrs = set_attrs,
                                        .states = states};
