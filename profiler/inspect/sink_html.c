/* The report as one HTML page: html/README.md has the format of its data. */
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/sink_html.h"
#include "profiler/record/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    sw_sink_out *out;
    uint32_t held; /* up to two bytes that wait for the third */
    int n_held;
    size_t used;
    char text[1024];
} base64;

static void four(base64 *b, uint32_t bits)
{
    static const char digit[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (b->used == sizeof b->text) {
        sw_sink_bytes(b->out, b->text, b->used);
        b->used = 0;
    }
    for (int shift = 18; shift >= 0; shift -= 6)
        b->text[b->used++] = digit[bits >> shift & 63];
}

/* The low `width` bytes of x, the lowest first. */
static void put(base64 *b, uint64_t x, int width)
{
    for (int i = 0; i < width; i++, x >>= 8) {
        b->held = b->held << 8 | (uint32_t)(x & 255);
        if (++b->n_held == 3) {
            four(b, b->held);
            b->held = 0;
            b->n_held = 0;
        }
    }
}

static void finish(base64 *b)
{
    const int missing = b->n_held == 0 ? 0 : 3 - b->n_held;
    if (missing > 0) {
        four(b, b->held << 8 * missing);
        memset(b->text + b->used - missing, '=', (size_t)missing);
    }
    sw_sink_bytes(b->out, b->text, b->used);
    sw_sink_text(b->out, "</script>\n");
}

static void open_column(sw_sink_out *out, const char *id, const char *type, size_t n)
{
    sw_sink_print(out,
                  "<script type=\"text/plain\" class=\"column\" id=\"%s\" data-type=\"%s\" "
                  "data-n=\"%zu\"",
                  id, type, n);
}

/* ---- columns ----------------------------------------------------------------------------- */

/* A list of numbers for the page. `get` is called for every i, twice: once to see which width
 * they need. It must give the same both times. */
typedef struct {
    uint64_t (*get)(void *context, size_t i);
    void *context;
    size_t n;
} swi_column;

static int width_of(uint64_t max)
{
    return max <= UINT8_MAX ? 1 : max <= UINT16_MAX ? 2 : max <= UINT32_MAX ? 4 : 8;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Writes <script class="column" id=ID data-...>BASE64</script>: numbers of the narrowest width
 * that holds all of them once a common factor is taken out; ascending ones as differences. */
static void swi_html_column(sw_sink_out *out, const char *id, const swi_column *c)
{
    static const char *const types[] = {"", "u8", "u16", "", "u32", "", "", "", "f64"};
    struct {
        uint64_t max, max_step, factor;
        bool ascends;
    } s = {.ascends = true};
    uint64_t last = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t x = c->get(c->context, i), step = x - last;
        s.max = x > s.max ? x : s.max;
        for (uint64_t a = s.factor, b = x; s.factor != 1 && b != 0; a = s.factor) {
            s.factor = b; /* the greatest common divisor so far */
            b = a % b;
        }
        s.ascends &= x >= last;
        s.max_step = x >= last && step > s.max_step ? step : s.max_step;
        last = x;
    }
    s.factor = s.factor > 0 ? s.factor : 1;
    const int plain = width_of(s.max / s.factor);
    const int steps = s.ascends ? width_of(s.max_step / s.factor) : 8;
    const bool differences = steps < plain;
    const int width = differences ? steps : plain;
    open_column(out, id, types[width], c->n);
    sw_sink_print(out, " data-factor=\"%llu\"%s>", (unsigned long long)s.factor,
                  differences ? " data-steps=\"1\"" : "");
    base64 b = {.out = out};
    last = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t x = c->get(c->context, i) / s.factor;
        const uint64_t put_x = differences ? x - last : x;
        put(&b, width == 8 ? bits_of((double)put_x) : put_x, width);
        last = x;
    }
    finish(&b);
}

/* So many clocks of ops are kept; of more runs, every k-th has its clocks. */
#define MAX_OP_CLOCKS ((size_t)4000000)

typedef struct {
    const sw_timeline *t;
    const sw_tl_program *p;
    swi_strings strings;
    size_t clocked_every; /* of runs with op clocks */
    int phase;            /* of a column of runs */
} page;

/* ---- values and ops of a program --------------------------------------------------------- */

/* A column's `get`: what stands for the i-th of a list, here `v`. */
#define READER(prefix, type, list, name, what)                                                 \
    static uint64_t prefix##_##name(void *context, size_t i)                                   \
    {                                                                                          \
        page *w = context;                                                                     \
        const type *v = &w->list[i];                                                           \
        return (what);                                                                         \
    }
#define VALUE(name, what) READER(value, sw_tensor, p->values, name, what)
#define OP(name, what) READER(op, sw_tl_op, p->ops, name, what)
#define RUN(name, what) READER(run, sw_tl_run, t->runs, name, what)

