/* A replan for programs. */
#include "profiler/inspect/replan/replan.h"

static void put_census(sw_json *j, const char *key, const replay_moment *m)
{
    const replay_census *c = &m->census;
    if (!sw_json_open_known(j, key, m->known))
        return;
    sw_json_put_u64(j, "reserved_bytes", c->reserved);
    sw_json_put_u64(j, "active_bytes", c->requested + c->rounding + c->unsplit);
    sw_json_put_u64(j, "requested_bytes", c->requested);
    sw_json_put_u64(j, "pending_bytes", c->pending);
    sw_json_put_u64(j, "rounding_bytes", c->rounding);
    sw_json_put_u64(j, "rest_bytes", c->unsplit);
    sw_json_put_u64(j, "unsure_bytes", c->unsure);
    sw_json_put_u64(j, "split_bytes", c->split);
    sw_json_put_u64(j, "cached_bytes", c->cached);
    sw_json_put_u64(j, "other_streams_bytes", c->other_streams);
    sw_json_put_u64(j, "other_pools_bytes", c->other_pools);
    sw_json_put_u64(j, "other_sizes_bytes", c->other_sizes);
    sw_json_end(j);
}

static void put_height(sw_json *j, const char *key, bool known, const lives_height *h)
{
    if (!sw_json_open_known(j, key, known))
        return;
    sw_json_put_u64(j, "allocations", h->n);
    sw_json_put_u64(j, "bound_bytes", h->bound);
    sw_json_put_u64(j, "planned_bytes", h->height);
    sw_json_put_u64(j, "proved_bytes", h->proved);
    sw_json_put_bool(j, "least", h->height <= h->proved);
    sw_json_end(j);
}

static void put_event(sw_json *j, const char *key, const snapshot_trace *t, uint32_t event)
{
    sw_json_put_known(j, key, event != TRACE_NONE,
                      event != TRACE_NONE ? t->events[event].number : 0);
}

static void put_proof(sw_json *j, const replan *r)
{
    const replay_proof *p = &r->proof;
    if (!sw_json_open_known(j, "proof", r->replayed))
        return;
    sw_json_put_u64(j, "requests", p->n_checked);
    put_event(j, "unknown_from", &r->trace, p->from);
    sw_json_put_string(j, "why", p->from != TRACE_NONE ? p->why : NULL);
    sw_json_end(j);
}

static void put_step(sw_json *j, const replan *r)
{
    const trace_period *p = &r->period;
    if (!sw_json_open_known(j, "step", r->steady))
        return;
    sw_json_put_u64(j, "steps", p->steps);
    sw_json_put_u64(j, "requests", p->requests);
    put_event(j, "first", &r->trace, p->first > 0 ? p->first - 1 : 0);
    put_event(j, "from", &r->trace, p->from > 0 ? p->from - 1 : 0);
    put_event(j, "to", &r->trace, p->to - 2);
    put_height(j, "plan", true, &r->step);
    sw_json_put_u64(j, "kept_bytes", r->step_kept);
    sw_json_put_known(j, "reserved_bytes", r->replayed, r->step_reserved);
    sw_json_put_u64(j, "requested_before_bytes", r->before_requested);
    sw_json_end(j);
}

