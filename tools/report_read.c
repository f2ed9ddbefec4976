/* From the profile file to a report. Every member that is used is checked; what is unknown is
 * passed over, so that later versions may add to records. */
#include "tools/report.h"

#if defined SW_HAVE_JANSSON && SW_HAVE_JANSSON
#include "alloc/mem.h"
#include "tools/cli.h"
#include "tools/report_heap.h"
#include "tools/report_host.h"
#include "tools/report_lines.h"
#include "tools/report_members.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_MAX ((size_t)65536)

static sw_status get_phases(const report_place *p, report_phase *to)
{
    const json_t *phases = json_object_get(p->record, "phases");
    if (!json_is_object(phases))
        return report_wrong(p, "phases", "an object");
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const json_t *x = json_object_get(phases, sw_prof_phase_name(i));
        if (!json_is_object(x))
            return report_wrong(p, sw_prof_phase_name(i), "a phase");
        SW_TRY(report_need_u64(p, x, "peak_bytes", &to[i].peak));
        SW_TRY(report_need_u64(p, x, "end_bytes", &to[i].end));
        SW_TRY(report_get_u64(p, x, "ns", 0, &to[i].ns));
    }
    return SW_OK;
}

/* ---- plans ------------------------------------------------------------------------------- */

static sw_status get_key(const report_place *p, uint64_t *key, bool *has)
{
    uint64_t program, exec;
    SW_TRY(report_get_u64(p, p->record, "program", SW_PROF_NONE, &program));
    SW_TRY(report_get_u64(p, p->record, "exec", 0, &exec));
    if (program > SW_PROF_NONE || exec > UINT32_MAX)
        return report_wrong(p, "program", "a program's number");
    *has = program != SW_PROF_NONE;
    *key = exec << 32 | program;
    return SW_OK;
}

/* The latest plan of that key. */
static report_plan *find_plan(report *r, uint64_t key)
{
    for (size_t i = r->n_plans; i > 0; i--)
        if (r->plans[i - 1].key == key)
            return &r->plans[i - 1];
    return NULL;
}

static sw_status room_for_plan(report *r, const report_place *p)
{
    if (r->n_plans < r->cap_plans)
        return SW_OK;
    if (r->cap_plans >= PLANS_MAX)
        return report_damaged(p, "more plans than a report can hold");
    const size_t cap = r->cap_plans == 0 ? 16 : r->cap_plans * 2;
    void *block = r->plans;
    SW_TRY(sw_heap_resize(&block, SW_HEAP_PROFILE, r->cap_plans * sizeof *r->plans,
                          cap * sizeof *r->plans));
    r->plans = block;
    r->cap_plans = cap;
    return SW_OK;
}

static sw_status take_plan(report *r, const report_place *p, uint64_t at)
{
    SW_TRY(room_for_plan(r, p));
    report_plan *x = &r->plans[r->n_plans];
    memset(x, 0, sizeof *x);
    x->at = at;
    x->line = p->line;
    bool has;
    SW_TRY(get_key(p, &x->key, &has));
    if (!has)
        return report_wrong(p, "program", "a program's number");
    SW_TRY(report_get_text(p, p->record, "run", x->run, sizeof x->run));
    SW_TRY(report_get_batch(p, &x->batch));
    SW_TRY(report_need_u64(p, p->record, "model_bytes", &x->model));
    SW_TRY(report_need_u64(p, p->record, "arena_bytes", &x->arena));
    SW_TRY(report_need_u64(p, p->record, "data_bytes", &x->data));
    SW_TRY(report_need_u64(p, p->record, "total_bytes", &x->total));
    SW_TRY(report_need_u64(p, p->record, "lower_bound_bytes", &x->lower_bound));
    SW_TRY(get_phases(p, x->phase));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (x->phase[i].peak > x->peak)
            x->peak = x->phase[i].peak;
    r->n_plans++;
    return SW_OK;
}

