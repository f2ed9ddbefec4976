/* One run of many members: the program of a shape, with each member's range in the place of the
 * shape's. Threads take members some at a time; what a member computes does not depend on who
 * runs it, since its op loop is one lane's and its addresses are no part of the program. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "kernels/dispatch.h"
#include "runtime/autograd/autograd.h"
#include "runtime/device/device.h"
#include "runtime/population/member_pool.h"
#include "runtime/population/members_internal.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static sw_status members_run_stream(sw_members *const *groups, size_t n, swi_lanes *lanes);

/* Lanes: step arenas by thread, shared by the groups of an exec. On a device there is one, and
 * its steps are the planner's: members run in the planner's stream, its arena and its inputs,
 * which the budget of the exec pays for. */

/* Do its members lie in host memory? */
static bool lanes_on_host(const swi_lanes *l)
{
    return swi_target_of(l->exec)->device->backend->host_memory;
}

static sw_status make_lane(const swi_lanes *l, swi_lane *lane)
{
    if (!lanes_on_host(l)) {
        /* A device gets its inputs from host memory, where a batch is filled. */
        sw_store *store;
        SW_TRY(swi_device_store(swi_device_cpu(), &store, 0));
        const sw_arena_opts opts = {
            .label = "member's batch", .use = SW_ARENA_DATA, .store = store};
        return sw_arena_create(&lane->batches, &opts);
    }
    SW_TRY(swi_member_pool_arena(&lane->steps, l->exec, "member's step", SW_ARENA_STEP));
    SW_TRY(swi_member_pool_arena(&lane->batches, l->exec, "member's batch", SW_ARENA_DATA));
    const bool all = l->threads == swi_target_of(l->exec)->threads;
    lane->par = swi_pool_par(all ? l->exec->pool : l->planner->pool);
    if (all || l->threads == 1) /* else as many as its plans have scratch for, and no more */
        return SW_OK;
    SW_TRY(swi_pool_create(&lane->pool, l->threads, l->n));
    lane->par = swi_pool_par(lane->pool);
    return SW_OK;
}

static sw_status make(swi_lanes *l)
{
    const swi_target *target = swi_target_of(l->exec);
    sw_exec_opts opts = target->opts;
    opts.device = NULL;
    opts.threads = l->threads;
    opts.budget = lanes_on_host(l) ? NULL : target->budget;
    opts.profile = NULL;
    opts.isa = sw_isa_name(target->isa);
    opts.nvtx = SW_NVTX_OFF;
    opts.checks = opts.op_clocks = opts.shares = 0;
    opts.no_phases = opts.no_phases != 0 || !lanes_on_host(l);
    opts.max_programs = 1 << 20; /* of every shape */
    SW_TRY(swi_exec_create_on(&l->planner, &opts, l->exec->backend, target->device));
    l->planner->target.way = target->way;
    SW_TRY(sw_heap_alloc(&l->lane, SW_HEAP_RECORDS, (size_t)l->n * sizeof *l->lane));
    for (int i = 0; i < l->n; i++)
        SW_TRY(make_lane(l, &l->lane[i]));
    return SW_OK;
}

static void end(swi_lanes *l)
{
    for (int i = 0; i < l->n && l->lane != NULL; i++) {
        swi_pool_destroy(l->lane[i].pool);
        sw_arena_destroy(l->lane[i].steps);
        sw_arena_destroy(l->lane[i].batches);
    }
    sw_heap_free(l->lane, SW_HEAP_RECORDS, (size_t)l->n * sizeof *l->lane);
    swi_exec_free(l->planner);
    sw_heap_free(l, SW_HEAP_RECORDS, sizeof *l);
}

