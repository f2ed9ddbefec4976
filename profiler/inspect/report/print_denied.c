/* A request that was denied: its size, what there was, who holds it, and what would fit. It
 * stands before the report: without it there is nothing else to know. */
#include "profiler/record/utf8.h"
#include "profiler/inspect/report/print.h"
#include "profiler/inspect/report/report_table.h"
#include "profiler/inspect/report/report_parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static void print_held(const report_denied *d, const report_style *style)
{
    if (d->live == 0)
        return;
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

/* The figures that must shrink, or would fit. */
static void print_way_out(const report_denied *d, const report_style *style)
{
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
    print_way_out(d, style);
    print_held(d, style);
    if (d->n > 1)
        sw_writer_say(style->to, 2, 4, "%s requests were denied; this is the last",
                      sw_text_digits(d->n).text);
    sw_writer_text(style->to, "\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_figures(sw_json *j, const report_denied *d)
{
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
}

void report_put_denied(sw_json *j, const report *r)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (!sw_json_open_known(j, "denied", d != NULL))
        return;
    put_figures(j, d);
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
