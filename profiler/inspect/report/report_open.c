/* From a file to a report: a profile of ours, or the timeline of what another tool wrote. */
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/timeline_read.h"
#include <string.h>

#define PLANS_MAX ((size_t)65536)

sw_status report_new(report **out, const char *path)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROFILE, sizeof(report)));
    (*out)->path = path;
    sw_utf8_clean((*out)->shown, sizeof(*out)->shown, path);
    memset((*out)->witness_results, 0xff, sizeof(*out)->witness_results);
    return SW_OK;
}

void report_copy_header(report *r)
{
    const sw_timeline *t = r->timeline;
    sw_utf8_clean(r->model, sizeof r->model, t->model);
    sw_utf8_clean(r->device, sizeof r->device, t->device);
    sw_utf8_clean(r->data, sizeof r->data, t->data);
    sw_utf8_clean(r->normalise, sizeof r->normalise, t->normalise);
    sw_utf8_clean(r->created, sizeof r->created, t->created);
    sw_utf8_clean(r->command, sizeof r->command, t->command);
}

static sw_status reserve_plan(report *r)
{
    if (r->n_plans < r->cap_plans)
        return SW_OK;
    if (r->cap_plans >= PLANS_MAX)
        SW_FAIL(SW_FORMAT, "%s: more programs than the %zu that a report can hold", r->path,
                PLANS_MAX);
    const size_t cap = r->cap_plans == 0 ? 16 : r->cap_plans * 2;
    SW_TRY(sw_heap_resize(&r->plans, SW_HEAP_PROFILE, r->cap_plans * sizeof *r->plans,
                          cap * sizeof *r->plans));
    r->cap_plans = cap;
    return SW_OK;
}

sw_status report_add_plan(report *r, uint32_t program)
{
    const sw_tl_program *p = &r->timeline->programs[program];
    SW_TRY(reserve_plan(r));
    report_plan *x = &r->plans[r->n_plans++];
    *x = (report_plan){.key = p->key,
                       .immediate = p->immediate,
                       .run = p->run,
                       .batch = p->batch,
                       .peak = p->peak_bytes,
                       .model = p->model_bytes,
                       .arena = p->arena_bytes,
                       .data = p->data_bytes,
                       .total = p->total_bytes,
                       .lower_bound = p->lower_bound_bytes,
                       .host = p->program_host_bytes};
    memcpy(x->phase, p->phase, sizeof x->phase);
    return SW_OK;
}

/* Programs of other tools are what was measured. */
static sw_status open_other(report *r)
{
    static const timeline_want programs = {.step = {UINT64_MAX}, .n_steps = 1};
    SW_TRY(timeline_open(&r->timeline, r->path, &programs));
    report_copy_header(r);
    r->ended = true;
    memcpy(r->status, "done", sizeof "done");
    for (uint32_t i = 0; i < r->timeline->n_programs; i++) {
        SW_TRY(report_add_plan(r, i));
        report_plan *x = &r->plans[i];
        report_seen *seen = &x->seen[x->n_seen++];
        *seen = (report_seen){.by = "trace", .runs = 1, .equal = 1};
        memcpy(seen->phase, x->phase, sizeof seen->phase);
        x->immediate = true;
    }
    const report_plan *highest = report_peak_plan(r);
    r->timeline->measured = highest != NULL;
    r->timeline->measured_bytes = highest != NULL ? highest->peak : 0;
    return SW_OK;
}

sw_status report_open(report **out, const char *path, report_steps_wanted *steps)
{
    report *r;
    sw_status status = report_read(out, path, steps);
    if (status != SW_FORMAT)
        return status;
    SW_TRY(report_new(&r, path));
    status = open_other(r);
    if (status == SW_OK)
        *out = r;
    else
        report_free(r);
    return status;
}
