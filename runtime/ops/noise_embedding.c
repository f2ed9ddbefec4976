/* The part that noise on a table adds to an embedding: y (n..., width) = s sigma E(id), rows of
 * the matrix of noise by ids (n...). in {ids, sigma, [table: dropout], [sigmas]}. */
#include "kernels/dispatch.h"
#include "runtime/ops/noise.h"

enum { IDS, SIGMA, MORE };

static bool drops(const swi_noise_attrs *a)
{
    return a->weight.kind == SW_NOISE_DROPOUT;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_noise_attrs *a = attrs;
    const sw_shape *ids = &in[IDS].shape;
    SW_TRY(swi_want_ids("noise_embedding", "ids", &in[IDS]));
    if (ids->rank < 1 || ids->rank >= SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "noise_embedding: ids must have 1 to %d axes (got %d)",
                SW_MAX_RANK - 1, (int)ids->rank);
    if (n_in != MORE + drops(a) + a->has_sigmas)
        SW_FAIL(SW_INVALID, "noise_embedding: must have %d inputs (got %d)",
                MORE + drops(a) + a->has_sigmas, n_in);
    SW_TRY(swi_noise_infer("noise_embedding", a, ids->dim[0], &in[SIGMA]));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *ids};
    out[0].shape.dim[out[0].shape.rank++] = a->weight.cols;
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const swi_noise_attrs *a = l->attrs;
    const sw_ids ids = swi_ids_of(&l->in[IDS]);
    for (int64_t i = 0; i < ids.n; i++)
        if (sw_id_at(&ids, i) < 0 || sw_id_at(&ids, i) >= a->weight.rows)
            SW_FAIL(SW_INVALID, "noise_embedding: id %lld must be 0 or more and below %lld",
                    (long long)sw_id_at(&ids, i), (long long)a->weight.rows);
    sw_noise_layer layer = swi_noise_layer(l, SIGMA);
    if (a->has_sigmas)
        layer.weight_sigmas = swi_in(l, l->n_in - 1);
    if (!swi_adds(l, 0))
        swi_noise_clear(l);
    sw_noise(l->isa)->embedding(swi_out(l, 0), &ids, drops(a) ? swi_in(l, MORE) : NULL, &layer,
                                l->par);
    return SW_OK;
}

static sw_status reference(const sw_reference *r)
{
    const swi_noise_attrs *a = r->attrs;
    const int64_t rows = swi_elements(&r->in_type[IDS].shape), width = a->weight.cols;
    const int64_t each = swi_noise_rows_each(a, rows);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t evaluation = row / each, id = (int64_t)r->in[IDS][row];
        const uint32_t direction = r->run + (uint32_t)(evaluation % a->directions);
        const sw_noise_at at = {r->seed, r->step, direction};
        sw_noise_direction d;
        sw_noise_prepare(&d, &a->weight, &at, (float)r->in[SIGMA][0]);
        for (int64_t j = 0; j < width; j++) {
            const float w = drops(a) ? (float)r->in[MORE][id * width + j] : 0.0f;
            r->out[0][row * width + j] =
                (double)sw_noise_sign(a, evaluation) * r->in[SIGMA][0] *
                (double)sw_noise_element(&a->weight, &d, id, j, w) *
                (a->has_sigmas ? r->in[r->n_in - 1][id * width + j] : 1.0);
        }
    }
    return SW_OK;
}

COUNT(operations, swi_count_per_element(&info->out[0], SWI_NORMAL + 4))

#define SPEC(a_kind, outputs, inputs)                                                          \
    {                                                                                          \
        .kind = a_kind, .sides = SW_NOISE_IN | SW_NOISE_OUT, .rank = 2, .rows = outputs,       \
        .cols = inputs, .keep_rows = (outputs)-2, .keep_cols = (inputs)-3, .taps = 1,          \
        .stream = 19                                                                           \
    }
#define NOISE(name, kind, out, in)                                                             \
    static const swi_noise_attrs name = {                                                      \
        .weight = SPEC(kind, out, in), .repeats = 2, .directions = 3, .antithetic = 1}
NOISE(low_rank, SW_NOISE_LOW_RANK, 7, 20);
NOISE(iid, SW_NOISE_IID, 7, 20);
NOISE(permuted, SW_NOISE_PERMUTED, 7, 20);
NOISE(flip, SW_NOISE_SIGN_FLIP, 7, 20);
NOISE(sparse, SW_NOISE_SPARSE, 7, 20);
NOISE(dropout, SW_NOISE_DROPOUT, 7, 20);
static const sw_op_case cases[] = {
    CASE("low rank", IN(I32(6, 4), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(low_rank)),
    CASE("iid", IN(U8(12), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(iid)),
    CASE("permuted", IN(U16(6, 2), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(permuted)),
    CASE("sign-flip", IN(U8(12), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(flip)),
    CASE("sparse", IN(I32(6, 4), SCALAR), FILL(LABELS, UNIT), .limit = 7, AT(sparse)),
    CASE("dropout", IN(I32(6, 4), SCALAR, F32(7, 20)), FILL(LABELS, UNIT, NORMAL), .limit = 7,
         AT(dropout)),
};

OP(noise_embedding, 2, 4, 1, ATTRS(swi_noise_attrs), .infer = infer, .forward = forward,
   .no_gradient = 1, .random = 1, .operations = operations, CHECKS(reference, cases));
