/* The search: its data, its options and its loop; what is printed and kept of it. */
#include "tools/evolve/evolve.h"
#include "runtime/exec/exec.h"
#include "runtime/population/evolve/evolution.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The best net on the test part, and training it from scratch: in the budget of the run, which
 * the search has left by then. */
typedef struct {
    evolve *e;
    sw_exec *exec;
    sw_net *net;
    sw_model *model;
    sw_loader *loader;
    sw_run_args args;
    int64_t batch;
} trial;

/* A net with first values, ready. After a failure close it too. */
static sw_status trial_open(trial *t, evolve *e)
{
    const uint64_t seed = (uint64_t)e->opts.job.seed;
    sw_genome_info info = SW_OPTS(sw_genome_info);
    *t = (trial){.e = e};
    SW_TRY(evolve_exec(e, &t->exec));
    t->exec->target.ranks = e->ranks; /* they wait, and hear of this one between ops */
    SW_TRY(sw_genome_describe(e->genome, &info));
    SW_TRY(sw_net_create(&t->net, e->genome, &e->net));
    t->model = sw_net_model(t->net);
    t->batch = info.batch;
    t->args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = t->net, .models = &t->model,
                      .n_models = 1);
    return sw_net_ready(t->net, t->exec, seed);
}

/* One slot: the batch that a step reads. */
static sw_status begin_epoch(trial *t, const sw_dataset *set, bool training, uint64_t epoch)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(set, &info);
    const sw_loader_opts opts = SW_OPTS(
        sw_loader_opts, .batch = t->batch < info.n ? t->batch : info.n, .slots = 1,
        .seed = (uint64_t)t->e->opts.job.seed, .shuffle = training, .drop_last = training,
        .budget = t->e->budget, .inline_fill = 1, .keyed = training);
    sw_loader_destroy(t->loader);
    t->loader = NULL;
    t->args.mode = training ? SW_TRAIN : SW_EVAL;
    SW_TRY(sw_loader_create(&t->loader, set, &opts));
    return sw_loader_epoch(t->loader, epoch);
}

/* *more: there was a batch, and its run is over. */
static sw_status run_batch(trial *t, bool *more)
{
    SW_TRY(sw_loader_next(t->loader, &t->args.inputs, &t->args.n_inputs));
    *more = t->args.n_inputs > 0;
    return *more ? sw_run(t->exec, &t->args) : SW_OK;
}

/* An epoch of whole batches, shuffled; it ends early where the program was interrupted. */
static sw_status train_epoch(trial *t, int64_t epoch)
{
    bool more = true;
    SW_TRY(begin_epoch(t, t->e->job.train.set, true, (uint64_t)epoch));
    const int64_t batches = sw_loader_batches(t->loader);
    for (int64_t i = 1; more && !cli_interrupted(); i++) {
        SW_TRY(run_batch(t, &more));
        t->args.step += more;
        if (more && !t->e->opts.quiet)
            cli_progress("training again: epoch %" PRId64 " of %" PRId64 ", batch %" PRId64
                         " of %" PRId64,
                         epoch + 1, t->e->opts.retrain, i, batches);
    }
    return SW_OK;
}

/* A share of rows is a whole number of them again. */
static sw_status test(trial *t, evolve_test *out)
{
    evolve_test sum = {.there = true};
    double share;
    bool more;
    SW_TRY(begin_epoch(t, t->e->job.test.set, false, 0));
    for (;;) {
        SW_TRY(run_batch(t, &more));
        if (!more)
            break;
        SW_TRY(sw_metric_get(t->exec, "accuracy", &share));
        const int64_t n = t->args.inputs[0].shape.dim[0];
        sum.right += llround(share * (double)n);
        sum.rows += n;
    }
    *out = sum;
    return SW_OK;
}

static sw_status train_again(trial *t)
{
    evolve *e = t->e;
    for (int64_t epoch = 0; epoch < e->opts.retrain && !cli_interrupted(); epoch++)
        SW_TRY(train_epoch(t, epoch));
    cli_progress("%s", "");
    if (cli_interrupted())
        return SW_OK;
    SW_TRY(test(t, &e->retrained));
    SW_TRY(job_note(&e->job, t->model));
    return cli_saved(sw_model_save(t->model, evolve_path(e, "retrained.safetensors")));
}

