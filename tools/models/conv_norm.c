/* A convolution, batch norm and an activation: what mbconv and resnet9 are made of. */
#include "tools/models/models.h"
#include <stdio.h>

int64_t tool_widened(int64_t channels, const tool_settings *s)
{
    const double exact = (double)channels * s->width_factor;
    int64_t n = (int64_t)(exact + 4.0) / 8 * 8;
    n = n < 8 ? 8 : n;
    return (double)n < 0.9 * exact ? n + 8 : n;
}

tool_conv_norm tool_conv_norm_new(tool_net *net, const char *name, int64_t in, int64_t out,
                                  int kernel, int stride, int64_t groups)
{
    const sw_conv_opts opts = SW_OPTS(sw_conv_opts, .stride = stride, .pad = kernel / 2,
                                      .groups = (int)groups, .no_bias = 1);
    char full[64];
    tool_conv_norm c;
    snprintf(c.name, sizeof c.name, "%s", name);
    snprintf(full, sizeof full, "%s.conv", name);
    c.conv = sw_conv2d_new_with(net->model, full, in, out, kernel, &opts);
    snprintf(full, sizeof full, "%s.norm", name);
    c.norm = sw_batch_norm2d_new(net->model, full, out);
    c.norm.momentum = (float)net->settings.bn_momentum;
    return c;
}

sw_value tool_conv_norm_apply(sw_ctx *ctx, const tool_net *net, const tool_conv_norm *c,
                              sw_value x, int active)
{
    x = sw_apply_batch_norm2d(ctx, c->norm, sw_apply_conv2d(ctx, c->conv, x));
    if (!active)
        return x;
    sw_scope_begin(ctx, c->name);
    x = tool_activate(ctx, net, x);
    sw_scope_end(ctx);
    return x;
}
