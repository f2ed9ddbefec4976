/* `stepwell bench budget`: that its table is whole, and that its figures agree with each other.
 * Small sizes; the times are not judged. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <string.h>
#include "tests/support/json.h"

static sw_outcome outcome;

static void what_it_cannot_measure_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } refused[] = {
        {"bench budget --subject cnn", "--subject"},
        {"bench budget --layers 65", "--layers"},
        {"bench budget --width 9", "--width"},
        {"bench plan --budget --largest 3", "--largest"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "'%s': status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
}

static void the_table_is_80_columns_wide(void)
{
    program_run(&outcome,
                "bench budget --subject mlp --steps 2 --layers 4 --width 16 --batch 16", NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    for (const char *line = outcome.out; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        SW_CHECK(n <= 80, "%zu columns: %.*s", n, (int)n, line);
        line += n + (line[n] == '\n');
    }
    CU_ASSERT(strstr(outcome.out, "50 budgets down to the least: 50 fit, 0 cost less") != NULL);
}

static void let_go(void *json)
{
    json_decref(json);
}

/* The only subject that `words` measure. */
static const json_t *subject_of(const char *words)
{
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(root), "%s: status %d: %s", words,
             outcome.status, outcome.err);
    sw_after(let_go, root);
    const json_t *subjects = json_object_get(root, "subjects");
    CU_ASSERT_EQUAL(json_array_size(subjects), 1);
    return json_array_get(subjects, 0);
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    SW_CHECK(json_is_number(value), "no number under %s", key);
    return json_number_value(value);
}

static void check_row(const json_t *row, bool timed)
{
    static const char *const times[] = {
        "plain_ns",           "plain_min_ns",          "predicted_ns",
        "measured_ns",        "measured_min_ns",       "measured_ratio",
        "measured_min_ratio", "measured_paired_ratio", "predicted_ratio"};
    const double optimum = json_object_get(row, "optimum_operations_percent") != NULL
                               ? number(row, "optimum_operations_percent")
                               : 0.0;
    CU_ASSERT(number(row, "total_bytes") <= number(row, "budget_bytes"));
    CU_ASSERT_EQUAL(number(row, "observed_peak_bytes"), number(row, "predicted_peak_bytes"));
    CU_ASSERT_EQUAL(number(row, "witnessed_peak_bytes"), number(row, "predicted_peak_bytes"));
    CU_ASSERT(number(row, "repeat_operations_percent") >= optimum - 1e-9);
    CU_ASSERT(number(row, "repeat_cost_percent") >=
              number(row, "least_repeat_cost_percent") - 1e-9);
    CU_ASSERT(json_is_string(json_object_get(row, "method")));
    CU_ASSERT(number(row, "plan_ns") > 0.0);
    if (number(row, "keep_percent") == 100.0)
        CU_ASSERT_EQUAL(number(row, "repeats"), 0.0);
    for (size_t i = 0; timed && i < sizeof times / sizeof *times; i++)
        SW_CHECK(number(row, times[i]) > 0.0, "nothing under %s", times[i]);
    CU_ASSERT(timed || json_object_get(row, "measured_ns") == NULL);
}

/* How many of its rows fit. */
static size_t check_subject(const json_t *subject, bool timed)
{
    const json_t *rows = json_object_get(subject, "rows");
    const json_t *sweep = json_object_get(subject, "sweep");
    size_t fit = 0;
    CU_ASSERT_EQUAL(json_array_size(rows), 6);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double budget = number(row, "budget_bytes");
        if (json_is_true(json_object_get(row, "fits"))) {
            check_row(row, timed);
            fit++;
        } else
            CU_ASSERT(budget < number(subject, "least_total_bytes"));
        if (i == 0)
            CU_ASSERT_EQUAL(budget, number(subject, "plain_total_bytes"));
        if (i == 5)
            CU_ASSERT_EQUAL(budget, number(subject, "least_total_bytes"));
    }
    CU_ASSERT_EQUAL(number(sweep, "fit"), number(sweep, "budgets"));
    CU_ASSERT_EQUAL(number(sweep, "cost_falls"), 0.0);
    CU_ASSERT(number(sweep, "max_plan_ns") > 0.0);
    return fit;
}

static void its_figures_agree(void)
{
    static const char *const chains[] = {
        "bench budget --json --subject mlp --layers 6 --width 64 --batch 64 --steps 2 "
        "--budgets 5",
        "bench plan --budget --json --subject conv --layers 6 --side 8 --batch 16 --steps 2 "
        "--budgets 5",
        "bench budget --json --subject mlp --layers 4 --width 32 --batch 32 --steps 2 "
        "--budgets 3",
        "bench plan --budget --json --subject conv --layers 4 --side 8 --batch 8 --steps 2 "
        "--budgets 3"};
    const size_t first = sw_tests_full() ? 0 : 2;
    for (size_t i = first; i < first + 2; i++) {
        const json_t *chain = subject_of(chains[i]);
        CU_ASSERT(check_subject(chain, true) >= 3);
        /* The last relu keeps bits: its output is not read later. */
        CU_ASSERT(number(chain, "links") >= number(chain, "layers") - 1.0);
        CU_ASSERT(number(chain, "activation_bytes") >=
                  (number(chain, "layers") - 1.0) * number(chain, "link_bytes"));
    }
    const json_t *lenet5 =
        subject_of("bench budget --json --subject lenet5 --steps 0 --budgets 2");
    CU_ASSERT(check_subject(lenet5, false) >= 2);
    CU_ASSERT_EQUAL(number(lenet5, "links"), 0.0);
}

static const sw_test tests[] = {
    {"what it cannot measure is refused", what_it_cannot_measure_is_refused},
    {"the table is 80 columns wide", the_table_is_80_columns_wide},
    {"its figures agree", its_figures_agree},
};

SW_SUITE("budgets", tests)
