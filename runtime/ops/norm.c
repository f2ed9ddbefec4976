/* Layer norm, RMS norm, group norm: y = (x - mean) / std * weight + bias, std = sqrt(var +
 * eps).
 *
 * They keep x and of each row (each group of each image) the mean and 1/std, RMS norm 1/std
 * alone: never y, never the normalised x.
 *   g = dy weight, d = (x - mean) / std:  dx = (g - mean(g) - d mean(g d)) / std,
 *   dweight = sum(dy d), dbias = sum(dy). RMS norm: mean and mean(g) are 0. */
#include "alloc/base/assert.h"
#include "kernels/dispatch.h"
#include "kernels/scalar.h"
#include "runtime/ops/fused.h"
#include "kernels/norm.h"
#include "runtime/ops/ops.h"
#include <math.h>
#include <string.h>

/* Gradients of x, weight and bias, of an op whose mean and rstd are these outputs: dx from x,
 * mean, rstd, dy, [weight]; dweight (and dbias) from x, mean, rstd, dy; dbias from dy. */
#define NORM_SAVED(mean, rstd) SW_IN(0), SW_OUT(mean), SW_OUT(rstd), SW_DOUT(0)
#define NORM_GRADS(mean, rstd, dx, dx_count, dw, dw_count, db, db_count)                       \
    {                                                                                          \
        GRAD(MAKES(0), FROM(NORM_SAVED(mean, rstd), SW_IN(1)), dx, dx_count, .inplace = 9),    \
            GRAD(MAKES(1, 2), FROM(NORM_SAVED(mean, rstd)), dw, dw_count),                     \
            GRAD(MAKES(1), FROM(NORM_SAVED(mean, rstd)), dw, dw_count),                        \
            GRAD(MAKES(2), FROM(SW_DOUT(0)), db, db_count),                                    \
    }

/* Operands, as members of a kernel's arguments (kernels/norm.h). */
enum {
    X = offsetof(sw_norm_args, x),
    WEIGHT = offsetof(sw_norm_args, weight),
    BIAS = offsetof(sw_norm_args, bias),
    MEAN = offsetof(sw_norm_args, mean),
    RSTD = offsetof(sw_norm_args, rstd),
    VAR = offsetof(sw_norm_args, var),
    DY = offsetof(sw_norm_args, dy),
    Y = offsetof(sw_norm_args, y),
    MEAN_OUT = offsetof(sw_norm_args, mean_out),
    RSTD_OUT = offsetof(sw_norm_args, rstd_out),
    STATS_OUT = offsetof(sw_norm_args, stats_out),
    DX = offsetof(sw_norm_args, dx),
    DW = offsetof(sw_norm_args, dw),
    DB = offsetof(sw_norm_args, db)
};
#define TAKES(...) ((const size_t[]){__VA_ARGS__})
#define GIVES(...) ((const size_t[]){__VA_ARGS__})

/* Inputs and outputs in the order of these lists, as many as the launch has. */
static void norm_bind(sw_norm_args *n, const sw_launch *l, const size_t *in, const size_t *out)
{
    for (int i = 0; i < l->n_in; i++)
        memcpy((char *)n + in[i], &l->in[i].ptr, sizeof l->in[i].ptr);
    for (int i = 0; i < l->n_out; i++) {
        memcpy((char *)n + out[i], &l->out[i].ptr, sizeof l->out[i].ptr);
        n->add_dx |= out[i] == DX && swi_adds(l, i);
        n->add_dw |= out[i] == DW && swi_adds(l, i);
        n->add_db |= out[i] == DB && swi_adds(l, i);
    }
}

/* `n` has the sizes. */
static sw_status norm_run(const sw_launch *l, sw_norm_args n,
                          void (*kernel)(const sw_norm_args *n, const sw_par *par),
                          const size_t *in, const size_t *out)
{
    norm_bind(&n, l, in, out);
    n.half = swi_is_half(&l->in[0]);
    kernel(&n, l->par);
    return SW_OK;
}

