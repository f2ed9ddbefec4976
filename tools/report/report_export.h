/* stepwell report --format NAME: the run in a format that another tool reads. */
#ifndef STEPWELL_REPORT_EXPORT_H
#define STEPWELL_REPORT_EXPORT_H

#include <stdbool.h>

/* "text", "json" and the names of all sinks, NULL after the last. */
const char *const *report_formats(void);
/* Write the timeline of `file`, or what it and `other` (NULL: none) have apart, to `out` (NULL
 * or
 * "-": standard output), whole or not at all. The exit status. */
int report_export(const char *file, const char *other, const char *format, const char *out);

#endif
