/* stepwell evolve: load and split the data, search in a budget, keep the best, test it, say
 * what was found. All refusals come before the first candidate. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The little languages of --fitness and --mutations. */

/* A piece of a text that is read: up to the next of `stops`. */
typedef struct {
    const char *option, *at;
    char word[64];
    char stop; /* what stood after the word; 0: nothing */
} reader;

static int refuse(const reader *r, const char *what)
{
    return cli_error(CLI_USAGE, "%s: '%s' %s", r->option, r->word, what);
}

static bool next(reader *r, const char *stops)
{
    const size_t n = strcspn(r->at, stops);
    snprintf(r->word, sizeof r->word, "%.*s", (int)(n < 63 ? n : 63), r->at);
    r->stop = r->at[n];
    r->at += n + (r->stop != '\0');
    return n > 0 && n < 64;
}

static bool read_real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return strspn(text, "0123456789.eE+-") == strlen(text) && *text != '\0' && *end == '\0' &&
           isfinite(*out);
}

/* The kind that r->word names, of n; `left_out` has no name here. Refused with all names. */
static int read_kind(const reader *r, const char *(*name)(int), int n, int left_out, int *kind)
{
    char all[400];
    size_t used = (size_t)snprintf(all, sizeof all, "is none of ");
    const size_t before = used;
    for (*kind = 0; *kind < n; ++*kind) {
        if (*kind == left_out)
            continue;
        if (strcmp(name(*kind), r->word) == 0)
            return CLI_GO;
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                     used > before ? ", " : "", name(*kind));
    }
    return refuse(r, all);
}

/* ---- fitness ----------------------------------------------------------------------------- */

static const char *fitness_name(int kind)
{
    return sw_fitness_kind_name((sw_fitness_kind)kind);
}

static int read_fitness_part(reader *r, sw_fitness *f)
{
    if (strncmp(r->word, "drop=", 5) != 0)
        return refuse(r, "is not drop=X");
    if (!read_real(r->word + 5, &f->drop) || f->drop < 0.0 || f->drop >= 1.0)
        return refuse(r, "must be a share, at least 0 and below 1");
    if (f->kind != SW_FITNESS_TRAIN_ACCURACY)
        return refuse(r, "has no effect but of train_accuracy");
    return CLI_GO;
}

static int read_term(reader *r, sw_fitness *f)
{
    int kind;
    if (!next(r, "*:+"))
        return refuse(r, "must be the name of a fitness");
    if (r->stop == '*') {
        if (!read_real(r->word, &f->factor) || f->factor == 0.0)
            return refuse(r, "is no factor");
        if (!next(r, ":+"))
            return refuse(r, "must be the name of a fitness");
    }
    CLI_TRY(read_kind(r, fitness_name, SW_FITNESS_KINDS, SW_FITNESS_CUSTOM, &kind));
    f->kind = (sw_fitness_kind)kind;
    while (r->stop == ':') {
        const bool there = next(r, ":+");
        CLI_TRY(there ? read_fitness_part(r, f) : refuse(r, "is empty"));
    }
    return CLI_GO;
}

static int evolve_read_fitness(evolve *e)
{
    reader r = {.option = "--fitness", .at = e->opts.fitness, .stop = '+'};
    for (; r.at != NULL && r.stop != '\0'; e->n_fitness++) {
        if (e->n_fitness == EVOLVE_TERMS)
            return cli_error(CLI_USAGE, "--fitness: at most %d terms", EVOLVE_TERMS);
        CLI_TRY(read_term(&r, &e->fitness[e->n_fitness]));
    }
    return CLI_GO;
}

/* ---- mutations --------------------------------------------------------------------------- */

static const char *mutation_name(int kind)
{
    return sw_mutation_kind_name((sw_mutation_kind)kind);
}

/* The default ones of that kind; a kind that the default list does not have is taken with its
 * probability alone. */
static int add_mutations(evolve *e, const reader *r, int kind, double probability)
{
    size_t n, found = 0;
    const sw_mutation *usual = sw_mutations_default(&n);
    for (size_t i = 0; i < n; i++) {
        if ((int)usual[i].kind != kind || e->n_mutation == EVOLVE_TERMS)
            continue;
        e->mutation[e->n_mutation] = usual[i];
        if (probability > 0.0)
            e->mutation[e->n_mutation].probability = probability;
        e->n_mutation++;
        found++;
    }
    if (found > 0)
        return CLI_GO;
    if (probability <= 0.0)
        return refuse(r, "must have a probability: it is no default mutation");
    if (e->n_mutation < EVOLVE_TERMS)
        e->mutation[e->n_mutation++] =
            (sw_mutation){.kind = (sw_mutation_kind)kind, .probability = probability};
    return CLI_GO;
}

