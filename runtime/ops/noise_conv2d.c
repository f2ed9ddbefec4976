/* The part that noise on weight and bias adds to a convolution: y (batch, out, h', w') = s
 * sigma (conv(x, E) + e), with the direction and the sign s of each image's evaluation. in {x,
 * sigma, [sigmas of the weight, of the bias]}; the weight is a matrix (out, in / groups x
 * taps). */
#include "kernels/dispatch.h"
#include "runtime/ops/conv_geometry.h"
#include "runtime/ops/noise.h"

enum { X, SIGMA, SIGMAS };

/* Kernels are square or the attributes say otherwise: height and width of taps. */
static void taps_of(const swi_noise_attrs *a, int64_t *kernel_h, int64_t *kernel_w)
{
    *kernel_h = a->kernel_h;
    *kernel_w = a->weight.taps / a->kernel_h;
}

static int64_t channels_of(const swi_noise_attrs *a)
{
    return a->weight.rows != 0 ? a->weight.rows : a->bias.cols;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    char s[SWI_SHAPE_TEXT];
    int64_t kernel_h, kernel_w;
    (void)n_in;
    SW_TRY(swi_want_f32("noise_conv2d", in, 1));
    if (x->rank != 4 || a->kernel_h < 1 || a->weight.taps % a->kernel_h != 0 ||
        a->conv.groups < 1 || a->conv.stride < 1 || a->conv.dilation < 1 ||
        x->dim[1] != a->weight.cols / a->weight.taps * a->conv.groups ||
        (a->bias.rows != 0 && a->bias.cols != channels_of(a)))
        SW_FAIL(SW_INVALID, "noise_conv2d: x must be (batch, %lld, h, w) (got %s)",
                (long long)(a->weight.cols * a->conv.groups), swi_shape_text(x, s));
    SW_TRY(swi_noise_infer("noise_conv2d", a, x->dim[0], &in[SIGMA]));
    taps_of(a, &kernel_h, &kernel_w);
    out[0] = (sw_type){SW_F32,
                       in[X].layout,
                       {4,
                        {x->dim[0], channels_of(a), swi_conv_out(x->dim[2], kernel_h, &a->conv),
                         swi_conv_out(x->dim[3], kernel_w, &a->conv)}}};
    return SW_OK;
}

/* Element (n, c, y, x) of an image tensor. */
static int64_t place(const sw_type *t, int64_t n, int64_t c, int64_t y, int64_t x)
{
    const int64_t *d = t->shape.dim;
    if (t->layout == SW_N16)
        return (((n / 16 * d[1] + c) * d[2] + y) * d[3] + x) * 16 + n % 16;
    return ((n * d[1] + c) * d[2] + y) * d[3] + x;
}

static sw_conv geometry(const swi_noise_attrs *a, const sw_type *in, const sw_type *out)
{
    const int64_t *x = in->shape.dim, *y = out->shape.dim;
    sw_conv s = {.batch = x[0], .in_c = x[1], .in_h = x[2], .in_w = x[3]};
    s.out_c = y[1], s.out_h = y[2], s.out_w = y[3];
    taps_of(a, &s.kernel_h, &s.kernel_w);
    s.stride = a->conv.stride, s.pad = a->conv.pad;
    s.groups = a->conv.groups, s.dilation = a->conv.dilation;
    s.plain = out->layout == SW_PLAIN;
    return s;
}

/* Windows that miss the image: the noise of the bias is all there is. */
static uint32_t unread(const sw_kernel_info *info, int grad)
{
    const sw_conv s = geometry(info->attrs, &info->in[X], &info->out[0]);
    (void)grad;
    return swi_conv_misses(&s) ? 1u << X : 0;
}

static sw_status forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    sw_noise_layer layer = swi_noise_layer(l, SIGMA);
    const sw_conv s = geometry(a, &l->in[X].type, &l->out[0].type);
    if (a->has_sigmas && a->weight.rows != 0)
        layer.weight_sigmas = swi_in(l, SIGMAS);
    if (a->has_sigmas && a->bias.rows != 0)
        layer.bias_sigmas = swi_in(l, l->n_in - 1);
    if (!swi_adds(l, 0))
        swi_noise_clear(l);
    sw_noise(l->isa)->conv(swi_out(l, 0), swi_in(l, X), &s, &layer, l->par);
    return SW_OK;
}

