/* The document model: a command says each fact once, and it goes out as text of 80 columns, as
 * JSON, as CSV or as HTML. A document is what is written to: sections, tables, lines of bytes,
 * values and sentences. A column says what one member of a row is: its key, its head, the kind
 * of its value and where it lies. A list of columns describes the rows of a table as well as
 * the members of one object. */
#pragma once

#include "profiler/inspect/writer.h"
#include "profiler/record/json.h"

typedef struct {
    bool exact; /* bytes, not KiB or MiB */
    bool quiet; /* no notes */
    bool ascii; /* no bars of UTF-8 */
    const sw_writer *to;
} report_style;

/* Sparklines in a line of text: blocks of UTF-8 where the locale has them, else ASCII. */

#define BARS_COLUMNS 76 /* at most */

typedef struct {
    char text[3 * BARS_COLUMNS + 1];
} bars_text;

/* One column for each of n values, from the lowest mark at `low` to the full one at `high`; all
 * are full where those are equal. */
bars_text bars_spark(const uint64_t *values, size_t n, uint64_t low, uint64_t high, bool ascii);

/* ---- columns ----------------------------------------------------------------------------- */

typedef enum {
    TABLE_NAME, /* text to the left, after `indent` blanks; CSV and JSON have the whole name */
    TABLE_TEXT, /* text to the left */
    TABLE_SCOPES, /* the same, "a/b.py:4 c": outer scopes go first; the first column of a table
                     that uses a wide terminal */
    TABLE_WRAP,   /* text to the end of the line, as the last column; the rest on lines below */
    TABLE_BYTES,  /* to the right, all digits; the column is as wide as they need */
    TABLE_SCALED, /* bytes, in one unit for the whole table that stands in its first head */
    TABLE_COUNT,
    TABLE_NS,
    TABLE_SHARE,  /* a fraction: percent in text */
    TABLE_REAL,   /* `share` as a number */
    TABLE_CHANGE, /* bytes with their sign */
    TABLE_BOOL,
    TABLE_BAR /* the fraction as a bar, in text only */
} table_kind;

typedef enum {
    LIES_NOWHERE,
    LIES_TEXT,
    LIES_CHARS,
    LIES_U32,
    LIES_U64,
    LIES_I64,
    LIES_F64,
    LIES_BOOL
} table_type;

typedef struct {
    const char *key;  /* in JSON and CSV; NULL: not there */
    const char *head; /* in text and HTML; NULL: not there */
    table_kind kind;
    int width;  /* in text, a blank in front not counted */
    bool known; /* "", 0, a number below 0 and NaN say that it is not known: null and "-" */
    table_type type; /* of the member */
    size_t at, bytes;
} table_column;

#define TABLE_TYPE(x)                                                                          \
    _Generic((x), const char *: LIES_TEXT, char *: LIES_CHARS, uint32_t: LIES_U32,             \
             uint64_t: LIES_U64, int64_t: LIES_I64, double: LIES_F64, bool: LIES_BOOL)
/* The column of a member of a struct; FIELD: in JSON alone; KNOWN: null where it is not known.
 */
#define COLUMN(T, key, head, kind, width, member)                                              \
    {                                                                                          \
        key, head, kind, width, false, TABLE_TYPE(((T *)0)->member), offsetof(T, member),      \
            sizeof(((T *)0)->member)                                                           \
    }
#define COLUMN_KNOWN(T, key, head, kind, width, member)                                        \
    {                                                                                          \
        key, head, kind, width, true, TABLE_TYPE(((T *)0)->member), offsetof(T, member),       \
            sizeof(((T *)0)->member)                                                           \
    }
#define TABLE_KIND(x)                                                                          \
    _Generic((x), const char *: TABLE_TEXT, char *: TABLE_TEXT, uint32_t: TABLE_COUNT,         \
             uint64_t: TABLE_COUNT, int64_t: TABLE_CHANGE, double: TABLE_REAL, bool: TABLE_BOOL)
#define FIELD(T, key, member) COLUMN(T, key, NULL, TABLE_KIND(((T *)0)->member), 0, member)
#define FIELD_KNOWN(T, key, member)                                                            \
    COLUMN_KNOWN(T, key, NULL, TABLE_KIND(((T *)0)->member), 0, member)
