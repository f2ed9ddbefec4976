/* stepwell eval and predict: they say what train said, to the bit, however they run; the
 * confusion of the one is that of the other's rows; what cannot be is refused, and nothing is
 * half written. */
#include "alloc/base/sys.h"
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NET "--model mlp --hidden 24 --synthetic-n 600 "
#define SAMPLES 120 /* a fifth */
enum { CLASSES = 10 };

static sw_outcome outcome;

static void run(const char *format, const char *a, const char *b)
{
    char words[4000];
    snprintf(words, sizeof words, format, a, b);
    program_run(&outcome, words, NULL);
}

static void worked(const char *what)
{
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", what, outcome.status, outcome.err);
}

/* The parameters of a short training by `words`; its result stays in `outcome`. */
static const char *trained(const char *words)
{
    const char *path = path_of("eval.safetensors");
    run("train %s --json --quiet --save-params %s", words, path);
    worked(words);
    return path;
}

static const char *checkpoint(void)
{
    const char *path = path_of("eval.checkpoint");
    for (int i = 0; i < 3; i++) {
        char name[1100];
        sw_generation_name(name, sizeof name, path, i);
        (void)unlink(name);
    }
    run("train " NET "--steps 3 --batch 50 --json --quiet --checkpoint %s%s", path, "");
    worked("a checkpoint");
    return path;
}

static void eval_says_what_train_said(void)
{
    static const char *const ways[] = {"", "--threads 2", "--immediate", "--isa base",
                                       "--memory-budget 2MiB"};
    const char *path = trained(NET "--epochs 2 --batch 50");
    const double loss = program_number(outcome.out, "validation_loss");
    const double accuracy = program_number(outcome.out, "test_accuracy");
    CU_ASSERT(loss > 0.0 && accuracy > 0.0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[200];
        snprintf(words, sizeof words, NET "--batch 50 --json --quiet %s", ways[i]);
        run("eval --load-params %s %s", path, words);
        worked(words);
        SW_CHECK(strcmp(ways[i], "--isa base") == 0
                     ? fabs(program_number(outcome.out, "loss") - loss) < 1e-5
                     : program_number(outcome.out, "loss") == loss,
                 "%s: %.17g, and train said %.17g", words, program_number(outcome.out, "loss"),
                 loss);
        SW_CHECK(program_number(outcome.out, "accuracy") == accuracy, "%s", words);
        CU_ASSERT_EQUAL(program_number(outcome.out, "samples"), SAMPLES);
        CU_ASSERT_EQUAL(program_number(outcome.out, "predicted_peak_bytes"),
                        program_number(outcome.out, "measured_peak_bytes"));
        CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 1);
        CU_ASSERT_STRING_EQUAL(outcome.err, "");
    }
    CU_ASSERT_EQUAL(program_number(outcome.out, "allocations_after_warmup"), 0.0);
}

/* Its program has neither gradients nor the state of an optimizer. */
static void eval_needs_less_than_training(void)
{
    const char *path = trained(NET "--epochs 1 --batch 50");
    const double model = program_number(outcome.out, "model_bytes");
    const double total = program_number(outcome.out, "total_bytes");
    run("eval --load-params %s %s", path, NET "--batch 50 --json --quiet");
    SW_CHECK(program_number(outcome.out, "model_bytes") < model / 2.5, "%g of %g",
             program_number(outcome.out, "model_bytes"), model);
    SW_CHECK(program_number(outcome.out, "total_bytes") < 0.6 * total, "%g of %g",
             program_number(outcome.out, "total_bytes"), total);
}

static void a_checkpoint_is_read_too(void)
{
    if (!SW_HAVE_XXHASH)
        SW_SKIP("built without libxxhash");
    const char *path = checkpoint();
    const double loss = program_number(outcome.out, "validation_loss");
    run("eval --load-params %s %s", path, NET "--batch 50 --json --quiet");
    worked("eval of a checkpoint");
    CU_ASSERT_EQUAL(program_number(outcome.out, "loss"), loss);
}

/* ---- rows -------------------------------------------------------------------------------- */

/* Of CSV: the counts of what predict says, and how far probabilities are from adding up to 1.
 */
