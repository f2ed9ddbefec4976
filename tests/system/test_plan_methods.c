/* `stepwell plan --method`: backprop, mezo and es side by side. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sw_outcome outcome;

/* The object of a method in the JSON result, up to the next; "" where there is none. */
static const char *method(const char *words, const char *name)
{
    static char text[1 << 14];
    char key[40];
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
    snprintf(key, sizeof key, "{\"method\":\"%s\"", name);
    const char *at = strstr(outcome.out, key);
    const char *end = at != NULL ? strstr(at + 1, "{\"method\":") : NULL;
    if (!SW_CHECK(at != NULL, "%s: no %s in %s", words, name, outcome.out))
        return "";
    snprintf(text, sizeof text, "%.*s", end != NULL ? (int)(end - at) : (int)strlen(at), at);
    return text;
}

static double of(const char *words, const char *name, const char *key)
{
    return program_number(method(words, name), key);
}

#define SMALL "plan --json --model mlp --hidden 20 --synthetic-n 200 "

static void backprop_is_the_plan_of_today(void)
{
    static const char *const keys[] = {"predicted_peak_bytes", "model_bytes", "arena_bytes",
                                       "data_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double side =
            of(SMALL "--batch 50 --method backprop,mezo,es", "backprop", keys[i]);
        program_run(&outcome, SMALL "--batch 50", NULL);
        CU_ASSERT_EQUAL(program_number(outcome.out, keys[i]), side);
        const double two = program_number(outcome.out, keys[i]);
        program_run(&outcome, SMALL "--batch 50 --method backprop", NULL);
        CU_ASSERT_EQUAL(program_number(outcome.out, keys[i]), two);
    }
}

/* Inference with a model that has parameters alone: that of sgd. */
static void mezo_is_inference(void)
{
    const double peak = of(SMALL "--batch 50 --method mezo", "mezo", "predicted_peak_bytes");
    const double arena = of(SMALL "--batch 50 --method mezo", "mezo", "arena_bytes");
    program_run(&outcome, SMALL "--batch 50 --synthetic-n 250 --optimizer sgd", NULL);
    const char *eval = strstr(outcome.out, "\"name\":\"eval\"");
    CU_ASSERT_FATAL(eval != NULL);
    CU_ASSERT_EQUAL(program_number(eval, "arena_bytes"), arena);
    CU_ASSERT(program_number(eval, "predicted_peak_bytes") >= peak);
    const double model = of(SMALL "--batch 50 --method mezo,es", "mezo", "model_bytes");
    CU_ASSERT(of(SMALL "--batch 50 --method mezo,es", "es", "model_bytes") > 2.0 * model);
    program_run(&outcome,
                "train --json --quiet --model mlp --hidden 20 --synthetic-n 200 --batch 50 "
                "--steps 2 --method mezo",
                NULL);
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    CU_ASSERT_EQUAL(program_number(outcome.out, "measured_peak_bytes"), peak);
}

/* A run takes the planned bytes; memory goes by the slice alone. */
static void es_is_what_a_run_takes(void)
{
    static const char *const keys[] = {"predicted_peak_bytes", "model_bytes", "arena_bytes",
                                       "data_bytes",           "es_bytes",    "total_bytes"};
    static const char same[] = SMALL "--method es --slice 8 --batch 24 --population ";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double planned =
            of(SMALL "--method es --slice 8 --batch 24 --population 16", "es", keys[i]);
        program_run(&outcome,
                    "es --json --quiet --model mlp --hidden 20 --synthetic-n 200 --population "
                    "16 --slice 8 --samples 3 --generations 1 --strategy nes",
                    NULL);
        SW_CHECK(outcome.status == 0 && program_number(outcome.out, keys[i]) == planned,
                 "%s: %.0f planned, %.0f of the run: %s", keys[i], planned,
                 program_number(outcome.out, keys[i]), outcome.err);
    }
    char words[200];
    double peak[2], fitness[2];
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "%s%d", same, i == 0 ? 1 << 10 : 1 << 20);
        peak[i] = of(words, "es", "predicted_peak_bytes");
        fitness[i] = of(words, "es", "es_bytes");
    }
    CU_ASSERT_EQUAL(peak[0], peak[1]);
    CU_ASSERT_EQUAL(fitness[1], 1024.0 * fitness[0]);
    CU_ASSERT(fitness[0] <= 12.0 * 1024.0);
}

