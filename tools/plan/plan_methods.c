/* stepwell plan --method: what the same job takes by backprop, by zeroth order (mezo) and by
 * evolution strategies (es), side by side.
 *
 * backprop  the job as it is planned without the option
 * mezo      runs of inference; the update is made in the parameters, which are all of the
 * model: it has no optimizer, and what it is made from is a seed and a number es        runs of
 * inference under noise, where a batch is the evaluations of a slice; the update is a program
 * of its own in the same step arena. A generation has 12 bytes for each of its evaluations */
#include "profiler/record/utf8.h"
#include "tools/plan/plan.h"
#include <string.h>

static const char *const names[] = {"backprop", "mezo", "es"}; /* in the order of job_method */
enum { METHODS = sizeof names / sizeof *names };

typedef struct {
    job_method method;
    bool fits;
    int64_t batch; /* rows of a run; 0: none fits */
    int64_t asked;
    sw_plan_info run;    /* of a full batch */
    sw_plan_info update; /* es alone: of the program that updates */
    uint64_t population;
    size_t es_bytes, total_bytes;
    plan_fit fit; /* with --fit */
} row;

/* ---- options ----------------------------------------------------------------------------- */

static int method_of(const char *name, size_t n)
{
    int i = 0;
    while (i < METHODS && (strlen(names[i]) != n || strncmp(names[i], name, n) != 0))
        i++;
    return i;
}

/* "backprop,es" */
static int read_methods(plan_opts *o)
{
    const char *at = o->methods != NULL ? o->methods : names[JOB_BACKPROP];
    for (;; at++) {
        const size_t n = strcspn(at, ",");
        const int method = method_of(at, n);
        if (method == METHODS)
            return cli_error(CLI_USAGE,
                             "--method must be backprop, mezo or es, or several with commas "
                             "(got '%.*s')",
                             (int)n, at);
        for (int i = 0; i < o->n_methods; i++)
            if (o->method[i] == (job_method)method)
                return cli_error(CLI_USAGE, "--method has %s twice", names[method]);
        o->method[o->n_methods++] = (job_method)method;
        at += n;
        if (*at == '\0')
            return CLI_GO;
    }
}

bool plan_compares(const plan_opts *o)
{
    return o->n_methods > 1 || o->method[0] != JOB_BACKPROP;
}

static bool asks_for(const plan_opts *o, job_method method)
{
    bool there = false;
    for (int i = 0; i < o->n_methods; i++)
        there |= o->method[i] == method;
    return there;
}

/* Options of backprop alone. */
static const char *of_backprop(const plan_opts *o)
{
    const job_opts *j = &o->job;
    return j->batch.n > 1          ? "--batch with several numbers"
           : o->svg != NULL        ? "--svg"
           : o->summary            ? "--summary"
           : j->immediate          ? "--immediate"
           : j->accumulate > 1     ? "--accumulate"
           : j->keep_gradients     ? "--keep-gradients"
           : j->checkpoint != NULL ? "--checkpoint"
                                   : NULL;
}

int plan_methods_check(plan_opts *o)
{
    const int status = read_methods(o);
    if (status != CLI_GO)
        return status;
    const char *alone = o->population > 0 ? "--population" : o->slice > 0 ? "--slice" : NULL;
    if (alone != NULL && !asks_for(o, JOB_ES))
        return cli_error(CLI_USAGE, "%s has no effect without --method es", alone);
    if (o->slice % 2 != 0 || o->population % 2 != 0)
        return cli_error(CLI_USAGE,
                         "%s must be even: evaluations come in antithetic pairs (got %lld)",
                         o->slice % 2 != 0 ? "--slice" : "--population",
                         (long long)(o->slice % 2 != 0 ? o->slice : o->population));
    if (o->population > 0 && o->slice > o->population)
        return cli_error(CLI_USAGE, "--slice must be at most --population %lld (got %lld)",
                         (long long)o->population, (long long)o->slice);
    if (plan_compares(o) && of_backprop(o) != NULL)
        return cli_error(CLI_USAGE, "--method %s and %s exclude each other", o->methods,
                         of_backprop(o));
    return CLI_GO;
}

