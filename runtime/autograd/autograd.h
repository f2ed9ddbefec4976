/* Between sw_backward, the optimizers and runs. */
#pragma once

#include "runtime/graph/trace.h"

/* A bound of the elements of the product of two values, a sum of so many terms, if they have at
 * most `worth` elements. */
sw_status swi_append_bound(sw_ctx *ctx, const uint32_t *factors, int64_t terms, int64_t worth);

/* A finite check (ops.h) on `value`, which `code` is said of; before and flag may be SWI_NONE.
 * A bound on what made the value, right before that, serves it. */
sw_status swi_append_finite(sw_ctx *ctx, uint32_t value, double code, uint32_t before,
                            uint32_t flag, uint8_t release, uint32_t *out);

/* The first of n finite checks that is not 0; one is itself. */
sw_status swi_append_any(sw_ctx *ctx, const uint32_t *finite_checks, uint32_t n,
                         uint8_t release, uint32_t *out);

/* The gradient that was noted of an entry; NULL: none. model: segment. Valid until the next is
 * noted. */
swi_param_grad *swi_gradient_noted(sw_ctx *ctx, uint32_t model, uint32_t entry);
/* Note a whole gradient of a parameter for accumulate, clip and update; it is added to one that
 * is there. model: segment; finite_check: on what it comes from, or SWI_NONE; name: of its
 * storage, in the trace's strings. */
sw_status swi_note_gradient(sw_ctx *ctx, uint32_t model, uint32_t entry, uint32_t gradient,
                            uint32_t finite_check, uint32_t name);

/* sw_update where gradients come one by one and nothing else needs them: updates are released
 * unless the optimizer says after, or keeps its gradients. */
void swi_update_released(sw_ctx *ctx, sw_optimizer *optimizer);

/* Later ops are listed under the layer of this name: that of an entry, "block1.up.weight" is of
 * "block1/up". `before`: SWI_MAX_SCOPE bytes, to which swi_leave_layer goes back. */
void swi_enter_layer(sw_ctx *ctx, const sw_model *model, const char *name, char *before);
void swi_leave_layer(sw_ctx *ctx, const char *before);

/* Append an op of an optimizer: in = given, the outputs overwrite `into`. */
sw_status swi_append_update(sw_ctx *ctx, uint8_t release, uint32_t op, const uint32_t *in,
                            int n_in, const void *attrs, const uint32_t *into, int n_into);

/* Can an optimizer by these options keep its states in 8 bits? */
bool swi_optimizer_has_state8(const sw_optimizer_opts *opts);

/* Does this optimizer look at losses and gradients? */
bool swi_looks(const sw_optimizer *o);

/* Count skipped updates from the begin of a run to its end: SW_INVALID where they are too many
 * in a row. A model on a device is passed over: its runs end later. */
void swi_skipped_begin(const sw_run_args *args);
sw_status swi_skipped_end(const sw_run_args *args);

/* The same of one optimizer by the counts that a run left (SWI_SKIPPED_N of them), where that
 * of all was `before` before the run. args: of that run, where its bytes are still those that
 * it read; NULL: they are not, or lie on a device. */
sw_status swi_skipped_judge(const sw_optimizer *o, const double *counts, double before,
                            const sw_run_args *args);
