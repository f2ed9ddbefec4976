/* From a file to a report: a profile of ours, record by record, or the timeline of what another
 * tool wrote; and figures that follow from what was kept: groups of values, what is live. */
#include "alloc/base/hash.h"
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/report/parts.h"
#include "profiler/record/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_MAX 65536

static sw_status report_new(report **out, const char *path)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROFILE, sizeof(report)));
    (*out)->path = path;
    sw_utf8_clean((*out)->shown, sizeof(*out)->shown, path);
    memset((*out)->witness_results, 0xff, sizeof(*out)->witness_results);
    (*out)->stride = (*out)->times_stride = 1;
    return SW_OK;
}

/* For readers: an empty report, and texts from the timeline's header. */
static void report_copy_header(report *r)
{
    const sw_timeline *t = r->timeline;
    sw_utf8_clean(r->model, sizeof r->model, t->model);
    sw_utf8_clean(r->device, sizeof r->device, t->device);
    sw_utf8_clean(r->data, sizeof r->data, t->data);
    sw_utf8_clean(r->normalise, sizeof r->normalise, t->normalise);
    sw_utf8_clean(r->created, sizeof r->created, t->created);
    sw_utf8_clean(r->command, sizeof r->command, t->command);
}

static sw_status report_add_plan(report *r, uint32_t program)
{
    const sw_tl_program *p = &r->timeline->programs[program];
    if (r->n_plans == PLANS_MAX)
        SW_FAIL(SW_FORMAT, "%s: more programs than the %d that a report can hold", r->path,
                PLANS_MAX);
    SW_TRY(sw_timeline_reserve(r->timeline, &r->plans, &r->cap_plans, r->n_plans + 1,
                               sizeof *r->plans));
    report_plan *x = &r->plans[r->n_plans++];
    *x = (report_plan)SW_INIT(.key = p->key, .immediate = p->immediate, .run = p->run,
                              .batch = p->batch, .peak = p->peak_bytes,
                              .model_bytes = p->model_bytes, .arena_bytes = p->arena_bytes,
                              .data_bytes = p->data_bytes, .total_bytes = p->total_bytes,
                              .lower_bound_bytes = p->lower_bound_bytes,
                              .program_host_bytes = p->program_host_bytes);
    memcpy(x->phase, p->phase, sizeof x->phase);
    return SW_OK;
}

static void compare_with_plan(report_plan *plan, const char *by, uint64_t step,
                              const sw_prof_phase *phase)
{
    const int capacity = (int)(sizeof plan->seen / sizeof *plan->seen);
    int i = 0;
    while (i < plan->n_seen && strcmp(plan->seen[i].by, by) != 0)
        i++;
    if (i == capacity)
        return;
    report_seen *s = &plan->seen[i];
    if (plan->immediate && plan->n_seen == 0)
        memcpy(plan->phase, phase, sizeof plan->phase);
    if (i == plan->n_seen) {
        plan->n_seen++;
        memcpy(s->by, by, sizeof s->by);
    }
    const bool equal = report_equal_phases(plan->phase, phase), all = s->equal == s->runs;
    s->runs++;
    s->equal += equal;
    if (all) {
        s->step = step;
        memcpy(s->phase, phase, sizeof s->phase);
    }
}

/* ---- steps ------------------------------------------------------------------------------- */

/* Whether number i has a place in a list, whose stride doubles when its room is full. */
static bool is_kept(uint64_t i, uint64_t *stride, void *list, size_t *n, size_t room,
                    size_t size)
{
    char *at = list;
    if (i % *stride == 0 && *n == room) {
        for (size_t k = 1; k < room / 2; k++)
            memcpy(at + k * size, at + 2 * k * size, size);
        *n = room / 2;
        *stride *= 2;
    }
    return i % *stride == 0;
}

static void keep_row(report *r, const report_row *row)
{
    const uint64_t i = row->index;
    if (i < REPORT_EDGE)
        r->first[i] = *row;
    r->last[i % REPORT_EDGE] = *row;
    if (is_kept(i, &r->stride, r->sample, &r->n_sample, REPORT_SAMPLES, sizeof *row))
        r->sample[r->n_sample++] = *row;
}

static void keep_times(report *r, const report_row *row, uint64_t ns)
{
    if (!is_kept(r->warm, &r->times_stride, r->times, &r->n_times, REPORT_TIMES,
                 sizeof *r->times))
        return;
    for (int k = 0; k < SW_PROF_PHASES; k++)
        r->times[r->n_times][k] = row->phase[k].ns;
    r->times[r->n_times++][SW_PROF_PHASES] = ns;
}

