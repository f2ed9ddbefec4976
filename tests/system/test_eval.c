/* stepwell predict: the confusion of eval is that of its rows, and formats have the same
 * numbers. The rest is transcripts/eval.txt. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"

SW_TESTS("predictions")

#define NET "--model mlp --hidden 24 --synthetic-n 600 "
#define SAMPLES 120 /* a fifth */
enum { CLASSES = 10 };

static sw_outcome outcome;

static void run(const char *format, const char *a, const char *b)
{
    program_run(&outcome, sw_textf(format, a, b), NULL);
}

static void worked(const char *what)
{
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", what, outcome.status, outcome.err);
}

/* The parameters of a short training by `words`; its result stays in `outcome`. */
static const char *trained(const char *words)
{
    const char *path = sw_temp_path("eval.safetensors");
    run("train %s --json --quiet --save-params %s", words, path);
    worked(words);
    return path;
}

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

SW_TEST("confusion is that of the rows")
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
SW_TEST("formats have the same numbers")
{
    size_t n;
    const char *path = trained(NET "--steps 3 --batch 50");
    run("predict --load-params %s %s", path,
        sw_textf("%s --quiet --out %s", NET, sw_temp_path("rows.npy")));
    worked("npy");
    const char *npy = whole(sw_temp_path("rows.npy"), &n);
    CU_ASSERT_EQUAL_FATAL(n, 128 + SAMPLES * CLASSES * 4);
    CU_ASSERT_EQUAL(memcmp(npy, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', ", 26), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(npy + 10, "'shape': (120, 10), }"));
    CU_ASSERT_EQUAL(npy[127], '\n');
    static const char *const words[] = {"csv", "json", "jsonl"};
    for (int i = 0; i < 3; i++) {
        const char *options =
            sw_textf(NET "--quiet --threads 2 --batch 33 --format %s", words[i]);
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
