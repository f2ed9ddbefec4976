/* CSV: numbers and a label per line. A file is read twice: once to count its samples and
 * classes and to check its lines, once to fill the data sets: their size is known by then.
 * Nothing of a file is kept but the record at hand. */
#include "alloc/base/hash.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* At most 40 bytes of a field in quotation marks, for messages: what is not printable becomes a
 * question mark. */
typedef struct {
    char text[48];
} swi_csv_quote;

/* The meaning of a file's first line, and what its lines are checked against. */
typedef struct {
    int n, label; /* columns; the one that has the label, -1: none */
    bool header;
    char *names; /* of the columns, where there is a header; each ended by a zero byte */
    size_t names_bytes;
    bool decided, numbers; /* labels are whole numbers; once the first was seen, in line: */
    uint64_t label_line;
} swi_columns;

#define SWI_CLASSES_MAX 65536

/* Different words, by number in the order in which they came, until classes_sort. */
typedef struct {
    char *text; /* the words, each ended by a zero byte */
    size_t used, capacity;
    uint32_t *at, *slot; /* where a word begins; hash table: number + 1 */
    int64_t n;
    uint32_t *rank, *sorted; /* after classes_sort: place of a number, number at a place */
} swi_classes;

/* ---- csv classes ------------------------------------------------------------------------- */

/* The classes of a label column: a hash table of words, ranked when all are known. */

#define SLOTS (2 * SWI_CLASSES_MAX) /* half full at most */
#define TABLE_BYTES ((3 * SWI_CLASSES_MAX + SLOTS) * sizeof(uint32_t))

static const char *word_at(const swi_classes *classes, uint32_t number)
{
    return classes->text + classes->at[number];
}

/* The slot of a word, or the free one where it would stand. */
static uint32_t slot_of(const swi_classes *classes, const char *word)
{
    const uint32_t hash = sw_fnv32(SW_FNV32, word, strlen(word));
    uint32_t s = (hash ^ hash >> 15) % SLOTS;
    while (classes->slot[s] != 0 && strcmp(word_at(classes, classes->slot[s] - 1), word) != 0)
        s = (s + 1) % SLOTS;
    return s;
}

/* The number of a word; -1 where there is none. */
static int64_t classes_find(const swi_classes *classes, const char *word)
{
    return (int64_t)classes->slot[slot_of(classes, word)] - 1;
}

/* Add a word if it is new. False in *fits, and nothing added, where there are too many. */
static sw_status classes_add(swi_classes *classes, const char *word, bool *fits)
{
    const uint32_t s = slot_of(classes, word);
    const size_t bytes = strlen(word) + 1;
    *fits = true;
    if (classes->slot[s] != 0)
        return SW_OK;
    if (classes->n == SWI_CLASSES_MAX) {
        *fits = false;
        return SW_OK;
    }
    if (bytes > classes->capacity - classes->used) {
        const size_t capacity = 2 * (classes->capacity + bytes);
        SW_TRY(sw_heap_resize(&classes->text, SW_HEAP_FILES, classes->capacity, capacity));
        classes->capacity = capacity;
    }
    memcpy(classes->text + classes->used, word, bytes);
    classes->at[classes->n++] = (uint32_t)classes->used;
    classes->slot[s] = (uint32_t)classes->n;
    classes->used += bytes;
    return SW_OK;
}

/* Whole numbers as swi_decimal_whole writes them: the sign, then the length, then digits. */
static int by_number(const void *a, const void *b, void *classes)
{
    const char *x = word_at(classes, *(const uint32_t *)a),
               *y = word_at(classes, *(const uint32_t *)b);
    const size_t n = strlen(x), m = strlen(y);
    const int sign = *x == '-' ? -1 : 1;
    if ((*x == '-') != (*y == '-'))
        return sign;
    return sign * (n != m ? (n < m ? -1 : 1) : strcmp(x, y));
}

static int by_bytes(const void *a, const void *b, void *classes)
{
    return strcmp(word_at(classes, *(const uint32_t *)a),
                  word_at(classes, *(const uint32_t *)b));
}

/* Records of a CSV file, read through a window of fixed size; only the record at hand is
 * kept. */

