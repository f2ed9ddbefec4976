/* stepwell train: load, plan everything, train, evaluate, say what was measured.
 *
 * Order: whatever can be refused is refused before the first step - options, data, the plans of
 * all programs against the budget and the machine, the loaders, parameters to load, the place
 * to save them - and the profile, which replaces the file that was there, is opened when
 * nothing else can be, or to say what did not fit the memory. Then the loop only runs. */
#include "profiler/record/prof_heap.h"
#include "runtime/observe/observe.h"
#include "tools/job/summary.h"
#include "tools/train/train.h"
#include <inttypes.h>

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
    const uint64_t n = (uint64_t)t->job.train.n, batch = (uint64_t)t->job.batch;
    const uint64_t each = batch * (uint64_t)o->accumulate; /* samples of a step */
    const uint64_t per_epoch = (n + each - 1) / each;
    const uint64_t by_epochs = per_epoch * (uint64_t)(o->epochs > 0 ? o->epochs : 1);
    const uint64_t by_steps = (uint64_t)o->steps;
    t->total_steps = o->steps == 0                           ? by_epochs
                     : o->epochs > 0 && by_epochs < by_steps ? by_epochs
                                                             : by_steps;
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
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = job_slot_rows(data, t->job.batch), .slots = JOB_SLOTS,
                .seed = (uint64_t)t->opts.job.seed, .shuffle = shuffle,
                .budget = job_on_device(&t->opts.job) /* its memory alone */
                              ? NULL
                              : t->job.budget);
    return sw_loader_create(out, data->set, &opts);
}

static sw_status make_ready(train *t)
{
    SW_TRY(open_loader(t, &t->train_loader, &t->job.train, true));
    SW_TRY(open_loader(t, &t->test_loader, &t->job.test, false));
    SW_TRY(cli_times_init(&t->times, t->total_steps));
    if (t->opts.find_lr)
        SW_TRY(train_find_create(&t->find, &t->opts, t->total_steps));
    SW_TRY(job_note(&t->job, t->job.net.model));
    return sw_model_ready(t->job.net.model, t->job.exec, (uint64_t)t->opts.job.seed);
}

static sw_profile_opts profile_opts(const train *t)
{
    return SW_OPTS(sw_profile_opts, .path = t->opts.profile, .model = t->opts.job.model,
                   .device = t->opts.job.device, .batch = job_batch(&t->job),
                   .seed = (uint64_t)t->opts.job.seed, .command = t->command,
                   .data = t->opts.job.data, .events = t->opts.profile_events,
                   .every = (uint64_t)t->opts.profile_every, .steps = t->total_steps,
                   .budget_bytes = t->opts.job.budget_bytes, .normalise = t->job.normal.text);
}

sw_status train_create_profile(train *t)
{
    const sw_profile_opts opts = profile_opts(t);
    return sw_profile_create(&t->profile, &opts);
}

/* The last thing before the first step. */
static int open_profile(train *t)
{
    if (t->opts.profile == NULL)
        return CLI_GO;
    sw_status status = train_create_profile(t);
    if (status == SW_OK)
        status = sw_exec_set_profile(t->job.exec, t->profile);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

/* Settings that jemalloc needs when the program starts cannot be mended at its end. */
static int check_heap_profile(const train *t)
{
    if (t->opts.heap_profile == NULL || sw_heap_profile_ready() == SW_OK)
        return CLI_GO;
    return cli_error(CLI_FAILED, "--heap-profile: %s", sw_last_error());
}

/* Everything up to the first step. CLI_GO or the exit status. */
static int prepare(train *t)
{
    cli_catch_interrupt();
    if (t->opts.job.checkpoint != NULL)
        cli_catch_save(); /* not later: it would end a run that is about to begin */
    int status = check_heap_profile(t);
    if (status == CLI_GO)
        status = train_check_writable(&t->opts);
    t->opts.job.params = t->opts.load != NULL ? t->opts.load : train_resumed_params(&t->opts);
    t->job.quiet = t->opts.quiet;
    t->job.limited[0] = t->job.limited[1] = t->job.batch;
    if (status == CLI_GO)
        status = job_load(&t->job, false);
    if (status == CLI_GO)
        status = count_steps(t);
    train_checkpoint_opts(t);
    if (status == CLI_GO)
        status = job_open(&t->job);
    if (status == CLI_GO)
        status = job_check_machine(&t->job, t->opts.witness);
    if (status != CLI_GO)
        return status;
    const sw_status ready = make_ready(t);
    if (ready != SW_OK)
        return cli_library_error(ready, false);
    if (t->opts.load != NULL) {
        const sw_status loaded = cli_saved(sw_model_load(t->job.net.model, t->opts.load));
        if (loaded != SW_OK)
            return cli_library_error(loaded, true);
    }
    status = train_resume(t);
    if (status != CLI_GO)
        return status;
    const sw_status zeroth = train_zeroth_open(t);
    if (zeroth != SW_OK)
        return cli_library_error(zeroth, false);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted before the first step: no file was "
                                          "written");
    status = open_profile(t);
    if (status != CLI_GO)
        return status;
    const bool has_rows = t->inside && t->now.has_metrics; /* of the run before */
    const sw_status opened =
        has_rows ? train_metrics_go_on(t, t->now.metrics_bytes) : train_metrics_open(t);
    return opened == SW_OK ? CLI_GO : cli_library_error(opened, false);
}

