/* Two runs or two steps side by side. */
#ifndef STEPWELL_REPORT_DIFF_H
#define STEPWELL_REPORT_DIFF_H

#include "tools/report/report.h"

/* Print what differs between the runs of two files, as text or JSON: bytes of the phases,
 * totals, and what lives at the peaks by role, layer, maker and tensor, times. FILE is the run
 * that limits judge, OTHER its base; differences are FILE - OTHER. The exit status; errors are
 * printed. */
int report_diff(const char *file, const char *other, bool json, const report_style *style,
                const report_limits *limits);

/* "A,B" into two steps: CLI_GO, or CLI_USAGE with a message. */
int report_read_steps(const char *text, report_steps_wanted *out);
/* The same for two steps of one file; a limit judges its run. */
int report_steps(const char *file, report_steps_wanted *steps, bool json,
                 const report_style *style, const report_limits *limits);

#endif
