/* The bytes of a population: rows for tables, sums, and one member alone. */
#include "alloc/base/mem.h"
#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/population/population_view.h"
#include "profiler/inspect/report/print.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums -------------------------------------------------------------------------------- */

/* ---- parts ------------------------------------------------------------------------------- */

population_kind population_kind_of(const char *role)
{
    return strcmp(role, "parameter") == 0         ? POPULATION_PARAMETERS
           : strcmp(role, "optimizer_state") == 0 ? POPULATION_OPTIMIZER
           : strcmp(role, "knob") == 0            ? POPULATION_KNOBS
                                                  : POPULATION_BUFFERS;
}

/* Layers come in their order, so the one that is looked for is mostly near the end. */
sw_status population_add(population_parts *x, const char *layer, const char *role,
                         uint64_t bytes)
{
    for (uint32_t i = x->n; i > 0; i--)
        if (strcmp(x->at[i - 1].role, role) == 0 && strcmp(x->at[i - 1].layer, layer) == 0) {
            x->at[i - 1].bytes += bytes;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = (population_part){layer, role, bytes};
    return SW_OK;
}

void population_parts_free(population_parts *x)
{
    sw_heap_free(x->at, SW_HEAP_PROFILE, x->cap * sizeof *x->at);
    *x = (population_parts){0};
}

/* ---- a step ------------------------------------------------------------------------------ */

static bool of_step(void *context, const sw_tensor *v)
{
    (void)context;
    return v->segment == SW_SEGMENT_STEP && v->alias == SW_TENSOR_NONE;
}

static int larger_first(const void *a, const void *b)
{
    const population_part *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    const int by = strcmp(x->layer, y->layer);
    return by != 0 ? by : strcmp(x->role, y->role);
}

static sw_status add_holders(population_step *s, const sw_tl_program *p)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (of_step(NULL, v) && v->birth <= s->peak_op && v->death >= s->peak_op)
            SW_TRY(population_add(&s->holders, v->layer, v->role, v->bytes + v->padding));
    }
    if (s->holders.n > 0)
        qsort(s->holders.at, s->holders.n, sizeof *s->holders.at, larger_first);
    return SW_OK;
}

static sw_status population_step_of(population_step *out, population *p,
                                    const sw_tl_program *program)
{
    uint64_t *live;
    population_step s = {.peak = 0};
    SW_TRY(sw_timeline_alloc(p->timeline, &live, (size_t)program->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(program, of_step, NULL, live);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const uint8_t phase = program->ops[i].phase;
        if (phase < SW_PROF_PHASES && live[i] > s.phase[phase])
            s.phase[phase] = live[i];
        if (live[i] > s.peak) {
            s.peak = live[i];
            s.peak_op = i;
        }
    }
    const sw_status status = add_holders(&s, program);
    if (status != SW_OK) {
        population_parts_free(&s.holders);
        return status;
    }
    *out = s;
    return SW_OK;
}

/* ---- every byte -------------------------------------------------------------------------- */

static sw_status add_row(population_rows *x, population_row row)
{
    if (row.bytes == 0)
        return SW_OK;
    SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = row;
    x->sum += row.bytes;
    return SW_OK;
}

static sw_status add_member(population_rows *x, const population *p, const population_member *m)
{
    const population_shape *s = &p->shapes[m->shape];
    for (uint32_t i = 0; m->resident && i < s->parts.n; i++) {
        const population_part *part = &s->parts.at[i];
        SW_TRY(add_row(x, (population_row){"member", m->member, s->name, part->layer,
                                           part->role, part->bytes}));
    }
    return SW_OK;
}

/* The shape of the turn with the highest step; none: its members have no plan. */
static const population_shape *highest_shape(const population *p, const population_turn *t)
{
    const population_shape *highest = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const population_shape *s = &p->shapes[t->at[i].shape];
        if (s->highest == SW_TL_NONE || p->timeline->programs[s->highest].arena_bytes <= most)
            continue;
        most = p->timeline->programs[s->highest].arena_bytes;
        highest = s;
    }
    return highest;
}

