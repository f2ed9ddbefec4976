/* stepwell plan: the peaks of a training job, known before a byte of it exists. */
#include "alloc/base/mem.h"
#include "profiler/record/process.h"
#include "profiler/record/utf8.h"
#include "tools/job/result.h"
#include "runtime/population/es/es_internal.h"
#include "tools/es/es.h"
#include "tools/plan/plan.h"
#include "tools/job/outputs.h"
#include <string.h>

/* stepwell plan --method: what the same job takes by backprop, by zeroth order (mezo) and by
 * evolution strategies (es), side by side.
 *
 * backprop  the job as it is planned without the option
 * mezo      runs of inference; the update is made in the parameters, which are all of the
 * model: it has no optimizer, and what it is made from is a seed and a number es        runs of
 * inference under noise, where a batch is the evaluations of a slice; the update is a program
 * of its own in the same step arena. A generation has 12 bytes for each of its evaluations */

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
    /* With --ranks: of each, what exchanges take, and what it sends in a generation. */
    uint64_t transport_bytes, fitness_sent, estimate_sent;
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

/* Whether it asks for more than what backprop takes. */
static bool plan_compares(const plan_opts *o)
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
           : o->n_precisions > 1   ? "--precision f32,bf16"
           : o->svg != NULL        ? "--svg"
           : o->summary            ? "--summary"
           : j->immediate          ? "--immediate"
           : j->accumulate > 1     ? "--accumulate"
           : j->keep_gradients     ? "--keep-gradients"
           : j->checkpoint != NULL ? "--checkpoint"
                                   : NULL;
}

/* "f32,bf16"; what stays in the job is what takes the other options. */
static int read_precisions(plan_opts *o)
{
    static const char *const words[] = {"f32", "bf16", "f32,bf16", "bf16,f32", NULL};
    const int i = cli_word_at(words, o->job.precision);
    if (i == 4)
        return cli_error(CLI_USAGE, "--precision must be f32, bf16, or f32,bf16 (got '%s')",
                         o->job.precision);
    o->n_precisions = i < 2 ? 1 : 2;
    o->halves[0] = i % 2 == 1;
    o->halves[1] = !o->halves[0];
    o->job.precision = i == 0 ? "f32" : "bf16";
    if (i > 0 && asks_for(o, JOB_ES))
        return cli_error(CLI_USAGE, "--method es and --precision bf16 exclude each other: es "
                                    "computes in f32 alone");
    if (i > 1 && (o->fit_bytes > 0 || o->summary || o->svg != NULL))
        return cli_error(CLI_USAGE, "%s is of one plan: --precision gives two",
                         o->fit_bytes > 0 ? "--fit"
                         : o->summary     ? "--summary"
                                          : "--svg");
    return CLI_GO;
}

