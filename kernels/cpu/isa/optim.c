/* Optimizer updates of one parameter tensor. Formulas as PyTorch's torch.optim computes them.
 */
#include "kernels/cpu/isa/point_internal.h"
#include <math.h>

#define PART 16384

typedef struct {
    float *p, *m, *v;
    const float *g;
    int64_t n;
    float gscale;
    const sw_sgd_rule *sgd;
    const sw_adam_rule *adam;
} job;

/* g += decay p;  m = momentum m + g;  p -= lr (nesterov ? g + momentum m : m). */
static void sgd_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t from = (int64_t)part * PART;
    const int64_t to = from + PART < j->n ? from + PART : j->n;
    float *restrict p = j->p, *restrict m = j->m;
    const float *restrict g = j->g;
    const float s = j->gscale, decay = j->sgd->weight_decay, lr = j->sgd->lr,
                mu = j->sgd->momentum;
    if (m == NULL) {
        for (int64_t i = from; i < to; i++)
            p[i] -= lr * (g[i] * s + decay * p[i]);
    } else if (!j->sgd->nesterov) {
        for (int64_t i = from; i < to; i++) {
            m[i] = mu * m[i] + (g[i] * s + decay * p[i]);
            p[i] -= lr * m[i];
        }
    } else {
        for (int64_t i = from; i < to; i++) {
            const float d = g[i] * s + decay * p[i];
            m[i] = mu * m[i] + d;
            p[i] -= lr * (d + mu * m[i]);
        }
    }
}

void SW_ISA_FN(swi_sgd_kernel)(float *p, const float *g, float *m, int64_t n, float gscale,
                               const sw_sgd_rule *rule, const sw_par *par)
{
    job j = {.p = p, .g = g, .m = m, .n = n, .gscale = gscale, .sgd = rule};
    par->run(par, sgd_part, &j, (int)((n + PART - 1) / PART));
}

/* Kingma and Ba 2015; decoupled decay: Loshchilov and Hutter 2019.
 * m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 * p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps), c = 1 - b^t. */
static void adam_part(void *arg, int part)
{
    const job *j = arg;
    const sw_adam_rule *r = j->adam;
    const int64_t from = (int64_t)part * PART;
    const int64_t to = from + PART < j->n ? from + PART : j->n;
    float *restrict p = j->p, *restrict m = j->m, *restrict v = j->v;
    const float *restrict g = j->g;
    const float s = j->gscale, b1 = r->beta1, b2 = r->beta2, eps = r->epsilon;
    const float a1 = 1.0f - b1, a2 = 1.0f - b2;
    const float step = (float)((double)r->lr / r->correction1);
    const float root = (float)(1.0 / sqrt(r->correction2));
    const float keep = r->decoupled ? 1.0f - r->lr * r->weight_decay : 1.0f;
    const float decay = r->decoupled ? 0.0f : r->weight_decay;
    for (int64_t i = from; i < to; i++) {
        const float d = g[i] * s + decay * p[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * (d * d);
        p[i] = p[i] * keep - step * (m[i] / (sqrtf(v[i]) * root + eps));
    }
}

void SW_ISA_FN(swi_adam_kernel)(float *p, const float *g, float *m, float *v, int64_t n,
                                float gscale, const sw_adam_rule *rule, const sw_par *par)
{
    job j = {.p = p, .g = g, .m = m, .v = v, .n = n, .gscale = gscale, .adam = rule};
    par->run(par, adam_part, &j, (int)((n + PART - 1) / PART));
}
