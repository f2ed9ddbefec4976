/* Tables of parts: stepwell report FILE --by layer|role|type|op|phase, one program in a table;
 * and --diff OTHER and --steps A,B, two runs side by side, in lines that add up to their
 * difference. */
#include "alloc/base/order.h"
#include "profiler/inspect/report/parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_OPS 20 /* in text */

enum { BY_LAYER, BY_ROLE, BY_TYPE, BY_OP, BY_PHASE };
const char *const report_by_words[] = {"layer", "role", "type", "op", "phase", NULL};

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

#define PLAIN(word)                                                                            \
    G(word, word, TABLE_NAME, 18, path),                                                       \
        G("at_peak_bytes", "at the peak", TABLE_BYTES, 12, at_peak), SHARE(15),                \
        G("own_peak_bytes", "own peak", TABLE_BYTES, 12, own_peak),                            \
        G("tensors", "tensors", TABLE_COUNT, 8, n_values),                                     \
        FIELD(parts_group, "own_peak_op", own_op)
static const table_column role_columns[] = {PLAIN("role")}, type_columns[] = {PLAIN("type")};

/* In text a layer has its last name, below the scopes around it. */
static void indent_layer(const void *context, size_t i, table_cell *c)
{
    const parts_group *g = (const parts_group *)context + i;
    c->shown = g->name;
    c->indent = g->depth > 0 ? 2 * (int)(g->depth - 1) : 0;
}

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
SW_ORDER(by_live, op_line, SW_FALLS(live), SW_RISES(position))

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
    v->table = by == BY_ROLE   ? TABLE_OF(role_columns, rows, v->parts.n)
               : by == BY_TYPE ? TABLE_OF(type_columns, rows, v->parts.n)
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
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        phase_line *x = &phases[i];
        const report_seen *seen = report_best_seen(v->plan);
        const sw_prof_phase *of[2] = {v->plan->immediate ? NULL : &v->plan->phase[i],
                                      seen != NULL ? &seen->phase[i] : NULL},
                            *shown = of[1] != NULL ? of[1] : &v->plan->phase[i];
        *x = (phase_line){.name = sw_prof_phase_name(i), .position = -1};
        for (int k = 0; k < 2; k++) {
            x->peak[k] = of[k] != NULL ? (int64_t)of[k]->peak_bytes : -1;
            x->end[k] = of[k] != NULL ? (int64_t)of[k]->end_bytes : -1;
        }
        for (uint32_t op = 0; op < p->n_ops; op++)
            if (p->ops[op].phase == i && (x->position < 0 || curve[op] > curve[x->position]))
                x->position = op;
        x->peak_op = x->position >= 0 ? p->ops[x->position].name : NULL;
        x->share = all->at_peak > 0 ? (double)shown->peak_bytes / (double)all->at_peak : 0.0;
    }
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
    sw_status status = parts_make(&v.parts, r->timeline, v.p,
                                  by == BY_LAYER  ? PARTS_TREE
                                  : by == BY_TYPE ? PARTS_TYPE
                                                  : PARTS_ROLE);
    if (status == SW_OK)
        status = by < BY_OP ? make_groups(&v, by) : make_lines(&v, by);
    if (status == SW_OK && format == BY_JSON) {
        const report_seen *seen = report_best_seen(v.plan);
        sw_json j;
        report_begin_object(&j);
        sw_json_put_string(&j, "file", v.r->path);
        sw_json_put_string(&j, "tool", v.r->timeline->tool);
        sw_json_put_string(&j, "by", report_by_words[by]);
        sw_json_put_string(&j, "program", report_program_name(v.plan).text);
        sw_json_put_u64(&j, "at_peak_bytes", v.parts.at[0].at_peak);
        sw_json_put_known(&j, "measured_peak_bytes", seen != NULL,
                          seen != NULL ? profile_peak(seen->phase) : 0);
        sw_json_put_string(&j, "peak_op", v.p->n_ops > 0 ? v.p->ops[v.p->peak_op].name : NULL);
        sw_json_put_u64(&j, "peak_position", v.p->peak_op);
        table_put(&j, "rows", &v.table);
        report_put_damaged(&j, &v.r->file);
        status = report_end_object(&j, more, style);
    } else if (status == SW_OK && format == BY_CSV)
        table_print_csv(style, &v.table);
    else if (status == SW_OK)
        print_text(&v, by, style);
    return status;
}

