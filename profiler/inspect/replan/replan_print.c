/* The report of a PyTorch run that was planned again, as text and as JSON. */
#include "profiler/inspect/replan/replan.h"
#include <stdio.h>
#include <string.h>

/* A sentence; a number as "1,234,567". */
#define SAY(style, ...) sw_writer_say((style)->to, 2, 4, __VA_ARGS__)
#define DIGITS(x) sw_text_digits(x).text

static const char *const phase_names[] = {"data", "forward", "loss", "backward", "optimizer"};

/* An op that is the layer's innermost function is said once. */
static bool ends_with_op(const snapshot_frames *s)
{
    const size_t n_op = strlen(s->op), n_layer = strlen(s->layer);
    return n_op > 0 && n_layer >= n_op && strcmp(s->layer + n_layer - n_op, s->op) == 0 &&
           (n_layer == n_op || s->layer[n_layer - n_op - 1] == '/');
}

static bool is_nameless(const snapshot_frames *s)
{
    return s->op[0] == '\0' && s->layer[0] == '\0';
}

static const char nameless[] = "made before the recording, or without frames";

const char *replan_who(const snapshot_trace *t, uint32_t stack)
{
    static char text[1100]; /* both are at most half of it */
    const snapshot_frames *s = &t->stacks[stack];
    if (is_nameless(s))
        return "code without frames";
    snprintf(text, sizeof text, "%s%s%s", ends_with_op(s) ? "" : s->op,
             *s->layer == '\0' || *s->op == '\0' || ends_with_op(s) ? "" : " in ", s->layer);
    return text;
}

