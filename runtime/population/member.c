/* One member: its first values, copies, what is read and written of it, its progress. */
#include "alloc/base/assert.h"
#include "alloc/base/order.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "runtime/base/owner.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "runtime/population/member_pool.h"
#include "runtime/population/members_internal.h"
#include "runtime/state/checkpoint_stack.h"
#include <stdlib.h>
#include <string.h>

/* The bytes of members, wherever they lie. On a device host code has the knobs in memory of its
 * own: they are uploaded before a run that comes after a change, and of whoever reads or
 * copies the range. */

static swi_device *members_device(const sw_members *m)
{
    return swi_target_of(m->exec)->device;
}

bool swi_members_on_host(const sw_members *m)
{
    return members_device(m)->backend->host_memory;
}

sw_model swi_member_stand_in(const sw_members *m, uint32_t index)
{
    sw_model model = *m->shape;
    model.base = swi_member_base(m, index);
    model.bytes = m->stride;
    model.device = members_device(m);
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
    if (swi_members_on_host(m) || m->n_first_knobs == 0)
        return SW_OK;
    if (m->n_slots >= UINT32_MAX / m->n_first_knobs - 1)
        SW_FAIL(SW_NOMEM, "members: %u of them with %u knobs are too many", m->n_slots,
                m->n_first_knobs);
    return sw_heap_reserve(&m->knob_copies, SW_HEAP_RECORDS, &m->cap_knob_copies,
                           (m->n_slots + 1) * m->n_first_knobs);
}

float *swi_member_knobs(const sw_members *m, uint32_t index)
{
    if (m->shape->n_knobs == 0)
        return NULL;
    if (!swi_members_on_host(m))
        return m->knob_copies + (size_t)index * m->n_first_knobs;
    return (float *)(void *)(swi_member_base(m, index) + knobs_at(m));
}

static void member_knobs_put(sw_members *m, uint32_t index, const float *from)
{
    if (m->shape->n_knobs == 0)
        return;
    memcpy(swi_member_knobs(m, index), from, m->n_first_knobs * sizeof *from);
    m->slots[index].knobs_changed = true;
}

/* Knobs that were set are in the range. */
static sw_status member_settle(const sw_members *m, uint32_t index)
{
    swi_slot_record *slot = &m->slots[index];
    if (!slot->knobs_changed || swi_members_on_host(m))
        return SW_OK;
    SW_TRY(swi_device_write(members_device(m), swi_member_base(m, index) + knobs_at(m),
                            swi_member_knobs(m, index),
                            m->n_first_knobs * sizeof *m->knob_copies));
    slot->knobs_changed = false;
    return SW_OK;
}

/* ---- ranges ------------------------------------------------------------------------------ */

sw_status swi_member_take(const sw_members *m, uint32_t index, void *to)
{
    SW_TRY(member_settle(m, index));
    return swi_device_read(members_device(m), to, swi_member_base(m, index), m->stride);
}

