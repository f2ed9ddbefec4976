/* y (batch, out, h', w') = convolution of x (batch, in, h, w) with w (out, in / groups, kh,
 * kw), plus b (out). Cross-correlation, as everywhere in this field. y has the layout of x.
 *
 * Keeps x for dw and w for dx. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include "runtime/base/structs.h"

/* The kernel is there and lies in the padded input at least once. */
static bool fits(int64_t in, int64_t kernel, const swi_conv_attrs *a)
{
    return kernel >= 1 && kernel - 1 <= (in + 2 * (int64_t)a->pad - 1) / a->dilation &&
           in + 2 * (int64_t)a->pad >= 1;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_conv_attrs *a = attrs;
    const sw_shape *x = &in[0].shape, *w = &in[1].shape;
    SW_TRY(swi_want_f32("conv2d", in, n_in));
    if (a->stride < 1 || a->pad < 0 || a->pad > 1 << 20 || a->dilation < 1 ||
        a->dilation > 1 << 20 || a->groups < 1)
        SW_FAIL(SW_INVALID,
                "conv2d: stride, dilation and groups must be at least 1, padding at least 0, "
                "padding and dilation at most %d (got stride %d, padding %d, dilation %d, "
                "groups %d)",
                1 << 20, a->stride, a->pad, a->dilation, a->groups);
    if (x->rank != 4 || w->rank != 4 || x->dim[1] % a->groups != 0 ||
        x->dim[1] / a->groups != w->dim[1])
        SW_FAIL(SW_INVALID,
                "conv2d: input and weight must be (batch, in, h, w) and (out, in / groups, kh, "
                "kw) (got %s and %s with groups %d)",
                SWI_SHAPE(x), SWI_SHAPE(w), a->groups);
    if (w->dim[0] % a->groups != 0)
        SW_FAIL(SW_INVALID,
                "conv2d: the output channels must be a multiple of groups (got %lld channels "
                "and %d groups)",
                (long long)w->dim[0], a->groups);
    if (!fits(x->dim[2], w->dim[2], a) || !fits(x->dim[3], w->dim[3], a))
        SW_FAIL(SW_INVALID,
                "conv2d: kernel of %s with dilation %d is larger than input %s with padding %d",
                SWI_SHAPE(w), a->dilation, SWI_SHAPE(x), a->pad);
    if (n_in > 2 && (in[2].shape.rank != 1 || in[2].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "conv2d: the bias must be (out) (got %s for the weight %s)",
                SWI_SHAPE(&in[2].shape), SWI_SHAPE(w));
    out[0] = (sw_type){SW_F32, in[0].layout,
                       SW_SHAPE(x->dim[0], w->dim[0], swi_conv_out(x->dim[2], w->dim[2], a),
                                swi_conv_out(x->dim[3], w->dim[3], a))};
    return SW_OK;
}

sw_conv swi_conv_geometry(const sw_type *image, const sw_shape *w, const swi_conv_attrs *a)
{
    const sw_shape *x = &image->shape;
    return (sw_conv)SW_INIT(.batch = x->dim[0], .in_c = x->dim[1], .in_h = x->dim[2],
                            .in_w = x->dim[3], .out_c = w->dim[0],
                            .out_h = swi_conv_out(x->dim[2], w->dim[2], a),
                            .out_w = swi_conv_out(x->dim[3], w->dim[3], a),
                            .kernel_h = w->dim[2], .kernel_w = w->dim[3], .stride = a->stride,
                            .pad = a->pad, .groups = a->groups, .dilation = a->dilation,
                            .plain = image->layout == SW_PLAIN);
}

/* Along one axis: the first window that begins at tap k no further than the image is the
 * one. */
static bool hits(int64_t in, int64_t out, int64_t kernel, const sw_conv *s)
{
    for (int64_t k = 0; k < kernel; k++) {
        const int64_t first = s->pad - k * s->dilation; /* of the image, under that tap */
        const int64_t o = first > 0 ? (first + s->stride - 1) / s->stride : 0;
        if (o < out && o * s->stride < first + in)
            return true;
    }
    return false;
}

bool swi_conv_misses(const sw_conv *s)
{
    return !hits(s->in_h, s->out_h, s->kernel_h, s) || !hits(s->in_w, s->out_w, s->kernel_w, s);
}

/* Lanes past the batch too: of dx they are zeros, as ever. */
static sw_status conv_fill(const sw_launch *l, int k, const float *b)
{
    const sw_type *type = &l->out[k].type;
    const sw_shape *s = &type->shape;
    const bool adds = swi_adds(l, k);
    const int64_t lanes = type->layout == SW_PLAIN ? 1 : 16;
    const int64_t plane = s->dim[2] * s->dim[3] * lanes;
    const int64_t planes = (s->dim[0] + lanes - 1) / lanes * s->dim[1];
    float *y = swi_out(l, k);
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = p * plane; i < (p + 1) * plane; i++) {
            const float value = b != NULL ? b[p % s->dim[1]] : 0.0f;
            y[i] = adds ? y[i] + value : value;
        }
    return SW_OK;
}