static int evolve_read_mutations(evolve *e)
{
    reader r = {.option = "--mutations", .at = e->opts.mutations, .stop = ','};
    while (r.at != NULL && r.stop != '\0') {
        double probability = 0.0;
        char *equals;
        if (!next(&r, ","))
            return refuse(&r, "is none");
        equals = strchr(r.word, '=');
        if (equals != NULL &&
            (!read_real(equals + 1, &probability) || probability <= 0.0 || probability > 1.0))
            return refuse(&r, "must have a probability above 0, at most 1");
        if (equals != NULL)
            *equals = '\0';
        int kind;
        CLI_TRY(read_kind(&r, mutation_name, SW_MUTATE_CUSTOM, -1, &kind));
        CLI_TRY(add_mutations(e, &r, kind, probability));
    }
    return CLI_GO;
}

/* Output of evolve without a search: the space, and the price of a genome. */

/* exit statuses */
static int evolve_print_space(evolve *e)
{
    CLI_LIBRARY(e->opts.space != NULL ? sw_search_space_load(&e->space, e->opts.space)
                                      : sw_search_space_default(&e->space, &e->task),
                true);
    const char *text = sw_search_space_text(e->space);
    const size_t n = strlen(text);
    fwrite(text, 1, n, stdout);
    if (n == 0 || text[n - 1] != '\n')
        putchar('\n');
    return cli_finish(CLI_DONE);
}

/* ---- a price ----------------------------------------------------------------------------- */

/* The phases of a training step, which the price has as one. */
static sw_status plan_phases(evolve *e, const sw_genome *genome, int64_t batch,
                             sw_plan_info *plan)
{
    sw_net *net;
    SW_TRY(sw_net_create(&net, genome, &e->net));
    sw_model *model = sw_net_model(net);
    const sw_array *field = e->job.train.info.field;
    sw_array inputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] =
            (sw_array){.dtype = field[i].dtype, .shape = {.rank = field[i].shape.rank + 1}};
        inputs[i].shape.dim[0] = batch;
        for (int d = 0; d < field[i].shape.rank; d++)
            inputs[i].shape.dim[d + 1] = field[i].shape.dim[d];
    }
    sw_run_args args =
        SW_OPTS(sw_run_args, .fn = sw_net_step, .user = net, .models = &model, .n_models = 1,
                .inputs = inputs, .n_inputs = 2, .mode = SW_TRAIN);
    const sw_status status = sw_plan(e->exec, &args, plan);
    sw_net_destroy(net);
    return status;
}

/* Of the data that a genome is for. */
static int check_genome(const evolve *e, const sw_genome_info *g)
{
    const sw_task *t = &e->task;
    if (g->channels == t->channels && g->height == t->height && g->width == t->width &&
        g->classes == t->classes)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--price %s: it reads %" PRId64 " x %" PRId64 " x %" PRId64
                     " and gives %" PRId64 " classes; --data %s has %" PRId64 " x %" PRId64
                     " x %" PRId64 " and %" PRId64,
                     e->opts.price, g->channels, g->height, g->width, g->classes,
                     e->opts.job.data, t->channels, t->height, t->width, t->classes);
}

