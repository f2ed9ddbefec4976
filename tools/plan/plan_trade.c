/* stepwell plan --fit with --overhead, --curve or --over: the largest value of an option whose
 * plan is within a size, and what it costs.
 *
 * Each value is planned as `train --memory-budget SIZE` would plan it: what is found is what a
 * run has. First by plans that run no op again, which are quick; from there up under the
 * budget. The cost need not rise with the value, and a plan's bytes need not either, so the
 * interval that is narrowed says little about values beyond it: those after the answer are
 * planned one by one as far as the effort goes, which is counted in ops, not in time. The next
 * value is excluded where a bound of the planner says so; else the answer is the largest that
 * was found.
 *
 * While values are searched, the program that speaks for the job is planned; the others of a
 * job are smaller, and those of the answer are planned in the end. */
#include "alloc/base/mem.h"
#include "alloc/base/message.h"
#include "tools/job/result.h"
#include "tools/plan/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EFFORT = 5000, /* ops in plans beyond the answer */
    AGAIN = 10,    /* how many plans one takes in which ops run again */
    BEYOND = 64    /* values that are planned after the answer, at most */
};

const char *const plan_over_words[] = {"batch", "context", "layers", "width", "lora", NULL};
static const struct {
    const char *noun;
    tool_setting setting;
} overs[] = {{"batch", TOOL_SETTINGS},
             {"context", TOOL_CONTEXT},
             {"number of layers", TOOL_LAYERS},
             {"width", TOOL_WIDTH},
             {"rank of --lora", TOOL_LORA}};

/* ---- options ----------------------------------------------------------------------------- */

bool plan_trades(const plan_opts *o)
{
    return o->overhead != NULL || o->curve || o->over != PLAN_BATCH;
}

/* "10%", "7.5" */
static int read_overhead(plan_opts *o)
{
    char *end;
    o->most_more = o->curve ? HUGE_VAL : 0.0;
    if (o->overhead == NULL)
        return CLI_GO;
    o->most_more = strtod(o->overhead, &end);
    if (end == o->overhead || (*end != '\0' && strcmp(end, "%") != 0) ||
        !(o->most_more >= 0.0 && o->most_more <= 1000.0) ||
        strspn(o->overhead, "0123456789.%") != strlen(o->overhead))
        return cli_error(CLI_USAGE,
                         "--overhead must be a percentage from 0 to 1000, such as 10%% (got "
                         "'%s')",
                         o->overhead);
    return CLI_GO;
}

int plan_trade_check(plan_opts *o)
{
    const int i = cli_word_at(plan_over_words, o->over_word);
    o->over = (plan_over)i;
    CLI_TRY(read_overhead(o));
    if (o->fit_bytes == 0 || !plan_trades(o))
        return CLI_GO;
    const char *name = o->overhead != NULL ? "--overhead" : o->curve ? "--curve" : "--over";
    const char *beside = o->n_methods > 1 || o->method[0] != JOB_BACKPROP ? "--method"
                         : o->job.immediate                               ? "--immediate"
                         : o->job.exec.no_recompute && o->most_more > 0.0 ? "--no-recompute"
                                                                          : NULL;
    if (beside != NULL)
        return cli_error(CLI_USAGE, "%s and %s exclude each other", name, beside);
    if (i == PLAN_BATCH)
        return CLI_GO;
    const tool_setting which = overs[i].setting;
    const tool_model *model = tool_model_find(o->job.model);
    cli_option option;
    if (!tool_settings_option(model, &o->job.settings, which, &option))
        return cli_error(CLI_USAGE, "--over %s: --model %s has no %s, which %s takes",
                         o->over_word, o->job.model, option.name,
                         tool_settings_takers(which).text);
    if (cli_given(option.name) != NULL)
        return cli_error(CLI_USAGE, "--over %s and %s exclude each other: --fit finds it",
                         o->over_word, option.name);
    if (which == TOOL_LORA && o->job.settings.adapter != NULL)
        return cli_error(CLI_USAGE, "--over lora and --adapter exclude each other: the "
                                    "adapter's folder says the rank");
    if (which == TOOL_LORA)
        *(int64_t *)option.to = 1; /* what goes with it has an effect */
    if (o->job.batch.n > 1)
        return cli_error(CLI_USAGE, "--over %s is of one batch: --batch gives %d numbers",
                         o->over_word, o->job.batch.n);
    return CLI_GO;
}

