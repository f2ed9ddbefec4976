/* DIR/report.html: one file without a script. It shows the results of all candidates, their
 * bytes, and the best net as text. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>

/* Two panels over candidates: accuracy by the rung that each has reached, and predicted bytes
 * with the budget as a line. */

enum { WIDTH = 1000, LEFT = 96, PLOT_W = 876, TOP = 34, HEIGHT = 220, GAP = 84, FOOT = 62 };

typedef struct {
    const evolve *e;
    svg *to;
    svg_plot at;
} panel;

/* One that goes further is darker; the last class has second looks too. */
static const char *const classes[] = {"p-first", "p-way", "p-end"};
static const char *const texts[] = {"at the first rung", "on the way", "trained to the end"};

static int class_of(const evolve *e, const evolve_candidate *c)
{
    return c->rung + 1 == e->opts.rungs ? 2 : c->rung > 0;
}

static double percent_of(const evolve_candidate *c)
{
    return c->rung < 0 ? (double)NAN : 100.0 * c->accuracy;
}

static double mib_of(const evolve_candidate *c)
{
    return (double)c->predicted_bytes / 1048576.0;
}

/* A dot for each candidate, with the names of the classes below; a `limit` across, where it has
 * a name. */
static void draw_panel(panel *p, const char *title, double (*value)(const evolve_candidate *),
                       double low, double high, double limit, const char *name)
{
    const int left = p->at.left, y = p->at.top + HEIGHT + 38;
    for (size_t i = 0; i < p->e->n; i++)
        svg_widen(&low, &high, value(&p->e->all[i]));
    if (low > high)
        low = high = 0.0;
    p->at.y = svg_axis_of(low, high, false, p->at.top + HEIGHT - 6, 12 - HEIGHT);
    svg_open_text(p->to, "text", 100 * left, 100 * (p->at.top - 10));
    svg_print(p->to, "%s</text>\n", title);
    svg_grid_down(p->to, &p->at, 10);
    svg_grid_across(p->to, &p->at, 6);
    if (name != NULL) {
        const long long at = svg_at(&p->at.y, limit) / 10;
        svg_print(p->to, "<path class=\"p p-limit\" d=\"M%d %lld.%lldh%d\"/>\n", left, at / 10,
                  at % 10, PLOT_W);
        svg_open_text(p->to, "axis", 100 * (left + PLOT_W - 6), 10 * at - 500);
        svg_print(p->to, "%s, %.4g MiB</text>\n", name, limit);
    }
    for (int k = 0; k < 3; k++) {
        const int x = left + 190 * k;
        svg_print(p->to, "<path class=\"p %s\" d=\"", classes[k]);
        for (size_t i = 0; i < p->e->n; i++) {
            const evolve_candidate *c = &p->e->all[i];
            if (class_of(p->e, c) != k || !isfinite(value(c)))
                continue;
            const long long a = svg_at(&p->at.x, (double)c->id) / 10,
                            b = svg_at(&p->at.y, value(c)) / 10;
            svg_print(p->to, "M%lld.%lld %lld.%lldh0", a / 10, a % 10, b / 10, b % 10);
        }
        svg_print(p->to, "\"/>\n<path class=\"p %s\" d=\"M%d %dh0\"/>\n", classes[k], x, y - 4);
        svg_open_text(p->to, "text", 100LL * (x + 14), 100LL * y);
        svg_print(p->to, "%s</text>\n", texts[k]);
    }
}

static void draw(const evolve *e, svg *to)
{
    const double last = e->n > 1 ? (double)e->n : 2.0;
    const bool own = e->opts.candidate_bytes > 0;
    const double mib =
        (double)(own ? e->opts.candidate_bytes : e->opts.job.budget_bytes) / 1048576.0;
    panel p = {
        e, to, {LEFT, TOP, PLOT_W, HEIGHT, svg_axis_of(1.0, last, false, LEFT, PLOT_W), {0}}};
    p.at.x.whole = true;
    svg_open(to, WIDTH, TOP + 2 * HEIGHT + GAP + FOOT, false);
    svg_style(to,
              ".p{fill:none;stroke-width:7;stroke-linecap:round}\n"
              ".p-first{stroke:#a9b4c0}.p-way{stroke:#3d85c6}.p-end{stroke:#d6311f}"
              ".p-limit{stroke:#6d757e;stroke-width:2;stroke-dasharray:7 4}\n",
              ".p-end{stroke:#ff6a57}");
    draw_panel(&p, "accuracy on the validation part, %, over candidates", percent_of,
               (double)INFINITY, -(double)INFINITY, 0.0, NULL);
    p.at.top += HEIGHT + GAP;
    draw_panel(&p, "predicted peaks of training steps, MiB, over candidates", mib_of, 0.0,
               own ? mib * 1.08 : 0.0, mib, own ? "limit of a candidate" : NULL);
    svg_print(to, "</svg>\n");
}

