/* The loop of `stepwell train`: micro-batches, steps, validations, epochs. A step is an update;
 * with --accumulate it takes several micro-batches, the last of an epoch fewer. */
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

/* Run one batch, the micro-th of its step; the first of each program is its warm-up and is the
 * one that is witnessed. */
static sw_status run(train *t, job_which which, const sw_array *inputs, uint32_t micro)
{
    train_measured *m = &t->measured[which];
    sw_run_args args = job_args(&t->job, which, inputs, t->step);
    args.run = micro;
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

/* Weighted by its rows, so that a smaller batch counts as what it is. */
static sw_status add_metrics(train *t, train_score *to, int64_t rows)
{
    double loss, accuracy = 0.0;
    SW_TRY(sw_metric_get(t->job.exec, "loss", &loss));
    if (train_has_classes(t))
        SW_TRY(sw_metric_get(t->job.exec, "accuracy", &accuracy));
    /* One batch has the loss that its run said, to the bit. */
    to->loss = to->rows == 0 ? loss
                             : (to->loss * (double)to->rows + loss * (double)rows) /
                                   (double)(to->rows + rows);
    to->right += llround(accuracy * (double)rows); /* a share of rows: whole again */
    to->rows += rows;
    return SW_OK;
}

/* ---- validation -------------------------------------------------------------------------- */

/* All of the test set; rows is less where that was interrupted. */
static sw_status evaluate(train *t, train_score *out)
{
    *out = (train_score){0};
    SW_TRY(sw_loader_epoch(t->test_loader, 0));
    while (!cli_interrupted()) {
        const sw_array *inputs;
        int n_inputs;
        SW_TRY(sw_loader_next(t->test_loader, &inputs, &n_inputs));
        if (n_inputs == 0)
            break;
        SW_TRY(run(t, pick(t, JOB_EVAL, inputs), inputs, 0));
        SW_TRY(add_metrics(t, out, inputs[0].shape.dim[0]));
        if (!t->opts.quiet)
            cli_progress("testing  %" PRId64 "/%" PRId64, out->rows, t->job.test.n);
    }
    return SW_OK;
}

/* The best parameters so far are in their file before training goes on. A failure costs the
 * file, not the training, which may have gone on for days: it is told now and fails the run at
 * its end. */
static void keep_best(train *t)
{
    t->best = t->test;
    t->best_step = t->step;
    if (t->opts.best == NULL)
        return;
    const sw_status saved = sw_model_save(t->job.net.model, t->opts.best);
    if (saved != SW_OK && t->trouble == CLI_DONE)
        t->trouble = cli_library_error(saved, false);
}

/* Better by less than --min-delta is kept, and still counts as no improvement. */
static void judge(train *t)
{
    const double loss = t->test.loss;
    const bool first = t->best_step == 0;
    if (isfinite(loss) && (first || loss < t->best.loss))
        keep_best(t);
    if (isfinite(loss) &&
        (t->validations == 1 || !isfinite(t->mark) || loss < t->mark - t->opts.min_delta)) {
        t->mark = loss;
        t->waited = 0;
    } else {
        t->waited++;
    }
    t->stopped = t->opts.patience > 0 && t->waited >= t->opts.patience;
}

static void say_validation(const train *t, uint64_t epoch)
{
    cli_progress("%s", "");
    if (t->opts.quiet)
        return;
    fprintf(stderr, "epoch %" PRIu64 "  step %" PRIu64 "  mean loss %s", epoch + 1, t->step,
            train_loss(t->epoch_loss).text);
    if (t->evaluated)
        fprintf(stderr, "  test loss %s", train_loss(t->test.loss).text);
    if (t->evaluated && train_has_classes(t))
        fprintf(stderr, "  accuracy %.2f %%",
                100.0 * (double)t->test.right / (double)t->test.rows);
    fputc('\n', stderr);
}

static sw_status validate(train *t, uint64_t epoch)
{
    train_score score;
    const uint64_t start = cli_clock_ns();
    SW_TRY(evaluate(t, &score));
    if (score.rows < t->job.test.n)
        return SW_OK; /* interrupted: no result rather than part of one */
    t->test = score;
    t->evaluated = true;
    t->validations++;
    look_at_loss(t, score.loss);
    judge(t);
    const train_row row = {.validation = true,
                           .step = t->step,
                           .epoch = epoch,
                           .score = score,
                           .ns = cli_clock_ns() - start};
    train_metrics_row(t, &row);
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

static sw_status set_rate(train *t, float *rate)
{
    const sw_schedule schedule = {.size = sizeof schedule,
                                  .kind = t->opts.job.schedule,
                                  .base = (float)t->opts.job.lr,
                                  .warmup_steps = (uint64_t)t->opts.job.warmup,
                                  .total_steps = t->total_steps,
                                  .every = t->lr_every,
                                  .gamma = (float)t->opts.job.lr_gamma,
                                  .floor = (float)t->opts.job.lr_floor};
    SW_TRY(sw_schedule_at(&schedule, t->step, rate));
    sw_knob_set(sw_optimizer_lr(t->job.net.optimizer, 0), *rate);
    return SW_OK;
}

/* Rows of the step whose first micro-batch is batch `first` of the epoch. */
static int64_t rows_of_step(const train *t, int64_t first)
{
    const int64_t batch = job_slot_rows(&t->job.train, t->job.batch);
    const int64_t left = t->job.train.n - first * batch;
    const int64_t all = batch * t->opts.job.accumulate;
    return left < all ? left : all;
}

/* A step as it runs. */
typedef struct {
    train_score score;
    int64_t rows;    /* of all its micro-batches */
    job_which which; /* the last program that ran */
    bool warm;       /* no program ran for the first time */
} one_step;

/* Its micro-batches; score.rows is less than rows where that was interrupted, and 0 at the end
 * of the epoch. */
static sw_status run_step(train *t, one_step *s)
{
    for (uint32_t micro = 0; micro == 0 || (s->score.rows < s->rows && !cli_interrupted());
         micro++) {
        const sw_array *inputs;
        int n_inputs;
        SW_TRY(sw_loader_next(t->train_loader, &inputs, &n_inputs));
        if (n_inputs == 0)
            return SW_OK;
        const int64_t rows = inputs[0].shape.dim[0];
        const bool last = s->score.rows + rows >= s->rows;
        s->which = last ? pick(t, JOB_TRAIN, inputs) : JOB_MICRO;
        if (t->opts.job.accumulate > 1)
            tool_net_share(&t->job.net, (double)rows / (double)s->rows);
        SW_TRY(run(t, s->which, inputs, micro));
        SW_TRY(add_metrics(t, &s->score, rows));
        s->warm = s->warm && t->measured[s->which].runs > 1;
    }
    return SW_OK;
}

/* Smaller steps and warm-ups would make the minimum and the maximum of another thing. */
static bool is_timed(const train *t, const one_step *s)
{
    const int64_t n = t->opts.job.accumulate;
    return s->warm && &t->job.program[s->which] == job_main(&t->job) &&
           (n == 1 || s->rows == n * t->job.batch);
}

/* The next step of the epoch; *more is false at its end. */
static sw_status next_step(train *t, uint64_t epoch, bool *more)
{
    const uint64_t start = cli_clock_ns();
    one_step s = {.rows = rows_of_step(t, t->batches_taken), .warm = true};
    float rate;
    SW_TRY(set_rate(t, &rate));
    SW_TRY(run_step(t, &s));
    *more = s.rows > 0 && s.score.rows == s.rows;
    if (!*more)
        return SW_OK;
    t->batches_taken += t->opts.job.accumulate;
    t->step++;
    t->evaluated = false;
    t->last_loss = s.score.loss;
    look_at_loss(t, t->last_loss);
    const uint64_t ns = cli_clock_ns() - start;
    if (is_timed(t, &s))
        cli_times_add(&t->times, ns);
    const train_row row = {
        .step = t->step, .epoch = epoch, .score = s.score, .rate = (double)rate, .ns = ns};
    train_metrics_row(t, &row);
    if (!t->opts.quiet)
        cli_progress("epoch %" PRIu64 "  step %" PRIu64 "/%" PRIu64 "  loss %s", epoch + 1,
                     t->step, t->total_steps, train_loss(t->last_loss).text);
    return SW_OK;
}

static bool goes_on(const train *t)
{
    return t->step < t->total_steps && !t->stopped && !cli_interrupted();
}

static sw_status train_epoch(train *t, uint64_t epoch)
{
    const uint64_t every = (uint64_t)t->opts.validate_every;
    double sum = 0.0;
    uint64_t steps = 0;
    bool more = true;
    t->batches_taken = 0;
    SW_TRY(sw_loader_epoch(t->train_loader, epoch));
    while (goes_on(t)) {
        SW_TRY(next_step(t, epoch, &more));
        if (!more)
            break;
        sum += t->last_loss;
        t->epoch_loss = sum / (double)++steps;
        if (every > 0 && t->step % every == 0 && t->batches_taken < t->batches &&
            t->step < t->total_steps) {
            SW_TRY(validate(t, epoch));
            say_validation(t, epoch);
        }
    }
    if (t->batches_taken >= t->batches)
        t->epochs++;
    return SW_OK;
}

sw_status train_all(train *t)
{
    t->batches = sw_loader_batches(t->train_loader);
    for (uint64_t epoch = 0; goes_on(t); epoch++) {
        t->evaluated = false;
        SW_TRY(train_epoch(t, epoch));
        if (!cli_interrupted() && !t->evaluated)
            SW_TRY(validate(t, epoch));
        say_validation(t, epoch);
    }
    return SW_OK;
}
