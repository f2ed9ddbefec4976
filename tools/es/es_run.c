/* A run of `stepwell es`: its checkpoints and files, generations slice by slice, tests without
 * noise, and the result. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "profiler/record/utf8.h"
#include "tools/es/es.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --checkpoint and --resume of `stepwell es`: the model with the optimizer's state, sigma and
 * the states of snes, and beside it the options that decide and where the run is. */

static const job_field fields[] = {
    JOB_FIELD(JOB_U64, es_run, generation), JOB_FIELD(JOB_U64, es_run, evaluations),
    JOB_FIELD(JOB_U64, es_run, not_finite), JOB_FIELD(JOB_U64, es_run, saved_bytes)};
static const job_saved what = {"es", fields, sizeof fields / sizeof *fields, .loads = true};

/* Slices decide nothing: but for batch norm they change no bit. */
static void identify(const es_run *r, job_identity *to)
{
    const job_opts *o = &r->opts.job;
    job_identify(to, o, r->options, r->n_options);
    if (!r->on_environment) {
        job_identity_add(to, "--data", "%s", o->data);
        job_identity_add(to, "the number of training samples", "%" PRId64, r->job.train.n);
        job_identity_add(to, "--normalise", "%s", r->job.normal.text);
    }
    if (strcmp(o->schedule, "constant") != 0)
        job_identity_add(to, "generations in all (--generations, --epochs)", "%" PRIu64,
                         r->generations);
}

static sw_status save(es_run *r)
{
    static job_identity identity; /* large */
    const bool tested = r->test.there && r->tested == r->generation;
    r->saved_bytes = tested ? r->before_test : r->metrics.bytes;
    identify(r, &identity);
    SW_TRY(job_state_put(r->checkpoint, &what, &identity, r));
    SW_TRY(job_metrics_sync(&r->metrics));
    SW_TRY(sw_checkpoint_save(r->checkpoint, r->generation));
    r->saved++;
    return SW_OK;
}

static void es_save_due(es_run *r)
{
    const bool asked = r->opts.checkpoint != NULL && cli_save_asked();
    if (r->opts.checkpoint == NULL || !(asked || job_is_due(&r->due, r->generation)))
        return;
    r->due = job_due_after(&r->opts.every, r->generation);
    if (save(r) != SW_OK)
        cli_note("the checkpoint could not be saved: %s; the run goes on, and the save is "
                 "tried again",
                 sw_last_error());
    else if (asked)
        cli_note("generation %" PRIu64 " is saved in %s", r->generation, r->opts.checkpoint);
}

sw_status es_save_last(es_run *r)
{
    if (r->opts.checkpoint == NULL || r->generation == 0)
        return SW_OK;
    SW_TRY(save(r));
    if (!r->opts.quiet)
        cli_note("generation %" PRIu64 " is saved in %s", r->generation, r->opts.checkpoint);
    return SW_OK;
}

static int go_on(es_run *r, const char *path)
{
    static job_identity identity; /* large */
    identify(r, &identity);
    CLI_TRY(job_state_get(r->checkpoint, &what, &identity, path, r));
    sw_status status = sw_checkpoint_load(r->checkpoint);
    r->resumed = r->generation;
    r->metrics.bytes = r->saved_bytes;
    if (status == SW_OK)
        status = sw_es_generation_set(r->job.es, r->generation);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s: %s", path, sw_last_error());
    CLI_LIBRARY(status, true);
    if (r->generation > r->generations)
        return cli_error(CLI_USAGE,
                         "--resume %s: it is after generation %" PRIu64
                         ", and this run has %" PRIu64 " in all: give more --generations",
                         path, r->generation, r->generations);
    if (!r->opts.quiet)
        cli_note("goes on after generation %" PRIu64 " of %" PRIu64 ", from %s", r->generation,
                 r->generations, path);
    return CLI_GO;
}

