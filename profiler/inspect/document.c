/* Text for people, and documents: tables from one description as text, CSV, JSON and HTML;
 * lines of bytes; bars. */
#include "alloc/base/message.h"
#include "profiler/inspect/document.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------- */

/* In the first of n units, each `by` times the one before, in which it is below `most`. */
static sw_text in_units(double x, double by, double most, const char *const *units, int n)
{
    int unit = 0;
    while (x >= most && unit + 1 < n) {
        x /= by;
        unit++;
    }
    sw_text t;
    snprintf(t.text, sizeof t.text, unit == 0 ? "%.0f %s" : "%.2f %s", x, units[unit]);
    return t;
}

sw_text sw_text_bytes(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return in_units((double)bytes, 1024.0, 1023.995, units, 6);
}

sw_text sw_text_mib(size_t bytes)
{
    const uint64_t hundredths = ((uint64_t)bytes / 1048576) * 100 +
                                ((uint64_t)bytes % 1048576 * 100 + 524288) / 1048576;
    sw_text t = sw_text_digits(hundredths / 100);
    const size_t n = strlen(t.text);
    snprintf(t.text + n, sizeof t.text - n, ".%02u", (unsigned)(hundredths % 100));
    return t;
}

sw_text sw_text_ns(uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return in_units((double)ns, 1000.0, 999.5, units, 4);
}

sw_text sw_text_digits(uint64_t n)
{
    sw_text t;
    (void)sw_digits(t.text, n);
    return t;
}

/* ---- lines ------------------------------------------------------------------------------- */

void sw_writer_text(const sw_writer *to, const char *text)
{
    to->put(to->context, text, strlen(text));
}

void sw_writer_print(const sw_writer *to, const char *format, ...)
{
    char text[8192]; /* two paths and the words around them */
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        to->put(to->context, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static int width_of(const char *text, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\033' && i + 1 < n) /* colours take no column */
            while (i + 1 < n && text[i] != 'm')
                i++;
        else
            width += begins_character(text[i]);
    }
    return width;
}

int sw_writer_fitted(const sw_writer *to, const char *text, size_t n, int width)
{
    const int wanted = width_of(text, n);
    if (wanted <= width) {
        to->put(to->context, text, n);
        return width - wanted;
    }
    const int head = (width - 1) / 2, tail = width - 1 - head;
    int at = 0;
    for (size_t i = 0; i < n; i++) {
        if (begins_character(text[i]) && at++ == head)
            sw_writer_text(to, "~");
        if (at <= head || at > wanted - tail)
            to->put(to->context, text + i, 1);
    }
    return 0;
}

int sw_writer_columns(const sw_writer *to)
{
    return to->columns > 0 ? to->columns : SW_WRITER_COLUMNS;
}

int sw_writer_scopes(const sw_writer *to, const char *text, int width)
{
    const char *from = text, *next;
    while (width_of(from, strlen(from)) + 2 * (from > text) > width &&
           (next = strchr(from, '/')) != NULL)
        from = next + 1;
    if (from > text && width > 2) {
        sw_writer_text(to, "~/");
        width -= 2;
    }
    const size_t file = strcspn(from, ":"), line = file + strcspn(from + file, " "),
                 n = strlen(from);
    const int head = width_of(from, file), tail = width_of(from + line, n - line),
              room = width - width_of(from + file, line - file);
    if (file == n || head + tail <= room || room < 4)
        return sw_writer_fitted(to, from, n, width);
    const int most = tail < room / 2 ? room - tail : room - room / 2,
              of = head < most ? head : most;
    (void)sw_writer_fitted(to, from, file, of);
    to->put(to->context, from + file, line - file);
    return sw_writer_fitted(to, from + line, n - line, room - of);
}

void sw_writer_wrap(const sw_writer *to, int column, int indent, const char *text)
{
    bool first = true;
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        const int width = width_of(text, n), room = sw_writer_columns(to) - indent;
        if (!first && column + 1 + width > sw_writer_columns(to)) {
            sw_writer_print(to, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            sw_writer_text(to, " ");
            column++;
        }
        column += room - sw_writer_fitted(to, text, n, room);
        first = false;
        text += n + (text[n] == ' ');
    }
    sw_writer_text(to, "\n");
}

void sw_writer_say(const sw_writer *to, int indent, int hang, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(text, sizeof text, format, args);
    va_end(args);
    sw_writer_print(to, "%*s", indent, "");
    sw_writer_wrap(to, indent, hang, text);
}

/* ---- bars -------------------------------------------------------------------------------- */

static void append(char **to, const char *mark)
{
    while (*mark != '\0')
        *(*to)++ = *mark++;
    **to = '\0';
}

/* A bar of `share` (0 to 1) of `width` columns. Any share above 0 has a mark. */
static bars_text bars_bar(double share, int width, bool ascii)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    bars_text bar = {""};
    char *to = bar.text;
    width = width < BARS_COLUMNS ? width : BARS_COLUMNS;
    const double within = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    const int steps = ascii ? 1 : 8; /* of a column */
    int marks = (int)(within * width * steps + 0.5);
    if (marks == 0 && within > 0.0 && !ascii)
        marks = 1;
    for (int i = 0; i < marks / steps; i++)
        append(&to, ascii ? "#" : "█");
    if (marks == 0 && within > 0.0)
        append(&to, ".");
    append(&to, eighths[marks % steps]);
    return bar;
}

