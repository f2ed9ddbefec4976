/* Random step functions for tests: a description made from a seed, the models that it needs,
 * and a step function that interprets it, so that it is pure.
 *
 * Whatever is made is used: a value that nothing reads ends in a loss, a metric or an output,
 * so that what is live for nothing is the library's fault. Numbers stay moderate: what has
 * grown is scaled down. */
#ifndef SW_TESTS_RUNTIME_RANDOM_NET_H
#define SW_TESTS_RUNTIME_RANDOM_NET_H

#include "tests/runtime/nets.h"

#define RANDOM_OPS 160
#define RANDOM_PARAMS 24 /* bits of a mask */
#define RANDOM_OPTIMIZERS 3
#define RANDOM_CLASSES 3 /* labels are below */
#define RANDOM_NORMS 6   /* batch norms, each with running statistics of its own */

#define RANDOM_KINDS(X)                                                                        \
    X(INPUT, "input")                                                                          \
    X(BYTES, "to_f32")                                                                         \
    X(PARAM, "param")                                                                          \
    X(STATE, "state")                                                                          \
    X(RANDN, "randn")                                                                          \
    X(RAND, "rand")                                                                            \
    X(RELU, "relu")                                                                            \
    X(LEAKY, "leaky_relu")                                                                     \
    X(TANH, "tanh")                                                                            \
    X(SIGMOID, "sigmoid")                                                                      \
    X(SWISH, "swish")                                                                          \
    X(GELU, "gelu")                                                                            \
    X(GELU_TANH, "gelu_tanh")                                                                  \
    X(MISH, "mish")                                                                            \
    X(SOFTPLUS, "softplus")                                                                    \
    X(HARD_SWISH, "hard_swish")                                                                \
    X(ELU, "elu")                                                                              \
    X(SELU, "selu")                                                                            \
    X(EXP, "exp")                                                                              \
    X(ABS, "abs")                                                                              \
    X(CLAMP, "clamp")                                                                          \
    X(DROPOUT, "dropout")                                                                      \
    X(ADD, "add")                                                                              \
    X(MUL, "mul")                                                                              \
    X(SUB, "sub")                                                                              \
    X(SCALE, "scale")                                                                          \
    X(SCALE_BY, "scale_by")                                                                    \
    X(RESHAPE, "reshape")                                                                      \
    X(SLICE, "slice")                                                                          \
    X(CONCAT, "concat")                                                                        \
    X(TRANSPOSE, "transpose")                                                                  \
    X(DETACH, "detach")                                                                        \
    X(LINEAR, "linear")                                                                        \
    X(MATMUL, "matmul")                                                                        \
    X(LAYER_NORM, "layer_norm")                                                                \
    X(RMS_NORM, "rms_norm")                                                                    \
    X(GROUP_NORM, "group_norm")                                                                \
    X(BATCH_NORM, "batch_norm")                                                                \
    X(CONV, "conv2d")                                                                          \
    X(MAX_POOL, "max_pool2d")                                                                  \
    X(AVG_POOL, "avg_pool2d")                                                                  \
    X(GLOBAL_MAX, "global_max_pool")                                                           \
    X(GLOBAL_AVG, "global_avg_pool")                                                           \
    X(SUM, "sum")                                                                              \
    X(MEAN, "mean")                                                                            \
    X(MAX, "max")                                                                              \
    X(SOFTMAX, "softmax")                                                                      \
    X(SOFTMAX_CE, "softmax_ce")                                                                \
    X(MSE, "mse")                                                                              \
    X(BCE, "bce")                                                                              \
    X(BCE_WITH, "bce_with")                                                                    \
    X(HUBER, "huber")                                                                          \
    X(L1, "l1")                                                                                \
    X(ACCURACY, "accuracy")                                                                    \
    X(METRIC, "metric")                                                                        \
    X(OUTPUT, "output")                                                                        \
    X(BACKWARD, "backward")                                                                    \
    X(ACCUMULATE, "accumulate")                                                                \
    X(UPDATE, "update")                                                                        \
    X(ASSIGN, "assign")
#define RANDOM_ENUM(id, name) RANDOM_##id,
#define RANDOM_LABELS 2 /* the input that has them */

typedef enum { RANDOM_KINDS(RANDOM_ENUM) RANDOM_KIND_COUNT } random_kind;

/* One op; its result is the value of its number. */
typedef struct {
    random_kind kind;
    int n_in, in[4]; /* earlier ops */
    sw_shape shape;  /* of the result; rank 0 without one */
    int64_t n[3];    /* axis, first, count; kernel, stride, padding; axes; groups */
    float number;    /* slope, factor, target */
    int what;        /* parameter (bias follows), state, batch norm, knob; mask of optimizers */
    int scope;       /* 0: none */
    int phase;       /* -1: not set */
    int uses;
    uint32_t deps;    /* parameters; it passes their gradients on */
    uint32_t touches; /* parameters that it depends on at all */
    bool of_model;    /* a view of the model's bytes */
    float size;       /* about how large its numbers are */
} random_op;

typedef struct {
    sw_shape shape;
    int model, optimizer; /* -1: frozen */
} random_param;

typedef struct {
    int model;
    const char *kind;
    float momentum, weight_decay;
    bool nesterov, keep, release, clip;
    bool hook; /* its gradients are halved by a gradient hook */
    uint32_t params;
} random_optimizer;

typedef struct {
    uint64_t seed;
    random_op op[RANDOM_OPS];
    int n_ops;
    random_param param[RANDOM_PARAMS];
    int n_params;
    random_param state[4];
    int n_states;
    random_param running[RANDOM_NORMS]; /* a mean and a variance each */
    int n_norms;
    random_optimizer optimizer[RANDOM_OPTIMIZERS];
    int n_optimizers, n_models;
    int64_t batch;
    sw_shape input[3]; /* F32 rows, F32 or U8 images, labels */
    bool bytes;        /* input 1 is U8 */
    int train_from;    /* the first op that is not of the forward part */
    bool twice;        /* updates in every second run alone */
} random_net;

void random_net_make(random_net *to, uint64_t seed);
/* Leaky instead of dead, averages instead of maxima: every number matters to the result. */
void random_net_soften(random_net *net);
/* Where a value may stand beside a detached copy of itself, nothing has a kink where both are
 * equal: differences see one side only. */
void random_net_untie(random_net *net);
/* One line per op, by sw_note. */
void random_net_print(const random_net *of);

/* The models of a net, ready to run. */
typedef struct {
    const random_net *net;
    sw_model *models[2];
    sw_optimizer *optimizer[RANDOM_OPTIMIZERS];
    sw_param param[RANDOM_PARAMS], state[4], running[RANDOM_NORMS][2];
    sw_knob knob[2], max_norm[2];
    bool gradients; /* all optimizers keep, nothing is updated: sw_param_gradient */
    bool twin;    /* each use of a value is a copy of it, sums and products are turned round */
    bool updates; /* this run */
    sw_array in[3];
} random_life;

sw_status random_life_begin(random_life *life, const random_net *of, bool gradients, bool twin);
void random_life_end(random_life *life);
/* Run number k: 0, 1, ... */
sw_run_args random_life_args(random_life *life, uint64_t k);

/* One test over many seeds of random networks. STEPWELL_SEED=n runs that seed alone. A seed
 * that fails prints its description, and its first failure only. */
extern random_net seed_net; /* of the seed under test */
extern bool seed_failed;

void seed_each(int quick, int full, void (*one)(void));
void seed_check(bool passed, const char *what, const char *detail);
bool seed_well(sw_status status, const char *what);
void seed_sizes(const char *what, size_t measured, size_t wanted);

#endif
