/* stepwell train --find-lr: a sweep of the learning rate that leaves nothing. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/well_formed.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NET "--model mlp --hidden 32 --synthetic-n 600 --batch 50 "

static sw_outcome outcome;

static void run(const char *words)
{
    char line[3000];
    snprintf(line, sizeof line, "train --find-lr " NET "%s", words);
    program_run(&outcome, line, NULL);
}

static double number(const char *name)
{
    return program_number(outcome.out, name);
}

/* The rates rise by one factor, and the curve is the same however it is computed. */
static void a_sweep_is_the_same_however_it_runs(void)
{
    static const char *const ways[] = {"--threads 2", "--immediate", "--accumulate 1"};
    static char first[1 << 16];
    run("--json --quiet --steps 60 --lr-from 1e-5 --lr-to 1");
    SW_CHECK(outcome.status == 0, "%s", outcome.err);
    snprintf(first, sizeof first, "%s", strstr(outcome.out, "\"find_lr\":"));
    json_t *j = json_loads(outcome.out);
    const json_t *points = json_object_get(json_object_get(j, "find_lr"), "points");
    const size_t n = json_array_size(points);
    CU_ASSERT(n > 30 && n <= 60);
    for (size_t i = 0; i < n; i++) {
        const double rate =
            json_number_value(json_object_get(json_array_get(points, i), "rate"));
        CU_ASSERT(fabs(rate / (1e-5 * pow(1e5, (double)i / 59.0)) - 1.0) < 1e-6);
    }
    json_decref(j);
    *strstr(first, "]") = '\0';
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[200];
        snprintf(words, sizeof words, "--json --quiet --steps 60 --lr-from 1e-5 --lr-to 1 %s",
                 ways[i]);
        run(words);
        const char *at = strstr(outcome.out, "\"find_lr\":");
        SW_CHECK(at != NULL && strncmp(at, first, strlen(first)) == 0, "another curve with %s",
                 ways[i]);
    }
}

/* It is a good rate: training with it beats training with much lower and much higher ones. */
static void what_is_suggested_trains(void)
{
    double loss[3];
    run("--json --quiet");
    const double rate = number("suggested");
    SW_CHECK(rate > 1e-5 && rate < 1.0, "%g", rate);
    CU_ASSERT(number("tenth_of_lowest") > 0.0 &&
              number("tenth_of_lowest") * 10.0 == number("lowest_rate"));
    CU_ASSERT_EQUAL(number("suggested"), number("steepest"));
    for (int i = 0; i < 3; i++) {
        char words[300];
        snprintf(words, sizeof words, "train --json --quiet " NET "--epochs 2 --lr %g",
                 rate * (i == 0   ? 1.0
                         : i == 1 ? 1e-3
                                  : 1e3));
        program_run(&outcome, words, NULL);
        loss[i] = number("validation_loss");
    }
    SW_CHECK(loss[0] < 0.7 * loss[1] && !(loss[2] < loss[0]), "%g at %g, %g below, %g above",
             loss[0], rate, loss[1], loss[2]);
}

static void rows_and_a_picture_are_written(void)
{
    char words[2500];
    snprintf(words, sizeof words, "--quiet --steps 40 --metrics %s --plot %s",
             path_of("find.csv"), path_of("find.svg"));
    (void)unlink(path_of("find.svg"));
    run(words);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "rate    --lr ") != NULL, "%s%s",
             outcome.out, outcome.err);
    const char *svg = text_of(path_of("find.svg"));
    const char *wrong = malformed(svg, SVG_BEGINS);
    SW_CHECK(wrong == NULL, "at '%.40s'", wrong);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "class=\"smooth\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text_of(path_of("find.csv")), "\ntrain,1,1,"));
    CU_ASSERT_PTR_NULL(strstr(text_of(path_of("find.csv")), "validation"));
}

/* No rate is made up where the loss does not fall. */
static void what_never_falls_has_no_suggestion(void)
{
    run("--json --quiet --steps 20 --lr-from 1e-30 --lr-to 1e-29 --data synthetic --batch 600");
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "\"suggested\":null") != NULL, "%s%s",
             outcome.out, outcome.err);
    run("--quiet --steps 20 --lr-from 1e-30 --lr-to 1e-29 --batch 600");
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "no rate is suggested"));
}

/* A rate that no number survives ends the sweep, and is no failure. */
static void a_sweep_ends_where_numbers_do(void)
{
    run("--json --quiet --optimizer sgd --lr-from 1e-3 --lr-to 1e30 --steps 100");
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "\"stopped_early\":true") != NULL,
             "%s%s", outcome.out, outcome.err);
    CU_ASSERT_STRING_EQUAL(outcome.err, "");
}

static const struct {
    const char *words, *says;
} refused[] = {
    {"--lr 0.1", "--lr and --find-lr exclude each other"},
    {"--epochs 3", "--epochs and --find-lr"},
    {"--schedule linear", "--schedule and --find-lr"},
    {"--save-params x", "--save-params and --find-lr"},
    {"--checkpoint x", "--checkpoint and --find-lr"},
    {"--method mezo", "--method and --find-lr"},
    {"--members 3", "--members and --find-lr"},
    {"--lr-from 1 --lr-to 1", "must be above 0 and below --lr-to"},
    {"--lr-from 0", "must be above 0"},
    {"--steps 9", "--steps must be 10 to"},
    {"--plot x.png", "must be a file that ends in .svg"},
};

static void what_has_no_part_is_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        run(refused[i].words);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "%s: status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
    program_run(&outcome, "train --lr-from 1e-5", NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                 strstr(outcome.err, "no effect without --find-lr") != NULL,
             "%s", outcome.err);
    run("--plot /no/folder/x.svg");
    SW_CHECK(program_failed_cleanly(&outcome, 1), "%s", outcome.err);
}

static const sw_test tests[] = {
    {"a sweep is the same however it runs", a_sweep_is_the_same_however_it_runs, false},
    {"what is suggested trains", what_is_suggested_trains, false},
    {"rows and a picture are written", rows_and_a_picture_are_written, false},
    {"what never falls has no suggestion", what_never_falls_has_no_suggestion, false},
    {"a sweep ends where numbers do", a_sweep_ends_where_numbers_do, false},
    {"what has no part is refused", what_has_no_part_is_refused, false},
};
SW_SUITE("learning rates", tests)