/* ---- points ------------------------------------------------------------------------------ */

static bool will_do(const plan_trade *t, const plan_point *p)
{
    return p->fits && (t->plain || p->more <= t->most_more);
}

/* The largest that will do, and the smallest above it that was planned; NULL: none. */
static plan_point *best_of(plan_trade *t)
{
    for (int i = t->n; i-- > 0;)
        if (will_do(t, &t->points[i]))
            return &t->points[i];
    return NULL;
}

static plan_point *point_at(plan_trade *t, int64_t value)
{
    for (int i = 0; i < t->n; i++)
        if (t->points[i].value == value)
            return &t->points[i];
    return NULL;
}

static const plan_point *next_of(const plan_trade *t, const plan_point *best)
{
    for (int i = 0; i < t->n; i++)
        if (best == NULL || t->points[i].value > best->value)
            return &t->points[i];
    return NULL;
}

static void put_point(plan_trade *t, const plan_point *p)
{
    int i = t->n;
    while (i > 0 && t->points[i - 1].value >= p->value)
        i--;
    const bool there = i < t->n && t->points[i].value == p->value;
    if (!there && t->n == PLAN_POINTS && i > 0) /* the smallest has said what it has to say */
        memmove(t->points, t->points + 1, (size_t)--i * sizeof *t->points);
    else if (!there && t->n < PLAN_POINTS)
        memmove(t->points + i + 1, t->points + i, (size_t)(t->n++ - i) * sizeof *t->points);
    t->points[i] = *p;
}

/* ---- planning one value ------------------------------------------------------------------ */

static void close_slot(plan_trade *t, int slot)
{
    job_close(&t->job[slot]);
    if (t->own[slot])
        job_unload(&t->job[slot]);
    t->own[slot] = false;
    t->value[slot] = 0;
    t->job[slot] = (job){0};
}

void plan_trade_close(plan_trade *t)
{
    close_slot(t, 0);
    close_slot(t, 1);
}

/* CLI_GO with the job made, or *refused and why in t->why; else an exit status. */
static int make(plan_trade *t, int slot, bool *refused)
{
    job_opts *o = &t->options[slot];
    job *j = &t->job[slot];
    if (t->reload) { /* samples are others */
        int status = CLI_GO;
        (void)cli_keep_errors(true);
        if (o->kind->settle != NULL)
            status = o->kind->settle(&o->settings, strchr(o->model, ':') + 1);
        j->train = j->test = (job_data){0};
        t->own[slot] = true;
        if (status == CLI_GO)
            status = job_load(j, true);
        *refused = status == CLI_USAGE || status == CLI_DAMAGED;
        if (*refused) {
            snprintf(t->why, sizeof t->why, "%s", cli_last_line());
            cli_forget_errors();
        }
        if (!t->quick)
            (void)cli_keep_errors(false);
        if (*refused)
            return CLI_GO;
        CLI_TRY(status);
    }
    const sw_status status = job_make(j);
    *refused = status == SW_INVALID;
    if (*refused)
        snprintf(t->why, sizeof t->why, "%s", sw_last_error());
    return status == SW_OK || *refused ? CLI_GO : cli_library_error(status, false);
}

