/* `stepwell report`: what one profile file says, in bounded memory however long the run was.
 *
 * report_read goes through the file once, line by line, and keeps sums, a sample of steps, and
 * where the plans stand; report_live reads one plan again for what is live at its peak. Text
 * from the file is cleaned of control characters when it is taken in. */
#ifndef STEPWELL_REPORT_H
#define STEPWELL_REPORT_H

#include "alloc/base.h"
#include "profiler/process.h"
#include "profiler/prof.h"
#include "tools/report_lines.h"
#include <stdbool.h>

#define REPORT_EDGE 3 /* steps shown from each end */
#define REPORT_SAMPLES                                                                         \
    64 /* steps kept from between; at least half as many are there in a long run */
#define REPORT_TIMES 4096 /* runs kept for the medians */
#define REPORT_ROWS 12    /* of the table */
#define REPORT_TEXT 96

typedef struct {
    uint64_t peak, end, ns;
} report_phase;

/* The runs of one program that were measured in one way. */
typedef struct {
    char by[12];
    uint64_t runs, equal;               /* equal: all phases are as planned */
    uint64_t step;                      /* of `phase` */
    report_phase phase[SW_PROF_PHASES]; /* of the first run that differs, else of the latest */
} report_seen;

typedef struct {
    uint64_t key;      /* exec and program */
    uint64_t at, line; /* where its line begins in the file */
    char run[8];
    int64_t batch; /* -1: none */
    report_phase phase[SW_PROF_PHASES];
    uint64_t peak, model, arena, data, total, lower_bound;
    report_seen seen[3];
    int n_seen;
    uint64_t *op_ns; /* n_ops sums over op_runs warm runs with op clocks; NULL: none */
    size_t n_ops;
    uint64_t op_runs;
} report_plan;

typedef struct {
    uint64_t index; /* among the training runs */
    uint64_t step, micro;
    report_phase phase[SW_PROF_PHASES];
    bool has_loss;
    double loss;
} report_row;

typedef struct {
    const char *path;
    char model[REPORT_TEXT], device[REPORT_TEXT], data[REPORT_TEXT], created[REPORT_TEXT];
    char command[256];
    int64_t batch;
    uint64_t seed;

    report_plan *plans;
    size_t n_plans, cap_plans;
    uint64_t unplanned; /* measured runs whose program has no plan in the file */

    uint64_t runs, evaluations, immediate, witnessed; /* records; runs: training */
    report_row first[REPORT_EDGE], last[REPORT_EDGE], sample[REPORT_SAMPLES];
    size_t n_sample;
    uint64_t stride;
    uint64_t times[REPORT_TIMES]
                  [SW_PROF_PHASES + 1]; /* of warm training runs; the whole run last */
    size_t n_times;
    uint64_t warm, times_stride;

    uint64_t warm_runs; /* of training and evaluation; the others are not counted: */
    uint64_t allocations, allocating,
        allocating_step; /* of warm runs: calls, runs, the first one */
    bool has_process;
    uint64_t process_first, process_last, process_max, host_max;

    int verdict[4]; /* of the witnesses: 1 agrees, 0 does not, -1 not asked */
    uint64_t faults;
    char first_fault[256];

    sw_process *process;      /* NULL: the profile has no such record */
    struct report_host *host; /* report_host.h; NULL: no record was read */

    bool cut, ended; /* ended: there is an end record */
    char status[16]; /* of the end record: "done", "interrupted", "failed" */
    char error[256];
    uint64_t wall_ns;
} report;

extern const char *const report_witnesses[4];

/* One storage that lives at the peak; bytes with padding. */
typedef struct {
    char name[REPORT_TEXT], layer[REPORT_TEXT], role[20], op[REPORT_TEXT], phase[12];
    uint64_t bytes, padding, birth, death;
} report_value;

typedef struct {
    char name[REPORT_TEXT];
    uint64_t bytes;
} report_share;

#define REPORT_LARGEST 10
#define REPORT_SLOWEST 10
#define REPORT_SHARES 256

typedef struct {
    char name[REPORT_TEXT];
    uint64_t ns; /* mean of a run */
} report_op;

typedef struct {
    char op[REPORT_TEXT];                     /* that runs at the peak */
    uint64_t position, n_ops, bytes, padding; /* sums of what lives there */
    report_share role[32],
        layer[REPORT_SHARES]; /* largest first; the last takes what is too much */
    size_t n_roles, n_layers;
    report_value largest[REPORT_LARGEST];
    size_t n_largest;
    report_op slowest[REPORT_SLOWEST];
    size_t n_slowest;
    uint64_t ops_ns; /* mean of all ops of a run */
} report_live;

/* Read the file. SW_FORMAT and SW_IO name it, and the line. Owner: the caller, by report_free.
 */
SW_MUST_USE sw_status report_read(report **out, const char *path);
void report_free(report *r);

/* Who follows a file that grows. */
struct report_place;
typedef struct {
    void *context;
    /* Whether a line, which begins at `at` in the file, is worth reading. */
    bool (*wants)(void *context, const char *text, size_t n, uint64_t at);
    /* A run of training or, else, evaluation was taken; `plan`: NULL when the file has none. */
    sw_status (*step)(void *context, const struct report_place *p, const report_row *row,
                      const report_plan *plan, bool train);
} report_watch;
/* Reading piece by piece: report_more takes what is there behind what it has taken. An
 * unfinished last line is left for the next time, or, without a watch, is the last one. Before
 * the first line is whole the report says nothing. Owner of both: the caller, by report_free
 * and report_lines_close. */
SW_MUST_USE sw_status report_begin(report **out, report_lines *lines, const char *path);
SW_MUST_USE sw_status report_more(report *r, report_lines *lines, const report_watch *watch);

SW_MUST_USE sw_status report_read_live(const report *r, const report_plan *plan,
                                       report_live *out);

/* The plan that the report is about: of those that ran in training, else of all, the highest.
 * NULL when there is none. */
const report_plan *report_main_plan(const report *r);
/* How the plan was measured: by the access witness if it was, else the first way. NULL: not. */
const report_seen *report_best_seen(const report_plan *plan);
/* Whether the run came to its planned end. */
bool report_finished(const report *r);
/* Rows of the table, in order; `rows` has room for REPORT_ROWS. */
size_t report_rows(const report *r, const report_row **rows);
/* Medians of the phases and of the whole run, in nanoseconds; false when no warm run was kept.
 */
bool report_medians(report *r, uint64_t *median);

typedef struct {
    bool exact; /* bytes, not KiB or MiB */
    bool quiet; /* no notes */
    bool ascii; /* no bars of UTF-8 */
} report_style;
void report_print_text(report *r, const report_live *live, const report_style *style);
SW_MUST_USE sw_status report_print_json(report *r, const report_live *live);

#endif
