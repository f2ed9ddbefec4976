/* A snapshot's trace as a program. */
#include "profiler/inspect/snapshot_read.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/address_space.h"
#include "profiler/inspect/replan/trace_roles.h"
#include <stdio.h>
#include <string.h>

#define LATEST_US UINT32_MAX /* after the first event */

static const char before_trace[] = "from before the trace";

typedef struct {
    sw_timeline *t;
    snapshot_trace trace;
    trace_start start;
    trace_lives lives;
    trace_roles roles;
    address_space space;
    uint32_t *op_of; /* by event: the op that it is */
    sw_tl_program *p;
} reader;

/* ---- values ------------------------------------------------------------------------------ */

static sw_status find_space(reader *r)
{
    const snapshot_trace *t = &r->trace;
    for (uint32_t i = 0; i < t->n_segments && t->cuda; i++)
        SW_TRY(address_space_add(&r->space, t->segments[i].address, t->segments[i].bytes));
    for (uint32_t i = 0; i < t->n_events; i++)
        if (t->events[i].action != TRACE_OOM && t->events[i].action != TRACE_FREE_REQUESTED)
            SW_TRY(address_space_add(&r->space, t->events[i].address, t->events[i].bytes));
    for (uint32_t i = 0; i < r->lives.n; i++)
        SW_TRY(address_space_add(&r->space, r->lives.all[i].address, r->lives.all[i].bytes));
    address_space_close_up(&r->space);
    return SW_OK;
}

/* Texts of the trace become the timeline's. */
static sw_status keep_texts(reader *r)
{
    for (uint32_t i = 0; i < r->trace.n_stacks; i++) {
        trace_stack *s = &r->trace.stacks[i];
        SW_TRY(sw_timeline_string(r->t, &s->name, s->name));
        SW_TRY(sw_timeline_string(r->t, &s->op, s->op));
        SW_TRY(sw_timeline_string(r->t, &s->layer, s->layer));
    }
    return SW_OK;
}

static sw_status take_life(reader *r, uint32_t i, bool own)
{
    const trace_life *x = &r->lives.all[i];
    const trace_stack *by = &r->trace.stacks[x->stack];
    const int phase = own || x->born == 0 ? by->phase : r->roles.phase[x->born];
    sw_tensor *v = &r->p->values[i];
    const bool kept = x->dead == r->lives.n_positions;
    *v = (sw_tensor){.id = i,
                     .alias = SW_TL_NONE,
                     .name = by->name,
                     .layer = by->layer,
                     .op = by->op,
                     .phase = phase >= 0 ? sw_prof_phase_name(phase) : "",
                     .segment = SW_SEGMENT_STEP,
                     .bytes = x->bytes,
                     .offset = address_space_offset(&r->space, x->address),
                     .birth = x->born > 0 ? r->op_of[x->born - 1] : 0,
                     .death = kept ? r->p->n_ops : r->op_of[x->dead - 1] - 1};
    SW_TRY(sw_timeline_string(r->t, &v->role, x->role));
    if (x->note != NULL && by->name == by->op) /* ours has a name of its own */
        SW_TRY(sw_timeline_string(r->t, &v->name, x->note));
    if (v->name[0] == '\0')
        v->name = x->born == 0 ? before_trace : "no frames";
    if (x->born > 0)
        r->p->ops[v->birth] =
            (sw_tl_op){v->op[0] != '\0' ? v->op : "alloc", v->layer, r->p->ops[v->birth].phase};
    if (!kept && r->trace.events[x->dead - 1].action == TRACE_FREE_COMPLETED)
        r->p->ops[v->death + 1].layer = v->layer;
    return SW_OK;
}

/* ---- positions --------------------------------------------------------------------------- */

/* The first one is before the trace; the time up to an event is that of the one before. */
static void take_ops(reader *r, sw_tl_run *run, uint64_t *op_ns)
{
    uint32_t now = 0, first = 0, n = 0;
    r->p->ops[n++] =
        (sw_tl_op){before_trace, "", (uint8_t)(r->roles.phase[0] < 0 ? 0 : r->roles.phase[0])};
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        const trace_event *e = &r->trace.events[i];
        const int phase = r->roles.phase[i + 1];
        r->op_of[i] = n;
        if (!trace_moves(e))
            continue;
        if (n == 1)
            first = now = e->us;
        if (e->us > now && e->us < LATEST_US) {
            op_ns[n - 1] = (uint64_t)(e->us - now) * 1000;
            now = e->us;
        }
        r->p->ops[n++] = (sw_tl_op){e->action == TRACE_ALLOC ? "alloc" : "free", "",
                                    (uint8_t)(phase < 0 ? 0 : phase)};
    }
    run->clock = now > first ? SW_TL_OPS : SW_TL_UNTIMED;
    run->op_ns = now > first ? op_ns : NULL;
    run->ns = (uint64_t)(now - first) * 1000;
}

/* ---- the program ------------------------------------------------------------------------- */

/* The peak of all, and of each phase where the frames tell them. */
static sw_status find_peaks(sw_tl_program *p, bool phases)
{
    uint64_t *curve;
    SW_TRY(sw_heap_alloc(&curve, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_prof_phase *phase = &p->phase[p->ops[i].phase];
        if (curve[i] > p->peak_bytes) {
            p->peak_bytes = curve[i];
            p->peak_op = i;
        }
        if (phases && curve[i] > phase->peak_bytes)
            phase->peak_bytes = curve[i];
        if (phases)
            phase->end_bytes = curve[i];
    }
    sw_heap_free(curve, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t));
    return SW_OK;
}

