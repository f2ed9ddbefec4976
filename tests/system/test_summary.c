/* plan --summary and train --summary: the layers; their sums are those of the plan. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <string.h>

static sw_outcome outcome;

static json_t *result(const char *words)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: %s", words, outcome.err);
    json_t *j = json_loads(outcome.out);
    CU_ASSERT_PTR_NOT_NULL_FATAL(j);
    return j;
}

static void free_json(void *j)
{
    json_decref(j);
}

static double sum_of(const json_t *list, const char *key)
{
    double sum = 0.0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_object_get(json_array_get(list, i), key));
    return sum;
}

/* LeNet5 on digits: (6, 1, 5, 5) and 6, (16, 6, 5, 5) and 16, three products with biases. */
static void layers_add_up_to_the_model(void)
{
    static const struct {
        const char *layer;
        double parameters, cols;
    } known[] = {{"conv1", 156, 6},
                 {"conv2", 2416, 16},
                 {"fc1", 30840, 120},
                 {"fc2", 10164, 84},
                 {"fc3", 850, 10}};
    json_t *plan = result("plan --summary --json --batch 32");
    sw_after(free_json, plan);
    const json_t *layers = json_object_get(plan, "summary");
    CU_ASSERT_EQUAL(sum_of(layers, "parameters"), 44426);
    CU_ASSERT_EQUAL(sum_of(layers, "parameter_bytes"), 4 * 44426);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const json_t *found = NULL;
        for (size_t k = 0; k < json_array_size(layers); k++)
            if (strcmp(json_string_value(json_object_get(json_array_get(layers, k), "layer")),
                       known[i].layer) == 0)
                found = json_array_get(layers, k);
        const json_t *shape = json_object_get(found, "output");
        SW_CHECK(json_number_value(json_object_get(found, "parameters")) ==
                         known[i].parameters &&
                     json_number_value(json_array_get(shape, 0)) == 32 &&
                     json_number_value(json_array_get(shape, 1)) == known[i].cols,
                 "%s", known[i].layer);
    }
    json_t *trained =
        result("train --summary --json --quiet --batch 32 --steps 2 --synthetic-n 96");
    sw_after(free_json, trained);
    CU_ASSERT(json_equal(json_object_get(trained, "summary"), layers));
}

/* The bytes that backward keeps are a part of the roles' table. */
static void saved_bytes_are_those_of_the_roles(void)
{
    json_t *plan = result("plan --summary --json --model mlp --hidden 64,32 --batch 16");
    sw_after(free_json, plan);
    const json_t *roles = json_object_get(plan, "roles");
    const double saved = sum_of(json_object_get(plan, "summary"), "saved_bytes");
    for (size_t i = 0; i < json_array_size(roles); i++) {
        const json_t *role = json_array_get(roles, i);
        if (strcmp(json_string_value(json_object_get(role, "name")), "saved") == 0) {
            const double peak = json_number_value(
                json_object_get(json_object_get(role, "predicted"), "peak_bytes"));
            SW_CHECK(saved >= peak && saved <= peak + 4096, "%g saved, %g at once", saved,
                     peak);
            return;
        }
    }
    CU_FAIL("there is no role 'saved'");
}

static void the_table_comes_before_the_first_step(void)
{
    program_run(&outcome, "train --summary --quiet --steps 1 --synthetic-n 40 --model mlp",
                NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    CU_ASSERT_EQUAL(strncmp(outcome.out, "layer  ", 7), 0);
    const char *all = strstr(outcome.out, "\nall "),
               *title = strstr(outcome.out, "mlp on synthetic");
    CU_ASSERT(all != NULL && title != NULL && all < title);
    for (const char *line = outcome.out; line < all; line = strchr(line, '\n') + 1)
        SW_CHECK(strcspn(line, "\n") <= 80, "%.100s", line);
    program_run(&outcome, "plan --summary --batch 1,2", NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 2), "%s", outcome.err);
    program_run(&outcome, "plan --summary --method backprop,mezo", NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 2), "%s", outcome.err);
    program_run(&outcome, "train --summary --members 2", NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 2), "%s", outcome.err);
}

static const sw_test tests[] = {
    {"layers add up to the model", layers_add_up_to_the_model, false},
    {"saved bytes are those of the roles", saved_bytes_are_those_of_the_roles, false},
    {"the table comes before the first step", the_table_comes_before_the_first_step, false},
};
SW_SUITE("summaries", tests)
