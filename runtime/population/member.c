/* One member: its first values, copies, what is read and written of it, its progress. */
#include "runtime/population/members_internal.h"
#include "alloc/base/assert.h"
#include "runtime/device/device.h"
#include <string.h>

/* The shape with the member's bytes, for the functions that fill models. */
static sw_model stand_in(const sw_members *m, uint32_t index)
{
    sw_model model = *m->shape;
    model.base = swi_member_base(m, index);
    model.device = swi_device_cpu();
    return model;
}

static sw_status begin(sw_members *m, uint32_t index, uint64_t seed)
{
    sw_model model = stand_in(m, index);
    memset(model.base, 0, m->stride);
    for (uint32_t i = 1; i < model.n_entries; i++)
        if (model.entries[i].role != SWI_ROLE_KNOB)
            SW_TRY(swi_init_entry(&model, &model.entries[i], seed));
    if (model.n_knobs > 0)
        memcpy(swi_member_knobs(m, index), m->first_knobs, model.n_knobs * sizeof *m->metrics);
    return SW_OK;
}

sw_status sw_member_new(sw_member *out, sw_members *m, uint64_t seed)
{
    uint32_t index;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_member_new: out must not be NULL");
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_member_new"));
    SW_TRY(swi_slot_take(m, &index));
    const sw_status status = begin(m, index, seed);
    if (status != SW_OK) {
        swi_slot_give(m, index);
        return status;
    }
    swi_slot_record *slot = &m->slots[index];
    slot->seed = seed;
    slot->steps = slot->batches = 0;
    slot->generation++;
    slot->damaged = false;
    m->n_members++;
    *out = (sw_member){m, index, slot->generation};
    return SW_OK;
}

void sw_member_end(sw_member member)
{
    if (member.of == NULL || swi_member_check(member, "sw_member_end") != SW_OK)
        return;
    member.of->slots[member.index].generation++;
    member.of->n_members--;
    swi_slot_give(member.of, member.index);
}

sw_status sw_member_copy(sw_member to, sw_member from)
{
    static const char call[] = "sw_member_copy";
    SW_TRY(swi_member_check(to, call));
    SW_TRY(swi_member_check(from, call));
    if (to.of->shape->layout_hash != from.of->shape->layout_hash ||
        to.of->opts.state_bytes != from.of->opts.state_bytes)
        SW_FAIL(SW_INVALID, "%s: %s and %s have different layouts", call, to.of->shape->name,
                from.of->shape->name);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to copy from failed behind an update", call);
    if (to.of != from.of || to.index != from.index)
        memcpy(swi_member_base(to.of, to.index), swi_member_base(from.of, from.index),
               to.of->stride);
    swi_slot_record *slot = &to.of->slots[to.index];
    slot->damaged = false;
    slot->steps = from.of->slots[from.index].steps;
    slot->batches = from.of->slots[from.index].batches;
    return SW_OK;
}

/* ---- to and from models ------------------------------------------------------------------ */

static sw_status check_model(const sw_members *m, const sw_model *model, const char *call)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, call));
    if (!model->ready || model->layout_hash != m->shape->layout_hash ||
        model->bytes != m->model_bytes)
        SW_FAIL(SW_INVALID, "%s: model %s must be ready and have the layout of %s", call,
                model->name, m->shape->name);
    if (!model->device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "%s: model %s does not lie in host memory", call, model->name);
    return SW_OK;
}

sw_status sw_member_to_model(sw_model *to, sw_member from)
{
    static const char call[] = "sw_member_to_model";
    SW_TRY(swi_member_check(from, call));
    SW_TRY(check_model(from.of, to, call));
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member failed behind an update", call);
    SW_TRY(swi_model_take(to));
    memcpy(to->base, swi_member_base(from.of, from.index), from.of->model_bytes);
    for (uint32_t i = 0; i < to->n_knobs; i++) {
        to->knobs[i].value = swi_member_knobs(from.of, from.index)[i];
        swi_knob_accept(to, i);
    }
    to->damaged = false;
    swi_model_give(to);
    return SW_OK;
}

sw_status sw_member_from_model(sw_member to, const sw_model *from)
{
    static const char call[] = "sw_member_from_model";
    SW_TRY(swi_member_check(to, call));
    SW_TRY(check_model(to.of, from, call));
    if (from->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                from->name);
    SW_TRY(swi_model_take(from));
    memcpy(swi_member_base(to.of, to.index), from->base, to.of->model_bytes);
    to.of->slots[to.index].damaged = false;
    swi_model_give(from);
    return SW_OK;
}

/* The entry that `param` names, of the shape. */
static sw_status entry_of(sw_member member, sw_param param, const void *at, size_t bytes,
                          const char *call, const swi_entry **out)
{
    SW_TRY(swi_member_check(member, call));
    const swi_entry *entry = swi_entry_of(param);
    if (entry == NULL || param.model != member.of->shape)
        SW_FAIL(SW_INVALID, "%s: the parameter must be one of the shape %s", call,
                member.of->shape->name);
    if (at == NULL || bytes != entry->bytes)
        SW_FAIL(SW_INVALID, "%s: '%s' must have %zu bytes (got %zu)", call, entry->name,
                entry->bytes, at == NULL ? 0 : bytes);
    *out = entry;
    return SW_OK;
}

sw_status sw_member_read(sw_member member, sw_param param, void *to, size_t bytes)
{
    const swi_entry *entry;
    SW_TRY(entry_of(member, param, to, bytes, "sw_member_read", &entry));
    memcpy(to, swi_member_base(member.of, member.index) + entry->offset, bytes);
    return SW_OK;
}

