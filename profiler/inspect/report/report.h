/* The contents of one profile file, in bounded memory however long the run was.
 *
 * report_read goes through the file once, line by line, and keeps the programs in a timeline,
 * sums of their runs, and a sample of steps; report_find_live asks a program for what is live
 * at its peak. Text from the file is cleaned of control characters when it is taken in. */
#pragma once

#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/document.h"
#include "profiler/inspect/timeline.h"
#include "profiler/record/json.h"
#include "profiler/record/process.h"
#include "profiler/record/prof_heap.h"

#define REPORT_EDGE 3 /* steps shown from each end */
#define REPORT_SAMPLES                                                                         \
    64 /* steps kept from between; at least half as many are there in a long run */
#define REPORT_TIMES 4096 /* runs kept for the medians */
#define REPORT_ROWS 12    /* of the table */
#define REPORT_TEXT 96

/* The runs of one program that were measured in one way. */
typedef struct {
    char by[12];
    uint64_t runs, equal;                /* equal: all phases are as planned */
    uint64_t step;                       /* of `phase` */
    sw_prof_phase phase[SW_PROF_PHASES]; /* of the first run that differs, else of the latest */
} report_seen;

/* Figures of the runs of a program: that of the same index in the timeline. */
typedef struct {
    uint64_t key;   /* exec and program, or trace */
    bool immediate; /* nothing was predicted: `phase` is that of the first run */
    const char *run;
    int64_t batch; /* -1: none */
    sw_prof_phase phase[SW_PROF_PHASES];
    uint64_t peak, model_bytes, arena_bytes, data_bytes, total_bytes, lower_bound_bytes;
    uint64_t program_host_bytes; /* of the program's records; 0: not said */
    uint64_t runs;               /* measured or not */
    report_seen seen[3];
    int n_seen;
    uint64_t *op_ns; /* n_ops sums over op_runs warm runs with op clocks; NULL: none */
    size_t n_ops;
    uint64_t op_runs;
} report_plan;

typedef struct {
    uint64_t index; /* among the training runs */
    uint64_t step, micro;
    sw_prof_phase phase[SW_PROF_PHASES];
    bool has_loss;
    double loss;
} report_row;

/* A run that is looked for by its step: a training run before an evaluation, and of several the
 * one with the highest peak. */
typedef struct {
    uint64_t step;
    const char *run; /* "train", "eval"; "": either */
    bool found, eval;
    uint64_t below, above; /* the nearest other steps of such runs; 0: none */
    uint32_t plan;         /* index; SW_TL_NONE: it has none in the file */
    char by[12];
    sw_prof_phase phase[SW_PROF_PHASES];
    uint64_t host, process, calls, ns; /* process UINT64_MAX: not asked */
    bool has_heap;
    uint64_t heap[SW_HEAP_KINDS]; /* by purpose */
} report_step;
typedef struct {
    report_step at[2];
} report_steps_wanted;

/* Peaks of the training runs in order, a bin for `stride` of them. */
#define REPORT_BINS 64
typedef struct {
    uint64_t bin[REPORT_BINS]; /* the highest of its runs */
    size_t n_bins;
    uint64_t runs_per_bin;
    uint64_t runs[SW_PROF_PHASES];  /* whose peak is in the phase (the first of equal ones) */
    uint64_t first[SW_PROF_PHASES]; /* step of the first of them */
    uint64_t lowest_bytes, highest_bytes, lowest_step, highest_step;
} report_moves;

/* Which of several processes the run was. */
typedef struct {
    uint64_t rank, ranks; /* ranks 0: it was alone */
    char host[REPORT_TEXT], run[24];
    uint64_t sent_bytes, waited_ns; /* UINT64_MAX: not said */
    /* Of a population: its turns, and the most that one was to take and took. */
    uint64_t turns, predicted_bytes, measured_bytes;
} report_rank;

