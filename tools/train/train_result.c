/* The output of `stepwell train` when it is done. */
#include "profiler/record/utf8.h"
#include "profiler/inspect/report/report.h"
#include "tools/job/result.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A program, as the witness or the run measured it. */
static result_measured measured(const train *t, job_which which)
{
    const result_runs *m = &t->measured[which];
    if (m->runs == 0)
        return (result_measured){.phase = NULL};
    return t->opts.witness
               ? (result_measured){m->witness.phase, m->witness.peak_bytes, "access"}
               : (result_measured){m->bytes.phase, m->bytes.peak_bytes, "arena"};
}

bool train_has_documents(const train *t)
{
    return t->job.net.task == TOOL_DOCUMENTS;
}

cli_text train_loss(double loss)
{
    cli_text t;
    /* The sign of what is no number says nothing. */
    snprintf(t.text, sizeof t.text, fabs(loss) < 1e9 ? "%.4f" : "%.4g", loss);
    return isnan(loss) ? (cli_text){"nan"} : t;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_witnesses(sw_json *json, const result_witnesses *w)
{
    sw_json_open(json, "witness", '{');
    result_put_witnesses(json, w);
    sw_json_put_string(json, "first_fault",
                       w->first_fault != NULL && *w->first_fault != '\0' ? w->first_fault
                                                                         : NULL);
    sw_json_end(json);
}

static void put_program(sw_json *json, train *t, job_which i)
{
    const result_runs *m = &t->measured[i];
    const result_measured found = measured(t, i);
    result_put_program(json, &t->job, &t->job.program[i], m->runs, &found);
    breakdown_put_measured(json, &t->job, i, &m->shares);
    result_witnesses own = {0};
    result_witnesses_add(&own, &m->witness);
    if (own.n > 0)
        put_witnesses(json, &own);
    sw_json_end(json);
}

static double accuracy(const result_score *score)
{
    return (double)score->right / (double)score->rows;
}

static void put_run(sw_json *json, const train *t)
{
    const job_opts *o = &t->opts.job;
    const int64_t each = job_batches(&t->job);
    SW_JSON_PUT(json, o, model, device);
    sw_json_put_string(json, "data", t->job.train.info.name);
    sw_json_put_string(json, "normalise",
                       *t->job.normal.text != '\0' ? t->job.normal.text : NULL);
    sw_json_put_string(json, "augment", t->opts.job.augment);
    result_put_documents(json, &t->job);
    result_put_batch(json, job_batch(&t->job) * each, t->job.batch * each);
    sw_json_put_u64(json, "steps", t->now.step);
    sw_json_put_u64(json, "epochs", t->now.epochs);
    SW_JSON_PUT(json, o, seed, threads, precision, bf16_order);
    const bool zeroth = t->zo != NULL, lozo = zeroth && strcmp(t->opts.method, "lozo") == 0;
    const bool replay = t->opts.replay != NULL;
    sw_json_put_string(json, "method", replay ? NULL : t->opts.method);
    sw_json_put_string(json, "optimizer", o->method == JOB_MEZO ? NULL : o->optimizer);
    sw_json_put_string(json, "update", o->method == JOB_MEZO ? NULL : o->update);
    sw_json_put_known_f64(json, "eps", zeroth, t->opts.eps);
    sw_json_put_known(json, "zo_rank", lozo, (uint64_t)t->opts.zo_rank);
    sw_json_put_known(json, "zo_window", lozo, (uint64_t)t->opts.zo_window);
    sw_json_put_string(json, "record", t->opts.record);
    sw_json_put_known(json, "record_bytes", t->record_bytes > 0, t->record_bytes);
    sw_json_put_string(json, "replayed", t->opts.replay);
    sw_json_put_bool(json, "keep_gradients", o->keep_gradients || o->accumulate > 1);
    sw_json_put_i64(json, "accumulate", o->accumulate);
    if (t->job.shards > 0)
        sw_json_put_i64(json, "shards", t->job.shards);
    sw_json_put_f64(json, "final_loss", t->now.step > 0 ? t->now.last_loss : (double)NAN);
    const result_score average = train_epoch_average(t);
    sw_json_put_known_f64(json, "epoch_loss", t->now.epoch_steps > 0, average.loss);
    if (job_has_classes(&t->job))
        sw_json_put_known_f64(json, "epoch_accuracy", average.rows > 0,
                              average.rows > 0 ? accuracy(&average) : 0.0);
    sw_json_put_bool(json, "diverged", t->now.diverged > 0);
    sw_json_put_u64(json, "skipped", t->skipped);
    const bool classes = job_has_classes(&t->job), best = t->now.best_step > 0;
    if (classes)
        sw_json_put_known_f64(json, "test_accuracy", t->now.evaluated,
                              t->now.evaluated ? accuracy(&t->now.test) : 0.0);
    sw_json_put_known_f64(json, "validation_loss", t->now.evaluated, t->now.test.loss);
    sw_json_put_u64(json, "validations", t->now.validations);
    sw_json_put_known(json, "best_step", best, t->now.best_step);
    sw_json_put_known_f64(json, "best_validation_loss", best, t->now.best.loss);
    if (classes)
        sw_json_put_known_f64(json, "best_accuracy", best, best ? accuracy(&t->now.best) : 0.0);
    sw_json_put_bool(json, "stopped_early", t->now.stopped);
    /* A key is null where nothing is known under it: no save ended well, or none ended at
     * all. */
    const sw_checkpoint_info *ended = &t->saving.ended;
    const cli_every *every = &t->opts.every;
    sw_json_put_known(json, "resumed_from_step", t->saving.resumed_step > 0,
                      t->saving.resumed_step);
    if (!sw_json_open_known(json, "checkpoint", t->opts.job.checkpoint != NULL))
        return;
    sw_json_put_string(json, "path", t->opts.job.checkpoint);
    sw_json_put_known(json, "every_steps", every->steps > 0, every->steps);
    sw_json_put_known(json, "every_ns", every->steps == 0, job_every_ns(every));
    sw_json_put_u64(json, "copy_bytes", t->job.checkpoint_bytes);
    SW_JSON_PUT(json, ended, saved, failed);
    sw_json_put_known(json, "last_step", ended->saved > 0, ended->step);
    sw_json_put_known(json, "file_bytes", ended->saved > 0, ended->file_bytes);
    sw_json_put_known(json, "last_copy_ns", ended->saved > 0 && t->job.checkpoint_bytes > 0,
                      ended->copy_ns);
    sw_json_put_known(json, "last_write_ns", ended->saved > 0, ended->write_ns);
    sw_json_end(json);
}

/* Why it is not known how much memory the process may have; NULL: it is. */
static const char *limit_unknown(const train *t)
{
    return *t->job.machine.limit_unknown != '\0' ? t->job.machine.limit_unknown : NULL;
}

static int print_json(train *t, int status, const job_rank *ranks)
{
    const job_program *main = job_main(&t->job);
    const job_which which = (job_which)(main - t->job.program);
    const result_runs *m = &t->measured[which];
    const result_measured found = measured(t, which);
    sw_json json;
    result_json_begin(&json);
    put_run(&json, t);
    result_put_both(&json, &t->job, main, &found);
    sw_json_put_string(&json, "measured_by", found.by);
    sw_json_put_u64(&json, "predicted_peak_bytes", main->plan.peak_bytes);
    sw_json_put_known(&json, "measured_peak_bytes", m->runs > 0, found.peak_bytes);
    result_put_totals(&json, &t->job, &main->plan);
    breakdown_put_measured(&json, &t->job, which, &m->shares);
    if (t->opts.job.immediate) {
        sw_json_put_u64(&json, "immediate_bytes", main->plan.immediate_bytes);
        sw_json_put_u64(&json, "bump_bytes", m->bump_bytes);
    }
    const cli_summary s = cli_times_summary(&t->times);
    sw_json_put_known(&json, "allocations_after_warmup", t->warm_runs > 0, t->allocations);
    sw_json_put_known(&json, "min_step_ns", s.n > 0, s.min);
    sw_json_put_known(&json, "median_step_ns", s.n > 0, s.median);
    sw_json_put_known(&json, "p99_step_ns", s.n > 0, s.p99);
    sw_json_put_known(&json, "max_step_ns", s.n > 0, s.max);
    sw_json_put_u64(&json, "wall_ns", t->wall_ns);
    if (t->opts.summary)
        summary_put(&json, &t->job);
    if (t->find != NULL)
        train_find_put(&json, t->find);
    result_put_device(&json, t->job.exec);
    job_ranks_put(&json, t->job.ranks, t->job.transport_bytes, "runs", ranks);
    if (t->opts.witness) {
        result_witnesses all = {.agreed = SW_WITNESS_ALL};
        for (int i = 0; i < JOB_PROGRAMS; i++)
            result_witnesses_add(&all, &t->measured[i].witness);
        put_witnesses(&json, &all);
    }
    if (t->process != NULL) {
        sw_json_open(&json, "process", '{');
        sw_process_put(&json, t->process);
        sw_json_end(&json);
    } else if (t->opts.process)
        sw_json_put_null(&json, "process");
    if (t->opts.process)
        sw_json_put_string(&json, "limit_unknown", limit_unknown(t));
    sw_json_open(&json, "programs", '[');
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (t->job.program[i].batch > 0)
            put_program(&json, t, (job_which)i);
    sw_json_end(&json);
    return result_json_end(&json, status);
}

/* ---- text -------------------------------------------------------------------------------- */

static void print_witnesses(const train *t)
{
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_witness_info *w = &t->measured[i].witness;
        if (w->size == 0)
            continue;
        char text[256];
        snprintf(text, sizeof text, "%s, batch %" PRId64 ": %s", t->job.program[i].name,
                 t->job.program[i].batch, result_witnesses_text(w).text);
        printf("witness ");
        cli_wrap(stdout, 8, 8, text);
    }
}

