/* Kinds of optimizers: what state they keep and which op updates one parameter. A new kind is
 * one file here and one line in the table of optim.c. */
#ifndef SW_OPTIM_H
#define SW_OPTIM_H

#include "runtime/runtime_internal.h"

/* What the update of one parameter works on: value ids. */
typedef struct {
    uint32_t param, grad, lr;
    uint32_t state[2]; /* SWI_NONE past what the kind keeps */
    uint32_t tick;     /* bias corrections; SWI_NONE: the kind has none */
    uint32_t scale;    /* of the gradient; SWI_NONE: not clipped */
    uint32_t flag; /* 0 at run time: nothing is kept, nothing is done; SWI_NONE: always do */
    float weight_decay;
} swi_update;

struct swi_optimizer_kind {
    const char *name;
    float lr;             /* default */
    bool ticks;           /* keeps powers of its betas (f64[2]) */
    const char *state[2]; /* suffixes of the state tensors; NULL: none */
    sw_status (*update)(sw_ctx *ctx, const sw_optimizer *o, const swi_update *u);
};

extern const swi_optimizer_kind swi_sgd, swi_sgd_momentum, swi_adam, swi_adamw;

/* Append an update op: in = given, the outputs overwrite `into`. */
sw_status swi_append_update(sw_ctx *ctx, const sw_optimizer *o, uint32_t op, const uint32_t *in,
                            int n_in, const void *attrs, const uint32_t *into, int n_into);

#endif