sw_status evolve_test_best(evolve *e, bool again)
{
    trial t;
    sw_status status = trial_open(&t, e);
    if (status == SW_OK && again)
        status = train_again(&t);
    else if (status == SW_OK) {
        status = sw_model_load(t.model, evolve_path(e, "best.safetensors"));
        if (status == SW_OK)
            status = test(&t, &e->test);
    }
    sw_loader_destroy(t.loader);
    sw_net_destroy(t.net);
    sw_exec_destroy(t.exec);
    return status;
}

/* The folder of a run: what the library keeps there, and what people read. */

const char *evolve_path(const evolve *e, const char *name)
{
    static char paths[4][EVOLVE_PATH];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, EVOLVE_PATH, "%s/%s", e->opts.out, name);
    return path;
}

/* ---- the folder -------------------------------------------------------------------------- */

int evolve_files_check(const evolve *e)
{
    CLI_TRY(job_folder_check("--out", e->opts.out, NULL));
    const bool there = sw_file_taken(evolve_path(e, "history.jsonl")); /* the library's */
    if (e->opts.resume || !there)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--out %s: a run is there already. --resume goes on with it; to begin a "
                     "new one remove the folder, or name another",
                     e->opts.out);
}

void evolve_files_close(evolve *e)
{
    sw_file_let_go(e->held);
    e->held = NULL;
    job_folder_leave(e->opts.out, e->made);
}

sw_status evolve_save_best(evolve *e)
{
    if (!e->has_best)
        return SW_OK;
    /* Its state is asked for first: what fails there leaves the files that were there. */
    sw_net *net;
    SW_TRY(sw_net_copy(&net, e->evolution, UINT32_MAX));
    sw_status status = job_note(&e->job, sw_net_model(net));
    if (status == SW_OK)
        status =
            cli_saved(sw_model_save(sw_net_model(net), evolve_path(e, "best.safetensors")));
    sw_net_destroy(net);
    SW_TRY(status);
    SW_TRY(cli_saved(sw_genome_save(e->genome, evolve_path(e, "best.json"))));
    return evolve_graph_save(e->genome, evolve_path(e, "best.dot"));
}

/* ---- on the way -------------------------------------------------------------------------- */

static bool is_silent(const evolve *e)
{
    return e->opts.quiet || e->opts.json;
}

static void say_head(const evolve *e)
{
    const evolve_opts *o = &e->opts;
    if (is_silent(e))
        return;
    printf("%s: %s samples for training, %s for validation; %s for %" PRId64
           " trainings of %s samples, seed %" PRId64 "\n\n",
           o->job.data, cli_digits((uint64_t)e->train.n).text,
           cli_digits((uint64_t)e->validation.n).text, cli_bytes(o->job.budget_bytes).text,
           o->trainings, cli_digits((uint64_t)o->samples).text, o->job.seed);
    printf("%6s %6s %5s %9s %18s %11s %10s %8s\n", "id", "of", "rung", "steps", "accuracy",
           "parameters", "MiB", "seconds");
    cli_flush();
}

/* "97.20 % +- 0.37" */
static cli_text accuracy(const evolve_candidate *c)
{
    cli_text t = {"none"};
    if (isfinite(c->accuracy))
        snprintf(t.text, sizeof t.text, "%.2f %% +- %.2f", 100.0 * c->accuracy,
                 100.0 * c->error);
    return t;
}

static void say_row(const evolve *e, const evolve_candidate *c)
{
    char of[24] = "drawn";
    if (is_silent(e))
        return;
    if (c->of > 0)
        snprintf(of, sizeof of, "%" PRIu64, c->of);
    if (e->plain && c->id == 1)
        snprintf(of, sizeof of, "plain");
    cli_progress("%s", "");
    printf("%6" PRIu64 " %6s %5s %9s %18s %11s %10s %8.1f\n", c->id, of,
           c->look ? "look" : cli_digits((uint64_t)c->rung + 1).text, cli_digits(c->steps).text,
           accuracy(c).text, cli_digits(c->parameters).text,
           sw_text_mib(c->predicted_bytes).text, (double)(cli_clock_ns() - e->began_ns) / 1e9);
    cli_flush();
}

