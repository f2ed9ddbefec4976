/* stepwell pbt --plot: the picture is well-formed whatever happened, and the same for the same
 * run, interrupted or not. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/well_formed.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BEGINS "<!doctype html>\n<html lang=\"en\">"
#define SMALL "pbt --model mlp --hidden 4 --synthetic-n 60 --batch 10 --quiet "
#define HEAVY "weight_decay=choice:1e7,1.2e7" /* which no member survives */

static sw_outcome outcome;

/* The drawing of `words`; `name` decides the format. */
static const char *drawn(const char *words, const char *name)
{
    char line[2000], path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    snprintf(line, sizeof line, "%s --plot %s", words, path);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", line, outcome.status, outcome.err);
    const char *text = text_of(path);
    const bool svg = strstr(name, ".svg") != NULL;
    const char *wrong = svg ? malformed(text, SVG_BEGINS) : malformed(text, PAGE_BEGINS);
    SW_CHECK(wrong == NULL, "%s: %.80s", words, wrong);
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    CU_ASSERT_PTR_NULL(strstr(text, "inf\""));
    return text;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        n++;
    return n;
}

static void every_population_is_drawn(void)
{
    static const struct {
        const char *words;
        int lines;   /* of members, in all panels */
        int members; /* rows of the table */
    } runs[] = {
        {SMALL "--members 1 --steps 6 --interval 2 lr=log:0.001..1", 2, 1},
        {SMALL "--members 1 --steps 2 --interval 2 lr=log:0.001..1", 2, 1},
        {SMALL "--members 3 --steps 5 --interval 100 lr=log:0.001..1 batch=choice:5,10", 9, 3},
        {SMALL "--members 5 --steps 8 --interval 2 hidden=int:3..9 lr=choice:0.1", 15, 5},
        {SMALL "--members 4 --steps 8 --interval 2 --metric loss --synch "
               "lr=log:0.01..0.5 momentum=uniform:0..0.9 --optimizer momentum",
         12, 4},
        {SMALL "--members 4 --steps 100 --interval 5 --optimizer momentum " HEAVY, 8, 4},
        {SMALL "--members 300 --steps 6 --interval 2 lr=log:0.0001..1", 600, 300},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *svg = drawn(runs[i].words, "plot.svg");
        SW_CHECK(count(svg, "<title>member ") == runs[i].lines, "%s: %d lines", runs[i].words,
                 count(svg, "<title>member "));
        CU_ASSERT(count(svg, "<path class=\"jump") >= 2);
        CU_ASSERT_PTR_NULL(strstr(svg, "script"));
        const char *page = drawn(runs[i].words, "plot.html");
        const char *table = strstr(page, "<table>");
        CU_ASSERT_PTR_NOT_NULL_FATAL(table);
        SW_CHECK(count(table, "<tr><td>") + count(table, "<tr class=\"first\"") >=
                     runs[i].members + 1,
                 "%s: %d rows", runs[i].words, count(table, "<tr>"));
        CU_ASSERT_PTR_NOT_NULL(strstr(table, "memory: predicted at most "));
        CU_ASSERT_PTR_NULL(strstr(page, "script"));
        /* The page has the same picture. */
        const char *in_page = strstr(page, "<svg "), *alone = strstr(svg, "<svg ");
        CU_ASSERT_FATAL(in_page != NULL && alone != NULL);
        CU_ASSERT(strncmp(in_page, alone, strlen(alone)) == 0);
    }
}

/* A member without a score has no line among the scores, and values all the same. */
static void members_without_scores_have_values(void)
{
    const char *svg = drawn(
        SMALL "--members 2 --steps 200 --interval 100 --optimizer momentum " HEAVY, "none.svg");
    CU_ASSERT_EQUAL(count(svg, "\" d=\"\"><title>member "), 2);
    CU_ASSERT_EQUAL(count(svg, "\" d=\"M"), 2 + 4); /* and the legend's */
}

static void equal_runs_have_equal_bytes(void)
{
    static const char words[] = SMALL "--members 12 --steps 12 --interval 2 lr=log:0.001..1 "
                                      "hidden=choice:4,8";
    char other[400];
    const char *first = drawn(words, "first.svg");
    CU_ASSERT_STRING_EQUAL(first, drawn(words, "second.svg"));
    snprintf(other, sizeof other, "%s --threads 2", words);
    CU_ASSERT_STRING_EQUAL(first, drawn(other, "third.svg"));
    CU_ASSERT_STRING_EQUAL(drawn(words, "first.html"), drawn(words, "second.html"));
}

