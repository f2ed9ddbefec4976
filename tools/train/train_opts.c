/* The command line of `stepwell train`. */
#include "tools/job/optimizer.h"
#include "tools/train/train.h"
#include <string.h>

static const char notes[] =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 5 no such device, 130 interrupted. Ctrl-C stops after the current step, a "
    "second one at once. No file is touched before the first step, except that a run that does "
    "not fit the memory leaves a profile that says why. If a file of metrics or best "
    "parameters cannot be written, training continues, and the run fails at its end. Witnesses "
    "are not part of --memory-budget: while they watch a program they take up to "
    "three times its immediate_bytes and model_bytes (stepwell plan --json) on top.\n"
    "With --json standard output has one object when training ran to its end or was "
    "interrupted, and nothing when it was refused or failed. Its keys: model, device, data, "
    "batch (that runs), batch_asked (where the data have fewer samples than that), steps "
    "(updates), epochs, seed, threads, method, optimizer and update (null with "
    "mezo "
    "and lozo), eps, zo_rank, zo_window, record and record_bytes (null where they say "
    "nothing), "
    "replayed (the file, or null), keep_gradients, "
    "accumulate, augment (null without), final_loss, epoch_loss and epoch_accuracy (averages "
    "over the steps of the "
    "last "
    "epoch; null where they are not known), diverged, skipped (updates; of mezo and lozo steps "
    "whose losses "
    "were not finite); validation_loss and, where classes "
    "are learned, "
    "test_accuracy, of the last parameters, null when they were not validated; validations, "
    "best_step, best_validation_loss, best_accuracy, stopped_early; resumed_from_step (null: "
    "the run began), checkpoint (null without --checkpoint: path, every_steps or every_ns, "
    "copy_bytes, saved and failed, counts of this process, and of the last save last_step, "
    "file_bytes, last_copy_ns, last_write_ns); predicted and measured, "
    "for "
    "each phase its peak_bytes and end_bytes, measured_by, predicted_peak_bytes, "
    "measured_peak_bytes, model_bytes, arena_bytes, data_bytes, checkpoint_bytes (of the copy, "
    "0 where none is counted), total_bytes, "
    "lower_bound_bytes, launches (of each step on a device; null on the CPU), rebuilt_ops, "
    "recompute, roles, layers, allocations_after_warmup, "
    "min_step_ns, median_step_ns, p99_step_ns, max_step_ns, wall_ns, device_memory (of a card: "
    "what its driver says and what is ours; null for the CPU), programs.\n"
    "With --summary there is summary too, a list of layers: layer, op, output, parameters, "
    "parameter_bytes, saved_bytes, operations (of the forward part), backward_operations (all "
    "else).\n"
    "With --process there are process (null where the system does not say) and limit_unknown "
    "(why a limit of the control groups could not be read; null: all were).\n"
    "With --find-lr there is find_lr too: from, to, steps, stopped_early, suggested (null: the "
    "loss never fell; else steepest), steepest (the rate where the smoothed loss falls "
    "fastest), "
    "tenth_of_lowest (of the rate with the lowest), lowest_rate, lowest_loss and points (rate, "
    "loss, smoothed).\n"
    "On a device a step's figures are read when the next one has begun. A figure that is "
    "measured there "
    "is "
    "of the first run of each program, which goes op by op: later ones are replays of it.\n"
    "A row of --metrics has kind (train, validation, or epoch: averages over the steps of the "
    "epoch), step, epoch (from 1), loss, accuracy "
    "(of classes), rate (of a step) and ms (none of an epoch), and is in the file as soon as "
    "it "
    "is known. On a "
    "device the last step before a validation has no ms: it began before the step before it "
    "was over. A file for TensorBoard has the same as scalars, and beside them the bytes "
    "of each "
    "step: the peak of each phase and of the step, and what lives at its end.";

static const char *const method_words[] = {"backprop", "mezo", "lozo", NULL};

static const char *schedule_help(void)
{
    static char text[500];
    snprintf(text, sizeof text, "of the learning rate: %s", tool_schedule_list());
    return text;
}

