/* Small nets, data and comparisons that the tests of the runtime share. */
#ifndef SW_TESTS_RUNTIME_NETS_H
#define SW_TESTS_RUNTIME_NETS_H

#include "runtime/exec/exec.h"
#include "tests/support/made.h"

#define NET_BATCH 38 /* the most; not a multiple of any vector */
#define NET_CLASSES 10
#define NET_PIXELS 196

typedef struct {
    sw_model *model;
    bool image; /* conv, pool, conv, pool, linear; else linear, tanh, linear */
    sw_conv2d c1, c2;
    sw_linear f1, f2;
    sw_optimizer *opt;
    sw_knob factor; /* of the loss, 1 */
    sw_knob max_norm;
    bool clip;
    int times_called; /* the step function */
} net;

/* An exec with these options and a net, both destroyed when the test ends. opts may be NULL. */
sw_exec *net_exec(const sw_exec_opts *opts);
net *net_new(bool image, const sw_optimizer_opts *opts);
/* Another model in the place of its own, which ends. */
void net_again(net *n);
/* Forward, metrics "loss" and "accuracy", output "logits"; in training backward and update. */
void net_step(sw_ctx *ctx, void *user);

/* Rows of the one batch of NET_BATCH samples: inputs (pixels F32, labels U8) for `image` or
 * not. */
typedef struct {
    sw_array in[2];
} batch;
batch net_batch(bool image, int from, int n);

sw_run_args net_args(net *n, const batch *b);
/* `steps` runs; the last loss. */
double net_train(sw_exec *exec, net *n, const batch *b, int steps);
double net_metric(sw_exec *exec, const char *name);
/* All bytes of the model: parameters, optimizer state, buffers, states, knobs. */
bool net_same(const sw_model *a, const sw_model *b);
void *net_copy_bytes(const sw_model *model); /* freed when the test ends */
bool net_same_bytes(const sw_model *model, const void *bytes);

#endif
