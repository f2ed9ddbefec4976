/* The figures of `stepwell report` for real runs, against those known without the profiler:
 * figures of `train` and `plan`, and sums worked out from shapes. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/json.h"

SW_TESTS("peaks")

static sw_outcome outcome;

static void drop_json(void *object)
{
    json_decref(object);
}

/* The object that the words print; they may fail with status 1 where a limit is exceeded. */
static const json_t *object_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const json_t *object_of(const char *format, ...)
{
    char words[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    program_run(&outcome, words, NULL);
    json_t *object = json_loads(outcome.out);
    SW_CHECK(object != NULL, "%s: status %d: %s", words, outcome.status, outcome.err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    sw_after(drop_json, object);
    return object;
}

static long long number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    SW_CHECK(json_is_integer(value), "%s is no number", key);
    return json_integer_value(value);
}

static long long difference(const json_t *diff, const char *group, const char *name)
{
    return number_of(json_object_get(json_object_get(diff, group), name), "difference");
}

/* Each group of lines has the whole of both peaks. */
static void check_sums(const json_t *diff, long long a, long long b)
{
    static const char *const groups[] = {"roles", "layers", "ops", "tensors"};
    for (int i = 0; i < 4; i++) {
        long long sum[2] = {0};
        const char *name;
        json_t *line, *group = json_object_get(diff, groups[i]);
        json_object_foreach(group, name, line)
        {
            sum[0] += number_of(line, "a");
            sum[1] += number_of(line, "b");
        }
        SW_CHECK(sum[0] == a && sum[1] == b, "%s: %lld and %lld, not %lld and %lld", groups[i],
                 sum[0], sum[1], a, b);
    }
    const bool a_is_newer = strcmp(json_string_value(json_object_get(diff, "newer")), "a") == 0;
    CU_ASSERT_EQUAL(number_of(diff, "peak_difference_bytes"), a_is_newer ? a - b : b - a);
}

/* The rows of a table but for the first one add up to it, and it is what training measured. */
static void check_table(const char *profile, const char *by, long long peak)
{
    static const char *const roles[] = {
        "parameter", "optimizer_state", "buffer",    "state",  "input",  "activation", "saved",
        "gradient",  "temporary",       "workspace", "metric", "output", "knob"};
    const json_t *o = object_of("report --json --by %s %s", by, profile);
    const json_t *rows = json_object_get(o, "rows");
    long long sum = 0;
    CU_ASSERT_EQUAL(number_of(o, "measured_peak_bytes"), peak);
    CU_ASSERT_EQUAL(number_of(json_array_get(rows, 0), "at_peak_bytes"), peak);
    for (size_t i = 1; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, by));
        size_t known = 0;
        CU_ASSERT_PTR_NOT_NULL_FATAL(name);
        while (known < sizeof roles / sizeof *roles && strcmp(roles[known], name) != 0)
            known++;
        SW_CHECK(strcmp(by, "role") != 0 || known < sizeof roles / sizeof *roles,
                 "%s is the role of a tensor", name);
        if (strchr(name, '/') == NULL)
            sum += number_of(row, "at_peak_bytes");
        CU_ASSERT(number_of(row, "own_peak_bytes") >= number_of(row, "at_peak_bytes"));
    }
    SW_CHECK(sum == peak, "%s of %s: %lld of %lld bytes", by, profile, sum, peak);
}

/* Planned and immediate, released and kept gradients, and with what does not fit rebuilt. */
SW_TEST("every byte of every model has role and layer")
{
    static const char *const runs[] = SW_INIT(
        "--model mlp --batch 32 --synthetic-n 99", "--model lenet5 --batch 32 --synthetic-n 99",
        "--model lenet5 --batch 32 --immediate --synthetic-n 99",
        "--model lenet5 --batch 16 --optimizer momentum --keep-gradients --synthetic-n 99",
        "--model mlp --batch 8 --accumulate 3 --synthetic-n 99",
        "--model swishnet --width 64 --layers 4 --batch 32 --synthetic-n 64",
        "--model swishnet --width 64 --layers 4 --batch 32 --synthetic-n 64 --immediate");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *profile = sw_temp_path("roles");
        const json_t *train =
            object_of("train --json --quiet --steps 3 %s --profile %s", runs[i], profile);
        const long long peak = number_of(train, "measured_peak_bytes");
        check_table(profile, "role", peak);
        check_table(profile, "layer", peak);
        const json_t *report = object_of("report --json %s", profile);
        const bool planned = strstr(runs[i], "--immediate") == NULL;
        SW_CHECK(planned ? json_is_true(json_object_get(report, "equal"))
                         : json_is_null(json_object_get(report, "equal")),
                 "%s: predicted as measured", runs[i]);
    }
}

