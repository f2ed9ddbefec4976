/* The loop of `stepwell es`: generations, slice by slice, and tests without noise. */
#include "tools/es/es.h"
#include <inttypes.h>
#include <math.h>

/* ---- one run ----------------------------------------------------------------------------- */

static sw_status keep_peak(es_run *r, job_which which)
{
    es_measured *m = &r->measured[which];
    sw_run_info info = SW_OPTS(sw_run_info);
    SW_TRY(sw_last_run(r->job.exec, &info));
    m->peak_bytes = info.peak_bytes > m->peak_bytes ? info.peak_bytes : m->peak_bytes;
    m->runs++;
    return SW_OK;
}

static sw_status witness(es_run *r, job_which which, const sw_run_args *args)
{
    es_measured *m = &r->measured[which];
    if (!r->opts.witness || m->runs > 0)
        return SW_OK;
    m->witness.size = sizeof m->witness;
    return sw_witness(r->job.exec, args, SW_WITNESS_ALL, &m->witness);
}

sw_status es_run_one(es_run *r, job_which which, const sw_run_args *args)
{
    SW_TRY(witness(r, which, args));
    SW_TRY(sw_run(r->job.exec, args));
    return keep_peak(r, which);
}

static sw_status evaluate_slice(es_run *r, uint32_t slice)
{
    if (r->on_environment)
        return es_episodes_slice(r, slice);
    SW_TRY(es_batch_fill(r, slice));
    sw_run_args args = job_args(&r->job, JOB_TRAIN, r->inputs, r->generation);
    args.es_slice = slice;
    SW_TRY(witness(r, JOB_TRAIN, &args));
    SW_TRY(sw_es_evaluate(r->job.es, r->job.exec, &args, slice, "loss"));
    return keep_peak(r, JOB_TRAIN);
}

/* ---- tests ------------------------------------------------------------------------------- */

static sw_status test_samples(es_run *r, int64_t first, int64_t rows, double *loss,
                              double *right)
{
    double mean, share = 0.0;
    const job_which which = rows == r->job.program[JOB_EVAL].batch ? JOB_EVAL : JOB_EVAL_LAST;
    es_batch_test(r, first, rows);
    const sw_run_args args = job_args(&r->job, which, r->inputs, r->generation);
    SW_TRY(es_run_one(r, which, &args));
    SW_TRY(sw_metric_get(r->job.exec, "loss", &mean));
    if (r->job.net.task == TOOL_CLASSIFY)
        SW_TRY(sw_metric_get(r->job.exec, "accuracy", &share));
    *loss += mean * (double)rows;
    *right += (double)llround(share * (double)rows); /* a share of rows: whole again */
    return SW_OK;
}

sw_status es_test_now(es_run *r)
{
    const int64_t n = r->job.test.n;
    const uint64_t start = cli_clock_ns();
    double loss = 0.0, sum = 0.0;
    if (r->test.there && r->tested == r->generation)
        return SW_OK;
    for (int64_t first = 0, rows; first < n; first += rows) {
        rows = n - first < r->rows ? n - first : r->rows;
        SW_TRY(r->on_environment ? es_episodes_test(r, first, rows, &sum)
                                 : test_samples(r, first, rows, &loss, &sum));
    }
    const bool scored = r->on_environment || r->job.net.task == TOOL_CLASSIFY;
    r->test = (es_test){.there = true,
                        .loss = r->on_environment ? (double)NAN : loss / (double)n,
                        .score = scored ? sum / (double)n : (double)NAN,
                        .rows = n};
    r->tested = r->generation;
    r->before_test = r->metrics_bytes;
    const uint64_t ns = cli_clock_ns() - start;
    r->test_ns += ns;
    return es_metrics_row(r, true, 0.0, ns);
}

static void say_test(const es_run *r)
{
    if (r->opts.quiet)
        return;
    cli_progress("%s", "");
    if (r->on_environment)
        cli_note("generation %" PRIu64 ": %.1f steps on average over %" PRId64 " episodes",
                 r->generation, r->test.score, r->test.rows);
    else if (isnan(r->test.score))
        cli_note("generation %" PRIu64 ": test loss %.4f", r->generation, r->test.loss);
    else
        cli_note("generation %" PRIu64 ": test loss %.4f, accuracy %.2f %%", r->generation,
                 r->test.loss, 100.0 * r->test.score);
}

/* After a generation, where --test-every says so. */
static sw_status test_when_due(es_run *r)
{
    const uint64_t every = (uint64_t)r->opts.test_every;
    if (every == 0 || (r->generation % every != 0 && r->generation < r->generations))
        return SW_OK;
    SW_TRY(es_test_now(r));
    say_test(r);
    r->reached = r->opts.target > 0.0 && r->test.score >= r->opts.target;
    return SW_OK;
}

/* ---- generations ------------------------------------------------------------------------- */

static sw_status set_rate(es_run *r, float *rate)
{
    const job_opts *o = &r->opts.job;
    const sw_schedule schedule =
        SW_OPTS(sw_schedule, .kind = o->schedule, .base = (float)o->lr,
                .warmup_steps = (uint64_t)o->warmup, .total_steps = r->generations,
                .every = (r->generations + 2) / 3, .gamma = 0.1f);
    SW_TRY(sw_schedule_at(&schedule, r->generation, rate));
    sw_knob_set(sw_optimizer_lr(r->job.net.optimizer, 0), *rate);
    return SW_OK;
}

static void say_generation(const es_run *r)
{
    const double seconds = (double)(r->evaluate_ns + r->update_ns) / 1e9;
    if (r->opts.quiet)
        return;
    cli_progress("generation %" PRIu64 "/%" PRIu64
                 "  %s mean %.4g best %.4g  %.4g evaluations/s",
                 r->generation, r->generations, r->on_environment ? "steps" : "loss",
                 r->last.mean, r->last.best, (double)r->evaluations / seconds);
}

/* It comes to its end when it was begun: an interrupt is looked at after it. */
static sw_status one_generation(es_run *r)
{
    const uint64_t start = cli_clock_ns();
    sw_es_info info = SW_OPTS(sw_es_info);
    float rate;
    SW_TRY(set_rate(r, &rate));
    for (uint32_t s = 0; s < sw_es_slices(r->job.es); s++)
        SW_TRY(evaluate_slice(r, s));
    const uint64_t evaluated = cli_clock_ns();
    SW_TRY(sw_es_step(r->job.es, r->job.exec, &info));
    const uint64_t end = cli_clock_ns();
    r->evaluate_ns += evaluated - start;
    r->update_ns += end - evaluated;
    r->last = info;
    r->evaluations += info.evaluations;
    r->not_finite += info.not_finite;
    r->generation++;
    say_generation(r);
    return es_metrics_row(r, false, (double)rate, end - start);
}

/* A run that goes on makes the test again that was due where it was saved: whether the target
 * was reached, and the row of metrics, are no part of a checkpoint. */
sw_status es_loop(es_run *r)
{
    if (r->generation > 0)
        SW_TRY(test_when_due(r));
    while (r->generation < r->generations && !r->reached && !cli_interrupted()) {
        SW_TRY(one_generation(r));
        SW_TRY(test_when_due(r));
        es_save_due(r);
    }
    return cli_interrupted() ? SW_OK : es_test_now(r);
}
