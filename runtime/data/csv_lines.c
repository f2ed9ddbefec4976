/* Records of a CSV file, read through a window of fixed size; only the record at hand is kept.
 */
#include "runtime/data/csv_internal.h"
#include <string.h>

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

/* The next character, END, or FAILED with the reason in *status. Every end of a line is '\n'.
 */
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

static sw_status open_all(swi_csv *csv, const char *path, size_t unpack_bytes)
{
    void *block;
    SW_TRY(swi_source_open(&csv->source, path, unpack_bytes));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, WINDOW_BYTES));
    csv->window = block;
    return begin(csv);
}

sw_status swi_csv_open(swi_csv *csv, const char *path, char separator, size_t unpack_bytes)
{
    *csv = (swi_csv){.separator = separator};
    const sw_status status = open_all(csv, path, unpack_bytes);
    if (status != SW_OK)
        swi_csv_close(csv);
    return status;
}

void swi_csv_close(swi_csv *csv)
{
    swi_source_close(csv->source);
    sw_heap_free(csv->window, SW_HEAP_FILES, WINDOW_BYTES);
    sw_heap_free(csv->text, SW_HEAP_FILES, csv->capacity);
    sw_heap_free(csv->field, SW_HEAP_FILES, (size_t)csv->field_capacity * sizeof *csv->field);
    *csv = (swi_csv){0};
}

sw_status swi_csv_rewind(swi_csv *csv)
{
    SW_TRY(swi_source_rewind(csv->source));
    return begin(csv);
}

/* ---- fields ------------------------------------------------------------------------------ */

static sw_status grow_text(swi_csv *csv)
{
    const size_t capacity = csv->capacity > 0 ? 2 * csv->capacity : 4096;
    void *block = csv->text;
    if (capacity > LONGEST)
        return fail_at(csv, csv->line, "longer than 16 MiB: not a line of a table");
    SW_TRY(sw_heap_resize(&block, SW_HEAP_FILES, csv->capacity, capacity));
    csv->text = block;
    csv->capacity = capacity;
    return SW_OK;
}

static inline sw_status put(swi_csv *csv, int c)
{
    if (csv->used == csv->capacity)
        SW_TRY(grow_text(csv));
    csv->text[csv->used++] = (char)c;
    return SW_OK;
}

static sw_status add_field(swi_csv *csv, size_t at)
{
    if (csv->n_fields == csv->field_capacity) {
        const int capacity = csv->field_capacity > 0 ? 2 * csv->field_capacity : 256;
        void *block = csv->field;
        SW_TRY(sw_heap_resize(&block, SW_HEAP_FILES,
                              (size_t)csv->field_capacity * sizeof *csv->field,
                              (size_t)capacity * sizeof *csv->field));
        csv->field = block;
        csv->field_capacity = capacity;
    }
    csv->field[csv->n_fields++] = (swi_csv_field){at, csv->used - at};
    return put(csv, '\0');
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
    return add_field(csv, at);
}

sw_status swi_csv_next(swi_csv *csv)
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

const char *swi_csv_text(const swi_csv *csv, int field)
{
    return csv->text + csv->field[field].at;
}

swi_csv_quote swi_csv_show(const char *text, size_t n)
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
