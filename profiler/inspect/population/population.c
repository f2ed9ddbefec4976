/* The report of a population: sums, every byte of a turn's budget, two turns
 * compared, as text, JSON, CSV and a page of members down and turns across. */
#include "profiler/inspect/population/population.h"
#include "profiler/inspect/report/report.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

population_kind population_kind_of(const char *role)
{
    return strcmp(role, "parameter") == 0         ? POPULATION_PARAMETERS
           : strcmp(role, "optimizer_state") == 0 ? POPULATION_OPTIMIZER
           : strcmp(role, "knob") == 0            ? POPULATION_KNOBS
                                                  : POPULATION_BUFFERS;
}

/* Layers come in their order, so the one that is looked for is mostly near the end. */
sw_status population_add(population_parts *x, sw_timeline *t, const char *layer,
                         const char *role, uint64_t bytes)
{
    for (uint32_t i = x->n; i > 0; i--)
        if (strcmp(x->at[i - 1].role, role) == 0 && strcmp(x->at[i - 1].layer, layer) == 0) {
            x->at[i - 1].bytes += bytes;
            return SW_OK;
        }
    SW_TRY(sw_timeline_reserve(t, &x->at, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = (population_part){layer, role, bytes};
    return SW_OK;
}

/* ---- a step ------------------------------------------------------------------------------ */

/* The step arena of a program: the most that lives of it in each phase, and who holds it at the
 * highest point, largest first. */
typedef struct {
    uint64_t phase[SW_PROF_PHASES], peak;
    uint32_t peak_op; /* index */
    population_parts holders;
} population_step;

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

static sw_status step_of(population_step *out, population *p, const sw_tl_program *program)
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
    for (uint32_t i = 0; i < program->n_values; i++) {
        const sw_tensor *v = &program->values[i];
        if (of_step(NULL, v) && v->birth <= s.peak_op && v->death >= s.peak_op)
            SW_TRY(population_add(&s.holders, p->timeline, v->layer, v->role,
                                  v->bytes + v->padding));
    }
    if (s.holders.n > 0)
        qsort(s.holders.at, s.holders.n, sizeof *s.holders.at, larger_first);
    *out = s;
    return SW_OK;
}

/* ---- every byte -------------------------------------------------------------------------- */

/* A row of what the budget holds. */
typedef struct {
    const char *kind;  /* "member", "free", "step arena", "batch" */
    int64_t number;    /* of the member or lane; -1: of none */
    const char *shape; /* NULL: of none */
    const char *layer, *role;
    uint64_t bytes;
} population_row;

typedef struct {
    population_row *at;
    uint32_t n, cap;
    uint64_t sum;          /* of all rows: what was measured in the turn */
    sw_timeline *timeline; /* owns them */
} population_rows;

static sw_status add_row(population_rows *x, population_row row)
{
    if (row.bytes == 0)
        return SW_OK;
    SW_TRY(sw_timeline_reserve(x->timeline, &x->at, &x->cap, x->n + 1, sizeof *x->at));
    x->at[x->n++] = row;
    x->sum += row.bytes;
    return SW_OK;
}

/* Every byte of the turn's budget, in the order member by member, free ranges, lane by lane. A
 * lane's step arena is shown as the shape with the highest step uses it. */
static sw_status attribute(population_rows *x, population *p, const population_turn *t)
{
    const population_shape *highest = NULL; /* NULL: its members have no plan */
    population_step step = {.peak = 0};
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const population_member *m = &t->at[i];
        const population_shape *s = &p->shapes[m->shape];
        for (uint32_t k = 0; m->resident && k < s->parts.n; k++) {
            const population_part *part = &s->parts.at[k];
            SW_TRY(add_row(x, (population_row){"member", m->member, s->name, part->layer,
                                               part->role, part->bytes}));
        }
        if (s->highest == SW_TL_NONE || p->timeline->programs[s->highest].arena_bytes <= most)
            continue;
        most = p->timeline->programs[s->highest].arena_bytes;
        highest = s;
    }
    SW_TRY(add_row(x, (population_row){"free", -1, NULL, "", "range", t->free_bytes}));
    if (highest != NULL)
        SW_TRY(step_of(&step, p, &p->timeline->programs[highest->highest]));
    for (uint64_t j = 0; j < t->lanes; j++) {
        const bool last = j + 1 == t->lanes; /* it has what cannot be shared out evenly */
        const int64_t lane = (int64_t)j;
        uint64_t bytes = t->step_arena_bytes / t->lanes, batch = t->batch_bytes / t->lanes;
        bytes += last ? t->step_arena_bytes % t->lanes : 0;
        batch += last ? t->batch_bytes % t->lanes : 0;
        uint64_t left = bytes;
        for (uint32_t i = 0; i < step.holders.n && step.peak <= bytes; i++) {
            const population_part *part = &step.holders.at[i];
            SW_TRY(add_row(x, (population_row){"step arena", lane, highest->name, part->layer,
                                               part->role, part->bytes}));
            left -= part->bytes;
        }
        /* Bytes that the plan leaves empty at its peak, or that another turn needed. */
        SW_TRY(add_row(x, (population_row){"step arena", lane, NULL, "", "unused", left}));
        SW_TRY(add_row(x, (population_row){"batch", lane, NULL, "", "input", batch}));
    }
    return SW_OK;
}

