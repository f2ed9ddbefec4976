/* Networks with plans that are larger than they must be, for tests of recomputation: each has
 * something that a repeat could get wrong. */
#ifndef SW_TESTS_RUNTIME_RECOMPUTE_NETS_H
#define SW_TESTS_RUNTIME_RECOMPUTE_NETS_H

#include "tests/runtime/nets.h"

#define RC_NETS(X)                                                                             \
    X(MLP, "deep mlp")            /* linear, relu; its updates are released */                 \
    X(SWISH, "swish mlp")         /* backward reads what went in */                            \
    X(CONV, "convolutions")       /* conv, relu, now and then a pool */                        \
    X(RESIDUAL, "residual")       /* branches that meet again */                               \
    X(SATURATED, "tanh")          /* backward reads what came out */                           \
    X(NOISY, "noisy")             /* random streams in the forward part */                     \
    X(STATEFUL, "stateful")       /* states read, and written at the end */                    \
    X(SHARED, "shared weights")   /* one layer many times */                                   \
    X(OPTIMIZERS, "optimizers")   /* two of them */                                            \
    X(ADVERSARIES, "adversaries") /* two backwards: weights change between them */
#define RC_ENUM(id, name) RC_##id,
typedef enum { RC_NETS(RC_ENUM) RC_KINDS } rc_kind;

#define RC_LAYERS 14
#define RC_SOME (sw_tests_full() ? RC_LAYERS : 8) /* planned in a tenth of the time */
#define RC_BATCH 32

typedef struct {
    rc_kind kind;
    int layers; /* RC_LAYERS; fewer are a smaller program */
    int other;  /* 1: the step function is another one */
    sw_model *models[2];
    int n_models;
    sw_optimizer *opt[2];
    sw_linear linear[2 * RC_LAYERS];
    sw_conv2d conv[RC_LAYERS];
    sw_param state;
    batch data;
    size_t data_bytes; /* of the inputs, each rounded as slots are */
    int times_called;
} rc_net;

const char *rc_name(rc_kind kind);
/* Ends with the test, or by rc_end, also after a failure. */
sw_status rc_begin(rc_net *net, rc_kind kind, int layers);
void rc_end(rc_net *net);
/* Run number k. Its data_bytes are said, so that total_bytes are what must fit. */
sw_run_args rc_args(rc_net *net, uint64_t k);

#endif
