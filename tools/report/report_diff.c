/* stepwell report FILE --diff OTHER and --steps A,B: two runs side by side, as text or JSON. */
#include "tools/report/report_diff.h"
#include "tools/cli/cli.h"
#include "tools/report/report_compare.h"
#include "tools/report/report_table.h"
#include <inttypes.h>
#include <string.h>

#define SHOWN 12 /* lines of a group in text: those that differ most, the rest in one */

/* ---- text -------------------------------------------------------------------------------- */

static cli_text figure(const compare_line *l, uint64_t x, const report_style *style)
{
    return l->counts                ? cli_digits(x)
           : l->of == COMPARE_TIMES ? cli_ns(x)
                                    : table_bytes(x, style);
}

/* Of numbers that may be below zero: what is not in the values. */
static cli_text signed_value(const compare_line *l, uint64_t x, bool there,
                             const report_style *style)
{
    cli_text text = {"-"};
    if (there && (int64_t)x < 0)
        snprintf(text.text, sizeof text.text, "-%.30s", figure(l, 0 - x, style).text);
    else if (there)
        text = figure(l, x, style);
    return text;
}

static cli_text difference(const comparison *c, const compare_line *l,
                           const report_style *style)
{
    const int64_t change = compare_difference(c, l);
    cli_text text = {"equal"};
    if (change != 0)
        snprintf(text.text, sizeof text.text, "%c%.30s", change > 0 ? '+' : '-',
                 figure(l, l->a > l->b ? l->a - l->b : l->b - l->a, style).text);
    return text;
}

/* Of the difference of the peaks, in lines that add up to it; else the newer by the other. */
static cli_text share(const comparison *c, const compare_line *l)
{
    cli_text text = {""};
    const int64_t all = compare_peaks(c), own = compare_difference(c, l);
    const uint64_t newer = c->newer == 0 ? l->a : l->b, older = c->newer == 0 ? l->b : l->a;
    if (compare_is_sum(l->of) && own != 0 && all != 0)
        snprintf(text.text, sizeof text.text, "%.1f%%", 100.0 * (double)own / (double)all);
    else if (!compare_is_sum(l->of) && older > 0 && l->in_a && l->in_b)
        snprintf(text.text, sizeof text.text, "%.3f", (double)newer / (double)older);
    return text;
}

/* The widths of a group's columns: name, A, B, their difference, and what stands behind. */
static const int *widths(const comparison *c, compare_group of, const report_style *style)
{
    static const int usual[] = {20, 15, 15, 17, 7}, tensors[] = {22, 12, 12, 13, 14},
                     exact[] = {20, 13, 13, 14, 14}, wide[] = {14, 15, 15, 16, 14};
    const uint64_t a = c->side[0].peak, b = c->side[1].peak;
    const bool long_numbers = (a > b ? a : b) >= 10000000000u; /* 9,999,999,999 */
    if (of != COMPARE_TENSORS)
        return usual;
    return !style->exact ? tensors : long_numbers ? wide : exact;
}

static void print_line(const comparison *c, const compare_line *l, const report_style *style)
{
    const char *name = *l->name != '\0' ? l->name : "(no name)";
    const int *w = widths(c, l->of, style);
    const cli_text of = share(c, l);
    const char *behind = l->of == COMPARE_TENSORS ? l->why : of.text;
    printf("  ");
    printf("%*s", cli_fitted(stdout, name, strlen(name), w[0]), "");
    printf(" %*s %*s %*s", w[1], signed_value(l, l->a, l->in_a, style).text, w[2],
           signed_value(l, l->b, l->in_b, style).text, w[3], difference(c, l, style).text);
    if (behind != NULL && *behind != '\0')
        printf(" %*.*s", l->of == COMPARE_TENSORS ? 1 : w[4], w[4], behind);
    putchar('\n');
}

