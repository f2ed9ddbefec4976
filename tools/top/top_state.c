/* From records to what is shown: sums, series and a window, in a fixed amount of memory. */
#include "tools/top/top.h"
#include <math.h>
#include <string.h>

/* ---- series ------------------------------------------------------------------------------ */

static double joined(const top_series *s, double a, double b, double share)
{
    return s->largest ? fmax(a, b) : a + (b - a) * share;
}

static void halve(top_series *s)
{
    for (size_t i = 0; i < TOP_POINTS / 2; i++)
        s->at[i] = joined(s, s->at[2 * i], s->at[2 * i + 1], 0.5);
    s->n = TOP_POINTS / 2;
    s->each *= 2;
}

void top_series_add(top_series *s, double x)
{
    if (s->n > 0 && s->in_last < s->each) {
        double *last = &s->at[s->n - 1];
        s->in_last++;
        *last = joined(s, *last, x, 1.0 / (double)s->in_last);
        return;
    }
    if (s->n == TOP_POINTS)
        halve(s);
    s->each = s->each == 0 ? 1 : s->each;
    s->at[s->n++] = x;
    s->in_last = 1;
}

/* ---- the pace ---------------------------------------------------------------------------- */

/* Without a clock in the records steps are taken to follow each other at once. */
top_pace top_measure(top *t)
{
    const top_state *s = &t->state;
    const uint64_t have = s->n_window < TOP_WINDOW ? s->n_window : TOP_WINDOW;
    top_pace pace = {0};
    t->times.n = t->times.max = 0;
    t->times.min = UINT64_MAX;
    const top_point *newest = &s->window[(s->n_window + TOP_WINDOW - 1) % TOP_WINDOW];
    const top_point *oldest = newest;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < have; i++) {
        const top_point *x = &s->window[(s->n_window - 1 - i) % TOP_WINDOW];
        sum += x->ns;
        const uint64_t span = s->timed ? newest->at_ns + newest->ns - x->at_ns : sum;
        if (i > 0 && span > TOP_WINDOW_NS)
            break;
        cli_times_add(&t->times, x->ns);
        oldest = x;
        pace.ns = span;
        pace.steps++;
    }
    pace.time = cli_times_summary(&t->times);
    if (have > 0 && pace.ns > 0) /* a record may stand for several steps */
        pace.rate = (double)(newest->step - oldest->step + 1) * 1e9 / (double)pace.ns;
    return pace;
}

/* ---- records ----------------------------------------------------------------------------- */

/* The profile of another run begins with another time or command. */
void top_join(top *t)
{
    const report *r = t->report;
    top_state *s = &t->state;
    t->joined = true;
    if (s->begun &&
        (strcmp(s->created, r->created) != 0 || strcmp(s->command, r->command) != 0))
        memset(s, 0, sizeof *s);
    s->begun = true;
    s->time.largest = s->high.largest = true;
    memcpy(s->created, r->created, sizeof s->created);
    memcpy(s->command, r->command, sizeof s->command);
    s->planned_steps = r->planned_steps;
    s->budget = r->budget_bytes;
}

static bool begins(const char *text, size_t n, const char *with)
{
    const size_t length = strlen(with);
    return n >= length && memcmp(text, with, length) == 0;
}

/* Steps far before the end are sampled, but for those that allocated; events are left out. All
 * other lines are read, also those that this program did not write. */
static bool wants(void *context, const char *text, size_t n, uint64_t at)
{
    static const char calm[] = "\"allocations\":0,";
    top *t = context;
    if (begins(text, n, "{\"type\":\"events\""))
        return false;
    if (at >= t->recent || !begins(text, n, "{\"type\":\"step\"") ||
        memmem(text, n, calm, sizeof calm - 1) == NULL)
        return true;
    if (at < t->next)
        return false;
    t->next = at + t->stride;
    return true;
}

static void add_point(top_state *s, const top_point *x, bool micro)
{
    top_point *last = s->n_window > 0 ? &s->window[(s->n_window - 1) % TOP_WINDOW] : NULL;
    if (micro && last != NULL && last->step == x->step)
        last->ns += x->ns;
    else
        s->window[s->n_window++ % TOP_WINDOW] = *x;
}

/* A program that is lower than the highest so far, in this part of the profile or one before,
 * is passed over. */
static void take_seen(top_state *s, const report *r, const profile_step *x,
                      const report_plan *plan)
{
    const uint64_t height =
        plan != NULL ? sw_timeline_height(report_program(r, plan)) : x->peak;
    if ((plan != NULL && plan != report_peak_plan(r)) || (s->shown && height < s->height))
        return;
    s->shown = true;
    s->height = height;
    memcpy(s->by, x->by, sizeof s->by);
    s->arena = x->arena;
    s->model = x->model;
    s->peak = x->peak;
    s->has_plan = plan != NULL;
    s->planned = plan != NULL && !plan->immediate;
    s->program = plan != NULL ? report_program_name(plan) : (report_name){""};
    s->data = plan != NULL ? plan->data : 0;
    s->total = plan != NULL ? plan->total : 0;
    s->plan_peak = s->planned ? plan->peak : 0;
    memcpy(s->seen, x->phase, sizeof s->seen);
    if (s->planned)
        memcpy(s->plan, plan->phase, sizeof s->plan);
    top_series_add(&s->high, (double)s->peak);
}

static sw_status take_step(void *context, const profile_step *x, const report_row *row,
                           const report_plan *plan, bool train)
{
    top *t = context;
    top_state *s = &t->state;
    if (!t->joined)
        top_join(t);
    if (x->host > 0)
        s->host = x->host;
    if (x->process != UINT64_MAX && x->process > 0)
        s->process = x->process;
    take_seen(s, t->report, x, plan);
    if (!train)
        return SW_OK;
    top_point point = {.step = x->step, .at_ns = x->at_ns, .ns = x->ns};
    const top_point *before = &s->window[(s->n_window + TOP_WINDOW - 1) % TOP_WINDOW];
    if (s->n_window > 0 && s->timed && point.at_ns < before->at_ns)
        point.at_ns = before->at_ns; /* written under a clock that went back */
    s->timed = point.at_ns != SW_TL_AFTER;
    s->any = true;
    s->last = *row;
    add_point(s, &point, row->micro > 0);
    if (row->has_loss)
        top_series_add(&s->loss, row->loss);
    top_series_add(&s->time, (double)point.ns);
    return SW_OK;
}

report_watch top_watch(top *t)
{
    return (report_watch){.context = t, .wants = wants, .step = take_step};
}
