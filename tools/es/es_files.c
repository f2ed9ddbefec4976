/* The files that `stepwell es` is to write: which files it may, --metrics, --profile. */
#include "profiler/record/json.h"
#include "tools/es/es.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
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
    r->saved_bytes = tested ? r->before_test : r->metrics_bytes;
    identify(r, &identity);
    SW_TRY(job_state_put(r->checkpoint, &what, &identity, r));
    if (r->metrics != NULL)
        SW_TRY(sw_file_sync(r->metrics));
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
    const int same = job_state_get(r->checkpoint, &what, &identity, path, r);
    if (same != CLI_GO)
        return same;
    sw_status status = sw_checkpoint_load(r->checkpoint);
    r->resumed = r->generation;
    r->metrics_bytes = r->saved_bytes;
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

typedef struct {
    const char *option, *path;
} named_file;

static int check_pair(const named_file *a, const named_file *b)
{
    if (!file_same(a->path, b->path))
        return CLI_GO;
    return cli_error(CLI_USAGE, "%s %s, the same file as %s", a->option, a->path, b->option);
}

/* --save-params may replace what --load-params read, the last of the list. */
static int check_names(const es_opts *o)
{
    const named_file files[] = {{"--profile", o->profile},
                                {"--metrics", o->metrics},
                                {"--checkpoint", o->checkpoint},
                                {"--save-params", o->save},
                                {"--load-params", o->load}};
    const size_t n = sizeof files / sizeof *files;
    int status = CLI_GO;
    for (size_t i = 0; i < n && status == CLI_GO; i++) {
        if (files[i].path != NULL && strcmp(files[i].path, "-") == 0)
            return cli_error(CLI_USAGE, "%s must be a file: standard output has the result",
                             files[i].option);
        for (size_t k = i + 1; k < n && status == CLI_GO; k++)
            if (i + 2 < n || k + 1 < n)
                status = check_pair(&files[i], &files[k]);
        if (status == CLI_GO && o->environment == NULL && o->job.data != NULL && i + 1 < n)
            status = train_check_data(files[i].option, files[i].path, &o->job);
    }
    return status;
}

int es_files_check(const es_opts *o)
{
    int status = job_saves_check(o->checkpoint, o->resume);
    if (status == CLI_GO)
        status = job_check_params_name("--save-params", o->save);
    if (status == CLI_GO)
        status = train_rows_check(o->metrics);
    return status == CLI_GO ? check_names(o) : status;
}

int es_files_writable(const es_opts *o)
{
    int status = train_check_file("--save-params", o->save, true);
    if (status == CLI_GO)
        status = train_check_regular("--checkpoint", o->checkpoint);
    if (status == CLI_GO)
        status = train_check_file("--checkpoint", o->checkpoint, true);
    if (status == CLI_GO)
        status = train_check_file("--profile", o->profile, false);
    return status == CLI_GO ? train_check_file("--metrics", o->metrics, false) : status;
}

/* ---- metrics ----------------------------------------------------------------------------- */

#define LINE_BYTES 640
static const char head[] = "kind,generation,mean,best,worst,deviation,not_finite,rate,loss,"
                           "score,ms\n";

static sw_status put(es_run *r, const char *text, size_t n)
{
    SW_TRY(sw_file_write(r->metrics, text, n));
    r->metrics_bytes += n;
    return SW_OK;
}

sw_status es_metrics_open(es_run *r)
{
    const char *path = r->opts.metrics;
    if (path == NULL)
        return SW_OK;
    SW_TRY(r->resumed > 0 ? train_rows_go_on(&r->metrics, path, head, &r->metrics_bytes)
                          : sw_file_take(&r->metrics, path, true));
    return r->metrics_bytes == 0 && cli_ends_with(path, ".csv") ? put(r, head, sizeof head - 1)
                                                                : SW_OK;
}

static size_t json_row(const es_run *r, bool test, double rate, uint64_t ns, char *text)
{
    const sw_es_info *g = &r->last;
    const bool scored = !isnan(r->test.score);
    sw_json json;
    sw_json_fixed(&json, text, LINE_BYTES, NULL, NULL);
    sw_json_begin(&json, '{');
    sw_json_put_string(&json, "kind", test ? "test" : "generation");
    sw_json_put_u64(&json, "generation", r->generation);
    if (test) {
        if (!r->on_environment)
            sw_json_put_f64(&json, "loss", r->test.loss);
        sw_json_put_known_f64(&json, r->on_environment ? "steps" : "accuracy", scored,
                              r->test.score);
    } else {
        sw_json_put_f64(&json, "mean", g->mean);
        sw_json_put_f64(&json, "best", g->best);
        sw_json_put_f64(&json, "worst", g->worst);
        sw_json_put_f64(&json, "deviation", g->deviation);
        sw_json_put_u64(&json, "not_finite", g->not_finite);
        sw_json_put_f64(&json, "rate", rate);
    }
    sw_json_put_f64(&json, "ms", (double)ns * 1e-6);
    sw_json_end(&json);
    sw_json_line(&json);
    return json.used;
}

static int csv_row(const es_run *r, bool test, double rate, uint64_t ns, char *text)
{
    const sw_es_info *g = &r->last;
    const double ms = (double)ns * 1e-6;
    if (test)
        return snprintf(text, LINE_BYTES, "test,%" PRIu64 ",,,,,,,%.9g,%.9g,%.6f\n",
                        r->generation, r->test.loss, r->test.score, ms);
    return snprintf(text, LINE_BYTES,
                    "generation,%" PRIu64 ",%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.9g,,,%.6f\n",
                    r->generation, g->mean, g->best, g->worst, g->deviation, g->not_finite,
                    rate, ms);
}

sw_status es_metrics_row(es_run *r, bool test, double rate, uint64_t ns)
{
    char text[LINE_BYTES];
    if (r->metrics == NULL)
        return SW_OK;
    const size_t n = cli_ends_with(r->opts.metrics, ".csv")
                         ? (size_t)csv_row(r, test, rate, ns, text)
                         : json_row(r, test, rate, ns, text);
    return put(r, text, n);
}

sw_status es_metrics_close(es_run *r)
{
    sw_file *file = r->metrics;
    r->metrics = NULL;
    return file != NULL ? sw_file_close(file) : SW_OK;
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