static bool equal_bytes(const report_phase *a, const report_phase *b)
{
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (a[i].peak != b[i].peak || a[i].end != b[i].end)
            return false;
    return true;
}

static void compare(report_plan *plan, const char *by, uint64_t step, const report_phase *phase)
{
    const int room = (int)(sizeof plan->seen / sizeof *plan->seen);
    int i = 0;
    while (i < plan->n_seen && strcmp(plan->seen[i].by, by) != 0)
        i++;
    if (i == room)
        return;
    report_seen *s = &plan->seen[i];
    if (i == plan->n_seen) {
        plan->n_seen++;
        memcpy(s->by, by, sizeof s->by);
    }
    const bool equal = equal_bytes(plan->phase, phase), all = s->equal == s->runs;
    s->runs++;
    s->equal += equal;
    if (all) {
        s->step = step;
        memcpy(s->phase, phase, sizeof s->phase);
    }
}

/* ---- steps ------------------------------------------------------------------------------- */

static void keep_row(report *r, const report_row *row)
{
    const uint64_t i = row->index;
    if (i < REPORT_EDGE)
        r->first[i] = *row;
    r->last[i % REPORT_EDGE] = *row;
    if (r->stride == 0)
        r->stride = 1;
    if (i % r->stride != 0)
        return;
    if (r->n_sample == REPORT_SAMPLES) {
        for (size_t k = 0; k < REPORT_SAMPLES / 2; k++)
            r->sample[k] = r->sample[2 * k];
        r->n_sample = REPORT_SAMPLES / 2;
        r->stride *= 2;
        if (i % r->stride != 0)
            return;
    }
    r->sample[r->n_sample++] = *row;
}

static void keep_times(report *r, const report_row *row, uint64_t ns)
{
    if (r->times_stride == 0)
        r->times_stride = 1;
    const uint64_t i = r->warm;
    if (i % r->times_stride != 0)
        return;
    if (r->n_times == REPORT_TIMES) {
        for (size_t k = 0; k < REPORT_TIMES / 2; k++)
            memcpy(r->times[k], r->times[2 * k], sizeof r->times[k]);
        r->n_times = REPORT_TIMES / 2;
        r->times_stride *= 2;
        if (i % r->times_stride != 0)
            return;
    }
    for (int k = 0; k < SW_PROF_PHASES; k++)
        r->times[r->n_times][k] = row->phase[k].ns;
    r->times[r->n_times++][SW_PROF_PHASES] = ns;
}

static sw_status take_host(report *r, const report_place *p)
{
    uint64_t host, process;
    SW_TRY(report_get_u64(p, p->record, "host_bytes", 0, &host));
    SW_TRY(report_get_u64(p, p->record, "process_bytes", UINT64_MAX, &process));
    r->host_max = host > r->host_max ? host : r->host_max;
    if (process == UINT64_MAX)
        return SW_OK;
    if (!r->has_process)
        r->process_first = process;
    r->has_process = true;
    r->process_last = process;
    r->process_max = process > r->process_max ? process : r->process_max;
    return SW_OK;
}

/* Runs that traced, planned or were immediate may allocate; `warm` tells, and where it is
 * missing every run but the first counts as warm. */
static bool is_warm(const report_place *p, const report_row *row)
{
    const json_t *warm = json_object_get(p->record, "warm");
    return warm != NULL ? json_is_true(warm) : row->index > 0;
}

/* With op clocks: one number for each op of the program, the same count in all its runs. */
static sw_status take_op_clocks(report_plan *plan, const report_place *p)
{
    const json_t *clocks = json_object_get(p->record, "op_ns");
    const size_t n = json_array_size(clocks);
    if (n == 0)
        return SW_OK;
    if (plan->op_ns == NULL) {
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, n * sizeof *plan->op_ns));
        plan->op_ns = block;
        plan->n_ops = n;
    }
    if (n != plan->n_ops)
        return report_wrong(p, "op_ns", "as long as in the runs before");
    for (size_t i = 0; i < n; i++) {
        uint64_t ns;
        if (!report_as_u64(json_array_get(clocks, i), &ns))
            return report_wrong(p, "op_ns", "a list of whole numbers");
        plan->op_ns[i] += ns;
    }
    plan->op_runs++;
    return SW_OK;
}

