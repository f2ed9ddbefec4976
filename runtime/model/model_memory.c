/* Models with memory: reserved, made ready, copied, read and written. Each call owns the model
 * while it works. */
#include "alloc/base/poison.h"
#include "runtime/base/run_observer.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include <stdio.h>
#include <string.h>

sw_status swi_model_is_here(const sw_model *model, const sw_exec *exec)
{
    char its[24], ours[24];
    if (model->arena == NULL || model->device == swi_target_of(exec)->device)
        return SW_OK;
    SW_FAIL(SW_INVALID,
            "model %s lies in the memory of %s and the exec works on %s: copy it to a model "
            "that was made ready there (sw_model_copy)",
            model->name, swi_device_name(model->device, its, sizeof its),
            swi_device_name(swi_target_of(exec)->device, ours, sizeof ours));
}

sw_status swi_model_reserve(sw_model *model, sw_exec *exec)
{
    SW_TRY(swi_model_layout(model));
    if (model->arena != NULL)
        return swi_model_is_here(model, exec);
    sw_store *store;
    SW_TRY(swi_device_store(swi_target_of(exec)->device, &store,
                            model->bytes > 0 ? model->bytes : SW_ALIGN));
    const sw_arena_opts opts = {.label = model->name,
                                .store = store,
                                .budget = swi_target_of(exec)->budget,
                                .use = SW_ARENA_MODEL};
    sw_arena *arena;
    sw_status status = sw_arena_create(&arena, &opts);
    if (status != SW_OK) {
        sw_store_destroy(store);
        return status;
    }
    status = sw_arena_grow(arena, model->bytes, false);
    if (status != SW_OK) {
        sw_arena_destroy(arena);
        return status;
    }
    model->arena = arena;
    model->device = swi_device_share(swi_target_of(exec)->device);
    return SW_OK;
}

void swi_model_unreserve(sw_model *model)
{
    sw_arena_destroy(model->arena); /* on a card, after all that was launched there */
    swi_device_close(model->device);
    model->arena = NULL;
    model->device = swi_device_cpu();
}

/* ---- first values ------------------------------------------------------------------------ */

static bool begins_at_zero(const swi_entry *e)
{
    return e->values == NULL && (e->dtype != SW_F32 || strcmp(e->init, "zeros") == 0);
}

typedef struct {
    const swi_entry *entry;
    uint64_t seed;
} beginning;

static sw_status make_values(void *context, void *bytes, size_t at, size_t n)
{
    const beginning *b = context;
    if (b->entry->values != NULL) {
        memcpy(bytes, (const unsigned char *)b->entry->values + at, n);
        return SW_OK;
    }
    const size_t one = sw_dtype_bytes(b->entry->dtype);
    return swi_init_values(bytes, (int64_t)(at / one), (int64_t)(n / one), &b->entry->shape,
                           b->entry->init, b->seed, b->entry->name);
}

sw_status swi_init_entry(sw_model *model, const swi_entry *e, uint64_t seed)
{
    beginning b = {e, seed};
    if (begins_at_zero(e))
        return swi_model_zero(model, e->offset, e->bytes);
    return swi_model_fill(model, e->offset, e->bytes, make_values, &b);
}

void swi_knobs_changed(sw_model *model)
{
    if (!model->device->backend->host_memory) {
        model->knob_version++;
        return;
    }
    float *knobs = (float *)(void *)(model->base + model->entries[model->knob_entry].offset);
    for (uint32_t i = 0; i < model->n_knobs; i++)
        knobs[i] = model->knobs[i].value;
}

static sw_status initialise(sw_model *model, uint64_t seed)
{
    SW_TRY(swi_model_zero(model, 0, model->bytes));
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (!begins_at_zero(&model->entries[i]))
            SW_TRY(swi_init_entry(model, &model->entries[i], seed));
    swi_knobs_changed(model);
    return SW_OK;
}

sw_status swi_model_ready(sw_model *model, sw_exec *exec, uint64_t seed)
{
    SW_TRY(swi_model_reserve(model, exec));
    SW_TRY(sw_arena_grow(model->arena, model->bytes, true));
    model->base = sw_arena_base(model->arena);
    if (model->device->backend->host_memory)
        sw_unpoison(model->base, model->bytes);
    SWI_TELL(model, exec, model);
    const sw_status status = initialise(model, seed);
    if (status != SW_OK) {
        model->damaged |= model->ready; /* half of it begins anew */
        return status;
    }
    model->ready = true;
    model->damaged = false;
    return SW_OK;
}

sw_status sw_model_ready(sw_model *model, sw_exec *exec, uint64_t seed)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_ready"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_model_ready"));
    SW_TRY(swi_model_take(model));
    const sw_status status = swi_model_ready(model, exec, seed);
    swi_model_give(model);
    return status;
}

static bool same_entry(const swi_entry *a, const swi_entry *b)
{
    return strcmp(a->name, b->name) == 0 && a->role == b->role && a->dtype == b->dtype &&
           a->logits == b->logits && swi_same_shape(&a->shape, &b->shape);
}

/* Entry i but for the block of knobs, which is the last. */
static const swi_entry *entry_at(const sw_model *model, uint32_t i)
{
    return i < model->n_entries && i != model->knob_entry ? &model->entries[i] : NULL;
}

