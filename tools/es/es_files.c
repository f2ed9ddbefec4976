/* The files that `stepwell es` is to write: which files it may, --metrics, --profile. */
#include "tools/es/es.h"
#include <inttypes.h>
#include <string.h>

/* ---- es save ----------------------------------------------------------------------------- */

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

void es_save_due(es_run *r)
{
    const bool asked = r->opts.checkpoint != NULL && cli_save_asked();
    if (r->opts.checkpoint == NULL || !(asked || job_is_due(&r->due, r->generation)))
        return;
    r->due = job_due_after(&r->opts.every, r->generation);
    if (save(r) != SW_OK)
        cli_note(
            "the checkpoint could not be saved: %s; the run goes on, and the save is tried "
            "again",
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
    if (status != SW_OK)
        return cli_library_error(status, true);
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
    const sw_status status =
        cli_saved(sw_checkpoint_create(&r->checkpoint, r->job.exec, &opts));
    if (status != SW_OK)
        return cli_library_error(status, false);
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

sw_status es_metrics_row(es_run *r, bool test, double rate, uint64_t ns)
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

/* ---- profile ----------------------------------------------------------------------------- */

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
    return sw_exec_set_profile(r->job.exec, r->profile);
}