/* --method against the others: CLI_GO, or CLI_USAGE. */
static int plan_methods_check(plan_opts *o)
{
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
    if (o->ranks > 1) {
        if (o->n_methods > 1 || o->method[0] == JOB_MEZO)
            return cli_error(CLI_USAGE, "--ranks is planned with --method backprop or es");
        if (o->fit_bytes > 0)
            return cli_error(CLI_USAGE, "--ranks and --fit exclude each other");
        if (strcmp(o->job.device, "cpu") != 0)
            return cli_error(CLI_USAGE,
                             "--ranks: several processes run on --device cpu alone (got %s)",
                             o->job.device);
    }
    if (o->ranks > 1 || o->shards > 0) {
        const job_opts *j = &o->job;
        const char *no = o->fit_bytes > 0                    ? "--fit"
                         : j->accumulate > 1                 ? "--accumulate"
                         : j->keep_gradients                 ? "--keep-gradients"
                         : j->immediate                      ? "--immediate"
                         : o->shards > 0 && plan_compares(o) ? "--method"
                                                             : NULL;
        if (no != NULL)
            return cli_error(CLI_USAGE, "%s and %s exclude each other",
                             o->shards > 0 ? "--shards" : "--ranks", no);
    }
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
static sw_status fill(const plan_opts *o, row *r, job *j)
{
    const int ranks = (int)o->ranks;
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
    r->transport_bytes = es_ranks_bytes(j->es, ranks);
    r->total_bytes += r->es_bytes + r->transport_bytes;
    r->fitness_sent = (uint64_t)(ranks - 1) * es_fitness_bytes(j->es, ranks);
    return swi_es_estimate_sent(j->es, j->exec, ranks, &r->estimate_sent);
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
    const sw_status filled = status == CLI_GO ? fill(o, r, j) : SW_OK;
    if (status == CLI_GO && filled == SW_OK && opts.budget_bytes > 0 &&
        r->total_bytes > opts.budget_bytes)
        status = cli_error(CLI_NO_FIT,
                           "does not fit: es needs %zu bytes, %zu of them for fitness and "
                           "exchanges; the budget is %zu",
                           r->total_bytes, r->es_bytes + (size_t)r->transport_bytes,
                           opts.budget_bytes);
    job_close(j);
    j->opts = &o->job;
    j->train.n = samples;
    r->fits = status == CLI_GO;
    return filled == SW_OK ? status : cli_library_error(filled, false);
}

/* ---- telling ----------------------------------------------------------------------------- */

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

/* Of each of them: bytes for exchanges, part of the total, and what it sends. */
static void put_ranks(sw_json *out, const plan_opts *o, const row *r)
{
    sw_json_put_i64(out, "ranks", o->ranks);
    SW_JSON_PUT(out, r, transport_bytes);
    sw_json_open(out, "sent_bytes_of_a_generation", '{');
    sw_json_put_u64(out, "fitness", r->fitness_sent);
    sw_json_put_u64(out, "estimate", r->estimate_sent);
    sw_json_end(out);
    sw_json_put_u64(out, "sent_bytes_of_the_model",
                    (uint64_t)(o->ranks - 1) * r->run.model_bytes);
}

/* A row for each method, on standard output. The exit status. */
static int plan_methods(const plan_opts *o, job *j)
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
        char name[1024], text[1400];
        sw_utf8_clean(name, sizeof name, j->train.info.name);
        snprintf(text, sizeof text, "%s on %s, %s%s%s%s; bytes in MiB", o->job.model, name,
                 o->job.optimizer, o->job.exec.compute == SW_BF16 ? ", bf16" : "",
                 o->fit_bytes > 0 ? ": the largest batches with a total within " : "",
                 o->fit_bytes > 0 ? cli_bytes(o->fit_bytes).text : "");
        cli_wrap(stdout, 0, 0, text);
        printf("\n%-9s %9s %11s %11s %11s %11s %11s\n", "method", "batch", "model", "arena",
               "data", "peak", "total");
        for (int m = 0; m < o->n_methods; m++)
            print_row(&rows[m]);
        for (int m = 0; m < o->n_methods && !o->quiet; m++) {
            const row *r = &rows[m];
            if (r->method != JOB_ES || !r->fits)
                continue;
            snprintf(text, sizeof text,
                     "\nes: a batch is %s evaluations of %s, %s sample%s each; fitness and "
                     "order take %s; the update has an arena of %s.",
                     cli_digits((uint64_t)(o->slice > 0 ? o->slice : r->batch)).text,
                     cli_digits(r->population).text,
                     cli_digits((uint64_t)(o->slice > 0 ? r->batch / o->slice : 1)).text,
                     o->slice > 0 && r->batch > o->slice ? "s" : "",
                     cli_bytes(r->es_bytes).text, cli_bytes(r->update.arena_bytes).text);
            cli_wrap(stdout, 0, 0, text);
            if (o->ranks == 1)
                continue;
            snprintf(
                text, sizeof text,
                "Each of %s ranks has this total, %s of it for exchanges. In a generation "
                "it sends %s of fitness and %s of the estimate, and before the first %s of "
                "the model.",
                cli_digits((uint64_t)o->ranks).text, cli_bytes(r->transport_bytes).text,
                cli_bytes(r->fitness_sent).text, cli_bytes(r->estimate_sent).text,
                cli_bytes((uint64_t)(o->ranks - 1) * r->run.model_bytes).text);
            cli_wrap(stdout, 0, 0, text);
        }
        return cli_finish(CLI_DONE);
    }
    sw_json out;
    result_json_begin(&out);
    SW_JSON_PUT(&out, &o->job, model, device, precision, optimizer);
    sw_json_put_i64(&out, "training_samples", j->train.n);
    sw_json_open(&out, "methods", '[');
    for (int k = 0; k < o->n_methods; k++) {
        const bool es = rows[k].method == JOB_ES;
        sw_json_begin(&out, '{');
        sw_json_put_string(&out, "method", names[rows[k].method]);
        sw_json_put_bool(&out, "fits", rows[k].fits);
        if (rows[k].fits) {
            result_put_batch(&out, rows[k].batch, rows[k].asked);
            sw_json_put_u64(&out, "predicted_peak_bytes", rows[k].run.peak_bytes);
            result_put_phases(&out, "predicted", rows[k].run.phase);
            SW_JSON_PUT(&out, &rows[k].run, model_bytes, arena_bytes, data_bytes);
            sw_json_put_known(&out, "population", es, rows[k].population);
            sw_json_put_known(&out, "es_bytes", es, rows[k].es_bytes);
            sw_json_put_known(&out, "update_arena_bytes", es, rows[k].update.arena_bytes);
            sw_json_put_u64(&out, "total_bytes", rows[k].total_bytes);
            if (o->ranks > 1)
                put_ranks(&out, o, &rows[k]);
            if (o->fit_bytes > 0)
                plan_fit_put(&out, o, &rows[k].fit);
        }
        sw_json_end(&out);
    }
    sw_json_end(&out);
    return result_json_end(&out, CLI_DONE);
}

