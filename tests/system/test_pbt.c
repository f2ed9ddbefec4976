/* `stepwell pbt` from outside: the same bytes whatever computes and wherever members wait, what
 * a schedule replays, what an exploit was worth, and what is planned against what is taken. */
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOBS " lr=log:0.01..1 momentum=uniform:0..0.95"
#define SHAPES " batch=choice:8,16,24 hidden=int:4..20"
#define DROPS " --dropout 0.2 dropout=uniform:0..0.5"

/* ---- the same bytes ---------------------------------------------------------------------- */

typedef struct {
    const char *words;
    bool full;
} kind;

static const kind kinds[] = {
    {"--optimizer momentum" DROPS KNOBS SHAPES, false},
    {"--optimizer momentum --synch" DROPS KNOBS SHAPES, false},
    {"--optimizer adam --exploit tournament lr=log:0.001..0.1 beta1=uniform:0.5..0.95 "
     "beta2=uniform:0.9..0.999" SHAPES,
     false},
    {"--optimizer momentum --exploit t-test --interval 2 --steps 36" KNOBS SHAPES, true},
    {"--optimizer momentum --exploit tournament --synch" DROPS KNOBS SHAPES, true},
    {"--optimizer adam --synch lr=log:0.001..0.1 beta1=uniform:0.5..0.95", true},
    {"--optimizer sgd lr=log:0.01..1 weight_decay=log:0.0001..0.1" SHAPES, true},
    {"--optimizer nesterov --synch" KNOBS, true},
    {"--optimizer adamw lr=log:0.001..0.1 weight_decay=uniform:0..0.1" SHAPES, true},
    {"--optimizer rmsprop lr=log:0.0001..0.01" DROPS, true},
    {"--optimizer adagrad --same-data lr=log:0.001..0.1" SHAPES, true},
    {"--optimizer lion lr=log:0.0001..0.01 beta1=uniform:0.5..0.95 weight_decay=uniform:0..0.1",
     true},
    {"--optimizer adafactor lr=log:0.001..0.1" SHAPES, true},
    {"--optimizer momentum --hidden 12,7 hidden2=int:3..9 --metric loss" KNOBS, true},
    {"--optimizer momentum --replaced 0.5 --donors 0.2 --resample 0 --burn-in 6" KNOBS, true},
};

static void same_as(const char *reference, const char *words, const char *more)
{
    const sw_outcome *o = population_run(words, more);
    char *now = population_read(o);
    SW_CHECK(o->status == 0 && now != NULL && strcmp(now, reference) == 0,
             "%s %s: status %d: %s\n%s\nand not\n%s", words, more, o->status, o->err,
             now != NULL ? now : "", reference);
    free(now);
}

static void one_kind(const char *words)
{
    static const char *const threads[] = {"--threads 3", "--threads 2", "--threads 5"};
    char more[200];
    const sw_outcome *o = population_run(words, "--threads 1");
    char *reference = population_read(o);
    const double peak = program_number(o->out, "predicted_peak_bytes");
    SW_CHECK(o->status == 0 && reference != NULL && program_number(o->out, "exploits") > 3,
             "%s: status %d: %s", words, o->status, o->err);
    SW_CHECK(program_number(o->out, "measured_peak_bytes") <= peak, "%s: %s", words, o->out);
    const sw_outcome *p = population_only(words, "--prove --threads 2");
    const double largest = program_number(p->out, "explore_bytes");
    for (size_t i = 0; i < (sw_tests_full() ? 3 : 1) && reference != NULL; i++)
        same_as(reference, words, threads[i]);
    /* All shapes fit, and not all members. */
    for (int to_file = 0; to_file < 2 && reference != NULL; to_file++) {
        snprintf(more, sizeof more, "--threads 2 --memory-budget %.0f%s", largest,
                 to_file != 0 ? " --pause-to @/Z" : "");
        same_as(reference, words, more);
    }
    free(reference);
}

static void the_same_bytes_whatever_computes(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!kinds[i].full || sw_tests_full())
            one_kind(kinds[i].words);
}

