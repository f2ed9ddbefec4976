/* Folders for transformers: a model that was trained whole, or an adapter put into the weights
 * that it was trained beside. */
#pragma once

#include "tools/models/hf_net.h"

/* Write the net's own numbers, float32, to the folder `to`, which is made: model.safetensors;
 * config.json and the tokenizer of net->folder. SW_INVALID where that is `to`. */
SW_MUST_USE sw_status hf_save_model(hf_net *net, const char *to);
/* Write the files of net->folder to `to`, where each weight W with an adapter is
 * W + scale B A, summed in float32 and rounded to its type in the file. */
SW_MUST_USE sw_status hf_merge(hf_net *net, const char *to);