static void keep_host(report *r, const profile_step *s)
{
    r->host_max = s->host > r->host_max ? s->host : r->host_max;
    if (s->process == UINT64_MAX)
        return;
    if (!r->has_process)
        r->process_first = s->process;
    r->has_process = true;
    r->process_last = s->process;
    r->process_max = s->process > r->process_max ? s->process : r->process_max;
}

/* With op clocks: one number for each op of the program, the same count in all its runs. */
static sw_status take_op_clocks(const report *r, report_plan *plan, const profile_position *p,
                                const profile_step *s)
{
    const size_t n = value_count(s->clocks);
    SW_TRY(profile_check_clocks(p, s, report_program(r, plan)));
    if (n == 0)
        return SW_OK;
    if (plan->op_ns == NULL) {
        SW_TRY(sw_timeline_alloc(r->timeline, &plan->op_ns, n, sizeof *plan->op_ns));
        plan->n_ops = n;
    }
    for (size_t i = 0; i < n; i++)
        plan->op_ns[i] += profile_clock(s, i);
    plan->op_runs++;
    return SW_OK;
}

const char *const report_witnesses[4] = {"access", "extent", "death", "need"};

static void keep_witnesses(report *r, const profile_step *s)
{
    r->witnessed++;
    for (int i = 0; i < 4; i++) {
        const value x = value_at(s->witnesses, report_witnesses[i]);
        if ((x == VALUE_TRUE || x == VALUE_FALSE) && r->witness_results[i] != 0)
            r->witness_results[i] = x == VALUE_TRUE;
    }
    if (r->faults == 0 && s->faults > 0)
        memcpy(r->first_fault, s->first_fault, sizeof r->first_fault);
    r->faults += s->faults;
}

/* Into each step that is looked for and is this one. */
static void keep_wanted(const report *r, const profile_step *s, const report_plan *plan)
{
    const bool eval = strcmp(s->run, "eval") == 0;
    const uint64_t peak = profile_peak(s->phase);
    for (int i = 0; i < 2 && r->steps != NULL; i++) {
        report_step *x = &r->steps->at[i];
        if (*x->run != '\0' && (strcmp(x->run, "eval") == 0) != eval)
            continue;
        if (s->step < x->step && s->step > x->below)
            x->below = s->step;
        if (s->step > x->step && (x->above == 0 || s->step < x->above))
            x->above = s->step;
        if (s->step != x->step ||
            (x->found &&
             (eval > x->eval || (eval == x->eval && peak <= profile_peak(x->phase)))))
            continue;
        x->found = true;
        x->eval = eval;
        x->plan = plan != NULL ? (uint32_t)(plan - r->plans) : SW_TL_NONE;
        memcpy(x->by, s->by, sizeof x->by);
        memcpy(x->phase, s->phase, sizeof x->phase);
        x->host = s->host;
        x->process = s->process;
        x->calls = s->calls;
        x->ns = s->ns;
        for (int k = 0; k < SW_HEAP_KINDS; k++) {
            const report_growth *g = &r->host->series[REPORT_OF_HEAP + k].growth;
            x->has_heap |= g->known;
            x->heap[k] = g->last;
        }
    }
}

