/* stepwell report FILE --diff OTHER: two runs side by side, each by the program that its report
 * is about. Everything is a line with two numbers; text and JSON print the same lines. The
 * lines of roles, layers and ops add up to the difference of the peaks, to the byte. */
#include "tools/report_diff.h"
#include "alloc/mem.h"
#include "tools/cli.h"
#include "tools/report_parts.h"
#include "tools/report_table.h"
#include <string.h>

#define SHOWN 12 /* lines of a group in text: those that differ most, the rest in one */
#define FIGURES (2 * SW_PROF_PHASES + 5)

typedef enum { PEAKS, ENDS, TOTALS, ROLES, LAYERS, OPS, TIMES, GROUPS } group;
#define IS_SUM(of) ((of) >= ROLES && (of) <= OPS) /* its lines add up to the peak */

typedef struct {
    group of;
    const char *name;
    bool in_a, in_b; /* a role or a layer may be in one of them only */
    uint64_t a, b;
} line;

/* One of the two. */
typedef struct {
    report *r;
    const report_plan *plan;
    const report_seen *seen; /* NULL: not measured, `phase` is as planned */
    report_phase phase[SW_PROF_PHASES];
    uint64_t peak;
    bool timed;
    uint64_t median[SW_PROF_PHASES + 1];
    parts parts[GROUPS]; /* of ROLES, LAYERS, OPS */
} side;

typedef struct {
    side a, b;
    line *lines;
    uint32_t n, cap;
} diff;

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status open_side(side *s, const char *path)
{
    static const parts_by by[GROUPS] = {
        [ROLES] = PARTS_ROLE, [LAYERS] = PARTS_LAYER, [OPS] = PARTS_OP};
    SW_TRY(report_open(&s->r, path));
    s->plan = report_main_plan(s->r);
    if (s->plan == NULL && s->r->damaged_line > 0)
        SW_FAIL(SW_FORMAT, "%s", s->r->damaged_why);
    if (s->plan == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan that could be compared", path);
    for (group of = ROLES; of <= OPS; of++)
        SW_TRY(
            parts_make(&s->parts[of], s->r->timeline, report_program(s->r, s->plan), by[of]));
    s->seen = report_best_seen(s->plan);
    memcpy(s->phase, s->seen != NULL ? s->seen->phase : s->plan->phase, sizeof s->phase);
    s->peak = s->seen != NULL || s->plan->peak == 0 ? s->phase[report_peak_phase(s->phase)].peak
                                                    : s->plan->peak;
    s->timed = report_medians(s->r, s->median);
    return SW_OK;
}

static void close_side(side *s)
{
    for (int i = 0; i < GROUPS; i++)
        parts_free(&s->parts[i]);
    report_free(s->r);
}

/* ---- lines ------------------------------------------------------------------------------- */

static sw_status add_line(diff *d, line l)
{
    void *lines = d->lines;
    SW_TRY(sw_heap_room(&lines, SW_HEAP_PROFILE, &d->cap, d->n + 1, sizeof *d->lines));
    d->lines = lines;
    d->lines[d->n++] = l;
    return SW_OK;
}

static sw_status add(diff *d, group of, const char *name, uint64_t a, uint64_t b)
{
    return add_line(d, (line){of, name, true, true, a, b});
}

/* Groups that neither peak has are none of its lines. */
static sw_status add_pairs(diff *d, group of)
{
    const parts *a = &d->a.parts[of], *b = &d->b.parts[of];
    const int64_t beyond[2] = {(int64_t)(d->a.peak - a->at[0].at_peak),
                               (int64_t)(d->b.peak - b->at[0].at_peak)};
    parts_pair *pairs;
    size_t n;
    SW_TRY(parts_pairs(&pairs, &n, d->a.r->timeline, a, b, beyond));
    for (size_t i = 0; i < n; i++) {
        const bool in_a = pairs[i].bytes[0] != 0, in_b = pairs[i].bytes[1] != 0;
        if (in_a || in_b)
            SW_TRY(
                add_line(d, (line){of, pairs[i].name, in_a, in_b, (uint64_t)pairs[i].bytes[0],
                                   (uint64_t)pairs[i].bytes[1]}));
    }
    return SW_OK;
}

static sw_status compare(diff *d)
{
    const side *a = &d->a, *b = &d->b;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add(d, PEAKS, sw_prof_phase_name(i), a->phase[i].peak, b->phase[i].peak));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        SW_TRY(add(d, ENDS, sw_prof_phase_name(i), a->phase[i].end, b->phase[i].end));
    SW_TRY(add(d, TOTALS, "peak", a->peak, b->peak));
    SW_TRY(add(d, TOTALS, "model", a->plan->model, b->plan->model));
    SW_TRY(add(d, TOTALS, "arena", a->plan->arena, b->plan->arena));
    SW_TRY(add(d, TOTALS, "data", a->plan->data, b->plan->data));
    SW_TRY(add(d, TOTALS, "total", a->plan->total, b->plan->total));
    for (group of = ROLES; of <= OPS; of++)
        SW_TRY(add_pairs(d, of));
    for (int i = 0; i <= SW_PROF_PHASES && a->timed && b->timed; i++)
        SW_TRY(add(d, TIMES, i < SW_PROF_PHASES ? sw_prof_phase_name(i) : "step in all",
                   a->median[i], b->median[i]));
    return SW_OK;
}

