/* The results of `stepwell train`: it learns, the accuracy counts what is right, each option
 * does what it says - to the parameters or, bit for bit, not to them - and files hold what was
 * trained. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 40 /* files of parameters that one test compares */

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
    char words[200];
    snprintf(words, sizeof words,
             "--model mlp --hidden 32 --synthetic-n 1000 --batch 50 --epochs 6 --optimizer %s",
             optimizer);
    learns(words);
}

static void training_learns(void)
{
    for (size_t i = 0; sw_optimizer_kind(i) != NULL; i++)
        learns_by(sw_optimizer_kind(i));
    learns_by("momentum");
    learns_by("nesterov");
    learns("--synthetic-n 1000 --batch 50 --epochs 5 --threads 2");
}

/* Real digits, where the data set is. */
static void lenet5_learns_mnist(void)
{
    char words[1200];
    const char *folder = sw_data_path("mnist");
    if (folder == NULL)
        SW_SKIP("no data set mnist");
    snprintf(words, sizeof words, "--data idx:%s --batch 128 --epochs 1 --threads 2", folder);
    (void)train(words);
    if (strstr(outcome.err, "zlib is off") != NULL)
        SW_SKIP("built without zlib");
    const double accuracy = program_number(outcome.out, "test_accuracy");
    SW_CHECK(accuracy > 0.97, "accuracy %g after one epoch", accuracy);
    sw_note("MNIST: %.2f %% of the test images after one epoch", 100.0 * accuracy);
}

/* Ten label files that differ by a turn of all labels: each image is right under exactly one of
 * them, so the shares of ten runs add up to one. The last batch of four is smaller. */