static sw_status take_step(report *r, const profile_position *p, const report_watch *watch)
{
    profile_step s;
    SW_TRY(profile_read_step(p, &s));
    if (!s.has_phases)
        return profile_wrong(p, "phases", "an object");
    report_row row = SW_INIT(.index = r->runs, .step = s.step, .micro = s.micro,
                             .has_loss = s.has_loss, .loss = s.loss);
    memcpy(row.phase, s.phase, sizeof row.phase);
    const uint32_t program = profile_count_step(r->timeline, &s);
    report_plan *plan = program != SW_TL_NONE ? &r->plans[program] : NULL;
    /* Runs that traced, planned or were immediate may allocate; `warm` tells, and where it is
     * missing every run but the first counts as warm. */
    const bool warm = s.witnesses == 0 && (s.says_warm ? s.warm : row.index > 0);
    if (plan != NULL && warm)
        SW_TRY(take_op_clocks(r, plan, p, &s));

    const bool immediate = strcmp(s.mode, "immediate") == 0;
    if (plan != NULL && profile_has_bytes(&s))
        compare_with_plan(plan, s.by, s.step, s.phase);
    else if (plan == NULL && !immediate)
        r->unplanned++;
    keep_host(r, &s);
    if (s.witnesses != 0) {
        keep_witnesses(r, &s);
        return SW_OK;
    }
    if (plan != NULL)
        plan->runs++;
    keep_wanted(r, &s, plan);
    const bool train = strcmp(s.run, "eval") != 0;
    if (warm) {
        r->warm_runs++;
        if (s.calls > 0 && r->allocating++ == 0)
            r->allocating_step = s.step;
        r->allocations += s.calls;
        if (train) {
            keep_times(r, &row, s.ns);
            r->warm++;
        }
    }
    if (watch != NULL)
        SW_TRY(watch->step(watch->context, &s, &row, train));
    r->immediate += immediate;
    if (!train) {
        r->evaluations++;
        return SW_OK;
    }
    r->n_steps += s.micro == 0 || s.step != r->last_train;
    r->last_train = s.step;
    keep_row(r, &row);
    report_moves *m = &r->moves;
    const int at = report_peak_phase(row.phase);
    const uint64_t peak = row.phase[at].peak_bytes;
    if (m->runs[at]++ == 0)
        m->first[at] = row.step;
    if (row.index == 0 || peak < m->lowest_bytes) {
        m->lowest_bytes = peak;
        m->lowest_step = row.step;
    }
    if (row.index == 0 || peak > m->highest_bytes) {
        m->highest_bytes = peak;
        m->highest_step = row.step;
    }
    m->runs_per_bin += m->runs_per_bin == 0;
    if (row.index / m->runs_per_bin == REPORT_BINS) {
        for (size_t k = 0; k < REPORT_BINS / 2; k++)
            m->bin[k] = m->bin[2 * k] > m->bin[2 * k + 1] ? m->bin[2 * k] : m->bin[2 * k + 1];
        memset(m->bin + REPORT_BINS / 2, 0, sizeof m->bin / 2);
        m->runs_per_bin *= 2;
    }
    const size_t k = (size_t)(row.index / m->runs_per_bin);
    m->n_bins = k + 1;
    m->bin[k] = peak > m->bin[k] ? peak : m->bin[k];
    r->runs++;
    return SW_OK;
}

/* ---- header, end, and the file ----------------------------------------------------------- */

static sw_status take(void *context, const profile_position *p)
{
    report *r = context;
    const char *name = p->type;
    if (p->line == 1) {
        SW_TRY(profile_take_header(r->timeline, p));
        report_copy_header(r);
        return PROFILE_TAKE(NULL, p, p->record, {"planned_steps", &r->planned_steps, 0},
                            {"budget_bytes", &r->budget_bytes, 0});
    }
    SW_TRY(report_take_host(r, p));
    if (strcmp(name, "plan") == 0 || strcmp(name, "trace") == 0) {
        SW_TRY(profile_take_program(r->timeline, p, name[0] == 't'));
        const sw_status status = report_add_plan(r, r->timeline->n_programs - 1);
        r->timeline->n_programs -= status != SW_OK;
        return status;
    }
    if (strcmp(name, "rank") == 0) {
        report_rank *x = &r->rank;
        SW_TRY(profile_get_text(p, p->record, "host", x->host, sizeof x->host));
        SW_TRY(profile_get_text(p, p->record, "run", x->run, sizeof x->run));
        return PROFILE_TAKE(NULL, p, p->record, {"rank", &x->rank, PROFILE_NEEDED},
                            {"ranks", &x->ranks, PROFILE_NEEDED},
                            {"sent_bytes", &x->sent_bytes, UINT64_MAX},
                            {"waited_ns", &x->waited_ns, UINT64_MAX});
    }
    if (strcmp(name, "turn") == 0) {
        report_rank *x = &r->rank;
        uint64_t predicted, measured;
        SW_TRY(PROFILE_TAKE(NULL, p, p->record, {"predicted_bytes", &predicted, PROFILE_NEEDED},
                            {"measured_bytes", &measured, PROFILE_NEEDED}));
        x->turns++;
        x->predicted_bytes = predicted > x->predicted_bytes ? predicted : x->predicted_bytes;
        x->measured_bytes = measured > x->measured_bytes ? measured : x->measured_bytes;
        return SW_OK;
    }
    if (strcmp(name, "step") == 0)
        return take_step(r, p, r->watch);
    if (strcmp(name, "events") == 0) {
        /* Each line of a log says what the whole log lacks. */
        uint64_t part, dropped;
        SW_TRY(PROFILE_TAKE(NULL, p, p->record, {"part", &part, 0}, {"dropped", &dropped, 0}));
        r->dropped += part == 0 ? dropped : 0;
        return SW_OK;
    }
    return SW_OK;
}