sw_status swi_lanes_take(swi_lanes **out, swi_member_pool *member_pool, int threads)
{
    const int all = swi_target_of(member_pool->exec)->threads;
    swi_lanes *l = member_pool->lanes;
    while (l != NULL && l->threads != threads)
        l = l->next;
    if (l != NULL) {
        l->users++;
        *out = l;
        return SW_OK;
    }
    SW_ASSERT(threads >= 1 && threads <= all);
    SW_TRY(sw_heap_alloc(&l, SW_HEAP_RECORDS, sizeof(swi_lanes)));
    *l = (swi_lanes){
        .exec = member_pool->exec, .threads = threads, .users = 1, .n = all / threads};
    l->active = l->n;
    const sw_status status = make(l);
    if (status != SW_OK) {
        end(l);
        return status;
    }
    l->next = member_pool->lanes;
    member_pool->lanes = l;
    *out = l;
    return SW_OK;
}

void swi_lanes_give(swi_member_pool *member_pool, swi_lanes *l)
{
    if (l == NULL || --l->users > 0)
        return;
    swi_lanes **at = &member_pool->lanes;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    end(l);
}

/* Its pages are there from now on: a thread that takes its first member late, on a busy
 * machine, meets no fault in a step. */
static sw_status grow(sw_arena *arena, size_t bytes)
{
    const size_t page = 4096, height = sw_arena_height(arena);
    SW_TRY(sw_arena_grow(arena, bytes, true));
    volatile unsigned char *base = sw_arena_base(arena);
    sw_unpoison((void *)(uintptr_t)base, bytes);
    for (size_t at = height; at < bytes; at += page)
        base[at] = 0;
    return SW_OK;
}

void swi_lanes_use(swi_member_pool *member_pool, int lanes)
{
    for (swi_lanes *l = member_pool->lanes; l != NULL; l = l->next)
        l->active = lanes < l->n ? lanes : l->n;
}

sw_status swi_lanes_grow(swi_lanes *l, size_t steps_bytes, size_t batch_bytes)
{
    for (int i = 0; i < l->active; i++) {
        SW_TRY(grow(l->lane[i].batches, batch_bytes));
        if (lanes_on_host(l))
            SW_TRY(grow(l->lane[i].steps, steps_bytes));
    }
    return SW_OK;
}

sw_status swi_lanes_empty(swi_lanes *l)
{
    for (int i = 0; i < l->n && lanes_on_host(l); i++) {
        swi_lane *lane = &l->lane[i];
        sw_arena *steps, *batches;
        SW_TRY(swi_member_pool_arena(&steps, l->exec, "member's step", SW_ARENA_STEP));
        const sw_status status =
            swi_member_pool_arena(&batches, l->exec, "member's batch", SW_ARENA_DATA);
        if (status != SW_OK) {
            sw_arena_destroy(steps);
            return status;
        }
        sw_arena_destroy(lane->steps);
        sw_arena_destroy(lane->batches);
        lane->steps = steps;
        lane->batches = batches;
    }
    return SW_OK;
}

/* On a device members run in the arena of the planner, and its inputs are what a batch
 * takes. */
static size_t lanes_bytes(const swi_member_pool *member_pool, bool steps)
{
    size_t bytes = 0;
    for (const swi_lanes *l = member_pool->lanes; l != NULL; l = l->next) {
        if (!lanes_on_host(l))
            bytes += steps ? sw_arena_height(l->planner->arena)
                           : l->planner->backend->data_height(l->planner);
        for (int i = 0; i < l->n && lanes_on_host(l); i++)
            bytes += sw_arena_height(steps ? l->lane[i].steps : l->lane[i].batches);
    }
    return bytes;
}

size_t swi_lanes_step_bytes(const swi_member_pool *member_pool)
{
    return lanes_bytes(member_pool, true);
}

size_t swi_lanes_batch_bytes(const swi_member_pool *member_pool)
{
    return lanes_bytes(member_pool, false);
}

size_t swi_lanes_bytes(const swi_member_pool *member_pool)
{
    return swi_lanes_step_bytes(member_pool) + swi_lanes_batch_bytes(member_pool);
}

enum { CHUNKS = 8 }; /* for each lane, so that one that is slow has fewer */