/* Each place of y (or dy) with each weight of its channel: taps outside the image count. */
static uint64_t conv_taps(const sw_type *y, const sw_shape *w)
{
    const uint64_t each = swi_count_mul(
        (uint64_t)w->dim[1], swi_count_mul((uint64_t)w->dim[2], (uint64_t)w->dim[3]));
    return swi_count_per_element(y, swi_count_mul(2, each));
}

/* Sum of dy per channel in sixteen lanes, one for each image of a block or for every sixteenth
 * place of a plain plane; image after image, lanes last. in: dy; out: db */
static sw_status channel_sums(const sw_launch *l)
{
    const sw_type *type = &l->in[0].type;
    const sw_shape *s = &type->shape;
    const bool plain = type->layout == SW_PLAIN;
    const int64_t n = plain ? s->dim[0] : (s->dim[0] + 15) / 16;
    const int64_t size = s->dim[2] * s->dim[3] * (plain ? 1 : 16);
    for (int64_t c = 0; c < s->dim[1]; c++) {
        float lane[16] = {0}, sum = 0;
        for (int64_t b = 0; b < n; b++) {
            const float *dy = swi_in(l, 0) + (b * s->dim[1] + c) * size;
            for (int64_t i = 0; i < size; i++)
                lane[i % 16] += dy[i];
        }
        for (int k = 0; k < 16; k++)
            sum += lane[k];
        swi_out(l, 0)[c] = swi_adds(l, 0) ? swi_out(l, 0)[c] + sum : sum;
    }
    return SW_OK;
}

COUNT(channel_sums_operations, swi_count_per_element(&info->in[0], 1))

/* ---- kernels of both, which are those of one convolution: of its result, dx and dw ------- */

typedef enum { CONV, CONV_DX, CONV_DW } part;

static size_t part_bytes(const sw_kernel_info *info, part p, const sw_type *image,
                         const sw_type *w)
{
    sw_conv s = swi_conv_geometry(image, &w->shape, info->attrs);
    if (swi_conv_misses(&s))
        return 0;
    s.order = swi_any_half(info) ? SW_ORDER_PAIR : SW_ORDER_NONE; /* either: they ask alike */
    return p == CONV      ? sw_dense(info->isa)->conv_bytes(&s)
           : p == CONV_DX ? sw_dense(info->isa)->conv_dx_bytes(&s)
                          : sw_dense(info->isa)->conv_dw_bytes(&s);
}

/* A convolution of one position is a product, of bf16 too: w may be operand or result; sides
 * are x and y, or their gradients. */
static sw_conv half_geometry(sw_conv s, const sw_launch *l, const sw_buffer *x,
                             const sw_buffer *y, const sw_buffer *w)
{
    s.order = swi_sum_order(l, -1);
    s.x_half = swi_is_half(x);
    s.y_half = swi_is_half(y);
    s.w_half = swi_is_half(w);
    return s;
}

/* By operand w from the other side, operand `from`; a third operand is the bias. */
static sw_status part_run(const sw_launch *l, part p, const sw_type *image, int from, int w)
{
    const float *b = l->n_in > 2 ? swi_in(l, 2) : NULL;
    const sw_buffer *y = p == CONV ? &l->out[0] : &l->in[from];
    const sw_buffer *x = p == CONV ? &l->in[from] : &l->out[0];
    const sw_conv s = half_geometry(swi_conv_geometry(image, &l->in[w].type.shape, l->attrs), l,
                                    x, y, &l->in[w]);
    if (swi_conv_misses(&s))
        return conv_fill(l, 0, b);
    (p == CONV ? sw_dense(l->isa)->conv
               : sw_dense(l->isa)->conv_dx)(swi_out(l, 0), swi_in(l, from), swi_in(l, w), b, &s,
                                            swi_adds(l, 0), l->scratch, l->par);
    return SW_OK;
}

