/* stepwell plan: the peaks of a training job, known before a byte of it exists. */
#include "tools/result.h"

typedef struct {
    job_opts job;
    bool json, quiet;
} plan_opts;

static uint64_t plan_ns(const job *j)
{
    uint64_t ns = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0)
            ns += j->program[i].plan.trace_ns + j->program[i].plan.plan_ns;
    return ns;
}

static void put_program(sw_json *json, const job *j, const job_program *p)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "name", p->name);
    sw_json_put_i64(json, "batch", p->batch);
    result_put_predicted(json, j, p);
    sw_json_put_u64(json, "predicted_peak_bytes", p->plan.peak_bytes);
    sw_json_put_u64(json, "immediate_bytes", p->plan.immediate_bytes);
    result_put_totals(json, &p->plan);
    sw_json_put_u64(json, "padding_bytes", p->plan.padding_bytes);
    sw_json_put_string(json, "peak_op", p->plan.peak_op);
    sw_json_end(json);
}

/* The members of one plan; the object is open. */
static void put_plan(sw_json *json, const job *j)
{
    const job_program *main = job_main(j);
    sw_json_put_string(json, "model", j->opts->model);
    sw_json_put_string(json, "device", j->opts->device);
    sw_json_put_i64(json, "batch", j->batch);
    result_put_predicted(json, j, main);
    sw_json_put_u64(json, "predicted_peak_bytes", main->plan.peak_bytes);
    result_put_totals(json, &main->plan);
    sw_json_put_u64(json, "plan_ns", plan_ns(j));
    sw_json_open(json, "programs", '[');
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0)
            put_program(json, j, &j->program[i]);
    sw_json_end(json);
}

static void print_plan(const job *j, bool quiet)
{
    const job_program *main = job_main(j);
    const sw_plan_info *p = &main->plan;
    char name[1024];
    cli_clean(name, sizeof name, j->train.info.name);
    printf("%s on %s, batch %lld, %s\n\n", j->opts->model, name, (long long)j->batch,
           j->opts->optimizer);
    if (!j->opts->immediate) {
        result_print_phases(p->phase, NULL);
        putchar('\n');
    }
    printf("peak   %s at %s\n", result_both(p->peak_bytes).text, p->peak_op);
    printf("held by %s\n", p->holders);
    printf("model  %s\n", result_both(p->model_bytes).text);
    if (j->opts->immediate)
        printf("bump   %s\n", result_both(p->arena_bytes).text);
    else
        printf("arena  %s; no plan can be below %s\n", result_both(p->arena_bytes).text,
               cli_digits(p->lower_bound_bytes).text);
    printf("data   %s\n", result_both(p->data_bytes).text);
    printf("total  %s\n", result_both(p->total_bytes).text);
    if (quiet)
        return;
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const job_program *other = &j->program[i];
        if (other->batch > 0 && other != main)
            printf("%-10s batch %-6lld peak %s\n", other->name, (long long)other->batch,
                   result_both(other->plan.peak_bytes).text);
    }
    printf("planned in %s\n", cli_ns(plan_ns(j)).text);
}

static int plan_batch(const plan_opts *o, job *j, int64_t batch, sw_json *json)
{
    j->opts = &o->job;
    j->batch = batch;
    const int status = job_open(j);
    if (status == CLI_GO && json != NULL)
        put_plan(json, j);
    else if (status == CLI_GO)
        print_plan(j, o->quiet);
    job_close(j);
    return status;
}

/* Each batch has an exec and a model of its own: what one reserves must not count for the next.
 */
static int plan_all(const plan_opts *o, job *j)
{
    const cli_list *batches = &o->job.batch;
    int status = CLI_GO;
    if (!o->json) {
        for (int i = 0; i < batches->n && status == CLI_GO; i++) {
            printf("%s", i > 0 ? "\n" : "");
            status = plan_batch(o, j, batches->at[i], NULL);
        }
        return status == CLI_GO ? cli_finish(CLI_DONE) : status;
    }
    sw_json out;
    result_json_begin(&out);
    if (batches->n == 1) {
        status = plan_batch(o, j, batches->at[0], &out);
    } else {
        sw_json_open(&out, "plans", '[');
        for (int i = 0; i < batches->n && status == CLI_GO; i++) {
            sw_json_begin(&out, '{');
            status = plan_batch(o, j, batches->at[i], &out);
            sw_json_end(&out);
        }
        sw_json_end(&out);
    }
    if (status == CLI_GO)
        return result_json_end(&out, CLI_DONE);
    sw_json_free(&out);
    return status;
}

int tool_plan(int argc, char **argv)
{
    plan_opts o = {0};
    cli_option table[JOB_OPTIONS_MAX + 4];
    int n = job_options(&o.job, table, 0, false);
    table[n++] = (cli_option){"--json", NULL, CLI_FLAG,
                              &o.json,  NULL, "one JSON object on standard output",
                              0,        0,    NULL};
    table[n++] = (cli_option){"--quiet", NULL, CLI_FLAG,
                              &o.quiet,  NULL, "only the program of a full batch",
                              0,         0,    NULL};
    table[n++] = (cli_option){"--fit", "SIZE", CLI_NOT_BUILT, NULL, NULL, "", 0, 0, NULL};
    const cli_command command = {
        .name = "plan",
        .usage = "[options]",
        .about = "Print the peak and end bytes of every phase of a training job, without "
                 "tensor memory.",
        .options = table,
        .n_options = n,
        .notes = "With --json standard output has one object, or nothing when the plan was "
                 "refused.",
    };
    int status = cli_parse(&command, argc, argv);
    if (status == CLI_GO)
        status = job_check(&o.job);
    if (status != CLI_GO)
        return status;
    job j = {.opts = &o.job};
    status = job_load(&j, true);
    if (status == CLI_GO)
        status = plan_all(&o, &j);
    job_unload(&j);
    return status;
}
