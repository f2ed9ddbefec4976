/* Images (batch, c, h, w) of another size: by the nearest position, or bilinear with half-pixel
 * centres, as kernels/resample.h says; in one axis after the other,
 *
 *   y[oy, ox] = sum over the two rows iy and the two columns ix around it of
 *               (its share of iy) (its share of ix) x[iy, ix]
 *
 * y has the layout of x. Keeps nothing: the shares of dx are those of y, by sizes alone. */
#include "kernels/dispatch.h"
#include "kernels/resample.h"
#include "runtime/ops/ops.h"
#include <stdio.h>

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_upsample_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    char s[SWI_SHAPE_TEXT];
    SW_TRY(swi_infer_same("upsample", in, n_in, out));
    if (x->rank != 4)
        SW_FAIL(SW_INVALID, "upsample: the input must be (batch, c, h, w) (got %s)",
                swi_shape_text(x, s));
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
                SW_RESAMPLE_MOST, swi_shape_text(x, s));
    out[0].shape.dim[2] = a->h;
    out[0].shape.dim[3] = a->w;
    return SW_OK;
}

static sw_resampling geometry(const sw_type *x, const void *attrs)
{
    const swi_upsample_attrs *a = attrs;
    const int64_t *dim = x->shape.dim;
    return (sw_resampling){.batch = dim[0],
                           .channels = dim[1],
                           .in_h = dim[2],
                           .in_w = dim[3],
                           .out_h = a->h,
                           .out_w = a->w,
                           .linear = a->mode == SW_BILINEAR,
                           .plain = x->layout == SW_PLAIN};
}

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_resampling s = geometry(&info->in[0], info->attrs);
    return sw_dense(info->isa)->resample_bytes(&s, false, info->threads);
}

static sw_status forward(const sw_launch *l)
{
    const sw_resampling s = geometry(&l->in[0].type, l->attrs);
    sw_dense(l->isa)->resample(swi_out(l, 0), swi_in(l, 0), &s, l->scratch, l->par);
    return SW_OK;
}

/* in: dy */
static size_t dx_bytes(const sw_kernel_info *info)
{
    const sw_resampling s = geometry(&info->out[0], info->attrs);
    return sw_dense(info->isa)->resample_bytes(&s, true, info->threads);
}

static sw_status dx_kernel(const sw_launch *l)
{
    const sw_resampling s = geometry(&l->out[0].type, l->attrs);
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
static uint64_t dx_operations(const sw_kernel_info *info)
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

static sw_status reference(const sw_reference *r)
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

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), dx_kernel, dx_operations, .scratch_bytes = dx_bytes)};

static const swi_upsample_attrs attrs[] = {{8, 6, SW_NEAREST, 0},  {8, 6, SW_BILINEAR, 0},
                                           {7, 11, SW_NEAREST, 0}, {7, 11, SW_BILINEAR, 0},
                                           {3, 2, SW_NEAREST, 0},  {3, 2, SW_BILINEAR, 0},
                                           {6, 46, SW_NEAREST, 0}, {6, 46, SW_BILINEAR, 0}};
/* Of either mode: k and k + 1. */
#define BOTH(text, k, ...)                                                                     \
    CASE("nearest, " text, IN(F32(__VA_ARGS__)), AT(attrs[k])),                                \
        CASE("bilinear, " text, IN(F32(__VA_ARGS__)), AT(attrs[(k) + 1]))
static const sw_op_case cases[] = {
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

OP(upsample, 1, 0, 1, ATTRS(swi_upsample_attrs), .infer = infer, .layout = swi_layout_image,
   .rebuild = 1, .scratch_bytes = forward_bytes, .forward = forward,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_upsample_to(sw_ctx *ctx, sw_value x, int64_t h, int64_t w, sw_upsample_mode mode)
{
    const swi_upsample_attrs a = {h, w, (int32_t)mode, 0};
    return sw_op_apply(ctx, SW_OP_upsample, &x, 1, &a);
}

sw_value sw_upsample(sw_ctx *ctx, sw_value x, int factor, sw_upsample_mode mode)
{
    const sw_shape s = swi_shape_of(ctx, x);
    char text[96];
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    if (factor >= 1 && s.rank == 4 && s.dim[2] <= SW_RESAMPLE_MOST &&
        s.dim[3] <= SW_RESAMPLE_MOST)
        return sw_upsample_to(ctx, x, s.dim[2] * factor, s.dim[3] * factor, mode);
    if (factor < 1)
        snprintf(text, sizeof text, "upsample: the factor must be at least 1 (got %d)", factor);
    else
        snprintf(text, sizeof text, "upsample: the input must be an image (batch, c, h, w)");
    sw_fail(ctx, SW_INVALID, text);
    return (sw_value){0, 0};
}
