/* The metrics and figures of the last runs, and how callers ask for them. */
#include "runtime/exec/history.h"
#include "alloc/base/assert.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include "runtime/base/structs.h"
#include <string.h>

/* ---- the ring ---------------------------------------------------------------------------- */

sw_status swi_history_reserve(swi_history *history, uint32_t n)
{
    SW_ASSERT((history->metrics == NULL) == (history->cap == 0));
    if (n <= history->cap)
        return SW_OK;
    void *block;
    const size_t row = n * sizeof *history->metrics;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, SWI_HISTORY * row));
    swi_history_metric *metrics = block;
    for (int i = 0; i < SWI_HISTORY; i++) {
        swi_history_run *run = &history->run[i];
        SW_ASSERT(run->n <= history->cap);
        if (run->n > 0)
            memcpy(metrics + (size_t)i * n, run->metrics, run->n * sizeof *metrics);
        run->metrics = metrics + (size_t)i * n;
    }
    sw_heap_free(history->metrics, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * history->cap * sizeof *history->metrics);
    history->metrics = metrics;
    history->cap = n;
    return SW_OK;
}

void swi_history_free(swi_history *history)
{
    sw_heap_free(history->metrics, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * history->cap * sizeof *history->metrics);
    memset(history, 0, sizeof *history);
}

swi_history_run *swi_history_begin(swi_history *history)
{
    swi_history_run *run = &history->run[history->n++ % SWI_HISTORY];
    SW_ASSERT(history->n > 0); /* runs are counted from 1, and never back */
    run->there = run->waits = false;
    run->n = 0;
    memset(&run->info, 0, sizeof run->info);
    run->info.size = sizeof run->info;
    return run;
}

void swi_history_name(swi_history_run *run, const swi_trace *t)
{
    run->n = t->n_metrics;
    SW_ASSERT(run->n == 0 || run->metrics != NULL);
    for (uint32_t i = 0; i < t->n_metrics; i++)
        memcpy(run->metrics[i].name, t->metrics[i].name, sizeof run->metrics[i].name);
}

swi_history_run *swi_history_at(swi_history *history, int ago)
{
    if (ago < 0 || ago >= SWI_HISTORY || (uint64_t)ago >= history->n)
        return NULL;
    return &history->run[(history->n - 1 - (uint64_t)ago) % SWI_HISTORY];
}

const double *swi_history_metric_of(const swi_history_run *run, const char *name)
{
    for (uint32_t i = 0; run != NULL && i < run->n; i++)
        if (strcmp(run->metrics[i].name, name) == 0)
            return &run->metrics[i].value;
    return NULL;
}

/* ---- public ------------------------------------------------------------------------------ */

/* The run of `ago` runs ago, over. */
static sw_status find(sw_exec *exec, int ago, const char *call, swi_history_run **out)
{
    if (ago < 0 || ago >= SWI_HISTORY)
        SW_FAIL(SW_INVALID, "%s: runs ago must be 0 to %d (got %d)", call, SWI_HISTORY - 1,
                ago);
    swi_history_run *run = swi_history_at(&exec->history, ago);
    if (run == NULL || !run->there)
        SW_FAIL(SW_INVALID,
                ago == 0 ? "%s: nothing has run yet, or the last run failed"
                         : "%s: there was no run then, or it failed",
                call);
    SW_TRY(run->waits ? exec->backend->await(exec, run) : SW_OK);
    SW_ASSERT(!run->waits && run->n <= exec->history.cap);
    *out = run;
    return SW_OK;
}

static sw_status metric(sw_exec *exec, int ago, const char *name, const char *call, double *out)
{
    swi_history_run *run;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    if (name == NULL || out == NULL)
        SW_FAIL(SW_INVALID, "%s: name and out must not be NULL", call);
    SW_TRY(find(exec, ago, call, &run));
    const double *value = swi_history_metric_of(run, name);
    if (value == NULL)
        SW_FAIL(SW_INVALID, "%s run had no metric '%s'", ago == 0 ? "the last" : "that", name);
    *out = *value;
    return SW_OK;
}

sw_status sw_metric_get(sw_exec *exec, const char *name, double *out)
{
    return metric(exec, 0, name, "sw_metric_get", out);
}

sw_status sw_metric_past(sw_exec *exec, int ago, const char *name, double *out)
{
    return metric(exec, ago, name, "sw_metric_past", out);
}

static void give(const sw_run_info *info, sw_run_info *out)
{
    swi_struct_write(SWI_STRUCT_sw_run_info, out, info);
}

sw_status sw_run_past(sw_exec *exec, int ago, sw_run_info *out)
{
    swi_history_run *run;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_run_past"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_run_past: out must not be NULL");
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_run_info, out->size, "sw_run_past"));
    SW_TRY(find(exec, ago, "sw_run_past", &run));
    give(&run->info, out);
    return SW_OK;
}

sw_status sw_last_run(const sw_exec *exec, sw_run_info *out)
{
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_last_run"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_last_run: out must not be NULL");
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_run_info, out->size, "sw_last_run"));
    /* The run may still have to be read, though the exec is const for the caller. */
    sw_exec *own = (sw_exec *)(uintptr_t)exec;
    swi_history_run *run = swi_history_at(&own->history, 0);
    if (run != NULL && run->waits)
        SW_TRY(own->backend->await(own, run));
    give(run != NULL ? &run->info : &own->info, out);
    return SW_OK;
}
