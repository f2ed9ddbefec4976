/* One element of each rule of kernels/optimizers.def, for C and CUDA: sw_<rule>_step(p, s, g,
 * n). g is the gradient as it stands; the parameter p and its states s[0], s[1]... change in
 * position. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/inline.h"
#include "kernels/optim.h"
#include <math.h>

/* Shared by all elements. */
typedef struct {
    float lr, scale;   /* of the gradient */
    float decay, keep; /* of the parameter: added to the gradient; what is left of it */
    float momentum, beta1, beta2, epsilon;
    float rest1, rest2; /* 1 - beta */
    float step, root;   /* adam: lr / c1, 1 / sqrt(c2) */
} sw_optim_numbers;

/* The rate, and after it what `reads` (SWI_READS of kernels/attrs.h) says of weight decay,
 * momentum and betas. */
SW_INLINE void sw_optim_read(sw_optim_rule *r, const float *from, int32_t reads)
{
    r->lr = *from++;
    if ((reads & SWI_READS_DECAY) != 0)
        r->weight_decay = *from++;
    if ((reads & SWI_READS_MOMENTUM) != 0)
        r->momentum = *from++;
    if ((reads & SWI_READS_BETAS) != 0) {
        r->beta1 = from[0];
        r->beta2 = from[1];
    }
}

SW_INLINE sw_optim_numbers sw_optim_numbers_of(const sw_optim_rule *r, float scale)
{
    sw_optim_numbers n;
    n.lr = r->lr;
    n.scale = scale;
    n.decay = r->decoupled ? 0.0f : r->weight_decay;
    n.keep = r->decoupled ? 1.0f - r->lr * r->weight_decay : 1.0f;
    n.momentum = r->momentum;
    n.beta1 = r->beta1;
    n.beta2 = r->beta2;
    n.epsilon = r->epsilon;
    n.rest1 = 1.0f - r->beta1;
    n.rest2 = 1.0f - r->beta2;
    n.step = (float)((double)r->lr / r->correction1);
    n.root = (float)(1.0 / sqrt(r->correction2));
    return n;
}

/* The gradient with the decay of the parameter. */
SW_INLINE float sw_optim_d(float p, float g, const sw_optim_numbers *n)
{
    return g * n->scale + n->decay * p;
}

/* No state. p -= lr d. */
SW_INLINE void sw_sgd_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    (void)s;
    *p -= n->lr * sw_optim_d(*p, g, n);
}
/* {m}: m = momentum m + d;  p -= lr m. */
SW_INLINE void sw_momentum_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    s[0] = n->momentum * s[0] + sw_optim_d(*p, g, n);
    *p -= n->lr * s[0];
}
/* {m}: the same; p -= lr (d + momentum m). */
SW_INLINE void sw_nesterov_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    s[0] = n->momentum * s[0] + d;
    *p -= n->lr * (d + n->momentum * s[0]);
}
/* {m, v}: m = b1 m + (1 - b1) d;  v = b2 v + (1 - b2) d^2; p -= lr / c1 * m / (sqrt(v) /
 * sqrt(c2) + eps), c = 1 - b^t. Kingma and Ba 2015; decoupled: Loshchilov and Hutter 2019. */
SW_INLINE void sw_adam_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    s[0] = n->beta1 * s[0] + n->rest1 * d;
    s[1] = n->beta2 * s[1] + n->rest2 * (d * d);
    *p = *p * n->keep - n->step * (s[0] / (sqrtf(s[1]) * n->root + n->epsilon));
}
/* v = a v + (1 - a) d^2; d / (sqrt(v) + eps), with a mean of d sqrt(v - mean^2). A difference
 * that rounding leaves below 0 has the root 0. */
SW_INLINE float sw_rmsprop_of(float d, float *v, float *mean, const sw_optim_numbers *n)
{
    *v = n->beta2 * *v + n->rest2 * (d * d);
    float square = *v;
    if (mean != NULL) {
        *mean = n->beta2 * *mean + n->rest2 * d;
        square -= *mean * *mean;
        square = square > 0.0f ? square : 0.0f;
    }
    return d / (sqrtf(square) + n->epsilon);
}
/* {v}: p -= lr times that. */
SW_INLINE void sw_rmsprop_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    *p -= n->lr * sw_rmsprop_of(sw_optim_d(*p, g, n), &s[0], NULL, n);
}
/* {v, m}: m = momentum m + that;  p -= lr m. */
SW_INLINE void sw_rmsprop_momentum_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    s[1] = n->momentum * s[1] + sw_rmsprop_of(sw_optim_d(*p, g, n), &s[0], NULL, n);
    *p -= n->lr * s[1];
}
/* {v, mean} */
SW_INLINE void sw_rmsprop_centered_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    *p -= n->lr * sw_rmsprop_of(sw_optim_d(*p, g, n), &s[0], &s[1], n);
}
/* {v, m, mean} */
SW_INLINE void sw_rmsprop_centered_momentum_step(float *p, float *s, float g,
                                                 const sw_optim_numbers *n)
{
    s[1] = n->momentum * s[1] + sw_rmsprop_of(sw_optim_d(*p, g, n), &s[0], &s[2], n);
    *p -= n->lr * s[1];
}
/* {sum}: sum += d^2;  p -= lr d / (sqrt(sum) + eps). */
SW_INLINE void sw_adagrad_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    s[0] += d * d;
    *p -= n->lr * d / (sqrtf(s[0]) + n->epsilon);
}
/* {m}: p -= lr sign(b1 m + (1 - b1) d);  m = b2 m + (1 - b2) d. Chen et al. 2023. */
SW_INLINE void sw_lion_step(float *p, float *s, float g, const sw_optim_numbers *n)
{
    const float d = g * n->scale, c = n->beta1 * s[0] + n->rest1 * d;
    const float sign = c > 0.0f ? n->lr : c < 0.0f ? -n->lr : 0.0f;
    *p = *p * n->keep - sign;
    s[0] = n->beta2 * s[0] + n->rest2 * d;
}

/* ---- adafactor --------------------------------------------------------------------------- */

/* A second moment, `share` of it from the new squares. */
SW_INLINE float sw_adafactor_mix(float old, float fresh, float share)
{
    return old + share * (fresh - old);
}

/* The update of an element, before the step: g / sqrt(v). */
SW_INLINE float sw_adafactor_update(float g, float v, float least)
{
    return g * (1.0f / sqrtf(v > least ? v : least));
}

/* The step, from the root mean squares of the parameter and of the update. */
SW_INLINE float sw_adafactor_step(const sw_adafactor_rule *r, double size, double update)
{
    const double lr = (double)r->lr, over = update / (double)r->threshold;
    double step = lr;
    if (!r->fixed)
        step =
            (lr < r->most ? lr : r->most) * (size > (double)r->least ? size : (double)r->least);
    return (float)(over > 1.0 ? step / over : step);
}
