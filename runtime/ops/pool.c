/* Max and average pooling over (batch, c, h, w). y and the index have the layout of x.
 *
 * Max keeps the place in the window that won: two bits per output where windows have at most
 * four places (2x2), else a byte. Average keeps nothing. */
#include "kernels/dispatch.h"
#include "kernels/resample.h"
#include "runtime/ops/ops.h"
#include <math.h>

enum { MOST_PLACES = 255 }; /* of a window: a byte says which won */

static int64_t out_dim(int64_t in, int64_t kernel, const swi_pool_attrs *a)
{
    return (in + 2 * a->pad - kernel) / a->stride + 1;
}

static sw_status pool_infer(const char *op, const sw_type *in, const void *attrs, sw_type *out)
{
    const swi_pool_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    SW_TRY(swi_want_f32(op, in, 1));
    if (x->rank != 4)
        SW_FAIL(SW_INVALID, "%s: the input must be (batch, c, h, w) (got %s)", op,
                SWI_SHAPE(x));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride < 1 || a->pad < 0 ||
        2 * (int64_t)a->pad > a->kernel_h || 2 * (int64_t)a->pad > a->kernel_w)
        SW_FAIL(SW_INVALID,
                "%s: window and stride must be at least 1, padding 0 to half the window (got "
                "window %d x %d, stride %d, padding %d)",
                op, a->kernel_h, a->kernel_w, a->stride, a->pad);
    if (x->dim[2] + 2 * a->pad < a->kernel_h || x->dim[3] + 2 * a->pad < a->kernel_w)
        SW_FAIL(SW_INVALID, "%s: window %d x %d is larger than input %s", op, a->kernel_h,
                a->kernel_w, SWI_SHAPE(x));
    out[0] = (sw_type){SW_F32, in[0].layout,
                       SW_SHAPE(x->dim[0], x->dim[1], out_dim(x->dim[2], a->kernel_h, a),
                                out_dim(x->dim[3], a->kernel_w, a))};
    return SW_OK;
}

static sw_conv geometry(const sw_type *image, const sw_shape *y, const swi_pool_attrs *a)
{
    const sw_shape *x = &image->shape;
    return (sw_conv)SW_INIT(.batch = x->dim[0], .in_c = x->dim[1], .in_h = x->dim[2],
                            .in_w = x->dim[3], .out_c = y->dim[1], .out_h = y->dim[2],
                            .out_w = y->dim[3], .kernel_h = a->kernel_h,
                            .kernel_w = a->kernel_w, .stride = a->stride, .pad = a->pad,
                            .plain = image->layout == SW_PLAIN);
}

static sw_status max_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in;
    const swi_pool_attrs *a = attrs;
    SW_TRY(pool_infer("max_pool2d", in, attrs, out));
    if ((int64_t)a->kernel_h * a->kernel_w > MOST_PLACES)
        SW_FAIL(SW_INVALID, "max_pool2d: the window must have at most %d places (got %d x %d)",
                MOST_PLACES, a->kernel_h, a->kernel_w);
    const sw_conv s = geometry(&in[0], &out[0].shape, a);
    out[1] = out[0];
    out[1].dtype = SW_U8;
    if (sw_pool_packs(&s)) /* of each channel of an image or block */
        out[1] = (sw_type){
            SW_U8,
            SW_PLAIN,
            {3, {s.plain ? s.batch : (s.batch + 15) / 16, s.in_c, sw_pool_index_bytes(&s)}}};
    return SW_OK;
}

INFER(avg_infer, pool_infer("avg_pool2d", in, attrs, out))

static sw_status max_forward(const sw_launch *l)
{
    const sw_conv s = geometry(&l->in[0].type, &l->out[0].type.shape, l->attrs);
    sw_dense(l->isa)->max_pool(swi_out(l, 0), l->n_out > 1 ? l->out[1].ptr : NULL, swi_in(l, 0),
                               &s, l->par);
    return SW_OK;
}

/* in: index, dy */
static sw_status max_dx(const sw_launch *l)
{
    const sw_conv s = geometry(&l->out[0].type, &l->in[1].type.shape, l->attrs);
    sw_dense(l->isa)->max_pool_dx(swi_out(l, 0), swi_in(l, 1), l->in[0].ptr, &s, swi_adds(l, 0),
                                  l->par);
    return SW_OK;
}

