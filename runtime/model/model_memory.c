/* Models with memory: reserved, made ready, copied, read and written. Each call owns the model
 * while it works. */
#include "alloc/base/poison.h"
#include "kernels/halves.h"
#include "kernels/noise.h"
#include "runtime/base/run_observer.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "runtime/model/noise_mode.h"
#include <math.h>
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
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (sw_is_stored(model->entries[i].dtype) &&
            !swi_target_of(exec)->device->backend->host_memory)
            SW_FAIL(SW_UNSUPPORTED,
                    "model %s: '%s' is %s: frozen weights of a card must be f32 or bf16",
                    model->name, model->entries[i].name,
                    sw_dtype_name(model->entries[i].dtype));
    sw_store *store;
    SW_TRY(swi_device_store(swi_target_of(exec)->device, &store,
                            model->bytes > 0 ? model->bytes : SW_ALIGN));
    const sw_arena_opts opts = {.label = model->name,
                                .store = store,
                                .budget = swi_target_of(exec)->budget,
                                .use = SW_ARENA_MODEL};
    sw_arena *arena;
    SW_TRY(sw_arena_create(&arena, &opts));
    const sw_status status = sw_arena_grow(arena, model->bytes, false);
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

void swi_knobs_set(sw_model *model, const void *values, size_t each)
{
    for (uint32_t i = 0; i < model->n_knobs; i++) {
        memcpy(&model->knobs[i].value, (const char *)values + i * each,
               sizeof model->knobs[i].value);
        swi_knob_accept(model, i);
    }
    if (model->n_knobs > 0)
        swi_knobs_changed(model);
}

sw_status swi_model_whole(const sw_model *model)
{
    if (model->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                model->name);
    return SW_OK;
}

static sw_status initialise(sw_model *model, uint64_t seed)
{
    SW_TRY(swi_model_zero(model, 0, model->bytes));
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (!begins_at_zero(&model->entries[i]))
            SW_TRY(swi_init_entry(model, &model->entries[i], seed));
    swi_knobs_changed(model);
    model->seed = seed;
    model->drawn = true;
    return SW_OK;
}

sw_status swi_model_redraw(sw_model *model)
{
    const sw_status status = initialise(model, model->seed);
    model->damaged = status != SW_OK;
    return status;
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
           a->logits == b->logits && a->weights == b->weights &&
           swi_same_shape(&a->shape, &b->shape);
}

/* Entry i but for the block of knobs, which is the last. */
static const swi_entry *entry_at(const sw_model *model, uint32_t i)
{
    return i < model->n_entries && i != model->knob_entry ? &model->entries[i] : NULL;
}

const char *swi_layout_difference(const sw_model *a, const sw_model *b, char *to)
{
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
                 x->name, SWI_SHAPE(&x->shape), SWI_SHAPE(&y->shape));
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
    SW_TRY(swi_model_whole(from));
    if (to == from)
        return SW_OK;
    SW_TRY(swi_model_copy_bytes(to, from));
    if (to->n_knobs > 0)
        swi_knobs_set(to, &from->knobs->value, sizeof *from->knobs);
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

/* Numbers on their way into frozen weights. */
typedef struct {
    const swi_entry *entry;
    const float *numbers;
} storing;

static sw_status store_piece(void *context, void *bytes, size_t at, size_t n)
{
    const storing *s = context;
    const size_t size = sw_dtype_bytes(s->entry->dtype);
    const float *x = s->numbers + at / size;
    if (s->entry->dtype == SW_F32)
        memcpy(bytes, x, n);
    for (size_t i = 0; s->entry->dtype == SW_BF16 && i < n / size; i++)
        ((uint16_t *)bytes)[i] = sw_bf16_round(x[i]);
    return SW_OK;
}