static long long planned(const char *options)
{
    return number_of(object_of("plan --json %s", options), "predicted_peak_bytes");
}

/* The last batch of an epoch is smaller, and an evaluation is another program: each peaks as
 * `plan` says for its batch, and the lines add up to the difference. */
SW_TEST("two steps differ as their plans do")
{
    const char *profile = sw_temp_path("steps");
    const long long whole = planned("--model mlp --batch 48"),
                    part = planned("--model mlp --batch 4");
    (void)object_of("train --json --quiet --model mlp --synthetic-n 100 --batch 48 --epochs 1 "
                    "--profile %s",
                    profile);
    const json_t *diff = object_of("report --json --steps 2,3 %s", profile);
    check_sums(diff, whole, part);
    CU_ASSERT(json_is_false(json_object_get(diff, "same_program")));
    diff = object_of("report --json --steps 1,2 %s", profile);
    check_sums(diff, whole, whole);
    CU_ASSERT(json_is_true(json_object_get(diff, "same_program")));
    diff = object_of("report --json --steps 3,eval:4 %s", profile);
    const long long eval =
        number_of(json_object_get(json_object_get(diff, "totals"), "peak"), "b");
    check_sums(diff, part, eval);
}

SW_TEST("immediate steps are compared too")
{
    const char *profile = sw_temp_path("immediate");
    (void)object_of("train --json --quiet --model mlp --synthetic-n 100 --batch 48 --epochs 1 "
                    "--immediate --profile %s",
                    profile);
    const json_t *diff = object_of("report --json --steps 2,3 %s", profile);
    const json_t *peak = json_object_get(json_object_get(diff, "totals"), "peak");
    check_sums(diff, number_of(peak, "a"), number_of(peak, "b"));
    CU_ASSERT(number_of(peak, "a") > number_of(peak, "b"));
    CU_ASSERT_PTR_NULL(json_object_get(json_object_get(diff, "roles"), "(not in the values)"));
}

/* A layer more of width 64 has 64 * 64 + 64 parameters, and keeps its output of 32 * 64. */
SW_TEST("one layer more is the whole difference")
{
    static const char options[] = "train --json --quiet --model swishnet --width 64 --batch 32 "
                                  "--synthetic-n 64 --steps 2 --layers";
    const char *few = sw_temp_path("few");
    const char *more = sw_temp_path("more");
    (void)object_of("%s 3 --profile %s", options, few);
    (void)object_of("%s 4 --profile %s", options, more);
    const json_t *diff = object_of("report --json %s --diff %s", more, few);
    const json_t *peak = json_object_get(json_object_get(diff, "totals"), "peak");
    check_sums(diff, number_of(peak, "a"), number_of(peak, "b"));
    CU_ASSERT_EQUAL(number_of(peak, "difference"), 4 * (64 * 64 + 64 + 32 * 64));
    CU_ASSERT_EQUAL(difference(diff, "roles", "parameter"), 4 * (64 * 64 + 64));
    CU_ASSERT_EQUAL(difference(diff, "roles", "saved"), 4 * 32 * 64);
    CU_ASSERT_EQUAL(difference(diff, "roles", "gradient"), 0);
    CU_ASSERT_EQUAL(difference(diff, "layers", "fc1"), 0);
    CU_ASSERT(difference(diff, "layers", "fc4") > 0);
    CU_ASSERT(json_is_true(json_object_get(json_object_get(diff, "a"), "equal")) &&
              json_is_true(json_object_get(json_object_get(diff, "b"), "equal")));

    program_run(&outcome,
                sw_textf("report --quiet %s --diff %s --fail-on-increase 2%%", more, few),
                NULL);
    CU_ASSERT(outcome.status == 1 && strstr(outcome.err, "layer fc4 (+") != NULL &&
              strchr(outcome.err, '\n') == strrchr(outcome.err, '\n'));
    program_run(&outcome,
                sw_textf("report --quiet %s --diff %s --fail-on-increase 0%%", few, more),
                NULL);
    CU_ASSERT(outcome.status == 0 && outcome.err[0] == '\0');
}

/* Limits in bytes around what `train` measured. */
SW_TEST("limits are those of the peak that was measured")
{
    const char *profile = sw_temp_path("limit");
    const json_t *train = object_of("train --json --quiet --model mlp --steps 2 --batch 32 "
                                    "--profile %s",
                                    profile);
    const long long peak = number_of(train, "measured_peak_bytes");
    for (int below = 0; below < 2; below++) {
        const char *words = sw_textf("report %s --max-peak %lld", profile, peak - below);
        program_run(&outcome, words, NULL);
        SW_CHECK(outcome.status == below, "%s: status %d, %s", words, outcome.status,
                 outcome.err);
    }
}
