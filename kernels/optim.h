/* How optimizers change one parameter tensor. Formulas as PyTorch's torch.optim computes them.
 *
 * The rules of optimizers.def are elementwise: element i of the parameter and of each state
 * comes from element i of parameter, gradient and states alone. Any run of elements may
 * therefore be updated by itself, with the same bits. Adafactor's is not: it looks at rows,
 * columns and the whole tensor. */
#pragma once

#include "kernels/par.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SW_OPTIM_STATES = 3, /* that a rule has at most */
    SW_OPTIM_TENSORS = 4 /* and tensors of them: in 8 bits one has two */
};

#define SW_RULE(rule, kind, states, operations) SW_OPTIM_##rule,
#define SW_OPTIMIZER(kind, states, operations) SW_OPTIM_##kind,
typedef enum {
#include "kernels/optimizers.def"
    SW_OPTIM_COUNT
} sw_optim;

/* Which states of a rule have a sign, a bit for each; 0: they cannot be kept in 8 bits. */
static inline int sw_optim_state8(sw_optim rule)
{
    switch (rule) {
#define SW_STATE8(rule, signs)                                                                 \
    case SW_OPTIM_##rule:                                                                      \
        return signs;
#include "kernels/optimizers.def"
    default:
        return 0;
    }
}

typedef struct {
    sw_optim kind;
    float lr; /* this and the next may be knobs: their present values */
    float weight_decay, momentum, beta1, beta2, epsilon;
    bool decoupled; /* the decay is the parameter's alone, not the gradient's */
    double correction1, correction2; /* adam: 1 - beta^t */
} sw_optim_rule;

/* Shazeer and Stern 2018, without a first moment. */
typedef struct {
    float lr, weight_decay; /* decoupled */
    float epsilon;          /* its square is the least second moment */
    float least;            /* of a parameter's size, to which steps are relative */
    float threshold;        /* most root mean square of an update */
    bool fixed;             /* lr as it stands: not relative, and not less with time */
    double fresh;           /* share of the new squares: t^-decay */
    double most;            /* of the rate, when it is not fixed: 1 / sqrt(t) */
} sw_adafactor_rule;

/* p and g are n matrices of (rows, cols). With states row (n, rows) and col (n, cols): v =
 * row col / mean(row), the means of the squares along the other axis. col NULL: row is v
 * itself, one number for each element. */
typedef struct {
    float *p;
    const float *g;
    float *row, *col;
    int64_t n, rows, cols;
    float gscale;
} sw_adafactor_operands;

/* How adafactor cuts a tensor into parts: by its shape alone, so that sums have one order. */
#define SW_ADAFACTOR_PART 16384 /* elements, about */

/* Rows of one part, of all matrices together. */
static inline int64_t sw_adafactor_rows(int64_t cols)
{
    return cols < SW_ADAFACTOR_PART ? SW_ADAFACTOR_PART / cols : 1;
}

static inline int64_t sw_adafactor_parts(int64_t n, int64_t rows, int64_t cols)
{
    const int64_t each = sw_adafactor_rows(cols);
    return (n * rows + each - 1) / each;
}

/* Numbers of scratch: two for each part, and one for each matrix. */
static inline int64_t sw_adafactor_scratch(int64_t n, int64_t rows, int64_t cols)
{
    return 2 * sw_adafactor_parts(n, rows, cols) + n;
}
