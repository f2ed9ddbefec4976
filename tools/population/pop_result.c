/* The output of `stepwell pbt` when it is done. */
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "profiler/record/prof.h"
#include "tools/job/result.h"
#include "tools/population/population.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define POP_SHADES 64  /* members beyond which lines are shades of one colour */
#define POP_COLOURS 12 /* of lines, which members take in turn */

typedef struct {
    const pop *p;
    svg *to;
    svg_plot at;
    int hyper; /* of the panel; -1: scores */
    sw_hyper is;
    int best;
} pop_plot;

static void pop_page_draw(const pop *p, svg *to);

/* ---- pop lines --------------------------------------------------------------------------- */

/* The lines of a picture: of members, and of copies. */

static void number(const pop_plot *d, long long hundredths)
{
    const long long tenths = (hundredths + 5) / 10;
    svg_print(d->to, "%lld.%lld", tenths / 10, tenths % 10);
}

static void point(const pop_plot *d, const char *before, double x, long long y)
{
    svg_print(d->to, "%s", before);
    number(d, svg_at(&d->at.x, x));
    svg_print(d->to, " ");
    number(d, y);
}

/* A line of one point is a dot: it goes to where it is. */
static void go_on(const pop_plot *d, bool *down, double step, double score)
{
    if (!isfinite(score)) {
        *down = false;
        return;
    }
    if (!*down)
        point(d, "M", step, svg_at(&d->at.y, score));
    point(d, *down ? " " : "L", step, svg_at(&d->at.y, score));
    *down = true;
}

/* Where the value of the panel lies that a member has after its i-th row. */
static long long value_at(const pop_plot *d, int k, uint32_t i)
{
    double values[POP_HYPERS] = {0};
    if (i < d->p->history[k].n)
        values[d->hyper] = pop_history_row(d->p, k, i)[POP_ROW_VALUES + d->hyper];
    else if (pop_values(d->p, k, values) != SW_OK)
        return svg_at(&d->at.y, d->at.y.low);
    const double v = values[d->hyper];
    int level = 0;
    if (d->is.kind != SW_CHOICE)
        return svg_at(&d->at.y, v);
    while (level + 1 < d->is.n_choices && d->is.choices[level] != v)
        level++;
    return svg_at(&d->at.y, level);
}

/* A value stays from turn to turn, until the member copies a donor. */
static void value_line(const pop_plot *d, int k)
{
    const uint32_t n = d->p->history[k].n;
    double from = 0.0, to = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        const double *row = pop_history_row(d->p, k, i);
        const long long y = value_at(d, k, i);
        const bool copied = row[POP_ROW_DONOR] >= 0.0;
        to = row[POP_ROW_STEP];
        if (!copied && i + 1 < n && value_at(d, k, i + 1) == y)
            continue;
        point(d, "M", from, y);
        svg_print(d->to, "H");
        number(d, svg_at(&d->at.x, to));
        from = copied ? row[POP_ROW_DONOR_STEP] : to;
    }
}

static void member_line(const pop_plot *d, int k, const char *class)
{
    if (d->p->history[k].n == 0)
        return;
    svg_print(d->to, "<path class=\"m %s\" d=\"", class);
    if (d->hyper < 0) {
        /* After a copy it begins anew, at the donor's place. */
        bool down = false;
        for (uint32_t i = 0; i < d->p->history[k].n; i++) {
            const double *row = pop_history_row(d->p, k, i);
            go_on(d, &down, row[POP_ROW_STEP], row[POP_ROW_SCORE]);
            down = down && row[POP_ROW_DONOR] < 0.0;
            if (row[POP_ROW_DONOR] >= 0.0)
                go_on(d, &down, row[POP_ROW_DONOR_STEP], row[POP_ROW_DONOR_SCORE]);
        }
    } else
        value_line(d, k);
    svg_print(d->to, "\"><title>member %d</title></path>\n", k);
}

