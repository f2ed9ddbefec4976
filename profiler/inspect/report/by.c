/* stepwell report FILE --by layer|role|op|phase: one program in a table. */
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/report.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_OPS 20 /* in text */

enum { BY_LAYER, BY_ROLE, BY_OP, BY_PHASE };
const char *const report_by_words[] = {"layer", "role", "op", "phase", NULL};

/* ---- layers and roles -------------------------------------------------------------------- */

#define G(key, head, kind, width, member) COLUMN(parts_group, key, head, kind, width, member)
#define SHARE(width)                                                                           \
    G("share", "share", TABLE_SHARE, 6, share), G(NULL, "", TABLE_BAR, width, share)

static const table_column layer_columns[] = {
    G("layer", "layer", TABLE_NAME, 22, path),
    G("at_peak_bytes", "at the peak", TABLE_BYTES, 11, at_peak),
    SHARE(11),
    G("own_peak_bytes", "own peak", TABLE_BYTES, 11, own_peak),
    COLUMN_KNOWN(parts_group, "peak_while_running_bytes", "as it runs", TABLE_BYTES, 11,
                 run_peak),
    FIELD(parts_group, "own_peak_op", own_op),
    FIELD(parts_group, "parameters_bytes", kind[PARTS_PARAMETERS]),
    FIELD(parts_group, "optimizer_bytes", kind[PARTS_OPTIMIZER]),
    FIELD(parts_group, "gradients_bytes", kind[PARTS_GRADIENTS]),
    FIELD(parts_group, "activations_bytes", kind[PARTS_ACTIVATIONS]),
    FIELD(parts_group, "workspace_bytes", kind[PARTS_WORKSPACE]),
    FIELD(parts_group, "data_bytes", kind[PARTS_DATA]),
    FIELD(parts_group, "other_bytes", kind[PARTS_OTHER]),
    FIELD(parts_group, "tensors", n_values),
    FIELD(parts_group, "ops", n_ops)};

/* Live bytes at the peak, by their use: columns of the same rows that text has no room for. */
static const table_column kind_columns[] = {
    G("layer", "at peak", TABLE_NAME, 14, path),
    G(NULL, "parameters", TABLE_SCALED, 10, kind[PARTS_PARAMETERS]),
    G(NULL, "optimizer", TABLE_SCALED, 9, kind[PARTS_OPTIMIZER]),
    G(NULL, "gradients", TABLE_SCALED, 9, kind[PARTS_GRADIENTS]),
    G(NULL, "activations", TABLE_SCALED, 11, kind[PARTS_ACTIVATIONS]),
    G(NULL, "workspace", TABLE_SCALED, 9, kind[PARTS_WORKSPACE]),
    G(NULL, "data", TABLE_SCALED, 9, kind[PARTS_DATA])};

static const table_column role_columns[] = {
    G("role", "role", TABLE_NAME, 18, path),
    G("at_peak_bytes", "at the peak", TABLE_BYTES, 12, at_peak),
    SHARE(15),
    G("own_peak_bytes", "own peak", TABLE_BYTES, 12, own_peak),
    G("tensors", "tensors", TABLE_COUNT, 8, n_values),
    FIELD(parts_group, "own_peak_op", own_op)};

/* In text a layer has its last name, below the scopes around it. */
static void indent_layer(const void *context, size_t i, table_cell *c)
{
    const parts_group *g = (const parts_group *)context + i;
    c->shown = g->name;
    c->indent = g->depth > 0 ? 2 * (int)(g->depth - 1) : 0;
}

/* ---- ops --------------------------------------------------------------------------------- */

typedef struct {
    const char *name, *phase, *layer;
    uint64_t live, born;
    uint32_t position;
    double share;
} op_line;

static const table_column op_columns[] = {
    COLUMN(op_line, "op", "op", TABLE_NAME, 28, name),
    COLUMN(op_line, "phase", "phase", TABLE_TEXT, 8, phase),
    COLUMN(op_line, "live_bytes", "live", TABLE_BYTES, 11, live),
    COLUMN(op_line, "share", "share", TABLE_SHARE, 6, share),
    COLUMN(op_line, NULL, "", TABLE_BAR, 8, share),
    COLUMN(op_line, "born_bytes", "it makes", TABLE_BYTES, 11, born),
    FIELD(op_line, "position", position),
    FIELD(op_line, "layer", layer)};

