/* Memory outside of the plan: what grew over steps, denied requests, cards, the process and its
 * heap. Each is read from its records, judged, and a section of the text and a member of the
 * JSON object. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/report.h"
#include "profiler/record/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Members of a record into a struct, as its columns say; "" and 0 where one is missing. */
static sw_status take_fields(const profile_position *p, value o, const table_column *c, int n,
                             void *to)
{
    if (value_kind_of(o) != VALUE_DICT)
        return profile_damaged(p, "no object where one must be");
    for (int k = 0; k < n; k++) {
        void *at = (char *)to + c[k].at;
        if (c[k].type == LIES_CHARS)
            SW_TRY(profile_get_text(p, o, c[k].key, at, c[k].bytes));
        else if (c[k].type == LIES_U64)
            SW_TRY(profile_get_u64(p, o, c[k].key, 0, at));
    }
    return SW_OK;
}
#define TAKE_FIELDS(p, o, columns, to) take_fields(p, o, columns, TABLE_LENGTH(columns), to)

/* ---- counting ---------------------------------------------------------------------------- */

static void look(report_growth *g, uint64_t bytes, uint64_t step, bool settled)
{
    report_gains *x = settled ? &g->settled : &g->weak;
    if (!g->known) {
        g->known = true;
        g->first = g->high = bytes;
    }
    g->last = bytes;
    if (bytes <= g->high)
        return;
    if (x->times == 0)
        x->from = step;
    else if (step > x->to && step - x->to > x->gap)
        x->gap = step - x->to;
    x->to = step > x->to ? step : x->to;
    x->gained += bytes - g->high;
    x->times++;
    g->high = bytes;
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

static sw_status take_line(report *r, const profile_position *p, value o, uint64_t step,
                           bool settled)
{
    report_host *h = r->host;
    /* It has held nothing before, but for what is there when the file begins. */
    report_line x = {.growth = {.known = h->records > 0}};
    uint64_t bytes;
    if (value_kind_of(o) != VALUE_DICT)
        return profile_wrong(p, "places", "a list of places");
    SW_TRY(profile_get_text(p, o, "at", x.at, sizeof x.at));
    SW_TRY(profile_get_text(p, o, "heap", x.heap, sizeof x.heap));
    SW_TRY(profile_need_u64(p, o, "bytes", &bytes));
    uint32_t i = 0;
    while (i < h->n_lines &&
           (strcmp(h->lines[i].at, x.at) != 0 || strcmp(h->lines[i].heap, x.heap) != 0))
        i++;
    if (i == REPORT_LINES)
        return SW_OK;
    SW_TRY(sw_timeline_reserve(r->timeline, &h->lines, &h->cap_lines, i + 1, sizeof x));
    if (i == h->n_lines)
        h->lines[h->n_lines++] = x;
    look(&h->lines[i].growth, bytes, step, settled);
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
    if (value_kind_of(o) != VALUE_DICT)
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

static sw_status take_growth(report *r, const profile_position *p)
{
    report_host *h = r->host;
    static const char *const arenas[] = {"model", "data", "step"};
    const char *purposes[SW_HEAP_KINDS];
    uint64_t step;
    SW_TRY(profile_need_u64(p, p->record, "step", &step));
    /* A run in immediate mode is never called warm: the first ones take what the others use. */
    const char *mode = value_text(value_at(p->record, "mode"));
    const bool quiet = mode != NULL && strcmp(mode, "immediate") == 0
                           ? h->immediate++ > 2
                           : value_at(p->record, "warm") == VALUE_TRUE,
               settled = quiet && !h->unsettled;
    const value sites = value_at(p->record, "places");
    h->unsettled = !quiet;
    h->sample_unsettled |= !settled;
    h->clock = step > h->clock ? step : h->clock;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        purposes[i] = sw_heap_name((sw_heap)i);
    SW_TRY(take_figures(h, p, "heap", purposes, REPORT_OF_HEAP, SW_HEAP_KINDS, step, settled));
    SW_TRY(take_figures(h, p, "arenas", arenas, REPORT_OF_MODEL, 3, step, settled));
    if (sites != 0 && value_kind_of(sites) != VALUE_LIST)
        return profile_wrong(p, "places", "a list of places");
    for (size_t i = 0; i < value_count(sites); i++)
        SW_TRY(take_line(r, p, value_item(sites, i), step, settled));
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

#define FEW 4             /* growths that must be close to each other */
#define CLOSE 8           /* steps between two of a few */
#define WEAK 16           /* growths in steps that may */
#define SAMPLED 3         /* growths of a sampled figure */
#define OTHER_BYTES 32768 /* what the caches of an allocator take and give */
#define PROCESS_TIMES 6   /* of the system's figure: pages come in when first touched */
#define PROCESS_BYTES 1048576

static const char *series_name(int series)
{
    static const char *const names[] = {"model", "data", "step arena"};
    if (series < REPORT_OF_HEAP)
        return names[series];
    if (series < REPORT_OF_OTHER)
        return sw_heap_name((sw_heap)(series - REPORT_OF_HEAP));
    return series == REPORT_OF_OTHER ? "malloc" : "process";
}

/* ---- judging ----------------------------------------------------------------------------- */

static bool goes_on(const report_host *h, const report_gains *x)
{
    return h->clock - x->to <= 2 * (x->gap > 0 ? x->gap : 1) + 1;
}

static bool grows(const report_host *h, const report_growth *g, uint64_t wanted)
{
    const report_gains *x = &g->settled;
    return (x->times >= wanted && goes_on(h, x) && (x->times >= FEW || x->gap <= CLOSE)) ||
           (g->weak.times >= WEAK && goes_on(h, &g->weak));
}

static bool series_grows(const report_host *h, int series)
{
    const report_series *s = &h->series[series];
    const report_gains *x = &s->growth.settled;
    uint64_t known = 0; /* what the other figures explain */
    if (series == REPORT_OF_OTHER)
        return x->gained >= OTHER_BYTES && grows(h, &s->growth, SAMPLED);
    if (series != REPORT_OF_PROCESS)
        return grows(h, &s->growth, 2);
    for (int i = 0; i < REPORT_OF_PROCESS; i++)
        known += h->series[i].growth.settled.gained;
    if (x->gained < known + PROCESS_BYTES || 2 * known >= x->gained ||
        x->times < PROCESS_TIMES || !grows(h, &s->growth, PROCESS_TIMES) || s->n_bins < 4)
        return false;
    /* A third of it must have come in the later half, or it levels off. */
    const uint64_t begin = s->bin[s->n_bins / 4], middle = s->bin[s->n_bins / 2],
                   end = s->bin[s->n_bins - 1];
    return end > middle && middle > begin && 3 * (end - middle) >= end - begin;
}

/* Those that growth is judged by. */
static const report_gains *gains_of(const report_growth *g)
{
    return g->settled.times >= 2 ? &g->settled : &g->weak;
}

static uint64_t per_step(const report_growth *g)
{
    const report_gains *x = gains_of(g);
    return x->gained / (x->to - x->from + 1);
}

/* ---- growth as a section ----------------------------------------------------------------- */

typedef struct {
    const char *name;
    uint64_t first, last, high, per_step;
    bool grows;
    bars_text curve;
} series_line;

static const table_column series_columns[] = {
    COLUMN(series_line, NULL, "bytes", TABLE_NAME, 11, name),
    COLUMN(series_line, "first_bytes", "first", TABLE_BYTES, 15, first),
    COLUMN(series_line, "last_bytes", "last", TABLE_BYTES, 15, last),
    FIELD(series_line, "highest_bytes", high),
    FIELD(series_line, "grows", grows),
    COLUMN(series_line, "bytes_per_step", "per step", TABLE_BYTES, 12, per_step),
    COLUMN(series_line, NULL, "", TABLE_TEXT, 20, curve.text)};

/* A place that grows. */
typedef struct {
    const char *purpose, *place;
    bool line; /* the place is a line of code */
    uint64_t bytes_per_step, first_step, bytes, times;
} grown_line;

static const table_column grown_columns[] = {
    FIELDS(grown_line, purpose, place, bytes_per_step, first_step, bytes, times)};

static void hide_no_growth(const void *context, size_t i, table_cell *c)
{
    if (!((const series_line *)context)[i].grows)
        c[5].shown = "-";
}

/* The line of that purpose that has gained the most, of those that grow; NULL: none, as where
 * the blocks are from before the profile. */
static const report_line *worst_line(const report_host *h, int series)
{
    const report_line *worst = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < h->n_lines; i++) {
        const report_line *l = &h->lines[i];
        const uint64_t gained = l->growth.settled.gained + l->growth.weak.gained;
        if (series >= REPORT_OF_HEAP && series < REPORT_OF_OTHER &&
            strcmp(l->heap, series_name(series)) == 0 && grows(h, &l->growth, 2) &&
            (worst == NULL || gained > most)) {
            worst = l;
            most = gained;
        }
    }
    return worst;
}

static grown_line grown_of(const report_host *h, int series)
{
    const report_growth *g = &h->series[series].growth;
    const report_line *l = worst_line(h, series);
    const report_gains *x = gains_of(g);
    return (grown_line)
        SW_INIT(.purpose = series_name(series),
                .place =
                    series == REPORT_OF_OTHER
                        ? "by malloc of the program's own, outside the library's heap"
                    : series == REPORT_OF_PROCESS
                        ? "outside the library's heap, and not by malloc: mappings of others"
                    : series < REPORT_OF_HEAP
                        ? "by arenas that are made and not destroyed, or grow"
                    : l != NULL ? l->at
                                : "at a line that the profile does not know",
                .line = l != NULL, .bytes_per_step = per_step(g), .first_step = x->from,
                .bytes = x->gained, .times = x->times);
}

static void growth_section(const document *d, const report *r)
{
    const report_host *h = r->host;
    series_line series[REPORT_SERIES];
    grown_line grown[REPORT_SERIES];
    size_t n = 0, n_grown = 0;
    if (!document_open(d, "growth", h != NULL && h->records > 0, "Growth over the steps"))
        return;
    for (int i = 0; i < REPORT_SERIES; i++) {
        const report_series *s = &h->series[i];
        const bool rises = series_grows(h, i);
        if (rises)
            grown[n_grown++] = grown_of(h, i);
        if (!s->growth.known || (d->json == NULL && s->growth.high == 0 && s->growth.last == 0))
            continue;
        series[n] =
            (series_line)SW_INIT(.name = series_name(i), .first = s->growth.first,
                                 .last = s->growth.last, .high = s->growth.high, .grows = rises,
                                 .per_step = rises ? per_step(&s->growth) : 0);
        uint64_t low = UINT64_MAX, high = 0;
        for (size_t k = 0; k < s->n_bins; k++) {
            low = s->bin[k] < low ? s->bin[k] : low;
            high = s->bin[k] > high ? s->bin[k] : high;
        }
        if (s->n_bins > 1 && high > low) /* a line that says nothing is left out */
            series[n].curve = bars_spark(s->bin, s->n_bins, low, high, d->style->ascii);
        n++;
    }
    if (d->json == NULL) {
        const table t = TABLE_WITH(series_columns, series, n, hide_no_growth, series);
        table_print(&t, n, d->style);
        for (size_t i = 0; i < n_grown; i++)
            document_say(d, 2, 4, "%s grows by %s per step since step %" PRIu64 ", %s%s",
                         grown[i].purpose, table_bytes(grown[i].bytes_per_step, d->style).text,
                         grown[i].first_step, grown[i].line ? "taken at " : "", grown[i].place);
        if (n_grown == 0)
            document_say(d, 2, 4, "nothing grew");
        return;
    }
    sw_json_open(d->json, "series", '{');
    for (size_t i = 0; i < n; i++) {
        sw_json_open(d->json, series[i].name, '{');
        PUT_FIELDS(d->json, series_columns, &series[i]);
        sw_json_end(d->json);
    }
    sw_json_end(d->json);
    sw_json_put_bool(d->json, "grew", n_grown > 0);
    document_table(d, "rows", &TABLE_OF(grown_columns, grown, n_grown));
    document_close(d);
}

/* ---- denied requests --------------------------------------------------------------------- */

static const table_column denied_fields[] = {
    FIELDS(report_denied, times, step),
    FIELDS_KNOWN(report_denied, run, batch, limited_by, message, label, op, phase,
                 request_bytes, limit_bytes),
    FIELDS(report_denied, used_bytes),
    FIELDS_KNOWN(report_denied, needed_bytes, model_bytes, arena_bytes, data_bytes),
    FIELDS(report_denied, others_bytes),
    FIELDS_KNOWN(report_denied, largest_batch, largest_batch_bytes),
    FIELDS(report_denied, live_bytes)};
static const table_column holder_columns[] = {
    COLUMN(report_holder, "name", "largest", TABLE_NAME, 33, name),
    COLUMN_KNOWN(report_holder, "role", "role", TABLE_TEXT, 15, role),
    COLUMN_KNOWN(report_holder, "layer", NULL, TABLE_TEXT, 0, layer),
    COLUMN(report_holder, "bytes", "bytes", TABLE_BYTES, 15, bytes)};

/* Largest first; what has no name is called `none`. */
static sw_status take_shares(report *r, const profile_position *p, const char *key,
                             const char *none, report_share *to, size_t capacity, size_t *n)
{
    const value o = value_at(p->record, key);
    *n = 0;
    if (value_kind_of(o) != VALUE_DICT || value_count(o) > capacity)
        return profile_wrong(p, key, "an object of bytes");
    for (uint64_t i = 0; i < value_count(o); i++) {
        const char *name = value_key(o, i), *kept;
        char clean[SW_DENIED_NAME];
        uint64_t bytes;
        if (!value_whole(value_member(o, i), &bytes))
            return profile_wrong(p, key, "an object of bytes");
        sw_utf8_clean(clean, sizeof clean, *name != '\0' ? name : none);
        SW_TRY(sw_timeline_string(r->timeline, &kept, clean));
        size_t k = *n;
        for (; k > 0 && to[k - 1].bytes < bytes; k--)
            to[k] = to[k - 1];
        to[k] = (report_share){kept, bytes};
        ++*n;
    }
    return SW_OK;
}

static sw_status take_denied(report *r, const profile_position *p)
{
    const value holders = value_at(p->record, "holders");
    if (r->host->denied == NULL)
        SW_TRY(sw_timeline_alloc(r->timeline, &r->host->denied, 1, sizeof(report_denied)));
    report_denied *d = r->host->denied;
    const uint64_t times = d->times + 1;
    *d = (report_denied){.largest_batch = -1};
    SW_TRY(TAKE_FIELDS(p, p->record, denied_fields, d));
    d->times = times;
    d->largest_batch_bytes = 0; /* the record after this one says it */
    SW_TRY(profile_get_batch(p, &d->batch));
    SW_TRY(profile_need_u64(p, p->record, "step", &d->step));
    SW_TRY(
        take_shares(r, p, "by_role", "(no role)", d->role, SW_DENIED_SHARES / 4, &d->n_roles));
    SW_TRY(take_shares(r, p, "by_layer", REPORT_NO_LAYER, d->layer, SW_DENIED_SHARES,
                       &d->n_layers));
    if (value_kind_of(holders) != VALUE_LIST || value_count(holders) > SW_DENIED_HOLDERS)
        return profile_wrong(p, "holders", "a list of holders");
    for (; d->n_holders < value_count(holders); d->n_holders++) {
        const value o = value_item(holders, d->n_holders);
        if (value_kind_of(o) != VALUE_DICT)
            return profile_wrong(p, "holders", "a list of holders");
        SW_TRY(TAKE_FIELDS(p, o, holder_columns, &d->holder[d->n_holders]));
        SW_TRY(profile_need_u64(p, o, "bytes", &d->holder[d->n_holders].bytes));
    }
    return SW_OK;
}

void report_print_denied(const report *r, const report_style *style)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    const document to = {.style = style};
    if (d == NULL)
        return;
    sw_writer_print(style->to, "%sIt did not fit%s\n", style->to->colour ? "\033[1m" : "",
                    style->to->colour ? "\033[0m" : "");
    char when[64] = "while planning", batch[32] = "";
    if (d->step > 0)
        snprintf(when, sizeof when, "in step %" PRIu64, d->step);
    if (d->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRId64, d->batch);
    document_say(&to, 2, 4, "%s (%s%s): %s", when, d->run, batch, d->message);
    if (d->request_bytes > 0)
        document_say(&to, 2, 4, "%s requested for %s%s%s%s%s",
                     table_bytes(d->request_bytes, style).text,
                     d->label[0] != '\0' ? d->label : "it", d->op[0] != '\0' ? ", at " : "",
                     d->op, d->phase[0] != '\0' ? " in " : "", d->phase);
    if (d->limit_bytes > 0)
        document_say(&to, 2, 4, "%s %s: %s%s%s", d->limited_by[0] == 'm' ? "this" : "the",
                     d->limited_by, table_bytes(d->limit_bytes, style).text,
                     d->used_bytes > 0 ? ", taken before: " : "",
                     d->used_bytes > 0 ? table_bytes(d->used_bytes, style).text : "");
    /* The figures that must shrink, or would fit. */
    if (d->needed_bytes > 0)
        document_say(
            &to, 2, 4, "the least that would do: %s (model %s, arena %s, data %s%s%s)",
            table_bytes(d->needed_bytes, style).text, table_bytes(d->model_bytes, style).text,
            table_bytes(d->arena_bytes, style).text, table_bytes(d->data_bytes, style).text,
            d->others_bytes > 0 ? ", others " : "",
            d->others_bytes > 0 ? table_bytes(d->others_bytes, style).text : "");
    if (d->limit_bytes > 0 && d->needed_bytes > d->limit_bytes)
        document_say(&to, 2, 4,
                     "%s too many: a smaller batch shrinks arena and data, a smaller network "
                     "the model",
                     table_bytes(d->needed_bytes - d->limit_bytes, style).text);
    if (d->largest_batch > 0)
        document_say(&to, 2, 4,
                     "batch %" PRId64
                     " is the largest that fits without recomputation: it needs %s",
                     d->largest_batch, table_bytes(d->largest_batch_bytes, style).text);
    else if (d->largest_batch == 0)
        document_say(&to, 2, 4, "no batch fits");
    if (d->live_bytes != 0) {
        document_say(&to, 2, 4, "%s %s:", table_bytes(d->live_bytes, style).text,
                     d->step > 0 ? "were held" : "would be live at the peak");
        report_print_breakdown((report_breakdown){d->role, d->n_roles},
                               (report_breakdown){d->layer, d->n_layers}, d->live_bytes, style);
        table_print(&TABLE_OF(holder_columns, d->holder, d->n_holders), d->n_holders, style);
    }
    if (d->times > 1)
        document_say(&to, 2, 4, "%s requests were denied; this is the last",
                     sw_text_digits(d->times).text);
    sw_writer_text(style->to, "\n");
}

static void put_denied(sw_json *j, const report *r)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (!sw_json_open_known(j, "denied", d != NULL))
        return;
    PUT_FIELDS(j, denied_fields, d);
    report_put_breakdown(j, "by_role", (report_breakdown){d->role, d->n_roles});
    report_put_breakdown(j, "by_layer", (report_breakdown){d->layer, d->n_layers});
    table_put(j, "holders", &TABLE_OF(holder_columns, d->holder, d->n_holders));
    sw_json_end(j);
}

