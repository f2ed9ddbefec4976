/* Shared by the ops with noise on parameters: noise.h. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"
#include <string.h>

sw_status swi_noise_check(const char *op, const sw_noise_spec *s)
{
    if (s->rows == 0)
        return SW_OK;
    if (s->kind < 0 || s->kind >= SW_NOISE_KINDS || s->distribution < 0 ||
        s->distribution >= SW_NOISE_DISTRIBUTIONS || s->rows < 0 || s->cols < 0 ||
        s->taps < 1 || s->cols % s->taps != 0)
        SW_FAIL(SW_INVALID,
                "%s: noise must have a known kind and distribution and whole channels (got "
                "kind %d, distribution %d, %lld x %lld with taps %d)",
                op, s->kind, s->distribution, (long long)s->rows, (long long)s->cols, s->taps);
    if (s->kind == SW_NOISE_LOW_RANK && s->rank < 1)
        SW_FAIL(SW_INVALID, "%s: the rank must be at least 1 (got %d)", op, s->rank);
    if ((s->kind == SW_NOISE_PERMUTED || s->kind == SW_NOISE_SPARSE) &&
        (s->keep_rows < 1 || s->keep_rows > s->rows || s->keep_cols < 1 ||
         s->keep_cols > s->cols / s->taps))
        SW_FAIL(SW_INVALID,
                "%s: positions with noise must be 1 to %lld and 1 to %lld (got %lld and %lld)",
                op, (long long)s->rows, (long long)(s->cols / s->taps), (long long)s->keep_rows,
                (long long)s->keep_cols);
    return SW_OK;
}

sw_status swi_noise_infer(const char *op, const swi_noise_attrs *a, int64_t rows,
                          const sw_type *sigma)
{
    if (a->repeats < 1 || a->directions < 1 || rows % (a->repeats * a->directions) != 0)
        SW_FAIL(SW_INVALID,
                "%s: axis 0 must be a multiple of repeats x directions (got %lld for %lld x "
                "%lld)",
                op, (long long)rows, (long long)a->repeats, (long long)a->directions);
    if (sigma->dtype != SW_F32 || sw_type_elements(sigma) != 1)
        SW_FAIL(SW_INVALID, "%s: sigma must be an f32 scalar", op);
    SW_TRY(swi_noise_check(op, &a->weight));
    return swi_noise_check(op, &a->bias);
}

/* The noise that a kernel adds, but for sigmas of elements. sigma: the input that has it. */
static sw_noise_layer noise_layer(const sw_launch *l, int sigma)
{
    return (sw_noise_layer)SW_INIT(.a = l->attrs, .seed = l->seed, .generation = l->step,
                                   .first = l->run, .sigma = *swi_in(l, sigma));
}

/* Output 0 becomes zeros, lanes past a batch too. */
static void noise_clear(const sw_launch *l)
{
    memset(l->out[0].ptr, 0, sw_type_bytes(&l->out[0].type));
}

/* Of a reference: evaluation e's direction, and its sign times sigma. */
typedef struct {
    sw_noise_direction d;
    double scale;
} evaluation;

static evaluation evaluation_of(const sw_reference *r, const swi_noise_attrs *a, int64_t e,
                                int sigma)
{
    const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)(e % a->directions)};
    evaluation v = {.scale = (double)sw_noise_sign(a, e) * r->in[sigma][0]};
    sw_noise_prepare(&v.d, &a->weight, &at, (float)r->in[sigma][0]);
    return v;
}

/* The noise of number o of the bias, of sigmas that come last. */
static double bias_noise(const sw_reference *r, const evaluation *v, int64_t o)
{
    const swi_noise_attrs *a = r->attrs;
    return a->bias.rows == 0
               ? 0.0
               : (double)sw_noise_number(&a->bias, SW_NOISE_ELEMENTS, &v->d.at, o) *
                     (a->has_sigmas ? r->in[r->n_in - 1][o] : 1.0);
}

/* Noise of a vector in cases. */
#define VECTOR(n, s)                                                                           \
    {                                                                                          \
        .kind = SW_NOISE_IID, .rows = 1, .cols = n, .taps = 1, .stream = s                     \
    }
#define RUNS(n_repeats, n_directions, pairs)                                                   \
    .repeats = n_repeats, .directions = n_directions, .antithetic = pairs

/* ---- noise linear ------------------------------------------------------------------------ */

/* The part that noise on weight and bias adds to a linear layer: y (rows, out) = s sigma (x E^T
 * + e), with the direction and the sign s of each row's evaluation. With `has_sigmas` each
 * element of the weight has a sigma of its own beside: in {x, sigma, sigmas of the weight, of
 * the bias}. */

enum { X, SIGMA, MORE };

