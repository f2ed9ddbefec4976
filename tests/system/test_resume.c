/* A training that was interrupted and goes on ends as one that was not: the same parameters,
 * the same best ones, the same metrics but for times, the same result.
 *
 * No clock is needed to interrupt it at each step: a run that keeps the checkpoint of each step
 * has as many runs in it that ended there. Its metrics have more rows than theirs, as those of
 * a killed run have, and are cut. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("resume")

#define FILES "--save-params @/P --save-best @/B --metrics @/M.jsonl "
#define EACH "--checkpoint-every 1 --keep-checkpoints 1000 "

/* A run: what decides its numbers, and how it computes. */
typedef struct {
    const char *words, *first, *then;
} run_case;

static bool failed(const sw_outcome *o, const char *what)
{
    return !SW_CHECK(o->status == 0, "%s: status %d, signal %d: %s", what, o->status, o->signal,
                     o->err);
}

/* The run without checkpoints. */
static going_end whole_run(const run_case *c)
{
    going_clear();
    const sw_outcome *o = going_run("train --json --quiet " FILES "%s %s", c->words, c->first);
    failed(o, c->words);
    return going_read(o->out);
}

/* Leaves the files of the run that was interrupted after step `step`. The validation there
 * comes after the checkpoint, but for the last one of a run. */
static void leave_files(const going_end *whole, double step, bool over)
{
    (void)unlink(going_at("P"));
    (void)unlink(going_at("B"));
    going_copy("M-all", "M.jsonl");
    if (whole->best_step > 0 && (over || whole->best_step < step))
        going_copy("B-all", "B");
}

/* Go on from each generation of C, by the words of `then`; returns how many steps there are. */
static int go_on_from_each(const run_case *c, const going_end *whole, const char *then)
{
    bool seen[1000] = {false};
    int steps = 0;
    for (int k = 0; k < 1000; k++) {
        const char *name = sw_textf(k == 0 ? "C" : "C.%d", k);
        if (!going_exists(name))
            break;
        going_copy(name, "R");
        const double step = going_step("R");
        leave_files(whole, step, k == 0);
        const sw_outcome *o =
            going_run("train --json --quiet " FILES "--resume @/R %s %s", c->words, then);
        const char *what =
            sw_textf("%s | %s, then %s, from step %g", c->words, c->first, then, step);
        failed(o, what);
        SW_CHECK(step > 0 && program_number(o->out, "resumed_from_step") == step, "%s", what);
        going_end end = going_read(o->out);
        going_equal(whole, &end, what);
        going_free(&end);
        if (step > 0 && step < 1000 && !seen[(int)step]) {
            seen[(int)step] = true;
            steps++;
        }
    }
    return steps;
}

/* The run with a checkpoint after each step; its files are kept as M-all and B-all. */
static void run_with_checkpoints(const run_case *c, const going_end *whole, const char *more)
{
    (void)sw_shell("rm -f '%s'*", going_at("C"));
    going_clear();
    const sw_outcome *o =
        going_run("train --json --quiet " FILES "--checkpoint @/C " EACH "%s %s %s", more,
                  c->words, c->first);
    failed(o, c->words);
    going_end end = going_read(o->out);
    going_equal(whole, &end, more);
    going_free(&end);
    going_copy("M.jsonl", "M-all");
    if (going_exists("B"))
        going_copy("B", "B-all");
}

/* Each step is a process of its own, computing in one way and in the other. */
static void a_process_for_each_step(const run_case *c, const going_end *whole)
{
    char name[40];
    int k = 0;
    while (snprintf(name, sizeof name, "C.%d", k + 1), going_exists(name))
        k++; /* that of the first step is the oldest */
    snprintf(name, sizeof name, "C.%d", k);
    going_copy(name, "R");
    const sw_outcome *o = NULL;
    for (int step = 1; step <= (int)whole->steps; step++) {
        if (step == 1) /* later ones have the files of the process before */
            leave_files(whole, step, false);
        (void)unlink(going_at("P"));
        if (whole->best_step >= step)
            (void)unlink(going_at("B"));
        (void)sw_shell("rm -f '%s'*", going_at("D"));
        o = going_run("train --json --quiet " FILES "--resume @/R --checkpoint @/D "
                      "--checkpoint-pauses " EACH "%s %s",
                      c->words, step % 2 == 0 ? c->first : c->then);
        if (failed(o, c->words) ||
            !SW_CHECK(program_number(o->out, "resumed_from_step") == step, "%s: step %d",
                      c->words, step))
            return;
        snprintf(name, sizeof name, "D.%d", (int)whole->steps - step);
        if (step < (int)whole->steps)
            going_copy(name, "R");
    }
    going_end end = going_read(o != NULL ? o->out : "");
    going_equal(whole, &end, "a process for each step");
    going_free(&end);
}