sw_status report_begin(report **out, profile_lines *lines, const char *path)
{
    report *r;
    SW_TRY(report_new(&r, path));
    sw_status status = sw_timeline_new(&r->timeline);
    if (status == SW_OK)
        status = sw_timeline_string(r->timeline, &r->timeline->path, path);
    if (status == SW_OK)
        status = profile_lines_open(lines, path);
    return SW_GIVE(status, out, r, report_free);
}

sw_status report_more(report *r, profile_lines *lines, const report_watch *watch)
{
    SW_TRY(profile_lines_seek(lines, lines->next, lines->line + 1));
    r->file.context = r;
    r->file.take = take;
    r->file.follows = watch != NULL;
    r->watch = watch;
    return profile_read_all(&r->file, lines, r->timeline);
}

sw_status report_read(report **out, const char *path, report_steps_wanted *steps)
{
    report *r;
    profile_lines lines;
    SW_TRY(report_begin(&r, &lines, path));
    r->steps = steps;
    const sw_status status = report_more(r, &lines, NULL);
    profile_lines_close(&lines);
    return SW_GIVE(status, out, r, report_free);
}

/* ---- from a file to a report ------------------------------------------------------------- */

/* Programs of other tools are what was measured. */
static sw_status open_other(report *r)
{
    static const timeline_want programs = {.step = {UINT64_MAX}, .n_steps = 1};
    SW_TRY(timeline_open(&r->timeline, r->path, &programs));
    report_copy_header(r);
    r->file.ended = true;
    memcpy(r->file.status, "done", sizeof "done");
    for (uint32_t i = 0; i < r->timeline->n_programs; i++) {
        SW_TRY(report_add_plan(r, i));
        report_plan *x = &r->plans[i];
        report_seen *seen = &x->seen[x->n_seen++];
        *seen = (report_seen){.by = "trace", .runs = 1, .equal = 1};
        memcpy(seen->phase, x->phase, sizeof seen->phase);
        x->immediate = true;
    }
    const report_plan *highest = report_peak_plan(r);
    r->timeline->measured = highest != NULL;
    r->timeline->measured_bytes = highest != NULL ? highest->peak : 0;
    return SW_OK;
}

sw_status report_open(report **out, const char *path, report_steps_wanted *steps)
{
    report *r;
    sw_status status = report_read(out, path, steps);
    if (status != SW_FORMAT)
        return status;
    SW_TRY(report_new(&r, path));
    status = open_other(r);
    return SW_GIVE(status, out, r, report_free);
}

/* ---- figures that follow from the records that were kept --------------------------------- */

void report_free(report *r)
{
    if (r == NULL)
        return;
    sw_timeline_free(r->timeline);
    sw_heap_free(r, SW_HEAP_PROFILE, sizeof *r);
}

const report_plan *report_peak_plan(const report *r)
{
    const sw_tl_program *p = sw_timeline_peak(r->timeline);
    return p != NULL ? &r->plans[p - r->timeline->programs] : NULL;
}

/* Traces are counted apart from programs: the bit that tells them is not shown. */
report_name report_program_name(const report_plan *plan)
{
    report_name t;
    char exec[20] = "", batch[24] = "";
    if (plan->key >> 32 > 0)
        snprintf(exec, sizeof exec, ", exec %" PRIu32, (uint32_t)(plan->key >> 32));
    if (plan->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRIu32, (uint32_t)plan->batch);
    snprintf(t.text, sizeof t.text, "%s %" PRIu64 " (%.16s%s%s)",
             !plan->immediate                  ? "program"
             : strcmp(plan->run, "trace") == 0 ? "recording"
                                               : "immediate run",
             plan->key & (UINT32_MAX >> 1), plan->run[0] != '\0' ? plan->run : "run", exec,
             batch);
    return t;
}

const sw_tl_program *report_program(const report *r, const report_plan *plan)
{
    return &r->timeline->programs[plan - r->plans];
}

bool report_finished(const report *r)
{
    return r->file.ended && strcmp(r->file.status, "done") == 0;
}

bool report_equal_phases(const sw_prof_phase *a, const sw_prof_phase *b)
{
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (a[i].peak_bytes != b[i].peak_bytes || a[i].end_bytes != b[i].end_bytes)
            return false;
    return true;
}

