#include "tools/models/hf_save.h"
#include "alloc/base/mem.h"
#include "kernels/halves.h"
#include "profiler/record/json_read.h"
#include "runtime/base/text_file.h"
#include "tools/models/hf_tensors.h"
#include <stdio.h>
#include <string.h>

#define CONFIG_MOST ((size_t)16 << 20)
enum { BLOCK = 1 << 20, PATH = SWI_FOLDER_PATH + 256 };

/* ---- what stands beside the weights ------------------------------------------------------ */

static const char *const beside[] = {"tokenizer.json",
                                     "tokenizer_config.json",
                                     "tokenizer.model",
                                     "vocab.json",
                                     "merges.txt",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "chat_template.jinja",
                                     "generation_config.json"};

static sw_status copy_all(void *context, sw_file *to)
{
    sw_file *from = context;
    unsigned char block[1 << 14];
    for (size_t n = sizeof block; n == sizeof block;) {
        SW_TRY(sw_file_read(from, block, sizeof block, &n));
        SW_TRY(sw_file_write(to, block, n));
    }
    return SW_OK;
}

/* A link may lead to a file of the base: it would be written, not replaced. */
static sw_status replace(const char *path, sw_status (*write)(void *context, sw_file *file),
                         void *context)
{
    if (!sw_file_replaceable(path))
        SW_FAIL(SW_INVALID, "%s is a link or no file, and is not replaced: name another folder",
                path);
    return sw_file_replace(path, write, context);
}

static sw_status copy_file(const char *folder, const char *to, const char *name, bool must)
{
    char path[PATH];
    bool there = true;
    sw_file *from;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!must)
        SW_TRY(sw_file_look(path, &there));
    if (!there)
        return SW_OK;
    SW_TRY(sw_file_open(&from, path, SW_FILE_READ));
    snprintf(path, sizeof path, "%s/%s", to, name);
    const sw_status status = replace(path, copy_all, from);
    sw_file_drop(from);
    return status;
}

/* Make the folder, and fill in all but weights. */
static sw_status begin_folder(const char *folder, const char *to)
{
    SW_TRY(sw_folder_make(to));
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        SW_TRY(copy_file(folder, to, beside[i], false));
    return SW_OK;
}

/* config.json whose weights have another type now: where the old one's value lies. */
typedef struct {
    const char *text;
    size_t bytes, at[2], end[2];
    int n;
} retyped;

static sw_status find_dtype(sw_json_in *in, const char *key, void *context)
{
    retyped *r = context;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    const size_t at = in->at;
    SW_TRY(sw_json_skip(in));
    if ((strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0) && r->n < 2) {
        r->at[r->n] = at;
        r->end[r->n++] = in->at;
    }
    return SW_OK;
}

static sw_status write_retyped(void *context, sw_file *file)
{
    static const char type[] = "\"float32\"";
    const retyped *r = context;
    size_t done = 0;
    for (int i = 0; i < r->n; i++) {
        SW_TRY(sw_file_write(file, r->text + done, r->at[i] - done));
        SW_TRY(sw_file_write(file, type, sizeof type - 1));
        done = r->end[i];
    }
    return sw_file_write(file, r->text + done, r->bytes - done);
}