/* Bytes that the plan leaves empty at its peak, or that another turn needed, are unused. */
static sw_status add_lane(population_rows *x, int64_t lane, const population_shape *s,
                          const population_step *step, uint64_t bytes, uint64_t batch)
{
    uint64_t left = bytes;
    for (uint32_t i = 0; i < step->holders.n && step->peak <= bytes; i++) {
        const population_part *part = &step->holders.at[i];
        SW_TRY(add_row(x, (population_row){"step arena", lane, s->name, part->layer, part->role,
                                           part->bytes}));
        left -= part->bytes;
    }
    SW_TRY(add_row(x, (population_row){"step arena", lane, NULL, "", "unused", left}));
    return add_row(x, (population_row){"batch", lane, NULL, "", "input", batch});
}

static sw_status attribute(population_rows *x, population *p, const population_turn *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        SW_TRY(add_member(x, p, &t->at[i]));
    SW_TRY(add_row(
        x, (population_row){"free", -1, NULL, "", "range", t->range_bytes - t->live_bytes}));
    const population_shape *s = highest_shape(p, t);
    population_step step = {.peak = 0};
    sw_status status = SW_OK;
    if (s != NULL)
        SW_TRY(population_step_of(&step, p, &p->timeline->programs[s->highest]));
    for (uint64_t j = 0; j < t->lanes && status == SW_OK; j++) {
        const bool last = j + 1 == t->lanes; /* it has what cannot be shared out evenly */
        const uint64_t steps = t->step_bytes / t->lanes, batches = t->batch_bytes / t->lanes;
        status =
            add_lane(x, (int64_t)j, s, &step, steps + (last ? t->step_bytes % t->lanes : 0),
                     batches + (last ? t->batch_bytes % t->lanes : 0));
    }
    population_parts_free(&step.holders);
    return status;
}

/* Every byte of the turn's budget, in the order member by member, free ranges, lane by lane. A
 * lane's step arena is shown as the shape with the highest step uses it. */
static void population_rows_free(population_rows *x)
{
    sw_heap_free(x->at, SW_HEAP_PROFILE, x->cap * sizeof *x->at);
    *x = (population_rows){0};
}

static sw_status population_attribute(population_rows *out, population *p,
                                      const population_turn *t)
{
    population_rows rows = {0};
    const sw_status status = attribute(&rows, p, t);
    if (status != SW_OK) {
        population_rows_free(&rows);
        return status;
    }
    *out = rows;
    return SW_OK;
}

/* ---- one member -------------------------------------------------------------------------- */

typedef struct {
    population *p;
    const population_turn *turn;
    const population_member *member;
    const population_shape *shape;
    const sw_tl_program *program; /* NULL: it has none */
    population_step step;
    const report_style *style;
    const report_tail *more; /* of JSON; NULL: none */
} view;

static const table_column columns[] = {{"layer", "layer", TABLE_NAME, 24},
                                       {"role", "role", TABLE_TEXT, 18},
                                       {"bytes", "bytes", TABLE_BYTES, 12}};

static void row(const void *context, size_t i, table_cell *c)
{
    const population_part *x = &((const view *)context)->shape->parts.at[i];
    *c++ = (table_cell){.text = x->layer, .shown = *x->layer != '\0' ? NULL : "(no layer)"};
    *c++ = (table_cell){.text = x->role};
    *c++ = (table_cell){.n = x->bytes};
}