/* Items are the members of all groups, one after the other. */
typedef struct {
    sw_members *const *groups;
    size_t n_groups, n_items, chunk;
    swi_lanes *lanes;
    atomic_size_t next;
} many_run;

/* A member in a lane. */
typedef struct {
    sw_members *m;
    const many_run *all;
    swi_lane *lane;
    int n_lane;
    size_t k; /* position in the call */
    swi_slot_record *slot;
    unsigned char *range;
    unsigned char *base[SWI_SEG_COUNT + 1];
    bool updated;
    const unsigned char *next; /* range of the member after it in this lane; NULL: none */
    size_t next_bytes;
} member_run;

uint32_t swi_members_n_metrics(const sw_members *m)
{
    return m->opts.callback != NULL ? 1 : m->last->n_metrics;
}

/* ---- one step of one member -------------------------------------------------------------- */

/* Where the bytes at `ptr` end in the lane's step arena; 0: they are elsewhere. */
static size_t end_in_arena(const member_run *r, const void *ptr, size_t bytes)
{
    const uintptr_t base = (uintptr_t)sw_arena_base(r->lane->steps), at = (uintptr_t)ptr;
    const bool inside =
        ptr != NULL && at >= base && at - base < sw_arena_height(r->lane->steps);
    return inside ? sw_size_round(at - base + bytes) : 0;
}

static sw_status run_ops(member_run *r, swi_frame *f, uint64_t step)
{
    const swi_program *p = f->program;
    sw_exec *planner = r->m->lanes->planner;
    const bool first = f->reached == 0;
    size_t reached = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (r->next != NULL) {
            /* The lines of the next member's range come nearer while this one computes: a part
             * after each op, so that they are asked for no faster than memory gives them. */
            const size_t line = 64, part = r->next_bytes / p->n_ops / line * line + line;
            const size_t from = i * part, end = from + part;
            for (size_t at = from; at < end && at < r->next_bytes; at += line)
                __builtin_prefetch(r->next + at, 1, 2);
        }
        sw_launch *l = swi_frame_resolve(f, i, r->base, p->binds);
        l->par = r->lane->par;
        l->isa = planner->target.isa;
        l->order = planner->target.way;
        l->seed = r->slot->seed;
        l->step = (uint32_t)step;
        l->run = r->m->run.args.run;
        r->updated |= p->ops[i].is_update;
        if (first) {
            /* The highest end of what a launch was given, and `so_far`. */
            size_t so_far = reached;
            size_t end = end_in_arena(r, l->scratch, l->scratch_bytes);
            so_far = end > so_far ? end : so_far;
            for (int k = 0; k < l->n_in + l->n_out; k++) {
                const sw_buffer *b = k < l->n_in ? &l->in[k] : &l->out[k - l->n_in];
                end = end_in_arena(r, b->ptr, sw_type_bytes(&b->type));
                so_far = end > so_far ? end : so_far;
            }
            reached = so_far;
        }
        const sw_status status = planner->backend->launch(planner, f, i);
        if (status != SW_OK)
            return swi_blame(p, i, status);
    }
    if (first)
        f->reached = reached;
    return SW_OK;
}

/* Counts of skipped updates as they were; the optimizers of a shape are at most as many. */
enum { COUNTED = 16 };

static double *counts_of(const member_run *r, uint32_t optimizer)
{
    const sw_model *shape = r->m->shape;
    const sw_optimizer *o = shape->optimizers[optimizer];
    return o->counts == SWI_NONE
               ? NULL
               : (double *)(void *)(r->range + shape->entries[o->counts].offset);
}

static sw_status judge_counts(const member_run *r, const double *before)
{
    for (uint32_t i = 0; i < r->m->shape->n_optimizers && i < COUNTED; i++) {
        const sw_optimizer *o = r->m->shape->optimizers[i];
        const double *counts = counts_of(r, i);
        if (counts != NULL && o->max_skipped > 0)
            SW_TRY(swi_skipped_judge(o, counts, before[i], NULL)); /* the shape has no bytes */
    }
    return SW_OK;
}