static void print_head(const comparison *c, compare_group of, const report_style *style)
{
    static const char *const heads[COMPARE_GROUPS] = {
        "peak in each phase",   "live at its end",       "in all",
        "at the peak, by role", "at the peak, by layer", "at the peak, by maker",
        "tensors at the peak",  "of the process",        "time (medians)"};
    const int *w = widths(c, of, style);
    const char *head = of == COMPARE_TIMES && c->side[0].step != NULL ? "time" : heads[of];
    printf("\n%-*.*s %*s %*s %*s", w[0] + 2, w[0] + 2, head, w[1], "A", w[2], "B", w[3],
           c->newer == 0 ? "A - B" : "B - A");
    if (of == COMPARE_TENSORS)
        printf(" why\n");
    else
        printf(" %*s\n", w[4],
               compare_is_sum(of) ? "of all"
               : c->newer == 0    ? "A / B"
                                  : "B / A");
}

/* What a group has beyond the lines that are shown, in one line. */
static void print_rest(const comparison *c, const compare_line *rest, int n, bool equal,
                       const report_style *style)
{
    char name[64];
    if (n == 0)
        return;
    if (rest->of == COMPARE_TENSORS) /* whose column is narrow with exact bytes */
        snprintf(name, sizeof name, equal ? "%d equal" : "%d more", n);
    else
        snprintf(name, sizeof name, equal ? "%d %s%s equal" : "%d more %s%s", n,
                 rest->of == COMPARE_LAYERS ? "layer" : "op",
                 n == 1 ? (equal ? " is" : "") : (equal ? "s are" : "s"));
    compare_line l = *rest;
    l.name = name;
    print_line(c, &l, style);
}

static void print_group(const comparison *c, const compare_line *lines, size_t n,
                        const report_style *style)
{
    const compare_group of = lines[0].of;
    compare_line rest = {of, "", true, true, 0, 0, false, NULL}, sum = rest;
    const bool some = of == COMPARE_LAYERS || of == COMPARE_OPS || of == COMPARE_TENSORS;
    int shown = 0, left = 0;
    bool equal = true;
    print_head(c, of, style);
    for (size_t i = 0; i < n; i++) {
        const compare_line *l = &lines[i];
        sum.a += l->a;
        sum.b += l->b;
        if (some && (shown == SHOWN || l->a == l->b)) {
            rest.a += l->a;
            rest.b += l->b;
            equal &= l->a == l->b;
            left++;
            continue;
        }
        shown++;
        print_line(c, l, style);
    }
    if (!compare_is_sum(of))
        return;
    print_rest(c, &rest, left, equal, style);
    sum.name = "total";
    print_line(c, &sum, style);
}

static bool equal_phases(const compare_side *s)
{
    const sw_prof_phase *a = s->phase, *b = s->plan->phase;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (a[i].peak_bytes != b[i].peak_bytes || a[i].end_bytes != b[i].end_bytes)
            return false;
    return true;
}

/* The prediction against what was measured, phase by phase. */
static void print_prediction(const compare_side *s)
{
    char text[1024] = "predicted and measured are equal in every phase";
    size_t used = 0;
    if (s->by == NULL || s->plan->immediate)
        return;
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const sw_prof_phase *said = &s->plan->phase[i], *seen = &s->phase[i];
        const bool peak = said->peak_bytes != seen->peak_bytes;
        if (!peak && said->end_bytes == seen->end_bytes)
            continue;
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s%s: %s of %s bytes predicted, %s measured",
            used > 0 ? "; " : "", sw_prof_phase_name(i), peak ? "peak" : "end",
            cli_digits(peak ? said->peak_bytes : said->end_bytes).text,
            cli_digits(peak ? seen->peak_bytes : seen->end_bytes).text);
    }
    printf("   ");
    cli_wrap(stdout, 3, 3, text);
}

static void print_side(const char *letter, const compare_side *s)
{
    char text[4096 + 256], batch[48] = "";
    if (s->plan->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRId64, s->plan->batch);
    const char *model = s->r->model[0] != '\0' ? s->r->model : "model";
    if (s->step != NULL)
        snprintf(text, sizeof text, "step %" PRIu64 ", %s, %s%s: %s", s->step->step,
                 report_program_name(s->plan).text,
                 s->by != NULL ? "measured by " : "as planned", s->by != NULL ? s->by : "",
                 s->r->shown);
    else
        snprintf(text, sizeof text, "%s%s, %s: %s", model, batch,
                 s->by != NULL ? "measured" : "planned", s->r->shown);
    printf("%s  ", letter);
    cli_wrap(stdout, 3, 3, text);
    print_prediction(s);
}

