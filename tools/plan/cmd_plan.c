/* stepwell plan: the peaks of a training job, known before a byte of it exists. */
#include "profiler/record/utf8.h"
#include "tools/plan/plan.h"
#include "tools/job/breakdown_put.h"
#include "tools/job/summary.h"
#include "tools/train/train.h"
#include <string.h>

static uint64_t plan_ns(const job *j)
{
    uint64_t ns = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0)
            ns += j->program[i].plan.trace_ns + j->program[i].plan.plan_ns;
    return ns;
}

static void put_program(sw_json *json, job *j, const job_program *p)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "name", p->name);
    sw_json_put_i64(json, "batch", p->batch);
    result_put_predicted(json, j, p);
    sw_json_put_u64(json, "predicted_peak_bytes", p->plan.peak_bytes);
    sw_json_put_u64(json, "immediate_bytes", p->plan.immediate_bytes);
    result_put_totals(json, j, &p->plan);
    sw_json_put_u64(json, "padding_bytes", p->plan.padding_bytes);
    sw_json_put_string(json, "peak_op", p->plan.peak_op);
    breakdown_put(json, j, (job_which)(p - j->program));
    sw_json_end(json);
}

/* The members of one plan; the object is open. */
static void put_plan(sw_json *json, job *j, int64_t samples)
{
    const job_program *main = job_main(j);
    sw_json_put_string(json, "model", j->opts->model);
    sw_json_put_string(json, "device", j->opts->device);
    result_put_batch(json, job_batch(j), j->batch);
    sw_json_put_i64(json, "training_samples", samples);
    result_put_predicted(json, j, main);
    sw_json_put_u64(json, "predicted_peak_bytes", main->plan.peak_bytes);
    result_put_totals(json, j, &main->plan);
    sw_json_put_u64(json, "plan_ns", plan_ns(j));
    breakdown_put(json, j, (job_which)(main - j->program));
    result_put_device(json, j->exec);
    sw_json_open(json, "programs", '[');
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0)
            put_program(json, j, &j->program[i]);
    sw_json_end(json);
}