/* The kernels of NORM_GRADS. */
#define NORM_KERNELS(op, sizes, dx, dw)                                                        \
    KERNEL(op##_dx, norm_run(l, sizes, sw_norm(l->isa)->dx, TAKES(X, MEAN, RSTD, DY, WEIGHT),  \
                             GIVES(DX, DW, DB)))                                               \
    KERNEL(op##_dw,                                                                            \
           norm_run(l, sizes, sw_norm(l->isa)->dw, TAKES(X, MEAN, RSTD, DY), GIVES(DW, DB)))   \
    KERNEL(op##_db, norm_run(l, sizes, sw_norm(l->isa)->dw, TAKES(DY), GIVES(DB)))

/* F32 inputs, a good epsilon, inputs from `first` on of shape (size). */
static sw_status norm_infer(const char *op, const sw_type *in, int n_in, int first,
                            int64_t size, float epsilon)
{
    SW_TRY(swi_want_f32(op, in, n_in));
    if (!(epsilon >= 0.0f && epsilon < HUGE_VALF))
        SW_FAIL(SW_INVALID, "%s: epsilon must be finite and at least 0 (got %g)", op,
                (double)epsilon);
    for (int i = first; i < n_in; i++)
        if (in[i].shape.rank != 1 || in[i].shape.dim[0] != size)
            SW_FAIL(SW_INVALID, "%s: input %d must be (%lld) for an input of %s (got %s)", op,
                    i, (long long)size, SWI_SHAPE(&in[0].shape), SWI_SHAPE(&in[i].shape));
    return SW_OK;
}

/* Shape and attributes of an image (batch, channels, ...). */
static sw_norm_args norm_image(const sw_type *x, const swi_norm_attrs *a)
{
    sw_norm_args n =
        SW_INIT(.batch = x->shape.dim[0], .channels = x->shape.dim[1], .inner = 1,
                .groups = a->groups, .epsilon = a->epsilon, .blocks = x->layout == SW_N16);
    for (int i = 2; i < x->shape.rank; i++)
        n.inner *= x->shape.dim[i];
    return n;
}

static sw_norm_args image_of(const sw_launch *l)
{
    return norm_image(&l->in[0].type, l->attrs);
}

COUNT(norm_db_operations, swi_count_per_element(&info->in[0], 1))

/* `each` for an element of x, `once` for one of the statistics. */
static uint64_t norm_count(const sw_type *x, uint64_t each, const sw_type *stats, uint64_t once)
{
    return swi_count_add(swi_count_per_element(x, each), swi_count_per_element(stats, once));
}

/* ---- rows -------------------------------------------------------------------------------- */

static sw_norm_args rows_of(const sw_launch *l)
{
    const sw_shape *x = &l->in[0].type.shape;
    const swi_norm_attrs *a = l->attrs;
    return (sw_norm_args){.batch = swi_elements(x) / swi_cols_of(x),
                          .channels = swi_cols_of(x),
                          .epsilon = a->epsilon};
}

/* Outputs: y, then n_stats statistics of each row. */
static sw_status rows_infer(const char *op, const sw_type *in, int n_in, const void *attrs,
                            sw_type *out, int n_stats)
{
    const sw_shape *x = &in[0].shape;
    if (x->rank < 1 || swi_cols_of(x) < 1)
        SW_FAIL(SW_INVALID, "%s: the last axis must have at least one element", op);
    SW_TRY(
        norm_infer(op, in, n_in, 1, swi_cols_of(x), ((const swi_norm_attrs *)attrs)->epsilon));
    out[0] = in[0];
    for (int i = 1; i <= n_stats; i++)
        out[i] = (sw_type){SW_F32, SW_PLAIN, {1, {swi_elements(x) / swi_cols_of(x)}}};
    return SW_OK;
}

static sw_status rows_reference(const sw_reference *r, bool centred)
{
    const int64_t cols = swi_cols_of(&r->in_type[0].shape);
    const double eps = (double)((const swi_norm_attrs *)r->attrs)->epsilon;
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape) / cols; i++) {
        const double *x = r->in[0] + i * cols;
        double mean = 0, var = 0;
        for (int64_t c = 0; c < cols && centred; c++)
            mean += x[c] / (double)cols;
        for (int64_t c = 0; c < cols; c++)
            var += (x[c] - mean) * (x[c] - mean) / (double)cols;
        for (int64_t c = 0; c < cols; c++)
            r->out[0][i * cols + c] =
                (x[c] - mean) / sqrt(var + eps) * (r->n_in > 1 ? r->in[1][c] : 1.0) +
                (r->n_in > 2 ? r->in[2][c] : 0.0);
    }
    return SW_OK;
}