static void count_rows(const char *csv, double *counts, double *off, int *rows)
{
    *off = 0.0;
    *rows = 0;
    for (const char *line = strchr(csv, '\n'); line != NULL && line[1] != '\0';
         line = strchr(line + 1, '\n')) {
        char *at;
        double sum = 0.0, most = -1.0;
        long likeliest = -1;
        const long row = strtol(line + 1, &at, 10);
        const long label = strtol(at + 1, &at, 10), predicted = strtol(at + 1, &at, 10);
        for (long k = 0; k < CLASSES && *at == ','; k++) {
            const double p = strtod(at + 1, &at);
            sum += p;
            likeliest = p > most ? k : likeliest;
            most = p > most ? p : most;
        }
        SW_CHECK(row == *rows && *at == '\n' && likeliest == predicted, "row %d: %.60s", *rows,
                 line + 1);
        *off = fmax(*off, fabs(sum - 1.0));
        counts[label * CLASSES + predicted]++;
        ++*rows;
    }
}

static void confusion_is_that_of_the_rows(void)
{
    double counts[CLASSES * CLASSES] = {0}, off;
    int rows, mistakes = 0;
    const char *path = trained(NET "--steps 6 --batch 50");
    run("predict --load-params %s %s", path, NET "--batch 50 --quiet --format csv");
    worked("predict");
    count_rows(outcome.out, counts, &off, &rows);
    CU_ASSERT_EQUAL(rows, SAMPLES);
    SW_CHECK(off < 1e-5, "probabilities are %g off", off);
    run("eval --load-params %s %s", path, NET "--batch 50 --json --quiet");
    json_t *result = json_loads(outcome.out);
    CU_ASSERT_PTR_NOT_NULL_FATAL(result);
    const json_t *confusion = json_object_get(result, "confusion"),
                 *classes = json_object_get(result, "classes");
    for (int label = 0; label < CLASSES; label++) {
        double support = 0.0, predicted = 0.0;
        for (int k = 0; k < CLASSES; k++) {
            const double n = counts[label * CLASSES + k];
            SW_CHECK(json_number_value(json_array_get(json_array_get(confusion, label), k)) ==
                         n,
                     "%d as %d", label, k);
            support += n;
            predicted += counts[k * CLASSES + label];
            mistakes += k != label && n > 0.0;
        }
        const double right = counts[label * CLASSES + label];
        const json_t *class = json_array_get(classes, label);
        CU_ASSERT_EQUAL(json_number_value(json_object_get(class, "support")), support);
        CU_ASSERT_EQUAL(json_number_value(json_object_get(class, "predicted")), predicted);
        CU_ASSERT_EQUAL(json_number_value(json_object_get(class, "right")), right);
        if (support + predicted > 0.0)
            CU_ASSERT(fabs(json_number_value(json_object_get(class, "f1")) -
                           2.0 * right / (support + predicted)) < 1e-12);
    }
    CU_ASSERT(mistakes > 0); /* or the comparison says little */
    json_decref(result);
}

static char *whole(const char *path, size_t *n)
{
    char *bytes = (char *)file_read(path, n);
    SW_CHECK(bytes != NULL, "%s is not there", path);
    sw_after(free, bytes);
    return bytes;
}

