/* Members: ranges of one arena, each with the layout of the shape. */
#include "runtime/population/members_internal.h"
#include "alloc/base/assert.h"
#include "alloc/base/poison.h"
#include "kernels/dispatch.h"
#include "runtime/device/device.h"
#include <string.h>

#define NO_SLOT UINT32_MAX

unsigned char *swi_member_base(const sw_members *m, uint32_t index)
{
    SW_ASSERT(index < m->n_slots);
    return (unsigned char *)sw_arena_base(m->arena) + (size_t)index * m->stride;
}

sw_status swi_member_check(sw_member member, const char *call)
{
    SW_TRY(sw_handle_check(member.of, SW_HANDLE_MEMBERS, call));
    if (member.index >= member.of->n_slots || member.generation % 2 == 0 ||
        member.of->slots[member.index].generation != member.generation)
        SW_FAIL(SW_INVALID, "%s: the member was ended, or never was one", call);
    return SW_OK;
}

sw_status swi_members_enter(sw_members *m, const sw_run_args *args, const void *frame)
{
    return swi_enter(m->exec, args, frame);
}

void swi_members_leave(sw_members *m, const sw_run_args *args)
{
    swi_leave(m->exec, args);
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status make_arena(sw_members *m, sw_arena **out, const char *label, sw_arena_use use)
{
    const swi_target *target = swi_target_of(m->exec);
    sw_store *store;
    SW_TRY(swi_device_store(target->device, &store, 0));
    const sw_arena_opts opts = {
        .label = label, .use = use, .store = store, .budget = target->budget};
    const sw_status status = sw_arena_create(out, &opts);
    if (status != SW_OK)
        sw_store_destroy(store);
    return status;
}

/* Traces and plans with one thread; nothing ever runs in its arena. */
static sw_status make_planner(sw_members *m)
{
    const swi_target *target = swi_target_of(m->exec);
    sw_exec_opts opts = target->opts;
    opts.device = NULL;
    opts.threads = 1;
    opts.budget = NULL;
    opts.profile = NULL;
    opts.isa = sw_isa_name(target->isa);
    opts.nvtx = SW_NVTX_OFF;
    opts.checks = opts.op_clocks = opts.shares = 0;
    return swi_exec_create(&m->planner, &opts);
}

static sw_status make_lanes(sw_members *m)
{
    void *block;
    const int n = swi_target_of(m->exec)->threads;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof *m->lanes));
    m->lanes = block;
    m->n_lanes = n;
    for (int i = 0; i < n; i++)
        SW_TRY(make_arena(m, &m->lanes[i].arena, "member's step", SW_ARENA_STEP));
    return SW_OK;
}

static sw_status make(sw_members *m, const sw_members_opts *o)
{
    void *block;
    m->shape = o->shape;
    m->fn = o->fn;
    m->user = o->user;
    m->first_free = NO_SLOT;
    SW_TRY(sw_model_bytes(o->shape, &m->stride));
    SW_TRY(make_planner(m));
    SW_TRY(make_lanes(m));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, o->shape->n_knobs * sizeof *m->first_knobs));
    m->first_knobs = block;
    m->n_first_knobs = o->shape->n_knobs;
    for (uint32_t i = 0; i < o->shape->n_knobs; i++)
        m->first_knobs[i] = o->shape->knobs[i].value;
    return make_arena(m, &m->arena, "members", SW_ARENA_MODEL);
}

static void free_lane(const sw_members *m, swi_lane *lane)
{
    for (uint32_t i = 0; i < m->n_programs && i < lane->cap_frames; i++)
        swi_frame_free(lane->frames[i]);
    sw_heap_free(lane->frames, SW_HEAP_PROGRAMS, lane->cap_frames * sizeof(void *));
    sw_arena_destroy(lane->arena);
}

static void end(sw_members *m)
{
    for (int i = 0; i < m->n_lanes; i++)
        free_lane(m, &m->lanes[i]);
    sw_heap_free(m->lanes, SW_HEAP_RECORDS, (size_t)m->n_lanes * sizeof *m->lanes);
    sw_heap_free(m->programs, SW_HEAP_PROGRAMS, m->cap_programs * sizeof(void *));
    sw_exec_destroy(m->planner); /* the programs are its own */
    sw_arena_destroy(m->arena);
    sw_heap_free(m->first_knobs, SW_HEAP_RECORDS, m->n_first_knobs * sizeof *m->first_knobs);
    sw_heap_free(m->slots, SW_HEAP_RECORDS, m->cap_slots * sizeof *m->slots);
    sw_heap_free(m->metrics, SW_HEAP_RECORDS, m->cap_metrics * sizeof *m->metrics);
    sw_heap_free(m->ended, SW_HEAP_RECORDS, m->cap_ended * sizeof *m->ended);
    sw_handle_give(m, SW_HANDLE_MEMBERS, sizeof *m);
}

