/* The program on the card that is not there: what it prints is what it prints on the CPU. */
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

SW_TESTS("the program on a card")

#define MODULE "STEPWELL_CUDA_MODULE=" SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"

#define NEEDS_ONE_COMPILER()                                                                   \
    do {                                                                                       \
        if (SW_POISON)                                                                         \
            SW_SKIP("program and module may have the sanitizers of two compilers");            \
    } while (0)

/* ---- training ---------------------------------------------------------------------------- */

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

/* Of the next key of that name after `from`, which moves on. */
static double number_after(const char **from, const char *key)
{
    const char *at = *from != NULL ? strstr(*from, sw_textf("\"%s\":", key)) : NULL;
    SW_CHECK(at != NULL, "no %s in %.200s%s", key, outcome.out, outcome.err);
    *from = at != NULL ? at + strlen(key) + 3 : NULL;
    return at != NULL ? strtod(*from, NULL) : (double)NAN;
}

static double number(const char *key)
{
    const char *from = outcome.out;
    return number_after(&from, key);
}

SW_TEST("the program trains on it")
{
    NEEDS_ONE_COMPILER();
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

/* By plans over kernels with a card's sizes; suite "steps" holds that runs launch as many. */
SW_TEST("a step of a large net has few launches")
{
    NEEDS_ONE_COMPILER();
    static char text[40000];
    const char *const path = sw_temp_path("large.txt");
    memset(text, 'a', sizeof text);
    sw_file_put(path, text, sizeof text);
    const struct {
        const char *net[16];
        double most;
    } nets[] = {
        {{"gpt", "--layers", "12", "--width", "768", "--heads", "12", "--context", "1024",
          "--vocabulary", "50257", "--batch", "8", "--data", sw_textf("text:%s", path)},
         450.0},
        {{"mbconv", "--image-size", "224", "--stem-stride", "2", "--classes", "1000",
          "--optimizer", "momentum"},
         870.0},
        {{"swishnet", "--layers", "8", "--width", "4096", "--batch", "512"}, 70.0}};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        const char *argv[24] = SW_INIT(SW_BUILD_ROOT "/tools/stepwell", "plan", "--device",
                                       "cuda", "--json", "--quiet", "--model");
        const char *const env[] = {"STEPWELL_CUDA_MODULE=" SW_BUILD_ROOT
                                   "/tests/cuda/libstepwell-cuda-whole.so",
                                   NULL};
        memcpy(argv + 7, nets[i].net, sizeof nets[i].net);
        sw_process_run(&outcome, argv, env, 120);
        const double n = number("launches");
        SW_CHECK(n > 0.9 * nets[i].most && n <= nets[i].most, "%s: %.0f launches of %.0f",
                 nets[i].net[0], n, nets[i].most);
    }
}

/* Saved on one device, gone on with on the other: it says that bits change. A file of
 * parameters leaves the order to who evaluates. */
