/* Tables from one description, as text, CSV and JSON; bars; the tables of --by. */
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- bars and sparklines ----------------------------------------------------------------- */

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

/* ---- tables ------------------------------------------------------------------------------ */

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
        for (size_t i = 0; i <= n && used > 2 + l.width[0]; i++) {
            /* Row 0 is that of the heads. */
            table_cell cells[TABLE_COLUMNS];
            int owed = 1;
            if (i > 0)
                fill_row(l.t, i - 1, cells);
            for (int k = 0; k < l.to; k++) {
                if (l.width[k] == 0 || (k > 0 && k < l.from))
                    continue;
                owed++;
                if (i == 0) {
                    const table_column *c = &l.t->columns[k];
                    char text[64];
                    bool scaled = false;
                    for (int j = 0; j < l.t->n_columns; j++)
                        scaled |= l.t->columns[j].kind == TABLE_SCALED;
                    snprintf(text, sizeof text, k == 0 && scaled ? "%s, %s" : "%s", c->head,
                             l.unit.name);
                    if (is_left(c->kind))
                        print_left(l.style, text, 0, l.width[k], &owed);
                    else
                        print_right(l.style, text, l.width[k], &owed);
                } else
                    print_cell(&l, k, &cells[k], &owed);
            }
            sw_writer_text(l.style->to, "\n");
        }
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

void table_put(sw_json *j, const char *key, const table *t)
{
    sw_json_open(j, key, '[');
    for (size_t i = 0; i < t->n; i++) {
        table_cell cells[TABLE_COLUMNS];
        fill_row(t, i, cells);
        sw_json_begin(j, '{');
        for (int k = 0; k < t->n_columns; k++) {
            if (t->columns[k].kind != TABLE_BAR) {
                sw_json_key(j, t->columns[k].key);
                if (t->columns[k].kind == TABLE_NAME || t->columns[k].kind == TABLE_TEXT)
                    sw_json_string(j, cells[k].text);
                else if (cells[k].none)
                    sw_json_null(j);
                else if (t->columns[k].kind == TABLE_SHARE || t->columns[k].kind == TABLE_REAL)
                    sw_json_f64(j, cells[k].share);
                else if (t->columns[k].kind == TABLE_CHANGE)
                    sw_json_i64(j, (int64_t)cells[k].share);
                else
                    sw_json_u64(j, cells[k].n);
            }
        }
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* ---- one program by layer, role, op or phase --------------------------------------------- */

#define SHOWN_OPS 20 /* in text */

const char *const report_by_words[] = {"layer", "role", "op", "phase", NULL};

/* The source of the rows. */
typedef struct {
    const report *r;
    const report_plan *plan;
    const sw_tl_program *p;
    parts parts;
    uint32_t *order, n_groups;
    uint64_t *curve, *born;            /* by op */
    uint32_t phase_op[SW_PROF_PHASES]; /* that peaks in it; SW_TL_NONE: it has none */
} view;

static double share_of(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0.0;
}

static table_cell name_cell(const char *whole, const char *shown, uint32_t depth)
{
    return (table_cell){.text = whole, .shown = shown, .indent = 2 * (int)depth};
}

static table_cell number_cell(uint64_t n)
{
    return (table_cell){.n = n};
}

static table_cell share_cell(double share)
{
    return (table_cell){.share = share};
}

static const char *op_name(const view *v, uint32_t op)
{
    return op < v->p->n_ops ? v->p->ops[op].name : NULL;
}

/* ---- layers ------------------------------------------------------------------------------ */

static const table_column layer_columns[] = {
    {"layer", "layer", TABLE_NAME, 22},
    {"at_peak_bytes", "at the peak", TABLE_BYTES, 11},
    {"share", "share", TABLE_SHARE, 6},
    {NULL, "", TABLE_BAR, 11},
    {"own_peak_bytes", "own peak", TABLE_BYTES, 11},
    {"peak_while_running_bytes", "as it runs", TABLE_BYTES, 11},
    {"own_peak_op", NULL, TABLE_TEXT, 0},
    {"parameters_bytes", NULL, TABLE_BYTES, 0},
    {"optimizer_bytes", NULL, TABLE_BYTES, 0},
    {"gradients_bytes", NULL, TABLE_BYTES, 0},
    {"activations_bytes", NULL, TABLE_BYTES, 0},
    {"workspace_bytes", NULL, TABLE_BYTES, 0},
    {"data_bytes", NULL, TABLE_BYTES, 0},
    {"other_bytes", NULL, TABLE_BYTES, 0},
    {"tensors", NULL, TABLE_COUNT, 0},
    {"ops", NULL, TABLE_COUNT, 0}};

/* The first row is all of it. */
static const parts_group *group_at(const view *v, size_t i)
{
    return &v->parts.at[i == 0 ? 0 : v->order[i - 1]];
}

static void layer_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const parts_group *g = group_at(v, i);
    const double share = share_of(g->at_peak, v->parts.at[0].at_peak);
    *c++ = name_cell(g->path, g->name, g->depth > 0 ? g->depth - 1 : 0);
    *c++ = number_cell(g->at_peak);
    *c++ = share_cell(share);
    *c++ = share_cell(share);
    *c++ = number_cell(g->own_peak);
    *c++ = (table_cell){.n = g->run_peak, .none = g->n_ops == 0};
    *c++ = (table_cell){.text = op_name(v, g->own_op)};
    for (int k = 0; k < PARTS_KINDS; k++)
        *c++ = number_cell(g->kind[k]);
    *c++ = number_cell(g->n_values);
    *c = number_cell(g->n_ops);
}

/* Live bytes at the peak, by their use: columns of the same rows that text has no room for. */
static const table_column kind_columns[] = {{"layer", "at peak", TABLE_NAME, 14},
                                            {"parameters", "parameters", TABLE_SCALED, 10},
                                            {"optimizer", "optimizer", TABLE_SCALED, 9},
                                            {"gradients", "gradients", TABLE_SCALED, 9},
                                            {"activations", "activations", TABLE_SCALED, 11},
                                            {"workspace", "workspace", TABLE_SCALED, 9},
                                            {"data", "data", TABLE_SCALED, 9}};

static void kind_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const parts_group *g = group_at(v, i);
    *c++ = name_cell(g->path, g->name, g->depth > 0 ? g->depth - 1 : 0);
    for (int k = 0; k < PARTS_OTHER; k++)
        *c++ = number_cell(g->kind[k]);
}