/* in: the image and the result's gradient, in either order; out: dw [, db] */
static sw_status dw_run(const sw_launch *l, int image)
{
    const sw_conv s =
        half_geometry(swi_conv_geometry(&l->in[image].type, &l->out[0].type.shape, l->attrs), l,
                      &l->in[image], &l->in[1 - image], &l->out[0]);
    if (swi_conv_misses(&s)) {
        /* Of windows that miss the image the bias alone has a gradient. */
        sw_launch sums = *l;
        SW_TRY(conv_fill(l, 0, NULL));
        if (l->n_out < 2)
            return SW_OK;
        sums.in = l->in + 1;
        sums.out = l->out + 1;
        sums.n_in = sums.n_out = 1;
        sums.accumulate = l->accumulate >> 1;
        return channel_sums(&sums);
    }
    sw_dense(l->isa)->conv_dw(swi_out(l, 0), l->n_out > 1 ? swi_out(l, 1) : NULL,
                              swi_in(l, image), swi_in(l, 1 - image), &s, swi_adds(l, 0),
                              l->n_out > 1 && swi_adds(l, 1), l->scratch, l->par);
    return SW_OK;
}

/* The bias and its gradient are read and made as ever. */
static uint32_t unread_of(const sw_kernel_info *info, int grad, const sw_type *image,
                          uint32_t operands)
{
    const sw_type *w = grad < 0 ? &info->in[1] : grad == 0 ? &info->in[0] : &info->out[0];
    const sw_conv s = swi_conv_geometry(image, &w->shape, info->attrs);
    return swi_conv_misses(&s) ? operands : 0;
}

static uint64_t count_bias(const sw_kernel_info *info, uint64_t taps)
{
    return swi_count_add(taps, info->n_in > 2 ? swi_count_per_element(&info->out[0], 1) : 0);
}

/* ---- the convolution: gradients of x from {w, dy}, of w [and b] from {x, dy} ------------- */

COUNT(forward_operations, count_bias(info, conv_taps(&info->out[0], &info->in[1].shape)))
SCRATCH(forward_bytes, part_bytes(info, CONV, &info->in[0], &info->in[1]))
KERNEL(forward, part_run(l, CONV, &l->in[0].type, 0, 1))
COUNT(dx_operations, conv_taps(&info->in[1], &info->in[0].shape))
SCRATCH(dx_bytes, part_bytes(info, CONV_DX, &info->out[0], &info->in[0]))
KERNEL(dx_kernel, part_run(l, CONV_DX, &l->out[0].type, 1, 0))
COUNT(dw_operations,
      swi_count_add(conv_taps(&info->in[1], &info->out[0].shape),
                    info->n_out > 1 ? swi_count_per_element(&info->in[1], 1) : 0))
SCRATCH(dw_bytes, part_bytes(info, CONV_DW, &info->in[0], &info->out[0]))
KERNEL(dw_kernel, dw_run(l, 0))

static uint32_t unread(const sw_kernel_info *info, int grad)
{
    if (grad == 3)
        return 0; /* 1: the bias's gradient is the sum of dy */
    return unread_of(info, grad, grad == 0 ? &info->out[0] : &info->in[0], grad == 1 ? 1u : 3u);
}

/* The tap of x under (oy, ox) and (ky, kx), 0 outside. */
static double tap(const sw_reference *r, int64_t n, int64_t c, int64_t y, int64_t x)
{
    const sw_shape *s = &r->in_type[0].shape;
    if (y < 0 || y >= s->dim[2] || x < 0 || x >= s->dim[3])
        return 0.0;
    return r->in[0][((n * s->dim[1] + c) * s->dim[2] + y) * s->dim[3] + x];
}