/* ---- two runs ---------------------------------------------------------------------------- */

/* The groups of that name in two programs; NULL: it has none. */
typedef struct {
    const char *name;
    const parts_group *group[2];
    int64_t bytes[2]; /* at the peak */
} parts_match;

static uint64_t apart_by(const parts_match *p)
{
    const uint64_t a = (uint64_t)p->bytes[0], b = (uint64_t)p->bytes[1];
    return p->bytes[0] > p->bytes[1] ? a - b : b - a;
}

static int by_difference(const void *left, const void *right)
{
    const parts_match *a = left, *b = right;
    const uint64_t x = apart_by(a), y = apart_by(b);
    if (x != y)
        return x > y ? -1 : 1;
    if (a->bytes[1] != b->bytes[1]) /* equal ones: the largest first */
        return a->bytes[1] > b->bytes[1] ? -1 : 1;
    return strcmp(a->name, b->name);
}

static bool compare_is_sum(compare_group of)
{
    return of >= COMPARE_ROLES && of <= COMPARE_TENSORS;
}

static sw_status make_parts(compare_side *s)
{
    static const parts_by by[COMPARE_GROUPS] = {[COMPARE_ROLES] = PARTS_ROLE,
                                                [COMPARE_LAYERS] = PARTS_LAYER,
                                                [COMPARE_OPS] = PARTS_OP,
                                                [COMPARE_TENSORS] = PARTS_VALUE};
    for (int of = COMPARE_ROLES; of <= COMPARE_TENSORS; of++)
        SW_TRY(
            parts_make(&s->parts[of], s->r->timeline, report_program(s->r, s->plan), by[of]));
    return SW_OK;
}

/* A run that no one looked at has the figures of its plan. */
static const char *looked_by(const char *by)
{
    return strcmp(by, "plan") != 0 ? by : NULL;
}

/* "net.py:12 forward" without the line: an edit moves it. */
static sw_status drop_lines(sw_timeline *t, const char **text)
{
    char without[1200];
    size_t n = 0;
    for (const char *c = *text; *c != '\0' && n + 1 < sizeof without; c++) {
        const size_t digits = *c == ':' ? strspn(c + 1, "0123456789") : 0;
        if (digits > 0 && c[1 + digits] == ' ')
            c += digits;
        else
            without[n++] = *c;
    }
    without[n] = '\0';
    return strcmp(without, *text) == 0 ? SW_OK : sw_timeline_string(t, text, without);
}

