/* stepwell train: load, plan everything, train, evaluate, say what was measured.
 *
 * Order: whatever can be refused is refused before the first step - options, data, the plans of
 * all programs against the budget and the machine, the loaders, parameters to load, the place
 * to save them - and the profile, which replaces the file that was there, is opened when
 * nothing else can be. Then the loop only runs. */
#include "tools/train.h"
#include <inttypes.h>
#include <math.h>

/* ---- one run ----------------------------------------------------------------------------- */

static void keep_highest(train_measured *m, const sw_run_info *info)
{
    for (int i = 0; i < SW_PHASES; i++) {
        if (info->phase[i].peak_bytes > m->phase[i].peak_bytes)
            m->phase[i].peak_bytes = info->phase[i].peak_bytes;
        m->phase[i].end_bytes = info->phase[i].end_bytes;
    }
    if (info->peak_bytes > m->peak_bytes)
        m->peak_bytes = info->peak_bytes;
    if (info->bump_bytes > m->bump_bytes)
        m->bump_bytes = info->bump_bytes;
}

/* By roles and layers a program's runs are all alike. */
static sw_status keep_shares(train *t, train_measured *m)
{
    SW_TRY(t->opts.witness ? sw_witness_shares(t->job.exec, share_list_add, &m->shares)
                           : sw_last_shares(t->job.exec, share_list_add, &m->shares));
    return m->shares.status;
}

/* Run one batch; the first of each program is its warm-up and is the one that is witnessed. */
static sw_status run(train *t, job_which which, const sw_array *inputs)
{
    train_measured *m = &t->measured[which];
    const sw_run_args args = job_args(&t->job, which, inputs, t->step);
    if (t->opts.witness && m->runs == 0) {
        m->witness.size = sizeof m->witness;
        SW_TRY(sw_witness(t->job.exec, &args, SW_WITNESS_ALL, &m->witness));
    }
    SW_TRY(sw_run(t->job.exec, &args));
    sw_run_info info = {.size = sizeof info};
    SW_TRY(sw_last_run(t->job.exec, &info));
    keep_highest(m, &info);
    if (t->opts.json && m->runs == 0)
        SW_TRY(keep_shares(t, m));
    m->runs++;
    t->warm_runs += info.warm != 0;
    if (info.warm != 0)
        t->allocations += info.allocations;
    return SW_OK;
}

static job_which pick(const train *t, job_which full, const sw_array *inputs)
{
    return inputs[0].shape.dim[0] == t->job.batch ? full : (job_which)(full + 1);
}

/* A loss that is no finite number never becomes one again: the first is remembered. */
static void look_at_loss(train *t, double loss)
{
    if (!isfinite(loss) && t->diverged == 0)
        t->diverged = t->step;
}

/* ---- evaluation -------------------------------------------------------------------------- */

