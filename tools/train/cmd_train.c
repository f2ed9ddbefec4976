/* stepwell train: load, plan everything, train, evaluate, say what was measured.
 *
 * Order: whatever can be refused is refused before the first step - options, data, the plans of
 * all programs against the budget and the machine, the loaders, parameters to load, the place
 * to save them - and the profile, which replaces the file that was there, is opened when
 * nothing else can be, or to say what did not fit the memory. Then the loop only runs. */
#include "profiler/record/prof_heap.h"
#include "runtime/observe/observe.h"
#include "tools/job/job.h"
#include "tools/job/result.h"
#include "tools/plan/plan.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <string.h>

static void train_record_refusal(train *t);

/* ---- train opts -------------------------------------------------------------------------- */

/* The command line of `stepwell train`. */

static const char notes[] =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 5 no such device, 130 interrupted. Ctrl-C stops after the current step, a "
    "second one at once. No file is touched before the first step, except that a run that does "
    "not fit the memory leaves a profile that says why. If a file of metrics or best "
    "parameters cannot be written, training continues, and the run fails at its end. Witnesses "
    "are not part of --memory-budget: while they watch a program they take up to three times "
    "its immediate_bytes and model_bytes (stepwell plan --json) on top.\n"
    "With --json standard output has one object when training ran to its end or was "
    "interrupted, and nothing when it was refused or failed. Its keys: model, device, data, "
    "batch (that runs), batch_asked (where the data have fewer samples than that), steps "
    "(updates), epochs, seed, threads, precision, bf16_order (null with f32), method, "
    "optimizer and update (null with mezo and lozo), eps, zo_rank, zo_window, record and "
    "record_bytes (null where they say nothing), replayed (the file, or null), keep_gradients, "
    "accumulate, augment (null without), final_loss, epoch_loss and epoch_accuracy (averages "
    "over the steps of the last epoch; null where they are not known), diverged, skipped "
    "(updates; of mezo and lozo steps whose losses were not finite); validation_loss and, "
    "where classes are learned, test_accuracy, of the last parameters, null when they were not "
    "validated; validations, best_step, best_validation_loss, best_accuracy, stopped_early; "
    "resumed_from_step (null: the run began), checkpoint (null without --checkpoint: path, "
    "every_steps or every_ns, copy_bytes, saved and failed, counts of this process, and of the "
    "last save last_step, file_bytes, last_copy_ns, last_write_ns); predicted and measured, "
    "for each phase its peak_bytes and end_bytes, measured_by, predicted_peak_bytes, "
    "measured_peak_bytes, model_bytes, arena_bytes, data_bytes, checkpoint_bytes (of the copy, "
    "0 where none is counted), total_bytes, lower_bound_bytes, launches (of each step on a "
    "device; null on the CPU), rebuilt_ops, recompute, roles, layers, "
    "allocations_after_warmup, min_step_ns, median_step_ns, p99_step_ns, max_step_ns, wall_ns, "
    "device_memory (of a card: what its driver says and what is ours; null for the CPU), "
    "programs.\n"
    "With documents there are documents too, of training and of testing: documents, tokens, "
    "counted, rows, context, cut, cut_tokens and passed_over.\n"
    "With --shards or several processes also shards; with several transport, transport_bytes "
    "(of each rank, for exchanges) and ranks: host, runs (of shards), predicted_peak_bytes, "
    "measured_peak_bytes, sent_bytes, waited_ns, transport_resident_bytes (that it takes "
    "itself) and made_twice (gradients that might not have been finite) of each.\n"
    "With --summary there is summary too, a list of layers: layer, op, output, parameters, "
    "parameter_bytes, saved_bytes, operations (of the forward part), backward_operations (all "
    "else).\n"
    "With --process there are process (null where the system does not say) and limit_unknown "
    "(why a limit of the control groups could not be read; null: all were).\n"
    "With --find-lr there is find_lr too: from, to, steps, stopped_early, suggested (null: the "
    "loss never fell; else steepest), steepest (the rate where the smoothed loss falls "
    "fastest), tenth_of_lowest (of the rate with the lowest), lowest_rate, lowest_loss and "
    "points (rate, loss, smoothed).\n"
    "On a device a step's figures are read when the next one has begun. A figure that is "
    "measured there is of the first run of each program, which goes op by op: later ones are "
    "replays of it.\n"
    "A row of --metrics has kind (train, validation, or epoch: averages over the steps of the "
    "epoch), step, epoch (from 1), loss, accuracy (of classes), rate (of a step) and ms (none "
    "of an epoch), and is in the file as soon as it is known. On a device the last step before "
    "a validation has no ms: it began before the step before it was over. A file for "
    "TensorBoard has the same as scalars, and beside them the bytes of each step: the peak of "
    "each phase and of the step, and what lives at its end.";