static sw_status population_print_member(population *p, uint32_t member,
                                         population_format format, const report_tail *more,
                                         const report_style *style)
{
    view v = {.p = p, .turn = population_last(p), .style = style, .more = more};
    if (v.turn == NULL)
        SW_FAIL(SW_INVALID, "%s: no turn has ended in this file", p->shown);
    if (member >= v.turn->n)
        SW_FAIL(SW_INVALID, "--member must be 0 to %" PRIu32 " in %s (got %" PRIu32 ")",
                v.turn->n - 1, p->shown, member);
    v.member = &v.turn->at[member];
    v.shape = &p->shapes[v.member->shape];
    if (v.shape->highest != SW_TL_NONE) {
        v.program = &p->timeline->programs[v.shape->highest];
        SW_TRY(population_step_of(&v.step, p, v.program));
    }
    const table t = {.columns = columns,
                     .n_columns = (int)(sizeof columns / sizeof *columns),
                     .n = v.shape->parts.n,
                     .row = row,
                     .context = &v};
    sw_status status = SW_OK;
    if (format == POPULATION_JSON) {
        const population_member *m = v.member;
        sw_json j;
        sw_json_growing(&j, SW_HEAP_PROFILE);
        sw_json_begin(&j, '{');
        population_put_head(&j, v.p);
        sw_json_put_u64(&j, "turn", v.turn->turn);
        sw_json_put_u64(&j, "member", m->member);
        sw_json_put_u64(&j, "step", m->step);
        sw_json_put_u64(&j, "member_seed", m->seed);
        sw_json_put_string(&j, "shape", v.shape->name);
        sw_json_put_string(&j, "place", m->place);
        sw_json_put_string(&j, "member_status", m->status);
        sw_json_put_known_f64(&j, "score", !isnan(m->score), m->score);
        sw_json_put_known_f64(&j, "loss", !isnan(m->loss), m->loss);
        sw_json_put_known_f64(&j, "train_loss", !isnan(m->train_loss), m->train_loss);
        sw_json_put_known(&j, "donor", m->donor >= 0, (uint64_t)m->donor);
        population_put_values(&j, "values", v.p, population_values(v.p, v.turn, m->member));
        sw_json_put_u64(&j, "member_bytes", v.shape->member_bytes);
        sw_json_put_u64(&j, "range_bytes", m->range_bytes);
        sw_json_put_u64(&j, "waiting_bytes", m->waiting_bytes);
        sw_json_put_u64(&j, "kept_bytes", m->kept_bytes);
        population_put_parts(&j, "parts", &v.shape->parts);
        population_put_step(&j, &v.step, v.program);
        population_put_end(&j, v.p, v.more);
        sw_json_end(&j);
        status = report_print_object(&j, v.style);
    } else if (format == POPULATION_CSV)
        table_print_csv(style, &t);
    else {
        const population_member *m = v.member;
        const sw_writer *to = v.style->to;
        population_head_text(v.p, v.style);
        sw_writer_print(to, "\n");
        sw_writer_say(to, 0, 2,
                      "Member %" PRIu32 " in turn %" PRIu64 ", step %" PRIu64 ": %s, %s",
                      m->member, v.turn->turn, m->step, v.shape->name, m->place);
        if (m->donor >= 0)
            sw_writer_say(to, 2, 4, "a copy of member %" PRId64 " since this turn began",
                          m->donor);
        if (!isnan(m->score))
            sw_writer_print(to, "  score %.5g, loss %.5g\n", m->score, m->loss);
        for (uint32_t i = 0; i < v.p->n_names; i++)
            sw_writer_say(to, 2, 4, "%s %.6g", v.p->names[i],
                          population_values(v.p, v.turn, m->member)[i]);
        sw_writer_print(to, "  %s of the budget", table_bytes(m->range_bytes, v.style).text);
        sw_writer_print(to, "; outside of it %s that wait",
                        table_bytes(m->waiting_bytes, v.style).text);
        sw_writer_print(to, " and %s kept\n\n", table_bytes(m->kept_bytes, v.style).text);
        table_print(&t, t.n, v.style);
        sw_writer_print(to, "  together %s\n",
                        table_bytes(v.shape->member_bytes, v.style).text);
        if (v.program != NULL) {
            sw_writer_print(to, "\n");
            population_print_step(&v.step, v.program, v.style);
        }
    }
    population_parts_free(&v.step.holders);
    return status;
}

/* ---- views ------------------------------------------------------------------------------- */

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
    const population_view *v = context;
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

table population_member_table(const population_view *v)
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

const sw_tl_program *population_program(const population_view *v, const population_shape *s)
{
    return s->highest == SW_TL_NONE ? NULL : &v->p->timeline->programs[s->highest];
}

