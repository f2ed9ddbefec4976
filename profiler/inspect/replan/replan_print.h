/* A replan as text and as JSON, and its offsets for those who build an allocator from them. */
#ifndef STEPWELL_REPLAN_PRINT_H
#define STEPWELL_REPLAN_PRINT_H

#include "profiler/inspect/replan/replan.h"
#include "profiler/inspect/report/print.h"

/* Who asked, in words: "aten::addmm in net.py:12 forward"; valid until the next call. */
const char *replan_who(const snapshot_trace *t, uint32_t stack);
void replan_print_text(const replan *r, const report_style *style);
/* The members of an open object. */
void replan_put_json(sw_json *j, const replan *r);
/* The plan of the whole trace and of the steady step: arenas, and for each allocation its
 * number among the allocations of the trace, event, arena, offset, bytes and lifetime. */
void replan_put_offsets(sw_json *j, const replan *r);

#endif