static void every_image_is_right_once(void)
{
    enum { IMAGES = 80, TESTS = IMAGES / 2 };
    idx_set set;
    char words[1200], folder[1024];
    double right = 0.0;
    snprintf(folder, sizeof folder, "%s", sw_temp_path("turned"));
    idx_make(&set, IMAGES);
    for (int i = 0; i < IMAGES; i++)
        set.file[TRAIN_LABELS].bytes[8 + i] = (unsigned char)(i % 10);
    snprintf(words, sizeof words,
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

/* No two of these may leave the same parameters. */
static const char *const different[] = {
    SMALL,
    SMALL "--lr 0",
    SMALL "--lr 0.001",
    SMALL "--seed 2",
    SMALL "--weight-decay 0.1",
    SMALL "--clip 0.01",
    SMALL "--schedule constant",
    SMALL "--schedule step",
    SMALL "--schedule step --lr-every 2",
    SMALL "--schedule step --lr-gamma 0.5",
    SMALL "--warmup 3",
    SMALL "--lr-floor 0.001",
    SMALL "--schedule constant --warmup 3",
    SMALL "--schedule linear",
    SMALL "--schedule linear --lr-floor 0.001",
    SMALL "--schedule exponential",
    SMALL "--schedule exponential --lr-every 2",
    SMALL "--schedule exponential --lr-gamma 0.5",
    SMALL "--schedule step --lr-floor 0.001",
    SMALL "--schedule one_cycle",
    SMALL "--schedule one_cycle --warmup 3",
    SMALL "--optimizer rmsprop",
    SMALL "--optimizer rmsprop --momentum 0.5",
    SMALL "--optimizer adagrad",
    SMALL "--optimizer lion",
    SMALL "--optimizer adafactor",
    SMALL "--optimizer adafactor --clip 0.01",
    SMALL "--optimizer adamw --weight-decay 0.1",
    SMALL "--optimizer sgd",
    SMALL "--optimizer sgd --weight-decay 0.1",
    SMALL "--optimizer sgd --clip 0.01",
    SMALL "--optimizer sgd --lr 0.02",
    SMALL "--optimizer momentum",
    SMALL "--optimizer momentum --momentum 0.5",
    SMALL "--optimizer momentum --weight-decay 0.1",
    SMALL "--optimizer nesterov",
    SMALL "--optimizer nesterov --momentum 0.5",
    SMALL "--optimizer nesterov --clip 0.01",
    "--synthetic-n 150 --steps 7 --model mlp --hidden 16 --batch 32",
    "--synthetic-n 150 --epochs 1 --model mlp --hidden 16 --batch 32",
    "--synthetic-n 151 --steps 8 --model mlp --hidden 16 --batch 32",
    DIGITS "--model mlp --hidden 16 --batch 31",
    DIGITS "--model mlp --hidden 15 --batch 32",
    DIGITS "--model mlp --hidden 16,16 --batch 32",
    DIGITS "--batch 32",
    DIGITS "--batch 32 --seed 2",
    DIGITS "--batch 32 --optimizer nesterov --clip 0.1",
};

static void options_change_what_is_trained(void)
{
    enum { N = sizeof different / sizeof *different };
    uint64_t hash[N];
    for (size_t i = 0; i < N; i++) {
        hash[i] = train(different[i]);
        for (size_t k = 0; k < i; k++)
            SW_CHECK(hash[i] != hash[k] || hash[i] == 0, "the same parameters: %s | %s",
                     different[k], different[i]);
    }
}

/* Bit for bit the same parameters as without the option. */
static void options_that_leave_the_bits(void)
{
    static const char *const bases[] = {
        SMALL,
        DIGITS "--batch 32 --optimizer momentum --weight-decay 0.01 ",
        DIGITS "--batch 32 ",
        DIGITS "--batch 150 --optimizer nesterov --model mlp --hidden 40,30 ",
        DIGITS "--batch 64 --optimizer sgd --schedule step --lr-every 3 ",
        DIGITS "--batch 17 --optimizer adamw --weight-decay 0.1 --warmup 2 "};
    static const char *const same[] = {"",
                                       "--threads 2",
                                       "--threads 5",
                                       "--update after",
                                       "--immediate",
                                       "--immediate --update after",
                                       "--checks",
                                       "--witness",
                                       "--memory-budget 1GiB"};
    const size_t n = sw_tests_full() ? sizeof bases / sizeof *bases : 2;
    char words[1400];
    for (size_t i = 0; i < n; i++) {
        const uint64_t base = train(bases[i]);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            snprintf(words, sizeof words, "%s%s", bases[i], same[k]);
            SW_CHECK(train(words) == base, "%s: not the same bits with '%s'", bases[i],
                     same[k]);
        }
        snprintf(words, sizeof words, "%s--op-clocks --profile %s", bases[i],
                 sw_temp_path("clocks"));
        SW_CHECK(train(words) == base, "%s: not the same bits with a profile", bases[i]);
    }
}

/* Whether a profile of a run by `words` has times of single ops. */
static bool times_ops(const char *words)
{
    char line[3000], path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s", sw_temp_path("profile"));
    snprintf(line, sizeof line, "%s--profile %s", words, path);
    (void)train(line);
    char *text = (char *)file_read(path, &n);
    CU_ASSERT(text != NULL && strstr(text, "\"type\":\"step\"") != NULL);
    const bool found = text != NULL && strstr(text, "\"op_ns\":[") != NULL;
    free(text);
    return found;
}

/* Calls of a kind that the fault counters saw; -1 when they did not say. */
static long calls(const char *words, const char *kind)
{
    char line[400], plan[64], mark[32];
    snprintf(line, sizeof line, "train --json --quiet %s", words);
    snprintf(plan, sizeof plan, "STEPWELL_FAULT=%s:count", kind);
    program_run(&outcome, line, plan);
    snprintf(mark, sizeof mark, " %s ", kind);
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
static void options_that_leave_the_bits_do_their_work(void)
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

static bool has_avx2(void)
{
    char line[4096];
    FILE *file = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, "flags", 5) == 0 && strstr(line, " avx2") != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

/* ---- bits -------------------------------------------------------------------------------- */

/* The plain kernels round alike with every compiler, heap and machine: what they train is known
 * beforehand. A change here is a change of results, and has to be meant. The other instruction
 * sets have bits of their own. */
static void the_plain_kernels_train_known_bits(void)
{
    static const struct {
        const char *words;
        uint64_t hash;
    } known[] = {
        {"--model mlp --hidden 32,16 --synthetic-n 300 --batch 64 --steps 12 --epochs 3",
         0x44572adf0b99ab1fu},
        {"--synthetic-n 300 --batch 64 --steps 12 --epochs 3", 0x3f0df366657a36f4u},
        {"--model mlp --hidden 24 --synthetic-n 200 --batch 50 --steps 9 --epochs 3 "
         "--optimizer nesterov --weight-decay 0.01 --clip 1 --schedule step",
         0x8ad5a08f682f8e75u},
        {"--synthetic-n 200 --batch 48 --steps 9 --epochs 3 --optimizer sgd --seed 7 "
         "--threads 3",
         0x2e693a2f4176d4d9u},
    };
    char words[400];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(words, sizeof words, "%s --isa base", known[i].words);
        const uint64_t hash = train(words);
        SW_CHECK(hash == known[i].hash, "%s: 0x%016" PRIx64 "u", words, hash);
        if (has_avx2()) {
            snprintf(words, sizeof words, "%s --isa avx2", known[i].words);
            SW_CHECK(train(words) != hash, "%s: the bits of the plain kernels", words);
        }
    }
}

/* ---- files ------------------------------------------------------------------------------- */

/* Trained, saved, loaded, not trained, saved: the same file, and the same accuracy. */
static void saved_parameters_come_back(void)
{
    static const char *const models[] = {SMALL, DIGITS "--batch 32 --optimizer sgd ",
                                         SMALL "--optimizer nesterov --schedule constant ",
                                         DIGITS "--batch 50 --update after "};
    char path[2][1024], words[3000];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        for (int k = 0; k < 2; k++)
            snprintf(path[k], sizeof path[k], "%s", sw_temp_path(k == 0 ? "first" : "second"));
        snprintf(words, sizeof words, "train --json --quiet %s--save-params %s", models[i],
                 path[0]);
        program_run(&outcome, words, NULL);
        const double accuracy = program_number(outcome.out, "test_accuracy");
        SW_CHECK(outcome.status == 0, "%s: %s", words, outcome.err);
        snprintf(words, sizeof words,
                 "train --json --quiet %s--load-params %s --lr 0 --seed 9 --save-params %s",
                 models[i], path[0], path[1]);
        program_run(&outcome, words, NULL);
        SW_CHECK(outcome.status == 0, "%s: %s", words, outcome.err);
        CU_ASSERT_EQUAL(program_number(outcome.out, "test_accuracy"), accuracy);
        SW_CHECK(sw_shell("cmp '%s' '%s'", path[0], path[1]) == 0,
                 "%s: another file after --lr 0", models[i]);
        /* And from there training goes on elsewhere than from the first parameters. */
        snprintf(words, sizeof words, "%s--load-params %s", models[i], path[0]);
        const uint64_t further = train(words);
        CU_ASSERT(further != program_tensors(path[0]));
        CU_ASSERT(further != train(models[i]));
    }
}

static const sw_test tests[] = {
    {"training learns, with every optimizer", training_learns},
    {"LeNet5 learns MNIST", lenet5_learns_mnist, .full = true},
    {"an image is right under one of ten labels", every_image_is_right_once},
    {"options change what is trained", options_change_what_is_trained},
    {"threads, plans, checks and profiles leave every bit", options_that_leave_the_bits},
    {"options that leave the bits do their work", options_that_leave_the_bits_do_their_work},
    {"the plain kernels train known bits", the_plain_kernels_train_known_bits},
    {"saved parameters come back as they were", saved_parameters_come_back},
};
SW_SUITE("train", tests)
