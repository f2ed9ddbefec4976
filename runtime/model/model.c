/* Models: declared without memory, laid out once, then fixed.
 *
 * Entries keep their order of registration inside their role; each role is one contiguous
 * range, in the order of the list below, so that clones, checkpoints and exchanges are copies
 * of ranges. */
#include "alloc/base/assert.h"
#include "alloc/base/hash.h"
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "profiler/record/nvtx.h"
#include "profiler/record/utf8.h"
#include "runtime/base/structs.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where host code and the memory of models meet. */

static unsigned char *range_of(const sw_model *model, size_t offset, size_t bytes)
{
    SW_ASSERT(bytes == 0 || model->base != NULL);
    SW_ASSERT(offset <= model->bytes && bytes <= model->bytes - offset);
    (void)bytes;
    return model->base + offset;
}

sw_status swi_model_read(const sw_model *model, void *to, size_t offset, size_t bytes)
{
    return swi_device_read(model->device, to, range_of(model, offset, bytes), bytes);
}

sw_status swi_model_write(sw_model *model, size_t offset, const void *from, size_t bytes)
{
    model->drawn = false;
    return swi_device_write(model->device, range_of(model, offset, bytes), from, bytes);
}

sw_status swi_model_zero(sw_model *model, size_t offset, size_t bytes)
{
    model->drawn = false;
    return swi_device_zero(model->device, range_of(model, offset, bytes), bytes);
}

/* Pieces of [0, bytes): the first failure ends them. */
typedef struct {
    void *block;
    size_t bytes, all;
    size_t at, n; /* of the present one */
} pieces;

static sw_status pieces_begin(pieces *p, size_t all)
{
    *p = (pieces){.bytes = all < SWI_PIECE_BYTES ? all : SWI_PIECE_BYTES, .all = all};
    return sw_heap_alloc(&p->block, SW_HEAP_FILES, p->bytes);
}

static bool pieces_next(pieces *p)
{
    p->at += p->n;
    p->n = p->all - p->at < p->bytes ? p->all - p->at : p->bytes;
    return p->n > 0;
}

static void pieces_end(pieces *p)
{
    sw_heap_free(p->block, SW_HEAP_FILES, p->bytes);
}

sw_status swi_model_pour(const sw_model *model, size_t offset, size_t bytes,
                         swi_take_piece *take, void *context)
{
    if (model->device->backend->host_memory)
        return take(context, model->base + offset, 0, bytes);
    pieces p;
    sw_status status = SW_OK;
    SW_TRY(pieces_begin(&p, bytes));
    while (status == SW_OK && pieces_next(&p)) {
        status = swi_model_read(model, p.block, offset + p.at, p.n);
        if (status == SW_OK)
            status = take(context, p.block, p.at, p.n);
    }
    pieces_end(&p);
    return status;
}

sw_status swi_model_fill(sw_model *model, size_t offset, size_t bytes, swi_make_piece *make,
                         void *context)
{
    model->drawn = false;
    if (model->device->backend->host_memory)
        return make(context, model->base + offset, 0, bytes);
    pieces p;
    sw_status status = SW_OK;
    SW_TRY(pieces_begin(&p, bytes));
    while (status == SW_OK && pieces_next(&p)) {
        status = make(context, p.block, p.at, p.n);
        if (status == SW_OK)
            status = swi_model_write(model, offset + p.at, p.block, p.n);
    }
    model->damaged |= status != SW_OK && (p.at > 0 || status == SW_DEVICE);
    pieces_end(&p);
    return status;
}

static sw_status read_piece(void *from, void *bytes, size_t at, size_t n)
{
    return swi_model_read(from, bytes, at, n);
}

