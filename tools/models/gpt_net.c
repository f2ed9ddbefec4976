/* A decoder-only transformer as GPT-2 (Radford et al. 2019): learned places, layer norm before
 * each part, an output layer that is the embedding. */
#include "tools/models/gpt_net.h"
#include <math.h>
#include <stdio.h>

size_t gpt_net_bytes(int64_t layers)
{
    return sizeof(gpt_net) + (size_t)layers * sizeof(gpt_block);
}

sw_status gpt_shape_check(const gpt_shape *s)
{
    if (s->layers < 1 || s->width < 1 || s->heads < 1 || s->context < 1 || s->vocabulary < 1)
        SW_FAIL(SW_INVALID,
                "gpt: layers, width, heads, context and vocabulary must be at least 1");
    if (s->width % s->heads != 0)
        SW_FAIL(SW_INVALID, "gpt: --width must be a multiple of --heads (got %lld and %lld)",
                (long long)s->width, (long long)s->heads);
    if (!(s->dropout >= 0.0f && s->dropout < 1.0f))
        SW_FAIL(SW_INVALID, "gpt: dropout must be at least 0 and below 1 (got %g)",
                (double)s->dropout);
    return SW_OK;
}

/* ---- declaring --------------------------------------------------------------------------- */

#define DEVIATION 0.02

static sw_param table(sw_model *model, const char *name, sw_shape shape, double deviation)
{
    char init[40];
    snprintf(init, sizeof init, "normal:%.9g", deviation);
    return sw_param_new(model, name, SW_F32, shape, init);
}

static sw_linear linear(sw_model *model, int64_t block, const char *part, int64_t in,
                        int64_t out, double deviation)
{
    char name[64];
    sw_linear layer = {.reserved = {0}};
    snprintf(name, sizeof name, "block%lld.%s.weight", (long long)block, part);
    layer.weight = table(model, name, (sw_shape){2, {out, in}}, deviation);
    snprintf(name, sizeof name, "block%lld.%s.bias", (long long)block, part);
    layer.bias = sw_param_new(model, name, SW_F32, (sw_shape){1, {out}}, "zeros");
    return layer;
}

static sw_layer_norm norm(sw_model *model, int64_t block, const char *part, int64_t width)
{
    char name[64];
    snprintf(name, sizeof name, "block%lld.%s", (long long)block, part);
    return sw_layer_norm_new(model, name, width);
}

void gpt_net_declare(gpt_net *net, sw_model *model, const gpt_shape *shape)
{
    const int64_t width = shape->width;
    const double residual = DEVIATION / sqrt(2.0 * (double)shape->layers);
    net->shape = *shape;
    net->tokens =
        (sw_embedding){.weight = table(model, "tokens.weight",
                                       (sw_shape){2, {shape->vocabulary, width}}, DEVIATION)};
    net->places =
        table(model, "places.weight", (sw_shape){2, {shape->context, width}}, DEVIATION);
    for (int64_t i = 0; i < shape->layers; i++) {
        gpt_block *b = &net->block[i];
        b->norm1 = norm(model, i + 1, "norm1", width);
        b->qkv = linear(model, i + 1, "qkv", width, 3 * width, DEVIATION);
        b->out = linear(model, i + 1, "out", width, width, residual);
        b->norm2 = norm(model, i + 1, "norm2", width);
        b->up = linear(model, i + 1, "up", width, 4 * width, DEVIATION);
        b->down = linear(model, i + 1, "down", 4 * width, width, residual);
    }
    net->norm = sw_layer_norm_new(model, "norm", width);
}

/* ---- the network ------------------------------------------------------------------------- */

/* x + attention of the normed x */
static sw_value attend(sw_ctx *ctx, const gpt_net *net, const gpt_block *b, sw_value x,
                       sw_shape sequence, sw_value first)
{
    const int64_t width = net->shape.width;
    sw_value part[3] = {{0, 0}, {0, 0}, {0, 0}};
    sw_value y = sw_apply_linear(ctx, b->qkv, sw_apply_layer_norm(ctx, b->norm1, x));
    sequence.dim[2] = 3 * width;
    if (sw_split(ctx, sw_reshape(ctx, y, sequence), width, -1, part, 3) != 3)
        return x;
    const sw_attention_opts opts =
        SW_OPTS(sw_attention_opts, .heads = (int)net->shape.heads, .causal = 1, .first = first);
    y = sw_attention_with(ctx, part[0], part[1], part[2], &opts);
    y = sw_reshape(ctx, y, (sw_shape){2, {-1, width}});
    y = sw_dropout(ctx, sw_apply_linear(ctx, b->out, y), net->shape.dropout);
    return sw_add(ctx, x, y);
}

/* positions {0}: 0, 1, 2...; first {0}: each row is one document. */
static sw_value features_of(sw_ctx *ctx, const gpt_net *net, sw_value ids, sw_value positions,
                            sw_value first)
{
    const int64_t width = net->shape.width;
    const sw_shape sequence = {3, {sw_dim(ctx, ids, 0), sw_dim(ctx, ids, 1), width}};
    const sw_value table = sw_use(ctx, net->places);
    const sw_value places = positions.id != 0 ? sw_embedding_op(ctx, positions, table)
                                              : sw_slice(ctx, table, 0, 0, sequence.dim[1]);
    sw_value x = sw_add(ctx, sw_apply_embedding(ctx, net->tokens, ids), places);
    x = sw_dropout(ctx, sw_reshape(ctx, x, (sw_shape){2, {-1, width}}), net->shape.dropout);
    for (int64_t i = 0; i < net->shape.layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%lld", (long long)(i + 1));
        sw_scope_begin(ctx, name);
        x = attend(ctx, net, &net->block[i], x, sequence, first);
        /* x + the two layers after the normed x */
        sw_value y = sw_apply_linear(ctx, net->block[i].up,
                                     sw_apply_layer_norm(ctx, net->block[i].norm2, x));
        y = sw_apply_linear(ctx, net->block[i].down, sw_gelu(ctx, y));
        x = sw_add(ctx, x, sw_dropout(ctx, y, net->shape.dropout));
        sw_scope_end(ctx);
    }
    return sw_apply_layer_norm(ctx, net->norm, x);
}

/* ids (batch, n), n at most the context, to what the output layer reads: (batch * n, width). */
static sw_value gpt_net_features(sw_ctx *ctx, const gpt_net *net, sw_value ids)
{
    return features_of(ctx, net, ids, (sw_value){0, 0}, (sw_value){0, 0});
}

sw_value gpt_net_loss(sw_ctx *ctx, const gpt_net *net, sw_value ids, sw_value next)
{
    const sw_value x = gpt_net_features(ctx, net, ids);
    const sw_value labels = sw_reshape(ctx, next, (sw_shape){1, {-1}}), none = {0, 0};
    return sw_linear_ce(ctx, x, sw_use(ctx, net->tokens.weight), none, labels);
}

sw_value gpt_net_documents_loss(sw_ctx *ctx, const gpt_net *net, sw_value ids, sw_value labels,
                                sw_value positions, sw_value first)
{
    const sw_value x = features_of(ctx, net, ids, positions, first), none = {0, 0};
    return sw_linear_ce_with(ctx, x, sw_use(ctx, net->tokens.weight), none,
                             sw_reshape(ctx, labels, (sw_shape){1, {-1}}), 0.0f, -100);
}

sw_value gpt_net_logits(sw_ctx *ctx, const gpt_net *net, sw_value ids)
{
    const sw_value x = gpt_net_features(ctx, net, ids), none = {0, 0};
    return sw_linear_op(ctx, x, sw_use(ctx, net->tokens.weight), none);
}