bars_text bars_spark(const uint64_t *values, size_t n, uint64_t low, uint64_t high, bool ascii)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const marks[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    bars_text spark = {""};
    char *to = spark.text;
    for (size_t i = 0; i < n && i < BARS_COLUMNS; i++) {
        const uint64_t v = values[i] < low ? low : values[i] > high ? high : values[i];
        const double up = high > low ? (double)(v - low) / (double)(high - low) : 1.0;
        append(&to, (ascii ? marks : blocks)[(int)(up * 7.0 + 0.5)]);
    }
    return spark;
}

#define EXACT_WIDTH 15 /* 999,999,999,999 */

static bool is_left(table_kind kind)
{
    return kind <= TABLE_WRAP || kind == TABLE_BAR;
}

/* ---- text -------------------------------------------------------------------------------- */

sw_text table_bytes(uint64_t n, const report_style *style)
{
    return style->exact ? sw_text_digits(n) : sw_text_bytes((size_t)n);
}

sw_text table_cell_bytes(uint64_t n, int width)
{
    const sw_text t = sw_text_digits(n);
    return (int)strlen(t.text) < width ? t : sw_text_bytes((size_t)n);
}

static sw_text signed_digits(int64_t x)
{
    sw_text t = {"-"};
    if (x >= 0)
        return sw_text_digits((uint64_t)x);
    snprintf(t.text + 1, sizeof t.text - 1, "%.38s", sw_text_digits(0 - (uint64_t)x).text);
    return t;
}

table_unit table_unit_for(uint64_t largest, const report_style *style)
{
    if (style->exact)
        return (table_unit){"bytes", 1.0, 0};
    if (largest < (uint64_t)1000 << 10) /* 999.99/999.99 fits a cell */
        return (table_unit){"KiB", 1024.0, 2};
    if (largest < (uint64_t)1000 << 20)
        return (table_unit){"MiB", 1048576.0, 2};
    if (largest < (uint64_t)1000 << 30)
        return (table_unit){"GiB", 1073741824.0, 2};
    return (table_unit){"TiB", 1099511627776.0, 2};
}

typedef struct {
    const table *t;
    const report_style *style;
    table_unit unit;
    int width[TABLE_COLUMNS]; /* 0: not there */
    int from, to, used; /* columns of this part, after the name; all its blanks and text */
} layout;

/* The member of a struct that a column is of. */
static table_cell member_cell(const table_column *c, const void *row)
{
    const void *at = (const char *)row + c->at;
    table_cell x = {.none = c->known && c->type == LIES_NOWHERE};
    int64_t whole = 0;
    switch (c->type) {
    case LIES_NOWHERE:
        return x;
    case LIES_TEXT:
        x.text = *(const char *const *)at;
        break;
    case LIES_CHARS:
        x.text = at;
        break;
    case LIES_U32:
        x.n = *(const uint32_t *)at;
        break;
    case LIES_U64:
        x.n = *(const uint64_t *)at;
        break;
    case LIES_I64:
        whole = *(const int64_t *)at;
        x.n = (uint64_t)whole;
        break;
    case LIES_F64:
        x.share = *(const double *)at;
        x.none = isnan(x.share);
        break;
    case LIES_BOOL:
        x.n = *(const bool *)at;
        break;
    }
    if (c->known && c->type == LIES_I64)
        x.none = whole < 0;
    else if (c->known && (c->type == LIES_U32 || c->type == LIES_U64))
        x.none = x.n == 0;
    else if (c->known && x.text != NULL && *x.text == '\0')
        x.text = NULL;
    return x;
}