static sw_status take_allocations(report *r, const report_place *p, const report_row *row,
                                  bool train)
{
    uint64_t calls, ns;
    SW_TRY(report_get_u64(p, p->record, "allocations", 0, &calls));
    SW_TRY(report_get_u64(p, p->record, "ns", 0, &ns));
    if (!is_warm(p, row))
        return SW_OK;
    r->warm_runs++;
    if (calls > 0 && r->allocating++ == 0)
        r->allocating_step = row->step;
    r->allocations += calls;
    if (train) {
        keep_times(r, row, ns);
        r->warm++;
    }
    return SW_OK;
}

const char *const report_witnesses[4] = {"access", "extent", "death", "need"};

static sw_status take_witnesses(report *r, const report_place *p, const json_t *verdicts)
{
    uint64_t faults;
    char text[sizeof r->first_fault];
    r->witnessed++;
    for (int i = 0; i < 4; i++) {
        const json_t *x = json_object_get(verdicts, report_witnesses[i]);
        if (json_is_boolean(x) && r->verdict[i] != 0)
            r->verdict[i] = json_is_true(x);
    }
    SW_TRY(report_get_u64(p, p->record, "faults", 0, &faults));
    SW_TRY(report_get_text(p, p->record, "first_fault", text, sizeof text));
    if (r->faults == 0 && faults > 0)
        memcpy(r->first_fault, text, sizeof text);
    r->faults += faults;
    return SW_OK;
}

static sw_status take_step(report *r, const report_place *p, const report_watch *watch)
{
    char by[12], run[12], mode[12];
    uint64_t key;
    bool has;
    report_row row = {.index = r->runs};
    SW_TRY(report_need_u64(p, p->record, "step", &row.step));
    SW_TRY(report_get_u64(p, p->record, "micro", 0, &row.micro));
    SW_TRY(get_key(p, &key, &has));
    SW_TRY(report_get_text(p, p->record, "measured_by", by, sizeof by));
    SW_TRY(report_get_text(p, p->record, "run", run, sizeof run));
    SW_TRY(report_get_text(p, p->record, "mode", mode, sizeof mode));
    SW_TRY(get_phases(p, row.phase));
    SW_TRY(take_host(r, p));
    const json_t *loss = json_object_get(p->record, "loss");
    row.has_loss = json_is_number(loss);
    row.loss = json_number_value(loss);

    report_plan *plan = has ? find_plan(r, key) : NULL;
    const json_t *witnesses = json_object_get(p->record, "witnesses");
    const bool access = !json_is_object(witnesses) || strcmp(by, "access") == 0;
    const bool immediate = strcmp(mode, "immediate") == 0;
    if (plan != NULL && access && !immediate)
        compare(plan, by, row.step, row.phase);
    else if (plan == NULL && !immediate)
        r->unplanned++;
    if (json_is_object(witnesses))
        return take_witnesses(r, p, witnesses);
    const bool train = strcmp(run, "eval") != 0;
    SW_TRY(take_allocations(r, p, &row, train));
    if (plan != NULL && is_warm(p, &row))
        SW_TRY(take_op_clocks(plan, p));
    if (watch != NULL)
        SW_TRY(watch->step(watch->context, p, &row, plan, train));
    r->immediate += immediate;
    if (!train) {
        r->evaluations++;
        return SW_OK;
    }
    keep_row(r, &row);
    r->runs++;
    return SW_OK;
}

/* ---- header, end, and the file ----------------------------------------------------------- */

