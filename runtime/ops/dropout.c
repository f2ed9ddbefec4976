/* Dropout: keeps nothing. Forward and backward draw the same numbers from the same stream, so
 * that no mask exists; element i of the tensor has number i in both layouts. */
#include "kernels/dispatch.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const float p = ((const swi_number_attrs *)attrs)->value;
    if (!(p >= 0.0f && p <= 1.0f))
        SW_FAIL(SW_INVALID, "dropout: p must be 0 to 1 (got %g)", (double)p);
    return swi_infer_same("dropout", in, n_in, out);
}

static sw_status drop(const sw_launch *l, float p)
{
    const sw_shape *s = &l->in[0].type.shape;
    const bool blocks = l->in[0].type.layout == SW_N16;
    const sw_drop d = {.p = p,
                       .seed = l->seed,
                       .stream = l->stream,
                       .step = l->step,
                       .run = l->run,
                       .batch = blocks ? s->dim[0] : 1,
                       .inner = blocks ? s->dim[1] * s->dim[2] * s->dim[3] : swi_elements(s),
                       .blocks = blocks};
    sw_axes(l->isa)->dropout(swi_out(l, 0), swi_in(l, 0), &d, swi_adds(l, 0), l->par);
    return SW_OK;
}

/* in: x or dy */
KERNEL(kernel, drop(l, ((const swi_number_attrs *)l->attrs)->value))

/* Philox, 24 of its bits, a comparison and a product. */
COUNT(operations, swi_count_per_element(&info->out[0], SWI_PHILOX + 3))

static sw_status drop_reference(const sw_reference *r, float p)
{
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++) {
        float u;
        sw_rng_uniform(&u, i, 1, r->seed, r->stream, r->step, r->run);
        const double x = r->in[0][i];
        r->out[0][i] = u < p ? x - x : x / (1.0 - (double)p);
    }
    return SW_OK;
}

REFERENCE(reference, drop_reference(r, ((const swi_number_attrs *)r->attrs)->value))

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0)), kernel, operations, .inplace = 1)};

static const swi_number_attrs rates[] = {{0.5f}, {0.1f}, {0.9f}, {0.0f}, {1.0f}};
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(33, 7)), AT(rates[0])),
    CASE("several parts", IN(F32(3, 11003)), AT(rates[1])),
    CASE("image, few images", IN(F32(3, 2, 5, 7)), AT(rates[0])),
    CASE("image in blocks, the last not full", IN(N16(35, 3, 5, 7)), AT(rates[0])),
    CASE("large image in blocks", IN(N16(16, 3, 19, 17)), AT(rates[2])),
    CASE("scalar", IN(SCALAR), AT(rates[1])),
    CASE("nothing dropped", IN(F32(5, 13)), AT(rates[3])),
};

OP(dropout, 1, 0, 1, ATTRS(swi_number_attrs), .rebuild = 1, .infer = infer,
   .layout = swi_layout_keep, .inplace = 1, .forward = kernel, .random = 1,
   .operations = operations, GRADS(grads), CHECKS(reference, cases));

/* ---- the same by a scalar tensor, a knob ------------------------------------------------- */

static sw_status by_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("dropout_by", in, n_in));
    if (sw_type_elements(&in[1]) != 1)
        SW_FAIL(SW_INVALID, "dropout_by: the rate must be a scalar");
    out[0] = in[0];
    return SW_OK;
}

/* in: x or dy, the rate */
KERNEL(by_kernel, drop(l, *swi_in(l, 1)))
REFERENCE(by_reference, drop_reference(r, (float)r->in[1][0]))

static const sw_grad_desc by_grads[] = {
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(1)), by_kernel, operations, .inplace = 1)};

#define RATE .fill = {SW_FILL_NORMAL, SW_FILL_UNIT}
static const sw_op_case by_cases[] = {
    CASE("matrix", IN(F32(33, 7), SCALAR), RATE),
    CASE("several parts", IN(F32(3, 11003), SCALAR), RATE),
    CASE("image, few images", IN(F32(3, 2, 5, 7), SCALAR), RATE),
    CASE("image in blocks, the last not full", IN(N16(35, 3, 5, 7), SCALAR), RATE),
    CASE("scalar", IN(SCALAR, SCALAR), RATE),
};

OP(dropout_by, 2, 0, 1, .rebuild = 1, .infer = by_infer, .layout = swi_layout_first,
   .inplace = 1, .forward = by_kernel, .random = 1, .operations = operations, GRADS(by_grads),
   CHECKS(by_reference, by_cases));

/* ---- calls ------------------------------------------------------------------------------- */

sw_value sw_dropout(sw_ctx *ctx, sw_value x, float p)
{
    const swi_number_attrs attrs = {p};
    char stream[SWI_STREAM_TEXT];
    uint32_t id = SWI_NONE;
    if (swi_value_at(ctx, x) == NULL)
        return (sw_value){0, 0};
    if ((sw_ctx_mode(ctx) == SW_EVAL || p == 0.0f) && p >= 0.0f && p <= 1.0f)
        return x;
    swi_name_stream(ctx, SW_OP_dropout, SW_OP_dropout_by, stream);
    const uint32_t in = x.id - 1;
    if (swi_apply(ctx, SW_OP_dropout, &in, 1, &attrs, NULL, 0, stream, &id) != SW_OK)
        return (sw_value){0, 0};
    return swi_handle(ctx, id);
}

sw_value sw_dropout_knob(sw_ctx *ctx, sw_value x, sw_knob p)
{
    char stream[SWI_STREAM_TEXT];
    uint32_t id = SWI_NONE;
    if (swi_value_at(ctx, x) == NULL)
        return (sw_value){0, 0};
    const uint32_t in[] = {x.id - 1, swi_knob_value(ctx, p)};
    if (in[1] == SWI_NONE || swi_stick(ctx, swi_knob_use(p, SWI_KNOB_SHARE)) != SW_OK)
        return (sw_value){0, 0};
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return x;
    swi_name_stream(ctx, SW_OP_dropout, SW_OP_dropout_by, stream);
    if (swi_apply(ctx, SW_OP_dropout_by, in, 2, NULL, NULL, 0, stream, &id) != SW_OK)
        return (sw_value){0, 0};
    return swi_handle(ctx, id);
}