static sw_status avg_forward(const sw_launch *l)
{
    const sw_conv s = geometry(&l->in[0].type, &l->out[0].type.shape, l->attrs);
    sw_dense(l->isa)->avg_pool(swi_out(l, 0), swi_in(l, 0), &s, l->par);
    return SW_OK;
}

static sw_status avg_dx(const sw_launch *l)
{
    const sw_conv s = geometry(&l->out[0].type, &l->in[0].type.shape, l->attrs);
    sw_dense(l->isa)->avg_pool_dx(swi_out(l, 0), swi_in(l, 0), &s, swi_adds(l, 0), l->par);
    return SW_OK;
}

/* Places of one window, those outside the image included. */
static uint64_t window_of(const sw_kernel_info *info)
{
    const swi_pool_attrs *a = info->attrs;
    return (uint64_t)a->kernel_h * (uint64_t)a->kernel_w;
}

/* Max: the first place is compared with nothing. Average: as many additions, and a division. */
COUNT(max_operations, swi_count_per_element(&info->out[0], window_of(info) - 1))
COUNT(avg_operations, swi_count_per_element(&info->out[0], window_of(info)))

/* Each place is compared with the one that won, and added to. */
COUNT(max_dx_operations, swi_count_per_element(&info->in[1], 2 * window_of(info)))
COUNT(avg_dx_operations, swi_count_per_element(&info->in[0], window_of(info) + 1))

/* Both, plainly: max over what is inside, or the sum over the window's area. */
static sw_status pool_reference(const sw_reference *r, bool max)
{
    const swi_pool_attrs *a = r->attrs;
    const sw_shape *s = &r->in_type[0].shape, *o = &r->out_type[0].shape;
    double *y = r->out[0];
    for (int64_t nc = 0; nc < o->dim[0] * o->dim[1]; nc++)
        for (int64_t oy = 0; oy < o->dim[2]; oy++)
            for (int64_t ox = 0; ox < o->dim[3]; ox++) {
                double best = -HUGE_VAL, sum = 0;
                for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
                    const int64_t iy = oy * a->stride + k / a->kernel_w - a->pad;
                    const int64_t ix = ox * a->stride + k % a->kernel_w - a->pad;
                    if (iy < 0 || iy >= s->dim[2] || ix < 0 || ix >= s->dim[3])
                        continue;
                    const double x = r->in[0][(nc * s->dim[2] + iy) * s->dim[3] + ix];
                    best = x <= best || isnan(best) ? best : x;
                    sum += x;
                }
                *y++ = max ? best : sum / (double)(a->kernel_h * a->kernel_w);
            }
    return SW_OK;
}

REFERENCE(max_reference, pool_reference(r, true))
REFERENCE(avg_reference, pool_reference(r, false))

static const sw_grad_desc max_grads[] = {
    GRAD(MAKES(0), FROM(SW_OUT(1), SW_DOUT(0)), max_dx, max_dx_operations)};
static const sw_grad_desc avg_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), avg_dx, avg_dx_operations)};

static const swi_pool_attrs windows[] = {{2, 2, 2, 0}, {3, 3, 2, 1}, {5, 4, 1, 0}};
#define POOL_CASES(fill_kind)                                                                  \
    {                                                                                          \
        CASE("2x2", IN(F32(3, 2, 6, 4)), .fill = {fill_kind}, AT(windows[0])),                 \
            CASE("2x2, blocks", IN(F32(16, 2, 4, 6)), .fill = {fill_kind}, AT(windows[0])),    \
            CASE("2x2, odd size, 17 images", IN(F32(17, 2, 5, 7)), .fill = {fill_kind},        \
                 AT(windows[0])),                                                              \
            CASE("overlapping, padded", IN(F32(2, 3, 7, 6)), .fill = {fill_kind},              \
                 AT(windows[1])),                                                              \
            CASE("overlapping, padded, blocks, the last not full", IN(F32(30, 2, 5, 4)),       \
                 .fill = {fill_kind}, AT(windows[1])),                                         \
            CASE("whole image", IN(F32(4, 3, 5, 4)), .fill = {fill_kind}, AT(windows[2])),     \
    }
