/* The population: what it is made from, generation after generation, and what is kept of
 * each. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The best net on the test part, and training it from scratch: in the budget of the run, which
 * the population has left by then. */
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
    SW_TRY(sw_genome_describe(e->genome, &info));
    SW_TRY(sw_net_create(&t->net, e->genome, &e->net));
    t->model = sw_net_model(t->net);
    t->batch = info.batch;
    t->args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = t->net, .models = &t->model,
                      .n_models = 1);
    return sw_net_ready(t->net, t->exec, seed);
}

static void trial_close(trial *t)
{
    sw_loader_destroy(t->loader);
    sw_net_destroy(t->net);
    sw_exec_destroy(t->exec);
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
    trial_close(&t);
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
    CLI_TRY(job_folder_check("--out", e->opts.out));
    const bool there = sw_file_taken(evolve_path(e, "generation.json")) || /* the library's */
                       sw_file_taken(evolve_path(e, "generation.json.1"));
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

static void evolve_say_head(const evolve *e)
{
    const evolve_opts *o = &e->opts;
    if (is_silent(e))
        return;
    printf("%s: %s samples for training, %s for validation; %s of %" PRId64
           " members, seed %" PRId64 "\n\n",
           o->job.data, cli_digits((uint64_t)e->train.n).text,
           cli_digits((uint64_t)e->validation.n).text, cli_bytes(o->job.budget_bytes).text,
           o->population, o->job.seed);
    printf("%5s %9s %9s %8s %10s %10s %10s %7s %7s\n", "gen", "best", "mean", "accuracy",
           "parameters", "best MiB", "most MiB", "refused", "seconds");
    cli_flush();
}

/* A fitness, "none" where there is none. The first one of the run says what suits all of them:
 * four decimals, none where they are large (bytes, say), an exponent where they are small. */
static cli_text number(const evolve *e, double x)
{
    cli_text t = {"none"};
    const double first = e->n_rows > 0 && e->n_fitness > 0 ? fabs(e->rows[0].best) : 1.0;
    const char *format = first > 1e9 || (first > 0.0 && first < 0.01) ? "%.2e"
                         : first >= 1000.0                            ? "%.0f"
                                                                      : "%.4f";
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, format, x);
    return t;
}

static cli_text percent(double x)
{
    cli_text t = {"none"};
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, "%.2f %%", 100.0 * x);
    return t;
}

static void evolve_say_row(const evolve *e, const evolve_row *r)
{
    if (is_silent(e))
        return;
    cli_progress("%s", "");
    if (evolve_row_lost(r)) {
        printf("%5" PRIu64 " its line of generations.jsonl is lost\n", r->generation);
        return;
    }
    printf("%5" PRIu64 " %9s %9s %8s %10s %10s %10s %7" PRIu64 " %7.1f\n", r->generation,
           number(e, r->best).text, number(e, r->mean).text, percent(r->accuracy).text,
           cli_digits(r->parameters).text, sw_text_mib(r->best_bytes).text,
           sw_text_mib(r->largest_bytes).text, r->refused, (double)r->ns / 1e9);
    cli_flush();
}

/* ---- at the end, as JSON ----------------------------------------------------------------- */

static void put_best(sw_json *json, const evolve *e)
{
    const evolve_member *b = &e->best;
    if (!e->has_best) {
        sw_json_put_null(json, "best");
        return;
    }
    sw_json_open(json, "best", '{');
    SW_JSON_PUT(json, b, id, born, fitness, accuracy, loss, parameters, vertices,
                predicted_bytes);
    sw_json_put_known(json, "measured_bytes", b->measured_bytes > 0, b->measured_bytes);
    sw_json_put_u64(json, "operations", b->operations);
    sw_json_end(json);
}

static double share_of(const evolve_test *t)
{
    return t->there ? (double)t->right / (double)t->rows : 0.0;
}

