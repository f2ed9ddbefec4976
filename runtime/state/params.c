/* Parameters and buffers of one model to and from a file of tensors.
 *
 * Saving writes a new file beside PATH, has it synced, and renames it: PATH is the old file or
 * the new one, with the mode that it had. Another kind of PATH is written in place. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "kernels/halves.h"
#include "profiler/record/utf8.h"
#include "runtime/state/tensor_file.h"
#include "runtime/state/tensor_internal.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SAVED_ROLES (1u << SWI_ROLE_PARAMETER | 1u << SWI_ROLE_BUFFER)

/* ---- saving ------------------------------------------------------------------------------ */

typedef struct {
    swi_tensor_list list;
    swi_tensors_note notes[SWI_NOTES];
    uint32_t n_notes;
} saving;

static sw_status write_all(void *context, sw_file *file)
{
    const saving *s = context;
    return swi_tensors_write(file, &s->list, s->notes, s->n_notes);
}

/* Parameters on their way into a file of bf16. */
typedef struct {
    swi_take_piece *take;
    void *context;
} rounding;

static sw_status round_piece(void *to, const void *bytes, size_t at, size_t n)
{
    const rounding *r = to;
    const unsigned char *from = bytes;
    uint16_t block[4096];
    const size_t width = sw_dtype_bytes(SW_F32), most = sizeof block / sizeof *block;
    for (size_t left = n / width, k; left > 0; left -= k, from += k * width) {
        k = left < most ? left : most;
        for (size_t i = 0; i < k; i++) {
            float x;
            memcpy(&x, from + i * width, width);
            block[i] = sw_bf16_round(x);
        }
        SW_TRY(r->take(r->context, block, at / 2 + (n / width - left) * sizeof *block,
                       k * sizeof *block));
    }
    return SW_OK;
}

static sw_status pour_rounded(void *owner, swi_take_piece *take, void *context)
{
    const swi_tensor *tensor = owner;
    rounding r = {take, context};
    return swi_model_pour(tensor->models[0], tensor->offset, 2 * tensor->part_bytes,
                          round_piece, &r);
}

static void round_parameters(swi_tensor_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        swi_tensor *tensor = &list->at[i];
        if (tensor->role != SWI_ROLE_PARAMETER || tensor->dtype != SW_F32)
            continue;
        tensor->dtype = SW_BF16;
        tensor->part_bytes /= 2;
        tensor->pour = pour_rounded;
        tensor->owner = tensor;
    }
}

static sw_status save(sw_model *model, const char *path, sw_dtype type, const char *who)
{
    saving s = {.n_notes = (uint32_t)model->n_notes};
    uint64_t bytes;
    if (!model->ready)
        SW_FAIL(SW_INVALID, "%s: model %s must be ready: call sw_model_ready first", who,
                model->name);
    SW_TRY(swi_model_whole(model));
    for (uint32_t i = 0; i < s.n_notes; i++)
        s.notes[i] = (swi_tensors_note){model->notes[i].key, model->notes[i].text};
    sw_status status = swi_list_models(&s.list, &model, 1, SAVED_ROLES, "");
    if (status == SW_OK && type == SW_BF16)
        round_parameters(&s.list);
    if (status == SW_OK) /* what cannot be written is said before a file is made */
        status = swi_tensors_bytes(&s.list, s.notes, s.n_notes, &bytes);
    if (status == SW_OK)
        status = sw_file_replace(path, write_all, &s);
    swi_list_free(&s.list);
    return status;
}

static sw_status save_as(const sw_model *model, const char *path, sw_dtype type,
                         const char *who)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, who));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: path must not be NULL or empty", who);
    static const char npz[] = ".npz"; /* of another format: sw_model_load would refuse it */
    const size_t n = strlen(path), end = sizeof npz - 1;
    if (n >= end && strcasecmp(path + n - end, npz) == 0)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: parameters are saved as safetensors, which sw_model_load reads; the name "
                "must not end in .npz (got '%s')",
                who, path);
    SW_TRY(swi_model_take(model));
    const sw_status status =
        save((sw_model *)(uintptr_t)model, path, type, who); /* it is only read */
    swi_model_give(model);
    return status;
}

sw_status sw_model_save(const sw_model *model, const char *path)
{
    return save_as(model, path, SW_F32, "sw_model_save");
}

