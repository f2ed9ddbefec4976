/* The tensors of a folder as Hugging Face's libraries write it: model.safetensors, or shards
 * that model.safetensors.index.json lists. Links are followed: the hub cache is made of them.
 */
#pragma once

#include "runtime/state/tensor_file.h"

#define SWI_FOLDER_PATH 4096 /* bytes of a path with its zero */

/* The folder that `name` is: itself, or that of ORG/NAME in the local hub cache (HF_HUB_CACHE,
 * else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub;
 * refs/main says which snapshot). Nothing is downloaded: SW_IO gives the command that does. */
SW_MUST_USE sw_status swi_folder_find(char to[SWI_FOLDER_PATH], const char *name);

typedef struct {
    swi_tensors *file;
    const swi_tensors_entry *entry;
    bool taken; /* or passed over */
} swi_folder_tensor;

typedef struct {
    char path[SWI_FOLDER_PATH];
    swi_tensors **shards;
    uint32_t n_shards, cap_shards;
    swi_folder_tensor *at; /* of shard by shard, in the order of their data */
    uint32_t n, cap;
    sw_map names;
} swi_folder;

/* Open `path` and all of its shards, whose headers are checked (swi_tensors_open).
 * model.safetensors comes before an index. SW_FORMAT names a shard whose name is a path, a
 * tensor that is there twice, that the index lists and its shard does not have, or the other
 * way round, and a total of the index that is not the sum of its tensors. SW_UNSUPPORTED: there
 * is pytorch_model.bin alone; the message has the command that converts it. */
SW_MUST_USE sw_status swi_folder_open(swi_folder **out, const char *path);
void swi_folder_close(swi_folder *folder); /* NULL is fine */
swi_folder_tensor *swi_folder_tensor_of(const swi_folder *folder, const char *name); /* NULL */

/* The tensor of this name and shape, of F32, F16 or BF16, is used now: SW_FORMAT where it is
 * missing or another, for `who`. */
SW_MUST_USE sw_status swi_folder_take(swi_folder *folder, const char *name, int rank,
                                      const int64_t *dim, const char *who,
                                      swi_folder_tensor **out);
/* SW_FORMAT names the first tensor that was not taken: unknown to `who`. */
SW_MUST_USE sw_status swi_folder_all_taken(const swi_folder *folder, const char *who);

/* `n` numbers of a tensor of F32, F16 or BF16, from number `first` of it on, as float32; they
 * are widened where they lie, so no other memory is taken. Nothing is held against checksums.
 */
SW_MUST_USE sw_status swi_folder_numbers(const swi_folder_tensor *tensor, uint64_t first,
                                         float *to, size_t n);
