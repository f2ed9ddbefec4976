/* A population as a report: its members, its shapes and what the budget holds, in the last
 * turn. JSON and CSV have every byte by member, layer and role; text has the sums. */
#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/report/report_table.h"
#include "alloc/base/mem.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_HOLDERS 10
#define SHOWN_MEMBERS 50

typedef struct {
    population *p;
    const population_turn *turn; /* NULL: none has ended */
    uint32_t *shape;             /* n_shapes indices: those that members have */
    uint32_t n_shapes;
    population_step *step; /* of each of them */
    population_rows rows;
    const report_style *style;
    char text[40]; /* of the latest row */
} view;

static const char *kind_words[POPULATION_KINDS] = {"parameters", "optimizer state", "buffers",
                                                   "knobs"};

/* ---- members ----------------------------------------------------------------------------- */

static const table_column member_columns[] = {
    {"member", "member", TABLE_COUNT, 6},
    {"place", "lies", TABLE_TEXT, 8},
    {"score", "score", TABLE_REAL, 9},
    {"parameters_bytes", "parameters", TABLE_BYTES, 11},
    {"optimizer_bytes", "optimizer", TABLE_BYTES, 11},
    {"buffers_bytes", "buffers", TABLE_BYTES, 10},
    {"knobs_bytes", "knobs", TABLE_BYTES, 7},
    {"member_bytes", "together", TABLE_BYTES, 11},
    {"range_bytes", "in budget", TABLE_BYTES, 11},
    {"waiting_bytes", "waiting", TABLE_BYTES, 11},
    {"kept_bytes", "kept", TABLE_BYTES, 11},
    {"donor", "donor", TABLE_COUNT, 6},
    {"step", "step", TABLE_COUNT, 8},
    {"status", "status", TABLE_TEXT, 6},
    {"loss", NULL, TABLE_REAL, 0},
    {"shape", "shape", TABLE_TEXT, 40}};

static void member_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const population_member *m = &v->turn->at[i];
    const population_shape *s = &v->p->shapes[m->shape];
    *c++ = (table_cell){.n = m->member};
    *c++ = (table_cell){.text = m->place};
    *c++ = (table_cell){.share = m->score, .none = isnan(m->score)};
    for (int k = 0; k < POPULATION_KINDS; k++)
        *c++ = (table_cell){.n = s->kind[k]};
    *c++ = (table_cell){.n = s->member_bytes};
    *c++ = (table_cell){.n = m->range_bytes};
    *c++ = (table_cell){.n = m->waiting_bytes};
    *c++ = (table_cell){.n = m->kept_bytes};
    *c++ = (table_cell){.n = (uint64_t)m->donor, .none = m->donor < 0};
    *c++ = (table_cell){.n = m->step};
    *c++ = (table_cell){.text = m->status};
    *c++ = (table_cell){.share = m->loss, .none = isnan(m->loss)};
    *c++ = (table_cell){.text = s->name};
}

static table member_table(const view *v)
{
    return (table){.columns = member_columns,
                   .n_columns = (int)(sizeof member_columns / sizeof *member_columns),
                   .n = v->turn != NULL ? v->turn->n : 0,
                   .row = member_row,
                   .context = v};
}

/* ---- shapes ------------------------------------------------------------------------------ */

static const table_column shape_columns[] = {{"shape", "shape", TABLE_NAME, 30},
                                             {"members", "members", TABLE_COUNT, 7},
                                             {"member_bytes", "a member", TABLE_BYTES, 11},
                                             {"arena_bytes", "its step", TABLE_BYTES, 11},
                                             {"batch_bytes", "its batch", TABLE_BYTES, 11}};

static const sw_tl_program *program_of(const view *v, const population_shape *s)
{
    return s->highest == SW_TL_NONE ? NULL : &v->p->timeline->programs[s->highest];
}

static uint64_t members_of(const view *v, uint32_t shape)
{
    uint64_t n = 0;
    for (uint32_t i = 0; v->turn != NULL && i < v->turn->n; i++)
        n += v->turn->at[i].shape == shape;
    return n;
}

