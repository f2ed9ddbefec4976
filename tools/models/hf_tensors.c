#include "tools/models/hf_tensors.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const hf_config *c;
    swi_folder *folder;
    hf_tensor_fn *each;
    void *context;
    int layer;
} taking;

/* The name as the folder has it: with the prefix, which the head never has, or without. */
static const char *named(const taking *t, const char *part, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s%s", t->c->family == HF_GPT2 ? "transformer." : "model.", part);
    return t->folder == NULL || swi_folder_tensor_of(t->folder, to) != NULL ||
                   swi_folder_tensor_of(t->folder, part) == NULL
               ? to
               : part;
}

static sw_status take(const taking *t, const char *part, int64_t rows, int64_t cols,
                      bool turned)
{
    char full[160];
    const bool head = strcmp(part, "lm_head.weight") == 0;
    hf_tensor tensor = {.name = head ? part : named(t, part, full, sizeof full),
                        .rank = cols > 0 ? 2 : 1,
                        .dim = {turned ? cols : rows, turned ? rows : cols},
                        .layer = t->layer,
                        .turned = turned};
    if (t->folder != NULL)
        SW_TRY(swi_folder_take(t->folder, tensor.name, tensor.rank, tensor.dim,
                               hf_family_name(t->c->family), &tensor.data));
    return t->each(t->context, &tensor);
}

/* A weight, and its bias where it has one. Norms have one axis: cols 0. */
static sw_status layer(const taking *t, const char *name, int64_t rows, int64_t cols, bool bias)
{
    char part[120];
    const bool turned = t->c->family == HF_GPT2 && cols > 0;
    snprintf(part, sizeof part,
             t->c->family == HF_GPT2 ? "h.%d.%s.weight" : "layers.%d.%s.weight", t->layer,
             name);
    SW_TRY(take(t, part, rows, cols, turned));
    memcpy(strrchr(part, '.'), ".bias", sizeof ".bias");
    return bias ? take(t, part, rows, 0, false) : SW_OK;
}

static sw_status gpt2_layer(const taking *t)
{
    const int64_t hidden = t->c->hidden, inner = t->c->inner;
    SW_TRY(layer(t, "ln_1", hidden, 0, true));
    SW_TRY(layer(t, "attn.c_attn", 3 * hidden, hidden, true));
    SW_TRY(layer(t, "attn.c_proj", hidden, hidden, true));
    SW_TRY(layer(t, "ln_2", hidden, 0, true));
    SW_TRY(layer(t, "mlp.c_fc", inner, hidden, true));
    return layer(t, "mlp.c_proj", hidden, inner, true);
}

static sw_status roped_layer(const taking *t)
{
    const hf_config *c = t->c;
    const int64_t q = c->heads * c->head_dim, kv = c->heads_kv * c->head_dim;
    SW_TRY(layer(t, "input_layernorm", c->hidden, 0, false));
    SW_TRY(layer(t, "self_attn.q_proj", q, c->hidden, c->qkv_bias));
    SW_TRY(layer(t, "self_attn.k_proj", kv, c->hidden, c->qkv_bias));
    SW_TRY(layer(t, "self_attn.v_proj", kv, c->hidden, c->qkv_bias));
    if (c->qk_norm) {
        SW_TRY(layer(t, "self_attn.q_norm", c->head_dim, 0, false));
        SW_TRY(layer(t, "self_attn.k_norm", c->head_dim, 0, false));
    }
    SW_TRY(layer(t, "self_attn.o_proj", c->hidden, q, c->o_bias));
    SW_TRY(layer(t, "post_attention_layernorm", c->hidden, 0, false));
    SW_TRY(layer(t, "mlp.gate_proj", c->inner, c->hidden, c->mlp_bias));
    SW_TRY(layer(t, "mlp.up_proj", c->inner, c->hidden, c->mlp_bias));
    return layer(t, "mlp.down_proj", c->hidden, c->inner, c->mlp_bias);
}

/* ---- what other versions write ----------------------------------------------------------- */

