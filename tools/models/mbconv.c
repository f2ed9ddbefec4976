/* mbconv: EfficientNet-B0's body (Tan and Le 2019). A stem, seven stages of inverted
 * bottlenecks with depthwise convolutions and squeeze-and-excitation, a head, batch norm and an
 * activation after all of them but the bottlenecks' last. */
#include "tools/models/models.h"
#include <math.h>
#include <stdio.h>

/* Widen, how many channels and blocks, stride of the first, kernel. */
static const struct {
    int expand, channels, blocks, stride, kernel;
} stages[] = {{1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5}, {6, 80, 3, 2, 3},
              {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}};
enum {
    STAGES = sizeof stages / sizeof *stages,
    STEM = 32,
    HEAD = 1280,
    SMALL = 32,
    MOST_REPEATS = 32
};
#define MOST_FACTOR 64.0

typedef struct {
    tool_conv_norm expand, depth, project;
    sw_conv2d reduce, excite;
    int expands, adds; /* has `expand`; adds its input */
} bottleneck;

typedef struct {
    int64_t side; /* of what the stem sees */
    tool_conv_norm stem, head;
    sw_linear classes;
    int n;
    bottleneck block[];
} mbconv;

/* ---- declaring --------------------------------------------------------------------------- */

static int deepened(int blocks, const tool_settings *s)
{
    return (int)ceil((double)blocks * s->depth_factor);
}

static sw_status accepts(const tool_net_opts *o)
{
    const sw_shape *s = &o->data.field[0].shape;
    const tool_settings *t = &o->settings;
    if (s->rank != 3)
        SW_FAIL(SW_INVALID, "mbconv reads images (channels, height, width), and %s has none",
                o->data.name);
    if (!(t->width_factor > 0.0 && t->width_factor <= MOST_FACTOR && t->depth_factor > 0.0 &&
          t->depth_factor <= MOST_FACTOR))
        SW_FAIL(SW_INVALID,
                "mbconv: --width-factor and --depth-factor must be above 0 and at most %g (got "
                "%g and %g)",
                MOST_FACTOR, t->width_factor, t->depth_factor);
    if (t->dropout >= 1.0)
        SW_FAIL(SW_INVALID, "mbconv: --dropout must be below 1 (got %g)", t->dropout);
    if (!(t->bn_momentum > 0.0 && t->bn_momentum <= 1.0))
        SW_FAIL(SW_INVALID, "mbconv: --bn-momentum must be above 0 and at most 1 (got %g)",
                t->bn_momentum);
    if (t->classes > 0 && t->classes < o->data.n_classes)
        SW_FAIL(SW_INVALID,
                "mbconv: --classes must be at least the %lld classes of %s (got %lld)",
                (long long)o->data.n_classes, o->data.name, (long long)t->classes);
    if (s->dim[1] != s->dim[2] && t->image_size > 0)
        SW_FAIL(SW_INVALID, "mbconv: --image-size is for square images, and %s has %lld x %lld",
                o->data.name, (long long)s->dim[1], (long long)s->dim[2]);
    if (t->image_size > MOST_REPEATS * s->dim[1])
        SW_FAIL(SW_INVALID,
                "mbconv: --image-size %lld: images of %s, of %lld, can be %d times as large",
                (long long)t->image_size, o->data.name, (long long)s->dim[1], MOST_REPEATS);
    return SW_OK;
}

/* With the epsilon that EfficientNet was trained with. But running statistics are as quick as
 * PyTorch's: with the paper's 0.01 they come hundreds of steps late, and small data sets end
 * before. */
static tool_conv_norm declare_conv(tool_net *net, const char *name, int64_t in, int64_t out,
                                   int kernel, int stride, int64_t groups)
{
    tool_conv_norm c = tool_conv_norm_new(net, name, in, out, kernel, stride, groups);
    c.norm.epsilon = 1e-3f;
    return c;
}

