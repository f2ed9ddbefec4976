/* The loop of `stepwell train`: micro-batches, steps, validations, epochs. A step is an update;
 * with --accumulate it takes several micro-batches, the last of an epoch fewer. On a device the
 * metrics of a run are read when the next one has begun, and a step is reported then. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/data/loader.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define LONG_NS UINT64_C(60000000000) /* of a run: one that is worth a word before */

/* --metrics DIR/events.out.tfevents.NAME: rows as events of TensorBoard. An event of a step has
 * its bytes too: of each phase that ran the peak, and what lives at the end of the last one.
 *
 * A run that goes on writes the same events again, which are as long as they were: TensorBoard,
 * which may have read further than the checkpoint, goes on reading where a record begins. */

static double wall_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void train_events_head(train *t)
{
    sw_tfevents_init(&t->events);
    sw_tfevents_version(&t->events, wall_s());
}

void train_events_row(train *t, const train_row *row)
{
    static const struct {
        const char *loss, *accuracy, *ms;
    } tags[] = {[TRAIN_LINE_STEP] = {"loss/train", "accuracy/train", "time/step_ms"},
                [TRAIN_LINE_VALIDATION] = {"loss/validation", "accuracy/validation",
                                           "time/validation_ms"},
                [TRAIN_LINE_EPOCH] = {"loss/epoch", "accuracy/epoch", "time/epoch_ms"}};
    sw_tfevents *e = &t->events;
    sw_tfevents_begin(e, wall_s(), row->step);
    sw_tfevents_scalar(e, tags[row->kind].loss, row->score.loss);
    if (job_has_classes(&t->job))
        sw_tfevents_scalar(e, tags[row->kind].accuracy,
                           (double)row->score.right / (double)row->score.rows);
    if (row->kind == TRAIN_LINE_STEP)
        sw_tfevents_scalar(e, "rate", row->rate);
    if (row->ns > 0)
        sw_tfevents_scalar(e, tags[row->kind].ms, (double)row->ns * 1e-6);
    if (row->bytes != NULL) {
        size_t live = 0;
        for (int i = 0; i < SW_PHASES; i++) {
            char tag[64];
            if (row->bytes->phase[i].peak_bytes == 0)
                continue;
            live = row->bytes->phase[i].end_bytes;
            snprintf(tag, sizeof tag, "memory/%s_peak_bytes", sw_phase_name((sw_phase)i));
            sw_tfevents_scalar(e, tag, (double)row->bytes->phase[i].peak_bytes);
        }
        sw_tfevents_scalar(e, "memory/live_bytes", (double)live);
        sw_tfevents_scalar(e, "memory/peak_bytes", (double)row->bytes->peak_bytes);
    }
    sw_tfevents_end(e);
}

/* ---- train process ----------------------------------------------------------------------- */

/* `stepwell train --process`: the memory of the process, after the last step and before
 * anything is given back, against what the plans say will have been touched. */

/* Pages of the step arena that a storage of some plan lies in. */
typedef struct {
    unsigned char *marked; /* n flags */
    size_t n, page;
} pages;

static void mark(void *to, const sw_plan_storage *s)
{
    pages *p = to;
    if (s->input || s->bytes == 0)
        return;
    const size_t last = (s->offset + s->bytes - 1) / p->page;
    for (size_t i = s->offset / p->page; i <= last && i < p->n; i++)
        p->marked[i] = 1;
}

static sw_status mark_programs(train *t, pages *p)
{
    const sw_plan_visitor visitor = SW_OPTS(sw_plan_visitor, .to = p, .storage = mark);
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        if (t->measured[i].runs == 0)
            continue;
        const sw_run_args args =
            job_args(&t->job, (job_which)i, t->job.program[i].inputs, t->now.step);
        SW_TRY(sw_plan_visit(t->job.exec, &args, &visitor));
    }
    return SW_OK;
}

/* The highest step arena of what has run. */
static size_t height(const train *t)
{
    size_t bytes = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (t->measured[i].runs > 0 && t->job.program[i].plan.arena_bytes > bytes)
            bytes = t->job.program[i].plan.arena_bytes;
    return bytes;
}

