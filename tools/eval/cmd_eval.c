/* stepwell eval: how good trained parameters are on a data set. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "kernels/scalar.h"
#include "profiler/inspect/sink.h"
#include "profiler/record/utf8.h"
#include "tools/job/outputs.h"
#include "tools/job/result.h"
#include "tools/report/file_same.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In the order of eval_words and predict_words. */
typedef enum { EVAL_TEXT, EVAL_JSON, EVAL_CSV, EVAL_JSONL, EVAL_NPY } eval_format;

typedef struct {
    job_opts job;
    const char *load, *part, *out, *word; /* word: of --format; NULL: not given */
    eval_format format;
    bool json, quiet;
} eval_opts;

/* Confusion is counted up to so many classes: 128 MiB. */
#define EVAL_COUNTED 4096

typedef struct {
    eval_opts opts;
    job job;
    sw_loader *loader;
    result_runs measured[2]; /* of JOB_EVAL and JOB_EVAL_LAST */
    uint64_t *counts;        /* (classes, classes); NULL: nothing is counted */
    size_t counts_bytes;
    int64_t rows;       /* that went through */
    result_score score; /* of them; not of predict */
    uint64_t warm_runs, allocations, wall_ns;
} evaluation;

/* All batches, in the order of the samples. `take` is called after each run with the inputs,
 * and the scores (rows, n); scores is NULL where the model has none. SW_STOPPED after an
 * interrupt. */
typedef sw_status eval_take(evaluation *e, const sw_array *inputs, const sw_array *scores,
                            void *to);

#define EVAL_NAME_BYTES 100

/* ---- the runs ---------------------------------------------------------------------------- */

/* The runs of `stepwell eval` and `stepwell predict`: a plan of inference in an arena of its
 * own, without optimizer and without gradients. */

static bool eval_is_language(const evaluation *e)
{
    return e->job.net.task == TOOL_PREDICT || e->job.net.task == TOOL_DOCUMENTS;
}

/* The name of class k, cleaned for people: its number where it has none. Returns `to`. */
static char *eval_class_name(const evaluation *e, int64_t k, char *to)
{
    const char *const *names = e->job.test.info.class_names;
    if (names != NULL && k < e->job.test.info.n_classes)
        sw_utf8_clean(to, EVAL_NAME_BYTES, names[k]);
    else
        snprintf(to, EVAL_NAME_BYTES, "%" PRId64, k);
    return to;
}

static result_measured eval_found(const evaluation *e, job_which which)
{
    const result_runs *m = &e->measured[which - JOB_EVAL];
    return (result_measured){m->runs > 0 ? m->bytes.phase : NULL, m->bytes.peak_bytes, "arena"};
}

/* The program that most samples went through. */
static result_measured eval_main(const evaluation *e)
{
    return eval_found(e, (job_which)(job_main(&e->job) - e->job.program));
}

static sw_status make_ready(evaluation *e)
{
    const job_opts *o = e->job.opts;
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = job_slot_rows(&e->job.test, e->job.batch),
                .budget = job_on_device(o) ? NULL : e->job.budget);
    SW_TRY(sw_loader_create(&e->loader, e->job.test.set, &opts));
    SW_TRY(job_ready(&e->job));
    return o->params != NULL ? cli_saved(sw_model_load(e->job.net.model, o->params)) : SW_OK;
}

/* Everything before the first run: data, model, plan, parameters. CLI_GO or a status. */
static int eval_open(evaluation *e, sw_step_fn *fn)
{
    bool there = true;
    cli_catch_interrupt();
    sw_status status = e->opts.load != NULL ? sw_file_look(e->opts.load, &there) : SW_OK;
    if (status == SW_OK && !there) /* before data that may take minutes to read */
        return cli_error(CLI_DAMAGED, "--load-params %s: there is no such file", e->opts.load);
    CLI_LIBRARY(status, true);
    e->job.limited[strcmp(e->opts.part, "train") != 0] = e->job.batch;
    CLI_TRY(job_load(&e->job, false));
    /* The part in question stands in `test`, for which JOB_NONE plans. */
    if (strcmp(e->opts.part, "train") == 0) {
        const job_data test = e->job.test;
        e->job.test = e->job.train;
        e->job.train = test;
        e->job.train.info = e->job.test.info; /* the model is that of samples with labels */
        e->job.train.info.bytes = test.info.bytes;
    }
    if (e->job.test.n == 0)
        return cli_error(CLI_DAMAGED, "%s: there are no samples for --part %s",
                         e->job.test.info.name, e->opts.part);
    e->job.fn = fn;
    CLI_TRY(job_open(&e->job));
    CLI_TRY(job_check_machine(&e->job, false));
    CLI_LIBRARY(make_ready(e), true);
    return CLI_GO;
}

static void eval_close(evaluation *e)
{
    sw_loader_destroy(e->loader);
    job_close(&e->job);
    job_unload(&e->job);
    sw_heap_free(e->counts, SW_HEAP_RECORDS, e->counts_bytes);
}

