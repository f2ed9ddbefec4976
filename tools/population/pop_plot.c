/* --plot: scores of all members over steps, and below them a panel for each explored value. A
 * line is a member's; it breaks where there is no score, and begins anew at the donor's place
 * where it copied one, which may be some steps back. The same run gives the same bytes. */
#include "tools/population/pop_plot.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 1000,
    LEFT = 80,
    PLOT_W = 890,
    TOP = 92,
    SCORE_H = 300,
    HYPER_H = 120,
    GAP = 52, /* between panels: ticks of the upper one, the name of the lower one */
    INSET = 6,
    FOOT = 70
};

static const char *const palette[POP_COLOURS] = {"#3d85c6", "#e08a2b", "#4aa564", "#c65cae",
                                                 "#8f77d1", "#b8972a", "#2fa3a3", "#d9674f",
                                                 "#7a8f3a", "#5c7fa8", "#b0705f", "#9a6fa0"};

/* ---- frame ------------------------------------------------------------------------------- */

static void style(svg *to)
{
    svg_print(to, "<style>\n"
                  ".paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
                  ".mark{text-anchor:middle}.big{fill:#1b1f24;font-size:17px}\n"
                  ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}"
                  ".m{fill:none;stroke-width:1.2;stroke-linecap:round;stroke-linejoin:round}\n"
                  ".shade{stroke:#5b87b5;stroke-width:0.7;stroke-opacity:0.35}"
                  ".best{stroke:#d6311f;stroke-width:2.6}\n");
    svg_print(to, ".jump{fill:none;stroke:#1b1f24;stroke-width:4;stroke-linecap:round}"
                  ".jump.small{stroke-width:2}"
                  ".leap{fill:none;stroke:#6d757e;stroke-width:0.8;stroke-dasharray:2 2}\n");
    for (int i = 0; i < POP_COLOURS; i++)
        svg_print(to, ".c%d{stroke:%s}%s", i, palette[i], i + 1 == POP_COLOURS ? "\n" : "");
    svg_print(to, "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
                  ".text,.axis,.mark,.big{fill:#e4e8ec}.jump{stroke:#e4e8ec}"
                  ".best{stroke:#ff6a57}}\n</style>\n");
}

static void head(const pop_plot *d)
{
    const pop *p = d->p;
    style(d->to);
    svg_paper(d->to);
    svg_open_text(d->to, "big", 100 * LEFT, 2600);
    svg_escaped(d->to, p->opts.job.model);
    svg_print(d->to, " on ");
    svg_escaped(d->to, p->opts.job.data);
    svg_print(d->to, ": %d member%s</text>\n", p->n_members, p->n_members == 1 ? "" : "s");
    svg_open_text(d->to, "text", 100 * LEFT, 4800);
    svg_print(d->to, "%" PRIu64 " turn%s, %" PRIu64 " exploit%s", p->turn,
              p->turn == 1 ? "" : "s", p->exploits, p->exploits == 1 ? "" : "s");
    if (d->best >= 0)
        svg_print(d->to, "; best: member %d, %s %.5g%s%s", d->best, pop_metric_name(p),
                  p->members[d->best].score.score, p->tested ? ", " : "",
                  pop_test_text(p).text);
    svg_print(d->to, "</text>\n");
}

static void across(const pop_plot *d, long long y)
{
    svg_grid_line(d->to, 100 * LEFT, y, 100 * (LEFT + PLOT_W), y);
}

/* Names of choices stand on their levels; of many every k-th. */
static void levels(const pop_plot *d)
{
    const int apart = (d->is.n_choices - 1) / 8 + 1;
    for (int i = 0; i < d->is.n_choices; i += apart) {
        across(d, svg_at(&d->y, i));
        svg_open_text(d->to, "axis", 100 * (LEFT - 8), svg_at(&d->y, i) + 400);
        if (d->is.labels != NULL)
            svg_escaped(d->to, d->is.labels[i]);
        else
            svg_print(d->to, "%.6g", d->is.choices[i]);
        svg_print(d->to, "</text>\n");
    }
}

static void frame(const pop_plot *d)
{
    svg_tick tick[SVG_TICKS];
    const long long bottom = 100 * (d->top + d->height);
    int n = svg_ticks(&d->x, 10, tick);
    for (int i = 0; i < n; i++) {
        const long long x = svg_at(&d->x, tick[i].value);
        svg_grid_line(d->to, x, 100LL * d->top, x, bottom);
        svg_open_text(d->to, "mark", x, bottom + 1700);
        svg_print(d->to, "%s</text>\n", tick[i].text);
    }
    across(d, 100LL * d->top);
    across(d, bottom);
    if (d->hyper >= 0 && d->is.kind == SW_CHOICE) {
        levels(d);
        return;
    }
    n = svg_ticks(&d->y, d->hyper < 0 ? 8 : 4, tick);
    for (int i = 0; i < n; i++) {
        across(d, svg_at(&d->y, tick[i].value));
        svg_open_text(d->to, "axis", 100 * (LEFT - 8), svg_at(&d->y, tick[i].value) + 400);
        svg_print(d->to, "%s</text>\n", tick[i].text);
    }
}

