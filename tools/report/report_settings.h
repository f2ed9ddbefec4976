/* The options of `stepwell report`, and the reports that stand in files of their own. Each
 * gives the exit status. */
#ifndef STEPWELL_REPORT_SETTINGS_H
#define STEPWELL_REPORT_SETTINGS_H

#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/report/document.h"
#include "tools/report/report_gate.h"

#define REPORT_FILES 1024

/* Options; NULL: not given. */
typedef struct {
    const char *files[REPORT_FILES]; /* several: one table */
    const char *file, *format, *diff, *out, *html, *by, *steps, *turns, *member;
    bool json, list, live, replan, ascii;
    int64_t device; /* with `replan`; below 0: all that the file has */
    report_style style;
    report_limits limits;
} report_settings;

/* The profile of a population: turns, members, a page. */
int report_population(report_settings *s);
/* CLI_GO, or the exit status where the file cannot be read. */
int report_is_population(const char *path, bool *is);
/* A snapshot planned again; `diff` is what the limits are held against, `out` where the offsets
 * go, `html` where the page goes. */
int report_replan(const report_settings *s);
/* Several snapshots, of a rank each: a table of their devices, the largest first. */
int report_ranks(const report_settings *s, int n);
/* Write the timeline of `file`, or what it and `other` (NULL: none) have apart, in a sink's
 * format to `out` (NULL or "-": standard output), whole or not at all. */
int report_export(const char *file, const char *other, const char *format, const char *out);

/* Who has read `file` leaves with `code`, or with CLI_DAMAGED and the line that is damaged on
 * standard error. */
int report_end(const profile_reading *file, int code);

#endif
