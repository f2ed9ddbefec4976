/* stepwell plan --svg: the plan as a picture.
 *
 * Time goes to the right, one column per op and a last one for what is read out after them;
 * addresses of the step arena go upward. Each storage is one rectangle, from the op that first
 * writes it to the last that touches it; one that takes another's place lies on top of it. The
 * file needs no other file and no script, follows the viewer's light or dark setting, and is
 * the same for the same plan. */
#include "alloc/base/mem.h"
#include "tools/cli/svg.h"
#include "tools/plan/plan.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 1200, HEIGHT = 712, LEFT = 96, TOP = 96, PLOT_W = 1080, PLOT_H = 530 };

static const struct {
    const char *role, *colour;
} palette[] = {{"input", "#9fb0c3"},    {"activation", "#79b4ea"}, {"saved", "#f0b64a"},
               {"gradient", "#e8837a"}, {"temporary", "#b7a3e0"},  {"workspace", "#84cc96"},
               {"metric", "#d3d05f"},   {"output", "#dc9cc8"},     {"other", "#b4b4b4"}};
#define N_ROLES ((int)(sizeof palette / sizeof *palette))

typedef struct {
    svg to;
    size_t arena_bytes;
    uint32_t n_ops;
    bool *covered; /* by id: another storage takes the place, and would cut a name in two */
    bool seen[N_ROLES];
    sw_phase phase; /* of the band that is open */
    uint32_t phase_from;
    int n_bands;
} drawing;

/* ---- places: hundredths of a pixel ------------------------------------------------------- */

static long long x_of(const drawing *d, uint64_t position)
{
    return 100 * LEFT + (long long)(100.0 * PLOT_W * (double)position / (d->n_ops + 1.0));
}

static long long y_of(const drawing *d, size_t address)
{
    return 100 * (TOP + PLOT_H) -
           (long long)(100.0 * PLOT_H * (double)address / (double)d->arena_bytes);
}

/* ---- frame ------------------------------------------------------------------------------- */

/* Addresses on the left: quarters of the arena. */
static void addresses(drawing *d)
{
    for (int i = 0; i <= 4; i++) {
        const size_t at = d->arena_bytes / 4 * (size_t)i + d->arena_bytes % 4 * (size_t)i / 4;
        svg_grid_line(&d->to, 100 * LEFT, y_of(d, at), 100 * (LEFT + PLOT_W), y_of(d, at));
        svg_open_text(&d->to, "axis", 100 * (LEFT - 6), y_of(d, at) + 400);
        svg_print(&d->to, "%s</text>\n", cli_bytes(at).text);
    }
}

static void legend(drawing *d)
{
    long long x = 100 * LEFT;
    const long long y = 100 * (HEIGHT - 20);
    for (int i = 0; i < N_ROLES; i++) {
        if (!d->seen[i])
            continue;
        svg_print(&d->to, "<rect class=\"%s\" width=\"14\" height=\"14\"", palette[i].role);
        svg_length(&d->to, "x", x);
        svg_length(&d->to, "y", y - 1200);
        svg_print(&d->to, "/>\n");
        svg_open_text(&d->to, "text", x + 2000, y);
        svg_print(&d->to, "%s</text>\n", palette[i].role);
        x += 100 * (40 + 8 * (long long)strlen(palette[i].role));
    }
}

/* ---- phases ------------------------------------------------------------------------------ */

/* From phase_from to `to` the ops are of one phase: a line where it begins, its name above. The
 * names of neighbours stand at two heights, so that those of short phases do not overlap. */
static void close_band(drawing *d, uint32_t to)
{
    if (to == d->phase_from)
        return;
    const long long x = x_of(d, d->phase_from), end = x_of(d, to);
    svg_grid_line(&d->to, x, 100 * (TOP - 24), x, 100 * (TOP + PLOT_H));
    svg_open_text(&d->to, "mark", (x + end) / 2,
                  100 * (TOP - (d->n_bands++ % 2 == 0 ? 6 : 20)));
    svg_print(&d->to, "%s</text>\n", sw_phase_name(d->phase));
}

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    drawing *d = to;
    (void)name;
    if (position > 0 && phase == d->phase)
        return;
    close_band(d, position);
    d->phase = phase;
    d->phase_from = position;
}

/* ---- storages ---------------------------------------------------------------------------- */

static int role_index(const char *role)
{
    int i = 0;
    while (i + 1 < N_ROLES && strcmp(palette[i].role, role) != 0)
        i++;
    return i;
}

static void see_cover(void *to, const sw_plan_storage *s)
{
    drawing *d = to;
    if (s->alias != UINT32_MAX)
        d->covered[s->alias] = true;
}