static void shape_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const population_shape *s = &v->p->shapes[v->shape[i]];
    const sw_tl_program *p = program_of(v, s);
    *c++ = (table_cell){.text = s->name};
    *c++ = (table_cell){.n = members_of(v, v->shape[i])};
    *c++ = (table_cell){.n = s->member_bytes};
    *c++ = (table_cell){.n = p != NULL ? p->arena_bytes : 0, .none = p == NULL};
    *c++ = (table_cell){.n = s->batch_bytes};
}

static table shape_table(const view *v)
{
    return (table){.columns = shape_columns,
                   .n_columns = (int)(sizeof shape_columns / sizeof *shape_columns),
                   .n = v->n_shapes,
                   .row = shape_row,
                   .context = v};
}

/* ---- making it --------------------------------------------------------------------------- */

/* Shapes that members have in the turn; all of the file where there is no turn. */
static sw_status make_view(view *v)
{
    population *p = v->p;
    void *block;
    SW_TRY(sw_timeline_alloc(p->timeline, &block, (size_t)p->n_shapes + 1, sizeof *v->shape));
    v->shape = block;
    SW_TRY(sw_timeline_alloc(p->timeline, &block, (size_t)p->n_shapes + 1, sizeof *v->step));
    v->step = block;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        if (v->turn != NULL && members_of(v, i) == 0)
            continue;
        const sw_tl_program *program = program_of(v, &p->shapes[i]);
        if (program != NULL)
            SW_TRY(population_step_of(&v->step[v->n_shapes], p, program));
        v->shape[v->n_shapes++] = i;
    }
    return v->turn != NULL ? population_attribute(&v->rows, p, v->turn) : SW_OK;
}

static void free_view(view *v)
{
    for (uint32_t i = 0; i < v->n_shapes; i++)
        population_parts_free(&v->step[i].holders);
    population_rows_free(&v->rows);
}

/* ---- text -------------------------------------------------------------------------------- */

void population_head_text(const population *p, const report_style *style)
{
    const sw_timeline *t = p->timeline;
    const sw_writer *to = style->to;
    sw_writer_say(to, 0, 2,
                  "%" PRIu64 " members of %s on %s, batch %" PRId64 ", seed %" PRIu64 "%s%s",
                  p->members, *t->model != '\0' ? t->model : "a model",
                  *t->device != '\0' ? t->device : "cpu", t->batch, t->seed,
                  *t->data != '\0' ? ", data " : "", t->data);
    sw_writer_print(to, "%s turns%s", sw_text_digits(p->seen_turns).text,
                    p->ended ? "" : " so far: the file has no end");
    if (p->ended)
        sw_writer_print(to, " in %s", sw_text_ns(p->wall_ns).text);
    if (p->ended && strcmp(p->status, "done") != 0)
        sw_writer_print(to, "; the run was %s", p->status);
    sw_writer_print(to, ", begun %s\n", t->created);
    if (p->cut_members > 0 && !style->quiet)
        sw_writer_say(to, 0, 2,
                      "the turn behind that lacks its end: %" PRIu32
                      " records of members are left out",
                      p->cut_members);
}

void population_print_parts(const population_shape *s, const report_style *style)
{
    sw_writer_print(style->to, "  %-24s %-18s %15s\n", "layer", "role", "bytes");
    for (uint32_t i = 0; i < s->parts.n; i++) {
        const population_part *x = &s->parts.at[i];
        sw_writer_print(style->to, "  ");
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        int left = sw_writer_fitted(style->to, layer, strlen(layer), 24);
        sw_writer_print(style->to, "%*s %-18s %15s\n", left, "", x->role,
                        table_bytes(x->bytes, style).text);
    }
}