static void member_metric(sw_members *m, size_t k, uint32_t i, float value)
{
    const size_t at = i * m->run.args.n + k;
    m->metrics[at] = value;
    m->sums[at] += (double)value;
}

/* The program of the batch, which is filled. */
static uint32_t bind_feed(member_run *r, uint32_t s)
{
    const swi_group_run *run = &r->m->run;
    const sw_feed *feed = run->args.feed;
    const uint64_t number = run->args.mode == SW_TRAIN ? r->slot->batches : run->args.step + s;
    unsigned char *to = sw_arena_base(r->lane->batches);
    swi_feed_fill(feed, run->args.same_data ? run->args.data_seed : r->slot->seed, number, to);
    for (int i = 0; i < feed->dataset->n_fields; i++)
        r->base[SWI_SEG_INPUT + i] = to + feed->at[i];
    return run->program[swi_feed_rows(feed, number) != run->full_rows];
}

static uint32_t bind_inputs(member_run *r)
{
    const sw_members_args *a = &r->m->run.args;
    const sw_array *inputs = a->inputs + (a->own_inputs ? r->k * (size_t)a->n_inputs : 0);
    for (int i = 0; i < a->n_inputs; i++)
        r->base[SWI_SEG_INPUT + i] = (unsigned char *)(uintptr_t)inputs[i].data;
    return r->m->run.program[0];
}

static sw_status network_step(member_run *r, uint64_t step, uint32_t s)
{
    double before[COUNTED] = {0};
    const uint32_t program = r->m->run.args.feed != NULL ? bind_feed(r, s) : bind_inputs(r);
    swi_frame *f = r->m->programs[program].frame[r->n_lane];
    for (uint32_t i = 0; i < r->m->shape->n_optimizers && i < COUNTED; i++) {
        const double *counts = counts_of(r, i);
        before[i] = counts != NULL ? counts[SWI_SKIPPED_ALL] : 0.0;
    }
    r->updated = false;
    const sw_status status = run_ops(r, f, step);
    r->slot->damaged = status != SW_OK && r->updated;
    SW_TRY(status);
    for (uint32_t j = 0; j < f->program->trace.n_metrics; j++) {
        const swi_value *v = &f->program->trace.values[f->program->trace.metrics[j].value];
        float value;
        memcpy(&value,
               r->base[SWI_SEG_STEP] + f->program->trace.storages[v->storage].offset +
                   v->offset,
               sizeof value);
        member_metric(r->m, r->k, j, value);
    }
    return judge_counts(r, before);
}

/* A callback that failed may have written half of its state. */
static sw_status callback_step(member_run *r, uint64_t step)
{
    sw_members *m = r->m;
    sw_member_view view =
        SW_INIT(.member = m->run.args.members[r->k], .state = r->range + m->model_bytes,
                .state_bytes = m->opts.state_bytes,
                .knobs = swi_member_knobs(m, (uint32_t)(r->slot - m->slots)),
                .n_knobs = (int)m->shape->n_knobs, .seed = r->slot->seed, .step = step,
                .score = NAN);
    sw_call call = {.name = "a run of members",
                    .uses = {(const void *const *)r->all->groups, r->all->n_groups},
                    .closed = true};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    const sw_status given = sw_call_end(&call, m->opts.callback(&view, m->opts.user));
    const bool said = sw_error_count() != call.said;
    const sw_status status = sw_call_status(given, call.said, "the callback");
    r->slot->damaged = status != SW_OK;
    if (status != SW_OK && said && status == given) /* else it is said what is wrong with it */
        SW_FAIL(status, "the callback ended with %s: %s", sw_status_name(status),
                sw_last_error());
    SW_TRY(status);
    member_metric(m, r->k, 0, (float)view.score);
    return SW_OK;
}

static sw_status check_member(const sw_members *m, const swi_slot_record *slot)
{
    if (slot->damaged)
        SW_FAIL(SW_STALE, "it failed after an update: copy another one to it first");
    return swi_member_knobs_check(m, (uint32_t)(slot - m->slots));
}

