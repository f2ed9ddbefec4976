/* From a file to a report: a profile of ours, record by record, or the timeline of what another
 * tool wrote. */
#include "alloc/base/mem.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/timeline_read.h"
#include "profiler/record/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an empty report --------------------------------------------------------------------- */

#define PLANS_MAX ((size_t)65536)

static sw_status report_new(report **out, const char *path)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROFILE, sizeof(report)));
    (*out)->path = path;
    sw_utf8_clean((*out)->shown, sizeof(*out)->shown, path);
    memset((*out)->witness_results, 0xff, sizeof(*out)->witness_results);
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
    if (!(r->n_plans < r->cap_plans)) {
        if (r->cap_plans >= PLANS_MAX)
            SW_FAIL(SW_FORMAT, "%s: more programs than the %zu that a report can hold", r->path,
                    PLANS_MAX);
        const size_t cap = r->cap_plans == 0 ? 16 : r->cap_plans * 2;
        SW_TRY(sw_heap_resize(&r->plans, SW_HEAP_PROFILE, r->cap_plans * sizeof *r->plans,
                              cap * sizeof *r->plans));
        r->cap_plans = cap;
    }
    report_plan *x = &r->plans[r->n_plans++];
    *x = (report_plan){.key = p->key,
                       .immediate = p->immediate,
                       .run = p->run,
                       .batch = p->batch,
                       .peak = p->peak_bytes,
                       .model = p->model_bytes,
                       .arena = p->arena_bytes,
                       .data = p->data_bytes,
                       .total = p->total_bytes,
                       .lower_bound = p->lower_bound_bytes,
                       .host = p->program_host_bytes};
    memcpy(x->phase, p->phase, sizeof x->phase);
    return SW_OK;
}

/* ---- what grew --------------------------------------------------------------------------- */

/* ---- counting ---------------------------------------------------------------------------- */

static void count(uint64_t *times, uint64_t *gained, uint64_t *from, uint64_t *to,
                  uint64_t *gap, uint64_t bytes, uint64_t step)
{
    if (*times == 0)
        *from = step;
    else if (step > *to && step - *to > *gap)
        *gap = step - *to;
    *to = step > *to ? step : *to;
    *gained += bytes;
    ++*times;
}

static void look(report_growth *g, uint64_t bytes, uint64_t step, bool settled)
{
    if (!g->known) {
        g->known = true;
        g->first = g->high = bytes;
    }
    g->last = bytes;
    if (bytes <= g->high)
        return;
    const uint64_t more = bytes - g->high;
    g->high = bytes;
    if (settled)
        count(&g->times, &g->gained, &g->from, &g->to, &g->gap, more, step);
    else
        count(&g->weak_times, &g->weak_gained, &g->weak_from, &g->weak_to, &g->weak_gap, more,
              step);
}

/* Into the bins of its sparkline: the last figure of each. */
static void draw(report_series *s)
{
    if (s->stride == 0)
        s->stride = 1;
    if (s->looks / s->stride == REPORT_GROWTH_BINS) {
        for (size_t i = 0; i < REPORT_GROWTH_BINS / 2; i++)
            s->bin[i] = s->bin[2 * i + 1];
        s->stride *= 2;
    }
    const size_t i = (size_t)(s->looks++ / s->stride);
    s->bin[i] = s->growth.last;
    s->n_bins = i + 1;
}

/* ---- records ----------------------------------------------------------------------------- */

static report_line *find_line(report_host *h, const char *at, const char *heap)
{
    for (size_t i = 0; i < h->n_lines; i++)
        if (strcmp(h->lines[i].at, at) == 0 && strcmp(h->lines[i].heap, heap) == 0)
            return &h->lines[i];
    return NULL;
}

