/* See model_folder.h. */
#include "runtime/state/model_folder.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/json_read.h"
#include "runtime/base/text_file.h"
#include "runtime/state/tensor_internal.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_MAX 512               /* each is an open file */
#define INDEX_MAX ((size_t)64 << 20) /* bytes of an index */
#define REF_MAX 255                  /* of refs/main */
#define WHOLE "model.safetensors"
#define INDEX WHOLE ".index.json"

/* ---- where it is ------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static sw_status join(char to[SWI_FOLDER_PATH],
                                                            const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(to, SWI_FOLDER_PATH, format, list);
    va_end(list);
    if (n < 0 || n >= SWI_FOLDER_PATH)
        SW_FAIL(SW_INVALID, "%.80s...: a path has at most %d bytes", to, SWI_FOLDER_PATH - 1);
    return SW_OK;
}

static sw_status find_cache(char to[SWI_FOLDER_PATH])
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *set = getenv(places[i].variable);
        if (set != NULL && *set != '\0')
            return join(to, "%s%s", set, places[i].below);
    }
    return join(to, ".cache/huggingface/hub");
}

/* Could it be a repository of the hub? */
static bool is_repository(const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-/");
    return n > 0 && n <= 200 && name[n] == '\0' && name[0] != '.' && name[0] != '/' &&
           (slash == NULL ||
            (slash[1] != '\0' && slash[1] != '.' && strchr(slash + 1, '/') == NULL));
}

sw_status swi_folder_find(char to[SWI_FOLDER_PATH], const char *name)
{
    char cache[SWI_FOLDER_PATH], repository[SWI_FOLDER_PATH], ref[SWI_FOLDER_PATH];
    char hash[REF_MAX + 1] = "", *text;
    size_t bytes;
    bool there;
    if (sw_folder_there(name))
        return join(to, "%s", name);
    if (!is_repository(name))
        SW_FAIL(SW_IO, "%s: must be a folder, or ORG/NAME of the hub", name);
    SW_TRY(find_cache(cache));
    const char *slash = strchr(name, '/');
    if (slash == NULL)
        SW_TRY(join(repository, "%s/models--%s", cache, name));
    else
        SW_TRY(join(repository, "%s/models--%.*s--%s", cache, (int)(slash - name), name,
                    slash + 1));
    SW_TRY(join(ref, "%s/refs/main", repository));
    SW_TRY(sw_file_look(ref, &there));
    if (!there)
        SW_FAIL(SW_IO,
                "%s is no folder and not in the hub cache %s, and nothing is downloaded here: "
                "run 'hf download %s'",
                name, cache, name);
    SW_TRY(swi_text_load(&text, &bytes, ref, "a reference of the hub cache", REF_MAX));
    const size_t n = strspn(text, "0123456789abcdef");
    if (n > 0 && n + strspn(text + n, "\r\n") == bytes)
        snprintf(hash, sizeof hash, "%.*s", (int)n, text);
    sw_text_free(text, bytes);
    if (hash[0] == '\0')
        SW_FAIL(SW_FORMAT, "%s: must be the hash of a snapshot", ref);
    SW_TRY(join(to, "%s/snapshots/%s", repository, hash));
    if (!sw_folder_there(to))
        SW_FAIL(SW_IO, "%s, which refs/main names, is not there: run 'hf download %s'", to,
                name);
    return SW_OK;
}

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status add_shard(swi_folder *f, const char *path)
{
    if (f->n_shards == SHARDS_MAX)
        SW_FAIL(SW_UNSUPPORTED, "%s: at most %d shards are read", f->path, SHARDS_MAX);
    SW_TRY(sw_heap_reserve(&f->shards, SW_HEAP_FILES, &f->cap_shards, f->n_shards + 1));
    SW_TRY(swi_tensors_open(&f->shards[f->n_shards], path));
    swi_tensors *file = f->shards[f->n_shards++];
    const uint32_t n = swi_tensors_count(file);
    char name[SWI_NAME_SHOWN];
    SW_TRY(sw_heap_reserve(&f->at, SW_HEAP_FILES, &f->cap, f->n + n));
    SW_TRY(sw_map_room(&f->names, SW_HEAP_FILES, f->n + n));
    for (uint32_t i = 0; i < n; i++) {
        const swi_tensors_entry *entry = swi_tensors_at(file, i);
        if (!sw_map_add(&f->names, entry->name, strlen(entry->name), f->n))
            SW_FAIL(SW_FORMAT, "%s: '%s' is there twice: in %s too", path,
                    swi_name_shown(name, entry->name),
                    swi_tensors_path(swi_folder_tensor_of(f, entry->name)->file));
        f->at[f->n++] = (swi_folder_tensor){.file = file, .entry = entry};
    }
    return SW_OK;
}

