/* The files of `stepwell train` after a signal: none is destroyed before the first step, and
 * later each has whole lines; refusals are in transcripts/files.txt. */
#include "tests/support/read_tfevents.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("files")

static char folder[1000];

/* A path in an empty folder of this test. Valid until the eighth next call. */
static const char *at(const char *name)
{
    static char path[8][1200];
    static unsigned next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static void new_folder(const char *name)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    (void)sw_shell("rm -rf '%s'", folder);
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
}

static void put(const char *name, const char *text)
{
    CU_ASSERT(file_write(at(name), text, strlen(text)));
}

static bool has_text(const char *name, const char *text)
{
    size_t n;
    char *bytes = (char *)file_read(at(name), &n);
    const bool same = bytes != NULL && n == strlen(text) && memcmp(bytes, text, n) == 0;
    free(bytes);
    return same;
}

static bool exists(const char *name)
{
    return access(at(name), F_OK) == 0;
}

/* A mask of signals that the system reports for a process ("SigCgt"); 0 when it does not. */
static unsigned long long signals_of(pid_t pid, const char *which)
{
    char line[256];
    unsigned long long mask = 0;
    FILE *file = fopen(sw_textf("/proc/%ld/status", (long)pid), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, which, strlen(which)) == 0)
            (void)sscanf(line + strlen(which) + 1, "%llx", &mask);
    if (file != NULL)
        fclose(file);
    return mask;
}

/* Wait until the process catches one of the two, and send the other or the same. */
static bool send_when_caught(pid_t pid, int caught, int sent)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 10000; i++) {
        if ((signals_of(pid, "SigCgt") >> (caught - 1) & 1) != 0)
            return kill(pid, sent) == 0;
        nanosleep(&pause, NULL);
    }
    (void)kill(pid, SIGKILL);
    return false;
}

SW_TEST("a signal before the first step touches no file")
{
    static sw_outcome outcome;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    if (signals_of(getpid(), "SigBlk") == 0 && access("/proc/self/status", R_OK) != 0)
        SW_SKIP("the system does not tell which signals a process catches");
    new_folder("early");
    for (int i = 0; i < 3; i++) {
        put("best", "parameters");
        put("profile", "old");
        const pid_t pid = program_start(
            "early",
            sw_textf("train --quiet --json --synthetic-n 20000 --save-params %s --profile %s",
                     at("best"), at("profile")),
            NULL);
        CU_ASSERT(send_when_caught(pid, signals[i], signals[i]));
        sw_process_wait(&outcome, pid, "early", 60);
        SW_CHECK(program_failed_cleanly(&outcome, 130) &&
                     strstr(outcome.err, "no file was written") != NULL,
                 "signal %d: status %d, signal %d: %s%s", signals[i], outcome.status,
                 outcome.signal, outcome.out, outcome.err);
        CU_ASSERT(has_text("best", "parameters") && has_text("profile", "old"));
    }
}

/* Wait until a file has this much; false when it takes too long. */
static bool wait_for_bytes(const char *name, size_t bytes)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 20000; i++) {
        struct stat st;
        if (stat(at(name), &st) == 0 && (size_t)st.st_size > bytes)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Ctrl-C, a terminal that goes and a killed process leave whole lines of metrics and the best
 * parameters so far; but for the last the parameters are saved too, and there is a result. */
SW_TEST("a run that is ended keeps its metrics")
{
    static sw_outcome outcome;
    static const int signals[] = {SIGINT, SIGHUP, SIGKILL};
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    new_folder("ended");
    for (int i = 0; i < 3; i++) {
        const bool killed = signals[i] == SIGKILL;
        size_t n;
        (void)unlink(at("m.csv"));
        const pid_t pid = program_start(
            "ended",
            sw_textf("train --json --synthetic-n 64 --batch 32 --epochs 100000000 --metrics %s "
                     "--save-best %s --save-params %s",
                     at("m.csv"), at("best"), at("last")),
            NULL);
        CU_ASSERT(wait_for_bytes("m.csv", 2000));
        CU_ASSERT_EQUAL(kill(pid, signals[i]), 0);
        sw_process_wait(&outcome, pid, "ended", 60);
        SW_CHECK(killed ? outcome.signal == SIGKILL
                        : outcome.status == 130 && program_number(outcome.out, "steps") > 1.0,
                 "signal %d: status %d, signal %d: %s", signals[i], outcome.status,
                 outcome.signal, outcome.err);
        char *text = (char *)file_read(at("m.csv"), &n);
        CU_ASSERT(text != NULL && n > 2000 && text[n - 1] == '\n');
        free(text);
        CU_ASSERT(program_tensors(at("best")) != 0);
        CU_ASSERT_EQUAL(exists("last"), !killed);
        (void)unlink(at("best"));
        (void)unlink(at("last"));
    }
}

/* Killed at any moment: what the file of events has reads as whole records to its end. */
SW_TEST("a run that is killed keeps its events")
{
    static sw_outcome outcome;
    new_folder("events");
    for (int i = 0; i < 3; i++) {
        size_t n;
        const pid_t pid = program_start(
            "events",
            sw_textf(
                "train --quiet --synthetic-n 64 --batch 32 --epochs 100000000 --metrics %s",
                at("events.out.tfevents.k")),
            NULL);
        CU_ASSERT(wait_for_bytes("events.out.tfevents.k", 3000));
        CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
        sw_process_wait(&outcome, pid, "events", 60);
        unsigned char *bytes = file_read(at("events.out.tfevents.k"), &n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        const tfevents_read r = tfevents_read_all(bytes, n, NULL, NULL);
        SW_CHECK(outcome.signal == SIGKILL && r.wrong == NULL && r.whole == n && r.records > 5,
                 "signal %d, %zu of %zu bytes: %s", outcome.signal, r.whole, n, r.wrong);
        free(bytes);
        (void)unlink(at("events.out.tfevents.k"));
    }
}

/* nohup and job control ask for that. */
SW_TEST("an ignored signal stays ignored")
{
    static sw_outcome outcome;
    static const struct {
        const char *name;
        int signal;
    } ignored[] = {{"INT", SIGINT}, {"HUP", SIGHUP}};
    if (access("/proc/self/status", R_OK) != 0)
        SW_SKIP("the system does not tell which signals a process catches");
    for (int i = 0; i < 2; i++) {
        const char *line =
            sw_textf("trap '' %s; exec '%s' train --quiet --synthetic-n 20000 --steps 1",
                     ignored[i].name, program_path());
        const char *const argv[] = {"sh", "-c", line, NULL};
        const pid_t pid = sw_process_start("ignored", argv, NULL);
        CU_ASSERT(send_when_caught(pid, SIGTERM, ignored[i].signal));
        sw_process_wait(&outcome, pid, "ignored", 60);
        SW_CHECK(outcome.status == 0, "%s: status %d, signal %d: %s", ignored[i].name,
                 outcome.status, outcome.signal, outcome.err);
    }
}
