/* Layer norm, RMS norm, group norm: y = (x - mean) / std * weight + bias, std = sqrt(var +
 * eps).
 *
 * They keep x and of each row (each group of each image) the mean and 1/std, RMS norm 1/std
 * alone: never y, never the normalised x.
 *   g = dy weight, d = (x - mean) / std:  dx = (g - mean(g) - d mean(g d)) / std,
 *   dweight = sum(dy d), dbias = sum(dy). RMS norm: mean and mean(g) are 0. */
#include "kernels/dispatch.h"
#include "runtime/ops/norm_attrs.h"
#include <math.h>

/* ---- what the family shares -------------------------------------------------------------- */

sw_status swi_norm_infer(const char *op, const sw_type *in, int n_in, int first, int64_t size,
                         float epsilon)
{
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32(op, in, n_in));
    if (!(epsilon >= 0.0f && epsilon < HUGE_VALF))
        SW_FAIL(SW_INVALID, "%s: epsilon must be finite and at least 0 (got %g)", op,
                (double)epsilon);
    for (int i = first; i < n_in; i++)
        if (in[i].shape.rank != 1 || in[i].shape.dim[0] != size)
            SW_FAIL(SW_INVALID, "%s: input %d must be (%lld) for an input of %s (got %s)", op,
                    i, (long long)size, swi_shape_text(&in[0].shape, t),
                    swi_shape_text(&in[i].shape, s));
    return SW_OK;
}

sw_norm_args swi_norm_image(const sw_type *x, const swi_norm_attrs *a)
{
    sw_norm_args n = {.batch = x->shape.dim[0],
                      .channels = x->shape.dim[1],
                      .inner = 1,
                      .groups = a->groups,
                      .epsilon = a->epsilon,
                      .blocks = x->layout == SW_N16};
    for (int i = 2; i < x->shape.rank; i++)
        n.inner *= x->shape.dim[i];
    return n;
}

float *swi_norm_extra(const sw_launch *l, int i)
{
    return l->n_out > i ? swi_out(l, i) : NULL;
}

void swi_norm_scale(sw_norm_args *n, const sw_launch *l, int first)
{
    n->weight = l->n_in > first ? swi_in(l, first) : NULL;
    n->bias = l->n_in > first + 1 ? swi_in(l, first + 1) : NULL;
}

void swi_norm_forward(sw_norm_args *n, const sw_launch *l, int mean)
{
    n->x = swi_in(l, 0);
    n->y = swi_out(l, 0);
    n->mean_out = swi_norm_extra(l, mean);
    n->rstd_out = swi_norm_extra(l, mean + 1);
    swi_norm_scale(n, l, 1);
}

sw_status swi_norm_make_dx(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel)
{
    swi_norm_saved(&n, l);
    n.weight = l->n_in > 4 ? swi_in(l, 4) : NULL;
    n.dx = swi_out(l, 0);
    n.add_dx = swi_adds(l, 0);
    kernel(&n, l->par);
    return SW_OK;
}

sw_status swi_norm_make_dw(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel)
{
    swi_norm_saved(&n, l);
    swi_norm_dw(&n, l, 0);
    kernel(&n, l->par);
    return SW_OK;
}

sw_status swi_norm_make_db(const sw_launch *l, sw_norm_args n, swi_norm_kernel *kernel)
{
    n.dy = swi_in(l, 0);
    n.db = swi_out(l, 0);
    n.add_db = swi_adds(l, 0);
    kernel(&n, l->par);
    return SW_OK;
}

uint64_t swi_norm_db_operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->in[0], 1);
}

uint64_t swi_norm_count(const sw_type *x, uint64_t each, const sw_type *stats, uint64_t once)
{
    return swi_count_add(swi_count_per_element(x, each), swi_count_per_element(stats, once));
}

/* ---- rows -------------------------------------------------------------------------------- */

static int64_t cols_of(const sw_shape *s)
{
    return s->dim[s->rank - 1];
}

