/* The results of `stepwell train`: it learns, the accuracy counts what is right, and options
 * that leave every bit do their work. Parameters by option are in transcripts/train.txt. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <inttypes.h>
#include <unistd.h>

SW_TESTS("train")

static sw_outcome outcome;

/* The hash of the parameters that training by `words` saves. The JSON is in outcome.out. */
static uint64_t train(const char *words)
{
    return program_train(&outcome, words);
}

/* ---- learning ---------------------------------------------------------------------------- */

static void learns(const char *words)
{
    (void)train(words);
    const double loss = program_number(outcome.out, "final_loss");
    const double accuracy = program_number(outcome.out, "test_accuracy");
    SW_CHECK(loss < 0.1, "%s: loss %g in the last step", words, loss);
    SW_CHECK(accuracy > 0.95 && accuracy <= 1.0, "%s: accuracy %g", words, accuracy);
}

static void learns_by(const char *optimizer)
{
    learns(sw_textf(
        "--model mlp --hidden 32 --synthetic-n 1000 --batch 50 --epochs 6 --optimizer %s",
        optimizer));
}

SW_TEST("training learns, with every optimizer")
{
    for (size_t i = 0; sw_optimizer_kind(i) != NULL; i++)
        learns_by(sw_optimizer_kind(i));
    learns_by("momentum");
    learns_by("nesterov");
    learns("--synthetic-n 1000 --batch 50 --epochs 5 --threads 2");
}

/* Real digits, where the data set is. */
SW_TEST("LeNet5 learns MNIST", .full = true)
{
    const char *folder = sw_data_path("mnist");
    if (folder == NULL)
        SW_SKIP("no data set mnist");
    (void)train(sw_textf("--data idx:%s --batch 128 --epochs 1 --threads 2", folder));
    if (strstr(outcome.err, "zlib is off") != NULL)
        SW_SKIP("built without zlib");
    const double accuracy = program_number(outcome.out, "test_accuracy");
    SW_CHECK(accuracy > 0.97, "accuracy %g after one epoch", accuracy);
    sw_note("MNIST: %.2f %% of the test images after one epoch", 100.0 * accuracy);
}

/* Ten label files that differ by a turn of all labels: each image is right under exactly one of
 * them, so the shares of ten runs add up to one. The last batch of four is smaller. */
SW_TEST("an image is right under one of ten labels")
{
    enum { IMAGES = 80, TESTS = IMAGES / 2 };
    idx_set set;
    double right = 0.0;
    const char *folder = sw_temp_path("turned");
    idx_make(&set, IMAGES);
    for (int i = 0; i < IMAGES; i++)
        set.file[TRAIN_LABELS].bytes[8 + i] = (unsigned char)(i % 10);
    const char *words = sw_textf(
        "--model mlp --hidden 16 --data idx:%s --batch 12 --steps 3 --epochs 5", folder);
    for (int turn = 0; turn < 10; turn++) {
        for (int i = 0; i < TESTS; i++)
            set.file[TEST_LABELS].bytes[8 + i] = (unsigned char)((i * 7 + turn) % 10);
        idx_write(&set, folder);
        (void)train(words);
        const double rows = TESTS * program_number(outcome.out, "test_accuracy");
        SW_CHECK(fabs(rows - round(rows)) < 1e-9, "%g images of %d", rows, TESTS);
        right += rows;
    }
    idx_free(&set);
    SW_CHECK(fabs(right - TESTS) < 1e-6, "%g of %d images in ten runs", right, TESTS);
}

/* ---- options ----------------------------------------------------------------------------- */

#define DIGITS "--synthetic-n 150 --steps 8 --epochs 4 "
#define SMALL DIGITS "--model mlp --hidden 16 --batch 32 "

/* Whether a profile of a run by `words` has times of single ops. */
static bool times_ops(const char *words)
{
    size_t n;
    const char *path = sw_temp_path("profile");
    (void)train(sw_textf("%s--profile %s", words, path));
    char *text = (char *)file_read(path, &n);
    CU_ASSERT(text != NULL && strstr(text, "\"type\":\"step\"") != NULL);
    const bool found = text != NULL && strstr(text, "\"op_ns\":[") != NULL;
    free(text);
    return found;
}

/* Calls of a kind that the fault counters saw; -1 when they did not say. */
static long calls(const char *words, const char *kind)
{
    const char *line = sw_textf("train --json --quiet %s", words);
    program_run(&outcome, line, sw_textf("STEPWELL_FAULT=%s:count", kind));
    const char *mark = sw_textf(" %s ", kind);
    const char *at = strstr(outcome.err, "fault sites:");
    at = at != NULL ? strstr(at, mark) : NULL;
    return at != NULL ? strtol(at + strlen(mark), NULL, 10) : -1;
}

/* The least time of a step in ns, of this run and of those before. */
static double least_step(const char *words, double before)
{
    (void)train(words);
    return fmin(program_number(outcome.out, "min_step_ns"), before);
}

/* They leave the bits and still do something. */
SW_TEST("options that leave the bits do their work")
{
    (void)train(SMALL "--update after");
    const double peak = program_number(outcome.out, "predicted_peak_bytes");
    const char *step = strstr(outcome.out, "\"step\":");
    CU_ASSERT_FATAL(step != NULL && peak > 0);
    CU_ASSERT(program_number(step, "peak_bytes") > 0);

    (void)train(SMALL);
    step = strstr(outcome.out, "\"step\":");
    CU_ASSERT_PTR_NOT_NULL_FATAL(step);
    CU_ASSERT_EQUAL(program_number(step, "peak_bytes"), 0); /* updates count as backward */
    CU_ASSERT(program_number(outcome.out, "predicted_peak_bytes") < peak);

    (void)train(SMALL "--immediate");
    CU_ASSERT(program_number(outcome.out, "measured_peak_bytes") > peak);
    CU_ASSERT(program_number(outcome.out, "bump_bytes") > 0);
    CU_ASSERT_EQUAL(program_number(outcome.out, "bump_bytes"),
                    program_number(outcome.out, "immediate_bytes"));

    CU_ASSERT(times_ops(SMALL "--op-clocks ") && !times_ops(SMALL));

    const long one = calls(SMALL, "thread"), four = calls(SMALL "--threads 4", "thread");
    SW_CHECK(one >= 0 && four == one + 3, "%ld threads are started, %ld with --threads 4", one,
             four);

    /* A step of one image and one unit takes less than tracing it again. Least times of runs
     * that take turns: other work on the machine only adds. */
#define LEAST "--model mlp --hidden 1 --synthetic-n 400 --batch 1"
    double plain = HUGE_VAL, checked = HUGE_VAL;
    for (int i = 0; i < 6; i++) {
        plain = least_step(LEAST, plain);
        checked = least_step(LEAST " --checks", checked);
    }
    SW_CHECK(plain > 0 && checked > 1.4 * plain, "%g ns a step, %g ns with --checks", plain,
             checked);
}