static sw_status take_line(report_host *h, const profile_position *p, value o, uint64_t step,
                           bool settled)
{
    /* It has held nothing before, but for what is there when the file begins. */
    report_line x = {.growth = {.known = h->records > 0}};
    uint64_t bytes;
    if (!value_is_dict(o))
        return profile_wrong(p, "places", "a list of places");
    SW_TRY(profile_get_text(p, o, "at", x.at, sizeof x.at));
    SW_TRY(profile_get_text(p, o, "heap", x.heap, sizeof x.heap));
    SW_TRY(profile_need_u64(p, o, "bytes", &bytes));
    report_line *line = find_line(h, x.at, x.heap);
    if (line == NULL && h->n_lines == REPORT_LINES)
        return SW_OK;
    if (line == NULL) {
        SW_TRY(sw_heap_reserve(&h->lines, SW_HEAP_PROFILE, &h->cap_lines, h->n_lines + 1,
                               sizeof x));
        line = &h->lines[h->n_lines++];
        *line = x;
    }
    look(&line->growth, bytes, step, settled);
    return SW_OK;
}

static sw_status take_sites(report_host *h, const profile_position *p, uint64_t step,
                            bool settled)
{
    const value sites = value_at(p->record, "places");
    if (sites != 0 && !value_is_list(sites))
        return profile_wrong(p, "places", "a list of places");
    for (size_t i = 0; i < value_count(sites); i++)
        SW_TRY(take_line(h, p, value_item(sites, i), step, settled));
    return SW_OK;
}

/* Members of an object of figures; what is missing has not changed. */
static sw_status take_figures(report_host *h, const profile_position *p, const char *key,
                              const char *const *names, int first, int n, uint64_t step,
                              bool settled)
{
    const value o = value_at(p->record, key);
    if (o == 0)
        return SW_OK;
    if (!value_is_dict(o))
        return profile_wrong(p, key, "an object");
    for (int i = 0; i < n; i++) {
        uint64_t bytes;
        SW_TRY(profile_get_u64(p, o, names[i], 0, &bytes));
        look(&h->series[first + i].growth, bytes, step, settled);
    }
    return SW_OK;
}

static sw_status take_sampled(report_host *h, const profile_position *p, int series,
                              const char *key, uint64_t step)
{
    uint64_t bytes;
    SW_TRY(profile_get_u64(p, p->record, key, UINT64_MAX, &bytes));
    if (bytes == UINT64_MAX)
        return SW_OK;
    look(&h->series[series].growth, bytes, step, !h->sample_unsettled);
    draw(&h->series[series]);
    return SW_OK;
}

/* A run in immediate mode is never called warm: the first ones take what the others use. */
static bool is_settled(report_host *h, const profile_position *p)
{
    const value warm = value_at(p->record, "warm");
    const char *mode = value_text(value_at(p->record, "mode"));
    if (mode != NULL && strcmp(mode, "immediate") == 0)
        return h->immediate++ > 2;
    return value_is_true(warm);
}

static sw_status report_take_growth(report_host *h, const profile_position *p)
{
    static const char *const arenas[] = {"model", "data", "step"};
    const char *purposes[SW_HEAP_KINDS];
    uint64_t step;
    SW_TRY(profile_need_u64(p, p->record, "step", &step));
    const bool quiet = is_settled(h, p), settled = quiet && !h->unsettled;
    h->unsettled = !quiet;
    h->sample_unsettled |= !settled;
    h->clock = step > h->clock ? step : h->clock;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        purposes[i] = sw_heap_name((sw_heap)i);
    SW_TRY(take_figures(h, p, "heap", purposes, REPORT_OF_HEAP, SW_HEAP_KINDS, step, settled));
    SW_TRY(take_figures(h, p, "arenas", arenas, REPORT_OF_MODEL, 3, step, settled));
    SW_TRY(take_sites(h, p, step, settled));
    for (int i = 0; i < REPORT_OF_OTHER; i++)
        if (h->series[i].growth.known)
            draw(&h->series[i]);
    h->records += h->series[REPORT_OF_HEAP].growth.known;
    const bool asked = value_is_number(value_at(p->record, "process_bytes")) ||
                       value_is_number(value_at(p->record, "other_bytes"));
    SW_TRY(take_sampled(h, p, REPORT_OF_OTHER, "other_bytes", step));
    SW_TRY(take_sampled(h, p, REPORT_OF_PROCESS, "process_bytes", step));
    if (asked)
        h->sample_unsettled = false;
    return SW_OK;
}

