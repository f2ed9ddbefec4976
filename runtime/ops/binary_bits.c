/* Ops around layers of bits: bits of numbers, pooling, the scale of logits. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

/* ---- binarize: x (batch, c, positions...) -> bits x > value (batch, positions..., bytes) --
 */

static sw_status binarize_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const sw_shape *x = &in[0].shape;
    char s[SWI_SHAPE_TEXT];
    (void)n_in, (void)attrs;
    SW_TRY(swi_want_f32("binarize", in, 1));
    if (x->rank < 2 || x->dim[1] < 1)
        SW_FAIL(SW_INVALID, "binarize: x must be (batch, channels, ...) (got %s)",
                swi_shape_text(x, s));
    out[0] = (sw_type){SW_U8, SW_PLAIN, {x->rank, {x->dim[0]}}};
    for (int i = 2; i < x->rank; i++)
        out[0].shape.dim[i - 1] = x->dim[i];
    out[0].shape.dim[x->rank - 1] = 8 * sw_binary_words(x->dim[1]);
    return SW_OK;
}

static int64_t positions_of(const sw_shape *x)
{
    int64_t n = 1;
    for (int i = 2; i < x->rank; i++)
        n *= x->dim[i];
    return n;
}

static sw_status binarize_forward(const sw_launch *l)
{
    const sw_shape *x = &l->in[0].type.shape;
    sw_binary(l->isa)->pack(l->out[0].ptr, swi_in(l, 0), x->dim[0], x->dim[1], positions_of(x),
                            ((const swi_number_attrs *)l->attrs)->value, l->par);
    return SW_OK;
}

static sw_status binarize_reference(const sw_reference *r)
{
    const sw_shape *x = &r->in_type[0].shape;
    const int64_t positions = positions_of(x), bytes = 8 * sw_binary_words(x->dim[1]);
    const double value = (double)((const swi_number_attrs *)r->attrs)->value;
    for (int64_t i = 0; i < x->dim[0] * positions * bytes; i++)
        r->out[0][i] = 0.0;
    for (int64_t i = 0; i < x->dim[0] * positions; i++)
        for (int64_t c = 0; c < x->dim[1]; c++)
            if (r->in[0][(i / positions * x->dim[1] + c) * positions + i % positions] > value)
                r->out[0][i * bytes + c / 8] += (double)(1 << c % 8);
    return SW_OK;
}

COUNT(of_input, swi_count_per_element(&info->in[0], 1))

static const swi_number_attrs zero = {0.0f}, half = {0.5f};
static const sw_op_case binarize_cases[] = {
    CASE("rows", IN(F32(7, 130)), AT(zero)),
    CASE("images", IN(F32(3, 70, 5, 4)), FILL(UNIT), AT(half)),
    CASE("many", IN(F32(300, 64)), AT(half)),
};

OP(binarize, 1, 0, 1, ATTRS(swi_number_attrs), .infer = binarize_infer,
   .forward = binarize_forward, .no_gradient = 1, .operations = of_input,
   CHECKS(binarize_reference, binarize_cases));

sw_value sw_binarize(sw_ctx *ctx, sw_value x, float threshold)
{
    const swi_number_attrs a = {threshold};
    return sw_op_apply(ctx, SW_OP_binarize, &x, 1, &a);
}

/* ---- max pooling: OR ----------------------------------------------------------------------
 */

static sw_status pool_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_pool_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    char s[SWI_SHAPE_TEXT];
    (void)n_in;
    if (in[0].dtype != SW_U8 || x->rank != 4 || x->dim[3] % 8 != 0)
        SW_FAIL(SW_INVALID,
                "binary_max_pool2d: bits must be u8 (batch, h, w, bytes) of whole words (got "
                "%s %s)",
                sw_dtype_name(in[0].dtype), swi_shape_text(x, s));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride < 1 || a->kernel_h > x->dim[1] ||
        a->kernel_w > x->dim[2])
        SW_FAIL(SW_INVALID,
                "binary_max_pool2d: window and stride must be at least 1, the window no larger "
                "than the image (got window %d x %d, stride %d, %s)",
                a->kernel_h, a->kernel_w, a->stride, swi_shape_text(x, s));
    out[0] = (sw_type){SW_U8,
                       SW_PLAIN,
                       {4,
                        {x->dim[0], (x->dim[1] - a->kernel_h) / a->stride + 1,
                         (x->dim[2] - a->kernel_w) / a->stride + 1, x->dim[3]}}};
    return SW_OK;
}

