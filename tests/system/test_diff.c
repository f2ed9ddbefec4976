/* stepwell report --diff: two profiles side by side. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/support/json.h"

#define NAIVE "--activation swish-naive --update after --no-rebuild "
#define SWISH "--activation swish "
#define NET "--model swishnet --width 96 --layers 4 --batch 64 --synthetic-n 64 "

static sw_outcome outcome;

static const char *run(const char *words)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0 && outcome.err[0] == '\0', "%s: status %d: %s", words,
             outcome.status, outcome.err);
    return outcome.out;
}

/* The profile of a run; valid until the fourth next call. */
static const char *profile_of(const char *name, const char *options)
{
    static char path[4][1024];
    static unsigned next;
    char words[2000], *to = path[next++ % 4];
    snprintf(to, sizeof path[0], "%s", sw_temp_path(name));
    snprintf(words, sizeof words, "train --quiet " NET "%s--epochs 3 --profile %s", options,
             to);
    (void)run(words);
    return to;
}

static json_int_t planned(const char *options, const char *key)
{
    char words[400];
    snprintf(words, sizeof words, "plan --json " NET "%s", options);
    return (json_int_t)program_number(run(words), key);
}

static json_int_t at(const json_t *object, const char *group, const char *name, const char *key)
{
    const json_t *value =
        json_object_get(json_object_get(json_object_get(object, group), name), key);
    SW_CHECK(json_is_integer(value), "%s %s %s is no number", group, name, key);
    return json_integer_value(value);
}

static void drop_json(void *object)
{
    json_decref(object);
}

static const json_t *diff_of(const char *a, const char *b)
{
    char words[3000];
    snprintf(words, sizeof words, "report --json %s --diff %s", a, b);
    json_t *object = json_loads(run(words));
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    sw_after(drop_json, object);
    return object;
}

/* Every difference is a - b, of the bytes that plan says. */
static void differences_are_those_of_the_plans(void)
{
    static const char *const groups[] = {"peak_bytes", "end_bytes", "totals", "roles",
                                         "layers"};
    const char *a = profile_of("naive", NAIVE), *b = profile_of("swish", SWISH);
    const json_t *diff = diff_of(a, b);
    CU_ASSERT_EQUAL(at(diff, "totals", "peak", "a"), planned(NAIVE, "predicted_peak_bytes"));
    CU_ASSERT_EQUAL(at(diff, "totals", "peak", "b"), planned(SWISH, "predicted_peak_bytes"));
    CU_ASSERT_EQUAL(at(diff, "totals", "arena", "a"), planned(NAIVE, "arena_bytes"));
    CU_ASSERT_EQUAL(at(diff, "totals", "model", "b"), planned(SWISH, "model_bytes"));
    CU_ASSERT(at(diff, "roles", "saved", "difference") > 0);
    CU_ASSERT_EQUAL(at(diff, "roles", "parameter", "difference"), 0);
    json_int_t sum[2][2] = {{0}};
    for (int g = 0; g < 5; g++) {
        const char *name;
        json_t *value, *group = json_object_get(diff, groups[g]);
        CU_ASSERT(json_object_size(group) > 3);
        json_object_foreach(group, name, value)
        {
            const json_int_t x = at(diff, groups[g], name, "a"),
                             y = at(diff, groups[g], name, "b");
            SW_CHECK(at(diff, groups[g], name, "difference") == x - y, "%s %s", groups[g],
                     name);
            if (g >= 3) {
                sum[g - 3][0] += x;
                sum[g - 3][1] += y;
            }
        }
    }
    for (int g = 0; g < 2; g++)
        CU_ASSERT(sum[g][0] == at(diff, "totals", "peak", "a") &&
                  sum[g][1] == at(diff, "totals", "peak", "b"));
    CU_ASSERT(json_object_size(json_object_get(diff, "median_ns")) == 6);
}

static void a_profile_is_equal_to_itself(void)
{
    char words[3000];
    const char *a = profile_of("itself", NAIVE);
    snprintf(words, sizeof words, "report %s --diff=%s", a, a);
    const char *text = strstr(run(words), "\n\n"); /* names of files may have dashes */
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (const char *line = text; (line = strstr(line, "\n  ")) != NULL; line++)
        SW_CHECK(strcspn(line + 1, "+-") > strcspn(line + 1, "\n") &&
                     strstr(line, "equal") < line + 80,
                 "%.80s", line + 1);
    CU_ASSERT_PTR_NULL(strstr(text, "fc1 ")); /* layers that are equal are left out */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " layers are equal"));
}

/* Bytes of several models, roles that only one of them has, exact numbers. */
static void two_models_are_compared_within_80_columns(void)
{
    static const char *const styles[] = {"", " --bytes"};
    char words[3000], other[1024];
    const char *a = profile_of("one-model", NAIVE);
    snprintf(other, sizeof other, "%s", sw_temp_path("other-model"));
    snprintf(words, sizeof words,
             "train --quiet --synthetic-n 3000 --batch 3000 --optimizer adam --profile %s",
             other);
    (void)run(words);
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "report %s --diff %s%s", a, other, styles[i]);
        const char *text = run(words);
        size_t n = 0;
        for (; *text != '\0'; text++) {
            n = *text == '\n' ? 0 : n + 1;
            SW_CHECK(n <= 80, "%s: %zu columns", words, n);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "optimizer_state"));
        CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, ",3"));
    }
}