sw_status sw_member_write(sw_member member, sw_param param, const void *from, size_t bytes)
{
    const swi_entry *entry;
    SW_TRY(entry_of(member, param, from, bytes, "sw_member_write", &entry));
    memcpy(swi_member_base(member.of, member.index) + entry->offset, from, bytes);
    return SW_OK;
}

static sw_status knob_at(sw_member member, sw_knob knob, const char *call, float **out)
{
    SW_TRY(swi_member_check(member, call));
    if (knob.model != member.of->shape || knob.index >= member.of->shape->n_knobs)
        SW_FAIL(SW_INVALID, "%s: the knob must be one of the shape %s", call,
                member.of->shape->name);
    *out = swi_member_knobs(member.of, member.index) + knob.index;
    return SW_OK;
}

static sw_status check_knob(const sw_model *shape, uint32_t index, float value,
                            const char *call)
{
    char name[SWI_KNOB_NAME];
    if (swi_knob_can_be(&shape->knobs[index], value))
        return SW_OK;
    swi_knob_name(shape, index, name, sizeof name);
    SW_FAIL(SW_INVALID, "%s: %s cannot be %g: it must be %s", call, name, (double)value,
            swi_knob_range(&shape->knobs[index]));
}

sw_status swi_member_knobs_check(const sw_members *m, uint32_t index)
{
    const float *knobs = swi_member_knobs(m, index);
    for (uint32_t i = 0; i < m->shape->n_knobs; i++)
        SW_TRY(check_knob(m->shape, i, knobs[i], "sw_members_run"));
    return SW_OK;
}

sw_status sw_member_knob_set(sw_member member, sw_knob knob, float value)
{
    static const char call[] = "sw_member_knob_set";
    float *at = NULL;
    SW_TRY(knob_at(member, knob, call, &at));
    SW_TRY(check_knob(member.of->shape, knob.index, value, call));
    *at = value;
    return SW_OK;
}

sw_status sw_member_knob_get(sw_member member, sw_knob knob, float *out)
{
    float *at = NULL;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_member_knob_get: out must not be NULL");
    SW_TRY(knob_at(member, knob, "sw_member_knob_get", &at));
    *out = *at;
    return SW_OK;
}

/* ---- progress, and members that are kept elsewhere --------------------------------------- */

sw_status sw_member_progress(sw_member member, uint64_t *steps, uint64_t *batches)
{
    SW_TRY(swi_member_check(member, "sw_member_progress"));
    const swi_slot_record *slot = &member.of->slots[member.index];
    if (steps != NULL)
        *steps = slot->steps;
    if (batches != NULL)
        *batches = slot->batches;
    return SW_OK;
}

sw_status sw_member_progress_set(sw_member member, uint64_t steps, uint64_t batches)
{
    SW_TRY(swi_member_check(member, "sw_member_progress_set"));
    member.of->slots[member.index].steps = steps;
    member.of->slots[member.index].batches = batches;
    return SW_OK;
}

sw_status sw_member_seed(sw_member member, uint64_t *out)
{
    SW_TRY(swi_member_check(member, "sw_member_seed"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_member_seed: out must not be NULL");
    *out = member.of->slots[member.index].seed;
    return SW_OK;
}

sw_status sw_member_seed_set(sw_member member, uint64_t seed)
{
    SW_TRY(swi_member_check(member, "sw_member_seed_set"));
    member.of->slots[member.index].seed = seed;
    return SW_OK;
}

/* In front of the range, so that it is aligned as the range is. */
typedef struct {
    uint64_t layout, state_bytes, seed, steps, batches, damaged, reserved[2];
} packed_head;
_Static_assert(sizeof(packed_head) % SW_ALIGN == 0, "the range behind it is aligned");

size_t sw_members_packed_bytes(const sw_members *m)
{
    if (sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_members_packed_bytes") != SW_OK)
        return 0;
    return sizeof(packed_head) + m->stride;
}

static sw_status check_packed(sw_member member, const void *at, size_t bytes, const char *call)
{
    SW_TRY(swi_member_check(member, call));
    const size_t its = sizeof(packed_head) + member.of->stride;
    if (at == NULL || bytes != its)
        SW_FAIL(SW_INVALID, "%s: a member of %s is packed in %zu bytes (got %zu)", call,
                member.of->shape->name, its, at == NULL ? 0 : bytes);
    return SW_OK;
}

sw_status sw_member_pack(sw_member member, void *to, size_t bytes)
{
    SW_TRY(check_packed(member, to, bytes, "sw_member_pack"));
    const sw_members *m = member.of;
    const swi_slot_record *slot = &m->slots[member.index];
    const packed_head head = {.layout = m->shape->layout_hash,
                              .state_bytes = m->opts.state_bytes,
                              .seed = slot->seed,
                              .steps = slot->steps,
                              .batches = slot->batches,
                              .damaged = slot->damaged};
    memcpy(to, &head, sizeof head);
    memcpy((unsigned char *)to + sizeof head, swi_member_base(m, member.index), m->stride);
    return SW_OK;
}

sw_status sw_member_unpack(sw_member member, const void *from, size_t bytes)
{
    packed_head head;
    SW_TRY(check_packed(member, from, bytes, "sw_member_unpack"));
    const sw_members *m = member.of;
    memcpy(&head, from, sizeof head);
    if (head.layout != m->shape->layout_hash || head.state_bytes != m->opts.state_bytes)
        SW_FAIL(SW_INVALID, "sw_member_unpack: what was packed has another layout than %s",
                m->shape->name);
    swi_slot_record *slot = &m->slots[member.index];
    slot->seed = head.seed;
    slot->steps = head.steps;
    slot->batches = head.batches;
    slot->damaged = head.damaged != 0;
    memcpy(swi_member_base(m, member.index), (const unsigned char *)from + sizeof head,
           m->stride);
    return SW_OK;
}