VALUE(id, v->id)
VALUE(alias, v->alias == SW_TL_NONE ? 0 : (uint64_t)v->alias + 1)
VALUE(name, swi_strings_number(&w->strings, v->name))
VALUE(layer, swi_strings_number(&w->strings, v->layer))
VALUE(op, swi_strings_number(&w->strings, v->op))
VALUE(role, swi_strings_number(&w->strings, v->role))
VALUE(phase, swi_strings_number(&w->strings, v->phase))
VALUE(segment, (uint64_t)v->segment)
VALUE(bytes, v->bytes)
VALUE(padding, v->padding)
VALUE(offset, v->offset)
VALUE(birth, v->birth)
VALUE(length, v->death - v->birth)
OP(name, swi_strings_number(&w->strings, v->name))
OP(layer, swi_strings_number(&w->strings, v->layer))
OP(phase, v->phase)

typedef struct {
    const char *name;
    uint64_t (*get)(void *context, size_t i);
} column;

static const column value_columns[] = {
    {"id", value_id},           {"alias", value_alias},     {"name", value_name},
    {"layer", value_layer},     {"op", value_op},           {"role", value_role},
    {"phase", value_phase},     {"segment", value_segment}, {"bytes", value_bytes},
    {"padding", value_padding}, {"offset", value_offset},   {"birth", value_birth},
    {"length", value_length},
};
static const column op_columns[] = {
    {"op.name", op_name}, {"op.layer", op_layer}, {"op.phase", op_phase}};

static bool has_clocks(const sw_tl_run *r)
{
    return r->clock == SW_TL_OPS && r->op_ns != NULL;
}

RUN(program, v->program)
RUN(step, v->step)
RUN(micro, v->micro)
RUN(at_ns, v->at_ns)
RUN(ns, v->ns)
RUN(clock, has_clocks(v) ? SW_TL_OPS : v->clock == SW_TL_OPS ? SW_TL_PHASES : v->clock)
RUN(peak, v->peak_bytes)
RUN(logged, v->n_log)
RUN(dropped, v->dropped)
RUN(phase_peak, v->phase[w->phase].peak_bytes)
RUN(phase_end, v->phase[w->phase].end_bytes)
RUN(phase_ns, v->phase[w->phase].ns)

static const column run_columns[] = {
    {"program", run_program}, {"step", run_step},     {"micro", run_micro},
    {"at_ns", run_at_ns},     {"ns", run_ns},         {"clock", run_clock},
    {"peak", run_peak},       {"logged", run_logged}, {"dropped", run_dropped},
};
static const column phase_columns[] = {
    {"peak", run_phase_peak}, {"end", run_phase_end}, {"ns", run_phase_ns}};

/* ---- writing ----------------------------------------------------------------------------- */

static void put_column(page *w, sw_sink_out *out, const char *group, const char *name,
                       uint64_t (*get)(void *context, size_t i), size_t n)
{
    char id[80];
    snprintf(id, sizeof id, "%s.%s", group, name);
    swi_html_column(out, id, &(swi_column){get, w, n});
}

/* The clocks of ops of run `r`, `t%d.r%zu.op_ns`. */
static uint64_t op_clock(void *context, size_t i)
{
    return ((const sw_tl_run *)context)->op_ns[i];
}

/* JSON that stands in a script element: "<" comes only in strings, where it may be escaped. */
static sw_status escape(void *context, const char *bytes, size_t n)
{
    sw_sink_out *out = context;
    while (n > 0) {
        const char *at = memchr(bytes, '<', n);
        const size_t plain = at == NULL ? n : (size_t)(at - bytes);
        sw_sink_bytes(out, bytes, plain);
        if (at != NULL)
            sw_sink_text(out, "\\u003c");
        bytes += plain + (at != NULL);
        n -= plain + (at != NULL);
    }
    return out->status;
}

static void put_words(page *w, sw_json *j)
{
    const sw_timeline *t = w->t;
    sw_json_begin(j, '{');
    SW_JSON_PUT(j, t, tool, path, model, device, data, created, command, ended, why, batch);
    char seed[24]; /* as text: the page's numbers have 53 bits */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->seed);
    sw_json_put_string(j, "seed", t->no_seed ? NULL : seed);
    sw_json_put_u64(j, "skipped_runs", t->skipped_runs);
    sw_json_put_u64(j, "clocked_every", w->clocked_every);
    const sw_tl_program *best = sw_timeline_peak(t);
    sw_json_put_i64(j, "main", best == NULL ? -1 : (int64_t)(best - t->programs));
    sw_json_open(j, "programs", '[');
    for (uint32_t k = 0; k < t->n_programs; k++) {
        const sw_tl_program *p = &t->programs[k];
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "exec", p->key >> 32);
        sw_json_put_u64(j, "number", p->key & INT32_MAX); /* the top bit: traces from plans */
        SW_JSON_PUT(j, p, immediate, run, batch, model_bytes, arena_bytes, data_bytes,
                    total_bytes, lower_bound_bytes, peak_bytes, peak_op);
        sw_json_open(j, "phases", '[');
        for (int i = 0; i < SW_PROF_PHASES; i++) {
            sw_json_begin(j, '{');
            SW_JSON_PUT(j, &p->phase[i], peak_bytes, end_bytes);
            sw_json_end(j);
        }
        sw_json_end(j);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_open(j, "strings", '[');
    for (uint32_t i = 0; i < w->strings.n; i++)
        sw_json_string(j, w->strings.list[i]);
    sw_json_end(j);
    sw_json_end(j);
}

