/* A run goes on without what the system lacks: limits that cannot be read, files without locks,
 * a disk that was full. It is said once. */
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include "runtime/base/checksum.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NET "--model mlp --hidden 8 --synthetic-n 64 "
#define TRAIN "train --quiet --schedule constant --epochs 9 --batch 16 " NET "--steps "
#define ES "es --quiet --population 4 --test-every 100 " NET "--generations "
#define PBT "pbt --quiet --members 2 --steps 4 --interval 2 lr=log:1e-3..1e-1 " NET

static sw_outcome outcome;

/* "@" stands for the folder, and `env` may be NULL. */
static const sw_outcome *run_with(const char *env, const char *words)
{
    char line[4000];
    size_t n = 0;
    for (const char *c = words; *c != '\0' && n + 1100 < sizeof line; c++)
        if (*c == '@')
            n += (size_t)snprintf(line + n, sizeof line - n, "%s", going_at(""));
        else
            line[n++] = *c;
    line[n] = '\0';
    program_run(&outcome, line, env);
    return &outcome;
}

static int times(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

/* ---- limits ------------------------------------------------------------------------------ */

/* Every file operation of a run fails in turn: those of the limits end none, and --process says
 * why the limit is not known. */
static void a_limit_that_cannot_be_read_ends_no_run(void)
{
    static const char *const commands[] = {
        "train --quiet --json --steps 1 --process " NET,
        "es --quiet --json --generations 1 --population 4 " NET,
        "eval --quiet --json --load-params @/P " NET,
    };
    if (access("/proc/self/cgroup", R_OK) != 0)
        SW_SKIP("no /proc/self/cgroup");
    going_new_folder("limits");
    CU_ASSERT_EQUAL(run_with(NULL, "train --quiet --steps 1 --save-params @/P " NET)->status,
                    0);
    for (int i = 0; i < 3; i++) {
        int unknown = 0, hits = 1;
        for (int k = 0; k < 40 && hits > 0; k++) {
            char env[40];
            snprintf(env, sizeof env, "STEPWELL_FAULT=file:%d", k);
            const sw_outcome *o = run_with(env, commands[i]);
            hits = strstr(o->err, "no call failed") == NULL;
            SW_CHECK(strstr(o->err, "/cgroup") == NULL && strstr(o->err, "/memory.") == NULL,
                     "%s: %s: status %d: %s", env, commands[i], o->status, o->err);
            const char *said = strstr(o->out, "\"limit_unknown\":\"");
            if (said == NULL)
                continue;
            SW_CHECK(o->status == 0 && times(o->out, "limit_unknown") == 1 &&
                         (strstr(said, "/cgroup") != NULL || strstr(said, "/memory.") != NULL),
                     "%s: status %d: %s", env, o->status, said);
            unknown++;
        }
        CU_ASSERT(i > 0 || unknown >= 2);
    }
    const sw_outcome *o = run_with(NULL, commands[0]);
    CU_ASSERT(o->status == 0 && times(o->out, "limit_unknown") == 1);
}

/* In the text too, where the system refuses to open the file. */
static void the_text_says_it_once(void)
{
    going_new_folder("limits");
    for (int k = 0; k < 20; k++) {
        char env[40];
        snprintf(env, sizeof env, "STEPWELL_FAULT=file:%d", k);
        const sw_outcome *o = run_with(env, "train --quiet --steps 1 --process " NET);
        if (times(o->out, "limit unknown: ") == 0)
            continue;
        SW_CHECK(o->status == 0 && times(o->out, "limit unknown: ") == 1 &&
                     strstr(o->err, "/cgroup") == NULL,
                 "%s: status %d: %s%s", env, o->status, o->out, o->err);
        return;
    }
    if (access("/proc/self/cgroup", R_OK) == 0)
        CU_FAIL("no limit was unknown");
}

/* ---- locks ------------------------------------------------------------------------------- */

/* Without locks another run could save to the same file: it is said once, and the run goes on.
 */
static void without_locks_it_is_said_once(void)
{
    static const char *const commands[] = {
        TRAIN "2 --checkpoint @/C1 --metrics @/M.csv",
        TRAIN "4 --checkpoint @/C1 --resume --metrics @/M.csv",
        "es --quiet --generations 1 --population 4 --checkpoint @/C2 " NET,
        PBT "--checkpoint @/C3",
        "evolve --quiet --synthetic-n 60 --population 2 --samples 4 --generations 1 --out @/E",
    };
    static const char says[] = ": the file system has no locks: another run could save to it";
    if (!SW_HAVE_XXHASH)
        SW_SKIP("without libxxhash there are no checkpoints");
    going_new_folder("locks");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const sw_outcome *o = run_with("STEPWELL_FAULT=lock:0+", commands[i]);
        SW_CHECK(o->status == 0 && times(o->err, says) == 1, "%s: status %d: %s", commands[i],
                 o->status, o->err);
    }
    const sw_outcome *o = run_with(NULL, "train --quiet --steps 2 --checkpoint @/C4 " NET);
    CU_ASSERT(o->status == 0 && times(o->err, "locks") == 0);
}

