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

#include "tools/report/report_members.h"

static bool begins(const char *text, size_t n, const char *with)
{
    const size_t length = strlen(with);
    return n >= length && memcmp(text, with, length) == 0;
}

/* What lies far behind is sampled, but for runs that allocated and for what is no step. A line
 * that does not look as this program writes it is read. */
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

static sw_status take_seen(top_state *s, const report_place *p, const report_row *row,
                           const report_plan *plan)
{
    const bool planned = plan != NULL && !plan->immediate;
    const uint64_t peak = planned ? plan->peak : 0;
    if (planned && s->planned && peak < s->plan_peak)
        return SW_OK;
    SW_TRY(report_get_text(p, p->record, "measured_by", s->by, sizeof s->by));
    SW_TRY(report_get_u64(p, p->record, "arena_bytes", 0, &s->arena));
    SW_TRY(report_get_u64(p, p->record, "model_bytes", 0, &s->model));
    SW_TRY(report_get_u64(p, p->record, "peak_bytes", 0, &s->peak));
    s->planned = planned;
    s->plan_peak = peak;
    memcpy(s->seen, row->phase, sizeof s->seen);
    if (planned)
        memcpy(s->plan, plan->phase, sizeof s->plan);
    top_series_add(&s->high, (double)s->peak);
    return SW_OK;
}

static sw_status take_step(void *context, const report_place *p, const report_row *row,
                           const report_plan *plan, bool train)
{
    top *t = context;
    top_state *s = &t->state;
    uint64_t process;
    if (!t->joined)
        top_join(t);
    SW_TRY(report_get_u64(p, p->record, "host_bytes", s->host, &s->host));
    SW_TRY(report_get_u64(p, p->record, "process_bytes", 0, &process));
    if (process > 0)
        s->process = process;
    if (!train)
        return SW_OK;
    top_point point = {.step = row->step};
    SW_TRY(report_get_u64(p, p->record, "ns", 0, &point.ns));
    SW_TRY(report_get_u64(p, p->record, "at_ns", UINT64_MAX, &point.at_ns));
    SW_TRY(take_seen(s, p, row, plan));
    const top_point *before = &s->window[(s->n_window + TOP_WINDOW - 1) % TOP_WINDOW];
    if (s->n_window > 0 && s->timed && point.at_ns < before->at_ns)
        point.at_ns = before->at_ns; /* written under a clock that went back */
    s->timed = point.at_ns != UINT64_MAX;
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
