/* The picture, the line and the JSON object of a moment. The picture has 20 lines of at most 80
 * columns. */
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "profiler/inspect/report/bars.h"
#include "profiler/inspect/report/print.h"
#include "tools/top/screen.h"
#include "tools/top/top.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define N SW_PROF_PHASES
#define BAR 34 /* columns, and one for the mark */

/* A line that is put together piece by piece. */
typedef struct {
    char text[1024];
    size_t n;
} piece;

static void add(piece *p, const char *format, ...) SW_PRINTF(2, 3);
static void add(piece *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(p->text + p->n, sizeof p->text - p->n, format, args);
    va_end(args);
    const size_t capacity = sizeof p->text - p->n - 1;
    p->n += n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity;
}

static void draw(piece *p)
{
    screen_line(p->text);
    *p = (piece){.n = 0};
}

static const char *colour(const char *code)
{
    return cli_colour(stdout) ? code : "";
}

static const char *const condition_name[] = {"empty", "running", "waiting", "ended", "died"};

/* Where the run is. */
static void add_condition(piece *p, const top *t)
{
    static const char *const codes[] = {"\033[33m", "\033[32m", "\033[33m", "\033[1m",
                                        "\033[31m"};
    const uint64_t idle = (cli_clock_ns() - t->fresh) / 1000000000u;
    const char *plain = colour("\033[0m");
    add(p, "%s", colour(codes[t->condition]));
    if (t->condition == TOP_EMPTY)
        add(p, "no step yet%s", plain);
    else if (t->condition == TOP_RUNS)
        add(p, "running%s", plain);
    else if (t->condition == TOP_WAITS)
        add(p, "no record for %s s%s", cli_digits(idle).text, plain);
    else if (t->condition == TOP_ENDED)
        add(p, "%s%s%s%s", t->report->status, plain, *t->report->error != '\0' ? ": " : "",
            t->report->error);
    else
        add(p, "died%s (its profile has no end, and no process writes it)", plain);
}

static void add_step(piece *p, const top *t)
{
    const top_state *s = &t->state;
    if (!s->any)
        return;
    add(p, "step %s", cli_digits(s->last.step).text);
    if (s->planned_steps > 0)
        add(p, " of %s (%.0f %%)", cli_digits(s->planned_steps).text,
            floor(100.0 * (double)s->last.step / (double)s->planned_steps));
    if (s->last.has_loss)
        add(p, ", loss %.4g", s->last.loss);
}

static void add_pace(piece *p, const top_pace *pace)
{
    if (pace->steps == 0)
        return;
    if (pace->rate > 0.0)
        add(p, "%.*f steps/s, ", pace->rate < 100.0 ? 2 : 0, pace->rate);
    add(p, "median step %s", cli_ns(pace->time.median).text);
}

/* ---- the picture ------------------------------------------------------------------------- */

static void draw_head(const top *t, const top_pace *pace)
{
    const report *r = t->report;
    piece p = {.n = 0};
    if (r == NULL || !t->joined)
        add(&p, "nothing is written yet");
    else {
        add(&p, "%s%s%s on %s", colour("\033[1m"), r->model, colour("\033[0m"), r->device);
        if (r->timeline->batch >= 0)
            add(&p, ", batch %" PRId64, r->timeline->batch);
        if (r->data[0] != '\0')
            add(&p, ", data %s", r->data);
    }
    draw(&p);
    add_step(&p, t);
    add(&p, "%s", t->state.any ? ": " : "");
    add_condition(&p, t);
    draw(&p);
    add_pace(&p, pace);
    if (pace->steps > 0)
        add(&p, ", slowest %s of %s in %s", cli_ns(pace->time.max).text,
            cli_digits(pace->steps).text, cli_ns(pace->ns).text);
    draw(&p);
}

/* Columns of `bytes` where `full` takes BAR; what is not nothing takes one. */
static int columns(uint64_t bytes, uint64_t full)
{
    if (bytes == 0 || full == 0)
        return 0;
    const int n = (int)(((double)bytes / (double)full) * BAR + 0.5);
    return n < 1 ? 1 : n > BAR ? BAR : n;
}

/* Full, shaded, the mark of what was predicted. */
static const char *brick(int which)
{
    static const char *const blocks[] = {"\u2588", "\u2592", "\u2502"};
    static const char *const ascii[] = {"#", "-", "|"};
    return cli_utf8() ? blocks[which] : ascii[which];
}

static void add_bar(piece *p, const sw_prof_phase *phase, uint64_t mark, bool marked,
                    uint64_t full)
{
    const int end = columns(phase->end_bytes, full), peak = columns(phase->peak_bytes, full);
    const int line = marked ? columns(mark, full) : -1;
    for (int i = 0; i <= BAR; i++)
        add(p, "%s", i == line ? brick(2) : i < end ? brick(0) : i < peak ? brick(1) : " ");
}

