/* Signals end what waits for the other end of a pipe, and locks and saves as `train` shows
 * them. */
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
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
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
    char tag[16];
    CU_ASSERT_FATAL(n <= 16);
    for (int i = 0; i < n; i++) {
        char words[6000], all[8000];
        expand(words, sizeof words, lines[i]);
        snprintf(all, sizeof all, "exec '%s' %s", program_path(), words);
        const char *const argv[] = {"sh", "-c", all, NULL};
        snprintf(tag, sizeof tag, "waiting%d", i);
        pid[i] = sw_process_start(tag, argv, NULL);
    }
    for (int i = 0; i < n; i++)
        SW_CHECK(waits(pid[i]), "%s: it does not wait", lines[i]);
    for (int i = 0; i < n; i++)
        (void)kill(pid[i], signals[i % 2]);
    for (int i = 0; i < n; i++) {
        snprintf(tag, sizeof tag, "waiting%d", i);
        sw_process_wait(&out, pid[i], tag, 10);
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

static void a_signal_ends_what_opens_a_pipe(void)
{
    static const char *const lines[] = {
        "train " SMALL "--profile @/pipe",
        "train " SMALL "--save-params @/pipe",
        "train " SMALL "--save-best @/pipe",
        "train " SMALL "--metrics @/pipe.csv",
        "report @/profile --format perfetto --out @/pipe",
        "report @/in1 --format perfetto",
        "place @/in2",
        "place @/problem.csv --out @/pipe",
    };
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

static void a_signal_ends_what_writes_to_a_full_pipe(void)
{
    static const char *const lines[] = {
        "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 --profile @/pipe",
        "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 --metrics @/pipe.csv",
        "train " SMALL "--save-params @/pipe",
        "train " SMALL "--json > @/full",
        "train " SMALL "> @/full",
        "train --synthetic-n 64 --batch 32 --steps 2 2> @/full",
        "report @/profile --format perfetto --out - > @/full",
    };
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
static void a_signal_ends_sampling(void)
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

/* A pipe is read once and has no size: what needs more is refused at once, by name. */
static void pipes_that_cannot_be_read_are_refused(void)
{
    static const char *const lines[] = {
        "train " SMALL "--load-params @/pipe", "train --quiet --data csv:@/pipe --model mlp",
        "train --quiet --data text:@/pipe --model gpt", "plan --data idx:@/idx --batch 4"};
    static sw_outcome out;
    new_folder("refused-pipes");
    CU_ASSERT_EQUAL_FATAL(mkfifo(at("pipe"), 0600), 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(at("idx"), 0700), 0);
    CU_ASSERT_EQUAL_FATAL(mkfifo(at("idx/train-images-idx3-ubyte"), 0600), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char words[3000];
        expand(words, sizeof words, lines[i]);
        const pid_t pid = program_start("refused", words, NULL);
        sw_process_wait(&out, pid, "refused", 20);
        SW_CHECK(program_failed_cleanly(&out, 3) && !out.timed_out &&
                     strstr(out.err, "regular file") != NULL &&
                     strstr(out.err, i < 3 ? "/pipe" : "/idx/train-images") != NULL,
                 "%s: status %d: %s", lines[i], out.status, out.err);
    }
}

/* A reader that is there gets all of it, also after the signal. */
static void what_is_read_is_written_whole(void)
{
    static sw_outcome out;
    char line[4000], words[8000];
    size_t n = 0;
    new_folder("whole");
    CU_ASSERT_EQUAL_FATAL(mkfifo(at("pipe"), 0600), 0);
    expand(line, sizeof line, "cat @/pipe > @/copy & exec ");
    const size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "'%s' ", program_path());
    expand(words, sizeof words,
           "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 --save-params @/pipe "
           "--metrics @/m.csv");
    strncat(line, words, sizeof line - strlen(line) - 1);
    const char *const argv[] = {"sh", "-c", line, NULL};
    const pid_t pid = sw_process_start("whole", argv, NULL);
    struct stat st;
    for (int i = 0; i < 400 && (stat(at("m.csv"), &st) != 0 || st.st_size < 500); i++)
        nap(25);
    CU_ASSERT_EQUAL(kill(pid, SIGTERM), 0);
    sw_process_wait(&out, pid, "whole", 60);
    SW_CHECK(out.status == 130, "status %d: %s", out.status, out.err);
    for (int i = 0; i < 100 && n == 0; i++) { /* cat may still write */
        nap(20);
        free(program_numbers(at("copy"), &n));
    }
    CU_ASSERT(n > 10000);
}

/* ---- locks and notes --------------------------------------------------------------------- */

static void a_profile_has_one_writer(void)
{
    static const struct {
        const char *first, *second, *names;
    } pairs[] = {
        {"--profile @/p", "--profile @/p", "/p: another process"},
        {"--metrics @/m.csv", "--metrics @/m.csv", "/m.csv: another process"},
    };
    static sw_outcome out;
    char words[4000];
    struct stat st;
    new_folder("locked");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char line[1000];
        snprintf(line, sizeof line,
                 "train --quiet --synthetic-n 64 --batch 32 --steps 100000000 %s",
                 pairs[i].first);
        expand(words, sizeof words, line);
        const char *file = at(i == 0 ? "p" : "m.csv");
        const pid_t pid = program_start("first", words, NULL);
        for (int k = 0; k < 400 && (stat(file, &st) != 0 || st.st_size < 500); k++)
            nap(25);
        snprintf(line, sizeof line, "train " SMALL "%s", pairs[i].second);
        expand(words, sizeof words, line);
        program_run(&out, words, NULL);
        SW_CHECK(program_failed_cleanly(&out, 1) && strstr(out.err, pairs[i].names) != NULL,
                 "%s: status %d: %s", line, out.status, out.err);
        CU_ASSERT_EQUAL(kill(pid, SIGTERM), 0);
        sw_process_wait(&out, pid, "first", 60);
        SW_CHECK(out.status == 130, "status %d: %s", out.status, out.err);
        program_run(&out, words, NULL); /* it is free again */
        SW_CHECK(out.status == 0, "%s: %s", words, out.err);
    }
}

/* The last two file operations of such a run open and sync the folder. */
static void a_save_of_unknown_durability_says_so(void)
{
    static sw_outcome out;
    char words[3000], plan[64];
    new_folder("durable");
    expand(words, sizeof words, "train " SMALL "--save-params @/x");
    program_run(&out, words, "STEPWELL_FAULT=file:count");
    const char *count = strstr(out.err, "file ");
    CU_ASSERT_FATAL(out.status == 0 && count != NULL);
    const long n = strtol(count + 5, NULL, 10);
    snprintf(plan, sizeof plan, "STEPWELL_FAULT=file:%ld", n - 1);
    program_run(&out, words, plan);
    SW_CHECK(out.status == 0 && strstr(out.err, "/x: saved, durability unknown") != NULL,
             "status %d: %s", out.status, out.err);
    CU_ASSERT(program_tensors(at("x")) != 0);
}

/* A run that was killed while it saved blocks no other, and its temporary file is removed. */
static void a_killed_save_blocks_no_other(void)
{
    static sw_outcome out;
    char words[3000];
    struct stat st;
    new_folder("killed");
    FILE *file = fopen(at("x.0123456789abcdef.tmp"), "w");
    CU_ASSERT_FATAL(file != NULL && fputs("half", file) >= 0 && fclose(file) == 0);
    expand(words, sizeof words, "train " SMALL "--save-params @/x");
    program_run(&out, words, NULL);
    SW_CHECK(out.status == 0 && out.err[0] == '\0', "status %d: %s", out.status, out.err);
    CU_ASSERT(program_tensors(at("x")) != 0);
    CU_ASSERT_EQUAL(stat(at("x.0123456789abcdef.tmp"), &st), -1);
}

/* Killed again and again while it starts, trains and saves, once every few steps: the
 * parameters that are there are whole, and the first run that is left alone sweeps up. */
static void a_run_that_is_killed_leaves_whole_parameters(void)
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

static const sw_test tests[] = {
    {"a signal ends what opens a pipe", a_signal_ends_what_opens_a_pipe},
    {"a signal ends what writes to a full pipe", a_signal_ends_what_writes_to_a_full_pipe},
    {"a signal ends sampling", a_signal_ends_sampling},
    {"pipes that cannot be read are refused", pipes_that_cannot_be_read_are_refused},
    {"what is read is written whole", what_is_read_is_written_whole},
    {"a profile has one writer", a_profile_has_one_writer},
    {"a save of unknown durability says so", a_save_of_unknown_durability_says_so},
    {"a killed save blocks no other", a_killed_save_blocks_no_other},
    {"a run that is killed leaves whole parameters",
     a_run_that_is_killed_leaves_whole_parameters},
};
SW_SUITE("waiting", tests)
