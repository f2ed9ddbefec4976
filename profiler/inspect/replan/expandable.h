/* The same requests with expandable segments. */
#ifndef STEPWELL_EXPANDABLE_H
#define STEPWELL_EXPANDABLE_H

#include "profiler/inspect/replan/trace_lives.h"

/* What PyTorch's allocator would reserve with expandable_segments, on a device that is never
 * full and with a cache that is never emptied: simulated, without anything to hold it against.
 */
SW_MUST_USE sw_status expandable_reserved(const snapshot_trace *t, const trace_lives *l,
                                          uint64_t *out);

#endif