/* Where the line of a member is on both sides of a copy. False: it has no place there. */
static bool copy_at(const pop_plot *d, int k, uint32_t i, long long *before, long long *behind)
{
    const double *row = pop_history_row(d->p, k, i);
    if (row[POP_ROW_DONOR] < 0.0)
        return false;
    if (d->hyper >= 0) {
        *before = value_at(d, k, i);
        *behind = value_at(d, k, i + 1);
        return true;
    }
    if (!isfinite(row[POP_ROW_DONOR_SCORE]))
        return false;
    *behind = svg_at(&d->at.y, row[POP_ROW_DONOR_SCORE]);
    *before = isfinite(row[POP_ROW_SCORE]) ? svg_at(&d->at.y, row[POP_ROW_SCORE]) : *behind;
    return true;
}

/* Copies: dots at the donor's score, or at the member's new value; and thin lines that lead
 * there, which are left out where there are too many to be seen. */
static void copies(const pop_plot *d, bool dots)
{
    const char *small = d->p->n_members > POP_SHADES ? " small" : "";
    svg_print(d->to, "<path class=\"%s%s\" d=\"", dots ? "jump" : "leap", small);
    for (int k = 0; k < d->p->n_members; k++)
        for (uint32_t i = 0; i < d->p->history[k].n; i++) {
            const double *row = pop_history_row(d->p, k, i);
            long long before, behind;
            if (!copy_at(d, k, i, &before, &behind))
                continue;
            if (!dots)
                point(d, "M", row[POP_ROW_STEP], before);
            point(d, dots ? "M" : "L", row[POP_ROW_DONOR_STEP], behind);
            if (dots)
                svg_print(d->to, "h0");
        }
    svg_print(d->to, "\"/>\n");
}

/* --profile: the shapes that occur, and who takes which bytes in every turn. */

/* ---- the file ---------------------------------------------------------------------------- */

sw_status pop_profile_open(pop *p)
{
    const job_opts *j = &p->opts.job;
    char kept[600] = "";
    if (p->opts.profile == NULL)
        return SW_OK;
    /* The profile of a run before this one is not replaced where it goes on. */
    if (p->resumed)
        SW_TRY(job_keep_profile(p->opts.profile, p->turn, kept, sizeof kept));
    if (kept[0] != '\0')
        cli_note("the profile of the turns before is in %s", kept);
    const sw_prof_header header =
        SW_INIT(.path = p->opts.profile, .model = j->model, .device = j->device,
                .data = j->data, .command = p->command, .version = sw_version(),
                .normalise = p->job.normal.text,
                .batch = job_slot_rows(&p->job.train, j->batch.at[0]),
                .seed = (uint64_t)j->seed, .steps = (uint64_t)p->steps_to_do,
                .budget_bytes = j->budget_bytes, .members = (uint64_t)p->n_members,
                .scores = pop_metric_name(p));
    SW_TRY(sw_prof_create(&p->profile, &header));
    job_ranks_profile(p->ranks, p->profile, false);
    return SW_OK;
}

int pop_profile_close(pop *p, int status)
{
    sw_profile *profile = p->profile;
    sw_heap_free(p->told, SW_HEAP_RECORDS, p->cap_told * sizeof *p->told);
    p->told = NULL;
    p->n_told = p->cap_told = 0;
    p->profile = NULL;
    return job_profile_close(profile, status);
}

/* Shapes of one config have the same plans, whenever they are made: they are written once. */
static sw_status shape_number(pop *p, pop_shape *s, uint32_t *out)
{
    for (uint32_t i = 0; i < p->n_told; i++)
        if (pop_same_config(&p->told[i], &s->config)) {
            *out = i;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&p->told, SW_HEAP_RECORDS, &p->cap_told, p->n_told + 1));
    sw_members_args args[POP_PARTS];
    for (int i = 0; i < POP_PARTS; i++)
        args[i] = pop_args(s, (pop_part)i);
    SW_TRY(sw_members_profile(s->group, args, POP_PARTS, p->profile,
                              pop_config_text(&s->config).text, out));
    p->told[p->n_told++] = s->config;
    return SW_OK;
}