sw_status swi_member_put(sw_members *m, uint32_t index, const void *from)
{
    const sw_status status =
        swi_device_write(members_device(m), swi_member_base(m, index), from, m->stride);
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

static sw_status member_copy_range(sw_members *to, uint32_t to_index, const sw_members *from,
                                   uint32_t from_index)
{
    sw_model of_to = swi_member_stand_in(to, to_index);
    SW_TRY(member_settle(from, from_index));
    const sw_model of_from = swi_member_stand_in(from, from_index);
    const sw_status status = swi_model_copy_bytes(&of_to, &of_from);
    if (status != SW_OK) {
        to->slots[to_index].damaged |= of_to.damaged;
        return status;
    }
    member_knobs_put(to, to_index, swi_member_knobs(from, from_index));
    to->slots[to_index].knobs_changed = false;
    return SW_OK;
}

/* ---- member ------------------------------------------------------------------------------ */

static sw_status begin(sw_members *m, uint32_t index, uint64_t seed)
{
    sw_model model = swi_member_stand_in(m, index);
    SW_TRY(swi_model_zero(&model, 0, m->stride));
    for (uint32_t i = 1; i < model.n_entries; i++)
        if (model.entries[i].role != SWI_ROLE_KNOB)
            SW_TRY(swi_init_entry(&model, &model.entries[i], seed));
    member_knobs_put(m, index, m->first_knobs);
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
    SW_TRY(swi_given(out != NULL, "out", "sw_member_new"));
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_member_new"));
    SW_TRY(swi_slot_take(m, &index));
    const sw_status status = begin(m, index, seed);
    if (status != SW_OK)
        swi_slot_give(m, index);
    else
        *out = take_member(m, index, seed);
    return status;
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
    char why[SWI_DIFFERENCE_TEXT];
    SW_TRY(swi_member_check(to, __func__));
    SW_TRY(swi_member_check(from, __func__));
    if (to.of->shape->layout_hash != from.of->shape->layout_hash)
        SW_FAIL(SW_INVALID, "%s: %s and %s have different layouts: %s", __func__,
                to.of->shape->name, from.of->shape->name,
                swi_layout_difference(to.of->shape, from.of->shape, why));
    if (to.of->opts.state_bytes != from.of->opts.state_bytes)
        SW_FAIL(SW_INVALID,
                "%s: %s and %s have different layouts: the first has %zu bytes of its own and "
                "the second %zu",
                __func__, to.of->shape->name, from.of->shape->name, to.of->opts.state_bytes,
                from.of->opts.state_bytes);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to copy from failed after an update", __func__);
    if (to.of != from.of || to.index != from.index)
        SW_TRY(member_copy_range(to.of, to.index, from.of, from.index));
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
    model.bytes = m->model_bytes;
    SW_TRY(swi_model_copy_bytes(to, &model));
    swi_knobs_set(to, swi_member_knobs(m, index), sw_dtype_bytes(SW_F32));
    to->damaged = false;
    return SW_OK;
}

sw_status sw_member_to_model(sw_model *to, sw_member from)
{
    SW_TRY(swi_member_look(from, __func__));
    SW_TRY(check_model(from.of, to, __func__));
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member failed after an update", __func__);
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
    SW_TRY(swi_member_check(to, __func__));
    SW_TRY(check_model(to.of, from, __func__));
    SW_TRY(swi_model_whole(from));
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
    return swi_device_read(members_device(member.of), to,
                           swi_member_base(member.of, member.index) + entry->offset, bytes);
}

sw_status sw_member_write(sw_member member, sw_param param, const void *from, size_t bytes)
{
    const swi_entry *entry;
    SW_TRY(entry_of(member, param, from, bytes, "sw_member_write", &entry));
    return swi_device_write(members_device(member.of),
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
    float *at = NULL;
    SW_TRY(knob_at(member, knob, __func__, &at));
    SW_TRY(check_knob(member.of->shape, knob.index, value, __func__));
    *at = value;
    member.of->slots[member.index].knobs_changed = true;
    return SW_OK;
}

sw_status sw_member_knob_get(sw_member member, sw_knob knob, float *out)
{
    float *at = NULL;
    SW_TRY(swi_given(out != NULL, "out", "sw_member_knob_get"));
    SW_TRY(knob_at(member, knob, "sw_member_knob_get", &at));
    *out = *at;
    return SW_OK;
}

/* A member's progress and seed, and members that are kept elsewhere. */

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
    SW_TRY(swi_given(out != NULL, "out", "sw_member_seed"));
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
    const packed_head head =
        SW_INIT(.layout = m->shape->layout_hash, .state_bytes = m->opts.state_bytes,
                .seed = slot->seed, .steps = slot->steps, .batches = slot->batches,
                .damaged = slot->damaged);
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

/* Shared by the groups of an exec: the ranges of their members. */

sw_status swi_member_pool_arena(sw_arena **out, const sw_exec *exec, const char *label,
                                sw_arena_use use)
{
    const swi_target *target = swi_target_of(exec);
    sw_store *store;
    SW_TRY(swi_device_store(target->device, &store, 0));
    const sw_arena_opts opts = {
        .label = label, .use = use, .store = store, .budget = target->budget};
    return sw_arena_create(out, &opts);
}

static void end(swi_member_pool *c)
{
    SW_ASSERT(c->groups == NULL && c->lanes == NULL);
    sw_arena_destroy(c->ranges);
    sw_heap_free(c, SW_HEAP_RECORDS, sizeof *c);
}

sw_status swi_member_pool_join(sw_members *m, sw_exec *exec)
{
    if (exec->member_pool == NULL) {
        swi_member_pool **out = &exec->member_pool;
        swi_member_pool *c;
        SW_TRY(sw_heap_alloc(&c, SW_HEAP_RECORDS, sizeof(swi_member_pool)));
        *c = (swi_member_pool){.exec = exec};
        const sw_status status =
            swi_member_pool_arena(&c->ranges, exec, "members", SW_ARENA_MODEL);
        if (status != SW_OK)
            end(c);
        else
            *out = c;
        SW_TRY(status);
    }
    m->member_pool = exec->member_pool;
    m->member_pool->users++;
    m->next = m->member_pool->groups;
    m->member_pool->groups = m;
    return SW_OK;
}

void swi_member_pool_leave(sw_members *m)
{
    swi_member_pool *c = m->member_pool;
    if (c == NULL)
        return;
    sw_members **at = &c->groups;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->member_pool = NULL;
    if (--c->users > 0)
        return;
    c->exec->member_pool = NULL;
    end(c);
}

/* With a budget a hole is bytes of it; few members are moved in no time. */
#define FEW 1024

/* ---- ranges ------------------------------------------------------------------------------ */

typedef struct {
    sw_members *of;
    uint32_t slot;
    size_t offset;
} range;

SW_ORDER(by_offset, range, SW_RISES(offset), 0)

static size_t list_ranges(const swi_member_pool *c, range *list)
{
    size_t n = 0;
    for (sw_members *m = c->groups; m != NULL; m = m->next)
        for (uint32_t i = 0; i < m->n_slots; i++)
            if (m->slots[i].taken) {
                if (list != NULL)
                    list[n] = (range){m, i, m->slots[i].offset};
                n++;
            }
    return n;
}

static sw_status move_on_device(swi_device *device, unsigned char *to,
                                const unsigned char *from, size_t bytes)
{
    enum { MOST_PIECES = 64 };
    const size_t way = (size_t)(from - to);
    if (way < bytes / MOST_PIECES) {
        /* In pieces, front to back: those of a device are no longer than the way, since a
         * copy may not run into itself; where that is short they go by host memory. */
        const size_t piece = bytes < SWI_PIECE_BYTES ? bytes : SWI_PIECE_BYTES;
        sw_status status = SW_OK;
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, piece));
        for (size_t at = 0; at < bytes && status == SW_OK; at += piece) {
            const size_t n = bytes - at < piece ? bytes - at : piece;
            status = swi_device_read(device, block, from + at, n);
            if (status == SW_OK)
                status = swi_device_write(device, to + at, block, n);
        }
        sw_heap_free(block, SW_HEAP_RECORDS, piece);
        return status;
    }
    for (size_t at = 0; at < bytes; at += way)
        SW_TRY(
            swi_device_copy(device, to + at, from + at, bytes - at < way ? bytes - at : way));
    return SW_OK;
}