sw_status sw_model_save_as(const sw_model *model, const char *path, sw_dtype type)
{
    if (type != SW_F32 && type != SW_BF16)
        SW_FAIL(SW_UNSUPPORTED, "sw_model_save_as: type must be SW_F32 or SW_BF16 (got %d)",
                (int)type);
    return save_as(model, path, type, "sw_model_save_as");
}

/* ---- loading ----------------------------------------------------------------------------- */

static sw_status not_in_it(const swi_run_summary *run, const char *path, const char *name)
{
    char names[200] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < run->n_models && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "",
                               run->models[i].name);
    SW_FAIL(SW_FORMAT, "%s: a checkpoint without model %s: it has %s%s", path, name, names,
            at >= sizeof names ? "..." : "");
}

static sw_status load_from(sw_model *model, swi_tensors *file)
{
    char prefix[sizeof model->name + 1] = "", who[sizeof model->name + 8];
    swi_tensor_list list = {0};
    const bool damaged = model->damaged, more = swi_tensors_is_checkpoint(file);
    if (more) {
        /* The prefix of the model's names in a checkpoint: nothing, or its name and a slash
         * where there are several. */
        const size_t bytes = sizeof prefix;
        swi_run_summary run;
        SW_TRY(swi_run_summary_read(file, &run));
        uint32_t i = 0;
        while (i < run.n_models && strcmp(run.models[i].name, model->name) != 0)
            i++;
        const bool several =
            run.n_models > 1 || (run.n_models == 1 && run.models[0].members > 1);
        const sw_status status = several && i == run.n_models
                                     ? not_in_it(&run, swi_tensors_path(file), model->name)
                                     : SW_OK;
        if (several)
            snprintf(prefix, bytes, "%s/", model->name);
        swi_run_summary_free(&run);
        SW_TRY(status);
    }
    snprintf(who, sizeof who, "model %s", model->name);
    sw_status status = swi_list_models(&list, &model, 1, SAVED_ROLES, prefix);
    if (status == SW_OK)
        status = swi_tensors_load(file, &list, more, who);
    swi_list_free(&list);
    /* State that the file does not hold is half written in a damaged model: it begins anew, as
     * sw_model_ready leaves it, with constants: nothing is drawn. Knobs are not written by
     * runs. */
    for (uint32_t i = 1; status == SW_OK && damaged && i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (!(SAVED_ROLES >> entry->role & 1) && entry->role != SWI_ROLE_KNOB)
            status = swi_init_entry(model, entry, 0);
    }
    if (status == SW_OK)
        model->damaged = false;
    return status;
}

sw_status sw_model_load(sw_model *model, const char *path)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_load"));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_load: path must not be NULL or empty");
    SW_TRY(swi_model_take(model));
    swi_tensors *file = NULL;
    sw_status status = SW_OK;
    if (!model->ready)
        status = sw_error_set(
            SW_INVALID, __FILE__, __LINE__,
            "sw_model_load: model %s must be ready: call sw_model_ready first", model->name);
    else
        swi_note_set("%s", "");
    if (status == SW_OK)
        status = swi_tensors_open(&file, path);
    if (status == SW_OK)
        status = load_from(model, file);
    swi_tensors_close(file);
    swi_model_give(model);
    return status;
}

sw_status sw_params_note(const char *path, const char *key, char *text, size_t bytes)
{
    if (path == NULL || path[0] == '\0' || key == NULL ||
        strlen(key) >= sizeof((swi_note *)NULL)->key || text == NULL || bytes == 0)
        SW_FAIL(SW_INVALID, "sw_params_note: path, key (1 to %zu bytes) and text must be given",
                sizeof((swi_note *)NULL)->key - 1);
    swi_tensors *file;
    SW_TRY(swi_tensors_open(&file, path));
    const char *found = swi_tensors_text(file, key);
    snprintf(text, bytes, "%s", found != NULL ? found : "");
    swi_tensors_close(file);
    return SW_OK;
}

/* Lists of named tensors. Names lie in blocks of the list, one for each call that appends, so
 * that none moves. */

/* ---- names ------------------------------------------------------------------------------- */

/* A block of text knows its bytes: they stand before it. */
#define HEAD sizeof(size_t)