static int print_json(const evolve *e, int status)
{
    const evolve_opts *o = &e->opts;
    const evolve_row total = evolve_total(e);
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "data", o->job.data);
    sw_json_put_string(&json, "out", o->out);
    sw_json_put_u64(&json, "generations", e->done);
    SW_JSON_PUT(&json, o, population, samples);
    SW_JSON_PUT(&json, &o->job, seed, threads);
    SW_JSON_PUT(&json, e, resumed, timed_out);
    sw_json_put_u64(&json, "budget_bytes", o->job.budget_bytes);
    sw_json_put_u64(&json, "peak_bytes", total.population_bytes);
    put_best(&json, e);
    sw_json_put_known_f64(&json, "test_accuracy", e->test.there, share_of(&e->test));
    sw_json_put_known(&json, "test_rows", e->test.there, (uint64_t)e->test.rows);
    sw_json_put_known_f64(&json, "retrained_accuracy", e->retrained.there,
                          share_of(&e->retrained));
    SW_JSON_PUT(&json, &total, steps, mutants, refused, compared, differ);
    sw_json_put_u64(&json, "longest_gap_ns", e->progress.longest_gap_ns);
    sw_json_put_u64(&json, "wall_ns", e->wall_ns);
    sw_json_open(&json, "history", '[');
    for (size_t i = 0; i < e->n_rows; i++) {
        sw_json_begin(&json, '{');
        evolve_row_put(&json, &e->rows[i]);
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
    const evolve_member *b = &e->best;
    if (!e->has_best) {
        printf("best     none: no generation was complete\n");
        return;
    }
    printf("best     member %" PRIu64 ", born in generation %" PRIu64
           ": fitness %s, accuracy %s\n",
           b->id, b->born, number(e, b->fitness).text, percent(b->accuracy).text);
    printf("         %" PRIu64
           " vertices, %s parameters; a training step takes %s, %s operations\n",
           b->vertices, cli_digits(b->parameters).text, result_both(b->predicted_bytes).text,
           cli_digits(b->operations).text);
    print_test("test", &e->test);
    print_test("again", &e->retrained);
}

int evolve_print(evolve *e, int status)
{
    const evolve_row total = evolve_total(e);
    if (e->opts.json)
        return print_json(e, status);
    printf("%s", e->opts.quiet ? "" : "\n");
    print_best(e);
    printf("memory   at most %s of %s\n", result_both(total.population_bytes).text,
           cli_bytes(e->opts.job.budget_bytes).text);
    if (total.differ > 0)
        printf("         %s of %s members took other bytes than predicted\n",
               cli_digits(total.differ).text, cli_digits(total.compared).text);
    else if (total.compared > 0)
        printf("         %s members took the bytes that were predicted\n",
               cli_digits(total.compared).text);
    printf("search   %s generations, %s steps in %.1f s; %s mutants priced, %s did not fit\n",
           cli_digits(e->done).text, cli_digits(total.steps).text, (double)total.ns / 1e9,
           cli_digits(total.mutants).text, cli_digits(total.refused).text);
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
    const size_t sets = 2 * e->job.train.info.bytes + e->job.test.info.bytes;
    machine m;
    CLI_LIBRARY(machine_memory("", &m), false);
    const size_t there = m.bytes;
    if (sets <= there && e->opts.job.budget_bytes <= there - sets)
        return CLI_GO;
    return cli_error(CLI_NO_FIT,
                     "does not fit: the data sets take %zu bytes and --memory-budget is %zu; "
                     "this machine has %zu",
                     sets, e->opts.job.budget_bytes, there);
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status read_first(evolve *e)
{
    const char *at = e->opts.first;
    char path[EVOLVE_PATH];
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
    return e->timed_out || cli_interrupted();
}

static sw_status make_population(evolve *e)
{
    const evolve_opts *o = &e->opts;
    const sw_evolution_opts opts = SW_OPTS(
        sw_evolution_opts, .train = e->train.set, .validation = e->validation.set,
        .space = e->space, .first = e->n_first > 0 ? (const sw_genome *const *)e->first : NULL,
        .n_first = e->n_first, .population = (uint32_t)o->population,
        .samples = (uint64_t)o->samples, .validation_samples = (uint64_t)o->validation_samples,
        .seed = (uint64_t)o->job.seed, .net = &e->net,
        .mutations = e->n_mutation > 0 ? e->mutation : NULL, .n_mutations = e->n_mutation,
        .mutate = o->mutate > 0.0 ? o->mutate : -1.0,
        .crossover = o->crossover > 0.0 ? o->crossover : -1.0,
        .selections = e->n_selection > 0 ? e->selection : NULL, .n_selections = e->n_selection,
        .fitness = e->n_fitness > 0 ? e->fitness : NULL, .n_fitness = e->n_fitness,
        .candidate_bytes = o->candidate_bytes, .dir = o->out, .stop = stop, .stop_user = e,
        .generation_ns = o->generation_time.ns);
    SW_TRY(evolve_exec(e, &e->exec));
    SW_TRY(sw_evolution_create(&e->evolution, e->exec, &opts));
    SW_TRY(sw_heap_alloc(&e->members, SW_HEAP_RECORDS,
                         (size_t)o->population * sizeof *e->members));
    return SW_OK;
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
    sw_status status =
        e->opts.space != NULL ? sw_search_space_load(&e->space, e->opts.space) : SW_OK;
    if (status == SW_OK)
        status = read_first(e);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "%s", sw_last_error())
                                    : cli_library_error(status, true);
    CLI_TRY(split(e));
    CLI_TRY(job_folder_make("--out", e->opts.out, &e->made));
    CLI_LIBRARY(cli_saved(sw_file_hold(&e->held, evolve_path(e, "run"))), false);
    status = make_population(e);
    if (status == SW_INVALID) /* a genome of other data, say */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    return status == SW_OK ? resume(e) : cli_library_error(status, false);
}

