/* Before a run of members: its arguments, the programs of the shape, the memory. */
#include "alloc/base/assert.h"
#include "alloc/base/poison.h"
#include "runtime/population/members_internal.h"
#include <string.h>

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

static sw_status check_source(const sw_members *m, const sw_members_args *a, const char *call)
{
    const bool data = a->feed != NULL || a->n_inputs > 0;
    if (m->opts.callback != NULL && data)
        SW_FAIL(SW_INVALID, "%s: callbacks get no inputs and no feed", call);
    if (a->feed != NULL)
        SW_TRY(sw_handle_check(a->feed, SW_HANDLE_FEED, call));
    if (a->feed != NULL && (a->n_inputs > 0 || a->own_inputs))
        SW_FAIL(SW_INVALID, "%s: give inputs or a feed, not both", call);
    if (a->steps > 1 && a->feed == NULL && m->opts.callback == NULL)
        SW_FAIL(SW_INVALID, "%s: steps (got %u) beyond 1 need a feed", call, a->steps);
    return SW_OK;
}

static sw_run_args args_of_shape(const sw_members *m, const sw_members_args *a)
{
    return SW_OPTS(sw_run_args, .fn = m->opts.fn, .user = m->opts.user,
                   .models = (sw_model *const *)&m->shape, .n_models = 1, .inputs = a->inputs,
                   .n_inputs = a->n_inputs, .mode = a->mode, .variant = a->variant,
                   .step = a->step, .run = a->run);
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
    SW_TRY(check_source(m, &r->args, call));
    if (r->args.steps == 0)
        r->args.steps = 1;
    if (m->opts.callback != NULL)
        return SW_OK;
    const sw_run_args of_one = args_of_shape(m, &r->args);
    SW_TRY(swi_read_args(&r->of_one, &of_one, with_data && r->args.feed == NULL, call));
    return with_data ? check_own_inputs(&r->args, call) : SW_OK;
}

/* ---- programs ---------------------------------------------------------------------------- */

static sw_status make_frames(const sw_members *m, swi_group_program *p)
{
    void *block;
    if (!swi_members_on_host(m)) /* they run in the planner's frame */
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, (size_t)m->lanes->n * sizeof(void *)));
    p->frame = block;
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
    void *programs = m->programs;
    SW_TRY(sw_heap_reserve(&programs, SW_HEAP_PROGRAMS, &m->cap_programs, m->n_programs + 1,
                           sizeof *m->programs));
    m->programs = programs;
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

/* Metrics are one array for all members, whatever batch each is at. */
static sw_status check_metrics(const sw_members *m)
{
    const swi_trace *t[2];
    for (int k = 0; k < 2; k++)
        t[k] = &m->programs[m->run.program[k]].planned->program->trace;
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
    return check_metrics(m);
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

static sw_status room_in_lanes(sw_members *m)
{
    const swi_group_run *r = &m->run;
    size_t height = 0;
    for (int k = 0; k < n_batches(m); k++) {
        const swi_program *p = m->programs[r->program[k]].planned->program;
        height = p->height > height ? p->height : height;
        SW_TRY(swi_members_on_host(m) ? SW_OK : room_on_device(m, k));
    }
    return swi_lanes_grow(m->lanes, height, r->args.feed != NULL ? r->args.feed->bytes : 0);
}

static sw_status room_for_results(sw_members *m)
{
    const size_t n = m->run.args.n;
    const uint32_t n_metrics = swi_members_n_metrics(m);
    void *metrics = m->metrics, *sums = m->sums, *made = m->made, *ended = m->ended;
    const size_t all = n * (n_metrics > 0 ? n_metrics : 1);
    if (n > UINT32_MAX / 64 || all > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "%zu members are too many for one run", n);
    SW_TRY(sw_heap_reserve(&metrics, SW_HEAP_RECORDS, &m->cap_metrics, (uint32_t)all,
                           sizeof *m->metrics));
    m->metrics = metrics;
    SW_TRY(
        sw_heap_reserve(&sums, SW_HEAP_RECORDS, &m->cap_sums, (uint32_t)all, sizeof *m->sums));
    m->sums = sums;
    SW_TRY(sw_heap_reserve(&made, SW_HEAP_RECORDS, &m->cap_made, (uint32_t)n, sizeof *m->made));
    m->made = made;
    SW_TRY(
        sw_heap_reserve(&ended, SW_HEAP_RECORDS, &m->cap_ended, (uint32_t)n, sizeof *m->ended));
    m->ended = ended;
    return SW_OK;
}

static sw_status prepare(sw_members *m)
{
    m->last = NULL;
    SW_TRY(swi_model_layout(m->shape));
    if (m->opts.callback == NULL) {
        SW_TRY(find_programs(m));
        SW_TRY(room_in_lanes(m));
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
    static const char call[] = "sw_members_plan";
    const sw_run_args none = {.n_models = 0};
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    m->n_last = 0;
    SW_TRY(read_args(m, given, false, call));
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

swi_frame *swi_members_larger(const sw_members *m, uint32_t *which)
{
    const swi_group_run *r = &m->run;
    swi_frame *full = m->programs[r->program[0]].planned;
    swi_frame *last = r->args.feed != NULL ? m->programs[r->program[1]].planned : full;
    const bool larger = last->program->height > full->program->height;
    if (which != NULL)
        *which = larger;
    return larger ? last : full;
}

static void describe(sw_members *m, sw_plan_info *out)
{
    sw_plan_info info = swi_members_larger(m, NULL)->program->info;
    info.model_bytes = m->stride;
    info.data_bytes = data_bytes(m);
    info.total_bytes = info.model_bytes + info.data_bytes + info.arena_bytes;
    swi_struct_write(SWI_STRUCT_sw_plan_info, out, &info);
}

sw_status swi_members_find(sw_members *m, const sw_members_args *given, const char *call)
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
    static const char call[] = "sw_members_look";
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_plan_info, out->size, call));
    SW_TRY(swi_members_find(m, given, call));
    describe(m, out);
    return SW_OK;
}