int es_resume(es_run *r)
{
    const es_opts *o = &r->opts;
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = o->checkpoint, .models = &r->job.net.model,
                .n_models = 1, .command = r->command, .keep = (int)o->keep, .no_copy = 1);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    if (job_resume_path(o->resume, o->checkpoint) == NULL)
        return CLI_GO;
    CLI_LIBRARY(cli_saved(sw_checkpoint_create(&r->checkpoint, r->job.exec, &opts)), false);
    const int looked =
        job_resume_find(r->checkpoint, o->resume, o->checkpoint, o->quiet, &found);
    const int code = looked == CLI_GO && found.found ? go_on(r, found.path) : looked;
    r->due = job_due_after(&o->every, r->generation);
    return code;
}

/* ---- es files ---------------------------------------------------------------------------- */

#define FILES(o)                                                                               \
    {"--profile", (o)->profile, JOB_IN_PLACE, .no_stream = true},                              \
        {"--metrics", (o)->metrics, JOB_IN_PLACE, .no_stream = true},                          \
        {"--save-params", (o)->save, JOB_BESIDE, .params = true, .no_stream = true},           \
        {"--load-params", (o)->load, JOB_READ, .params = true, .no_stream = true},             \
    {                                                                                          \
        "--checkpoint", (o)->checkpoint, JOB_READ, .no_stream = true                           \
    }

int es_files_check(const es_opts *o)
{
    const job_output files[] = {FILES(o)};
    CLI_TRY(job_saves_check(o->checkpoint, o->resume));
    CLI_TRY(job_check_params_name("--save-params", o->save));
    CLI_TRY(job_metrics_check(o->metrics, false));
    return job_outputs_check(files, sizeof files / sizeof *files,
                             o->environment == NULL && o->job.data != NULL ? &o->job : NULL,
                             o->checkpoint, o->resume, o->keep);
}

int es_files_writable(const es_opts *o)
{
    const job_output files[] = {FILES(o)};
    return job_outputs_writable(files, sizeof files / sizeof *files, o->checkpoint);
}

/* ---- metrics ----------------------------------------------------------------------------- */

sw_status es_metrics_open(es_run *r)
{
    static const char head[] = "kind,generation,mean,best,worst,deviation,not_finite,rate,loss,"
                               "score,ms\n";
    return job_metrics_open(&r->metrics, r->opts.metrics, head, sizeof head - 1,
                            r->resumed > 0);
}

static sw_status es_metrics_row(es_run *r, bool test, double rate, uint64_t ns)
{
    const sw_es_info *g = &r->last;
    const bool made = !test, env = r->on_environment;
    const job_cell cells[] = {
        {"kind", JOB_TEXT, true, .text = test ? "test" : "generation"},
        {"generation", JOB_COUNT, true, .count = r->generation},
        {made ? "mean" : NULL, JOB_REAL, made, .real = g->mean},
        {made ? "best" : NULL, JOB_REAL, made, .real = g->best},
        {made ? "worst" : NULL, JOB_REAL, made, .real = g->worst},
        {made ? "deviation" : NULL, JOB_REAL, made, .real = g->deviation},
        {made ? "not_finite" : NULL, JOB_COUNT, made, .count = g->not_finite},
        {made ? "rate" : NULL, JOB_REAL, made, .real = rate},
        {test && !env ? "loss" : NULL, JOB_REAL, test, .real = r->test.loss},
        {made  ? NULL
         : env ? "steps"
               : "accuracy",
         JOB_REAL, test, .real = r->test.score},
        {"ms", JOB_MS, ns > 0, .real = (double)ns * 1e-6}};
    return job_metrics_row(&r->metrics, cells, sizeof cells / sizeof *cells);
}

sw_status es_profile_open(es_run *r)
{
    const es_opts *o = &r->opts;
    const sw_profile_opts opts =
        SW_OPTS(sw_profile_opts, .path = o->profile, .model = o->job.model,
                .device = o->job.device, .batch = r->rows, .seed = (uint64_t)o->job.seed,
                .command = r->command, .data = r->on_environment ? o->environment : o->job.data,
                .budget_bytes = o->job.budget_bytes, .normalise = r->job.normal.text);
    if (o->profile == NULL)
        return SW_OK;
    SW_TRY(sw_profile_create(&r->profile, &opts));
    job_ranks_profile(r->ranks, r->profile, false);
    return sw_exec_set_profile(r->job.exec, r->profile);
}