/* A range moves down, over its own bytes where it is longer than its way. */
static sw_status move_down(const swi_member_pool *c, size_t to, size_t from, size_t bytes)
{
    swi_device *device = swi_target_of(c->exec)->device;
    unsigned char *base = sw_arena_base(c->ranges);
    SW_ASSERT(to <= from);
    if (to == from)
        return SW_OK;
    if (!device->backend->host_memory)
        return move_on_device(device, base + to, base + from, bytes);
    memmove(base + to, base + from, bytes);
    return SW_OK;
}

static sw_status move_all(swi_member_pool *c, const range *list, size_t n)
{
    size_t top = 0;
    for (size_t i = 0; i < n; i++) {
        swi_slot_record *slot = &list[i].of->slots[list[i].slot];
        const sw_status status = move_down(c, top, list[i].offset, list[i].of->stride);
        if (status != SW_OK) {
            slot->damaged |= status == SW_DEVICE;
            return status;
        }
        slot->offset = top;
        top += list[i].of->stride;
    }
    c->top = top;
    return SW_OK;
}

/* All that live move down, in their order, until there is no hole. */
static sw_status close_holes(swi_member_pool *c)
{
    range *list;
    const size_t n = list_ranges(c, NULL);
    SW_TRY(sw_heap_alloc(&list, SW_HEAP_RECORDS, (n + 1) * sizeof(range)));
    list_ranges(c, list);
    qsort(list, n, sizeof *list, by_offset);
    const sw_status status = move_all(c, list, n);
    sw_heap_free(list, SW_HEAP_RECORDS, (n + 1) * sizeof(range));
    /* Free slots have no range from then on. */
    for (sw_members *m = c->groups; m != NULL; m = m->next)
        for (uint32_t i = 0; i < m->n_slots; i++)
            if (!m->slots[i].taken)
                m->slots[i].offset = SWI_NO_RANGE;
    return status;
}

static sw_status grow_to(swi_member_pool *c, size_t bytes, size_t *offset)
{
    size_t end_of_it;
    if (!sw_size_add(c->top, bytes, &end_of_it))
        SW_FAIL(SW_NOMEM, "members: a range of %zu bytes overflows", bytes);
    SW_TRY(sw_arena_grow(c->ranges, end_of_it, true));
    *offset = c->top;
    c->top = end_of_it;
    if (swi_target_of(c->exec)->device->backend->host_memory)
        sw_unpoison((unsigned char *)sw_arena_base(c->ranges) + *offset, bytes);
    return SW_OK;
}