static void print_text(const comparison *c, const report_style *style)
{
    print_side("A", &c->side[0]);
    print_side("B", &c->side[1]);
    const bool same = c->side[0].step != NULL && compare_is_same(c);
    if (same)
        printf("\nequal, the same program: both have the same tensors at the same peak\n");
    for (size_t i = 0, n; i < c->n; i += n) {
        for (n = 1; i + n < c->n && c->lines[i + n].of == c->lines[i].of;)
            n++;
        if (!same || !compare_is_sum(c->lines[i].of))
            print_group(c, &c->lines[i], n, style);
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_side(sw_json *j, const char *key, const compare_side *s)
{
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "file", s->r->path);
    sw_json_put_string(j, "tool", s->r->timeline->tool);
    sw_json_put_string(j, "model", s->r->model);
    report_put_batch(j, s->plan->batch);
    sw_json_put_string(j, "command", s->r->command);
    sw_json_put_string(j, "program", report_program_name(s->plan).text);
    if (s->step != NULL)
        sw_json_put_u64(j, "step", s->step->step);
    sw_json_put_bool(j, "measured", s->by != NULL);
    if (s->plan->immediate)
        sw_json_put_null(j, "predicted");
    else
        report_put_phases(j, "predicted", s->plan->phase);
    if (s->by != NULL && !s->plan->immediate)
        sw_json_put_bool(j, "equal", equal_phases(s));
    else
        sw_json_put_null(j, "equal");
    report_put_damaged(j, s->r);
    sw_json_end(j);
}

/* There are shares where there is a whole. */
static void put_line(sw_json *j, const comparison *c, const compare_line *l)
{
    const int64_t all = compare_peaks(c), own = compare_difference(c, l);
    sw_json_open(j, l->name, '{');
    sw_json_put_i64(j, "a", (int64_t)l->a);
    sw_json_put_i64(j, "b", (int64_t)l->b);
    sw_json_put_i64(j, "difference", own);
    if (compare_is_sum(l->of) && all != 0)
        sw_json_put_f64(j, "share", (double)own / (double)all);
    if (l->of == COMPARE_TENSORS)
        sw_json_put_string(j, "why", l->why);
    sw_json_end(j);
}

static sw_status put_comparison(const comparison *c, const report_gate *gate)
{
    static const char *const keys[COMPARE_GROUPS] = {"peak_bytes", "end_bytes", "totals",
                                                     "roles",      "layers",    "ops",
                                                     "tensors",    "process",   NULL};
    const bool steps = c->side[0].step != NULL;
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    put_side(&j, "a", &c->side[0]);
    put_side(&j, "b", &c->side[1]);
    sw_json_put_string(&j, "newer", c->newer == 0 ? "a" : "b");
    sw_json_put_i64(&j, "peak_difference_bytes", compare_peaks(c));
    if (steps)
        sw_json_put_bool(&j, "same_program", c->side[0].plan == c->side[1].plan);
    for (int g = 0; g < COMPARE_GROUPS; g++) {
        if (g == COMPARE_HOST && !steps)
            continue;
        sw_json_open(&j, keys[g] != NULL ? keys[g] : steps ? "ns" : "median_ns", '{');
        for (size_t i = 0; i < c->n; i++)
            if ((int)c->lines[i].of == g)
                put_line(&j, c, &c->lines[i]);
        sw_json_end(&j);
    }
    if (gate != NULL)
        report_gate_put(&j, gate);
    sw_json_end(&j);
    return report_print_object(&j);
}

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
    if (!json) {
        print_text(c, style);
    } else {
        const sw_status status = put_comparison(c, asked ? gate : NULL);
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
        code = report_leave(r[1], report_leave(r[0], code));
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
    code = report_leave(r, code);
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