/* ---- cards ------------------------------------------------------------------------------- */

static const table_column device_fields[] = {
    FIELDS(report_device, name, at, card, capability, driver, runtime),
    FIELDS_KNOWN(report_device, cublas),
    {.key = "cudnn", .kind = TABLE_COUNT, .known = true}, /* null: it is not used any more */
    FIELDS(report_device, total_bytes, open_bytes, free_bytes)};
static const struct {
    const char *key, *name;
} arena_names[SW_ARENA_USES] = {{"other", "other arenas"},
                                {"step", "step arenas"},
                                {"model", "models"},
                                {"data", "inputs and metrics"}};

/* The latest record of a card counts; what is more than there is room for is passed over. */
static sw_status take_device(report_host *h, const profile_position *p)
{
    report_device d = {.cublas = 0};
    const value arenas = value_at(p->record, "arenas");
    size_t i = 0;
    SW_TRY(TAKE_FIELDS(p, p->record, device_fields, &d));
    snprintf(d.at, sizeof d.at, "%s", strcmp(d.at, "end") == 0 ? "end" : "begin");
    SW_TRY(profile_get_in(p, p->record, "total_bytes", (uint64_t)1 << 56, 0, &d.total_bytes));
    SW_TRY(profile_get_in(p, p->record, "open_bytes", d.total_bytes, 0, &d.open_bytes));
    SW_TRY(profile_get_in(p, p->record, "free_bytes", d.total_bytes, 0, &d.free_bytes));
    SW_TRY(profile_get_in(p, p->record, "graph_bytes", d.total_bytes, 0, &d.graph_bytes));
    SW_TRY(profile_get_in(p, p->record, "pinned_bytes", (uint64_t)1 << 56, 0, &d.pinned_bytes));
    for (int k = 0; k < SW_ARENA_USES; k++) {
        const value o = value_at(arenas, arena_names[k].key);
        if (o != 0 && value_kind_of(o) != VALUE_DICT)
            return profile_wrong(p, "arenas", "an object of objects");
        SW_TRY(profile_get_in(p, o, "committed_bytes", d.total_bytes, 0, &d.committed[k]));
        SW_TRY(profile_get_u64(p, o, "promised_bytes", 0, &d.promised[k]));
    }
    while (i < h->n_devices && strcmp(h->device[i].name, d.name) != 0)
        i++;
    if (i == REPORT_DEVICES)
        return SW_OK;
    h->device[i] = d;
    h->n_devices += i == h->n_devices;
    return SW_OK;
}