sw_status compare_run(compare_side *s, report *r)
{
    s->r = r;
    s->plan = report_peak_plan(r);
    if (s->plan == NULL && r->file.damaged_line > 0)
        SW_FAIL(SW_FORMAT, "%s", r->file.damaged_why);
    if (s->plan == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan that could be compared", r->path);
    const report_seen *seen = report_best_seen(s->plan);
    memcpy(s->phase, seen != NULL ? seen->phase : s->plan->phase, sizeof s->phase);
    s->by = seen != NULL ? looked_by(seen->by) : NULL;
    s->peak = s->phase[report_peak_phase(s->phase)].peak_bytes;
    if (s->peak == 0) /* other tools have no phases */
        s->peak = s->plan->peak;
    s->timed = report_medians(r, s->ns);
    const sw_tl_program *p = report_program(r, s->plan);
    for (uint32_t i = 0; i < p->n_values && !sw_timeline_is_ours(r->timeline); i++) {
        SW_TRY(drop_lines(r->timeline, &p->values[i].name));
        SW_TRY(drop_lines(r->timeline, &p->values[i].layer));
        SW_TRY(drop_lines(r->timeline, &p->values[i].op));
    }

    return make_parts(s);
}

sw_status compare_step(compare_side *s, const report *r, const report_step *step)
{
    s->r = r;
    s->step = step;
    s->by = looked_by(step->by);
    if (step->plan == SW_TL_NONE)
        SW_FAIL(SW_FORMAT,
                "%s: step %llu has no plan or trace in the file: its tensors are not known",
                r->path, (unsigned long long)step->step);
    s->plan = &r->plans[step->plan];
    memcpy(s->phase, step->phase, sizeof s->phase);
    s->peak = s->phase[report_peak_phase(s->phase)].peak_bytes;
    s->timed = step->ns > 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        s->ns[i] = step->phase[i].ns;
    s->ns[SW_PROF_PHASES] = step->ns;
    return make_parts(s);
}

int64_t compare_difference(const comparison *c, const compare_line *l)
{
    return (int64_t)(l->x[c->newer] - l->x[1 - c->newer]);
}

static int64_t compare_peaks(const comparison *c)
{
    return (int64_t)(c->side[c->newer].peak - c->side[1 - c->newer].peak);
}

/* Of A or of B. */
static bool compare_is_unknown(const compare_line *l)
{
    return l->unknown[0] || l->unknown[1];
}

/* A line's share of all growth in its group, or of all that shrank, by its sign: never more
 * than 1, and the share of the whole difference where all lines go one way. Of a line of no
 * group of sums, or without a difference, false. */
static bool compare_share(const comparison *c, const compare_line *l, double *out)
{
    const int64_t own = compare_difference(c, l);
    if (!compare_is_sum(l->of) || own == 0)
        return false;
    const uint64_t of = own > 0 ? c->grown[l->of] : c->shrunk[l->of];
    *out = (double)own / (double)of;
    return of > 0;
}

/* ---- lines ------------------------------------------------------------------------------- */

static sw_status add_line(comparison *c, compare_line l)
{
    SW_TRY(sw_timeline_reserve(c->side[0].r->timeline, &c->lines, &c->cap, c->n + 1,
                               sizeof *c->lines));
    c->lines[c->n++] = l;
    return SW_OK;
}

static sw_status add(comparison *c, compare_group of, const char *name, uint64_t a, uint64_t b)
{
    return add_line(c, (compare_line){of, name, {true, true}, {a, b}, NULL, {false, false}});
}

/* Why a tensor has other bytes at the one peak than at the other. */
static const char *why(const parts_match *p)
{
    const parts_group *a = p->group[0], *b = p->group[1];
    if (p->bytes[0] == p->bytes[1] || (a == NULL && b == NULL))
        return NULL;
    if (a == NULL)
        return "only in B";
    if (b == NULL)
        return "only in A";
    if (a->in_place != b->in_place)
        return a->in_place ? "in place in A" : "in place in B";
    if (p->bytes[0] != 0 && p->bytes[1] != 0)
        return "other size";
    return p->bytes[0] != 0 ? "peak of A only" : "peak of B only";
}

/* Pairs of groups, the largest difference first, that live at one of the peaks; what the two
 * peaks have beyond their values has a line of its own where it is not zero. */
static sw_status add_pairs(comparison *c, compare_group of)
{
    const parts *of_side[2] = {&c->side[0].parts[of], &c->side[1].parts[of]};
    parts_match *pairs, beyond = {.name = "(not in the values)"};
    size_t used = 0;
    SW_TRY(sw_timeline_alloc(c->side[0].r->timeline, &pairs,
                             (size_t)of_side[0]->n + of_side[1]->n + 1, sizeof *pairs));
    for (int s = 0; s < 2; s++) {
        beyond.bytes[s] = (int64_t)(c->side[s].peak - of_side[s]->at[0].at_peak);
        for (uint32_t i = 1; i < of_side[s]->n; i++) {
            const parts_group *g = &of_side[s]->at[i],
                              *other = parts_find(of_side[1 - s], g->path);
            if (s == 1 && other != NULL)
                continue;
            parts_match *p = &pairs[used++];
            p->name = g->path;
            p->group[s] = g;
            p->group[1 - s] = other;
            p->bytes[s] = (int64_t)g->at_peak;
            p->bytes[1 - s] = other != NULL ? (int64_t)other->at_peak : 0;
        }
    }
    if (beyond.bytes[0] != 0 || beyond.bytes[1] != 0)
        pairs[used++] = beyond;
    qsort(pairs, used, sizeof *pairs, by_difference);
    for (size_t i = 0; i < used; i++) {
        const parts_match *p = &pairs[i];
        const bool in[2] = {p->bytes[0] != 0, p->bytes[1] != 0};
        if (in[0] || in[1])
            SW_TRY(add_line(c, (compare_line){of,
                                              p->name,
                                              {in[0], in[1]},
                                              {(uint64_t)p->bytes[0], (uint64_t)p->bytes[1]},
                                              of == COMPARE_TENSORS ? why(p) : NULL,
                                              {false, false}}));
    }
    return SW_OK;
}

/* A phase that another tool's frames do not tell is not one without bytes. */
static sw_status add_phase(comparison *c, compare_group of, int phase, uint64_t a, uint64_t b)
{
    compare_line l = {
        of, sw_prof_phase_name(phase), {true, true}, {a, b}, NULL, {false, false}};
    for (int s = 0; s < 2; s++)
        l.unknown[s] = !sw_timeline_is_ours(c->side[s].r->timeline) &&
                       c->side[s].phase[phase].peak_bytes == 0;
    return add_line(c, l);
}

sw_status compare(comparison *c)
{
    const compare_side *a = &c->side[0], *b = &c->side[1];
    const bool ours[2] = {sw_timeline_is_ours(a->r->timeline),
                          sw_timeline_is_ours(b->r->timeline)};
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add_phase(c, COMPARE_PEAKS, i, a->phase[i].peak_bytes, b->phase[i].peak_bytes));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add_phase(c, COMPARE_ENDS, i, a->phase[i].end_bytes, b->phase[i].end_bytes));
    SW_TRY(add(c, COMPARE_TOTALS, "peak", a->peak, b->peak));
    /* Bytes that another tool reserved stand for an arena; model and data are unknown then. */
    const bool both = ours[0] && ours[1];
    if (both)
        SW_TRY(add(c, COMPARE_TOTALS, "model", a->plan->model_bytes, b->plan->model_bytes));
    SW_TRY(add(c, COMPARE_TOTALS,
               both                 ? "arena"
               : ours[0] || ours[1] ? "arena, reserved"
                                    : "reserved",
               a->plan->arena_bytes, b->plan->arena_bytes));
    if (both) {
        SW_TRY(add(c, COMPARE_TOTALS, "data", a->plan->data_bytes, b->plan->data_bytes));
        SW_TRY(add(c, COMPARE_TOTALS, "total", a->plan->total_bytes, b->plan->total_bytes));
    }
    for (int of = COMPARE_ROLES; of <= COMPARE_TENSORS; of++)
        SW_TRY(add_pairs(c, (compare_group)of));
    const report_step *x = a->step, *y = b->step;
    if (x != NULL && y != NULL) {
        /* The process, as both steps report it. */
        SW_TRY(add(c, COMPARE_HOST, "host heap", x->host, y->host));
        for (int i = 0; i < SW_HEAP_KINDS && x->has_heap && y->has_heap; i++)
            SW_TRY(add(c, COMPARE_HOST, sw_heap_name((sw_heap)i), x->heap[i], y->heap[i]));
        if (x->process != UINT64_MAX && y->process != UINT64_MAX)
            SW_TRY(add(c, COMPARE_HOST, "process resident", x->process, y->process));
        SW_TRY(add(c, COMPARE_HOST, "allocations", x->calls, y->calls));
    }
    for (int i = 0; i <= SW_PROF_PHASES && a->timed && b->timed; i++)
        SW_TRY(add(c, COMPARE_TIMES, i < SW_PROF_PHASES ? sw_prof_phase_name(i) : "step in all",
                   a->ns[i], b->ns[i]));
    for (uint32_t j = 0; j < c->n; j++) {
        const int64_t change = compare_difference(c, &c->lines[j]);
        uint64_t *sums = change > 0 ? c->grown : c->shrunk;
        sums[c->lines[j].of] += (uint64_t)(change > 0 ? change : -change);
    }
    return SW_OK;
}

