/* stepwell eval: how good trained parameters are on a data set. */
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include "tools/eval/eval.h"
#include "tools/report/file_same.h"
#include "tools/job/outputs.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static int eval_parse(evaluation *e, int argc, char **argv, bool predicts);

/* ---- eval run ---------------------------------------------------------------------------- */

/* The runs of `stepwell eval` and `stepwell predict`: a plan of inference in an arena of its
 * own, without optimizer and without gradients. */

bool eval_has_classes(const evaluation *e)
{
    return e->job.net.task == TOOL_CLASSIFY;
}

bool eval_is_language(const evaluation *e)
{
    return e->job.net.task == TOOL_PREDICT;
}

char *eval_class_name(const evaluation *e, int64_t k, char *to)
{
    const char *const *names = e->job.test.info.class_names;
    if (names != NULL && k < e->job.test.info.n_classes)
        sw_utf8_clean(to, EVAL_NAME_BYTES, names[k]);
    else
        snprintf(to, EVAL_NAME_BYTES, "%" PRId64, k);
    return to;
}

const eval_measured *eval_main(const evaluation *e)
{
    return &e->measured[job_main(&e->job) - e->job.program - JOB_EVAL];
}

/* ---- before ------------------------------------------------------------------------------ */

static sw_status make_ready(evaluation *e)
{
    const job_opts *o = e->job.opts;
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = job_slot_rows(&e->job.test, e->job.batch),
                .slots = JOB_SLOTS, .budget = job_on_device(o) ? NULL : e->job.budget);
    SW_TRY(sw_loader_create(&e->loader, e->job.test.set, &opts));
    SW_TRY(sw_model_ready(e->job.net.model, e->job.exec, (uint64_t)o->seed));
    return cli_saved(sw_model_load(e->job.net.model, e->opts.load));
}