static sw_status linear_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    const int64_t width = a->weight.rows != 0 ? a->weight.rows : a->bias.cols;
    (void)n_in;
    SW_TRY(swi_want_f32("noise_linear", in, 1));
    if (x->rank != 2 || (a->weight.rows != 0 && x->dim[1] != a->weight.cols) ||
        (a->bias.rows != 0 && a->bias.cols != width))
        SW_FAIL(SW_INVALID, "noise_linear: x must be (rows, %lld) (got %s)",
                (long long)a->weight.cols, SWI_SHAPE(x));
    SW_TRY(swi_noise_infer("noise_linear", a, x->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], width}}};
    return SW_OK;
}

/* noise_layer with the sigmas of weight and bias, which are the last inputs. */
static sw_noise_layer noise_layer_of(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    sw_noise_layer layer = noise_layer(l, SIGMA);
    if (a->has_sigmas && a->weight.rows != 0)
        layer.weight_sigmas = swi_in(l, MORE);
    if (a->has_sigmas && a->bias.rows != 0)
        layer.bias_sigmas = swi_in(l, l->n_in - 1);
    return layer;
}

SCRATCH(linear_scratch_bytes,
        sw_noise(info->isa)->linear_bytes(info->attrs, info->in[X].shape.dim[0], info->threads))

static sw_status linear_forward(const sw_launch *l)
{
    const int64_t rows = l->in[X].type.shape.dim[0], width = l->out[0].type.shape.dim[1];
    const sw_noise_layer layer = noise_layer_of(l);
    if (!swi_adds(l, 0))
        noise_clear(l);
    sw_noise(l->isa)->linear(swi_out(l, 0), swi_in(l, X), rows, width, &layer, l->scratch,
                             l->par);
    return SW_OK;
}

/* As the definition has it: number by number, in float64. */
static sw_status linear_reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    const int64_t rows = r->in_type[X].shape.dim[0], width = r->out_type[0].shape.dim[1];
    const int64_t each = swi_noise_rows_each(a, rows), depth = a->weight.cols;
    for (int64_t row = 0; row < rows; row++) {
        const evaluation v = evaluation_of(r, a, row / each, SIGMA);
        for (int64_t o = 0; o < width; o++) {
            double sum = 0.0;
            for (int64_t j = 0; a->weight.rows != 0 && j < depth; j++)
                sum += r->in[X][row * depth + j] *
                       (double)sw_noise_element(&a->weight, &v.d, o, j, 0.0f) *
                       (a->has_sigmas ? r->in[MORE][o * depth + j] : 1.0);
            r->out[0][row * width + o] = v.scale * (sum + bias_noise(r, &v, o));
        }
    }
    return SW_OK;
}

/* Of a layer that is a product, with its noise drawn once for each direction. */
static uint64_t product_operations(const sw_kernel_info *info)
{
    const swi_noise_attrs *a = info->attrs;
    return swi_count_add(
        swi_count_mul((uint64_t)a->directions,
                      swi_count_mul(SWI_NORMAL, swi_count_mul((uint64_t)a->weight.rows,
                                                              (uint64_t)a->weight.cols))),
        swi_count_per_element(&info->out[0], 2 * (uint64_t)(a->weight.cols + 1)));
}

#define WEIGHT(kind, sides, out, in) SPEC(kind, sides, 2, out, in, 1, 2, 3, 17)
static const swi_noise_attrs linear_low_rank = {
    .weight = WEIGHT(SW_NOISE_LOW_RANK, 0, 9, 7), .bias = VECTOR(9, 18), RUNS(2, 5, 1)};
static const swi_noise_attrs small = {.weight = WEIGHT(SW_NOISE_IID, 0, 3, 5), RUNS(1, 6, 0)};
static const swi_noise_attrs linear_iid = {.weight = WEIGHT(SW_NOISE_IID, 0, 21, 37),
                                           RUNS(1, 6, 0)};
static const swi_noise_attrs permuted_in = {
    .weight = WEIGHT(SW_NOISE_PERMUTED, SW_NOISE_IN, 9, 20), RUNS(3, 2, 1)};
static const swi_noise_attrs permuted_out = {
    .weight = WEIGHT(SW_NOISE_PERMUTED, SW_NOISE_OUT, 20, 9), RUNS(1, 4, 0)};
static const swi_noise_attrs linear_permuted = {
    .weight = WEIGHT(SW_NOISE_PERMUTED, BOTH_SIDES, 33, 18),
    .bias = VECTOR(33, 18),
    RUNS(2, 3, 1)};
static const swi_noise_attrs flip_in = {
    .weight = WEIGHT(SW_NOISE_SIGN_FLIP, SW_NOISE_IN, 9, 20), RUNS(1, 4, 0)};
static const swi_noise_attrs flip_out = {
    .weight = WEIGHT(SW_NOISE_SIGN_FLIP, SW_NOISE_OUT, 20, 9), RUNS(1, 4, 0)};
