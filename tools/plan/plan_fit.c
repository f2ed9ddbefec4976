/* stepwell plan --fit: the largest batch whose job fits a size.
 *
 * The total_bytes (model + step arena + data slots) of each program of the job must fit: full
 * and last batch, training and evaluation. That is what a budget of this size would ask for. A
 * batch that is larger than the data set is planned as if the set had that many images for
 * training, since a user asks what the memory takes, not what the set has; the test set stays
 * as it is.
 *
 * The bound of a batch is model + data slots + the most that lives at one time in the training
 * program of a full batch: no placement needs less arena, and the job has that program (with
 * --accumulate, that of a micro-batch that updates nothing). From
 * SWI_ONE_LAYOUT_FROM on, or 2 where the data are no images, it does not fall when the batch
 * grows:
 * - the model does not change, and slots hold the inputs, whose first dim is the batch; a
 * larger batch never has fewer of them;
 * - the step functions of the models append the same ops for each batch, and layouts are the
 * same from there on: so the order of ops, and first and last touch of each tensor, are the
 * same (the structure that is compared: ops, tensors, storages);
 * - dims of tensors are those of the model or multiples of the batch, and scratch of a kernel
 *   is a product of dims or a number of partial sums that grows with the blocks of images;
 * - an op may work in place where input and result have equal shapes, for one batch as for all
 *   above 1.
 * So the sum that lives at each op grows, and the largest of these sums too. In immediate mode
 * the bound is the total: all that a step ever makes.
 *
 * A budget of the size takes larger batches, since ops run again under it. Which is the largest
 * is not searched: a few are planned under such a budget, and the first that fits is named.
 *
 * Whatever the model is, inputs alone exclude the batches above SIZE / (their bytes of
 * one image): the search begins there. */
#include "tools/job/result.h"
#include "tools/plan/plan.h"
#include <string.h>

typedef struct {
    job *job;
    size_t fit_bytes;
    int64_t images;
    const plan_opts *opts; /* of a search for es; else what is searched are batches */
    int64_t unit;          /* rows of a run are multiples of it: what is searched is how many */
} task;

/* A strategy has a number of evaluations in a run that is its own: another batch is another
 * strategy, whose knobs and states the model has. */
static sw_status set_batch(const task *t, int64_t units)
{
    const int64_t batch = units * t->unit;
    t->job->train.n = batch > t->images ? batch : t->images;
    if (t->opts != NULL && t->opts->slice == 0) {
        job_close(t->job);
        t->job->es_opts = plan_es_opts(t->opts, batch);
        SW_TRY(job_make(t->job));
    }
    job_set_batch(t->job, batch);
    return SW_OK;
}

/* Beside the programs: what updates by the fitness of a generation, and that fitness. */
static sw_status update_of(const task *t, size_t *total, size_t *fitness)
{
    sw_plan_info update = SW_OPTS(sw_plan_info);
    *total = *fitness = 0;
    if (t->opts == NULL)
        return SW_OK;
    SW_TRY(sw_es_plan(t->job->es, t->job->exec, &update));
    *fitness = sw_es_bytes(t->job->es);
    *total = update.total_bytes + *fitness;
    return SW_OK;
}

static sw_status bound_of(void *context, int64_t batch, plan_bound *out)
{
    const task *t = context;
    SW_TRY(set_batch(t, batch));
    const job_which which =
        t->job->program[JOB_MICRO].batch > 0 ? JOB_MICRO : JOB_TRAIN; /* each batch has one */
    const sw_plan_info *p = &t->job->program[which].plan;
    SW_TRY(job_plan(t->job, which));
    out->bytes = t->job->opts->immediate
                     ? p->total_bytes
                     : p->model_bytes + p->data_bytes + p->lower_bound_bytes +
                           job_counted_checkpoint_bytes(t->job);
    out->structure = ((uint64_t)which << 62) ^ ((uint64_t)p->n_ops << 42) ^
                     ((uint64_t)p->n_values << 21) ^ p->n_storages;
    return SW_OK;
}

