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

/* dy is operand 0; x, s, dx and ds are these operands, -1: none. */
static sw_status make(const sw_launch *l, int x, int s, int dx, int ds)
{
    sw_scale_args a = args_of(&l->in[0].type);
    a.dy = swi_in(l, 0);
    a.x = x >= 0 ? swi_in(l, x) : NULL;
    a.s = s >= 0 ? swi_in(l, s) : NULL;
    if (dx >= 0) {
        a.dx = swi_out(l, dx);
        a.add_dx = swi_adds(l, dx);
    }
    if (ds >= 0) {
        a.ds = swi_out(l, ds);
        a.add_ds = swi_adds(l, ds);
    }
    sw_dense(l->isa)->channel_scale_grad(&a, l->par);
    return SW_OK;
}

KERNEL(both_kernel, make(l, 1, 2, 0, 1))
KERNEL(dx_kernel, make(l, -1, 1, 0, -1))
KERNEL(ds_kernel, make(l, 1, -1, -1, 0))
COUNT(both_operations, swi_count_per_element(&info->in[0], 3))
COUNT(dx_operations, swi_count_per_element(&info->in[0], 1))
COUNT(ds_operations, swi_count_per_element(&info->in[0], 2))

static sw_status reference(const sw_reference *r)
{
    const sw_shape *x = &r->in_type[0].shape;
    for (int64_t i = 0; i < swi_elements(x); i++)
        r->out[0][i] = r->in[0][i] * r->in[1][i / (x->dim[2] * x->dim[3])];
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0, 1), FROM(SW_DOUT(0), SW_IN(0), SW_IN(1)), both_kernel, both_operations,
         .inplace = 3),
    GRAD(MAKES(0), FROM(SW_DOUT(0), SW_IN(1)), dx_kernel, dx_operations),
    GRAD(MAKES(1), FROM(SW_DOUT(0), SW_IN(0)), ds_kernel, ds_operations),
};

static const sw_op_case cases[] = {
    CASE("plain", IN(F32(3, 2, 5, 7), F32(3, 2, 1, 1))),
    CASE("one element", IN(F32(1, 1, 1, 1), F32(1, 1, 1, 1))),
    CASE("wide", IN(F32(2, 3, 9, 17), F32(2, 3, 1, 1))),
    CASE("17 images in blocks", IN(N16(17, 3, 3, 5), N16(17, 3, 1, 1))),
    CASE("blocks, one place", IN(N16(33, 2, 1, 1), N16(33, 2, 1, 1))),
};

OP(channel_scale, 2, 0, 1, .infer = infer, .layout = swi_layout_first, .inplace = 1,
   .rebuild = 1, .forward = forward, GRADS(grads), CHECKS(reference, cases));
