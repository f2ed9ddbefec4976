/* What `stepwell pbt` prints when it is done. */
#include "profiler/record/json.h"
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
    sw_json_put_known_f64(json, "accuracy", p->job.train.info.n_classes > 0, s->accuracy);
}

static void put_member(sw_json *json, const pop *p, int k)
{
    const pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    sw_pbt_member seen = {.size = sizeof seen};
    const bool known = sw_pbt_look(p->pbt, k, &seen) == SW_OK;
    sw_json_begin(json, '{');
    put_score(json, p, k);
    sw_json_put_u64(json, "step", m->steps);
    sw_json_put_known(json, "exploits", known, seen.exploits);
    sw_json_put_string(json, "shape", pop_form_text(&shape->form).text);
    sw_json_put_u64(json, "bytes", shape->member_bytes);
    put_values(json, p, k);
    sw_json_put_bool(json, "ended", m->ended);
    sw_json_put_string(json, "failed", m->failed || m->diverged ? m->why : NULL);
    sw_json_end(json);
}

static void put_shapes(sw_json *json, const pop *p)
{
    sw_json_open(json, "shapes", '[');
    for (int i = 0; i < p->n_shapes; i++) {
        const pop_shape *s = p->shapes[i];
        int64_t n = 0;
        if (s == NULL)
            continue;
        for (int k = 0; k < p->n_members; k++)
            n += p->members[k].shape == i;
        sw_json_begin(json, '{');
        sw_json_put_i64(json, "batch", s->form.batch);
        sw_json_open(json, "hidden", '[');
        for (int k = 0; k < s->form.hidden.n; k++)
            sw_json_i64(json, s->form.hidden.at[k]);
        sw_json_end(json);
        sw_json_put_u64(json, "member_bytes", s->member_bytes);
        sw_json_put_u64(json, "arena_bytes", s->arena_bytes);
        sw_json_put_u64(json, "batch_bytes", s->batch_bytes);
        sw_json_put_i64(json, "members", n);
        sw_json_end(json);
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
    sw_json_put_u64(json, "lane_bytes", m->packing.lane_bytes);
    sw_json_put_u64(json, "resident_bytes", m->packing.resident_bytes);
    sw_json_put_u64(json, "resident", m->packing.resident);
    sw_json_put_u64(json, "waiting", m->packing.waiting);
    sw_json_put_u64(json, "paused_peak_bytes", m->paused_peak);
    sw_json_end(json);
}

static void put_all(sw_json *json, const pop *p)
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
    sw_json_open(json, "population", '[');
    for (int k = 0; k < p->n_members; k++)
        put_member(json, p, k);
    sw_json_end(json);
    put_shapes(json, p);
    put_memory(json, p);
    sw_json_put_u64(json, "wall_ns", p->wall_ns);
    sw_json_put_u64(json, "train_ns", p->train_ns);
    sw_json_put_u64(json, "test_ns", p->test_ns);
    sw_json_put_u64(json, "exploit_ns", p->exploit_ns);
    sw_json_end(json);
    sw_json_line(json);
}

static int print_json(const pop *p, int status)
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

static void print_member(const pop *p, int k)
{
    const pop_member *m = &p->members[k];
    double values[POP_HYPERS];
    printf("  %6d  %8" PRIu64 "  %10.5g  %10.5g", k, m->steps, pop_told(m->score.score),
           m->score.loss);
    if (pop_values(p, k, values) == SW_OK)
        for (int i = 0; i < p->n_hypers; i++)
            printf("  %*.5g", (int)sizeof "12345.67890" - 1, values[i]);
    printf("%s\n", m->failed ? "  failed" : m->diverged ? "  diverged" : "");
}

/* By score, the best first; those without a score last. */
static void print_members(pop *p)
{
    int *order = p->order;
    for (int k = 0; k < p->n_members; k++) {
        int at = k;
        const double its = pop_told(p->members[k].score.score);
        for (; at > 0; at--) {
            const double other = pop_told(p->members[order[at - 1]].score.score);
            if (isnan(its) || (!isnan(other) && !better(p, its, other)))
                break;
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
    printf("\n  member      step  %10s  %10s", p->by_loss ? "loss" : "accuracy", "loss");
    for (int i = 0; i < p->n_hypers; i++)
        printf("  %11.11s", p->hyper[i].name);
    putchar('\n');
    for (int i = 0; i < p->n_members && i < ROWS; i++)
        print_member(p, order[i]);
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
        m->packing.threads, cli_bytes(m->packing.lane_bytes / threads).text,
        cli_bytes(m->packing.resident_bytes).text, m->packing.resident,
        m->packing.resident + m->packing.waiting);
    if (paused && m->paused_peak > 0)
        add(to, bytes, "; at most %s outside of it", cli_bytes(m->paused_peak).text);
}

static void print_memory(const pop *p)
{
    char line[500];
    pop_memory_line(p, true, line, sizeof line);
    printf("\n%s\n", line);
}

static int print_text(pop *p, int status)
{
    const int best = pop_best(p);
    printf("%d members of %s, %" PRIu64 " turns, %" PRIu64 " exploits in %s (training %s, "
           "testing %s, exploits and files %s)\n",
           p->n_members, p->opts.job.model, p->turn, p->exploits, cli_ns(p->wall_ns).text,
           cli_ns(p->train_ns).text, cli_ns(p->test_ns).text, cli_ns(p->exploit_ns).text);
    print_members(p);
    print_memory(p);
    if (best >= 0)
        printf("best: member %d, %s %.5g\n", best, p->by_loss ? "loss" : "accuracy",
               p->members[best].score.score);
    return cli_finish(status);
}

int pop_print(pop *p, int status)
{
    return p->opts.json ? print_json(p, status) : print_text(p, status);
}
