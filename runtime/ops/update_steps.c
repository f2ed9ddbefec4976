/* Updates of one parameter: in {param, grad, lr, states..., [corrections], [scale], [flag],
 * [verdict]}, out {param, states...}. None has a gradient and none can be called from a step
 * function; the tests of optimizers cover them. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

enum { MOST_STATES = 3 };

/* ---- operands ---------------------------------------------------------------------------- */

static const double *corrections_of(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    return a->has_corrections ? l->in[3 + a->n_state].ptr : NULL;
}

static float scale_of(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    return a->has_scale ? *swi_in(l, 3 + a->n_state + a->has_corrections) : 1.0f;
}

/* Both are read, and an element of the gradient, whatever they say: what an op touches does not
 * depend on numbers. */
bool swi_update_is_off(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const int flag = 3 + a->n_state + a->has_corrections + a->has_scale;
    const bool nothing = a->has_flag && *swi_in(l, flag) == 0.0f;
    const bool bad = a->has_verdict && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
    (void)*(const volatile float *)l->in[1].ptr;
    return nothing || bad;
}

static sw_status infer_none(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

/* ---- elementwise ------------------------------------------------------------------------- */

void swi_update_elements(const sw_launch *l, const float *grad, int64_t from, int64_t n)
{
    const swi_update_attrs *a = l->attrs;
    const double *corrections = corrections_of(l);
    const sw_optim_rule rule = {.kind = (sw_optim)a->rule,
                                .lr = *swi_in(l, 2),
                                .weight_decay = a->weight_decay,
                                .momentum = a->momentum,
                                .beta1 = a->beta1,
                                .beta2 = a->beta2,
                                .epsilon = a->epsilon,
                                .decoupled = a->decoupled != 0,
                                .centered = a->centered != 0,
                                .correction1 = corrections != NULL ? corrections[0] : 1.0,
                                .correction2 = corrections != NULL ? corrections[1] : 1.0};
    float *state[MOST_STATES] = {NULL};
    for (int k = 0; k < a->n_state; k++)
        state[k] = swi_out(l, 1 + k) + from;
    sw_point(l->isa)->update(&rule, swi_out(l, 0) + from, grad, state, n, scale_of(l), l->par);
}

static sw_status elementwise_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[0].type);
    swi_update_elements(l, swi_in(l, 1), 0, swi_update_is_off(l) ? 0 : n);
    return SW_OK;
}

/* Operations of one element, d = g s + decay p being three (without a decay of its own one);
 * updates count as if there were something to do. */
static uint64_t elementwise_operations(const sw_kernel_info *info)
{
    const swi_update_attrs *a = info->attrs;
    static const uint8_t each[] = {
        [SW_OPTIM_SGD] = 5,      /* d; p - lr d */
        [SW_OPTIM_MOMENTUM] = 7, /* and mu m + d */
        [SW_OPTIM_NESTEROV] = 9, /* and the momentum once more */
        [SW_OPTIM_ADAM] = 17, /* d; m: 3; v: 4; p keep - step (m / (sqrt(v) root + eps)): 7 */
        [SW_OPTIM_RMSPROP] = 12, /* d; v: 4; sqrt(v) + eps: 2; p - lr d / it: 3 */
        [SW_OPTIM_ADAGRAD] = 10, /* d; sum + d^2: 2; sqrt(sum) + eps: 2; p - lr d / it: 3 */
        [SW_OPTIM_LION] = 11,    /* g s; c: 3; its sign: 2; p keep - lr: 2; m: 3 */
    };
    uint64_t n = each[a->rule];
    if (a->rule == SW_OPTIM_RMSPROP)
        n += (a->momentum != 0.0f ? 2u : 0u) + (a->centered ? 6u : 0u); /* mean: 3; root's: 3 */
    return swi_count_each(&info->in[0], n);
}

#define ELEMENTWISE(op, states, corrections)                                                   \
    const sw_op_desc sw_op_##op = {.size = sizeof(sw_op_desc),                                 \
                                   .name = #op,                                                \
                                   .n_in = 3,                                                  \
                                   .max_in = 3 + (states) + (corrections) + 3,                 \
                                   .n_out = 1,                                                 \
                                   .attrs_bytes = sizeof(swi_update_attrs),                    \
                                   .infer = infer_none,                                        \
                                   .forward = elementwise_forward,                             \
                                   .operations = elementwise_operations,                       \
                                   .no_gradient = 1}
ELEMENTWISE(sgd_update, 1, 0);
ELEMENTWISE(adam_update, 2, 1);
ELEMENTWISE(rmsprop_update, 3, 0);
ELEMENTWISE(adagrad_update, 1, 0);
ELEMENTWISE(lion_update, 1, 0);

/* ---- adafactor --------------------------------------------------------------------------- */

/* n matrices of the last two axes; a vector is one row. */
static sw_adafactor_operands matrices_of(const sw_shape *shape)
{
    sw_adafactor_operands x = {.n = 1, .rows = 1, .cols = 1};
    for (int i = 0; i < shape->rank; i++)
        *(i == shape->rank - 1   ? &x.cols
          : i == shape->rank - 2 ? &x.rows
                                 : &x.n) *= shape->dim[i];
    return x;
}

static size_t adafactor_scratch(const sw_kernel_info *info)
{
    const sw_adafactor_operands x = matrices_of(&info->in[0].shape);
    return (size_t)sw_adafactor_scratch(x.n, x.rows, x.cols) * sizeof(double);
}

static sw_status adafactor_forward(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const double *corrections = corrections_of(l);
    const sw_adafactor_rule rule = {.lr = *swi_in(l, 2),
                                    .weight_decay = a->weight_decay,
                                    .epsilon = a->epsilon,
                                    .least = a->least,
                                    .threshold = a->threshold,
                                    .fixed = a->fixed != 0,
                                    .fresh = corrections[0],
                                    .most = corrections[1]};
    sw_adafactor_operands x = matrices_of(&l->in[0].type.shape);
    x.p = swi_out(l, 0);
    x.g = swi_in(l, 1);
    x.row = swi_out(l, 1);
    x.col = a->n_state > 1 ? swi_out(l, 2) : NULL;
    x.gscale = scale_of(l);
    *(volatile double *)l->scratch = 0.0; /* touched whatever comes */
    if (swi_update_is_off(l))
        return SW_OK;
    sw_point(l->isa)->adafactor(&rule, &x, l->scratch, l->par);
    return SW_OK;
}

/* p^2: 3 with its factor; rows (g s)^2 and sum 3, columns as many, or v 5; twice a v,
 * comparison, root, quotient, g s, product 6; its square 2; p keep - step u 3. */
static uint64_t adafactor_operations(const sw_kernel_info *info)
{
    const swi_update_attrs *a = info->attrs;
    return swi_count_each(&info->in[0], a->n_state > 1 ? 26 : 25);
}

const sw_op_desc sw_op_adafactor_update = {.size = sizeof(sw_op_desc),
                                           .name = "adafactor_update",
                                           .n_in = 4,
                                           .max_in = 9,
                                           .n_out = 2,
                                           .attrs_bytes = sizeof(swi_update_attrs),
                                           .infer = infer_none,
                                           .scratch_bytes = adafactor_scratch,
                                           .forward = adafactor_forward,
                                           .operations = adafactor_operations,
                                           .no_gradient = 1};