static const sw_op_case max_cases[] = POOL_CASES(SW_FILL_DISTINCT);
static const sw_op_case avg_cases[] = POOL_CASES(SW_FILL_NORMAL);

OP(max_pool2d, 1, 0, 1, ATTRS(swi_pool_attrs), .n_extra = 1, .infer = max_infer,
   .layout = swi_layout_image, .forward = max_forward, .operations = max_operations,
   GRADS(max_grads), CHECKS(max_reference, max_cases));

OP(avg_pool2d, 1, 0, 1, ATTRS(swi_pool_attrs), .infer = avg_infer, .layout = swi_layout_image,
   .forward = avg_forward, .operations = avg_operations, GRADS(avg_grads),
   CHECKS(avg_reference, avg_cases));

static sw_value pool(sw_ctx *ctx, uint32_t op, sw_value x, int64_t kh, int64_t kw, int stride,
                     int pad)
{
    return sw_op_apply(ctx, op, &x, 1,
                       &(swi_pool_attrs){(int32_t)kh, (int32_t)kw, stride, pad});
}

sw_value sw_max_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad)
{
    return pool(ctx, SW_OP_max_pool2d, x, k, k, stride, pad);
}

sw_value sw_avg_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad)
{
    return pool(ctx, SW_OP_avg_pool2d, x, k, k, stride, pad);
}

sw_value sw_max_pool(sw_ctx *ctx, sw_value x, int k)
{
    return sw_max_pool2d(ctx, x, k, k, 0);
}

sw_value sw_avg_pool(sw_ctx *ctx, sw_value x, int k)
{
    return sw_avg_pool2d(ctx, x, k, k, 0);
}

static sw_value global(sw_ctx *ctx, uint32_t op, sw_value x)
{
    if (sw_rank(ctx, x) != 4 || sw_dim(ctx, x, 2) > 1 << 20 || sw_dim(ctx, x, 3) > 1 << 20)
        return SWI_REFUSE(ctx, "global pooling: the input must be an image (batch, c, h, w)");
    return pool(ctx, op, x, sw_dim(ctx, x, 2), sw_dim(ctx, x, 3), 1, 0);
}

sw_value sw_global_max_pool(sw_ctx *ctx, sw_value x)
{
    const int axes[] = {2, 3};
    const sw_shape s = swi_shape_of(ctx, x);
    if (s.rank == 4 && s.dim[2] > 0 && s.dim[3] > MOST_PLACES / s.dim[2])
        return sw_max_axes(ctx, x, axes, 2, 1);
    return global(ctx, SW_OP_max_pool2d, x);
}

sw_value sw_global_avg_pool(sw_ctx *ctx, sw_value x)
{
    return global(ctx, SW_OP_avg_pool2d, x);
}

/* ==== upsample ============================================================================ */

/* Images (batch, c, h, w) of another size: by the nearest position, or bilinear with half-pixel
 * centres, as kernels/resample.h says; in one axis after the other,
 *
 *   y[oy, ox] = sum over the two rows iy and the two columns ix around it of
 *               (its share of iy) (its share of ix) x[iy, ix]
 *
 * y has the layout of x. Keeps nothing: the shares of dx are those of y, by sizes alone. */

static sw_status upsample_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_upsample_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    SW_TRY(swi_infer_same("upsample", in, n_in, out));
    if (x->rank != 4)
        SW_FAIL(SW_INVALID, "upsample: the input must be (batch, c, h, w) (got %s)",
                SWI_SHAPE(x));
    if (a->mode != SW_NEAREST && a->mode != SW_BILINEAR)
        SW_FAIL(SW_INVALID, "upsample: the mode must be SW_NEAREST or SW_BILINEAR (got %d)",
                a->mode);
    if (a->h < 1 || a->w < 1 || a->h > SW_RESAMPLE_MOST || a->w > SW_RESAMPLE_MOST)
        SW_FAIL(SW_INVALID,
                "upsample: the result must have 1 to %d rows and columns (got %lld x %lld)",
                SW_RESAMPLE_MOST, (long long)a->h, (long long)a->w);
    if (x->dim[2] < 1 || x->dim[3] < 1 || x->dim[2] > SW_RESAMPLE_MOST ||
        x->dim[3] > SW_RESAMPLE_MOST)
        SW_FAIL(SW_INVALID, "upsample: the input must have 1 to %d rows and columns (got %s)",
                SW_RESAMPLE_MOST, SWI_SHAPE(x));
    out[0].shape.dim[2] = a->h;
    out[0].shape.dim[3] = a->w;
    return SW_OK;
}

