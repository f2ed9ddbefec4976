/* Losses of a tensor and a target: huber, l1, kl_div. Scalars, phase loss.
 *
 * huber and l1 keep both, like mse; the gradient may overwrite either. kl_div keeps its target
 * alone; where the target has a gradient, both. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

/* Only huber has an attribute: delta. */
static float number_of(sw_elementwise_loss kind, const void *attrs)
{
    return kind == SW_HUBER ? ((const swi_number_attrs *)attrs)->value : 0.0f;
}

SCRATCH(sum_bytes,
        (size_t)sw_pointwise_parts(swi_elements(&info->in[0].shape)) * sizeof(double))

/* The divisor of the sum: elements; for the divergence the rows of a batch. */
static double share_of(sw_elementwise_loss kind, const sw_shape *s)
{
    const int64_t rows = s->rank > 0 ? s->dim[0] : 1;
    return (double)(kind == SW_KL ? rows : swi_elements(s));
}

static sw_status loss(const sw_launch *l, sw_elementwise_loss kind)
{
    const sw_shape *s = &l->in[0].type.shape;
    const double sum = sw_pointwise(l->isa)->elementwise_loss(
        kind, swi_in(l, 0), swi_in(l, 1), swi_elements(s), number_of(kind, l->attrs),
        l->scratch, l->par);
    swi_out(l, 0)[0] = (float)(sum / share_of(kind, s));
    return SW_OK;
}

/* in: x, target, dy. Both losses of a difference are the same from either side. */
static sw_status slope(const sw_launch *l, sw_elementwise_loss kind, bool of_target)
{
    const sw_shape *s = &l->in[0].type.shape;
    const bool swap = of_target && kind != SW_KL;
    sw_pointwise(l->isa)->elementwise_loss_dx(
        kind, swi_out(l, 0), swi_in(l, swap), swi_in(l, !swap), swi_elements(s),
        number_of(kind, l->attrs), (float)((double)swi_in(l, 2)[0] / share_of(kind, s)),
        swi_adds(l, 0), l->par);
    return SW_OK;
}

static double huber_double(double x, double t, double p)
{
    const double a = fabs(x - t);
    return a > p ? p * (a - 0.5 * p) : 0.5 * a * a;
}

#define LOSS_REFERENCE(id, KIND, TERM)                                                         \
    static sw_status id##_reference(const sw_reference *r)                                     \
    {                                                                                          \
        const double p = (double)number_of(KIND, r->attrs);                                    \
        double sum = 0;                                                                        \
        (void)p;                                                                               \
        for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {                     \
            const double x = r->in[0][i], t = r->in[1][i];                                     \
            sum += (TERM);                                                                     \
        }                                                                                      \
        r->out[0][0] = sum / share_of(KIND, &r->in_type[0].shape);                             \
        return SW_OK;                                                                          \
    }

/* EACH, SLOPE: operations of a term with its sum, of a slope times the factor. */
#define KERNELS(id, KIND, EACH, SLOPE)                                                         \
    static sw_status id##_forward(const sw_launch *l)                                          \
    {                                                                                          \
        return loss(l, KIND);                                                                  \
    }                                                                                          \
    static sw_status id##_dt(const sw_launch *l)                                               \
    {                                                                                          \
        return slope(l, KIND, true);                                                           \
    }                                                                                          \
    static uint64_t id##_operations(const sw_kernel_info *info)                                \
    {                                                                                          \
        return swi_count_add(swi_count_per_element(&info->in[0], EACH), 1);                    \
    }                                                                                          \
    static uint64_t id##_slope_operations(const sw_kernel_info *info)                          \
    {                                                                                          \
        return swi_count_per_element(&info->out[0], SLOPE);                                    \
    }