sw_status swi_member_pool_range(swi_member_pool *c, size_t bytes, size_t *offset)
{
    const size_t height = sw_arena_height(c->ranges), holes = c->top - c->live;
    const bool tight = swi_target_of(c->exec)->budget != NULL || c->n_live <= FEW;
    const bool large = holes >= bytes && holes >= height / 4;
    if (c->top + bytes > height && holes > 0 && (tight || large))
        SW_TRY(close_holes(c));
    const sw_status status = grow_to(c, bytes, offset);
    if (status != SW_NOMEM)
        return status;
    const size_t top = c->top;
    SW_TRY(close_holes(c));
    return c->top < top ? grow_to(c, bytes, offset) : status;
}

/* Members in checkpoints: which slots they have, and what stands in their records. */

/* The list of a checkpoint, in one block. */
typedef struct {
    sw_members *of;
    size_t bytes; /* of the block */
    uint32_t n;
    uint32_t *slots, *generations;
    size_t places[];
} kept;

static sw_status check(const void *owner, const char *call)
{
    const kept *l = owner;
    SW_TRY(sw_handle_check(l->of, SW_HANDLE_MEMBERS, call));
    if (l->of->exec->busy != 0) /* they are in the middle of a step */
        SW_FAIL(SW_BUSY, "%s: the exec of members is in use by %s", call,
                swi_owner_text(&l->of->exec->busy));
    for (uint32_t k = 0; k < l->n; k++)
        if (l->of->slots[l->slots[k]].generation != l->generations[k])
            SW_FAIL(SW_INVALID, "%s: member %u of %s was ended", call, k, l->of->shape->name);
    return SW_OK;
}

/* Ranges move when others come and go. */
static unsigned char *base(void *owner)
{
    kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++)
        l->places[k] = l->of->slots[l->slots[k]].offset;
    return sw_arena_base(l->of->member_pool->ranges);
}

static void read_records(const void *owner, swi_stack_record *to)
{
    const kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++) {
        const swi_slot_record *slot = &l->of->slots[l->slots[k]];
        to[k] = (swi_stack_record){slot->seed, slot->steps, slot->batches, slot->damaged};
    }
}

static void write_records(void *owner, const swi_stack_record *from)
{
    const kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++) {
        swi_slot_record *slot = &l->of->slots[l->slots[k]];
        slot->seed = from[k].seed;
        slot->steps = from[k].steps;
        slot->batches = from[k].batches;
        slot->damaged = from[k].damaged != 0;
    }
}

static void end_checkpoint(void *owner)
{
    kept *l = owner;
    sw_heap_free(l, SW_HEAP_RECORDS, l->bytes);
}

static sw_status keep(kept **out, sw_members *m, const sw_member *list, size_t n)
{
    size_t bytes;
    kept *l;
    if (n > UINT32_MAX / 8 || !sw_size_mul(n, sizeof(size_t) + 2 * sizeof(uint32_t), &bytes) ||
        !sw_size_add(bytes, sizeof(kept), &bytes))
        SW_FAIL(SW_INVALID, "sw_checkpoint_members: %zu members are too many", n);
    SW_TRY(sw_heap_alloc(&l, SW_HEAP_RECORDS, bytes));
    l->of = m;
    l->bytes = bytes;
    l->n = (uint32_t)n;
    l->slots = (uint32_t *)(void *)(l->places + n);
    l->generations = l->slots + n;
    for (size_t k = 0; k < n; k++) {
        l->slots[k] = list[k].index;
        l->generations[k] = list[k].generation;
    }
    *out = l;
    return SW_OK;
}

sw_status sw_checkpoint_members(sw_checkpoint *c, sw_members *m, const sw_member *list,
                                size_t n)
{
    kept *l = NULL;
    SW_TRY(sw_handle_check(c, SW_HANDLE_CHECKPOINT, __func__));
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    if (!swi_members_on_host(m))
        SW_FAIL(SW_UNSUPPORTED,
                "%s: members of %s lie in the memory of a device: pack them (sw_member_pack) "
                "and keep the bytes (sw_checkpoint_put)",
                __func__, m->shape->name);
    SW_TRY(swi_members_check_list(m, list, n, __func__));
    SW_TRY(keep(&l, m, list, n));
    const swi_stack_source source =
        SW_INIT(.exec = m->exec, .shape = &m->shape, .n = l->n, .stride = m->stride,
                .state_at = m->model_bytes, .state_bytes = m->opts.state_bytes,
                .places = l->places, .owner = l, .check = check, .base = base,
                .read = read_records, .write = write_records, .end = end_checkpoint);
    const sw_status status = swi_checkpoint_stack(c, &source, __func__);
    if (status != SW_OK)
        end_checkpoint(l);
    return status;
}