static const swi_noise_attrs linear_flip = {.weight =
                                                WEIGHT(SW_NOISE_SIGN_FLIP, BOTH_SIDES, 33, 18),
                                            .bias = VECTOR(33, 18),
                                            RUNS(2, 3, 1)};
static const swi_noise_attrs linear_sparse = {.weight = WEIGHT(SW_NOISE_SPARSE, 0, 13, 15),
                                              RUNS(2, 3, 0)};
static const swi_noise_attrs bias_alone = {.bias = VECTOR(40, 18), RUNS(2, 3, 1)};
static const swi_noise_attrs large = {
    .weight = WEIGHT(SW_NOISE_LOW_RANK, 0, 150, 270), .bias = VECTOR(150, 18), RUNS(2, 20, 1)};
static const swi_noise_attrs with_sigmas = {.weight = WEIGHT(SW_NOISE_IID, 0, 6, 5),
                                            .bias = VECTOR(6, 18),
                                            RUNS(2, 3, 1),
                                            .has_sigmas = 1};

static const sw_op_case linear_cases[] = {
    /* First: small, and of an infinite input low rank makes NaN where its terms have two
     * signs. */
    CASE("small", IN(F32(6, 5), SCALAR), FILL(NORMAL, UNIT), AT(small)),
    CASE("iid", IN(F32(12, 37), SCALAR), FILL(NORMAL, UNIT), AT(linear_iid)),
    CASE("low rank", IN(F32(10, 7), SCALAR), FILL(NORMAL, UNIT), AT(linear_low_rank)),
    CASE("permuted in", IN(F32(6, 20), SCALAR), FILL(NORMAL, UNIT), AT(permuted_in)),
    CASE("permuted out", IN(F32(4, 9), SCALAR), FILL(NORMAL, UNIT), AT(permuted_out)),
    CASE("permuted", IN(F32(12, 18), SCALAR), FILL(NORMAL, UNIT), AT(linear_permuted)),
    CASE("sign-flip in", IN(F32(4, 20), SCALAR), FILL(NORMAL, UNIT), AT(flip_in)),
    CASE("sign-flip out", IN(F32(8, 9), SCALAR), FILL(NORMAL, UNIT), AT(flip_out)),
    CASE("sign-flip", IN(F32(6, 18), SCALAR), FILL(NORMAL, UNIT), AT(linear_flip)),
    CASE("sparse", IN(F32(6, 15), SCALAR), FILL(NORMAL, UNIT), AT(linear_sparse)),
    CASE("bias alone", IN(F32(6, 3), SCALAR), FILL(NORMAL, UNIT), AT(bias_alone)),
    CASE("large", IN(F32(40, 270), SCALAR), FILL(NORMAL, UNIT), AT(large)),
    CASE("sigmas", IN(F32(6, 5), SCALAR, F32(6, 5), F32(6)), FILL(NORMAL, UNIT, UNIT, UNIT),
         AT(with_sigmas)),
};

OP(noise_linear, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = linear_infer,
   .scratch_bytes = linear_scratch_bytes, .forward = linear_forward, .no_gradient = 1,
   .random = 1, .operations = product_operations, CHECKS(linear_reference, linear_cases));

/* ---- noise conv2d ------------------------------------------------------------------------ */

/* The part that noise on weight and bias adds to a convolution: y (batch, out, h', w') = s
 * sigma (conv(x, E) + e), with the direction and the sign s of each image's evaluation. in {x,
 * sigma, [sigmas of the weight, of the bias]}; the weight is a matrix (out, in / groups x
 * taps). */

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

static sw_status conv_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    int64_t kernel_h, kernel_w;
    (void)n_in;
    SW_TRY(swi_want_f32("noise_conv2d", in, 1));
    if (x->rank != 4 || a->kernel_h < 1 || a->weight.taps % a->kernel_h != 0 ||
        a->conv.groups < 1 || a->conv.stride < 1 || a->conv.dilation < 1 ||
        x->dim[1] != a->weight.cols / a->weight.taps * a->conv.groups ||
        (a->bias.rows != 0 && a->bias.cols != channels_of(a)))
        SW_FAIL(SW_INVALID, "noise_conv2d: x must be (batch, %lld, h, w) (got %s)",
                (long long)(a->weight.cols * a->conv.groups), SWI_SHAPE(x));
    SW_TRY(swi_noise_infer("noise_conv2d", a, x->dim[0], &in[SIGMA]));
    taps_of(a, &kernel_h, &kernel_w);
    out[0] = (sw_type){SW_F32, in[X].layout,
                       SW_SHAPE(x->dim[0], channels_of(a),
                                swi_conv_out(x->dim[2], kernel_h, &a->conv),
                                swi_conv_out(x->dim[3], kernel_w, &a->conv))};
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

static sw_conv geometry(const swi_noise_attrs *a, const sw_type *in)
{
    sw_shape w = {4, {channels_of(a), in->shape.dim[1] / a->conv.groups}};
    taps_of(a, &w.dim[2], &w.dim[3]);
    return swi_conv_geometry(in, &w, &a->conv);
}

