/* Groups of members: ranges of one arena, each with the layout of the shape. */
#include "runtime/population/members_internal.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/device/device.h"
#include <string.h>

#define NO_SLOT UINT32_MAX

sw_status swi_member_check(sw_member member, const char *call)
{
    SW_TRY(sw_handle_check(member.of, SW_HANDLE_MEMBERS, call));
    return swi_member_look(member, call);
}

sw_status swi_member_look(sw_member member, const char *call)
{
    SW_TRY(sw_handle_look(member.of, SW_HANDLE_MEMBERS, call));
    if (member.index >= member.of->n_slots || member.generation % 2 == 0 ||
        member.of->slots[member.index].generation != member.generation)
        SW_FAIL(SW_INVALID, "%s: the member was ended, or never was one", call);
    return SW_OK;
}

/* ---- slots ------------------------------------------------------------------------------- */

/* A new one, or the free one that is next. */
static sw_status pick_slot(sw_members *m, uint32_t *out)
{
    if (m->first_free != NO_SLOT) {
        *out = m->first_free;
        m->first_free = m->slots[*out].next_free;
        return SW_OK;
    }
    void *slots = m->slots;
    SW_TRY(swi_member_knob_room(m));
    SW_TRY(sw_heap_reserve(&slots, SW_HEAP_RECORDS, &m->cap_slots, m->n_slots + 1,
                           sizeof *m->slots));
    m->slots = slots;
    *out = m->n_slots++;
    m->slots[*out] = (swi_slot_record){.offset = SWI_NO_RANGE};
    return SW_OK;
}

sw_status swi_slot_take(sw_members *m, uint32_t *out)
{
    uint32_t index;
    SW_TRY(pick_slot(m, &index));
    if (m->slots[index].offset == SWI_NO_RANGE) {
        const sw_status status =
            swi_member_pool_range(m->member_pool, m->stride, &m->slots[index].offset);
        if (status != SW_OK) {
            swi_slot_give(m, index);
            return status;
        }
    }
    m->slots[index].taken = true;
    m->member_pool->live += m->stride;
    m->member_pool->n_live++;
    *out = index;
    return SW_OK;
}

void swi_slot_give(sw_members *m, uint32_t index)
{
    if (m->slots[index].taken) {
        m->member_pool->live -= m->stride;
        m->member_pool->n_live--;
    }
    m->slots[index].taken = false;
    m->slots[index].next_free = m->first_free;
    m->first_free = index;
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status measure(sw_members *m)
{
    size_t state;
    SW_TRY(sw_model_bytes(m->shape, &m->model_bytes));
    if (!sw_size_align(m->opts.state_bytes, SW_ALIGN, &state) ||
        !sw_size_add(m->model_bytes, state, &m->stride))
        SW_FAIL(SW_NOMEM, "sw_members_create: state_bytes of %zu overflow",
                m->opts.state_bytes);
    if (m->stride == 0)
        m->stride = SW_ALIGN;
    return SW_OK;
}

static sw_status make(sw_members *m)
{
    void *block;
    m->first_free = NO_SLOT;
    SW_TRY(measure(m));
    SW_TRY(swi_member_pool_join(m, m->exec));
    SW_TRY(swi_lanes_take(&m->lanes, m->member_pool, m->opts.threads));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, m->shape->n_knobs * sizeof *m->first_knobs));
    m->first_knobs = block;
    m->n_first_knobs = m->shape->n_knobs;
    for (uint32_t i = 0; i < m->n_first_knobs; i++)
        m->first_knobs[i] = m->shape->knobs[i].value;
    if (swi_members_on_host(m))
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, m->n_first_knobs * sizeof *m->knobs));
    m->knobs = block;
    return SW_OK;
}

static void free_program(const sw_members *m, swi_group_program *p)
{
    for (int i = 0; i < m->lanes->n && p->frame != NULL; i++)
        swi_frame_free(p->frame[i]);
    sw_heap_free(p->frame, SW_HEAP_PROGRAMS, (size_t)m->lanes->n * sizeof(void *));
    swi_exec_drop_frame(m->lanes->planner, p->planned);
}

