/* The sweep of --find-lr and what follows from it.
 *
 * Rates rise by one factor from step to step (the range test of L. N. Smith, "Cyclical learning
 * rates for training neural networks", 2017, section 3.3, on a logarithmic scale). The sweep
 * ends where the loss is four times its lowest, and two rates are shown, both as in fastai's
 * finder: where the smoothed loss falls fastest, and a tenth of where it is lowest. Losses are
 * smoothed by the mean of those on both sides: a moving average of those in front, as fastai
 * has it, lags by decades of the rate in a sweep of a hundred steps. */
#include "alloc/base/mem.h"
#include "tools/cli/svg.h"
#include "tools/train/train.h"
#include "tools/train/train_find.h"
#include <inttypes.h>
#include <math.h>

#define REACH 25  /* a smoothed loss has a 25th of the steps on both sides */
#define WORSE 4.0 /* times the lowest: the sweep ends */

int train_find_check(train_opts *o)
{
    if (!o->find_lr)
        return CLI_GO;
    o->lr_from = o->lr_from < 0.0 ? 1e-7 : o->lr_from;
    o->lr_to = o->lr_to < 0.0 ? 10.0 : o->lr_to;
    if (!(o->lr_from > 0.0 && o->lr_from < o->lr_to))
        return cli_error(CLI_USAGE,
                         "--lr-from must be above 0 and below --lr-to (got %g and %g)",
                         o->lr_from, o->lr_to);
    if (o->job.steps > 0 && (o->job.steps < 10 || o->job.steps > TRAIN_FIND_MOST))
        return cli_error(CLI_USAGE, "--steps must be 10 to %d with --find-lr (got %lld)",
                         TRAIN_FIND_MOST, (long long)o->job.steps);
    if (o->plot != NULL && !cli_ends_with(o->plot, ".svg"))
        return cli_error(CLI_USAGE, "--plot must be a file that ends in .svg (got '%s')",
                         o->plot);
    o->job.warmup = o->job.warmup < 0 ? 0 : o->job.warmup;
    o->job.max_skipped = 0; /* rates that are too high are looked for */
    return CLI_GO;
}

sw_status train_find_create(train_find **out, const train_opts *o, uint64_t steps)
{
    void *block, *points;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(train_find)));
    const sw_status status =
        sw_heap_alloc(&points, SW_HEAP_RECORDS, (size_t)steps * sizeof(train_find_point));
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_RECORDS, sizeof(train_find));
        return status;
    }
    *out = block;
    **out =
        (train_find)SW_INIT(.at = points, .steps = steps, .from = o->lr_from, .to = o->lr_to,
                            .reach = steps / REACH > 0 ? steps / REACH : 1, .lowest = HUGE_VAL);
    return SW_OK;
}

void train_find_destroy(train_find *f)
{
    if (f == NULL)
        return;
    sw_heap_free(f->at, SW_HEAP_RECORDS, (size_t)f->steps * sizeof *f->at);
    sw_heap_free(f, SW_HEAP_RECORDS, sizeof *f);
}

double train_find_rate(const train_find *f, uint64_t step)
{
    const double share = (double)step / (double)(f->steps - 1);
    return f->from * pow(f->to / f->from, share);
}

/* Of the losses `first` to `last`, those of them that there are. */
static double mean(const train_find *f, int64_t first, int64_t last)
{
    double sum = 0.0;
    first = first > 0 ? first : 0;
    last = last < (int64_t)f->n ? last : (int64_t)f->n - 1;
    for (int64_t i = first; i <= last; i++)
        sum += f->at[i].loss;
    return sum / (double)(last - first + 1);
}

void train_find_add(train_find *f, double rate, double loss)
{
    const uint64_t window = 2 * f->reach + 1;
    if (f->over || f->n == f->steps)
        return;
    if (!isfinite(loss)) {
        f->over = true;
        return;
    }
    f->at[f->n++] = (train_find_point){rate, loss, loss};
    /* The new loss changes those before it too. */
    const int64_t reach = (int64_t)f->reach, n = (int64_t)f->n;
    for (int64_t i = n - 1 - reach > 0 ? n - 1 - reach : 0; i < n; i++)
        f->at[i].smoothed = mean(f, i - reach, i + reach);
    if (f->n < window)
        return;
    const double latest = mean(f, (int64_t)(f->n - window), (int64_t)f->n - 1);
    f->lowest = latest < f->lowest ? latest : f->lowest;
    f->over = latest > WORSE * f->lowest;
}