/* The numbers of every format are those of the array. */
static void formats_have_the_same_numbers(void)
{
    char file[1100];
    size_t n;
    const char *path = trained(NET "--steps 3 --batch 50");
    snprintf(file, sizeof file, "%s --quiet --out %s", NET, path_of("rows.npy"));
    run("predict --load-params %s %s", path, file);
    worked("npy");
    const char *npy = whole(path_of("rows.npy"), &n);
    CU_ASSERT_EQUAL_FATAL(n, 128 + SAMPLES * CLASSES * 4);
    CU_ASSERT_EQUAL(memcmp(npy, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', ", 26), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(npy + 10, "'shape': (120, 10), }"));
    CU_ASSERT_EQUAL(npy[127], '\n');
    static const char *const words[] = {"csv", "json", "jsonl"};
    for (int i = 0; i < 3; i++) {
        char options[300];
        snprintf(options, sizeof options, NET "--quiet --threads 2 --batch 33 --format %s",
                 words[i]);
        run("predict --load-params %s %s", path, options);
        worked(options);
        const char *at = i == 0 ? strchr(outcome.out, '\n') : outcome.out;
        for (int row = 0; row < SAMPLES; row++) {
            if (i == 0) { /* row, label, predicted */
                at++;
                for (int k = 0; k < 3; k++)
                    at = strchr(at, ',') + 1;
            } else {
                at = strstr(at, "\"probabilities\":[");
                CU_ASSERT_PTR_NOT_NULL_FATAL(at);
                at += strlen("\"probabilities\":[");
            }
            for (int k = 0; k < CLASSES; k++) {
                char *end;
                float there;
                memcpy(&there, npy + 128 + (row * CLASSES + k) * 4, sizeof there);
                SW_CHECK(strtof(at, &end) == there, "%s: row %d, class %d", words[i], row, k);
                at = k + 1 < CLASSES ? end + 1 : end;
            }
        }
    }
}

static void classes_have_their_names(void)
{
    static const char lines[] =
        "size,kind\n1,\"a,b\"\n2,c\n1.1,\"a,b\"\n2.1,c\n0.9,\"a,b\"\n2.2,c\n"
        "1,\"a,b\"\n2,c\n1.2,\"a,b\"\n1.9,c\n";
    char words[1300];
    const char *data = path_of("named.csv");
    CU_ASSERT(file_write(data, lines, strlen(lines)));
    snprintf(words, sizeof words,
             "--model mlp --hidden 8 --data csv:%s --test-share 0.5 --batch 5", data);
    const char *path = trained(words);
    run("eval --load-params %s --quiet --format csv %s", path, words);
    worked("eval");
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\n0,\"a,b\","));
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\n1,c,"));
    run("eval --load-params %s --quiet %s", path, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\na,b  "));
    run("predict --load-params %s --quiet --format csv %s", path, words);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(outcome.out, "row,label,predicted,label_name,predicted_name,p0,p1\n"));
    run("predict --load-params %s --quiet --json %s", path, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"class_names\":[\"a,b\",\"c\"]"));
}

/* A file of parameters cannot hold names that are not UTF-8: it is written without them,
 * whichever way it is written, and a training is not lost by a table in Latin-1. */
static void classes_in_latin_1_are_trained_and_saved(void)
{
    static const char lines[] = "1,caf\xe9\n2,c\n1.1,caf\xe9\n2.1,c\n0.9,caf\xe9\n2.2,c\n"
                                "1,caf\xe9\n2,c\n1.2,caf\xe9\n1.9,c\n";
    static const char *const ways[][2] = {
        {"--save-best", ""}, {"--checkpoint", ".checkpoint"}, {"--save-params", ""}};
    char words[1300], more[1200];
    const char *data = path_of("latin1.csv"), *path = path_of("latin1.safetensors");
    CU_ASSERT(file_write(data, lines, strlen(lines)));
    snprintf(words, sizeof words, "--model mlp --hidden 8 --data csv:%s --batch 5", data);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!SW_HAVE_XXHASH && strcmp(ways[i][0], "--checkpoint") == 0)
            continue;
        snprintf(more, sizeof more, "%s %s%s", ways[i][0], path, ways[i][1]);
        run("train --quiet --steps 2 %s %s", words, more);
        worked(more);
    }
    run("eval --load-params %s --quiet --format csv %s", path, words);
    worked("eval");
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\n1,caf"));
    run("info %s%s", path, "");
    worked("info");
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "targets: classes 2\n"));
}

static void the_other_part_is_asked_for(void)
{
    const char *path = trained(NET "--steps 3");
    run("eval --load-params %s --part train --json --quiet %s", path, NET);
    worked("eval of the training part");
    CU_ASSERT_EQUAL(program_number(outcome.out, "samples"), 600);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"part\":\"train\""));
}

/* ---- without labels -----------------------------------------------------------------------
 */

static const char table[] =
    "w,h,kind\n1,5,cat\n2,4,dog\n1.1,5.2,cat\n2.1,3.9,dog\n0.9,5,cat\n2.2,4,"
    "dog\n1,5.1,cat\n2,4.1,dog\n1.2,5,cat\n1.9,4,dog\n";