/* ---- cmd plan ---------------------------------------------------------------------------- */

static uint64_t plan_ns(const job *j)
{
    uint64_t ns = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0)
            ns += j->program[i].plan.trace_ns + j->program[i].plan.plan_ns;
    return ns;
}

static sw_run_args args_of(job *j, const job_program *program)
{
    return job_args(j, (job_which)(program - j->program), program->inputs, 0);
}

size_t plan_process_bytes(const sw_plan_info *p)
{
    sw_process *now;
    size_t own = 0;
    if (sw_heap_alloc(&now, SW_HEAP_PROFILE, sizeof *now) != SW_OK)
        return 0;
    if (sw_process_read(now) == SW_OK)
        for (size_t i = 0; i < now->n; i++)
            own += now->line[i].kind != SW_PROCESS_ARENA ? now->line[i].resident_bytes : 0;
    sw_heap_free(now, SW_HEAP_PROFILE, sizeof *now);
    return own > 0 ? p->total_bytes + own : 0;
}

/* The members of one plan; the object is open. */
static sw_status put_plan(sw_json *json, job *j, int64_t samples)
{
    const job_program *main = job_main(j);
    const sw_run_args args = args_of(j, main);
    uint64_t gradients = 0, scores = 0;
    if (j->shards > 0)
        SW_TRY(job_sent(j, &gradients, &scores));
    SW_JSON_PUT(json, j->opts, model, device, precision);
    result_put_batch(json, job_batch(j) * job_batches(j), j->batch * job_batches(j));
    sw_json_put_i64(json, "training_samples", samples);
    result_put_predicted(json, j, main);
    sw_json_put_u64(json, "predicted_peak_bytes", main->plan.peak_bytes);
    result_put_totals(json, j, &main->plan);
    if (j->shards > 0) {
        sw_json_put_i64(json, "ranks", j->shards / j->shards_here);
        sw_json_put_i64(json, "shards", j->shards);
        sw_json_put_u64(json, "transport_bytes", j->transport_bytes);
        sw_json_open(json, "sent_bytes_of_a_step", '{');
        sw_json_put_u64(json, "gradients", gradients);
        sw_json_put_u64(json, "scores", scores);
        sw_json_end(json);
        sw_json_put_u64(json, "sent_bytes_of_the_model",
                        (uint64_t)(j->shards / j->shards_here - 1) * main->plan.model_bytes);
    }
    const size_t process = plan_process_bytes(&main->plan);
    sw_json_put_known(json, "process_bytes", process > 0 && !job_on_device(j->opts), process);
    sw_json_put_u64(json, "plan_ns", plan_ns(j));
    breakdown_put(json, j->exec, &args);
    result_put_device(json, j->exec);
    sw_json_open(json, "programs", '[');
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0) {
            const sw_run_args other = args_of(j, &j->program[i]);
            sw_json_begin(json, '{');
            SW_JSON_PUT(json, &j->program[i], name, batch);
            result_put_predicted(json, j, &j->program[i]);
            sw_json_put_u64(json, "predicted_peak_bytes", j->program[i].plan.peak_bytes);
            sw_json_put_u64(json, "immediate_bytes", j->program[i].plan.immediate_bytes);
            result_put_totals(json, j, &j->program[i].plan);
            SW_JSON_PUT(json, &j->program[i].plan, padding_bytes, peak_op);
            breakdown_put(json, j->exec, &other);
            sw_json_end(json);
        }
    sw_json_end(json);
    return SW_OK;
}

