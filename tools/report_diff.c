/* stepwell report FILE --diff OTHER: two runs side by side, each by the program that its report
 * is about. Everything is a line with two numbers; text and JSON print the same lines. */
#include "tools/report_diff.h"
#include "alloc/mem.h"
#include "profiler/json.h"
#include "tools/cli.h"
#include <string.h>

#define LINES (2 * SW_PROF_PHASES + 5 + 2 * (32 + REPORT_SHARES) + SW_PROF_PHASES + 1)
#define SHOWN 12 /* layers in text: those that differ most */

typedef enum { PEAKS, ENDS, TOTALS, ROLES, LAYERS, TIMES, GROUPS } group;

typedef struct {
    group of;
    const char *name;
    bool in_a, in_b; /* a role or a layer may be in one of them only */
    uint64_t a, b;
} line;

/* One of the two. */
typedef struct {
    report *r;
    report_live *live;
    const report_plan *plan;
    report_phase phase[SW_PROF_PHASES];
    uint64_t peak;
    bool measured, timed;
    uint64_t median[SW_PROF_PHASES + 1];
} side;

typedef struct {
    side a, b;
    line lines[LINES];
    size_t n;
} diff;

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status open_side(side *s, const char *path)
{
    void *live;
    SW_TRY(report_read(&s->r, path));
    s->plan = report_main_plan(s->r);
    if (s->plan == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan that could be compared", path);
    SW_TRY(sw_heap_alloc(&live, SW_HEAP_PROFILE, sizeof *s->live));
    s->live = live;
    SW_TRY(report_read_live(s->r, s->plan, s->live));
    const report_seen *seen = report_best_seen(s->plan);
    s->measured = seen != NULL;
    memcpy(s->phase, seen != NULL ? seen->phase : s->plan->phase, sizeof s->phase);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        s->peak = s->phase[i].peak > s->peak ? s->phase[i].peak : s->peak;
    s->timed = report_medians(s->r, s->median);
    return SW_OK;
}

static void close_side(side *s)
{
    sw_heap_free(s->live, SW_HEAP_PROFILE, sizeof *s->live);
    report_free(s->r);
}

/* ---- lines ------------------------------------------------------------------------------- */

static void add(diff *d, group of, const char *name, uint64_t a, uint64_t b)
{
    d->lines[d->n++] = (line){of, name, true, true, a, b};
}

static const report_share *find(const report_share *shares, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(shares[i].name, name) == 0)
            return &shares[i];
    return NULL;
}

/* Those of the first, then what only the second has. */
static void add_shares(diff *d, group of, const report_share *a, size_t n_a,
                       const report_share *b, size_t n_b)
{
    for (size_t i = 0; i < n_a; i++) {
        const report_share *other = find(b, n_b, a[i].name);
        d->lines[d->n++] = (line){
            of, a[i].name, true, other != NULL, a[i].bytes, other != NULL ? other->bytes : 0};
    }
    for (size_t i = 0; i < n_b; i++)
        if (find(a, n_a, b[i].name) == NULL)
            d->lines[d->n++] = (line){of, b[i].name, false, true, 0, b[i].bytes};
}

static uint64_t apart(const line *l)
{
    return l->a > l->b ? l->a - l->b : l->b - l->a;
}

/* Largest difference first; equal ones stay in order. */
static void sort_lines(line *lines, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const line one = lines[i];
        size_t k = i;
        for (; k > 0 && apart(&lines[k - 1]) < apart(&one); k--)
            lines[k] = lines[k - 1];
        lines[k] = one;
    }
}

static void compare(diff *d)
{
    const side *a = &d->a, *b = &d->b;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        add(d, PEAKS, sw_prof_phase_name(i), a->phase[i].peak, b->phase[i].peak);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        add(d, ENDS, sw_prof_phase_name(i), a->phase[i].end, b->phase[i].end);
    add(d, TOTALS, "peak", a->peak, b->peak);
    add(d, TOTALS, "model", a->plan->model, b->plan->model);
    add(d, TOTALS, "arena", a->plan->arena, b->plan->arena);
    add(d, TOTALS, "data", a->plan->data, b->plan->data);
    add(d, TOTALS, "total", a->plan->total, b->plan->total);
    add_shares(d, ROLES, a->live->role, a->live->n_roles, b->live->role, b->live->n_roles);
    const size_t layers = d->n;
    add_shares(d, LAYERS, a->live->layer, a->live->n_layers, b->live->layer, b->live->n_layers);
    sort_lines(d->lines + layers, d->n - layers);
    for (int i = 0; i <= SW_PROF_PHASES && a->timed && b->timed; i++)
        add(d, TIMES, i < SW_PROF_PHASES ? sw_prof_phase_name(i) : "step in all", a->median[i],
            b->median[i]);
}

