/* The step function of nets: a genome, vertex by vertex, in ops. */
#include "runtime/ops/ops.h"
#include "runtime/population/evolve/net.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- input ------------------------------------------------------------------------------- */

static bool is_sample(const swi_vertex *in, const sw_shape *s)
{
    if (in->height == 0)
        return s->rank == 2 && s->dim[1] == in->channels;
    return s->rank == 4 && s->dim[1] == in->channels && s->dim[2] == in->height &&
           s->dim[3] == in->width;
}

static sw_value refuse_sample(sw_ctx *ctx, const sw_net *net, const sw_type *given)
{
    const swi_vertex *in = &net->genome->vertices[0];
    char wanted[80], got[8 * 24] = "";
    size_t used = 0;
    if (in->height == 0)
        snprintf(wanted, sizeof wanted, "(batch, %lld)", (long long)in->channels);
    else
        snprintf(wanted, sizeof wanted, "(batch, %lld, %lld, %lld)", (long long)in->channels,
                 (long long)in->height, (long long)in->width);
    for (int d = 0; d < given->shape.rank && used < sizeof got; d++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%lld", d > 0 ? ", " : "",
                                 (long long)given->shape.dim[d]);
    (void)swi_stick(ctx,
                    sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                 "model %s: input 0 must be %s of u8 or f32 (got (%s) of "
                                 "%s)",
                                 net->model->name, wanted, got, sw_dtype_name(given->dtype)));
    return (sw_value){0, 0};
}

/* The samples as numbers. */
static sw_value sample(sw_ctx *ctx, const sw_net *net)
{
    const sw_net_opts *o = &net->opts;
    const sw_value x = sw_input(ctx, 0);
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return (sw_value){0, 0};
    const sw_type type = v->type;
    if (!is_sample(&net->genome->vertices[0], &type.shape) ||
        (type.dtype != SW_U8 && type.dtype != SW_F32))
        return refuse_sample(ctx, net, &type);
    if (type.dtype == SW_F32)
        return x;
    return o->n_scales == 1 ? sw_to_f32(ctx, x, o->scale[0], o->shift[0])
                            : sw_to_f32_channels(ctx, x, o->scale, o->shift, o->n_scales);
}

/* ---- activations ------------------------------------------------------------------------- */

static sw_value leaky_relu(sw_ctx *ctx, sw_value x)
{
    return sw_leaky_relu(ctx, x, 0.01f);
}

static sw_value elu(sw_ctx *ctx, sw_value x)
{
    return sw_elu(ctx, x, 1);
}

typedef sw_value activation_fn(sw_ctx *ctx, sw_value x);
static const struct {
    const char *name;
    activation_fn *fn;
} activations[] = {{"relu", sw_relu},
                   {"leaky_relu", leaky_relu},
                   {"tanh", sw_tanh},
                   {"sigmoid", sw_sigmoid},
                   {"swish", sw_swish},
                   {"gelu", sw_gelu},
                   {"gelu_tanh", sw_gelu_tanh},
                   {"mish", sw_mish},
                   {"softplus", sw_softplus},
                   {"hard_swish", sw_hard_swish},
                   {"elu", elu},
                   {"selu", sw_selu}};

sw_value swi_activate(sw_ctx *ctx, int i, sw_value x)
{
    const char *name = swi_activation_name(i);
    for (size_t k = 0; name != NULL && k < sizeof activations / sizeof *activations; k++)
        if (strcmp(activations[k].name, name) == 0)
            return activations[k].fn(ctx, x);
    (void)swi_stick(ctx, sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                      "nets cannot apply activation %d (%s)", i,
                                      name != NULL ? name : "none"));
    return (sw_value){0, 0};
}

/* ---- vertices ---------------------------------------------------------------------------- */

static sw_value conv2d(sw_ctx *ctx, const swi_vertex *v, const swi_net_layer *l, sw_value x)
{
    const sw_conv2d layer = {.weight = l->weight,
                             .bias = l->bias,
                             .stride = v->stride,
                             .pad = swi_vertex_pad(v),
                             .groups = v->groups == 0 ? (int)v->channels : (int)v->groups,
                             .dilation = v->dilation};
    return sw_apply_conv2d(ctx, layer, x);
}

static sw_value batch_norm(sw_ctx *ctx, const swi_net_layer *l, sw_value x)
{
    const sw_batch_norm2d layer = {.weight = l->weight,
                                   .bias = l->bias,
                                   .running_mean = l->mean,
                                   .running_var = l->variance,
                                   .momentum = 0.1f,
                                   .epsilon = 1e-5f};
    return sw_apply_batch_norm2d(ctx, layer, x);
}

/* Those with parameters, which begin their scopes themselves. */
static sw_value apply_layer(sw_ctx *ctx, const sw_net *net, uint32_t i, sw_value x)
{
    const swi_vertex *v = &net->genome->vertices[i];
    const swi_net_layer *l = &net->layers[i];
    if (v->kind == SW_VERTEX_CONV2D)
        return conv2d(ctx, v, l, x);
    if (v->kind == SW_VERTEX_BATCH_NORM)
        return batch_norm(ctx, l, x);
    const sw_linear layer = {.weight = l->weight, .bias = l->bias};
    return sw_apply_linear(ctx, layer, sw_rank(ctx, x) > 2 ? sw_flatten(ctx, x) : x);
}

static sw_value add(sw_ctx *ctx, const sw_value *x, uint32_t n)
{
    sw_value sum = x[0];
    for (uint32_t k = 1; k < n; k++)
        sum = sw_add(ctx, sum, x[k]);
    return sum;
}