/* ---- text -------------------------------------------------------------------------------- */

#define SHOWN 12 /* lines of a group in text: those that differ most, the rest in one */

/* The lines of a group that are shown, one of those that are not, and their sum. */
typedef struct {
    const comparison *c;
    const compare_line *lines;
    size_t n;
    compare_line rest, sum;
    sw_text text[4];
} group_view;

/* Numbers may be below zero: what is not in the values. */
static sw_text figure(const compare_line *l, uint64_t x, const char *plus)
{
    const uint64_t size = (int64_t)x < 0 ? 0 - x : x;
    sw_text text;
    snprintf(text.text, sizeof text.text, "%s%.30s",
             (int64_t)x < 0 ? "-"
             : x > 0        ? plus
                            : "",
             l->of == COMPARE_TIMES ? sw_text_ns(size).text : sw_text_digits(size).text);
    return text;
}

static void group_row(const void *context, size_t i, table_cell *c)
{
    group_view *v = (group_view *)(uintptr_t)context; /* has the room for the row's text */
    const bool rest = i == v->n && v->rest.name != NULL,
               all = i >= v->n && !rest; /* which has no share */
    const compare_line *l = rest ? &v->rest : all ? &v->sum : &v->lines[i];
    const int64_t change = compare_difference(v->c, l);
    for (int s = 0; s < 2; s++)
        v->text[s] = l->unknown[s] ? (sw_text){"unknown"}
                     : l->in[s]    ? figure(l, l->x[s], "")
                                   : (sw_text){"-"};
    v->text[2] = compare_is_unknown(l) ? (sw_text){"unknown"}
                 : change == 0         ? (sw_text){"equal"}
                                       : figure(l, (uint64_t)change, "+");
    /* Of all that grew in its group, or of all that shrank; else the newer by the other. */
    double of;
    const uint64_t newer = l->x[v->c->newer], older = l->x[1 - v->c->newer];
    v->text[3] = (sw_text){""};
    if (!all && compare_share(v->c, l, &of))
        snprintf(v->text[3].text, sizeof v->text[3].text, "%6.1f%%", 100.0 * of);
    else if (!compare_is_sum(l->of) && older > 0 && l->in[0] && l->in[1] &&
             !compare_is_unknown(l))
        snprintf(v->text[3].text, sizeof v->text[3].text, "%7.3f",
                 (double)newer / (double)older);
    c[0].text = *l->name != '\0' ? l->name : "(no name)";
    for (int k = 0; k < 3; k++)
        c[k + 1].shown = v->text[k].text;
    c[4].text = l->of != COMPARE_TENSORS ? v->text[3].text : l->why != NULL ? l->why : "";
}

