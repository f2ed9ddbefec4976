/* The bytes of members, wherever they lie. On a device host code has the knobs in memory of its
 * own: they are uploaded before a run that comes after a change, and of whoever reads or
 * copies the range. */
#include "alloc/base/assert.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/members_internal.h"
#include <string.h>

swi_device *swi_members_device(const sw_members *m)
{
    return swi_target_of(m->exec)->device;
}

bool swi_members_on_host(const sw_members *m)
{
    return swi_members_device(m)->backend->host_memory;
}

sw_model swi_member_stand_in(const sw_members *m, uint32_t index)
{
    sw_model model = *m->shape;
    model.base = swi_member_base(m, index);
    model.bytes = m->stride;
    model.device = swi_members_device(m);
    model.queue = 0; /* calls of members wait for what they launch */
    model.damaged = false;
    return model;
}

/* ---- knobs ------------------------------------------------------------------------------- */

static size_t knobs_at(const sw_members *m)
{
    return m->shape->entries[m->shape->knob_entry].offset;
}

sw_status swi_member_knob_room(sw_members *m)
{
    void *copies = m->knob_copies;
    if (swi_members_on_host(m) || m->n_first_knobs == 0)
        return SW_OK;
    if (m->n_slots >= UINT32_MAX / m->n_first_knobs - 1)
        SW_FAIL(SW_NOMEM, "members: %u of them with %u knobs are too many", m->n_slots,
                m->n_first_knobs);
    SW_TRY(sw_heap_reserve(&copies, SW_HEAP_RECORDS, &m->cap_knob_copies,
                           (m->n_slots + 1) * m->n_first_knobs, sizeof *m->knob_copies));
    m->knob_copies = copies;
    return SW_OK;
}

float *swi_member_knobs(const sw_members *m, uint32_t index)
{
    if (m->shape->n_knobs == 0)
        return NULL;
    if (!swi_members_on_host(m))
        return m->knob_copies + (size_t)index * m->n_first_knobs;
    return (float *)(void *)(swi_member_base(m, index) + knobs_at(m));
}

void swi_member_knobs_put(sw_members *m, uint32_t index, const float *from)
{
    if (m->shape->n_knobs == 0)
        return;
    memcpy(swi_member_knobs(m, index), from, m->n_first_knobs * sizeof *from);
    m->slots[index].knobs_changed = true;
}

sw_status swi_member_settle(const sw_members *m, uint32_t index)
{
    swi_slot_record *slot = &m->slots[index];
    if (!slot->knobs_changed || swi_members_on_host(m))
        return SW_OK;
    SW_TRY(swi_device_write(swi_members_device(m), swi_member_base(m, index) + knobs_at(m),
                            swi_member_knobs(m, index),
                            m->n_first_knobs * sizeof *m->knob_copies));
    slot->knobs_changed = false;
    return SW_OK;
}

/* ---- ranges ------------------------------------------------------------------------------ */

sw_status swi_member_take(const sw_members *m, uint32_t index, void *to)
{
    SW_TRY(swi_member_settle(m, index));
    return swi_device_read(swi_members_device(m), to, swi_member_base(m, index), m->stride);
}

sw_status swi_member_put(sw_members *m, uint32_t index, const void *from)
{
    const sw_status status =
        swi_device_write(swi_members_device(m), swi_member_base(m, index), from, m->stride);
    if (status != SW_OK) {
        m->slots[index].damaged = true;
        return status;
    }
    if (m->shape->n_knobs > 0 && !swi_members_on_host(m))
        memcpy(swi_member_knobs(m, index), (const unsigned char *)from + knobs_at(m),
               m->n_first_knobs * sizeof *m->knob_copies);
    m->slots[index].knobs_changed = false;
    return SW_OK;
}

sw_status swi_member_copy_range(sw_members *to, uint32_t to_index, const sw_members *from,
                                uint32_t from_index)
{
    sw_model of_to = swi_member_stand_in(to, to_index);
    SW_TRY(swi_member_settle(from, from_index));
    const sw_model of_from = swi_member_stand_in(from, from_index);
    const sw_status status = swi_model_copy_bytes(&of_to, &of_from);
    if (status != SW_OK) {
        to->slots[to_index].damaged |= of_to.damaged;
        return status;
    }
    swi_member_knobs_put(to, to_index, swi_member_knobs(from, from_index));
    to->slots[to_index].knobs_changed = false;
    return SW_OK;
}
