/* Groups of members: ranges of one arena, each with the layout of the shape. */
#include "alloc/base/size.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include "runtime/population/members_internal.h"
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
    SW_TRY(swi_member_knob_room(m));
    SW_TRY(sw_heap_reserve(&m->slots, SW_HEAP_RECORDS, &m->cap_slots, m->n_slots + 1));
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

static sw_status make(sw_members *m)
{
    m->first_free = NO_SLOT;
    size_t state;
    SW_TRY(sw_model_bytes(m->shape, &m->model_bytes));
    if (!sw_size_align(m->opts.state_bytes, SW_ALIGN, &state) ||
        !sw_size_add(m->model_bytes, state, &m->stride))
        SW_FAIL(SW_NOMEM, "sw_members_create: state_bytes of %zu overflow",
                m->opts.state_bytes);
    if (m->stride == 0)
        m->stride = SW_ALIGN;

    SW_TRY(swi_member_pool_join(m, m->exec));
    SW_TRY(swi_lanes_take(&m->lanes, m->member_pool, m->opts.threads));
    SW_TRY(sw_heap_alloc(&m->first_knobs, SW_HEAP_RECORDS,
                         m->shape->n_knobs * sizeof *m->first_knobs));
    m->n_first_knobs = m->shape->n_knobs;
    for (uint32_t i = 0; i < m->n_first_knobs; i++)
        m->first_knobs[i] = m->shape->knobs[i].value;
    return swi_members_on_host(m)
               ? SW_OK
               : sw_heap_alloc(&m->knobs, SW_HEAP_RECORDS, m->n_first_knobs * sizeof *m->knobs);
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

sw_status sw_members_create(sw_members **out, sw_exec *exec, const sw_members_opts *given)
{
    sw_members_opts opts;
    sw_members *m;
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_opts, &opts, given, __func__));
    const int threads = swi_target_of(exec)->threads;
    if (swi_target_of(exec)->shards > 1)
        SW_FAIL(SW_UNSUPPORTED, "%s: an exec with shards or ranks has no members", __func__);
    SW_TRY(sw_handle_check(opts.shape, SW_HANDLE_MODEL, __func__));
    if ((opts.fn == NULL) == (opts.callback == NULL))
        SW_FAIL(SW_INVALID, "%s: give a step function or a callback, one of them", __func__);
    if (opts.state_bytes > 0 && opts.callback == NULL)
        SW_FAIL(SW_INVALID, "%s: state_bytes (got %zu) are of callbacks alone", __func__,
                opts.state_bytes);
    for (uint32_t i = 1; i < opts.shape->n_entries; i++)
        if (opts.shape->entries[i].weights)
            SW_FAIL(SW_UNSUPPORTED, "%s: members have no frozen weights (sw_weights_new): '%s'",
                    __func__, opts.shape->entries[i].name);
    if (opts.threads == 0)
        opts.threads = 1;
    SW_TRY(check_device(swi_target_of(exec)->device, &opts, __func__));
    if (opts.threads < 1 || opts.threads > threads)
        SW_FAIL(SW_INVALID, "%s: threads must be 1 to %d, as many as the exec has (got %d)",
                __func__, threads, opts.threads);

    SW_TRY(sw_handle_take(&m, SW_HANDLE_MEMBERS, sizeof(sw_members)));
    m->exec = exec;
    m->shape = opts.shape;
    m->opts = opts;
    const sw_status status = make(m);
    return SW_GIVE(status, out, m, swi_members_free);
}

void sw_members_destroy(sw_members *m)
{
    if (sw_handle_ends(m, SW_HANDLE_MEMBERS, __func__))
        swi_members_free(m);
}

sw_status sw_members_used(const sw_members *m, sw_members_memory *out)
{
    SW_TRY(sw_handle_look(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_members_memory, out, __func__));
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

/* Before a run of members: its arguments, the programs of the shape, the memory. */

/* ---- arguments --------------------------------------------------------------------------- */

sw_status swi_members_check_list(sw_members *m, const sw_member *list, size_t n,
                                 const char *call)
{
    if (n == 0 || list == NULL)
        SW_FAIL(SW_INVALID, "%s: at least one member must be given", call);
    m->n_runs++;
    for (size_t k = 0; k < n; k++) {
        const sw_member member = list[k];
        SW_TRY(swi_member_check(member, call));
        if (member.of != m)
            SW_FAIL(SW_INVALID, "%s: member %zu belongs to others", call, k);
        swi_slot_record *slot = &m->slots[member.index];
        if (slot->used == m->n_runs)
            SW_FAIL(SW_INVALID, "%s: member %zu is named twice", call, k);
        slot->used = m->n_runs;
    }
    return SW_OK;
}

static bool same_array(const sw_array *a, const sw_array *b)
{
    bool same = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int d = 0; same && d < a->shape.rank; d++)
        same = a->shape.dim[d] == b->shape.dim[d];
    return same;
}

