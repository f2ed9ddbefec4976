/* The command lines of `stepwell eval` and `stepwell predict`. */
#include "tools/eval/eval.h"
#include "tools/report/file_same.h"
#include "tools/train/train.h"
#include <string.h>

static const char *const eval_words[] = {"text", "json", "csv", NULL};
static const char *const predict_words[] = {"text", "json", "csv", "jsonl", "npy", NULL};
static const char *const part_words[] = {"test", "train", NULL};

/* Options of a job that say how parameters change, or what belongs to backward. */
static const char *const left_out[] = {"--optimizer",
                                       "--lr",
                                       "--momentum",
                                       "--weight-decay",
                                       "--clip",
                                       "--max-skipped",
                                       "--update",
                                       "--keep-gradients",
                                       "--accumulate",
                                       "--seed",
                                       "--no-recompute",
                                       "--no-tiles",
                                       "--no-rebuild",
                                       "--no-strips",
                                       "--no-chunks",
                                       "--checkpoint",
                                       "--checkpoint-pauses"};

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

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(left_out[i], name) == 0)
            return true;
    return false;
}

static int job_table(eval_opts *o, cli_option *table)
{
    const int all = job_options(&o->job, table, 0, true);
    int n = 0;
    for (int i = 0; i < all; i++)
        if (!is_left_out(table[i].name)) {
            table[n] = table[i];
            if (table[n].to == (void *)&o->job.batch)
                table[n].help = "samples of a run";
            if (table[n].to == (void *)&o->job.budget_bytes)
                table[n].help = "hard limit for model, arena and data together (default none)";
            if (table[n].to == (void *)&o->job.settings.context)
                table[n].help =
                    "positions that attention sees (gpt: as the file says, else 128)";
            if (table[n].to == (void *)&o->job.settings.vocabulary)
                table[n].help = "number of ids (gpt: as the file says, else as the data have)";
            n++;
        }
    o->job.accumulate = 1;
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
    const cli_command command = {
        .name = predicts ? "predict" : "eval",
        .usage = "--load-params FILE [options]",
        .about = predicts ? "Predict each sample with trained parameters."
                          : "Say how good trained parameters are: loss, accuracy, confusion, "
                            "and a score for each class.",
        .options = table,
        .n_options = n + job_table(o, table + n),
        .notes = notes,
    };
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
        return cli_error(CLI_USAGE,
                         "--out has no effect with --format text: use a redirection, or name a "
                         "file that ends in .json or .csv");
    if (o->out == NULL && o->format == EVAL_NPY && cli_terminal(stdout))
        return cli_error(CLI_USAGE, "npy is not text: name a file with --out");
    return CLI_GO;
}

static int check(eval_opts *o, bool predicts)
{
    if (o->load == NULL)
        return cli_error(CLI_USAGE, "--load-params FILE must be given: a file that train "
                                    "--save-params FILE or train --checkpoint FILE wrote");
    const int status = check_format(o, predicts);
    if (status != CLI_GO)
        return status;
    if (file_same(o->out, o->load))
        return cli_error(CLI_USAGE, "--out %s, a file that is read", o->out);
    const int data = train_check_data("--out", o->out, &o->job);
    return data == CLI_GO ? train_check_file("--out", o->out, true) : data;
}

int eval_parse(evaluation *e, int argc, char **argv, bool predicts)
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
