/* Pointwise kernels, rows, losses, optimizers. float32; n counts elements in memory, whatever
 * the layout. `accumulate` adds to the output instead of overwriting it. dx may be the address
 * of dy or of the saved operand where an op says so: each element is read before it is written.
 *
 * Sums go in sixteen lanes and then in lane order, or in float64 one after the other: one order
 * for every number of threads. */
#pragma once

#include "kernels/ids.h"
#include "kernels/optim.h"
#include "kernels/par.h"
#include "kernels/recurrent.h"
#include "kernels/state8.h"

/* Unary functions: functions of one number. */
typedef enum {
#define SW_UNARY(op, ...) SW_UNARY_##op,
#include "kernels/unary.def"
    SW_UNARY_COUNT
} sw_unary;

/* Losses of pairs x, t: what one element adds to the sum. */
typedef enum {
    SW_HUBER, /* (x - t)^2 / 2, or p (|x - t| - p / 2) where |x - t| > p */
    SW_L1,    /* |x - t| */
    SW_KL,    /* t (log t - x); 0 where t is 0 */
    SW_ELEMENTWISE_LOSS_COUNT
} sw_elementwise_loss;

/* Of the targets of cross-entropy: 1 - smoothing for the label and smoothing / classes for each
 * class; rows of the label `ignore` do not count. */
typedef struct {
    float smoothing;
    bool has_ignore;
    int64_t ignore;
} sw_ce_rule;

/* y = swish(a) b of `rows` rows; those of a and b, and of their gradients, are `step` floats
 * apart, those of y and dy side by side. da and db may be a, b or dy. */
typedef struct {
    const float *a, *b, *dy;
    float *y, *da, *db; /* gradients NULL: not computed */
    int64_t rows, cols, step;
    bool add_a, add_b;
} sw_glu;

