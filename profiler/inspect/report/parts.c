/* Groups of the values of a program, with their peaks, and stepwell report FILE --by
 * layer|role|op|phase: one program in a table. */
#include "profiler/inspect/report/parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 12 /* scopes in one another; what is deeper counts as one name */

static parts_kind kind_of(const sw_tensor *v)
{
    static const struct {
        const char *role;
        parts_kind kind;
    } roles[] = {{"parameter", PARTS_PARAMETERS},
                 {"buffer", PARTS_PARAMETERS},
                 {"state", PARTS_PARAMETERS},
                 {"knob", PARTS_PARAMETERS},
                 {"optimizer_state", PARTS_OPTIMIZER},
                 {"gradient", PARTS_GRADIENTS},
                 {"activation", PARTS_ACTIVATIONS},
                 {"saved", PARTS_ACTIVATIONS},
                 {"output", PARTS_ACTIVATIONS},
                 {"metric", PARTS_ACTIVATIONS},
                 {"workspace", PARTS_WORKSPACE},
                 {"temporary", PARTS_WORKSPACE},
                 {"input", PARTS_DATA}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].role, v->role) == 0)
            return roles[i].kind;
    return PARTS_OTHER;
}

/* ---- groups by name ---------------------------------------------------------------------- */

static uint32_t hash(const char *text, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Where the path is, or would be. */
static uint32_t *slot_of(const parts *x, const char *path, size_t n)
{
    uint32_t i = hash(path, n) & (x->n_slots - 1);
    for (; x->slots[i] != 0; i = (i + 1) & (x->n_slots - 1)) {
        const char *there = x->at[x->slots[i] - 1].path;
        if (strncmp(there, path, n) == 0 && there[n] == '\0')
            break;
    }
    return &x->slots[i];
}

const parts_group *parts_find(const parts *x, const char *path)
{
    const uint32_t at = x->n_slots > 0 ? *slot_of(x, path, strlen(path)) : 0;
    return at > 0 ? &x->at[at - 1] : NULL;
}

/* The group of the first n bytes of `path`, made where it is missing. */
static sw_status group_of(parts *x, sw_timeline *t, const char *path, size_t n, uint32_t parent,
                          uint32_t *out)
{
    if (2 * (x->n + 1) > x->n_slots) {
        parts larger = *x;
        larger.n_slots = x->n_slots == 0 ? 64 : 2 * x->n_slots;
        SW_TRY(sw_timeline_alloc(t, &larger.slots, larger.n_slots, sizeof *x->slots));
        for (uint32_t i = 0; i < x->n; i++)
            *slot_of(&larger, x->at[i].path, strlen(x->at[i].path)) = i + 1;
        *x = larger;
    }
    uint32_t *slot = slot_of(x, path, n);
    if (*slot == 0) {
        void *text;
        SW_TRY(sw_timeline_alloc(t, &text, n + 1, 1));
        SW_TRY(sw_timeline_reserve(t, &x->at, &x->cap, x->n + 1, sizeof *x->at));
        memcpy(text, path, n);
        const size_t above = parent > 0 ? strlen(x->at[parent].path) + 1 : 0;
        x->at[x->n] = (parts_group){.path = text,
                                    .name = (const char *)text + above,
                                    .parent = parent,
                                    .depth = x->n > 0 ? x->at[parent].depth + 1 : 0,
                                    .run_peak = -1};
        x->at[parent].outer |= x->n > 0;
        *slot = ++x->n;
    }
    *out = *slot - 1;
    return SW_OK;
}

/* The group of a layer in a tree, and those around it. */
static sw_status layer_group(parts *x, sw_timeline *t, const char *layer, uint32_t *out)
{
    *out = 0;
    if (*layer == '\0')
        return group_of(x, t, REPORT_NO_LAYER, sizeof REPORT_NO_LAYER - 1, 0, out);
    uint32_t depth = 0;
    for (size_t n = 0;; n++) {
        const bool scope = layer[n] == '/' && n > 0 && ++depth < DEEPEST;
        if (layer[n] == '\0' || scope)
            SW_TRY(group_of(x, t, layer, n, *out, out));
        if (layer[n] == '\0')
            return SW_OK;
    }
}

/* Values in a scope and in no layer of it have a group beside those layers. */
static sw_status inner_group(parts *x, sw_timeline *t, uint32_t *at)
{
    static const char own[] = "/(itself)";
    const parts_group *g = &x->at[*at];
    if (!g->outer || *at == 0)
        return SW_OK;
    const size_t n = strlen(g->path);
    char *path;
    SW_TRY(sw_timeline_alloc(t, &path, n + sizeof own, 1));
    memcpy(path, g->path, n);
    memcpy(path + n, own, sizeof own);
    return group_of(x, t, path, n + sizeof own - 1, *at, at);
}

static sw_status group_for(parts *x, sw_timeline *t, const sw_tensor *v, parts_by by,
                           uint32_t *out)
{
    static const char *const others[SW_SEGMENTS] = {"(no op)", "(model)", "(batch)"};
    const char *name = "";
    if (by == PARTS_VALUE) {
        char again[512]; /* another one of that name */
        name = *v->name != '\0' ? v->name : "(no name)";
        SW_TRY(group_of(x, t, name, strlen(name), 0, out));
        if (x->at[*out].again++ == 0)
            return SW_OK;
        snprintf(again, sizeof again, "%.480s #%u", name, x->at[*out].again);
        return group_of(x, t, again, strlen(again), 0, out);
    }
    if (by == PARTS_LAYER)
        name = *v->layer != '\0' ? v->layer : REPORT_NO_LAYER;
    else if (by == PARTS_ROLE)
        name = *v->role != '\0' ? v->role : "(no role)";
    else
        name = *v->op != '\0' ? v->op : others[v->segment];
    return group_of(x, t, name, strlen(name), 0, out);
}

/* ---- figures ----------------------------------------------------------------------------- */

/* Of the values in `order`, sorted by birth or by death, those of one position after
 * another. */
typedef struct {
    uint32_t *order, *first; /* first[i]: of position i; n_ops + 1 of them */
} by_position;

static uint32_t position(const sw_tl_program *p, const sw_tensor *v, bool death)
{
    const uint32_t at = death ? v->death : v->birth;
    return at < p->n_ops ? at : p->n_ops;
}

static sw_status sort_values(by_position *out, sw_timeline *t, const sw_tl_program *p,
                             bool death)
{
    SW_TRY(sw_timeline_alloc(t, &out->order, (size_t)p->n_values + 1, sizeof *out->order));
    SW_TRY(sw_timeline_alloc(t, &out->first, (size_t)p->n_ops + 3, sizeof *out->first));
    for (uint32_t i = 0; i < p->n_values; i++)
        out->first[position(p, &p->values[i], death) + 2]++;
    for (uint32_t i = 0; i <= p->n_ops; i++)
        out->first[i + 1] += out->first[i];
    for (uint32_t i = 0; i < p->n_values; i++)
        out->order[out->first[position(p, &p->values[i], death) + 1]++] = i;
    return SW_OK;
}

static void count_value(parts *x, const sw_tl_program *p, uint32_t i, uint32_t group)
{
    const sw_tensor *v = &p->values[i];
    const bool aliased = v->alias != SW_TL_NONE;
    const bool there = !aliased && v->birth <= p->peak_op && v->death >= p->peak_op;
    const uint64_t bytes = aliased ? 0 : v->bytes + v->padding;
    for (uint32_t g = group;; g = x->at[g].parent) {
        parts_group *at = &x->at[g];
        at->n_values += !aliased;
        at->in_place |= aliased;
        at->bytes += bytes;
        at->n_at_peak += there;
        at->at_peak += there ? bytes : 0;
        at->kind[kind_of(v)] += there ? bytes : 0;
        if (g == 0)
            return;
    }
}

/* More bytes live in the group and those around it, or fewer. */
static void change_live(parts *x, uint32_t group, uint64_t bytes, const char *op)
{
    for (uint32_t g = group;; g = x->at[g].parent) {
        parts_group *at = &x->at[g];
        at->live += bytes;
        if ((int64_t)bytes > 0 && at->live > at->own_peak) {
            at->own_peak = at->live;
            at->own_op = op;
        }
        if (g == 0)
            return;
    }
}

static sw_status sweep(parts *x, sw_timeline *t, const sw_tl_program *p, const uint32_t *group)
{
    by_position born, dead;
    SW_TRY(sort_values(&born, t, p, false));
    SW_TRY(sort_values(&dead, t, p, true));
    for (uint32_t op = 0; op < p->n_ops; op++)
        for (int end = 0; end < 2; end++) {
            const by_position *at = end ? &dead : &born;
            for (uint32_t k = at->first[op]; k < at->first[op + 1]; k++) {
                const sw_tensor *v = &p->values[at->order[k]];
                const uint64_t bytes = v->bytes + v->padding;
                if (v->alias == SW_TL_NONE)
                    change_live(x, group[at->order[k]], end ? 0 - bytes : bytes,
                                p->ops[op].name);
            }
        }
    return SW_OK;
}

sw_status parts_make(parts *x, sw_timeline *t, const sw_tl_program *p, parts_by by)
{
    uint32_t root, *group, *of_op;
    SW_TRY(group_of(x, t, "(all)", 5, 0, &root));
    SW_TRY(sw_timeline_alloc(t, &group, (size_t)p->n_values + 1, sizeof(uint32_t)));
    SW_TRY(sw_timeline_alloc(t, &of_op, (size_t)p->n_ops + 1, sizeof(uint32_t)));
    /* All scopes are known before the first value is counted: one may be outer because of a
     * later one. */
    for (uint32_t i = 0; i < p->n_ops && by == PARTS_TREE; i++)
        SW_TRY(layer_group(x, t, p->ops[i].layer, &of_op[i]));
    for (uint32_t i = 0; i < p->n_values && by == PARTS_TREE; i++)
        SW_TRY(layer_group(x, t, p->values[i].layer, &group[i]));
    for (uint32_t i = 0; i < p->n_ops && by == PARTS_TREE; i++)
        SW_TRY(inner_group(x, t, &of_op[i]));
    for (uint32_t i = 0; i < p->n_values && by == PARTS_TREE; i++)
        SW_TRY(inner_group(x, t, &group[i]));
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (by != PARTS_TREE)
            SW_TRY(group_for(x, t, &p->values[i], by, &group[i]));
        count_value(x, p, i, group[i]);
    }
    SW_TRY(sweep(x, t, p, group));
    for (uint32_t i = 0; i < x->n; i++) {
        parts_group *g = &x->at[i];
        if (g->own_op == NULL && p->n_ops > 0)
            g->own_op = p->ops[0].name;
        g->share = x->at[0].at_peak > 0 ? (double)g->at_peak / (double)x->at[0].at_peak : 0.0;
    }
    /* All bytes that live while the ops of each scope run. */
    uint64_t *curve;
    SW_TRY(sw_timeline_alloc(t, &curve, (size_t)p->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    for (uint32_t i = 0; i < p->n_ops && by == PARTS_TREE; i++)
        for (uint32_t g = of_op[i];; g = x->at[g].parent) {
            x->at[g].n_ops++;
            if ((int64_t)curve[i] > x->at[g].run_peak)
                x->at[g].run_peak = (int64_t)curve[i];
            if (g == 0)
                break;
        }
    return SW_OK;
}

/* ---- order ------------------------------------------------------------------------------- */

/* Groups of one parent side by side. */
static int by_weight(const void *left, const void *right)
{
    const parts_group *a = *(const parts_group *const *)left,
                      *b = *(const parts_group *const *)right;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->at_peak != b->at_peak)
        return a->at_peak > b->at_peak ? -1 : 1;
    if (a->own_peak != b->own_peak)
        return a->own_peak > b->own_peak ? -1 : 1;
    return strcmp(a->path, b->path);
}

typedef struct {
    const parts *x;
    const parts_group **sorted;
    uint32_t *first; /* of the children of each; 0: none, counted from 1 */
    parts_group *out;
} walk;

/* As deep as scopes are. */
static void walk_below(walk *w, uint32_t parent) /* NOLINT(misc-no-recursion) */
{
    *w->out++ = w->x->at[parent];
    for (uint32_t k = w->first[parent]; k > 0 && k < w->x->n && w->sorted[k]->parent == parent;
         k++)
        walk_below(w, (uint32_t)(w->sorted[k] - w->x->at));
}

sw_status parts_order(const parts *x, sw_timeline *t, parts_group **out)
{
    walk w = {.x = x};
    SW_TRY(sw_timeline_alloc(t, &w.sorted, x->n, sizeof(parts_group *)));
    SW_TRY(sw_timeline_alloc(t, &w.first, x->n, sizeof(uint32_t)));
    SW_TRY(sw_timeline_alloc(t, out, x->n, sizeof **out));
    for (uint32_t i = 0; i < x->n; i++)
        w.sorted[i] = &x->at[i];
    qsort(w.sorted + 1, x->n - 1, sizeof *w.sorted, by_weight); /* the root stays first */
    for (uint32_t k = x->n; k-- > 1;)
        w.first[w.sorted[k]->parent] = k;
    w.out = *out;
    walk_below(&w, 0);
    return SW_OK;
}

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
