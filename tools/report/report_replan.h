/* stepwell report SNAPSHOT --replan. */
#ifndef STEPWELL_REPORT_REPLAN_H
#define STEPWELL_REPORT_REPLAN_H

#include "tools/report/report_gate.h"
#include "profiler/inspect/report/print.h"

typedef struct {
    const char *file;
    const char *out;             /* where the offsets go; NULL: nowhere */
    const char *html;            /* where the page goes; NULL: nowhere */
    int64_t device;              /* below 0: all that the file has */
    const char *base;            /* --diff: what the limits are held against; NULL: nothing */
    const report_limits *limits; /* read */
    bool json;
    const report_style *style;
} report_replan_asked;

/* An exit status. */
int report_replan(const report_replan_asked *asked);
/* Several snapshots, of a rank each: a table of their devices, the largest first. asked->file
 * is not used. */
int report_ranks(const report_replan_asked *asked, const char *const *files, int n);

#endif
