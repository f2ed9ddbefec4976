/* y (batch, out, h', w') = transposed convolution of x (batch, in, h, w) with w (in, out /
 * groups, kh, kw), plus b (out): the gradient of the input of that convolution, whose result x
 * would be the gradient of, h' = (h - 1) stride - 2 pad + dilation (kh - 1) + output_pad + 1. y
 * has the layout of x.
 *
 * All kernels are those of the convolution from y to x: y is its dx, dx its result, dw its dw
 * with both images changed over. Keeps x for dw and w for dx. */
#include "kernels/dispatch.h"
#include "runtime/base/structs.h"
#include "runtime/ops/conv_geometry.h"
#include <string.h>

static int64_t out_dim(int64_t in, int64_t kernel, const swi_conv_transpose_attrs *a)
{
    return (in - 1) * a->conv.stride - 2 * (int64_t)a->conv.pad +
           (kernel - 1) * a->conv.dilation + a->output_pad + 1;
}

static sw_status check_numbers(const swi_conv_transpose_attrs *t)
{
    const swi_conv_attrs *a = &t->conv;
    const int most = 1 << 20;
    if (a->stride < 1 || a->stride > most || a->pad < 0 || a->pad > most || a->dilation < 1 ||
        a->dilation > most || a->groups < 1)
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: stride, dilation and groups must be at least 1, padding at "
                "least 0, stride, padding and dilation at most %d (got stride %d, padding %d, "
                "dilation %d, groups %d)",
                most, a->stride, a->pad, a->dilation, a->groups);
    if (t->output_pad < 0 || t->output_pad >= a->stride)
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: the output padding must be at least 0 and below the stride "
                "(got output padding %d, stride %d)",
                t->output_pad, a->stride);
    return SW_OK;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_conv_transpose_attrs *a = attrs;
    const sw_shape *x = &in[0].shape, *w = &in[1].shape;
    const int64_t groups = a->conv.groups, most = (int64_t)1 << 31;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("conv_transpose2d", in, n_in));
    SW_TRY(check_numbers(a));
    if (x->rank != 4 || w->rank != 4 || x->dim[1] != w->dim[0] || x->dim[1] % groups != 0)
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: input and weight must be (batch, in, h, w) and (in, out / "
                "groups, kh, kw), in a multiple of groups (got %s and %s with groups %lld)",
                swi_shape_text(x, s), swi_shape_text(w, t), (long long)groups);
    for (int i = 2; i < 4; i++)
        if (x->dim[i] < 1 || x->dim[i] > most || w->dim[i] < 1 || w->dim[i] > most ||
            out_dim(x->dim[i], w->dim[i], a) < 1)
            SW_FAIL(
                SW_INVALID,
                "conv_transpose2d: input %s with a kernel of %s and padding %d has no result",
                swi_shape_text(x, s), swi_shape_text(w, t), a->conv.pad);
    int64_t channels;
    if (__builtin_mul_overflow(w->dim[1], groups, &channels))
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: the output channels overflow (weight %s, groups %lld)",
                swi_shape_text(w, s), (long long)groups);
    if (n_in > 2 && (in[2].shape.rank != 1 || in[2].shape.dim[0] != channels))
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: the bias must be (out) (got %s for %lld channels)",
                swi_shape_text(&in[2].shape, s), (long long)channels);
    out[0] = (sw_type){SW_F32,
                       in[0].layout,
                       {4,
                        {x->dim[0], channels, out_dim(x->dim[2], w->dim[2], a),
                         out_dim(x->dim[3], w->dim[3], a)}}};
    return SW_OK;
}

/* The convolution from y to x, which leaves out what output_pad adds. */
static sw_conv geometry(const sw_type *y, const sw_shape *w, const void *attrs)
{
    return swi_conv_geometry(y, w, &((const swi_conv_transpose_attrs *)attrs)->conv);
}

COUNT(forward_operations,
      swi_count_add(swi_conv_taps(&info->in[0], &info->in[1].shape),
                    info->n_in > 2 ? swi_count_per_element(&info->out[0], 1) : 0))

static size_t forward_bytes(const sw_kernel_info *info)
{
    const sw_conv s = geometry(&info->out[0], &info->in[1].shape, info->attrs);
    return swi_conv_misses(&s) ? 0 : sw_dense(info->isa)->conv_dx_bytes(&s, info->threads);
}

static sw_status forward(const sw_launch *l)
{
    const sw_conv s = geometry(&l->out[0].type, &l->in[1].type.shape, l->attrs);
    if (swi_conv_misses(&s))
        return swi_conv_fill(l, 0, l->n_in > 2 ? swi_in(l, 2) : NULL);
    sw_dense(l->isa)->conv_dx(swi_out(l, 0), swi_in(l, 0), swi_in(l, 1),
                              l->n_in > 2 ? swi_in(l, 2) : NULL, &s, swi_adds(l, 0), l->scratch,
                              l->par);
    return SW_OK;
}

