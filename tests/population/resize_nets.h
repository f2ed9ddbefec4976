/* Nets of every kind that resizing knows, by their widths. */
#ifndef SW_TESTS_RESIZE_NETS_H
#define SW_TESTS_RESIZE_NETS_H

#include "tests/runtime/nets.h"

enum { RN_IN = 49, RN_OUT = 10, RN_ROWS = 12, RN_LAYERS = 6 };

typedef enum {
    RN_CHAIN,     /* linear layers with relu, tanh and dropout */
    RN_CONV,      /* conv, batch norm, pool, conv, depthwise conv, flatten, linear, linear */
    RN_RESIDUAL,  /* stem, two blocks that are added, head */
    RN_GATED,     /* one linear for both halves of a swiglu */
    RN_JOINED,    /* two branches, joined along the channels, with a permutation on the way */
    RN_ATTENTION, /* heads of 4, one tensor for q, k and v; products of tensors by matmul */
    RN_SQUEEZED, /* conv, pools, channels scaled by a small net of their means, sums over places
                  */
    RN_TOKENS,   /* embedding that is the last weight too, a state, a loss of its own */
    RN_SKIPPED,  /* the last layer reads the input and an output too */
    RN_DECODED, /* conv, transposed convs, a resampled image, sums along its rows, a constant of
                   the channels */
    RN_RECURRENT, /* an LSTM over the rows of an image, a GRU over its states, a head */
    RN_NORMED,    /* layer norm over the width */
    RN_KINDS
} resize_kind;

typedef struct {
    resize_kind kind;
    int n; /* hidden layers of a chain */
    int64_t w[RN_LAYERS];
    const char *optimizer;
    uint64_t state_bits;
} resize_spec;

typedef struct {
    resize_spec spec;
    sw_model *model;
    sw_linear f[RN_LAYERS + 1];
    sw_conv2d c[3];
    sw_conv_transpose2d up[2];
    sw_lstm lstm;
    sw_gru gru;
    sw_batch_norm2d bn;
    sw_layer_norm norm;
    sw_embedding table;
    sw_param product, seen, gain;
    sw_knob factor;
    sw_optimizer *opt;
    bool show_hidden; /* the hidden values of a chain leave the run */
} resize_net;

resize_net *resize_net_new(const resize_spec *spec);
void resize_net_end(void *ends);
/* Ended when the test ends. */
resize_net *resize_net_for_test(const resize_spec *spec);
void resize_step(sw_ctx *ctx, void *user);

/* The one batch; args for it, of this model. */
const sw_array *resize_batch(void);
#define RESIZE_ARGS(n_, mode_)                                                                 \
    SW_OPTS(sw_run_args, .fn = resize_step, .user = n_, .models = &(n_)->model, .n_models = 1, \
            .inputs = resize_batch(), .n_inputs = 2, .mode = mode_)
void resize_train(sw_exec *exec, resize_net *n, int steps);
/* Logits of an evaluation: RN_ROWS * RN_OUT. */
void resize_logits(sw_exec *exec, resize_net *n, float *out);

#endif
