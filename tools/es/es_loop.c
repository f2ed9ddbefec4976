/* The loop of `stepwell es`: generations, slice by slice, and tests without noise. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "tools/es/es.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static sw_status es_run_one(es_run *r, job_which which, const sw_run_args *args);
static void es_policy(sw_ctx *ctx, void *user);

/* ---- es batch ---------------------------------------------------------------------------- */

/* The batch of a run: which samples each evaluation has, and their bytes.
 *
 * Samples have numbers, epoch by epoch, in an order that a keyed permutation of each epoch
 * gives. A generation takes the next ones: each direction its own, the two of an antithetic
 * pair the same. So an evaluation's samples follow from generation, direction and repeat alone,
 * and not from how the generation is cut into slices. */

#define ORDER_STREAM 0x65736f72u /* "esor" */

static size_t sample_bytes(const sw_array *field)
{
    size_t bytes = sw_dtype_bytes(field->dtype);
    for (int d = 0; d < field->shape.rank; d++)
        bytes *= (size_t)field->shape.dim[d];
    return bytes;
}

void es_batch_rows(es_run *r, int64_t rows)
{
    size_t at = 0;
    for (int i = 0; i < r->n_inputs; i++) {
        const sw_array *field = &r->job.train.info.field[i];
        sw_array *a = &r->inputs[i];
        *a = (sw_array){field->dtype, {.rank = field->shape.rank + 1}, r->slot + at};
        a->shape.dim[0] = rows;
        for (int d = 0; d < field->shape.rank; d++)
            a->shape.dim[d + 1] = field->shape.dim[d];
        at += sw_size_round(sample_bytes(field) * (size_t)r->rows);
    }
}

sw_status es_batch_open(es_run *r)
{
    r->n_inputs = r->job.train.info.n_fields;
    for (int i = 0; i < r->n_inputs; i++)
        r->slot_bytes +=
            sw_size_round(sample_bytes(&r->job.train.info.field[i]) * (size_t)r->rows);
    SW_TRY(sw_heap_alloc(&r->slot, SW_HEAP_RECORDS, r->slot_bytes));
    if (!r->on_environment)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&r->poles, SW_HEAP_RECORDS, (size_t)r->rows * sizeof *r->poles));
    SW_TRY(sw_heap_alloc(&r->fitness, SW_HEAP_RECORDS,
                         (size_t)r->opts.slice * sizeof *r->fitness));
    return SW_OK;
}

void es_batch_close(es_run *r)
{
    sw_heap_free(r->slot, SW_HEAP_RECORDS, r->slot_bytes);
    sw_heap_free(r->poles, SW_HEAP_RECORDS, (size_t)r->rows * sizeof *r->poles);
    sw_heap_free(r->fitness, SW_HEAP_RECORDS, (size_t)r->opts.slice * sizeof *r->fitness);
    r->slot = NULL;
    r->poles = NULL;
    r->fitness = NULL;
}

/* The set of samples of an evaluation of this generation: the number of its first one. */
static uint64_t es_batch_number(const es_run *r, const sw_es_evaluation *e)
{
    const uint64_t samples = (uint64_t)r->opts.samples, sets = (uint64_t)r->sets;
    if (r->opts.same_samples)
        return r->generation * samples;
    const uint64_t directions = (uint64_t)es_directions(&r->opts);
    return ((r->generation * sets + e->repeat % sets) * directions + e->direction) * samples;
}

/* Into row `row` of each field. */
static void put(es_run *r, const sw_dataset_info *from, size_t sample, size_t row)
{
    for (int i = 0; i < r->n_inputs; i++) {
        const size_t bytes = sample_bytes(&from->field[i]);
        const unsigned char *data = from->field[i].data;
        size_t at = (size_t)((const unsigned char *)r->inputs[i].data - r->slot);
        memcpy(r->slot + at + row * bytes, data + sample * bytes, bytes);
    }
}

