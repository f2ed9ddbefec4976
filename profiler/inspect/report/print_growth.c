/* Growth, as text and as JSON. */
#include "profiler/inspect/report/bars.h"
#include "profiler/inspect/report/print.h"
#include "profiler/inspect/report/report_table.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static bool of_series(const report_line *line, int series)
{
    return series >= REPORT_OF_HEAP && series < REPORT_OF_OTHER &&
           strcmp(line->heap, report_series_name(series)) == 0;
}

/* The line of that purpose that has gained the most, of those that grow; NULL: none, as where
 * the blocks are from before the profile. */
static const report_line *worst_line(const report_host *h, int series)
{
    const report_line *worst = NULL;
    for (size_t i = 0; i < h->n_lines; i++) {
        const report_line *l = &h->lines[i];
        const uint64_t gained = l->growth.gained + l->growth.weak_gained;
        if (of_series(l, series) && report_line_grows(h, l) &&
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

static void print_growing(const report_host *h, int i, const report_style *style)
{
    const report_growth *g = &h->series[i].growth;
    const bool line = worst_line(h, i) != NULL;
    sw_writer_say(style->to, 2, 4, "%s grows by %s per step since step %" PRIu64 ", %s%s",
                  report_series_name(i), table_bytes(report_per_step(g), style).text,
                  first_step(g), line ? "taken at " : "", site_of(h, i));
}

void report_print_growth(const report *r, const report_style *style)
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
            print_growing(h, i, style);
        }
    if (!any)
        sw_writer_print(style->to, "  nothing grew\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_row(sw_json *j, const report_host *h, int i)
{
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

void report_put_growth(sw_json *j, const report *r)
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
        if (report_grows(h, i))
            put_row(j, h, i);
    sw_json_end(j);
    sw_json_end(j);
}
