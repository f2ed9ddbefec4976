/* See place_csv.h. One pass over the text: fields are read where they stand and nothing is
 * copied but numbers. */
#include "alloc/base/mem.h"
#include "alloc/base/message.h"
#include "alloc/base/order.h"
#include "alloc/base/sys.h"
#include "tools/place/place_csv.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[PLACE_COLUMNS] = {"id",   "lower",     "upper",
                                                 "size", "alignment", "offset"};

typedef struct {
    place_csv *csv;
    const char *path;
    const char *at, *end; /* a newline stands at `end`, and another character never */
    size_t line;          /* of `at`, from 1 */
    uint64_t *ids;        /* hashes of the ids so far, 0 where there is none */
    size_t n_ids;         /* slots, a power of two */
    uint64_t sum, aligns; /* of the sizes, and of the alignments, so far */
    bool aligned;         /* one of these is above 1 */
} reader;

/* ---- messages ---------------------------------------------------------------------------- */

static sw_status damaged(const reader *r, int column, const char *format, ...) SW_PRINTF(3, 4);

static sw_status damaged(const reader *r, int column, const char *format, ...)
{
    char what[200], name[24] = "";
    va_list args;
    va_start(args, format);
    (void)sw_message_list(what, sizeof what, format, args);
    va_end(args);
    if (r->line > 1 && column < r->csv->n_columns)
        snprintf(name, sizeof name, " (%s)", names[r->csv->role[column]]);
    SW_FAIL(SW_FORMAT, "%s: line %llu, column %d%s: %s", r->path, (unsigned long long)r->line,
            column + 1, name, what);
}

/* A field as a message shows it. */
#define QUOTED 40
static int quoted_length(const char *from)
{
    int n = 0;
    while (n < QUOTED && from[n] != ',' && from[n] != '\n' && from[n] != '\r')
        n++;
    return n;
}

/* ---- fields ------------------------------------------------------------------------------ */

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static bool at_line_end(const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static const char *field_end(const char *p)
{
    while (*p != ',' && !at_line_end(p))
        p++;
    return p;
}

/* Digits, and blanks around them. NULL when something else stands there or 64 bits overflow. */
static const char *read_number(const char *p, uint64_t *out)
{
    p = skip_blanks(p);
    const char *first = p;
    uint64_t x = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (p - first < 18)
            x = x * 10 + digit;
        else if (__builtin_mul_overflow(x, 10u, &x) || __builtin_add_overflow(x, digit, &x))
            return NULL;
    }
    *out = x;
    return p == first ? NULL : skip_blanks(p);
}

/* ---- ids --------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 32;
    return h == 0 ? 1 : h;
}

/* The line before the reader's that has this id; 0: none, two ids only have one hash. */
static size_t line_with(const reader *r, const char *id, size_t n)
{
    const char *p = r->csv->text + r->csv->body;
    for (size_t line = 2; line < r->line; line++) {
        for (int c = 0; r->csv->role[c] != PLACE_ID; c++)
            p = field_end(p) + 1;
        if ((size_t)(field_end(p) - p) == n && memcmp(p, id, n) == 0)
            return line;
        p = (const char *)memchr(p, '\n', (size_t)(r->end - p)) + 1;
    }
    return 0;
}