typedef struct {
    const char *path;
    char shown[4096];      /* the path without control characters, for people */
    sw_timeline *timeline; /* header and programs; no runs */
    char model[REPORT_TEXT], device[REPORT_TEXT], data[REPORT_TEXT], created[REPORT_TEXT];
    char normalise[REPORT_TEXT];
    char command[256];
    uint64_t planned_steps, budget_bytes; /* 0: not known; none */

    report_plan *plans;
    uint32_t n_plans, cap_plans;
    uint64_t unplanned; /* measured runs whose program has no plan in the file */

    uint64_t runs, evaluations, immediate, witnessed; /* records; runs: training */
    uint64_t n_steps; /* of training; with micro-batches they have several runs each */
    uint64_t last_train;
    report_row first[REPORT_EDGE], last[REPORT_EDGE], sample[REPORT_SAMPLES];
    size_t n_sample;
    uint64_t stride;
    report_moves moves;
    report_steps_wanted *steps; /* to be found; NULL: none */
    uint64_t times[REPORT_TIMES]
                  [SW_PROF_PHASES + 1]; /* of warm training runs; the whole run last */
    size_t n_times;
    uint64_t warm, times_stride;

    uint64_t warm_runs; /* of training and evaluation; the others are not counted: */
    uint64_t allocations, allocating,
        allocating_step; /* of warm runs: calls, runs, the first one */
    bool has_process;
    uint64_t process_first, process_last, process_max, host_max;

    int witness_results[4]; /* of the witnesses: 1 agrees, 0 does not, -1 not asked */
    uint64_t faults;
    char first_fault[256];

    sw_process *process;      /* NULL: the profile has no such record */
    struct report_host *host; /* NULL: no record was read */

    report_rank rank;
    profile_reading file;
    const struct report_watch *watch; /* NULL: the file is not followed */
    uint64_t dropped;                 /* events that the logs had no room for */
} report;

extern const char *const report_witnesses[4];

typedef struct {
    const char *name;
    uint64_t bytes; /* with padding */
} report_share;

#define REPORT_LARGEST 10
#define REPORT_SLOWEST 10
#define REPORT_CURVE 76

typedef struct {
    const char *name;
    uint64_t ns;  /* mean of a run */
    double share; /* of all ops */
    size_t at;    /* among the ops */
} report_op;

/* Tensors that differ in their lives alone: name, role, layer, op and bytes are the same. */
typedef struct {
    const sw_tensor *first;
    uint64_t n;
} report_same;

/* The live values at the peak of a program, and its curve. Belongs to the report. */
typedef struct {
    const sw_tl_program *program;
    const char *op;                   /* that runs at the peak */
    uint64_t bytes, padding;          /* sums of what lives there */
    const report_share *role, *layer; /* largest first */
    size_t n_roles, n_layers;
    const report_same *largest; /* by the bytes of all that are equal */
    size_t n_largest;
    const report_op *slowest;
    size_t n_slowest;
    uint64_t ops_ns;              /* mean of all ops of a run */
    uint64_t curve[REPORT_CURVE]; /* the most that lives in an even share of the ops each */
    char phase[REPORT_CURVE];     /* where they begin: its first letter, else a blank */
    size_t n_curve;
} report_live;

/* Read the file as far as it is whole. SW_FORMAT: it does not even begin as a profile; SW_IO:
 * it cannot be read; both name it. Owner: the caller, by report_free. */
SW_MUST_USE sw_status report_read(report **out, const char *path, report_steps_wanted *steps);
/* The same for a profile or, where the file is none, for what another tool wrote: its timeline,
 * with no runs. */
SW_MUST_USE sw_status report_open(report **out, const char *path, report_steps_wanted *steps);
/* Room for the figures of a program of the timeline; it must be the next index. */
void report_free(report *r);

/* Who follows a file that grows. */
typedef struct report_watch {
    void *context;
    /* A run of training or, else, evaluation was taken. */
    sw_status (*step)(void *context, const profile_step *s, const report_row *row, bool train);
} report_watch;
/* Reading piece by piece: report_more takes what is there after what it has taken. An
 * unfinished last line is left for the next time, or, without a watch, is the last one. With a
 * watch damage is an error. Before the first line is whole the report says nothing. Owner of
 * both: the caller, by report_free and profile_lines_close. */
