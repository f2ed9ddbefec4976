/* Two runs side by side, of two files or two steps of one: everything that is compared is a
 * line with two numbers. Those of roles, layers, makers and tensors add up to the difference of
 * the peaks, to the byte. */
#ifndef STEPWELL_REPORT_COMPARE_H
#define STEPWELL_REPORT_COMPARE_H

#include "profiler/inspect/report/print.h"
#include "profiler/inspect/report/report_parts.h"

typedef enum {
    COMPARE_PEAKS,
    COMPARE_ENDS,
    COMPARE_TOTALS,
    COMPARE_ROLES, /* from here to COMPARE_TENSORS: sums of the peak */
    COMPARE_LAYERS,
    COMPARE_OPS,
    COMPARE_TENSORS,
    COMPARE_HOST, /* of the process, for steps */
    COMPARE_TIMES,
    COMPARE_GROUPS
} compare_group;

typedef struct {
    compare_group of;
    const char *name;
    bool in_a, in_b; /* it may be in one of them only */
    uint64_t a, b;   /* bytes, nanoseconds or calls; what is not in the values is signed */
    bool counts;     /* calls */
    const char *why; /* of a tensor: "only in B", "other size", ...; NULL: nothing */
    bool unknown[2]; /* of A, of B: who recorded it cannot tell */
} compare_line;

/* One of the two. */
typedef struct {
    const report *r; /* not owned */
    const report_plan *plan;
    const report_step *step; /* NULL: the whole run */
    const char *by;          /* how it was measured; NULL: `phase` is as planned */
    sw_prof_phase phase[SW_PROF_PHASES];
    uint64_t peak;
    bool timed;
    uint64_t ns[SW_PROF_PHASES + 1];
    parts parts[COMPARE_GROUPS];
} compare_side;

typedef struct {
    compare_side side[2]; /* A and B */
    int newer;            /* changes of this side are reported: A of --diff, B of --steps */
    compare_line *lines;
    uint32_t n, cap;
    uint64_t grown[COMPARE_GROUPS], shrunk[COMPARE_GROUPS]; /* sums of the lines of one sign */
} comparison;

bool compare_is_sum(compare_group of);
/* A side: the run by the program that holds its peak, or one step of it, which was found.
 * SW_FORMAT: there is no program. */
SW_MUST_USE sw_status compare_run(compare_side *s, report *r);
SW_MUST_USE sw_status compare_step(compare_side *s, const report *r, const report_step *step);
/* All lines. Both sides are there; the comparison is freed also after a failure. */
SW_MUST_USE sw_status compare(comparison *c);
void compare_free(comparison *c);
/* Whether both are runs of one program that peak alike. */
bool compare_is_same(const comparison *c);
/* The newer side less the other: growth is above 0. */
int64_t compare_difference(const comparison *c, const compare_line *l);
int64_t compare_peaks(const comparison *c);
bool compare_is_unknown(const compare_line *l); /* of A or of B */
/* A line's share of all growth in its group, or of all that shrank, by its sign: never more
 * than 1, and the share of the whole difference where all lines go one way. Of a line of no
 * group of sums, or without a difference, false. */
bool compare_share(const comparison *c, const compare_line *l, double *out);

/* The differences, for people and as a JSON object. `more`: NULL when there is none. */
void report_print_difference(const comparison *c, const report_style *style);
SW_MUST_USE sw_status report_difference_json(const comparison *c, const report_tail *more,
                                             const report_style *style);

#endif