static int look(plan_trade *t, int64_t units)
{
    const int slot = 1 - t->at;
    const int64_t value = units * t->unit;
    job_opts *o = &t->options[slot];
    job *j = &t->job[slot];
    plan_point p = {.value = value};
    cli_option option;
    close_slot(t, slot);
    *o = *t->from->opts;
    o->budget_bytes = t->fit_bytes;
    if (t->plain)
        o->exec.no_recompute = 1;
    if (t->over == PLAN_BATCH)
        o->batch = (cli_list){{value}, 1};
    else if (tool_settings_option(o->kind, &o->settings, overs[t->over].setting, &option))
        *(int64_t *)option.to = value;
    *j = plan_beside(t->from, o, o->batch.at[0]);
    CLI_TRY(make(t, slot, &p.refused));
    t->planned++;
    if (p.refused) {
        put_point(t, &p);
        return CLI_GO;
    }
    if (j->train.n < j->batch)
        j->train.n = j->batch;
    job_set_batch(j, j->batch);
    const job_program *main = job_main(j);
    const sw_plan_info *plan = &main->plan;
    CLI_LIBRARY(plan_program(j, (job_which)(main - j->program), &p.fits), false);
    p.total_bytes = p.fits ? plan->total_bytes : job_needed_bytes(j, plan);
    p.model_bytes = plan->model_bytes;
    p.data_bytes = plan->data_bytes;
    if (t->plain)
        p.least_bytes = plan->model_bytes + plan->data_bytes + plan->lower_bound_bytes +
                        job_counted_checkpoint_bytes(j);
    p.more = result_more(plan);
    p.least_more = result_least_more(plan);
    p.ns = (double)plan->cost / 16.0 / (double)main->batch /
           (t->over == PLAN_CONTEXT ? (double)value : 1.0);
    t->effort += (uint64_t)plan->n_ops * (plan->method[0] != '\0' || !t->plain ? AGAIN : 1);
    const plan_point *best = best_of(t);
    if (will_do(t, &p) && (best == NULL || value > best->value)) {
        t->at = slot;
        t->value[slot] = value;
    }
    put_point(t, &p);
    return CLI_GO;
}

/* ---- searching --------------------------------------------------------------------------- */

/* Where the line through model (of no samples, so to speak) and point reaches the size. */
static double by_bytes(const plan_trade *t, const plan_point *p, int64_t units)
{
    const size_t least = p->model_bytes;
    return p->total_bytes > least && t->fit_bytes > least
               ? (double)units *
                     ((double)(t->fit_bytes - least) / (double)(p->total_bytes - least))
               : 0.0;
}

/* The value to plan next, between two, low that will do and high that will not; t->most + 1
 * where none is known. */
static int64_t guess(plan_trade *t, const plan_point *best, const plan_point *next, int64_t low,
                     int64_t high)
{
    const bool bounded = isfinite(t->most_more) && !t->plain;
    double x = 0.0;
    if (best == NULL && next == NULL)
        x = t->over == PLAN_CONTEXT ? 16.0 : 1.0; /* some data have no shorter rows */
    else if (next == NULL && t->plain)
        x = by_bytes(t, best, low);
    else if (next == NULL) {
        const plan_point *before = best > t->points ? best - 1 : NULL;
        x = (double)low * (bounded ? 2.0 : 4.0);
        if (bounded && before != NULL && before->fits && before->more < best->more)
            x = (double)best->value + (t->most_more - best->more) *
                                          (double)(best->value - before->value) /
                                          (best->more - before->more);
        x = x /
            (bounded && before != NULL && before->more < best->more ? (double)t->unit : 1.0);
    } else if (!next->fits && !next->refused && !bounded)
        x = by_bytes(t, next, high);
    else if (next->fits && best != NULL && bounded)
        x = (double)low +
            (t->most_more - best->more) * (double)(high - low) / (next->more - best->more);
    /* Every third time the middle, where an end is known: a line may lead to the same side
     * again and again. */
    if (next != NULL && (x <= 0.0 || t->turn++ % 3 == 2))
        x = (double)low + (double)(high - low) / 2.0;
    const double top = (double)(high - 1), bottom = (double)(low + 1);
    return (int64_t)(x < bottom ? bottom : x > top ? top : x);
}