/* ---- denied requests --------------------------------------------------------------------- */

/* Largest first; what has no name is called `none`. */
static sw_status take_shares(const profile_position *p, const char *key, const char *none,
                             sw_denied_share *to, size_t capacity, size_t *n)
{
    const value o = value_at(p->record, key);
    *n = 0;
    if (!value_is_dict(o) || value_count(o) > capacity)
        return profile_wrong(p, key, "an object of bytes");
    for (uint64_t i = 0; i < value_count(o); i++) {
        const char *name = value_key(o, i);
        uint64_t bytes;
        if (!value_whole(value_member(o, i), &bytes))
            return profile_wrong(p, key, "an object of bytes");
        size_t k = *n;
        for (; k > 0 && to[k - 1].bytes < bytes; k--)
            to[k] = to[k - 1];
        sw_utf8_clean(to[k].name, sizeof to[k].name, *name != '\0' ? name : none);
        to[k].bytes = (size_t)bytes;
        ++*n;
    }
    return SW_OK;
}

static sw_status take_holders(const profile_position *p, report_denied *d)
{
    const value all = value_at(p->record, "holders");
    if (!value_is_list(all) || value_count(all) > SW_DENIED_HOLDERS)
        return profile_wrong(p, "holders", "a list of holders");
    for (d->n_holders = 0; d->n_holders < value_count(all); d->n_holders++) {
        const value o = value_item(all, d->n_holders);
        sw_denied_holder *h = &d->holder[d->n_holders];
        uint64_t bytes;
        if (!value_is_dict(o))
            return profile_wrong(p, "holders", "a list of holders");
        SW_TRY(profile_get_text(p, o, "name", h->name, sizeof h->name));
        SW_TRY(profile_get_text(p, o, "layer", h->layer, sizeof h->layer));
        SW_TRY(profile_get_text(p, o, "role", d->role_of[d->n_holders],
                                sizeof d->role_of[d->n_holders]));
        SW_TRY(profile_need_u64(p, o, "bytes", &bytes));
        h->bytes = (size_t)bytes;
    }
    return SW_OK;
}

static sw_status take_request(const profile_position *p, report_denied *d)
{
    const value o = p->record;
    SW_TRY(profile_get_text(p, o, "run", d->run, sizeof d->run));
    SW_TRY(profile_get_text(p, o, "limited_by", d->limited_by, sizeof d->limited_by));
    SW_TRY(profile_get_text(p, o, "message", d->message, sizeof d->message));
    SW_TRY(profile_get_text(p, o, "label", d->label, sizeof d->label));
    SW_TRY(profile_get_text(p, o, "op", d->op, sizeof d->op));
    SW_TRY(profile_get_text(p, o, "phase", d->phase, sizeof d->phase));
    SW_TRY(profile_get_batch(p, &d->batch));
    SW_TRY(profile_need_u64(p, o, "step", &d->step));
    SW_TRY(profile_get_u64(p, o, "request_bytes", 0, &d->request));
    SW_TRY(profile_get_u64(p, o, "limit_bytes", 0, &d->limit));
    SW_TRY(profile_get_u64(p, o, "used_bytes", 0, &d->used));
    SW_TRY(profile_get_u64(p, o, "needed_bytes", 0, &d->needed));
    SW_TRY(profile_get_u64(p, o, "model_bytes", 0, &d->model));
    SW_TRY(profile_get_u64(p, o, "arena_bytes", 0, &d->arena));
    SW_TRY(profile_get_u64(p, o, "data_bytes", 0, &d->data));
    SW_TRY(profile_get_u64(p, o, "others_bytes", 0, &d->others));
    return profile_get_u64(p, o, "live_bytes", 0, &d->live);
}

/* ---- cards ------------------------------------------------------------------------------- */

