/* Memory outside of the plan, as text and as JSON: growth, denied requests, cards, the
 * process and its heap. */
#include "profiler/inspect/report/parts.h"
#include "profiler/inspect/report/print.h"
#include "profiler/record/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- growth ------------------------------------------------------------------------------ */

/* ---- text -------------------------------------------------------------------------------- */

static const char *spark(const report_series *s, const report_style *style, bars_text *out)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < s->n_bins; i++) {
        low = s->bin[i] < low ? s->bin[i] : low;
        high = s->bin[i] > high ? s->bin[i] : high;
    }
    out->text[0] = '\0';
    if (s->n_bins > 1 && high > low) /* a line that says nothing is left out */
        *out = bars_spark(s->bin, s->n_bins, low, high, style->ascii);
    return out->text;
}

static void print_series(const report_host *h, int i, const report_style *style)
{
    const report_series *s = &h->series[i];
    const bool grown = report_grows(h, i);
    bars_text bar;
    if (!s->growth.known || (s->growth.high == 0 && s->growth.last == 0))
        return;
    const char *curve = spark(s, style, &bar);
    sw_writer_print(style->to, "  %-11s%16s%16s%13s%s%s\n", report_series_name(i),
                    table_cell_bytes(s->growth.first, 16).text,
                    table_cell_bytes(s->growth.last, 16).text,
                    grown ? table_cell_bytes(report_per_step(&s->growth), 13).text : "-",
                    curve[0] != '\0' ? "  " : "", curve);
}

/* The line of that purpose that has gained the most, of those that grow; NULL: none, as where
 * the blocks are from before the profile. */
static const report_line *worst_line(const report_host *h, int series)
{
    const report_line *worst = NULL;
    for (size_t i = 0; i < h->n_lines; i++) {
        const report_line *l = &h->lines[i];
        const uint64_t gained = l->growth.gained + l->growth.weak_gained;
        if (series >= REPORT_OF_HEAP && series < REPORT_OF_OTHER &&
            strcmp(l->heap, report_series_name(series)) == 0 && report_line_grows(h, l) &&
            (worst == NULL || gained > worst->growth.gained + worst->growth.weak_gained))
            worst = l;
    }
    return worst;
}

static const char *site_of(const report_host *h, int series)
{
    if (series == REPORT_OF_OTHER)
        return "by malloc of the program's own, outside the library's heap";
    if (series == REPORT_OF_PROCESS)
        return "outside the library's heap, and not by malloc: mappings of others";
    if (series < REPORT_OF_HEAP)
        return "by arenas that are made and not destroyed, or grow";
    const report_line *l = worst_line(h, series);
    return l != NULL ? l->at : "at a line that the profile does not know";
}

static uint64_t first_step(const report_growth *g)
{
    return g->times >= 2 ? g->from : g->weak_from;
}

