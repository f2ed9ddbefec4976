/* Kinds of optimizers: what state they keep and which op updates one parameter. A new kind is
 * one file here and one line in the table of optim.c. */
#ifndef SW_OPTIM_H
#define SW_OPTIM_H

#include "runtime/runtime_internal.h"

struct swi_optimizer_kind {
    const char *name;
    float lr;             /* default */
    bool ticks;           /* keeps powers of its betas (f64[2]) */
    const char *state[2]; /* suffixes of the state tensors; NULL: none */
    /* Append the update of one parameter. All are value ids; scale and tick may be SWI_NONE. */
    sw_status (*update)(sw_ctx *ctx, const sw_optimizer *o, uint32_t param, uint32_t grad,
                        const uint32_t *state, uint32_t lr, uint32_t tick, uint32_t scale,
                        float weight_decay);
};

extern const swi_optimizer_kind swi_sgd, swi_sgd_momentum, swi_adam, swi_adamw;

/* Append an update op: in = given, the outputs overwrite `into`. */
sw_status swi_append_update(sw_ctx *ctx, const sw_optimizer *o, uint32_t op, const uint32_t *in,
                            int n_in, const void *attrs, const uint32_t *into, int n_into);

#endif
