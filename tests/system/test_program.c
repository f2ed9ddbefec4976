/* The program at its limits: a budget that is too small, Ctrl-C, a full disk. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "tests/support/json.h"

SW_TESTS("program")

SW_TEST("a small budget is refused before training, with numbers and the holder")
{
    static sw_outcome outcome;
    static const char *const budgets[] = {"1KiB", "100KiB", "600KiB", "800KiB"};
    const char *profile = sw_temp_path("refused-profile");
    for (size_t i = 0; i < 4; i += sw_tests_full() ? 1 : 3) {
        program_run(&outcome,
                    sw_textf("train --quiet --synthetic-n 64 --batch 16 --steps 3 "
                             "--memory-budget %s --profile %s",
                             budgets[i], profile),
                    NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 4), "%s: status %d: %s%s", budgets[i],
                 outcome.status, outcome.out, outcome.err);
        SW_CHECK(strpbrk(outcome.err, "0123456789") != NULL &&
                     strstr(outcome.err, "byte") != NULL,
                 "%s: no numbers in: %s", budgets[i], outcome.err);
        size_t n;
        char *text = (char *)file_read(profile, &n);
        CU_ASSERT(text == NULL || strstr(text, "\"type\":\"step\"") == NULL);
        free(text);
    }
    SW_CHECK(strstr(outcome.err, "conv") != NULL || strstr(outcome.err, "fc") != NULL,
             "names no holder: %s", outcome.err);
    sw_note("%.*s", (int)strcspn(outcome.err, "\n"), outcome.err);
}

/* The total of bytes that a plan asks for; -1 when it did not say. */
static long long planned_total(const char *out)
{
    json_t *root = json_loads(out);
    const long long total =
        root != NULL ? json_integer_value(json_object_get(root, "total_bytes")) : -1;
    json_decref(root);
    return total;
}

#define SMALL_MODEL "train --json --quiet --synthetic-n 64 --batch 16 --steps 3 --update after"
#define SMALL SMALL_MODEL " --memory-budget "

/* Where updates wait for the end of backward: without recomputation it is the planned total,
 * with it what a refusal says. */
SW_TEST("the least budget that works is the one that is said")
{
    static sw_outcome outcome;
    long long total[2];
    program_run(&outcome, SMALL_MODEL, NULL);
    total[0] = planned_total(outcome.out);
    program_run(&outcome, SMALL "1000", NULL);
    static const char says[] = "stepwell train: does not fit: ";
    CU_ASSERT_FATAL(strncmp(outcome.err, says, strlen(says)) == 0);
    total[1] = (long long)sw_number_of(outcome.err + strlen(says));
    CU_ASSERT_FATAL(total[0] > total[1] && total[1] > 1000);
    for (int again = 0; again < 2; again++)
        for (int less = 0; less < 2; less++) {
            program_run(
                &outcome,
                sw_textf(SMALL "%lld%s", total[again] - less, again ? "" : " --no-recompute"),
                NULL);
            SW_CHECK(outcome.status == (less ? 4 : 0), "%lld bytes: status %d: %s",
                     total[again] - less, outcome.status, outcome.err);
            if (again && !less)
                CU_ASSERT_EQUAL(planned_total(outcome.out), total[1]);
        }
}