static sw_status run(evaluation *e, const sw_array *inputs, eval_take *take, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    const job_which which = rows == e->job.batch ? JOB_EVAL : JOB_EVAL_LAST;
    const sw_run_args args = job_args(&e->job, which, inputs, 0);
    sw_run_info info = SW_OPTS(sw_run_info);
    sw_array scores;
    SW_TRY(sw_run(e->job.exec, &args));
    SW_TRY(sw_last_run(e->job.exec, &info));
    result_runs *m = &e->measured[which - JOB_EVAL];
    m->runs++;
    result_bytes_add(&m->bytes, info.phase, info.peak_bytes);
    e->warm_runs += info.warm != 0;
    if (info.warm != 0)
        e->allocations += info.allocations;
    const bool shown = e->job.net.kind->forward != NULL;
    if (shown)
        SW_TRY(sw_output_get(e->job.exec, TOOL_SCORES, &scores));
    SW_TRY(take(e, inputs, shown ? &scores : NULL, to));
    e->rows += rows;
    return SW_OK;
}

static sw_status eval_all(evaluation *e, eval_take *take, void *to)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_loader_epoch(e->loader, 0));
    for (;;) {
        const sw_array *inputs;
        int n;
        if (cli_interrupted())
            SW_FAIL(SW_STOPPED, "interrupted after %" PRId64 " of %" PRId64 " samples", e->rows,
                    e->job.test.n);
        SW_TRY(sw_loader_next(e->loader, &inputs, &n));
        if (n == 0)
            break;
        SW_TRY(run(e, inputs, take, to));
        if (!e->opts.quiet)
            cli_progress("%" PRId64 "/%" PRId64 " samples", e->rows, e->job.test.n);
    }
    e->wall_ns = cli_clock_ns() - start;
    cli_progress("%s", "");
    return SW_OK;
}

/* ---- eval out ---------------------------------------------------------------------------- */

/* Results on their way to a file or to standard output. */

/* A number with the fewest digits that say it; "nan" and "inf" too. */
static void eval_put_float(sw_sink_out *out, float x)
{
    char text[40];
    if (isnan(x)) { /* the sign of what is no number says nothing */
        sw_sink_text(out, "nan");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    sw_sink_text(out, text);
}

/* A field of CSV, in quotes where it needs them. */
static void eval_put_field(sw_sink_out *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n;") == NULL) {
        sw_sink_text(out, text);
        return;
    }
    sw_sink_text(out, "\"");
    for (; *text != '\0'; text++)
        sw_sink_bytes(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    sw_sink_text(out, "\"");
}

typedef struct {
    sw_status (*write)(void *context, sw_sink_out *out);
    void *context;
    sw_sink_out *out;
} writing;

static sw_status put_bytes(void *file, const void *bytes, size_t n)
{
    return sw_file_write(file, bytes, n);
}

static sw_status fill(void *context, sw_file *file)
{
    writing *w = context;
    w->out->write = put_bytes;
    w->out->context = file;
    SW_TRY(w->write(w->context, w->out));
    return sw_sink_flush(w->out);
}

/* Have `write` fill the file of --out, or standard output: a file is there whole or not at all.
 * The status of the first failure. */
static sw_status eval_write(const char *path,
                            sw_status (*write)(void *context, sw_sink_out *out), void *context)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(sw_sink_out)));
    writing w = {write, context, block};
    const sw_status status = cli_saved(sw_file_replace(path != NULL ? path : "-", fill, &w));
    sw_heap_free(block, SW_HEAP_FILES, sizeof(sw_sink_out));
    return status;
}

/* The output of `stepwell eval` for people. */

#define NAME_COLUMNS 20   /* of a class in the table */
#define MATRIX_CLASSES 12 /* more do not fit 80 columns */
#define MISTAKES 10       /* of more classes so many are listed */

/* ---- classes ----------------------------------------------------------------------------- */

/* "0.9876", or "-" where there is none. */
static cli_text share(double x)
{
    cli_text t = {"-"};
    if (!isnan(x))
        snprintf(t.text, sizeof t.text, "%.4f", x);
    return t;
}

/* The width that the names take_out. */
static int name_columns(const evaluation *e, int64_t n)
{
    char name[EVAL_NAME_BYTES];
    size_t width = strlen("class");
    for (int64_t k = 0; k < n; k++) {
        const size_t bytes = strlen(eval_class_name(e, k, name));
        width = bytes > width ? bytes : width;
    }
    return (int)(width < NAME_COLUMNS ? width : NAME_COLUMNS);
}

static void print_name(const char *name, int width)
{
    const int left = cli_fitted(stdout, name, strlen(name), width);
    printf("%*s", left, "");
}

static void print_class(const char *name, int width, const sw_class_score *s)
{
    print_name(name, width);
    printf("  %11s %11s %11s  %9s  %6s  %6s\n", cli_digits(s->support).text,
           cli_digits(s->predicted).text, cli_digits(s->right).text, share(s->precision).text,
           share(s->recall).text, share(s->f1).text);
}

