/* Elementwise updates of one parameter tensor: kernels/optim_step.h; and the largest number. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/pointwise_internal.h"
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

typedef void element_step(float *p, float *s, float g, const sw_optim_numbers *n);

/* Inlined with the number of states and the step as constants, so that the loop is vectorised.
 */
static inline __attribute__((always_inline)) void
update_elements(const update_job *j, int part, int states, element_step *step)
{
    const int64_t from = (int64_t)part * PART, to = part_end(j->n, part);
    float *restrict p = j->p;
    const float *restrict g = j->g;
    float *restrict s0 = states > 0 ? j->state[0] : NULL;
    float *restrict s1 = states > 1 ? j->state[1] : NULL;
    float *restrict s2 = states > 2 ? j->state[2] : NULL;
    const sw_optim_numbers n = sw_optim_numbers_of(j->rule, j->gscale);
    for (int64_t i = from; i < to; i++) {
        float s[SW_OPTIM_STATES] = {states > 0 ? s0[i] : 0.0f, states > 1 ? s1[i] : 0.0f,
                                    states > 2 ? s2[i] : 0.0f};
        step(&p[i], s, g[i], &n);
        if (states > 0)
            s0[i] = s[0];
        if (states > 1)
            s1[i] = s[1];
        if (states > 2)
            s2[i] = s[2];
    }
}

#define SW_RULE(rule, kind, states, operations)                                                \
    static void rule##_part(const update_job *j, int part)                                     \
    {                                                                                          \
        update_elements(j, part, states, sw_##rule##_step);                                    \
    }
#define SW_OPTIMIZER(kind, states, operations) SW_RULE(kind, kind, states, operations)
#include "kernels/optimizers.def"

static void update_part(void *arg, int part)
{
    static void (*const rules[])(const update_job *, int) = {
#define SW_RULE(rule, kind, states, operations) rule##_part,
#define SW_OPTIMIZER(kind, states, operations) kind##_part,
#include "kernels/optimizers.def"
    };
    const update_job *j = arg;
    rules[j->rule->kind](j, part);
}

void SW_KERNEL(pointwise, update)(const sw_optim_rule *rule, float *p, const float *g,
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

/* Without their signs floats are in the order of their bits, NaN after infinity. */
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

float SW_KERNEL(pointwise, largest)(const float *x, int64_t n, const sw_par *par)
{
    largest_job j = {x, n, 0};
    float most;
    par->run(par, largest_part, &j, (int)((n + LARGEST_PART - 1) / LARGEST_PART));
    memcpy(&most, &j.bits, sizeof most);
    return most;
}