static void declare_block(tool_net *net, int i, int expand, int64_t in, int64_t out, int kernel,
                          int stride)
{
    mbconv *own = net->own;
    bottleneck *b = &own->block[i];
    const int64_t wide = in * expand, few = in / 4 > 0 ? in / 4 : 1;
    char name[32];
    b->expands = expand > 1;
    b->adds = stride == 1 && in == out;
    snprintf(name, sizeof name, "block%d.expand", i + 1);
    if (b->expands)
        b->expand = declare_conv(net, name, in, wide, 1, 1, 1);
    snprintf(name, sizeof name, "block%d.depth", i + 1);
    b->depth = declare_conv(net, name, wide, wide, kernel, stride, wide);
    snprintf(name, sizeof name, "block%d.reduce", i + 1);
    b->reduce = sw_conv2d_new(net->model, name, wide, few, 1);
    snprintf(name, sizeof name, "block%d.excite", i + 1);
    b->excite = sw_conv2d_new(net->model, name, few, wide, 1);
    snprintf(name, sizeof name, "block%d.project", i + 1);
    b->project = declare_conv(net, name, wide, out, 1, 1, 1);
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const tool_settings *s = &o->settings;
    const sw_shape *image = &o->data.field[0].shape;
    const int64_t side = s->image_size > 0 ? s->image_size : image->dim[1];
    const int64_t stride = s->stem_stride > 0 ? s->stem_stride : side <= SMALL ? 1 : 2;
    int n = 0;
    for (int i = 0; i < STAGES; i++)
        n += deepened(stages[i].blocks, s);
    SW_TRY(tool_net_own(net, sizeof(mbconv) + sizeof(bottleneck) * (size_t)n));
    mbconv *own = net->own;
    int64_t in = tool_widened(STEM, s);
    own->side = side;
    own->stem = declare_conv(net, "stem", image->dim[0], in, 3, (int)stride, 1);
    for (int i = 0; i < STAGES; i++) {
        const int64_t out = tool_widened(stages[i].channels, s);
        for (int k = 0; k < deepened(stages[i].blocks, s); k++, in = out)
            declare_block(net, own->n++, stages[i].expand, in, out, stages[i].kernel,
                          k == 0 ? stages[i].stride : 1);
    }
    own->head = declare_conv(net, "head", in, tool_widened(HEAD, s), 1, 1, 1);
    own->classes = sw_linear_new(net->model, "classes", tool_widened(HEAD, s),
                                 s->classes > 0 ? s->classes : o->data.n_classes);
    return SW_OK;
}

/* ---- forward ----------------------------------------------------------------------------- */

/* Each place `times` times along an axis of (batch, c, h, w). */
static sw_value repeated(sw_ctx *ctx, sw_value x, int axis, int64_t times)
{
    sw_shape apart = {5, {0}}, joined = {4, {0}};
    sw_value copies[MOST_REPEATS];
    for (int i = 0; i < 4; i++) {
        joined.dim[i] = sw_dim(ctx, x, i);
        apart.dim[i <= axis ? i : i + 1] = joined.dim[i];
    }
    apart.dim[axis + 1] = 1;
    joined.dim[axis] *= times;
    copies[0] = sw_reshape(ctx, x, apart);
    for (int64_t i = 1; i < times; i++)
        copies[i] = copies[0];
    return sw_reshape(ctx, sw_concat(ctx, copies, (int)times, axis + 1), joined);
}

/* Images of side x side: pixels repeat until there are enough, and the middle is taken. */
static sw_value of_side(sw_ctx *ctx, sw_value x, int64_t side)
{
    for (int axis = 2; axis < 4; axis++) {
        const int64_t times = (side + sw_dim(ctx, x, axis) - 1) / sw_dim(ctx, x, axis);
        x = times > 1 ? repeated(ctx, x, axis, times) : x;
        x = sw_slice(ctx, x, axis, (sw_dim(ctx, x, axis) - side) / 2, side);
    }
    return x;
}

/* Each channel of each image by a factor in 0..1 that the means of all its channels give. */
static sw_value squeeze_excite(sw_ctx *ctx, const tool_net *net, const bottleneck *b,
                               sw_value x)
{
    sw_value s = sw_apply_conv2d(ctx, b->reduce, sw_global_avg_pool(ctx, x));
    s = sw_apply_conv2d(ctx, b->excite, tool_activate(ctx, net, s));
    return sw_channel_scale(ctx, x, sw_sigmoid(ctx, s));
}

static sw_value forward(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const mbconv *own = net->own;
    if (net->settings.image_size > 0)
        x = of_side(ctx, x, own->side);
    x = tool_conv_norm_apply(ctx, net, &own->stem, x, 1);
    for (int i = 0; i < own->n; i++) {
        const bottleneck *b = &own->block[i];
        sw_value y = b->expands ? tool_conv_norm_apply(ctx, net, &b->expand, x, 1) : x;
        y = squeeze_excite(ctx, net, b, tool_conv_norm_apply(ctx, net, &b->depth, y, 1));
        y = tool_conv_norm_apply(ctx, net, &b->project, y, 0);
        x = b->adds ? sw_add(ctx, x, y) : y;
    }
    x = sw_flatten(ctx,
                   sw_global_avg_pool(ctx, tool_conv_norm_apply(ctx, net, &own->head, x, 1)));
    if (net->settings.dropout > 0.0)
        x = sw_dropout(ctx, x, (float)net->settings.dropout);
    return sw_apply_linear(ctx, own->classes, x);
}

const tool_model tool_mbconv = {
    .name = "mbconv",
    .about = "EfficientNet-B0's body, for images",
    .learns = TOOL_CLASSIFY,
    .takes = {[TOOL_WIDTH_FACTOR] = "1",
              [TOOL_DEPTH_FACTOR] = "1",
              [TOOL_IMAGE_SIZE] = "",
              [TOOL_STEM_STRIDE] = "",
              [TOOL_CLASSES] = "",
              [TOOL_DROPOUT] = "0",
              [TOOL_BN_MOMENTUM] = "0.1",
              [TOOL_ACTIVATION] = "swish"},
    .accepts = accepts,
    .declare = declare,
    .forward = forward,
};