static sw_value apply_plain(sw_ctx *ctx, const swi_vertex *v, const sw_value *in)
{
    const int pad = swi_vertex_pad(v);
    switch (v->kind) {
    case SW_VERTEX_MAX_POOL:
        return sw_max_pool2d(ctx, in[0], v->kernel, v->stride, pad);
    case SW_VERTEX_AVG_POOL:
        return sw_avg_pool2d(ctx, in[0], v->kernel, v->stride, pad);
    case SW_VERTEX_GLOBAL_MAX_POOL:
        return sw_flatten(ctx, sw_global_max_pool(ctx, in[0]));
    case SW_VERTEX_GLOBAL_AVG_POOL:
        return sw_flatten(ctx, sw_global_avg_pool(ctx, in[0]));
    case SW_VERTEX_ACTIVATION:
        return swi_activate(ctx, v->activation, in[0]);
    case SW_VERTEX_DROPOUT:
        return sw_dropout(ctx, in[0], v->rate);
    case SW_VERTEX_FLATTEN:
        return sw_flatten(ctx, in[0]);
    case SW_VERTEX_ADD:
        return add(ctx, in, v->n_in);
    case SW_VERTEX_CONCAT:
        return sw_concat(ctx, in, (int)v->n_in, 1);
    default:
        sw_fail(ctx, SW_INVALID, "a vertex of a net is of no known kind");
        return (sw_value){0, 0};
    }
}

/* Does this run average utilities? */
static bool averages_utility(sw_ctx *ctx, const sw_net *net)
{
    return net->opts.utility != 0 && ctx->args->mode == SW_TRAIN && ctx->args->variant == 1;
}

static sw_value apply_vertex(sw_ctx *ctx, const sw_net *net, uint32_t i)
{
    const swi_vertex *v = &net->genome->vertices[i];
    const swi_net_layer *l = &net->layers[i];
    sw_value in[SWI_MAX_INPUTS];
    for (uint32_t k = 0; k < v->n_in; k++)
        in[k] = net->values[v->in[k]];
    if (swi_vertex_has_parameters(v)) {
        sw_value y = apply_layer(ctx, net, i, in[0]);
        if (l->utility.index == 0 || !averages_utility(ctx, net))
            return y;
        sw_scope_begin(ctx, v->name);
        y = swi_neuron_utility(ctx, y, l->utility, net->opts.utility_rate);
        sw_scope_end(ctx);
        return y;
    }
    sw_scope_begin(ctx, v->name);
    const sw_value y = apply_plain(ctx, v, in);
    sw_scope_end(ctx);
    return y;
}

/* ---- the step ---------------------------------------------------------------------------- */

static sw_value loss_of(sw_ctx *ctx, const sw_net *net, sw_value logits, sw_value labels)
{
    const float smoothing = net->genome->smoothing;
    if (net->loss != NULL)
        return net->loss(ctx, logits, labels, net->loss_user);
    return smoothing > 0 ? sw_softmax_ce_with(ctx, logits, labels, smoothing, INT32_MIN)
                         : sw_softmax_ce(ctx, logits, labels);
}

/* The gradient times min(1, clip / its norm). */
static sw_value clipped(sw_ctx *ctx, const sw_net *net, sw_value gradient)
{
    if (swi_value_at(ctx, gradient) == NULL ||
        swi_stick(ctx, swi_knob_use(net->clip, SWI_KNOB_NORM)) != SW_OK)
        return gradient;
    uint32_t in[2] = {gradient.id - 1, SWI_NONE}, sum = SWI_NONE, scale = SWI_NONE;
    if (swi_apply(ctx, SW_OP_sumsq, in, 1, NULL, NULL, 0, NULL, &sum) != SW_OK)
        return gradient;
    in[0] = sum;
    in[1] = swi_knob_value(ctx, net->clip);
    if (ctx->status != SW_OK ||
        swi_apply(ctx, SW_OP_clip_scale, in, 2, NULL, NULL, 0, NULL, &scale) != SW_OK)
        return gradient;
    return sw_mul(ctx, gradient, swi_handle(ctx, scale));
}

static sw_value change_gradient(sw_ctx *ctx, sw_param param, sw_value gradient, void *user)
{
    const sw_net *net = user;
    if (net->clip.index != UINT32_MAX)
        gradient = clipped(ctx, net, gradient);
    if (net->opts.hook != NULL)
        gradient = net->opts.hook(ctx, param, gradient, net->opts.hook_user);
    return gradient;
}

static void train(sw_ctx *ctx, sw_net *net, sw_value loss)
{
    if (net->clip.index != UINT32_MAX || net->opts.hook != NULL)
        sw_gradient_hook(ctx, net->model, change_gradient, net);
    sw_backward(ctx, loss, &net->optimizer, 1);
    if (net->clip_norm.index != UINT32_MAX)
        sw_clip_norm(ctx, net->optimizer, net->clip_norm);
    sw_update(ctx, net->optimizer);
}

void sw_net_step(sw_ctx *ctx, void *user)
{
    sw_net *net = user;
    const sw_status status = sw_handle_check(net, SW_HANDLE_NET, "sw_net_step");
    if (status != SW_OK)
        (void)swi_stick(ctx, status);
    if (status != SW_OK || !swi_ctx_works(ctx))
        return;
    const uint32_t n = net->genome->n;
    net->values[0] = sample(ctx, net);
    for (uint32_t i = 1; i < n && ctx->status == SW_OK; i++)
        net->values[i] = apply_vertex(ctx, net, i);
    if (ctx->status != SW_OK)
        return;
    const sw_value logits = net->values[n - 1], labels = sw_input(ctx, 1);
    const sw_value loss = loss_of(ctx, net, logits, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, logits, labels));
    if (sw_ctx_mode(ctx) == SW_TRAIN)
        train(ctx, net, loss);
}
