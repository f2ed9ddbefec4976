/* stepwell pbt on the card that is not there: the decisions of the CPU, the same bits twice,
 * and the same bits whatever the budget. */
#include "alloc/base/poison.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("populations on a card")

#define MODULE "STEPWELL_CUDA_MODULE=" SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"

enum { MEMBERS = 5 };

typedef struct {
    double score[MEMBERS], loss[MEMBERS], predicted, measured, waiting, exploits;
} result;

static sw_outcome outcome;

/* `more`: option and value, at most three pairs. */
static void run(const char *device, const char *setting, const char *const *more)
{
    const char *argv[40] = SW_INIT(
        SW_BUILD_ROOT "/tools/stepwell", "pbt", "--data", "synthetic", "--synthetic-n", "1500",
        "--model", "mlp", "--hidden", "8", "--batch", "8", "--members", "5", "--steps", "18",
        "--interval", "6", "--optimizer", "momentum", "--device", device, "--json", "--quiet",
        "lr=log:0.001..0.1", "batch=choice:8,12", "hidden=int:6..10");
    const char *const env[] = {MODULE, setting, NULL};
    for (int i = 27; more != NULL && *more != NULL; i++, more++)
        argv[i] = *more;
    sw_process_run(&outcome, argv, env, 240);
}

/* After `from`, which moves on. */
static double number(const char **from, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = *from != NULL ? strstr(*from, quoted) : NULL;
    SW_CHECK(at != NULL, "no %s in %.200s%s", key, outcome.out, outcome.err);
    *from = at != NULL ? at + strlen(quoted) : NULL;
    return at != NULL ? strtod(*from, NULL) : (double)NAN;
}

static result read_result(void)
{
    result r;
    const char *at = outcome.out;
    SW_CHECK(outcome.status == 0, "%d: %s", outcome.status, outcome.err);
    r.exploits = number(&at, "exploits");
    at = strstr(outcome.out, "\"population\":");
    for (int k = 0; k < MEMBERS; k++) {
        r.score[k] = number(&at, "score");
        r.loss[k] = number(&at, "loss");
    }
    r.predicted = number(&at, "predicted_peak_bytes");
    r.measured = number(&at, "measured_peak_bytes");
    r.waiting = number(&at, "waiting");
    return r;
}

static result result_of(const char *device, const char *setting, const char *const *more)
{
    run(device, setting, more);
    return read_result();
}

/* On the card with no budget: once for all tests. */
static const result *on_card(void)
{
    static result card;
    static bool there;
    if (!there)
        card = result_of("cuda", "A=", NULL);
    there = true;
    return &card;
}

static bool same_bits(const result *a, const result *b)
{
    return memcmp(a->score, b->score, sizeof a->score) == 0 &&
           memcmp(a->loss, b->loss, sizeof a->loss) == 0 && a->exploits == b->exploits;
}

SW_TEST("the decisions are those of the CPU")
{
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    const result cpu = result_of("cpu", "A=", NULL), card = *on_card();
    const result late = result_of("cuda", "STEPWELL_FAKE_LAZY=3", NULL);
    CU_ASSERT(cpu.exploits > 0.0 && cpu.exploits == card.exploits);
    for (int k = 0; k < MEMBERS; k++) {
        SW_CHECK(fabs(cpu.loss[k] - card.loss[k]) < 1e-5, "%d: %.9g, on the CPU %.9g", k,
                 card.loss[k], cpu.loss[k]);
        CU_ASSERT(fabs(cpu.score[k] - card.score[k]) < 1e-2);
    }
    CU_ASSERT(same_bits(&card, &late));
    CU_ASSERT_EQUAL(card.predicted, card.measured);
}

/* Members that wait lie in host memory and take turns on the card. */
SW_TEST("a budget changes no bit")
{
    static const char *const budgets[] = {"400000", "250000"};
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    for (int i = sw_tests_full() ? 0 : 1; i < 2; i++) {
        const char *const more[] = {"--memory-budget", budgets[i], NULL};
        const result some = result_of("cuda", "A=", more);
        CU_ASSERT(same_bits(on_card(), &some));
        CU_ASSERT(some.waiting > 0.0);
        CU_ASSERT_EQUAL(some.predicted, some.measured);
        CU_ASSERT(some.measured <= strtod(budgets[i], NULL));
    }
    const char *const none[] = {"--memory-budget", "60000", NULL};
    run("cuda", "A=", none);
    SW_CHECK(outcome.status == 4 && sw_count_lines(outcome.err) == 1, "%d: %s", outcome.status,
             outcome.err);
}

SW_TEST("it goes on from a checkpoint")
{
    char path[1024];
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    snprintf(path, sizeof path, "%s", sw_temp_path("pbt.saved"));
    const char *const save[] = {"--checkpoint", path, NULL};
    const char *const resume[] = {"--resume", path, NULL};
    const result saved = result_of("cuda", "A=", save), again = result_of("cuda", "A=", resume);
    CU_ASSERT(same_bits(on_card(), &saved) && same_bits(&saved, &again));
}

SW_TEST("what is wrong with the card is said")
{
    if (SW_POISON)
        SW_SKIP("program and module may have the sanitizers of two compilers");
    run("cuda:1", "A=", NULL);
    SW_CHECK(outcome.status == 5 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "cuda:1") != NULL,
             "%d: %s", outcome.status, outcome.err);
    const char *const threads[] = {"--threads", "2", NULL};
    run("cuda", "A=", threads);
    SW_CHECK(outcome.status == 2 && strstr(outcome.err, "--threads") != NULL, "%d: %s",
             outcome.status, outcome.err);
}