/* Most live bytes first, then as they run. */
static int by_live(const void *left, const void *right)
{
    const op_line *a = left, *b = right;
    if (a->live != b->live)
        return a->live > b->live ? -1 : 1;
    return a->position < b->position ? -1 : 1;
}

/* ---- phases ------------------------------------------------------------------------------ */

typedef struct {
    const char *name, *peak_op;
    int64_t peak[2], end[2], position; /* predicted and measured; -1: not known */
    double share;
} phase_line;

static const table_column phase_columns[] = {
    COLUMN(phase_line, "phase", "phase", TABLE_NAME, 9, name),
    COLUMN_KNOWN(phase_line, "predicted_peak_bytes", "predicted", TABLE_BYTES, 11, peak[0]),
    COLUMN_KNOWN(phase_line, "measured_peak_bytes", "measured", TABLE_BYTES, 11, peak[1]),
    COLUMN(phase_line, "share", "share", TABLE_SHARE, 6, share),
    COLUMN(phase_line, NULL, "", TABLE_BAR, 12, share),
    COLUMN(phase_line, "peak_op", "its peak is in", TABLE_TEXT, 23, peak_op),
    COLUMN_KNOWN(phase_line, "predicted_end_bytes", NULL, TABLE_BYTES, 0, end[0]),
    COLUMN_KNOWN(phase_line, "measured_end_bytes", NULL, TABLE_BYTES, 0, end[1]),
    COLUMN_KNOWN(phase_line, "peak_position", NULL, TABLE_COUNT, 0, position)};

static void fill_phase(phase_line *x, int i, const report_plan *plan, const sw_tl_program *p,
                       const uint64_t *curve, uint64_t at_peak)
{
    const report_seen *seen = report_best_seen(plan);
    const sw_prof_phase *of[2] = {plan->immediate ? NULL : &plan->phase[i],
                                  seen != NULL ? &seen->phase[i] : NULL},
                        *shown = of[1] != NULL ? of[1] : &plan->phase[i];
    *x = (phase_line){.name = sw_prof_phase_name(i), .position = -1};
    for (int k = 0; k < 2; k++) {
        x->peak[k] = of[k] != NULL ? (int64_t)of[k]->peak_bytes : -1;
        x->end[k] = of[k] != NULL ? (int64_t)of[k]->end_bytes : -1;
    }
    for (uint32_t op = 0; op < p->n_ops; op++)
        if (p->ops[op].phase == i && (x->position < 0 || curve[op] > curve[x->position]))
            x->position = op;
    x->peak_op = x->position >= 0 ? p->ops[x->position].name : NULL;
    x->share = at_peak > 0 ? (double)shown->peak_bytes / (double)at_peak : 0.0;
}

/* ---- all four ---------------------------------------------------------------------------- */

/* The program and its table. */
typedef struct {
    const report *r;
    const report_plan *plan;
    const sw_tl_program *p;
    parts parts;
    table table;
} view;

/* The root first, then groups as they are ordered. */
static sw_status make_groups(view *v, int by)
{
    parts_group *rows;
    SW_TRY(parts_order(&v->parts, v->r->timeline, &rows));
    v->table = by == BY_ROLE ? TABLE_OF(role_columns, rows, v->parts.n)
                             : TABLE_OF(layer_columns, rows, v->parts.n);
    v->table.row = by == BY_LAYER ? indent_layer : NULL;
    v->table.context = rows;
    return SW_OK;
}

static sw_status make_lines(view *v, int by)
{
    uint64_t *curve;
    op_line *ops;
    phase_line *phases;
    const sw_tl_program *p = v->p;
    const parts_group *all = &v->parts.at[0];
    SW_TRY(sw_timeline_alloc(v->r->timeline, &curve, (size_t)p->n_ops + 1, sizeof *curve));
    SW_TRY(sw_timeline_alloc(v->r->timeline, &ops, (size_t)p->n_ops + 1, sizeof *ops));
    SW_TRY(sw_timeline_alloc(v->r->timeline, &phases, SW_PROF_PHASES, sizeof *phases));
    sw_timeline_curve(p, NULL, NULL, curve);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        fill_phase(&phases[i], i, v->plan, p, curve, all->at_peak);
    for (uint32_t i = 0; i < p->n_ops; i++)
        ops[i] = (op_line){.name = p->ops[i].name,
                           .phase = sw_prof_phase_name(p->ops[i].phase),
                           .layer = p->ops[i].layer,
                           .live = curve[i],
                           .position = i,
                           .share = all->own_peak > 0 ? (double)curve[i] / (double)all->own_peak
                                                      : 0.0};
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *x = &p->values[i];
        if (x->alias == SW_TL_NONE && x->segment == SW_SEGMENT_STEP && x->birth < p->n_ops)
            ops[x->birth].born += x->bytes + x->padding;
    }
    qsort(ops, p->n_ops, sizeof *ops, by_live);
    v->table = by == BY_OP ? TABLE_OF(op_columns, ops, p->n_ops)
                           : TABLE_OF(phase_columns, phases, SW_PROF_PHASES);
    return SW_OK;
}