static int train_table(train_opts *o, cli_option *table)
{
    job_opts *j = &o->job;
    const cli_option options[] = {
#define TRAIN_ROW(field, name, value, kind, ...) {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/train/train_options.def"
    };
    j->lr_gamma = j->lr_floor = o->min_delta = o->eps = -1.0; /* not given */
    o->lr_from = o->lr_to = -1.0;
    const int n = job_options(j, table, 0, true);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

static bool is_stream(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Options of training alone: its files and its schedule. */
static int check(train_opts *o)
{
    job_opts *j = &o->job;
    const unsigned takes = tool_schedule_takes(j->schedule);
    if (o->witness && j->immediate)
        return cli_error(CLI_USAGE,
                         "--witness and --immediate exclude each other: without a plan there "
                         "is nothing to witness");
    if (o->witness && job_on_device(j))
        return cli_error(CLI_USAGE,
                         "--witness and --device %s exclude each other: witnesses look at "
                         "bytes that only the CPU's programs touch",
                         j->device);
    if (is_stream(o->profile) || is_stream(o->save) || is_stream(o->best) ||
        is_stream(o->heap_profile))
        return cli_error(CLI_USAGE, "%s must be a file: standard output has the result",
                         is_stream(o->profile) ? "--profile"
                         : is_stream(o->save)  ? "--save-params"
                         : is_stream(o->best)  ? "--save-best"
                                               : "--heap-profile");
    int named = job_check_params_name("--save-params", o->save);
    if (named == CLI_GO)
        named = job_check_params_name("--save-best", o->best);
    if (named != CLI_GO)
        return named;
    const int find = train_find_check(o);
    if (find != CLI_GO)
        return find;
    const int zeroth = train_zeroth_check(o);
    if (zeroth != CLI_GO)
        return zeroth;
    const int metrics = train_metrics_check(o->metrics);
    if (metrics != CLI_GO)
        return metrics;
    const int checkpoint = train_checkpoint_check(o);
    if (checkpoint != CLI_GO)
        return checkpoint;
    if (o->summary && o->members > 0)
        return cli_error(CLI_USAGE, "--summary and --members exclude each other: stepwell plan "
                                    "--summary shows the layers of one");
    o->min_delta = o->min_delta < 0.0 ? 0.0 : o->min_delta;
    if (j->exec.op_clocks && j->immediate)
        return cli_error(CLI_USAGE, "--op-clocks has no effect with --immediate");
    if ((takes & TOOL_LR_CUTS) == 0 && (j->lr_every > 0 || j->lr_gamma >= 0.0))
        return cli_error(CLI_USAGE, "%s has no effect without --schedule %s",
                         j->lr_every > 0 ? "--lr-every" : "--lr-gamma",
                         tool_schedule_takers(TOOL_LR_CUTS));
    if ((takes & TOOL_LR_FLOOR) == 0 && j->lr_floor >= 0.0)
        return cli_error(CLI_USAGE, "--lr-floor has no effect with --schedule %s", j->schedule);
    if (j->lr_floor > 0.0 && j->lr >= 0.0 && j->lr_floor > j->lr)
        return cli_error(CLI_USAGE, "--lr-floor %g is above --lr %g", j->lr_floor, j->lr);
    j->lr_floor = j->lr_floor < 0.0 ? 0.0 : j->lr_floor;
    if (j->lr_gamma < 0.0)
        j->lr_gamma = 0.1;
    return CLI_GO;
}

int train_parse(train *t, int argc, char **argv)
{
    static cli_option table[TRAIN_OPTIONS_MAX];
    const cli_command command = {
        .name = "train",
        .usage = "[options]",
        .about =
            "Train a network from planned memory and say what every phase of a step needed.",
        .options = table,
        .n_options = train_table(&t->opts, table),
        .notes = notes,
    };
    const int parsed = cli_parse(&command, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    t->opts.job.shares = t->opts.json;
    t->job.opts = &t->opts.job;
    t->job.batch = t->opts.job.batch.at[0];
    t->options = table;
    t->n_options = command.n_options;
    cli_command_line(t->command, sizeof t->command, argc, argv);
    int status = check(&t->opts);
    if (status == CLI_GO)
        status = job_check(&t->opts.job);
    return status == CLI_GO ? train_check_files(&t->opts) : status;
}