static int eval_open(evaluation *e, sw_step_fn *fn)
{
    bool there;
    cli_catch_interrupt();
    sw_status status = sw_file_look(e->opts.load, &there);
    if (status == SW_OK && !there) /* before data that may take minutes to read */
        return cli_error(CLI_DAMAGED, "--load-params %s: there is no such file", e->opts.load);
    if (status != SW_OK)
        return cli_library_error(status, true);
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

/* Everything before the first run: data, model, plan, parameters. CLI_GO or a status. */
static void eval_close(evaluation *e)
{
    sw_loader_destroy(e->loader);
    job_close(&e->job);
    job_unload(&e->job);
    sw_heap_free(e->counts, SW_HEAP_RECORDS, e->counts_bytes);
}

/* ---- the runs ---------------------------------------------------------------------------- */

static sw_status run(evaluation *e, const sw_array *inputs, eval_take *take, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    const job_which which = rows == e->job.batch ? JOB_EVAL : JOB_EVAL_LAST;
    const sw_run_args args = job_args(&e->job, which, inputs, 0);
    sw_run_info info = SW_OPTS(sw_run_info);
    sw_array scores;
    SW_TRY(sw_run(e->job.exec, &args));
    SW_TRY(sw_last_run(e->job.exec, &info));
    eval_measured *m = &e->measured[which - JOB_EVAL];
    m->runs++;
    for (int i = 0; i < SW_PHASES; i++) {
        if (info.phase[i].peak_bytes > m->phase[i].peak_bytes)
            m->phase[i].peak_bytes = info.phase[i].peak_bytes;
        m->phase[i].end_bytes = info.phase[i].end_bytes;
    }
    if (info.peak_bytes > m->peak_bytes)
        m->peak_bytes = info.peak_bytes;
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

sw_status eval_all(evaluation *e, eval_take *take, void *to)
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

/* ---- cmd eval ---------------------------------------------------------------------------- */

static sw_status take(evaluation *e, const sw_array *inputs, const sw_array *scores, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    double loss, accuracy = 0.0;
    (void)to;
    SW_TRY(sw_metric_get(e->job.exec, "loss", &loss));
    if (eval_has_classes(e))
        SW_TRY(sw_metric_get(e->job.exec, "accuracy", &accuracy));
    /* As `train` weighs its batches, so that both say the same loss to the bit. */
    e->loss = e->rows == 0 ? loss
                           : (e->loss * (double)e->rows + loss * (double)rows) /
                                 (double)(e->rows + rows);
    e->right += llround(accuracy * (double)rows); /* a share of rows: whole again */
    if (e->counts == NULL)
        return SW_OK;
    return sw_confusion_add(e->counts, scores->shape.dim[1], scores, &inputs[1]);
}

static sw_status take_counts(evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    void *block;
    if (!eval_has_classes(e) || n > EVAL_COUNTED)
        return SW_OK;
    e->counts_bytes = (size_t)(n * n) * sizeof *e->counts;
    const sw_status status = sw_heap_alloc(&block, SW_HEAP_RECORDS, e->counts_bytes);
    e->counts = status == SW_OK ? block : NULL;
    return status;
}

static sw_status write_csv(void *context, eval_out *out)
{
    eval_put_csv(out, context);
    return out->status;
}

static sw_status write_json(void *context, eval_out *out)
{
    sw_json json;
    sw_json_growing(&json, SW_HEAP_FILES);
    eval_put_json(&json, context);
    if (json.status == SW_OK)
        eval_put(out, json.bytes, json.used);
    const sw_status status = json.status;
    sw_json_free(&json);
    return status == SW_OK ? out->status : status;
}

static int show(evaluation *e)
{
    const eval_format format = e->opts.format;
    if (format == EVAL_TEXT) {
        eval_print_text(e);
        return cli_finish(CLI_DONE);
    }
    const sw_status status =
        eval_write(e->opts.out, format == EVAL_CSV ? write_csv : write_json, e);
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
}

static int evaluate(evaluation *e)
{
    sw_status status = take_counts(e);
    if (status == SW_OK)
        status = eval_all(e, take, NULL);
    if (status == SW_STOPPED && cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "%s", sw_last_error());
    return status == SW_OK ? show(e) : cli_library_error(status, false);
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

/* ---- cmd predict ------------------------------------------------------------------------- */

/* stepwell predict: predictions of trained parameters for each sample. */

static int predict(evaluation *e)
{
    const sw_status status = eval_write(e->opts.out, predict_write, e);
    if (status == SW_STOPPED && cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "%s", sw_last_error());
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
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
    if (status == CLI_GO)
        status = predict(&e);
    eval_close(&e);
    return status;
}

/* ---- eval opts --------------------------------------------------------------------------- */

/* The command lines of `stepwell eval` and `stepwell predict`. */

static const char *const eval_words[] = {"text", "json", "csv", NULL};
static const char *const predict_words[] = {"text", "json", "csv", "jsonl", "npy", NULL};
static const char *const part_words[] = {"test", "train", NULL};

/* Options of a job that say how parameters change, or what belongs to backward. */
static const char left_out[] =
    "--optimizer --lr --momentum --weight-decay --clip --max-skipped --update "
    "--keep-gradients --accumulate --seed --no-recompute --no-tiles "
    "--no-rebuild --no-strips --no-chunks --checkpoint --checkpoint-pauses";

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
    "parameters, "
    "normalise, batch (that runs), batch_asked (where there are fewer samples), samples, "
    "threads, loss; accuracy, macro_precision, macro_recall, "
    "macro_f1, classes (class, name, support, predicted, right, precision, recall, f1) and "
    "confusion (a row for each label, a column for each prediction) where classes are learned, "
    "perplexity and bits_per_token of sequences, rmse of numbers; predicted and measured, for "
    "each phase its peak_bytes and end_bytes, measured_by, predicted_peak_bytes, "
    "measured_peak_bytes, model_bytes, arena_bytes, data_bytes, checkpoint_bytes, total_bytes, "
    "lower_bound_bytes, program_host_bytes, launches, rebuilt_ops, rebuilt, recompute, "
    "allocations_after_warmup, wall_ns, device_memory, programs.\n"
    "With --format csv there is a line for each class, with its row of the confusion after "
    "it; "
    "of sequences and numbers there is one line.";

static const char predict_notes[] =
    "Rows are numbered from 0 in the order of the data. A row has its label, the class with "
    "the "
    "largest probability, and the probabilities; of numbers its predictions. text shows the "
    "likeliest class alone. jsonl is an object for each row; npy is an array (rows, classes) "
    "of "
    "32-bit floats. Where --format is not given the ending of --out decides.\n"
    "The data may have no labels: a table of as many columns as the parameters were trained "
    "on (with --data the training's table, also --test-data without its label column), a "
    "folder "
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
         "number of ids (gpt: as the file says, else as the data have)"}};
    const int n = job_options_but(&o->job, table, left_out, true, help, 4);
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
         "parameters that train --save-params wrote, or a checkpoint; must be given", 0, 0,
         NULL},
        {"--part", "WORD", CLI_WORD, &o->part, "test", "of the data: test or train", 0, 0,
         part_words},
        {"--format", "NAME", CLI_WORD, &o->word, NULL,
         predicts ? "text (default), json, csv, jsonl or npy" : "text (default), json or csv",
         0, 0, predicts ? predict_words : eval_words},
        {"--out", "FILE", CLI_WORD, &o->out, NULL,
         predicts ? "write the rows into a file (default standard output)"
                  : "file for json or csv (default standard output)",
         0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o->json, NULL, "the same as --format json", 0, 0, NULL},
        {"--quiet", NULL, CLI_FLAG, &o->quiet, NULL, "no progress", 0, 0, NULL},
    };
    memcpy(table, own, sizeof own);
    const int n = (int)(sizeof own / sizeof *own);
    snprintf(notes, sizeof notes, "%s%s", both_notes, predicts ? predict_notes : eval_notes);
    const cli_command command =
        SW_INIT(.name = predicts ? "predict" : "eval", .usage = "--load-params FILE [options]",
                .about =
                    predicts
                        ? "Predict each sample with trained parameters."
                        : "Say how good trained parameters are: loss, accuracy, confusion, "
                          "and a score for each class.",
                .options = table, .n_options = n + job_table(o, table + n), .notes = notes);
    return cli_parse(&command, argc, argv);
}

/* ---- what the parser cannot see ---------------------------------------------------------- */

static eval_format by_word(const char *word)
{
    int i = 0;
    while (predict_words[i] != NULL && strcmp(word, predict_words[i]) != 0)
        i++;
    return (eval_format)i;
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
    o->format =
        o->json ? EVAL_JSON : by_word(o->word != NULL ? o->word : by_ending(o, predicts));
    if (o->out != NULL && !predicts && o->format == EVAL_TEXT)
        return cli_error(CLI_USAGE, "--out has no effect with --format text: use a "
                                    "redirection, or name a file that ends in .json or .csv");
    if (o->out == NULL && o->format == EVAL_NPY && cli_terminal(stdout))
        return cli_error(CLI_USAGE, "npy is not text: name a file with --out");
    return CLI_GO;
}

static int check(eval_opts *o, bool predicts)
{
    if (o->load == NULL)
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
    if (status == CLI_GO)
        status = job_take_sequences(&o->job);
    if (status == CLI_GO)
        status = job_check(&o->job);
    e->job.opts = &o->job;
    e->job.batch = o->job.batch.at[0];
    return status;
}