static sw_status check_own_inputs(const sw_members_args *a, const char *call)
{
    for (size_t k = 1; a->own_inputs && k < a->n; k++)
        for (int i = 0; i < a->n_inputs; i++) {
            const sw_array *its = &a->inputs[k * (size_t)a->n_inputs + (size_t)i];
            if (!same_array(its, &a->inputs[i]) || its->data == NULL)
                SW_FAIL(SW_INVALID,
                        "%s: input %d of member %zu must have the type and shape of member "
                        "0's, and data",
                        call, i, k);
        }
    return SW_OK;
}

static sw_status read_args(sw_members *m, const sw_members_args *given, bool with_data,
                           const char *call)
{
    swi_group_run *r = &m->run;
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(sw_handle_check(m->exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_args, &r->args, given, call));
    if (with_data || r->args.n > 0)
        SW_TRY(swi_members_check_list(m, r->args.members, r->args.n, call));
    const bool data = r->args.feed != NULL || r->args.n_inputs > 0;
    if (m->opts.callback != NULL && data)
        SW_FAIL(SW_INVALID, "%s: callbacks get no inputs and no feed", call);
    if (r->args.feed != NULL)
        SW_TRY(sw_handle_check(r->args.feed, SW_HANDLE_FEED, call));
    if (r->args.feed != NULL && (r->args.n_inputs > 0 || r->args.own_inputs))
        SW_FAIL(SW_INVALID, "%s: give inputs or a feed, not both", call);
    if (r->args.steps > 1 && r->args.feed == NULL && m->opts.callback == NULL)
        SW_FAIL(SW_INVALID, "%s: steps (got %u) beyond 1 need a feed", call, r->args.steps);

    if (r->args.steps == 0)
        r->args.steps = 1;
    if (m->opts.callback != NULL)
        return SW_OK;
    const sw_run_args of_one =
        SW_OPTS(sw_run_args, .fn = m->opts.fn, .user = m->opts.user,
                .models = (sw_model *const *)&m->shape, .n_models = 1, .inputs = r->args.inputs,
                .n_inputs = r->args.n_inputs, .mode = r->args.mode, .variant = r->args.variant,
                .step = r->args.step, .run = r->args.run);
    SW_TRY(swi_read_args(&r->of_one, &of_one, with_data && r->args.feed == NULL, call));
    return with_data ? check_own_inputs(&r->args, call) : SW_OK;
}

/* ---- programs ---------------------------------------------------------------------------- */

static sw_status make_frames(const sw_members *m, swi_group_program *p)
{
    if (!swi_members_on_host(m)) /* they run in the planner's frame */
        return SW_OK;
    SW_TRY(sw_heap_alloc(&p->frame, SW_HEAP_PROGRAMS, (size_t)m->lanes->n * sizeof(void *)));
    for (int i = 0; i < m->lanes->n; i++)
        SW_TRY(swi_frame_create(&p->frame[i], p->planned->program));
    return SW_OK;
}

/* The group's, held from now on, with a frame in each lane. */
static sw_status keep_program(sw_members *m, swi_frame *planned, uint32_t *out)
{
    for (uint32_t i = 0; i < m->n_programs; i++)
        if (m->programs[i].planned == planned) {
            *out = i;
            return SW_OK;
        }
    SW_TRY(
        sw_heap_reserve(&m->programs, SW_HEAP_PROGRAMS, &m->cap_programs, m->n_programs + 1));
    swi_group_program p = {.planned = planned};
    const sw_status status = make_frames(m, &p);
    if (status != SW_OK) {
        for (int i = 0; i < m->lanes->n && p.frame != NULL; i++)
            swi_frame_free(p.frame[i]);
        sw_heap_free(p.frame, SW_HEAP_PROGRAMS, (size_t)m->lanes->n * sizeof(void *));
        return status;
    }
    planned->refs++;
    m->programs[m->n_programs] = p;
    *out = m->n_programs++;
    return SW_OK;
}