/* The widths of a group's columns: name, A, B, their difference, and what stands after. */
static void set_columns(table_column *columns, const comparison *c, compare_group of)
{
    static const int usual[] = {20, 15, 15, 17, 7}, exact[] = {20, 13, 13, 14, 14},
                     wide[] = {14, 15, 15, 16, 14};
    static const char *const heads[COMPARE_GROUPS] = {
        "peak in each phase", "live at its end", "in all",
        "peak by role",       "peak by layer",   "peak by maker",
        "peak by tensor",     "of the process",  "time (medians)"};
    const uint64_t a = c->side[0].peak, b = c->side[1].peak;
    const bool long_numbers = (a > b ? a : b) >= 10000000000u; /* 9,999,999,999 */
    const int *w = of != COMPARE_TENSORS ? usual : long_numbers ? wide : exact;
    const char *const head[] = {of == COMPARE_TIMES && c->side[0].step != NULL ? "time"
                                                                               : heads[of],
                                "A", "B", c->newer == 0 ? "A - B" : "B - A",
                                of == COMPARE_TENSORS ? "why"
                                : compare_is_sum(of)  ? " of +/-"
                                : c->newer == 0       ? "  A / B"
                                                      : "  B / A"};
    for (int k = 0; k < 5; k++)
        columns[k] = (table_column){.head = head[k],
                                    .kind = k == 0   ? TABLE_SCOPES
                                            : k == 4 ? TABLE_TEXT
                                                     : TABLE_COUNT,
                                    .width = w[k]};
}