typedef struct {
    void (*add)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                const sw_par *par);
    void (*mul)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                const sw_par *par);
    /* To and from bf16 (kernels/halves.h). */
    void (*widen)(float *y, const uint16_t *x, int64_t n, const sw_par *par);
    void (*round)(uint16_t *y, const float *x, int64_t n, const sw_par *par);
    void (*scale)(float *y, const float *x, int64_t n, float factor, bool accumulate,
                  const sw_par *par);
    /* y = x * scale + shift */
    void (*from_u8)(float *y, const uint8_t *x, int64_t n, float scale, float shift,
                    const sw_par *par);
    void (*from_i32)(float *y, const int32_t *x, int64_t n, float scale, float shift,
                     const sw_par *par);

    /* Over the last axis of (rows, cols); dx = y (dy - sum(dy y)). */
    void (*softmax)(float *y, const float *x, int64_t rows, int64_t cols, const sw_par *par);
    void (*softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows, int64_t cols,
                       bool accumulate, const sw_par *par);
    /* y = x - lse; dx = dy - e^y sum(dy). y may be x, dx may be y or dy. */
    void (*log_softmax)(float *y, const float *x, int64_t rows, int64_t cols,
                        const sw_par *par);
    void (*log_softmax_dx)(float *dx, const float *dy, const float *y, int64_t rows,
                           int64_t cols, bool accumulate, const sw_par *par);
    void (*swiglu)(const sw_glu *g, const sw_par *par);
    void (*swiglu_grad)(const sw_glu *g, const sw_par *par);
    void (*lstm_cell)(const sw_lstm_args *l, const sw_par *par);
    void (*lstm_cell_grad)(const sw_lstm_args *l, const sw_par *par);
    void (*gru_cell)(const sw_gru_args *g, const sw_par *par);
    void (*gru_cell_grad)(const sw_gru_args *g, const sw_par *par);
    /* lse (rows): the logarithm of the sum of exponentials of each row. */
    void (*lse)(float *lse, const float *x, int64_t rows, int64_t cols, const sw_par *par);
    /* dx = (exp(x - lse) - [column is the label]) * factor; dx may be x. */
    void (*softmax_ce_dx)(float *dx, const float *x, const float *lse, const sw_ids *labels,
                          int64_t rows, int64_t cols, float factor, bool accumulate,
                          const sw_par *par);
    /* Both at once: lse and the logit of the label of each row, and x becomes dx. */
    void (*softmax_ce)(float *x, float *lse, float *at_label, const sw_ids *labels,
                       int64_t rows, int64_t cols, float factor, const sw_par *par);

    /* softmax_ce_dx by a rule: (exp(x - lse) - target) * factor, zeros in rows that do not
     * count. */
    void (*smooth_ce_dx)(float *dx, const float *x, const float *lse, const sw_ids *labels,
                         int64_t rows, int64_t cols, const sw_ce_rule *rule, float factor,
                         bool accumulate, const sw_par *par);
    /* Sums of rows in float64. */
    void (*row_sums)(double *sums, const float *x, int64_t rows, int64_t cols,
                     const sw_par *par);

    /* Binary cross-entropy of a logit x against t: max(x, 0) - x t + log(1 + exp(-|x|)), mean
     * in float64. t NULL: the constant. */
    double (*bce)(const float *x, const float *t, float constant, int64_t n);
    /* dx = (sigmoid(x) - t) * factor */
    void (*bce_dx)(float *dx, const float *x, const float *t, float constant, int64_t n,
                   float factor, bool accumulate, const sw_par *par);
    /* dx = (a - b) * factor */
    void (*difference)(float *dx, const float *a, const float *b, int64_t n, float factor,
                       bool accumulate, const sw_par *par);

    /* y = f(x); half: all numbers are of bf16, and what is made in float32 is rounded. */
    void (*unary)(sw_unary kind, void *y, const void *x, int64_t n, float param, bool half,
                  const sw_par *par);
    /* dx = dy f'(.). saved: the output for relu, leaky relu (its slope above 0), tanh, sigmoid,
     * exp, sqrt and rsqrt; the input for the others. */
    void (*unary_dx)(sw_unary kind, void *dx, const void *dy, const void *saved, int64_t n,
                     float param, bool accumulate, bool half, const sw_par *par);
    /* y = |x|; codes (or NULL): two bits for each element, four elements in a byte from the
     * lowest on: 0 for zero and NaN, 1 above, 2 below. dx = dy, dy * 0 or -dy by them. */
    void (*abs)(float *y, uint8_t *codes, const float *x, int64_t n, const sw_par *par);
    void (*abs_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n, bool accumulate,
                   const sw_par *par);
    /* y = x, or the bound that it is past; codes (or NULL): a bit for each element, set where
     * it is within. dx = dy where it is set, else 0. */
    void (*clamp)(float *y, uint8_t *codes, const float *x, float low, float high, int64_t n,
                  const sw_par *par);
    void (*clamp_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n,
                     bool accumulate, const sw_par *par);
    /* codes: a bit for each element, set where it is above 0 - for relu also where it is NaN
     * - eight in a byte from the lowest on. dx = dy where it is set, else slope dy. */
    void (*above)(sw_unary kind, uint8_t *codes, const float *x, int64_t n, const sw_par *par);
    void (*above_dx)(float *dx, const float *dy, const uint8_t *codes, int64_t n, float slope,
                     bool accumulate, const sw_par *par);
    void (*sub)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                const sw_par *par);
    void (*div)(float *y, const float *a, const float *b, int64_t n, bool accumulate,
                const sw_par *par);
    /* y = mask != 0 ? a : b */
    void (*where)(float *y, const uint8_t *mask, const float *a, const float *b, int64_t n,
                  bool accumulate, const sw_par *par);
    /* The sum in float64: sixteen lanes for each run of 16384 elements, whose sums are added in
     * order. sums: sw_pointwise_parts(n) numbers of scratch. */
    double (*elementwise_loss)(sw_elementwise_loss kind, const float *x, const float *t,
                               int64_t n, float p, double *sums, const sw_par *par);
    /* dx = slope in x * factor; for SW_KL the slope in t: log t + 1 - x, 0 where t is 0. dx may
     * be x or t. */
    void (*elementwise_loss_dx)(sw_elementwise_loss kind, float *dx, const float *x,
                                const float *t, int64_t n, float p, float factor,
                                bool accumulate, const sw_par *par);

    /* One parameter tensor, or a run of its elements; g is multiplied by gscale first. state:
     * as the kind has them. */
    void (*update)(const sw_optim_rule *rule, float *p, const float *g, float *const *state,
                   int64_t n, float gscale, const sw_par *par);
    /* The same of rows with states in 8 bits (state8.h), scales row by row. */
    void (*update8)(const sw_optim_rule *rule, float *p, const float *g, const sw_state8 *state,
                    int64_t rows, int64_t cols, float gscale, const sw_par *par);
    /* scratch: sw_adafactor_scratch() numbers. */
    void (*adafactor)(const sw_adafactor_rule *rule, const sw_adafactor_operands *x,
                      double *scratch, const sw_par *par);
    /* The largest |x|, half: of bf16; NaN where there is one; 0 of nothing. */
    float (*largest)(const void *x, bool half, int64_t n, const sw_par *par);
} sw_pointwise_kernels;

/* Numbers of scratch that sums over n elements want. */
static inline int64_t sw_pointwise_parts(int64_t n)
{
    return (n + 16383) / 16384; /* parts of kernels/cpu/isa/element_loops.h */
}
