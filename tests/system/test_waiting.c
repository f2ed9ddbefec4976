/* Signals end what waits for the other end of a pipe; locks and notes are in
 * transcripts/waiting.txt. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("waiting")

#define SMALL "--quiet --synthetic-n 64 --batch 32 --steps 2 "

static char folder[900];

static void new_folder(const char *name)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
}

static const char *at(const char *name)
{
    static char paths[8][1200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* "@/name" in `line` is a path in the folder of the test. */
static void expand(char *to, size_t room, const char *line)
{
    size_t used = 0;
    for (const char *p = line; *p != '\0' && used + 1 < room; p++)
        if (*p == '@')
            used += (size_t)snprintf(to + used, room - used, "%s", folder);
        else
            to[used++] = *p;
    to[used < room ? used : room - 1] = '\0';
}

static void nap(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* The state of a process, 'S' where it waits, and the processor time that it took. */
static char state_of(pid_t pid, unsigned long *ticks)
{
    char text[1024] = "";
    FILE *file = fopen(sw_textf("/proc/%ld/stat", (long)pid), "r");
    const size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file != NULL)
        fclose(file);
    const char *end = strrchr(text, ')');
    char state = '?';
    unsigned long user = 0, kernel = 0;
    if (end == NULL || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                              &state, &user, &kernel) != 3)
        return '?';
    *ticks = user + kernel;
    return state;
}

/* Until it took no time for a while: it waits. */
static bool waits(pid_t pid)
{
    unsigned long before = 0, now = 0;
    int quiet = 0;
    for (int i = 0; i < 600 && quiet < 8; i++) {
        const char state = state_of(pid, &now);
        if (state == 'Z' || state == '?')
            return false;
        quiet = state == 'S' && now == before ? quiet + 1 : 0;
        before = now;
        nap(50);
    }
    return quiet >= 8;
}

/* Run by sh, so that standard output can be led anywhere: all at once, and once they wait, a
 * signal ends each. */
static void end_by_signal(const char *const *lines, int n)
{
    static sw_outcome out;
    static const int signals[] = {SIGTERM, SIGINT};
    pid_t pid[16];
    CU_ASSERT_FATAL(n <= 16);
    for (int i = 0; i < n; i++) {
        char words[6000];
        expand(words, sizeof words, lines[i]);
        const char *all = sw_textf("exec '%s' %s", program_path(), words);
        const char *const argv[] = {"sh", "-c", all, NULL};
        pid[i] = sw_process_start(sw_textf("waiting%d", i), argv, NULL);
    }
    for (int i = 0; i < n; i++)
        SW_CHECK(waits(pid[i]), "%s: it does not wait", lines[i]);
    for (int i = 0; i < n; i++)
        (void)kill(pid[i], signals[i % 2]);
    for (int i = 0; i < n; i++) {
        sw_process_wait(&out, pid[i], sw_textf("waiting%d", i), 10);
        SW_CHECK(out.status == 130 && !out.timed_out, "%s, signal %d: status %d, signal %d: %s",
                 lines[i], signals[i % 2], out.status, out.signal, out.err);
    }
}

/* Outputs to pipes, inputs from pipes, and standard output. */
static void train_for_the_rest(void)
{
    static sw_outcome out;
    char words[3000];
    expand(words, sizeof words, "train " SMALL "--profile @/profile");
    program_run(&out, words, NULL);
    SW_CHECK(out.status == 0, "%s", out.err);
}

SW_TEST("a signal ends what opens a pipe")
{
    static const char *const lines[] = SW_INIT(
        "train " SMALL "--profile @/pipe", "train " SMALL "--save-params @/pipe",
        "train " SMALL "--save-best @/pipe", "train " SMALL "--metrics @/pipe.csv",
        "report @/profile --format perfetto --out @/pipe", "report @/in1 --format perfetto",
        "place @/in2", "place @/problem.csv --out @/pipe");
    new_folder("opening");
    train_for_the_rest();
    CU_ASSERT_FATAL(mkfifo(at("pipe"), 0600) == 0 && mkfifo(at("pipe.csv"), 0600) == 0);
    CU_ASSERT_FATAL(mkfifo(at("in1"), 0600) == 0 && mkfifo(at("in2"), 0600) == 0);
    FILE *file = fopen(at("problem.csv"), "w");
    CU_ASSERT_FATAL(file != NULL && fputs("id,lower,upper,size\na,0,2,64\n", file) >= 0);
    fclose(file);
    end_by_signal(lines, (int)(sizeof lines / sizeof *lines));
}