static sw_status reference(const sw_reference *r)
{
    const swi_conv_attrs *a = r->attrs;
    const sw_shape *w = &r->in_type[1].shape, *o = &r->out_type[0].shape;
    double *y = r->out[0];
    for (int64_t n = 0; n < o->dim[0]; n++)
        for (int64_t f = 0; f < o->dim[1]; f++)
            for (int64_t oy = 0; oy < o->dim[2]; oy++)
                for (int64_t ox = 0; ox < o->dim[3]; ox++) {
                    double sum = r->n_in > 2 ? r->in[2][f] : 0.0;
                    const double *k = r->in[1] + f * w->dim[1] * w->dim[2] * w->dim[3];
                    const int64_t first = f / (o->dim[1] / a->groups) * w->dim[1];
                    for (int64_t c = first; c < first + w->dim[1]; c++)
                        for (int64_t ky = 0; ky < w->dim[2]; ky++)
                            for (int64_t kx = 0; kx < w->dim[3]; kx++)
                                sum += *k++ * tap(r, n, c,
                                                  oy * a->stride + ky * a->dilation - a->pad,
                                                  ox * a->stride + kx * a->dilation - a->pad);
                    *y++ = sum;
                }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), dx_kernel, dx_operations,
         .scratch_bytes = dx_bytes),
    GRAD(MAKES(1, 2), FROM(SW_IN(0), SW_DOUT(0)), dw_kernel, dw_operations,
         .scratch_bytes = dw_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dw_kernel, dw_operations,
         .scratch_bytes = dw_bytes),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), channel_sums, channel_sums_operations),
};

static const swi_conv_attrs conv_attrs[] = {
    {1, 0, 1, 1}, {1, 1, 1, 1}, {2, 0, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 2},
    {1, 2, 2, 1}, {1, 1, 1, 3}, {2, 2, 1, 3}, {2, 1, 2, 2}, {3, 2, 2, 1}, {2, 1, 1, 2},
    {1, 2, 1, 3}, {1, 3, 1, 2}, {1, 1, 2, 3}, {3, 1, 1, 3}};
static const sw_op_case cases[] = {
    CASE("windows that miss the image", IN(F32(3, 2, 1, 1), F32(4, 2, 1, 1), F32(4)),
         AT(conv_attrs[3])),
    CASE("windows that miss the image, blocks, the last not full",
         IN(F32(30, 2, 1, 1), F32(4, 2, 1, 1), F32(4)), AT(conv_attrs[3])),
    CASE("5x5", IN(F32(3, 1, 8, 8), F32(6, 1, 5, 5), F32(6)), AT(conv_attrs[0])),
    CASE("5x5, blocks", IN(F32(16, 1, 6, 7), F32(6, 1, 5, 5), F32(6)), AT(conv_attrs[0])),
    CASE("17 images", IN(F32(17, 3, 6, 5), F32(4, 3, 3, 3), F32(4)), AT(conv_attrs[1])),
    CASE("blocks, the last not full", IN(F32(30, 3, 4, 5), F32(4, 3, 3, 3), F32(4)),
         AT(conv_attrs[1])),
    CASE("stride 2", IN(F32(2, 2, 7, 9), F32(5, 2, 3, 3), F32(5)), AT(conv_attrs[2])),
    CASE("stride 2, padding", IN(F32(5, 3, 8, 7), F32(7, 3, 3, 3)), AT(conv_attrs[3])),
    CASE("stride 2, padding, blocks", IN(F32(14, 2, 6, 5), F32(5, 2, 3, 3)), AT(conv_attrs[3])),
    CASE("not square", IN(F32(2, 2, 6, 7), F32(3, 2, 1, 4), F32(3)), AT(conv_attrs[4])),
    CASE("1x1, blocks, the last not full", IN(F32(17, 7, 3, 5), F32(9, 7, 1, 1), F32(9)),
         AT(conv_attrs[0])),
    CASE("1x1, one image", IN(F32(1, 5, 3, 7), F32(6, 5, 1, 1)), AT(conv_attrs[0])),
    CASE("groups", IN(F32(3, 4, 5, 6), F32(6, 2, 3, 3), F32(6)), AT(conv_attrs[5])),
    CASE("dilation", IN(F32(2, 2, 7, 6), F32(3, 2, 3, 3), F32(3)), AT(conv_attrs[6])),
    CASE("depthwise, 33 images", IN(F32(33, 3, 5, 4), F32(3, 1, 3, 3), F32(3)),
         AT(conv_attrs[7])),
    CASE("depthwise 5x5, stride 2", IN(F32(17, 3, 7, 6), F32(3, 1, 5, 5)), AT(conv_attrs[8])),
    CASE("depthwise 5x5, stride 2, one image", IN(F32(1, 3, 7, 6), F32(3, 1, 5, 5)),
         AT(conv_attrs[8])),
    CASE("depthwise 3x3, stride 2", IN(F32(3, 2, 10, 5), F32(2, 1, 3, 3), F32(2)),
         AT(conv_attrs[11])),
    CASE("depthwise 5x5", IN(F32(2, 3, 9, 6), F32(3, 1, 5, 5)), AT(conv_attrs[12])),
    CASE("depthwise 3x3, rows of 24", IN(F32(17, 3, 3, 24), F32(3, 1, 3, 3), F32(3)),
         AT(conv_attrs[7])),
    CASE("depthwise 3x3, stride 2, rows of 4", IN(F32(30, 2, 4, 4), F32(2, 1, 3, 3), F32(2)),
         AT(conv_attrs[11])),
    CASE("depthwise 5x5, rows of 8", IN(F32(33, 3, 3, 8), F32(3, 1, 5, 5)), AT(conv_attrs[12])),
    CASE("depthwise 5x5, stride 2, rows of 16", IN(F32(17, 3, 5, 16), F32(3, 1, 5, 5), F32(3)),
         AT(conv_attrs[8])),
    CASE("depthwise 1x3, stride 2, rows that miss the image",
         IN(F32(17, 2, 1, 4), F32(2, 1, 1, 3), F32(2)), AT(conv_attrs[11])),
    CASE("depthwise 7x7", IN(F32(2, 2, 8, 7), F32(2, 1, 7, 7)), AT(conv_attrs[13])),
    CASE("depthwise, not square, dilation", IN(F32(2, 3, 7, 8), F32(3, 1, 2, 3)),
         AT(conv_attrs[14])),
    CASE("depthwise, stride 3", IN(F32(2, 3, 7, 8), F32(3, 1, 4, 3)), AT(conv_attrs[15])),
    CASE("groups, stride and dilation, blocks", IN(F32(17, 4, 6, 5), F32(4, 2, 3, 2), F32(4)),
         AT(conv_attrs[9])),
    CASE("1x1, 20 channels", IN(F32(3, 5, 4, 4), F32(20, 5, 1, 1), F32(20)), AT(conv_attrs[0])),
    CASE("1x1, stride 2", IN(F32(2, 3, 5, 4), F32(4, 3, 1, 1)), AT(conv_attrs[2])),
    CASE("34 channels", IN(F32(2, 2, 5, 6), F32(34, 2, 3, 3)), AT(conv_attrs[3])),
    CASE("1x1, 66 channels", IN(F32(2, 66, 2, 6), F32(66, 66, 1, 1)), AT(conv_attrs[0])),
    CASE("stride 3, dilation 2", IN(F32(2, 2, 9, 7), F32(3, 2, 3, 2)), AT(conv_attrs[10])),
};