/* ---- text -------------------------------------------------------------------------------- */

static cli_text value(group of, uint64_t x, const report_style *style)
{
    return of == TIMES ? cli_ns(x) : table_bytes(x, style);
}

/* Of numbers that may be below zero: what is not in the values. */
static cli_text signed_value(const line *l, uint64_t x, bool there, const report_style *style)
{
    cli_text text = {"-"};
    if (there && (int64_t)x < 0)
        snprintf(text.text, sizeof text.text, "-%.30s", value(l->of, 0 - x, style).text);
    else if (there)
        text = value(l->of, x, style);
    return text;
}

static bool grows(const line *l)
{
    return (int64_t)(l->b - l->a) > 0;
}

static cli_text difference(const line *l, const report_style *style)
{
    cli_text text = {"equal"};
    if (l->a != l->b)
        snprintf(text.text, sizeof text.text, "%c%.30s", grows(l) ? '+' : '-',
                 value(l->of, grows(l) ? l->b - l->a : l->a - l->b, style).text);
    return text;
}

/* Of the difference of the peaks, in lines that add up to it; else b / a. */
static cli_text share(const diff *d, const line *l)
{
    cli_text text = {""};
    const int64_t all = (int64_t)(d->b.peak - d->a.peak), own = (int64_t)(l->b - l->a);
    if (IS_SUM(l->of) && own != 0 && all != 0)
        snprintf(text.text, sizeof text.text, "%.1f%%", 100.0 * (double)own / (double)all);
    else if (!IS_SUM(l->of) && l->a > 0 && l->in_b)
        snprintf(text.text, sizeof text.text, "%.3f", (double)l->b / (double)l->a);
    return text;
}

static void print_line(const diff *d, const line *l, const report_style *style)
{
    const char *name = *l->name != '\0' ? l->name : "(no layer)";
    printf("  ");
    printf("%*s", cli_fitted(stdout, name, strlen(name), 20), "");
    const cli_text of = share(d, l);
    printf(" %15s %15s %17s", signed_value(l, l->a, l->in_a, style).text,
           signed_value(l, l->b, l->in_b, style).text, difference(l, style).text);
    printf(of.text[0] != '\0' ? " %7.7s\n" : "\n", of.text);
}

static bool equal_phases(const report_phase *a, const report_phase *b)
{
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (a[i].peak != b[i].peak || a[i].end != b[i].end)
            return false;
    return true;
}

