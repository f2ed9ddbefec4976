/* The record of the process in a profile. */
#include "alloc/base/mem.h"
#include "profiler/inspect/profile_members.h"
#include "profiler/inspect/report/report.h"
#include <stdio.h>
#include <string.h>

/* The kind of that name; what a later version calls otherwise is shown as unexplained. */
static sw_process_kind kind_of(const char *name)
{
    int kind = 0;
    while (kind < SW_PROCESS_REST &&
           strcmp(sw_process_kind_name((sw_process_kind)kind), name) != 0)
        kind++;
    return (sw_process_kind)kind;
}

static sw_status take_line(const profile_position *p, value o, sw_process_line *l)
{
    char kind[16];
    uint64_t n, mapped, resident, huge, predicted;
    if (!value_is_dict(o))
        return profile_wrong(p, "lines", "a list of lines");
    SW_TRY(profile_get_text(p, o, "kind", kind, sizeof kind));
    SW_TRY(profile_get_text(p, o, "name", l->name, sizeof l->name));
    SW_TRY(profile_get_u64(p, o, "n", 0, &n));
    SW_TRY(profile_get_u64(p, o, "mapped_bytes", 0, &mapped));
    SW_TRY(profile_need_u64(p, o, "resident_bytes", &resident));
    SW_TRY(profile_get_u64(p, o, "huge_bytes", 0, &huge));
    SW_TRY(profile_get_u64(p, o, "predicted_bytes", UINT64_MAX, &predicted));
    l->kind = kind_of(kind);
    l->n = n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    l->mapped_bytes = (size_t)mapped;
    l->resident_bytes = (size_t)resident;
    l->huge_bytes = (size_t)huge;
    l->predicted = predicted != UINT64_MAX;
    l->predicted_bytes = l->predicted ? (size_t)predicted : 0;
    return SW_OK;
}

static sw_status fill(const profile_position *p, sw_process *x)
{
    uint64_t resident, sum = 0;
    const value lines = value_at(p->record, "lines");
    memset(x, 0, sizeof *x);
    SW_TRY(profile_need_u64(p, p->record, "resident_bytes", &resident));
    if (!value_is_list(lines) || value_count(lines) > SW_PROCESS_LINES)
        return profile_wrong(p, "lines", "a list of lines");
    for (; x->n < value_count(lines); x->n++) {
        SW_TRY(take_line(p, value_item(lines, x->n), &x->line[x->n]));
        sum += x->line[x->n].resident_bytes;
    }
    if (sum != resident)
        return profile_wrong(p, "resident_bytes", "the sum of the lines");
    x->resident_bytes = (size_t)resident;
    return SW_OK;
}

sw_status report_take_process(report *r, const profile_position *p)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *r->process));
    const sw_status status = fill(p, block);
    if (status == SW_OK)
        sw_heap_free(r->process, SW_HEAP_PROFILE, sizeof *r->process);
    else
        sw_heap_free(block, SW_HEAP_PROFILE, sizeof *r->process);
    r->process = status == SW_OK ? block : r->process;
    return status;
}
