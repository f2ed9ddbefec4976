/* Live bytes, by role and by layer: side by side, and as members of an object. */
#include "profiler/inspect/report/print.h"
#include "profiler/inspect/report/report_table.h"
#include <stdio.h>
#include <string.h>

#define LAYERS 10
#define STEP_ROWS 6 /* from each end */

/* Of `shown` lines, the last takes what is left. */
static void print_share(report_breakdown x, size_t i, size_t shown, uint64_t all,
                        const report_style *style)
{
    char more[32];
    if (i >= shown) {
        sw_writer_print(style->to, "%39s", "");
        return;
    }
    report_share share = x.at[i];
    if (i + 1 == shown && x.n > shown) {
        snprintf(more, sizeof more, "%zu more", x.n - shown + 1);
        share.name = more;
        for (size_t k = shown; k < x.n; k++)
            share.bytes += x.at[k].bytes;
    }
    sw_writer_print(style->to, "  ");
    const int left = sw_writer_fitted(style->to, share.name, strlen(share.name), 15);
    sw_writer_print(style->to, "%*s%15s%6.1f%%", left, "",
                    table_cell_bytes(share.bytes, 15).text,
                    all > 0 ? 100.0 * (double)share.bytes / (double)all : 0.0);
}

/* Names of other tools' scopes are long: one table below the other. */
static void print_wide(report_breakdown x, const char *head, uint64_t all,
                       const report_style *style)
{
    const int width = sw_writer_columns(style->to) - 26;
    sw_writer_print(style->to, "  %15s%7s  %s\n", "bytes", "", head);
    for (size_t i = 0; i < x.n && i < LAYERS; i++) {
        const report_share *s = &x.at[i];
        sw_writer_print(style->to, "  %15s%6.1f%%  ", table_cell_bytes(s->bytes, 15).text,
                        all > 0 ? 100.0 * (double)s->bytes / (double)all : 0.0);
        (void)sw_writer_scopes(style->to, s->name, width);
        sw_writer_text(style->to, "\n");
    }
    if (x.n > LAYERS)
        sw_writer_print(style->to, "  %24s%zu more\n", "", x.n - LAYERS);
}

void report_print_breakdown(report_breakdown roles, report_breakdown layers, uint64_t all,
                            const report_style *style)
{
    const size_t shown = layers.n < LAYERS ? layers.n : LAYERS;
    for (size_t i = 0; i < shown; i++)
        if (strstr(layers.at[i].name, ".py:") != NULL) {
            print_wide(roles, "by role", all, style);
            print_wide(layers, "by layer", all, style);
            return;
        }
    sw_writer_print(style->to, "  %-15s%15s%7s  %-15s%15s\n", "by role", "bytes", "",
                    "by layer", "bytes");
    for (size_t i = 0; i < roles.n || i < shown; i++) {
        print_share(roles, i, roles.n, all, style);
        if (i < shown)
            print_share(layers, i, shown, all, style);
        sw_writer_text(style->to, "\n");
    }
}

void report_put_breakdown(sw_json *j, const char *key, report_breakdown x)
{
    sw_json_open(j, key, '{');
    for (size_t i = 0; i < x.n; i++)
        sw_json_put_u64(j, x.at[i].name, x.at[i].bytes);
    sw_json_end(j);
}

void report_print_steps(const report_style *style, const sw_tl_step *steps, uint32_t n,
                        bool passes)
{
    if (n == 0)
        return;
    report_headline(style, passes ? "Phases of each pass: the most that lived"
                                  : "Phases of each step: the most that lived");
    sw_writer_print(style->to, "  %4s", "");
    for (int phase = 0; phase < SW_PROF_PHASES; phase++)
        sw_writer_print(style->to, "%15s", sw_prof_phase_name(phase));
    sw_writer_text(style->to, "\n");
    for (uint32_t i = 0; i < n; i++) {
        if (n > 2 * STEP_ROWS && i == STEP_ROWS) {
            sw_writer_text(style->to, "   ...\n");
            i = n - STEP_ROWS;
        }
        sw_writer_print(style->to, "  %4u", i + 1);
        for (int phase = 0; phase < SW_PROF_PHASES; phase++)
            sw_writer_print(style->to, "%15s",
                            steps[i].peak[phase] > 0 ? sw_text_digits(steps[i].peak[phase]).text
                                                     : "-");
        sw_writer_text(style->to, "\n");
    }
}

void report_put_steps(sw_json *j, const sw_tl_step *steps, uint32_t n)
{
    sw_json_open(j, "step_phases", '[');
    for (uint32_t i = 0; i < n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "from", steps[i].first);
        sw_json_put_u64(j, "to", steps[i].last);
        for (int phase = 0; phase < SW_PROF_PHASES; phase++) {
            char key[32];
            snprintf(key, sizeof key, "%s_peak_bytes", sw_prof_phase_name(phase));
            sw_json_put_known(j, key, steps[i].peak[phase] > 0, steps[i].peak[phase]);
        }
        sw_json_end(j);
    }
    sw_json_end(j);
}
