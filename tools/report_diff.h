/* Two profiles side by side. */
#ifndef STEPWELL_REPORT_DIFF_H
#define STEPWELL_REPORT_DIFF_H

#include "tools/report.h"

/* Print what differs between the runs of two profiles, as text or JSON: bytes of the phases,
 * totals, roles and layers at the peak, times. The exit status; errors are printed. */
int report_diff(const char *file, const char *other, bool json, const report_style *style,
                const report_limits *limits);

#endif