static sw_status store(sw_model *model, const swi_entry *e, int64_t first, const float *numbers,
                       int64_t n)
{
    const sw_stored w = {e->dtype, sw_is_stored(e->dtype) ? model->base + e->offset : NULL,
                         e->shape.dim[0], e->shape.dim[1]};
    const int64_t all = swi_elements(&e->shape),
                  unit = w.bytes != NULL ? sw_stored_unit(&w) : 1;
    storing s = {e, numbers};
    if (first < 0 || n < 0 || n > all - first || (n > 0 && first % unit != 0) ||
        (n % unit != 0 && first + n != all))
        SW_FAIL(SW_INVALID,
                "sw_weights_write: '%s' in %s has %lld numbers, which are written in units of "
                "%lld (got %lld from %lld on)",
                e->name, sw_dtype_name(e->dtype), (long long)all, (long long)unit, (long long)n,
                (long long)first);
    if (w.bytes == NULL) {
        const size_t size = sw_dtype_bytes(e->dtype);
        return swi_model_fill(model, e->offset + (size_t)first * size, (size_t)n * size,
                              store_piece, &s);
    }
    model->drawn = false;
    sw_stored_encode(&w, first, n, numbers);
    return SW_OK;
}

sw_status sw_weights_write(sw_param weights, int64_t first, const float *numbers, int64_t n)
{
    const swi_entry *known = swi_entry_of(weights);
    swi_entry *entry;
    SW_TRY(take_entry(weights, numbers, known != NULL ? known->bytes : 0, "sw_weights_write",
                      &entry));
    const bool can = entry->weights;
    const sw_status status = can ? store(weights.model, entry, first, numbers, n) : SW_INVALID;
    swi_model_give(weights.model);
    if (!can)
        SW_FAIL(SW_INVALID, "sw_weights_write: '%s' must be of sw_weights_new", entry->name);
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

/* ---- knobs ------------------------------------------------------------------------------- */

/* Knobs that a run must not read: sw_knob_set returns nothing, so what it refuses is kept, and
 * every run of the model says so until the knob is set to something that can be. The value that
 * runs read stays the one before. */

/* Its use, after its name; the values that it can have. */
static const struct {
    const char *use, *range;
} kinds[] = {
    [SWI_KNOB_NUMBER] = {"", "finite"},
    [SWI_KNOB_RATE] = {", a learning rate,", "finite and at least 0"},
    [SWI_KNOB_NORM] = {", the bound of a norm,", "finite and at least 0"},
    [SWI_KNOB_DECAY] = {", a weight decay,", "finite and at least 0"},
    [SWI_KNOB_FACTOR] = {", a momentum or beta,", "at least 0 and below 1"},
    [SWI_KNOB_SHARE] = {", the rate of dropout,", "0 to 1"},
};

bool swi_knob_can_be(const swi_knob *knob, float value)
{
    switch ((swi_knob_kind)knob->use) {
    case SWI_KNOB_RATE:
    case SWI_KNOB_NORM:
    case SWI_KNOB_DECAY:
        return isfinite(value) && value >= 0.0f;
    case SWI_KNOB_FACTOR:
        return value >= 0.0f && value < 1.0f;
    case SWI_KNOB_SHARE:
        return value >= 0.0f && value <= 1.0f;
    case SWI_KNOB_NUMBER:
        break;
    }
    return isfinite(value);
}

const char *swi_knob_range(const swi_knob *knob)
{
    return kinds[knob->use].range;
}

void swi_knob_name(const sw_model *model, uint32_t index, char *to, size_t bytes)
{
    const swi_knob *knob = &model->knobs[index];
    if (knob->what == NULL)
        snprintf(to, bytes, "knob '%s'", knob->name);
    else
        snprintf(to, bytes, "the %s of optimizer %u (%s), group %u", knob->what,
                 knob->optimizer, model->optimizers[knob->optimizer]->kind->name, knob->group);
}

static sw_status say(const sw_model *model, uint32_t index, float value)
{
    char name[SWI_KNOB_NAME];
    const swi_knob *knob = &model->knobs[index];
    swi_knob_name(model, index, name, sizeof name);
    SW_FAIL(SW_INVALID, "model %s: %s%s must be %s (got %g); set it again (sw_knob_set)",
            model->name, name, knob->what == NULL ? kinds[knob->use].use : "",
            kinds[knob->use].range, (double)value);
}

void swi_knob_refuse(sw_model *model, uint32_t index, float value)
{
    swi_knob *knob = &model->knobs[index];
    model->n_refused += !knob->is_refused;
    knob->is_refused = true;
    knob->refused = value;
    (void)say(model, index, value);
}

void swi_knob_accept(sw_model *model, uint32_t index)
{
    model->n_refused -= model->knobs[index].is_refused;
    model->knobs[index].is_refused = false;
}

sw_status swi_knobs_check(const sw_model *model)
{
    for (uint32_t i = 0; model->n_refused > 0 && i < model->n_knobs; i++)
        if (model->knobs[i].is_refused)
            return say(model, i, model->knobs[i].refused);
    return SW_OK;
}

sw_status swi_knob_use(sw_knob knob, swi_knob_kind use)
{
    if (knob.model == NULL || knob.index >= knob.model->n_knobs)
        SW_FAIL(SW_INVALID, "the knob must be one of this model");
    swi_knob *k = &knob.model->knobs[knob.index];
    if (k->use == SWI_KNOB_NUMBER)
        k->use = (uint8_t)use;
    if (use == SWI_KNOB_SHARE && k->use != SWI_KNOB_SHARE && k->use != SWI_KNOB_FACTOR) {
        char name[SWI_KNOB_NAME];
        swi_knob_name(knob.model, knob.index, name, sizeof name);
        SW_FAIL(SW_INVALID, "model %s: %s%s may be above 1 and cannot be the rate of dropout",
                knob.model->name, name, k->what == NULL ? kinds[k->use].use : "");
    }
    return swi_knob_can_be(k, k->value) ? SW_OK : say(knob.model, knob.index, k->value);
}

/* ---- noise mode -------------------------------------------------------------------------- */

/* The noise of parameters: noise_mode.h. */

bool swi_is_perturbed(const swi_noise_mode *mode, const swi_entry *entry)
{
    return entry->role == SWI_ROLE_PARAMETER && !entry->frozen &&
           entry->optimizer == mode->optimizer;
}

uint32_t swi_noise_stream(const char *name)
{
    char full[SWI_MAX_NAME + 32];
    snprintf(full, sizeof full, "es/%s", name);
    return sw_rng_stream(full);
}

static int64_t part_of(int64_t n, float share)
{
    const int64_t part = share > 0.0f ? (int64_t)((double)n * (double)share + 0.5) : n;
    return part < 1 ? 1 : part > n ? n : part;
}

void swi_noise_spec(sw_noise_spec *out, const sw_noise_spec *like, float in_share,
                    float out_share, const sw_shape *shape, uint32_t stream)
{
    memset(out, 0, sizeof *out);
    out->distribution = like->distribution;
    out->stream = stream;
    out->taps = 1;
    if (shape->rank < 2 || shape->rank == 3) {
        out->kind = SW_NOISE_IID;
        out->cols = swi_elements(shape);
        out->rows = like->kind == SW_NOISE_DROPOUT ? 0 : 1;
        return;
    }
    out->kind = like->kind;
    out->sides = like->sides;
    out->rank = like->rank;
    out->window = like->window;
    out->rows = shape->dim[0];
    for (int i = 2; i < shape->rank; i++)
        out->taps *= (int32_t)shape->dim[i];
    out->cols = shape->dim[1] * out->taps;
    out->keep_rows = part_of(shape->dim[0], out_share);
    out->keep_cols = part_of(shape->dim[1], in_share);
}

void swi_noise_spec_of(sw_noise_spec *out, const swi_noise_mode *mode, const swi_entry *entry)
{
    const uint32_t stream = swi_noise_stream(entry->name);
    if (entry->logits && entry->shape.rank >= 2 && swi_elements(&entry->shape) > 0) {
        /* Of logits (out, in, ...): a matrix, each channel with the positions after it. */
        memset(out, 0, sizeof *out);
        out->kind = SW_NOISE_BITS_OF_LOGITS;
        out->stream = stream;
        out->rows = entry->shape.dim[0];
        out->taps = 1;
        for (int i = 2; i < entry->shape.rank; i++)
            out->taps *= (int32_t)entry->shape.dim[i];
        out->cols = swi_elements(&entry->shape) / entry->shape.dim[0];
    } else
        swi_noise_spec(out, &mode->like, mode->in_share, mode->out_share, &entry->shape,
                       stream);
}