static void print_score(const train *t, const char *label, bool known, const result_score *s)
{
    if (!known)
        return;
    printf("%sloss %s", label, train_loss(s->loss).text);
    if (job_has_classes(&t->job))
        printf(", accuracy %.2f %% (%s of %s)", 100.0 * accuracy(s),
               cli_digits((uint64_t)s->right).text, cli_digits((uint64_t)s->rows).text);
    putchar('\n');
}

static void print_saved(const train *t)
{
    const sw_checkpoint_info *ended = &t->saving.ended;
    char path[1024], failed[64] = "", text[1400];
    if (t->opts.job.checkpoint == NULL || ended->saved + ended->failed == 0)
        return;
    sw_utf8_clean(path, sizeof path, t->opts.job.checkpoint);
    if (ended->failed > 0)
        snprintf(failed, sizeof failed, "; %s could not be saved",
                 cli_digits(ended->failed).text);
    if (ended->saved > 0)
        snprintf(text, sizeof text, "%s checkpoint%s of %s in %s, the last after step %s%s",
                 cli_digits(ended->saved).text, ended->saved == 1 ? "" : "s",
                 cli_bytes(ended->file_bytes).text, path, cli_digits(ended->step).text, failed);
    else
        snprintf(text, sizeof text, "no checkpoint in %s%s", path, failed);
    printf("saved   ");
    cli_wrap(stdout, 8, 8, text);
}