static sw_status take_text(swi_tensor_list *list, char **out, size_t bytes)
{
    char *block;
    SW_TRY(sw_heap_reserve(&list->texts, SW_HEAP_FILES, &list->cap_texts, list->n_texts + 1));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, HEAD + bytes));
    memcpy(block, &bytes, HEAD);
    list->texts[list->n_texts++] = block;
    *out = block + HEAD;
    return SW_OK;
}

static void give_text(swi_tensor_list *list)
{
    size_t bytes;
    char *block = list->texts[--list->n_texts];
    memcpy(&bytes, block, HEAD);
    sw_heap_free(block, SW_HEAP_FILES, HEAD + bytes);
}

/* Of the tensor that comes next, in the room for it; false where the name is there already. */
static bool add_name(swi_tensor_list *list, const char *name)
{
    return sw_map_add(&list->names, name, strlen(name), list->n);
}

static sw_status reserve(swi_tensor_list *list, uint32_t more)
{
    if (more > UINT32_MAX / 8 - list->n)
        SW_FAIL(SW_INVALID, "%u tensors and %u more are too many for a file", list->n, more);
    SW_TRY(sw_heap_reserve(&list->at, SW_HEAP_FILES, &list->cap, list->n + more));
    return sw_map_room(&list->names, SW_HEAP_FILES, list->cap);
}

const swi_tensor *swi_list_find(const swi_tensor_list *list, const char *name)
{
    const sw_map_slot *slot = sw_map_find(&list->names, name, strlen(name));
    return slot != NULL ? &list->at[slot->thing] : NULL;
}

void swi_list_free(swi_tensor_list *list)
{
    while (list->n_texts > 0)
        give_text(list);
    sw_heap_free(list->texts, SW_HEAP_FILES, list->cap_texts * sizeof *list->texts);
    sw_heap_free(list->at, SW_HEAP_FILES, list->cap * sizeof *list->at);
    sw_map_free(&list->names, SW_HEAP_FILES);
    *list = (swi_tensor_list){0};
}

swi_list_mark swi_list_end(const swi_tensor_list *list)
{
    return (swi_list_mark){list->n, list->n_groups, list->n_texts};
}

void swi_list_cut(swi_tensor_list *list, swi_list_mark end)
{
    SW_ASSERT(end.n <= list->n && end.n_texts <= list->n_texts);
    if (end.n < list->n) {
        const uint32_t n = end.n;
        sw_map_clear(&list->names);
        for (list->n = 0; list->n < n; list->n++)
            (void)add_name(list, list->at[list->n].name); /* they are unique */
    }
    list->n_groups = end.n_groups;
    while (list->n_texts > end.n_texts)
        give_text(list);
}

/* ---- models ------------------------------------------------------------------------------ */

/* The word before an entry's name, after the prefix. */
static const char *kind_of(swi_role role)
{
    switch (role) {
    case SWI_ROLE_OPTIMIZER_STATE:
        return SWI_OWN_PREFIX "optimizer/";
    case SWI_ROLE_STATE:
        return SWI_OWN_PREFIX "state/";
    case SWI_ROLE_GRADIENT:
        return SWI_OWN_PREFIX "gradient/";
    case SWI_ROLE_KNOB:
        return SWI_OWN_PREFIX;
    default:
        return "";
    }
}

static bool is_in(const swi_entry *entry, uint32_t roles)
{
    return !entry->brief && (roles >> entry->role & 1) != 0;
}

/* False where the name is there already. */
static bool append(swi_tensor_list *list, sw_model *const *models, uint32_t n,
                   const swi_entry *entry, const char *name)
{
    list->at[list->n] =
        (swi_tensor)SW_INIT(.name = name, .role = entry->role, .dtype = entry->dtype,
                            .shape = entry->shape, .part_bytes = entry->bytes, .n_parts = n,
                            .models = models, .offset = entry->offset, .group = list->n_groups);
    if (!add_name(list, name))
        return false;
    list->n++;
    return true;
}

/* Room for the names of all of them, and for the tensors. */
static sw_status make_room(swi_tensor_list *list, const sw_model *model, uint32_t roles,
                           const char *prefix, char **names, size_t *bytes)
{
    uint32_t n = 0;
    *bytes = 0;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (is_in(entry, roles)) {
            *bytes += strlen(prefix) + strlen(kind_of(entry->role)) + strlen(entry->name) + 1;
            n++;
        }
    }
    SW_TRY(reserve(list, n));
    return take_text(list, names, *bytes);
}

