/* The command line of `stepwell evolve`. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <string.h>

/* Options of a job that have a part here: data and memory. How a net is trained is the
 * genome's. */
static const char *const taken[] = {
    "--data",     "--normalise",  "--normalize",  "--synthetic-n",   "--seed",
    "--threads",  "--isa",        "--no-chunks",  "--memory-budget", "--no-recompute",
    "--no-tiles", "--no-rebuild", "--test-data",  "--test-share",    "--split-seed",
    "--label",    "--header",     "--data-limit", "--standardise",   "--resize",
    "--channels"};

static const char notes[] =
    "A generation trains every member with the same samples, measures its accuracy on the "
    "validation part, selects, crosses and mutates. A child is traced and planned before it is "
    "accepted. Its peak is known to the byte; it is refused if the next generation would not "
    "fit --memory-budget. Children take over their parents' weights. The "
    "test part is for the best net alone, at the end.\n"
    "Example: stepwell evolve --data idx:mnist --generations 20 --population 20 "
    "--memory-budget 64MiB --threads 2 --out mnist-run --retrain 5\n"
    "Example: stepwell evolve --data cifar:cifar10 --fitness accuracy,peak_bytes "
    "--candidate-memory 8MiB --time-limit 30m\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 130 interrupted. Ctrl-C stops after the current batches and drops the current "
    "generation, which --resume begins again; a second one stops at once.\n"
    "With --json standard output has one object when the run came to its end or was "
    "interrupted, and nothing when it was refused or failed. Its keys: data, out, generations "
    "(complete ones), population, samples, seed, threads, resumed, timed_out, budget_bytes, "
    "peak_bytes (that the population had of it), best (id, born, fitness, accuracy, "
    "loss, "
    "parameters, vertices, predicted_bytes, measured_bytes, operations), test_accuracy, "
    "test_rows, retrained_accuracy, steps, mutants, refused, compared (members whose training "
    "step was measured), differ (of these, not as predicted), longest_gap_ns, wall_ns, history "
    "(of each generation: generation, best, mean, accuracy, mean_accuracy, best_id, "
    "parameters, "
    "best_bytes, largest_bytes, population_bytes, mutants, refused, invalid, compared, differ, "
    "steps, ns).";

static bool is_taken(const char *name)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], name) == 0)
            return true;
    return false;
}

static const char data_help[] =
    "synthetic (digits that are drawn), idx:DIR for MNIST and its relatives, cifar:DIR for "
    "CIFAR-10's binary batches, or csv:FILE for numbers and a class per line";

static const char pixel_help[] =
    "how pixels of 0 to 1 become numbers, (x - MEAN) / STD: MEAN,STD or for each channel "
    "M1/M2/M3,S1/S2/S3; none: they stay; auto: by mean and deviation of the training images "
    "(default auto)";

/* In the place of the help of a job's option, where it says something else here. */
static const char *help_of(const cli_option *option, const job_opts *o)
{
    const struct {
        const void *to;
        const char *help;
    } own[] = {{&o->data, data_help},
               {&o->normalise, pixel_help},
               {&o->synthetic_n, "synthetic training samples (default 10000); a fifth as many "
                                 "for testing"},
               {&o->seed, "seed of everything that is drawn; the data have their own"},
               {&o->threads, "members that are trained side by side, as many as the budget has "
                             "room for; the bits are the same for any number"},
               {&o->budget_bytes, "hard limit for all members, steps and batches together "
                                  "(default 1GiB)"}};
    for (size_t i = 0; i < sizeof own / sizeof *own && option->help != NULL; i++)
        if (own[i].to == option->to)
            return own[i].help;
    return option->help;
}

static int job_table(evolve_opts *o, cli_option *table)
{
    const int all = job_options(&o->job, table, 0, true);
    int n = 0;
    for (int i = 0; i < all; i++) {
        if (!is_taken(table[i].name))
            continue;
        table[n] = table[i];
        table[n].help = help_of(&table[n], &o->job);
        n++;
    }
    o->job.model = "mlp"; /* any net that takes every kind of classes: none of it is made */
    o->job.settings = TOOL_SETTINGS_NONE;
    o->job.device = "cpu";
    o->job.accumulate = 1;
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

/* ---- what the parser cannot see ---------------------------------------------------------- */

static int check_asked(const evolve_opts *o)
{
    const char *of_run = cli_given("--resume --retrain");
    const size_t n = o->plot != NULL ? strlen(o->plot) : 0;
    if ((o->print_space || o->price != NULL) && of_run != NULL)
        return cli_error(CLI_USAGE, "%s has no effect without a run", of_run);
    if (n >= 4 && strcmp(o->plot + n - 4, ".svg") == 0)
        return cli_error(CLI_USAGE,
                         "--plot %s: the graph is DOT text: name it FILE.dot, and "
                         "dot -Tsvg FILE.dot draws it",
                         o->plot);
    return CLI_GO;
}

static int check_numbers(const evolve_opts *o)
{
    if (o->mutate > 1.0 || o->crossover > 1.0)
        return cli_error(CLI_USAGE, "%s must be a probability, 0 to 1 (got %g)",
                         o->mutate > 1.0 ? "--mutate" : "--crossover",
                         o->mutate > 1.0 ? o->mutate : o->crossover);
    if (o->time_limit.steps > 0 || o->generation_time.steps > 0)
        return cli_error(CLI_USAGE, "%s must be a time: 90s, 30m or 2h (got %" PRIu64 ")",
                         o->time_limit.steps > 0 ? "--time-limit" : "--generation-time",
                         o->time_limit.steps > 0 ? o->time_limit.steps
                                                 : o->generation_time.steps);
    if (o->candidate_bytes > o->job.budget_bytes)
        return cli_error(CLI_USAGE,
                         "--candidate-memory must be at most --memory-budget %zu (got %zu)",
                         o->job.budget_bytes, o->candidate_bytes);
    return job_validation_check(o->validation_share);
}

static int check(evolve *e)
{
    evolve_opts *o = &e->opts;
    if (strncmp(o->job.data, "text:", 5) == 0)
        return cli_error(CLI_USAGE,
                         "--data %s has no classes: evolve fits classifiers of "
                         "images and of vectors",
                         o->job.data);
    if (o->job.budget_bytes == 0)
        o->job.budget_bytes = EVOLVE_BUDGET;
    int status = check_asked(o);
    if (status == CLI_GO)
        status = check_numbers(o);
    if (status == CLI_GO)
        status = evolve_read_selection(e);
    if (status == CLI_GO)
        status = evolve_read_fitness(e);
    if (status == CLI_GO)
        status = evolve_read_mutations(e);
    return status == CLI_GO ? job_check(&o->job) : status;
}

int evolve_parse(evolve *e, int argc, char **argv)
{
    cli_option table[EVOLVE_OPTIONS_MAX];
    evolve_opts *o = &e->opts;
    const cli_command command = {.name = "evolve",
                                 .usage = "[options]",
                                 .about = "Evolve architectures for a classifier; the memory "
                                          "of each is known before it is trained.",
                                 .options = table,
                                 .n_options = table_of(o, table),
                                 .notes = notes};
    int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    status = check(e);
    e->job.opts = &o->job;
    e->generations = o->generations > 0     ? (uint64_t)o->generations
                     : o->time_limit.ns > 0 ? UINT64_MAX
                                            : 20;
    return status;
}
