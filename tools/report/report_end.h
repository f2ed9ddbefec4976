/* How a report ends: its exit status. */
#ifndef STEPWELL_REPORT_REPORT_END_H
#define STEPWELL_REPORT_REPORT_END_H

#include "profiler/inspect/report/print.h"

/* The exit status that a report of `r` leaves with; `code`, or CLI_DAMAGED with the line that
 * is damaged on standard error. */
int report_end(const report *r, int code);

#endif