sw_status swi_model_copy_bytes(sw_model *to, const sw_model *from)
{
    sw_status status;
    to->drawn = false;
    if (from->device->backend->host_memory)
        status = swi_model_write(to, 0, from->base, from->bytes);
    else if (to->device->backend->host_memory)
        status = swi_model_read(from, to->base, 0, from->bytes);
    else if (to->device == from->device)
        status = swi_device_copy(to->device, to->base, from->base, from->bytes);
    else /* from card to card */
        status = swi_model_fill(to, 0, to->bytes, read_piece, (void *)(uintptr_t)from);
    to->damaged |= status == SW_DEVICE;
    return status;
}

/* ---- model label ------------------------------------------------------------------------- */

void swi_path_of(char *name)
{
    while ((name = strchr(name, '.')) != NULL)
        *name = '/';
}

/* The model's place among those of its name, from 1; 0: the name is its own. */
static int place_of_label(const sw_run_args *args, const sw_model *model)
{
    int like = 0, place = 0;
    for (int m = 0; m < args->n_models; m++) {
        if (strcmp(args->models[m]->name, model->name) != 0)
            continue;
        like++;
        if (args->models[m] == model)
            place = like;
    }
    return like > 1 ? place : 0;
}

const char *swi_model_label(const sw_run_args *args, const sw_model *model,
                            char to[SWI_LABEL_BYTES])
{
    to[0] = '\0';
    if (args == NULL || args->n_models < 2)
        return to;
    const int place = place_of_label(args, model);
    if (place > 0)
        snprintf(to, SWI_LABEL_BYTES, "%s#%d/", model->name, place);
    else
        snprintf(to, SWI_LABEL_BYTES, "%s/", model->name);
    swi_path_of(to);
    return to;
}

const char *swi_entry_shown(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES])
{
    char label[SWI_LABEL_BYTES];
    snprintf(to, SWI_SHOWN_BYTES, "%s%s", swi_model_label(args, model, label), name);
    return to;
}

static bool has_entry(const sw_model *model, const char *name)
{
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (strcmp(model->entries[i].name, name) == 0)
            return true;
    return false;
}

const char *swi_entry_layer(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES])
{
    char label[SWI_LABEL_BYTES], own[SWI_SHOWN_BYTES];
    snprintf(own, sizeof own, "%s", name);
    do {
        char *dot = strrchr(own, '.');
        *(dot != NULL ? dot : own) = '\0';
    } while (*own != '\0' && has_entry(model, own));
    swi_path_of(own);
    swi_model_label(args, model, label);
    if (*own == '\0' && *label != '\0')
        label[strlen(label) - 1] = '\0'; /* of no layer: of the model itself */
    snprintf(to, SWI_SHOWN_BYTES, "%s%.*s", label, (int)(SWI_SHOWN_BYTES - sizeof label), own);
    return to;
}

/* ---- model notes ------------------------------------------------------------------------- */

/* Texts that a model saves with its parameters. */

/* The note of that key, or the place after the last. */
static swi_note *note_of(sw_model *model, const char *key)
{
    int i = 0;
    while (i < model->n_notes && strcmp(model->notes[i].key, key) != 0)
        i++;
    return &model->notes[i];
}

