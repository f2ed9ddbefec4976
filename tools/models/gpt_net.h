/* A decoder-only transformer on the public header: what the model `gpt`, `stepwell sample` and
 * tests share. */
#pragma once

#include "runtime/stepwell.h"

typedef struct {
    int64_t layers, width, heads, context, vocabulary;
    float dropout;
} gpt_shape;

typedef struct {
    sw_layer_norm norm1, norm2;
    sw_linear qkv, out, up, down;
} gpt_block;

/* Handles; the sw_model owns what they name. */
typedef struct {
    gpt_shape shape;
    sw_embedding tokens; /* and the weight of the output layer */
    sw_param places;
    sw_layer_norm norm;
    gpt_block block[]; /* shape.layers */
} gpt_net;

/* Bytes of a gpt_net with so many layers. */
size_t gpt_net_bytes(int64_t layers);
/* SW_INVALID, with a message that begins with "gpt", where there is no such net. */
SW_MUST_USE sw_status gpt_shape_check(const gpt_shape *shape);
/* Register the parameters, initialised as GPT-2: normal with deviation 0.02, divided by the
 * root of 2 * layers where a layer writes to the residual stream. */
void gpt_net_declare(gpt_net *net, sw_model *model, const gpt_shape *shape);
/* The mean cross-entropy of each id's successor in `next`, of the shape of `ids`. */
sw_value gpt_net_loss(sw_ctx *ctx, const gpt_net *net, sw_value ids, sw_value next);
/* The same of documents in rows: positions and first as sw_attention_with has them, I32 of the
 * shape of `ids`; labels of -100 do not count. */
sw_value gpt_net_documents_loss(sw_ctx *ctx, const gpt_net *net, sw_value ids, sw_value labels,
                                sw_value positions, sw_value first);
/* (batch * n, vocabulary) */
sw_value gpt_net_logits(sw_ctx *ctx, const gpt_net *net, sw_value ids);