SW_TEST("it trains in bf16, and elsewhere after that")
{
    NEEDS_ONE_COMPILER();
    const char *const devices[] = {"cpu", "cuda"};
    double loss[2] = {0};
    char saved[2][600], params[600];
    snprintf(params, sizeof params, "%s", sw_temp_path("p.safetensors"));
    for (int i = 0; i < 4; i++) {
        const char *const device = devices[i % 2];
        if (i < 2)
            snprintf(saved[i], sizeof saved[i], "%s", sw_temp_path(device));
        const char *argv[] = SW_INIT(
            SW_BUILD_ROOT "/tools/stepwell", "train", "--model", "mlp", "--data", "synthetic",
            "--synthetic-n", "500", "--batch", "8", "--device", device, "--precision", "bf16",
            "--json", "--quiet", "--save-params", params, i < 2 ? "--checkpoint" : "--resume",
            i < 2 ? saved[i] : saved[3 - i], "--steps", "6", NULL);
        const char *const env[] = {MODULE, NULL};
        sw_process_run(&outcome, argv, env, 120);
        SW_CHECK(outcome.status == 0, "%d: %s", outcome.status, outcome.err);
        const char *order = i % 2 == 1 ? "\"bf16_order\":\"cuda\"" : "\"bf16_order\":\"";
        CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, order));
        CU_ASSERT(i >= 2 || number("measured_peak_bytes") == number("predicted_peak_bytes"));
        const bool said = strstr(outcome.err, "the bits are others") != NULL;
        SW_CHECK(said == (i >= 2), "%d: %s", i, outcome.err);
        loss[i % 2] = number("final_loss");
        if (i % 2 == 1)
            SW_CHECK(fabs(loss[1] - loss[0]) < 5e-3, "%.9g, on the CPU %.9g", loss[1], loss[0]);
    }
    const char *const eval[] =
        SW_INIT(SW_BUILD_ROOT "/tools/stepwell", "eval", "--model", "mlp", "--data",
                "synthetic", "--synthetic-n", "500", "--load-params", params, NULL);
    const char *const env[] = {MODULE, NULL};
    sw_process_run(&outcome, eval, env, 120);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "bf16 in") != NULL, "%d: %s%s",
             outcome.status, outcome.out, outcome.err);
}

/* A step that is read right after the one before it took none of the time between. */
SW_TEST("the last step before a validation has no time")
{
    char line[512];
    int steps = 0, without = 0;
    bool last_without = false;
    NEEDS_ONE_COMPILER();
    const char *path = sw_textf("%s", sw_temp_path("steps.csv"));
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
    NEEDS_ONE_COMPILER();
    const char *path = sw_textf("%s", sw_temp_path("card.swprof"));
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
    NEEDS_ONE_COMPILER();
    train("cuda", "STEPWELL_FAKE_MIB=265");
    SW_CHECK(outcome.status == 4 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "bytes") != NULL,
             "%d: %s", outcome.status, outcome.err);
    train("cuda:1", "A=");
    SW_CHECK(outcome.status == 5 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "cuda:1") != NULL,
             "%d: %s", outcome.status, outcome.err);
}

/* ---- populations ------------------------------------------------------------------------- */

/* stepwell pbt on the card that is not there: the decisions of the CPU, the same bits twice,
 * and the same bits whatever the budget. */

enum { MEMBERS = 5 };

typedef struct {
    double score[MEMBERS], loss[MEMBERS], predicted, measured, waiting, exploits;
} result;

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

static result result_of(const char *device, const char *setting, const char *const *more)
{
    result r;
    run(device, setting, more);
    const char *at = outcome.out;
    SW_CHECK(outcome.status == 0, "%d: %s", outcome.status, outcome.err);
    r.exploits = number_after(&at, "exploits");
    at = strstr(outcome.out, "\"population\":");
    for (int k = 0; k < MEMBERS; k++) {
        r.score[k] = number_after(&at, "score");
        r.loss[k] = number_after(&at, "loss");
    }
    r.predicted = number_after(&at, "predicted_peak_bytes");
    r.measured = number_after(&at, "measured_peak_bytes");
    r.waiting = number_after(&at, "waiting");
    return r;
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
    NEEDS_ONE_COMPILER();
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
    NEEDS_ONE_COMPILER();
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
    NEEDS_ONE_COMPILER();
    const char *path = sw_textf("%s", sw_temp_path("pbt.saved"));
    const char *const save[] = {"--checkpoint", path, NULL};
    const char *const resume[] = {"--resume", path, NULL};
    const result saved = result_of("cuda", "A=", save), again = result_of("cuda", "A=", resume);
    CU_ASSERT(same_bits(on_card(), &saved) && same_bits(&saved, &again));
}

SW_TEST("what is wrong with the card is said")
{
    NEEDS_ONE_COMPILER();
    run("cuda:1", "A=", NULL);
    SW_CHECK(outcome.status == 5 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, "cuda:1") != NULL,
             "%d: %s", outcome.status, outcome.err);
    const char *const threads[] = {"--threads", "2", NULL};
    run("cuda", "A=", threads);
    SW_CHECK(outcome.status == 2 && strstr(outcome.err, "--threads") != NULL, "%d: %s",
             outcome.status, outcome.err);
}

