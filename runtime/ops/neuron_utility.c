/* The utility of neurons: a view of x. Its backward passes the gradient on as it is, and
 * averages |mean over positions of x dx| of each channel into a state of a model. A step
 * function that does not append it pays nothing; what it reads (x and its gradient) is there
 * when the rule runs, so updates may be released as ever.
 *
 * The sum of x dx over a plane is the gradient that channel_scale has for its scales. */
#include "runtime/ops/ops.h"
#include <string.h>

/* state.model NULL: none is averaged. */
typedef struct {
    sw_param state;
    float rate;
    uint32_t pad; /* 0 */
} utility_attrs;

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    char t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("neuron_utility", in, n_in));
    if (in[0].shape.rank != 2 && in[0].shape.rank != 4)
        SW_FAIL(SW_INVALID,
                "neuron_utility: the input must be (batch, channels) or (batch, channels, h, "
                "w) (got %s)",
                swi_shape_text(&in[0].shape, t));
    out[0] = in[0];
    return SW_OK;
}

static sw_status view(const sw_buffer *in, const void *attrs, const sw_type *out,
                      int64_t *strides, int64_t *offset)
{
    (void)attrs;
    for (int i = 0; i < out->shape.rank; i++)
        strides[i] = in->stride[i];
    *offset = 0;
    return SW_OK;
}

/* Image by image and channel by channel: the sum of x dx over the positions. */
static sw_value sum_over_positions(sw_ctx *ctx, sw_value x, sw_value dx)
{
    enum { OF_THE_SCALES = 2 };
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return x;
    sw_type type = v->type;
    dx = swi_layout(ctx, dx, type.layout);
    if (type.shape.rank == 2)
        return sw_mul(ctx, x, dx);
    type.shape.dim[2] = type.shape.dim[3] = 1;
    if (ctx->status != SW_OK)
        return x;
    const uint32_t in[] = {dx.id - 1, x.id - 1};
    uint32_t sum = SWI_NONE;
    const swi_append_args args = {.op = SW_OP_channel_scale,
                                  .grad = OF_THE_SCALES,
                                  .in = in,
                                  .n_in = 2,
                                  .out_types = &type,
                                  .n_out = 1};
    return swi_stick(ctx, swi_append(ctx, &args, &sum)) == SW_OK ? swi_handle(ctx, sum) : x;
}

static void average(sw_ctx *ctx, const utility_attrs *a, sw_value x, sw_value dx)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL || dx.id == 0)
        return;
    const sw_shape shape = v->type.shape;
    const bool image = shape.rank == 4;
    const int64_t positions = image ? shape.dim[2] * shape.dim[3] : 1;
    const sw_value sum = sw_abs(ctx, sum_over_positions(ctx, x, dx));
    const sw_value now =
        sw_mean(ctx, sum, image ? SW_AXIS(0) | SW_AXIS(2) | SW_AXIS(3) : SW_AXIS(0));
    const sw_value part = sw_scale_by(ctx, now, a->rate / (float)positions);
    const sw_value before = sw_scale_by(ctx, sw_use(ctx, a->state), 1.0f - a->rate);
    sw_assign(ctx, a->state, sw_add(ctx, before, part));
}

static void rule(sw_ctx *ctx, const sw_rule *r)
{
    const utility_attrs *a = r->attrs;
    if (a->state.model != NULL)
        average(ctx, a, r->in[0], r->dout[0]);
    r->din[0] = r->dout[0];
}

static sw_status reference(const sw_reference *r)
{
    memcpy(r->out[0], r->in[0], (size_t)swi_elements(&r->in_type[0].shape) * sizeof(double));
    return SW_OK;
}

static const utility_attrs of_no_state;
static const sw_op_case cases[] = {
    CASE("matrix", IN(F32(3, 4)), AT(of_no_state)),
    CASE("images", IN(F32(2, 3, 4, 5)), AT(of_no_state)),
};

OP(neuron_utility, 1, 0, 1, ATTRS(utility_attrs), .infer = infer, .layout = swi_layout_keep,
   .view = view, .rule = rule, CHECKS(reference, cases));

sw_value swi_neuron_utility(sw_ctx *ctx, sw_value x, sw_param state, float rate)
{
    utility_attrs a;
    memset(&a, 0, sizeof a);
    a.state = state;
    a.rate = rate;
    return sw_op_apply(ctx, SW_OP_neuron_utility, &x, 1, &a);
}