/* ---- schedules --------------------------------------------------------------------------- */

/* Quick replays each third member, from `first` on. */
static void replays(const char *words, const char *more, int first)
{
    const sw_outcome *o = population_run(words, more);
    SW_CHECK(o->status == 0, "%s %s: status %d: %s", words, more, o->status, o->err);
    for (int k = sw_tests_full() ? 0 : first; k < POPULATION; k += sw_tests_full() ? 1 : 3) {
        char name[20], both[300];
        snprintf(name, sizeof name, "P%d", k);
        snprintf(both, sizeof both, "%s --replay @/L/pbt_policy_%d.txt --save-params @/R", more,
                 k);
        o = population_only(words, both);
        SW_CHECK(o->status == 0 && going_same_file(name, "R") &&
                     program_number(o->out, "measured_peak_bytes") <=
                         program_number(o->out, "predicted_peak_bytes"),
                 "%s %s: member %d replayed: status %d: %s", words, more, k, o->status, o->err);
    }
}

static void a_schedule_gives_its_member_bit_for_bit(void)
{
    replays("--optimizer momentum" DROPS KNOBS SHAPES, "--threads 2", 0);
    replays("--optimizer momentum --synch --hidden 12,7" KNOBS SHAPES, "", 1);
    replays("--optimizer momentum" KNOBS SHAPES, "--memory-budget 300000",
            2); /* refuses some */
    replays("--optimizer momentum --too-large batch" KNOBS " batch=int:2..24 hidden=int:4..20",
            "--memory-budget 300000", 0);
    if (!sw_tests_full())
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        replays(kinds[i].words, "", 0);
}

