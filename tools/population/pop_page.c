/* --plot FILE.html: the picture, a table of the members, one of the shapes, and what memory was
 * predicted to take and took. One file without a script. */
#include "tools/population/population.h"
#include <inttypes.h>
#include <math.h>

static void page_head(const pop *p, svg *to)
{
    svg_print(to, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                  "<title>");
    svg_escaped(to, p->opts.job.model);
    svg_print(to, " on ");
    svg_escaped(to, p->opts.job.data);
    svg_print(to, ": %d members</title>\n", p->n_members);
    svg_print(to,
              "<style>\nbody{font:14px sans-serif;margin:16px;background:#fff;color:#1b1f24}"
              "svg{max-width:100%%;height:auto}"
              "table{border-collapse:collapse;margin:16px 0}\n"
              "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #8a929b}"
              "tr.first td{font-weight:bold}\n"
              "@media (prefers-color-scheme:dark){body{background:#14181d;color:#e4e8ec}}\n"
              "</style>\n</head>\n<body>\n");
}

static void cell(svg *to, const char *text)
{
    svg_print(to, "<td>");
    svg_escaped(to, text);
    svg_print(to, "</td>");
}

static void real(svg *to, const cli_column *column, double value)
{
    cell(to, isfinite(value) ? cli_column_text(column, value).text : "none");
}

/* Those of the table that are numbers. */
typedef struct {
    cli_column score, loss, values[POP_HYPERS];
} columns;

static void take_columns(const pop *p, columns *c)
{
    double values[POP_HYPERS];
    for (int k = 0; k < p->n_members; k++) {
        cli_column_take(&c->score, pop_told(p->members[k].score.score));
        cli_column_take(&c->loss, p->members[k].score.loss);
        for (int i = 0; i < p->n_hypers && pop_values(p, k, values) == SW_OK; i++)
            cli_column_take(&c->values[i], values[i]);
    }
}

/* A choice by its label. */
static void value_cell(const pop *p, svg *to, const columns *c, int hyper, double value)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    const bool known = sw_space_at(p->space, hyper, &is) == SW_OK;
    for (int i = 0; known && is.labels != NULL && i < is.n_choices; i++)
        if (is.choices[i] == value) {
            cell(to, is.labels[i]);
            return;
        }
    real(to, &c->values[hyper], value);
}

static void member_row(const pop *p, svg *to, const columns *c, int k, bool best)
{
    const pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    double values[POP_HYPERS];
    sw_pbt_member seen = SW_OPTS(sw_pbt_member);
    svg_print(to, "<tr%s><td>%d</td>", best ? " class=\"first\"" : "", k);
    real(to, &c->score, pop_told(m->score.score));
    real(to, &c->loss, m->score.loss);
    svg_print(to, "<td>%" PRIu64 "</td>", m->steps);
    if (sw_pbt_describe(p->pbt, k, &seen) == SW_OK)
        svg_print(to, "<td>%" PRIu64 "</td>", seen.exploits);
    svg_print(to, "<td>%s</td>", cli_digits(shape->member_bytes).text);
    cell(to, pop_config_text(&shape->config).text);
    if (pop_values(p, k, values) == SW_OK)
        for (int i = 0; i < p->n_hypers; i++)
            value_cell(p, to, c, i, values[i]);
    cell(to, m->failed ? "failed" : m->diverged ? "diverged" : m->ended ? "ended" : "goes on");
    svg_print(to, "</tr>\n");
}

static void members(const pop *p, svg *to)
{
    const int best = pop_best(p);
    columns c = {.score = {0}};
    take_columns(p, &c);
    svg_print(to,
              "<table>\n<tr><th>member</th><th>%s</th><th>validation loss</th><th>steps</th>"
              "<th>donors copied</th><th>bytes</th><th>shape</th>",
              pop_metric_name(p));
    for (int i = 0; i < p->n_hypers; i++) {
        svg_print(to, "<th>");
        svg_escaped(to, p->hyper[i].name);
        svg_print(to, "</th>");
    }
    svg_print(to, "<th>state</th></tr>\n");
    for (int k = 0; k < p->n_members; k++)
        member_row(p, to, &c, k, k == best);
    svg_print(to, "</table>\n");
}

static int count(const pop *p, int shape)
{
    int n = 0;
    for (int k = 0; k < p->n_members; k++)
        n += p->members[k].shape == shape;
    return n;
}

/* In the order of the members that have them: places in the list of shapes depend on what was
 * planned when. */
static void shapes(const pop *p, svg *to)
{
    svg_print(to, "<table>\n<tr><th>shape</th><th>members</th><th>bytes of a member</th>"
                  "<th>of a step</th><th>of a batch</th></tr>\n");
    for (int k = 0; k < p->n_members; k++) {
        const int shape = p->members[k].shape;
        int first = 0;
        while (p->members[first].shape != shape)
            first++;
        if (first < k)
            continue;
        const pop_shape *s = p->shapes[shape];
        svg_print(to, "<tr>");
        cell(to, pop_config_text(&s->config).text);
        svg_print(to, "<td>%d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", count(p, shape),
                  cli_digits(s->member_bytes).text, cli_digits(s->arena_bytes).text,
                  cli_digits(s->batch_bytes).text);
    }
    svg_print(to, "</table>\n");
}

void pop_page_draw(const pop *p, svg *to)
{
    char line[500];
    page_head(p, to);
    pop_plot_draw(p, to, false);
    members(p, to);
    shapes(p, to);
    pop_memory_line(p, false, line, sizeof line);
    svg_print(to, "<p>");
    svg_escaped(to, line);
    svg_print(to, "</p>\n</body>\n</html>\n");
}