static sw_status take_arena(const profile_position *p, value arenas, const char *name,
                            uint64_t total, uint64_t *committed, uint64_t *promised)
{
    const value o = value_at(arenas, name);
    if (o == 0)
        return SW_OK;
    if (!value_is_dict(o))
        return profile_wrong(p, "arenas", "an object of objects");
    SW_TRY(profile_get_in(p, o, "committed_bytes", total, 0, committed));
    return profile_get_u64(p, o, "promised_bytes", 0, promised);
}

static sw_status fill(const profile_position *p, report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    char at[8];
    const value o = p->record;
    SW_TRY(profile_get_text(p, o, "name", d->name, sizeof d->name));
    SW_TRY(profile_get_text(p, o, "at", at, sizeof at));
    SW_TRY(profile_get_text(p, o, "card", d->card, sizeof d->card));
    SW_TRY(profile_get_text(p, o, "capability", d->capability, sizeof d->capability));
    SW_TRY(profile_get_text(p, o, "driver", d->driver, sizeof d->driver));
    SW_TRY(profile_get_text(p, o, "runtime", d->runtime, sizeof d->runtime));
    SW_TRY(profile_get_u64(p, o, "cublas", 0, &d->blas));
    SW_TRY(profile_get_in(p, o, "total_bytes", (uint64_t)1 << 56, 0, &d->total));
    SW_TRY(profile_get_in(p, o, "open_bytes", d->total, 0, &d->open));
    SW_TRY(profile_get_in(p, o, "free_bytes", d->total, 0, &d->free));
    SW_TRY(profile_get_in(p, o, "pinned_bytes", (uint64_t)1 << 56, 0, &d->pinned));
    for (int i = 0; i < SW_ARENA_USES; i++)
        SW_TRY(take_arena(p, value_at(o, "arenas"), names[i], d->total, &d->committed[i],
                          &d->promised[i]));
    d->ended = strcmp(at, "end") == 0;
    return SW_OK;
}

/* ---- the host ---------------------------------------------------------------------------- */

void report_free_host(report_host *h)
{
    if (h == NULL)
        return;
    sw_heap_free(h->lines, SW_HEAP_PROFILE, h->cap_lines * sizeof *h->lines);
    sw_heap_free(h->denied, SW_HEAP_PROFILE, sizeof *h->denied);
    sw_heap_free(h, SW_HEAP_PROFILE, sizeof *h);
}

static sw_status take_purpose(report_host *h, const profile_position *p, value o,
                              const char *name)
{
    report_purpose *x = &h->purpose[h->n_purposes];
    SW_TRY(profile_get_text(p, o, "name", x->name, sizeof x->name));
    if (name != NULL)
        snprintf(x->name, sizeof x->name, "%s", name);
    SW_TRY(profile_get_u64(p, o, "bytes", 0, &x->bytes));
    SW_TRY(profile_get_u64(p, o, "peak_bytes", 0, &x->peak));
    SW_TRY(profile_get_u64(p, o, "blocks", 0, &x->blocks));
    SW_TRY(profile_get_u64(p, o, "allocated_bytes", 0, &x->allocated));
    SW_TRY(profile_get_u64(p, o, "active_bytes", 0, &x->active));
    SW_TRY(profile_get_u64(p, o, "resident_bytes", 0, &x->resident));
    SW_TRY(profile_get_u64(p, o, "mapped_bytes", 0, &x->mapped));
    h->n_purposes++;
    return SW_OK;
}