/* ---- looking ----------------------------------------------------------------------------- */

static evolve_member member_of(const sw_candidate *c)
{
    evolve_member m =
        SW_INIT(.id = c->id, .parents = {c->parents[0], c->parents[1]}, .born = c->born,
                .steps = c->steps, .parameters = c->price->parameters,
                .operations = c->price->operations, .ns_per_sample = c->ns_per_sample,
                .rank = c->rank, .predicted_bytes = c->price->peak_bytes,
                .measured_bytes = c->measured_bytes, .fitness = c->fitness,
                .accuracy = c->accuracy, .loss = c->loss, .train_accuracy = c->train_accuracy,
                .invalid = c->invalid != 0);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    if (sw_genome_describe(c->genome, &info) == SW_OK)
        m.vertices = info.n_vertices;
    snprintf(m.why, sizeof m.why, "%s", c->why != NULL ? c->why : "");
    return m;
}

/* Is `a` ahead of `b`: by rank, then by fitness, of which none is the worst? The default
 * fitness rounds accuracy, which is asked first then, as by sw_evolution_best. */
static bool ahead(const evolve *e, const evolve_member *a, const evolve_member *b)
{
    if (a->invalid != b->invalid)
        return b->invalid;
    if (e->n_fitness == 0 && a->accuracy != b->accuracy)
        return a->accuracy > b->accuracy;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return isnan(b->fitness) ? !isnan(a->fitness) : a->fitness > b->fitness;
}

static double mean(double sum, uint32_t n)
{
    return n > 0 ? sum / n : (double)NAN;
}

static evolve_row row_of(const evolve *e)
{
    const evolve_member *best = &e->members[0];
    double fitness = 0.0, accuracy = 0.0;
    uint32_t n = 0, n_accuracy = 0;
    evolve_row row = {.generation = e->progress.generation,
                      .mutants = e->progress.mutants,
                      .refused = e->progress.refused,
                      .steps = e->progress.steps,
                      .ns = cli_clock_ns() - e->generation_began_ns};
    for (size_t i = 0; i < e->n_members; i++) {
        const evolve_member *m = &e->members[i];
        best = ahead(e, m, best) ? m : best;
        row.invalid += m->invalid;
        row.compared += m->measured_bytes > 0;
        row.differ += m->measured_bytes > 0 && m->measured_bytes != m->predicted_bytes;
        if (m->predicted_bytes > row.largest_bytes)
            row.largest_bytes = m->predicted_bytes;
        if (!isnan(m->fitness)) {
            fitness += m->fitness;
            n++;
        }
        if (!isnan(m->accuracy)) {
            accuracy += m->accuracy;
            n_accuracy++;
        }
    }
    row.best = best->fitness;
    row.mean = mean(fitness, n);
    row.accuracy = best->accuracy;
    row.mean_accuracy = mean(accuracy, n_accuracy);
    row.best_id = best->id;
    row.parameters = best->parameters;
    row.best_bytes = best->predicted_bytes;
    return row;
}