/* Whole pages that the runs so far must have touched. A bump has no holes; a plan may have some
 * that are larger than a page. */
static sw_status predict_step(train *t, size_t *bytes)
{
    pages p = {.page = sw_page_bytes()};
    p.n = (height(t) + p.page - 1) / p.page;
    *bytes = p.n * p.page;
    if (t->opts.job.immediate || p.n == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&p.marked, SW_HEAP_PROFILE, p.n));
    const sw_status status = mark_programs(t, &p);
    size_t n = 0;
    for (size_t i = 0; i < p.n; i++)
        n += p.marked[i];
    *bytes = n * p.page;
    sw_heap_free(p.marked, SW_HEAP_PROFILE, p.n);
    return status;
}

static size_t whole_pages(size_t bytes)
{
    size_t rounded = bytes;
    (void)sw_size_align(bytes, sw_page_bytes(), &rounded);
    return rounded;
}

static sw_status read_process(train *t, sw_process *process)
{
    size_t step = 0;
    SW_TRY(predict_step(t, &step));
    SW_TRY(sw_process_read(process));
    sw_process_predict(process, "step", step);
    sw_process_predict(process, t->opts.job.model,
                       whole_pages(job_main(&t->job)->plan.model_bytes));
    sw_process_predict(process, "loader",
                       whole_pages(sw_loader_bytes(t->train_loader)) +
                           whole_pages(sw_loader_bytes(t->test_loader)));
    return SW_OK;
}

void train_read_process(train *t)
{
    void *block = NULL;
    if (!t->opts.process)
        return;
    sw_status status = sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *t->process);
    if (status == SW_OK)
        status = read_process(t, block);
    if (status != SW_OK) {
        cli_note("the memory of the process could not be read: %s", sw_last_error());
        sw_heap_free(block, SW_HEAP_PROFILE, sizeof *t->process);
        return;
    }
    t->process = block;
    if (t->profile != NULL)
        sw_prof_process_record(t->profile, t->process);
}

void train_free_process(train *t)
{
    sw_heap_free(t->process, SW_HEAP_PROFILE, sizeof *t->process);
}

/* ---- one run ----------------------------------------------------------------------------- */

/* By roles and layers a program's runs are all alike. */
static sw_status keep_shares(train *t, result_runs *m)
{
    SW_TRY(t->opts.witness ? sw_witness_shares(t->job.exec, share_list_add, &m->shares)
                           : sw_last_shares(t->job.exec, share_list_add, &m->shares));
    return m->shares.status;
}

/* A loss that is no finite number never becomes one again: the first is remembered. */
static void look_at_loss(train *t, double loss, uint64_t step)
{
    if (!isfinite(loss) && t->now.diverged == 0)
        t->now.diverged = step;
}

/* Read the results of the run of `ago` runs ago. A replay on a device is as planned. */
static sw_status read_run(train *t, int ago, const train_flight *f)
{
    sw_run_info info = SW_OPTS(sw_run_info);
    SW_TRY(sw_run_past(t->job.exec, ago, &info));
    result_runs *m = &t->measured[f->which];
    if (!info.replayed) {
        result_bytes_add(&m->bytes, info.phase, info.peak_bytes);
        if (info.bump_bytes > m->bump_bytes)
            m->bump_bytes = info.bump_bytes;
    }
    t->warm_runs += info.warm != 0;
    if (info.warm != 0)
        t->allocations += info.allocations;
    if (f->step != NULL) {
        /* A replay on a device is as the first run was. */
        result_bytes_add(&f->step->bytes, info.replayed ? m->bytes.phase : info.phase,
                         info.replayed ? m->bytes.peak_bytes : info.peak_bytes);
        f->step->warm &= !f->first && (info.warm != 0 || t->opts.job.immediate);
    }
    double loss, accuracy = 0.0;
    result_score *to = f->score;
    SW_TRY(sw_metric_past(t->job.exec, ago, "loss", &loss));
    if (job_has_classes(&t->job))
        SW_TRY(sw_metric_past(t->job.exec, ago, "accuracy", &accuracy));
    const int64_t right =
        llround(accuracy * (double)f->rows); /* a share of rows: whole again */
    result_score_add(to, loss, right, f->rows, f->weight);
    if (t->job.ranks != NULL && f->step != NULL)
        train_ranks_keep(t, f->micro, loss, right);
    return SW_OK;
}

