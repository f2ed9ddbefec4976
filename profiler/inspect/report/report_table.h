/* Tables that go out as text of 80 columns, as JSON, or as CSV, from one description. */
#ifndef STEPWELL_REPORT_TABLE_H
#define STEPWELL_REPORT_TABLE_H

#include "profiler/record/json.h"
#include "profiler/inspect/report/print.h"

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

#endif
