/* The results of a sweep of --find-lr: as text, as JSON, as a picture. */
#include "tools/cli/svg.h"
#include "tools/train/train_find.h"
#include <inttypes.h>
#include <math.h>

#define ROWS 12 /* of the table */

void train_find_put(sw_json *json, const train_find *f)
{
    const train_found r = train_find_result(f);
    sw_json_open(json, "find_lr", '{');
    sw_json_put_f64(json, "from", f->from);
    sw_json_put_f64(json, "to", f->to);
    sw_json_put_u64(json, "steps", f->n);
    sw_json_put_bool(json, "stopped_early", f->over);
    sw_json_put_f64(json, "suggested", r.steepest);
    sw_json_put_f64(json, "steepest", r.steepest);
    sw_json_put_f64(json, "tenth_of_lowest", r.tenth);
    sw_json_put_f64(json, "lowest_rate", r.lowest_rate);
    sw_json_put_f64(json, "lowest_loss", r.lowest_loss);
    sw_json_open(json, "points", '[');
    for (uint64_t i = 0; i < f->n; i++) {
        sw_json_begin(json, '{');
        sw_json_put_f64(json, "rate", f->at[i].rate);
        sw_json_put_f64(json, "loss", f->at[i].loss);
        sw_json_put_f64(json, "smoothed", f->at[i].smoothed);
        sw_json_end(json);
    }
    sw_json_end(json);
    sw_json_end(json);
}

void train_find_print(const train_find *f)
{
    const train_found r = train_find_result(f);
    printf("\n%12s %12s %12s\n", "rate", "loss", "smoothed");
    for (uint64_t i = 0; i < f->n; i++)
        if (i * ROWS / f->n != (i + 1) * ROWS / f->n) /* the last of each part */
            printf("%12.3g %12.4f %12.4f\n", f->at[i].rate, f->at[i].loss, f->at[i].smoothed);
    if (f->over)
        printf("ended after %" PRIu64 " of %" PRIu64 " steps: the loss went up\n", f->n,
               f->steps);
    if (isnan(r.steepest)) {
        puts("\nno rate is suggested: the loss never fell; see --lr-from, --lr-to and --steps");
        return;
    }
    printf("\nrate    --lr %.2g, where the smoothed loss falls fastest\n", r.steepest);
    printf("        %.2g is a tenth of the rate with the lowest loss (%.4f at %.2g)\n", r.tenth,
           r.lowest_loss, r.lowest_rate);
}

/* ---- the picture ------------------------------------------------------------------------- */

enum { WIDTH = 800, HEIGHT = 420, LEFT = 80, TOP = 70, PLOT_W = 690, PLOT_H = 290 };

static void style(svg *s)
{
    svg_print(s,
              "<style>\n.paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
              ".mark{text-anchor:middle}\n"
              ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}\n"
              ".loss{fill:none;stroke:#9aa3ad;stroke-width:1}"
              ".smooth{fill:none;stroke:#3d85c6;stroke-width:2.2}\n"
              ".here{stroke:#d6311f;stroke-width:1.4}\n");
    svg_print(s, "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
                 ".text,.axis,.mark{fill:#e4e8ec}.here{stroke:#ff6a57}}\n</style>\n");
}

static void ticks(svg *s, const svg_axis *x, const svg_axis *y)
{
    svg_tick tick[SVG_TICKS];
    const long long bottom = 100LL * (TOP + PLOT_H), right = 100LL * (LEFT + PLOT_W);
    int n = svg_ticks(x, 8, tick);
    for (int i = 0; i < n; i++) {
        const long long at = svg_at(x, tick[i].value);
        svg_grid_line(s, at, 100LL * TOP, at, bottom);
        svg_open_text(s, "mark", at, bottom + 1700);
        svg_print(s, "%s</text>\n", tick[i].text);
    }
    n = svg_ticks(y, 6, tick);
    for (int i = 0; i < n; i++) {
        const long long at = svg_at(y, tick[i].value);
        svg_grid_line(s, 100LL * LEFT, at, right, at);
        svg_open_text(s, "axis", 100LL * (LEFT - 8), at + 400);
        svg_print(s, "%s</text>\n", tick[i].text);
    }
}

static void line(svg *s, const train_find *f, const svg_axis *x, const svg_axis *y,
                 const char *class, bool smoothed)
{
    svg_print(s, "<polyline class=\"%s\" points=\"", class);
    for (uint64_t i = 0; i < f->n; i++) {
        const long long a = svg_at(x, f->at[i].rate);
        const long long b = svg_at(y, smoothed ? f->at[i].smoothed : f->at[i].loss);
        svg_print(s, "%s%lld.%02lld,%lld.%02lld", i > 0 ? " " : "", a / 100, a % 100, b / 100,
                  b % 100);
    }
    svg_print(s, "\"/>\n");
}

static void draw(svg *s, const train_find *f, const char *title)
{
    const train_found r = train_find_result(f);
    double low = f->n > 0 ? f->at[0].smoothed : 0.0, high = low;
    for (uint64_t i = 0; i < f->n; i++) { /* single losses may leave the picture */
        low = f->at[i].smoothed < low ? f->at[i].smoothed : low;
        high = f->at[i].smoothed > high ? f->at[i].smoothed : high;
    }
    const svg_axis x = svg_axis_of(f->from, f->to, true, LEFT, PLOT_W);
    const svg_axis y = svg_axis_of(low, high, false, TOP + PLOT_H, -PLOT_H);
    svg_open(s, WIDTH, HEIGHT, true);
    style(s);
    svg_paper(s);
    svg_open_text(s, "text", 100LL * LEFT, 2600);
    svg_escaped(s, title);
    svg_print(s, ": loss over learning rates</text>\n");
    svg_open_text(s, "text", 100LL * LEFT, 4800);
    if (isnan(r.steepest))
        svg_print(s, "the loss never fell</text>\n");
    else
        svg_print(s,
                  "%.2g is suggested, where the smoothed loss falls fastest; lowest at %.2g"
                  "</text>\n",
                  r.steepest, r.lowest_rate);
    ticks(s, &x, &y);
    line(s, f, &x, &y, "loss", false);
    line(s, f, &x, &y, "smooth", true);
    if (!isnan(r.steepest)) {
        const long long at = svg_at(&x, r.steepest);
        svg_print(s, "<path class=\"here\" d=\"M%lld.%02lld %dV%d\"/>\n", at / 100, at % 100,
                  TOP, TOP + PLOT_H);
    }
    svg_print(s, "</svg>\n");
}

sw_status train_find_plot(const train_find *f, const char *path, const char *title)
{
    svg s = {.bytes = NULL};
    draw(&s, f, title);
    const sw_status status = svg_save(&s, path);
    svg_free(&s);
    return status;
}
