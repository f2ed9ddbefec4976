/* The report for people and as a JSON object. */
#ifndef STEPWELL_PRINT_H
#define STEPWELL_PRINT_H

#include "profiler/inspect/report/report_host.h"
#include "profiler/record/json.h"
#include "profiler/inspect/writer.h"

typedef struct {
    bool exact; /* bytes, not KiB or MiB */
    bool quiet; /* no notes */
    bool ascii; /* no bars of UTF-8 */
    const sw_writer *to;
} report_style;
/* Members after the others of a JSON object. */
typedef struct {
    void (*put)(sw_json *j, const void *context);
    const void *context;
} report_tail;
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
/* Print the object that was ended, and free it. */
SW_MUST_USE sw_status report_print_object(sw_json *j, const report_style *style);
/* "damaged": null, or the line and what is wrong in it. */
void report_put_damaged(sw_json *j, const report *r);

/* ---- sections of the host --------------------------------------------------------------- */

/* Before everything else: "It did not fit". Nothing where nothing was denied. */
void report_print_denied(const report *r, const report_style *style);
/* The other sections, as far as the file has them. */
void report_print_host(const report *r, const report_style *style);
/* Members `denied`, `growth`, `waterfall`, `heap`, `devices`. */
void report_put_host(sw_json *j, const report *r);

/* ---- between the files ------------------------------------------------------------------- */

void report_print_devices(const report_style *style, const report *r);
void report_put_devices(sw_json *j, const report *r);
void report_print_growth(const report *r, const report_style *style);
void report_put_growth(sw_json *j, const report *r);
void report_print_waterfall(const report *r, const report_style *style);
void report_put_waterfall(sw_json *j, const report *r);
void report_put_denied(sw_json *j, const report *r);
/* For sections: an empty line and a headline in bold. */
void report_headline(const report_style *style, const char *text);

#endif