OP(conv2d, 2, 3, 1, ATTRS(swi_conv_attrs), .infer = infer, .layout = swi_layout_image,
   .image_in = 1, .scratch_bytes = forward_bytes, .forward = forward,
   .operations = forward_operations, .unread = unread, GRADS(grads), CHECKS(reference, cases));

static sw_status with_defaults(int *stride, int *dilation, int *groups)
{
    *stride = *stride != 0 ? *stride : 1;
    *dilation = *dilation != 0 ? *dilation : 1;
    *groups = *groups != 0 ? *groups : 1;
    return SW_OK;
}

sw_value sw_conv2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, int stride,
                      int pad)
{
    return sw_op_apply(ctx, SW_OP_conv2d, (sw_value[]){x, weight, bias}, bias.id != 0 ? 3 : 2,
                       &(swi_conv_attrs){stride, pad, 1, 1});
}

sw_value sw_conv2d_op_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                           const sw_conv_opts *given)
{
    const sw_value in[] = {x, weight, bias};
    sw_conv_opts o;
    if (swi_stick(ctx, swi_conv_opts(given, &o, "sw_conv2d_op_with")) != SW_OK)
        return (sw_value){0, 0};
    if (o.no_bias && bias.id != 0)
        return SWI_REFUSE(ctx, "conv2d: bias and no_bias exclude each other");
    const swi_conv_attrs a = {o.stride, o.pad, o.dilation, o.groups};
    return sw_op_apply(ctx, SW_OP_conv2d, in, bias.id != 0 ? 3 : 2, &a);
}

sw_status swi_conv_opts(const sw_conv_opts *given, sw_conv_opts *out, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_conv_opts, out, given, call));
    return with_defaults(&out->stride, &out->dilation, &out->groups);
}