static bool counted(const top_state *s)
{
    return s->shown && strcmp(s->by, "plan") != 0;
}

static void add_verdict(piece *p, const top_state *s, int phase)
{
    const sw_prof_phase *seen = &s->seen[phase], *plan = &s->plan[phase];
    const bool peak = seen->peak_bytes != plan->peak_bytes;
    const uint64_t is = peak ? seen->peak_bytes : seen->end_bytes,
                   was = peak ? plan->peak_bytes : plan->end_bytes;
    if (!s->planned)
        add(p, "  no plan");
    else if (!counted(s))
        add(p, "  unmeasured");
    else if (is == was)
        add(p, "  as planned");
    else
        add(p, "%s %c%s%s", colour("\033[31m"), is > was ? '+' : '-',
            cli_bytes(is > was ? is - was : was - is).text, colour("\033[0m"));
}

static void draw_phases(const top_state *s)
{
    uint64_t full = 0;
    piece p = {.n = 0};
    for (int i = 0; i < N; i++) {
        const uint64_t plan = s->planned ? s->plan[i].peak_bytes : 0,
                       seen = s->seen[i].peak_bytes;
        full = plan > full ? plan : full;
        full = seen > full ? seen : full;
    }
    add(&p, "live     %s at its end  %s at its peak", brick(0), brick(1));
    add(&p, "  %s %-*s", brick(2), BAR - 30, "planned");
    add(&p, "%12s%12s", "peak", "end");
    draw(&p);
    for (int i = 0; i < N; i++) {
        const sw_prof_phase *seen = &s->seen[i];
        add(&p, "%-9s", sw_prof_phase_name(i));
        add_bar(&p, seen, s->plan[i].peak_bytes, s->planned && s->plan[i].peak_bytes > 0, full);
        add(&p, "%12s%12s", cli_bytes(seen->peak_bytes).text, cli_bytes(seen->end_bytes).text);
        add_verdict(&p, s, i);
        draw(&p);
    }
}

/* Of warm runs; there may be none, as in immediate mode. */
static bool any_warm(const top *t)
{
    return t->state.warm || (t->report != NULL && t->report->warm_runs > 0);
}

static uint64_t allocations(const top *t)
{
    return t->state.allocations + (t->report != NULL ? t->report->allocations : 0);
}

static void draw_totals(const top *t)
{
    const top_state *s = &t->state;
    piece p = {.n = 0};
    add(&p, "model %s   arena %s", cli_bytes(s->model).text, cli_bytes(s->arena).text);
    if (s->has_plan)
        add(&p, "   data %s   total %s", cli_bytes(s->data).text, cli_bytes(s->total).text);
    draw(&p);
    if (s->has_plan && s->budget > 0) {
        add(&p, "budget %s, of which %.0f %% are taken", cli_bytes(s->budget).text,
            100.0 * (double)s->total / (double)s->budget);
        draw(&p);
    }
    if (s->process > 0)
        add(&p, "process %s resident   ", cli_bytes(s->process).text);
    const uint64_t calls = allocations(t);
    add(&p, "host heap %s", cli_bytes(s->host).text);
    if (any_warm(t))
        add(&p, "   %s%s allocation%s after warm-up%s", calls > 0 ? colour("\033[31m") : "",
            cli_digits(calls).text, calls == 1 ? "" : "s", calls > 0 ? colour("\033[0m") : "");
    draw(&p);
}

/* A value that is not finite is drawn as the highest of all. */
static void add_spark(piece *p, const top_series *s)
{
    uint64_t scaled[TOP_POINTS];
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < s->n; i++)
        if (isfinite(s->at[i])) {
            low = fmin(low, s->at[i]);
            high = fmax(high, s->at[i]);
        }
    for (size_t i = 0; i < s->n; i++) {
        const double share = high > low ? (s->at[i] - low) / (high - low) : 0.5;
        scaled[i] = isfinite(s->at[i]) ? (uint64_t)(share * 1000.0) : 1000;
    }
    add(p, "%s", bars_spark(scaled, s->n, 0, 1000, !cli_utf8()).text);
}

static void draw_series(const top_state *s)
{
    piece p = {.n = 0};
    if (s->loss.n > 0) {
        add(&p, "%-11s", "loss");
        add_spark(&p, &s->loss);
        add(&p, "  %.4g to %.4g", s->loss.at[0], s->loss.at[s->loss.n - 1]);
        draw(&p);
    }
    if (s->time.n > 0) {
        add(&p, "%-11s", "step time");
        add_spark(&p, &s->time);
        add(&p, "  %s", cli_ns((uint64_t)s->time.at[s->time.n - 1]).text);
        draw(&p);
    }
    add(&p, "%-11s", "peak");
    add_spark(&p, &s->high);
    add(&p, "  %s", cli_bytes((size_t)s->high.at[s->high.n - 1]).text);
    draw(&p);
}