#define WINDOW_BYTES 65536
#define LONGEST ((size_t)16 << 20) /* bytes of one record: beyond is no table of numbers */
#define END (-1)
#define FAILED (-2)

static sw_status fail_at(const swi_csv *csv, uint64_t line, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", swi_source_path(csv->source),
            (unsigned long long)line, what);
}

/* ---- characters -------------------------------------------------------------------------- */

static sw_status refill(swi_csv *csv)
{
    csv->at = csv->filled = 0;
    if (csv->at_end)
        return SW_OK;
    SW_TRY(swi_source_read(csv->source, csv->window, WINDOW_BYTES, &csv->filled));
    csv->at_end = csv->filled < WINDOW_BYTES;
    return SW_OK;
}

/* The next character, END, or FAILED with the reason in *status. Every end of a line is
 * '\n'. */
static inline int next(swi_csv *csv, sw_status *status)
{
    for (;;) {
        if (csv->at == csv->filled) {
            *status = refill(csv);
            if (*status != SW_OK)
                return FAILED;
            if (csv->filled == 0)
                return END;
        }
        const int c = csv->window[csv->at++];
        const bool second = csv->after_cr && c == '\n';
        csv->after_cr = c == '\r';
        if (second)
            continue;
        if (c == '\0') {
            *status = fail_at(
                csv, csv->lines_read + 1,
                "must be text without zero bytes (UTF-16 is not read; save it as UTF-8)");
            return FAILED;
        }
        if (c != '\n' && c != '\r')
            return c;
        csv->lines_read++;
        return '\n';
    }
}

/* ---- the first line ---------------------------------------------------------------------- */

static bool is_blank(int c)
{
    return c == ' ' || c == '\t';
}

/* The most frequent separator, outside quotation marks, in the first line that is not blank, as
 * far as the window has it. Of two that stand equally often a comma may be a decimal one. */
static char find_separator(const swi_csv *csv)
{
    size_t count[256] = {0};
    bool quoted = false, blank = true;
    for (size_t i = csv->at; i < csv->filled; i++) {
        const unsigned char c = csv->window[i];
        if (!quoted && (c == '\n' || c == '\r')) {
            if (!blank)
                break;
            count['\t'] = 0; /* a blank line */
            continue;
        }
        blank = blank && is_blank(c);
        quoted = quoted != (c == '"');
        count[c] += !quoted;
    }
    const char most = count['\t'] >= count[';'] && count['\t'] > 0 ? '\t' : ';';
    return count[(unsigned char)most] >= count[','] && count[(unsigned char)most] > 0 ? most
                                                                                      : ',';
}

/* At the first record. With separator 0 the first line that is not blank decides: a tab,
 * semicolon or comma, which it has most often outside quotation marks. */
static sw_status begin(swi_csv *csv)
{
    static const unsigned char mark[3] = {0xef, 0xbb, 0xbf}; /* of UTF-8, at the beginning */
    csv->at_end = csv->after_cr = false;
    csv->lines_read = 0;
    SW_TRY(refill(csv));
    if (csv->filled >= 3 && memcmp(csv->window, mark, 3) == 0)
        csv->at = 3;
    if (csv->separator == 0)
        csv->separator = find_separator(csv);
    return SW_OK;
}

static void csv_close(swi_csv *csv)
{
    swi_source_close(csv->source);
    sw_heap_free(csv->window, SW_HEAP_FILES, WINDOW_BYTES);
    sw_heap_free(csv->text, SW_HEAP_FILES, csv->capacity);
    sw_heap_free(csv->field, SW_HEAP_FILES, (size_t)csv->field_capacity * sizeof *csv->field);
    *csv = (swi_csv){0};
}

/* ---- fields ------------------------------------------------------------------------------ */

static inline sw_status put(swi_csv *csv, int c)
{
    if (csv->used == csv->capacity) {
        const size_t capacity = csv->capacity > 0 ? 2 * csv->capacity : 4096;
        if (capacity > LONGEST)
            return fail_at(csv, csv->line, "longer than 16 MiB: not a line of a table");
        SW_TRY(sw_heap_resize(&csv->text, SW_HEAP_FILES, csv->capacity, capacity));
        csv->capacity = capacity;
    }
    csv->text[csv->used++] = (char)c;
    return SW_OK;
}