static sw_norm_args rows_of(const sw_shape *x, const swi_norm_attrs *a)
{
    return (sw_norm_args){
        .batch = swi_elements(x) / cols_of(x), .channels = cols_of(x), .epsilon = a->epsilon};
}

/* Outputs: y, then n_stats statistics of each row. */
static sw_status rows_infer(const char *op, const sw_type *in, int n_in, const void *attrs,
                            sw_type *out, int n_stats)
{
    const sw_shape *x = &in[0].shape;
    if (x->rank < 1 || cols_of(x) < 1)
        SW_FAIL(SW_INVALID, "%s: the last axis must have at least one element", op);
    SW_TRY(
        swi_norm_infer(op, in, n_in, 1, cols_of(x), ((const swi_norm_attrs *)attrs)->epsilon));
    out[0] = in[0];
    for (int i = 1; i <= n_stats; i++)
        out[i] = (sw_type){SW_F32, SW_PLAIN, {1, {swi_elements(x) / cols_of(x)}}};
    return SW_OK;
}

static sw_status rows_reference(const sw_reference *r, bool centred)
{
    const int64_t cols = cols_of(&r->in_type[0].shape);
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

static sw_status layer_forward(const sw_launch *l)
{
    sw_norm_args n = rows_of(&l->in[0].type.shape, l->attrs);
    swi_norm_forward(&n, l, 1);
    sw_norm(l->isa)->rows(&n, true, l->par);
    return SW_OK;
}

KERNEL(layer_dx,
       swi_norm_make_dx(l, rows_of(&l->in[0].type.shape, l->attrs), sw_norm(l->isa)->rows_dx))
KERNEL(layer_dw,
       swi_norm_make_dw(l, rows_of(&l->in[0].type.shape, l->attrs), sw_norm(l->isa)->rows_dw))
KERNEL(layer_db,
       swi_norm_make_db(l, rows_of(&l->in[0].type.shape, l->attrs), sw_norm(l->isa)->rows_dw))

/* The sum; d, d d and the sums of both; d / std, weight, bias. Mean, variance and 1/std take 11
 * for each row. */
COUNT(forward_operations,
      swi_norm_count(&info->in[0], 6 + (uint64_t)info->n_in, &info->out[1], 11))

/* Sums of g and g d: 4; g - k1 - d k2, by 1/std: 5; the weight in both. */
COUNT(dx_operations, swi_norm_count(&info->in[0], info->n_in > 4 ? 11 : 9, &info->in[1], 4))

/* d / std, dy d, its sum, and that of dy. */
COUNT(layer_dw_operations, swi_count_per_element(&info->in[0], info->n_out > 1 ? 5 : 4))
REFERENCE(layer_reference, rows_reference(r, true))

static const sw_grad_desc layer_grads[] =
    SWI_NORM_GRADS(1, 2, layer_dx, dx_operations, layer_dw, layer_dw_operations, layer_db,
                   swi_norm_db_operations);

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

/* x, then the weight and the bias that there are. */
sw_value swi_norm_apply(sw_ctx *ctx, uint32_t op, sw_value x, sw_value weight, sw_value bias,
                        const swi_norm_attrs *attrs)
{
    const sw_value in[] = {x, weight, bias};
    if (!swi_norm_bias_ok(ctx, weight, bias))
        return (sw_value){0, 0};
    return sw_op_apply(ctx, op, in, 1 + (weight.id != 0) + (bias.id != 0), attrs);
}

bool swi_norm_bias_ok(sw_ctx *ctx, sw_value weight, sw_value bias)
{
    if (sw_ctx_status(ctx) == SW_OK && weight.id == 0 && bias.id != 0)
        sw_fail(ctx, SW_INVALID, "normalisation: a bias needs a weight");
    return sw_ctx_status(ctx) == SW_OK;
}

sw_value sw_layer_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                          float epsilon)
{
    const swi_norm_attrs a = {.epsilon = epsilon};
    return swi_norm_apply(ctx, SW_OP_layer_norm, x, weight, bias, &a);
}

/* ---- RMS norm ---------------------------------------------------------------------------- */

INFER(rms_infer, rows_infer("rms_norm", in, n_in, attrs, out, 1))