/* ---- the transposed convolution ---------------------------------------------------------- */

/* y (batch, out, h', w') = transposed convolution of x (batch, in, h, w) with w (in, out /
 * groups, kh, kw), plus b (out): the gradient of the input of that convolution, whose result x
 * would be the gradient of, h' = (h - 1) stride - 2 pad + dilation (kh - 1) + output_pad + 1. y
 * has the layout of x.
 *
 * All kernels are those of the convolution from y to x: y is its dx, dx its result, dw its dw
 * with both images changed over. Keeps x for dw and w for dx. */

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

static sw_status up_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_conv_transpose_attrs *a = attrs;
    const sw_shape *x = &in[0].shape, *w = &in[1].shape;
    const int64_t groups = a->conv.groups, most = (int64_t)1 << 31;
    SW_TRY(swi_want_f32("conv_transpose2d", in, n_in));
    SW_TRY(check_numbers(a));
    if (x->rank != 4 || w->rank != 4 || x->dim[1] != w->dim[0] || x->dim[1] % groups != 0)
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: input and weight must be (batch, in, h, w) and (in, out / "
                "groups, kh, kw), in a multiple of groups (got %s and %s with groups %lld)",
                SWI_SHAPE(x), SWI_SHAPE(w), (long long)groups);
    for (int i = 2; i < 4; i++)
        if (x->dim[i] < 1 || x->dim[i] > most || w->dim[i] < 1 || w->dim[i] > most ||
            out_dim(x->dim[i], w->dim[i], a) < 1)
            SW_FAIL(
                SW_INVALID,
                "conv_transpose2d: input %s with a kernel of %s and padding %d has no result",
                SWI_SHAPE(x), SWI_SHAPE(w), a->conv.pad);
    int64_t channels;
    if (__builtin_mul_overflow(w->dim[1], groups, &channels))
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: the output channels overflow (weight %s, groups %lld)",
                SWI_SHAPE(w), (long long)groups);
    if (n_in > 2 && (in[2].shape.rank != 1 || in[2].shape.dim[0] != channels))
        SW_FAIL(SW_INVALID,
                "conv_transpose2d: the bias must be (out) (got %s for %lld channels)",
                SWI_SHAPE(&in[2].shape), (long long)channels);
    out[0] = (sw_type){SW_F32, in[0].layout,
                       SW_SHAPE(x->dim[0], channels, out_dim(x->dim[2], w->dim[2], a),
                                out_dim(x->dim[3], w->dim[3], a))};
    return SW_OK;
}

/* The convolution from y to x, which leaves out what output_pad adds: its attributes come
 * first. */
COUNT(up_operations, count_bias(info, conv_taps(&info->in[0], &info->in[1].shape)))
SCRATCH(up_bytes, part_bytes(info, CONV_DX, &info->out[0], &info->in[1]))
KERNEL(up_forward, part_run(l, CONV_DX, &l->out[0].type, 0, 1))
COUNT(up_dx_operations, conv_taps(&info->out[0], &info->in[0].shape))
SCRATCH(up_dx_bytes, part_bytes(info, CONV, &info->in[1], &info->in[0]))
KERNEL(up_dx_kernel, part_run(l, CONV, &l->in[1].type, 1, 0))
/* Lanes of dy past the batch are zero, those of x finite. */
COUNT(up_dw_operations, conv_taps(&info->in[0], &info->out[0].shape))
SCRATCH(up_dw_bytes, part_bytes(info, CONV_DW, &info->in[1], &info->out[0]))
KERNEL(up_dw_kernel, dw_run(l, 1))

static uint32_t up_unread(const sw_kernel_info *info, int grad)
{
    return grad == 2 ? 0 : unread_of(info, grad, grad < 0 ? &info->out[0] : &info->in[1], 3u);
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

static sw_status up_reference(const sw_reference *r)
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

static const sw_grad_desc up_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), up_dx_kernel, up_dx_operations,
         .scratch_bytes = up_dx_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), up_dw_kernel, up_dw_operations,
         .scratch_bytes = up_dw_bytes),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), channel_sums, channel_sums_operations)};