static int64_t rest_of(const report_device *d)
{
    int64_t rest = (int64_t)d->open_bytes - (int64_t)d->free_bytes - (int64_t)d->graph_bytes;
    for (int i = 0; i < SW_ARENA_USES; i++)
        rest -= (int64_t)d->committed[i];
    return rest;
}

static void print_device(const document *to, const report_device *d)
{
    static const sw_arena_use order[] = {SW_ARENA_MODEL, SW_ARENA_STEP, SW_ARENA_DATA,
                                         SW_ARENA_OTHER};
    char blas[48] = "without cuBLASLt";
    if (d->cublas > 0)
        snprintf(blas, sizeof blas, "cuBLASLt %" PRIu64, d->cublas);
    (void)document_open(to, NULL, true, "Memory of %s at the %s", d->name,
                        d->at[0] == 'e' ? "end" : "beginning");
    document_say(to, 2, 4, "%s, compute capability %s, driver %s, runtime %s, %s", d->card,
                 d->capability, d->driver, d->runtime, blas);
    document_bytes(to, 2, NULL, "card", (int64_t)d->total_bytes, "");
    document_bytes(to, 4, NULL, "before it was opened",
                   (int64_t)(d->total_bytes - d->open_bytes), "context, other programs");
    for (size_t i = 0; i < SW_ARENA_USES; i++)
        if (order[i] != SW_ARENA_OTHER || d->committed[order[i]] > 0)
            document_bytes(to, 4, NULL, arena_names[order[i]].name,
                           (int64_t)d->committed[order[i]], "");
    document_bytes(to, 4, NULL, "graphs", (int64_t)d->graph_bytes, "captured runs");
    document_bytes(to, 4, NULL, "unexplained", rest_of(d), "libraries, others");
    document_bytes(to, 4, NULL, "free", (int64_t)d->free_bytes, "");
    document_bytes(to, 2, NULL, "pinned on the host", (int64_t)d->pinned_bytes, "");
}