static sw_status reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    sw_type xt = r->in_type[X], yt = r->out_type[0];
    xt.layout = yt.layout = SW_PLAIN;
    const int64_t *d = yt.shape.dim, each = swi_noise_rows_each(a, d[0]);
    const int64_t in_each = a->weight.cols / a->weight.taps, per_group = d[1] / a->conv.groups;
    int64_t kernel_h, kernel_w;
    taps_of(a, &kernel_h, &kernel_w);
    for (int64_t n = 0; n < d[0]; n++) {
        const int64_t evaluation = n / each;
        const sw_noise_at at = {r->seed, r->step,
                                r->run + (uint32_t)(evaluation % a->directions)};
        const double scale = (double)sw_noise_sign(a, evaluation) * r->in[SIGMA][0];
        sw_noise_direction nd;
        sw_noise_prepare(&nd, &a->weight, &at, (float)r->in[SIGMA][0]);
        for (int64_t o = 0; o < d[1]; o++)
            for (int64_t p = 0; p < d[2] * d[3]; p++) {
                double sum = 0.0;
                for (int64_t j = 0; a->weight.rows != 0 && j < a->weight.cols; j++) {
                    const int64_t c = o / per_group * in_each + j / a->weight.taps;
                    const int64_t k = j % a->weight.taps;
                    const int64_t y = p / d[3] * a->conv.stride - a->conv.pad +
                                      k / kernel_w * a->conv.dilation;
                    const int64_t x = p % d[3] * a->conv.stride - a->conv.pad +
                                      k % kernel_w * a->conv.dilation;
                    if (y >= 0 && y < xt.shape.dim[2] && x >= 0 && x < xt.shape.dim[3])
                        sum += r->in[X][place(&xt, n, c, y, x)] *
                               (double)sw_noise_element(&a->weight, &nd, o, j, 0.0f) *
                               (a->has_sigmas ? r->in[SIGMAS][o * a->weight.cols + j] : 1.0);
                }
                if (a->bias.rows != 0)
                    sum += (double)sw_noise_number(&a->bias, SW_NOISE_ELEMENTS, &at, o) *
                           (a->has_sigmas ? r->in[r->n_in - 1][o] : 1.0);
                r->out[0][(n * d[1] + o) * d[2] * d[3] + p] = scale * sum;
            }
    }
    return SW_OK;
}

static uint64_t operations(const sw_kernel_info *info)
{
    const swi_noise_attrs *a = info->attrs;
    return swi_count_add(
        swi_count_mul((uint64_t)a->directions,
                      swi_count_mul(SWI_NORMAL, swi_count_mul((uint64_t)a->weight.rows,
                                                              (uint64_t)a->weight.cols))),
        swi_count_per_element(&info->out[0], 2 * (uint64_t)(a->weight.cols + 1)));
}

#define SPEC(a_kind, outputs, inputs)                                                          \
    {                                                                                          \
        .kind = a_kind, .sides = SW_NOISE_IN | SW_NOISE_OUT, .rank = 2, .rows = outputs,       \
        .cols = (inputs)*9, .keep_rows = (outputs)-1, .keep_cols = (inputs)-1, .taps = 9,      \
        .stream = 23                                                                           \
    }
#define NOISE(name, a_kind, out, in, a_groups, a_stride)                                       \
    static const swi_noise_attrs name = {                                                      \
        .weight = SPEC(a_kind, out, in),                                                       \
        .bias = {.kind = SW_NOISE_IID, .rows = 1, .cols = out, .taps = 1, .stream = 24},       \
        .repeats = 2,                                                                          \
        .directions = 3,                                                                       \
        .conv = {.stride = a_stride, .pad = 1, .dilation = 1, .groups = a_groups},             \
        .kernel_h = 3,                                                                         \
        .antithetic = 1}
NOISE(low_rank, SW_NOISE_LOW_RANK, 6, 4, 1, 1);
NOISE(grouped, SW_NOISE_LOW_RANK, 6, 2, 2, 2);
NOISE(iid, SW_NOISE_IID, 6, 4, 1, 1);
NOISE(permuted, SW_NOISE_PERMUTED, 6, 4, 1, 1);
NOISE(flip, SW_NOISE_SIGN_FLIP, 6, 4, 1, 1);
NOISE(sparse, SW_NOISE_SPARSE, 6, 4, 1, 1);
static const swi_noise_attrs pointwise = {
    .weight =
        {.kind = SW_NOISE_LOW_RANK, .rank = 1, .rows = 3, .cols = 2, .taps = 1, .stream = 23},
    .repeats = 1,
    .directions = 3,
    .conv = {.stride = 1, .dilation = 1, .groups = 1},
    .kernel_h = 1};

static const sw_op_case cases[] = {
    CASE("one position", IN(F32(3, 2, 2, 3), SCALAR), FILL(NORMAL, UNIT), AT(pointwise)),
    CASE("sparse", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(sparse)),
    CASE("low rank", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(low_rank)),
    CASE("many images", IN(F32(30, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(low_rank)),
    CASE("groups", IN(F32(12, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(grouped)),
    CASE("iid", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(iid)),
    CASE("permuted", IN(F32(18, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(permuted)),
    CASE("sign-flip", IN(F32(18, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(flip)),
};

OP(noise_conv2d, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = infer, .layout = swi_layout_first,
   .image_in = 1, .forward = forward, .no_gradient = 1, .random = 1, .operations = operations,
   .unread = unread, CHECKS(reference, cases));
