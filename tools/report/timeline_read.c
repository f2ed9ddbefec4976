/* From a profile to a timeline, in two passes: the first takes the programs and remembers where
 * the runs stand that are kept, the second reads those. */
#include "profiler/record/utf8.h"
#include "tools/report/timeline_read.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/snapshot_read.h"

#include "profiler/record/record.h"
#include "tools/report/report_lines.h"
#include "tools/report/report_members.h"
#include "profiler/inspect/timeline_layers.h"
#include <stdio.h>
#include <string.h>

#define LOG_FIELDS 5 /* numbers of an event */

/* Where a run stands, the events in front of it included. */
typedef struct {
    uint64_t at, line, weight;
} run_place;

typedef struct {
    run_place *at; /* a ring of cap places, n of them from `first` on */
    uint32_t cap, first, n;
    uint64_t weight;
} run_list;

typedef struct {
    sw_timeline *t;
    const timeline_want *want;
    report_lines lines;
    run_list front, back;
    uint64_t events_at, events_line; /* of the first events record in front of the next run */
    bool has_events, second, ended;
    sw_record *log; /* of the run that is read */
    uint32_t n_log, cap_log;
    uint64_t dropped;
} reader;

/* ---- small parts ------------------------------------------------------------------------- */

static sw_status text_of(sw_timeline *t, const report_place *p, value o, const char *key,
                         const char **out)
{
    const value x = value_at(o, key);
    if (x != 0 && !value_is_null(x) && !value_is_text(x))
        return report_wrong(p, key, "a string");
    return sw_timeline_string(t, out, value_text(x));
}

static sw_status u32_of(const report_place *p, value o, const char *key, uint32_t most,
                        uint32_t *out)
{
    uint64_t x;
    SW_TRY(report_need_u64(p, o, key, &x));
    if (x > most)
        return report_wrong(p, key, "in range");
    *out = (uint32_t)x;
    return SW_OK;
}

static uint64_t highest(const sw_prof_phase *phase)
{
    uint64_t peak = 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        peak = phase[i].peak_bytes > peak ? phase[i].peak_bytes : peak;
    return peak;
}

/* ---- header and programs ------------------------------------------------------------------
 */

sw_status report_take_header(sw_timeline *t, const report_place *p)
{
    char type[16], format[32];
    uint64_t version;
    SW_TRY(report_get_text(p, p->record, "type", type, sizeof type));
    if (strcmp(type, "header") != 0)
        return report_damaged(p, "not a stepwell profile: it does not begin with a header");
    SW_TRY(report_get_text(p, p->record, "format", format, sizeof format));
    if (strcmp(format, "stepwell-profile") != 0)
        return report_damaged(p, "not a stepwell profile: the format is another");
    SW_TRY(report_need_u64(p, p->record, "version", &version));
    if (version != 1)
        SW_FAIL(SW_FORMAT, "%s: profile version %llu; this program reads version 1", p->path,
                (unsigned long long)version);
    SW_TRY(text_of(t, p, p->record, "model", &t->model));
    SW_TRY(text_of(t, p, p->record, "device", &t->device));
    SW_TRY(text_of(t, p, p->record, "data", &t->data));
    SW_TRY(text_of(t, p, p->record, "created", &t->created));
    SW_TRY(text_of(t, p, p->record, "command", &t->command));
    SW_TRY(report_get_u64(p, p->record, "seed", 0, &t->seed));
    return report_get_batch(p, &t->batch);
}

static sw_status take_value(reader *r, const report_place *p, value o,
                            const sw_tl_program *program, sw_tl_value *v)
{
    const char *segment;
    uint64_t alias;
    if (!value_is_dict(o))
        return report_wrong(p, "values", "a list of values");
    SW_TRY(u32_of(p, o, "id", UINT32_MAX - 1, &v->id));
    SW_TRY(report_get_in(p, o, "alias", UINT32_MAX, SW_TL_NONE, &alias));
    v->alias = (uint32_t)alias;
    SW_TRY(text_of(r->t, p, o, "name", &v->name));
    SW_TRY(text_of(r->t, p, o, "layer", &v->layer));
    SW_TRY(text_of(r->t, p, o, "op", &v->op));
    SW_TRY(text_of(r->t, p, o, "role", &v->role));
    SW_TRY(text_of(r->t, p, o, "phase", &v->phase));
    SW_TRY(text_of(r->t, p, o, "segment", &segment));
    v->segment = strcmp(segment, "model") == 0   ? SW_TL_MODEL
                 : strcmp(segment, "input") == 0 ? SW_TL_INPUT
                                                 : SW_TL_STEP;
    SW_TRY(report_need_u64(p, o, "bytes", &v->bytes));
    SW_TRY(report_need_u64(p, o, "padding", &v->padding));
    SW_TRY(report_get_u64(p, o, "offset", 0, &v->offset));
    SW_TRY(u32_of(p, o, "birth", program->n_ops, &v->birth));
    return u32_of(p, o, "death", program->n_ops, &v->death);
}