/* Read the last run, if it was not. */
static sw_status land(train *t)
{
    const bool there = t->flight.there;
    t->flight.there = false;
    return there ? read_run(t, 0, &t->flight) : SW_OK;
}

/* Where nothing goes on after sw_run, there is nothing to wait for. */
static bool reads_at_once(const train *t)
{
    const job_opts *o = &t->opts.job;
    return !job_on_device(o) || o->exec.sync_ops || o->immediate;
}

/* A step of two runs, with moves that are runs of the exec too: the score is of both. The roles
 * and layers of a program are those of a run of its own, which changes nothing. */
static sw_status run_zeroth(train *t, const sw_run_args *args, const train_flight *f)
{
    result_runs *m = &t->measured[f->which];
    if (t->opts.json && f->first) {
        SW_TRY(sw_run(t->job.exec, args));
        SW_TRY(keep_shares(t, m));
        m->runs++;
    }
    /* In the place of sw_run for a batch of training. */
    SW_TRY(sw_zo_step(t->zo, t->job.exec, args, "loss", NULL));
    m->runs += 2;
    SW_TRY(read_run(t, 3, f));
    return read_run(t, 1, f);
}

/* Run one batch, the micro-th of its step, for `score`; the first of each program is its
 * warm-up and is the one that is witnessed. */
static sw_status run(train *t, job_which which, const sw_array *inputs, uint32_t micro,
                     result_score *score, train_step *step)
{
    result_runs *m = &t->measured[which];
    sw_run_args args = job_args(&t->job, which, inputs, t->now.step);
    const train_flight f =
        SW_INIT(.there = true, .first = m->runs == 0, .which = which,
                .rows = inputs[0].shape.dim[0], .weight = job_weight(&t->job, inputs),
                .micro = micro, .score = score, .step = step);
    args.run = micro;
    if (t->job.ranks != NULL && step != NULL) /* the number of the shard, in the step */
        args.run += (uint32_t)(swi_ranks_rank(t->job.ranks) * t->job.shards_here);
    SW_TRY(result_witness(m, t->opts.witness, t->job.exec, &args));
    if (step != NULL && t->zo != NULL)
        return run_zeroth(t, &args, &f);
    SW_TRY(sw_run(t->job.exec, &args));
    if (t->opts.json && f.first)
        SW_TRY(keep_shares(t, m));
    m->runs++;
    if (reads_at_once(t))
        return read_run(t, 0, &f);
    if (t->flight.there)
        SW_TRY(read_run(t, 1, &t->flight));
    t->flight = f;
    return SW_OK;
}

static job_which select_job(const train *t, job_which full, const sw_array *inputs)
{
    return inputs[0].shape.dim[0] == t->job.batch ? full : (job_which)(full + 1);
}

/* ---- validation -------------------------------------------------------------------------- */

/* A failure costs the file, not the training, which may have gone on for days: it is reported
 * now, once, and fails the run at its end unless a later save succeeds. */
static void save_best(train *t)
{
    t->now.best_lost = true;
    if (t->opts.best == NULL)
        return;
    const sw_status saved = job_save(&t->job, t->opts.best);
    if (saved != SW_OK && !t->best_told)
        (void)cli_library_error(saved, false);
    else if (saved == SW_OK && t->best_told)
        cli_note("the best parameters, those of step %" PRIu64 ", are saved in %s",
                 t->now.best_step, t->opts.best);
    t->now.best_lost = t->best_told = saved != SW_OK;
}

/* The model still has the best parameters, and their file does not: try again. An interrupted
 * step may have changed its buffers. */
static void save_best_again(train *t)
{
    if (t->opts.best != NULL && t->now.best_lost && t->now.best_step == t->now.step &&
        !train_interrupted(t))
        save_best(t);
}