/* ---- layer norm -------------------------------------------------------------------------- */

INFER(layer_infer, rows_infer("layer_norm", in, n_in, attrs, out, 2))

static sw_status rows_forward(const sw_launch *l, bool centred, const size_t *out)
{
    sw_norm_args n = rows_of(l);
    norm_bind(&n, l, TAKES(X, WEIGHT, BIAS), out);
    sw_norm(l->isa)->rows(&n, centred, l->par);
    return SW_OK;
}

KERNEL(layer_forward, rows_forward(l, true, GIVES(Y, MEAN_OUT, RSTD_OUT)))
NORM_KERNELS(layer, rows_of(l), rows_dx, rows_dw)

/* The sum; d, d d and the sums of both; d / std, weight, bias. Mean, variance and 1/std take 11
 * for each row. */
COUNT(forward_operations, norm_count(&info->in[0], 6 + (uint64_t)info->n_in, &info->out[1], 11))

/* Sums of g and g d: 4; g - k1 - d k2, by 1/std: 5; the weight in both. */
COUNT(dx_operations, norm_count(&info->in[0], info->n_in > 4 ? 11 : 9, &info->in[1], 4))

/* d / std, dy d, its sum, and that of dy. */
COUNT(layer_dw_operations, swi_count_per_element(&info->in[0], info->n_out > 1 ? 5 : 4))
REFERENCE(layer_reference, rows_reference(r, true))

static const sw_grad_desc layer_grads[] = NORM_GRADS(
    1, 2, layer_dx, dx_operations, layer_dw, layer_dw_operations, layer_db, norm_db_operations);

static const swi_norm_attrs usual = {.epsilon = 1e-5f}, wide = {.epsilon = 0.5f};
static const sw_op_case layer_cases[] = {
    CASE("weight and bias", IN(F32(5, 7), F32(7), F32(7)), AT(usual)),
    CASE("weight, many rows", IN(F32(70, 2, 130), F32(130)), AT(usual)),
    CASE("long rows", IN(F32(3, 1100), F32(1100), F32(1100)), FILL(UNIT),
         /* a mean that is not near 0 */ AT(usual)),
    CASE("neither, sixteen columns", IN(F32(4, 16)), AT(wide)),
    CASE("one element", IN(F32(3, 1), F32(1), F32(1)), AT(wide)),
    CASE("images", IN(N16(17, 2, 3, 9), F32(9), F32(9)), AT(usual)),
};

OP(layer_norm, 1, 3, 1, ATTRS(swi_norm_attrs), .rebuild = 1, .n_extra = 2, .infer = layer_infer,
   .inplace = 1, .forward = layer_forward, .operations = forward_operations, GRADS(layer_grads),
   CHECKS(layer_reference, layer_cases));

static bool norm_bias_ok(sw_ctx *ctx, sw_value weight, sw_value bias)
{
    if (sw_ctx_status(ctx) == SW_OK && weight.id == 0 && bias.id != 0)
        sw_fail(ctx, SW_INVALID, "normalisation: a bias needs a weight");
    return sw_ctx_status(ctx) == SW_OK;
}

/* x, then the weight and the bias that there are. */
static sw_value norm_apply(sw_ctx *ctx, uint32_t op, sw_value x, sw_value weight, sw_value bias,
                           const swi_norm_attrs *attrs)
{
    const sw_value in[] = {x, weight, bias};
    if (!norm_bias_ok(ctx, weight, bias))
        return (sw_value){0, 0};
    return sw_op_apply(ctx, op, in, 1 + (weight.id != 0) + (bias.id != 0), attrs);
}

sw_value sw_layer_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                          float epsilon)
{
    const swi_norm_attrs a = {.epsilon = epsilon};
    return norm_apply(ctx, SW_OP_layer_norm, x, weight, bias, &a);
}

INFER(rms_infer, rows_infer("rms_norm", in, n_in, attrs, out, 1))

KERNEL(rms_forward, rows_forward(l, false, GIVES(Y, RSTD_OUT)))
KERNEL(rms_dx,
       norm_run(l, rows_of(l), sw_norm(l->isa)->rows_dx, TAKES(X, RSTD, DY, WEIGHT), GIVES(DX)))