/* Rows of the same samples are the same, whether they have labels or not. */
static void labels_may_be_missing(void)
{
    char words[1300], with[4096], *from = with;
    const char *data = path_of("labels.csv");
    CU_ASSERT(file_write(data, table, strlen(table)));
    snprintf(words, sizeof words, "--model mlp --hidden 8 --batch 4 --data csv:%s", data);
    const char *path = trained(words);
    static const char new[] =
        "w,h\n1,5\n2,4\n1.1,5.2\n2.1,3.9\n0.9,5\n2.2,4\n1,5.1\n2,4.1\n1.2,5\n1.9,4\n";
    const char *file = path_of("new.csv");
    CU_ASSERT(file_write(file, new, strlen(new)));
    snprintf(words, sizeof words,
             "--model mlp --hidden 8 --batch 4 --data csv:%s --test-data csv:%s", data, data);
    run("predict --load-params %s --quiet --format csv %s", path, words);
    worked("with labels");
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 11);
    CU_ASSERT_FATAL(strlen(outcome.out) < sizeof with);
    memcpy(with, outcome.out, strlen(outcome.out) + 1);
    snprintf(words, sizeof words, "--model mlp --hidden 8 --batch 4 --data csv:%s", file);
    run("predict --load-params %s --quiet --format csv %s", path, words);
    worked("without labels");
    CU_ASSERT_EQUAL(strncmp(outcome.out, "row,predicted,predicted_name,p0,p1\n0,0,cat,", 43),
                    0);
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 11);
    from = strchr(from, '\n') + 1;
    for (const char *at = strchr(outcome.out, '\n') + 1; *at != '\0';
         at = strchr(at, '\n') + 1) {
        const char *a = strstr(at, "cat,"), *b = strstr(at, "dog,"), *end = strchr(from, '\n');
        const char *p = a != NULL && (b == NULL || a < b) ? a : b; /* name and probabilities */
        const size_t n = (size_t)(strchr(at, '\n') - p);
        SW_CHECK(strncmp(end - n, p, n) == 0, "%.40s: %.60s", at, from);
        from = strchr(from, '\n') + 1;
    }
    run("predict --load-params %s --quiet %s", path, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "row  predicted         probability\n"));
    run("predict --load-params %s --quiet --json %s", path, words);
    CU_ASSERT_PTR_NULL(strstr(outcome.out, "label"));
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"class_names\":[\"cat\",\"dog\"]"));
    snprintf(words, sizeof words, "--model mlp --hidden 8 --data csv:%s --test-data csv:%s",
             data, file);
    run("predict --load-params %s --quiet --format jsonl --standardise %s", path, words);
    worked("beside the training's table");
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 10);
    run("predict --load-params %s --quiet --part train %s", path, words + 0);
    worked("the training part");
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "label"));
}

static void labels_that_are_missing_are_refused_where_they_are_needed(void)
{
    char words[1300];
    const char *data = path_of("labels.csv");
    CU_ASSERT(file_write(data, table, strlen(table)));
    snprintf(words, sizeof words, "--model mlp --hidden 8 --batch 4 --data csv:%s", data);
    const char *path = trained(words);
    const char *file = path_of("new.csv");
    CU_ASSERT(file_write(file, "1,5\n2,4\n", 8));
    snprintf(words, sizeof words, "--model mlp --hidden 8 --data csv:%s", file);
    run("predict --load-params %s --quiet --part train %s", path, words);
    SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                 strstr(outcome.err, "no samples for --part train"),
             "%s", outcome.err);
    run("predict --load-params %s --quiet --standardise %s", path, words);
    SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                 strstr(outcome.err, "--standardise needs the data"),
             "%s", outcome.err);
    CU_ASSERT(file_write(file, "1,5,3,7\n2,4,3,8\n", 16));
    run("predict --load-params %s --quiet %s", path, words);
    SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                 strstr(outcome.err,
                        "must have 2 columns, the features, or 3 with the label (got 4)"),
             "%s", outcome.err);
    run("eval --load-params %s --quiet %s", path, words);
    CU_ASSERT(outcome.status != 0);
}

/* ---- sequences and numbers --------------------------------------------------------------- */

