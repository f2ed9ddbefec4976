/* A made training with known tensors: what PyTorch would have recorded of it, with frames as
 * C++ and Python have them or as Python alone has them, and the role of each. */
#ifndef SW_TESTS_MADE_TRAINING_H
#define SW_TESTS_MADE_TRAINING_H

#include "tests/snapshot/plain_allocator.h"

#define MADE_EVENTS 40000

typedef struct {
    int steps, layers;
    bool native;      /* C++ is in the frames */
    bool windows;     /* paths are those of Windows */
    bool no_update;   /* no optimizer: forward and backward alone */
    bool no_backward; /* inference */
    bool late_zero;   /* zero_grad comes after forward */
    bool keeps_zero;  /* zero_grad(set_to_none=False) */
    int softmax;      /* parts that are kept of a softmax in each layer; 1: fused */
    int silu;         /* the same of x * sigmoid(x) */
    int norm;         /* the same of a normalisation */
    int scores;       /* scores that attention keeps beside its output; -1: none (fused) */
    bool nameless;    /* of the function that attends: it is a module's forward */
    int logits;       /* copies of the logits that the loss makes */
    bool foreach;     /* temporaries of the optimizer for all parameters at once */
    int lines;        /* the user's code stands so many lower */
    bool ragged;      /* sizes that leave holes in segments */
    bool late_input;  /* the batch goes after the loss, before backward */
    int like;         /* made_like: a function that looks composed by hand */
} made_run;

/* All but the last two are harmless. */
enum {
    LIKE_NONE,
    LIKE_FUSED_ATTENTION, /* attention: q, a fused kernel that keeps three */
    LIKE_GELU_MLP,        /* gelu_mlp: linear, gelu, linear */
    LIKE_NORM_AND_PROJECT,
    LIKE_MLP_NORM,       /* linear, then a norm that one kernel makes */
    LIKE_GATE,           /* a * sigmoid(b) */
    LIKE_ROOT,           /* relu, sqrt, add, relu */
    LIKE_PRODUCTS_ALONE, /* attention without a softmax */
    LIKE_SILU,           /* x * sigmoid(x): the sigmoid goes */
    LIKE_RMS             /* pow, mean, rsqrt, mul: the first mul goes */
};

typedef struct {
    plain_allocator *p;
    const char *role[MADE_EVENTS]; /* of what an event made */
} made_training;

#define MADE_WEIGHT ((uint64_t)6 << 20)
#define MADE_OUT ((uint64_t)4 << 20)
#define MADE_PART ((uint64_t)5 << 20)   /* of what is composed by hand */
#define MADE_SCORES ((uint64_t)9 << 20) /* of attention */
#define MADE_LOGITS ((uint64_t)40 << 20)

void made_train(made_training *m, const made_run *run);

#endif
