/* `stepwell report` of the profile of a population. */
#ifndef STEPWELL_REPORT_POPULATION_H
#define STEPWELL_REPORT_POPULATION_H

#include "profiler/inspect/report/print.h"
#include "tools/report/report_gate.h"

/* The options; NULL: not given. */
typedef struct {
    const char *file, *diff, *turns, *member, *html, *out, *format;
    bool json;
    const char *no; /* an option that populations do not have */
    const report_limits *limits;
    const report_style *style;
} report_population_asked;
/* CLI_GO, or the exit status where the file cannot be read. */
int report_is_population(const char *path, bool *is);
/* The exit status. */
int report_population(const report_population_asked *asked);

#endif