/* ---- at the end, as JSON ----------------------------------------------------------------- */

static void put_one(sw_json *json, const evolve_candidate *c)
{
    SW_JSON_PUT(json, c, id, of, rung, look, steps, fitness, accuracy, error, loss, mean);
    SW_JSON_PUT(json, c, looks, parameters, vertices, operations, predicted_bytes);
    sw_json_put_known(json, "measured_bytes", c->measured_bytes > 0, c->measured_bytes);
}

/* Above the plain net by more than the standard error of both: by the means of their looks,
 * where both have one. */
static bool is_better(const evolve *e)
{
    const evolve_candidate *a = &e->best, *b = &e->all[0];
    const bool means = a->looks > 1 && b->looks > 1 && e->n_fitness == 0;
    const double n = means ? 2.0 : 1.0;
    const double margin = sqrt((a->error * a->error + b->error * b->error) / n);
    return a->id != b->id && a->rung >= b->rung &&
           (a->rung > b->rung ||
            (means ? a->mean - b->mean : a->accuracy - b->accuracy) > margin);
}

static double share_of(const evolve_test *t)
{
    return t->there ? (double)t->right / (double)t->rows : 0.0;
}

static int print_json(const evolve *e, int status)
{
    const evolve_opts *o = &e->opts;
    const evolve_total total = evolve_sums(e);
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "data", o->job.data);
    SW_JSON_PUT(&json, o, out, search, trainings, samples);
    SW_JSON_PUT(&json, &o->job, seed, threads, precision, bf16_order);
    sw_json_put_i64(&json, "workers", o->workers);
    SW_JSON_PUT(&json, e, resumed, timed_out);
    sw_json_put_bool(&json, "ended", e->progress.what == SW_EVOLVE_ENDED);
    sw_json_put_u64(&json, "budget_bytes", o->job.budget_bytes);
    sw_json_put_u64(&json, "peak_bytes", e->peak_bytes);
    job_ranks_put(&json, e->ranks, swi_evolution_ranks_bytes(e->ranks), "steps", e->of);
    for (int i = 0; i < 2; i++) {
        const bool known = i == 0 ? e->has_best : e->plain && e->n > 0;
        if (!sw_json_open_known(&json, i == 0 ? "best" : "plain", known))
            continue;
        put_one(&json, i == 0 ? &e->best : &e->all[0]);
        sw_json_end(&json);
    }
    sw_json_put_known_bool(&json, "better", e->has_best && e->plain, is_better(e));
    sw_json_put_known_f64(&json, "test_accuracy", e->test.there, share_of(&e->test));
    sw_json_put_known(&json, "test_rows", e->test.there, (uint64_t)e->test.rows);
    sw_json_put_known_f64(&json, "retrained_accuracy", e->retrained.there,
                          share_of(&e->retrained));
    SW_JSON_PUT(&json, &e->progress, steps, mutants, refused);
    SW_JSON_PUT(&json, &total, compared, differ, invalid);
    SW_JSON_PUT(&json, &e->progress, longest_gap_ns);
    sw_json_put_u64(&json, "wall_ns", e->wall_ns);
    sw_json_open(&json, "candidates", '[');
    for (size_t i = 0; i < e->n; i++) {
        sw_json_begin(&json, '{');
        put_one(&json, &e->all[i]);
        sw_json_end(&json);
    }
    sw_json_end(&json);
    return result_json_end(&json, status);
}

/* ---- at the end, as text ----------------------------------------------------------------- */

static void print_test(const char *name, const evolve_test *t)
{
    if (t->there)
        printf("%-8s accuracy %.2f %% (%s of %s)\n", name, 100.0 * share_of(t),
               cli_digits((uint64_t)t->right).text, cli_digits((uint64_t)t->rows).text);
}