/* Windows that miss the image: the noise of the bias is all there is. */
static uint32_t unread(const sw_kernel_info *info, int grad)
{
    const sw_conv s = geometry(info->attrs, &info->in[X]);
    (void)grad;
    return swi_conv_misses(&s) ? 1u << X : 0;
}

static sw_status conv_forward(const sw_launch *l)
{
    const sw_noise_layer layer = noise_layer_of(l);
    const sw_conv s = geometry(l->attrs, &l->in[X].type);
    if (!swi_adds(l, 0))
        noise_clear(l);
    sw_noise(l->isa)->conv(swi_out(l, 0), swi_in(l, X), &s, &layer, l->par);
    return SW_OK;
}

static sw_status conv_reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    sw_type xt = r->in_type[X], yt = r->out_type[0];
    xt.layout = yt.layout = SW_PLAIN;
    const int64_t *d = yt.shape.dim, each = swi_noise_rows_each(a, d[0]);
    const int64_t in_each = a->weight.cols / a->weight.taps, per_group = d[1] / a->conv.groups;
    int64_t kernel_h, kernel_w;
    taps_of(a, &kernel_h, &kernel_w);
    for (int64_t n = 0; n < d[0]; n++) {
        const evaluation v = evaluation_of(r, a, n / each, SIGMA);
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
                               (double)sw_noise_element(&a->weight, &v.d, o, j, 0.0f) *
                               (a->has_sigmas ? r->in[MORE][o * a->weight.cols + j] : 1.0);
                }
                r->out[0][(n * d[1] + o) * d[2] * d[3] + p] =
                    v.scale * (sum + bias_noise(r, &v, o));
            }
    }
    return SW_OK;
}

#define CONV_NOISE(name, a_kind, out, in, a_groups, a_stride)                                  \
    static const swi_noise_attrs name = {                                                      \
        .weight = SPEC(a_kind, BOTH_SIDES, 2, out, in, 9, 1, 1, 23),                           \
        .bias = VECTOR(out, 24),                                                               \
        RUNS(2, 3, 1),                                                                         \
        .kernel_h = 3,                                                                         \
        .conv = {.stride = a_stride, .pad = 1, .dilation = 1, .groups = a_groups}}
CONV_NOISE(conv_low_rank, SW_NOISE_LOW_RANK, 6, 4, 1, 1);
CONV_NOISE(grouped, SW_NOISE_LOW_RANK, 6, 2, 2, 2);
CONV_NOISE(conv_iid, SW_NOISE_IID, 6, 4, 1, 1);
CONV_NOISE(conv_permuted, SW_NOISE_PERMUTED, 6, 4, 1, 1);
CONV_NOISE(conv_flip, SW_NOISE_SIGN_FLIP, 6, 4, 1, 1);
CONV_NOISE(conv_sparse, SW_NOISE_SPARSE, 6, 4, 1, 1);
static const swi_noise_attrs pointwise = {
    .weight =
        {.kind = SW_NOISE_LOW_RANK, .rank = 1, .rows = 3, .cols = 2, .taps = 1, .stream = 23},
    .repeats = 1,
    .directions = 3,
    .conv = {.stride = 1, .dilation = 1, .groups = 1},
    .kernel_h = 1};

