/* mlp and lenet5, and the step function that they share. */
#include "tools/models.h"
#include <stdio.h>
#include <string.h>

/* Mean and deviation of MNIST's training pixels in 0..1; the built-in digits are close to them.
 */
#define PIXEL_MEAN 0.1307f
#define PIXEL_DEVIATION 0.3081f

static sw_value fully_connected(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    char name[16];
    for (int i = 0; i < net->n_fc; i++) {
        x = sw_apply_linear(ctx, net->fc[i], x);
        if (i + 1 == net->n_fc)
            break;
        snprintf(name, sizeof name, "fc%d", i + 1);
        sw_scope_begin(ctx, name); /* what follows a layer counts as part of it in reports */
        x = sw_relu(ctx, x);
        sw_scope_end(ctx);
    }
    return x;
}

static sw_value mlp(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    return fully_connected(ctx, net, sw_flatten(ctx, x));
}

static sw_value lenet5(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    static const char *const names[] = {"conv1", "conv2"};
    for (int i = 0; i < 2; i++) {
        x = sw_apply_conv2d(ctx, net->conv[i], x);
        sw_scope_begin(ctx, names[i]);
        x = sw_max_pool(ctx, sw_relu(ctx, x), 2);
        sw_scope_end(ctx);
    }
    return fully_connected(ctx, net, sw_flatten(ctx, x));
}

void tool_net_step(sw_ctx *ctx, void *user)
{
    tool_net *net = user;
    const sw_value images = sw_to_f32(ctx, sw_input(ctx, 0), net->scale, net->shift);
    const sw_value labels = sw_input(ctx, 1);
    const sw_value logits = net->forward(ctx, net, images);
    const sw_value loss = sw_softmax_ce(ctx, logits, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, labels));
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    sw_backward(ctx, loss, &net->optimizer, 1);
    if (net->clipped)
        sw_clip_norm(ctx, net->optimizer, net->clip);
    sw_update(ctx, net->optimizer);
}

/* ---- declaring --------------------------------------------------------------------------- */

static void declare_linear(tool_net *net, int64_t in, int64_t out)
{
    char name[16];
    snprintf(name, sizeof name, "fc%d", net->n_fc + 1);
    net->fc[net->n_fc++] = sw_linear_new(net->model, name, in, out);
}

static sw_status declare_mlp(tool_net *net, const tool_net_opts *o)
{
    int64_t in = 1;
    for (int i = 0; i < o->image.rank; i++)
        in *= o->image.dim[i];
    if (o->n_hidden > TOOL_MAX_HIDDEN)
        SW_FAIL(SW_INVALID, "mlp: %d hidden layers, at most %d", o->n_hidden, TOOL_MAX_HIDDEN);
    for (int i = 0; i < o->n_hidden; i++) {
        declare_linear(net, in, o->hidden[i]);
        in = o->hidden[i];
    }
    declare_linear(net, in, o->n_classes);
    net->forward = mlp;
    return SW_OK;
}

static sw_status declare_lenet5(tool_net *net, const tool_net_opts *o)
{
    const sw_shape *s = &o->image;
    const int64_t side = TOOL_LENET5_SIDE;
    if (s->rank != 3 || s->dim[0] != 1 || s->dim[1] != side || s->dim[2] != side)
        SW_FAIL(SW_INVALID, "lenet5 reads images of 1 x 28 x 28 only; mlp takes any");
    net->conv[0] = sw_conv2d_new(net->model, "conv1", 1, 6, 5);
    net->conv[1] = sw_conv2d_new(net->model, "conv2", 6, 16, 5);
    declare_linear(net, 16 * 4 * 4, 120);
    declare_linear(net, 120, 84);
    declare_linear(net, 84, o->n_classes);
    net->forward = lenet5;
    return SW_OK;
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    if (strcmp(o->kind, "mlp") == 0)
        SW_TRY(declare_mlp(net, o));
    else if (strcmp(o->kind, "lenet5") == 0)
        SW_TRY(declare_lenet5(net, o));
    else
        SW_FAIL(SW_INVALID, "unknown model '%s': mlp and lenet5 are known", o->kind);
    net->scale = 1.0f / (255.0f * PIXEL_DEVIATION);
    net->shift = -PIXEL_MEAN / PIXEL_DEVIATION;
    if (o->clip > 0.0f) {
        net->clip = sw_knob_new(net->model, "clip", o->clip);
        net->clipped = 1;
    }
    return sw_optimizer_create(&net->optimizer, net->model, &o->optimizer);
}

sw_status tool_net_create(tool_net *net, const tool_net_opts *opts)
{
    tool_net fresh = {0};
    SW_TRY(sw_model_create(&fresh.model, opts->kind));
    const sw_status status = declare(&fresh, opts);
    if (status != SW_OK) {
        sw_model_destroy(fresh.model);
        return status;
    }
    *net = fresh;
    return SW_OK;
}

void tool_net_destroy(tool_net *net)
{
    sw_model_destroy(net->model);
    *net = (tool_net){0};
}