static sw_resampling upsample_geometry(const sw_type *x, const void *attrs)
{
    const swi_upsample_attrs *a = attrs;
    const int64_t *dim = x->shape.dim;
    return (sw_resampling)SW_INIT(.batch = dim[0], .channels = dim[1], .in_h = dim[2],
                                  .in_w = dim[3], .out_h = a->h, .out_w = a->w,
                                  .linear = a->mode == SW_BILINEAR,
                                  .plain = x->layout == SW_PLAIN);
}

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_resampling s = upsample_geometry(&info->in[0], info->attrs);
    return sw_dense(info->isa)->resample_bytes(&s, false, info->threads);
}

static sw_status upsample_forward(const sw_launch *l)
{
    const sw_resampling s = upsample_geometry(&l->in[0].type, l->attrs);
    sw_dense(l->isa)->resample(swi_out(l, 0), swi_in(l, 0), &s, l->scratch, l->par);
    return SW_OK;
}

/* in: dy */
static size_t dx_bytes(const sw_kernel_info *info)
{
    const sw_resampling s = upsample_geometry(&info->out[0], info->attrs);
    return sw_dense(info->isa)->resample_bytes(&s, true, info->threads);
}

static sw_status upsample_dx_kernel(const sw_launch *l)
{
    const sw_resampling s = upsample_geometry(&l->out[0].type, l->attrs);
    sw_dense(l->isa)->resample_dx(swi_out(l, 0), swi_in(l, 0), &s, swi_adds(l, 0), l->scratch,
                                  l->par);
    return SW_OK;
}

/* Bilinear: two products and their sum for each column of the two rows that are mixed, and for
 * each position of y. */
static uint64_t forward_operations(const sw_kernel_info *info)
{
    const swi_upsample_attrs *a = info->attrs;
    const int64_t *x = info->in[0].shape.dim;
    if (a->mode == SW_NEAREST)
        return 0;
    const uint64_t mixed = swi_count_mul(swi_count_mul((uint64_t)x[0], (uint64_t)x[1]),
                                         swi_count_mul((uint64_t)a->h, (uint64_t)x[3]));
    return swi_count_add(swi_count_mul(3, mixed), swi_count_per_element(&info->out[0], 3));
}

/* Nearest: each number of dy is added to a row, and each of the row's to a column. Bilinear:
 * with its shares, two of each. */
static uint64_t upsample_dx_operations(const sw_kernel_info *info)
{
    const swi_upsample_attrs *a = info->attrs;
    const int64_t *x = info->out[0].shape.dim;
    const uint64_t rows = swi_count_mul(swi_count_mul((uint64_t)x[0], (uint64_t)x[1]),
                                        swi_count_mul((uint64_t)x[2], (uint64_t)a->w));
    const uint64_t each = a->mode == SW_NEAREST ? 1 : 4;
    return swi_count_add(swi_count_per_element(&info->in[0], each), swi_count_mul(each, rows));
}

/* The share of position p of `in` in position i of `out`, from the formula as it is written. */
static double share(int64_t i, int64_t p, int64_t in, int64_t out, bool linear)
{
    if (!linear)
        return i * in / out == p ? 1.0 : 0.0;
    double at = ((double)i + 0.5) * (double)in / (double)out - 0.5;
    at = at > 0.0 ? at : 0.0;
    const int64_t low = (int64_t)at, high = low + 1 < in ? low + 1 : low;
    return (low == p ? 1.0 - (at - (double)low) : 0.0) + (high == p ? at - (double)low : 0.0);
}