SW_MUST_USE sw_status report_begin(report **out, profile_lines *lines, const char *path);
SW_MUST_USE sw_status report_more(report *r, profile_lines *lines, const report_watch *watch);

SW_MUST_USE sw_status report_find_live(const report *r, const report_plan *plan,
                                       report_live *out);
/* "program 2 (eval, exec 1, batch 16)" */
typedef struct {
    char text[112];
} report_name;
report_name report_program_name(const report_plan *plan);
const sw_tl_program *report_program(const report *r, const report_plan *plan);

/* The peak of a run: the highest that was measured, in training, evaluation or under a witness;
 * else the highest that was predicted. */
typedef struct {
    const char *path;
    bool known, measured;
    const char *what; /* in messages; NULL: "measured peak" or "predicted peak" */
    uint64_t bytes;
    char
        in[120]; /* " in program 1 (eval, batch 2000)"; "": a run that has none here holds it */
} report_gate_peak;

/* The plan of the program that holds the peak (sw_timeline_peak), which the report is about.
 * NULL: there is none. */
const report_plan *report_peak_plan(const report *r);
/* How the plan was measured: by the access witness if it was, else the first way. NULL: not. */
const report_seen *report_best_seen(const report_plan *plan);
/* The phase with the highest peak; the first of equal ones. */
int report_peak_phase(const sw_prof_phase *phase);
bool report_equal_phases(const sw_prof_phase *a, const sw_prof_phase *b);
/* The peaks that gates judge. */
report_gate_peak report_highest(const report *r);
/* Whether the run came to its planned end. */
bool report_finished(const report *r);
/* Rows of the table, in order; `rows` has room for REPORT_ROWS. */
size_t report_rows(const report *r, const report_row **rows);
/* Medians of the phases and of the whole run, in nanoseconds; false when no warm run was
 * kept. */
bool report_medians(report *r, uint64_t *median);

/* The host's memory in a report: what grew over steps, where the bytes of the process are, what
 * the heap's backend has, what was denied, and the memory of cards. Each is a section of the
 * text and a member of the JSON object that tools/report makes. */

typedef struct {
    uint64_t times, gained;
    uint64_t from, to, gap; /* steps of the first and last growth; the widest gap between two */
} report_gains;

/* One quantity over the steps. New maxima count as growth, but for those in a run that traced
 * or planned, or right after one. */
typedef struct {
    bool known;
    uint64_t first, last, high;
    report_gains settled, weak; /* weak: in runs that may grow */
} report_growth;

#define REPORT_GROWTH_BINS 20
enum {
    REPORT_OF_MODEL, /* arenas */
    REPORT_OF_DATA,
    REPORT_OF_STEP,
    REPORT_OF_HEAP, /* + purpose */
    REPORT_OF_OTHER = REPORT_OF_HEAP + SW_HEAP_KINDS,
    REPORT_OF_PROCESS,
    REPORT_SERIES
};

typedef struct {
    report_growth growth;
    uint64_t bin[REPORT_GROWTH_BINS]; /* highest of `stride` looks each */
    size_t n_bins;
    uint64_t stride, looks;
} report_series;

typedef struct {
    char at[REPORT_TEXT], heap[16];
    report_growth growth;
} report_line;
#define REPORT_LINES 768

/* ---- all of it --------------------------------------------------------------------------- */

typedef struct {
    char name[16];
    uint64_t bytes, peak, blocks, allocated, active, resident, mapped;
} report_purpose;

typedef struct {
    char name[SW_DENIED_NAME], layer[SW_DENIED_NAME], role[20];
    uint64_t bytes;
} report_holder;

typedef struct {
    uint64_t times; /* such records; this is the last */
    uint64_t step, request_bytes, limit_bytes, used_bytes, needed_bytes, model_bytes,
        arena_bytes, data_bytes, others_bytes, live_bytes;
    int64_t batch;
    char run[8], limited_by[16], message[512], label[REPORT_TEXT], op[REPORT_TEXT], phase[16];
    report_share role[SW_DENIED_SHARES / 4], layer[SW_DENIED_SHARES];
    size_t n_roles, n_layers;
    report_holder holder[SW_DENIED_HOLDERS];
    size_t n_holders;
    int64_t largest_batch; /* that fits; -1: not known */
    uint64_t largest_batch_bytes;
} report_denied;

