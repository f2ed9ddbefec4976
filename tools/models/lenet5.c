/* lenet5: two convolutions and three fully connected layers (LeCun et al. 1998), with max
 * pooling. */
#include "tools/models/models.h"

typedef struct {
    sw_conv2d conv[2];
    tool_chain fc;
    sw_linear layer[3];
} lenet5;

static sw_status accepts(const tool_net_opts *o)
{
    const sw_shape *s = &o->data.field[0].shape;
    const int side = TOOL_LENET5_SIDE;
    if (s->rank == 3 && s->dim[0] == 1 && s->dim[1] == side && s->dim[2] == side)
        return SW_OK;
    if (s->rank == 3)
        SW_FAIL(SW_INVALID,
                "lenet5 reads images of 1 x %d x %d, and those of %s are %lld x %lld x %lld",
                side, side, o->data.name, (long long)s->dim[0], (long long)s->dim[1],
                (long long)s->dim[2]);
    SW_FAIL(SW_INVALID, "lenet5 reads images of 1 x %d x %d, and %s has none", side, side,
            o->data.name);
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    SW_TRY(tool_net_own(net, sizeof(lenet5)));
    tool_chain_drop(net, o);
    lenet5 *own = net->own;
    own->fc.layer = own->layer;
    own->conv[0] = sw_conv2d_new(net->model, "conv1", 1, 6, 5);
    own->conv[1] = sw_conv2d_new(net->model, "conv2", 6, 16, 5);
    tool_chain_add(net, &own->fc, 16 * 4 * 4, 120);
    tool_chain_add(net, &own->fc, 120, 84);
    tool_chain_add(net, &own->fc, 84, o->data.n_classes);
    return SW_OK;
}

static sw_value forward(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    static const char *const names[] = {"conv1", "conv2"};
    const lenet5 *own = net->own;
    for (int i = 0; i < 2; i++) {
        x = sw_apply_conv2d(ctx, own->conv[i], x);
        sw_scope_begin(ctx, names[i]);
        x = sw_max_pool(ctx, tool_activate(ctx, net, x), 2);
        sw_scope_end(ctx);
    }
    return tool_chain_apply(ctx, net, &own->fc, sw_flatten(ctx, x));
}

const tool_model tool_lenet5 = {
    .name = "lenet5",
    .about = "two convolutions and three fully connected layers, for images of 28 x 28",
    .learns = TOOL_CLASSIFY,
    .takes = {[TOOL_DROPOUT] = "0", [TOOL_ACTIVATION] = "relu"},
    .accepts = accepts,
    .declare = declare,
    .forward = forward,
};