sw_status sw_model_note(sw_model *model, const char *key, const char *text)
{
    if (model == NULL || key == NULL || key[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_note: model and key must not be NULL, key not empty");
    if (strlen(key) >= sizeof model->notes->key || strcmp(key, "format") == 0 ||
        strncmp(key, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0)
        SW_FAIL(SW_INVALID,
                "model %s: a note's key must have 1 to %zu bytes, not be 'format' and not "
                "begin with '" SWI_OWN_PREFIX "' (got '%s')",
                model->name, sizeof model->notes->key - 1, key);
    if (text != NULL && strlen(text) >= sizeof model->notes->text)
        SW_FAIL(SW_INVALID, "model %s: the note '%s' must have at most %zu bytes (got %zu)",
                model->name, key, sizeof model->notes->text - 1, strlen(text));
    if (!sw_utf8_whole(key) || (text != NULL && !sw_utf8_whole(text)))
        SW_FAIL(SW_INVALID, "model %s: the note '%s' must be UTF-8, as files have it",
                model->name, key);
    SW_TRY(swi_model_take(model));
    sw_status status = SW_OK;
    swi_note *note = note_of(model, key);
    const bool there = note < &model->notes[model->n_notes];
    if (text == NULL && there)
        *note = model->notes[--model->n_notes];
    else if (text != NULL && !there && model->n_notes == SWI_NOTES)
        status =
            sw_error_set(SW_INVALID, __FILE__, __LINE__,
                         "model %s: has %d notes already, which is the most; '%s' has no place",
                         model->name, SWI_NOTES, key);
    else if (text != NULL) {
        memcpy(note->key, key, strlen(key) + 1);
        memcpy(note->text, text, strlen(text) + 1);
        model->n_notes += !there;
    }
    swi_model_give(model);
    return status;
}

/* ---- model ------------------------------------------------------------------------------- */

static const swi_role range_order[] = {SWI_ROLE_PARAMETER, SWI_ROLE_OPTIMIZER_STATE,
                                       SWI_ROLE_BUFFER,    SWI_ROLE_STATE,
                                       SWI_ROLE_GRADIENT,  SWI_ROLE_KNOB};

static uint64_t next_uid;

sw_status sw_model_create(sw_model **out, const char *name)
{
    if (out == NULL || name == NULL || name[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_create: out and name must not be NULL, name not empty");
    sw_model *model;
    SW_TRY(sw_handle_take(&model, SW_HANDLE_MODEL, sizeof(sw_model)));
    model->device = swi_device_cpu();
    snprintf(model->name, sizeof model->name, "%s", name);
    model->uid = __atomic_add_fetch(&next_uid, 1, __ATOMIC_RELAXED);
    model->n_entries = 1;
    void *entries = NULL;
    sw_status status = swi_alive_begin(&model->life);
    if (status == SW_OK)
        status = sw_heap_resize(&entries, SW_HEAP_RECORDS, 0, 16 * sizeof(swi_entry));
    if (status != SW_OK) {
        swi_alive_end(model->life);
        sw_handle_give(model, SW_HANDLE_MODEL, sizeof *model);
        return status;
    }
    model->entries = entries;
    model->cap_entries = 16;
    *out = model;
    return SW_OK;
}

void swi_model_free(sw_model *model)
{
    if (model == NULL)
        return;
    sw_nvtx_heap_end(model->nvtx_heap);
    swi_model_unreserve(model);
    for (uint32_t i = 0; i < model->n_optimizers; i++)
        sw_handle_give(model->optimizers[i], SW_HANDLE_OPTIMIZER, sizeof(sw_optimizer));
    sw_heap_free(model->optimizers, SW_HEAP_RECORDS,
                 model->cap_optimizers * sizeof *model->optimizers);
    sw_heap_free(model->knobs, SW_HEAP_RECORDS, model->cap_knobs * sizeof *model->knobs);
    for (uint32_t j = 1; j < model->n_entries; j++)
        sw_heap_free(model->entries[j].values, SW_HEAP_RECORDS, model->entries[j].bytes);
    sw_heap_free(model->entries, SW_HEAP_RECORDS, model->cap_entries * sizeof(swi_entry));
    sw_heap_free(model->by_name, SW_HEAP_RECORDS, model->n_by_name * sizeof *model->by_name);
    swi_alive_end(model->life);
    sw_handle_give(model, SW_HANDLE_MODEL, sizeof *model);
}

void sw_model_destroy(sw_model *model)
{
    static const char call[] = "sw_model_destroy";
    if (!sw_handle_ends(model, SW_HANDLE_MODEL, call))
        return;
    if (swi_owner_take(&model->busy))
        swi_model_free(model);
    else
        (void)sw_error_set(SW_BUSY, __FILE__, __LINE__, "%s: model %s is in use by %s", call,
                           model->name, swi_owner_text(&model->busy));
}

sw_status swi_declare_fail(sw_model *model, sw_status status, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    (void)sw_message_list(text, sizeof text, format, list);
    va_end(list);
    if (model->declared == SW_OK && !model->fixed) { /* later it changes nothing */
        model->declared = status;
        snprintf(model->declared_message, sizeof model->declared_message, "%s", text);
    }
    SW_FAIL(status, "%s", text);
}

/* ---- one user at a time ------------------------------------------------------------------ */

/* Reading takes a model too: what is const for the caller still has its mark. */
static swi_owner *mark_of(const sw_model *model)
{
    return (swi_owner *)(uintptr_t)&model->busy;
}

sw_status swi_model_take(const sw_model *model)
{
    sw_call_unwound(SW_FRAME);
    if (!swi_owner_take(mark_of(model)))
        SW_FAIL(SW_BUSY, "model %s is in use by %s", model->name,
                swi_owner_text(mark_of(model)));
    return SW_OK;
}

void swi_model_give(const sw_model *model)
{
    swi_owner_give(mark_of(model));
}

/* ---- declarations ------------------------------------------------------------------------ */

/* Declarations of users have one space of names; what optimizers and knobs add has another. */
static bool is_declared(const swi_entry *entry)
{
    return entry->role == SWI_ROLE_PARAMETER || entry->role == SWI_ROLE_BUFFER ||
           entry->role == SWI_ROLE_STATE;
}

#define MANY 64 /* entries: names of fewer are searched one after the other */

/* The place of a name, or the free one where it would stand. */
static uint32_t *place_of(const sw_model *model, const char *name)
{
    const uint64_t hash = sw_fnv64(SW_FNV64, name, strlen(name));
    uint32_t at = (uint32_t)(hash ^ hash >> 32) & (model->n_by_name - 1);
    while (model->by_name[at] != 0 &&
           strcmp(model->entries[model->by_name[at]].name, name) != 0)
        at = (at + 1) & (model->n_by_name - 1);
    return &model->by_name[at];
}

/* A table for twice as many entries as there is room for: half full at most. */
static sw_status index_names(sw_model *model)
{
    uint32_t *by_name;
    const uint32_t n = 2 * model->cap_entries;
    SW_TRY(sw_heap_alloc(&by_name, SW_HEAP_RECORDS, n * sizeof *by_name));
    sw_heap_free(model->by_name, SW_HEAP_RECORDS, model->n_by_name * sizeof *by_name);
    model->by_name = by_name;
    model->n_by_name = n;
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_declared(&model->entries[i]))
            *place_of(model, model->entries[i].name) = i;
    return SW_OK;
}

static uint32_t find_declared(const sw_model *model, const char *name)
{
    if (model->by_name != NULL)
        return *place_of(model, name);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_declared(&model->entries[i]) && strcmp(model->entries[i].name, name) == 0)
            return i;
    return 0;
}

static sw_status check_name(sw_model *model, const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) > SWI_MAX_NAME)
        return swi_declare_fail(model, SW_INVALID, "model %s: a name must have 1 to %d bytes",
                                model->name, SWI_MAX_NAME);
    if (find_declared(model, name) != 0)
        return swi_declare_fail(model, SW_INVALID, "model %s: two entries are named '%s'",
                                model->name, name);
    return SW_OK;
}

static sw_status check_declaration(sw_model *model, const char *name, sw_dtype dtype,
                                   const sw_shape *shape, const char *init, size_t *bytes)
{
    int64_t n = 0;
    if (model->fixed)
        return swi_declare_fail(model, SW_INVALID,
                                "model %s: '%s' declared after the layout was fixed",
                                model->name, name != NULL ? name : "");
    if (shape->rank < 0 || shape->rank > SW_MAX_RANK)
        return swi_declare_fail(model, SW_INVALID,
                                "model %s: the rank of '%s' must be 0 to %d (got %d)",
                                model->name, name, SW_MAX_RANK, (int)shape->rank);
    const bool stored = sw_is_stored(dtype);
    if (!sw_size_elements(shape->dim, shape->rank, &n) || n == 0 ||
        !sw_size_mul((size_t)n, stored ? 8 : sw_dtype_bytes(dtype), bytes))
        return swi_declare_fail(model, SW_INVALID,
                                "model %s: the dims of '%s' must be at least 1, and its bytes "
                                "a 64-bit number (got %s)",
                                model->name, name, SWI_SHAPE(shape));
    if (stored && (shape->rank != 2 || (dtype == SW_NF4 && shape->dim[1] % SW_NF4_BLOCK != 0)))
        return swi_declare_fail(
            model, SW_UNSUPPORTED,
            "model %s: '%s' is %s, which must be a matrix%s (got %s): store it as bf16",
            model->name, name, sw_dtype_name(dtype),
            dtype == SW_NF4 ? " with columns that are a multiple of 64" : "", SWI_SHAPE(shape));
    if (stored)
        *bytes = sw_type_bytes(&(sw_type){dtype, SW_PLAIN, *shape});
    if (init != NULL && strlen(init) >= sizeof model->entries[0].init)
        return swi_declare_fail(
            model, SW_INVALID,
            "model %s: '%s': an initialiser must have at most %zu bytes (got %zu)", model->name,
            name, sizeof model->entries[0].init - 1, strlen(init));
    if (init != NULL && swi_init_check(init) != SW_OK)
        return swi_declare_fail(model, SW_INVALID, "model %s: '%s': unknown initialiser '%s'",
                                model->name, name, init);
    return SW_OK;
}

uint32_t swi_model_entry(sw_model *model, const char *name, swi_role role, sw_dtype dtype,
                         sw_shape shape, const char *init)
{
    size_t bytes = 0;
    if (model->declared != SW_OK ||
        check_declaration(model, name, dtype, &shape, init, &bytes) != SW_OK)
        return 0;
    if (model->n_entries == model->cap_entries) {
        const size_t old = model->cap_entries * sizeof(swi_entry);
        bool grown = sw_heap_resize(&model->entries, SW_HEAP_RECORDS, old, 2 * old) == SW_OK;
        if (grown) {
            model->cap_entries *= 2;
            grown = model->cap_entries < MANY || index_names(model) == SW_OK;
        }
        if (!grown) {
            (void)swi_declare_fail(model, SW_NOMEM, "model %s: no memory for '%s'", model->name,
                                   name);
            return 0;
        }
    }
    SW_ASSERT(model->n_entries >= 1 && model->n_entries < model->cap_entries);
    swi_entry *entry = &model->entries[model->n_entries];
    memset(entry, 0, sizeof *entry);
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->init, sizeof entry->init, "%s", init != NULL ? init : "zeros");
    entry->role = role;
    entry->dtype = dtype;
    entry->shape = shape;
    entry->bytes = bytes;
    entry->optimizer = entry->kept = entry->partial = SWI_NONE;
    for (int k = 0; k < SWI_MAX_STATE; k++)
        entry->state[k] = SWI_NONE;
    if (model->by_name != NULL && is_declared(entry))
        *place_of(model, name) = model->n_entries;
    return model->n_entries++;
}