static void print_best(const evolve *e)
{
    const evolve_candidate *b = &e->best;
    if (!e->has_best) {
        printf("best     none: no candidate was judged\n");
        return;
    }
    printf("best     candidate %" PRIu64 ": accuracy %s", b->id, accuracy(b).text);
    if (b->looks > 1)
        printf(", with its second look %.2f %%", 100.0 * b->mean);
    printf("\n         %" PRIu64
           " vertices, %s parameters; a training step takes %s, %s operations\n",
           b->vertices, cli_digits(b->parameters).text, result_both(b->predicted_bytes).text,
           cli_digits(b->operations).text);
    if (e->plain && !is_better(e))
        printf("         not better than the plain net, %s\n", accuracy(&e->all[0]).text);
    else if (e->plain)
        printf("         the plain net has %s\n", accuracy(&e->all[0]).text);
    print_test("test", &e->test);
    print_test("again", &e->retrained);
}

int evolve_print(evolve *e, int status)
{
    const evolve_total total = evolve_sums(e);
    if (e->opts.json)
        return print_json(e, status);
    printf("%s", e->opts.quiet ? "" : "\n");
    print_best(e);
    printf("memory   at most %s of %s\n", result_both(e->peak_bytes).text,
           cli_bytes(e->opts.job.budget_bytes).text);
    if (total.differ > 0)
        printf("         %s of %s candidates took other bytes than predicted\n",
               cli_digits(total.differ).text, cli_digits(total.compared).text);
    else if (total.compared > 0)
        printf("         %s candidates took the bytes that were predicted\n",
               cli_digits(total.compared).text);
    job_ranks_print(e->ranks, swi_evolution_ranks_bytes(e->ranks));
    printf("search   %s candidates, %s trained to the end; %s steps in %.1f s; %s priced, %s "
           "did not fit\n",
           cli_digits(total.n).text, cli_digits(total.trained).text,
           cli_digits(e->progress.steps).text, (double)e->wall_ns / 1e9,
           cli_digits(e->progress.mutants).text, cli_digits(e->progress.refused).text);
    printf("         longest pause between two batches %s\n",
           cli_ns(e->progress.longest_gap_ns).text);
    if (e->has_best)
        printf("files    best.json, best.safetensors, best.dot, report.html in %s\n",
               e->opts.out);
    return cli_finish(status);
}

/* ---- data -------------------------------------------------------------------------------- */

static int split(evolve *e)
{
    const int status =
        job_validation(&e->job, e->opts.validation_share, &e->train, &e->validation);
    const bool named = e->job.train.info.class_names != NULL; /* which files of nets have */
    if (status == CLI_GO && e->opts.retrain == 0 && !named) { /* not needed twice */
        sw_dataset_destroy(e->job.train.set);
        e->job.train.set = NULL;
    }
    return status;
}

/* Data, budget and what the split takes for a moment: a limit is a promise of this machine. */
static int check_machine(const evolve *e)
{
    const size_t ranks = e->job.on_host > 1 ? (size_t)e->job.on_host : 1;
    const char *has = ranks > 1 ? "this machine has for each of its ranks" : "this machine has";
    const size_t sets = 2 * e->job.train.info.bytes + e->job.test.info.bytes;
    machine m;
    CLI_LIBRARY(machine_memory("", &m), false);
    const size_t there = m.bytes < SIZE_MAX ? m.bytes / ranks : m.bytes;
    if (sets <= there && e->opts.job.budget_bytes <= there - sets)
        return CLI_GO;
    return cli_error(CLI_NO_FIT,
                     "does not fit: the data sets take %zu bytes and --memory-budget is %zu; "
                     "%s %zu",
                     sets, e->opts.job.budget_bytes, has, there);
}

/* ---- making ------------------------------------------------------------------------------ */