/* Weighted by the size of each batch, so that the last, smaller one counts as what it is. */
static sw_status evaluate(train *t)
{
    double loss_sum = 0.0;
    int64_t right = 0, seen = 0;
    SW_TRY(sw_loader_epoch(t->test_loader, 0));
    while (!cli_interrupted()) {
        const sw_array *inputs;
        int n_inputs;
        SW_TRY(sw_loader_next(t->test_loader, &inputs, &n_inputs));
        if (n_inputs == 0)
            break;
        double loss, accuracy = 0.0;
        SW_TRY(run(t, pick(t, JOB_EVAL, inputs), inputs));
        SW_TRY(sw_metric_get(t->job.exec, "loss", &loss));
        if (t->job.net.task == TOOL_CLASSIFY)
            SW_TRY(sw_metric_get(t->job.exec, "accuracy", &accuracy));
        const int64_t rows = inputs[0].shape.dim[0];
        loss_sum += loss * (double)rows;
        right += llround(accuracy * (double)rows); /* a share of rows: whole again */
        seen += rows;
        if (!t->opts.quiet)
            cli_progress("testing  %" PRId64 "/%" PRId64, seen, t->job.test.n);
    }
    if (seen < t->job.test.n)
        return SW_OK; /* interrupted: no result rather than part of one */
    t->test_right = right;
    t->test_loss = loss_sum / (double)seen;
    look_at_loss(t, t->test_loss);
    t->evaluated = true;
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

static sw_status set_rate(train *t)
{
    const sw_schedule schedule = {.size = sizeof schedule,
                                  .kind = t->opts.job.schedule,
                                  .base = (float)t->opts.job.lr,
                                  .warmup_steps = (uint64_t)t->opts.job.warmup,
                                  .total_steps = t->total_steps,
                                  .every = t->lr_every,
                                  .gamma = (float)t->opts.job.lr_gamma};
    float rate;
    SW_TRY(sw_schedule_at(&schedule, t->step, &rate));
    sw_knob_set(sw_optimizer_lr(t->job.net.optimizer, 0), rate);
    return SW_OK;
}

static sw_status train_epoch(train *t, uint64_t epoch)
{
    double sum = 0.0;
    uint64_t steps = 0;
    SW_TRY(sw_loader_epoch(t->train_loader, epoch));
    while (t->step < t->total_steps && !cli_interrupted()) {
        const uint64_t start = cli_clock_ns();
        const sw_array *inputs;
        int n_inputs;
        SW_TRY(sw_loader_next(t->train_loader, &inputs, &n_inputs));
        if (n_inputs == 0)
            break;
        const job_which which = pick(t, JOB_TRAIN, inputs);
        SW_TRY(set_rate(t));
        SW_TRY(run(t, which, inputs));
        SW_TRY(sw_metric_get(t->job.exec, "loss", &t->last_loss));
        t->step++;
        look_at_loss(t, t->last_loss);
        sum += t->last_loss;
        steps++;
        /* Smaller batches and warm-ups would make the minimum and the maximum of another thing.
         */
        if (t->measured[which].runs > 1 && &t->job.program[which] == job_main(&t->job))
            cli_times_add(&t->times, cli_clock_ns() - start);
        if (!t->opts.quiet)
            cli_progress("epoch %" PRIu64 "  step %" PRIu64 "/%" PRIu64 "  loss %s", epoch + 1,
                         t->step, t->total_steps, train_loss(t->last_loss).text);
    }
    t->epoch_loss = steps > 0 ? sum / (double)steps : t->epoch_loss;
    if (steps == (uint64_t)sw_loader_batches(t->train_loader))
        t->epochs++;
    return SW_OK;
}

static void say_epoch(const train *t, uint64_t epoch)
{
    cli_progress("%s", "");
    if (t->opts.quiet)
        return;
    fprintf(stderr, "epoch %" PRIu64 "  step %" PRIu64 "  mean loss %s", epoch + 1, t->step,
            train_loss(t->epoch_loss).text);
    if (t->evaluated)
        fprintf(stderr, "  test loss %s", train_loss(t->test_loss).text);
    if (t->evaluated && t->job.net.task == TOOL_CLASSIFY)
        fprintf(stderr, "  accuracy %.2f %%",
                100.0 * (double)t->test_right / (double)t->job.test.n);
    fputc('\n', stderr);
}

static sw_status train_all(train *t)
{
    for (uint64_t epoch = 0; t->step < t->total_steps && !cli_interrupted(); epoch++) {
        t->evaluated = false;
        SW_TRY(train_epoch(t, epoch));
        if (!cli_interrupted())
            SW_TRY(evaluate(t));
        say_epoch(t, epoch);
    }
    return SW_OK;
}

/* ---- before and after -------------------------------------------------------------------- */

/* How many steps there will be: --steps, --epochs, or the smaller of both. CLI_GO, or the
 * status when the warm-up takes all of them. */
static int count_steps(train *t)
{
    const job_opts *o = &t->opts.job;
    const uint64_t n = (uint64_t)t->job.train.n, batch = (uint64_t)t->job.batch;
    const uint64_t per_epoch = (n + batch - 1) / batch;
    const uint64_t by_epochs = per_epoch * (uint64_t)(o->epochs > 0 ? o->epochs : 1);
    const uint64_t by_steps = (uint64_t)o->steps;
    t->total_steps = o->steps == 0                           ? by_epochs
                     : o->epochs > 0 && by_epochs < by_steps ? by_epochs
                                                             : by_steps;
    t->lr_every = o->lr_every > 0 ? (uint64_t)o->lr_every : (t->total_steps + 2) / 3;
    if ((uint64_t)o->warmup >= t->total_steps)
        return cli_error(CLI_USAGE,
                         "--warmup wants fewer than the %" PRIu64
                         " steps of this run, not %" PRId64,
                         t->total_steps, o->warmup);
    return CLI_GO;
}

static sw_status open_loader(train *t, sw_loader **out, const job_data *data, bool shuffle)
{
    const sw_loader_opts opts = {.size = sizeof opts,
                                 .batch = job_slot_rows(data, t->job.batch),
                                 .slots = JOB_SLOTS,
                                 .seed = (uint64_t)t->opts.job.seed,
                                 .shuffle = shuffle,
                                 .budget = t->job.budget};
    return sw_loader_create(out, data->set, &opts);
}

static sw_status make_ready(train *t)
{
    SW_TRY(open_loader(t, &t->train_loader, &t->job.train, true));
    SW_TRY(open_loader(t, &t->test_loader, &t->job.test, false));
    SW_TRY(cli_times_init(&t->times, t->total_steps));
    return sw_model_ready(t->job.net.model, t->job.exec, (uint64_t)t->opts.job.seed);
}

/* The last thing before the first step. */
static int open_profile(train *t)
{
    if (t->opts.profile == NULL)
        return CLI_GO;
    const sw_profile_opts opts = {.size = sizeof opts,
                                  .path = t->opts.profile,
                                  .model = t->opts.job.model,
                                  .device = t->opts.job.device,
                                  .batch = t->job.batch,
                                  .seed = (uint64_t)t->opts.job.seed,
                                  .command = t->command,
                                  .data = t->opts.job.data};
    sw_status status = sw_profile_create(&t->profile, &opts);
    if (status == SW_OK)
        status = sw_exec_set_profile(t->job.exec, t->profile);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

/* Everything up to the first step. CLI_GO or the exit status. */
static int prepare(train *t)
{
    cli_catch_interrupt();
    int status = train_check_save(t->opts.save);
    if (status == CLI_GO)
        status = job_load(&t->job, false);
    if (status == CLI_GO)
        status = count_steps(t);
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
        const sw_status loaded = sw_model_load(t->job.net.model, t->opts.load);
        if (loaded != SW_OK)
            return cli_library_error(loaded, true);
    }
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted before the first step: no file was "
                                          "written");
    return open_profile(t);
}

static int train_and_report(train *t)
{
    t->start_ns = cli_clock_ns();
    const sw_status trained = train_all(t);
    t->wall_ns = cli_clock_ns() - t->start_ns;
    cli_progress("%s", "");
    if (trained != SW_OK)
        return cli_library_error(trained, false);
    train_read_process(t);
    if (t->diverged > 0)
        cli_note("the loss is not a finite number any more since step %" PRIu64 ": a smaller "
                 "--lr or --clip may help",
                 t->diverged);
    if (t->opts.save != NULL && t->step > 0) { /* else they are those of the beginning */
        const sw_status saved = sw_model_save(t->job.net.model, t->opts.save);
        if (saved != SW_OK)
            return cli_library_error(saved, false);
    }
    int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (status == CLI_DONE)
        status = train_check_witness(t);
    return train_print(t, status);
}

/* Backwards through prepare(); whatever was not made is NULL. The profile closes last, since
 * the exec writes to it, and a run that could not write it whole has failed. */
static int close_all(train *t, int status)
{
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
    int status = prepare(&t);
    if (status == CLI_GO)
        status = train_and_report(&t);
    return close_all(&t, status);
}
