/* Batch norm over the channels of (batch, c, ...).
 *
 * batch_norm: statistics of the batch; keeps x and of each channel the mean and 1/std. Its
 * second output, mean and unbiased variance in float64, is for the running statistics and has
 * no gradient. batch_norm_running: their next values by PyTorch's rule. batch_norm_fixed:
 * statistics are given, as in evaluation; keeps them, and x for the weight's gradient. */
#include "alloc/base/assert.h"
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "runtime/ops/fused.h"
#include "runtime/ops/norm_attrs.h"
#include <math.h>

static sw_status image_infer(const char *op, const sw_type *in, int n_in, const void *attrs)
{
    const swi_norm_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    char s[SWI_SHAPE_TEXT];
    if (x->rank < 2 || x->dim[1] < 1)
        SW_FAIL(SW_INVALID, "%s: the input must be (batch, c, ...) (got %s)", op,
                swi_shape_text(x, s));
    return swi_norm_infer(op, in, n_in, 1, x->dim[1], a->epsilon);
}

/* ---- statistics of the batch ------------------------------------------------------------- */

static sw_status batch_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    char s[SWI_SHAPE_TEXT];
    SW_TRY(image_infer("batch_norm", in, n_in, attrs));
    const sw_norm_args n = swi_norm_image(&in[0], attrs);
    if (n.batch < 1 || n.inner < 1 || (n.batch == 1 && n.inner == 1))
        SW_FAIL(SW_INVALID,
                "batch_norm: the input must have at least two numbers in each channel for a "
                "variance (got %s)",
                swi_shape_text(&in[0].shape, s));
    out[0] = in[0];
    out[1] = (sw_type){SW_F64, SW_PLAIN, {2, {2, n.channels}}};
    out[2] = out[3] = (sw_type){SW_F32, SW_PLAIN, {1, {n.channels}}};
    return SW_OK;
}

static sw_norm_args forward_args(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    swi_norm_forward(&n, l, 2);
    n.stats_out = l->out[1].ptr;
    return n;
}

static sw_status batch_forward(const sw_launch *l)
{
    const sw_norm_args n = forward_args(l);
    sw_norm(l->isa)->batch(&n, l->par);
    return SW_OK;
}

/* in: x, mean, rstd, dy, [weight]; out: dx, [dweight, dbias], NULL where left out */
static sw_norm_args dx_args(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    if (l->n_out > 1)
        swi_norm_dw(&n, l, 1);
    return n;
}

KERNEL(batch_dx, swi_norm_make_dx(l, dx_args(l), sw_norm(l->isa)->batch_grad))
KERNEL(batch_dw, swi_norm_make_dw(l, swi_norm_image(&l->in[0].type, l->attrs),
                                  sw_norm(l->isa)->batch_grad))
KERNEL(db_kernel, swi_norm_make_db(l, swi_norm_image(&l->in[0].type, l->attrs),
                                   sw_norm(l->isa)->batch_grad))

/* The sum; d, d d and the sums of both; d / std, weight, bias. Mean, variances and 1/std take
 * 14 for each channel. */
COUNT(batch_operations,
      swi_norm_count(&info->in[0], 6 + (uint64_t)info->n_in, &info->out[2], 14))

/* Sums of dy and dy d: 4; dy - k1 - d k2, by 1/std: 5, and the weight. */
COUNT(batch_dx_operations,
      swi_norm_count(&info->in[0], info->n_in > 4 ? 10 : 9, &info->in[1], 6))

/* d, dy d, its sum; 1/std. */
COUNT(batch_dw_operations, swi_norm_count(&info->in[0], 3, &info->in[1], 1))

/* y of channel c from its mean and variance. */
static void reference_y(const sw_reference *r, int64_t c, double mean, double var, int first)
{
    const swi_norm_attrs *a = r->attrs;
    const sw_norm_args n = swi_norm_image(&r->in_type[0], a);
    for (int64_t i = 0; i < n.batch; i++)
        for (int64_t k = 0; k < n.inner; k++) {
            const int64_t at = (i * n.channels + c) * n.inner + k;
            r->out[0][at] = (r->in[0][at] - mean) / sqrt(var + (double)a->epsilon) *
                                (r->n_in > first ? r->in[first][c] : 1.0) +
                            (r->n_in > first + 1 ? r->in[first + 1][c] : 0.0);
        }
}