/* ---- one run ----------------------------------------------------------------------------- */

static sw_status keep_peak(es_run *r, job_which which)
{
    result_runs *m = &r->measured[which];
    sw_run_info info = SW_OPTS(sw_run_info);
    SW_TRY(sw_last_run(r->job.exec, &info));
    result_bytes_add(&m->bytes, info.phase, info.peak_bytes);
    m->runs++;
    return SW_OK;
}

static sw_status es_run_one(es_run *r, job_which which, const sw_run_args *args)
{
    SW_TRY(result_witness(&r->measured[which], r->opts.witness, r->job.exec, args));
    SW_TRY(sw_run(r->job.exec, args));
    return keep_peak(r, which);
}

/* ---- es batch ---------------------------------------------------------------------------- */

/* The batch of a run: which samples each evaluation has, and their bytes.
 *
 * Samples have numbers, epoch by epoch, in an order that a keyed permutation of each epoch
 * gives. A generation takes the next ones: each direction its own, the two of an antithetic
 * pair the same. So an evaluation's samples follow from generation, direction and repeat alone,
 * and not from how the generation is cut into slices. */

#define ORDER_STREAM 0x65736f72u /* "esor" */

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
        at += sw_size_round(job_field_bytes(field) * (size_t)r->rows);
    }
}

sw_status es_batch_open(es_run *r)
{
    r->n_inputs = r->job.train.info.n_fields;
    for (int i = 0; i < r->n_inputs; i++)
        r->slot_bytes +=
            sw_size_round(job_field_bytes(&r->job.train.info.field[i]) * (size_t)r->rows);
    SW_TRY(sw_heap_alloc(&r->slot, SW_HEAP_RECORDS, r->slot_bytes));
    if (!r->on_environment)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&r->poles, SW_HEAP_RECORDS, (size_t)r->rows * sizeof *r->poles));
    return sw_heap_alloc(&r->fitness, SW_HEAP_RECORDS,
                         (size_t)r->opts.slice * sizeof *r->fitness);
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
        const size_t bytes = job_field_bytes(&from->field[i]);
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

/* The step function: logits of what is seen, as the output "logits". */
static void es_policy(sw_ctx *ctx, void *user)
{
    const tool_net *net = user;
    sw_output(ctx, "logits", net->kind->forward(ctx, net, sw_input(ctx, 0)));
}

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

/* ---- ranks ------------------------------------------------------------------------------- */

/* Each rank says where it is and whether it was interrupted, after the fitness of its slices.
 */
typedef struct {
    uint64_t generation;
    uint32_t interrupted, reserved;
} word;

size_t es_fitness_bytes(const sw_es *es, int ranks)
{
    const size_t slices = (sw_es_slices(es) + (size_t)ranks - 1) / (size_t)ranks;
    return sw_size_round(slices * sw_es_rows(es) * sizeof(float) + sizeof(word));
}

size_t es_ranks_bytes(const sw_es *es, int ranks)
{
    return ranks > 1
               ? swi_ranks_bytes(ranks) + (size_t)(ranks + 1) * es_fitness_bytes(es, ranks)
               : 0;
}

/* At least 64: it holds the last word of a rank, too. */
static size_t found_each(const es_run *r)
{
    return es_fitness_bytes(r->job.es, swi_ranks_size(r->ranks));
}

static size_t transport_bytes(const es_run *r)
{
    return es_ranks_bytes(r->job.es, swi_ranks_size(r->ranks));
}

static void keep_found(es_run *r, uint32_t slice, const float *fitness)
{
    const size_t rows = sw_es_rows(r->job.es);
    if (r->ranks != NULL)
        memcpy(r->found + slice / (uint32_t)swi_ranks_size(r->ranks) * rows, fitness,
               rows * sizeof *fitness);
    r->runs++;
}

