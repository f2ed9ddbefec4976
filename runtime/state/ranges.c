/* Lists of named tensors. Names lie in blocks of the list, one for each call that appends, so
 * that none moves. */
#include "runtime/state/ranges.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include <stdio.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

/* A block of text knows its bytes: they stand before it. */
#define HEAD sizeof(size_t)

static sw_status take_text(swi_tensor_list *list, char **out, size_t bytes)
{
    void *array = list->texts, *block = NULL;
    SW_TRY(sw_heap_reserve(&array, SW_HEAP_FILES, &list->cap_texts, list->n_texts + 1,
                           sizeof *list->texts));
    list->texts = array;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, HEAD + bytes));
    memcpy(block, &bytes, HEAD);
    list->texts[list->n_texts++] = block;
    *out = (char *)block + HEAD;
    return SW_OK;
}

static void give_text(swi_tensor_list *list)
{
    size_t bytes;
    char *block = list->texts[--list->n_texts];
    memcpy(&bytes, block, HEAD);
    sw_heap_free(block, SW_HEAP_FILES, HEAD + bytes);
}

static const char *tensor_name(const void *list, uint32_t i)
{
    return ((const swi_tensor_list *)list)->at[i].name;
}

static void name_again(swi_tensor_list *list)
{
    swi_names_clear(&list->names);
    for (uint32_t i = 0; i < list->n; i++)
        (void)swi_names_add(&list->names, i, tensor_name, list); /* they are unique */
}

static sw_status reserve(swi_tensor_list *list, uint32_t more)
{
    void *array = list->at;
    bool emptied;
    if (more > UINT32_MAX / 8 - list->n)
        SW_FAIL(SW_INVALID, "%u tensors and %u more are too many for a file", list->n, more);
    SW_TRY(
        sw_heap_reserve(&array, SW_HEAP_FILES, &list->cap, list->n + more, sizeof *list->at));
    list->at = array;
    SW_TRY(swi_names_room(&list->names, list->cap, &emptied));
    if (emptied)
        name_again(list);
    return SW_OK;
}

const swi_tensor *swi_list_find(const swi_tensor_list *list, const char *name)
{
    const uint32_t i = swi_names_find(&list->names, name, tensor_name, list);
    return i < list->n ? &list->at[i] : NULL;
}

void swi_list_free(swi_tensor_list *list)
{
    while (list->n_texts > 0)
        give_text(list);
    sw_heap_free(list->texts, SW_HEAP_FILES, list->cap_texts * sizeof *list->texts);
    sw_heap_free(list->at, SW_HEAP_FILES, list->cap * sizeof *list->at);
    swi_names_free(&list->names);
    *list = (swi_tensor_list){0};
}

swi_list_mark swi_list_end(const swi_tensor_list *list)
{
    return (swi_list_mark){list->n, list->n_groups, list->n_texts};
}

void swi_list_cut(swi_tensor_list *list, swi_list_mark end)
{
    SW_ASSERT(end.n <= list->n && end.n_texts <= list->n_texts);
    while (list->n_texts > end.n_texts)
        give_text(list);
    const bool shorter = end.n < list->n;
    list->n = end.n;
    list->n_groups = end.n_groups;
    if (shorter)
        name_again(list);
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
    return roles >> entry->role & 1;
}

static sw_status check_entry(const sw_model *model, const swi_entry *entry, uint32_t n)
{
    const bool own = strncmp(entry->name, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0;
    if (own || !sw_utf8_whole(entry->name) || strcmp(entry->name, "__metadata__") == 0)
        SW_FAIL(SW_INVALID, "model %s: a safetensors file cannot hold the name '%s'%s",
                model->name, entry->name,
                own ? ": what begins with '" SWI_OWN_PREFIX "' is the library's own" : "");
    if (n > 1 && entry->shape.rank == SW_MAX_RANK)
        SW_FAIL(SW_INVALID,
                "model %s: '%s' has %d dims; of %u models in one file, at most %d are stacked",
                model->name, entry->name, entry->shape.rank, n, SW_MAX_RANK - 1);
    return SW_OK;
}

static sw_status check_names(const sw_model *model, uint32_t n, uint32_t roles,
                             const char *prefix)
{
    if (!sw_utf8_whole(prefix) || strncmp(prefix, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0)
        SW_FAIL(SW_INVALID,
                "model %s: a safetensors file cannot hold names that begin with "
                "'%s'",
                model->name, prefix);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_in(&model->entries[i], roles))
            SW_TRY(check_entry(model, &model->entries[i], n));
    return SW_OK;
}

static sw_status check_layouts(sw_model *const *models, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (models[i]->layout_hash != models[0]->layout_hash)
            SW_FAIL(SW_INVALID, "models %s: model %u of %u has another layout than the first",
                    models[0]->name, i + 1, n);
    return SW_OK;
}

/* False where the name is there already. */
static bool append(swi_tensor_list *list, sw_model *const *models, uint32_t n,
                   const swi_entry *entry, const char *name)
{
    list->at[list->n] = (swi_tensor){.name = name,
                                     .role = entry->role,
                                     .dtype = entry->dtype,
                                     .shape = entry->shape,
                                     .part_bytes = entry->bytes,
                                     .n_parts = n,
                                     .models = models,
                                     .offset = entry->offset,
                                     .group = list->n_groups};
    if (!swi_names_add(&list->names, list->n, tensor_name, list))
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
    SW_TRY(check_names(model, n, roles, prefix));
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
    SW_TRY(check_layouts(models, n));
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
    (void)swi_names_add(&list->names, list->n - 1, tensor_name, list); /* looked for above */
    return SW_OK;
}

sw_status swi_list_bytes(swi_tensor_list *list, const char *name, const void *bytes, size_t n)
{
    return swi_list_parts(list, name, bytes, n, 1);
}
