/* The one printer of all benches: rows as text or JSON; and variants that take turns. */
#include "profiler/record/utf8.h"
#include "tools/bench/bench.h"
#include <stdarg.h>
#include <string.h>

double bench_ratio(double a, double b)
{
    return b != 0.0 ? a / b : (double)NAN;
}

double bench_percent(double part, double whole)
{
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

typedef union {
    const char *word;
    int64_t n;
    double x;
    bool flag;
    cli_summary times;
} value;

/* Its value in a row; false: it has none. */
static bool read_value(const bench_field *f, const void *row, value *v)
{
    static const size_t sizes[BENCH_KINDS] = {
        [BENCH_WORD] = sizeof v->word,   [BENCH_COUNT] = sizeof v->n,
        [BENCH_BYTES] = sizeof v->n,     [BENCH_NS] = sizeof v->n,
        [BENCH_REAL] = sizeof v->x,      [BENCH_TIME] = sizeof v->x,
        [BENCH_FLAG] = sizeof v->flag,   [BENCH_TIMES] = sizeof v->times,
        [BENCH_SPREAD] = sizeof v->times};
    memcpy(v, (const char *)row + f->at, sizes[f->kind]);
    switch (f->kind) {
    case BENCH_WORD:
        return v->word != NULL;
    case BENCH_TEXT:
        v->word = (const char *)row + f->at;
        return *v->word != '\0';
    case BENCH_COUNT:
    case BENCH_BYTES:
    case BENCH_NS:
        return v->n != BENCH_NONE;
    case BENCH_REAL:
    case BENCH_TIME:
        return !isnan(v->x);
    case BENCH_TIMES:
    case BENCH_SPREAD:
        return v->times.n > 0;
    default:
        return true;
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_value(sw_json *json, const bench_field *f, const void *row)
{
    value v;
    if (!read_value(f, row, &v))
        return;
    if (f->kind <= BENCH_TEXT)
        sw_json_put_string(json, f->key, v.word);
    else if (f->kind == BENCH_FLAG)
        sw_json_put_bool(json, f->key, v.flag);
    else if (f->kind == BENCH_REAL || f->kind == BENCH_TIME)
        sw_json_put_f64(json, f->key, v.x);
    else if (f->kind < BENCH_REAL)
        sw_json_put_i64(json, f->key, v.n);
    else {
        sw_json_open(json, f->key, '{');
        sw_json_put_u64(json, "n", v.times.n);
        sw_json_put_u64(json, "min_ns", v.times.min);
        sw_json_put_u64(json, "median_ns", v.times.median);
        sw_json_put_u64(json, "p99_ns", v.times.p99);
        sw_json_put_u64(json, "max_ns", v.times.max);
        sw_json_end(json);
    }
}

/* The array that rows go to; NULL: none any more. */
static void open_array(bench *b, const char *key)
{
    if (b->open == key || (b->open != NULL && key != NULL && strcmp(b->open, key) == 0))
        return;
    if (b->open != NULL)
        sw_json_end(&b->out);
    if (key != NULL)
        sw_json_open(&b->out, key, '[');
    b->open = key;
}

/* ---- text -------------------------------------------------------------------------------- */

typedef struct {
    char text[256];
} cell_text;

static cell_text ns_text(double ns)
{
    cell_text text;
    snprintf(text.text, sizeof text.text, "%s%s", ns < 0.0 ? "-" : "",
             cli_ns((uint64_t)fabs(ns)).text);
    return text;
}

static cell_text number_text(double x)
{
    cell_text text;
    snprintf(text.text, sizeof text.text, "%.*f",
             x != 0.0 && fabs(x) < 0.1 ? 4
             : fabs(x) < 100.0         ? 2
                                       : 1,
             x);
    return text;
}

static cell_text value_text(const bench_field *f, const value *v)
{
    cell_text text = {""};
    switch (f->kind) {
    case BENCH_WORD:
    case BENCH_TEXT:
        sw_utf8_clean(text.text, sizeof text.text, v->word);
        return text;
    case BENCH_COUNT:
        snprintf(text.text, sizeof text.text, "%s%s", v->n < 0 ? "-" : "",
                 cli_digits((uint64_t)(v->n < 0 ? -v->n : v->n)).text);
        return text;
    case BENCH_BYTES:
        snprintf(text.text, sizeof text.text, "%s%s", v->n < 0 ? "-" : "",
                 cli_bytes((size_t)(v->n < 0 ? -v->n : v->n)).text);
        return text;
    case BENCH_NS:
        return ns_text((double)v->n);
    case BENCH_TIME:
        return ns_text(v->x);
    case BENCH_REAL:
        return number_text(v->x);
    case BENCH_FLAG:
        snprintf(text.text, sizeof text.text, "%s", v->flag ? "yes" : "no");
        return text;
    default:
        return ns_text((double)v->times.min);
    }
}

typedef struct {
    char text[512];
    size_t n;
} text_line;

static void add(text_line *to, const bench_field *f, const char *text)
{
    const int usual = f->kind == BENCH_REAL || f->kind == BENCH_FLAG ? 8 : 10,
              width = f->width > 0 ? f->width : usual;
    const size_t room = sizeof to->text - to->n;
    const int n =
        snprintf(to->text + to->n, room, f->kind <= BENCH_TEXT ? "%-*s " : "%*s ", width, text);
    to->n += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

static void print_line(text_line *line)
{
    while (line->n > 0 && line->text[line->n - 1] == ' ')
        line->n--;
    printf("%.*s\n", (int)line->n, line->text);
}

static void print_heads(const bench_field *f, int n)
{
    static const char *const more[] = {"median", "p99", "max"};
    text_line line = {.n = 0};
    for (; n > 0; n--, f++) {
        if (f->head == NULL)
            continue;
        char head[40];
        snprintf(head, sizeof head, f->kind >= BENCH_TIMES ? "%s%smin" : "%s", f->head,
                 f->head[0] != '\0' ? " " : "");
        add(&line, f, head);
        for (int i = 0; i < (f->kind == BENCH_TIMES ? 1 : f->kind == BENCH_SPREAD ? 3 : 0); i++)
            add(&line, f, more[i]);
    }
    print_line(&line);
}

static void print_row(const bench_field *f, int n, const void *row)
{
    text_line line = {.n = 0};
    for (; n > 0; n--, f++) {
        value v;
        if (f->head == NULL)
            continue;
        const bool known = read_value(f, row, &v);
        add(&line, f, known ? value_text(f, &v).text : "");
        if (f->kind < BENCH_TIMES)
            continue;
        const uint64_t more[] = {v.times.median, v.times.p99, v.times.max};
        for (int i = 0; i < (f->kind == BENCH_TIMES ? 1 : 3); i++)
            add(&line, f, known ? cli_ns(more[i]).text : "");
    }
    print_line(&line);
}

/* ---- rows -------------------------------------------------------------------------------- */

void bench_note(bench *b, const char *format, ...)
{
    const size_t n = strlen(b->heading);
    va_list words;
    if (b->json || b->quiet)
        return;
    va_start(words, format);
    vsnprintf(b->heading + n, sizeof b->heading - n, format, words);
    va_end(words);
}

void bench_print_heading(bench *b)
{
    fputs(b->heading, stdout);
    b->heading[0] = '\0';
}

static void print_rows(bench *b, const bench_field *fields, int n_fields, const char *rows,
                       int64_t n, size_t row_bytes)
{
    if (b->shown != NULL && b->shown != fields)
        putchar('\n');
    bench_print_heading(b);
    if (b->shown != fields)
        print_heads(fields, n_fields);
    b->shown = fields;
    for (int64_t i = 0; i < n; i++)
        print_row(fields, n_fields, rows + (size_t)i * row_bytes);
    cli_flush();
}

void bench_put_rows(bench *b, const char *key, const bench_field *fields, int n_fields,
                    const void *rows, int64_t n, size_t row_bytes)
{
    if (!b->json) {
        print_rows(b, fields, n_fields, rows, n, row_bytes);
        return;
    }
    open_array(b, key);
    for (int64_t i = 0; i < n; i++) {
        sw_json_begin(&b->out, '{');
        for (int k = 0; k < n_fields; k++)
            put_value(&b->out, &fields[k], (const char *)rows + (size_t)i * row_bytes);
        sw_json_end(&b->out);
    }
}

void bench_put_facts(bench *b, const bench_field *fields, int n_fields, const void *facts)
{
    const char *between = "";
    if (b->json)
        open_array(b, NULL);
    for (int k = 0; k < n_fields; k++) {
        value v;
        if (b->json) {
            put_value(&b->out, &fields[k], facts);
        } else if (fields[k].head != NULL && read_value(&fields[k], facts, &v)) {
            bench_note(b, "%s%s%s%s", between, fields[k].head,
                       fields[k].head[0] != '\0' ? " " : "", value_text(&fields[k], &v).text);
            between = ", ";
        }
    }
    if (*between != '\0')
        bench_note(b, "\n");
}

/* ---- turns ------------------------------------------------------------------------------- */

sw_status bench_take_turns(bench_variant *v, int n, int64_t rounds,
                           sw_status (*step)(void *context, int i), void *context)
{
    cli_times times[BENCH_VARIANTS] = {{0}};
    sw_status status = SW_OK;
    for (int i = 0; status == SW_OK && i < n; i++)
        status = cli_times_init(&times[i], (uint64_t)rounds);
    for (int64_t round = 0; status == SW_OK && round < rounds && !cli_interrupted(); round++)
        for (int turn = 0; status == SW_OK && turn < n; turn++) {
            const int i = (int)((round + turn) % n);
            const uint64_t start = cli_clock_ns();
            status = step(context, i);
            cli_times_add(&times[i], cli_clock_ns() - start);
        }
    for (int i = 0; i < n; i++) {
        v[i].times = cli_times_summary(&times[i]);
        const cli_summary *a = &v[i].times, *base = &v[0].times;
        v[i].above_min_percent =
            bench_percent((double)a->min - (double)base->min, (double)base->min);
        v[i].above_median_percent =
            bench_percent((double)a->median - (double)base->median, (double)base->median);
        cli_times_free(&times[i]);
    }
    return status;
}

void bench_put_variants(bench *b, const char *key, const bench_variant *variants, int n)
{
    typedef bench_variant row;
    static const bench_field fields[] = {
        BENCH_FIELD(WORD, name, "", 24), BENCH_FIELD(TIMES, times, "", 0),
        BENCH_FIELD(REAL, above_min_percent, "min +%", 0),
        BENCH_FIELD(REAL, above_median_percent, "median +%", 0)};
    bench_note(b, "%s%s\n", b->shown != NULL ? "\n" : "", key);
    b->shown = NULL;
    bench_rows(b, key, fields, variants, n);
}