static void fill_row(const table *t, size_t i, table_cell *cells)
{
    for (int k = 0; k < t->n_columns; k++)
        cells[k] = t->rows != NULL
                       ? member_cell(&t->columns[k], (const char *)t->rows + i * t->row_bytes)
                       : (table_cell){0};
    if (t->row != NULL)
        t->row(t->context, i, cells);
}

static sw_text number(const layout *l, const table_column *c, const table_cell *x)
{
    sw_text t = {"-"};
    const char *text = x->shown != NULL ? x->shown : x->text;
    if (text != NULL)
        snprintf(t.text, sizeof t.text, "%.39s", text);
    if (x->none || text != NULL)
        return t;
    if (c->kind == TABLE_NS)
        return sw_text_ns(x->n);
    if (c->kind == TABLE_SCALED && !l->style->exact)
        snprintf(t.text, sizeof t.text, "%.*f", l->unit.digits, (double)x->n / l->unit.bytes);
    else if (c->kind == TABLE_REAL)
        snprintf(t.text, sizeof t.text, "%.5g", x->share);
    else if (c->kind == TABLE_CHANGE)
        snprintf(t.text, sizeof t.text, "%s%.38s", (int64_t)x->n > 0 ? "+" : "",
                 signed_digits((int64_t)x->n).text);
    else if (c->kind == TABLE_SHARE)
        snprintf(t.text, sizeof t.text, "%.1f%%", 100.0 * x->share);
    else if (c->kind == TABLE_BOOL)
        snprintf(t.text, sizeof t.text, "%s", x->n != 0 ? "yes" : "no");
    else
        return sw_text_digits(x->n);
    return t;
}

static void lay_out(layout *l, size_t n)
{
    const table *t = l->t;
    table_cell cells[TABLE_COLUMNS];
    uint64_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        fill_row(t, i, cells);
        for (int k = 0; k < t->n_columns; k++)
            if (t->columns[k].kind == TABLE_SCALED && cells[k].n > largest)
                largest = cells[k].n;
    }
    l->unit = table_unit_for(largest, l->style);
    for (int k = 0; k < t->n_columns; k++) {
        const table_column *c = &t->columns[k];
        l->width[k] = c->head == NULL ? 0 : c->width;
        if (l->style->exact && c->head != NULL && c->kind == TABLE_SCALED)
            l->width[k] = EXACT_WIDTH;
        if (l->style->exact && c->kind == TABLE_BAR)
            l->width[k] = 0;
        if (c->kind == TABLE_SCOPES)
            l->width[k] += sw_writer_columns(l->style->to) - SW_WRITER_COLUMNS;
    }
    for (size_t i = 0; i < n; i++) {
        fill_row(t, i, cells);
        for (int k = 0; k < t->n_columns; k++) { /* bytes are as wide as what is there */
            const table_column *c = &t->columns[k];
            if (l->width[k] == 0 || (c->kind != TABLE_BYTES && c->kind != TABLE_CHANGE))
                continue;
            const int wide = (int)strlen(number(l, c, &cells[k]).text);
            l->width[k] = wide > l->width[k] ? wide : l->width[k];
        }
    }
}

/* Blanks that a line would end in are not printed: they wait in `owed`. */
static void print_left(const report_style *style, const char *text, bool scopes, int indent,
                       int width, int *owed)
{
    if (*text == '\0') {
        *owed += width;
        return;
    }
    sw_writer_print(style->to, "%*s", *owed + indent, "");
    *owed = scopes ? sw_writer_scopes(style->to, text, width - indent)
                   : sw_writer_fitted(style->to, text, strlen(text), width - indent);
}

static void print_right(const report_style *style, const char *text, int width, int *owed)
{
    if (*text != '\0')
        sw_writer_print(style->to, "%*s%*s", *owed, "", width, text);
    *owed = *text != '\0' ? 0 : *owed + width;
}

static void print_cell(const layout *l, int k, const table_cell *x, int *owed)
{
    const table_column *c = &l->t->columns[k];
    const int width = l->width[k], most = width / 2; /* the name keeps the other half */
    if (!is_left(c->kind)) {
        print_right(l->style, number(l, c, x).text, width, owed);
        return;
    }
    const char *text = x->shown != NULL ? x->shown : x->text;
    if (text != NULL && *text == '\0' && l->t->empty != NULL)
        text = l->t->empty;
    if (c->kind == TABLE_WRAP) {
        sw_writer_print(l->style->to, "%*s", *owed, "");
        sw_writer_wrap(l->style->to, l->used - width, l->used - width + 1,
                       text != NULL ? text : "-");
        return;
    }
    const bars_text bar = bars_bar(x->share, width, l->style->ascii);
    if (c->kind == TABLE_BAR)
        text = bar.text;
    print_left(l->style, text != NULL ? text : "-", c->kind == TABLE_SCOPES,
               x->indent < most ? x->indent : most, width, owed);
}