static sw_status pool_forward(const sw_launch *l)
{
    const swi_pool_attrs *a = l->attrs;
    const int64_t *x = l->in[0].type.shape.dim, *y = l->out[0].type.shape.dim;
    const sw_binary_shape s = {.batch = x[0],
                               .in_h = x[1],
                               .in_w = x[2],
                               .out_h = y[1],
                               .out_w = y[2],
                               .channels = 8 * x[3],
                               .kernel_h = a->kernel_h,
                               .kernel_w = a->kernel_w,
                               .stride = a->stride};
    sw_binary(l->isa)->max_pool(l->out[0].ptr, l->in[0].ptr, &s, l->par);
    return SW_OK;
}

static sw_status pool_reference(const sw_reference *r)
{
    const swi_pool_attrs *a = r->attrs;
    const int64_t *x = r->in_type[0].shape.dim, *y = r->out_type[0].shape.dim;
    for (int64_t i = 0; i < sw_type_elements(&r->out_type[0]); i++) {
        const int64_t b = i % y[3], ox = i / y[3] % y[2], oy = i / y[3] / y[2] % y[1];
        const int64_t n = i / y[3] / y[2] / y[1];
        int any = 0;
        for (int ky = 0; ky < a->kernel_h; ky++)
            for (int kx = 0; kx < a->kernel_w; kx++)
                any |= (int)r->in[0][((n * x[1] + oy * a->stride + ky) * x[2] + ox * a->stride +
                                      kx) *
                                         x[3] +
                                     b];
        r->out[0][i] = (double)any;
    }
    return SW_OK;
}

/* One for each byte of each window. */
static uint64_t pool_operations(const sw_kernel_info *info)
{
    const swi_pool_attrs *a = info->attrs;
    return swi_count_per_element(&info->out[0], (uint64_t)a->kernel_h * (uint64_t)a->kernel_w);
}

static const swi_pool_attrs two = {2, 2, 2, 0}, three = {3, 3, 2, 0};
static const sw_op_case pool_cases[] = {
    CASE("2x2", IN(U8(3, 6, 5, 8)), FILL(BYTES), AT(two)),
    CASE("overlapping", IN(U8(2, 7, 8, 24)), FILL(BYTES), AT(three)),
};

OP(binary_max_pool2d, 1, 0, 1, ATTRS(swi_pool_attrs), .infer = pool_infer,
   .forward = pool_forward, .no_gradient = 1, .operations = pool_operations,
   CHECKS(pool_reference, pool_cases));

sw_value sw_binary_max_pool2d(sw_ctx *ctx, sw_value bits, int k, int stride)
{
    const swi_pool_attrs a = {k, k, stride, 0};
    return sw_op_apply(ctx, SW_OP_binary_max_pool2d, &bits, 1, &a);
}

/* ---- logit_scale: 5 / (mean |w| + 1e-5) of all of a weight --------------------------------
 */

static sw_status scale_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    SW_TRY(swi_want_f32("logit_scale", in, 1));
    if (in[0].shape.rank < 2 || swi_elements(&in[0].shape) == 0)
        SW_FAIL(SW_INVALID, "logit_scale: logits must be (out, in, ...), not empty");
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    return SW_OK;
}

SCRATCH(scale_scratch, (size_t)info->in[0].shape.dim[0] * sizeof(double))

static sw_status scale_forward(const sw_launch *l)
{
    const sw_shape *w = &l->in[0].type.shape;
    const int64_t n = swi_elements(w), rows = w->dim[0];
    double *sums = l->scratch, sum = 0.0;
    sw_binary(l->isa)->row_sums(sums, swi_in(l, 0), rows, n / rows, l->par);
    for (int64_t i = 0; i < rows; i++)
        sum += sums[i];
    *swi_out(l, 0) = (float)(5.0 / (sum / (double)n + 1e-5));
    return SW_OK;
}

static sw_status scale_reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs(r->in[0][i]);
    r->out[0][0] = 5.0 / (sum / (double)n + 1e-5);
    return SW_OK;
}

COUNT(scale_operations, swi_count_per_element(&info->in[0], 2))

static const sw_op_case scale_cases[] = {
    CASE("matrix", IN(F32(9, 37))),
    CASE("filters", IN(F32(40, 50, 3, 3))),
};

OP(logit_scale, 1, 0, 1, .infer = scale_infer, .scratch_bytes = scale_scratch,
   .forward = scale_forward, .no_gradient = 1, .operations = scale_operations,
   CHECKS(scale_reference, scale_cases));