/* All its steps. */
static sw_status run_member(member_run *r)
{
    const sw_members_args *a = &r->m->run.args;
    SW_TRY(check_member(r->m, r->slot));
    for (uint32_t s = 0; s < a->steps; s++) {
        const uint64_t step = a->own_steps ? r->slot->steps : a->step + s;
        SW_TRY(r->m->opts.callback != NULL ? callback_step(r, step) : network_step(r, step, s));
        r->m->made[r->k]++;
        if (a->mode != SW_TRAIN)
            continue;
        r->slot->steps++;
        r->slot->batches += a->feed != NULL;
    }
    return SW_OK;
}

/* One run of a member left a metric; a member of a run, item `item` of all, has ended. */
static void member_ended(sw_members *m, swi_lane *lane, size_t k, size_t item, sw_status status)
{
    m->ended[k] = status;
    if (status == SW_OK)
        return;
    for (uint32_t i = 0; i < swi_members_n_metrics(m); i++)
        m->metrics[i * m->run.args.n + k] = NAN;
    if (item < lane->failed) {
        lane->failed = item;
        snprintf(lane->why, sizeof lane->why, "%s", sw_last_error());
    }
}

/* ---- all of them ------------------------------------------------------------------------- */

/* Ranges of which two and a step are at home in a core's second cache. */
#define FETCHED ((size_t)256 << 10)

/* The item after one of group `of`: it has the same lane where the chunk goes on. */
static void find_next(member_run *r, const many_run *g, size_t of, size_t item)
{
    const sw_members *m = g->groups[of];
    if (++item >= g->n_items || m->run.args.steps > 1)
        return;
    if (item >= m->run.first + m->run.args.n)
        m = g->groups[of + 1];
    if (m->stride > FETCHED)
        return;
    r->next = swi_member_base(m, m->run.args.members[item - m->run.first].index);
    r->next_bytes = m->stride;
}

static void run_lane(void *arg, int part)
{
    many_run *g = arg;
    const uint32_t fp = swi_fp_enter();
    for (;;) {
        const size_t from = atomic_fetch_add_explicit(&g->next, g->chunk, memory_order_relaxed);
        if (from >= g->n_items)
            break;
        size_t of = 0;
        for (size_t item = from; item < g->n_items && item < from + g->chunk; item++) {
            while (item >= g->groups[of]->run.first + g->groups[of]->run.args.n)
                of++;
            sw_members *m = g->groups[of];
            swi_lane *lane = &g->lanes->lane[part];
            const size_t k = item - m->run.first;
            if (m->ended[k] != SW_OK) /* in the part before */
                continue;
            const uint32_t index = m->run.args.members[k].index;
            member_run r =
                SW_INIT(.m = m, .all = g, .lane = lane, .n_lane = part, .k = k,
                        .slot = &m->slots[index], .range = swi_member_base(m, index));
            r.base[SWI_SEG_STEP] = sw_arena_base(lane->steps);
            r.base[SWI_SEG_MODEL] = r.range;
            if (!(item + 1 == from + g->chunk))
                find_next(&r, g, of, item);
            const uint64_t begin = sw_clock_ns();
            const sw_status status = run_member(&r);
            r.slot->ns = sw_clock_ns() - begin;
            member_ended(m, lane, k, item, status);
        }
    }
    swi_fp_leave(fp);
}

/* The first of those that failed, in the order of the call. */
static void note_failure(const swi_lanes *lanes)
{
    const swi_lane *first = &lanes->lane[0];
    for (int i = 1; i < lanes->n; i++)
        if (lanes->lane[i].failed < first->failed)
            first = &lanes->lane[i];
    if (first->failed == SIZE_MAX)
        swi_note_set("%s", "");
    else
        swi_note_set("member %zu: %s", first->failed, first->why);
}