/* Models count their offsets apart, and so do inputs: here each follows the one before, so that
 * no two share addresses. */
static void lay_out(sw_tl_program *program)
{
    uint64_t base[SW_TL_SEGMENTS] = {0}, end[SW_TL_SEGMENTS] = {0};
    for (uint32_t i = 0; i < program->n_values; i++) {
        sw_tl_value *v = &program->values[i];
        if (v->segment == SW_TL_STEP)
            continue;
        if (base[v->segment] + v->offset < end[v->segment])
            base[v->segment] = end[v->segment];
        v->offset += base[v->segment];
        end[v->segment] = v->offset + v->bytes + v->padding;
    }
}

/* Files from before ops had phases: that of what is born there, else that of the op before. */
static void guess_phases(sw_tl_program *program)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        program->ops[i].phase = UINT8_MAX;
    for (uint32_t i = 0; i < program->n_values; i++)
        for (uint8_t f = 0; f < SW_PROF_PHASES; f++)
            if (program->values[i].segment == SW_TL_STEP &&
                program->values[i].birth < program->n_ops &&
                strcmp(program->values[i].phase, sw_prof_phase_name(f)) == 0)
                program->ops[program->values[i].birth].phase = f;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].phase == UINT8_MAX)
            program->ops[i].phase = i > 0 ? program->ops[i - 1].phase : 1;
}

static sw_status take_ops(reader *r, const report_place *p, sw_tl_program *program)
{
    const value ops = value_at(p->record, "ops");
    const value layers = value_at(p->record, "layers"),
                op_layer = value_at(p->record, "op_layer");
    const char *phases = value_text(value_at(p->record, "op_phase"));
    const bool detailed = layers != 0 && op_layer != 0 && phases != NULL;
    if (!value_is_list(ops) || value_count(ops) >= UINT32_MAX)
        return report_wrong(p, "ops", "a list of names");
    const size_t n = value_count(ops);
    if (detailed && (value_count(op_layer) != n || strlen(phases) != n))
        return report_wrong(p, "op_layer", "as long as the list of ops");
    void *block;
    SW_TRY(sw_timeline_room(r->t, &block, n, sizeof *program->ops));
    program->ops = block;
    program->n_ops = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const char *name = value_text(value_item(ops, i));
        if (name == NULL)
            return report_wrong(p, "ops", "a list of names");
        SW_TRY(sw_timeline_string(r->t, &program->ops[i].name, name));
        uint64_t layer = 0;
        if (detailed && !value_whole(value_item(op_layer, i), &layer))
            return report_wrong(p, "op_layer", "a list of numbers");
        SW_TRY(sw_timeline_string(r->t, &program->ops[i].layer,
                                  detailed ? value_text(value_item(layers, layer)) : NULL));
        program->ops[i].phase = detailed ? (uint8_t)(phases[i] - '0') : 0;
    }
    return SW_OK;
}

static sw_status take_sums(const report_place *p, sw_tl_program *program)
{
    const struct {
        const char *key;
        uint64_t *to;
    } sums[] = {{"model_bytes", &program->model_bytes},
                {"arena_bytes", &program->arena_bytes},
                {"data_bytes", &program->data_bytes},
                {"total_bytes", &program->total_bytes},
                {"lower_bound_bytes", &program->lower_bound_bytes}};
    SW_TRY(report_get_batch(p, &program->batch));
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) /* nothing of a trace is planned */
        SW_TRY(program->immediate ? report_get_u64(p, p->record, sums[i].key, 0, sums[i].to)
                                  : report_need_u64(p, p->record, sums[i].key, sums[i].to));
    if (program->immediate) {
        uint64_t slot;
        SW_TRY(report_get_u64(p, p->record, "slot_bytes", 0, &slot));
        SW_TRY(report_get_u64(p, p->record, "data_bytes", slot, &program->data_bytes));
        program->total_bytes =
            program->model_bytes + program->arena_bytes + program->data_bytes;
    }
    if (!program->immediate || value_at(p->record, "phases") != 0)
        SW_TRY(report_need_phases(p, program->phase));
    program->peak_bytes = highest(program->phase);
    SW_TRY(
        report_get_u64(p, p->record, "peak_bytes", program->peak_bytes, &program->peak_bytes));
    uint64_t peak_op;
    SW_TRY(report_get_in(p, p->record, "peak_position", UINT32_MAX - 1, 0, &peak_op));
    program->peak_op = (uint32_t)peak_op;
    return SW_OK;
}