static sw_param model_declare(sw_model *model, const char *name, swi_role role, sw_dtype dtype,
                              sw_shape shape, const char *init)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_param_new") != SW_OK)
        return (sw_param){NULL, 0};
    if (sw_is_stored(dtype) && init != NULL) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: '%s' is %s, which frozen weights alone can be "
                               "(sw_weights_new)",
                               model->name, name != NULL ? name : "", sw_dtype_name(dtype));
        return (sw_param){model, 0};
    }
    if (role != SWI_ROLE_STATE && dtype != SW_F32) {
        (void)swi_declare_fail(model, SW_UNSUPPORTED,
                               "model %s: '%s' is %s, only f32 can be trained", model->name,
                               name != NULL ? name : "", sw_dtype_name(dtype));
        return (sw_param){model, 0};
    }
    if (model->declared == SW_OK && !model->fixed && check_name(model, name) != SW_OK)
        return (sw_param){model, 0};
    return (sw_param){model, swi_model_entry(model, name, role, dtype, shape, init)};
}

sw_param sw_param_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape,
                      const char *init)
{
    return model_declare(model, name, SWI_ROLE_PARAMETER, dtype, shape, init);
}

sw_param sw_logits_new(sw_model *model, const char *name, sw_shape shape, const char *init)
{
    const sw_param param = model_declare(model, name, SWI_ROLE_PARAMETER, SW_F32, shape, init);
    swi_entry *entry = swi_entry_of(param);
    if (entry != NULL)
        entry->logits = true;
    return param;
}