static bool ends_field(const swi_csv *csv, int c)
{
    return c == csv->separator || c == '\n' || c == END;
}

/* From `*c` on to what ends the field, which *c becomes. */
static sw_status read_plain(swi_csv *csv, int *c)
{
    const size_t from = csv->used;
    sw_status status = SW_OK;
    for (; !ends_field(csv, *c); *c = next(csv, &status)) {
        if (*c == FAILED)
            return status;
        SW_TRY(put(csv, *c));
    }
    while (csv->used > from && is_blank(csv->text[csv->used - 1]))
        csv->used--;
    return SW_OK;
}

/* The same after an opening quotation mark. */
static sw_status read_quoted(swi_csv *csv, int *c)
{
    const uint64_t line = csv->lines_read + 1;
    sw_status status = SW_OK;
    for (;;) {
        *c = next(csv, &status);
        if (*c == '"') {
            *c = next(csv, &status);
            if (*c != '"')
                break;
        }
        if (*c == END)
            return fail_at(csv, line, "its quotation mark is never closed");
        if (*c == FAILED)
            return status;
        SW_TRY(put(csv, *c));
    }
    while (is_blank(*c) && *c != csv->separator)
        *c = next(csv, &status);
    if (*c == FAILED)
        return status;
    if (!ends_field(csv, *c))
        return fail_at(csv, csv->lines_read + 1, "text after a closing quotation mark");
    return SW_OK;
}

/* *c: what ended it. */
static sw_status read_field(swi_csv *csv, int *c, bool *quoted)
{
    sw_status status = SW_OK;
    do
        *c = next(csv, &status);
    while (is_blank(*c) && *c != csv->separator);
    if (*c == FAILED)
        return status;
    const size_t at = csv->used;
    *quoted = *c == '"';
    if (*quoted)
        SW_TRY(read_quoted(csv, c));
    else
        SW_TRY(read_plain(csv, c));
    if (csv->n_fields == csv->field_capacity) {
        const int capacity = csv->field_capacity > 0 ? 2 * csv->field_capacity : 256;
        SW_TRY(sw_heap_resize(&csv->field, SW_HEAP_FILES,
                              (size_t)csv->field_capacity * sizeof *csv->field,
                              (size_t)capacity * sizeof *csv->field));
        csv->field_capacity = capacity;
    }
    csv->field[csv->n_fields++] = (swi_csv_field){at, csv->used - at};
    return put(csv, '\0');
}

static sw_status csv_next(swi_csv *csv)
{
    int c = '\n';
    bool quoted = false;
    for (bool blank = true; blank;) {
        csv->n_fields = 0;
        csv->used = 0;
        csv->line = csv->lines_read + 1;
        do
            SW_TRY(read_field(csv, &c, &quoted));
        while (c == csv->separator);
        blank = csv->n_fields == 1 && csv->field[0].n == 0 && !quoted;
        if (blank && c == END) {
            csv->n_fields = 0;
            return SW_OK;
        }
    }
    return SW_OK;
}

/* n_fields is 0 after the last record. */
static const char *csv_text(const swi_csv *csv, int field)
{
    return csv->text + csv->field[field].at;
}

static swi_csv_quote csv_show(const char *text, size_t n)
{
    swi_csv_quote out;
    char *to = out.text;
    const bool cut = n > 40;
    *to++ = '\'';
    for (size_t i = 0; i < (cut ? 40 : n); i++)
        *to++ = text[i] >= ' ' && text[i] != 127 ? text[i] : '?';
    if (cut)
        to = memcpy(to, "...", 3), to += 3;
    *to++ = '\'';
    *to = '\0';
    return out;
}

/* ---- csv columns ------------------------------------------------------------------------- */

/* The columns of a CSV file: whether its first line names them, which has the label, and what
 * may stand in them. */

#define LONGEST_WORD 255

static const char *name_of(const swi_columns *columns, int column)
{
    const char *name = columns->names;
    for (int i = 0; i < column; i++)
        name += strlen(name) + 1;
    return name;
}