/* The whole job, or as much of it as shows that it does not fit. */
static sw_status plan_job(const task *t, int64_t batch, size_t enough, size_t *out)
{
    SW_TRY(set_batch(t, batch));
    size_t fitness; /* beside each program */
    SW_TRY(update_of(t, out, &fitness));
    for (int i = 0; i < JOB_PROGRAMS && *out <= enough; i++) {
        const job_program *p = &t->job->program[i];
        if (p->batch == 0)
            continue;
        SW_TRY(job_plan(t->job, (job_which)i));
        if (p->plan.total_bytes + fitness > *out)
            *out = p->plan.total_bytes + fitness;
    }
    return SW_OK;
}

static sw_status total_of(void *context, int64_t batch, size_t *out)
{
    const task *t = context;
    return plan_job(t, batch, t->fit_bytes, out);
}

/* ---- under a budget ---------------------------------------------------------------------- */

job plan_beside(const job *from, const job_opts *opts, int64_t batch)
{
    return (job)SW_INIT(.opts = opts, .batch = batch, .keep_programs = JOB_PROGRAMS,
                        .train = from->train, .test = from->test, .normal = from->normal,
                        .machine = from->machine);
}

sw_status plan_program(job *j, job_which which, bool *fits)
{
    const size_t budget = j->opts->budget_bytes;
    const sw_status status = job_plan(j, which);
    *fits = status == SW_OK;
    return status == SW_NOMEM && budget > 0 &&
                   job_needed_bytes(j, &j->program[which].plan) > budget
               ? SW_OK
               : status; /* the memory for planning, say */
}

/* All programs of the job under the budget of `look`; *fits is false where one is refused. */
static sw_status plan_under(job *look, bool *fits)
{
    SW_TRY(job_make(look));
    job_set_batch(look, look->batch);
    *fits = true;
    for (int i = 0; i < JOB_PROGRAMS && *fits; i++)
        if (look->program[i].batch > 0)
            SW_TRY(plan_program(look, (job_which)i, fits));
    return SW_OK;
}

/* The batch that a budget of the size could have, which runs ops again in backward: the first
 * of a few batches above the answer that it takes, not the largest. */
static sw_status look_under_budget(const task *t, plan_fit *fit)
{
    static const int64_t halves[] = {4, 3}; /* a refusal may take as long as the whole search */
    const int64_t found = fit->found.batch;
    job_opts opts = *t->job->opts;
    opts.budget_bytes = t->fit_bytes;
    if (opts.method != JOB_BACKPROP || opts.immediate || opts.exec.no_recompute != 0)
        return SW_OK;
    for (size_t i = 0; i < sizeof halves / sizeof *halves && fit->budget.batch == 0; i++) {
        const int64_t batch = found > 0 ? found * halves[i] / 2 : 1;
        bool fits;
        if (batch <= found || batch > JOB_BATCH_MAX)
            continue;
        job look = plan_beside(t->job, &opts, batch);
        look.train.n = batch > t->images ? batch : t->images;
        const sw_status status = plan_under(&look, &fits);
        if (status == SW_OK && fits) {
            fit->budget.batch = batch;
            fit->budget.total_bytes = job_total_bytes(&look);
            fit->budget.more = result_more(&job_main(&look)->plan);
        }
        job_close(&look);
        SW_TRY(status);
        if (found == 0)
            break;
    }
    return SW_OK;
}

/* ---- searching --------------------------------------------------------------------------- */

static void say_budget(const plan_fit *fit, size_t fit_bytes, char *text, size_t bytes)
{
    snprintf(
        text, bytes,
        "--memory-budget %s, which runs ops again in backward, takes a batch of %s: it was "
        "planned, with a total of %s bytes and %.2f %% more operations, weighed by their time.",
        cli_digits(fit_bytes).text, cli_digits((uint64_t)fit->budget.batch).text,
        cli_digits(fit->budget.total_bytes).text, fit->budget.more);
}

/* As far as --batch and --population go. */
static int64_t most_units(const task *t)
{
    int64_t most = JOB_BATCH_MAX;
    if (t->opts != NULL && t->opts->slice == 0 && t->opts->population > 0)
        most = t->opts->population;
    return (most < JOB_BATCH_MAX ? most : JOB_BATCH_MAX) / t->unit;
}