/* ---- roles ------------------------------------------------------------------------------- */

static const table_column role_columns[] = {{"role", "role", TABLE_NAME, 18},
                                            {"at_peak_bytes", "at the peak", TABLE_BYTES, 12},
                                            {"share", "share", TABLE_SHARE, 6},
                                            {NULL, "", TABLE_BAR, 15},
                                            {"own_peak_bytes", "own peak", TABLE_BYTES, 12},
                                            {"tensors", "tensors", TABLE_COUNT, 8},
                                            {"own_peak_op", NULL, TABLE_TEXT, 0}};

static void role_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const parts_group *g = group_at(v, i);
    const double share = share_of(g->at_peak, v->parts.at[0].at_peak);
    *c++ = name_cell(g->path, NULL, 0);
    *c++ = number_cell(g->at_peak);
    *c++ = share_cell(share);
    *c++ = share_cell(share);
    *c++ = number_cell(g->own_peak);
    *c++ = number_cell(g->n_values);
    *c = (table_cell){.text = op_name(v, g->own_op)};
}

/* ---- ops --------------------------------------------------------------------------------- */

static const table_column op_columns[] = {{"op", "op", TABLE_NAME, 28},
                                          {"phase", "phase", TABLE_TEXT, 8},
                                          {"live_bytes", "live", TABLE_BYTES, 11},
                                          {"share", "share", TABLE_SHARE, 6},
                                          {NULL, "", TABLE_BAR, 8},
                                          {"born_bytes", "it makes", TABLE_BYTES, 11},
                                          {"position", NULL, TABLE_COUNT, 0},
                                          {"layer", NULL, TABLE_TEXT, 0}};

static void op_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const uint32_t at = v->order[i];
    const sw_tl_op *op = &v->p->ops[at];
    const double share = share_of(v->curve[at], v->parts.at[0].own_peak);
    *c++ = name_cell(op->name, NULL, 0);
    *c++ = (table_cell){.text = sw_prof_phase_name(op->phase)};
    *c++ = number_cell(v->curve[at]);
    *c++ = share_cell(share);
    *c++ = share_cell(share);
    *c++ = number_cell(v->born[at]);
    *c++ = number_cell(at);
    *c = (table_cell){.text = op->layer};
}

