/* On a terminal, and not: progress lines, colours, Ctrl-C pressed twice. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

SW_TESTS("terminal")

#define SMALL "train --model mlp --hidden 16 --synthetic-n 400 --batch 16 --epochs 3 "
#define WIPE "\r\033[K"

static char shown[1 << 16];

/* NULL where there are no terminals. */
static const char *on_terminal(const char *words, const char *term, const char *no_color,
                               int columns, int status)
{
    const char *terms = sw_textf("TERM=%s", term);
    const char *colors = sw_textf("NO_COLOR=%s", no_color);
    const char *const env[] = {terms, colors, NULL};
    const int got = program_on_terminal(shown, sizeof shown, words, env, columns);
    if (got < 0 && errno != 0)
        return NULL;
    SW_CHECK(got == status, "%s: status %d: %s", words, got, shown);
    return shown;
}

SW_TEST("progress is drawn on a terminal, and wiped")
{
    const char *text = on_terminal(SMALL, "xterm", "", 100, 0);
    if (text == NULL)
        SW_SKIP("no terminal can be made here");
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\repoch 1  step 1/75  loss "));
    /* Each line begins at the left and wipes the rest of the one before. The last line is
     * wiped too, and no later line follows on it. */
    int drawn = 0;
    const char *last = text;
    for (const char *at = strstr(text, "\033[K"); at != NULL;
         at = strstr(at + 1, "\033[K"), drawn++)
        last = at;
    CU_ASSERT(drawn >= 6);
    CU_ASSERT(last > text && last[-1] == '\r');
    CU_ASSERT_PTR_NOT_NULL(strstr(last, "accuracy")); /* the result, on lines of its own */
}

SW_TEST("progress fits the width of the terminal")
{
    const char *text = on_terminal(SMALL, "xterm", "", 20, 0);
    if (text == NULL)
        SW_SKIP("no terminal can be made here");
    int drawn = 0;
    for (const char *at = strstr(text, "\033[K"); at != NULL; at = strstr(at + 1, "\033[K")) {
        const char *begin = at;
        while (begin > text && begin[-1] != '\r')
            begin--;
        SW_CHECK(at - begin <= 19, "%.*s", (int)(at - begin), begin);
        drawn += at > begin;
    }
    CU_ASSERT(drawn > 0);
}

/* Only the result, and nothing that moves, where lines cannot be wiped or are switched
 * off. */
SW_TEST("nothing moves in files, on dumb terminals or with --quiet")
{
    static sw_outcome outcome;
    const char *text = on_terminal(SMALL, "dumb", "", 100, 0);
    if (text == NULL)
        SW_SKIP("no terminal can be made here");
    CU_ASSERT_PTR_NULL(strchr(text, '\033'));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "epoch 3  step 75")); /* lines per epoch stay */
    text = on_terminal(SMALL "--quiet", "xterm", "1", 100, 0);
    CU_ASSERT(text != NULL && strchr(text, '\033') == NULL && strstr(text, "epoch 1 ") == NULL);
    program_run(&outcome, SMALL, "TERM=xterm");
    CU_ASSERT_PTR_NULL(strpbrk(outcome.err, "\r\033"));
    CU_ASSERT_PTR_NULL(strpbrk(outcome.out, "\r\033"));
    CU_ASSERT_EQUAL(sw_count_lines(outcome.err), 3); /* one per epoch */
    program_run(&outcome, SMALL "--quiet", "TERM=xterm");
    CU_ASSERT_EQUAL(outcome.err[0], '\0');
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "accuracy"));
}

SW_TEST("colours are for terminals that want them")
{
    static sw_outcome outcome;
    static const struct {
        const char *words, *colour;
        int status;
    } cases[] = {{"train --batch 0", "\033[31m", 2},
                 {"plan --synthetic-n 40 --batch 8", "\033[1m", 0}};
    for (size_t i = 0; i < 2; i++) {
        const char *words = cases[i].words, *colour = cases[i].colour;
        const char *text = on_terminal(words, "xterm", "", 100, cases[i].status);
        if (text == NULL)
            SW_SKIP("no terminal can be made here");
        SW_CHECK(strstr(text, colour) != NULL, "%s: no colour: %s", words, text);
        text = on_terminal(words, "xterm", "1", 100, cases[i].status);
        SW_CHECK(text != NULL && strchr(text, '\033') == NULL, "%s: NO_COLOR is not heeded",
                 words);
        text = on_terminal(words, "dumb", "", 100, cases[i].status);
        SW_CHECK(text != NULL && strchr(text, '\033') == NULL, "%s: colours when dumb", words);
        program_run(&outcome, words, "TERM=xterm");
        SW_CHECK(strchr(outcome.err, '\033') == NULL && strchr(outcome.out, '\033') == NULL,
                 "%s: colours in a file", words);
    }
}

/* ---- Ctrl-C ------------------------------------------------------------------------------ */

/* Whether the process has a handler for SIGINT; -1 when it cannot be seen. */
static int handles_interrupt(pid_t pid)
{
    char line[256];
    int found = -1;
    FILE *file = fopen(sw_textf("/proc/%ld/status", (long)pid), "r");
    while (file != NULL && found < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "SigCgt:", 7) == 0)
            found = (int)(strtoull(line + 7, NULL, 16) >> (SIGINT - 1) & 1u);
    if (file != NULL)
        fclose(file);
    return found;
}

/* Wait up to 20 s until handles_interrupt() is `state`; not for a process that has gone. */
static bool wait_for(pid_t pid, int state)
{
    const struct timespec pause = {0, 1000000};
    int now = handles_interrupt(pid);
    for (int i = 0; i < 20000 && now != state && now >= 0; i++) {
        nanosleep(&pause, NULL);
        now = handles_interrupt(pid);
    }
    return now == state;
}

/* The first one asks for an end after the running step, which is a long one here; the second,
 * of whatever kind, does not wait for it. */
SW_TEST("a second Ctrl-C ends at once")
{
    static sw_outcome outcome;
    static const int pairs[][2] = {{SIGINT, SIGINT}, {SIGINT, SIGTERM}, {SIGHUP, SIGINT}};
    const struct timespec begin = {0, 300000000};
    if (handles_interrupt(getpid()) < 0)
        SW_SKIP("/proc does not show signal handlers here");
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const pid_t pid = program_start(
            "twice",
            "train --quiet --isa base --model mlp --hidden 2048,2048 --optimizer sgd "
            "--synthetic-n 4096 --batch 4096 --epochs 100",
            NULL);
        const bool caught = wait_for(pid, 1);
        nanosleep(&begin, NULL); /* data and plans; then the step of seconds */
        kill(pid, pairs[i][0]);
        const bool taken = caught && wait_for(pid, 0);
        kill(pid, pairs[i][1]);
        sw_process_wait(&outcome, pid, "twice", 30);
        SW_CHECK(taken && outcome.signal == pairs[i][1],
                 "%d, then %d: status %d, signal %d: %s", pairs[i][0], pairs[i][1],
                 outcome.status, outcome.signal, outcome.err);
    }
}
