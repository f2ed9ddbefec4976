/* The program on the card that is not there: what it prints is what it prints on the CPU. */
#include "alloc/base/poison.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("steps of the program")

#define MODULE "STEPWELL_CUDA_MODULE=" SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"

static sw_outcome outcome;

static void train_into(const char *device, const char *setting, const char *option,
                       const char *path)
{
    const char *argv[] =
        SW_INIT(SW_BUILD_ROOT "/tools/stepwell", "train", "--model", "mlp", "--data",
                "synthetic", "--synthetic-n", "500", "--batch", "8", "--steps", "6", "--device",
                device, "--json", "--quiet", option, path, NULL);
    const char *const env[] = {MODULE, setting, NULL};
    sw_process_run(&outcome, argv, env, 120);
}

static void train(const char *device, const char *setting)
{
    train_into(device, setting, NULL, NULL);
}

/* Of the first key of that name. */
static double number(const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(outcome.out, quoted);
    SW_CHECK(at != NULL, "no %s in %.200s%s", key, outcome.out, outcome.err);
    return at != NULL ? strtod(at + strlen(quoted), NULL) : (double)NAN;
}

SW_TEST("the program trains on it")
{
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    double loss[4] = {0};
    const char *const settings[] = {"A=", "A=", "STEPWELL_FAKE_LAZY=5", "STEPWELL_FAKE_LAZY=1"};
    const int ways = sw_tests_full() ? 4 : 3;
    for (int i = 0; i < ways; i++) {
        train(i == 0 ? "cpu" : "cuda", settings[i]);
        CU_ASSERT_EQUAL(outcome.status, 0);
        loss[i] = number("final_loss");
        CU_ASSERT_PTR_NOT_NULL(
            strstr(outcome.out, i == 0 ? "\"device\":\"cpu\"" : "\"device\":\"cuda\""));
        CU_ASSERT_EQUAL(number("allocations_after_warmup"), 0.0);
        CU_ASSERT_EQUAL(number("measured_peak_bytes"), number("predicted_peak_bytes"));
        const bool none = strstr(outcome.out, "\"launches\":null") != NULL;
        CU_ASSERT_EQUAL(none, i == 0);
        CU_ASSERT(i == 0 || number("launches") > 10.0);
    }
    SW_CHECK(fabs(loss[1] - loss[0]) < 1e-5, "%.9g, on the CPU %.9g", loss[1], loss[0]);
    CU_ASSERT(loss[1] == loss[2] && loss[1] == loss[ways - 1]);
}

/* A step that is read right after the one before it took none of the time between. */
SW_TEST("the last step before a validation has no time")
{
    char path[1024], line[512];
    int steps = 0, without = 0;
    bool last_without = false;
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    snprintf(path, sizeof path, "%s", sw_temp_path("steps.csv"));
    train_into("cuda", "A=", "--metrics", path);
    CU_ASSERT_EQUAL(outcome.status, 0);
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "train,", 6) != 0)
            continue;
        last_without = strstr(line, ",\n") != NULL;
        without += last_without;
        steps++;
    }
    fclose(file);
    CU_ASSERT_EQUAL(steps, 6);
    CU_ASSERT(without == 1 && last_without);
}

/* Planned bytes are the card's, and none of the process's. */
SW_TEST("a report keeps the card's memory and the process's apart")
{
    char path[1024];
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    snprintf(path, sizeof path, "%s", sw_temp_path("card.swprof"));
    for (int i = 0; i < 2; i++) {
        train_into(i == 0 ? "cuda" : "cpu", "A=", "--profile", path);
        CU_ASSERT_EQUAL(outcome.status, 0);
        const char *const argv[] = {SW_BUILD_ROOT "/tools/stepwell", "report", path, NULL};
        const char *const env[] = {"A=", NULL};
        sw_process_run(&outcome, argv, env, 120);
        CU_ASSERT_EQUAL(outcome.status, 0);
        SW_CHECK((strstr(outcome.out, "planned and") == NULL) == (i == 0) &&
                     strstr(outcome.out, " host heap") != NULL,
                 "%.3000s", outcome.out);
    }
}

SW_TEST("a card that is too small or not there is said so")
{
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    train("cuda", "STEPWELL_FAKE_MIB=265");
    SW_CHECK(outcome.status == 4 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "bytes") != NULL,
             "%d: %s", outcome.status, outcome.err);
    train("cuda:1", "A=");
    SW_CHECK(outcome.status == 5 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "cuda:1") != NULL,
             "%d: %s", outcome.status, outcome.err);
}
