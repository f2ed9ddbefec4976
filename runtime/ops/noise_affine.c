/* y = x (g + s sigma e) + (b + s sigma f): gain and shift of channels with noise, in {x, sigma,
 * [g], [b], [sigmas of g], [sigmas of b]} as has_gain, has_shift and has_sigmas say. Where
 * there is no g it counts as 1 without noise, no b as 0; weight is the noise of the gain, bias
 * that of the shift, and each may be there alone. With dropout in `weight` channels are rows of
 * the layer's weight: x (1 + s sigma E / W), and g is not there. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"

enum { X, SIGMA, MORE };

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

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    char s[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("noise_affine", in, 1));
    if (a->channel_axis < 1 || a->channel_axis >= x->rank || n_in != n_operands(a))
        SW_FAIL(SW_INVALID,
                "noise_affine: x must have channels in axis %lld after axis 0 (got %s)",
                (long long)a->channel_axis, swi_shape_text(x, s));
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

static sw_status forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    const sw_type *x = &l->in[X].type;
    const operands o = operands_of(l);
    const places p = places_of(x, a->channel_axis);
    sw_noise_layer layer = swi_noise_layer(l, SIGMA);
    const sw_noise_affine f = {.y = swi_out(l, 0),
                               .x = swi_in(l, X),
                               .gain = o.gain,
                               .shift = o.shift,
                               .batch = x->shape.dim[0],
                               .middle = p.middle,
                               .channels = p.channels,
                               .inner = p.inner,
                               .blocks = p.blocks,
                               .accumulate = swi_adds(l, 0)};
    layer.weight_sigmas = o.gain_sigmas;
    layer.bias_sigmas = o.shift_sigmas;
    sw_noise(l->isa)->affine(&f, &layer, l->par);
    return SW_OK;
}

static sw_status reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    sw_type plain = r->in_type[X];
    plain.layout = SW_PLAIN;
    const places p = places_of(&plain, a->channel_axis);
    const int64_t rows = plain.shape.dim[0], each = swi_noise_rows_each(a, rows);
    const int shift_at = MORE + a->has_gain, gain_sigmas = shift_at + a->has_shift;
    const bool has_gain_sigmas = a->has_sigmas && a->has_gain && a->weight.rows != 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t evaluation = row / each;
        const sw_noise_at at = {r->seed, r->step,
                                r->run + (uint32_t)(evaluation % a->directions)};
        const double scale = (double)sw_noise_sign(a, evaluation) * r->in[SIGMA][0];
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->weight, &at, (float)r->in[SIGMA][0]);
        for (int64_t c = 0; c < p.channels; c++) {
            double gain = a->has_gain ? r->in[MORE][c] : 1.0;
            double shift = a->has_shift ? r->in[shift_at][c] : 0.0;
            if (a->weight.rows != 0)
                gain += scale * (has_gain_sigmas ? r->in[gain_sigmas][c] : 1.0) *
                        (double)(a->weight.kind == SW_NOISE_DROPOUT
                                     ? sw_noise_dropped(&a->weight, &d, c)
                                     : sw_noise_number(&a->weight, SW_NOISE_ELEMENTS, &at, c));
            if (a->bias.rows != 0)
                shift += scale * (a->has_sigmas ? r->in[r->n_in - 1][c] : 1.0) *
                         (double)sw_noise_number(&a->bias, SW_NOISE_ELEMENTS, &at, c);
            for (int64_t m = 0; m < p.middle; m++)
                for (int64_t i = 0; i < p.inner; i++) {
                    const int64_t k = place_at(&p, row, m, c) + i;
                    r->out[0][k] = r->in[X][k] * gain + shift;
                }
        }
    }
    return SW_OK;
}

static uint64_t operations(const sw_kernel_info *info)
{
    const swi_noise_attrs *a = info->attrs;
    const uint64_t channels = (uint64_t)info->in[X].shape.dim[a->channel_axis];
    return swi_count_add(
        swi_count_mul(2 * SWI_NORMAL, swi_count_mul((uint64_t)a->directions, channels)),
        swi_count_per_element(&info->out[0], 2));
}

#define VECTOR(n, s)                                                                           \
    {                                                                                          \
        .kind = SW_NOISE_IID, .rows = 1, .cols = n, .taps = 1, .stream = s                     \
    }
#define BATCH .repeats = 2, .directions = 3, .antithetic = 1
static const swi_noise_attrs norm = {.weight = VECTOR(7, 1),
                                     .bias = VECTOR(7, 2),
                                     BATCH,
                                     .channel_axis = 1,
                                     .has_gain = 1,
                                     .has_shift = 1};
static const swi_noise_attrs last = {
    .weight = VECTOR(5, 1), BATCH, .channel_axis = 2, .has_gain = 1};
static const swi_noise_attrs shift = {.bias = VECTOR(7, 2), BATCH, .channel_axis = 1};
static const swi_noise_attrs dropped = {
    .weight = {.kind = SW_NOISE_DROPOUT, .rows = 7, .cols = 4, .taps = 1, .stream = 5},
    BATCH,
    .channel_axis = 1,
    .has_shift = 1};
static const swi_noise_attrs sigmas = {.weight = VECTOR(7, 1),
                                       .bias = VECTOR(7, 2),
                                       BATCH,
                                       .channel_axis = 1,
                                       .has_gain = 1,
                                       .has_shift = 1,
                                       .has_sigmas = 1};
static const sw_op_case cases[] = {
    CASE("images", IN(F32(6, 7, 3, 2), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(norm)),
    CASE("matrix", IN(F32(6, 7), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(norm)),
    CASE("many images", IN(F32(36, 7, 5, 5), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT),
         AT(norm)),
    CASE("last axis", IN(F32(12, 4, 5), SCALAR, F32(5)), FILL(NORMAL, UNIT), AT(last)),
    CASE("shift alone", IN(F32(18, 7), SCALAR), FILL(NORMAL, UNIT), AT(shift)),
    CASE("dropout", IN(F32(18, 7), SCALAR, F32(7)), FILL(NORMAL, UNIT), AT(dropped)),
    CASE("sigmas", MANY(6, F32(6, 7), SCALAR, F32(7), F32(7)), FILL(NORMAL, UNIT), AT(sigmas)),
};

OP(noise_affine, 2, 6, 1, ATTRS(swi_noise_attrs), .infer = infer, .layout = swi_layout_first,
   .image_in = 1, .inplace = 1, .forward = forward, .no_gradient = 1, .random = 1,
   .operations = operations, CHECKS(reference, cases));
