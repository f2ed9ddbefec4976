/* One element of each elementwise update of kernels/optim.h, for C and CUDA. g is the gradient
 * as it stands; p and the states change in place. */
#ifndef SW_OPTIM_STEP_H
#define SW_OPTIM_STEP_H

#include "kernels/inline.h"
#include "kernels/optim.h"
#include <math.h>

/* What all elements share. */
typedef struct {
    float lr, scale;   /* of the gradient */
    float decay, keep; /* of the parameter: added to the gradient; what is left of it */
    float momentum, beta1, beta2, epsilon;
    float rest1, rest2; /* 1 - beta */
    float step, root;   /* adam: lr / c1, 1 / sqrt(c2) */
} sw_optim_numbers;

SW_INLINE sw_optim_numbers sw_optim_numbers_of(const sw_optim_rule *r, float scale)
{
    const bool apart = r->kind == SW_OPTIM_LION || (r->kind == SW_OPTIM_ADAM && r->decoupled);
    sw_optim_numbers n;
    n.lr = r->lr;
    n.scale = scale;
    n.decay = apart ? 0.0f : r->weight_decay;
    n.keep = apart ? 1.0f - r->lr * r->weight_decay : 1.0f;
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

SW_INLINE void sw_sgd_step(float *p, float g, const sw_optim_numbers *n)
{
    *p -= n->lr * sw_optim_d(*p, g, n);
}
/* m = momentum m + d;  p -= lr m. */
SW_INLINE void sw_momentum_step(float *p, float *m, float g, const sw_optim_numbers *n)
{
    *m = n->momentum * *m + sw_optim_d(*p, g, n);
    *p -= n->lr * *m;
}
/* The same; p -= lr (d + momentum m). */
SW_INLINE void sw_nesterov_step(float *p, float *m, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    *m = n->momentum * *m + d;
    *p -= n->lr * (d + n->momentum * *m);
}
/* m = b1 m + (1 - b1) d;  v = b2 v + (1 - b2) d^2;
 * p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps), c = 1 - b^t. */
SW_INLINE void sw_adam_step(float *p, float *m, float *v, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    *m = n->beta1 * *m + n->rest1 * d;
    *v = n->beta2 * *v + n->rest2 * (d * d);
    *p = *p * n->keep - n->step * (*m / (sqrtf(*v) * n->root + n->epsilon));
}
/* v = a v + (1 - a) d^2;  avg = sqrt(v), centered sqrt(v - mean^2), + eps;  m = momentum m +
 * d / avg;  p -= lr m. What rounding leaves below 0 has the root 0. m and mean are touched
 * where has_m and centered say so: constants of a loop, so that it is vectorised. */
SW_INLINE void sw_rmsprop_step(float *p, float *v, bool has_m, float *m, bool centered,
                               float *mean, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    *v = n->beta2 * *v + n->rest2 * (d * d);
    float square = *v;
    if (centered) {
        *mean = n->beta2 * *mean + n->rest2 * d;
        square -= *mean * *mean;
        square = square > 0.0f ? square : 0.0f;
    }
    float step = d / (sqrtf(square) + n->epsilon);
    if (has_m)
        *m = step = n->momentum * *m + step;
    *p -= n->lr * step;
}
SW_INLINE void sw_adagrad_step(float *p, float *sum, float g, const sw_optim_numbers *n)
{
    const float d = sw_optim_d(*p, g, n);
    *sum += d * d;
    *p -= n->lr * d / (sqrtf(*sum) + n->epsilon);
}
/* p -= lr sign(b1 m + (1 - b1) d);  m = b2 m + (1 - b2) d. */
SW_INLINE void sw_lion_step(float *p, float *m, float g, const sw_optim_numbers *n)
{
    const float d = g * n->scale, c = n->beta1 * *m + n->rest1 * d;
    const float sign = c > 0.0f ? n->lr : c < 0.0f ? -n->lr : 0.0f;
    *p = *p * n->keep - sign;
    *m = n->beta2 * *m + n->rest2 * d;
}

/* ---- adafactor --------------------------------------------------------------------------- */

/* A second moment, `share` of it from the new squares. */
SW_INLINE float sw_adafactor_mix(float old, float fresh, float share)
{
    return old + share * (fresh - old);
}

/* What an element is updated by, before the step: g / sqrt(v). */
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

#endif
