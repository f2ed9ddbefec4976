/* Figures that follow from the records that were kept. */
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/report/report_host.h"
#include "alloc/base/mem.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void report_free(report *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_plans; i++)
        sw_heap_free(r->plans[i].op_ns, SW_HEAP_PROFILE,
                     r->plans[i].n_ops * sizeof *r->plans[i].op_ns);
    sw_timeline_free(r->timeline);
    sw_heap_free(r->process, SW_HEAP_PROFILE, sizeof *r->process);
    report_free_host(r->host);
    sw_heap_free(r->plans, SW_HEAP_PROFILE, r->cap_plans * sizeof *r->plans);
    sw_heap_free(r, SW_HEAP_PROFILE, sizeof *r);
}

const report_plan *report_peak_plan(const report *r)
{
    const sw_tl_program *p = sw_timeline_peak(r->timeline);
    return p != NULL ? &r->plans[p - r->timeline->programs] : NULL;
}

/* Traces are counted apart from programs: the bit that tells them is not shown. */
report_name report_program_name(const report_plan *plan)
{
    report_name t;
    char exec[20] = "", batch[24] = "";
    if (plan->key >> 32 > 0)
        snprintf(exec, sizeof exec, ", exec %" PRIu32, (uint32_t)(plan->key >> 32));
    if (plan->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRIu32, (uint32_t)plan->batch);
    snprintf(t.text, sizeof t.text, "%s %" PRIu64 " (%.16s%s%s)",
             !plan->immediate                  ? "program"
             : strcmp(plan->run, "trace") == 0 ? "recording"
                                               : "immediate run",
             plan->key & (UINT32_MAX >> 1), plan->run[0] != '\0' ? plan->run : "run", exec,
             batch);
    return t;
}

const sw_tl_program *report_program(const report *r, const report_plan *plan)
{
    return &r->timeline->programs[plan - r->plans];
}

bool report_finished(const report *r)
{
    return r->ended && strcmp(r->status, "done") == 0;
}

int report_peak_phase(const sw_prof_phase *phase)
{
    int best = 0;
    for (int i = 1; i < SW_PROF_PHASES; i++)
        if (phase[i].peak_bytes > phase[best].peak_bytes)
            best = i;
    return best;
}

report_gate_peak report_highest(const report *r)
{
    const sw_timeline *t = r->timeline;
    const report_plan *plan = report_peak_plan(r);
    const uint64_t held = plan != NULL ? sw_timeline_height(report_program(r, plan)) : 0;
    const bool measured = t->measured && t->measured_bytes >= held;
    report_gate_peak peak = {.path = r->path,
                             .known = measured || plan != NULL,
                             .measured = measured,
                             .bytes = measured ? t->measured_bytes : held};
    if (plan != NULL && peak.bytes == held)
        snprintf(peak.in, sizeof peak.in, " in %s", report_program_name(plan).text);
    return peak;
}

const report_seen *report_best_seen(const report_plan *plan)
{
    for (int i = 0; i < plan->n_seen; i++)
        if (strcmp(plan->seen[i].by, "access") == 0)
            return &plan->seen[i];
    return plan->n_seen > 0 ? &plan->seen[0] : NULL;
}

size_t report_rows(const report *r, const report_row **rows)
{
    const uint64_t total = r->runs, edge = REPORT_EDGE;
    const size_t between_max = REPORT_ROWS - 2 * REPORT_EDGE;
    size_t n = 0;
    for (uint64_t i = 0; i < total && i < edge; i++)
        rows[n++] = &r->first[i];
    const uint64_t last = total > 2 * edge ? total - edge : edge;
    size_t from = 0, to = r->n_sample;
    while (from < to && r->sample[from].index < edge)
        from++;
    while (to > from && r->sample[to - 1].index >= last)
        to--;
    const size_t inner = to - from, take = inner < between_max ? inner : between_max;
    for (size_t k = 0; k < take; k++)
        rows[n++] = &r->sample[from + (2 * k + 1) * inner / (2 * take)];
    for (uint64_t i = last; i < total; i++)
        rows[n++] = &r->last[i % edge];
    return n;
}

static void sort(uint64_t *x, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            const uint64_t v = x[i];
            size_t k = i;
            for (; k >= gap && x[k - gap] > v; k -= gap)
                x[k] = x[k - gap];
            x[k] = v;
        }
}

bool report_medians(report *r, uint64_t *median)
{
    static uint64_t column[REPORT_TIMES];
    if (r->n_times == 0)
        return false;
    for (int k = 0; k <= SW_PROF_PHASES; k++) {
        for (size_t i = 0; i < r->n_times; i++)
            column[i] = r->times[i][k];
        sort(column, r->n_times);
        median[k] = column[(r->n_times - 1) / 2];
    }
    return true;
}
