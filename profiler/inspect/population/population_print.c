/* The report of a population: text, JSON, and a page of members down and turns across. */
#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/population/population_view.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------- */

#define SHOWN_HOLDERS 10
#define SHOWN_MEMBERS 50

static const char *const kind_words[POPULATION_KINDS] = {"parameters", "optimizer state",
                                                         "buffers", "knobs"};

void population_head_text(const population *p, const report_style *style)
{
    const sw_timeline *t = p->timeline;
    const sw_writer *to = style->to;
    sw_writer_say(to, 0, 2,
                  "%" PRIu64 " members of %s on %s, batch %" PRId64 ", seed %" PRIu64
                  "%s%s%s%s",
                  p->members, *t->model != '\0' ? t->model : "a model",
                  *t->device != '\0' ? t->device : "cpu", t->batch, t->seed,
                  *t->data != '\0' ? ", data " : "", t->data,
                  *t->scores != '\0' ? ", scores: " : "", t->scores);
    sw_writer_print(to, "%s turns%s", sw_text_digits(p->seen_turns).text,
                    p->ended ? "" : " so far: the file has no end");
    if (p->ended)
        sw_writer_print(to, " in %s", sw_text_ns(p->wall_ns).text);
    if (p->ended && strcmp(p->status, "done") != 0)
        sw_writer_print(to, "; the run was %s", p->status);
    sw_writer_print(to, ", begun %s\n", t->created);
    if (p->cut_members > 0 && !style->quiet)
        sw_writer_say(to, 0, 2,
                      "the turn after that lacks its end: %" PRIu32
                      " records of members are left out",
                      p->cut_members);
}

void population_print_step(const population_step *s, const sw_tl_program *p,
                           const report_style *style)
{
    const sw_writer *to = style->to;
    sw_writer_print(to, "  its step takes %s at most, by phase (%s, batch %" PRId64 "):\n   ",
                    table_bytes(s->peak, style).text, p->run, p->batch);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (s->phase[i] > 0)
            sw_writer_print(to, " %s %s", sw_prof_phase_name(i),
                            table_bytes(s->phase[i], style).text);
    sw_writer_print(to, "\n");
    if (s->peak_op < p->n_ops)
        sw_writer_say(to, 2, 4, "at its highest, while %s runs, it is held by",
                      p->ops[s->peak_op].name);
    for (uint32_t i = 0; i < s->holders.n && i < SHOWN_HOLDERS; i++) {
        const population_part *x = &s->holders.at[i];
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        sw_writer_print(to, "  ");
        int left = sw_writer_fitted(to, layer, strlen(layer), 24);
        sw_writer_print(to, "%*s %-18s %15s\n", left, "", x->role,
                        sw_text_digits(x->bytes).text);
    }
    if (s->holders.n > SHOWN_HOLDERS)
        sw_writer_print(to, "  and %" PRIu32 " more\n", s->holders.n - SHOWN_HOLDERS);
}

/* The shape with the highest step in full: it decides the lanes. */
static void print_shapes(const population_view *v)
{
    const table t = population_shape_table(v);
    uint32_t highest = 0;
    report_headline(v->style, "Shapes");
    table_print(&t, t.n, v->style);
    for (uint32_t i = 1; i < v->n_shapes; i++)
        if (v->step[i].peak > v->step[highest].peak)
            highest = i;
    if (v->n_shapes == 0)
        return;
    const population_shape *s = &v->p->shapes[v->shape[highest]];
    sw_writer_print(v->style->to, "\n");
    sw_writer_say(v->style->to, 0, 2, "A member of %s%s", s->name,
                  v->n_shapes > 1 ? ", whose step is the highest" : "");
    sw_writer_print(v->style->to, "  %-24s %-18s %15s\n", "layer", "role", "bytes");
    for (uint32_t j = 0; j < s->parts.n; j++) {
        const population_part *x = &s->parts.at[j];
        sw_writer_print(v->style->to, "  ");
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        int left = sw_writer_fitted(v->style->to, layer, strlen(layer), 24);
        sw_writer_print(v->style->to, "%*s %-18s %15s\n", left, "", x->role,
                        sw_text_digits(x->bytes).text);
    }
    if (population_program(v, s) != NULL)
        population_print_step(&v->step[highest], population_program(v, s), v->style);
}

static uint64_t sum_of(const population_view *v, const char *kind, int group)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->rows.n; i++) {
        const population_row *r = &v->rows.at[i];
        if (strcmp(r->kind, kind) == 0 &&
            (group < 0 || population_kind_of(r->role) == (population_kind)group))
            sum += r->bytes;
    }
    return sum;
}

