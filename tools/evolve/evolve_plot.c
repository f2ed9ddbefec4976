/* Two panels over generations: fitness, and predicted bytes with the budget as a line. */
#include "tools/evolve/evolve.h"
#include <math.h>

enum { WIDTH = 1000, LEFT = 96, PLOT_W = 876, TOP = 34, HEIGHT = 220, GAP = 84, FOOT = 62 };

typedef struct {
    const evolve *e;
    svg *to;
    svg_axis x, y;
    int top;
} panel;

/* A number of a row; NAN: none. */
typedef double row_value(const evolve_row *row);

static double best_of(const evolve_row *r)
{
    return r->best;
}
static double mean_of(const evolve_row *r)
{
    return r->mean;
}
static double accuracy_of(const evolve_row *r)
{
    return r->accuracy;
}
static double mib(const evolve_row *r, uint64_t bytes)
{
    return evolve_row_lost(r) ? (double)NAN : (double)bytes / 1048576.0;
}

static double best_mib(const evolve_row *r)
{
    return mib(r, r->best_bytes);
}

static double largest_mib(const evolve_row *r)
{
    return mib(r, r->largest_bytes);
}

static double population_mib(const evolve_row *r)
{
    return mib(r, r->population_bytes);
}

typedef struct {
    row_value *value;
    const char *class, *text;
} curve;
static const curve fitness_curves[] = {{best_of, "p-best", "best fitness"},
                                       {mean_of, "p-mean", "mean fitness"},
                                       {accuracy_of, "p-acc", "accuracy of the best"}},
                   byte_curves[] = {{best_mib, "p-best", "of the best"},
                                    {largest_mib, "p-acc", "the largest"},
                                    {population_mib, "p-mean", "the population, so far"}};

static void style(svg *to)
{
    svg_print(to, "<style>\n"
                  ".paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
                  ".mark{text-anchor:middle}\n"
                  ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}"
                  ".p{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}\n");
    svg_print(to, ".p-best{stroke:#d6311f}.p-mean{stroke:#3d85c6}.p-acc{stroke:#4aa564}"
                  ".p-limit{stroke:#6d757e;stroke-dasharray:7 4}\n"
                  "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
                  ".text,.axis,.mark{fill:#e4e8ec}.p-best{stroke:#ff6a57}}\n</style>\n");
}

static void widen(double *low, double *high, double x)
{
    if (isfinite(x)) {
        *low = x < *low ? x : *low;
        *high = x > *high ? x : *high;
    }
}

/* Of all values, and of `and`, which may be NAN. */
static svg_axis axis_of(const panel *p, const curve *curves, int n, double low, double high)
{
    for (size_t i = 0; i < p->e->n_rows; i++)
        for (int k = 0; k < n; k++)
            widen(&low, &high, curves[k].value(&p->e->rows[i]));
    if (low > high)
        low = high = 0.0;
    return svg_axis_of(low, high, false, p->top + HEIGHT - 6, 12 - HEIGHT);
}

static void frame(const panel *p, const char *name)
{
    svg_tick tick[SVG_TICKS];
    const long long bottom = 100LL * (p->top + HEIGHT);
    svg_open_text(p->to, "text", 100 * LEFT, 100 * (p->top - 10));
    svg_escaped(p->to, name);
    svg_print(p->to, "</text>\n");
    int n = svg_ticks(&p->x, 10, tick);
    for (int i = 0; i < n; i++) {
        const long long x = svg_at(&p->x, tick[i].value);
        svg_grid_line(p->to, x, 100LL * p->top, x, bottom);
        svg_open_text(p->to, "mark", x, bottom + 1700);
        svg_print(p->to, "%s</text>\n", tick[i].text);
    }
    n = svg_ticks(&p->y, 6, tick);
    for (int i = 0; i < n; i++) {
        const long long y = svg_at(&p->y, tick[i].value);
        svg_grid_line(p->to, 100 * LEFT, y, 100 * (LEFT + PLOT_W), y);
        svg_open_text(p->to, "axis", 100 * (LEFT - 8), y + 400);
        svg_print(p->to, "%s</text>\n", tick[i].text);
    }
}

static void point(const panel *p, const char *before, double x, double y)
{
    const long long a = svg_at(&p->x, x) / 10, b = svg_at(&p->y, y) / 10;
    svg_print(p->to, "%s%lld.%lld %lld.%lld", before, a / 10, a % 10, b / 10, b % 10);
}

/* It breaks where there is no value; a line of one point is a dot. */
static void line(const panel *p, const curve *c)
{
    bool down = false;
    svg_print(p->to, "<path class=\"p %s\" d=\"", c->class);
    for (size_t i = 0; i < p->e->n_rows; i++) {
        const evolve_row *row = &p->e->rows[i];
        const double y = c->value(row);
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

static void legend(const panel *p, const curve *curves, int n)
{
    const int y = p->top + HEIGHT + 38;
    int x = LEFT;
    for (int k = 0; k < n; k++, x += 190) {
        svg_print(p->to, "<path class=\"p %s\" d=\"M%d %dh22\"/>\n", curves[k].class, x, y - 4);
        svg_open_text(p->to, "text", 100LL * (x + 28), 100LL * y);
        svg_print(p->to, "%s</text>\n", curves[k].text);
    }
}

/* A limit across the panel, by its name. */
static void limit(const panel *p, double mib, const char *name)
{
    const long long y = svg_at(&p->y, mib) / 10;
    svg_print(p->to, "<path class=\"p p-limit\" d=\"M%d %lld.%lldh%d\"/>\n", LEFT, y / 10,
              y % 10, PLOT_W);
    svg_open_text(p->to, "axis", 100 * (LEFT + PLOT_W - 6), 10 * y - 500);
    svg_print(p->to, "%s, %.4g MiB</text>\n", name, mib);
}

void evolve_plot_draw(const evolve *e, svg *to)
{
    panel p = {.e = e, .to = to, .top = TOP};
    const size_t last = e->n_rows > 0 ? (size_t)e->rows[e->n_rows - 1].generation : 1;
    const bool own = e->opts.candidate_bytes > 0;
    const double mib =
        (double)(own ? e->opts.candidate_bytes : e->opts.job.budget_bytes) / 1048576.0;
    svg_open(to, WIDTH, TOP + 2 * HEIGHT + GAP + FOOT, false);
    style(to);
    svg_paper(to);
    p.x = svg_axis_of(0.0, last > 0 ? (double)last : 1.0, false, LEFT, PLOT_W);
    p.x.whole = true;
    p.y = axis_of(&p, fitness_curves, 3, (double)INFINITY, -(double)INFINITY);
    frame(&p, "fitness and accuracy, over generations");
    for (int k = 2; k >= 0; k--)
        line(&p, &fitness_curves[k]);
    legend(&p, fitness_curves, 3);
    p.top += HEIGHT + GAP;
    p.y = axis_of(&p, byte_curves, 3, 0.0, mib * 1.08);
    frame(&p, "bytes, MiB: predicted peaks of members' training steps, and all together");
    limit(&p, mib, own ? "limit of a member" : "budget of the population");
    for (int k = 2; k >= 0; k--)
        line(&p, &byte_curves[k]);
    legend(&p, byte_curves, 3);
    svg_print(to, "</svg>\n");
}
