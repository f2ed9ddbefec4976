/* The output of `stepwell pbt` when it is done. */
#include "profiler/record/json.h"
#include "tools/job/result.h"
#include "tools/population/population.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static bool better(const pop *p, double a, double b)
{
    return p->minimize ? a < b : a > b;
}

int pop_best(const pop *p)
{
    int best = -1;
    for (int k = 0; k < p->n_members; k++) {
        const double score = p->members[k].score.score;
        if (isfinite(score) && fabs(score) < DBL_MAX &&
            (best < 0 || better(p, score, p->members[best].score.score)))
            best = k;
    }
    return best;
}

const char *pop_metric_name(const pop *p)
{
    return p->independent ? "loss" : p->by_loss ? "validation loss" : "validation accuracy";
}

cli_text pop_test_text(const pop *p)
{
    cli_text t = {""};
    if (p->tested)
        snprintf(t.text, sizeof t.text, "test %s %.5g", p->by_loss ? "loss" : "accuracy",
                 p->by_loss ? p->test.loss : p->test.accuracy);
    return t;
}

double pop_told(double score)
{
    return fabs(score) < DBL_MAX ? score : (double)NAN;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_values(sw_json *json, const pop *p, int k)
{
    double values[POP_HYPERS];
    sw_json_open(json, "values", '{');
    if (pop_values(p, k, values) == SW_OK)
        for (int i = 0; i < p->n_hypers; i++)
            sw_json_put_f64(json, p->hyper[i].name, values[i]);
    sw_json_end(json);
}

static void put_score(sw_json *json, const pop *p, int k)
{
    const pop_score *s = &p->members[k].score;
    sw_json_put_i64(json, "member", k);
    sw_json_put_f64(json, "score", pop_told(s->score));
    sw_json_put_f64(json, "loss", s->loss);
    sw_json_put_known_f64(json, "accuracy", p->classes, s->accuracy);
}

static void put_member(sw_json *json, const pop *p, int k)
{
    const pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    sw_pbt_member seen = SW_OPTS(sw_pbt_member);
    const bool known = sw_pbt_describe(p->pbt, k, &seen) == SW_OK;
    sw_json_begin(json, '{');
    put_score(json, p, k);
    sw_json_put_u64(json, "step", m->steps);
    sw_json_put_known(json, "exploits", known, seen.exploits);
    sw_json_put_string(json, "shape", pop_config_text(&shape->config).text);
    sw_json_put_u64(json, "bytes", shape->member_bytes);
    put_values(json, p, k);
    sw_json_put_bool(json, "ended", m->ended);
    sw_json_put_string(json, "failed", m->failed || m->diverged ? m->why : NULL);
    sw_json_end(json);
}

static void put_shape(sw_json *json, const pop *p, int shape)
{
    const pop_shape *s = p->shapes[shape];
    int64_t n = 0;
    for (int k = 0; k < p->n_members; k++)
        n += p->members[k].shape == shape;
    sw_json_begin(json, '{');
    result_put_batch(json, job_slot_rows(&p->job.train, s->config.batch), s->config.batch);
    sw_json_open(json, "hidden", '[');
    for (int k = 0; k < s->config.hidden.n; k++)
        sw_json_i64(json, s->config.hidden.at[k]);
    sw_json_end(json);
    sw_json_put_u64(json, "member_bytes", s->member_bytes);
    sw_json_put_u64(json, "arena_bytes", s->arena_bytes);
    sw_json_put_u64(json, "batch_bytes", s->batch_bytes);
    sw_json_put_i64(json, "members", n);
    sw_json_end(json);
}

/* In the order of the first member of each, whatever was planned before. */
static void put_shapes(sw_json *json, const pop *p)
{
    for (int i = 0; i < p->n_shapes; i++)
        if (p->shapes[i] != NULL)
            p->shapes[i]->listed = false;
    sw_json_open(json, "shapes", '[');
    for (int k = 0; k < p->n_members; k++) {
        pop_shape *s = p->shapes[p->members[k].shape];
        if (!s->listed)
            put_shape(json, p, p->members[k].shape);
        s->listed = true;
    }
    sw_json_end(json);
}

static void put_memory(sw_json *json, const pop *p)
{
    const pop_memory *m = &p->memory;
    sw_json_open(json, "memory", '{');
    sw_json_put_known(json, "budget_bytes", p->opts.job.budget_bytes > 0,
                      p->opts.job.budget_bytes);
    sw_json_put_u64(json, "predicted_peak_bytes", m->predicted_peak);
    sw_json_put_u64(json, "measured_peak_bytes", m->measured_peak);
    sw_json_put_u64(json, "lane_bytes", m->most_of.lane_bytes);
    sw_json_put_u64(json, "resident_bytes", m->most_of.resident_bytes);
    sw_json_put_u64(json, "resident", m->most_of.resident);
    sw_json_put_u64(json, "waiting", m->most_of.waiting);
    sw_json_put_u64(json, "paused_peak_bytes", m->paused_peak);
    sw_json_end(json);
}

/* The parts, and what the best member does on the one that chose nothing. */
static void put_parts(sw_json *json, const pop *p)
{
    sw_json_put_i64(json, "train_rows", p->job.train.n);
    sw_json_put_i64(json, "validation_rows", p->validation.n);
    sw_json_put_known_f64(json, "test_loss", p->tested, p->test.loss);
    sw_json_put_known_f64(json, "test_accuracy", p->tested && p->classes, p->test.accuracy);
    sw_json_put_known(json, "test_rows", p->tested, (uint64_t)p->job.test.n);
}

static void put_all(sw_json *json, pop *p)
{
    const int best = pop_best(p);
    sw_json_begin(json, '{');
    sw_json_put_string(json, "model", p->opts.job.model);
    sw_json_put_string(json, "data", p->opts.job.data);
    sw_json_put_i64(json, "members", p->n_members);
    sw_json_put_u64(json, "steps", (uint64_t)p->steps_to_do);
    sw_json_put_u64(json, "turns", p->turn);
    sw_json_put_u64(json, "member_steps", p->member_steps);
    sw_json_put_u64(json, "exploits", p->exploits);
    sw_json_put_u64(json, "refused", p->refused);
    sw_json_put_i64(json, "seed", p->opts.job.seed);
    sw_json_put_i64(json, "threads", p->memory.threads);
    sw_json_put_string(json, "metric", p->by_loss ? "loss" : "accuracy");
    if (best >= 0) {
        sw_json_open(json, "best", '{');
        put_score(json, p, best);
        put_values(json, p, best);
        sw_json_end(json);
    } else {
        sw_json_put_null(json, "best");
    }
    if (!p->independent)
        put_parts(json, p);
    sw_json_open(json, "population", '[');
    for (int k = 0; k < p->n_members; k++)
        put_member(json, p, k);
    sw_json_end(json);
    put_shapes(json, p);
    put_memory(json, p);
    if (p->independent) {
        const cli_summary s = cli_times_summary(&p->times);
        sw_json_put_u64(json, "min_step_ns", s.min);
        sw_json_put_u64(json, "median_step_ns", s.median);
        sw_json_put_u64(json, "p99_step_ns", s.p99);
        sw_json_put_u64(json, "max_step_ns", s.max);
    }
    sw_json_put_u64(json, "wall_ns", p->wall_ns);
    sw_json_put_u64(json, "train_ns", p->train_ns);
    if (!p->independent)
        sw_json_put_u64(json, "validation_ns", p->score_ns);
    sw_json_put_u64(json, "test_ns", p->independent ? p->score_ns : p->test_ns);
    sw_json_put_u64(json, "exploit_ns", p->exploit_ns);
    sw_json_end(json);
    sw_json_line(json);
}

static int print_json(pop *p, int status)
{
    sw_json json;
    sw_json_growing(&json, SW_HEAP_RECORDS);
    put_all(&json, p);
    if (json.status == SW_OK)
        fwrite(json.bytes, 1, json.used, stdout);
    const sw_status written = json.status;
    sw_json_free(&json);
    return written == SW_OK ? cli_finish(status) : cli_library_error(written, false);
}

/* ---- text -------------------------------------------------------------------------------- */

#define ROWS 24 /* of members: the best ones of larger populations */

enum { CELLS = 2 + POP_HYPERS };

/* The numbers of a member: loss, accuracy where there are classes, then its values. */
static int cells_of(const pop *p, int k, double *to)
{
    int n = 0;
    to[n++] = p->members[k].score.loss;
    if (p->classes)
        to[n++] = p->members[k].score.accuracy;
    return pop_values(p, k, to + n) == SW_OK ? n + p->n_hypers : n;
}

static void print_member(const pop *p, int k, const cli_column *columns)
{
    const pop_member *m = &p->members[k];
    double cells[CELLS];
    printf("  %6d  %8" PRIu64, k, m->steps);
    const int n = cells_of(p, k, cells);
    for (int i = 0; i < n; i++)
        printf("  %*s", i < 1 + p->classes ? 10 : 11,
               cli_column_text(&columns[i], cells[i]).text);
    printf("%s\n", m->failed ? "  failed" : m->diverged ? "  diverged" : "");
}

/* Whether `a` stands above `b`: by score, then as they come; those without a score last. */
static bool above(const pop *p, int a, int b)
{
    const double x = pop_told(p->members[a].score.score),
                 y = pop_told(p->members[b].score.score);
    return !isnan(x) && (isnan(y) || better(p, x, y));
}

/* The best ones into p->order, as many as are shown. */
static int rank(pop *p)
{
    int n = 0;
    for (int k = 0; k < p->n_members; k++) {
        int at = n < ROWS ? n++ : ROWS - 1;
        if (k >= ROWS && !above(p, k, p->order[at]))
            continue;
        for (; at > 0 && above(p, k, p->order[at - 1]); at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = k;
    }
    return n;
}

static void print_members(pop *p)
{
    cli_column columns[CELLS] = {{0}};
    double cells[CELLS];
    const int n = rank(p);
    for (int i = 0; i < n; i++)
        for (int c = cells_of(p, p->order[i], cells) - 1; c >= 0; c--)
            cli_column_take(&columns[c], cells[c]);
    printf("\n%s  member      step  %10s", p->independent ? "" : "on the validation part:\n",
           "loss");
    if (p->classes)
        printf("  %10s", "accuracy");
    for (int i = 0; i < p->n_hypers; i++)
        printf("  %11.11s", p->hyper[i].name);
    putchar('\n');
    for (int i = 0; i < n; i++)
        print_member(p, p->order[i], columns);
    if (p->n_members > ROWS)
        printf("  and %d more (--json has all of them)\n", p->n_members - ROWS);
}

SW_PRINTF(3, 4)
static void add(char *to, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(to);
    va_list args;
    va_start(args, format);
    vsnprintf(to + used, bytes - used, format, args);
    va_end(args);
}

void pop_memory_line(const pop *p, bool paused, char *to, size_t bytes)
{
    const pop_memory *m = &p->memory;
    const size_t threads = (size_t)(m->packing.threads > 0 ? m->packing.threads : 1);
    *to = '\0';
    add(to, bytes, "memory: predicted at most %s, measured %s",
        cli_bytes(m->predicted_peak).text, cli_bytes(m->measured_peak).text);
    if (p->opts.job.budget_bytes > 0)
        add(to, bytes, " of a budget of %s", cli_bytes(p->opts.job.budget_bytes).text);
    add(to, bytes, "; %d threads with %s each, members %s, %zu of %zu in it",
        m->most_of.threads, cli_bytes(m->most_of.lane_bytes / threads).text,
        cli_bytes(m->most_of.resident_bytes).text, m->most_of.resident,
        m->most_of.resident + m->most_of.waiting);
    if (paused && m->paused_peak > 0)
        add(to, bytes, "; at most %s outside of it", cli_bytes(m->paused_peak).text);
}

static void print_memory(const pop *p)
{
    char line[500];
    pop_memory_line(p, true, line, sizeof line);
    printf("\n%s\n", line);
}

/* "128", where no member has another one. */
static cli_text batch_of(const pop *p)
{
    const int64_t asked = p->opts.job.batch.at[0];
    bool one = true;
    for (int i = 0; i < p->n_hypers; i++)
        one &= p->hyper[i].kind != POP_BATCH;
    return one ? result_batch(job_slot_rows(&p->job.train, asked), asked) : (cli_text){""};
}

static int print_text(pop *p, int status)
{
    const int best = pop_best(p);
    const cli_text batch = batch_of(p);
    printf("%d members of %s%s%s, %" PRIu64 " %s", p->n_members, p->opts.job.model,
           *batch.text != '\0' ? ", batch " : "", batch.text, p->turn,
           p->independent ? "tests" : "turns");
    if (!p->independent)
        printf(", %" PRIu64 " exploits", p->exploits);
    printf(" in %s (training %s, %s %s, %s %s)\n", cli_ns(p->wall_ns).text,
           cli_ns(p->train_ns).text, p->independent ? "testing" : "validation",
           cli_ns(p->score_ns).text, p->independent ? "files" : "exploits and files",
           cli_ns(p->exploit_ns).text);
    if (p->independent) {
        const cli_summary s = cli_times_summary(&p->times);
        printf("a step of all: min %s, median %s, p99 %s, max %s\n", cli_ns(s.min).text,
               cli_ns(s.median).text, cli_ns(s.p99).text, cli_ns(s.max).text);
    }
    print_members(p);
    print_memory(p);
    if (best >= 0)
        printf("best: member %d, %s %.5g%s%s\n", best, pop_metric_name(p),
               p->members[best].score.score, p->tested ? "; " : "", pop_test_text(p).text);
    return cli_finish(status);
}

int pop_print(pop *p, int status)
{
    return p->opts.json ? print_json(p, status) : print_text(p, status);
}
