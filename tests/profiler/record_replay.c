/* The sums of a log, from its records alone: what a watch says of the same run. */
#include "tests/profiler/read_back.h"
#include <string.h>

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

static void follow(replay *r, const sw_record *x)
{
    const size_t bytes = (size_t)x->bytes * SW_ALIGN;
    switch ((sw_record_kind)x->kind) {
    case SW_RECORD_RUN:
        begin_run(r);
        break;
    case SW_RECORD_PHASE: {
        const uint64_t now = sw_record_ns(x);
        leave(r, now);
        r->phase = x->id < SW_PROF_PHASES ? (int)x->id : -1;
        r->since = now;
        r->peak = r->live;
        break;
    }
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

size_t record_replay(const sw_record *log, size_t n, size_t base_bytes,
                     sw_prof_phase phase[SW_PROF_PHASES])
{
    replay r = {.base = base_bytes, .phases = phase};
    begin_run(&r);
    for (size_t i = 0; i < n; i++)
        follow(&r, &log[i]);
    return r.live;
}