static void put_holders(sw_json *j, const snapshot_trace *t, const replan_holder *of,
                        uint32_t n, bool without)
{
    sw_json_open(j, "holders", '[');
    for (uint32_t i = 0; i < n; i++) {
        const trace_stack *s = &t->stacks[of[i].stack];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "op", s->op);
        sw_json_put_string(j, "layer", s->layer);
        sw_json_put_string(j, "phase", s->phase >= 0 ? sw_prof_phase_name(s->phase) : NULL);
        sw_json_put_string(j, "role", of[i].role);
        sw_json_put_u64(j, "bytes", of[i].bytes);
        sw_json_put_u64(j, "allocations", of[i].n);
        if (without)
            sw_json_put_u64(j, "without_bound_bytes", of[i].without.most);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_roles(sw_json *j, const replan *r)
{
    sw_json_open(j, "roles", '[');
    for (uint32_t i = 0; i < r->n_roles; i++) {
        const replan_role *x = &r->at_peak[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "role", x->role);
        sw_json_put_string(j, "rule", trace_rule_text(x->rule));
        sw_json_put_u64(j, "bytes", x->bytes);
        sw_json_put_u64(j, "allocations", x->n);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_help(sw_json *j, const replan *r)
{
    sw_json_open(j, "help", '[');
    for (uint32_t i = 0; i < r->n_help; i++) {
        const replan_help *h = &r->help[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "change", replan_changes[h->change].name);
        sw_json_put_string(j, "text", replan_changes[h->change].text);
        sw_json_put_u64(j, "bytes", h->bytes);
        sw_json_put_u64(j, "held_bytes", h->held);
        sw_json_put_u64(j, "allocations", h->n);
        sw_json_put_string(j, "first",
                           h->stack != TRACE_NONE ? replan_who(&r->trace, h->stack) : NULL);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* All that frames show. */
static void put_steps(sw_json *j, const replan *r)
{
    sw_json_put_string(j, "steps_are",
                       !r->period.by_frames ? "repeated requests"
                       : r->period.passes   ? "passes"
                                            : "optimizer steps");
    sw_json_put_u64(j, "steps", r->period.steps);
    report_put_steps(j, r->roles.steps, r->roles.n_steps);
}

static void put_losers(sw_json *j, const replan *r)
{
    sw_json_open(j, "losers", '[');
    for (uint32_t i = 0; i < r->n_losers; i++) {
        const trace_stack *s = &r->trace.stacks[r->losers[i].stack];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "op", s->op);
        sw_json_put_string(j, "layer", s->layer);
        sw_json_put_u64(j, "bytes", r->losers[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_oom(sw_json *j, const replan *r)
{
    const replan_oom *o = &r->oom;
    if (!sw_json_open_known(j, "oom", o->there))
        return;
    put_event(j, "event", &r->trace, o->event);
    sw_json_put_u64(j, "asked_bytes", o->asked);
    sw_json_put_u64(j, "device_free_bytes", o->device_free);
    sw_json_put_u64(j, "reserved_bytes", o->reserved);
    sw_json_put_u64(j, "requested_bytes", o->requested);
    put_census(j, "causes", &o->moment);
    put_height(j, "plan", true, &o->with);
    sw_json_put_bool(j, "fits", o->fits);
    put_holders(j, &r->trace, o->holders, o->n_holders, false);
    sw_json_end(j);
}

void replan_put_json(sw_json *j, const replan *r)
{
    const snapshot_trace *t = &r->trace;
    sw_json_put_i64(j, "device", t->device);
    sw_json_put_bool(j, "segments", r->replayed);
    sw_json_put_u64(j, "events", t->n_events);
    sw_json_put_u64(j, "allocations", r->lives.n);
    sw_json_put_u64(j, "allocations_before", r->lives.n_before);
    sw_json_put_u64(j, "arenas", r->lives.n_arenas);
    sw_json_put_u64(j, "reserved_bytes", r->reserved);
    put_event(j, "reserved_event", t, r->replayed ? r->reserved_event : TRACE_NONE);
    sw_json_put_u64(j, "requested_bytes", r->whole.most);
    put_census(j, "causes", &r->at_reserved);
    put_proof(j, r);
    put_height(j, "whole", true, &r->whole);
    put_height(j, "one_arena", r->streams, &r->merged);
    put_step(j, r);
    put_steps(j, r);
    put_roles(j, r);
    put_help(j, r);
    sw_json_put_known(j, "expandable_bytes", r->expandable > 0, r->expandable);
    put_holders(j, t, r->holders, r->n_holders, true);
    put_losers(j, r);
    put_oom(j, r);
}

/* ---- offsets ----------------------------------------------------------------------------- */

static void put_arenas(sw_json *j, const replan *r)
{
    sw_json_open(j, "arenas", '[');
    for (uint32_t i = 0; i < r->lives.n_arenas; i++) {
        const trace_arena *a = &r->lives.arenas[i];
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "stream", a->stream);
        sw_json_open(j, "pool", '[');
        sw_json_u64(j, a->pool >> 32);
        sw_json_u64(j, a->pool & UINT32_MAX);
        sw_json_end(j);
        sw_json_put_u64(j, "bytes", a->height);
        sw_json_put_known(j, "step_bytes", r->steady, a->step_height);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_number(sw_json *j, bool known, uint64_t x)
{
    if (known)
        sw_json_u64(j, x);
    else
        sw_json_null(j);
}

void replan_put_offsets(sw_json *j, const replan *r)
{
    const trace_lives *l = &r->lives;
    sw_json_put_i64(j, "device", r->trace.device);
    sw_json_put_u64(j, "align", l->align);
    put_arenas(j, r);
    put_step(j, r);
    sw_json_open(j, "columns", '[');
    static const char *const columns[] = {"arena", "offset",    "bytes",
                                          "born",  "completed", "step_offset"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        sw_json_string(j, columns[i]);
    sw_json_end(j);
    sw_json_put_u64(j, "before", l->n_before);
    sw_json_open(j, "allocations", '[');
    for (uint32_t i = 0; i < l->n; i++) {
        const trace_life *x = &l->all[i];
        sw_json_break(j, 1);
        sw_json_begin(j, '[');
        sw_json_u64(j, x->arena);
        sw_json_u64(j, x->offset);
        sw_json_u64(j, x->bytes);
        put_number(j, x->born > 0, x->born > 0 ? r->trace.events[x->born - 1].number : 0);
        put_number(j, x->dead < l->n_positions,
                   x->dead < l->n_positions ? r->trace.events[x->dead - 1].number : 0);
        put_number(j, x->step_offset != UINT64_MAX, x->step_offset);
        sw_json_end(j);
    }
    sw_json_end(j);
}