/* ---- turns ------------------------------------------------------------------------------- */

static sw_status write_member(pop *p, int k)
{
    pop_member *m = &p->members[k];
    pop_shape *s = p->shapes[m->shape];
    const bool resident = m->member.of != NULL;
    const char *names[POP_HYPERS];
    double values[POP_HYPERS];
    char elsewhere[24];
    snprintf(elsewhere, sizeof elsewhere, "rank %d", pop_owner(p, k));
    sw_prof_member x =
        SW_INIT(.turn = p->turn, .member = (uint32_t)k, .step = m->steps, .seed = m->seed,
                .place = !pop_is_mine(p, k) ? elsewhere
                         : resident         ? "resident"
                         : m->waiting.there ? "waiting"
                                            : "none",
                .range_bytes = resident ? s->member_bytes : 0,
                .waiting_bytes = m->waiting.there ? m->waiting.n : 0,
                .kept_bytes = m->kept.there ? m->kept.n : 0, /* 0 of another rank's */
                .score = fabs(m->score.score) < DBL_MAX ? m->score.score : (double)NAN,
                .loss = m->score.loss, .train_loss = m->score.train_loss,
                .donor = m->copied - 1,
                .status = m->failed  ? "failed"
                          : m->ended ? "ended"
                                     : "runs",
                .names = names, .values = values, .n_values = (uint32_t)p->n_hypers);
    SW_TRY(shape_number(p, s, &x.shape));
    SW_TRY(pop_values(p, k, values));
    for (int i = 0; i < p->n_hypers; i++)
        names[i] = p->hyper[i].name;
    sw_prof_member_record(p->profile, &x);
    m->copied = 0;
    return SW_OK;
}

sw_status pop_profile_turn(pop *p)
{
    if (p->profile == NULL)
        return SW_OK;
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(write_member(p, k));
    sw_members_memory used = SW_OPTS(sw_members_memory);
    SW_TRY(sw_members_used(p->shapes[p->members[0].shape]->group, &used));
    sw_prof_turn x = SW_INIT(.turn = p->turn, .members = (uint32_t)p->n_members,
                             .lanes = (uint32_t)used.lanes, .step_bytes = used.step_bytes,
                             .batch_bytes = used.batch_bytes, .range_bytes = used.range_bytes,
                             .live_bytes = used.live_bytes, .predicted_bytes = pop_predicted(p),
                             .outside_bytes = p->memory.paused);
    for (int j = 0; j < p->n_members; j++)
        x.step = p->members[j].steps > x.step ? p->members[j].steps : x.step;
    sw_prof_turn_record(p->profile, &x);
    return SW_OK;
}

/* ---- pop result -------------------------------------------------------------------------- */

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

/* "test accuracy 0.96"; empty where there was no test. */
static cli_text pop_test_text(const pop *p)
{
    cli_text t = {""};
    if (p->tested)
        snprintf(t.text, sizeof t.text, "test %s %.5g", p->by_loss ? "loss" : "accuracy",
                 p->by_loss ? p->test.loss : p->test.accuracy);
    return t;
}

/* The worst possible score stands for none: NaN. */
static double pop_told(double score)
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

/* Members of a shape. */
static int count(const pop *p, int shape)
{
    int n = 0;
    for (int k = 0; k < p->n_members; k++)
        n += p->members[k].shape == shape;
    return n;
}

