/* How optimizers change one parameter tensor. Formulas as PyTorch's torch.optim computes them.
 *
 * The rules of sw_optim_rule are elementwise: element i of the parameter and of each state
 * comes from element i of parameter, gradient and states alone. Any run of elements may
 * therefore be updated by itself, with the same bits. Adafactor's is not: it looks at rows,
 * columns and the whole tensor. */
#ifndef SW_OPTIM_KERNELS_H
#define SW_OPTIM_KERNELS_H

#include "kernels/par.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* d is the gradient, times its scale, with the decay of the parameter where that is not
 * decoupled. States in this order. */
typedef enum {
    SW_OPTIM_SGD,      /* p -= lr d */
    SW_OPTIM_MOMENTUM, /* {m}: m = momentum m + d; p -= lr m */
    SW_OPTIM_NESTEROV, /* {m}: the same; p -= lr (d + momentum m) */
    SW_OPTIM_ADAM,     /* {m, v}: Kingma and Ba 2015; decoupled: Loshchilov and Hutter 2019 */
    SW_OPTIM_RMSPROP,  /* {v, [m], [mean]}: v = beta2 v + (1 - beta2) d^2; with `centered` less
                          the square of the mean of d; m with a momentum */
    SW_OPTIM_ADAGRAD,  /* {sum}: sum += d^2; p -= lr d / (sqrt(sum) + epsilon) */
    SW_OPTIM_LION, /* {m}: p -= lr sign(beta1 m + (1 - beta1) d), m = beta2 m + (1 - beta2) d
                      (Chen et al. 2023); decoupled */
    SW_OPTIM_COUNT
} sw_optim;

typedef struct {
    sw_optim kind;
    float lr; /* the knob's present value */
    float weight_decay, momentum, beta1, beta2, epsilon;
    bool decoupled, centered;
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

/* Numbers of scratch: two for each part, and one for each matrix. */
int64_t sw_adafactor_scratch(int64_t n, int64_t rows, int64_t cols);

#endif