static sw_status upsample_reference(const sw_reference *r)
{
    const swi_upsample_attrs *a = r->attrs;
    const int64_t *x = r->in_type[0].shape.dim;
    const bool linear = a->mode == SW_BILINEAR;
    double *y = r->out[0];
    for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
        for (int64_t i = 0; i < a->h * a->w; i++) {
            double sum = 0;
            for (int64_t p = 0; p < x[2] * x[3]; p++) {
                const double by = share(i / a->w, p / x[3], x[2], a->h, linear) *
                                  share(i % a->w, p % x[3], x[3], a->w, linear);
                if (by != 0.0)
                    sum += by * r->in[0][plane * x[2] * x[3] + p];
            }
            *y++ = sum;
        }
    return SW_OK;
}

static const sw_grad_desc upsample_grads[] = {GRAD(MAKES(0), FROM(SW_DOUT(0)),
                                                   upsample_dx_kernel, upsample_dx_operations,
                                                   .scratch_bytes = dx_bytes)};

static const swi_upsample_attrs sizes[] = {{8, 6, SW_NEAREST, 0},  {8, 6, SW_BILINEAR, 0},
                                           {7, 11, SW_NEAREST, 0}, {7, 11, SW_BILINEAR, 0},
                                           {3, 2, SW_NEAREST, 0},  {3, 2, SW_BILINEAR, 0},
                                           {6, 46, SW_NEAREST, 0}, {6, 46, SW_BILINEAR, 0}};
/* Of either mode: k and k + 1. */
#define BOTH(text, k, ...)                                                                     \
    CASE("nearest, " text, IN(F32(__VA_ARGS__)), AT(sizes[k])),                                \
        CASE("bilinear, " text, IN(F32(__VA_ARGS__)), AT(sizes[(k) + 1]))
static const sw_op_case upsample_cases[] = {
    BOTH("twice", 0, 3, 2, 4, 3),
    BOTH("twice, blocks", 0, 16, 2, 4, 3),
    BOTH("twice, wide rows", 6, 2, 3, 3, 23),
    BOTH("other sizes", 2, 2, 3, 4, 5),
    BOTH("other sizes, blocks, the last not full", 2, 30, 2, 4, 5),
    BOTH("smaller", 4, 3, 2, 7, 5),
    BOTH("smaller, 17 images", 4, 17, 2, 7, 5),
    BOTH("of one position", 2, 5, 3, 1, 1),
    BOTH("the same size", 4, 2, 2, 3, 2),
};

OP(upsample, 1, 0, 1, ATTRS(swi_upsample_attrs), .infer = upsample_infer,
   .layout = swi_layout_image, .rebuild = 1, .scratch_bytes = forward_bytes,
   .forward = upsample_forward, .operations = forward_operations, GRADS(upsample_grads),
   CHECKS(upsample_reference, upsample_cases));

sw_value sw_upsample_to(sw_ctx *ctx, sw_value x, int64_t h, int64_t w, sw_upsample_mode mode)
{
    return sw_op_apply(ctx, SW_OP_upsample, &x, 1,
                       &(swi_upsample_attrs){h, w, (int32_t)mode, 0});
}

sw_value sw_upsample(sw_ctx *ctx, sw_value x, int factor, sw_upsample_mode mode)
{
    const sw_shape s = swi_shape_of(ctx, x);
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    if (factor >= 1 && s.rank == 4 && s.dim[2] <= SW_RESAMPLE_MOST &&
        s.dim[3] <= SW_RESAMPLE_MOST)
        return sw_upsample_to(ctx, x, s.dim[2] * factor, s.dim[3] * factor, mode);
    if (factor < 1)
        return SWI_REFUSE(ctx, "upsample: the factor must be at least 1 (got %d)", factor);
    return SWI_REFUSE(ctx, "upsample: the input must be an image (batch, c, h, w)");
}

/* ==== channel scale ======================================================================= */

/* y = x * s: images (batch, c, h, w) by one number for each image and channel (batch, c, 1, 1),
 * the end of squeeze-and-excitation. y has the layout of x.
 *
 * Keeps x and s: dx = dy s, ds = the sum of dy x over a plane. */