/* The largest batch fits, and the next one of each method does not. */
static void the_largest_batch_of_each(void)
{
    static const char *const names[] = {"backprop", "mezo", "es"};
    const char *slices[] = {"", "--slice 8 "};
    double largest[3] = {0};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 3; i++) {
            char words[200];
            snprintf(words, sizeof words, SMALL "%s--method backprop,mezo,es --fit 400KiB",
                     slices[s]);
            const char *row = method(words, names[i]);
            const char *fit = strstr(row, "\"fit\":"),
                       *next = fit != NULL ? strstr(fit, "\"next\"") : NULL;
            CU_ASSERT_FATAL(fit != NULL && next != NULL);
            largest[i] = program_number(row, "largest_batch");
            CU_ASSERT_EQUAL(program_number(row, "batch"), largest[i]);
            CU_ASSERT_EQUAL(program_number(row, "total_bytes"),
                            program_number(fit, "job_total_bytes"));
            CU_ASSERT(program_number(fit, "job_total_bytes") <= 409600.0);
            const double unit = i < 2 ? 1.0 : s == 0 ? 2.0 : 8.0;
            CU_ASSERT_EQUAL(program_number(next, "batch"), largest[i] + unit);
            CU_ASSERT(program_number(next, "job_total_bytes") > 409600.0);
        }
    CU_ASSERT(largest[1] > largest[0]);
}

static void what_does_not_fit_is_a_row(void)
{
    program_run(&outcome, SMALL "--batch 50 --method backprop,mezo --memory-budget 358000",
                NULL);
    SW_CHECK(outcome.status == 0 &&
                 strstr(outcome.out, "\"method\":\"backprop\",\"fits\":false") != NULL &&
                 strstr(outcome.out, "\"method\":\"mezo\",\"fits\":true") != NULL,
             "status %d: %s %s", outcome.status, outcome.out, outcome.err);
    program_run(&outcome, SMALL "--batch 50 --method backprop,mezo --memory-budget 30KiB",
                NULL);
    CU_ASSERT_EQUAL(outcome.status, 4);
    CU_ASSERT_EQUAL(outcome.out[0], '\0');
}

static void the_table_is_80_columns_wide(void)
{
    program_run(&outcome, "plan --model lenet5 --method backprop,mezo,es --fit 64MiB", NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    for (const char *line = outcome.out; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        SW_CHECK(n <= 80, "%zu columns: %.*s", n, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void what_means_nothing_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"plan --method sgd", "backprop, mezo or es"},
        {"plan --method mezo,", "backprop, mezo or es"},
        {"plan --method mezo,es,mezo", "twice"},
        {"plan --slice 4", "--slice has no effect without --method es"},
        {"plan --method mezo --population 4", "--population has no effect"},
        {"plan --method es --slice 8 --population 4", "--slice must be at most --population 4"},
        {"plan --method es --slice 3", "--slice must be even"},
        {"plan --method es --batch 7", "--batch must be a multiple of 2"},
        {"plan --method es --slice 8 --batch 12", "--batch must be a multiple of 8"},
        {"plan --method es --population 8 --batch 12",
         "--batch must be at most --population 8"},
        {"plan --method es --svg x.svg", "--svg"},
        {"plan --method mezo --batch 1,2", "--batch with several numbers"},
        {"plan --method mezo --immediate", "--immediate"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        program_run(&outcome, bad[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, bad[i].says) != NULL,
                 "%s: status %d: %s", bad[i].words, outcome.status, outcome.err);
    }
}

static const sw_test tests[] = {
    {"backprop is the plan without the option", backprop_is_the_plan_of_today},
    {"mezo is inference", mezo_is_inference},
    {"es is what a run takes", es_is_what_a_run_takes},
    {"the largest batch of each", the_largest_batch_of_each},
    {"what does not fit is a row", what_does_not_fit_is_a_row},
    {"the table is 80 columns wide", the_table_is_80_columns_wide},
    {"what means nothing is refused", what_means_nothing_is_refused},
};
SW_SUITE("plan methods", tests)
