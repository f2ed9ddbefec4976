/* The part that noise on weight and bias adds to a linear layer: y (rows, out) = s sigma (x E^T
 * + e), with the direction and the sign s of each row's evaluation. With `has_sigmas` each
 * element of the weight has a sigma of its own beside: in {x, sigma, sigmas of the weight, of
 * the bias}. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"

enum { X, SIGMA, SIGMAS };

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *x = &in[X].shape;
    const int64_t width = a->weight.rows != 0 ? a->weight.rows : a->bias.cols;
    char s[SWI_SHAPE_TEXT];
    (void)n_in;
    SW_TRY(swi_want_f32("noise_linear", in, 1));
    if (x->rank != 2 || (a->weight.rows != 0 && x->dim[1] != a->weight.cols) ||
        (a->bias.rows != 0 && a->bias.cols != width))
        SW_FAIL(SW_INVALID, "noise_linear: x must be (rows, %lld) (got %s)",
                (long long)a->weight.cols, swi_shape_text(x, s));
    SW_TRY(swi_noise_infer("noise_linear", a, x->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], width}}};
    return SW_OK;
}

SCRATCH(scratch_bytes,
        sw_noise(info->isa)->linear_bytes(info->attrs, info->in[X].shape.dim[0], info->threads))

static sw_status forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    const int64_t rows = l->in[X].type.shape.dim[0], width = l->out[0].type.shape.dim[1];
    sw_noise_layer layer = swi_noise_layer(l, SIGMA);
    if (a->has_sigmas && a->weight.rows != 0)
        layer.weight_sigmas = swi_in(l, SIGMAS);
    if (a->has_sigmas && a->bias.rows != 0)
        layer.bias_sigmas = swi_in(l, l->n_in - 1);
    if (!swi_adds(l, 0))
        swi_noise_clear(l);
    sw_noise(l->isa)->linear(swi_out(l, 0), swi_in(l, X), rows, width, &layer, l->scratch,
                             l->par);
    return SW_OK;
}

/* As the definition has it: number by number, in float64. */
static sw_status reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    const int64_t rows = r->in_type[X].shape.dim[0], width = r->out_type[0].shape.dim[1];
    const int64_t each = swi_noise_rows_each(a, rows), depth = a->weight.cols;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t evaluation = row / each;
        const uint32_t direction = r->run + (uint32_t)(evaluation % a->directions);
        const sw_noise_at at = {r->seed, r->step, direction};
        const double scale = (double)sw_noise_sign(a, evaluation) * r->in[SIGMA][0];
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->weight, &at, (float)r->in[SIGMA][0]);
        for (int64_t o = 0; o < width; o++) {
            double sum = 0.0;
            for (int64_t j = 0; a->weight.rows != 0 && j < depth; j++)
                sum += r->in[X][row * depth + j] *
                       (double)sw_noise_element(&a->weight, &d, o, j, 0.0f) *
                       (a->has_sigmas ? r->in[SIGMAS][o * depth + j] : 1.0);
            if (a->bias.rows != 0)
                sum += (double)sw_noise_number(&a->bias, SW_NOISE_ELEMENTS, &at, o) *
                       (a->has_sigmas ? r->in[r->n_in - 1][o] : 1.0);
            r->out[0][row * width + o] = scale * sum;
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
        swi_count_mul(2 * (uint64_t)(a->weight.cols + 1),
                      swi_count_per_element(&info->out[0], 1)));
}

#define SPEC(a_kind, a_sides, outputs, inputs)                                                 \
    {                                                                                          \
        .kind = a_kind, .sides = a_sides, .rank = 2, .rows = outputs, .cols = inputs,          \
        .keep_rows = (outputs)-2, .keep_cols = (inputs)-3, .taps = 1, .stream = 17             \
    }
#define BIAS(n)                                                                                \
    {                                                                                          \
        .kind = SW_NOISE_IID, .rows = 1, .cols = n, .taps = 1, .stream = 18                    \
    }

static const swi_noise_attrs low_rank = {.weight = SPEC(SW_NOISE_LOW_RANK, 0, 9, 7),
                                         .bias = BIAS(9),
                                         .repeats = 2,
                                         .directions = 5,
                                         .antithetic = 1};
static const swi_noise_attrs small = {
    .weight = SPEC(SW_NOISE_IID, 0, 3, 5), .repeats = 1, .directions = 6};