/* Narrow it until the next value is known not to do. */
static int narrow(plan_trade *t)
{
    for (;;) {
        const plan_point *best = best_of(t), *next = next_of(t, best);
        const int64_t low = best != NULL ? best->value / t->unit : 0;
        const int64_t high = next != NULL ? next->value / t->unit : t->most + 1;
        if (high - low <= 1 || (t->quick && (t->effort > 2 * EFFORT || cli_interrupted())))
            return CLI_GO;
        CLI_TRY(look(t, guess(t, best, next, low, high)));
    }
}

/* The values after the best. */
static int look_beyond(plan_trade *t)
{
    t->effort = 0;
    for (int64_t k = 1; k <= BEYOND && t->effort <= EFFORT; k++) {
        const plan_point *best = best_of(t);
        const int64_t units = (best != NULL ? best->value / t->unit : 0) + k;
        const plan_point *there = point_at(t, units * t->unit);
        if (units > t->most || (there != NULL && there->refused))
            return CLI_GO;
        if (there == NULL)
            CLI_TRY(look(t, units));
        best = best_of(t);
        if (best != NULL && best->value == units * t->unit)
            k = 0;
    }
    return CLI_GO;
}

/* The other programs of the job of the best. *done: they fit, too. */
static int finish(plan_trade *t, bool *done)
{
    plan_point *best = best_of(t);
    *done = true;
    if (best == NULL)
        return CLI_GO;
    if (t->value[t->at] != best->value) { /* one before it did not, after all */
        const plan_point p = *best;
        best->fits = false;
        CLI_TRY(look(t, p.value / t->unit));
        best = point_at(t, p.value);
    }
    job *j = &t->job[t->at];
    const job_program *main = job_main(j);
    for (int i = 0; i < JOB_PROGRAMS && *done; i++)
        if (j->program[i].batch > 0 && &j->program[i] != main) {
            CLI_LIBRARY(plan_program(j, (job_which)i, done), false);
            if (!*done)
                best->total_bytes = job_needed_bytes(j, &j->program[i].plan);
        }
    best->fits = *done;
    if (*done)
        best->total_bytes = job_total_bytes(j);
    return CLI_GO;
}

static int search(plan_trade *t)
{
    bool done = false;
    while (!done) {
        CLI_TRY(narrow(t));
        if (!t->quick)
            CLI_TRY(look_beyond(t));
        CLI_TRY(finish(t, &done));
    }
    return CLI_GO;
}

/* From plans that run nothing again to those under the budget: what did not fit may now. */
static void go_on(plan_trade *t, double most_more)
{
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (t->points[i].fits || t->points[i].refused || !t->plain)
            t->points[n++] = t->points[i];
    t->n = n;
    t->plain = false;
    t->most_more = most_more;
}

/* At most PLAN_CURVE values from 1 to the largest that fits, in even steps of their logarithms
 * up to the last where nothing runs again, and from there: those that were planned, as far as
 * they lie well. */
static int draw_up(plan_trade *t, int64_t plain, int64_t last)
{
    int64_t before = 0;
    int below = PLAN_CURVE;
    if (plain < last)
        below = (int)(PLAN_CURVE * log(1.0 + (double)plain) / log(1.0 + (double)last));
    below = below < 2 ? 2 : below;
    for (int i = 0; i < PLAN_CURVE; i++) {
        const bool is_below = i < below;
        const double low = is_below ? 1.0 : (double)plain,
                     high = (double)(is_below ? plain : last);
        const double share =
            is_below ? (double)i / (below - 1) : (double)(i - below + 1) / (PLAN_CURVE - below);
        const double at = low * pow(high / low, share), near = pow(high / low, 0.05);
        int64_t units = (int64_t)(at + 0.5);
        for (int k = 0; k < t->n; k++) {
            const double x = (double)(t->points[k].value / t->unit);
            if (t->points[k].fits && x * near > at && x < at * near)
                units = t->points[k].value / t->unit;
        }
        if (units <= before || units > last)
            continue;
        before = units;
        if (point_at(t, units * t->unit) == NULL)
            CLI_TRY(look(t, units));
        const plan_point *p = point_at(t, units * t->unit);
        if (p != NULL && p->fits)
            t->curve[t->n_curve++] = *p;
    }
    return CLI_GO;
}

