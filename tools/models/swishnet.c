/* swishnet: equal linear layers with an activation after each, and the mean squared error
 * against a target of the same shape: what the article "memory-efficient Swish" measured. */
#include "tools/models/models.h"

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const int n = (int)o->settings.layers;
    int64_t in = tool_field_elements(o, 0);
    SW_TRY(tool_net_own(net, sizeof(tool_chain) + sizeof(sw_linear) * (size_t)n));
    tool_chain *chain = net->own;
    chain->layer = (sw_linear *)(chain + 1);
    chain->active_end = 1;
    for (int i = 0; i < n; i++) {
        const int64_t out = i + 1 < n ? o->settings.width : tool_field_elements(o, 1);
        tool_chain_add(net, chain, in, out);
        in = out;
    }
    return SW_OK;
}

static sw_value forward(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    return tool_chain_apply(ctx, net, net->own, sw_flatten(ctx, x));
}

const tool_model tool_swishnet = {
    .name = "swishnet",
    .about = "equal linear layers with swish after each, mean squared error",
    .learns = TOOL_REGRESS,
    .synthetic = TOOL_VECTORS,
    .synthetic_n = 1024,
    .optimizer = "sgd",
    .takes = {[TOOL_LAYERS] = "8", [TOOL_WIDTH] = "4096", [TOOL_ACTIVATION] = "swish"},
    .declare = declare,
    .forward = forward,
};