/* Every line is an object with a type; the last is the end. Returns the step records. */
static int check_profile(const char *path)
{
    size_t n;
    int steps = 0, line_number = 0;
    char last[32] = "";
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT(n > 0 && text[n - 1] == '\n');
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *record = json_loads(line);
        const char *type = json_string_value(json_object_get(record, "type"));
        SW_CHECK(type != NULL, "line %d: %.100s", line_number, line);
        if (line_number++ == 0)
            SW_CHECK(type != NULL && strcmp(type, "header") == 0, "%.100s", line);
        steps += type != NULL && strcmp(type, "step") == 0;
        snprintf(last, sizeof last, "%s", type != NULL ? type : "");
        json_decref(record);
    }
    CU_ASSERT_STRING_EQUAL(last, "end");
    free(text);
    return steps;
}

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void interrupt(int number)
{
    static sw_outcome outcome;
    const char *profile = sw_temp_path("interrupted");
    const char *words = sw_textf(
        "train --quiet --batch 32 --synthetic-n 1000 --epochs 100000 --profile %s", profile);
    (void)remove(profile); /* of the run before: a step in it would not be this run's */
    const pid_t pid = program_start("interrupted", words, NULL);
    size_t n = 0;
    for (int i = 0; i < 1000; i++) {
        char *text = (char *)file_read(profile, &n);
        const bool begun = text != NULL && strstr(text, "\"type\":\"step\"") != NULL;
        free(text);
        if (begun)
            break;
        pause_ms(10);
    }
    kill(pid, number);
    sw_process_wait(&outcome, pid, "interrupted", 30);
    SW_CHECK(outcome.status == 130, "status %d, signal %d: %s", outcome.status, outcome.signal,
             outcome.err);
    CU_ASSERT(check_profile(profile) > 0);
    words = sw_textf("report %s", profile);
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "report: status %d: %s", outcome.status, outcome.err);
}

SW_TEST("an interrupt ends with 130 and a valid profile")
{
    interrupt(SIGINT);
    interrupt(SIGTERM);
}

SW_TEST("a killed run leaves readable lines")
{
    static sw_outcome outcome;
    const char *profile = sw_temp_path("killed");
    const pid_t pid = program_start(
        "killed",
        sw_textf("train --quiet --batch 32 --synthetic-n 1000 --epochs 100000 --profile %s",
                 profile),
        NULL);
    pause_ms(400);
    kill(pid, SIGKILL);
    sw_process_wait(&outcome, pid, "killed", 30);
    CU_ASSERT_EQUAL(outcome.signal, SIGKILL);
    size_t n;
    int lines = 0;
    char *text = (char *)file_read(profile, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    char *end = strrchr(text, '\n');
    if (end != NULL)
        *end = '\0'; /* the last line may be cut */
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        json_t *record = json_loads(line);
        SW_CHECK(record != NULL, "line %d: %.100s", lines, line);
        json_decref(record);
    }
    free(text);
    CU_ASSERT(lines > 2);
    program_run(&outcome, sw_textf("report %s", profile), NULL);
    SW_CHECK(outcome.status == 0, "report: status %d: %s", outcome.status, outcome.err);
}

SW_TEST("a full disk fails with one line")
{
    static sw_outcome outcome;
    if (access("/dev/full", W_OK) != 0)
        SW_SKIP("no /dev/full here");
    program_run(&outcome,
                "train --quiet --synthetic-n 64 --batch 16 --steps 3 --profile /dev/full",
                NULL);
    SW_CHECK(outcome.status == 1 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "/dev/full") != NULL,
             "status %d: %s", outcome.status, outcome.err);
    const int status =
        sw_shell("'%s' train --json --quiet --synthetic-n 64 --batch 16 --steps 3 > /dev/full",
                 program_path());
    CU_ASSERT_EQUAL(status, 1);
}

SW_TEST("unknown words are wrong usage")
{
    static const char *const wrong[] =
        SW_INIT("trian", "train --modle mlp", "train --batch -1", "train --batch x",
                "train --model gpt9", "train --memory-budget 5XB", "train --checkpoint-every 3",
                "train --steps", "");
    static sw_outcome outcome;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        program_run(&outcome, wrong[i], NULL);
        SW_CHECK(outcome.status == 2 && outcome.out[0] == '\0' && outcome.err[0] != '\0',
                 "'%s': status %d: %s", wrong[i], outcome.status, outcome.err);
    }
    program_run(&outcome, "train --device cuda --steps 1", NULL);
    SW_CHECK(outcome.status == 5 && strstr(outcome.err, "CUDA") != NULL, "cuda: status %d: %s",
             outcome.status, outcome.err);
    program_run(&outcome, "train --steps 1", "STEPWELL_FAULT=nonsense");
    CU_ASSERT_EQUAL(outcome.status, 2);
}