/* A step that could not be planned within arena_bytes was planned as low as it can be. */
static sw_status refuse_height(const sw_members *m, const swi_program *p)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    swi_plan_info(p, 0, &info);
    SW_FAIL(SW_NOMEM,
            "members of %s: arena_bytes must be at least %zu for this step (got %zu); the peak "
            "is at %s, held by %s",
            m->shape->name, p->height, m->opts.arena_bytes, info.peak_op, info.holders);
}

SW_FRAME_OWN static sw_status find_program(sw_members *m, const sw_run_args *of_one,
                                           uint32_t *out)
{
    sw_exec *planner = m->lanes->planner;
    swi_frame *planned;
    bool fresh;
    SW_TRY(swi_enter(planner, of_one, SW_FRAME));
    planner->arena_limit = m->opts.arena_bytes != 0 ? m->opts.arena_bytes : SIZE_MAX;
    sw_status status = swi_exec_program(planner, of_one, &planned, &fresh);
    planner->arena_limit = 0;
    if (status == SW_OK && m->opts.arena_bytes != 0 &&
        planned->program->height > m->opts.arena_bytes)
        status = refuse_height(m, planned->program);
    if (status == SW_OK)
        status = keep_program(m, planned, out);
    swi_leave(planner, of_one);
    return status;
}

sw_run_args swi_members_of_one(const sw_members *m, int batch)
{
    const swi_group_run *r = &m->run;
    sw_run_args of_one = r->of_one;
    if (r->args.feed != NULL) {
        of_one.inputs = r->batch[batch];
        of_one.n_inputs = r->args.feed->dataset->n_fields;
    }
    return of_one;
}

static int n_batches(const sw_members *m)
{
    return m->run.args.feed != NULL ? 2 : 1;
}

/* With a feed a full batch and the last of an epoch have a program each. */
static sw_status find_programs(sw_members *m)
{
    swi_group_run *r = &m->run;
    const sw_feed *feed = r->args.feed;
    if (feed == NULL)
        return find_program(m, &r->of_one, &r->program[0]);
    const int64_t rows[2] = {swi_feed_rows(feed, 0),
                             swi_feed_rows(feed, (uint64_t)feed->n_batches - 1)};
    r->full_rows = rows[0];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < feed->dataset->n_fields; i++)
            r->batch[k][i] = swi_feed_array(feed, i, rows[k], NULL);
        if (k == 1 && rows[1] == rows[0]) {
            r->program[1] = r->program[0];
            return SW_OK;
        }
        const sw_run_args of_one = swi_members_of_one(m, k);
        SW_TRY(find_program(m, &of_one, &r->program[k]));
    }
    /* Metrics are one array for all members, whatever batch each is at. */
    const swi_trace *t[2];
    for (int j = 0; j < 2; j++)
        t[j] = &m->programs[m->run.program[j]].planned->program->trace;
    bool same = t[0]->n_metrics == t[1]->n_metrics;
    for (uint32_t i = 0; same && i < t[0]->n_metrics; i++)
        same = strcmp(t[0]->metrics[i].name, t[1]->metrics[i].name) == 0;
    if (!same)
        SW_FAIL(SW_INVALID,
                "members of %s: the step function must have the same metrics for a full batch "
                "and for the last of an epoch, which is smaller",
                m->shape->name);
    return SW_OK;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Steps and inputs of one program, in the exec that members run in. */
SW_FRAME_OWN static sw_status room_on_device(const sw_members *m, int batch)
{
    sw_exec *planner = m->lanes->planner;
    swi_frame *f = m->programs[m->run.program[batch]].planned;
    const sw_run_args of_one = swi_members_of_one(m, batch);
    SW_TRY(swi_enter(planner, &of_one, SW_FRAME));
    sw_status status = sw_arena_grow(planner->arena, f->program->height, true);
    if (status == SW_OK)
        status = planner->backend->room(planner, &of_one, f);
    swi_leave(planner, &of_one);
    return status;
}