static void check_case(const run_case *c)
{
    going_new_folder("resume");
    going_end whole = whole_run(c);
    run_with_checkpoints(c, &whole, "--checkpoint-pauses");
    const int steps = go_on_from_each(c, &whole, c->then);
    SW_CHECK(steps == (int)whole.steps, "%s: %d of %g steps", c->words, steps, whole.steps);
    if (sw_tests_full())
        a_process_for_each_step(c, &whole);
    going_free(&whole);
}

static void check_cases(const run_case *cases, size_t n, size_t n_quick)
{
    for (size_t i = 0; i < (sw_tests_full() ? n : n_quick); i++)
        check_case(&cases[i]);
}
#define CHECK(cases, n_quick) check_cases(cases, sizeof(cases) / sizeof *(cases), n_quick)

/* ---- models ------------------------------------------------------------------------------ */

#define MLP "--model mlp --hidden 16 --synthetic-n 100 --batch 24 --epochs 2 "
#define LENET "--synthetic-n 80 --batch 32 --epochs 2 "
#define SWISH_NET "--model swishnet --width 24 --layers 3 --synthetic-n 70 --batch 32 "
#define SWISH SWISH_NET "--epochs 2 "
#define MBCONV                                                                                 \
    "--model mbconv --width-factor 0.25 --depth-factor 0.25 --dropout 0.2 --synthetic-n 16 "   \
    "--batch 6 --epochs 2 --image-size 32 "
#define GPT                                                                                    \
    "--model gpt --data text:@/text --layers 2 --width 32 --heads 2 --context 16 --batch 8 "   \
    "--dropout 0.1 --steps 5 --epochs 1 "

static void put_text(void)
{
    char text[3001];
    sw_dice dice = {4};
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = (char)('a' + sw_dice_below(&dice, 26));
    text[sizeof text - 1] = '\0';
    going_put("text", text);
}

SW_TEST("every model goes on")
{
    static const run_case cases[] = {
        {LENET, "", "--threads 3"},
        {MLP, "--threads 2", ""},
        {SWISH, "", "--immediate"},
        {MBCONV, "--threads 2", ""},
        {MBCONV "--bn-momentum 0.3 --optimizer momentum", "--immediate", "--threads 3"},
        {LENET "--keep-gradients", "--threads 3", "--immediate"},
        {SWISH "--optimizer lion", "--update after", "--update after --threads 2"},
    };
    CHECK(cases, 3);
}

/* The folder has a text too. */
static void check_text_case(const run_case *c)
{
    going_new_folder("resume-text");
    put_text();
    going_end whole = whole_run(c);
    run_with_checkpoints(c, &whole, "--checkpoint-pauses");
    CU_ASSERT_EQUAL(go_on_from_each(c, &whole, c->then), (int)whole.steps);
    going_free(&whole);
}

SW_TEST("a language model goes on")
{
    static const run_case cases[] = {{GPT, "--threads 2", ""},
                                     {GPT "--optimizer adafactor", "", "--immediate"},
                                     {GPT "--accumulate 2", "--no-chunks", "--threads 3"}};
    for (size_t i = 0; i < (sw_tests_full() ? 3 : 1); i++)
        check_text_case(&cases[i]);
}

/* ---- options ----------------------------------------------------------------------------- */

#define SMALL "--model mlp --hidden 12 --synthetic-n 60 --batch 16 --epochs 2 "

SW_TEST("every optimizer goes on")
{
    static const char *const more[] = {"", "--weight-decay 0.01 --clip 0.1 --momentum 0.5",
                                       "--accumulate 3 --keep-gradients"};
    for (size_t i = 0; sw_optimizer_kind(i) != NULL; i++)
        for (int k = 0; k < (sw_tests_full() ? 3 : 1); k++) {
            const char *kind = sw_optimizer_kind(i);
            const bool takes = strcmp(kind, "momentum") == 0 || strcmp(kind, "nesterov") == 0 ||
                               strcmp(kind, "rmsprop") == 0;
            const char *words = sw_textf(
                SMALL "--optimizer %s %.*s", kind,
                k == 1 && !takes ? (int)strlen("--weight-decay 0.01 --clip 0.1") : 99, more[k]);
            const run_case c = {words, "", "--threads 2"};
            check_case(&c);
        }
}