/* Refuse a field: "FILE: line 3, column 2 (name): 'text' what". */
static sw_status columns_refuse(const swi_columns *columns, const swi_csv *csv, int column,
                                const char *what)
{
    const char *text = csv_text(csv, column);
    char name[64] = "";
    if (columns->names != NULL)
        snprintf(name, sizeof name, " (%s)",
                 csv_show(name_of(columns, column), strlen(name_of(columns, column))).text);
    SW_FAIL(SW_FORMAT, "%s: line %llu, column %d%s: %s %s", swi_source_path(csv->source),
            (unsigned long long)csv->line, column + 1, name,
            csv_show(text, csv->field[column].n).text, what);
}

/* ---- the first line ---------------------------------------------------------------------- */

/* Names have no number among them, and are not all empty: one value that is no number is a
 * mistake in a line of values, not a header. */
static bool looks_like_header(const swi_csv *csv, int label)
{
    bool named = false;
    for (int i = 0; i < csv->n_fields; i++) {
        swi_decimal d;
        if (i != label &&
            swi_decimal_read(csv_text(csv, i), csv->field[i].n, &d) != SWI_NO_NUMBER)
            return false;
        named = named || (i != label && csv->field[i].n > 0);
    }
    return named;
}

/* `text` as a whole number. */
static bool is_position(const char *text, long long *out)
{
    swi_decimal d;
    char whole[SWI_WHOLE_BYTES];
    if (swi_decimal_read(text, strlen(text), &d) != SWI_NUMBER || !swi_decimal_whole(&d, whole))
        return false;
    *out = strtoll(whole, NULL, 10);
    return true;
}

static sw_status find_name(swi_columns *columns, const swi_csv *csv, const char *label)
{
    int found = 0;
    for (int i = 0; i < columns->n; i++)
        if (strcmp(csv_text(csv, i), label) == 0 && found++ == 0)
            columns->label = i;
    if (found == 1)
        return SW_OK;
    const swi_csv_quote first = csv_show(csv_text(csv, 0), csv->field[0].n);
    const swi_csv_quote last =
        csv_show(csv_text(csv, columns->n - 1), csv->field[columns->n - 1].n);
    SW_FAIL(SW_INVALID, "%s: line %llu: %s named '%s': its %d columns are %s to %s",
            swi_source_path(csv->source), (unsigned long long)csv->line,
            found == 0 ? "no column is" : "several columns are", label, columns->n, first.text,
            last.text);
}

static bool has_name(const swi_csv *csv, const char *name)
{
    for (int i = 0; i < csv->n_fields; i++)
        if (strcmp(csv_text(csv, i), name) == 0)
            return true;
    return false;
}

static sw_status find_label(swi_columns *columns, const swi_csv *csv, const char *label,
                            int header)
{
    long long position = -1;
    const bool named = label != NULL &&
                       (!is_position(label, &position) || (header > 0 && has_name(csv, label)));
    const long long n = columns->n;
    if (!named && (position == 0 || position > n || position < -n))
        SW_FAIL(
            SW_INVALID,
            "%s: the label column must be 1 to %lld, or -1 to -%lld from the end (got %lld)",
            swi_source_path(csv->source), n, n, position);
    if (!named)
        columns->label = (int)(position > 0 ? position - 1 : n + position);
    else if (header < 0)
        SW_FAIL(SW_INVALID, "%s: no column is named '%s' where there is no header line",
                swi_source_path(csv->source), label);
    else
        SW_TRY(find_name(columns, csv, label));
    columns->header = header > 0 || (header == 0 && looks_like_header(csv, columns->label));
    if (named && !columns->header)
        SW_FAIL(SW_INVALID, "%s: line %llu must be a header line that names '%s' (got numbers)",
                swi_source_path(csv->source), (unsigned long long)csv->line, label);
    return SW_OK;
}

static sw_status keep_names(swi_columns *columns, const swi_csv *csv)
{
    if (!columns->header)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&columns->names, SW_HEAP_FILES, csv->used));
    columns->names_bytes = csv->used;
    memcpy(columns->names, csv->text, csv->used);
    return SW_OK;
}

/* Read the columns off the record at hand, the first of the file. `label` and `header` are
 * those of sw_csv_opts. A file of `unlabelled` columns has no label. On failure nothing is
 * kept. */