static sw_status put_timeline(const sw_timeline *t, sw_sink_out *out, int which)
{
    page w = {.t = t};
    for (uint32_t k = 0; k < w.t->n_programs; k++) {
        char group[40];
        snprintf(group, sizeof group, "t%d.p%u", which, k);
        w.p = &w.t->programs[k];
        for (size_t c = 0; c < sizeof op_columns / sizeof *op_columns; c++)
            put_column(&w, out, group, op_columns[c].name, op_columns[c].get, w.p->n_ops);
        for (size_t c = 0; c < sizeof value_columns / sizeof *value_columns; c++)
            put_column(&w, out, group, value_columns[c].name, value_columns[c].get,
                       w.p->n_values);
    }
    char group[40];
    snprintf(group, sizeof group, "t%d.run", which);
    for (size_t c = 0; c < sizeof run_columns / sizeof *run_columns; c++)
        put_column(&w, out, group, run_columns[c].name, run_columns[c].get, w.t->n_runs);
    snprintf(group, sizeof group, "t%d.run.loss", which);
    open_column(out, group, "f64", w.t->n_runs); /* doubles, which stay as they are */
    sw_sink_text(out, " data-factor=\"1\">");
    base64 b = {.out = out};
    for (size_t i = 0; i < w.t->n_runs; i++)
        put(&b, bits_of(w.t->runs[i].has_loss ? w.t->runs[i].loss : (double)NAN), 8);
    finish(&b);
    for (w.phase = 0; w.phase < SW_PROF_PHASES; w.phase++) {
        snprintf(group, sizeof group, "t%d.run.%s", which, sw_prof_phase_name(w.phase));
        for (size_t c = 0; c < sizeof phase_columns / sizeof *phase_columns; c++)
            put_column(&w, out, group, phase_columns[c].name, phase_columns[c].get,
                       w.t->n_runs);
    }
    size_t clocks = 0, seen = 0;
    for (size_t i = 0; i < w.t->n_runs; i++)
        if (has_clocks(&w.t->runs[i]))
            clocks += w.t->programs[w.t->runs[i].program].n_ops;
    w.clocked_every = clocks / MAX_OP_CLOCKS + 1;
    for (size_t i = 0; i < w.t->n_runs; i++) {
        sw_tl_run *r = &w.t->runs[i];
        if (!has_clocks(r) || seen++ % w.clocked_every != 0)
            continue;
        char id[64];
        snprintf(id, sizeof id, "t%d.r%zu.op_ns", which, i);
        swi_html_column(out, id, &(swi_column){op_clock, r, w.t->programs[r->program].n_ops});
    }
    sw_sink_print(out, "<script type=\"application/json\" id=\"t%d\">", which);
    char buffer[4096];
    sw_json j;
    sw_json_fixed(&j, buffer, sizeof buffer, escape, out);
    put_words(&w, &j);
    sw_json_line(&j);
    if (j.status == SW_OK)
        j.status = escape(out, j.bytes, j.used);
    const sw_status status = w.strings.status != SW_OK ? w.strings.status : j.status;
    swi_strings_free(&w.strings);
    sw_sink_text(out, "</script>\n");
    return status;
}

sw_status sw_html_write(const sw_timeline *t, const sw_timeline *other, sw_sink_out *out)
{
    sw_sink_bytes(out, swi_html_front, swi_html_front_bytes);
    SW_TRY(put_timeline(t, out, 0));
    if (other != NULL)
        SW_TRY(put_timeline(other, out, 1));
    sw_sink_bytes(out, swi_html_back, swi_html_back_bytes);
    return sw_sink_flush(out);
}

static sw_status write_html(const sw_timeline *t, sw_sink_out *out)
{
    return sw_html_write(t, NULL, out);
}

const sw_sink sw_sink_html = {
    .name = "html",
    .about = "a page for a browser, of one file: timeline, plan, layers, tensors, runs",
    .ending = ".html",
    .max_events = 20000000, /* a run takes a row of numbers, however many events it has */
    .write = write_html,
    .compare = sw_html_write,
};