static sw_status batch_reference(const sw_reference *r)
{
    const sw_norm_args n = swi_norm_image(&r->in_type[0], r->attrs);
    const double count = (double)(n.batch * n.inner);
    for (int64_t c = 0; c < n.channels; c++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n.batch; i++)
            for (int64_t k = 0; k < n.inner; k++)
                mean += r->in[0][(i * n.channels + c) * n.inner + k] / count;
        for (int64_t i = 0; i < n.batch; i++)
            for (int64_t k = 0; k < n.inner; k++) {
                const double d = r->in[0][(i * n.channels + c) * n.inner + k] - mean;
                var += d * d / count;
            }
        reference_y(r, c, mean, var, 1);
        r->out[1][c] = mean;
        r->out[1][n.channels + c] = var * count / (count - 1.0);
    }
    return SW_OK;
}

static const sw_grad_desc batch_grads[] = {
    GRAD(MAKES(0, 1, 2), FROM(SWI_NORM_SAVED(2, 3), SW_IN(1)), batch_dx, batch_dx_operations,
         .inplace = 9),
    GRAD(MAKES(0), FROM(SWI_NORM_SAVED(2, 3), SW_IN(1)), batch_dx, batch_dx_operations,
         .inplace = 9),
    GRAD(MAKES(1), FROM(SWI_NORM_SAVED(2, 3)), batch_dw, batch_dw_operations),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), db_kernel, swi_norm_db_operations),
};

static const swi_norm_attrs usual = {.epsilon = 1e-5f}, other = {.epsilon = 1e-3f};
static const sw_op_case batch_cases[] = {
    CASE("plain", IN(F32(4, 3, 5, 4), F32(3), F32(3)), AT(usual)),
    CASE("large, far from 0", IN(F32(3, 2, 20, 31), F32(2), F32(2)), FILL(UNIT), AT(usual)),
    CASE("weight", IN(F32(3, 2, 3, 7), F32(2)), AT(other)),
    CASE("neither", IN(F32(2, 5, 4, 4)), AT(other)),
    CASE("vectors", IN(F32(40, 5), F32(5), F32(5)), AT(usual)),
    CASE("one image, one channel", IN(F32(1, 1, 5, 5), F32(1), F32(1)), AT(usual)),
    CASE("blocks", IN(N16(16, 3, 6, 7), F32(3), F32(3)), AT(usual)),
    CASE("blocks, the last not full", IN(N16(17, 4, 3, 2), F32(4), F32(4)), AT(usual)),
    CASE("blocks, neither", IN(N16(30, 2, 2, 3)), AT(usual)),
};

OP(batch_norm, 1, 3, 2, ATTRS(swi_norm_attrs), .rebuild = 1, .n_extra = 2, .infer = batch_infer,
   .layout = swi_layout_first, .inplace = 1, .forward = batch_forward, .skips = 1,
   .operations = batch_operations, GRADS(batch_grads), CHECKS(batch_reference, batch_cases));

/* ---- with an op of images before it or after it, channel by channel ---------------- */

bool swi_batch_norm_makes_dx(int32_t grad)
{
    return grad >= 0 && batch_grads[grad].kernel == batch_dx;
}

static sw_buffer piece_of(const sw_buffer *b, int64_t at, int64_t n)
{
    return (sw_buffer){
        .ptr = (float *)b->ptr + at, .type = {SW_F32, SW_PLAIN, {1, {n}}}, .stride = {1}};
}

/* Channels [c, end) of the other op, whose operands are all images of the norm's type: in each
 * image or block they lie side by side. */
static void other_channels(const void *arg, int64_t c, int64_t end)
{
    const swi_fused_op *op = arg;
    const sw_launch *l = op->launch;
    const sw_type *type = &l->out[0].type;
    const int64_t covers =
        type->layout == SW_N16 ? (type->shape.dim[0] + 15) / 16 : type->shape.dim[0];
    const int64_t channels = type->shape.dim[1];
    const int64_t plane = sw_type_elements(type) / (covers * channels);
    for (int64_t i = 0; i < covers; i++) {
        const int64_t at = (i * channels + c) * plane, n = (end - c) * plane;
        sw_buffer in[2], out = piece_of(&l->out[0], at, n);
        sw_launch piece = *l;
        SW_ASSERT(l->n_in <= 2 && l->n_out == 1);
        for (int k = 0; k < l->n_in; k++)
            in[k] = piece_of(&l->in[k], at, n);
        piece.in = in, piece.out = &out, piece.par = &sw_par_alone;
        const sw_status status = op->kernel(&piece);
        SW_ASSERT(status == SW_OK); /* functions of one number cannot fail */
        (void)status;
    }
}

