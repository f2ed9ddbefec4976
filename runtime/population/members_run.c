/* One run of many members: the program of the shape, with each member's range in the place of
 * the shape's. Threads take members some at a time; what a member computes does not depend on
 * who runs it, since its op loop is one thread's and its addresses are no part of the program.
 */
#include "alloc/base/assert.h"
#include "alloc/base/note.h"
#include "alloc/base/poison.h"
#include "runtime/autograd/autograd.h"
#include "runtime/population/members_internal.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { CHUNKS = 8 }; /* for each thread, so that one that is slow has fewer */

typedef struct {
    sw_members *members;
    const sw_members_args *args;
    const sw_run_args *of_one; /* the arguments of a run of the shape */
    uint32_t program;
    atomic_size_t next;
    size_t chunk;
} group_run;

/* ---- what runs --------------------------------------------------------------------------- */

static sw_status check_members(sw_members *m, const sw_members_args *a)
{
    m->n_runs++;
    for (size_t k = 0; k < a->n; k++) {
        const sw_member member = a->members[k];
        SW_TRY(swi_member_check(member, "sw_members_run"));
        if (member.of != m)
            SW_FAIL(SW_INVALID, "sw_members_run: member %zu belongs to others", k);
        swi_slot_record *slot = &m->slots[member.index];
        if (slot->used == m->n_runs)
            SW_FAIL(SW_INVALID, "sw_members_run: member %zu is named twice", k);
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

static const sw_array *inputs_of(const sw_members_args *a, size_t k)
{
    return a->inputs + (a->own_inputs ? k * (size_t)a->n_inputs : 0);
}

static sw_status check_inputs(const sw_members_args *a)
{
    for (size_t k = 1; a->own_inputs && k < a->n; k++)
        for (int i = 0; i < a->n_inputs; i++) {
            const sw_array *its = &inputs_of(a, k)[i];
            if (!same_array(its, &a->inputs[i]) || its->data == NULL)
                SW_FAIL(SW_INVALID,
                        "sw_members_run: input %d of member %zu must have the type and shape "
                        "of member 0's, and data",
                        i, k);
        }
    return SW_OK;
}

static sw_status read_args(sw_members *m, const sw_members_args *given, sw_members_args *a,
                           sw_run_args *of_one)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_args, a, given, "sw_members_run"));
    if (given == NULL || a->n == 0 || a->members == NULL)
        SW_FAIL(SW_INVALID, "sw_members_run: at least one member must be given");
    const sw_run_args args = {.size = sizeof args,
                              .fn = m->fn,
                              .user = m->user,
                              .models = &m->shape,
                              .n_models = 1,
                              .inputs = a->inputs,
                              .n_inputs = a->n_inputs,
                              .mode = a->mode,
                              .variant = a->variant,
                              .step = a->step,
                              .run = a->run};
    SW_TRY(swi_read_args(of_one, &args, true, "sw_members_run"));
    SW_TRY(check_members(m, a));
    return check_inputs(a);
}

/* ---- the program ------------------------------------------------------------------------- */

static sw_status room_for_lanes(sw_members *m, uint32_t i)
{
    const swi_program *p = m->programs[i];
    for (int k = 0; k < m->n_lanes; k++) {
        swi_lane *lane = &m->lanes[k];
        void *frames = lane->frames;
        SW_TRY(sw_heap_reserve(&frames, SW_HEAP_PROGRAMS, &lane->cap_frames, i + 1,
                               sizeof(void *)));
        lane->frames = frames;
        if (lane->frames[i] == NULL)
            SW_TRY(swi_frame_create(&lane->frames[i], p));
        SW_TRY(sw_arena_grow(lane->arena, p->height, true));
        sw_unpoison(sw_arena_base(lane->arena), p->height);
    }
    return SW_OK;
}

/* Its position; the planner keeps it from now on. */
static sw_status keep_program(sw_members *m, swi_frame *frame, uint32_t *out)
{
    for (uint32_t i = 0; i < m->n_programs; i++)
        if (m->programs[i] == frame->program) {
            *out = i;
            return SW_OK;
        }
    void *programs = m->programs;
    SW_TRY(sw_heap_reserve(&programs, SW_HEAP_PROGRAMS, &m->cap_programs, m->n_programs + 1,
                           sizeof(void *)));
    m->programs = programs;
    m->programs[m->n_programs] = frame->program;
    frame->refs++;
    *out = m->n_programs++;
    return SW_OK;
}