KERNEL(rms_dw, norm_run(l, rows_of(l), sw_norm(l->isa)->rows_dw, TAKES(X, RSTD, DY), GIVES(DW)))

/* x x and its sum, x / std, the weight; 1/std takes 4 for each row. */
COUNT(rms_operations, norm_count(&info->in[0], 2 + (uint64_t)info->n_in, &info->out[1], 4))

/* g x and its sum: 2; g - x k2, by 1/std: 3; the weight in both. */
COUNT(rms_dx_operations, norm_count(&info->in[0], info->n_in > 3 ? 7 : 5, &info->in[1], 3))
COUNT(rms_dw_operations, swi_count_per_element(&info->in[0], 3))
REFERENCE(rms_reference, rows_reference(r, false))

static const sw_grad_desc rms_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(0), SW_OUT(1), SW_DOUT(0), SW_IN(1)), rms_dx, rms_dx_operations,
         .inplace = 5),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_OUT(1), SW_DOUT(0)), rms_dw, rms_dw_operations)};
static const sw_op_case rms_cases[] = {
    CASE("weight", IN(F32(5, 7), F32(7)), AT(usual)),
    CASE("many rows", IN(F32(7, 10, 130), F32(130)), AT(usual)),
    CASE("long rows, no weight", IN(F32(3, 1100)), AT(usual)),
    CASE("one element", IN(F32(3, 1), F32(1)), AT(wide)),
};

OP(rms_norm, 1, 2, 1, ATTRS(swi_norm_attrs), .rebuild = 1, .n_extra = 1, .infer = rms_infer,
   .inplace = 1, .forward = rms_forward, .operations = rms_operations, GRADS(rms_grads),
   CHECKS(rms_reference, rms_cases));

sw_value sw_rms_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, float epsilon)
{
    const swi_norm_attrs a = {.epsilon = epsilon};
    return norm_apply(ctx, SW_OP_rms_norm, x, weight, (sw_value){0, 0}, &a);
}

/* ---- group norm -------------------------------------------------------------------------- */

static sw_status group_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_norm_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    if (x->rank < 2 || x->dim[1] < 1 || norm_image(&in[0], a).inner < 1)
        SW_FAIL(SW_INVALID, "group_norm: the input must be (batch, c, ...) (got %s)",
                SWI_SHAPE(x));
    if (a->groups < 1 || x->dim[1] % a->groups != 0)
        SW_FAIL(SW_INVALID,
                "group_norm: the channels must be a multiple of groups (got %lld channels and "
                "%lld groups)",
                (long long)x->dim[1], (long long)a->groups);
    SW_TRY(norm_infer("group_norm", in, n_in, 1, x->dim[1], a->epsilon));
    out[0] = in[0];
    out[1] = out[2] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], a->groups}}};
    return SW_OK;
}

KERNEL(group_forward, norm_run(l, image_of(l), sw_norm(l->isa)->group, TAKES(X, WEIGHT, BIAS),
                               GIVES(Y, MEAN_OUT, RSTD_OUT)))
NORM_KERNELS(group, image_of(l), group_dx, group_dw)

/* d, dy d, its sum, and that of dy; 1/std and the sum for each channel of each image. */
static uint64_t group_dw_operations(const sw_kernel_info *info)
{
    const sw_shape *x = &info->in[0].shape;
    return swi_count_add(swi_count_per_element(&info->in[0], info->n_out > 1 ? 4 : 3),
                         swi_count_mul(2, (uint64_t)(x->dim[0] * x->dim[1])));
}

static sw_status group_reference(const sw_reference *r)
{
    const swi_norm_attrs *a = r->attrs;
    const sw_norm_args n = norm_image(&r->in_type[0], a);
    const int64_t width = n.channels / n.groups, size = width * n.inner;
    for (int64_t i = 0; i < n.batch * n.groups; i++) {
        const double *x = r->in[0] + i * size;
        double mean = 0, var = 0;
        for (int64_t k = 0; k < size; k++)
            mean += x[k] / (double)size;
        for (int64_t k = 0; k < size; k++)
            var += (x[k] - mean) * (x[k] - mean) / (double)size;
        for (int64_t k = 0; k < size; k++) {
            const int64_t c = i % n.groups * width + k / n.inner;
            r->out[0][i * size + k] = (x[k] - mean) / sqrt(var + (double)a->epsilon) *
                                          (r->n_in > 1 ? r->in[1][c] : 1.0) +
                                      (r->n_in > 2 ? r->in[2][c] : 0.0);
        }
    }
    return SW_OK;
}

