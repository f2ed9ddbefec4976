/* The columns of a CSV file: whether its first line names them, which has the label, and what
 * may stand in them. */
#include "runtime/data/csv_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_WORD 255

static const char *name_of(const swi_columns *columns, int column)
{
    const char *name = columns->names;
    for (int i = 0; i < column; i++)
        name += strlen(name) + 1;
    return name;
}

sw_status swi_columns_refuse(const swi_columns *columns, const swi_csv *csv, int column,
                             const char *what)
{
    const char *text = swi_csv_text(csv, column);
    char name[64] = "";
    if (columns->names != NULL)
        snprintf(name, sizeof name, " (%s)",
                 swi_csv_show(name_of(columns, column), strlen(name_of(columns, column))).text);
    SW_FAIL(SW_FORMAT, "%s: line %llu, column %d%s: %s %s", swi_source_path(csv->source),
            (unsigned long long)csv->line, column + 1, name,
            swi_csv_show(text, csv->field[column].n).text, what);
}

/* ---- the first line ---------------------------------------------------------------------- */

static swi_number_kind kind_of(const swi_csv *csv, int column)
{
    swi_decimal unused;
    return swi_decimal_read(swi_csv_text(csv, column), csv->field[column].n, &unused);
}

/* Names have no number among them, and are not all empty: one value that is no number is a
 * mistake in a line of values, not a header. */
static bool looks_like_header(const swi_csv *csv, int label)
{
    bool named = false;
    for (int i = 0; i < csv->n_fields; i++) {
        if (i != label && kind_of(csv, i) != SWI_NO_NUMBER)
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

static sw_status find_position(swi_columns *columns, const swi_csv *csv, long long position)
{
    const long long n = columns->n;
    if (position == 0 || position > n || position < -n)
        SW_FAIL(
            SW_INVALID,
            "%s: the label column must be 1 to %lld, or -1 to -%lld from the end (got %lld)",
            swi_source_path(csv->source), n, n, position);
    columns->label = (int)(position > 0 ? position - 1 : n + position);
    return SW_OK;
}

static sw_status find_name(swi_columns *columns, const swi_csv *csv, const char *label)
{
    int found = 0;
    for (int i = 0; i < columns->n; i++)
        if (strcmp(swi_csv_text(csv, i), label) == 0 && found++ == 0)
            columns->label = i;
    if (found == 1)
        return SW_OK;
    const swi_csv_quote first = swi_csv_show(swi_csv_text(csv, 0), csv->field[0].n);
    const swi_csv_quote last =
        swi_csv_show(swi_csv_text(csv, columns->n - 1), csv->field[columns->n - 1].n);
    SW_FAIL(SW_INVALID, "%s: line %llu: %s named '%s': its %d columns are %s to %s",
            swi_source_path(csv->source), (unsigned long long)csv->line,
            found == 0 ? "no column is" : "several columns are", label, columns->n, first.text,
            last.text);
}

static bool has_name(const swi_csv *csv, const char *name)
{
    for (int i = 0; i < csv->n_fields; i++)
        if (strcmp(swi_csv_text(csv, i), name) == 0)
            return true;
    return false;
}

static sw_status find_label(swi_columns *columns, const swi_csv *csv, const char *label,
                            int header)
{
    long long position = -1;
    const bool named = label != NULL &&
                       (!is_position(label, &position) || (header > 0 && has_name(csv, label)));
    if (!named)
        SW_TRY(find_position(columns, csv, position));
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
    void *block;
    if (!columns->header)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, csv->used));
    columns->names = block;
    columns->names_bytes = csv->used;
    memcpy(columns->names, csv->text, csv->used);
    return SW_OK;
}

