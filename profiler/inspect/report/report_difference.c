/* stepwell report FILE --diff OTHER and --steps A,B: two runs side by side, as text or JSON. */
#include "profiler/inspect/report/report_compare.h"
#include "profiler/inspect/report/report_table.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 12 /* lines of a group in text: those that differ most, the rest in one */

static const char total[] = "total"; /* the name of a group's sum, which has no share */

/* ---- text -------------------------------------------------------------------------------- */

static sw_text figure(const compare_line *l, uint64_t x)
{
    return l->counts                ? sw_text_digits(x)
           : l->of == COMPARE_TIMES ? sw_text_ns(x)
                                    : sw_text_digits(x);
}

/* Of numbers that may be below zero: what is not in the values. */
static sw_text signed_value(const compare_line *l, int side)
{
    const uint64_t x = side == 0 ? l->a : l->b;
    sw_text text = {"-"};
    if (l->unknown[side])
        snprintf(text.text, sizeof text.text, "unknown");
    else if (!(side == 0 ? l->in_a : l->in_b))
        return text;
    else if ((int64_t)x < 0)
        snprintf(text.text, sizeof text.text, "-%.30s", figure(l, 0 - x).text);
    else
        text = figure(l, x);
    return text;
}

static sw_text difference(const comparison *c, const compare_line *l)
{
    const int64_t change = compare_difference(c, l);
    sw_text text = {"equal"};
    if (compare_is_unknown(l))
        snprintf(text.text, sizeof text.text, "unknown");
    else if (change != 0)
        snprintf(text.text, sizeof text.text, "%c%.30s", change > 0 ? '+' : '-',
                 figure(l, l->a > l->b ? l->a - l->b : l->b - l->a).text);
    return text;
}

/* Of all that grew in its group, or of all that shrank; else the newer by the other. */
static sw_text share(const comparison *c, const compare_line *l)
{
    sw_text text = {""};
    double of;
    const uint64_t newer = c->newer == 0 ? l->a : l->b, older = c->newer == 0 ? l->b : l->a;
    if (l->name == total)
        return text;
    if (compare_share(c, l, &of))
        snprintf(text.text, sizeof text.text, "%.1f%%", 100.0 * of);
    else if (!compare_is_sum(l->of) && older > 0 && l->in_a && l->in_b &&
             !compare_is_unknown(l))
        snprintf(text.text, sizeof text.text, "%.3f", (double)newer / (double)older);
    return text;
}

/* The widths of a group's columns: name, A, B, their difference, and what stands after. */
static const int *widths(const comparison *c, compare_group of)
{
    static const int usual[] = {20, 15, 15, 17, 7}, exact[] = {20, 13, 13, 14, 14},
                     wide[] = {14, 15, 15, 16, 14};
    const uint64_t a = c->side[0].peak, b = c->side[1].peak;
    const bool long_numbers = (a > b ? a : b) >= 10000000000u; /* 9,999,999,999 */
    if (of != COMPARE_TENSORS)
        return usual;
    return long_numbers ? wide : exact;
}

static void print_line(const comparison *c, const compare_line *l, const report_style *style)
{
    const char *name = *l->name != '\0' ? l->name : "(no name)";
    const int *w = widths(c, l->of);
    const sw_text of = share(c, l);
    const char *behind = l->of == COMPARE_TENSORS ? l->why : of.text;
    sw_writer_print(style->to, "  ");
    const int more = sw_writer_columns(style->to) - SW_WRITER_COLUMNS;
    sw_writer_print(style->to, "%*s", sw_writer_scopes(style->to, name, w[0] + more), "");
    sw_writer_print(style->to, " %*s %*s %*s", w[1], signed_value(l, 0).text, w[2],
                    signed_value(l, 1).text, w[3], difference(c, l).text);
    if (behind != NULL && *behind != '\0')
        sw_writer_print(style->to, " %*.*s", l->of == COMPARE_TENSORS ? 1 : w[4], w[4], behind);
    sw_writer_text(style->to, "\n");
}

