/* The memory that jansson reads records into: from the counted heap, in few blocks, up to a
 * ceiling, and given back at once. One at a time in a process. */
#ifndef STEPWELL_REPORT_HEAP_H
#define STEPWELL_REPORT_HEAP_H

#include "alloc/base/base.h"

#define REPORT_HEAP_BYTES ((size_t)256 << 20) /* for one record */

/* From here on jansson takes its memory here. */
void report_heap_begin(void);
/* Nothing of the record before is used any more. */
void report_heap_reset(void);
/* SW_OK, or what a call for memory was refused with since the last reset: SW_FORMAT for the
 * ceiling, whose message begins with `path` and `line`; else SW_NOMEM. */
SW_MUST_USE sw_status report_heap_status(const char *path, uint64_t line);
/* Gives all back; jansson takes its memory where it did before. */
void report_heap_end(void);

#endif
