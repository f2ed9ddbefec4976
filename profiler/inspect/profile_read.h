/* Profiles: lines as records in bounded memory, their members, the one reader of records, and
 * the timeline of a file. Messages name file, line and member. */
#pragma once

#include "alloc/base/sys.h"
#include "profiler/inspect/values.h"
#include "profiler/inspect/timeline.h"

#define PROFILE_RECORD_BYTES ((size_t)256 << 20) /* that one record takes as a tree */

typedef struct {
    sw_file *file;
    char *buffer;
    size_t capacity, begin, end;
    bool at_end;
    uint64_t line; /* of the latest line, from 1 */
    uint64_t at;   /* where it begins in the file */
    uint64_t next; /* where the next one begins */
    value_tree *tree;
    json_buffer json;
} profile_lines;

typedef struct {
    const char *text; /* NULL: there is no more */
    size_t n;
    bool whole; /* false for a last line that has no newline */
} profile_line;

SW_MUST_USE sw_status profile_lines_open(profile_lines *lines, const char *path);
void profile_lines_close(profile_lines *lines);
/* The next line begins there. */
SW_MUST_USE sw_status profile_lines_seek(profile_lines *lines, uint64_t at, uint64_t line);
/* The first bytes of the file, as they are now; the next line stays where it was. */
SW_MUST_USE sw_status profile_lines_head(profile_lines *lines, char *to, size_t bytes,
                                         size_t *n);
/* The next line without its newline. Valid until the next call. */
SW_MUST_USE sw_status profile_lines_next(profile_lines *lines, profile_line *line);

/* Reading members of a profile's records: each member is checked when it is read; messages name
 * the file, the line and the member. */

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
/* "" where it is missing or null. Control characters become question marks. */
SW_MUST_USE sw_status profile_get_text(const profile_position *p, value o, const char *key,
                                       char *to, size_t bytes);
/* Of the record; -1: none. */
SW_MUST_USE sw_status profile_get_batch(const profile_position *p, int64_t *out);

/* Like profile_get_u64, and at most `most`. */
SW_MUST_USE sw_status profile_get_in(const profile_position *p, value o, const char *key,
                                     uint64_t most, uint64_t otherwise, uint64_t *out);

/* A member of a record: a uint64_t that is PROFILE_NEEDED, or `otherwise` where it is missing;
 * or a const char *, PROFILE_TEXT, that is kept by the timeline. */
typedef struct {
    const char *key;
    void *to;
    uint64_t otherwise;
} profile_member;
#define PROFILE_NEEDED (UINT64_MAX - 1)
#define PROFILE_TEXT (UINT64_MAX - 2)
/* In this order, up to one without a key; `t` is asked for texts alone. */
SW_MUST_USE sw_status profile_take(sw_timeline *t, const profile_position *p, value o,
                                   const profile_member *f);
#define PROFILE_TAKE(t, p, o, ...)                                                             \
    profile_take(t, p, o, (const profile_member[]){__VA_ARGS__, {NULL, NULL, 0}})

/* The one reader of profiles: records as they come, checked; who asks sums them up (the report)
 * or keeps them (a timeline). */

/* The record of a line. Not *there: it is the last one and cut. SW_FORMAT: it is no record. */
SW_MUST_USE sw_status profile_record(profile_lines *lines, const profile_line *line,
                                     profile_position *p, bool *there);

/* The header's record: what the timeline says of the run. */
SW_MUST_USE sw_status profile_take_header(sw_timeline *t, const profile_position *p);
/* A plan or trace record becomes the last program of the timeline, whole and checked; on
 * failure the timeline has the programs it had. */
SW_MUST_USE sw_status profile_take_program(sw_timeline *t, const profile_position *p,
                                           bool immediate);

/* A step record, valid as long as its line. Numbers that are missing are 0. */
typedef struct {
    uint64_t key; /* exec and program, or trace; where it has one */
    bool has;
    uint64_t step, micro, at_ns, ns; /* at_ns SW_TL_AFTER: not said */
    bool has_phases;
    sw_prof_phase phase[SW_PROF_PHASES];
    uint64_t peak, arena, model, host, process, calls; /* process UINT64_MAX: not asked */
    bool has_loss;
    double loss;
    bool says_warm, warm;
    char by[12], run[12], mode[12];
    value witnesses; /* 0: the run was not under witnesses */
    uint64_t faults;
    char first_fault[256];
    value clocks; /* of ops, in their order */
} profile_step;
SW_MUST_USE sw_status profile_read_step(const profile_position *p, profile_step *s);
/* Clocks are as many as the program has ops, or none. */
SW_MUST_USE sw_status profile_check_clocks(const profile_position *p, const profile_step *s,
                                           const sw_tl_program *program);
uint64_t profile_clock(const profile_step *s, uint64_t op);
/* The same, and what it says of the peak of the program and of the run is taken. */
uint32_t profile_count_step(sw_timeline *t, const profile_step *s);
/* Whether it says what a whole run took: a witness that was asked of something else does
 * not. */
bool profile_has_bytes(const profile_step *s);
/* The highest of the phases. */
uint64_t profile_peak(const sw_prof_phase *phase);

typedef struct {
    const char *status, *error; /* as they stand there, valid as long as the record */
    uint64_t wall_ns, steps;
} profile_end;

/* All records of a file, for who sums them up: where the reading ended, and why. */
typedef struct {
    void *context;
    sw_status (*take)(void *context, const profile_position *p); /* a record; the end's too */
    bool follows;  /* the file may grow: its unfinished last line is left for the next time, and
                      damage is an error */
    uint64_t good; /* lines that were read */
    uint64_t damaged_line;  /* where reading ended, all before it counts; 0: nowhere */
    char damaged_why[4608]; /* with file and line */
    bool cut, ended;        /* ended: there is an end record, which says: */
    char status[16];        /* "done", "interrupted", "failed" */
    char error[512];
    uint64_t wall_ns, all_steps; /* all_steps: recorded or not; 0: not said */
} profile_reading;
/* Damage after the header ends the reading, and the part before it stays. */
SW_MUST_USE sw_status profile_read_all(profile_reading *x, profile_lines *lines,
                                       sw_timeline *t);

/* From a file to a timeline: a profile of ours, or what another tool wrote. */

#define TIMELINE_EVENTS ((uint64_t)1000000)
#define TIMELINE_STEPS 16

typedef struct {
    uint64_t max_events;           /* births, deaths and ops; 0: TIMELINE_EVENTS */
    uint64_t step[TIMELINE_STEPS]; /* these only; none: as many as max_events allows, half of */
    uint32_t n_steps;              /* them from the front, half from the end */
} timeline_want;

/* All programs and the runs that are requested (NULL: no step by number). The kind of the file
 * is seen from its first bytes. SW_FORMAT and SW_IO name the file and the line. Of a profile
 * that is damaged after its header there is what precedes the damage, and `damaged` says so; a
 * last line that is cut ends the timeline and nothing more. Owner: the caller, by
 * sw_timeline_free. */
SW_MUST_USE sw_status timeline_open(sw_timeline **out, const char *path,
                                    const timeline_want *want);