static sw_status room_for_results(sw_members *m)
{
    const size_t n = m->run.args.n;
    const uint32_t n_metrics = swi_members_n_metrics(m);
    const size_t all = n * (n_metrics > 0 ? n_metrics : 1);
    if (n > UINT32_MAX / 64 || all > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "%zu members are too many for one run", n);
    SW_TRY(sw_heap_reserve(&m->metrics, SW_HEAP_RECORDS, &m->cap_metrics, (uint32_t)all));
    SW_TRY(sw_heap_reserve(&m->sums, SW_HEAP_RECORDS, &m->cap_sums, (uint32_t)all));
    SW_TRY(sw_heap_reserve(&m->made, SW_HEAP_RECORDS, &m->cap_made, (uint32_t)n));
    return sw_heap_reserve(&m->ended, SW_HEAP_RECORDS, &m->cap_ended, (uint32_t)n);
}

static sw_status prepare(sw_members *m)
{
    m->last = NULL;
    SW_TRY(swi_model_layout(m->shape));
    if (m->opts.callback == NULL) {
        SW_TRY(find_programs(m));
        const swi_group_run *r = &m->run;
        size_t height = 0;
        for (int k = 0; k < n_batches(m); k++) {
            const swi_program *p = m->programs[r->program[k]].planned->program;
            height = p->height > height ? p->height : height;
            SW_TRY(swi_members_on_host(m) ? SW_OK : room_on_device(m, k));
        }
        SW_TRY(
            swi_lanes_grow(m->lanes, height, r->args.feed != NULL ? r->args.feed->bytes : 0));
        m->last = &m->programs[m->run.program[0]].planned->program->trace;
    }
    const sw_status status = room_for_results(m);
    if (status != SW_OK)
        m->last = NULL;
    return status;
}

sw_status swi_members_prepare(sw_members *m, const sw_members_args *given, const char *call)
{
    m->n_last = 0; /* nothing to ask for until a run has ended */
    SW_TRY(read_args(m, given, true, call));
    return prepare(m);
}

sw_status sw_members_plan(sw_members *m, const sw_members_args *given, size_t *out)
{
    const sw_run_args none = {.n_models = 0};
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    m->n_last = 0;
    SW_TRY(read_args(m, given, false, __func__));
    SW_TRY(swi_enter(m->exec, &none, SW_FRAME));
    const sw_status status = prepare(m);
    swi_leave(m->exec, &none);
    if (status == SW_OK && out != NULL)
        *out = swi_lanes_bytes(m->member_pool);
    return status;
}

/* ---- what is needed ---------------------------------------------------------------------- */

/* Bytes that inputs take: a batch in host memory of a lane; on a device what its exec has for
 * all that the group has looked at. */
static size_t data_bytes(sw_members *m)
{
    size_t bytes = m->run.args.feed != NULL ? m->run.args.feed->bytes : 0;
    for (int k = 0; k < n_batches(m) && !swi_members_on_host(m); k++) {
        const swi_trace *t = &m->programs[m->run.program[k]].planned->program->trace;
        const sw_run_args of_one = swi_members_of_one(m, k);
        bytes = m->lanes->planner->backend->data_need(&of_one, t, &m->data_need);
    }
    return bytes;
}

/* Of the programs that were found, the one with the larger arena: full batch (*which 0) or last
 * of an epoch (1). `which` may be NULL. */
static swi_frame *members_larger(const sw_members *m, uint32_t *which)
{
    const swi_group_run *r = &m->run;
    swi_frame *full = m->programs[r->program[0]].planned;
    swi_frame *last = r->args.feed != NULL ? m->programs[r->program[1]].planned : full;
    const bool larger = last->program->height > full->program->height;
    if (which != NULL)
        *which = larger;
    return larger ? last : full;
}

/* Read the arguments of a run without its data, and find its programs; the memory stays. */
static sw_status members_find(sw_members *m, const sw_members_args *given, const char *call)
{
    if (m->opts.callback != NULL)
        SW_FAIL(SW_INVALID, "%s: a callback has no plan", call);
    m->n_last = 0;
    m->last = NULL;
    SW_TRY(read_args(m, given, false, call));
    SW_TRY(swi_model_layout(m->shape));
    return find_programs(m);
}

sw_status sw_members_look(sw_members *m, const sw_members_args *given, sw_plan_info *out)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_plan_info, out, __func__));
    SW_TRY(members_find(m, given, __func__));
    sw_plan_info info = members_larger(m, NULL)->program->info;
    info.model_bytes = m->stride;
    info.data_bytes = data_bytes(m);
    info.total_bytes = info.model_bytes + info.data_bytes + info.arena_bytes;
    swi_struct_write(SWI_STRUCT_sw_plan_info, out, &info);
    return SW_OK;
}