static void run_threads(many_run *g)
{
    const sw_par *par = swi_pool_par(g->lanes->exec->pool);
    const int n = g->lanes->active;
    g->chunk = g->n_items / ((size_t)n * CHUNKS) + 1;
    if (n == 1) {
        run_lane(g, 0);
        return;
    }
    swi_pool_wake(g->lanes->exec->pool);
    par->run(par, run_lane, g, n);
}

void swi_members_go_on(sw_members *m)
{
    m->goes_on = true;
}

static sw_status run_all(many_run *g)
{
    for (size_t i = 0; i < g->n_groups; i++) {
        sw_members *m = g->groups[i];
        const size_t n = m->run.args.n, all = n * swi_members_n_metrics(m);
        for (size_t j = 0; j < all; j++) {
            m->metrics[j] = NAN;
            m->sums[j] = m->goes_on ? m->sums[j] : 0.0;
        }
        for (size_t k = 0; k < n && !m->goes_on; k++) {
            m->made[k] = 0;
            m->ended[k] = SW_OK;
        }
        m->goes_on = false;
        g->groups[i]->run.first = g->n_items;
        g->n_items += g->groups[i]->run.args.n;
    }
    g->lanes = g->groups[0]->lanes;
    for (int i = 0; i < g->lanes->n; i++)
        g->lanes->lane[i].failed = SIZE_MAX;
    if (lanes_on_host(g->lanes))
        run_threads(g);
    else
        SW_TRY(members_run_stream(g->groups, g->n_groups, g->lanes));
    note_failure(g->lanes);
    for (size_t i = 0; i < g->n_groups; i++)
        g->groups[i]->n_last = g->groups[i]->run.args.n;
    return SW_OK;
}

/* Each group at most once. */
SW_FRAME_OWN static sw_status
prepare_all(sw_members *const *groups, const sw_members_args *args, size_t n, const char *call)
{
    sw_status status = SW_OK;
    size_t i = 0;
    for (; i < n && status == SW_OK; i++) {
        if (groups[i]->run.going_on)
            status = sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                  "%s: group %zu is named twice", call, i);
        else
            status = swi_members_prepare(groups[i], &args[i], call);
        groups[i]->run.going_on = true;
    }
    for (size_t k = 0; k < i; k++)
        groups[k]->run.going_on = false;
    return status;
}

static sw_status run_groups(sw_members *const *groups, const sw_members_args *args, size_t n,
                            const char *call, const void *frame)
{
    const sw_run_args none = {.n_models = 0};
    many_run g = {.groups = groups, .n_groups = n};
    if (groups == NULL || args == NULL || n == 0)
        SW_FAIL(SW_INVALID, "%s: at least one group must be given, with its arguments", call);
    for (size_t i = 0; i < n; i++) {
        SW_TRY(sw_handle_check(groups[i], SW_HANDLE_MEMBERS, call));
        if (groups[i]->lanes != groups[0]->lanes)
            SW_FAIL(SW_INVALID,
                    "%s: groups must be of one exec and have as many threads for a member "
                    "(group %zu has others than group 0)",
                    call, i);
    }

    sw_exec *exec = groups[0]->exec;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_enter(exec, &none, frame));
    sw_status status = prepare_all(groups, args, n, call);
    if (status == SW_OK)
        status = run_all(&g);
    swi_leave(exec, &none);
    return status;
}

sw_status sw_members_run_all(sw_members *const *groups, const sw_members_args *args, size_t n)
{
    return run_groups(groups, args, n, "sw_members_run_all", SW_FRAME);
}

sw_status sw_members_run(sw_members *m, const sw_members_args *args)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_members_run"));
    const sw_members_args none = SW_OPTS(sw_members_args);
    return run_groups(&m, args != NULL ? args : &none, 1, "sw_members_run", SW_FRAME);
}

/* ---- results ----------------------------------------------------------------------------- */

static sw_status check_last(const sw_members *m, const void *out, size_t n, const char *call)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    if (m->n_last == 0)
        SW_FAIL(SW_INVALID, "%s: nothing has run yet, or the last run failed", call);
    if (out == NULL || n != m->n_last)
        SW_FAIL(SW_INVALID, "%s: the last run had %zu members (got room for %zu)", call,
                m->n_last, out != NULL ? n : 0);
    return SW_OK;
}

