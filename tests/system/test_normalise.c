/* How pixels become numbers: said in the result, in profiles and in parameters, chosen by
 * --normalise, taken from the training images otherwise; and the pace of running statistics. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL "train --quiet --synthetic-n 300 --batch 64 --steps 6 --isa base "

static const sw_outcome *run(const char *words)
{
    static sw_outcome outcome;
    program_run(&outcome, words, NULL);
    return &outcome;
}

/* The text of JSON about it; "" where that is null. */
static const char *said(const char *json)
{
    static char text[200];
    const char *at = strstr(json, "\"normalise\"");
    text[0] = '\0';
    if (at != NULL && (at = strchr(at, ':')) != NULL)
        sscanf(at, ": \"%199[^\"]\"", text);
    return text;
}

static bool read_figure(const char *json, const char *key, unsigned long long *figure)
{
    const char *at = strstr(json, key);
    return at != NULL && sscanf(at + strlen(key), " %llu", figure) == 1;
}

static bool file_says(const char *path, const char *part)
{
    size_t n;
    char *text = (char *)file_read(path, &n);
    bool found = false;
    for (size_t i = 0; text != NULL && i + strlen(part) <= n && !found; i++)
        found = memcmp(text + i, part, strlen(part)) == 0;
    free(text);
    return found;
}

static void it_is_said_everywhere(void)
{
    char words[3000];
    snprintf(words, sizeof words, SMALL "--normalise 0.5,0.25 --profile %s --save-params %s",
             path_of("p.jsonl"), path_of("p.safetensors"));
    const sw_outcome *o = run(words);
    SW_CHECK(o->status == 0 && strstr(o->out, "pixels  0.5,0.25 from --normalise") != NULL,
             "%s%s", o->out, o->err);
    CU_ASSERT(file_says(path_of("p.jsonl"), "\"normalise\":\"0.5,0.25\""));
    CU_ASSERT(file_says(path_of("p.safetensors"), "\"normalise\":\"0.5,0.25\""));
    o = run(SMALL);
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, " from the training images"));
    o = run(SMALL "--json --normalize none");
    CU_ASSERT_STRING_EQUAL(said(o->out), "none");
    o = run("train --quiet --json --model swishnet --width 8 --steps 1");
    SW_CHECK(o->status == 0 && strstr(o->out, "normalise") != NULL && *said(o->out) == '\0',
             "%s", o->out);
}

/* A report of the profile says it, and what the program's records take of the heap, which the
 * profile and the report have as one figure. */
static void a_report_says_it_too(void)
{
    char words[3000];
    unsigned long long record = 0, shown = 1;
    size_t n;
    snprintf(words, sizeof words, SMALL "--normalise 0.5,0.25 --profile %s",
             path_of("r.jsonl"));
    CU_ASSERT_EQUAL(run(words)->status, 0);
    char *profile = (char *)file_read(path_of("r.jsonl"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(profile);
    CU_ASSERT(read_figure(profile, "\"program_host_bytes\":", &record) && record > 1000);
    free(profile);
    snprintf(words, sizeof words, "report --json %s", path_of("r.jsonl"));
    const sw_outcome *o = run(words);
    CU_ASSERT_STRING_EQUAL(said(o->out), "0.5,0.25");
    SW_CHECK(read_figure(o->out, "\"program_host_bytes\":", &shown) && shown == record,
             "%llu in the profile, %llu in the report", record, shown);
    snprintf(words, sizeof words, "report %s", path_of("r.jsonl"));
    o = run(words);
    SW_CHECK(strstr(o->out, ", normalise 0.5,0.25") != NULL &&
                 strstr(o->out, "the program's records") != NULL,
             "%s", o->out);
}

/* The reported values are those that were used: given as reported, they give the same bits. */
static void what_is_said_is_what_was_used(void)
{
    static sw_outcome outcome;
    char words[400];
    static const char small[] = "--synthetic-n 300 --batch 64 --steps 6";
    const uint64_t by_itself = program_train(&outcome, small);
    snprintf(words, sizeof words, "%s --normalise %s", small, said(outcome.out));
    CU_ASSERT_EQUAL(program_train(&outcome, words), by_itself);
    snprintf(words, sizeof words, "%s --normalise auto --threads 3", small);
    CU_ASSERT_EQUAL(program_train(&outcome, words), by_itself);
    snprintf(words, sizeof words, "%s --normalise none", small);
    const uint64_t plain = program_train(&outcome, words);
    CU_ASSERT_NOT_EQUAL(plain, by_itself);
    snprintf(words, sizeof words, "%s --normalise 0,1", small);
    CU_ASSERT_EQUAL(program_train(&outcome, words), plain);
}

static void parameters_bring_theirs(void)
{
    char words[3000];
    snprintf(words, sizeof words, SMALL "--normalise 0.123456789,0.3 --save-params %s",
             path_of("p.safetensors"));
    CU_ASSERT_EQUAL(run(words)->status, 0);
    snprintf(words, sizeof words, SMALL "--json --load-params %s", path_of("p.safetensors"));
    const sw_outcome *o = run(words);
    SW_CHECK(strcmp(said(o->out), "0.12345679,0.3") == 0 && o->err[0] == '\0', "%s%s",
             said(o->out), o->err);
    snprintf(words, sizeof words, SMALL "--json --normalise auto --load-params %s",
             path_of("p.safetensors"));
    o = run(words);
    SW_CHECK(strcmp(said(o->out), "0.12345679,0.3") != 0 &&
                 strstr(o->err, "was trained with --normalise 0.12345679,0.3") != NULL,
             "%s%s", said(o->out), o->err);
}

/* No plan depends on the numbers, so none reads the images. */
static void plans_do_not_depend_on_it(void)
{
    const double peak = program_number(run("plan --json")->out, "predicted_peak_bytes");
    CU_ASSERT(peak > 0.0);
    CU_ASSERT_EQUAL(
        program_number(run("plan --json --normalise none")->out, "predicted_peak_bytes"), peak);
    CU_ASSERT_EQUAL(
        program_number(run("plan --json --normalise 0.1,2")->out, "predicted_peak_bytes"),
        peak);
}

static void colours_have_numbers_by_channel(void)
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    char words[3000];
    const char *folder = sw_data_path("cifar10-mini");
    if (folder == NULL)
        SW_SKIP("the small CIFAR-10 is not here");
    const char *const small = "train --quiet --json --model mlp --hidden 8 --steps 1";
    snprintf(words, sizeof words, "%s --data cifar:%s", small, folder);
    const sw_outcome *o = run(words);
    SW_CHECK(strcmp(said(o->out), "0.4911/0.4816/0.445,0.2459/0.2427/0.2611") == 0, "%s%s",
             said(o->out), o->err);
    snprintf(words, sizeof words, "%s --data cifar:%s --normalise 0.1/0.2,1/1", small, folder);
    o = run(words);
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "2 channels") != NULL, "%s",
             o->err);
    snprintf(words, sizeof words, "%s --data cifar:%s --normalise 0.5,0.25", small, folder);
    CU_ASSERT_EQUAL(run(words)->status, 0);
}