/* "exploit 1 was worth W: the best validation accuracy is A with it and B without" */
static void what_an_exploit_was_worth(void)
{
    static const char words[] = "--optimizer momentum" KNOBS SHAPES;
    const sw_outcome *o = population_run(words, "");
    const int n = (int)program_number(o->out, "exploits");
    const double with = population_best(o);
    CU_ASSERT_FATAL(o->status == 0 && n > 3);
    for (int i = 1; i <= (sw_tests_full() ? n : 2); i++) {
        char more[40];
        double worth = NAN, a = NAN, b = NAN;
        snprintf(more, sizeof more, "--without %d", i);
        o = population_only(words, more);
        const char *at = strstr(o->err, "was worth");
        if (at == NULL ||
            sscanf(at,
                   "was worth %lf: the best validation accuracy is %lf with it and %lf without",
                   &worth, &a, &b) != 3)
            worth = a = b = NAN;
        SW_CHECK(o->status == 0 && fabs(a - with) < 1e-4 &&
                     fabs(b - population_best(o)) < 1e-4 && fabs(worth - (a - b)) < 1e-4,
                 "--without %d: status %d: %s", i, o->status, o->err);
    }
    char past[40];
    snprintf(past, sizeof past, "--without %d", n + 1);
    o = population_only(words, past);
    SW_CHECK(o->status == 2 && strstr(o->err, "exploits") != NULL, "%s: %d: %s", past,
             o->status, o->err);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Without a member too many: what --prove says holds for every explore, for many seeds. */
static void what_is_proved_is_what_is_taken(void)
{
    static const char words[] =
        "--optimizer momentum --interval 1 --steps 40 --resample 0.5" KNOBS
        " batch=int:2..24 hidden=int:4..24";
    const int seeds = sw_tests_full() ? 40 : 2;
    double exploits = 0;
    const sw_outcome *o = population_only(words, "--prove --threads 2");
    const double bytes = program_number(o->out, "explore_bytes");
    CU_ASSERT_EQUAL(program_number(o->out, "shapes"), 23 * 21);
    CU_ASSERT_EQUAL(program_number(o->out, "shapes_refused"), 0);
    for (int i = 0; i < seeds; i++) {
        char more[200];
        snprintf(more, sizeof more, "--threads 2 --seed %d --memory-budget %.0f", i, bytes);
        o = population_only(words, more);
        exploits += program_number(o->out, "exploits");
        SW_CHECK(o->status == 0 && program_number(o->out, "refused") == 0 &&
                     program_number(o->out, "measured_peak_bytes") <= bytes &&
                     program_number(o->out, "predicted_peak_bytes") <= bytes,
                 "%s: status %d: %s%s", more, o->status, o->err, o->out);
    }
    sw_note("%d runs, %.0f explores: none took more than %.0f bytes", seeds, exploits, bytes);
    CU_ASSERT(exploits > 30 * seeds);
}

/* Every budget from far too small on: it is refused before the first step, with the least that
 * will do, or nothing fails. */
static void budgets_that_are_too_small(void)
{
    static const char words[] = "--optimizer momentum" KNOBS SHAPES;
    double least = 0;
    for (int bytes = 20000; bytes < 300000; bytes += sw_tests_full() ? 3000 : 34000) {
        char more[80];
        snprintf(more, sizeof more, "--memory-budget %d", bytes);
        const sw_outcome *o = population_only(words, more);
        const char *needs = strstr(o->err, " needs ");
        SW_CHECK(o->status == 0 || (program_failed_cleanly(o, 4) && needs != NULL),
                 "%s: status %d: %s", more, o->status, o->err);
        if (o->status == 4 && needs != NULL)
            least = (double)sw_number_of(needs + 7);
        SW_CHECK(o->status == 4 || program_number(o->out, "measured_peak_bytes") <= bytes,
                 "%s: %s", more, o->out);
    }
    char more[80];
    snprintf(more, sizeof more, "--memory-budget %.0f", least);
    const sw_outcome *o = population_only(words, more);
    SW_CHECK(least > 0 && o->status == 0, "%s: status %d: %s", more, o->status, o->err);
}

/* A name that is there for a moment stays where the process is killed in that moment. */
static void the_file_of_members_that_wait_has_no_name(void)
{
    char seen[4096];
    going_new_folder("unnamed");
    CU_ASSERT_FATAL(mkdir(going_at("Z"), 0700) == 0);
    const int file = open(going_at("Z"), O_TMPFILE | O_RDWR, 0600);
    if (file < 0)
        SW_SKIP("the file system has no files without a name");
    (void)close(file);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CU_ASSERT_FATAL(watch >= 0 && inotify_add_watch(watch, going_at("Z"), IN_CREATE) >= 0);
    const sw_outcome *o =
        population_only("--optimizer momentum" KNOBS, "--memory-budget 200000 --pause-to @/Z");
    SW_CHECK(o->status == 0 && program_number(o->out, "paused_peak_bytes") > 0, "status %d: %s",
             o->status, o->err);
    SW_CHECK(read(watch, seen, sizeof seen) < 0, "a name came up in Z");
    const int named = open(going_at("Z/x"), O_CREAT | O_WRONLY, 0600);
    CU_ASSERT(named >= 0 && read(watch, seen, sizeof seen) > 0); /* it is watched */
    (void)close(named);
    (void)close(watch);
}

/* ---- parts ------------------------------------------------------------------------------- */

/* n rows of two classes; `other` has the other class, with -2 all rows have. */
static void put_table(const char *name, int n, uint64_t seed, int other)
{
    sw_dice dice = {.state = seed};
    char text[4096] = "";
    for (int i = 0; i < n; i++) {
        const unsigned class = i == 0 ? 0 : i == 1 ? 1 : (unsigned)sw_dice_below(&dice, 2);
        const unsigned x = (unsigned)sw_dice_below(&dice, 90),
                       y = (unsigned)sw_dice_below(&dice, 90);
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%u.%02u,%u.%02u,%s\n", class, x,
                       2 - class, y, (class ^ (i == other || other == -2)) != 0 ? "yes" : "no");
    }
    going_put(name, text);
}