static const swi_noise_attrs iid = {
    .weight = SPEC(SW_NOISE_IID, 0, 21, 37), .repeats = 1, .directions = 6};
static const swi_noise_attrs permuted_in = {.weight =
                                                SPEC(SW_NOISE_PERMUTED, SW_NOISE_IN, 9, 20),
                                            .repeats = 3,
                                            .directions = 2,
                                            .antithetic = 1};
static const swi_noise_attrs permuted_out = {
    .weight = SPEC(SW_NOISE_PERMUTED, SW_NOISE_OUT, 20, 9), .repeats = 1, .directions = 4};
static const swi_noise_attrs permuted = {
    .weight = SPEC(SW_NOISE_PERMUTED, SW_NOISE_IN | SW_NOISE_OUT, 33, 18),
    .bias = BIAS(33),
    .repeats = 2,
    .directions = 3,
    .antithetic = 1};
static const swi_noise_attrs flip_in = {
    .weight = SPEC(SW_NOISE_SIGN_FLIP, SW_NOISE_IN, 9, 20), .repeats = 1, .directions = 4};
static const swi_noise_attrs flip_out = {
    .weight = SPEC(SW_NOISE_SIGN_FLIP, SW_NOISE_OUT, 20, 9), .repeats = 1, .directions = 4};
static const swi_noise_attrs flip = {
    .weight = SPEC(SW_NOISE_SIGN_FLIP, SW_NOISE_IN | SW_NOISE_OUT, 33, 18),
    .bias = BIAS(33),
    .repeats = 2,
    .directions = 3,
    .antithetic = 1};
static const swi_noise_attrs sparse = {
    .weight = SPEC(SW_NOISE_SPARSE, 0, 13, 15), .repeats = 2, .directions = 3};
static const swi_noise_attrs bias_alone = {
    .bias = BIAS(40), .repeats = 2, .directions = 3, .antithetic = 1};
static const swi_noise_attrs large = {.weight = SPEC(SW_NOISE_LOW_RANK, 0, 150, 270),
                                      .bias = BIAS(150),
                                      .repeats = 2,
                                      .directions = 20,
                                      .antithetic = 1};
static const swi_noise_attrs with_sigmas = {.weight = SPEC(SW_NOISE_IID, 0, 6, 5),
                                            .bias = BIAS(6),
                                            .repeats = 2,
                                            .directions = 3,
                                            .antithetic = 1,
                                            .has_sigmas = 1};

static const sw_op_case cases[] = {
    /* First: small, and of an infinite input low rank makes NaN where its terms have two signs.
     */
    CASE("small", IN(F32(6, 5), SCALAR), FILL(NORMAL, UNIT), AT(small)),
    CASE("iid", IN(F32(12, 37), SCALAR), FILL(NORMAL, UNIT), AT(iid)),
    CASE("low rank", IN(F32(10, 7), SCALAR), FILL(NORMAL, UNIT), AT(low_rank)),
    CASE("permuted in", IN(F32(6, 20), SCALAR), FILL(NORMAL, UNIT), AT(permuted_in)),
    CASE("permuted out", IN(F32(4, 9), SCALAR), FILL(NORMAL, UNIT), AT(permuted_out)),
    CASE("permuted", IN(F32(12, 18), SCALAR), FILL(NORMAL, UNIT), AT(permuted)),
    CASE("sign-flip in", IN(F32(4, 20), SCALAR), FILL(NORMAL, UNIT), AT(flip_in)),
    CASE("sign-flip out", IN(F32(8, 9), SCALAR), FILL(NORMAL, UNIT), AT(flip_out)),
    CASE("sign-flip", IN(F32(6, 18), SCALAR), FILL(NORMAL, UNIT), AT(flip)),
    CASE("sparse", IN(F32(6, 15), SCALAR), FILL(NORMAL, UNIT), AT(sparse)),
    CASE("bias alone", IN(F32(6, 3), SCALAR), FILL(NORMAL, UNIT), AT(bias_alone)),
    CASE("large", IN(F32(40, 270), SCALAR), FILL(NORMAL, UNIT), AT(large)),
    CASE("sigmas", IN(F32(6, 5), SCALAR, F32(6, 5), F32(6)), FILL(NORMAL, UNIT, UNIT, UNIT),
         AT(with_sigmas)),
};

OP(noise_linear, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = infer,
   .scratch_bytes = scratch_bytes, .forward = forward, .no_gradient = 1, .random = 1,
   .operations = operations, CHECKS(reference, cases));