static const char *const method_words[] = {"backprop", "mezo", "lozo", NULL};

static int train_table(train_opts *o, cli_option *table)
{
    job_opts *j = &o->job;
    const cli_option options[] = {
#define TRAIN_ROW(field, name, value, kind, ...) {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/train/train_options.def"
    };
    j->warmup = -1;
    j->lr_gamma = j->lr_floor = o->min_delta = o->eps = -1.0; /* not given */
    o->lr_from = o->lr_to = -1.0;
    const int n = job_options(j, table, 0, true);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

/* Options of training alone: its files and its schedule. */
static int check(train_opts *o)
{
    job_opts *j = &o->job;
    const unsigned takes = tool_schedule_takes(j->schedule);
    if (o->witness && j->immediate)
        return cli_error(CLI_USAGE, "--witness and --immediate exclude each other: without a "
                                    "plan there is nothing to witness");
    if (o->witness && job_on_device(j))
        return cli_error(CLI_USAGE,
                         "--witness and --device %s exclude each other: witnesses look at "
                         "bytes that only the CPU's programs touch",
                         j->device);
    CLI_TRY(job_check_params_name("--save-params", o->save));
    CLI_TRY(job_check_params_name("--save-best", o->best));
    if (o->save == NULL && o->best == NULL && cli_given("--save-type") != NULL)
        return cli_error(CLI_USAGE,
                         "--save-type has no effect without --save-params or --save-best");
    CLI_TRY(train_find_check(o));
    CLI_TRY(train_zeroth_check(o));
    const int metrics = job_metrics_check(o->metrics, true);
    if (metrics != CLI_GO)
        return metrics;
    CLI_TRY(train_checkpoint_check(o));
    if (o->summary && o->members > 0)
        return cli_error(CLI_USAGE, "--summary and --members exclude each other: stepwell plan "
                                    "--summary shows the layers of one");
    if (o->members > 0 && j->warmup < 0)
        j->warmup = 0;
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

/* Options: CLI_GO or an exit status. Sets opts, command and the batch. */
static int train_parse(train *t, int argc, char **argv)
{
    static cli_option table[TRAIN_OPTIONS_MAX];
    const cli_command command =
        SW_INIT(.name = "train", .usage = "[options]",
                .about = "Train a network from planned memory and say what every phase of a "
                         "step needed.",
                .options = table, .n_options = train_table(&t->opts, table), .notes = notes);
    CLI_TRY(cli_parse(&command, argc, argv));
    t->opts.job.shares = t->opts.json;
    t->job.opts = &t->opts.job;
    t->options = table;
    t->n_options = command.n_options;
    cli_command_line(t->command, sizeof t->command, argc, argv);
    if (t->opts.save_adapter != NULL)
        t->opts.save = t->opts.save_adapter;
    CLI_TRY(check(&t->opts));
    CLI_TRY(train_ranks_check(&t->opts));
    const bool ranks = t->opts.job.ranks == NULL && swi_ranks_started(NULL) > 1;
    t->opts.job.parts = t->opts.shards > 0 ? t->opts.shards
                        : ranks            ? swi_ranks_started(NULL)
                                           : 0;
    CLI_TRY(job_check(&t->opts.job));
    t->job.batch = t->opts.job.batch.at[0];
    if (t->opts.members == 0)
        CLI_TRY(job_set_shards(&t->job, t->opts.job.batch.at[0], t->opts.shards,
                               t->opts.job.ranks == NULL ? swi_ranks_started(NULL) : 1));
    return train_check_files(&t->opts);
}

/* ---- before and after -------------------------------------------------------------------- */

/* How many steps there will be: --steps, --epochs, or the smaller of both. CLI_GO, or the
 * status when the warm-up takes all of them. */
static int count_steps(train *t)
{
    const job_opts *o = &t->opts.job;
    if (t->opts.find_lr) {
        t->total_steps = o->steps > 0 ? (uint64_t)o->steps : TRAIN_FIND_STEPS;
        return CLI_GO;
    }
    const uint64_t n = (uint64_t)t->job.train.n, batch = (uint64_t)o->batch.at[0];
    const uint64_t each = batch * (uint64_t)o->accumulate; /* samples of a step */
    const bool whole = t->job.shards > 0;
    const uint64_t per_epoch = (n + (whole ? 0 : each - 1)) / each;
    if (per_epoch == 0)
        return cli_error(CLI_USAGE,
                         "--batch must be at most the %" PRIu64
                         " training samples: a step of several shards is whole (got %" PRIu64
                         ")",
                         n, batch);
    const uint64_t by_epochs = per_epoch * (uint64_t)(o->epochs > 0 ? o->epochs : 1);
    const uint64_t by_steps = (uint64_t)o->steps;
    t->total_steps = o->steps == 0                           ? by_epochs
                     : o->epochs > 0 && by_epochs < by_steps ? by_epochs
                                                             : by_steps;
    if (o->warmup < 0)
        t->opts.job.warmup = o->kind->settle != NULL ? (int64_t)(t->total_steps * 3 / 100) : 0;
    t->lr_every = o->lr_every > 0 ? (uint64_t)o->lr_every : (t->total_steps + 2) / 3;
    if ((uint64_t)o->warmup >= t->total_steps)
        return cli_error(CLI_USAGE,
                         "--warmup must be below the %" PRIu64
                         " steps of this run (got %" PRId64 ")",
                         t->total_steps, o->warmup);
    return CLI_GO;
}

static sw_status open_loader(train *t, sw_loader **out, const job_data *data, bool shuffle)
{
    const bool learns = data == &t->job.train;
    const int rank = swi_ranks_rank(t->job.ranks), ranks = swi_ranks_size(t->job.ranks);
    const int share = learns ? t->job.shards_here : 1;
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = job_slot_rows(data, t->job.batch),
                .seed = (uint64_t)t->opts.job.seed, .shuffle = shuffle,
                .drop_last = learns && t->job.shards > 0,
                .of = (uint32_t)(!learns ? ranks > 1 ? ranks : 0 : t->job.shards),
                .first = ranks > 1 || learns ? (uint32_t)(rank * share) : 0,
                .share = (uint32_t)(learns || ranks > 1 ? share : 0),
                .budget = job_on_device(&t->opts.job) /* its memory alone */
                              ? NULL
                              : t->job.budget);
    return sw_loader_create(out, data->set, &opts);
}

/* The profile of --profile, without an exec. */
static sw_status train_create_profile(train *t)
{
    const sw_profile_opts opts =
        SW_OPTS(sw_profile_opts, .path = t->opts.profile, .model = t->opts.job.model,
                .device = t->opts.job.device, .batch = job_batch(&t->job),
                .seed = (uint64_t)t->opts.job.seed, .command = t->command,
                .data = t->opts.job.data, .events = t->opts.profile_events,
                .every = (uint64_t)t->opts.profile_every, .steps = t->total_steps,
                .budget_bytes = t->opts.job.budget_bytes, .normalise = t->job.normal.text);
    return sw_profile_create(&t->profile, &opts);
}

/* Of a model that came with defaults of its own: what it is, and how it is trained. */
static void tell_beginning(const train *t)
{
    const job_opts *o = &t->opts.job;
    char text[400];
    o->kind->tell(&t->job.net, stderr);
    if (t->opts.find_lr || t->opts.replay != NULL) /* rates of its own */
        return;
    snprintf(text, sizeof text,
             "%s steps of %" PRId64 " rows (--batch %" PRId64 " --accumulate %" PRId64
             "), %s, rate %g, schedule %s, warm-up %" PRId64 ", seed %" PRId64 ", %" PRId64
             " threads",
             cli_digits(t->total_steps).text, o->batch.at[0] * o->accumulate, o->batch.at[0],
             o->accumulate, o->method == JOB_MEZO ? t->opts.method : o->optimizer, o->lr,
             o->schedule, o->warmup, o->seed, o->threads);
    fprintf(stderr, "%s\n", text);
}

/* Everything up to the first step. CLI_GO or the exit status. */
static int prepare(train *t)
{
    cli_catch_interrupt();
    CLI_TRY(train_ranks_open(t));
    if (t->opts.job.checkpoint != NULL)
        cli_catch_save(); /* not later: it would end a run that is about to begin */
    /* Settings that jemalloc needs when the program starts cannot be mended at its end. */
    if (t->opts.heap_profile != NULL && sw_heap_profile_ready() != SW_OK)
        return cli_error(CLI_FAILED, "--heap-profile: %s", sw_last_error());
    CLI_TRY(train_check_writable(&t->opts));
    t->opts.job.params = t->opts.load != NULL ? t->opts.load : train_resumed_params(&t->opts);
    t->job.quiet = t->opts.quiet;
    t->job.limited[0] = t->job.limited[1] = t->job.batch;
    CLI_TRY(job_load(&t->job, false));
    if (!t->opts.quiet)
        job_tell_documents(&t->job, stderr);
    CLI_TRY(train_ranks_normal(t));
    CLI_TRY(count_steps(t));
    train_checkpoint_opts(t);
    CLI_TRY(t->job.ranks == NULL ? plan_trade_open(&t->job) : job_open(&t->job));
    if (t->opts.job.kind->tell != NULL && !t->opts.quiet)
        tell_beginning(t);
    CLI_TRY(job_check_machine(&t->job, t->opts.witness));
    CLI_LIBRARY(open_loader(t, &t->train_loader, &t->job.train, true), false);
    CLI_LIBRARY(open_loader(t, &t->test_loader, &t->job.test, false), false);
    CLI_LIBRARY(cli_times_init(&t->times, t->total_steps), false);
    if (t->opts.find_lr)
        CLI_LIBRARY(train_find_create(&t->find, &t->opts, t->total_steps), false);
    CLI_LIBRARY(job_note(&t->job, t->job.net.model), false);
    CLI_LIBRARY(job_ready(&t->job), t->opts.job.kind->load != NULL);
    if (t->opts.load != NULL)
        CLI_LIBRARY(cli_saved(sw_model_load(t->job.net.model, t->opts.load)), true);
    CLI_TRY(train_resume(t));
    CLI_TRY(train_ranks_agree(t));
    CLI_LIBRARY(train_zeroth_open(t), false);
    if (cli_interrupted() && t->job.ranks == NULL)
        return cli_error(CLI_INTERRUPTED, "interrupted before the first step: no file was "
                                          "written");
    if (t->opts.profile != NULL) { /* the last thing before the first step */
        CLI_LIBRARY(train_create_profile(t), false);
        job_ranks_profile(t->job.ranks, t->profile, false);
        CLI_LIBRARY(sw_exec_set_profile(t->job.exec, t->profile), false);
    }
    const bool has_rows = t->inside && t->now.has_metrics; /* of the run before */
    const sw_status opened =
        has_rows ? train_metrics_go_on(t, t->now.metrics_bytes) : train_metrics_open(t);
    return opened == SW_OK ? CLI_GO : cli_library_error(opened, false);
}

/* Before the first step; in JSON it stands with the result. */
static int show_summary(train *t)
{
    if (!t->opts.summary || t->opts.json)
        return CLI_GO;
    const sw_status status = summary_print(&t->job);
    putchar('\n');
    cli_flush();
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

static int train_and_report(train *t)
{
    t->start_ns = cli_clock_ns();
    sw_status trained = t->opts.replay != NULL ? train_replay(t) : train_all(t);
    t->wall_ns = cli_clock_ns() - t->start_ns;
    cli_progress("%s", "");
    if (trained == SW_OK)
        trained = train_zeroth_save(t);
    if (trained == SW_OK)
        train_checkpoint_end(t);
    sw_checkpoint_destroy(t->job.checkpoint); /* it syncs the metrics */
    t->job.checkpoint = NULL;
    train_metrics_close(t);
    t->alike = trained == SW_INVALID && train_ranks_skipped(t);
    if (t->alike && swi_ranks_rank(t->job.ranks) > 0)
        return CLI_FAILED;
    if (trained != SW_OK) {
        /* Too many gradients in a row that are no numbers (SW_INVALID) leave the model as it
         * was before them: what was trained until then is saved all the same. */
        const int status = cli_library_error(trained, t->opts.replay != NULL);
        if (trained == SW_INVALID && t->opts.save != NULL && t->now.step > 0 &&
            job_save(&t->job, t->opts.save) == SW_OK)
            cli_note("the parameters of step %" PRIu64 " are in %s", t->now.step, t->opts.save);
        return status;
    }
    if (t->zo != NULL)
        t->skipped = sw_zo_not_finite(t->zo);
    CLI_LIBRARY(t->job.net.optimizer != NULL
                    ? sw_optimizer_skipped(t->job.net.optimizer, &t->skipped, NULL)
                    : SW_OK,
                false);
    if (t->profile != NULL)
        sw_prof_heap_record(t->profile);
    swi_profile_device(t->job.exec, true);
    train_read_process(t);
    if (t->opts.heap_profile != NULL)
        CLI_LIBRARY(sw_heap_profile_write(t->opts.heap_profile), false);
    if (t->now.diverged > 0)
        cli_note("the loss is not a finite number any more since step %" PRIu64
                 ": a smaller %s may help",
                 t->now.diverged, t->zo != NULL ? "--lr" : "--lr or --clip");
    const bool whole = t->opts.replay == NULL || !train_interrupted(t);
    if (t->opts.save != NULL && t->now.step > 0 && whole) /* else those of the beginning */
        CLI_LIBRARY(job_save(&t->job, t->opts.save), false);
    if (t->opts.plot != NULL && !cli_interrupted())
        CLI_LIBRARY(cli_saved(train_find_plot(t->find, t->opts.plot, t->opts.job.model)),
                    false);
    if (t->now.stopped)
        cli_note("stopped at step %" PRIu64 ": no validation has been better for %" PRId64
                 " in a row",
                 t->now.step, t->now.waited);
    /* The best parameters that are lost fail the run, be it by a fault before the checkpoint
     * that it went on from. It is said here unless it was said when it happened. Rows of
     * --metrics that a run before lost were said when this one went on. */
    int failed = CLI_DONE;
    if (t->opts.best != NULL && t->now.best_lost)
        failed = t->best_told ? CLI_FAILED
                              : cli_error(CLI_FAILED,
                                          "the best parameters, those of step %" PRIu64
                                          ", could not be saved in %s",
                                          t->now.best_step, t->opts.best);
    if (t->trouble == CLI_DONE)
        t->trouble = failed;
    int status = train_interrupted(t) && !t->saving.lost ? CLI_INTERRUPTED : t->trouble;
    if (status == CLI_DONE)
        status = result_check_witnesses(&t->job, t->measured);
    return train_print(t, status);
}

/* Backwards through prepare(); whatever was not made is NULL. The profile closes last, since
 * the exec writes to it, and a run that could not write it whole has failed. */
static int close_all(train *t, int status)
{
    sw_checkpoint_destroy(t->job.checkpoint);
    t->job.checkpoint = NULL;
    train_metrics_close(t);
    sw_zo_destroy(t->zo);
    t->zo = NULL;
    train_find_destroy(t->find);
    sw_loader_destroy(t->test_loader);
    sw_loader_destroy(t->train_loader);
    job_close(&t->job);
    for (int i = 0; i < JOB_PROGRAMS; i++)
        share_list_free(&t->measured[i].shares);
    status = job_profile_close(t->profile, status);
    job_unload(&t->job);
    train_free_process(t);
    sw_heap_free(t->found, SW_HEAP_RECORDS, t->found_bytes);
    if (t->times.ns != NULL)
        cli_times_free(&t->times);
    return status;
}

int tool_train(int argc, char **argv)
{
    train t = {0};
    job_ranks_one_voice(argc, argv);
    CLI_TRY(train_parse(&t, argc, argv));
    if (t.opts.members > 0)
        return pop_train(&t);
    int status = prepare(&t);
    if (status == CLI_GO)
        status = show_summary(&t);
    if (status == CLI_GO)
        status = train_and_report(&t);
    else if (status == CLI_NO_FIT)
        train_record_refusal(&t);
    job_ranks_profile(t.job.ranks, t.profile, true);
    const int all = job_ranks_close(t.job.ranks, t.agreed, t.alike ? CLI_DONE : status);
    t.job.ranks = NULL;
    return close_all(&t, t.alike ? status : all);
}

/* ---- train refused ----------------------------------------------------------------------- */

/* A training that was refused for memory before its first step, with --profile: the file has
 * who would have held what, and the largest batch that fits, as far as a moment's search tells.
 * The refusal has been printed; nothing here prints, and what fails here changes nothing. */

#define SEARCHED_OPS 1000 /* a search plans some fifty batches: two seconds for so many ops */

/* The plans once more, now with a profile: the library writes the one that it refuses. */
static bool refused_again(train *t)
{
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (t->job.program[i].batch > 0) {
            const sw_status status = job_plan(&t->job, (job_which)i);
            if (status != SW_OK)
                return status == SW_NOMEM;
        }
    return false;
}

/* Whatever else did not fit: the machine, the loaders beside the plans, or before there were
 * plans at all. */
static void record_other(train *t, const char *message)
{
    const job *j = &t->job;
    size_t limit = t->opts.job.budget_bytes;
    const bool budget = limit > 0 && job_total_bytes(j) > limit;
    const job_program *p = job_main(j);
    if (!budget)
        limit = machine_memory("", &t->job.machine) == SW_OK ? j->machine.bytes : 0;
    if (j->exec != NULL && p->plan.total_bytes > 0) {
        const sw_run_args args = job_args(&t->job, (job_which)(p - j->program), p->inputs, 0);
        swi_profile_refused(j->exec, &args, budget ? "budget" : "machine", limit, message);
        return;
    }
    const sw_prof_denied denied =
        SW_INIT(.program = SW_PROF_NONE, .batch = job_batch(j), .run = "train",
                .limited_by = "memory", .message = message);
    sw_prof_denied_record(t->profile, &denied);
}

/* After a refusal for memory before the first step; see train_refused.c. */
static void train_record_refusal(train *t)
{
    if (t->opts.profile == NULL || t->profile != NULL)
        return;
    if (train_create_profile(t) != SW_OK)
        return;
    const bool again = t->job.exec != NULL &&
                       sw_exec_set_profile(t->job.exec, t->profile) == SW_OK &&
                       refused_again(t);
    if (!again)
        record_other(t, cli_last_line());
    const size_t budget = t->opts.job.budget_bytes;
    if (t->job.exec != NULL && budget > 0 && t->job.shards == 0 &&
        job_main(&t->job)->plan.n_ops <= SEARCHED_OPS) {
        job_opts opts = t->opts.job;
        opts.budget_bytes = 0; /* without one nothing is run again: what then fits does */
        job look = {
            .opts = &opts, .batch = t->job.batch, .train = t->job.train, .test = t->job.test};
        plan_found found;
        if (plan_fit_search(&look, budget, &found) == SW_OK)
            sw_prof_fits_record(t->profile, found.batch, found.total_bytes, budget);
        job_close(&look);
    }
}
