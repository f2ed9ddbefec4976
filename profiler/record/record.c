/* The event log: its room, and what arenas state. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/record.h"
#include "profiler/record/watch.h"
#include <string.h>

sw_status sw_record_log_create(sw_record_log **out, uint32_t capacity, uint64_t zero_ns)
{
    SW_ASSERT(capacity > 0);
    void *block, *ring;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof(sw_record_log)));
    const sw_status status =
        sw_heap_alloc(&ring, SW_HEAP_PROFILE, capacity * sizeof(sw_record));
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_PROFILE, sizeof(sw_record_log));
        return status;
    }
    *out = block;
    **out = (sw_record_log){.ring = ring, .cap = capacity, .zero_ns = zero_ns};
    return SW_OK;
}

void sw_record_log_free(sw_record_log *log)
{
    if (log == NULL)
        return;
    sw_heap_free(log->ring, SW_HEAP_PROFILE, log->cap * sizeof(sw_record));
    sw_heap_free(log, SW_HEAP_PROFILE, sizeof *log);
}

void sw_record_begin(sw_record_log *log, uint64_t step, uint64_t now)
{
    SW_ASSERT(log->n <= log->cap && now >= log->zero_ns);
    log->n = 0;
    log->dropped = 0;
    log->phase = 0;
    sw_record_edge(log, SW_RECORD_RUN, (uint32_t)step, now);
}

/* ---- watch: arena events to phase figures ------------------------------------------------ */

static void note(sw_watch *w, const sw_event *event, uint32_t id, bool died)
{
    if (w->n_notes < w->cap_notes)
        w->notes[w->n_notes++] = (sw_watch_note){event->bytes, id, died};
}

static void listen(void *context, const sw_event *event)
{
    static const uint8_t kinds[] = {[SW_EVENT_PUSH] = SW_RECORD_PUSH,
                                    [SW_EVENT_RESET] = SW_RECORD_RESET,
                                    [SW_EVENT_PLACE] = SW_RECORD_PLACE,
                                    [SW_EVENT_RELEASE] = SW_RECORD_RELEASE,
                                    [SW_EVENT_DENIED] = SW_RECORD_DENIED};
    sw_watch *w = context;
    const bool ranged = event->kind == SW_EVENT_PUSH || event->kind == SW_EVENT_PLACE ||
                        event->kind == SW_EVENT_RELEASE || event->kind == SW_EVENT_DENIED;
    SW_ASSERT((unsigned)event->kind < sizeof kinds || event->kind == SW_EVENT_COMMIT);
    /* Memory of the system is not what lives, and what has no bytes is in no plan. A push has a
     * label, a place its id. */
    if (w->log != NULL && event->kind != SW_EVENT_COMMIT && !(ranged && event->bytes == 0))
        sw_record_range(w->log, (sw_record_kind)kinds[event->kind], event->offset, event->bytes,
                        !ranged                ? SW_PROF_NONE
                        : event->label != NULL ? w->push_id
                                               : event->id);
    switch (event->kind) {
    case SW_EVENT_PUSH:
    case SW_EVENT_PLACE:
        w->live += event->bytes;
        w->peak = w->live > w->peak ? w->live : w->peak;
        note(w, event, event->kind == SW_EVENT_PUSH ? w->push_id : event->id, false);
        break;
    case SW_EVENT_RELEASE:
        note(w, event, event->id, true);
        w->live -= event->bytes;
        break;
    case SW_EVENT_RESET:
        w->live = 0;
        break;
    case SW_EVENT_DENIED:
    case SW_EVENT_COMMIT:
        break;
    }
    if (w->nvtx != NULL)
        sw_nvtx_run_event(w->nvtx, event,
                          event->kind == SW_EVENT_PUSH ? w->push_id : event->id);
}

sw_observer sw_watch_observer(sw_watch *watch)
{
    watch->phase = -1;
    return (sw_observer){listen, watch};
}

static void leave_watch(sw_watch *w, uint64_t now)
{
    if (w->phase < 0)
        return;
    sw_prof_phase *p = &w->phases[w->phase];
    const size_t peak = w->base_bytes + w->peak;
    p->peak_bytes = peak > p->peak_bytes ? peak : p->peak_bytes;
    p->end_bytes = w->base_bytes + w->live;
    p->ns += now - w->since;
    if (w->nvtx != NULL)
        sw_nvtx_run_phase_end(w->nvtx, w->phase, p->end_bytes, peak);
}

void sw_watch_begin(sw_watch *w, size_t base_bytes)
{
    memset(w->phases, 0, sizeof w->phases);
    w->phases[0].peak_bytes = w->phases[0].end_bytes = base_bytes;
    w->base_bytes = base_bytes;
    w->n_notes = 0;
    w->push_id = SW_PROF_NONE;
    w->phase = -1;
    if (w->nvtx != NULL)
        sw_nvtx_run_begin(w->nvtx, base_bytes + w->live);
}

void sw_watch_phase(sw_watch *w, int phase)
{
    if (phase == w->phase)
        return;
    const uint64_t now = sw_clock_ns();
    leave_watch(w, now);
    if (w->nvtx != NULL)
        sw_nvtx_run_phase(w->nvtx, phase, w->base_bytes + w->live);
    w->phase = phase;
    w->since = now;
    w->peak = w->live;
    if (w->log != NULL) {
        w->log->phase = (uint8_t)phase;
        sw_record_edge(w->log, SW_RECORD_PHASE, (uint32_t)phase, now);
    }
}

void sw_watch_end(sw_watch *w)
{
    const uint64_t now = sw_clock_ns();
    leave_watch(w, now);
    w->phase = -1;
    if (w->log != NULL)
        sw_record_edge(w->log, SW_RECORD_END, 0, now);
    if (w->nvtx != NULL)
        sw_nvtx_run_end(w->nvtx, w->base_bytes + w->live);
}