static sw_status columns_read(swi_columns *columns, const swi_csv *csv, const char *label,
                              int header, int64_t unlabelled)
{
    *columns = (swi_columns){.n = csv->n_fields};
    if (csv->n_fields == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; lines of numbers and a label were expected",
                swi_source_path(csv->source));
    if (csv->n_fields == unlabelled) {
        columns->label = -1;
        columns->header = header > 0 || (header == 0 && looks_like_header(csv, -1));
        return keep_names(columns, csv);
    }
    if (unlabelled > 0 && csv->n_fields != unlabelled + 1)
        SW_FAIL(SW_FORMAT,
                "%s: line %llu: must have %lld columns, the features, or %lld with the label "
                "(got %d)",
                swi_source_path(csv->source), (unsigned long long)csv->line,
                (long long)unlabelled, (long long)unlabelled + 1, csv->n_fields);
    if (csv->n_fields == 1)
        SW_FAIL(SW_FORMAT,
                "%s: line %llu: must have features and a label, separated by commas, "
                "semicolons or tabs (got one column)",
                swi_source_path(csv->source), (unsigned long long)csv->line);
    SW_TRY(find_label(columns, csv, label, header));
    return keep_names(columns, csv);
}

/* How many of them are features. */
static int64_t columns_features(const swi_columns *columns)
{
    return columns->n - (columns->label >= 0);
}

/* ---- the other lines --------------------------------------------------------------------- */

/* The record has as many fields as there are columns. */
static sw_status columns_check(const swi_columns *columns, const swi_csv *csv)
{
    if (csv->n_fields != columns->n)
        SW_FAIL(SW_FORMAT, "%s: line %llu: must have %d fields as the first line has (got %d)",
                swi_source_path(csv->source), (unsigned long long)csv->line, columns->n,
                csv->n_fields);
    return SW_OK;
}

static const char missing[] = "is empty: fill it in or remove the line";

/* The number in a column. */
static sw_status columns_number(const swi_columns *columns, const swi_csv *csv, int column,
                                float *out)
{
    const size_t n = csv->field[column].n;
    swi_decimal d;
    switch (swi_decimal_read(csv_text(csv, column), n, &d)) {
    case SWI_NOT_FINITE:
        return columns_refuse(columns, csv, column, "must be a finite number");
    case SWI_NO_NUMBER:
        return columns_refuse(columns, csv, column,
                              n == 0 ? missing : "must be a number with a decimal point");
    case SWI_NUMBER:
        break;
    }
    if (!swi_decimal_float(&d, out))
        return columns_refuse(columns, csv, column, "is too large for 32 bits (3.4e38)");
    return SW_OK;
}

/* The label of the record as a word: points to the record's text, or to `room` (of
 * SWI_WHOLE_BYTES) for whole numbers. */
static sw_status columns_label(swi_columns *columns, const swi_csv *csv, char *buffer,
                               const char **word)
{
    const int column = columns->label;
    const char *text = csv_text(csv, column);
    swi_decimal d;
    const swi_number_kind kind = swi_decimal_read(text, csv->field[column].n, &d);
    if (csv->field[column].n == 0)
        return columns_refuse(columns, csv, column, missing);
    if (kind == SWI_NOT_FINITE)
        return columns_refuse(columns, csv, column, "must be a class: a finite number");
    if (kind == SWI_NUMBER && !swi_decimal_whole(&d, buffer))
        return columns_refuse(columns, csv, column,
                              "must be a class: a whole number of at most 18 digits");
    if (csv->field[column].n > LONGEST_WORD)
        return columns_refuse(columns, csv, column, "is longer than 255 bytes: no class");
    *word = kind == SWI_NUMBER ? buffer : text;
    /* All labels are words, or all are whole numbers: a single other one is damage. */
    const bool number = kind == SWI_NUMBER;
    char what[160];
    if (!columns->decided)
        columns->label_line = csv->line;
    if (!columns->decided || columns->numbers == number) {
        columns->decided = true;
        columns->numbers = number;
        return SW_OK;
    }
    snprintf(what, sizeof what,
             "is a %s, and the label in line %llu a %s: classes are words or whole numbers, "
             "and a header line is said by its option",
             number ? "number" : "word", (unsigned long long)columns->label_line,
             number ? "word" : "number");
    return columns_refuse(columns, csv, columns->label, what);
}

enum { TRAIN, TEST, PARTS };