static void sequences_have_a_perplexity(void)
{
    char text[4000], words[1300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the well "[i % 9];
    const char *data = path_of("eval.txt");
    CU_ASSERT(file_write(data, text, sizeof text));
    snprintf(
        words, sizeof words,
        "--model gpt --layers 1 --width 16 --heads 2 --context 16 --data text:%s --batch 8",
        data);
    const char *path = trained(words);
    const double loss = program_number(outcome.out, "validation_loss");
    run("eval --load-params %s --json --quiet %s", path, words);
    worked("eval of gpt");
    CU_ASSERT_EQUAL(program_number(outcome.out, "loss"), loss);
    CU_ASSERT(fabs(program_number(outcome.out, "perplexity") - exp(loss)) < 1e-9);
    CU_ASSERT(fabs(program_number(outcome.out, "bits_per_token") - loss / log(2.0)) < 1e-9);
    CU_ASSERT_PTR_NULL(strstr(outcome.out, "accuracy"));
    run("eval --load-params %s --quiet %s", path, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\nperplexity  "));
    run("eval --load-params %s --quiet --format csv %s", path, words);
    CU_ASSERT_EQUAL(strncmp(outcome.out, "samples,loss,perplexity\n", 24), 0);
    run("predict --load-params %s --quiet %s", path, words);
    SW_CHECK(program_failed_cleanly(&outcome, 2) && strstr(outcome.err, "stepwell sample"),
             "%s", outcome.err);
}

static void numbers_have_an_error(void)
{
#define SWISH "--model swishnet --width 8 --layers 1 --synthetic-n 40 --batch 4 "
    const char *path = trained(SWISH "--steps 2");
    const double loss = program_number(outcome.out, "validation_loss");
    run("eval --load-params %s --json --quiet %s", path, SWISH);
    worked("eval of swishnet");
    CU_ASSERT_EQUAL(program_number(outcome.out, "loss"), loss);
    CU_ASSERT(fabs(program_number(outcome.out, "rmse") - sqrt(loss)) < 1e-12);
    run("predict --load-params %s --quiet --format csv %s", path, SWISH);
    CU_ASSERT_EQUAL(strncmp(outcome.out, "row,y0,y1,y2,y3,y4,y5,y6,y7\n0,", 30), 0);
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 1 + 8);
}

/* ---- what cannot be ---------------------------------------------------------------------- */

static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"eval", 2, "--load-params FILE must be given"},
    {"predict", 2, "--load-params FILE must be given"},
    {"eval --load-params nowhere", 3, "there is no such file"},
    {"eval --load-params .", 3, "directory"},
    {"eval --load-params $ --model mlp --hidden 25", 3,
     "'fc1.weight' is F32 (24, 784); model mlp needs F32 (25, 784)"},
    {"eval --load-params $ --model mlp --hidden 24,24", 3,
     "'fc2.weight' is F32 (10, 24); model mlp needs F32 (24, 24)"},
    {"eval --load-params $ --model lenet5", 3,
     "'conv1.weight' is missing; model lenet5 needs F32 (6, 1, 5, 5)"},
    {"eval --load-params $ " NET "--lr 1", 2, "--lr"},
    {"eval --load-params $ " NET "--json --format csv", 2, "two formats"},
    {"eval --load-params $ " NET "--format npy", 2, "npy"},
    {"eval --load-params $ " NET "--out x", 2, "--out has no effect with --format text"},
    {"eval --load-params $ " NET "--out $ --json", 2, "a file that is read"},
    {"predict --load-params $ " NET "--out /no/folder/x.csv", 1, "No such file"},
    {"eval --load-params $ " NET "--part validation", 2, "--part"},
    {"eval --load-params $ " NET "--memory-budget 64KiB", 4, "does not fit"},
    {"eval --load-params $ " NET "--device sim", 5, "sim"},
};

static void what_cannot_be_is_refused(void)
{
    const char *path = trained(NET "--steps 1");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char line[5000];
        size_t used = 0;
        for (const char *at = refused[i].words; *at != '\0'; at++)
            used += (size_t)snprintf(line + used, sizeof line - used,
                                     *at == '$' ? "%s" : "%.1s", *at == '$' ? path : at);
        program_run(&outcome, line, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status), "%s: status %d: %s%s",
                 line, outcome.status, outcome.out, outcome.err);
        SW_CHECK(strstr(outcome.err, refused[i].says) != NULL, "%s: %s", line, outcome.err);
    }
}

/* Cut anywhere, the file is refused by what is wrong with it. */
static void a_cut_file_is_refused(void)
{
    size_t n;
    const char *path = trained(NET "--steps 1");
    const char *bytes = whole(path, &n), *cut = path_of("cut.safetensors");
    const char *data = path_of("unlabelled.csv");
    CU_ASSERT(file_write(data, "w,h\n1,5\n", 8));
    const size_t at[] = {0, 3, 8, 100, n / 2, n - 1};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        CU_ASSERT(file_write(cut, bytes, at[i]));
        run("eval --quiet --load-params %s %s", cut, NET);
        SW_CHECK(program_failed_cleanly(&outcome, 3) && strstr(outcome.err, cut) != NULL,
                 "%zu bytes: status %d: %s", at[i], outcome.status, outcome.err);
        run("predict --quiet --load-params %s --data csv:%s", cut, data);
        SW_CHECK(program_failed_cleanly(&outcome, 3) && strstr(outcome.err, cut) != NULL,
                 "cut at %zu, data without labels: %s", at[i], outcome.err);
    }
}

