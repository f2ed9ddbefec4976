/* Recorded trainings in every format: models, planned and op by op, with and without clocks and
 * logs. */
#include "tests/sinks/expect.h"

#include "tests/support/process.h"
#include "profiler/inspect/profile_read.h"

SW_TESTS("real")

/* Trains with these words; the profile's path. NULL: it did not work. */
static const char *train(const char *words)
{
    static char profile[1024], program[1024], text[1024];
    static sw_outcome out;
    const char *argv[64] = {program, "train", "--quiet", "--profile", profile};
    size_t n = 5;
    char *rest = text;
    snprintf(program, sizeof program, "%s/tools/stepwell", sw_build_root());
    snprintf(profile, sizeof profile, "%s", sw_temp_path("real.jsonl"));
    snprintf(text, sizeof text, "%s", words);
    for (char *word; n < 63 && (word = strtok_r(rest, " ", &rest)) != NULL;)
        argv[n++] = word;
    sw_process_run(&out, argv, NULL, 60);
    SW_CHECK(out.status == 0, "%s: %s", words, out.err);
    return out.status == 0 ? profile : NULL;
}

/* The highest point of all runs is the peak of the program that the report is about. */
static void check_profile(const char *words)
{
    const char *path = train(words);
    sw_timeline *t = NULL;
    expected x;
    if (path == NULL)
        return;
    const sw_status status = timeline_open(&t, path, NULL);
    SW_CHECK(status == SW_OK, "%s: %s", words, sw_last_error());
    if (status != SW_OK)
        return;
    check_all(t, words);
    expect(&x, t);
    const sw_tl_program *p = sw_timeline_peak(t);
    SW_CHECK(t->n_runs > 0 && p != NULL && x.n_slices > 100 && x.max_live == p->peak_bytes,
             "%s: %zu slices, %llu bytes at most", words, x.n_slices,
             (unsigned long long)x.max_live);
    expect_free(&x);
    sw_timeline_free(t);
}

static const char *gpt_words(const char *more)
{
    static char words[1400];
    char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("text.txt"));
    FILE *f = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "the quick brown fox %d jumps over; the lazy dog\n", i);
    CU_ASSERT_EQUAL(fclose(f), 0);
    snprintf(words, sizeof words,
             "--model gpt --layers 2 --width 32 --heads 2 --context 16 --data text:%s --batch "
             "2 --steps 3 %s",
             path, more);
    return words;
}

#define MLP "--model mlp --hidden 20,12 --batch 8 --synthetic-n 64 --steps 4 "
#define LENET "--model lenet5 --batch 8 --synthetic-n 64 --steps 4 "

SW_TEST("planned runs read back")
{
    check_profile(MLP);
    check_profile(MLP "--accumulate 2 --keep-gradients");
    check_profile(LENET);
    check_profile(LENET "--op-clocks");
    check_profile(gpt_words(""));
    check_profile(gpt_words("--op-clocks --update after"));
}

SW_TEST("runs with their events read back")
{
    check_profile(MLP "--profile-events");
    check_profile(LENET "--profile-events --accumulate 2");
    check_profile(gpt_words("--profile-events"));
}

SW_TEST("runs op by op read back")
{
    check_profile(MLP "--immediate --profile-events");
    check_profile(LENET "--immediate --profile-events --keep-gradients");
    check_profile(gpt_words("--immediate --profile-events"));
    check_profile(LENET "--immediate");
}
