/* Births and deaths in the columns of RMM's log, which its replay benchmark reads. The clock of
 * a day begins with the profile. A reuse in place has no line: the bytes stay taken. */
#include "profiler/inspect/sink.h"
#include <inttypes.h>

static sw_status take(void *context, const sw_tl_event *e)
{
    sw_sink_out *out = context;
    if ((e->kind != SW_TL_ALLOC && e->kind != SW_TL_FREE) || e->bytes == 0)
        return out->status;
    const uint64_t us = e->ns / 1000, seconds = us / 1000000;
    sw_sink_print(out,
                  "1,%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64 ",%s,0x%" PRIx64
                  ",%" PRIu64 ",0x0\n",
                  seconds / 3600, seconds / 60 % 60, seconds % 60, us % 1000000,
                  e->kind == SW_TL_ALLOC ? "allocate" : "free", e->address, e->bytes);
    return out->status;
}

static sw_status write_rmm(const sw_timeline *t, sw_sink_out *out)
{
    sw_sink_text(out, "Thread,Time,Action,Pointer,Size,Stream\n");
    return sw_timeline_walk(t, take, out);
}

const sw_sink sw_sink_rmm = {
    .name = "rmm",
    .about = "allocations in the columns of RMM's log, for its replay and for pandas",
    .ending = ".rmm.csv",
    .write = write_rmm,
};
