/* Max and average pooling over (batch, c, h, w). y and the index have the layout of x.
 *
 * Max keeps the place in the window that won: two bits per output where windows have at most
 * four places (2x2), else a byte. Average keeps nothing. */
#include "kernels/dispatch.h"
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
    char s[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32(op, in, 1));
    if (x->rank != 4)
        SW_FAIL(SW_INVALID, "%s: the input must be (batch, c, h, w) (got %s)", op,
                swi_shape_text(x, s));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride < 1 || a->pad < 0 ||
        2 * (int64_t)a->pad > a->kernel_h || 2 * (int64_t)a->pad > a->kernel_w)
        SW_FAIL(SW_INVALID,
                "%s: window and stride must be at least 1, padding 0 to half the window (got "
                "window %d x %d, stride %d, padding %d)",
                op, a->kernel_h, a->kernel_w, a->stride, a->pad);
    if (x->dim[2] + 2 * a->pad < a->kernel_h || x->dim[3] + 2 * a->pad < a->kernel_w)
        SW_FAIL(SW_INVALID, "%s: window %d x %d is larger than input %s", op, a->kernel_h,
                a->kernel_w, swi_shape_text(x, s));
    out[0] = (sw_type){SW_F32,
                       in[0].layout,
                       {4,
                        {x->dim[0], x->dim[1], out_dim(x->dim[2], a->kernel_h, a),
                         out_dim(x->dim[3], a->kernel_w, a)}}};
    return SW_OK;
}

static sw_conv geometry(const sw_type *image, const sw_shape *y, const swi_pool_attrs *a)
{
    const sw_shape *x = &image->shape;
    return (sw_conv){.batch = x->dim[0],
                     .in_c = x->dim[1],
                     .in_h = x->dim[2],
                     .in_w = x->dim[3],
                     .out_c = y->dim[1],
                     .out_h = y->dim[2],
                     .out_w = y->dim[3],
                     .kernel_h = a->kernel_h,
                     .kernel_w = a->kernel_w,
                     .stride = a->stride,
                     .pad = a->pad,
                     .plain = image->layout == SW_PLAIN};
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

static const swi_pool_attrs attrs[] = {{2, 2, 2, 0}, {3, 3, 2, 1}, {5, 4, 1, 0}};
#define POOL_CASES(fill_kind)                                                                  \
    {                                                                                          \
        CASE("2x2", IN(F32(3, 2, 6, 4)), .fill = {fill_kind}, AT(attrs[0])),                   \
            CASE("2x2, blocks", IN(F32(16, 2, 4, 6)), .fill = {fill_kind}, AT(attrs[0])),      \
            CASE("2x2, odd size, 17 images", IN(F32(17, 2, 5, 7)), .fill = {fill_kind},        \
                 AT(attrs[0])),                                                                \
            CASE("overlapping, padded", IN(F32(2, 3, 7, 6)), .fill = {fill_kind},              \
                 AT(attrs[1])),                                                                \
            CASE("overlapping, padded, blocks, the last not full", IN(F32(30, 2, 5, 4)),       \
                 .fill = {fill_kind}, AT(attrs[1])),                                           \
            CASE("whole image", IN(F32(4, 3, 5, 4)), .fill = {fill_kind}, AT(attrs[2])),       \
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
    const swi_pool_attrs a = {(int32_t)kh, (int32_t)kw, stride, pad};
    return sw_op_apply(ctx, op, &x, 1, &a);
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
    if (sw_rank(ctx, x) != 4 || sw_dim(ctx, x, 2) > 1 << 20 || sw_dim(ctx, x, 3) > 1 << 20) {
        sw_fail(ctx, SW_INVALID, "global pooling: the input must be an image (batch, c, h, w)");
        return (sw_value){0, 0};
    }
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