static sw_status take_header(report *r, const report_place *p)
{
    char format[32];
    uint64_t version;
    SW_TRY(report_get_text(p, p->record, "format", format, sizeof format));
    if (strcmp(format, "stepwell-profile") != 0)
        return report_damaged(p, "not a stepwell profile: the format is another");
    SW_TRY(report_need_u64(p, p->record, "version", &version));
    if (version != 1)
        SW_FAIL(SW_FORMAT, "%s: profile version %llu; this program reads version 1", p->path,
                (unsigned long long)version);
    SW_TRY(report_get_text(p, p->record, "model", r->model, sizeof r->model));
    SW_TRY(report_get_text(p, p->record, "device", r->device, sizeof r->device));
    SW_TRY(report_get_text(p, p->record, "data", r->data, sizeof r->data));
    SW_TRY(report_get_text(p, p->record, "created", r->created, sizeof r->created));
    SW_TRY(report_get_text(p, p->record, "command", r->command, sizeof r->command));
    SW_TRY(report_get_seed(p, &r->seed));
    return report_get_batch(p, &r->batch);
}

static sw_status take_end(report *r, const report_place *p)
{
    r->ended = true;
    SW_TRY(report_get_text(p, p->record, "status", r->status, sizeof r->status));
    if (r->status[0] == '\0') /* written before there was a status */
        memcpy(r->status, "done", sizeof "done");
    SW_TRY(report_get_text(p, p->record, "error", r->error, sizeof r->error));
    return report_need_u64(p, p->record, "wall_ns", &r->wall_ns);
}

static sw_status take(report *r, const report_place *p, uint64_t at, const report_watch *watch)
{
    const json_t *type = json_object_get(p->record, "type");
    const char *name = json_is_string(type) ? json_string_value(type) : NULL;
    if (name == NULL)
        return report_wrong(p, "type", "a string");
    if ((p->line == 1) != (strcmp(name, "header") == 0))
        return report_damaged(p, p->line == 1
                                     ? "not a stepwell profile: it does not begin with a header"
                                     : "a second header");
    if (r->ended)
        return report_damaged(p, "a record behind the end");
    if (p->line == 1)
        return take_header(r, p);
    SW_TRY(report_take_host(r, p));
    if (strcmp(name, "plan") == 0)
        return take_plan(r, p, at);
    if (strcmp(name, "step") == 0)
        return take_step(r, p, watch);
    if (strcmp(name, "process") == 0)
        return report_take_process(r, p);
    return strcmp(name, "end") == 0 ? take_end(r, p) : SW_OK;
}

/* One record, which lives until the next one is read; *more is false when it is cut. */
static sw_status read_record(report *r, const report_lines *lines, const char *text, size_t n,
                             bool whole, const report_watch *watch, bool *more)
{
    json_error_t why;
    report_heap_reset();
    report_place p = {r->path, lines->line, report_parse(text, n, &why), text, n};
    SW_TRY(report_heap_status(r->path, lines->line));
    *more = p.record != NULL;
    if (p.record != NULL)
        return take(r, &p, lines->at, watch);
    if (p.line == 1)
        SW_FAIL(SW_FORMAT, "%s: not a stepwell profile: line 1 is no JSON record", r->path);
    if (!whole) {
        r->cut = true;
        return SW_OK;
    }
    char clear[160];
    cli_clean(clear, sizeof clear, why.text);
    return report_damaged(&p, clear);
}

/* Where the file may grow, what has no end yet is left for the next time. */
static sw_status read_all(report *r, report_lines *lines, const report_watch *watch)
{
    for (bool more = true; more;) {
        const char *text;
        size_t n;
        bool whole;
        SW_TRY(report_lines_next(lines, &text, &n, &whole));
        if (text == NULL)
            break;
        if (watch != NULL && !whole)
            return report_lines_seek(lines, lines->at, lines->line);
        if (watch == NULL || watch->wants(watch->context, text, n, lines->at))
            SW_TRY(read_record(r, lines, text, n, whole, watch, &more));
    }
    return SW_OK;
}