static void print_head(const comparison *c, compare_group of, const report_style *style)
{
    static const char *const heads[COMPARE_GROUPS] = {
        "peak in each phase",   "live at its end",       "in all",
        "at the peak, by role", "at the peak, by layer", "at the peak, by maker",
        "tensors at the peak",  "of the process",        "time (medians)"};
    const int *w = widths(c, of);
    const char *head = of == COMPARE_TIMES && c->side[0].step != NULL ? "time" : heads[of];
    const int name = w[0] + 2 + sw_writer_columns(style->to) - SW_WRITER_COLUMNS;
    sw_writer_print(style->to, "\n%-*.*s %*s %*s %*s", name, name, head, w[1], "A", w[2], "B",
                    w[3], c->newer == 0 ? "A - B" : "B - A");
    if (of == COMPARE_TENSORS)
        sw_writer_print(style->to, " why\n");
    else
        sw_writer_print(style->to, " %*s\n", w[4],
                        compare_is_sum(of) ? "of +/-"
                        : c->newer == 0    ? "A / B"
                                           : "B / A");
}

/* The rest of a group, after the lines that are shown, in one line. */
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
    compare_line rest = {.of = of, .name = "", .in_a = true, .in_b = true}, sum = rest;
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
    sum.name = total;
    print_line(c, &sum, style);
    if (c->grown[of] > 0 && c->shrunk[of] > 0 && of == COMPARE_ROLES)
        sw_writer_say(style->to, 2, 2,
                      "of +/-: the share of all that grew, %s bytes, or of all that shrank, %s",
                      sw_text_digits(c->grown[of]).text, sw_text_digits(c->shrunk[of]).text);
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
static void print_prediction(const report_style *style, const compare_side *s)
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
            sw_text_digits(peak ? said->peak_bytes : said->end_bytes).text,
            sw_text_digits(peak ? seen->peak_bytes : seen->end_bytes).text);
    }
    sw_writer_print(style->to, "   ");
    sw_writer_wrap(style->to, 3, 3, text);
}

static void print_side(const report_style *style, const char *letter, const compare_side *s)
{
    char text[4096 + 256];
    const bool ours = sw_timeline_is_ours(s->r->timeline);
    const char *model = s->r->model[0] != '\0' ? s->r->model : "model";
    if (s->step != NULL)
        snprintf(text, sizeof text, "step %" PRIu64 ", %s, %s%s: %s", s->step->step,
                 report_program_name(s->plan).text,
                 s->by != NULL ? "measured by " : "as planned", s->by != NULL ? s->by : "",
                 s->r->shown);
    else
        snprintf(text, sizeof text, "%s%s%s, %s: %s", model, ours ? ", " : "",
                 ours ? report_program_name(s->plan).text : "",
                 s->by != NULL ? "measured" : "planned", s->r->shown);
    sw_writer_print(style->to, "%s  ", letter);
    sw_writer_wrap(style->to, 3, 3, text);
    print_prediction(style, s);
}

void report_print_difference(const comparison *c, const report_style *style)
{
    print_side(style, "A", &c->side[0]);
    print_side(style, "B", &c->side[1]);
    const bool same = c->side[0].step != NULL && compare_is_same(c);
    if (same)
        sw_writer_print(
            style->to,
            "\nequal, the same program: both have the same tensors at the same peak\n");
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
    report_put_phases(j, "predicted", s->plan->immediate ? NULL : s->plan->phase);
    const bool judged = s->by != NULL && !s->plan->immediate;
    sw_json_put_known_bool(j, "equal", judged, judged && equal_phases(s));
    report_put_damaged(j, s->r);
    sw_json_end(j);
}

static void put_known(sw_json *j, const char *key, bool unknown, int64_t x)
{
    if (unknown)
        sw_json_put_null(j, key);
    else
        sw_json_put_i64(j, key, x);
}

/* There are shares where there is a whole. */
static void put_line(sw_json *j, const comparison *c, const compare_line *l)
{
    double of = 0.0;
    sw_json_open(j, l->name, '{');
    put_known(j, "a", l->unknown[0], (int64_t)l->a);
    put_known(j, "b", l->unknown[1], (int64_t)l->b);
    put_known(j, "difference", compare_is_unknown(l), compare_difference(c, l));
    if (compare_is_sum(l->of) && (compare_share(c, l, &of) || compare_peaks(c) != 0))
        sw_json_put_f64(j, "share", of);
    if (l->of == COMPARE_TENSORS)
        sw_json_put_string(j, "why", l->why);
    sw_json_end(j);
}

sw_status report_difference_json(const comparison *c, const report_tail *more,
                                 const report_style *style)
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
    if (more != NULL)
        more->put(&j, more->context);
    sw_json_end(&j);
    return report_print_object(&j, style);
}
