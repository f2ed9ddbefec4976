/* Tables. */
#include "profiler/inspect/report/report_table.h"
#include "profiler/inspect/report/bars.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXACT_WIDTH 15 /* 999,999,999,999 */

static bool is_left(table_kind kind)
{
    return kind == TABLE_NAME || kind == TABLE_TEXT || kind == TABLE_BAR;
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
    int from, to;             /* of this part, after the name */
} layout;

static void fill_row(const table *t, size_t i, table_cell *cells)
{
    memset(cells, 0, TABLE_COLUMNS * sizeof *cells);
    t->row(t->context, i, cells);
}

static sw_text number(const layout *l, const table_column *c, const table_cell *x)
{
    sw_text t = {"-"};
    if (x->none)
        return t;
    switch (c->kind) {
    case TABLE_BYTES:
        return sw_text_digits(x->n);
    case TABLE_SCALED:
        if (l->style->exact)
            return sw_text_digits(x->n);
        snprintf(t.text, sizeof t.text, "%.*f", l->unit.digits, (double)x->n / l->unit.bytes);
        return t;
    case TABLE_COUNT:
        return sw_text_digits(x->n);
    case TABLE_REAL:
        snprintf(t.text, sizeof t.text, "%.5g", x->share);
        return t;
    case TABLE_CHANGE:
        snprintf(t.text, sizeof t.text, "%s%.38s",
                 x->share > 0.0   ? "+"
                 : x->share < 0.0 ? "-"
                                  : "",
                 sw_text_digits((uint64_t)fabs(x->share)).text);
        return t;
    default:
        snprintf(t.text, sizeof t.text, "%.1f%%", 100.0 * x->share);
        return t;
    }
}

/* Columns of bytes are as wide as what is in them. */
static void widen(layout *l, const table_cell *cells)
{
    for (int k = 0; k < l->t->n_columns; k++) {
        const table_column *c = &l->t->columns[k];
        if (l->width[k] == 0 || (c->kind != TABLE_BYTES && c->kind != TABLE_CHANGE))
            continue;
        const int n = (int)strlen(number(l, c, &cells[k]).text);
        l->width[k] = n > l->width[k] ? n : l->width[k];
    }
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
    }
    for (size_t i = 0; i < n; i++) {
        fill_row(t, i, cells);
        widen(l, cells);
    }
}

/* Blanks that a line would end in are not printed: they wait in `owed`. */
static void print_left(const report_style *style, const char *text, int indent, int width,
                       int *owed)
{
    if (*text == '\0') {
        *owed += width;
        return;
    }
    sw_writer_print(style->to, "%*s", *owed + indent, "");
    *owed = sw_writer_fitted(style->to, text, strlen(text), width - indent);
}

static void print_right(const report_style *style, const char *text, int width, int *owed)
{
    sw_writer_print(style->to, "%*s%*s", *owed, "", width, text);
    *owed = 0;
}

static void print_head(const layout *l, int k, int *owed)
{
    const table_column *c = &l->t->columns[k];
    char text[64];
    bool scaled = false;
    for (int i = 0; i < l->t->n_columns; i++)
        scaled |= l->t->columns[i].kind == TABLE_SCALED;
    snprintf(text, sizeof text, k == 0 && scaled ? "%s, %s" : "%s", c->head, l->unit.name);
    if (is_left(c->kind))
        print_left(l->style, text, 0, l->width[k], owed);
    else
        print_right(l->style, text, l->width[k], owed);
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
    const bars_text bar = bars_bar(x->share, width, l->style->ascii);
    if (c->kind == TABLE_BAR)
        text = bar.text;
    print_left(l->style, text != NULL ? text : "-", x->indent < most ? x->indent : most, width,
               owed);
}

/* Row 0 is that of the heads. */
static void print_row(const layout *l, size_t i)
{
    table_cell cells[TABLE_COLUMNS];
    int owed = 1;
    if (i > 0)
        fill_row(l->t, i - 1, cells);
    for (int k = 0; k < l->to; k++) {
        if (l->width[k] == 0 || (k > 0 && k < l->from))
            continue;
        owed++;
        if (i == 0)
            print_head(l, k, &owed);
        else
            print_cell(l, k, &cells[k], &owed);
    }
    sw_writer_text(l->style->to, "\n");
}

void table_print(const table *t, size_t n, const report_style *style)
{
    layout l = {.t = t, .style = style, .from = 1};
    lay_out(&l, n);
    while (l.from < t->n_columns) {
        int used = 1 + 1 + l.width[0];
        for (l.to = l.from; l.to < t->n_columns; l.to++) {
            const int more = l.width[l.to] > 0 ? l.width[l.to] + 1 : 0;
            if (used + more > SW_WRITER_COLUMNS && l.to > l.from)
                break;
            used += more;
        }
        for (size_t i = 0; i <= n && used > 2 + l.width[0]; i++)
            print_row(&l, i);
        l.from = l.to;
    }
}

/* ---- CSV --------------------------------------------------------------------------------- */

static void print_quoted(const report_style *style, const char *text)
{
    if (text == NULL)
        return;
    if (strpbrk(text, ",\"\r\n") == NULL) {
        sw_writer_text(style->to, text);
        return;
    }
    sw_writer_text(style->to, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"')
            sw_writer_text(style->to, "\"");
        style->to->put(style->to->context, text, 1);
    }
    sw_writer_text(style->to, "\"");
}

static void print_csv_cell(const report_style *style, const table_column *c,
                           const table_cell *x)
{
    if (c->kind == TABLE_NAME || c->kind == TABLE_TEXT)
        print_quoted(style, x->text);
    else if (x->none)
        return;
    else if (c->kind == TABLE_SHARE)
        sw_writer_print(style->to, "%.6f", x->share);
    else if (c->kind == TABLE_REAL)
        sw_writer_print(style->to, "%.17g", x->share);
    else if (c->kind == TABLE_CHANGE)
        sw_writer_print(style->to, "%.0f", x->share);
    else
        sw_writer_print(style->to, "%" PRIu64, x->n);
}

void table_print_csv(const report_style *style, const table *t)
{
    for (size_t i = 0; i <= t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        if (i > 0)
            fill_row(t, i - 1, cells);
        bool first = true;
        for (int k = 0; k < t->n_columns; k++) {
            if (t->columns[k].kind == TABLE_BAR)
                continue;
            if (!first)
                sw_writer_text(style->to, ",");
            first = false;
            if (i == 0)
                sw_writer_text(style->to, t->columns[k].key);
            else
                print_csv_cell(style, &t->columns[k], &cells[k]);
        }
        sw_writer_text(style->to, "\n");
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_cell(sw_json *j, const table_column *c, const table_cell *x)
{
    if (c->kind == TABLE_BAR)
        return;
    sw_json_key(j, c->key);
    if (c->kind == TABLE_NAME || c->kind == TABLE_TEXT)
        sw_json_string(j, x->text);
    else if (x->none)
        sw_json_null(j);
    else if (c->kind == TABLE_SHARE || c->kind == TABLE_REAL)
        sw_json_f64(j, x->share);
    else if (c->kind == TABLE_CHANGE)
        sw_json_i64(j, (int64_t)x->share);
    else
        sw_json_u64(j, x->n);
}

void table_put(sw_json *j, const char *key, const table *t)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        fill_row(t, i, cells);
        sw_json_begin(j, '{');
        for (int k = 0; k < t->n_columns; k++)
            put_cell(j, &t->columns[k], &cells[k]);
        sw_json_end(j);
    }
    sw_json_end(j);
}