static const sw_grad_desc group_grads[] = NORM_GRADS(
    1, 2, group_dx, dx_operations, group_dw, group_dw_operations, group_db, norm_db_operations);

static const swi_norm_attrs groups[] = {{.epsilon = 1e-5f, .groups = 1},
                                        {.epsilon = 1e-5f, .groups = 2},
                                        {.epsilon = 1e-5f, .groups = 3},
                                        {.epsilon = 1e-3f, .groups = 4},
                                        {.epsilon = 0.5f, .groups = 2}};
static const sw_op_case group_cases[] = {
    CASE("three groups", IN(F32(3, 6, 5, 4), F32(6), F32(6)), AT(groups[2])),
    CASE("one group, large", IN(F32(2, 4, 20, 31), F32(4), F32(4)), AT(groups[0])),
    CASE("a group for each channel", IN(F32(3, 4, 7, 5)), AT(groups[3])),
    CASE("vectors", IN(F32(5, 12), F32(12)), AT(groups[1])),
    CASE("sequences", IN(F32(2, 4, 19), F32(4), F32(4)), AT(groups[1])),
    CASE("one element a group", IN(F32(3, 2), F32(2), F32(2)), AT(groups[4])),
    CASE("blocks", IN(N16(16, 6, 3, 3), F32(6), F32(6)), AT(groups[2])),
    CASE("blocks, the last not full", IN(N16(17, 4, 3, 2), F32(4), F32(4)), AT(groups[1])),
    CASE("blocks, no weight", IN(N16(30, 4, 6, 7)), AT(groups[0])),
};

OP(group_norm, 1, 3, 1, ATTRS(swi_norm_attrs), .rebuild = 1, .n_extra = 2, .infer = group_infer,
   .layout = swi_layout_first, .inplace = 1, .forward = group_forward,
   .operations = forward_operations, GRADS(group_grads), CHECKS(group_reference, group_cases));

sw_value sw_group_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                          int64_t n_groups, float epsilon)
{
    const swi_norm_attrs a = {.epsilon = epsilon, .groups = n_groups};
    return norm_apply(ctx, SW_OP_group_norm, x, weight, bias, &a);
}

/* ==== batch norm ========================================================================== */

/* Batch norm over the channels of (batch, c, ...).
 *
 * batch_norm: statistics of the batch; keeps x and of each channel the mean and 1/std. Its
 * second output, mean and unbiased variance in float64, is for the running statistics and has
 * no gradient. batch_norm_running: their next values by PyTorch's rule. batch_norm_fixed:
 * statistics are given, as in evaluation; keeps them, and x for the weight's gradient. */

static sw_status image_infer(const char *op, const sw_type *in, int n_in, const void *attrs)
{
    const swi_norm_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    if (x->rank < 2 || x->dim[1] < 1)
        SW_FAIL(SW_INVALID, "%s: the input must be (batch, c, ...) (got %s)", op, SWI_SHAPE(x));
    return norm_infer(op, in, n_in, 1, x->dim[1], a->epsilon);
}

/* ---- statistics of the batch ------------------------------------------------------------- */

static sw_status batch_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    SW_TRY(image_infer("batch_norm", in, n_in, attrs));
    const sw_norm_args n = norm_image(&in[0], attrs);
    if (n.batch < 1 || n.inner < 1 || (n.batch == 1 && n.inner == 1))
        SW_FAIL(SW_INVALID,
                "batch_norm: the input must have at least two numbers in each channel for a "
                "variance (got %s)",
                SWI_SHAPE(&in[0].shape));
    out[0] = in[0];
    out[1] = (sw_type){SW_F64, SW_PLAIN, {2, {2, n.channels}}};
    out[2] = out[3] = (sw_type){SW_F32, SW_PLAIN, {1, {n.channels}}};
    return SW_OK;
}

#define BATCH_TAKES TAKES(X, WEIGHT, BIAS)
#define BATCH_GIVES GIVES(Y, STATS_OUT, MEAN_OUT, RSTD_OUT)
KERNEL(batch_forward,
       norm_run(l, image_of(l), sw_norm(l->isa)->batch, BATCH_TAKES, BATCH_GIVES))