static sw_status find_program(sw_members *m, const sw_run_args *of_one, uint32_t *out)
{
    swi_frame *frame;
    bool fresh;
    SW_TRY(swi_enter(m->planner, of_one, SWI_FRAME));
    sw_status status = swi_exec_program(m->planner, of_one, &frame, &fresh);
    if (status == SW_OK)
        status = keep_program(m, frame, out);
    swi_leave(m->planner, of_one);
    return status == SW_OK ? room_for_lanes(m, *out) : status;
}

static sw_status room_for_results(sw_members *m, const swi_program *p, size_t n)
{
    void *metrics = m->metrics, *ended = m->ended;
    const size_t all = n * (p->trace.n_metrics > 0 ? p->trace.n_metrics : 1);
    if (n > UINT32_MAX / 64 || all > UINT32_MAX / 2)
        SW_FAIL(SW_NOMEM, "sw_members_run: %zu members are too many for one run", n);
    SW_TRY(sw_heap_reserve(&metrics, SW_HEAP_RECORDS, &m->cap_metrics, (uint32_t)all,
                           sizeof *m->metrics));
    m->metrics = metrics;
    SW_TRY(
        sw_heap_reserve(&ended, SW_HEAP_RECORDS, &m->cap_ended, (uint32_t)n, sizeof *m->ended));
    m->ended = ended;
    return SW_OK;
}

/* ---- one member -------------------------------------------------------------------------- */

static sw_status run_ops(const group_run *g, swi_frame *f, unsigned char *const *base,
                         uint64_t seed, bool *updated)
{
    const swi_program *p = f->program;
    sw_exec *planner = g->members->planner;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_launch *l = swi_frame_resolve(f, i, base, p->binds);
        l->par = swi_pool_par(planner->pool);
        l->isa = planner->target.isa;
        l->seed = seed;
        l->step = (uint32_t)g->of_one->step;
        l->run = g->of_one->run;
        *updated |= p->ops[i].is_update;
        const sw_status status = planner->backend->launch(planner, f, i);
        if (status != SW_OK)
            return swi_blame(p, i, status);
    }
    return SW_OK;
}

/* Counts of skipped updates as they were; the optimizers of a shape are at most as many. */
enum { COUNTED = 16 };

static double *counts_of(const sw_members *m, const sw_optimizer *o, unsigned char *range)
{
    return o->counts == SWI_NONE
               ? NULL
               : (double *)(void *)(range + m->shape->entries[o->counts].offset);
}

static sw_status judge(const group_run *g, unsigned char *range, const double *before)
{
    const sw_members *m = g->members;
    for (uint32_t i = 0; i < m->shape->n_optimizers && i < COUNTED; i++) {
        const sw_optimizer *o = m->shape->optimizers[i];
        const double *counts = counts_of(m, o, range);
        if (counts != NULL && o->max_skipped > 0)
            SW_TRY(swi_skipped_judge(o, counts, before[i], NULL)); /* the shape has no bytes */
    }
    return SW_OK;
}