static void put_shape(sw_json *json, const pop *p, int shape)
{
    const pop_shape *s = p->shapes[shape];
    sw_json_begin(json, '{');
    result_put_batch(json, job_slot_rows(&p->job.train, s->config.batch), s->config.batch);
    sw_json_open(json, "hidden", '[');
    for (int k = 0; k < s->config.hidden.n; k++)
        sw_json_i64(json, s->config.hidden.at[k]);
    sw_json_end(json);
    SW_JSON_PUT(json, s, member_bytes, arena_bytes, batch_bytes);
    sw_json_put_i64(json, "members", count(p, shape));
    sw_json_end(json);
}

static void put_all(sw_json *json, pop *p)
{
    const int best = pop_best(p);
    SW_JSON_PUT(json, &p->opts.job, model, data);
    sw_json_put_i64(json, "members", p->n_members);
    sw_json_put_u64(json, "steps", (uint64_t)p->steps_to_do);
    sw_json_put_u64(json, "turns", p->turn);
    SW_JSON_PUT(json, p, member_steps, exploits, refused);
    sw_json_put_i64(json, "seed", p->opts.job.seed);
    sw_json_put_i64(json, "threads", p->memory.threads);
    SW_JSON_PUT(json, &p->opts.job, precision, bf16_order);
    sw_json_put_string(json, "metric", p->by_loss ? "loss" : "accuracy");
    if (best >= 0) {
        sw_json_open(json, "best", '{');
        put_score(json, p, best);
        put_values(json, p, best);
        sw_json_end(json);
    } else {
        sw_json_put_null(json, "best");
    }
    if (!p->independent) {
        /* The parts, and what the best member does on the one that chose nothing. */
        sw_json_put_i64(json, "train_rows", p->job.train.n);
        sw_json_put_i64(json, "validation_rows", p->validation.n);
        sw_json_put_known_f64(json, "test_loss", p->tested, p->test.loss);
        sw_json_put_known_f64(json, "test_accuracy", p->tested && p->classes, p->test.accuracy);
        sw_json_put_known(json, "test_rows", p->tested, (uint64_t)p->job.test.n);
    }
    sw_json_open(json, "population", '[');
    for (int k = 0; k < p->n_members; k++)
        put_member(json, p, k);
    sw_json_end(json);
    /* In the order of the first member of each, whatever was planned before. */
    for (int i = 0; i < p->n_shapes; i++)
        if (p->shapes[i] != NULL)
            p->shapes[i]->listed = false;
    sw_json_open(json, "shapes", '[');
    for (int j = 0; j < p->n_members; j++) {
        pop_shape *s = p->shapes[p->members[j].shape];
        if (!s->listed)
            put_shape(json, p, p->members[j].shape);
        s->listed = true;
    }
    sw_json_end(json);
    const pop_memory *m = &p->memory;
    sw_json_open(json, "memory", '{');
    sw_json_put_known(json, "budget_bytes", p->opts.job.budget_bytes > 0,
                      p->opts.job.budget_bytes);
    sw_json_put_u64(json, "predicted_peak_bytes", m->predicted_peak);
    sw_json_put_u64(json, "measured_peak_bytes", m->measured_peak);
    SW_JSON_PUT(json, &m->most_of, lane_bytes, resident_bytes, resident, waiting);
    sw_json_put_u64(json, "paused_peak_bytes", m->paused_peak);
    sw_json_end(json);
    if (p->independent) {
        const cli_summary s = cli_times_summary(&p->times);
        sw_json_put_u64(json, "min_step_ns", s.min);
        sw_json_put_u64(json, "median_step_ns", s.median);
        sw_json_put_u64(json, "p99_step_ns", s.p99);
        sw_json_put_u64(json, "max_step_ns", s.max);
    }
    SW_JSON_PUT(json, p, wall_ns, train_ns);
    if (!p->independent)
        sw_json_put_u64(json, "validation_ns", p->score_ns);
    sw_json_put_u64(json, "test_ns", p->independent ? p->score_ns : p->test_ns);
    sw_json_put_u64(json, "exploit_ns", p->exploit_ns);
    job_ranks_put(json, p->ranks, pop_ranks_bytes(p), "steps", (job_rank *)(void *)p->said);
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

static void pop_memory_line(const pop *p, bool paused, char *to, size_t bytes)
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
    char line[500];
    pop_memory_line(p, true, line, sizeof line);
    printf("\n%s\n", line);
    job_ranks_print(p->ranks, pop_ranks_bytes(p));
    if (best >= 0)
        printf("best: member %d, %s %.5g%s%s\n", best, pop_metric_name(p),
               p->members[best].score.score, p->tested ? "; " : "", pop_test_text(p).text);
    return cli_finish(status);
}