int report_peak_phase(const sw_prof_phase *phase)
{
    int best = 0;
    for (int i = 1; i < SW_PROF_PHASES; i++)
        if (phase[i].peak_bytes > phase[best].peak_bytes)
            best = i;
    return best;
}

report_gate_peak report_highest(const report *r)
{
    const sw_timeline *t = r->timeline;
    const report_plan *plan = report_peak_plan(r);
    const uint64_t held = plan != NULL ? sw_timeline_height(report_program(r, plan)) : 0;
    const bool measured = t->measured && t->measured_bytes >= held;
    report_gate_peak peak = {.path = r->path,
                             .known = measured || plan != NULL,
                             .measured = measured,
                             .bytes = measured ? t->measured_bytes : held};
    if (plan != NULL && peak.bytes == held)
        snprintf(peak.in, sizeof peak.in, " in %s", report_program_name(plan).text);
    return peak;
}

const report_seen *report_best_seen(const report_plan *plan)
{
    for (int i = 0; i < plan->n_seen; i++)
        if (strcmp(plan->seen[i].by, "access") == 0)
            return &plan->seen[i];
    return plan->n_seen > 0 ? &plan->seen[0] : NULL;
}

size_t report_rows(const report *r, const report_row **rows)
{
    const uint64_t total = r->runs, edge = REPORT_EDGE;
    const size_t between_max = REPORT_ROWS - 2 * REPORT_EDGE;
    size_t n = 0;
    for (uint64_t i = 0; i < total && i < edge; i++)
        rows[n++] = &r->first[i];
    const uint64_t last = total > 2 * edge ? total - edge : edge;
    size_t from = 0, to = r->n_sample;
    while (from < to && r->sample[from].index < edge)
        from++;
    while (to > from && r->sample[to - 1].index >= last)
        to--;
    const size_t inner = to - from, take = inner < between_max ? inner : between_max;
    for (size_t k = 0; k < take; k++)
        rows[n++] = &r->sample[from + (2 * k + 1) * inner / (2 * take)];
    for (uint64_t i = last; i < total; i++)
        rows[n++] = &r->last[i % edge];
    return n;
}

bool report_medians(report *r, uint64_t *median)
{
    static uint64_t column[REPORT_TIMES];
    if (r->n_times == 0)
        return false;
    for (int k = 0; k <= SW_PROF_PHASES; k++) {
        for (size_t i = 0; i < r->n_times; i++)
            column[i] = r->times[i][k];
        qsort(column, r->n_times, sizeof *column, sw_order_u64);
        median[k] = column[(r->n_times - 1) / 2];
    }
    return true;
}

/* ---- groups of values -------------------------------------------------------------------- */

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

/* Where the path is, or would be. */
static uint32_t *slot_of(const parts *x, const char *path, size_t n)
{
    const uint32_t h = sw_fnv32(SW_FNV32, path, n);
    uint32_t i = (h ^ h >> 15) & (x->n_slots - 1);
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
    else if (by == PARTS_TYPE)
        name = v->dtype != NULL && *v->dtype != '\0' ? v->dtype : "(no type)";
    else
        name = *v->op != '\0' ? v->op : others[v->segment];
    return group_of(x, t, name, strlen(name), 0, out);
}

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

/* ---- what is live at the peak ------------------------------------------------------------ */

/* The groups that live at the peak, largest first. */
static sw_status shares_by(sw_timeline *t, const sw_tl_program *p, parts_by by,
                           const report_share **out, size_t *n)
{
    parts x = {0};
    parts_group *all;
    report_share *shares;
    SW_TRY(parts_make(&x, t, p, by));
    SW_TRY(sw_timeline_alloc(t, &shares, x.n, sizeof(report_share)));
    SW_TRY(parts_order(&x, t, &all));
    for (uint32_t i = 1; i < x.n; i++)
        if (all[i].at_peak > 0)
            shares[(*n)++] = (report_share){all[i].path, all[i].at_peak};
    *out = shares;
    return SW_OK;
}

/* By name, layer, op, role and bytes: texts are kept once, so equal ones have one address. */
static int compare_what(const sw_tensor *x, const sw_tensor *y)
{
    const uint64_t of_x[] = {(uintptr_t)x->name, (uintptr_t)x->layer, (uintptr_t)x->op,
                             (uintptr_t)x->role, x->bytes + x->padding},
                   of_y[] = {(uintptr_t)y->name, (uintptr_t)y->layer, (uintptr_t)y->op,
                             (uintptr_t)y->role, y->bytes + y->padding};
    return memcmp(of_x, of_y, sizeof of_x);
}

