/* From a profile to a timeline, in two passes: the first takes the programs and remembers where
 * the runs stand that are kept, the second reads those. */
#include "profiler/record/utf8.h"
#include "profiler/inspect/timeline_read.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/record/record.h"
#include "profiler/inspect/profile_read.h"
#include <string.h>

#define LOG_FIELDS 5 /* numbers of an event */

/* Where a run stands, the events before it included. */
typedef struct {
    uint64_t at, line, weight;
} run_position;

typedef struct {
    run_position *at; /* a ring of cap places, n of them from `first` on */
    uint32_t cap, first, n;
    uint64_t weight;
} run_list;

typedef struct {
    sw_timeline *t;
    const timeline_want *want;
    profile_lines lines;
    run_list front, back;
    uint64_t events_at, events_line; /* of the first events record before the next run */
    bool has_events, second, ended;
    sw_record *log; /* of the run that is read */
    uint32_t n_log, cap_log;
    uint64_t dropped;
} reader;

/* ---- which runs -------------------------------------------------------------------------- */

static sw_status push(run_list *l, run_position x)
{
    if (l->n == l->cap) {
        run_position *to;
        const uint32_t cap = l->cap == 0 ? 64 : l->cap * 2;
        SW_TRY(sw_heap_alloc(&to, SW_HEAP_PROFILE, cap * sizeof *l->at));
        for (uint32_t i = 0; i < l->n; i++)
            to[i] = l->at[(l->first + i) & (l->cap - 1)];
        sw_heap_free(l->at, SW_HEAP_PROFILE, l->cap * sizeof *l->at);
        *l = (run_list){to, cap, 0, l->n, l->weight};
    }
    l->at[(l->first + l->n++) & (l->cap - 1)] = x;
    l->weight += x.weight;
    return SW_OK;
}