int pop_print(pop *p, int status)
{
    sw_json json;
    const job_rank own = {.done = p->own_steps,
                          .predicted_peak_bytes = p->memory.predicted_peak,
                          .measured_peak_bytes = p->memory.measured_peak};
    if (p->ranks != NULL) /* what was said is used up */
        CLI_LIBRARY(job_ranks_figures(p->ranks, own, (job_rank *)(void *)p->said), false);
    if (swi_ranks_rank(p->ranks) > 0)
        return status;
    if (!p->opts.json)
        return print_text(p, status);
    result_json_begin(&json);
    put_all(&json, p);
    return result_json_end(&json, status);
}

/* --plot: scores of all members over steps, and below them a panel for each explored value. A
 * line is a member's; it breaks where there is no score, and begins anew at the donor's place
 * where it copied one, which may be some steps back. The same run gives the same bytes. */

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

static void head(const pop_plot *d)
{
    const pop *p = d->p;
    char classes[1600];
    size_t used = (size_t)snprintf(
        classes, sizeof classes,
        ".big{fill:#1b1f24;font-size:17px}\n"
        ".m{fill:none;stroke-width:1.2;stroke-linecap:round;stroke-linejoin:round}\n"
        ".shade{stroke:#5b87b5;stroke-width:0.7;stroke-opacity:0.35}"
        ".best{stroke:#d6311f;stroke-width:2.6}\n"
        ".jump{fill:none;stroke:#1b1f24;stroke-width:4;stroke-linecap:round}"
        ".jump.small{stroke-width:2}"
        ".leap{fill:none;stroke:#6d757e;stroke-width:0.8;stroke-dasharray:2 2}\n");
    for (int i = 0; i < POP_COLOURS; i++)
        used += (size_t)snprintf(classes + used, sizeof classes - used, ".c%d{stroke:%s}%s", i,
                                 palette[i], i + 1 == POP_COLOURS ? "\n" : "");
    svg_style(d->to, classes, ".big{fill:#e4e8ec}.jump{stroke:#e4e8ec}.best{stroke:#ff6a57}");
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
        across(d, svg_at(&d->at.y, i));
        svg_open_text(d->to, "axis", 100 * (LEFT - 8), svg_at(&d->at.y, i) + 400);
        if (d->is.labels != NULL)
            svg_escaped(d->to, d->is.labels[i]);
        else
            svg_print(d->to, "%.6g", d->is.choices[i]);
        svg_print(d->to, "</text>\n");
    }
}

static void frame(const pop_plot *d)
{
    svg_grid_down(d->to, &d->at, 10);
    across(d, 100LL * d->at.top);
    across(d, 100LL * (d->at.top + d->at.height));
    if (d->hyper >= 0 && d->is.kind == SW_CHOICE)
        levels(d);
    else
        svg_grid_across(d->to, &d->at, d->hyper < 0 ? 8 : 4);
}

/* ---- panels ------------------------------------------------------------------------------ */