/* The net that a search is to be better than: two convolutions, or a hidden layer. */
static sw_status plain_net(evolve *e)
{
    char text[2048];
    const sw_task *t = &e->task;
    int n = snprintf(text, sizeof text,
                     "{\"format\": \"stepwell genome 1\", \"name\": \"plain\", \"input\": [");
    n += t->height > 0
             ? snprintf(text + n, sizeof text - (size_t)n, "%" PRId64 ", %" PRId64 ", %" PRId64,
                        t->channels, t->height, t->width)
             : snprintf(text + n, sizeof text - (size_t)n, "%" PRId64, t->channels);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "], \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.002, \"update\": "
                  "\"release\"}, \"batch\": 64, \"loss\": {\"kind\": \"cross_entropy\"}, "
                  "\"vertices\": [\n");
    const char *last = "input";
    for (int i = 0; i < 2 && t->height >= 8 && t->width >= 8; i++) {
        n += snprintf(
            text + n, sizeof text - (size_t)n,
            "{\"name\": \"conv%d\", \"kind\": \"conv2d\", \"in\": [\"%s\"], \"size\": %d, "
            "\"kernel\": 3},\n{\"name\": \"norm%d\", \"kind\": \"batch_norm\", \"in\": "
            "[\"conv%d\"]},\n{\"name\": \"act%d\", \"kind\": \"activation\", \"in\": "
            "[\"norm%d\"], \"activation\": \"relu\"},\n{\"name\": \"pool%d\", \"kind\": "
            "\"max_pool\", \"in\": [\"act%d\"], \"kernel\": 2, \"stride\": 2},\n",
            i, last, 16 << i, i, i, i, i, i, i);
        last = i == 0 ? "pool0" : "pool1";
    }
    if (t->height > 0) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "{\"name\": \"flat\", \"kind\": \"flatten\", \"in\": [\"%s\"]},\n", last);
        last = "flat";
    } else {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "{\"name\": \"hidden\", \"kind\": \"linear\", \"in\": [\"input\"], "
                      "\"size\": 64},\n{\"name\": \"act\", \"kind\": \"activation\", \"in\": "
                      "[\"hidden\"], \"activation\": \"relu\"},\n");
        last = "act";
    }
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"%s\"], \"size\": "
                  "%" PRId64 ", \"shield\": [\"size\", \"remove\", \"outputs\", "
                  "\"crossover\"]}]}",
                  last, t->classes);
    return sw_genome_parse(&e->first[e->n_first++], text, (size_t)n, "the plain net");
}

static sw_status read_first(evolve *e)
{
    const char *at = e->opts.first;
    char path[EVOLVE_PATH];
    e->plain = at == NULL && e->train.n >= 64;
    if (e->plain)
        return plain_net(e);
    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        if (e->n_first == EVOLVE_FIRST || n >= sizeof path)
            SW_FAIL(SW_INVALID, "--first: at most %d files, of at most %d bytes", EVOLVE_FIRST,
                    EVOLVE_PATH);
        snprintf(path, sizeof path, "%.*s", (int)n, at);
        SW_TRY(sw_genome_load(&e->first[e->n_first], path));
        e->n_first++;
    }
    return SW_OK;
}

sw_status evolve_exec(evolve *e, sw_exec **out)
{
    const job_opts *o = &e->opts.job;
    sw_exec_opts exec = o->exec;
    if (e->budget == NULL)
        SW_TRY(sw_budget_create(&e->budget, o->budget_bytes));
    exec.size = sizeof exec;
    exec.threads = (int)o->threads;
    exec.budget = e->budget;
    exec.seed = (uint64_t)o->seed;
    exec.isa = o->isa;
    return sw_exec_create(out, &exec);
}

static int stop(void *user)
{
    evolve *e = user;
    if (e->ends_ns > 0 && cli_clock_ns() >= e->ends_ns)
        e->timed_out = true;
    return (e->timed_out ? EVOLVE_TIME : 0) | (cli_interrupted() ? EVOLVE_INTERRUPT : 0);
}