/* Twice how much the smoothed loss falls at point i; rates rise by equal steps. */
static double fall_at(const train_find *f, uint64_t i)
{
    return f->at[i - 1].smoothed - f->at[i + 1].smoothed;
}

train_found train_find_result(const train_find *f)
{
    train_found found = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    uint64_t lowest = 0;
    double fall = 0.0;
    for (uint64_t i = 0; i < f->n; i++)
        lowest = f->at[i].smoothed < f->at[lowest].smoothed ? i : lowest;
    if (f->n == 0)
        return found;
    found.lowest_rate = f->at[lowest].rate;
    found.lowest_loss = f->at[lowest].smoothed;
    for (uint64_t i = 1; i < lowest; i++)
        if (fall_at(f, i) > fall) {
            fall = fall_at(f, i);
            found.steepest = f->at[i].rate;
        }
    if (!isnan(found.steepest)) /* else the loss never fell */
        found.tenth = found.lowest_rate / 10.0;
    return found;
}

/* ---- train find print -------------------------------------------------------------------- */

/* The results of a sweep of --find-lr: as text, as JSON, as a picture. */

#define ROWS 12 /* of the table */

void train_find_put(sw_json *json, const train_find *f)
{
    const train_found r = train_find_result(f);
    sw_json_open(json, "find_lr", '{');
    SW_JSON_PUT(json, f, from, to);
    sw_json_put_u64(json, "steps", f->n);
    sw_json_put_bool(json, "stopped_early", f->over);
    sw_json_put_f64(json, "suggested", r.steepest);
    sw_json_put_f64(json, "steepest", r.steepest);
    sw_json_put_f64(json, "tenth_of_lowest", r.tenth);
    SW_JSON_PUT(json, &r, lowest_rate, lowest_loss);
    sw_json_open(json, "points", '[');
    for (uint64_t i = 0; i < f->n; i++) {
        sw_json_begin(json, '{');
        SW_JSON_PUT(json, &f->at[i], rate, loss, smoothed);
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

static void line(svg *s, const train_find *f, const svg_plot *p, const char *class,
                 bool smoothed)
{
    svg_print(s, "<polyline class=\"%s\" points=\"", class);
    for (uint64_t i = 0; i < f->n; i++) {
        const long long a = svg_at(&p->x, f->at[i].rate);
        const long long b = svg_at(&p->y, smoothed ? f->at[i].smoothed : f->at[i].loss);
        svg_print(s, "%s%lld.%02lld,%lld.%02lld", i > 0 ? " " : "", a / 100, a % 100, b / 100,
                  b % 100);
    }
    svg_print(s, "\"/>\n");
}

static void draw(svg *s, const train_find *f, const char *title)
{
    const train_found r = train_find_result(f);
    double low = f->n > 0 ? f->at[0].smoothed : 0.0, high = low;
    for (uint64_t i = 0; i < f->n; i++) /* single losses may leave the picture */
        svg_widen(&low, &high, f->at[i].smoothed);
    const svg_plot p = {LEFT,
                        TOP,
                        PLOT_W,
                        PLOT_H,
                        svg_axis_of(f->from, f->to, true, LEFT, PLOT_W),
                        svg_axis_of(low, high, false, TOP + PLOT_H, -PLOT_H)};
    svg_open(s, WIDTH, HEIGHT, true);
    svg_style(s,
              ".loss{fill:none;stroke:#9aa3ad;stroke-width:1}.smooth{fill:none;stroke:#3d85c6;"
              "stroke-width:2.2}\n"
              ".here{stroke:#d6311f;stroke-width:1.4}\n",
              ".here{stroke:#ff6a57}");
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
    svg_grid_down(s, &p, 8);
    svg_grid_across(s, &p, 6);
    line(s, f, &p, "loss", false);
    line(s, f, &p, "smooth", true);
    if (!isnan(r.steepest)) {
        const long long at = svg_at(&p.x, r.steepest);
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