/* "adam 0.005", "lozo 0.0001 (eps 0.001, rank 2, window 50)", "replay" */
static void say_method(const train *t, char *to, size_t bytes)
{
    const train_opts *o = &t->opts;
    const double lr = (double)(float)o->job.lr;
    if (o->replay != NULL)
        snprintf(to, bytes, "replay");
    else if (t->find != NULL)
        snprintf(to, bytes, "%s %g to %g", o->job.optimizer, o->lr_from, o->lr_to);
    else if (t->zo == NULL)
        snprintf(to, bytes, "%s %g", o->job.optimizer, lr);
    else if (strcmp(o->method, "lozo") == 0)
        snprintf(to, bytes, "lozo %g (eps %g, rank %" PRId64 ", window %" PRId64 ")", lr,
                 o->eps, o->zo_rank, o->zo_window);
    else
        snprintf(to, bytes, "%s %g (eps %g)", o->method, lr, o->eps);
}

static void print_record(const train *t)
{
    char path[1024];
    if (t->record_bytes == 0)
        return;
    sw_utf8_clean(path, sizeof path, t->opts.record);
    printf("record  %s step%s in %s: %s\n", cli_digits(t->now.step).text,
           t->now.step == 1 ? "" : "s", path, result_both((size_t)t->record_bytes).text);
}

