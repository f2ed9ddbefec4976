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
static sw_status kernel(const sw_launch *l)
{
    return drop(l, ((const swi_number_attrs *)l->attrs)->value);
}

/* Philox, 24 of its bits, a comparison and a product. */
static uint64_t operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->out[0], SWI_PHILOX + 3);
}

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

static sw_status reference(const sw_reference *r)
{
    return drop_reference(r, ((const swi_number_attrs *)r->attrs)->value);
}

static const sw_grad_desc grads[] = {{.n_makes = 1,
                                      .makes = {0},
                                      .n_operands = 1,
                                      .operands = {SW_DOUT(0)},
                                      .inplace = 1,
                                      .kernel = kernel,
                                      .operations = operations}};

static const swi_number_attrs rates[] = {{0.5f}, {0.1f}, {0.9f}, {0.0f}, {1.0f}};
static const sw_op_case cases[] = {
    {.name = "matrix", .n_in = 1, .in = {SWI_F32(33, 7)}, .attrs = &rates[0]},
    {.name = "several parts", .n_in = 1, .in = {SWI_F32(3, 11003)}, .attrs = &rates[1]},
    {.name = "image, few images", .n_in = 1, .in = {SWI_F32(3, 2, 5, 7)}, .attrs = &rates[0]},
    {.name = "image in blocks, the last not full",
     .n_in = 1,
     .in = {{SW_F32, SW_N16, {4, {35, 3, 5, 7}}}},
     .attrs = &rates[0]},
    {.name = "large image in blocks",
     .n_in = 1,
     .in = {{SW_F32, SW_N16, {4, {16, 3, 19, 17}}}},
     .attrs = &rates[2]},
    {.name = "scalar", .n_in = 1, .in = {SWI_F32_SCALAR}, .attrs = &rates[1]},
    {.name = "nothing dropped", .n_in = 1, .in = {SWI_F32(5, 13)}, .attrs = &rates[3]},
};

const sw_op_desc sw_op_dropout = {.size = sizeof(sw_op_desc),
                                  .rebuild = 1,
                                  .name = "dropout",
                                  .n_in = 1,
                                  .n_out = 1,
                                  .attrs_bytes = sizeof(swi_number_attrs),
                                  .infer = infer,
                                  .layout = swi_layout_keep,
                                  .inplace = 1,
                                  .forward = kernel,
                                  .grads = grads,
                                  .n_grads = SWI_COUNT(grads),
                                  .random = 1,
                                  .reference = reference,
                                  .cases = cases,
                                  .n_cases = SWI_COUNT(cases),
                                  .operations = operations};

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
static sw_status by_kernel(const sw_launch *l)
{
    return drop(l, *swi_in(l, 1));
}

static sw_status by_reference(const sw_reference *r)
{
    return drop_reference(r, (float)r->in[1][0]);
}

static const sw_grad_desc by_grads[] = {{.n_makes = 1,
                                         .makes = {0},
                                         .n_operands = 2,
                                         .operands = {SW_DOUT(0), SW_IN(1)},
                                         .inplace = 1,
                                         .kernel = by_kernel,
                                         .operations = operations}};

#define RATE .fill = {SW_FILL_NORMAL, SW_FILL_UNIT}
static const sw_op_case by_cases[] = {
    {.name = "matrix", .n_in = 2, .in = {SWI_F32(33, 7), SWI_F32_SCALAR}, RATE},
    {.name = "several parts", .n_in = 2, .in = {SWI_F32(3, 11003), SWI_F32_SCALAR}, RATE},
    {.name = "image, few images", .n_in = 2, .in = {SWI_F32(3, 2, 5, 7), SWI_F32_SCALAR}, RATE},
    {.name = "image in blocks, the last not full",
     .n_in = 2,
     .in = {{SW_F32, SW_N16, {4, {35, 3, 5, 7}}}, SWI_F32_SCALAR},
     RATE},
    {.name = "scalar", .n_in = 2, .in = {SWI_F32_SCALAR, SWI_F32_SCALAR}, RATE},
};

const sw_op_desc sw_op_dropout_by = {.size = sizeof(sw_op_desc),
                                     .rebuild = 1,
                                     .name = "dropout_by",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .infer = by_infer,
                                     .layout = swi_layout_first,
                                     .inplace = 1,
                                     .forward = by_kernel,
                                     .grads = by_grads,
                                     .n_grads = SWI_COUNT(by_grads),
                                     .random = 1,
                                     .reference = by_reference,
                                     .cases = by_cases,
                                     .n_cases = SWI_COUNT(by_cases),
                                     .operations = operations};

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