typedef struct {
    swi_folder *folder;
    const char *path;
    bool map;       /* is there */
    bool has_total; /* which `total` is */
    uint64_t total;
} reading;

/* A member of "weight_map": the shard of a tensor. */
static sw_status read_place(sw_json_in *in, const char *key, void *context)
{
    const reading *r = context;
    swi_folder *f = r->folder;
    char file[256], path[SWI_FOLDER_PATH], name[SWI_NAME_SHOWN];
    sw_json_text text = {.to = file, .cap = sizeof file - 1};
    SW_TRY(sw_json_get_string(in, &text));
    file[text.length < text.cap ? text.length : text.cap] = '\0';
    if (text.length > text.cap || text.length == 0 || strchr(file, '/') != NULL)
        SW_FAIL(SW_FORMAT,
                "%s: the shard of '%s' must be the name of a file in the folder (got '%s')",
                r->path, swi_name_shown(name, key), file);
    SW_TRY(join(path, "%s/%s", f->path, file));
    uint32_t i = 0;
    while (i < f->n_shards && strcmp(swi_tensors_path(f->shards[i]), path) != 0)
        i++;
    if (i == f->n_shards)
        SW_TRY(add_shard(f, path));
    swi_folder_tensor *tensor = swi_folder_tensor_of(f, key);
    if (tensor == NULL || tensor->file != f->shards[i])
        SW_FAIL(SW_FORMAT, "%s: '%s' must be in %s, and is not", r->path,
                swi_name_shown(name, key), file);
    if (tensor->taken)
        SW_FAIL(SW_FORMAT, "%s: '%s' is there twice", r->path, swi_name_shown(name, key));
    tensor->taken = true;
    return SW_OK;
}

static sw_status read_metadata(sw_json_in *in, const char *key, void *context)
{
    reading *r = context;
    if (strcmp(key, "total_size") != 0)
        return sw_json_skip(in);
    sw_json_number x;
    SW_TRY(sw_json_get_number(in, &x)); /* older writers: 1.0e9 */
    if (x.minus || (!x.whole && (x.real >= 0x1p63 || x.real != (double)(uint64_t)x.real)))
        return sw_json_bad(in, "total_size must be a number of bytes");
    r->total = x.whole ? x.magnitude : (uint64_t)x.real;
    r->has_total = true;
    return SW_OK;
}

static sw_status read_part(sw_json_in *in, const char *key, void *context)
{
    reading *r = context;
    if (strcmp(key, "metadata") == 0)
        return sw_json_get_object(in, read_metadata, r);
    if (strcmp(key, "weight_map") != 0)
        return sw_json_skip(in);
    if (r->map)
        return sw_json_bad(in, "weight_map twice");
    r->map = true;
    return sw_json_get_object(in, read_place, r);
}

static sw_status read_index(reading *r, const char *text, size_t bytes)
{
    sw_json_in in = sw_json_in_text(text, bytes, r->path);
    int c;
    in.strict = true;
    SW_TRY(sw_json_get_object(&in, read_part, r));
    SW_TRY(sw_json_peek(&in, &c));
    if (c != -1)
        return sw_json_bad(&in, "text after the end");
    if (!r->map)
        SW_FAIL(SW_FORMAT, "%s: must have weight_map", r->path);
    uint64_t sum = 0;
    char name[SWI_NAME_SHOWN];
    swi_folder *f = r->folder;
    for (uint32_t i = 0; i < f->n; i++) {
        if (!f->at[i].taken)
            SW_FAIL(SW_FORMAT, "%s: %s has '%s', which is not in weight_map", r->path,
                    swi_tensors_path(f->at[i].file),
                    swi_name_shown(name, f->at[i].entry->name));
        f->at[i].taken = false;
        sum += f->at[i].entry->end - f->at[i].entry->begin;
    }
    if (r->has_total && sum != r->total)
        SW_FAIL(SW_FORMAT, "%s: total_size is %" PRIu64 "; its tensors have %" PRIu64 " bytes",
                r->path, r->total, sum);
    return SW_OK;
}

static sw_status open_all(swi_folder *f)
{
    char path[SWI_FOLDER_PATH], *text;
    size_t bytes;
    bool there;
    SW_TRY(join(path, "%s/" WHOLE, f->path));
    SW_TRY(sw_file_look(path, &there));
    if (there)
        return add_shard(f, path);
    SW_TRY(join(path, "%s/" INDEX, f->path));
    SW_TRY(sw_file_look(path, &there));
    if (there) {
        reading r = {.folder = f, .path = path};
        SW_TRY(swi_text_load(&text, &bytes, path, "an index of shards", INDEX_MAX));
        const sw_status status = read_index(&r, text, bytes);
        sw_text_free(text, bytes);
        return status;
    }
    for (int i = 0; i < 2; i++) {
        SW_TRY(join(path, "%s/pytorch_model.bin%s", f->path, i > 0 ? ".index.json" : ""));
        SW_TRY(sw_file_look(path, &there));
        if (there)
            SW_FAIL(SW_UNSUPPORTED,
                    "%s: a pickle of PyTorch is not read; this converts it: python3 -c 'from "
                    "transformers import AutoModelForCausalLM as M; "
                    "M.from_pretrained(\"%s\", torch_dtype=\"auto\").save_pretrained(\"%s\")'",
                    path, f->path, f->path);
    }
    SW_FAIL(SW_IO, "%s: has neither " WHOLE " nor " INDEX, f->path);
}