static void print_side(const char *letter, const side *s)
{
    char text[4096 + 256];
    snprintf(text, sizeof text, "%s, batch %lld, %s: %s",
             s->r->model[0] != '\0' ? s->r->model : "model", (long long)s->plan->batch,
             s->seen != NULL ? "measured" : "planned", s->r->path);
    printf("%s  ", letter);
    cli_wrap(stdout, 3, 3, text);
    if (s->seen == NULL || s->plan->immediate)
        return;
    printf("   ");
    if (equal_phases(s->phase, s->plan->phase)) {
        cli_wrap(stdout, 3, 3, "predicted and measured are equal in every phase");
        return;
    }
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (s->phase[i].peak != s->plan->phase[i].peak)
            snprintf(text, sizeof text, "%s: predicted %s bytes, measured %s",
                     sw_prof_phase_name(i), cli_digits(s->plan->phase[i].peak).text,
                     cli_digits(s->phase[i].peak).text);
    cli_wrap(stdout, 3, 3, text);
}

static void print_head(group of)
{
    static const char *const heads[GROUPS] = {
        "peak in each phase",   "live at its end",       "in all",
        "at the peak, by role", "at the peak, by layer", "at the peak, by maker",
        "time (medians)"};
    printf("\n%-22s %15s %15s %17s %7s\n", heads[of], "A", "B", "B - A",
           IS_SUM(of) ? "of all" : "B / A");
}

/* What a group has beyond the lines that are shown, in one line. */
static void print_rest(const diff *d, const line *rest, int n, bool equal,
                       const report_style *style)
{
    static const char *const names[GROUPS] = {
        [ROLES] = "role", [LAYERS] = "layer", [OPS] = "op"};
    char name[64];
    if (n == 0)
        return;
    snprintf(name, sizeof name, equal ? "%d %s%s equal" : "%d more %s%s", n, names[rest->of],
             n == 1 ? (equal ? " is" : "") : (equal ? "s are" : "s"));
    line l = *rest;
    l.name = name;
    print_line(d, &l, style);
}

static void print_group(const diff *d, const line *lines, size_t n, const report_style *style)
{
    const group of = lines[0].of;
    line rest = {of, "", true, true, 0, 0}, sum = rest;
    int shown = 0, left = 0;
    bool equal = true;
    print_head(of);
    for (size_t i = 0; i < n; i++) {
        const line *l = &lines[i];
        sum.a += l->a;
        sum.b += l->b;
        if ((of == LAYERS || of == OPS) && (shown == SHOWN || l->a == l->b)) {
            rest.a += l->a;
            rest.b += l->b;
            equal &= l->a == l->b;
            left++;
            continue;
        }
        shown++;
        print_line(d, l, style);
    }
    if (!IS_SUM(of))
        return;
    print_rest(d, &rest, left, equal, style);
    sum.name = "total";
    print_line(d, &sum, style);
}