/* in: w, dy; out: dx */
static size_t dx_bytes(const sw_kernel_info *info)
{
    const sw_conv s = geometry(&info->in[1], &info->in[0].shape, info->attrs);
    return swi_conv_misses(&s) ? 0 : sw_dense(info->isa)->conv_bytes(&s, info->threads);
}

COUNT(dx_operations, swi_conv_taps(&info->out[0], &info->in[0].shape))

static sw_status dx_kernel(const sw_launch *l)
{
    const sw_conv s = geometry(&l->in[1].type, &l->in[0].type.shape, l->attrs);
    if (swi_conv_misses(&s))
        return swi_conv_fill(l, 0, NULL);
    sw_dense(l->isa)->conv(swi_out(l, 0), swi_in(l, 1), swi_in(l, 0), NULL, &s, swi_adds(l, 0),
                           l->scratch, l->par);
    return SW_OK;
}

/* in: x, dy; out: dw. Lanes of dy past the batch are zero, those of x finite. */
static size_t dw_bytes(const sw_kernel_info *info)
{
    const sw_conv s = geometry(&info->in[1], &info->out[0].shape, info->attrs);
    return swi_conv_misses(&s) ? 0 : sw_dense(info->isa)->conv_dw_bytes(&s);
}

COUNT(dw_operations, swi_conv_taps(&info->in[0], &info->out[0].shape))

static sw_status dw_kernel(const sw_launch *l)
{
    const sw_conv s = geometry(&l->in[1].type, &l->out[0].type.shape, l->attrs);
    if (swi_conv_misses(&s))
        return swi_conv_fill(l, 0, NULL);
    sw_dense(l->isa)->conv_dw(swi_out(l, 0), NULL, swi_in(l, 1), swi_in(l, 0), &s,
                              swi_adds(l, 0), false, l->scratch, l->par);
    return SW_OK;
}

static uint32_t unread(const sw_kernel_info *info, int grad)
{
    const sw_type *y = grad < 0 ? &info->out[0] : &info->in[1];
    const sw_shape *w = grad < 0    ? &info->in[1].shape
                        : grad == 0 ? &info->in[0].shape
                                    : &info->out[0].shape;
    if (grad == 2)
        return 0;
    const sw_conv s = geometry(y, w, info->attrs);
    return swi_conv_misses(&s) ? 3u : 0;
}

/* Each position of x adds its kernel to y. */
static void spread(const sw_reference *r, int64_t n, int64_t c, int64_t i, double *y)
{
    const swi_conv_attrs *a = &((const swi_conv_transpose_attrs *)r->attrs)->conv;
    const sw_shape *x = &r->in_type[0].shape, *w = &r->in_type[1].shape;
    const sw_shape *o = &r->out_type[0].shape;
    const double value = r->in[0][(n * x->dim[1] + c) * x->dim[2] * x->dim[3] + i];
    const double *k = r->in[1] + c * w->dim[1] * w->dim[2] * w->dim[3];
    const int64_t first = c / (x->dim[1] / a->groups) * w->dim[1];
    for (int64_t f = first; f < first + w->dim[1]; f++)
        for (int64_t ky = 0; ky < w->dim[2]; ky++)
            for (int64_t kx = 0; kx < w->dim[3]; kx++, k++) {
                const int64_t oy = i / x->dim[3] * a->stride + ky * a->dilation - a->pad;
                const int64_t ox = i % x->dim[3] * a->stride + kx * a->dilation - a->pad;
                if (oy >= 0 && oy < o->dim[2] && ox >= 0 && ox < o->dim[3])
                    y[((n * o->dim[1] + f) * o->dim[2] + oy) * o->dim[3] + ox] += *k * value;
            }
}

static sw_status reference(const sw_reference *r)
{
    const sw_shape *x = &r->in_type[0].shape, *o = &r->out_type[0].shape;
    const int64_t plane = o->dim[2] * o->dim[3];
    for (int64_t i = 0; i < swi_elements(o); i++)
        r->out[0][i] = r->n_in > 2 ? r->in[2][i / plane % o->dim[1]] : 0.0;
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c++)
            for (int64_t i = 0; i < x->dim[2] * x->dim[3]; i++)
                spread(r, n, c, i, r->out[0]);
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), dx_kernel, dx_operations,
         .scratch_bytes = dx_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dw_kernel, dw_operations,
         .scratch_bytes = dw_bytes),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), swi_channel_sums, swi_channel_sums_operations)};