static void print_classes(const evaluation *e, int64_t n, int width)
{
    const bool colour = cli_colour(stdout);
    char name[EVAL_NAME_BYTES];
    sw_class_score s = SW_OPTS(sw_class_score);
    printf("\n%s%-*s  %11s %11s %11s  %9s  %6s  %6s%s\n", colour ? "\033[1m" : "", width,
           "class", "support", "predicted", "right", "precision", "recall", "F1",
           colour ? "\033[0m" : "");
    for (int64_t k = 0; k < n; k++)
        if (sw_confusion_class(e->counts, n, k, &s) == SW_OK)
            print_class(eval_class_name(e, k, name), width, &s);
    if (sw_confusion_mean(e->counts, n, &s) == SW_OK)
        print_class("mean", width, &s);
}

static void print_matrix(const evaluation *e, int64_t n, int width)
{
    char name[EVAL_NAME_BYTES];
    uint64_t most = 0;
    for (int64_t i = 0; i < n * n; i++)
        most = e->counts[i] > most ? e->counts[i] : most;
    const int digits = snprintf(NULL, 0, "%" PRIu64, most);
    const int column = digits < 4 ? 4 : digits;
    printf("\nconfusion: a row for each label, a column for each prediction, in the order "
           "above\n");
    for (int64_t row = 0; row < n; row++) {
        print_name(eval_class_name(e, row, name), width);
        putchar(' ');
        for (int64_t k = 0; k < n; k++)
            printf(" %*" PRIu64, column, e->counts[row * n + k]);
        putchar('\n');
    }
}

/* The largest count off the diagonal that comes after `last` in the order of counts, then of
 * places; -1: none. */
static int64_t next_mistake(const evaluation *e, int64_t n, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n * n; i++) {
        const uint64_t x = e->counts[i];
        if (i / n == i % n || x == 0)
            continue;
        const bool behind =
            last < 0 || x < e->counts[last] || (x == e->counts[last] && i > last);
        if (behind && (best < 0 || x > e->counts[best]))
            best = i;
    }
    return best;
}

/* ---- all --------------------------------------------------------------------------------- */

