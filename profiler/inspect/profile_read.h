/* The one reader of profiles: records as they come, checked; who asks sums them up (the report)
 * or keeps them (a timeline). */
#ifndef STEPWELL_PROFILE_READ_H
#define STEPWELL_PROFILE_READ_H

#include "profiler/inspect/profile_lines.h"
#include "profiler/inspect/profile_members.h"

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
/* The index of its program, the latest of that key; SW_TL_NONE: it has none. */
uint32_t profile_program_of(const sw_timeline *t, const profile_step *s);
/* The same, and what it says of the peak of the program and of the run is taken. */
uint32_t profile_count_step(sw_timeline *t, const profile_step *s);
/* Whether it says what a whole run took: a witness that was asked of something else does not.
 */
bool profile_has_bytes(const profile_step *s);
/* The highest of the phases. */
uint64_t profile_peak(const sw_prof_phase *phase);

typedef struct {
    const char *status, *error; /* as they stand there, valid as long as the record */
    uint64_t wall_ns, steps;
} profile_end;
/* The peak of all runs goes into the timeline. */
SW_MUST_USE sw_status profile_read_end(const profile_position *p, profile_end *e,
                                       sw_timeline *t);

#endif