/* The batches that follow, for people to see; the answer is planned last and stays. */
static sw_status plan_answer(const task *t, plan_fit *fit)
{
    for (int i = 1; i <= PLAN_NEXT && fit->found.batch + i <= most_units(t); i++) {
        fit->next[fit->n_next].batch = (fit->found.batch + i) * t->unit;
        SW_TRY(
            plan_job(t, fit->found.batch + i, SIZE_MAX, &fit->next[fit->n_next].total_bytes));
        fit->n_next++;
    }
    size_t total;
    return plan_job(t, fit->found.batch, SIZE_MAX, &total);
}

static sw_status search(task *t, plan_found *found)
{
    const size_t by_inputs = t->fit_bytes / job_image_bytes(t->job) / (size_t)t->unit;
    const int64_t most = most_units(t);
    const bool images = t->job->train.info.field[0].shape.rank > 2;
    const plan_search search = {.fit_bytes = t->fit_bytes,
                                .most = by_inputs < (size_t)most ? (int64_t)by_inputs : most,
                                .grows_from = images ? SWI_ONE_LAYOUT_FROM : 2,
                                .bound = bound_of,
                                .total = total_of,
                                .context = t};
    return plan_search_run(&search, found);
}

static task task_of(job *j, size_t fit_bytes)
{
    j->keep_programs = JOB_PROGRAMS; /* each batch is looked at once */
    return (task){.job = j, .fit_bytes = fit_bytes, .images = j->train.n, .unit = 1};
}

sw_status plan_fit_search(job *j, size_t fit_bytes, plan_found *found)
{
    task t = task_of(j, fit_bytes);
    SW_TRY(job_make(j));
    return search(&t, found);
}

int plan_fit_find(const plan_opts *opts, job *j, plan_fit *out)
{
    task t = task_of(j, opts->fit_bytes);
    plan_fit fit = {.images = j->train.n};
    const uint64_t start = cli_clock_ns();
    if (j->opts->method == JOB_ES) {
        t.opts = opts;
        t.unit = plan_es_unit(opts);
        j->es_opts = plan_es_opts(opts, t.unit);
    }
    CLI_TRY(job_begin(j));
    sw_status searched = search(&t, &fit.found);
    fit.ns = cli_clock_ns() - start;
    if (searched == SW_OK)
        searched = look_under_budget(&t, &fit);
    if (searched == SW_OK && fit.found.batch == 0) {
        size_t total;
        char budget[320] = "";
        const job_program *most = NULL;
        CLI_LIBRARY(plan_job(&t, 1, SIZE_MAX, &total), false);
        for (int i = 0; i < JOB_PROGRAMS; i++) {
            const job_program *p = &t.job->program[i];
            if (p->batch > 0 && (most == NULL || p->plan.total_bytes > most->plan.total_bytes))
                most = p;
        }
        if (fit.budget.batch > 0) {
            memcpy(budget, ". ", 3);
            say_budget(&fit, t.fit_bytes, budget + 2, sizeof budget - 2);
        }
        return cli_error(
            CLI_NO_FIT,
            "no batch fits %zu bytes: a batch of %lld needs total_bytes %zu (model "
            "%zu, arena %zu, data %zu, checkpoint %zu); the peak is at %s, held by %s%s",
            t.fit_bytes, (long long)t.unit, total, most->plan.model_bytes,
            most->plan.arena_bytes, most->plan.data_bytes, job_counted_checkpoint_bytes(t.job),
            most->plan.peak_op, most->plan.holders, budget);
    }
    if (searched == SW_OK)
        searched = plan_answer(&t, &fit);
    CLI_LIBRARY(searched, false);
    fit.capped = fit.found.batch == most_units(&t);
    fit.found.batch *= t.unit;
    fit.found.excluded_from *= t.unit;
    *out = fit;
    return CLI_GO;
}

/* ---- telling ----------------------------------------------------------------------------- */

