/* The event log: its room, what arenas state, and its replay. */
#include "profiler/record/record.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
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

void sw_record_event(sw_record_log *log, const sw_event *event, uint32_t id)
{
    static const uint8_t kinds[] = {
        [SW_EVENT_PUSH] = SW_RECORD_PUSH,       [SW_EVENT_REWIND] = SW_RECORD_REWIND,
        [SW_EVENT_RESET] = SW_RECORD_RESET,     [SW_EVENT_PLACE] = SW_RECORD_PLACE,
        [SW_EVENT_RELEASE] = SW_RECORD_RELEASE, [SW_EVENT_DENIED] = SW_RECORD_DENIED};
    const bool ranged = event->kind == SW_EVENT_PUSH || event->kind == SW_EVENT_PLACE ||
                        event->kind == SW_EVENT_RELEASE || event->kind == SW_EVENT_DENIED;
    SW_ASSERT((unsigned)event->kind < sizeof kinds || event->kind == SW_EVENT_COMMIT);
    SW_ASSERT(log->n <= log->cap);
    /* Memory of the system is not what lives, and what has no bytes is in no plan. */
    if (event->kind == SW_EVENT_COMMIT || (ranged && event->bytes == 0))
        return;
    sw_record_range(log, (sw_record_kind)kinds[event->kind], event->offset, event->bytes,
                    ranged ? id : SW_PROF_NONE);
}

/* ---- replay ------------------------------------------------------------------------------ */

typedef struct {
    size_t base, live, peak; /* peak: of the arena, in this phase */
    int phase;               /* -1: outside of all */
    uint64_t since;
    sw_prof_phase *phases;
} replay;

static void leave(replay *r, uint64_t now)
{
    if (r->phase < 0)
        return;
    sw_prof_phase *p = &r->phases[r->phase];
    if (r->base + r->peak > p->peak_bytes)
        p->peak_bytes = r->base + r->peak;
    p->end_bytes = r->base + r->live;
    p->ns += now - r->since;
    r->phase = -1;
}

static void begin_run(replay *r)
{
    memset(r->phases, 0, SW_PROF_PHASES * sizeof *r->phases);
    r->phases[0].peak_bytes = r->phases[0].end_bytes = r->base;
    r->phase = -1;
}

static void enter(replay *r, const sw_record *x)
{
    const uint64_t now = sw_record_ns(x);
    leave(r, now);
    r->phase = x->id < SW_PROF_PHASES ? (int)x->id : -1;
    r->since = now;
    r->peak = r->live;
}

static void follow(replay *r, const sw_record *x)
{
    const size_t bytes = (size_t)x->bytes * SW_ALIGN;
    switch ((sw_record_kind)x->kind) {
    case SW_RECORD_RUN:
        begin_run(r);
        break;
    case SW_RECORD_PHASE:
        enter(r, x);
        break;
    case SW_RECORD_PLACE:
    case SW_RECORD_PUSH:
        r->live += bytes;
        r->peak = r->live > r->peak ? r->live : r->peak;
        break;
    case SW_RECORD_RELEASE:
    case SW_RECORD_REWIND:
        r->live -= bytes;
        break;
    case SW_RECORD_RESET:
        r->live = 0;
        break;
    case SW_RECORD_END:
        leave(r, sw_record_ns(x));
        break;
    case SW_RECORD_OP:
    case SW_RECORD_REUSE:
    case SW_RECORD_DENIED:
    case SW_RECORD_KINDS:
        break;
    }
}

size_t sw_record_replay(const sw_record *log, size_t n, size_t base_bytes,
                        sw_prof_phase phase[SW_PROF_PHASES])
{
    replay r = {.base = base_bytes, .phases = phase};
    begin_run(&r);
    for (size_t i = 0; i < n; i++)
        follow(&r, &log[i]);
    return r.live;
}