static sw_status run_member(const group_run *g, swi_lane *lane, size_t k)
{
    sw_members *m = g->members;
    const sw_member member = g->args->members[k];
    swi_slot_record *slot = &m->slots[member.index];
    swi_frame *f = lane->frames[g->program];
    unsigned char *base[SWI_SEG_COUNT + 1] = {NULL}, *range = swi_member_base(m, member.index);
    double before[COUNTED] = {0};
    bool updated = false;
    if (slot->damaged)
        SW_FAIL(SW_STALE, "it failed behind an update: copy another one to it first");
    SW_TRY(swi_member_knobs_check(m, member.index));
    for (uint32_t i = 0; i < m->shape->n_optimizers && i < COUNTED; i++) {
        const double *counts = counts_of(m, m->shape->optimizers[i], range);
        before[i] = counts != NULL ? counts[SWI_SKIPPED_ALL] : 0.0;
    }
    base[SWI_SEG_STEP] = sw_arena_base(lane->arena);
    base[SWI_SEG_MODEL] = range;
    for (int i = 0; i < g->args->n_inputs; i++)
        base[SWI_SEG_INPUT + i] = (unsigned char *)(uintptr_t)inputs_of(g->args, k)[i].data;
    const sw_status status = run_ops(g, f, base, slot->seed, &updated);
    slot->damaged = status != SW_OK && updated;
    SW_TRY(status);
    const swi_trace *t = &f->program->trace;
    for (uint32_t i = 0; i < t->n_metrics; i++) {
        const swi_value *v = &t->values[t->metrics[i].value];
        memcpy(&m->metrics[i * g->args->n + k],
               base[SWI_SEG_STEP] + t->storages[v->storage].offset + v->offset,
               sizeof *m->metrics);
    }
    return judge(g, range, before);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void run_lane(void *arg, int part)
{
    group_run *g = arg;
    sw_members *m = g->members;
    swi_lane *lane = &m->lanes[part];
    const size_t n = g->args->n;
    const uint32_t fp = swi_fp_enter();
    for (;;) {
        const size_t from = atomic_fetch_add_explicit(&g->next, g->chunk, memory_order_relaxed);
        if (from >= n)
            break;
        for (size_t k = from; k < n && k < from + g->chunk; k++) {
            m->ended[k] = run_member(g, lane, k);
            if (m->ended[k] != SW_OK && k < lane->failed) {
                lane->failed = k;
                snprintf(lane->why, sizeof lane->why, "%s", sw_last_error());
            }
        }
    }
    swi_fp_leave(fp);
}

/* The first of those that failed, in the order of the call. */
static void note_failure(const sw_members *m)
{
    const swi_lane *first = &m->lanes[0];
    for (int i = 1; i < m->n_lanes; i++)
        if (m->lanes[i].failed < first->failed)
            first = &m->lanes[i];
    if (first->failed == SIZE_MAX)
        swi_note_set("%s", "");
    else
        swi_note_set("member %zu: %s", first->failed, first->why);
}

static sw_status run_group(sw_members *m, const sw_members_args *a, const sw_run_args *of_one)
{
    group_run g = {.members = m, .args = a, .of_one = of_one};
    m->last = NULL;
    SW_TRY(swi_model_layout(m->shape));
    SW_TRY(find_program(m, of_one, &g.program));
    const swi_program *p = m->programs[g.program];
    SW_TRY(room_for_results(m, p, a->n));
    for (size_t i = 0; i < a->n * p->trace.n_metrics; i++)
        m->metrics[i] = NAN;
    for (int i = 0; i < m->n_lanes; i++)
        m->lanes[i].failed = SIZE_MAX;
    g.chunk = a->n / ((size_t)m->n_lanes * CHUNKS) + 1;
    const sw_par *par = swi_pool_par(m->exec->pool);
    par->run(par, run_lane, &g, m->n_lanes);
    note_failure(m);
    m->last = p;
    m->n_last = a->n;
    return SW_OK;
}

sw_status sw_members_run(sw_members *m, const sw_members_args *given)
{
    sw_members_args a;
    sw_run_args of_one;
    const sw_run_args none = {.n_models = 0};
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, "sw_members_run"));
    SW_TRY(read_args(m, given, &a, &of_one));
    SW_TRY(swi_enter(m->exec, &none, SWI_FRAME));
    const sw_status status = run_group(m, &a, &of_one);
    swi_leave(m->exec, &none);
    return status;
}

static sw_status check_last(const sw_members *m, const void *out, size_t n, const char *call)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    if (m->last == NULL)
        SW_FAIL(SW_INVALID, "%s: nothing has run yet, or the last run failed", call);
    if (out == NULL || n != m->n_last)
        SW_FAIL(SW_INVALID, "%s: the last run had %zu members (got room for %zu)", call,
                m->n_last, out != NULL ? n : 0);
    return SW_OK;
}

sw_status sw_members_metric(sw_members *m, const char *name, double *out, size_t n)
{
    static const char call[] = "sw_members_metric";
    SW_TRY(check_last(m, out, n, call));
    const swi_trace *t = &m->last->trace;
    for (uint32_t i = 0; name != NULL && i < t->n_metrics; i++)
        if (strcmp(t->metrics[i].name, name) == 0) {
            for (size_t k = 0; k < n; k++)
                out[k] = (double)m->metrics[i * n + k];
            return SW_OK;
        }
    SW_FAIL(SW_INVALID, "%s: the last run had no metric '%s'", call, name != NULL ? name : "");
}

sw_status sw_members_status(sw_members *m, sw_status *out, size_t n)
{
    SW_TRY(check_last(m, out, n, "sw_members_status"));
    memcpy(out, m->ended, n * sizeof *out);
    return SW_OK;
}