static sw_status report_take_host(report *r, const profile_position *p)
{
    const char *type = p->type;
    if (r->host == NULL)
        SW_TRY(sw_heap_alloc(&r->host, SW_HEAP_PROFILE, sizeof *r->host));
    if (strcmp(type, "step") == 0)
        return report_take_growth(r->host, p);
    if (strcmp(type, "heap") == 0) {
        report_host *h = r->host;
        const value purposes = value_at(p->record, "purposes"),
                    other = value_at(p->record, "other");
        if (!value_is_list(purposes) || value_count(purposes) > SW_HEAP_KINDS)
            return profile_wrong(p, "purposes", "a list of purposes");
        if (!value_is_dict(other))
            return profile_wrong(p, "other", "an object");
        SW_TRY(profile_get_text(p, p->record, "backend", h->backend, sizeof h->backend));
        SW_TRY(profile_get_u64(p, p->record, "kept_bytes", 0, &h->kept));
        h->n_purposes = 0;
        for (size_t i = 0; i < value_count(purposes); i++)
            SW_TRY(take_purpose(h, p, value_item(purposes, i), NULL));
        return take_purpose(h, p, other, "others");
    }
    if (strcmp(type, "denied") == 0 || strcmp(type, "fits") == 0) {
        /* Into what is there already: `fits` belongs to the denied record before it. */
        void *block = r->host->denied;
        const bool fits = strcmp(value_text(value_at(p->record, "type")), "fits") == 0;
        if (fits && r->host->denied == NULL)
            return profile_wrong(p, "type", "a record after a denied one");
        if (fits) {
            SW_TRY(profile_get_batch(p, &r->host->denied->fits_batch));
            return profile_get_u64(p, p->record, "needed_bytes", 0,
                                   &r->host->denied->fits_bytes);
        }
        if (block == NULL)
            SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *r->host->denied));
        report_denied *d = r->host->denied = block;
        const uint64_t n = d->n + 1;
        *d = (report_denied){.n = n, .fits_batch = -1};
        SW_TRY(take_request(p, d));
        SW_TRY(take_shares(p, "by_role", "(no role)", d->role, sizeof d->role / sizeof *d->role,
                           &d->n_roles));
        SW_TRY(take_shares(p, "by_layer", REPORT_NO_LAYER, d->layer, SW_DENIED_SHARES,
                           &d->n_layers));
        return take_holders(p, d);
    }
    if (strcmp(type, "device") == 0) {
        /* The latest of a card counts; what is more than there is room for is passed over. */
        report_device d = {0};
        size_t i = 0;
        SW_TRY(fill(p, &d));
        while (i < r->host->n_devices && strcmp(r->host->device[i].name, d.name) != 0)
            i++;
        if (i == REPORT_DEVICES)
            return SW_OK;
        r->host->device[i] = d;
        r->host->n_devices += i == r->host->n_devices;
        return SW_OK;
    }
    return SW_OK;
}

/* ---- the process ------------------------------------------------------------------------- */

/* The kind of that name; what a later version calls otherwise is shown as unexplained. */
static sw_process_kind kind_of(const char *name)
{
    int kind = 0;
    while (kind < SW_PROCESS_REST &&
           strcmp(sw_process_kind_name((sw_process_kind)kind), name) != 0)
        kind++;
    return (sw_process_kind)kind;
}

static sw_status process_take_line(const profile_position *p, value o, sw_process_line *l)
{
    char kind[16];
    uint64_t n, mapped, resident, huge, predicted;
    if (!value_is_dict(o))
        return profile_wrong(p, "lines", "a list of lines");
    SW_TRY(profile_get_text(p, o, "kind", kind, sizeof kind));
    SW_TRY(profile_get_text(p, o, "name", l->name, sizeof l->name));
    SW_TRY(profile_get_u64(p, o, "n", 0, &n));
    SW_TRY(profile_get_u64(p, o, "mapped_bytes", 0, &mapped));
    SW_TRY(profile_need_u64(p, o, "resident_bytes", &resident));
    SW_TRY(profile_get_u64(p, o, "huge_bytes", 0, &huge));
    SW_TRY(profile_get_u64(p, o, "predicted_bytes", UINT64_MAX, &predicted));
    l->kind = kind_of(kind);
    l->n = n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    l->mapped_bytes = (size_t)mapped;
    l->resident_bytes = (size_t)resident;
    l->huge_bytes = (size_t)huge;
    l->predicted = predicted != UINT64_MAX;
    l->predicted_bytes = l->predicted ? (size_t)predicted : 0;
    return SW_OK;
}

