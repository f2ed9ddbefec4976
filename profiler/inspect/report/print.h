/* The report for people and as a JSON object. */
#ifndef STEPWELL_PRINT_H
#define STEPWELL_PRINT_H

#include "profiler/inspect/report/document.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/writer.h"
#include "profiler/record/json.h"
#include "profiler/record/process.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- sections of the host ---------------------------------------------------------------- */

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

#endif