/* ---- tables ------------------------------------------------------------------------------ */

#define MEMBER(key, head, kind, width, member)                                                 \
    COLUMN(population_member, key, head, kind, width, member)
static const table_column member_columns[] = {
    MEMBER("member", "member", TABLE_COUNT, 6, member),
    MEMBER("place", "lies", TABLE_TEXT, 8, place),
    MEMBER("score", "score", TABLE_REAL, 9, score),
    MEMBER("parameters_bytes", "parameters", TABLE_BYTES, 11, kind[POPULATION_PARAMETERS]),
    MEMBER("optimizer_bytes", "optimizer", TABLE_BYTES, 11, kind[POPULATION_OPTIMIZER]),
    MEMBER("buffers_bytes", "buffers", TABLE_BYTES, 10, kind[POPULATION_BUFFERS]),
    MEMBER("knobs_bytes", "knobs", TABLE_BYTES, 7, kind[POPULATION_KNOBS]),
    MEMBER("member_bytes", "together", TABLE_BYTES, 11, member_bytes),
    MEMBER("range_bytes", "in budget", TABLE_BYTES, 11, range_bytes),
    MEMBER("waiting_bytes", "waiting", TABLE_BYTES, 11, waiting_bytes),
    MEMBER("kept_bytes", "kept", TABLE_BYTES, 11, kept_bytes),
    COLUMN_KNOWN(population_member, "donor", "donor", TABLE_COUNT, 6, donor),
    MEMBER("step", "step", TABLE_COUNT, 8, step),
    MEMBER("status", "status", TABLE_TEXT, 6, member_status),
    MEMBER("loss", NULL, TABLE_REAL, 0, loss),
    MEMBER("shape", "shape", TABLE_TEXT, 40, shape_name)};
#define TURN(head, member) COLUMN(population_turn, NULL, head, TABLE_BYTES, 12, member)
/* From TURN_BYTES on the first four add up to the fifth. */
static const table_column turn_columns[] = {TURN("turn", turn),
                                            TURN("step", step),
                                            TURN("members", live_bytes),
                                            TURN("free", free_bytes),
                                            TURN("step arenas", step_arena_bytes),
                                            TURN("batches", batch_bytes),
                                            TURN("measured", measured_bytes),
                                            TURN("planned", predicted_bytes),
                                            TURN("outside", outside_bytes)};
enum { TURN_BYTES = 2, TURN_TOTALS = TABLE_LENGTH(turn_columns) - TURN_BYTES };
static const table_column turn_fields[] = {
    FIELDS(population_turn, turn, step, lanes, step_arena_bytes, batch_bytes, range_bytes,
           live_bytes, measured_bytes, predicted_bytes, outside_bytes)};

static const table_column budget_columns[] = {
    COLUMN(population_row, "kind", "kind", TABLE_NAME, 10, kind),
    COLUMN_KNOWN(population_row, "number", "number", TABLE_COUNT, 6, number),
    COLUMN(population_row, "shape", "shape", TABLE_TEXT, 20, shape),
    COLUMN(population_row, "layer", "layer", TABLE_TEXT, 20, layer),
    COLUMN(population_row, "role", "role", TABLE_TEXT, 16, role),
    COLUMN(population_row, "bytes", "bytes", TABLE_BYTES, 11, bytes)};

static const table_column part_columns[] = {
    COLUMN(population_part, "layer", "layer", TABLE_NAME, 24, layer),
    COLUMN(population_part, "role", "role", TABLE_TEXT, 18, role),
    COLUMN(population_part, "bytes", "bytes", TABLE_BYTES, 14, bytes)};

static table part_table(const population_parts *x)
{
    table t = TABLE_OF(part_columns, x->at, x->n);
    t.empty = "(no layer)";
    return t;
}

/* ---- what a report begins and ends with -------------------------------------------------- */

static void print_head(const population *p, const report_style *style)
{
    const sw_timeline *t = p->timeline;
    const sw_writer *to = style->to;
    sw_writer_say(to, 0, 2,
                  "%" PRIu64 " members of %s on %s, batch %" PRId64 ", seed %" PRIu64
                  "%s%s%s%s",
                  p->members, *t->model != '\0' ? t->model : "a model",
                  *t->device != '\0' ? t->device : "cpu", t->batch, t->seed,
                  *t->data != '\0' ? ", data " : "", t->data,
                  *t->scores != '\0' ? ", scores: " : "", t->scores);
    sw_writer_print(to, "%s turns%s", sw_text_digits(p->seen_turns).text,
                    p->file.ended ? "" : " so far: the file has no end");
    if (p->file.ended)
        sw_writer_print(to, " in %s", sw_text_ns(p->file.wall_ns).text);
    if (p->file.ended && strcmp(p->file.status, "done") != 0)
        sw_writer_print(to, "; the run was %s", p->file.status);
    sw_writer_print(to, ", begun %s\n", t->created);
    if (p->cut_members > 0 && !style->quiet)
        sw_writer_say(to, 0, 2,
                      "the turn after that lacks its end: %" PRIu32
                      " records of members are left out",
                      p->cut_members);
}

