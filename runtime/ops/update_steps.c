/* Updates of one parameter: in {param, grad, lr, states..., [corrections], [scale], [flag],
 * [finite check]}, out {param, states...}; lr is a rate, or a rate and the knobs after it
 * (SWI_READS). None has a gradient and none can be called from a
 * step function; the tests of optimizers cover them. */
#include "alloc/base/assert.h"
#include "kernels/dispatch.h"
#include "kernels/optim_step.h"
#include "runtime/ops/ops.h"

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
    const bool bad =
        a->has_finite_check && *(const volatile double *)l->in[l->n_in - 1].ptr != 0.0;
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

static int states_of(int32_t rule)
{
    static const uint8_t states_of_rule[] = {
#define SW_RULE(rule, kind, states, operations) states,
#define SW_OPTIMIZER(kind, states, operations) states,
#include "kernels/optimizers.def"
    };
    SW_ASSERT(rule >= 0 && rule < SW_OPTIM_COUNT);
    return states_of_rule[rule];
}

static sw_status elementwise_forward(const sw_launch *l)
{
    const swi_update_attrs *a = l->attrs;
    const double *corrections = corrections_of(l);
    const int64_t n = swi_update_is_off(l) ? 0 : sw_type_elements(&l->in[0].type);
    sw_optim_rule rule = {.kind = (sw_optim)a->rule,
                          .weight_decay = a->weight_decay,
                          .momentum = a->momentum,
                          .beta1 = a->beta1,
                          .beta2 = a->beta2,
                          .epsilon = a->epsilon,
                          .decoupled = a->decoupled != 0,
                          .correction1 = corrections != NULL ? corrections[0] : 1.0,
                          .correction2 = corrections != NULL ? corrections[1] : 1.0};
    sw_optim_read(&rule, swi_in(l, 2), a->reads);
    float *state[SW_OPTIM_STATES] = {NULL};
    const int n_state = states_of(a->rule);
    SW_ASSERT(a->n_state == n_state); /* what its kind keeps is what its line says */
    for (int k = 0; k < n_state; k++)
        state[k] = swi_out(l, 1 + k);
    sw_pointwise(l->isa)->update(&rule, swi_out(l, 0), swi_in(l, 1), state, n, scale_of(l),
                                 l->par);
    return SW_OK;
}

/* Updates count as if there were something to do. */
static uint64_t elementwise_operations(const sw_kernel_info *info)
{
    static const uint8_t each[] = {
#define SW_RULE(rule, kind, states, operations) operations,
#define SW_OPTIMIZER(kind, states, operations) operations,
#include "kernels/optimizers.def"
    };
    const swi_update_attrs *a = info->attrs;
    return swi_count_per_element(&info->in[0], each[a->rule]);
}

#define SW_OPTIMIZER(kind, states, operations_each)                                            \
    OP(kind##_update, 3, 3 + SW_OPTIM_STATES + 4, 1, ATTRS(swi_update_attrs),                  \
       .infer = infer_none, .forward = elementwise_forward,                                    \
       .operations = elementwise_operations, .no_gradient = 1);
#include "kernels/optimizers.def"

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
    const float *lr = swi_in(l, 2);
    const sw_adafactor_rule rule = {.lr = lr[0],
                                    .weight_decay = a->reads != 0 ? lr[1] : a->weight_decay,
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
    sw_pointwise(l->isa)->adafactor(&rule, &x, l->scratch, l->par);
    return SW_OK;
}

/* p^2: 3 with its factor; rows (g s)^2 and sum 3, columns as many, or v 5; twice a v,
 * comparison, root, quotient, g s, product 6; its square 2; p keep - step u 3. */
static uint64_t adafactor_operations(const sw_kernel_info *info)
{
    const swi_update_attrs *a = info->attrs;
    return swi_count_per_element(&info->in[0], a->n_state > 1 ? 26 : 25);
}

OP(adafactor_update, 4, 9, 2, ATTRS(swi_update_attrs), .infer = infer_none,
   .scratch_bytes = adafactor_scratch, .forward = adafactor_forward,
   .operations = adafactor_operations, .no_gradient = 1);