static sw_status take_program(reader *r, const report_place *p, bool immediate)
{
    sw_tl_program *program;
    bool has;
    SW_TRY(sw_timeline_add_program(r->t, &program));
    program->immediate = immediate;
    SW_TRY(report_get_key(p, &program->key, &has));
    if (!has)
        return report_wrong(p, immediate ? "trace" : "program", "a number");
    SW_TRY(text_of(r->t, p, p->record, "run", &program->run));
    SW_TRY(take_sums(p, program));
    SW_TRY(take_ops(r, p, program));
    const value values = value_at(p->record, "values");
    const size_t n = value_count(values);
    if (!value_is_list(values) || n >= UINT32_MAX)
        return report_wrong(p, "values", "a list of values");
    void *block;
    SW_TRY(sw_timeline_room(r->t, &block, n, sizeof *program->values));
    program->values = block;
    for (size_t i = 0; i < n; i++) {
        SW_TRY(take_value(r, p, value_item(values, i), program, &program->values[i]));
        program->n_values++;
    }
    if (value_at(p->record, "op_phase") == 0)
        guess_phases(program);
    lay_out(program);
    return timeline_settle_layers(r->t, program);
}

sw_status report_take_program(sw_timeline *t, const report_place *p, bool immediate)
{
    reader r = {.t = t};
    const uint32_t before = t->n_programs;
    sw_status status = take_program(&r, p, immediate);
    if (status == SW_OK) {
        status = sw_timeline_finish_program(t, &t->programs[before]);
        if (status == SW_FORMAT) { /* which knows the file, but no lines */
            const size_t n = strlen(t->path);
            const char *said = sw_last_error();
            char why[1024];
            snprintf(why, sizeof why, "%s",
                     strncmp(said, t->path, n) == 0 && said[n] == ':' ? said + n + 2 : said);
            status = report_damaged(p, why);
        }
    }
    if (status != SW_OK)
        t->n_programs = before;
    return status;
}

/* The latest of that key. */
static uint32_t find_program(const sw_timeline *t, uint64_t key)
{
    for (uint32_t i = t->n_programs; i > 0; i--)
        if (t->programs[i - 1].key == key)
            return i - 1;
    return SW_TL_NONE;
}

/* ---- which runs -------------------------------------------------------------------------- */

static sw_status push(run_list *l, run_place x)
{
    if (l->n == l->cap) {
        void *block = NULL;
        const uint32_t cap = l->cap == 0 ? 64 : l->cap * 2;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, cap * sizeof *l->at));
        run_place *to = block;
        for (uint32_t i = 0; i < l->n; i++)
            to[i] = l->at[(l->first + i) & (l->cap - 1)];
        sw_heap_free(l->at, SW_HEAP_PROFILE, l->cap * sizeof *l->at);
        *l = (run_list){to, cap, 0, l->n, l->weight};
    }
    l->at[(l->first + l->n++) & (l->cap - 1)] = x;
    l->weight += x.weight;
    return SW_OK;
}

static bool is_wanted(const timeline_want *want, uint64_t step)
{
    for (uint32_t i = 0; i < want->n_steps; i++)
        if (want->step[i] == step)
            return true;
    return want->n_steps == 0;
}

static sw_status choose_run(reader *r, const report_place *p)
{
    uint64_t key, step;
    bool has;
    const uint64_t limit =
        (r->want->max_events > 0 ? r->want->max_events : TIMELINE_EVENTS) / 2;
    SW_TRY(report_get_key(p, &key, &has));
    SW_TRY(report_need_u64(p, p->record, "step", &step));
    const uint32_t program = has ? find_program(r->t, key) : SW_TL_NONE;
    if (program == SW_TL_NONE || !is_wanted(r->want, step) ||
        value_at(p->record, "witnesses") != 0) {
        r->t->skipped_runs += value_at(p->record, "witnesses") == 0;
        return SW_OK;
    }
    const sw_tl_program *x = &r->t->programs[program];
    const run_place at = {r->has_events ? r->events_at : r->lines.at,
                          r->has_events ? r->events_line : p->line,
                          2 * ((uint64_t)x->n_values + x->n_ops) + 12};
    if (r->back.n == 0 && (r->front.n == 0 || r->front.weight + at.weight <= limit))
        return push(&r->front, at);
    SW_TRY(push(&r->back, at));
    while (r->back.n > 1 && r->back.weight > limit) {
        r->back.weight -= r->back.at[r->back.first].weight;
        r->back.first = (r->back.first + 1) & (r->back.cap - 1);
        r->back.n--;
        r->t->skipped_runs++;
    }
    return SW_OK;
}