static void name_panel(const pop_plot *d)
{
    svg_open_text(d->to, "text", 100 * LEFT, 100 * (d->top - 9));
    if (d->hyper < 0)
        svg_print(d->to, "%s%s, over steps", pop_metric_name(d->p),
                  d->y.log ? " (logarithmic)" : "");
    else {
        svg_escaped(d->to, d->p->hyper[d->hyper].name);
        svg_print(d->to, "%s", d->y.log ? " (logarithmic)" : "");
    }
    svg_print(d->to, "</text>\n");
}

/* ---- panels ------------------------------------------------------------------------------ */

static void widen(double *low, double *high, double value)
{
    if (isfinite(value)) {
        *low = value < *low ? value : *low;
        *high = value > *high ? value : *high;
    }
}

static void score_axes(pop_plot *d)
{
    double low = HUGE_VAL, high = -HUGE_VAL, first = 0.0, last = 0.0;
    for (int k = 0; k < d->p->n_members; k++)
        for (uint32_t i = 0; i < d->p->history[k].n; i++) {
            const double *row = pop_history_row(d->p, k, i);
            widen(&low, &high, row[POP_ROW_SCORE]);
            widen(&first, &last, row[POP_ROW_STEP]);
            if (row[POP_ROW_DONOR] >= 0.0)
                widen(&low, &high, row[POP_ROW_DONOR_SCORE]);
        }
    if (low > high)
        low = high = 0.0;
    d->x = svg_axis_of(0.0, last > 0.0 ? last : 1.0, false, LEFT, PLOT_W);
    d->x.whole = true;
    d->y = svg_axis_of(low, high, d->p->by_loss && low > 0.0 && high / low > 20.0,
                       d->top + d->height - INSET, 2 * INSET - d->height);
}

static void hyper_axis(pop_plot *d)
{
    const bool choice = d->is.kind == SW_CHOICE;
    const double low = choice ? 0.0 : d->is.low;
    const double high = choice ? d->is.n_choices - 1 : d->is.high;
    d->y = svg_axis_of(low, high, d->is.kind == SW_LOG_UNIFORM, d->top + d->height - INSET,
                       2 * INSET - d->height);
    d->y.whole = d->is.kind == SW_INTEGER;
}

static void panel(pop_plot *d)
{
    name_panel(d);
    frame(d);
    pop_plot_lines(d);
}

static void legend(const pop_plot *d, int y)
{
    const pop *p = d->p;
    int x = LEFT;
    const char *class = p->n_members > POP_SHADES ? "shade" : "c0";
    const bool each = p->n_members <= POP_COLOURS;
    for (int k = 0; k < (each ? p->n_members : 1); k++) {
        char its[16];
        snprintf(its, sizeof its, "c%d", k);
        svg_print(d->to, "<path class=\"m %s\" d=\"M%d %dh16\"/>\n",
                  each && k == d->best ? "best"
                  : each               ? its
                                       : class,
                  x, y - 4);
        svg_open_text(d->to, "text", 100LL * (x + 21), 100LL * y);
        if (each)
            svg_print(d->to, "%d</text>\n", k);
        else
            svg_print(d->to, "a line for each of %d members</text>\n", p->n_members);
        x += each ? 52 : 250;
    }
    svg_print(d->to, "<path class=\"m best\" d=\"M%d %dh16\"/>\n", LEFT, y + 18);
    svg_open_text(d->to, "text", 100LL * (LEFT + 21), 100LL * (y + 22));
    svg_print(d->to, "the best member at the end</text>\n");
    svg_print(d->to, "<path class=\"jump\" d=\"M%d %dh0\"/>\n", LEFT + 258, y + 18);
    svg_open_text(d->to, "text", 100LL * (LEFT + 271), 100LL * (y + 22));
    svg_print(
        d->to,
        "a member copied a donor: the donor's score and step, its own new values</text>\n");
}

void pop_plot_draw(const pop *p, svg *to, bool alone)
{
    pop_plot d = {.p = p, .to = to, .hyper = -1, .best = pop_best(p), .top = TOP};
    d.height = SCORE_H;
    svg_open(to, WIDTH, TOP + SCORE_H + p->n_hypers * (GAP + HYPER_H) + FOOT, alone);
    head(&d);
    score_axes(&d);
    panel(&d);
    for (d.hyper = 0; d.hyper < p->n_hypers; d.hyper++) {
        d.top += d.height + GAP;
        d.height = HYPER_H;
        d.is = SW_OPTS(sw_hyper);
        if (sw_space_at(p->space, d.hyper, &d.is) != SW_OK)
            continue;
        hyper_axis(&d);
        panel(&d);
    }
    legend(&d, d.top + d.height + 44);
    svg_print(to, "</svg>\n");
}

sw_status pop_plot_save(pop *p)
{
    const char *path = p->opts.plot;
    svg to = {.status = SW_OK};
    if (path == NULL || p->history == NULL)
        return SW_OK;
    if (cli_ends_with(path, ".svg"))
        pop_plot_draw(p, &to, true);
    else
        pop_page_draw(p, &to);
    sw_status status = to.status;
    if (status == SW_OK)
        status = svg_save(&to, path);
    svg_free(&to);
    return status;
}