/* In three parts, each of which begins with what the one before has planned. */
static int search_all(plan_trade *t, bool curve)
{
    const job_opts *o = t->from->opts;
    const double most_more = t->most_more;
    cli_option option = {.max = JOB_BATCH_MAX};
    t->unit = 1;
    if (t->over != PLAN_BATCH)
        (void)tool_settings_option(o->kind, &t->options[0].settings, overs[t->over].setting,
                                   &option);
    if (t->over == PLAN_WIDTH && o->kind->takes[TOOL_HEADS] != NULL)
        t->unit = o->settings.heads;
    if (t->most == 0)
        t->most = option.max / t->unit;
    t->reload = t->over == PLAN_CONTEXT ||
                (t->over == PLAN_WIDTH && o->kind->synthetic == TOOL_VECTORS);
    t->plain = true;
    if (most_more <= 0.0 && !curve)
        return search(t);
    CLI_TRY(narrow(t));
    const plan_point *best = best_of(t);
    const int64_t plain = best != NULL ? best->value / t->unit : 1;
    if (curve) {
        go_on(t, HUGE_VAL);
        CLI_TRY(search(t));
        best = best_of(t);
        if (best == NULL)
            return CLI_GO;
        CLI_TRY(draw_up(t, plain, best->value / t->unit));
    }
    if (curve && isinf(most_more))
        return CLI_GO;
    go_on(t, most_more);
    return search(t);
}

int plan_trade_find(const plan_opts *o, job *from, plan_trade *t)
{
    const uint64_t start = cli_clock_ns();
    *t = (plan_trade)SW_INIT(.from = from, .over = o->over, .fit_bytes = o->fit_bytes,
                             .most_more = o->most_more);
    if (t->over != PLAN_BATCH)
        cli_no_notes(); /* each value would have its own */
    CLI_TRY(search_all(t, o->curve));
    const plan_point *best = best_of(t), *next = next_of(t, best);
    t->ns = cli_clock_ns() - start;
    if (best != NULL) {
        t->best = *best;
        t->next = next != NULL ? *next : (plan_point){0};
        return CLI_GO;
    }
    if (next->refused)
        return cli_error(CLI_USAGE, "%s", t->why);
    if (next->fits)
        return cli_error(
            CLI_NO_FIT,
            "no %s is within %zu bytes at --overhead %g%%: %lld takes %.2f %% more "
            "time; give more of either",
            overs[t->over].noun, t->fit_bytes, t->most_more, (long long)next->value,
            next->more);
    return cli_error(CLI_NO_FIT,
                     "no %s fits %zu bytes: %lld needs total_bytes %zu (model %zu, data %zu)%s",
                     overs[t->over].noun, t->fit_bytes, (long long)next->value,
                     next->total_bytes, next->model_bytes, next->data_bytes,
                     t->plain ? "; with --overhead ops run again, which takes less" : "");
}

/* ---- telling ----------------------------------------------------------------------------- */

/* Is the next one proved not to do? */
static bool is_excluded(const plan_trade *t)
{
    const plan_point *p = &t->next;
    return p->refused || (t->plain ? p->least_bytes > t->fit_bytes
                                   : p->least_more > t->most_more || isinf(p->least_more));
}