static void panel(pop_plot *d)
{
    svg_open_text(d->to, "text", 100 * LEFT, 100 * (d->at.top - 9));
    if (d->hyper < 0)
        svg_print(d->to, "%s%s, over steps", pop_metric_name(d->p),
                  d->at.y.log ? " (logarithmic)" : "");
    else {
        svg_escaped(d->to, d->p->hyper[d->hyper].name);
        svg_print(d->to, "%s", d->at.y.log ? " (logarithmic)" : "");
    }
    svg_print(d->to, "</text>\n");
    frame(d);
    /* pop_lines.c: all members in one panel, the best in front, then copies. */
    for (int k = 0; k < d->p->n_members; k++) {
        char class[16];
        snprintf(class, sizeof class, d->p->n_members > POP_SHADES ? "shade" : "c%d",
                 k % POP_COLOURS);
        if (k != d->best)
            member_line(d, k, class);
    }
    if (d->best >= 0)
        member_line(d, d->best, "best");
    if (d->p->n_members <= POP_SHADES)
        copies(d, false);
    copies(d, true);
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

/* Appends the picture to `to`; alone: as a file of its own. */
static void pop_plot_draw(const pop *p, svg *to, bool alone)
{
    pop_plot d = {p,  to,  {.left = LEFT, .top = TOP, .width = PLOT_W, .height = SCORE_H},
                  -1, {0}, pop_best(p)};
    svg_open(to, WIDTH, TOP + SCORE_H + p->n_hypers * (GAP + HYPER_H) + FOOT, alone);
    head(&d);
    double low = HUGE_VAL, high = -HUGE_VAL, first = 0.0, last = 0.0;
    for (int k = 0; k < d.p->n_members; k++)
        for (uint32_t i = 0; i < d.p->history[k].n; i++) {
            const double *row = pop_history_row(d.p, k, i);
            svg_widen(&low, &high, row[POP_ROW_SCORE]);
            svg_widen(&first, &last, row[POP_ROW_STEP]);
            if (row[POP_ROW_DONOR] >= 0.0)
                svg_widen(&low, &high, row[POP_ROW_DONOR_SCORE]);
        }
    if (low > high)
        low = high = 0.0;
    d.at.x = svg_axis_of(0.0, last > 0.0 ? last : 1.0, false, LEFT, PLOT_W);
    d.at.x.whole = true;
    d.at.y = svg_axis_of(low, high, d.p->by_loss && low > 0.0 && high / low > 20.0,
                         d.at.top + d.at.height - INSET, 2 * INSET - d.at.height);
    panel(&d);
    for (d.hyper = 0; d.hyper < p->n_hypers; d.hyper++) {
        d.at.top += d.at.height + GAP;
        d.at.height = HYPER_H;
        d.is = SW_OPTS(sw_hyper);
        if (sw_space_at(p->space, d.hyper, &d.is) != SW_OK)
            continue;
        const bool choice = d.is.kind == SW_CHOICE;
        low = choice ? 0.0 : d.is.low;
        high = choice ? d.is.n_choices - 1 : d.is.high;
        d.at.y = svg_axis_of(low, high, d.is.kind == SW_LOG_UNIFORM,
                             d.at.top + d.at.height - INSET, 2 * INSET - d.at.height);
        d.at.y.whole = d.is.kind == SW_INTEGER;
        panel(&d);
    }
    legend(&d, d.at.top + d.at.height + 44);
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

/* ---- pop page ---------------------------------------------------------------------------- */

/* --plot FILE.html: the picture, a table of the members, one of the shapes, and what memory was
 * predicted to take and took. One file without a script. */

/* Those of the table that are numbers. */
typedef struct {
    cli_column score, loss, values[POP_HYPERS];
} columns;

/* A choice by its label. */
static void value_cell(const pop *p, svg *to, const columns *c, int hyper, double value)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    const bool known = sw_space_at(p->space, hyper, &is) == SW_OK;
    for (int i = 0; known && is.labels != NULL && i < is.n_choices; i++)
        if (is.choices[i] == value) {
            svg_cell(to, is.labels[i]);
            return;
        }
    svg_cell_real(to, &c->values[hyper], value);
}

static void member_row(const pop *p, svg *to, const columns *c, int k, bool best)
{
    const pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    double values[POP_HYPERS];
    sw_pbt_member seen = SW_OPTS(sw_pbt_member);
    svg_print(to, "<tr%s><td>%d</td>", best ? " class=\"first\"" : "", k);
    svg_cell_real(to, &c->score, pop_told(m->score.score));
    svg_cell_real(to, &c->loss, m->score.loss);
    svg_print(to, "<td>%" PRIu64 "</td>", m->steps);
    if (sw_pbt_describe(p->pbt, k, &seen) == SW_OK)
        svg_print(to, "<td>%" PRIu64 "</td>", seen.exploits);
    svg_print(to, "<td>%s</td>", cli_digits(shape->member_bytes).text);
    svg_cell(to, pop_config_text(&shape->config).text);
    if (pop_values(p, k, values) == SW_OK)
        for (int i = 0; i < p->n_hypers; i++)
            value_cell(p, to, c, i, values[i]);
    svg_cell(to, m->failed     ? "failed"
                 : m->diverged ? "diverged"
                 : m->ended    ? "ended"
                               : "goes on");
    svg_print(to, "</tr>\n");
}

static void members(const pop *p, svg *to)
{
    const int best = pop_best(p);
    columns c = {.score = {0}};
    double values[POP_HYPERS];
    for (int k = 0; k < p->n_members; k++) {
        cli_column_take(&c.score, pop_told(p->members[k].score.score));
        cli_column_take(&c.loss, p->members[k].score.loss);
        for (int i = 0; i < p->n_hypers && pop_values(p, k, values) == SW_OK; i++)
            cli_column_take(&c.values[i], values[i]);
    }
    svg_print(to,
              "<table>\n<tr><th>member</th><th>%s</th><th>validation loss</th><th>steps</th>"
              "<th>donors copied</th><th>bytes</th><th>shape</th>",
              pop_metric_name(p));
    for (int i = 0; i < p->n_hypers; i++) {
        svg_print(to, "<th>");
        svg_escaped(to, p->hyper[i].name);
        svg_print(to, "</th>");
    }
    svg_print(to, "<th>state</th></tr>\n");
    for (int k = 0; k < p->n_members; k++)
        member_row(p, to, &c, k, k == best);
    svg_print(to, "</table>\n");
}

/* In the order of the members that have them: places in the list of shapes depend on what was
 * planned when. */
static void shapes(const pop *p, svg *to)
{
    svg_print(to, "<table>\n<tr><th>shape</th><th>members</th><th>bytes of a member</th>"
                  "<th>of a step</th><th>of a batch</th></tr>\n");
    for (int k = 0; k < p->n_members; k++) {
        const int shape = p->members[k].shape;
        int first = 0;
        while (p->members[first].shape != shape)
            first++;
        if (first < k)
            continue;
        const pop_shape *s = p->shapes[shape];
        svg_print(to, "<tr>");
        svg_cell(to, pop_config_text(&s->config).text);
        svg_print(to, "<td>%d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", count(p, shape),
                  cli_digits(s->member_bytes).text, cli_digits(s->arena_bytes).text,
                  cli_digits(s->batch_bytes).text);
    }
    svg_print(to, "</table>\n");
}

/* pop_page.c: the picture and tables as HTML. */
static void pop_page_draw(const pop *p, svg *to)
{
    char line[500], title[FILE_PATH_BYTES];
    snprintf(title, sizeof title, "%s on %s: %d members", p->opts.job.model, p->opts.job.data,
             p->n_members);
    svg_page(to, title);
    pop_plot_draw(p, to, false);
    members(p, to);
    shapes(p, to);
    pop_memory_line(p, false, line, sizeof line);
    svg_print(to, "<p>");
    svg_escaped(to, line);
    svg_print(to, "</p>\n</body>\n</html>\n");
}