/* A card, as its latest record says. */
#define REPORT_DEVICES 16
typedef struct {
    char at[8]; /* "begin" or "end" */
    char name[16], card[128], capability[16], driver[16], runtime[16];
    uint64_t cublas; /* 0: not known */
    uint64_t total_bytes, open_bytes, free_bytes, graph_bytes, pinned_bytes;
    uint64_t committed[SW_ARENA_USES], promised[SW_ARENA_USES];
} report_device;

typedef struct report_host {
    report_series series[REPORT_SERIES];
    report_line *lines;
    uint32_t n_lines, cap_lines;
    bool unsettled, sample_unsettled;   /* a run that may take memory was right before */
    uint64_t immediate, clock, records; /* clock: the highest step */
    char backend[32];
    report_purpose purpose[SW_HEAP_KINDS + 1]; /* the last: the rest of the process */
    size_t n_purposes;
    uint64_t kept;
    report_denied *denied; /* NULL: nothing was */
    uint64_t reserved;
    report_device device[REPORT_DEVICES];
    size_t n_devices;
} report_host;

/* Of a record of a type that belongs here, or of a step; the others are passed over. */
SW_MUST_USE sw_status report_take_host(report *r, const profile_position *p);

/* ---- the report for people and as a JSON object ------------------------------------------ */

/* Live bytes, by role and by layer side by side; the tenth layer takes what is left. */
typedef struct {
    const report_share *at; /* largest first */
    size_t n;
} report_breakdown;
void report_print_breakdown(report_breakdown roles, report_breakdown layers, uint64_t all,
                            const report_style *style);
/* `key` and an object of them. */
void report_put_breakdown(sw_json *j, const char *key, report_breakdown x);
void report_print_text(report *r, const report_live *live, const report_style *style);
/* Phases of a program, predicted and measured; witnesses; the other programs. */
void report_print_predicted(const report_style *style, const report *r,
                            const report_plan *main);
/* more: NULL when there is none. */
SW_MUST_USE sw_status report_print_json(report *r, const report_live *live,
                                        const report_tail *more, const report_style *style);
/* An empty text is null. */
void report_put_text(sw_json *j, const char *key, const char *text);
/* "batch": below 0, it is not known, and null. */
void report_put_batch(sw_json *j, int64_t batch);
/* A table of the steps of a trace, of many the first and the last; and their list. */
void report_print_steps(const report_style *style, const sw_tl_step *steps, uint32_t n,
                        bool passes);
void report_put_steps(sw_json *j, const sw_tl_step *steps, uint32_t n);
/* `key` and an object of the phases' peak_bytes and end_bytes; phase == NULL: null. */
void report_put_phases(sw_json *j, const char *key, const sw_prof_phase *phase);
/* `key` and an object of one number for each phase. */
void report_put_by_phase(sw_json *j, const char *key, const uint64_t *x);
/* "damaged": null, or the line and what is wrong in it. */
void report_put_damaged(sw_json *j, const profile_reading *file);

/* Before everything else: "It did not fit". Nothing where nothing was denied. */
void report_print_denied(const report *r, const report_style *style);
/* The other sections, as far as the file has them; members `denied`, `growth`, `waterfall`,
 * `heap`, `devices`. */
void report_host_sections(const document *d, const report *r);

/* The memory of the process for people, at the end of `train --process` and in reports. */

/* A table of at most 80 columns, a line for each owner. `title` begins its first line. */
void process_print(const sw_writer *to, const sw_process *process, const char *title);

/* stepwell report FILE --by layer|role|op|phase: one program in a table. */

typedef enum { BY_TEXT, BY_JSON, BY_CSV } by_format;

/* The words of --by, NULL after the last. */
extern const char *const report_by_words[];
/* Print the program that holds the peak. `more`: of JSON; NULL when there is none. */
SW_MUST_USE sw_status report_print_by(const report *r, const char *word, by_format format,
                                      const report_style *style, const report_tail *more);