static sw_status make_search(evolve *e)
{
    const evolve_opts *o = &e->opts;
    const sw_evolution_opts opts = SW_OPTS(
        sw_evolution_opts, .train = e->train.set, .validation = e->validation.set,
        .space = e->space, .first = e->n_first > 0 ? (const sw_genome *const *)e->first : NULL,
        .n_first = e->n_first, .population = (uint32_t)o->population,
        .samples = (uint64_t)o->samples, .validation_samples = (uint64_t)o->validation_samples,
        .seed = (uint64_t)o->job.seed, .net = &e->net,
        .mutations = e->n_mutation > 0 ? e->mutation : NULL, .n_mutations = e->n_mutation,
        .fitness = e->n_fitness > 0 ? e->fitness : NULL, .n_fitness = e->n_fitness,
        .candidate_bytes = o->candidate_bytes, .dir = o->out, .stop = stop, .stop_user = e,
        .fresh = o->fresh > 0.0 ? o->fresh : -1.0, .search = e->search,
        .rungs = (uint32_t)o->rungs, .eta = (uint32_t)o->eta, .start = (uint32_t)o->start,
        .parents = (uint32_t)o->parents, .workers = (uint32_t)o->workers,
        .trainings = (uint32_t)o->trainings,
        .looks = cli_given("--looks") == NULL ? 0
                 : o->looks == 0              ? UINT32_MAX
                                              : (uint32_t)o->looks);
    if (e->exec == NULL)
        SW_TRY(evolve_exec(e, &e->exec));
    return sw_evolution_create(&e->evolution, e->exec, &opts);
}

/* An option that differs from the files of the folder is a mistake of the command line. */
static int resume(evolve *e)
{
    int found = 0;
    if (!e->opts.resume)
        return CLI_GO;
    const sw_status status = sw_evolution_resume(e->evolution, &found);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s: %s", e->opts.out, sw_last_error());
    if (cli_saved(status) != SW_OK) /* prints what was damaged and ended nothing */
        return cli_library_error(status, true);
    e->resumed = found != 0;
    if (!e->opts.quiet && !e->resumed)
        cli_note("there is no run in %s yet: it begins", e->opts.out);
    return CLI_GO;
}

int evolve_open(evolve *e)
{
    CLI_TRY(check_machine(e));
    CLI_TRY(split(e));
    sw_status status = SW_OK;
    if (e->opts.space != NULL && evolve_is_first(e))
        status = sw_search_space_load(&e->space, e->opts.space);
    if (status == SW_OK && evolve_is_first(e))
        status = read_first(e);
    if (status == SW_OK && e->ranks != NULL)
        status = evolve_ranks_share(e);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "%s", sw_last_error())
                                    : cli_library_error(status, true);
    if (evolve_is_first(e)) {
        CLI_TRY(job_folder_make("--out", e->opts.out, &e->made));
        CLI_LIBRARY(cli_saved(sw_file_hold(&e->held, evolve_path(e, "run"))), false);
    }
    status = make_search(e);
    if (status == SW_NOMEM && e->plain) {
        cli_note("the plain net is left out, for it does not fit");
        sw_genome_destroy(e->first[--e->n_first]);
        e->plain = false;
        status = make_search(e);
    }
    if (status == SW_INVALID) /* a genome of other data, say */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    CLI_LIBRARY(status, false);
    if (e->ranks != NULL)
        CLI_TRY(evolve_ranks_agree(e));
    return resume(e);
}

/* ---- looking ----------------------------------------------------------------------------- */

static evolve_candidate candidate_of(const sw_candidate *c)
{
    evolve_candidate m =
        SW_INIT(.id = c->id, .of = c->parents[0], .steps = c->steps,
                .parameters = c->price->parameters, .operations = c->price->operations,
                .ns_per_sample = c->ns_per_sample, .predicted_bytes = c->price->peak_bytes,
                .measured_bytes = c->measured_bytes, .looks = c->looks, .fitness = c->fitness,
                .accuracy = c->accuracy, .error = c->error, .loss = c->loss,
                .train_accuracy = c->train_accuracy, .mean = c->mean, .rung = c->rung,
                .look = c->look != 0, .invalid = c->invalid != 0);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    if (sw_genome_describe(c->genome, &info) == SW_OK)
        m.vertices = info.n_vertices;
    snprintf(m.why, sizeof m.why, "%s", c->why != NULL ? c->why : "");
    return m;
}

