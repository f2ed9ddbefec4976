/* DIR/report.html: one file without a script. Pictures over generations, the last generation,
 * the best net as text. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>

static void head(const evolve *e, svg *to)
{
    svg_print(to, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                  "<title>Architectures for ");
    svg_escaped(to, e->opts.job.data);
    svg_print(to, "</title>\n"
                  "<style>\nbody{font:14px sans-serif;margin:16px;background:#fff;"
                  "color:#1b1f24}svg{max-width:100%%;height:auto}"
                  "table{border-collapse:collapse;margin:16px 0}\n"
                  "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #8a929b}"
                  "tr.first td{font-weight:bold}pre{overflow-x:auto}\n"
                  "@media (prefers-color-scheme:dark){body{background:#14181d;"
                  "color:#e4e8ec}}\n</style>\n</head>\n<body>\n<h1>Architectures for ");
    svg_escaped(to, e->opts.job.data);
    svg_print(to, "</h1>\n");
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

static void share(svg *to, double value)
{
    if (isfinite(value))
        svg_print(to, "<td>%.2f %%</td>", 100.0 * value);
    else
        svg_print(to, "<td>none</td>");
}

static void line_of(svg *to, const char *name, const char *value)
{
    svg_print(to, "<tr><td>%s</td>", name);
    cell(to, value);
    svg_print(to, "</tr>\n");
}

static void tested(svg *to, const char *name, const evolve_test *t)
{
    char text[120];
    if (!t->there)
        return;
    snprintf(text, sizeof text, "%.2f %% (%s of %s)",
             100.0 * (double)t->right / (double)t->rows, cli_digits((uint64_t)t->right).text,
             cli_digits((uint64_t)t->rows).text);
    line_of(to, name, text);
}

static void summary(const evolve *e, svg *to)
{
    const evolve_row total = evolve_total(e);
    char text[200];
    svg_print(to, "<table>\n");
    snprintf(text, sizeof text, "%zu of %" PRId64 " members, seed %" PRId64, e->n_rows,
             e->opts.population, e->opts.job.seed);
    line_of(to, "generations", text);
    if (e->has_best) {
        snprintf(text, sizeof text, "member %" PRIu64 ", fitness %.5g, accuracy %.2f %%",
                 e->best.id, e->best.fitness, 100.0 * e->best.accuracy);
        line_of(to, "best (validation)", text);
    }
    tested(to, "test accuracy of the best", &e->test);
    tested(to, "trained again from scratch", &e->retrained);
    snprintf(text, sizeof text, "%s of %s bytes", cli_digits(total.population_bytes).text,
             cli_digits(e->opts.job.budget_bytes).text);
    line_of(to, "memory, at most", text);
    snprintf(text, sizeof text, "%s, not as predicted: %s", cli_digits(total.compared).text,
             cli_digits(total.differ).text);
    line_of(to, "members measured", text);
    snprintf(text, sizeof text, "%s priced, %s did not fit", cli_digits(total.mutants).text,
             cli_digits(total.refused).text);
    line_of(to, "mutants", text);
    svg_print(to, "</table>\n");
}

static void member_row(const evolve *e, svg *to, const evolve_member *m,
                       const cli_column *fitness, const cli_column *loss)
{
    svg_print(to, "<tr%s><td>%" PRIu64 "</td><td>%" PRIu64 "</td>",
              e->has_best && m->id == e->best.id ? " class=\"first\"" : "", m->id, m->born);
    if (m->parents[0] == 0)
        svg_print(to, "<td>none</td>");
    else if (m->parents[1] == 0)
        svg_print(to, "<td>%" PRIu64 "</td>", m->parents[0]);
    else
        svg_print(to, "<td>%" PRIu64 ", %" PRIu64 "</td>", m->parents[0], m->parents[1]);
    real(to, fitness, m->fitness);
    if (e->n_objectives > 1)
        svg_print(to, "<td>%" PRIu64 "</td>", m->rank);
    share(to, m->accuracy);
    real(to, loss, m->loss);
    svg_print(to, "<td>%" PRIu64 "</td><td>%s</td>", m->vertices,
              cli_digits(m->parameters).text);
    svg_print(to, "<td>%s</td>", cli_digits(m->predicted_bytes).text);
    svg_print(to, "<td>%s</td>",
              m->measured_bytes > 0 ? cli_digits(m->measured_bytes).text : "not run");
    svg_print(to, "<td>%s</td>", cli_digits(m->operations).text);
    cell(to, m->invalid ? m->why : "");
    svg_print(to, "</tr>\n");
}

static void members(const evolve *e, svg *to)
{
    cli_column fitness = {0}, loss = {0};
    if (e->n_members == 0)
        return;
    for (size_t i = 0; i < e->n_members; i++) {
        cli_column_take(&fitness, e->members[i].fitness);
        cli_column_take(&loss, e->members[i].loss);
    }
    svg_print(to, "<h2>The last generation</h2>\n<table>\n<tr><th>member</th><th>born</th>"
                  "<th>parents</th><th>fitness</th>");
    if (e->n_objectives > 1)
        svg_print(to, "<th>rank</th>");
    svg_print(to, "<th>accuracy</th><th>loss</th><th>vertices</th><th>parameters</th>"
                  "<th>bytes predicted</th><th>measured</th><th>operations of a step</th>"
                  "<th></th></tr>\n");
    for (size_t i = 0; i < e->n_members; i++)
        member_row(e, to, &e->members[i], &fitness, &loss);
    svg_print(to, "</table>\n");
}

static sw_status genome(const evolve *e, svg *to)
{
    char *text;
    size_t bytes;
    if (!e->has_best)
        return SW_OK;
    SW_TRY(sw_genome_print(e->genome, &text, &bytes));
    svg_print(to,
              "<h2>The best net</h2>\n<p><code>dot -Tsvg best.dot</code> draws it.</p>\n<pre>");
    for (char *at = text, *end; *at != '\0'; at = *end != '\0' ? end + 1 : end) {
        for (end = at; *end != '\n' && *end != '\0';)
            end++;
        const char stop = *end;
        *end = '\0';
        svg_escaped(to, at);
        *end = stop;
        svg_print(to, "\n");
    }
    svg_print(to, "</pre>\n");
    sw_text_free(text, bytes);
    return SW_OK;
}

sw_status evolve_report_save(const evolve *e)
{
    svg to = {.status = SW_OK};
    head(e, &to);
    summary(e, &to);
    evolve_plot_draw(e, &to);
    members(e, &to);
    sw_status status = genome(e, &to);
    svg_print(&to, "</body>\n</html>\n");
    if (status == SW_OK)
        status = to.status;
    if (status == SW_OK)
        status = svg_save(&to, evolve_path(e, "report.html"));
    svg_free(&to);
    return status;
}
