/* Losses (scalars, phase loss) and accuracy. mse and bce_with keep both inputs, bce its input.
 */
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "runtime/ops/ce.h"
#include "runtime/ops/strip.h"
#include <math.h>

static const sw_type scalar = {SW_F32, SW_PLAIN, {0, {0}}};

/* ---- accuracy ---------------------------------------------------------------------------- */

static sw_status accuracy_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = scalar;
    SW_TRY(swi_want_f32("accuracy", in, 1));
    return swi_labels_infer("accuracy", &in[0].shape, &in[1]);
}

static sw_status accuracy_forward(const sw_launch *l)
{
    const int64_t rows = l->in[0].type.shape.dim[0], cols = l->in[0].type.shape.dim[1];
    const float *x = swi_in(l, 0);
    int64_t hits = 0;
    SW_TRY(swi_check_labels("accuracy", &l->in[1], NULL, rows, cols));
    for (int64_t r = 0; r < rows; r++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = sw_wins(x[r * cols + c], x[r * cols + best]) ? c : best;
        hits += best == swi_label_at(&l->in[1], r);
    }
    swi_out(l, 0)[0] = (float)((double)hits / (double)rows);
    return SW_OK;
}

/* A comparison of each element, the last one with the label; the share. */
COUNT(accuracy_operations, swi_count_add(swi_count_per_element(&info->in[0], 1), 1))

static sw_status accuracy_reference(const sw_reference *r)
{
    const int64_t rows = r->in_type[0].shape.dim[0], cols = r->in_type[0].shape.dim[1];
    double hits = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < cols; c++)
            best = sw_wins((float)r->in[0][i * cols + c], (float)r->in[0][i * cols + best])
                       ? c
                       : best;
        hits += best == (int64_t)r->in[1][i] ? 1.0 : 0.0;
    }
    r->out[0][0] = hits / (double)rows;
    return SW_OK;
}

static const sw_op_case accuracy_cases[] = {
    CASE("few classes", IN(F32(40, 3), U8(40)), FILL(DISTINCT, LABELS), .limit = 3),
};

OP(accuracy, 2, 0, 1, .infer = accuracy_infer, .forward = accuracy_forward, .no_gradient = 1,
   .operations = accuracy_operations, .phase = SW_LOSS, .has_phase = 1,
   CHECKS(accuracy_reference, accuracy_cases));

/* ---- mean squared error ------------------------------------------------------------------ */

sw_status swi_infer_elementwise_loss(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32(op, in, n_in));
    for (int i = 0; i < n_in; i++)
        if (!swi_same_shape(&in[0].shape, &in[i].shape) || sw_type_elements(&in[0]) < 1)
            SW_FAIL(SW_INVALID, "%s: the shapes must be equal and not empty (got %s and %s)",
                    op, swi_shape_text(&in[0].shape, s), swi_shape_text(&in[i].shape, t));
    out[0] = scalar;
    return SW_OK;
}

INFER(mse_infer, swi_infer_elementwise_loss("mse", in, n_in, out))

double swi_mse_sum(double sum, const float *x, const float *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)(x[i] - t[i]);
        sum += d * d;
    }
    return sum;
}

static sw_status mse_forward(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    swi_out(l, 0)[0] = (float)(swi_mse_sum(0, swi_in(l, 0), swi_in(l, 1), n) / (double)n);
    return SW_OK;
}

float swi_mse_slope(float dy, int64_t n)
{
    return (float)(2.0 * (double)dy / (double)n);
}

/* in: x, target, dy. dx = 2 (x - t) dy / n; the target's is its negative. */
static sw_status mse_grad(const sw_launch *l, bool of_target)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->difference(swi_out(l, 0), swi_in(l, of_target), swi_in(l, !of_target),
                                     n, swi_mse_slope(swi_in(l, 2)[0], n), swi_adds(l, 0),
                                     l->par);
    return SW_OK;
}

KERNEL(mse_dx, mse_grad(l, false))
KERNEL(mse_dt, mse_grad(l, true))
COUNT(mse_operations, swi_count_add(swi_count_per_element(&info->in[0], 3), 1))
COUNT(difference_operations, swi_count_per_element(&info->out[0], 2))

static sw_status mse_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (r->in[0][i] - r->in[1][i]) * (r->in[0][i] - r->in[1][i]);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

static const sw_grad_desc mse_grads[] = {GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)),
                                              mse_dx, difference_operations, .inplace = 3),
                                         GRAD(MAKES(1), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)),
                                              mse_dt, difference_operations, .inplace = 3)};
static const sw_op_case mse_cases[] = {CASE("matrix", IN(F32(6, 5), F32(6, 5)))};