static int price(evolve *e, const sw_genome *genome)
{
    sw_genome_info info = SW_OPTS(sw_genome_info);
    sw_price found = SW_OPTS(sw_price);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_status status = sw_genome_describe(genome, &info);
    CLI_TRY(status == SW_OK ? check_genome(e, &info) : CLI_GO);
    if (status == SW_OK)
        status = evolve_exec(e, &e->exec);
    if (status == SW_OK)
        status = sw_genome_price(genome, e->exec, &e->net, e->input, &found);
    if (status == SW_OK)
        status = plan_phases(e, genome, info.batch, &plan);
    if (status == SW_OK && e->opts.plot != NULL)
        status = evolve_graph_save(genome, e->opts.plot);
    CLI_LIBRARY(status, false);
    if (e->opts.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_string(&json, "name", info.name);
        sw_json_put_u64(&json, "vertices", info.n_vertices);
        sw_json_put_u64(&json, "parameters", found.parameters);
        sw_json_put_i64(&json, "batch", info.batch);
        SW_JSON_PUT(&json, &found, peak_bytes, model_bytes, arena_bytes, batch_bytes,
                    operations, operations_per_sample, ns);
        result_put_phases(&json, "predicted", plan.phase);
        return result_json_end(&json, CLI_DONE);
    }
    printf("%s: %u vertices, %s parameters, %s, batch %" PRId64 "\n\n", e->opts.price,
           info.n_vertices, cli_digits(found.parameters).text, info.optimizer, info.batch);
    printf("peak       %s\n", result_both(found.peak_bytes).text);
    printf("model      %s\narena      %s\n", result_both(found.model_bytes).text,
           result_both(found.arena_bytes).text);
    printf("batch      %s\n", result_both(found.batch_bytes).text);
    printf("operations %s of a step, %.6g of a sample\n", cli_digits(found.operations).text,
           found.operations_per_sample);
    printf("found in   %s\n\n", cli_ns(found.ns).text);
    result_print_phases(plan.phase, NULL);
    return cli_finish(CLI_DONE);
}

static int evolve_price(evolve *e)
{
    sw_genome *genome;
    CLI_LIBRARY(sw_genome_load(&genome, e->opts.price), true);
    const int code = price(e, genome);
    sw_genome_destroy(genome);
    return code;
}

/* ---- evolve opts ------------------------------------------------------------------------- */

/* The command line of `stepwell evolve`. */

/* Options of a job that have a part here: data and memory. How a net is trained is the
 * genome's. */
static const char taken[] =
    "--data --normalise --normalize --synthetic-n --seed --threads --isa --state --precision "
    "--bf16-order --no-chunks "
    "--memory-budget --no-recompute --no-tiles --no-rebuild --test-data --test-share "
    "--split-seed --label --header --data-limit --standardise --resize --channels --ranks";

static const char notes[] =
    "A candidate is trained with a ninth of --samples and judged on the validation part; if it "
    "is among the best third, it goes on with a third of them, and again to the end. New ones "
    "are draws of the space first, then mutants of the best. The best few are trained once "
    "more from scratch before one is named. A candidate is traced and planned before it is "
    "accepted: its peak is known to the byte. Rates of learning stay as they were drawn, for a "
    "rate that suits a trained net does not suit one from scratch; pbt moves them. The test "
    "part is for the best net alone, at the end.\n"
    "Example: stepwell evolve --data idx:mnist --trainings 20 --memory-budget 64MiB --threads "
    "2 --out mnist-run --retrain 5\n"
    "Example: stepwell evolve --data cifar:cifar10 --candidate-memory 8MiB --time-limit 30m\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 130 interrupted. Ctrl-C stops after the current batches; --resume begins the "
    "rungs again that were in training. A second one stops at once.\n"
    "With --json standard output has one object when the run came to its end or was "
    "interrupted, and nothing when it was refused or failed. Its keys: data, out, search, "
    "trainings, samples, seed, threads, precision, bf16_order (null with f32), workers, "
    "resumed, timed_out, ended (all trainings were made), budget_bytes, peak_bytes (that all "
    "had of it), best and plain (id, of, rung, look, steps, fitness, accuracy, error, loss, "
    "mean, looks, parameters, vertices, operations, predicted_bytes, measured_bytes), better "
    "(best is above plain by more than the error), test_accuracy, test_rows, "
    "retrained_accuracy, steps, mutants, refused, compared (candidates whose training step was "
    "measured), differ (of these, not as predicted), invalid, longest_gap_ns, wall_ns, "
    "candidates (of each the same as of best). With several processes also transport, "
    "transport_bytes (of each rank, for exchanges) and ranks: host, steps (of its candidates), "
    "predicted_peak_bytes and measured_peak_bytes (of the largest of them), sent_bytes, "
    "waited_ns, transport_resident_bytes (that it takes itself) and made_twice (0) of each; "
    "peak_bytes is that of rank 0.";

static const char data_help[] =
    "synthetic (digits that are drawn), idx:DIR for MNIST and its relatives, cifar:DIR for "
    "CIFAR-10's binary batches, or csv:FILE for numbers and a class per line";