uint64_t population_members_of(const population_view *v, uint32_t shape)
{
    uint64_t n = 0;
    for (uint32_t i = 0; v->turn != NULL && i < v->turn->n; i++)
        n += v->turn->at[i].shape == shape;
    return n;
}

static void shape_row(const void *context, size_t i, table_cell *c)
{
    const population_view *v = context;
    const population_shape *s = &v->p->shapes[v->shape[i]];
    const sw_tl_program *p = population_program(v, s);
    *c++ = (table_cell){.text = s->name};
    *c++ = (table_cell){.n = population_members_of(v, v->shape[i])};
    *c++ = (table_cell){.n = s->member_bytes};
    *c++ = (table_cell){.n = p != NULL ? p->arena_bytes : 0, .none = p == NULL};
    *c++ = (table_cell){.n = s->batch_bytes};
}

table population_shape_table(const population_view *v)
{
    return (table){.columns = shape_columns,
                   .n_columns = (int)(sizeof shape_columns / sizeof *shape_columns),
                   .n = v->n_shapes,
                   .row = shape_row,
                   .context = v};
}

/* ---- bytes ------------------------------------------------------------------------------- */

static const table_column row_columns[] = {
    {"kind", "kind", TABLE_NAME, 10},   {"number", "number", TABLE_COUNT, 6},
    {"shape", "shape", TABLE_TEXT, 20}, {"layer", "layer", TABLE_TEXT, 20},
    {"role", "role", TABLE_TEXT, 16},   {"bytes", "bytes", TABLE_BYTES, 11}};

static void budget_row(const void *context, size_t i, table_cell *c)
{
    const population_view *v = context;
    const population_row *r = &v->rows.at[i];
    *c++ = (table_cell){.text = r->kind};
    *c++ = (table_cell){.n = (uint64_t)r->number, .none = r->number < 0};
    *c++ = (table_cell){.text = r->shape};
    *c++ = (table_cell){.text = r->layer};
    *c++ = (table_cell){.text = r->role};
    *c++ = (table_cell){.n = r->bytes};
}

table population_budget_table(const population_view *v)
{
    return (table){.columns = row_columns,
                   .n_columns = (int)(sizeof row_columns / sizeof *row_columns),
                   .n = v->rows.n,
                   .row = budget_row,
                   .context = v};
}

/* ---- making it --------------------------------------------------------------------------- */

/* Shapes that members have in the turn; all of the file where there is no turn. */
static sw_status make_view(population_view *v)
{
    population *p = v->p;
    SW_TRY(
        sw_timeline_alloc(p->timeline, &v->shape, (size_t)p->n_shapes + 1, sizeof *v->shape));
    SW_TRY(sw_timeline_alloc(p->timeline, &v->step, (size_t)p->n_shapes + 1, sizeof *v->step));
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        if (v->turn != NULL && population_members_of(v, i) == 0)
            continue;
        const sw_tl_program *program = population_program(v, &p->shapes[i]);
        if (program != NULL)
            SW_TRY(population_step_of(&v->step[v->n_shapes], p, program));
        v->shape[v->n_shapes++] = i;
    }
    return v->turn != NULL ? population_attribute(&v->rows, p, v->turn) : SW_OK;
}

/* ---- all --------------------------------------------------------------------------------- */

static sw_status print_all(const population_view *v, population_format format)
{
    if (format == POPULATION_JSON)
        return population_print_json(v);
    if (format == POPULATION_CSV) {
        const table rows = population_budget_table(v);
        table_print_csv(v->style, &rows);
    } else {
        population_print_text(v);
    }
    return SW_OK;
}

sw_status population_print(population *p, int64_t member, population_format format,
                           const report_tail *more, const report_style *style)
{
    population_view v = {.p = p, .turn = population_last(p), .style = style, .more = more};
    if (member >= 0)
        return population_print_member(p, (uint32_t)member, format, more, style);
    sw_status status = make_view(&v);
    if (status == SW_OK)
        status = print_all(&v, format);
    for (uint32_t i = 0; i < v.n_shapes; i++)
        population_parts_free(&v.step[i].holders);
    population_rows_free(&v.rows);
    return status;
}