sw_param sw_buffer_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape,
                       const char *init)
{
    return model_declare(model, name, SWI_ROLE_BUFFER, dtype, shape, init);
}

sw_param sw_state_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape)
{
    return model_declare(model, name, SWI_ROLE_STATE, dtype, shape, "zeros");
}

sw_param sw_weights_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_weights_new") != SW_OK)
        return (sw_param){NULL, 0};
    if (!swi_is_number(dtype) && !sw_is_stored(dtype)) {
        (void)swi_declare_fail(model, SW_UNSUPPORTED,
                               "model %s: '%s' is %s, frozen weights must be f32, bf16, i8 "
                               "or nf4",
                               model->name, name != NULL ? name : "", sw_dtype_name(dtype));
        return (sw_param){model, 0};
    }
    const sw_param param = model_declare(model, name, SWI_ROLE_STATE, dtype, shape, NULL);
    swi_entry *entry = swi_entry_of(param);
    if (entry != NULL) {
        entry->role = SWI_ROLE_PARAMETER;
        entry->frozen = entry->brief = entry->weights = true;
    }
    return param;
}

swi_entry *swi_entry_of(sw_param param)
{
    if (!sw_handle_lives(param.model, SW_HANDLE_MODEL) || param.index == 0 ||
        param.index >= param.model->n_entries ||
        !is_declared(&param.model->entries[param.index]))
        return NULL;
    return &param.model->entries[param.index];
}