SW_TEST("every schedule goes on")
{
    static const run_case cases[] = {
        {SMALL "--schedule one_cycle --warmup 3", "", ""},
        {SMALL "--schedule step --lr-every 3 --lr-gamma 0.5 --warmup 2", "", ""},
        {SMALL "--schedule constant --warmup 5", "", ""},
        {SMALL "--schedule exponential --lr-floor 0.001", "", ""},
        {SMALL "--schedule linear --lr-floor 0.001 --warmup 1", "", ""},
        {SMALL "--schedule cosine --warmup 4", "", ""},
        {SMALL "--schedule step", "", ""},
    };
    CHECK(cases, 2);
}

/* Steps of several micro-batches, the last of an epoch smaller; gradients that stay. */
SW_TEST("accumulated steps go on")
{
    static const run_case cases[] = {
        {"--model mlp --hidden 12 --synthetic-n 100 --batch 9 --accumulate 3 --epochs 3", "",
         "--threads 3"},
        {LENET "--accumulate 3 --clip 0.05", "--threads 2", "--immediate"},
        {SMALL "--clip 0.01 --keep-gradients --optimizer momentum", "", ""},
        {SWISH "--accumulate 2 --update after", "--immediate", "--threads 2"},
    };
    CHECK(cases, 2);
}

/* Under a budget that has ops run again, and from there without it, and back. */
SW_TEST("another budget goes on")
{
    const run_case wide = {SWISH "--no-recompute", "", ""};
    const sw_outcome *o = going_run("plan --json " SWISH_NET);
    const double total = program_number(o->out, "total_bytes");
    const double least =
        program_number(o->out, "model_bytes") + program_number(o->out, "data_bytes");
    CU_ASSERT(total > least && least > 0);
    bool again = false;
    double bytes = total;
    for (int part = 19; part > 0; part--) { /* the smallest that a plan is found for */
        const double less = least + (total - least) * part / 20.0;
        o = going_run("plan --json " SWISH_NET "--memory-budget %.0f", less);
        if (o->status != 0)
            break;
        bytes = less;
        again = strstr(o->out, "\"recompute\":{") != NULL;
    }
    SW_CHECK(again, "no budget between %.0f and %.0f has ops run again", least, total);
    const char *tight = sw_textf("--threads 2 --memory-budget %.0f", bytes);
    const run_case to = {SWISH, "", tight}, from = {SWISH, tight, ""};
    check_case(&to);
    /* The copy of a checkpoint is part of the budget, so this one has none. */
    check_case(&from);
    if (sw_tests_full())
        check_case(&wide);
}

/* ---- validation -------------------------------------------------------------------------- */