static const sw_op_case conv_cases[] = {
    CASE("one position", IN(F32(3, 2, 2, 3), SCALAR), FILL(NORMAL, UNIT), AT(pointwise)),
    CASE("sparse", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_sparse)),
    CASE("low rank", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_low_rank)),
    CASE("many images", IN(F32(30, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_low_rank)),
    CASE("groups", IN(F32(12, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(grouped)),
    CASE("iid", IN(F32(6, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_iid)),
    CASE("permuted", IN(F32(18, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_permuted)),
    CASE("sign-flip", IN(F32(18, 4, 7, 6), SCALAR), FILL(NORMAL, UNIT), AT(conv_flip)),
};

OP(noise_conv2d, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = conv_infer,
   .layout = swi_layout_first, .image_in = 1, .forward = conv_forward, .no_gradient = 1,
   .random = 1, .operations = product_operations, .unread = unread,
   CHECKS(conv_reference, conv_cases));

/* ---- noise embedding --------------------------------------------------------------------- */

/* The part that noise on a table adds to an embedding: y (n..., width) = s sigma E(id), rows of
 * the matrix of noise by ids (n...). in {ids, sigma, [table: dropout], [sigmas]}. */

static sw_status embedding_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *ids = &in[X].shape;
    SW_TRY(swi_want_ids("noise_embedding", "ids", &in[X]));
    if (ids->rank < 1 || ids->rank >= SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "noise_embedding: ids must have 1 to %d axes (got %d)",
                SW_MAX_RANK - 1, (int)ids->rank);
    if (n_in != MORE + swi_noise_drops(a) + a->has_sigmas)
        SW_FAIL(SW_INVALID, "noise_embedding: must have %d inputs (got %d)",
                MORE + swi_noise_drops(a) + a->has_sigmas, n_in);
    SW_TRY(swi_noise_infer("noise_embedding", a, ids->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *ids};
    out[0].shape.dim[out[0].shape.rank++] = a->weight.cols;
    return SW_OK;
}

static sw_status embedding_forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    const sw_ids ids = swi_ids_of(&l->in[X]);
    for (int64_t i = 0; i < ids.n; i++)
        if (sw_id_at(&ids, i) < 0 || sw_id_at(&ids, i) >= a->weight.rows)
            SW_FAIL(SW_INVALID, "noise_embedding: id %lld must be 0 or more and below %lld",
                    (long long)sw_id_at(&ids, i), (long long)a->weight.rows);
    sw_noise_layer layer = noise_layer(l, SIGMA);
    if (a->has_sigmas)
        layer.weight_sigmas = swi_in(l, l->n_in - 1);
    if (!swi_adds(l, 0))
        noise_clear(l);
    sw_noise(l->isa)->embedding(swi_out(l, 0), &ids,
                                swi_noise_drops(a) ? swi_in(l, MORE) : NULL, &layer, l->par);
    return SW_OK;
}

static sw_status embedding_reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    const int64_t rows = swi_elements(&r->in_type[X].shape), width = a->weight.cols;
    const int64_t each = swi_noise_rows_each(a, rows);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t id = (int64_t)r->in[X][row];
        const evaluation v = evaluation_of(r, a, row / each, SIGMA);
        for (int64_t j = 0; j < width; j++) {
            const float w = swi_noise_drops(a) ? (float)r->in[MORE][id * width + j] : 0.0f;
            r->out[0][row * width + j] =
                v.scale * (double)sw_noise_element(&a->weight, &v.d, id, j, w) *
                (a->has_sigmas ? r->in[r->n_in - 1][id * width + j] : 1.0);
        }
    }
    return SW_OK;
}

COUNT(embedding_operations, swi_count_per_element(&info->out[0], SWI_NORMAL + 4))

#define EMBEDDING_NOISE(name, kind)                                                            \
    static const swi_noise_attrs name = {                                                      \
        .weight = SPEC(kind, BOTH_SIDES, 2, 7, 20, 1, 2, 3, 19), RUNS(2, 3, 1)}
EMBEDDING_NOISE(embedding_low_rank, SW_NOISE_LOW_RANK);
EMBEDDING_NOISE(embedding_iid, SW_NOISE_IID);
EMBEDDING_NOISE(embedding_permuted, SW_NOISE_PERMUTED);
EMBEDDING_NOISE(embedding_flip, SW_NOISE_SIGN_FLIP);
EMBEDDING_NOISE(embedding_sparse, SW_NOISE_SPARSE);
EMBEDDING_NOISE(embedding_dropout, SW_NOISE_DROPOUT);
static const sw_op_case embedding_cases[] = {
    CASE("low rank", IN(I32(6, 4), SCALAR), FILL(LABELS, UNIT), .limit = 7,
         AT(embedding_low_rank)),
    CASE("iid", IN(U8(12), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(embedding_iid)),
    CASE("permuted", IN(U16(6, 2), SCALAR), FILL(LABELS, UNIT), .limit = 7,
         AT(embedding_permuted)),
    CASE("sign-flip", IN(U8(12), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(embedding_flip)),
    CASE("sparse", IN(I32(6, 4), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(embedding_sparse)),
    CASE("dropout", IN(I32(6, 4), SCALAR, F32(7, 20)), FILL(LABELS, UNIT, NORMAL), .limit = 7,
         AT(embedding_dropout)),
};

OP(noise_embedding, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = embedding_infer,
   .forward = embedding_forward, .no_gradient = 1, .random = 1,
   .operations = embedding_operations, CHECKS(embedding_reference, embedding_cases));

/* ---- noise affine ------------------------------------------------------------------------ */

/* y = x (g + s sigma e) + (b + s sigma f): gain and shift of channels with noise, in {x, sigma,
 * [g], [b], [sigmas of g], [sigmas of b]} as has_gain, has_shift and has_sigmas say. Where
 * there is no g it counts as 1 without noise, no b as 0; weight is the noise of the gain, bias
 * that of the shift, and each may be there alone. With dropout in `weight` channels are rows of
 * the layer's weight: x (1 + s sigma E / W), and g is not there. */

typedef struct {
    const float *gain, *shift, *gain_sigmas, *shift_sigmas;
} operands;

static int n_operands(const swi_noise_attrs *a)
{
    const int sigmas =
        a->has_sigmas ? (a->has_gain && a->weight.rows != 0) + (a->bias.rows != 0) : 0;
    return MORE + a->has_gain + a->has_shift + sigmas;
}

static operands operands_of(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    operands o = {NULL, NULL, NULL, NULL};
    int n = MORE;
    if (a->has_gain)
        o.gain = swi_in(l, n++);
    if (a->has_shift)
        o.shift = swi_in(l, n++);
    if (a->has_sigmas && a->has_gain && a->weight.rows != 0)
        o.gain_sigmas = swi_in(l, n++);
    if (a->has_sigmas && a->bias.rows != 0)
        o.shift_sigmas = swi_in(l, n++);
    return o;
}

static sw_status affine_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    SW_TRY(swi_want_f32("noise_affine", in, 1));
    if (a->channel_axis < 1 || a->channel_axis >= x->rank || n_in != n_operands(a))
        SW_FAIL(SW_INVALID,
                "noise_affine: x must have channels in axis %lld after axis 0 (got %s)",
                (long long)a->channel_axis, SWI_SHAPE(x));
    for (int i = MORE; i < n_in; i++)
        if (swi_elements(&in[i].shape) != x->dim[a->channel_axis])
            SW_FAIL(SW_INVALID,
                    "noise_affine: a vector must have a number for each of the "
                    "%lld channels (got %lld)",
                    (long long)x->dim[a->channel_axis], (long long)swi_elements(&in[i].shape));
    SW_TRY(swi_noise_infer("noise_affine", a, x->dim[0], &in[SIGMA]));
    out[0] = in[X];
    return SW_OK;
}

/* Where the elements of (row, channel) lie: groups of `inner`, each `step` apart. */
typedef struct {
    int64_t channels, middle, inner, step;
    bool blocks;
} places;

static places places_of(const sw_type *type, int64_t axis)
{
    places p = {.channels = type->shape.dim[axis], .middle = 1, .inner = 1, .step = 1};
    p.blocks = type->layout == SW_N16;
    for (int64_t i = 1; i < axis; i++)
        p.middle *= type->shape.dim[i];
    for (int64_t i = axis + 1; i < type->shape.rank; i++)
        p.inner *= type->shape.dim[i];
    p.step = p.blocks ? 16 : 1;
    return p;
}

static int64_t place_at(const places *p, int64_t row, int64_t middle, int64_t c)
{
    if (p->blocks)
        return (row / 16 * p->channels + c) * p->inner * 16 + row % 16;
    return ((row * p->middle + middle) * p->channels + c) * p->inner;
}

static sw_status affine_forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    const sw_type *x = &l->in[X].type;
    const operands o = operands_of(l);
    const places p = places_of(x, a->channel_axis);
    sw_noise_layer layer = noise_layer(l, SIGMA);
    const sw_noise_affine f =
        SW_INIT(.y = swi_out(l, 0), .x = swi_in(l, X), .gain = o.gain, .shift = o.shift,
                .batch = x->shape.dim[0], .middle = p.middle, .channels = p.channels,
                .inner = p.inner, .blocks = p.blocks, .accumulate = swi_adds(l, 0));
    layer.weight_sigmas = o.gain_sigmas;
    layer.bias_sigmas = o.shift_sigmas;
    sw_noise(l->isa)->affine(&f, &layer, l->par);
    return SW_OK;
}

static sw_status affine_reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    sw_type plain = r->in_type[X];
    plain.layout = SW_PLAIN;
    const places p = places_of(&plain, a->channel_axis);
    const int64_t rows = plain.shape.dim[0], each = swi_noise_rows_each(a, rows);
    const int shift_at = MORE + a->has_gain, gain_sigmas = shift_at + a->has_shift;
    const bool has_gain_sigmas = a->has_sigmas && a->has_gain && a->weight.rows != 0;
    for (int64_t row = 0; row < rows; row++) {
        const evaluation v = evaluation_of(r, a, row / each, SIGMA);
        for (int64_t c = 0; c < p.channels; c++) {
            double gain = a->has_gain ? r->in[MORE][c] : 1.0;
            double shift = a->has_shift ? r->in[shift_at][c] : 0.0;
            if (a->weight.rows != 0)
                gain +=
                    v.scale * (has_gain_sigmas ? r->in[gain_sigmas][c] : 1.0) *
                    (double)(a->weight.kind == SW_NOISE_DROPOUT
                                 ? sw_noise_dropped(&a->weight, &v.d, c)
                                 : sw_noise_number(&a->weight, SW_NOISE_ELEMENTS, &v.d.at, c));
            if (a->bias.rows != 0)
                shift += v.scale * (a->has_sigmas ? r->in[r->n_in - 1][c] : 1.0) *
                         (double)sw_noise_number(&a->bias, SW_NOISE_ELEMENTS, &v.d.at, c);
            for (int64_t m = 0; m < p.middle; m++)
                for (int64_t i = 0; i < p.inner; i++) {
                    const int64_t k = place_at(&p, row, m, c) + i;
                    r->out[0][k] = r->in[X][k] * gain + shift;
                }
        }
    }
    return SW_OK;
}

static uint64_t affine_operations(const sw_kernel_info *info)
{
    const swi_noise_attrs *a = info->attrs;
    const uint64_t channels = (uint64_t)info->in[X].shape.dim[a->channel_axis];
    return swi_count_add(
        swi_count_mul(2 * SWI_NORMAL, swi_count_mul((uint64_t)a->directions, channels)),
        swi_count_per_element(&info->out[0], 2));
}

static const swi_noise_attrs norm =
    SW_INIT(.weight = VECTOR(7, 1), .bias = VECTOR(7, 2), RUNS(2, 3, 1), .channel_axis = 1,
            .has_gain = 1, .has_shift = 1);
static const swi_noise_attrs last = {
    .weight = VECTOR(5, 1), RUNS(2, 3, 1), .channel_axis = 2, .has_gain = 1};
static const swi_noise_attrs shift = {.bias = VECTOR(7, 2), RUNS(2, 3, 1), .channel_axis = 1};
static const swi_noise_attrs dropped =
    SW_INIT(.weight = {.kind = SW_NOISE_DROPOUT, .rows = 7, .cols = 4, .taps = 1, .stream = 5},
            RUNS(2, 3, 1), .channel_axis = 1, .has_shift = 1);
static const swi_noise_attrs sigmas =
    SW_INIT(.weight = VECTOR(7, 1), .bias = VECTOR(7, 2), RUNS(2, 3, 1), .channel_axis = 1,
            .has_gain = 1, .has_shift = 1, .has_sigmas = 1);
static const sw_op_case affine_cases[] = {
    CASE("images", IN(F32(6, 7, 3, 2), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(norm)),
    CASE("matrix", IN(F32(6, 7), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(norm)),
    CASE("many images", IN(F32(36, 7, 5, 5), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT),
         AT(norm)),
    CASE("last axis", IN(F32(12, 4, 5), SCALAR, F32(5)), FILL(NORMAL, UNIT), AT(last)),
    CASE("shift alone", IN(F32(18, 7), SCALAR), FILL(NORMAL, UNIT), AT(shift)),
    CASE("dropout", IN(F32(18, 7), SCALAR, F32(7)), FILL(NORMAL, UNIT), AT(dropped)),
    CASE("sigmas", MANY(6, F32(6, 7), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(sigmas)),
};

OP(noise_affine, 2, 6, 1, ATTRS(swi_noise_attrs), .infer = affine_infer,
   .layout = swi_layout_first, .image_in = 1, .inplace = 1, .forward = affine_forward,
   .no_gradient = 1, .random = 1, .operations = affine_operations,
   CHECKS(affine_reference, affine_cases));

/* ---- noise table ------------------------------------------------------------------------- */

/* The part that noise on a table adds, where its rows are added to each sample as positions
 * are: y (rows, ..., n, width) = s sigma E(first + t) for position t of n, in {sigma, [table:
 * dropout], [sigmas of each element]}. */

enum { TABLE_SIGMA, TABLE_MORE };

static sw_status table_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_table_attrs *a = attrs;
    const sw_shape *s = &a->shape;
    if (n_in != TABLE_MORE + swi_noise_drops(&a->noise) + a->noise.has_sigmas)
        SW_FAIL(SW_INVALID, "noise_table: must have %d inputs (got %d)",
                TABLE_MORE + swi_noise_drops(&a->noise) + a->noise.has_sigmas, n_in);
    if (s->rank < 3 || s->dim[s->rank - 1] != a->noise.weight.cols || a->first < 0 ||
        s->dim[s->rank - 2] > a->noise.weight.rows - a->first || a->noise.weight.taps != 1)
        SW_FAIL(SW_INVALID, "noise_table: the result must be (rows, ..., n, %lld) (got %s)",
                (long long)a->noise.weight.cols, SWI_SHAPE(s));
    SW_TRY(swi_noise_infer("noise_table", &a->noise, s->dim[0], &in[TABLE_SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *s};
    return SW_OK;
}

static size_t table_scratch_bytes(const sw_kernel_info *info)
{
    const swi_noise_table_attrs *a = info->attrs;
    return (size_t)a->shape.dim[a->shape.rank - 2] * sw_dtype_bytes(SW_I32);
}

/* Rows that are dropped, or not: y += s sigma e W, n rows of `width`. */
static void drop_rows(const sw_launch *l, float *y, int64_t n, int part)
{
    const swi_noise_table_attrs *a = l->attrs;
    const int64_t width = a->noise.weight.cols;
    const sw_noise_at at = {l->seed, l->step, l->run + (uint32_t)(part % a->noise.directions)};
    const float sigma = *swi_in(l, TABLE_SIGMA), scale = sw_noise_sign(&a->noise, part) * sigma;
    sw_noise_direction d;
    sw_noise_prepare(&d, &a->noise.weight, &at, sigma);
    for (int64_t t = 0; t < n; t++) {
        const float *w = swi_in(l, TABLE_MORE) + (a->first + t) * width;
        const float e = sw_noise_dropped(&a->noise.weight, &d, a->first + t);
        for (int64_t j = 0; j < width; j++)
            y[t * width + j] += scale * (w[j] * e);
    }
}

/* The tables of one evaluation, each a batch of its own. */
static void one_evaluation(void *arg, int part)
{
    const sw_launch *l = arg;
    const swi_noise_table_attrs *a = l->attrs;
    const sw_shape *s = &a->shape;
    const int64_t n = s->dim[s->rank - 2], size = n * a->noise.weight.cols;
    const int64_t tables = swi_elements(s) / size / (a->noise.repeats * a->noise.directions);
    swi_noise_attrs alone = a->noise;
    alone.repeats = alone.directions = 1;
    sw_noise_layer layer = noise_layer(l, TABLE_SIGMA);
    layer.a = &alone;
    layer.first += (uint32_t)(part % a->noise.directions);
    layer.sigma *= sw_noise_sign(&a->noise, part);
    if (a->noise.has_sigmas)
        layer.weight_sigmas = swi_in(l, l->n_in - 1);
    const sw_ids ids = {.i32 = l->scratch, .n = n};
    for (int64_t k = 0; k < tables; k++) {
        float *y = swi_out(l, 0) + (part * tables + k) * size;
        if (swi_noise_drops(&a->noise))
            drop_rows(l, y, n, part);
        else
            sw_noise(l->isa)->embedding(y, &ids, NULL, &layer, &sw_par_alone);
    }
}

static sw_status table_forward(const sw_launch *l)
{
    const swi_noise_table_attrs *a = l->attrs;
    int32_t *positions = l->scratch;
    for (int64_t t = 0; t < a->shape.dim[a->shape.rank - 2]; t++)
        positions[t] = (int32_t)(a->first + t);
    if (!swi_adds(l, 0))
        noise_clear(l);
    l->par->run(l->par, one_evaluation, (void *)(uintptr_t)l,
                (int)(a->noise.repeats * a->noise.directions));
    return SW_OK;
}

static sw_status table_reference(const sw_reference *r)
{
    const swi_noise_table_attrs *a = r->attrs;
    const sw_shape *s = &a->shape;
    const int64_t n = s->dim[s->rank - 2], width = a->noise.weight.cols;
    const int64_t evaluations = a->noise.repeats * a->noise.directions;
    const int64_t each = swi_elements(s) / evaluations;
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t row = a->first + i / width % n, col = i % width;
        const float w =
            swi_noise_drops(&a->noise) ? (float)r->in[TABLE_MORE][row * width + col] : 0.0f;
        const evaluation v = evaluation_of(r, &a->noise, i / each, TABLE_SIGMA);
        r->out[0][i] = v.scale * (double)sw_noise_element(&a->noise.weight, &v.d, row, col, w) *
                       (a->noise.has_sigmas ? r->in[r->n_in - 1][row * width + col] : 1.0);
    }
    return SW_OK;
}

COUNT(table_operations, swi_count_per_element(&info->out[0], SWI_NORMAL + 4))

#define TABLE_NOISE(name, a_kind, sigmas)                                                      \
    static const swi_noise_table_attrs name = {                                                \
        .noise = {.weight = SPEC(a_kind, BOTH_SIDES, 2, 9, 6, 1, 1, 1, 41),                    \
                  RUNS(2, 3, 1),                                                               \
                  .has_sigmas = sigmas},                                                       \
        .shape = {3, {12, 4, 6}},                                                              \
        .first = 2}
TABLE_NOISE(table_low_rank, SW_NOISE_LOW_RANK, 0);
TABLE_NOISE(table_iid, SW_NOISE_IID, 1);
TABLE_NOISE(table_permuted, SW_NOISE_PERMUTED, 0);
TABLE_NOISE(table_dropout, SW_NOISE_DROPOUT, 0);
static const sw_op_case table_cases[] = {
    CASE("low rank", IN(SCALAR), FILL(UNIT), AT(table_low_rank)),
    CASE("sigmas", IN(SCALAR, F32(9, 6)), FILL(UNIT, UNIT), AT(table_iid)),
    CASE("permuted", IN(SCALAR), FILL(UNIT), AT(table_permuted)),
    CASE("dropout", IN(SCALAR, F32(9, 6)), FILL(UNIT, NORMAL), AT(table_dropout)),
};

OP(noise_table, 1, 3, 1, ATTRS(swi_noise_table_attrs), .infer = table_infer,
   .scratch_bytes = table_scratch_bytes, .forward = table_forward, .no_gradient = 1,
   .random = 1, .operations = table_operations, CHECKS(table_reference, table_cases));
