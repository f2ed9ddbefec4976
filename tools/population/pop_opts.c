/* The command line of `stepwell pbt`. */
#include "tools/population/population.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pop_metric_words[] = {"accuracy", "loss", NULL};
const char *const pop_exploit_words[] = {"truncation", "tournament", "t-test", NULL};
const char *const pop_explore_words[] = {"perturb", NULL};
const char *const pop_too_large_words[] = {"refuse", "batch", NULL};

static const char notes[] =
    "Each NAME=RANGE is a hyper-parameter that is explored: NAME=uniform:LOW..HIGH, "
    "NAME=log:LOW..HIGH (the logarithm is uniform), NAME=int:LOW..HIGH, or NAME=choice:A,B,C. "
    "NAME is lr, momentum, beta1, beta2, weight_decay or dropout, which change without a new "
    "plan; or batch, hidden (the widths of all hidden layers of mlp) or hidden1, hidden2, ... "
    "(of one), which make another shape: it is planned, and must fit, before it is taken. A "
    "width that changes keeps what the net computes where it grows, and the most useful units "
    "where it shrinks.\n"
    "Members are scored with the validation part, a share of the training part that none is "
    "trained with. The test part is for the best member alone, at the end.\n"
    "Values always stay within their ranges. The same command gives the same bits for every "
    "number of threads and every --memory-budget.\n"
    "With --memory-budget all members fit or wait: those that wait take turns in a slot of "
    "each "
    "thread, and lie outside of the budget in between. The needs of each member are known "
    "before the first step; what does not fit is refused there.\n"
    "Example: stepwell pbt --data idx:mnist --model mlp --hidden 64 --optimizer momentum "
    "--members 10 --epochs 2 lr=log:0.001..1 momentum=uniform:0..0.99 hidden=int:16..256\n"
    "With --json standard output has one object: model, data, members, steps (of a member), "
    "turns, exploits, refused (explored shapes that did not fit), seed, threads, train_rows, "
    "validation_rows, metric, best (member, score, loss, accuracy, values), test_loss, "
    "test_accuracy, test_rows (of the best member at the end, null where the run was "
    "interrupted), population (for each member its score, loss, accuracy, step, exploits, "
    "shape, bytes, values, ended, failed), shapes (batch, that runs, and batch_asked where "
    "there are fewer samples, hidden, member_bytes, arena_bytes, "
    "batch_bytes, members), memory (budget_bytes, predicted_peak_bytes, measured_peak_bytes, "
    "lane_bytes, resident_bytes, paused_peak_bytes), wall_ns, train_ns, validation_ns, "
    "test_ns, exploit_ns. Each score, loss and accuracy that "
    "is not of the test is of the validation part.\n"
    "With --prove it has: model, data, shapes, shapes_refused, largest and first_refused "
    "(batch, hidden, bytes), too_large, threads, arena_bytes, batch_bytes, member_bytes, "
    "explore_bytes, budget_bytes.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 5 no such device, 130 interrupted. Ctrl-C stops after the current steps; with "
    "--checkpoint, --resume continues from there.";

int pop_word(const char *const *words, const char *word)
{
    int i = 0;
    while (words[i] != NULL && strcmp(words[i], word) != 0)
        i++;
    return i;
}

static int check_factors(pop_opts *o)
{
    char *end;
    o->factor[0] = strtod(o->factors, &end);
    o->factor[1] = *end == ',' ? strtod(end + 1, &end) : 0.0;
    if (*end != '\0' || !(o->factor[0] > 0.0) || !(o->factor[1] > 0.0) ||
        !isfinite(o->factor[0]) || !isfinite(o->factor[1]))
        return cli_error(CLI_USAGE,
                         "--factors must be two numbers above 0, as 1.2,0.8 (got '%s')",
                         o->factors);
    return CLI_GO;
}

static int check_shares(pop_opts *o)
{
    if (o->quantile > 0.5)
        return cli_error(CLI_USAGE, "--quantile must be 0 to 0.5 (got %g)", o->quantile);
    if ((o->replaced >= 0.0) != (o->donors >= 0.0))
        return cli_error(CLI_USAGE, "--replaced and --donors must be given together");
    if (o->replaced >= 0.0 &&
        (!(o->replaced > 0.0) || !(o->donors > 0.0) || o->replaced + o->donors > 1.0))
        return cli_error(CLI_USAGE,
                         "--replaced and --donors must be above 0 and together at most 1 (got "
                         "%g and %g)",
                         o->replaced, o->donors);
    if (o->resample > 1.0)
        return cli_error(CLI_USAGE, "--resample must be 0 to 1 (got %g)", o->resample);
    return CLI_GO;
}

/* Options of a job that a population has no use for. */
static int check_job(const pop_opts *o)
{
    const char *no = cli_given("--immediate --accumulate --keep-gradients --checkpoint-pauses");
    if (no != NULL)
        return cli_error(CLI_USAGE, "%s is not supported for populations", no);
    const int split = job_validation_check(o->validation_share);
    if (split != CLI_GO)
        return split;
    if (o->resume != NULL && job_resume_path(o->resume, o->job.checkpoint) == NULL)
        return cli_error(CLI_USAGE,
                         "--resume must have a FILE, or --checkpoint FILE beside it");
    if (o->resume != NULL && strchr(o->resume, '=') != NULL && !sw_file_there(o->resume))
        return cli_error(CLI_USAGE,
                         "--resume takes '%s' as its FILE: give --resume=FILE, or --resume in "
                         "front of another option",
                         o->resume);
    return CLI_GO;
}

static int pop_table(pop_opts *o, cli_option *table)
{
    const cli_option options[] = {
#define POP_OPTION(type, field, name, value, kind, ...)                                        \
    {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/population/pop_options.def"
    };
    o->stop_score = (double)NAN;
    o->replaced = o->donors = -1.0;
    o->epochs = -1;
    const int n = job_options(&o->job, table, 0, true);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

int pop_parse(pop *p, int argc, char **argv)
{
    static cli_option table[POP_OPTIONS_MAX];
    pop_opts *o = &p->opts;
    const cli_command command = {
        .name = "pbt",
        .usage = "[options] NAME=RANGE ...",
        .about = "Train a population of models that learn from each other how to train "
                 "(population based training).",
        .options = table,
        .n_options = pop_table(o, table),
        .operand = o->hyper,
        .max_operands = POP_HYPERS,
        .notes = notes};
    int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    p->options = table;
    p->n_options = command.n_options;
    cli_command_line(p->command, sizeof p->command, argc, argv);
    while (o->n_hypers < POP_HYPERS && o->hyper[o->n_hypers] != NULL)
        o->n_hypers++;
    o->job.epochs = o->epochs;
    o->job.steps = o->steps;
    o->job.knobs = true;
    status = job_check(&o->job);
    if (status == CLI_GO)
        status = check_factors(o);
    if (status == CLI_GO)
        status = check_shares(o);
    if (status == CLI_GO)
        status = check_job(o);
    p->job.opts = &o->job;
    return status == CLI_GO ? pop_hypers_read(p) : status;
}