void top_draw(top *t, bool keys)
{
    const top_pace pace = top_measure(t);
    piece p = {.n = 0};
    screen_begin();
    draw_head(t, &pace);
    if (t->state.shown) {
        add(&p, "%s%s", t->state.has_plan ? "highest so far: " : "", t->state.program.text);
        draw(&p);
        draw_phases(&t->state);
        draw(&p);
        draw_totals(t);
        draw(&p);
        draw_series(&t->state);
    }
    draw(&p);
    char name[256];
    sw_utf8_clean(name, sizeof name, t->source.shown);
    add(&p, "%s, %s%s", name, cli_bytes((size_t)t->size).text, keys ? "; q ends this" : "");
    draw(&p);
    screen_end();
}

/* ---- the line ---------------------------------------------------------------------------- */

void top_print_line(top *t)
{
    const top_state *s = &t->state;
    const top_pace pace = top_measure(t);
    piece p = {.n = 0};
    add_step(&p, t);
    add(&p, "%s", s->any ? ", " : "");
    add_pace(&p, &pace);
    add(&p, "%s", pace.steps > 0 ? ", " : "");
    if (s->shown)
        add(&p, "peak %s%s%s, ", cli_bytes(s->peak).text, s->has_plan ? " in " : "",
            s->program.text);
    if (s->process > 0)
        add(&p, "process %s, ", cli_bytes(s->process).text);
    add_condition(&p, t);
    puts(p.text);
    cli_flush();
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_phases(sw_json *j, const char *key, const sw_prof_phase *phase, bool known)
{
    report_put_phases(j, key, known ? phase : NULL);
}

static void put_head(sw_json *j, const top *t)
{
    const report *r = t->joined ? t->report : NULL;
    sw_json_put_string(j, "file", t->source.shown);
    sw_json_put_known(j, "process", t->source.pid > 0, (uint64_t)t->source.pid);
    sw_json_put_string(j, "model", r != NULL ? r->model : NULL);
    sw_json_put_string(j, "device", r != NULL ? r->device : NULL);
    sw_json_put_string(j, "data", r != NULL ? r->data : NULL);
    report_put_batch(j, r != NULL ? r->timeline->batch : -1);
    sw_json_put_string(j, "condition", condition_name[t->condition]);
    sw_json_put_string(j, "status", t->condition == TOP_ENDED ? r->status : NULL);
    sw_json_put_u64(j, "idle_ns", cli_clock_ns() - t->fresh);
}

static void put_pace(sw_json *j, const top_pace *pace)
{
    sw_json_put_known_f64(j, "steps_per_second", pace->rate > 0.0, pace->rate);
    sw_json_put_known(j, "median_step_ns", pace->steps > 0, pace->time.median);
    sw_json_put_known(j, "max_step_ns", pace->steps > 0, pace->time.max);
    sw_json_put_u64(j, "window_steps", pace->steps);
    sw_json_put_u64(j, "window_ns", pace->ns);
}

sw_status top_print_json(top *t)
{
    const top_state *s = &t->state;
    const top_pace pace = top_measure(t);
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    put_head(&j, t);
    sw_json_put_known(&j, "step", s->any, s->last.step);
    sw_json_put_known(&j, "planned_steps", s->planned_steps > 0, s->planned_steps);
    sw_json_put_known_f64(&j, "loss", s->last.has_loss, s->last.loss);
    put_pace(&j, &pace);
    sw_json_put_string(&j, "program", s->has_plan ? s->program.text : NULL);
    put_phases(&j, "predicted", s->plan, s->planned);
    put_phases(&j, "measured", s->seen, counted(s));
    sw_json_put_string(&j, "measured_by", s->shown ? s->by : NULL);
    sw_json_put_known(&j, "predicted_peak_bytes", s->planned, s->plan_peak);
    sw_json_put_known(&j, "measured_peak_bytes", counted(s), s->peak);
    sw_json_put_known(&j, "model_bytes", s->shown, s->model);
    sw_json_put_known(&j, "arena_bytes", s->shown, s->arena);
    sw_json_put_known(&j, "data_bytes", s->has_plan, s->data);
    sw_json_put_known(&j, "total_bytes", s->has_plan, s->total);
    sw_json_put_known(&j, "budget_bytes", s->budget > 0, s->budget);
    sw_json_put_known(&j, "process_bytes", s->process > 0, s->process);
    sw_json_put_known(&j, "host_bytes", s->shown, s->host);
    sw_json_put_known(&j, "allocations_after_warmup", any_warm(t), allocations(t));
    sw_json_end(&j);
    sw_json_line(&j);
    const sw_status status = j.status;
    if (status == SW_OK)
        (void)fwrite(j.bytes, 1, j.used, stdout); /* the stream keeps an error */
    sw_json_free(&j);
    cli_flush();
    return status;
}