void swi_members_free(sw_members *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->n_programs; i++)
        free_program(m, &m->programs[i]);
    sw_heap_free(m->programs, SW_HEAP_PROGRAMS, m->cap_programs * sizeof *m->programs);
    for (uint32_t i = 0; i < m->n_slots; i++)
        if (m->slots[i].taken)
            swi_slot_give(m, i);
    swi_lanes_give(m->member_pool, m->lanes);
    swi_member_pool_leave(m);
    sw_heap_free(m->first_knobs, SW_HEAP_RECORDS, m->n_first_knobs * sizeof *m->first_knobs);
    sw_heap_free(m->knobs, SW_HEAP_RECORDS, m->n_first_knobs * sizeof *m->knobs);
    sw_heap_free(m->knob_copies, SW_HEAP_RECORDS, m->cap_knob_copies * sizeof *m->knob_copies);
    sw_heap_free(m->slots, SW_HEAP_RECORDS, m->cap_slots * sizeof *m->slots);
    sw_heap_free(m->metrics, SW_HEAP_RECORDS, m->cap_metrics * sizeof *m->metrics);
    sw_heap_free(m->sums, SW_HEAP_RECORDS, m->cap_sums * sizeof *m->sums);
    sw_heap_free(m->made, SW_HEAP_RECORDS, m->cap_made * sizeof *m->made);
    sw_heap_free(m->ended, SW_HEAP_RECORDS, m->cap_ended * sizeof *m->ended);
    sw_handle_give(m, SW_HANDLE_MEMBERS, sizeof *m);
}

/* Callbacks and threads of a member are for the CPU alone. */
static sw_status check_device(const swi_device *device, const sw_members_opts *o,
                              const char *call)
{
    char name[24];
    const char *what = o->callback != NULL ? "callbacks" : "threads of a member";
    if (device->backend->host_memory || (o->callback == NULL && o->threads <= 1))
        return SW_OK;
    SW_FAIL(SW_UNSUPPORTED,
            "%s: %s are of the CPU alone: on %s members run one after the other in a stream",
            call, what, swi_device_name(device, name, sizeof name));
}

static sw_status check(const sw_exec *exec, sw_members_opts *o, const char *call)
{
    const int threads = swi_target_of(exec)->threads;
    SW_TRY(sw_handle_check(o->shape, SW_HANDLE_MODEL, call));
    if ((o->fn == NULL) == (o->callback == NULL))
        SW_FAIL(SW_INVALID, "%s: give a step function or a callback, one of them", call);
    if (o->state_bytes > 0 && o->callback == NULL)
        SW_FAIL(SW_INVALID, "%s: state_bytes (got %zu) are of callbacks alone", call,
                o->state_bytes);
    if (o->threads == 0)
        o->threads = 1;
    SW_TRY(check_device(swi_target_of(exec)->device, o, call));
    if (o->threads < 1 || o->threads > threads)
        SW_FAIL(SW_INVALID, "%s: threads must be 1 to %d, as many as the exec has (got %d)",
                call, threads, o->threads);
    return SW_OK;
}

sw_status sw_members_create(sw_members **out, sw_exec *exec, const sw_members_opts *given)
{
    static const char call[] = "sw_members_create";
    sw_members_opts opts;
    void *block;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_opts, &opts, given, call));
    SW_TRY(check(exec, &opts, call));
    SW_TRY(sw_handle_take(&block, SW_HANDLE_MEMBERS, sizeof(sw_members)));
    sw_members *m = block;
    m->exec = exec;
    m->shape = opts.shape;
    m->opts = opts;
    const sw_status status = make(m);
    if (status != SW_OK)
        swi_members_free(m);
    else
        *out = m;
    return status;
}

void sw_members_destroy(sw_members *m)
{
    static const char call[] = "sw_members_destroy";
    if (sw_handle_ends(m, SW_HANDLE_MEMBERS, call))
        swi_members_free(m);
}

sw_status sw_members_used(const sw_members *m, sw_members_memory *out)
{
    static const char call[] = "sw_members_used";
    SW_TRY(sw_handle_look(m, SW_HANDLE_MEMBERS, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_members_memory, out->size, call));
    const sw_members_memory used = {.size = out->size,
                                    .lanes = m->lanes->n,
                                    .lane_bytes = swi_lanes_bytes(m->member_pool),
                                    .range_bytes = sw_arena_height(m->member_pool->ranges),
                                    .live_bytes = m->member_pool->live,
                                    .step_bytes = swi_lanes_step_bytes(m->member_pool),
                                    .batch_bytes = swi_lanes_batch_bytes(m->member_pool)};
    swi_struct_write(SWI_STRUCT_sw_members_memory, out, &used);
    return SW_OK;
}

size_t sw_members_count(const sw_members *m)
{
    return sw_handle_look(m, SW_HANDLE_MEMBERS, "sw_members_count") == SW_OK ? m->n_members : 0;
}

size_t sw_members_bytes(const sw_members *m)
{
    return sw_handle_look(m, SW_HANDLE_MEMBERS, "sw_members_bytes") == SW_OK ? m->stride : 0;
}
