/* A page of a population: members down, turns across, and what each turn takes. */
#include "profiler/inspect/population/population_report.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static void put_shapes(page *g)
{
    text(g, "<h2>Bytes of a member, by shape, layer and role</h2>\n<div class=\"scroll\">"
            "<table id=\"shapes\">\n<tr><th>shape</th><th>layer</th><th>role</th><th>bytes</th>"
            "</tr>\n");
    for (uint32_t i = 0; i < g->p->n_shapes; i++) {
        const population_shape *s = &g->p->shapes[i];
        for (uint32_t k = 0; k < s->parts.n; k++) {
            text(g, "<tr><td>");
            escaped(g, s->name);
            text(g, "</td><td>");
            escaped(g, s->parts.at[k].layer);
            text(g, "</td><td>");
            escaped(g, s->parts.at[k].role);
            print(g, "</td><td>%" PRIu64 "</td></tr>\n", s->parts.at[k].bytes);
        }
    }
    text(g, "</table></div>\n");
}

sw_status population_html(population *p,
                          sw_status (*write)(void *context, const char *bytes, size_t n),
                          void *context)
{
    page g = {.p = p, .write = write, .context = context};
    put_head(&g);
    put_members(&g);
    put_turns(&g);
    put_shapes(&g);
    text(&g, "</body></html>\n");
    return g.status;
}