static sw_status print_plan(job *j, bool quiet, bool summary)
{
    const job_program *main = job_main(j);
    const sw_plan_info *p = &main->plan;
    char name[1024];
    sw_utf8_clean(name, sizeof name, j->train.info.name);
    printf("%s on %s, batch %s, %s\n\n", j->opts->model, name,
           result_batch(job_batch(j), j->batch).text, j->opts->optimizer);
    if (summary) {
        SW_TRY(summary_print(j));
        putchar('\n');
    }
    if (!j->opts->immediate) {
        result_print_phases(p->phase, NULL);
        putchar('\n');
    }
    SW_TRY(breakdown_print(j, (job_which)(main - j->program)));
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

/* ---- several batches --------------------------------------------------------------------- */

static void print_heads(bool immediate)
{
    printf("%10s", "batch");
    for (int i = 0; i < SW_PHASES && !immediate; i++)
        printf(" %10s", sw_phase_name((sw_phase)i));
    printf("%s %10s\n", immediate ? "       peak" : "", "total");
}

/* Peaks of one batch: 76 columns. */
static void print_peaks(const job *j)
{
    const sw_plan_info *p = &job_main(j)->plan;
    printf("%10s", cli_digits((uint64_t)job_batch(j)).text);
    for (int i = 0; i < SW_PHASES && !j->opts->immediate; i++)
        printf(" %10s", sw_text_mib(p->phase[i].peak_bytes).text);
    if (j->opts->immediate)
        printf(" %10s", sw_text_mib(p->peak_bytes).text);
    printf(" %10s\n", sw_text_mib(p->total_bytes).text);
}

static void print_title(const job *j)
{
    char name[1024];
    sw_utf8_clean(name, sizeof name, j->train.info.name);
    printf("%s on %s, %s: peaks of the %s and total_bytes, in MiB\n\n", j->opts->model, name,
           j->opts->optimizer, j->opts->immediate ? "step" : "phases");
    print_heads(j->opts->immediate);
}

/* Of which row more samples were asked for than there are. */
static void print_asked(const job *j, const cli_list *batches)
{
    for (int i = 0; i < batches->n; i++)
        if (batches->at[i] > j->train.n)
            printf("batch %s: the data have no more samples for training\n",
                   result_batch(j->train.n, batches->at[i]).text);
}

/* Each batch has an exec and a model of its own: what one reserves must not count for the next.
 */
static int plan_several(const plan_opts *o, job *j, sw_json *json)
{
    const cli_list *batches = &o->job.batch;
    const int64_t samples = j->train.n;
    int status = CLI_GO;
    uint64_t ns = 0;
    for (int i = 0; i < batches->n && status == CLI_GO; i++) {
        j->batch = batches->at[i];
        status = job_open(j);
        if (status == CLI_GO && json != NULL) {
            sw_json_begin(json, '{');
            put_plan(json, j, samples);
            sw_json_end(json);
        } else if (status == CLI_GO) {
            if (i == 0)
                print_title(j);
            print_peaks(j);
            ns += plan_ns(j);
        }
        job_close(j);
    }
    if (status == CLI_GO && json == NULL && !o->quiet) {
        putchar('\n');
        print_asked(j, batches);
        printf("planned in %s\n", cli_ns(ns).text);
    }
    return status;
}

/* ---- one batch --------------------------------------------------------------------------- */

static int plan_one(const plan_opts *o, job *j, sw_json *json)
{
    plan_fit fit = {0};
    const bool fits = o->fit_bytes > 0;
    const int64_t samples = j->train.n;
    j->batch = o->job.batch.at[0];
    int status = fits ? plan_fit_find(o, j, &fit) : job_open(j);
    if (status == CLI_GO && o->svg != NULL)
        status = plan_svg_write(j, o->svg);
    if (status == CLI_GO && json != NULL) {
        put_plan(json, j, samples);
        if (o->summary)
            summary_put(json, j);
        if (fits)
            plan_fit_put(json, o, &fit);
    } else if (status == CLI_GO) {
        if (fits)
            plan_fit_print(o, &fit);
        const sw_status printed = print_plan(j, o->quiet, o->summary);
        status = printed == SW_OK ? CLI_GO : cli_library_error(printed, false);
    }
    job_close(j);
    return status;
}

static int plan_all(const plan_opts *o, job *j)
{
    const bool several = o->job.batch.n > 1;
    int status;
    if (!o->json) {
        status = several ? plan_several(o, j, NULL) : plan_one(o, j, NULL);
        return status == CLI_GO ? cli_finish(CLI_DONE) : status;
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
    const int methods = plan_methods_check(o);
    if (methods != CLI_GO)
        return methods;
    if (o->fit_bytes > 0 && o->job.batch.n > 0)
        return cli_error(CLI_USAGE,
                         "--fit and --batch exclude each other: --fit finds the batch");
    if (o->fit_bytes > 0 && o->job.budget_bytes > 0)
        return cli_error(CLI_USAGE, "--fit and --memory-budget exclude each other: --fit says "
                                    "what a budget of that size takes, with --no-recompute and "
                                    "without");
    if (o->svg != NULL && strcmp(o->svg, "-") == 0)
        return cli_error(CLI_USAGE, "--svg must be a file: standard output has the result");
    if (o->svg != NULL && o->job.batch.n > 1)
        return cli_error(CLI_USAGE, "--svg draws one plan: --batch gives %d numbers",
                         o->job.batch.n);
    if (o->summary && o->job.batch.n > 1)
        return cli_error(CLI_USAGE, "--summary is of one plan: --batch gives %d numbers",
                         o->job.batch.n);
    if (o->svg != NULL && o->job.immediate)
        return cli_error(CLI_USAGE, "--svg and --immediate exclude each other: without a plan "
                                    "there is nothing to draw");
    return train_check_data("--svg", o->svg, &o->job);
}

int tool_plan(int argc, char **argv)
{
    plan_opts o = {0};
    cli_option table[JOB_OPTIONS_MAX + 8];
    int n = job_options(&o.job, table, 0, false);
    const cli_option own[] = {
        {"--fit", "SIZE", CLI_BYTES, &o.fit_bytes, NULL,
         "find the largest batch with total_bytes (model, arena and data slots, of all "
         "programs of the job, no op run again) of at most this; it may be larger than the "
         "data set, which is then planned as if it had as many images. Also print a larger "
         "batch that fits --memory-budget of that size when ops run again, and what that costs",
         1, 0, NULL},
        {"--method", "LIST", CLI_WORD, &o.methods, NULL,
         "backprop, mezo or es, or several with commas: what each takes, side by side (default "
         "backprop)",
         0, 0, NULL},
        {"--population", "N", CLI_COUNT, &o.population, NULL,
         "with --method es: evaluations of a generation (default as many as a batch has)", 2,
         (int64_t)1 << 32, NULL},
        {"--slice", "N", CLI_COUNT, &o.slice, NULL,
         "with --method es: evaluations of one run, which share the batch (default: one for "
         "each sample of it)",
         2, JOB_BATCH_MAX, NULL},
        {"--summary", NULL, CLI_FLAG, &o.summary, NULL,
         "of one batch: the layers, with output, parameters, saved bytes and operations", 0, 0,
         NULL},
        {"--svg", "FILE", CLI_WORD, &o.svg, NULL,
         "draw the training step's arena: time to the right, addresses upward", 0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "only the program of a full batch", 0, 0,
         NULL},
    };
    memcpy(table + n, own, sizeof own);
    n += (int)(sizeof own / sizeof *own);
    const cli_command command = {
        .name = "plan",
        .usage = "[options]",
        .about = "Print the peak and end bytes of every phase of a training job, without "
                 "tensor memory; for several batches a table of the peaks.",
        .options = table,
        .n_options = n,
        .notes = "With --json standard output has one object, or nothing when the plan was "
                 "refused.",
    };
    int status = cli_parse(&command, argc, argv);
    if (status == CLI_GO)
        status = check(&o);
    if (status == CLI_GO)
        status = job_check(&o.job);
    if (status != CLI_GO)
        return status;
    job j = {.opts = &o.job};
    for (int i = 0; i < o.job.batch.n && o.fit_bytes == 0; i++)
        if (o.job.batch.at[i] > j.limited[0])
            j.limited[0] = j.limited[1] = o.job.batch.at[i];
    status = job_load(&j, true);
    if (status == CLI_GO)
        status = plan_compares(&o) ? plan_methods(&o, &j) : plan_all(&o, &j);
    job_unload(&j);
    return status;
}
