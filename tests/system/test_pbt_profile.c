/* stepwell pbt --profile, and what stepwell report makes of it. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SW_TESTS("pbt profile")

static sw_outcome outcome;

static void drop(void *x)
{
    json_decref(x);
}

/* The object that the program prints for these words; dropped with the test. */
static const json_t *object_of(const char *words)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
    json_t *o = json_loads(outcome.out);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    sw_after(drop, o);
    return o;
}

static const json_t *report_of(const char *path, const char *words)
{
    char line[2200];
    snprintf(line, sizeof line, "report %s --json %s", path, words);
    return object_of(line);
}

static json_int_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* ---- sums -------------------------------------------------------------------------------- */

static void check_rows(const json_t *o)
{
    const json_t *rows = json_object_get(o, "budget"), *members = json_object_get(o, "members");
    const size_t n = json_array_size(members);
    json_int_t sum = 0, live = 0, outside = 0, *each = calloc(n + 1, sizeof *each);
    CU_ASSERT_PTR_NOT_NULL_FATAL(each);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *x = json_array_get(rows, i);
        sum += number(x, "bytes");
        if (strcmp(json_string_value(json_object_get(x, "kind")), "member") == 0)
            each[number(x, "number")] += number(x, "bytes");
    }
    for (size_t k = 0; k < n; k++) {
        const json_t *m = json_array_get(members, k);
        CU_ASSERT_EQUAL(each[k], number(m, "range_bytes"));
        live += number(m, "range_bytes");
        outside += number(m, "waiting_bytes") + number(m, "kept_bytes");
    }
    free(each);
    CU_ASSERT_EQUAL(sum, number(o, "measured_bytes"));
    CU_ASSERT_EQUAL(live, number(o, "live_bytes"));
    CU_ASSERT_EQUAL(outside, number(o, "outside_bytes"));
}

typedef struct {
    int turns, resident, waiting, kept, copies;
} counted;

/* Each turn holds what was planned for it, and no more than the budget. */
static void check_turns(const char *path, json_int_t budget, counted *all)
{
    size_t n;
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    char *rest = text;
    for (size_t used = 0; used < n;) {
        char *end = memchr(rest, '\n', n - used);
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        *end = '\0';
        all->resident += strstr(rest, "\"place\":\"resident\"") != NULL;
        all->waiting += strstr(rest, "\"place\":\"waiting\"") != NULL;
        if (strncmp(rest, "{\"type\":\"member\"", 16) == 0) {
            all->kept += program_number(rest, "kept_bytes") > 0;
            all->copies += strstr(rest, "\"donor\":null") == NULL;
        }
        if (strncmp(rest, "{\"type\":\"turn\"", 14) == 0) {
            const double measured = program_number(rest, "measured_bytes");
            all->turns++;
            CU_ASSERT(program_number(rest, "turn") > 0 && measured > 0);
            CU_ASSERT(budget == 0 || measured <= (double)budget);
            CU_ASSERT(budget == 0 || program_number(rest, "predicted_bytes") <= (double)budget);
        }
        used += (size_t)(end + 1 - rest);
        rest = end + 1;
    }
    free(text);
}

static unsigned draw(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* Random populations: batches and widths among what is explored, with and without a budget,
 * members that wait, states that are kept. */
SW_TEST("every byte of random populations adds up")
{
    static const char *const budgets[] = {"", "--memory-budget 400KiB",
                                          "--memory-budget 600KiB", "--memory-budget 1MiB"};
    static const json_int_t bytes[] = {0, 400 << 10, 600 << 10, 1 << 20};
    unsigned state = 11;
    counted all = {0};
    char path[1024], words[2400];
    for (int i = 0; i < (sw_tests_full() ? 40 : 6); i++) {
        const unsigned budget = i < 4 ? (unsigned)i : draw(&state, 4);
        snprintf(path, sizeof path, "%s", sw_temp_path("random.jsonl"));
        snprintf(words, sizeof words,
                 "pbt --model mlp --hidden 8 --quiet --json --synthetic-n 200 --members %u "
                 "--steps 24 --interval %u --threads %u --quantile 0.%u --seed %u %s %s "
                 "--profile %s lr=log:0.001..0.1 batch=choice:8,16,32 hidden=int:2..12",
                 2 + draw(&state, 9), 4 + draw(&state, 5), 1 + draw(&state, 2),
                 1 + draw(&state, 4), 1 + draw(&state, 1000), draw(&state, 2) ? "--synch" : "",
                 budgets[budget], path);
        const json_t *run = object_of(words), *memory = json_object_get(run, "memory");
        const json_t *seen = report_of(path, "");
        CU_ASSERT_EQUAL(number(seen, "measured_peak_bytes"),
                        number(memory, "measured_peak_bytes"));
        CU_ASSERT_EQUAL(number(seen, "turns"), number(run, "turns"));
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(seen, "scores")),
                               "validation accuracy");
        CU_ASSERT(json_is_null(json_object_get(seen, "damaged")));
        check_rows(seen);
        check_turns(path, bytes[budget], &all);
    }
    sw_note("%d turns: members %d times resident, %d waiting, %d kept, %d copies", all.turns,
            all.resident, all.waiting, all.kept, all.copies);
    CU_ASSERT(all.resident > 0 && all.waiting > 0 && all.kept > 0 && all.copies > 0);
}

