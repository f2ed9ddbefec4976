/* What optimizers append: norms, kept gradients, the step counter, and the updates. None has a
 * gradient and none can be called from a step function; the tests of optimizers cover them. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

static sw_status infer_none(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

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

static uint64_t sumsq_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->in[0], 2);
}

const sw_op_desc sw_op_sumsq = {.size = sizeof(sw_op_desc),
                                .name = "sumsq",
                                .n_in = 1,
                                .max_in = 2,
                                .n_out = 1,
                                .infer = sumsq_infer,
                                .forward = sumsq_forward,
                                .operations = sumsq_operations,
                                .no_gradient = 1};

/* ---- min(1, max / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ ---------------------- */

static sw_status clip_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)in, (void)n_in, (void)attrs;
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    return SW_OK;
}

static sw_status clip_forward(const sw_launch *l)
{
    const double norm = sqrt(*(const double *)l->in[0].ptr);
    const double scale = (double)swi_in(l, 1)[0] / (norm + 1e-6);
    swi_out(l, 0)[0] = scale < 1.0 || scale != scale ? (float)scale : 1.0f;
    return SW_OK;
}

static uint64_t clip_operations(const sw_kernel_info *info)
{
    (void)info;
    return 4; /* root, sum, quotient, comparison */
}

const sw_op_desc sw_op_clip_scale = {.size = sizeof(sw_op_desc),
                                     .name = "clip_scale",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .infer = clip_infer,
                                     .forward = clip_forward,
                                     .operations = clip_operations,
                                     .no_gradient = 1};

/* ---- kept gradients: in {kept, g, flag}, out {kept, flag}; the first one writes ---------- */

static sw_status accumulate_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    out[1] = in[2];
    return SW_OK;
}

static sw_status accumulate_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[1].type);
    sw_point(l->isa)->scale(swi_out(l, 0), swi_in(l, 1), n, 1.0f, swi_in(l, 2)[0] != 0.0f,
                            l->par);
    swi_out(l, 1)[0] = 1.0f;
    return SW_OK;
}

static uint64_t accumulate_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->in[1], 1);
}

const sw_op_desc sw_op_accumulate_into = {.size = sizeof(sw_op_desc),
                                          .name = "accumulate_into",
                                          .n_in = 3,
                                          .n_out = 2,
                                          .infer = accumulate_infer,
                                          .forward = accumulate_forward,
                                          .operations = accumulate_operations,
                                          .no_gradient = 1};

/* ---- adam's step counter: in {powers f64[2], [flags]}; out {corrections, powers} -----------
 * The state holds 1 - beta^t, so that zeros are its start: 1 - beta^(t+1) = beta (1 - beta^t) +
 * 1 - beta. Where flags are given and all are 0, no step is made and none is counted. */

static sw_status tick_forward(const sw_launch *l)
{
    const sw_adam_tick_attrs *a = l->attrs;
    const double *powers = l->in[0].ptr;
    double *corrections = l->out[0].ptr, *next = l->out[1].ptr;
    const double beta[2] = {(double)a->beta1, (double)a->beta2};
    for (int i = 0; i < 2; i++)
        corrections[i] = beta[i] * powers[i] + (1.0 - beta[i]);
    bool any = l->n_in < 2;
    for (int64_t i = 0; !any && i < sw_type_elements(&l->in[1].type); i++)
        any = swi_in(l, 1)[i] != 0.0f;
    for (int i = 0; i < 2 && any; i++)
        next[i] = corrections[i];
    return SW_OK;
}

static sw_status tick_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = out[1] = in[0];
    return SW_OK;
}

/* Two powers of three operations each; the flags are looked at. */
static uint64_t tick_operations(const sw_kernel_info *info)
{
    return swi_count_add(6, info->n_in > 1 ? swi_count_each(&info->in[1], 1) : 0);
}

