/* The table of the process. Figures are exact: its point is that they add up. */
#include "profiler/record/utf8.h"
#include "tools/job/process.h"
#include "tools/cli/cli.h"
#include <string.h>

static const char *bold(bool on)
{
    return cli_colour(stdout) ? on ? "\033[1m" : "\033[0m" : "";
}

static void print_name(const sw_process_line *l)
{
    char text[SW_PROCESS_NAME + 16], clean[SW_PROCESS_NAME + 16];
    if (l->n > 1)
        snprintf(text, sizeof text, "%s (%u)", l->name, l->n);
    else
        snprintf(text, sizeof text, "%s", l->name);
    sw_utf8_clean(clean, sizeof clean, text);
    const int left = cli_fitted(stdout, clean, strlen(clean), 26);
    printf("%*s", left, "");
}

/* The system may put a huge page where only a part of it was touched. */
static const char *verdict(const sw_process_line *l)
{
    if (l->resident_bytes == l->predicted_bytes)
        return "equal";
    const bool more = l->resident_bytes > l->predicted_bytes;
    return more && l->resident_bytes - l->predicted_bytes < l->huge_bytes ? "huge pages"
                                                                          : "differs";
}

static void print_line(const sw_process_line *l)
{
    printf("  %-7s ", sw_process_kind_name(l->kind));
    print_name(l);
    printf("%16s", cli_digits(l->resident_bytes).text);
    if (l->predicted)
        printf("%16s  %s", cli_digits(l->predicted_bytes).text, verdict(l));
    putchar('\n');
}

void process_print(const sw_process *p, const char *title)
{
    const sw_process_own own = sw_process_arenas(p);
    size_t huge = 0;
    printf("%s%s%s\n", bold(true), title, bold(false));
    printf("  %-7s %-26s%16s%16s\n", "kind", "whose", "resident", "predicted");
    for (size_t i = 0; i < p->n; i++) {
        if (p->line[i].resident_bytes > 0 || p->line[i].predicted ||
            p->line[i].kind == SW_PROCESS_REST)
            print_line(&p->line[i]);
        huge += p->line[i].huge_bytes;
    }
    printf("  %-34s%16s\n", "all lines: the process", cli_digits(p->resident_bytes).text);
    printf("  %-34s%16s%16s  %s\n", "of it arenas", cli_digits(own.resident_bytes).text,
           cli_digits(own.predicted_bytes).text, own.equal ? "equal" : "differs");
    if (huge > 0)
        printf("  %-34s%16s\n", "of it in huge pages", cli_digits(huge).text);
}