void population_print_step(const population_step *s, const sw_tl_program *p,
                           const report_style *style)
{
    const sw_writer *to = style->to;
    sw_writer_print(to, "  its step takes %s at most, by phase (%s, batch %" PRId64 "):\n   ",
                    table_bytes(s->peak, style).text, p->run, p->batch);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (s->phase[i] > 0)
            sw_writer_print(to, " %s %s", sw_prof_phase_name(i),
                            table_bytes(s->phase[i], style).text);
    sw_writer_print(to, "\n");
    if (s->peak_op < p->n_ops)
        sw_writer_say(to, 2, 4, "at its highest, while %s runs, it is held by",
                      p->ops[s->peak_op].name);
    for (uint32_t i = 0; i < s->holders.n && i < SHOWN_HOLDERS; i++) {
        const population_part *x = &s->holders.at[i];
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        sw_writer_print(to, "  ");
        int left = sw_writer_fitted(to, layer, strlen(layer), 24);
        sw_writer_print(to, "%*s %-18s %15s\n", left, "", x->role,
                        table_bytes(x->bytes, style).text);
    }
    if (s->holders.n > SHOWN_HOLDERS)
        sw_writer_print(to, "  and %" PRIu32 " more\n", s->holders.n - SHOWN_HOLDERS);
}

/* The shape with the highest step in full: it decides the lanes. */
static void print_shapes(const view *v)
{
    const table t = shape_table(v);
    uint32_t highest = 0;
    report_headline(v->style, "Shapes");
    table_print(&t, t.n, v->style);
    for (uint32_t i = 1; i < v->n_shapes; i++)
        if (v->step[i].peak > v->step[highest].peak)
            highest = i;
    if (v->n_shapes == 0)
        return;
    const population_shape *s = &v->p->shapes[v->shape[highest]];
    sw_writer_print(v->style->to, "\n");
    sw_writer_say(v->style->to, 0, 2, "A member of %s%s", s->name,
                  v->n_shapes > 1 ? ", whose step is the highest" : "");
    population_print_parts(s, v->style);
    if (program_of(v, s) != NULL)
        population_print_step(&v->step[highest], program_of(v, s), v->style);
}

static uint64_t sum_of(const view *v, const char *kind, int group)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->rows.n; i++) {
        const population_row *r = &v->rows.at[i];
        if (strcmp(r->kind, kind) == 0 &&
            (group < 0 || population_kind_of(r->role) == (population_kind)group))
            sum += r->bytes;
    }
    return sum;
}

static void print_line(const view *v, const char *what, uint64_t bytes)
{
    sw_writer_print(v->style->to, "  %-44s %15s\n", what, table_bytes(bytes, v->style).text);
}