/* ---- metrics ----------------------------------------------------------------------------- */

/* Lines of a file, and whether the last is whole; -1: it is not. */
static int lines_of(const char *name)
{
    size_t n;
    int lines = 0;
    char *text = (char *)file_read(going_at(name), &n);
    for (size_t i = 0; text != NULL && i < n; i++)
        lines += text[i] == '\n';
    const bool whole = text != NULL && n > 0 && text[n - 1] == '\n';
    free(text);
    return whole ? lines : -1;
}

/* The head and a part of the first row. */
static void cut_file(const char *name)
{
    size_t n;
    char *text = (char *)file_read(going_at(name), &n), *end;
    CU_ASSERT_FATAL(text != NULL && (end = memchr(text, '\n', n)) != NULL &&
                    file_write(going_at(name), text, (size_t)(end - text) + 9));
    free(text);
}

#define FILES " --checkpoint @/C --metrics @/M.csv"

/* A power cut took the end of the file: rows go on after its last whole one, in all commands.
 */
static void shorter_metrics_go_on(void)
{
    static const struct {
        const char *first, *then;
        int again; /* rows of the first run that are written after its checkpoint */
    } runs[] = {
        {TRAIN "3" FILES, TRAIN "5 --resume" FILES, 0},
        {ES "2" FILES, ES "4 --resume" FILES, 1},
        {PBT FILES, PBT "--resume" FILES, 0},
    };
    if (!SW_HAVE_XXHASH)
        SW_SKIP("without libxxhash there are no checkpoints");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        going_new_folder("shorter");
        const sw_outcome *o = run_with(NULL, runs[i].first);
        const int first = lines_of("M.csv");
        SW_CHECK(o->status == 0 && first > 2, "%s: status %d: %s", runs[i].first, o->status,
                 o->err);
        going_copy("C", "C.kept");
        going_copy("M.csv", "whole");
        o = run_with(NULL, runs[i].then);
        const int all = lines_of("M.csv");
        SW_CHECK(o->status == 0 && all >= first, "%s: status %d: %s", runs[i].then, o->status,
                 o->err);
        going_copy("C.kept", "C");
        going_copy("whole", "M.csv");
        cut_file("M.csv");
        o = run_with(NULL, runs[i].then);
        SW_CHECK(o->status == 0 && times(o->err, "M.csv: rows are missing: it has ") == 1,
                 "%s: status %d: %s", runs[i].then, o->status, o->err);
        const int left = all - (first - 1 - runs[i].again);
        SW_CHECK(lines_of("M.csv") == left, "%s: %d lines, not %d", runs[i].then,
                 lines_of("M.csv"), left);
        o = run_with(NULL, runs[i].then);
        SW_CHECK(o->status == 0 && times(o->err, "missing") == 0, "%s: status %d: %s",
                 runs[i].then, o->status, o->err);
        going_put("M.csv", "another file\n");
        o = run_with(NULL, runs[i].then);
        size_t n;
        char *text = (char *)file_read(going_at("M.csv"), &n);
        SW_CHECK(o->status == 3 && strstr(o->err, "it is another file") != NULL && n == 13,
                 "%s: status %d: %s", runs[i].then, o->status, o->err);
        free(text);
    }
}

/* A row that met a full disk fails its run; those that go on say what is missing, and end well.
 */
static void lost_rows_fail_no_later_run(void)
{
    static const char first[] = TRAIN "3" FILES, then[] = TRAIN "6 --resume" FILES;
    int lost = 0;
    if (!SW_HAVE_XXHASH)
        SW_SKIP("without libxxhash there are no checkpoints");
    for (int k = 10; k < 120 && lost < (sw_tests_full() ? 100 : 2); k++) {
        char env[40];
        snprintf(env, sizeof env, "STEPWELL_FAULT=file:%d", k);
        going_new_folder("lost");
        const sw_outcome *o = run_with(env, first);
        if (strstr(o->err, "no call failed") != NULL)
            break;
        if (o->status != 1 || !going_exists("C") ||
            strstr(o->err, "M.csv: Input/output") == NULL)
            continue;
        for (int again = 0; again < 2; again++) {
            o = run_with(NULL, then);
            if (strstr(o->err, "rows are missing from step ") == NULL)
                break; /* a sync that failed, not a row */
            lost += again == 0;
            SW_CHECK(o->status == 0 && times(o->err, "rows are missing") == 1,
                     "%s: status %d: %s", env, o->status, o->err);
        }
    }
    CU_ASSERT(lost >= 2);
}

static const sw_test tests[] = {
    {"a limit that cannot be read ends no run", a_limit_that_cannot_be_read_ends_no_run},
    {"the text says it once", the_text_says_it_once},
    {"without locks it is said once", without_locks_it_is_said_once},
    {"shorter metrics go on", shorter_metrics_go_on},
    {"lost rows fail no later run", lost_rows_fail_no_later_run},
};
SW_SUITE("poor systems", tests)
