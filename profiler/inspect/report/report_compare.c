/* Lines of two numbers. */
#include "profiler/inspect/report/report_compare.h"
#include "alloc/base/mem.h"
#include <string.h>

bool compare_is_sum(compare_group of)
{
    return of >= COMPARE_ROLES && of <= COMPARE_TENSORS;
}

/* ---- sides ------------------------------------------------------------------------------- */

static sw_status make_parts(compare_side *s)
{
    static const parts_by by[COMPARE_GROUPS] = {[COMPARE_ROLES] = PARTS_ROLE,
                                                [COMPARE_LAYERS] = PARTS_LAYER,
                                                [COMPARE_OPS] = PARTS_OP,
                                                [COMPARE_TENSORS] = PARTS_VALUE};
    for (int of = COMPARE_ROLES; of <= COMPARE_TENSORS; of++)
        SW_TRY(
            parts_make(&s->parts[of], s->r->timeline, report_program(s->r, s->plan), by[of]));
    return SW_OK;
}

/* A run that no one looked at has the figures of its plan. */
static const char *looked_by(const char *by)
{
    return strcmp(by, "plan") != 0 ? by : NULL;
}

/* "net.py:12 forward" without the line: an edit moves it. */
static sw_status drop_lines(sw_timeline *t, const char **text)
{
    char without[1200];
    size_t n = 0;
    for (const char *c = *text; *c != '\0' && n + 1 < sizeof without; c++) {
        const size_t digits = *c == ':' ? strspn(c + 1, "0123456789") : 0;
        if (digits > 0 && c[1 + digits] == ' ')
            c += digits;
        else
            without[n++] = *c;
    }
    without[n] = '\0';
    return strcmp(without, *text) == 0 ? SW_OK : sw_timeline_string(t, text, without);
}

static sw_status match_functions(report *r, const sw_tl_program *p)
{
    for (uint32_t i = 0; i < p->n_values && !sw_timeline_is_ours(r->timeline); i++) {
        SW_TRY(drop_lines(r->timeline, &p->values[i].name));
        SW_TRY(drop_lines(r->timeline, &p->values[i].layer));
        SW_TRY(drop_lines(r->timeline, &p->values[i].op));
    }
    return SW_OK;
}

sw_status compare_run(compare_side *s, report *r)
{
    s->r = r;
    s->plan = report_peak_plan(r);
    if (s->plan == NULL && r->damaged_line > 0)
        SW_FAIL(SW_FORMAT, "%s", r->damaged_why);
    if (s->plan == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan that could be compared", r->path);
    const report_seen *seen = report_best_seen(s->plan);
    memcpy(s->phase, seen != NULL ? seen->phase : s->plan->phase, sizeof s->phase);
    s->by = seen != NULL ? looked_by(seen->by) : NULL;
    s->peak = s->phase[report_peak_phase(s->phase)].peak_bytes;
    if (s->peak == 0) /* other tools have no phases */
        s->peak = s->plan->peak;
    s->timed = report_medians(r, s->ns);
    SW_TRY(match_functions(r, report_program(r, s->plan)));
    return make_parts(s);
}

sw_status compare_step(compare_side *s, const report *r, const report_step *step)
{
    s->r = r;
    s->step = step;
    s->by = looked_by(step->by);
    if (step->plan == SW_TL_NONE)
        SW_FAIL(SW_FORMAT,
                "%s: step %llu has no plan or trace in the file: its tensors are not known",
                r->path, (unsigned long long)step->step);
    s->plan = &r->plans[step->plan];
    memcpy(s->phase, step->phase, sizeof s->phase);
    s->peak = s->phase[report_peak_phase(s->phase)].peak_bytes;
    s->timed = step->ns > 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        s->ns[i] = step->phase[i].ns;
    s->ns[SW_PROF_PHASES] = step->ns;
    return make_parts(s);
}

void compare_free(comparison *c)
{
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < COMPARE_GROUPS; i++)
            parts_free(&c->side[s].parts[i]);
    sw_heap_free(c->lines, SW_HEAP_PROFILE, c->cap * sizeof *c->lines);
    c->lines = NULL;
}

bool compare_is_same(const comparison *c)
{
    const compare_side *a = &c->side[0], *b = &c->side[1];
    return a->r == b->r && a->plan == b->plan && a->peak == b->peak;
}

int64_t compare_difference(const comparison *c, const compare_line *l)
{
    return (int64_t)(c->newer == 0 ? l->a - l->b : l->b - l->a);
}

int64_t compare_peaks(const comparison *c)
{
    return (int64_t)(c->side[c->newer].peak - c->side[1 - c->newer].peak);
}

bool compare_is_unknown(const compare_line *l)
{
    return l->unknown[0] || l->unknown[1];
}

bool compare_share(const comparison *c, const compare_line *l, double *out)
{
    const int64_t own = compare_difference(c, l);
    if (!compare_is_sum(l->of) || own == 0)
        return false;
    const uint64_t of = own > 0 ? c->grown[l->of] : c->shrunk[l->of];
    *out = (double)own / (double)of;
    return of > 0;
}

/* ---- lines ------------------------------------------------------------------------------- */

static sw_status add_line(comparison *c, compare_line l)
{
    SW_TRY(sw_heap_reserve(&c->lines, SW_HEAP_PROFILE, &c->cap, c->n + 1, sizeof *c->lines));
    c->lines[c->n++] = l;
    return SW_OK;
}

static void sum_changes(comparison *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const int64_t change = compare_difference(c, &c->lines[i]);
        if (change > 0)
            c->grown[c->lines[i].of] += (uint64_t)change;
        else
            c->shrunk[c->lines[i].of] += 0 - (uint64_t)change;
    }
}

