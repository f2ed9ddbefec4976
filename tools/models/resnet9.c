/* resnet9: the usual small residual net for CIFAR (Page 2018). Eight convolutions of 3 x 3 with
 * batch norm and an activation, two of them twice around a residual, max pooling, one linear
 * layer. */
#include "tools/models/models.h"

#define MOST_FACTOR 64.0
enum { LEAST_SIDE = 8, CONVS = 8 }; /* three times halved, and a place is left */

/* Channels, and what follows: HALVE pools 2 x 2, KEEP keeps what a residual adds to, ADD
 * adds. */
enum { HALVE = 1, KEEP = 2, ADD = 4 };
static const struct {
    const char *name;
    int channels, then;
} convs[CONVS] = {{"stem", 64, 0},         {"layer1", 128, HALVE | KEEP},
                  {"residual1.1", 128, 0}, {"residual1.2", 128, ADD},
                  {"layer2", 256, HALVE},  {"layer3", 512, HALVE | KEEP},
                  {"residual3.1", 512, 0}, {"residual3.2", 512, ADD}};

typedef struct {
    tool_conv_norm conv[CONVS];
    sw_linear classes;
} resnet9;

static sw_status accepts(const tool_net_opts *o)
{
    const sw_shape *s = &o->data.field[0].shape;
    const tool_settings *t = &o->settings;
    if (s->rank != 3)
        SW_FAIL(SW_INVALID, "resnet9 reads images (channels, height, width), and %s has none",
                o->data.name);
    if (s->dim[1] < LEAST_SIDE || s->dim[2] < LEAST_SIDE)
        SW_FAIL(SW_INVALID,
                "resnet9 reads images of at least %d x %d, and those of %s are %lld x %lld",
                LEAST_SIDE, LEAST_SIDE, o->data.name, (long long)s->dim[1],
                (long long)s->dim[2]);
    if (!(t->width_factor > 0.0 && t->width_factor <= MOST_FACTOR))
        SW_FAIL(SW_INVALID, "resnet9: --width-factor must be above 0 and at most %g (got %g)",
                MOST_FACTOR, t->width_factor);
    if (!(t->bn_momentum > 0.0 && t->bn_momentum <= 1.0))
        SW_FAIL(SW_INVALID, "resnet9: --bn-momentum must be above 0 and at most 1 (got %g)",
                t->bn_momentum);
    return SW_OK;
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    int64_t in = o->data.field[0].shape.dim[0];
    SW_TRY(tool_net_own(net, sizeof(resnet9)));
    resnet9 *own = net->own;
    for (int i = 0; i < CONVS; i++) {
        const int64_t out = tool_widened(convs[i].channels, &o->settings);
        own->conv[i] = tool_conv_norm_new(net, convs[i].name, in, out, 3, 1, 1);
        in = out;
    }
    own->classes = sw_linear_new(net->model, "classes", in, o->data.n_classes);
    return SW_OK;
}

static sw_value forward(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const resnet9 *own = net->own;
    sw_value kept = x;
    for (int i = 0; i < CONVS; i++) {
        x = tool_conv_norm_apply(ctx, net, &own->conv[i], x, 1);
        sw_scope_begin(ctx, convs[i].name);
        if ((convs[i].then & HALVE) != 0)
            x = sw_max_pool(ctx, x, 2);
        if ((convs[i].then & ADD) != 0)
            x = sw_add(ctx, kept, x);
        sw_scope_end(ctx);
        kept = (convs[i].then & KEEP) != 0 ? x : kept;
    }
    x = sw_flatten(ctx, sw_global_max_pool(ctx, x));
    return sw_apply_linear(ctx, own->classes, x);
}

const tool_model tool_resnet9 = {
    .name = "resnet9",
    .about = "a small residual net, for images",
    .learns = TOOL_CLASSIFY,
    .takes =
        {[TOOL_WIDTH_FACTOR] = "1", [TOOL_BN_MOMENTUM] = "0.1", [TOOL_ACTIVATION] = "relu"},
    .accepts = accepts,
    .declare = declare,
    .forward = forward,
};