static sw_status copy_config(const char *folder, const char *to)
{
    char path[PATH];
    char *text;
    retyped r = {.n = 0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    SW_TRY(swi_text_load(&text, &r.bytes, path, "a configuration", CONFIG_MOST));
    sw_json_in in = sw_json_in_text(text, r.bytes, path);
    r.text = text;
    sw_status status = sw_json_get_object(&in, find_dtype, &r);
    snprintf(path, sizeof path, "%s/config.json", to);
    if (status == SW_OK)
        status = replace(path, write_retyped, &r);
    sw_text_free(text, r.bytes);
    return status;
}

/* ---- a model that was trained whole ------------------------------------------------------ */

typedef struct {
    hf_net *net;
    swi_tensor_list list;
} saving;

/* The file has the columns of the net's matrix as rows. */
static sw_status pour_turned(void *owner, swi_take_piece *take, void *context)
{
    const swi_tensor *t = owner;
    const size_t rows = (size_t)t->shape.dim[0], cols = (size_t)t->shape.dim[1];
    float *all;
    SW_TRY(sw_heap_alloc(&all, SW_HEAP_FILES, t->part_bytes + cols * sizeof *all));
    float *row = all + rows * cols;
    sw_status status = swi_model_read(t->models[0], all, t->offset, t->part_bytes);
    for (size_t k = 0; k < rows && status == SW_OK; k++) {
        for (size_t o = 0; o < cols; o++)
            row[o] = all[o * rows + k];
        status = take(context, row, k * cols * sizeof *row, cols * sizeof *row);
    }
    sw_heap_free(all, SW_HEAP_FILES, t->part_bytes + cols * sizeof *all);
    return status;
}

static sw_status list_tensor(void *context, const hf_tensor *t)
{
    saving *s = context;
    char module[HF_MODULE_BYTES];
    const hf_part *part = hf_net_part(s->net, t, module);
    const sw_param *param = hf_tensor_is_bias(t) ? &part->bias : &part->weight;
    const swi_entry *e = swi_entry_of(*param);
    SW_TRY(swi_list_bytes(&s->list, t->name, NULL, e->bytes));
    swi_tensor *to = &s->list.at[s->list.n - 1];
    to->role = SWI_ROLE_PARAMETER;
    to->dtype = SW_F32;
    to->shape = (sw_shape){t->rank, {t->dim[0], t->dim[1]}};
    to->at = NULL;
    to->models = &param->model;
    to->offset = e->offset;
    to->pour = t->turned ? pour_turned : NULL;
    return SW_OK;
}

static sw_status write_list(void *context, sw_file *file)
{
    saving *s = context;
    for (uint32_t i = 0; i < s->list.n; i++) /* it does not grow any more */
        s->list.at[i].owner = &s->list.at[i];
    return swi_tensors_write(file, &s->list, NULL, 0);
}

sw_status hf_save_model(hf_net *net, const char *to)
{
    saving s = {.net = net};
    char path[PATH];
    sw_model *model = net->tokens.weight.model;
    SW_TRY(begin_folder(net->folder, to));
    SW_TRY(copy_config(net->folder, to));
    SW_TRY(swi_model_take(model));
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    sw_status status = hf_tensors_take(&net->config, NULL, list_tensor, &s);
    if (status == SW_OK)
        status = replace(path, write_list, &s);
    swi_list_free(&s.list);
    swi_model_give(model);
    return status;
}

/* ---- an adapter in the base -------------------------------------------------------------- */

typedef struct {
    hf_net *net;
    swi_folder *folder;
    const hf_part **part; /* of each tensor of the folder: with an adapter, or NULL */
    bool *turned;
    swi_tensors *shard; /* that is written */
    unsigned char *block;
} merging;

static sw_status note_part(void *context, const hf_tensor *t)
{
    merging *m = context;
    char module[HF_MODULE_BYTES];
    const hf_part *part = hf_net_part(m->net, t, module);
    if (t->rank > 1 && part->a.index != 0) {
        m->part[t->data - m->folder->at] = part;
        m->turned[t->data - m->folder->at] = t->turned;
    }
    return SW_OK;
}

/* IEEE's binary16, to the nearest, ties to even. */
static uint16_t f16_round(float x)
{
    uint32_t bits, sign;
    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* below 2^-14: a sum with 0.5 rounds to its steps of 2^-24 */
        float tiny;
        memcpy(&tiny, &bits, sizeof tiny);
        tiny += 0.5f;
        memcpy(&bits, &tiny, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

/* Row k of the tensor in the file, and what the adapter adds to it, as bytes of its type. */
static sw_status merge_row(const merging *m, const swi_folder_tensor *t, const hf_part *part,
                           bool turned, int64_t k, const float *a, const float *b, float *row,
                           sw_file *file)
{
    const int64_t n = t->entry->dim[1], rank = swi_entry_of(part->a)->shape.dim[0];
    const char *type = t->entry->dtype;
    uint16_t *halves = (uint16_t *)(void *)m->block;
    SW_TRY(swi_folder_numbers(t, (uint64_t)(k * n), row, (size_t)n));
    /* Row o of W has sum of b[o][r] a[r][i]; a turned one has row i of it. */
    const int64_t in = turned ? t->entry->dim[0] : n;
    for (int64_t r = 0; r < rank; r++)
        for (int64_t i = 0; i < n; i++)
            row[i] += part->scale * (turned ? a[r * in + k] * b[i * rank + r]
                                            : b[k * rank + r] * a[r * in + i]);
    if (strcmp(type, "F32") == 0)
        return sw_file_write(file, row, (size_t)n * sizeof *row);
    const bool bf16 = strcmp(type, "BF16") == 0;
    for (int64_t done = 0; done < n;) {
        int64_t i = 0;
        for (; done < n && i < BLOCK / 2; i++, done++)
            halves[i] = bf16 ? sw_bf16_round(row[done]) : f16_round(row[done]);
        SW_TRY(sw_file_write(file, halves, (size_t)i * sizeof *halves));
    }
    return SW_OK;
}

static sw_status merge_tensor(const merging *m, const swi_folder_tensor *t, const hf_part *part,
                              bool turned, sw_file *file)
{
    const size_t a_bytes = swi_entry_of(part->a)->bytes, b_bytes = swi_entry_of(part->b)->bytes;
    const size_t bytes = a_bytes + b_bytes + (size_t)t->entry->dim[1] * sizeof(float);
    float *a;
    SW_TRY(sw_heap_alloc(&a, SW_HEAP_FILES, bytes));
    float *b = a + a_bytes / sizeof *a, *row = b + b_bytes / sizeof *b;
    sw_status status = sw_param_read(part->a, a, a_bytes);
    if (status == SW_OK)
        status = sw_param_read(part->b, b, b_bytes);
    for (int64_t k = 0; k < t->entry->dim[0] && status == SW_OK; k++)
        status = merge_row(m, t, part, turned, k, a, b, row, file);
    sw_heap_free(a, SW_HEAP_FILES, bytes);
    return status;
}

/* The shard's header as it is, and its data in their order. */
static sw_status write_shard(void *context, sw_file *file)
{
    const merging *m = context;
    const uint64_t all = swi_tensors_file_bytes(m->shard);
    uint64_t data = 0;
    sw_file *from;
    for (uint32_t i = 0; i < swi_tensors_count(m->shard); i++)
        if (swi_tensors_at(m->shard, i)->end > data)
            data = swi_tensors_at(m->shard, i)->end;
    SW_TRY(sw_file_open(&from, swi_tensors_path(m->shard), SW_FILE_READ));
    sw_status status = SW_OK;
    for (uint64_t left = all - data; left > 0 && status == SW_OK;) {
        size_t got = 0;
        status = sw_file_read(from, m->block, left < BLOCK ? (size_t)left : BLOCK, &got);
        if (status == SW_OK && got == 0)
            status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: it became shorter",
                                  swi_tensors_path(m->shard));
        if (status == SW_OK)
            status = sw_file_write(file, m->block, got);
        left -= got;
    }
    sw_file_drop(from);
    SW_TRY(status);
    for (uint32_t i = 0; i < m->folder->n; i++) {
        const swi_folder_tensor *t = &m->folder->at[i];
        if (t->file != m->shard)
            continue;
        if (m->part[i] != NULL) {
            SW_TRY(merge_tensor(m, t, m->part[i], m->turned[i], file));
            continue;
        }
        for (uint64_t at = 0, n = t->entry->end - t->entry->begin; at < n; at += BLOCK) {
            const size_t some = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
            SW_TRY(swi_tensors_read_part(t->file, t->entry, at, m->block, some));
            SW_TRY(sw_file_write(file, m->block, some));
        }
    }
    return SW_OK;
}

static sw_status merge_into(merging *m, const char *to)
{
    char path[PATH];
    bool there;
    SW_TRY(hf_tensors_take(&m->net->config, m->folder, note_part, m));
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    SW_TRY(sw_file_look(path, &there));
    if (there &&
        strcmp(strrchr(swi_tensors_path(m->folder->shards[0]), '/'), "/model.safetensors") != 0)
        SW_FAIL(SW_INVALID,
                "%s is there, and would be read instead of the shards: name another folder",
                path);
    SW_TRY(begin_folder(m->net->folder, to));
    SW_TRY(copy_file(m->net->folder, to, "config.json", true));
    for (uint32_t i = 0; i < m->folder->n_shards; i++) {
        m->shard = m->folder->shards[i];
        const char *name = strrchr(swi_tensors_path(m->shard), '/');
        snprintf(path, sizeof path, "%s%s", to, name);
        SW_TRY(replace(path, write_shard, m));
    }
    return copy_file(m->net->folder, to, "model.safetensors.index.json", false);
}

sw_status hf_merge(hf_net *net, const char *to)
{
    merging m = {.net = net};
    SW_TRY(swi_folder_open(&m.folder, net->folder));
    const size_t bytes = BLOCK + m.folder->n * (sizeof *m.part + sizeof *m.turned);
    sw_status status = sw_heap_alloc(&m.block, SW_HEAP_FILES, bytes);
    if (status == SW_OK) {
        m.part = (const hf_part **)(void *)(m.block + BLOCK);
        m.turned = (bool *)(m.part + m.folder->n);
        status = merge_into(&m, to);
        sw_heap_free(m.block, SW_HEAP_FILES, bytes);
    }
    swi_folder_close(m.folder);
    return status;
}