/* ---- the page ---------------------------------------------------------------------------- */

static void line_of(svg *to, const char *name, const char *value)
{
    svg_print(to, "<tr><td>%s</td>", name);
    svg_cell(to, value);
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

static void percent_cell(svg *to, double x)
{
    if (isfinite(x))
        svg_print(to, "<td>%.2f %%</td>", 100.0 * x);
    else
        svg_print(to, "<td>none</td>");
}

static void candidates(const evolve *e, svg *to)
{
    cli_column fitness = {0}, loss = {0};
    for (size_t i = 0; i < e->n; i++) {
        cli_column_take(&fitness, e->all[i].fitness);
        cli_column_take(&loss, e->all[i].loss);
    }
    svg_print(to, "<h2>Candidates</h2>\n<table>\n<tr><th>candidate</th><th>of</th><th>rung</th>"
                  "<th>steps</th><th>fitness</th><th>accuracy</th><th>error</th>"
                  "<th>with its look</th><th>loss</th><th>vertices</th><th>parameters</th>"
                  "<th>bytes predicted</th><th>measured</th><th>operations of a step</th>"
                  "<th></th></tr>\n");
    for (size_t i = 0; i < e->n; i++) {
        const evolve_candidate *c = &e->all[i];
        svg_print(to, "<tr%s><td>%" PRIu64 "</td>",
                  e->has_best && c->id == e->best.id ? " class=\"first\"" : "", c->id);
        if (c->of > 0)
            svg_print(to, "<td>%s%" PRIu64 "</td>", c->look ? "look at " : "", c->of);
        else
            svg_print(to, "<td>%s</td>", e->plain && i == 0 ? "plain" : "drawn");
        svg_print(to, "<td>%" PRId64 "</td><td>%s</td>", c->rung + 1,
                  cli_digits(c->steps).text);
        svg_cell_real(to, &fitness, c->fitness);
        percent_cell(to, c->accuracy);
        percent_cell(to, c->error);
        percent_cell(to, c->looks > 1 && e->n_fitness == 0 ? c->mean : (double)NAN);
        svg_cell_real(to, &loss, c->loss);
        svg_print(to, "<td>%" PRIu64 "</td><td>%s</td>", c->vertices,
                  cli_digits(c->parameters).text);
        svg_print(to, "<td>%s</td>", cli_digits(c->predicted_bytes).text);
        svg_print(to, "<td>%s</td>",
                  c->measured_bytes > 0 ? cli_digits(c->measured_bytes).text : "not run");
        svg_print(to, "<td>%s</td>", cli_digits(c->operations).text);
        svg_cell(to, c->invalid ? c->why : "");
        svg_print(to, "</tr>\n");
    }
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
    char title[EVOLVE_PATH + 40], text[200];
    const evolve_total total = evolve_sums(e);
    snprintf(title, sizeof title, "Architectures for %s", e->opts.job.data);
    svg_page(&to, title);
    svg_print(&to, "<h1>");
    svg_escaped(&to, title);
    svg_print(&to, "</h1>\n<table>\n");
    snprintf(text, sizeof text, "%s, %" PRId64 " trainings of %s samples, seed %" PRId64,
             e->opts.search, e->opts.trainings, cli_digits((uint64_t)e->opts.samples).text,
             e->opts.job.seed);
    line_of(&to, "search", text);
    if (e->has_best) {
        snprintf(text, sizeof text, "candidate %" PRIu64 ", accuracy %.2f %% +- %.2f",
                 e->best.id, 100.0 * e->best.accuracy, 100.0 * e->best.error);
        line_of(&to, "best (validation)", text);
    }
    tested(&to, "test accuracy of the best", &e->test);
    tested(&to, "trained again from scratch", &e->retrained);
    snprintf(text, sizeof text, "%s of %s bytes", cli_digits(e->peak_bytes).text,
             cli_digits(e->opts.job.budget_bytes).text);
    line_of(&to, "memory, at most", text);
    snprintf(text, sizeof text, "%s, not as predicted: %s", cli_digits(total.compared).text,
             cli_digits(total.differ).text);
    line_of(&to, "candidates measured", text);
    snprintf(text, sizeof text, "%s priced, %s did not fit",
             cli_digits(e->progress.mutants).text, cli_digits(e->progress.refused).text);
    line_of(&to, "genomes", text);
    svg_print(&to, "</table>\n");
    draw(e, &to);
    candidates(e, &to);
    sw_status status = genome(e, &to);
    svg_print(&to, "</body>\n</html>\n");
    if (status == SW_OK)
        status = to.status;
    if (status == SW_OK)
        status = svg_save(&to, evolve_path(e, "report.html"));
    svg_free(&to);
    return status;
}