static sw_status print_plan(job *j, bool quiet, bool summary)
{
    const job_program *main = job_main(j);
    const sw_plan_info *p = &main->plan;
    const sw_run_args args = args_of(j, main);
    char name[1024];
    sw_utf8_clean(name, sizeof name, j->train.info.name);
    printf("%s on %s, batch %s, %s%s\n\n", j->opts->model, name,
           result_batch(job_batch(j) * job_batches(j), j->batch * job_batches(j)).text,
           j->opts->optimizer, j->opts->exec.compute == SW_BF16 ? ", bf16" : "");
    if (summary) {
        SW_TRY(summary_print(j));
        putchar('\n');
    }
    if (!j->opts->immediate) {
        result_print_phases(p->phase, NULL);
        putchar('\n');
    }
    SW_TRY(breakdown_print(j->exec, &args));
    putchar('\n');
    char peak[240];
    snprintf(peak, sizeof peak, "%s at %s", result_both(p->peak_bytes).text, p->peak_op);
    printf("peak   ");
    cli_wrap(stdout, 7, 7, peak);
    printf("held by ");
    cli_wrap(stdout, 8, 8, p->holders);
    printf("model  %s\n", result_both(p->model_bytes).text);
    if (j->opts->immediate)
        printf("bump   %s\n", result_both(p->arena_bytes).text);
    else
        printf("arena  %s; no plan can be below %s\n", result_both(p->arena_bytes).text,
               cli_digits(p->lower_bound_bytes).text);
    result_print_repeats("again  ", p);
    printf("data   %s\n", result_both(p->data_bytes).text);
    result_print_copy("copy   ", j);
    printf("total  %s\n", result_both(p->total_bytes).text);
    printf("host   %s for the program's records, part of no total\n",
           result_both(p->program_host_bytes).text);
    const size_t process = plan_process_bytes(p);
    if (process > 0 && !job_on_device(j->opts))
        printf("process %s: the total and this program's own\n", result_both(process).text);
    if (j->shards > 0) {
        const int ranks = j->shards / j->shards_here;
        uint64_t gradients, scores;
        char text[300];
        SW_TRY(job_sent(j, &gradients, &scores));
        snprintf(text, sizeof text,
                 "%d, each with %d of the %d shards of a step: %s for exchanges; a step sends "
                 "%s of gradients and %s of scores",
                 ranks, j->shards_here, j->shards, result_both(j->transport_bytes).text,
                 cli_bytes(gradients).text, cli_bytes(scores).text);
        printf("ranks  ");
        cli_wrap(stdout, 7, 7, text);
    }
    result_print_device("card   ", j->exec);
    if (p->launches > 0)
        printf("runs   %s kernels and library calls in each step\n",
               cli_digits(p->launches).text);
    if (quiet)
        return SW_OK;
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const job_program *other = &j->program[i];
        if (other->batch > 0 && other != main)
            printf("%-10s batch %-6lld peak %s\n", other->name, (long long)other->batch,
                   result_both(other->plan.peak_bytes).text);
    }
    printf("planned in %s\n", cli_ns(plan_ns(j)).text);
    return SW_OK;
}

