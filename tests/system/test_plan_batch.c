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

/* The figures are those of a data set that has so many samples; only the test part, which
 * follows from the number of samples, is another. */
static void a_batch_above_the_data_is_planned_as_if_there_were_enough(void)
{
    static const char *const keys[] = {"batch", "predicted_peak_bytes", "arena_bytes",
                                       "model_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double few = planned("plan --json --synthetic-n 100 --batch 700", keys[i]);
        const double enough = planned("plan --json --synthetic-n 700 --batch 700", keys[i]);
        const double all = planned("plan --json --synthetic-n 100 --batch 100", keys[i]);
        SW_CHECK(few == enough, "%s: %.0f and %.0f", keys[i], few, enough);
        CU_ASSERT(i == 3 || few > all);
    }
    CU_ASSERT_EQUAL(planned("plan --json --synthetic-n 100 --batch 700", "training_samples"),
                    100);
    CU_ASSERT_EQUAL(planned("plan --json --synthetic-n 100 --batch 20,700", "training_samples"),
                    100);
}

static void it_says_so(void)
{
    static const char *const large[] = {"plan --synthetic-n 100 --batch 700",
                                        "plan --synthetic-n 100 --batch 20,700",
                                        "plan --synthetic-n 100 --fit 64MiB"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        program_run(&outcome, large[i], NULL);
        SW_CHECK(outcome.status == 0 &&
                     strstr(outcome.out, "The data have only 100 samples") != NULL,
                 "%s: %s", large[i], outcome.out);
    }
    program_run(&outcome, "plan --synthetic-n 100 --batch 100", NULL);
    CU_ASSERT_PTR_NULL(strstr(outcome.out, "The data have only"));
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
    {"a batch above the data is planned as if there were enough",
     a_batch_above_the_data_is_planned_as_if_there_were_enough, false},
    {"... and says so", it_says_so, false},
    {"the budget that a refusal names is enough for the whole job",
     the_budget_that_a_refusal_names_is_enough_for_the_whole_job, false},
};
SW_SUITE("plan: batches and budgets", tests)