static void begin_json(sw_json *j, const population *p)
{
    report_begin_object(j);
    sw_json_put_string(j, "file", p->shown);
    sw_json_put_string(j, "tool", "stepwell");
    sw_json_put_string(j, "kind", "population");
    PUT(j, p->timeline,
        FIELDS_KNOWN(sw_timeline, model, device, data, normalise, scores, batch),
        FIELDS(sw_timeline, seed), FIELDS_KNOWN(sw_timeline, created, command));
    PUT(j, p, FIELD(population, "n_members", members), FIELDS_KNOWN(population, budget_bytes),
        FIELD(population, "turns", seen_turns),
        FIELDS_KNOWN(population, first_turn, last_turn), /* a turn is above 0 */
        FIELD(population, "measured_peak_bytes", peak_bytes));
}

static sw_status end_json(sw_json *j, const population *p, const report_tail *more,
                          const report_style *style)
{
    PUT(j, &p->file, FIELDS_KNOWN(profile_reading, status, error));
    report_put_damaged(j, &p->file);
    return report_end_object(j, more, style);
}

static const double *values_of(const population *p, const population_turn *t, uint32_t member)
{
    return t->values + (size_t)member * p->n_names;
}

static void put_values(sw_json *j, const char *key, const population *p,
                       const population_turn *t, uint32_t member)
{
    if (!sw_json_open_known(j, key, member < t->n))
        return;
    for (uint32_t i = 0; i < p->n_names; i++)
        sw_json_put_f64(j, p->names[i], values_of(p, t, member)[i]);
    sw_json_end(j);
}

/* ---- a step arena ------------------------------------------------------------------------ */

#define SHOWN_HOLDERS 10

static void print_step(const population_step *s, const sw_tl_program *p,
                       const report_style *style)
{
    const sw_writer *to = style->to;
    const table holders = part_table(&s->holders);
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
    table_print(&holders, holders.n < SHOWN_HOLDERS ? holders.n : SHOWN_HOLDERS, style);
    if (holders.n > SHOWN_HOLDERS)
        sw_writer_print(to, "  and %zu more\n", holders.n - SHOWN_HOLDERS);
}