/* ---- one method -------------------------------------------------------------------------- */

sw_es_opts plan_es_opts(const plan_opts *o, int64_t batch)
{
    const int64_t slice = o->slice > 0 ? o->slice : batch;
    const int64_t all = o->population > slice ? o->population : slice;
    return SW_OPTS(sw_es_opts, .directions = (uint32_t)(all / 2),
                   .slice = (uint32_t)(slice / 2), .seed = (uint64_t)o->job.seed);
}

int64_t plan_es_unit(const plan_opts *o)
{
    return o->slice > 0 ? o->slice : 2;
}

/* Figures of what was planned; the programs of the job are those of its batch. */
static sw_status fill(row *r, job *j)
{
    r->batch = job_batch(j);
    r->asked = j->batch;
    r->run = job_main(j)->plan;
    r->total_bytes = job_total_bytes(j);
    if (r->method != JOB_ES)
        return SW_OK;
    r->update = SW_OPTS(sw_plan_info);
    SW_TRY(sw_es_plan(j->es, j->exec, &r->update));
    r->es_bytes = sw_es_bytes(j->es);
    r->population = (uint64_t)j->es_opts.directions * 2;
    if (r->update.total_bytes > r->total_bytes)
        r->total_bytes = r->update.total_bytes;
    r->total_bytes += r->es_bytes;
    return SW_OK;
}

static int check_batch(const plan_opts *o, job_method method, int64_t batch)
{
    const int64_t unit = plan_es_unit(o);
    if (method != JOB_ES)
        return CLI_GO;
    if (batch % unit != 0)
        return cli_error(CLI_USAGE,
                         "--method es: --batch must be a multiple of %lld, the evaluations of "
                         "a %s (got %lld)",
                         (long long)unit, o->slice > 0 ? "slice" : "pair", (long long)batch);
    if (o->slice == 0 && o->population > 0 && batch > o->population)
        return cli_error(CLI_USAGE,
                         "--method es: --batch must be at most --population %lld, or --slice "
                         "must say how many evaluations share it (got %lld)",
                         (long long)o->population, (long long)batch);
    return CLI_GO;
}

/* With no model, exec or budget left. A method that does not fit is a row too. */
static int plan_row(const plan_opts *o, job *j, row *r)
{
    job_opts opts = o->job;
    const int64_t samples = j->train.n; /* a search changes it */
    opts.method = r->method;
    j->opts = &opts;
    int status = CLI_GO;
    if (o->fit_bytes > 0) {
        status = plan_fit_find(o, j, &r->fit);
    } else {
        j->batch = opts.batch.at[0];
        j->es_opts = plan_es_opts(o, j->batch);
        status = check_batch(o, r->method, j->batch);
        if (status == CLI_GO)
            status = job_open(j);
    }
    const sw_status filled = status == CLI_GO ? fill(r, j) : SW_OK;
    job_close(j);
    j->opts = &o->job;
    j->train.n = samples;
    r->fits = status == CLI_GO;
    return filled == SW_OK ? status : cli_library_error(filled, false);
}

/* ---- telling ----------------------------------------------------------------------------- */

static void put_row(sw_json *json, const plan_opts *o, const row *r)
{
    const bool es = r->method == JOB_ES;
    sw_json_begin(json, '{');
    sw_json_put_string(json, "method", names[r->method]);
    sw_json_put_bool(json, "fits", r->fits);
    if (r->fits) {
        result_put_batch(json, r->batch, r->asked);
        sw_json_put_u64(json, "predicted_peak_bytes", r->run.peak_bytes);
        result_put_phases(json, "predicted", r->run.phase);
        sw_json_put_u64(json, "model_bytes", r->run.model_bytes);
        sw_json_put_u64(json, "arena_bytes", r->run.arena_bytes);
        sw_json_put_u64(json, "data_bytes", r->run.data_bytes);
        sw_json_put_known(json, "population", es, r->population);
        sw_json_put_known(json, "es_bytes", es, r->es_bytes);
        sw_json_put_known(json, "update_arena_bytes", es, r->update.arena_bytes);
        sw_json_put_u64(json, "total_bytes", r->total_bytes);
        if (o->fit_bytes > 0)
            plan_fit_put(json, o, &r->fit);
    }
    sw_json_end(json);
}