sw_status report_begin(report **out, report_lines *lines, const char *path)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof(report)));
    report *r = block;
    r->path = path;
    memset(r->verdict, 0xff, sizeof r->verdict);
    const sw_status status = report_lines_open(lines, path);
    if (status != SW_OK) {
        report_free(r);
        return status;
    }
    *out = r;
    return SW_OK;
}

sw_status report_more(report *r, report_lines *lines, const report_watch *watch)
{
    SW_TRY(report_lines_seek(lines, lines->next, lines->line + 1));
    report_heap_begin();
    const sw_status status = read_all(r, lines, watch);
    report_heap_end();
    return status;
}

sw_status report_read(report **out, const char *path)
{
    report *r;
    report_lines lines;
    SW_TRY(report_begin(&r, &lines, path));
    sw_status status = report_more(r, &lines, NULL);
    if (status == SW_OK && lines.line == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: the file is empty", path);
    report_lines_close(&lines);
    if (status != SW_OK) {
        report_free(r);
        return status;
    }
    *out = r;
    return SW_OK;
}

/* ---- what is live at the peak ------------------------------------------------------------ */

/* Add to the entry of that name; names past the room share the last entry. */
static void add_share(report_share *shares, size_t *n, size_t room, const char *name,
                      uint64_t bytes)
{
    size_t i = 0;
    while (i < *n && strcmp(shares[i].name, name) != 0)
        i++;
    if (i == room)
        snprintf(shares[--i].name, sizeof shares[i].name, "(others)");
    if (i == *n) {
        snprintf(shares[i].name, sizeof shares[i].name, "%s", name);
        shares[i].bytes = 0;
        (*n)++;
    }
    shares[i].bytes += bytes;
}

static void sort_shares(report_share *shares, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const report_share x = shares[i];
        size_t k = i;
        for (; k > 0 && shares[k - 1].bytes < x.bytes; k--)
            shares[k] = shares[k - 1];
        shares[k] = x;
    }
}

static void keep_largest(report_live *live, const report_value *v)
{
    size_t k = live->n_largest;
    if (k == REPORT_LARGEST && live->largest[--k].bytes >= v->bytes)
        return;
    for (; k > 0 && live->largest[k - 1].bytes < v->bytes; k--)
        live->largest[k] = live->largest[k - 1];
    live->largest[k] = *v;
    if (live->n_largest < REPORT_LARGEST)
        live->n_largest++;
}

static sw_status take_value(const report_place *p, const json_t *o, report_live *live)
{
    report_value v;
    if (!json_is_object(o))
        return report_wrong(p, "values", "a list of values");
    SW_TRY(report_need_u64(p, o, "bytes", &v.bytes));
    SW_TRY(report_need_u64(p, o, "padding", &v.padding));
    SW_TRY(report_need_u64(p, o, "birth", &v.birth));
    SW_TRY(report_need_u64(p, o, "death", &v.death));
    SW_TRY(report_get_text(p, o, "name", v.name, sizeof v.name));
    SW_TRY(report_get_text(p, o, "layer", v.layer, sizeof v.layer));
    SW_TRY(report_get_text(p, o, "role", v.role, sizeof v.role));
    SW_TRY(report_get_text(p, o, "op", v.op, sizeof v.op));
    SW_TRY(report_get_text(p, o, "phase", v.phase, sizeof v.phase));
    if (json_object_get(o, "alias") != NULL || v.birth > live->position ||
        v.death < live->position)
        return SW_OK;
    v.bytes += v.padding;
    live->bytes += v.bytes;
    live->padding += v.padding;
    add_share(live->role, &live->n_roles, sizeof live->role / sizeof *live->role, v.role,
              v.bytes);
    add_share(live->layer, &live->n_layers, REPORT_SHARES, v.layer[0] != '\0' ? v.layer : "-",
              v.bytes);
    keep_largest(live, &v);
    return SW_OK;
}