typedef struct {
    sw_csv_opts opts;
    const char *path[PARTS]; /* TEST: NULL where the parts come from one file, or is no test */
    bool split;
    swi_csv csv[PARTS];
    swi_columns columns[PARTS];
    swi_classes classes;
    int64_t n[PARTS]; /* samples of each file, then of each part */
    sw_dataset *part[PARTS];
    int64_t filled[PARTS];
} reader;

/* ---- first: count and check -------------------------------------------------------------- */

static sw_status scan_label(reader *r, int which)
{
    swi_columns *columns = &r->columns[which];
    const swi_csv *csv = &r->csv[which];
    char buffer[SWI_WHOLE_BYTES];
    const char *word = NULL;
    bool fits = true;
    SW_TRY(columns_check(columns, csv));
    if (columns->label < 0)
        return SW_OK;
    SW_TRY(columns_label(columns, csv, buffer, &word));
    if (which == TRAIN)
        SW_TRY(classes_add(&r->classes, word, &fits));
    else if (classes_find(&r->classes, word) < 0)
        return columns_refuse(columns, csv, columns->label,
                              "is out of range: no line for training has this label");
    if (!fits)
        return columns_refuse(columns, csv, columns->label,
                              "is the label of more than 65536 classes: the option for the "
                              "label column chooses another");
    return SW_OK;
}

/* Stand after the header line, where there is one. */
static sw_status skip_header(reader *r, int which)
{
    return r->columns[which].header ? csv_next(&r->csv[which]) : SW_OK;
}

/* As many columns are a file without labels; 0: none is. */
static int64_t unlabelled(const reader *r, int which)
{
    if (r->opts.unlabelled >= 0)
        return which == TRAIN ? r->opts.unlabelled : 0;
    return which == TEST ? r->columns[TRAIN].n - 1 : 0;
}

static sw_status scan(reader *r, int which)
{
    swi_csv *csv = &r->csv[which];
    swi_columns *columns = &r->columns[which];
    *csv = (swi_csv){.separator = r->opts.separator};
    SW_TRY(swi_source_open(&csv->source, r->path[which], r->opts.unpack_bytes));
    SW_TRY(sw_heap_alloc(&csv->window, SW_HEAP_FILES, WINDOW_BYTES));
    SW_TRY(begin(csv));
    SW_TRY(csv_next(csv));
    SW_TRY(columns_read(columns, csv, r->opts.label, r->opts.header, unlabelled(r, which)));
    if (which == TEST) {
        /* Both files have the same columns, by number and, where both name them, by name;
         * but for the label, which the first may be without. */
        const char *other_path = r->path[TRAIN];
        const char *path = swi_source_path(csv->source);
        if (columns->n != r->columns[TRAIN].n && columns->label >= 0)
            SW_FAIL(SW_FORMAT, "%s: %d columns, those of %s are %d", path, columns->n,
                    other_path, r->columns[TRAIN].n);
        for (int i = 0; i < columns->n && columns->header && r->columns[TRAIN].header; i++) {
            const int beside = i + (columns->label < 0 && i >= r->columns[TRAIN].label);
            const char *own = name_of(columns, i),
                       *others = name_of(&r->columns[TRAIN], beside);
            if (strcmp(own, others) != 0)
                SW_FAIL(SW_FORMAT, "%s: column %d is %s, that of %s is %s", path, i + 1,
                        csv_show(own, strlen(own)).text, other_path,
                        csv_show(others, strlen(others)).text);
        }

        if (columns->label >= 0)
            columns->label = r->columns[TRAIN].label;
    }
    SW_TRY(skip_header(r, which));
    for (; csv->n_fields > 0; r->n[which]++) {
        SW_TRY(scan_label(r, which));
        SW_TRY(csv_next(csv));
    }
    if (r->n[which] == 0)
        SW_FAIL(SW_FORMAT, "%s: a header line and no sample after it",
                swi_source_path(csv->source));
    return swi_dataset_check_count(r->path[which], (uint64_t)r->n[which]);
}

/* ---- then: fill -------------------------------------------------------------------------- */

