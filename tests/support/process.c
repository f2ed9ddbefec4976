/* See process.h. Output goes to files in the temporary folder, so no pipe can fill up. */
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void output_path(char *path, size_t room, const char *tag, const char *which)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", tag, which);
    snprintf(path, room, "%s", sw_temp_path(name));
}

static void redirect(int to, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(126);
    close(fd);
}

pid_t sw_process_start(const char *tag, const char *const *argv, const char *const *env)
{
    char out[1024], err[1024];
    output_path(out, sizeof out, tag, "out");
    output_path(err, sizeof err, tag, "err");
    fflush(stdout);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    const int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        _exit(126);
    redirect(STDOUT_FILENO, out);
    redirect(STDERR_FILENO, err);
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        char name[256];
        const char *equal = strchr(env[i], '=');
        if (equal == NULL)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equal - env[i]), env[i]);
        setenv(name, equal + 1, 1);
    }
    char *list[64] = {0};
    for (size_t i = 0; i < 63 && argv[i] != NULL; i++)
        list[i] = strdup(argv[i]);
    execvp(list[0], list);
    _exit(127);
}

static void read_back(char *to, size_t room, const char *tag, const char *which)
{
    char path[1024];
    output_path(path, sizeof path, tag, which);
    FILE *file = fopen(path, "rb");
    const size_t n = file != NULL ? fread(to, 1, room - 1, file) : 0;
    to[n] = '\0';
    if (file != NULL)
        fclose(file);
}

void sw_process_wait(sw_outcome *out, pid_t pid, const char *tag, int timeout_s)
{
    const struct timespec pause = {0, 2000000};
    struct rusage usage;
    int status = 0;
    memset(out, 0, sizeof *out);
    memset(&usage, 0, sizeof usage);
    for (long waited = 0;; waited++) {
        const pid_t got = wait4(pid, &status, out->timed_out ? 0 : WNOHANG, &usage);
        if (got == pid || (got < 0 && errno != EINTR))
            break;
        if (waited > timeout_s * 500L && !out->timed_out) {
            out->timed_out = true;
            kill(pid, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    out->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->peak_bytes = (size_t)usage.ru_maxrss * 1024;
    read_back(out->out, sizeof out->out, tag, "out");
    read_back(out->err, sizeof out->err, tag, "err");
}

void sw_process_run(sw_outcome *out, const char *const *argv, const char *const *env,
                    int timeout_s)
{
    const pid_t pid = sw_process_start("process", argv, env);
    sw_process_wait(out, pid, "process", timeout_s);
}

int sw_shell(const char *format, ...)
{
    char line[1 << 14];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof line)
        return -1;
    const char *const argv[] = {"sh", "-c", line, NULL};
    static sw_outcome outcome;
    const pid_t pid = sw_process_start("shell", argv, NULL);
    sw_process_wait(&outcome, pid, "shell", 600);
    if (outcome.status != 0 && outcome.err[0] != '\0')
        sw_note("sh: %.500s", outcome.err);
    return outcome.status;
}

int sw_count_lines(const char *text)
{
    int lines = 0;
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n' || p[1] == '\0';
    return lines;
}