/* The fitness of all slices, to all. */
static sw_status exchange(es_run *r)
{
    const size_t each = found_each(r), rows = sw_es_rows(r->job.es), last = each - sizeof(word);
    const int ranks = swi_ranks_size(r->ranks), rank = swi_ranks_rank(r->ranks);
    const word own = {.generation = r->generation, .interrupted = cli_interrupted()};
    if (r->ranks == NULL)
        return SW_OK;
    char *mine = (char *)r->found, *all = mine + each;
    memcpy(mine + last, &own, sizeof own);
    swi_ranks_at(r->ranks, "generation", r->generation);
    SW_TRY(swi_ranks_gather(r->ranks, mine, each, all));
    for (int k = 0; k < ranks; k++) {
        word of;
        memcpy(&of, all + (size_t)k * each + last, sizeof of);
        r->stopped |= of.interrupted != 0;
        if (of.generation != r->generation)
            SW_FAIL(SW_IO, "rank %d is in generation %" PRIu64 ", rank %d in %" PRIu64, k,
                    of.generation, rank, r->generation);
    }
    for (uint32_t s = 0; s < sw_es_slices(r->job.es); s++) {
        const size_t from = s % (uint32_t)ranks, at = s / (uint32_t)ranks;
        const void *fitness = all + from * each + at * rows * sizeof(float);
        if ((int)from != rank)
            SW_TRY(sw_es_tell_slice(r->job.es, s, fitness, rows));
    }
    return SW_OK;
}

int es_ranks_open(es_run *r)
{
    static char profile[FILE_PATH_BYTES];
    es_opts *o = &r->opts;
    CLI_TRY(job_ranks_open(&r->ranks, &r->job, &o->job, o->rank_timeout));
    if (swi_ranks_rank(r->ranks) > 0) {
        o->metrics = o->save = o->checkpoint = o->resume = NULL;
        o->quiet = true;
    }
    o->profile = job_ranks_profile_path(r->ranks, o->profile, profile);
    return CLI_GO;
}

static sw_status agree(es_run *r)
{
    static job_identity identity; /* large */
    const sw_dataset *data = r->on_environment ? NULL : r->job.train.set;
    identify(r, &identity);
    SW_TRY(job_ranks_same(r->ranks, &identity, &data, 1));
    SW_TRY(swi_ranks_share(r->ranks, &r->generation, sizeof r->generation));
    SW_TRY(sw_es_generation_set(r->job.es, r->generation));
    SW_TRY(job_ranks_share_model(r->ranks, r->job.net.model, false));
    r->found_bytes = (size_t)(swi_ranks_size(r->ranks) + 1) * found_each(r);
    SW_TRY(sw_heap_alloc(&r->found, SW_HEAP_RECORDS, r->found_bytes));
    memset(r->found, 0, r->found_bytes);
    return SW_OK;
}

int es_ranks_agree(es_run *r)
{
    if (r->ranks != NULL)
        CLI_LIBRARY(agree(r), false);
    return CLI_GO;
}

/* ---- one slice --------------------------------------------------------------------------- */