static void print_group(const comparison *c, const compare_line *lines, size_t n,
                        const report_style *style)
{
    const compare_group of = lines[0].of;
    const bool some = of == COMPARE_LAYERS || of == COMPARE_OPS || of == COMPARE_TENSORS,
               sums = compare_is_sum(of);
    group_view v = {.c = c, .lines = lines, .n = n};
    table_column columns[5];
    char name[64];
    v.rest = v.sum = (compare_line){.of = of, .name = "total", .in = {true, true}};
    v.rest.name = NULL;
    /* Those that differ most come first, equal ones last. */
    for (size_t i = some && n > SHOWN ? SHOWN : n; some && i <= n; i--) {
        v.n = i;
        if (i == 0 || lines[i - 1].x[0] != lines[i - 1].x[1])
            break;
    }
    for (size_t i = 0; i < n; i++)
        for (int s = 0; s < 2; s++) {
            v.sum.x[s] += lines[i].x[s];
            v.rest.x[s] += i >= v.n ? lines[i].x[s] : 0;
        }
    if (v.n < n) {
        const size_t left = n - v.n;
        const bool equal = lines[v.n].x[0] == lines[v.n].x[1];
        const char *what = of == COMPARE_TENSORS  ? ""
                           : of == COMPARE_LAYERS ? " layer"
                                                  : " op",
                   *s = left == 1 || *what == '\0' ? "" : "s",
                   *is = *what == '\0' ? ""
                         : left == 1   ? " is"
                                       : " are";
        v.rest.name = name; /* the column of tensors is narrow with exact bytes */
        if (equal)
            snprintf(name, sizeof name, "%zu%s%s%s equal", left, what, s, is);
        else
            snprintf(name, sizeof name, "%zu more%s%s", left, what, s);
    }
    set_columns(columns, c, of);
    const table t = TABLE_MADE(columns, v.n + (v.rest.name != NULL) + sums, group_row, &v);
    sw_writer_text(style->to, "\n");
    table_print(&t, t.n, style);
    if (c->grown[of] > 0 && c->shrunk[of] > 0 && of == COMPARE_ROLES)
        sw_writer_say(style->to, 2, 2,
                      "of +/-: the share of all that grew, %s bytes, or of all that shrank, %s",
                      sw_text_digits(c->grown[of]).text, sw_text_digits(c->shrunk[of]).text);
}

static void print_side(const report_style *style, const char *letter, const compare_side *s)
{
    char text[4096 + 256];
    const bool ours = sw_timeline_is_ours(s->r->timeline);
    const char *model = s->r->model[0] != '\0' ? s->r->model : "model";
    if (s->step != NULL)
        snprintf(text, sizeof text, "step %" PRIu64 ", %s, %s%s: %s", s->step->step,
                 report_program_name(s->plan).text,
                 s->by != NULL ? "measured by " : "as planned", s->by != NULL ? s->by : "",
                 s->r->shown);
    else
        snprintf(text, sizeof text, "%s%s%s, %s: %s", model, ours ? ", " : "",
                 ours ? report_program_name(s->plan).text : "",
                 s->by != NULL ? "measured" : "planned", s->r->shown);
    sw_writer_print(style->to, "%s  ", letter);
    sw_writer_wrap(style->to, 3, 3, text);
    /* The prediction against what was measured, phase by phase. */
    char apart[1024] = "predicted and measured are equal in every phase";
    size_t used = 0;
    if (s->by == NULL || s->plan->immediate)
        return;
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const sw_prof_phase *said = &s->plan->phase[i], *seen = &s->phase[i];
        const bool peak = said->peak_bytes != seen->peak_bytes;
        if (!peak && said->end_bytes == seen->end_bytes)
            continue;
        used += (size_t)snprintf(
            apart + used, sizeof apart - used, "%s%s: %s of %s bytes predicted, %s measured",
            used > 0 ? "; " : "", sw_prof_phase_name(i), peak ? "peak" : "end",
            sw_text_digits(peak ? said->peak_bytes : said->end_bytes).text,
            sw_text_digits(peak ? seen->peak_bytes : seen->end_bytes).text);
    }
    sw_writer_print(style->to, "   ");
    sw_writer_wrap(style->to, 3, 3, apart);
}

