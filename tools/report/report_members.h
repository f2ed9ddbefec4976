/* Reading members of a profile's records: each that is wanted is checked, and messages name the
 * file, the line and the member. */
#ifndef STEPWELL_REPORT_MEMBERS_H
#define STEPWELL_REPORT_MEMBERS_H

#include "profiler/inspect/json_tree.h"
#include "profiler/inspect/timeline.h"
#include "tools/report/report.h"

/* A record and where it stands, for messages. */
typedef struct report_place {
    const char *path;
    uint64_t line;
    value record; /* a dictionary */
} report_place;
/* SW_FORMAT: what is wrong there; or that the member `key` is missing or not `wanted`. */
sw_status report_damaged(const report_place *p, const char *what);
sw_status report_wrong(const report_place *p, const char *key, const char *wanted);

SW_MUST_USE sw_status report_need_u64(const report_place *p, value o, const char *key,
                                      uint64_t *out);
/* `otherwise` where it is missing or null. */
SW_MUST_USE sw_status report_get_u64(const report_place *p, value o, const char *key,
                                     uint64_t otherwise, uint64_t *out);
/* The record's phases, SW_PROF_PHASES of them. */
SW_MUST_USE sw_status report_need_phases(const report_place *p, sw_prof_phase *to);
/* "" where it is missing or null. Control characters become question marks. */
SW_MUST_USE sw_status report_get_text(const report_place *p, value o, const char *key, char *to,
                                      size_t bytes);
/* Of the record; -1: none. */
SW_MUST_USE sw_status report_get_batch(const report_place *p, int64_t *out);

/* Like report_get_u64, and at most `most`. */
SW_MUST_USE sw_status report_get_in(const report_place *p, value o, const char *key,
                                    uint64_t most, uint64_t otherwise, uint64_t *out);
/* Exec and program, or exec and trace, of a record, as sw_tl_program has it; false: neither. */
SW_MUST_USE sw_status report_get_key(const report_place *p, uint64_t *key, bool *has);

/* The header's record: what the timeline says of the run. In timeline_read.c. */
SW_MUST_USE sw_status report_take_header(sw_timeline *t, const report_place *p);
/* A plan or trace record becomes the last program of the timeline, whole and checked; on
 * failure the timeline has the programs it had. In timeline_read.c. */
SW_MUST_USE sw_status report_take_program(sw_timeline *t, const report_place *p,
                                          bool immediate);

/* A record of the type "process" into r->process; the latest one counts. */
SW_MUST_USE sw_status report_take_process(report *r, const report_place *p);

#endif