static sw_status process_fill(const profile_position *p, sw_process *x)
{
    uint64_t resident, sum = 0;
    const value lines = value_at(p->record, "lines");
    memset(x, 0, sizeof *x);
    SW_TRY(profile_need_u64(p, p->record, "resident_bytes", &resident));
    if (!value_is_list(lines) || value_count(lines) > SW_PROCESS_LINES)
        return profile_wrong(p, "lines", "a list of lines");
    for (; x->n < value_count(lines); x->n++) {
        SW_TRY(process_take_line(p, value_item(lines, x->n), &x->line[x->n]));
        sum += x->line[x->n].resident_bytes;
    }
    if (sum != resident)
        return profile_wrong(p, "resident_bytes", "the sum of the lines");
    x->resident_bytes = (size_t)resident;
    return SW_OK;
}

/* ---- records ----------------------------------------------------------------------------- */

/* ---- plans ------------------------------------------------------------------------------- */

static sw_status take_plan(report *r, const profile_position *p, bool immediate)
{
    SW_TRY(profile_take_program(r->timeline, p, immediate));
    const sw_status status = report_add_plan(r, r->timeline->n_programs - 1);
    if (status != SW_OK)
        r->timeline->n_programs--;
    return status;
}

static bool equal_bytes(const sw_prof_phase *a, const sw_prof_phase *b)
{
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (a[i].peak_bytes != b[i].peak_bytes || a[i].end_bytes != b[i].end_bytes)
            return false;
    return true;
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
        SW_TRY(sw_heap_alloc(&plan->op_ns, SW_HEAP_PROFILE, n * sizeof *plan->op_ns));
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
        if (value_is_bool(x) && r->witness_results[i] != 0)
            r->witness_results[i] = value_is_true(x);
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

static report_row row_of(const profile_step *s, uint64_t index)
{
    report_row row = {.index = index,
                      .step = s->step,
                      .micro = s->micro,
                      .has_loss = s->has_loss,
                      .loss = s->loss};
    memcpy(row.phase, s->phase, sizeof row.phase);
    return row;
}

static sw_status take_step(report *r, const profile_position *p, const report_watch *watch)
{
    profile_step s;
    SW_TRY(profile_read_step(p, &s));
    if (!s.has_phases)
        return profile_wrong(p, "phases", "an object");
    const report_row row = row_of(&s, r->runs);
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
    if (row.index == 0 || peak < m->low) {
        m->low = peak;
        m->low_step = row.step;
    }
    if (row.index == 0 || peak > m->high) {
        m->high = peak;
        m->high_step = row.step;
    }
    m->stride += m->stride == 0;
    if (row.index / m->stride == REPORT_BINS) {
        for (size_t k = 0; k < REPORT_BINS / 2; k++)
            m->bin[k] = m->bin[2 * k] > m->bin[2 * k + 1] ? m->bin[2 * k] : m->bin[2 * k + 1];
        memset(m->bin + REPORT_BINS / 2, 0, sizeof m->bin / 2);
        m->stride *= 2;
    }
    const size_t k = (size_t)(row.index / m->stride);
    m->n_bins = k + 1;
    m->bin[k] = peak > m->bin[k] ? peak : m->bin[k];
    r->runs++;
    return SW_OK;
}

/* ---- header, end, and the file ----------------------------------------------------------- */

static sw_status take_end(report *r, const profile_position *p)
{
    profile_end e;
    SW_TRY(profile_read_end(p, &e, r->timeline));
    r->wall_ns = e.wall_ns;
    r->all_steps = e.steps;
    sw_utf8_clean(r->status, sizeof r->status, e.status);
    sw_utf8_clean(r->error, sizeof r->error, e.error);
    r->ended = true;
    return SW_OK;
}

static sw_status take(report *r, const profile_position *p, const report_watch *watch)
{
    const value type = value_at(p->record, "type");
    const char *name = value_is_text(type) ? value_text(type) : NULL;
    if (name == NULL)
        return profile_wrong(p, "type", "a string");
    if (p->line == 1) {
        SW_TRY(profile_take_header(r->timeline, p));
        report_copy_header(r);
        SW_TRY(profile_get_u64(p, p->record, "planned_steps", 0, &r->planned_steps));
        return profile_get_u64(p, p->record, "budget_bytes", 0, &r->budget_bytes);
    }
    if (strcmp(name, "header") == 0)
        return profile_damaged(p, "a second header");
    if (r->ended)
        return profile_damaged(p, "a record after the end");
    SW_TRY(report_take_host(r, p));
    if (strcmp(name, "plan") == 0)
        return take_plan(r, p, false);
    if (strcmp(name, "trace") == 0)
        return take_plan(r, p, true);
    if (strcmp(name, "step") == 0)
        return take_step(r, p, watch);
    if (strcmp(name, "process") == 0) {
        /* A record of the type "process" into r->process; the latest one counts. */
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *r->process));
        const sw_status status = process_fill(p, block);
        if (status == SW_OK)
            sw_heap_free(r->process, SW_HEAP_PROFILE, sizeof *r->process);
        else
            sw_heap_free(block, SW_HEAP_PROFILE, sizeof *r->process);
        r->process = status == SW_OK ? block : r->process;
        return status;
    }
    if (strcmp(name, "events") == 0) {
        /* Each line of a log says what the whole log lacks. */
        uint64_t part, dropped;
        SW_TRY(profile_get_u64(p, p->record, "part", 0, &part));
        SW_TRY(profile_get_u64(p, p->record, "dropped", 0, &dropped));
        r->dropped += part == 0 ? dropped : 0;
        return SW_OK;
    }
    return strcmp(name, "end") == 0 ? take_end(r, p) : SW_OK;
}

