/* The files that `stepwell es` is to write: which files it may, --metrics, --profile. */
#include "profiler/record/json.h"
#include "tools/es/es.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

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
