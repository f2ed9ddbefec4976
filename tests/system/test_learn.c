/* Metrics of `stepwell train`, and the page of the Swish experiment. The loop is in
 * transcripts/learn.txt. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("learning")

#define MLP "--model mlp --hidden 16 --synthetic-n 150 "

static sw_outcome outcome;

static double number(const char *key)
{
    return program_number(outcome.out, key);
}

/* Run what is to work; the JSON is in outcome.out. */
static void run(const char *words)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
}

/* ---- metrics ----------------------------------------------------------------------------- */

typedef struct {
    int trains, validations, epochs;
    double epoch_sum, rights; /* of the steps of an epoch; all have as many samples */
    double last_loss, loss_sum, last_rate, first_rate;
} lines;

static lines read_csv(const char *path)
{
    lines found = {0};
    size_t n;
    char *text = (char *)file_read(path, &n), *next = NULL;
    CU_ASSERT_FATAL(text != NULL && n > 0 && text[n - 1] == '\n');
    char *line = strtok_r(text, "\n", &next);
    CU_ASSERT_STRING_EQUAL(line, "kind,step,epoch,loss,accuracy,rate,ms");
    while ((line = strtok_r(NULL, "\n", &next)) != NULL) {
        char kind[20];
        long long step, epoch;
        double loss, accuracy, rate = 0.0, ms;
        if (sscanf(line, "%19[a-z],%lld,%lld,%lf,%lf,%lf,%lf", kind, &step, &epoch, &loss,
                   &accuracy, &rate, &ms) == 7) {
            found.first_rate = found.trains++ == 0 ? rate : found.first_rate;
            SW_CHECK(step == found.trains && ms > 0, "%s", line);
            found.last_loss = loss;
            found.last_rate = rate;
            found.epoch_sum += loss;
            found.rights += accuracy;
        } else if (strncmp(line, "epoch,", 6) == 0) {
            SW_CHECK(sscanf(line, "epoch,%lld,%lld,%lf,%lf,,", &step, &epoch, &loss,
                            &accuracy) == 4 &&
                         step == found.trains && line[strlen(line) - 1] == ',',
                     "%s", line);
            SW_CHECK(fabs(loss - found.epoch_sum / 3) < 1e-7 &&
                         fabs(accuracy - found.rights / 3) < 1e-7,
                     "%s: %g, %g", line, found.epoch_sum / 3, found.rights / 3);
            found.epoch_sum = found.rights = 0.0;
            found.epochs++;
        } else {
            SW_CHECK(sscanf(line, "validation,%lld,%lld,%lf,%lf,,%lf", &step, &epoch, &loss,
                            &accuracy, &ms) == 5 &&
                         step == found.trains,
                     "%s", line);
            found.validations++;
        }
        SW_CHECK(epoch == (found.trains + 2) / 3 && accuracy >= 0 && accuracy <= 1, "%s", line);
        found.loss_sum += loss;
    }
    free(text);
    return found;
}

/* Both formats have a line for each step and each validation, with the same numbers, and cost
 * no bit of the parameters. */
SW_TEST("metrics have each step and each validation")
{
    const char *csv = sw_textf("%s.csv", sw_temp_path("metrics"));
    const char *json = sw_textf("%s.jsonl", sw_temp_path("metrics"));
    const uint64_t plain = program_train(&outcome, MLP "--epochs 4 --batch 50");
    CU_ASSERT_EQUAL(
        program_train(
            &outcome,
            sw_textf(MLP "--epochs 4 --batch 50 --validate-every 2 --metrics %s", csv)),
        plain);
    const lines found = read_csv(csv);
    CU_ASSERT_EQUAL(found.trains, 12);
    CU_ASSERT_EQUAL(found.validations, 8); /* after 2 3 4 6 8 9 10 12 */
    CU_ASSERT_EQUAL(found.epochs, 4);
    CU_ASSERT_EQUAL(number("validations"), 8);
    CU_ASSERT(fabs(found.last_loss - number("final_loss")) < 1e-6);
    CU_ASSERT(fabs(found.first_rate - 0.005) < 1e-8 && found.last_rate < 1e-3);
    CU_ASSERT_EQUAL(
        program_train(
            &outcome,
            sw_textf(MLP "--epochs 4 --batch 50 --validate-every 2 --metrics %s", json)),
        plain);
    size_t n;
    double sum = 0.0;
    int count = 0;
    char *text = (char *)file_read(json, &n), *next = NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (char *line = strtok_r(text, "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next), count++) {
        sum += program_number(line, "loss");
        const bool step = strstr(line, "\"kind\":\"train\"") != NULL;
        const bool epoch = strstr(line, "\"kind\":\"epoch\"") != NULL;
        SW_CHECK(isnan(program_number(line, "rate")) == !step &&
                     (program_number(line, "ms") > 0) == !epoch &&
                     line[strlen(line) - 1] == '}',
                 "%s", line);
    }
    free(text);
    CU_ASSERT_EQUAL(count, 24);
    SW_CHECK(fabs(sum - found.loss_sum) < 1e-5, "%g in CSV, %g in JSON", found.loss_sum, sum);
}

/* ---- the Swish experiment ---------------------------------------------------------------- */

/* The page has the peaks that plan says. */
SW_TEST("the Swish page has the planned peaks")
{
    size_t n;
    if (sw_shell("python3 -c pass") != 0)
        SW_SKIP("no python3");
    const char *page = sw_temp_path("swish");
    CU_ASSERT_EQUAL(sw_shell("python3 '%s/tools/bench/swish.py' '%s' --batches 16,256 --width "
                             "192 --layers 3 --rounds 2 --python false --out '%s'",
                             sw_source_root(), program_path(), page),
                    0);
    char *text = (char *)file_read(page, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    static const struct {
        const char *name, *words;
    } rows[] = {{"naive", "--activation swish-naive --update after --no-rebuild"},
                {"released", ""},
                {"kept", "--activation swish-naive --keep-gradients --no-rebuild"}};
    char *second = strstr(text, "## Batch 256");
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[300];
        snprintf(words, sizeof words,
                 "plan --json --model swishnet --width 192 --layers 3 --batch 256 "
                 "--synthetic-n 256 --threads 2 %s",
                 rows[i].words);
        run(words);
        const char *row = sw_textf("| stepwell, %s | %.1f |", rows[i].name,
                                   number("predicted_peak_bytes") / 1048576.0);
        SW_CHECK(strstr(second, row) != NULL, "no '%s' in %s", row, text);
    }
    CU_ASSERT(strstr(text, "| stepwell, kept | 1 |") != NULL);
    CU_ASSERT(strstr(text, "PyTorch was not installed") != NULL);
    free(text);
}