static int told(sw_status status)
{
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

/* ---- several batches, or both precisions ------------------------------------------------- */

static void print_title(const plan_opts *o, const job *j)
{
    char name[1024];
    sw_utf8_clean(name, sizeof name, j->train.info.name);
    printf("%s on %s, %s%s: peaks of the %s and total_bytes, in MiB\n\n", j->opts->model, name,
           j->opts->optimizer, o->n_precisions == 1 && o->halves[0] ? ", bf16" : "",
           j->opts->immediate ? "step" : "phases");
    printf("%s%10s", o->n_precisions > 1 ? "    " : "", "batch");
    for (int i = 0; i < SW_PHASES && !j->opts->immediate; i++)
        printf(" %10s", sw_phase_name((sw_phase)i));
    printf("%s %10s\n", j->opts->immediate ? "       peak" : "", "total");
}

/* Each batch has an exec and a model of its own: what one reserves must not count for the
 * next. */
static int plan_several(const plan_opts *o, job *j, sw_json *json)
{
    const cli_list *batches = &o->job.batch;
    const int64_t samples = j->train.n;
    int status = CLI_GO;
    uint64_t ns = 0;
    job_opts opts = o->job;
    j->opts = &opts;
    for (int i = 0; i < batches->n * o->n_precisions && status == CLI_GO; i++) {
        const bool halves = o->halves[i % o->n_precisions];
        opts.precision = halves ? "bf16" : "f32";
        opts.bf16_order = halves ? o->job.bf16_order : NULL;
        j->batch = batches->at[i / o->n_precisions];
        status = job_precision(&opts, NULL);
        if (status == CLI_GO)
            status = job_set_shards(j, j->batch, o->shards, (int)o->ranks);
        if (status == CLI_GO)
            status = job_open(j);
        if (status == CLI_GO && json != NULL) {
            sw_json_begin(json, '{');
            status = told(put_plan(json, j, samples));
            sw_json_end(json);
        } else if (status == CLI_GO) {
            if (i == 0)
                print_title(o, j);
            /* Peaks of one batch: 76 columns, or 80. */
            const sw_plan_info *p = &job_main(j)->plan;
            if (o->n_precisions > 1)
                printf("%-4s", opts.precision);
            printf("%10s", cli_digits((uint64_t)(job_batch(j) * job_batches(j))).text);
            for (int m = 0; m < SW_PHASES && !j->opts->immediate; m++)
                printf(" %10s", sw_text_mib(p->phase[m].peak_bytes).text);
            if (j->opts->immediate)
                printf(" %10s", sw_text_mib(p->peak_bytes).text);
            printf(" %10s\n", sw_text_mib(p->total_bytes).text);
            ns += plan_ns(j);
        }
        job_close(j);
    }
    j->opts = &o->job;
    if (status == CLI_GO && json == NULL && !o->quiet) {
        putchar('\n');
        /* Of which row more samples were asked for than there are. */
        for (int k = 0; k < batches->n; k++)
            if (batches->at[k] > j->train.n)
                printf("batch %s: the data have no more samples for training\n",
                       result_batch(j->train.n, batches->at[k]).text);
        printf("planned in %s\n", cli_ns(ns).text);
    }
    return status;
}

/* ---- one batch --------------------------------------------------------------------------- */

/* The plan is that of the answer. */
static int plan_traded(const plan_opts *o, job *j, sw_json *json)
{
    plan_trade *t;
    CLI_LIBRARY(sw_heap_alloc(&t, SW_HEAP_FILES, sizeof *t), false);
    int status = plan_trade_find(o, j, t);
    job *best = &t->job[t->at];
    if (status == CLI_GO && o->svg != NULL)
        status = o->curve ? plan_svg_curve(t, o->svg) : plan_svg_write(best, o->svg);
    if (status == CLI_GO && json != NULL) {
        status = told(put_plan(json, best, t->own[t->at] ? best->train.info.n : j->train.n));
        if (o->summary)
            summary_put(json, best);
        plan_trade_put(json, t);
    } else if (status == CLI_GO) {
        plan_trade_print(t);
        status = told(print_plan(best, o->quiet, o->summary));
    }
    plan_trade_close(t);
    sw_heap_free(t, SW_HEAP_FILES, sizeof *t);
    return status;
}

static int plan_one(const plan_opts *o, job *j, sw_json *json)
{
    if (plan_trades(o))
        return plan_traded(o, j, json);
    plan_fit fit = {0};
    const bool fits = o->fit_bytes > 0;
    const int64_t samples = j->train.n;
    j->batch = o->job.batch.at[0];
    CLI_TRY(job_set_shards(j, j->batch, o->shards, (int)o->ranks));
    int status = fits ? plan_fit_find(o, j, &fit) : job_open(j);
    if (status == CLI_GO && o->svg != NULL)
        status = plan_svg_write(j, o->svg);
    if (status == CLI_GO && json != NULL) {
        status = told(put_plan(json, j, samples));
        if (o->summary)
            summary_put(json, j);
        if (fits)
            plan_fit_put(json, o, &fit);
    } else if (status == CLI_GO) {
        if (fits)
            plan_fit_print(o, &fit);
        status = told(print_plan(j, o->quiet, o->summary));
    }
    if (status == CLI_GO && o->explain)
        status = plan_peak_tell(o, j, json);
    job_close(j);
    return status;
}

static int plan_all(const plan_opts *o, job *j)
{
    const bool several = o->job.batch.n > 1 || o->n_precisions > 1;
    int status;
    if (!o->json) {
        CLI_TRY(several ? plan_several(o, j, NULL) : plan_one(o, j, NULL));
        return cli_finish(CLI_DONE);
    }
    sw_json out;
    result_json_begin(&out);
    if (several) {
        sw_json_open(&out, "plans", '[');
        status = plan_several(o, j, &out);
        sw_json_end(&out);
    } else {
        status = plan_one(o, j, &out);
    }
    if (status == CLI_GO)
        return result_json_end(&out, CLI_DONE);
    sw_json_free(&out);
    return status;
}

/* ---- options ----------------------------------------------------------------------------- */

/* Before job_check, which gives --batch its default. */
static int check(plan_opts *o)
{
    CLI_TRY(read_methods(o));
    CLI_TRY(read_precisions(o));
    CLI_TRY(plan_methods_check(o));
    CLI_TRY(plan_trade_check(o));
    if (o->fit_bytes > 0 && o->over == PLAN_BATCH && o->job.batch.n > 0)
        return cli_error(CLI_USAGE,
                         "--fit and --batch exclude each other: --fit finds the batch");
    if (o->fit_bytes > 0 && o->job.budget_bytes > 0)
        return cli_error(CLI_USAGE, "--fit and --memory-budget exclude each other: --fit says "
                                    "what a budget of that size takes, with --no-recompute and "
                                    "without");
    if (o->svg != NULL && o->job.batch.n > 1)
        return cli_error(CLI_USAGE, "--svg draws one plan: --batch gives %d numbers",
                         o->job.batch.n);
    if (o->summary && o->job.batch.n > 1)
        return cli_error(CLI_USAGE, "--summary is of one plan: --batch gives %d numbers",
                         o->job.batch.n);
    if (o->svg != NULL && o->job.immediate)
        return cli_error(CLI_USAGE, "--svg and --immediate exclude each other: without a plan "
                                    "there is nothing to draw");
    const char *no = o->fit_bytes > 0      ? "--fit"
                     : plan_compares(o)    ? "--method"
                     : o->job.batch.n > 1  ? "--batch with several numbers"
                     : o->n_precisions > 1 ? "--precision f32,bf16"
                     : o->job.immediate    ? "--immediate"
                     : o->ranks > 1        ? "--ranks"
                     : o->shards > 0       ? "--shards"
                                           : NULL;
    if (o->explain && no != NULL)
        return cli_error(CLI_USAGE, "--explain-peak and %s exclude each other", no);
    o->update = o->job.update;
    const job_output file = {"--svg", o->svg, JOB_BESIDE, .no_stream = true};
    return job_outputs_check(&file, 1, &o->job, NULL, NULL, 0);
}

int tool_plan(int argc, char **argv)
{
    plan_opts o = {0};
    cli_option table[JOB_OPTIONS_MAX + 15];
    int n = job_options(&o.job, table, 0, false);
    const cli_option own[] = {
        {"--fit", "SIZE", CLI_BYTES, &o.fit_bytes, NULL,
         "find the largest batch with total_bytes (model, arena and data slots, of all "
         "programs of the job, no op run again) of at most this; it may be larger than the "
         "data set, which is then planned as if it had as many images. Also print a larger "
         "batch that fits --memory-budget of that size when ops run again, and what that costs",
         1, 0, NULL},
        {"--overhead", "PERCENT", CLI_WORD, &o.overhead, NULL,
         "with --fit: the largest whose plan within that size takes at most so much more time, "
         "as 10%; ops run again as under --memory-budget",
         .with = "--fit"},
        {"--curve", NULL, CLI_FLAG, &o.curve, NULL,
         "with --fit: at most 12 sizes up to the largest that fits at all, with the predicted "
         "time of a sample (with --over context, of an id); with --svg as a picture",
         .with = "--fit"},
        {"--over", "WORD", CLI_WORD, &o.over_word, "batch",
         "what --fit varies: batch, context, layers, width, or lora (its rank), where --model "
         "has that option",
         0, 0, plan_over_words, .with = "--fit"},
        {"--method", "LIST", CLI_WORD, &o.methods, NULL,
         "backprop, mezo or es, or several with commas: what each takes, side by side (default "
         "backprop)"},
        {"--population", "N", CLI_COUNT, &o.population, NULL,
         "with --method es: evaluations of a generation (default as many as a batch has)", 2,
         (int64_t)1 << 32, NULL},
        {"--slice", "N", CLI_COUNT, &o.slice, NULL,
         "with --method es: evaluations of one run, which share the batch (default: one for "
         "each sample of it)",
         2, JOB_BATCH_MAX, NULL},
        {"--ranks", "N", CLI_COUNT, &o.ranks, "1",
         "plan each of so many processes, and what it sends", 1, SWI_RANKS_MOST, NULL},
        {"--shards", "N", CLI_COUNT, &o.shards, NULL,
         "a step is N batches of --batch / N samples, as in train (default: one for each rank)",
         1, SWI_SHARDS_MOST, NULL},
        {"--summary", NULL, CLI_FLAG, &o.summary, NULL,
         "of one batch: the layers, with output, parameters, saved bytes and operations"},
        {"--sample", NULL, CLI_FLAG, &o.sample, NULL,
         "with --model hf:DIR: what stepwell sample takes, not a training job",
         .with = "--model hf:"},
        {"--svg", "FILE", CLI_WORD, &o.svg, NULL,
         "draw the training step's arena: time to the right, addresses upward"},
        {"--explain-peak", NULL, CLI_FLAG, &o.explain, NULL,
         "of one batch: the tensors that live at the peak, and the options that make it less, "
         "each planned"},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output"},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "only the program of a full batch"},
    };
    memcpy(table + n, own, sizeof own);
    n += (int)(sizeof own / sizeof *own);
    const cli_command command = {
        .name = "plan",
        .usage = "[options]",
        .about = "Print the peak and end bytes of every phase of a training job, without "
                 "tensor memory; for several batches, or both precisions, a table of the "
                 "peaks.",
        .options = table,
        .n_options = n,
        .notes = "With --json standard output has one object, or nothing when the plan was "
                 "refused.",
    };
    CLI_TRY(cli_parse(&command, argc, argv));
    o.job.settings.planned = true;
    if (o.sample)
        return plan_sample(&o, &command);
    CLI_TRY(check(&o));
    if (o.job.accumulate == 0 && plan_compares(&o))
        o.job.accumulate = 1;
    o.job.parts = o.shards > 0 ? o.shards : o.ranks > 1 ? o.ranks : 0;
    CLI_TRY(job_check(&o.job));
    job j = {.opts = &o.job};
    for (int i = 0; i < o.job.batch.n && o.fit_bytes == 0; i++)
        if (o.job.batch.at[i] > j.limited[0])
            j.limited[0] = j.limited[1] = o.job.batch.at[i];
    int status = job_load(&j, true);
    if (status == CLI_GO && asks_for(&o, JOB_ES))
        status = job_refuse_documents(&j, "es");
    if (status == CLI_GO && !o.json && !o.quiet)
        job_tell_documents(&j, stderr);
    if (status == CLI_GO)
        status = plan_compares(&o) ? plan_methods(&o, &j) : plan_all(&o, &j);
    job_unload(&j);
    return status;
}