const sw_op_desc sw_op_adam_tick = {.size = sizeof(sw_op_desc),
                                    .name = "adam_tick",
                                    .n_in = 1,
                                    .max_in = 2,
                                    .n_out = 2,
                                    .attrs_bytes = sizeof(sw_adam_tick_attrs),
                                    .infer = tick_infer,
                                    .forward = tick_forward,
                                    .operations = tick_operations,
                                    .no_gradient = 1};

/* ---- updates ----------------------------------------------------------------------------- */

/* The optional operands at the end; without a flag there is always something to do. */
static float scale_of(const sw_launch *l, bool has_scale, bool has_flag)
{
    return has_scale ? *swi_in(l, l->n_in - 1 - has_flag) : 1.0f;
}

static int64_t elements_to_update(const sw_launch *l, bool has_flag)
{
    return waiting(sw_type_elements(&l->in[0].type), has_flag ? *swi_in(l, l->n_in - 1) : 1.0f);
}

/* in {param, grad, lr, [m], [scale], [flag]}; out {param, [m]} */
static sw_status sgd_forward(const sw_launch *l)
{
    const swi_sgd_attrs *a = l->attrs;
    const sw_sgd_rule rule = {.lr = *swi_in(l, 2),
                              .weight_decay = a->weight_decay,
                              .momentum = a->momentum,
                              .nesterov = a->nesterov != 0};
    sw_point(l->isa)->sgd(swi_out(l, 0), swi_in(l, 1), l->n_out > 1 ? swi_out(l, 1) : NULL,
                          elements_to_update(l, a->has_flag),
                          scale_of(l, a->has_scale, a->has_flag), &rule, l->par);
    return SW_OK;
}

/* g s + decay p, lr of it off p; momentum m + it; with Nesterov the momentum once more. Updates
 * count as if there were something to do. */
static uint64_t sgd_operations(const sw_kernel_info *info)
{
    const bool nesterov = ((const swi_sgd_attrs *)info->attrs)->nesterov != 0;
    return swi_count_each(&info->in[0], info->n_out < 2 ? 5 : nesterov ? 9 : 7);
}

const sw_op_desc sw_op_sgd_update = {.size = sizeof(sw_op_desc),
                                     .name = "sgd_update",
                                     .n_in = 3,
                                     .max_in = 6,
                                     .n_out = 1,
                                     .attrs_bytes = sizeof(swi_sgd_attrs),
                                     .infer = infer_none,
                                     .forward = sgd_forward,
                                     .operations = sgd_operations,
                                     .no_gradient = 1};

/* in {param, grad, lr, m, v, corrections, [scale], [flag]}; out {param, m, v} */
static sw_status adam_forward(const sw_launch *l)
{
    const swi_adam_attrs *a = l->attrs;
    const double *corrections = l->in[5].ptr;
    const sw_adam_rule rule = {.lr = *swi_in(l, 2),
                               .weight_decay = a->weight_decay,
                               .beta1 = a->beta1,
                               .beta2 = a->beta2,
                               .epsilon = a->epsilon,
                               .decoupled = a->decoupled != 0,
                               .correction1 = corrections[0],
                               .correction2 = corrections[1]};
    sw_point(l->isa)->adam(swi_out(l, 0), swi_in(l, 1), swi_out(l, 1), swi_out(l, 2),
                           elements_to_update(l, a->has_flag),
                           scale_of(l, a->has_scale, a->has_flag), &rule, l->par);
    return SW_OK;
}

/* g s + decay p: 3; m: 3; v: 4; p keep - step (m / (sqrt(v) root + eps)): 7. */
static uint64_t adam_operations(const sw_kernel_info *info)
{
    return swi_count_each(&info->in[0], 17);
}

const sw_op_desc sw_op_adam_update = {.size = sizeof(sw_op_desc),
                                      .name = "adam_update",
                                      .n_in = 6,
                                      .max_in = 8,
                                      .n_out = 3,
                                      .attrs_bytes = sizeof(swi_adam_attrs),
                                      .infer = infer_none,
                                      .forward = adam_forward,
                                      .operations = adam_operations,
                                      .no_gradient = 1};