static void put_time(sw_json *json, const plan_trade *t, const plan_point *p)
{
    sw_json_put_i64(json, plan_over_words[t->over], p->value);
    sw_json_put_u64(json, "total_bytes", p->total_bytes);
    if (!p->fits)
        return;
    sw_json_put_f64(json, "more_time_percent", p->more);
    sw_json_put_f64(json, t->over == PLAN_CONTEXT ? "id_ns" : "sample_ns", p->ns);
}

void plan_trade_put(sw_json *json, const plan_trade *t)
{
    char name[40];
    snprintf(name, sizeof name, "largest_%s", plan_over_words[t->over]);
    sw_json_put_u64(json, "fit_bytes", t->fit_bytes);
    sw_json_put_i64(json, name, t->best.value);
    sw_json_open(json, "fit", '{');
    sw_json_put_string(json, "over", plan_over_words[t->over]);
    sw_json_put_string(json, "counts", "total_bytes");
    if (isinf(t->most_more))
        sw_json_put_null(json, "overhead_percent");
    else
        sw_json_put_f64(json, "overhead_percent", t->most_more);
    sw_json_open(json, "best", '{');
    put_time(json, t, &t->best);
    sw_json_end(json);
    if (sw_json_open_known(json, "next", t->next.value > 0)) {
        put_time(json, t, &t->next);
        sw_json_put_bool(json, "fits", t->next.fits);
        sw_json_put_bool(json, "excluded", is_excluded(t));
        sw_json_put_known(json, "least_bytes", t->next.least_bytes > 0, t->next.least_bytes);
        if (t->next.fits)
            sw_json_put_f64(json, "least_more_time_percent", t->next.least_more);
        sw_json_end(json);
    }
    if (t->n_curve > 0) {
        sw_json_open(json, "curve", '[');
        for (int i = 0; i < t->n_curve; i++) {
            sw_json_begin(json, '{');
            put_time(json, t, &t->curve[i]);
            sw_json_end(json);
        }
        sw_json_end(json);
    }
    sw_json_put_i64(json, "planned", t->planned);
    sw_json_put_u64(json, "search_ns", t->ns);
    sw_json_end(json);
}

/* How it is known that the next one will not do, or that it is not known. */
static void print_next(const plan_trade *t)
{
    char text[700];
    const plan_point *p = &t->next;
    const cli_text value = cli_digits((uint64_t)p->value);
    if (p->value == 0)
        snprintf(text, sizeof text, "%s is the most that --%s takes: no larger one was asked.",
                 cli_digits((uint64_t)t->best.value).text, plan_over_words[t->over]);
    else if (p->refused)
        snprintf(text, sizeof text, "%s is refused: %s.", value.text, t->why);
    else if (t->plain && is_excluded(t))
        snprintf(text, sizeof text,
                 "%s is excluded: at least %s bytes, in whatever places they lie.", value.text,
                 cli_digits(p->least_bytes).text);
    else if (is_excluded(t) && isinf(p->least_more))
        snprintf(text, sizeof text, "%s is excluded: no plan of it fits, whatever runs again.",
                 value.text);
    else if (is_excluded(t))
        snprintf(text, sizeof text,
                 "%s is excluded: at least %.2f %% more time, whatever runs again.", value.text,
                 p->least_more);
    else if (p->fits)
        snprintf(
            text, sizeof text,
            "It is the largest that was found: %s takes %.2f %% more time in the best plan "
            "that was found, and is not excluded, since a plan with %.2f %% is not.",
            value.text, p->more, p->least_more);
    else
        snprintf(text, sizeof text,
                 "It is the largest that was found: of %s the lowest plan that was found needs "
                 "%s bytes, and it is not excluded that there is a lower one.",
                 value.text, cli_digits(p->total_bytes).text);
    cli_wrap(stdout, 0, 0, text);
}