/* The owners of the bytes of members: tensors of a range, plans of steps; for callers and for
 * profiles. */

/* ---- the range --------------------------------------------------------------------------- */

typedef void tensor_fn(void *to, const sw_tensor *tensor);

static sw_tensor range_tensor(uint32_t id, const char *name, const char *layer, swi_role role)
{
    return (sw_tensor)SW_INIT(.id = id, .alias = SW_TENSOR_NONE, .name = name, .layer = layer,
                              .role = swi_role_name(role), .phase = sw_phase_name(SW_DATA),
                              .segment = SW_SEGMENT_MODEL);
}

static void visit_range(const sw_members *m, tensor_fn *fn, void *to)
{
    for (uint32_t i = 1; i < m->shape->n_entries; i++) {
        const swi_entry *e = &m->shape->entries[i];
        char layer[SWI_SHOWN_BYTES];
        swi_entry_layer(NULL, m->shape, e->name, layer);
        sw_tensor x = range_tensor(i, e->name, layer, e->role);
        x.dtype = sw_dtype_name(e->dtype);
        x.bytes = e->bytes;
        x.padding = sw_size_round(e->bytes) - e->bytes;
        x.offset = e->offset;
        if (e->bytes > 0)
            fn(to, &x);
    }
    /* The bytes that a callback has of its own, or those of a range that have no other
     * owner. */
    if (m->stride == m->model_bytes)
        return;
    sw_tensor x = range_tensor(m->shape->n_entries, "state", "", SWI_ROLE_STATE);
    x.bytes = m->opts.state_bytes;
    x.padding = m->stride - m->model_bytes - x.bytes;
    x.offset = m->model_bytes;
    fn(to, &x);
}

static void show_tensor(void *to, const sw_tensor *x)
{
    const sw_plan_visitor *v = to;
    v->storage(v->to,
               &SW_OPTS(sw_plan_storage, .id = x->id, .alias = x->alias, .name = x->name,
                        .layer = x->layer, .role = x->role, .phase = SW_DATA, .bytes = x->bytes,
                        .padding = x->padding, .offset = x->offset, .death = UINT32_MAX));
}

/* ---- calls ------------------------------------------------------------------------------- */

static const sw_run_args no_models = {.n_models = 0};

/* From here on the group's exec refuses calls, until swi_leave(m->exec, &no_models). */
SW_FRAME_CALLER static inline sw_status open_group(sw_members *m, const char *call)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(sw_handle_check(m->exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_enter(m->exec, &no_models, SW_FRAME));
    const sw_status status = swi_model_layout(m->shape);
    if (status != SW_OK)
        swi_leave(m->exec, &no_models);
    return status;
}

static sw_status read_visitor(sw_plan_visitor *out, const sw_plan_visitor *given,
                              const char *call)
{
    SW_TRY(swi_given(given != NULL, "visitor", call));
    return swi_struct_read(SWI_STRUCT_sw_plan_visitor, out, given, call);
}

sw_status sw_members_visit(sw_members *m, const sw_plan_visitor *visitor)
{
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(read_visitor(&v, visitor, __func__));
    SW_TRY(open_group(m, __func__));
    if (v.storage != NULL)
        visit_range(m, show_tensor, &v);
    swi_leave(m->exec, &no_models);
    return SW_OK;
}

sw_status sw_members_visit_step(sw_members *m, const sw_members_args *args,
                                const sw_plan_visitor *visitor)
{
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(read_visitor(&v, visitor, __func__));
    SW_TRY(open_group(m, __func__));
    const sw_status status = members_find(m, args, __func__);
    if (status == SW_OK)
        swi_plan_show(members_larger(m, NULL)->program, &v);
    swi_leave(m->exec, &no_models);
    return status;
}

static sw_status show_shares(sw_members *m, const sw_members_args *given,
                             sw_share_visitor *visitor, void *to, const char *call)
{
    uint32_t which;
    SW_TRY(members_find(m, given, call));
    swi_frame *frame = members_larger(m, &which);
    const sw_run_args args = swi_members_of_one(m, (int)which);
    SW_TRY(swi_program_breakdown(frame, &args));
    swi_breakdown_show(&frame->breakdown, visitor, to);
    return SW_OK;
}