static void eval_print_text(const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    const job_opts *o = e->job.opts;
    char name[1024], path[1024], title[2400];
    sw_utf8_clean(name, sizeof name, e->job.test.info.name);
    sw_utf8_clean(path, sizeof path,
                  e->opts.load != NULL ? e->opts.load : e->job.opts->settings.folder);
    snprintf(title, sizeof title,
             "%s with %s on %s, %s samples for %s, batch %s, %s, %" PRId64 " thread%s%s",
             o->model, path, name, cli_digits((uint64_t)e->job.test.n).text,
             strcmp(e->opts.part, "train") == 0 ? "training" : "testing",
             result_batch(job_batch(&e->job), e->job.batch).text, o->device, o->threads,
             o->threads == 1 ? "" : "s", job_precision_words(&e->job));
    cli_wrap(stdout, 0, 0, title);
    if (*e->job.normal.text != '\0')
        printf("pixels  %s from %s\n", e->job.normal.text, e->job.normal.from);
    putchar('\n');
    const result_measured found = eval_main(e);
    result_print_memory(&e->job, &found);
    printf("\n%s samples in %s", cli_digits((uint64_t)e->rows).text, cli_ns(e->wall_ns).text);
    if (e->warm_runs > 0)
        printf("; %s allocation%s after warm-up", cli_digits(e->allocations).text,
               e->allocations == 1 ? "" : "s");
    putchar('\n');
    printf("\nloss        %.4f\n", e->score.loss);
    if (e->job.net.task == TOOL_DOCUMENTS)
        printf("tokens      %s that count\n", cli_digits((uint64_t)e->score.weight).text);
    if (eval_is_language(e)) {
        printf("perplexity  %.4f\n", exp(e->score.loss));
        printf("bits        %.4f for each token\n", e->score.loss / log(2.0));
    } else if (job_has_classes(&e->job)) {
        printf("accuracy    %.2f %% (%s of %s)\n",
               100.0 * (double)e->score.right / (double)e->rows,
               cli_digits((uint64_t)e->score.right).text, cli_digits((uint64_t)e->rows).text);
    } else {
        printf("rmse        %.4f\n", sqrt(e->score.loss));
    }
    if (e->counts == NULL)
        return;
    const int width = name_columns(e, n);
    print_classes(e, n, width);
    if (n <= MATRIX_CLASSES)
        print_matrix(e, n, width);
    else {
        char label[EVAL_NAME_BYTES], taken[EVAL_NAME_BYTES];
        int64_t at = next_mistake(e, n, -1);
        if (at >= 0)
            printf("\nmost frequent mistakes; --format csv has all of the confusion\n");
        for (int i = 0; at >= 0 && i < MISTAKES; i++, at = next_mistake(e, n, at))
            printf("%11s of %s taken for %s\n", cli_digits(e->counts[at]).text,
                   eval_class_name(e, at / n, label), eval_class_name(e, at % n, taken));
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_classes(sw_json *json, const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    const char *const *names = e->job.test.info.class_names;
    sw_class_score s = SW_OPTS(sw_class_score);
    if (e->counts == NULL) {
        sw_json_put_null(json, "classes");
        sw_json_put_null(json, "confusion");
        return;
    }
    if (sw_confusion_mean(e->counts, n, &s) == SW_OK) {
        sw_json_put_f64(json, "macro_precision", s.precision);
        sw_json_put_f64(json, "macro_recall", s.recall);
        sw_json_put_f64(json, "macro_f1", s.f1);
    }
    sw_json_open(json, "classes", '[');
    for (int64_t k = 0; k < n && sw_confusion_class(e->counts, n, k, &s) == SW_OK; k++) {
        sw_json_begin(json, '{');
        sw_json_put_i64(json, "class", k);
        sw_json_put_string(json, "name", names != NULL ? names[k] : NULL);
        SW_JSON_PUT(json, &s, support, predicted, right, precision, recall, f1);
        sw_json_end(json);
    }
    sw_json_end(json);
    sw_json_open(json, "confusion", '[');
    for (int64_t k = 0; k < n; k++) {
        sw_json_begin(json, '[');
        for (int64_t i = 0; i < n; i++)
            sw_json_u64(json, e->counts[k * n + i]);
        sw_json_end(json);
    }
    sw_json_end(json);
}

static void put_programs(sw_json *json, const evaluation *e)
{
    sw_json_open(json, "programs", '[');
    for (job_which i = JOB_EVAL; i <= JOB_EVAL_LAST; i++) {
        const result_measured found = eval_found(e, i);
        if (e->job.program[i].batch == 0)
            continue;
        result_put_program(json, &e->job, &e->job.program[i], e->measured[i - JOB_EVAL].runs,
                           &found);
        sw_json_end(json);
    }
    sw_json_end(json);
}

static void eval_put_json(sw_json *json, evaluation *e)
{
    const job_program *main = job_main(&e->job);
    const result_measured found = eval_main(e);
    sw_json_begin(json, '{');
    const job_opts *o = e->job.opts;
    SW_JSON_PUT(json, o, model, device);
    sw_json_put_string(json, "data", e->job.test.info.name);
    sw_json_put_string(json, "part", e->opts.part);
    sw_json_put_string(json, "parameters", e->opts.load);
    sw_json_put_string(json, "normalise",
                       *e->job.normal.text != '\0' ? e->job.normal.text : NULL);
    result_put_batch(json, job_batch(&e->job), e->job.batch);
    sw_json_put_i64(json, "samples", e->rows);
    sw_json_put_i64(json, "threads", o->threads);
    SW_JSON_PUT(json, o, precision, bf16_order);
    sw_json_put_f64(json, "loss", e->score.loss);
    if (e->job.net.task == TOOL_DOCUMENTS)
        sw_json_put_i64(json, "tokens", e->score.weight);
    if (eval_is_language(e)) {
        sw_json_put_f64(json, "perplexity", exp(e->score.loss));
        sw_json_put_f64(json, "bits_per_token", e->score.loss / log(2.0));
    } else if (job_has_classes(&e->job)) {
        sw_json_put_f64(json, "accuracy", (double)e->score.right / (double)e->rows);
        put_classes(json, e);
    } else {
        sw_json_put_f64(json, "rmse", sqrt(e->score.loss));
    }
    result_put_both(json, &e->job, main, &found);
    sw_json_put_string(json, "measured_by", "arena");
    sw_json_put_u64(json, "predicted_peak_bytes", main->plan.peak_bytes);
    sw_json_put_u64(json, "measured_peak_bytes", found.peak_bytes);
    result_put_totals(json, &e->job, &main->plan);
    sw_json_put_known(json, "allocations_after_warmup", e->warm_runs > 0, e->allocations);
    sw_json_put_u64(json, "wall_ns", e->wall_ns);
    result_put_device(json, e->job.exec);
    put_programs(json, e);
    sw_json_end(json);
    sw_json_line(json);
}

/* ---- CSV --------------------------------------------------------------------------------- */

/* Nothing where there is none. */
static void put_share(sw_sink_out *out, double x)
{
    if (isnan(x))
        sw_sink_text(out, ",");
    else
        sw_sink_print(out, ",%.9g", x);
}

/* The result of eval. */
static void eval_put_csv(sw_sink_out *out, const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    if (e->counts == NULL) {
        const bool classes = job_has_classes(&e->job), language = eval_is_language(e);
        sw_sink_print(out, "samples,loss,%s\n%" PRId64 ",%.9g,%.9g\n",
                      classes    ? "accuracy"
                      : language ? "perplexity"
                                 : "rmse",
                      e->rows, e->score.loss,
                      classes    ? (double)e->score.right / (double)e->rows
                      : language ? exp(e->score.loss)
                                 : sqrt(e->score.loss));
        return;
    }
    sw_sink_text(out, "class,name,support,predicted,right,precision,recall,f1");
    for (int64_t k = 0; k < n; k++)
        sw_sink_print(out, ",as_%" PRId64, k);
    sw_sink_text(out, "\n");
    for (int64_t k = 0; k < n; k++) {
        const char *const *names = e->job.test.info.class_names;
        sw_class_score s = SW_OPTS(sw_class_score);
        if (out->status == SW_OK)
            out->status = sw_confusion_class(e->counts, n, k, &s);
        sw_sink_print(out, "%" PRId64 ",", k);
        eval_put_field(out, names != NULL ? names[k] : "");
        sw_sink_print(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, s.support, s.predicted,
                      s.right);
        put_share(out, s.precision);
        put_share(out, s.recall);
        put_share(out, s.f1);
        for (int64_t i = 0; i < n; i++)
            sw_sink_print(out, ",%" PRIu64, e->counts[k * n + i]);
        sw_sink_text(out, "\n");
    }
}

/* ---- predict rows ------------------------------------------------------------------------ */

/* The rows of `stepwell predict`: text, CSV, JSON, JSON Lines, or an array of NumPy's. */

/* Rows on their way out. */
typedef struct {
    sw_sink_out *out;
    int64_t n;   /* scores of a sample */
    bool labels; /* rows have one */
    sw_json json;
    char room[1 << 12]; /* of the JSON writer */
} writing_rows;

/* One sample. */
typedef struct {
    int64_t number, label; /* label -1: it has none */
    int64_t best;
    const float *scores;
} sample_row;

static int64_t label_at(const sw_array *labels, int64_t i)
{
    if (labels->dtype == SW_U8)
        return ((const uint8_t *)labels->data)[i];
    if (labels->dtype == SW_U16)
        return ((const uint16_t *)labels->data)[i];
    return labels->dtype == SW_I32 ? ((const int32_t *)labels->data)[i] : -1;
}

static int64_t best_of(const float *scores, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = sw_wins(scores[i], scores[best]) ? i : best;
    return best;
}

/* ---- text -------------------------------------------------------------------------------- */

static void text_head(const evaluation *e, writing_rows *w)
{
    if (job_has_classes(&e->job) && w->labels)
        sw_sink_print(w->out, "%10s  %-16s  %-16s  %s\n", "row", "label", "predicted",
                      "probability");
    else if (job_has_classes(&e->job))
        sw_sink_print(w->out, "%10s  %-16s  %s\n", "row", "predicted", "probability");
    else
        sw_sink_print(w->out, "%10s  %s\n", "row", "predicted");
}

static void text_row(const evaluation *e, writing_rows *w, const sample_row *r)
{
    char label[EVAL_NAME_BYTES], predicted[EVAL_NAME_BYTES];
    sw_sink_print(w->out, "%10" PRId64, r->number);
    if (!job_has_classes(&e->job)) {
        for (int64_t i = 0; i < w->n; i++)
            sw_sink_print(w->out, "%s%.6g", i == 0 ? "  " : " ", (double)r->scores[i]);
        sw_sink_text(w->out, "\n");
        return;
    }
    if (w->labels)
        sw_sink_print(w->out, "  %-16s", eval_class_name(e, r->label, label));
    sw_sink_print(w->out, "  %-16s  %.4f%s\n", eval_class_name(e, r->best, predicted),
                  (double)r->scores[r->best], !w->labels || r->best == r->label ? "" : "  *");
}

/* ---- CSV --------------------------------------------------------------------------------- */

static void csv_head(const evaluation *e, writing_rows *w)
{
    const bool classes = job_has_classes(&e->job), named = e->job.test.info.class_names != NULL;
    sw_sink_text(w->out, "row");
    if (classes)
        sw_sink_print(w->out, "%s,predicted%s%s", w->labels ? ",label" : "",
                      named && w->labels ? ",label_name" : "", named ? ",predicted_name" : "");
    for (int64_t i = 0; i < w->n; i++)
        sw_sink_print(w->out, ",%c%" PRId64, classes ? 'p' : 'y', i);
    sw_sink_text(w->out, "\n");
}

static void csv_row(const evaluation *e, writing_rows *w, const sample_row *r)
{
    const char *const *names = e->job.test.info.class_names;
    sw_sink_print(w->out, "%" PRId64, r->number);
    if (job_has_classes(&e->job) && w->labels)
        sw_sink_print(w->out, ",%" PRId64, r->label);
    if (job_has_classes(&e->job))
        sw_sink_print(w->out, ",%" PRId64, r->best);
    if (job_has_classes(&e->job) && names != NULL) {
        if (w->labels) {
            sw_sink_text(w->out, ",");
            eval_put_field(w->out, names[r->label]);
        }
        sw_sink_text(w->out, ",");
        eval_put_field(w->out, names[r->best]);
    }
    for (int64_t i = 0; i < w->n; i++) {
        sw_sink_text(w->out, ",");
        eval_put_float(w->out, r->scores[i]);
    }
    sw_sink_text(w->out, "\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static sw_status drain(void *context, const char *bytes, size_t n)
{
    sw_sink_out *out = context;
    sw_sink_bytes(out, bytes, n);
    return out->status;
}

static void put_names(sw_json *json, const evaluation *e)
{
    const char *const *names = e->job.test.info.class_names;
    if (names == NULL) {
        sw_json_put_null(json, "class_names");
        return;
    }
    sw_json_open(json, "class_names", '[');
    for (int64_t k = 0; k < e->job.test.info.n_classes; k++)
        sw_json_string(json, names[k]);
    sw_json_end(json);
}

static void json_head(const evaluation *e, writing_rows *w)
{
    sw_json *json = &w->json;
    sw_json_begin(json, '{');
    sw_json_put_string(json, "model", e->job.opts->model);
    sw_json_put_string(json, "data", e->job.test.info.name);
    sw_json_put_string(json, "part", e->opts.part);
    sw_json_put_string(json, "parameters", e->opts.load);
    sw_json_put_i64(json, "samples", e->job.test.n);
    put_names(json, e);
    sw_json_open(json, "rows", '[');
}

static void json_row(const evaluation *e, writing_rows *w, const sample_row *r)
{
    const char *const *names = e->job.test.info.class_names;
    sw_json *json = &w->json;
    sw_json_begin(json, '{');
    sw_json_put_i64(json, "row", r->number);
    if (job_has_classes(&e->job)) {
        if (w->labels)
            sw_json_put_i64(json, "label", r->label);
        sw_json_put_i64(json, "predicted", r->best);
        if (names != NULL)
            sw_json_put_string(json, "name", names[r->best]);
    }
    sw_json_open(json, job_has_classes(&e->job) ? "probabilities" : "values", '[');
    for (int64_t i = 0; i < w->n; i++)
        sw_json_f32(json, r->scores[i]);
    sw_json_end(json);
    sw_json_end(json);
    if (e->opts.format == EVAL_JSONL)
        sw_json_line(json);
}

/* ---- an array of NumPy's ----------------------------------------------------------------- */

/* Version 1.0: the header, newline included, ends at a multiple of 64. */
static void npy_head(const evaluation *e, writing_rows *w)
{
    char text[118];
    const int n = snprintf(text, sizeof text,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64
                           ", %" PRId64 "), }",
                           e->job.test.n, w->n);
    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 1] = '\n';
    sw_sink_bytes(w->out, "\x93NUMPY\x01\x00\x76\x00", 10);
    sw_sink_bytes(w->out, text, sizeof text);
}

static void npy_row(const evaluation *e, writing_rows *w, const sample_row *r)
{
    (void)e;
    for (int64_t i = 0; i < w->n; i++) {
        uint32_t bits;
        memcpy(&bits, &r->scores[i], sizeof bits);
        const unsigned char at[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                     (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        sw_sink_bytes(w->out, at, sizeof at);
    }
}

/* ---- all --------------------------------------------------------------------------------- */

static void nothing(const evaluation *e, writing_rows *w)
{
    (void)e;
    (void)w;
}

static const struct {
    void (*head)(const evaluation *e, writing_rows *w);
    void (*row)(const evaluation *e, writing_rows *w, const sample_row *r);
} formats[] = {[EVAL_TEXT] = {text_head, text_row},
               [EVAL_JSON] = {json_head, json_row},
               [EVAL_CSV] = {csv_head, csv_row},
               [EVAL_JSONL] = {nothing, json_row},
               [EVAL_NPY] = {npy_head, npy_row}};

static sw_status take_out(evaluation *e, const sw_array *inputs, const sw_array *scores,
                          void *to)
{
    writing_rows *w = to;
    const int64_t rows = inputs[0].shape.dim[0];
    int64_t all = 1;
    for (int i = 0; i < scores->shape.rank; i++)
        all *= scores->shape.dim[i];
    if (e->rows == 0) {
        w->n = all / rows;
        formats[e->opts.format].head(e, w);
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)scores->data + i * w->n;
        const sample_row r = {e->rows + i, w->labels ? label_at(&inputs[1], i) : -1,
                              best_of(x, w->n), x};
        formats[e->opts.format].row(e, w, &r);
    }
    return w->out->status != SW_OK ? w->out->status : w->json.status;
}

/* All rows of predict, in the format of the options. */
static sw_status predict_write(void *context, sw_sink_out *out)
{
    evaluation *e = context;
    writing_rows w = {.out = out, .labels = e->job.test.info.n_fields > 1};
    sw_json_fixed(&w.json, w.room, sizeof w.room, drain, out);
    SW_TRY(eval_all(e, take_out, &w));
    if (e->opts.format == EVAL_JSON) {
        sw_json_end(&w.json);
        sw_json_end(&w.json);
        sw_json_line(&w.json);
    }
    if (w.json.status == SW_OK)
        sw_sink_bytes(w.out, w.json.bytes, w.json.used);
    return w.json.status;
}

/* ---- eval opts --------------------------------------------------------------------------- */

/* The command lines of `stepwell eval` and `stepwell predict`. */

static const char *const eval_words[] = {"text", "json", "csv", NULL};
static const char *const predict_words[] = {"text", "json", "csv", "jsonl", "npy", NULL};
static const char *const part_words[] = {"test", "train", NULL};

/* Options of a job that say how parameters change, or what belongs to backward. */
static const char left_out[] =
    "--optimizer --lr --momentum --state --weight-decay --clip --max-skipped --update "
    "--keep-gradients --accumulate --seed --no-recompute --no-tiles "
    "--no-rebuild --no-strips --no-chunks --checkpoint --checkpoint-pauses --ranks";

static const char both_notes[] =
    "The options of model and data must be those of the training. Exit status: 0 done, 1 "
    "failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit the memory, 5 no such "
    "device, 130 interrupted; a file of --out is there whole or as it was before.\n";

static const char eval_notes[] =
    "Precision is the share of the predictions of a class that are right. Recall is the share "
    "of a class's samples that are found. F1 is 2 right / (support + predicted). A score of 0 "
    "/ 0 is shown as -, in JSON as null, in CSV as nothing. The means give each class that "
    "occurs the same weight.\n"
    "With --json, or --format json, there is one object: model, device, data, part, "
    "parameters, normalise, batch (that runs), batch_asked (where there are fewer samples), "
    "samples, threads, precision, bf16_order (null with f32), loss; accuracy, macro_precision, "
    "macro_recall, macro_f1, classes "
    "(class, name, support, predicted, right, precision, recall, f1) and confusion (a row for "
    "each label, a column for each prediction) where classes are learned, perplexity and "
    "bits_per_token of sequences, rmse of numbers; predicted and measured, for each phase its "
    "peak_bytes and end_bytes, measured_by, predicted_peak_bytes, measured_peak_bytes, "
    "model_bytes, arena_bytes, data_bytes, checkpoint_bytes, total_bytes, lower_bound_bytes, "
    "program_host_bytes, launches, rebuilt_ops, rebuilt, recompute, allocations_after_warmup, "
    "wall_ns, device_memory, programs.\n"
    "With --format csv there is a line for each class, with its row of the confusion after it; "
    "of sequences and numbers there is one line.";

static const char predict_notes[] =
    "Rows are numbered from 0 in the order of the data. A row has its label, the class with "
    "the largest probability, and the probabilities; of numbers its predictions. text shows "
    "the likeliest class alone. jsonl is an object for each row; npy is an array (rows, "
    "classes) of 32-bit floats. Where --format is not given the ending of --out decides.\n"
    "The data may have no labels: a table of as many columns as the parameters were trained on "
    "(with --data the training's table, also --test-data without its label column), a folder "
    "with images in itself, npy:INPUTS.npy, npz:FILE.npz:INPUTS. All samples are predicted "
    "then, and rows have no label.";

static int job_table(eval_opts *o, cli_option *table)
{
    const job_help help[] = {
        {&o->job.batch, "samples of a run"},
        {&o->job.budget_bytes, "hard limit for model, arena and data together (default none)"},
        {&o->job.settings.context,
         "positions that attention sees (gpt: as the file says, else 128)"},
        {&o->job.settings.vocabulary,
         "number of ids (gpt: as the file says, else as the data have)"},
        {&o->job.precision, JOB_PRECISION_TAKEN}};
    const int n = job_options_but(&o->job, table, left_out, true, help, 5);
    o->job.seed = 1;
    o->job.max_skipped = 10;
    return n;
}

static int parse(eval_opts *o, int argc, char **argv, bool predicts)
{
    static char notes[sizeof both_notes + sizeof eval_notes + sizeof predict_notes];
    cli_option table[JOB_OPTIONS_MAX + 6];
    const cli_option own[] = {
        {"--load-params", "FILE", CLI_WORD, &o->load, NULL,
         "parameters that train --save-params wrote, or a checkpoint; must be given"},
        {"--part", "WORD", CLI_WORD, &o->part, "test", "of the data: test or train", 0, 0,
         part_words},
        {"--format", "NAME", CLI_WORD, &o->word, NULL,
         predicts ? "text (default), json, csv, jsonl or npy" : "text (default), json or csv",
         0, 0, predicts ? predict_words : eval_words},
        {"--out", "FILE", CLI_WORD, &o->out, NULL,
         predicts ? "write the rows into a file (default standard output)"
                  : "file for json or csv (default standard output)"},
        {"--json", NULL, CLI_FLAG, &o->json, NULL, "the same as --format json"},
        {"--quiet", NULL, CLI_FLAG, &o->quiet, NULL, "no progress"},
    };
    memcpy(table, own, sizeof own);
    const int n = (int)(sizeof own / sizeof *own);
    snprintf(notes, sizeof notes, "%s%s", both_notes, predicts ? predict_notes : eval_notes);
    const cli_command command =
        SW_INIT(.name = predicts ? "predict" : "eval", .usage = "--load-params FILE [options]",
                .about = predicts ? "Predict each sample with trained parameters."
                                  : "Say how good trained parameters are: loss, accuracy, "
                                    "confusion, and a score for each class.",
                .options = table, .n_options = n + job_table(o, table + n), .notes = notes);
    return cli_parse(&command, argc, argv);
}

/* Of FILE.csv and so on: its ending; else text. */
static const char *by_ending(const eval_opts *o, bool predicts)
{
    const char *const *words = predicts ? predict_words : eval_words;
    const char *dot = o->out != NULL ? strrchr(o->out, '.') : NULL;
    for (int i = 1; dot != NULL && words[i] != NULL; i++)
        if (strcmp(dot + 1, words[i]) == 0)
            return words[i];
    return words[0];
}

static int check_format(eval_opts *o, bool predicts)
{
    if (o->json && o->word != NULL && strcmp(o->word, "json") != 0)
        return cli_error(CLI_USAGE, "--json and --format %s are two formats: leave one out",
                         o->word);
    const char *word = o->json ? "json" : o->word != NULL ? o->word : by_ending(o, predicts);
    o->format = (eval_format)cli_word_at(predict_words, word);
    if (o->out != NULL && !predicts && o->format == EVAL_TEXT)
        return cli_error(CLI_USAGE, "--out has no effect with --format text: use a "
                                    "redirection, or name a file that ends in .json or .csv");
    if (o->out == NULL && o->format == EVAL_NPY && cli_terminal(stdout))
        return cli_error(CLI_USAGE, "npy is not text: name a file with --out");
    return CLI_GO;
}

static int check(eval_opts *o, bool predicts)
{
    const tool_model *kind = tool_model_find(o->job.model);
    if (o->load == NULL && (predicts || kind == NULL || kind->load == NULL))
        return cli_error(CLI_USAGE, "--load-params FILE must be given: a file that train "
                                    "--save-params FILE or train --checkpoint FILE wrote");
    CLI_TRY(check_format(o, predicts));
    if (file_same(o->out, o->load))
        return cli_error(CLI_USAGE, "--out %s, a file that is read", o->out);
    const job_output file = {"--out", o->out, JOB_BESIDE, false, false};
    CLI_TRY(job_outputs_check(&file, 1, &o->job, NULL, NULL, 0));
    return job_outputs_writable(&file, 1, NULL);
}

/* The command line of either: CLI_GO or an exit status. Sets opts and batch. */
static int eval_parse(evaluation *e, int argc, char **argv, bool predicts)
{
    eval_opts *o = &e->opts;
    int status = parse(o, argc, argv, predicts);
    if (status == CLI_GO)
        status = check(o, predicts);
    o->job.method = JOB_NONE;
    o->job.params = o->load;
    o->job.unlabelled = predicts;
    if (status == CLI_GO && o->load != NULL)
        status = job_take_sequences(&o->job);
    if (status == CLI_GO)
        status = job_check(&o->job);
    e->job.opts = &o->job;
    e->job.batch = o->job.batch.at[0];
    return status;
}

/* ---- the commands ------------------------------------------------------------------------ */

static sw_status take(evaluation *e, const sw_array *inputs, const sw_array *scores, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    double loss, accuracy = 0.0;
    (void)to;
    SW_TRY(sw_metric_get(e->job.exec, "loss", &loss));
    if (job_has_classes(&e->job))
        SW_TRY(sw_metric_get(e->job.exec, "accuracy", &accuracy));
    /* As `train` weighs its batches, so that both say the same loss to the bit. */
    result_score_add(&e->score, loss, llround(accuracy * (double)rows), /* whole again */
                     rows, job_weight(&e->job, inputs));
    if (e->counts == NULL)
        return SW_OK;
    return sw_confusion_add(e->counts, scores->shape.dim[1], scores, &inputs[1]);
}

static sw_status write_csv(void *context, sw_sink_out *out)
{
    eval_put_csv(out, context);
    return out->status;
}

static sw_status write_json(void *context, sw_sink_out *out)
{
    sw_json json;
    sw_json_growing(&json, SW_HEAP_FILES);
    eval_put_json(&json, context);
    if (json.status == SW_OK)
        sw_sink_bytes(out, json.bytes, json.used);
    const sw_status status = json.status;
    sw_json_free(&json);
    return status == SW_OK ? out->status : status;
}

static int evaluate(evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    const eval_format format = e->opts.format;
    sw_status status = SW_OK;
    if (job_has_classes(&e->job) && n <= EVAL_COUNTED) {
        e->counts_bytes = (size_t)(n * n) * sizeof *e->counts;
        status = sw_heap_alloc(&e->counts, SW_HEAP_RECORDS, e->counts_bytes);
    }
    if (status == SW_OK)
        status = eval_all(e, take, NULL);
    if (status == SW_STOPPED && cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "%s", sw_last_error());
    if (status == SW_OK && format == EVAL_TEXT)
        eval_print_text(e);
    else if (status == SW_OK)
        status = eval_write(e->opts.out, format == EVAL_CSV ? write_csv : write_json, e);
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
}

int tool_eval(int argc, char **argv)
{
    evaluation e = {.loader = NULL};
    CLI_TRY(eval_parse(&e, argc, argv, false));
    int status = eval_open(&e, tool_net_eval_step);
    if (status == CLI_GO)
        status = evaluate(&e);
    eval_close(&e);
    return status;
}

int tool_predict(int argc, char **argv)
{
    evaluation e = {.loader = NULL};
    CLI_TRY(eval_parse(&e, argc, argv, true));
    if (e.opts.job.kind->forward == NULL)
        return cli_error(CLI_USAGE,
                         "predict has no rows of %s, which reads sequences: stepwell sample "
                         "writes text from its parameters, stepwell eval tells its loss",
                         e.opts.job.model);
    int status = eval_open(&e, tool_net_predict_step);
    if (status == CLI_GO) {
        const sw_status written = eval_write(e.opts.out, predict_write, &e);
        status = written == SW_STOPPED && cli_interrupted()
                     ? cli_error(CLI_INTERRUPTED, "%s", sw_last_error())
                 : written == SW_OK ? cli_finish(CLI_DONE)
                                    : cli_library_error(written, false);
    }
    eval_close(&e);
    return status;
}