static sw_status add_program(reader *r, bool own)
{
    uint64_t *ns;
    sw_tl_step *steps;
    sw_tl_run *run;
    uint32_t n = 1;
    bool phases = false;
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        n += trace_moves(&r->trace.events[i]);
        phases |= r->roles.phase[i + 1] >= 0;
    }
    SW_TRY(sw_timeline_add_program(r->t, &r->p));
    SW_TRY(sw_timeline_alloc(r->t, &r->p->ops, n, sizeof *r->p->ops));
    SW_TRY(sw_timeline_alloc(r->t, &ns, n, sizeof(uint64_t)));
    SW_TRY(
        sw_timeline_alloc(r->t, &r->p->values, (size_t)r->lives.n + 1, sizeof *r->p->values));
    SW_TRY(sw_timeline_alloc(r->t, &r->op_of, (size_t)r->trace.n_events + 1, sizeof *r->op_of));
    r->p->run = "trace";
    r->p->n_ops = n;
    r->p->n_values = r->lives.n;
    uint32_t ignored;
    r->p->arena_bytes =
        trace_start_most(&r->start, &r->trace, r->trace.n_events, &ignored, NULL);
    r->p->total_bytes = r->p->arena_bytes;
    SW_TRY(sw_timeline_add_run(r->t, &run));
    take_ops(r, run, ns);
    for (uint32_t i = 0; i < r->lives.n; i++)
        SW_TRY(take_life(r, i, own));
    SW_TRY(find_peaks(r->p, phases));
    r->p->lower_bound_bytes = r->p->peak_bytes;
    SW_TRY(sw_timeline_alloc(r->t, &steps, (size_t)r->roles.n_steps + 1, sizeof *steps));
    if (r->roles.n_steps > 0)
        memcpy(steps, r->roles.steps, r->roles.n_steps * sizeof *steps);
    r->t->steps = steps;
    r->t->n_steps = r->roles.n_steps;
    r->t->passes = r->roles.passes;
    run->step = 1;
    run->peak_bytes = r->p->peak_bytes;
    memcpy(run->phase, r->p->phase, sizeof run->phase);
    return sw_timeline_finish(r->t);
}

static sw_status replay(reader *r, const snapshot_file *f, int64_t device)
{
    SW_TRY(snapshot_trace_read(&r->trace, f, device));
    SW_TRY(keep_texts(r));
    SW_TRY(trace_start_find(&r->start, &r->trace));
    SW_TRY(trace_lives_find(&r->lives, &r->trace, &r->start));
    SW_TRY(trace_roles_find(&r->roles, &r->trace, &r->lives));
    SW_TRY(find_space(r));
    return add_program(r, f->own);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* The device whose segments take the most memory, then the one with the most events. */
static sw_status choose_device(reader *r, const snapshot_file *f, int64_t *out)
{
    const value traces = f->traces;
    const char *kind = f->device ? "cuda:" : "device ";
    uint64_t bytes[SNAPSHOT_DEVICES] = {0}, used = 0;
    const uint64_t n_traces =
        value_count(traces) < SNAPSHOT_DEVICES ? value_count(traces) : SNAPSHOT_DEVICES;
    for (uint64_t s = 0; s < value_count(f->segments); s++) {
        const value segment = value_item(f->segments, s);
        int64_t device, size;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "device",
                               SNAPSHOT_DEVICES - 1, &device));
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "total_size",
                               SNAPSHOT_LARGEST(f), &size));
        bytes[device] += (uint64_t)size;
    }
    for (uint64_t d = 0; d < SNAPSHOT_DEVICES; d++) {
        const uint64_t best = (uint64_t)*out;
        const uint64_t events = d < n_traces ? value_count(value_item(traces, d)) : 0;
        const uint64_t most = value_count(value_item(traces, best));
        used += bytes[d] > 0 || events > 0;
        if (bytes[d] > bytes[best] || (bytes[d] == bytes[best] && events > most))
            *out = (int64_t)d;
    }
    char name[64];
    if (used > 1)
        snprintf(name, sizeof name, "%s%lld, the fullest of %llu", kind, (long long)*out,
                 (unsigned long long)used);
    else
        snprintf(name, sizeof name, "%s%lld", kind, (long long)*out);
    return sw_timeline_string(r->t, &r->t->device, name);
}

/* The run, as our own export describes it. */
static sw_status take_origin(reader *r, value settings)
{
    const char *tool = value_text(value_at(settings, "tool"));
    if (tool == NULL)
        return SW_OK;
    SW_TRY(sw_timeline_string(r->t, &r->t->model, value_text(value_at(settings, "model"))));
    SW_TRY(sw_timeline_string(r->t, &r->t->device, value_text(value_at(settings, "device"))));
    return sw_timeline_string(r->t, &r->t->data, value_text(value_at(settings, "data")));
}

static sw_status take_snapshot(reader *r, const snapshot_file *f)
{
    int64_t device = 0;
    SW_TRY(choose_device(r, f, &device));
    SW_TRY(take_origin(r, f->settings));
    r->t->tool = "pytorch";
    if (r->t->model[0] == '\0')
        r->t->model = "PyTorch snapshot";
    return replay(r, f, device);
}

sw_status snapshot_read(sw_timeline *t)
{
    snapshot_file file;
    reader r = {.t = t};
    sw_status status = snapshot_file_open(&file, t->path);
    if (status == SW_OK)
        status = take_snapshot(&r, &file);
    snapshot_file_close(&file);
    trace_roles_free(&r.roles);
    trace_lives_free(&r.lives);
    trace_start_free(&r.start);
    snapshot_trace_free(&r.trace);
    address_space_free(&r.space);
    return status;
}