static sw_status evaluate_slice(es_run *r, uint32_t slice)
{
    const size_t samples = (size_t)r->opts.samples, n = sw_es_rows(r->job.es);
    if (!r->on_environment)
        es_batch_rows(r, r->rows);
    for (size_t e = 0; e < n; e++) {
        sw_es_evaluation which = SW_OPTS(sw_es_evaluation);
        SW_TRY(sw_es_ask(r->job.es, slice, e, &which));
        const uint64_t first = es_batch_number(r, &which);
        for (size_t k = 0; k < samples; k++)
            if (r->on_environment)
                r->poles[e * samples + k] =
                    cart_pole_begin((uint64_t)r->opts.job.seed, first + k);
            else
                put(r, &r->job.train.info, sample_at(r, first + k), e * samples + k);
    }
    if (r->on_environment) {
        SW_TRY(play(r, JOB_TRAIN, slice, r->rows));
        for (size_t e = 0; e < n; e++) {
            double steps = 0.0;
            for (size_t k = 0; k < samples; k++)
                steps += (double)r->poles[e * samples + k].steps;
            r->fitness[e] = (float)(steps / (double)samples);
        }
        keep_found(r, slice, r->fitness);
        return sw_es_tell_slice(r->job.es, slice, r->fitness, n);
    }
    sw_run_args args = job_args(&r->job, JOB_TRAIN, r->inputs, r->generation);
    args.es_slice = slice;
    SW_TRY(result_witness(&r->measured[JOB_TRAIN], r->opts.witness, r->job.exec, &args));
    SW_TRY(sw_es_evaluate(r->job.es, r->job.exec, &args, slice, "loss"));
    if (r->ranks != NULL) {
        sw_array losses;
        SW_TRY(sw_output_get(r->job.exec, "loss", &losses));
        keep_found(r, slice, losses.data);
    }
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
    if (job_has_classes(&r->job))
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
    const bool scored = r->on_environment || job_has_classes(&r->job);
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
    while (r->generation < r->generations && !r->reached && !r->stopped &&
           (r->ranks != NULL || !cli_interrupted())) {
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

        const uint32_t ranks = (uint32_t)swi_ranks_size(r->ranks);
        for (uint32_t s = (uint32_t)swi_ranks_rank(r->ranks); s < sw_es_slices(r->job.es);
             s += ranks)
            SW_TRY(evaluate_slice(r, s));
        SW_TRY(exchange(r));
        const uint64_t evaluated = cli_clock_ns(), waited = swi_ranks_waited(r->ranks);
        SW_TRY(sw_es_step(r->job.es, r->job.exec, &info));
        const uint64_t end = cli_clock_ns();
        r->update_waited_ns += swi_ranks_waited(r->ranks) - waited;
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
    return r->stopped || (r->ranks == NULL && cli_interrupted()) ? SW_OK : es_test_now(r);
}

/* The output of `stepwell es` when it is done. */

/* ---- what is noise in the plan ----------------------------------------------------------- */

typedef struct {
    size_t lives, most; /* scratch of ops of noise: what outlives its op; the most of one */
} noise_seen;

/* An op of noise adds to what a layer gives, or is the layer's last step: of its own it has
 * scratch alone. */
static void see_storage(void *to, const sw_plan_storage *s)
{
    noise_seen *seen = to;
    if (s->op == NULL || strstr(s->op, "noise") == NULL || strcmp(s->role, "workspace") != 0)
        return;
    if (s->death > s->birth)
        seen->lives += s->bytes;
    seen->most = s->bytes + s->padding > seen->most ? s->bytes + s->padding : seen->most;
}

sw_status es_look_at_plan(es_run *r)
{
    noise_seen seen = {0};
    const sw_plan_visitor visitor =
        SW_OPTS(sw_plan_visitor, .to = &seen, .storage = see_storage);
    sw_run_args args = job_args(&r->job, JOB_TRAIN, r->job.program[JOB_TRAIN].inputs, 0);
    args.n_inputs = r->n_inputs;
    SW_TRY(sw_plan_visit(r->job.exec, &args, &visitor));
    const size_t evaluations = (size_t)r->opts.population, own = sw_es_bytes(r->job.es);
    r->noise_bytes = seen.lives + (own > 12 * evaluations ? own - 12 * evaluations : 0);
    r->scratch_bytes = seen.most;
    r->update = SW_OPTS(sw_plan_info);
    SW_TRY(sw_es_plan(r->job.es, r->job.exec, &r->update));
    /* The same batch without noise, forward alone; parameters and buffers are the same. */
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    args.es = NULL;
    args.mode = SW_EVAL;
    args.n_inputs = r->n_inputs;
    SW_TRY(sw_plan(r->job.exec, &args, &plan));
    r->inference_peak = plan.peak_bytes;
    return SW_OK;
}

size_t es_total_bytes(const es_run *r)
{
    const size_t runs = job_total_bytes(&r->job), update = r->update.total_bytes;
    return (runs > update ? runs : update) + sw_es_bytes(r->job.es) + transport_bytes(r);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static double per_second(const es_run *r)
{
    const uint64_t ns = r->evaluate_ns + r->update_ns;
    const uint64_t made = (r->generation - r->resumed) * (uint64_t)r->opts.population;
    return ns > 0 ? (double)made * 1e9 / (double)ns : 0.0;
}

static int print_json(es_run *r, int status, const job_rank *of)
{
    sw_json json;
    result_json_begin(&json);
    const es_opts *o = &r->opts;
    SW_JSON_PUT(&json, &o->job, model, device);
    sw_json_put_string(&json, "data", r->on_environment ? NULL : r->job.train.info.name);
    SW_JSON_PUT(&json, o, environment, population);
    sw_json_put_i64(&json, "directions", es_directions(o));
    SW_JSON_PUT(&json, o, repeats, slice);
    sw_json_put_i64(&json, "rows", r->rows);
    SW_JSON_PUT(&json, o, samples, strategy);
    sw_json_put_string(&json, "noise", es_noise(o));
    sw_json_put_f64(&json, "sigma", o->sigma);
    SW_JSON_PUT(&json, &o->job, optimizer, lr, seed, threads);
    sw_json_put_u64(&json, "generations", r->generation);
    SW_JSON_PUT(&json, r, reached, evaluations, not_finite);
    const sw_es_info *g = &r->last;
    const bool ran = g->evaluations > 0, tested = r->test.there && r->tested == r->generation;
    sw_json_open(&json, "fitness", '{');
    sw_json_put_known_f64(&json, "mean", ran, g->mean);
    sw_json_put_known_f64(&json, "best", ran, g->best);
    sw_json_put_known_f64(&json, "worst", ran, g->worst);
    sw_json_put_known_f64(&json, "deviation", ran, g->deviation);
    sw_json_end(&json);
    if (!r->on_environment)
        sw_json_put_known_f64(&json, "test_loss", tested, r->test.loss);
    sw_json_put_known_f64(&json, r->on_environment ? "test_steps" : "test_accuracy",
                          tested && !isnan(r->test.score), r->test.score);
    sw_json_put_known(&json, "test_rows", tested, (uint64_t)r->test.rows);
    const sw_plan_info *p = &r->job.program[JOB_TRAIN].plan;
    const result_runs *m = &r->measured[JOB_TRAIN];
    sw_json_put_u64(&json, "predicted_peak_bytes", p->peak_bytes);
    sw_json_put_known(&json, "measured_peak_bytes", m->runs > 0, m->bytes.peak_bytes);
    sw_json_put_u64(&json, "inference_peak_bytes", r->inference_peak);
    SW_JSON_PUT(&json, p, model_bytes, arena_bytes, data_bytes);
    sw_json_put_u64(&json, "total_bytes", es_total_bytes(r));
    sw_json_put_u64(&json, "lower_bound_bytes", p->lower_bound_bytes);
    sw_json_put_u64(&json, "update_arena_bytes", r->update.arena_bytes);
    sw_json_put_u64(&json, "update_peak_bytes", r->update.peak_bytes);
    sw_json_put_u64(&json, "es_bytes", sw_es_bytes(r->job.es));
    sw_json_put_u64(&json, "noise_bytes", r->noise_bytes);
    sw_json_put_u64(&json, "noise_scratch_bytes", r->scratch_bytes);
    sw_json_put_known_f64(&json, "evaluations_per_second", per_second(r) > 0.0, per_second(r));
    SW_JSON_PUT(&json, r, wall_ns, evaluate_ns, update_ns, test_ns);
    sw_json_put_known(&json, "resumed_from_generation", r->resumed > 0, r->resumed);
    sw_json_put_known(&json, "checkpoints", r->opts.checkpoint != NULL, r->saved);
    result_witnesses all = {0};
    for (int i = 0; i < JOB_PROGRAMS; i++)
        result_witnesses_add(&all, &r->measured[i].witness);
    if (sw_json_open_known(&json, "witness", all.n > 0)) {
        result_put_witnesses(&json, &all);
        sw_json_put_known(&json, "access_peak_bytes", m->witness.size != 0,
                          m->witness.peak_bytes);
        sw_json_end(&json);
    }
    result_put_device(&json, r->job.exec);
    job_ranks_put(&json, r->ranks, transport_bytes(r), "runs", of);
    return result_json_end(&json, status);
}

/* ---- text -------------------------------------------------------------------------------- */

int es_print(es_run *r, int status)
{
    const job_rank own = {.done = r->runs,
                          .predicted_peak_bytes = r->job.program[JOB_TRAIN].plan.peak_bytes,
                          .measured_peak_bytes = r->measured[JOB_TRAIN].bytes.peak_bytes,
                          .update_ns = r->update_ns - r->update_waited_ns};
    job_rank *of = (job_rank *)(void *)r->found; /* what it had is used up */
    if (r->ranks != NULL)
        CLI_LIBRARY(job_ranks_figures(r->ranks, own, of), false);
    if (swi_ranks_rank(r->ranks) > 0)
        return status;
    if (r->opts.json)
        return print_json(r, status, of);
    const es_opts *o = &r->opts;
    char name[1024], title[1400];
    sw_utf8_clean(name, sizeof name, r->job.train.info.name);
    snprintf(title, sizeof title,
             "%s on %s by %s, %s noise of %g, %s evaluations (%s directions x %" PRId64
             "), %s of them and %" PRId64 " rows a run, %s %g, seed %" PRId64 ", %s, %" PRId64
             " thread%s",
             o->job.model, name, o->strategy, es_noise(o), o->sigma,
             cli_digits((uint64_t)o->population).text,
             cli_digits((uint64_t)es_directions(o)).text, o->repeats,
             cli_digits((uint64_t)o->slice).text, r->rows, o->job.optimizer,
             (double)(float)o->job.lr, o->job.seed, o->job.device, o->job.threads,
             o->job.threads == 1 ? "" : "s");
    cli_wrap(stdout, 0, 0, title);
    const sw_plan_info *p = &r->job.program[JOB_TRAIN].plan;
    const result_runs *m = &r->measured[JOB_TRAIN];
    char found[96] = "not measured", text[400];
    if (m->runs > 0)
        snprintf(found, sizeof found, "%s measured",
                 m->bytes.peak_bytes == p->peak_bytes ? "the same"
                                                      : cli_digits(m->bytes.peak_bytes).text);
    snprintf(text, sizeof text, "%s predicted, %s; inference of the same batch has %s",
             result_both(p->peak_bytes).text, found, cli_digits(r->inference_peak).text);
    printf("\npeak    ");
    cli_wrap(stdout, 8, 8, text);
    printf("model   %s\n", result_both(p->model_bytes).text);
    printf("arena   %s\n", result_both(p->arena_bytes).text);
    printf("update  %s of arena\n", result_both(r->update.arena_bytes).text);
    printf("noise   %s; fitness and order of a generation %s\n",
           result_both(r->noise_bytes).text, cli_bytes(sw_es_bytes(r->job.es)).text);
    printf("data    %s\n", result_both(p->data_bytes).text);
    job_ranks_print(r->ranks, transport_bytes(r));
    printf("total   %s\n", result_both(es_total_bytes(r)).text);
    result_print_device("card    ", r->job.exec);
    const sw_es_info *g = &r->last;
    printf("\n%s generation%s, %s, %s evaluations", cli_digits(r->generation).text,
           r->generation == 1 ? "" : "s", cli_ns(r->wall_ns).text,
           cli_digits(r->evaluations).text);
    if (per_second(r) > 0.0)
        printf(", %s a second", cli_digits((uint64_t)per_second(r)).text);
    putchar('\n');
    if (g->evaluations > 0)
        printf("%s   mean %.4f, best %.4f in the last generation\n",
               r->on_environment ? "steps" : "loss ", g->mean, g->best);
    if (r->not_finite > 0)
        printf("%s evaluations came to no finite number\n", cli_digits(r->not_finite).text);
    if (!r->test.there || r->tested != r->generation)
        printf("test    not made: the run was interrupted\n");
    else if (r->on_environment)
        printf("test    %.2f steps on average over %s episodes\n", r->test.score,
               cli_digits((uint64_t)r->test.rows).text);
    else if (isnan(r->test.score))
        printf("test    loss %.4f\n", r->test.loss);
    else
        printf("test    loss %.4f, accuracy %.2f %% (%s of %s)\n", r->test.loss,
               100.0 * r->test.score,
               cli_digits((uint64_t)llround(r->test.score * (double)r->test.rows)).text,
               cli_digits((uint64_t)r->test.rows).text);
    return cli_finish(status);
}
