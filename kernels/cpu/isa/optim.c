/* Elementwise updates of one parameter tensor: kernels/optim.h; and the largest number. */
#include "kernels/cpu/isa/each.h"
#include "kernels/cpu/isa/point_internal.h"
#include <math.h>
#include <string.h>

typedef struct {
    const sw_optim_rule *rule;
    float *p;
    const float *g;
    float *const *state;
    int64_t n;
    float gscale;
} update_job;

/* The elements of a part, as the loops below read them. */
#define RUN                                                                                    \
    const sw_optim_rule *r = j->rule;                                                          \
    const int64_t from = (int64_t)part * PART, to = part_end(j->n, part);                      \
    float *restrict p = j->p;                                                                  \
    const float *restrict g = j->g;                                                            \
    const float s = j->gscale, lr = r->lr

/* g += decay p;  m = momentum m + g;  p -= lr (nesterov ? g + momentum m : m). */
static void sgd(const update_job *j, int part)
{
    RUN;
    const float decay = r->weight_decay, mu = r->momentum;
    float *restrict m = r->kind == SW_OPTIM_SGD ? NULL : j->state[0];
    if (r->kind == SW_OPTIM_SGD) {
        for (int64_t i = from; i < to; i++)
            p[i] -= lr * (g[i] * s + decay * p[i]);
    } else if (r->kind == SW_OPTIM_MOMENTUM) {
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

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 * p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps), c = 1 - b^t. */
static void adam(const update_job *j, int part)
{
    RUN;
    float *restrict m = j->state[0], *restrict v = j->state[1];
    const float b1 = r->beta1, b2 = r->beta2, eps = r->epsilon;
    const float a1 = 1.0f - b1, a2 = 1.0f - b2;
    const float step = (float)((double)lr / r->correction1);
    const float root = (float)(1.0 / sqrt(r->correction2));
    const float keep = r->decoupled ? 1.0f - lr * r->weight_decay : 1.0f;
    const float decay = r->decoupled ? 0.0f : r->weight_decay;
    for (int64_t i = from; i < to; i++) {
        const float d = g[i] * s + decay * p[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * (d * d);
        p[i] = p[i] * keep - step * (m[i] / (sqrtf(v[i]) * root + eps));
    }
}

/* v = a v + (1 - a) g^2;  avg = sqrt(v), centered sqrt(v - mean^2), + eps;  m = momentum m +
 * g / avg;  p -= lr m. What rounding leaves below 0 has the root 0. */
static inline void rmsprop_run(const update_job *j, int part, bool has_m, bool centered)
{
    RUN;
    float *restrict v = j->state[0], *restrict m = has_m ? j->state[1] : NULL;
    float *restrict mean = centered ? j->state[1 + has_m] : NULL;
    const float decay = r->weight_decay, mu = r->momentum, eps = r->epsilon;
    const float b = r->beta2, a = 1.0f - b;
    for (int64_t i = from; i < to; i++) {
        const float d = g[i] * s + decay * p[i];
        v[i] = b * v[i] + a * (d * d);
        float square = v[i];
        if (centered) {
            mean[i] = b * mean[i] + a * d;
            square -= mean[i] * mean[i];
            square = square > 0.0f ? square : 0.0f;
        }
        float step = d / (sqrtf(square) + eps);
        if (has_m)
            m[i] = step = mu * m[i] + step;
        p[i] -= lr * step;
    }
}

static void rmsprop(const update_job *j, int part)
{
    const bool has_m = j->rule->momentum != 0.0f;
    if (j->rule->centered)
        has_m ? rmsprop_run(j, part, true, true) : rmsprop_run(j, part, false, true);
    else
        has_m ? rmsprop_run(j, part, true, false) : rmsprop_run(j, part, false, false);
}

static void adagrad(const update_job *j, int part)
{
    RUN;
    float *restrict sum = j->state[0];
    const float decay = r->weight_decay, eps = r->epsilon;
    for (int64_t i = from; i < to; i++) {
        const float d = g[i] * s + decay * p[i];
        sum[i] += d * d;
        p[i] -= lr * d / (sqrtf(sum[i]) + eps);
    }
}

static void lion(const update_job *j, int part)
{
    RUN;
    float *restrict m = j->state[0];
    const float b1 = r->beta1, b2 = r->beta2, a1 = 1.0f - b1, a2 = 1.0f - b2;
    const float keep = 1.0f - lr * r->weight_decay;
    for (int64_t i = from; i < to; i++) {
        const float d = g[i] * s, c = b1 * m[i] + a1 * d;
        const float sign = c > 0.0f ? lr : c < 0.0f ? -lr : 0.0f;
        p[i] = p[i] * keep - sign;
        m[i] = b2 * m[i] + a2 * d;
    }
}

static void update_part(void *arg, int part)
{
    static void (*const rules[])(const update_job *, int) = {
        [SW_OPTIM_SGD] = sgd,   [SW_OPTIM_MOMENTUM] = sgd,    [SW_OPTIM_NESTEROV] = sgd,
        [SW_OPTIM_ADAM] = adam, [SW_OPTIM_RMSPROP] = rmsprop, [SW_OPTIM_ADAGRAD] = adagrad,
        [SW_OPTIM_LION] = lion};
    const update_job *j = arg;
    rules[j->rule->kind](j, part);
}

void SW_ISA_FN(swi_update_kernel)(const sw_optim_rule *rule, float *p, const float *g,
                                  float *const *state, int64_t n, float gscale,
                                  const sw_par *par)
{
    update_job j = {rule, p, g, state, n, gscale};
    par->run(par, update_part, &j, part_count(n));
}

/* ---- the largest ------------------------------------------------------------------------- */

#define LARGEST_PART (4 * PART) /* only read: fewer hand-overs for as many bytes */

typedef struct {
    const float *x;
    int64_t n;
    int32_t bits; /* of the largest so far: maxima may come in any order */
} largest_job;

/* Without their signs floats are in the order of their bits, NaN behind infinity. */
static void largest_part(void *arg, int part)
{
    largest_job *j = arg;
    const int64_t from = (int64_t)part * LARGEST_PART;
    const int64_t to = from + LARGEST_PART < j->n ? from + LARGEST_PART : j->n;
    const float *x = j->x;
    int32_t most = 0;
    for (int64_t i = from; i < to; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    int32_t seen = __atomic_load_n(&j->bits, __ATOMIC_RELAXED);
    while (most > seen && !__atomic_compare_exchange_n(&j->bits, &seen, most, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

float SW_ISA_FN(swi_largest)(const float *x, int64_t n, const sw_par *par)
{
    largest_job j = {x, n, 0};
    float most;
    par->run(par, largest_part, &j, (int)((n + LARGEST_PART - 1) / LARGEST_PART));
    memcpy(&most, &j.bits, sizeof most);
    return most;
}
