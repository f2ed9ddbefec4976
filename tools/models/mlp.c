/* mlp: fully connected layers over whatever a sample has, of images over means of squares if
 * that is asked for. */
#include "tools/models/models.h"

static sw_status accepts(const tool_net_opts *o)
{
    const sw_shape *s = &o->data.field[0].shape;
    const int64_t pool = o->settings.pool;
    if (pool == 1 || (s->rank == 3 && s->dim[1] >= pool && s->dim[2] >= pool))
        return SW_OK;
    if (s->rank == 3)
        SW_FAIL(SW_INVALID,
                "mlp: --pool must be at most the side of images, %lld x %lld (got %lld)",
                (long long)s->dim[1], (long long)s->dim[2], (long long)pool);
    SW_FAIL(SW_INVALID, "mlp: --pool is for images (channels, height, width), and %s has none",
            o->data.name);
}

/* Numbers that the first layer reads. */
static int64_t inputs(const tool_net_opts *o)
{
    const sw_shape *s = &o->data.field[0].shape;
    const int64_t pool = o->settings.pool;
    return pool == 1 ? tool_field_elements(o, 0)
                     : s->dim[0] * (s->dim[1] / pool) * (s->dim[2] / pool);
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const cli_list *hidden = &o->settings.hidden;
    int64_t in = inputs(o);
    SW_TRY(tool_net_own(net, sizeof(tool_chain) + sizeof(sw_linear) * (size_t)(hidden->n + 1)));
    tool_chain_drop(net, o);
    tool_chain *chain = net->own;
    chain->layer = (sw_linear *)(chain + 1);
    for (int i = 0; i < hidden->n; i++) {
        tool_chain_add(net, chain, in, hidden->at[i]);
        in = hidden->at[i];
    }
    tool_chain_add(net, chain, in,
                   net->task == TOOL_CLASSIFY ? o->data.n_classes : tool_field_elements(o, 1));
    return SW_OK;
}

static sw_value forward(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const int64_t pool = net->settings.pool;
    if (pool > 1)
        x = sw_avg_pool(ctx, x, (int)pool);
    return tool_chain_apply(ctx, net, net->own, sw_flatten(ctx, x));
}

const tool_model tool_mlp = {
    .name = "mlp",
    .about = "fully connected layers",
    .learns = TOOL_CLASSIFY | TOOL_REGRESS,
    .takes = {[TOOL_HIDDEN] = "128,64",
              [TOOL_POOL] = "1",
              [TOOL_DROPOUT] = "0",
              [TOOL_ACTIVATION] = "relu"},
    .accepts = accepts,
    .declare = declare,
    .forward = forward,
};
