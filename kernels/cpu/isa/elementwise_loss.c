/* Losses of pairs: sums in sixteen float64 lanes for each part, then part by part in order. */
#include "kernels/cpu/isa/element_loops.h"
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"

#define LANES 16

/* Terms of a group first, so that they are computed side by side. */
#define SUM(expr)                                                                              \
    do {                                                                                       \
        for (; i + LANES <= to; i += LANES) {                                                  \
            for (int k = 0; k < LANES; k++)                                                    \
                term[k] = (expr);                                                              \
            for (int k = 0; k < LANES; k++)                                                    \
                lane[k] += (double)term[k];                                                    \
        }                                                                                      \
        for (int k = 0; i + k < to; k++)                                                       \
            lane[k] += (double)(expr);                                                         \
    } while (0)

static void elementwise_loss_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t to = part_end(j->n, part);
    const float *a = j->a, *b = j->b;
    const float p = j->p;
    double lane[LANES] = {0}, sum = 0;
    float term[LANES];
    int64_t i = (int64_t)part * PART;
    switch ((sw_elementwise_loss)j->kind) {
    case SW_HUBER:
        SUM(sw_huber_value(a[i + k], b[i + k], p));
        break;
    case SW_L1:
        SUM(sw_absf(a[i + k] - b[i + k]));
        break;
    case SW_KL:
        SUM(sw_kl_value(a[i + k], b[i + k]));
        break;
    case SW_ELEMENTWISE_LOSS_COUNT:
        break;
    }
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    j->sums[part] = sum;
}

/* a = x, b = t, p: of the kind, q: the factor. */
BODY(elementwise_loss_dx_part)
switch ((sw_elementwise_loss)j->kind) {
case SW_HUBER:
    FOR_EACH_ELEMENT(q * sw_between(a[i] - b[i], -p, p));
    break;
case SW_L1:
    FOR_EACH_ELEMENT(q * sw_signf(a[i] - b[i]));
    break;
case SW_KL:
    FOR_EACH_ELEMENT(q * sw_kl_slope(a[i], b[i]));
    break;
case SW_ELEMENTWISE_LOSS_COUNT:
    break;
}
END

    double
    SW_KERNEL(pointwise, elementwise_loss)(sw_elementwise_loss kind, const float *x,
                                           const float *t, int64_t n, float p, double *sums,
                                           const sw_par *par)
{
    job j = {.a = x, .b = t, .n = n, .p = p, .kind = (int)kind, .sums = sums};
    split(par, elementwise_loss_part, &j);
    double sum = 0;
    for (int part = 0; part < part_count(n); part++)
        sum += sums[part];
    return sum;
}

void SW_KERNEL(pointwise, elementwise_loss_dx)(sw_elementwise_loss kind, float *dx,
                                               const float *x, const float *t, int64_t n,
                                               float p, float factor, bool accumulate,
                                               const sw_par *par)
{
    job j = {.y = dx,
             .a = x,
             .b = t,
             .n = n,
             .p = p,
             .q = factor,
             .kind = (int)kind,
             .accumulate = accumulate};
    split(par, elementwise_loss_dx_part, &j);
}