static sw_status rms_forward(const sw_launch *l)
{
    sw_norm_args n = rows_of(&l->in[0].type.shape, l->attrs);
    n.x = swi_in(l, 0);
    n.y = swi_out(l, 0);
    n.rstd_out = swi_norm_extra(l, 1);
    swi_norm_scale(&n, l, 1);
    sw_norm(l->isa)->rows(&n, false, l->par);
    return SW_OK;
}

/* in: x, rstd, dy, [weight] */
static sw_norm_args rms_saved(const sw_launch *l)
{
    sw_norm_args n = rows_of(&l->in[0].type.shape, l->attrs);
    n.x = swi_in(l, 0);
    n.rstd = swi_in(l, 1);
    n.dy = swi_in(l, 2);
    n.weight = l->n_in > 3 ? swi_in(l, 3) : NULL;
    return n;
}

static sw_status rms_dx(const sw_launch *l)
{
    sw_norm_args n = rms_saved(l);
    n.dx = swi_out(l, 0);
    n.add_dx = swi_adds(l, 0);
    sw_norm(l->isa)->rows_dx(&n, l->par);
    return SW_OK;
}

static sw_status rms_dw(const sw_launch *l)
{
    sw_norm_args n = rms_saved(l);
    swi_norm_dw(&n, l, 0);
    sw_norm(l->isa)->rows_dw(&n, l->par);
    return SW_OK;
}

/* x x and its sum, x / std, the weight; 1/std takes 4 for each row. */
COUNT(rms_operations, swi_norm_count(&info->in[0], 2 + (uint64_t)info->n_in, &info->out[1], 4))

/* g x and its sum: 2; g - x k2, by 1/std: 3; the weight in both. */
COUNT(rms_dx_operations, swi_norm_count(&info->in[0], info->n_in > 3 ? 7 : 5, &info->in[1], 3))
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
    return swi_norm_apply(ctx, SW_OP_rms_norm, x, weight, (sw_value){0, 0}, &a);
}

/* ---- group norm -------------------------------------------------------------------------- */

static sw_status group_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_norm_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    char s[SWI_SHAPE_TEXT];
    if (x->rank < 2 || x->dim[1] < 1 || swi_norm_image(&in[0], a).inner < 1)
        SW_FAIL(SW_INVALID, "group_norm: the input must be (batch, c, ...) (got %s)",
                swi_shape_text(x, s));
    if (a->groups < 1 || x->dim[1] % a->groups != 0)
        SW_FAIL(SW_INVALID,
                "group_norm: the channels must be a multiple of groups (got %lld channels and "
                "%lld groups)",
                (long long)x->dim[1], (long long)a->groups);
    SW_TRY(swi_norm_infer("group_norm", in, n_in, 1, x->dim[1], a->epsilon));
    out[0] = in[0];
    out[1] = out[2] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], a->groups}}};
    return SW_OK;
}

static sw_status group_forward(const sw_launch *l)
{
    sw_norm_args n = swi_norm_image(&l->in[0].type, l->attrs);
    swi_norm_forward(&n, l, 1);
    sw_norm(l->isa)->group(&n, l->par);
    return SW_OK;
}

KERNEL(group_dx,
       swi_norm_make_dx(l, swi_norm_image(&l->in[0].type, l->attrs), sw_norm(l->isa)->group_dx))
KERNEL(group_dw,
       swi_norm_make_dw(l, swi_norm_image(&l->in[0].type, l->attrs), sw_norm(l->isa)->group_dw))
KERNEL(group_db,
       swi_norm_make_db(l, swi_norm_image(&l->in[0].type, l->attrs), sw_norm(l->isa)->group_dw))

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
    const sw_norm_args n = swi_norm_image(&r->in_type[0], a);
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

static const sw_grad_desc group_grads[] =
    SWI_NORM_GRADS(1, 2, group_dx, dx_operations, group_dw, group_dw_operations, group_db,
                   swi_norm_db_operations);

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
    return swi_norm_apply(ctx, SW_OP_group_norm, x, weight, bias, &a);
}