/* Exact or not, the lines and their sum are those of one turn. */
static void print_budget(const view *v)
{
    const population_turn *t = v->turn;
    char text[80];
    uint64_t resident = 0;
    for (uint32_t i = 0; i < t->n; i++)
        resident += t->at[i].resident;
    report_headline(v->style, "What the budget holds");
    for (int k = 0; k < POPULATION_KINDS; k++) {
        snprintf(text, sizeof text, "%s of %" PRIu64 " resident members", kind_words[k],
                 resident);
        print_line(v, text, sum_of(v, "member", k));
    }
    print_line(v, "ranges that are free, for members that come in", sum_of(v, "free", -1));
    snprintf(text, sizeof text, "step arenas of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "step arena", -1));
    snprintf(text, sizeof text, "batches of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "batch", -1));
    print_line(v, "together", v->rows.sum);
    print_line(v, "measured", population_measured(t));
    print_line(v, "planned for this turn, at most", t->predicted_bytes);
    if (v->p->budget_bytes > 0)
        print_line(v, "budget", v->p->budget_bytes);
    print_line(v, "outside of the budget: waiting and kept", t->outside_bytes);
    if (v->p->peak_bytes > population_measured(t) && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "the most that was measured is %s, in turn %" PRIu64,
                      table_bytes(v->p->peak_bytes, v->style).text, v->p->peak_turn);
}

static void print_text(const view *v)
{
    char head[80];
    population_head_text(v->p, v->style);
    if (v->turn == NULL) {
        sw_writer_text(v->style->to, "no turn has ended in this file\n");
        print_shapes(v);
        return;
    }
    const table t = member_table(v);
    snprintf(head, sizeof head, "Members in turn %" PRIu64 ", step %" PRIu64, v->turn->turn,
             v->turn->step);
    report_headline(v->style, head);
    table_print(&t, t.n < SHOWN_MEMBERS ? t.n : SHOWN_MEMBERS, v->style);
    if (t.n > SHOWN_MEMBERS && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "%zu members more: --json and --format csv have them",
                      t.n - SHOWN_MEMBERS);
    print_shapes(v);
    print_budget(v);
}

/* ---- JSON -------------------------------------------------------------------------------- */

void population_put_head(sw_json *j, const population *p)
{
    const sw_timeline *t = p->timeline;
    sw_json_put_string(j, "file", p->shown);
    sw_json_put_string(j, "tool", "stepwell");
    sw_json_put_string(j, "kind", "population");
    report_put_text(j, "model", t->model);
    report_put_text(j, "device", t->device);
    report_put_text(j, "data", t->data);
    report_put_text(j, "normalise", t->normalise);
    report_put_batch(j, t->batch);
    sw_json_put_u64(j, "seed", t->seed);
    report_put_text(j, "created", t->created);
    report_put_text(j, "command", t->command);
    sw_json_put_u64(j, "n_members", p->members);
    sw_json_put_known(j, "budget_bytes", p->budget_bytes > 0, p->budget_bytes);
    sw_json_put_u64(j, "turns", p->seen_turns);
    sw_json_put_known(j, "first_turn", p->seen_turns > 0, p->first_turn);
    sw_json_put_known(j, "last_turn", p->seen_turns > 0, p->last_turn);
    sw_json_put_u64(j, "measured_peak_bytes", p->peak_bytes);
}

void population_put_end(sw_json *j, const population *p)
{
    report_put_text(j, "status", p->status);
    report_put_text(j, "error", p->error);
    if (p->damaged_line == 0) {
        sw_json_put_null(j, "damaged");
        return;
    }
    sw_json_open(j, "damaged", '{');
    sw_json_put_u64(j, "line", p->damaged_line);
    sw_json_put_string(j, "why", p->damaged_why);
    sw_json_end(j);
}

void population_put_values(sw_json *j, const char *key, const population *p,
                           const double *values)
{
    sw_json_open(j, key, '{');
    for (uint32_t i = 0; i < p->n_names; i++)
        sw_json_put_f64(j, p->names[i], values[i]);
    sw_json_end(j);
}

void population_put_parts(sw_json *j, const char *key, const population_parts *x)
{
    sw_json_open(j, key, '[');
    for (uint32_t i = 0; i < x->n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "layer", x->at[i].layer);
        sw_json_put_string(j, "role", x->at[i].role);
        sw_json_put_u64(j, "bytes", x->at[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void population_put_step(sw_json *j, const population_step *s, const sw_tl_program *p)
{
    sw_json_open(j, "step_arena", '{');
    sw_json_put_string(j, "run", p->run);
    report_put_batch(j, p->batch);
    sw_json_put_u64(j, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(j, "peak_bytes", s->peak);
    sw_json_put_string(j, "peak_op", s->peak_op < p->n_ops ? p->ops[s->peak_op].name : NULL);
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++)
        sw_json_put_u64(j, sw_prof_phase_name(i), s->phase[i]);
    sw_json_end(j);
    population_put_parts(j, "holders", &s->holders);
    sw_json_end(j);
}

static void put_shapes(sw_json *j, const view *v)
{
    sw_json_open(j, "shapes", '[');
    for (uint32_t i = 0; i < v->n_shapes; i++) {
        const population_shape *s = &v->p->shapes[v->shape[i]];
        const sw_tl_program *p = program_of(v, s);
        sw_json_begin(j, '{');
        sw_json_put_string(j, "shape", s->name);
        sw_json_put_u64(j, "members", members_of(v, v->shape[i]));
        sw_json_put_u64(j, "member_bytes", s->member_bytes);
        sw_json_put_u64(j, "batch_bytes", s->batch_bytes);
        population_put_parts(j, "parts", &s->parts);
        if (p != NULL)
            population_put_step(j, &v->step[i], p);
        else
            sw_json_put_null(j, "step_arena");
        sw_json_end(j);
    }
    sw_json_end(j);
}

static const table_column row_columns[] = {
    {"kind", "kind", TABLE_NAME, 10},   {"number", "number", TABLE_COUNT, 6},
    {"shape", "shape", TABLE_TEXT, 20}, {"layer", "layer", TABLE_TEXT, 20},
    {"role", "role", TABLE_TEXT, 16},   {"bytes", "bytes", TABLE_BYTES, 11}};

static void budget_row(const void *context, size_t i, table_cell *c)
{
    const view *v = context;
    const population_row *r = &v->rows.at[i];
    *c++ = (table_cell){.text = r->kind};
    *c++ = (table_cell){.n = (uint64_t)r->number, .none = r->number < 0};
    *c++ = (table_cell){.text = r->shape};
    *c++ = (table_cell){.text = r->layer};
    *c++ = (table_cell){.text = r->role};
    *c++ = (table_cell){.n = r->bytes};
}

static table budget_table(const view *v)
{
    return (table){.columns = row_columns,
                   .n_columns = (int)(sizeof row_columns / sizeof *row_columns),
                   .n = v->rows.n,
                   .row = budget_row,
                   .context = v};
}

static void put_turn(sw_json *j, const view *v)
{
    const population_turn *t = v->turn;
    sw_json_put_u64(j, "turn", t->turn);
    sw_json_put_u64(j, "step", t->step);
    sw_json_put_u64(j, "lanes", t->lanes);
    sw_json_put_u64(j, "step_arena_bytes", t->step_bytes);
    sw_json_put_u64(j, "batch_bytes", t->batch_bytes);
    sw_json_put_u64(j, "range_bytes", t->range_bytes);
    sw_json_put_u64(j, "live_bytes", t->live_bytes);
    sw_json_put_u64(j, "measured_bytes", population_measured(t));
    sw_json_put_u64(j, "predicted_bytes", t->predicted_bytes);
    sw_json_put_u64(j, "outside_bytes", t->outside_bytes);
    const table members = member_table(v), budget = budget_table(v);
    table_put(j, "members", &members);
    sw_json_open(j, "values", '[');
    for (uint32_t i = 0; i < t->n; i++) {
        sw_json_begin(j, '{');
        for (uint32_t k = 0; k < v->p->n_names; k++)
            sw_json_put_f64(j, v->p->names[k], population_values(v->p, t, i)[k]);
        sw_json_end(j);
    }
    sw_json_end(j);
    table_put(j, "budget", &budget);
    sw_json_put_u64(j, "sum_bytes", v->rows.sum);
}

static sw_status print_json(const view *v)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    population_put_head(&j, v->p);
    if (v->turn != NULL)
        put_turn(&j, v);
    put_shapes(&j, v);
    population_put_end(&j, v->p);
    sw_json_end(&j);
    return report_print_object(&j, v->style);
}

/* ---- all --------------------------------------------------------------------------------- */

static sw_status print_all(const view *v, population_format format)
{
    if (format == POPULATION_JSON)
        return print_json(v);
    if (format == POPULATION_CSV) {
        const table rows = budget_table(v);
        table_print_csv(v->style, &rows);
    } else {
        print_text(v);
    }
    return SW_OK;
}

sw_status population_print(population *p, int64_t member, population_format format,
                           const report_style *style)
{
    view v = {.p = p, .turn = population_last(p), .style = style};
    if (member >= 0)
        return population_print_member(p, (uint32_t)member, format, style);
    sw_status status = make_view(&v);
    if (status == SW_OK)
        status = print_all(&v, format);
    free_view(&v);
    return status;
}