static sw_status add(comparison *c, compare_group of, const char *name, uint64_t a, uint64_t b)
{
    return add_line(
        c, (compare_line){.of = of, .name = name, .in_a = true, .in_b = true, .a = a, .b = b});
}

/* Why a tensor has other bytes at the one peak than at the other. */
static const char *why(const parts_match *p)
{
    const parts_group *a = p->group[0], *b = p->group[1];
    if (p->bytes[0] == p->bytes[1] || (a == NULL && b == NULL))
        return NULL;
    if (a == NULL)
        return "only in B";
    if (b == NULL)
        return "only in A";
    if (a->in_place != b->in_place)
        return a->in_place ? "in place in A" : "in place in B";
    if (p->bytes[0] != 0 && p->bytes[1] != 0)
        return "other size";
    return p->bytes[0] != 0 ? "peak of A only" : "peak of B only";
}

/* Groups that neither peak has are none of its lines. */
static sw_status add_pairs(comparison *c, compare_group of)
{
    const compare_side *a = &c->side[0], *b = &c->side[1];
    const int64_t beyond[2] = {(int64_t)(a->peak - a->parts[of].at[0].at_peak),
                               (int64_t)(b->peak - b->parts[of].at[0].at_peak)};
    parts_match *pairs;
    size_t n;
    SW_TRY(parts_matches(&pairs, &n, a->r->timeline, &a->parts[of], &b->parts[of], beyond));
    for (size_t i = 0; i < n; i++) {
        const parts_match *p = &pairs[i];
        const bool in_a = p->bytes[0] != 0, in_b = p->bytes[1] != 0;
        if (!in_a && !in_b)
            continue;
        SW_TRY(add_line(c, (compare_line){.of = of,
                                          .name = p->name,
                                          .in_a = in_a,
                                          .in_b = in_b,
                                          .a = (uint64_t)p->bytes[0],
                                          .b = (uint64_t)p->bytes[1],
                                          .why = of == COMPARE_TENSORS ? why(p) : NULL}));
    }
    return SW_OK;
}

/* The process, as both steps report it. */
static sw_status add_host(comparison *c)
{
    const report_step *a = c->side[0].step, *b = c->side[1].step;
    if (a == NULL || b == NULL)
        return SW_OK;
    SW_TRY(add(c, COMPARE_HOST, "host heap", a->host, b->host));
    for (int i = 0; i < SW_HEAP_KINDS && a->has_heap && b->has_heap; i++)
        SW_TRY(add(c, COMPARE_HOST, sw_heap_name((sw_heap)i), a->heap[i], b->heap[i]));
    if (a->process != UINT64_MAX && b->process != UINT64_MAX)
        SW_TRY(add(c, COMPARE_HOST, "process resident", a->process, b->process));
    return add_line(c, (compare_line){.of = COMPARE_HOST,
                                      .name = "allocations",
                                      .in_a = true,
                                      .in_b = true,
                                      .a = a->calls,
                                      .b = b->calls,
                                      .counts = true});
}

/* A phase that another tool's frames do not tell is not one without bytes. */
static sw_status add_phase(comparison *c, compare_group of, int phase, uint64_t a, uint64_t b)
{
    compare_line l = {.of = of,
                      .name = sw_prof_phase_name(phase),
                      .in_a = true,
                      .in_b = true,
                      .a = a,
                      .b = b};
    for (int s = 0; s < 2; s++)
        l.unknown[s] = !sw_timeline_is_ours(c->side[s].r->timeline) &&
                       c->side[s].phase[phase].peak_bytes == 0;
    return add_line(c, l);
}

/* Bytes that another tool reserved stand for an arena; model and data are unknown then. */
static sw_status add_totals(comparison *c)
{
    const compare_side *a = &c->side[0], *b = &c->side[1];
    SW_TRY(add(c, COMPARE_TOTALS, "peak", a->peak, b->peak));
    if (!sw_timeline_is_ours(a->r->timeline) || !sw_timeline_is_ours(b->r->timeline))
        return add(c, COMPARE_TOTALS,
                   sw_timeline_is_ours(a->r->timeline) || sw_timeline_is_ours(b->r->timeline)
                       ? "arena, reserved"
                       : "reserved",
                   a->plan->arena, b->plan->arena);
    SW_TRY(add(c, COMPARE_TOTALS, "model", a->plan->model, b->plan->model));
    SW_TRY(add(c, COMPARE_TOTALS, "arena", a->plan->arena, b->plan->arena));
    SW_TRY(add(c, COMPARE_TOTALS, "data", a->plan->data, b->plan->data));
    return add(c, COMPARE_TOTALS, "total", a->plan->total, b->plan->total);
}

sw_status compare(comparison *c)
{
    const compare_side *a = &c->side[0], *b = &c->side[1];
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add_phase(c, COMPARE_PEAKS, i, a->phase[i].peak_bytes, b->phase[i].peak_bytes));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add_phase(c, COMPARE_ENDS, i, a->phase[i].end_bytes, b->phase[i].end_bytes));
    SW_TRY(add_totals(c));
    for (int of = COMPARE_ROLES; of <= COMPARE_TENSORS; of++)
        SW_TRY(add_pairs(c, (compare_group)of));
    SW_TRY(add_host(c));
    for (int i = 0; i <= SW_PROF_PHASES && a->timed && b->timed; i++)
        SW_TRY(add(c, COMPARE_TIMES, i < SW_PROF_PHASES ? sw_prof_phase_name(i) : "step in all",
                   a->ns[i], b->ns[i]));
    sum_changes(c);
    return SW_OK;
}