static sw_status make_part(reader *r, int which, const char *path)
{
    const swi_columns *columns = &r->columns[r->path[which] != NULL ? which : TRAIN];
    const sw_shape features = {1, {columns_features(columns)}};
    SW_TRY(swi_dataset_new(&r->part[which], path, r->n[which]));
    sw_dataset *part = r->part[which];
    part->n_classes = r->classes.n;
    part->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_dataset_field(part, SW_F32, features));
    if (columns->label >= 0)
        SW_TRY(swi_labels_field(part));
    if (r->classes.n == 0)
        return SW_OK;
    char *names;
    SW_TRY(sw_heap_alloc(&names, SW_HEAP_FILES, r->classes.used));
    /* The words in the order of their ranks, each ended by a zero byte; `to` has `used`
     * bytes. */
    char *to = names;
    for (int64_t i = 0; i < r->classes.n; i++)
        to = stpcpy(to, word_at(&r->classes, r->classes.sorted[i])) + 1;
    const sw_status status = swi_dataset_name_classes(part, names, r->classes.used);
    sw_heap_free(names, SW_HEAP_FILES, r->classes.used);
    return status;
}

/* The record at hand becomes the next sample of a part. */
static sw_status take_record(reader *r, int file, int to)
{
    swi_columns *columns = &r->columns[file];
    const swi_csv *csv = &r->csv[file];
    sw_dataset *part = r->part[to];
    char buffer[SWI_WHOLE_BYTES];
    const char *word = NULL;
    int64_t number = 0;
    SW_TRY(columns_check(columns, csv));
    if (columns->label >= 0) {
        SW_TRY(columns_label(columns, csv, buffer, &word));
        number = classes_find(&r->classes, word);
    }
    if (r->filled[to] == r->n[to] || number < 0)
        return swi_source_changed(swi_source_path(csv->source));
    const int64_t sample = r->filled[to]++;
    float *x = (float *)(void *)part->field[0].data + sample * columns_features(columns);
    for (int i = 0; i < columns->n; i++)
        if (i != columns->label)
            SW_TRY(columns_number(columns, csv, i, x++));
    if (columns->label >= 0)
        swi_labels_put(part, (size_t)sample, r->classes.rank[number]);
    return SW_OK;
}

static sw_status fill(reader *r, int file)
{
    swi_csv *csv = &r->csv[file];
    const int64_t all = file == TRAIN && r->split ? r->n[TRAIN] + r->n[TEST] : r->n[file];
    int64_t i = 0;
    SW_TRY(swi_source_rewind(csv->source));
    SW_TRY(begin(csv));
    SW_TRY(csv_next(csv));
    SW_TRY(skip_header(r, file));
    for (; csv->n_fields > 0; i++) {
        int to = file;
        if (r->split && i < all &&
            swi_split_takes(r->opts.seed, (uint64_t)i, (uint64_t)(all - i),
                            (uint64_t)(r->n[TEST] - r->filled[TEST])))
            to = TEST;
        SW_TRY(take_record(r, file, to));
        SW_TRY(csv_next(csv));
    }
    return i == all ? SW_OK : swi_source_changed(swi_source_path(csv->source));
}

/* Each column of the training part gets mean 0 and deviation 1, and those of the test part are
 * moved alike. Sums are those of distances from the first sample, so that a column of one value
 * has a deviation of exactly 0; it only loses its mean. */