NORM_KERNELS(batch, image_of(l), batch_grad, batch_grad)

/* The sum; d, d d and the sums of both; d / std, weight, bias. Mean, variances and 1/std take
 * 14 for each channel. */
COUNT(batch_operations, norm_count(&info->in[0], 6 + (uint64_t)info->n_in, &info->out[2], 14))

/* Sums of dy and dy d: 4; dy - k1 - d k2, by 1/std: 5, and the weight. */
COUNT(batch_dx_operations, norm_count(&info->in[0], info->n_in > 4 ? 10 : 9, &info->in[1], 6))

/* d, dy d, its sum; 1/std. */
COUNT(batch_dw_operations, norm_count(&info->in[0], 3, &info->in[1], 1))

/* y of channel c from its mean and variance. */
static void reference_y(const sw_reference *r, int64_t c, double mean, double var, int first)
{
    const swi_norm_attrs *a = r->attrs;
    const sw_norm_args n = norm_image(&r->in_type[0], a);
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
    const sw_norm_args n = norm_image(&r->in_type[0], r->attrs);
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
    GRAD(MAKES(0, 1, 2), FROM(NORM_SAVED(2, 3), SW_IN(1)), batch_dx, batch_dx_operations,
         .inplace = 9),
    GRAD(MAKES(0), FROM(NORM_SAVED(2, 3), SW_IN(1)), batch_dx, batch_dx_operations,
         .inplace = 9),
    GRAD(MAKES(1), FROM(NORM_SAVED(2, 3)), batch_dw, batch_dw_operations),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), batch_db, norm_db_operations),
};

static const swi_norm_attrs batch_usual = {.epsilon = 1e-5f}, other = {.epsilon = 1e-3f};
static const sw_op_case batch_cases[] = {
    CASE("plain", IN(F32(4, 3, 5, 4), F32(3), F32(3)), AT(batch_usual)),
    CASE("large, far from 0", IN(F32(3, 2, 20, 31), F32(2), F32(2)), FILL(UNIT),
         AT(batch_usual)),
    CASE("weight", IN(F32(3, 2, 3, 7), F32(2)), AT(other)),
    CASE("neither", IN(F32(2, 5, 4, 4)), AT(other)),
    CASE("vectors", IN(F32(40, 5), F32(5), F32(5)), AT(batch_usual)),
    CASE("one image, one channel", IN(F32(1, 1, 5, 5), F32(1), F32(1)), AT(batch_usual)),
    CASE("blocks", IN(N16(16, 3, 6, 7), F32(3), F32(3)), AT(batch_usual)),
    CASE("blocks, the last not full", IN(N16(17, 4, 3, 2), F32(4), F32(4)), AT(batch_usual)),
    CASE("blocks, neither", IN(N16(30, 2, 2, 3)), AT(batch_usual)),
};

OP(batch_norm, 1, 3, 2, ATTRS(swi_norm_attrs), .rebuild = 1, .n_extra = 2, .infer = batch_infer,
   .layout = swi_layout_first, .inplace = 1, .forward = batch_forward, .skips = 1,
   .operations = batch_operations, GRADS(batch_grads), CHECKS(batch_reference, batch_cases));

/* ---- with an op of images before it or after it, channel by channel ---------------------- */

