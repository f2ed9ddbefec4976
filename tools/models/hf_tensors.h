/* The tensors that a model of a config.json has in its folder, by the names of transformers. */
#pragma once

#include "runtime/state/model_folder.h"
#include "tools/models/hf_config.h"

typedef struct {
    const char *name; /* as the folder has it */
    int rank;
    int64_t dim[2];
    int layer;               /* -1: of the whole model */
    bool turned;             /* (in, out), as gpt2's linears are; else (out, in) */
    swi_folder_tensor *data; /* NULL without a folder */
} hf_tensor;

bool hf_tensor_is_bias(const hf_tensor *tensor);

/* The weights of a folder; *out is NULL where it has none: config.json alone says what the
 * model is. */
SW_MUST_USE sw_status hf_weights_open(swi_folder **out, const char *folder);

typedef sw_status hf_tensor_fn(void *context, const hf_tensor *tensor);

/* Take every tensor of the model from the folder and give it to `each`, layer by layer in the
 * order of the forward pass, the table of a tied head once. folder NULL: names and shapes
 * alone. Names may begin with the model's "transformer." or "model.", or not. Masks of gpt2,
 * inv_freq, and a head that has the numbers of the tied table are passed over. SW_FORMAT names
 * what is missing, of another shape or type, or unknown, and a head that differs from the tied
 * table. */
SW_MUST_USE sw_status hf_tensors_take(const hf_config *config, swi_folder *folder,
                                      hf_tensor_fn *each, void *context);
