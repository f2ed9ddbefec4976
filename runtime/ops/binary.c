/* Layers of bits: kernels/binary.h. in {bits, logits [, bias] [, scale, sigma]}: the last two
 * with noise alone. linear: bits (batch, [positions...,] bytes), logits (out, in [, positions])
 * -> (batch, bytes of out) or sums (batch, out). conv2d: bits (batch, h, w, bytes), logits
 * (out, in, kh, kw) -> (batch, h', w', bytes of out) or sums (batch, out, h', w'). */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>
#include <string.h>

enum { X, LOGITS, BIAS };

static int64_t bytes_of(int64_t channels)
{
    return 8 * sw_binary_words(channels);
}

/* Where scale and sigma stand. */
static int scale_at(const swi_binary_attrs *a)
{
    return a->has_bias ? 3 : 2;
}

static int64_t out_dim(int64_t in, int64_t kernel, const swi_binary_attrs *a)
{
    return (in + 2 * (int64_t)a->pad - kernel) / a->stride + 1;
}

/* Operands that both have; taps: positions of the logits. */
static sw_status check(const char *op, const sw_type *in, int n_in, const swi_binary_attrs *a,
                       int64_t taps)
{
    const sw_shape *x = &in[X].shape, *w = &in[LOGITS].shape;
    const int want = scale_at(a) + (swi_has_noise(&a->noise) ? 2 : 0);
    if (in[X].dtype != SW_U8)
        SW_FAIL(SW_INVALID, "%s: bits must be u8, as sw_binarize makes them (got %s)", op,
                sw_dtype_name(in[X].dtype));
    if (in[LOGITS].dtype != SW_F32 || w->rank < 2 || swi_elements(w) == 0)
        SW_FAIL(SW_INVALID, "%s: logits must be f32 (out, in, ...), not empty (got %s)", op,
                SWI_SHAPE(w));
    if (n_in != want || x->rank < 2 || x->dim[x->rank - 1] != bytes_of(w->dim[1]) || taps < 1)
        SW_FAIL(SW_INVALID,
                "%s: bits must have %lld bytes for the %lld inputs of logits %s (got %s)", op,
                (long long)bytes_of(w->dim[1]), (long long)w->dim[1], SWI_SHAPE(w),
                SWI_SHAPE(x));
    if (a->has_bias && (in[BIAS].dtype != SW_F32 || in[BIAS].shape.rank != 1 ||
                        in[BIAS].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "%s: the bias must be f32 (%lld) (got %s)", op,
                (long long)w->dim[0], SWI_SHAPE(&in[BIAS].shape));
    const swi_noise_attrs *n = &a->noise;
    if (n->repeats < 1 || n->directions < 1 || x->dim[0] % (n->repeats * n->directions) != 0)
        SW_FAIL(SW_INVALID, "%s: axis 0 must be a multiple of %lld x %lld evaluations (got %s)",
                op, (long long)n->repeats, (long long)n->directions, SWI_SHAPE(x));
    if (n->weight.rows != 0 &&
        (n->weight.kind != SW_NOISE_BITS_OF_LOGITS || n->weight.rows != w->dim[0] ||
         n->weight.cols != w->dim[1] * taps || n->weight.taps != taps))
        SW_FAIL(SW_INVALID, "%s: the noise is not that of logits %s", op, SWI_SHAPE(w));
    return SW_OK;
}

static sw_type result(const swi_binary_attrs *a, sw_shape sums, sw_shape bits)
{
    return (sw_type){a->sums ? SW_F32 : SW_U8, SW_PLAIN, a->sums ? sums : bits};
}

static sw_status linear_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_binary_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[LOGITS].shape;
    int64_t taps = 1, positions = 1;
    for (int i = 2; i < w->rank; i++)
        taps *= w->dim[i];
    for (int i = 1; i < x->rank - 1; i++)
        positions *= x->dim[i];
    SW_TRY(check("binary_linear", in, n_in, a, taps));
    if (positions != taps)
        SW_FAIL(SW_INVALID,
                "binary_linear: logits must be (out, in, positions) of the bits' %lld "
                "positions (got %s and %s)",
                (long long)positions, SWI_SHAPE(w), SWI_SHAPE(x));
    out[0] =
        result(a, SW_SHAPE(x->dim[0], w->dim[0]), SW_SHAPE(x->dim[0], bytes_of(w->dim[0])));
    return SW_OK;
}