static void print_text(train *t)
{
    const job_opts *o = &t->opts.job;
    char name[1024], method[160], title[1400];
    char each[40] = "";
    const int64_t n = job_batches(&t->job);
    sw_utf8_clean(name, sizeof name, t->job.train.info.name);
    say_method(t, method, sizeof method);
    if (o->accumulate > 1)
        snprintf(each, sizeof each, " x %" PRId64, o->accumulate);
    if (t->job.shards > 0)
        snprintf(each, sizeof each, " in %d shards", t->job.shards);
    snprintf(title, sizeof title,
             "%s on %s, %s + %s samples, batch %s%s, %s, seed %" PRId64 ", %s, %" PRId64
             " thread%s%s",
             o->model, name, cli_digits((uint64_t)t->job.train.n).text,
             cli_digits((uint64_t)t->job.test.n).text,
             result_batch(job_batch(&t->job) * n, t->job.batch * n).text, each, method, o->seed,
             o->device, o->threads, o->threads == 1 ? "" : "s", job_precision_words(&t->job));
    cli_wrap(stdout, 0, 0, title);
    if (*t->job.normal.text != '\0') {
        char text[1400];
        snprintf(text, sizeof text, "%s from %s", t->job.normal.text, t->job.normal.from);
        printf("pixels  ");
        cli_wrap(stdout, 8, 8, text);
    }
    if (o->augment != NULL)
        printf("augment %s, while training\n", o->augment);
    putchar('\n');
    const result_measured found = measured(t, (job_which)(job_main(&t->job) - t->job.program));
    result_print_memory(&t->job, &found);
    print_witnesses(t);
    const cli_summary s = cli_times_summary(&t->times);
    printf("\n%s step%s, %" PRIu64 " whole epoch%s, %s", cli_digits(t->now.step).text,
           t->now.step == 1 ? "" : "s", t->now.epochs, t->now.epochs == 1 ? "" : "s",
           cli_ns(t->wall_ns).text);
    if (t->warm_runs > 0)
        printf("; %s allocation%s after warm-up\n", cli_digits(t->allocations).text,
               t->allocations == 1 ? "" : "s");
    else
        printf("; allocations were not counted: no run was warm\n");
    if (s.n > 0)
        printf("step    min %s, median %s, p99 %s, max %s\n", cli_ns(s.min).text,
               cli_ns(s.median).text, cli_ns(s.p99).text, cli_ns(s.max).text);
    if (t->find != NULL)
        train_find_print(t->find);
    else if (t->now.step > 0) {
        const result_score average = train_epoch_average(t);
        printf("loss    %s in the last step, %s on average over the last epoch\n",
               train_loss(t->now.last_loss).text, train_loss(average.loss).text);
        if (average.rows > 0)
            printf("right   %.2f %% on average over the last epoch (%s of %s)\n",
                   100.0 * accuracy(&average), cli_digits((uint64_t)average.right).text,
                   cli_digits((uint64_t)average.rows).text);
    }
    if (t->skipped > 0)
        printf("skipped %s %s%s with %s that were not finite\n", cli_digits(t->skipped).text,
               t->zo != NULL ? "step" : "update", t->skipped == 1 ? "" : "s",
               t->zo != NULL ? "losses" : "gradients");
    print_record(t);
    print_saved(t);
    print_score(t, "test    ", t->now.evaluated, &t->now.test);
    char label[64];
    snprintf(label, sizeof label, "best    step %s: ", cli_digits(t->now.best_step).text);
    print_score(t, label, t->now.validations > 1 && t->now.best_step > 0, &t->now.best);
    if (t->process != NULL) {
        putchar('\n');
        const sw_writer to = cli_writer(stdout);
        process_print(&to, t->process, "Resident bytes of the process");
    }
    if (t->opts.process && limit_unknown(t) != NULL) {
        printf("\nlimit unknown: ");
        cli_wrap(stdout, 15, 15, limit_unknown(t));
    }
}

int train_print(train *t, int status)
{
    job_rank ranks[SWI_RANKS_MOST];
    if (t->job.ranks != NULL)
        CLI_LIBRARY(job_ranks_figures(t->job.ranks, train_ranks_own(t), ranks), false);
    if (swi_ranks_rank(t->job.ranks) > 0)
        return status;
    if (t->opts.json)
        return print_json(t, status, ranks);
    print_text(t);
    return cli_finish(status);
}
