/* Reading members of a profile's records: each that is wanted is checked, and messages name the
 * file, the line and the member. */
#ifndef STEPWELL_REPORT_MEMBERS_H
#define STEPWELL_REPORT_MEMBERS_H

#include "profiler/inspect/timeline.h"
#include "tools/report/report.h"

#if defined SW_HAVE_JANSSON && SW_HAVE_JANSSON
#include <jansson.h>

/* A record and where it stands, for messages. */
typedef struct report_place {
    const char *path;
    uint64_t line;
    json_t *record;
    const char *text; /* the record as it stands there */
    size_t n;
} report_place;

/* NULL when the line is no JSON object; `why` says what is wrong. */
json_t *report_parse(const char *text, size_t n, json_error_t *why);
/* SW_FORMAT: what is wrong there; or that the member `key` is missing or not `wanted`. */
sw_status report_damaged(const report_place *p, const char *what);
sw_status report_wrong(const report_place *p, const char *key, const char *wanted);

/* Numbers past 2^63 arrive as reals. */
bool report_as_u64(const json_t *x, uint64_t *out);
SW_MUST_USE sw_status report_need_u64(const report_place *p, const json_t *o, const char *key,
                                      uint64_t *out);
/* `otherwise` where it is missing or null. */
SW_MUST_USE sw_status report_get_u64(const report_place *p, const json_t *o, const char *key,
                                     uint64_t otherwise, uint64_t *out);
/* "" where it is missing or null. Control characters become question marks. */
SW_MUST_USE sw_status report_get_text(const report_place *p, const json_t *o, const char *key,
                                      char *to, size_t bytes);
/* Of the record; -1: none. */
SW_MUST_USE sw_status report_get_batch(const report_place *p, int64_t *out);

/* Like report_get_u64, and at most `most`. */
SW_MUST_USE sw_status report_get_in(const report_place *p, const json_t *o, const char *key,
                                    uint64_t most, uint64_t otherwise, uint64_t *out);
/* Exec and program, or exec and trace, of a record, as sw_tl_program has it; false: neither. */
SW_MUST_USE sw_status report_get_key(const report_place *p, uint64_t *key, bool *has);

/* Of the header. A seed may have 64 bits, which jansson reads as a real of 53: its digits are
 * read from the line. */
SW_MUST_USE sw_status report_get_seed(const report_place *p, uint64_t *out);

/* The header's record: what the timeline says of the run. In timeline_read.c. */
SW_MUST_USE sw_status report_take_header(sw_timeline *t, const report_place *p);
/* A plan or trace record becomes the last program of the timeline, whole and checked; on
 * failure the timeline has the programs it had. In timeline_read.c. */
SW_MUST_USE sw_status report_take_program(sw_timeline *t, const report_place *p,
                                          bool immediate);

/* A record of the type "process" into r->process; the latest one counts. */
SW_MUST_USE sw_status report_take_process(report *r, const report_place *p);

#endif
#endif