static void what_cannot_be_compared_is_named(void)
{
    char words[3000];
    const char *a = profile_of("good", NAIVE), *foreign = program_path();
    snprintf(words, sizeof words, "report %s --diff /nowhere/at/all", a);
    program_run(&outcome, words, NULL);
    CU_ASSERT(program_failed_cleanly(&outcome, 3) &&
              strstr(outcome.err, "/nowhere/at/all: ") != NULL);
    snprintf(words, sizeof words, "report %s --json --diff %s", a, foreign);
    program_run(&outcome, words, NULL);
    CU_ASSERT(program_failed_cleanly(&outcome, 3) && strstr(outcome.err, foreign) != NULL);
    program_run(&outcome, "report --diff x", NULL);
    CU_ASSERT(outcome.status == 2 && strstr(outcome.err, "FILE must be given") != NULL);
}

/* Each key of an object is in the help of the command that prints it. */
static void keys_are_in_the_help(void)
{
    static const char *const uses[][2] = {{"report", "--json --max-peak 1TiB"},
                                          {"report", "--json --diff "},
                                          {"report", "--json --steps 1,2"},
                                          {"report", "--json --by layer"},
                                          {"top", "--json --once"}};
    const char *path = profile_of("keys", NAIVE);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char words[4000], help_words[40];
        const char *key;
        json_t *value;
        snprintf(words, sizeof words, "%s %s %s%s", uses[i][0], path, uses[i][1],
                 i == 1 ? path : "");
        snprintf(help_words, sizeof help_words, "%s --help", uses[i][0]);
        json_t *object = json_loads(run(words));
        CU_ASSERT_PTR_NOT_NULL_FATAL(object);
        sw_after(drop_json, object);
        const char *help = run(help_words);
        json_object_foreach(object, key, value)
            SW_CHECK(strstr(help, key) != NULL, "%s: %s is not in the help", words, key);
    }
}

/* Op by op the loader has the slots that it has under a plan, and the model is the same. */
static void a_plan_saves_of_the_arena_alone(void)
{
    char immediate[1024];
    snprintf(immediate, sizeof immediate, "%s", profile_of("immediate", SWISH "--immediate "));
    const json_t *d = diff_of(immediate, profile_of("planned", SWISH));
    CU_ASSERT_EQUAL(at(d, "totals", "data", "difference"), 0);
    CU_ASSERT_EQUAL(at(d, "totals", "model", "difference"), 0);
    CU_ASSERT(at(d, "totals", "arena", "difference") > 0);
    CU_ASSERT_EQUAL(at(d, "totals", "total", "difference"),
                    at(d, "totals", "arena", "difference"));
}

/* Three runs each for two steps, and a step in three of seven. */
static void steps_and_their_runs_are_told_apart(void)
{
    static const char *const missing[][2] = {
        {"1,2", "no record of step 2; the nearest are 1 and 3\n"},
        {"3,eval:6", "no record of eval step 6; the nearest is "},
        {"train:90,1", "no record of train step 90; the nearest is 7\n"}};
    char words[3000], path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("runs"));
    snprintf(words, sizeof words,
             "train --quiet --synthetic-n 64 --batch 8 --accumulate 3 --steps 2 --profile %s",
             path);
    (void)run(words);
    snprintf(words, sizeof words, "report %s", path);
    const char *text = run(words);
    SW_CHECK(strstr(text, "\n2 training steps in 6 runs") != NULL &&
                 strstr(text, "\n step:run ") != NULL && strstr(text, "\n      2:3 ") != NULL,
             "%s", text);
    snprintf(words, sizeof words, "report %s --json", path);
    const char *json = run(words);
    CU_ASSERT_EQUAL(program_number(json, "steps"), 2);
    CU_ASSERT_EQUAL(program_number(json, "training_runs"), 6);
    snprintf(
        words, sizeof words,
        "train --quiet --synthetic-n 64 --batch 8 --steps 7 --profile-every 3 --profile %s",
        path);
    (void)run(words);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(words, sizeof words, "report %s --steps %s", path, missing[i][0]);
        program_run(&outcome, words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 1) &&
                     strstr(outcome.err, missing[i][1]) != NULL,
                 "status %d: %s", outcome.status, outcome.err);
    }
}

/* The names of files come out with what a terminal would obey replaced. */
static void a_file_cannot_command_the_terminal(void)
{
    char other[1100];
    const char *a = profile_of("plain", NAIVE);
    snprintf(other, sizeof other, "%s\033[2J\n", a);
    CU_ASSERT_EQUAL_FATAL(rename(a, other), 0);
    const char *const argv[] = {program_path(), "report", other, "--diff", other, NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "?[2J?") != NULL, "status %d: %s",
             outcome.status, outcome.out);
    CU_ASSERT_PTR_NULL(strpbrk(outcome.out, "\033"));
}

/* Once, however much was printed before it was full. */
static void a_full_disk_is_told_with_its_reason(void)
{
    if (access("/dev/full", W_OK) != 0)
        SW_SKIP("there is no /dev/full");
    const char *a = profile_of("told", NAIVE);
    CU_ASSERT_EQUAL(sw_shell("[ \"$('%s' report '%s' --diff '%s' 2>&1 >/dev/full | "
                             "grep -c 'everything: No space')\" = 1 ]",
                             program_path(), a, a),
                    0);
}

static const sw_test tests[] = {
    {"differences are those of the plans", differences_are_those_of_the_plans},
    {"a profile is equal to itself", a_profile_is_equal_to_itself},
    {"two models are compared within 80 columns", two_models_are_compared_within_80_columns},
    {"keys are in the help", keys_are_in_the_help},
    {"a plan saves of the arena alone", a_plan_saves_of_the_arena_alone},
    {"steps and their runs are distinguished", steps_and_their_runs_are_told_apart},
    {"a file cannot command the terminal", a_file_cannot_command_the_terminal},
    {"a full disk is reported with its reason", a_full_disk_is_told_with_its_reason},
    {"what cannot be compared is named", what_cannot_be_compared_is_named},
};
SW_SUITE("diff", tests)