void sw_param_freeze(sw_param param, int on)
{
    swi_entry *entry = swi_entry_of(param);
    if (entry == NULL || entry->role != SWI_ROLE_PARAMETER || entry->weights ||
        swi_model_take(param.model) != SW_OK)
        return;
    swi_model_give(param.model);
    entry->frozen = on != 0;
    uint64_t hash = 0; /* of a model with nothing frozen, as it is created */
    for (uint32_t i = 1; i < param.model->n_entries; i++)
        if (param.model->entries[i].frozen && !param.model->entries[i].weights)
            hash = sw_fnv64(hash == 0 ? SW_FNV64 : hash, &i, sizeof i);
    param.model->frozen_hash = hash;
}

sw_param sw_param_find(sw_model *model, const char *name)
{
    const bool can = sw_handle_check(model, SW_HANDLE_MODEL, "sw_param_find") == SW_OK;
    return (sw_param){can ? model : NULL, can && name != NULL ? find_declared(model, name) : 0};
}

static bool is_listed(const swi_entry *entry)
{
    return (entry->role == SWI_ROLE_PARAMETER && !entry->weights) ||
           entry->role == SWI_ROLE_BUFFER;
}

size_t sw_param_count(const sw_model *model)
{
    size_t n = 0;
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_param_count") != SW_OK)
        return 0;
    for (uint32_t i = 1; i < model->n_entries; i++)
        n += is_listed(&model->entries[i]);
    return n;
}

sw_param sw_param_at(sw_model *model, size_t i)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_param_at") != SW_OK)
        return (sw_param){NULL, 0};
    for (uint32_t k = 1; k < model->n_entries; k++)
        if (is_listed(&model->entries[k]) && i-- == 0)
            return (sw_param){model, k};
    return (sw_param){model, 0};
}

const char *sw_param_name(sw_param param)
{
    const swi_entry *entry = swi_entry_of(param);
    return entry != NULL ? entry->name : "";
}