void plan_trade_print(const plan_trade *t)
{
    const char *word = plan_over_words[t->over];
    const char *time = t->over == PLAN_CONTEXT ? "time of an id" : "time of a sample";
    char text[400], cost[80] = ", while no op runs again";
    if (isinf(t->most_more))
        snprintf(cost, sizeof cost, ", whatever it costs");
    else if (t->most_more > 0.0)
        snprintf(cost, sizeof cost, " at no more than %g %% more time", t->most_more);
    snprintf(text, sizeof text, "Largest %s that fits %s%s: %s.", overs[t->over].noun,
             result_both(t->fit_bytes).text, cost, cli_digits((uint64_t)t->best.value).text);
    cli_wrap(stdout, 0, 0, text);
    printf("\n%11s %18s %11s %17s\n", word, "total_bytes", "more time", time);
    for (int i = 0; i < (t->n_curve > 0 ? t->n_curve : 1); i++) {
        const plan_point *p = t->n_curve > 0 ? &t->curve[i] : &t->best;
        printf("%11s %18s %9.2f %% %17s\n", cli_digits((uint64_t)p->value).text,
               cli_digits(p->total_bytes).text, p->more, cli_ns((uint64_t)p->ns).text);
    }
    putchar('\n');
    print_next(t);
    snprintf(text, sizeof text, "Times are the planner's, of one thread. %s plans in %s.",
             cli_digits((uint64_t)t->planned).text, cli_ns(t->ns).text);
    cli_wrap(stdout, 0, 0, text);
    putchar('\n');
}

/* ---- of train ---------------------------------------------------------------------------- */

/* "; a batch of 512 needs 1,234 bytes; 25 would fit without more time", or "". */
static void find_hint(job *from, char *to, size_t bytes)
{
    enum { CLOSELY = 300, AT_ALL = 1000 }; /* ops: a search plans some ten values */
    const job_opts *o = from->opts;
    const job_program *main = job_main(from);
    const bool context = o->kind->takes[TOOL_CONTEXT] != NULL;
    const int64_t asked = context ? o->settings.context : from->batch;
    const size_t sets = from->train.info.bytes + from->test.info.bytes;
    const size_t needed = job_needed_bytes(from, &main->plan);
    const uint32_t ops = main->plan.n_ops - main->plan.n_repeats;
    char time[40] = "without more time";
    plan_trade *t;
    if (o->budget_bytes == 0 || needed <= o->budget_bytes || o->method != JOB_BACKPROP ||
        o->immediate || from->shards > 0 || ops == 0 || ops > AT_ALL || asked < 2 ||
        (context && sets > (size_t)1 << 24))
        return;
    if (sw_heap_alloc(&t, SW_HEAP_FILES, sizeof *t) != SW_OK)
        return;
    *t = (plan_trade)SW_INIT(.from = from, .fit_bytes = o->budget_bytes, .quick = true,
                             .most = asked - 1, .over = context ? PLAN_CONTEXT : PLAN_BATCH,
                             .most_more =
                                 ops <= CLOSELY && o->exec.no_recompute == 0 ? HUGE_VAL : 0.0);
    const plan_point *best = search_all(t, false) == CLI_GO ? best_of(t) : NULL;
    if (best != NULL && best->more > 0.0)
        snprintf(time, sizeof time, "at %.2f %% more time", best->more);
    if (best != NULL)
        (void)sw_message(to, bytes, "; a %s of %lld needs %zu bytes; %lld would fit %s",
                         plan_over_words[t->over], (long long)asked, needed,
                         (long long)best->value, time);
    plan_trade_close(t);
    sw_heap_free(t, SW_HEAP_FILES, sizeof *t);
}

int plan_trade_open(job *j)
{
    char line[4096], hint[200] = "";
    (void)cli_keep_errors(true);
    const int status = job_open(j);
    if (status == CLI_NO_FIT && j->exec != NULL) {
        snprintf(line, sizeof line, "%s", cli_last_line());
        find_hint(j, hint, sizeof hint);
        cli_forget_errors();
        (void)cli_error(status, "%s%s", line, hint);
    }
    (void)cli_keep_errors(false);
    return status;
}