static const swi_conv_transpose_attrs up_attrs[] = {
    {{1, 0, 1, 1}, 0, 0}, {{2, 0, 1, 1}, 0, 0}, {{2, 1, 1, 1}, 1, 0}, {{3, 1, 1, 1}, 2, 0},
    {{2, 1, 1, 2}, 0, 0}, {{2, 1, 1, 3}, 1, 0}, {{1, 1, 1, 3}, 0, 0}, {{2, 1, 2, 1}, 1, 0},
    {{1, 2, 1, 1}, 0, 0}, {{2, 2, 4, 1}, 1, 0}};
static const sw_op_case up_cases[] = {
    CASE("windows that miss the image", IN(F32(3, 2, 1, 1), F32(2, 3, 2, 2), F32(3)),
         AT(up_attrs[9])),
    CASE("windows that miss the image, blocks, the last not full",
         IN(F32(30, 2, 1, 1), F32(2, 3, 2, 2), F32(3)), AT(up_attrs[9])),
    CASE("3x3", IN(F32(2, 3, 4, 5), F32(3, 2, 3, 3), F32(2)), AT(up_attrs[0])),
    CASE("2x2, stride 2", IN(F32(3, 4, 3, 5), F32(4, 5, 2, 2), F32(5)), AT(up_attrs[1])),
    CASE("3x3, stride 2, blocks", IN(F32(16, 3, 3, 4), F32(3, 7, 3, 3), F32(7)),
         AT(up_attrs[2])),
    CASE("3x3, stride 2, 17 images", IN(F32(17, 2, 4, 3), F32(2, 3, 3, 3), F32(3)),
         AT(up_attrs[2])),
    CASE("blocks, the last not full", IN(F32(30, 2, 3, 4), F32(2, 3, 4, 4)), AT(up_attrs[2])),
    CASE("stride larger than the kernel", IN(F32(2, 2, 4, 3), F32(2, 3, 2, 1), F32(3)),
         AT(up_attrs[3])),
    CASE("groups", IN(F32(3, 4, 3, 4), F32(4, 3, 3, 3), F32(6)), AT(up_attrs[4])),
    CASE("depthwise, stride 2", IN(F32(2, 3, 5, 4), F32(3, 1, 3, 3), F32(3)), AT(up_attrs[5])),
    CASE("depthwise, 33 images", IN(F32(33, 3, 4, 4), F32(3, 1, 5, 5)), AT(up_attrs[6])),
    CASE("dilation", IN(F32(2, 2, 4, 3), F32(2, 3, 3, 2)), AT(up_attrs[7])),
    CASE("padding larger than the kernel", IN(F32(2, 2, 7, 6), F32(2, 3, 1, 2)),
         AT(up_attrs[8])),
    CASE("1x1, blocks, the last not full", IN(F32(17, 7, 3, 5), F32(7, 9, 1, 1), F32(9)),
         AT(up_attrs[0])),
    CASE("1x1, 20 channels", IN(F32(3, 5, 4, 9), F32(5, 20, 1, 1), F32(20)), AT(up_attrs[0])),
    CASE("34 channels", IN(F32(2, 2, 3, 4), F32(2, 34, 3, 3)), AT(up_attrs[2])),
};

OP(conv_transpose2d, 2, 3, 1, ATTRS(swi_conv_transpose_attrs), .infer = up_infer,
   .layout = swi_layout_image, .image_in = 1, .scratch_bytes = up_bytes, .forward = up_forward,
   .operations = up_operations, .unread = up_unread, GRADS(up_grads),
   CHECKS(up_reference, up_cases));

sw_status swi_conv_transpose_opts(const sw_conv_transpose_opts *given,
                                  sw_conv_transpose_opts *out, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_conv_transpose_opts, out, given, call));
    return with_defaults(&out->stride, &out->dilation, &out->groups);
}

sw_value sw_conv_transpose2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias,
                                const sw_conv_transpose_opts *given)
{
    const sw_value in[] = {x, weight, bias};
    sw_conv_transpose_opts o;
    if (swi_stick(ctx, swi_conv_transpose_opts(given, &o, "sw_conv_transpose2d_op")) != SW_OK)
        return (sw_value){0, 0};
    if (o.no_bias && bias.id != 0)
        return SWI_REFUSE(ctx, "conv_transpose2d: bias and no_bias exclude each other");
    const swi_conv_transpose_attrs a = {
        {o.stride, o.pad, o.dilation, o.groups}, o.output_pad, 0};
    return sw_op_apply(ctx, SW_OP_conv_transpose2d, in, bias.id != 0 ? 3 : 2, &a);
}