static const char pixel_help[] =
    "how pixels of 0 to 1 become numbers, (x - MEAN) / STD: MEAN,STD or for each channel "
    "M1/M2/M3,S1/S2/S3; none: they stay; auto: by mean and deviation of the training images "
    "(default auto)";

static int job_table(evolve_opts *o, cli_option *table)
{
    const job_help help[] = {
        {&o->job.data, data_help},
        {&o->job.normalise, pixel_help},
        {&o->job.synthetic_n,
         "synthetic training samples (default 10000); a fifth as many for testing"},
        {&o->job.seed, "seed of everything that is drawn; the data have their own"},
        {&o->job.state, "of optimizer state: f32; 8bit: a code of 8 bits for each number and a "
                        "scale for each 256 (momentum, nesterov, adam, adamw, lion); others, "
                        "and parameters below 4096 elements, keep f32"},
        {&o->job.threads, "threads; with --workers N each candidate in training has an N-th of "
                          "them, but at least one; the bits are the same for any number"},
        {&o->job.budget_bytes,
         "hard limit for all members, steps and batches together (default 1GiB)"}};
    const int n = job_options_but(&o->job, table, taken, false, help, 7);
    o->job.model = "mlp"; /* any net that takes every kind of classes: none of it is made */
    o->job.settings = TOOL_SETTINGS_NONE;
    o->job.device = "cpu";
    return n;
}