static size_t sample_at(es_run *r, uint64_t number)
{
    const uint64_t n = (uint64_t)r->job.train.info.n, epoch = number / n;
    if (!r->ordered || r->order_of != epoch)
        r->order =
            sw_bijection_of((uint32_t)n, (uint64_t)r->opts.job.seed, ORDER_STREAM, epoch);
    r->order_of = epoch;
    r->ordered = true;
    return sw_bijection_at(&r->order, (uint32_t)(number % n));
}

/* ---- es episodes ------------------------------------------------------------------------- */

/* A net that acts in an environment: every row of a batch is an episode, and a run of the net
 * is one step of all of them. The noise of an evaluation is the same in all steps of its
 * episodes, since it follows from the generation and the direction. */

#define TEST_EPISODES ((uint64_t)1 << 63) /* their numbers begin there */

void es_episodes_describe(es_run *r)
{
    sw_dataset_info *info = &r->job.train.info;
    *info = SW_OPTS(sw_dataset_info, .n = 1, .n_classes = CART_POLE_ACTIONS, .n_fields = 1,
                    .name = "cart-pole");
    info->field[0] = (sw_array){SW_F32, SW_SHAPE(CART_POLE_SEES), NULL};
    info->field[1] = (sw_array){SW_U8, SW_SCALAR, NULL}; /* a class: what the net gives */
    r->job.test.info = *info;
    r->job.train.n = r->rows;
    r->job.test.n = r->opts.test_episodes;
    r->job.fn = es_policy;
}

/* The step function: logits of what is seen, as the output "logits". */
static void es_policy(sw_ctx *ctx, void *user)
{
    const tool_net *net = user;
    sw_output(ctx, "logits", net->kind->forward(ctx, net, sw_input(ctx, 0)));
}

/* Until the last one is over. */
static sw_status play(es_run *r, job_which which, uint32_t slice, int64_t rows)
{
    sw_run_args args = job_args(&r->job, which, r->inputs, r->generation);
    sw_array logits;
    es_batch_rows(r, rows);
    args.n_inputs = r->n_inputs;
    args.es_slice = slice;
    for (size_t left = 1; left > 0;) {
        cart_pole_see(r->poles, (size_t)rows, (float *)(void *)r->slot);
        SW_TRY(es_run_one(r, which, &args));
        SW_TRY(sw_output_get(r->job.exec, "logits", &logits));
        left = cart_pole_act(r->poles, (size_t)rows, logits.data);
    }
    return SW_OK;
}

/* Episodes first, first + 1, ... of the test: adds their steps to *steps. */
static sw_status es_episodes_test(es_run *r, int64_t first, int64_t n, double *steps)
{
    for (int64_t i = 0; i < n; i++)
        r->poles[i] =
            cart_pole_begin((uint64_t)r->opts.job.seed, TEST_EPISODES + (uint64_t)(first + i));
    SW_TRY(play(r, n == r->job.program[JOB_EVAL].batch ? JOB_EVAL : JOB_EVAL_LAST, 0, n));
    for (int64_t i = 0; i < n; i++)
        *steps += (double)r->poles[i].steps;
    return SW_OK;
}

/* ---- es loop ----------------------------------------------------------------------------- */

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

static sw_status es_run_one(es_run *r, job_which which, const sw_run_args *args)
{
    SW_TRY(witness(r, which, args));
    SW_TRY(sw_run(r->job.exec, args));
    return keep_peak(r, which);
}