static void print_line(const population_view *v, const char *what, uint64_t bytes)
{
    sw_writer_print(v->style->to, "  %-44s %15s\n", what, sw_text_digits(bytes).text);
}

/* Exact or not, the lines and their sum are those of one turn. */
static void print_budget(const population_view *v)
{
    const population_turn *t = v->turn;
    char text[80];
    uint64_t resident = 0;
    for (uint32_t i = 0; i < t->n; i++)
        resident += t->at[i].resident;
    report_headline(v->style, "Held by the budget");
    for (int k = 0; k < POPULATION_KINDS; k++) {
        snprintf(text, sizeof text, "%s of %" PRIu64 " resident members", kind_words[k],
                 resident);
        print_line(v, text, sum_of(v, "member", k));
    }
    print_line(v, "ranges that are free, for members that come in", sum_of(v, "free", -1));
    snprintf(text, sizeof text, "step arenas of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "step arena", -1));
    snprintf(text, sizeof text, "batches of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "batch", -1));
    print_line(v, "together", v->rows.sum);
    print_line(v, "measured", population_measured(t));
    print_line(v, "planned for this turn, at most", t->predicted_bytes);
    if (v->p->budget_bytes > 0)
        print_line(v, "budget", v->p->budget_bytes);
    print_line(v, "outside of the budget: waiting and kept", t->outside_bytes);
    if (v->p->peak_bytes > population_measured(t) && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "the most that was measured is %s, in turn %" PRIu64,
                      table_bytes(v->p->peak_bytes, v->style).text, v->p->peak_turn);
}

void population_print_text(const population_view *v)
{
    char head[80];
    population_head_text(v->p, v->style);
    if (v->turn == NULL) {
        sw_writer_text(v->style->to, "no turn has ended in this file\n");
        print_shapes(v);
        return;
    }
    const table t = population_member_table(v);
    snprintf(head, sizeof head, "Members in turn %" PRIu64 ", step %" PRIu64, v->turn->turn,
             v->turn->step);
    report_headline(v->style, head);
    table_print(&t, t.n < SHOWN_MEMBERS ? t.n : SHOWN_MEMBERS, v->style);
    if (t.n > SHOWN_MEMBERS && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "%zu members more: --json and --format csv have them",
                      t.n - SHOWN_MEMBERS);
    print_shapes(v);
    print_budget(v);
}

/* ---- JSON -------------------------------------------------------------------------------- */

void population_put_head(sw_json *j, const population *p)
{
    const sw_timeline *t = p->timeline;
    sw_json_put_string(j, "file", p->shown);
    sw_json_put_string(j, "tool", "stepwell");
    sw_json_put_string(j, "kind", "population");
    report_put_text(j, "model", t->model);
    report_put_text(j, "device", t->device);
    report_put_text(j, "data", t->data);
    report_put_text(j, "normalise", t->normalise);
    report_put_text(j, "scores", t->scores);
    report_put_batch(j, t->batch);
    sw_json_put_u64(j, "seed", t->seed);
    report_put_text(j, "created", t->created);
    report_put_text(j, "command", t->command);
    sw_json_put_u64(j, "n_members", p->members);
    sw_json_put_known(j, "budget_bytes", p->budget_bytes > 0, p->budget_bytes);
    sw_json_put_u64(j, "turns", p->seen_turns);
    sw_json_put_known(j, "first_turn", p->seen_turns > 0, p->first_turn);
    sw_json_put_known(j, "last_turn", p->seen_turns > 0, p->last_turn);
    sw_json_put_u64(j, "measured_peak_bytes", p->peak_bytes);
}

void population_put_end(sw_json *j, const population *p, const report_tail *more)
{
    report_put_text(j, "status", p->status);
    report_put_text(j, "error", p->error);
    if (sw_json_open_known(j, "damaged", p->damaged_line > 0)) {
        sw_json_put_u64(j, "line", p->damaged_line);
        sw_json_put_string(j, "why", p->damaged_why);
        sw_json_end(j);
    }
    if (more != NULL)
        more->put(j, more->context);
}

void population_put_values(sw_json *j, const char *key, const population *p,
                           const double *values)
{
    sw_json_open(j, key, '{');
    for (uint32_t i = 0; i < p->n_names; i++)
        sw_json_put_f64(j, p->names[i], values[i]);
    sw_json_end(j);
}

void population_put_parts(sw_json *j, const char *key, const population_parts *x)
{
    sw_json_open(j, key, '[');
    for (uint32_t i = 0; i < x->n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "layer", x->at[i].layer);
        sw_json_put_string(j, "role", x->at[i].role);
        sw_json_put_u64(j, "bytes", x->at[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void population_put_step(sw_json *j, const population_step *s, const sw_tl_program *p)
{
    if (!sw_json_open_known(j, "step_arena", p != NULL))
        return;
    sw_json_put_string(j, "run", p->run);
    report_put_batch(j, p->batch);
    sw_json_put_u64(j, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(j, "peak_bytes", s->peak);
    sw_json_put_string(j, "peak_op", s->peak_op < p->n_ops ? p->ops[s->peak_op].name : NULL);
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++)
        sw_json_put_u64(j, sw_prof_phase_name(i), s->phase[i]);
    sw_json_end(j);
    population_put_parts(j, "holders", &s->holders);
    sw_json_end(j);
}

sw_status population_print_json(const population_view *v)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    population_put_head(&j, v->p);
    if (v->turn != NULL) {
        const population_turn *t = v->turn;
        sw_json_put_u64(&j, "turn", t->turn);
        sw_json_put_u64(&j, "step", t->step);
        sw_json_put_u64(&j, "lanes", t->lanes);
        sw_json_put_u64(&j, "step_arena_bytes", t->step_bytes);
        sw_json_put_u64(&j, "batch_bytes", t->batch_bytes);
        sw_json_put_u64(&j, "range_bytes", t->range_bytes);
        sw_json_put_u64(&j, "live_bytes", t->live_bytes);
        sw_json_put_u64(&j, "measured_bytes", population_measured(t));
        sw_json_put_u64(&j, "predicted_bytes", t->predicted_bytes);
        sw_json_put_u64(&j, "outside_bytes", t->outside_bytes);
        const table members = population_member_table(v), budget = population_budget_table(v);
        table_put(&j, "members", &members);
        sw_json_open(&j, "values", '[');
        for (uint32_t i = 0; i < t->n; i++) {
            sw_json_begin(&j, '{');
            sw_json_put_u64(&j, "member", t->at[i].member);
            population_put_values(&j, "values", v->p, population_values(v->p, t, i));
            sw_json_end(&j);
        }
        sw_json_end(&j);
        table_put(&j, "budget", &budget);
        sw_json_put_u64(&j, "sum_bytes", v->rows.sum);
    }
    sw_json_open(&j, "shapes", '[');
    for (uint32_t i = 0; i < v->n_shapes; i++) {
        const population_shape *s = &v->p->shapes[v->shape[i]];
        const sw_tl_program *p = population_program(v, s);
        sw_json_begin(&j, '{');
        sw_json_put_string(&j, "shape", s->name);
        sw_json_put_u64(&j, "members", population_members_of(v, v->shape[i]));
        sw_json_put_u64(&j, "member_bytes", s->member_bytes);
        sw_json_put_u64(&j, "batch_bytes", s->batch_bytes);
        population_put_parts(&j, "parts", &s->parts);
        population_put_step(&j, &v->step[i], p);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    population_put_end(&j, v->p, v->more);
    sw_json_end(&j);
    return report_print_object(&j, v->style);
}

/* ---- the page ---------------------------------------------------------------------------- */

typedef struct {
    population *p;
    sw_status (*write)(void *context, const char *bytes, size_t n);
    void *context;
    sw_status status; /* the first error; later texts are dropped */
} page;

static void text(page *g, const char *s)
{
    if (g->status == SW_OK)
        g->status = g->write(g->context, s, strlen(s));
}

static void print(page *g, const char *format, ...) SW_PRINTF(2, 3);
static void print(page *g, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    text(g, line);
}

/* Words of a file are text, whatever they contain. */
static void escaped(page *g, const char *s)
{
    for (; *s != '\0' && g->status == SW_OK; s++) {
        const char *as = *s == '<'    ? "&lt;"
                         : *s == '>'  ? "&gt;"
                         : *s == '&'  ? "&amp;"
                         : *s == '"'  ? "&quot;"
                         : *s == '\'' ? "&#39;"
                                      : NULL;
        if (as != NULL)
            text(g, as);
        else
            g->status = g->write(g->context, s, 1);
    }
}

static const char begin[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>stepwell: population</title>\n<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em}\n"
    "table{border-collapse:collapse}td,th{padding:.15em .6em;text-align:right;"
    "white-space:nowrap}\n"
    "th{font-weight:600;position:sticky;top:0;background:Canvas}\n"
    "td:first-child,th:first-child{position:sticky;left:0;background:Canvas}\n"
    ".scroll{overflow:auto;max-height:70vh;border:1px solid GrayText}\n"
    ".copy{outline:2px solid Highlight;outline-offset:-2px}.waits{opacity:.6}\n"
    "</style></head><body>\n";

static void put_head(page *g)
{
    const population *p = g->p;
    text(g, begin);
    print(g, "<h1>%" PRIu64 " members of ", p->members);
    escaped(g, p->timeline->model);
    text(g, "</h1>\n<p>");
    escaped(g, p->timeline->command);
    print(g, "</p>\n<p>%" PRIu64 " turns%s", p->seen_turns, p->ended ? ", the run is " : "");
    escaped(g, p->status);
    text(g, "</p>\n");
}

/* ---- members and turns ------------------------------------------------------------------- */

/* The score; the owners of the bytes by the pointer. A frame: it began the turn as a copy. */
static void put_cell(page *g, const population_turn *t, const population_member *m)
{
    const population_shape *s = &g->p->shapes[m->shape];
    print(g, "<td class=\"%s%s\" title=\"", m->donor >= 0 ? "copy " : "",
          m->resident ? "" : "waits");
    escaped(g, s->name);
    print(g, ", step %" PRIu64 ", %" PRIu64 " bytes in the budget, %" PRIu64 " outside",
          m->step, m->range_bytes, m->waiting_bytes + m->kept_bytes);
    if (m->donor >= 0)
        print(g, ", a copy of member %" PRId64, m->donor);
    for (uint32_t i = 0; i < g->p->n_names; i++) {
        text(g, ", ");
        escaped(g, g->p->names[i]);
        print(g, " %.6g", population_values(g->p, t, m->member)[i]);
    }
    if (isnan(m->score))
        text(g, "\">-</td>");
    else
        print(g, "\">%.5g</td>", m->score);
}

static void put_members(page *g)
{
    const population *p = g->p;
    text(g, "<h2>Members and turns</h2>\n<p>Scores");
    text(g, *p->timeline->scores != '\0' ? ": " : "");
    escaped(g, p->timeline->scores);
    text(g, ". A frame: the member began the turn as a copy. Pale: it waited outside of the "
            "budget.</p>\n"
            "<div class=\"scroll\"><table id=\"members\">\n<tr><th>member</th>");
    for (uint32_t i = 0; i < p->n_turns; i++)
        print(g, "<th>%" PRIu64 "</th>", p->turns[i].turn);
    text(g, "</tr>\n");
    for (uint32_t k = 0; k < p->members && p->n_turns > 0; k++) {
        print(g, "<tr><td>%" PRIu32 "</td>", k);
        for (uint32_t i = 0; i < p->n_turns; i++)
            put_cell(g, &p->turns[i], &p->turns[i].at[k]);
        text(g, "</tr>\n");
    }
    text(g, "</table></div>\n");
}

static void put_turns(page *g)
{
    const population *p = g->p;
    text(g, "<h2>Bytes of turns</h2>\n<div class=\"scroll\"><table id=\"turns\">\n<tr><th>turn"
            "</th><th>step</th><th>members</th><th>free ranges</th><th>step arenas</th>"
            "<th>batches</th><th>measured</th><th>planned</th><th>outside</th></tr>\n");
    for (uint32_t i = 0; i < p->n_turns; i++) {
        const population_turn *t = &p->turns[i];
        print(g, "<tr><td>%" PRIu64 "</td><td>%" PRIu64 "</td>", t->turn, t->step);
        const uint64_t bytes[] = {t->live_bytes,          t->range_bytes - t->live_bytes,
                                  t->step_bytes,          t->batch_bytes,
                                  population_measured(t), t->predicted_bytes,
                                  t->outside_bytes};
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
            print(g, "<td>%" PRIu64 "</td>", bytes[k]);
        text(g, "</tr>\n");
    }
    text(g, "</table></div>\n");
}

/* ---- shapes ------------------------------------------------------------------------------ */

sw_status population_html(population *p,
                          sw_status (*write)(void *context, const char *bytes, size_t n),
                          void *context)
{
    page g = {.p = p, .write = write, .context = context};
    put_head(&g);
    put_members(&g);
    put_turns(&g);
    text(&g,
         "<h2>Bytes of a member, by shape, layer and role</h2>\n<div class=\"scroll\">"
         "<table id=\"shapes\">\n<tr><th>shape</th><th>layer</th><th>role</th><th>bytes</th>"
         "</tr>\n");
    for (uint32_t i = 0; i < g.p->n_shapes; i++) {
        const population_shape *s = &g.p->shapes[i];
        for (uint32_t k = 0; k < s->parts.n; k++) {
            text(&g, "<tr><td>");
            escaped(&g, s->name);
            text(&g, "</td><td>");
            escaped(&g, s->parts.at[k].layer);
            text(&g, "</td><td>");
            escaped(&g, s->parts.at[k].role);
            print(&g, "</td><td>%" PRIu64 "</td></tr>\n", s->parts.at[k].bytes);
        }
    }
    text(&g, "</table></div>\n");
    text(&g, "</body></html>\n");
    return g.status;
}