static sw_status conv_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_binary_attrs *a = attrs;
    const sw_shape *x = &in[X].shape, *w = &in[LOGITS].shape;
    if (x->rank != 4 || w->rank != 4)
        SW_FAIL(SW_INVALID,
                "binary_conv2d: bits must be (batch, h, w, bytes) and logits (out, in, kh, kw) "
                "(got %s and %s)",
                SWI_SHAPE(x), SWI_SHAPE(w));
    SW_TRY(check("binary_conv2d", in, n_in, a, w->dim[2] * w->dim[3]));
    if (a->stride < 1 || a->pad < 0 || x->dim[1] + 2 * (int64_t)a->pad < w->dim[2] ||
        x->dim[2] + 2 * (int64_t)a->pad < w->dim[3])
        SW_FAIL(SW_INVALID,
                "binary_conv2d: stride must be at least 1, padding 0 or more, the kernel no "
                "larger than the image (got stride %d, padding %d, %s and %s)",
                a->stride, a->pad, SWI_SHAPE(w), SWI_SHAPE(x));
    const int64_t h = out_dim(x->dim[1], w->dim[2], a), wide = out_dim(x->dim[2], w->dim[3], a);
    out[0] = result(a, SW_SHAPE(x->dim[0], w->dim[0], h, wide),
                    SW_SHAPE(x->dim[0], h, wide, bytes_of(w->dim[0])));
    return SW_OK;
}

/* A linear layer is a convolution over one row of positions, with a kernel as wide. */
static sw_binary_shape shape_of(const sw_shape *x, const sw_shape *w, const swi_binary_attrs *a,
                                bool is_conv)
{
    sw_binary_shape s = SW_INIT(.batch = x->dim[0], .in_h = 1, .in_w = 1, .out_h = 1,
                                .out_w = 1, .channels = w->dim[1], .outputs = w->dim[0],
                                .kernel_h = 1, .kernel_w = 1, .stride = 1);
    if (!is_conv) {
        for (int i = 2; i < w->rank; i++)
            s.kernel_w *= w->dim[i];
        s.in_w = s.kernel_w;
        return s;
    }
    s.in_h = x->dim[1];
    s.in_w = x->dim[2];
    s.kernel_h = w->dim[2];
    s.kernel_w = w->dim[3];
    s.stride = a->stride;
    s.pad = a->pad;
    s.out_h = out_dim(s.in_h, s.kernel_h, a);
    s.out_w = out_dim(s.in_w, s.kernel_w, a);
    return s;
}

static sw_status forward(const sw_launch *l, bool is_conv)
{
    const swi_binary_attrs *a = l->attrs;
    sw_binary_layer layer =
        SW_INIT(.s = shape_of(&l->in[X].type.shape, &l->in[LOGITS].type.shape, a, is_conv),
                .a = &a->noise, .x = l->in[X].ptr, .logits = swi_in(l, LOGITS),
                .bias = a->has_bias ? swi_in(l, BIAS) : NULL, .seed = l->seed,
                .generation = l->step, .first = l->run);
    if (swi_has_noise(&a->noise)) {
        layer.scale = *swi_in(l, scale_at(a));
        layer.sigma = *swi_in(l, scale_at(a) + 1);
    }
    if (a->sums)
        layer.sums = swi_out(l, 0);
    else
        layer.bits = l->out[0].ptr;
    sw_binary(l->isa)->layer(&layer, l->scratch, l->par);
    return SW_OK;
}

KERNEL(linear_forward, forward(l, false))

/* Filters that miss the image: nothing of it is compared. */
static uint32_t conv_unread(const sw_kernel_info *info, int grad)
{
    const sw_binary_shape s =
        shape_of(&info->in[X].shape, &info->in[LOGITS].shape, info->attrs, true);
    const sw_conv c = SW_INIT(.in_h = s.in_h, .in_w = s.in_w, .out_h = s.out_h,
                              .out_w = s.out_w, .kernel_h = s.kernel_h, .kernel_w = s.kernel_w,
                              .stride = s.stride, .pad = s.pad, .dilation = 1);
    (void)grad;
    return swi_conv_misses(&c) ? 1u << X : 0;
}

KERNEL(conv_forward, forward(l, true))

static size_t scratch(const sw_kernel_info *info, bool is_conv)
{
    const sw_binary_shape s =
        shape_of(&info->in[X].shape, &info->in[LOGITS].shape, info->attrs, is_conv);
    return sw_binary(info->isa)->layer_bytes(&s, info->threads);
}

SCRATCH(linear_scratch, scratch(info, false))
SCRATCH(conv_scratch, scratch(info, true))

/* Three for each word of each output, and four; half a number of Philox, and a comparison, for
 * each bit of a filter and direction. */
