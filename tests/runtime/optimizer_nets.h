/* Parameters of odd shapes, a loss whose gradients depend on them, and options of all kinds of
 * optimizers. */
#ifndef SW_TESTS_RUNTIME_OPTIMIZER_NETS_H
#define SW_TESTS_RUNTIME_OPTIMIZER_NETS_H

#include "tests/runtime/nets.h"

#define ON_PARAMS 6
/* Kinds of optimizers, and variants of them by hand. */
enum {
#define SW_OPTIMIZER(kind, states, operations) ON_##kind,
#define SW_OPTIMIZER_LIKE(kind) ON_##kind,
#define SW_OPTIMIZER_WHOLE(kind) ON_##kind,
#include "kernels/optimizers.def"
    ON_PLAIN,
    ON_KINDS = ON_PLAIN + 15
};

extern const sw_shape on_shapes[ON_PARAMS]; /* of one element, and of more than one part */
extern const sw_optimizer_opts on_opts[ON_KINDS]; /* each kind, then with its numbers */

/* loss = sum over i of sum(w_i w_i x) / 2 + sum(w_i) factor_i, x a scalar: input 0; inputs
 * 1 + i are the factors, one for each parameter. */
typedef struct {
    sw_model *model;
    sw_param w[ON_PARAMS];
    sw_optimizer *opt;
    sw_knob max;
    int clip, accumulate, no_update;
    float x, factor[ON_PARAMS];
    sw_array in[1 + ON_PARAMS];
} on_net;

/* The model without an optimizer, then with one; destroyed when the test ends, or all that
 * there are by on_end. */
void on_begin(on_net *n);
void on_start(on_net *n, const sw_optimizer_opts *opts);
void on_end(void);
/* All bytes of the model now; valid until the next call. */
const unsigned char *on_bytes(const on_net *n);
void on_step(sw_ctx *ctx, void *user);
sw_run_args on_args(on_net *n);
/* Steps of numbers that depend on the step alone. */
sw_status on_run(sw_exec *exec, on_net *n, int step, bool immediate);
bool on_same_params(const on_net *a, const on_net *b, const char *what);

#endif
