/* The model mbconv through the program: it trains as planned, its settings change the network,
 * and what it cannot do is refused by name. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <string.h>

#define SMALL "--quiet --json --model mbconv --width-factor 0.25 --depth-factor 0.25 "
#define LEAST                                                                                  \
    "--quiet --json --model mbconv --width-factor 0.125 --depth-factor 0.1 --synthetic-n 8 "   \
    "--batch 4 --optimizer sgd "
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
        FEW "--witness --image-size 16", FEW "--threads 2 --dropout 0.3 --image-size 30",
        FEW "--activation relu --stem-stride 2",
        LEAST "--witness --image-size 16"}; /* quick: a witness reads all of the arena */
    for (size_t i = sw_tests_full() ? 0 : 1; i < sizeof jobs / sizeof *jobs; i++) {
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

/* Bits of the loss, printed in full, for one thread and for three. */
static void threads_change_no_bit(void)
{
    const double one = number("train " FEW "--image-size 16 --threads 1", "final_loss");
    CU_ASSERT_EQUAL(number("train " FEW "--image-size 16 --threads 3", "final_loss"), one);
    CU_ASSERT_NOT_EQUAL(number("train " FEW "--image-size 16 --seed 2", "final_loss"), one);
}

static void settings_change_the_network(void)
{
    static const char *const larger[] = {
        "--image-size 56",
        "--classes 1000",
        "--activation swish-naive",
        "--stem-stride 1",
    };
    const double plain = number("plan " FEW "--stem-stride 2", "predicted_peak_bytes");
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
        char words[400];
        snprintf(words, sizeof words, "plan " FEW "%s %s",
                 strstr(larger[i], "stem") == NULL ? "--stem-stride 2" : "", larger[i]);
        SW_CHECK(number(words, "predicted_peak_bytes") > plain, "%s is not larger", words);
    }
    const double model = number("plan " FEW, "model_bytes");
    CU_ASSERT(
        number("plan --quiet --json --model mbconv --width-factor 0.5 --depth-factor 0.25 "
               "--batch 20",
               "model_bytes") > model);
    CU_ASSERT(number("plan --quiet --json --model mbconv --width-factor 0.25 --depth-factor 1 "
                     "--batch 20",
                     "model_bytes") > model);
}

static void what_it_cannot_do_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"train --model mbconv --width-factor 0 --steps 1", "at most 64 (got 0 and 1)"},
        {"plan --model mbconv --depth-factor 65", "at most 64 (got 1 and 65)"},
        {"plan --model mbconv --dropout 1", "below 1 (got 1)"},
        {"plan --model mbconv --classes 3", "(got 3)"},
        {"plan --model mbconv --image-size 2000", "--image-size 2000"},
        {"plan --model mbconv --hidden 3", "--hidden"},
        {"plan --model mlp --stem-stride 1", "--stem-stride"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_outcome *o = run(bad[i].words);
        SW_CHECK(o->status == 2, "%s: status %d", bad[i].words, o->status);
        SW_CHECK(o->out[0] == '\0' && strstr(o->err, bad[i].says) != NULL, "%s: %s",
                 bad[i].words, o->err);
    }
}

static const sw_test tests[] = {
    {"mbconv trains as planned", it_trains_as_planned},
    {"threads change no bit of it", threads_change_no_bit},
    {"its settings change the network", settings_change_the_network},
    {"what mbconv cannot do is refused", what_it_cannot_do_is_refused},
};
SW_SUITE("mbconv", tests)