/* The same of up to 12 members whose names are the keys. */
#define FIELDS(T, ...) SW_EACH(TABLE_FIELD, T, __VA_ARGS__)
#define FIELDS_KNOWN(T, ...) SW_EACH(TABLE_FIELD_KNOWN, T, __VA_ARGS__)
#define TABLE_FIELD(T, m) FIELD(T, #m, m)
#define TABLE_FIELD_KNOWN(T, m) FIELD_KNOWN(T, #m, m)

typedef struct {
    const char *text, *shown; /* shown: in text, where it is another */
    int indent;
    uint64_t n; /* of TABLE_CHANGE with its sign */
    double share;
    bool none; /* "-" and null */
} table_cell;

#define TABLE_COLUMNS 24

/* Rows of structs that lie one after another, or those that `row` makes. */
typedef struct {
    const table_column *columns;
    int n_columns;
    size_t n;
    const void *rows;
    size_t row_bytes;
    /* NULL, or fills cells of a row after its members did; text stays valid until the next row.
     */
    void (*row)(const void *context, size_t i, table_cell *cells);
    const void *context;
    const char *empty; /* in text, of text that is "" */
} table;

#define TABLE_LENGTH(columns) ((int)(sizeof(columns) / sizeof *(columns)))
/* A table of structs, one whose cells `row` fills after that, and one of made rows. */
#define TABLE_OF(columns, rows, n)                                                             \
    ((table){columns, TABLE_LENGTH(columns), n, rows, sizeof *(rows), NULL, NULL, NULL})
#define TABLE_WITH(columns, rows, n, row, context)                                             \
    ((table){columns, TABLE_LENGTH(columns), n, rows, sizeof *(rows), row, context, NULL})
#define TABLE_MADE(columns, n, row, context)                                                   \
    ((table){columns, TABLE_LENGTH(columns), n, NULL, 0, row, context, NULL})

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
/* The members of one struct, into an open object. */
void table_put_fields(sw_json *j, const table_column *columns, int n, const void *from);
#define PUT_FIELDS(j, columns, from) table_put_fields(j, columns, TABLE_LENGTH(columns), from)
/* PUT(j, x, FIELDS(T, a, b), FIELDS_KNOWN(T, c)): members of *x, a T. */
#define PUT(j, x, ...)                                                                         \
    table_put_fields(j, (const table_column[]){__VA_ARGS__},                                   \
                     TABLE_LENGTH(((const table_column[]){__VA_ARGS__})), x)
/* <table id="..."> with heads and all rows. */
void table_print_html(const sw_writer *to, const char *id, const table *t);
/* Words of a file are text in HTML, whatever they contain. */
void html_escaped(const sw_writer *to, const char *text);

/* ---- documents --------------------------------------------------------------------------- */

/* Where facts go: into JSON where `json` is there, else out as text. */
typedef struct {
    const report_style *style;
    sw_json *json;
} document;

/* A section: a headline of text, an object of JSON (NULL: none). It is null where it is not
 * known, and false comes back. */
bool document_open(const document *d, const char *key, bool known, const char *format, ...)
    SW_PRINTF(4, 5);
void document_close(const document *d);
/* Bytes: a line of text after `indent` blanks (name NULL: none), a member of JSON (key NULL:
 * none). */
void document_bytes(const document *d, int indent, const char *key, const char *name,
                    int64_t bytes, const char *why);
void document_table(const document *d, const char *key, const table *t);
/* In JSON alone. */
void document_text(const document *d, const char *key, const char *text);
/* In text alone. */
void document_say(const document *d, int indent, int hang, const char *format, ...)
    SW_PRINTF(4, 5);

/* For sections: an empty line and a headline in bold. */
void report_headline(const report_style *style, const char *text);

/* Members after the others of a JSON object. */
typedef struct {
    void (*put)(sw_json *j, const void *context);
    const void *context;
} report_tail;
/* Begin the object that a report is. */
void report_begin_object(sw_json *j);
/* Print the object that was ended, and free it; the other ends it first, after `more` (NULL:
 * none). */
SW_MUST_USE sw_status report_print_object(sw_json *j, const report_style *style);
SW_MUST_USE sw_status report_end_object(sw_json *j, const report_tail *more,
                                        const report_style *style);