static sw_status evaluate_slice(es_run *r, uint32_t slice)
{
    if (r->on_environment) {
        /* All episodes of a slice; tells their fitness. */
        const size_t samples = (size_t)r->opts.samples, n = sw_es_rows(r->job.es);
        for (size_t e = 0; e < n; e++) {
            sw_es_evaluation which = SW_OPTS(sw_es_evaluation);
            SW_TRY(sw_es_ask(r->job.es, slice, e, &which));
            const uint64_t first = es_batch_number(r, &which);
            for (size_t k = 0; k < samples; k++)
                r->poles[e * samples + k] =
                    cart_pole_begin((uint64_t)r->opts.job.seed, first + k);
        }
        SW_TRY(play(r, JOB_TRAIN, slice, r->rows));
        for (size_t e = 0; e < n; e++) {
            double steps = 0.0;
            for (size_t k = 0; k < samples; k++)
                steps += (double)r->poles[e * samples + k].steps;
            r->fitness[e] = (float)(steps / (double)samples);
        }
        return sw_es_tell_slice(r->job.es, slice, r->fitness, n);
    }
    /* The samples of a slice of this generation. */
    const size_t samples = (size_t)r->opts.samples, n = sw_es_rows(r->job.es);
    es_batch_rows(r, r->rows);
    for (size_t e = 0; e < n; e++) {
        sw_es_evaluation which = SW_OPTS(sw_es_evaluation);
        SW_TRY(sw_es_ask(r->job.es, slice, e, &which));
        const uint64_t first = es_batch_number(r, &which);
        for (size_t k = 0; k < samples; k++)
            put(r, &r->job.train.info, sample_at(r, first + k), e * samples + k);
    }

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
    /* Samples first, first + 1, ... of the test part: rows of them. */
    es_batch_rows(r, rows);
    for (int64_t i = 0; i < rows; i++)
        put(r, &r->job.test.info, (size_t)(first + i), (size_t)i);
    const sw_run_args args = job_args(&r->job, which, r->inputs, r->generation);
    SW_TRY(es_run_one(r, which, &args));
    SW_TRY(sw_metric_get(r->job.exec, "loss", &mean));
    if (r->job.net.task == TOOL_CLASSIFY)
        SW_TRY(sw_metric_get(r->job.exec, "accuracy", &share));
    *loss += mean * (double)rows;
    *right += (double)llround(share * (double)rows); /* a share of rows: whole again */
    return SW_OK;
}

/* Test, unless this generation was: r->test. Interrupted: it stays as it was. */
static sw_status es_test_now(es_run *r)
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
    r->before_test = r->metrics.bytes;
    const uint64_t ns = cli_clock_ns() - start;
    r->test_ns += ns;
    return es_metrics_row(r, true, 0.0, ns);
}

/* After a generation, where --test-every says so. */
static sw_status test_when_due(es_run *r)
{
    const uint64_t every = (uint64_t)r->opts.test_every;
    if (every == 0 || (r->generation % every != 0 && r->generation < r->generations))
        return SW_OK;
    SW_TRY(es_test_now(r));
    if (!r->opts.quiet) {
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
    r->reached = r->opts.target > 0.0 && r->test.score >= r->opts.target;
    return SW_OK;
}

/* ---- generations ------------------------------------------------------------------------- */

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

/* A run that goes on makes the test again that was due where it was saved: whether the target
 * was reached, and the row of metrics, are no part of a checkpoint. */
sw_status es_loop(es_run *r)
{
    if (r->generation > 0)
        SW_TRY(test_when_due(r));
    while (r->generation < r->generations && !r->reached && !cli_interrupted()) {
        /* It comes to its end when it was begun: an interrupt is looked at after it. */
        const uint64_t start = cli_clock_ns();
        sw_es_info info = SW_OPTS(sw_es_info);
        float rate;
        const job_opts *o = &r->opts.job;
        const sw_schedule schedule =
            SW_OPTS(sw_schedule, .kind = o->schedule, .base = (float)o->lr,
                    .warmup_steps = (uint64_t)o->warmup, .total_steps = r->generations,
                    .every = (r->generations + 2) / 3, .gamma = 0.1f);
        SW_TRY(sw_schedule_at(&schedule, r->generation, &rate));
        sw_knob_set(sw_optimizer_lr(r->job.net.optimizer, 0), rate);

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
        SW_TRY(es_metrics_row(r, false, (double)rate, end - start));
        SW_TRY(test_when_due(r));
        es_save_due(r);
    }
    return cli_interrupted() ? SW_OK : es_test_now(r);
}