static void print_diff(const diff *d, const report_style *style)
{
    print_side("A", &d->a);
    print_side("B", &d->b);
    for (size_t i = 0, n; i < d->n; i += n) {
        for (n = 1; i + n < d->n && d->lines[i + n].of == d->lines[i].of;)
            n++;
        print_group(d, &d->lines[i], n, style);
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_side(sw_json *j, const char *key, const side *s)
{
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "file", s->r->path);
    sw_json_put_string(j, "tool", s->r->timeline->tool);
    sw_json_put_string(j, "model", s->r->model);
    sw_json_put_i64(j, "batch", s->plan->batch);
    sw_json_put_string(j, "command", s->r->command);
    sw_json_put_bool(j, "measured", s->seen != NULL);
    if (s->plan->immediate)
        sw_json_put_null(j, "predicted");
    else
        report_put_phases(j, "predicted", s->plan->phase);
    if (s->seen != NULL && !s->plan->immediate)
        sw_json_put_bool(j, "equal", equal_phases(s->phase, s->plan->phase));
    else
        sw_json_put_null(j, "equal");
    report_put_damaged(j, s->r);
    sw_json_end(j);
}

static void put_line(sw_json *j, const diff *d, const line *l)
{
    const int64_t all = (int64_t)(d->b.peak - d->a.peak), own = (int64_t)(l->b - l->a);
    sw_json_open(j, l->name, '{');
    sw_json_put_i64(j, "a", (int64_t)l->a);
    sw_json_put_i64(j, "b", (int64_t)l->b);
    sw_json_put_i64(j, "difference", own);
    if (IS_SUM(l->of) && all != 0) /* there are shares where there is a whole */
        sw_json_put_f64(j, "share", (double)own / (double)all);
    sw_json_end(j);
}

static sw_status put_diff(const diff *d, const report_gate *gate)
{
    static const char *const keys[GROUPS] = {"peak_bytes", "end_bytes", "totals",   "roles",
                                             "layers",     "ops",       "median_ns"};
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    put_side(&j, "a", &d->a);
    put_side(&j, "b", &d->b);
    for (int g = 0; g < GROUPS; g++) {
        sw_json_open(&j, keys[g], '{');
        for (size_t i = 0; i < d->n; i++)
            if ((int)d->lines[i].of == g)
                put_line(&j, d, &d->lines[i]);
        sw_json_end(&j);
    }
    if (gate != NULL)
        report_gate_put(&j, gate);
    sw_json_end(&j);
    return report_print_object(&j);
}

/* ---- gates ------------------------------------------------------------------------------- */

/* The line of a group in which A, the new run, has most beyond B, its base. */
static const line *most_grown(const diff *d, group of)
{
    const line *most = NULL;
    for (size_t i = 0; i < d->n; i++) {
        const line *l = &d->lines[i];
        if (l->of == of && (int64_t)(l->a - l->b) > 0 &&
            (most == NULL || l->a - l->b > most->a - most->b))
            most = l;
    }
    return most;
}

static void name_grown(const diff *d, report_gate *gate)
{
    static const struct {
        group of;
        const char *word;
    } kinds[] = {{ROLES, "role"}, {LAYERS, "layer"}};
    size_t used = 0;
    for (size_t i = 0; i < 2; i++) {
        const line *l = most_grown(d, kinds[i].of);
        if (l != NULL)
            used += (size_t)snprintf(gate->grew + used, sizeof gate->grew - used,
                                     "%s%s %.80s (+%s bytes)", used > 0 ? ", " : "",
                                     kinds[i].word, l->name, cli_digits(l->a - l->b).text);
    }
}

static int print_result(diff *d, bool json, const report_style *style,
                        const report_limits *limits)
{
    report_gate gate = {
        .limits = limits, .run = report_highest(d->a.r), .base = report_highest(d->b.r)};
    const bool asked = report_gate_asked(limits);
    name_grown(d, &gate);
    if (!json) {
        print_diff(d, style);
    } else {
        const sw_status status = put_diff(d, asked ? &gate : NULL);
        if (status != SW_OK)
            return cli_library_error(status, false);
    }
    const int code = report_gate_judge(&gate, !json && !style->quiet);
    return report_leave(d->b.r, report_leave(d->a.r, code));
}

/* ------------------------------------------------------------------------------------------ */

int report_diff(const char *file, const char *other, bool json, const report_style *style,
                const report_limits *limits)
{
    void *block;
    sw_status status = sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof(diff));
    if (status != SW_OK)
        return cli_library_error(status, false);
    diff *d = block;
    status = open_side(&d->a, file);
    if (status == SW_OK)
        status = open_side(&d->b, other);
    if (status == SW_OK)
        status = compare(d);
    const int code = status == SW_OK ? print_result(d, json, style, limits)
                                     : cli_library_error(status, true);
    close_side(&d->a);
    close_side(&d->b);
    sw_heap_free(d->lines, SW_HEAP_PROFILE, d->cap * sizeof *d->lines);
    sw_heap_free(block, SW_HEAP_PROFILE, sizeof(diff));
    return code;
}
