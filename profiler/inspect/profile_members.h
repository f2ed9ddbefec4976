/* Reading members of a profile's records: each member is checked when it is read; messages name
 * the file, the line and the member. */
#ifndef STEPWELL_PROFILE_MEMBERS_H
#define STEPWELL_PROFILE_MEMBERS_H

#include "profiler/inspect/json_tree.h"
#include "profiler/inspect/timeline.h"

/* A record and where it stands, for messages. */
typedef struct profile_position {
    const char *path;
    uint64_t line;
    value record;     /* a dictionary */
    const char *type; /* of the record */
} profile_position;
/* SW_FORMAT: what is wrong there; or that the member `key` is missing or of another kind. */
sw_status profile_damaged(const profile_position *p, const char *what);
sw_status profile_wrong(const profile_position *p, const char *key, const char *wanted);

SW_MUST_USE sw_status profile_need_u64(const profile_position *p, value o, const char *key,
                                       uint64_t *out);
/* `otherwise` where it is missing or null. */
SW_MUST_USE sw_status profile_get_u64(const profile_position *p, value o, const char *key,
                                      uint64_t otherwise, uint64_t *out);
/* The record's phases, SW_PROF_PHASES of them. */
SW_MUST_USE sw_status profile_need_phases(const profile_position *p, sw_prof_phase *to);
/* "" where it is missing or null. Control characters become question marks. */
SW_MUST_USE sw_status profile_get_text(const profile_position *p, value o, const char *key,
                                       char *to, size_t bytes);
/* The same as it stands there, valid as long as the record. */
SW_MUST_USE sw_status profile_borrow_text(const profile_position *p, value o, const char *key,
                                          const char **out);
/* Of the record; -1: none. */
SW_MUST_USE sw_status profile_get_batch(const profile_position *p, int64_t *out);

/* Like profile_get_u64, and at most `most`. */
SW_MUST_USE sw_status profile_get_in(const profile_position *p, value o, const char *key,
                                     uint64_t most, uint64_t otherwise, uint64_t *out);
/* Exec and program, or exec and trace, of a record, as sw_tl_program has it; false: neither. */
SW_MUST_USE sw_status profile_get_key(const profile_position *p, uint64_t *key, bool *has);

#endif