/* Scores, values and shapes are what they are without it. */
SW_TEST("a profile changes no number")
{
    static const char words[] =
        "pbt --model mlp --hidden 8 --quiet --json --synthetic-n 200 --members 5 --steps 24 "
        "--interval 6 --memory-budget 500KiB lr=log:0.001..0.1 batch=choice:8,16";
    char with[2000];
    snprintf(with, sizeof with, "%s --profile %s", words, sw_temp_path("same.jsonl"));
    const json_t *a = object_of(words), *b = object_of(with);
    CU_ASSERT(json_equal(json_object_get(a, "population"), json_object_get(b, "population")));
    CU_ASSERT(json_equal(json_object_get(a, "memory"), json_object_get(b, "memory")));
}

/* Wherever it is killed, the file is read to the last turn that is whole. */
SW_TEST("a killed run leaves a file that is read")
{
    char path[1024], words[2000];
    int read = 0, some = 0;
    snprintf(path, sizeof path, "%s", sw_temp_path("killed.jsonl"));
    snprintf(words, sizeof words,
             "pbt --model mlp --hidden 8 --quiet --synthetic-n 200 --members 6 --steps 1000000 "
             "--interval 4 --memory-budget 500KiB --profile %s lr=log:0.001..0.1 "
             "batch=choice:8,16",
             path);
    for (int i = 0; i < (sw_tests_full() ? 20 : 4); i++) {
        (void)unlink(path);
        program_run_killed(&outcome, words, NULL, 120000u + 60000u * (unsigned)i);
        CU_ASSERT_EQUAL(outcome.signal, SIGKILL);
        if (access(path, R_OK) != 0)
            continue;
        const json_t *o = report_of(path, "");
        read++;
        CU_ASSERT(json_is_null(json_object_get(o, "status")));
        if (number(o, "turns") > 0) {
            some++;
            check_rows(o);
        }
    }
    sw_note("%d files, %d with turns", read, some);
    CU_ASSERT(read > 0 && some > 0);
}

static bool has_turn(const char *path)
{
    size_t n = 0;
    unsigned char *text = file_read(path, &n);
    const bool there = text != NULL && memmem(text, n, "\"type\":\"turn\"", 13) != NULL;
    free(text);
    return there;
}

/* Interrupted when both files have a turn, or one where they are the same: status 130. */
static void run_interrupted(const char *words, const char *path, const char *other)
{
    const pid_t pid = program_start("interrupted", words, NULL);
    for (int i = 0; i < 4000 && !(has_turn(other) && has_turn(path)); i++)
        usleep(5000);
    (void)kill(pid, SIGINT);
    sw_process_wait(&outcome, pid, "interrupted", 60);
    SW_CHECK(outcome.status == 130, "status %d: %s", outcome.status, outcome.err);
}

/* The profile of the run before is kept beside it. */
SW_TEST("a run that goes on keeps the profile before")
{
    char profile[1024], checkpoint[1024], words[4000], kept[1100];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("on.jsonl"));
    snprintf(checkpoint, sizeof checkpoint, "%s", sw_temp_path("on.checkpoint"));
    snprintf(words, sizeof words,
             "pbt --model mlp --hidden 8 --quiet --synthetic-n 200 --members 3 --steps 1000000 "
             "--interval 5 --checkpoint %s --profile %s lr=log:0.001..0.1",
             checkpoint, profile);
    run_interrupted(words, profile, profile);
    const json_t *before = report_of(profile, "");
    const json_int_t last = number(before, "last_turn");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(before, "status")), "interrupted");
    strcat(words, " --resume");
    (void)snprintf(kept, sizeof kept, "%s.before-%lld", profile, (long long)last);
    run_interrupted(words, profile, kept);
    check_rows(report_of(kept, ""));
    const json_t *after = report_of(profile, "");
    CU_ASSERT_EQUAL(number(after, "first_turn"), last + 1);
}

SW_TEST("what has no profile is refused")
{
    static const char *const words[] = {"--prove", "--replay none", "--without 1"};
    char line[2000];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(line, sizeof line, "pbt --profile %s %s lr=log:0.1..1", sw_temp_path("no"),
                 words[i]);
        program_run(&outcome, line, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2), "%s: %d %s", words[i], outcome.status,
                 outcome.err);
    }
    program_run(&outcome, "pbt --steps 4 --quiet --profile /no/such/folder/p lr=log:0.1..1",
                NULL);
    CU_ASSERT(program_failed_cleanly(&outcome, 1));
}
