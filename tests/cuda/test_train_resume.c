/* The program on the card that is not there, stopped at chance moments and resumed: it ends
 * with the files of a run that was not stopped. */
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "tests/support/process.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

SW_TESTS("resumed on the card")

#define MODULE "STEPWELL_CUDA_MODULE=" SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"
#define NEEDS()                                                                                \
    do {                                                                                       \
        if (SW_POISON)                                                                         \
            SW_SKIP("program and module may have the sanitizers of two compilers");            \
    } while (0)

enum { WORDS = 40, STOPS = 6, LIMIT_S = 120 };

static sw_outcome outcome;

/* ---- runs -------------------------------------------------------------------------------- */

typedef struct {
    char folder[600];
    bool pauses; /* saves are written from the card, without a copy */
    char files[4][700];
} place;

enum { PARAMS, BEST, METRICS, CHECKPOINT };

static void new_place(place *p, const char *name)
{
    static const char *const names[] = {"P", "B", "M.csv", "C"};
    p->pauses = false;
    snprintf(p->folder, sizeof p->folder, "%s", sw_temp_path(name));
    CU_ASSERT_EQUAL_FATAL(mkdir(p->folder, 0700), 0);
    for (int i = 0; i < 4; i++)
        snprintf(p->files[i], sizeof p->files[i], "%s/%s", p->folder, names[i]);
}

/* The words of a training. `every` NULL: no checkpoints. */
static void fill(const char **argv, const place *p, const char *device, const char *every)
{
    const char *const all[] = SW_INIT(
        SW_BUILD_ROOT "/tools/stepwell", "train", "--model", "mlp", "--hidden", "32", "--data",
        "synthetic", "--synthetic-n", "192", "--batch", "8", "--accumulate", "2", "--epochs",
        "4", "--optimizer", "adam", "--schedule", "cosine", "--clip", "0.5", "--validate-every",
        "5", "--device", device, "--quiet", "--save-params", p->files[PARAMS], "--save-best",
        p->files[BEST], "--metrics", p->files[METRICS], every != NULL ? "--checkpoint" : NULL,
        p->files[CHECKPOINT], "--checkpoint-every", every, "--resume",
        p->pauses ? "--checkpoint-pauses" : NULL, NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        argv[i] = all[i];
}

static void run_to_its_end(const place *p, const char *device, const char *every,
                           const char *setting)
{
    const char *argv[WORDS], *const env[] = {MODULE, setting, NULL};
    fill(argv, p, device, every);
    sw_process_run(&outcome, argv, env, LIMIT_S);
    SW_CHECK(outcome.status == 0, "%d: %s", outcome.status, outcome.err);
}

/* Start, and end it by a signal; did the signal come before the end? */
static bool stop_once(const place *p, const char *every, const char *setting, uint64_t ms,
                      int by)
{
    const char *argv[WORDS], *const env[] = {MODULE, setting, NULL};
    fill(argv, p, "cuda", every);
    const pid_t pid = sw_process_start("stopped", argv, env);
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
    kill(pid, by);
    sw_process_wait(&outcome, pid, "stopped", LIMIT_S);
    SW_CHECK(outcome.status == 0 || outcome.signal == by || outcome.status == 128 + by ||
                 outcome.status == 130,
             "status %d, signal %d: %s", outcome.status, outcome.signal, outcome.err);
    return outcome.status != 0;
}

/* ---- what they leave --------------------------------------------------------------------- */

static char *text_of(const char *path, size_t *n)
{
    char *text = sw_file_text(path, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    return text;
}

/* Drop the last column, which is the time that a step took. */
static size_t without_times(char *text)
{
    char *to = text;
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n'), *comma = end;
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        while (comma > line && *comma != ',')
            comma--;
        memmove(to, line, (size_t)(comma - line));
        to += comma - line;
        *to++ = '\n';
        line = end + 1;
    }
    *to = '\0';
    return (size_t)(to - text);
}

static void same_file(const place *a, const place *b, int which, const char *what)
{
    size_t n = 0, m = 0;
    char *one = text_of(a->files[which], &n), *other = text_of(b->files[which], &m);
    if (which == METRICS) {
        n = without_times(one);
        m = without_times(other);
    }
    size_t at = 0;
    while (at < n && at < m && one[at] == other[at])
        at++;
    SW_CHECK(n > 0 && n == m && at == n, "%s: file %d: %zu and %zu bytes, differ at %zu", what,
             which, n, m, at);
    free(one);
    free(other);
}

static void same_files(const place *a, const place *b, const char *what)
{
    for (int which = PARAMS; which <= METRICS; which++)
        same_file(a, b, which, what);
}

/* ---- tests ------------------------------------------------------------------------------- */

SW_TEST("a run that is stopped ends with the same files")
{
    NEEDS();
    static const char *const everys[] = {"1", "3"};
    const uint64_t seeds = sw_tests_full() ? 30 : 2;
    sw_dice dice = {20};
    place whole;
    int stopped = 0, resumed = 0;
    new_place(&whole, "whole");
    const uint64_t start = sw_clock_ns();
    run_to_its_end(&whole, "cuda", NULL, "A=");
    const uint64_t took_ms = (sw_clock_ns() - start) / 1000000;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        place p;
        char name[40], setting[40];
        snprintf(name, sizeof name, "seed %d", (int)seed);
        snprintf(setting, sizeof setting, "STEPWELL_FAKE_LAZY=%d", (int)seed);
        new_place(&p, name);
        p.pauses = seed % 3 == 1;
        const char *every = everys[seed % 2];
        for (int i = 0; i < STOPS; i++) {
            const int by = sw_dice_below(&dice, 3) == 0 ? SIGTERM : SIGKILL;
            const bool there = sw_file_taken(p.files[CHECKPOINT]);
            if (!stop_once(&p, every, setting,
                           took_ms / 20 + sw_dice_below(&dice, took_ms / 2 + 1), by))
                break;
            stopped++;
            resumed += there;
        }
        run_to_its_end(&p, "cuda", every, setting);
        same_files(&whole, &p, name);
    }
    sw_note("stopped %d times in %d runs, %d of them resumed ones", stopped, (int)seeds,
            resumed);
    CU_ASSERT(stopped > 0 && resumed > 0);
}

/* A run that is over goes on with nothing, on the other device too: its parameters are those.
 */
SW_TEST("what was saved on the card loads on the CPU")
{
    NEEDS();
    place p, q;
    size_t n = 0, m = 0;
    new_place(&p, "over");
    run_to_its_end(&p, "cuda", "7", "STEPWELL_FAKE_LAZY=4");
    q = p;
    snprintf(q.files[PARAMS], sizeof q.files[PARAMS], "%s/P.cpu", p.folder);
    run_to_its_end(&q, "cpu", "7", "A=");
    SW_CHECK(strstr(outcome.err, "was saved on cuda:0, and the run goes on on cpu") != NULL,
             "%s", outcome.err);
    char *card = text_of(p.files[PARAMS], &n), *cpu = text_of(q.files[PARAMS], &m);
    CU_ASSERT(n > 0 && n == m && memcmp(card, cpu, n) == 0);
    free(card);
    free(cpu);
}