/* A pipe that is no longer read; `full`: nothing more fits from the beginning. */
static int stopped_reader(const char *path, bool full)
{
    char block[4096] = {0};
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR | O_NONBLOCK);
    CU_ASSERT_FATAL(fd >= 0);
    while (full && write(fd, block, sizeof block) > 0) {
    }
    return fd;
}

SW_TEST("a signal ends what writes to a full pipe")
{
    static const char *const lines[] = SW_INIT(
        "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 --profile @/pipe",
        "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 --metrics @/pipe.csv",
        "train " SMALL "--save-params @/pipe", "train " SMALL "--json > @/full",
        "train " SMALL "> @/full", "train --synthetic-n 64 --batch 32 --steps 2 2> @/full",
        "report @/profile --format perfetto --out - > @/full");
    new_folder("full-pipe");
    train_for_the_rest();
    const int readers[] = {stopped_reader(at("pipe"), true),
                           stopped_reader(at("pipe.csv"), false),
                           stopped_reader(at("full"), true)};
    end_by_signal(lines, (int)(sizeof lines / sizeof *lines));
    for (int i = 0; i < 3; i++)
        close(readers[i]);
}

/* Text to a reader that has stopped. */
SW_TEST("a signal ends sampling")
{
#define GPT "--layers 1 --heads 1 --width 8 --context 8 "
    static sw_outcome out;
    char words[3000];
    new_folder("sampling");
    FILE *file = fopen(at("text"), "w");
    for (int i = 0; file != NULL && i < 100; i++)
        fputs("a line of text. ", file);
    CU_ASSERT_FATAL(file != NULL && fclose(file) == 0);
    expand(words, sizeof words,
           "train --quiet --model gpt --data text:@/text " GPT
           "--batch 4 --steps 1 --save-params @/params");
    program_run(&out, words, NULL);
    SW_CHECK(out.status == 0, "%s", out.err);
    const int reader = stopped_reader(at("full"), true);
    end_by_signal((const char *const[]){"sample " GPT
                                        "--load-params @/params --tokens 100000000 > @/full"},
                  1);
    close(reader);
}

/* Killed again and again while it starts, trains and saves, once every few steps: the
 * parameters that are there are whole, and the first run that is left alone sweeps up. */
SW_TEST("a run that is killed leaves whole parameters")
{
    static sw_outcome out;
    char words[3000];
    const uint64_t kills = sw_tests_full() ? 25 : 9;
    uint64_t killed = 0;
    int saved = 0;
    struct stat st;
    new_folder("killed-often");
    expand(words, sizeof words,
           "train --quiet --synthetic-n 64 --batch 32 --epochs 100000000 --save-best @/x");
    for (uint64_t i = 0; i < kills; i++) {
        program_run_killed(&out, words, NULL, 1000 + i * (160000 / kills));
        killed += out.signal == SIGKILL;
        if (stat(at("x"), &st) != 0)
            continue;
        saved++;
        SW_CHECK(program_tensors(at("x")) != 0, "kill %llu: %lld bytes", (unsigned long long)i,
                 (long long)st.st_size);
    }
    CU_ASSERT_EQUAL(killed, kills);
    CU_ASSERT(saved > 0);
    expand(words, sizeof words, "train " SMALL "--save-params @/x");
    program_run(&out, words, NULL);
    SW_CHECK(out.status == 0, "status %d: %s", out.status, out.err);
    CU_ASSERT_EQUAL(sw_shell("ls '%s' | grep -q tmp", folder), 1);
    sw_note("%d kills, %d times there were parameters", (int)killed, saved);
}
