/* Ops of optimizers around their updates: norms, kept gradients, step counters. None has a
 * gradient and none can be called from a step function; the tests of optimizers cover them. */
#include "kernels/dispatch.h"
#include "kernels/optim_step.h"
#include "runtime/ops/ops.h"
#include <math.h>

/* Kept gradients have a flag each: 1 where one waits for its update. Where it is 0 the kernels
 * read what they always read and do their work on no element at all. */
static int64_t waiting(int64_t n, float flag)
{
    return flag != 0.0f ? n : 0;
}

/* ---- sum of squares: in {x, [flag]}; f64 scalar, one element after the other ------------- */

static sw_status sumsq_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = (sw_type){SW_F64, SW_PLAIN, {0, {0}}};
    return swi_want_f32("sumsq", in, n_in);
}

static sw_status sumsq_forward(const sw_launch *l)
{
    const float *x = swi_in(l, 0);
    double *y = l->out[0].ptr;
    double lane[8] = {0}, sum = 0;
    const int64_t n =
        waiting(sw_type_elements(&l->in[0].type), l->n_in > 1 ? *swi_in(l, 1) : 1.0f);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; k < 8; k++)
        sum += lane[k];
    *y = swi_adds(l, 0) ? *y + sum : sum;
    return SW_OK;
}

COUNT(sumsq_operations, swi_count_per_element(&info->in[0], 2))

SWI_APPENDED(sumsq, 1, 2, 1, .infer = sumsq_infer);

/* ---- min(1, max / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ ---------------------- */

static sw_status clip_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)in, (void)n_in, (void)attrs;
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    return SW_OK;
}

static sw_status clip_scale_forward(const sw_launch *l)
{
    const double norm = sqrt(*(const double *)l->in[0].ptr);
    const double scale = (double)swi_in(l, 1)[0] / (norm + 1e-6);
    swi_out(l, 0)[0] = scale < 1.0 || scale != scale ? (float)scale : 1.0f;
    return SW_OK;
}

static uint64_t clip_scale_operations(const sw_kernel_info *info)
{
    (void)info;
    return 4; /* root, sum, quotient, comparison */
}

SWI_APPENDED(clip_scale, 2, 2, 1, .infer = clip_infer);

/* ---- kept gradients: in {kept, g, flag}, out {kept, flag}; the first one writes ---------- */

static sw_status accumulate_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    out[1] = in[2];
    return SW_OK;
}

static sw_status accumulate_into_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[1].type);
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 1), n, 1.0f, swi_in(l, 2)[0] != 0.0f,
                                l->par);
    swi_out(l, 1)[0] = 1.0f;
    return SW_OK;
}

COUNT(accumulate_into_operations, swi_count_per_element(&info->in[1], 1))

SWI_APPENDED(accumulate_into, 3, 3, 2, .infer = accumulate_infer);

/* ---- step counters: in {state f64[2], [flags], [lr], [finite check]}; out {corrections,
 * state}
 * ---------- What waits for an update is what the flags say; where all are 0, and where the
 * finite check is not, no step is made and none is counted. lr: a rate and the knobs after it,
 * where the betas are knobs. */

static bool makes_a_step(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const bool bad =
        a->has_finite_check && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
    bool any = !a->has_flags;
    for (int64_t i = 0; !any && i < sw_type_elements(&l->in[1].type); i++)
        any = swi_in(l, 1)[i] != 0.0f;
    return any && !bad;
}

static sw_status tick_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = out[1] = in[0];
    return SW_OK;
}

/* `counted` operations; the flags and the finite check are looked at. */
static uint64_t tick_operations(const sw_kernel_info *info, uint64_t counted)
{
    const swi_tick_attrs *a = info->attrs;
    return swi_count_add(counted + (a->has_finite_check != 0),
                         a->has_flags ? swi_count_per_element(&info->in[1], 1) : 0);
}

/* The state holds 1 - beta^t, so that zeros are its start: 1 - beta^(t+1) = beta (1 - beta^t) +
 * 1 - beta. Where beta changes from step to step it is 1 - the product of the betas so far. */
static sw_status adam_tick_forward(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const double *powers = l->in[0].ptr;
    double *corrections = l->out[0].ptr, *next = l->out[1].ptr;
    sw_optim_rule rule = {.beta1 = a->beta1, .beta2 = a->beta2};
    if (a->reads != 0)
        sw_optim_read(&rule, swi_in(l, 1 + a->has_flags), a->reads);
    const double beta[2] = {(double)rule.beta1, (double)rule.beta2};
    for (int i = 0; i < 2; i++)
        corrections[i] = beta[i] * powers[i] + (1.0 - beta[i]);
    for (int i = 0; i < 2 && makes_a_step(l); i++)
        next[i] = corrections[i];
    return SW_OK;
}

static uint64_t adam_tick_operations(const sw_kernel_info *info)
{
    return tick_operations(info, 6); /* two of three each */
}

/* The state holds t; the corrections are t^-decay and 1 / sqrt(t) of the next. */
static sw_status steps_tick_forward(const sw_launch *l)
{
    const swi_tick_attrs *a = l->attrs;
    const double t = *(const double *)l->in[0].ptr + 1.0;
    double *corrections = l->out[0].ptr, *next = l->out[1].ptr;
    corrections[0] = pow(t, -(double)a->beta1);
    corrections[1] = 1.0 / sqrt(t);
    if (makes_a_step(l))
        next[0] = t;
    return SW_OK;
}

static uint64_t steps_tick_operations(const sw_kernel_info *info)
{
    return tick_operations(info, 4); /* sum, power, root, quotient */
}

SWI_APPENDED(adam_tick, 1, 4, 2, .infer = tick_infer, .attrs_bytes = sizeof(swi_tick_attrs));
SWI_APPENDED(steps_tick, 1, 3, 2, .infer = tick_infer, .attrs_bytes = sizeof(swi_tick_attrs));