static int table_of(evolve_opts *o, cli_option *table)
{
    const cli_option options[] = {
#define EVOLVE_OPTION(type, field, name, value, kind, ...)                                     \
    {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/evolve/evolve_options.def"
    };
    const int n = job_table(o, table);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

static int read_search(evolve *e)
{
    for (int i = 0; i < SW_SEARCH_KINDS; i++)
        if (strcmp(sw_search_kind_name((sw_search_kind)i), e->opts.search) == 0) {
            e->search = (sw_search_kind)i;
            return CLI_GO;
        }
    return cli_error(CLI_USAGE, "--search must be local, ageing or random (got %s)",
                     e->opts.search);
}

/* ---- what the parser cannot see ---------------------------------------------------------- */

static int check(evolve *e)
{
    evolve_opts *o = &e->opts;
    const char *of_run = cli_given("--resume --retrain");
    if (strncmp(o->job.data, "text:", 5) == 0)
        return cli_error(CLI_USAGE,
                         "--data %s has no classes: evolve fits classifiers of "
                         "images and of vectors",
                         o->job.data);
    if (o->job.budget_bytes == 0)
        o->job.budget_bytes = EVOLVE_BUDGET;
    if ((o->print_space || o->price != NULL) && of_run != NULL)
        return cli_error(CLI_USAGE, "%s has no effect without a run", of_run);
    if (o->plot != NULL && cli_ends_with(o->plot, ".svg"))
        return cli_error(CLI_USAGE,
                         "--plot %s: the graph is DOT text: name it FILE.dot, and "
                         "dot -Tsvg FILE.dot draws it",
                         o->plot);
    if (o->fresh > 1.0)
        return cli_error(CLI_USAGE, "--fresh must be a share, 0 to 1 (got %g)", o->fresh);
    if (o->looks >= o->trainings)
        return cli_error(CLI_USAGE,
                         "--looks must be below --trainings %" PRId64 " (got %" PRId64 ")",
                         o->trainings, o->looks);
    if (o->time_limit.steps > 0)
        return cli_error(CLI_USAGE,
                         "--time-limit must be a time: 90s, 30m or 2h (got %" PRIu64 ")",
                         o->time_limit.steps);
    CLI_TRY(job_take_budget(&o->job));
    if (o->candidate_bytes > o->job.budget_bytes)
        return cli_error(CLI_USAGE,
                         "--candidate-memory must be at most --memory-budget %zu (got %zu)",
                         o->job.budget_bytes, o->candidate_bytes);
    CLI_TRY(job_validation_check(o->validation_share));
    CLI_TRY(read_search(e));
    CLI_TRY(evolve_read_fitness(e));
    CLI_TRY(evolve_read_mutations(e));
    CLI_TRY(evolve_ranks_check(e));
    return job_check(&o->job);
}

/* CLI_GO or an exit status. */
static int evolve_parse(evolve *e, int argc, char **argv)
{
    cli_option table[EVOLVE_OPTIONS_MAX];
    evolve_opts *o = &e->opts;
    const cli_command command =
        SW_INIT(.name = "evolve", .usage = "[options]",
                .about = "Evolve architectures for a classifier; the memory "
                         "of each is known before it is trained.",
                .options = table, .n_options = table_of(o, table), .notes = notes);
    CLI_TRY(cli_parse(&command, argc, argv));
    int status = check(e);
    e->job.opts = &o->job;
    return status;
}

/* ---- cmd evolve -------------------------------------------------------------------------- */

/* Facts about the data: shapes of samples, and how bytes become numbers. */
static int describe(evolve *e)
{
    const sw_dataset_info *info = &e->job.train.info;
    const sw_shape *s = &info->field[0].shape;
    const job_normal *normal = &e->job.normal;
    if (tool_task_of(info) != TOOL_CLASSIFY || (s->rank != 1 && s->rank != 3))
        return cli_error(CLI_USAGE, "--data %s has no classes of images or vectors",
                         e->opts.job.data);
    e->task = SW_OPTS(sw_task, .channels = s->dim[0], .height = s->rank == 3 ? s->dim[1] : 0,
                      .width = s->rank == 3 ? s->dim[2] : 0, .classes = info->n_classes);
    e->input = info->field[0].dtype;
    e->net = SW_OPTS(sw_net_opts, .n_scales = normal->pixels.n,
                     .state_bits = job_state_bits(&e->opts.job));
    for (int i = 0; i < normal->pixels.n; i++) {
        e->net.scale[i] = 1.0f / (255.0f * normal->pixels.deviation[i]);
        e->net.shift[i] = -normal->pixels.mean[i] / normal->pixels.deviation[i];
    }
    return CLI_GO;
}

static bool is_asked(const evolve_opts *o)
{
    return o->print_space || o->price != NULL;
}

/* Everything up to the first candidate. CLI_GO or the exit status. */
static int prepare(evolve *e)
{
    cli_catch_interrupt();
    CLI_TRY(evolve_ranks_open(e));
    int status = is_asked(&e->opts) || !evolve_is_first(e) ? CLI_GO : evolve_files_check(e);
    e->job.quiet = e->opts.quiet;
    if (status == CLI_GO)
        status = job_load(&e->job, is_asked(&e->opts));
    return status == CLI_GO ? describe(e) : status;
}

/* Files of what there is; then, where the search came to its end, what the best net does. */
static sw_status finish(evolve *e)
{
    if (!evolve_is_first(e))
        return SW_OK;
    SW_TRY(evolve_find_best(e));
    SW_TRY(evolve_save_best(e));
    SW_TRY(evolve_report_save(e));
    if (e->stopped || cli_interrupted() || !e->has_best)
        return SW_OK;
    evolve_end_search(e);
    SW_TRY(evolve_test_best(e, false));
    if (e->opts.retrain > 0)
        SW_TRY(evolve_test_best(e, true));
    return evolve_report_save(e);
}

static int search(evolve *e)
{
    CLI_TRY(evolve_open(e));
    sw_status ran = evolve_loop(e);
    e->wall_ns = cli_clock_ns() - e->began_ns;
    cli_progress("%s", "");
    evolve_ranks_ended(e);
    if (ran == SW_OK)
        ran = finish(e);
    int status = e->stopped || cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (ran == SW_OK && e->ranks != NULL)
        ran = evolve_ranks_finish(e, &status);
    CLI_LIBRARY(ran, false);
    if (!evolve_is_first(e))
        return status;
    if (!e->opts.quiet && e->progress.what != SW_EVOLVE_ENDED)
        cli_note("%s: --resume goes on", e->timed_out ? "the time is over" : "interrupted");
    return evolve_print(e, status);
}

int tool_evolve(int argc, char **argv)
{
    static evolve e; /* large */
    job_ranks_one_voice(argc, argv);
    CLI_TRY(evolve_parse(&e, argc, argv));
    int status = prepare(&e);
    if (status == CLI_GO)
        status = e.opts.print_space     ? evolve_print_space(&e)
                 : e.opts.price != NULL ? evolve_price(&e)
                                        : search(&e);
    status = evolve_ranks_close(&e, status);
    evolve_close(&e);
    evolve_files_close(&e);
    return status;
}
