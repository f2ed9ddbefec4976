/* PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot, or their JSON) as timelines.
 *
 * One device becomes one program: that whose segments take the most memory. Its positions are
 * "before the trace" and then each alloc and each completed free; what was alive before
 *  the trace - freed in it without an alloc, or a block at its end that no event made - is
 * born at the first. Bytes are as they were requested, as the viewer draws them; the peak of
 * what the segments had reserved is the arena. Frames tell op and layer: the op is the PyTorch
 * operator or the innermost frame, the layer the user's functions outside of PyTorch's files.
 * Phases and roles are those of replan/trace_roles.h, of our own export as it says them. */
#ifndef STEPWELL_SNAPSHOT_READ_H
#define STEPWELL_SNAPSHOT_READ_H

#include "profiler/inspect/timeline.h"

/* Fill a new timeline that has its path. SW_FORMAT names the byte or the event. */
SW_MUST_USE sw_status snapshot_read(sw_timeline *t);

#endif
