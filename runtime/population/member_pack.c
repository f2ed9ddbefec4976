/* A member's progress and seed, and members that are kept elsewhere. */
#include "alloc/base/assert.h"
#include "runtime/population/members_internal.h"
#include <string.h>

sw_status sw_member_progress(sw_member member, uint64_t *steps, uint64_t *batches)
{
    SW_TRY(swi_member_look(member, "sw_member_progress"));
    const swi_slot_record *slot = &member.of->slots[member.index];
    if (steps != NULL)
        *steps = slot->steps;
    if (batches != NULL)
        *batches = slot->batches;
    return SW_OK;
}

sw_status sw_member_progress_set(sw_member member, uint64_t steps, uint64_t batches)
{
    SW_TRY(swi_member_look(member, "sw_member_progress_set"));
    member.of->slots[member.index].steps = steps;
    member.of->slots[member.index].batches = batches;
    return SW_OK;
}

sw_status sw_member_seed(sw_member member, uint64_t *out)
{
    SW_TRY(swi_member_look(member, "sw_member_seed"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_member_seed: out must not be NULL");
    *out = member.of->slots[member.index].seed;
    return SW_OK;
}

sw_status sw_member_seed_set(sw_member member, uint64_t seed)
{
    SW_TRY(swi_member_look(member, "sw_member_seed_set"));
    member.of->slots[member.index].seed = seed;
    return SW_OK;
}

/* Before the range, so that it is aligned as the range is. */
typedef struct {
    uint64_t layout, state_bytes, seed, steps, batches, damaged, reserved[2];
} packed_head;
_Static_assert(sizeof(packed_head) % SW_ALIGN == 0, "the range after it is aligned");

size_t sw_members_packed_bytes(const sw_members *m)
{
    if (sw_handle_look(m, SW_HANDLE_MEMBERS, "sw_members_packed_bytes") != SW_OK)
        return 0;
    return sizeof(packed_head) + m->stride;
}

static sw_status check_packed(sw_member member, const void *at, size_t bytes, const char *call)
{
    SW_TRY(swi_member_look(member, call));
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
    SW_TRY(swi_member_take(m, member.index, (unsigned char *)to + sizeof head));
    memcpy(to, &head, sizeof head);
    return SW_OK;
}

sw_status sw_member_unpack(sw_member member, const void *from, size_t bytes)
{
    packed_head head;
    SW_TRY(swi_member_check(member, "sw_member_unpack"));
    SW_TRY(check_packed(member, from, bytes, "sw_member_unpack"));
    sw_members *m = member.of;
    memcpy(&head, from, sizeof head);
    if (head.layout != m->shape->layout_hash || head.state_bytes != m->opts.state_bytes)
        SW_FAIL(SW_INVALID, "sw_member_unpack: what was packed has another layout than %s",
                m->shape->name);
    SW_TRY(swi_member_put(m, member.index, (const unsigned char *)from + sizeof head));
    swi_slot_record *slot = &m->slots[member.index];
    slot->seed = head.seed;
    slot->steps = head.steps;
    slot->batches = head.batches;
    slot->damaged = head.damaged != 0;
    return SW_OK;
}