static void what_cannot_be_is_refused(void)
{
    static const char *const bad[] = {
        "mean",  "0.5",  "0.5,",  ",0.5",  "0.5,0",  "0.5,-1",      "0.5,nan", "1,2,3",
        "1/2,3", "1/,2", "inf,1", "0x1,1", "1e39,1", "1/2/3/4/5,1", "1,1e-45", "3e38,0.1"};
    char words[400];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(words, sizeof words, SMALL "--normalise %s", bad[i]);
        const sw_outcome *o = run(words);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "--normalise") != NULL,
                 "%s: status %d: %s", bad[i], o->status, o->err);
    }
    const sw_outcome *o = run("plan --model swishnet --normalise auto");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "no images") != NULL, "%s", o->err);
}

/* ---- running statistics ------------------------------------------------------------------ */

/* `more`; the quick network is shallower, its images smaller. */
static const char *norm(const char *more)
{
    static char words[200];
    snprintf(words, sizeof words, "--model mbconv --width-factor 0.25 %s --epochs 3 %s",
             sw_tests_full() ? "--synthetic-n 400 --batch 20 --depth-factor 0.25"
                             : "--synthetic-n 240 --batch 12 --depth-factor 0.1 --image-size "
                               "12 --width-factor 0.125",
             more);
    return words;
}

/* With 0.01 the statistics of 60 steps are those of the beginning, and the test set is guessed.
 */
static void running_statistics_keep_up(void)
{
    static sw_outcome outcome;
    const uint64_t usual = program_train(&outcome, norm(""));
    const double accuracy = program_number(outcome.out, "test_accuracy");
    CU_ASSERT_NOT_EQUAL(program_train(&outcome, norm("--bn-momentum 0.01")), usual);
    const double slow = program_number(outcome.out, "test_accuracy");
    SW_CHECK(accuracy > slow + 0.2, "accuracy %g, with 0.01 %g", accuracy, slow);
    const uint64_t few = program_train(&outcome, norm("--steps 2"));
    CU_ASSERT_EQUAL(program_train(&outcome, norm("--steps 2 --bn-momentum 0.1")), few);
    CU_ASSERT_NOT_EQUAL(program_train(&outcome, norm("--steps 2 --bn-momentum 0.2")), few);
    sw_note("accuracy %.3f, with --bn-momentum 0.01 %.3f", accuracy, slow);
    for (int i = 0; i < 2; i++) {
        const sw_outcome *o = run(i == 0 ? "plan --model mbconv --bn-momentum 0"
                                         : "plan --model mbconv --bn-momentum 1.5");
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "--bn-momentum") != NULL, "%s",
                 o->err);
    }
    CU_ASSERT_EQUAL(run("plan --bn-momentum 0.1")->status, 2);
}

static const sw_test tests[] = {
    {"it is said everywhere", it_is_said_everywhere},
    {"a report says it too, and what a program's records take", a_report_says_it_too},
    {"what is said is what was used", what_is_said_is_what_was_used},
    {"parameters bring theirs", parameters_bring_theirs},
    {"plans do not depend on it", plans_do_not_depend_on_it},
    {"colours have numbers by channel", colours_have_numbers_by_channel},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"running statistics keep up with few steps", running_statistics_keep_up},
};
SW_SUITE("normalise", tests)