sw_shape sw_param_shape(sw_param param)
{
    const swi_entry *entry = swi_entry_of(param);
    return entry != NULL ? entry->shape : (sw_shape){0, {0}};
}

/* Knobs are a model's last range: one block of floats. */
uint32_t swi_model_knob(sw_model *model, const char *name, float value)
{
    if (model->fixed) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: knob '%s' declared after the layout was fixed",
                               model->name, name);
        return UINT32_MAX;
    }
    if (model->n_knobs == model->cap_knobs) {
        const size_t cap = model->cap_knobs == 0 ? 8 : 2 * model->cap_knobs;
        if (sw_heap_resize(&model->knobs, SW_HEAP_RECORDS,
                           model->cap_knobs * sizeof *model->knobs,
                           cap * sizeof *model->knobs) != SW_OK) {
            (void)swi_declare_fail(model, SW_NOMEM, "model %s: no memory for knob '%s'",
                                   model->name, name);
            return UINT32_MAX;
        }
        model->cap_knobs = (uint32_t)cap;
    }
    snprintf(model->knobs[model->n_knobs].name, sizeof model->knobs->name, "%s", name);
    model->knobs[model->n_knobs].value = value;
    return model->n_knobs++;
}

sw_knob sw_knob_find(sw_model *model, const char *name)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_knob_find") != SW_OK)
        return (sw_knob){NULL, UINT32_MAX};
    if (name != NULL && name[0] != '\0')
        for (uint32_t i = 0; i < model->n_knobs; i++)
            if (strcmp(model->knobs[i].name, name) == 0)
                return (sw_knob){model, i};
    return (sw_knob){model, UINT32_MAX};
}

sw_knob sw_knob_new(sw_model *model, const char *name, float value)
{
    const sw_knob none = {model, UINT32_MAX};
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_knob_new") != SW_OK)
        return (sw_knob){NULL, UINT32_MAX};
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof model->knobs->name) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: a knob's name must have 1 to %zu bytes", model->name,
                               sizeof model->knobs->name - 1);
        return none;
    }
    if (sw_knob_find(model, name).index != UINT32_MAX) {
        (void)swi_declare_fail(model, SW_INVALID, "model %s: two knobs are named '%s'",
                               model->name, name);
        return none;
    }
    if (!isfinite(value)) {
        (void)swi_declare_fail(model, SW_INVALID, "model %s: knob '%s' must be finite (got %g)",
                               model->name, name, (double)value);
        return none;
    }
    return (sw_knob){model, swi_model_knob(model, name, value)};
}

void sw_knob_set(sw_knob knob, float value)
{
    if (sw_handle_check(knob.model, SW_HANDLE_MODEL, "sw_knob_set") != SW_OK)
        return;
    if (knob.index >= knob.model->n_knobs) {
        (void)sw_error_set(SW_INVALID, __FILE__, __LINE__,
                           "sw_knob_set: the knob must be one of this model");
        return;
    }
    if (!swi_knob_can_be(&knob.model->knobs[knob.index], value)) {
        swi_knob_refuse(knob.model, knob.index, value);
        return;
    }
    swi_knob_accept(knob.model, knob.index);
    knob.model->knobs[knob.index].value = value;
    if (knob.model->ready)
        swi_knobs_changed(knob.model);
}

float sw_knob_get(sw_knob knob)
{
    if (sw_handle_check(knob.model, SW_HANDLE_MODEL, "sw_knob_get") != SW_OK ||
        knob.index >= knob.model->n_knobs)
        return 0.0f;
    return knob.model->knobs[knob.index].value;
}