void table_print(const table *t, size_t n, const report_style *style)
{
    layout l = {.t = t, .style = style, .from = 1};
    const int most =
        t->columns[0].kind == TABLE_SCOPES ? sw_writer_columns(style->to) : SW_WRITER_COLUMNS;
    bool scaled = false;
    lay_out(&l, n);
    for (int k = 0; k < t->n_columns; k++)
        scaled |= t->columns[k].kind == TABLE_SCALED;
    for (; l.from < t->n_columns; l.from = l.to) {
        l.used = 1 + 1 + l.width[0];
        for (l.to = l.from; l.to < t->n_columns; l.to++) {
            const int wide = t->columns[l.to].kind == TABLE_WRAP ? 2 : 1,
                      more = l.width[l.to] > 0 ? l.width[l.to] + wide : 0;
            if (l.used + more > most && l.to > l.from)
                break;
            l.used += more;
        }
        for (size_t i = 0; i <= n && l.used > 2 + l.width[0]; i++) {
            /* Row 0 is that of the heads. */
            table_cell cells[TABLE_COLUMNS];
            int owed = 1;
            if (i > 0)
                fill_row(t, i - 1, cells);
            for (int k = 0; k < l.to; k++) {
                const table_column *c = &t->columns[k];
                char text[64];
                if (l.width[k] == 0 || (k > 0 && k < l.from))
                    continue;
                owed += c->kind == TABLE_WRAP ? 2 : 1;
                snprintf(text, sizeof text, k == 0 && scaled ? "%s, %s" : "%s",
                         i == 0 ? c->head : "", l.unit.name);
                if (i > 0)
                    print_cell(&l, k, &cells[k], &owed);
                else if (is_left(c->kind))
                    print_left(style, text, false, 0, l.width[k], &owed);
                else
                    print_right(style, text, l.width[k], &owed);
            }
            if (i == 0 || t->columns[l.to - 1].kind != TABLE_WRAP)
                sw_writer_text(style->to, "\n");
        }
    }
}

/* ---- CSV --------------------------------------------------------------------------------- */

static void print_csv_cell(const sw_writer *to, const table_column *c, const table_cell *x)
{
    const char *text = c->kind <= TABLE_WRAP && x->text != NULL ? x->text : "";
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    sw_writer_text(to, quoted ? "\"" : "");
    for (; *text != '\0'; text++) {
        if (quoted && *text == '"')
            sw_writer_text(to, "\"");
        to->put(to->context, text, 1);
    }
    sw_writer_text(to, quoted ? "\"" : "");
    if (c->kind <= TABLE_WRAP)
        return;
    if (x->none)
        return;
    else if (c->kind == TABLE_SHARE)
        sw_writer_print(to, "%.6f", x->share);
    else if (c->kind == TABLE_REAL)
        sw_writer_print(to, "%.17g", x->share);
    else if (c->kind == TABLE_CHANGE)
        sw_writer_print(to, "%" PRId64, (int64_t)x->n);
    else
        sw_writer_print(to, "%" PRIu64, x->n);
}

