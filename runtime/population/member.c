/* One member: its first values, copies, what is read and written of it, its progress. */
#include "runtime/population/members_internal.h"
#include "alloc/base/assert.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include <string.h>

static sw_status begin(sw_members *m, uint32_t index, uint64_t seed)
{
    sw_model model = swi_member_stand_in(m, index);
    SW_TRY(swi_model_zero(&model, 0, m->stride));
    for (uint32_t i = 1; i < model.n_entries; i++)
        if (model.entries[i].role != SWI_ROLE_KNOB)
            SW_TRY(swi_init_entry(&model, &model.entries[i], seed));
    swi_member_knobs_put(m, index, m->first_knobs);
    return SW_OK;
}

static sw_member take_member(sw_members *m, uint32_t index, uint64_t seed)
{
    swi_slot_record *slot = &m->slots[index];
    slot->seed = seed;
    slot->steps = slot->batches = 0;
    slot->generation++;
    slot->damaged = false;
    m->n_members++;
    return (sw_member){m, index, slot->generation};
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
    *out = take_member(m, index, seed);
    return SW_OK;
}

sw_status swi_member_claim(sw_member *out, sw_members *m, uint64_t seed)
{
    uint32_t index;
    SW_TRY(swi_slot_take(m, &index));
    *out = take_member(m, index, seed);
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
    char why[SWI_DIFFERENCE_TEXT];
    SW_TRY(swi_member_check(to, call));
    SW_TRY(swi_member_check(from, call));
    if (to.of->shape->layout_hash != from.of->shape->layout_hash)
        SW_FAIL(SW_INVALID, "%s: %s and %s have different layouts: %s", call,
                to.of->shape->name, from.of->shape->name,
                swi_layout_difference(to.of->shape, from.of->shape, why));
    if (to.of->opts.state_bytes != from.of->opts.state_bytes)
        SW_FAIL(SW_INVALID,
                "%s: %s and %s have different layouts: the first has %zu bytes of its own and "
                "the second %zu",
                call, to.of->shape->name, from.of->shape->name, to.of->opts.state_bytes,
                from.of->opts.state_bytes);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to copy from failed after an update", call);
    if (to.of != from.of || to.index != from.index)
        SW_TRY(swi_member_copy_range(to.of, to.index, from.of, from.index));
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
    return SW_OK;
}

static sw_status give_to_model(sw_model *to, const sw_members *m, uint32_t index)
{
    sw_model model = swi_member_stand_in(m, index);
    const float *knobs = swi_member_knobs(m, index);
    model.bytes = m->model_bytes;
    SW_TRY(swi_model_copy_bytes(to, &model));
    for (uint32_t i = 0; i < to->n_knobs; i++) {
        to->knobs[i].value = knobs[i];
        swi_knob_accept(to, i);
    }
    if (to->n_knobs > 0)
        swi_knobs_changed(to);
    to->damaged = false;
    return SW_OK;
}

sw_status sw_member_to_model(sw_model *to, sw_member from)
{
    static const char call[] = "sw_member_to_model";
    SW_TRY(swi_member_look(from, call));
    SW_TRY(check_model(from.of, to, call));
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member failed after an update", call);
    SW_TRY(swi_model_take(to));
    const sw_status status = give_to_model(to, from.of, from.index);
    swi_model_give(to);
    return status;
}

/* The knobs of a model on a device may be on their way yet. */
static sw_status take_from_model(sw_members *m, uint32_t index, const sw_model *from)
{
    sw_model model = swi_member_stand_in(m, index);
    float *knobs = swi_member_knobs(m, index);
    model.bytes = m->model_bytes;
    const sw_status status = swi_model_copy_bytes(&model, from);
    if (status != SW_OK) {
        m->slots[index].damaged |= model.damaged;
        return status;
    }
    for (uint32_t i = 0; i < m->n_first_knobs; i++)
        knobs[i] = from->knobs[i].value;
    m->slots[index].knobs_changed = true;
    m->slots[index].damaged = false;
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
    const sw_status status = take_from_model(to.of, to.index, from);
    swi_model_give(from);
    return status;
}

/* The entry that `param` names, of the shape. */
static sw_status entry_of(sw_member member, sw_param param, const void *at, size_t bytes,
                          const char *call, const swi_entry **out)
{
    SW_TRY(swi_member_look(member, call));
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
    return swi_device_read(swi_members_device(member.of), to,
                           swi_member_base(member.of, member.index) + entry->offset, bytes);
}

sw_status sw_member_write(sw_member member, sw_param param, const void *from, size_t bytes)
{
    const swi_entry *entry;
    SW_TRY(entry_of(member, param, from, bytes, "sw_member_write", &entry));
    return swi_device_write(swi_members_device(member.of),
                            swi_member_base(member.of, member.index) + entry->offset, from,
                            bytes);
}

static sw_status knob_at(sw_member member, sw_knob knob, const char *call, float **out)
{
    SW_TRY(swi_member_look(member, call));
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
    member.of->slots[member.index].knobs_changed = true;
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
