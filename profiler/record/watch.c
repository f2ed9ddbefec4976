/* Arena events to phase figures. */
#include "profiler/record/watch.h"
#include "alloc/base/sys.h"
#include <string.h>

static void note(sw_watch *w, const sw_event *event, uint32_t id, bool died)
{
    if (w->n_notes < w->cap_notes)
        w->notes[w->n_notes++] = (sw_watch_note){event->bytes, id, died};
}

static void listen(void *context, const sw_event *event)
{
    sw_watch *w = context;
    if (w->log != NULL) /* a push has a label, a place its id */
        sw_record_event(w->log, event, event->label != NULL ? w->push_id : event->id);
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
    case SW_EVENT_REWIND:
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

static void leave(sw_watch *w, uint64_t now)
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
    leave(w, now);
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
    leave(w, now);
    w->phase = -1;
    if (w->log != NULL)
        sw_record_edge(w->log, SW_RECORD_END, 0, now);
    if (w->nvtx != NULL)
        sw_nvtx_run_end(w->nvtx, w->base_bytes + w->live);
}
