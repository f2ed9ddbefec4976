/* `stepwell top`: a running training, watched through its profile as that grows.
 *
 * top_source says which file that is and whether somebody still writes it; top_state keeps what
 * is shown, from the records as they come, in a fixed amount of memory; top_draw makes the
 * picture, the line and the JSON object of a moment; top.c goes round. A profile may be renamed
 * and begun anew while it is watched, be begun by another run, or end. */
#ifndef STEPWELL_TOP_H
#define STEPWELL_TOP_H

#include "tools/cli/cli.h"
#include "profiler/inspect/report/report.h"

/* ---- whose file -------------------------------------------------------------------------- */

#define TOP_PATH 4096

typedef struct {
    char path[TOP_PATH];  /* what is opened: FILE, or an open file of the process */
    char shown[TOP_PATH]; /* its name for people */
    long pid;             /* 0: a file was named */
    uint64_t began;       /* of the process, as the system counts it; numbers are used again */
} top_source;

typedef enum {
    TOP_FOUND,
    TOP_NO_PROC,   /* the system does not show its processes */
    TOP_NO_SUCH,   /* it is not there, or has ended */
    TOP_FORBIDDEN, /* it is not ours to look at */
    TOP_NO_PROFILE /* it writes none */
} top_found;
/* Look for the profile that process `pid` writes, among its open files. */
top_found top_source_process(top_source *s, long pid);
/* Whether the process is still the one it was. */
bool top_source_lives(const top_source *s);
/* Whether a process has the file open for writing: 1, 0, or -1: it cannot be seen. */
int top_source_written(const top_source *s);
/* Whether the file begins as profiles do, as far as it goes; false when it cannot be read. */
bool top_source_fits(const char *path);

/* ---- what is known ----------------------------------------------------------------------- */

#define TOP_POINTS 48
#define TOP_WINDOW 4096
#define TOP_WINDOW_NS 10000000000u

/* A whole run in at most TOP_POINTS points: when they are full, two become one. */
typedef struct {
    double at[TOP_POINTS]; /* means, or largest ones */
    size_t n;
    uint64_t each, in_last; /* numbers of a point; of the last one */
    bool largest;
} top_series;
void top_series_add(top_series *s, double x);

/* One training step; its micro-batches count together. */
typedef struct {
    uint64_t step, at_ns, ns;
} top_point;

typedef struct {
    char created[REPORT_TEXT], command[256]; /* of the run that is watched */
    bool begun, any, timed;                  /* timed: records say when their run began */
    report_row last;                         /* the latest run of training */
    /* Of the latest run of the program that holds the peak so far, of training or not: */
    bool shown, has_plan, planned;
    report_name program; /* where has_plan */
    sw_prof_phase seen[SW_PROF_PHASES], plan[SW_PROF_PHASES];
    uint64_t peak, height, plan_peak, arena, model; /* height: as sw_timeline_height has it */
    char by[12];            /* who measured it; "plan": no one, they are the plan's figures */
    uint64_t data, total;   /* where has_plan */
    uint64_t host, process; /* the latest figures; process 0: none */
    uint64_t allocations;   /* of warm runs, in the files before this one */
    bool warm;              /* there were warm runs in them */
    uint64_t planned_steps, budget; /* 0: not known; none */
    top_series loss, time, high;
    top_point window[TOP_WINDOW];
    uint64_t n_window; /* all that ever were */
} top_state;

/* The steps of the last ten seconds, at most TOP_WINDOW. */
typedef struct {
    uint64_t steps, ns;
    double rate; /* a second; 0: not known */
    cli_summary time;
} top_pace;

typedef enum {
    TOP_EMPTY, /* no step yet */
    TOP_RUNS,
    TOP_WAITS, /* no record for a while */
    TOP_ENDED, /* there is an end record */
    TOP_DIED   /* there is none, and no one writes any more */
} top_condition;

typedef struct {
    top_source source;
    report *report; /* of the file that is open; NULL: none */
    profile_lines lines;
    char head[1024]; /* how the file began */
    size_t n_head;
    uint64_t size, fresh;          /* of the file; clock when it grew */
    bool joined;                   /* its header was taken into the state */
    uint64_t stride, next, recent; /* far from the end, a step is read each `stride` bytes: from
                                      `next`, up to `recent` */
    top_state state;
    cli_times times; /* scratch for the median */
    top_condition condition;
} top;

/* The watch of a top, for report_more. */
report_watch top_watch(top *t);
/* The header of the open file is there: the same run goes on, or another one begins. */
void top_join(top *t);
top_pace top_measure(top *t);

/* Watch a file as `stepwell top FILE` does; the exit status. */
int top_file(const char *file, bool json);

/* ---- pictures ---------------------------------------------------------------------------- */

void top_draw(top *t, bool keys);
void top_print_line(top *t);
SW_MUST_USE sw_status top_print_json(top *t);

#endif