/* A picture of what was, and of the whole once the run has gone on. */
static void interrupted_once(const char *words, const char *ending)
{
    char line[4000], plot[1024], saved[1024], name[40];
    snprintf(name, sizeof name, "whole%s", ending);
    const char *whole = drawn(words, name);
    snprintf(name, sizeof name, "part%s", ending);
    snprintf(plot, sizeof plot, "%s", sw_temp_path(name));
    snprintf(saved, sizeof saved, "%s", sw_temp_path("part.saved"));
    (void)sw_shell("rm -f '%s' '%s'*", plot, saved);
    snprintf(line, sizeof line, "%s --plot %s --checkpoint %s --checkpoint-every 1 --resume",
             words, plot, saved);
    int times = 0;
    do {
        const pid_t pid = program_start("part", line, NULL);
        for (int i = 0; i < 2000 && access(saved, F_OK) != 0; i++)
            usleep(1000);
        usleep(50000);
        (void)kill(pid, SIGINT); /* not waited for yet, so the number is still its own */
        sw_process_wait(&outcome, pid, "part", 60);
        /* SIGINT: it came before the program had begun to catch it. */
        SW_CHECK(outcome.status == 0 || outcome.status == 130 || outcome.signal == SIGINT,
                 "status %d, signal %d: %s", outcome.status, outcome.signal, outcome.err);
        if (outcome.status == 130 && access(plot, F_OK) == 0 && strstr(ending, "svg") != NULL)
            CU_ASSERT_PTR_NULL(malformed(text_of(plot), SVG_BEGINS));
    } while (outcome.status != 0 && ++times < 4);
    sw_note("interrupted %d times", times);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    /* Measured bytes are the process's own: holes between ranges depend on what it did. */
    char *resumed = text_of(plot), *memory = strstr(resumed, "<p>memory: predicted at most ");
    const size_t n = memory != NULL ? (size_t)(memory - resumed) : strlen(resumed) + 1;
    CU_ASSERT((memory == NULL) == (strstr(ending, "svg") != NULL));
    SW_CHECK(strncmp(resumed, whole, n) == 0, "%s: another picture", words);
}

static void a_resumed_run_draws_what_a_whole_one_does(void)
{
    static const char words[] =
        "pbt --model mlp --hidden 16 --synthetic-n 400 --batch 10 --quiet --members 6 "
        "--steps 400 --interval 10 lr=log:0.001..1 hidden=choice:8,16 dropout=uniform:0..0.5";
    if (!SW_HAVE_XXHASH)
        SW_SKIP("built without libxxhash, which checkpoints need");
    interrupted_once(words, ".svg");
    interrupted_once(words, ".html");
}

/* At most 4,096 turns of a member are kept, whatever their number. */
static void long_runs_are_thinned(void)
{
    const char *svg = drawn("pbt --model mlp --hidden 2 --synthetic-n 8 --batch 4 --quiet "
                            "--members 1 --steps 4500 --interval 1 lr=log:0.001..0.002",
                            "long.svg");
    const char *line = strstr(svg, "<path class=\"m best\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    const char *end = strstr(line, "\"><title>");
    int points = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(end);
    for (const char *at = strstr(line, "d=\"M"); at < end; at++)
        points += *at == '.';
    points /= 2;
    /* Turns 1, 3, 5, ... 4499, the last one, and the first one twice. */
    SW_CHECK(points == 2250 + 2, "%d points", points);
    CU_ASSERT(strncmp(end - 6, "970.0 ", 6) != 0 && strstr(line, " 970.0 ") < end);
}