/* In the folder as it is, which has train.csv and test.csv. */
static const sw_outcome *run_tables(const char *more)
{
    return going_run(
        "pbt --data csv:@/train.csv --test-data csv:@/test.csv --model mlp "
        "--hidden 5 --members 6 --interval 2 --steps 12 --batch 8 --seed 3 --quiet "
        "--json --metrics @/M.csv --log-dir @/L --save-params @/P%%d "
        "--optimizer momentum lr=log:0.01..1 %s",
        more);
}

/* Another test part gives another test at the end, and nothing else of the run is another. The
 * test is what `stepwell eval` says of the best member's parameters. */
static void the_test_part_chooses_nothing(void)
{
    char *seen[2];
    double accuracy[2];
    going_new_folder("parts");
    put_table("train.csv", 60, 1, -1);
    for (int i = 0; i < 2; i++) {
        put_table("test.csv", 30, 7, i == 0 ? -1 : -2);
        const sw_outcome *o = run_tables("");
        seen[i] = population_read(o);
        CU_ASSERT_FATAL(o->status == 0 && seen[i] != NULL);
        CU_ASSERT(program_number(o->out, "exploits") > 1 &&
                  program_number(o->out, "train_rows") == 54 &&
                  program_number(o->out, "validation_rows") == 6 &&
                  program_number(o->out, "test_rows") == 30);
        char *test = strstr(seen[i], "\"test_loss\""),
             *members = strstr(seen[i], "\"population\"");
        CU_ASSERT_FATAL(test != NULL && members != NULL);
        memmove(test, members, strlen(members) + 1);
        accuracy[i] = program_number(o->out, "test_accuracy");
        const double loss = program_number(o->out, "test_loss");
        const double best = program_number(strstr(o->out, "\"best\":{"), "member");
        o = going_run("eval --json --model mlp --hidden 5 --data csv:@/train.csv "
                      "--test-data csv:@/test.csv --load-params @/P%.0f",
                      best);
        SW_CHECK(o->status == 0 && program_number(o->out, "accuracy") == accuracy[i] &&
                     fabs(program_number(o->out, "loss") - loss) < 1e-6,
                 "%.17g and %.17g: status %d: %s%s", accuracy[i], loss, o->status, o->out,
                 o->err);
    }
    CU_ASSERT_STRING_EQUAL(seen[0], seen[1]);
    CU_ASSERT(accuracy[0] + accuracy[1] == 1.0 && accuracy[0] != accuracy[1]);
    free(seen[0]);
    free(seen[1]);
}

/* Nothing is tested before the end: a run that goes on may choose another member. */
static void an_interrupted_run_has_no_test(void)
{
    static sw_outcome o;
    going_new_folder("interrupted");
    const pid_t pid =
        going_start("pbt --synthetic-n 60 --model mlp --hidden 4 --members 2 "
                    "--interval 2 --steps 1000000 --quiet --json --checkpoint @/C "
                    "--checkpoint-every 1 --plot @/p.svg lr=log:0.01..1");
    for (int i = 0; i < 5000 && !going_exists("C"); i++)
        (void)usleep(1000);
    CU_ASSERT_EQUAL(kill(pid, SIGINT), 0);
    sw_process_wait(&o, pid, "going", 60);
    size_t n;
    char *plot = (char *)file_read(going_at("p.svg"), &n);
    SW_CHECK(o.status == 130 && strstr(o.out, "\"test_rows\":null") != NULL &&
                 strstr(o.out, "\"best\":{") != NULL && plot != NULL &&
                 strstr(plot, "validation accuracy") != NULL &&
                 strstr(plot, "test accuracy") == NULL,
             "status %d: %s%s", o.status, o.out, o.err);
    free(plot);
}

/* One row after the other gets the other class: of the rows that are for validation all members
 * know nothing but by their scores. */