/* Where the file may grow, what has no end yet is left for the next time. */
static sw_status read_lines(report *r, profile_lines *lines, const report_watch *watch)
{
    for (bool there = true; there;) {
        profile_line line;
        profile_position p;
        SW_TRY(profile_lines_next(lines, &line));
        if (line.text == NULL)
            break;
        if (watch != NULL && !line.whole)
            return profile_lines_seek(lines, lines->at, lines->line);
        SW_TRY(profile_record(lines, &line, &p, &there));
        if (there)
            SW_TRY(take(r, &p, watch));
        r->cut = !there;
        r->good = lines->line;
    }
    return SW_OK;
}

/* Damage after the header ends the reading, and the part before it stays; who follows a file
 * decides that. */
static sw_status read_all(report *r, profile_lines *lines, const report_watch *watch)
{
    const sw_status status = read_lines(r, lines, watch);
    if (status != SW_FORMAT || r->good == 0 || watch != NULL)
        return status;
    r->damaged_line = r->good + 1;
    sw_utf8_clean(r->damaged_why, sizeof r->damaged_why, sw_last_error());
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
    if (status != SW_OK) {
        report_free(r);
        return status;
    }
    *out = r;
    return SW_OK;
}

sw_status report_more(report *r, profile_lines *lines, const report_watch *watch)
{
    SW_TRY(profile_lines_seek(lines, lines->next, lines->line + 1));
    return read_all(r, lines, watch);
}

sw_status report_read(report **out, const char *path, report_steps_wanted *steps)
{
    report *r;
    profile_lines lines;
    SW_TRY(report_begin(&r, &lines, path));
    r->steps = steps;
    sw_status status = report_more(r, &lines, NULL);
    if (status == SW_OK && lines.line == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: the file is empty", path);
    profile_lines_close(&lines);
    if (status != SW_OK) {
        report_free(r);
        return status;
    }
    *out = r;
    return SW_OK;
}

/* ---- from a file to a report ------------------------------------------------------------- */

/* Programs of other tools are what was measured. */
static sw_status open_other(report *r)
{
    static const timeline_want programs = {.step = {UINT64_MAX}, .n_steps = 1};
    SW_TRY(timeline_open(&r->timeline, r->path, &programs));
    report_copy_header(r);
    r->ended = true;
    memcpy(r->status, "done", sizeof "done");
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
    if (status == SW_OK)
        *out = r;
    else
        report_free(r);
    return status;
}
