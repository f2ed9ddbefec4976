/* The report of a population: which turns are read, and what is made of them. */
#include "alloc/base/sys.h"
#include "profiler/inspect/population/population.h"
#include "tools/cli/cli.h"
#include "tools/report/file_same.h"
#include "tools/report/report_settings.h"
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    population_want want;
    int64_t member; /* -1: all */
    population_format format;
    const char *html; /* NULL: none */
} plan;

/* ---- what was asked for ------------------------------------------------------------------ */

static int read_asked(const report_settings *a, plan *out)
{
    const bool html = strcmp(a->format, "html") == 0, csv = strcmp(a->format, "csv") == 0,
               text = strcmp(a->format, "text") == 0;
    *out = (plan){.want.all = a->html != NULL || html,
                  .member = -1,
                  .format = a->json ? POPULATION_JSON
                            : csv   ? POPULATION_CSV
                                    : POPULATION_TEXT,
                  .html = a->html != NULL  ? a->html
                          : !html          ? NULL
                          : a->out != NULL ? a->out
                                           : "-"};
    if (a->by != NULL || a->steps != NULL)
        return cli_error(CLI_USAGE, "%s is of one run, and FILE is the profile of a population",
                         a->by != NULL ? "--by" : "--steps");
    if ((a->diff != NULL) + (a->turns != NULL) + (a->member != NULL) > 1)
        return cli_error(CLI_USAGE,
                         "--diff, --turns and --member are three reports: ask for one of them");
    CLI_TRY(report_check_format(a));
    if (!a->json && !html && !csv && !text)
        return cli_error(CLI_USAGE,
                         "--format %s is of one run: the profile of a population goes out as "
                         "text, json, csv or html",
                         a->format);
    if (a->out != NULL && !html)
        return cli_error(CLI_USAGE, "--out has no effect with --format %s: use a redirection",
                         a->format);
    if (file_same(out->html, a->file))
        return cli_error(CLI_USAGE, "%s is the file that is read", out->html);
    if (out->html != NULL && (a->diff != NULL || a->turns != NULL || a->member != NULL))
        return cli_error(CLI_USAGE, "--diff, --turns and --member go out as text, json or csv");
    if (report_gate_asked(&a->limits) && (out->html != NULL || out->format == POPULATION_CSV))
        return cli_error(CLI_USAGE,
                         "--max-peak and --fail-on-increase belong to reports in text or json");
    uint64_t *turn = out->want.turn, member = 0;
    const char *rest = a->turns != NULL ? report_read_number(a->turns, &turn[0]) : NULL;
    rest = rest != NULL && *rest == ',' ? report_read_number(rest + 1, &turn[1]) : NULL;
    if (a->turns != NULL && (rest == NULL || *rest != '\0' || turn[0] == 0 || turn[1] == 0))
        return cli_error(CLI_USAGE, "--turns must be two turns such as 1,20 (got '%s')",
                         a->turns);
    rest = a->member != NULL ? report_read_number(a->member, &member) : NULL;
    if (a->member != NULL && (rest == NULL || *rest != '\0' || member > UINT32_MAX))
        return cli_error(CLI_USAGE, "--member must be the number of a member (got '%s')",
                         a->member);
    out->member = a->member != NULL ? (int64_t)member : -1;
    return CLI_GO;
}

/* ---- reports ----------------------------------------------------------------------------- */

static sw_status write_piece(void *context, const char *bytes, size_t n)
{
    return sw_file_write(context, bytes, n);
}

static sw_status write_page(void *context, sw_file *file)
{
    return population_html(context, write_piece, file);
}

static report_gate_peak peak_of(const population *p)
{
    const bool known = p->seen_turns > 0;
    return (report_gate_peak){
        .path = p->shown, .known = known, .measured = known, .bytes = p->peak_bytes};
}

/* One population, or a pair of turns; the peak keeps the limits, or the status says so. */
static int print(population *p, const population_pair *pair, const plan *x,
                 const report_settings *a)
{
    report_gate gate = {.limits = &a->limits, .run = peak_of(p)};
    if (pair != NULL)
        gate.base = peak_of(pair->of[1]);
    const report_tail tail = {report_gate_more, &gate},
                      *more = report_gate_asked(&a->limits) ? &tail : NULL;
    CLI_LIBRARY(x->html != NULL ? cli_saved(sw_file_replace(x->html, write_page, p))
                : pair != NULL  ? population_compare(pair, x->format, more, &a->style)
                                : population_print(p, x->member, x->format, more, &a->style),
                false);
    int code = report_gate_judge(&gate, x->format == POPULATION_TEXT && !a->style.quiet);
    if (pair != NULL && pair->of[1] != p && pair->of[1]->file.damaged_line > 0)
        code = report_end(&pair->of[1]->file, code);
    return report_end(&p->file, code);
}

static int print_one(population *p, const plan *x, const report_settings *a)
{
    const population_turn *last = population_last(p);
    if (x->member >= 0 && last == NULL)
        return report_end(&p->file, cli_error(CLI_FAILED, "%s: no turn has ended", p->shown));
    if (x->member >= 0 && x->member >= last->n)
        return report_end(&p->file,
                          cli_error(CLI_USAGE, "--member must be 0 to %" PRIu32 " (got %s)",
                                    last->n - 1, a->member));
    return print(p, NULL, x, a);
}

/* The last turns of two populations, or two turns of one, where `other` is NULL. */
static int print_two(population *p, population *other, const plan *x, const report_settings *a)
{
    population_pair pair = {.of = {p, other != NULL ? other : p}};
    if (other == NULL) {
        pair.newer = 1;
        pair.origin = p->origin;
        pair.copies = p->copies;
    }
    for (int i = 0; i < 2; i++) {
        const population *of = pair.of[i];
        pair.turn[i] =
            other != NULL ? population_last(of) : population_find(of, x->want.turn[i]);
        if (pair.turn[i] != NULL)
            continue;
        return report_end(
            &of->file,
            of->seen_turns == 0
                ? cli_error(CLI_FAILED, "%s: no turn has ended", of->shown)
                : cli_error(CLI_FAILED,
                            "%s: no turn %" PRIu64 "; it has turns %" PRIu64 " to %" PRIu64,
                            of->shown, x->want.turn[i], of->first_turn, of->last_turn));
    }
    return print(p, &pair, x, a);
}

/* A file that is not a regular one is opened once, by the reader of all of it. */
int report_is_population(const char *path, bool *is)
{
    struct stat st;
    *is = false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return CLI_GO;
    const sw_status status = population_is(path, is);
    return status == SW_OK ? CLI_GO : cli_library_error(status, true);
}

int report_population(report_settings *a)
{
    plan x;
    population *p = NULL, *other = NULL;
    int code = report_limits_read(&a->limits, a->diff != NULL);
    if (code == CLI_GO)
        code = read_asked(a, &x);
    if (code != CLI_GO)
        return code;
    sw_status status = population_open(&p, a->file, &x.want);
    if (status == SW_OK && a->diff != NULL)
        status = population_open(&other, a->diff, &x.want);
    if (status != SW_OK)
        code = cli_library_error(status, true);
    else if (a->diff != NULL || a->turns != NULL)
        code = print_two(p, other, &x, a);
    else
        code = print_one(p, &x, a);
    population_free(other);
    population_free(p);
    return code;
}
