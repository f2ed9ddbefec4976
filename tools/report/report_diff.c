/* `--diff` and `--steps`: which two are compared, and the limits that judge one of them. */
#include "tools/report/report_diff.h"
#include "profiler/inspect/report/parts.h"
#include "tools/cli/cli.h"
#include "tools/report/report_end.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gates ------------------------------------------------------------------------------- */

/* The line of a group in which the newer run has most beyond the other. */
static const compare_line *most_grown(const comparison *c, compare_group of)
{
    const compare_line *most = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const compare_line *l = &c->lines[i];
        if (l->of == of && compare_difference(c, l) > 0 &&
            (most == NULL || compare_difference(c, l) > compare_difference(c, most)))
            most = l;
    }
    return most;
}

static void name_grown(const comparison *c, report_gate *gate)
{
    static const struct {
        compare_group of;
        const char *word;
    } kinds[] = {{COMPARE_ROLES, "role"}, {COMPARE_LAYERS, "layer"}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const compare_line *l = most_grown(c, kinds[i].of);
        if (l != NULL)
            used +=
                (size_t)snprintf(gate->grew + used, sizeof gate->grew - used,
                                 "%s%s %.80s (+%s bytes)", used > 0 ? ", " : "", kinds[i].word,
                                 l->name, cli_digits((uint64_t)compare_difference(c, l)).text);
    }
}

/* ---- both -------------------------------------------------------------------------------- */

static int print_result(const comparison *c, bool json, const report_style *style,
                        report_gate *gate)
{
    const bool asked = report_gate_asked(gate->limits);
    name_grown(c, gate);
    const report_tail more = {report_gate_more, gate};
    if (!json) {
        report_print_difference(c, style);
    } else {
        const sw_status status = report_difference_json(c, asked ? &more : NULL, style);
        if (status != SW_OK)
            return cli_library_error(status, false);
    }
    return report_gate_judge(gate, !json && !style->quiet);
}

int report_diff(const char *file, const char *other, bool json, const report_style *style,
                const report_limits *limits)
{
    comparison c = {0};
    report *r[2] = {NULL, NULL};
    const char *const path[2] = {file, other};
    int code;
    sw_status status = SW_OK;
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        status = report_open(&r[i], path[i], NULL);
        if (status == SW_OK)
            status = compare_run(&c.side[i], r[i]);
    }
    if (status == SW_OK)
        status = compare(&c);
    if (status == SW_OK) {
        report_gate gate = {
            .limits = limits, .run = report_highest(r[0]), .base = report_highest(r[1])};
        code = print_result(&c, json, style, &gate);
        code = report_end(r[1], report_end(r[0], code));
    } else {
        code = cli_library_error(status, true);
    }
    compare_free(&c);
    report_free(r[0]);
    report_free(r[1]);
    return code;
}

/* A step that is not there: those beside it. */
static int no_such_step(const report *r, const report_step *step)
{
    char near[96] = "there are no such runs";
    if (step->below > 0 && step->above > 0)
        snprintf(near, sizeof near, "the nearest are %" PRIu64 " and %" PRIu64, step->below,
                 step->above);
    else if (step->below + step->above > 0)
        snprintf(near, sizeof near, "the nearest is %" PRIu64, step->below + step->above);
    if (r->runs + r->evaluations == 0)
        return cli_error(CLI_FAILED, "%s: there is no step in the file", r->path);
    return cli_error(CLI_FAILED, "%s: no record of %s%sstep %" PRIu64 "; %s", r->path,
                     step->run, *step->run != '\0' ? " " : "", step->step, near);
}

int report_steps(const char *file, report_steps_wanted *steps, bool json,
                 const report_style *style, const report_limits *limits)
{
    comparison c = {.newer = 1};
    report *r;
    sw_status status = report_open(&r, file, steps);
    if (status != SW_OK)
        return cli_library_error(status, true);
    int code = CLI_GO;
    for (int i = 0; i < 2 && status == SW_OK && code == CLI_GO; i++) {
        if (steps->at[i].found)
            status = compare_step(&c.side[i], r, &steps->at[i]);
        else
            code = r->damaged_line > 0 ? CLI_DAMAGED : no_such_step(r, &steps->at[i]);
    }
    if (status == SW_OK && code == CLI_GO)
        status = compare(&c);
    if (status != SW_OK && (status != SW_FORMAT || r->damaged_line == 0)) {
        code = cli_library_error(status, true);
    } else if (status == SW_OK && code == CLI_GO) {
        report_gate gate = {.limits = limits, .run = report_highest(r)};
        code = print_result(&c, json, style, &gate);
    }
    code = report_end(r, code);
    compare_free(&c);
    report_free(r);
    return code;
}

/* "12", "train:12" or "eval:12"; what follows. */
static const char *read_step(const char *text, report_step *step)
{
    static const char *const runs[] = {"train", "eval"};
    *step = (report_step){.run = ""};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(runs[i]);
        if (strncmp(text, runs[i], n) == 0 && text[n] == ':') {
            step->run = runs[i];
            text += n + 1;
        }
    }
    if (*text < '1' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (step->step > (UINT64_MAX - 9) / 10)
            return NULL;
        step->step = step->step * 10 + (uint64_t)(*text - '0');
    }
    return text;
}

int report_read_steps(const char *text, report_steps_wanted *out)
{
    const char *rest = read_step(text, &out->at[0]);
    if (rest != NULL && *rest == ',')
        rest = read_step(rest + 1, &out->at[1]);
    else
        rest = NULL;
    if (rest == NULL || *rest != '\0')
        return cli_error(
            CLI_USAGE, "--steps must be two steps such as 1,2 or 20,eval:20 (got '%s')", text);
    return CLI_GO;
}