sw_status evolve_find_best(evolve *e)
{
    sw_candidate c = SW_OPTS(sw_candidate);
    if (e->n_members == 0 && e->done > 0) /* all of them were before this process */
        SW_TRY(evolve_members_read(e, e->done - 1));
    const sw_status status = sw_evolution_best(e->evolution, &c);
    if (status == SW_INVALID) /* none was measured yet */
        return SW_OK;
    SW_TRY(status);
    SW_TRY(sw_genome_copy(&e->genome, c.genome));
    e->best = member_of(&c);
    e->has_best = true;
    return SW_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* A generation counts once the next one is there: then the folder has it. */
sw_status evolve_loop(evolve *e)
{
    bool told = false;
    const uint64_t limit = e->opts.time_limit.ns;
    e->began_ns = e->generation_began_ns = cli_clock_ns();
    e->ends_ns = limit > 0 ? e->began_ns + limit : 0;
    while (!told || e->done < e->generations) {
        e->progress = SW_OPTS(sw_evolve_progress);
        SW_TRY(sw_evolution_advance(e->evolution, &e->progress));
        if (!told) {
            e->done = e->progress.generation;
            if (e->resumed)
                SW_TRY(evolve_rows_read(e, e->done));
            if (e->resumed && !e->opts.quiet)
                cli_note("goes on with generation %llu, from %s", (unsigned long long)e->done,
                         e->opts.out);
            evolve_say_head(e);
            for (size_t i = 0; i < e->n_rows; i++)
                evolve_say_row(e, &e->rows[i]);
        }
        told = true;
        if (e->done >= e->generations)
            break; /* a run that was complete */
        if (e->progress.what == SW_EVOLVE_STOPPED)
            break;
        if (e->progress.what == SW_EVOLVE_TRAINED && !e->opts.quiet && e->progress.all > 0)
            cli_progress("generation %" PRIu64 ": %.0f %% trained, %s steps so far",
                         e->progress.generation,
                         100.0 * (double)e->progress.done / (double)e->progress.all,
                         cli_digits(e->progress.steps).text);
        if (e->progress.what == SW_EVOLVE_EVALUATED) {
            /* All members of a generation that has its fitness. */
            const uint32_t n = sw_evolution_count(e->evolution);
            e->n_members = 0;
            for (uint32_t i = 0; i < n && i < (uint32_t)e->opts.population; i++) {
                sw_candidate c = SW_OPTS(sw_candidate);
                SW_TRY(sw_evolution_member(e->evolution, i, &c));
                evolve_member *m = &e->members[e->n_members++];
                *m = member_of(&c);
            }
            sw_evolution_memory memory = SW_OPTS(sw_evolution_memory);
            SW_TRY(sw_evolution_used(e->evolution, &memory));
            evolve_row row = row_of(e);
            row.population_bytes = memory.peak_bytes;
            SW_TRY(evolve_row_add(e, &row));
            e->done = row.generation + 1;
            e->generation_began_ns += row.ns; /* breeding the next one is part of it */
            evolve_say_row(e, &row);
        }
        if (e->progress.what == SW_EVOLVE_GENERATION && stop(e))
            break;
    }
    /* The last one is measured; the next one is bred too, for who goes on. */
    if (e->progress.what == SW_EVOLVE_EVALUATED)
        do
            SW_TRY(sw_evolution_advance(e->evolution, &e->progress));
        while (e->progress.what == SW_EVOLVE_TRAINED);
    return SW_OK;
}

void evolve_end_population(evolve *e)
{
    sw_evolution_destroy(e->evolution);
    sw_exec_destroy(e->exec);
    e->evolution = NULL;
    e->exec = NULL;
}

void evolve_close(evolve *e)
{
    evolve_end_population(e);
    sw_budget_destroy(e->budget);
    for (size_t i = 0; i < e->n_first; i++)
        sw_genome_destroy(e->first[i]);
    sw_genome_destroy(e->genome);
    sw_search_space_destroy(e->space);
    sw_dataset_destroy(e->train.set);
    sw_dataset_destroy(e->validation.set);
    job_unload(&e->job);
    sw_heap_free(e->members, SW_HEAP_RECORDS, (size_t)e->opts.population * sizeof *e->members);
    sw_heap_free(e->rows, SW_HEAP_RECORDS, e->cap_rows * sizeof *e->rows);
}