sw_status swi_batch_norm_then(const swi_fused_op *first, const swi_fused_op *then)
{
    sw_norm_args n = forward_args(first->launch);
    n.also = other_channels, n.also_arg = then;
    sw_norm(first->launch->isa)->batch(&n, first->launch->par);
    return SW_OK;
}

sw_status swi_then_batch_norm_dx(const swi_fused_op *first, const swi_fused_op *then)
{
    const sw_launch *l = then->launch;
    sw_norm_args n = dx_args(l);
    n.also = other_channels, n.also_arg = first;
    return swi_norm_make_dx(l, n, sw_norm(l->isa)->batch_grad);
}

/* ---- running statistics: in {mean, var, stats of the batch}; out {mean, var} --------------
 */

static sw_status running_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const float momentum = ((const swi_norm_attrs *)attrs)->momentum;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT], u[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("batch_norm_running", in, 2));
    const sw_shape *mean = &in[0].shape, *stats = &in[2].shape;
    if (mean->rank != 1 || !swi_same_shape(mean, &in[1].shape) || in[2].dtype != SW_F64 ||
        stats->rank != 2 || stats->dim[0] != 2 || stats->dim[1] != mean->dim[0])
        SW_FAIL(SW_INVALID,
                "batch_norm_running: the inputs must be (c), (c) and (2, c) of f64 (got %s, %s "
                "and %s)",
                swi_shape_text(mean, s), swi_shape_text(&in[1].shape, t),
                swi_shape_text(stats, u));
    if (!(momentum >= 0.0f && momentum <= 1.0f))
        SW_FAIL(SW_INVALID, "batch_norm: momentum must be 0 to 1 (got %g)", (double)momentum);
    out[0] = in[0];
    out[1] = in[1];
    return SW_OK;
}

static sw_status running_forward(const sw_launch *l)
{
    const double m = (double)((const swi_norm_attrs *)l->attrs)->momentum;
    const double *stats = l->in[2].ptr;
    const int64_t channels = l->in[0].type.shape.dim[0];
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < channels; c++)
            swi_out(l, i)[c] = sw_running(swi_in(l, i)[c], stats[i * channels + c], m);
    return SW_OK;
}

COUNT(running_operations, swi_count_per_element(&info->in[2], 3))

static sw_status running_reference(const sw_reference *r)
{
    const double m = (double)((const swi_norm_attrs *)r->attrs)->momentum;
    const int64_t channels = r->in_type[0].shape.dim[0];
    for (int64_t c = 0; c < channels; c++) {
        r->out[0][c] = r->in[0][c] + m * (r->in[2][c] - r->in[0][c]);
        r->out[1][c] = r->in[1][c] + m * (r->in[2][channels + c] - r->in[1][c]);
    }
    return SW_OK;
}

static const swi_norm_attrs tenth = {.momentum = 0.1f}, whole = {.momentum = 1.0f};
static const sw_op_case running_cases[] = {
    CASE("a tenth", IN(F32(7), F32(7), F64(2, 7)), AT(tenth)),
    CASE("all of it, one channel", IN(F32(1), F32(1), F64(2, 1)), AT(whole)),
};

OP(batch_norm_running, 3, 0, 2, ATTRS(swi_norm_attrs), .infer = running_infer,
   .forward = running_forward, .no_gradient = 1, .operations = running_operations,
   CHECKS(running_reference, running_cases));

/* ---- given statistics: in {x, mean, var, [weight, [bias]]} --------------------------------
 */

static sw_status fixed_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[0];
    return image_infer("batch_norm_fixed", in, n_in, attrs);
}

static sw_status fixed_forward(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    n.x = swi_in(l, 0);
    n.mean = swi_in(l, 1);
    n.var = swi_in(l, 2);
    n.y = swi_out(l, 0);
    swi_norm_scale(&n, l, 3);
    sw_norm(l->isa)->fixed(&n, l->par);
    return SW_OK;
}

/* in: dy, var, [weight] */
static sw_status fixed_dx(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    n.dy = swi_in(l, 0);
    n.var = swi_in(l, 1);
    n.weight = l->n_in > 2 ? swi_in(l, 2) : NULL;
    n.dx = swi_out(l, 0);
    n.add_dx = swi_adds(l, 0);
    sw_norm(l->isa)->fixed_dx(&n, l->par);
    return SW_OK;
}