static void put_step(sw_json *j, const population_step *s, const sw_tl_program *p)
{
    const table holders = part_table(&s->holders);
    if (!sw_json_open_known(j, "step_arena", p != NULL))
        return;
    sw_json_put_string(j, "run", p->run);
    report_put_batch(j, p->batch);
    sw_json_put_u64(j, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(j, "peak_bytes", s->peak);
    sw_json_put_string(j, "peak_op", s->peak_op < p->n_ops ? p->ops[s->peak_op].name : NULL);
    report_put_by_phase(j, "phases", s->phase);
    table_put(j, "holders", &holders);
    sw_json_end(j);
}

/* ---- one member -------------------------------------------------------------------------- */

static sw_status member_report(population *p, uint32_t member, population_format format,
                               const report_tail *more, const report_style *style)
{
    const population_turn *t = population_last(p);
    if (t == NULL)
        SW_FAIL(SW_INVALID, "%s: no turn has ended in this file", p->shown);
    if (member >= t->n)
        SW_FAIL(SW_INVALID, "--member must be 0 to %" PRIu32 " in %s (got %" PRIu32 ")",
                t->n - 1, p->shown, member);
    const population_member *m = &t->at[member];
    const population_shape *s = &p->shapes[m->shape];
    const sw_tl_program *program =
        s->highest != SW_TL_NONE ? &p->timeline->programs[s->highest] : NULL;
    const table parts = part_table(&s->parts);
    population_step step = {.peak = 0};
    if (program != NULL)
        SW_TRY(step_of(&step, p, program));
    if (format == POPULATION_CSV)
        table_print_csv(style, &parts);
    if (format == POPULATION_TEXT) {
        const sw_writer *to = style->to;
        print_head(p, style);
        sw_writer_print(to, "\n");
        sw_writer_say(to, 0, 2,
                      "Member %" PRIu32 " in turn %" PRIu64 ", step %" PRIu64 ": %s, %s",
                      m->member, t->turn, m->step, m->shape_name, m->place);
        if (m->donor >= 0)
            sw_writer_say(to, 2, 4, "a copy of member %" PRId64 " since this turn began",
                          m->donor);
        if (!isnan(m->score))
            sw_writer_print(to, "  score %.5g, loss %.5g\n", m->score, m->loss);
        for (uint32_t i = 0; i < p->n_names; i++)
            sw_writer_say(to, 2, 4, "%s %.6g", p->names[i], values_of(p, t, m->member)[i]);
        sw_writer_print(to, "  %s of the budget", table_bytes(m->range_bytes, style).text);
        sw_writer_print(to, "; outside of it %s that wait",
                        table_bytes(m->waiting_bytes, style).text);
        sw_writer_print(to, " and %s kept\n\n", table_bytes(m->kept_bytes, style).text);
        table_print(&parts, parts.n, style);
        sw_writer_print(to, "  together %s\n", table_bytes(m->member_bytes, style).text);
        sw_writer_text(to, program != NULL ? "\n" : "");
        if (program != NULL)
            print_step(&step, program, style);
    }
    if (format != POPULATION_JSON)
        return SW_OK;
    sw_json j;
    begin_json(&j, p);
    sw_json_put_u64(&j, "turn", t->turn);
    PUT(&j, m, FIELDS(population_member, member, step, member_seed),
        FIELD(population_member, "shape", shape_name),
        FIELDS(population_member, place, member_status, score, loss, train_loss),
        FIELDS_KNOWN(population_member, donor));
    put_values(&j, "values", p, t, member);
    SW_JSON_PUT(&j, m, member_bytes, range_bytes, waiting_bytes, kept_bytes);
    table_put(&j, "parts", &parts);
    put_step(&j, &step, program);
    return end_json(&j, p, more, style);
}

/* ---- all members ------------------------------------------------------------------------- */

#define SHOWN_MEMBERS 50

typedef struct {
    const char *name;
    uint64_t members, member_bytes, batch_bytes;
    int64_t arena_bytes; /* -1: it has no plan */
    const population_shape *shape;
    const sw_tl_program *program; /* with its highest step; NULL: it has none */
    population_step step;
} shape_line;

static const table_column shape_columns[] = {
    COLUMN(shape_line, "shape", "shape", TABLE_NAME, 30, name),
    COLUMN(shape_line, "members", "members", TABLE_COUNT, 7, members),
    COLUMN(shape_line, "member_bytes", "a member", TABLE_BYTES, 11, member_bytes),
    COLUMN_KNOWN(shape_line, NULL, "its step", TABLE_BYTES, 11, arena_bytes),
    COLUMN(shape_line, "batch_bytes", "its batch", TABLE_BYTES, 11, batch_bytes)};

/* A turn of a population, and what is shown of it. */
typedef struct {
    population *p;
    const population_turn *turn; /* NULL: none has ended */
    shape_line *shapes;          /* those that members have */
    uint32_t n_shapes;
    population_rows rows;
} view;

/* Shapes that members have in the turn; all of the file where there is no turn. */
static sw_status make_view(view *v)
{
    population *p = v->p;
    SW_TRY(
        sw_timeline_alloc(p->timeline, &v->shapes, (size_t)p->n_shapes + 1, sizeof *v->shapes));
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const population_shape *s = &p->shapes[i];
        shape_line *l = &v->shapes[v->n_shapes];
        *l = (shape_line){s->name, 0,    s->member_bytes, s->batch_bytes, -1,
                          s,       NULL, {{0}, 0, 0, {0}}};
        for (uint32_t k = 0; v->turn != NULL && k < v->turn->n; k++)
            l->members += v->turn->at[k].shape == i;
        if (v->turn != NULL && l->members == 0)
            continue;
        v->n_shapes++;
        if (s->highest == SW_TL_NONE)
            continue;
        l->program = &p->timeline->programs[s->highest];
        l->arena_bytes = (int64_t)l->program->arena_bytes;
        SW_TRY(step_of(&l->step, p, l->program));
    }
    return v->turn != NULL ? attribute(&v->rows, p, v->turn) : SW_OK;
}