sw_status sw_members_create(sw_members **out, sw_exec *exec, const sw_members_opts *given)
{
    static const char call[] = "sw_members_create";
    sw_members_opts opts;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_opts, &opts, given, call));
    SW_TRY(sw_handle_check(opts.shape, SW_HANDLE_MODEL, call));
    if (opts.fn == NULL)
        SW_FAIL(SW_INVALID, "%s: the step function must not be NULL", call);
    if (!swi_target_of(exec)->device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "%s: members run on the CPU alone", call);
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_MEMBERS, sizeof(sw_members)));
    sw_members *m = block;
    m->exec = exec;
    m->shape = opts.shape;
    const sw_status status = make(m, &opts);
    if (status != SW_OK) {
        end(m);
        return status;
    }
    *out = m;
    return SW_OK;
}

void sw_members_destroy(sw_members *m)
{
    static const char call[] = "sw_members_destroy";
    if (sw_handle_ends(m, SW_HANDLE_MEMBERS, call) && swi_may_destroy(call, SWI_FRAME))
        end(m);
}

size_t sw_members_count(const sw_members *m)
{
    return sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_members_count") == SW_OK ? m->n_members
                                                                              : 0;
}

size_t sw_members_bytes(const sw_members *m)
{
    return sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_members_bytes") == SW_OK ? m->stride : 0;
}

/* ---- members ----------------------------------------------------------------------------- */

static float *knobs_of(const sw_members *m, uint32_t index)
{
    const swi_entry *entry = &m->shape->entries[m->shape->knob_entry];
    return (float *)(void *)(swi_member_base(m, index) + entry->offset);
}

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
        memcpy(knobs_of(m, index), m->first_knobs, model.n_knobs * sizeof *m->metrics);
    return SW_OK;
}

static sw_status take_slot(sw_members *m, uint32_t *out)
{
    if (m->first_free != NO_SLOT) {
        *out = m->first_free;
        m->first_free = m->slots[*out].next_free;
        return SW_OK;
    }
    void *slots = m->slots;
    SW_TRY(sw_heap_reserve(&slots, SW_HEAP_RECORDS, &m->cap_slots, m->n_slots + 1,
                           sizeof *m->slots));
    m->slots = slots;
    SW_TRY(sw_arena_grow(m->arena, ((size_t)m->n_slots + 1) * m->stride, true));
    *out = m->n_slots++;
    sw_unpoison(swi_member_base(m, *out), m->stride);
    return SW_OK;
}

static void give_slot(sw_members *m, uint32_t index)
{
    m->slots[index].next_free = m->first_free;
    m->first_free = index;
}

sw_status sw_member_new(sw_member *out, sw_members *m, uint64_t seed)
{
    uint32_t index;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_member_new: out must not be NULL");
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_member_new"));
    SW_TRY(take_slot(m, &index));
    const sw_status status = begin(m, index, seed);
    if (status != SW_OK) {
        give_slot(m, index);
        return status;
    }
    swi_slot_record *slot = &m->slots[index];
    slot->seed = seed;
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
    give_slot(member.of, member.index);
}

sw_status sw_member_copy(sw_member to, sw_member from)
{
    static const char call[] = "sw_member_copy";
    SW_TRY(swi_member_check(to, call));
    SW_TRY(swi_member_check(from, call));
    if (to.of->shape->layout_hash != from.of->shape->layout_hash ||
        to.of->stride != from.of->stride)
        SW_FAIL(SW_INVALID, "%s: %s and %s have different layouts", call, to.of->shape->name,
                from.of->shape->name);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to copy from failed behind an update", call);
    if (to.of != from.of || to.index != from.index)
        memcpy(swi_member_base(to.of, to.index), swi_member_base(from.of, from.index),
               to.of->stride);
    to.of->slots[to.index].damaged = false;
    return SW_OK;
}

/* ---- to and from models ------------------------------------------------------------------ */

static sw_status check_model(const sw_members *m, const sw_model *model, const char *call)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, call));
    if (!model->ready || model->layout_hash != m->shape->layout_hash ||
        model->bytes != m->stride)
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
    memcpy(to->base, swi_member_base(from.of, from.index), from.of->stride);
    for (uint32_t i = 0; i < to->n_knobs; i++) {
        to->knobs[i].value = knobs_of(from.of, from.index)[i];
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
    memcpy(swi_member_base(to.of, to.index), from->base, to.of->stride);
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
    *out = knobs_of(member.of, member.index) + knob.index;
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
    for (uint32_t i = 0; i < m->shape->n_knobs; i++)
        SW_TRY(check_knob(m->shape, i, knobs_of(m, index)[i], "sw_members_run"));
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
