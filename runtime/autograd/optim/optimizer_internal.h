/* Kinds of optimizers: what state they keep and which op updates one parameter. A new kind is
 * one file here, a line in kernels/optimizers.def and its step in kernels/optim_step.h. */
#ifndef SW_OPTIMIZER_INTERNAL_H
#define SW_OPTIMIZER_INTERNAL_H

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

sw_status swi_check_optimizer(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind);
/* "'s, " after each kind that has one of these numbers, for messages. */
void swi_kinds_that_have(uint32_t has, char *to, size_t bytes);

/* Do the options say for each group when it is updated, and is that possible? */
sw_status swi_check_release(const sw_optimizer_opts *opts, const sw_model *model);
/* swi_release of group g; the options have been checked. */
uint8_t swi_release_of(const sw_optimizer_opts *opts, uint32_t g);

/* ---- knobs ------------------------------------------------------------------------------- */

/* Which numbers of updates are knobs by these options: bits of SWI_READS. */
int32_t swi_reads_of(const sw_optimizer_opts *opts, const swi_optimizer_kind *kind);
/* How many numbers an operand then has, the rate among them. */
uint32_t swi_knobs_read(int32_t reads);
/* Is there a momentum, or can there be one in a later run? */
static inline bool swi_keeps_momentum(const sw_optimizer_opts *opts)
{
    return opts->momentum != 0.0f || opts->knobs != 0;
}
/* Rates, decays, times of updates and knobs of all groups. */
sw_status swi_make_groups(sw_optimizer *o, const sw_optimizer_opts *opts);

/* How many count the steps: one for all groups, or one for each where betas are knobs; 0: no
 * update has a correction. */
static inline uint32_t swi_ticks(const sw_optimizer *o)
{
    return o->kind->tick == 0 ? 0 : (o->attrs.reads & SWI_READS_BETAS) != 0 ? o->n_groups : 1;
}

/* ---- in a step function ------------------------------------------------------------------ */

/* The finite checks that the parts of one sw_update read; SWI_NONE where no one looks. */
typedef struct {
    uint32_t losses; /* what the gradients come from */
    uint32_t all;    /* that and every gradient */
} swi_finite_checks;

swi_param_grad *swi_pending(sw_ctx *ctx, const sw_optimizer *o, uint32_t entry);
/* The gradient that an update of entry e uses; SWI_NONE: none came. */
uint32_t swi_gradient_for(sw_ctx *ctx, const sw_optimizer *o, uint32_t e);
/* Give pending gradients to the hook of the optimizer's model, each once. */
sw_status swi_hook_gradients(sw_ctx *ctx, const sw_optimizer *o);
/* The flag of entry e's kept gradient; SWI_NONE: nothing is kept. */
uint32_t swi_flag_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t e);
/* When what serves all updates of an optimizer runs: as early as one of them asks for. */
uint8_t swi_first_release(const sw_optimizer *o);
/* Note the losses of pending gradients for the next update, which is another run's. */
sw_status swi_note_losses(sw_ctx *ctx, const sw_optimizer *o);
/* Append finite checks on all gradients of the next update, own[e] that of entry e alone. */
sw_status swi_append_finite_checks(sw_ctx *ctx, const sw_optimizer *o, uint32_t *own,
                                   swi_finite_checks *out);
/* Count the update that has been appended. */
sw_status swi_count_update(sw_ctx *ctx, const sw_optimizer *o, const swi_finite_checks *v);

#endif