SW_TEST("validations go on")
{
    static const run_case cases[] = {
        {SMALL "--validate-every 3 --epochs 3", "", ""},
        {LENET "--validate-every 1", "--threads 2", ""},
        {SMALL "--validate-every 2 --patience 3 --min-delta 0.05 --epochs 20 --lr 0.001", "",
         ""},
        {SMALL "--patience 1 --epochs 20 --schedule constant --lr 0.5 --optimizer sgd", "", ""},
        {SMALL "--validate-every 5 --steps 7 --epochs 5", "", "--threads 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (sw_tests_full() || i == 0 || i == 3)
            check_case(&cases[i]);
}

/* Losses and gradients that are no finite numbers: the record, the count of skipped updates and
 * the step that they began at. */
SW_TEST("what is not finite goes on")
{
    static const run_case cases[] = {
        {SMALL "--optimizer sgd --lr 1e30 --max-skipped 0", "", ""},
        {SWISH "--optimizer sgd --lr 1e20 --max-skipped 0 --validate-every 1", "", ""},
        {SWISH "--optimizer adam --lr 1e38 --max-skipped 0", "", "--immediate"},
    };
    CHECK(cases, 1);
    const sw_outcome *o = going_run("train --json --quiet %s", cases[0].words);
    SW_CHECK(program_number(o->out, "skipped") > 1.0 &&
                 strstr(o->out, "\"diverged\":true") != NULL,
             "nothing was skipped: %s", o->err);
}

/* The limit counts across an interruption: a run that ends for it ends at the same step. */
SW_TEST("a limit of skipped updates goes on")
{
    static const char words[] = SMALL "--optimizer sgd --lr 1e30 --max-skipped 4 --epochs 9";
    char name[40];
    going_new_folder("skipped");
    const sw_outcome *o = going_run(
        "train --json --quiet --checkpoint @/C --checkpoint-pauses " EACH "%s", words);
    char message[sizeof o->err];
    SW_CHECK(o->status == 1 && strstr(o->err, "in a row") != NULL, "status %d: %s", o->status,
             o->err);
    memcpy(message, o->err, sizeof message);
    int n = 0;
    for (int k = 0; snprintf(name, sizeof name, k == 0 ? "C" : "C.%d", k), going_exists(name);
         k++, n++) {
        going_copy(name, "R");
        o = going_run("train --json --quiet --resume @/R %s", words);
        SW_CHECK(o->status == 1 && strcmp(o->err, message) == 0, "from %s: status %d: %s| %s",
                 name, o->status, o->err, message);
    }
    CU_ASSERT(n >= 3);
}

/* ---- data -------------------------------------------------------------------------------- */

static void put_data(void)
{
    enum { RECORD = 3073, RECORDS = 40 };
    static unsigned char records[RECORDS * RECORD];
    static char lines[60 * 32];
    char *to = lines;
    idx_set set;
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (unsigned char)(i % RECORD == 0 ? i / RECORD % 10 : i * 31 + i / 977);
    CU_ASSERT(file_write(going_at("data_batch_mini.bin"), records, sizeof records));
    CU_ASSERT(file_write(going_at("test_batch_mini.bin"), records, sizeof records / 2));
    to += sprintf(to, "a,b,kind\n");
    for (int i = 0; i < 60; i++)
        to += sprintf(to, "%d.5,%d,%s\n", i * 7 % 60, i % 7, i % 3 == 0 ? "cat" : "dog");
    going_put("table.csv", lines);
    idx_make(&set, 60);
    idx_write(&set, going_at("idx"));
    idx_free(&set);
    put_text();
}

SW_TEST("every source goes on")
{
    static const run_case cases[] = {
        {"--model mlp --hidden 8 --data csv:@/table.csv --standardise --batch 13 --epochs 2",
         "", ""},
        {"--model mlp --hidden 8 --data idx:@/idx --batch 16 --epochs 2", "", "--threads 2"},
        {"--model mlp --hidden 8 --data cifar:@ --batch 16 --epochs 2", "", ""},
        {"--model mlp --hidden 8 --data csv:@/table.csv --test-data csv:@/table.csv --seed 9 "
         "--batch 60 --epochs 3",
         "", ""},
        {GPT "--seed 3 --validate-every 2", "", ""},
    };
    for (size_t i = 0; i < (sw_tests_full() ? 5 : 3); i++) {
        going_new_folder("resume-data");
        put_data();
        going_end whole = whole_run(&cases[i]);
        run_with_checkpoints(&cases[i], &whole, "--checkpoint-pauses");
        CU_ASSERT_EQUAL(go_on_from_each(&cases[i], &whole, cases[i].then), (int)whole.steps);
        going_free(&whole);
    }
}

/* ---- saves beside the training ----------------------------------------------------------- */

/* A file that a thread writes while training goes on has the state after its step. */
SW_TEST("checkpoints without a pause go on")
{
    static const run_case cases[] = {
        {LENET "--epochs 6", "", "--threads 2"},
        {MLP "--epochs 10 --validate-every 3", "--threads 2", ""},
        {SWISH "--keep-gradients --clip 0.1 --epochs 8", "--immediate", ""},
        {MBCONV, "--threads 2", "--immediate"},
    };
    for (size_t i = 0; i < (sw_tests_full() ? 4 : 2); i++) {
        going_new_folder("beside");
        going_end whole = whole_run(&cases[i]);
        run_with_checkpoints(&cases[i], &whole, "");
        const int steps = go_on_from_each(&cases[i], &whole, cases[i].then);
        SW_CHECK(steps >= 2, "%s: %d steps", cases[i].words, steps);
        going_free(&whole);
    }
}

/* ---- signals ----------------------------------------------------------------------------- */

/* Interrupted by signals at moments that the system chooses, in validations too, until it comes
 * to its end; SIGKILL leaves what the last checkpoint has. */
static void interrupted_anywhere(const char *words, int sent, int times)
{
    const run_case c = {words, "", ""};
    static sw_outcome outcome;
    sw_dice dice = {(uint64_t)sent};
    going_new_folder("signals");
    going_end whole = whole_run(&c);
    going_clear();
    int interrupted = 0, runs = 0;
    for (bool over = false; !over && runs < 2000; runs++) {
        const pid_t pid = going_start("train --json --quiet " FILES "--checkpoint @/C "
                                      "--checkpoint-every 1 --resume %s",
                                      words);
        const struct timespec pause = {0, (long)(2000000 + sw_dice_below(&dice, 12000000) +
                                                 (interrupted > times ? 900000000 : 0))};
        nanosleep(&pause, NULL);
        (void)kill(pid, sent); /* not waited for yet, so the number is still its own */
        sw_process_wait(&outcome, pid, "going", 60);
        over = outcome.status == 0;
        interrupted += !over;
        if (!SW_CHECK(over || outcome.status == 130 || outcome.signal != 0, "%s: status %d: %s",
                      words, outcome.status, outcome.err))
            break;
    }
    SW_CHECK(interrupted >= 3, "%s: interrupted %d times", words, interrupted);
    going_end end = going_read(outcome.out);
    going_equal(&whole, &end, words);
    sw_note("interrupted %d times: %s", interrupted, words);
    going_free(&end);
    going_free(&whole);
}

SW_TEST("interrupted at any moment")
{
    static const char *const words[] = {
        "--model mlp --hidden 64 --synthetic-n 4000 --batch 50 --epochs 1 --validate-every 2",
        "--synthetic-n 1000 --batch 50 --epochs 2 --validate-every 1 --threads 2",
        "--model swishnet --width 64 --layers 3 --synthetic-n 4000 --batch 50 --epochs 1 "
        "--validate-every 2 --accumulate 3"};
    const int times = sw_tests_full() ? 60 : 5;
    for (int i = 0; i < (sw_tests_full() ? 3 : 1); i++) {
        interrupted_anywhere(words[i], SIGINT, times);
        interrupted_anywhere(words[i], SIGKILL, times);
        if (sw_tests_full())
            interrupted_anywhere(words[i], SIGTERM, times);
    }
}

/* ---- more epochs ------------------------------------------------------------------------- */

/* A schedule that does not go by the number of steps lets a run become longer. */
SW_TEST("more epochs are one long run")
{
    static const char *const schedules[] = {"--schedule constant --warmup 2",
                                            "--schedule step --lr-every 4",
                                            "--schedule exponential --lr-every 4"};
    char words[400];
    for (int i = 0; i < 3; i++) {
        going_new_folder("longer");
        snprintf(words, sizeof words,
                 "--model mlp --hidden 12 --synthetic-n 60 --batch 16 %s --epochs 5",
                 schedules[i]);
        const run_case c = {words, "", ""};
        going_end whole = whole_run(&c);
        going_clear();
        const sw_outcome *o = NULL;
        for (int epochs = 1; epochs <= 5; epochs += 2) {
            words[strlen(words) - 1] = (char)('0' + epochs);
            o = going_run("train --json --quiet " FILES "--checkpoint @/C --resume %s", words);
            failed(o, words);
        }
        going_end end = going_read(o->out);
        going_equal(&whole, &end, words);
        going_free(&end);
        going_free(&whole);
        words[strlen(words) - 1] = '4';
        o = going_run("train --quiet --checkpoint @/C --resume %s", words);
        SW_CHECK(program_failed_cleanly(o, 2) &&
                     strstr(o->err, "after step 20, and this run has 16 steps in all") != NULL,
                 "%s: status %d: %s", words, o->status, o->err);
    }
}

SW_TEST("more epochs are refused where the schedule counts")
{
    static const char *const schedules[] = {"cosine", "linear", "one_cycle"};
    for (int i = 0; i < 3; i++) {
        going_new_folder("counted");
        const sw_outcome *o =
            going_run("train --quiet " SMALL "--checkpoint @/C --schedule %s", schedules[i]);
        failed(o, schedules[i]);
        o = going_run("train --quiet --model mlp --hidden 12 --synthetic-n 60 --batch 16 "
                      "--epochs 3 --checkpoint @/C --resume --schedule %s",
                      schedules[i]);
        SW_CHECK(program_failed_cleanly(o, 2) &&
                     strstr(o->err, "steps in all (--epochs, --steps) was '8'") != NULL &&
                     strstr(o->err, "is '12' now") != NULL &&
                     strstr(o->err, "--load-params") != NULL,
                 "%s: status %d: %s", schedules[i], o->status, o->err);
    }
}