static sw_status find_metric(const sw_members *m, const char *name, const char *call,
                             uint32_t *out)
{
    const uint32_t n = swi_members_n_metrics(m);
    for (uint32_t i = 0; name != NULL && i < n; i++)
        if (strcmp(m->opts.callback != NULL ? "score" : m->last->metrics[i].name, name) == 0) {
            *out = i;
            return SW_OK;
        }
    SW_FAIL(SW_INVALID, "%s: the last run had no metric '%s'", call, name != NULL ? name : "");
}

sw_status sw_members_metric(sw_members *m, const char *name, double *out, size_t n)
{
    uint32_t i;
    SW_TRY(check_last(m, out, n, __func__));
    SW_TRY(find_metric(m, name, __func__, &i));
    for (size_t k = 0; k < n; k++)
        out[k] = (double)m->metrics[i * n + k];
    return SW_OK;
}

sw_status sw_members_mean(sw_members *m, const char *name, double *out, size_t n)
{
    uint32_t i;
    SW_TRY(check_last(m, out, n, __func__));
    SW_TRY(find_metric(m, name, __func__, &i));
    for (size_t k = 0; k < n; k++)
        out[k] = m->ended[k] == SW_OK ? m->sums[i * n + k] / (double)m->made[k] : (double)NAN;
    return SW_OK;
}

sw_status sw_members_status(sw_members *m, sw_status *out, size_t n)
{
    SW_TRY(check_last(m, out, n, "sw_members_status"));
    memcpy(out, m->ended, n * sizeof *out);
    return SW_OK;
}

/* One run of many members on a device: one after the other in the stream of an exec of their
 * own. A member is a binding of the program that was captured for the shape: its range stands
 * in the place of the shape's memory, and its seed in that of the exec's.
 *
 * Two members are under way at a time, so that what one run left is read while the next one
 * goes on; a member makes its next step when its last one has been read, as a model would that
 * is trained alone. */

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
    /* Knobs go with the run where they were set since the last one. */
    const float *knobs = swi_member_knobs(a->m, a->index);
    a->stand_in.knobs = a->m->knobs;
    a->stand_in.knob_version = a->stand_in.knob_uploaded + a->slot->knobs_changed;
    for (uint32_t i = 0; i < a->m->n_first_knobs && a->slot->knobs_changed; i++)
        a->m->knobs[i].value = knobs[i];
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
        member_metric(a->m, a->k, i, (float)run->metrics[i].value);
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
    member_ended(a->m, g->lane, a->k, a->item, status);
    a->m = NULL;
    a->run = 0;
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
        *a = (member_at)SW_INIT(.m = m, .k = g->k++, .item = g->item++, .index = index,
                                .slot = &m->slots[index],
                                .stand_in = swi_member_stand_in(m, index));
        const sw_status status = check_member(a->m, a->slot);
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

/* The members of all groups, one after the other in the stream of the lanes' exec. SW_DEVICE:
 * the device is broken, and nothing of the run can be asked for. */
static sw_status members_run_stream(sw_members *const *groups, size_t n, swi_lanes *lanes)
{
    const sw_run_args none = {.n_models = 0};
    stream_run g = {
        .groups = groups, .n_groups = n, .lane = &lanes->lane[0], .exec = lanes->planner};
    SW_TRY(swi_enter(g.exec, &none, SW_FRAME));
    sw_status status = SW_OK;
    while (status == SW_OK && is_under_way(&g))
        for (int i = 0; i < UNDER_WAY && status == SW_OK; i++)
            status = advance(&g, &g.at[i]);
    if (status != SW_OK) {
        /* No one knows what the broken device has of those that were under way. */
        for (int j = 0; j < UNDER_WAY; j++)
            if (g.at[j].m != NULL)
                g.at[j].slot->damaged |= g.at[j].updated;
    }
    swi_leave(g.exec, &none);
    return status;
}