/* Too many gradients in a row that are no numbers (SW_INVALID) leave the model as it was before
 * them: what was trained until then is saved all the same. */
static int end_of_failed(train *t, sw_status trained)
{
    const int status = cli_library_error(trained, t->opts.replay != NULL);
    if (trained == SW_INVALID && t->opts.save != NULL && t->now.step > 0 &&
        cli_saved(sw_model_save(t->job.net.model, t->opts.save)) == SW_OK)
        cli_note("the parameters of step %" PRIu64 " are in %s", t->now.step, t->opts.save);
    return status;
}

/* The best parameters that are lost fail the run, be it by a fault before the checkpoint
 * that it went on from. It is said here unless it was said when it happened. Rows of --metrics
 * that a run before lost were said when this one went on. */
static void say_lost(train *t)
{
    int failed = CLI_DONE;
    if (t->opts.best != NULL && t->now.best_lost)
        failed = t->best_told ? CLI_FAILED
                              : cli_error(CLI_FAILED,
                                          "the best parameters, those of step %" PRIu64
                                          ", could not be saved in %s",
                                          t->now.best_step, t->opts.best);
    if (t->trouble == CLI_DONE)
        t->trouble = failed;
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
    if (trained != SW_OK)
        return end_of_failed(t, trained);
    if (t->zo != NULL)
        t->skipped = sw_zo_not_finite(t->zo);
    const sw_status counted =
        t->job.net.optimizer != NULL
            ? sw_optimizer_skipped(t->job.net.optimizer, &t->skipped, NULL)
            : SW_OK;
    if (counted != SW_OK)
        return cli_library_error(counted, false);
    if (t->profile != NULL)
        sw_prof_heap_record(t->profile);
    swi_profile_device(t->job.exec, true);
    train_read_process(t);
    if (t->opts.heap_profile != NULL) {
        const sw_status written = sw_heap_profile_write(t->opts.heap_profile);
        if (written != SW_OK)
            return cli_library_error(written, false);
    }
    if (t->now.diverged > 0)
        cli_note("the loss is not a finite number any more since step %" PRIu64
                 ": a smaller %s "
                 "may help",
                 t->now.diverged, t->zo != NULL ? "--lr" : "--lr or --clip");
    const bool whole = t->opts.replay == NULL || !cli_interrupted();
    if (t->opts.save != NULL && t->now.step > 0 &&
        whole) { /* else they are those of the beginning */
        const sw_status saved = cli_saved(sw_model_save(t->job.net.model, t->opts.save));
        if (saved != SW_OK)
            return cli_library_error(saved, false);
    }
    if (t->opts.plot != NULL && !cli_interrupted()) {
        const sw_status drawn =
            cli_saved(train_find_plot(t->find, t->opts.plot, t->opts.job.model));
        if (drawn != SW_OK)
            return cli_library_error(drawn, false);
    }
    if (t->now.stopped)
        cli_note("stopped at step %" PRIu64 ": no validation has been better for %" PRId64
                 " in a row",
                 t->now.step, t->now.waited);
    say_lost(t);
    int status = cli_interrupted() && !t->saving.lost ? CLI_INTERRUPTED : t->trouble;
    if (status == CLI_DONE)
        status = train_check_witness(t);
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
    if (t->profile != NULL) {
        if (status == CLI_INTERRUPTED)
            sw_profile_end_status(t->profile, SW_STOPPED, NULL);
        else if (status != CLI_DONE)
            sw_profile_end_status(t->profile, SW_IO, cli_last_line());
        const sw_status closed = sw_profile_destroy(t->profile);
        if (closed != SW_OK && status == CLI_DONE)
            status = cli_library_error(closed, false);
    }
    job_unload(&t->job);
    train_free_process(t);
    if (t->times.ns != NULL)
        cli_times_free(&t->times);
    return status;
}

int tool_train(int argc, char **argv)
{
    train t = {0};
    const int parsed = train_parse(&t, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (t.opts.members > 0)
        return pop_train(&t);
    int status = prepare(&t);
    if (status == CLI_GO)
        status = show_summary(&t);
    if (status == CLI_GO)
        status = train_and_report(&t);
    else if (status == CLI_NO_FIT)
        train_record_refusal(&t);
    return close_all(&t, status);
}
