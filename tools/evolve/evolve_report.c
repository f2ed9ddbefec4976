/* DIR/report.html: one file without a script. Pictures over generations, the last generation,
 * the best net as text. */
#include "runtime/population/evolve/evolution.h"
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Two panels over generations: fitness, and predicted bytes with the budget as a line. */

enum { WIDTH = 1000, LEFT = 96, PLOT_W = 876, TOP = 34, HEIGHT = 220, GAP = 84, FOOT = 62 };

typedef struct {
    const evolve *e;
    svg *to;
    svg_plot at;
} panel;

/* A number of a row, which is lost where its line is: a double, or bytes. */
typedef struct {
    size_t at; /* in the row */
    bool bytes;
    const char *class, *text;
} curve;
#define REAL(member) offsetof(evolve_row, member), false
#define BYTES(member) offsetof(evolve_row, member), true
static const curve fitness_curves[] = {{REAL(best), "p-best", "best fitness"},
                                       {REAL(mean), "p-mean", "mean fitness"},
                                       {REAL(accuracy), "p-acc", "accuracy of the best"}},
                   byte_curves[] = {
                       {BYTES(best_bytes), "p-best", "of the best"},
                       {BYTES(largest_bytes), "p-acc", "the largest"},
                       {BYTES(population_bytes), "p-mean", "the population, so far"}};
enum { CURVES = 3 };

/* In MiB where it is bytes. */
static double value_of(const curve *c, const evolve_row *row)
{
    const char *at = (const char *)row + c->at;
    if (evolve_row_lost(row))
        return (double)NAN;
    return c->bytes ? (double)*(const uint64_t *)(const void *)at / 1048576.0
                    : *(const double *)(const void *)at;
}

static void point(const panel *p, const char *before, double x, double y)
{
    const long long a = svg_at(&p->at.x, x) / 10, b = svg_at(&p->at.y, y) / 10;
    svg_print(p->to, "%s%lld.%lld %lld.%lld", before, a / 10, a % 10, b / 10, b % 10);
}

/* It breaks where there is no value; a line of one point is a dot. */
static void line(const panel *p, const curve *c)
{
    bool down = false;
    svg_print(p->to, "<path class=\"p %s\" d=\"", c->class);
    for (size_t i = 0; i < p->e->n_rows; i++) {
        const evolve_row *row = &p->e->rows[i];
        const double y = value_of(c, row);
        if (!isfinite(y)) {
            down = false;
            continue;
        }
        if (!down)
            point(p, "M", (double)row->generation, y);
        point(p, "L", (double)row->generation, y);
        down = true;
    }
    svg_print(p->to, "\"><title>%s</title></path>\n", c->text);
}

/* Curves over generations between `low` and `high` at least, with their names; a `limit` in
 * MiB across, where it has a name. */
static void draw_panel(panel *p, const char *title, const curve *curves, double low,
                       double high, double limit, const char *name)
{
    const int left = p->at.left, y = p->at.top + HEIGHT + 38;
    for (size_t i = 0; i < p->e->n_rows; i++)
        for (int k = 0; k < CURVES; k++)
            svg_widen(&low, &high, value_of(&curves[k], &p->e->rows[i]));
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
    for (int k = CURVES - 1; k >= 0; k--)
        line(p, &curves[k]);
    for (int k = 0, x = left; k < CURVES; k++, x += 190) {
        svg_print(p->to, "<path class=\"p %s\" d=\"M%d %dh22\"/>\n", curves[k].class, x, y - 4);
        svg_open_text(p->to, "text", 100LL * (x + 28), 100LL * y);
        svg_print(p->to, "%s</text>\n", curves[k].text);
    }
}

/* Fitness, and bytes with the budget, over generations. */
static void evolve_plot_draw(const evolve *e, svg *to)
{
    const size_t last = e->n_rows > 0 ? (size_t)e->rows[e->n_rows - 1].generation : 1;
    panel p = {e,
               to,
               {LEFT,
                TOP,
                PLOT_W,
                HEIGHT,
                svg_axis_of(0.0, last > 0 ? (double)last : 1.0, false, LEFT, PLOT_W),
                {0}}};
    const bool own = e->opts.candidate_bytes > 0;
    const double mib =
        (double)(own ? e->opts.candidate_bytes : e->opts.job.budget_bytes) / 1048576.0;
    p.at.x.whole = true;
    svg_open(to, WIDTH, TOP + 2 * HEIGHT + GAP + FOOT, false);
    svg_style(to,
              ".p{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}\n"
              ".p-best{stroke:#d6311f}.p-mean{stroke:#3d85c6}.p-acc{stroke:#4aa564}"
              ".p-limit{stroke:#6d757e;stroke-dasharray:7 4}\n",
              ".p-best{stroke:#ff6a57}");
    draw_panel(&p, "fitness and accuracy, over generations", fitness_curves, (double)INFINITY,
               -(double)INFINITY, 0.0, NULL);
    p.at.top += HEIGHT + GAP;
    draw_panel(&p, "bytes, MiB: predicted peaks of members' training steps, and all together",
               byte_curves, 0.0, mib * 1.08, mib,
               own ? "limit of a member" : "budget of the population");
    svg_print(to, "</svg>\n");
}

