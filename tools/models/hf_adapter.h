/* Adapters of peft (LoRA): adapter_config.json and adapter_model.safetensors of a folder. */
#pragma once

#include "runtime/state/model_folder.h"
#include "tools/models/hf_config.h"

#define HF_BASE_KEY "stepwell_base" /* of the metadata: hash and kind of the base */
#define HF_BASE_BYTES 24
#define HF_ADAPTER_PATTERNS 64
#define HF_MODULE_BYTES 96

/* Which linears have an adapter, of what rank and scale. Without a folder all but the head, of
 * one rank. With one its tensors say it. */
typedef struct {
    int64_t rank; /* 0: no adapters */
    double alpha; /* scale is alpha / rank, with rslora alpha / sqrt(rank) */
    double dropout;
    bool rslora;
    swi_tensors *file;      /* NULL: no folder */
    char of[HF_BASE_BYTES]; /* the base that they were trained beside: its hash and kind; "" */
    int n_patterns;         /* other alphas, by the end of a module's name */
    struct {
        char module[HF_MODULE_BYTES];
        double alpha;
    } pattern[HF_ADAPTER_PATTERNS];
} hf_adapter_shape;

/* Of a folder, whose file of tensors stays open until hf_adapter_close. SW_FORMAT where it is
 * damaged, SW_UNSUPPORTED where a key asks for what is not built; both name file, key and
 * value. */
SW_MUST_USE sw_status hf_adapter_open(hf_adapter_shape *out, const char *folder);
void hf_adapter_close(hf_adapter_shape *shape); /* one without a folder is fine */
/* Rank and scale of a module's adapter ("layers.0.self_attn.q_proj"); rank 0: none.
 * SW_FORMAT where A and B of the folder have no such shapes. */
SW_MUST_USE sw_status hf_adapter_of(const hf_adapter_shape *shape, hf_family family,
                                    const char *module, int64_t in, int64_t out, int64_t *rank,
                                    float *scale);
/* SW_FORMAT names the first tensor of the folder that no module of `model`, which has all that
 * hf_adapter_of allows, has taken. */
SW_MUST_USE sw_status hf_adapter_all_taken(const hf_adapter_shape *shape, hf_family family,
                                           const sw_model *model);
/* The numbers of the folder into a ready model that hf_net_declare made from it. */
SW_MUST_USE sw_status hf_adapter_load(const char *folder, hf_family family, sw_model *model);
/* Say it where adapters of a folder were trained beside another base than `is` (hash and kind)
 * of the folder `base`. */
void hf_adapter_tell(const hf_adapter_shape *shape, const char *folder, const char *is,
                     const char *base);
/* Write both files into a folder, which is made. `base`, its hash and kind are noted. */
SW_MUST_USE sw_status hf_adapter_save(const hf_adapter_shape *shape, const hf_config *config,
                                      sw_model *model, const char *base, const char *hash,
                                      const char *folder);