sw_status swi_model_layout(sw_model *model)
{
    if (model->declared != SW_OK)
        SW_FAIL(model->declared, "%s", model->declared_message);
    if (model->fixed)
        return SW_OK;
    if (model->n_knobs > 0 && model->knob_entry == 0) {
        model->knob_entry = swi_model_entry(model, "knobs", SWI_ROLE_KNOB, SW_F32,
                                            SW_SHAPE(model->n_knobs), NULL);
        if (model->knob_entry == 0)
            return model->declared;
    }
    size_t top = 0;
    for (size_t r = 0; r < sizeof range_order / sizeof *range_order; r++) {
        const size_t start = top;
        for (uint32_t i = 1; i < model->n_entries; i++) {
            swi_entry *entry = &model->entries[i];
            if (entry->role != range_order[r])
                continue;
            entry->offset = top;
            if (!sw_size_add(top, entry->bytes, &top) || !sw_size_align(top, SW_ALIGN, &top))
                SW_FAIL(SW_NOMEM, "model %s: the sum of its sizes overflows at '%s'",
                        model->name, entry->name);
        }
        model->role_bytes[range_order[r]] = top - start;
    }
    SW_ASSERT(top % SW_ALIGN == 0);
    model->bytes = top;

    uint64_t hash = SW_FNV64;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        hash = sw_fnv64(hash, e->name, strlen(e->name) + 1);
        hash = sw_fnv64(hash, &e->role, sizeof e->role);
        hash = sw_fnv64(hash, &e->dtype, sizeof e->dtype);
        hash = sw_fnv64(hash, &e->shape.rank, sizeof e->shape.rank);
        hash = sw_fnv64(hash, e->shape.dim, (size_t)e->shape.rank * sizeof e->shape.dim[0]);
        hash = sw_fnv64(hash, &e->offset, sizeof e->offset);
        if (e->logits) /* traces differ */
            hash = sw_fnv64(hash, "logits", 6);
        if (e->weights)
            hash = sw_fnv64(hash, "weights", 7);
    }
    model->layout_hash = hash;
    model->fixed = true;
    return SW_OK;
}

/* Fix the layout of a model that the caller has not taken. */
static sw_status lay_out(sw_model *model, const char *what)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, what));
    SW_TRY(swi_model_take(model));
    const sw_status status = swi_model_layout(model);
    swi_model_give(model);
    return status;
}

sw_status sw_model_bytes(sw_model *model, size_t *out)
{
    SW_TRY(swi_given(out != NULL, "out", "sw_model_bytes"));
    SW_TRY(lay_out(model, "sw_model_bytes"));
    *out = model->bytes;
    return SW_OK;
}

uint64_t sw_model_layout_hash(sw_model *model)
{
    return lay_out(model, "sw_model_layout_hash") == SW_OK ? model->layout_hash : 0;
}

/* ---- constant ---------------------------------------------------------------------------- */

/* Constants: states that begin with the caller's numbers, and stay so. */

/* The copy of the values, which sw_model_ready and each new member begin with. */
static sw_status keep_values(sw_model *model, swi_entry *entry, const void *data)
{
    void *values = NULL;
    if (sw_heap_resize(&values, SW_HEAP_RECORDS, 0, entry->bytes) != SW_OK)
        return swi_declare_fail(model, SW_NOMEM, "model %s: no memory for '%s'", model->name,
                                entry->name);
    memcpy(values, data, entry->bytes);
    entry->values = values;
    return SW_OK;
}

sw_param sw_constant_new(sw_model *model, const char *name, const sw_array *values)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_constant_new") != SW_OK)
        return (sw_param){NULL, 0};
    if (values == NULL || values->data == NULL) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: '%s': the values of a constant must not be NULL",
                               model->name, name != NULL ? name : "");
        return (sw_param){model, 0};
    }
    if (sw_dtype_bytes(values->dtype) == 0) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: '%s': the type of a constant must be known (got %d)",
                               model->name, name != NULL ? name : "", (int)values->dtype);
        return (sw_param){model, 0};
    }
    const sw_param param =
        model_declare(model, name, SWI_ROLE_STATE, values->dtype, values->shape, "zeros");
    swi_entry *entry = swi_entry_of(param);
    if (entry != NULL && keep_values(model, entry, values->data) != SW_OK)
        return (sw_param){model, 0};
    return param;
}