void plan_fit_put(sw_json *json, const plan_opts *opts, const plan_fit *fit)
{
    const plan_found *f = &fit->found;
    sw_json_put_u64(json, "fit_bytes", opts->fit_bytes);
    sw_json_put_i64(json, "largest_batch", f->batch);
    sw_json_open(json, "fit", '{');
    sw_json_put_string(json, "counts", "total_bytes");
    sw_json_put_u64(json, "job_total_bytes", f->total_bytes);
    sw_json_open(json, "next", '[');
    for (int i = 0; i < fit->n_next; i++) {
        sw_json_begin(json, '{');
        sw_json_put_i64(json, "batch", fit->next[i].batch);
        sw_json_put_u64(json, "job_total_bytes", fit->next[i].total_bytes);
        sw_json_end(json);
    }
    sw_json_end(json);
    if (fit->budget.batch > 0) {
        sw_json_open(json, "budget", '{');
        sw_json_put_i64(json, "batch", fit->budget.batch);
        sw_json_put_u64(json, "job_total_bytes", fit->budget.total_bytes);
        sw_json_put_f64(json, "more_operations_percent", fit->budget.more);
        sw_json_end(json);
    } else {
        sw_json_put_null(json, "budget");
    }
    sw_json_put_i64(json, "excluded_from", f->excluded_from);
    sw_json_put_known(json, "excluded_lower_bound_bytes", f->excluded_bytes > 0,
                      f->excluded_bytes);
    sw_json_put_i64(json, "tried_one_by_one", f->n_tried);
    sw_json_put_i64(json, "training_images", fit->images);
    sw_json_put_u64(json, "search_ns", fit->ns);
    sw_json_end(json);
}

/* Where the batch was planned as if the data had as many samples. */
static void print_few(int64_t samples, int64_t batch)
{
    char text[300];
    if (batch <= samples)
        return;
    snprintf(text, sizeof text,
             "The data have only %s samples for training: a batch of %s was planned as if "
             "there were enough. Training on these takes all of them at once, and needs less.",
             cli_digits((uint64_t)samples).text, cli_digits((uint64_t)batch).text);
    cli_wrap(stdout, 0, 0, text);
}

static void print_row(int64_t batch, size_t total, size_t fit_bytes)
{
    const bool fits = total <= fit_bytes;
    const size_t apart = fits ? fit_bytes - total : total - fit_bytes;
    printf("%11s %22s  %s, %s bytes %s\n", cli_digits((uint64_t)batch).text,
           cli_digits(total).text, fits ? "fits" : "does not fit", cli_digits(apart).text,
           fits ? "are left" : "too many");
}

/* How it is known that no larger batch fits. */
static void print_proof(const plan_fit *fit)
{
    const plan_found *f = &fit->found;
    char text[400];
    if (fit->capped)
        snprintf(text, sizeof text,
                 "%s is the most that --batch takes: no larger one was asked.",
                 cli_digits((uint64_t)fit->found.batch).text);
    else if (f->excluded_bytes > 0)
        snprintf(text, sizeof text,
                 "None of %s or more fits: model, data and what lives at one time alone are %s "
                 "bytes there, and only grow with the batch. Below it batches were planned one "
                 "by one, downward, until one fits: %s.",
                 cli_digits((uint64_t)f->excluded_from).text,
                 cli_digits(f->excluded_bytes).text, cli_digits((uint64_t)f->n_tried).text);
    else
        snprintf(text, sizeof text,
                 "None of %s or more fits: the inputs alone are larger. Below it batches were "
                 "planned one by one, downward, until one fits: %s.",
                 cli_digits((uint64_t)f->excluded_from).text,
                 cli_digits((uint64_t)f->n_tried).text);
    cli_wrap(stdout, 0, 0, text);
}

void plan_fit_print(const plan_opts *opts, const plan_fit *fit)
{
    char text[300];
    snprintf(text, sizeof text,
             "Largest batch that fits %s: %s. The total_bytes that must fit (model, arena and "
             "data slots) are those of each program of the job.",
             result_both(opts->fit_bytes).text, cli_digits((uint64_t)fit->found.batch).text);
    cli_wrap(stdout, 0, 0, text);
    printf("\n%11s %22s\n", "batch", "total_bytes");
    print_row(fit->found.batch, fit->found.total_bytes, opts->fit_bytes);
    for (int i = 0; i < fit->n_next; i++)
        print_row(fit->next[i].batch, fit->next[i].total_bytes, opts->fit_bytes);
    putchar('\n');
    print_proof(fit);
    if (fit->budget.batch > 0) {
        say_budget(fit, opts->fit_bytes, text, sizeof text);
        cli_wrap(stdout, 0, 0, text);
    }
    print_few(fit->images, fit->found.batch);
    printf("searched in %s\n\n", cli_ns(fit->ns).text);
}