OP(mse, 2, 0, 1, .infer = mse_infer, .forward = mse_forward, .operations = mse_operations,
   .phase = SW_LOSS, .has_phase = 1, GRADS(mse_grads), CHECKS(mse_reference, mse_cases));

/* ---- binary cross-entropy with logits ---------------------------------------------------- */

static sw_status bce_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float t = ((const swi_number_attrs *)attrs)->value;
    if (!(t >= 0.0f && t <= 1.0f))
        SW_FAIL(SW_INVALID, "bce: target must be 0 to 1 (got %g)", (double)t);
    return swi_infer_elementwise_loss("bce", in, n_in, out);
}

static sw_status bce_forward(const sw_launch *l)
{
    swi_out(l, 0)[0] = (float)sw_pointwise(l->isa)->bce(
        swi_in(l, 0), NULL, ((const swi_number_attrs *)l->attrs)->value,
        swi_elements(&l->in[0].type.shape));
    return SW_OK;
}

/* in: x, dy */
static sw_status bce_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->bce_dx(
        swi_out(l, 0), swi_in(l, 0), NULL, ((const swi_number_attrs *)l->attrs)->value, n,
        (float)((double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0), l->par);
    return SW_OK;
}

/* -|x|, its exponential e and log(1 + e); max(x, 0), x t, two sums of these, and one more into
 * the mean. */
COUNT(bce_operations,
      swi_count_add(swi_count_per_element(&info->in[0], 2 + SWI_EXP + SWI_LOG1P + 5), 1))

/* (sigmoid(x) - t) * factor */
COUNT(bce_dx_operations, swi_count_per_element(&info->out[0], SWI_SIGMOID + 2))

static double bce_double(double x, double t)
{
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static sw_status bce_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += bce_double(r->in[0][i], (double)((const swi_number_attrs *)r->attrs)->value);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

static const sw_grad_desc bce_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(0), SW_DOUT(0)), bce_dx, bce_dx_operations, .inplace = 1)};
static const swi_number_attrs bce_attrs[] = {{1.0f}, {0.3f}};
static const sw_op_case bce_cases[] = {CASE("ones", IN(F32(7, 1)), AT(bce_attrs[0])),
                                       CASE("soft", IN(F32(3, 11)), AT(bce_attrs[1]))};

OP(bce, 1, 0, 1, ATTRS(swi_number_attrs), .infer = bce_infer, .forward = bce_forward,
   .operations = bce_operations, .phase = SW_LOSS, .has_phase = 1, GRADS(bce_grads),
   CHECKS(bce_reference, bce_cases));

sw_value sw_bce(sw_ctx *ctx, sw_value logits, float target)
{
    const swi_number_attrs a = {target};
    return sw_op_apply(ctx, SW_OP_bce, &logits, 1, &a);
}

INFER(bce_with_infer, swi_infer_elementwise_loss("bce_with", in, n_in, out))

static sw_status bce_with_forward(const sw_launch *l)
{
    swi_out(l, 0)[0] = (float)sw_pointwise(l->isa)->bce(swi_in(l, 0), swi_in(l, 1), 0.0f,
                                                        swi_elements(&l->in[0].type.shape));
    return SW_OK;
}

/* in: x, target, dy */
static sw_status bce_with_dx(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->bce_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1), 0.0f, n,
                                 (float)((double)swi_in(l, 2)[0] / (double)n), swi_adds(l, 0),
                                 l->par);
    return SW_OK;
}

/* The target's: -x dy / n. in: x, dy */
static sw_status bce_with_dt(const sw_launch *l)
{
    const int64_t n = swi_elements(&l->in[0].type.shape);
    sw_pointwise(l->isa)->scale(swi_out(l, 0), swi_in(l, 0), n,
                                (float)(-(double)swi_in(l, 1)[0] / (double)n), swi_adds(l, 0),
                                l->par);
    return SW_OK;
}

static sw_status bce_with_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += bce_double(r->in[0][i], r->in[1][i]);
    r->out[0][0] = sum / (double)n;
    return SW_OK;
}

static const sw_grad_desc bce_with_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0)), bce_with_dx, bce_dx_operations,
         .inplace = 3),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), bce_with_dt, NULL, .inplace = 1)};
static const sw_op_case bce_with_cases[] = {
    CASE("matrix", IN(F32(4, 9), F32(4, 9)), FILL(NORMAL, UNIT))};

OP(bce_with, 2, 0, 1, .infer = bce_with_infer, .forward = bce_with_forward,
   .operations = bce_operations, .phase = SW_LOSS, .has_phase = 1, GRADS(bce_with_grads),
   CHECKS(bce_with_reference, bce_with_cases));
