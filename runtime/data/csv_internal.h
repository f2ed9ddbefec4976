/* Between the files of the CSV reader: records of fields, and the classes of a label column. */
#ifndef SW_CSV_INTERNAL_H
#define SW_CSV_INTERNAL_H

#include "runtime/data/data_internal.h"

/* ---- records ----------------------------------------------------------------------------- */

typedef struct {
    size_t at, n; /* in the text of the record; a zero stands after it */
} swi_csv_field;

/* The records of a file, one after the other; blank lines are passed over. Lines end with LF,
 * CR or both. Blanks around a field do not belong to it. A field in quotation marks may have
 * separators, ends of lines and doubled quotation marks in it. */
typedef struct {
    swi_source *source;
    unsigned char *window;
    size_t at, filled;
    bool at_end, after_cr, begun;
    char separator;      /* ',', ';' or a tab */
    uint64_t line;       /* in which the record begins, from 1 */
    uint64_t lines_read; /* ends of lines seen */
    char *text;          /* the fields of the record */
    size_t used, capacity;
    swi_csv_field *field;
    int n_fields, field_capacity;
} swi_csv;

/* Open PATH. With separator 0 the first line that is not blank decides: a tab, semicolon or
 * comma, which it has most often outside quotation marks. On failure nothing is kept. */
SW_MUST_USE sw_status swi_csv_open(swi_csv *csv, const char *path, char separator,
                                   size_t unpack_bytes);
void swi_csv_close(swi_csv *csv); /* all zero is fine */
SW_MUST_USE sw_status swi_csv_rewind(swi_csv *csv);
/* n_fields is 0 after the last record. */
SW_MUST_USE sw_status swi_csv_next(swi_csv *csv);
const char *swi_csv_text(const swi_csv *csv, int field);

/* At most 40 bytes of a field in quotation marks, for messages: what is not printable becomes a
 * question mark. */
typedef struct {
    char text[48];
} swi_csv_quote;
swi_csv_quote swi_csv_show(const char *text, size_t n);

/* ---- columns ----------------------------------------------------------------------------- */

/* The meaning of a file's first line, and what its lines are checked against. */
typedef struct {
    int n, label; /* columns; the one that has the label, -1: none */
    bool header;
    char *names; /* of the columns, where there is a header; each ended by a zero byte */
    size_t names_bytes;
    bool decided, numbers; /* labels are whole numbers; once the first was seen, in line: */
    uint64_t label_line;
} swi_columns;

/* Read the columns off the record at hand, the first of the file. `label` and `header` are
 * those of sw_csv_opts. A file of `unlabelled` columns has no label. On failure nothing is
 * kept. */
SW_MUST_USE sw_status swi_columns_read(swi_columns *columns, const swi_csv *csv,
                                       const char *label, int header, int64_t unlabelled);
/* How many of them are features. */
int64_t swi_columns_features(const swi_columns *columns);
void swi_columns_free(swi_columns *columns); /* all zero is fine */
/* Both files have the same columns, by number and, where both name them, by name; but for the
 * label, which the first may be without. */
SW_MUST_USE sw_status swi_columns_match(const swi_columns *columns, const swi_csv *csv,
                                        const swi_columns *other, const char *other_path);
/* The record has as many fields as there are columns. */
SW_MUST_USE sw_status swi_columns_check(const swi_columns *columns, const swi_csv *csv);
/* The number in a column. */
SW_MUST_USE sw_status swi_columns_number(const swi_columns *columns, const swi_csv *csv,
                                         int column, float *out);
/* The label of the record as a word: points to the record's text, or to `room` (of
 * SWI_WHOLE_BYTES) for whole numbers. */
SW_MUST_USE sw_status swi_columns_label(swi_columns *columns, const swi_csv *csv, char *buffer,
                                        const char **word);
/* Refuse a field: "FILE: line 3, column 2 (name): 'text' what". */
SW_MUST_USE sw_status swi_columns_refuse(const swi_columns *columns, const swi_csv *csv,
                                         int column, const char *what);

/* ---- classes ----------------------------------------------------------------------------- */

#define SWI_CLASSES_MAX 65536

/* Different words, by number in the order in which they came, until swi_classes_sort. */
typedef struct {
    char *text; /* the words, each ended by a zero byte */
    size_t used, capacity;
    uint32_t *at, *slot; /* where a word begins; hash table: number + 1 */
    int64_t n;
    uint32_t *rank, *sorted; /* after swi_classes_sort: place of a number, number at a place */
} swi_classes;

SW_MUST_USE sw_status swi_classes_open(swi_classes *classes);
void swi_classes_close(swi_classes *classes); /* all zero is fine */
/* The number of a word; -1 where there is none. */
int64_t swi_classes_find(const swi_classes *classes, const char *word);
/* Add a word if it is new. False in *fits, and nothing added, where there are too many. */
SW_MUST_USE sw_status swi_classes_add(swi_classes *classes, const char *word, bool *fits);
/* Rank the words by their bytes, whole numbers by their value. */
void swi_classes_sort(swi_classes *classes, bool numbers);
/* The words in the order of their ranks, each ended by a zero byte; `to` has `used` bytes. */
void swi_classes_list(const swi_classes *classes, char *to);

#endif