static sw_buffer piece_of(const sw_buffer *b, int64_t at, int64_t n)
{
    const sw_dtype dtype = b->type.dtype;
    return (sw_buffer){.ptr = (char *)b->ptr + (size_t)at * sw_dtype_bytes(dtype),
                       .type = {dtype, SW_PLAIN, {1, {n}}},
                       .stride = {1}};
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

static sw_status batch_norm_then(const swi_fused_op *first, const swi_fused_op *then)
{
    const sw_launch *l = first->launch;
    sw_norm_args n = image_of(l);
    n.also = other_channels, n.also_arg = then;
    return norm_run(l, n, sw_norm(l->isa)->batch, BATCH_TAKES, BATCH_GIVES);
}

static sw_status then_batch_norm_dx(const swi_fused_op *first, const swi_fused_op *then)
{
    const sw_launch *l = then->launch;
    sw_norm_args n = image_of(l);
    n.also = other_channels, n.also_arg = first;
    return norm_run(l, n, sw_norm(l->isa)->batch_grad, TAKES(X, MEAN, RSTD, DY, WEIGHT),
                    GIVES(DX, DW, DB));
}

/* ---- running statistics: in {mean, var, stats of the batch}; out {mean, var} ------------- */

static sw_status running_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const float momentum = ((const swi_norm_attrs *)attrs)->momentum;
    SW_TRY(swi_want_f32("batch_norm_running", in, 2));
    const sw_shape *mean = &in[0].shape, *stats = &in[2].shape;
    if (mean->rank != 1 || !swi_same_shape(mean, &in[1].shape) || in[2].dtype != SW_F64 ||
        stats->rank != 2 || stats->dim[0] != 2 || stats->dim[1] != mean->dim[0])
        SW_FAIL(SW_INVALID,
                "batch_norm_running: the inputs must be (c), (c) and (2, c) of f64 (got %s, %s "
                "and %s)",
                SWI_SHAPE(mean), SWI_SHAPE(&in[1].shape), SWI_SHAPE(stats));
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

/* ---- given statistics: in {x, mean, var, [weight, [bias]]} ------------------------------- */

INFER(fixed_infer, (out[0] = in[0], image_infer("batch_norm_fixed", in, n_in, attrs)))

KERNEL(fixed_forward, norm_run(l, image_of(l), sw_norm(l->isa)->fixed,
                               TAKES(X, MEAN, VAR, WEIGHT, BIAS), GIVES(Y)))
KERNEL(fixed_dx,
       norm_run(l, image_of(l), sw_norm(l->isa)->fixed_dx, TAKES(DY, VAR, WEIGHT), GIVES(DX)))
KERNEL(fixed_dw, norm_run(l, image_of(l), sw_norm(l->isa)->batch_grad, TAKES(X, MEAN, VAR, DY),
                          GIVES(DW, DB)))

/* d / std, weight, bias; 1/std takes 3 for each channel. */
COUNT(fixed_operations, norm_count(&info->in[0], (uint64_t)info->n_in - 1, &info->in[1], 3))
COUNT(fixed_dx_operations, norm_count(&info->in[0], 1, &info->in[1], info->n_in > 2 ? 4 : 3))

/* d, dy d, its sum, and that of dy; 1/std: 3 and a product. */
COUNT(fixed_dw_operations, norm_count(&info->in[0], info->n_out > 1 ? 4 : 3, &info->in[1], 4))

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
    GRAD(MAKES(4), FROM(SW_DOUT(0)), batch_db, norm_db_operations),
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
    if (!norm_bias_ok(ctx, weight, bias))
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

/* ==== fused =============================================================================== */

/* Which ops run as one, channel by channel: batch norm with the function of one number after
 * it, and the gradient of the one with that of the other. */

static bool is_unary(uint32_t op)
{
    return swi_op_traits_of(op)->halves == SWI_HALVES_FUNCTION;
}

/* Nothing but images like this one goes in and out: no codes of a few bits. */
static bool is_all(const sw_kernel_info *info, const sw_type *image)
{
    for (int i = 0; i < info->n_in; i++)
        if (!swi_same_type(&info->in[i], image))
            return false;
    return info->n_out == 1 && swi_same_type(&info->out[0], image);
}

enum { NORM_THEN = 1, THEN_NORM_DX };
swi_fused_kernel *const swi_fused_kernels[] = {
    [NORM_THEN] = batch_norm_then, [THEN_NORM_DX] = then_batch_norm_dx};

uint8_t swi_fused(swi_fused_kind first, swi_fused_kind then, int *in)
{
    if (first.op == SW_OP_batch_norm && first.grad < 0 && then.grad < 0 && is_unary(then.op)) {
        *in = 0;
        return NORM_THEN;
    }
    /* The gradient kernels of batch norm that make dx. */
    if (then.op == SW_OP_batch_norm && first.grad >= 0 && then.grad >= 0 &&
        batch_grads[then.grad].kernel == batch_dx && is_unary(first.op)) {
        *in = 3;
        return THEN_NORM_DX;
    }
    return 0;
}

bool swi_fused_fits(uint8_t kernel, const sw_kernel_info *first, const sw_kernel_info *then)
{
    return kernel == NORM_THEN ? is_all(then, &first->in[0]) : is_all(first, &then->in[0]);
}