static int by_what(const void *a, const void *b)
{
    const sw_tensor *x = *(const sw_tensor *const *)a, *y = *(const sw_tensor *const *)b;
    const int what = compare_what(x, y);
    return what != 0 ? what : (x > y) - (x < y);
}

/* Most bytes first, then as they come. */
static int by_bytes(const void *a, const void *b)
{
    const report_same *x = a, *y = b;
    const uint64_t of_x = x->n * (x->first->bytes + x->first->padding),
                   of_y = y->n * (y->first->bytes + y->first->padding);
    return of_x != of_y ? (of_x < of_y ? 1 : -1)
                        : (x->first > y->first) - (x->first < y->first);
}

SW_ORDER(by_time, report_op, SW_FALLS(ns), SW_RISES(at))

/* In columns, each as high as the highest of its ops; few ops have several columns each. */
static void draw_curve(report_live *live, const sw_tl_program *p, const uint64_t *all)
{
    const size_t ops = p->n_ops, each = ops > 0 && ops < REPORT_CURVE ? REPORT_CURVE / ops : 1;
    const size_t n = ops < REPORT_CURVE ? ops * each : REPORT_CURVE;
    int before = -1;
    live->n_curve = n;
    for (size_t k = 0; k < n; k++) {
        const size_t from = k * ops / n, to = (k + 1) * ops / n;
        uint64_t high = all[from];
        for (size_t i = from; i < to; i++)
            high = all[i] > high ? all[i] : high;
        live->curve[k] = high;
        const int phase = p->ops[from].phase;
        live->phase[k] = phase != before ? sw_prof_phase_name(phase)[0] : ' ';
        before = phase;
    }
}

sw_status report_find_live(const report *r, const report_plan *plan, report_live *live)
{
    const sw_tl_program *p = report_program(r, plan);
    uint64_t *curve;
    const sw_tensor **at_peak;
    size_t n = 0;
    SW_TRY(sw_timeline_alloc(r->timeline, &at_peak, (size_t)p->n_values + 1, sizeof(void *)));
    memset(live, 0, sizeof *live);
    live->program = p;
    live->op = p->peak_op < p->n_ops ? p->ops[p->peak_op].name : "";
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias != SW_TL_NONE || v->birth > p->peak_op || v->death < p->peak_op)
            continue;
        live->bytes += v->bytes + v->padding;
        live->padding += v->padding;
        at_peak[n++] = v;
    }
    qsort(at_peak, n, sizeof *at_peak, by_what);
    report_same *same;
    SW_TRY(sw_timeline_alloc(r->timeline, &same, n + 1, sizeof *same));
    for (size_t j = 0; j < n; j += same[live->n_largest++].n)
        for (same[live->n_largest] = (report_same){at_peak[j], 1};
             j + same[live->n_largest].n < n &&
             compare_what(at_peak[j], at_peak[j + same[live->n_largest].n]) == 0;)
            same[live->n_largest].n++;
    qsort(same, live->n_largest, sizeof *same, by_bytes);
    live->largest = same;
    live->n_largest = live->n_largest < REPORT_LARGEST ? live->n_largest : REPORT_LARGEST;
    SW_TRY(shares_by(r->timeline, p, PARTS_ROLE, &live->role, &live->n_roles));
    SW_TRY(shares_by(r->timeline, p, PARTS_LAYER, &live->layer, &live->n_layers));
    report_op *ops;
    const size_t timed = plan->op_runs == 0       ? 0
                         : plan->n_ops < p->n_ops ? plan->n_ops
                                                  : p->n_ops;
    SW_TRY(sw_timeline_alloc(r->timeline, &ops, timed + 1, sizeof *ops));
    for (size_t i = 0; i < timed; i++) {
        ops[i] = (report_op){p->ops[i].name, plan->op_ns[i] / plan->op_runs, 0.0, i};
        live->ops_ns += ops[i].ns;
    }
    qsort(ops, timed, sizeof *ops, by_time);
    live->slowest = ops;
    live->n_slowest = timed < REPORT_SLOWEST ? timed : REPORT_SLOWEST;
    for (size_t i = 0; i < live->n_slowest && live->ops_ns > 0; i++)
        ops[i].share = (double)ops[i].ns / (double)live->ops_ns;
    SW_TRY(sw_timeline_alloc(r->timeline, &curve, (size_t)p->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    draw_curve(live, p, curve);
    return SW_OK;
}