static sw_status read_id(reader *r, int column, const char *from, size_t n)
{
    if (n == 0)
        return damaged(r, column, "the id is empty");
    const uint64_t hash = hash_of(from, n);
    size_t slot = hash & (r->n_ids - 1);
    for (; r->ids[slot] != 0; slot = (slot + 1) & (r->n_ids - 1)) {
        const size_t line = r->ids[slot] == hash ? line_with(r, from, n) : 0;
        if (line > 0)
            return damaged(r, column, "line %llu has the id '%.*s' too",
                           (unsigned long long)line, quoted_length(from), from);
    }
    r->ids[slot] = hash;
    return SW_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

/* One field of the row; *p moves past it. */
static sw_status read_field(reader *r, int column, const char **p, uint64_t *value)
{
    const int role = r->csv->role[column];
    if (role == PLACE_ID || role == PLACE_OFFSET) { /* offsets are replaced, not read */
        const char *from = *p;
        *p = field_end(from);
        return role == PLACE_ID ? read_id(r, column, from, (size_t)(*p - from)) : SW_OK;
    }
    const char *behind = read_number(*p, &value[role]);
    if (behind == NULL || (*behind != ',' && !at_line_end(behind)))
        return damaged(r, column, "'%.*s' must be a whole number from 0 to 2^64 - 1",
                       quoted_length(*p), *p);
    *p = behind;
    return SW_OK;
}

static int column_of(const place_csv *csv, int role)
{
    int column = 0;
    while (csv->role[column] != role)
        column++;
    return column;
}

/* Checks the numbers of a row against each other. */
static sw_status check_row(reader *r, const uint64_t *value)
{
    const place_csv *csv = r->csv;
    if (value[PLACE_LOWER] >= value[PLACE_UPPER])
        return damaged(r, column_of(csv, PLACE_UPPER),
                       "the lifetime from %llu to %llu is empty: upper must be above lower",
                       (unsigned long long)value[PLACE_LOWER],
                       (unsigned long long)value[PLACE_UPPER]);
    if (value[PLACE_SIZE] == 0)
        return damaged(r, column_of(csv, PLACE_SIZE), "a buffer of 0 bytes");
    if (__builtin_add_overflow(r->sum, value[PLACE_SIZE], &r->sum))
        return damaged(r, column_of(csv, PLACE_SIZE),
                       "the sizes up to here sum to more than 64 bits");
    if (value[PLACE_ALIGNMENT] == 0)
        return damaged(r, column_of(csv, PLACE_ALIGNMENT), "an alignment of 0");
    /* Sums that the solver cannot hold are reported here, where the line is known. */
    const uint64_t align = value[PLACE_ALIGNMENT];
    uint64_t sum;
    r->aligned = r->aligned || align > 1;
    const bool much = __builtin_add_overflow(r->aligns, align, &r->aligns) ||
                      __builtin_add_overflow(r->aligns, r->sum, &sum) ||
                      sum > SW_PLACEMENT_ALIGNED_MOST;
    if (r->aligned && much)
        return damaged(r, column_of(r->csv, PLACE_ALIGNMENT),
                       "the sizes and alignments up to here sum to 2^62 or more");
    return SW_OK;
}

static sw_status read_row(reader *r)
{
    place_csv *csv = r->csv;
    const char *p = r->at;
    uint64_t value[PLACE_COLUMNS] = {[PLACE_ALIGNMENT] = 1};
    for (int c = 0; c < csv->n_columns; c++) {
        SW_TRY(read_field(r, c, &p, value));
        const bool last = c + 1 == csv->n_columns;
        if (last && *p == ',')
            return damaged(r, c + 1, "the header has only %d columns", csv->n_columns);
        if (!last && *p != ',')
            return damaged(r, c + 1, "the line ends before it");
        p += !last;
    }
    SW_TRY(check_row(r, value));
    csv->items[csv->n].bytes = value[PLACE_SIZE];
    csv->items[csv->n].align = value[PLACE_ALIGNMENT];
    csv->times[2 * csv->n] = value[PLACE_LOWER];
    csv->times[2 * csv->n + 1] = value[PLACE_UPPER];
    csv->n++;
    r->at = p + (*p == '\r') + 1;
    r->line++;
    return SW_OK;
}

/* Lines without anything may stand at the end, and nowhere else. */
static bool only_line_ends(const reader *r)
{
    for (const char *p = r->at; p < r->end; p++)
        if (*p != '\n' && *p != '\r')
            return false;
    return true;
}

static sw_status read_rows(reader *r)
{
    while (r->at < r->end) {
        if (at_line_end(r->at)) {
            if (only_line_ends(r))
                return SW_OK;
            return damaged(r, 0, "the line is empty");
        }
        SW_TRY(read_row(r));
    }
    return SW_OK;
}

/* ---- the header -------------------------------------------------------------------------- */

static int role_of(const char *from, size_t n)
{
    for (int role = 0; role < PLACE_COLUMNS; role++)
        if (strlen(names[role]) == n && memcmp(names[role], from, n) == 0)
            return role;
    return -1;
}

static sw_status read_column(reader *r, const char *from, const char *behind)
{
    place_csv *csv = r->csv;
    const int column = csv->n_columns;
    from = skip_blanks(from);
    while (behind > from && (behind[-1] == ' ' || behind[-1] == '\t'))
        behind--;
    const int role = role_of(from, (size_t)(behind - from));
    if (role < 0)
        return damaged(r, column,
                       "unknown column '%.*s'; known are id, lower, upper, size, alignment "
                       "and offset",
                       quoted_length(from), from);
    for (int c = 0; c < column; c++)
        if (csv->role[c] == role)
            return damaged(r, column, "'%s' is column %d already", names[role], c + 1);
    csv->role[column] = role;
    csv->n_columns++;
    return SW_OK;
}

static sw_status read_header(reader *r)
{
    static const char mark[] = "\xef\xbb\xbf"; /* that the text is UTF-8 */
    place_csv *csv = r->csv;
    const char *p = csv->text;
    if (csv->text_bytes >= 3 && memcmp(p, mark, 3) == 0)
        p += 3;
    for (;; p++) {
        const char *behind = field_end(p);
        SW_TRY(read_column(r, p, behind));
        p = behind;
        if (*p != ',')
            break;
    }
    for (int role = 0; role <= PLACE_SIZE; role++) {
        bool there = false;
        for (int c = 0; c < csv->n_columns; c++)
            there = there || csv->role[c] == role;
        if (!there)
            return damaged(r, csv->n_columns, "the header has no column '%s'", names[role]);
    }
    p += (*p == '\r') + 1;
    r->at = p < r->end ? p : r->end;
    csv->body = (size_t)(r->at - csv->text);
    r->line = 2;
    return SW_OK;
}

/* The solver's times: 0 for the earliest of the file, 1 for the next, ... */
static sw_status place_csv_rank(place_csv *csv)
{
    const size_t n = 2 * csv->n, bytes = 2 * n * sizeof(uint32_t);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    uint32_t *order = block, rank = 0;
    sw_order_numbers(order, n);
    sw_order_by_keys(order, order + n, csv->times, n, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        rank += i > 0 && csv->times[order[i]] != csv->times[order[i - 1]];
        sw_placement_item *item = &csv->items[order[i] / 2];
        *(order[i] % 2 == 0 ? &item->lower : &item->upper) = rank;
    }
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return SW_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Also of pipes, whose size no one knows before. One byte more than the file has is kept. */
static sw_status read_text(place_csv *csv, sw_file *file)
{
    uint64_t size;
    SW_TRY(sw_file_size(file, &size));
    if (size > SIZE_MAX / 4)
        SW_FAIL(SW_NOMEM, "%s: %llu bytes do not fit the memory", sw_file_path(file),
                (unsigned long long)size);
    for (size_t capacity = (size_t)size + 2;; capacity *= 2) {
        SW_TRY(sw_heap_resize(&csv->text, SW_HEAP_FILES, csv->text_capacity, capacity));
        csv->text_capacity = capacity;
        const size_t wanted = capacity - 1 - csv->text_bytes;
        size_t got = 0;
        SW_TRY(sw_file_read(file, csv->text + csv->text_bytes, wanted, &got));
        csv->text_bytes += got;
        if (got < wanted)
            break;
    }
    csv->text[csv->text_bytes] = '\n';
    return SW_OK;
}

static sw_status read_body(reader *r)
{
    place_csv *csv = r->csv;
    void *block;
    /* with the header: one more than rows */
    const char *p = csv->text, *end = p + csv->text_bytes;
    size_t n = 0;
    for (; p < end; n++)
        p = (const char *)memchr(p, '\n', (size_t)(end - p) + 1) + 1;
    csv->capacity = n;
    if (csv->capacity > INT32_MAX)
        SW_FAIL(SW_NOMEM, "%zu lines are too many", csv->capacity);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, csv->capacity * sizeof *csv->items));
    csv->items = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 2 * csv->capacity * sizeof *csv->times));
    csv->times = block;
    for (r->n_ids = 16; r->n_ids < csv->capacity + csv->capacity / 2; r->n_ids *= 2) {
    }
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, r->n_ids * sizeof *r->ids));
    r->ids = block;
    const sw_status status = read_rows(r);
    sw_heap_free(block, SW_HEAP_FILES, r->n_ids * sizeof *r->ids);
    SW_TRY(status);
    return place_csv_rank(csv);
}

static sw_status read_all(place_csv *csv, const char *path)
{
    reader r = {.csv = csv, .path = path, .line = 1, .end = csv->text + csv->text_bytes};
    if (csv->text_bytes == 0)
        return damaged(&r, 0, "the file is empty");
    SW_TRY(read_header(&r));
    return read_body(&r);
}

sw_status place_csv_read(place_csv *csv, const char *path)
{
    sw_file *file;
    *csv = (place_csv){0};
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = read_text(csv, file);
    sw_file_drop(file);
    if (status == SW_OK)
        status = read_all(csv, path);
    if (status != SW_OK)
        place_csv_free(csv);
    return status;
}

void place_csv_free(place_csv *csv)
{
    sw_heap_free(csv->text, SW_HEAP_FILES, csv->text_capacity);
    sw_heap_free(csv->items, SW_HEAP_FILES, csv->capacity * sizeof *csv->items);
    sw_heap_free(csv->times, SW_HEAP_FILES, 2 * csv->capacity * sizeof *csv->times);
    *csv = (place_csv){0};
}
