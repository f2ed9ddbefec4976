/* The model resnet9 through the program: it trains as planned and learns photographs, its width
 * changes the network, and what it cannot do is refused by name. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <string.h>

#define SMALL "--quiet --json --model resnet9 --width-factor 0.125 "
#define FEW SMALL "--synthetic-n 40 --batch 20 --optimizer sgd "

static const sw_outcome *run(const char *words)
{
    static sw_outcome outcome;
    program_run(&outcome, words, NULL);
    return &outcome;
}

static double number(const char *words, const char *name)
{
    const sw_outcome *o = run(words);
    SW_CHECK(o->status == 0, "%s: status %d: %s", words, o->status, o->err);
    return program_number(o->out, name);
}

static void it_trains_as_planned(void)
{
    static const char *const jobs[] = {
        FEW "--threads 2 --activation swish", SMALL
        "--synthetic-n 8 --batch 4 --witness --width-factor 0.0625 --memory-budget 700000"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char words[400];
        snprintf(words, sizeof words, "train %s", jobs[i]);
        const sw_outcome *o = run(words);
        SW_CHECK(o->status == 0, "%s: status %d: %s", words, o->status, o->err);
        const double planned = program_number(o->out, "predicted_peak_bytes");
        CU_ASSERT(planned > 0.0);
        CU_ASSERT_EQUAL(program_number(o->out, "measured_peak_bytes"), planned);
        CU_ASSERT_EQUAL(program_number(o->out, "allocations_after_warmup"), 0.0);
    }
}

static void threads_change_no_bit(void)
{
    const double one = number("train " FEW "--threads 1", "final_loss");
    CU_ASSERT_EQUAL(number("train " FEW "--threads 3", "final_loss"), one);
    CU_ASSERT_NOT_EQUAL(number("train " FEW "--seed 2", "final_loss"), one);
}

/* By backprop, in one epoch; one in ten is right by chance. */
static void it_learns_photographs(void)
{
    char words[600];
    const char *folder = sw_data_path("cifar10-mini");
    if (folder == NULL)
        SW_SKIP("no cifar10-mini");
    if (!SW_HAVE_ZLIB)
        SW_SKIP("the images are compressed, and this build has no zlib");
    snprintf(words, sizeof words,
             "train " SMALL
             "%s --data cifar:%s --batch 32 --threads 2 --optimizer adam --lr 0.002",
             sw_tests_full() ? "--epochs 3" : "--epochs 1 --width-factor 0.0625", folder);
    const double right = number(words, "test_accuracy");
    SW_CHECK(right > (sw_tests_full() ? 0.45 : 0.28), "test accuracy %g", right);
}

/* Convolutions 3 x 3 without bias, two numbers for each channel of a norm, the last layer. */
static size_t elements(const int *channels, int n, int in)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (size_t)channels[i] * (size_t)(in * 9 + 2);
        in = channels[i];
    }
    return sum + (size_t)in * 10 + 10;
}

static void its_width_is_that_of_the_paper_times_a_factor(void)
{
    static const int whole[] = {64, 128, 128, 128, 256, 512, 512, 512};
    int half[8];
    for (int i = 0; i < 8; i++)
        half[i] = whole[i] / 2;
    const struct {
        const char *words;
        size_t elements;
    } cases[] = {{"", elements(whole, 8, 1)}, {"--width-factor 0.5", elements(half, 8, 1)}};
    for (size_t i = 0; i < 2; i++) {
        char words[300];
        snprintf(words, sizeof words,
                 "plan --quiet --json --model resnet9 --synthetic-n 8 --batch 4 --optimizer "
                 "sgd %s",
                 cases[i].words);
        const double bytes = number(words, "model_bytes");
        const double least = (double)cases[i].elements * 4.0;
        SW_CHECK(bytes >= least && bytes < least + 65536.0, "%s: %.0f bytes, %.0f elements",
                 words, bytes, least / 4.0);
    }
}

static void what_it_cannot_do_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"train --model resnet9 --width-factor 0 --steps 1", "at most 64 (got 0)"},
        {"plan --model resnet9 --width-factor 65", "at most 64 (got 65)"},
        {"plan --model resnet9 --bn-momentum 0", "--bn-momentum"},
        {"plan --model resnet9 --depth-factor 2", "--depth-factor"},
        {"plan --model mlp --width-factor 2", "mbconv or resnet9"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_outcome *o = run(bad[i].words);
        SW_CHECK(o->status == 2, "%s: status %d", bad[i].words, o->status);
        SW_CHECK(o->out[0] == '\0' && strstr(o->err, bad[i].says) != NULL, "%s: %s",
                 bad[i].words, o->err);
    }
}

static const sw_test tests[] = {
    {"resnet9 trains as planned", it_trains_as_planned},
    {"threads change no bit of resnet9", threads_change_no_bit},
    {"it learns photographs", it_learns_photographs},
    {"its width is that of the paper times a factor",
     its_width_is_that_of_the_paper_times_a_factor},
    {"what resnet9 cannot do is refused", what_it_cannot_do_is_refused},
};
SW_SUITE("resnet9", tests)