/* ---- stopped and resumed ----------------------------------------------------------------- */

/* The program on the card that is not there, stopped at chance moments and resumed: it ends
 * with the files of a run that was not stopped. */

enum { WORDS = 44, STOPS = 6, LIMIT_S = 120 };

/* ---- runs -------------------------------------------------------------------------------- */

typedef struct {
    char folder[600];
    bool pauses;       /* saves are written from the card, without a copy */
    const char *state; /* the type of the optimizer's states */
    char files[4][700];
} place;

enum { PARAMS, BEST, METRICS, CHECKPOINT };

static const char *const states[] = {"f32", "8bit"};

static void new_place(place *p, const char *name, const char *state)
{
    static const char *const names[] = {"P", "B", "M.csv", "C"};
    p->pauses = false;
    p->state = state;
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
        "4", "--optimizer", "adam", "--state", p->state, "--schedule", "cosine", "--clip",
        "0.5", "--validate-every", "5", "--device", device, "--quiet", "--save-params",
        p->files[PARAMS], "--save-best", p->files[BEST], "--metrics", p->files[METRICS],
        every != NULL ? "--checkpoint" : NULL, p->files[CHECKPOINT], "--checkpoint-every",
        every, "--resume", p->pauses ? "--checkpoint-pauses" : NULL, NULL);
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

static void same_files(const place *a, const place *b, const char *what)
{
    for (int which = PARAMS; which <= METRICS; which++) {
        size_t n = 0, m = 0;
        char *one = text_of(a->files[which], &n), *other = text_of(b->files[which], &m);
        if (which == METRICS) {
            n = without_times(one);
            m = without_times(other);
        }
        size_t at = 0;
        while (at < n && at < m && one[at] == other[at])
            at++;
        SW_CHECK(n > 0 && n == m && at == n, "%s: file %d: %zu and %zu bytes, differ at %zu",
                 what, which, n, m, at);
        free(one);
        free(other);
    }
}

/* ---- tests ------------------------------------------------------------------------------- */

SW_TEST("a run that is stopped ends with the same files")
{
    NEEDS_ONE_COMPILER();
    static const char *const everys[] = {"1", "3"};
    const uint64_t seeds = sw_tests_full() ? 30 : 4;
    sw_dice dice = {20};
    place whole[2];
    int stopped = 0, resumed = 0;
    uint64_t took_ms = UINT64_MAX; /* the lesser of two: stops must come before the end */
    for (int i = 0; i < 2; i++) {
        new_place(&whole[i], sw_textf("whole %s", states[i]), states[i]);
        const uint64_t start = sw_clock_ns();
        run_to_its_end(&whole[i], "cuda", NULL, "A=");
        const uint64_t ms = (sw_clock_ns() - start) / 1000000;
        took_ms = ms < took_ms ? ms : took_ms;
    }
    for (uint64_t seed = 0; seed < seeds; seed++) {
        place p;
        const char *name = sw_textf("seed %d", (int)seed);
        const char *setting = sw_textf("STEPWELL_FAKE_LAZY=%d", (int)seed);
        new_place(&p, name, states[seed % 2]);
        p.pauses = seed / 2 % 3 == 1;
        const char *every = everys[seed / 2 % 2];
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
        same_files(&whole[seed % 2], &p, name);
    }
    sw_note("stopped %d times in %d runs, %d of them resumed ones", stopped, (int)seeds,
            resumed);
    CU_ASSERT(stopped > 0 && resumed > 0);
}

/* A run that is over goes on with nothing, on the other device too: its parameters are those.
 */
SW_TEST("what was saved on the card loads on the CPU")
{
    NEEDS_ONE_COMPILER();
    for (int i = 0; i < 2; i++) {
        place p, q;
        size_t n = 0, m = 0;
        new_place(&p, sw_textf("over %s", states[i]), states[i]);
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
}