/* An interrupt leaves the file of --out as it was. */
static void an_interrupt_leaves_no_part_of_a_file(void)
{
    char words[2000];
    const char *path = trained(NET "--steps 1"), *rows = path_of("rows.csv");
    CU_ASSERT(file_write(rows, "old", 3));
    snprintf(words, sizeof words,
             "predict --load-params %s --model mlp --hidden 24 --synthetic-n 100000 --part "
             "train --batch 1 "
             "--out %s",
             path, rows);
    const pid_t pid = program_start("predict", words, NULL);
    (void)usleep(400000);
    CU_ASSERT_EQUAL(kill(pid, SIGINT), 0);
    sw_process_wait(&outcome, pid, "predict", 60);
    SW_CHECK(outcome.status == 130 && strstr(outcome.err, "interrupted") != NULL,
             "status %d: %s", outcome.status, outcome.err);
    size_t n;
    const char *there = whole(rows, &n);
    CU_ASSERT(n == 3 && memcmp(there, "old", 3) == 0);
}

/* Each allocation and file operation fails once: a status and one line, no part of a file. */
static void sweep(const char *command, const char *kind, const char *counted)
{
    char plan[100];
    const char *out = path_of("swept.csv");
    program_run(&outcome, command, "STEPWELL_FAULT=memory:count");
    const char *line = strstr(outcome.err, "fault sites:");
    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    const char *number = strstr(line, counted);
    CU_ASSERT_PTR_NOT_NULL_FATAL(number);
    const long n = strtol(number + strlen(counted), NULL, 10),
               step = sw_tests_full() ? 1 : n / 12 + 1;
    CU_ASSERT(n > 5);
    for (long k = n - 1; k >= 0; k -= step) {
        (void)unlink(out);
        snprintf(plan, sizeof plan, "STEPWELL_FAULT=%s:%ld", kind, k);
        program_run(&outcome, command, plan);
        const bool there = access(out, F_OK) == 0;
        const bool failed =
            outcome.status > 0 && outcome.status != 2 && sw_count_lines(outcome.err) <= 2;
        SW_CHECK(outcome.signal == 0 && (failed || outcome.status == 0) &&
                     (there || outcome.status != 0),
                 "%s: status %d, signal %d, %s: %s", plan, outcome.status, outcome.signal,
                 there ? "the file is there" : "no file", outcome.err);
    }
}

static void failures_are_told(void)
{
    char words[3000];
    const char *path = trained(NET "--steps 1");
    static const char *const commands[] = {"eval", "predict"};
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "%s --load-params %s " NET "--quiet --out %s",
                 commands[i], path, path_of("swept.csv"));
        sweep(words, "memory", "memory ");
        sweep(words, "file", "file ");
    }
}

static const sw_test tests[] = {
    {"eval says what train said", eval_says_what_train_said, false},
    {"eval needs less than training", eval_needs_less_than_training, false},
    {"a checkpoint is read too", a_checkpoint_is_read_too, false},
    {"confusion is that of the rows", confusion_is_that_of_the_rows, false},
    {"formats have the same numbers", formats_have_the_same_numbers, false},
    {"classes have their names", classes_have_their_names, false},
    {"classes in Latin-1 are trained and saved", classes_in_latin_1_are_trained_and_saved,
     false},
    {"the other part is asked for", the_other_part_is_asked_for, false},
    {"labels may be missing", labels_may_be_missing, false},
    {"labels that are missing are refused where they are needed",
     labels_that_are_missing_are_refused_where_they_are_needed, false},
    {"sequences have a perplexity", sequences_have_a_perplexity, false},
    {"numbers have an error", numbers_have_an_error, false},
    {"what cannot be is refused", what_cannot_be_is_refused, false},
    {"a cut file is refused", a_cut_file_is_refused, false},
    {"an interrupt leaves no part of a file", an_interrupt_leaves_no_part_of_a_file, false},
    {"failures are reported", failures_are_told, false},
};
SW_SUITE("eval", tests)