static void refusals_come_before_the_first_step(void)
{
    static const struct {
        const char *words, *says;
    } refused[] = {
        {SMALL "lr=log:0.001..1 --plot x", "--plot must be FILE.svg or FILE.html (got 'x')"},
        {SMALL "lr=log:0.001..1 --plot .svg", "--plot must be FILE.svg or FILE.html"},
        {SMALL "lr=log:0.001..1 --plot x.svg --prove", "--prove and --plot exclude"},
        {SMALL "lr=log:0.001..1 --plot x.svg --replay y", "--replay and --plot exclude"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "'%s': status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
}

/* How many calls of a kind one run makes. */
static unsigned long long sites(const char *line, const char *kind)
{
    char plan[100], word[40];
    snprintf(plan, sizeof plan, "STEPWELL_FAULT=%s:count", kind);
    snprintf(word, sizeof word, " %s ", kind);
    program_run(&outcome, line, plan);
    const char *number = strstr(outcome.err, word);
    CU_ASSERT_FATAL(outcome.status == 0 && number != NULL);
    return strtoull(number + strlen(word), NULL, 10);
}

/* Is the page there, and whole? */
static bool whole_page(const char *path)
{
    size_t n = 0;
    unsigned char *bytes = file_read(path, &n);
    char *text = malloc(n + 1);
    if (bytes != NULL && text != NULL) {
        memcpy(text, bytes, n);
        text[n] = '\0';
    }
    const bool whole = bytes != NULL && text != NULL && malformed(text, PAGE_BEGINS) == NULL;
    free(bytes);
    free(text);
    return whole;
}

/* Whichever call fails, the run says so in one line, and a picture is whole or not there. */
static void failures_leave_no_part_of_a_picture(void)
{
    static const char *const kinds[] = {"memory", "file"};
    char line[2000], path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path("fault.html"));
    snprintf(line, sizeof line,
             SMALL "--members 4 --steps 8 --interval 2 lr=log:0.001..1 hidden=choice:3,4 "
                   "--plot %s",
             path);
    for (int kind = 0; kind < 2; kind++) {
        const unsigned long long n = sites(line, kinds[kind]);
        const unsigned long long apart = sw_tests_full() || n < 25 ? 1 : (n - 25) / 10;
        int failed = 0;
        CU_ASSERT(n > 2);
        for (unsigned long long k = 1; k <= n; k += k + apart + 25 > n ? 1 : apart) {
            char plan[100];
            (void)unlink(path);
            snprintf(plan, sizeof plan, "STEPWELL_FAULT=%s:%llu", kinds[kind], k);
            program_run(&outcome, line, plan);
            failed += outcome.status != 0;
            SW_CHECK(outcome.signal == 0 && (outcome.status == 0 || outcome.err[0] != '\0'),
                     "%s: status %d, signal %d: %s", plan, outcome.status, outcome.signal,
                     outcome.err);
            if (access(path, F_OK) == 0)
                SW_CHECK(whole_page(path), "%s", plan);
            else
                SW_CHECK(outcome.status != 0, "%s: no picture, and status 0", plan);
        }
        sw_note("%s: %llu sites, %d runs failed", kinds[kind], n, failed);
        CU_ASSERT(failed > 0);
    }
}

/* The command of the user guide, on data that the program draws, and shorter. */
static void the_guide_has_a_command_that_works(void)
{
    static const char begins[] = "\nstepwell pbt --data idx:DIR ";
    char path[1024], line[2000];
    snprintf(path, sizeof path, "%s/tools/docs/populations.md", sw_source_root());
    const char *at = strstr(text_of(path), begins);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at += sizeof begins - 1;
    const char *name = strstr(at, "population.svg\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    snprintf(line, sizeof line, "pbt --quiet --synthetic-n 500 %.*s%s", (int)(name - at), at,
             sw_temp_path("guide.svg"));
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "\nbest: member ") != NULL,
             "%s: status %d: %s", line, outcome.status, outcome.err);
    CU_ASSERT_PTR_NULL(malformed(text_of(sw_temp_path("guide.svg")), SVG_BEGINS));
}

static const sw_test tests[] = {
    {"every population is drawn", every_population_is_drawn},
    {"members without scores have values", members_without_scores_have_values},
    {"equal runs have equal bytes", equal_runs_have_equal_bytes},
    {"a resumed run draws what a whole one does", a_resumed_run_draws_what_a_whole_one_does},
    {"long runs are thinned", long_runs_are_thinned},
    {"failures leave no part of a picture", failures_leave_no_part_of_a_picture},
    {"the guide has a command that works", the_guide_has_a_command_that_works},
    {"refusals come before the first step", refusals_come_before_the_first_step},
};
SW_SUITE("population plot", tests)