/* A head beside a tied table says the same numbers once more; if not, it is not tied. */
static sw_status same_as_table(const taking *t, const swi_folder_tensor *head,
                               const char *table_name)
{
    enum { BLOCK = 1 << 12 };
    float a[BLOCK], b[BLOCK];
    const swi_folder_tensor *table = swi_folder_tensor_of(t->folder, table_name);
    const uint64_t n = (uint64_t)t->c->vocabulary * (uint64_t)t->c->hidden;
    for (uint64_t i = 0; i < n; i += BLOCK) {
        const size_t part = n - i < BLOCK ? (size_t)(n - i) : BLOCK;
        SW_TRY(swi_folder_numbers(head, i, a, part));
        SW_TRY(swi_folder_numbers(table, i, b, part));
        for (size_t k = 0; k < part; k++)
            if (memcmp(&a[k], &b[k], sizeof a[k]) != 0)
                SW_FAIL(SW_FORMAT,
                        "%s: 'lm_head.weight' differs from '%s' at number %llu (%g and %g), "
                        "though tie_word_embeddings of config.json says that they are one",
                        swi_tensors_path(head->file), table_name, (unsigned long long)(i + k),
                        (double)a[k], (double)b[k]);
    }
    return SW_OK;
}

static sw_status pass_over(const taking *t, const char *table_part)
{
    static const char *const ends[2][3] = {{".attn.bias", ".attn.masked_bias"},
                                           {".rotary_emb.inv_freq"}};
    const char *const *passed = ends[t->c->family != HF_GPT2];
    char table[160];
    for (uint32_t i = 0; i < t->folder->n; i++) {
        swi_folder_tensor *tensor = &t->folder->at[i];
        const char *name = tensor->entry->name;
        const size_t n = strlen(name);
        for (int k = 0; passed[k] != NULL; k++)
            tensor->taken |=
                n > strlen(passed[k]) && strcmp(name + n - strlen(passed[k]), passed[k]) == 0;
    }
    swi_folder_tensor *head = swi_folder_tensor_of(t->folder, "lm_head.weight");
    if (!t->c->tied || head == NULL)
        return SW_OK;
    const int64_t dim[2] = {t->c->vocabulary, t->c->hidden};
    SW_TRY(swi_folder_take(t->folder, "lm_head.weight", 2, dim, hf_family_name(t->c->family),
                           &head));
    return same_as_table(t, head, named(t, table_part, table, sizeof table));
}

sw_status hf_tensors_take(const hf_config *c, swi_folder *folder, hf_tensor_fn *each,
                          void *context)
{
    const bool gpt2 = c->family == HF_GPT2;
    const char *table = gpt2 ? "wte.weight" : "embed_tokens.weight";
    taking t = {c, folder, each, context, -1};
    SW_TRY(take(&t, table, c->vocabulary, c->hidden, false));
    if (gpt2)
        SW_TRY(take(&t, "wpe.weight", c->context, c->hidden, false));
    for (t.layer = 0; t.layer < c->layers; t.layer++)
        SW_TRY(gpt2 ? gpt2_layer(&t) : roped_layer(&t));
    t.layer = -1;
    SW_TRY(take(&t, gpt2 ? "ln_f.weight" : "norm.weight", c->hidden, 0, false));
    if (gpt2)
        SW_TRY(take(&t, "ln_f.bias", c->hidden, 0, false));
    if (!c->tied)
        SW_TRY(take(&t, "lm_head.weight", c->vocabulary, c->hidden, false));
    if (folder == NULL)
        return SW_OK;
    SW_TRY(pass_over(&t, table));
    return swi_folder_all_taken(folder, hf_family_name(c->family));
}

bool hf_tensor_is_bias(const hf_tensor *t)
{
    return strcmp(strrchr(t->name, '.'), ".bias") == 0;
}

sw_status hf_weights_open(swi_folder **out, const char *folder)
{
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    char path[SWI_FOLDER_PATH + 64];
    bool there = false;
    *out = NULL;
    for (int i = 0; i < 4 && !there; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        SW_TRY(sw_file_look(path, &there));
    }
    return there ? swi_folder_open(out, folder) : SW_OK;
}