static void report_print_growth(const report *r, const report_style *style)
{
    const report_host *h = r->host;
    bool any = false;
    if (h == NULL || h->records == 0)
        return;
    report_headline(style, "Growth over the steps");
    sw_writer_print(style->to, "  %-11s%16s%16s%13s\n", "bytes", "first", "last", "per step");
    for (int i = 0; i < REPORT_SERIES; i++)
        print_series(h, i, style);
    for (int i = 0; i < REPORT_SERIES; i++)
        if (report_grows(h, i)) {
            any = true;
            const report_growth *g = &h->series[i].growth;
            const bool line = worst_line(h, i) != NULL;
            sw_writer_say(style->to, 2, 4,
                          "%s grows by %s per step since step %" PRIu64 ", %s%s",
                          report_series_name(i), table_bytes(report_per_step(g), style).text,
                          first_step(g), line ? "taken at " : "", site_of(h, i));
        }
    if (!any)
        sw_writer_print(style->to, "  nothing grew\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void report_put_growth(sw_json *j, const report *r)
{
    const report_host *h = r->host;
    bool any = false;
    if (!sw_json_open_known(j, "growth", h != NULL && h->records > 0))
        return;
    sw_json_open(j, "series", '{');
    for (int i = 0; i < REPORT_SERIES; i++) {
        const report_growth *g = &h->series[i].growth;
        if (!g->known)
            continue;
        const bool grown = report_grows(h, i);
        any |= grown;
        sw_json_open(j, report_series_name(i), '{');
        sw_json_put_u64(j, "first_bytes", g->first);
        sw_json_put_u64(j, "last_bytes", g->last);
        sw_json_put_u64(j, "highest_bytes", g->high);
        sw_json_put_bool(j, "grows", grown);
        sw_json_put_u64(j, "bytes_per_step", grown ? report_per_step(g) : 0);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_bool(j, "grew", any);
    sw_json_open(j, "rows", '[');
    for (int i = 0; i < REPORT_SERIES; i++)
        if (report_grows(h, i)) {
            const report_growth *g = &h->series[i].growth;
            sw_json_begin(j, '{');
            sw_json_put_string(j, "purpose", report_series_name(i));
            sw_json_put_string(j, "place", site_of(h, i));
            sw_json_put_u64(j, "bytes_per_step", report_per_step(g));
            sw_json_put_u64(j, "first_step", first_step(g));
            sw_json_put_u64(j, "bytes", g->times >= 2 ? g->gained : g->weak_gained);
            sw_json_put_u64(j, "times", g->times >= 2 ? g->times : g->weak_times);
            sw_json_end(j);
        }
    sw_json_end(j);
    sw_json_end(j);
}

/* ---- it did not fit ---------------------------------------------------------------------- */

/* ---- text -------------------------------------------------------------------------------- */

typedef struct {
    report_share role[SW_DENIED_SHARES / 4], layer[SW_DENIED_SHARES];
    report_breakdown roles, layers;
} held;

static report_breakdown shares_of(report_share *to, const sw_denied_share *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (report_share){from[i].name, from[i].bytes};
    return (report_breakdown){to, n};
}

static void find_held(held *h, const report_denied *d)
{
    h->roles = shares_of(h->role, d->role, d->n_roles);
    h->layers = shares_of(h->layer, d->layer, d->n_layers);
}

void report_print_denied(const report *r, const report_style *style)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (d == NULL)
        return;
    const bool bold = style->to->colour;
    sw_writer_print(style->to, "%sIt did not fit%s\n", bold ? "\033[1m" : "",
                    bold ? "\033[0m" : "");
    char when[64] = "while planning", batch[32] = "";
    if (d->step > 0)
        snprintf(when, sizeof when, "in step %" PRIu64, d->step);
    if (d->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRId64, d->batch);
    sw_writer_say(style->to, 2, 4, "%s (%s%s): %s", when, d->run, batch, d->message);
    if (d->request > 0)
        sw_writer_say(style->to, 2, 4, "%s requested for %s%s%s%s%s",
                      table_bytes(d->request, style).text,
                      d->label[0] != '\0' ? d->label : "it", d->op[0] != '\0' ? ", at " : "",
                      d->op, d->phase[0] != '\0' ? " in " : "", d->phase);
    if (d->limit > 0)
        sw_writer_say(style->to, 2, 4, "%s %s: %s%s%s",
                      d->limited_by[0] == 'm' ? "this" : "the", d->limited_by,
                      table_bytes(d->limit, style).text, d->used > 0 ? ", taken before: " : "",
                      d->used > 0 ? table_bytes(d->used, style).text : "");
    /* The figures that must shrink, or would fit. */
    const uint64_t there = d->limit;
    if (d->needed > 0) {
        sw_writer_say(style->to, 2, 4,
                      "the least that would do: %s (model %s, arena %s, data %s%s%s)",
                      table_bytes(d->needed, style).text, table_bytes(d->model, style).text,
                      table_bytes(d->arena, style).text, table_bytes(d->data, style).text,
                      d->others > 0 ? ", others " : "",
                      d->others > 0 ? table_bytes(d->others, style).text : "");
        if (there > 0 && d->needed > there)
            sw_writer_say(style->to, 2, 4,
                          "%s too many: a smaller batch shrinks arena and data, a smaller "
                          "network the model",
                          table_bytes(d->needed - there, style).text);
    }
    if (d->fits_batch > 0)
        sw_writer_say(style->to, 2, 4,
                      "batch %" PRId64
                      " is the largest that fits without recomputation: it needs "
                      "%s",
                      d->fits_batch, table_bytes(d->fits_bytes, style).text);
    else if (d->fits_batch == 0)
        sw_writer_say(style->to, 2, 4, "no batch fits");
    if (d->live != 0) {
        held h;
        find_held(&h, d);
        sw_writer_say(style->to, 2, 4, "%s %s:", table_bytes(d->live, style).text,
                      d->step > 0 ? "were held" : "would be live at the peak");
        report_print_breakdown(h.roles, h.layers, d->live, style);
        sw_writer_print(style->to, "  %-33s %-15s %15s\n", "largest", "role", "bytes");
        for (size_t i = 0; i < d->n_holders; i++) {
            sw_writer_print(style->to, "  ");
            const int left =
                sw_writer_fitted(style->to, d->holder[i].name, strlen(d->holder[i].name), 33);
            sw_writer_print(style->to, "%*s %-15s %15s\n", left, "", d->role_of[i],
                            table_cell_bytes(d->holder[i].bytes, 16).text);
        }
    }
    if (d->n > 1)
        sw_writer_say(style->to, 2, 4, "%s requests were denied; this is the last",
                      sw_text_digits(d->n).text);
    sw_writer_text(style->to, "\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void report_put_denied(sw_json *j, const report *r)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (!sw_json_open_known(j, "denied", d != NULL))
        return;
    sw_json_put_u64(j, "times", d->n);
    sw_json_put_u64(j, "step", d->step);
    report_put_text(j, "run", d->run);
    report_put_batch(j, d->batch);
    report_put_text(j, "limited_by", d->limited_by);
    report_put_text(j, "message", d->message);
    report_put_text(j, "label", d->label);
    report_put_text(j, "op", d->op);
    report_put_text(j, "phase", d->phase);
    sw_json_put_known(j, "request_bytes", d->request > 0, d->request);
    sw_json_put_known(j, "limit_bytes", d->limit > 0, d->limit);
    sw_json_put_u64(j, "used_bytes", d->used);
    sw_json_put_known(j, "needed_bytes", d->needed > 0, d->needed);
    sw_json_put_known(j, "model_bytes", d->model > 0, d->model);
    sw_json_put_known(j, "arena_bytes", d->arena > 0, d->arena);
    sw_json_put_known(j, "data_bytes", d->data > 0, d->data);
    sw_json_put_u64(j, "others_bytes", d->others);
    sw_json_put_known(j, "largest_batch", d->fits_batch >= 0, (uint64_t)d->fits_batch);
    sw_json_put_known(j, "largest_batch_bytes", d->fits_bytes > 0, d->fits_bytes);
    sw_json_put_u64(j, "live_bytes", d->live);
    held h;
    find_held(&h, d);
    report_put_breakdown(j, "by_role", h.roles);
    report_put_breakdown(j, "by_layer", h.layers);
    sw_json_open(j, "holders", '[');
    for (size_t i = 0; i < d->n_holders; i++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", d->holder[i].name);
        report_put_text(j, "role", d->role_of[i]);
        report_put_text(j, "layer", d->holder[i].layer);
        sw_json_put_u64(j, "bytes", d->holder[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
}

/* ---- cards ------------------------------------------------------------------------------- */

static int64_t rest_of(const report_device *d)
{
    int64_t rest = (int64_t)d->open - (int64_t)d->free;
    for (int i = 0; i < SW_ARENA_USES; i++)
        rest -= (int64_t)d->committed[i];
    return rest;
}

/* ---- text -------------------------------------------------------------------------------- */

static void line(const report_style *style, int indent, const char *name, int64_t bytes,
                 const char *why)
{
    char text[48];
    snprintf(text, sizeof text, "%s%s", bytes < 0 ? "-" : "",
             sw_text_digits((uint64_t)(bytes < 0 ? -bytes : bytes)).text);
    sw_writer_print(style->to, "%*s%-*s%18s%s%s\n", indent, "", 30 - indent, name, text,
                    why[0] != '\0' ? "  " : "", why);
}

static void print_device(const report_style *style, const report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other arenas", "step arenas", "models",
                                                     "inputs and metrics"};
    static const sw_arena_use order[] = {SW_ARENA_MODEL, SW_ARENA_STEP, SW_ARENA_DATA,
                                         SW_ARENA_OTHER};
    char title[64], blas[48] = "without cuBLASLt";
    snprintf(title, sizeof title, "Memory of %s %s", d->name,
             d->ended ? "at the end" : "at the beginning");
    report_headline(style, title);
    if (d->blas > 0)
        snprintf(blas, sizeof blas, "cuBLASLt %" PRIu64, d->blas);
    sw_writer_say(style->to, 2, 4, "%s, compute capability %s, driver %s, runtime %s, %s",
                  d->card, d->capability, d->driver, d->runtime, blas);
    line(style, 2, "card", (int64_t)d->total, "");
    line(style, 4, "before it was opened", (int64_t)(d->total - d->open),
         "context, other programs");
    for (size_t i = 0; i < SW_ARENA_USES; i++)
        if (order[i] != SW_ARENA_OTHER || d->committed[order[i]] > 0)
            line(style, 4, names[order[i]], (int64_t)d->committed[order[i]], "");
    line(style, 4, "unexplained", rest_of(d), "libraries, graphs, others");
    line(style, 4, "free", (int64_t)d->free, "");
    line(style, 2, "pinned on the host", (int64_t)d->pinned, "");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_device(sw_json *j, const report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    sw_json_begin(j, '{');
    sw_json_put_string(j, "name", d->name);
    sw_json_put_string(j, "at", d->ended ? "end" : "begin");
    sw_json_put_string(j, "card", d->card);
    sw_json_put_string(j, "capability", d->capability);
    sw_json_put_string(j, "driver", d->driver);
    sw_json_put_string(j, "runtime", d->runtime);
    sw_json_put_known(j, "cublas", d->blas > 0, d->blas);
    sw_json_put_known(j, "cudnn", false, 0);
    sw_json_put_u64(j, "total_bytes", d->total);
    sw_json_put_u64(j, "open_bytes", d->open);
    sw_json_put_u64(j, "free_bytes", d->free);
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++) {
        sw_json_open(j, names[i], '{');
        sw_json_put_u64(j, "committed_bytes", d->committed[i]);
        sw_json_put_u64(j, "promised_bytes", d->promised[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_i64(j, "unexplained_bytes", rest_of(d));
    sw_json_put_u64(j, "pinned_bytes", d->pinned);
    sw_json_end(j);
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

/* From steps: the process and the heap; arenas as far as they were promised. */
static void add_steps(waterfall *w, const report *r, uint64_t total)
{
    const report_series *s = r->host->series;
    if (!s[REPORT_OF_PROCESS].growth.known)
        return;
    w->known = true;
    w->process = s[REPORT_OF_PROCESS].growth.last;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        w->heap += s[REPORT_OF_HEAP + i].growth.last;
    if (s[REPORT_OF_OTHER].growth.known)
        w->heap += s[REPORT_OF_OTHER].growth.last;
    w->heap = w->heap < w->process ? w->heap : w->process;
    const uint64_t left = w->process - w->heap;
    w->arenas = w->elsewhere ? 0 : total < left ? total : left;
    w->rest = left - w->arenas;
}

static bool make(waterfall *w, const report *r)
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
    } else
        add_steps(w, r, w->total);
    return true;
}

/* ---- text -------------------------------------------------------------------------------- */

static void waterfall_line(const report_style *style, int indent, const char *name,
                           uint64_t bytes, const char *why)
{
    sw_writer_print(style->to, "%*s%-*s%17s%s%s\n", indent, "", 30 - indent, name,
                    sw_text_digits(bytes).text, why[0] != '\0' ? "  " : "", why);
}

static void report_print_waterfall(const report *r, const report_style *style)
{
    waterfall w;
    /* figures are exact: their point is that they add up */
    if (!make(&w, r))
        return;
    sw_writer_text(style->to, "\n");
    sw_writer_say(style->to, 0, 2, "%sWhere the bytes are%s, planned for %s",
                  style->to->colour ? "\033[1m" : "", style->to->colour ? "\033[0m" : "",
                  report_program_name(report_peak_plan(r)).text);
    if (w.known) {
        waterfall_line(style, 2, "process", w.process, "resident, as the system says");
        if (w.told) {
            waterfall_line(style, 4, "program, libraries, system", w.system, "");
            waterfall_line(style, 4, "stacks", w.stacks, "");
        }
        waterfall_line(style, 4, "host heap", w.heap, "");
        waterfall_line(style, 4, "arenas", w.arenas,
                       w.elsewhere ? "they are on the device"
                       : w.told    ? "model, data, step"
                                   : "as planned");
        waterfall_line(style, 4, w.told ? "unexplained" : "unattributed", w.rest,
                       w.told ? "" : "run train --process for details");
    }
    if (w.told)
        waterfall_line(style, 2, "reserved", w.reserved, "for arenas, in whole pages");
    waterfall_line(style, 2, "planned", w.total, "");
    waterfall_line(style, 4, "model", w.p->model_bytes - w.p->model_padding_bytes, "");
    waterfall_line(style, 4, "model, alignment", w.p->model_padding_bytes, "");
    waterfall_line(style, 4, "data", w.p->data_bytes, "");
    waterfall_line(style, 4, "step arena", w.p->arena_bytes, "");
    waterfall_line(style, 6, "live at the peak", w.tensors, "");
    waterfall_line(style, 6, "padding", w.p->lanes_bytes, "lanes that hold no image");
    waterfall_line(style, 6, "alignment", w.p->padding_bytes, "tensors rounded up");
    waterfall_line(style, 6, "holes", w.holes, "between tensors at the peak");
}

static void report_put_waterfall(sw_json *j, const report *r)
{
    waterfall w;
    if (!sw_json_open_known(j, "waterfall", make(&w, r)))
        return;
    sw_json_put_bool(j, "told_apart", w.told);
    sw_json_put_known(j, "process_bytes", w.known, w.process);
    if (w.told) {
        sw_json_put_u64(j, "system_bytes", w.system);
        sw_json_put_u64(j, "stack_bytes", w.stacks);
        sw_json_put_u64(j, "reserved_bytes", w.reserved);
    }
    if (w.known) {
        sw_json_put_u64(j, "heap_bytes", w.heap);
        sw_json_put_u64(j, "arenas_bytes", w.arenas);
        sw_json_put_u64(j, w.told ? "unexplained_bytes" : "rest_bytes", w.rest);
    }
    sw_json_put_u64(j, "planned_bytes", w.total);
    sw_json_put_u64(j, "model_bytes", w.p->model_bytes);
    sw_json_put_u64(j, "model_alignment_bytes", w.p->model_padding_bytes);
    sw_json_put_u64(j, "data_bytes", w.p->data_bytes);
    sw_json_put_u64(j, "arena_bytes", w.p->arena_bytes);
    sw_json_put_u64(j, "live_bytes", w.tensors);
    sw_json_put_u64(j, "padding_bytes", w.p->lanes_bytes);
    sw_json_put_u64(j, "alignment_bytes", w.p->padding_bytes);
    sw_json_put_u64(j, "holes_bytes", w.holes);
    sw_json_end(j);
}

/* ---- the process ------------------------------------------------------------------------- */

static const char *bold(const sw_writer *to, bool on)
{
    return to->colour ? on ? "\033[1m" : "\033[0m" : "";
}

/* The system may put a huge page where only a part of it was touched. */
static const char *difference(const sw_process_line *l)
{
    if (l->resident_bytes == l->predicted_bytes)
        return "equal";
    const bool more = l->resident_bytes > l->predicted_bytes;
    return more && l->resident_bytes - l->predicted_bytes < l->huge_bytes ? "huge pages"
                                                                          : "differs";
}

void process_print(const sw_writer *to, const sw_process *p, const char *title)
{
    const sw_process_own own = sw_process_arenas(p);
    size_t huge = 0;
    sw_writer_print(to, "%s%s%s\n", bold(to, true), title, bold(to, false));
    sw_writer_print(to, "  %-7s %-26s%16s%16s\n", "kind", "whose", "resident", "predicted");
    for (size_t i = 0; i < p->n; i++) {
        if (p->line[i].resident_bytes > 0 || p->line[i].predicted ||
            p->line[i].kind == SW_PROCESS_REST) {
            sw_writer_print(to, "  %-7s ", sw_process_kind_name(p->line[i].kind));
            char text[SW_PROCESS_NAME + 16], clean[SW_PROCESS_NAME + 16];
            if (p->line[i].n > 1)
                snprintf(text, sizeof text, "%s (%u)", p->line[i].name, p->line[i].n);
            else
                snprintf(text, sizeof text, "%s", p->line[i].name);
            sw_utf8_clean(clean, sizeof clean, text);
            const int left = sw_writer_fitted(to, clean, strlen(clean), 26);
            sw_writer_print(to, "%*s", left, "");
            sw_writer_print(to, "%16s", sw_text_digits(p->line[i].resident_bytes).text);
            if (p->line[i].predicted)
                sw_writer_print(to, "%16s  %s", sw_text_digits(p->line[i].predicted_bytes).text,
                                difference(&p->line[i]));
            sw_writer_text(to, "\n");
        }
        huge += p->line[i].huge_bytes;
    }
    sw_writer_print(to, "  %-34s%16s\n", "all lines: the process",
                    sw_text_digits(p->resident_bytes).text);
    sw_writer_print(to, "  %-34s%16s%16s  %s\n", "of it arenas",
                    sw_text_digits(own.resident_bytes).text,
                    sw_text_digits(own.predicted_bytes).text, own.equal ? "equal" : "differs");
    if (huge > 0)
        sw_writer_print(to, "  %-34s%16s\n", "of it in huge pages", sw_text_digits(huge).text);
}

/* ---- in order ---------------------------------------------------------------------------- */

/* ---- for sections ------------------------------------------------------------------------ */

void report_headline(const report_style *style, const char *text)
{
    const bool bold = style->to->colour;
    sw_writer_print(style->to, "\n%s%s%s\n", bold ? "\033[1m" : "", text,
                    bold ? "\033[0m" : "");
}

static void print_heap(const report *r, const report_style *style)
{
    const report_host *h = r->host;
    if (h == NULL || h->n_purposes == 0)
        return;
    char title[80];
    snprintf(title, sizeof title, "Host heap at the end, %s", h->backend);
    report_headline(style, title);
    sw_writer_print(style->to, "  %-8s%14s%14s%14s%14s%14s\n", "bytes", "asked for",
                    "allocated", "active", "resident", "mapped");
    for (size_t i = 0; i < h->n_purposes; i++) {
        const report_purpose *p = &h->purpose[i];
        const bool rest = i + 1 == h->n_purposes;
        sw_writer_print(style->to, "  %-8s%14s", p->name,
                        rest ? "-" : table_cell_bytes(p->bytes, 14).text);
        const uint64_t figures[] = {p->allocated, p->active, p->resident, p->mapped};
        for (int k = 0; k < 4; k++) /* 0: the backend cannot tell */
            sw_writer_print(style->to, "%14s",
                            p->mapped == 0 && figures[k] == 0
                                ? "-"
                                : table_cell_bytes(figures[k], 14).text);
        sw_writer_text(style->to, "\n");
    }
    sw_writer_say(style->to, 2, 4,
                  "others: malloc of the program and of libraries; %s more were mapped, given "
                  "back, and are kept for later",
                  table_bytes(h->kept, style).text);
}

void report_print_host(const report *r, const report_style *style)
{
    report_print_growth(r, style);
    report_print_waterfall(r, style);
    print_heap(r, style);
    for (size_t i = 0; r->host != NULL && i < r->host->n_devices; i++)
        print_device(style, &r->host->device[i]);
}

static void put_heap(sw_json *j, const report *r)
{
    const report_host *h = r->host;
    if (!sw_json_open_known(j, "heap", h != NULL && h->n_purposes > 0))
        return;
    sw_json_put_string(j, "backend", h->backend);
    sw_json_open(j, "purposes", '[');
    for (size_t i = 0; i < h->n_purposes; i++) {
        const report_purpose *p = &h->purpose[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", p->name);
        sw_json_put_u64(j, "bytes", p->bytes);
        sw_json_put_u64(j, "peak_bytes", p->peak);
        sw_json_put_u64(j, "blocks", p->blocks);
        sw_json_put_u64(j, "allocated_bytes", p->allocated);
        sw_json_put_u64(j, "active_bytes", p->active);
        sw_json_put_u64(j, "resident_bytes", p->resident);
        sw_json_put_u64(j, "mapped_bytes", p->mapped);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_u64(j, "kept_bytes", h->kept);
    sw_json_end(j);
}

void report_put_host(sw_json *j, const report *r)
{
    report_put_denied(j, r);
    report_put_growth(j, r);
    report_put_waterfall(j, r);
    put_heap(j, r);
    sw_json_open(j, "devices", '[');
    for (size_t i = 0; r->host != NULL && i < r->host->n_devices; i++)
        put_device(j, &r->host->device[i]);
    sw_json_end(j);
}