/* ---- runs -------------------------------------------------------------------------------- */

static sw_status take_events(reader *r, const report_place *p)
{
    const value log = value_at(p->record, "log");
    const size_t n = value_count(log) / LOG_FIELDS;
    uint64_t dropped;
    if (!value_is_list(log) || n * LOG_FIELDS != value_count(log) || n >= UINT32_MAX - r->n_log)
        return report_wrong(p, "log", "a list of events");
    void *block = r->log;
    SW_TRY(sw_heap_room(&block, SW_HEAP_PROFILE, &r->cap_log, r->n_log + (uint32_t)n,
                        sizeof *r->log));
    r->log = block;
    for (size_t i = 0; i < n; i++) {
        uint64_t x[LOG_FIELDS];
        for (size_t k = 0; k < LOG_FIELDS; k++)
            if (!value_whole(value_item(log, i * LOG_FIELDS + k), &x[k]) ||
                x[k] > (k < 3 ? UINT32_MAX : UINT8_MAX))
                return report_wrong(p, "log", "a list of events");
        r->log[r->n_log++] = (sw_record){(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2],
                                         (uint8_t)x[3],  (uint8_t)x[4],  0};
    }
    SW_TRY(report_get_u64(p, p->record, "dropped", 0, &dropped));
    r->dropped = dropped;
    return SW_OK;
}

static sw_status keep_log(reader *r, sw_tl_run *run)
{
    void *block;
    if (r->n_log == 0)
        return SW_OK;
    SW_TRY(sw_timeline_room(r->t, &block, r->n_log, sizeof *r->log));
    memcpy(block, r->log, r->n_log * sizeof *r->log);
    run->log = block;
    run->n_log = r->n_log;
    run->dropped = r->dropped;
    return SW_OK;
}

static sw_status take_op_clocks(reader *r, const report_place *p, sw_tl_run *run)
{
    const value clocks = value_at(p->record, "op_ns");
    const size_t n = value_count(clocks);
    void *block;
    if (n == 0)
        return SW_OK;
    if (n != r->t->programs[run->program].n_ops)
        return report_wrong(p, "op_ns", "as long as the list of ops");
    SW_TRY(sw_timeline_room(r->t, &block, n, sizeof(uint64_t)));
    uint64_t *to = block;
    for (size_t i = 0; i < n; i++)
        if (!value_whole(value_item(clocks, i), &to[i]))
            return report_wrong(p, "op_ns", "a list of whole numbers");
    run->op_ns = to;
    run->clock = SW_TL_OPS;
    return SW_OK;
}

static sw_status take_run(reader *r, const report_place *p)
{
    sw_tl_run *run;
    uint64_t key, peak;
    bool has;
    SW_TRY(report_get_key(p, &key, &has));
    SW_TRY(sw_timeline_add_run(r->t, &run));
    run->program = find_program(r->t, key);
    SW_TRY(report_need_u64(p, p->record, "step", &run->step));
    SW_TRY(report_get_u64(p, p->record, "micro", 0, &run->micro));
    SW_TRY(report_get_u64(p, p->record, "at_ns", SW_TL_AFTER, &run->at_ns));
    SW_TRY(report_get_u64(p, p->record, "ns", 0, &run->ns));
    if (value_at(p->record, "phases") != 0)
        SW_TRY(report_need_phases(p, run->phase));
    peak = highest(run->phase);
    SW_TRY(report_get_u64(p, p->record, "peak_bytes", peak, &run->peak_bytes));
    const value loss = value_at(p->record, "loss");
    run->has_loss = value_is_number(loss);
    run->loss = value_real(loss);
    uint64_t clocked = 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        clocked += run->phase[i].ns;
    run->clock = clocked > 0 ? SW_TL_PHASES : SW_TL_UNTIMED;
    SW_TRY(take_op_clocks(r, p, run));
    return keep_log(r, run);
}

/* ---- the file ---------------------------------------------------------------------------- */

