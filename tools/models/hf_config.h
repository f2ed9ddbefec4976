/* config.json of the families that are read: gpt2, llama, qwen2, qwen3 and mistral, as
 * transformers writes it. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef enum {
    HF_GPT2, /* LayerNorm, positions by a table, gelu by tanh; all linears have biases */
    HF_LLAMA,
    HF_QWEN2,
    HF_QWEN3,
    HF_MISTRAL,
    HF_FAMILIES
} hf_family;

typedef enum { HF_ROPE_NONE, HF_ROPE_DEFAULT, HF_ROPE_LLAMA3 } hf_rope_kind;

typedef struct {
    hf_rope_kind kind;
    double theta;
    double factor, low_freq_factor, high_freq_factor; /* of llama3, as the next */
    int64_t original_context;
} hf_rope;

#define HF_EOS_MAX 16

typedef struct {
    hf_family family;
    int64_t vocabulary, hidden, inner, layers;
    int64_t heads, heads_kv, head_dim; /* heads x head_dim is not always `hidden` */
    int64_t context;                   /* positions that it was made for */
    int64_t window;                    /* a context must not pass it; 0: none */
    double epsilon;                    /* of its norms */
    hf_rope rope;
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;     /* RMS norms of head_dim, of queries and keys */
    bool tied;        /* the head is the table of tokens */
    int64_t bos, pad; /* -1: none, here and below */
    int64_t eos[HF_EOS_MAX];
    int n_eos;
    char dtype[16];    /* as the file says; "" */
    char unknown[512]; /* keys that nothing reads, which are ignored: "a, b"; cut */
} hf_config;

const char *hf_family_name(hf_family family); /* "llama" */

/* Read a file, or a text (path is for messages). SW_FORMAT where it is no such text, a size is
 * missing or out of range, SW_UNSUPPORTED where a value asks for what is not built; both name
 * key and value. *out is untouched then. */
SW_MUST_USE sw_status hf_config_read(hf_config *out, const char *path);
SW_MUST_USE sw_status hf_config_parse(hf_config *out, const char *text, size_t bytes,
                                      const char *path);

/* generation_config.json of a folder, as generate of transformers reads it. */
typedef struct {
    bool samples;            /* do_sample; without: the most likely id each time */
    double temperature;      /* 1 where it says none */
    double top_p;            /* 1 */
    double repetition;       /* 1: it asks for no penalty, which is not applied */
    int64_t top_k;           /* 50; 0: all */
    int64_t eos[HF_EOS_MAX]; /* end tokens */
    int n_eos;
} hf_generation;
SW_MUST_USE sw_status hf_generation_read(hf_generation *out, const char *folder,
                                         int64_t vocabulary);

/* Can it be used with so many positions? SW_INVALID past a sliding window, or the table of
 * gpt2; *beyond: they are more than it was made for. */
SW_MUST_USE sw_status hf_config_context(const hf_config *config, int64_t context, bool *beyond);