/* ---- evolve report ----------------------------------------------------------------------- */

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
    for (size_t i = 0; i < e->n_members; i++) {
        svg_print(to, "<tr%s><td>%" PRIu64 "</td><td>%" PRIu64 "</td>",
                  e->has_best && e->members[i].id == e->best.id ? " class=\"first\"" : "",
                  e->members[i].id, e->members[i].born);
        if (e->members[i].parents[0] == 0)
            svg_print(to, "<td>none</td>");
        else if (e->members[i].parents[1] == 0)
            svg_print(to, "<td>%" PRIu64 "</td>", e->members[i].parents[0]);
        else
            svg_print(to, "<td>%" PRIu64 ", %" PRIu64 "</td>", e->members[i].parents[0],
                      e->members[i].parents[1]);
        svg_cell_real(to, &fitness, e->members[i].fitness);
        if (e->n_objectives > 1)
            svg_print(to, "<td>%" PRIu64 "</td>", e->members[i].rank);
        if (isfinite(e->members[i].accuracy))
            svg_print(to, "<td>%.2f %%</td>", 100.0 * e->members[i].accuracy);
        else
            svg_print(to, "<td>none</td>");
        svg_cell_real(to, &loss, e->members[i].loss);
        svg_print(to, "<td>%" PRIu64 "</td><td>%s</td>", e->members[i].vertices,
                  cli_digits(e->members[i].parameters).text);
        svg_print(to, "<td>%s</td>", cli_digits(e->members[i].predicted_bytes).text);
        svg_print(to, "<td>%s</td>",
                  e->members[i].measured_bytes > 0
                      ? cli_digits(e->members[i].measured_bytes).text
                      : "not run");
        svg_print(to, "<td>%s</td>", cli_digits(e->members[i].operations).text);
        svg_cell(to, e->members[i].invalid ? e->members[i].why : "");
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
    char title[EVOLVE_PATH + 40];
    snprintf(title, sizeof title, "Architectures for %s", e->opts.job.data);
    svg_page(&to, title);
    svg_print(&to, "<h1>");
    svg_escaped(&to, title);
    svg_print(&to, "</h1>\n");
    const evolve_row total = evolve_total(e);
    char text[200];
    svg_print(&to, "<table>\n");
    snprintf(text, sizeof text, "%zu of %" PRId64 " members, seed %" PRId64, e->n_rows,
             e->opts.population, e->opts.job.seed);
    line_of(&to, "generations", text);
    if (e->has_best) {
        snprintf(text, sizeof text, "member %" PRIu64 ", fitness %.5g, accuracy %.2f %%",
                 e->best.id, e->best.fitness, 100.0 * e->best.accuracy);
        line_of(&to, "best (validation)", text);
    }
    tested(&to, "test accuracy of the best", &e->test);
    tested(&to, "trained again from scratch", &e->retrained);
    snprintf(text, sizeof text, "%s of %s bytes", cli_digits(total.population_bytes).text,
             cli_digits(e->opts.job.budget_bytes).text);
    line_of(&to, "memory, at most", text);
    snprintf(text, sizeof text, "%s, not as predicted: %s", cli_digits(total.compared).text,
             cli_digits(total.differ).text);
    line_of(&to, "members measured", text);
    snprintf(text, sizeof text, "%s priced, %s did not fit", cli_digits(total.mutants).text,
             cli_digits(total.refused).text);
    line_of(&to, "mutants", text);
    svg_print(&to, "</table>\n");
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

/* Lines of the folder that are read again: generations.jsonl, which is written here, and
 * history.jsonl, which is the library's. */

/* ---- whole files ------------------------------------------------------------------------- */

/* Called with each whole line; half a line of a process that was killed is no line. A line that
 * cannot be read is passed over: SW_FORMAT leaves everything as it was. */
typedef sw_status take_line(evolve *e, sw_json_in *in, uint64_t generation);

static sw_status each_line(evolve *e, const char *text, size_t n, const char *path,
                           take_line *take, uint64_t generation)
{
    for (size_t at = 0, line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (end == NULL)
            break;
        sw_json_in in = sw_json_in_text(text + at, (size_t)(end - text) - at, path);
        in.line = line;
        const sw_status status = take(e, &in, generation);
        if (status != SW_OK && status != SW_FORMAT)
            return status;
        if (status == SW_FORMAT)
            cli_note("a damaged line is passed over: %s", sw_last_error());
        at = (size_t)(end - text) + 1;
    }
    return SW_OK;
}

/* A file that is not there has no lines. */
static sw_status read_lines(evolve *e, const char *path, take_line *take, uint64_t generation)
{
    char *text;
    size_t n;
    if (!sw_file_there(path))
        return SW_OK;
    SW_TRY(swi_text_load(&text, &n, path, "a file of lines", SIZE_MAX / 2));
    const sw_status status = each_line(e, text, n, path, take, generation);
    sw_text_free(text, n);
    return status;
}

/* ---- generations.jsonl ------------------------------------------------------------------- */

static const swi_datum row_fields[] = {
    SWI_DATUM(generation, WHOLE, evolve_row, generation),
    SWI_DATUM(best, REAL, evolve_row, best),
    SWI_DATUM(mean, REAL, evolve_row, mean),
    SWI_DATUM(accuracy, REAL, evolve_row, accuracy),
    SWI_DATUM(mean_accuracy, REAL, evolve_row, mean_accuracy),
    SWI_DATUM(best_id, WHOLE, evolve_row, best_id),
    SWI_DATUM(parameters, WHOLE, evolve_row, parameters),
    SWI_DATUM(best_bytes, WHOLE, evolve_row, best_bytes),
    SWI_DATUM(largest_bytes, WHOLE, evolve_row, largest_bytes),
    SWI_DATUM(population_bytes, WHOLE, evolve_row, population_bytes),
    SWI_DATUM(mutants, WHOLE, evolve_row, mutants),
    SWI_DATUM(refused, WHOLE, evolve_row, refused),
    SWI_DATUM(invalid, WHOLE, evolve_row, invalid),
    SWI_DATUM(compared, WHOLE, evolve_row, compared),
    SWI_DATUM(differ, WHOLE, evolve_row, differ),
    SWI_DATUM(steps, WHOLE, evolve_row, steps),
    SWI_DATUM(ns, WHOLE, evolve_row, ns)};
enum { ROW_FIELDS = sizeof row_fields / sizeof *row_fields };

void evolve_row_put(sw_json *json, const evolve_row *row)
{
    swi_data_put(json, row_fields, ROW_FIELDS, row);
}

static sw_status keep_row(evolve *e, const evolve_row *row)
{
    if (e->n_rows == e->cap_rows) {
        const size_t more = e->cap_rows > 0 ? 2 * e->cap_rows : 64;
        SW_TRY(sw_heap_resize(&e->rows, SW_HEAP_RECORDS, e->cap_rows * sizeof *e->rows,
                              more * sizeof *e->rows));
        e->cap_rows = more;
    }
    e->rows[e->n_rows++] = *row;
    return SW_OK;
}

static sw_status write_row(sw_file *file, const evolve_row *row)
{
    char text[640];
    sw_json json;
    sw_json_fixed(&json, text, sizeof text, NULL, NULL);
    sw_json_begin(&json, '{');
    evolve_row_put(&json, row);
    sw_json_end(&json);
    sw_json_line(&json);
    SW_TRY(json.status);
    return sw_file_write(file, text, json.used);
}

sw_status evolve_row_add(evolve *e, const evolve_row *row)
{
    sw_file *file;
    uint64_t bytes;
    SW_TRY(keep_row(e, row));
    SW_TRY(sw_file_open(&file, evolve_path(e, "generations.jsonl"), SW_FILE_KEEP));
    sw_status status = sw_file_size(file, &bytes);
    if (status == SW_OK)
        status = sw_file_seek(file, bytes);
    if (status == SW_OK)
        status = write_row(file, row);
    const sw_status closed = sw_file_close(file);
    return status == SW_OK ? closed : status;
}

static sw_status write_rows(void *context, sw_file *file)
{
    const evolve *e = context;
    for (size_t i = 0; i < e->n_rows; i++)
        SW_TRY(write_row(file, &e->rows[i]));
    return SW_OK;
}

/* Of it only its generation is known: numbers are null in its line. */
static evolve_row lost_row(uint64_t generation)
{
    evolve_row row;
    memset(&row, 0xff, sizeof row); /* UINT64_MAX, and NaN */
    row.generation = generation;
    return row;
}

/* The last line of a generation is the one that counts. */
static sw_status take_row(evolve *e, sw_json_in *in, uint64_t generation)
{
    evolve_row row = lost_row(generation);
    swi_data_in all = {.fields = row_fields, .n = ROW_FIELDS, .to = &row};
    SW_TRY(sw_json_get_object(in, swi_datum_get, &all));
    if (all.seen < ROW_FIELDS)
        return sw_json_bad(in, "a field is missing");
    if (row.generation < generation)
        e->rows[row.generation] = row;
    return SW_OK;
}

sw_status evolve_rows_read(evolve *e, uint64_t generation)
{
    const char *path = evolve_path(e, "generations.jsonl");
    size_t n = 0;
    for (evolve_row row = lost_row(0); row.generation < generation; row.generation++)
        SW_TRY(keep_row(e, &row));
    SW_TRY(read_lines(e, path, take_row, generation));
    for (size_t i = 0; i < e->n_rows; i++)
        n += evolve_row_lost(&e->rows[i]);
    if (n > 0)
        cli_note("%s: %zu of %zu lines are lost", path, n, e->n_rows);
    return e->n_rows > 0 || sw_file_there(path) ? sw_file_replace(path, write_rows, e) : SW_OK;
}

evolve_row evolve_total(const evolve *e)
{
    evolve_row total = {.steps = 0};
    for (size_t i = 0; i < e->n_rows; i++) {
        const evolve_row *r = &e->rows[i];
        if (evolve_row_lost(r))
            continue;
        total.compared += r->compared;
        total.differ += r->differ;
        total.ns += r->ns;
        total.mutants = r->mutants > total.mutants ? r->mutants : total.mutants;
        total.refused = r->refused > total.refused ? r->refused : total.refused;
        total.steps = r->steps > total.steps ? r->steps : total.steps;
        if (r->population_bytes > total.population_bytes)
            total.population_bytes = r->population_bytes;
    }
    return total;
}

/* ---- history.jsonl ----------------------------------------------------------------------- */

typedef struct {
    evolve_member member;
    uint64_t generation;
} history_line;

static const swi_datum line_fields[] = {
    SWI_DATUM(generation, WHOLE, history_line, generation),
    SWI_DATUM(id, WHOLE, history_line, member.id),
    SWI_DATA(parents, WHOLE, history_line, member.parents),
    SWI_DATUM(vertices, WHOLE, history_line, member.vertices),
    SWI_DATUM(parameters, WHOLE, history_line, member.parameters),
    SWI_DATUM(operations, WHOLE, history_line, member.operations),
    SWI_DATUM(peak_bytes, WHOLE, history_line, member.predicted_bytes),
    SWI_DATUM(measured_bytes, WHOLE, history_line, member.measured_bytes),
    SWI_DATUM(steps, WHOLE, history_line, member.steps),
    SWI_DATUM(rank, WHOLE, history_line, member.rank),
    SWI_DATUM(ns_per_sample, WHOLE, history_line, member.ns_per_sample),
    SWI_DATUM(loss, REAL, history_line, member.loss),
    SWI_DATUM(accuracy, REAL, history_line, member.accuracy),
    SWI_DATUM(train_accuracy, REAL, history_line, member.train_accuracy),
    SWI_DATUM(fitness, REAL, history_line, member.fitness)};
static const swi_datum born_field = SWI_DATUM(generation, WHOLE, evolve_member, born);

static sw_status take_other(sw_json_in *in, const char *key, void *member)
{
    evolve_member *m = member;
    int c;
    if (strcmp(key, "born") == 0)
        return sw_json_get_object(in, swi_datum_get,
                                  &(swi_data_in){.fields = &born_field, .n = 1, .to = m});
    SW_TRY(sw_json_peek(in, &c));
    if (strcmp(key, "why") != 0 || c != '"')
        return sw_json_skip(in);
    m->invalid = true;
    return sw_json_get_text(in, m->why, sizeof m->why);
}

static sw_status take_member(evolve *e, sw_json_in *in, uint64_t generation)
{
    history_line l = {.member = SW_INIT(.fitness = (double)NAN, .accuracy = (double)NAN,
                                        .loss = (double)NAN, .train_accuracy = (double)NAN)};
    SW_TRY(sw_json_get_object(in, swi_datum_get,
                              &(swi_data_in){.fields = line_fields,
                                             .n = sizeof line_fields / sizeof *line_fields,
                                             .to = &l,
                                             .other = take_other,
                                             .context = &l.member}));
    if (l.generation == generation && e->n_members < (size_t)e->opts.population)
        e->members[e->n_members++] = l.member;
    return SW_OK;
}

sw_status evolve_members_read(evolve *e, uint64_t generation)
{
    e->n_members = 0;
    return read_lines(e, evolve_path(e, "history.jsonl"), take_member, generation);
}