static const swi_conv_transpose_attrs attrs[] = {
    {{1, 0, 1, 1}, 0, 0}, {{2, 0, 1, 1}, 0, 0}, {{2, 1, 1, 1}, 1, 0}, {{3, 1, 1, 1}, 2, 0},
    {{2, 1, 1, 2}, 0, 0}, {{2, 1, 1, 3}, 1, 0}, {{1, 1, 1, 3}, 0, 0}, {{2, 1, 2, 1}, 1, 0},
    {{1, 2, 1, 1}, 0, 0}, {{2, 2, 4, 1}, 1, 0}};
static const sw_op_case cases[] = {
    CASE("windows that miss the image", IN(F32(3, 2, 1, 1), F32(2, 3, 2, 2), F32(3)),
         AT(attrs[9])),
    CASE("windows that miss the image, blocks, the last not full",
         IN(F32(30, 2, 1, 1), F32(2, 3, 2, 2), F32(3)), AT(attrs[9])),
    CASE("3x3", IN(F32(2, 3, 4, 5), F32(3, 2, 3, 3), F32(2)), AT(attrs[0])),
    CASE("2x2, stride 2", IN(F32(3, 4, 3, 5), F32(4, 5, 2, 2), F32(5)), AT(attrs[1])),
    CASE("3x3, stride 2, blocks", IN(F32(16, 3, 3, 4), F32(3, 7, 3, 3), F32(7)), AT(attrs[2])),
    CASE("3x3, stride 2, 17 images", IN(F32(17, 2, 4, 3), F32(2, 3, 3, 3), F32(3)),
         AT(attrs[2])),
    CASE("blocks, the last not full", IN(F32(30, 2, 3, 4), F32(2, 3, 4, 4)), AT(attrs[2])),
    CASE("stride larger than the kernel", IN(F32(2, 2, 4, 3), F32(2, 3, 2, 1), F32(3)),
         AT(attrs[3])),
    CASE("groups", IN(F32(3, 4, 3, 4), F32(4, 3, 3, 3), F32(6)), AT(attrs[4])),
    CASE("depthwise, stride 2", IN(F32(2, 3, 5, 4), F32(3, 1, 3, 3), F32(3)), AT(attrs[5])),
    CASE("depthwise, 33 images", IN(F32(33, 3, 4, 4), F32(3, 1, 5, 5)), AT(attrs[6])),
    CASE("dilation", IN(F32(2, 2, 4, 3), F32(2, 3, 3, 2)), AT(attrs[7])),
    CASE("padding larger than the kernel", IN(F32(2, 2, 7, 6), F32(2, 3, 1, 2)), AT(attrs[8])),
    CASE("1x1, blocks, the last not full", IN(F32(17, 7, 3, 5), F32(7, 9, 1, 1), F32(9)),
         AT(attrs[0])),
    CASE("1x1, 20 channels", IN(F32(3, 5, 4, 9), F32(5, 20, 1, 1), F32(20)), AT(attrs[0])),
    CASE("34 channels", IN(F32(2, 2, 3, 4), F32(2, 34, 3, 3)), AT(attrs[2])),
};

OP(conv_transpose2d, 2, 3, 1, ATTRS(swi_conv_transpose_attrs), .infer = infer,
   .layout = swi_layout_image, .image_in = 1, .scratch_bytes = forward_bytes,
   .forward = forward, .operations = forward_operations, .unread = unread, GRADS(grads),
   CHECKS(reference, cases));

sw_status swi_conv_transpose_opts(const sw_conv_transpose_opts *given,
                                  sw_conv_transpose_opts *out, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_conv_transpose_opts, out, given, call));
    out->stride = out->stride != 0 ? out->stride : 1;
    out->dilation = out->dilation != 0 ? out->dilation : 1;
    out->groups = out->groups != 0 ? out->groups : 1;
    return SW_OK;
}

sw_value sw_conv_transpose2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                const sw_conv_transpose_opts *given)
{
    const sw_value in[] = {x, weight, bias};
    sw_conv_transpose_opts o;
    if (swi_stick(ctx, swi_conv_transpose_opts(given, &o, "sw_conv_transpose2d_op")) != SW_OK)
        return (sw_value){0, 0};
    if (o.no_bias && bias.id != 0) {
        sw_fail(ctx, SW_INVALID, "conv_transpose2d: bias and no_bias exclude each other");
        return (sw_value){0, 0};
    }
    const swi_conv_transpose_attrs a = {
        {o.stride, o.pad, o.dilation, o.groups}, o.output_pad, 0};
    return sw_op_apply(ctx, SW_OP_conv_transpose2d, in, bias.id != 0 ? 3 : 2, &a);
}