static uint64_t operations(const sw_kernel_info *info, bool is_conv)
{
    const swi_binary_attrs *a = info->attrs;
    const sw_binary_shape s = shape_of(&info->in[X].shape, &info->in[LOGITS].shape, a, is_conv);
    const uint64_t words = (uint64_t)(s.kernel_h * s.kernel_w * sw_binary_words(s.channels));
    const uint64_t outputs =
        swi_count_mul((uint64_t)(s.batch * s.outputs), (uint64_t)(s.out_h * s.out_w));
    const uint64_t drawn =
        a->noise.weight.rows != 0
            ? swi_count_mul((uint64_t)a->noise.directions * (uint64_t)s.outputs, 64 * words)
            : 0;
    return swi_count_add(swi_count_mul(outputs, 3 * words + 4),
                         swi_count_mul(drawn, SWI_PHILOX / 2 + 1));
}

COUNT(linear_operations, operations(info, false))
COUNT(conv_operations, operations(info, true))

/* ---- checks ------------------------------------------------------------------------------ */

/* The filter of evaluation e, one output: 1 or -1 for each bit, padding as 0 bits are. */
static bool filter_bit(const sw_reference *r, int64_t evaluation, int64_t o, int64_t c,
                       int64_t tap)
{
    const swi_binary_attrs *a = r->attrs;
    const swi_noise_attrs *n = &a->noise;
    const sw_shape *w = &r->in_type[LOGITS].shape;
    const int64_t cols = swi_elements(w) / w->dim[0], taps = cols / w->dim[1];
    if (c >= w->dim[1])
        return false;
    const double logit = r->in[LOGITS][o * cols + c * taps + tap];
    if (n->weight.rows == 0)
        return logit > 0.0;
    const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)(evaluation % n->directions)};
    const uint16_t below = sw_binary_below((float)logit, (float)r->in[scale_at(a)][0]);
    return sw_binary_bit(&n->weight, &at, o, c * taps + tap, below,
                         sw_noise_sign(n, evaluation) < 0.0f);
}

static double bias_of(const sw_reference *r, int64_t evaluation, int64_t o)
{
    const swi_binary_attrs *a = r->attrs;
    const swi_noise_attrs *n = &a->noise;
    const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)(evaluation % n->directions)};
    const double b = a->has_bias ? r->in[BIAS][o] : 0.0;
    return n->bias.rows == 0
               ? b
               : b + (double)sw_noise_sign(n, evaluation) * r->in[scale_at(a) + 1][0] *
                         (double)sw_noise_number(&n->bias, SW_NOISE_ELEMENTS, &at, o);
}

/* Bit by bit. */
static double sum_of(const sw_reference *r, const sw_binary_shape *s, int64_t image, int64_t o,
                     int64_t oy, int64_t ox)
{
    const swi_noise_attrs *n = &((const swi_binary_attrs *)r->attrs)->noise;
    const int64_t evaluation = image / (s->batch / (n->repeats * n->directions));
    const int64_t bytes = bytes_of(s->channels);
    double equal = 0.0, all = 0.0;
    for (int64_t tap = 0; tap < s->kernel_h * s->kernel_w; tap++) {
        const int64_t y = oy * s->stride - s->pad + tap / s->kernel_w;
        const int64_t x = ox * s->stride - s->pad + tap % s->kernel_w;
        if (y < 0 || y >= s->in_h || x < 0 || x >= s->in_w)
            continue;
        all += (double)s->channels;
        equal += (double)s->channels - 8.0 * (double)bytes; /* what padding adds below */
        for (int64_t c = 0; c < 8 * bytes; c++) {
            const double byte = r->in[X][((image * s->in_h + y) * s->in_w + x) * bytes + c / 8];
            equal += ((int)byte >> c % 8 & 1) == (int)filter_bit(r, evaluation, o, c, tap);
        }
    }
    return (2.0 * equal - all) / sqrt((double)(s->channels * s->kernel_h * s->kernel_w)) -
           bias_of(r, evaluation, o);
}

static sw_status reference(const sw_reference *r, bool is_conv)
{
    const swi_binary_attrs *a = r->attrs;
    const sw_binary_shape s =
        shape_of(&r->in_type[X].shape, &r->in_type[LOGITS].shape, a, is_conv);
    const int64_t positions = s.out_h * s.out_w, bytes = bytes_of(s.outputs);
    for (int64_t i = 0; i < sw_type_elements(&r->out_type[0]); i++)
        r->out[0][i] = 0.0;
    for (int64_t i = 0; i < s.batch * positions; i++)
        for (int64_t o = 0; o < s.outputs; o++) {
            const int64_t at = i % positions, image = i / positions;
            const double y = sum_of(r, &s, image, o, at / s.out_w, at % s.out_w);
            if (a->sums)
                r->out[0][(image * s.outputs + o) * positions + at] = y;
            else if (y > 0.0)
                r->out[0][i * bytes + o / 8] += (double)(1 << o % 8);
        }
    return SW_OK;
}