/* ---- text -------------------------------------------------------------------------------- */

static cli_text value(const line *l, uint64_t x, bool there, const report_style *style)
{
    if (!there)
        return (cli_text){"-"};
    if (l->of == TIMES)
        return cli_ns(x);
    return style->exact ? cli_digits(x) : cli_bytes((size_t)x);
}

static cli_text difference(const line *l, const report_style *style)
{
    cli_text text = {"equal"};
    if (l->a != l->b)
        snprintf(text.text, sizeof text.text, "%c%.30s", l->b > l->a ? '+' : '-',
                 value(l, apart(l), true, style).text);
    return text;
}

static void print_line(const line *l, const report_style *style)
{
    char share[16] = "";
    if (l->a > 0 && l->in_b)
        snprintf(share, sizeof share, "%.3f", (double)l->b / (double)l->a);
    const char *name = *l->name != '\0' ? l->name : "(no layer)";
    printf("  ");
    printf("%*s", cli_fitted(stdout, name, strlen(name), 18), "");
    printf(" %16s %16s %17s %7.7s\n", value(l, l->a, l->in_a, style).text,
           value(l, l->b, l->in_b, style).text, difference(l, style).text, share);
}

static void print_side(const char *letter, const side *s)
{
    char text[4096 + 256];
    snprintf(text, sizeof text, "%s, batch %lld, %s: %s",
             s->r->model[0] != '\0' ? s->r->model : "model", (long long)s->plan->batch,
             s->measured ? "measured" : "planned", s->r->path);
    printf("%s  ", letter);
    cli_wrap(stdout, 3, 3, text);
}

static void print_diff(const diff *d, const report_style *style)
{
    static const char *const heads[GROUPS] = {"peak in each phase",
                                              "live at its end",
                                              "in all",
                                              "live at the peak, by role",
                                              "by layer, largest difference first",
                                              "time (medians)"};
    print_side("A", &d->a);
    print_side("B", &d->b);
    int before = -1, shown = 0, left_out = 0;
    for (size_t i = 0; i < d->n; i++) {
        const line *l = &d->lines[i];
        shown = (int)l->of == before ? shown + 1 : 1;
        if (l->of == LAYERS && (shown > SHOWN || l->a == l->b)) {
            left_out++;
            continue;
        }
        if ((int)l->of != before)
            printf("\n%-20.34s%*s %16s %17s %7s\n", heads[l->of],
                   strlen(heads[l->of]) > 20 ? 37 - (int)strlen(heads[l->of]) : 17, "A", "B",
                   "B - A", "B / A");
        before = (int)l->of;
        print_line(l, style);
    }
    if (left_out > 0 && !style->quiet)
        printf("\n%d layers are equal or differ by less than those.\n", left_out);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_side(sw_json *j, const char *key, const side *s)
{
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "file", s->r->path);
    sw_json_put_string(j, "model", s->r->model);
    sw_json_put_i64(j, "batch", s->plan->batch);
    sw_json_put_string(j, "command", s->r->command);
    sw_json_put_bool(j, "measured", s->measured);
    sw_json_end(j);
}

static sw_status put_diff(const diff *d)
{
    static const char *const keys[GROUPS] = {"peak_bytes", "end_bytes", "totals",
                                             "roles",      "layers",    "median_ns"};
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    put_side(&j, "a", &d->a);
    put_side(&j, "b", &d->b);
    for (int g = 0; g < GROUPS; g++) {
        sw_json_open(&j, keys[g], '{');
        for (size_t i = 0; i < d->n; i++) {
            const line *l = &d->lines[i];
            if ((int)l->of != g)
                continue;
            sw_json_open(&j, l->name, '{');
            sw_json_put_u64(&j, "a", l->a);
            sw_json_put_u64(&j, "b", l->b);
            sw_json_put_i64(&j, "difference", (int64_t)(l->b - l->a));
            sw_json_end(&j);
        }
        sw_json_end(&j);
    }
    sw_json_end(&j);
    sw_json_line(&j);
    const sw_status status = j.status;
    if (status == SW_OK)
        fwrite(j.bytes, 1, j.used, stdout);
    sw_json_free(&j);
    return status;
}

/* ------------------------------------------------------------------------------------------ */

int report_diff(const char *file, const char *other, bool json, const report_style *style)
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
        compare(d);
    if (status == SW_OK && json)
        status = put_diff(d);
    else if (status == SW_OK)
        print_diff(d, style);
    const int code = status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, true);
    close_side(&d->a);
    close_side(&d->b);
    sw_heap_free(block, SW_HEAP_PROFILE, sizeof(diff));
    return code;
}
