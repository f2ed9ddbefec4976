/* One run of many members on a device: one after the other in the stream of an exec of their
 * own. A member is a binding of the program that was captured for the shape: its range stands
 * in the place of the shape's memory, and its seed in that of the exec's.
 *
 * Two members are under way at a time, so that what one run left is read while the next one
 * goes on; a member makes its next step when its last one has been read, as a model would that
 * is trained alone. */
#include "alloc/base/assert.h"
#include "runtime/exec/backend.h"
#include "runtime/population/members_internal.h"
#include <string.h>

enum { UNDER_WAY = 2 };

/* A member that is under way. */
typedef struct {
    sw_members *m; /* NULL: none */
    size_t k, item;
    uint32_t index, steps;
    swi_slot_record *slot;
    sw_model stand_in;
    uint64_t run; /* its number in the exec's history; 0: none goes on */
    bool updated; /* in that run */
} member_at;

typedef struct {
    sw_members *const *groups;
    size_t n_groups, group, k, item; /* of the next member */
    swi_lane *lane;
    sw_exec *exec;
    member_at at[UNDER_WAY];
} stream_run;

/* ---- one step ---------------------------------------------------------------------------- */

/* The batch in host memory, which the exec takes from there. */
static int fill_batch(const stream_run *g, const member_at *a)
{
    swi_group_run *run = &a->m->run;
    const sw_feed *feed = run->args.feed;
    const uint64_t number =
        run->args.mode == SW_TRAIN ? a->slot->batches : run->args.step + a->steps;
    const int64_t rows = swi_feed_rows(feed, number);
    const int batch = rows != run->full_rows;
    unsigned char *to = sw_arena_base(g->lane->batches);
    swi_feed_fill(feed, run->args.same_data ? run->args.data_seed : a->slot->seed, number, to);
    for (int i = 0; i < feed->dataset->n_fields; i++)
        run->batch[batch][i] = swi_feed_array(feed, i, rows, to);
    return batch;
}

/* Knobs go with the run where they were set since the last one. */
static void bind_knobs(member_at *a)
{
    const float *knobs = swi_member_knobs(a->m, a->index);
    a->stand_in.knobs = a->m->knobs;
    a->stand_in.knob_version = a->stand_in.knob_uploaded + a->slot->knobs_changed;
    for (uint32_t i = 0; i < a->m->n_first_knobs && a->slot->knobs_changed; i++)
        a->m->knobs[i].value = knobs[i];
}

static sw_status launch(stream_run *g, member_at *a)
{
    const sw_members_args *of = &a->m->run.args;
    sw_model *models[1] = {&a->stand_in};
    const int batch = of->feed != NULL ? fill_batch(g, a) : 0;
    sw_run_args args = swi_members_of_one(a->m, batch);
    args.models = models;
    args.step = of->own_steps ? a->slot->steps : of->step + a->steps;
    if (of->feed == NULL && of->own_inputs)
        args.inputs = of->inputs + a->k * (size_t)of->n_inputs;
    bind_knobs(a);
    a->updated = false;
    g->exec->seed = a->slot->seed;
    const sw_status status = swi_run_frame(
        g->exec, a->m->programs[a->m->run.program[batch]].planned, &args, &a->updated);
    if (a->stand_in.knob_uploaded == a->stand_in.knob_version)
        a->slot->knobs_changed = false;
    a->run = g->exec->history.n;
    return status;
}

/* Read what its run left; it must be one of the last. */
static sw_status read_run(stream_run *g, member_at *a)
{
    sw_exec *exec = g->exec;
    swi_history_run *run = swi_history_at(&exec->history, (int)(exec->history.n - a->run));
    a->run = 0;
    SW_ASSERT(run != NULL && run->there);
    SW_TRY(run->waits ? exec->backend->await(exec, run) : SW_OK);
    for (uint32_t i = 0; i < run->n; i++)
        swi_member_metric(a->m, a->k, i, (float)run->metrics[i].value);
    SW_TRY(exec->backend->skipped_in(exec, run, &a->stand_in));
    a->m->made[a->k]++;
    a->steps++;
    if (a->m->run.args.mode != SW_TRAIN)
        return SW_OK;
    a->slot->steps++;
    a->slot->batches += a->m->run.args.feed != NULL;
    return SW_OK;
}

/* ---- members ----------------------------------------------------------------------------- */

static void leave(stream_run *g, member_at *a, sw_status status)
{
    swi_member_ended(a->m, g->lane, a->k, a->item, status);
    a->m = NULL;
    a->run = 0;
}

static sw_status check_member(const member_at *a)
{
    if (a->slot->damaged)
        SW_FAIL(SW_STALE, "it failed after an update: copy another one to it first");
    return swi_member_knobs_check(a->m, a->index);
}

/* The next member that can run; none: a->m stays NULL. */
static void next_member(stream_run *g, member_at *a)
{
    while (a->m == NULL && g->group < g->n_groups) {
        sw_members *m = g->groups[g->group];
        if (g->k == m->run.args.n) {
            g->group++;
            g->k = 0;
            continue;
        }
        const uint32_t index = m->run.args.members[g->k].index;
        *a = (member_at){.m = m,
                         .k = g->k++,
                         .item = g->item++,
                         .index = index,
                         .slot = &m->slots[index],
                         .stand_in = swi_member_stand_in(m, index)};
        const sw_status status = check_member(a);
        if (status != SW_OK)
            leave(g, a, status);
    }
}

/* Read its last run, go on with the next one, or with the next member. */
static sw_status advance(stream_run *g, member_at *a)
{
    sw_status status = SW_OK;
    if (a->m != NULL) {
        status = read_run(g, a);
        if (status == SW_DEVICE)
            return status;
        if (status != SW_OK || a->steps == a->m->run.args.steps)
            leave(g, a, status);
    }
    next_member(g, a);
    if (a->m == NULL)
        return SW_OK;
    status = launch(g, a);
    if (status == SW_OK || status == SW_DEVICE)
        return status;
    a->slot->damaged = a->updated;
    leave(g, a, status);
    return SW_OK;
}

static bool is_under_way(const stream_run *g)
{
    bool any = g->group < g->n_groups;
    for (int i = 0; i < UNDER_WAY; i++)
        any |= g->at[i].m != NULL;
    return any;
}

/* No one knows what the broken device has of those that were under way. */
static void give_up(stream_run *g)
{
    for (int i = 0; i < UNDER_WAY; i++)
        if (g->at[i].m != NULL)
            g->at[i].slot->damaged |= g->at[i].updated;
}

sw_status swi_members_run_stream(sw_members *const *groups, size_t n, swi_lanes *lanes)
{
    const sw_run_args none = {.n_models = 0};
    stream_run g = {
        .groups = groups, .n_groups = n, .lane = &lanes->lane[0], .exec = lanes->planner};
    SW_TRY(swi_enter(g.exec, &none, SW_FRAME));
    sw_status status = SW_OK;
    while (status == SW_OK && is_under_way(&g))
        for (int i = 0; i < UNDER_WAY && status == SW_OK; i++)
            status = advance(&g, &g.at[i]);
    if (status != SW_OK)
        give_up(&g);
    swi_leave(g.exec, &none);
    return status;
}