REFERENCE(linear_reference, reference(r, false))
REFERENCE(conv_reference, reference(r, true))

#define LOGITS_NOISE(outputs, inputs, a_taps)                                                  \
    {                                                                                          \
        .kind = SW_NOISE_BITS_OF_LOGITS, .rows = outputs, .cols = (inputs) * (a_taps),         \
        .taps = a_taps, .stream = 31                                                           \
    }
#define BIAS_NOISE(n)                                                                          \
    {                                                                                          \
        .kind = SW_NOISE_IID, .rows = 1, .cols = n, .taps = 1, .stream = 32                    \
    }
static const swi_binary_attrs plain = {.noise = {.repeats = 1, .directions = 1}};
static const swi_binary_attrs plain_bias = {.noise = {.repeats = 1, .directions = 1},
                                            .has_bias = 1};
static const swi_binary_attrs plain_sums = {
    .noise = {.repeats = 1, .directions = 1}, .sums = 1, .has_bias = 1};
static const swi_binary_attrs sampled = {.noise = SW_INIT(.weight = LOGITS_NOISE(21, 130, 1),
                                                          .bias = BIAS_NOISE(21), .repeats = 2,
                                                          .directions = 3, .antithetic = 1),
                                         .sums = 1,
                                         .has_bias = 1};
static const swi_binary_attrs sampled_bits = {
    .noise = {
        .weight = LOGITS_NOISE(70, 200, 1), .repeats = 3, .directions = 5, .antithetic = 1}};
static const swi_binary_attrs of_image = {
    .noise = {.weight = LOGITS_NOISE(9, 5, 6), .repeats = 2, .directions = 2}, .sums = 1};
static const sw_op_case linear_cases[] = {
    CASE("signs", IN(U8(5, 16), F32(9, 100)), FILL(BYTES, NORMAL), AT(plain)),
    CASE("sums", IN(U8(5, 24), F32(19, 130), F32(19)), FILL(BYTES, NORMAL, NORMAL),
         AT(plain_sums)),
    CASE("long rows", IN(U8(40, 272), F32(70, 2176), F32(70)), FILL(BYTES, NORMAL, NORMAL),
         AT(plain_bias)),
    CASE("draws", MANY(5, U8(12, 24), F32(21, 130), F32(21), SCALAR),
         FILL(BYTES, NORMAL, NORMAL, UNIT), AT(sampled)),
    CASE("bits of draws", IN(U8(30, 32), F32(70, 200), SCALAR, SCALAR),
         FILL(BYTES, NORMAL, UNIT, UNIT), AT(sampled_bits)),
    CASE("of an image", IN(U8(8, 2, 3, 8), F32(9, 5, 6), SCALAR, SCALAR),
         FILL(BYTES, NORMAL, UNIT, UNIT), AT(of_image)),
};

OP(binary_linear, 2, 5, 1, ATTRS(swi_binary_attrs), .infer = linear_infer,
   .scratch_bytes = linear_scratch, .forward = linear_forward, .no_gradient = 1, .random = 1,
   .operations = linear_operations, CHECKS(linear_reference, linear_cases));

#define CONV(a_stride, a_pad) .kernel_h = 3, .kernel_w = 3, .stride = a_stride, .pad = a_pad
static const swi_binary_attrs conv_plain = {
    .noise = {.repeats = 1, .directions = 1}, CONV(1, 1), .has_bias = 1};
static const swi_binary_attrs conv_sums = {
    .noise = {.repeats = 1, .directions = 1}, CONV(2, 0), .sums = 1};
static const swi_binary_attrs conv_sampled =
    SW_INIT(.noise = SW_INIT(.weight = LOGITS_NOISE(11, 70, 9), .bias = BIAS_NOISE(11),
                             .repeats = 2, .directions = 3, .antithetic = 1),
            CONV(2, 2), .sums = 1, .has_bias = 1);
static const sw_op_case conv_cases[] = {
    CASE("padded", IN(U8(3, 6, 5, 8), F32(20, 30, 3, 3), F32(20)), FILL(BYTES, NORMAL, NORMAL),
         AT(conv_plain)),
    CASE("strided", IN(U8(2, 7, 8, 24), F32(10, 150, 3, 3)), FILL(BYTES, NORMAL),
         AT(conv_sums)),
    CASE("draws", MANY(5, U8(6, 5, 6, 16), F32(11, 70, 3, 3), F32(11), SCALAR),
         FILL(BYTES, NORMAL, NORMAL, UNIT), AT(conv_sampled)),
};

