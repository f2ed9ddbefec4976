/* The options of `stepwell report`, and the reports that stand in files of their own. Each
 * gives the exit status. */
#pragma once

#include "profiler/inspect/report/report.h"

/* Gates: limits on the peak of a run that make the command fail. */

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

#define REPORT_FILES 1024

/* Options; NULL: not given. */
typedef struct {
    const char *files[REPORT_FILES]; /* several: one table */
    const char *file, *format, *diff, *out, *html, *by, *steps, *turns, *member;
    bool json, list, live, replan, ascii;
    int64_t device; /* with `replan`; below 0: all that the file has */
    report_style style;
    report_limits limits;
} report_settings;

/* One format: CLI_GO, or CLI_USAGE with a message. */
int report_check_format(const report_settings *s);
/* The profile of a population: turns, members, a page. */
int report_population(report_settings *s);
/* CLI_GO, or the exit status where the file cannot be read. */
int report_is_population(const char *path, bool *is);
/* A snapshot planned again; `diff` is what the limits are held against, `out` where the offsets
 * go, `html` where the page goes. */
int report_replan(const report_settings *s);
/* Several snapshots, of a rank each: a table of their devices, the largest first. */
int report_ranks(const report_settings *s, int n);
/* Several profiles, of a rank of one run each: a table of them. */
int report_rank_profiles(const report_settings *s, int n);

/* Rows of such a table. */
#define SW_REPORT_RANKS 4096
typedef struct report_rank_row report_rank_row;
typedef struct {
    report_rank_row *at;
    uint32_t n, cap;
} report_rank_rows;
/* The ranks of the run of rank 0, whose profiles lie beside it ("FILE.r1"); none where it was
 * alone. */
SW_MUST_USE sw_status report_ranks_beside(report_rank_rows *rows, const report *of);
void report_ranks_print(const report_rank_rows *rows, const report_style *style);
void report_ranks_put(sw_json *j, const report_rank_rows *rows); /* "ranks" */
void report_ranks_free(report_rank_rows *rows);
/* Write the timeline of `file`, or what it and `other` (NULL: none) have apart, in a sink's
 * format to `out` (NULL or "-": standard output), whole or not at all. */
int report_export(const char *file, const char *other, const char *format, const char *out);

/* The number that `text` begins with, and what follows it; NULL: it begins with none. */
const char *report_read_number(const char *text, uint64_t *out);
/* Who has read `file` leaves with `code`, or with CLI_DAMAGED and the line that is damaged on
 * standard error. */
int report_end(const profile_reading *file, int code);
