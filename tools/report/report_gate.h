/* Gates of `stepwell report`: limits on the peak of a run that make the command fail. */
#ifndef STEPWELL_REPORT_GATE_H
#define STEPWELL_REPORT_GATE_H

#include "profiler/inspect/report/report.h"
#include "profiler/record/json.h"
#include <stdbool.h>

typedef struct {
    size_t max_peak;      /* REPORT_NO_LIMIT: none */
    const char *increase; /* as it was given: "2%", "1MiB"; NULL: none */
    bool relative;        /* increase is in percent, else in bytes */
    double percent;
    size_t bytes;
} report_limits;
#define REPORT_NO_LIMIT SIZE_MAX

typedef struct {
    const report_limits *limits;
    report_gate_peak run, base; /* base: the run that may not be exceeded, with an increase */
    char grew[256];             /* what grew most; "": nothing did, or it was not asked */
} report_gate;

/* Read `increase`: CLI_GO, or CLI_USAGE with a message. `base`: whether there is one. */
int report_limits_read(report_limits *limits, bool base);
bool report_gate_asked(const report_limits *limits);
bool report_gate_failed(const report_gate *gate);
/* "gate": {...} of the report's object, as a report_tail. */
void report_gate_more(sw_json *j, const void *gate);
/* CLI_FAILED, with one line for each limit that is exceeded on standard error; else CLI_DONE,
 * with a line on standard output if `tell`. */
int report_gate_judge(const report_gate *gate, bool tell);

#endif
