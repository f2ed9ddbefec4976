/* The host's memory in a report: the sections that are short. */
#include "profiler/inspect/report/print.h"
#include "profiler/inspect/report/report_table.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

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
    report_print_devices(style, r);
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
    report_put_devices(j, r);
}