sw_status swi_columns_read(swi_columns *columns, const swi_csv *csv, const char *label,
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

void swi_columns_free(swi_columns *columns)
{
    sw_heap_free(columns->names, SW_HEAP_FILES, columns->names_bytes);
    *columns = (swi_columns){0};
}

int64_t swi_columns_features(const swi_columns *columns)
{
    return columns->n - (columns->label >= 0);
}

sw_status swi_columns_match(const swi_columns *columns, const swi_csv *csv,
                            const swi_columns *other, const char *other_path)
{
    const char *path = swi_source_path(csv->source);
    if (columns->n != other->n && columns->label >= 0)
        SW_FAIL(SW_FORMAT, "%s: %d columns, those of %s are %d", path, columns->n, other_path,
                other->n);
    for (int i = 0; i < columns->n && columns->header && other->header; i++) {
        const int beside = i + (columns->label < 0 && i >= other->label);
        const char *own = name_of(columns, i), *others = name_of(other, beside);
        if (strcmp(own, others) != 0)
            SW_FAIL(SW_FORMAT, "%s: column %d is %s, that of %s is %s", path, i + 1,
                    swi_csv_show(own, strlen(own)).text, other_path,
                    swi_csv_show(others, strlen(others)).text);
    }
    return SW_OK;
}

/* ---- the other lines --------------------------------------------------------------------- */

sw_status swi_columns_check(const swi_columns *columns, const swi_csv *csv)
{
    if (csv->n_fields != columns->n)
        SW_FAIL(SW_FORMAT, "%s: line %llu: must have %d fields as the first line has (got %d)",
                swi_source_path(csv->source), (unsigned long long)csv->line, columns->n,
                csv->n_fields);
    return SW_OK;
}

static const char missing[] = "is empty: fill it in or remove the line";

sw_status swi_columns_number(const swi_columns *columns, const swi_csv *csv, int column,
                             float *out)
{
    const size_t n = csv->field[column].n;
    swi_decimal d;
    switch (swi_decimal_read(swi_csv_text(csv, column), n, &d)) {
    case SWI_NOT_FINITE:
        return swi_columns_refuse(columns, csv, column, "must be a finite number");
    case SWI_NO_NUMBER:
        return swi_columns_refuse(columns, csv, column,
                                  n == 0 ? missing : "must be a number with a decimal point");
    case SWI_NUMBER:
        break;
    }
    if (!swi_decimal_float(&d, out))
        return swi_columns_refuse(columns, csv, column, "is too large for 32 bits (3.4e38)");
    return SW_OK;
}

/* All labels are words, or all are whole numbers: a single other one is damage. */
static sw_status check_kind(swi_columns *columns, const swi_csv *csv, bool number)
{
    char what[160];
    if (!columns->decided)
        columns->label_line = csv->line;
    if (!columns->decided || columns->numbers == number) {
        columns->decided = true;
        columns->numbers = number;
        return SW_OK;
    }
    snprintf(
        what, sizeof what,
        "is a %s, and the label in line %llu a %s: classes are words or whole numbers, and "
        "a header line is said by its option",
        number ? "number" : "word", (unsigned long long)columns->label_line,
        number ? "word" : "number");
    return swi_columns_refuse(columns, csv, columns->label, what);
}

sw_status swi_columns_label(swi_columns *columns, const swi_csv *csv, char *buffer,
                            const char **word)
{
    const int column = columns->label;
    const char *text = swi_csv_text(csv, column);
    swi_decimal d;
    const swi_number_kind kind = swi_decimal_read(text, csv->field[column].n, &d);
    if (csv->field[column].n == 0)
        return swi_columns_refuse(columns, csv, column, missing);
    if (kind == SWI_NOT_FINITE)
        return swi_columns_refuse(columns, csv, column, "must be a class: a finite number");
    if (kind == SWI_NUMBER && !swi_decimal_whole(&d, buffer))
        return swi_columns_refuse(columns, csv, column,
                                  "must be a class: a whole number of at most 18 digits");
    if (csv->field[column].n > LONGEST_WORD)
        return swi_columns_refuse(columns, csv, column, "is longer than 255 bytes: no class");
    *word = kind == SWI_NUMBER ? buffer : text;
    return check_kind(columns, csv, kind == SWI_NUMBER);
}