static void no_member_is_trained_with_the_validation_part(void)
{
    enum { N = 20 };
    static const char words[] = "--quantile 0 --validation-share 0.3 --steps 4 --interval 4";
    int unknown = 0, tried = 0;
    going_new_folder("unknown");
    put_table("test.csv", 8, 7, -1);
    put_table("train.csv", N, 1, -1);
    CU_ASSERT_EQUAL_FATAL(run_tables(words)->status, 0);
    going_copy("M.csv", "whole.csv");
    going_copy("P3", "whole");
    for (int i = 2; i < N; i += sw_tests_full() ? 1 : 3, tried++) {
        put_table("train.csv", N, 1, i);
        CU_ASSERT_EQUAL(run_tables(words)->status, 0);
        const bool same = going_same_file("P3", "whole");
        unknown += same;
        CU_ASSERT(!going_same_file("M.csv", "whole.csv"));
    }
    SW_CHECK(unknown > 0 && unknown < tried && (!sw_tests_full() || unknown >= 4),
             "%d of %d rows are for validation", unknown, tried);
}

/* Rows of the parts below and above the batch: what is planned is what is taken, and is enough.
 */
static void all_parts_are_planned(void)
{
    static const struct {
        int train, test;
        const char *words;
    } of[] = {{60, 30, "--batch 8"},   {60, 30, "--batch 64"},
              {12, 90, "--batch 32"},  {12, 90, "--batch 100 --validation-share 0.5"},
              {90, 8, "--batch 16"},   {90, 8, "--batch 50 --validation-samples 2"},
              {90, 60, "--batch 100"}, {2, 90, "--batch 64"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        going_new_folder("planned");
        put_table("train.csv", of[i].train, 1, -1);
        put_table("test.csv", of[i].test, 7, -1);
        const sw_outcome *o = run_tables(of[i].words);
        const double peak = program_number(o->out, "predicted_peak_bytes");
        SW_CHECK(o->status == 0 && program_number(o->out, "measured_peak_bytes") == peak,
                 "%s: %s%s", of[i].words, o->out, o->err);
        char *reference = population_read(o);
        CU_ASSERT_PTR_NOT_NULL_FATAL(reference);
        o = going_run(
            "pbt --data csv:@/train.csv --test-data csv:@/test.csv --model mlp "
            "--hidden 5 --quiet --json --prove --optimizer momentum lr=log:0.01..1 %s",
            of[i].words);
        snprintf(words, sizeof words, "%s --memory-budget %.0f --pause-to @/Z", of[i].words,
                 program_number(o->out, "explore_bytes"));
        o = run_tables(words);
        char *now = population_read(o);
        SW_CHECK(now != NULL && strcmp(now, reference) == 0 && !going_exists("Z") &&
                     program_number(o->out, "waiting") >= 5 &&
                     program_number(o->out, "measured_peak_bytes") <=
                         program_number(o->out, "budget_bytes"),
                 "%s: status %d: %s\n%s\nand not\n%s", words, o->status, o->err,
                 now != NULL ? now : "", reference);
        free(now);
        free(reference);
    }
}

/* ---- unusual populations ----------------------------------------------------------------- */

static void populations_of_few_members(void)
{
    const sw_outcome *o = population_only("--members 1" KNOBS " --optimizer momentum", "");
    SW_CHECK(o->status == 0 && program_number(o->out, "exploits") == 0, "status %d: %s",
             o->status, o->err);
    o = population_only("--members 2 --quantile 0.5" KNOBS " --optimizer momentum", "");
    SW_CHECK(o->status == 0 && program_number(o->out, "exploits") > 0, "status %d: %s",
             o->status, o->err);
    o = population_only("--members 2 --quantile 0" KNOBS " --optimizer momentum", "");
    SW_CHECK(o->status == 0 && program_number(o->out, "exploits") == 0, "status %d: %s",
             o->status, o->err);
}

/* Their scores are losses, also where the data have classes (the bytes of a text). */
static void models_without_an_accuracy(void)
{
    static const char *const models[] = {
        "--model gpt --layers 1 --width 8 --heads 2 --context 8 "
        "--data text:@/text",
        "--model swishnet --layers 1 --width 4 --synthetic-n 40"};
    char text[2001] = "";
    going_new_folder("losses");
    for (int i = 0; i < 2000; i++)
        text[i] = "to be or not to be, "[i * i / 7 % 20];
    going_put("text", text);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const sw_outcome *o =
            going_run("pbt --members 4 --interval 2 --steps 6 --batch 8 --quiet "
                      "--json lr=log:0.001..0.1 %s",
                      models[i]);
        SW_CHECK(o->status == 0 && program_number(o->out, "test_loss") > 0 &&
                     strstr(o->out, "\"metric\":\"loss\"") != NULL &&
                     strstr(o->out, "\"test_accuracy\":null") != NULL,
                 "%s: status %d: %s%s", models[i], o->status, o->out, o->err);
        o = going_run("train --members 2 --steps 2 --batch 8 --quiet --json %s", models[i]);
        SW_CHECK(o->status == 0 && strstr(o->out, "test_loss") == NULL, "%s: status %d: %s%s",
                 models[i], o->status, o->out, o->err);
    }
}