static sw_status add_entries(swi_tensor_list *list, sw_model *const *models, uint32_t n,
                             uint32_t roles, const char *prefix)
{
    const sw_model *model = models[0];
    const swi_list_mark before = swi_list_end(list);
    char *name = NULL;
    size_t left;
    if (!sw_utf8_whole(prefix) || strncmp(prefix, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0)
        SW_FAIL(SW_INVALID,
                "model %s: a safetensors file cannot hold names that begin with '%s'",
                model->name, prefix);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_in(&model->entries[i], roles)) {
            const bool own =
                strncmp(model->entries[i].name, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0;
            if (own || !sw_utf8_whole(model->entries[i].name) ||
                strcmp(model->entries[i].name, "__metadata__") == 0)
                SW_FAIL(SW_INVALID, "model %s: a safetensors file cannot hold the name '%s'%s",
                        model->name, model->entries[i].name,
                        own ? ": what begins with '" SWI_OWN_PREFIX "' is the library's own"
                            : "");
            if (n > 1 && model->entries[i].shape.rank == SW_MAX_RANK)
                SW_FAIL(SW_INVALID,
                        "model %s: '%s' has %d dims; of %u models in one file, at most %d are "
                        "stacked",
                        model->name, model->entries[i].name, model->entries[i].shape.rank, n,
                        SW_MAX_RANK - 1);
        }
    SW_TRY(make_room(list, model, roles, prefix, &name, &left));
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (!is_in(entry, roles))
            continue;
        const size_t used =
            (size_t)snprintf(name, left, "%s%s%s", prefix, kind_of(entry->role), entry->name) +
            1;
        if (!append(list, models, n, entry, name)) {
            const sw_status status = sw_error_set(
                SW_INVALID, __FILE__, __LINE__,
                "model %s: '%s' is a tensor of a model before it already; models of one name "
                "must follow each other",
                model->name, name);
            swi_list_cut(list, before);
            return status;
        }
        name += used;
        left -= used;
    }
    list->n_groups++;
    return SW_OK;
}

sw_status swi_list_stack(swi_tensor_list *list, sw_model *const *shape, uint32_t n,
                         uint32_t roles, const char *prefix)
{
    const uint32_t first = list->n;
    SW_TRY(add_entries(list, shape, n, roles, prefix));
    for (uint32_t i = first; i < list->n; i++)
        list->at[i].stacked = true;
    return SW_OK;
}

sw_status swi_list_models(swi_tensor_list *list, sw_model *const *models, uint32_t n,
                          uint32_t roles, const char *prefix)
{
    for (uint32_t i = 1; i < n; i++)
        if (models[i]->layout_hash != models[0]->layout_hash)
            SW_FAIL(SW_INVALID, "models %s: model %u of %u has another layout than the first",
                    models[0]->name, i + 1, n);
    return add_entries(list, models, n, roles, prefix);
}

sw_status swi_list_parts(swi_tensor_list *list, const char *name, const void *bytes, size_t n,
                         uint32_t n_parts)
{
    char *copy = NULL;
    if (!sw_utf8_whole(name) || strcmp(name, "__metadata__") == 0)
        SW_FAIL(SW_INVALID, "a safetensors file cannot hold the name '%s'", name);
    if (swi_list_find(list, name) != NULL)
        SW_FAIL(SW_INVALID, "'%s' stands in the list of tensors already", name);
    SW_TRY(reserve(list, 1));
    SW_TRY(take_text(list, &copy, strlen(name) + 1));
    memcpy(copy, name, strlen(name) + 1);
    (void)add_name(list, copy); /* looked for above */
    list->at[list->n++] = (swi_tensor){.name = copy,
                                       .role = SWI_ROLE_OUTPUT,
                                       .dtype = SW_U8,
                                       .shape = {.rank = 1, .dim = {(int64_t)n}},
                                       .part_bytes = n,
                                       .n_parts = n_parts,
                                       .at = n > 0 ? (unsigned char *)(uintptr_t)bytes
                                                   : (unsigned char *)copy, /* never NULL */
                                       .stride = n,
                                       .group = SWI_NONE};
    return SW_OK;
}

sw_status swi_list_bytes(swi_tensor_list *list, const char *name, const void *bytes, size_t n)
{
    return swi_list_parts(list, name, bytes, n, 1);
}