/* ---- phases ------------------------------------------------------------------------------ */

static const table_column phase_columns[] = {
    {"phase", "phase", TABLE_NAME, 9},
    {"predicted_peak_bytes", "predicted", TABLE_BYTES, 11},
    {"measured_peak_bytes", "measured", TABLE_BYTES, 11},
    {"share", "share", TABLE_SHARE, 6},
    {NULL, "", TABLE_BAR, 12},
    {"peak_op", "its peak is in", TABLE_TEXT, 23},
    {"predicted_end_bytes", NULL, TABLE_BYTES, 0},
    {"measured_end_bytes", NULL, TABLE_BYTES, 0},
    {"peak_position", NULL, TABLE_COUNT, 0}};

static void phase_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const report_seen *seen = report_best_seen(v->plan);
    const sw_prof_phase zero = {0}, *plan = &v->plan->phase[i],
                        *said = seen != NULL ? &seen->phase[i] : &zero;
    const bool planned = !v->plan->immediate, there = v->phase_op[i] != SW_TL_NONE;
    const double share =
        share_of(seen != NULL ? said->peak_bytes : plan->peak_bytes, v->parts.at[0].at_peak);
    *c++ = name_cell(sw_prof_phase_name((int)i), NULL, 0);
    *c++ = (table_cell){.n = plan->peak_bytes, .none = !planned};
    *c++ = (table_cell){.n = said->peak_bytes, .none = seen == NULL};
    *c++ = share_cell(share);
    *c++ = share_cell(share);
    *c++ = (table_cell){.text = op_name(v, v->phase_op[i])};
    *c++ = (table_cell){.n = plan->end_bytes, .none = !planned};
    *c++ = (table_cell){.n = said->end_bytes, .none = seen == NULL};
    *c = (table_cell){.n = v->phase_op[i], .none = !there};
}

/* ---- all four ---------------------------------------------------------------------------- */

#define TABLE(columns, n, row)                                                                 \
    {                                                                                          \
        columns, (int)(sizeof columns / sizeof *columns), n, row, NULL                         \
    }