static void put_rows(sw_json *json, const plan_opts *o, const job *j, const row *rows)
{
    sw_json_put_string(json, "model", o->job.model);
    sw_json_put_string(json, "device", o->job.device);
    sw_json_put_string(json, "optimizer", o->job.optimizer);
    sw_json_put_i64(json, "training_samples", j->train.n);
    sw_json_open(json, "methods", '[');
    for (int i = 0; i < o->n_methods; i++)
        put_row(json, o, &rows[i]);
    sw_json_end(json);
}

/* 78 columns. */
static void print_row(const row *r)
{
    printf("%-9s", names[r->method]);
    if (!r->fits) {
        printf(" does not fit\n");
        return;
    }
    printf(" %9s %11s %11s %11s %11s %11s\n", cli_digits((uint64_t)r->batch).text,
           sw_text_mib(r->run.model_bytes).text, sw_text_mib(r->run.arena_bytes).text,
           sw_text_mib(r->run.data_bytes).text, sw_text_mib(r->run.peak_bytes).text,
           sw_text_mib(r->total_bytes).text);
}

static void print_rows(const plan_opts *o, const job *j, const row *rows)
{
    char name[1024], text[1400];
    sw_utf8_clean(name, sizeof name, j->train.info.name);
    snprintf(text, sizeof text, "%s on %s, %s%s%s; bytes in MiB", o->job.model, name,
             o->job.optimizer,
             o->fit_bytes > 0 ? ": the largest batches with a total within " : "",
             o->fit_bytes > 0 ? cli_bytes(o->fit_bytes).text : "");
    cli_wrap(stdout, 0, 0, text);
    printf("\n%-9s %9s %11s %11s %11s %11s %11s\n", "method", "batch", "model", "arena", "data",
           "peak", "total");
    for (int i = 0; i < o->n_methods; i++)
        print_row(&rows[i]);
    for (int i = 0; i < o->n_methods && !o->quiet; i++) {
        const row *r = &rows[i];
        if (r->method != JOB_ES || !r->fits)
            continue;
        snprintf(text, sizeof text,
                 "\nes: a batch is %s evaluations of %s, %s sample%s each; fitness and order "
                 "take %s; the update has an arena of %s.",
                 cli_digits((uint64_t)(o->slice > 0 ? o->slice : r->batch)).text,
                 cli_digits(r->population).text,
                 cli_digits((uint64_t)(o->slice > 0 ? r->batch / o->slice : 1)).text,
                 o->slice > 0 && r->batch > o->slice ? "s" : "", cli_bytes(r->es_bytes).text,
                 cli_bytes(r->update.arena_bytes).text);
        cli_wrap(stdout, 0, 0, text);
    }
}

int plan_methods(const plan_opts *o, job *j)
{
    row rows[METHODS] = {{.fits = false}};
    int status = CLI_GO, fit = 0;
    for (int i = 0; i < o->n_methods && (status == CLI_GO || status == CLI_NO_FIT); i++) {
        rows[i].method = o->method[i];
        status = plan_row(o, j, &rows[i]);
        fit += rows[i].fits;
    }
    if (status != CLI_GO && (status != CLI_NO_FIT || fit == 0))
        return status;
    if (!o->json) {
        print_rows(o, j, rows);
        return cli_finish(CLI_DONE);
    }
    sw_json out;
    result_json_begin(&out);
    put_rows(&out, o, j, rows);
    return result_json_end(&out, CLI_DONE);
}