static sw_status scale_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *x = &in[0].shape, *s = &in[1].shape;
    SW_TRY(swi_want_f32("channel_scale", in, n_in));
    if (x->rank != 4 || s->rank != 4 || s->dim[0] != x->dim[0] || s->dim[1] != x->dim[1] ||
        s->dim[2] != 1 || s->dim[3] != 1)
        SW_FAIL(SW_INVALID,
                "channel_scale: the inputs must be (batch, c, h, w) and (batch, c, 1, 1) (got "
                "%s and %s)",
                SWI_SHAPE(x), SWI_SHAPE(s));
    out[0] = in[0];
    return SW_OK;
}

static sw_scale_args args_of(const sw_launch *l)
{
    const sw_type *x = &l->in[0].type;
    return (sw_scale_args){.half = x->dtype == SW_BF16,
                           .batch = x->shape.dim[0],
                           .channels = x->shape.dim[1],
                           .positions = x->shape.dim[2] * x->shape.dim[3],
                           .plain = x->layout == SW_PLAIN};
}

static sw_status scale_forward(const sw_launch *l)
{
    sw_scale_args a = args_of(l);
    a.y = swi_out(l, 0);
    a.x = swi_in(l, 0);
    a.s = swi_in(l, 1);
    a.add_y = swi_adds(l, 0);
    sw_dense(l->isa)->channel_scale(&a, l->par);
    return SW_OK;
}

/* dy is operand 0; x, s, dx and ds are these operands, -1: none. */
static sw_status make(const sw_launch *l, int x, int s, int dx, int ds)
{
    sw_scale_args a = args_of(l);
    a.dy = swi_in(l, 0);
    a.x = x >= 0 ? swi_in(l, x) : NULL;
    a.s = s >= 0 ? swi_in(l, s) : NULL;
    if (dx >= 0) {
        a.dx = swi_out(l, dx);
        a.add_dx = swi_adds(l, dx);
    }
    if (ds >= 0) {
        a.ds = swi_out(l, ds);
        a.add_ds = swi_adds(l, ds);
    }
    sw_dense(l->isa)->channel_scale_grad(&a, l->par);
    return SW_OK;
}

KERNEL(both_kernel, make(l, 1, 2, 0, 1))
KERNEL(scale_dx_kernel, make(l, -1, 1, 0, -1))
KERNEL(ds_kernel, make(l, 1, -1, -1, 0))
COUNT(both_operations, swi_count_per_element(&info->in[0], 3))
COUNT(scale_dx_operations, swi_count_per_element(&info->in[0], 1))
COUNT(ds_operations, swi_count_per_element(&info->in[0], 2))

static sw_status scale_reference(const sw_reference *r)
{
    const sw_shape *x = &r->in_type[0].shape;
    for (int64_t i = 0; i < swi_elements(x); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][i / (x->dim[2] * x->dim[3])];
    return SW_OK;
}

static const sw_grad_desc scale_grads[] = {
    GRAD(MAKES(0, 1), FROM(SW_DOUT(0), SW_IN(0), SW_IN(1)), both_kernel, both_operations,
         .inplace = 3),
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(1)), scale_dx_kernel, scale_dx_operations),
    GRAD(MAKES(1), FROM(SW_DOUT(0), SW_IN(0)), ds_kernel, ds_operations),
};

static const sw_op_case scale_cases[] = {
    CASE("plain", IN(F32(3, 2, 5, 7), F32(3, 2, 1, 1))),
    CASE("one element", IN(F32(1, 1, 1, 1), F32(1, 1, 1, 1))),
    CASE("wide", IN(F32(2, 3, 9, 17), F32(2, 3, 1, 1))),
    CASE("17 images in blocks", IN(N16(17, 3, 3, 5), N16(17, 3, 1, 1))),
    CASE("blocks, one place", IN(N16(33, 2, 1, 1), N16(33, 2, 1, 1))),
};

OP(channel_scale, 2, 0, 1, .infer = scale_infer, .layout = swi_layout_first, .inplace = 1,
   .rebuild = 1, .forward = scale_forward, GRADS(scale_grads),
   CHECKS(scale_reference, scale_cases));