/* in: x, mean, var, dy */
static sw_status fixed_dw(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    n.x = swi_in(l, 0);
    n.mean = swi_in(l, 1);
    n.var = swi_in(l, 2);
    n.dy = swi_in(l, 3);
    swi_norm_dw(&n, l, 0);
    sw_norm(l->isa)->batch_grad(&n, l->par);
    return SW_OK;
}

/* d / std, weight, bias; 1/std takes 3 for each channel. */
COUNT(fixed_operations, swi_norm_count(&info->in[0], (uint64_t)info->n_in - 1, &info->in[1], 3))
COUNT(fixed_dx_operations,
      swi_norm_count(&info->in[0], 1, &info->in[1], info->n_in > 2 ? 4 : 3))

/* d, dy d, its sum, and that of dy; 1/std: 3 and a product. */
COUNT(fixed_dw_operations,
      swi_norm_count(&info->in[0], info->n_out > 1 ? 4 : 3, &info->in[1], 4))

static sw_status fixed_reference(const sw_reference *r)
{
    for (int64_t c = 0; c < r->in_type[0].shape.dim[1]; c++)
        reference_y(r, c, r->in[1][c], r->in[2][c], 3);
    return SW_OK;
}

static const sw_grad_desc fixed_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(2), SW_IN(3)), fixed_dx, fixed_dx_operations,
         .inplace = 1),
    GRAD(MAKES(3, 4), FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_DOUT(0)), fixed_dw,
         fixed_dw_operations),
    GRAD(MAKES(3), FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_DOUT(0)), fixed_dw,
         fixed_dw_operations),
    GRAD(MAKES(4), FROM(SW_DOUT(0)), db_kernel, swi_norm_db_operations),
};

/* The last type stands for the bias too. */
static const sw_op_case fixed_cases[] = {
    CASE("plain", MANY(5, F32(4, 3, 5, 4), F32(3), F32(3), F32(3)),
         FILL(NORMAL, NORMAL, UNIT, NORMAL), AT(other)),
    CASE("weight", IN(F32(2, 3, 20), F32(3), F32(3), F32(3)),
         FILL(NORMAL, NORMAL, UNIT, NORMAL), AT(other)),
    CASE("one element", IN(F32(1, 1), F32(1), F32(1)), FILL(NORMAL, NORMAL, UNIT), AT(other)),
    CASE("blocks, the last not full", MANY(5, N16(17, 4, 3, 2), F32(4), F32(4), F32(4)),
         FILL(NORMAL, NORMAL, UNIT, NORMAL), AT(other)),
};

OP(batch_norm_fixed, 3, 5, 1, ATTRS(swi_norm_attrs), .rebuild = 1, .infer = fixed_infer,
   .layout = swi_layout_first, .inplace = 1, .forward = fixed_forward,
   .operations = fixed_operations, GRADS(fixed_grads), CHECKS(fixed_reference, fixed_cases));

sw_value sw_batch_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                          sw_param running_mean, sw_param running_var, float momentum,
                          float epsilon)
{
    const swi_norm_attrs a = {.epsilon = epsilon, .momentum = momentum};
    const swi_norm_attrs y_attrs = {.epsilon = epsilon};
    const sw_value mean = sw_use(ctx, running_mean), var = sw_use(ctx, running_var);
    sw_value out[2], next[2];
    if (!swi_norm_bias_ok(ctx, weight, bias))
        return (sw_value){0, 0};
    const int n_scale = (weight.id != 0) + (bias.id != 0);
    if (sw_ctx_mode(ctx) == SW_EVAL) {
        const sw_value in[] = {x, mean, var, weight, bias};
        return sw_op_apply(ctx, SW_OP_batch_norm_fixed, in, 3 + n_scale, &y_attrs);
    }
    const sw_value in[] = {x, weight, bias};
    sw_op_apply_all(ctx, SW_OP_batch_norm, in, 1 + n_scale, &y_attrs, out);
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    const sw_value stats[] = {mean, var, out[1]};
    sw_op_apply_all(ctx, SW_OP_batch_norm_running, stats, 3, &a, next);
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    sw_assign(ctx, running_mean, next[0]);
    sw_assign(ctx, running_var, next[1]);
    return out[0];
}