static void put_device(sw_json *j, const report_device *d)
{
    sw_json_begin(j, '{');
    PUT_FIELDS(j, device_fields, d);
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++) {
        sw_json_open(j, arena_names[i].key, '{');
        sw_json_put_u64(j, "committed_bytes", d->committed[i]);
        sw_json_put_u64(j, "promised_bytes", d->promised[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_i64(j, "unexplained_bytes", rest_of(d));
    SW_JSON_PUT(j, d, graph_bytes, pinned_bytes);
    sw_json_end(j);
}

/* ---- the heap ---------------------------------------------------------------------------- */

static const table_column purpose_columns[] = {
    COLUMN(report_purpose, "name", "bytes", TABLE_NAME, 8, name),
    COLUMN(report_purpose, "bytes", "asked for", TABLE_BYTES, 13, bytes),
    FIELD(report_purpose, "peak_bytes", peak),
    FIELD(report_purpose, "blocks", blocks),
    COLUMN(report_purpose, "allocated_bytes", "allocated", TABLE_BYTES, 13, allocated),
    COLUMN(report_purpose, "active_bytes", "active", TABLE_BYTES, 13, active),
    COLUMN(report_purpose, "resident_bytes", "resident", TABLE_BYTES, 13, resident),
    COLUMN(report_purpose, "mapped_bytes", "mapped", TABLE_BYTES, 13, mapped)};

static sw_status take_heap(report_host *h, const profile_position *p)
{
    const value purposes = value_at(p->record, "purposes"),
                other = value_at(p->record, "other");
    const size_t n = value_kind_of(purposes) == VALUE_LIST ? value_count(purposes) : SIZE_MAX;
    if (n > SW_HEAP_KINDS)
        return profile_wrong(p, "purposes", "a list of purposes");
    if (value_kind_of(other) != VALUE_DICT)
        return profile_wrong(p, "other", "an object");
    SW_TRY(profile_get_text(p, p->record, "backend", h->backend, sizeof h->backend));
    SW_TRY(profile_get_u64(p, p->record, "kept_bytes", 0, &h->kept));
    for (h->n_purposes = 0; h->n_purposes <= n; h->n_purposes++)
        SW_TRY(TAKE_FIELDS(p, h->n_purposes < n ? value_item(purposes, h->n_purposes) : other,
                           purpose_columns, &h->purpose[h->n_purposes]));
    snprintf(h->purpose[n].name, sizeof h->purpose[n].name, "others");
    return SW_OK;
}

/* 0 may be what the backend cannot tell. */
static void hide_unknown(const void *context, size_t i, table_cell *c)
{
    const report_host *h = context;
    for (int k = 4; k < 8; k++)
        if (h->purpose[i].mapped == 0 && c[k].n == 0)
            c[k].shown = "-";
    if (i + 1 == h->n_purposes)
        c[1].shown = "-";
}

static void heap_section(const document *d, const report *r)
{
    const report_host *h = r->host;
    const bool known = h != NULL && h->n_purposes > 0;
    if (!document_open(d, "heap", known, "Host heap at the end, %s", known ? h->backend : ""))
        return;
    const table t = TABLE_WITH(purpose_columns, h->purpose, h->n_purposes, hide_unknown, h);
    document_text(d, "backend", h->backend);
    document_table(d, "purposes", &t);
    document_bytes(d, 0, "kept_bytes", NULL, (int64_t)h->kept, "");
    document_say(d, 2, 4,
                 "others: malloc of the program and of libraries; %s more were mapped, given "
                 "back, and are kept for later",
                 table_bytes(h->kept, d->style).text);
    document_close(d);
}

/* ---- where the bytes are ----------------------------------------------------------------- */

typedef struct {
    /* of the process */
    bool told; /* line by line, by a record of the process */
    bool known;
    bool elsewhere; /* the arenas are a card's */
    uint64_t process, system, stacks, heap, rest, arenas, reserved;
    /* of the plan */
    const sw_tl_program *p;
    uint64_t total, tensors, holes;
} waterfall;

static bool find_bytes(waterfall *w, const report *r)
{
    const report_plan *plan = report_peak_plan(r);
    *w = (waterfall){.p = plan != NULL ? report_program(r, plan) : NULL};
    if (r->host == NULL || w->p == NULL || !w->p->has_parts)
        return false;
    const sw_tl_program *x = w->p;
    const uint64_t live = x->peak_bytes - x->model_bytes - x->slot_bytes;
    w->total = x->model_bytes + x->data_bytes + x->arena_bytes;
    w->tensors = live - x->padding_bytes - x->lanes_bytes;
    w->holes = x->arena_bytes - live;
    w->elsewhere = r->host->n_devices > 0;
    if (r->process != NULL) {
        const sw_process *p = r->process;
        w->told = w->known = true;
        w->process = p->resident_bytes;
        for (size_t i = 0; i < p->n; i++) {
            const sw_process_line *l = &p->line[i];
            uint64_t *to = l->kind == SW_PROCESS_ARENA   ? &w->arenas
                           : l->kind == SW_PROCESS_STACK ? &w->stacks
                           : l->kind == SW_PROCESS_HEAP  ? &w->heap
                           : l->kind == SW_PROCESS_REST  ? &w->rest
                                                         : &w->system;
            *to += l->resident_bytes;
            if (l->kind == SW_PROCESS_ARENA)
                w->reserved += l->mapped_bytes;
        }
    } else if (r->host->series[REPORT_OF_PROCESS].growth.known) {
        /* From steps: the process and the heap; arenas as far as they were promised. */
        const report_series *s = r->host->series;
        w->known = true;
        w->process = s[REPORT_OF_PROCESS].growth.last;
        for (int i = REPORT_OF_HEAP; i <= REPORT_OF_OTHER; i++)
            w->heap += s[i].growth.known ? s[i].growth.last : 0;
        w->heap = w->heap < w->process ? w->heap : w->process;
        const uint64_t left = w->process - w->heap;
        w->arenas = w->elsewhere ? 0 : w->total < left ? w->total : left;
        w->rest = left - w->arenas;
    }
    return true;
}

/* Figures are exact: their point is that they add up. */
static void waterfall_section(const document *d, const report *r)
{
    waterfall w;
    const report_plan *plan = report_peak_plan(r);
    if (!document_open(d, "waterfall", find_bytes(&w, r), "Where the bytes are, planned for %s",
                       plan != NULL ? report_program_name(plan).text : ""))
        return;
    if (d->json != NULL)
        sw_json_put_bool(d->json, "told_apart", w.told);
    if (w.known)
        document_bytes(d, 2, "process_bytes", "process", (int64_t)w.process,
                       "resident, as the system says");
    else if (d->json != NULL)
        sw_json_put_null(d->json, "process_bytes");
    if (w.told) {
        document_bytes(d, 4, "system_bytes", "program, libraries, system", (int64_t)w.system,
                       "");
        document_bytes(d, 4, "stack_bytes", "stacks", (int64_t)w.stacks, "");
        document_bytes(d, 2, "reserved_bytes", NULL, (int64_t)w.reserved, "");
    }
    if (w.known) {
        document_bytes(d, 4, "heap_bytes", "host heap", (int64_t)w.heap, "");
        document_bytes(d, 4, "arenas_bytes", "arenas", (int64_t)w.arenas,
                       w.elsewhere ? "they are on the device"
                       : w.told    ? "model, data, step"
                                   : "as planned");
        document_bytes(d, 4, w.told ? "unexplained_bytes" : "rest_bytes",
                       w.told ? "unexplained" : "unattributed", (int64_t)w.rest,
                       w.told ? "" : "train --process has details");
    }
    if (w.told)
        document_bytes(d, 2, NULL, "reserved", (int64_t)w.reserved,
                       "for arenas, in whole pages");
    document_bytes(d, 2, "planned_bytes", "planned", (int64_t)w.total, "");
    document_bytes(d, 4, NULL, "model", (int64_t)(w.p->model_bytes - w.p->model_padding_bytes),
                   "");
    document_bytes(d, 4, "model_bytes", NULL, (int64_t)w.p->model_bytes, "");
    document_bytes(d, 4, "model_alignment_bytes", "model, alignment",
                   (int64_t)w.p->model_padding_bytes, "");
    document_bytes(d, 4, "data_bytes", "data", (int64_t)w.p->data_bytes, "");
    document_bytes(d, 4, "arena_bytes", "step arena", (int64_t)w.p->arena_bytes, "");
    document_bytes(d, 6, "live_bytes", "live at the peak", (int64_t)w.tensors, "");
    document_bytes(d, 6, "padding_bytes", "padding", (int64_t)w.p->lanes_bytes,
                   "lanes that hold no image");
    document_bytes(d, 6, "alignment_bytes", "alignment", (int64_t)w.p->padding_bytes,
                   "tensors rounded up");
    document_bytes(d, 6, "holes_bytes", "holes", (int64_t)w.holes,
                   "between tensors at the peak");
    document_close(d);
}

/* ---- the process ------------------------------------------------------------------------- */

static sw_status process_take_line(const profile_position *p, value o, sw_process_line *l)
{
    char kind[16];
    uint64_t n, mapped, resident, huge, predicted;
    if (value_kind_of(o) != VALUE_DICT)
        return profile_wrong(p, "lines", "a list of lines");
    SW_TRY(profile_get_text(p, o, "kind", kind, sizeof kind));
    SW_TRY(profile_get_text(p, o, "name", l->name, sizeof l->name));
    SW_TRY(PROFILE_TAKE(NULL, p, o, {"n", &n, 0}, {"mapped_bytes", &mapped, 0},
                        {"resident_bytes", &resident, PROFILE_NEEDED}, {"huge_bytes", &huge, 0},
                        {"predicted_bytes", &predicted, UINT64_MAX}));
    l->kind = SW_PROCESS_ARENA;
    while (l->kind < SW_PROCESS_REST && strcmp(sw_process_kind_name(l->kind), kind) != 0)
        l->kind++; /* what a later version calls otherwise is shown as unexplained */
    l->n = n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    l->mapped_bytes = (size_t)mapped;
    l->resident_bytes = (size_t)resident;
    l->huge_bytes = (size_t)huge;
    l->predicted = predicted != UINT64_MAX;
    l->predicted_bytes = l->predicted ? (size_t)predicted : 0;
    return SW_OK;
}

/* The latest record counts. */
static sw_status take_process(report *r, const profile_position *p)
{
    sw_process x = {.n = 0};
    uint64_t resident, sum = 0;
    const value lines = value_at(p->record, "lines");
    SW_TRY(profile_need_u64(p, p->record, "resident_bytes", &resident));
    if (value_kind_of(lines) != VALUE_LIST || value_count(lines) > SW_PROCESS_LINES)
        return profile_wrong(p, "lines", "a list of lines");
    for (; x.n < value_count(lines); x.n++) {
        SW_TRY(process_take_line(p, value_item(lines, x.n), &x.line[x.n]));
        sum += x.line[x.n].resident_bytes;
    }
    if (sum != resident)
        return profile_wrong(p, "resident_bytes", "the sum of the lines");
    x.resident_bytes = (size_t)resident;
    if (r->process == NULL)
        SW_TRY(sw_timeline_alloc(r->timeline, &r->process, 1, sizeof *r->process));
    *r->process = x;
    return SW_OK;
}

typedef struct {
    const char *kind, *note;
    char whose[SW_PROCESS_NAME + 16];
    uint64_t resident;
    int64_t predicted; /* -1: not */
} process_line;

static const table_column process_columns[] = {
    COLUMN(process_line, NULL, "kind", TABLE_NAME, 7, kind),
    COLUMN(process_line, NULL, "whose", TABLE_TEXT, 26, whose),
    COLUMN(process_line, NULL, "resident", TABLE_BYTES, 15, resident),
    COLUMN_KNOWN(process_line, NULL, "predicted", TABLE_BYTES, 15, predicted),
    COLUMN(process_line, NULL, "", TABLE_TEXT, 10, note)};

void process_print(const sw_writer *to, const sw_process *p, const char *title)
{
    const sw_process_own own = sw_process_arenas(p);
    const report_style style = {.to = to};
    process_line lines[SW_PROCESS_LINES + 3];
    size_t n = 0;
    uint64_t huge = 0;
    for (size_t i = 0; i < p->n; i++) {
        const sw_process_line *l = &p->line[i];
        char text[SW_PROCESS_NAME + 16];
        huge += l->huge_bytes;
        if (l->resident_bytes == 0 && !l->predicted && l->kind != SW_PROCESS_REST)
            continue;
        /* The system may put a huge page where only a part of it was touched. */
        const size_t more = l->resident_bytes - l->predicted_bytes;
        const char *note = more == 0              ? "equal"
                           : more < l->huge_bytes ? "huge pages"
                                                  : "differs";
        lines[n] = (process_line){.kind = sw_process_kind_name(l->kind),
                                  .note = l->predicted ? note : "",
                                  .resident = l->resident_bytes,
                                  .predicted = l->predicted ? (int64_t)l->predicted_bytes : -1};
        snprintf(text, sizeof text, l->n > 1 ? "%s (%u)" : "%s", l->name, l->n);
        sw_utf8_clean(lines[n].whose, sizeof lines[n].whose, text);
        n++;
    }
    lines[n++] = (process_line){"", "", "all lines: the process", p->resident_bytes, -1};
    lines[n++] = (process_line){"", own.equal ? "equal" : "differs", "of it arenas",
                                own.resident_bytes, (int64_t)own.predicted_bytes};
    if (huge > 0)
        lines[n++] = (process_line){"", "", "of it in huge pages", huge, -1};
    sw_writer_print(to, "%s%s%s\n", to->colour ? "\033[1m" : "", title,
                    to->colour ? "\033[0m" : "");
    table_print(&TABLE_OF(process_columns, lines, n), n, &style);
}

/* ---- all of it --------------------------------------------------------------------------- */

sw_status report_take_host(report *r, const profile_position *p)
{
    if (r->host == NULL)
        SW_TRY(sw_timeline_alloc(r->timeline, &r->host, 1, sizeof *r->host));
    if (strcmp(p->type, "step") == 0)
        return take_growth(r, p);
    if (strcmp(p->type, "heap") == 0)
        return take_heap(r->host, p);
    if (strcmp(p->type, "denied") == 0)
        return take_denied(r, p);
    if (strcmp(p->type, "fits") == 0) { /* it belongs to the denied record before it */
        report_denied *d = r->host->denied;
        if (d == NULL)
            return profile_wrong(p, "type", "a record after a denied one");
        SW_TRY(profile_get_batch(p, &d->largest_batch));
        return profile_get_u64(p, p->record, "needed_bytes", 0, &d->largest_batch_bytes);
    }
    if (strcmp(p->type, "device") == 0)
        return take_device(r->host, p);
    return strcmp(p->type, "process") == 0 ? take_process(r, p) : SW_OK;
}

void report_host_sections(const document *d, const report *r)
{
    const size_t n = r->host != NULL ? r->host->n_devices : 0;
    if (d->json != NULL)
        put_denied(d->json, r);
    growth_section(d, r);
    waterfall_section(d, r);
    heap_section(d, r);
    if (d->json != NULL)
        sw_json_open(d->json, "devices", '[');
    for (size_t i = 0; i < n; i++)
        if (d->json != NULL)
            put_device(d->json, &r->host->device[i]);
        else
            print_device(d, &r->host->device[i]);
    if (d->json != NULL)
        sw_json_end(d->json);
}
