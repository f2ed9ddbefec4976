/* The command line as people type it: what cannot mean anything is refused before anything
 * runs, and closed or broken streams cost no file. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if SW_HAVE_JANSSON
#include <jansson.h>
#endif

#define SMALL "train --quiet --synthetic-n 40 --batch 16 --steps 2 "

/* Arguments of `stepwell`, the status, and a part of the one line that says why. */
static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"trian", 2, "did you mean train?"},
    {"--verison", 2, "did you mean --version?"},
    {"bench spede", 2, "did you mean speed?"},
    {"train --batc 3", 2, "did you mean --batch?"},
    {"train --batch 0", 2, "from 1 to"},
    {"train --batch 10x", 2, "'10x'"},
    {"train --batch", 2, "wants a value"},
    {"train --profile --json", 2, "--profile wants a value"},
    {"train --profile=", 2, "--profile wants a value"},
    {"train --profile -", 2, "standard output"},
    {"train --profile same --load-params same", 2, "same file"},
    {"train --threads 257", 2, "from 1 to 256"},
    {"train --lr nan", 2, "--lr wants a number"},
    {"train --lr 1e39", 2, "--lr wants a number"},
    {"train --lr 0x1p3", 2, "--lr wants a number"},
    {"train --memory-budget 0", 2, "--memory-budget wants a size"},
    {"train --memory-budget 0x10MiB", 2, "--memory-budget wants a size"},
    {"train --memory-budget 99999999999GiB", 2, "below 8 EiB"},
    {"train --hidden 8", 2, "without --model mlp"},
    {"train --momentum 0.5", 2, "without --optimizer momentum"},
    {"train --data idx:here --synthetic-n 8", 2, "without --data synthetic"},
    {"train --lr-every 3", 2, "without --schedule step"},
    {"train --lr-gamma 0.5", 2, "without --schedule step"},
    {"train --warmup 3 --schedule constant", 2, "without --schedule cosine"},
    {"train --steps 5 --warmup 5", 2, "fewer than the 5 steps"},
    {"train --witness --immediate", 2, "exclude each other"},
    {"train --release --clip 1", 2, "exclude each other"},
    {"train --device tpu", 2, "tpu"},
    {"train --device sim", 5, "sim"},
    {"train --epochs 1000000 --save-params /nowhere/at/all", 1, "--save-params /nowhere"},
    {"train --epochs 1000000 --save-params /", 1, "--save-params /"},
    {"train --model mlp --hidden 1048576,1048576", 4, "this machine has"},
    {"plan --fit 1MiB", 2, "not built yet"},
    {"report", 2, "a profile is wanted"},
    {"report --format csv x", 2, "text, json"},
#if SW_HAVE_JANSSON
    {"report /nowhere/at/all", 3, "/nowhere/at/all: "},
#else
    {"report /nowhere/at/all", 1, "built without jansson"},
#endif
};

static void what_means_nothing_is_refused_in_one_line(void)
{
    static sw_outcome outcome;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "'%s': status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
}

static void a_message_is_one_line_whatever_was_typed(void)
{
    static sw_outcome outcome;
    const char *const argv[] = {program_path(), "train", "--batch", "1\n2\033[2J", NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(program_failed_cleanly(&outcome, 2) && strchr(outcome.err, '\033') == NULL,
             "status %d: %s", outcome.status, outcome.err);
}

#if SW_HAVE_JANSSON
/* Every line of a profile is a record, and the last one is the end. */
static void check_lines(const char *path)
{
    size_t n;
    char last[32] = "";
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *record = json_loads(line, 0, NULL);
        const char *type = json_string_value(json_object_get(record, "type"));
        SW_CHECK(type != NULL, "%.100s", line);
        snprintf(last, sizeof last, "%s", type != NULL ? type : "");
        json_decref(record);
    }
    CU_ASSERT_STRING_EQUAL(last, "end");
    free(text);
}

/* The first file that is opened must not become standard output. */
static void closed_streams_do_not_end_up_in_files(void)
{
    char profile[1024];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("closed"));
    CU_ASSERT_EQUAL(
        sw_shell("exec '%s' " SMALL "--profile '%s' >&- 2>&-", program_path(), profile), 1);
    check_lines(profile);
}

static void a_report_says_that_a_pipe_will_not_do(void)
{
    if (access("/dev/stdin", R_OK) != 0)
        SW_SKIP("/dev/stdin leads nowhere");
    CU_ASSERT_EQUAL(sw_shell("'%s' report /dev/stdin </dev/null", program_path()), 3);
    CU_ASSERT_EQUAL(
        sw_shell("true | '%s' report /dev/stdin 2>&1 | grep -q 'no pipe'", program_path()), 0);
}

static void a_reader_that_goes_away_costs_no_profile(void)
{
    char profile[1024];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("piped"));
    CU_ASSERT_EQUAL(sw_shell("'%s' train --synthetic-n 40 --batch 16 --epochs 50 --profile "
                             "'%s' 2>&1 | head -1 | grep -q epoch",
                             program_path(), profile),
                    0);
    check_lines(profile);
}

static void a_file_at_its_limit_fails_with_one_line(void)
{
    static sw_outcome outcome;
    char profile[1024], line[4096];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("limited"));
    snprintf(line, sizeof line, "ulimit -f 16; exec '%s' " SMALL "--epochs 50 --profile '%s'",
             program_path(), profile);
    const char *const argv[] = {"/bin/sh", "-c", line, NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(outcome.status == 1 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, profile) != NULL,
             "status %d, signal %d: %s", outcome.status, outcome.signal, outcome.err);
}

/* total_bytes of a plan for 64 images. */
static long long planned(long long batch)
{
    static sw_outcome outcome;
    char words[200];
    snprintf(words, sizeof words, "plan --json --synthetic-n 64 --batch %lld", batch);
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out, 0, NULL);
    const long long total = json_integer_value(json_object_get(root, "total_bytes"));
    json_decref(root);
    return total;
}

static void a_batch_larger_than_the_data_takes_no_more(void)
{
    CU_ASSERT(planned(64) > 0);
    CU_ASSERT_EQUAL(planned(1000000), planned(64));
}
#endif

static const sw_test tests[] = {
    {"what means nothing is refused in one line that says why",
     what_means_nothing_is_refused_in_one_line},
    {"a message is one line, whatever was typed", a_message_is_one_line_whatever_was_typed},
#if SW_HAVE_JANSSON
    {"closed streams do not end up in files", closed_streams_do_not_end_up_in_files},
    {"a report says that a pipe will not do", a_report_says_that_a_pipe_will_not_do},
    {"a reader that goes away costs no profile", a_reader_that_goes_away_costs_no_profile},
    {"a file at its limit fails with one line", a_file_at_its_limit_fails_with_one_line},
    {"a batch larger than the data takes no more", a_batch_larger_than_the_data_takes_no_more},
#endif
};
SW_SUITE("usage", tests)