void report_print_difference(const comparison *c, const report_style *style)
{
    print_side(style, "A", &c->side[0]);
    print_side(style, "B", &c->side[1]);
    const compare_side *a = &c->side[0], *b = &c->side[1];
    /* Runs of one program that peak alike. */
    const bool same =
        a->step != NULL && a->r == b->r && a->plan == b->plan && a->peak == b->peak;
    if (same)
        sw_writer_print(
            style->to,
            "\nequal, the same program: both have the same tensors at the same peak\n");
    for (size_t i = 0, n; i < c->n; i += n) {
        for (n = 1; i + n < c->n && c->lines[i + n].of == c->lines[i].of;)
            n++;
        if (!same || !compare_is_sum(c->lines[i].of))
            print_group(c, &c->lines[i], n, style);
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_side(sw_json *j, const char *key, const compare_side *s)
{
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "file", s->r->path);
    sw_json_put_string(j, "tool", s->r->timeline->tool);
    sw_json_put_string(j, "model", s->r->model);
    report_put_batch(j, s->plan->batch);
    sw_json_put_string(j, "command", s->r->command);
    sw_json_put_string(j, "program", report_program_name(s->plan).text);
    if (s->step != NULL)
        sw_json_put_u64(j, "step", s->step->step);
    sw_json_put_bool(j, "measured", s->by != NULL);
    report_put_phases(j, "predicted", s->plan->immediate ? NULL : s->plan->phase);
    const bool judged = s->by != NULL && !s->plan->immediate;
    sw_json_put_known_bool(j, "equal", judged,
                           judged && report_equal_phases(s->phase, s->plan->phase));
    report_put_damaged(j, &s->r->file);
    sw_json_end(j);
}

static void put_known(sw_json *j, const char *key, bool unknown, int64_t x)
{
    if (unknown)
        sw_json_put_null(j, key);
    else
        sw_json_put_i64(j, key, x);
}

sw_status report_difference_json(const comparison *c, const report_tail *more,
                                 const report_style *style)
{
    static const char *const keys[COMPARE_GROUPS] = {"peak_bytes", "end_bytes", "totals",
                                                     "roles",      "layers",    "ops",
                                                     "tensors",    "process",   NULL};
    const bool steps = c->side[0].step != NULL;
    sw_json j;
    report_begin_object(&j);
    put_side(&j, "a", &c->side[0]);
    put_side(&j, "b", &c->side[1]);
    sw_json_put_string(&j, "newer", c->newer == 0 ? "a" : "b");
    sw_json_put_i64(&j, "peak_difference_bytes", compare_peaks(c));
    if (steps)
        sw_json_put_bool(&j, "same_program", c->side[0].plan == c->side[1].plan);
    for (int g = 0; g < COMPARE_GROUPS; g++) {
        if (g == COMPARE_HOST && !steps)
            continue;
        sw_json_open(&j, keys[g] != NULL ? keys[g] : steps ? "ns" : "median_ns", '{');
        for (size_t i = 0; i < c->n; i++)
            if ((int)c->lines[i].of == g) {
                /* There are shares where there is a whole. */
                double of = 0.0;
                sw_json_open(&j, c->lines[i].name, '{');
                put_known(&j, "a", c->lines[i].unknown[0], (int64_t)c->lines[i].x[0]);
                put_known(&j, "b", c->lines[i].unknown[1], (int64_t)c->lines[i].x[1]);
                put_known(&j, "difference", compare_is_unknown(&c->lines[i]),
                          compare_difference(c, &c->lines[i]));
                if (compare_is_sum(c->lines[i].of) &&
                    (compare_share(c, &c->lines[i], &of) || compare_peaks(c) != 0))
                    sw_json_put_f64(&j, "share", of);
                if (c->lines[i].of == COMPARE_TENSORS)
                    sw_json_put_string(&j, "why", c->lines[i].why);
                sw_json_end(&j);
            }
        sw_json_end(&j);
    }
    return report_end_object(&j, more, style);
}