static sw_status make_view(view *v, int by, table *out)
{
    sw_timeline *t = v->r->timeline;
    SW_TRY(parts_make(&v->parts, t, v->p, by == 0 ? PARTS_TREE : PARTS_ROLE));
    SW_TRY(sw_timeline_alloc(t, &v->order, v->parts.n, sizeof(uint32_t)));
    SW_TRY(parts_order(&v->parts, t, v->order, &v->n_groups));
    SW_TRY(sw_timeline_alloc(t, &v->curve, (size_t)v->p->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(v->p, NULL, NULL, v->curve);
    if (by == 2) {
        uint32_t *scratch;
        const size_t n = v->p->n_ops;
        SW_TRY(sw_timeline_alloc(t, &v->order, n + 1, sizeof(uint32_t)));
        SW_TRY(sw_timeline_alloc(t, &scratch, n + 1, sizeof(uint32_t)));
        SW_TRY(sw_timeline_alloc(t, &v->born, n + 1, sizeof(uint64_t)));
        for (uint32_t i = 0; i < n; i++)
            v->order[i] = i;
        /* Most live bytes first, then as they run: a merge sort of positions. */
        for (size_t width = 1; width < n; width *= 2) {
            for (size_t from = 0; from < n; from += 2 * width) {
                size_t l = from, r = from + width < n ? from + width : n;
                const size_t middle = r, end = from + 2 * width < n ? from + 2 * width : n;
                for (size_t k = from; k < end; k++) {
                    const bool left = l < middle && (r == end || v->curve[v->order[l]] >=
                                                                     v->curve[v->order[r]]);
                    scratch[k] = v->order[left ? l++ : r++];
                }
            }
            memcpy(v->order, scratch, n * sizeof *v->order);
        }
        for (uint32_t i = 0; i < v->p->n_values; i++) {
            const sw_tensor *x = &v->p->values[i];
            if (x->alias == SW_TL_NONE && x->segment == SW_SEGMENT_STEP && x->birth < n)
                v->born[x->birth] += x->bytes + x->padding;
        }
    }
    for (int i = 0; i < SW_PROF_PHASES; i++)
        v->phase_op[i] = SW_TL_NONE;
    for (uint32_t i = 0; i < v->p->n_ops; i++) {
        uint32_t *best = &v->phase_op[v->p->ops[i].phase];
        if (*best == SW_TL_NONE || v->curve[i] > v->curve[*best])
            *best = i;
    }
    const table tables[] = {TABLE(layer_columns, v->n_groups + 1, layer_row),
                            TABLE(role_columns, v->n_groups + 1, role_row),
                            TABLE(op_columns, v->p->n_ops, op_row),
                            TABLE(phase_columns, SW_PROF_PHASES, phase_row)};
    *out = tables[by];
    out->context = v;
    return SW_OK;
}

static void print_text(const view *v, const char *word, const table *t,
                       const report_style *style)
{
    static const char *const about[] = {"own peak: the most that lives of it at one time; as "
                                        "it runs: the most that lives in all "
                                        "while one of its ops runs",
                                        "own peak: the most that lives of it at one time",
                                        "live: all that lives while it runs", NULL};
    char text[512];
    const parts_group *all = &v->parts.at[0];
    const bool layers = t->row == layer_row, ops = t->row == op_row;
    snprintf(text, sizeof text,
             "By %s, %s: %s at the peak, while op %" PRIu32 " of %" PRIu32 " runs: %s", word,
             report_program_name(v->plan).text, table_bytes(all->at_peak, style).text,
             v->p->peak_op + 1, v->p->n_ops,
             op_name(v, v->p->peak_op) != NULL ? op_name(v, v->p->peak_op) : "-");
    sw_writer_wrap(style->to, 0, 2, text);
    const size_t shown = ops && t->n > SHOWN_OPS ? SHOWN_OPS : t->n;
    table_print(t, shown, style);
    if (shown < t->n)
        sw_writer_print(style->to, "  %s more ops, with at most %s\n",
                        sw_text_digits(t->n - shown).text,
                        table_bytes(v->curve[v->order[shown]], style).text);
    if (layers) {
        const table kinds = {kind_columns, (int)(sizeof kind_columns / sizeof *kind_columns),
                             t->n, kind_row, v};
        sw_writer_text(style->to, "\n");
        table_print(&kinds, kinds.n, style);
    }
    const char *note = about[layers ? 0 : ops ? 2 : t->row == role_row ? 1 : 3];
    if (note != NULL && !style->quiet)
        sw_writer_wrap(style->to, 0, 2, note);
}

sw_status report_print_by(const report *r, const char *word, by_format format,
                          const report_style *style, const report_tail *more)
{
    view v = {.r = r, .plan = report_peak_plan(r)};
    table t;
    int by = 0;
    while (strcmp(report_by_words[by], word) != 0)
        by++;
    if (v.plan == NULL)
        SW_FAIL(SW_FORMAT, "%s",
                r->damaged_line > 0 ? r->damaged_why : "the file has no program");
    v.p = report_program(r, v.plan);
    sw_status status = make_view(&v, by, &t);
    if (status == SW_OK && format == BY_JSON) {
        const report_seen *seen = report_best_seen(v.plan);
        sw_json j;
        sw_json_growing(&j, SW_HEAP_PROFILE);
        sw_json_begin(&j, '{');
        sw_json_put_string(&j, "file", v.r->path);
        sw_json_put_string(&j, "tool", v.r->timeline->tool);
        sw_json_put_string(&j, "by", word);
        sw_json_put_string(&j, "program", report_program_name(v.plan).text);
        sw_json_put_u64(&j, "at_peak_bytes", v.parts.at[0].at_peak);
        sw_json_put_known(&j, "measured_peak_bytes", seen != NULL,
                          seen != NULL ? seen->phase[report_peak_phase(seen->phase)].peak_bytes
                                       : 0);
        sw_json_put_string(&j, "peak_op", op_name(&v, v.p->peak_op));
        sw_json_put_u64(&j, "peak_position", v.p->peak_op);
        table_put(&j, "rows", &t);
        report_put_damaged(&j, v.r);
        if (more != NULL)
            more->put(&j, more->context);
        sw_json_end(&j);
        status = report_print_object(&j, style);
    } else if (status == SW_OK && format == BY_CSV)
        table_print_csv(style, &t);
    else if (status == SW_OK)
        print_text(&v, word, &t, style);
    parts_free(&v.parts);
    return status;
}
