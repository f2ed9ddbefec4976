/* stepwell plan: a batch that is larger than the data, and the budget that a refusal names. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdlib.h>
#include <string.h>

static sw_outcome outcome;

static double planned(const char *words, const char *name)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
    return program_number(outcome.out, name);
}

/* All samples are one batch: its figures are those of a batch of so many, and both numbers are
 * said. */
static void a_batch_above_the_data_is_all_of_them(void)
{
    static const char *const keys[] = {"batch", "predicted_peak_bytes", "arena_bytes",
                                       "data_bytes", "training_samples"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double few = planned("plan --json --synthetic-n 100 --batch 700", keys[i]);
        const double all = planned("plan --json --synthetic-n 100 --batch 100", keys[i]);
        SW_CHECK(few == all, "%s: %.0f and %.0f", keys[i], few, all);
    }
    CU_ASSERT_PTR_NULL(strstr(outcome.out, "batch_asked"));
    CU_ASSERT_EQUAL(planned("plan --json --synthetic-n 100 --batch 700", "batch_asked"), 700);
    CU_ASSERT_EQUAL(planned("plan --json --synthetic-n 100 --batch 20,700", "batch_asked"),
                    700);
}

/* As text and in JSON, by everything that runs batches. */
static void the_batch_that_runs_is_said_and_what_was_asked(void)
{
    const char *params = path_of("asked.safetensors");
    const struct {
        const char *words;
        int runs, asked;
    } commands[] = {{"plan --synthetic-n 40 --model mlp --hidden 4 --batch 5000", 40, 5000},
                    {"plan --synthetic-n 40 --model mlp --hidden 4 --batch 3,5000", 40, 5000},
                    {"train --quiet --synthetic-n 40 --model mlp --hidden 4 --batch 5000 "
                     "--save-params",
                     40, 5000},
                    {"eval --quiet --synthetic-n 40 --model mlp --hidden 4 --batch 5000 "
                     "--load-params",
                     8, 5000},
                    {"eval --quiet --synthetic-n 40 --model mlp --hidden 4 --batch 5000 --part "
                     "train --load-params",
                     40, 5000},
                    {"pbt --quiet --synthetic-n 40 --model mlp --hidden 4 --batch 5000 "
                     "--members 2 --steps 2 lr=log:1e-3..1e-1",
                     36, 5000}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        for (int json = 0; json < 2; json++) {
            char line[2000], says[100];
            const bool file = strstr(commands[i].words, "-params") != NULL;
            snprintf(line, sizeof line, "%s%s%s%s", commands[i].words, file ? " " : "",
                     file ? params : "", json ? " --json" : "");
            program_run(&outcome, line, NULL);
            snprintf(says, sizeof says,
                     json ? "\"batch\":%d,\"batch_asked\":%d," : "batch %d (%d asked)",
                     commands[i].runs, commands[i].asked);
            SW_CHECK(outcome.status == 0 && strstr(outcome.out, says) != NULL,
                     "%s: no '%s': status %d: %.900s%s", line, says, outcome.status,
                     outcome.out, outcome.err);
        }
}

/* A search is of what the memory takes: its batches may be larger than the data. */
static void a_search_goes_above_the_data_and_says_so(void)
{
    program_run(&outcome, "plan --synthetic-n 100 --fit 64MiB", NULL);
    SW_CHECK(outcome.status == 0 &&
                 strstr(outcome.out, "The data have only 100 samples") != NULL &&
                 strstr(outcome.out, " asked") == NULL,
             "%s", outcome.out);
    program_run(&outcome, "plan --synthetic-n 100 --batch 100", NULL);
    CU_ASSERT_PTR_NULL(strstr(outcome.out, "The data have only"));
}

/* Whether a full batch ever updates, or only the last of an epoch does, is another thing for
 * each batch: the search finds the largest all the same. */
static void a_search_with_micro_batches(void)
{
    const double batch = planned("plan --json --model mlp --hidden 32 --synthetic-n 1000 "
                                 "--accumulate 5 --fit 1MiB",
                                 "largest_batch");
    CU_ASSERT_FATAL(batch > 100 && batch < 900);
    for (int more = 0; more < 2; more++) {
        char line[300];
        snprintf(line, sizeof line,
                 "train --quiet --model mlp --hidden 32 --synthetic-n 1000 --accumulate 5 "
                 "--batch %.0f --memory-budget 1MiB --no-recompute",
                 batch + more);
        program_run(&outcome, line, NULL);
        SW_CHECK(outcome.status == (more ? 4 : 0), "%s: status %d: %s", line, outcome.status,
                 outcome.err);
    }
}

/* Of all programs of the job: what is named is enough to train, a byte less is refused. */
static void check_named(const char *words)
{
    char line[300];
    snprintf(line, sizeof line, "plan %s --memory-budget 100KiB", words);
    program_run(&outcome, line, NULL);
    const char *at = strstr(outcome.err, "does not fit: ");
    if (!SW_CHECK(outcome.status == 4 && at != NULL, "%s: %s", line, outcome.err))
        return;
    const unsigned long long bytes = sw_number_of(at + strlen("does not fit: "));
    for (int less = 0; less < 2; less++) {
        snprintf(line, sizeof line, "plan %s --memory-budget %llu", words,
                 bytes - (unsigned)less);
        program_run(&outcome, line, NULL);
        SW_CHECK(outcome.status == (less == 0 ? 0 : 4), "%s: status %d: %s", line,
                 outcome.status, outcome.err);
    }
    snprintf(line, sizeof line, "train --quiet --json --steps 2 %s --memory-budget %llu", words,
             bytes);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", line, outcome.status, outcome.err);
}

static void the_budget_that_a_refusal_names_is_enough_for_the_whole_job(void)
{
    static const char *const jobs[] = {
        "--synthetic-n 300 --batch 64",
        "--synthetic-n 300 --batch 64 --immediate",
        "--model mlp --synthetic-n 300 --batch 37 --accumulate 3",
        "--model mlp --synthetic-n 2000 --batch 4 --optimizer sgd",
        "--synthetic-n 300 --batch 64 --no-recompute",
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        check_named(jobs[i]);
}

static const sw_test tests[] = {
    {"a batch above the data is all of them", a_batch_above_the_data_is_all_of_them, false},
    {"the batch that runs is said, and what was asked",
     the_batch_that_runs_is_said_and_what_was_asked, false},
    {"a search goes above the data and says so", a_search_goes_above_the_data_and_says_so,
     false},
    {"a search with micro-batches", a_search_with_micro_batches, false},
    {"the budget that a refusal names is enough for the whole job",
     the_budget_that_a_refusal_names_is_enough_for_the_whole_job, false},
};
SW_SUITE("plan: batches and budgets", tests)