/* Hundredths of a pixel that a name takes at most in 11 px of a wide sans-serif (DejaVu Sans,
 * Verdana), as far as characters differ. */
static long long name_width(const char *name)
{
    long long width = 0;
    for (; *name != '\0'; name++)
        width += strchr("mwMW@%", *name) != NULL             ? 1120
                 : strchr(".,:;'|!ijl[]()/ ", *name) != NULL ? 440
                                                             : 780;
    return width;
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    drawing *d = to;
    if (s->input)
        return;
    const long long x = x_of(d, s->birth), w = x_of(d, s->death + 1ull) - x;
    const long long y = y_of(d, s->offset + s->bytes + s->padding), h = y_of(d, s->offset) - y;
    const int role = role_index(s->role);
    d->seen[role] = true;
    svg_print(&d->to, "<rect class=\"s %s%s\"", palette[role].role, h < 250 ? " thin" : "");
    svg_length(&d->to, "x", x);
    svg_length(&d->to, "y", y);
    svg_length(&d->to, "width", w);
    svg_length(&d->to, "height", h);
    svg_print(&d->to, ">");
    svg_print(&d->to, "<title>");
    svg_escaped(&d->to, s->name);
    svg_print(&d->to, "&#10;%s, %s bytes (%s of them padding) at offset %s&#10;", s->role,
              cli_digits(s->bytes + s->padding).text, cli_digits(s->padding).text,
              cli_digits(s->offset).text);
    svg_print(&d->to, "born at op %u", s->birth);
    if (s->op != NULL) {
        svg_print(&d->to, " (");
        svg_escaped(&d->to, s->op);
        svg_print(&d->to, ")");
    }
    if (s->death >= d->n_ops)
        svg_print(&d->to, ", read out at the end");
    else
        svg_print(&d->to, ", dies at op %u", s->death);
    svg_print(&d->to, "%s</title>",
              s->alias != UINT32_MAX ? "; takes the place of its input" : "");
    svg_print(&d->to, "</rect>\n");
    if (!d->covered[s->id] && h >= 1300 && w >= name_width(s->name) + 800) {
        svg_open_text(&d->to, "name", x + 400, y + h / 2 + 400);
        svg_escaped(&d->to, s->name);
        svg_print(&d->to, "</text>\n");
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status draw(drawing *d, job *j)
{
    const job_which which = (job_which)(job_main(j) - j->program);
    const sw_run_args args = job_args(j, which, j->program[which].inputs, 0);
    const sw_plan_visitor covers = SW_OPTS(sw_plan_visitor, .to = d, .storage = see_cover);
    const sw_plan_visitor all =
        SW_OPTS(sw_plan_visitor, .to = d, .op = see_op, .storage = see_storage);
    SW_TRY(sw_plan_visit(j->exec, &args, &covers));
    const sw_plan_info *p = &job_main(j)->plan;
    svg_open(&d->to, WIDTH, HEIGHT, true);
    svg_print(&d->to, "<style>\n"
                      ".paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
                      ".mark{text-anchor:middle}.big{fill:#1b1f24;font-size:17px}\n"
                      ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}"
                      ".name{fill:#14181c;font-size:11px;pointer-events:none}\n"
                      "rect.s{stroke:#23282e;stroke-width:0.7}rect.thin{stroke-width:0.2}"
                      "rect.s:hover{stroke-width:2.5}\n");
    for (int i = 0; i < N_ROLES; i++)
        svg_print(&d->to, ".%s{fill:%s}%s", palette[i].role, palette[i].colour,
                  i + 1 == N_ROLES ? "\n" : "");
    svg_print(&d->to, "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
                      ".text,.axis,.mark,.big{fill:#e4e8ec}}\n</style>\n");
    svg_paper(&d->to);
    svg_open_text(&d->to, "big", 100 * LEFT, 2600);
    svg_print(&d->to, "%s, batch %lld, %s: one training step</text>\n", j->opts->model,
              (long long)job_main(j)->batch, j->opts->optimizer);
    svg_open_text(&d->to, "text", 100 * LEFT, 4800);
    svg_print(&d->to, "step arena %s, lower bound %s bytes, %u ops; peak at ",
              result_both(p->arena_bytes).text, cli_digits(p->lower_bound_bytes).text,
              p->n_ops);
    svg_escaped(&d->to, p->peak_op);
    svg_print(&d->to, "</text>\n");
    addresses(d);
    SW_TRY(sw_plan_visit(j->exec, &args, &all));
    close_band(d, d->n_ops);
    /* Positions below: at most sixteen, and the place after the last op. */
    const uint32_t apart = d->n_ops / 16 + 1;
    const long long y = 100 * (TOP + PLOT_H + 18);
    for (uint32_t i = 0; i + apart / 2 < d->n_ops; i += apart) {
        svg_open_text(&d->to, "mark", (x_of(d, i) + x_of(d, i + 1)) / 2, y);
        svg_print(&d->to, "%u</text>\n", i);
    }
    svg_open_text(&d->to, "mark", (x_of(d, d->n_ops) + x_of(d, d->n_ops + 1ull)) / 2, y);
    svg_print(&d->to, "end</text>\n");
    svg_open_text(&d->to, "text", 100 * LEFT, y + 2000);
    svg_print(&d->to,
              "op, in the order of the step; upward: address in the step arena</text>\n");
    legend(d);
    svg_print(&d->to, "</svg>\n");
    return d->to.status;
}

static sw_status draw_plan(drawing *d, job *j)
{
    const sw_plan_info *p = &job_main(j)->plan;
    const size_t bytes = p->n_storages * sizeof *d->covered;
    d->arena_bytes = p->arena_bytes;
    d->n_ops = p->n_ops;
    SW_TRY(sw_heap_alloc(&d->covered, SW_HEAP_FILES, bytes));
    const sw_status status = draw(d, j);
    sw_heap_free(d->covered, SW_HEAP_FILES, bytes);
    return status;
}

int plan_svg_write(job *j, const char *path)
{
    drawing d = {.n_bands = 0};
    sw_status status = draw_plan(&d, j);
    if (status == SW_OK)
        status = svg_save(&d.to, path);
    svg_free(&d.to);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

/* ---- the curve --------------------------------------------------------------------------- */

static void draw_curve(svg *to, const plan_trade *t)
{
    enum { SIDE = 440 };
    double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < t->n_curve; i++) {
        svg_widen(&low[0], &high[0], (double)t->curve[i].value);
        svg_widen(&low[1], &high[1], t->curve[i].ns / 1e6);
    }
    const svg_plot plot = {LEFT,
                           TOP,
                           PLOT_W,
                           SIDE,
                           svg_axis_of(low[0], high[0], true, LEFT, PLOT_W),
                           svg_axis_of(low[1], high[1], false, TOP + SIDE - 6, 12 - SIDE)};
    svg_open(to, WIDTH, TOP + SIDE + 60, true);
    svg_style(to,
              ".big{fill:#1b1f24;font-size:17px}.line{fill:none;stroke:#79b4ea;stroke-width:2}"
              ".dot{fill:#79b4ea}.dot:hover{fill:#e8837a}",
              ".big{fill:#e4e8ec}");
    svg_open_text(to, "big", 100 * LEFT, 2600);
    svg_escaped(to, t->from->opts->model);
    svg_print(to, ": %s within %s</text>\n", plan_over_words[t->over],
              result_both(t->fit_bytes).text);
    svg_open_text(to, "text", 100 * LEFT, 4800);
    svg_print(to, "predicted milliseconds of %s, of one thread, upward</text>\n",
              t->over == PLAN_CONTEXT ? "an id" : "a sample");
    svg_grid_down(to, &plot, 10);
    svg_grid_across(to, &plot, 6);
    svg_print(to, "<path class=\"line\" d=\"");
    for (int i = 0; i < t->n_curve; i++)
        svg_print(to, "%s%.2f %.2f", i == 0 ? "M" : "L",
                  (double)svg_at(&plot.x, (double)t->curve[i].value) / 100.0,
                  (double)svg_at(&plot.y, t->curve[i].ns / 1e6) / 100.0);
    svg_print(to, "\"/>\n");
    for (int i = 0; i < t->n_curve; i++) {
        const plan_point *p = &t->curve[i];
        svg_print(to, "<circle class=\"dot\" r=\"4\"");
        svg_length(to, "cx", svg_at(&plot.x, (double)p->value));
        svg_length(to, "cy", svg_at(&plot.y, p->ns / 1e6));
        svg_print(to, "><title>%s %s: %s bytes, %.2f %% more time</title></circle>\n",
                  plan_over_words[t->over], cli_digits((uint64_t)p->value).text,
                  cli_digits(p->total_bytes).text, p->more);
    }
    svg_print(to, "</svg>\n");
}

int plan_svg_curve(const plan_trade *t, const char *path)
{
    svg to = {.status = SW_OK};
    draw_curve(&to, t);
    const sw_status status = to.status == SW_OK ? svg_save(&to, path) : to.status;
    svg_free(&to);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}
