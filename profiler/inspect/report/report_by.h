/* stepwell report FILE --by layer|role|op|phase: one program in a table. */
#ifndef STEPWELL_REPORT_BY_H
#define STEPWELL_REPORT_BY_H

#include "profiler/inspect/report/print.h"

typedef enum { BY_TEXT, BY_JSON, BY_CSV } by_format;

/* The words of --by, NULL after the last. */
extern const char *const report_by_words[];
/* Print the program that holds the peak. `more`: of JSON; NULL when there is none. */
SW_MUST_USE sw_status report_print_by(const report *r, const char *word, by_format format,
                                      const report_style *style, const report_tail *more);

#endif