/* All candidates as they are now. */
static sw_status evolve_look(evolve *e)
{
    const uint32_t n = sw_evolution_count(e->evolution);
    sw_evolution_memory memory = SW_OPTS(sw_evolution_memory);
    if (n > e->cap) {
        SW_TRY(sw_heap_resize(&e->all, SW_HEAP_RECORDS, e->cap * sizeof *e->all,
                              2 * n * sizeof *e->all));
        e->cap = 2 * n;
    }
    for (e->n = 0; e->n < n; e->n++) {
        sw_candidate c = SW_OPTS(sw_candidate);
        SW_TRY(sw_evolution_member(e->evolution, (uint32_t)e->n, &c));
        e->all[e->n] = candidate_of(&c);
    }
    SW_TRY(sw_evolution_used(e->evolution, &memory));
    e->peak_bytes = memory.peak_bytes;
    return SW_OK;
}

evolve_total evolve_sums(const evolve *e)
{
    evolve_total total = {.n = e->n};
    for (size_t i = 0; i < e->n; i++) {
        const evolve_candidate *c = &e->all[i];
        total.trained += c->rung + 1 == e->opts.rungs;
        total.compared += c->measured_bytes > 0;
        total.differ += c->measured_bytes > 0 && c->measured_bytes != c->predicted_bytes;
        total.invalid += c->invalid;
    }
    return total;
}

sw_status evolve_find_best(evolve *e)
{
    sw_candidate c = SW_OPTS(sw_candidate);
    SW_TRY(evolve_look(e));
    const sw_status status = sw_evolution_best(e->evolution, &c);
    if (status == SW_INVALID) /* none was measured yet */
        return SW_OK;
    SW_TRY(status);
    SW_TRY(sw_genome_copy(&e->genome, c.genome));
    e->best = candidate_of(&c);
    e->has_best = true;
    return SW_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

sw_status evolve_loop(evolve *e)
{
    const uint64_t limit = e->opts.time_limit.ns;
    e->began_ns = cli_clock_ns();
    e->ends_ns = limit > 0 && evolve_is_first(e) ? e->began_ns + limit : 0;
    say_head(e);
    SW_TRY(evolve_look(e));
    for (size_t i = 0; i < e->n; i++)
        if (e->all[i].rung >= 0)
            say_row(e, &e->all[i]);
    if (e->resumed && !e->opts.quiet)
        cli_note("goes on after %zu candidates, from %s", e->n, e->opts.out);
    do {
        e->progress = SW_OPTS(sw_evolve_progress);
        SW_TRY(sw_evolution_advance(e->evolution, &e->progress));
        if (e->progress.what == SW_EVOLVE_TRAINED && !e->opts.quiet)
            cli_progress("%.0f %% of all samples, %s steps so far",
                         100.0 * (double)e->progress.done / (double)e->progress.all,
                         cli_digits(e->progress.steps).text);
        if (e->progress.what == SW_EVOLVE_EVALUATED) {
            sw_candidate c = SW_OPTS(sw_candidate);
            SW_TRY(sw_evolution_member(e->evolution, e->progress.candidate, &c));
            const evolve_candidate row = candidate_of(&c);
            say_row(e, &row);
        }
    } while (e->progress.what != SW_EVOLVE_ENDED && e->progress.what != SW_EVOLVE_STOPPED);
    return SW_OK;
}

void evolve_end_search(evolve *e)
{
    sw_evolution_destroy(e->evolution);
    sw_exec_destroy(e->exec);
    e->evolution = NULL;
    e->exec = NULL;
}

void evolve_close(evolve *e)
{
    evolve_end_search(e);
    sw_budget_destroy(e->budget);
    for (size_t i = 0; i < e->n_first; i++)
        sw_genome_destroy(e->first[i]);
    sw_genome_destroy(e->genome);
    sw_search_space_destroy(e->space);
    sw_dataset_destroy(e->train.set);
    sw_dataset_destroy(e->validation.set);
    job_unload(&e->job);
    sw_heap_free(e->all, SW_HEAP_RECORDS, e->cap * sizeof *e->all);
}