sw_status swi_folder_open(swi_folder **out, const char *path)
{
    swi_folder *f;
    SW_TRY(sw_heap_alloc(&f, SW_HEAP_FILES, sizeof *f));
    sw_status status = join(f->path, "%s", path);
    if (status == SW_OK)
        status = open_all(f);
    return SW_GIVE(status, out, f, swi_folder_close);
}

void swi_folder_close(swi_folder *f)
{
    if (f == NULL)
        return;
    while (f->n_shards > 0)
        swi_tensors_close(f->shards[--f->n_shards]);
    sw_heap_free(f->shards, SW_HEAP_FILES, f->cap_shards * sizeof *f->shards);
    sw_heap_free(f->at, SW_HEAP_FILES, f->cap * sizeof *f->at);
    sw_map_free(&f->names, SW_HEAP_FILES);
    sw_heap_free(f, SW_HEAP_FILES, sizeof *f);
}

/* ---- tensors ----------------------------------------------------------------------------- */

swi_folder_tensor *swi_folder_tensor_of(const swi_folder *f, const char *name)
{
    const sw_map_slot *slot = sw_map_find(&f->names, name, strlen(name));
    return slot != NULL ? &f->at[slot->thing] : NULL;
}

static bool is_read(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 || swi_widen_of(dtype) != NULL;
}

sw_status swi_folder_take(swi_folder *f, const char *name, int rank, const int64_t *dim,
                          const char *who, swi_folder_tensor **out)
{
    char needed[SWI_NAME_SHOWN], there[SWI_NAME_SHOWN];
    swi_folder_tensor *tensor = swi_folder_tensor_of(f, name);
    swi_tensors_describe(needed, sizeof needed, "F32, F16 or BF16", rank, dim);
    if (tensor == NULL)
        SW_FAIL(SW_FORMAT, "%s: '%s' is missing; %s needs %s", f->path, name, who, needed);
    const swi_tensors_entry *entry = tensor->entry;
    swi_tensors_describe(there, sizeof there, entry->dtype, entry->rank, entry->dim);
    if (!is_read(entry->dtype) || entry->rank != rank ||
        memcmp(entry->dim, dim, (size_t)rank * sizeof *dim) != 0)
        SW_FAIL(SW_FORMAT, "%s: '%s' is %s; %s needs %s", swi_tensors_path(tensor->file), name,
                there, who, needed);
    tensor->taken = true;
    *out = tensor;
    return SW_OK;
}

sw_status swi_folder_all_taken(const swi_folder *f, const char *who)
{
    char name[SWI_NAME_SHOWN], there[SWI_NAME_SHOWN];
    for (uint32_t i = 0; i < f->n; i++)
        if (!f->at[i].taken) {
            const swi_tensors_entry *entry = f->at[i].entry;
            swi_tensors_describe(there, sizeof there, entry->dtype, entry->rank, entry->dim);
            SW_FAIL(SW_FORMAT, "%s: '%s', %s, is unknown: %s has no such tensor",
                    swi_tensors_path(f->at[i].file), swi_name_shown(name, entry->name), there,
                    who);
        }
    return SW_OK;
}

sw_status swi_folder_numbers(const swi_folder_tensor *tensor, uint64_t first, float *to,
                             size_t n)
{
    const char *dtype = tensor->entry->dtype;
    if (!is_read(dtype))
        SW_FAIL(SW_UNSUPPORTED, "%s: '%s' must be F32, F16 or BF16 (it is %s)",
                swi_tensors_path(tensor->file), tensor->entry->name, dtype);
    swi_widen *widen = swi_widen_of(dtype);
    if (widen == NULL)
        return swi_tensors_read_part(tensor->file, tensor->entry, first * sizeof *to, to,
                                     n * sizeof *to);
    SW_TRY(swi_tensors_read_part(tensor->file, tensor->entry, first * sizeof(uint16_t),
                                 (unsigned char *)to + n * sizeof(uint16_t),
                                 n * sizeof(uint16_t)));
    swi_widen_in_place(widen, to, n);
    return SW_OK;
}
