/* Kinds of optimizers: what state they keep and which op updates one parameter. A new kind is
 * one file here, a line in kernels/optimizers.def and its step in kernels/optim_step.h. */
#pragma once

#include "runtime/autograd/autograd.h"
#include "runtime/ops/ops.h"

/* Numbers of sw_optimizer_opts that not every kind has. */
enum {
    SWI_HAS_MOMENTUM = 1,
    SWI_HAS_NESTEROV = 2,
    SWI_HAS_BETAS = 4,
    SWI_HAS_EPSILON = 8,
    SWI_HAS_ALPHA = 16,
    SWI_HAS_CENTERED = 32,
    SWI_HAS_ACCUMULATOR = 64,
    SWI_HAS_SCALES = 128 /* beta2_decay, clip_threshold, least_scale, fixed_rate */
};

#define SW_OPTIMIZER(kind, states, operations) extern const swi_optimizer_kind swi_##kind;
#define SW_OPTIMIZER_LIKE(kind) extern const swi_optimizer_kind swi_##kind;
#define SW_OPTIMIZER_WHOLE(kind) extern const swi_optimizer_kind swi_##kind;
#include "kernels/optimizers.def"

const swi_optimizer_kind *swi_find_optimizer(const char *name); /* NULL: there is none */
sw_status swi_check_optimizer(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind);

/* ---- knobs ------------------------------------------------------------------------------- */

/* How many numbers an operand then has, the rate among them. */
uint32_t swi_knobs_read(int32_t reads);
/* Is there a momentum, or can there be one in a later run? */
static inline bool swi_keeps_momentum(const sw_optimizer_opts *opts)
{
    return opts->momentum != 0.0f || opts->knobs != 0;
}

/* How many count the steps: one for all groups, or one for each where betas are knobs; 0: no
 * update has a correction. */
static inline uint32_t swi_ticks(const sw_optimizer *o)
{
    return o->kind->tick == 0 ? 0 : (o->attrs.reads & SWI_READS_BETAS) != 0 ? o->n_groups : 1;
}

/* The finite checks that the parts of one sw_update read; SWI_NONE where no one looks. */
typedef struct {
    uint32_t losses; /* what the gradients come from */
    uint32_t all;    /* that and every gradient */
} swi_finite_checks;