static void keep_slowest(report_live *live, const report_op *op)
{
    size_t k = live->n_slowest;
    if (k == REPORT_SLOWEST && live->slowest[--k].ns >= op->ns)
        return;
    for (; k > 0 && live->slowest[k - 1].ns < op->ns; k--)
        live->slowest[k] = live->slowest[k - 1];
    live->slowest[k] = *op;
    if (live->n_slowest < REPORT_SLOWEST)
        live->n_slowest++;
}

/* The plan has the names of what the runs' clocks have measured. */
static sw_status take_slowest(const report_place *p, const report_plan *plan, report_live *live)
{
    const json_t *ops = json_object_get(p->record, "ops");
    for (size_t i = 0; i < plan->n_ops && plan->op_runs > 0; i++) {
        report_op op = {.ns = plan->op_ns[i] / plan->op_runs};
        const json_t *name = json_array_get(ops, i);
        if (!json_is_string(name))
            return report_wrong(p, "ops", "a list of the ops that the clocks measured");
        cli_clean(op.name, sizeof op.name, json_string_value(name));
        live->ops_ns += op.ns;
        keep_slowest(live, &op);
    }
    return SW_OK;
}

static sw_status take_live(const report_place *p, report_live *live)
{
    SW_TRY(report_get_u64(p, p->record, "peak_position", 0, &live->position));
    SW_TRY(report_get_u64(p, p->record, "n_ops", 0, &live->n_ops));
    SW_TRY(report_get_text(p, p->record, "peak_op", live->op, sizeof live->op));
    const json_t *values = json_object_get(p->record, "values");
    if (!json_is_array(values))
        return report_wrong(p, "values", "a list of values");
    for (size_t i = 0; i < json_array_size(values); i++)
        SW_TRY(take_value(p, json_array_get(values, i), live));
    sort_shares(live->role, live->n_roles);
    sort_shares(live->layer, live->n_layers);
    return SW_OK;
}

static sw_status read_live(const report *r, const report_plan *plan, report_lines *lines,
                           report_live *out)
{
    const char *text;
    size_t n;
    bool whole;
    SW_TRY(report_lines_seek(lines, plan->at, plan->line));
    SW_TRY(report_lines_next(lines, &text, &n, &whole));
    json_error_t why;
    report_place p = {r->path, plan->line, text != NULL ? report_parse(text, n, &why) : NULL,
                      text, n};
    SW_TRY(report_heap_status(r->path, plan->line));
    if (p.record == NULL)
        return report_damaged(&p, "the file changed while it was read");
    SW_TRY(take_live(&p, out));
    return take_slowest(&p, plan, out);
}

sw_status report_read_live(const report *r, const report_plan *plan, report_live *out)
{
    memset(out, 0, sizeof *out);
    report_lines lines;
    SW_TRY(report_lines_open(&lines, r->path));
    report_heap_begin();
    const sw_status status = read_live(r, plan, &lines, out);
    report_heap_end();
    report_lines_close(&lines);
    return status;
}

#else

sw_status report_read(report **out, const char *path)
{
    (void)out;
    SW_FAIL(SW_UNSUPPORTED, "%s: this program was built without jansson, which reads profiles",
            path);
}

sw_status report_begin(report **out, report_lines *lines, const char *path)
{
    (void)lines;
    return report_read(out, path);
}

sw_status report_more(report *r, report_lines *lines, const report_watch *watch)
{
    (void)lines;
    (void)watch;
    SW_FAIL(SW_UNSUPPORTED, "%s: this program was built without jansson", r->path);
}

sw_status report_read_live(const report *r, const report_plan *plan, report_live *out)
{
    (void)plan;
    (void)out;
    SW_FAIL(SW_UNSUPPORTED, "%s: this program was built without jansson", r->path);
}

const char *const report_witnesses[4] = {"access", "extent", "death", "need"};

#endif