/* One record; the first pass takes programs and places, the second events and runs. */
static sw_status take(reader *r, const report_place *p, bool *run_ended)
{
    const char *type = value_text(value_at(p->record, "type"));
    if (type == NULL)
        return report_wrong(p, "type", "a string");
    if (p->line == 1)
        return report_take_header(r->t, p);
    const bool step = strcmp(type, "step") == 0, events = strcmp(type, "events") == 0;
    *run_ended = step;
    if (r->second)
        return step ? take_run(r, p) : events ? take_events(r, p) : SW_OK;
    if (events && !r->has_events) {
        r->has_events = true;
        r->events_at = r->lines.at;
        r->events_line = p->line;
    }
    if (step)
        SW_TRY(choose_run(r, p));
    if (step)
        r->has_events = false;
    if (strcmp(type, "plan") == 0 || strcmp(type, "trace") == 0)
        return report_take_program(r->t, p, type[0] == 't');
    if (strcmp(type, "end") == 0) {
        SW_TRY(text_of(r->t, p, p->record, "status", &r->t->ended));
        if (*r->t->ended == '\0')
            r->t->ended = "done";
        SW_TRY(text_of(r->t, p, p->record, "error", &r->t->why));
    }
    return SW_OK;
}

/* The next record; *more is false behind the last, or where the file is cut. */
static sw_status next(reader *r, bool *more, bool *run_ended)
{
    const char *text;
    size_t n;
    bool whole;
    SW_TRY(report_lines_next(&r->lines, &text, &n, &whole));
    *more = text != NULL;
    if (text == NULL)
        return SW_OK;
    report_place p = {.path = r->t->path, .line = r->lines.line};
    SW_TRY(report_lines_parse(&r->lines, text, n, &p.record));
    if (p.record != 0)
        return take(r, &p, run_ended);
    if (p.line == 1)
        SW_FAIL(SW_FORMAT, "%s: not a stepwell profile: line 1 is not a JSON record", p.path);
    *more = whole;
    return whole ? SW_FORMAT : SW_OK; /* why is said */
}

/* A run of which a record is damaged is none. */
static sw_status read_places(reader *r, const run_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const run_place *at = &l->at[(l->first + i) & (l->cap - 1)];
        const size_t before = r->t->n_runs;
        bool more = true, run_ended = false;
        sw_status status = report_lines_seek(&r->lines, at->at, at->line);
        r->n_log = 0;
        r->dropped = 0;
        while (more && !run_ended && status == SW_OK)
            status = next(r, &more, &run_ended);
        if (status != SW_OK) {
            r->t->n_runs = before;
            return status;
        }
    }
    return SW_OK;
}

/* What is damaged behind the header ends the reading, and what was read stays. */
static sw_status end_at_damage(reader *r, sw_status status)
{
    char why[4608];
    if (status != SW_FORMAT || r->lines.line <= 1)
        return status;
    sw_utf8_clean(why, sizeof why, sw_last_error());
    return sw_timeline_string(r->t, &r->t->damaged, why);
}

static sw_status read_both(reader *r)
{
    bool more = true, run_ended;
    sw_status status = SW_OK;
    while (more && status == SW_OK)
        status = next(r, &more, &run_ended);
    SW_TRY(end_at_damage(r, status));
    if (r->lines.line == 0)
        SW_FAIL(SW_FORMAT, "%s: the file is empty", r->t->path);
    r->second = true;
    status = read_places(r, &r->front);
    if (status == SW_OK)
        status = read_places(r, &r->back);
    SW_TRY(end_at_damage(r, status));
    return sw_timeline_finish(r->t);
}

static sw_status read_profile(sw_timeline *t, const timeline_want *want)
{
    reader r = {.t = t, .want = want};
    SW_TRY(report_lines_open(&r.lines, t->path));
    const sw_status status = read_both(&r);
    report_lines_close(&r.lines);
    sw_heap_free(r.front.at, SW_HEAP_PROFILE, r.front.cap * sizeof *r.front.at);
    sw_heap_free(r.back.at, SW_HEAP_PROFILE, r.back.cap * sizeof *r.back.at);
    sw_heap_free(r.log, SW_HEAP_PROFILE, r.cap_log * sizeof *r.log);
    return status;
}

sw_status timeline_open(sw_timeline **out, const char *path, const timeline_want *want)
{
    static const timeline_want all = {0};
    sw_timeline *t;
    SW_TRY(sw_timeline_new(&t));
    bool foreign = false;
    sw_status status = sw_timeline_string(t, &t->path, path);
    if (status == SW_OK)
        status = snapshot_is(path, &foreign);
    if (status == SW_OK)
        status = foreign ? snapshot_read(t) : read_profile(t, want != NULL ? want : &all);
    if (status != SW_OK) {
        sw_timeline_free(t);
        return status;
    }
    *out = t;
    return SW_OK;
}
