/* The report for people and as a JSON object. */
#ifndef STEPWELL_PRINT_H
#define STEPWELL_PRINT_H

#include "profiler/inspect/report/report.h"
#include "profiler/inspect/writer.h"
#include "profiler/record/json.h"
#include "profiler/record/process.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- sections of the host ---------------------------------------------------------------- */

/* Before everything else: "It did not fit". Nothing where nothing was denied. */
void report_print_denied(const report *r, const report_style *style);
/* The other sections, as far as the file has them. */
void report_print_host(const report *r, const report_style *style);
/* Members `denied`, `growth`, `waterfall`, `heap`, `devices`. */
void report_put_host(sw_json *j, const report *r);

/* For sections: an empty line and a headline in bold. */
void report_headline(const report_style *style, const char *text);

/* Bars and sparklines in a line of text: blocks of UTF-8 where the locale has them, else
 * ASCII. */

#define BARS_COLUMNS 76 /* at most */

typedef struct {
    char text[3 * BARS_COLUMNS + 1];
} bars_text;

/* One column for each of n values, from the lowest mark at `low` to the full one at `high`; all
 * are full where those are equal. */
bars_text bars_spark(const uint64_t *values, size_t n, uint64_t low, uint64_t high, bool ascii);

/* Tables that go out as text of 80 columns, as JSON, or as CSV, from one description. */

typedef enum {
    TABLE_NAME,  /* text to the left, after `indent` blanks; CSV and JSON have the whole name */
    TABLE_TEXT,  /* text to the left */
    TABLE_BYTES, /* to the right, as the style says; exact ones are wider */
    TABLE_SCALED, /* bytes, in one unit for the whole table that stands in its first head */
    TABLE_COUNT,
    TABLE_SHARE,  /* a fraction: percent in text */
    TABLE_REAL,   /* `share` as a number */
    TABLE_CHANGE, /* bytes, `share` of them with its sign */
    TABLE_BAR     /* the fraction as a bar, in text only */
} table_kind;

typedef struct {
    const char *key;  /* in JSON and CSV */
    const char *head; /* in text; NULL: not there */
    table_kind kind;
    int width; /* in text, a blank in front not counted */
} table_column;

typedef struct {
    const char *text, *shown; /* shown: in text, where it is another */
    int indent;
    uint64_t n;
    double share;
    bool none; /* "-" and null */
} table_cell;

#define TABLE_COLUMNS 20

typedef struct {
    const table_column *columns;
    int n_columns;
    size_t n;
    /* Fills the cells of a row, which begin as zeros; text stays valid until the next row. */
    void (*row)(const void *context, size_t i, table_cell *cells);
    const void *context;
} table;

/* One unit for a whole table, so that columns can be compared. */
typedef struct {
    const char *name;
    double bytes;
    int digits;
} table_unit;
table_unit table_unit_for(uint64_t largest, const report_style *style);

/* Bytes in a sentence: "1.23 MiB", or all digits where the style is exact. */
sw_text table_bytes(uint64_t n, const report_style *style);
/* Bytes in a column, "1,289,748": all digits, so that units do not mix and sums can be checked.
 * In a narrow column what has no room (from 100 GB in 14 columns) has a unit. */
sw_text table_cell_bytes(uint64_t n, int width);
/* Heads and the first `n` rows, within 80 columns: exact bytes take the room of the bars, and
 * of what does not fit beside them there are parts below. */
void table_print(const table *t, size_t n, const report_style *style);
void table_print_csv(const report_style *style, const table *t);
/* "key": [{...}, ...] */
void table_put(sw_json *j, const char *key, const table *t);

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
