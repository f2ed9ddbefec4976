/* The table of the process. Figures are exact: its point is that they add up. */
#include "profiler/record/utf8.h"
#include "profiler/inspect/report/process_table.h"
#include <stdio.h>
#include <string.h>

static const char *bold(const sw_writer *to, bool on)
{
    return to->colour ? on ? "\033[1m" : "\033[0m" : "";
}

static void print_name(const sw_writer *to, const sw_process_line *l)
{
    char text[SW_PROCESS_NAME + 16], clean[SW_PROCESS_NAME + 16];
    if (l->n > 1)
        snprintf(text, sizeof text, "%s (%u)", l->name, l->n);
    else
        snprintf(text, sizeof text, "%s", l->name);
    sw_utf8_clean(clean, sizeof clean, text);
    const int left = sw_writer_fitted(to, clean, strlen(clean), 26);
    sw_writer_print(to, "%*s", left, "");
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

static void print_line(const sw_writer *to, const sw_process_line *l)
{
    sw_writer_print(to, "  %-7s ", sw_process_kind_name(l->kind));
    print_name(to, l);
    sw_writer_print(to, "%16s", sw_text_digits(l->resident_bytes).text);
    if (l->predicted)
        sw_writer_print(to, "%16s  %s", sw_text_digits(l->predicted_bytes).text, difference(l));
    sw_writer_text(to, "\n");
}

void process_print(const sw_writer *to, const sw_process *p, const char *title)
{
    const sw_process_own own = sw_process_arenas(p);
    size_t huge = 0;
    sw_writer_print(to, "%s%s%s\n", bold(to, true), title, bold(to, false));
    sw_writer_print(to, "  %-7s %-26s%16s%16s\n", "kind", "whose", "resident", "predicted");
    for (size_t i = 0; i < p->n; i++) {
        if (p->line[i].resident_bytes > 0 || p->line[i].predicted ||
            p->line[i].kind == SW_PROCESS_REST)
            print_line(to, &p->line[i]);
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
