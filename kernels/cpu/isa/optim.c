/* Elementwise updates of one parameter tensor: kernels/optim_step.h; and the largest number. */
#include "kernels/cpu/isa/each.h"
#include "kernels/cpu/isa/point_internal.h"
#include "kernels/optim_step.h"
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
    const int64_t from = (int64_t)part * PART, to = part_end(j->n, part);                      \
    float *restrict p = j->p;                                                                  \
    const float *restrict g = j->g;                                                            \
    const sw_optim_numbers n = sw_optim_numbers_of(j->rule, j->gscale)

static void sgd(const update_job *j, int part)
{
    RUN;
    float *restrict m = j->rule->kind == SW_OPTIM_SGD ? NULL : j->state[0];
    if (j->rule->kind == SW_OPTIM_SGD) {
        for (int64_t i = from; i < to; i++)
            sw_sgd_step(&p[i], g[i], &n);
    } else if (j->rule->kind == SW_OPTIM_MOMENTUM) {
        for (int64_t i = from; i < to; i++)
            sw_momentum_step(&p[i], &m[i], g[i], &n);
    } else {
        for (int64_t i = from; i < to; i++)
            sw_nesterov_step(&p[i], &m[i], g[i], &n);
    }
}

static void adam(const update_job *j, int part)
{
    RUN;
    float *restrict m = j->state[0], *restrict v = j->state[1];
    for (int64_t i = from; i < to; i++)
        sw_adam_step(&p[i], &m[i], &v[i], g[i], &n);
}

static inline void rmsprop_run(const update_job *j, int part, bool has_m, bool centered)
{
    RUN;
    float *restrict v = j->state[0];
    float *restrict m = j->state[has_m ? 1 : 0]; /* not touched where it is v */
    float *restrict mean = j->state[centered ? 1 + has_m : 0];
    for (int64_t i = from; i < to; i++)
        sw_rmsprop_step(&p[i], &v[i], has_m, m + i, centered, mean + i, g[i], &n);
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
    for (int64_t i = from; i < to; i++)
        sw_adagrad_step(&p[i], &sum[i], g[i], &n);
}

static void lion(const update_job *j, int part)
{
    RUN;
    float *restrict m = j->state[0];
    for (int64_t i = from; i < to; i++)
        sw_lion_step(&p[i], &m[i], g[i], &n);
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