sw_status sw_members_shares(sw_members *m, const sw_members_args *args,
                            sw_share_visitor *visitor, void *to)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(swi_given(visitor != NULL, "visitor", __func__));
    SW_TRY(open_group(m, __func__));
    const sw_status status = show_shares(m, args, visitor, to, __func__);
    swi_leave(m->exec, &no_models);
    return status;
}

/* ---- profiles ---------------------------------------------------------------------------- */

enum { MOST_RUNS = 16 };

/* Lanes number their programs for themselves, as an exec does. */
static uint32_t number_of_lanes(swi_lanes *l, sw_profile *profile)
{
    const uint32_t generation = ((const sw_handle *)(const void *)profile)->generation;
    if (l->profile != profile || l->profile_generation != generation) {
        l->profile = profile;
        l->profile_generation = generation;
        l->profile_number = sw_prof_join(profile);
    }
    return l->profile_number;
}

typedef struct {
    uint32_t program[2 * MOST_RUNS], n;
    size_t batch_bytes;
} programs;

static void write_plans(sw_members *m, sw_profile *to, uint32_t number, programs *all)
{
    const swi_group_run *r = &m->run;
    const uint32_t n = r->args.feed != NULL && r->program[1] != r->program[0] ? 2 : 1;
    if (r->args.feed != NULL && r->args.feed->bytes > all->batch_bytes)
        all->batch_bytes = r->args.feed->bytes;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t id = m->programs[r->program[k]].planned->program->id;
        bool there = false;
        for (uint32_t i = 0; i < all->n; i++)
            there |= all->program[i] == id;
        if (there)
            continue;
        all->program[all->n++] = id;
        const swi_program *p = m->programs[r->program[k]].planned->program;
        const sw_run_args args = swi_members_of_one(m, (int)k);
        const size_t batch = r->args.feed != NULL ? r->args.feed->bytes : 0;
        const sw_prof_plan head = swi_profile_head(number, batch, &args, p);
        (void)swi_profile_program(to, &head, p, &args);
    }
}

static void put_tensor(void *to, const sw_tensor *x)
{
    sw_prof_plan_value(to, x);
}

static const sw_members_args *args_at(const sw_members_args *args, size_t i)
{
    return (const void *)((const char *)args + i * args->size);
}

/* All that can fail is done, for all runs, before the first plan is written. */
static sw_status write_shape(sw_members *m, const sw_members_args *args, size_t n,
                             sw_profile *to, const char *name, uint32_t *shape)
{
    static const char call[] = "sw_members_profile";
    programs all = {.n = 0};
    for (size_t i = 0; i < n; i++)
        SW_TRY(members_find(m, args_at(args, i), call));
    const uint32_t number = number_of_lanes(m->lanes, to);
    for (size_t i = 0; i < n; i++) {
        SW_TRY(members_find(m, args_at(args, i), call));
        write_plans(m, to, number, &all);
    }
    const sw_prof_shape head =
        SW_INIT(.name = name, .member_bytes = m->stride, .batch_bytes = all.batch_bytes,
                .exec = number, .programs = all.program, .n_programs = all.n);
    const uint32_t its = sw_prof_shape_begin(to, &head);
    visit_range(m, put_tensor, to);
    (void)sw_prof_plan_end(to);
    if (shape != NULL)
        *shape = its;
    return SW_OK;
}

sw_status sw_members_profile(sw_members *m, const sw_members_args *args, size_t n,
                             sw_profile *profile, const char *name, uint32_t *shape)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(sw_handle_check(profile, SW_HANDLE_PROFILE, __func__));
    SW_TRY(sw_prof_check_fork(profile));
    if (n > MOST_RUNS || (n > 0 && args == NULL))
        SW_FAIL(SW_INVALID, "%s: args must be given, for at most %d runs (got %zu)", __func__,
                MOST_RUNS, n);
    if (n > 0)
        SW_TRY(swi_struct_check(SWI_STRUCT_sw_members_args, args, __func__));
    for (size_t i = 1; i < n; i++)
        if (args_at(args, i)->size != args->size)
            SW_FAIL(SW_INVALID, "%s: all sizes must be that of the first, %zu (got %zu)",
                    __func__, args->size, args_at(args, i)->size);
    SW_TRY(open_group(m, __func__));
    const sw_status status = write_shape(m, args, n, profile, name, shape);
    swi_leave(m->exec, &no_models);
    return status;
}