OP(binary_conv2d, 2, 5, 1, ATTRS(swi_binary_attrs), .infer = conv_infer,
   .scratch_bytes = conv_scratch, .forward = conv_forward, .no_gradient = 1, .random = 1,
   .operations = conv_operations, .unread = conv_unread, CHECKS(conv_reference, conv_cases));

/* ---- functions --------------------------------------------------------------------------- */

static sw_value apply(sw_ctx *ctx, uint32_t op, sw_value x, sw_value logits, sw_value bias,
                      sw_binary_result what, int stride, int pad)
{
    swi_binary_attrs a;
    const sw_value in[] = {x, logits, bias};
    memset(&a, 0, sizeof a);
    a.noise.repeats = a.noise.directions = 1;
    a.stride = stride;
    a.pad = pad;
    a.sums = what == SW_BINARY_SUMS;
    a.has_bias = bias.id != 0;
    if (what != SW_BINARY_SUMS && what != SW_BINARY_BITS)
        return SWI_REFUSE(ctx, "a layer of bits gives SW_BINARY_BITS or SW_BINARY_SUMS");
    return sw_op_apply(ctx, op, in, a.has_bias ? 3 : 2, &a);
}

sw_value sw_binary_linear_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias,
                             sw_binary_result what)
{
    return apply(ctx, SW_OP_binary_linear, bits, logits, bias, what, 1, 0);
}

sw_value sw_binary_conv2d_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias,
                             int stride, int pad, sw_binary_result what)
{
    return apply(ctx, SW_OP_binary_conv2d, bits, logits, bias, what, stride, pad);
}

/* ==== binary bits ========================================================================= */

/* Ops around layers of bits: bits of numbers, pooling, the scale of logits. */

/* ---- binarize: x (batch, c, positions...) -> bits x > value (batch, positions..., bytes) - */

static sw_status binarize_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const sw_shape *x = &in[0].shape;
    (void)n_in, (void)attrs;
    SW_TRY(swi_want_f32("binarize", in, 1));
    if (x->rank < 2 || x->dim[1] < 1)
        SW_FAIL(SW_INVALID, "binarize: x must be (batch, channels, ...) (got %s)",
                SWI_SHAPE(x));
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
    return sw_op_apply(ctx, SW_OP_binarize, &x, 1, &(swi_number_attrs){threshold});
}

/* ---- max pooling: OR --------------------------------------------------------------------- */

static sw_status pool_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_pool_attrs *a = attrs;
    const sw_shape *x = &in[0].shape;
    (void)n_in;
    if (in[0].dtype != SW_U8 || x->rank != 4 || x->dim[3] % 8 != 0)
        SW_FAIL(SW_INVALID,
                "binary_max_pool2d: bits must be u8 (batch, h, w, bytes) of whole words (got "
                "%s %s)",
                sw_dtype_name(in[0].dtype), SWI_SHAPE(x));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride < 1 || a->kernel_h > x->dim[1] ||
        a->kernel_w > x->dim[2])
        SW_FAIL(SW_INVALID,
                "binary_max_pool2d: window and stride must be at least 1, the window no larger "
                "than the image (got window %d x %d, stride %d, %s)",
                a->kernel_h, a->kernel_w, a->stride, SWI_SHAPE(x));
    out[0] = (sw_type){SW_U8, SW_PLAIN,
                       SW_SHAPE(x->dim[0], (x->dim[1] - a->kernel_h) / a->stride + 1,
                                (x->dim[2] - a->kernel_w) / a->stride + 1, x->dim[3])};
    return SW_OK;
}

static sw_status pool_forward(const sw_launch *l)
{
    const swi_pool_attrs *a = l->attrs;
    const int64_t *x = l->in[0].type.shape.dim, *y = l->out[0].type.shape.dim;
    const sw_binary_shape s =
        SW_INIT(.batch = x[0], .in_h = x[1], .in_w = x[2], .out_h = y[1], .out_w = y[2],
                .channels = 8 * x[3], .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                .stride = a->stride);
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
    return sw_op_apply(ctx, SW_OP_binary_max_pool2d, &bits, 1,
                       &(swi_pool_attrs){k, k, stride, 0});
}

/* ---- logit_scale: 5 / (mean |w| + 1e-5) of all of a weight ------------------------------- */

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