static void standardise_column(reader *r, int64_t column, int64_t columns)
{
    double mean = 0.0, squares = 0.0;
    const int64_t n = r->part[TRAIN]->n;
    const float *x = (const float *)(const void *)r->part[TRAIN]->field[0].data + column;
    const double origin = (double)x[0];
    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i * columns] - origin;
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i * columns] - origin - mean;
        squares += d * d;
    }
    const double deviation = squares > 0.0 ? sqrt(squares / (double)n) : 1.0;
    for (int p = 0; p < PARTS; p++) {
        if (r->part[p] == NULL)
            continue;
        float *y = (float *)(void *)r->part[p]->field[0].data + column;
        for (int64_t i = 0; i < r->part[p]->n; i++)
            y[i * columns] = (float)(((double)y[i * columns] - origin - mean) / deviation);
    }
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_all(reader *r, bool test)
{
    swi_classes *classes = &r->classes;
    *classes = (swi_classes){0};
    SW_TRY(sw_heap_alloc(&classes->at, SW_HEAP_FILES, TABLE_BYTES));
    classes->rank = classes->at + SWI_CLASSES_MAX;
    classes->sorted = classes->rank + SWI_CLASSES_MAX;
    classes->slot = classes->sorted + SWI_CLASSES_MAX;

    SW_TRY(scan(r, TRAIN));
    if (r->columns[TRAIN].label < 0)
        r->split = test = false;
    if (r->path[TEST] != NULL)
        SW_TRY(scan(r, TEST));
    if (r->split)
        SW_TRY(swi_split_sizes(r->path[TRAIN], "sample", r->opts.test_share, r->n[TRAIN],
                               &r->n[TRAIN], &r->n[TEST]));
    /* Rank the words by their bytes, whole numbers by their value. */
    for (uint32_t i = 0; i < classes->n; i++)
        classes->sorted[i] = i;
    qsort_r(classes->sorted, (size_t)classes->n, sizeof *classes->sorted,
            r->columns[TRAIN].numbers ? by_number : by_bytes, classes);
    for (uint32_t i = 0; i < classes->n; i++)
        classes->rank[classes->sorted[i]] = i;
    for (int p = 0; p < (test ? PARTS : TEST); p++)
        SW_TRY(make_part(r, p, r->path[p] != NULL ? r->path[p] : r->path[TRAIN]));
    if (r->opts.shapes_only)
        return SW_OK;
    for (int file = 0; file < PARTS && r->path[file] != NULL; file++)
        SW_TRY(fill(r, file));
    const int64_t columns = columns_features(&r->columns[TRAIN]);
    for (int64_t column = 0; r->opts.standardise && column < columns; column++)
        standardise_column(r, column, columns);
    return SW_OK;
}

static sw_status check_opts(const sw_csv_opts *o, bool test)
{
    SW_TRY(swi_reader_check_share("sw_dataset_csv", o->test_share));
    if (o->test_path != NULL && (o->test_share > 0.0 || !test))
        SW_FAIL(SW_INVALID, "sw_dataset_csv: a file for testing and %s exclude each other",
                test ? "a share of the other" : "no data set for it");
    if (o->unlabelled < -1 || (o->unlabelled > 0 && o->test_path != NULL) ||
        (o->unlabelled < 0 && o->test_path == NULL))
        SW_FAIL(SW_INVALID,
                "sw_dataset_csv: unlabelled must be 0, a number of columns without test_path, "
                "or -1 with it (got %lld)",
                (long long)o->unlabelled);
    if (o->separator != '\0' && o->separator != ',' && o->separator != ';' &&
        o->separator != '\t')
        SW_FAIL(SW_INVALID,
                "sw_dataset_csv: separator must be a comma, semicolon or tab (got %d)",
                o->separator);
    return SW_OK;
}

sw_status sw_dataset_csv(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_csv_opts *given)
{
    reader r = {.path = {path}};
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_csv_opts, &r.opts, given, "sw_dataset_csv"));
    SW_TRY(swi_reader_check("sw_dataset_csv", train != NULL, "train", path, "path"));
    SW_TRY(check_opts(&r.opts, test != NULL));
    r.path[TEST] = r.opts.test_path;
    r.split = test != NULL && r.opts.test_path == NULL;
    const sw_status status = read_all(&r, test != NULL);
    /* all zero is fine */
    swi_classes *classes = &r.classes;
    sw_heap_free(classes->at, SW_HEAP_FILES, TABLE_BYTES);
    sw_heap_free(classes->text, SW_HEAP_FILES, classes->capacity);
    *classes = (swi_classes){0};
    for (int p = 0; p < PARTS; p++) {
        /* all zero is fine */
        swi_columns *columns = &r.columns[p];
        sw_heap_free(columns->names, SW_HEAP_FILES, columns->names_bytes);
        *columns = (swi_columns){0};
        csv_close(&r.csv[p]);
    }
    return swi_parts_give(status, r.part, train, test);
}

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    sw_csv_opts opts = *o->csv;
    opts.shapes_only = o->shapes_only;
    opts.unpack_bytes = o->unpack_bytes;
    return sw_dataset_csv(train, test, path, &opts);
}

const swi_reader swi_reader_csv =
    SW_INIT(.name = "csv", .path = "FILE", .about = "for numbers and a class per line",
            .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE | SWI_TAKES_TABLE, .both = read_named);