/* The shape with the highest step in full: it decides the lanes. */
static void print_shapes(const view *v, const report_style *style)
{
    const table t = TABLE_OF(shape_columns, v->shapes, v->n_shapes);
    const shape_line *highest = v->shapes;
    report_headline(style, "Shapes");
    table_print(&t, t.n, style);
    for (uint32_t i = 1; i < v->n_shapes; i++)
        if (v->shapes[i].step.peak > highest->step.peak)
            highest = &v->shapes[i];
    if (v->n_shapes == 0)
        return;
    const table parts = part_table(&highest->shape->parts);
    sw_writer_print(style->to, "\n");
    sw_writer_say(style->to, 0, 2, "A member of %s%s", highest->name,
                  v->n_shapes > 1 ? ", whose step is the highest" : "");
    table_print(&parts, parts.n, style);
    if (highest->program != NULL)
        print_step(&highest->step, highest->program, style);
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

/* Exact or not, the lines and their sum are those of one turn. */
static void print_budget(const view *v, const report_style *style)
{
    static const char *const kind_words[POPULATION_KINDS] = {"parameters", "optimizer state",
                                                             "buffers", "knobs"};
    const population_turn *t = v->turn;
    const document d = {.style = style};
    char text[80];
    uint64_t resident = 0;
    for (uint32_t i = 0; i < t->n; i++)
        resident += t->at[i].resident;
    (void)document_open(&d, NULL, true, "Held by the budget, of %" PRIu64 " resident members",
                        resident);
    for (int k = 0; k < POPULATION_KINDS; k++)
        document_bytes(&d, 2, NULL, kind_words[k], (int64_t)sum_of(v, "member", k), "");
    document_bytes(&d, 2, NULL, "free ranges", (int64_t)sum_of(v, "free", -1),
                   "for members that come in");
    snprintf(text, sizeof text, "of %" PRIu64 " lanes", t->lanes);
    document_bytes(&d, 2, NULL, "step arenas", (int64_t)sum_of(v, "step arena", -1), text);
    document_bytes(&d, 2, NULL, "batches", (int64_t)sum_of(v, "batch", -1), text);
    document_bytes(&d, 2, NULL, "together", (int64_t)v->rows.sum, "");
    document_bytes(&d, 2, NULL, "measured", (int64_t)t->measured_bytes, "");
    document_bytes(&d, 2, NULL, "planned", (int64_t)t->predicted_bytes,
                   "for this turn, at most");
    if (v->p->budget_bytes > 0)
        document_bytes(&d, 2, NULL, "budget", (int64_t)v->p->budget_bytes, "");
    document_bytes(&d, 2, NULL, "outside of the budget", (int64_t)t->outside_bytes,
                   "waiting and kept");
    if (v->p->peak_bytes > t->measured_bytes && !style->quiet)
        document_say(&d, 2, 4, "the most that was measured is %s, in turn %" PRIu64,
                     table_bytes(v->p->peak_bytes, style).text, v->p->peak_turn);
}

static void print_text(const view *v, const report_style *style)
{
    print_head(v->p, style);
    if (v->turn == NULL) {
        sw_writer_text(style->to, "no turn has ended in this file\n");
        print_shapes(v, style);
        return;
    }
    const table t = TABLE_OF(member_columns, v->turn->at, v->turn->n);
    const document d = {.style = style};
    (void)document_open(&d, NULL, true, "Members in turn %" PRIu64 ", step %" PRIu64,
                        v->turn->turn, v->turn->step);
    table_print(&t, t.n < SHOWN_MEMBERS ? t.n : SHOWN_MEMBERS, style);
    if (t.n > SHOWN_MEMBERS && !style->quiet)
        document_say(&d, 2, 4, "%zu members more: --json and --format csv have them",
                     t.n - SHOWN_MEMBERS);
    print_shapes(v, style);
    print_budget(v, style);
}

static sw_status print_json(const view *v, const report_tail *more, const report_style *style)
{
    const population_turn *t = v->turn;
    sw_json j;
    begin_json(&j, v->p);
    if (t != NULL) {
        PUT_FIELDS(&j, turn_fields, t);
        table_put(&j, "members", &TABLE_OF(member_columns, t->at, t->n));
        sw_json_open(&j, "values", '[');
        for (uint32_t i = 0; i < t->n; i++) {
            sw_json_begin(&j, '{');
            sw_json_put_u64(&j, "member", i);
            put_values(&j, "values", v->p, t, i);
            sw_json_end(&j);
        }
        sw_json_end(&j);
        table_put(&j, "budget", &TABLE_OF(budget_columns, v->rows.at, v->rows.n));
        sw_json_put_u64(&j, "sum_bytes", v->rows.sum);
    }
    sw_json_open(&j, "shapes", '[');
    for (uint32_t i = 0; i < v->n_shapes; i++) {
        const shape_line *s = &v->shapes[i];
        const table parts = part_table(&s->shape->parts);
        sw_json_begin(&j, '{');
        PUT_FIELDS(&j, shape_columns, s);
        table_put(&j, "parts", &parts);
        put_step(&j, &s->step, s->program);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    return end_json(&j, v->p, more, style);
}

sw_status population_print(population *p, int64_t member, population_format format,
                           const report_tail *more, const report_style *style)
{
    view v = {.p = p, .turn = population_last(p), .rows.timeline = p->timeline};
    if (member >= 0)
        return member_report(p, (uint32_t)member, format, more, style);
    SW_TRY(make_view(&v));
    if (format == POPULATION_JSON)
        return print_json(&v, more, style);
    if (format == POPULATION_CSV)
        table_print_csv(style, &TABLE_OF(budget_columns, v.rows.at, v.rows.n));
    else
        print_text(&v, style);
    return SW_OK;
}

/* ---- two turns --------------------------------------------------------------------------- */

enum { NOTE_BYTES = 512 };

typedef struct {
    uint64_t member, all[2];
    double score[2], score_change;                     /* NaN: none */
    int64_t range[2], range_change, donor, origin;     /* -1: none */
    const char *place[2], *shape[2], *shapes, *values; /* values: those that changed */
} pair_line;

#define PAIR(key, head, kind, width, member) COLUMN(pair_line, key, head, kind, width, member)
static const table_column pair_columns[] = {
    PAIR("member", "member", TABLE_COUNT, 6, member),
    PAIR("score_a", "score A", TABLE_REAL, 9, score[0]),
    PAIR("score_b", "score B", TABLE_REAL, 9, score[1]),
    PAIR("score_difference", "change", TABLE_REAL, 11, score_change),
    COLUMN_KNOWN(pair_line, "range_bytes_a", "range A", TABLE_BYTES, 11, range[0]),
    COLUMN_KNOWN(pair_line, "range_bytes_b", "range B", TABLE_BYTES, 11, range[1]),
    PAIR("range_difference_bytes", "change", TABLE_CHANGE, 12, range_change),
    PAIR("all_bytes_a", NULL, TABLE_BYTES, 0, all[0]),
    PAIR("all_bytes_b", NULL, TABLE_BYTES, 0, all[1]),
    PAIR("place_a", NULL, TABLE_TEXT, 0, place[0]),
    PAIR("place_b", NULL, TABLE_TEXT, 0, place[1]),
    COLUMN_KNOWN(pair_line, "donor_b", "donor", TABLE_COUNT, 6, donor),
    COLUMN_KNOWN(pair_line, "origin", "from", TABLE_COUNT, 6, origin),
    PAIR("shape_a", NULL, TABLE_TEXT, 0, shape[0]),
    PAIR("shape_b", NULL, TABLE_TEXT, 0, shape[1]),
    PAIR("shape", "shape", TABLE_TEXT, 64, shapes),
    PAIR("changed_values", "values", TABLE_TEXT, 70, values)};

typedef struct {
    const char *name;
    uint64_t x[2];
    int64_t change;
} total_line;

static const table_column total_columns[] = {
    COLUMN(total_line, "name", "bytes", TABLE_NAME, 14, name),
    COLUMN(total_line, "a", "A", TABLE_BYTES, 17, x[0]),
    COLUMN(total_line, "b", "B", TABLE_BYTES, 17, x[1]),
    COLUMN(total_line, "difference", "change", TABLE_CHANGE, 18, change)};

typedef struct {
    const population_pair *pair;
    total_line totals[TURN_TOTALS];
    pair_line *lines;
    uint32_t n; /* members of the larger side */
    uint32_t changed_shapes, changed_values;
} pair_view;

/* The value of that name; NaN: there is none. */
static double value_of(const population_pair *x, int side, uint32_t member, const char *name)
{
    const population *p = x->of[side];
    for (uint32_t i = 0; i < p->n_names; i++)
        if (strcmp(p->names[i], name) == 0)
            return values_of(p, x->turn[side], member)[i];
    return (double)NAN;
}

static sw_status make_line(pair_view *v, uint32_t i)
{
    const population_pair *x = v->pair;
    sw_timeline *t = x->of[0]->timeline;
    pair_line *l = &v->lines[i];
    char note[NOTE_BYTES] = "", shapes[2 * 48] = "the same";
    bool both = true;
    *l = (pair_line){.member = i, .donor = -1, .origin = -1};
    for (int s = 0; s < 2; s++) {
        const population_member *m = i < x->turn[s]->n ? &x->turn[s]->at[i] : NULL;
        both &= m != NULL;
        l->score[s] = m != NULL ? m->score : (double)NAN;
        l->range[s] = m != NULL ? (int64_t)m->range_bytes : -1;
        l->all[s] = m != NULL ? m->range_bytes + m->waiting_bytes + m->kept_bytes : 0;
        l->place[s] = m != NULL ? m->place : NULL;
        l->shape[s] = m != NULL ? m->shape_name : NULL;
        l->donor = s == 1 && m != NULL ? m->donor : -1;
    }
    const int newer = x->newer, older = 1 - newer;
    l->score_change = l->score[newer] - l->score[older];
    l->range_change = (l->range[newer] > 0 ? l->range[newer] : 0) -
                      (l->range[older] > 0 ? l->range[older] : 0);
    if (x->origin != NULL)
        l->origin = x->origin[i];
    if (!both || strcmp(l->shape[0], l->shape[1]) != 0) {
        snprintf(shapes, sizeof shapes, "%.44s to %.44s",
                 l->shape[0] != NULL ? l->shape[0] : "none",
                 l->shape[1] != NULL ? l->shape[1] : "none");
        v->changed_shapes += both;
    }
    /* "lr 0.01 to 0.012, batch 64 to 32"; a side that lacks the member has no values. */
    const population *p = x->of[1];
    size_t used = 0;
    for (uint32_t k = 0; both && k < p->n_names && used < NOTE_BYTES; k++) {
        char text[2][32];
        const double of[2] = {value_of(x, 0, i, p->names[k]), value_of(x, 1, i, p->names[k])};
        if (of[0] == of[1] || (isnan(of[0]) && isnan(of[1])))
            continue;
        for (int s = 0; s < 2; s++)
            snprintf(text[s], sizeof text[s], isnan(of[s]) ? "none" : "%.5g", of[s]);
        used += (size_t)snprintf(note + used, NOTE_BYTES - used, "%s%.40s %s to %s",
                                 used > 0 ? ", " : "", p->names[k], text[0], text[1]);
    }
    v->changed_values += note[0] != '\0';
    SW_TRY(sw_timeline_string(t, &l->shapes, shapes));
    return sw_timeline_string(t, &l->values, note);
}

static void print_pair(const pair_view *v, const table *lines, const report_style *style)
{
    const population_pair *x = v->pair;
    const sw_writer *to = style->to;
    for (int s = 0; s < 2; s++)
        sw_writer_say(to, 0, 2, "%c: turn %" PRIu64 ", step %" PRIu64 " of %s", 'A' + s,
                      x->turn[s]->turn, x->turn[s]->step, x->of[s]->shown);
    sw_writer_say(to, 0, 2, "changes are %s", x->newer == 1 ? "B - A" : "A - B");
    sw_writer_print(to, "\n");
    table_print(&TABLE_OF(total_columns, v->totals, TURN_TOTALS), TURN_TOTALS, style);
    sw_writer_print(to, "\n");
    sw_writer_say(to, 0, 2,
                  "of %" PRIu32 " members %" PRIu32 " changed shape and %" PRIu32 " values",
                  v->n, v->changed_shapes, v->changed_values);
    if (x->origin != NULL)
        sw_writer_say(to, 0, 2,
                      "%s copies were made between the turns; \"from\" is the member of the "
                      "earlier one that a member comes from",
                      sw_text_digits(x->copies).text);
    table_print(lines, lines->n, style);
}

static sw_status put_pair(const pair_view *v, const table *lines, const report_tail *more,
                          const report_style *style)
{
    static const char *const keys[] = {"a", "b"};
    const population_pair *x = v->pair;
    sw_json j;
    report_begin_object(&j);
    sw_json_put_string(&j, "kind", "population");
    for (int s = 0; s < 2; s++) {
        sw_json_open(&j, keys[s], '{');
        sw_json_put_string(&j, "file", x->of[s]->shown);
        table_put_fields(&j, turn_fields, 2, x->turn[s]); /* turn and step */
        sw_json_end(&j);
    }
    sw_json_put_string(&j, "newer", keys[x->newer]);
    table_put(&j, "totals", &TABLE_OF(total_columns, v->totals, TURN_TOTALS));
    sw_json_put_u64(&j, "changed_shape", v->changed_shapes);
    sw_json_put_u64(&j, "changed_values", v->changed_values);
    sw_json_put_known(&j, "copies", x->origin != NULL, x->copies);
    table_put(&j, "members", lines);
    sw_json_open(&j, "values", '[');
    for (uint32_t i = 0; i < v->n; i++) {
        sw_json_begin(&j, '{');
        sw_json_put_u64(&j, "member", i);
        for (int s = 0; s < 2; s++)
            put_values(&j, keys[s], x->of[s], x->turn[s], i);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    return end_json(&j, x->of[x->newer], more, style);
}

sw_status population_compare(const population_pair *pair, population_format format,
                             const report_tail *more, const report_style *style)
{
    pair_view v = {.pair = pair};
    const population_pair *x = v.pair;
    for (int k = 0; k < TURN_TOTALS; k++) {
        const table_column *c = &turn_columns[TURN_BYTES + k];
        total_line *t = &v.totals[k];
        t->name = c->head;
        for (int s = 0; s < 2; s++)
            t->x[s] = *(const uint64_t *)((const char *)x->turn[s] + c->at);
        t->change = (int64_t)(t->x[x->newer] - t->x[1 - x->newer]);
    }
    for (int s = 0; s < 2; s++)
        v.n = x->turn[s]->n > v.n ? x->turn[s]->n : v.n;
    SW_TRY(sw_timeline_alloc(x->of[0]->timeline, &v.lines, (size_t)v.n + 1, sizeof *v.lines));
    for (uint32_t i = 0; i < v.n; i++)
        SW_TRY(make_line(&v, i));

    table t = TABLE_OF(pair_columns, v.lines, v.n);
    t.empty = "the same";
    if (format == POPULATION_JSON)
        return put_pair(&v, &t, more, style);
    if (format == POPULATION_CSV)
        table_print_csv(style, &t);
    else
        print_pair(&v, &t, style);
    return SW_OK;
}

/* ---- the page ---------------------------------------------------------------------------- */

static const char begin[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>stepwell: population</title>\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em}\n"
    "table{border-collapse:collapse}td,th{padding:.15em .6em;text-align:right;"
    "white-space:nowrap}\n"
    "th{font-weight:600;position:sticky;top:0;background:Canvas}\n"
    "td:first-child,th:first-child{position:sticky;left:0;background:Canvas}\n"
    ".scroll{overflow:auto;max-height:70vh;border:1px solid GrayText}\n"
    ".copy{outline:2px solid Highlight;outline-offset:-2px}.waits{opacity:.6}\n"
    "</style></head><body>\n";

typedef struct {
    sw_status (*write)(void *context, const char *bytes, size_t n);
    void *context;
    sw_status status; /* the first error; later texts are dropped */
} page;

static void put_page(void *context, const char *bytes, size_t n)
{
    page *g = context;
    if (g->status == SW_OK)
        g->status = g->write(g->context, bytes, n);
}

static void put_members(const sw_writer *to, const population *p)
{
    sw_writer_print(to, "<h2>Members and turns</h2>\n<p>Scores%s",
                    *p->timeline->scores != '\0' ? ": " : "");
    html_escaped(to, p->timeline->scores);
    sw_writer_text(to,
                   ". A frame: the member began the turn as a copy. Pale: it waited outside "
                   "of the budget.</p>\n"
                   "<div class=\"scroll\"><table id=\"members\">\n<tr><th>member</th>");
    for (uint32_t i = 0; i < p->n_turns; i++)
        sw_writer_print(to, "<th>%" PRIu64 "</th>", p->turns[i].turn);
    sw_writer_text(to, "</tr>\n");
    for (uint32_t k = 0; k < p->members && p->n_turns > 0; k++) {
        sw_writer_print(to, "<tr><td>%" PRIu32 "</td>", k);
        for (uint32_t j = 0; j < p->n_turns; j++) {
            /* The score; the owners of the bytes by the pointer. A frame: it began the turn as
             * a copy. */
            const population_turn *t = &p->turns[j];
            const population_member *m = &t->at[k];
            sw_writer_print(to, "<td class=\"%s%s\" title=\"", m->donor >= 0 ? "copy " : "",
                            m->resident ? "" : "waits");
            html_escaped(to, m->shape_name);
            sw_writer_print(
                to, ", step %" PRIu64 ", %" PRIu64 " bytes in the budget, %" PRIu64 " outside",
                m->step, m->range_bytes, m->waiting_bytes + m->kept_bytes);
            if (m->donor >= 0)
                sw_writer_print(to, ", a copy of member %" PRId64, m->donor);
            for (uint32_t i = 0; i < p->n_names; i++) {
                sw_writer_text(to, ", ");
                html_escaped(to, p->names[i]);
                sw_writer_print(to, " %.6g", values_of(p, t, m->member)[i]);
            }
            sw_writer_print(to, isnan(m->score) ? "\">-</td>" : "\">%.5g</td>", m->score);
        }
        sw_writer_text(to, "</tr>\n");
    }
    sw_writer_text(to, "</table></div>\n<h2>Bytes of turns</h2>\n");
}

sw_status population_html(population *p,
                          sw_status (*write)(void *context, const char *bytes, size_t n),
                          void *context)
{
    page g = {write, context, SW_OK};
    const sw_writer to = {put_page, &g, false, 0};
    population_rows rows = {.timeline = p->timeline};
    for (uint32_t i = 0; i < p->n_shapes && g.status == SW_OK; i++)
        for (uint32_t k = 0; k < p->shapes[i].parts.n && g.status == SW_OK; k++) {
            const population_part *x = &p->shapes[i].parts.at[k];
            g.status = add_row(&rows, (population_row){"", -1, p->shapes[i].name, x->layer,
                                                       x->role, x->bytes});
        }
    table shapes = TABLE_OF(budget_columns, rows.at, rows.n);
    shapes.columns += 2; /* shape, layer, role, bytes */
    shapes.n_columns -= 2;
    sw_writer_text(&to, begin);
    sw_writer_print(&to, "<h1>%" PRIu64 " members of ", p->members);
    html_escaped(&to, p->timeline->model);
    sw_writer_text(&to, "</h1>\n<p>");
    html_escaped(&to, p->timeline->command);
    sw_writer_print(&to, "</p>\n<p>%" PRIu64 " turns%s", p->seen_turns,
                    p->file.ended ? ", the run is " : "");
    html_escaped(&to, p->file.status);
    sw_writer_text(&to, "</p>\n");
    put_members(&to, p);
    table_print_html(&to, "turns", &TABLE_OF(turn_columns, p->turns, p->n_turns));
    sw_writer_text(&to, "<h2>Bytes of a member, by shape, layer and role</h2>\n");
    table_print_html(&to, "shapes", &shapes);
    sw_writer_text(&to, "</body></html>\n");
    return g.status;
}