/* Numbers of a column have one number of decimals, on the terminal and on the page. */
static void columns_have_one_number_of_decimals(void)
{
    going_new_folder("columns");
    const sw_outcome *o =
        going_run("pbt --synthetic-n 100 --model mlp --hidden 4 --members 8 --interval 2 "
                  "--steps 8 --batch 8 --quiet --plot @/p.html --seed 4 lr=log:0.01..1 "
                  "momentum=choice:0,0.5,0.95 --optimizer momentum");
    CU_ASSERT_EQUAL_FATAL(o->status, 0);
    for (int column = 2; column < 6; column++)
        CU_ASSERT_EQUAL(population_column(o->out, "  member ", "\n", " ", column), 8);
    size_t n;
    char *page = (char *)file_read(going_at("p.html"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(page);
    for (int column = 1; column < 3; column++)
        CU_ASSERT_EQUAL(population_column(page, "<th>member</th>", "<tr", "<td>", column), 8);
    for (int column = 7; column < 9; column++)
        CU_ASSERT_EQUAL(population_column(page, "<th>member</th>", "<tr", "<td>", column), 8);
    free(page);
}

/* A rate of a million: those members are the worst, are replaced, and the others go on. */
static void members_that_diverge_are_replaced(void)
{
    const sw_outcome *o = population_run(
        "--optimizer sgd --max-skipped 2 lr=choice:0.05,1e15,1e18 --resample 0", "");
    SW_CHECK(o->status == 0 && program_number(o->out, "exploits") > 2 &&
                 strstr(o->out, "\"failed\":null") != NULL,
             "status %d: %s%s", o->status, o->err, o->out);
    o = population_run("--optimizer sgd --max-skipped 2 lr=uniform:1e28..2e28", "");
    SW_CHECK(o->status == 0 && strstr(o->out, "\"best\":null") != NULL, "all: status %d: %s%s",
             o->status, o->err, o->out);
}

static const sw_test tests[] = {
    {"columns have one number of decimals", columns_have_one_number_of_decimals},
    {"the same bytes whatever computes and wherever members wait",
     the_same_bytes_whatever_computes},
    {"a schedule gives its member bit for bit", a_schedule_gives_its_member_bit_for_bit},
    {"what an exploit was worth", what_an_exploit_was_worth},
    {"what is proved is what is taken", what_is_proved_is_what_is_taken},
    {"budgets that are too small", budgets_that_are_too_small},
    {"the file of members that wait has no name", the_file_of_members_that_wait_has_no_name},
    {"the test part chooses nothing", the_test_part_chooses_nothing},
    {"an interrupted run has no test", an_interrupted_run_has_no_test},
    {"no member is trained with the validation part",
     no_member_is_trained_with_the_validation_part},
    {"all parts are planned", all_parts_are_planned},
    {"populations of few members", populations_of_few_members},
    {"models without an accuracy", models_without_an_accuracy},
    {"members that diverge are replaced", members_that_diverge_are_replaced},
};
SW_SUITE("pbt", tests)
