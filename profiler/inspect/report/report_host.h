/* The host's memory in a report: what grew over steps, where the bytes of the process are, what
 * the heap's backend has, what was denied, and the memory of cards. Each is a section of the
 * text and a member of the JSON object that tools/report makes. */
#ifndef STEPWELL_REPORT_HOST_H
#define STEPWELL_REPORT_HOST_H

#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "profiler/record/prof_heap.h"
#include "profiler/inspect/report/report.h"

/* ---- what grew --------------------------------------------------------------------------- */

/* One quantity over the steps. New maxima count as growth, but for those in a run that traced
 * or planned, or right after one. */
typedef struct {
    bool known;
    uint64_t first, last, high;
    uint64_t times, weak_times; /* it grew; and in runs that may */
    uint64_t gained, weak_gained;
    uint64_t from, to, gap; /* steps of the first and last growth; the widest gap between two */
    uint64_t weak_from, weak_to, weak_gap;
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
    uint64_t step, request, limit, used, needed, model, arena, data, others, live;
    int64_t batch;
    char run[8], limited_by[16], message[512], label[REPORT_TEXT], op[REPORT_TEXT], phase[16];
    sw_denied_share role[SW_DENIED_SHARES / 4], layer[SW_DENIED_SHARES];
    size_t n_roles, n_layers;
    sw_denied_holder holder[SW_DENIED_HOLDERS];
    char role_of[SW_DENIED_HOLDERS][20];
    size_t n_holders;
    uint64_t n;         /* such records; this is the last */
    int64_t fits_batch; /* -1: not known */
    uint64_t fits_bytes;
} report_denied;

/* A card, as its latest record says. */
#define REPORT_DEVICES 16
typedef struct {
    bool ended; /* the record is of the end */
    char name[16], card[128], capability[16], driver[16], runtime[16];
    uint64_t blas; /* 0: not known */
    uint64_t total, open, free, pinned;
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

/* Any record: takes of it what is the host's. */
SW_MUST_USE sw_status report_take_host(report *r, const profile_position *p);
void report_free_host(report_host *host);

/* ---- between the files ------------------------------------------------------------------- */

SW_MUST_USE sw_status report_take_growth(report_host *h, const profile_position *p);
SW_MUST_USE sw_status report_take_denied(report_host *h, const profile_position *p);
SW_MUST_USE sw_status report_take_device(report_host *h, const profile_position *p);
/* Still grows at the end of what was read. */
bool report_grows(const report_host *h, int series);
bool report_line_grows(const report_host *h, const report_line *line);
uint64_t report_per_step(const report_growth *g);
const char *report_series_name(int series);

#endif
