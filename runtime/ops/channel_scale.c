/* y = x * s: images (batch, c, h, w) by one number for each image and channel (batch, c, 1, 1),
 * the end of squeeze-and-excitation. y has the layout of x.
 *
 * Keeps x and s: dx = dy s, ds = the sum of dy x over a plane. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *x = &in[0].shape, *s = &in[1].shape;
    char t[SWI_SHAPE_TEXT], u[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_f32("channel_scale", in, n_in));
    if (x->rank != 4 || s->rank != 4 || s->dim[0] != x->dim[0] || s->dim[1] != x->dim[1] ||
        s->dim[2] != 1 || s->dim[3] != 1)
        SW_FAIL(SW_INVALID,
                "channel_scale: the inputs must be (batch, c, h, w) and (batch, c, 1, 1) (got "
                "%s and %s)",
                swi_shape_text(x, t), swi_shape_text(s, u));
    out[0] = in[0];
    return SW_OK;
}

static sw_scale_args args_of(const sw_type *x)
{
    return (sw_scale_args){.batch = x->shape.dim[0],
                           .channels = x->shape.dim[1],
                           .positions = x->shape.dim[2] * x->shape.dim[3],
                           .plain = x->layout == SW_PLAIN};
}

static sw_status forward(const sw_launch *l)
{
    sw_scale_args a = args_of(&l->in[0].type);
    a.y = swi_out(l, 0);
    a.x = swi_in(l, 0);
    a.s = swi_in(l, 1);
    a.add_y = swi_adds(l, 0);
    sw_dense(l->isa)->channel_scale(&a, l->par);
    return SW_OK;
}

/* in: dy, x, s; out: dx, ds */
static sw_status both_kernel(const sw_launch *l)
{
    sw_scale_args a = args_of(&l->in[0].type);
    a.dy = swi_in(l, 0);
    a.x = swi_in(l, 1);
    a.s = swi_in(l, 2);
    a.dx = swi_out(l, 0);
    a.ds = swi_out(l, 1);
    a.add_dx = swi_adds(l, 0);
    a.add_ds = swi_adds(l, 1);
    sw_dense(l->isa)->channel_scale_grad(&a, l->par);
    return SW_OK;
}

/* in: dy, s; out: dx */
static sw_status dx_kernel(const sw_launch *l)
{
    sw_scale_args a = args_of(&l->in[0].type);
    a.dy = swi_in(l, 0);
    a.s = swi_in(l, 1);
    a.dx = swi_out(l, 0);
    a.add_dx = swi_adds(l, 0);
    sw_dense(l->isa)->channel_scale_grad(&a, l->par);
    return SW_OK;
}

/* in: dy, x; out: ds */
static sw_status ds_kernel(const sw_launch *l)
{
    sw_scale_args a = args_of(&l->in[0].type);
    a.dy = swi_in(l, 0);
    a.x = swi_in(l, 1);
    a.ds = swi_out(l, 0);
    a.add_ds = swi_adds(l, 0);
    sw_dense(l->isa)->channel_scale_grad(&a, l->par);
    return SW_OK;
}

static uint64_t both_operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->in[0], 3);
}

static uint64_t dx_operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->in[0], 1);
}

static uint64_t ds_operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->in[0], 2);
}

static sw_status reference(const sw_reference *r)
{
    const sw_shape *x = &r->in_type[0].shape;
    for (int64_t i = 0; i < swi_elements(x); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][i / (x->dim[2] * x->dim[3])];
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    {.n_makes = 2,
     .makes = {0, 1},
     .n_operands = 3,
     .operands = {SW_DOUT(0), SW_IN(0), SW_IN(1)},
     .inplace = 3,
     .kernel = both_kernel,
     .operations = both_operations},
    {.n_makes = 1,
     .makes = {0},
     .n_operands = 2,
     .operands = {SW_DOUT(0), SW_IN(1)},
     .kernel = dx_kernel,
     .operations = dx_operations},
    {.n_makes = 1,
     .makes = {1},
     .n_operands = 2,
     .operands = {SW_DOUT(0), SW_IN(0)},
     .kernel = ds_kernel,
     .operations = ds_operations},
};

#define N16_CASE(b, c, h, w)                                                                   \
    {                                                                                          \
        {SW_F32, SW_N16, {4, {b, c, h, w}}},                                                   \
        {                                                                                      \
            SW_F32, SW_N16,                                                                    \
            {                                                                                  \
                4,                                                                             \
                {                                                                              \
                    b, c, 1, 1                                                                 \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
static const sw_op_case cases[] = {
    {.name = "plain", .n_in = 2, .in = {SWI_F32(3, 2, 5, 7), SWI_F32(3, 2, 1, 1)}},
    {.name = "one element", .n_in = 2, .in = {SWI_F32(1, 1, 1, 1), SWI_F32(1, 1, 1, 1)}},
    {.name = "wide", .n_in = 2, .in = {SWI_F32(2, 3, 9, 17), SWI_F32(2, 3, 1, 1)}},
    {.name = "17 images in blocks", .n_in = 2, .in = N16_CASE(17, 3, 3, 5)},
    {.name = "blocks, one place", .n_in = 2, .in = N16_CASE(33, 2, 1, 1)},
};

const sw_op_desc sw_op_channel_scale = {.size = sizeof(sw_op_desc),
                                        .name = "channel_scale",
                                        .n_in = 2,
                                        .n_out = 1,
                                        .infer = infer,
                                        .layout = swi_layout_first,
                                        .inplace = 1,
                                        .rebuild = 1,
                                        .forward = forward,
                                        .grads = grads,
                                        .n_grads = SWI_COUNT(grads),
                                        .reference = reference,
                                        .cases = cases,
                                        .n_cases = SWI_COUNT(cases)};
