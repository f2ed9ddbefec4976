/* The part that noise on a table adds, where its rows are added to each sample as positions
 * are: y (rows, ..., n, width) = s sigma E(first + t) for position t of n, in {sigma, [table:
 * dropout], [sigmas of each element]}. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"

enum { SIGMA, MORE };

static bool drops(const swi_noise_table_attrs *a)
{
    return a->noise.weight.kind == SW_NOISE_DROPOUT;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_table_attrs *a = attrs;
    const sw_shape *s = &a->shape;
    char text[SWI_SHAPE_TEXT];
    if (n_in != MORE + drops(a) + a->noise.has_sigmas)
        SW_FAIL(SW_INVALID, "noise_table: must have %d inputs (got %d)",
                MORE + drops(a) + a->noise.has_sigmas, n_in);
    if (s->rank < 3 || s->dim[s->rank - 1] != a->noise.weight.cols || a->first < 0 ||
        s->dim[s->rank - 2] > a->noise.weight.rows - a->first || a->noise.weight.taps != 1)
        SW_FAIL(SW_INVALID, "noise_table: the result must be (rows, ..., n, %lld) (got %s)",
                (long long)a->noise.weight.cols, swi_shape_text(s, text));
    SW_TRY(swi_noise_infer("noise_table", &a->noise, s->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *s};
    return SW_OK;
}

static size_t scratch_bytes(const sw_kernel_info *info)
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
    const float sigma = *swi_in(l, SIGMA), scale = sw_noise_sign(&a->noise, part) * sigma;
    sw_noise_direction d;
    sw_noise_prepare(&d, &a->noise.weight, &at, sigma);
    for (int64_t t = 0; t < n; t++) {
        const float *w = swi_in(l, MORE) + (a->first + t) * width;
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
    sw_noise_layer layer = swi_noise_layer(l, SIGMA);
    layer.a = &alone;
    layer.first += (uint32_t)(part % a->noise.directions);
    layer.sigma *= sw_noise_sign(&a->noise, part);
    if (a->noise.has_sigmas)
        layer.weight_sigmas = swi_in(l, l->n_in - 1);
    const sw_ids ids = {.i32 = l->scratch, .n = n};
    for (int64_t k = 0; k < tables; k++) {
        float *y = swi_out(l, 0) + (part * tables + k) * size;
        if (drops(a))
            drop_rows(l, y, n, part);
        else
            sw_noise(l->isa)->embedding(y, &ids, NULL, &layer, &sw_par_alone);
    }
}

static sw_status forward(const sw_launch *l)
{
    const swi_noise_table_attrs *a = l->attrs;
    int32_t *positions = l->scratch;
    for (int64_t t = 0; t < a->shape.dim[a->shape.rank - 2]; t++)
        positions[t] = (int32_t)(a->first + t);
    if (!swi_adds(l, 0))
        swi_noise_clear(l);
    l->par->run(l->par, one_evaluation, (void *)(uintptr_t)l,
                (int)(a->noise.repeats * a->noise.directions));
    return SW_OK;
}

static sw_status reference(const sw_reference *r)
{
    const swi_noise_table_attrs *a = r->attrs;
    const sw_shape *s = &a->shape;
    const int64_t n = s->dim[s->rank - 2], width = a->noise.weight.cols;
    const int64_t evaluations = a->noise.repeats * a->noise.directions;
    const int64_t each = swi_elements(s) / evaluations;
    for (int64_t i = 0; i < swi_elements(s); i++) {
        const int64_t e = i / each, row = a->first + i / width % n, col = i % width;
        const sw_noise_at at = {r->seed, r->step, r->run + (uint32_t)(e % a->noise.directions)};
        const float w = drops(a) ? (float)r->in[MORE][row * width + col] : 0.0f;
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->noise.weight, &at, (float)r->in[SIGMA][0]);
        r->out[0][i] = (double)sw_noise_sign(&a->noise, e) * r->in[SIGMA][0] *
                       (double)sw_noise_element(&a->noise.weight, &d, row, col, w) *
                       (a->noise.has_sigmas ? r->in[r->n_in - 1][row * width + col] : 1.0);
    }
    return SW_OK;
}

COUNT(operations, swi_count_per_element(&info->out[0], SWI_NORMAL + 4))

#define NOISE(name, a_kind, sigmas)                                                            \
    static const swi_noise_table_attrs name = {                                                \
        .noise = {.weight = {.kind = a_kind,                                                   \
                             .sides = SW_NOISE_IN | SW_NOISE_OUT,                              \
                             .rank = 2,                                                        \
                             .rows = 9,                                                        \
                             .cols = 6,                                                        \
                             .keep_rows = 8,                                                   \
                             .keep_cols = 5,                                                   \
                             .taps = 1,                                                        \
                             .stream = 41},                                                    \
                  .repeats = 2,                                                                \
                  .directions = 3,                                                             \
                  .antithetic = 1,                                                             \
                  .has_sigmas = sigmas},                                                       \
        .shape = {3, {12, 4, 6}},                                                              \
        .first = 2}
NOISE(low_rank, SW_NOISE_LOW_RANK, 0);
NOISE(iid, SW_NOISE_IID, 1);
NOISE(permuted, SW_NOISE_PERMUTED, 0);
NOISE(dropout, SW_NOISE_DROPOUT, 0);
static const sw_op_case cases[] = {
    CASE("low rank", IN(SCALAR), FILL(UNIT), AT(low_rank)),
    CASE("sigmas", IN(SCALAR, F32(9, 6)), FILL(UNIT, UNIT), AT(iid)),
    CASE("permuted", IN(SCALAR), FILL(UNIT), AT(permuted)),
    CASE("dropout", IN(SCALAR, F32(9, 6)), FILL(UNIT, NORMAL), AT(dropout)),
};

OP(noise_table, 1, 3, 1, ATTRS(swi_noise_table_attrs), .infer = infer,
   .scratch_bytes = scratch_bytes, .forward = forward, .no_gradient = 1, .random = 1,
   .operations = operations, CHECKS(reference, cases));