void table_print_csv(const report_style *style, const table *t)
{
    for (size_t i = 0; i <= t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        if (i > 0)
            fill_row(t, i - 1, cells);
        bool first = true;
        for (int k = 0; k < t->n_columns; k++) {
            if (t->columns[k].key == NULL)
                continue;
            if (!first)
                sw_writer_text(style->to, ",");
            first = false;
            if (i == 0)
                sw_writer_text(style->to, t->columns[k].key);
            else
                print_csv_cell(style->to, &t->columns[k], &cells[k]);
        }
        sw_writer_text(style->to, "\n");
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_cells(sw_json *j, const table_column *columns, int n, const table_cell *cells)
{
    for (int k = 0; k < n; k++) {
        const table_column *c = &columns[k];
        const table_cell *x = &cells[k];
        if (c->key == NULL)
            continue;
        sw_json_key(j, c->key);
        if (c->kind <= TABLE_WRAP)
            sw_json_string(j, x->text);
        else if (x->none)
            sw_json_null(j);
        else if (c->kind == TABLE_SHARE || c->kind == TABLE_REAL)
            sw_json_f64(j, x->share);
        else if (c->kind == TABLE_CHANGE)
            sw_json_i64(j, (int64_t)x->n);
        else if (c->kind == TABLE_BOOL)
            sw_json_bool(j, x->n != 0);
        else
            sw_json_u64(j, x->n);
    }
}

void table_put(sw_json *j, const char *key, const table *t)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        fill_row(t, i, cells);
        sw_json_begin(j, '{');
        put_cells(j, t->columns, t->n_columns, cells);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void table_put_fields(sw_json *j, const table_column *columns, int n, const void *from)
{
    for (int k = 0; k < n; k++) {
        const table_cell x = member_cell(&columns[k], from);
        put_cells(j, &columns[k], 1, &x);
    }
}

void report_begin_object(sw_json *j)
{
    sw_json_growing(j, SW_HEAP_PROFILE);
    sw_json_begin(j, '{');
}

sw_status report_print_object(sw_json *j, const report_style *style)
{
    sw_json_line(j);
    const sw_status status = j->status;
    if (status == SW_OK)
        style->to->put(style->to->context, j->bytes, j->used);
    sw_json_free(j);
    return status;
}

sw_status report_end_object(sw_json *j, const report_tail *more, const report_style *style)
{
    if (more != NULL)
        more->put(j, more->context);
    sw_json_end(j);
    return report_print_object(j, style);
}

/* ---- HTML -------------------------------------------------------------------------------- */

void html_escaped(const sw_writer *to, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *as = *text == '<'    ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '&'  ? "&amp;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\'' ? "&#39;"
                                         : NULL;
        to->put(to->context, as != NULL ? as : text, as != NULL ? strlen(as) : 1);
    }
}

void table_print_html(const sw_writer *to, const char *id, const table *t)
{
    sw_writer_print(to, "<div class=\"scroll\"><table id=\"%s\">\n", id);
    for (size_t i = 0; i <= t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        if (i > 0)
            fill_row(t, i - 1, cells);
        sw_writer_text(to, "<tr>");
        for (int k = 0; k < t->n_columns; k++) {
            const table_column *c = &t->columns[k];
            if (c->head == NULL)
                continue;
            sw_writer_text(to, i == 0 ? "<th>" : "<td>");
            if (i == 0)
                html_escaped(to, c->head);
            else if (is_left(c->kind))
                html_escaped(to, cells[k].text != NULL ? cells[k].text : "-");
            else
                print_csv_cell(to, c, &cells[k]);
            sw_writer_text(to, i == 0 ? "</th>" : "</td>");
        }
        sw_writer_text(to, "</tr>\n");
    }
    sw_writer_text(to, "</table></div>\n");
}

/* ---- documents --------------------------------------------------------------------------- */

void report_headline(const report_style *style, const char *text)
{
    const bool bold = style->to->colour;
    sw_writer_print(style->to, "\n%s%s%s\n", bold ? "\033[1m" : "", text,
                    bold ? "\033[0m" : "");
}

bool document_open(const document *d, const char *key, bool known, const char *format, ...)
{
    char text[240];
    va_list args;
    if (d->json != NULL)
        return key != NULL ? sw_json_open_known(d->json, key, known) : known;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (known)
        report_headline(d->style, text);
    return known;
}

void document_close(const document *d)
{
    if (d->json != NULL)
        sw_json_end(d->json);
}

void document_bytes(const document *d, int indent, const char *key, const char *name,
                    int64_t bytes, const char *why)
{
    if (d->json != NULL && key != NULL)
        sw_json_put_i64(d->json, key, bytes);
    if (d->json == NULL && name != NULL)
        sw_writer_print(d->style->to, "%*s%-*s%18s%s%s\n", indent, "", 30 - indent, name,
                        signed_digits(bytes).text, *why != '\0' ? "  " : "", why);
}

void document_table(const document *d, const char *key, const table *t)
{
    if (d->json != NULL)
        table_put(d->json, key, t);
    else
        table_print(t, t->n, d->style);
}

void document_text(const document *d, const char *key, const char *text)
{
    if (d->json != NULL)
        sw_json_put_string(d->json, key, text);
}

void document_say(const document *d, int indent, int hang, const char *format, ...)
{
    char text[2048];
    va_list args;
    if (d->json != NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sw_writer_say(d->style->to, indent, hang, "%s", text);
}
