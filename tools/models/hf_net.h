/* The network of a folder of transformers, in one file for all families: frozen weights in a
 * model of their own and adapters (LoRA) in another; or all parameters in one, to be trained.
 */
#pragma once

#include "tools/models/hf_adapter.h"
#include "tools/models/hf_tensors.h"

/* A linear, with its adapter where it has one; or a norm, which has none. */
typedef struct {
    sw_param weight, bias; /* (out, in), (out); bias index 0: none */
    sw_param a, b;         /* (rank, in), (out, rank); index 0: none */
    float scale;           /* of what they add */
} hf_part;

typedef struct {
    hf_part norm1, q, k, v, q_norm, k_norm, o; /* gpt2: q is queries, keys and values */
    hf_part norm2, gate, up, down;             /* gpt2 has no gate */
} hf_layer;

typedef struct {
    hf_config config;
    char folder[SWI_FOLDER_PATH];
    hf_adapter_shape adapter; /* rank 0: none, all parameters are trained */
    float dropout;            /* before each A */
    uint64_t trained, frozen; /* numbers */
    int not_nf4; /* linears that stay BF16, since their rows have no blocks of 64 */
    hf_part tokens, places, norm, head;
    hf_layer layer[]; /* config.layers */
} hf_net;

/* Kinds of frozen matrices: of the file (F16 becomes F32), or all F32, BF16 or SW_I8; of 4 bits
 * are linears of layers (SW_NF4) with rows of a multiple of 64 numbers, all others are BF16.
 * Vectors are F32. */
typedef enum {
    HF_WEIGHTS_FILE,
    HF_WEIGHTS_F32,
    HF_WEIGHTS_BF16,
    HF_WEIGHTS_I8,
    HF_WEIGHTS_NF4
} hf_weights;
extern const char *const hf_weights_words[];

size_t hf_net_bytes(int64_t layers);
/* Declare the net of a folder, which may have config.json alone. `base` gets frozen weights
 * under the names of transformers without "model." or "transformer.", `trained` the adapters;
 * base NULL: `trained` gets all. adapter->rank 0: no adapters. net has room for config's layers
 * and is filled in. */
SW_MUST_USE sw_status hf_net_declare(hf_net *net, const char *folder, const hf_config *config,
                                     sw_model *base, sw_model *trained, hf_weights kind,
                                     const hf_adapter_shape *adapter);
/* The part that a tensor belongs to, and its module: the name without ".weight". */
hf_part *hf_net_part(hf_net *net, const hf_tensor *tensor, char module[HF_MODULE_BYTES]);
/* Read the folder's weights, in pieces, into the ready models where it is to keep them; *hash
 * is of the names, kinds and bytes of what was read. */
SW_MUST_USE sw_status hf_net_load(hf_net *net, bool keep, uint64_t *hash);

/* Keys and values of a layer, of all positions of one text: states (1, context, numbers of the
 * heads of keys). */
typedef struct {
    sw_param k, v;
} hf_cached;

/* Declare those of all layers, "layers.0.k": `cache` has room for them. */
void hf_net_cache(hf_cached *cache, const hf_config *config, sw_model *model, int64_t context);

/* ids, positions and first, I32 (batch, rows); -> (batch * rows, hidden), after the last norm.
 * first {0}: each row is one document. With a cache of all layers (else NULL; in evaluation,
 * batch 1, without first) the rows are the next ones of a text: they go into the cache at their
 * positions, and see what it has before them. */
sw_value hf_net_features(sw_ctx *ctx, const hf_net *net, sw_value ids, sw_value positions,
                         sw_value first, const hf_cached *cache);
/* labels, I32 (batch, rows), -100: does not count. The mean over those that count. */
sw_value hf_net_loss(sw_ctx *ctx, const hf_net *net, sw_value x, sw_value labels);
/* (rows, hidden) -> (rows, vocabulary) */
sw_value hf_net_logits(sw_ctx *ctx, const hf_net *net, sw_value x);