#define DESCRIPTOR(id, attrs_size)                                                             \
    OP(id, 2, 0, 1, .attrs_bytes = attrs_size, .infer = id##_infer,                            \
       .scratch_bytes = sum_bytes, .forward = id##_forward, .operations = id##_operations,     \
       .phase = SW_LOSS, .has_phase = 1, GRADS(id##_grads),                                    \
       CHECKS(id##_reference, id##_cases))

/* The gradient kernel of `input`, from x, target and dy. */
#define OF_PAIR(id, input, kernel_)                                                            \
    GRAD(MAKES(input), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), kernel_, id##_slope_operations,   \
         .inplace = 3)

/* ---- huber, l1 --------------------------------------------------------------------------- */

static sw_status huber_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float delta = number_of(SW_HUBER, attrs);
    if (!(delta > 0.0f && isfinite(delta)))
        SW_FAIL(SW_INVALID, "huber: delta must be finite and above 0 (got %g)", (double)delta);
    return swi_infer_elementwise_loss("huber", in, n_in, out);
}

INFER(l1_infer, swi_infer_elementwise_loss("l1", in, n_in, out))

KERNELS(huber, SW_HUBER, 9, 4) /* both sides of the bend */
KERNELS(l1, SW_L1, 3, 4)
LOSS_REFERENCE(huber, SW_HUBER, huber_double(x, t, p))
LOSS_REFERENCE(l1, SW_L1, fabs(x - t))
KERNEL(huber_dx, slope(l, SW_HUBER, false))
KERNEL(l1_dx, slope(l, SW_L1, false))

static const sw_grad_desc huber_grads[] = {OF_PAIR(huber, 0, huber_dx),
                                           OF_PAIR(huber, 1, huber_dt)};
static const sw_grad_desc l1_grads[] = {OF_PAIR(l1, 0, l1_dx), OF_PAIR(l1, 1, l1_dt)};

static const swi_number_attrs huber_attrs[] = {{1.0f}, {0.4f}};
/* The last case has parts enough for three threads. */
static const sw_op_case huber_cases[] = {
    CASE("matrix", IN(F32(6, 25), F32(6, 25)), AT(huber_attrs[0])),
    CASE("one", IN(F32(1), F32(1)), AT(huber_attrs[1])),
    CASE("many", IN(F32(7, 7001), F32(7, 7001)), AT(huber_attrs[1])),
};
static const sw_op_case l1_cases[] = {
    CASE("matrix", IN(F32(6, 25), F32(6, 25)), FILL(DISTINCT, UNIT)),
    CASE("a scalar", IN(SCALAR, SCALAR)),
};

DESCRIPTOR(huber, sizeof(swi_number_attrs));
DESCRIPTOR(l1, 0);

sw_value sw_huber(sw_ctx *ctx, sw_value x, sw_value target, float delta)
{
    const sw_value in[] = {x, target};
    const swi_number_attrs a = {delta};
    return sw_op_apply(ctx, SW_OP_huber, in, 2, &a);
}

/* ---- Kullback-Leibler divergence --------------------------------------------------------- */

INFER(kl_div_infer, swi_infer_elementwise_loss("kl_div", in, n_in, out))

KERNELS(kl_div, SW_KL, SWI_LOG + 6, SWI_LOG + 6)
LOSS_REFERENCE(kl_div, SW_KL, t > 0 ? t * (log(t) - x) : 0.0)

/* dx = -t dy / rows. in: target, dy */
static sw_status kl_div_dx(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), swi_elements(s),
                                (float)(-(double)swi_in(l, 1)[0] / share_of(SW_KL, s)),
                                swi_adds(l, 0), l->par);
    return SW_OK;
}

static const sw_grad_desc kl_div_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), kl_div_dx, NULL, .inplace = 1),
    OF_PAIR(kl_div, 1, kl_div_dt)};
static const sw_op_case kl_div_cases[] = {
    CASE("rows", IN(F32(4, 9), F32(4, 9)), FILL(UNIT, UNIT)),
    CASE("one", IN(SCALAR, SCALAR), FILL(UNIT, UNIT)),
};

DESCRIPTOR(kl_div, 0);