const char *swi_layout_difference(const sw_model *a, const sw_model *b, char *to)
{
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    uint32_t i = 1;
    const swi_entry *x, *y;
    while ((x = entry_at(a, i)) != NULL && (y = entry_at(b, i)) != NULL && same_entry(x, y))
        i++;
    x = entry_at(a, i);
    y = entry_at(b, i);
    if (x == NULL && y == NULL)
        snprintf(to, SWI_DIFFERENCE_TEXT, "the first has %u and the second %u knobs",
                 (unsigned)a->n_knobs, (unsigned)b->n_knobs);
    else if (x == NULL || y == NULL)
        snprintf(to, SWI_DIFFERENCE_TEXT, "only the %s has '%s'",
                 x != NULL ? "first" : "second", x != NULL ? x->name : y->name);
    else if (strcmp(x->name, y->name) != 0)
        snprintf(to, SWI_DIFFERENCE_TEXT, "the first has '%s' where the second has '%s'",
                 x->name, y->name);
    else if (!swi_same_shape(&x->shape, &y->shape))
        snprintf(to, SWI_DIFFERENCE_TEXT, "'%s' is %s in the first and %s in the second",
                 x->name, swi_shape_text(&x->shape, s), swi_shape_text(&y->shape, t));
    else
        snprintf(to, SWI_DIFFERENCE_TEXT, "'%s' is declared in two ways", x->name);
    return to;
}

static sw_status copy(sw_model *to, const sw_model *from)
{
    char why[SWI_DIFFERENCE_TEXT];
    if (!to->ready || !from->ready)
        SW_FAIL(SW_INVALID, "sw_model_copy: both models must be ready");
    if (to->layout_hash != from->layout_hash || to->bytes != from->bytes)
        SW_FAIL(SW_INVALID, "sw_model_copy: %s and %s have different layouts: %s", to->name,
                from->name, swi_layout_difference(to, from, why));
    if (from->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                from->name);
    if (to == from)
        return SW_OK;
    SW_TRY(swi_model_copy_bytes(to, from));
    for (uint32_t i = 0; i < to->n_knobs; i++) {
        to->knobs[i].value = from->knobs[i].value;
        swi_knob_accept(to, i);
    }
    swi_knobs_changed(to);
    to->damaged = false;
    return SW_OK;
}

sw_status sw_model_copy(sw_model *to, const sw_model *from)
{
    SW_TRY(sw_handle_check(to, SW_HANDLE_MODEL, "sw_model_copy"));
    SW_TRY(sw_handle_check(from, SW_HANDLE_MODEL, "sw_model_copy"));
    SW_TRY(swi_model_take(to));
    sw_status status = to != from ? swi_model_take(from) : SW_OK;
    if (status == SW_OK) {
        status = copy(to, from);
        if (to != from)
            swi_model_give(from);
    }
    swi_model_give(to);
    return status;
}

/* Take the model of an entry with as many bytes as the caller offers. */
static sw_status take_entry(sw_param param, const void *at, size_t bytes, const char *what,
                            swi_entry **out)
{
    SW_TRY(sw_handle_check(param.model, SW_HANDLE_MODEL, what));
    swi_entry *entry = swi_entry_of(param);
    if (entry == NULL)
        SW_FAIL(SW_INVALID, "%s: the parameter must be one of this model", what);
    if (at == NULL && bytes > 0)
        SW_FAIL(SW_INVALID, "%s: the bytes must not be NULL", what);
    SW_TRY(swi_model_take(param.model));
    if (param.model->ready && bytes == entry->bytes) {
        *out = entry;
        return SW_OK;
    }
    const bool ready = param.model->ready;
    swi_model_give(param.model);
    if (!ready)
        SW_FAIL(SW_INVALID, "%s: model %s must be ready: call sw_model_ready first", what,
                param.model->name);
    SW_FAIL(SW_INVALID, "%s: '%s' must have %zu bytes (got %zu)", what, entry->name,
            entry->bytes, bytes);
}

sw_status sw_param_read(sw_param param, void *to, size_t bytes)
{
    swi_entry *entry;
    SW_TRY(take_entry(param, to, bytes, "sw_param_read", &entry));
    const sw_status status = swi_model_read(param.model, to, entry->offset, bytes);
    swi_model_give(param.model);
    return status;
}

sw_status sw_param_write(sw_param param, const void *from, size_t bytes)
{
    swi_entry *entry;
    SW_TRY(take_entry(param, from, bytes, "sw_param_write", &entry));
    const bool constant = entry->values != NULL;
    sw_status status = SW_OK;
    if (!constant)
        status = swi_model_write(param.model, entry->offset, from, bytes);
    swi_model_give(param.model);
    if (constant)
        SW_FAIL(SW_INVALID, "sw_param_write: '%s' must not be a constant: declare a state",
                entry->name);
    return status;
}

sw_status sw_param_gradient(sw_param param, void *to, size_t bytes)
{
    swi_entry *entry;
    SW_TRY(take_entry(param, to, bytes, "sw_param_gradient", &entry));
    const bool kept = entry->kept != SWI_NONE;
    sw_status status = SW_OK;
    if (kept)
        status =
            swi_model_read(param.model, to, param.model->entries[entry->kept].offset, bytes);
    swi_model_give(param.model);
    if (!kept)
        SW_FAIL(SW_INVALID, "sw_param_gradient: no optimizer keeps the gradient of '%s'",
                entry->name);
    return status;
}