/* On what is left of a line: of a long name the innermost functions. */
static void print_stack(const snapshot_frames *s, int taken, const report_style *style)
{
    char head[300];
    snprintf(head, sizeof head, "%.200s%s",
             is_nameless(s)    ? nameless
             : ends_with_op(s) ? ""
                               : s->op,
             *s->op == '\0' || ends_with_op(s) || *s->layer == '\0' ? "" : " in ");
    const int room = sw_writer_columns(style->to) - taken - (int)strlen(head);
    sw_writer_text(style->to, head);
    (void)sw_writer_scopes(style->to, s->layer, room > 16 ? room : 16);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static double percent(uint64_t part, uint64_t of)
{
    return of > 0 ? 100.0 * (double)part / (double)of : 0.0;
}

/* ---- what was reserved ------------------------------------------------------------------- */

static void row(const report_style *style, const char *name, uint64_t bytes, uint64_t of)
{
    sw_writer_print(style->to, "  %-46s %19s %8.1f %%\n", name, DIGITS(bytes),
                    percent(bytes, of));
}

/* The parts of a census in their order: of the JSON, and with a text rows of the report. */
static const struct {
    const char *key, *text;
    size_t at; /* SIZE_MAX: the blocks in use */
    bool always;
} parts[] = {
#define PART(key, text, member, always)                                                        \
    {                                                                                          \
        key, text, offsetof(replay_census, member), always                                     \
    }
    PART("reserved_bytes", NULL, reserved, false),
    {"active_bytes", "  of that: blocks in use", SIZE_MAX, true},
    PART("requested_bytes", "requested by what lives", requested, true),
    PART("pending_bytes", "  of that: freed, waited for by other streams", pending, false),
    PART("rounding_bytes", "rounded up to 512 bytes or more", rounding, false),
    PART("rest_bytes", "rests of blocks, too small to split", unsplit, false),
    PART("unsure_bytes", NULL, unsure, false),
    PART("split_bytes", "free blocks of segments in use", split, false),
    PART("cached_bytes", "free segments (cached)", cached, false),
    PART("other_streams_bytes", "free memory of other streams", other_streams, false),
    PART("other_pools_bytes", "free memory of private pools", other_pools, false),
    PART("other_sizes_bytes", "free memory for the other class of sizes", other_sizes, false),
#undef PART
};
enum { PARTS = sizeof parts / sizeof *parts };

static uint64_t part_of(const replay_census *c, int i)
{
    uint64_t bytes = c->requested + c->rounding + c->unsplit;
    if (parts[i].at != SIZE_MAX)
        memcpy(&bytes, (const char *)c + parts[i].at, sizeof bytes);
    return bytes;
}

static void print_census(const replay_census *c, const report_style *style)
{
    for (int i = 0; i < PARTS; i++)
        if (parts[i].text != NULL && (parts[i].always || part_of(c, i) > 0))
            row(style, parts[i].text, part_of(c, i), c->reserved);
}

static void print_reserved(const replan *r, const report_style *style)
{
    if (!r->replayed) {
        sw_writer_print(style->to, "\n");
        row(style, "span of all addresses (no segments are known)", r->reserved, r->reserved);
        return;
    }
    report_headline(style, r->trace.n_events > 0 ? "Reserved by PyTorch, at the peak"
                                                 : "Reserved by PyTorch, at the end");
    sw_writer_print(style->to, "  %-46s %19s %10s\n", "", "bytes", "share");
    row(style, "reserved", r->reserved, r->reserved);
    if (r->at_reserved.known)
        print_census(&r->at_reserved.census, style);
    const snapshot_trace *t = &r->trace;
    if (t->n_events == 0) {
        SAY(style, "No events are in the snapshot: this is what there was when it was "
                   "written, and lifetimes are not known. "
                   "torch.cuda.memory._record_memory_history() records them.");
    } else if (r->reserved_event != TRACE_NONE) {
        const trace_event *e = &t->events[r->reserved_event];
        SAY(style, "It grew to that at event %s, for %s bytes by %s.", DIGITS(e->number),
            DIGITS(e->bytes), replan_who(t, e->stack));
    } else if (r->reserved > 0) {
        SAY(style, "It had grown to that before the trace.");
    }
    for (uint32_t i = 0; i < r->n_losers; i++) {
        const replan_loser *x = &r->losers[i];
        if (i == 0)
            SAY(style, "Most is lost to rounding and rests by:");
        sw_writer_print(style->to, "  %16s  ", DIGITS(x->bytes));
        print_stack(&r->trace.stacks[x->stack], 20, style);
        sw_writer_print(style->to, "\n");
    }
    const replay_proof *p = &r->proof;
    if (p->from != TRACE_NONE)
        SAY(style, "From event %s on the causes are unknown: %s.",
            DIGITS(t->events[p->from].number), p->why);
    else if (p->n_checked > 0)
        SAY(style, "Proof: %s request%s, and each lies where the allocator's rules put it.",
            DIGITS(p->n_checked), plural(p->n_checked));
    if (r->at_reserved.known && r->at_reserved.census.unsure > 0)
        SAY(style,
            "At most %s bytes of the free blocks are rests too: of blocks from before "
            "the trace, whose ends nothing in it shows.",
            DIGITS(r->at_reserved.census.unsure));
    if (!r->trace.said_settings)
        SAY(style, "The snapshot does not say the allocator's settings, as those of PyTorch "
                   "2.3 and newer do: the defaults are taken.");
}

/* ---- plans ------------------------------------------------------------------------------- */

/* How far the plan is above the least, and whether no plan is lower: offsets have an
 * alignment. */
static void print_height(const char *name, const lives_height *h, const report_style *style)
{
    char planned[40];
    if (h->height <= h->bound)
        snprintf(planned, sizeof planned, "the least");
    else
        snprintf(planned, sizeof planned, "%s+%.2f %%", h->height <= h->proved ? "least " : "",
                 percent(h->height - h->bound, h->bound));
    sw_writer_print(style->to, "  %-22s %9s %15s %15s %13s\n", name, DIGITS(h->n),
                    DIGITS(h->bound), DIGITS(h->height), planned);
}

static void print_plans(const replan *r, const report_style *style)
{
    report_headline(style, "Planned, with all lifetimes known");
    sw_writer_print(style->to, "  %-22s %9s %15s %15s\n", "", "requests", "at least",
                    "planned");
    print_height(r->trace.n_events > 0 ? "the whole trace" : "what lives", &r->whole, style);
    if (r->streams)
        print_height("  one arena for streams", &r->merged, style);
    if (r->steady)
        print_height(r->period.by_frames ? "the last step" : "a steady step", &r->step, style);
    if (r->lives.n_arenas > 1)
        SAY(style,
            "\"At least\" is the largest sum of requested bytes that live at one time, "
            "of each stream and pool: what keeps them apart needs no less. All "
            "together %s bytes live at one time, and no allocator needs less.",
            DIGITS(r->whole.most));
    else
        SAY(style, "\"At least\" is the largest sum of requested bytes that live at one time: "
                   "no allocator needs less.");
    if (r->trace.n_events == 0)
        return;
    /* The steps, in a sentence. */
    const trace_period *p = &r->period;
    const char *what = p->passes ? "pass (forward and backward)" : "training step";
    const uint64_t first =
        p->first > 0 && p->steps > 0 ? r->trace.events[p->first - 1].number : 0;
    if (p->steps < 2)
        SAY(style,
            p->steps == 1  ? "One %s is in the trace: the figures are those of the whole trace."
            : p->by_frames ? "No %s is in the trace: the figures are those of the whole trace."
                           : "No steady step was found: the requests do not repeat three "
                             "times, up to the same bytes.",
            what);
    else
        SAY(style, "From event %s on %s %s %s; %s bytes live through all of %s.", DIGITS(first),
            DIGITS(p->steps),
            p->passes      ? "passes (forward and backward)"
            : p->by_frames ? "training steps"
                           : "steps",
            p->by_frames ? "are in the trace" : "are alike", DIGITS(r->step_kept),
            p->by_frames ? "the last" : "a step");
    if (!r->steady)
        return;
    const uint64_t before = r->before_requested, most = r->step.most;
    if (before > most)
        SAY(style, "Before that step up to %s bytes lived: the warm-up costs %s more.",
            DIGITS(before), DIGITS(before - most));
    else
        SAY(style, "Before it no more lived than in it: the warm-up costs nothing.");
    if (r->replayed)
        SAY(style, "PyTorch had reserved %s bytes by the end of the step: %.2f times the plan.",
            DIGITS(r->step_reserved),
            r->step.height > 0 ? (double)r->step_reserved / (double)r->step.height : 0.0);
}

/* A name on a line of its own: it is what most people look for. */
static void print_who(const replan *r, const replan_holder *h, const report_style *style)
{
    const snapshot_frames *s = &r->trace.stacks[h->stack];
    char role[60], phase[16] = "";
    snprintf(role, sizeof role, "      %.40s: ", h->role);
    if (s->phase >= 0)
        snprintf(phase, sizeof phase, " (%s)", phase_names[s->phase]);
    sw_writer_text(style->to, role);
    print_stack(s, (int)(strlen(role) + strlen(phase)), style);
    sw_writer_print(style->to, "%s\n", phase);
}

static void print_what_if(const replan *r, const report_style *style)
{
    bool phases = false;
    if (r->n_holders == 0)
        return;
    report_headline(style, "Who holds the peak of what was requested, and what if not");
    sw_writer_print(style->to, "  %19s %10s %19s\n", "bytes", "requests", "without: at least");
    for (uint32_t i = 0; i < r->n_holders; i++) {
        const replan_holder *h = &r->holders[i];
        sw_writer_print(style->to, "  %19s %10s %19s\n", DIGITS(h->bytes), DIGITS(h->n),
                        DIGITS(h->without.most));
        print_who(r, h, style);
        phases |= r->trace.stacks[h->stack].phase >= 0;
    }
    if (phases && !style->quiet && r->trace.n_events > 0)
        SAY(style, "Phases follow from the frames: optimizer, autograd, loss and data are "
                   "named there, all else is forward.");
    if (r->expandable > 0)
        SAY(style,
            "With expandable segments PyTorch would reserve %s bytes (simulated, on a "
            "device that is never full).",
            DIGITS(r->expandable));
}

static void print_oom(const replan *r, const report_style *style)
{
    const replan_oom *o = &r->oom;
    const trace_event *e = &r->trace.events[o->event];
    report_headline(style, "Out of memory");
    SAY(style, "%s asked, %s were fragmentation: at event %s, by %s.",
        sw_text_bytes(o->asked).text, sw_text_bytes(o->reserved - o->requested).text,
        DIGITS(e->number), replan_who(&r->trace, e->stack));
    sw_writer_print(style->to, "  %-46s %19s %10s\n", "", "bytes", "share");
    row(style, "reserved", o->reserved, o->reserved);
    if (o->moment.known)
        print_census(&o->moment.census, style);
    else
        row(style, "requested by what lived", o->requested, o->reserved);
    sw_writer_print(style->to, "  %-46s %19s\n", "asked for", DIGITS(o->asked));
    sw_writer_print(style->to, "  %-46s %19s\n", "free on the device", DIGITS(o->device_free));
    SAY(style,
        "This request %s in a planned arena: all requests up to it take %s bytes "
        "(at least %s), and there were %s.",
        o->fits ? "fits" : "does not fit", DIGITS(o->with.height), DIGITS(o->with.most),
        DIGITS(o->reserved + o->device_free));
    if (o->fits || o->n_holders == 0)
        return;
    SAY(style, "Most was held by:");
    sw_writer_print(style->to, "  %19s %10s\n", "bytes", "requests");
    for (uint32_t i = 0; i < o->n_holders; i++) {
        sw_writer_print(style->to, "  %19s %10s\n", DIGITS(o->holders[i].bytes),
                        DIGITS(o->holders[i].n));
        print_who(r, &o->holders[i], style);
    }
}

void replan_print_text(const replan *r, const report_style *style)
{
    const snapshot_trace *t = &r->trace;
    const uint32_t us = t->n_events > 0 ? t->events[t->n_events - 1].us : 0;
    sw_writer_say(style->to, 0, 2,
                  "PyTorch snapshot, %s %lld: %s event%s%s%s, %s allocation%s, %s of them from "
                  "before the trace",
                  t->cuda ? "device" : "profile of device", (long long)t->device,
                  DIGITS(t->n_events), plural(t->n_events), us > 0 ? " in " : "",
                  us > 0 ? sw_text_ns((uint64_t)us * 1000).text : "", DIGITS(r->lives.n),
                  plural(r->lives.n), DIGITS(r->lives.n_before));
    if (r->lives.n == 0)
        sw_writer_say(style->to, 0, 2, "No allocation is in it.");
    else if (r->replayed)
        sw_writer_say(style->to, 0, 2,
                      "PyTorch reserved %s. At least %s are needed, and a plan takes %s.",
                      sw_text_bytes(r->reserved).text, sw_text_bytes(r->whole.most).text,
                      sw_text_bytes(r->whole.height).text);
    else
        sw_writer_say(style->to, 0, 2, "At least %s are needed, and a plan takes %s.",
                      sw_text_bytes(r->whole.most).text, sw_text_bytes(r->whole.height).text);
    /* Right below the headline. */
    if (r->trace.n_events != 0) {
        report_headline(style, r->n_help > 0
                                   ? "Changes that help (each tried on this trace alone)"
                                   : "Nothing found that would help.");
        for (uint32_t i = 0; i < r->n_help; i++) {
            const replan_help *h = &r->help[i];
            char where[1200] = "";
            const bool none = h->stack != TRACE_NONE && is_nameless(&r->trace.stacks[h->stack]);
            if (h->stack != TRACE_NONE)
                snprintf(where, sizeof where, " (%s tensor%s of %s bytes, first %s%s)",
                         DIGITS(h->n), plural(h->n), DIGITS(h->held), none ? "" : "by ",
                         none ? nameless : replan_who(&r->trace, h->stack));
            sw_writer_print(style->to, "  -%16s  ", DIGITS(h->bytes));
            char text[1500];
            snprintf(text, sizeof text, "%s%s", replan_changes[h->change].text, where);
            sw_writer_wrap(style->to, 21, 21, text);
        }
    }
    if (r->oom.there)
        print_oom(r, style);
    print_reserved(r, style);
    if (r->lives.n > 0)
        print_plans(r, style);
    /* The roles that live at the peak, and the rules that say so. */
    if (r->n_roles != 0) {
        report_headline(style, "Live at the peak, with the rule that says so");
        for (uint32_t i = 0; i < r->n_roles; i++) {
            const replan_role *x = &r->at_peak[i];
            sw_writer_print(style->to, "  %-15.15s %16s %6.1f %%%6s  %s\n", x->role,
                            DIGITS(x->bytes), percent(x->bytes, r->whole.most), DIGITS(x->n),
                            trace_rule_text(x->rule));
        }
    }
    report_print_steps(style, r->lives.roles.steps, r->lives.roles.n_steps,
                       r->lives.roles.passes);
    print_what_if(r, style);
    if (!style->quiet)
        sw_writer_say(
            style->to, 0, 2,
            "%sLifetimes are those of allocations, not of uses. Memory outside of "
            "PyTorch's allocator (the context, libraries' own) is not in the snapshot.",
            "\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_census(sw_json *j, const char *key, const replay_moment *m)
{
    if (!sw_json_open_known(j, key, m->known))
        return;
    for (int i = 0; i < PARTS; i++)
        sw_json_put_u64(j, parts[i].key, part_of(&m->census, i));
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
    sw_json_put_known(j, key, event != TRACE_NONE, t->events[event].number);
}

static void put_step(sw_json *j, const replan *r)
{
    const trace_period *p = &r->period;
    if (!sw_json_open_known(j, "step", r->steady))
        return;
    SW_JSON_PUT(j, p, steps, requests);
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
        const snapshot_frames *s = &t->stacks[of[i].stack];
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, s, op, layer);
        sw_json_put_string(j, "phase", s->phase >= 0 ? sw_prof_phase_name(s->phase) : NULL);
        SW_JSON_PUT(j, &of[i], role, bytes);
        sw_json_put_u64(j, "allocations", of[i].n);
        if (without)
            sw_json_put_u64(j, "without_bound_bytes", of[i].without.most);
        sw_json_end(j);
    }
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
    if (sw_json_open_known(j, "proof", r->replayed)) {
        sw_json_put_u64(j, "requests", r->proof.n_checked);
        put_event(j, "unknown_from", t, r->proof.from);
        sw_json_put_string(j, "why", r->proof.from != TRACE_NONE ? r->proof.why : NULL);
        sw_json_end(j);
    }
    put_height(j, "whole", true, &r->whole);
    put_height(j, "one_arena", r->streams, &r->merged);
    put_step(j, r);
    /* All that frames show. */
    sw_json_put_string(j, "steps_are",
                       !r->period.by_frames ? "repeated requests"
                       : r->period.passes   ? "passes"
                                            : "optimizer steps");
    sw_json_put_u64(j, "steps", r->period.steps);
    report_put_steps(j, r->lives.roles.steps, r->lives.roles.n_steps);
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
    sw_json_open(j, "help", '[');
    for (uint32_t k = 0; k < r->n_help; k++) {
        const replan_help *h = &r->help[k];
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
    sw_json_put_known(j, "expandable_bytes", r->expandable > 0, r->expandable);
    put_holders(j, t, r->holders, r->n_holders, true);
    sw_json_open(j, "losers", '[');
    for (uint32_t i = 0; i < r->n_losers; i++) {
        const snapshot_frames *s = &r->trace.stacks[r->losers[i].stack];
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, s, op, layer);
        sw_json_put_u64(j, "bytes", r->losers[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
    const replan_oom *o = &r->oom;
    if (!sw_json_open_known(j, "oom", o->there))
        return;
    put_event(j, "event", t, o->event);
    sw_json_put_u64(j, "asked_bytes", o->asked);
    sw_json_put_u64(j, "device_free_bytes", o->device_free);
    sw_json_put_u64(j, "reserved_bytes", o->reserved);
    sw_json_put_u64(j, "requested_bytes", o->requested);
    put_census(j, "causes", &o->moment);
    put_height(j, "plan", true, &o->with);
    sw_json_put_bool(j, "fits", o->fits);
    put_holders(j, t, o->holders, o->n_holders, false);
    sw_json_end(j);
}

/* ---- offsets ----------------------------------------------------------------------------- */

/* The number of the event before a position; null for 0, and for positions past the last. */
static void put_position(sw_json *j, const replan *r, uint32_t position)
{
    if (position > 0 && position < r->lives.n_positions)
        sw_json_u64(j, r->trace.events[position - 1].number);
    else
        sw_json_null(j);
}

void replan_put_offsets(sw_json *j, const replan *r)
{
    const trace_lives *l = &r->lives;
    sw_json_put_i64(j, "device", r->trace.device);
    sw_json_put_u64(j, "align", l->align);
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
        put_position(j, r, x->born);
        put_position(j, r, x->dead);
        x->step_offset != UINT64_MAX ? sw_json_u64(j, x->step_offset) : sw_json_null(j);
        sw_json_end(j);
    }
    sw_json_end(j);
}
