/* mlp: fully connected layers over whatever a sample has. */
#include "tools/models/models.h"

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const cli_list *hidden = &o->settings.hidden;
    int64_t in = tool_field_elements(o, 0);
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
    return tool_chain_apply(ctx, net, net->own, sw_flatten(ctx, x));
}

const tool_model tool_mlp = {
    .name = "mlp",
    .about = "fully connected layers",
    .learns = TOOL_CLASSIFY | TOOL_REGRESS,
    .takes = {[TOOL_HIDDEN] = "128,64", [TOOL_DROPOUT] = "0", [TOOL_ACTIVATION] = "relu"},
    .declare = declare,
    .forward = forward,
};