static void print_text(const view *v, int by, const report_style *style)
{
    static const char *const about[] = {"own peak: the most that lives of it at one time; as "
                                        "it runs: the most that lives in all "
                                        "while one of its ops runs",
                                        "own peak: the most that lives of it at one time",
                                        "live: all that lives while it runs", NULL};
    const table *t = &v->table;
    const size_t shown = by == BY_OP && t->n > SHOWN_OPS ? SHOWN_OPS : t->n;
    sw_writer_say(style->to, 0, 2,
                  "By %s, %s: %s at the peak, while op %" PRIu32 " of %" PRIu32 " runs: %s",
                  report_by_words[by], report_program_name(v->plan).text,
                  table_bytes(v->parts.at[0].at_peak, style).text, v->p->peak_op + 1,
                  v->p->n_ops, v->p->n_ops > 0 ? v->p->ops[v->p->peak_op].name : "-");
    table_print(t, shown, style);
    if (shown < t->n)
        sw_writer_print(style->to, "  %s more ops, with at most %s\n",
                        sw_text_digits(t->n - shown).text,
                        table_bytes(((const op_line *)t->rows)[shown].live, style).text);
    if (by == BY_LAYER) {
        table kinds = *t;
        kinds.columns = kind_columns;
        kinds.n_columns = TABLE_LENGTH(kind_columns);
        sw_writer_text(style->to, "\n");
        table_print(&kinds, kinds.n, style);
    }
    if (about[by] != NULL && !style->quiet)
        sw_writer_wrap(style->to, 0, 2, about[by]);
}

static sw_status print_json(const view *v, int by, const report_tail *more,
                            const report_style *style)
{
    const report_seen *seen = report_best_seen(v->plan);
    sw_json j;
    report_begin_object(&j);
    sw_json_put_string(&j, "file", v->r->path);
    sw_json_put_string(&j, "tool", v->r->timeline->tool);
    sw_json_put_string(&j, "by", report_by_words[by]);
    sw_json_put_string(&j, "program", report_program_name(v->plan).text);
    sw_json_put_u64(&j, "at_peak_bytes", v->parts.at[0].at_peak);
    sw_json_put_known(&j, "measured_peak_bytes", seen != NULL,
                      seen != NULL ? profile_peak(seen->phase) : 0);
    sw_json_put_string(&j, "peak_op", v->p->n_ops > 0 ? v->p->ops[v->p->peak_op].name : NULL);
    sw_json_put_u64(&j, "peak_position", v->p->peak_op);
    table_put(&j, "rows", &v->table);
    report_put_damaged(&j, &v->r->file);
    return report_end_object(&j, more, style);
}

sw_status report_print_by(const report *r, const char *word, by_format format,
                          const report_style *style, const report_tail *more)
{
    view v = {.r = r, .plan = report_peak_plan(r)};
    int by = 0;
    while (strcmp(report_by_words[by], word) != 0)
        by++;
    if (v.plan == NULL)
        SW_FAIL(SW_FORMAT, "%s",
                r->file.damaged_line > 0 ? r->file.damaged_why : "the file has no program");
    v.p = report_program(r, v.plan);
    sw_status status =
        parts_make(&v.parts, r->timeline, v.p, by == BY_LAYER ? PARTS_TREE : PARTS_ROLE);
    if (status == SW_OK)
        status = by < BY_OP ? make_groups(&v, by) : make_lines(&v, by);
    if (status == SW_OK && format == BY_JSON)
        status = print_json(&v, by, more, style);
    else if (status == SW_OK && format == BY_CSV)
        table_print_csv(style, &v.table);
    else if (status == SW_OK)
        print_text(&v, by, style);
    return status;
}
