/* Dummy: the number of programs. */
#include "profiler/inspect/sink_internal.h"

static sw_status write_dummy(const sw_timeline *t, sw_sink_out *out)
{
    sw_sink_print(out, "programs: %u\n", (unsigned)t->n_programs);
    return out->status;
}

const sw_sink sw_sink_dummy = {
    .name = "dummy", .about = "the number of programs", .ending = ".txt", .write = write_dummy};
