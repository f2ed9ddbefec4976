/* `stepwell pbt`: what the parts of the data are for, files without a name, columns. The rest
 * is in transcripts/pbt.txt. */
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("pbt")

#define KNOBS " lr=log:0.01..1 momentum=uniform:0..0.95"

/* A name that is there for a moment stays where the process is killed in that moment. */
SW_TEST("the file of members that wait has no name")
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
        "pbt --data csv:@/train.csv --test-data csv:@/test.csv --model mlp --hidden 5 "
        "--members 6 --interval 2 --steps 12 --batch 8 --seed 3 --quiet --json --metrics "
        "@/M.csv --log-dir @/L --save-params @/P%%d --optimizer momentum lr=log:0.01..1 %s",
        more);
}

/* One row after the other gets the other class: of the rows that are for validation all members
 * know nothing but by their scores. */
SW_TEST("no member is trained with the validation part")
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
SW_TEST("all parts are planned")
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

/* Numbers of a column have one number of decimals, on the terminal and on the page. */
SW_TEST("columns have one number of decimals")
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