static sw_status choose_run(reader *r, const profile_position *p)
{
    const uint64_t limit =
        (r->want->max_events > 0 ? r->want->max_events : TIMELINE_EVENTS) / 2;
    profile_step s;
    SW_TRY(profile_read_step(p, &s));
    const uint32_t program = profile_count_step(r->t, &s);
    bool wanted = r->want->n_steps == 0;
    for (uint32_t i = 0; i < r->want->n_steps; i++)
        wanted |= r->want->step[i] == s.step;
    if (program == SW_TL_NONE || !wanted || s.witnesses != 0) {
        r->t->skipped_runs += s.witnesses == 0;
        return SW_OK;
    }
    const sw_tl_program *x = &r->t->programs[program];
    const run_position at = {r->has_events ? r->events_at : r->lines.at,
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

static sw_status take_events(reader *r, const profile_position *p)
{
    const value log = value_at(p->record, "log");
    const size_t n = value_count(log) / LOG_FIELDS;
    if (!value_is_list(log) || n * LOG_FIELDS != value_count(log) || n >= UINT32_MAX - r->n_log)
        return profile_wrong(p, "log", "a list of events");
    SW_TRY(sw_heap_reserve(&r->log, SW_HEAP_PROFILE, &r->cap_log, r->n_log + (uint32_t)n,
                           sizeof *r->log));
    for (size_t i = 0; i < n; i++) {
        uint64_t x[LOG_FIELDS];
        for (size_t k = 0; k < LOG_FIELDS; k++)
            if (!value_whole(value_item(log, i * LOG_FIELDS + k), &x[k]) ||
                x[k] > (k < 3 ? UINT32_MAX : UINT8_MAX))
                return profile_wrong(p, "log", "a list of events");
        r->log[r->n_log++] = (sw_record){(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2],
                                         (uint8_t)x[3],  (uint8_t)x[4],  0};
    }
    return profile_get_u64(p, p->record, "dropped", 0, &r->dropped);
}

static sw_status take_run(reader *r, const profile_position *p)
{
    sw_tl_run *run;
    profile_step s;
    uint64_t clocked = 0;
    SW_TRY(profile_read_step(p, &s));
    SW_TRY(sw_timeline_add_run(r->t, &run));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        clocked += s.phase[i].ns;
    *run = (sw_tl_run)SW_INIT(.program = profile_program_of(r->t, &s), .step = s.step,
                              .micro = s.micro, .has_loss = s.has_loss, .loss = s.loss,
                              .at_ns = s.at_ns, .ns = s.ns,
                              .clock = clocked > 0 ? SW_TL_PHASES : SW_TL_UNTIMED,
                              .peak_bytes = s.peak);
    memcpy(run->phase, s.phase, sizeof run->phase);
    const size_t n = value_count(s.clocks);
    SW_TRY(profile_check_clocks(p, &s, &r->t->programs[run->program]));
    if (n > 0) {
        uint64_t *to;
        SW_TRY(sw_timeline_alloc(r->t, &to, n, sizeof(uint64_t)));
        for (size_t i = 0; i < n; i++)
            to[i] = profile_clock(&s, i);
        run->op_ns = to;
        run->clock = SW_TL_OPS;
    }
    sw_record *log;
    if (r->n_log == 0)
        return SW_OK;
    SW_TRY(sw_timeline_alloc(r->t, &log, r->n_log, sizeof *r->log));
    memcpy(log, r->log, r->n_log * sizeof *r->log);
    run->log = log;
    run->n_log = r->n_log;
    run->dropped = r->dropped;
    return SW_OK;
}

/* ---- the file ---------------------------------------------------------------------------- */

/* One record; the first pass takes programs and places, the second events and runs. */
static sw_status take(reader *r, const profile_position *p, bool *run_ended)
{
    const char *type = p->type;
    if (p->line == 1)
        return profile_take_header(r->t, p);
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
        return profile_take_program(r->t, p, type[0] == 't');
    if (strcmp(type, "end") != 0)
        return SW_OK;
    profile_end e;
    SW_TRY(profile_read_end(p, &e, r->t));
    SW_TRY(sw_timeline_string(r->t, &r->t->ended, e.status));
    return sw_timeline_string(r->t, &r->t->why, e.error);
}

/* The next record; *more is false after the last, or where the file is cut. */
static sw_status next(reader *r, bool *more, bool *run_ended)
{
    profile_line line;
    profile_position p;
    SW_TRY(profile_lines_next(&r->lines, &line));
    *more = line.text != NULL;
    if (line.text == NULL)
        return SW_OK;
    SW_TRY(profile_record(&r->lines, &line, &p, more));
    return *more ? take(r, &p, run_ended) : SW_OK;
}

/* A run of which a record is damaged is none. */
static sw_status read_positions(reader *r, const run_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const run_position *at = &l->at[(l->first + i) & (l->cap - 1)];
        const size_t before = r->t->n_runs;
        bool more = true, run_ended = false;
        sw_status status = profile_lines_seek(&r->lines, at->at, at->line);
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

/* Damage after the header ends the reading, and the part before it stays. */
static sw_status end_at_damage(reader *r, sw_status status)
{
    char why[4608];
    if (status != SW_FORMAT || r->lines.line <= 1)
        return status;
    sw_utf8_clean(why, sizeof why, sw_last_error());
    return sw_timeline_string(r->t, &r->t->damaged, why);
}

static sw_status read_profile(sw_timeline *t, const timeline_want *want)
{
    reader r = {.t = t, .want = want};
    bool more = true, run_ended;
    SW_TRY(profile_lines_open(&r.lines, t->path));
    sw_status status = SW_OK;
    while (more && status == SW_OK)
        status = next(&r, &more, &run_ended);
    status = end_at_damage(&r, status);
    if (status == SW_OK && r.lines.line == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: the file is empty", t->path);
    if (status == SW_OK) {
        r.second = true;
        status = read_positions(&r, &r.front);
        if (status == SW_OK)
            status = read_positions(&r, &r.back);
        status = end_at_damage(&r, status);
    }
    if (status == SW_OK)
        status = sw_timeline_finish(t);
    profile_lines_close(&r.lines);
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