static void say_validation(const train *t)
{
    cli_progress("%s", "");
    if (t->opts.quiet)
        return;
    const result_score average = train_epoch_average(t);
    fprintf(stderr, "epoch %" PRIu64 "  step %" PRIu64 "  mean loss %s", t->now.epoch + 1,
            t->now.step, train_loss(average.loss).text);
    if (average.rows > 0)
        fprintf(stderr, "  accuracy %.2f %%",
                100.0 * (double)average.right / (double)average.rows);
    if (t->now.evaluated)
        fprintf(stderr, "  test loss %s", train_loss(t->now.test.loss).text);
    if (t->now.evaluated && job_has_classes(&t->job))
        fprintf(stderr, "  accuracy %.2f %%",
                100.0 * (double)t->now.test.right / (double)t->now.test.rows);
    fputc('\n', stderr);
}

static sw_status validate(train *t)
{
    result_score score = {0}; /* of all of the test set; rows is less after an interrupt */
    const uint64_t start = cli_clock_ns();
    SW_TRY(job_ranks_share_model(t->job.ranks, t->job.net.model, true));
    SW_TRY(sw_loader_epoch(t->test_loader, 0));
    const bool ranks = t->job.ranks != NULL;
    while (!train_interrupted(t) && score.rows < t->job.test.n) {
        const sw_array *inputs;
        int n_inputs;
        result_score own = {0}; /* of a batch, of which each rank has one */
        SW_TRY(sw_loader_next(t->test_loader, &inputs, &n_inputs));
        if (n_inputs == 0 && !ranks)
            break;
        if (n_inputs > 0)
            SW_TRY(run(t, select_job(t, JOB_EVAL, inputs), inputs, 0, ranks ? &own : &score,
                       NULL));
        if (ranks)
            SW_TRY(train_ranks_validate(t, &own, &score));
        if (!t->opts.quiet)
            cli_progress("testing  %" PRId64 "/%" PRId64, score.rows, t->job.test.n);
    }
    SW_TRY(land(t));
    if (score.rows < t->job.test.n)
        return SW_OK; /* interrupted: no result rather than part of one */
    t->now.test = score;
    t->now.evaluated = true;
    t->now.validations++;
    look_at_loss(t, score.loss, t->now.step);
    /* Better by less than --min-delta is kept, and still counts as no improvement. */
    const double loss = t->now.test.loss;
    const bool first = t->now.best_step == 0;
    if (isfinite(loss) && (first || loss < t->now.best.loss)) {
        /* The best parameters so far are in their file before training goes on. */
        t->now.best = t->now.test;
        t->now.best_step = t->now.step;
        save_best(t);
    }
    if (isfinite(loss) && (t->now.validations == 1 || !isfinite(t->now.mark) ||
                           loss < t->now.mark - t->opts.min_delta)) {
        t->now.mark = loss;
        t->now.waited = 0;
    } else {
        t->now.waited++;
    }
    t->now.stopped = t->opts.patience > 0 && t->now.waited >= t->opts.patience;
    const train_row row =
        SW_INIT(.kind = TRAIN_LINE_VALIDATION, .step = t->now.step, .epoch = t->now.epoch,
                .score = score, .ns = cli_clock_ns() - start);
    train_metrics_row(t, &row);
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

/* The rates of all steps. */
static sw_schedule train_schedule(const train *t)
{
    return SW_OPTS(sw_schedule, .kind = t->opts.job.schedule, .base = (float)t->opts.job.lr,
                   .warmup_steps = (uint64_t)t->opts.job.warmup, .total_steps = t->total_steps,
                   .every = t->lr_every, .gamma = (float)t->opts.job.lr_gamma,
                   .floor = (float)t->opts.job.lr_floor);
}

/* A trainer of zeroth order has the schedule itself. */
static sw_status set_rate(train *t, float *rate)
{
    const sw_schedule schedule = train_schedule(t);
    if (t->find != NULL)
        *rate = (float)train_find_rate(t->find, t->now.step);
    else
        SW_TRY(sw_schedule_at(&schedule, t->now.step, rate));
    if (t->zo == NULL)
        sw_knob_set(sw_optimizer_lr(t->job.net.optimizer, 0), *rate);
    return SW_OK;
}

/* Rows of the step whose first micro-batch is batch `first` of the epoch. */
static int64_t rows_of_step(const train *t, int64_t first)
{
    const int64_t batch = job_slot_rows(&t->job.train, t->job.batch);
    const int64_t left = t->job.train.n - first * batch;
    const int64_t all = batch * t->opts.job.accumulate;
    if (t->job.shards > 0) /* those that run here, of a whole step */
        return first < t->batches ? batch * t->job.shards_here : 0;
    return left < all ? left : all;
}

static int64_t batches_of_step(const train *t)
{
    return t->job.shards > 0 ? t->job.shards : t->opts.job.accumulate;
}

/* Its micro-batches; taken is less than rows where that was interrupted, and 0 at the end of
 * the epoch. A checkpoint is of whole steps, so with one a step that began comes to its end. */
static sw_status run_step(train *t, train_step *s)
{
    const bool whole = t->opts.job.checkpoint != NULL || t->job.ranks != NULL;
    /* Of a micro-batch the mean is over its own tokens or rows, and of the step over all: its
     * share is known before its first gradient. Shards are added and divided by their number.
     */
    const double all = train_has_documents(t) && t->job.net.accumulates
                           ? (double)swi_loader_counted(t->train_loader, t->now.batches_taken,
                                                        batches_of_step(t))
                           : (double)s->rows;
    const double shards = t->job.shards > 0 ? (double)t->job.shards : 1.0;
    for (uint32_t micro = 0;
         micro == 0 || (s->taken < s->rows && (whole || !cli_interrupted())); micro++) {
        const sw_array *inputs;
        int n_inputs;
        SW_TRY(sw_loader_next(t->train_loader, &inputs, &n_inputs));
        if (n_inputs == 0)
            return SW_OK;
        const int64_t rows = inputs[0].shape.dim[0];
        s->taken += rows;
        s->which = s->taken >= s->rows ? select_job(t, JOB_TRAIN, inputs) : JOB_MICRO;
        if (t->job.net.accumulates)
            tool_net_share(&t->job.net, shards * (double)job_weight(&t->job, inputs) / all);
        SW_TRY(run(t, s->which, inputs, micro, &s->score, s));
    }
    return train_ranks_step(t, s);
}

/* Smaller steps and warm-ups would make the minimum and the maximum of another thing. */
static bool is_timed(const train *t, const train_step *s)
{
    const int64_t n = t->job.shards > 0 ? t->job.shards_here : t->opts.job.accumulate;
    return s->warm && &t->job.program[s->which] == job_main(&t->job) &&
           (n == 1 || s->rows == n * t->job.batch);
}

/* All runs of a step were read: say what it came to. Where they are read late, its time, if it
 * is `timed`, is that since the step before was reported. */
static sw_status tell(train *t, train_step *s, bool timed)
{
    if (!s->there)
        return SW_OK;
    const uint64_t now = cli_clock_ns();
    const uint64_t ns = timed ? now - (s->start_ns > t->told_ns ? s->start_ns : t->told_ns) : 0;
    s->there = false;
    t->told_ns = now;
    t->now.last_loss = s->score.loss;
    const uint64_t weight = train_has_documents(t) ? (uint64_t)s->score.weight : 1;
    t->now.epoch_sum += s->score.loss * (double)weight;
    t->now.epoch_steps += weight;
    t->now.epoch_loss = t->now.epoch_sum / (double)t->now.epoch_steps;
    if (job_has_classes(&t->job)) {
        t->now.epoch_right += s->score.right;
        t->now.epoch_rows += s->score.rows;
    }
    if (t->find != NULL)
        train_find_add(t->find, s->rate, s->score.loss);
    else
        look_at_loss(t, s->score.loss, s->step);
    if (timed && is_timed(t, s))
        cli_times_add(&t->times, ns);
    const train_row row = SW_INIT(.step = s->step, .epoch = s->epoch, .score = s->score,
                                  .rate = s->rate, .ns = ns, .bytes = &s->bytes);
    train_metrics_row(t, &row);
    /* Three steps tell how long the run is; a short one is over before it is read. */
    const uint64_t left = t->total_steps - s->step;
    const uint64_t took = now - t->start_ns;
    if (!t->opts.quiet && ++t->told == 3 && took / 3 * left > LONG_NS) {
        cli_progress("%s", "");
        fprintf(stderr, "3 steps took %s: the %s that are left will take about %.0f minutes\n",
                cli_ns(took).text, cli_digits(left).text, (double)(took / 3 * left) / 60e9);
    }
    if (!t->opts.quiet)
        cli_progress("epoch %" PRIu64 "  step %" PRIu64 "/%" PRIu64 "  loss %s", s->epoch + 1,
                     s->step, t->total_steps, train_loss(t->now.last_loss).text);
    return train_checkpoint_told(t, s->step);
}

/* The next step of the epoch; *more is false at its end. */
static sw_status next_step(train *t, bool *more)
{
    train_step *s = &t->steps[(t->now.step + 1) % 2], *before = &t->steps[t->now.step % 2];
    float rate;
    *s = (train_step)SW_INIT(.step = t->now.step + 1, .epoch = t->now.epoch,
                             .start_ns = cli_clock_ns(),
                             .rows = rows_of_step(t, t->now.batches_taken), .warm = true);
    SW_TRY(set_rate(t, &rate));
    s->rate = (double)rate;
    SW_TRY(run_step(t, s));
    *more = s->rows > 0 && s->taken == s->rows;
    if (!*more)
        return SW_OK;
    s->there = true;
    t->now.batches_taken += batches_of_step(t);
    t->now.step++;
    t->now.evaluated = t->now.averaged = false;
    return tell(t, t->flight.there ? before : s, true);
}

/* A step that began before the one before it was reported has no time of its own. */
sw_status train_catch_up(train *t)
{
    train_step *s = &t->steps[t->now.step % 2];
    SW_TRY(land(t));
    return tell(t, s, t->told_ns <= s->start_ns);
}

static bool goes_on(const train *t)
{
    const bool found = t->find != NULL && t->find->over;
    return t->now.step < t->total_steps && !t->now.stopped && !found && !train_interrupted(t);
}

/* In the middle of an epoch; the one at its end comes anyway. */
static bool validation_is_due(const train *t)
{
    const uint64_t every = (uint64_t)t->opts.validate_every;
    return every > 0 && t->now.batches_taken > 0 && t->now.step % every == 0 &&
           t->now.batches_taken < t->batches && t->now.step < t->total_steps &&
           !t->now.evaluated;
}

result_score train_epoch_average(const train *t)
{
    return (result_score){
        .loss = t->now.epoch_loss, .right = t->now.epoch_right, .rows = t->now.epoch_rows};
}

/* Once for each epoch, where its steps or those of the run are over. */
static void tell_epoch(train *t)
{
    const bool over =
        t->now.batches_taken >= t->batches || t->now.step >= t->total_steps || t->now.stopped;
    if (!over || t->now.averaged || t->now.epoch_steps == 0)
        return;
    t->now.averaged = true;
    const train_row row = SW_INIT(.kind = TRAIN_LINE_EPOCH, .step = t->now.step,
                                  .epoch = t->now.epoch, .score = train_epoch_average(t));
    train_metrics_row(t, &row);
}

sw_status train_all(train *t)
{
    t->batches = sw_loader_batches(t->train_loader);
    save_best_again(t);
    while (t->inside || goes_on(t)) {
        if (!t->inside) {
            t->now.epoch += t->now.step > 0;
            t->now.evaluated = false;
            t->now.batches_taken = 0;
            t->now.epoch_sum = 0.0;
            t->now.epoch_steps = 0;
            t->now.epoch_right = t->now.epoch_rows = 0;
            SW_TRY(sw_loader_epoch(t->train_loader, t->now.epoch));
        }
        t->inside = false;
        /* The rest of the epoch. A run that goes on may have been interrupted before a
         * validation, or in it. */
        for (bool more = true; more;) {
            if (validation_is_due(t)) {
                SW_TRY(train_catch_up(t));
                SW_TRY(validate(t));
                say_validation(t);
            }
            if (!goes_on(t))
                break;
            SW_TRY(next_step(t, &more));
            if (more)
                SW_TRY(train_checkpoint_step(t));
        }
        SW_TRY(train_catch_up(t));
        tell_epoch(t);
        if (t->now.batches_taken >= t->batches)
            t->now.epochs = t->now.epoch + 1;

        if (t->find != NULL)
            continue;
        if (!train_interrupted(t) && !t->now.evaluated)
            SW_TRY(validate(t));
        say_validation(t);
    }
    save_best_again(t);
    return SW_OK;
}

/* Training of zeroth order: `stepwell train --method mezo|lozo`, --record and --replay. The
 * runs of a step are those of validation, so a training needs what inference needs. */

int train_zeroth_check(train_opts *o)
{
    const bool lozo = strcmp(o->method, "lozo") == 0;
    const bool zeroth = lozo || strcmp(o->method, "mezo") == 0, replay = o->replay != NULL;
    const char *other = zeroth ? cli_given(TRAIN_NOT_ZEROTH) : NULL;
    if (other != NULL)
        return cli_error(CLI_USAGE, "%s and --method %s exclude each other", other, o->method);
    if (o->eps == 0.0)
        return cli_error(CLI_USAGE, "--eps must be above 0 (got 0)");
    o->job.method = zeroth || replay ? JOB_MEZO : JOB_BACKPROP;
    o->eps = o->eps < 0.0 ? 0.001 : o->eps;
    if (lozo && o->zo_rank == 0)
        o->zo_rank = 2;
    if (lozo && o->zo_window == 0)
        o->zo_window = 50;
    return CLI_GO;
}

/* ---- training ---------------------------------------------------------------------------- */

sw_status train_zeroth_open(train *t)
{
    const train_opts *o = &t->opts;
    if (o->job.method != JOB_MEZO || o->replay != NULL)
        return SW_OK;
    const sw_schedule schedule = train_schedule(t);
    const sw_zo_opts opts = SW_OPTS(
        sw_zo_opts, .kind = o->method, .eps = (float)o->eps, .lr = (float)o->job.lr,
        .weight_decay = (float)o->job.weight_decay, .rank = (int)o->zo_rank,
        .window = (uint32_t)o->zo_window, .schedule = &schedule, .seed = (uint64_t)o->job.seed,
        .max_steps = o->record != NULL ? t->total_steps : 0);
    return sw_zo_create(&t->zo, t->job.net.model, &opts);
}

sw_status train_zeroth_save(train *t)
{
    if (t->opts.record == NULL || t->now.step == 0)
        return SW_OK;
    SW_TRY(cli_saved(sw_zo_save(t->zo, t->opts.record)));
    sw_file *file;
    SW_TRY(sw_file_open(&file, t->opts.record, SW_FILE_READ));
    const sw_status status = sw_file_size(file, &t->record_bytes);
    sw_file_drop(file);
    return status;
}

/* ---- replay ------------------------------------------------------------------------------ */

static sw_status say_step(void *user, uint64_t step, uint64_t steps)
{
    train *t = user;
    t->now.step = step;
    if (!t->opts.quiet)
        cli_progress("replay  step %" PRIu64 "/%" PRIu64, step, steps);
    return cli_interrupted() ? SW_STOPPED : SW_OK;
}

sw_status train_replay(train *t)
{
    const sw_status status =
        sw_zo_replay(t->job.net.model, t->job.exec, t->opts.replay, say_step, t);
    t->total_steps = t->now.step;
    if (status == SW_STOPPED && cli_interrupted())
        return SW_OK;
    SW_TRY(status);
    /* One validation, and what is said of it. */
    SW_TRY(validate(t));
    say_validation(t);
    return SW_OK;
}
